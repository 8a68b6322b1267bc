# SPDX-License-Identifier: GPL-2.0-only
"""Comparisons as tables and as JSON."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nfsmulti.bench.cases import Case, Figure, Ratioed, Verdict
from nfsmulti.bench.compare import CaseResult, median
from nfsmulti.bench.runs import Contender, Sample
from nfsmulti.tables import Table
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
# What they mean, one line each.
COLUMNS = (
    "CPU µs/op: the job's CPU time per operation",
    "user, system: its parts",
    "calls/op: system calls per operation",
    "p50, p99: percentiles of fio's clat, from handing over a call to its reply",
    "server: how busy its core was; near 100 % it is the limit, not the client",
    "cN in a row's name: N connections; the depth is that of all together",
    "v4.1 in a row's name: NFSv4.1, which fio's nfs engine lacks: beside our NFSv3",
    "ratio: nfsmulti's figure ÷ the other engine's, run by run, with 95 % interval",
    "bar: the limit for a ratio; “open”: the interval spans it, or there are under 3 runs",
)
_STYLES = {
    Verdict.MET.value: "green",
    Verdict.MET_OPEN.value: "yellow",
    Verdict.NOT_MET_OPEN.value: "yellow",
    Verdict.NOT_MET.value: "red",
}
_DASHES = ["-"] * (len(HEADINGS) - 2)
RATIOS: Mapping[Figure, str] = {"cpu": "CPU per operation", "rate": "IOPS", "p50": "p50"}


def figures_grid(results: Sequence[CaseResult], contenders: Sequence[Contender]) -> Table:
    """Show the median of each figure of all contenders, below each other."""
    rows = []
    for result in results:
        name = result.case.name
        for one in shown_in(result, contenders):
            runs = result.runs.get(one.role)
            cells = figure_cells(runs, result.calls(one.role)) if runs else _DASHES
            rows.append([name, one.name, *cells])
            name = ""
    return Table(HEADINGS, rows, TITLE)


def shown_in(result: CaseResult, contenders: Sequence[Contender]) -> list[Contender]:
    """Give those with a row for a case: all that have run, and the yardstick everywhere."""
    return [one for one in contenders if one.role in result.runs or one.role == "yardstick"]


def sweep_grid(found: Mapping[Case, Sequence[Sample]], engine: Contender) -> Table:
    """Show the median of each figure of one engine on several cases."""
    rows = [
        [case.name, engine.name, *figure_cells(runs, median(runs, lambda run: run.calls))]
        for case, runs in found.items()
    ]
    return Table(HEADINGS, rows, TITLE)


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


def bars_grid(results: Sequence[CaseResult], rival: Contender) -> Table:
    """Show the ratios to a rival beside their bars."""
    figures = ratios_beside(rival)
    headings = [""]
    for figure in figures:
        headings += [RATIOS[figure], "bar", ""]
    rows = [
        [result.case.name, *_ratio_cells(result, rival, figures)]
        for result in results
        if shown_in(result, [rival])
    ]
    return Table(headings, rows, f"Ratio to {rival.name}, with its 95 % interval", styles=_STYLES)


def ratios_beside(rival: Contender) -> tuple[Ratioed, ...]:
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
                for figure in ratios_beside(rival)
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
