# SPDX-License-Identifier: GPL-2.0-only
"""Curves: what was measured along a factor that counts something, all other factors being alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nfsmulti import texts
from nfsmulti.report import cells, measures
from nfsmulti.report.measures import Take
from nfsmulti.stats import Ratio, Sample
from nfsmulti.summary import Cell, Factor


@dataclass(frozen=True)
class Curve:
    """What one workload did at each count of the factor `along`, the others being alike: `levels`.

    `cells` has those that are done, of each count that was asked for; `link` is the rate of the
    link in bit/s, where it is known. `measure` is the rate that is told, in `unit`; `each` what a
    level is called, such as "{} KiB reads", "" for the factor's name.
    """

    levels: Mapping[str, Factor]
    cells: Mapping[int, list[Cell]]
    link: int | None = None
    along: str = "nconnect"
    measure: Take = measures.MB_PER_S
    unit: str = "MB/s"
    each: str = ""

    @property
    def label(self) -> str:
        """What rises along it, in a plot."""
        words = {"nconnect": "connections", "concurrency": "I/Os in flight"}
        return words.get(self.along) or self.each.format("").strip() or self.along

    @property
    def counts(self) -> list[int]:
        """Each count that has cells, by size."""
        return sorted(count for count, found in self.cells.items() if found)

    def at(self, count: int) -> list[Cell]:
        """Return the cells of a count, none where it was not measured."""
        return self.cells.get(count, [])

    def rate(self, count: int) -> Sample | None:
        """Return the rate that is told."""
        return cells.sample(self.at(count), self.measure)

    def text(self, count: int) -> str:
        """Write that with its unit."""
        return texts.mean(self.rate(count), self.unit)

    def samples(self, measure: Take) -> dict[int, Sample | None]:
        """Return a figure at each count, for a plot."""
        return {self.total(at): cells.sample(self.at(at), measure) for at in self.counts}

    def mean(self, count: int) -> float:
        """Return the mean of the rate, 0 for none."""
        rate = self.rate(count)
        return rate.mean if rate else 0.0

    def gain(self, more: int, fewer: int) -> Ratio | None:
        """Return the rate at `more` : that at `fewer`; None where one of them was not measured."""
        return cells.ratio(self.at(more), self.at(fewer), self.measure)

    def connections(self, count: int) -> int | None:
        """Return how many connections there are at a count; None where that is not known."""
        found = [cell.connections for cell in self.cells[count]]
        return None if None in found else max(filter(None, found), default=None)

    def total(self, count: int) -> int:
        """Return where a count stands in a plot: all connections, where these are known."""
        every = self.connections(count) if self.label == "connections" else None
        return every or count

    def words(self, count: int) -> str:
        """Name a count by all connections that it makes: "8 connections", "depth 32"."""
        if self.each:
            return self.each.format(count)
        every = self.connections(count) if self.label == "connections" else None
        if every is None:
            levels = self.cells[count][0].factors
            one_path = " on one path" if {"nconnect", "paths"} <= levels.keys() else ""
            return f"{self.along} {levels[self.along]}{one_path}"
        capped = "capped " if self.levels.get("limits") == "capped" else ""
        return texts.counted(every, f"{capped}connection")
