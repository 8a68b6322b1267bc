# SPDX-License-Identifier: GPL-2.0-only
"""What a cell is called: on its run's page, on a terminal, and where runs are compared."""

from __future__ import annotations

from collections.abc import Callable

from nfsmulti.report import pages
from nfsmulti.report.answer import labels
from nfsmulti.summary import Cell, Summary


def naming(run: Summary) -> Callable[[Cell], str]:
    """Return what names the cells of a run by the factors in which they differ."""
    report = pages.REPORTS.get(run.scenario)
    return labels(run, report.names(run) if report else {})
