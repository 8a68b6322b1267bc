# SPDX-License-Identifier: GPL-2.0-only
"""The judge of the fault matrix: what is missing, left over, miscounted or not told is found.

Cells run on a scripted server, and what they left is changed before it is judged.
"""

import copy
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fault_cells import ENTRIES, FILE, Cell, Expected, Fault, Left, RunningJob, complaints
from scripted_jobs import soundly

from jobs import Fio
from nfsmulti.fiorun import Engine, Options
from servers.scripted import Answer, Hook, Nfs, ScriptedServer, Status, on


@dataclass(frozen=True)
class _Scripted(Fault):
    """A fault of a scripted server, on which nothing need come in time."""

    pace: ClassVar[Options] = {}
    hook: Hook = soundly

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        with ScriptedServer(self.hook) as server:
            for name, content in cell.files.items():
                server.create(name, content)
            with RunningJob(cell, Fio(engine), server.pool(), folder) as job:
                left = job.finish()
            left.files = server.all_durable()
        return left


_DONE, _FULL = Expected("done"), Expected("failed", errno.ENOSPC)


def _cell(work: str, expected: Expected = _DONE, hook: Hook = soundly) -> Cell:
    return Cell(_Scripted("scripted", hook=hook), work, "hard", expected)


_LOST = Expected("failed", errno.EIO, says=("bytes of",), loses=True)
_NO_SPACE, _FORGETS = Answer(status=Status.NOSPC), Answer(do=ScriptedServer.new_verifier)
_CELLS: Mapping[str, Cell] = {
    **{work: _cell(work) for work in ("create", "remove", "write", "read")},
    "full": _cell("write", _FULL, on(Nfs.WRITE, _NO_SPACE, nth=10)),
    "no room": _cell("create", _FULL, on(Nfs.CREATE, _NO_SPACE, nth=10)),
    "lost": _cell("write", _LOST, on(Nfs.COMMIT, _FORGETS, nth=1)),
}

Lefts = Mapping[str, Left]
Change = Callable[[Left], object]


