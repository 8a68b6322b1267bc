# SPDX-License-Identifier: GPL-2.0-only
"""Comparisons as tables and as JSON."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from nfsmulti.bench.cases import Case
from nfsmulti.bench.compare import CaseResult, median
from nfsmulti.bench.ratios import Ratio
from nfsmulti.bench.report import Grid
from nfsmulti.bench.runs import Contender, Sample
from nfsmulti.units import time_text

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


def figures_grid(results: Sequence[CaseResult], contenders: Sequence[Contender]) -> Grid:
    """Show the median of each figure, ours and the peer's below each other."""
    ours, peer = contenders
    rows = []
    for result in results:
        rows.append([result.case.name, ours.name, *figure_cells(result.ours, result.our_calls)])
        rows.append(["", peer.name, *figure_cells(result.peer, result.peer_calls)])
    return Grid(TITLE, HEADINGS, rows)


def sweep_grid(found: Mapping[Case, Sequence[Sample]], engine: Contender) -> Grid:
    """Show the median of each figure of one engine on several cases."""
    rows = [
        [case.name, engine.name, *figure_cells(runs, median(runs, lambda run: run.calls))]
        for case, runs in found.items()
    ]
    return Grid(TITLE, HEADINGS, rows)


def figure_cells(runs: Sequence[Sample], calls: float | None) -> list[str]:
    """Give the median of each figure, in the order of HEADINGS behind the engine."""
    busy = median(runs, lambda run: run.server_busy)
    return [
        f"{statistics.median(run.iops for run in runs):,.0f}",
        f"{statistics.median(run.bandwidth for run in runs) / 2**20:,.0f}",
        _short(statistics.median(run.cpu for run in runs)),
        _short(statistics.median(run.cpu_user for run in runs)),
        _short(statistics.median(run.cpu_system for run in runs)),
        "-" if calls is None else f"{calls:.2f}",
        time_text(statistics.median(run.p50 for run in runs)),
        time_text(statistics.median(run.p99 for run in runs)),
        "-" if busy is None else f"{busy:.0%}",
    ]


def _short(value: float) -> str:
    """Write microseconds with three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def bars_grid(results: Sequence[CaseResult], peer: Contender) -> Grid:
    """Show both ratios of each case beside their bars."""
    headings = ["", "CPU per operation", "bar", "", "IOPS", "bar", ""]
    rows = []
    for result in results:
        judged = {judgement.bar.figure: judgement for judgement in result.judgements()}
        row = [result.case.name]
        for figure in ("cpu", "rate"):
            judgement = judged.get(figure)
            if judgement:
                row += [judgement.text, judgement.bar.text, judgement.verdict.value]
            else:
                row += [result.ratio(figure).text, "-", ""]
        rows.append(row)
    title = f"Ratio to {peer.name}, with its 95 % interval"
    return Grid(title, headings, rows)


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
    ours, peer = contenders
    return {
        "case": result.case.name,
        "runs": {
            ours.name: [dataclasses.asdict(run) for run in result.ours],
            peer.name: [dataclasses.asdict(run) for run in result.peer],
        },
        "system_calls": {ours.name: result.our_calls, peer.name: result.peer_calls},
        "ratios": {
            "cpu": _ratio_data(result.ratio("cpu")),
            "rate": _ratio_data(result.ratio("rate")),
        },
        "bars": [
            {
                "figure": judgement.bar.figure,
                "limit": judgement.bar.limit,
                "value": judgement.value,
                "verdict": judgement.verdict.value,
            }
            for judgement in result.judgements()
        ],
    }


def _ratio_data(ratio: Ratio) -> dict[str, float | None]:
    values = dataclasses.asdict(ratio)
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
