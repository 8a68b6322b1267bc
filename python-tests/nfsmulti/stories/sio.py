# SPDX-License-Identifier: GPL-2.0-only
"""sio: concurrency by I/O mode.

Published: concurrent I/O for NFS on AIX 5.3 ML-03 and a NetApp FAS880 (2005): one 256 MiB file,
NFSv3, TCP, 32 KiB RPCs, Gigabit Ethernet, MTU 1500. Concurrent I/O was no gain, or a loss, for one
sequential thread, and a large gain over buffered and direct I/O at high concurrency; CPU per
operation rose with contention on the one TCP socket.

buffered and direct are a kernel mount, which all threads share; concurrent gives each thread a
connection of its own. The file has twice the client's memory: its page cache cannot stand in for
NFS. A sequential thread has its own part of the file, round and round.

Factors: mode (buffered, direct, concurrent), pattern (sequential, random), direction, threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from nfsmulti import texts
from nfsmulti.lab.guest import Mount
from nfsmulti.report import cells, charts, conditions, curves, measures
from nfsmulti.report.answer import Answer
from nfsmulti.report.curves import Axis, Curve
from nfsmulti.report.measures import Take
from nfsmulti.report.story import (
    Finding,
    Judged,
    Plot,
    Report,
    Section,
    Told,
    Verdict,
    beyond,
    untestable,
    weakest,
)
from nfsmulti.scenario import CellSpec, GuestPlace, OwnPool, Scale, timed
from nfsmulti.stats import Ratio
from nfsmulti.story import At, Factor, Story
from nfsmulti.summary import Cell, Summary
from nfsmulti.summary import Factor as Level
from nfsmulti.texts import Table

# --- what runs ---

_MODES = ("buffered", "direct", "concurrent")
_DIRECT = {"buffered": 0, "direct": 1}
_WORKLOADS = {
    f"{pattern} {direction}s": {"pattern": pattern, "direction": direction}
    for pattern in ("sequential", "random")
    for direction in ("read", "write")
}
_BYTES = 256 << 20
# The publication's RPCs had 32 KiB.
_MOUNT = Mount("/mnt/tcp3", ("vers=3", "proto=tcp", "rsize=32768", "wsize=32768"))
_GUEST_DIFFERS = (
    "Published over a link of 1 Gbit/s with an MTU of 1500: here client and server are one guest,"
    " whose loopback has no limit.",
    "Published with AIX as the client, whose direct I/O holds a lock for each file.",
    f"The client has {_BYTES >> 21} MiB of memory, page cache included, by a control group.",
)
_PLACES = {
    "guest": GuestPlace({"mount": (_MOUNT,)}, client_memory=_BYTES // 2, differs=_GUEST_DIFFERS)
}


def _size(scale: Scale, pool: OwnPool) -> int:
    """Return what twice the client's memory takes, on a user's pool, unless a quick look is."""
    return _BYTES if scale.quick else max(_BYTES, 2 * pool.memory >> 20 << 20)


def _left_out(scale: Scale, pool: OwnPool) -> list[str]:
    if not pool.mounts:
        return ["buffered and direct need a kernel mount: add its directory to the pool"]
    whole = _size(Scale(), pool)
    return [
        f"a file of twice this client's memory (--size={whole >> 20}m): its page cache may answer"
        f" buffered reads of --quick's {_BYTES >> 20} MiB"
    ] * scale.quick


def _job(at: At) -> CellSpec:
    seconds, mounted = at.seconds(3, 4), at.mode in _DIRECT
    size = _size(at.scale, at.pool) if at.pool.mounts else _BYTES
    sequential = at.pattern == "sequential"
    options: dict[str, Level | None] = {
        "numjobs": at.threads, "size": size, "direct": _DIRECT.get(at.mode, 1), **timed(seconds)
    }  # fmt: skip
    if sequential and at.threads > 1:
        options |= {"size": size // at.threads, "offset_increment": size // at.threads}
    if at.direction == "write":
        # What is written counts when it is on the server, and replaces what is there.
        options |= {"rw": "write" if sequential else "randwrite", "end_fsync": 1, "overwrite": 1}
    if mounted:
        options["ioengine"] = "psync"
    paths = at.pool.urls or at.pool.mounts
    return CellSpec(
        {}, "", f"sio-{at.pattern}.fio", options, seconds,
        client="mount" if mounted else "pool",
        mounts="mount" if mounted else "",
        paths=1 if mounted else min(paths, at.threads),
        files={"nfsmulti-sio": size},
        # Each connects first: without a common begin the first would be done before the last.
        prerun=":" if at.threads > 1 else "",
    )  # fmt: skip


# --- what it tells ---

_DIFFERS = (
    "The original's server was a filer with disks, over Gigabit Ethernet with an MTU of 1500."
    f" {conditions.KERNEL_LAB}"
)
_HIGH = 16  # threads from which on concurrency is high
# The publication names no figures, so these are ours: what is no gain, and what is a large one.
_NO_GAIN, _LARGE = 1.05, 1.5
_LARGE_GAIN = "a large gain"
_CACHEABLE = "random reads"
_CACHED = 2  # times direct reads: the cache then answers more than the half that it can hold
_VARIED = 0.3  # half of an interval, in times the mean, from which on it is warned of
_DIP = 0.9  # times what fewer threads do, from which on down it is explained
_FULL = 0.95  # of the processors' time, from which on they are the limit


def _find(summary: Summary, workload: str, mode: str, threads: int) -> list[Cell]:
    return cells.having(summary, **_WORKLOADS[workload], mode=mode, threads=threads)


def _threads(summary: Summary) -> list[int]:
    return cells.counts(summary.done, "threads")


def _ratio(
    summary: Summary,
    workload: str,
    over: tuple[str, int],
    under: tuple[str, int],
    measure: Take = measures.IOPS,
) -> Ratio | None:
    """Return a figure of a mode with so many threads as a multiple of another's."""
    sides = _find(summary, workload, *over), _find(summary, workload, *under)
    return cells.ratio(*sides, measure) if over != under else None


