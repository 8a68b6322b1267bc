# SPDX-License-Identifier: GPL-2.0-only
"""client-cost: CPU per operation of the engine, beside other engines on the same work.

Factors: workload, in words; engine (nfsmulti, another's name, or what of nfsmulti is otherwise).
What is told are ratios, run by run. Until 0.7.0 there was also a bench `mount`, whose results have
their pages still.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nfsmulti import texts
from nfsmulti.report import cells, charts, measures
from nfsmulti.report.answer import KINDS, MOST_ROWS, Answer, varying
from nfsmulti.report.measures import CPU, Take
from nfsmulti.report.story import Plot, Section, Told
from nfsmulti.scenario import FOR_HARNESS, CellSpec, timed
from nfsmulti.stats import Ratio
from nfsmulti.story import Factor as Varied
from nfsmulti.story import Story
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table
from nfsmulti.units import parse_size

# --- what is measured ---

# What engines are called. OTHER is another build of ours, and YARDSTICK no engine of ours: a run's
# place says which. SINGLE, V3 and DATA are the engine under test itself, otherwise than in the
# case.
OURS, PEER, YARDSTICK, IO_URING = "nfsmulti", "fio nfs", "plain sockets", "io_uring"
OTHER = "other engine"
SINGLE, V3, DATA = "one connection", "NFSv3", "READ"


@dataclass(frozen=True)
class Case:
    """One workload: fio's rw, bs and iodepth, the depth being that of all connections together.

    One that runs `alone` is measured on one connection too. `version` is that of NFS where it is
    not 3. `operation` is a metadata operation, which is made instead of each I/O.
    """

    rw: str
    bs: str
    depth: int
    connections: int = 1
    alone: bool = False
    version: str = ""
    operation: str = ""

    @property
    def name(self) -> str:
        """A name in fio's words, such as "randread 4k d32", "… c4" or "… v4.1"."""
        return " ".join(self._told(f"{self.rw} {self.bs}", "d{}", "c{}", "v{}"))

    @property
    def plain(self) -> bool:
        """Whether other engines have it: NFSv3's data."""
        return not self.version and not self.operation

    @property
    def words(self) -> str:
        """What it does, in words: "4k random reads, depth 32, 4 connections"."""
        kind = KINDS[self.rw].removeprefix("sequential ")
        return ", ".join(self._told(f"{self.bs} {kind}", "depth {}", "{} connections", "NFSv{}"))

    def _told(self, data: str, *forms: str) -> list[str]:
        """Return the operation, or the data that is moved; and in these forms how it is asked."""
        several = self.connections if self.connections > 1 else ""
        how = zip(forms, (self.depth, several, self.version), strict=True)
        return [self.operation or data, *(form.format(at) for form, at in how if at)]


CLIENT_COST = (
    *(Case("randread", "4k", depth) for depth in (1, 8, 32, 128)),
    *(Case("write", bs, depth) for bs, depth in (("4k", 32), ("8k", 8), ("64k", 8), ("1m", 8))),
    *(Case("read", bs, 8) for bs in ("64k", "1m")),
    # The peer has one connection to a job, so that it takes as many jobs as connections.
    Case("randread", "4k", 128, connections=4),
    Case("write", "64k", 8, connections=4),
    Case("read", "64k", 8, connections=4),
    Case("randread", "4k", 256, connections=64, alone=True),
    Case("write", "64k", 64, connections=64),
    Case("read", "64k", 64, connections=64),
    # fio's nfs engine has neither NFSv4.1 nor metadata.
    Case("randread", "4k", 1, version="4.1"),
    Case("randread", "4k", 32, version="4.1"),
    Case("write", "4k", 32, version="4.1"),
    Case("read", "64k", 8, version="4.1"),
    Case("randread", "4k", 32, operation="getattr"),
)
_WORKLOADS = [case.words for case in CLIENT_COST]

# --- what fio runs ---

