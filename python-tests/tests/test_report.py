# SPDX-License-Identifier: GPL-2.0-only
"""Reports of recorded runs: what they say, and how they open in a browser."""

from __future__ import annotations

import dataclasses
import random
import re
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import made_runs
import numpy as np
import pytest
from browser import look
from conftest import call_harness
from made_runs import changed, only, page_row, placed, report_of, unlike
from matplotlib.collections import LineCollection

from nfsmulti import texts
from nfsmulti.errors import HarnessError
from nfsmulti.paths import PYTHON_TESTS, RESULTS, ROOT, shown
from nfsmulti.processes import run
from nfsmulti.report import charts, command, conditions, overtime, pages, rows
from nfsmulti.report.answer import Answer, caveats, extent, ran
from nfsmulti.report.pages import REPORTS, write
from nfsmulti.stats import Sample
from nfsmulti.summary import Cell, Factor, Server, Summary
from nfsmulti.texts import Table

_PHONE = 390
_NOTHING_PUBLISHED = ("clients", "connections", "latency", "metadata", "readsize", "security")
_LABEL = "<b>tested</b>"
_NO_FIGURE = re.compile(r"\b(nan|NaN|None|inf)\b")


def test_what_draws_and_computes_is_loaded_when_that_is_done() -> None:
    """Each takes up to seconds to load, which no command but one that needs it should take."""
    script = "import sys, nfsmulti.__main__, nfsmulti.stories; print(*sys.modules)"
    done = run([sys.executable, "-c", script], timeout=100, env={"PYTHONPATH": str(PYTHON_TESTS)})
    slow = {"jinja2", "matplotlib", "numpy", "scipy"}
    assert "nfsmulti.stories" in done.check().stdout.split()
    assert not slow & set(done.stdout.split())


# --- every scenario ---


_REFERENCES = sorted({file.parent for file in (RESULTS / "reference").glob("*/summary.json*")})


def _told(folder: Path) -> dict[str, Any]:
    """Return what a reference run's page is made of."""
    summary = Summary.load(folder)
    report = REPORTS[summary.scenario]
    return pages.contents(report, summary, conditions.load(folder), published=True)