@pytest.fixture(scope="module")
def lefts(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Lefts:
    """Return what the cells have left, by their names."""
    folder = tmp_path_factory.mktemp("cells")
    return {name: cell.fault.run(cell, engine, folder / name) for name, cell in _CELLS.items()}


@pytest.mark.parametrize("name", _CELLS)
def test_what_ends_as_expected_has_no_complaint(lefts: Lefts, name: str) -> None:
    assert complaints(_CELLS[name], lefts[name]) == []


# --- what does not add up ---


def _fio(side: str, more: int) -> Change:
    """Make fio count so much more."""

    def change(left: Left) -> None:
        assert left.result.report is not None
        left.result.report.jobs[0][side]["io_bytes"] += more

    return change


def _engine(**more: int) -> Change:
    """Make the engine count so much more, of its operations or on its first connection."""

    def change(left: Left) -> None:
        lines: list[Any] = (
            left.result.operations if {*more} & {"ops", "errors"} else left.result.stats
        )
        counts = {name: getattr(lines[0], name) + value for name, value in more.items()}
        lines[0] = replace(lines[0], **counts)

    return change


def _there(*names: str) -> Change:
    return lambda left: left.files.update(dict.fromkeys(names, b""))


def _turn_a_bit(left: Left) -> None:
    file = left.files[FILE]
    left.files[FILE] = bytes([file[0] ^ 1]) + file[1:]


def _says(stderr: Callable[[str], str]) -> Change:
    def change(left: Left) -> None:
        left.result = replace(left.result, stderr=stderr(left.result.stderr))

    return change


def _unreported(left: Left) -> None:
    left.result = replace(left.result, report=None)


_MIB = 1 << 20
_SIDE = f"{{}}: {_MIB} bytes wanted, fio counts {{}}, the engine {{}}"
_COUNTS = "64 operations wanted, counted are fio 64, engine {}, connections {}, and {} errors"
_CHANGES: Mapping[str, tuple[str, Change, str]] = {
    "an entry is missing": (
        "create", lambda left: left.files.pop(ENTRIES[5]), "63 entries were made, where 64 oper",
    ),
    "another is there": ("create", _there("f/x"), "no entries of the job: 1, such as f/x"),
    "a removed one is there": ("remove", _there(ENTRIES[5]), "63 entries were removed, where 64"),
    "more are there than were made": ("no room", _there(*ENTRIES), "64 entries were made, where "),
    "fewer are there than fio counts": ("no room", _fio("write", 60), " entries were made, where "),
    "the engine made one more": ("create", _engine(ops=1), _COUNTS.format(65, 64, 0)),
    "a connection made one more": ("create", _engine(meta_ops=1), _COUNTS.format(64, 65, 0)),
    "one error": ("create", _engine(errors=1), _COUNTS.format(64, 64, 1)),
    "no report": ("create", _unreported, "fio left no report"),
    "a bit is turned": ("write", _turn_a_bit, "the server's file does not hold what was written"),
    "fio wrote a byte less": ("write", _fio("write", -1), _SIDE.format("write", _MIB - 1, _MIB)),
    "a byte again": ("write", _engine(rewritten_bytes=1), _SIDE.format("write", _MIB, _MIB - 1)),
    "the engine read a byte less": (
        "read", _engine(read_bytes=-1), _SIDE.format("read", _MIB, _MIB - 1),
    ),
    "both read half": (
        "read",
        lambda left: (_fio("read", -_MIB // 2)(left), _engine(read_bytes=-_MIB // 2)(left)),
        _SIDE.format("read", _MIB // 2, _MIB // 2),
    ),
    "a block is lost and not reported": ("full", _turn_a_bit, " were kept, 0 reported as lost"),
    "fifty alike messages": (
        "write", _says(lambda said: said + "\nnfsmulti: nas: trying" * 50), "it said 50 lines",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CHANGES)
def test_what_does_not_add_up(lefts: Lefts, name: str) -> None:
    cell, change, complaint = _CHANGES[name]
    left = copy.deepcopy(lefts[cell])
    change(left)
    (found,) = complaints(_CELLS[cell], left)
    assert complaint in found


def test_a_loss_that_is_not_told(lefts: Lefts) -> None:
    left = copy.deepcopy(lefts["lost"])
    _says(lambda said: said.replace(" may be lost: ", " "))(left)
    assert complaints(_CELLS["lost"], left) == [
        "0 bytes were reported as lost",
        f"of {_MIB} bytes written 0 were kept, 0 reported as lost",
    ]


# --- what is not as the table has it ---


@pytest.mark.parametrize(
    ("name", "expected", "complaint"),
    [
        ("full", Expected("failed", errno.EIO), "ENOSPC, where EIO was expected"),
        ("full", replace(_FULL, says=("no such words",)), "it did not say: no such words"),
        ("lost", replace(_LOST, loses=False), f"{_MIB} bytes were reported as lost"),
        ("read", replace(_DONE, resends=True), "no call was sent again"),
        ("read", replace(_DONE, moves=True), "no call was reissued on another path"),
    ],
)
def test_what_is_not_as_expected(
    lefts: Lefts, name: str, expected: Expected, complaint: str
) -> None:
    assert complaints(replace(_CELLS[name], expected=expected), lefts[name]) == [complaint]


def test_what_concerns_single_lines(lefts: Lefts) -> None:
    """One that is told five times, and the connection of another path, which was lost as well."""
    left = copy.deepcopy(lefts["write"])
    _says(lambda said: said + "\nnfsmulti: nas: trying" * 5)(left)
    _engine(connection=1, reconnects=1)(left)
    cell = replace(_CELLS["write"], expected=replace(_DONE, says=("trying",)))
    assert complaints(cell, left) == [
        "it said 5 times: trying",
        "another path than the fault's was connected to anew",
    ]
