# SPDX-License-Identifier: GPL-2.0-only
"""The ratio of two figures, with its 95 % interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from nfsmulti.stats.sample import FEWEST, Sample

_CONFIDENCE = 0.95
_CONSTANT = 1e-9  # what varies less than by such a part does not vary


@dataclass(frozen=True)
class Ratio:
    """A ratio of geometric means; `low`, `high` and `p` are None where there is no interval.

    `p` is the two-sided probability of such a ratio, or one further from 1, if there were no
    difference (Student's t test of the logarithms). Of a paired one, `n` counts the pairs, and
    `spread` is the standard deviation of the logarithms of their ratios, None for one pair alone.
    """

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0
    spread: float | None = None

    @classmethod
    def paired(cls, over: Sequence[float], under: Sequence[float]) -> Ratio:
        """Give `over` : `under` of figures above 0 that were measured in blocks, one pair in each.

        What changes from block to block changes both figures of a pair, and leaves their ratio.
        The ratio is the geometric mean of the pairs' ratios. Its interval is Student's, of the
        mean of their logarithms, and takes three pairs.
        """
        logs = [math.log(a / b) for a, b in zip(over, under, strict=True)]
        spread = statistics.stdev(logs) if len(logs) > 1 else None
        return cls._of_logs(statistics.fmean(logs), spread, len(logs))

    @classmethod
    def unpaired(cls, samples: Sequence[tuple[Sample, Sample]]) -> Ratio:
        """Give the ratio of figures above 0 that were measured at different times.

        Of several pairs of samples, each `over` and `under`, it is the geometric mean of their
        ratios. The interval is Welch's for one pair, and for several by the same rule:
        Satterthwaite's degrees of freedom of the sum of all variances. It takes two values or more
        in each sample.
        """
        sides = [[math.log(value) for value in side.values] for pair in samples for side in pair]
        means = [statistics.fmean(side) for side in sides]
        log = (math.fsum(means[0::2]) - math.fsum(means[1::2])) / len(samples)
        if min(map(len, sides)) < 2:
            return cls(math.exp(log))
        if max(map(statistics.pstdev, sides)) < _CONSTANT:  # Welch's t is 0/0 there
            return cls._with_interval(log, 0.0, 1.0)
        parts = [statistics.variance(side) / len(side) / len(samples) ** 2 for side in sides]
        freedom = math.fsum(parts) ** 2 / math.fsum(
            part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True)
        )
        return cls._with_interval(log, math.sqrt(math.fsum(parts)), freedom)

    def repeated(self, n: int) -> Ratio | None:
        """Give what `n` pairs would tell that vary as these do; None where that is not known."""
        if self.spread is None:
            return None
        return self._of_logs(math.log(self.value), self.spread, n)

    def pairs_to_tell(self, limit: float, most: int) -> int | None:
        """Estimate how many pairs would tell on which side of `limit` it lies.

        They are taken to vary as these do. None: more than `most`, or how they vary is not known.
        """
        for n in range(max(FEWEST, self.n + 1), most + 1):
            later = self.repeated(n)
            if later and later.above(limit) is not None:
                return n
        return None

    @classmethod
    def _of_logs(cls, mean: float, spread: float | None, n: int) -> Ratio:
        if spread is None or n < FEWEST:
            return cls(math.exp(mean), n=n, spread=spread)
        return cls._with_interval(mean, spread / math.sqrt(n), n - 1, n, spread)

    @classmethod
    def _with_interval(
        cls, log: float, error: float, freedom: float, n: int = 0, spread: float | None = None
    ) -> Ratio:
        from scipy import stats  # takes a second to load

        value = math.exp(log)
        if error < _CONSTANT:
            return cls(value, value, value, float(abs(log) < _CONSTANT), n, spread)
        half = math.exp(error * float(stats.t.ppf((1 + _CONFIDENCE) / 2, freedom)))
        p = 2 * float(stats.t.sf(abs(log) / error, freedom))
        return cls(value, value / half, value * half, p, n, spread)

    @property
    def spans_one(self) -> bool | None:
        """Whether the interval holds 1; None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= 1 <= self.high

    def above(self, limit: float) -> bool | None:
        """Tell whether the interval lies above `limit`; None where it spans it, or is none."""
        if self.low is None or self.high is None:
            return None
        if self.low > limit:
            return True
        return False if self.high <= limit else None

    @property
    def text(self) -> str:
        """The ratio with its interval: "4.86 (4.71 to 5.02)"."""
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"
