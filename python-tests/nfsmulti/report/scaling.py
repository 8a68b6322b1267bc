# SPDX-License-Identifier: GPL-2.0-only
"""Where more connections give no more, and what is full then.

A count of connections is enough where the 95 % intervals of what every larger count gives, paired
by repeat, end below 1.1 times; it is not where one of them begins above that. The knee is the
smallest count that is enough, with none below it that could be.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from nfsmulti import texts
from nfsmulti.report import cells
from nfsmulti.stats import Ratio, Sample
from nfsmulti.summary import Cell, Factor

GAIN = 1.1  # what more connections must give to count
_FULL = 0.9  # the part at which a link or a core is called full
# The same of all processors: client and server on them also wait for each other.
_BUSY = 0.85

RULE = (
    "A number of connections is enough where the 95 % intervals of all larger ones, paired by"
    " repeat, end below 1.1 times what it gives; the smallest such number is the knee. Where an"
    " interval spans that limit there is no measurable difference. A link or a core is called full"
    " where 90 % of it is used, all processors where 85 % are, unless other programs had 10 % of"
    " them before; a link is full in one direction."
)


@dataclass(frozen=True)
class Axis:
    """What rises along a curve, nconnect or depth, and the rate that is told, in `scale` units."""

    name: str = "nconnect"
    measure: cells.Measure = cells.bandwidth
    unit: str = "MB/s"
    scale: float = 1e6

    @property
    def label(self) -> str:
        """Its name in a plot."""
        return "connections" if self.name == "nconnect" else self.name


@dataclass(frozen=True)
class Curve:
    """What one workload did at rising nconnect, all other factors being the same: `levels`.

    `cells` has those that are done, of each nconnect that was asked for; `link` is the rate of
    the link in bit/s, where it is known. On another `axis` each count is one of that.
    """

    levels: dict[str, Factor]
    cells: dict[int, list[Cell]]
    link: int | None = None
    axis: Axis = Axis()

    @property
    def counts(self) -> list[int]:
        """Each nconnect that has cells, by size."""
        return sorted(count for count, found in self.cells.items() if found)

    def rate(self, count: int) -> Sample | None:
        """Give what the axis measures, as bytes per second."""
        return cells.sample(self.cells.get(count, []), self.axis.measure)

    def mean(self, count: int) -> float:
        """Give the mean of that."""
        rate = self.rate(count)
        return rate.mean if rate else 0.0

    def gain(self, more: int, fewer: int) -> Ratio | None:
        """Give the throughput with `more` : that with `fewer`."""
        return cells.ratio(self.cells[more], self.cells[fewer], self.axis.measure)

    def connections(self, count: int) -> int | None:
        """Give how many connections there are: of the kernel for all jobs, or of each job.

        None where other hosts ran the jobs: which paths they used is not known.
        """
        if any(job.host for cell in self.cells[count] for job in cell.jobs):
            return None
        if str(self.levels.get("transport")).endswith("-mount"):
            return count
        paths = max((len(cell.paths) for cell in self.cells[count]), default=1)
        return count * int(self.levels.get("jobs", 1)) * max(paths, 1)

    def total(self, count: int) -> int:
        """Give where a count stands in a plot: all connections, where these are known."""
        every = self.connections(count) if self.axis.name == "nconnect" else None
        return every or count

    def words(self, count: int) -> str:
        """Name a count by all connections that it makes: "8 connections", "depth 32"."""
        if self.axis.name != "nconnect":
            return f"{self.axis.name} {count}"
        every = self.connections(count)
        capped = "capped " if self.levels.get("limits") == "capped" else ""
        if every is None:
            return f"{count} {capped}connection{'' if count == 1 else 's'} per job and path"
        return f"{every} {capped}connection{'' if every == 1 else 's'}"


class End(Enum):
    """How a curve ends."""

    KNEE = "a knee"
    RISING = "rising to the last count"
    UNTOLD = "inconclusive"
    SINGLE = "one count alone"


@dataclass(frozen=True)
class Knee:
    """How a curve ends, and the count at which it does: the last where it rises or is SINGLE.

    Where it is UNTOLD it may be any from `since` to `at`.
    """

    end: End
    at: int
    since: int


def knee(curve: Curve) -> Knee:
    """Find the knee of a curve, which has one count at least."""
    counts = curve.counts
    if len(counts) == 1:
        return Knee(End.SINGLE, counts[0], counts[0])
    possible: list[int] = []  # of those that have been seen
    for fewer in counts[:-1]:
        enough = _enough(curve, fewer)
        if enough:
            end = End.UNTOLD if possible else End.KNEE
            return Knee(end, fewer, min([*possible, fewer]))
        if enough is None:
            possible.append(fewer)
        else:  # nor is one that gives no more than this
            possible = [one for one in possible if curve.mean(one) > curve.mean(fewer)]
    last = counts[-1]
    return Knee(End.UNTOLD, last, possible[0]) if possible else Knee(End.RISING, last, last)


def _enough(curve: Curve, count: int) -> bool | None:
    """Tell whether no larger count gives more; None where that is inconclusive."""
    more = [gain.above(GAIN) if gain else None for gain in _gains(curve, count)]
    if True in more:
        return False
    return None if None in more else True


def _gains(curve: Curve, count: int) -> list[Ratio | None]:
    """Give what each larger count gives, in times that of `count`."""
    return [curve.gain(more, count) for more in curve.counts if more > count]


def limit(curve: Curve, count: int) -> str:
    """Say what is full from a count on, by what was measured at the fastest of these; "" if none.

    Processors that other programs kept busy before are not called full: the page warns of these.
    """
    found = curve.cells[max(curve.counts[curve.counts.index(count) :], key=curve.mean)]
    fullest = _mean(max((s.bytes_per_s for s in cells.sides(cell)), default=0) for cell in found)
    if curve.link and 8 * fullest / curve.link >= _FULL:
        return "the link is full"
    busy, others = (
        _mean(part for cell in found if (part := measure(cell)) is not None)
        for measure in (cells.processors_busy, lambda cell: cell.others_busy)
    )
    if busy >= _BUSY and others < cells.DISTURBED:
        return f"this client's processors are {_part(busy)} busy"
    told = [cell.server.cpu_percent for cell in found if cell.server]
    server = _mean(percent / 100 for percent in told if percent is not None)
    if server >= _BUSY:
        return f"the server's processors are {_part(server)} busy"
    core = _mean((cells.busiest(cell) or 0) / 100 for cell in found)
    return f"one core is full: a job keeps it {_part(core)} busy" if core >= _FULL else ""


def _mean(parts: Iterable[float]) -> float:
    found = list(parts)
    return statistics.fmean(found) if found else 0.0


def _part(value: float) -> str:
    return f"{100 * value:.0f} %"


def verdict(curve: Curve) -> str:
    """Say where a curve ends, and what is full there: "561 MB/s with 4 connections; ..."."""
    found, at = knee(curve), chosen(curve)
    reached = f"{_rate(curve, at)} {_at(curve, at)}"
    full = f": {why}" if (why := limit(curve, at)) else ""
    if found.end is End.SINGLE:
        return f"{reached}; only that was measured."
    if found.end is End.KNEE:
        return f"{reached}; more gain nothing{full}."
    last = curve.counts[-1]
    if found.end is End.RISING:
        gain = curve.gain(last, curve.counts[-2])
        assert gain
        words = f"{gain.value:.2f} times that of {curve.words(curve.counts[-2])}"
        return f"{reached}, {words}: still rising{full and f'; {why}'}."
    gain = curve.gain(found.at, found.since)
    if gain is None or not gain.spans_one:
        return f"{reached}; {found.since} to {curve.words(found.at)} may be enough."
    rates = [curve.mean(count) / curve.axis.scale for count in (found.since, found.at)]
    spread = " to ".join(map(texts.number, sorted(rates)))
    return (
        f"No measurable difference between {curve.words(found.since)} and {curve.words(found.at)}"
        f" ({spread} {curve.axis.unit})."
    )


def _at(curve: Curve, count: int) -> str:
    return f"{'with' if curve.axis.name == 'nconnect' else 'at'} {curve.words(count)}"


def _rate(curve: Curve, count: int) -> str:
    return texts.mean(curve.rate(count), curve.axis.unit, curve.axis.scale)


def chosen(curve: Curve) -> int:
    """Give the count to use: the knee, or the fewest within the limit of the best, by the means."""
    found = knee(curve)
    if found.end is not End.UNTOLD:
        return found.at
    best = max(map(curve.mean, curve.counts))
    return next(count for count in curve.counts if curve.mean(count) * GAIN >= best)
