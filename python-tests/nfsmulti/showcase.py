# SPDX-License-Identifier: GPL-2.0-only
"""demo: three workloads on one connection and on several, under limits that a machine can carry.

Factors: workload, side (one, many).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from nfsmulti import texts
from nfsmulti.lab import Fit, Limits
from nfsmulti.report import cells, charts, measures
from nfsmulti.report.answer import Answer
from nfsmulti.report.story import Judged, Plot, Report, Section, Told, Verdict, judge
from nfsmulti.scenario import CellSpec, timed
from nfsmulti.stats import Ratio, Sample
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table, rate_text

# --- what runs ---

REPEATS = 3
SIDES = ("one", "many")
LAB = "lab"  # summary.place's kind where the servers are real ones

_MIB = 1 << 20


@dataclass(frozen=True)
class Side:
    """One side of a comparison: in a sentence with its verb, and for fio."""

    words: str
    options: dict[str, Factor | None]
    paths: int = 1


@dataclass(frozen=True)
class Workload:
    """A jobfile, run with `options` and those of each side.

    `link` and `cap` are limits in tc's words, which are lowered in their proportion to what the
    machine can carry. Where they are a publication's, a cap holds for each path of the side `many`,
    which is an address of a lab; otherwise `per_connection`. There are `connections` of them.
    `files` must be there. `theirs` is the ratio to hold ours against, and `said` where it comes
    from.
    """

    name: str
    jobfile: str
    options: dict[str, Factor | None]
    one: Side
    many: Side
    connections: int
    link: str
    cap: str
    theirs: float
    said: str
    files: dict[str, int] = field(default_factory=dict)
    per_connection: bool = False

    @property
    def capped(self) -> str:
        """What a cap holds for."""
        return "connection" if self.per_connection else "path"

    def limits(self, fit: Fit) -> Limits:
        """Return the limits to set: a link and a cap by address, or a cap on each connection."""
        limits = fit.limits
        if self.per_connection:
            return Limits(per_connection=limits.per_address, burst=limits.burst)
        return limits


_DD = Workload(
    name="dd",
    jobfile="dd-write.fio",
    options={"size": 64 * _MIB},
    one=Side("one stream does", {}),
    many=Side("five streams on five paths write", {"numjobs": 5}, paths=5),
    connections=5,
    link="1gbit",
    cap="200mbit",
    theirs=72 / 19.4,
    said="published 3.71",
)
_FSPERF = Workload(
    name="fsperf",
    jobfile="fsperf.fio",
    options={"size": 256 * _MIB},
    one=Side("it does on one path", {}),
    many=Side("one reader reads on four paths", {"spread": "roundrobin"}, paths=4),
    connections=4,
    link="9400mbit",
    cap="6200mbit",
    theirs=1100 / 718,
    said="published 1.53",
    files={"nfsmulti-fsperf": 256 * _MIB},
)
# Where nothing is published, a "link" of twice all caps together only keeps these well below what
# the machine carries: then they are reached beside other programs too.
_RANDREAD = Workload(
    name="randread",
    jobfile="randread.fio",
    options={"numjobs": 1},
    one=Side("one does", {"nconnect": 1}),
    many=Side(
        "four connections to one address read",
        {"nconnect": 4, "spread": "roundrobin"},
    ),
    connections=4,
    link="18800mbit",
    cap="2350mbit",
    theirs=4.0,
    said="caps allow 4.00",
    files={"nfsmulti-randread": 10_000_000},
    per_connection=True,
)

IN_LAB = (_DD, _FSPERF, _RANDREAD)

# Pacing caps what a server sends on a connection: there are reads alone, and no link to share.
ON_LOOPBACK = (
    dataclasses.replace(
        _DD,
        jobfile="dd-read.fio",
        many=dataclasses.replace(_DD.many, words="five streams on five paths read"),
        link="2gbit",
        theirs=5.0,
        said="caps allow 5.00",
        per_connection=True,
    ),
    dataclasses.replace(
        _FSPERF, link="49600mbit", theirs=4.0, said=_RANDREAD.said, per_connection=True
    ),
    _RANDREAD,
)


def cell_of(workload: Workload, side: str, seconds: float) -> CellSpec:
    """Return what runs of a side for so long."""
    chosen = workload.one if side == "one" else workload.many
    return CellSpec(
        factors={"workload": workload.name, "side": side},
        place=workload.name,
        jobfile=workload.jobfile,
        options={**workload.options, **chosen.options, **timed(seconds)},
        seconds=seconds,
        paths=chosen.paths,
        files=workload.files,
    )


# --- what it tells ---

# The part of a limit in data, without headers, from which on it was reached, and the part of the
# processors' time from which on these were busy.
_REACHED, _BUSY = 0.85, 0.95


@dataclass(frozen=True)
class Outcome:
    """The repeats of a workload's two sides, under the limits that `fit` has found.

    `why` says in a line why it was not measured, None where it was.
    """

    workload: Workload
    fit: Fit | None = None
    one: Sequence[Cell] = ()
    many: Sequence[Cell] = ()
    why: str | None = None

    @property
    def ratio(self) -> Ratio | None:
        """The bandwidth of many connections as a multiple of one's."""
        return cells.ratio(self.many, self.one, measures.MB_PER_S)

    @property
    def judged(self) -> Judged:
        """Whether it shows what it is there for, which only all repeats together can tell."""
        allowed = None
        if self.fit and not any(why for _, why in _reaches(self, self.fit)):
            allowed = min(self.workload.connections, self.fit.link / self.fit.cap)
        return judge(self.ratio, self.workload.theirs, allowed)


