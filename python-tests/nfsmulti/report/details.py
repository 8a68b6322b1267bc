# SPDX-License-Identifier: GPL-2.0-only
"""All that was measured of each cell, in one table, whatever the scenario."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from nfsmulti import texts
from nfsmulti.report import cells, measures
from nfsmulti.report.story import Section
from nfsmulti.stats import Sample, jain, merged, percentile_us
from nfsmulti.summary import Cell, Figures, Summary
from nfsmulti.texts import MISSING, Table

_PERCENTS, _OF_LAT = (50, 99, 99.9, 99.99), (50, 99)  # of clat, and of lat where fio kept it
_FIGURES = (
    "MB/s", "IOPS", "CV %", "n", *(f"lat p{percent}, ms" for percent in _OF_LAT),
    *(f"p{percent:g}, ms" for percent in _PERCENTS),
    "CPU of fio's jobs, µs/op", "of the machine, µs/op", "busiest job, % of a core",
    "processors busy, %", "system calls/op", "Jain's index",
)  # fmt: skip
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
    headings = [*words, _WAY, *counts, *_FIGURES, _SHARES]
    rows = [
        [*_levels(found[0], words), way, *_levels(found[0], counts), *_figures(found, way)]
        for found in cells.by_name(done).values()
        for way in ("read", "write")
        if any(_sides(found, way))
    ]
    nothing = [{MISSING}, {"read"}, {"write"}]
    left_out = {headings[at] for at in range(len(headings)) if {row[at] for row in rows} in nothing}
    if "operation" in done[0].factors:
        left_out |= {_WAY, "MB/s"}
    if "direction" in words:
        left_out.add(_WAY)
    kept = [at for at, heading in enumerate(headings) if heading not in left_out]
    return Table(
        [headings[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        text_columns=sum(at <= len(words) for at in kept),
        ending_text_columns=int(_SHARES not in left_out),
    )


def _levels(cell: Cell, factors: Sequence[str]) -> list[str]:
    told = {**cell.factors, **cells.told(cell, cell.factors)}
    return [str(told.get(name, MISSING)) for name in factors]


def _counts(done: Sequence[Cell], factor: str) -> bool:
    """Tell whether a factor's levels are numbers."""
    return all(isinstance(level, int | float) for level in cells.levels(done, factor))


def _sides(found: Sequence[Cell], way: str) -> list[Figures]:
    sides: list[Figures | None] = [getattr(cell, way) for cell in found]
    return [side for side in sides if side and side.ops]


def _figures(found: Sequence[Cell], way: str) -> list[str]:
    """Return the figures of one direction; CPU time and processors are of both."""
    sides = _sides(found, way)
    rate = Sample.of(side.bytes_per_s / 1e6 for side in sides)
    waits = [cells.told_us(found, percent, way) for percent in _PERCENTS]
    lats = [_lat_us(found, way, percent) for percent in _OF_LAT]
    paths = [cell for cell in found if any(cell.paths.values())]
    if max((len(cell.paths) for cell in paths), default=0) < 2:
        paths = []
    shares = [f"{100 * part:.1f}" for part in cells.shares(paths).values()] if paths else []
    index = [cell.jain or jain(cell.paths.values()) for cell in paths]
    return [
        texts.mean(rate), texts.mean(Sample.of(side.iops for side in sides)),
        texts.cv(rate), texts.count(rate),
        *(texts.number(wait and wait / 1000) for wait in (*lats, *waits)),
        texts.mean(cells.sample(found, measures.JOBS_CPU)),
        texts.mean(cells.sample(found, measures.MACHINE_CPU)),
        texts.mean(cells.sample(found, measures.BUSIEST)),
        texts.mean(cells.sample(found, measures.PROCESSORS)),
        texts.mean(cells.sample(found, lambda cell: cell.calls_per_op)),
        f"{fmean(index):.4f}" if index else MISSING,
        ", ".join(shares) or MISSING,
    ]  # fmt: skip


def _lat_us(found: Sequence[Cell], way: str, percent: float) -> float | None:
    """Return a percentile of fio's lat; None where it kept none, or a rate was not held."""
    if any(cell.arrivals and not cell.arrivals.sustained for cell in found):
        return None
    bins = merged(side.response for side in _sides(found, way))
    return percentile_us(bins, percent) if cells.enough(bins.total(), percent) else None
