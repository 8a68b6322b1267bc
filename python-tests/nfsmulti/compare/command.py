# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti compare A B."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import rich.table
import typer
from rich.console import Console

from nfsmulti.compare import runs
from nfsmulti.compare.runs import Figure, Pair
from nfsmulti.compare.verdict import TOGETHER, Conclusion, Exit, by_tests, by_tolerance, together
from nfsmulti.errors import HarnessError
from nfsmulti.stats.ratio import Ratio
from nfsmulti.summary import Summary
from nfsmulti.tables import Table

_HEADINGS = {Figure.THROUGHPUT: "throughput", Figure.P99: "clat p99", Figure.CPU: "CPU per I/O"}

_NARROWEST = 120  # columns that the table needs

_Run = Annotated[Path, typer.Argument(help="The folder of a run: results/SCENARIO/TIME.")]


def compare(
    a: _Run,
    b: _Run,
    threshold: Annotated[
        float, typer.Option(min=0, help="Per cent by which B may be worse, even if significantly.")
    ] = 5.0,
    judge: Annotated[
        list[Figure] | None,
        typer.Option(help="A figure that the verdict covers; repeatable (default: throughput)."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0, help="Judge without statistical tests: per cent by which no cell may be worse."
        ),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(
            metavar="FACTOR",
            help="Compare the levels of this factor; each run has exactly one.",
        ),
    ] = None,
) -> None:
    """Compare run B with run A of the same scenario: each cell's ratio B/A, with its interval.

    A ratio whose 95 % interval spans 1 is "no difference". Throughput is
    bytes per second. The 99th percentile of clat and the CPU time of fio's
    jobs per I/O are shown as well; the verdict covers them only if --judge
    asks for it, because both vary more between two runs of the same thing.

    [bold]Exit status[/bold], for a CI: 0 equal or better, 10 worse, 11 not
    comparable: another scenario, other factors, quick against full, another
    kind of place, other limits or another number of hosts, no cell that was
    repeated on both sides, or cells of A that B has yet to run (run --resume).
    A cell of which more repeats failed in B than in A is worse.

    [bold]When is B worse?[/bold] With many cells, some differ by chance. So every
    cell is tested (Welch's t of the logarithms), and the geometric mean of
    all cells too. B is worse only if a test is significant at 5 % after
    Holm's correction over all tests, and the change is larger than
    --threshold. A change in all cells shows in the mean, a change in a
    single cell in its own test.

    With one run of each cell there is no interval. --tolerance PERCENT then
    judges the ratios alone, the mean's and each cell's; choose it wider than
    the cells vary (CV in the report).
    """
    out = Console(highlight=False)
    out.width = max(out.width, _NARROWEST)
    try:
        first, second = (
            runs.over(one, over) if over else one for one in (Summary.load(a), Summary.load(b))
        )
    except HarnessError as error:
        _refuse(str(error))
    reason = runs.why_not(first, second)
    if reason:
        _refuse(reason)
    found = runs.pairs(first, second)
    out.print(_table(found))
    judged = judge or [Figure.THROUGHPUT]
    if tolerance is None:
        verdict = by_tests(found, judged, threshold / 100)
    else:
        verdict = by_tolerance(found, judged, tolerance / 100)
    verdict = _with_lost(verdict, runs.lost(first, second))
    if alone := runs.unmatched(first, second):
        out.print(
            f"{alone} combinations of factors ran in only one of the two runs.", soft_wrap=True
        )
    if verdict.exit is Exit.NOT_COMPARABLE:
        _refuse(*verdict.lines)
    for line in verdict.lines:
        out.print(line, markup=False, soft_wrap=True)
    raise typer.Exit(verdict.exit)


def _refuse(*lines: str) -> None:
    for line in lines:
        typer.echo(f"nfsmulti: not comparable: {line}", err=True)
    raise typer.Exit(Exit.NOT_COMPARABLE)


def _with_lost(verdict: Conclusion, lost: list[str]) -> Conclusion:
    """Make it worse where cells were lost."""
    if not lost:
        return verdict
    before = verdict.lines if verdict.exit is Exit.WORSE else []
    return Conclusion(Exit.WORSE, [*before, *(f"worse: {line}" for line in lost)])


def _table(found: Sequence[Pair]) -> rich.table.Table:
    headings = ["cell", *(_HEADINGS[figure] for figure in Figure)]
    rows = [
        [pair.name, *(_cell(figure, pair.ratio(figure)) for figure in Figure)] for pair in found
    ]
    table = Table(headings, rows, "B / A, with 95 % interval", text_wraps=True).terminal()
    table.add_section()
    means = [_cell(figure, together(found, figure)) for figure in Figure]
    table.add_row(f"{TOGETHER} ({len(found)})", *means)
    return table


def _cell(figure: Figure, ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    if ratio.spans_one is None:
        return f"{ratio.text}\none run, no interval"
    if ratio.spans_one:
        return f"{ratio.text}\nno difference"
    return f"{ratio.text}\n{'worse' if figure.worse(ratio.value, 0) else 'better'}"
