# SPDX-License-Identifier: GPL-2.0-only
"""What the pages of a story say, as text; of its reference run what plots draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import made_runs
import numpy as np
import page_cases
from matplotlib.axes import Axes
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.patches import Patch

from nfsmulti.report import pages
from nfsmulti.report.story import Section
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Summary
from nfsmulti.texts import Table

_LEFT_OUT = {"Over time", "Every cell", "Conditions", "The command", "Calls of the mounts"}


def cases(name: str) -> dict[str, list[str]]:
    """Return what the page of each run of a story says."""
    runs = page_cases.cases(name).items()
    return {promise: told(run, plots="drawn" in promise) for promise, run in runs}


def told(run: Summary, *, plots: bool = False) -> list[str]:
    """Return the lines of a page, but for the figures of each cell and its conditions."""
    values = pages.contents(SCENARIOS[run.scenario].report, run, made_runs.ENVIRONMENT)
    answer = values["answer"]
    lines = [answer.headline, *_table(answer.table), *(f"⚠ {one}" for one in answer.caveats)]
    lines.append(answer.ran)
    for section in values["sections"]:
        if section.title not in _LEFT_OUT:
            lines += _section(section, plots=plots)
    return lines


def _section(one: Section, *, plots: bool) -> Iterator[str]:
    yield f"## {one.title}{' (folded)' * one.folded}"
    yield from [*one.words, *(f"- {words}" for words in one.points)]
    for table in one.tables:
        yield from _table(table)
    for plot in one.plots:
        yield f"plot {plot.name}: {plot.caption}"
        for axes in plot.figure.axes if plots else ():
            yield from _drawn(axes)


def _table(table: Table) -> list[str]:
    rows = [" | ".join(row) for row in [table.headings, *table.rows] if row]
    return [f"{table.title}:"] * bool(table.title) + rows


def _drawn(axes: Axes) -> Iterator[str]:
    """Yield what a panel of a plot draws: its axes, and the points of each line or bar."""
    scales = f"{axes.get_xscale()}, {axes.get_yscale()}".replace("linear, linear", "linear")
    yield f"  {axes.get_xlabel()}; {axes.get_ylabel()} ({scales})"
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        if isinstance(handle, BarContainer):
            points = [f"{bar.get_x():.3g}: {bar.get_height():.3g}" for bar in handle]
        elif isinstance(handle, Patch):
            points = ["a band"]
        else:
            line: Any = handle[0] if isinstance(handle, ErrorbarContainer) else handle
            at = zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
            points = [f"{x:.3g}: {y:.3g}" for x, y in at]
        yield f"  {label} {', '.join(points)}"
