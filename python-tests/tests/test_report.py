# SPDX-License-Identifier: GPL-2.0-only
"""Reports of recorded runs: what they say, and how they open in a browser."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import made_runs
import pytest
from browser import look, overflow
from conftest import run_harness

from nfsmulti.errors import HarnessError
from nfsmulti.report import write
from nfsmulti.summary import Summary

_PHONE = 390


@pytest.fixture(scope="module", params=made_runs.RUNS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a run of each scenario, with its report."""
    name = request.param
    folder = made_runs.saved(made_runs.RUNS[name](), tmp_path_factory.mktemp(name))
    write(folder)
    return folder


def report_of(summary: Summary, folder: Path) -> str:
    """Give a run's report.md, with each run of blanks as one, after the HTML was made as well."""
    write(made_runs.saved(summary, folder))
    return " ".join((folder / "report.md").read_text().split())


# --- every scenario ---


def test_report_has_its_parts_in_order(folder: Path) -> None:
    text = (folder / "report.md").read_text()
    parts = [
        "# ",
        "Published",
        "## The answer",
        "## Published, beside ours",
        "![",
        "## How to read",
    ]
    parts += ["## Conditions", "ganesha", "## The command", "./nfsmulti run"]
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


def test_report_shows_no_missing_value(folder: Path) -> None:
    for file in ("report.md", "report.html"):
        text = re.sub(r"<svg.*?</svg>", "", (folder / file).read_text(), flags=re.DOTALL)
        assert not re.search(r"\b(nan|NaN|None|inf)\b", text)
    assert not re.search(r"\bnan\b", "".join(map(Path.read_text, folder.glob("plots/*.svg"))))


def test_plots_are_files_as_well(folder: Path) -> None:
    named = re.findall(r"\]\((plots/[^)]+)\)", (folder / "report.md").read_text())
    assert named
    for name in named:
        assert (folder / name).stat().st_size > 5000
        assert (folder / name).with_suffix(".svg").exists()


def test_page_refers_to_nothing_outside(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!#)[^"']*""", text)
    assert not re.findall(r"@import|url\((?!#)[^)]*\)|<link|<script", text)
    ids = re.findall(r'id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_page_opens_without_a_word_on_the_console(folder: Path, tmp_path: Path) -> None:
    seen = look(folder / "report.html", tmp_path)
    assert seen.console == []
    assert "</html>" in seen.page


def test_page_fits_a_phone(folder: Path, tmp_path: Path) -> None:
    assert overflow(folder / "report.html", tmp_path, _PHONE) == 0


def test_report_made_again_is_the_same(folder: Path) -> None:
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    done = run_harness("report", str(folder))
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.endswith("report.html\n")
    assert {file: file.read_bytes() for file in before} == before


def test_single_runs_give_figures_without_intervals(folder: Path, tmp_path: Path) -> None:
    summary = Summary.load(folder)
    once = [cell for cell in summary.cells if cell.repeat == 1]
    text = report_of(dataclasses.replace(summary, cells=once), tmp_path)
    assert " to " not in text.split("## Published, beside ours")[1].split("##")[0]
    assert not re.search(r"\b(nan|None|inf)\b", text)


def test_any_one_cell_makes_a_report(folder: Path, tmp_path: Path) -> None:
    summary = Summary.load(folder)
    firsts = {tuple(cell.factors.items())[:1]: cell for cell in summary.cells}
    for number, cell in enumerate(firsts.values()):
        text = report_of(dataclasses.replace(summary, cells=[cell]), tmp_path / str(number))
        assert not re.search(r"\b(nan|None|inf)\b", text)


# --- runs that did not go well ---


def test_failed_and_waiting_cells_are_named(tmp_path: Path) -> None:
    made = made_runs.Maker("dd")
    made.add({"client": "capped", "direction": "write", "streams": 1}, write=14.5e6)
    made.unrun({"client": "capped", "direction": "write", "streams": 5}, "failed", "server | gone")
    made.unrun({"client": "capped", "direction": "read", "streams": 1}, "waiting")
    text = report_of(made.summary(), tmp_path)
    assert "1 of 5 cells failed" in text
    assert "| client capped, direction write, streams 5 | 1 | server \\| gone |" in text
    assert "This run was interrupted: 1 of 5 cells have not run" in text
    assert "| client capped, direction read, streams 1 | 1 |" in text
    assert "cannot be told" in text


def test_a_run_of_which_nothing_is_done_says_so(tmp_path: Path) -> None:
    made = made_runs.Maker("dd")
    made.unrun({"client": "capped", "direction": "read", "streams": 1}, "waiting")
    text = report_of(made.summary(), tmp_path)
    assert "No cell of this run is done" in text
    assert "43.20 s, 19.4 MB/s" in text


def test_what_a_label_holds_is_no_markup(tmp_path: Path) -> None:
    summary = made_runs.dd(repeats=1)
    report_of(dataclasses.replace(summary, label="<script>alert(1)</script>"), tmp_path)
    assert "<script" not in (tmp_path / "report.html").read_text()


def test_environment_may_be_missing_and_must_not_be_broken(tmp_path: Path) -> None:
    made_runs.saved(made_runs.dd(repeats=1), tmp_path)
    (tmp_path / "environment.json").unlink()
    write(tmp_path)
    assert "environment.json | missing" in (tmp_path / "report.md").read_text()
    (tmp_path / "environment.json").write_text("{")
    with pytest.raises(HarnessError, match=r"environment\.json: "):
        write(tmp_path)


def test_unknown_scenario_is_refused(tmp_path: Path) -> None:
    summary = dataclasses.replace(made_runs.dd(repeats=1), scenario="other")
    made_runs.saved(summary, tmp_path)
    done = run_harness("report", str(tmp_path))
    assert done.status == 1
    assert done.stderr.strip().endswith("there is no report for scenario 'other'")


# --- dd ---


def test_dd_answers_with_the_ratio(tmp_path: Path) -> None:
    text = report_of(made_runs.dd(), tmp_path)
    assert re.search(r"write 5\.\d\d \(4\.\d\d to 5\.\d\d\) times", text)
    assert "published were 3.71 times. The story holds here." in text
    assert re.search(
        r"\| AIX \(capped\), write, 5 streams \| 55 s, 72 MB/s in sum \| 57\.\d\d s, 7\d\.\d MB/s"
        r" \| 3\.71 \| 5\.\d\d \(.*?\) \| \d\.\d \| 3 \|",
        text,
    )


def test_dd_tells_when_streams_do_not_help(tmp_path: Path) -> None:
    made = made_runs.Maker("dd")
    for streams in (1, 5):
        made.add({"client": "capped", "direction": "write", "streams": streams}, write=14.5e6)
    assert "The story does not hold here." in report_of(made.summary(), tmp_path)
