# SPDX-License-Identifier: GPL-2.0-only
"""stall: what users see of a server that stalls, and what is reported of it.

Factors: workload, in words; clock (arrival_rate, the engine's, or rate_iops, fio's); process (how
arrivals follow each other); iodepth. What users see is calculated.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from nfsmulti import texts
from nfsmulti.bench import cost
from nfsmulti.report import cells, charts, measures
from nfsmulti.report.answer import Answer
from nfsmulti.report.story import Plot, Section, Told
from nfsmulti.scenario import CellSpec
from nfsmulti.stats import Sample, merged, percentile_ns
from nfsmulti.story import Factor as Varied
from nfsmulti.story import Story
from nfsmulti.summary import Factor, Summary
from nfsmulti.texts import Table

# --- what is measured ---

Waits = Mapping[int, int]  # ns, to the number of I/Os
OURS, FIOS, USERS = "arrival_rate", "rate_iops", "what users see"
RATE = 2000  # I/Os per second
_LENGTH_MS, _EVERY_MS = 500, 5000  # of stalls
SINK = ("--stall", f"{_LENGTH_MS}:{_EVERY_MS}")
# Whole times _EVERY_MS: then as much of a run is stalled, whenever it begins.
SECONDS, QUICK_SECONDS = 20.0, 5.0


@dataclass(frozen=True)
class Case(cost.Case):
    """A clock, how arrivals follow each other by it, and iodepth."""

    rw: str = "randread"
    bs: str = "4k"
    depth: int = 64
    clock: str = OURS
    process: str = "poisson"

    @property
    def name(self) -> str:
        """A name such as "arrival_rate poisson d64"."""
        return f"{self.clock} {self.process} d{self.depth}"

    @property
    def users(self) -> str:
        """What users see at its depth is called so."""
        return f"{USERS}, d{self.depth}"

    @property
    def factors(self) -> dict[str, Factor]:
        """The factors of its cells, but the workload."""
        return {"clock": self.clock, "process": self.process, "iodepth": self.depth}


_CHIEF, _BESIDE = Case(), Case(clock=FIOS)
CASES = (_CHIEF, Case(process="fixed"), _BESIDE, Case(depth=1), Case(depth=1, process="fixed"))


def spec(case: Case, seconds: float) -> CellSpec:
    """Return what fio runs for a case: the engine by either clock."""
    process = {OURS: "arrival_process", FIOS: "rate_process"}[case.clock]
    options: cost.Options = {
        "filename": "stalled", "size": "1g", "lat_percentiles": 1, case.clock: RATE,
        process: case.process, "randrepeat": 0,  # or all repeats would have one schedule
    }  # fmt: skip
    factors = {"workload": f"4k random reads, {RATE:,} a second", **case.factors}
    return cost.spec(case, factors, cost.Timing(seconds, 0.0), options)


def users_see(service_ns: int, depth: int) -> Counter[int]:
    """Return how many I/Os take how many ns for users, if a server that answers takes `service_ns`.

    Up to `depth` are with the server at once; further ones wait in turn. Arrivals at random meet
    the server as those with equal gaps do, which are taken here.
    """
    waits: Counter[int] = Counter()
    gap, length, every = 10**9 // RATE, _LENGTH_MS * 10**6, _EVERY_MS * 10**6
    free = [0] * depth  # when each of the places at the server is free again
    for number in range(round(SECONDS * RATE)):
        due = number * gap
        begin = max(due, free[number % depth])
        if begin % every >= every - length:
            begin += every - begin % every
        free[number % depth] = begin + service_ns
        waits[begin + service_ns - due] += 1
    return waits


# --- what it tells ---

_PERCENTS = (50, 95, 99, 99.9)
_DRAWN = sorted({100 - 100 / 10 ** (tenth / 10) for tenth in range(4, 31)} | {50})
_TRUE = 0.05  # by which what is reported may differ from what users see


def ms(waits: Waits, percent: float) -> float:
    """Return a percentile in ms."""
    return (percentile_ns(waits, percent) or 0) / 1e6


def waits_of(summary: Summary) -> dict[str, Waits]:
    """Return fio's lat of each case that was measured, and what users see at its depth, by name."""
    found: dict[str, Waits] = {}
    for case in CASES:
        if own := cells.at(summary.done, case.factors):
            service = cells.percentile_of(own, 50) or 0
            found.setdefault(case.users, users_see(round(1000 * service), case.depth))
            found[case.name] = merged(
                side.response for cell in own for side in measures.sides(cell)
            )
    return found


