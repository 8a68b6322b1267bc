# SPDX-License-Identifier: GPL-2.0-only
"""results/README.md: every published figure in one table, beside our reference runs."""

from __future__ import annotations

from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.report import conditions, pages, texts, variants
from nfsmulti.report.scenarios import SCENARIOS
from nfsmulti.report.story import Beside, Scenario, Table
from nfsmulti.summary import FILE, Summary

README, REFERENCE = "README.md", "reference"
_NO_RUN = "no reference run"
_NOT_IN_RUN = "not in the reference run"


def write(results: Path) -> Path:
    """Write results/README.md from results/reference/*/summary.json. Raises HarnessError."""
    found = references(results / REFERENCE)
    values = {"figures": table(found), "runs": _runs_table(found)}
    file = results / README
    file.write_text(pages.render("published.md.j2", values))
    return file


def references(folder: Path) -> dict[str, tuple[str, Summary]]:
    """Give the reference run of each scenario, with its folder's name.

    Of several of one scenario, that counts whose folder has the scenario's name.
    """
    found: dict[str, tuple[str, Summary]] = {}
    for file in sorted(folder.glob(f"*/{FILE}")):
        summary, name = Summary.load(file.parent), file.parent.name
        if summary.scenario not in SCENARIOS:
            raise HarnessError(f"{file}: there is no report for scenario '{summary.scenario}'")
        if name == summary.scenario or summary.scenario not in found:
            found[summary.scenario] = name, summary
    return found


def table(found: dict[str, tuple[str, Summary]]) -> Table:
    """Lay every published figure beside that of its reference run."""
    rows: list[list[str]] = []
    for scenario in SCENARIOS.values():
        _, summary = found.get(scenario.name, (None, None))
        beside = variants.beside(scenario, summary or _nothing(scenario))
        rows += [_row(scenario, row, summary) for row in beside]
    headings = [
        "publication", "figure", "theirs", "their ratio", "ours", "our ratio", "CV %", "n",
        "our conditions", "where they differ",
    ]  # fmt: skip
    return Table(headings, rows, text_columns=2, ending_text_columns=2)


def _row(scenario: Scenario, row: Beside, summary: Summary | None) -> list[str]:
    ours, where = row.ours, texts.MISSING
    if summary is None:
        ours = _NO_RUN
    elif row.ours == texts.MISSING and row.sample is None:
        ours = _NOT_IN_RUN
    else:
        where = conditions.in_short(summary) + (", quick" if summary.quick else "")
    return [
        scenario.name,
        row.figure,
        row.theirs,
        texts.MISSING if row.their_ratio is None else f"{row.their_ratio:.2f}",
        ours,
        row.our_ratio.text if row.our_ratio else texts.MISSING,
        texts.cv(row.sample),
        texts.count(row.sample),
        where,
        row.differs or texts.MISSING,
    ]


def _nothing(scenario: Scenario) -> Summary:
    """Give a run of a scenario in which nothing was run."""
    return Summary(scenario.name, "", "", "", False, "", {}, [])


def _runs_table(found: dict[str, tuple[str, Summary]]) -> Table:
    rows = [
        [
            f"[{name}]({REFERENCE}/{name}/{pages.MARKDOWN})",
            summary.started,
            f"{len(summary.done)} of {len(summary.cells)}",
            f"`{summary.command}`",
        ]
        for name, summary in found.values()
    ]
    return Table(["run", "started", "cells done", "command"], rows, text_columns=4)
