# SPDX-License-Identifier: GPL-2.0-only
"""One call of a bench: its runs in their order, and what they say together.

That is ratios, held against bars, in tables for people (in the terminal and in report.md), in a
picture, and in results.json.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nfsmulti.bench.runs import (
    Bar,
    BarVerdict,
    Case,
    Contender,
    Cores,
    Figure,
    Ratioed,
    Role,
    Run,
    Timing,
    command,
)
from nfsmulti.errors import HarnessError
from nfsmulti.machine import versions
from nfsmulti.paths import BUILD, RESULTS, ROOT, portable, shown
from nfsmulti.processes import run
from nfsmulti.report import charts
from nfsmulti.stats import Ratio, Sample
from nfsmulti.texts import MISSING, Table, number, time_text
from nfsmulti.texts import Bar as ProgressBar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# --- the runs of a case ---

_TAKE: Mapping[Ratioed, Callable[[Run], float]] = {
    "cpu": lambda run: run.cpu,
    "rate": lambda run: run.iops,
    "p50": lambda run: run.p50,
}
RATIOS: Mapping[Figure, str] = {"cpu": "CPU per operation", "rate": "IOPS", "p50": "p50"}


@dataclass(frozen=True)
class Judgement:
    """A bar held against what was measured beside a rival."""

    bar: Bar
    rival: Contender
    found: Ratio  # of system calls: how many, and no interval is needed

    @property
    def verdict(self) -> BarVerdict:
        """Whether the bar is met."""
        return self.bar.verdict(self.found)


@dataclass
class CaseResult:
    """All runs of a case by engine, ours first; those of one number lie next to each other.

    One that is shown and did not run has none. `counted` are calls per operation of own runs.
    """

    case: Case
    runs: dict[Contender, list[Run]]
    counted: dict[Contender, float] = field(default_factory=dict)

    @property
    def ours(self) -> Contender:
        """The engine under test."""
        return next(iter(self.runs))

    @property
    def rivals(self) -> list[Contender]:
        """The other engines that have run."""
        return [one for one, runs in self.runs.items() if runs and one is not self.ours]

    def ratio(self, figure: Ratioed, rival: Contender) -> Ratio:
        """Give a figure of ours as a ratio to that of a rival, which has run."""
        take = _TAKE[figure]
        ours, others = ([take(run) for run in self.runs[one]] for one in (self.ours, rival))
        return Ratio.paired(ours, others)

    def calls(self, contender: Contender) -> float | None:
        """Give system calls per operation, as the engine counts them or as they were counted."""
        own = _median(self.runs[contender], lambda run: run.calls)
        return self.counted.get(contender, own)

    def judgements(self, beside: Role | None = None) -> list[Judgement]:
        """Hold its bars against the runs: all, or those beside one engine, where that has run."""
        rivals = {one.role: one for one in self.rivals}
        return [
            Judgement(bar, rivals[bar.beside], found)
            for bar in self.case.bars
            if bar.beside in rivals and beside in (None, bar.beside)
            if (found := self._found(bar.figure, rivals[bar.beside]))
        ]

    def _found(self, figure: Figure, rival: Contender) -> Ratio | None:
        if figure != "calls":
            return self.ratio(figure, rival)
        calls = self.calls(self.ours)
        return None if calls is None else Ratio(calls, calls, calls)

    def data(self) -> dict[str, Any]:
        """Give all that is known of it, for JSON."""
        ran = [self.ours, *self.rivals]
        return {
            "case": self.case.name,
            "runs": {one.name: [dataclasses.asdict(run) for run in self.runs[one]] for one in ran},
            "system_calls": {one.name: self.calls(one) for one in ran},
            "ratios": {
                one.name: {
                    figure: dataclasses.asdict(self.ratio(figure, one))
                    for figure in _ratios_to(one)
                }
                for one in self.rivals
            },
            "bars": [
                {
                    "figure": judged.bar.figure,
                    "beside": judged.rival.name,
                    "limit": judged.bar.limit,
                    "value": judged.found.value,
                    "verdict": judged.verdict.value,
                }
                for judged in self.judgements()
            ],
        }


def _ratios_to(rival: Contender) -> tuple[Ratioed, ...]:
    """Give the figures that are held against a rival's."""
    return ("cpu", "rate", "p50") if rival.role == "yardstick" else ("cpu", "rate")


