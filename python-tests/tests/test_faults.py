# SPDX-License-Identifier: GPL-2.0-only
"""What ./nfsmulti faults runs and leaves, and that it tells of what was not as expected.

That is what a cell ends with, and the account of its entries: what is missing, left over or
miscounted.
"""

from __future__ import annotations

import copy
import dataclasses
import errno
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from conftest import call_harness, refusal

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.faults import command
from nfsmulti.faults.command import run_cell
from nfsmulti.faults.job import ENTRIES, Expected, Left, Place
from nfsmulti.faults.matrix import CELLS
from nfsmulti.faults.outcome import discrepancies, judge
from nfsmulti.faults.page import FILE, read, write
from nfsmulti.fiorun import Engine
from nfsmulti.machine import versions
from nfsmulti.paths import ROOT, shown
from nfsmulti.processes import claimed

_CELLS = {cell.id: cell for cell in CELLS}
_NAME = "STALE, read, hard, tcp"


def test_a_run_leaves_a_page_with_a_grid(tmp_path: Path) -> None:
    done = call_harness("faults", "--only", "STALE read", "--results", str(tmp_path))
    assert done.status == 0, done.stderr
    assert "0 of 3 jobs hid a loss." in done.stdout
    assert re.search(r"STALE +ESTALE +ESTALE +ESTALE$", done.stdout, re.MULTILINE)
    assert "| STALE | ESTALE | ESTALE | ESTALE |" in (tmp_path / "report.md").read_text()
    assert [one.outcome for one in read(tmp_path).cells] == ["failed ESTALE"] * 3
    assert json.loads((tmp_path / FILE).read_text())["setting"]["fio"].startswith("fio-")


def test_the_reference_page_is_a_grid_of_faults(tmp_path: Path) -> None:
    """Made again by `report`: a row for each fault, in place of one for each job."""
    (tmp_path / FILE).write_text((ROOT / "results/reference/faults" / FILE).read_text())
    call_harness("report", str(tmp_path)).check()
    html = (tmp_path / "report.html").read_text()
    assert "0 of 374 jobs hid a loss; 6 broke another promise (known, below)." in html
    shown, _, folded = html.partition("<details><summary>As expected</summary>")
    assert (">link down for 2 s<" in shown, ">link down for 2 s<" in folded) == (True, False)
    assert (">garbage<" in shown, ">garbage<" in folded) == (False, True)
    assert "address removed (2 of the 6, short of <code>failover</code>): fio reopens" in html
    assert html.index(">garbage<") < html.index(">connection reset while idle<")
    assert html.count("<tr>") < 100
    assert '<td data-of="hard">done' in html
    assert (tmp_path / "report.md").read_text().count("write: EIO, lost") > 1


@pytest.mark.parametrize(
    "words",
    [("faults", "--only", "STALE read"), ("soak",), ("bench", "mount", "--quick")],
    ids=lambda words: words[0],
)
def test_a_folder_has_one_run(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = f"{shown(tmp_path)} is not empty, or another run has it\n  name another --results"
    with claimed(tmp_path):
        assert refusal(*words, "--results", str(tmp_path)) == refused
    (tmp_path / FILE).write_text("of another run")
    assert refusal(*words, "--results", str(tmp_path)) == refused
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("error", [HarnessError("it died"), MissingError("no guest")])
def test_a_guest_that_fails_leaves_what_was_found_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: HarnessError
) -> None:
    def boot(*_: object, **__: object) -> int:
        raise error

    there = next(cell for cell in CELLS if cell.fault.place is Place.GUEST)
    monkeypatch.setattr(command, "CELLS", [_CELLS[_NAME], there])
    monkeypatch.setattr("nfsmulti.lab.guest.run_in_guest", boot)
    monkeypatch.setattr("nfsmulti.lab.kernels.KernelTree.get", boot)
    with pytest.raises((HarnessError, SystemExit)) as end:
        command.faults(results=tmp_path)
    assert getattr(end.value, "code", 1) in (1, True)
    assert [one.outcome for one in read(tmp_path).cells] == ["failed ESTALE", "not run"]
    assert "1 of 2 jobs ended as expected" in (tmp_path / "report.md").read_text()


def test_cells_are_listed_and_not_run() -> None:
    done = call_harness("faults", "--list", "--only", "STALE read hard").check()
    assert done.stdout == f"{_NAME}: failed ESTALE\n"
    said = refusal("faults", "--only", "no such fault")
    assert "no cell's name contains all these words" in said


