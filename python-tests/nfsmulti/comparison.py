# SPDX-License-Identifier: GPL-2.0-only
"""What a comparison of two runs has found, and how it is written: text, JSON, JUnit, Markdown."""

from __future__ import annotations

import dataclasses
import io
import json
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from rich.console import Console

from nfsmulti import texts
from nfsmulti.kept import shown_run
from nfsmulti.stats import Ratio
from nfsmulti.summary import Summary
from nfsmulti.texts import Table

_COLUMNS = 80
_SCHEMA, _VERSION = "nfsmulti-comparison", 1


class Exit(IntEnum):
    """What the command ends with."""

    PASSED = 0
    WORSE = 10
    NOT_COMPARABLE = 11
    UNRELIABLE = 12


@dataclass(frozen=True)
class Side:
    """One of the runs."""

    run: str
    label: str
    started: str

    @classmethod
    def of(cls, folder: Path, run: Summary) -> Side:
        """Return that of a run in a folder."""
        return cls(shown_run(folder), run.label, run.started)

    @property
    def text(self) -> str:
        """Its folder's name, which has the label, and its date."""
        return f"{Path(self.run).name} ({self.started.replace('T', ' ')[:16]})"


@dataclass(frozen=True)
class Row:
    """One figure of one cell: means, ratio B : A with its 95 % interval, Holm's p, and a word."""

    cell: str
    figure: str
    unit: str
    a: float | None
    b: float | None
    ratio: float
    low: float | None
    high: float | None
    p: float | None
    says: str


@dataclass(frozen=True)
class Comparison:
    """All of it. The last of `lines` is the verdict."""

    scenario: str
    a: Side
    b: Side
    rows: list[Row]
    notes: list[str]
    exit: Exit
    lines: list[str]

    @property
    def verdict(self) -> str:
        """The exit status in words: "worse"."""
        return self.exit.name.lower().replace("_", " ")

    @property
    def tables(self) -> list[Table]:
        """A table for each figure."""
        return [self._table(name) for name in dict.fromkeys(row.figure for row in self.rows)]

    def _table(self, figure: str) -> Table:
        rows = [row for row in self.rows if row.figure == figure]
        unit = rows[0].unit
        headings = [figure, f"A, {unit}", f"B, {unit}", "B / A (95 % interval)", ""]
        lines = [
            [
                row.cell, texts.number(row.a), texts.number(row.b),
                Ratio(row.ratio, row.low, row.high).text, row.says,
            ]
            for row in rows
        ]  # fmt: skip
        return Table(headings, lines, text_columns=1, ending_text_columns=1, text_wraps=True)


def _text(found: Comparison) -> str:
    out = io.StringIO()
    console = Console(file=out, width=_COLUMNS, highlight=False, markup=False)
    for table in found.tables:
        console.print(table.terminal())
    lines = [f"A: {found.a.text}", f"B: {found.b.text}"]
    under = map(_wrapped, (*found.notes, *found.lines))
    drawn = map(str.rstrip, out.getvalue().rstrip().splitlines())
    return "\n".join([*lines, *drawn, "", *under])


def _wrapped(line: str) -> str:
    return textwrap.fill(line, _COLUMNS, break_long_words=False, break_on_hyphens=False)


def _markdown(found: Comparison) -> str:
    tables = "\n".join(table.markdown() for table in found.tables)
    points = "".join(f"- {line}\n" for line in (*found.notes, *found.lines))
    sides = f"A: {found.a.text}  \nB: {found.b.text}"
    return f"**{found.scenario}: {found.verdict}**\n\n{sides}\n\n{tables}\n{points}"


def _json(found: Comparison) -> str:
    data = {"schema": _SCHEMA, "version": _VERSION, **dataclasses.asdict(found)}
    return json.dumps({**data, "verdict": found.verdict}, indent="\t")


def _junit(found: Comparison) -> str:
    """Return a test for each row, and one for the verdict, which fails where a cell is lost."""
    suite = ET.Element("testsuite", name=f"nfsmulti compare {found.scenario}")
    for row in found.rows:
        case = ET.SubElement(suite, "testcase", classname=row.figure, name=row.cell)
        if row.says == "worse" and found.exit is Exit.WORSE:
            ET.SubElement(case, "failure", message=Ratio(row.ratio, row.low, row.high).text)
    case = ET.SubElement(suite, "testcase", classname="verdict", name=found.verdict)
    kind = {Exit.WORSE: "failure", Exit.UNRELIABLE: "skipped"}.get(found.exit)
    if kind:
        ET.SubElement(case, kind, message="; ".join(found.lines))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("*/failure"))))
    suite.set("skipped", str(len(suite.findall("*/skipped"))))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


WRITERS: Mapping[str, Callable[[Comparison], str]] = {
    "text": _text,
    "json": _json,
    "junit": _junit,
    "markdown": _markdown,
}