def _median(runs: Sequence[Run], figure: Callable[[Run], float | None]) -> float | None:
    """Give the median of a figure over the runs that have it."""
    values = [value for run in runs if (value := figure(run)) is not None]
    return statistics.median(values) if values else None


# --- tables ---

_FIGURES = ("IOPS", "MiB/s", "CPU µs/op", "user", "system", "calls/op", "p50", "p99", "server")
HEADINGS = ("", "engine", *_FIGURES)
# What they mean, one line each.
_STYLES = {
    BarVerdict.MET.value: "green",
    BarVerdict.MET_OPEN.value: "yellow",
    BarVerdict.NOT_MET_OPEN.value: "yellow",
    BarVerdict.NOT_MET.value: "red",
}


def figures_table(results: Sequence[CaseResult]) -> Table:
    """Show the median of each figure of all engines, below each other."""
    rows = [
        ["" if one is not result.ours else result.case.name, one.name, *_figures(result, one)]
        for result in results
        for one in result.runs
    ]
    return Table(HEADINGS, rows, "Figures, each the median of its runs")


def _figures(result: CaseResult, contender: Contender) -> Iterator[str]:
    """Give the median of each figure, in the order of HEADINGS behind the engine."""

    def middle(figure: Callable[[Run], float | None]) -> float | None:
        return _median(result.runs[contender], figure)

    yield number(middle(lambda run: run.iops))
    yield number(middle(lambda run: run.bandwidth / 2**20 or None))  # none of metadata
    for figure in (lambda run: run.cpu, lambda run: run.cpu_user, lambda run: run.cpu_system):
        yield number(middle(figure))
    calls = result.calls(contender)
    yield MISSING if calls is None else f"{calls:.2f}"
    for latency in (middle(lambda run: run.p50), middle(lambda run: run.p99)):
        yield MISSING if latency is None else time_text(latency)
    busy = middle(lambda run: run.server_busy)
    yield MISSING if busy is None else f"{busy:.0%}"


def bars_table(results: Sequence[CaseResult], rival: Contender) -> Table:
    """Show the ratios to a rival beside their bars."""
    headings = [""]
    for figure in _ratios_to(rival):
        headings += [RATIOS[figure], "bar", ""]
    rows = [
        [result.case.name, *_ratio_cells(result, rival)]
        for result in results
        if rival in result.runs
    ]
    return Table(headings, rows, f"Ratio to {rival.name}, with its 95 % interval", styles=_STYLES)


def _ratio_cells(result: CaseResult, rival: Contender) -> Iterator[str]:
    judged = {one.bar.figure: one for one in result.judgements(rival.role)}
    for figure in _ratios_to(rival):
        if not result.runs[rival]:
            yield from (MISSING, MISSING, "")
        elif one := judged.get(figure):
            yield from (one.found.text, one.bar.text, one.verdict.value)
        else:
            yield from (result.ratio(figure, rival).text, MISSING, "")


def bars_lines(results: Sequence[CaseResult]) -> list[str]:
    """Say how many bars are met, and name those that are not."""
    judged = [
        (result.case.name, one)
        for result in results
        for one in result.judgements()
        if one.bar.figure != "calls"
    ]
    missed = [
        f"{name}, {RATIOS[one.bar.figure]} beside {one.rival.name}:"
        f" {one.found.text}, bar {one.bar.text}: {one.verdict.value}"
        for name, one in judged
        if not one.bar.met(one.found.value)
    ]
    return [f"{len(judged) - len(missed)} of {len(judged)} bars for ratios are met", *missed]


