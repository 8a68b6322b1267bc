# SPDX-License-Identifier: GPL-2.0-only
"""What a bench has found, and its page, both out of its results.json.

What is told are ratios to other engines, run by run. The bars, which are the developers' targets,
are held against them where they are asked for.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfsmulti import texts
from nfsmulti.arguments.measure import COLUMNS
from nfsmulti.bench import client_cost, mounts
from nfsmulti.bench.runs import DATA, PEER, SINGLE, V3, YARDSTICK, Case, Figure, Run
from nfsmulti.errors import HarnessError
from nfsmulti.paths import COMMAND
from nfsmulti.report import charts, pages
from nfsmulti.report.answer import KINDS, MOST_ROWS, Answer, extent, varying
from nfsmulti.report.story import Plot, Section
from nfsmulti.stats import Ratio, Sample
from nfsmulti.texts import MISSING, Table, number, time_text
from nfsmulti.units import parse_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

FILE = "results.json"
RATIOS: Mapping[Figure, str] = {"cpu": "CPU per operation", "rate": "IOPS", "p50": "p50"}
_TAKE: Mapping[Figure, Callable[[Run], float]] = {
    "cpu": lambda run: run.cpu,
    "rate": lambda run: run.iops,
    "p50": lambda run: run.p50,
}
_WHOSE = {
    PEER: "fio's nfs engine",
    mounts.IO_URING: "fio's io_uring engine",
    SINGLE: "one connection's",
    V3: "NFSv3's",
    DATA: "a READ's",
}


# --- a case ---

_FULL = 0.9  # the part of its core that a server which is the limit uses
_MARK = "*"


@dataclass(frozen=True)
class Judgement:
    """A bar held against what was measured beside another engine; `ratio` is how it is shown."""

    figure: Figure
    beside: str
    limit: float
    value: float
    verdict: str
    bar: str
    ratio: str


@dataclass
class CaseResult:
    """All runs of a case by engine, ours first; those of one number lie next to each other.

    An engine that was left out has none.
    """

    case: Case
    runs: dict[str, list[Run]]

    @property
    def ours(self) -> list[Run]:
        """The runs of the engine under test."""
        return next(iter(self.runs.values()))

    @property
    def rivals(self) -> list[str]:
        """The other engines that have run."""
        return [one for one, runs in self.runs.items() if runs][1:]

    @property
    def is_full(self) -> bool:
        """Whether the server's core was the limit."""
        return (_median(self.ours, lambda run: run.server_busy) or 0) >= _FULL

    @property
    def marked(self) -> str:
        """The case in words, marked where the server's core was the limit."""
        return f"{self.case.words}{_MARK if self.is_full else ''}"

    def sample(self, figure: Figure, engine: str = "") -> Sample | None:
        """Give a figure of all runs of an engine, or of ours."""
        return Sample.of(map(_TAKE[figure], self.runs.get(engine, self.ours)))

    def ratio(self, figure: Figure, rival: str) -> Ratio:
        """Give a figure of ours as a ratio to that of a rival, which has run."""
        take = _TAKE[figure]
        return Ratio.paired([*map(take, self.ours)], [*map(take, self.runs[rival])])

    def judgements(self) -> list[Judgement]:
        """Hold its bars against the runs, where those beside which they are have run."""
        found = []
        for bar in self.case.bars:
            if bar.beside not in self.rivals:
                continue
            if bar.figure != "calls":
                ratio = self.ratio(bar.figure, bar.beside)
            elif (calls := _median(self.ours, lambda run: run.calls)) is not None:
                ratio = Ratio(calls, calls, calls)  # how many: no interval is needed
            else:
                continue
            verdict = bar.verdict(ratio).value
            shown = ratio.text if bar.figure != "calls" else f"{ratio.value:.2f}"
            found.append(
                Judgement(bar.figure, bar.beside, bar.limit, ratio.value, verdict, bar.text, shown)
            )
        return found

    def data(self) -> dict[str, Any]:
        """Give all that is known of it, for JSON."""
        runs = {one: list(map(dataclasses.asdict, runs)) for one, runs in self.runs.items() if runs}
        ratios = {
            rival: {figure: dataclasses.asdict(self.ratio(figure, rival)) for figure in RATIOS}
            for rival in self.rivals
        }
        bars = [dataclasses.asdict(one) for one in self.judgements()]
        return {"case": self.case.name, "runs": runs, "ratios": ratios, "bars": bars}


