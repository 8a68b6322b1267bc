# SPDX-License-Identifier: GPL-2.0-only
"""The ratio of two figures that were measured independently, with its 95 % interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from nfsmulti.stats.sample import Sample

_CONFIDENCE = 0.95
_CONSTANT = 1e-9  # what varies less than by such a part does not vary


@dataclass(frozen=True)
class Ratio:
    """A ratio of geometric means; `low`, `high` and `p` are None where there is no interval.

    `p` is the two-sided probability of such a ratio, or one further from 1, if there were no
    difference (Welch's t test of the logarithms).
    """

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @classmethod
    def of(cls, over: Sample | None, under: Sample | None) -> Ratio | None:
        """Give `over` : `under`; None where one is missing or holds a value that is not above 0.

        The interval takes two values or more on either side.
        """
        if over is None or under is None or min(over.values + under.values) <= 0:
            return None
        return cls.together([(over, under)])

    @classmethod
    def together(cls, pairs: Sequence[tuple[Sample, Sample]]) -> Ratio:
        """Give the geometric mean of several ratios, whose values are above 0; one pair at least.

        The interval is Welch's for one pair, and for several by the same rule: Satterthwaite's
        degrees of freedom of the sum of all variances. It takes two values or more in each sample.
        """
        sides = [[math.log(value) for value in side.values] for pair in pairs for side in pair]
        means = [statistics.fmean(side) for side in sides]
        log = (math.fsum(means[0::2]) - math.fsum(means[1::2])) / len(pairs)
        value = math.exp(log)
        if min(map(len, sides)) < 2:
            return cls(value)
        if max(map(statistics.pstdev, sides)) < _CONSTANT:  # Welch's t is 0/0 there
            return cls(value, value, value, float(abs(log) < _CONSTANT))
        from scipy import stats  # takes a second to load

        parts = [statistics.variance(side) / len(side) / len(pairs) ** 2 for side in sides]
        error = math.sqrt(math.fsum(parts))
        freedom = math.fsum(parts) ** 2 / math.fsum(
            part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True)
        )
        half = math.exp(error * float(stats.t.ppf((1 + _CONFIDENCE) / 2, freedom)))
        p = 2 * float(stats.t.sf(abs(log) / error, freedom))
        return cls(value, value / half, value * half, p)

    @property
    def spans_one(self) -> bool | None:
        """Whether the interval holds 1; None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= 1 <= self.high

    def above(self, limit: float) -> bool | None:
        """Tell whether the interval lies above `limit`; None where it spans it.

        Without an interval the ratio alone has to tell.
        """
        if (self.value if self.low is None else self.low) > limit:
            return True
        if (self.value if self.high is None else self.high) <= limit:
            return False
        return None

    @property
    def text(self) -> str:
        """The ratio with its interval: "4.86 (4.71 to 5.02)"."""
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"