def calls_lines(results: Sequence[CaseResult]) -> list[str]:
    """Hold system calls per operation against their bars."""
    return [
        f"{result.case.name}: {one.found.value:.2f} system calls per operation,"
        f" bar {one.bar.text}: {one.verdict.value}"
        for result in results
        for one in result.judgements()
        if one.bar.figure == "calls"
    ]


# --- pictures ---

_PANELS: Mapping[Ratioed, str] = {"cpu": "CPU per operation", "rate": "IOPS", "p50": "p50 of clat"}
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10)
_DPI = 130


def draw_comparison(results: Sequence[CaseResult], file: Path) -> None:
    """Draw CPU per operation of all engines, and the ratios with intervals and bars; a PNG."""
    ran = [one for result in results for one in (result.ours, *result.rivals)]
    engines = list(dict.fromkeys(ran))
    figures = [one for one in _PANELS if any(one in _ratios_to(rival) for rival in engines[1:])]
    title = "Ratios: dots with 95 % intervals; upright lines: bars"
    figure, (cost, *panels) = charts.panels(title, [1 + len(figures)], 4.3)
    figure.set_figheight(1.6 + 0.21 * len(engines) * len(results))
    lanes = {one: 0.8 * ((lane + 0.5) / len(engines) - 0.5) for lane, one in enumerate(engines)}
    _draw_cost(cost, results, lanes)
    for axes, ratio in zip(panels, figures, strict=True):
        _draw_ratios(axes, results, ratio, lanes)
    cost.set_yticks(range(len(results)), [result.case.name for result in results])
    cost.set_ylim(len(results) - 0.4, -0.6)
    charts.legend(cost, columns=len(engines))
    figure.savefig(file, dpi=_DPI)


def _draw_cost(axes: Axes, results: Sequence[CaseResult], lanes: Mapping[Contender, float]) -> None:
    for colour, (one, shift) in zip(charts.COLOURS, lanes.items(), strict=False):
        costs = {
            row + shift: statistics.median(run.cpu for run in result.runs[one])
            for row, result in enumerate(results)
            if result.runs.get(one)
        }
        height = 0.76 / len(lanes)
        drawn = axes.barh(list(costs), list(costs.values()), height, color=colour, label=one.name)
        axes.bar_label(drawn, fmt="%.3g", padding=3, fontsize="small")
    axes.grid(axis="y", visible=False)
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_title("CPU per operation, µs")


def _draw_ratios(
    axes: Axes, results: Sequence[CaseResult], figure: Ratioed, lanes: Mapping[Contender, float]
) -> None:
    """Draw ratios with their bars; there is room for these, an interval may go beyond."""
    colours = dict(zip(lanes, charts.COLOURS, strict=False))
    drawn = [1.0]
    for row, result in enumerate(results):
        for rival in result.rivals:
            if figure not in _ratios_to(rival):
                continue
            ratio, place = result.ratio(figure, rival), row + lanes[rival]
            limits = [
                one.bar.limit for one in result.judgements(rival.role) if one.bar.figure == figure
            ]
            if ratio.low is not None and ratio.high is not None:
                axes.hlines(place, ratio.low, ratio.high, color=colours[rival], linewidth=2)
            axes.plot(ratio.value, place, "o", color=colours[rival])
            axes.plot(limits, [place] * len(limits), "|", color=charts.INK, ms=12, mew=2)
            drawn += [ratio.value, *limits]
    axes.axvline(1, color=charts.PALE, linewidth=1, zorder=0)
    axes.grid(axis="y", visible=False)
    axes.tick_params(labelleft=False)
    axes.set_xscale("log")
    axes.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.set_xlim(min(drawn) / 1.6, max(drawn) * 1.6)
    axes.set_title(f"{_PANELS[figure]} ÷ that of …")


