# SPDX-License-Identifier: GPL-2.0-only
"""The judge of soak and of the fault matrix: what is missing, left over, miscounted is found."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from judge import ENTRIES, FILE, WORKS, WRITTEN, Expected, Left, Work, complaints

from nfsmulti.fiorun import FioReport, FioResult

_AGAIN = 5000  # bytes that the engine has written twice


def _left(work: Work, error: int, **more: Any) -> Left:
    """Make what a sound job has left, or one that failed at once, but for what is said.

    `files` and members of the result are given; fio and the engine count so much more.
    """
    entries, done = work.options["bs"] == 1, 0 if error else work.options["size"]
    names = ("connection", "retransmissions", "reissues", "reconnects", "errors")
    counts = dict.fromkeys((*names, "read_bytes", "write_bytes", "meta_ops"), 0)
    counts |= {"ops": done, "rewritten_bytes": _AGAIN, "write_bytes": _AGAIN}
    sides = {side: {"io_bytes": done} for side in work.sides}
    sides[work.side]["io_bytes"] += more.pop("fio", 0)
    for side in work.sides:
        counts["meta_ops" if entries else f"{side}_bytes"] += done
    line: Any = SimpleNamespace(**{name: n + more.pop(name, 0) for name, n in counts.items()})
    report = FioReport({"jobs": [{"error": error, **sides}]})
    files = more.pop("files", work.before if error else work.after)
    members = {"status": int(error > 0), "stderr": "", "report": report, **more}
    result = FioResult(
        argv=[], seconds=1.0, output="", folder=Path(), stats=[line],
        operations=[line] * entries, **members,
    )  # fmt: skip
    return Left(result, files=files)


_SIZE = len(WRITTEN[FILE])
_LOST = f'nfsmulti: nas: {_SIZE} bytes of "f" may be lost: the server restarted\n'
_SIDE = f"{{}}: {_SIZE} wanted, counted are fio {{}}, the engine {{}}, and 0 errors"
_ENTRIES = "write: 64 wanted, counted are fio 64, the engine {}, connections {}, and {} errors"
_UNLIKE = "files are not as the job must leave them: {}, such as {}"
_TURNED = {FILE: b"\1" + WRITTEN[FILE][1:]}
_FIRST, *_OTHERS = ENTRIES
_WITHOUT_ONE = dict.fromkeys(_OTHERS, b"")

# The work, the errno that it ends with, what else is there, and what is said of that.
_CHANGES: list[tuple[str, int, dict[str, Any], str]] = [
    ("create", 0, {"files": _WITHOUT_ONE}, _UNLIKE.format(1, _FIRST)),
    ("create", 0, {"files": {**ENTRIES, "f/x": b"", "f/y": b""}}, _UNLIKE.format(2, "f/x")),
    ("remove", 0, {"files": {_FIRST: b""}}, _UNLIKE.format(1, _FIRST)),
    ("create", 0, {"ops": 1}, _ENTRIES.format(65, 64, 0)),
    ("create", 0, {"meta_ops": 1, "errors": 2}, _ENTRIES.format(64, 65, 2)),
    ("create", 0, {"report": None}, "fio left no report"),
    ("create", errno.ENOSPC, {"files": {"f/x": b""}}, "files that are not the job's: 1, such as"),
    ("create", errno.ENOSPC, {"files": ENTRIES}, "of 0 written 64 were kept, 0 reported as lost"),
    ("remove", errno.EIO, {"fio": 60}, "of 60 written 0 were kept, 0 reported as lost"),
    ("remove", errno.EIO, {"files": {}}, "of 0 written 64 were kept, 0 reported as lost"),
    ("write", 0, {"files": _TURNED}, _UNLIKE.format(1, FILE)),
    ("write", 0, {"files": {FILE: WRITTEN[FILE][:-1]}}, _UNLIKE.format(1, FILE)),
    ("write", 0, {"fio": -1}, _SIDE.format("write", _SIZE - 1, _SIZE)),
    ("write", 0, {"rewritten_bytes": 1}, _SIDE.format("write", _SIZE, _SIZE - 1)),
    ("write", 0, {"read_bytes": -1}, _SIDE.format("read", _SIZE, _SIZE - 1)),
    ("read", 0, {"read_bytes": -1}, _SIDE.format("read", _SIZE, _SIZE - 1)),
    ("read", 0, {"fio": -9, "read_bytes": -9}, _SIDE.format("read", _SIZE - 9, _SIZE - 9)),
    (
        "write", errno.EIO, {"fio": _SIZE, "files": _TURNED},
        f"of {_SIZE} written {_SIZE - (16 << 10)} were kept, 0 reported as lost",
    ),
    ("write", 0, {"stderr": "nfsmulti: nas: trying\n" * 41}, "it said 41 lines"),
    ("write", 0, {"stderr": _LOST}, "done, lost, where done was expected"),
    ("write", 0, {"connection": 1, "reconnects": 1}, "another path than the fault's was connected"),
    ("read", 0, {"status": None}, "hung, where done was expected"),
    ("read", 0, {"status": -11}, "crashed, where done was expected"),
    ("read", 0, {"stderr": "AddressSanitizer: x"}, "crashed, where done was expected"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(_CHANGES)))
def test_what_does_not_add_up(number: int) -> None:
    name, error, changes, complaint = _CHANGES[number]
    work, expected = WORKS[name], Expected((errno.errorcode.get(error, "done"),))
    assert list(complaints(work, _left(work, error), expected, 0)) == []
    (found,) = complaints(work, _left(work, error, **changes), expected, 0)
    assert complaint in found


def test_what_failed_may_be_told_as_lost_or_be_under_way() -> None:
    work, under_way = WORKS["write"], {FILE: WRITTEN[FILE][: _SIZE // 4]}
    for changes in ({"fio": _SIZE, "stderr": _LOST}, {"fio": 0, "files": under_way}):
        left = _left(work, errno.EIO, **changes)
        assert list(complaints(work, left, Expected(("EIO", "EIO, lost")), 0)) == []


def test_what_was_expected_and_is_not_there() -> None:
    expected = Expected(("EIO",), "no such words", ("nor such",), resends=True, moves=True)
    assert list(complaints(WORKS["read"], _left(WORKS["read"], 0), expected, 0)) == [
        "done, where EIO was expected",
        "it did not say: no such words",
        "it did not say: nor such",
        "no call was sent again",
        "no call was reissued on another path",
    ]
