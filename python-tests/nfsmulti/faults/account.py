# SPDX-License-Identifier: GPL-2.0-only
"""The account of a cell: the files that its job finds, and what must have become of them.

It holds what fio counts against the engine's own count, and against the server's files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from nfsmulti.faults.cell import FILE, Cell, Left, block_of, content_of
from nfsmulti.fiorun import FioReport

_LOST = re.compile(r": (\d+) bytes of .* may be lost: ")


def files_before(cell: Cell) -> dict[str, bytes]:
    """Give what must be there before the job: files by name below the export."""
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


def lost_bytes(left: Left) -> int:
    """Give the bytes that the engine said may be lost."""
    return sum(int(match[1]) for line in left.said if (match := _LOST.search(line)))


def discrepancies(cell: Cell, left: Left) -> Iterator[str]:
    """Say what does not add up."""
    report = left.result.report
    if report is None:
        yield "fio left no report"
    elif left.result.status == 0:
        yield from _of_whole_file(cell, left, report)
    elif cell.work.writes:
        yield from _of_written(cell, left, report)


# --- bytes: each is read right, or written and kept, or told as lost ---


def _of_written(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    kept = _kept(left.files.get(FILE, b""), content_of(cell), block_of(cell))
    written, lost = report.bytes("write"), lost_bytes(left)
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
