# SPDX-License-Identifier: GPL-2.0-only
"""What the server's kernel told of itself during the cells, where it was asked."""

from __future__ import annotations

from nfsmulti.report import cells, texts
from nfsmulti.report.story import Section
from nfsmulti.summary import Cell, Server, Summary
from nfsmulti.tables import Table

_MB = 1e6


def section(summary: Summary) -> Section | None:
    """Lay out processors, Dirty and Cached by cell; None where no server was asked."""
    asked = [cell for cell in summary.done if cell.server or cell.server_why]
    if not asked:
        return None
    groups: dict[str, list[Cell]] = {}
    for cell in asked:
        name = ", ".join(f"{name} {value}" for name, value in cell.factors.items())
        groups.setdefault(name, []).append(cell)
    words = [
        "CPU is in per cent of all processors of the server; Dirty and Cached are peaks from its"
        " /proc/meminfo."
    ]
    if summary.place.get("kind") != "pool":
        words.append("Client and server are one machine here: the figures cover both.")
    if untold := [cell.server_why for cell in asked if cell.server_why]:
        words.append(f"{len(untold)} of {len(asked)} cells have no figures: {untold[0]}")
    headings = ["cell", "processors", "CPU, %", "CV %", "n", "Dirty, MB", "Cached, MB"]
    rows = [_row(name, found) for name, found in groups.items()]
    return Section("The server", words, [Table(headings, rows)])


def _row(name: str, found: list[Cell]) -> list[str]:
    told = [cell.server for cell in found if cell.server]
    busy = cells.sample(found, lambda cell: cell.server.cpu_percent if cell.server else None)
    return [
        name, str(told[0].processors) if told else texts.MISSING, texts.mean(busy), texts.cv(busy),
        texts.count(busy), _highest(told, "dirty_bytes"), _highest(told, "cached_bytes"),
    ]  # fmt: skip


def _highest(told: list[Server], figure: str) -> str:
    return texts.number(max(getattr(one, figure) for one in told) / _MB) if told else texts.MISSING
