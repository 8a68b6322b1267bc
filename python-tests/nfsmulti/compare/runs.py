# SPDX-License-Identifier: GPL-2.0-only
"""Two runs of one scenario: whether they can be compared, and the ratios of their cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nfsmulti.errors import HarnessError
from nfsmulti.report import cells, conditions
from nfsmulti.stats.ratio import Ratio
from nfsmulti.stats.sample import Sample
from nfsmulti.summary import Cell, Factor, Summary

_PLACE = ("kind", "limits")  # of summary.place, what makes figures of another kind

Key = tuple[tuple[str, Factor], ...]


class Figure(StrEnum):
    """Bytes per second, the 99th percentile of clat, CPU of the jobs per I/O."""

    THROUGHPUT = "throughput"
    P99 = "p99"
    CPU = "cpu"

    @property
    def measure(self) -> Callable[[Cell], float | None]:
        """How it is taken of a cell."""
        return _MEASURES[self]

    def worse(self, ratio: float, part: float) -> bool:
        """Tell whether B is worse than A by more than `part` of it."""
        return ratio < 1 - part if self is Figure.THROUGHPUT else ratio > 1 + part

    def better(self, ratio: float, part: float) -> bool:
        """Tell whether B is better than A by more than `part` of it."""
        return ratio > 1 + part if self is Figure.THROUGHPUT else ratio < 1 - part


def _p99_us(cell: Cell) -> float | None:
    return cells.latency_us([cell.read, cell.write], 99)


_MEASURES = {
    Figure.THROUGHPUT: cells.bandwidth,
    Figure.P99: _p99_us,
    Figure.CPU: cells.jobs_cpu_us,
}


@dataclass(frozen=True)
class Pair:
    """One combination of factors in both runs: the repeats that are done."""

    key: Key
    a: list[Cell]
    b: list[Cell]

    @property
    def name(self) -> str:
        """The factors, as one reads them."""
        return ", ".join(f"{name} {value}" for name, value in self.key) or "the cell"

    def samples(self, figure: Figure) -> tuple[Sample, Sample] | None:
        """Give a figure's repeats in B and in A; None where one of them lacks it."""
        b, a = (cells.sample(side, figure.measure) for side in (self.b, self.a))
        if a is None or b is None or min(a.values + b.values) <= 0:
            return None
        return b, a

    def ratio(self, figure: Figure) -> Ratio | None:
        """Give B : A, unpaired: a repeat of B has nothing to do with one of A."""
        samples = self.samples(figure)
        return Ratio.unpaired([samples]) if samples else None


def pairs(a: Summary, b: Summary) -> list[Pair]:
    """Give the combinations of factors that are done in both runs, in A's order."""
    groups = [_groups(one.done) for one in (a, b)]
    return [
        Pair(key, found, groups[1][key]) for key, found in groups[0].items() if key in groups[1]
    ]


def lost(a: Summary, b: Summary) -> list[str]:
    """Name the combinations that A has done and of which more repeats failed in B than in A."""
    done, of_b = _groups(a.done), _groups(b.cells)
    failed = [_groups([cell for cell in one.cells if cell.status == "failed"]) for one in (a, b)]
    return [
        f"{Pair(key, [], []).name}: {len(found)} of its {len(of_b[key])} repeats failed in B"
        for key, found in failed[1].items()
        if key in done and len(found) > len(failed[0].get(key, []))
    ]


def unfinished(a: Summary, b: Summary) -> int:
    """Count the cells that A has done, and that have not run in B yet."""
    done = {(_key(cell), cell.repeat) for cell in a.done}
    waiting = [cell for cell in b.cells if cell.status == "waiting"]
    return sum((_key(cell), cell.repeat) in done for cell in waiting)


def unmatched(a: Summary, b: Summary) -> int:
    """Count the combinations that are done in one run alone."""
    return len(_groups(a.done).keys() ^ _groups(b.done).keys())


def why_not(a: Summary, b: Summary) -> str | None:
    """Say in one line why two runs cannot be compared; None where they can."""
    for what, of_a, of_b in (
        ("scenarios", a.scenario, b.scenario),
        ("factors", _factors(a), _factors(b)),
        ("lengths", _length(a), _length(b)),
        ("numbers of hosts", a.hosts, b.hosts),
        *((f"places ({name})", a.place.get(name), b.place.get(name)) for name in _PLACE),
    ):
        if of_a != of_b:
            return f"their {what} differ: {_text(of_a)} and {_text(of_b)}"
    if waiting := unfinished(a, b):
        return (
            f"B is not finished: {waiting} cells that A ran are still to run: continue it with"
            " run --resume"
        )
    if not pairs(a, b) and not lost(a, b):
        return f"no combination of factors ran in both{_apart(a, b)}"
    return None


def over(summary: Summary, factor: str) -> Summary:
    """Take a factor off a run's cells, which two runs are compared over.

    Raises HarnessError where the run does not have it, or has several levels of it.
    """
    found = _levels(summary, factor)
    if len(found) != 1:
        what = (
            f"has {_text_of(found)}: only one level can be compared"
            if found
            else "does not have it"
        )
        raise HarnessError(f"--over {factor}: the run of {summary.started} {what}")
    without = [
        dataclasses.replace(
            cell, factors={name: at for name, at in cell.factors.items() if name != factor}
        )
        for cell in summary.cells
    ]
    return dataclasses.replace(summary, cells=without)


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


def _groups(found: list[Cell]) -> dict[Key, list[Cell]]:
    groups: dict[Key, list[Cell]] = {}
    for cell in found:
        groups.setdefault(_key(cell), []).append(cell)
    return groups


def _key(cell: Cell) -> Key:
    return tuple(sorted(cell.factors.items()))


def _factors(summary: Summary) -> str:
    return ", ".join(sorted({name for cell in summary.cells for name in cell.factors}))


def _length(summary: Summary) -> str:
    return "quick" if summary.quick else "full"


def _text(value: Any) -> str:
    return conditions.flat_text(value)
