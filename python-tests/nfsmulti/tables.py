# SPDX-License-Identifier: GPL-2.0-only
"""Tables as all reports write them, in a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import rich.table
from rich import box
from rich.console import JustifyMethod


@dataclass(frozen=True)
class Table:
    """A table: the first `text_columns` and the last `ending_text_columns` hold words.

    In a terminal words wrap where `text_wraps`, figures never; `styles` are rich's, for cells that
    say just that.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    text_columns: int = 1
    ending_text_columns: int = 0
    text_wraps: bool = False
    styles: Mapping[str, str] = field(default_factory=dict)

    def holds_text(self, column: int) -> bool:
        """Tell whether a column, counted from 0, holds words; the others hold figures."""
        return not self.text_columns <= column < len(self.headings) - self.ending_text_columns

    def terminal(self) -> rich.table.Table:
        """Give it for rich's console; rows may be added."""
        table = rich.table.Table(
            title=self.title or None, box=box.SIMPLE_HEAD, title_justify="left"
        )
        for column, heading in enumerate(self.headings):
            side: JustifyMethod = "left" if self.holds_text(column) else "right"
            wraps = self.text_wraps and self.holds_text(column)
            table.add_column(heading, justify=side, no_wrap=not wraps)
        for row in self.rows:
            table.add_row(*map(self._styled, row))
        return table

    def markdown(self) -> str:
        """Give it as lines of Markdown."""
        columns = range(len(self.headings))
        ruler = [":--" if self.holds_text(column) else "--:" for column in columns]
        lines = [map(_cell, self.headings), ruler, *(map(_cell, row) for row in self.rows)]
        text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        return f"**{self.title}**\n\n{text}" if self.title else text

    def _styled(self, cell: str) -> str:
        return f"[{self.styles[cell]}]{cell}[/]" if cell in self.styles else cell


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
