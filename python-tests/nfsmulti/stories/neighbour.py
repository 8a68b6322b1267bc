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
from collections.abc import Iterator, Mapping, Sequence

from nfsmulti import texts
from nfsmulti.report import cells, conditions, loads
from nfsmulti.report.answer import MOST_ROWS, served
from nfsmulti.report.measures import Measure
from nfsmulti.report.story import parts
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec, GuestPlace
from nfsmulti.stats import FEWEST, Ratio, Sample
from nfsmulti.story import At, Bars, Beside, Claim, Column, Factor, Levels, Page, Percentiles, Story
from nfsmulti.summary import Cell
from nfsmulti.texts import Table

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


def job(at: At) -> CellSpec:
    """Return the jobs of a workload, which run at once."""
    jobs = WORKLOADS[at.workload]
    size = at.size(_QUICK_BYTES, _QUICK_BYTES, _BYTES) if at.own else _QUICK_BYTES
    readers = at.workload.startswith("readers")
    bulk = 1 if "writer" in jobs else 0 if readers else _JOBS
    files = {"nfsmulti-readers": size} if readers else {}
    return at.cell(
        "neighbour.fio",
        {"size": size},
        at.seconds(10, 30),
        jobs=jobs,
        paths=min(_JOBS + 1, at.pool.urls or at.pool.mounts) if at.own else 1,
        files={**files, **{f"nfsmulti-bulk.{number}": size for number in range(bulk)}},
    )


BESIDE = "-beside-writer"
WHERE = {"alone": "", "beside the writer": BESIDE}  # readers are, by the end of their workload
READERS = {"readers": "full-speed readers", "readers-limited": "readers at 100 IOPS"}
SHORT = {"readers": "full speed", "readers-limited": "100 IOPS each"}
BULK = "bulk MB/s"
TOLD = (99, 50)  # percentiles of the answer: the first that enough I/Os were measured for
# What was published, in MB/s, of which workload of ours.
PUBLISHED = (
    ("sequential write", "4844 MB/s, buffered", "writer"),
    ("several writers", "9636 MB/s, buffered", "writers"),
    ("random write", "590 MB/s under dontcache, 1561 MB/s after a patch", "random-writers"),
)


def levels(run: Run) -> dict[str, Levels]:
    """Return each combination of the further factors, by its name; one, "", without any."""
    done = dataclasses.replace(run.summary, cells=run.summary.done)
    return {
        served(name, run.summary.setting): {
            factor: at for factor, at in part.cells[0].factors.items() if factor != "workload"
        }
        for name, part in parts(("workload",), done)
        if part.cells
    }


def fell_behind(cell: Cell) -> bool:
    """Tell whether readers that read by a clock could not keep to it."""
    return cell.arrivals is not None and not cell.arrivals.sustained


def wait(percent: int) -> Measure:
    """Return how a percentile of what readers wait is taken; None where they fell behind.

    Nor is it told where they read too little.
    """

    def taken(cell: Cell) -> float | None:
        if not cell.arrivals:
            us = cells.told_us([cell], percent, "read")
        else:
            us = None if fell_behind(cell) else loads.told_us([cell], percent)
        return us and us / 1000

    return Measure(f"p{percent} wait ms", f"readers' p{percent}", taken)


def bulk(cell: Cell) -> float | None:
    """Return the MB/s of the side that moves bulk."""
    side = cell.write or cell.read
    return side.bytes_per_s / 1e6 if side else None


@dataclasses.dataclass(frozen=True)
class Pair:
    """Readers alone and beside the writer, under some levels; `name` is theirs."""

    run: Run
    name: str
    readers: str
    levels: Levels

    def at(self, workload: str) -> Levels:
        """Return where a workload was measured."""
        return {**self.levels, "workload": workload}

    @property
    def sides(self) -> tuple[Levels, Levels]:
        """Readers beside the writer, and alone."""
        return self.at(self.readers + BESIDE), self.at(self.readers)

    @property
    def held(self) -> bool:
        """Whether readers kept to their clock."""
        return not any(fell_behind(cell) for side in self.sides for cell in self.run.at(side))

    def ratio(self, percent: int) -> Ratio | None:
        """Return how much longer they wait beside the writer."""
        known = all(self.waits(percent))
        return self.run.ratio(f"p{percent} wait ms", *self.sides) if known else None

    def waits(self, percent: int) -> list[Sample | None]:
        """Return what they wait beside the writer and alone."""
        return [self.run.whole(f"p{percent} wait ms", side) for side in self.sides]

    @property
    def kept(self) -> Ratio | None:
        """What the writer keeps of its speed."""
        return self.run.ratio(BULK, self.sides[0], self.at("writer"))


def pairs(run: Run, readers: str) -> tuple[int, list[Pair]]:
    """Return the readers under each level, and the percentile that is told of all, or the last.

    A level under which readers fell behind has none.
    """
    every = [Pair(run, name, readers, at) for name, at in levels(run).items()]
    both = [one for one in every if all(map(run.at, one.sides))]
    tells = (at for at in TOLD if all(one.ratio(at) for one in both if one.held))
    return next(tells, TOLD[-1]), both


