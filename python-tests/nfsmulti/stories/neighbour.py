# SPDX-License-Identifier: GPL-2.0-only
"""neighbour: readers beside a bulk writer.

Published: nfsd-io-bench, with which developers of Linux's NFS server compare its ways of caching
(linux-nfs, April 2026), on XFS on NVMe with 1024 nfsd threads and 16 jobs; client and server were
one machine. Buffered, a sequential write gave 4,844 MB/s, several writers 9,636 MB/s. It also
measures what readers lose beside a bulk writer, for which we know of no published figure.

A reader has one I/O under way, as fast as the server answers, or reads by a clock of its own. Each
workload is a set of jobs of one jobfile, which run at once. Further factors, such as a server's
setting, are told side by side: the answer lies in how their levels compare.
"""

from nfsmulti import texts
from nfsmulti.report import loads
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec, GuestPlace
from nfsmulti.story import At, Bars, Beside, Column, Factor, Grid, Levels, Percentiles, Story

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
WHERE = {"": "alone", BESIDE: "beside the writer"}  # readers are, by the end of their workload
READERS = {"readers": "full-speed readers", "readers-limited": "readers at 100 IOPS"}
SHORT = {"readers": "full speed", "readers-limited": "100 IOPS each"}
BULK = "bulk MB/s"
NVME = "a bandwidth was published and no ratio: it takes NVMe and 1024 nfsd threads"
# What was published, in MB/s, of which workload of ours.
PUBLISHED = (
    ("sequential write", "4,844 MB/s, buffered", "writer"),
    ("several writers", "9,636 MB/s, buffered", "writers"),
    ("random write", "590 MB/s under dontcache, 1,561 MB/s after a patch", "random-writers"),
)


def pairs(run: Run, readers: str) -> dict[str, tuple[Levels, Levels]]:
    """Return readers beside the writer and alone, under each further level, by its name."""
    every = run.rows(*run.further, at={"workload": readers})
    sides = {name: ({**at, "workload": f"{readers}{BESIDE}"}, at) for name, at in every.items()}
    return {name: both for name, both in sides.items() if run.at(both[0])}


def wait(run: Run) -> str:
    """Return the percentile that is told: p99, or p50 if more levels have enough reads for that."""
    every = [sides for readers in READERS for sides in pairs(run, readers).values()]
    return max(
        ("p99 wait ms", "p50 wait ms"),
        key=lambda one: sum(run.ratio(one, *sides, whole=True) is not None for sides in every),
    )


def headline(run: Run) -> str:
    """Tell how much longer readers wait beside the writer, where that is shown."""
    for readers, sides in ((one, pairs(run, one)) for one in READERS):
        ratios = {name: ratio for name, both in sides.items()
                  if (ratio := run.ratio(wait(run), *both, whole=True))}  # fmt: skip
        if not ratios:
            continue
        shown = {level: one for level, one in ratios.items() if not one.spans_one}
        what = f"the {wait(run)[:3]} for {READERS[readers]} beside a bulk writer"
        told = f"No measurable difference in {what}"
        if shown:
            told = f"{texts.span([*shown.values()])} times {what}"
            told += f" with {texts.several([*shown])}" if len(shown) < len(sides) else ""
        kept = texts.span(
            [run.ratio(BULK, at, {**at, "workload": "writer"}) for at, _ in sides.values()]
        )
        return told + (f", which keeps {kept} of its speed." if kept else ".")
    return run.incomplete("enough reads alone and beside the writer")


def rows(run: Run) -> dict[str, Levels]:
    """Return the readers under each further level."""
    every = [(SHORT[one], pairs(run, one)) for one in READERS]
    return {f"{short}, {name}".removesuffix(", "): alone
            for short, found in every for name, (_, alone) in found.items()}  # fmt: skip


def columns(run: Run) -> list[Column]:
    """Return what readers wait alone and beside the writer, and what that keeps of its speed."""
    name, percent = wait(run), wait(run)[:3]

    def both(at: Levels) -> Levels:
        return {"workload": f"{at['workload']}{BESIDE}"}

    return [
        Column(f"{percent} alone, ms", name, whole=True),
        Column(f"{percent} beside writer, ms", name, both, whole=True),
        Column(f"{percent}, times alone", name, both, to=lambda at: at, whole=True),
        Column("writer's MB/s, times alone", BULK, both, to={"workload": "writer"}),
    ]


def beside(run: Run) -> list[Beside]:
    """Return what was published, under each level."""
    found = []
    for figure, theirs, workload in PUBLISHED:
        every = run.rows(*run.further, at={"workload": workload})
        named = {f"{figure}; {name}".removesuffix("; "): at for name, at in every.items()}
        named = named or {figure: {"workload": workload}}
        why = NVME * (workload == "writer")
        found += [Beside(what, theirs, at, measure=BULK, why=why) for what, at in named.items()]
    return found


def lines(run: Run) -> dict[str, Levels]:
    """Return readers alone and beside the writer, under each level."""
    every = [(name, at, end) for name, at in run.rows(*run.further).items() for end in WHERE]
    return {f"{WHERE[end]}, {name}".removesuffix(", "): {**at, "workload": f"readers{end}"}
            for name, at, end in every}  # fmt: skip


STORY = Story(
    names={f"{one}{end}": f"{SHORT[one]}, {WHERE[end]}" for one in SHORT for end in WHERE},
    any_factors=True,
    figures=lambda _: {
        "p99 wait ms": loads.wait(99),
        "p50 wait ms": loads.wait(50),
        BULK: lambda cell: side.bytes_per_s / 1e6 if (side := cell.write or cell.read) else None,
    },
    headline=headline,
    table=Grid(rows, columns, "readers"),
    caveats=lambda run: loads.fell_behind(run.summary.done) if rows(run) else [],
    plots=[
        Percentiles(lines, (50, 99, 99.9, 99.99)),
        Bars(lambda run: run.rows(*run.further),
             [Column(where, "p99 wait ms", {"workload": f"readers{end}"}, whole=True)
              for end, where in WHERE.items()]),
    ],
    beside=beside,
    reading=lambda run: [
        "Readers read 4 KiB: at full speed with one read under way, or 100 times a second by a"
        " clock of their own, whatever became of the reads before; these wait from the instant"
        " at which a read is due, and up to 64 are under way. The bulk writer has 16 of 1 MiB."
        f" Each job has a connection of its own{run.hosts}.",
        "Waits in the first table are means of the repeats' percentiles, as their ratios are.",
        "dontcache is a way of caching of Linux's server from 6.18 on, which `--setting` can"
        " set there. Unless it does, our writes are as the server caches them by default.",
    ],
    places={"guest": GuestPlace(differs=_GUEST_DIFFERS)},
    factors={"workload": Factor([*WORKLOADS], quick=[*WORKLOADS][:3])},
    job=job,
    repeats=5,
)  # fmt: skip
