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

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from nfsmulti import texts
from nfsmulti.lab.guest import Mount
from nfsmulti.report import conditions
from nfsmulti.report.measures import CPU
from nfsmulti.report.story import Finding, Judged, Verdict, beyond, untestable, weakest
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec, GuestPlace
from nfsmulti.stats import Ratio
from nfsmulti.story import At, Column, Factor, Grid, Levels, Lines, Page, Story

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
VARIED = 0.3  # half of an interval, in times the mean, from which on it is warned of
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


def _ratio(
    run: Run, workload: str, over: tuple[str, int], under: tuple[str, int], measure: str = "IOPS"
) -> Ratio | None:
    """Return a figure of a mode with so many threads as a multiple of another's."""
    sides = ({**WORKLOADS[workload], "mode": mode, "threads": n} for mode, n in (over, under))
    return run.ratio(measure, *sides) if over != under else None


def _gain(run: Run, workload: str, other: str, threads: int) -> Ratio | None:
    """Return concurrent I/O as a multiple of another mode's."""
    return _ratio(run, workload, ("concurrent", threads), (other, threads))


def findings(run: Run) -> Iterator[Finding]:
    """Judge the published findings; one of several workloads has the verdict of the weakest."""
    most = _most(run)
    for other in DIRECT:
        name = f"concurrent against {other}"
        alone = {one: _gain(run, one, other, 1) for one in WORKLOADS if "sequential" in one}
        yield _finding(
            f"{name}, 1 thread", "no gain, or a loss", alone,
            lambda gain: beyond(gain, NO_GAIN, below=True),
        )  # fmt: skip
        gains = {one: _gain(run, one, other, most) for one in WORKLOADS}
        if other == "buffered" and _from_cache(run):
            gains[CACHEABLE] = None
        judge = functools.partial(_large_gain, other=other, threads=most)
        yield _finding(f"{name}, {most or 'most'} threads", "a large gain", gains, judge)
    name = f"CPU per operation on one mount, {most or 'most'} threads against 1"
    rises = {one: _ratio(run, one, ("direct", most), ("direct", 1), CPU) for one in WORKLOADS}
    yield _finding(name, "rises", rises, lambda rise: beyond(rise, 1))


def _finding(
    name: str, theirs: str, ratios: dict[str, Ratio | None], judge: Callable[[Ratio | None], Judged]
) -> Finding:
    """Judge by the workloads that were measured; name the one that decides where they differ."""
    found = {workload: ratio for workload, ratio in ratios.items() if ratio}
    every = {workload: judge(ratio) for workload, ratio in found.items()}
    judged = weakest(list(every.values())) if every else beyond(None, 1)
    if len({one.why for one in every.values()}) > 1:
        deciding = next(workload for workload, one in every.items() if one is judged)
        judged = replace(judged, why=f"{deciding}: {judged.why}")
    ours = ", ".join(f"{workload} {ratio.text}" for workload, ratio in found.items())
    return Finding(name, theirs, ours or texts.MISSING, judged)


def _large_gain(gain: Ratio | None, other: str, threads: int) -> Judged:
    """Judge what concurrent I/O gains over another mode at high concurrency."""
    if threads < HIGH:
        return Judged(Verdict.INCONCLUSIVE, f"it needs {HIGH} threads or more")
    if other == "direct":
        return untestable("AIX's direct I/O locks each file, and Linux's does not")
    return beyond(gain, LARGE)


def _from_cache(run: Run) -> bool:
    """Tell whether the client's page cache answered most buffered reads in the server's place.

    Read-ahead does not help random reads: where they do far more than those of O_DIRECT on the same
    mount, the server did not see them. It happens where the file was chosen smaller.
    """
    most = _most(run)
    ratio = _ratio(run, CACHEABLE, ("buffered", most), ("direct", most))
    return ratio is not None and ratio.above(CACHED) is True


def _measured(run: Run) -> list[str]:
    return [name for name, at in WORKLOADS.items() if run.at(at)]


def headline(run: Run) -> str:
    """Tell concurrent I/O in times the other modes, with the most threads."""
    most = _most(run)
    spans = {
        one: texts.span([_gain(run, name, one, most) for name in _measured(run)]) for one in DIRECT
    }
    told = texts.several([f"{times} times {other}" for other, times in spans.items() if times])
    words = f"{told or 'No other'} I/O: concurrent, {most} threads"
    if run.summary.place.get("kind") != "pool":  # whose page does not show what was published
        large = next(one for one in findings(run) if one.theirs == "a large gain")
        words += f"; the published large gain is {large.judged.verdict}"
    return f"{words}."


def columns(run: Run) -> list[Column]:
    """Return what each mode does with the most threads, and concurrent I/O in times the others."""
    at: dict[str, Levels] = {mode: {"mode": mode, "threads": _most(run)} for mode in MODES}
    return [Column(mode, "IOPS", at[mode]) for mode in MODES] + [
        Column(f"times {other}", "IOPS", at["concurrent"], to=at[other]) for other in DIRECT
    ]


def caveats(run: Run) -> list[str]:
    """Warn of the page cache, and of figures that vary."""
    most, said = _most(run), []
    if _from_cache(run):
        said.append("Buffered random reads came out of the client's page cache, not over NFS.")
    every = [
        run.sample("IOPS", {**WORKLOADS[name], "mode": mode, "threads": most})
        for name, mode in itertools.product(_measured(run), MODES)
    ]
    varied = [one.interval[1] / one.mean - 1 for one in every if one and one.interval]
    if max(varied, default=0) > VARIED:
        said.append(f"Repeats vary: intervals are up to ± {100 * max(varied):.0f} %.")
    gains = [_gain(run, *of, most) for of in itertools.product(_measured(run), DIRECT)]
    return said + [texts.MAY_BE_ONE] * any(gain and gain.spans_one for gain in gains)


PAGE = Page(
    about=__doc__,
    headline=headline,
    table=Grid(
        lambda run: {name: WORKLOADS[name] for name in _measured(run)},
        columns,
        lambda run: f"IOPS, {_most(run)} threads",
    ),
    caveats=caveats,
    plots=[Lines("threads", ["mode"], ["IOPS", CPU], panels=["pattern", "direction"])],
    findings=findings,
    reading=[
        "buffered: a kernel mount through its page cache; direct: the same mount with O_DIRECT,"
        " all threads on it; concurrent: a connection of the pool for each thread. Sequential"
        " I/Os have 32 KiB, random ones 8 KiB; writes count when they are on the server.",
        "The file has twice the client's memory, unless --quick or --size chose a smaller one:"
        " its page cache answers half of random buffered reads at most.",
        "CPU per operation is the machine's, with a server that runs on it; where that was not"
        " taken, that of fio's jobs alone. It is left out where fio's start and end are too"
        " large a part of it.",
        "A gain counts as none if its whole interval lies below 5 %, as large if it lies above"
        " 1.5 times; an interval that spans the limit is inconclusive.",
    ],
    differs="The original's server was a filer with disks, over Gigabit Ethernet with an MTU of"
    f" 1500. {conditions.KERNEL_LAB}",
)

STORY = Story(
    name="sio",
    page=PAGE,
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
