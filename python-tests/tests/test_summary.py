# SPDX-License-Identifier: GPL-2.0-only
"""summary.json comes back as it was written; cells.csv has a row for each cell.

Of mounts what the kernel tells of their calls: these lines are Debian 13's, where fio has written.
"""

import csv
import json
from pathlib import Path

import pytest
from made_runs import changed, connections_factors, made, report_of

import summary_schema
from nfsmulti.errors import HarnessError
from nfsmulti.paths import ROOT
from nfsmulti.report import cells, rows
from nfsmulti.report.measures import MEASURES
from nfsmulti.run.mountstats import folders, means, sums
from nfsmulti.summary import (
    FILE,
    Arrivals,
    Cell,
    Figures,
    JobRow,
    MountCalls,
    Restart,
    Summary,
)

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


def test_each_column_is_described() -> None:
    page = (ROOT / "docs/reports.md").read_text()
    assert not [name for name in (*rows.OF_CELL, *MEASURES) if f"`{name}`" not in page]


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


# --- what the kernel tells of its mounts' calls ---


def _text(write: str, plus: str) -> str:
    """Two mounts of one file system, which tell the same, one of NFSv4.2, and one of no NFS."""
    v3 = f"nfs statvers=1.1\n\txprt:\ttcp 670 1 2 0 1 45 45 0 103\n\t       WRITE: {write}\n"
    v4 = f"nfs4 statvers=1.1\n\tper-op statistics\n\t   READ_PLUS: {plus}\n"
    return (
        "device root mounted on / with fstype overlay\n"
        f"device 10.0.2.15:/export mounted on /mnt/a with fstype {v3}\n"
        f"device 10.0.2.15:/export mounted on /mnt/c\\040d with fstype {v3}\n"
        f"device 10.0.2.16:/ mounted on /mnt/b with fstype {v4}"
    )


def _calls(*found: str, said: str = "statvers=1.1") -> dict[str, MountCalls]:
    before = _text("1 1 0 9 8 2 5 7", "0 0 0 0 0 0 0 0 0")
    after = _text("65 71 2 4201984 8704 134 710 854", "64 64 0 11776 4201984 53 257 329 0")
    device = {"/mnt/a": 38, "/mnt/b": 39, "/mnt/c d": 38}.__getitem__
    each = (sums(found, text.replace("statvers=1.1", said), device) for text in (before, after))
    return means(*each)


def test_means_are_of_the_calls_in_between_and_of_each_file_system_once() -> None:
    written = {"write": MountCalls(64, 132e3 / 64, 705e3 / 64, 10e3 / 64)}
    assert _calls(*folders(["env", "IOTRAP_MOUNT_POOLS=m:/mnt/a/,/mnt/c d/", "fio"])) == written
    read = {"read": MountCalls(64, 53e3 / 64, 257e3 / 64, 19e3 / 64)}
    assert _calls("/mnt/b/below", *folders(["--directory=/mnt/a"])) == read | written
    assert _calls("/mnt/a", "/tmp") == _calls() == _calls("/mnt/a", said="statvers=2.0") == {}
    assert folders(["--pool=/mnt/a,nfs://127.0.0.1/b"]) == folders(["fio"]) == []


def test_rows_and_pages_tell_means_of_mounts_alone(tmp_path: Path) -> None:
    both = ("tcp-mount", "tcp")
    run = made("connections", [(connections_factors(1, one), {"read": 1e9}) for one in both], 1)
    calls = {"read": MountCalls(3000, 100.0, 2100.0, 20.5)}
    run = changed(run, lambda cell: cell is run.cells[0], mount_calls=calls)
    found = run.cells
    rows.write(run, tmp_path)
    with (tmp_path / rows.FILE).open(newline="") as file:
        there, none = csv.DictReader(file)
    told = {"read calls": "3000", "read lag ms": "0.1", "read service ms": "2.1"}
    assert told | {"read wake-up ms": "0.0205"} == {
        name: there[name] for name in there if name.startswith("read") and none[name] == ""
    }
    assert "write calls" not in there
    said = "READ mean: lag 0.100 ms, service 2.10 ms, wake-up 0.0205 ms"
    assert f"{said}." in report_of(run)
    assert (cells.wake_up(found[:1]), cells.wake_up(found)) == (said, "")
