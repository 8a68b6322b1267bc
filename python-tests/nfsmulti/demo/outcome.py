# SPDX-License-Identifier: GPL-2.0-only
"""What a workload of the demo has shown: its rows of the table, the sentences on them, the picture.

Each sentence follows from the figures; the verdict is that of the reports (report/verdict.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rich.table

from nfsmulti import texts
from nfsmulti.demo.workloads import REPEATS, Side, Workload
from nfsmulti.lab import Fit
from nfsmulti.report import cells, verdict
from nfsmulti.report.verdict import Judged, Verdict
from nfsmulti.stats import Ratio, Sample
from nfsmulti.summary import Cell
from nfsmulti.texts import Table, rate_text, time_text

# Those that fio and its servers may use, which can be fewer than the machine has.
OWN_CPUS = frozenset(os.sched_getaffinity(0))
# The part of a limit in data, without headers, from which on it was reached, and that from which on
# the figure need not be said; and the part of the processors' time from which on these were busy.
_REACHED, _FULL, _BUSY = 0.85, 0.97, 0.95


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
    cores: int = len(OWN_CPUS)

    @property
    def ratio(self) -> Ratio | None:
        """The bandwidth of many connections as a multiple of one's."""
        return cells.ratio(self.many, self.one, cells.bandwidth)

    @property
    def judged(self) -> Judged:
        """Whether it shows what it is there for, which only all repeats together can tell."""
        allowed = None
        if self.fit and not any(reach.short for reach in _reaches(self, self.fit)):
            allowed = min(self.workload.connections, self.fit.link / self.fit.cap)
        return verdict.judge(self.ratio, self.workload.theirs, allowed)

    @property
    def shown(self) -> bool:
        """Whether it does."""
        return self.judged.verdict in (Verdict.REPRODUCED, Verdict.BY_CONSTRUCTION)

    @property
    def repeats(self) -> int:
        """How many there was time for."""
        return min(len(self.one), len(self.many))

    @property
    def sides(self) -> tuple[Sequence[Cell], Sequence[Cell]]:
        """One connection's repeats, and those of several."""
        return self.one, self.many

    def busy(self, side: Sequence[Cell]) -> float | None:
        """Give the part of the processors' time that all programs together took on a side."""
        found = cells.sample(side, _busy_cores)
        return found.mean / self.cores if found else None


def rate(repeats: Sequence[Cell]) -> Sample | None:
    """Give the bytes per second of each repeat."""
    return cells.sample(repeats, cells.bandwidth)


def table(outcomes: Sequence[Outcome]) -> rich.table.Table:
    """Show the outcomes, two rows each, in 80 columns."""
    rows = []
    for outcome in outcomes:
        workload, ratio = outcome.workload, outcome.ratio
        last = f"{ratio.value:.2f}" if ratio else texts.MISSING
        rows += [[*_row(workload.one, outcome.one), "1"]]
        rows += [[*_row(workload.many, outcome.many), last]]
    headings = ("", "MB/s", "IOPS", "mean", "p99", "CPU", "ratio")
    shown = Table(headings, rows, "The same jobfile on one connection and on several").terminal()
    for last_of_two in shown.rows[1::2]:
        last_of_two.end_section = True
    return shown


def story(outcome: Outcome) -> str:
    """Say what an outcome shows, or that it does not and why."""
    workload, ratio, fit = outcome.workload, outcome.ratio, outcome.fit
    if outcome.why or ratio is None or fit is None:
        return f"{workload.name} was not measured: {outcome.why or 'one side has no figures'}."
    rates = [texts.mean(rate(side), "MB/s", 1e6) for side in (outcome.many, outcome.one)]
    return " ".join(
        part
        for part in (
            f"{workload.name}: {workload.many.words} {ratio.text} times what {workload.one.words}"
            f" ({' against '.join(rates)}); {workload.said}.",
            outcome.judged.text,
            _held_by(outcome, fit) if outcome.shown else _reason(outcome, fit),
            _shares(outcome.many),
        )
        if part
    )


