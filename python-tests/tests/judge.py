# SPDX-License-Identifier: GPL-2.0-only
"""What jobs must leave, however servers fail: the judge of soak and of the fault matrix.

It is given works, files, counts and the engine's words, knows nothing of how they came about, and
yields what is wrong: bytes are read right, or written and kept, or told as lost; entries that are
done stay done, and nothing else is there.
"""

import errno
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from engine_helpers import complaints as engine_lines
from scripted_jobs import numbered

from nfsmulti.fiorun import Direction, FioReport, FioResult, Options

_LOST = re.compile(r"^nfsmulti: .*: (\d+) bytes of \".*\" may be lost: ", re.MULTILINE)
_CRASH = re.compile(r"got signal=|AddressSanitizer|runtime error:|LeakSanitizer")
_LINES_MAX = 40  # of the engine: a fault is told, and not over and over


# --- what a job of the fault matrix does ---


FILE = "f"
_BLOCK, _COUNT, _DEPTH = 16 << 10, 64, 8
_BYTES: Options = {
    "filename": FILE, "bs": _BLOCK, "size": _COUNT * _BLOCK, "iodepth": _DEPTH,
    "verify": "pattern", "verify_pattern": "%o", "verify_state_save": 0,
}  # fmt: skip
_PER_DIRECTORY = 16
_ENTRIES: Options = {
    "filename": FILE, "bs": 1, "size": _COUNT, "iodepth": _DEPTH,
    "metadata": 1, "dir_entries": _PER_DIRECTORY,
}  # fmt: skip

Files = Mapping[str, bytes]  # by their names below the export
WRITTEN: Files = {FILE: numbered(_COUNT * _BLOCK, _BLOCK)}
ENTRIES: Files = {
    f"{FILE}/d{number // _PER_DIRECTORY:x}/e{number:x}": b"" for number in range(_COUNT)
}


@dataclass(frozen=True)
class Work:
    """fio's options, and what the server has before the job and after it."""

    options: Options
    before: Files
    after: Files

    @property
    def side(self) -> Direction:
        return "read" if self.options["rw"] == "read" else "write"

    @property
    def sides(self) -> tuple[Direction, ...]:
        """Return what counts: bytes that are written are read back."""
        reads_back = self.side == "write" and "verify" in self.options
        return ("write", "read") if reads_back else (self.side,)

    def kept(self, files: Files) -> int:
        """Return how much of its work the server has: bytes, or entries made or removed."""
        if self.options["bs"] == 1:
            return sum((name in files) == (name in self.after) for name in ENTRIES)
        kept, whole = files.get(FILE, b""), self.after[FILE]
        places = range(0, len(whole), _BLOCK)
        return _BLOCK * sum(kept[at : at + _BLOCK] == whole[at : at + _BLOCK] for at in places)


# "write" is UNSTABLE WRITEs and a COMMIT, "write sync" FILE_SYNC ones; all are read back.
WORKS: Mapping[str, Work] = {
    "read": Work({**_BYTES, "rw": "read"}, WRITTEN, WRITTEN),
    "write": Work({**_BYTES, "rw": "write", "end_fsync": 1}, {}, WRITTEN),
    "write sync": Work({**_BYTES, "rw": "write", "stable": "file_sync"}, {}, WRITTEN),
    "write hold": Work({**_BYTES, "rw": "write", "end_fsync": 1, "hold_writes": "1m"}, {}, WRITTEN),
    "create": Work({**_ENTRIES, "rw": "write", "meta_write": "create"}, {}, ENTRIES),
    "remove": Work({**_ENTRIES, "rw": "write", "meta_write": "remove"}, ENTRIES, {}),
}


# --- what came of it ---


@dataclass
class Left:
    """What a job's fio left, whether SIGINT ended it, and the server's files."""

    result: FioResult
    signalled: bool = False
    files: Files = field(default_factory=dict)

    @property
    def said(self) -> list[str]:
        """The engine's own lines, without its summary and its trace."""
        return [line for line in engine_lines(self.result.messages) if " trace: " not in line]


