# SPDX-License-Identifier: GPL-2.0-only
"""Statistics of repeated runs: one figure's repeats, ratios, shares, percentiles, and settling.

Pure functions of figures, which know no scenario.
"""

import functools
import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

FEWEST = 3  # repeats that an interval takes
MOST_REPEATS = 100  # of which an estimate is told
_CONFIDENCE = 0.95
_POWER = 0.8  # of the repeats that are estimated to be enough
_CONSTANT = 1e-9  # what varies less than by such a part does not vary


@dataclass(frozen=True)
class Sample:
    """The values of one figure, one per repeat, in no order; there is at least one."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Self | None:
        """Make a sample of the values; None where there are none."""
        found = tuple(values)
        return cls(found) if found else None

    @property
    def n(self) -> int:
        """How often it was measured."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return statistics.fmean(self.values)

    @property
    def median(self) -> float:
        """The value in the middle; of an even number the lower of the two."""
        return statistics.median_low(self.values)

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
        half = _student(self.n - 1) * statistics.stdev(self.values) / math.sqrt(self.n)
        return self.mean - half, self.mean + half


@functools.cache
def _student(freedom: float) -> float:
    """Return how many standard errors of a mean reach to an end of its interval."""
    from scipy import special  # not scipy.stats, which takes a second to load

    return float(special.stdtrit(freedom, (1 + _CONFIDENCE) / 2))


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
    def paired(cls, over: Sequence[float], under: Sequence[float]) -> Self:
        """Return `over` : `under` of figures above 0 that were measured in blocks, a pair in each.

        What changes from block to block changes both figures of a pair, and leaves their ratio.
        The ratio is the geometric mean of the pairs' ratios. Its interval is Student's, of the
        mean of their logarithms, and takes three pairs.
        """
        return cls.of_logs([math.log(a / b) for a, b in zip(over, under, strict=True)])

    @classmethod
    def of_logs(cls, logs: Sequence[float]) -> Self:
        """Return the same of the logarithms of the pairs' ratios."""
        mean, n = statistics.fmean(logs), len(logs)
        spread = statistics.stdev(logs) if n > 1 else None
        if spread is None or n < FEWEST:
            return cls(math.exp(mean), n=n, spread=spread)
        return cls._tested(mean, [logs], n, spread)

    @classmethod
    def unpaired(cls, over: Sample, under: Sample) -> Self:
        """Return the ratio of figures above 0 that were measured at different times.

        It is that of the geometric means. The interval is Welch's, of the logarithms, and takes
        three values on each side.
        """
        sides = [[math.log(value) for value in side.values] for side in (over, under)]
        log = statistics.fmean(sides[0]) - statistics.fmean(sides[1])
        if min(map(len, sides)) < FEWEST:
            return cls(math.exp(log))
        return cls._tested(log, sides)

    def pairs_to_tell(self, limit: float) -> int:
        """Estimate how many pairs would tell on which side of `limit` it lies, in 80 % of runs.

        That is the power of Student's t test if the true ratio is this one, and pairs vary as these
        do; they must, `spread` is not 0. MOST_REPEATS + 1 stands for all larger numbers.
        """
        assert self.spread
        from scipy import special

        effect = abs(math.log(self.value / limit)) / self.spread
        for n in range(max(FEWEST, self.n + 1), MOST_REPEATS + 1):
            missed = special.nctdtr(n - 1, effect * math.sqrt(n), _student(n - 1))
            if not missed > 1 - _POWER:  # where it is next to 0, some versions give NaN
                return n
        return MOST_REPEATS + 1

    @classmethod
    def _tested(
        cls,
        log: float,
        sides: Sequence[Sequence[float]],
        n: int = 0,
        spread: float | None = None,
    ) -> Self:
        """Add interval and p: Student's, of the pairs' one side, or Welch's, of two."""
        from scipy import special

        value = math.exp(log)
        if max(map(statistics.pstdev, sides)) < _CONSTANT:  # t is 0/0 there
            return cls(value, value, value, float(abs(log) < _CONSTANT), n, spread)
        of_means = [(statistics.variance(side) / len(side), len(side) - 1) for side in sides]
        variance = sum(part for part, _ in of_means)
        freedom = variance**2 / sum(part**2 / free for part, free in of_means)
        error = math.sqrt(variance)
        p = float(2 * special.stdtr(freedom, -abs(log) / error))
        half = _student(freedom) * error
        return cls(value, math.exp(log - half), math.exp(log + half), p, n, spread)

    @property
    def ends(self) -> tuple[float, ...]:
        """The two ends of the interval, where there is one."""
        return () if self.low is None or self.high is None else (self.low, self.high)

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

    def within(self, part: float) -> bool:
        """Tell whether the whole interval is nearer to 1 than by this part."""
        return all(1 / (1 + part) < end < 1 + part for end in self.ends) and bool(self.ends)

    @property
    def text(self) -> str:
        """The ratio with its interval: "4.86 (4.71 to 5.02)"."""
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def holm(probabilities: Sequence[float]) -> list[float]:
    """Return Holm's corrected p of each of several tests, in their order."""
    corrected: dict[int, float] = {}
    highest = 0.0
    for at in sorted(range(len(probabilities)), key=probabilities.__getitem__):
        left = len(probabilities) - len(corrected)
        corrected[at] = highest = max(highest, min(1.0, left * probabilities[at]))
    return [corrected[at] for at in range(len(probabilities))]


