# SPDX-License-Identifier: GPL-2.0-only
"""What a user sees of a run: a bar with the time that is left, and a line for each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nfsmulti.run.plan import PlannedCell, warm_ups
from nfsmulti.summary import Cell

# What a cell takes beside its own time: fio's start and end, in a guest with an emulated processor.
_LAB_SECONDS, _GUEST_SECONDS = 1.0, 8.0


class Watcher(Protocol):
    """Is told how a run goes on."""

    def begin(self, cell: PlannedCell) -> None:
        """Note that a cell begins, or its warm-up."""
        ...

    def tick(self, seconds: float) -> None:
        """Note that it has been running for so long."""
        ...

    def end(self, cell: Cell) -> None:
        """Note that it has ended."""
        ...

    def note(self, line: str) -> None:
        """Pass on a line to the user."""
        ...


def expected_seconds(cells: Sequence[PlannedCell], guests: set[str]) -> float:
    """Estimate what cells take with their warm-up; `guests` are the places of the kernel lab."""
    return sum(_expected(cell, guests) for cell in [*warm_ups(cells), *cells])


class Meter(Progress):
    """The bar. It moves with time, since what a cell takes is known, and jumps at its end."""

    def __init__(self, out: Console, cells: Sequence[PlannedCell], total: int, guests: set[str]):
        columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
        super().__init__(*columns, console=out, transient=True, disable=not out.is_terminal)
        self._total, self._guests = total, guests
        self._task = self.add_task("starting", total=expected_seconds(cells, guests))
        self._seconds, self._done, self._place = 0.0, 0.0, f"{total}"

    def begin(self, cell: PlannedCell) -> None:
        """Show which cell runs."""
        self._seconds = _expected(cell, self._guests)
        self._place = f"{cell.order}/{self._total}"
        self.update(self._task, description=f"{self._place} {cell.id}")

    def tick(self, seconds: float) -> None:
        """Move on, up to where the cell should end."""
        self.update(self._task, completed=self._done + min(seconds, self._seconds))

    def end(self, cell: Cell) -> None:
        """Print what the cell has found, which of a warm-up does not count."""
        self.over()
        if cell.repeat:
            self.console.print(f"{self._place:>7} {cell.id}: {said(cell)}", markup=False)

    def over(self) -> None:
        """Move to where the cell should end, without a line for it."""
        self._done += self._seconds
        self._seconds = 0.0
        self.update(self._task, completed=self._done)

    def note(self, line: str) -> None:
        """Print it."""
        self.console.print(f"  {line}", markup=False)


def said(cell: Cell) -> str:
    """Say in a few words what became of a cell."""
    if cell.status == "failed":
        return f"FAILED: {cell.why}"
    sides = [
        f"{name} {side.bytes_per_s / 1e6:.1f} MB/s, {side.iops:,.0f} IOPS"
        if "operation" not in cell.factors
        else f"{side.iops:,.0f} operations/s"  # of metadata: they move no data
        for name, side in (("read", cell.read), ("write", cell.write))
        if side
    ]
    if cell.server_why:
        sides.append(f"no figures of the server: {cell.server_why}")
    return "; ".join(sides)


def _expected(cell: PlannedCell, guests: set[str]) -> float:
    fios = 2 if cell.spec.entries in ("makes", "removes") else 1  # entries go, or come first
    seconds = cell.spec.seconds + (_GUEST_SECONDS if cell.spec.place in guests else _LAB_SECONDS)
    return fios * seconds
