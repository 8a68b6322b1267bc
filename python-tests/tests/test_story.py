# SPDX-License-Identifier: GPL-2.0-only
"""Stories as data: what they run, the figures of a cell, and what their pages tell and draw."""

import csv
import dataclasses
import io
import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import golden
import made_runs
import numpy as np
import page_cases
import pytest
from browser import look
from conftest import call_harness
from made_runs import only, report_of
from matplotlib.collections import LineCollection
from rich.console import Console

import made_docs
from nfsmulti import texts
from nfsmulti.errors import HarnessError
from nfsmulti.paths import PYTHON_TESTS, RESULTS, portable, shown
from nfsmulti.processes import run
from nfsmulti.report import cells, charts, conditions, overtime, pages, rows
from nfsmulti.report.answer import MOST_ROWS, Answer, extent
from nfsmulti.report.measures import MEASURES
from nfsmulti.report.pages import EVERY_STORY, naming, write
from nfsmulti.report.told import Run, published, tell
from nfsmulti.run.record import Meter
from nfsmulti.stats import Sample
from nfsmulti.stories import SCENARIOS, connections
from nfsmulti.summary import Cell, Figures, JobRow, Restart, Server, Summary
from nfsmulti.texts import Table

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
    server=Server(50.0, 4, 0, 0), restart=Restart(2.0, 3, [2.5, 3.5, 4.5], 0, 2, [0.5, 1.5]),
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
        ("restart s", 2),
        ("half back s", 3.5),
        ("all back s", 4.5),
        ("new wait s", 1.5),
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
        if cell.arrivals and not cell.arrivals.sustained:
            offered = texts.number(cell.arrivals.offered)
            assert f"; not sustained: {offered} IOPS were offered\n" in out.getvalue()

    plots = overtime.section(run, Run(pages.EVERY_STORY[name], run).names).plots
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
    report = pages.EVERY_STORY[summary.scenario]
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


# --- files and plots of a page ---


_PHONE = 390
_LABEL = "<b>tested</b>"
_NO_FIGURE = re.compile(r"\b(nan|NaN|None|inf)\b")


def test_what_draws_and_computes_is_loaded_when_that_is_done() -> None:
    """Each takes up to seconds to load, which no command but one that needs it should take."""
    script = "import sys, nfsmulti.__main__, nfsmulti.stories; print(*sys.modules)"
    done = run([sys.executable, "-c", script], timeout=100, env={"PYTHONPATH": str(PYTHON_TESTS)})
    slow = {"jinja2", "matplotlib", "numpy", "scipy"}
    assert "nfsmulti.stories" in done.check().stdout.split()
    assert not slow & set(done.stdout.split())


@pytest.mark.parametrize(
    ("interval", "shown", "told"),
    [
        ("± 0.05", "0.30 ± 0.05", False),
        ("(0.08 to 1.31)", "0.08 to 1.31", False),
        ("± 1,000,000", "0.30", True),
        ("of 100,000", "0.30 of 100,000", False),
    ],
)
def test_a_rows_name_stays_readable_beside_wide_intervals(
    interval: str, shown: str, told: bool
) -> None:
    """Ends of an interval go below their figure, and intervals go where that is not enough."""
    name = "4k random reads, depth 256, 64 connections"
    headings = ["", "CPU ratio", "nfsmulti, µs/op", "fio nfs, µs/op", "IOPS ratio"]
    table = Table(headings, [[name, *[f"0.30 {interval}"] * 4]])
    lines = Answer("", table).terminal(80).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("random" in line for line in lines) == 1
    assert sum(shown in line for line in lines) == 1
    assert ("intervals: see the page" in lines) == told


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_part_of_a_run_makes_a_report(name: str) -> None:
    """Any one cell, or some; one point; single runs, which have no intervals.

    Cells run in another order each time: any of them may be what is done.
    """
    run, draw = made_runs.reference(name, 3), random.Random(7)
    first, last = run.cells[0], run.cells[-1]
    point = only(run, lambda cell: cell.factors == first.factors).cells
    single = only(run, lambda cell: cell.repeat == 1).cells
    for some in ([first], [last], draw.sample(run.cells, 3), point, single):
        once = report_of(dataclasses.replace(run, cells=some))
        assert not _NO_FIGURE.search(once)
    if name != "sweep":  # whose intervals are the model's
        assert not re.search(r"\d\.\d\d \(\d+\.\d\d to \d", once)
        assert "with 95 % intervals" not in once.replace(charts.REPEATS, "")