def by_repeat(groups: Collection[Mapping[int, float]]) -> list[float]:
    """Return one value per repeat of the mean over groups, of each its values by repeat.

    Where a group lacks a repeat, those that have it tell by how much it differs from their own
    means, which are of the repeats that each has. So where groups have different repeats, a part of
    a drift remains; not of ratios that were paired by repeat, which have none. A group of one
    repeat alone tells nothing of that; if all are such, there is one value.
    """
    means = [statistics.fmean(group.values()) for group in groups]
    shifts: dict[int, list[float]] = {}
    for group, mean in zip(groups, means, strict=True):
        for repeat, value in group.items() if len(group) > 1 else ():
            shifts.setdefault(repeat, []).append(value - mean)
    every = statistics.fmean(means)
    return [every + statistics.fmean(one) for one in shifts.values()] or [every]


def jain(shares: Collection[float]) -> float:
    """Return Jain's index of shares: 1 where all are equal, 1/n where one has all.

    R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984. Raises ValueError where nothing is shared.
    """
    squares = math.fsum(share * share for share in shares)
    if not squares:
        raise ValueError("nothing is shared")
    return math.fsum(shares) ** 2 / (len(shares) * squares)


# --- percentiles ---
# They are taken of json+ bins put together: the mean of several runs' percentiles is none.


def merged(bins: Iterable[Mapping[str, int]]) -> Counter[int]:
    """Add up fio's bins: latency in ns to the number of I/Os."""
    total: Counter[int] = Counter()
    for one in bins:
        for latency, count in one.items():
            total[int(latency)] += count
    return total


def percentile_ns(bins: Mapping[int, int], percent: float) -> int | None:
    """Return the latency in ns that `percent` of the I/Os do not exceed; None where there are none.

    As fio does: the first bin with which the count reaches that part of all I/Os.
    """
    total = sum(bins.values())
    wanted = total * percent / 100
    counted = 0
    for latency, count in sorted(bins.items()):
        counted += count
        if counted and counted >= wanted:
            return latency
    return None


def percentile_us(bins: Mapping[int, int], percent: float) -> float | None:
    """Return the same in µs."""
    latency = percentile_ns(bins, percent)
    return None if latency is None else latency / 1000


def mean_us(bins: Mapping[int, int]) -> float | None:
    """Return the mean of the bins in µs; None where there are none."""
    total = sum(bins.values())
    return sum(ns * count for ns, count in bins.items()) / total / 1000 if total else None


# --- whether a cell ran for long enough ---
# Its figure is the mean rate over its time. Where that is too short for a ramp to fade or for ups
# and downs to cancel out, the mean of its first half differs from that of its second.


AGREE_PERCENT = 10.0
_FEWEST_WINDOWS = 4  # without which nothing can be told


@dataclass(frozen=True)
class Window:
    """A mean rate in bytes per second, from `begin` to `end`, in seconds since the start."""

    begin: float
    end: float
    rate: float

    def bytes(self, begin: float, end: float) -> float:
        """Return what was moved in the part of the window that lies between `begin` and `end`."""
        return self.rate * max(0.0, min(self.end, end) - max(self.begin, begin))


def halves(windows: Sequence[Window], end: float) -> tuple[float, float]:
    """Return what was moved in the two halves of the time from 0 to `end`, in seconds.

    Windows of several jobs may overlap: what they moved is added up.
    """
    first, second = (
        math.fsum(window.bytes(begin, begin + end / 2) for window in windows)
        for begin in (0.0, end / 2)
    )
    return first, second


def settled(windows: Sequence[Window], end: float) -> bool:
    """Tell whether the halves differ by at most AGREE_PERCENT of their mean.

    `end` is that of the run, in seconds. Too few windows have not settled: what they were measured
    over is too short to tell.
    """
    # Those of several jobs end at different times: what counts is how many follow each other.
    usual = statistics.median(one.end - one.begin for one in windows) if windows else math.inf
    if end < (_FEWEST_WINDOWS - 0.5) * usual:
        return False
    first, second = halves(windows, end)
    return abs(first - second) <= AGREE_PERCENT / 100 * (first + second) / 2
