# SPDX-License-Identifier: GPL-2.0-only
"""The account of a cell's entries: what is missing, left over or miscounted is found.

A cell runs, and what it left is changed before the account is drawn up.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import pytest

from nfsmulti.faults.cell import ENTRIES, Cell, Left
from nfsmulti.faults.matrix import CELLS
from nfsmulti.faults.outcome import discrepancies
from nfsmulti.fiorun import Engine, FioReport

_CREATE, _STAT, _REMOVE = (
    f"JUKEBOX three times, {work}, hard, tcp" for work in ("create", "stat", "remove")
)
_FAILED, _TRIM = "NOSPC, create, hard, tcp", "STALE, trim, hard, tcp"

Change = Callable[[Left], object]


def _cell(name: str) -> Cell:
    (found,) = (cell for cell in CELLS if cell.id == name)
    return found


@pytest.fixture(scope="module")
def lefts(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """Give what cells have left, by their names."""
    folder = tmp_path_factory.mktemp("cells")
    names = (_CREATE, _STAT, _REMOVE, _FAILED, _TRIM)
    return {name: _cell(name).fault.run(_cell(name), engine, folder / name) for name in names}


@pytest.mark.parametrize("name", [_CREATE, _STAT, _REMOVE, _FAILED, _TRIM])
def test_what_adds_up(lefts: dict[str, Left], name: str) -> None:
    assert list(discrepancies(_cell(name), lefts[name])) == []


def _without(name: str) -> Change:
    return lambda left: left.files.pop(name)


def _with(name: str) -> Change:
    return lambda left: left.files.update({name: b""})


def _counted(side: str, operations: int) -> Change:
    """Make fio count so many."""

    def change(left: Left) -> None:
        assert left.result.report is not None
        left.result.report.jobs[0][side]["io_bytes"] = operations

    return change


def _engine_counts(operations: int, errors: int) -> Change:
    """Change the engine's line on its operations."""

    def change(left: Left) -> None:
        (line,) = left.result.operations
        left.result.operations[:] = [dataclasses.replace(line, ops=operations, errors=errors)]

    return change


_TOO_MANY = " entries were changed by operations that are not done"
_COUNTS = "64 operations wanted, fio counts {}, the trace 64, the engine {} and {} errors,"


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        (_CREATE, _without("f/d0/e5"), "entries not there: 1, such as f/d0/e5"),
        (_CREATE, _with("f/d4/e40"), "files that are no entries of the job: 1, such as f/d4/e40"),
        (_CREATE, _with("f/d1/e5"), "files that are no entries of the job: 1, such as f/d1/e5"),
        (_CREATE, _counted("write", 63), _COUNTS.format(63, 64, 0)),
        (_CREATE, _engine_counts(65, 0), _COUNTS.format(64, 65, 0)),
        (_CREATE, _engine_counts(64, 1), _COUNTS.format(64, 64, 1)),
        (_STAT, _without("f/d3/e3f"), "entries not there: 1, such as f/d3/e3f"),
        (_STAT, _counted("read", 65), _COUNTS.format(65, 64, 0)),
        (_REMOVE, _with("f/d0/e5"), "entries removed and still there: 1, such as f/d0/e5"),
        (_REMOVE, _with("f/x"), "files that are no entries of the job: 1, such as f/x"),
        (_FAILED, _without("f/d0/e0"), "entries not there: 1, such as f/d0/e0"),
        (_FAILED, _with("f/d0/r5"), "files that are no entries of the job: 1, such as f/d0/r5"),
        (_FAILED, _counted("write", 60), "fio counts 60 operations, the trace has "),
        (_TRIM, _counted("trim", 60), "fio counts 60 operations, the trace has "),
        (_FAILED, lambda left: left.files.update(dict.fromkeys(ENTRIES, b"")), _TOO_MANY),
    ],
)
def test_what_does_not_add_up(
    lefts: dict[str, Left], name: str, change: Change, complaint: str
) -> None:
    left = copy.deepcopy(lefts[name])
    change(left)
    (said,) = discrepancies(_cell(name), left)
    assert complaint in said


def test_a_job_without_a_report(lefts: dict[str, Left]) -> None:
    result = dataclasses.replace(lefts[_CREATE].result, report=FioReport.parse(""))
    left = dataclasses.replace(lefts[_CREATE], result=result)
    assert list(discrepancies(_cell(_CREATE), left)) == ["fio left no report"]
