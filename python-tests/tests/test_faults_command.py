# SPDX-License-Identifier: GPL-2.0-only
"""What ./nfsmulti faults runs and leaves, and that it tells of what was not as expected."""

from __future__ import annotations

import dataclasses
import errno
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from conftest import call_harness, refusal

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.faults import command
from nfsmulti.faults.cell import Cell, Expected, Place
from nfsmulti.faults.command import run_cell
from nfsmulti.faults.matrix import CELLS
from nfsmulti.faults.outcome import REPORT, RESULTS, Run, read_outcomes
from nfsmulti.fiorun import Engine

_NAME = "STALE, read, hard, tcp"


def _cell(name: str) -> Cell:
    (found,) = (cell for cell in CELLS if cell.id == name)
    return found


def test_a_run_leaves_its_report(tmp_path: Path) -> None:
    done = call_harness("faults", "--only", "STALE read", "--results", str(tmp_path))
    assert done.status == 0, done.stderr
    assert "3 cells: 3 as expected" in done.stdout
    assert "| STALE | read | hard | failed ESTALE |" in (tmp_path / REPORT).read_text()
    assert [one.outcome for one in read_outcomes(tmp_path)] == ["failed ESTALE"] * 3
    assert json.loads((tmp_path / RESULTS).read_text())["setting"]["fio"].startswith("fio-")


def test_a_run_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / REPORT).write_text("of another run")
    words = ("faults", "--only", "STALE read", "--results", str(tmp_path))
    assert "name another --results" in refusal(*words)
    assert (tmp_path / REPORT).read_text() == "of another run"


@pytest.mark.parametrize("error", [HarnessError("it died"), MissingError("no guest")])
def test_a_guest_that_fails_leaves_what_was_found_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: HarnessError
) -> None:
    def boot(*_: object, **__: object) -> int:
        raise error

    there = next(cell for cell in CELLS if cell.fault.place is Place.GUEST)
    monkeypatch.setattr(command, "CELLS", [_cell(_NAME), there])
    monkeypatch.setattr("nfsmulti.lab.guest.run_in_guest", boot)
    monkeypatch.setattr("nfsmulti.lab.kernels.KernelTree.get", boot)
    with pytest.raises((HarnessError, typer.Exit)) as end:
        command.faults(results=tmp_path)
    assert getattr(end.value, "exit_code", 1) == 1
    assert [one.outcome for one in read_outcomes(tmp_path)] == ["failed ESTALE", "not run"]
    assert "2 cells: 1 as expected" in (tmp_path / REPORT).read_text()


def test_cells_are_listed_and_not_run() -> None:
    done = call_harness("faults", "--list", "--only", "STALE read hard").check()
    assert done.stdout == f"{_NAME}: failed ESTALE\n"
    said = refusal("faults", "--only", "no such fault")
    assert "no cell's name contains all these words" in said


@pytest.mark.parametrize(
    ("name", "expected", "complaint"),
    [
        (_NAME, Expected("done"), "failed ESTALE, where done was expected"),
        (_NAME, Expected("failed", errno.EIO), "failed ESTALE, where failed EIO was expected"),
        (
            _NAME,
            Expected("failed", errno.ESTALE, says=("no such words",)),
            "it did not say: no such words",
        ),
        (
            "new verifier between WRITE and COMMIT, write, hard, tcp",
            Expected("failed", errno.EIO),
            "1048576 bytes were reported as lost",
        ),
        (
            "unknown xid, read, failover, tcp",
            Expected("done", moves=True),
            "no call was reissued on another path",
        ),
    ],
)
def test_what_is_not_as_expected_is_told(
    engine: Engine, tmp_path: Path, name: str, expected: Expected, complaint: str
) -> None:
    cell = dataclasses.replace(_cell(name), expected=expected)
    outcome = run_cell(cell, engine, tmp_path / "cell")
    assert outcome.complaints == [complaint]
    run = Run(datetime.now(UTC), {}, [outcome])
    run.write(tmp_path)
    assert run.verdict.endswith("0 as expected (0 of them short of what is promised), 1 not")
    assert f"- {cell.id}: {complaint}" in (tmp_path / REPORT).read_text()
