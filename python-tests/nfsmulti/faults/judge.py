# SPDX-License-Identifier: GPL-2.0-only
"""Holds what a cell's fio left against what the table expects."""

from __future__ import annotations

import dataclasses
import errno
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from nfsmulti.faults.cell import Cell, Mode, Outcome, says
from nfsmulti.faults.job import Left, block_of, content_of, longest_io
from nfsmulti.fiorun import FioResult

_LOST = re.compile(r": (\d+) bytes of .* may be lost: ")
_CRASH = re.compile(r"got signal=|AddressSanitizer|runtime error:|LeakSanitizer")
_LINES_MAX = 40  # of the engine: a fault is told, and not over and over
_TIMES_MAX = 3  # a path stops once; on a busy machine its server may stall by itself, too


def judge(cell: Cell, left: Left) -> Outcome:
    """Give the outcome of a cell."""
    result, report = left.result, left.result.report
    stats = result.stats
    again = sum(line.retransmissions for line in stats)
    rewritten = sum(line.rewritten_bytes for line in stats)
    moved = sum(line.reissues for line in stats)
    since = left.signalled or left.fault
    came_through = result.status == 0
    return Outcome(
        cell=cell.id,
        place=cell.fault.place.value,
        fault=cell.fault.name,
        work=cell.work.value,
        mode=cell.mode.value,
        expected=cell.expected.text,
        outcome=_outcome(left),
        complaints=list(_complaints(cell, left, moved)),
        short=cell.expected.short,
        seconds=round(result.seconds, 2),
        recovery_s=round(longest_io(report), 3) if came_through and report else None,
        end_s=None if came_through or since is None else round(left.ended - since, 3),
        again=again,
        moved=moved,
        again_bytes=(again + moved) * block_of(cell) + rewritten,
        lost_bytes=lost_bytes(left),
        written_bytes=report.bytes("write") if report else 0,
        read_bytes=report.bytes("read") if report else 0,
        said=left.said,
        command=_command(result.argv),
    )


def not_run(cell: Cell, why: str) -> Outcome:
    """Give the outcome of a cell that came to nothing, by no fault of the engine."""
    left = Left(FioResult([], None, 0.0, "", "", None, [], Path()))
    return dataclasses.replace(judge(cell, left), outcome="not run", complaints=[why])


def _command(argv: Sequence[str]) -> str:
    """Give fio's command as one would type it, without where it leaves its files."""
    words = argv[argv.index("fio") :] if "fio" in argv else argv
    return shlex.join(word for word in words if not word.startswith(("--output=", "--stats_file")))


def lost_bytes(left: Left) -> int:
    """Give the bytes that the engine said may be lost."""
    return sum(int(match[1]) for line in left.said if (match := _LOST.search(line)))


def _outcome(left: Left) -> str:
    """Say in a word or two how fio ended."""
    status, report = left.result.status, left.result.report
    if status is None:
        return "hung"
    if status < 0 or _CRASH.search(left.result.messages):
        return "crashed"
    if status == 0:
        return "done"
    if left.signalled is not None:
        return "held"
    error = report.error if report else 0
    return f"failed {errno.errorcode.get(error, 'without a reason')}"


def _complaints(cell: Cell, left: Left, moved: int) -> Iterator[str]:
    """Say what is not as expected."""
    expected, outcome, said = cell.expected, _outcome(left), "\n".join(left.said)
    if outcome != expected.text:
        yield f"{outcome}, where {expected.text} was expected"
    yield from (f"it did not say: {words}" for words in expected.says if not says(words, said))
    yield from _over_again(cell, said)
    if len(left.said) > _LINES_MAX:
        yield f"it said {len(left.said)} lines"
    if expected.moves and not moved:
        yield "no call was taken over by another path"
    if expected.loses is not None and expected.loses != bool(lost_bytes(left)):
        yield f"{lost_bytes(left)} bytes were told as lost"
    yield from _account(cell, left)


def _over_again(cell: Cell, said: str) -> Iterator[str]:
    """Hold `hard` to its word: a line when a path stops, and one when it goes on."""
    if cell.mode is Mode.HARD and cell.expected.how == "done":
        for words in cell.expected.says:
            times = sum(said.count(one) for one in words.split("|"))
            if times > _TIMES_MAX * cell.paths:
                yield f"it said {times} times: {words}"


def _account(cell: Cell, left: Left) -> Iterator[str]:
    """Account for every byte that fio counts: read right, or written and kept, or told as lost."""
    report, content = left.result.report, content_of(cell)
    if report is None:
        yield "fio left no report"
        return
    if left.result.status == 0:
        yield from _whole(cell, left, content)
    elif cell.work.writes:
        kept = _kept(left.file, content, block_of(cell))
        written = report.bytes("write")
        if kept + lost_bytes(left) < written:
            yield f"of {written} bytes written {kept} were kept, {lost_bytes(left)} told as lost"


def _whole(cell: Cell, left: Left, content: bytes) -> Iterator[str]:
    """Hold a job that came through against the file, and fio's count against the engine's."""
    report, stats = left.result.report, left.result.stats
    assert report is not None
    if left.file != content:
        yield "the server's file does not hold what was written"
    sides = {"read": sum(line.read_bytes for line in stats)}
    if cell.work.writes:
        sides["write"] = sum(line.write_bytes - line.rewritten_bytes for line in stats)
    for side, moved in sides.items():
        counted = report.bytes("read" if side == "read" else "write")
        if counted != len(content) or moved != counted:
            yield f"{side}: {len(content)} bytes wanted, fio counts {counted}, the engine {moved}"


def _kept(file: bytes, content: bytes, block: int) -> int:
    """Count the bytes of blocks that are in the file as they should."""
    places = range(0, len(content), block)
    return sum(block for at in places if file[at : at + block] == content[at : at + block])