def headline(run: Run) -> str:
    """Tell how much longer readers wait beside the writer, where that is shown."""
    measured = False
    for readers, name in READERS.items():
        percent, every = pairs(run, readers)
        measured |= bool(every)
        ratios = {one.name: ratio for one in every if (ratio := one.ratio(percent))}
        if not ratios:
            continue
        shown = {level: one for level, one in ratios.items() if not one.spans_one}
        what = f"the p{percent:g} for {name} beside a bulk writer"
        told = f"No measurable difference in {what}"
        if shown:
            told = f"{texts.span([*shown.values()])} times {what}"
            told += f" with {texts.several([*shown])}" if len(shown) < len(every) else ""
        kept = texts.span([one.kept for one in every])
        return told + (f", which keeps {kept} of its speed." if kept else ".")
    if measured:
        return "Too few reads in a repeat to tell what a bulk writer does to them."
    return "No readers were measured both alone and beside the writer."


def table(run: Run) -> Table:
    """Lay out what readers wait alone and beside the writer, and what that keeps of its speed."""
    rows, percents = [], []
    for readers in READERS:
        percent, every = pairs(run, readers)
        percents += [f"p{percent:g}"] * bool(every)
        for one in every:
            beside, alone = one.waits(percent)
            rows.append([
                ", ".join(filter(None, (SHORT[readers], one.name))),
                texts.measured(alone), texts.measured(beside),
                texts.marked(one.ratio(percent)), texts.marked(one.kept),
            ])  # fmt: skip
    if not rows:
        return Table((), ())
    which = "/".join(dict.fromkeys(percents))
    headings = [
        "readers", f"{which} alone, ms", f"{which} beside writer, ms", f"{which}, times alone",
        "writer's MB/s, times alone",
    ]  # fmt: skip
    return Table(headings, rows[:MOST_ROWS])


def caveats(run: Run) -> list[str]:
    """Say which readers fell behind, and that a ratio may be 1."""
    rows = table(run).rows
    late = [one.arrivals for one in run.summary.done if one.arrivals and fell_behind(one)]
    least = min(late, key=lambda one: one.achieved / one.offered, default=None)
    return [
        f"\N{EN DASH}: readers fell behind: {one.achieved:,.0f} of {one.offered:,.0f} IOPS"
        " were answered."
        for one in [least]
        if one and rows
    ] + [texts.MAY_BE_ONE] * any("?" in cell for row in rows for cell in row)


def under(name: str) -> str:
    """Return a level's words for a sentence."""
    return f" with {name}" if name else ""


def beside(run: Run) -> Iterator[Beside]:
    """Yield what was published, under each level."""
    for figure, theirs, workload in PUBLISHED:
        every = {name: {**at, "workload": workload} for name, at in levels(run).items()}
        measured = {name: at for name, at in every.items() if run.at(at)}
        for name, at in measured.items():
            yield Beside("; ".join(filter(None, (figure, name))), theirs, at, measure=BULK)
        if not measured:
            yield Beside(figure, theirs)


def written(run: Run, _: Levels) -> str:
    """Write what the writer reaches under each level."""
    rates = {
        name: rate
        for name, at in levels(run).items()
        if (rate := run.sample(BULK, {**at, "workload": "writer"}))
    }
    ours = [f"{texts.mean(rate, 'MB/s')}{under(name)}" for name, rate in rates.items()]
    return "; ".join(ours) or texts.MISSING


def plots(run: Run) -> list[Percentiles | Bars]:
    """Draw readers alone and beside the writer under each level; bars where there are several."""
    every = levels(run)
    lines: Mapping[str, Levels] = {
        ", ".join(filter(None, (where, name))): {**at, "workload": f"readers{end}"}
        for name, at in every.items()
        for where, end in WHERE.items()
    }
    found: list[Percentiles | Bars] = [Percentiles(lines, ["read"], (50, 99, 99.9, 99.99))]
    bars = [
        Column(where, "p99 wait ms", {"workload": f"readers{end}"}, whole=True)
        for where, end in WHERE.items()
    ]
    return found + [Bars(every, bars)] * (len(every) > 1)


def reading(run: Run) -> Sequence[str]:
    """Say what readers and the writer do."""
    return [
        "Readers read 4 KiB: at full speed with one read under way, or 100 times a second by a"
        " clock of their own, whatever became of the reads before; these wait from the instant"
        " at which a read is due, and up to 64 are under way. The bulk writer has 16 of 1 MiB."
        f" Each job has a connection of its own{run.hosts}.",
        "Waits in the first table are means of the repeats' percentiles, as their ratios are."
        " Ratios are paired: each compares two cells of the same repeat, of which both have the"
        f" percentile. An interval needs {FEWEST} repeats; where it spans 1, there is no"
        " measurable difference.",
        "dontcache is a way of caching of Linux's server from 6.18 on, which `--setting` can"
        " set there. Unless it does, our writes are as the server caches them by default.",
    ]


PAGE = Page(
    about=__doc__,
    names={f"{one}{WHERE[at]}": f"{SHORT[one]}, {at}" for one in SHORT for at in WHERE},
    any_factors=True,
    figures=lambda _: {BULK: bulk, **{f"p{at} wait ms": wait(at) for at in TOLD}},
    headline=headline,
    table=table,
    caveats=caveats,
    plots=plots,
    beside=beside,
    claims=[
        Claim("sequential write, buffered", "4844 MB/s", ours=written,
              why="a bandwidth was published and no ratio: it takes NVMe and 1024 nfsd threads")
    ],
    reading=reading,
    differs=conditions.KERNEL_LAB,
)  # fmt: skip

STORY = Story(
    name="neighbour",
    page=PAGE,
    places={"guest": GuestPlace(differs=_GUEST_DIFFERS)},
    factors={
        "workload": Factor([*WORKLOADS], quick=["readers", "writer", "readers-beside-writer"])
    },
    job=job,
    repeats=5,
)
