# SPDX-License-Identifier: GPL-2.0-only
"""Tables and bars in a terminal, by rich."""

from typing import Any

import rich.table
from rich import box
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from nfsmulti.terminal import visible
from nfsmulti.texts import Table


class Screen(Console):
    """What a terminal shows: each text as it stands, and visible() where that would be obeyed."""

    def __init__(self, **options: Any):
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as it is printed, alone or in a table."""
        return super().render_str(visible(text), **options)


def laid_out(table: Table) -> rich.table.Table:
    """Return a table for rich's console; rows may be added."""
    found = rich.table.Table(
        title=table.title or None,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        title_justify="left",
    )
    for column, heading in enumerate(table.headings):
        side: JustifyMethod = "left" if table.holds_text(column) else "right"
        wraps = table.text_wraps and table.holds_text(column)
        found.add_column(heading, justify=side, no_wrap=not wraps, overflow="fold")
    for row in table.rows:
        found.add_row(*row)
    return found


_BAR = 10


class Bar(Progress):
    """One bar in a terminal: what goes on, and the time that is left. It goes with its `with`."""

    def __init__(self, out: Console, what: str, total: float | None):
        columns = (
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(_BAR),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[beside]}", markup=False, table_column=Column(no_wrap=True)),
        )
        super().__init__(*columns, console=out, transient=True, disable=not out.is_terminal)
        self._task = self.add_task(what, total=total, beside="")

    def show(
        self,
        what: str | None = None,
        done: float | None = None,
        *,
        beside: str = "",
    ) -> None:
        """Say what goes on, and how much of how much is done."""
        self.update(
            self._task,
            description=what and visible(what),
            completed=done,
            beside=visible(beside),
        )
