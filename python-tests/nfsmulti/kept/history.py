# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti history: a scenario's throughput over all kept runs, with the runs that changed it.

The figure of a run is the geometric mean over its cells. A level is the runs since the last change;
a run changes it where the ratio to all repeats of the level is significant, corrected for the
number of runs, and beyond 5 %. A run on a busy machine neither changes a level nor belongs to it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti import kept, texts, typed
from nfsmulti.errors import HarnessError
from nfsmulti.kept.compare import Figure, per_repeat
from nfsmulti.kept.forms import COLUMNS, SIGNIFICANT
from nfsmulti.kept.pairs import pairs, unmatched, why_not
from nfsmulti.paths import COMMAND, shown
from nfsmulti.report import cells, conditions
from nfsmulti.report.answer import Answer, ran
from nfsmulti.stats import Ratio, Sample
from nfsmulti.summary import GONE, OWN_COMMANDS, Summary
from nfsmulti.texts import Table

_LEAST = 0.05


@dataclass(frozen=True)
class Point:
    """A run: its name, its figure by repeat, and the ratio to the level before where one is told.

    `says` is "change" or "busy", or "".
    """

    name: str
    sample: Sample
    ratio: Ratio | None
    says: str

    @property
    def words(self) -> list[str]:
        """The row of a table."""
        return [self.name, texts.measured(self.sample), texts.times(self.ratio), self.says]

    @property
    def data(self) -> dict[str, object]:
        """The same for other programs, with the figure of each repeat."""
        ratio = self.ratio and {"value": self.ratio.value, "ends": self.ratio.ends}
        return {"run": self.name, "values": self.sample.values, "ratio": ratio, "says": self.says}


def history(scenario: str, results: Path, *, as_json: bool) -> None:
    """Print the answer, whose table and caveats name every run: nothing else does."""
    with typed.understood(results / scenario):
        _history(scenario, results, as_json=as_json)


def _history(scenario: str, results: Path, *, as_json: bool) -> None:
    runs, left_out = _alike(kept.runs(results, scenario))
    if not runs:
        words = OWN_COMMANDS.get(scenario, f"run {scenario}")
        start = f"start one: {COMMAND} {words}"
        if scenario == GONE:
            start = f"{words} is gone since 0.7.0: --results=DIR names the folder of earlier runs"
        remedy = "\n  ".join(left_out) or start
        raise HarnessError(f"{shown(results)} holds no finished run of {scenario}", remedy)
    folder, newest = runs[-1]
    points = marked([(kept.called(folder), run) for folder, run in runs])
    unit = Figure.THROUGHPUT.unit(newest.done[0])
    if as_json:
        told = {"scenario": scenario, "unit": unit, "runs": [one.data for one in points]}
        print(json.dumps({**told, "left_out": left_out}, indent="\t"))
        return
    headings = [scenario, unit, "level before = 1", ""]
    rows = [one.words for one in reversed(points)]
    last = points[-1]  # of which the headline is not, then
    busy = [f"The newest run, {last.name}, was on a busy machine."] * (last.says == "busy")
    answer = Answer(
        _headline(points, unit, _mean_of(newest)),
        Table(headings, rows, ending_text_columns=1, text_wraps=True),
        [*busy, *left_out],
        ran(newest, conditions.load(folder)),
    )
    print(answer.terminal(COLUMNS))


def marked(runs: Sequence[tuple[str, Summary]]) -> list[Point]:
    """Return runs that have the same cells, in their order, each held to the level before it."""
    points: list[Point] = []
    level: list[float] = []
    for name, run in runs:
        sample = per_repeat(pair.a for pair in pairs(run, run))
        ratio = Ratio.unpaired(sample, Sample(tuple(level))) if level else None
        says, p = "", ratio.p if ratio else None
        significant = p is not None and p * (len(runs) - 1) < SIGNIFICANT
        if cells.others_busy(run.done):
            says = "busy"
        elif ratio and significant and abs(ratio.value - 1) > _LEAST:
            says, level = "change", []
        points.append(Point(name, sample, ratio, says))
        if says != "busy":
            level += sample.values
    return points


def _headline(points: Sequence[Point], unit: str, mean_of: str) -> str:
    """Say what the newest run that counts has reached, and which run changed that."""
    counting = [one for one in points if one.says != "busy"]
    if not counting:
        these = "the only run was" if len(points) == 1 else f"all {len(points)} runs were"
        return f"No verdict: {these} on a busy machine."
    now, number = f"{texts.number(counting[-1].sample.mean)} {unit}", len(counting)
    if changes := [(one.name, one.ratio) for one in points if one.says == "change" and one.ratio]:
        name, ratio = changes[-1]
        return f"{now} since {name}, {ratio.value:.2f} times the level before{mean_of}."
    if number == 1:
        return f"{now}{mean_of}: only one run counts, which nothing is held against yet."
    return f"{now}; none of {number} runs is shown to have changed it{mean_of}."


def _mean_of(run: Summary) -> str:
    """Say what a run's figure is the mean of, "" where that is one cell."""
    number = len(cells.by_name(run.done))
    counts = sorted({cell.connections or 0 for cell in run.done})
    several = counts[0] and len(counts) > 1
    over = f", {counts[0]} to {counts[-1]} connections" if several else ""
    return f" (the geometric mean over {number} cells{over})" if number > 1 else ""


def _alike(folders: Sequence[Path]) -> tuple[list[tuple[Path, Summary]], list[str]]:
    """Return the runs with the cells of the newest finished one, and why each other is left out."""
    runs: list[tuple[Path, Summary]] = []
    left_out = []
    for folder in reversed(folders):
        try:
            run = Summary.load(folder)
            why = _why(runs[0][1] if runs else run, run)
        except HarnessError as error:
            why = error.what
        if why:
            left_out.append(f"Left out: {kept.called(folder)}: {why}")
        else:
            runs.append((folder, run))
    return runs[::-1], left_out[::-1]


def _why(newest: Summary, run: Summary) -> str | None:
    """Say why a run is left out; None where it is not."""
    if waiting := sum(cell.status == "waiting" for cell in run.cells):
        return f"{waiting} of its cells have not run: {run.to_end}"
    if not run.done:
        return "no cell of this run is done"
    if why := why_not(newest, run):
        return why
    missing = unmatched(newest, run)
    what = texts.counted(missing, "combination")
    return f"{what} of factors ran in this or the newest run alone" if missing else None
