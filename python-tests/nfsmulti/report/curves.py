# SPDX-License-Identifier: GPL-2.0-only
"""Curves: what was measured along a factor that counts something, all other factors being alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nfsmulti import texts
from nfsmulti.report import cells, measures
from nfsmulti.report.answer import MOST_ROWS, varying
from nfsmulti.report.measures import Take
from nfsmulti.stats import Ratio, Sample
from nfsmulti.summary import Cell, Factor
from nfsmulti.texts import Table


@dataclass(frozen=True)
class Axis:
    """What rises along a curve, such as nconnect, and the rate that is told."""

    name: str = "nconnect"
    measure: Take = measures.MB_PER_S
    unit: str = "MB/s"
    each: str = ""  # what a level is called, such as "{} KiB reads"

    @property
    def label(self) -> str:
        """Its name in a plot."""
        words = {"nconnect": "connections", "concurrency": "I/Os in flight"}
        return words.get(self.name) or self.each.format("").strip() or self.name


@dataclass(frozen=True)
class Curve:
    """What one workload did at each count on an axis, all other factors being alike: `levels`.

    `cells` has those that are done, of each count that was asked for; `link` is the rate of the
    link in bit/s, where it is known.
    """

    levels: dict[str, Factor]
    cells: dict[int, list[Cell]]
    link: int | None = None
    axis: Axis = Axis()

    @classmethod
    def along(cls, axis: Axis, found: Sequence[Cell]) -> Curve:
        """Make a curve of cells whose other factors are alike."""
        return cls({}, cells.by_count(found, axis.name), axis=axis)

    @property
    def counts(self) -> list[int]:
        """Each count that has cells, by size."""
        return sorted(count for count, found in self.cells.items() if found)

    def at(self, count: int) -> list[Cell]:
        """Return the cells of a count, none where it was not measured."""
        return self.cells.get(count, [])

    def rate(self, count: int) -> Sample | None:
        """Return what the axis measures."""
        return cells.sample(self.at(count), self.axis.measure)

    def text(self, count: int) -> str:
        """Write that with its unit."""
        return texts.mean(self.rate(count), self.axis.unit)

    def samples(self, measure: Take) -> dict[int, Sample | None]:
        """Return a figure at each count, for a plot."""
        return {self.total(at): cells.sample(self.at(at), measure) for at in self.counts}

    def mean(self, count: int) -> float:
        """Return the mean of that, 0 for none."""
        rate = self.rate(count)
        return rate.mean if rate else 0.0

    def gain(self, more: int, fewer: int) -> Ratio | None:
        """Return the rate at `more` : that at `fewer`; None where one of them was not measured."""
        return cells.ratio(self.at(more), self.at(fewer), self.axis.measure)

    def connections(self, count: int) -> int | None:
        """Return how many connections there are at a count; None where that is not known."""
        found = [cell.connections for cell in self.cells[count]]
        return None if None in found else max(filter(None, found), default=None)

    def total(self, count: int) -> int:
        """Return where a count stands in a plot: all connections, where these are known."""
        every = self.connections(count) if self.axis.label == "connections" else None
        return every or count

    def words(self, count: int) -> str:
        """Name a count by all connections that it makes: "8 connections", "depth 32"."""
        every = self.connections(count) if self.axis.label == "connections" else None
        if self.axis.each:
            return self.axis.each.format(count)
        if every is None:
            levels = self.cells[count][0].factors
            one_path = " on one path" if {"nconnect", "paths"} <= levels.keys() else ""
            return f"{self.axis.name} {levels[self.axis.name]}{one_path}"
        capped = "capped " if self.levels.get("limits") == "capped" else ""
        return texts.counted(every, f"{capped}connection")


def ends_table(named: Sequence[tuple[str, Curve]], one: str) -> Table:
    """Lay out each curve's rate at 1 and at its most, called `one` and that with an s."""
    rows = []
    for name, curve in named:
        most = max(curve.counts)
        rates = (texts.measured(curve.rate(count)) for count in (1, most))
        gain = curve.gain(most, 1) if most > 1 else None
        rows.append([name, str(most), *rates, texts.times(gain)])
    counts = {row[1] for row in rows}
    most_of_all = f"{counts.pop()} {one}s" if len(counts) == 1 else f"all {one}s"
    unit = named[0][1].axis.unit if named else ""
    headings = ["", f"{one}s", f"1 {one}, {unit}", f"{most_of_all}, {unit}", f"times 1 {one}"]
    return varying(headings, rows[:MOST_ROWS], 2)
