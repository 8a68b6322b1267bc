# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti history: a scenario's throughput over all kept runs, with the runs that changed it.

The figure of a run is the geometric mean over its cells. A level is the runs since the last change;
a run changes it where the ratio to all repeats of the level is significant, corrected for the
number of runs, and beyond 5 %. A run on a busy machine neither changes a level nor belongs to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from nfsmulti import compare, kept, texts
from nfsmulti.errors import HarnessError
from nfsmulti.paths import shown
from nfsmulti.reliability import busy
from nfsmulti.report import charts
from nfsmulti.stats import FEWEST, Ratio, Sample
from nfsmulti.summary import Summary
from nfsmulti.texts import Table

_SIGNIFICANT, _LEAST = 0.05, 0.05
_COLUMNS = 80
_PLOT = "history"


@dataclass(frozen=True)
class Point:
    """A run: its name, its figure by repeat, and the ratio to the level before where one is told.

    `says` is "change" or "busy", or "".
    """

    name: str
    sample: Sample
    ratio: Ratio | None = None
    says: str = ""


def history(scenario: str, results: Path) -> None:
    """Print the table, and write the plot beside the runs."""
    runs = [(one.name, Summary.load(one)) for one in kept.runs(results, scenario)]
    if not runs:
        raise HarnessError(f"{shown(results)} holds no run of {scenario}")
    newest = runs[-1][1]
    whys = [_why_left_out(newest, run) for _, run in runs]
    points = marked([one for one, why in zip(runs, whys, strict=True) if not why])
    if not points:
        raise HarnessError(f"{runs[-1][0]}: no cell of this run is done")
    unit, scale = compare.unit(compare.Figure.THROUGHPUT, newest)
    rows = [
        [
            one.name,
            texts.number(one.sample.mean / scale),
            _half(one.sample, scale),
            one.ratio.text if one.ratio else "",
            one.says,
        ]
        for one in points
    ]
    headings = [scenario, unit, "±", "level before = 1", ""]
    table = Table(headings, rows, ending_text_columns=1, text_wraps=True)
    out = Console(highlight=False, width=_COLUMNS)
    out.print(table.terminal())
    for (name, _), why in zip(runs, whys, strict=True):
        if why:
            out.print(f"left out: {name}: {why}", markup=False)
    changes = [f"{one.name} ({one.ratio.text})" for one in points if one.ratio and _changes(one)]
    out.print(f"changes: {', '.join(changes) or 'none shown'}", markup=False)
    out.print(shown(_drawn(points, unit, scale, results / scenario)), markup=False)


def marked(runs: Sequence[tuple[str, Summary]]) -> list[Point]:
    """Return runs that have the same cells, in their order, each held to the level before it."""
    points: list[Point] = []
    level: list[float] = []
    for name, run in runs:
        sample = compare.per_repeat(compare.pairs(run, run))
        ratio = Ratio.unpaired(sample, Sample(tuple(level))) if level else None
        says = ""
        if busy(run):
            says = "busy"
        elif ratio and _differs(ratio, len(runs) - 1):
            says, level = "change", []
        points.append(Point(name, sample, ratio, says))
        if says != "busy":
            level += sample.values
    return points


def _changes(one: Point) -> bool:
    return one.says == "change"


def _differs(ratio: Ratio, tests: int) -> bool:
    significant = ratio.p is not None and ratio.p * tests < _SIGNIFICANT
    return significant and abs(ratio.value - 1) > _LEAST


def _why_left_out(newest: Summary, run: Summary) -> str | None:
    if why := compare.why_not(newest, run):
        return why
    missing = compare.unmatched(newest, run)
    return f"{missing} combinations of factors differ from the newest run's" if missing else None


def _half(sample: Sample, scale: float) -> str:
    """Return half of the mean's 95 % interval."""
    if sample.n < FEWEST or not sample.interval:
        return texts.MISSING
    return texts.number((sample.interval[1] - sample.mean) / scale)


def _drawn(points: Sequence[Point], unit: str, scale: float, folder: Path) -> Path:
    figure, (axes,) = charts.panels("", [1], 8.0)
    every = [(at, one.sample.scaled(1 / scale)) for at, one in enumerate(points)]
    charts.line(axes, 0, unit, [(float(at), sample) for at, sample in every])
    for at, one in enumerate(points):
        if _changes(one):
            axes.axvline(at, color=charts.INK, linestyle=":")
    axes.set_xticks(range(len(points)), [one.name for one in points], rotation=45, ha="right")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    file = folder / f"{_PLOT}.svg"
    file.write_text(charts.svg_of(figure, _PLOT))
    return file
