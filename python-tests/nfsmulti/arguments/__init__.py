# SPDX-License-Identifier: GPL-2.0-only
"""The arguments of every command, by Python's own library alone.

./nfsmulti has them understood by the system's Python before it installs or builds anything. The
arguments, and the modules that carry commands out, are in commands.toml; __main__.py imports these.
"""

import shutil
import sys
import textwrap
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfsmulti.arguments.parser import Parser, guess
from nfsmulti.paths import COMMAND
from nfsmulti.terminal import visible

_HERE = Path(__file__).parent
# What there is, by the command's words.
COMMANDS: dict[str, Any] = tomllib.loads((_HERE / "commands.toml").read_text(encoding="utf-8"))
SHARED = COMMANDS.pop("shared")
# Each module of stories/ is a story; importing one takes more than Python's own library.
STORIES = sorted(file.stem for file in _HERE.with_name("stories").glob("[!_]*.py"))
for _taker in (SHARED["scenario"], COMMANDS["history"]["options"]):
    _names = [*STORIES, *_taker["SCENARIO"]["of"]]
    _taker["SCENARIO"] = {"of": _names, "help": ", ".join(_names)}
# What the front end does itself: their help alone is asked for here.
FRONT_END = {name: COMMANDS.pop(name) for name in ("build", "package")}
# What says where a run is, or was begun, or that there is none: without them it is in a lab.
_NO_DEFAULT = ("pool", "lab", "resume", "dry_run")


@dataclass(frozen=True)
class Understood:
    """A command line: the function that carries it out, as MODULE:NAME, and its arguments.

    `commands` are options of the file of --config that run something.
    """

    function: str
    values: dict[str, Any]
    commands: Sequence[str]


def understand(words: Sequence[str]) -> Understood:
    """Read a command line. Ends the process for --help and for bad usage."""
    name = words[0] if words else ""
    inner = [one.partition(" ")[2] for one in COMMANDS if one.startswith(f"{name} ")]
    if inner:
        second = words[1] if len(words) > 1 else ""
        if second not in inner:
            _group(name, second, inner)
        name = f"{name} {second}"
    if name in FRONT_END:
        Parser(name, FRONT_END[name], SHARED).parse_args(["--help"])
    if name not in COMMANDS:
        known = {*FRONT_END, *(one.partition(" ")[0] for one in COMMANDS)}
        _refuse(f"there is no command '{name}'{guess(name, known)}", f"{COMMAND} --help")
    table = COMMANDS[name]
    parser = Parser(name, table, SHARED)
    values = parser.understood(words[2 if inner else 1 :])
    return Understood(table["call"], values, parser.commands)


def told_first(understood: Understood) -> list[str]:
    """Return the lines that are said of a command line before anything is made for it."""
    said = [visible(one, line=True) for one in understood.commands]
    return [f"nfsmulti: a command from --config: {one}" for one in said] + _place(understood)


def _place(understood: Understood) -> list[str]:
    """Say that a run is in a lab, where the command line does not name a place."""
    given = understood.values
    if understood.function != COMMANDS["run"]["call"] or any(map(given.get, _NO_DEFAULT)):
        return []
    return [
        f"nfsmulti: run {given['scenario']} starts a lab on this machine (--dry-run tells for how"
        " long); to run on a server of yours: --pool=nfs://SERVER/EXPORT"
    ]


def status_of(understood: Understood) -> int:
    """Return what ./nfsmulti goes on by: 10, but 11 for a run on a pool, 12 for one in a guest."""
    given = understood.values
    if understood.function != COMMANDS["run"]["call"]:
        return 10
    guest = given["mounts"] or "rdma" in (given["proto"] or ())
    return 11 if given["pool"] else 12 if guest else 10


def _group(name: str, word: str, inner: Sequence[str]) -> None:
    """List the commands of `lab` or `bench`, and end."""
    if word not in ("", "-h", "--help"):
        what = f"{name} has no command '{word}'{guess(word, inner)}"
        _refuse(what, f"{COMMAND} {name} --help")
    print(f"usage: {COMMAND} {name} COMMAND [OPTIONS]\n")
    for one in inner:
        text = COMMANDS[f"{name} {one}"]["help"].partition("\n")[0]
        columns = shutil.get_terminal_size().columns
        print(
            textwrap.fill(text, columns, initial_indent=f"  {one:12} ", subsequent_indent=" " * 15)
        )
    print(f"\n{COMMAND} {name} COMMAND --help lists the options.")
    sys.exit(0)


def _refuse(what: str, remedy: str) -> None:
    print(f"All commands: {remedy}\nnfsmulti: {what}", file=sys.stderr)
    sys.exit(2)
