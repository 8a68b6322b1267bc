# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a cell, out of what its fio left."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nfsmulti.fioreport import ConnectionStats, Direction, FioReport, shares
from nfsmulti.hosts import Host
from nfsmulti.stats.fairness import jain
from nfsmulti.summary import Figures, JobRow

BANDWIDTH_LOG = "bw"
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


def over_time(folder: Path) -> list[float]:
    """Give bytes per second of all jobs, for each second, out of fio's bandwidth logs.

    A line is "ms, KiB/s, direction, block size, …", one for each second, direction and job.
    """
    seconds: Counter[int] = Counter()
    for log in folder.glob(f"{BANDWIDTH_LOG}_bw.*.log"):
        lines = [line.split(", ") for line in log.read_text().splitlines()]
        for direction in {line[2] for line in lines}:
            mine = [(int(at), int(rate)) for at, rate, way, *_ in lines if way == direction]
            for second, (_, rate) in zip(_windows([at for at, _ in mine]), mine, strict=True):
                seconds[second] += rate << 10
    return [float(seconds[second]) for second in range(max(seconds, default=-1) + 1)]


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