def _gain(summary: Summary, workload: str, other: str, threads: int) -> Ratio | None:
    """Return concurrent I/O as a multiple of another mode's."""
    return _ratio(summary, workload, ("concurrent", threads), (other, threads))


def findings(summary: Summary) -> list[Finding]:
    """Judge the published findings; one of several workloads has the verdict of the weakest."""
    most = max(_threads(summary), default=0)
    many = f"{most or 'most'} threads"
    found = []
    for other in _DIRECT:
        name = f"concurrent against {other}"
        alone = {one: _gain(summary, one, other, 1) for one in _WORKLOADS if "sequential" in one}
        judge = partial(beyond, limit=_NO_GAIN, below=True)
        found.append(_finding(f"{name}, 1 thread", "no gain, or a loss", alone, judge))
        gains = {one: _gain(summary, one, other, most) for one in _WORKLOADS}
        if other == "buffered" and _from_cache(summary):
            gains[_CACHEABLE] = None
        judge = partial(_large_gain, other=other, threads=most)
        found.append(_finding(f"{name}, {many}", _LARGE_GAIN, gains, judge))
    cost = cells.cpu_measure(summary.done)
    rises = {one: _ratio(summary, one, ("direct", most), ("direct", 1), cost) for one in _WORKLOADS}
    name = f"CPU per operation on one mount, {many} against 1"
    return [*found, _finding(name, "rises", rises, partial(beyond, limit=1))]


def _finding(
    name: str,
    theirs: str,
    ratios: Mapping[str, Ratio | None],
    judge: Callable[[Ratio | None], Judged],
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
    if threads < _HIGH:
        return Judged(Verdict.INCONCLUSIVE, f"it needs {_HIGH} threads or more")
    if other == "direct":
        return untestable("AIX's direct I/O locks each file, and Linux's does not")
    return beyond(gain, _LARGE)


def _from_cache(summary: Summary) -> bool:
    """Tell whether the client's page cache answered most buffered reads in the server's place.

    Read-ahead does not help random reads: where they do far more than those of O_DIRECT on the same
    mount, the server did not see them. It happens where the file was chosen smaller.
    """
    most = max(_threads(summary), default=0)
    ratio = _ratio(summary, _CACHEABLE, ("buffered", most), ("direct", most))
    return ratio is not None and ratio.above(_CACHED) is True


def tell(summary: Summary) -> Told:
    """Tell how throughput and its cost grow with threads here."""
    workloads = [name for name, of in _WORKLOADS.items() if cells.having(summary, **of)]
    plotted: dict[str, Take] = {
        "IOPS": measures.IOPS,
        "CPU per operation, µs": cells.cpu_measure(summary.done),
    }
    sections = [
        Section(one.capitalize(), plots=[_plot(summary, one, *what) for what in plotted.items()])
        for one in workloads
    ]
    return Told(
        answer=_answer(summary, workloads),
        sections=sections,
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
            *conditions.differences(summary, _DIFFERS),
        ],
    )


