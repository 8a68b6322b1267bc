# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti faults: chooses cells, runs them, and writes down what came of them.

That is a table in the terminal, report.md, and results.json.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rich.table
from rich.console import Console

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.faults.cell import Cell, Outcome, Place, judge, not_run
from nfsmulti.faults.matrix import CELLS
from nfsmulti.fiorun import Engine
from nfsmulti.lab import guest
from nfsmulti.lab.kernels import KernelTree
from nfsmulti.machine import versions
from nfsmulti.paths import BUILD, RESULTS, portable, shown
from nfsmulti.texts import Table

# --- cells under way ---


_AT_ONCE = 4  # nearly all they do is wait


def run_cell(cell: Cell, engine: Engine, folder: Path) -> Outcome:
    """Run one cell; what fio leaves lies in `folder`. Raises MissingError."""
    try:
        return judge(cell, cell.fault.run(cell, engine, folder))
    except MissingError:
        raise
    except HarnessError as error:
        return not_run(cell, str(error))


@contextlib.contextmanager
def under_way(
    cells: Sequence[Cell], engine: Engine, folder: Path
) -> Iterator[dict[str, Future[Outcome]]]:
    """Run cells in their order, a few at a time; gives what will come of each, by its id.

    Each runs whole in one of the pool's threads: the processes that it starts end with the thread.
    In the guest they run one after the other, as they share its server.
    """
    pool = ThreadPoolExecutor(1 if guest.inside() else _AT_ONCE, thread_name_prefix="cell")
    outcomes = {}
    try:
        for number, cell in enumerate(cells):
            own = folder / f"{number:03}-{re.sub(r'[^a-z0-9.]+', '-', cell.id.lower())}"
            outcomes[cell.id] = pool.submit(run_cell, cell, engine, own)
        yield outcomes
    finally:
        pool.shutdown(cancel_futures=True)


# --- the report of a run ---


FIGURES = "results.json"
REPORT = "report.md"

