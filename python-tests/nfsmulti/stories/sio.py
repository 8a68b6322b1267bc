# SPDX-License-Identifier: GPL-2.0-only
"""sio: concurrency by I/O mode.

Published: concurrent I/O for NFS on AIX 5.3 ML-03 and a NetApp FAS880 (2005): one 256 MiB file,
NFSv3, TCP, 32 KiB RPCs, Gigabit Ethernet, MTU 1500. Concurrent I/O was no gain, or a loss, for one
sequential thread, and a large gain over buffered and direct I/O at high concurrency; CPU per
operation rose with contention on the one TCP socket.

buffered and direct are a kernel mount, which all threads share; concurrent gives each thread a
connection of its own. The file has twice the client's memory: its page cache cannot stand in for
NFS. A sequential thread has its own part of the file, round and round.
"""

from nfsmulti import texts
from nfsmulti.lab.guest import Mount
from nfsmulti.report.told import Run, finding
from nfsmulti.scenario import CellSpec, GuestPlace
from nfsmulti.story import At, Claim, Column, Factor, Grid, Levels, Lines, Story

DIRECT = {"buffered": 0, "direct": 1}
MODES = [*DIRECT, "concurrent"]
WORKLOADS: dict[str, Levels] = {
    f"{pattern} {direction}s": {"pattern": pattern, "direction": direction}
    for pattern in ("sequential", "random")
    for direction in ("read", "write")
}
BYTES = 256 << 20
HIGH = 16  # threads from which on concurrency is high
# The publication names no figures, so these are ours: what is no gain, and what is a large one.
NO_GAIN, LARGE = 1.05, 1.5
CACHEABLE, CACHED = "random reads", 2  # times direct: the cache answers more than it can hold
GUEST_DIFFERS = (
    "Published over a link of 1 Gbit/s with an MTU of 1500: here client and server are one guest,"
    " whose loopback has no limit.",
    "Published with AIX as the client, whose direct I/O holds a lock for each file.",
    f"The client has {BYTES >> 21} MiB of memory, page cache included, by a control group.",
)


def _whole(at: At) -> int:
    """Return what twice the client's memory takes, in MiB, on a user's pool."""
    return max(BYTES, 2 * at.pool.memory >> 20 << 20)


def _left_out(at: At) -> list[str]:
    if not at.pool.mounts:
        return ["buffered and direct need a kernel mount: add its directory to the pool"]
    return [
        f"a file of twice this client's memory (--size={_whole(at) >> 20}m): its page cache may"
        f" answer buffered reads of --quick's {BYTES >> 20} MiB"
    ] * at.scale.quick


