# SPDX-License-Identifier: GPL-2.0-only
"""What bytes and entries must come to, however servers fail: the judge of soak and the fault tests.

It is given files, counts and the engine's words, knows nothing of how they came about, and yields
what is wrong.
"""

import re
import struct
from collections.abc import Iterator
from typing import BinaryIO

_LOST = re.compile(r"^nfsmulti: .*: (\d+) bytes of \".*\" may be lost: ", re.MULTILINE)


# --- bytes: each is read right, or written and kept, or told as lost ---


def lost_bytes(messages: str) -> int:
    """Return the bytes that may be lost, as the engine says."""
    return sum(map(int, _LOST.findall(messages)))


def block_at(at: int, block: int, prefix: bytes = b"") -> bytes:
    """Return what fio's verify_pattern=PREFIX%o stands for: a block filled with its offset."""
    pattern = prefix + struct.pack("<Q", at)
    return (pattern * (block // len(pattern) + 1))[:block]


def wrong_blocks(file: BinaryIO, block: int, size: int, prefix: bytes = b"") -> Iterator[int]:
    """Yield the offset of each block that does not hold that."""
    for at in range(0, size, block):
        if file.read(block) != block_at(at, block, prefix):
            yield at


def miscounted(side: str, wanted: int, fio: int, engine: int) -> Iterator[str]:
    """Hold what a job that came through was to move against what fio and the engine count."""
    if not wanted == fio == engine:
        yield f"{side}: {wanted} bytes wanted, fio counts {fio}, the engine {engine}"


def unaccounted(written: int, kept: int, lost: int) -> Iterator[str]:
    """Hold what was written against what the server keeps, and what was told as lost."""
    if kept + lost < written:
        yield f"of {written} bytes written {kept} were kept, {lost} reported as lost"


# --- entries: what is done stays done, and nothing else is there ---


def misplaced(
    wanted: set[str], there: set[str], *, removed: bool, done: int, doubtful: int = 0
) -> Iterator[str]:
    """Hold the entries that the server has against the number of operations that are done.

    One that failed, or was not answered, is doubtful: it may have been carried out.
    """
    changed = len(wanted - there if removed else wanted & there)
    if not done <= changed <= done + doubtful:
        how = "removed" if removed else "made"
        yield f"{changed} entries were {how}, where {done} operations are done"
    if others := there - wanted:
        yield f"files that are no entries of the job: {len(others)}, such as {min(others)}"


def miscounted_entries(wanted: int, errors: int, **counts: int) -> Iterator[str]:
    """Hold the number of entries against what each counts as done, and the errors."""
    if errors or set(counts.values()) != {wanted}:
        found = ", ".join(f"{who} {count}" for who, count in counts.items())
        yield f"{wanted} operations wanted, counted are {found}, and {errors} errors"
