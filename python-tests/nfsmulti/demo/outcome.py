# SPDX-License-Identifier: GPL-2.0-only
"""What a workload of the demo has shown: its rows of the table, and the sentences on them.

Each sentence follows from the figures; the verdict is that of the reports (report/verdict.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from nfsmulti.demo.workloads import Side, Workload
from nfsmulti.lab import Fit
from nfsmulti.report import cells, texts, verdict
from nfsmulti.report.verdict import Verdict
from nfsmulti.stats.ratio import Ratio
from nfsmulti.stats.sample import Sample
from nfsmulti.summary import Cell
from nfsmulti.units import rate_text, time_text

# The part of a limit in data, without headers, from which on it was reached; and the part of the
# processors' time from which on these were busy.
_REACHED, _BUSY = 0.85, 0.95


@dataclass(frozen=True)
class Outcome:
    """The repeats of a workload's two sides, under the limits that `fit` has found.

    `why` says in a line why it was not measured, None where it was.
    """

    workload: Workload
    fit: Fit | None = None
    one: Sequence[Cell] = ()
    many: Sequence[Cell] = ()
    why: str | None = None
    cores: int = os.cpu_count() or 1

    @property
    def ratio(self) -> Ratio | None:
        """The bandwidth of many connections as a multiple of one's."""
        return Ratio.of(rate(self.many), rate(self.one))

    @property
    def verdict(self) -> Verdict:
        """Whether it shows what it is there for."""
        return verdict.judge(self.ratio, self.workload.theirs)

    @property
    def busy(self) -> float | None:
        """The part of the processors' time that all programs together took, on the busier side."""
        parts = [
            sample.mean / self.cores
            for side in (self.one, self.many)
            if (sample := cells.sample(side, _busy_cores))
        ]
        return max(parts, default=None)


def rate(repeats: Sequence[Cell]) -> Sample | None:
    """Give the bytes per second of each repeat."""
    return cells.sample(repeats, cells.bandwidth)


def table(outcomes: Sequence[Outcome]) -> Table:
    """Show the outcomes, two rows each, in 80 columns."""
    shown = Table(title="The same jobfile on one connection and on several", box=box.SIMPLE_HEAD)
    shown.add_column(no_wrap=True)
    for heading in ("MB/s", "IOPS", "mean", "p99", "CPU", "ratio"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for outcome in outcomes:
        workload, ratio = outcome.workload, outcome.ratio
        last = f"{ratio.value:.2f}" if ratio else texts.MISSING
        shown.add_row(*_row(workload.one, outcome.one), "1")
        shown.add_row(*_row(workload.many, outcome.many), last, end_section=True)
    return shown


def story(outcome: Outcome) -> str:
    """Say what an outcome shows, or that it does not and why."""
    workload, ratio, fit = outcome.workload, outcome.ratio, outcome.fit
    if outcome.why or ratio is None or fit is None:
        return f"{workload.name} was not measured: {outcome.why or 'a side has no figures'}."
    rates = [texts.mean(rate(side), "MB/s", 1e6) for side in (outcome.many, outcome.one)]
    return " ".join(
        part
        for part in (
            f"{workload.name}: {workload.many.words} {ratio.text} times what {workload.one.words}"
            f" ({' against '.join(rates)}); {workload.said}.",
            verdict.sentence(ratio, workload.theirs),
            _held_by(outcome, fit) if outcome.verdict is Verdict.HOLDS else _reason(outcome, fit),
            _shares(outcome.many),
        )
        if part
    )


def _held_by(outcome: Outcome, fit: Fit) -> str:
    """Say which limits the sides have reached."""
    caps = outcome.workload.connections * fit.cap
    several = ("the link's", fit.link) if fit.link < caps else ("all caps'", caps)
    reached = _reached(outcome.one, fit.cap)
    said = [f"One connection {'has reached' if reached else 'stayed below'} its cap of"]
    said.append(f"{rate_text(fit.cap)}.")
    if _reached(outcome.many, several[1]):
        said.append(f"Several have reached {several[0]} {rate_text(several[1])}.")
    return " ".join(said)


def _reason(outcome: Outcome, fit: Fit) -> str:
    """Say why an outcome does not show what it is there for, as far as its figures tell."""
    busy = outcome.busy
    if busy is not None and busy >= _BUSY:
        return (
            f"The processors are the limit: {busy:.0%} of {outcome.cores} cores were busy with fio,"
            " its servers and whatever else runs here."
        )
    if not _reached(outcome.one, fit.cap):
        return (
            f"One connection did not reach its cap of {rate_text(fit.cap)}, so something else"
            " limits it, and that limits several as well."
        )
    used = "" if busy is None else f" ({busy:.0%} of {outcome.cores} cores were busy)"
    return f"No reason was found: the cap was reached, and the processors were not the limit{used}."


def _reached(side: Sequence[Cell], bits: int) -> bool:
    found = rate(side)
    return found is not None and found.mean * 8 >= _REACHED * bits


def _busy_cores(cell: Cell) -> float | None:
    seconds = max((side.seconds for side in cells.sides(cell)), default=0.0)
    return cell.machine_cpu_s / seconds if cell.machine_cpu_s is not None and seconds else None


def _shares(repeats: Sequence[Cell]) -> str:
    """Say how evenly the paths were used, where there are several."""
    paths = list(dict.fromkeys(path for cell in repeats for path in cell.paths))
    if len(paths) < 2:
        return ""
    shares = [sum(cell.paths.get(path, 0.0) for cell in repeats) / len(repeats) for path in paths]
    return f"Share of each path: {' '.join(f'{share:.0%}' for share in shares)}."


def _row(side: Side, repeats: Sequence[Cell]) -> list[str]:
    """Give a side's cells: MB/s, IOPS, mean and p99 of latency, cores of fio's own CPU."""
    figures = [one for cell in repeats for one in cells.sides(cell)]
    if not figures:
        return [side.row, *[texts.MISSING] * 5]
    operations = sum(one.ops for one in figures)
    mean = sum(one.mean_us * one.ops for one in figures) / operations
    p99 = cells.latency_us(figures, 99) or 0.0
    cpu = sum(cell.cpu_s for cell in repeats) / sum(one.seconds for one in figures)
    return [
        side.row,
        texts.mean(rate(repeats), scale=1e6),
        texts.mean(cells.sample(repeats, cells.iops)),
        time_text(mean * 1000),
        time_text(p99 * 1000),
        f"{cpu:.0%}",
    ]
