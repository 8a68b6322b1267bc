# SPDX-License-Identifier: GPL-2.0-only
"""What stands in others' text, and a terminal or a page would obey: it is shown instead."""

import os
import re
import shutil
import sys
from typing import Any, TextIO, cast

# Control characters (C1 also as bytes that are no UTF-8), line separators, what turns the direction
# of writing, and halves of characters, which no encoding can write.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udc9f\udd00-\udfff]"
)
_OF_LINES = re.compile("[\t\n]")


def visible(text: str, *, line: bool = False) -> str:
    r"""Return a text with such characters as Python writes them: \x1b, \u202e.

    In a `line`, so are tabs and newlines.
    """
    text = _OBEYED.sub(_escaped, text)
    return _OF_LINES.sub(_escaped, text) if line else text


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


class _Guarded:
    """A stream on which all is visible; rich's consoles, which colour, write beside it."""

    def __init__(self, stream: TextIO):
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(visible(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


_COLOURS = {"green": 32, "yellow": 33, "red": 31}


class Lines:
    """Lines on standard output, by Python alone; in a terminal with colours, if it has them."""

    @property
    def is_terminal(self) -> bool:
        """Whether somebody looks, who may be shown what goes on."""
        return sys.stdout.isatty()

    def print(self, text: str = "", *, style: str = "", end: str = "\n") -> None:
        """Write a text as it stands, and visible() where a terminal would obey it."""
        text = visible(text)
        told = os.environ
        plain = not self.is_terminal or told.get("NO_COLOR") or told.get("TERM") == "dumb"
        if style and not plain:
            text = f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"
        self._write(text + end)

    def passing(self, text: str = "") -> None:
        """Show a text in a terminal until the next replaces it; an empty text removes it."""
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[K{visible(text, line=True)[:width]}")

    def _write(self, text: str) -> None:
        stream = sys.stdout
        (stream.rich_proxied_file if isinstance(stream, _Guarded) else stream).write(text)
        stream.flush()


def guard() -> None:
    """Have print() and tracebacks write visible text alone."""
    sys.stdout, sys.stderr = (cast(TextIO, _Guarded(one)) for one in (sys.stdout, sys.stderr))
