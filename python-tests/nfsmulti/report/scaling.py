# SPDX-License-Identifier: GPL-2.0-only
"""Where more connections give no more, and what is full then.

A count of connections is enough where the 95 % intervals of what every larger count gives, paired
by repeat, end below 1.1 times; it is not where one of them begins above that. The knee is the
smallest count that is enough, with none below it that could be.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from nfsmulti import texts
from nfsmulti.report import cells
from nfsmulti.stats import FEWEST, Ratio, Sample
from nfsmulti.summary import Cell, Factor
from nfsmulti.texts import rate_text

GAIN = 1.1  # what more connections must give to count
_FULL = 0.9  # the part at which a link or a core is called full
# The same of all processors: client and server on them also wait for each other.
_BUSY = 0.85
_LINEAR = 0.8  # of the first connection's rate, what each still has where a cap is likely

RULE = (
    "A number of connections is enough where the 95 % intervals of all larger ones, paired by"
    " repeat, end below 1.1 times what it gives; the smallest such number is the knee. Where an"
    " interval spans that limit the result is inconclusive. A link or a core is called the limit"
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

    def level(self, count: int) -> str:
        """Name a level: "nconnect=4", "depth 32"."""
        return f"nconnect={count}" if self.name == "nconnect" else f"{self.name} {count}"


@dataclass(frozen=True)
class Curve:
    """What one workload did at rising nconnect, all other factors being the same: `levels`.

    `cells` has those that are done, of each nconnect that was asked for; `link` and `cap` are
    the rates of the link and of one connection in bit/s, where they are known. On another `axis`
    each count is one of that.
    """

    levels: dict[str, Factor]
    cells: dict[int, list[Cell]]
    link: int | None = None
    cap: int | None = None
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

    def words(self, count: int) -> str:
        """Name a count: "8 connections", "nconnect=2 (8 connections)", "depth 32"."""
        if self.axis.name != "nconnect":
            return self.axis.level(count)
        every = self.connections(count)
        if every is None:
            return f"{count} connection{'' if count == 1 else 's'} per job and path"
        text = "1 connection" if every == 1 else f"{every} connections"
        return text if every == count else f"nconnect={count} ({text})"


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


@dataclass(frozen=True)
class Load:
    """Which part of the link, of the busiest job's core and of all processors was used.

    `others` is the part of the processors that other programs had right before.
    """

    link: float | None
    core: float
    processors: float | None
    others: float
    count: int  # of processors
    server: float | None  # its processors


def load(curve: Curve, count: int) -> Load:
    """Give what was used at a count, the mean of the repeats."""
    found = curve.cells[count]
    busiest = [max((j.usr_percent + j.sys_percent for j in c.jobs), default=0) for c in found]
    fullest = [max((side.bytes_per_s for side in cells.sides(cell)), default=0) for cell in found]
    busy = [part for cell in found if (part := cells.processors_busy(cell)) is not None]
    others = [cell.others_busy for cell in found if cell.others_busy is not None]
    servers = [cell.server.cpu_percent for cell in found if cell.server]
    told = [percent / 100 for percent in servers if percent is not None]
    return Load(
        link=8 * statistics.fmean(fullest) / curve.link if curve.link else None,
        core=statistics.fmean(busiest) / 100,
        processors=statistics.fmean(busy) if busy else None,
        others=statistics.fmean(others) if others else 0.0,
        count=max(cell.processors for cell in found),
        server=statistics.fmean(told) if told else None,
    )


def limit(curve: Curve, count: int) -> str:
    """Say what is the limit from a count on, by what was measured at the fastest of these."""
    used = load(curve, max(curve.counts[curve.counts.index(count) :], key=curve.mean))
    if curve.link and used.link and used.link >= _FULL:
        return f"the link ({rate_text(curve.link)}, {_part(used.link)} used) is the limit"
    what, are = (f"{used.count} processors", "are") if used.count > 1 else ("processor", "is")
    busy = used.processors or 0.0
    if busy >= _BUSY and used.others < cells.DISTURBED:
        return f"this machine's {what} ({_part(busy)} busy) {are} the limit"
    if used.server and used.server >= _BUSY:
        return f"the server's processors ({_part(used.server)} busy) are the limit"
    if used.core >= _FULL:
        return (
            f"one core is the limit: a job of fio keeps it {_part(used.core)} busy; more jobs"
            " use more cores"
        )
    if busy >= _BUSY:
        return (
            f"this machine's {what} ({_part(busy)} busy, {_part(used.others)} with other"
            " programs even before) may be the limit: an idle machine would tell"
        )
    parts = [f"the busiest job {_part(used.core)} of a core"]
    if used.link:
        parts.append(f"the link {_part(used.link)}")
    elif curve.axis.measure is cells.bandwidth:
        parts.append("a link whose rate is unknown")
    parts += [f"the server's processors {_part(used.server)}"] if used.server else []
    parts += [f"all processors {_part(busy)}"] if busy else []
    return (
        f"nothing here is full ({', '.join(parts)}), which leaves the server, or the network"
        " to it, as the limit"
    )


def per_connection(curve: Curve, at: int) -> str:
    """Say what each connection carries below the count `at`, where a cap explains the rise."""
    if curve.axis.measure is not cells.bandwidth:
        return ""
    below = [count for count in curve.counts if count < at]
    rates = [rate for count in below if (rate := _each(curve, count))]
    if not rates or len(rates) < len(below):
        return ""
    if curve.cap and 8 * rates[-1] >= _FULL * _LINEAR * curve.cap:
        what = f"its cap of {rate_text(curve.cap)}"
    elif len(rates) > 1 and rates[-1] >= _LINEAR * rates[0]:
        what = "as if something capped each one"
    else:
        return ""
    return f"Below that each connection carries {texts.number(rates[-1] / 1e6)} MB/s, {what}."


def _each(curve: Curve, count: int) -> float | None:
    connections = curve.connections(count)
    return curve.mean(count) / connections if connections else None


def _part(value: float) -> str:
    return f"{100 * value:.0f} %"


def verdict(curve: Curve) -> str:
    """Say where a curve ends, and why."""
    found = knee(curve)
    counts, last = curve.counts, curve.counts[-1]
    if found.end is End.SINGLE:
        return f"only {curve.words(last)} measured: there is nothing to compare."
    if found.end is End.UNTOLD:
        return _untold(curve, found)
    if found.end is End.RISING:
        gain = curve.gain(last, counts[-2])
        words = (
            f"no knee up to {curve.words(last)}, which {_verb(curve, last, 'give')}"
            f" {gain.text if gain else ''} times what {_done(curve, counts[-2])}"
            f" ({_rate(curve, last)}). There, {limit(curve, last)}."
        )
        return f"{words} {per_connection(curve, last)}".strip()
    part = curve.gain(found.at, last)
    assert part
    assert part.low is not None
    assert part.high is not None
    words = (
        f"{curve.words(found.at)} {_verb(curve, found.at, 'reach', 'reaches')}"
        f" {_part(part.value)} ({100 * part.low:.0f} to {_part(part.high)}) of what"
        f" {_done(curve, last)} ({_rate(curve, last)});"
        f" beyond that {limit(curve, found.at)}."
    )
    return f"{words} {per_connection(curve, found.at)}".strip()


def _verb(curve: Curve, count: int, several: str, one: str = "") -> str:
    """Give the verb behind a count's words, which are of several where they begin with a number."""
    return several if curve.words(count)[0].isdigit() and count > 1 else one or f"{several}s"


