# SPDX-License-Identifier: GPL-2.0-only
"""Stories as data: the cells that follow from one, the figures of a cell, and the pages of all."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import golden
import made_runs
import pytest
from conftest import call_harness
from rich.console import Console

from nfsmulti import texts
from nfsmulti.paths import RESULTS, portable
from nfsmulti.report import cells, charts, conditions, overtime, pages, rows
from nfsmulti.report.answer import MOST_ROWS
from nfsmulti.report.measures import MEASURES
from nfsmulti.report.pages import naming
from nfsmulti.report.told import Run
from nfsmulti.run.record import Meter
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Cell, Figures, JobRow, Server, Summary

# --- the cells of a story ---


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_story_runs_what_its_plan_says(name: str) -> None:
    """Its cells in the lab and on pools, quick and in full, with all that fio is given."""
    golden.check(golden.plan(name))


# --- figures ---

READ = Figures(
    1000, 8_192_000, 2.0, 500.0, 4_096_000.0, 300.0, 0, 0, 0, 0, {"200000": 980, "5000000": 20}
)
WRITE = Figures(3000, 3_072_000, 4.0, 750.0, 768_000.0, 100.0, 0, 0, 0, 0, {"100000": 3000})
JOB = JobRow("t", 0, 0, 0, 0, 0, 0, 0, 0, 30.0, 12.5)
CELL = Cell(
    "a-1", {"way": "both"}, 1, "done", "a", "fio", read=READ, write=WRITE, cpu_s=0.08,
    machine_cpu_s=0.4, processors=2, others_busy=0.25, jobs=[JOB], crypto_s=0.04,
    server=Server(50.0, 4, 0, 0),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MB/s", 4.864),
        ("read MB/s", 4.096),
        ("write IOPS", 750),
        ("IOPS", 1250),
        ("p99 ms", 0.2),
        ("read p99 ms", 5),
        ("write p99 ms", 0.1),
        ("read mean ms", 0.3),
        ("bytes", 11_264_000),
        ("run time s", 4),
        ("jobs CPU µs/op", 20),
        ("machine CPU µs/op", 100),
        ("server CPU µs/op", 2000),
        ("crypto µs/op", 10),
        ("busiest job %", 42.5),
        ("processors %", 5),
        ("others %", 25),
        ("server %", 50),
    ],
)
def test_a_figure_has_the_unit_in_its_name(name: str, value: float) -> None:
    assert MEASURES[name](CELL) == pytest.approx(value)


def test_without_bins_a_percentile_is_fios_own() -> None:
    """Of one direction alone: two have none together."""
    one, other = (
        dataclasses.replace(READ, bins={}, p50_us=1e3, p95_us=2e3, p99_us=3e3, p999_us=4e3)
        for _ in range(2)
    )
    alone, both = (dataclasses.replace(CELL, read=one, write=way) for way in (None, other))
    percents = ("50", "95", "99", "99.9")
    assert [MEASURES[f"p{one} ms"](alone) for one in percents] == [1, 2, 3, 4]
    assert {MEASURES[f"p{one} ms"](both) for one in percents} == {None}


# --- a cell's name and its figures, wherever they are told ---


def _column(folder: Path, name: str, of: Sequence[Cell]) -> list[float]:
    """Return a column of cells.csv for these cells."""
    with (folder / rows.FILE).open() as file:
        told = {row["id"]: row.get(name) for row in csv.DictReader(file)}
    return [float(told[cell.id] or "nan") for cell in of]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_cell_has_one_name_and_one_figure_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """In its page's tables and plots, on the terminal, in cells.csv, compare and history."""
    monkeypatch.setattr(charts, "svg_of", lambda *_: "<svg></svg>")
    run = made_runs.changed(made_runs.reference(name, 2), over_time=[1e6, 1e6, 1e6])
    folder = made_runs.saved(run, tmp_path / name / "20261120T170000Z")
    rows.write(run, folder)
    told, varied, called = Run(SCENARIOS[name], run), cells.varying(run.cells), naming(run)
    groups = cells.by_name(run.done, called)
    for own, group in groups.items():
        assert own == told.words(cells.told(group[0], varied))
    for cell in run.done:
        out = io.StringIO()
        Meter(Console(file=out, width=400), [], 1, set(), called).end(cell)
        assert f" {called(cell)}, repeat {cell.repeat}: " in out.getvalue()
        both = "read " if cell.read and cell.write else ""
        for unit, words in (("MB/s", r"MB/s"), ("IOPS", r"(IOPS|operations/s)")):
            figure = texts.number(*_column(folder, f"{both}{unit}", [cell]))
            assert "operation" in cell.factors or re.search(rf" {figure} {words}", out.getvalue())

    plots = overtime.section(run, pages.REPORTS[name].names(run)).plots
    assert {text.get_text() for text in plots[0].figure.legends[0].get_texts()} <= {*groups}

    if name != "latency":  # which is compared by loads, and named by report/loads.py
        again = made_runs.saved(run, tmp_path / name / "20261121T170000Z")
        line = ["compare", str(folder), str(again), "--format", "json"]
        compared = {row["cell"]: row for row in json.loads(call_harness(*line).stdout)["rows"]}
        assert {*compared} - {"all cells together"} == {*groups}
        for own, group in groups.items():
            unit = "IOPS" if "operation" in group[0].factors else "MB/s"
            assert compared[own]["a"] == pytest.approx(fmean(_column(folder, unit, group)))
            assert compared[own]["unit"] == unit.replace("IOPS", "operations/s")

    first = run.done[0]
    alone = made_runs.only(run, lambda cell: cell.factors == first.factors)
    made_runs.saved(alone, tmp_path / "alone" / name / "20261120T170000Z")
    said = call_harness("history", name, "--results", str(tmp_path / "alone")).stdout
    unit = "IOPS" if "operation" in first.factors else "MB/s"
    mean = texts.number(fmean(_column(folder, unit, alone.done)))
    assert said.startswith(f"{mean} {unit.replace('IOPS', 'operations/s')}: only one run counts")


# --- pages ---


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_pages_of_a_story_say_what_they_promise(name: str) -> None:
    """Of a usual run with what its plots draw, and of runs under which something else is told."""
    golden.check(golden.page(name))


_REFERENCES = sorted({file.parent for file in (RESULTS / "reference").glob("*/summary.json*")})


@pytest.mark.parametrize("folder", _REFERENCES, ids=lambda folder: folder.name)
def test_a_reference_run_is_told_as_it_was_committed(tmp_path: Path, folder: Path) -> None:
    """Its cells.csv and its page, whose answer is read in ten seconds, on a terminal, too."""
    summary = Summary.load(folder)
    report = pages.REPORTS[summary.scenario]
    values = pages.contents(report, summary, conditions.load(folder))
    text = pages.render(pages.TEMPLATES[pages.MARKDOWN], values)
    assert portable(text) == (folder / pages.MARKDOWN).read_text()
    rows.write(summary, tmp_path)
    assert (tmp_path / rows.FILE).read_text() == (folder / rows.FILE).read_text()
    answer = values["answer"]
    assert len(answer.headline.split()) <= 25
    assert 1 <= len(answer.table.rows) <= MOST_ROWS
    assert len(answer.caveats) <= 3
    shown = answer.terminal(80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
