# SPDX-License-Identifier: GPL-2.0-only
"""The words of the sources: what the engine, the harness and the front end may print.

What changes in a message, a printf conversion or a part of an f-string, is written as "…".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_LITERAL = r'"(?:[^"\\\n]|\\.)*"'
_TEXT = re.compile(rf"{_LITERAL}(?:\s*(?:PRI[a-zA-Z0-9]+\s*)?{_LITERAL})*")
_NO_TEXT = re.compile(r"/\*.*?\*/|^#include[^\n]*", re.DOTALL | re.MULTILINE)
_CONVERSION = re.compile(r"%%|%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]")
_ERRORS = ("HarnessError", "MissingError", "NothingToRunError")
_SHELL = re.compile(r"\$\{[^}]*\}|\$\w+")


def engine(folder: Path) -> Iterator[str]:
    """Yield the strings of C files, adjacent literals as one."""
    for file in sorted(folder.rglob("*.[ch]")):
        yield from engine_file(file)


def engine_file(file: Path) -> Iterator[str]:
    """Yield those of one file."""
    code = _NO_TEXT.sub("", file.read_text())
    for literal in _TEXT.finditer(code):
        parts = re.findall(rf"{_LITERAL}|PRI[a-zA-Z0-9]+", literal[0])
        text = "".join(part[1:-1] if part[0] == '"' else "u" for part in parts)
        yield _CONVERSION.sub("…", text.replace('\\"', '"'))


def harness(folder: Path) -> Iterator[str]:
    """Yield the strings of Python files."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            yield from _texts(node)


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the words of a string; none of anything else."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
        yield "".join(map(str, parts))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def refusals(folder: Path) -> Iterator[str]:
    """Yield what the harness's errors say, where their words stand in the call."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and node.args and _name(node.func) in _ERRORS:
                yield from _texts(node.args[0])


def front_end(file: Path) -> str:
    """Return the shell script's text."""
    return _SHELL.sub("…", file.read_text())
