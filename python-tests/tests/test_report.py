# SPDX-License-Identifier: GPL-2.0-only
"""Reports of recorded runs: what they say, and how they open in a browser."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import made_runs
import numpy as np
import pytest
from browser import look
from conftest import call_harness
from made_runs import report_of
from matplotlib.collections import LineCollection

from nfsmulti import paths as places
from nfsmulti import texts
from nfsmulti.errors import HarnessError
from nfsmulti.paths import PYTHON_TESTS, RESULTS, ROOT, shown
from nfsmulti.processes import run
from nfsmulti.report import charts, command, conditions, overtime, pages, rows
from nfsmulti.report.answer import Answer, caveats, ran
from nfsmulti.report.pages import REPORTS, write
from nfsmulti.stats import Sample
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Factor, Figures, Server, Summary
from nfsmulti.texts import Table

_PHONE = 390
_NOTHING_PUBLISHED = ("connections", "latency", "readsize", "security")
_LABEL = "<b>tested</b>"
_NO_FIGURE = re.compile(r"\b(nan|NaN|None|inf)\b")


_SUMMARIES = {name: dataclasses.replace(made, label=_LABEL) for name, made in made_runs.every()}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folder of a run of each scenario, with its report."""
    found = {}
    for name, summary in _SUMMARIES.items():
        found[name] = made_runs.saved(summary, tmp_path_factory.mktemp(name))
        write(found[name])
    return found


def test_what_draws_and_computes_is_loaded_when_that_is_done() -> None:
    """Each takes up to seconds to load, which no command but one that needs it should take."""
    script = "import sys, nfsmulti.__main__; print(*{name.split('.')[0] for name in sys.modules})"
    done = run([sys.executable, "-c", script], timeout=100, env={"PYTHONPATH": str(PYTHON_TESTS)})
    slow = {"jinja2", "matplotlib", "numpy", "scipy"}
    assert "nfsmulti" in done.check().stdout.split()
    assert not slow & set(done.stdout.split())


def test_an_installed_harness_refuses_what_writes_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_STATE", "/there")
    for option in ("--options", "--picture", "--published"):
        with pytest.raises(HarnessError, match=f"report {option} needs the project's sources"):
            call_harness("report", option)


# --- every scenario ---


_REFERENCES = sorted({file.parent for file in (RESULTS / "reference").glob("*/summary.json*")})


@functools.cache
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
    assert answer.ran.endswith("nfsmulti 0.6.0.")
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


def test_published_findings_are_on_the_page_of_an_own_pool_where_asked_for() -> None:
    made = made_runs.dd()
    own = dataclasses.replace(made, place={**made.place, "kind": "pool"})
    assert "## Published" not in report_of(own)
    asked = dataclasses.replace(own, command=f"{own.command} --published")
    assert "## Published" in report_of(asked)


def test_a_run_of_one_point_gives_its_number() -> None:
    for name, summary in _SUMMARIES.items():
        first = summary.cells[0]
        one = [cell for cell in summary.cells if cell.factors == first.factors]
        text = report_of(dataclasses.replace(summary, cells=one))
        unit = "operations/s" if name == "metadata" else r"MB/s, [\d,.]+ IOPS"
        assert re.search(rf"## The answer [\d,.]+ {unit}: one point was measured\.", text), name


def test_report_has_its_parts_in_order(folders: dict[str, Path]) -> None:
    for name, folder in folders.items():
        text = (folder / "report.md").read_text()
        parts = ["# ", "## The answer", "!["]
        parts += [] if name in _NOTHING_PUBLISHED else ["## Published figures and ours"]
        parts += ["## How to read", "## Conditions", "| nfs-ganesha |", "## The command"]
        places = [text.find(part) for part in [*parts, "./nfsmulti run"]]
        assert -1 not in places, name
        assert places == sorted(places), name
        assert "percentiles are of the bins of all jobs and repeats together" in text, name
        assert "Each host" not in text, name


def test_report_shows_no_missing_value(folders: dict[str, Path]) -> None:
    for folder in folders.values():
        for file in ("report.md", "report.html"):
            text = re.sub(r"<svg.*?</svg>", "", (folder / file).read_text(), flags=re.DOTALL)
            assert not _NO_FIGURE.search(text), folder
        plots = "".join(map(Path.read_text, folder.glob("plots/*.svg")))
        assert not re.search(r"\bnan\b", plots), folder