def _median(runs: Sequence[Run], figure: Callable[[Run], float | None]) -> float | None:
    """Give the median of a figure over the runs that have it."""
    values = [value for run in runs if (value := figure(run)) is not None]
    return statistics.median(values) if values else None


# --- the answer ---

_BUSY_LOAD = 0.5
_PER_END = MOST_ROWS // 2


def _held(results: Sequence[CaseResult]) -> tuple[str, list[CaseResult]]:
    """Give the first other engine that has run, and the cases that it has run."""
    chief = next((result.rivals[0] for result in results if result.rivals), "")
    return chief, [result for result in results if chief in result.rivals]


def _answer(data: Mapping[str, Any], results: Sequence[CaseResult]) -> Answer:
    """Tell what our operations cost, as a ratio to the first other engine, or by themselves."""
    chief, held = _held(results)
    headline, table = _beside(chief, held, results) if held else _alone(results)
    return Answer(headline, table, _caveats(data, results), _ran(data, results))


def _beside(
    chief: str, held: Sequence[CaseResult], results: Sequence[CaseResult]
) -> tuple[str, Table]:
    ratios = [result.ratio("cpu", chief) for result in held]
    values = sorted(ratio.value for ratio in ratios)
    found, median, what = ratios[0].text, "", held[0].case.words
    if len(held) > 1:
        found, what = f"{values[0]:.2f} to {values[-1]:.2f}", f"{len(held)} workloads"
        median = f" (median {statistics.median(values):.2f})"
    whose = f"{_WHOSE.get(chief, chief)}{median}"
    headline = f"{found} of the CPU per operation of {whose}: nfsmulti, {what}."
    title = ""
    pairs = [(result, rival) for result in results for rival in result.rivals]
    if len(pairs) > MOST_ROWS:
        rising = sorted(held, key=lambda one: one.ratio("cpu", chief).value)
        pairs = [(one, chief) for one in rising]
    if len(pairs) > MOST_ROWS:
        title = f"{_PER_END} lowest and {_PER_END} highest of {len(pairs)}"
        pairs = [*pairs[:_PER_END], *pairs[-_PER_END:]]
    several = len({rival for _, rival in pairs}) > 1
    its = "the other" if several else chief
    headings = ["", "beside", "CPU ratio", "nfsmulti, µs/op", f"{its}, µs/op", "IOPS ratio"]
    rows = [
        [
            result.marked,
            rival,
            texts.times(result.ratio("cpu", rival)),
            texts.measured(result.sample("cpu")),
            texts.measured(result.sample("cpu", rival)),
            texts.times(result.ratio("rate", rival)),
        ]
        for result, rival in pairs
    ]
    return headline, dataclasses.replace(varying(headings, rows, 2), title=title)


def _alone(results: Sequence[CaseResult]) -> tuple[str, Table]:
    """Tell what our operations cost, where no other engine has run."""
    costs = [statistics.median(run.cpu for run in result.ours) for result in results]
    span = " to ".join(dict.fromkeys(map(number, (min(costs), max(costs)))))
    where = f"{results[0].case.words}: " if len(results) == 1 else ""
    rows = [
        [result.marked, *(texts.measured(result.sample(figure)) for figure in ("cpu", "rate"))]
        for result in results[:MOST_ROWS]
    ]
    return f"{where}{span} µs of CPU per operation.", Table(["", "CPU, µs/op", "IOPS"], rows)


def _caveats(data: Mapping[str, Any], results: Sequence[CaseResult]) -> list[str]:
    setting, found = data["setting"], []
    load = float(setting["load before"])
    if "client on processor" in setting and load >= _BUSY_LOAD:
        found.append(f"Other programs kept this machine busy (load {load:.1f}): rerun when idle.")
    told = _held(results)[1] or results
    if full := sum(result.is_full for result in told):
        found.append(
            f"The server's core was full in {full} of {len(told)} workloads ({_MARK}): the server"
            " limits their IOPS."
        )
    if data["bench"] == "rdma":
        found.append("Client and server share one emulated machine: only ratios tell something.")
    words = {result.case.name: result.case.words for result in results}
    if lacking := [words[one["case"]] for one in data["left_out"]]:
        found.append(f"The yardstick ({YARDSTICK}) failed on {'; '.join(lacking)}: left out there.")
    return found


