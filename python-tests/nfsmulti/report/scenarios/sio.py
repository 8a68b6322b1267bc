# SPDX-License-Identifier: GPL-2.0-only
"""sio: rising thread counts on one file, by I/O mode.

Factors: mode (buffered, direct, concurrent), pattern (sequential, random), threads.
"""

from __future__ import annotations

from nfsmulti.report import cells, charts, conditions, texts, verdict
from nfsmulti.report.cells import Measure
from nfsmulti.report.story import Beside, Plot, Scenario, Section, Story, Table
from nfsmulti.stats.ratio import Ratio
from nfsmulti.stats.sample import Sample
from nfsmulti.summary import Cell, Summary

_MODES = ("buffered", "direct", "concurrent")
_PATTERNS = {"sequential": "sequential 32k", "random": "random 8k"}
_DIFFERS = (
    "A filer with disks served there, over Gigabit Ethernet with an MTU of 1500."
    f" {conditions.KERNEL_LAB}"
)
_HIGH = 16  # threads from which on concurrency is high
# The publication names no figures, so these are ours: what is no gain, and what is a large one.
_NO_GAIN, _LARGE = 1.05, 1.5
_FOUND, _NOT_FOUND, _NOT_TOLD = "found here", "not found here", "not told"
_OPEN = {_NOT_FOUND: "Not found", _NOT_TOLD: "Not told"}


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


def _ratio(
    over: list[Cell], under: list[Cell], measure: Measure
) -> tuple[Ratio | None, Sample | None]:
    """Give a ratio, and the figures that stand above its line."""
    return cells.ratio(over, under, measure), cells.sample(over, measure)


def beside(summary: Summary) -> list[Beside]:
    """Give the published findings, of which each is a ratio here."""
    rows = []
    for other in ("buffered", "direct"):
        alone = [_find(summary, mode, "sequential", 1) for mode in ("concurrent", other)]
        ratio, sample = _ratio(alone[0], alone[1], cells.bandwidth)
        rows.append(
            Beside(
                f"concurrent against {other}, 1 thread, sequential",
                "no gain, or a loss",
                _holds(ratio, _no_gain(ratio)),
                sample,
                our_ratio=ratio,
                differs=f"No figure was published; here, a gain is more than 5 %. {_DIFFERS}",
            )
        )
    for pattern in ("random", "sequential"):
        most = max(_threads(summary, pattern), default=0)
        for other in ("buffered", "direct"):
            many = [_find(summary, mode, pattern, most) for mode in ("concurrent", other)]
            ratio, sample = _ratio(many[0], many[1], cells.iops)
            enough = _large(ratio) if most >= _HIGH else None
            rows.append(
                Beside(
                    f"concurrent against {other}, {most or 'most'} threads, {pattern}",
                    "a large gain",
                    _holds(ratio, enough),
                    sample,
                    our_ratio=ratio,
                    differs="No figure was published; here, a large gain is 1.5 times or more, at"
                    f" 16 threads or more. {_DIFFERS}",
                )
            )
    rows += [_cost_row(summary, pattern) for pattern in ("random", "sequential")]
    return rows


def _cost_row(summary: Summary, pattern: str) -> Beside:
    most = max(_threads(summary, pattern), default=0)
    ends = [_find(summary, "direct", pattern, threads) for threads in (most, 1)]
    ratio, sample = _ratio(ends[0], ends[1], _cost(summary)) if most > 1 else (None, None)
    ran = most > 1 and all(ends)
    return Beside(
        f"CPU per operation on one mount, {most or 'most'} threads against 1, {pattern}",
        "rises",
        _holds(ratio, ratio.above(1) if ratio else None) if ratio or not ran else _NOT_TOLD,
        sample,
        our_ratio=ratio,
        differs=f"The published cause is contention on the one TCP socket of AIX 5.3. {_DIFFERS}",
    )


def _no_gain(ratio: Ratio | None) -> bool | None:
    gain = ratio.above(_NO_GAIN) if ratio else None
    return None if gain is None else not gain


def _large(ratio: Ratio | None) -> bool | None:
    """Tell whether a gain is large; None where its interval spans what would tell."""
    if ratio is None:
        return None
    if ratio.value >= _LARGE and ratio.above(1):
        return True
    return False if ratio.above(_LARGE) is False else None


def _holds(ratio: Ratio | None, true: bool | None) -> str:
    if ratio is None:
        return texts.MISSING
    return _NOT_TOLD if true is None else _FOUND if true else _NOT_FOUND


