# SPDX-License-Identifier: GPL-2.0-only
"""sio: what more threads bring, by the way in which they share one file.

buffered and direct are a kernel mount, which all threads share; concurrent gives each thread a
connection of its own. A sequential thread reads its own part of the file, round and round.

Factors: mode (buffered, direct, concurrent), pattern (sequential, random), threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nfsmulti import texts
from nfsmulti.lab.guest import Mount
from nfsmulti.report import cells, charts, conditions
from nfsmulti.report.answer import Answer
from nfsmulti.report.cells import Measure
from nfsmulti.report.story import (
    Beside,
    Finding,
    Judged,
    Plot,
    Report,
    Section,
    Story,
    Verdict,
    beyond,
    untestable,
    weakest,
)
from nfsmulti.stats import Ratio
from nfsmulti.stories.scenario import OWN, CellSpec, GuestPlace, OwnPool, Scale, Scenario, timed
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table

# --- what runs ---

_PATTERNS = {"sequential": "sequential 32k", "random": "random 8k"}
_DIRECT = {"buffered": 0, "direct": 1}
_THREADS, _QUICK_THREADS = (1, 2, 4, 8, 16, 32), (1, 4, 16)
_BYTES, _QUICK_BYTES = 256 << 20, 64 << 20
# The publication's RPCs had 32 KiB.
_MOUNT = Mount("/mnt/tcp3", ("vers=3", "proto=tcp", "rsize=32768", "wsize=32768"))
_GUEST_DIFFERS = (
    "Published over a link of 1 Gbit/s with an MTU of 1500: here client and server are one guest,"
    " whose loopback has no limit.",
    "Published with AIX as the client, whose direct I/O holds a lock for each file.",
)
_PLACES = {"guest": GuestPlace({"mount": (_MOUNT,)}, differs=_GUEST_DIFFERS)}


def _cells(scale: Scale) -> list[CellSpec]:
    return _cells_in("guest", scale, (*_DIRECT, "concurrent"), 1)


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    modes, said = ["concurrent"], []
    if pool.mounts:
        modes += _DIRECT
    else:
        said.append("buffered and direct need a kernel mount: add its directory to the pool")
    return _cells_in(OWN, scale, modes, pool.urls or pool.mounts), said


def _cells_in(place: str, scale: Scale, modes: Sequence[str], paths: int) -> list[CellSpec]:
    return [
        _cell(place, scale, mode, pattern, threads, min(paths, threads))
        for mode in modes
        for pattern in _PATTERNS
        for threads in (_QUICK_THREADS if scale.quick else _THREADS)
    ]


def _cell(place: str, scale: Scale, mode: str, pattern: str, threads: int, paths: int) -> CellSpec:
    seconds = scale.seconds(3, 20)
    size = _QUICK_BYTES if scale.quick else _BYTES
    options: dict[str, Factor | None] = {"numjobs": threads, **timed(seconds)}
    if pattern == "sequential":
        options |= {"size": size // threads, "offset_increment": size // threads}
    else:
        options |= {"size": size}
    options["direct"] = _DIRECT.get(mode, 1)
    mounted = mode in _DIRECT
    if mounted:
        options["ioengine"] = "psync"
    return CellSpec(
        factors={"mode": mode, "pattern": pattern, "threads": threads},
        place=place,
        jobfile=f"sio-{pattern}.fio",
        options=options,
        seconds=seconds,
        client="mount" if mounted else "pool",
        mounts="mount" if mounted else "",
        paths=1 if mounted else paths,
        files={"nfsmulti-sio": size},
    )


# --- what it tells ---

_MODES = ("buffered", "direct", "concurrent")
_DIFFERS = (
    "The original's server was a filer with disks, over Gigabit Ethernet with an MTU of 1500."
    f" {conditions.KERNEL_LAB}"
)
_HIGH = 16  # threads from which on concurrency is high
# The publication names no figures, so these are ours: what is no gain, and what is a large one.
_NO_GAIN, _LARGE = 1.05, 1.5
_APART = 10  # times the lowest mean: a plot of more is logarithmic


def _find(summary: Summary, mode: str, pattern: str, threads: int) -> list[Cell]:
    return cells.having(summary, mode=mode, pattern=pattern, threads=threads)


def _threads(summary: Summary, pattern: str) -> list[int]:
    return cells.counts(cells.having(summary, pattern=pattern), "threads")


def _cost(summary: Summary) -> Measure:
    """Give how CPU per I/O is taken: the machine's where any cell has it, else of fio's jobs.

    The two are never taken together: a ratio of one to the other says nothing.
    """
    machine = any(cells.machine_cpu_us(cell) for cell in summary.done)
    return cells.machine_cpu_us if machine else cells.jobs_cpu_us


def _findings(summary: Summary) -> list[tuple[Beside, Judged]]:
    """Give the published findings, of which each is a ratio here, with their verdicts."""
    rows = []
    for other in ("buffered", "direct"):
        over, under = (_find(summary, mode, "sequential", 1) for mode in ("concurrent", other))
        ratio = cells.ratio(over, under, cells.bandwidth)
        name = f"concurrent against {other}, 1 thread, sequential"
        judged = beyond(ratio, _NO_GAIN, below=True)
        rows.append(_row(name, "no gain, or a loss", ratio, over, cells.bandwidth, judged))
    most = {at: max(_threads(summary, at), default=0) for at in ("random", "sequential")}
    for pattern, many in most.items():
        for other in ("buffered", "direct"):
            over, under = (_find(summary, mode, pattern, many) for mode in ("concurrent", other))
            ratio = cells.ratio(over, under, cells.iops)
            name = f"concurrent against {other}, {many or 'most'} threads, {pattern}"
            judged = _large_gain(summary, other, pattern, many, ratio)
            rows.append(_row(name, "a large gain", ratio, over, cells.iops, judged))
    for pattern, many in most.items():
        over, under = (_find(summary, "direct", pattern, at) for at in (many, 1))
        over, cost = over if many > 1 else [], _cost(summary)
        ratio = cells.ratio(over, under, cost)
        name = f"CPU per operation on one mount, {many or 'most'} threads against 1, {pattern}"
        rows.append(_row(name, "rises", ratio, over, cost, beyond(ratio, 1)))
    return rows


def _row(
    figure: str,
    theirs: str,
    ratio: Ratio | None,
    over: list[Cell],
    measure: Measure,
    judged: Judged,
) -> tuple[Beside, Judged]:
    """Give a finding with the figures that stand above the ratio's line."""
    sample = cells.sample(over, measure)
    said = texts.MISSING if sample is None else str(judged.verdict)
    return Beside(figure, theirs, said, our_ratio=ratio), judged


