# SPDX-License-Identifier: GPL-2.0-only
"""summary.json comes back as it was written, and a file of another kind is refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nfsmulti.errors import HarnessError
from nfsmulti.summary import FILE, Cell, Figures, JobRow, Summary

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


def test_fields_of_a_later_harness_are_dropped(tmp_path: Path) -> None:
    SUMMARY.save(tmp_path)
    data = json.loads((tmp_path / FILE).read_text())
    data["new"] = data["cells"][0]["new"] = data["cells"][0]["read"]["new"] = 1
    (tmp_path / FILE).write_text(json.dumps(data))
    assert Summary.load(tmp_path) == SUMMARY


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    SUMMARY.save(tmp_path)
    assert "Not a directory" in _refusal(tmp_path / FILE)
    assert "name the folder of a run" in _refusal(tmp_path / FILE)


def test_what_is_not_a_summary_is_refused(tmp_path: Path) -> None:
    texts = {
        "{": "Expecting",
        "[]": "not a summary",
        '{"schema": "nfsmulti-summary", "version": 2}': "version 2",
        '{"schema": "nfsmulti-summary", "version": 1}': "cells",
        '{"schema": "nfsmulti-summary", "version": 1, "cells": [1]}': "int",
    }
    assert "not the folder of a run" in _refusal(tmp_path)
    for text, said in texts.items():
        (tmp_path / FILE).write_text(text)
        refused = _refusal(tmp_path)
        assert said in refused
        assert str(tmp_path) in refused


def _refusal(folder: Path) -> str:
    with pytest.raises(HarnessError) as refused:
        Summary.load(folder)
    return str(refused.value)
