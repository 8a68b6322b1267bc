# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti faults: chooses cells and runs them, several at once: nearly all they do is wait."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self

import typer
from rich.console import Console

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.faults.cell import Cell, Place
from nfsmulti.faults.matrix import CELLS
from nfsmulti.faults.outcome import REPORT, Outcome, Run, judge, not_run, read_outcomes
from nfsmulti.fiorun import Engine
from nfsmulti.lab import guest
from nfsmulti.lab.kernels import KernelTree
from nfsmulti.machine import versions
from nfsmulti.paths import BUILD, RESULTS, shown

AT_ONCE = 4


def run_cell(cell: Cell, engine: Engine, folder: Path) -> Outcome:
    """Run one cell; what fio leaves lies in `folder`. Raises MissingError."""
    try:
        return judge(cell, cell.fault.run(cell, engine, folder))
    except MissingError:
        raise
    except HarnessError as error:
        return not_run(cell, str(error))


class Runs:
    """Cells under way, a few at a time, in the order that they are given. A context manager.

    Each runs whole in one of the pool's threads: the processes that it starts end with the thread.
    """

    def __init__(self, cells: Sequence[Cell], engine: Engine, folder: Path, at_once: int = AT_ONCE):
        self._cells, self._engine, self._folder = list(cells), engine, folder
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="cell")
        self._futures: dict[str, Future[Outcome]] = {}

    def __enter__(self) -> Self:
        for number, cell in enumerate(self._cells):
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


# --- the command ---


_GUEST_SECONDS = 2400.0
_NARROWEST = 150

_Only = Annotated[
    str, typer.Option(metavar="WORDS", help="Only cells whose names contain all these words.")
]
_Results = Annotated[
    Path | None, typer.Option(help="Where the results go (default: results/faults/TIME).")
]


def faults(
    only: _Only = "",
    brief: Annotated[
        bool, typer.Option("--brief", help="The short matrix, as the tests run it.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List the cells and what is expected, then exit.")
    ] = False,
    results: _Results = None,
) -> None:
    """Inject faults of servers and networks into running jobs, and check what was promised.

    Against a scripted server, nfs-ganesha in a lab, and (RDMA) the kernel's server in the kernel
    lab. Needs root; takes about ten minutes. The exit status is 1 if a cell was not as expected.
    """
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
        if guest.inside():
            _run_here(cells, out.print, found)
        else:
            _run_all(cells, only, brief, out, found)
    finally:
        run = _whole(begun, cells, found)
        run.write(folder)
    if not guest.inside():
        out.width = max(out.width, _NARROWEST)
        out.print(run.table())
        out.print(f"{run.verdict}; {shown(folder)} holds report.md and results.json")
        raise typer.Exit(not all(one.met for one in run.outcomes))


def _whole(begun: datetime, cells: Sequence[Cell], found: Sequence[Outcome]) -> Run:
    """Give the run of all cells; those of which nothing was found were not run."""
    names = {one.cell for one in found}
    missed = [not_run(cell, "it was not reached") for cell in cells if cell.id not in names]
    return Run(begun, _setting(found), [*found, *missed])


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


def _run_all(
    cells: Sequence[Cell], only: str, brief: bool, out: Console, found: list[Outcome]
) -> None:
    """Run the cells of this machine, and then boot the guest for its own; add to `found`."""
    here = [cell for cell in cells if cell.fault.place is not Place.GUEST]
    if here:
        _run_here(here, out.print, found)
    there = [cell for cell in cells if cell.fault.place is Place.GUEST]
    if there:
        try:
            _run_in_guest(["--only", only, *(["--brief"] if brief else [])], found)
        except MissingError as error:
            out.print(f"without the kernel lab's cells: {error}", markup=False)
            found += [not_run(cell, error.what) for cell in there]


def _run_here(cells: Sequence[Cell], tell: Callable[[str], object], found: list[Outcome]) -> None:
    """Run cells and add to `found`; in the guest one after the other, as they share its server."""

    def note(outcome: Outcome) -> None:
        found.append(outcome)
        tell(_line(outcome))

    at_once = 1 if guest.inside() else AT_ONCE
    with (
        tempfile.TemporaryDirectory(prefix="faults-", dir=BUILD) as name,
        Runs(cells, Engine.built(), Path(name), at_once) as runs,
    ):
        runs.outcomes(note)


def _line(outcome: Outcome) -> str:
    lines = [f"{outcome.cell}: {outcome.outcome}", *outcome.complaints]
    return "\n  NOT AS EXPECTED: ".join(lines)


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
