# SPDX-License-Identifier: GPL-2.0-only
"""The judge of the fault matrix: what is missing, left over, miscounted or not told is found.

Cells run on a scripted server, and what they left is changed before it is judged.
"""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fault_cells import ENTRIES, FILE, Cell, Expected, Fault, Left, RunningJob, judged
from scripted_jobs import soundly

from nfsmulti.fiorun import Engine, Fio, Options
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
_LOST = Expected("failed", errno.EIO, says=("bytes of",), loses=True)
_NO_SPACE, _FORGETS = Answer(status=Status.NOSPC), Answer(do=ScriptedServer.new_verifier)
_CELLS: Mapping[str, Cell] = {
    "create": Cell(_Scripted("none"), "create", "hard", _DONE),
    "remove": Cell(_Scripted("none"), "remove", "hard", _DONE),
    "write": Cell(_Scripted("none"), "write", "hard", _DONE),
    "read": Cell(_Scripted("none"), "read", "hard", _DONE),
    "full": Cell(_Scripted("full", hook=on(Nfs.WRITE, _NO_SPACE, nth=10)), "write", "hard", _FULL),
    "no room": Cell(
        _Scripted("no room", hook=on(Nfs.CREATE, _NO_SPACE, nth=10)), "create", "hard", _FULL
    ),
    "lost": Cell(
        _Scripted("forgets", hook=on(Nfs.COMMIT, _FORGETS, nth=1)), "write", "hard", _LOST
    ),
}

Change = Callable[[Left], object]