def _ran(data: Mapping[str, Any], results: Sequence[CaseResult]) -> str:
    cases, setting = [result.case for result in results], data["setting"]
    sizes = extent(sorted({case.bs for case in cases}, key=parse_size))
    kinds = texts.several([*dict.fromkeys(case.operation or KINDS[case.rw] for case in cases)])
    depths = extent(map(str, sorted({case.depth for case in cases})))
    connections = max(case.connections for case in cases)
    timing = data["timing"]
    parts = [
        f"{sizes} {kinds}",
        f"depth {depths}",
        f"1 to {connections} connections" if connections > 1 else "1 connection",
        f"{timing['repeats']} \N{MULTIPLICATION SIGN} {timing['runtime'] / 1000:g} s each",
        setting.get("server", "").partition(",")[0],
        f"nfsmulti {setting['nfsmulti']}",
        setting["fio"],
    ]
    return f"{', '.join(filter(None, parts))}."


# --- the page ---

HEADINGS = (
    "", "engine", "IOPS", "MiB/s", "CPU µs/op", "user", "system", "calls/op", "p50", "p99",
    "server",
)  # fmt: skip


def figures_table(results: Iterable[CaseResult]) -> Table:
    """Show the median of each figure of all engines, below each other."""
    rows = []
    for result in results:
        for engine, runs in result.runs.items():
            middle = functools.partial(_median, runs)
            calls = middle(lambda run: run.calls)
            busy = middle(lambda run: run.server_busy)
            rows.append([
                result.case.name, engine,
                number(middle(lambda run: run.iops)),
                number(middle(lambda run: run.bandwidth / 2**20 or None)),  # none of metadata
                number(middle(lambda run: run.cpu)),
                number(middle(lambda run: run.cpu_user)),
                number(middle(lambda run: run.cpu_system)),
                MISSING if calls is None else f"{calls:.2f}",
                *(MISSING if one is None else time_text(one)
                  for one in (middle(lambda run: run.p50), middle(lambda run: run.p99))),
                MISSING if busy is None else f"{busy:.0%}",
            ])  # fmt: skip
    return Table(HEADINGS, rows, "Figures, each the median of its runs", text_columns=2)


def _ratios_table(results: Iterable[CaseResult]) -> Table:
    rows = [
        [result.case.name, rival, *(result.ratio(figure, rival).text for figure in RATIOS)]
        for result in results
        for rival in result.rivals
    ]
    title = "Ratios to other engines, with 95 % intervals"
    return Table(["", "beside", *RATIOS.values()], rows, title, text_columns=2)


def _plots(bench: str, results: Sequence[CaseResult]) -> list[Plot]:
    chief, held = _held(results)
    plots = []
    figures: list[Figure] = ["cpu", "rate"] if held else []
    for figure in figures:
        ratios = [(one.marked, one.ratio(figure, chief)) for one in held]
        rows = [(words, ratio, _says(ratio, figure)) for words, ratio in ratios]
        caption = (
            f"{RATIOS[figure]}, nfsmulti ÷ {chief}, with 95 % intervals. Triangles are better,"
            " squares worse, circles not shown to be either."
        )
        name = f"{RATIOS[figure]}, nfsmulti / {chief}"
        plots.append(Plot(figure, caption, charts.ratios(rows, 0, name)))
    if bench == "scale":
        plots.append(Plot("scale", "CPU per operation as each grows.", _scale(results)))
    return plots


def _says(ratio: Ratio, figure: Figure) -> str:
    if ratio.spans_one is not False:
        return ""
    return "better" if (ratio.value > 1) == (figure == "rate") else "worse"


def _scale(results: Sequence[CaseResult]) -> Picture:
    """Draw CPU per operation against connections, and against depth."""
    depth = max((one.case.depth for one in results if one.case.connections > 1), default=0)
    rising = sorted(results, key=lambda one: (one.case.depth, one.case.connections))
    costs = {one.case: one.sample("cpu") for one in rising}
    many = {case.connections: cost for case, cost in costs.items() if case.depth == depth}
    deep = {case.depth: cost for case, cost in costs.items() if case.connections == 1}
    lines = [("depth, on one connection", deep)]
    if many:
        lines.append((f"connections, at depth {depth} together", many))
    what = "depth or connections"
    return charts.doublings("CPU per operation", what, "µs", lines, columns=1, log=True)


