# SPDX-License-Identifier: GPL-2.0-only
"""Curves along a factor that counts something; where more gives no more, and what is full then.

A count of connections is enough where the 95 % intervals of what every larger count gives, paired
by repeat, end below 1.1 times; it is not where one of them begins above that. The knee is the
smallest count that is enough, with none below it that could be.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

from nfsmulti import texts
from nfsmulti.report import cells
from nfsmulti.report.measures import MB_PER_S, MEASURES, Take, sides
from nfsmulti.stats import Ratio, Sample
from nfsmulti.summary import Cell, Factor

GAIN = 1.1  # what more connections must give to count
FULL = 0.9  # the part at which a link or a core is called full
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
class Curve:
    """What one workload did at each count of the factor `along`, the others being alike: `levels`.

    `cells` has those that are done, of each count that was asked for; `link` is the rate of the
    link in bit/s, where it is known. `measure` is the rate that is told, in `unit`; `each` what a
    level is called, such as "{} KiB reads", "" for the factor's name.
    """

    levels: Mapping[str, Factor]
    cells: Mapping[int, list[Cell]]
    link: int | None = None
    along: str = "nconnect"
    measure: Take = MB_PER_S
    unit: str = "MB/s"
    each: str = ""

    @property
    def label(self) -> str:
        """What rises along it, in a plot."""
        words = {"nconnect": "connections", "concurrency": "I/Os in flight"}
        return words.get(self.along) or self.each.format("").strip() or self.along

    @property
    def counts(self) -> list[int]:
        """Each count that has cells, by size."""
        return sorted(count for count, found in self.cells.items() if found)

    def at(self, count: int) -> list[Cell]:
        """Return the cells of a count, none where it was not measured."""
        return self.cells.get(count, [])

    def rate(self, count: int) -> Sample | None:
        """Return the rate that is told."""
        return cells.sample(self.at(count), self.measure)

    def text(self, count: int) -> str:
        """Write that with its unit."""
        return texts.mean(self.rate(count), self.unit)

    def samples(self, measure: Take) -> dict[int, Sample | None]:
        """Return a figure at each count, for a plot."""
        return {self.total(at): cells.sample(self.at(at), measure) for at in self.counts}

    def mean(self, count: int) -> float:
        """Return the mean of the rate, 0 for none."""
        rate = self.rate(count)
        return rate.mean if rate else 0.0

    def gain(self, more: int, fewer: int) -> Ratio | None:
        """Return the rate at `more` : that at `fewer`; None where one of them was not measured."""
        return cells.ratio(self.at(more), self.at(fewer), self.measure)

    def connections(self, count: int) -> int | None:
        """Return how many connections there are at a count; None where that is not known."""
        found = [cell.connections for cell in self.cells[count]]
        return None if None in found else max(filter(None, found), default=None)

    def total(self, count: int) -> int:
        """Return where a count stands in a plot: all connections, where these are known."""
        return (self.connections(count) if self.label == "connections" else None) or count

    def words(self, count: int) -> str:
        """Name a count by all connections that it makes: "8 connections", "depth 32"."""
        if self.each:
            return self.each.format(count)
        every = self.connections(count) if self.label == "connections" else None
        if every is None:
            levels = self.cells[count][0].factors
            one_path = " on one path" if {"nconnect", "paths"} <= levels.keys() else ""
            return f"{self.along} {levels[self.along]}{one_path}"
        capped = "capped " if self.levels.get("limits") == "capped" else ""
        return texts.counted(every, f"{capped}connection")


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
        gains = [curve.gain(more, fewer) for more in counts if more > fewer]
        more = [gain.above(GAIN) if gain else None for gain in gains]
        if not {True, None} & {*more}:  # it is enough
            end = End.UNTOLD if possible else End.KNEE
            return Knee(end, fewer, min([*possible, fewer]))
        if True not in more:
            possible.append(fewer)
        else:  # nor is one that gives no more than this
            possible = [one for one in possible if curve.mean(one) > curve.mean(fewer)]
    last = counts[-1]
    return Knee(End.UNTOLD, last, possible[0]) if possible else Knee(End.RISING, last, last)


def limit(curve: Curve, count: int) -> str:
    """Say what is full from a count on, by what was measured at the fastest of these; "" if none.

    Processors that other programs kept busy before are not called full: the page warns of these.
    """
    found = curve.cells[max(curve.counts[curve.counts.index(count) :], key=curve.mean)]
    fullest = fmean(max((s.bytes_per_s for s in sides(cell)), default=0) for cell in found)
    if curve.link and 8 * fullest / curve.link >= FULL:
        return "the link is full"
    if _mean(found, "processors %") >= _BUSY and _mean(found, "others %") < cells.DISTURBED:
        own, busy = cells.wake_up(found), _part(_mean(found, "processors %"))
        return f"this client's processors are {busy} busy{own and f' ({own})'}"
    if (server := _mean(found, "server %")) >= _BUSY:
        return f"the server's processors are {_part(server)} busy"
    busiest = core(found)
    return f"one core is full: a job keeps it {_part(busiest)} busy" if busiest >= FULL else ""


def core(found: Iterable[Cell]) -> float:
    """Return which part of a core the busiest job takes."""
    return _mean(found, "busiest job %")


def _mean(found: Iterable[Cell], name: str) -> float:
    """Return the mean of a figure in per cent as a part, 0 where no cell has it."""
    sample = cells.sample(found, MEASURES[name])
    return sample.mean / 100 if sample else 0.0


def _part(value: float) -> str:
    return f"{100 * value:.0f} %"


def verdict(curve: Curve) -> str:
    """Say where a curve ends, and what is full there: "561 MB/s with 4 connections; ..."."""
    found, at = knee(curve), chosen(curve)
    counted = curve.each or curve.along == "nconnect"
    reached = f"{curve.text(at)} {'with' if counted else 'at'} {curve.words(at)}"
    full = f": {why}" if (why := limit(curve, at)) else ""
    if found.end is End.SINGLE:
        return f"{reached}; only that was measured."
    if found.end is End.KNEE:
        return f"{reached}; {'larger ones' if curve.each else 'more'} gain nothing{full}."
    last = curve.counts[-1]
    if found.end is End.RISING:
        gain = curve.gain(last, curve.counts[-2])
        assert gain
        words = f"{gain.value:.2f} times that of {curve.words(curve.counts[-2])}"
        return f"{reached}, {words}: still rising{full and f'; {why}'}."
    if not alike(curve):
        return f"{reached}; {curve.total(found.since)} to {curve.words(found.at)} may be enough."
    spread = texts.ends(curve.mean(count) for count in (found.since, found.at))
    return (
        f"No measurable difference between {curve.words(found.since)} and {curve.words(found.at)}"
        f" ({spread} {curve.unit})."
    )


def of_client(curves: Sequence[Curve], *, discards: bool) -> list[str]:
    """Say whether a client that discards is the limit, and what shows whether another one is."""
    busiest = max((core(one.cells[chosen(one)]) for one in curves), default=0.0)
    if not discards:
        said = "A core is full: with `--discard` (over TCP in clear) it need not copy what is read."
        return [said] * (busiest >= FULL)
    busy = f"the busiest job takes {_part(busiest)} of its core"
    if busiest >= FULL:
        return [f"Even so {busy}: more jobs may reach more."]
    shared = any("this client" in limit(one, chosen(one)) for one in curves)
    return [] if shared else [f"This client is not the limit: {busy}."]


def chosen(curve: Curve) -> int:
    """Return the count to use: the knee, or the fewest that are not shown to be worse.

    Without intervals it is, by the means, the fewest within the best's limit.
    """
    found = knee(curve)
    if found.end is not End.UNTOLD:
        return found.at
    if alike(curve):
        return found.since
    best = max(map(curve.mean, curve.counts))
    return next(count for count in curve.counts if curve.mean(count) * GAIN >= best)


def alike(curve: Curve) -> bool:
    """Whether no difference is measurable between the counts of which one may be the knee."""
    found = knee(curve)
    gain = curve.gain(found.at, found.since)
    return found.end is End.UNTOLD and bool(gain and gain.spans_one)