SINK = "nfs-sink"  # the place of all cells
_FILE = {"filename": "bench", "size": "1g"}  # nfs-sink has every file
_ENTRIES = 64  # so few that nearly all calls are what is asked
# The peer's jobs may hang at their end: after so many seconds more they never end.
_SPARE_SECONDS, _SPARE_SECONDS_PER_CONNECTION = 3.0, 0.05
_TRIES = 3  # for they may hang at their beginning, too

Options = dict[str, Factor | None]


class Timing(NamedTuple):
    """How many seconds a run is measured, after how long a start."""

    seconds: float
    ramp: float


FULL, QUICK = Timing(5.0, 0.5), Timing(1.0, 0.2)


def client_cost(
    case: Case, timing: Timing, peer: Path | None, engines: Mapping[str, Path]
) -> list[CellSpec]:
    """Return what each engine runs for a case: ours, then those that take it.

    `peer` is a fio that has the nfs engine. {url} and {port} in an option are the server's.
    `engines` may have a YARDSTICK; or OTHER, which is then the only one beside ours.
    """
    found = [_ours(case, timing, OURS, case)]
    if other := engines.get(OTHER):
        return [*found, _ours(case, timing, OTHER, case, {"ioengine": f"external:{other}"})]
    if peer and case.plain:
        found.append(_peer(case, timing, peer))
    if (other := engines.get(YARDSTICK)) and case.plain and case.connections == 1:
        words: Options = {"ioengine": f"external:{other}", "port": "{port}", "size": "1g"}
        found.append(_beside(case, YARDSTICK, timing, words, client="other"))
    if case.alone:
        found.append(_ours(case, timing, SINGLE, dataclasses.replace(case, connections=1)))
    if case.version:
        found.append(_ours(case, timing, V3, dataclasses.replace(case, version="")))
    if case.operation:
        found.append(_ours(case, timing, DATA, dataclasses.replace(case, operation="")))
    return found


def _ours(
    case: Case, timing: Timing, name: str, runs: Case, more: Mapping[str, str] | None = None
) -> CellSpec:
    """Return the engine under test: one job, striped over its connections."""
    options: Options = {**_FILE}
    if runs.operation:  # an I/O's size stands for one entry
        size = _ENTRIES * parse_size(runs.bs)
        options = {"filename": "entries", "size": size, "metadata": 1, "meta_read": runs.operation}
    if runs.connections > 1:
        options |= {"spread": "stripe", "nconnect": runs.connections}
    query = f"version={runs.version}" if runs.version else ""
    return _beside(case, name, timing, {**options, **(more or {})}, query=query)


def _peer(case: Case, timing: Timing, fio: Path) -> CellSpec:
    """Return fio's nfs engine, which has one connection to a job: as many jobs as connections."""
    options: Options = {
        "ioengine": "nfs",
        "nfs_url": "{url}",
        **_FILE,
        "numjobs": case.connections,
        "iodepth": case.depth // case.connections,
    }
    spare = _SPARE_SECONDS + _SPARE_SECONDS_PER_CONNECTION * case.connections
    return _beside(
        case, PEER, timing, options, client="other", fio=str(fio), patience=spare, tries=_TRIES
    )


def _beside(case: Case, engine: str, timing: Timing, options: Options, **more: Any) -> CellSpec:
    return spec(case, {"workload": case.words, "engine": engine}, timing, options, **more)


def spec(
    case: Case, factors: dict[str, Factor], timing: Timing, options: Options, **more: Any
) -> CellSpec:
    """Return a cell that keeps no log of how it went on, for that costs CPU time as well."""
    every: Options = {
        **dict.fromkeys(sorted(FOR_HARNESS - {"stats_file"})), "iodepth": case.depth, **options,
        "rw": case.rw, "bs": case.bs, "norandommap": 1,
        "ramp_time": f"{1000 * timing.ramp:.0f}ms" if timing.ramp else None,
        **timed(timing.seconds),
    }  # fmt: skip
    length = timing.seconds + timing.ramp
    return CellSpec(factors, SINK, "", every, length, warm_up=False, **more)


# --- what it tells ---

