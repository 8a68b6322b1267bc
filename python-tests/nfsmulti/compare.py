# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti compare: two runs of one scenario, cell by cell, with a verdict that a CI can use.

Two equal runs pass: every cell is a test, and so is the geometric mean over all cells; by chance
alone, one in twenty of them would differ. So B is worse only where a test is significant after
Holm's correction over all of them, and the change is larger than the threshold.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, NoReturn

import rich.table
from rich.console import Console

from nfsmulti.errors import HarnessError
from nfsmulti.report import cells, conditions
from nfsmulti.stats import FEWEST, Ratio, Sample, by_repeat, holm
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table

# Of summary.place, what makes figures of another kind, and what an older summary means.
_PLACE: dict[str, Any] = {"kind": None, "limits": None, "guest": "qemu", "files": None}
_PLACE |= {"amounts": None}
_SIGNIFICANT = 0.05
_TOGETHER = "all cells together"


class Figure(StrEnum):
    """Bytes per second, the 99th percentile of clat, CPU of the jobs per I/O."""

    THROUGHPUT = "throughput"
    P99 = "p99"
    CPU = "cpu"

    def worse(self, ratio: float, part: float) -> bool:
        """Tell whether B is worse than A by more than `part` of it."""
        return ratio < 1 - part if self is Figure.THROUGHPUT else ratio > 1 + part

    def better(self, ratio: float, part: float) -> bool:
        """Tell whether B is better than A by more than `part` of it."""
        return ratio > 1 + part if self is Figure.THROUGHPUT else ratio < 1 - part


_MEASURES = {
    Figure.THROUGHPUT: cells.bandwidth,
    Figure.P99: cells.p99_us,
    Figure.CPU: cells.jobs_cpu_us,
}
_HEADINGS = {Figure.THROUGHPUT: "throughput", Figure.P99: "clat p99", Figure.CPU: "CPU per I/O"}


@dataclass(frozen=True)
class Pair:
    """One combination of factors in both runs: its name, and the repeats that are done."""

    name: str
    a: list[Cell]
    b: list[Cell]

    def samples(self, figure: Figure) -> tuple[Sample, Sample] | None:
        """Give a figure's repeats in B and in A; None where one of them lacks it."""
        b, a = (cells.sample(side, _MEASURES[figure]) for side in (self.b, self.a))
        if a is None or b is None or min(a.values + b.values) <= 0:
            return None
        return b, a

    def ratio(self, figure: Figure) -> Ratio | None:
        """Give B : A, unpaired: a repeat of B has nothing to do with one of A."""
        samples = self.samples(figure)
        return Ratio.unpaired(*samples) if samples else None


def pairs(a: Summary, b: Summary) -> list[Pair]:
    """Give the combinations of factors that are done in both runs, in the order of their names."""
    of_a, of_b = _groups(a.done), _groups(b.done)
    return [Pair(name, of_a[name], of_b[name]) for name in of_a if name in of_b]


def lost(a: Summary, b: Summary) -> list[str]:
    """Name the combinations that A has done and of which more repeats failed in B than in A."""
    done, of_b = _groups(a.done), _groups(b.cells)
    failed = [_groups([cell for cell in one.cells if cell.status == "failed"]) for one in (a, b)]
    return [
        f"{name}: {len(found)} of its {len(of_b[name])} repeats failed in B"
        for name, found in failed[1].items()
        if name in done and len(found) > len(failed[0].get(name, []))
    ]


def _unfinished(a: Summary, b: Summary) -> int:
    """Count the cells that A has done, and that have not run in B yet."""
    done = {(_name(cell), cell.repeat) for cell in a.done}
    waiting = [cell for cell in b.cells if cell.status == "waiting"]
    return sum((_name(cell), cell.repeat) in done for cell in waiting)


def unmatched(a: Summary, b: Summary) -> int:
    """Count the combinations that are done in one run alone."""
    return len(_groups(a.done).keys() ^ _groups(b.done).keys())


def why_not(a: Summary, b: Summary) -> str | None:
    """Say in one line why two runs cannot be compared; None where they can."""
    kinds = [_kind(one) for one in (a, b)]
    for what, of_a in kinds[0].items():
        if of_a != (of_b := kinds[1][what]):
            values = " and ".join(map(conditions.flat_text, (of_a, of_b)))
            return f"their {what} differ: {values}"
    if waiting := _unfinished(a, b):
        return (
            f"B is not finished: {waiting} cells that A ran are still to run: continue it with"
            " run --resume"
        )
    if not pairs(a, b) and not lost(a, b):
        if empty := " and ".join(name for name, one in (("A", a), ("B", b)) if not one.done):
            return f"no cell is done in {empty}"
        return f"no combination of factors ran in both{_apart(a, b)}"
    return None


