# SPDX-License-Identifier: GPL-2.0-only
"""What came of a cell's job, held against what was expected, and its account.

The account is of each byte and each entry: what fio counts, what the engine counts, and what the
server keeps must add up.
"""

from __future__ import annotations

import errno
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nfsmulti.faults.job import ENTRIES, FILE, Cell, Left, Mode, Work
from nfsmulti.fiorun import Direction, FioReport, FioResult

_CRASH = re.compile(r"got signal=|AddressSanitizer|runtime error:|LeakSanitizer")
_LOST = re.compile(r"^nfsmulti: .*: (\d+) bytes of \".*\" may be lost: ", re.MULTILINE)
# An entry's operation, by the entry's number, where no error follows.
_OPERATION = re.compile(r" trace: connection .* \d+@(\d+) = \d+$", re.MULTILINE)
_LINES_MAX = 40  # of the engine: a fault is told, and not over and over
# `hard` tells once that a path stops, and once that it goes on. On a busy machine its server may
# stall by itself, too.
_TIMES_MAX = 3


def lost_bytes(result: FioResult) -> int:
    """Return the bytes that may be lost, as the engine says."""
    return sum(map(int, _LOST.findall(result.messages)))


@dataclass(frozen=True)
class Outcome:
    """What came of a cell. `complaints` say what was not as expected.

    `recovery_s`: the longest that an I/O took, which is the time until what the fault held was
    answered; None where the job did not come through. `lost_bytes` is what the engine said.
    """

    cell: str
    place: str
    fault: str
    work: str
    mode: str
    outcome: str
    complaints: list[str]
    short: str
    recovery_s: float | None
    lost_bytes: int
    said: list[str]
    command: str

    @property
    def met(self) -> bool:
        """Whether all was as expected."""
        return not self.complaints


def judge(cell: Cell, left: Left) -> Outcome:
    """Return the outcome of a cell."""
    result = left.result
    return Outcome(
        cell=cell.id,
        place=cell.fault.place.value,
        fault=cell.fault.name,
        work=cell.work.value,
        mode=cell.mode.value,
        outcome=_how_ended(left),
        complaints=list(_complaints(cell, left)),
        short=cell.expected.short,
        recovery_s=_longest_io(result.report) if result.status == 0 and result.report else None,
        lost_bytes=lost_bytes(result),
        said=left.said,
        command=_fio_command(result.argv),
    )


def not_run(cell: Cell, why: str) -> Outcome:
    """Return the outcome of a cell that came to nothing, by no fault of the engine."""
    left = Left(FioResult([], None, 0.0, "", "", None, [], Path()))
    return replace(judge(cell, left), outcome="not run", complaints=[why])


def _longest_io(report: FioReport) -> float:
    """Return the longest that an I/O took, in seconds."""
    sides = [job[side] for job in report.jobs for side in ("read", "write", "trim")]
    return round(max((float(side["clat_ns"]["max"]) for side in sides), default=0.0) / 1e9, 3)


def _fio_command(argv: Sequence[str]) -> str:
    """Return fio's command as one would type it, without where it leaves its files."""
    words = argv[argv.index("fio") :] if "fio" in argv else argv
    return shlex.join(word for word in words if not word.startswith(("--output=", "--stats_file")))


def _how_ended(left: Left) -> str:
    """Say in a word or two how fio ended."""
    status, report = left.result.status, left.result.report
    if status is None:
        return "hung"
    if status < 0 or _CRASH.search(left.result.messages):
        return "crashed"
    if status == 0:
        return "done"
    if left.signalled:
        return "held"
    error = report.error if report else 0
    return f"failed {errno.errorcode.get(error, 'without a reason')}"


