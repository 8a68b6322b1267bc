# SPDX-License-Identifier: GPL-2.0-only
"""The bar of a soak, with what is broken just now and the time that is left."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Meter(Progress):
    """One bar over all passes. A context manager."""

    def __init__(self, console: Console):
        columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
        super().__init__(*columns, console=console, transient=True)
        self._task = self.add_task("starting the lab", total=None)

    def expect(self, seconds: float) -> None:
        """Say how many seconds the passes take together."""
        self.update(self._task, total=seconds)

    def show(self, what: str, done: float) -> None:
        """Say what goes on, `done` seconds of the passes being over."""
        self.update(self._task, description=what, completed=done)
