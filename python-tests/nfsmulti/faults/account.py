# SPDX-License-Identifier: GPL-2.0-only
"""The account of a cell: the files that its job finds, and what must have become of them.

There are two: of the bytes of one file, and of the entries that metadata operations make, look at
and remove. Either holds what fio counts against the engine's own count, and against the server's
files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nfsmulti.faults.cell import ENTRIES, FILE, Cell, Left, Work, block_of, content_of, depth_of
from nfsmulti.fiorun import FioReport

_LOST = re.compile(r": (\d+) bytes of \".*\" may be lost: ")
# An entry's operation, by the entry's number, where no error follows.
_OPERATION = re.compile(r" trace: connection .* \d+@(\d+) = \d+$", re.MULTILINE)


def files_before(cell: Cell) -> dict[str, bytes]:
    """Give what must be there before the job: files by name below the export."""
    if cell.work.on_entries:
        return {} if cell.work is Work.CREATE else dict.fromkeys(ENTRIES, b"")
    return {} if cell.work.writes else {FILE: content_of(cell)}


def put_files(export: Path, files: Mapping[str, bytes]) -> None:
    """Put files into an export, behind its server's back."""
    for name, content in files.items():
        (export / name).parent.mkdir(parents=True, exist_ok=True)
        (export / name).write_bytes(content)


def files_of(export: Path) -> dict[str, bytes]:
    """Give the files of the job in an export, by name."""
    paths = [export / FILE, *(export / FILE).rglob("*")]
    return {str(path.relative_to(export)): path.read_bytes() for path in paths if path.is_file()}


def lost_bytes(lines: Iterable[str]) -> int:
    """Give the bytes that may be lost, as the engine says in its lines."""
    return sum(int(match[1]) for line in lines if (match := _LOST.search(line)))


def discrepancies(cell: Cell, left: Left) -> Iterator[str]:
    """Say what does not add up."""
    report = left.result.report
    if report is None:
        yield "fio left no report"
    elif cell.work.on_entries:
        yield from _of_entries(cell, left, report)
    elif left.result.status == 0:
        yield from _of_whole_file(cell, left, report)
    elif cell.work.writes:
        yield from _of_written(cell, left, report)


# --- bytes: each is read right, or written and kept, or told as lost ---


def _of_written(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    kept = _kept(left.files.get(FILE, b""), content_of(cell), block_of(cell))
    written, lost = report.bytes("write"), lost_bytes(left.said)
    if kept + lost < written:
        yield f"of {written} bytes written {kept} were kept, {lost} reported as lost"


def _of_whole_file(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    """Hold a job that came through against the file, and fio's count against the engine's."""
    stats, content = left.result.stats, content_of(cell)
    if left.files.get(FILE) != content:
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


# --- entries: what is done stays done, and nothing else is there ---


def _of_entries(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    """Hold the operations that are done against the server's files.

    An operation that failed, or was not answered, may have been carried out or not: as many as are
    under way at once.
    """
    there = left.files.keys()
    done = {ENTRIES[int(number)] for number in _OPERATION.findall(left.result.stderr)}
    counted = report.bytes("write" if cell.work.writes else "read") // block_of(cell)
    if left.result.status == 0:
        yield from _of_counts(left, counted, len(done))
    elif counted > len(done):
        yield f"fio counts {counted} operations, the trace has {len(done)} that are done"
    wanted = set(ENTRIES)
    changed = wanted - there if cell.work is Work.REMOVE else there & wanted
    if cell.work is not Work.STAT and len(changed - done) > depth_of(cell):
        yield f"{len(changed - done)} entries were changed by operations that are not done"
    if cell.work is Work.REMOVE:
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