@pytest.mark.parametrize(
    ("name", "expected", "complaint"),
    [
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
    cell = dataclasses.replace(_CELLS[name], expected=expected)
    outcome = run_cell(cell, engine, tmp_path / "cell")
    assert outcome.complaints == [complaint]
    command.write(tmp_path, datetime.now(UTC), versions(), [outcome])
    assert f"NOT AS EXPECTED: {cell.id}: {complaint}" in write(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert f"- {cell.id}: {complaint}" in text
    assert "✗ " in text


# --- the account: a cell runs, and what it left is changed before the account is drawn up ---


_CREATE, _STAT, _REMOVE = (
    f"JUKEBOX three times, {work}, hard, tcp" for work in ("create", "stat", "remove")
)
_FAILED, _TRIM = "NOSPC, create, hard, tcp", "STALE, trim, hard, tcp"
_WRITE, _READ = "JUKEBOX three times, write, hard, tcp", "JUKEBOX three times, read, hard, tcp"
_FULL, _FORGOT = (
    "NOSPC, write, hard, tcp",
    "new verifier between WRITE and COMMIT, write, hard, tcp",
)

Change = Callable[[Left], object]


@pytest.fixture(scope="module")
def lefts(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """Return what cells have left, by their names."""
    folder = tmp_path_factory.mktemp("cells")
    names = (_CREATE, _STAT, _REMOVE, _FAILED, _TRIM, _WRITE, _READ, _FULL, _FORGOT)
    return {name: _CELLS[name].fault.run(_CELLS[name], engine, folder / name) for name in names}


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


def _unreported(left: Left) -> None:
    left.result = dataclasses.replace(left.result, report=None)


def _turned(at: int) -> Change:
    """Turn a byte of the server's file."""

    def change(left: Left) -> None:
        file = bytearray(left.files["f"])
        file[at] ^= 1
        left.files["f"] = bytes(file)

    return change


def _moved(**more: int) -> Change:
    """Make the engine count so much more on its first connection."""

    def change(left: Left) -> None:
        line = left.result.stats[0]
        counts = {name: getattr(line, name) + value for name, value in more.items()}
        left.result.stats[0] = dataclasses.replace(line, **counts)

    return change


def _silent(left: Left) -> None:
    """Take the engine's words on what was lost away."""
    messages = left.result.stderr.replace(" may be lost: ", " ")
    left.result = dataclasses.replace(left.result, stderr=messages)


_TOO_MANY = " entries were changed by operations that are not done"
_SIDE = "{}: 1048576 bytes wanted, fio counts {}, the engine {}"
_COUNTS = "64 operations wanted, fio counts {}, the trace 64, the engine {} and {} errors,"


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        (_CREATE, _without("f/d0/e5"), "entries not there: 1, such as f/d0/e5"),
        (_CREATE, _with("f/d1/e5"), "files that are no entries of the job: 1, such as f/d1/e5"),
        (_CREATE, _counted("write", 63), _COUNTS.format(63, 64, 0)),
        (_CREATE, _engine_counts(65, 0), _COUNTS.format(64, 65, 0)),
        (_CREATE, _engine_counts(64, 1), _COUNTS.format(64, 64, 1)),
        (_STAT, _without("f/d3/e3f"), "entries not there: 1, such as f/d3/e3f"),
        (_STAT, _counted("read", 65), _COUNTS.format(65, 64, 0)),
        (_REMOVE, _with("f/d0/e5"), "entries removed and still there: 1, such as f/d0/e5"),
        (_FAILED, _without("f/d0/e0"), "entries not there: 1, such as f/d0/e0"),
        (_FAILED, _with("f/d0/r5"), "files that are no entries of the job: 1, such as f/d0/r5"),
        (_FAILED, _counted("write", 60), "fio counts 60 operations, the trace has "),
        (_TRIM, _counted("trim", 60), _COUNTS.format(60, 64, 0)),
        (_CREATE, _unreported, "fio left no report"),
        (_FAILED, lambda left: left.files.update(dict.fromkeys(ENTRIES, b"")), _TOO_MANY),
        (_WRITE, _turned(99), "the server's file does not hold what was written"),
        (_WRITE, _counted("write", 1 << 19), _SIDE.format("write", 1 << 19, 1 << 20)),
        (_WRITE, _moved(write_bytes=1), _SIDE.format("write", 1 << 20, (1 << 20) + 1)),
        (_WRITE, _moved(rewritten_bytes=1), _SIDE.format("write", 1 << 20, (1 << 20) - 1)),
        (_READ, _counted("read", 1 << 19), _SIDE.format("read", 1 << 19, 1 << 20)),
        (_READ, _moved(read_bytes=-1), _SIDE.format("read", 1 << 20, (1 << 20) - 1)),
        (
            _READ,
            lambda left: (_counted("read", 1 << 19)(left), _moved(read_bytes=-1 << 19)(left)),
            _SIDE.format("read", 1 << 19, 1 << 19),
        ),
        (_FULL, _turned(0), " were kept, 0 reported as lost"),
        (_FORGOT, _silent, "of 1048576 bytes written 0 were kept, 0 reported as lost"),
    ],
)
def test_what_does_not_add_up(
    lefts: dict[str, Left], name: str, change: Change, complaint: str
) -> None:
    left = copy.deepcopy(lefts[name])
    change(left)
    (said,) = discrepancies(_CELLS[name], left)
    assert complaint in said


def test_messages_that_go_on_and_on_are_told(lefts: dict[str, Left]) -> None:
    left = copy.deepcopy(lefts[_WRITE])
    assert judge(_CELLS[_WRITE], left).complaints == []
    stderr = left.result.stderr + "\nnfsmulti: nas: WRITE: still trying" * 50
    left.result = dataclasses.replace(left.result, stderr=stderr)
    assert judge(_CELLS[_WRITE], left).complaints == [f"it said {len(left.said)} lines"]
