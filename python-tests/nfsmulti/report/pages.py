# SPDX-License-Identifier: GPL-2.0-only
"""report.md, report.html and plots/ of a run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from nfsmulti.errors import HarnessError
from nfsmulti.report import cells, charts, conditions, hosts, server, texts, variants
from nfsmulti.report.story import Beside, Finding, Report, Section, Story
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Summary
from nfsmulti.tables import Table

MARKDOWN, HTML, PLOTS = "report.md", "report.html", "plots"
TEMPLATES = {MARKDOWN: "report.md.j2", HTML: "report.html.j2"}
FINDING = ("finding", "published", "here", "verdict", "why")
_FOLDER = Path(__file__).with_name("templates")
_NOTHING = Story(["No cell of this run has finished: there is nothing to report yet."])


def write(folder: Path) -> None:
    """Write a run's report beside its summary.json. Raises HarnessError where that cannot be read.

    A run that was interrupted, or has failed cells, gets a report of what there is, which says so.
    """
    summary = Summary.load(folder)
    scenario = SCENARIOS.get(summary.scenario)
    if scenario is None:
        raise HarnessError(f"{folder}: there is no report for scenario '{summary.scenario}'")
    values = contents(scenario.report, summary, conditions.load(folder))
    story: Story = values["story"]
    plots = [plot for section in (*story.sections, *story.ending) for plot in section.plots]
    drawn = {plot.name: Markup(charts.write(plot, folder / PLOTS)) for plot in plots}
    for file, template in TEMPLATES.items():
        (folder / file).write_text(render(template, {**values, "drawn": drawn}))


def contents(report: Report, summary: Summary, environment: Mapping[str, Any]) -> dict[str, Any]:
    """Give what the templates show, by name; the page needs `drawn` as well, its plots as SVG."""
    story = variants.tell(report, summary) if summary.done else _NOTHING
    if by_host := hosts.section(summary):
        story = dataclasses.replace(story, sections=[*story.sections, by_host])
    if of_server := server.section(summary):
        story = dataclasses.replace(story, sections=[*story.sections, of_server])
    return {
        "summary": summary,
        "report": report,
        "story": story,
        "findings": findings_table(variants.findings(report, summary)),
        "beside": beside_table(variants.beside(report, summary)),
        "troubles": _troubles(summary),
        "conditions": conditions.table(summary, environment),
        "place": conditions.in_short(summary),
    }


def render(template: str, values: Mapping[str, Any]) -> str:
    """Fill in one of the templates."""
    return _environment().get_template(template).render(values)


def findings_table(found: Sequence[Finding]) -> Table:
    """Lay out what was published and what is found here, with its verdict."""
    rows = [[one.what, one.theirs, one.ours, one.judged.verdict, one.judged.why] for one in found]
    return Table(FINDING, rows, text_columns=len(FINDING))


def beside_table(rows: Sequence[Beside]) -> Table:
    """Lay published figures and ours side by side, each of ours with its variation."""
    headings = [
        "figure", "published", "here", "ratio published", "ratio here (95 % interval)", "CV %", "n",
    ]  # fmt: skip
    cells = [
        [
            row.figure,
            row.theirs,
            row.ours,
            texts.MISSING if row.their_ratio is None else f"{row.their_ratio:.2f}",
            row.our_ratio.text if row.our_ratio else texts.MISSING,
            texts.cv(row.sample),
            texts.count(row.sample),
        ]
        for row in rows
    ]
    return Table(headings, cells, text_columns=1)


def _troubles(summary: Summary) -> list[Section]:
    """Tell of the cells that failed, and of those that did not run."""
    failed = [cell for cell in summary.cells if cell.status == "failed"]
    waiting = [cell for cell in summary.cells if cell.status == "waiting"]
    sections = []
    if failed:
        rows = [[cells.name(cell), str(cell.repeat), cell.why or "not said"] for cell in failed]
        words = f"{len(failed)} of {len(summary.cells)} cells failed; no figure includes them."
        table = Table(["cell", "repeat", "why"], rows, text_columns=3)
        sections.append(Section("Failed cells", [words], [table]))
    if waiting:
        words = (
            f"This run was interrupted: {len(waiting)} of {len(summary.cells)} cells have not run."
            " `--resume` continues it."
        )
        rows = [[cells.name(cell), str(cell.repeat)] for cell in waiting]
        table = Table(["cell", "repeat"], rows, text_columns=2)
        sections.append(Section("Waiting cells", [words], [table]))
    return sections


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["code"] = _code
    return environment


def _code(text: str) -> Markup:
    """Mark what stands between backquotes as code, in HTML."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
