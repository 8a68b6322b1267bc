# SPDX-License-Identifier: GPL-2.0-only
"""The figures of one run, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass

from rich import box
from rich.table import Table

from nfsmulti.demo.workloads import Workload
from nfsmulti.errors import HarnessError
from nfsmulti.fioreport import shares
from nfsmulti.fiorun import FioResult
from nfsmulti.units import time_text


@dataclass(frozen=True)
class Figures:
    """One run: bytes/s, I/O per s, ns, cores of client CPU, and each path's part of the bytes."""

    bandwidth: float
    iops: float
    latency_mean: float
    latency_p99: float
    cpu: float
    shares: dict[str, float]

    @classmethod
    def of(cls, result: FioResult, workload: Workload) -> Figures:
        """Take the figures out of a run; raises HarnessError with fio's own words if it failed."""
        report, direction = result.report, workload.direction
        if result.status != 0 or report is None or not report.operations(direction):
            how = "did not end in time" if result.status is None else f"status {result.status}"
            said = "\n".join(result.messages.splitlines()[-8:])
            raise HarnessError(f"{workload.name}: fio failed ({how})\n{said}", result.command)
        return cls(
            bandwidth=report.bandwidth(direction),
            iops=report.iops(direction),
            latency_mean=report.latency_mean(direction),
            latency_p99=report.latency_percentile(direction, 99),
            cpu=report.cpu_seconds() / report.seconds(direction),
            shares=shares(result.stats),
        )


@dataclass(frozen=True)
class Outcome:
    """A workload on one path and on the pool."""

    workload: Workload
    one: Figures
    pool: Figures

    @property
    def ratio(self) -> float:
        """The pool's bandwidth as a multiple of one path's."""
        return self.pool.bandwidth / self.one.bandwidth


def table(outcomes: list[Outcome]) -> Table:
    """Show the outcomes, two rows each, in 80 columns."""
    shown = Table(title="The same jobfile on one path and on a pool", box=box.SIMPLE_HEAD)
    shown.add_column()
    for heading in ("MB/s", "IOPS", "mean", "p99", "CPU", "ratio"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for outcome in outcomes:
        name, paths = outcome.workload.name, outcome.workload.lab.addresses
        shown.add_row(f"{name}, 1 path", *_cells(outcome.one), "1")
        ratio = f"{outcome.ratio:.2f}"
        shown.add_row(f"{name}, {paths} paths", *_cells(outcome.pool), ratio, end_section=True)
    return shown


def story(outcome: Outcome) -> str:
    """Say what the two rows of an outcome show, beside what was published."""
    workload = outcome.workload
    parts = " ".join(f"{share:.0%}" for share in outcome.pool.shares.values())
    ratio = f", ratio {workload.published_ratio:.2f}" if workload.published_ratio else ""
    return (
        f"{workload.explanation} Share of each path: {parts}."
        f" Published: {workload.published}{ratio}."
    )


def _cells(figures: Figures) -> list[str]:
    return [
        f"{figures.bandwidth / 1e6:.1f}",
        f"{figures.iops:,.0f}",
        time_text(figures.latency_mean),
        time_text(figures.latency_p99),
        f"{figures.cpu:.0%}",
    ]
