# SPDX-License-Identifier: GPL-2.0-only
"""The engine's options in docs/options.md and nfsmulti(7), out of its own option table.

fio prints that table (--enghelp). What it does not say stands in docs/options.md, under a heading
with the option's name; the manual page takes it from there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.paths import ROOT
from nfsmulti.processes import run

PAGE, MANUAL = ROOT / "docs/options.md", ROOT / "man/nfsmulti.7"
_IN_PAGE = ("<!-- options begin -->\n", "<!-- options end -->\n")
_IN_MANUAL = (".Sh OPTIONS\n", ".Sh NFSv4.1\n")
_SECONDS = 20.0


@dataclass(frozen=True)
class Option:
    """An option as fio shows it. `values` are its words with what they mean, or a range alone."""

    name: str
    alias: str
    help: str
    values: list[tuple[str, str]]
    default: str


def write(page: Path = PAGE, manual: Path = MANUAL) -> list[Path]:
    """Bring both in step with the engine. Raises HarnessError without one that is built."""
    options = of_engine()
    _replace(page, _IN_PAGE, _table(options))
    _replace(manual, _IN_MANUAL, _list(options, _details(page.read_text())))
    return [page, manual]


def of_engine() -> list[Option]:
    """Ask fio for the engine's options, without those that are gone."""
    engine = Engine.built()
    names = re.findall(r"^(\w+) +:", _ask(engine), re.MULTILINE)
    if not names:
        raise HarnessError(f"fio shows no options of {engine.library}: rebuild it for this fio")
    found = [_read(name, _ask(engine, f",{name}")) for name in names]
    return [option for option in found if option]


def _ask(engine: Engine, option: str = "") -> str:
    library = engine.library
    argv = ["fio", f"--enghelp=./{library.name}{option}"]
    return run(argv, timeout=_SECONDS, cwd=library.parent, env=dict(engine.env)).check().stdout


def _read(name: str, said: str) -> Option | None:
    lines = dict(re.findall(r"^ *([\w ]+?): (.+)$", said, re.MULTILINE))
    if lines["type"] == "unsupported":
        return None
    values = re.findall(r"^ *(?:valid values)?: (\S+) +(.+)$", said, re.MULTILINE)
    values = [(word, what) for word, what in values if what != "Not supported"]
    if "range" in lines:
        values = [(re.sub(r"min=(\d+), max=(\d+)", r"\1 to \2", lines["range"]), "")]
    if lines["type"].startswith("boolean"):
        values = [("0", ""), ("1", "")]
    default = lines["default"].replace("no default", "")
    return Option(name, lines.get("alias", ""), lines[name], values, default)


def _table(options: list[Option]) -> str:
    rows = ["| option | values | default | what it is |", "| :-- | :-- | :-- | :-- |"]
    for one in options:
        name = f"`{one.name}`" + (f", `{one.alias}`" if one.alias else "")
        values = "<br>".join(f"`{word}` {what}".strip() for word, what in one.values)
        rows.append(f"| {name} | {values or '-'} | {one.default or '-'} | {one.help} |")
    return "\n".join(rows) + "\n"


def _details(page: str) -> dict[str, str]:
    """Give each option's text below its heading."""
    return dict(re.findall(r"^### (\w+)\n\n(.+?)(?=\n\n#|\n*\Z)", page, re.MULTILINE | re.DOTALL))


def _list(options: list[Option], details: dict[str, str]) -> str:
    lines = [".Bl -tag -width Ds"]
    for one in options:
        lines.append(f".It Cm {one.name}" + (f" , {one.alias}" if one.alias else ""))
        lines += _sentences(one.help)
        if one.values:
            words = [_code(word) + (f" ({what})" if what else "") for word, what in one.values]
            lines.append(f"Values: {', '.join(words)}.")
        if one.default:
            lines.append(f"Default: {_code(one.default)}.")
        lines += _sentences(details.get(one.name, ""))
    return "\n".join([*lines, ".El"]) + "\n"


def _sentences(text: str) -> list[str]:
    """Make mdoc of a paragraph, a line for each sentence."""
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(text.split())).replace("\\", "\\e")
    text = text.replace("./build/nfsmulti-pool", "nfsmulti-pool")  # as it is installed
    text = re.sub(r"`([^`]+)`", lambda match: _code(match[1]), text)
    text = re.sub(r"\*([^*]+)\*", r"\\fI\1\\fR", text)
    if text and text[-1] not in ".:":
        text += "."
    return [
        f"\\&{line}" if line[:1] in ".'" else line
        for line in re.split(r"(?<=\.) (?=[A-Z\\])", text)
        if line
    ]


def _code(text: str) -> str:
    return "\\fB" + text.replace("-", "\\-") + "\\fR"


def _replace(file: Path, marks: tuple[str, str], text: str) -> None:
    """Put a text between two lines of a file. Raises HarnessError where these are missing."""
    before, begin, rest = file.read_text().partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise HarnessError(f"{file}: it has no lines {marks[0].strip()} and {marks[1].strip()}")
    file.write_text(before + begin + text + end + after)
