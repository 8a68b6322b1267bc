# SPDX-License-Identifier: GPL-2.0-only
"""results/README.md: what was published, in one table, beside our reference runs."""

from __future__ import annotations

from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.report import conditions, pages, variants
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import FILE, Summary
from nfsmulti.tables import Table

README, REFERENCE = "README.md", "reference"


def write(results: Path) -> Path:
    """Write results/README.md from results/reference/*/summary.json. Raises HarnessError."""
    found = references(results / REFERENCE)
    values = {"findings": table(found), "runs": _runs_table(found)}
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
    """Lay every published finding beside that of its reference run, with the verdict."""
    rows = []
    for scenario in SCENARIOS.values():
        name, summary = found.get(scenario.name, ("", nothing(scenario.name)))
        story = f"[{scenario.name}]({REFERENCE}/{name}/{pages.MARKDOWN})" if name else scenario.name
        findings = pages.findings_table(variants.findings(scenario.report, summary))
        rows += [[story, *row] for row in findings.rows]
    headings = ["report", *pages.FINDING]
    return Table(headings, rows, text_columns=len(headings))


def nothing(scenario: str) -> Summary:
    """Give a run of a scenario in which nothing was run."""
    return Summary(scenario, "", "", "", False, "", {}, [])


def _runs_table(found: dict[str, tuple[str, Summary]]) -> Table:
    rows = [
        [
            f"[{name}]({REFERENCE}/{name}/{pages.MARKDOWN})",
            summary.started,
            f"{len(summary.done)} of {len(summary.cells)}",
            conditions.in_short(summary) + (", quick" if summary.quick else ""),
            f"`{summary.command}`",
        ]
        for name, summary in found.values()
    ]
    return Table(["run", "started", "cells done", "where", "command"], rows, text_columns=5)
