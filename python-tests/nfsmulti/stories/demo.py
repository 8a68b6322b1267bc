# SPDX-License-Identifier: GPL-2.0-only
"""demo: three workloads on one connection and on several, under limits that a machine can carry.

Factors: workload, side (one, many). Each sentence follows from the figures; the verdict is that of
the reports (report/verdict.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import rich.table

from nfsmulti import texts
from nfsmulti.lab import Fit
from nfsmulti.report import cells, charts, verdict
from nfsmulti.report.story import Report, Section, Story
from nfsmulti.report.verdict import Judged, Verdict
from nfsmulti.stats import Ratio, Sample
from nfsmulti.stories.scenario import CellSpec, timed
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table, rate_text, time_text

# --- what runs ---

REPEATS = 3
# What a fio runs for. In all: 3 workloads x 2 sides x (FIT + REPEATS x RUN), with what it takes to
# start a fio and a lab, is well below three minutes. On a slower machine fewer repeats are made, so
# that all rows together end within the budget.
FIT_SECONDS, RUN_SECONDS, BUDGET_SECONDS = 1.0, 3.0, 150.0

_MIB = 1 << 20


@dataclass(frozen=True)
class Side:
    """One side of a comparison: in a row of the table, in a sentence with its verb, for fio."""

    row: str
    words: str
    options: dict[str, Factor | None]
    paths: int = 1


@dataclass(frozen=True)
class Workload:
    """A jobfile, run with `options` and those of each side.

    `link` and `cap` are limits in tc's words, which are lowered in their proportion to what the
    machine can carry. A cap holds for each path of the side `many`, which is an address of a lab,
    or for each connection where `per_connection`; there are `connections` of them. `files` must be
    there. `theirs` is the ratio to hold ours against, and `said` where it comes from; `published`
    where link and cap are a publication's.
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
    published: bool = True
    seconds: float = RUN_SECONDS

    @property
    def capped(self) -> str:
        """What a cap holds for."""
        return "connection" if self.per_connection else "path"

    @property
    def addresses(self) -> int:
        """How many the servers need."""
        return self.many.paths


_DD = Workload(
    name="dd",
    jobfile="dd-write.fio",
    options={"size": 64 * _MIB},
    one=Side("dd-write, 1 stream", "one stream does", {}),
    many=Side("dd-write, 5 streams", "five streams on five paths write", {"numjobs": 5}, paths=5),
    connections=5,
    link="1gbit",
    cap="200mbit",
    theirs=72 / 19.4,
    said="published: 3.71 times (AIX, 1 GbE: 19.4 MB/s, five streams 72 MB/s)",
)
_FSPERF = Workload(
    name="fsperf",
    jobfile="fsperf.fio",
    options={"size": 256 * _MIB},
    one=Side("fsperf, 1 path", "it does on one path", {}),
    many=Side(
        "fsperf, 4 paths", "one reader reads on four paths", {"spread": "roundrobin"}, paths=4
    ),
    connections=4,
    link="9400mbit",
    cap="6200mbit",
    theirs=1100 / 718,
    said="published: 1.53 times (NFSv3, 10 GbE: 718 MB/s, four mounts 1100 MB/s)",
    files={"fsperf": 256 * _MIB},
)
# Where nothing is published, a "link" of twice all caps together only keeps these well below what
# the machine carries: then they are reached beside other programs too.
_RANDREAD = Workload(
    name="randread",
    jobfile="randread.fio",
    options={"numjobs": 1},
    one=Side("randread, nconnect=1", "one does", {"nconnect": 1}),
    many=Side(
        "randread, nconnect=4",
        "four connections to one address read",
        {"nconnect": 4, "spread": "roundrobin"},
    ),
    connections=4,
    link="18800mbit",
    cap="2350mbit",
    theirs=4.0,
    said="four caps together allow 4.00 times",
    files={"1.txt": 10_000_000},
    per_connection=True,
    published=False,
)

IN_LAB = (_DD, _FSPERF, _RANDREAD)