def test_plots_are_files_as_well(folders: dict[str, Path]) -> None:
    for folder in folders.values():
        named = re.findall(r"\]\((plots/[^)]+)\)", (folder / "report.md").read_text())
        assert named, folder
        assert not [name for name in named if (folder / name).stat().st_size <= 5000]
        assert all((folder / name).with_suffix(".svg").exists() for name in named), folder


def test_a_phone_shows_each_column_of_a_finding_by_its_name(folders: dict[str, Path]) -> None:
    for name, folder in folders.items():
        page = (folder / "report.html").read_text()
        assert name in _NOTHING_PUBLISHED or 'data-of="verdict">' in page, name
        assert '<table class="text">' in page, name  # the conditions too
        assert '<td data-of="value">' in page, name


def test_lines_differ_without_colour() -> None:
    looks = [charts.style(number) for number in range(6)]
    assert len({str(look["linestyle"]) for look in looks}) == 4
    assert len({(look["marker"]) for look in looks}) == 6


def test_page_refers_to_nothing_outside(folders: dict[str, Path]) -> None:
    for folder in folders.values():
        text = (folder / "report.html").read_text()
        outside = re.findall(r"""(?:src|href)=["'](?!#)([^"']*)""", text)
        assert outside == [rows.FILE], folder  # which lies beside it
        assert (folder / rows.FILE).exists()
        assert not re.findall(r"@import|url\((?!#)[^)]*\)|<link|<script [^>]", text), folder
        ids = re.findall(r'id="([^"]+)"', text)
        assert len(ids) == len(set(ids)), folder
        assert _LABEL not in text, folder  # a user's words are no markup