@pytest.fixture(scope="module")
def lefts(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """Return what the cells have left, by their names."""
    folder = tmp_path_factory.mktemp("cells")
    return {name: cell.fault.run(cell, engine, folder / name) for name, cell in _CELLS.items()}


@pytest.mark.parametrize("name", _CELLS)
def test_a_cell_that_ends_as_expected_has_no_complaint(lefts: dict[str, Left], name: str) -> None:
    assert judged(_CELLS[name], lefts[name]).complaints == []


# --- what does not add up ---


def _without(name: str) -> Change:
    return lambda left: left.files.pop(name)


def _with(name: str) -> Change:
    return lambda left: left.files.update({name: b""})


def _counted(side: str, more: int) -> Change:
    """Make fio count so much more, or less."""

    def change(left: Left) -> None:
        assert left.result.report is not None
        left.result.report.jobs[0][side]["io_bytes"] += more

    return change


def _engine_counts(**more: int) -> Change:
    """Change the engine's line on its operations."""

    def change(left: Left) -> None:
        left.result.operations[0] = _more(left.result.operations[0], more)

    return change


def _moved(**more: int) -> Change:
    """Change its line on the first connection."""

    def change(left: Left) -> None:
        left.result.stats[0] = _more(left.result.stats[0], more)

    return change


def _more(line: Any, more: Mapping[str, int]) -> Any:
    return replace(line, **{name: getattr(line, name) + value for name, value in more.items()})


def _turned(at: int) -> Change:
    """Turn a bit of the server's file."""

    def change(left: Left) -> None:
        file = bytearray(left.files[FILE])
        file[at] ^= 1
        left.files[FILE] = bytes(file)

    return change


def _says(left: Left, stderr: str) -> None:
    left.result = replace(left.result, stderr=stderr)


def _silent(left: Left) -> None:
    """Take the engine's words on what was lost away."""
    _says(left, left.result.stderr.replace(" may be lost: ", " "))


def _unreported(left: Left) -> None:
    left.result = replace(left.result, report=None)


_MIB = 1 << 20
_SIDE = "{}: 1048576 bytes wanted, fio counts {}, the engine {}"
_COUNTS = (
    "64 operations wanted, counted are fio {}, trace 64, engine {}, connections 64, and {} err"
)
_CHANGES: Mapping[str, tuple[str, Change, str]] = {
    "an entry is missing": ("create", _without(ENTRIES[5]), "entries not there: 1, such as f/d0"),
    "another is there": (
        "create", _with("f/d1/e5"), "files that are no entries of the job: 1, such as f/d1/e5",
    ),
    "fio made one less": ("create", _counted("write", -1), _COUNTS.format(63, 64, 0)),
    "the engine one more": ("create", _engine_counts(ops=1), _COUNTS.format(64, 65, 0)),
    "one error": ("create", _engine_counts(errors=1), _COUNTS.format(64, 64, 1)),
    "a removed one is there": (
        "remove", _with(ENTRIES[5]), "entries removed and still there: 1, such as f/d0/e5",
    ),
    "fio removed one more": ("remove", _counted("write", 1), _COUNTS.format(65, 64, 0)),
    "one that was made is missing": (
        "no room", _without(ENTRIES[0]), "entries not there: 1, such as f/d0/e0",
    ),
    "fio made more than the trace has": (
        "no room", _counted("write", 60), "operations, the trace has ",
    ),
    "all are there without being made": (
        "no room",
        lambda left: left.files.update(dict.fromkeys(ENTRIES, b"")),
        " entries were changed by operations that are not done",
    ),
    "no report": ("create", _unreported, "fio left no report"),
    "a bit is turned": ("write", _turned(99), "the server's file does not hold what was written"),
    "fio wrote a byte less": (
        "write", _counted("write", -1), _SIDE.format("write", _MIB - 1, _MIB),
    ),
    "the engine a byte more": (
        "write", _moved(write_bytes=1), _SIDE.format("write", _MIB, _MIB + 1),
    ),
    "a byte was written again": (
        "write", _moved(rewritten_bytes=1), _SIDE.format("write", _MIB, _MIB - 1),
    ),
    "the engine read a byte less": (
        "read", _moved(read_bytes=-1), _SIDE.format("read", _MIB, _MIB - 1),
    ),
    "both read half": (
        "read",
        lambda left: (_counted("read", -_MIB // 2)(left), _moved(read_bytes=-_MIB // 2)(left)),
        _SIDE.format("read", _MIB // 2, _MIB // 2),
    ),
    "a block is lost and not reported": ("full", _turned(0), " were kept, 0 reported as lost"),
}  # fmt: skip


@pytest.mark.parametrize("name", _CHANGES)
def test_what_does_not_add_up(lefts: dict[str, Left], name: str) -> None:
    cell, change, complaint = _CHANGES[name]
    left = copy.deepcopy(lefts[cell])
    change(left)
    found = judged(_CELLS[cell], left).complaints
    assert any(complaint in one for one in found), found
    assert len(found) == 1


def test_a_loss_that_is_not_told_is_found_by_its_words_and_its_bytes(
    lefts: dict[str, Left],
) -> None:
    left = copy.deepcopy(lefts["lost"])
    _silent(left)
    assert judged(_CELLS["lost"], left).complaints == [
        "0 bytes were reported as lost",
        "of 1048576 bytes written 0 were kept, 0 reported as lost",
    ]


# --- what is not as the table has it ---


@pytest.mark.parametrize(
    ("name", "expected", "complaint"),
    [
        ("full", Expected("failed", errno.EIO), "ENOSPC, where EIO was expected"),
        ("full", replace(_FULL, says=("no such words",)), "it did not say: no such words"),
        ("lost", replace(_LOST, loses=False), "1048576 bytes were reported as lost"),
        ("read", replace(_DONE, moves=True), "no call was reissued on another path"),
    ],
)
def test_what_is_not_as_expected(
    lefts: dict[str, Left], name: str, expected: Expected, complaint: str
) -> None:
    cell = replace(_CELLS[name], expected=expected)
    assert judged(cell, lefts[name]).complaints == [complaint]


def test_messages_that_go_on_and_on(lefts: dict[str, Left]) -> None:
    left = copy.deepcopy(lefts["write"])
    _says(left, left.result.stderr + "\nnfsmulti: nas: WRITE: still trying" * 50)
    assert judged(_CELLS["write"], left).complaints == ["it said 50 lines"]
    cell = replace(_CELLS["write"], expected=Expected("done", says=("trying",)))
    assert "it said 50 times: trying" in judged(cell, left).complaints


def test_a_path_without_a_fault_keeps_its_connection(lefts: dict[str, Left]) -> None:
    left = copy.deepcopy(lefts["write"])
    left.result.stats.append(_more(left.result.stats[0], {"connection": 1, "reconnects": 1}))
    left.result.stats[1] = replace(left.result.stats[1], write_bytes=0, read_bytes=0)
    complaint = "another path than the fault's was connected to anew"
    assert judged(_CELLS["write"], left).complaints == [complaint]