def _kind(run: Summary) -> dict[str, Any]:
    """Give what two runs that are compared have in common, by what that is."""
    return {
        "scenarios": run.scenario,
        "factors": ", ".join(sorted({name for cell in run.cells for name in cell.factors})),
        "lengths": "quick" if run.quick else "full",
        "numbers of hosts": run.hosts,
        **{f"places ({name})": run.place.get(name, old) for name, old in _PLACE.items()},
    }


def without(summary: Summary, factor: str) -> Summary:
    """Take a factor off a run's cells, which two runs are compared over.

    Raises HarnessError where the run does not have it, or has several levels of it.
    """
    found = _levels(summary, factor)
    if len(found) != 1:
        what = "does not have it"
        if found:
            what = f"has {_text_of(found)}: only one level can be compared"
        raise HarnessError(f"--over {factor}: the run of {summary.started} {what}")
    left = []
    for cell in summary.cells:
        factors = {name: at for name, at in cell.factors.items() if name != factor}
        left.append(dataclasses.replace(cell, factors=factors))
    return dataclasses.replace(summary, cells=left)


def _apart(a: Summary, b: Summary) -> str:
    """Name the factors of which the runs have no level in common, and how to compare over one."""
    names = sorted({name for cell in a.cells for name in cell.factors})
    apart = {name: (_levels(a, name), _levels(b, name)) for name in names}
    apart = {name: both for name, both in apart.items() if not {*both[0]} & {*both[1]}}
    if not apart:
        return ""
    said = "; ".join(
        f"{name} is {_text_of(one)} in A and {_text_of(two)} in B"
        for name, (one, two) in apart.items()
    )
    name, both = next(iter(apart.items()))
    can = len(apart) == 1 and all(len(one) == 1 for one in both)
    return f": {said}" + (f": compare with --over {name}" if can else "")


def _levels(summary: Summary, factor: str) -> list[Factor]:
    return cells.levels(summary.done, factor)


def _text_of(levels: Sequence[Factor]) -> str:
    return ",".join(map(str, levels))


def _groups(found: list[Cell]) -> dict[str, list[Cell]]:
    return cells.by_name(found, _name)


def _name(cell: Cell) -> str:
    """Give the factors, as one reads them; the runs may have them in another order."""
    return cells.text(dict(sorted(cell.factors.items()))) or "the cell"


# --- the verdict ---


class Exit(IntEnum):
    """What the command ends with."""

    PASSED = 0
    WORSE = 10
    NOT_COMPARABLE = 11


@dataclass(frozen=True)
class Tested:
    """The ratio B : A of one figure, in one cell or over all; `p` is Holm's, None without one."""

    name: str
    figure: Figure
    ratio: Ratio
    p: float | None = None


@dataclass(frozen=True)
class Conclusion:
    """The end of a comparison: how it exits, and why in lines."""

    exit: Exit
    lines: list[str]


def together(found: Sequence[Pair], figure: Figure) -> Ratio | None:
    """Give the geometric mean over the cells; over those with an interval, where some have none.

    The cells of a repeat share its drift and are not independent: each repeat counts as one value.
    """
    having = [(pair, both) for pair in found if (both := pair.samples(figure))]
    repeated = [pair for pair, both in having if min(side.n for side in both) >= FEWEST]
    taken = repeated or [pair for pair, _ in having]
    if not taken:
        return None
    b, a = (_mean(sides, figure) for sides in zip(*((p.b, p.a) for p in taken), strict=True))
    ratio = Ratio.unpaired(b, a)
    return ratio if repeated else Ratio(ratio.value)


def _mean(groups: Iterable[list[Cell]], figure: Figure) -> Sample:
    """Give the geometric mean over the cells of each repeat of a run."""
    measured = [
        {cell.repeat: math.log(value) for cell in group if (value := _MEASURES[figure](cell))}
        for group in groups
    ]
    return Sample(tuple(map(math.exp, by_repeat(measured))))


def trials(found: Sequence[Pair], judged: Sequence[Figure]) -> list[Tested]:
    """Give the tests of the judged figures, corrected for their number."""
    plain = [
        Tested(name, figure, ratio)
        for figure in judged
        for name, ratio in (
            (_TOGETHER, together(found, figure)),
            *((pair.name, pair.ratio(figure)) for pair in found),
        )
        if ratio
    ]
    corrected = iter(holm([one.ratio.p for one in plain if one.ratio.p is not None]))
    return [
        one if one.ratio.p is None else dataclasses.replace(one, p=next(corrected)) for one in plain
    ]


