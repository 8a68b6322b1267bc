# SPDX-License-Identifier: GPL-2.0-only
"""What a run of the matrix leaves: a table in the terminal, report.md, results.json."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import rich.table

from nfsmulti.faults.cell import Outcome, Place
from nfsmulti.paths import portable
from nfsmulti.tables import Table

RESULTS = "results.json"
REPORT = "report.md"

_HEADINGS = (
    "fault",
    "work",
    "mode",
    "outcome",
    "recovered after",
    "ended after",
    "sent again",
    "bytes lost",
    "as expected",
)
_NUMBERS = 4  # the first column that holds figures
_HOW = """\
A row is one job of fio with the engine, met by one fault. “write” is UNSTABLE WRITEs with a COMMIT
at the end, “write sync” FILE_SYNC ones, “write hold” is “write” with hold_writes; all are read
back.
Each block's content is known: where a job is done, the server's own file was compared with it, byte
by byte, and fio's count of bytes with the engine's; where it failed, what was neither kept by the
server nor told as lost would be named.

- outcome: done; failed, with fio's error; held: it waited on as `hard` promises, until SIGINT ended
  it.
- recovered after: seconds, the longest that an I/O of the job took: what the fault held was
  answered after that time, and what it did not hold sooner.
- ended after: seconds from the fault, or from SIGINT for a job that was held, to fio's end.
- sent again: bytes of calls that were sent again to the same server, or taken over by another path
  (a call counts as a block), and of what hold_writes has written again.
- bytes lost: those that the engine said may be lost, in the line that names path and file.

RDMA's cells have no dropped packets and no broken messages: rdma_rxe hands packets between its own
addresses over past any filter, and no scripted server speaks RPC-over-RDMA.
"""


@dataclass(frozen=True)
class Run:
    """A run of the matrix: when, on what, and what came of it."""

    begun: datetime
    setting: dict[str, str]
    outcomes: Sequence[Outcome]

    @property
    def verdict(self) -> str:
        """One line on the whole."""
        short = sum(bool(one.short) for one in self.outcomes)
        return (
            f"{len(self.outcomes)} cells: {sum(one.met for one in self.outcomes)} as expected"
            f" ({short} of them short of what is promised),"
            f" {sum(not one.met for one in self.outcomes)} not"
        )

    def write(self, folder: Path) -> None:
        """Write report.md and results.json."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT).write_text(portable("\n".join(self._markdown())))
        values = {
            "begun": self.begun.isoformat(timespec="seconds"),
            "setting": self.setting,
            "cells": [dataclasses.asdict(one) for one in self.outcomes],
        }
        text = json.dumps(values, indent="\t", ensure_ascii=False)
        (folder / RESULTS).write_text(portable(text) + "\n")

    def table(self) -> rich.table.Table:
        """Give them for the terminal, what is not as expected in red."""
        table = _table(self.outcomes).terminal()
        for one, row in zip(self.outcomes, table.rows, strict=True):
            row.style = None if one.met else "red"
        return table

    def _markdown(self) -> Iterator[str]:
        yield f"# Fault matrix, {self.begun:%Y-%m-%d %H:%M} UTC\n\n{self.verdict}.\n\n{_HOW}"
        for place in Place:
            here = [one for one in self.outcomes if one.place == place]
            if here:
                yield f"## {place.value[0].upper()}{place.value[1:]}\n"
                yield _table(here).markdown()
        yield from _list("Short of what is promised", _shorts(self.outcomes))
        wrong = [f"{one.cell}: {'; '.join(one.complaints)}" for one in self.outcomes if not one.met]
        yield from _list("Not as expected", wrong)
        yield from _list("Setting", [f"{key}: {value}" for key, value in self.setting.items()])


def read_outcomes(folder: Path) -> list[Outcome]:
    """Read what a run has written; none where it has not got so far."""
    file = folder / RESULTS
    values: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"cells": []}
    return [Outcome(**one) for one in values["cells"]]


def _cells(one: Outcome) -> list[str]:
    """Give a row's texts."""
    return [
        one.fault,
        one.work,
        one.mode,
        one.outcome,
        _seconds(one.recovery_s),
        _seconds(one.end_s),
        f"{one.again_bytes:,}",
        f"{one.lost_bytes:,}",
        "no" if one.complaints else "yes, short" if one.short else "yes",
    ]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _table(outcomes: Sequence[Outcome]) -> Table:
    rows = [_cells(one) for one in outcomes]
    return Table(_HEADINGS, rows, text_columns=_NUMBERS, ending_text_columns=1, text_wraps=True)


def _shorts(outcomes: Sequence[Outcome]) -> list[str]:
    """Give each shortcoming once, with the cells that show it."""
    cells: dict[str, list[str]] = {}
    for one in outcomes:
        if one.short:
            cells.setdefault(one.short, []).append(one.cell)
    return [f"{short} ({'; '.join(names)})" for short, names in cells.items()]


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"
