# SPDX-License-Identifier: GPL-2.0-only
"""summary.json comes back as it was written, and a file of another kind is refused in words."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest

import summary_schema
from nfsmulti.errors import HarnessError
from nfsmulti.paths import ROOT
from nfsmulti.report import rows
from nfsmulti.report.measures import MEASURES
from nfsmulti.summary import FILE, Arrivals, Cell, Figures, JobRow, Parts, Restart, Summary

READ = Figures(10, 40960, 2.0, 5.0, 20480.0, 100.0, 90.0, 150.0, 190.0, 199.0, {"90000": 10})
JOB = JobRow("t", 0, 20480.0, 5.0, 0.0, 0.0, 100.0, 90.0, 190.0, 3.5, 20.0)
DONE = Cell("a-1", {"streams": 1}, 1, "done", "cells/a-1", "fio", read=READ, jobs=[JOB])
FAILED = Cell("a-2", {"streams": 2}, 1, "failed", "cells/a-2", "fio", why="no server")
SUMMARY = Summary("dd", "", "2026-01-01T00:00:00Z", "", True, "run dd", {}, [DONE, FAILED])


def test_summary_round_trips(tmp_path: Path) -> None:
    SUMMARY.save(tmp_path)
    assert Summary.load(tmp_path) == SUMMARY
    assert SUMMARY.done == [DONE]
    assert (DONE.ops, FAILED.ops) == (10, 0)


def test_what_was_not_told_is_nothing() -> None:
    """But that a cell ran once, with a figure each second."""
    kinds = (Cell, ("a", {"b": 1}, 1, "done", "a", "fio")), (Arrivals, (1, 1, True))
    for kind, told in (*kinds, (Restart, (1, 1, [1]))):
        values = [value for value in vars(kind(*told)).values() if value]
        assert values == [*told, *([1, 1] if kind is Cell else [])]


def test_the_schema_is_that_of_the_code() -> None:
    """A field that changed: made_docs.py writes it again."""
    assert (ROOT / "docs/summary.schema.json").read_text() == summary_schema.text()


def test_cells_are_rows_for_other_programs(tmp_path: Path) -> None:
    rows.write(SUMMARY, tmp_path)
    with (tmp_path / rows.FILE).open(newline="") as file:
        done, failed = csv.DictReader(file)
    assert (done["id"], done["factor_streams"], done["p99.9 ms"]) == ("a-1", "1", "0.09")
    assert (done["I/Os"], done["bytes"]) == ("10", "40960")  # counts have no decimals
    assert (failed["MB/s"], failed["status"], failed["why"]) == ("", "failed", "no server")
    assert not {name for name in done if name.startswith(("write", "lag", "response", "service"))}


def test_each_column_is_described() -> None:
    page = (ROOT / "docs/reports.md").read_text()
    assert not [name for name in (*rows.OF_CELL, *MEASURES) if f"`{name}`" not in page]


def test_a_row_says_what_became_of_arrivals_and_of_stamped_replies(tmp_path: Path) -> None:
    bins = {"2000": 98, "70000": 2}
    came = Arrivals(1000.5, 990.0, False, due=300, dropped=7, lag=bins)
    parts = Parts({}, bins, {"100": 60, "300": 40})
    sides = [dataclasses.replace(READ, response={str(us * 1000): 10}) for us in (40, 80)]
    cell = dataclasses.replace(DONE, read=sides[0], write=sides[1], arrivals=came, parts=parts)
    told = {"due IOPS": "1000.5", "IOPS in time": "990.0", "sustained": "False", "due": "300",
            "dropped": "7", "lag p50 ms": "0.002", "lag p99 ms": "0.07",
            "response p50 ms": "0.04", "response p99 ms": "0.08",
            "service p50 ms": "0.002", "service p99 ms": "0.07",
            "wake-up p50 ms": "0.0001", "wake-up p99 ms": "0.0003"}  # fmt: skip
    rows.write(dataclasses.replace(SUMMARY, cells=[cell, DONE]), tmp_path)
    with (tmp_path / rows.FILE).open(newline="") as file:
        there, closed = csv.DictReader(file)
    assert {name: there[name] for name in told} == told
    assert {closed[name] for name in told} == {""}


def test_fields_of_a_later_harness_are_dropped(tmp_path: Path) -> None:
    SUMMARY.save(tmp_path)
    data = json.loads((tmp_path / FILE).read_text())
    data["new"] = data["cells"][0]["new"] = data["cells"][0]["read"]["new"] = 1
    (tmp_path / FILE).write_text(json.dumps(data))
    assert Summary.load(tmp_path) == SUMMARY


def test_what_is_no_folder_of_a_run_is_refused(tmp_path: Path) -> None:
    """Broken files in one: test_strangers_files.py."""
    (tmp_path / "file").touch()
    said = "(?s)Not a directory.*name the folder of a run"
    for path, why in (("file", said), ("", "no summary.json: not the folder of a run")):
        with pytest.raises(HarnessError, match=why):
            Summary.load(tmp_path / path)
