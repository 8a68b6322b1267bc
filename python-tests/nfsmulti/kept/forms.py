# SPDX-License-Identifier: GPL-2.0-only
"""What a comparison of two runs has found, and how it is written: as text, page and JSON.

Text and page have the one shape of all answers, and show no more than its few rows at once.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from nfsmulti import texts
from nfsmulti.errors import HarnessError
from nfsmulti.paths import shown, write_whole
from nfsmulti.report import charts, pages
from nfsmulti.report.answer import MOST_CAVEATS, MOST_ROWS, Answer, wrapped
from nfsmulti.report.story import Plot, Section
from nfsmulti.stats import Ratio
from nfsmulti.texts import Table

SIGNIFICANT = 0.05
TOGETHER = "all cells together"  # their geometric mean
PAGE = "compare.html"
COLUMNS = 80
_DRAWN = 30  # rows that a plot shows
_SCHEMA, _VERSION = "nfsmulti-comparison", 1
_RULE = (
    "B is worse where a ratio is significant at 5 % (Welch's t of the logarithms, corrected by"
    " Holm for the number of tests) and beyond the threshold. All cells together are their"
    " geometric mean, of which each repeat is one value."
)


class Exit(IntEnum):
    """What the command ends with."""

    PASSED = 0
    WORSE = 10
    NOT_COMPARABLE = 11
    UNRELIABLE = 12


@dataclass(frozen=True)
class Side:
    """One of the runs."""

    run: str = ""
    label: str = ""
    started: str = ""

    @property
    def text(self) -> str:
        """Its folder's name, which has the label, and its date."""
        return f"{Path(self.run).name} ({texts.moment(self.started)})"


@dataclass(frozen=True)
class Row:
    """One figure of one cell: means, ratio B : A with its 95 % interval, Holm's p, and a word."""

    cell: str
    figure: str
    unit: str
    a: float
    b: float
    ratio: Ratio
    p: float | None = None
    says: str = ""

    @property
    def name(self) -> str:
        """The cell, and the figure unless it is the usual one."""
        return self.cell if self.figure == "throughput" else f"{self.cell} {self.figure}"

    @property
    def data(self) -> dict[str, object]:
        """The row for other programs, the ratio's interval beside it."""
        ratio = {"ratio": self.ratio.value, "low": self.ratio.low, "high": self.ratio.high}
        return {**vars(self), **ratio}


def largest(rows: Sequence[Row]) -> Row:
    """Return the row with the largest change; of a cell rather than of all."""
    return max(rows, key=lambda one: (abs(math.log(one.ratio.value)), one.cell != TOGETHER))