# Pacing caps what a server sends on a connection: there are reads alone, and no link to share.
ON_LOOPBACK = (
    dataclasses.replace(
        _DD,
        jobfile="dd-read.fio",
        one=dataclasses.replace(_DD.one, row="dd-read, 1 stream"),
        link="2gbit",
        many=dataclasses.replace(
            _DD.many, row="dd-read, 5 streams", words="five streams on five paths read"
        ),
        theirs=5.0,
        said="five caps together allow 5.00 times",
        per_connection=True,
        published=False,
    ),
    dataclasses.replace(
        _FSPERF,
        link="49600mbit",
        theirs=4.0,
        said="four caps together allow 4.00 times",
        per_connection=True,
        published=False,
    ),
    _RANDREAD,
)


def cell_of(workload: Workload, side: str, seconds: float) -> CellSpec:
    """Give what runs of a side, one or many, for so long."""
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


# The part of a limit in data, without headers, from which on it was reached, and that from which on
# the figure need not be said; and the part of the processors' time from which on these were busy.
_REACHED, _FULL, _BUSY = 0.85, 0.97, 0.95
LAB = "lab"  # summary.place's kind where the servers are real ones


@dataclass(frozen=True)
class Outcome:
    """The repeats of a workload's two sides, under the limits that `fit` has found.

    `limits` are the rates that were set for that, by name. `why` says in a line why it was not
    measured, None where it was.
    """

    workload: Workload
    fit: Fit | None = None
    one: Sequence[Cell] = ()
    many: Sequence[Cell] = ()
    why: str | None = None
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def ratio(self) -> Ratio | None:
        """The bandwidth of many connections as a multiple of one's."""
        return cells.ratio(self.many, self.one, cells.bandwidth)

    @property
    def judged(self) -> Judged:
        """Whether it shows what it is there for, which only all repeats together can tell."""
        allowed = None
        if self.fit and not any(reach.short for reach in _reaches(self, self.fit)):
            allowed = min(self.workload.connections, self.fit.link / self.fit.cap)
        return verdict.judge(self.ratio, self.workload.theirs, allowed)

    @property
    def shown(self) -> bool:
        """Whether it does."""
        return self.judged.verdict in (Verdict.REPRODUCED, Verdict.BY_CONSTRUCTION)

    @property
    def repeats(self) -> int:
        """How many there was time for."""
        return min(len(self.one), len(self.many))

    @property
    def cores(self) -> int:
        """The processors that fio and its servers may use, fewer than the machine has perhaps."""
        return max((cell.processors for cell in (*self.one, *self.many)), default=1)

    @property
    def sides(self) -> tuple[Sequence[Cell], Sequence[Cell]]:
        """One connection's repeats, and those of several."""
        return self.one, self.many

    def busy(self, side: Sequence[Cell]) -> float | None:
        """Give the part of the processors' time that all programs together took on a side."""
        found = cells.sample(side, _busy_cores)
        return found.mean / self.cores if found else None


def rate(repeats: Sequence[Cell]) -> Sample | None:
    """Give the bytes per second of each repeat."""
    return cells.sample(repeats, cells.bandwidth)


def table(outcomes: Sequence[Outcome]) -> rich.table.Table:
    """Show the outcomes, two rows each, in 80 columns."""
    shown = _figures(outcomes).terminal()
    for last_of_two in shown.rows[1::2]:
        last_of_two.end_section = True
    return shown


def _figures(outcomes: Sequence[Outcome]) -> Table:
    rows = []
    for outcome in outcomes:
        workload, ratio = outcome.workload, outcome.ratio
        last = f"{ratio.value:.2f}" if ratio else texts.MISSING
        rows += [[*_row(workload.one, outcome.one), "1"]]
        rows += [[*_row(workload.many, outcome.many), last]]
    headings = ("", "MB/s", "IOPS", "mean", "p99", "CPU", "ratio")
    return Table(headings, rows, "The same jobfile on one connection and on several")


