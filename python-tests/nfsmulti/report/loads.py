# SPDX-License-Identifier: GPL-2.0-only
"""Response against load: the load that keeps it within a limit, or the knee; by repeat.

The response is what users wait: from the instant at which an I/O should have begun. Points that
were not sustained have none, and are part of no figure. Between two points the logarithm of a
percentile is taken to rise in a line.
"""

import functools
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nfsmulti import texts
from nfsmulti.report import cells, measures, scaling
from nfsmulti.report.measures import Measure, Take
from nfsmulti.stats import Ratio, Sample, merged
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.units import Slo

FACTOR, PEAK = "load", "peak"  # per cent of the peak, or that itself
RULES = (
    "A load is sustained where responses did not grow while it lasted, by the engine's verdict on"
    " each job, in most of its repeats. Of others the rate that was reached is drawn, and no"
    " percentile.",
    "The load within a limit is where the response first crosses it, in each repeat, on the line"
    " between two measured loads (its logarithm against load). The figure is the median of the"
    " repeats (of an even number the lower one in the middle), as is each percentile in a table,"
    " of all repeats at one rate; where repeats differ more than threefold there is none."
    " Configurations are compared at the lower of their two loads; below the lowest that was"
    " offered the response is taken to be as long as there.",
    "The knee is the load with the highest power: the rate divided by its p99 (Kleinrock 1979).",
)
_APART = 3.0  # times: repeats that differ more have no figure together
_KNEE = Slo(99, math.inf)  # of a run without a limit
REACHED = measures.MEASURES["IOPS in time"]

TRANSPORTS = {
    "tcp": "engine (TCP)",
    "rdma": "engine (RDMA)",
    "tcp-mount": "kernel mount (TCP)",
    "rdma-mount": "kernel mount (RDMA)",
}

_Point = tuple[float, float]  # I/Os per second that were reached, and a percentile in µs


@dataclass(frozen=True)
class Limit:
    """The load up to which a curve is good: by a limit, or its knee.

    `rate` is in I/Os per second, by repeat. `met` is false where the lowest load already takes too
    long, and `last` true where the highest that was sustained does not; `load` is the highest that
    was offered within it, or the nearest to a knee, `us` the percentile there. All are medians of
    the repeats.
    """

    rate: Sample
    met: bool
    last: bool
    load: int
    us: float

    @property
    def told(self) -> bool:
        """Whether there is a figure: the repeats differ threefold at most."""
        return max(self.rate.values) <= _APART * min(self.rate.values)