@dataclass(frozen=True)
class Comparison:
    """All of it. `end` and `verdict` are by the figures alone, `doubts` say why they do not hold.

    The last line of the verdict is what counts. `ran` says what B has run. Of two runs that cannot
    be compared there are neither sides nor rows.
    """

    scenario: str
    end: Exit
    verdict: Sequence[str]
    a: Side = Side()
    b: Side = Side()
    rows: Sequence[Row] = ()
    limit: float = 0
    notes: Sequence[str] = ()
    doubts: Sequence[str] = ()
    ran: str = ""

    @property
    def exit(self) -> Exit:
        """What the command ends with."""
        return Exit.UNRELIABLE if self.doubts else self.end

    @property
    def lines(self) -> list[str]:
        """The verdict with its doubts, which are said last."""
        if not self.doubts:
            return [*self.verdict]
        figures = [f"by the figures alone: {line}" for line in self.verdict]
        return [*figures, *(f"unreliable: {line}" for line in self.doubts)]

    def furthest(self, most: int) -> list[Row]:
        """Return the rows furthest from 1, and the last, of all cells, in their order."""
        by_change = sorted(self.rows[:-1], key=lambda one: -abs(math.log(one.ratio.value)))
        chosen = {id(one) for one in (*by_change[: most - 1], *self.rows[-1:])}
        return [one for one in self.rows if id(one) in chosen]

    def answer(self, caveats: Sequence[str]) -> Answer:
        """Return the answer, with the caveats that it is told with."""
        table, every = _table(self.furthest(MOST_ROWS)), len(self.rows)
        if len(table.rows) < every:
            title = f"{len(table.rows)} of {every} rows, those furthest from 1; the page has all"
            table = replace(table, title=title)
        return Answer(self._headline(), table, caveats[:MOST_CAVEATS], self.ran)

    def _headline(self) -> str:
        """Name the largest loss, or how all cells together have changed; no doubted figure."""
        if self.doubts:
            return f"No verdict: {self.doubts[0].partition(': rerun')[0]}."
        said = self.verdict[-1].partition(":")[0]
        worse = [one for one in self.rows if one.says == "worse"]
        if not self.rows or (self.end is Exit.WORSE and not worse):
            return f"{self.verdict[-1].partition(': ')[2]}."
        chief = largest(worse or self.rows[-1:])
        value, _, interval = chief.ratio.text.partition(" ")
        where = "" if chief.cell == self.rows[-1].cell else f"with {chief.cell}"
        words = filter(None, [value, "times A's", chief.figure, interval, where])
        return f"{' '.join(words)}: {said}."

    def write_page(self, folder: Path) -> None:
        """Write the page into B's folder, if that can be written to; the verdict stands anyway."""
        rows = self.furthest(_DRAWN)
        caption = (
            "B / A with 95 % intervals. Squares are worse, triangles better, circles not shown to"
            f" be either; grey is what is tolerated, {100 * self.limit:g} %."
        )
        plot = Plot(
            "ratios", caption, charts.ratios([(r.name, r.ratio, r.says) for r in rows], self.limit)
        )
        sections = [
            Section("B against A", plots=[plot]),
            Section("Verdict", points=[*self.lines, *self.notes]),
            Section("All rows", tables=[_table(self.rows)], folded=True),
            Section("How to read it", points=[_RULE], folded=True),
        ]
        title, about = f"compare: {self.scenario}", f"A: {self.a.text}. B: {self.b.text}."
        page = pages.page(title, about, self.answer([*self.doubts, *self.notes]), sections)
        try:
            write_whole(folder / PAGE, page)
        except HarnessError as error:
            print(f"nfsmulti: no page: {error}", file=sys.stderr)

    def text(self) -> str:
        """Return what a terminal shows: the answer first, the verdict last."""
        ending = [shown(Path(self.b.run) / PAGE), *(wrapped(line, COLUMNS) for line in self.lines)]
        answer = self.answer(self.notes)
        figures = replace(answer, headline="").terminal(COLUMNS)
        sides = f"A: {self.a.text}\nB: {self.b.text}"
        return "\n\n".join([wrapped(answer.headline, COLUMNS), sides, figures, "\n".join(ending)])

    def json(self) -> str:
        """Return it for other programs."""
        data = {
            "schema": _SCHEMA,
            "version": _VERSION,
            "scenario": self.scenario,
            "a": vars(self.a),
            "b": vars(self.b),
            "rows": [one.data for one in self.rows],
            "notes": [*self.notes],
            "exit": self.exit,
            "lines": self.lines,
            "verdict": self.exit.name.lower().replace("_", " "),
        }
        return json.dumps(data, indent="\t")


def _table(rows: Sequence[Row]) -> Table:
    """Lay rows out; their unit is in the headings where all have the same."""
    units = {one.unit for one in rows}
    unit = units.pop() if len(units) == 1 else ""
    lines = []
    for one in rows:
        own = "" if unit else f" {one.unit}"
        a, b = (f"{texts.number(mean)}{own}".strip() for mean in (one.a, one.b))
        if one.cell == TOGETHER:  # a mean of unlike cells is no rate of any
            a = b = texts.MISSING
        lines.append([one.name, a, b, texts.times(one.ratio), one.says])
    headings = [", ".join(filter(None, (side, unit))) for side in "AB"]
    return Table(["", *headings, "B / A", ""], lines, ending_text_columns=1, text_wraps=True)
