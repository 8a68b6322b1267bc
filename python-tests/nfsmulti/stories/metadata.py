# SPDX-License-Identifier: GPL-2.0-only
"""metadata: operations per second.

Nothing was published with it that could be repeated: rates of other hardware, such as 16,000 to
17,000 mkdirs/s on nfs-ganesha (its issue 1220). The run asks what this server does.

In the lab, on a pool, or (--mounts) in the kernel lab and on mounts of a pool's URLs: there fio's
filecreate, filestat and filedelete make one system call at a time in each of 1 to 32 jobs.
"""

from functools import partial

from nfsmulti import metadata, texts
from nfsmulti.lab import LabConfig
from nfsmulti.metadata import MOST, OPERATIONS, size_of
from nfsmulti.report import scaling
from nfsmulti.report.story import Section
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec, GuestPlace
from nfsmulti.story import At, Column, Factor, Grid, Levels, Lines, Options, Story

OWN: Levels = {"client": "engine"}
_DEPTH = 32
_PEER_JOBS = (1, 4, 16, _DEPTH)  # in the end as many calls under way as the engine has
# Entries for each second, of all jobs together: asked for again and again, or once by filestat;
# those of filecreate and filedelete end early where a mount does more.
_PER_S = {"uses": 2000, "makes": 5000, "removes": 500}
_FORGET = "echo 2 >/proc/sys/vm/drop_caches"  # names and attributes (admin-guide/sysctl/vm.rst)


def _usual(depths: list[int]) -> int:
    """Return the depth at which connections are varied, and mounts are compared."""
    return _DEPTH if _DEPTH in depths else max(depths, default=_DEPTH)


def _combinations(at: At) -> list[Levels]:
    """Return each depth with the fewest connections, one depth with more, and a mount's jobs."""
    depths, connections = (list(map(int, at.all(one))) for one in ("depth", "nconnect"))
    counts = [(one, connections[0]) for one in depths]
    counts += [(_usual(depths), number) for number in connections[1:]]
    found: list[Levels] = []
    for operation in map(str, at.all("operation")):
        known: Levels = {**OWN, "operation": operation, "jobs": 1}
        found += [{**known, "depth": each, "nconnect": number} for each, number in counts]
        if at.scale.choice.mounts and (peer := OPERATIONS[operation].peer):
            alone: Levels = {"client": peer, "depth": 1, "nconnect": min(connections)}
            found += [{**known, **alone, "jobs": jobs} for jobs in _PEER_JOBS]
    return found


def job(at: At) -> CellSpec:
    """Return a cell of the engine, or of fio's own engine, each of whose jobs has one call."""
    seconds, entries = at.seconds(1, 10), OPERATIONS[at.operation].entries
    uses, each = entries == "uses", round(_PER_S[entries] * seconds)
    time: Options = {"runtime": f"{round(1000 * seconds)}ms"}
    if at.client == "engine":
        lasts: Options = {
            "makes": {**time, **size_of(MOST)},
            "uses": {**time, **size_of(each), "time_based": True},
            "removes": {},
        }[entries]
        options = metadata.by_engine(at.operation, at.depth, at.nconnect)
        fields = {"query": at.query, "paths": 1 if at.scale.choice.mounts else at.pool.urls}
    else:
        lasts = time if entries == "makes" else {}
        options = metadata.by_peer(at.operation, at.jobs, each)
        mount = at.mount_options().removesuffix(",nconnect=1")  # which older kernels do not know
        fields = {"client": "mount", "mount_options": mount, "prerun": _FORGET * uses}
    file = f"metadata-{'stat' if uses else at.operation}.fio"
    return at.cell(file, options, seconds, lasts, entries=entries, **fields)


def deep(run: Run) -> Levels:
    """Return where depth was varied."""
    return {**OWN, "nconnect": min(run.counts("nconnect", OWN), default=1)}


def wide(run: Run) -> Levels:
    """Return where connections were."""
    return {**OWN, "depth": _usual(run.counts("depth", OWN))}


def rows(run: Run) -> dict[str, Levels]:
    """Return each operation, under each version."""
    return run.rows("operation", "version", at=OWN)


def columns(run: Run) -> list[Column]:
    """Return operations against depth, and what the most connections give at one of these."""
    depths, counts = run.counts("depth", deep(run)), run.counts("nconnect", wide(run))
    shown = [*depths[:3], *depths[3:][-1:]]
    found = [Column(f"{one} in flight", "IOPS", {**deep(run), "depth": one}) for one in shown]
    if len(counts) > 1:
        curve = run.curve("nconnect", wide(run))
        first, last = ({**wide(run), "nconnect": counts[end]} for end in (0, -1))
        heading = f"{curve.total(counts[-1])} connections, times {curve.total(counts[0])}"
        found.append(Column(heading, "IOPS", last, first, plain=True))
    return found