@dataclass(frozen=True)
class Curve(scaling.Curve):
    """One configuration at rising load, of which 0 is the peak.

    `name` has the levels in which the run's curves differ, "" for one alone, and `slo` is the run's
    limit.
    """

    slo: Slo = _KNEE
    name: str = ""

    @property
    def workload(self) -> str:
        """What it does."""
        return str(self.levels.get("workload", ""))

    @property
    def loads(self) -> list[int]:
        """Each load that was offered, by size."""
        return [load for load in self.counts if load]

    @property
    def peak(self) -> Sample | None:
        """The I/Os per second of the closed loop."""
        return cells.sample(self.at(0), measures.IOPS)

    def sustained(self, load: int) -> list[Cell]:
        """Return the repeats in which a load was sustained, if these are most of them."""
        found = self.at(load)
        held = [one for one in found if one.arrivals and one.arrivals.sustained]
        return held if 2 * len(held) > len(found) else []

    def lost(self, load: int) -> list[Cell]:
        """Return those that tell nothing but the rate that was reached."""
        held = self.sustained(load)
        return [one for one in self.cells[load] if one not in held]

    @functools.cached_property
    def rates(self) -> dict[int, Sample]:
        """The I/Os per second that were reached at each load that was sustained."""
        found = {load: cells.sample(self.sustained(load), REACHED) for load in self.loads}
        return {load: rate for load, rate in found.items() if rate}

    @functools.cached_property
    def points(self) -> dict[int, list[_Point]]:
        """Each repeat's sustained points, by rate; those with too few I/Os are left out."""
        return self._points(lambda cell: told_us([cell], self.slo.percent))

    def _points(self, measure: Take) -> dict[int, list[_Point]]:
        found: dict[int, list[_Point]] = {}
        for cell in (one for load in self.loads for one in self.sustained(load)):
            rate, wait = REACHED(cell), measure(cell)
            if rate and wait:
                found.setdefault(cell.repeat, []).append((rate, wait))
        return {repeat: sorted(those) for repeat, those in found.items()}

    def by_repeat(self, measure: Take) -> dict[int, Sample]:
        """Return a figure of each repeat at the median rate of each load, inf beyond its highest.

        Repeats reach other rates at a load, which is a part of their own peaks: each tells by the
        line between its loads. So the medians of crossings and of these figures are of one curve.
        """
        lines = self._points(measure).values()
        return {
            load: Sample(tuple(_at(one, rate.median) or math.inf for one in lines))
            for load, rate in self.rates.items()
            if lines
        }

    def waits(self, rate: float) -> dict[int, float]:
        """Return the percentile at a rate by repeat, in µs, for those that sustained as much."""
        every = self.points
        return {repeat: us for repeat, those in every.items() if (us := _at(those, rate))}

    @functools.cached_property
    def ends(self) -> dict[int, float]:
        """The rate at which each repeat crosses the limit, or has its knee."""
        crossing = functools.partial(_crossing, us=self.slo.us) if self.slo.given else _knee
        return {repeat: crossing(those) for repeat, those in self.points.items()}

    @functools.cached_property
    def limit(self) -> Limit | None:
        """How far it is good; None without a sustained point that has the percentile."""
        return _limit(self) if self.points else None

    @property
    def over_at_once(self) -> int:
        """The repeats in which already the lowest load was over the limit."""
        return sum(those[0][1] > self.slo.us for those in self.points.values())

    @property
    def good(self) -> float:
        """The I/Os per second up to which it is good; 0 where it is not at all, or none is told."""
        return self.limit.rate.median if self.limit and self.limit.met and self.limit.told else 0.0

    @property
    def held(self) -> list[Cell]:
        """The cells at the highest load within the limit."""
        return self.sustained(self.limit.load) if self.limit else []

    @property
    def full(self) -> str:
        """What is full there, "" where nothing is known to be."""
        return scaling.limit(self, self.limit.load) if self.limit else ""


def curves(summary: Summary) -> list[Curve]:
    """Return the curves of a run, by workload and then by their other levels."""
    found: dict[tuple[tuple[str, Factor], ...], dict[int, list[Cell]]] = {}
    for cell in summary.done:
        levels = tuple(pair for pair in cell.factors.items() if pair[0] != FACTOR)
        load = cell.factors.get(FACTOR, PEAK)
        found.setdefault(levels, {}).setdefault(0 if load == PEAK else int(load), []).append(cell)

    def order(levels: tuple[tuple[str, Factor], ...]) -> tuple[str, list[tuple[bool, Factor]]]:
        return str(dict(levels).get("workload")), [(isinstance(at, str), at) for _, at in levels]

    every = sorted(found, key=order)
    slo = Slo.parse(summary.place["slo"]) if summary.place.get("slo") else _KNEE
    drawn = [Curve(dict(one), found[one], slo=slo) for one in every]
    return [replace(one, name=name) for one, name in zip(drawn, named(drawn), strict=True)]


def named(every: Sequence[Curve]) -> list[str]:
    """Name configurations by what they differ in; "" for one alone."""
    firsts = [next(iter(one.cells.values()))[0] for one in every]
    varied = [name for name in cells.varying(firsts) if name != FACTOR]
    varied.sort(key=lambda name: name != "workload")
    return [cells.words(cells.told(one, varied), TRANSPORTS) for one in firsts]


def told_us(found: Iterable[Cell], percent: float) -> float | None:
    """Return a percentile of the response of all I/O, where enough took longer."""
    bins = [side.response for one in found if one.arrivals for side in measures.sides(one)]
    return cells.bins_us(merged(bins), percent)


def wait(percent: float, whose: str = "readers'") -> Measure:
    """Return how a percentile of what readers wait is taken, from when a read was due.

    None where they could not keep to their clock, or read too little.
    """

    def taken(cell: Cell) -> float | None:
        if not cell.arrivals:
            us = cells.told_us([cell], percent, "read")
        else:
            us = told_us([cell], percent) if cell.arrivals.sustained else None
        return us and us / 1000

    return Measure(f"p{percent:g} wait ms", f"{whose} p{percent:g}", taken)


