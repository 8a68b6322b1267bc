# SPDX-License-Identifier: GPL-2.0-only
"""What the runs of several engines on a case say together: ratios, bars, tables, pictures, JSON."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfsmulti.bench.cases import Bar, BarVerdict, Case, Figure, Ratioed, Role
from nfsmulti.bench.runs import Contender, Run
from nfsmulti.stats import Ratio
from nfsmulti.texts import Table, time_text

if TYPE_CHECKING:  # matplotlib takes half a second to load
    from matplotlib.axes import Axes

# Runs a contender on a case: its run of that number.
RunOnce = Callable[[Contender, Case, int], Run]

_TAKE: dict[Ratioed, Callable[[Run], float]] = {
    "cpu": lambda run: run.cpu,
    "rate": lambda run: run.iops,
    "p50": lambda run: run.p50,
}


@dataclass(frozen=True)
class Judgement:
    """A bar held against what was measured."""

    bar: Bar
    value: float
    text: str
    verdict: BarVerdict


@dataclass
class CaseResult:
    """All runs of a case, those of one number next to each other; `counted` calls have own runs."""

    case: Case
    runs: dict[Role, list[Run]] = field(default_factory=dict)
    counted: dict[Role, float] = field(default_factory=dict)

    def ratio(self, figure: Ratioed, beside: Role) -> Ratio:
        """Give a figure of ours as a ratio to that of another, which has run."""
        take = _TAKE[figure]
        ours, others = ([take(run) for run in self.runs[role]] for role in ("ours", beside))
        return Ratio.paired(ours, others)

    def calls(self, role: Role) -> float | None:
        """Give system calls per operation, as the engine counts them or as they were counted."""
        return self.counted.get(role, median(self.runs[role], lambda run: run.calls))

    def judgements(self) -> list[Judgement]:
        """Hold every bar of the case against the runs, beside those engines that have run."""
        return [judged for bar in self.case.bars if (judged := self._judge(bar)) is not None]

    def _judge(self, bar: Bar) -> Judgement | None:
        if bar.figure != "calls":
            if bar.beside not in self.runs:
                return None
            ratio = self.ratio(bar.figure, bar.beside)
            return Judgement(bar, ratio.value, ratio.text, bar.verdict(ratio))
        calls = self.calls("ours")
        if calls is None:
            return None
        verdict = BarVerdict.MET if bar.met(calls) else BarVerdict.NOT_MET
        return Judgement(bar, calls, f"{calls:.2f}", verdict)


def median(runs: Sequence[Run], figure: Callable[[Run], float | None]) -> float | None:
    """Give the median of a figure over the runs that have it."""
    values = [value for run in runs if (value := figure(run)) is not None]
    return statistics.median(values) if values else None


# --- tables ---


TITLE = "Figures, each the median of its runs"
HEADINGS = (
    "",
    "engine",
    "IOPS",
    "MiB/s",
    "CPU µs/op",
    "user",
    "system",
    "calls/op",
    "p50",
    "p99",
    "server",
)
# What they mean, one line each.
COLUMNS = (
    "CPU µs/op: the job's CPU time per operation",
    "user, system: its parts",
    "calls/op: system calls per operation",
    "p50, p99: percentiles of fio's clat, from handing over a call to its reply",
    "server: how busy its core was; near 100 % it is the limit, not the client",
    "cN in a row's name: N connections; the depth is their total",
    "v4.1 in a row's name: NFSv4.1, which fio's nfs engine lacks: compared with our NFSv3",
    "getattr: metadata operations instead of I/Os, compared with our READs; no MiB/s",
    "ratio: nfsmulti's figure ÷ the other engine's, run by run, with 95 % interval",
    "bar: the limit for a ratio; “open”: the interval spans it, or there are under 3 runs",
)
_STYLES = {
    BarVerdict.MET.value: "green",
    BarVerdict.MET_OPEN.value: "yellow",
    BarVerdict.NOT_MET_OPEN.value: "yellow",
    BarVerdict.NOT_MET.value: "red",
}
_DASHES = ["-"] * (len(HEADINGS) - 2)
RATIOS: Mapping[Figure, str] = {"cpu": "CPU per operation", "rate": "IOPS", "p50": "p50"}


def figures_grid(results: Sequence[CaseResult], contenders: Sequence[Contender]) -> Table:
    """Show the median of each figure of all contenders, below each other."""
    rows = []
    for result in results:
        name = result.case.name
        for one in _shown_in(result, contenders):
            runs = result.runs.get(one.role)
            cells = figure_cells(runs, result.calls(one.role)) if runs else _DASHES
            rows.append([name, one.name, *cells])
            name = ""
    return Table(HEADINGS, rows, TITLE)


def _shown_in(result: CaseResult, contenders: Sequence[Contender]) -> list[Contender]:
    """Give those with a row for a case: all that have run, and the yardstick everywhere."""
    return [one for one in contenders if one.role in result.runs or one.role == "yardstick"]


def sweep_grid(found: Mapping[Case, Sequence[Run]], engine: Contender) -> Table:
    """Show the median of each figure of one engine on several cases."""
    rows = [
        [case.name, engine.name, *figure_cells(runs, median(runs, lambda run: run.calls))]
        for case, runs in found.items()
    ]
    return Table(HEADINGS, rows, TITLE)


def figure_cells(runs: Sequence[Run], calls: float | None) -> list[str]:
    """Give the median of each figure, in the order of HEADINGS behind the engine."""
    busy = median(runs, lambda run: run.server_busy)
    return [
        f"{statistics.median(run.iops for run in runs):,.0f}",
        _bandwidth(statistics.median(run.bandwidth for run in runs)),
        _short(statistics.median(run.cpu for run in runs)),
        _short(statistics.median(run.cpu_user for run in runs)),
        _short(statistics.median(run.cpu_system for run in runs)),
        "-" if calls is None else f"{calls:.2f}",
        time_text(statistics.median(run.p50 for run in runs)),
        time_text(statistics.median(run.p99 for run in runs)),
        "-" if busy is None else f"{busy:.0%}",
    ]


def _bandwidth(value: float) -> str:
    return f"{value / 2**20:,.0f}" if value else "-"


def _short(value: float) -> str:
    """Write microseconds with three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def bars_grid(results: Sequence[CaseResult], rival: Contender) -> Table:
    """Show the ratios to a rival beside their bars."""
    figures = _ratios_beside(rival)
    headings = [""]
    for figure in figures:
        headings += [RATIOS[figure], "bar", ""]
    rows = [
        [result.case.name, *_ratio_cells(result, rival, figures)]
        for result in results
        if _shown_in(result, [rival])
    ]
    return Table(headings, rows, f"Ratio to {rival.name}, with its 95 % interval", styles=_STYLES)