def by_tests(found: Sequence[Pair], judged: Sequence[Figure], threshold: float) -> Conclusion:
    """Judge by intervals. Where no cell has one, the runs are not comparable."""
    tests = trials(found, judged)
    number = sum(one.p is not None for one in tests)
    if not number:
        line = f"no interval: no cell ran {FEWEST} times on both sides: run with --repeat {FEWEST}"
        return Conclusion(Exit.NOT_COMPARABLE, [f"{line}, or set --tolerance PERCENT"])
    differing = [one for one in tests if one.p is not None and one.p < _SIGNIFICANT]
    if worse := [one for one in differing if one.figure.worse(one.ratio.value, threshold)]:
        return Conclusion(Exit.WORSE, [_worse_line(one) for one in worse])
    better = any(
        one.name == _TOGETHER and one.figure.better(one.ratio.value, threshold) for one in differing
    )
    said = "better" if better else "not shown to be worse"
    beyond = f"nothing is significantly worse by more than {100 * threshold:g} %"
    hidden = [
        f"note: {one.figure} {one.ratio.text} is too wide to exclude a larger loss: run more"
        " repeats"
        for one in tests
        if one.name == _TOGETHER
        and any(end and one.figure.worse(end, threshold) for end in (one.ratio.low, one.ratio.high))
    ]
    return Conclusion(Exit.PASSED, [*hidden, f"{said}: {beyond}, in {number} tests"])


def by_tolerance(found: Sequence[Pair], judged: Sequence[Figure], tolerance: float) -> Conclusion:
    """Judge by the ratios alone: nothing may be worse by more than the tolerance."""
    worse = [one for one in trials(found, judged) if one.figure.worse(one.ratio.value, tolerance)]
    if worse:
        return Conclusion(Exit.WORSE, [_worse_line(one) for one in worse])
    line = f"equal or better: nothing is worse by more than {100 * tolerance:g} %, without a test"
    return Conclusion(Exit.PASSED, [line])


def _worse_line(one: Tested) -> str:
    p = "" if one.p is None else f", p {'< 0.001' if one.p < 0.001 else f'= {one.p:.3f}'} (Holm)"
    return f"worse: {one.name}: {one.figure} {one.ratio.text}{p}"


# --- the command ---


_NARROWEST = 120  # columns that the table needs


def compare(
    a: Path,
    b: Path,
    threshold: float,
    judge: Sequence[str] | None,
    tolerance: float | None,
    over: str | None,
) -> None:
    """Print each cell's ratio B/A, and what that says. Ends with the verdict's status."""
    out = Console(highlight=False)
    out.width = max(out.width, _NARROWEST)
    try:
        first, second = (
            without(one, over) if over else one for one in (Summary.load(a), Summary.load(b))
        )
    except HarnessError as error:
        _refuse(str(error))
    if reason := why_not(first, second):
        _refuse(reason)
    found = pairs(first, second)
    out.print(_table(found))
    judged = [Figure(name) for name in judge or [Figure.THROUGHPUT]]
    if tolerance is None:
        verdict = by_tests(found, judged, threshold / 100)
    else:
        verdict = by_tolerance(found, judged, tolerance / 100)
    if gone := lost(first, second):
        before = verdict.lines if verdict.exit is Exit.WORSE else []
        verdict = Conclusion(Exit.WORSE, [*before, *(f"worse: {line}" for line in gone)])
    if alone := unmatched(first, second):
        out.print(
            f"{alone} combinations of factors ran in only one of the two runs.", soft_wrap=True
        )
    if verdict.exit is Exit.NOT_COMPARABLE:
        _refuse(*verdict.lines)
    for line in verdict.lines:
        out.print(line, markup=False, soft_wrap=True)
    sys.exit(verdict.exit)


def _refuse(*lines: str) -> NoReturn:
    for line in lines:
        print(f"nfsmulti: not comparable: {line}", file=sys.stderr)
    sys.exit(Exit.NOT_COMPARABLE)


def _table(found: Sequence[Pair]) -> rich.table.Table:
    headings = ["cell", *(_HEADINGS[figure] for figure in Figure)]
    rows = [
        [pair.name, *(_cell(figure, pair.ratio(figure)) for figure in Figure)] for pair in found
    ]
    table = Table(headings, rows, "B / A, with 95 % interval", text_wraps=True).terminal()
    table.add_section()
    means = [_cell(figure, together(found, figure)) for figure in Figure]
    table.add_row(f"{_TOGETHER} ({len(found)})", *means)
    return table


def _cell(figure: Figure, ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    if ratio.spans_one is None:
        return f"{ratio.text}\ntoo few runs, no interval"
    if ratio.spans_one:
        return f"{ratio.text}\ninconclusive"
    return f"{ratio.text}\n{'worse' if figure.worse(ratio.value, 0) else 'better'}"
