# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti compare: two runs of one scenario, cell by cell, with a verdict that a CI can use.

Two equal runs pass: every cell is a test, and so is the geometric mean over all cells; by chance
alone, one in twenty of them would differ. So B is worse only where a test is significant after
Holm's correction over all of them, and the change is larger than the threshold.

reliability.py says whether the machines allow a verdict, comparison.py how it is written.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from nfsmulti import kept
from nfsmulti.comparison import WRITERS, Comparison, Exit, Row, Side
from nfsmulti.errors import HarnessError
from nfsmulti.reliability import doubts, purposes
from nfsmulti.report import cells, conditions
from nfsmulti.stats import FEWEST, Ratio, Sample, by_repeat, holm
from nfsmulti.summary import Cell, Factor, Summary

# Of summary.place, what makes figures of another kind, and what an older summary means.
_PLACE: dict[str, Any] = {"kind": None, "limits": None, "guest": "qemu", "files": None}
_PLACE |= {"amounts": None}
_SIGNIFICANT = 0.05
_TOGETHER = "all cells together"


class Figure(StrEnum):
    """Bytes or metadata operations per second, p99 of clat, CPU time of the jobs per I/O."""

    THROUGHPUT = "throughput"
    P99 = "p99"
    CPU = "cpu"

    def worse(self, ratio: float, part: float) -> bool:
        """Tell whether B is worse than A by more than `part` of it."""
        return ratio < 1 - part if self is Figure.THROUGHPUT else ratio > 1 + part

    def better(self, ratio: float, part: float) -> bool:
        """Tell whether B is better than A by more than `part` of it."""
        return ratio > 1 + part if self is Figure.THROUGHPUT else ratio < 1 - part


def _of_metadata(cell: Cell) -> bool:
    return "operation" in cell.factors


def _throughput(cell: Cell) -> float | None:
    return cells.iops(cell) if _of_metadata(cell) else cells.bandwidth(cell)


_MEASURES = {
    Figure.THROUGHPUT: _throughput,
    Figure.P99: cells.p99_us,
    Figure.CPU: cells.jobs_cpu_us,
}
# A unit, and how many of the measure's make one.
_UNITS = {
    Figure.THROUGHPUT: ("MB/s", 1e6),
    Figure.P99: ("ms", 1e3),
    Figure.CPU: ("µs", 1.0),
}
# Of a factor with such values the name says what they mean.
_SWITCH = {"on", "off", "yes", "no", "none", "True", "False"}


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
    of_a, of_b, named = _groups(a.done), _groups(b.done), _naming(a, b)
    return [Pair(named(of_a[name][0]), of_a[name], of_b[name]) for name in of_a if name in of_b]


