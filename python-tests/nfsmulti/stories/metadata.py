# SPDX-License-Identifier: GPL-2.0-only
"""metadata: operations per second.

Published, and beside ours for orientation alone: 16,000 to 17,000 mkdirs/s on nfs-ganesha (its
issue 1220), and 15,600 creates/s of a user-space server on loopback, each on hardware of its own.
No publication is reproduced: the run asks what this server does.

How many creates, stats, lookups and removes per second, and what ends that? In the lab, on a pool,
or (--mounts) in the kernel lab and on mounts of a pool's URLs: there fio's filecreate, filestat and
filedelete make one system call at a time in each of 1 to 32 jobs. fio's set-up looks each file up
before filestat begins: the kernel's cache is emptied in between, so that filestat, like the engine,
asks the server for each file.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from nfsmulti import texts
from nfsmulti.lab import LabConfig
from nfsmulti.report import cells, measures, scaling
from nfsmulti.report.answer import MOST_ROWS
from nfsmulti.report.story import Section
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec, Entries, GuestPlace
from nfsmulti.story import (
    At,
    Claim,
    Column,
    Factor,
    Grid,
    Level,
    Levels,
    Lines,
    Page,
    Story,
)
from nfsmulti.texts import Table


@dataclasses.dataclass(frozen=True)
class _Operation:
    """A job file, what it is given, and fio's engine that does the same, "" where there is none."""

    jobfile: str
    options: dict[str, Level | None]
    entries: Entries
    peer: str
    many: str  # in a sentence


OPERATIONS = {
    "create": _Operation(
        "metadata-create.fio", {"meta_write": "create"}, "makes", "filecreate", "creates"
    ),
    "getattr": _Operation("metadata-stat.fio", {"meta_read": "getattr"}, "uses", "", "GETATTRs"),
    "lookup": _Operation(
        "metadata-stat.fio", {"meta_read": "lookup"}, "uses", "filestat", "LOOKUPs"
    ),
    "remove": _Operation(
        "metadata-remove.fio", {"meta_write": "remove"}, "removes", "filedelete", "removes"
    ),
}
ENGINE = "engine"
MOST = 1 << 20  # entries of a cell that makes them; those that it has no time for are not made
_DEPTH = 32
_PEER_JOBS = (1, 4, 16, _DEPTH)  # in the end as many calls under way as the engine has
# Entries for each second, of all jobs together: those that are asked for, again and again by the
# engine, once by filestat; and filecreate's and filedelete's, which end early where a mount does
# more. Those of filedelete are laid out first.
_PER_S = {"uses": 2000, "makes": 5000, "removes": 500}
# Options of the job files that fio's own engines do without.
_OURS = (
    "metadata", "meta_read", "meta_write", "tree_depth", "iodepth", "nconnect", "spread",
    "norandommap", "size", "time_based", "runtime",
)  # fmt: skip
_FORGET = "echo 2 >/proc/sys/vm/drop_caches"  # names and attributes (admin-guide/sysctl/vm.rst)


def size_of(entries: int) -> dict[str, Level | None]:
    """Return the size of a job on so many entries: 1 KiB stands for one, as in fio's logs."""
    return {"size": f"{entries}k"}


def _combinations(at: At) -> list[Levels]:
    """Return each depth with the fewest connections, one depth with more, and a mount's jobs."""
    depths, connections = at.all("depth"), at.all("nconnect")
    depth = _DEPTH if _DEPTH in depths else max(map(int, depths))
    counts = [(one, connections[0]) for one in depths]
    counts += [(depth, number) for number in connections[1:]]
    found: list[Levels] = []
    for operation in map(str, at.all("operation")):
        known: Levels = {"operation": operation, "client": ENGINE, "jobs": 1}
        found += [{**known, "depth": each, "nconnect": number} for each, number in counts]
        peer = OPERATIONS[operation].peer if at.scale.choice.mounts else ""
        if peer:
            known = {**known, "client": peer, "depth": 1, "nconnect": min(map(int, connections))}
            found += [{**known, "jobs": jobs} for jobs in _PEER_JOBS]
    return found