def _done(curve: Curve, count: int) -> str:
    return f"{curve.words(count)} {_verb(curve, count, 'do', 'does')}"


def _rate(curve: Curve, count: int) -> str:
    return texts.mean(curve.rate(count), curve.axis.unit, curve.axis.scale)


def _untold(curve: Curve, found: Knee) -> str:
    gains = [gain for gain in _gains(curve, found.since) if not gain or gain.above(GAIN) is None]
    why, more = f"the intervals span {GAIN} times", "run more repeats"
    if any(gain is None or gain.low is None for gain in gains):
        why = f"an interval needs {FEWEST} repeats"
    varying = [gain for gain in gains if gain and gain.spread]
    rising = [gain for gain in varying if gain.value > GAIN]  # one of these is enough to tell
    if rising or len(varying) == len(gains):
        every = [gain.pairs_to_tell(GAIN) for gain in rising or varying]
        more = texts.repeats_to_tell(min(every) if rising else max(every), " repeats")
    at = chosen(curve)
    return (
        f"inconclusive: the knee may be anywhere from {curve.axis.level(found.since)} to"
        f" {found.at}, since {why}; {more}. By the means it is {curve.axis.level(at)}; there,"
        f" {limit(curve, at)}."
    )


def chosen(curve: Curve) -> int:
    """Give the count to use: the knee, or the fewest within the limit of the best, by the means."""
    found = knee(curve)
    if found.end is not End.UNTOLD:
        return found.at
    best = max(map(curve.mean, curve.counts))
    return next(count for count in curve.counts if curve.mean(count) * GAIN >= best)


def others(curves: Sequence[Curve], base: Curve) -> list[tuple[str, Curve]]:
    """Give the curves that differ from `base` in one factor alone, with its name."""
    found = []
    for curve in curves:
        names = [name for name in base.levels if curve.levels[name] != base.levels[name]]
        if len(names) == 1:
            found.append((names[0], curve))
    return found
