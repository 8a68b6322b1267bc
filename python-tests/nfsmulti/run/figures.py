# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a cell, out of what its fio left."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nfsmulti.fiorun import ConnectionStats, Direction, FioReport, shares
from nfsmulti.hosts import Host
from nfsmulti.stats import Window, jain, percentile_us
from nfsmulti.summary import Figures, JobRow

BANDWIDTH_LOG, LATENCY_LOG = "bw", "latency"
_NEARLY = 0.05  # s that a last window may lack of a second
_US = 1000.0  # fio's latencies are ns


def figures(report: FioReport, direction: Direction) -> Figures | None:
    """Give what one direction did, None where it did nothing."""
    if not report.operations(direction):
        return None
    p50, p95, p99, p999 = (
        report.latency_percentile(direction, percent) / _US for percent in (50, 95, 99, 99.9)
    )
    return Figures(
        ops=report.operations(direction),
        bytes=report.bytes(direction),
        seconds=report.seconds(direction),
        iops=report.iops(direction),
        bytes_per_s=report.bandwidth(direction),
        mean_us=report.latency_mean(direction) / _US,
        p50_us=p50,
        p95_us=p95,
        p99_us=p99,
        p999_us=p999,
        bins={str(ns): n for ns, n in sorted(report.latency_bins(direction).items())},
    )


def job_rows(report: FioReport) -> list[JobRow]:
    """Give a row for each job; its latency is that of the direction with more I/Os."""
    return [_row(number, job) for number, job in enumerate(report.jobs)]


def path_shares(stats: list[ConnectionStats]) -> tuple[dict[str, float], float | None]:
    """Give each path's part of all bytes, and Jain's index of these: 1 where all are alike."""
    parts = dict(sorted(shares(stats).items()))
    return parts, jain(parts.values()) if any(parts.values()) else None


def windows(folder: Path, nominal_ms: int) -> list[Window]:
    """Give the windows of all jobs and directions out of fio's bandwidth logs, if any.

    A line is "ms, KiB/s, direction, block size, …", one for each window, direction and job.
    Where nothing was moved fio leaves a window out; the next one is then of its nominal length.
    """
    found = []
    for log in folder.glob(f"{BANDWIDTH_LOG}_bw.*.log"):
        ends: dict[str, int] = {}
        for line in log.read_text().splitlines():
            at, rate, way, *_ = line.split(", ")
            end, before = int(at), ends.get(way, 0)
            begin = before if end - before < 1.5 * nominal_ms else end - nominal_ms
            found.append(Window(begin / 1000, end / 1000, float(int(rate) << 10)))
            ends[way] = end
    return found


def run_end(found: Sequence[Window], report: FioReport, nominal_ms: int) -> float:
    """Give the end of what the windows show, in s: the last one's, or after a stall the run's.

    fio writes down neither a last window that is not whole nor one in which nothing was moved.
    """
    last = max((window.end for window in found), default=0.0)
    ended = max(float(job["job_runtime"]) for job in report.jobs) / 1000
    return ended if ended - last > 2 * nominal_ms / 1000 else last


def over_time(found: Sequence[Window], end: float) -> list[float]:
    """Give bytes per second of all jobs and directions, for each whole second up to `end`."""
    return [
        math.fsum(window.bytes(second, second + 1) for window in found)
        for second in range(int(end + _NEARLY))
    ]


def read_over_time(folder: Path) -> dict[str, list[float | None]]:
    """Give readers' p50_us and p99_us, for each second, out of fio's histogram logs if any.

    A line is "ms, direction, block size, a count for each bin"; those of all jobs are added up.
    """
    seconds: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for log in folder.glob(f"{LATENCY_LOG}_clat_hist.*.log"):
        lines = [list(map(int, line.split(", "))) for line in log.read_text().splitlines()]
        reads = [line for line in lines if line[1] == 0]
        for second, line in zip(_windows([line[0] for line in reads]), reads, strict=True):
            found = {_bin_ns(number): count for number, count in enumerate(line[3:]) if count}
            seconds[second].update(found)
    if not seconds:
        return {}
    every = range(max(seconds) + 1)
    return {
        name: [percentile_us(seconds[second], percent) for second in every]
        for name, percent in (("p50_us", 50), ("p99_us", 99))
    }


def _bin_ns(number: int) -> int:
    """Give the latency that stands for a bin, as fio does: 64 bins to each power of 2."""
    if number < 128:
        return number
    power, part = number // 64 - 1, number % 64
    return int((1 << power + 6) + (part + 0.5) * (1 << power))


def _windows(ends: Sequence[int]) -> list[int]:
    """Give each window of a log, which ends at so many ms, its second from 0.

    They are of a second and a bit, which adds up: what counts is the time since the one before.
    """
    numbers: list[int] = []
    for before, end in itertools.pairwise([0, *ends]):
        last = numbers[-1] if numbers else -1
        numbers.append(last + max(1, round((end - before) / 1000)))
    return numbers


def _row(number: int, job: dict[str, Any]) -> JobRow:
    alone = FioReport({"jobs": [job]})
    write = alone.operations("write") > alone.operations("read")
    main: Direction = "write" if write else "read"
    return JobRow(
        name=job["jobname"],
        number=number,
        read_bytes_per_s=alone.bandwidth("read"),
        read_iops=alone.iops("read"),
        write_bytes_per_s=alone.bandwidth("write"),
        write_iops=alone.iops("write"),
        mean_us=alone.latency_mean(main) / _US,
        p50_us=alone.latency_percentile(main, 50) / _US,
        p99_us=alone.latency_percentile(main, 99) / _US,
        usr_percent=job["usr_cpu"],
        sys_percent=job["sys_cpu"],
        host=_host(job),
    )


def _host(job: dict[str, Any]) -> str:
    """Name the host that a job ran on as --hosts does, "" where that was this machine."""
    name = job.get("hostname", "")
    return Host(name, name, job["port"]).text if name else ""
