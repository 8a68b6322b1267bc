# SPDX-License-Identifier: GPL-2.0-only
"""All that was measured of each cell, in one table, whatever the scenario.

A figure that cells.csv has, too, has its name there.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from nfsmulti import texts
from nfsmulti.report import cells, measures
from nfsmulti.report.story import Section
from nfsmulti.stats import Sample, jain, merged
from nfsmulti.summary import Cell, Figures, Summary
from nfsmulti.texts import MISSING, Table

_PERCENTS, _OF_LAT = (50, 99, 99.9, 99.99), (50, 99)  # of clat, and of lat where fio kept it
_OF_BOTH = ("jobs CPU µs/op", "machine CPU µs/op", "busiest job %", "processors %", "calls/op")
_SHARES, _WAY = "share of each path, %", "reads or writes"


def section(summary: Summary) -> Section:
    """Return the table of every cell that is done, folded."""
    return Section("Every cell", tables=[_table(summary.done)], folded=True)


def _table(done: Sequence[Cell]) -> Table:
    """Lay out each cell and direction, without the columns that say nothing."""
    factors = cells.varying(done)
    words = [name for name in factors if not _counts(done, name)]
    counts = [name for name in factors if name not in words]
    if all(cell.connections for cell in done):
        counts = [*dict.fromkeys(name for cell in done for name in cells.told(cell, counts))]
    rows = [
        _levels(found[0], words) | {_WAY: way} | _levels(found[0], counts) | _figures(found, way)
        for found in cells.by_name(done).values()
        for way in ("read", "write")
        if any(_sides(found, way))
    ]
    columns = dict.fromkeys(name for row in rows for name in row)
    nothing = [{MISSING}, {"read"}, {"write"}]
    left_out = {name for name in columns if {row[name] for row in rows} in nothing}
    if "operation" in done[0].factors:
        left_out |= {_WAY, "MB/s"}
    if "direction" in words:
        left_out.add(_WAY)
    kept = [name for name in columns if name not in left_out]
    return Table(
        kept,
        [[row[name] for name in kept] for row in rows],
        text_columns=sum(name in (*words, _WAY) for name in kept),
        ending_text_columns=int(_SHARES not in left_out),
    )


def _levels(cell: Cell, factors: Sequence[str]) -> dict[str, str]:
    told = {**cell.factors, **cells.told(cell, cell.factors)}
    return {name: str(told.get(name, MISSING)) for name in factors}


def _counts(done: Sequence[Cell], factor: str) -> bool:
    """Tell whether a factor's levels are numbers."""
    return all(isinstance(level, int | float) for level in cells.levels(done, factor))


def _sides(found: Sequence[Cell], way: str) -> list[Figures]:
    sides: list[Figures | None] = [getattr(cell, way) for cell in found]
    return [side for side in sides if side and side.ops]


def _figures(found: Sequence[Cell], way: str) -> dict[str, str]:
    """Return the figures of one direction, by heading; CPU time and processors are of both."""
    sides = _sides(found, way)
    rate = Sample.of(side.bytes_per_s / 1e6 for side in sides)
    waits = {f"lat p{percent} ms": _lat_us(found, way, percent) for percent in _OF_LAT}
    waits |= {f"p{percent:g} ms": cells.told_us(found, percent, way) for percent in _PERCENTS}
    paths = [cell for cell in found if any(cell.paths.values())]
    if max((len(cell.paths) for cell in paths), default=0) < 2:
        paths = []
    shares = [f"{100 * part:.1f}" for part in cells.shares(paths).values()] if paths else []
    index = [cell.jain or jain(cell.paths.values()) for cell in paths]
    return {
        "MB/s": texts.mean(rate),
        "IOPS": texts.mean(Sample.of(side.iops for side in sides)),
        "CV %": texts.cv(rate),
        "n": texts.count(rate),
        **{name: texts.number(wait and wait / 1000) for name, wait in waits.items()},
        **{name: texts.mean(cells.sample(found, measures.MEASURES[name])) for name in _OF_BOTH},
        "Jain": f"{fmean(index):.4f}" if index else MISSING,
        _SHARES: ", ".join(shares) or MISSING,
    }


def _lat_us(found: Sequence[Cell], way: str, percent: float) -> float | None:
    """Return a percentile of fio's lat; None where it kept none, or a rate was not held."""
    if any(cell.arrivals and not cell.arrivals.sustained for cell in found):
        return None
    return cells.bins_us(merged(side.response for side in _sides(found, way)), percent)