@dataclass(frozen=True)
class _Reach:
    """How far a side came: the `part` of its `limit` in data, and of the processors' time."""

    who: str
    has: str
    limit: str
    part: float
    busy: float | None

    @property
    def short(self) -> bool:
        """Whether something else than the limit held it."""
        return self.part < _REACHED

    @property
    def text(self) -> str:
        """Say it, without a full stop."""
        if self.short:
            return f"{self.who} stayed at {self.part:.0%} of {self.limit}"
        part = "" if self.part >= _FULL else f"{self.part:.0%} of "
        return f"{self.who} {self.has} reached {part}{self.limit}"

    def why(self, cores: int) -> str:
        """Say what held it, if that was not the limit."""
        if not self.short:
            return ""
        if self.busy is not None and self.busy >= _BUSY:
            return (
                f": the processors are the limit, {self.busy:.0%} of {cores} cores were busy with"
                " fio, its servers and whatever else runs here"
            )
        used = "" if self.busy is None else f" ({self.busy:.0%} of {cores} cores were busy)"
        return f": no reason was found{used}"


def _reaches(outcome: Outcome, fit: Fit) -> list[_Reach]:
    """Hold both sides against the limits that they can reach."""
    one, many = (found.mean * 8 if (found := rate(side)) else 0.0 for side in outcome.sides)
    caps = outcome.workload.connections * fit.cap
    whose, limit = ("the link's", fit.link) if fit.link < caps else ("all caps'", caps)
    cap, several = f"its cap of {rate_text(fit.cap)}", f"{whose} {rate_text(limit)}"
    who = f"One {outcome.workload.capped}"
    return [
        _Reach(who, "has", cap, one / fit.cap, outcome.busy(outcome.one)),
        _Reach("Several", "have", several, many / limit, outcome.busy(outcome.many)),
    ]


def _held_by(outcome: Outcome, fit: Fit) -> str:
    """Say which limits the sides have reached."""
    return " ".join(f"{reach.text}." for reach in _reaches(outcome, fit))


def _reason(outcome: Outcome, fit: Fit) -> str:
    """Say why an outcome does not show what it is there for, as far as its figures tell."""
    if outcome.repeats < REPEATS:
        few = f"There was time for {outcome.repeats} of {REPEATS} repeats on this machine."
        return f"{few} {_held_by(outcome, fit)}"
    reaches = _reaches(outcome, fit)
    said = [f"{reach.text}{reach.why(outcome.cores)}." for reach in reaches]
    if not any(reach.short for reach in reaches):
        said.append("No reason was found.")
    return " ".join(said)


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


# --- the picture ---


_ONE, _MANY = "#9aa5b1", "#2364aa"


def write_plot(outcomes: Sequence[Outcome], file: Path) -> None:
    """Draw bandwidth on one connection beside several, a panel for each workload; writes a PNG."""
    from matplotlib.figure import Figure  # which takes half a second to load

    figure = Figure(figsize=(3.6 * len(outcomes), 4.2), layout="constrained")
    for panel, outcome in zip(figure.subplots(1, len(outcomes)), outcomes, strict=True):
        workload, ratio = outcome.workload, outcome.ratio
        sides = [(workload.one, rate(outcome.one)), (workload.many, rate(outcome.many))]
        labels = [side.row.replace(", ", ",\n") for side, _ in sides]
        heights = [found.mean / 1e6 if found else 0.0 for _, found in sides]
        bars = panel.bar(labels, heights, color=[_ONE, _MANY], width=0.6)
        panel.bar_label(bars, fmt="{:,.1f}", padding=2)
        for label, (_, found) in zip(labels, sides, strict=True):
            for value in found.values if found else ():
                panel.plot(label, value / 1e6, ".", color="black", alpha=0.6)
        shown = f"{ratio.text} times" if ratio else "not measured"
        panel.set_title(f"{workload.name}: {shown}", fontsize="medium")
        wrapped = workload.said.replace(" (", "\n(").replace(": ", ":\n")
        panel.set_xlabel(wrapped, fontsize="small", color="0.35")
        panel.set_ylabel("MB/s")
        panel.margins(y=0.12)
        panel.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)
