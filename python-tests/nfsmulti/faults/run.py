# SPDX-License-Identifier: GPL-2.0-only
"""Runs cells, several at a time: nearly all of their time is waiting."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.faults import guest, lab, scripted
from nfsmulti.faults.cell import Cell
from nfsmulti.faults.job import Left
from nfsmulti.faults.outcome import Outcome, judge, not_run
from nfsmulti.fiorun import Engine

AT_ONCE = 4


def run_cell(cell: Cell, engine: Engine, folder: Path) -> Outcome:
    """Run one cell; what fio leaves lies in `folder`. Raises MissingError."""
    try:
        return judge(cell, _run(cell, engine, folder))
    except MissingError:
        raise
    except HarnessError as error:
        return not_run(cell, str(error))


def _run(cell: Cell, engine: Engine, folder: Path) -> Left:
    fault = cell.fault
    if isinstance(fault, scripted.ScriptedFault):
        return scripted.run(cell, fault, engine, folder)
    if isinstance(fault, lab.LabFault):
        return lab.run(cell, fault, engine, folder)
    if isinstance(fault, guest.GuestFault):
        return guest.run(cell, fault, engine, folder)
    raise HarnessError("nobody knows how to run it")


class Runs:
    """Cells under way, a few at a time, in the order that they are given. A context manager.

    Each runs whole in one of the pool's threads: the processes that it starts end with the thread.
    """

    def __init__(self, cells: Sequence[Cell], engine: Engine, folder: Path, at_once: int = AT_ONCE):
        self._cells, self._engine, self._folder = list(cells), engine, folder
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="cell")
        self._futures: dict[str, Future[Outcome]] = {}

    def __enter__(self) -> Self:
        for number, cell in zip(itertools.count(), self._cells, strict=False):
            own = self._folder / f"{number:03}-{re.sub(r'[^a-z0-9.]+', '-', cell.id.lower())}"
            self._futures[cell.id] = self._pool.submit(run_cell, cell, self._engine, own)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def outcome(self, cell: Cell) -> Outcome:
        """Wait for a cell's outcome; raises what its run has raised."""
        return self._futures[cell.id].result()

    def outcomes(self, told: Callable[[Outcome], object]) -> list[Outcome]:
        """Wait for all, in their order, telling of each."""
        found = []
        for cell in self._cells:
            found.append(self.outcome(cell))
            told(found[-1])
        return found
