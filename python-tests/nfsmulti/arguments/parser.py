# SPDX-License-Identifier: GPL-2.0-only
"""How a command declares its arguments, and what a user reads who mistypes one."""

from __future__ import annotations

import argparse
import difflib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from nfsmulti.paths import COMMAND, as_typed

Declare = Callable[["Parser"], None]


def guess(word: str, known: Iterable[str]) -> str:
    """Return the question that ends a message about a mistyped word, or ""."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f": did you mean {near[0]}?" if near else ""


class _Formatter(argparse.HelpFormatter):
    """Wraps paragraphs at the terminal's width, and keeps lists, which begin with a blank."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            part if part.startswith(" ") else textwrap.fill(part, width)
            for part in text.split("\n\n")
        )


class Parser(argparse.ArgumentParser):
    """The arguments of one command, which `declare` adds; its docstring is the help's text.

    With `rest`, what follows "--" is a command of its own, which becomes the argument `command`.
    With `passes_on`, unknown options become the argument `arguments`.
    """

    def __init__(self, name: str, declare: Declare):
        super().__init__(
            prog=f"{COMMAND} {name}",
            description=as_typed(inspect.getdoc(declare) or ""),
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        self.name = name
        self.rest = self.passes_on = False
        self._section: argparse._ActionsContainer = self
        declare(self)
        words = [
            f"[{one.metavar}...]" if one.nargs == "*" else str(one.metavar)
            for one in self._get_positional_actions()
        ]
        words += ["-- COMMAND..."] if self.rest else []
        self.usage = " ".join([self.prog, "[OPTIONS]", *words])

    def section(self, title: str) -> None:
        """Begin a section of the help: it has the options that are declared from here on."""
        self._section = self.add_argument_group(title)

    def flag(self, name: str, text: str, dest: str | None = None) -> None:
        """Declare an option without a value."""
        self._section.add_argument(f"--{name}", action="store_true", help=text, dest=dest)

    def option(self, name: str, value: str, text: str, **more: Any) -> None:
        """Declare an option whose value is named `value` in the help; `more` is argparse's."""
        self._section.add_argument(f"--{name}", metavar=value or None, help=text, **more)

    def understood(self, words: Sequence[str]) -> dict[str, object]:
        """Return the arguments' values by name. Ends the process for --help and for bad usage."""
        words, command = list(words), []
        if self.rest and "--" in words:
            at = words.index("--")
            words, command = words[:at], words[at + 1 :]
        if not self.passes_on:
            self._refuse_unknown(words)
        values, unknown = self.parse_known_intermixed_args(words)
        given = vars(values)
        if self.passes_on:
            given["arguments"] = unknown
        elif unknown:
            self.error(f"'{unknown[0]}' is one word too many")
        if self.rest:
            if not command:
                self.error("the command to run is missing: write it after --")
            given["command"] = command
        return given

    def error(self, message: str) -> NoReturn:
        """Say what is wrong last, where it is seen."""
        self.print_usage(sys.stderr)
        print(f"All options: {self.prog} --help", file=sys.stderr)
        self.exit(2, f"nfsmulti: {self.name}: {message.removeprefix('argument ')}\n")

    def _refuse_unknown(self, words: Sequence[str]) -> None:
        """Refuse a mistyped option before its value is taken for something else."""
        known = self._option_string_actions
        for word in words:
            name = word.partition("=")[0]
            if name.startswith("-") and not name[1:].isdecimal() and name not in known:
                self.error(f"there is no option {name}{guess(name, known)}")


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """Make a type whose values are these words."""

    def chosen(word: str) -> str:
        if word in names:
            return word
        near = guess(word, names)
        raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(names)}{near}")

    return chosen


def numbers(most: int) -> Callable[[str], tuple[int, ...]]:
    """Make a type whose values are several numbers from 1 to `most`."""

    def read(word: str) -> tuple[int, ...]:
        words = word.split(",")
        if not all(one.isdecimal() and 1 <= int(one) <= most for one in words) or _twice(words):
            what = f"give numbers from 1 to {most}, each once, such as 1,4,8"
            raise argparse.ArgumentTypeError(f"'{word}': {what}")
        return tuple(sorted(map(int, words)))

    return read


def some_of(names: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Make a type whose values are several of these words."""

    def read(word: str) -> tuple[str, ...]:
        words = word.split(",")
        if not set(words) <= {*names} or _twice(words):
            raise argparse.ArgumentTypeError(f"'{word}': give {' or '.join(names)}, each once")
        return tuple(words)

    return read


def _twice(words: Sequence[str]) -> bool:
    return len(set(words)) < len(words)


def read_by(parse: Callable[[str], float]) -> Callable[[str], float]:
    """Make a type of a function that raises ValueError with words for a user."""

    def read(word: str) -> float:
        try:
            return parse(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def number(least: float, kind: type[int | float] = int) -> Callable[[str], float]:
    """Make a type whose values are numbers, and not less than `least`."""

    def read(word: str) -> float:
        try:
            value = kind(word)
        except ValueError:
            value = least - 1
        if value < least:
            whole = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"'{word}' is not {whole} from {least:g} on")
        return value

    return read
