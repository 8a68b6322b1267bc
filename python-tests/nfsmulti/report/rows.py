# SPDX-License-Identifier: GPL-2.0-only
"""cells.csv: the figures of a run for other programs, a row for each cell and repeat."""

import contextlib
import csv
import io
from pathlib import Path

from nfsmulti.paths import write_whole
from nfsmulti.report.measures import MEASURES
from nfsmulti.summary import Summary
from nfsmulti.terminal import visible

FILE = "cells.csv"
# docs/reports.md says what each column is.
OF_CELL = (
    "id", "repeat", "order", "status", "why", "times", "settled", "seconds", "cpu_s",
    "machine_cpu_s", "processors", "connections",
)  # fmt: skip


def write(summary: Summary, folder: Path) -> None:
    """Write it beside summary.json: a cell's own fields, its factors, and each of MEASURES.

    What was not measured is empty; a figure that no cell has is no column.
    """
    factors = sorted({name for cell in summary.cells for name in cell.factors})
    figures = {name: [*map(measure, summary.cells)] for name, measure in MEASURES.items()}
    figures = {name: column for name, column in figures.items() if {*column} - {None}}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(map(_no_formula, [*OF_CELL, *(f"factor_{one}" for one in factors), *figures]))
    for cell, *row in zip(summary.cells, *figures.values(), strict=True):
        own = [getattr(cell, name) for name in OF_CELL]
        writer.writerow(map(_no_formula, [*own, *map(cell.factors.get, factors), *row]))
    write_whole(folder / FILE, text.getvalue())


def _no_formula(value: object) -> object:
    """Return what a spreadsheet shows and does not carry out: "-1.5" is a number, "=A1" a text."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    with contextlib.suppress(ValueError):
        float(text)
        return text
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text