def _ratios_beside(rival: Contender) -> tuple[Ratioed, ...]:
    """Give the figures that are held against a rival's."""
    return ("cpu", "rate", "p50") if rival.role == "yardstick" else ("cpu", "rate")


def _ratio_cells(result: CaseResult, rival: Contender, figures: Sequence[Ratioed]) -> Iterator[str]:
    judged = {one.bar.figure: one for one in result.judgements() if one.bar.beside == rival.role}
    for figure in figures:
        if rival.role not in result.runs:
            yield from ("-", "-", "")
        elif one := judged.get(figure):
            yield from (one.text, one.bar.text, one.verdict.value)
        else:
            yield from (result.ratio(figure, rival.role).text, "-", "")


def bars_lines(results: Sequence[CaseResult], contenders: Sequence[Contender]) -> list[str]:
    """Say how many bars are met, and name those that are not."""
    names = {one.role: one.name for one in contenders}
    judged = [(result.case.name, one) for result in results for one in result.judgements()]
    missed = [
        f"{name}, {RATIOS[one.bar.figure]} beside {names[one.bar.beside]}:"
        f" {one.text}, bar {one.bar.text}: {one.verdict.value}"
        for name, one in judged
        if one.bar.figure != "calls" and not one.bar.met(one.value)
    ]
    ratios = sum(one.bar.figure != "calls" for _, one in judged)
    return [f"{ratios - len(missed)} of {ratios} bars for ratios are met", *missed]


def calls_lines(results: Sequence[CaseResult]) -> list[str]:
    """Hold system calls per operation against their bars."""
    return [
        f"{result.case.name}: {judgement.text} system calls per operation,"
        f" bar {judgement.bar.text}: {judgement.verdict.value}"
        for result in results
        for judgement in result.judgements()
        if judgement.bar.figure == "calls"
    ]


def case_data(result: CaseResult, contenders: Sequence[Contender]) -> dict[str, Any]:
    """Give all that is known of a case, for JSON."""
    names = {one.role: one.name for one in contenders if one.role in result.runs}
    return {
        "case": result.case.name,
        "runs": {
            name: [dataclasses.asdict(run) for run in result.runs[role]]
            for role, name in names.items()
        },
        "system_calls": {name: result.calls(role) for role, name in names.items()},
        "ratios": {
            rival.name: {
                figure: dataclasses.asdict(result.ratio(figure, rival.role))
                for figure in _ratios_beside(rival)
            }
            for rival in contenders[1:]
            if rival.role in names
        },
        "bars": [
            {
                "figure": judgement.bar.figure,
                "beside": names[judgement.bar.beside],
                "limit": judgement.bar.limit,
                "value": judgement.value,
                "verdict": judgement.verdict.value,
            }
            for judgement in result.judgements()
        ],
    }


# --- pictures ---


_PEER, _OURS, _BAR = "#9aa5b1", "#2364aa", "#c23b22"
_COLOURS: Mapping[Role, str] = {
    "ours": _OURS,
    "peer": _PEER,
    "yardstick": "#3b8f5a",
    "single": "#8fb8de",
    "v3": "#c9a227",
    "data": "#6c4a9e",
}
_PANELS: Mapping[Ratioed, str] = {"cpu": "CPU per operation", "rate": "IOPS", "p50": "p50 of clat"}
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10)