def job(at: At) -> CellSpec:
    """Return a cell of the engine; or of fio's own engine, each of whose jobs has one call."""
    what, seconds = OPERATIONS[at.operation], at.seconds(1, 10)
    runtime: dict[str, Level | None] = {"runtime": f"{round(1000 * seconds)}ms"}
    if at.client != ENGINE:
        return _of_fio(at, what, seconds, runtime)
    lasts = {
        "makes": {**runtime, **size_of(MOST)},
        "uses": {**runtime, **size_of(round(_PER_S["uses"] * seconds)), "time_based": True},
        "removes": {},
    }
    return at.cell(
        what.jobfile,
        {"metadata": 1, **what.options, "bs": "1k", "tree_depth": 0, "iodepth": at.depth,
         "nconnect": at.nconnect, "spread": "roundrobin"},
        seconds,
        lasts[what.entries],
        entries=what.entries,
        query=at.query,
        paths=1 if at.scale.choice.mounts else at.pool.urls,
    )  # fmt: skip


def _of_fio(at: At, what: _Operation, seconds: float, runtime: dict[str, Level | None]) -> CellSpec:
    uses = what.entries == "uses"
    return at.cell(
        what.jobfile,
        {**dict.fromkeys(_OURS), "ioengine": at.client, "numjobs": at.jobs, "bs": "1k",
         "filesize": "1k", "rw": "read" if uses else "write", "openfiles": 1, "fallocate": "none",
         "nrfiles": max(1, round(_PER_S[what.entries] * seconds) // at.jobs)},
        seconds,
        runtime if what.entries == "makes" else {},
        entries=what.entries,
        client="mount",
        mount_options=at.mount_options().removesuffix(",nconnect=1"),  # older kernels lack it
        prerun=_FORGET if uses else "",
    )  # fmt: skip


def _left_out(at: At) -> list[str]:
    return ["directories: the operations go to URLs alone"] * bool(at.pool.mounts)


OWN = {"client": ENGINE}
# What this project wants beside fio's engines on a mount: times their operations, and their CPU.
WANTED = (
    ("create", "IOPS", 2.0),
    ("lookup", "IOPS", 3.0),
    ("lookup", "machine CPU µs/op", 0.5),
)
PUBLISHED = (
    ("mkdir on nfs-ganesha (its issue 1220)", "16,000 to 17,000 mkdirs/s", "create"),
    ("creates of a user-space server on loopback", "15,600 operations/s", "create"),
)
MOST_DEPTHS = 4  # in a table
Pairs = dict[str, tuple[Levels, Levels]]


def where(run: Run, along: str) -> Levels:
    """Return where a factor was varied: at one level of the other alone, of both the fewest."""
    other = {"depth": "nconnect", "nconnect": "depth"}[along]
    at = max(
        run.counts(other, OWN), default=1,
        key=lambda one: (len(run.counts(along, {**OWN, other: one})), -one),
    )  # fmt: skip
    return {**OWN, other: at}


def rows(run: Run) -> dict[str, Levels]:
    """Return each operation, under each version."""
    several = len(run.levels("version")) > 1
    return {
        f"{one['operation']}{f' v{version}' * several}": one
        for one in run.combinations("operation", "version")
        if (version := one["version"]) and run.at({**one, **OWN})
    }


def columns(run: Run) -> list[Column]:
    """Return operations against depth, and what the most connections give at one of these."""
    at, wide = where(run, "depth"), where(run, "nconnect")
    depths, counts = run.counts("depth", at), run.counts("nconnect", wide)
    if len(depths) > MOST_DEPTHS:
        depths = [*depths[: MOST_DEPTHS - 1], depths[-1]]
    found = [Column(f"{one} in flight", "IOPS", {**at, "depth": one}) for one in depths]
    if len(counts) > 1:
        curve = run.curve("nconnect", wide)
        first, last = ({**wide, "nconnect": counts[end]} for end in (0, -1))
        heading = f"{curve.total(counts[-1])} connections, times {curve.total(counts[0])}"
        found.append(Column(heading, "IOPS", last, first, plain=True))
    return found


def pairs(run: Run) -> Pairs:
    """Return what was measured on a mount as well: the engine's levels, and the best jobs' there.

    Both have as few connections as were measured.
    """
    found: Pairs = {}
    for name, one in rows(run).items():
        nconnect = min(run.counts("nconnect", {**one, **OWN}))
        ours: Levels = {**one, **OWN, "nconnect": nconnect}
        depths = run.counts("depth", ours)
        mount: Levels = {**one, "client": OPERATIONS[str(one["operation"])].peer}
        means = {
            jobs: rate.mean
            for jobs in run.counts("jobs", mount)
            if (rate := run.sample("IOPS", {**mount, "jobs": jobs}))
        }
        if means:
            best = max(means, key=lambda jobs: means[jobs])
            depth = _DEPTH if _DEPTH in depths else depths[-1]
            found[name] = {**ours, "depth": depth}, {**mount, "jobs": best}
    return found


def peers_table(run: Run) -> Table:
    """Lay out both sides of each pair."""
    lines = [
        [
            name,
            *(texts.measured(run.sample("IOPS", side)) for side in (ours, theirs)),
            str(theirs["jobs"]),
            *(texts.times(run.ratio(one, ours, theirs)) for one in ("IOPS", "machine CPU µs/op")),
        ]
        for name, (ours, theirs) in pairs(run).items()
    ]
    headings = [
        "op/s", "nfsmulti", "kernel mount", "mount's jobs", "times the mount",
        "CPU/op, times the mount's",
    ]  # fmt: skip
    return Table(headings, lines[:MOST_ROWS])


def by_depth(run: Run) -> bool:
    """Tell whether several depths, or connections, are the answer's."""
    return len(columns(run)) > 1 or not pairs(run)


def table(run: Run) -> Table:
    """Lay the answer out."""
    return run.table(Grid(rows, columns, "op/s")) if by_depth(run) else peers_table(run)


def beside_mounts(run: Run) -> list[Section]:
    """Return the other table, where there are both."""
    title = "Beside fio's own engines on a kernel mount"
    return [Section(title, tables=[peers_table(run)])] if pairs(run) and by_depth(run) else []


def headline(run: Run) -> str:
    """Return the rate of each operation, of the first version, and where all stop growing."""
    at, first = where(run, "depth"), (run.levels("version", OWN) or [""])[0]
    every = {
        str(one["operation"]): run.curve("depth", {**at, **one}, "IOPS")
        for one in rows(run).values()
        if one["version"] == first
    }
    # Of a run that was interrupted an operation may have been done with other connections alone.
    drawn = {name: curve for name, curve in every.items() if curve.counts}
    if not drawn:
        return "No cell of nfsmulti is done."
    rates = [
        f"{texts.mean(curve.rate(scaling.chosen(curve)))} {OPERATIONS[name].many}/s"
        for name, curve in drawn.items()
    ]
    counts = sorted({scaling.chosen(curve) for curve in drawn.values()})
    ends = " to ".join(map(str, (counts[0], counts[-1])[: len(counts)]))
    words = f"{texts.several(rates)} with {ends} in flight"
    times = [run.ratio("IOPS", *sides) for sides in pairs(run).values()]
    if told := [f"{ratio.value:.3g}" for ratio in times if ratio]:
        return f"{words}: {texts.several(told[:3])} times the kernel mount."
    known = {scaling.End.KNEE: "; more gain nothing", scaling.End.RISING: ", still rising"}
    found = {scaling.knee(curve).end for curve in drawn.values()}
    return f"{words}{known.get(next(iter(found)), '') if len(found) == 1 else ''}."


def claims(run: Run) -> Iterator[Claim]:
    """Yield what this project wants beside a mount; published rates are none."""
    every, both = run.summary.cells, pairs(run)
    versions, operations = (cells.levels(every, one) for one in ("version", "operation"))
    for version, (operation, measure, limit) in itertools.product(versions, WANTED):
        if operation not in operations:
            continue
        peer = OPERATIONS[operation].peer
        pair = next(
            (sides for sides in both.values()
             if (sides[0]["operation"], sides[0]["version"]) == (operation, version)), None
        )  # fmt: skip
        planned = any(
            (one.factors["client"], one.factors["version"]) == (peer, version) for one in every
        )
        why = "no kernel mount: --mounts makes one"
        if planned:
            why = "no cell of nfsmulti, or none on the kernel mount, is done"
        ours, theirs = pair or ({"depth": _DEPTH, "nconnect": 1}, None)
        at = f"depth {ours['depth']}"
        at += f", nconnect={ours['nconnect']}" if int(ours["nconnect"]) > 1 else ""
        cpu = ": CPU per operation" * (measure != "IOPS")
        bound = "at most" if cpu else "at least"
        yield Claim(
            f"{operation} at {at} beside fio's {peer} on a kernel mount, NFSv{version}{cpu}",
            f"none; wanted: {bound} {limit:g} times",
            ours, theirs, measure, wanted=True,
            above=0 if cpu else limit, below=limit if cpu else 0,
            why="" if pair else why, ours=texts.MISSING,
        )  # fmt: skip
    for what, said, operation in PUBLISHED if every else ():
        groups = cells.by_name(run.at({"operation": operation, **OWN}))
        rates = [rate for one in groups.values() if (rate := cells.sample(one, measures.IOPS))]
        best = max(rates, key=lambda one: one.mean, default=None)
        text = texts.mean(best, f"{OPERATIONS[operation].many}/s")
        yield Claim(
            what, said, ours=text,
            why="a rate was published and no ratio: it takes the same hardware, client and server",
        )  # fmt: skip


PEERS = (
    "Each of fio's jobs makes one system call after the other; the number of jobs that is fastest"
    " counts. The mount has the kernel's default caches, and as many connections as nfsmulti."
    " fio's set-up looks each file up before filestat begins; the kernel's cache of names and"
    " attributes is emptied in between (drop_caches), so that the first stat of a file asks the"
    " server, by one LOOKUP, as nfsmulti does."
)
READING = [
    f"{scaling.RULE} The same holds of depths.",
    "Depth is how many operations a job has under way, over all its connections. Each cell"
    " makes its entries, all in one directory, and removes them afterwards; neither counts."
    " Creates and removes go on for as long as other cells do, on as many entries as there"
    f" is time for; getattr and lookup take entries at random, {_PER_S['uses']:,} for each"
    " second of a cell. A GETATTR goes by the entry's handle, which a LOOKUP before the"
    " first one finds; both are one operation.",
]
MOUNTED = "Both sides ran on the same client; on the mount, a job makes one call at a time."

PAGE = Page(
    about=__doc__,
    headline=headline,
    table=table,
    caveats=lambda run: [MOUNTED] * bool(pairs(run)),
    plots=[
        Lines("depth", ["operation"], ["IOPS", "machine CPU µs/op", "p99 ms"], ["version"],
              at=lambda run: where(run, "depth")),
        Lines("nconnect", ["operation"], ["IOPS"], ["version"],
              at=lambda run: where(run, "nconnect")),
    ],
    more=beside_mounts,
    claims=claims,
    reading=lambda run: [*READING, *([PEERS] if pairs(run) else [])],
    differs="In the lab, the server is on the same machine.",
)  # fmt: skip

STORY = Story(
    name="metadata",
    page=PAGE,
    places={"lab": LabConfig(addresses=1), "guest": GuestPlace()},
    place="limits",
    factors={
        "limits": Factor(),
        "operation": Factor([*OPERATIONS], asked="workload"),
        "version": Factor(),
        "client": Factor(),
        "jobs": Factor(),
        "depth": Factor([1, 8, 32, 128], quick=[1, 32, 128], asked="depth"),
        "nconnect": Factor([1, 2, 4, 8], quick=[1, 4], asked="nconnect"),
    },
    combinations=_combinations,
    job=job,
    without_urls="metadata operations need URLs in the pool",
    left_out=_left_out,
)