def fell_behind(found: Iterable[Cell]) -> list[str]:
    """Say how far readers fell behind their clock, at the worst; nothing if all kept to it."""
    late = [one.arrivals for one in found if one.arrivals and not one.arrivals.sustained]
    least = min(late, key=lambda one: one.achieved / one.offered, default=None)
    return [
        f"{texts.MISSING}: readers fell behind: {one.achieved:,.0f} of {one.offered:,.0f} IOPS"
        " were answered."
        for one in [least]
        if one
    ]


# --- the load within a limit, and the knee ---


def _limit(curve: Curve) -> Limit:
    us, points = curve.slo.us, curve.points
    rate = Sample(tuple(curve.ends.values()))
    lowest, highest = (
        Sample(tuple(one[at][1] for one in points.values())).median for at in (0, -1)
    )
    waits = curve.by_repeat(lambda cell: told_us([cell], curve.slo.percent))
    loads = {load: reached.median for load, reached in curve.rates.items()}
    load = max((one for one in loads if loads[one] <= rate.median), default=min(loads))
    if not curve.slo.given:  # of measured rates the median of repeats, which is not that of a load
        load = min(loads, key=lambda one: abs(loads[one] - rate.median))
    last = curve.slo.given and highest <= us
    return Limit(rate, lowest <= us, last, load, waits[load].median)


def _crossing(points: Sequence[_Point], us: float) -> float:
    """Return the rate at which a percentile first crosses a limit, or the last one.

    Of a curve that begins above it: less than its first rate, in proportion.
    """
    over = next((at for at, point in enumerate(points) if point[1] > us), len(points))
    if over == 0:
        return points[0][0] * us / points[0][1]
    if over == len(points):
        return points[-1][0]
    (low, before), (high, after) = points[over - 1 : over + 1]
    return low + (high - low) * math.log(us / before) / math.log(after / before)


def _knee(points: Sequence[_Point]) -> float:
    return max(points, key=lambda point: point[0] / point[1])[0]


def _at(points: Sequence[_Point], rate: float) -> float | None:
    """Return the percentile at a rate; None above the highest."""
    over = bisect_left(points, (rate, 0.0))
    if over == len(points):
        return None
    (low, before), (high, after) = points[max(over - 1, 0)], points[over]
    part = (rate - low) / (high - low) if over else 0
    return float(before * (after / before) ** part)


# --- two configurations, or two runs ---


def paired(over: Mapping[int, float], under: Mapping[int, float]) -> Ratio | None:
    """Return a figure of one in times that of the other, each by repeat: waits(), or ends."""
    both = sorted(over.keys() & under.keys())
    return Ratio.paired([over[n] for n in both], [under[n] for n in both]) if both else None


def compared(a: Summary, b: Summary) -> Iterator[tuple[str, str, Sample, Sample]]:
    """Yield what two runs are compared by: its name, "ms" or "IOPS", and both sides.

    These are responses at three of A's loads that B reached in every repeat, and the load within
    A's limit.
    """
    others = {frozenset(one.levels.items()): one for one in curves(b)}
    for one in curves(a):
        if not (there := others.get(frozenset(one.levels.items()))):
            continue
        other = replace(there, slo=one.slo)
        both = one, other
        reached = [rate.mean for rate in one.rates.values()]
        whole = [at for at in reached if all(len(c.waits(at)) == len(c.points) > 0 for c in both)]
        for mean in sorted({*whole[:1], *whole[len(whole) // 2 :][:1], *whole[-1:]}):
            of_a, of_b = (Sample(tuple(us / 1000 for us in c.waits(mean).values())) for c in both)
            name = ", ".join(filter(None, (one.name, f"at {texts.number(mean)} IOPS")))
            yield name, "ms", of_a, of_b
        if one.limit and other.limit and one.limit.told and other.limit.told:
            held = one.slo.text if one.slo.given else "at the knee"
            yield one.name or held, "IOPS", one.limit.rate, other.limit.rate