def job(at: At) -> CellSpec:
    """Return `at.threads` jobs in a mode."""
    mounted, sequential = at.mode in DIRECT, at.pattern == "sequential"
    size = _whole(at) if at.pool.mounts and not at.scale.quick else BYTES
    options = {"numjobs": at.threads, "size": size, "direct": DIRECT.get(at.mode, 1)}
    if sequential and at.threads > 1:
        options |= {"size": size // at.threads, "offset_increment": size // at.threads}
    if at.direction == "write":
        # What is written counts when it is on the server, and replaces what is there.
        options |= {"rw": "write" if sequential else "randwrite", "end_fsync": 1, "overwrite": 1}
    if mounted:
        options["ioengine"] = "psync"
    return at.cell(
        f"sio-{at.pattern}.fio",
        options,
        at.seconds(3, 4),
        client="mount" if mounted else "pool",
        mounts="mount" if mounted else "",
        paths=1 if mounted else min(at.pool.urls or at.pool.mounts, at.threads),
        files={"nfsmulti-sio": size},
        # Each connects first: without a common begin the first would be done before the last.
        prerun=":" if at.threads > 1 else "",
    )


def _most(run: Run) -> int:
    return max(run.counts("threads"), default=0)


def _each(
    over: tuple[str, int], under: tuple[str, int], having: str = ""
) -> dict[str, tuple[Levels, Levels]]:
    """Return two modes with so many threads, of each workload whose name has these words."""
    sides: list[Levels] = [{"mode": mode, "threads": number} for mode, number in (over, under)]
    every = {name: at for name, at in WORKLOADS.items() if having in name and over != under}
    return {name: ({**at, **sides[0]}, {**at, **sides[1]}) for name, at in every.items()}


def _large(run: Run, other: str) -> Claim:
    """Return what concurrent I/O gains over another mode at high concurrency."""
    most = _most(run)
    why = "AIX's direct I/O locks each file, and Linux's does not" if other == "direct" else ""
    if most < HIGH:
        why = f"it needs {HIGH} threads or more"
    each = _each(("concurrent", most), (other, most))
    if other == "buffered" and _from_cache(run):
        del each[CACHEABLE]
    what = f"concurrent against {other}, {most or 'most'} threads"
    return Claim(what, "a large gain", measure="IOPS", each=each, above=LARGE, why=why)


def claims(run: Run) -> list[Claim]:
    """Return what was published; of several workloads the weakest decides."""
    found = []
    for other in DIRECT:
        alone = _each(("concurrent", 1), (other, 1), "sequential")
        what = f"concurrent against {other}, 1 thread"
        found.append(Claim(what, "no gain, or a loss", measure="IOPS", each=alone, below=NO_GAIN))
        found.append(_large(run, other))
    most = _most(run)
    what = f"CPU per operation on one mount, {most or 'most'} threads against 1"
    rises = _each(("direct", most), ("direct", 1))
    return [*found, Claim(what, "rises", each=rises, measure="CPU µs/op", above=1)]


def _from_cache(run: Run) -> bool:
    """Tell whether the client's page cache answered most buffered reads in the server's place.

    The server did not see most of those that do far more than O_DIRECT's on the same mount.
    """
    most = _most(run)
    ratio = run.ratio("IOPS", *_each(("buffered", most), ("direct", most))[CACHEABLE])
    return ratio is not None and ratio.above(CACHED) is True


def headline(run: Run) -> str:
    """Tell concurrent I/O in times the other modes, with the most threads."""
    most, told = _most(run), []
    for other in DIRECT:
        each = _each(("concurrent", most), (other, most)).values()
        if times := texts.span([run.ratio("IOPS", *sides) for sides in each]):
            told.append(f"{times} times {other}")
    if not told:
        return run.incomplete("concurrent and other I/O")
    words = f"{texts.several(told)} I/O: concurrent, {most} threads"
    if not run.own:  # a user's page does not show what was published
        verdict = finding(run, _large(run, "buffered")).judged.verdict
        words += f"; the published large gain is {verdict}"
    return f"{words}."


def columns(run: Run) -> list[Column]:
    """Return what each mode does with the most threads, and concurrent I/O in times the others."""
    at: dict[str, Levels] = {mode: {"mode": mode, "threads": _most(run)} for mode in MODES}
    return [Column(mode, "IOPS", at[mode]) for mode in MODES] + [
        Column(f"times {other}", "IOPS", at["concurrent"], to=at[other]) for other in DIRECT
    ]


STORY = Story(
    headline=headline,
    table=Grid(
        lambda run: {name: at for name, at in WORKLOADS.items() if run.at(at)},
        columns,
        lambda run: f"IOPS, {_most(run)} threads",
    ),
    caveats=lambda run: (
        ["Buffered random reads came out of the client's page cache, not over NFS."]
        * _from_cache(run)
    ),
    plots=[Lines("threads", ["mode"], ["IOPS", "CPU µs/op"], panels=["pattern", "direction"])],
    claims=claims,
    reading=[
        "buffered: a kernel mount through its page cache; direct: the same mount with O_DIRECT,"
        " all threads on it; concurrent: a connection of the pool for each thread. Sequential"
        " I/Os have 32 KiB, random ones 8 KiB; writes count when they are on the server.",
        "The file has twice the client's memory, unless --quick or --size chose a smaller one:"
        " its page cache answers half of random buffered reads at most.",
        "A gain counts as none if its whole interval lies below 5 %, as large if it lies above"
        " 1.5 times; an interval that spans the limit is inconclusive.",
    ],
    differs="The original's server was a filer with disks, over Gigabit Ethernet with an MTU of"
    " 1500.",
    places={
        "guest": GuestPlace(
            # The publication's RPCs had 32 KiB.
            {"mount": (Mount("/mnt/tcp3", ("vers=3", "proto=tcp", "rsize=32768", "wsize=32768")),)},
            client_memory=BYTES // 2,
            differs=GUEST_DIFFERS,
        )
    },
    factors={
        "mode": Factor(lambda at: MODES if at.pool.mounts else ["concurrent"]),
        "pattern": Factor(["sequential", "random"]),
        "direction": Factor(["read", "write"]),
        "threads": Factor([1, 8, 32], quick=[1, 16]),
    },
    job=job,
    left_out=_left_out,
)
