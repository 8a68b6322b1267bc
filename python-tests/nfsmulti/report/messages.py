# SPDX-License-Identifier: GPL-2.0-only
"""The words of the sources: what the engine, the harness and the front end may print.

What changes in a message, a printf conversion or a part of an f-string, is written as "…".

One rule is for all messages: first what is wrong and where, then, behind a colon, a comma or a
semicolon, what to do, in the imperative. Those stand in the last list of docs/messages.md, which
is made from the sources. Where more must be said, it is said in a row of the page's tables.
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
# Words of the engine that are no message: of its option table, its traces and statistics, of the
# programs beside it, and what only a programmer meets.
_NO_MESSAGES = re.compile(
    r"Usage: |trace: |\{?\"|nfsmulti |nfsmulti-rdma: |nfsmulti-export: |… connection… on|… … … … |"
    r"… reads, |… metadata operations, |…: … done, |meta_mix: beside |TLS: … conn|"
    r"Kerberos: … conn|crypto: … … of|"
    r"arrivals: …: offered |not sustained \(responses | due … ns, lag |… with …: …$|"
    r"entries of \"…\": …|… … in |, and making those |"
    r"each call fits into one Send|"
    r"…: column …| \(tenths of a second\)|…: port …: …|"
    r"RPC Packet not accepted|Server responded: "  # libnfs's, which are translated
)
_FEWEST_BLANKS = 3  # in what counts as a message
_OPTIONS = "engine/terms/table.c"  # whose texts are help
_LISTED = re.compile(r"^\| (`.*?`) \| ", re.MULTILINE)
_REMEDY = re.compile(
    r"(?:^|(?:[:;,(]|\band|\bor|\bso) )(?:then |first |at least )?"
    r"(?:add|apt-get|ask|check|choose|connect|continue|define|delete|end|export|get|give|install|leave|let|list|make|mend|modprobe|mount|name|put|quote|"
    r"raise|rebuild|remove|rename|rerun|run|see|set|split|start|stop|trust|try|unmount|use|wait|write)\b"
)
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


def listed(page: str) -> list[str]:
    """Return the messages that a page's tables explain: code in their first columns."""
    return [one for row in _LISTED.findall(page) for one in re.findall(r"`([^`]+)`", row)]


def unlisted(page: str, root: Path) -> list[str]:
    """Return the messages of the engine and the harness's refusals that no row explains."""
    found = set(engine(root / "engine")) - set(engine_file(root / _OPTIONS))
    found = {one for one in found if not _NO_MESSAGES.match(one)}
    found |= set(refusals(root / "python-tests/nfsmulti"))
    explained = listed(page)
    return sorted(
        one
        for one in found
        if one.count(" ") >= _FEWEST_BLANKS and not any(said in one for said in explained)
    )


def names_remedy(message: str) -> bool:
    """Tell whether a message says what to do, as the rule has it."""
    return bool(_REMEDY.search(message))