_COLUMNS: dict[str, Callable[[Outcome], str]] = {
    "fault": lambda one: one.fault,
    "work": lambda one: one.work,
    "mode": lambda one: one.mode,
    "outcome": lambda one: one.outcome,
    "recovered after": lambda one: _seconds(one.recovery_s),
    "ended after": lambda one: _seconds(one.end_s),
    "sent again": lambda one: f"{one.again_bytes:,}",
    "bytes lost": lambda one: f"{one.lost_bytes:,}",
    "as expected": lambda one: "no" if one.complaints else "yes, short" if one.short else "yes",
}
_HOW = """\
A row is one fio job with the engine, and one fault injected into it. “write” is UNSTABLE WRITEs
with a COMMIT at the end, “write sync” FILE_SYNC ones, “write hold” is “write” with hold_writes; all
are read back.
Each block's content is known. If a job is done, the server's file was compared with it byte by
byte, and fio's byte count with the engine's. If it failed, bytes that were neither kept by the
server nor reported as lost would be named.

“create”, “stat”, “remove” and “trim” are metadata operations (metadata=1), one on each of 64
entries; “stat” is a LOOKUP and a GETATTR, “trim” a “remove” by rw=trim. They are durable when they
are answered. If a job is done, each entry was there, or gone, on the server, nothing else was, and
fio's count and the engine's were the number of entries. If it failed, an operation that was done
and is not found on the server would be named.

- outcome: done; failed, with fio's error; held: it kept waiting, as `hard` promises, until SIGINT
  ended it.
- recovered after: seconds, the longest that an I/O of the job took: I/Os that the fault held up
  were answered within that time, all others sooner.
- ended after: seconds from the fault, or from SIGINT for a job that was held, to fio's end.
- sent again: bytes of calls that were sent again to the same server or reissued on another path
  (a call counts as a block), and of data that hold_writes has written again; of metadata
  operations: calls.
- bytes lost: those that the engine reported as possibly lost, in the line with path and file.

RDMA's cells have no dropped packets and no broken messages: rdma_rxe passes packets between its own
addresses around any filter, and no scripted server speaks RPC-over-RDMA.
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
        (folder / REPORT).write_text(
            portable("\n".join(self._markdown())), errors="surrogateescape"
        )
        values = {
            "begun": self.begun.isoformat(timespec="seconds"),
            "setting": self.setting,
            "cells": [dataclasses.asdict(one) for one in self.outcomes],
        }
        text = json.dumps(values, indent="\t", ensure_ascii=False)
        (folder / FIGURES).write_text(portable(text) + "\n", errors="surrogateescape")

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
        yield from _listed("Short of what is promised", _shorts(self.outcomes))
        wrong = [f"{one.cell}: {'; '.join(one.complaints)}" for one in self.outcomes if not one.met]
        yield from _listed("Not as expected", wrong)
        yield from _listed("Setting", [f"{key}: {value}" for key, value in self.setting.items()])


def read_outcomes(folder: Path) -> list[Outcome]:
    """Read what a run has written; none where it has not got so far."""
    file = folder / FIGURES
    values: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"cells": []}
    return [Outcome(**one) for one in values["cells"]]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _table(outcomes: Sequence[Outcome]) -> Table:
    rows = [[text(one) for text in _COLUMNS.values()] for one in outcomes]
    return Table([*_COLUMNS], rows, text_columns=4, ending_text_columns=1, text_wraps=True)


def _shorts(outcomes: Sequence[Outcome]) -> list[str]:
    """Give each shortcoming once, with the cells that show it."""
    cells: dict[str, list[str]] = {}
    for one in outcomes:
        if one.short:
            cells.setdefault(one.short, []).append(one.cell)
    return [f"{short} ({'; '.join(names)})" for short, names in cells.items()]


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"


# --- the command ---


_GUEST_SECONDS = 2400.0
_NARROWEST = 150


def faults(
    only: str = "", *, brief: bool = False, listed: bool = False, results: Path | None
) -> None:
    """Run the chosen cells, and leave a report of all of them."""
    cells = _choose(only, brief)
    if listed:
        for cell in cells:
            print(f"{cell.id}: {cell.expected.text}")
        return
    begun = datetime.now(UTC)
    out = Console(highlight=False, soft_wrap=True)
    folder = results or RESULTS / "faults" / f"{begun:%Y%m%dT%H%M%SZ}"
    if (folder / REPORT).exists():
        raise HarnessError(f"{shown(folder)} holds the report of a run", "name another --results")
    found: list[Outcome] = []
    try:
        _run(cells, only, brief, out, found)
    finally:
        names = {one.cell for one in found}
        missed = [not_run(cell, "it was not reached") for cell in cells if cell.id not in names]
        run = Run(begun, _setting(found), [*found, *missed])
        run.write(folder)
    if not guest.inside():
        out.width = max(out.width, _NARROWEST)
        out.print(run.table())
        out.print(f"{run.verdict}; {shown(folder)} holds report.md and results.json")
        sys.exit(not all(one.met for one in run.outcomes))


def _setting(found: Sequence[Outcome]) -> dict[str, str]:
    """Say on what the cells ran."""
    setting = versions()
    ran = any(one.place == Place.GUEST and one.outcome != "not run" for one in found)
    if ran and not guest.inside():
        setting["kernel lab"] = KernelTree.get().release
    return setting


def _choose(only: str, brief: bool) -> list[Cell]:
    """Choose the cells that can run here: in the guest its own, elsewhere all."""
    words = only.split()
    cells = [
        cell
        for cell in CELLS
        if all(word in cell.id for word in words)
        and (cell.brief or not brief)
        and (cell.fault.place is Place.GUEST or not guest.inside())
    ]
    if not cells:
        raise HarnessError(
            f"--only='{only}': no cell's name contains all these words", "see --list"
        )
    return cells


def _run(cells: Sequence[Cell], only: str, brief: bool, out: Console, found: list[Outcome]) -> None:
    """Run the cells of this machine, and then boot the guest for its own; add to `found`."""
    inside = guest.inside()
    here = [cell for cell in cells if inside or cell.fault.place is not Place.GUEST]
    there = [cell for cell in cells if not inside and cell.fault.place is Place.GUEST]
    if here:
        with (
            tempfile.TemporaryDirectory(prefix="faults-", dir=BUILD) as name,
            under_way(here, Engine.built(), Path(name)) as outcomes,
        ):
            for outcome in (outcomes[cell.id].result() for cell in here):
                found.append(outcome)
                lines = [f"{outcome.cell}: {outcome.outcome}", *outcome.complaints]
                out.print("\n  NOT AS EXPECTED: ".join(lines))
    if there:
        try:
            _run_in_guest(["--only", only, *(["--brief"] if brief else [])], found)
        except MissingError as error:
            out.print(f"without the kernel lab's cells: {error}", markup=False)
            found += [not_run(cell, error.what) for cell in there]


def _run_in_guest(words: Sequence[str], found: list[Outcome]) -> None:
    """Run this command in a guest, and add to `found` what it leaves, however it ends."""
    with tempfile.TemporaryDirectory(prefix="faults-", dir=BUILD) as name:
        command = [sys.executable, "-m", "nfsmulti", "faults", *words, "--results", name]
        try:
            config = guest.GuestConfig(results=Path(name), timeout=_GUEST_SECONDS)
            status = guest.run_in_guest(command, config)
        finally:
            found += (left := read_outcomes(Path(name)))
    if status or not left:
        raise HarnessError(f"the guest's cells ended with status {status}, and {len(left)} ran")