def _targets(data: Mapping[str, Any], results: Sequence[CaseResult]) -> Section:
    """Hold all bars against what was found, those first that are not met."""
    judged = [(result.case.name, one) for result in results for one in result.judgements()]
    judged.sort(key=lambda pair: not pair[1].verdict.startswith("not"))
    met = Counter(one.verdict.startswith("not") for _, one in judged)[False]
    words = [f"{met} of {len(judged)} targets are met."]
    if memory := data.get("memory_bytes"):
        words.append(client_cost.memory_line(memory))
    rows = [
        [name, one.beside, RATIOS.get(one.figure, "system calls"), one.ratio, one.bar, one.verdict]
        for name, one in judged
    ]
    headings = ["", "beside", "figure", "ratio", "target", "verdict"]
    return Section("Targets", words, [Table(headings, rows, text_columns=3, ending_text_columns=1)])


_Notes = Callable[[Mapping[str, Any]], list[str]]


def _tcp(setting: Mapping[str, Any]) -> str:
    """Say what TCP the figures depend on."""
    kernel, control = setting["kernel"], setting["TCP congestion control"]
    return (
        f"TCP is kernel {kernel}'s. Every engine sends with the system's congestion control,"
        f" {control}, and the server with reno. bbr paces its sends, on loopback too: compare"
        " only figures from the same kernel and congestion control."
    )


# Each bench: what its page is called, its cases, and what one must know to read it.
_BENCHES: Mapping[str, tuple[str, Sequence[Case], _Notes]] = {
    "client-cost": (
        "CPU per operation beside fio's nfs engine",
        client_cost.CLIENT_COST,
        lambda setting: [_tcp(setting), client_cost.YARDSTICK_IS],
    ),
    "mount": (
        "CPU per operation beside fio's io_uring engine, on one file",
        mounts.MOUNT,
        lambda _: [mounts.CPU_HOW],
    ),
    "rdma": (
        "RDMA and TCP, by this engine and by mounts",
        mounts.RDMA,
        lambda _: [mounts.RDMA_HOW],
    ),
    "scale": (
        "CPU per operation as connections and depth grow",
        client_cost.SCALE,
        lambda setting: [_tcp(setting)],
    ),
}


def write(folder: Path, *, targets: bool = False) -> str:
    """Write a bench's page beside its results.json, and give what a terminal shows of it."""
    data, results = _load(folder)
    bench = data["bench"]
    title, _, notes = _BENCHES[bench]
    answer = _answer(data, results)
    timing = "{repeats} of each, {runtime} ms after {ramp} ms".format_map(data["timing"])
    setting = [*map(list, data["setting"].items()), ["runs", timing]]
    if memory := data.get("memory_bytes"):
        setting.append(
            ["a job's memory beyond fio's own and its buffers", f"{memory / 2**20:.2f} MiB"]
        )
    held = [_targets(data, results)] if targets else []
    sections = [
        Section("Plots", plots=_plots(bench, results)),
        *held,
        Section(
            "Every engine and workload",
            tables=[figures_table(results), _ratios_table(results)],
            folded=True,
        ),
        Section("How to read it", points=[*notes(data["setting"]), *COLUMNS], folded=True),
        Section("Conditions", tables=[Table(["", ""], setting, text_columns=2)], folded=True),
        Section("Left out", points=[one["why"] for one in data["left_out"]], folded=True),
        Section("The commands", lines=data.get("commands", []), folded=True),
    ]
    quick = data.get("quick", False)
    about = f"bench {bench}, {data['begun']}{', quick' if quick else ''}."
    pages.save(folder, title=title, about=about, answer=answer, sections=sections, data=FILE)
    after = "run connections --pool=nfs://SERVER/EXPORT"
    told = pages.told(folder, answer, f"{COMMAND} {f'bench {bench}' if quick else after}")
    return "\n\n".join([*(" ".join(one.words) for one in held), told])


def _load(folder: Path) -> tuple[dict[str, Any], list[CaseResult]]:
    """Read results.json. Raises HarnessError where another version has written it."""
    file = folder / FILE
    data = json.loads(file.read_text())
    try:
        data["timing"], data["left_out"]
        cases = {case.name: case for case in _BENCHES[data["bench"]][1]}
        results = [
            CaseResult(
                cases[one["case"]],
                {who: [Run(**run) for run in runs] for who, runs in one["runs"].items()},
            )
            for one in data["cases"]
        ]
    except (KeyError, TypeError) as error:
        raise HarnessError(
            f"{file}: not of this version of nfsmulti: {error}",
            f"measure again: {COMMAND} bench {data.get('bench', 'NAME')}",
        ) from error
    return data, results