def tell(summary: Summary) -> Story:
    """Tell how throughput and its cost grow with threads here."""
    patterns = [pattern for pattern in _PATTERNS if cells.having(summary, pattern=pattern)]
    return Story(
        answer=[_answer(summary)],
        sections=[
            Section(
                _PATTERNS[pattern].capitalize(),
                tables=[_table(summary, pattern)],
                plots=[
                    _plot(summary, pattern, "iops", "IOPS", cells.iops),
                    _plot(summary, pattern, "cpu", "CPU per operation, µs", _cost(summary)),
                ],
            )
            for pattern in patterns
        ],
        reading=[
            "buffered: a kernel mount through its page cache; direct: the same mount with O_DIRECT,"
            " all threads on it; concurrent: a connection of the pool for each thread.",
            "KB are 1024 bytes. CPU per operation is the machine's, which includes a server that"
            " runs on it, or where that was not taken, that of fio's jobs alone. It is not told"
            " where fio's start and end weigh too much in it.",
            "Buffered figures may be those of the client's memory: where they are beyond the link's"
            " rate, they are.",
            "A ratio is concurrent I/O to another mode, or many threads to one. A gain up to 5 % is"
            " called none where its whole interval lies below that, one from 1.5 times on, with its"
            " interval above 1, large. If the interval spans the limit, the result is"
            " inconclusive.",
            *conditions.differences(summary, _DIFFERS),
        ],
    )


def _answer(summary: Summary) -> str:
    rows = [row for row in beside(summary) if row.our_ratio]
    if not rows:
        return (
            "No two modes were measured alike: whether the published findings hold cannot be told."
        )
    found = sum(row.ours == _FOUND for row in rows)
    words = f"{found} of {len(rows)} published findings are found here."
    for ours, heading in _OPEN.items():
        if named := [row.figure for row in rows if row.ours == ours]:
            words += f" {heading}: {texts.several(named)}."
    single = any(row.our_ratio.low is None for row in rows if row.our_ratio)
    return f"{words} {_gains(summary)}".strip() + (verdict.SINGLE if single else "")


def _gains(summary: Summary) -> str:
    """Say what concurrent I/O does at most threads, random."""
    most = max(_threads(summary, "random"), default=0)
    ratios = {
        other: cells.ratio(
            _find(summary, "concurrent", "random", most),
            _find(summary, other, "random", most),
            cells.iops,
        )
        for other in ("buffered", "direct")
    }
    told = [f"{ratio.text} times {other}" for other, ratio in ratios.items() if ratio]
    if not told:
        return ""
    return f"With {most} threads, random, concurrent I/O does {texts.several(told)} I/O."


def _table(summary: Summary, pattern: str) -> Table:
    rows = []
    for mode in _MODES:
        for threads in _threads(summary, pattern):
            found = _find(summary, mode, pattern, threads)
            rate, operations = (
                cells.sample(found, measure) for measure in (cells.bandwidth, cells.iops)
            )
            if rate is None:
                continue
            jobs, machine = (
                cells.sample(found, measure)
                for measure in (cells.jobs_cpu_us, cells.machine_cpu_us)
            )
            sides = [side for cell in found for side in cells.sides(cell)]
            rows.append([
                mode, str(threads), texts.mean(operations), texts.mean(rate, scale=1024),
                texts.cv(rate), texts.count(rate), texts.number(cells.latency_us(sides, 99)),
                texts.mean(jobs), texts.cv(jobs), texts.mean(machine), texts.cv(machine),
            ])  # fmt: skip
    headings = [
        "mode", "threads", "IOPS", "KB/s", "CV %", "n", "clat p99, µs",
        "CPU per I/O of fio's jobs, µs", "CV %", "of the machine, µs", "CV %",
    ]  # fmt: skip
    return Table(headings, rows)


def _plot(summary: Summary, pattern: str, name: str, unit: str, measure: Measure) -> Plot:
    figure, axes = charts.panel(_PATTERNS[pattern].capitalize(), "threads", unit)
    for number, mode in enumerate(_MODES):
        points = [
            (threads, one)
            for threads in _threads(summary, pattern)
            if (one := cells.sample(_find(summary, mode, pattern, threads), measure))
        ]
        if points:
            charts.line(axes, number, mode, points)
    charts.doubling(axes, _threads(summary, pattern))
    charts.from_zero(axes)
    charts.legend(axes, columns=3)
    caption = (
        f"{_PATTERNS[pattern].capitalize()}: {unit} against threads, with 95 % intervals where"
        " there are repeats."
    )
    return Plot(f"{pattern}-{name}", caption, figure)


SIO = Scenario(
    name="sio",
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
)