def write_comparison(
    results: Sequence[CaseResult], contenders: Sequence[Contender], file: Path
) -> None:
    """Draw CPU per operation of all engines, and the ratios with intervals and bars; a PNG."""
    contenders = [one for one in contenders if any(one.role in of.runs for of in results)]
    rivals = contenders[1:]
    figures = [one for one in _PANELS if any(one in _ratios_beside(rival) for rival in rivals)]
    height = 1.6 + 0.21 * len(contenders) * len(results)
    import matplotlib.figure

    figure = matplotlib.figure.Figure(
        figsize=(4.3 * (1 + len(figures)), height), layout="constrained"
    )
    cost, *panels = figure.subplots(1, 1 + len(figures), sharey=True)
    _draw_cost(cost, results, contenders)
    for panel, ratio in zip(panels, figures, strict=True):
        _draw_ratios(panel, results, [one for one in rivals if ratio in _ratios_beside(one)], ratio)
        panel.set_title(f"{_PANELS[ratio]} ÷ that of …")
    cost.set_yticks(range(len(results)), [result.case.name for result in results])
    cost.set_ylim(len(results) - 0.4, -0.6)
    cost.set_title("CPU per operation, µs")
    figure.legend(loc="outside upper center", ncols=len(contenders))
    figure.savefig(file, dpi=130)


def _lanes(contenders: Sequence[Contender]) -> list[tuple[Contender, float]]:
    """Give each contender its place within a row."""
    return [
        (one, 0.8 * ((lane + 0.5) / len(contenders) - 0.5)) for lane, one in enumerate(contenders)
    ]


def _draw_cost(panel: Axes, results: Sequence[CaseResult], contenders: Sequence[Contender]) -> None:
    for one, shift in _lanes(contenders):
        costs = {
            place + shift: statistics.median(run.cpu for run in result.runs[one.role])
            for place, result in enumerate(results)
            if one.role in result.runs
        }
        drawn = panel.barh(
            list(costs),
            list(costs.values()),
            height=0.76 / len(contenders),
            color=_COLOURS[one.role],
            label=one.name,
        )
        panel.bar_label(drawn, fmt="%.3g", padding=3, fontsize="small")
    panel.set_xscale("log")
    panel.margins(x=0.15)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_ratios(
    panel: Axes, results: Sequence[CaseResult], rivals: Sequence[Contender], figure: Ratioed
) -> None:
    drawn = [1.0]
    for rival, shift in _lanes(rivals):
        for place, result in enumerate(results):
            if rival.role in result.runs:
                drawn += _draw_ratio(panel, result, rival.role, figure, place + shift)
    panel.axvline(1, color="0.7", linewidth=1, zorder=0)
    panel.set_xlabel("dot and line: ratio and 95 % interval; red: bar", fontsize="small")
    panel.spines[["top", "right"]].set_visible(False)
    # Room for all dots and bars; an interval may go beyond it.
    panel.set_xscale("log")
    panel.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    panel.minorticks_off()
    panel.set_xlim(min(drawn) / 1.6, max(drawn) * 1.6)


def _draw_ratio(
    panel: Axes, result: CaseResult, beside: Role, figure: Ratioed, place: float
) -> list[float]:
    """Draw one ratio with its bar; give what there must be room for."""
    ratio = result.ratio(figure, beside)
    bars = [bar for bar in result.case.bars if (bar.figure, bar.beside) == (figure, beside)]
    limits = [bar.limit for bar in bars]
    if ratio.low is not None and ratio.high is not None:
        panel.hlines(place, ratio.low, ratio.high, color=_COLOURS[beside], linewidth=2)
    panel.plot(ratio.value, place, "o", color=_COLOURS[beside])
    panel.plot(limits, [place] * len(limits), "|", color=_BAR, markersize=12, markeredgewidth=2)
    return [ratio.value, *limits]


def write_scale(found: Mapping[Case, list[Run]], file: Path) -> None:
    """Draw CPU per operation against connections, and against depth; a PNG."""
    depth = max((case.depth for case in found if case.connections > 1), default=0)
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_curve(
        left, {case.connections: runs for case, runs in found.items() if case.depth == depth}
    )
    _draw_curve(right, {case.depth: runs for case, runs in found.items() if case.connections == 1})
    left.set_xlabel(f"connections, at depth {depth} together")
    right.set_xlabel("depth, on one connection")
    for panel in (left, right):
        panel.set_ylabel("CPU per operation, µs")
    left.set_ylim(bottom=0)
    right.set_yscale("log")
    figure.savefig(file, dpi=130)


def _draw_curve(panel: Axes, points: Mapping[int, list[Run]]) -> None:
    places = sorted(points)
    for place in places:
        panel.plot(
            [place] * len(points[place]), [run.cpu for run in points[place]], ".", color=_PEER
        )
    medians = [statistics.median(run.cpu for run in points[place]) for place in places]
    panel.plot(places, medians, "o-", color=_OURS)
    panel.set_xscale("log", base=2)
    panel.set_xticks(places, [str(place) for place in places])
    panel.spines[["top", "right"]].set_visible(False)
