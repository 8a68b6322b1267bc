# SPDX-License-Identifier: GPL-2.0-only
"""What a cell is called: on its run's page, on a terminal, and where runs are compared."""

from __future__ import annotations

from collections.abc import Callable

from nfsmulti.report import cells, pages
from nfsmulti.report.answer import served
from nfsmulti.summary import Cell, Summary


def naming(run: Summary) -> Callable[[Cell], str]:
    """Return what names the cells of a run by the factors in which they differ."""
    report, varied = pages.REPORTS.get(run.scenario), cells.varying(run.cells)
    names = report.names(run) if report else {}

    def name(cell: Cell) -> str:
        return served(cells.words(cells.told(cell, varied), names), run.setting) or "the only cell"

    return name