def story(outcome: Outcome) -> str:
    """Say what an outcome shows, or that it does not and why."""
    workload, ratio, fit = outcome.workload, outcome.ratio, outcome.fit
    if outcome.why or ratio is None or fit is None:
        return f"{workload.name} was not measured: {outcome.why or 'one side has no figures'}."
    rates = [texts.mean(rate(side), "MB/s", 1e6) for side in (outcome.many, outcome.one)]
    return " ".join(
        part
        for part in (
            f"{workload.name}: {workload.many.words} {ratio.text} times what {workload.one.words}"
            f" ({' against '.join(rates)}); {workload.said}.",
            outcome.judged.text,
            _held_by(outcome, fit) if outcome.shown else _reason(outcome, fit),
            _shares(outcome.many),
        )
        if part
    )


@dataclass(frozen=True)
class _Reach:
    """How far a side came: the `part` of its `limit` in data, and of the processors' time."""

    who: str
    has: str
    limit: str
    part: float
    busy: float | None

    @property
    def short(self) -> bool:
        """Whether something else than the limit held it."""
        return self.part < _REACHED

    @property
    def text(self) -> str:
        """Say it, without a full stop."""
        if self.short:
            return f"{self.who} stayed at {self.part:.0%} of {self.limit}"
        part = "" if self.part >= _FULL else f"{self.part:.0%} of "
        return f"{self.who} {self.has} reached {part}{self.limit}"

    def why(self, cores: int) -> str:
        """Say what held it, if that was not the limit."""
        if not self.short:
            return ""
        if self.busy is not None and self.busy >= _BUSY:
            return (
                f": the processors are the limit, {self.busy:.0%} of {cores} cores were busy with"
                " fio, its servers and whatever else runs here"
            )
        used = "" if self.busy is None else f" ({self.busy:.0%} of {cores} cores were busy)"
        return f": no reason was found{used}"


def _reaches(outcome: Outcome, fit: Fit) -> list[_Reach]:
    """Hold both sides against the limits that they can reach."""
    one, many = (found.mean * 8 if (found := rate(side)) else 0.0 for side in outcome.sides)
    caps = outcome.workload.connections * fit.cap
    whose, limit = ("the link's", fit.link) if fit.link < caps else ("all caps'", caps)
    cap, several = f"its cap of {rate_text(fit.cap)}", f"{whose} {rate_text(limit)}"
    who = f"One {outcome.workload.capped}"
    return [
        _Reach(who, "has", cap, one / fit.cap, outcome.busy(outcome.one)),
        _Reach("Several", "have", several, many / limit, outcome.busy(outcome.many)),
    ]


def _held_by(outcome: Outcome, fit: Fit) -> str:
    """Say which limits the sides have reached."""
    return " ".join(f"{reach.text}." for reach in _reaches(outcome, fit))


def _reason(outcome: Outcome, fit: Fit) -> str:
    """Say why an outcome does not show what it is there for, as far as its figures tell."""
    if outcome.repeats < REPEATS:
        few = f"There was time for {outcome.repeats} of {REPEATS} repeats on this machine."
        return f"{few} {_held_by(outcome, fit)}"
    reaches = _reaches(outcome, fit)
    said = [f"{reach.text}{reach.why(outcome.cores)}." for reach in reaches]
    if not any(reach.short for reach in reaches):
        said.append("No reason was found.")
    return " ".join(said)


def _busy_cores(cell: Cell) -> float | None:
    seconds = max((side.seconds for side in cells.sides(cell)), default=0.0)
    return cell.machine_cpu_s / seconds if cell.machine_cpu_s is not None and seconds else None


def _shares(repeats: Sequence[Cell]) -> str:
    """Say how evenly the paths were used, where there are several."""
    paths = list(dict.fromkeys(path for cell in repeats for path in cell.paths))
    if len(paths) < 2:
        return ""
    shares = [sum(cell.paths.get(path, 0.0) for cell in repeats) / len(repeats) for path in paths]
    return f"Share of each path: {' '.join(f'{share:.0%}' for share in shares)}."


