# SPDX-License-Identifier: GPL-2.0-only
"""What further factors (`run --setting`, `--factors`) are worth: each value against the first.

Ratios are of the same cell under both, paired by repeat; over all cells they are geometric means.
"""

from __future__ import annotations

from collections.abc import Sequence

from nfsmulti.report import cells, texts
from nfsmulti.report.story import Section
from nfsmulti.summary import Cell, Factor
from nfsmulti.tables import Table

Variant = tuple[str, Sequence[Cell]]  # a combination of further factors, and its cells
_Once = tuple[tuple[tuple[str, Factor], ...], int]  # a cell's own factors, and its repeat


def _p99_us(cell: Cell) -> float | None:
    return cells.latency_us([cell.read, cell.write], 99)


_MEASURES = {"throughput": cells.bandwidth, "p99": _p99_us}


def section(known: Sequence[str], variants: Sequence[Variant]) -> Section | None:
    """Give the ratios of all variants to the first; `known` are the factors that all of them have.

    None where no cell is done in two of them.
    """
    (first, base), *others = variants
    words, rows = [], []
    for name, those in others:
        over, under = _both(known, those, base)
        if not over:
            continue
        for own in dict.fromkeys(factors for factors, _ in over):
            pair = [[one for key, one in side.items() if key[0] == own] for side in (over, under)]
            label = ", ".join(f"{factor} {value}" for factor, value in own)
            rows.append([name, label, *_ratios(*pair)])
        pair = [list(over.values()), list(under.values())]
        rows.append([name, "all cells together", *_ratios(*pair)])
        words.append(_sentence(first, name, *pair))
    if not rows:
        return None
    headings = ["", "cell", *(f"{measure} : that of {first}" for measure in _MEASURES)]
    return Section(f"Against {first}", words, [Table(headings, rows, text_columns=2)])


def _both(
    known: Sequence[str], one: Sequence[Cell], other: Sequence[Cell]
) -> tuple[dict[_Once, Cell], dict[_Once, Cell]]:
    """Give the cells that are done on both sides, in the same order."""
    a, b = ({_once(known, cell): cell for cell in side} for side in (one, other))
    return {key: a[key] for key in a if key in b}, {key: b[key] for key in a if key in b}


def _once(known: Sequence[str], cell: Cell) -> _Once:
    own = {name: value for name, value in cell.factors.items() if name in known}
    return tuple(own.items()), cell.repeat


def _ratios(over: Sequence[Cell], under: Sequence[Cell]) -> list[str]:
    found = [cells.ratio(over, under, measure) for measure in _MEASURES.values()]
    return [ratio.text if ratio else texts.MISSING for ratio in found]


def _sentence(first: str, name: str, over: Sequence[Cell], under: Sequence[Cell]) -> str:
    ratio = cells.ratio(over, under, cells.bandwidth)
    if ratio is None:
        return f"{name} cannot be compared with {first}."
    told = f"{ratio.text} times as much as {first}{texts.inconclusive(ratio)}"
    return f"Over all cells, {name} moves {told}."