@pytest.mark.full
def test_page_fits_a_phone_and_says_nothing_on_the_console(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    reports = [(folder / "report.html").read_text() for folder in folders.values()]
    console, seen = look(reports, tmp_path, _PHONE)
    assert console == []
    too_wide = [name for name, page in zip(folders, seen, strict=True) if page.overflow]
    assert not too_wide


@pytest.mark.full
def test_an_answers_table_fits_a_phone(tmp_path: Path) -> None:
    answers = [pages.page(**{**_told(folder), "sections": []}) for folder in _REFERENCES]
    _, seen = look(answers, tmp_path, 400)
    too_wide = [run.name for run, page in zip(_REFERENCES, seen, strict=True) if page.scrolled]
    assert not too_wide


def test_single_runs_give_figures_without_intervals() -> None:
    for name, summary in _SUMMARIES.items():
        once = [cell for cell in summary.cells if cell.repeat == 1]
        text = report_of(dataclasses.replace(summary, cells=once))
        assert not _NO_FIGURE.search(text), name
        if name != "sweep":  # whose intervals are the model's
            assert not re.search(r"\d\.\d\d \(\d+\.\d\d to \d", text), name
            assert "with 95 % intervals" not in text.replace(charts.REPEATS, ""), name


def test_any_one_cell_makes_a_report() -> None:
    for summary in _SUMMARIES.values():
        for cell in (summary.cells[0], summary.cells[-1]):
            assert not _NO_FIGURE.search(report_of(dataclasses.replace(summary, cells=[cell])))


def test_without_a_folder_the_newest_run_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    for scenario, at in (
        (made_runs.dd, "20261120T170000Z"),
        (made_runs.fsperf, "20261119T170000Z"),
    ):
        made_runs.saved(scenario(repeats=1), tmp_path / scenario.__name__ / at)
    done = call_harness("report")
    page = tmp_path / "dd/20261120T170000Z/report.html"
    assert (done.stderr, done.stdout) == ("", f"{shown(page)}\n")


def test_report_made_again_is_the_same(tmp_path: Path) -> None:
    folder = made_runs.saved(made_runs.dd(repeats=1), tmp_path)
    done = call_harness("report", str(folder))
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.endswith("report.html\n")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    call_harness("report", str(folder)).check()
    assert {file: file.read_bytes() for file in before} == before


def test_each_repeat_is_a_dot_and_three_have_an_interval() -> None:
    three = Sample((1.0, 2.0, 4.0))
    series = {"x": [Sample((1.0,)), Sample((3.0, 2.0)), three]}
    (axes,) = charts.bars("t", "MB/s", ["a", "b", "c"], series).axes
    (dots,) = [line for line in axes.lines if line.get_marker() == "."]
    assert np.asarray(dots.get_ydata()).tolist() == [3, 2, 1, 2, 4]
    found = [part for part in axes.collections if isinstance(part, LineCollection)]
    assert sum(len(part.get_segments()) for part in found) == 1


# --- runs that did not go well ---


def test_failed_and_waiting_cells_are_named() -> None:
    """So is a run of which nothing is done."""
    made = made_runs.Maker("dd")
    made.add({"client": "capped", "direction": "write", "streams": 1}, write=14.5e6)
    made.unrun({"client": "capped", "direction": "write", "streams": 5}, "failed", "server | gone")
    made.unrun({"client": "capped", "direction": "read", "streams": 1}, "waiting")
    text = report_of(made.summary())
    assert "⚠ 1 of 5 cells failed and are missing: all with streams 5. ⚠ Interrupted: 1 of" in text
    assert "| direction write, streams 5 | 1 | server \\| gone |" in text
    assert "`--resume` continues it." in text
    assert "| direction read, streams 1 | 1 |" in text
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
    made_runs.saved(made_runs.dd(repeats=1), tmp_path)
    (tmp_path / "environment.json").unlink()
    assert conditions.load(tmp_path) == {}
    (tmp_path / "environment.json").write_text("{")
    with pytest.raises(HarnessError, match=r"environment\.json: "):
        write(tmp_path)


def test_unknown_scenario_is_refused(tmp_path: Path) -> None:
    summary = dataclasses.replace(made_runs.dd(repeats=1), scenario="other")
    made_runs.saved(summary, tmp_path)
    with pytest.raises(HarnessError, match="there is no report for scenario 'other'"):
        write(tmp_path)


# --- dd ---


def test_dd_says_where_a_time_is_extrapolated() -> None:
    for quick in (False, True):
        text = report_of(dataclasses.replace(made_runs.dd(), quick=quick))
        said = r" \(extrapolated\)" if quick else ""
        assert re.search(rf"72 MB/s in sum, 3\.71 times \| 57\.\d\d s{said}, 7\d\.\d MB/s", text)


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
        place = {**made_runs.PLACE, "limits": limits}
        text = report_of(dataclasses.replace(made_runs.fsperf(), place=place))
        told = re.search(r"more than one: nfsmulti, NFSv4\.1 \| ([^|]+) \|", text)
        assert told
        assert (told[1] == "not testable here") == ruled_out, limits
        assert ("the lab's own limits allow about 1.52 times at most |" in text) == ruled_out
        assert re.search(rf"more than one: nfsmulti, NFSv3 \| {kind} \|", text)


def test_fsperf_counts_jain_where_the_run_did_not() -> None:
    made = made_runs.Maker("fsperf")
    factors: dict[str, Factor] = {"client": "nfs3", "paths": 2, "spread": "roundrobin"}
    made.add(factors, read=1e9, paths={"a": 0.75, "b": 0.25})
    text = report_of(made.summary())
    assert "| 0.8000 | 75.0, 25.0 |" in text


def test_fsperf_gives_each_path_its_own_share() -> None:
    made = made_runs.Maker("fsperf")
    factors: dict[str, Factor] = {"client": "nfs3", "paths": 2, "spread": "roundrobin"}
    made.add(factors, read=1e9, paths={"a": 0.5, "b": 0.5})
    made.cells[-1] = dataclasses.replace(made.cells[-1], paths={"b": 1.0})
    assert "| 33.3, 66.7 |" in report_of(made.summary())


# --- randread ---


# --- sio ---


def test_sio_says_which_of_the_published_findings_are_found() -> None:
    text = report_of(made_runs.sio())
    said = r"\d\.\d\d times buffered and \S+ to \S+ times direct I/O: concurrent, 32 threads"
    assert re.search(rf"{said}; the published large gain is reproduced\.", text)
    own = report_of(dataclasses.replace(made_runs.sio(), place={"kind": "pool"}))
    assert re.search(rf"{said}\.", own)  # whose page does not show what was published
    assert len(re.findall(r"\| reproduced \| (no gain|a large|rises)", text)) == 4


def _add(
    made: made_runs.Maker, rates: dict[str, float], *threads: int, pattern: str = "random"
) -> None:
    """Add sio cells that read, by mode."""
    for (mode, rate), at in product(rates.items(), threads):
        factors: dict[str, Factor] = {"mode": mode, "pattern": pattern, "direction": "read"}
        made.add({**factors, "threads": at}, read=rate, jobs=at)


def _varying(made: made_runs.Maker, rates: dict[str, list[float]], threads: int) -> None:
    """Add sio cells whose repeats have these rates, by mode; CPU per I/O goes with the rate."""
    for mode, values in rates.items():
        made.repeats = 1
        for repeat, rate in enumerate(values, start=1):
            factors: dict[str, Factor] = {"mode": mode, "pattern": "sequential"}
            factors |= {"direction": "read", "threads": threads}
            made.add(factors, read=rate, cpu_us=rate / 1e7, jobs=threads)
            made.cells[-1] = dataclasses.replace(made.cells[-1], repeat=repeat)


def test_sio_tells_nothing_where_the_interval_is_too_wide() -> None:
    made = made_runs.Maker("sio")
    _varying(made, {"direct": [1e8, 2e8, 3e8], "concurrent": [2e8, 2e8, 3e8]}, 1)
    _varying(made, {"direct": [1e8, 4e8, 2e8], "concurrent": [1e8, 9e8, 2e8]}, 32)
    text = report_of(made.summary())
    assert "| inconclusive | no gain, or a loss |" in text
    told = r"\| inconclusive \| rises \| sequential reads [^|]+ \| 3 repeats; (about|more)"
    assert re.search(told, text)


def test_sio_takes_no_cpu_of_two_kinds_together() -> None:
    made = made_runs.Maker("sio")
    _add(made, {"direct": 1e8}, 1, 32)
    for number, cell in enumerate(made.cells):
        if cell.factors["threads"] == 1:
            cpu_s = 0.0 if cell.repeat == 1 else cell.cpu_s
            made.cells[number] = dataclasses.replace(cell, machine_cpu_s=None, cpu_s=cpu_s)
    row = r"\| CPU per operation on one mount, 32 .*? \| not measured \| rises \|"
    assert re.search(row, report_of(made.summary()))


def test_sio_calls_a_gain_what_lies_above_the_limit_with_its_whole_interval() -> None:
    """And no concurrency high that is not."""
    made = made_runs.Maker("sio")
    _add(made, {"buffered": 2e8, "direct": 1e8, "concurrent": 1.5e8}, 1, pattern="sequential")
    text = report_of(made.summary())
    assert "against buffered, 1 thread | reproduced | no gain, or a loss |" in text
    assert "against direct, 1 thread | not reproduced | no gain, or a loss |" in text
    made = made_runs.Maker("sio")
    _add(made, {"buffered": 1e8, "concurrent": 4e8}, 4)
    text = report_of(made.summary())
    assert "against buffered, 4 threads | inconclusive | a large gain |" in text


def test_sio_does_not_judge_what_the_clients_cache_answers() -> None:
    made = made_runs.Maker("sio")
    _add(made, {"buffered": 3e8, "direct": 3e7, "concurrent": 2.5e7}, 32)
    text = report_of(made.summary())
    assert "against buffered, 32 threads | not measured | a large gain |" in text
    _add(made, {"buffered": 3e8, "concurrent": 3e8}, 32, pattern="sequential")
    text = report_of(made.summary())
    assert re.search(r"\| sequential reads 1\.0[^,|]*\| the interval lies below 1\.50 \|", text)
    assert "⚠ Buffered random reads came out of the client's page cache, not over NFS." in text


@pytest.mark.parametrize(
    ("processors", "why"),
    [
        (1, r"an operation takes (1\.9|2\.0)\d times the CPU"),
        (64, "there is CPU left, so the threads wait"),
    ],
)
def test_sio_explains_a_dip(processors: int, why: str) -> None:
    made = made_runs.Maker("sio")
    for threads, rate, cost in ((1, 2e8, 20), (8, 4e8, 20), (32, 2e8, 40)):
        factors: dict[str, Factor] = {"mode": "direct", "pattern": "random", "direction": "read"}
        factors["threads"] = threads
        made.add(factors, read=rate, cpu_us=cost, jobs=threads, processors=processors)
    said = r"Random reads, direct: 0\.(49|50|51) times from 8 to 32 threads: "
    assert re.search(said + why, report_of(made.summary()))


# --- oltp ---


def test_oltps_percentiles_are_of_all_repeats_together() -> None:
    made = made_runs.Maker("oltp", repeats=2)
    made.add({"connections": "one", "concurrency": 1}, read=2e7, write=1e7)
    for number, bins in enumerate(({"1000000": 98}, {"9000000": 2})):
        cell = made.cells[number]
        assert cell.read is not None
        read = dataclasses.replace(cell.read, bins=bins, p99_us=1000 + 8000 * number)
        made.cells[number] = dataclasses.replace(cell, read=read)
    text = report_of(made.summary())
    assert "| 1.00 | 9.00 | 9.00 |" in text  # p50, p99, p99.9


def test_without_a_second_kind_oltp_has_nothing_to_compare() -> None:
    made = made_runs.Maker("oltp")
    for concurrency in (1, 8):
        made.add({"connections": "one", "concurrency": concurrency}, read=2e7, write=1e7)
    assert "; nothing to compare with was measured." in report_of(made.summary())


# --- a user's own pool ---


def test_randread_of_a_users_pool_stands_beside_the_published_mount() -> None:
    made = made_runs.Maker("randread")
    made.add({"transport": "pool"}, read=3e9, block=65536, jobs=4)
    assert "bandwidth, all four jobs: nfsmulti | 4178 MiB/s" in report_of(made.summary())


def test_dd_on_a_users_pool_stands_beside_both_published_clients() -> None:
    made = made_runs.Maker("dd")
    for streams, rate in ((1, 200e6), (5, 900e6)):
        made.add({"client": "pool", "direction": "write", "streams": streams}, write=rate)
    text = report_of(dataclasses.replace(made.summary(), place={"kind": "lab"}))
    assert re.search(r"written by 5 streams, 4\.\d+ times 1 stream: each", text)
    assert "Published" not in report_of(dataclasses.replace(made.summary(), place={"kind": "pool"}))
    assert (
        "| AIX (no caps of the lab), write, 5 streams | 55 s, 72 MB/s in sum, 3.71 times |" in text
    )
    assert "| Linux (no caps of the lab), write, 1 stream | 6.02 s, 139 MB/s, in part" in text


def test_fsperf_on_a_users_pool_takes_the_most_paths_there_are() -> None:
    made = made_runs.Maker("fsperf")
    for paths, spread in ((1, "job"), (2, "stripe"), (2, "roundrobin")):
        made.add({"client": "mount-v4.2", "paths": paths, "spread": spread}, read=500e6 * paths)
    text = report_of(made.summary())
    assert re.search(r"MB/s over 2 paths, (2\.0|1\.9)\d times 1 path \(mount-v4\.2\)\.", text)
    assert re.search(r"\| mount-v4\.2, 2 paths by round robin \| 1,094 MB/s, 2\.09 times \|", text)
    assert "2 paths by stripe" not in text  # which nobody published


# --- neighbour ---


def test_neighbour_answers_with_the_paired_ratio_under_each_setting() -> None:
    text = report_of(made_runs.neighbour())
    said = re.search(
        r"(\S+) to (\S+) times the p99 for full-speed readers beside a bulk writer, which", text
    )
    assert said
    many, few = map(float, said.groups())
    assert few == pytest.approx(3, rel=0.3)
    assert many == pytest.approx(1.2, rel=0.3)
    assert text.count("| several writers | 9636 MB/s, buffered |") == 1  # not measured
    assert re.search(
        r"\| full speed, threads 8 \| \S+ ± \S+ \| \S+ ± \S+ \| \d\.\d\d [^|]*\|", text
    )


def test_what_the_server_was_set_to_is_told_as_one_says_it() -> None:
    made = made_runs.neighbour()
    numbers: dict[Factor, Factor] = {8: 1, 64: 64}
    words: dict[Factor, Factor] = {8: "cached", 64: "dontcache"}
    for levels, told in (
        (numbers, ("full speed, 1 server thread |", "full speed, 64 server threads |")),
        (words, ("full speed, server threads cached |", "full speed, server threads dontcache |")),
    ):
        cells = [
            dataclasses.replace(
                cell, factors={**cell.factors, "threads": levels[cell.factors["threads"]]}
            )
            for cell in made.cells
        ]
        place = {**made.place, "setting": {"name": "threads", "values": [*levels.values()]}}
        text = report_of(dataclasses.replace(made, cells=cells, place=place))
        assert [row for row in told if row not in text] == []
        assert ("1 or 64 server threads" in text) == (levels is numbers)


@pytest.mark.parametrize(
    ("size", "told"),
    [(10_000_000, "10 MB"), (1 << 30, "1 GiB"), (800 << 20, "800 MiB"), (12_345_678, "11.8 MiB")],
)
def test_a_files_size_is_told_as_one_types_it(size: int, told: str) -> None:
    made = made_runs.dd(1)
    cells = [dataclasses.replace(cell, command=f"fio --size={size}") for cell in made.cells]
    assert f"file of {told} (fits" in report_of(dataclasses.replace(made, cells=cells))


def test_neighbour_tells_no_percentile_of_too_few_reads() -> None:
    made = made_runs.Maker("neighbour")
    for workload in ("readers", "readers-beside-writer"):
        made.add({"workload": workload}, read=4096 * 2000 / 4, block=4096)
    text = report_of(made.summary())
    nothing = "No measurable difference in the"
    assert f"{nothing} p99 for full-speed readers beside a bulk writer." in text
    row = re.search(r"\| readers-beside-writer \| .*? \| 3 \| (\S+) \| (\S+) \| (\S+) \|", text)
    assert row
    assert "\N{EN DASH}" not in row.groups()[:2]
    few = [dataclasses.replace(cell, read=_of(made, 300)) for cell in made.cells]
    assert f"{nothing} p50 for full-speed readers beside a bulk writer." in report_of(
        dataclasses.replace(made.summary(), cells=few)
    )
    few = [dataclasses.replace(cell, read=_of(made, 4)) for cell in made.cells]
    assert "Too few reads in a repeat" in report_of(dataclasses.replace(made.summary(), cells=few))


def test_neighbours_waits_and_their_ratio_are_of_one_statistic() -> None:
    """One slow repeat of five makes most of what all have together, and a fifth of their mean."""
    made = made_runs.neighbour(5)
    rng = made_runs.Maker("").rng
    slow = made_runs.figures(rng, 40e6, 4096, 9000)
    last = {"workload": "readers-beside-writer", "threads": 64}
    cells = [
        dataclasses.replace(cell, read=slow) if (cell.factors, cell.repeat) == (last, 5) else cell
        for cell in made.cells
    ]
    waits = [cell.read.p99_us / 1000 for cell in cells if cell.factors == last and cell.read]
    text = report_of(dataclasses.replace(made, cells=cells))
    found = re.search(r"\| full speed, threads 64 \| \S+ ± \S+ \| (\S+) ± ", text)
    assert found
    assert float(found[1]) == pytest.approx(np.mean(waits), rel=0.05)


def test_neighbour_tells_no_percentile_of_the_fast_repeats_alone() -> None:
    made = made_runs.neighbour(5)
    slow = dataclasses.replace(made_runs.figures(made_runs.Maker("").rng, 4e6, 4096, 9e4), ops=999)
    last = {"workload": "readers-beside-writer", "threads": 64}
    cells = [
        dataclasses.replace(cell, read=slow) if (cell.factors, cell.repeat) == (last, 5) else cell
        for cell in made.cells
    ]
    summary = dataclasses.replace(made, cells=cells)
    text = report_of(summary)
    assert "times the p50 for full-speed readers beside a bulk writer with threads 8" in text
    (levels,) = [
        plot.figure
        for section in SCENARIOS["neighbour"].report.tell(summary).sections
        for plot in section.plots
        if plot.name == "readers-p99"
    ]
    assert len(levels.axes[0].patches) == 3  # bars, of two workloads under two levels


def _of(made: made_runs.Maker, reads: int) -> Figures:
    return dataclasses.replace(made_runs.figures(made.rng, 4096, 4096, 400), ops=reads)


# --- conditions ---


@pytest.mark.parametrize("kind", ["pool", "kernel-lab", "loopback", "demo", "lab"])
def test_the_version_of_a_server_is_told_of_a_labs_own_alone(kind: str) -> None:
    """What is installed here says nothing of a server elsewhere."""
    environment = {"machine": {"fio": "fio-3.33", "nfs-ganesha": "4.3"}}
    place = {"kind": kind, "pool": "nfs-sink"} if kind != "demo" else {"kind": "loopback"}
    run = dataclasses.replace(made_runs.dd(), place=place)
    told = {row[1] for row in conditions.table(run, environment).rows if row[0] == "machine"}
    assert told == {"fio", "nfs-ganesha"} - (
        {"nfs-ganesha"} if kind not in ("demo", "lab") else set()
    )


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


def test_processors_that_were_full_are_told_once_and_whose_they_were() -> None:
    """A ratio of two transports compares what they cost where both had all of one processor."""
    made = made_runs.oltp()
    guest = {"guest": {"guest": "emulated by QEMU"}}

    def told(full: int, *, emulated: bool = False, kind: str = "kernel-lab") -> str:
        cells = [
            dataclasses.replace(cell, processors=1, machine_cpu_s=4.0 if at < full else 1.0)
            for at, cell in enumerate(made.cells)
        ]
        run = dataclasses.replace(made, cells=cells, place={"kind": kind})
        found = caveats(run, [], conditions.guest(guest) if emulated else "")
        return " ".join(found)

    every = len(made.cells)
    shared = "Client and server shared one processor, full"
    assert told(every) == f"{shared}: ratios compare CPU cost."
    assert told(every // 3) == f"{shared} in {every // 3} of {every} cells."
    assert told(every // 5) == ""
    both = "Client and server shared one emulated processor, full: ratios compare CPU cost."
    assert told(every, emulated=True) == both
    assert told(every, kind="pool").startswith("The client had one processor, full: ")
    server = Server(cpu_percent=97.0, processors=8, dirty_bytes=0, cached_bytes=0)
    cells = [dataclasses.replace(cell, server=server) for cell in made.cells]
    own = dataclasses.replace(made, cells=cells, place={"kind": "pool"})
    assert caveats(own, [], "") == ["The server had 8 processors, full: ratios compare CPU cost."]


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
    cells = [dataclasses.replace(cell, command=f"fio {command}") for cell in made.cells]
    place = {"kind": "pool", "pool": "nfs://nas/x?version=4.1,nfs://b/x", "mounts": mounts}
    words = ran(dataclasses.replace(made.summary(), cells=cells, place=place), {})
    assert told in words
    assert ("NFSv" in words) == bool(told)
    assert "nfs://nas/x,nfs://b/x." in words


def test_lines_over_time_are_called_as_in_tables() -> None:
    made, series = made_runs.neighbour(1), []
    cells = [dataclasses.replace(cell, over_time=[1e8] * 4) for cell in made.cells]
    place = {**made.place, "setting": {"name": "threads", "values": [8, 64]}}
    summary = dataclasses.replace(made, cells=cells, place=place)
    section = overtime.section(summary, REPORTS["neighbour"].names(summary))
    series = section.plots[0].figure.axes[0].get_legend_handles_labels()[1]
    assert "full speed, beside the writer, 64 server threads" in series
    assert "writer, 8 server threads" in series


def test_conditions_have_sentences_and_no_bare_numbers_of_a_fit() -> None:
    fitted = {"carried": 1051846259.481, "link": 3133000000, "cap": 833000000, "assured": 1}
    place = {"kind": "lab", "fitted": {"capped": {**fitted, "fraction": 1 / 3}}}
    place |= {"differs": ["No link.", "No disk."]}
    text = report_of(dataclasses.replace(made_runs.dd(repeats=1), place=place))
    carried = "At a third of the full rates: this machine carries 1,052 MB/s."
    assert f"| place | rates capped | {carried} |" in text
    assert "1051846259" not in text
    assert "| place | differs | No link. No disk. |" in text


def test_the_servers_cells_are_in_the_order_in_which_one_looks_them_up() -> None:
    """Not in the random order in which they ran."""
    made = made_runs.Maker("sio", repeats=1)
    told = Server(cpu_percent=97.0, processors=8, dirty_bytes=0, cached_bytes=0)
    for mode, threads in (("direct", 16), ("buffered", 4), ("direct", 4)):
        _add(made, {mode: 1e8}, threads)
    made.cells = [dataclasses.replace(cell, server=told) for cell in made.cells]
    rows = re.findall(r"\| mode (\w+), threads (\d+) \|", report_of(made.summary()))
    assert rows == [("buffered", "4"), ("direct", "4"), ("direct", "16")]


def test_limits_of_several_places_are_told_in_short() -> None:
    limits = {"capped": {"link": "1gbit", "per_address": "120mbit"}, "uncapped": {}}
    place = {"kind": "lab", "pool": "", "limits": limits}
    summary = dataclasses.replace(made_runs.dd(repeats=1), place=place)
    assert conditions.in_short(summary) == "lab: link 1 Gbit/s, each address 120 Mbit/s (capped)"
    assert conditions.in_short(dataclasses.replace(summary, place={})) == "unknown place"


@pytest.mark.parametrize("name", ["sio", "randread"])
def test_what_the_kernel_lab_does_otherwise_is_told(name: str) -> None:
    summary = made_runs.RUNS[name]()
    told = ("tmpfs", "MTU", "no wire")
    assert not [words for words in told if words not in report_of(summary)]
    own = dataclasses.replace(summary, place={**summary.place, "kind": "pool"})
    assert "no wire" not in report_of(own)


# --- more factors, and more hosts ---


def test_cells_that_differ_in_another_factor_are_no_repeats() -> None:
    made = made_runs.Maker("dd")
    for nconnect, streams, rate in ((1, 1, 1e8), (1, 5, 1e8), (4, 1, 1e8), (4, 5, 3e8)):
        factors: dict[str, Factor] = {"client": "pool", "direction": "write", "streams": streams}
        made.add({**factors, "nconnect": nconnect}, write=rate)
    text = report_of(made.summary())
    assert re.search(r"\d times the throughput with nconnect 4, against nconnect 1\.", text)
    assert re.search(
        r"\| nconnect 1 \| [\d.]+ MB/s written by 5 streams, (1(\.0\d)?|0\.9\d+) times", text
    )
    assert re.search(
        r"\| nconnect 4 \| [\d.]+ MB/s written by 5 streams, (3(\.0\d)?|2\.9\d+) times", text
    )
    rows = re.findall(
        r"\| AIX \(no caps of the lab\), write, 5 streams; nconnect (\d) \| .*? (\d) \|", text
    )
    assert [number for number, _ in rows] == ["1", "4"]
    assert "## Plots; nconnect 4" in text
    assert "(plots/bandwidth-no-caps-of-the-lab-streams-nconnect-4.png)" in text


def test_a_further_factor_is_told_by_its_ratio_paired_by_repeat() -> None:
    made = made_runs.Maker("dd")
    for threads, gain in ((16, 2.0), (8, 1.0), (4, 1.0)):
        for streams in (1, 5):
            factors = {"client": "pool", "direction": "write", "streams": streams}
            made.add({**factors, "threads": threads}, write=100e6 * gain * streams)
    # Each repeat is twice as fast as the one before: that hides nothing between its cells.
    drifting = [
        made_runs.faster(cell, 2**cell.repeat)
        for cell in made.cells
        if (cell.factors, cell.repeat) != (made.cells[-1].factors, 3)
    ]
    text = report_of(dataclasses.replace(made.summary(), cells=drifting))
    said = r"(2\.0|1\.9)\d ± \d\.\d\d times the throughput with threads 16, against threads 4\."
    assert re.search(said, text)
    part = text[text.index("## Against threads 4") :]
    row = r"\| threads 16 \| client pool, direction write, streams 5 \| (2\.0|1\.9)\d \|"
    assert re.search(row, part)  # two pairs give no interval
    assert re.search(r"\| threads 16 \| all cells together \| (2\.0|1\.9)\d \(", part)


def test_hosts_are_shown_each_and_in_sum() -> None:
    made = made_runs.Maker("dd", repeats=2)
    made.add({"client": "pool", "direction": "write", "streams": 2}, write=300e6, jobs=2)
    jobs = [
        dataclasses.replace(job, host=host, write_bytes_per_s=rate)
        for job, host, rate in zip(made.cells[0].jobs, ("h1", "h2"), (100e6, 200e6), strict=True)
    ]
    made.cells = [dataclasses.replace(cell, jobs=jobs) for cell in made.cells]
    text = report_of(made.summary())
    cell = "client pool, direction write, streams 2"
    for host, rate in (("h1", 100), ("h2", 200), ("in sum", 300)):
        assert f"| {cell} | {host} | {rate} | 0.0 | 2 |" in text


def test_what_runs_on_each_of_several_hosts_is_told_so() -> None:
    each = "on each of 2 hosts"
    for made, told in (
        (
            made_runs.dd(),
            (
                f"written by 5 streams {each}, ",
                f"| AIX (each address capped), write, 5 streams {each} | ",
            ),
        ),
        (
            made_runs.randread(),
            (f"NFSv3 {each}.", f"bandwidth, all four jobs {each}: kernel mount"),
        ),
        (made_runs.oltp(), (f"in flight, all jobs together, {each}.",)),
    ):
        place = {**made.place, "hosts": ["h1", "h2"]}
        text = report_of(dataclasses.replace(made, place=place))
        assert not [words for words in told if words not in text]


def test_dds_time_is_that_of_all_hosts_streams() -> None:
    made = made_runs.Maker("dd", repeats=1)
    made.add({"client": "pool", "direction": "write", "streams": 1}, write=2 * 838_860_800)
    summary = dataclasses.replace(made.summary(), place={"kind": "lab", "hosts": ["h1", "h2"]})
    row = re.search(
        r"\| AIX \(no caps of the lab\), write, 1 stream [^|]*\| [^|]* \| (\S+) s,",
        report_of(summary),
    )
    assert row
    assert 0.9 < float(row[1]) < 1.1