def _row(side: Side, repeats: Sequence[Cell]) -> list[str]:
    """Give a side's cells: MB/s, IOPS, mean and p99 of latency, cores of fio's own CPU."""
    figures = [one for cell in repeats for one in cells.sides(cell)]
    if not figures:
        return [side.row, *[texts.MISSING] * 5]
    operations = sum(one.ops for one in figures)
    mean = sum(one.mean_us * one.ops for one in figures) / operations
    p99 = cells.latency_us(figures, 99) or 0.0
    cpu = sum(cell.cpu_s for cell in repeats) / sum(one.seconds for one in figures)
    return [
        side.row,
        texts.mean(rate(repeats), scale=1e6),
        texts.mean(cells.sample(repeats, cells.iops)),
        time_text(mean * 1000),
        time_text(p99 * 1000),
        f"{cpu:.0%}",
    ]


# --- the picture ---


def write_plot(outcomes: Sequence[Outcome], file: Path) -> None:
    """Draw bandwidth on one connection and on several, a panel for each workload; writes a PNG.

    It is as narrow as a phone; in print a hatch tells the one connection apart.
    """
    from matplotlib.figure import Figure  # which takes half a second to load

    figure = Figure(figsize=(4.2, 1.7 * len(outcomes)), layout="constrained")
    for panel, outcome in zip(figure.subplots(len(outcomes), 1), outcomes, strict=True):
        workload, ratio = outcome.workload, outcome.ratio
        sides = [(workload.one, rate(outcome.one)), (workload.many, rate(outcome.many))]
        labels = [side.row.split(", ")[-1] for side, _ in sides]
        means = [found.mean / 1e6 if found else 0.0 for _, found in sides]
        bars = panel.barh(labels, means, color=[charts.COLOURS[1], charts.COLOURS[0]], height=0.7)
        bars[0].set(hatch="//", edgecolor="white")
        for place, (mean, (_, found)) in enumerate(zip(means, sides, strict=True)):
            values = [value / 1e6 for value in found.values] if found else []
            panel.plot(values, [place] * len(values), ".", color="black", alpha=0.6)
            panel.text(
                max([mean, *values]), place, f"  {texts.mean(found, scale=1e6)}", va="center"
            )
        shown = f"{ratio.text} times" if ratio else "not measured"
        panel.set_title(f"{workload.name}: {shown}", fontsize="medium", fontweight="bold")
        panel.set_xlabel("MB/s\n" + workload.said.replace(" (", "\n("), fontsize="small")
        panel.set_xlim(0, 1.2 * max(panel.get_xlim()))
        panel.invert_yaxis()
        panel.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)


# --- the report of a run ---


def outcomes(summary: Summary) -> list[Outcome]:
    """Give what each workload of a demo has shown."""
    workloads = IN_LAB if summary.place["kind"] == LAB else ON_LOOPBACK
    return [_outcome(summary, workload) for workload in workloads]


def _outcome(summary: Summary, workload: Workload) -> Outcome:
    own = [one for one in summary.cells if one.factors["workload"] == workload.name]
    if why := next((one.why for one in own if one.status == "failed"), None):
        return Outcome(workload, why=why)
    one, many = (cells.having(summary, workload=workload.name, side=s) for s in ("one", "many"))
    fit = summary.place["fitted"].get(workload.name)
    return Outcome(workload, Fit(**fit) if fit else None, one, many)


def _tell(summary: Summary) -> Story:
    found = outcomes(summary)
    tables = [_figures(found)]
    return Story(
        [story(one) for one in found], [Section("One connection, and several", (), tables)]
    )


REPORT = Report(
    title="demo: one connection and several",
    publication=(
        "Three jobfiles on one connection and on several, in short. It reproduces no publication as"
        " a whole: `./nfsmulti run` does that."
    ),
    factors=("workload", "side"),
    beside=lambda _: [],
    tell=_tell,
)
