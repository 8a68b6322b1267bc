# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti compare: two runs of one scenario, cell by cell, with a verdict that a CI can use.

Two equal runs pass: every cell is a test, and so is the geometric mean over all cells; by chance
alone, one in twenty of them would differ. So B is worse only where a test is significant after
Holm's correction over all of them, and the change is larger than the threshold.

pairs.py says which cells belong together, doubts.py whether the machines allow a verdict, forms.py
how it is written.
"""

import dataclasses
import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from statistics import geometric_mean
from typing import NoReturn

from nfsmulti import kept, typed
from nfsmulti.errors import HarnessError
from nfsmulti.kept.doubts import doubts, purposes, refuse_unknown
from nfsmulti.kept.forms import SIGNIFICANT, TOGETHER, Comparison, Exit, Row, Side, largest
from nfsmulti.kept.pairs import Pair, lost, pairs, unmatched, why_not
from nfsmulti.report import conditions, loads, measures
from nfsmulti.report.answer import ran
from nfsmulti.stats import FEWEST, Ratio, Sample, by_repeat, holm
from nfsmulti.summary import Cell, Summary
from nfsmulti.texts import counted

_NAMED = 3  # cells that failed; more are counted


class Figure(StrEnum):
    """Bytes or metadata operations per second, p99 of clat, CPU time of the jobs per I/O.

    Of a cell that reads and writes, p99 of each: the slower ones alone would make a p99 of both.
    Of `run latency` others: the response's percentile at one load, and the load within the limit.
    """

    THROUGHPUT = "throughput"
    LOAD = "load"
    RESPONSE = "response"
    P99 = "p99"
    READS_P99 = "read p99"
    WRITES_P99 = "write p99"
    CPU = "cpu"

    def of(self, cell: Cell) -> float | None:
        """Measure a cell, in the figure's unit; None where it has no such figure."""
        return self._taken(cell)[0](cell)

    def unit(self, cell: Cell) -> str:
        """Return the unit of that."""
        return self._taken(cell)[1]

    def says(self, ratio: float, part: float) -> str:
        """Return "worse" or "better" where B is that by more than `part` of A, else ""."""
        more = self in (Figure.THROUGHPUT, Figure.LOAD)
        gain = ratio - 1 if more else 1 - ratio
        return "worse" if gain < -part else "better" if gain > part else ""

    def _taken(self, cell: Cell) -> tuple[measures.Take, str]:
        if self is Figure.THROUGHPUT and "operation" in cell.factors:
            return measures.IOPS, "operations/s"
        return _UNITS[self]


_UNITS: Mapping[str, tuple[measures.Take, str]] = {
    Figure.THROUGHPUT: (measures.MB_PER_S, "MB/s"),
    **{name: (measure, "ms") for name, measure in measures.P99_OF_EACH.items()},
    Figure.CPU: (measures.JOBS_CPU, "µs"),
}
# What a word of --judge stands for, if not for one figure.
_OF_WORDS = {"p99": [*measures.P99_OF_EACH]}


# --- the figures of two runs, and what they say ---


def together(found: Sequence[Pair], figure: Figure) -> Ratio | None:
    """Return the geometric mean over the cells; over those with an interval, where some have none.

    The cells of a repeat share its drift and are not independent: each repeat counts as one value.
    """
    having = [(pair, both) for pair in found if (both := pair.samples(figure.of))]
    repeated = [pair for pair, both in having if min(side.n for side in both) >= FEWEST]
    taken = repeated or [pair for pair, _ in having]
    if not taken:
        return None
    b, a = (per_repeat(sides, figure) for sides in zip(*((p.b, p.a) for p in taken), strict=True))
    ratio = Ratio.unpaired(b, a)
    return ratio if repeated else Ratio(ratio.value)


def per_repeat(groups: Iterable[list[Cell]], figure: Figure = Figure.THROUGHPUT) -> Sample:
    """Return the geometric mean over the cells of each repeat of a run."""
    measured = [
        {cell.repeat: math.log(value) for cell in group if (value := figure.of(cell))}
        for group in groups
    ]
    return Sample(tuple(map(math.exp, by_repeat(measured))))


def trials(found: Sequence[Pair], judged: Sequence[Figure], limit: float) -> list[Row]:
    """Return the judged figures of each cell, then of all, as judged_rows() does."""
    plain: list[Row] = []
    for figure in judged:
        each = [
            Row(pair.name, figure, figure.unit(pair.a[0]), a.mean, b.mean, Ratio.unpaired(b, a))
            for pair in found
            if (both := pair.samples(figure.of))
            for b, a in [both]
        ]
        plain += each
        if len(found) > 1 and (every := together(found, figure)):
            a, b = (
                geometric_mean(means) for means in zip(*((r.a, r.b) for r in each), strict=True)
            )
            plain.append(Row(TOGETHER, figure, each[0].unit, a, b, every))
    return judged_rows(plain, limit)


def at_loads(a: Summary, b: Summary, limit: float) -> list[Row]:
    """Return what two runs of latency are compared by, the loads within the limit last."""
    plain = [
        Row(
            name, Figure.LOAD if unit == "IOPS" else Figure.RESPONSE, unit,
            of_a.median, of_b.median, Ratio.unpaired(of_b, of_a),
        )
        for name, unit, of_a, of_b in loads.compared(a, b)
    ]  # fmt: skip
    plain.sort(key=lambda row: row.figure == Figure.LOAD)
    return judged_rows(plain, limit)


