# SPDX-License-Identifier: GPL-2.0-only
"""One figure, measured several times, or shared by several."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable
from dataclasses import dataclass

FEWEST = 3  # repeats that an interval takes


@dataclass(frozen=True)
class Sample:
    """The values of one figure, one per repeat, in no order; there is at least one."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Sample | None:
        """Make a sample of the values; None where there are none."""
        found = tuple(values)
        return cls(found) if found else None

    def scaled(self, factor: float) -> Sample:
        """Give the same figure in another unit."""
        return Sample(tuple(value * factor for value in self.values))

    @property
    def n(self) -> int:
        """How often it was measured."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return statistics.fmean(self.values)

    @property
    def cv_percent(self) -> float | None:
        """The coefficient of variation, s / mean; None for one value alone, or where all are 0."""
        if self.n < 2 or not self.mean:
            return None
        return 100 * statistics.stdev(self.values) / abs(self.mean)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The mean's 95 % interval by Student's t; None where there are too few values."""
        if self.n < FEWEST:
            return None
        from scipy import stats  # takes a second to load

        half = float(stats.sem(self.values) * stats.t.ppf(0.975, self.n - 1))
        return self.mean - half, self.mean + half


def jain(shares: Collection[float]) -> float:
    """Give Jain's index of shares: 1 where all are equal, 1/n where one has all.

    R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984. Raises ValueError where nothing is shared.
    """
    squares = math.fsum(share * share for share in shares)
    if not squares:
        raise ValueError("nothing is shared")
    return math.fsum(shares) ** 2 / (len(shares) * squares)
