# SPDX-License-Identifier: GPL-2.0-only
"""What each host of a run on several hosts did (`run --hosts`), and all of them in sum."""

from __future__ import annotations

import math

from nfsmulti.report import texts
from nfsmulti.report.story import Section
from nfsmulti.stats.sample import Sample
from nfsmulti.summary import Cell, Summary
from nfsmulti.tables import Table

_ALL = "in sum"


def on_each(summary: Summary) -> str:
    """Give the words that follow a number of jobs where each of several hosts ran so many."""
    return f" on each of {summary.hosts} hosts" if summary.hosts > 1 else ""


def section(summary: Summary) -> Section | None:
    """Lay out bytes per second and IOPS by host; None where one host ran it all."""
    hosts = sorted({job.host for cell in summary.done for job in cell.jobs if job.host})
    if len(hosts) < 2:
        return None
    groups: dict[str, list[Cell]] = {}
    for cell in summary.done:
        name = ", ".join(f"{name} {value}" for name, value in cell.factors.items())
        groups.setdefault(name, []).append(cell)
    rows = [_row(name, host, found) for name, found in groups.items() for host in (*hosts, _ALL)]
    headings = ["cell", "host", "MB/s", "CV %", "n", "IOPS", "CV %"]
    words = "Sums of each host's jobs, as its fio measured them; all hosts ran at once."
    return Section("Each host", [words], [Table(headings, rows, text_columns=2)])


def _row(name: str, host: str, found: list[Cell]) -> list[str]:
    rate = Sample.of(_sum(cell, host, "bytes_per_s") / 1e6 for cell in found)
    operations = Sample.of(_sum(cell, host, "iops") for cell in found)
    return [
        name, host, texts.mean(rate), texts.cv(rate), texts.count(rate), texts.mean(operations),
        texts.cv(operations),
    ]  # fmt: skip


def _sum(cell: Cell, host: str, figure: str) -> float:
    return math.fsum(
        getattr(job, f"{direction}_{figure}")
        for job in cell.jobs
        if host in (_ALL, job.host)
        for direction in ("read", "write")
    )
