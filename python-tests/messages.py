# SPDX-License-Identifier: GPL-2.0-only
"""The words of the sources: what the engine, the harness and the front end may print.

What changes in a message, a printf conversion or a part of an f-string, is written as "…".

One rule is for all messages: first what is wrong and where, then, behind a colon or a semicolon,
what to do, in the imperative; a HarnessError has that as its remedy. docs/messages.md has a table
of these in each section, made from the sources that the line above it names. Where more must be
said, or a message holds no remedy, a row of the page's other tables says it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_LITERAL = r'"(?:[^"\\\n]|\\.)*"'
_TEXT = re.compile(rf"{_LITERAL}(?:\s*(?:PRI[a-zA-Z0-9]+\s*)?{_LITERAL})*")
_NO_TEXT = re.compile(r"/\*.*?\*/|^#include[^\n]*", re.DOTALL | re.MULTILINE)
_CONVERSION = re.compile(r"%%|%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]")
_ERRORS = ("HarnessError", "MissingError")
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
_VERBS = (
    "add apt-get ask choose get give install leave let make mend mount name put raise rebuild "
    "remove run see set start try unmount use write"
)
_REMEDY = re.compile(rf"(.*?[a-z].*?)[:;] ((?:{'|'.join(_VERBS.split())})\b.*)", re.DOTALL)
_PART = re.compile(r"(<!-- made from (.+?) -->\n).*?(<!-- made end -->\n)", re.DOTALL)
_HEAD = "| message | what it says to do |\n| :-- | :-- |\n"


def engine(folder: Path) -> Iterator[str]:
    """Yield the strings of C files, adjacent literals as one."""
    for file in sorted(folder.rglob("*.[ch]")):
        yield from _of_c(file)


def _of_c(file: Path) -> Iterator[str]:
    code = _NO_TEXT.sub("", file.read_text())
    for literal in _TEXT.finditer(code):
        parts = re.findall(rf"{_LITERAL}|PRI[a-zA-Z0-9]+", literal[0])
        text = "".join(part[1:-1] if part[0] == '"' else "u" for part in parts)
        yield _CONVERSION.sub("…", text.replace('\\"', '"'))


def _of_harness(root: Path) -> list[Path]:
    """Return the harness's files, and those of the commands that need a clone."""
    clone = (root / "python-tests" / name for name in ("testrun.py", "fault_table.py"))
    return sorted([*(root / "python-tests/nfsmulti").rglob("*.py"), *clone])


def harness(root: Path) -> Iterator[str]:
    """Yield the strings of its files."""
    for file in _of_harness(root):
        for node in ast.walk(ast.parse(file.read_text())):
            yield from _texts(node)


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the words of a string; none of anything else."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
        yield "".join(map(str, parts))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _refusals(file: Path) -> Iterator[tuple[str, str]]:
    """Yield what the harness's errors say and their remedies, of words that stand in the call."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _ERRORS and node.args:
            remedy = "".join(text for one in node.args[1:2] for text in _texts(one))
            for text in _texts(node.args[0]):
                yield text, remedy


def front_end(file: Path) -> str:
    """Return the shell script's text."""
    return re.sub(r"\$\{[^}]*\}|\$\w+", "…", file.read_text())


def _split(message: str) -> tuple[str, str]:
    """Return what is wrong and what to do, as the rule has it; "" where it does not say."""
    found = _REMEDY.fullmatch(message)
    return (found[1], found[2]) if found else (message, "")


def listed(page: str) -> list[str]:
    """Return the messages that a page explains by hand: code in the first column of a table."""
    rows = re.findall(r"^\| (`.*?`) \| ", _PART.sub("", page), re.MULTILINE)
    return [one for row in rows for one in re.findall(r"`([^`]+)`", row)]


def unlisted(page: str, root: Path) -> dict[tuple[str, str], str]:
    """Return what no row explains, what is wrong and what to do, and the source of each."""
    said, found = listed(page), {}
    help_texts = set(_of_c(root / _OPTIONS))
    for file in sorted((root / "engine").rglob("*.[ch]")):
        for text in set(_of_c(file)) - help_texts:
            if not _NO_MESSAGES.match(text) and _counts(text, said):
                found[_split(text)] = str(file.relative_to(root))
    for file in _of_harness(root):
        for text, remedy in _refusals(file):
            if _counts(f"{text}\n{remedy}", said):
                found[(text, remedy) if remedy else _split(text)] = str(file.relative_to(root))
    return found


def _counts(message: str, said: list[str]) -> bool:
    return message.count(" ") >= _FEWEST_BLANKS and not any(one in message for one in said)


def filled(page: str, root: Path) -> str:
    """Make the parts of a page anew: a message stands where the longest part of its path does."""
    folders = [folder for part in _PART.finditer(page) for folder in part[2].split()]
    rows: dict[str, list[str]] = {}
    for (what, remedy), source in sorted(unlisted(page, root).items()):
        fitting = [folder for folder in folders if source.startswith(folder)]
        assert fitting, f"no table of messages is made from {source}: name it above one"
        rows.setdefault(max(fitting, key=len), []).append(f"| `{what}` | `{remedy}` |\n")

    def part(old: re.Match[str]) -> str:
        made = sorted(row for folder in old[2].split() for row in rows.get(folder, ()))
        return old[1] + (_HEAD if made else "") + "".join(made) + old[3]

    return _PART.sub(part, page)
