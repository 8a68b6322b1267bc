# SPDX-License-Identifier: GPL-2.0-only
"""The pictures of the benches."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nfsmulti.bench.cases import Case, Ratioed, Role
from nfsmulti.bench.compare import CaseResult
from nfsmulti.bench.runs import Contender, Sample
from nfsmulti.bench.tables import ratios_beside

_PEER, _OURS, _BAR = "#9aa5b1", "#2364aa", "#c23b22"
_COLOURS: Mapping[Role, str] = {
    "ours": _OURS,
    "peer": _PEER,
    "yardstick": "#3b8f5a",
    "single": "#8fb8de",
    "v3": "#c9a227",
}
_PANELS: Mapping[Ratioed, str] = {"cpu": "CPU per operation", "rate": "IOPS", "p50": "p50 of clat"}
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10)


def write_comparison(
    results: Sequence[CaseResult], contenders: Sequence[Contender], file: Path
) -> None:
    """Draw CPU per operation of all engines, and the ratios with intervals and bars; a PNG."""
    contenders = [one for one in contenders if any(one.role in of.runs for of in results)]
    rivals = contenders[1:]
    figures = [one for one in _PANELS if any(one in ratios_beside(rival) for rival in rivals)]
    height = 1.6 + 0.21 * len(contenders) * len(results)
    figure = Figure(figsize=(4.3 * (1 + len(figures)), height), layout="constrained")
    cost, *panels = figure.subplots(1, 1 + len(figures), sharey=True)
    _draw_cost(cost, results, contenders)
    for panel, ratio in zip(panels, figures, strict=True):
        _draw_ratios(panel, results, [one for one in rivals if ratio in ratios_beside(one)], ratio)
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


def write_scale(found: Mapping[Case, list[Sample]], file: Path) -> None:
    """Draw CPU per operation against connections, and against depth; a PNG."""
    depth = max((case.depth for case in found if case.connections > 1), default=0)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
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


def _draw_curve(panel: Axes, points: Mapping[int, list[Sample]]) -> None:
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