def _answer(summary: Summary, workloads: Sequence[str]) -> Answer:
    """Tell what each mode does with the most threads, and concurrent I/O in times the others."""
    most = max(_threads(summary), default=0)
    rows, rates, gains = [], [], []
    for workload in workloads:
        found = [
            cells.sample(_find(summary, workload, mode, most), measures.IOPS) for mode in _MODES
        ]
        times = [_gain(summary, workload, other, most) for other in _DIRECT]
        rows.append([workload, *map(texts.measured, found), *map(texts.marked, times)])
        rates += found
        gains += times
    told = []
    for other in _DIRECT:
        spans = texts.span([_gain(summary, workload, other, most) for workload in workloads])
        told += [f"{spans} times {other}"] if spans else []
    words = f"{texts.several(told) or 'No other'} I/O: concurrent, {most} threads"
    if summary.place.get("kind") != "pool":  # whose page does not show what was published
        large = next(one for one in findings(summary) if one.theirs == _LARGE_GAIN)
        words += f"; the published large gain is {large.judged.verdict}"
    varied = max(
        (one.interval[1] / one.mean - 1 for one in rates if one and one.interval), default=0
    )
    caveats = []
    if _from_cache(summary):
        caveats.append("Buffered random reads came out of the client's page cache, not over NFS.")
    if varied > _VARIED:
        caveats.append(f"Repeats vary: intervals are up to ± {100 * varied:.0f} %.")
    if any(gain and gain.spans_one for gain in gains):
        caveats.append(texts.MAY_BE_ONE)
    headings = [f"IOPS, {most} threads", *_MODES, *(f"times {other}" for other in _DIRECT)]
    return Answer(f"{words}.", Table(headings, rows), caveats)


def _plot(summary: Summary, workload: str, unit: str, measure: Take) -> Plot:
    found = {mode: cells.having(summary, **_WORKLOADS[workload], mode=mode) for mode in _MODES}
    named = [(mode, Curve.along(Axis("threads"), those)) for mode, those in found.items()]
    what = unit.partition(",")[0]
    title = f"{workload.capitalize()}: {what} by threads"
    figure = curves.draw(named, title, unit, measure, columns=3)
    dips = _dips(summary, workload) if measure is measures.IOPS else ()
    name = f"{workload} {what.partition(' ')[0]}".lower().replace(" ", "-")
    return Plot(name, " ".join([f"{title}; {charts.REPEATS}.", *dips]), figure)


def _dips(summary: Summary, workload: str) -> Iterator[str]:
    """Say where more threads do less, and whether that is work or waiting."""
    for mode in _MODES:
        for fewer, more in itertools.pairwise(_threads(summary)):
            sides = (mode, more), (mode, fewer)
            ratio = _ratio(summary, workload, *sides)
            if ratio is None or ratio.above(1) is not False or ratio.value > _DIP:
                continue
            busy = cells.sample(_find(summary, workload, *sides[0]), measures.PROCESSORS)
            dearer = _ratio(summary, workload, *sides, cells.cpu_measure(summary.done))
            why = "there is CPU left, so the threads wait"
            if dearer and busy and busy.mean >= 100 * _FULL:
                why = f"an operation takes {dearer.value:.2f} times the CPU, and no more is free"
            yield (
                f"{mode.capitalize()} I/O falls to {ratio.value:.2f} times from {fewer} to {more}"
                f" threads: {why}."
            )


_REPORT = Report(
    "sio",
    __doc__,
    factors=("mode", "pattern", "direction", "threads"),
    tell=tell,
    findings=findings,
)

STORY = Story(
    report=_REPORT,
    places=_PLACES,
    factors={
        "mode": Factor(lambda at: _MODES if at.pool.mounts else ["concurrent"]),
        "pattern": Factor(["sequential", "random"]),
        "direction": Factor(["read", "write"]),
        "threads": Factor([1, 8, 32], quick=[1, 16]),
    },
    job=_job,
    left_out=_left_out,
)