def outcomes(summary: Summary) -> list[Outcome]:
    """Return what each workload of a demo has shown."""
    found = []
    for workload in IN_LAB if summary.place["kind"] == LAB else ON_LOOPBACK:
        own = [cell for cell in summary.cells if cell.factors["workload"] == workload.name]
        if why := next((cell.why for cell in own if cell.status == "failed"), None):
            found.append(Outcome(workload, why=why))
            continue
        one, many = ([cell for cell in own if cell.factors["side"] == side] for side in SIDES)
        fit = summary.place["fitted"].get(workload.name)
        found.append(Outcome(workload, Fit(**fit) if fit else None, one, many))
    return found


def _rate(repeats: Sequence[Cell]) -> Sample | None:
    return cells.sample(repeats, measures.MB_PER_S)


def trouble(outcome: Outcome) -> str:
    """Say why a workload does not show what it is there for; "" where it does, or did not run."""
    name, verdict = outcome.workload.name, outcome.judged.verdict
    shown = verdict in (Verdict.REPRODUCED, Verdict.BY_CONSTRUCTION)
    if shown or outcome.ratio is None or outcome.fit is None:
        return ""
    if (repeats := min(len(outcome.one), len(outcome.many))) < REPEATS:
        return f"{name}: there was time for {repeats} of {REPEATS} repeats on this machine."
    found = [f"{text}{why}" for text, why in _reaches(outcome, outcome.fit) if why]
    known = found and verdict is not Verdict.INCONCLUSIVE
    return f"{name}: {found[0] if known else outcome.judged.why}."


def _reaches(outcome: Outcome, fit: Fit) -> list[tuple[str, str]]:
    """Hold both sides against the limits that they can reach.

    Gives how far each came, in words, and why it stayed below its limit, "" where it did not.
    """
    caps = outcome.workload.connections * fit.cap
    whose, limit = ("the link's", fit.link) if fit.link < caps else ("all caps'", caps)
    cap, several = f"its cap of {rate_text(fit.cap)}", f"{whose} {rate_text(limit)}"
    return [
        _reach(f"One {outcome.workload.capped}", "has", outcome.one, fit.cap, cap),
        _reach("Several", "have", outcome.many, limit, several),
    ]


def _reach(who: str, has: str, side: Sequence[Cell], limit: int, name: str) -> tuple[str, str]:
    part = found.mean * 8e6 / limit if (found := _rate(side)) else 0.0
    if part >= _REACHED:
        return f"{who} {has} reached {name}", ""
    busy = cells.sample(side, measures.PROCESSORS)
    cores = f"{busy.mean:.0f}% of {side[0].processors} cores were busy" if busy else ""
    why = f": no reason was found{f' ({cores})' if cores else ''}"
    if busy and busy.mean >= 100 * _BUSY:
        others = "fio, its servers and whatever else runs here"
        why = f": the processors are the limit, {cores} with {others}"
    return f"{who} stayed at {part:.0%} of {name}", why


def _plot(found: Sequence[Outcome]) -> Plot:
    sides = {"one": [one.one for one in found], "several": [one.many for one in found]}
    series = {
        name: [cells.sample(side, measures.MB_PER_S) for side in those]
        for name, those in sides.items()
    }
    names = [one.workload.name for one in found]
    figure = charts.bars("One connection, and several", "MB/s", names, series)
    return Plot("bandwidth", f"Bandwidth of each workload; {charts.REPEATS}.", figure)


def _tell(summary: Summary) -> Told:
    found = outcomes(summary)
    ratios = [f"{one.ratio.value:.2f} ({one.workload.name})" for one in found if one.ratio]
    headline = f"{texts.several(ratios) or 'No'} times the bandwidth of one connection."
    rows = [
        [
            one.workload.name,
            *(texts.measured(_rate(side)) for side in (one.one, one.many)),
            texts.times(one.ratio),
            one.workload.said,
            one.judged.verdict,
        ]
        for one in found
    ]
    headings = ["", "one, MB/s", "several, MB/s", "times", "expected", "verdict"]
    table = Table(headings, rows, ending_text_columns=2)
    section = Section("Plots", plots=[_plot(found)])
    reading = [
        f"{one.workload.name}: {one.workload.many.words}, in times what {one.workload.one.words}."
        for one in found
    ]
    return Told(
        Answer(headline, table, list(filter(None, map(trouble, found)))), [section], reading
    )


REPORT = Report(
    "demo",
    "demo: one connection and several",
    factors=("workload", "side"),
    tell=_tell,
)