def draw_scale(results: Sequence[CaseResult], file: Path) -> None:
    """Draw CPU per operation against connections, and against depth; a PNG."""
    depth = max((one.case.depth for one in results if one.case.connections > 1), default=0)
    rising = sorted(results, key=lambda one: (one.case.depth, one.case.connections))
    costs = {one.case: Sample.of(run.cpu for run in one.runs[one.ours]) for one in rising}
    many = {case.connections: cost for case, cost in costs.items() if case.depth == depth}
    deep = {case.depth: cost for case, cost in costs.items() if case.connections == 1}
    lines = [("depth, on one connection", deep)]
    if many:
        lines.append((f"connections, at depth {depth} together", many))
    title = "CPU per operation"
    figure = charts.doublings(title, "depth or connections", "µs", lines, columns=1, log=True)
    figure.savefig(file, dpi=_DPI)


# --- the report ---

# Runs an engine on a case; the run's files go to the folder.
RunOnce = Callable[[Contender, Case, Path], Run]
# Draws the picture of results into a file.
Draw = Callable[[Sequence[CaseResult], Path], None]

_NARROWEST = 170  # columns that the tables need
_SECONDS = 10.0
_BUSY_LOAD = 0.5
_CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")


class Report:
    """A bench under way, and what it has found. Its runs leave their files below `scratch`.

    `cores` are None where processors are not chosen. `commands` are examples, one of each kind;
    `data` is for JSON.
    """

    def __init__(self, name: str, timing: Timing, cores: Cores | None, out: Console):
        self.name, self.timing = name, timing
        self._begun, self._out = datetime.now(UTC), out
        self.setting = _setting(timing, cores)
        self.scratch = BUILD / "bench" / name / self._time
        self.results: list[CaseResult] = []
        self.tables: list[Table] = []
        self.lines: list[str] = []
        self.notes: list[str] = []
        if cores and (load := os.getloadavg()[0]) >= _BUSY_LOAD:
            told = f"(load {load:.2f} before the run): expect noise."
            self.notes.append(f"Other work kept the machine busy {told}")
        self.commands: list[str] = []
        self.data: dict[str, Any] = {}

    def measure(
        self,
        cases: Sequence[Case],
        contenders: Sequence[Contender],
        run_once: RunOnce,
        *,
        cases_in_turn: bool = False,
    ) -> list[CaseResult]:
        """Run engines in turn on each case that they take, as often as it is to be repeated.

        With `cases_in_turn` all cases have had a run before any has its next. A yardstick, which is
        the user's, is shown in every case, and left out of one that it fails on.
        """
        self.results = [
            CaseResult(
                case, {one: [] for one in contenders if one.takes(case) or one.role == "yardstick"}
            )
            for case in cases
        ]
        order = [(number, one) for one in self.results for number in range(self.timing.repeats)]
        if cases_in_turn:
            order.sort(key=lambda one: one[0])
        with ProgressBar(self._out, "", sum(len(result.runs) for _, result in order)) as bar:
            for number, result in order:
                for contender in result.runs:
                    bar.show(f"{result.case.name}, {contender.name}")
                    self._run(run_once, contender, result, number)
                    bar.show(advance=1)
        return self.results

    def _run(
        self, run_once: RunOnce, contender: Contender, result: CaseResult, number: int
    ) -> None:
        runs = result.runs[contender]
        if not contender.takes(result.case) or len(runs) < number:  # the last was left out
            return
        try:
            folder = self.scratch / f"{result.case.name}-{contender.name}".replace(" ", "-")
            runs.append(run_once(contender, result.case, folder / str(number)))
        except HarnessError as error:
            has_run = any(one.runs.get(contender) for one in self.results)
            if contender.role != "yardstick" or not has_run:
                raise
            self.notes.append(f"Left out: {'; '.join(dict.fromkeys(error.what.splitlines()))}")
            runs.clear()

    def add_figures(self, contenders: Sequence[Contender], target: str) -> None:
        """Put the figures into the report, and what each engine runs for its first case.

        Of the cases of each NFS version, that is.
        """
        self.tables.append(figures_table(self.results))
        for one in contenders:
            first: dict[str, Case] = {}
            for case in (result.case for result in self.results if one.takes(result.case)):
                first.setdefault(case.version, case)
            self.commands += [
                _typed(command(one, case, target, self.timing, Path())) for case in first.values()
            ]

    def add_comparison(self, contenders: Sequence[Contender], target: str) -> None:
        """Put figures, ratios with their bars, and the data into the report; ours is the first."""
        self.add_figures(contenders, target)
        self.tables += [
            bars_table(self.results, rival)
            for rival in contenders[1:]
            if any(rival in result.rivals for result in self.results)
        ]
        self.lines += bars_lines(self.results)
        self.data["cases"] = [result.data() for result in self.results]

    def finish(self, given: Path | None, draw: Draw) -> None:
        """Write the report to the folder that is given, or to one for this time, and show it."""
        folder = given or RESULTS / self.name / self._time
        self.write(folder, draw)
        self._out.print(
            f"{shown(folder)} holds report.md, results.json and {self.name}.png;"
            f" {shown(self.scratch)} each fio's command and output."
        )

    def write(self, folder: Path, draw: Draw | None = None) -> None:
        """Write picture, report.md and results.json to a folder, and show the report."""
        folder.mkdir(parents=True, exist_ok=True)
        if draw:
            draw(self.results, folder / f"{self.name}.png")
        (folder / "report.md").write_text(self._markdown(folder), errors="surrogateescape")
        values = {
            "bench": self.name,
            "begun": self._begun.isoformat(timespec="seconds"),
            "setting": self.setting,
            **self.data,
        }
        text = json.dumps(values, indent="\t", allow_nan=False)
        (folder / "results.json").write_text(portable(text) + "\n")
        self._out.width = max(self._out.width, _NARROWEST)
        for table in self.tables:
            self._out.print(table.terminal())
        for line in [*self.lines, *self.notes]:
            self._out.print(line, markup=False)

    def _markdown(self, folder: Path) -> str:
        picture = f"{self.name}.png"
        parts = [
            f"# bench {self.name}, {self._begun:%Y-%m-%d %H:%M} UTC\n",
            *(table.markdown() for table in self.tables),
            "".join(f"- {line}\n" for line in self.lines),
            "\n".join(f"{note}\n" for note in self.notes),
            f"![figures]({picture})\n" if (folder / picture).exists() else "",
            "**Setting**\n",
            "".join(f"- {name}: {value}\n" for name, value in self.setting.items()),
            "**Commands**\n",
            "```\n" + "\n".join(self.commands) + "\n```\n",
        ]
        return portable("\n".join(filter(None, parts)))

    @property
    def _time(self) -> str:
        return f"{self._begun:%Y%m%dT%H%M%SZ}"


def _typed(argv: Sequence[str]) -> str:
    """Give a command as one would type it, without where it leaves its files."""
    return shlex.join(word for word in argv if not word.startswith("--output"))


def _setting(timing: Timing, cores: Cores | None) -> dict[str, str]:
    """Say on what, and how, the figures are measured."""
    model = re.search(r"^model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    pinned = {}
    if cores:
        pinned = {f"{side} on processor": str(cpu) for side, cpu in cores._asdict().items()}
    return {
        **versions(),
        "engine": _revision(),
        "processor": model[1] if model else "unknown",
        "TCP congestion control": _CONGESTION.read_text().strip(),
        **pinned,
        "runs": f"{timing.repeats} of each, {timing.runtime} ms after {timing.ramp} ms",
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def _revision() -> str:
    try:
        said = run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], timeout=_SECONDS)
    except HarnessError:  # a machine without git; a copy without git's folder says nothing
        return "unknown"
    return said.stdout.strip() or "unknown"
