# SPDX-License-Identifier: GPL-2.0-only
"""The pictures of the benches."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nfsmulti.bench.cases import Case, Ratioed
from nfsmulti.bench.compare import CaseResult
from nfsmulti.bench.runs import Contender, Sample

_PEER, _OURS, _BAR = "#9aa5b1", "#2364aa", "#c23b22"
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10)


def write_comparison(
    results: Sequence[CaseResult], contenders: Sequence[Contender], file: Path
) -> None:
    """Draw CPU per operation of both engines, and both ratios with intervals and bars; a PNG."""
    figure = Figure(figsize=(13, 1.6 + 0.42 * len(results)), layout="constrained")
    cost, cpu, rate = figure.subplots(1, 3, sharey=True)
    _draw_cost(cost, results, contenders)
    _draw_ratios(cpu, results, "cpu")
    _draw_ratios(rate, results, "rate")
    cost.set_yticks(range(len(results)), [result.case.name for result in results])
    cost.set_ylim(len(results) - 0.4, -0.6)
    cost.set_title("CPU per operation, µs")
    cpu.set_title(f"CPU per operation ÷ {contenders[1].name}")
    rate.set_title(f"IOPS ÷ {contenders[1].name}")
    figure.savefig(file, dpi=130)


def _draw_cost(panel: Axes, results: Sequence[CaseResult], contenders: Sequence[Contender]) -> None:
    sides = [(-0.2, _OURS, contenders[0].name), (0.2, _PEER, contenders[1].name)]
    for (shift, colour, name), engine in zip(sides, ("ours", "peer"), strict=True):
        runs: list[list[Sample]] = [getattr(result, engine) for result in results]
        widths = [statistics.median(run.cpu for run in one) for one in runs]
        places = [place + shift for place in range(len(results))]
        drawn = panel.barh(places, widths, height=0.38, color=colour, label=name)
        panel.bar_label(drawn, fmt="%.3g", padding=3, fontsize="small")
    panel.set_xscale("log")
    panel.margins(x=0.15)
    panel.legend(fontsize="small")
    panel.spines[["top", "right"]].set_visible(False)


def _draw_ratios(panel: Axes, results: Sequence[CaseResult], figure: Ratioed) -> None:
    drawn = [1.0]
    for place, result in enumerate(results):
        ratio = result.ratio(figure)
        limits = [bar.limit for bar in result.case.bars if bar.figure == figure]
        if len(result.ours) > 1:
            panel.hlines(place, ratio.low, ratio.high, color=_OURS, linewidth=2)
        panel.plot(ratio.value, place, "o", color=_OURS)
        panel.plot(limits, [place] * len(limits), "|", color=_BAR, markersize=14, markeredgewidth=2)
        drawn += [ratio.value, *limits]
    panel.axvline(1, color="0.7", linewidth=1, zorder=0)
    panel.set_xlabel("dot and line: ratio and 95 % interval; red: bar", fontsize="small")
    panel.spines[["top", "right"]].set_visible(False)
    # Room for all dots and bars; an interval may go beyond it.
    panel.set_xscale("log")
    panel.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    panel.minorticks_off()
    panel.set_xlim(min(drawn) / 1.6, max(drawn) * 1.6)


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
