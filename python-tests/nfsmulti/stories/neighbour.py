# SPDX-License-Identifier: GPL-2.0-only
"""neighbour: readers beside a bulk writer.

Published: nfsd-io-bench, with which developers of Linux's NFS server compare its ways of caching
(linux-nfs, April 2026), on XFS on NVMe with 1024 nfsd threads and 16 jobs; client and server were
one machine. Buffered, a sequential write gave 4844 MB/s, several writers 9636 MB/s. It also
measures what readers lose beside a bulk writer, for which we know of no published figure.

A reader has one I/O under way, as fast as the server answers, or reads by a clock of its own. Each
workload is a set of jobs of one jobfile, which run at once.

Level: workload. All others, such as a server's setting, are levels under which that is told: the
answer lies in how they compare.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nfsmulti import texts
from nfsmulti.report import cells, charts, conditions, loads
from nfsmulti.report.answer import MOST_ROWS, Answer, served
from nfsmulti.report.story import (
    Beside,
    Finding,
    Plot,
    Report,
    Section,
    Told,
    parts,
    untestable,
)
from nfsmulti.scenario import CellSpec, GuestPlace, timed
from nfsmulti.stats import FEWEST, Ratio, Sample
from nfsmulti.story import At, Factor, Story
from nfsmulti.summary import Cell, Figures, Summary
from nfsmulti.texts import Table

# --- what runs ---

# The jobs of each workload, by their names in the jobfile.
WORKLOADS = {
    "readers": ["readers"],
    "writer": ["writer"],
    "readers-beside-writer": ["readers", "writer"],
    "readers-limited": ["readers-limited"],
    "readers-limited-beside-writer": ["readers-limited", "writer"],
    "writers": ["writers"],
    "random-writers": ["random-writers"],
    "sequential-readers": ["sequential-readers"],
    "random-readers": ["random-readers"],
}
_JOBS = 4  # of most workloads; the writer beside the readers is one more
_BYTES, _QUICK_BYTES = 1 << 30, 64 << 20
_GUEST_DIFFERS = (
    "Published with 16 jobs, files of twice the memory and XFS on NVMe: here four jobs, and files"
    " of 64 MiB in a server's memory.",
    "Client and server share the guest's processor: a writer's client takes part of it as well.",
)
_PLACES = {"guest": GuestPlace(differs=_GUEST_DIFFERS)}


def _job(at: At) -> CellSpec:
    seconds, jobs = at.seconds(10, 30), WORKLOADS[at.workload]
    size = at.size(_QUICK_BYTES, _QUICK_BYTES, _BYTES) if at.own else _QUICK_BYTES
    readers = at.workload.startswith("readers")
    bulk = 1 if "writer" in jobs else 0 if readers else _JOBS
    files = {"nfsmulti-readers": size} if readers else {}
    return CellSpec(
        {}, "", "neighbour.fio",
        {"size": size, **timed(seconds)},
        seconds,
        jobs=jobs,
        paths=min(_JOBS + 1, at.pool.urls or at.pool.mounts) if at.own else 1,
        files={**files, **{f"nfsmulti-bulk.{number}": size for number in range(bulk)}},
    )  # fmt: skip


# --- what it tells ---

_BESIDE = "-beside-writer"
_WHERE = {"alone": "", "beside the writer": _BESIDE}  # readers are, by the end of their workload
_READERS = {"readers": "full-speed readers", "readers-limited": "readers at 100 IOPS"}
_SHORT = {"readers": "full speed", "readers-limited": "100 IOPS each"}
_CALLED = {f"{one}{_WHERE[at]}": f"{_SHORT[one]}, {at}" for one in _SHORT for at in _WHERE}
_PERCENTS = (50, 99, 99.9, 99.99)
_TOLD = (99, 50)  # percentiles of the answer: the first that enough I/Os were measured for
_DRAWN = 99
_JUDGED = untestable("a bandwidth was published and no ratio: it takes NVMe and 1024 nfsd threads")
# What was published, in MB/s, of which workload of ours.
_PUBLISHED = (
    ("sequential write", "4844 MB/s, buffered", "writer"),
    ("several writers", "9636 MB/s, buffered", "writers"),
    ("random write", "590 MB/s under dontcache, 1561 MB/s after a patch", "random-writers"),
)


@dataclass(frozen=True)
class _Level:
    """The cells under one combination of all factors but the workload; `name` is "" for none."""

    name: str
    all: list[Cell]

    def of(self, workload: str) -> list[Cell]:
        return [cell for cell in self.all if cell.factors["workload"] == workload]

    @property
    def under(self) -> str:
        """The words for a sentence."""
        return f" with {self.name}" if self.name else ""


_Named = tuple[_Level, Ratio | None]


def _levels(summary: Summary) -> list[_Level]:
    """Split the cells that are done; there is one level at least."""
    done = dataclasses.replace(summary, cells=summary.done)
    return [
        _Level(served(name, summary.setting), part.cells)
        for name, part in parts(("workload",), done)
    ]


def _paired(over: Sequence[Cell], under: Sequence[Cell], percent: float) -> Ratio | None:
    """Return a ratio of percentiles, by repeat; None where a cell read too little for that."""
    if not _sample(over, percent) or not _sample(under, percent):
        return None
    return cells.ratio(over, under, lambda cell: _wait_us(cell, percent))


def _fell_behind(cell: Cell) -> bool:
    """Tell whether readers that read by a clock could not keep to it."""
    return cell.arrivals is not None and not cell.arrivals.sustained


def _fell_behind_by(levels: Sequence[_Level]) -> str:
    """Say what they reached of what was due."""
    found = [
        cell.arrivals
        for level in levels
        for cell in level.all
        if cell.arrivals and _fell_behind(cell)
    ]
    least = min(found, key=lambda one: one.achieved / one.offered)
    return (
        f"\N{EN DASH}: readers fell behind: {least.achieved:,.0f} of {least.offered:,.0f} IOPS"
        " were answered."
    )


def _wait_us(cell: Cell, percent: float) -> float | None:
    """Give a percentile of what a reader waits; None where it read too little, or fell behind."""
    if not cell.arrivals:
        return cells.told_us([cell], percent, "read")
    return None if _fell_behind(cell) else loads.told_us([cell], percent)


def _sample(found: Sequence[Cell], percent: float) -> Sample | None:
    """Return a percentile of each repeat in ms; None where one read too little for that.

    These are the slow ones: without them it would be a sample of the fast ones alone.
    """
    values = [_wait_us(cell, percent) for cell in found]
    return None if None in values else Sample.of(one / 1000 for one in values if one)


def _told(
    levels: Sequence[_Level], sides: Callable[[_Level], tuple[list[Cell], list[Cell]]]
) -> tuple[float, list[_Named]]:
    """Return the first percentile that is told under every level, or else the last; its ratios.

    A level under which readers fell behind has none.
    """
    held = [
        level
        for level in levels
        if not any(map(_fell_behind, [*sides(level)[0], *sides(level)[1]]))
    ]
    for percent in _TOLD:
        found = [(level, _paired(*sides(level), percent)) for level in levels]
        if all(ratio for level, ratio in found if level in held):
            break
    return percent, found


def _bulk(cell: Cell) -> Figures | None:
    """Return the side that moves bulk."""
    return cell.write or cell.read


def _rate(cell: Cell) -> float | None:
    side = _bulk(cell)
    return side.bytes_per_s / 1e6 if side else None


def beside(summary: Summary) -> list[Beside]:
    """Return what was published beside ours, under each level."""
    rows = []
    for figure, theirs, workload in _PUBLISHED:
        measured = [level for level in _levels(summary) if level.of(workload)]
        for level in measured or [_Level("", [])]:
            sample = cells.sample(level.of(workload), _rate)
            name = f"{figure}; {level.name}" if level.name else figure
            ours = texts.mean(sample, "MB/s")
            rows.append(Beside(name, theirs, ours))
    return rows


def findings(summary: Summary) -> list[Finding]:
    """Return the one figure that every run measures, which has no ratio."""
    rates = [(level, cells.sample(level.of("writer"), _rate)) for level in _levels(summary)]
    ours = [f"{texts.mean(rate, 'MB/s')}{level.under}" for level, rate in rates if rate]
    here = "; ".join(ours) or texts.MISSING
    return [Finding("sequential write, buffered", "4844 MB/s", here, _JUDGED)]


def tell(summary: Summary) -> Told:
    """Tell what a bulk writer does to readers, under each level."""
    levels = _levels(summary)
    return Told(
        answer=_answer(levels),
        sections=[
            Section(
                "Plots",
                plots=[
                    _percentile_plot(levels),
                    *_level_plot(levels),
                ],
            ),
        ],
        reading=[
            "Readers read 4 KiB: at full speed with one read under way, or 100 times a second by a"
            " clock of their own, whatever became of the reads before; these wait from the instant"
            " at which a read is due, and up to 64 are under way. The bulk writer has 16 of 1 MiB."
            f" Each job has a connection of its own{conditions.on_each(summary)}.",
            "Waits in the first table are means of the repeats' percentiles, as their ratios are."
            " Ratios are paired: each compares two cells of the same repeat, of which both have the"
            f" percentile. An interval needs {FEWEST} repeats; where it spans 1, there is no"
            " measurable difference.",
            "dontcache is a way of caching of Linux's server from 6.18 on, which `--setting` can"
            " set there. Unless it does, our writes are as the server caches them by default.",
            *conditions.differences(summary, conditions.KERNEL_LAB),
        ],
    )


def _beside_and_alone(readers: str, level: _Level) -> tuple[list[Cell], list[Cell]]:
    return level.of(readers + _BESIDE), level.of(readers)


def _answer(levels: Sequence[_Level]) -> Answer:
    """Tell how much longer readers wait beside the writer, under each level."""
    rows, percents, told = [], [], ""
    for readers, name in _READERS.items():
        both = [one for one in levels if one.of(readers) and one.of(readers + _BESIDE)]
        if not both:
            continue
        percent, ratios = _told(both, functools.partial(_beside_and_alone, readers))
        percents.append(f"p{percent:g}")
        kept = {
            one.name: cells.ratio(one.of(readers + _BESIDE), one.of("writer"), _rate)
            for one in both
        }
        if not told and any(ratio for _, ratio in ratios):
            told = _told_of(name, percent, ratios, texts.span([*kept.values()]))
        for level, ratio in ratios:
            alone, beside = (level.of(readers + end) for end in _WHERE.values())
            waits = [_sample(found, percent) for found in (alone, beside)]
            rows.append([
                _and(_SHORT[readers], level.name),
                *map(texts.measured, waits),
                texts.marked(ratio),
                texts.marked(kept[level.name]),
            ])  # fmt: skip
    if not rows:
        return Answer("No readers were measured both alone and beside the writer.")
    told = told or "Too few reads in a repeat to tell what a bulk writer does to them."
    wait = "/".join(dict.fromkeys(percents))
    headings = [
        "readers", f"{wait} alone, ms", f"{wait} beside writer, ms", f"{wait}, times alone",
        "writer's MB/s, times alone",
    ]  # fmt: skip
    caveats = [texts.MAY_BE_ONE] if any("?" in cell for row in rows for cell in row) else []
    if any(map(_fell_behind, (cell for level in levels for cell in level.all))):
        caveats.insert(0, _fell_behind_by(levels))
    return Answer(told, Table(headings, rows[:MOST_ROWS]), caveats)


def _told_of(name: str, percent: float, ratios: Sequence[_Named], kept: str) -> str:
    """Say how much longer readers wait, where that is shown."""
    shown = [one for one in ratios if one[1] and not one[1].spans_one]
    what = f"the p{percent:g} for {name} beside a bulk writer"
    told = f"No measurable difference in {what}"
    if shown:
        told = f"{texts.span([ratio for _, ratio in shown])} times {what}"
        if len(shown) < len(ratios):
            told += f" with {texts.several([level.name for level, _ in shown])}"
    return told + (f", which keeps {kept} of its speed." if kept else ".")


def _and(words: str, level: str) -> str:
    return ", ".join(filter(None, (words, level)))


def _percentile_plot(levels: Sequence[_Level]) -> Plot:
    """Draw the readers alone and beside the writer, under each level."""
    named = [
        (
            _and(where, level.name),
            [cells.told_us(found, p, "read") for p in _PERCENTS],
        )
        for level in levels
        for where, end in _WHERE.items()
        if (found := level.of(f"readers{end}"))
    ]
    figure = charts.percentiles("Readers' completion latency", _PERCENTS, named)
    caption = "Percentiles of the readers' latency, of all jobs and repeats together (log scale)."
    return Plot("percentiles", caption, figure)


def _level_plot(levels: Sequence[_Level]) -> list[Plot]:
    """Draw the p99 against the levels; nothing where there is one alone."""
    if len(levels) < 2:
        return []
    series = {
        where: [_sample(level.of(f"readers{end}"), _DRAWN) for level in levels]
        for where, end in _WHERE.items()
    }
    names = [level.name for level in levels]
    figure = charts.bars(f"Readers' p{_DRAWN}", f"latency p{_DRAWN}, ms", names, series)
    caption = (
        f"Mean of the repeats' p{_DRAWN}; {charts.REPEATS}. A bar is missing where a repeat read"
        " too little for it."
    )
    return [Plot("levels", caption, figure)]


_REPORT = Report(
    "neighbour",
    __doc__,
    factors=None,
    beside=beside,
    tell=tell,
    findings=findings,
    names=lambda _: _CALLED,
)

STORY = Story(
    name="neighbour",
    own_report=_REPORT,
    places=_PLACES,
    factors={
        "workload": Factor([*WORKLOADS], quick=["readers", "writer", "readers-beside-writer"])
    },
    job=_job,
    repeats=5,
)