def judged_rows(plain: Sequence[Row], limit: float) -> list[Row]:
    """Return the rows with `p` corrected for their number.

    A row says "worse" or "better" beyond the limit and beyond chance.
    """
    corrected = iter(holm([one.ratio.p for one in plain if one.ratio.p is not None]))
    rows = []
    for one in plain:
        p = None if one.ratio.p is None else next(corrected)
        shown = p is not None and p < SIGNIFICANT
        says = Figure(one.figure).says(one.ratio.value, limit) if shown else ""
        rows.append(dataclasses.replace(one, p=p, says=says))
    return rows


def judged(rows: Sequence[Row], limit: float) -> tuple[Exit, list[str]]:
    """Return how a comparison ends, and why in lines; the last is the verdict."""
    number = sum(one.p is not None for one in rows)
    if not number:
        why = f"no cell ran {FEWEST} times on both sides: run with --repeat {FEWEST}"
        return Exit.NOT_COMPARABLE, [f"not comparable: {why}"]
    if worse := [one for one in rows if one.says == "worse"]:
        # The largest loss last, where it is seen; before it the means, where that is another one.
        means = [one for one in worse if one.cell == TOGETHER or one.figure == Figure.LOAD]
        told = [*means, *(one for one in [largest(worse)] if one not in means)]
        told.sort(key=lambda one: one is largest(worse))
        return Exit.WORSE, [f"worse: {one.name} {one.ratio.text}" for one in told]
    whole = [one for one in rows if one.cell == rows[-1].cell]  # the mean, or the only cell
    hidden = [
        f"note: {one.figure} {one.ratio.text} is too wide to exclude a larger loss: run more"
        " repeats"
        for one in whole
        if "worse" in {Figure(one.figure).says(end, limit) for end in one.ratio.ends}
    ]
    said = "better" if any(one.says for one in whole) else "not shown to be worse"
    beyond = f"nothing is significantly worse by more than {100 * limit:g} %"
    return Exit.PASSED, [*hidden, f"{said}: {beyond}, in {number} tests"]


# --- the command ---


def compare(
    runs: Sequence[Path],
    threshold: float,
    judge: Sequence[str] | None,
    allow: Collection[str],
    results: Path,
    written: str,
) -> None:
    """Print each cell's figures and ratio B/A, and what they say. Ends with the verdict's status.

    Without two runs, A is the baseline of B; without any, B is the newest run that has one.
    """
    try:
        folders = _chosen(runs, results)
        a, b = map(Summary.load, folders)
        if folders[0].resolve() == folders[1].resolve():
            raise HarnessError(f"{kept.shown_run(folders[0])} is both A and B: name two runs")
        environments = [conditions.load(folder) for folder in folders]
        refuse_unknown(allow, environments)
    except HarnessError as error:
        _refuse(str(error), written)
    with typed.understood(folders[1]):
        if reason := why_not(a, b):
            _refuse(reason, written, b.scenario)
        limit = threshold / 100
        if judge and a.scenario == "latency":
            _refuse(
                "--judge: runs of latency are compared by response and load", written, a.scenario
            )
        asked = judge or [Figure.THROUGHPUT]
        if a.scenario == "latency":
            rows, lacks = at_loads(a, b, limit), "no load was sustained in both"
        else:
            figures = [Figure(one) for name in asked for one in _OF_WORDS.get(name, [name])]
            rows = trials(pairs(a, b), figures, limit)
            lacks = f"no cell has {' or '.join(asked)} in both"
        if not rows:
            _refuse(lacks, written, b.scenario)
        end, lines = judged(rows, limit)
        why: list[str] = []
        if gone := lost(a, b):
            before = lines if end is Exit.WORSE else []
            if len(gone) > _NAMED:
                gone = [*gone[:_NAMED], f"{len(gone)} cells failed more often in B than in A"]
            end, lines = Exit.WORSE, [*before, *(f"worse: {line}" for line in gone)]
        elif end is not Exit.NOT_COMPARABLE:
            why = doubts((a, b), environments, allow)
        notes = purposes((a, b), environments)
        if alone := unmatched(a, b):
            what = counted(alone, "combination")
            notes.append(f"{what} of factors ran in only one of the two runs.")
        first, second = (
            Side(kept.shown_run(folder), run.label, run.started)
            for folder, run in zip(folders, (a, b), strict=True)
        )
        what = ran(b, environments[1])
        found = Comparison(a.scenario, end, lines, first, second, rows, limit, notes, why, what)
        found.write_page(folders[1])
    print(found.json() if written == "json" else found.text())
    sys.exit(found.exit)


def _chosen(runs: Sequence[Path], results: Path) -> tuple[Path, Path]:
    """Return A and B. Raises HarnessError where there is no such run, or no baseline of it."""
    if len(runs) > 2:
        raise HarnessError("name two runs at most")
    b = runs[-1] if runs else kept.newest_held(results)
    a = runs[0] if len(runs) > 1 else kept.baseline(results, Summary.load(b).scenario)
    if len(runs) < 2 and a.resolve() == b.resolve():
        raise HarnessError(f"{kept.shown_run(b)} is its own baseline: run the scenario again")
    return a, b


def _refuse(why: str, written: str, scenario: str = "") -> NoReturn:
    """Say why there are no figures to a user, and to a program in the form that it reads."""
    found = Comparison(scenario, Exit.NOT_COMPARABLE, [f"not comparable: {why}"])
    print(f"nfsmulti: {found.verdict[-1]}", file=sys.stderr)
    if written == "json":
        print(found.json())
    sys.exit(found.exit)
