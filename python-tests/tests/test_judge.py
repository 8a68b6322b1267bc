# SPDX-License-Identifier: GPL-2.0-only
"""The judge of the fault matrix: what is missing, left over, miscounted or not told is found."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from fault_cells import ENTRIES, FILE, WRITTEN, Cell, Expected, LabFault, Left, complaints
from lab_faults import FaultKind

from nfsmulti.fiorun import ConnectionStats, FioReport, FioResult, OperationStats

_MIB = len(WRITTEN)
_LOST = f'nfsmulti: nas: {_MIB} bytes of "f" may be lost: the server restarted\n'


def _line(kind: Any, **counts: int) -> Any:
    """Make a line of statistics, all of whose other members are 0."""
    return kind(**{**{one.name: 0 for one in fields(kind)}, **counts})


def _left(work: str, error: int = 0) -> Left:
    """Make what a sound job has left, or one that failed at once."""
    read = _MIB * (work in ("read", "write") and not error)
    written = _MIB * (work == "write" and not error)
    entries = len(ENTRIES) * (work in ("create", "remove") and not error)
    sides = {"read": {"io_bytes": read}, "write": {"io_bytes": written + entries}}
    line = _line(ConnectionStats, read_bytes=read, write_bytes=written, meta_ops=entries)
    operations = [_line(OperationStats, ops=entries)]
    report = FioReport({"jobs": [{"error": error, **sides}]})
    result = FioResult([], int(error > 0), 1.0, "", "", report, [line], Path(), operations)
    kept = {"create": dict.fromkeys(ENTRIES, b""), "remove": {}}.get(work, {FILE: WRITTEN})
    return Left(result, files={} if error else kept)


Change = Callable[[Left], object]


def _says(stderr: str) -> Change:
    def change(left: Left) -> None:
        left.result = replace(left.result, stderr=left.result.stderr + stderr)

    return change


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


def _has(*names: str) -> Change:
    return lambda left: left.files.update(dict.fromkeys(names, b""))


def _unreported(left: Left) -> None:
    left.result = replace(left.result, report=None)


_SIDE = f"{{}}: {_MIB} bytes wanted, fio counts {{}}, the engine {{}}"
_COUNTS = "64 operations wanted, counted are fio 64, engine {}, connections {}, and {} errors"
_NOT_WRITTEN = "the server's file does not hold what was written"
_HALF = -_MIB // 2
# The work, of which "no room" is creating that fails, and "broken" writing; what is changed.
_CHANGES: Sequence[tuple[str, Change, str]] = [
    ("create", lambda left: left.files.pop(ENTRIES[5]), "63 entries were made, where 64 operat"),
    ("create", _has("f/x"), "files that are no entries of the job: 1, such as f/x"),
    ("remove", _has(ENTRIES[5]), "63 entries were removed, where 64 operations are done"),
    ("no room", _has(*ENTRIES), "64 entries were made, where 0 operations are done"),
    ("no room", _fio("write", 60), "0 entries were made, where 60 operations are done"),
    ("create", _engine(ops=1), _COUNTS.format(65, 64, 0)),
    ("create", _engine(meta_ops=1), _COUNTS.format(64, 65, 0)),
    ("create", _engine(errors=1), _COUNTS.format(64, 64, 1)),
    ("create", _unreported, "fio left no report"),
    ("write", lambda left: left.files.update({FILE: b"\1" + WRITTEN[1:]}), _NOT_WRITTEN),
    ("write", lambda left: left.files.update({FILE: WRITTEN[:-1]}), _NOT_WRITTEN),
    ("write", _fio("write", -1), _SIDE.format("write", _MIB - 1, _MIB)),
    ("write", _engine(rewritten_bytes=1), _SIDE.format("write", _MIB, _MIB - 1)),
    ("read", _engine(read_bytes=-1), _SIDE.format("read", _MIB, _MIB - 1)),
    (
        "read",
        lambda left: (_fio("read", _HALF)(left), _engine(read_bytes=_HALF)(left)),
        _SIDE.format("read", _MIB // 2, _MIB // 2),
    ),
    ("broken", _fio("write", 1), "of 1 bytes written 0 were kept, 0 reported as lost"),
    ("write", _says("nfsmulti: nas: trying\n" * 50), "it said 50 lines"),
    ("write", _says(_LOST), "done, lost, where done was expected"),
    ("write", _engine(connection=1, reconnects=1), "another path than the fault's was"),
]


def _cell(work: str, *outcomes: str, **expected: Any) -> Cell:
    fault = LabFault("none", FaultKind.KILL)
    return Cell(fault, work, "hard", Expected(outcomes or ("done",), **expected))


@pytest.mark.parametrize("number", range(len(_CHANGES)))
def test_what_does_not_add_up(number: int) -> None:
    name, change, complaint = _CHANGES[number]
    failing = {"no room": ("create", errno.ENOSPC), "broken": ("write", errno.EIO)}
    work, error = failing.get(name, (name, 0))
    cell, left = _cell(work, errno.errorcode.get(error, "done")), _left(work, error)
    assert complaints(cell, left) == []
    change(left)
    (found,) = complaints(cell, left)
    assert complaint in found


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        (_cell("read", "EIO"), "done, where EIO was expected"),
        (_cell("read", says=("no such words",)), "it did not say: no such words"),
        (_cell("read", first="no such words"), "it did not say: no such words"),
        (_cell("read", resends=True), "no call was sent again"),
        (_cell("read", moves=True), "no call was reissued on another path"),
    ],
)
def test_what_was_expected_and_is_not_there(cell: Cell, complaint: str) -> None:
    assert complaints(cell, _left("read")) == [complaint]


@pytest.mark.parametrize(
    ("status", "stderr", "ends"),
    [(None, "", "hung"), (-11, "", "crashed"), (1, "AddressSanitizer: x", "crashed")],
)
def test_what_hangs_or_crashes(status: int | None, stderr: str, ends: str) -> None:
    left = _left("read")
    left.result = replace(left.result, status=status, stderr=stderr)
    assert f"{ends}, where done was expected" in complaints(_cell("read"), left)