def peer(run: Run, at: Levels) -> Levels:
    """Return the jobs of fio's own engine that do most of an operation on a mount, if any do."""
    same = {"operation": at["operation"], "version": at["version"]}
    jobs = run.rows("jobs", "nconnect", at={**same, "client": metadata.operation(at).peer})
    best = jobs.get(run.best("IOPS", jobs))
    return {**best, "depth": 1} if best else {}


def pairs(run: Run) -> dict[str, Levels]:
    """Return what was measured on a mount as well, both with as few connections as there are."""
    found = {name: {**one, **wide(run), **deep(run)} for name, one in rows(run).items()}
    return {name: ours for name, ours in found.items() if run.at(ours) and peer(run, ours)}


def tables(run: Run) -> list[Grid]:
    """Return a table of depths and connections, and one beside mounts, as far as there are any."""
    mount = partial(peer, run)
    both = [
        Column("nfsmulti", "IOPS"),
        Column("kernel mount", "IOPS", mount),
        Column("times the mount", "IOPS", to=mount, plain=True),
        Column("CPU/op, times the mount's", "machine CPU µs/op", to=mount, plain=True),
    ]
    beside = [Grid(pairs(run), both, "op/s")] * bool(pairs(run))
    alone = beside and len(columns(run)) == 1  # a depth, which both have
    return [*([] if alone else [Grid(rows(run), columns(run), "op/s")]), *beside]


def headline(run: Run) -> str:
    """Return the rate of each operation, of the first version, and where all stop growing."""
    version = (run.levels("version", OWN) or [""])[0]
    every = run.rows("operation", at={**OWN, "version": version})
    curves = [run.curve("depth", {**one, **deep(run)}, "IOPS") for one in every.values()]
    # Of a run that was interrupted an operation may have been done with other connections alone.
    drawn = [curve for curve in curves if curve.counts]
    if not drawn:
        return run.incomplete("cells of nfsmulti and of a mount")
    rates = [
        f"{texts.mean(curve.rate(scaling.chosen(curve)))} {metadata.operation(curve.levels).many}/s"
        for curve in drawn
    ]
    depths = texts.ends(map(scaling.chosen, drawn), str)
    words = f"{texts.several(rates)} with {depths} in flight"
    times = [run.ratio("IOPS", ours, {**ours, **peer(run, ours)}) for ours in pairs(run).values()]
    if told := [f"{ratio.value:.3g}" for ratio in times if ratio]:
        return f"{words}: {texts.several(told[:3])} times the kernel mount."
    known = {scaling.End.KNEE: "; more gain nothing", scaling.End.RISING: ", still rising"}
    end, *others = {scaling.knee(curve).end for curve in drawn}
    return f"{words}{'' if others else known.get(end, '')}."


_PEERS = (
    "Each of fio's jobs makes one system call after the other; the number of jobs that is fastest"
    " counts. The mount has the kernel's default caches, and as many connections as nfsmulti."
    " fio's set-up looks each file up before filestat begins; the kernel's cache of names is"
    " emptied in between, so that the first stat of a file asks the server, as nfsmulti does."
)
READING = [
    f"{scaling.RULE} The same holds of depths.",
    "Depth is how many operations a job has under way, over all its connections. Each cell"
    " makes its entries, all in one directory, and removes them afterwards; neither counts."
    f" getattr and lookup take entries at random, {_PER_S['uses']:,} for each second of a cell. A"
    " GETATTR goes by the entry's handle, which a LOOKUP before the first one finds; both are one"
    " operation.",
]


STORY = Story(
    headline=headline,
    table=lambda run: tables(run)[0],
    more=lambda run: [
        Section("Beside fio's own engines on a kernel mount", tables=[run.table(one)])
        for one in tables(run)[1:]
    ],
    caveats=lambda run: [
        "Both sides ran on the same client; on the mount, a job makes one call at a time."
    ] * bool(pairs(run)),
    plots=[
        Lines("depth", ["operation"], ["IOPS", "machine CPU µs/op", "p99 ms"], ["version"],
              at=deep),
        Lines("nconnect", ["operation"], ["IOPS"], ["version"], at=wide),
    ],
    reading=lambda run: [*READING, *([_PEERS] if pairs(run) else [])],
    differs="In the lab, the server is on the same machine.",
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
    urls_alone="its operations do not go over a mount",
)  # fmt: skip