# The lines of the picture, and what they are called in it.
_LINES = {_CHIEF.users: USERS, _CHIEF.name: OURS, _BESIDE.name: FIOS}


def draw(axes: "charts.Axes", found: Mapping[str, Waits]) -> None:
    """Draw percentiles in ms over 1 / (1 - percentile), where the rare ones have room."""
    for number, (name, label) in enumerate(_LINES.items()):
        points = [(100 / (100 - at), Sample((ms(found[name], at),))) for at in _DRAWN]
        charts.line(axes, number, label, points)
    axes.set_xscale("log")
    ticks = sorted({*_PERCENTS, 90})
    axes.set_xticks([100 / (100 - at) for at in ticks], [f"p{at:g}" for at in ticks])
    axes.minorticks_off()
    charts.logarithmic_y(axes)
    charts.legend(axes, columns=3)


def _tell(summary: Summary) -> Told:
    found = waits_of(summary)
    sections = [cost.commands(summary, "clock")]
    headline = f"Without {_CHIEF.name} and {_BESIDE.name} nothing can be compared."
    if _LINES.keys() <= found.keys():
        users, ours, fios = (f"{texts.number(ms(found[name], 99))} ms" for name in _LINES)
        headline = (
            f"{users} at p99 is {USERS} (calculated); fio's {FIOS} says {fios}, {OURS} {ours}."
        )
        figure, axes = charts.panel("Latency of a server that stalls", "percentile", "lat, ms")
        draw(axes, found)
        caption = "Depth 64, arrivals at random. The rarer an I/O is, the more room it has."
        sections.insert(0, Section("Plot", plots=[Plot("percentiles", caption, figure)]))
    return Told(Answer(headline, _table(summary, found), _doubts(found)), sections, _READING)


def _table(summary: Summary, found: Mapping[str, Waits]) -> Table:
    every = {case.name: cells.at(summary.done, case.factors) for case in CASES}
    rates = {
        name: texts.measured(cells.sample(those, measures.IOPS)) for name, those in every.items()
    }
    rows = [
        [name, *(texts.number(ms(waits, at)) for at in _PERCENTS), rates.get(name, f"{RATE:,}")]
        for name, waits in found.items()
    ]
    return Table(["", *(f"p{at:g}, ms" for at in _PERCENTS), "IOPS"], rows)


def _doubts(found: Mapping[str, Waits]) -> list[str]:
    """Say where the arrival clock is furthest off, if that is further than it may be."""
    off = [
        (
            abs(ms(found[case.name], at) / ms(found[case.users], at) - 1),
            f"p{at}, {case.process} d{case.depth}",
        )
        for case in CASES
        if case.clock == OURS and case.name in found
        for at in (95, 99)
    ]
    far, where = max(off, default=(0.0, ""))
    told = f"{OURS} is off by up to {100 * far:.0f} % ({where}): rerun when idle."
    return [told] if far > _TRUE else []


_READING = [
    f"The server answers at once, but stops for {_LENGTH_MS} ms in every {_EVERY_MS} ms. A tenth of"
    " all I/O is asked for in a stall, and waits for its end: p95 is half of a stall, p99 nine"
    " tenths.",
    f"{USERS.capitalize()} is calculated: I/Os come by the clock, whatever became of those before"
    " them, and each is served in the measured median of clat.",
    f"{OURS} counts from the instant when an I/O was due, {FIOS} from its sending; and while"
    " iodepth is used up, it sends nothing: what should have been asked for is in no percentile.",
    "Latency is fio's lat here; the table of every cell has clat (from sending to completion) too.",
]
STORY = Story(
    name="stall",
    about="Latency of a server that stalls: what users see, and what is reported",
    tell=_tell,
    factors=dict.fromkeys(("workload", "clock", "process", "iodepth"), Varied()),
)