def _large_gain(
    summary: Summary, other: str, pattern: str, threads: int, ratio: Ratio | None
) -> Judged:
    """Judge what concurrent I/O gains over another mode at high concurrency."""
    if threads < _HIGH and ratio:
        return Judged(Verdict.INCONCLUSIVE, f"it needs {_HIGH} threads or more")
    if threads >= _HIGH and other == "direct":
        return untestable("AIX's direct I/O locks each file, and Linux's does not")
    if threads >= _HIGH and _from_cache(summary, pattern, threads):
        return untestable("the client's page cache answers random buffered reads")
    return beyond(ratio, _LARGE)


def _from_cache(summary: Summary, pattern: str, threads: int) -> bool:
    """Tell whether the client's page cache answered buffered reads in the server's place.

    Read-ahead does not help random reads: where they do far more than those of O_DIRECT on the same
    mount, the server did not see them.
    """
    over, under = (_find(summary, mode, pattern, threads) for mode in ("buffered", "direct"))
    ratio = cells.ratio(over, under, cells.iops) if pattern == "random" else None
    return ratio is not None and ratio.above(_LARGE) is True


def beside(summary: Summary) -> list[Beside]:
    """Give the published findings beside ours."""
    return [row for row, _ in _findings(summary)]


def findings(summary: Summary) -> list[Finding]:
    """Judge the published findings; one of both patterns has the verdict of the weaker."""
    groups: dict[str, dict[str, tuple[Beside, Judged]]] = {}
    for row, judged in _findings(summary):
        name, _, pattern = row.figure.rpartition(", ")
        groups.setdefault(name, {})[pattern] = row, judged
    return [_finding(name, found) for name, found in groups.items()]


def _finding(name: str, patterns: dict[str, tuple[Beside, Judged]]) -> Finding:
    """Judge by the patterns that were measured; name the one that decides where they differ."""
    measured = {key: found for key, found in patterns.items() if found[0].our_ratio} or patterns
    judged = weakest([judged for _, judged in measured.values()])
    if len({judged.why for _, judged in measured.values()}) > 1:
        deciding = next(key for key, found in measured.items() if found[1] is judged)
        judged = replace(judged, why=f"{deciding}: {judged.why}")
    ratios = [f"{key} {row.our_ratio.text}" for key, (row, _) in measured.items() if row.our_ratio]
    theirs = next(iter(patterns.values()))[0].theirs
    return Finding(name, theirs, ", ".join(ratios) or texts.MISSING, judged)


def tell(summary: Summary) -> Story:
    """Tell how throughput and its cost grow with threads here."""
    patterns = [pattern for pattern in _PATTERNS if cells.having(summary, pattern=pattern)]
    return Story(
        answer=_answer(summary),
        sections=[
            *(
                Section(
                    _PATTERNS[pattern].capitalize(),
                    plots=[
                        _plot(summary, pattern, "iops", "IOPS", cells.iops),
                        _plot(summary, pattern, "cpu", "CPU per operation, µs", _cost(summary)),
                    ],
                )
                for pattern in patterns
            ),
            Section(
                "Every number of threads",
                tables=[_table(summary, pattern) for pattern in patterns],
                folded=True,
            ),
        ],
        reading=[
            "buffered: a kernel mount through its page cache; direct: the same mount with O_DIRECT,"
            " all threads on it; concurrent: a connection of the pool for each thread.",
            "KB are 1024 bytes. CPU per operation is the machine's, which includes a server that"
            " runs on it, or where that was not taken, that of fio's jobs alone. It is left out"
            " where starting and ending fio is too large a part of it.",
            "Buffered figures may come from the client's page cache: random ones do where they lie"
            f" {_LARGE} times above those of direct I/O, and all above the link's rate.",
            "A ratio is concurrent I/O to another mode, or many threads to one. A gain counts as"
            " none if its whole interval lies below 5 %, and as large if it lies above 1.5 times."
            " An interval that spans the limit is inconclusive.",
            *conditions.differences(summary, _DIFFERS),
        ],
    )