@pytest.mark.parametrize("name", ["dd", "latency"])  # with published figures, and without
def test_the_pages_of_a_run(name: str, tmp_path: Path) -> None:
    """All parts, in their order; plots that are files as well; and nothing from outside."""
    folder = made_runs.saved(
        dataclasses.replace(made_runs.reference(name, 3), label=_LABEL), tmp_path / name
    )
    write(folder)
    text, page = ((folder / file).read_text() for file in ("report.md", "report.html"))
    drawn = "".join(map(Path.read_text, folder.glob("plots/*.svg")))
    published = name == "dd"

    parts = ["# ", "## The answer", *["## Published figures and ours"] * published]
    parts += ["## How to read", "## Conditions", "| nfs-ganesha |", "## The command"]
    at = [text.find(part) for part in [*parts, "./nfsmulti run"]]
    assert -1 not in at
    assert at == sorted(at)
    assert "percentiles are of the bins of all jobs and repeats together" in text

    for words in (text, re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)):
        assert not _NO_FIGURE.search(words)
    assert not re.search(r"\bnan\b", drawn)

    plots = [folder / plot for plot in re.findall(r"\]\((plots/[^)]+)\)", text)]
    assert plots
    assert not [file for file in plots if file.stat().st_size <= 5000]
    assert all(file.with_suffix(".svg").exists() for file in plots)

    # A phone shows each figure below the name of its column.
    assert published == ('data-of="verdict">' in page)
    assert '<table class="text">' in page  # the conditions too
    assert '<td data-of="value">' in page

    outside = re.findall(r"""(?:src|href)=["'](?!#)([^"']*)""", page)
    assert outside == [rows.FILE]  # which lies beside it
    assert (folder / rows.FILE).exists()
    assert not re.findall(r"@import|url\((?!#)[^)]*\)|<link|<script [^>]", page)
    ids = re.findall(r'id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert _LABEL not in page  # a user's words are no markup


def test_lines_differ_without_colour() -> None:
    looks = [charts.style(number) for number in range(6)]
    assert len({str(look["linestyle"]) for look in looks}) == 4
    assert len({(look["marker"]) for look in looks}) == 6


def test_axes_write_numbers_as_tables_do_and_say_where_they_are_logarithmic() -> None:
    figure, axes = charts.panel("", "connections", "ms")
    axes.plot([0, 64], [500, 2000])
    figure.canvas.draw()
    assert "2,000" in [text.get_text() for text in axes.get_yticklabels()]
    charts.at_ticks(axes, [1, 64], doublings=True)
    charts.logarithmic_y(axes)
    assert [axes.get_xlabel(), axes.get_ylabel()] == ["connections (log scale)", "ms (log scale)"]


@pytest.mark.parametrize(
    "make", [made_runs.dd, made_runs.oltp, made_runs.latency, page_cases.restarted]
)
def test_a_plot_names_its_lines_begins_at_zero_and_tells_its_points(
    make: Callable[[], Summary],
) -> None:
    """Each line once, those that dot what would be ideal as well; a browser shows the words."""
    run = make()
    told = tell(EVERY_STORY[run.scenario], run)
    plots = [plot for one in told.sections for plot in one.plots]
    assert plots
    for figure in (plot.figure for plot in plots):
        named = [text.get_text() for one in figure.legends for text in one.get_texts()]
        drawn = [label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
        assert sorted(named) == sorted({*drawn})
        for axes in figure.axes:
            low, high = axes.get_ylim()
            assert low == 0 or axes.get_yscale() == "log"
            spoken = [line for line in axes.lines if str(line.get_gid()).startswith("hover: ")]
            for line in spoken:
                (y,), words = np.asarray(line.get_ydata()), str(line.get_gid())
                assert low < y < high
                assert texts.number(y) in words
            labels = {str(line.get_gid())[len("hover: ") :].rsplit(": ", 1)[0] for line in spoken}
            assert labels <= {*drawn}
            assert labels


@pytest.mark.parametrize(
    ("transports", "jobs", "panels"), [(3, 2, []), (4, 2, ["jobs"]), (7, 1, [])]
)
def test_many_curves_are_drawn_by_jobs(transports: int, jobs: int, panels: list[str]) -> None:
    """Up to six lines are one plot, and so are those of one number of jobs."""
    levels = product(range(transports), range(jobs))
    cells = [
        ({**made_runs.connections_factors(1, f"t{transport}"), "jobs": 1 + number}, {"read": 1e8})
        for transport, number in levels
    ]
    told = Run(SCENARIOS["connections"], made_runs.made("connections", cells, 1))
    assert [one.panels for one in connections.plots(told)] == [panels]


@pytest.mark.full
def test_pages_fit_a_phone_and_say_nothing_on_the_console(tmp_path: Path) -> None:
    runs = [made_runs.reference(name) for name in SCENARIOS]
    reports = [pages.page(**pages.contents(EVERY_STORY[one.scenario], one, {})) for one in runs]
    console, seen = look(reports, tmp_path, _PHONE)
    assert console == []
    assert not [run.scenario for run, page in zip(runs, seen, strict=True) if page.overflow]
    _, seen = look(reports, tmp_path, 400)
    assert not [(run.scenario, page) for run, page in zip(runs, seen, strict=True) if page.scrolled]


def test_report_is_of_the_newest_run_and_made_again_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    newest = tmp_path / "dd/20261120T170000Z"
    made_runs.saved(made_runs.reference("fsperf", 1), tmp_path / "fsperf/20261119T170000Z")
    made_runs.saved(made_runs.dd(repeats=1), newest)
    done = call_harness("report")
    assert (done.stderr, done.stdout) == ("", f"{shown(newest)}/report.html\n")
    before = {file: file.read_bytes() for file in newest.rglob("*") if file.is_file()}
    assert call_harness("report", str(newest)).stdout == done.stdout
    assert {file: file.read_bytes() for file in before} == before


def test_each_repeat_is_a_dot_and_three_have_an_interval() -> None:
    three = Sample((1.0, 2.0, 4.0))
    series = {"x": [Sample((1.0,)), Sample((3.0, 2.0)), three]}
    (axes,) = charts.bars("t", "MB/s", ["a", "b", "c"], series).axes
    (dots,) = [line for line in axes.lines if line.get_marker() == "."]
    assert np.asarray(dots.get_ydata()).tolist() == [3, 2, 1, 2, 4]
    found = [part for part in axes.collections if isinstance(part, LineCollection)]
    assert sum(len(part.get_segments()) for part in found) == 1
    points = {"a": [(1.0, Sample((1.0, 2.0, 6.0)))]}
    for medians, middle in ({}, 3), ({"medians": True}, 2):  # a median has no interval of a mean
        figure = charts.lines("t", "x", "y", points, lambda _: None, **medians)
        bars: list[Any] = figure.axes[0].containers
        assert [bar.has_yerr for bar in bars] == ([False] if medians else [False, True])
        assert bars[0][0].get_ydata() == [middle]


# --- runs that did not go well ---


def test_environment_may_be_missing_and_must_not_be_broken(tmp_path: Path) -> None:
    assert "environment.json | missing" in report_of(made_runs.dd(repeats=1), {})
    file = made_runs.saved(made_runs.dd(repeats=1), tmp_path) / "environment.json"
    file.unlink()
    assert conditions.load(tmp_path) == {}
    file.write_text("{")
    with pytest.raises(HarnessError, match=r"environment\.json: "):
        write(tmp_path)
    made_runs.saved(dataclasses.replace(made_runs.dd(repeats=1), scenario="other"), tmp_path)
    with pytest.raises(HarnessError, match="there is no report for scenario 'other'"):
        write(tmp_path)


# --- conditions ---


@pytest.mark.parametrize("kind", ["pool", "kernel-lab", "loopback", "demo", "lab"])
def test_the_version_of_a_server_is_told_of_a_labs_own_alone(kind: str) -> None:
    """What is installed here says nothing of a server elsewhere."""
    environment = {"machine": {"fio": "fio-3.33", "nfs-ganesha": "4.3"}}
    place = {"kind": kind, "pool": "nfs-sink"} if kind != "demo" else {"kind": "loopback"}
    run = dataclasses.replace(made_runs.dd(), place=place)
    told = {row[1] for row in conditions.table(run, environment).rows if row[0] == "machine"}
    assert told == {"fio", *(["nfs-ganesha"] if kind in ("demo", "lab") else [])}


def test_a_place_may_be_unknown() -> None:
    assert conditions.in_short(dataclasses.replace(made_runs.dd(), place={})) == "unknown place"


def test_of_a_long_list_the_first_four_are_told() -> None:
    for many, told in ((8, "1; 2; 3; 4; 5; 6; 7; 8"), (9, "1; 2; 3; 4; and more, in ")):
        ((name, said),) = conditions.flat([*range(1, many + 1)], "disks")
        assert (name, said.removesuffix(conditions.FILE)) == ("disks", told)
    for values, told in (("ab", "a or b"), ("aba", "a or b"), ("abc", "a to c")):
        assert extent(values) == told


def test_a_page_says_once_what_its_guest_is() -> None:
    def of(kind: str, run: Summary) -> list[str]:
        environment = {"machine": {}, "lab": {"guest": ""}, "guest": {"guest": kind}}
        return report_of(run, environment).split("## Plots")[0].split("## The answer")

    head, answer = of("user-mode kernel, not emulated", made_runs.oltp())
    assert ". The guest: user-mode kernel, not emulated." in head
    assert "emulated" not in answer
    head, answer = of("emulated by QEMU", made_runs.oltp())
    assert "emulated" not in head
    assert answer.count("emulated") == answer.count("⚠ The guest was emulated (no KVM)") == 1
    full = next(iter(page_cases.cases("oltp").values()))
    _, answer = of("emulated by QEMU", full)
    assert "Client and server shared one emulated processor, full" in answer


# --- results/README.md ---


def _rows(results: Path) -> list[list[str]]:
    text = made_docs.write_findings(results).read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_finding_has_a_row_on_one_page(tmp_path: Path) -> None:
    rows = [row for row in _rows(tmp_path)[2:] if len(row) == 6]
    names = {"dd", "fsperf", "randread", "sio", "oltp", "sweep", "neighbour"}
    assert {row[0] for row in rows} == names
    assert {row[2] for row in rows} == {"not measured", "not testable here"}
    assert len(rows) <= 20


def test_published_figures_stand_where_no_cell_is_done() -> None:
    empty = {name: published(story, made_docs.NO_RUN) for name, story in SCENARIOS.items()}
    named = {"dd", "fsperf", "randread", "oltp", "sweep", "neighbour"}
    assert {name for name, (_, figures) in empty.items() if figures} == named


def test_readme_is_up_to_date(tmp_path: Path) -> None:
    """A reference run that came later, or a report that changed, shows in results/README.md."""
    (tmp_path / "reference").symlink_to(RESULTS / "reference")
    assert made_docs.write_findings(tmp_path).read_text() == (RESULTS / "README.md").read_text()
