# SPDX-License-Identifier: GPL-2.0-only
"""cells.csv: the figures of a run for other programs, a row for each cell and repeat."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
from pathlib import Path

from nfsmulti.paths import write_whole
from nfsmulti.stats import merged, percentile_us
from nfsmulti.summary import Cell, Figures, MountCalls, Summary
from nfsmulti.terminal import visible

FILE = "cells.csv"
# Units stand in the names, as in summary.json; docs/reports.md says what each is.
OF_CELL = (
    "id", "repeat", "order", "status", "why", "times", "settled", "seconds", "cpu_s",
    "machine_cpu_s", "processors", "others_busy", "connections",
)  # fmt: skip
OF_DIRECTION = [one.name for one in dataclasses.fields(Figures) if one.type != "dict[str, int]"]
OF_ARRIVALS = ("offered", "achieved", "sustained", "due", "dropped")
OF_WAITS = tuple(f"{what}_p{at}_us" for what in ("lag", "response") for at in (50, 99))
OF_MOUNTS = [one.name for one in dataclasses.fields(MountCalls)]
OF_PARTS = tuple(f"{what}_p{at}_us" for what in ("service", "wake_up") for at in (50, 99))


def write(summary: Summary, folder: Path) -> None:
    """Write it beside summary.json. What was not measured is empty.

    Columns of arrivals, and of the parts of a response, are there where a cell has some.
    """
    mounts = [(way, name) for way in ("read", "write") for name in OF_MOUNTS
              if any(cell.mount_calls for cell in summary.cells)]  # fmt: skip
    parts = any(cell.parts for cell in summary.cells)
    came = any(cell.arrivals for cell in summary.cells)
    factors = sorted({name for cell in summary.cells for name in cell.factors})
    heading = [
        *OF_CELL,
        *(f"factor_{name}" for name in factors),
        *(f"{way}_{name}" for way in ("read", "write") for name in OF_DIRECTION),
        *(OF_ARRIVALS + OF_WAITS if came else ()),
        *(OF_PARTS if parts else ()),
        *(f"{way}_{name}" for way, name in mounts),
    ]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(map(_no_formula, heading))
    for cell in summary.cells:
        row = [
            *(getattr(cell, name) for name in OF_CELL),
            *(cell.factors.get(name) for name in factors),
            *(getattr(side, name, None) for side in (cell.read, cell.write)
              for name in OF_DIRECTION),
            *(_arrivals(cell) if came else ()),
            *(percentile_us(merged([getattr(cell.parts, what, {})]), percent)
              for what in ("service", "wake_up") for percent in (50, 99) if parts),
            *(getattr(cell.mount_calls.get(way), name, None) for way, name in mounts),
        ]  # fmt: skip
        writer.writerow(map(_no_formula, row))
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


def _arrivals(cell: Cell) -> list[float | None]:
    """Return OF_ARRIVALS, then OF_WAITS, of both directions together."""
    if not (came := cell.arrivals):
        return [None] * len(OF_ARRIVALS + OF_WAITS)
    response = merged(side.response for side in (cell.read, cell.write) if side)
    waits = merged([came.lag]), response
    return [
        *(getattr(came, name) for name in OF_ARRIVALS),
        *(percentile_us(bins, percent) for bins in waits for percent in (50, 99)),
    ]