def lost(a: Summary, b: Summary) -> list[str]:
    """Name the combinations that A has done and of which more repeats failed in B than in A."""
    done, of_b, named = _groups(a.done), _groups(b.cells), _naming(a, b)
    failed = [_groups([cell for cell in one.cells if cell.status == "failed"]) for one in (a, b)]
    return [
        f"{named(found[0])}: {len(found)} of its {len(of_b[name])} repeats failed in B"
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
    """Give the factors; the runs may have them in another order."""
    return cells.text(dict(sorted(cell.factors.items())))


def _naming(a: Summary, b: Summary) -> Callable[[Cell], str]:
    """Give what names a cell without the factors that have one level in both runs.

    Words come first, numbers with what they count: "64k-read at nconnect=4".
    """
    every = [*a.cells, *b.cells]
    varied = [
        name
        for name in dict.fromkeys(name for cell in every for name in cell.factors)
        if len({cell.factors.get(name) for cell in every}) > 1
    ]

    def named(cell: Cell) -> str:
        levels = [(name, str(cell.factors[name])) for name in varied if name in cell.factors]
        words = " ".join(at for _, at in levels if _is_word(at))
        counts = ", ".join(f"{name}={at}" for name, at in levels if not _is_word(at))
        return " at ".join(filter(None, (words, counts))) or "the only cell"

    return named


def _is_word(level: str) -> bool:
    return bool(re.search("[A-Za-z]", level)) and level not in _SWITCH


# --- the verdict ---


@dataclass(frozen=True)
class Tested:
    """The ratio B : A of one figure, in one cell or over all; `p` is Holm's, None without one.

    `a` and `b` are a cell's means.
    """

    name: str
    figure: Figure
    ratio: Ratio
    p: float | None = None
    a: float | None = None
    b: float | None = None


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


def per_repeat(found: Sequence[Pair]) -> Sample:
    """Return a run's geometric mean of throughput over the cells, of each repeat."""
    return _mean([pair.a for pair in found], Figure.THROUGHPUT)


def trials(found: Sequence[Pair], judged: Sequence[Figure]) -> list[Tested]:
    """Give the tests of the judged figures, corrected for their number."""
    plain = []
    for figure in judged:
        for pair in found:
            if both := pair.samples(figure):
                b, a = both
                ratio = Ratio.unpaired(b, a)
                plain.append(Tested(pair.name, figure, ratio, a=a.mean, b=b.mean))
        if len(found) > 1 and (every := together(found, figure)):
            plain.append(Tested(_TOGETHER, figure, every))
    corrected = iter(holm([one.ratio.p for one in plain if one.ratio.p is not None]))
    return [
        one if one.ratio.p is None else dataclasses.replace(one, p=next(corrected)) for one in plain
    ]


def by_tests(tests: Sequence[Tested], threshold: float) -> Conclusion:
    """Judge by intervals. Where no cell has one, the runs are not comparable."""
    number = sum(one.p is not None for one in tests)
    if not number:
        why = f"no cell ran {FEWEST} times on both sides: run with --repeat {FEWEST}"
        line = f"not comparable: {why}, or set --tolerance PERCENT"
        return Conclusion(Exit.NOT_COMPARABLE, [line])
    differing = [one for one in tests if one.p is not None and one.p < _SIGNIFICANT]
    if worse := [one for one in differing if one.figure.worse(one.ratio.value, threshold)]:
        return Conclusion(Exit.WORSE, _worse_lines(worse))
    whole = tests[-1].name  # the mean, or the only cell
    better = any(
        one.name == whole and one.figure.better(one.ratio.value, threshold) for one in differing
    )
    said = "better" if better else "not shown to be worse"
    beyond = f"nothing is significantly worse by more than {100 * threshold:g} %"
    hidden = [
        f"note: {one.figure} {one.ratio.text} is too wide to exclude a larger loss: run more"
        " repeats"
        for one in tests
        if one.name == whole
        and any(end and one.figure.worse(end, threshold) for end in (one.ratio.low, one.ratio.high))
    ]
    return Conclusion(Exit.PASSED, [*hidden, f"{said}: {beyond}, in {number} tests"])


def by_tolerance(tests: Sequence[Tested], tolerance: float) -> Conclusion:
    """Judge by the ratios alone: nothing may be worse by more than the tolerance."""
    worse = [one for one in tests if one.figure.worse(one.ratio.value, tolerance)]
    if worse:
        return Conclusion(Exit.WORSE, _worse_lines(worse))
    line = f"equal or better: nothing is worse by more than {100 * tolerance:g} %, without a test"
    return Conclusion(Exit.PASSED, [line])


def _worse_lines(worse: Sequence[Tested]) -> list[str]:
    """Give a line for each, the largest loss last, where it is seen; cells behind their mean."""
    by_loss = sorted(worse, key=lambda one: (one.name != _TOGETHER, abs(math.log(one.ratio.value))))
    return [
        f"worse: {one.name}{'' if one.figure is Figure.THROUGHPUT else f' {one.figure}'}"
        f" {one.ratio.text}"
        for one in by_loss
    ]


# --- the command ---


def compare(
    runs: Sequence[Path],
    threshold: float,
    judge: Sequence[str] | None,
    tolerance: float | None,
    over: str | None,
    allow: Collection[str],
    results: Path,
    written: str,
) -> None:
    """Print each cell's figures and ratio B/A, and what they say. Ends with the verdict's status.

    Without two runs, A is the baseline of B; without any, B is the newest run below `results`.
    """
    try:
        a, b = _chosen(runs, results)
        first, second = (
            without(one, over) if over else one for one in (Summary.load(a), Summary.load(b))
        )
        environments = [conditions.load(folder) for folder in (a, b)]
    except HarnessError as error:
        _refuse(str(error))
    if reason := why_not(first, second):
        _refuse(reason)
    found = pairs(first, second)
    tests = trials(found, [Figure(name) for name in judge or [Figure.THROUGHPUT]])
    if tolerance is None:
        verdict = by_tests(tests, threshold / 100)
    else:
        verdict = by_tolerance(tests, tolerance / 100)
    if gone := lost(first, second):
        before = verdict.lines if verdict.exit is Exit.WORSE else []
        verdict = Conclusion(Exit.WORSE, [*before, *(f"worse: {line}" for line in gone)])
    elif verdict.exit is not Exit.NOT_COMPARABLE:
        verdict = _doubted(verdict, doubts((first, second), environments, allow))
    notes = purposes((first, second), environments)
    if alone := unmatched(first, second):
        notes.append(f"{alone} combinations of factors ran in only one of the two runs.")
    limit = (threshold if tolerance is None else tolerance) / 100
    rows = [_row(one, limit, first) for one in tests]
    sides = (Side.of(a, first), Side.of(b, second))
    compared = Comparison(first.scenario, *sides, rows, notes, verdict.exit, verdict.lines)
    print(WRITERS[written](compared))
    sys.exit(verdict.exit)


def _chosen(runs: Sequence[Path], results: Path) -> tuple[Path, Path]:
    """Give A and B. Raises HarnessError where there is no such run, or no baseline of it."""
    if len(runs) > 2:
        raise HarnessError("name two runs at most")
    b = runs[-1] if runs else kept.newest(results)
    a = runs[0] if len(runs) > 1 else kept.baseline(results, Summary.load(b).scenario)
    if len(runs) < 2 and a.resolve() == b.resolve():
        raise HarnessError(f"{kept.shown_run(b)} is its own baseline: run the scenario again")
    return a, b


def _doubted(verdict: Conclusion, why: Sequence[str]) -> Conclusion:
    """Give a verdict that does not hold for these reasons, which are said last."""
    if not why:
        return verdict
    figures = [f"by the figures alone: {line}" for line in verdict.lines]
    return Conclusion(Exit.UNRELIABLE, [*figures, *(f"unreliable: {line}" for line in why)])


def unit(figure: Figure, run: Summary) -> tuple[str, float]:
    """Return the unit of a figure, and how many of its measure make one."""
    if figure is Figure.THROUGHPUT and any(map(_of_metadata, run.cells)):
        return "operations/s", 1.0
    return _UNITS[figure]


def _row(one: Tested, limit: float, run: Summary) -> Row:
    """Give a row; it says "worse" or "better" beyond the limit, and where tested, beyond chance."""
    name, scale = unit(one.figure, run)
    a, b = (None if mean is None else mean / scale for mean in (one.a, one.b))
    shows = one.p is None or one.p < _SIGNIFICANT
    says = ""
    if shows and one.figure.worse(one.ratio.value, limit):
        says = "worse"
    elif shows and one.figure.better(one.ratio.value, limit):
        says = "better"
    ratio = one.ratio
    return Row(one.name, one.figure, name, a, b, ratio.value, ratio.low, ratio.high, one.p, says)


def _refuse(*lines: str) -> NoReturn:
    for line in lines:
        print(f"nfsmulti: not comparable: {line}", file=sys.stderr)
    sys.exit(Exit.NOT_COMPARABLE)