_FULL = 90.0  # per cent of its core that a server which is the limit uses
_MARK = "*"
_PER_END = MOST_ROWS // 2
RATIOS = {"CPU per operation": CPU, "IOPS": "IOPS", "p50": "p50 ms"}
_PLOTTED = {"cpu": "CPU per operation", "rate": "IOPS"}
_WHOSE = {
    PEER: "fio's nfs engine",
    OTHER: "the other engine",
    IO_URING: "fio's io_uring engine",
    YARDSTICK: YARDSTICK,
    SINGLE: "one connection's",
    V3: "NFSv3's",
    DATA: "a READ's",
}


@dataclass(frozen=True)
class Pair:
    """The cells of our engine on a workload, and of another beside it.

    `cost` is how their CPU time per operation is taken, `cpu` the ratio of ours to theirs.
    """

    workload: str
    beside: str
    ours: Sequence[Cell]
    theirs: Sequence[Cell]
    cost: Take
    cpu: Ratio

    @property
    def is_full(self) -> bool:
        """Whether the server's core was the limit."""
        busy = [cell.server.cpu_percent or 0.0 for cell in self.ours if cell.server]
        return bool(busy) and statistics.median(busy) >= _FULL

    @property
    def marked(self) -> str:
        """The workload, marked where the server's core was the limit."""
        return f"{self.workload}{_MARK if self.is_full else ''}"

    def ratio(self, figure: str) -> Ratio | None:
        """Return one of RATIOS; None where no repeat has both."""
        take = self.cost if RATIOS[figure] == CPU else measures.MEASURES[RATIOS[figure]]
        return cells.ratio(self.ours, self.theirs, take)


def pairs_of(summary: Summary) -> list[Pair]:
    """Return all that can be compared, in the order of the cases."""
    found, workloads = [], [*map(str, cells.levels(summary.done, "workload"))]
    for workload in workloads:
        own = cells.at(summary.done, {"workload": workload})
        ours = cells.at(own, {"engine": OURS})
        for engine in map(str, cells.levels(own, "engine")):
            theirs = cells.at(own, {"engine": engine})
            cost = cells.cpu_measure([*ours, *theirs])
            if engine != OURS and (cpu := cells.ratio(ours, theirs, cost)):
                found.append(Pair(workload, engine, ours, theirs, cost, cpu))
    order = [*_WORKLOADS, *workloads], [*_WHOSE, *(one.beside for one in found)]
    return sorted(found, key=lambda one: (order[0].index(one.workload), order[1].index(one.beside)))


def _tell(summary: Summary) -> Told:
    pairs = pairs_of(summary)
    if not pairs:
        return Told(Answer("No other engine has run beside nfsmulti: nothing can be compared."))
    chief = pairs[0].beside
    held = [one for one in pairs if one.beside == chief]
    rows = [[one.workload, one.beside, *map(texts.ratio, map(one.ratio, RATIOS))] for one in pairs]
    ratios = Table(["", "beside", *RATIOS], rows, text_columns=2)
    sections = [
        Section("Plots", plots=[_plot(held, *one) for one in _PLOTTED.items()]),
        Section("Ratios to other engines", tables=[ratios], folded=True),
        commands(summary, "engine"),
    ]
    caveats = [_SINK] if summary.scenario == "client-cost" else []
    if full := sum(one.is_full for one in held):
        caveats.append(
            f"The server's core was full in {full} of {len(held)} workloads ({_MARK}): it limits"
            " their IOPS."
        )
    whose = str(summary.place.get(chief) or _WHOSE.get(chief, chief))
    answer = Answer(_headline(held, whose), _answer_table(pairs, held), caveats)
    return Told(answer, sections, _READING[summary.scenario])


def commands(summary: Summary, factor: str) -> Section:
    """Show the first command at each level of a factor."""
    first = {cell.factors[factor]: cell.command for cell in reversed(summary.done)}
    return Section(f"The command of each {factor}", lines=[*first.values()], folded=True)