@pytest.mark.parametrize("folder", _REFERENCES, ids=lambda folder: folder.name)
def test_answers_can_be_read_in_ten_seconds(folder: Path) -> None:
    """A reference run's: the number soon, few words, and then what they rest on."""
    told = _told(folder)
    answer, sections = told["answer"], told["sections"]
    words = answer.headline.split()
    assert len(words) <= 25
    nothing = words[:3] == ["No", "measurable", "difference"]
    assert nothing or any(word[0].isdigit() for word in words[:3])
    assert 1 <= len(answer.table.rows) <= 10
    assert len(answer.table.headings) <= 6
    assert "±" in str(answer.table.rows) or folder.name == "sweep"
    assert len(answer.caveats) == len(set(answer.caveats)) <= 3
    assert max(map(len, answer.caveats), default=0) <= 80
    assert answer.ran.endswith(("nfsmulti 0.6.0.", "nfsmulti 0.7.0."))
    assert "\n" not in answer.ran
    shown = answer.terminal(80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown

    titles = [one.title for one in sections]
    drawn = [at for at, one in enumerate(sections) if one.plots and not one.folded]
    folded = [at for at, one in enumerate(sections) if one.folded]
    published = [at for at, title in enumerate(titles) if title.startswith("Published")]
    assert folded == list(range(folded[0], len(sections))), titles
    assert max(drawn, default=-1) < min(published, default=folded[0]), titles
    assert max(published, default=-1) < folded[0], titles
    assert {"Every cell", "How to read it", "Conditions"} <= {titles[at] for at in folded}


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


@pytest.mark.parametrize("name", made_runs.RUNS)
def test_a_part_of_a_run_makes_a_report(name: str) -> None:
    """Any one cell, or some; one point; single runs, which have no intervals.

    Cells run in another order each time: any of them may be what is done.
    """
    run, draw = made_runs.RUNS[name](), random.Random(7)
    first, last = run.cells[0], run.cells[-1]
    some = [draw.sample(run.cells, count) for count in (2, 3, 5, 8)]
    for cells in ([first], [last], *some):
        assert not _NO_FIGURE.search(report_of(dataclasses.replace(run, cells=cells)))
    point = report_of(only(run, lambda cell: cell.factors == first.factors))
    assert not _NO_FIGURE.search(point)
    once = report_of(only(run, lambda cell: cell.repeat == 1))
    assert not _NO_FIGURE.search(once)
    if name != "sweep":  # whose intervals are the model's
        assert not re.search(r"\d\.\d\d \(\d+\.\d\d to \d", once)
        assert "with 95 % intervals" not in once.replace(charts.REPEATS, "")


@pytest.mark.parametrize("name", made_runs.RUNS)
def test_the_pages_of_a_run(name: str, tmp_path: Path) -> None:
    """All parts, in their order; plots that are files as well; and nothing from outside."""
    folder = made_runs.saved(
        dataclasses.replace(made_runs.RUNS[name](), label=_LABEL), tmp_path / name
    )
    write(folder)
    text, page = ((folder / file).read_text() for file in ("report.md", "report.html"))
    drawn = "".join(map(Path.read_text, folder.glob("plots/*.svg")))
    unpublished = name in _NOTHING_PUBLISHED

    parts = ["# ", "## The answer", "!["]
    parts += [] if unpublished else ["## Published figures and ours"]
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
    assert unpublished or 'data-of="verdict">' in page
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


def test_a_plot_names_its_lines_once() -> None:
    """Those that dot what would be ideal as well."""
    plots = [plot for one in REPORTS["dd"].tell(made_runs.dd(1)).sections for plot in one.plots]
    names = [[text.get_text() for text in legend.get_texts()]
             for plot in plots for legend in plot.figure.legends]  # fmt: skip
    assert len(names) == len(plots) == 2
    assert names[0] == ["times 1, write", "times 1, read", "write", "read"]


@pytest.mark.full
def test_pages_fit_a_phone_and_say_nothing_on_the_console(tmp_path: Path) -> None:
    runs = [made() for made in made_runs.RUNS.values()]
    reports = [pages.page(**pages.contents(REPORTS[one.scenario], one, {})) for one in runs]
    console, seen = look(reports, tmp_path, _PHONE)
    assert console == []
    assert not [run.scenario for run, page in zip(runs, seen, strict=True) if page.overflow]
    answers = [pages.page(**{**_told(folder), "sections": []}) for folder in _REFERENCES]
    _, seen = look(answers, tmp_path, 400)
    assert not [run.name for run, page in zip(_REFERENCES, seen, strict=True) if page.scrolled]


def test_report_is_of_the_newest_run_and_made_again_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    newest = tmp_path / "dd/20261120T170000Z"
    made_runs.saved(made_runs.fsperf(repeats=1), tmp_path / "fsperf/20261119T170000Z")
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


def test_failed_and_waiting_cells_are_named() -> None:
    """So is a run of which nothing is done."""
    made = made_runs.Maker("dd")
    made.add({"client": "capped", "direction": "write", "streams": 1}, write=14.5e6)
    made.unrun({"client": "capped", "direction": "write", "streams": 5}, "failed", "server | gone")
    made.unrun({"client": "capped", "direction": "read", "streams": 1}, "waiting")
    text = report_of(made.summary())
    assert "⚠ 1 of 5 cells failed and are missing: all with streams 5. ⚠ Interrupted: 1 of" in text
    assert "| write, 5 streams | 1 | server \\| gone |" in text
    assert "have not run: continue it with run --resume." in text
    assert "| read, 1 stream | 1 |" in text
    assert (
        f"| not measured | 3.71 times (19.4 to 72 MB/s) | {texts.MISSING} | it takes both sides |"
        in text
    )

    nothing = [cell for cell in made.cells if cell.status == "waiting"]
    text = report_of(dataclasses.replace(made.summary(), cells=nothing))
    assert "No cell of this run has finished" in text
    assert "43.20 s, 19.4 MB/s" in text


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


# --- what pages say ---


def _sio(rates: dict[str, float], *threads: int, pattern: str = "random", **more: Any) -> Summary:
    """Make a run of sio that reads, at these rates by mode."""
    made = made_runs.Maker("sio")
    for (mode, rate), at in product(rates.items(), threads):
        factors: dict[str, Factor] = {"mode": mode, "pattern": pattern, "direction": "read"}
        made.add({**factors, "threads": at}, read=rate, jobs=at, **more)
    return made.summary()


def _joined(*runs: Summary) -> Summary:
    return dataclasses.replace(runs[0], cells=[cell for run in runs for cell in run.cells])


def _run(scenario: str, *cells: tuple[Any, Any], **more: Any) -> Summary:
    made = made_runs.Maker(scenario)
    for factors, figures in cells:
        made.add(factors, **figures, **more)
    return made.summary()


def _served(*levels: Factor) -> Summary:
    """Make a run of neighbour under two values of a setting of the server."""
    at = dict(zip((8, 64), levels, strict=True))
    run = changed(
        made_runs.neighbour(),
        factors=lambda cell: {**cell.factors, "threads": at[cell.factors["threads"]]},
    )
    return placed(run, setting={"name": "threads", "values": [*levels]})


def _few_reads(number: int) -> Summary:
    readers = ("readers", "readers-beside-writer")
    cells: list[Any] = [({"workload": one}, {"read": 2e6, "block": 4096}) for one in readers]
    few = _run("neighbour", *cells)
    return changed(few, read=lambda cell: dataclasses.replace(cell.read, ops=number))


_DD = made_runs.dd()
_OWN = placed(_DD, kind="pool")
_TIME = r"72 MB/s in sum, 3\.71 times \| 57\.\d\d s{}, 7\d\.\d MB/s"
_WRITE: dict[str, Factor] = {"client": "pool", "direction": "write"}
_DD_POOL, _TWO_HOSTS = (
    dataclasses.replace(made, place={"kind": "lab"})
    for made in (
        _run("dd", ({**_WRITE, "streams": 1}, {"write": 200e6}),
             ({**_WRITE, "streams": 5}, {"write": 900e6})),
        _run("dd", ({**_WRITE, "streams": 1}, {"write": 2 * 800 << 20})),
    )
)  # fmt: skip
_TWO_PATHS = _run(
    "fsperf",
    ({"client": "nfs3", "paths": 2, "spread": "roundrobin"},
     {"read": 1e9, "paths": {"a": 0.75, "b": 0.25}}),
)  # fmt: skip
_CACHED = _sio({"buffered": 3e8, "direct": 3e7, "concurrent": 2.5e7}, 32)
_ONE_KIND = _run(
    "oltp",
    *(({"connections": "one", "concurrency": at}, {"read": 2e7, "write": 1e7}) for at in (1, 8)),
)
_NO_DIFFERENCE = r"No measurable difference in the {} for full-speed readers beside a bulk writer\."
_IN_A_ROW = "sequential"
_HOSTS = ["h1", "h2"]
_EACH = "on each of 2 hosts"


@pytest.mark.parametrize(
    ("run", "said", "never"),
    [
        page_row("an own pool has nothing published", _OWN, never="## Published"),
        page_row("unless that is asked for",
              dataclasses.replace(_OWN, command=f"{_OWN.command} --published"), "## Published"),
        page_row("dd's time is measured", _DD, _TIME.format("")),
        page_row("or extrapolated", dataclasses.replace(_DD, quick=True),
              _TIME.format(r" \(extrapolated\)")),
        page_row("both published clients stand beside dd without caps", _DD_POOL,
              r"written by 5 streams, 4\.\d+ times 1 stream: each",
              r"AIX \(no caps of the lab\), write, 5 streams \| 55 s, 72 MB/s in sum, 3\.71 times",
              r"Linux \(no caps of the lab\), write, 1 stream \| 6\.02 s, 139 MB/s, in part"),
        page_row("Jain's index where the run did not count it", _TWO_PATHS,
              r"\| 0\.8000 \|"),
        page_row("fsperf on a pool takes the most paths there are", _run("fsperf", *(
              ({"client": "mount-v4.2", "paths": paths, "spread": spread}, {"read": 5e8 * paths})
              for paths, spread in ((1, "job"), (2, "stripe"), (2, "roundrobin")))),
              r"MB/s over 2 paths, (2\.0|1\.9)\d times 1 path \(mount-v4\.2\)\.",
              r"\| mount-v4\.2, 2 paths by round robin \| 1,094 MB/s, 2\.09 times \|",
              r"\| 2 paths by round robin read more than one: mount-v4\.2 \| ",
              never="2 paths by stripe"),
        page_row("the published mount stands beside randread on a pool",
              _run("randread", ({"transport": "pool"}, {"read": 3e9}), block=65536, jobs=4),
              r"bandwidth, all four jobs: nfsmulti \| 4178 MiB/s"),
        page_row("a gain is above the limit with its whole interval",
              _sio({"buffered": 2e8, "direct": 1e8, "concurrent": 1.5e8}, 1, pattern="sequential"),
              r"against buffered, 1 thread \| reproduced \| no gain, or a loss \|",
              r"against direct, 1 thread \| not reproduced \| no gain, or a loss \|"),
        page_row("4 threads are no high concurrency", _sio({"buffered": 1e8, "concurrent": 4e8}, 4),
              r"against buffered, 4 threads \| not testable here \| a large gain \|.*it needs 16"),
        page_row("16 are", _sio({"buffered": 1e8, "concurrent": 4e8}, 16),
              r"against buffered, 16 threads \| reproduced \| a large gain \|"),
        page_row("what the client's cache answers is not judged", _CACHED,
              r"against buffered, 32 threads \| not measured \| a large gain \|",
              "⚠ Buffered random reads came out of the client's page cache, not over NFS\\."),
        page_row("the rest is",
              _joined(_CACHED, _sio({"buffered": 3e8, "concurrent": 3e8}, 32, pattern=_IN_A_ROW)),
              r"\| sequential reads (1\.0|0\.9)[^,|]*\| the interval lies below 1\.50 \|"),
        page_row("CPU of two kinds is not taken together", changed(
              _sio({"direct": 1e8}, 1, 32), lambda cell: cell.factors["threads"] == 1,
              machine_cpu_s=None, cpu_s=lambda cell: 0.0 if cell.repeat == 1 else cell.cpu_s),
              r"\| CPU per operation on one mount, 32 .*? \| not measured \| rises \|"),
        page_row("percentiles are of all repeats together", changed(
              only(_ONE_KIND, lambda cell: cell.factors["concurrency"] == 1 and cell.repeat < 3),
              read=lambda cell: dataclasses.replace(
                  cell.read, bins={"1000000": 98} if cell.repeat == 1 else {"9000000": 2})),
              r"\| 1\.00 \| 9\.00 \| 9\.00 \|"),  # p50, p99, p99.9
        page_row("oltp without a second kind compares nothing", _ONE_KIND,
              r"; one connection and another kind were not both measured\."),
        page_row("one point says what it measured: sio", _sio({"direct": 1e8}, 8),
              r" MB/s, [\d,]+ IOPS, p99 [\d.]+ ms: direct, random, read, threads 8; only that was"),
        page_row("neighbour", only(_served(1, 64), lambda cell: cell.factors == {
              "workload": "readers", "threads": 64}),
              r" MB/s, [\d,]+ IOPS, p99 [\d.]+ ms: full speed, alone, 64 server threads; only"),
        page_row("a question mark is explained on any page that has one",
              _joined(_ONE_KIND, changed(_ONE_KIND, factors=lambda cell: {
                  **cell.factors, "connections": "pool"})),
              r"\?: the interval includes 1, so no difference is shown\."),
        page_row("p99 of enough reads", _few_reads(2000), _NO_DIFFERENCE.format("p99")),
        page_row("p50 of fewer", _few_reads(300), _NO_DIFFERENCE.format("p50")),
        page_row("none of four", _few_reads(4),
              "; enough reads alone and beside the writer were not both"),
        page_row("a server has so many threads", _served(1, 64), r"full speed, 1 server thread \|",
              r"full speed, 64 server threads \|", "1 or 64 server threads"),
        page_row("or threads that are so", _served("cached", "dontcache"),
              r"full speed, cached \|", r"full speed, dontcache \|",
              never="cached or dontcache server threads"),
        *(page_row(f"a file of {size} bytes as one types it",
                changed(made_runs.dd(1), command=f"fio --size={size}"), rf"file of {told} \(fits")
          for size, told in ((10_000_000, "10 MB"), (1 << 30, "1 GiB"), (800 << 20, "800 MiB"),
                             (12_345_678, r"11\.8 MiB"))),
        page_row("what runs on each host: dd", placed(_DD, hosts=_HOSTS),
              f"written by 5 streams {_EACH}, ", rf"AIX \(.*\), write, 5 streams {_EACH} \| "),
        page_row("randread", placed(made_runs.randread(), hosts=_HOSTS),
              rf"NFSv3 {_EACH}\.", f"bandwidth, all four jobs {_EACH}: kernel mount"),
        page_row("oltp", placed(made_runs.oltp(), hosts=_HOSTS),
              rf"in flight, all jobs together, {_EACH}\."),
        page_row("dd's time is that of all hosts' streams", placed(_TWO_HOSTS, hosts=_HOSTS),
              r"AIX \(no caps of the lab\), write, 1 stream [^|]*\|[^|]*\| (1\.0|0\.9)\d s,"),
        page_row("a pool's page compares with nothing published, nor with the kernel lab",
              placed(made_runs.sio(), kind="pool"), r"direct I/O: concurrent, 32 threads\.",
              never="no wire"),
        page_row("what is not as it was published", placed(made_runs.dd(1), fitted={
              "capped": {"carried": 1051846259.481, "fraction": 1 / 3}},
              differs=["No link.", "No disk."]),
              r"\| place \| differs \| No link\. No disk\. \|", never="1051846259"),
    ],
)  # fmt: skip
def test_what_a_page_says(run: Summary, said: tuple[str, ...], never: str) -> None:
    assert unlike(run, said, never) == []


# --- fsperf ---


def test_fsperf_says_where_its_limits_rule_a_published_ratio_out() -> None:
    lab = {"link": "9400mbit", "per_address": "6200mbit", "burst": "2m"}
    guest = {"link": "118mbit", "per_mount": "78mbit"}
    wider = {**lab, "per_address": "4000mbit"}
    by_construction = "reproduced by construction"
    for limits, ruled_out, kind in (
        (lab, True, by_construction),
        ({"lab": lab, "guest": guest}, True, by_construction),
        ({"lab": lab, "guest": {**guest, "per_mount": "39mbit"}}, True, by_construction),
        ({"lab": wider, "guest": guest}, False, "reproduced"),
        ({}, False, "reproduced"),
    ):
        text = report_of(placed(made_runs.fsperf(), limits=limits))
        told = re.search(r"more than one: nfsmulti, NFSv4\.1 \| ([^|]+) \|", text)
        assert told
        assert (told[1] == "not testable here") == ruled_out, limits
        assert ("the lab's own limits allow about 1.52 times at most |" in text) == ruled_out
        assert re.search(rf"more than one: nfsmulti, NFSv3 \| {kind} \|", text)


# --- sio ---


def test_sio_tells_nothing_where_the_interval_is_too_wide() -> None:
    """The rates of three repeats by mode, with one thread and with 32; CPU per I/O goes with it."""
    rates = {
        ("direct", 1): (1, 2, 3), ("concurrent", 1): (2, 2, 3),
        ("direct", 32): (1, 4, 2), ("concurrent", 32): (1, 9, 2),
    }  # fmt: skip
    run = changed(
        _sio({"direct": 1e8, "concurrent": 1e8}, 1, 32, pattern="sequential", noise=0),
        read=lambda cell: dataclasses.replace(cell.read, iops=1e4 * _times(rates, cell)),
        machine_cpu_s=lambda cell: cell.cpu_s * _times(rates, cell),
    )
    text = report_of(run)
    assert "| inconclusive | no gain, or a loss |" in text
    told = r"\| inconclusive \| rises \| sequential reads [^|]+ \| 3 repeats; (about|more)"
    assert re.search(told, text)


def _times(rates: Mapping[tuple[str, int], tuple[int, ...]], cell: Cell) -> int:
    at = (str(cell.factors["mode"]), int(cell.factors["threads"]))
    return rates[at][cell.repeat - 1]


# --- neighbour ---


def _last(cell: Cell) -> bool:
    return cell.factors == {"workload": "readers-beside-writer", "threads": 64}


def test_neighbours_waits_and_their_ratio_are_of_one_statistic() -> None:
    """One slow repeat of five makes most of what all have together, and a fifth of their mean."""
    slow = made_runs.figures(made_runs.Maker("").rng, 40e6, 4096, 9000)
    run = changed(made_runs.neighbour(5), lambda cell: _last(cell) and cell.repeat == 5, read=slow)
    waits = [cell.read.p99_us / 1000 for cell in run.cells if _last(cell) and cell.read]
    found = re.search(r"\| full speed, threads 64 \| \S+ ± \S+ \| (\S+) ± ", report_of(run))
    assert found
    assert float(found[1]) == pytest.approx(np.mean(waits), rel=0.05)


def test_neighbour_tells_no_percentile_of_the_fast_repeats_alone() -> None:
    slow = dataclasses.replace(made_runs.figures(made_runs.Maker("").rng, 4e6, 4096, 9e4), ops=999)
    run = changed(made_runs.neighbour(5), lambda cell: _last(cell) and cell.repeat == 5, read=slow)
    told = "times the p50 for full-speed readers beside a bulk writer with threads 8"
    assert told in report_of(run)
    plots = [plot for one in REPORTS["neighbour"].tell(run).sections for plot in one.plots]
    (levels,) = [plot.figure for plot in plots if plot.name == "readers-p99"]
    assert len(levels.axes[0].patches) == 3  # bars, of two workloads under two levels


# --- conditions ---


@pytest.mark.parametrize("kind", ["pool", "kernel-lab", "loopback", "demo", "lab"])
def test_the_version_of_a_server_is_told_of_a_labs_own_alone(kind: str) -> None:
    """What is installed here says nothing of a server elsewhere."""
    environment = {"machine": {"fio": "fio-3.33", "nfs-ganesha": "4.3"}}
    place = {"kind": kind, "pool": "nfs-sink"} if kind != "demo" else {"kind": "loopback"}
    run = dataclasses.replace(made_runs.dd(), place=place)
    told = {row[1] for row in conditions.table(run, environment).rows if row[0] == "machine"}
    assert told == {"fio", *(["nfs-ganesha"] if kind in ("demo", "lab") else [])}


def test_conditions_are_one_line_each() -> None:
    environment = {
        "machine": {"engine": f"{ROOT}/build/libnfsmulti.so", "label": None},
        "lab": {
            "links": [{"name": "v1", "mtu": 1500, "limits": ["htb rate 1Gbit", "fq"]}, {"mtu": 9}],
            "servers": ["nfs-ganesha 4.3", "another"],
            "sysctls": {"net.ipv4.tcp_rmem": "4096\t131072"},
            "mounts": [],
        },
    }
    text = report_of(made_runs.dd(repeats=1), environment)
    assert "The guest" not in text
    assert "| machine | engine | build/libnfsmulti.so |" in text
    assert "| lab | links v1 | mtu 1500, limits htb rate 1Gbit; fq |" in text
    assert "| lab | links 2 | mtu 9 |" in text
    assert "| lab | servers | nfs-ganesha 4.3; another |" in text
    assert "| lab | sysctls net.ipv4.tcp_rmem | 4096 131072 |" in text
    assert "mounts" not in text
    assert "label" not in text.split("## Conditions")[1]


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
    _, answer = of("emulated by QEMU", made_runs.fsperf())
    assert answer.count("emulated") == 1


_SHARED = "Client and server shared one processor, full"
_EVERY = len(made_runs.oltp().cells)


@pytest.mark.parametrize(
    ("full", "kind", "emulated", "told"),
    [
        (_EVERY, "kernel-lab", False, f"{_SHARED}: ratios compare CPU cost."),
        (_EVERY // 3, "kernel-lab", False, f"{_SHARED} in {_EVERY // 3} of {_EVERY} cells."),
        (_EVERY // 5, "kernel-lab", False, ""),
        (_EVERY, "kernel-lab", True, f"{_SHARED.replace('one', 'one emulated')}: ratios compare"
                                     " CPU cost."),
        (_EVERY, "pool", False, "The client had one processor, full: ratios compare CPU cost."),
    ],
)  # fmt: skip
def test_processors_that_were_full_are_told_once_and_whose_they_were(
    full: int, kind: str, emulated: bool, told: str
) -> None:
    """A ratio of two transports compares what they cost where both had all of one processor."""
    made = placed(made_runs.oltp(), kind=kind)
    busy = {id(cell) for cell in made.cells[:full]}
    run = changed(made, processors=1, machine_cpu_s=lambda cell: 4.0 if id(cell) in busy else 1.0)
    guest = conditions.guest({"guest": {"guest": "emulated by QEMU"}}) if emulated else ""
    assert " ".join(caveats(run, [], guest)) == told


def test_a_server_s_full_processors_are_told() -> None:
    server = Server(cpu_percent=97.0, processors=8, dirty_bytes=0, cached_bytes=0)
    run = placed(changed(made_runs.oltp(), server=server), kind="pool")
    assert caveats(run, [], "") == ["The server had 8 processors, full: ratios compare CPU cost."]


@pytest.mark.parametrize(
    ("command", "factors", "mounts", "told"),
    [
        ("--pool=nfs://nas/export", {}, {}, "NFSv3 over TCP"),
        ("--pool=nfs://nas/x?version=4.1&proto=rdma", {}, {}, "NFSv4.1 over RDMA"),
        ("--directory=/mnt", {}, {"a": "vers=4.2,proto=tcp"}, "NFSv4.2 over TCP"),
        ("--pool=nfs://nas/x", {}, {"a": "vers=4.1,proto=rdma"}, "NFSv3 and v4.1 over RDMA and"),
        ("--directory=/mnt", {"version": "4.1"}, {}, "NFSv4.1,"),
        ("--directory=/mnt", {}, {}, ""),
    ],
)
def test_what_was_run_names_version_and_transport(
    command: str, factors: dict[str, Factor], mounts: dict[str, str], told: str
) -> None:
    made = made_runs.Maker("oltp", 1)
    made.add({"connections": "one", "concurrency": 1, **factors}, read=1e8)
    place = {"kind": "pool", "pool": "nfs://nas/x?version=4.1,nfs://b/x", "mounts": mounts}
    words = ran(changed(made.summary(place), command=f"fio {command}"), {})
    assert told in words
    assert ("NFSv" in words) == bool(told)
    assert "nfs://nas/x,nfs://b/x." in words


def test_lines_over_time_are_called_as_in_tables() -> None:
    setting = {"name": "threads", "values": [8, 64]}
    summary = placed(changed(made_runs.neighbour(1), over_time=[1e8] * 4), setting=setting)
    section = overtime.section(summary, REPORTS["neighbour"].names(summary))
    series = section.plots[0].figure.axes[0].get_legend_handles_labels()[1]
    assert "full speed, beside the writer, 64 server threads" in series
    assert "writer, 8 server threads" in series


def test_the_servers_cells_are_in_the_order_in_which_one_looks_them_up() -> None:
    """Not in the random order in which they ran."""
    told = Server(cpu_percent=97.0, processors=8, dirty_bytes=0, cached_bytes=0)
    ran_in_order = (("direct", 16), ("buffered", 4), ("direct", 4))
    run = _joined(*(_sio({mode: 1e8}, threads) for mode, threads in ran_in_order))
    every = report_of(changed(run, server=told)).partition("## Every cell")[2]
    assert "“server %” is of the server's 8 processors" in every
    found = re.findall(r"\| (\w+), threads (\d+) \|", every)
    assert found == [("buffered", "4"), ("direct", "4"), ("direct", "16")]


def test_limits_of_several_places_are_told_in_short() -> None:
    limits = {"capped": {"link": "1gbit", "per_address": "120mbit"}, "uncapped": {}}
    summary = placed(made_runs.dd(repeats=1), pool="", limits=limits)
    assert conditions.in_short(summary) == "lab: link 1 Gbit/s, each address 120 Mbit/s (capped)"
    assert conditions.in_short(dataclasses.replace(summary, place={})) == "unknown place"


# --- more factors, and more hosts ---


def test_cells_that_differ_in_another_factor_are_no_repeats() -> None:
    made = made_runs.Maker("dd")
    for nconnect, streams, rate in ((1, 1, 1e8), (1, 5, 1e8), (4, 1, 1e8), (4, 5, 3e8)):
        factors: dict[str, Factor] = {"client": "pool", "direction": "write", "streams": streams}
        made.add({**factors, "nconnect": nconnect}, write=rate)
    text = report_of(made.summary())
    assert re.search(r"\d times the throughput with nconnect 4, against nconnect 1\.", text)
    own = r" [\d.]+ MB/s written by 5 streams,"
    assert re.search(rf"\| nconnect 1 \| .*?\|{own} (1(\.0\d)?|0\.9\d+) times", text)
    assert re.search(rf"\| nconnect 4 \| .*?\|{own} (3(\.0\d)?|2\.9\d+) times", text)
    rows = re.findall(
        r"\| AIX \(no caps of the lab\), write, 5 streams; nconnect (\d) \| .*? (\d) \|", text
    )
    assert [number for number, _ in rows] == ["1", "4"]
    assert "## Plots; nconnect 4" in text
    assert "(plots/bandwidth-no-caps-of-the-lab-streams-nconnect-4.png)" in text
    assert "as many times 1; nconnect 4](plots/" in text
    assert "| | throughput, times nconnect 1 | p99, times nconnect 1 | answer |" in text


def test_a_further_factor_is_told_by_its_ratio_paired_by_repeat() -> None:
    made = made_runs.Maker("dd")
    for threads, gain in ((16, 2.0), (8, 1.0), (4, 1.0)):
        for streams in (1, 5):
            factors = {"client": "pool", "direction": "write", "streams": streams}
            made.add({**factors, "threads": threads}, write=100e6 * gain * streams)
    lost = made.cells[-1]  # which leaves two pairs
    # Each repeat is twice as fast as the one before: that hides nothing between its cells.
    drifting = [made_runs.faster(cell, 2**cell.repeat) for cell in made.cells if cell is not lost]
    text = report_of(dataclasses.replace(made.summary(), cells=drifting))
    said = r"(2\.0|1\.9)\d ± \d\.\d\d times the throughput with threads 16, against threads 4\."
    assert re.search(said, text)
    # Two pairs of five streams, and three of one.
    assert re.search(r"\| threads 16 \| (2\.0|1\.9)\d ± \d\.\d\d \|", text)
    assert "| threads 4 | 1 |" in text