@dataclass(frozen=True)
class Expected:
    """What must come of a job: how it ends, as outcome() has it, by one of these words.

    A job that is held waits for as long as one likes, and SIGINT ends it. `first` is a pattern for
    what the engine says while the fault lasts ("": nothing that is sure), `says` are those for its
    other lines; `resends`: the path's calls went out again; `moves`: other paths took them over.
    `short` says how far that is from what was promised.
    """

    outcomes: tuple[str, ...] = ("done",)
    first: str = ""
    says: tuple[str, ...] = ()
    resends: bool = False
    moves: bool = False
    short: str = ""


def lost_bytes(messages: str) -> int:
    """Return the bytes that may be lost, as the engine says."""
    return sum(map(int, _LOST.findall(messages)))


def outcome(left: Left) -> str:
    """Return how it ended: done, held, with an errno in fio's report; and whether data was lost."""
    result = left.result
    if result.status is None:
        ended = "hung"
    elif result.status < 0 or _CRASH.search(result.messages):
        ended = "crashed"
    elif result.status == 0:
        ended = "done"
    elif left.signalled:
        ended = "held"
    else:
        ended = errno.errorcode.get(result.report.error if result.report else 0, "no reason")
    return ended + ", lost" * bool(lost_bytes(result.messages))


def complaints(work: Work, left: Left, expected: Expected, victim: int) -> Iterator[str]:
    """Say what is not as expected of a job whose path `victim` failed, and what does not add up."""
    ended, lines = outcome(left), "\n".join(left.said)
    if ended not in expected.outcomes:
        yield f"{ended}, where {' or '.join(expected.outcomes)} was expected"
    for words in (expected.first, *expected.says):
        if not re.search(words, lines):
            yield f"it did not say: {words}"
    if len(left.said) > _LINES_MAX:
        yield f"it said {len(left.said)} lines"
    own = [line for line in left.result.stats if line.connection == victim]
    others = [line for line in left.result.stats if line.connection != victim]
    if expected.resends and not any(line.retransmissions for line in own):
        yield "no call was sent again"
    if expected.moves and not any(line.reissues for line in others):
        yield "no call was reissued on another path"
    if any(line.reconnects for line in others):
        yield "another path than the fault's was connected to anew"
    if left.result.report:
        yield from _discrepancies(work, left, left.result.report)
    else:
        yield "fio left no report"


def _discrepancies(work: Work, left: Left, report: FioReport) -> Iterator[str]:
    """Hold what fio counts against the engine's own count, and against the server's files."""
    result, files, done = left.result, left.files, report.bytes(work.side)
    if result.status == 0:
        for side in work.sides:
            yield from miscounted(result, side, work.options["size"])
        names = sorted(files.keys() | work.after.keys())
        if wrong := [name for name in names if files.get(name) != work.after.get(name)]:
            yield f"files are not as the job must leave them: {len(wrong)}, such as {wrong[0]}"
        return
    if strange := sorted(files.keys() - work.before.keys() - work.after.keys()):
        yield f"files that are not the job's: {len(strange)}, such as {strange[0]}"
    # What is under way fio may count or not, whether it is done or not.
    kept, lost, doubtful = work.kept(files), lost_bytes(result.messages), 2 * _DEPTH
    most = done + doubtful * work.options["bs"]
    if work.side == "write" and not done - lost <= kept <= most:
        yield f"of {done} written {kept} were kept, {lost} reported as lost"


def miscounted(result: FioResult, side: Direction, wanted: int) -> Iterator[str]:
    """Hold what a job that came through was to do against what fio and the engine count.

    Of metadata the engine counts operations by themselves, too, and those that failed.
    """
    counts = {"fio": result.report.bytes(side) if result.report else 0}
    if result.operations:
        counts["the engine"] = sum(line.ops for line in result.operations)
        counts["connections"] = sum(line.meta_ops for line in result.stats)
    else:
        moved = {"read": "read_bytes", "write": "write_bytes"}[side]
        again = sum(line.rewritten_bytes for line in result.stats)
        counts["the engine"] = sum(getattr(line, moved) for line in result.stats)
        counts["the engine"] -= again * (side == "write")
    errors = sum(line.errors for line in result.operations)
    if errors or set(counts.values()) != {wanted}:
        found = ", ".join(f"{who} {count}" for who, count in counts.items())
        yield f"{side}: {wanted} wanted, counted are {found}, and {errors} errors"