def _headline(held: Sequence[Pair], whose: str) -> str:
    values = [100 * one.cpu.value for one in held]
    same = sum(bool(one.cpu.spans_one) for one in held)
    what, unsure = held[0].workload, "; no measurable difference"
    if len(held) > 1:
        whose = f"{whose} (median {statistics.median(values):.0f} %)"
        what, unsure = f"{len(held)} workloads", f"; {same} without a measurable difference"
    found = texts.ends(values, "{:.0f}".format)
    return f"{found} % of the CPU per operation of {whose}, {what}{unsure if same else ''}."


def _answer_table(pairs: Sequence[Pair], held: Sequence[Pair]) -> Table:
    """Show all pairs, or else those beside the first engine, or the ends of these."""
    title = ""
    if len(pairs) > MOST_ROWS:
        pairs = sorted(held, key=lambda one: one.cpu.value)
    if len(pairs) > MOST_ROWS:
        title = f"{_PER_END} lowest and {_PER_END} highest of {len(pairs)}"
        pairs = [*pairs[:_PER_END], *pairs[-_PER_END:]]
    its = "the other" if len({one.beside for one in pairs}) > 1 else pairs[0].beside
    headings = ["", "beside", "CPU ratio", "nfsmulti, µs/op", f"{its}, µs/op", "IOPS ratio"]
    rows = [
        [
            one.marked,
            one.beside,
            texts.times(one.cpu),
            *(texts.measured(cells.sample(side, one.cost)) for side in (one.ours, one.theirs)),
            texts.times(one.ratio("IOPS")),
        ]
        for one in pairs
    ]
    return dataclasses.replace(varying(headings, rows, 2), title=title)


def _plot(held: Sequence[Pair], name: str, figure: str) -> Plot:
    what = f"{figure}, nfsmulti ÷ {held[0].beside}"
    caption = (
        f"{what}, with 95 % intervals. Triangles are better, squares worse, circles not shown"
        " to be either."
    )
    rows = [
        (one.marked, ratio, _says(ratio, more_is_better=figure == "IOPS"))
        for one in held
        if (ratio := one.ratio(figure))
    ]
    return Plot(name, caption, charts.ratios(rows, 0, what.replace("÷", "/")))


def _says(ratio: Ratio, *, more_is_better: bool) -> str:
    if ratio.spans_one is not False:
        return ""
    return "better" if (ratio.value > 1) == more_is_better else "worse"


_RATIO = "A ratio is nfsmulti's figure ÷ the other engine's, run by run, with its 95 % interval."
_SINK = "nfs-sink is no real server: it answers from memory and keeps nothing."
_READING = {
    "client-cost": [
        _RATIO,
        "With several connections, the depth is that of all together. The server's CPU is that of"
        " its core: near 100 % it is the limit, and not the client.",
        f"“{SINGLE}”, “{V3}” and “{DATA}” are nfsmulti itself: on one connection at the same depth;"
        " over NFSv3 beside NFSv4.1, which fio's nfs engine lacks; and reading beside GETATTR.",
        f"“{YARDSTICK}” is the yardstick, an engine that --engine names: the least that plain"
        " sockets need for the same calls. It is a limit, not a client: one connection, headers"
        " encoded once, and no names, checks, retransmission, reconnecting or COMMIT.",
        "TCP is the kernel's. Every engine sends with the system's congestion control (Conditions),"
        " and the server with reno. bbr paces its sends, on loopback too: compare only figures from"
        " the same kernel and congestion control.",
    ],
    "mount": [
        _RATIO,
        "CPU is all that the client's processor worked: io_uring hands buffered writes to kernel"
        " workers, which fio's own figures leave out. The file on disk is opened with direct=1.",
    ],
}
_TITLES = {
    "client-cost": "CPU per operation beside another engine",
    "mount": "CPU per operation beside fio's io_uring engine, on one file",
}

_VARIED = dict.fromkeys(("workload", "engine"), Varied())
STORIES = [
    Story(name=name, about=about, tell=_tell, factors=_VARIED) for name, about in _TITLES.items()
]
