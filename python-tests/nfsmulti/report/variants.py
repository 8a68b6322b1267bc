# SPDX-License-Identifier: GPL-2.0-only
"""Runs whose cells were crossed with more factors (`run --factors`): a story for each combination.

A scenario's report knows its own factors alone. Cells that differ in another one are no repeats of
each other, and must not be taken together.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from nfsmulti import texts
from nfsmulti.report import cells
from nfsmulti.report.story import Beside, Finding, Report, Section, Story
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table

Levels = tuple[tuple[str, Factor], ...]


def beside(report: Report, summary: Summary) -> list[Beside]:
    """Give the published figures beside ours, once for each combination of further factors."""
    return [
        dataclasses.replace(row, figure=named(row.figure, levels))
        for levels, part in parts(report.factors, summary)
        for row in report.beside(part)
    ]


def findings(report: Report, summary: Summary) -> list[Finding]:
    """Give the findings, once for each combination of further factors."""
    return [
        dataclasses.replace(one, what=named(one.what, levels))
        for levels, part in parts(report.factors, summary)
        for one in report.findings(part)
    ]


def tell(report: Report, summary: Summary) -> Story:
    """Tell the story, once for each combination of further factors; one cell must be done.

    What they are worth follows, where there are several.
    """
    done = [(levels, part) for levels, part in parts(report.factors, summary) if part.done]
    told = [(levels, report.tell(part)) for levels, part in done]
    against = _against(report.factors or (), [(_text(levels), part.done) for levels, part in done])
    return Story(
        answer=[
            f"{_text(levels)}: {words}" if levels else words
            for levels, story in told
            for words in story.answer
        ]
        + list(against.words if against else ()),
        sections=[
            *([dataclasses.replace(against, words=())] if against else []),
            *(one for levels, story in told for one in _sections(story.sections, levels)),
        ],
        reading=told[0][1].reading,
        ending=[one for levels, story in told for one in _sections(story.ending, levels)],
    )


def parts(known: Sequence[str] | None, summary: Summary) -> list[tuple[Levels, Summary]]:
    """Split a run by the factors that are not known; one part where there are none.

    `known` None: all are.
    """
    if known is None:
        return [((), summary)]
    found: dict[Levels, list[Cell]] = {}
    for cell in summary.cells:
        further = {name: cell.factors[name] for name in cell.factors if name not in known}
        found.setdefault(tuple(further.items()), []).append(cell)
    split = [(levels, dataclasses.replace(summary, cells=those)) for levels, those in found.items()]
    known_values = {name: _values(summary, name) for levels in found for name, _ in levels}
    split.sort(key=lambda part: [known_values[name].index(value) for name, value in part[0]])
    return split or [((), summary)]


def _values(summary: Summary, factor: str) -> list[Factor]:
    """Give a factor's values as the user gave them, where that is known."""
    setting = summary.place.get("setting", {})
    given = {**summary.place.get("factors", {}), setting.get("name"): setting.get("values")}
    return given.get(factor) or cells.levels(summary.cells, factor)


def _sections(sections: Sequence[Section], levels: Levels) -> list[Section]:
    suffix = re.sub(r"[^a-z0-9]+", "-", _text(levels).lower()).strip("-")
    return [
        dataclasses.replace(
            one,
            title=named(one.title, levels),
            plots=[
                dataclasses.replace(
                    plot,
                    name=f"{plot.name}-{suffix}" if levels else plot.name,
                    caption=named(plot.caption.removesuffix("."), levels)
                    if levels
                    else plot.caption,
                )
                for plot in one.plots
            ],
        )
        for one in sections
    ]


def named(words: str, levels: Levels) -> str:
    """Add the levels of further factors to a name."""
    return f"{words}; {_text(levels)}" if levels else words


def _text(levels: Levels) -> str:
    return ", ".join(f"{name} {value}" for name, value in levels)


# --- what further factors are worth: each value against the first ---
# Ratios are of the same cell under both, paired by repeat; over all cells, geometric means.

_Variant = tuple[str, Sequence[Cell]]  # a combination of further factors, and its cells
_Once = tuple[Levels, int]  # a cell's own factors, and its repeat


_MEASURES = {"throughput": cells.bandwidth, "p99": cells.p99_us}


def _against(known: Sequence[str], variants: Sequence[_Variant]) -> Section | None:
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
            rows.append([name, _text(own), *_ratios(*pair)])
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
    a, b = ({(_levels(cell, known), cell.repeat): cell for cell in side} for side in (one, other))
    return {key: a[key] for key in a if key in b}, {key: b[key] for key in a if key in b}


def _levels(cell: Cell, known: Sequence[str]) -> Levels:
    return tuple((name, value) for name, value in cell.factors.items() if name in known)


def _ratios(over: Sequence[Cell], under: Sequence[Cell]) -> list[str]:
    return [texts.ratio(cells.ratio(over, under, measure)) for measure in _MEASURES.values()]


def _sentence(first: str, name: str, over: Sequence[Cell], under: Sequence[Cell]) -> str:
    ratio = cells.ratio(over, under, cells.bandwidth)
    if ratio is None:
        return f"{name} cannot be compared with {first}."
    told = f"{ratio.text} times as much as {first}{texts.inconclusive(ratio)}"
    return f"Over all cells, {name} moves {told}."
