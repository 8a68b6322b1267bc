# SPDX-License-Identifier: GPL-2.0-only
"""How a command's arguments are read, and what a user reads who mistypes one."""

import argparse
import difflib
import itertools
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nfsmulti.arguments import config
from nfsmulti.paths import COMMAND, RESULTS, as_typed
from nfsmulti.units import Slo, parse_rate, parse_seconds, parse_size

# A command, a section or an argument of commands.toml.
Table = Mapping[str, Any]

# Options, and values of such, that there were, and what to do instead.
GONE = {
    "--directory": "--directory is gone since 0.7.0: the pool's URL may name one below the export",
    "--guest": "--guest is gone since 0.7.0: the kernel lab has one kernel, so leave it out",
    "--keep": "--keep is gone since 0.7.0: a cell's command (cells/CELL/command) makes its files",
    "--metrics": "--metrics is gone since 0.7.0: read the engine's live_file in the cell's folder",
    "--over": "--over is gone since 0.7.0: use --factors in one run, whose page compares them",
    "--only": "--only is gone since 0.7.0: use --filter",
    "--precondition": "--precondition is gone since 0.7.0: --factors overwrite=1 does the same",
    "--tolerance": "--tolerance is gone since 0.7.0: run with --repeat 3, for a test of each cell",
    "--format junit": "--format junit is gone since 0.7.0: use --format json",
    "--format markdown": "--format markdown is gone since 0.7.0: use --format json",
}


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
    """The arguments of the command `name`, as its table has them; `shared` are sections for all.

    What follows "--" is the argument `command` of one with `rest`; unknown options are the argument
    `arguments` of one that `passes_on`.
    """

    def __init__(self, name: str, table: Table, shared: Table):
        super().__init__(
            prog=f"{COMMAND} {name}",
            description=as_typed(table["help"]),
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        self.name = name
        self.rest, self.passes_on = (table.get(key, False) for key in ("rest", "passes_on"))
        self.commands: list[str] = []  # of the file of --config
        self._only: dict[str, Sequence[str]] = {}
        for title, section in table.items():
            if isinstance(section, dict):
                group = self if title == "options" else self.add_argument_group(title)
                self._add_section(group, section, shared)
        words = [
            f"[{one.metavar}...]" if one.nargs == "*" else str(one.metavar)
            for one in self._get_positional_actions()
        ]
        words += ["-- COMMAND..."] if self.rest else []
        self.usage = " ".join([self.prog, "[OPTIONS]", *words])

    def _add_section(
        self, group: argparse._ActionsContainer, section: Table, shared: Table
    ) -> None:
        for name, about in section.items():
            if name == "uses":
                for one in about:
                    self._add_section(group, shared[one], shared)
            else:
                self._add(group, name, {"help": about} if isinstance(about, str) else {**about})

    def _add(self, group: argparse._ActionsContainer, name: str, about: dict[str, Any]) -> None:
        """Add an argument, of whose table argparse gets what is not read here."""
        only = about.pop("only", None)
        option, _, value = name.partition(" ")
        if not option.startswith("--"):
            option, value = about.pop("dest", name.lower()), name
        if not (value or "of" in about):
            about["action"] = "store_true"
        else:
            shown = value or f"{{{','.join(about['of'])}}}"
            choices = None if "," in shown and value else about.get("of")  # each a whole value
            about |= {"metavar": shown, "type": _reader(value, about), "choices": choices}
            if about.get("nargs") == "*":
                about["default"] = []
        added = group.add_argument(option, **about)
        if only:
            self._only[added.dest] = only

    def understood(self, words: Sequence[str]) -> dict[str, object]:
        """Return the arguments' values by name. Ends the process for --help and for bad usage."""
        words, command = self._configured(list(words)), []
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
        if given.pop("config", words) is not words:  # which words have taken in
            given["line"] = shlex.join([*self.prog.split(), *words])
        for name, takers in self._only.items():
            if given[name] != self.get_default(name) and given["scenario"] not in takers:
                who = " and ".join(filter(None, (", ".join(takers[:-1]), takers[-1])))
                self.error(
                    f"--{name}: only for {who}, not for {given['scenario']}:"
                    " leave it out; --factors crosses the cells of any scenario"
                )
        return given

    def _configured(self, words: list[str]) -> list[str]:
        """Return a command line with what --config FILE says, before what is given beside it."""
        if "--config" not in self._option_string_actions:
            return words
        alone = argparse.ArgumentParser(self.prog, add_help=False, allow_abbrev=False)
        alone.error = self.error  # type: ignore[method-assign]
        alone.add_argument("--config", type=Path)
        given, others = alone.parse_known_args(words)
        try:
            said = config.words(given.config) if given.config else []
        except (OSError, ValueError) as error:
            self.error(f"--config {given.config}: {error}")
        said = config.under(others, said)
        self.commands = config.commands(said, others)
        scenario = [] if not others or others[0].startswith("-") else [others.pop(0)]
        return [*scenario, *said, *others]

    def error(self, message: str) -> NoReturn:
        """Say what is wrong last, where it is seen."""
        self.print_usage(sys.stderr)
        print(f"All options: {self.prog} --help", file=sys.stderr)
        self.exit(2, f"nfsmulti: {self.name}: {message.removeprefix('argument ')}\n")

    def _refuse_unknown(self, words: Sequence[str]) -> None:
        """Refuse a mistyped option before its value is taken for something else."""
        known = self._option_string_actions
        for word, following in itertools.pairwise([*words, ""]):
            name, _, value = word.partition("=")
            if name.startswith("-") and not name[1:].isdecimal() and name not in known:
                self.error(GONE.get(name) or f"there is no option {name}{guess(name, known)}")
            if gone := GONE.get(f"{name} {value or following}"):
                self.error(gone)


# --- what an option's value is: functions that raise ValueError with words for a user ---


def _one_of(word: str, of: Sequence[str]) -> str:
    if word not in of:
        raise ValueError(f"'{word}' is none of {', '.join(of)}{guess(word, of)}")
    return word


def _some_of(word: str, of: Sequence[str]) -> tuple[str, ...]:
    words = word.split(",")
    if not set(words) <= {*of} or _twice(words):
        raise ValueError(f"'{word}': give {' or '.join(of)}, each once")
    return tuple(words)


def _numbers(word: str, most: int = 256) -> tuple[int, ...]:
    """Read several numbers from 1 to `most`, by default fio's jobs."""
    words = word.split(",")
    if not all(one.isdecimal() and 1 <= int(one) <= most for one in words) or _twice(words):
        raise ValueError(f"'{word}': give numbers from 1 to {most}, each once, such as 1,4,8")
    return tuple(sorted(map(int, words)))


def _twice(words: Sequence[str]) -> bool:
    return len(set(words)) < len(words)


def _number(
    word: str, least: float = 1, most: float | None = None, kind: type[int | float] = int
) -> float:
    try:
        value = kind(word)
    except ValueError:
        value = least - 1
    if value < least or (most is not None and value > most):
        whole = "a whole number" if kind is int else "a number"
        upto = "on" if most is None else f"to {most:g}"
        raise ValueError(f"'{word}' is not {whole} from {least:g} {upto}")
    return value


def _percent(word: str, **limits: float) -> float:
    return _number(word, **{"least": 0, **limits}, kind=float)


def _something(word: str) -> str:
    if not word:  # as of a variable that is not set: "none" would mean something else
        raise ValueError("there is nothing behind it")
    return word


def _as_it_is(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Make a reader of words that another takes."""

    def checked(word: str) -> str:
        parse(word)
        return word

    return checked


# By what a value is called: what reads it, with limits.
KINDS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("DIR", "FILE", "FILE.so", "RUN"), Path),
    **dict.fromkeys(("N", "MB"), _number),
    "POOL": _something,
    "RUNS": lambda word: Path(word) if word else RESULTS,
    "PERCENT": _percent,
    "N%": lambda word, **limits: _percent(word.removesuffix("%"), **limits),
    "N,...": _numbers,
    "NAME,...": lambda word: tuple(word.split(",")),
    "pN:TIME": _as_it_is(Slo.parse),
    "SIZE": parse_size,
    "TIME": parse_seconds,
    "SIZE as it is": _as_it_is(parse_size),
    "RATE": _as_it_is(parse_rate),
}


def _reader(value: str, about: dict[str, Any]) -> Callable[[str], Any] | None:
    """Take out of an argument's table what its values are; None: any text."""
    limits = {name: about.pop(name) for name in ("least", "most", "of") if name in about}
    parse = KINDS.get(about.pop("kind", value))
    if "of" in limits:
        parse = _some_of if "," in value else _one_of
    if not parse:
        return None

    def read(word: str) -> Any:
        try:
            return parse(word, **limits)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