def _complaints(cell: Cell, left: Left) -> Iterator[str]:
    """Say what is not as expected."""
    expected, outcome, said = cell.expected, _how_ended(left), "\n".join(left.said)
    if outcome != expected.text:
        yield f"{outcome}, where {expected.text} was expected"
    tells_once = cell.mode is Mode.HARD and expected.how == "done"
    for words in filter(None, (expected.first, *expected.says)):
        times = len(re.findall(words, said))
        if not times:
            yield f"it did not say: {words}"
        elif tells_once and times > _TIMES_MAX * cell.paths:
            yield f"it said {times} times: {words}"
    if len(left.said) > _LINES_MAX:
        yield f"it said {len(left.said)} lines"
    if not left.came:
        yield "the fault did not come"
    if expected.moves and not any(line.reissues for line in left.result.stats):
        yield "no call was reissued on another path"
    lost = lost_bytes(left.result)
    if expected.loses not in (None, lost > 0):
        yield f"{lost} bytes were reported as lost"
    yield from discrepancies(cell, left)


# --- the account: of the bytes of a file, and of the entries of metadata operations ---
# Either holds what fio counts against the engine's own count, and against the server's files.


def discrepancies(cell: Cell, left: Left) -> Iterator[str]:
    """Say what does not add up."""
    report = left.result.report
    if report is None:
        yield "fio left no report"
    elif cell.work.on_entries:
        yield from _of_entries(cell, left, report)
    elif left.result.status == 0:
        yield from _of_whole_file(cell, left, report)
    elif cell.work is not Work.READ:
        yield from _of_written(cell, left, report)


# Bytes: each is read right, or written and kept, or told as lost.


def _of_written(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    content, file = cell.content, left.files.get(FILE, b"")
    blocks = [slice(at, at + cell.block) for at in range(0, len(content), cell.block)]
    kept = sum(cell.block for block in blocks if file[block] == content[block])
    written, lost = report.bytes("write"), lost_bytes(left.result)
    if kept + lost < written:
        yield f"of {written} bytes written {kept} were kept, {lost} reported as lost"


def _of_whole_file(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    """Hold a job that came through against the file, and fio's count against the engine's."""
    stats, content = left.result.stats, cell.content
    if left.files.get(FILE) != content:
        yield "the server's file does not hold what was written"
    sides: dict[Direction, int] = {"read": sum(line.read_bytes for line in stats)}
    if cell.work is not Work.READ:
        sides["write"] = sum(line.write_bytes - line.rewritten_bytes for line in stats)
    for side, moved in sides.items():
        counted = report.bytes(side)
        if counted != len(content) or moved != counted:
            yield f"{side}: {len(content)} bytes wanted, fio counts {counted}, the engine {moved}"


# Entries: what is done stays done, and nothing else is there.


def _of_entries(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    """Hold the operations that are done against the server's files.

    An operation that failed, or was not answered, may have been carried out or not: as many as are
    under way at once.
    """
    there = left.files.keys()
    done = {ENTRIES[int(number)] for number in _OPERATION.findall(left.result.stderr)}
    counted = report.bytes(cell.options["rw"])
    if left.result.status == 0:
        yield from _of_counts(left, counted, len(done))
    elif counted > len(done):
        yield f"fio counts {counted} operations, the trace has {len(done)} that are done"
    wanted, removes = set(ENTRIES), cell.work in (Work.REMOVE, Work.TRIM)
    changed = wanted - there if removes else there & wanted
    if cell.work is not Work.STAT and len(changed - done) > cell.options["iodepth"]:
        yield f"{len(changed - done)} entries were changed by operations that are not done"
    if removes:
        yield from _some(there & done, "entries removed and still there")
    else:
        needed = wanted if cell.work is Work.STAT else done
        yield from _some(needed - there, "entries not there")
    yield from _some(there - wanted, "files that are no entries of the job")


def _of_counts(left: Left, counted: int, done: int) -> Iterator[str]:
    """Hold all counts of a job that came through against the number of its entries."""
    wanted, lines, stats = len(ENTRIES), left.result.operations, left.result.stats
    engine, calls = sum(line.ops for line in lines), sum(line.meta_ops for line in stats)
    errors = sum(line.errors for line in lines)
    if {counted, done, engine, calls} != {wanted} or errors:
        yield (
            f"{wanted} operations wanted, fio counts {counted}, the trace {done}, the engine"
            f" {engine} and {errors} errors, its connections {calls}"
        )


def _some(names: set[str], what: str) -> Iterator[str]:
    if names:
        yield f"{what}: {len(names)}, such as {min(names)}"