def _answer(summary: Summary) -> Answer:
    """Tell what each mode does with the most threads, in times direct I/O."""
    rows, cached, counts = [], False, set()
    for pattern in _PATTERNS:
        many = max(_threads(summary, pattern), default=0)
        direct = _find(summary, "direct", pattern, many)
        for mode in _MODES:
            if not (found := _find(summary, mode, pattern, many)):
                continue
            counts.add(str(many))
            from_cache = mode == "buffered" and _from_cache(summary, pattern, many)
            cached |= from_cache
            ratio = cells.ratio(found, direct, cells.iops)
            p99 = cells.percentile_of(found, 99)
            rows.append([
                f"{mode} {pattern}{' (cache)' if from_cache else ''}",
                texts.measured(cells.sample(found, cells.iops)), texts.number(p99 and p99 / 1000),
                texts.mean(cells.sample(found, _cost(summary))),
                "1" if mode == "direct" else texts.times(ratio),
            ])  # fmt: skip
    headings = [f"{' or '.join(sorted(counts))} threads", "IOPS", "p99, ms", "CPU, µs/op",
                "times direct"]  # fmt: skip
    warning = ["Buffered random reads came out of the client's page cache, not over NFS."]
    return Answer(_headline(summary), Table(headings, rows), warning if cached else [])


def _headline(summary: Summary) -> str:
    pattern = next((one for one in ("random", "sequential") if _threads(summary, one)), "random")
    most = max(_threads(summary, pattern), default=0)
    over, under = (_find(summary, mode, pattern, most) for mode in ("concurrent", "direct"))
    ratio = cells.ratio(over, under, cells.iops)
    if not ratio:
        return f"{most} threads at most; concurrent and direct I/O were not both measured."
    rate = texts.mean(cells.sample(over, cells.iops), "IOPS")
    end = "no measurable difference from" if ratio.spans_one else f"{ratio.value:.2f} times"
    return f"{rate} by concurrent {pattern} reads with {most} threads, {end} direct I/O."


def _table(summary: Summary, pattern: str) -> Table:
    rows = []
    for mode in _MODES:
        for threads in _threads(summary, pattern):
            if not (found := _find(summary, mode, pattern, threads)):
                continue
            measures = cells.bandwidth, cells.iops, cells.jobs_cpu_us, cells.machine_cpu_us
            rate, operations, jobs, machine = (cells.sample(found, one) for one in measures)
            rows.append([
                mode, str(threads), texts.mean(operations), *cells.columns(rate, 1024),
                texts.number(cells.percentile_of(found, 99)),
                texts.mean(jobs), texts.cv(jobs), texts.mean(machine), texts.cv(machine),
            ])  # fmt: skip
    headings = [
        "mode", "threads", "IOPS", "KB/s", "CV %", "n", "clat p99, µs",
        "CPU per I/O of fio's jobs, µs", "CV %", "of the machine, µs", "CV %",
    ]  # fmt: skip
    return Table(headings, rows)


def _plot(summary: Summary, pattern: str, name: str, unit: str, measure: Measure) -> Plot:
    title = _PATTERNS[pattern].capitalize()
    found = {mode: cells.having(summary, mode=mode, pattern=pattern) for mode in _MODES}
    lines = [(mode, cells.by_level(those, "threads", measure)) for mode, those in found.items()]
    means = [one.mean for _, samples in lines for one in samples.values()]
    # A page cache answers so fast that all others would lie on the ground.
    apart = max(means, default=0) > _APART * min(means, default=0)
    figure = charts.doublings(title, "threads", unit, lines, columns=3, log=apart)
    what = f"{unit.partition(',')[0]} against threads{' (log scale)' if apart else ''}"
    caption = f"{title}: {what}; {charts.REPEATS}."
    return Plot(f"{pattern}-{name}", caption, figure)


_REPORT = Report(
    title="sio: concurrency by I/O mode",
    publication=(
        "Published: concurrent I/O for NFS on AIX 5.3 ML-03 and a NetApp FAS880 (2005): one"
        " 256 MiB file, NFSv3, TCP, 32 KiB RPCs, Gigabit Ethernet, MTU 1500. Concurrent I/O was no"
        " gain, or a loss, for one sequential thread, and a large gain over buffered and direct I/O"
        " at high concurrency; CPU per operation rose with contention on the one TCP socket."
    ),
    factors=("mode", "pattern", "threads"),
    beside=beside,
    tell=tell,
    findings=findings,
)

SIO = Scenario("sio", _PLACES, _cells, _own_cells, report=_REPORT)
