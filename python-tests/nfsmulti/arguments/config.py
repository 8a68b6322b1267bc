# SPDX-License-Identifier: GPL-2.0-only
"""A run's options as a TOML file: `run SCENARIO --config FILE`; each run keeps its own as run.toml.

A key is an option without its dashes, and true stands for one without a value.
"""

import argparse
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

FILE = "run.toml"
# What says nothing of the run itself, or is no option of its command line.
_BESIDE = ("config", "resume", "dry_run", "as_json", "help", "yes")

# Those whose values are commands.
_COMMANDS = ("--set", "--get", "--server-command", "--restart")
# Either says where a run is.
_PLACES = {"--pool", "--lab"}


def words(file: Path) -> list[str]:
    """Return the words of a command line that say the same. Raises OSError or ValueError."""
    if file.exists() and not file.is_file():  # ./nfsmulti reads it, and then the harness
        raise ValueError("a pipe can be read once alone: give a regular file")
    with file.open("rb") as stream:
        table = tomllib.load(stream)
    if "yes" in table:  # it is of one server, and the command line may name another
        raise ValueError("yes answers for one server: give --yes on the command line")
    return [word for name, value in table.items() for word in _words(f"--{name}", value)]


def under(given: Sequence[str], said: Sequence[str]) -> list[str]:
    """Return the words of a file without its place, where the command line gives one."""
    gone = _PLACES if _PLACES & _options(given) else set()
    return [word for word in said if not gone & _options([word])]


def commands(said: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return the words of a file that are commands, but for what the command line gives instead."""
    options = {*_COMMANDS} - _options(given)
    return [word for word in said if "=" in word and options & _options([word])]


def _options(given: Sequence[str]) -> set[str]:
    return {word.partition("=")[0] for word in given}


def _words(option: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):  # such as factors: {spread = ["job", "queue"]}
        for name, levels in value.items():
            yield f"{option}={name}={_joined(levels)}"
    elif value is True:
        yield option
    elif value is not False:
        yield f"{option}={_joined(value)}"


def _joined(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def text(parser: argparse.ArgumentParser, line: Sequence[str]) -> str:
    """Return such a file of a command line that the parser takes."""
    options = [one for one in parser._actions if one.option_strings and one.dest not in _BESIDE]
    for one in parser._actions:
        one.type = one.choices = None
    given = vars(parser.parse_known_intermixed_args(line)[0])
    lines = []
    for one in options:
        if (value := given[one.dest]) and value != one.default:
            pairs = (pair.partition("=") for pair in value) if isinstance(value, list) else ()
            told = ", ".join(f"{_quoted(name)} = {_quoted(at)}" for name, _, at in pairs)
            name = one.option_strings[0].removeprefix("--")
            lines.append(f"{name} = {f'{{ {told} }}' if told else _quoted(value)}\n")
    return "".join(lines)


def _quoted(value: str | bool) -> str:
    r"""Return a TOML value. Of JSON's only \ud83d and the like are none, and a bare DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
