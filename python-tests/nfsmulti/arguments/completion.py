# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m nfsmulti.arguments.completion bash`: prints what completes the command in a shell.

By shtab, out of the parsers that read the arguments. The packages have it for bash and zsh.
"""

import argparse
import sys
from typing import Any

import shtab

from nfsmulti.arguments import COMMANDS, FRONT_END, SHARED
from nfsmulti.arguments.parser import Parser

_PATHS = {
    **dict.fromkeys(("DIR", "RUN"), shtab.DIRECTORY),
    **dict.fromkeys(("FILE", "FILE.so"), shtab.FILE),
}


def whole() -> argparse.ArgumentParser:
    """Return a parser of every command."""
    root = argparse.ArgumentParser("nfsmulti")
    root.add_argument("--version", action="store_true", help="Print the version.")
    root.add_argument("--no-install", action="store_true", help="Never call apt.")
    root.add_argument("--wheels", metavar="DIR", help="Where pip takes packages from.")
    groups: dict[str, Any] = {"": root.add_subparsers(parser_class=_Command)}
    for name in (*COMMANDS, *FRONT_END):
        group, _, word = name.rpartition(" ")
        if group not in groups:
            parser = groups[""].add_parser(group, table={"help": ""}, help=f"{group} COMMAND")
            groups[group] = parser.add_subparsers(parser_class=_Command)
        table = COMMANDS.get(name) or FRONT_END[name]
        groups[group].add_parser(word, table=table, help=table["help"].partition("\n")[0])
    return root


class _Command(Parser):
    """The parser of a command, whose files and folders a shell completes; see argparse."""

    def __init__(self, prog: str, table: dict[str, Any]):
        super().__init__(prog.removeprefix("nfsmulti "), table, SHARED)
        for action in self._actions:
            if action.metavar in _PATHS:
                action.complete = _PATHS[str(action.metavar)]  # type: ignore[attr-defined]


if __name__ == "__main__":
    print(shtab.complete(whole(), sys.argv[1]))
