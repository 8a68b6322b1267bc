# SPDX-License-Identifier: GPL-2.0-only
"""A cell of the matrix: a fault, a kind of work and a mode, and what is expected of its fio job.

The job is run by the fault (faults.py). What it leaves is held against what is expected, and
accounted for: each byte, and each entry.
"""

from __future__ import annotations

import errno
import re
import shlex
import signal
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Literal, Self

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import SUMMARY, Direction, Engine, Fio, FioReport, FioResult, Options
from nfsmulti.units import parse_size


class Mode(StrEnum):
    """What the job has been promised (nfs(5); docs/promises.md)."""

    HARD = "hard"
    SOFT = "soft"
    FAILOVER = "failover"


class Work(StrEnum):
    """What the job does.

    "write" is made of UNSTABLE WRITEs and a COMMIT, "write sync" of FILE_SYNC WRITEs; "write hold"
    is "write" with hold_writes. All are read back. The last four are metadata operations, one on
    each entry: "stat" is LOOKUP and GETATTR, "trim" is "remove" by fio's rw=trim.
    """

    READ = "read"
    WRITE = "write"
    SYNC = "write sync"
    HOLD = "write hold"
    CREATE = "create"
    STAT = "stat"
    REMOVE = "remove"
    TRIM = "trim"

    @property
    def on_entries(self) -> bool:
        """Whether it is metadata operations, and moves no data."""
        return self in (Work.CREATE, Work.STAT, Work.REMOVE, Work.TRIM)


class Place(StrEnum):
    """Whose server it is."""

    SCRIPTED = "scripted server, TCP"
    LAB = "nfs-ganesha, TCP"
    GUEST = "knfsd, RDMA"


@dataclass(frozen=True)
class Fault(ABC):
    """What goes wrong, and the job that it meets: each place adds how it is brought about.

    It is always the last but one of the job's addresses, or the only one, that it befalls. There
    are as many as `paths` says; by default two with failover, and else one. `options` are fio's.
    """

    place: ClassVar[Place]
    name: str
    _: KW_ONLY
    paths: int | None = None
    options: Options = field(default_factory=dict)

    @abstractmethod
    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell of this fault; what fio leaves lies in `folder`. Raises HarnessError."""


@dataclass(frozen=True)
class Expected:
    """What must come of a cell.

    done    fio ends with 0, and every byte and entry is right
    failed  fio ends with `error` (an errno) in its report and a status that is not 0
    held    the job waits for as long as one likes, and SIGINT ends it

    `says` are patterns for the engine's lines; `moves`: calls were taken over by other paths;
    `loses`: the engine tells of bytes that may be lost (None: it may, or may not, which is a matter
    of time). `short` says how far that is from what was promised.
    """

    how: Literal["done", "failed", "held"]
    error: int = 0
    says: tuple[str, ...] = ()
    moves: bool = False
    loses: bool | None = False
    short: str = ""

    @property
    def text(self) -> str:
        """How it ends, in a word or two."""
        return f"{self.how} {errno.errorcode[self.error]}" if self.error else self.how


@dataclass(frozen=True)
class Cell:
    """One cell; `brief`: it belongs to the matrix's short form."""

    fault: Fault
    work: Work
    mode: Mode
    expected: Expected
    brief: bool = False

    @property
    def id(self) -> str:
        """Its name, as -k and --only know it."""
        transport = "rdma" if self.fault.place is Place.GUEST else "tcp"
        return f"{self.fault.name}, {self.work}, {self.mode}, {transport}"

    @property
    def paths(self) -> int:
        """How many addresses the job's pool has."""
        return self.fault.paths or (2 if self.mode is Mode.FAILOVER else 1)

    @property
    def victim(self) -> int:
        """The address that the fault befalls, counted from 0."""
        return min(1, self.paths - 1)

    @property
    def options(self) -> Options:
        """The options of its fio."""
        scripted = self.fault.place is Place.SCRIPTED
        gives_up = self.expected.error == errno.ETIMEDOUT
        # In tenths of a second; soft waits twice as long. Real servers fall silent for longer. The
        # scripted one never does in the other modes, but may be late on a busy machine: then the
        # sound path must not be given up.
        timeo = {
            Mode.HARD: 600 if scripted else 10,
            Mode.SOFT: 5 if gives_up else 75,
            Mode.FAILOVER: 40 if scripted else 5,
        }
        return {
            **(_ENTRIES_JOB if self.work.on_entries else _JOB),
            self.mode.value: 1,
            "retrans": 1 if self.mode is Mode.SOFT else None,
            "timeo": timeo[self.mode],
            "spread": "stripe" if self.paths > 1 else None,
            **_WORKS[self.work],
            **_PACES[self.fault.place],
            **self.fault.options,
        }

    @property
    def block(self) -> int:
        """The bytes of a block."""
        return parse_size(str(self.options["bs"]))

    @property
    def content(self) -> bytes:
        """What the file must hold: verify_pattern=%o, each block filled with its offset."""
        block, size = self.block, parse_size(str(self.options["size"]))
        return b"".join(struct.pack("<Q", at) * (block // 8) for at in range(0, size, block))

    @property
    def files(self) -> dict[str, bytes]:
        """What must be there before the job: files by name below the export."""
        if self.work.on_entries:
            return {} if self.work is Work.CREATE else dict.fromkeys(ENTRIES, b"")
        return {FILE: self.content} if self.work is Work.READ else {}


# --- its fio job, from its start to what it left ---


FILE = "f"
_CELL_SECONDS = 180.0  # what takes longer hangs
_END_SECONDS = 60.0  # what has not ended so long after SIGINT hangs
_HOLD_SECONDS = 1.0  # that a job is seen to go on waiting
_POLL = 0.005
_CALLS_BEFORE = 10  # that a real server has answered when the fault comes
# Slow enough for a real fault to come in time, even where the harness stalls for two seconds, and
# traced, so that one can tell when. The guest's emulated processor is slower still.
_PACES: dict[Place, Options] = {
    Place.SCRIPTED: {},
    Place.LAB: {"rate_iops": 20, "trace": 1},
    Place.GUEST: {"rate_iops": 10, "trace": 1, "proto": "rdma", "thread": 1},
}

_BYTES: Options = {"verify": "pattern", "verify_pattern": "%o", "verify_state_save": 0}
_JOB: Options = {"filename": FILE, "bs": "16k", "size": "1m", "iodepth": 8, **_BYTES}
# As many entries as the other jobs have blocks, by number: names below the export.
_PER_DIRECTORY = 16
ENTRIES = [f"{FILE}/d{number // _PER_DIRECTORY:x}/e{number:x}" for number in range(64)]
# The trace names the entries that are done.
_METADATA: Options = {"metadata": 1, "dir_entries": _PER_DIRECTORY, "trace": 1}
_ENTRIES_JOB: Options = {"filename": FILE, "bs": 1, "size": len(ENTRIES), "iodepth": 8, **_METADATA}
_WORKS: dict[Work, Options] = {
    Work.READ: {"rw": "read"},
    Work.WRITE: {"rw": "write", "end_fsync": 1},
    Work.SYNC: {"rw": "write", "stable": "file_sync"},
    Work.HOLD: {"rw": "write", "end_fsync": 1, "hold_writes": "1m"},
    Work.CREATE: {"rw": "write", "meta_write": "create"},
    Work.STAT: {"rw": "read", "meta_read": "getattr", "meta_verify": 1},
    Work.REMOVE: {"rw": "write", "meta_write": "remove"},
    Work.TRIM: {"rw": "trim"},
}


@dataclass
class Left:
    """What a cell's fio left, and when (time.monotonic()) the fault came and SIGINT was sent."""

    result: FioResult
    # The server's own files by name below the export, as far as they would outlive the server.
    files: dict[str, bytes] = field(default_factory=dict)
    fault: float | None = None
    signalled: float | None = None
    ended: float = 0.0

    @property
    def said(self) -> list[str]:
        """The engine's own lines, without its summary and its trace."""
        return [
            line
            for line in self.result.messages.splitlines()
            if line.startswith("nfsmulti: ") and " trace: " not in line and not SUMMARY.match(line)
        ]


class RunningJob:
    """A cell's fio, under way. A context manager; nothing of it outlives that."""

    def __init__(self, cell: Cell, fio: Fio, pool: str, folder: Path):
        self._cell = cell
        self._begun = self._fault = time.monotonic()
        self.process = fio.start(folder, pool=pool, options=cell.options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.end()

    def until_under_way(self) -> None:
        """Wait until some of its calls have been answered (trace=1): the fault comes now."""
        self._until_said(" trace: connection ", _CALLS_BEFORE)
        self._fault = time.monotonic()

    def finish(self) -> Left:
        """Wait for the end; send SIGINT where it is held, once it has said so and waits on."""
        signalled, expected = None, self._cell.expected
        if expected.how == "held":
            self._until_said(expected.says[0])
            self.process.wait(_HOLD_SECONDS)
            if self.process.running:
                signalled = time.monotonic()
                self.process.signal(signal.SIGINT)
        left = self._begun + _CELL_SECONDS - time.monotonic()
        result = self.process.result(max(left, _END_SECONDS))
        return Left(result, fault=self._fault, signalled=signalled, ended=time.monotonic())

    def _until_said(self, pattern: str, times: int = 1) -> None:
        said = self.process.folder / "stderr"
        while self.process.running:
            if len(re.findall(pattern, said.read_text(errors="replace"))) >= times:
                return
            if time.monotonic() > self._begun + _CELL_SECONDS:
                raise HarnessError(f"{self._cell.id}: the awaited event did not happen")
            self.process.wait(_POLL)


# --- what came of it ---


_CRASH = re.compile(r"got signal=|AddressSanitizer|runtime error:|LeakSanitizer")
_LOST = re.compile(r"^nfsmulti: .*: (\d+) bytes of \".*\" may be lost: ", re.MULTILINE)
# An entry's operation, by the entry's number, where no error follows.
_OPERATION = re.compile(r" trace: connection .* \d+@(\d+) = \d+$", re.MULTILINE)
_LINES_MAX = 40  # of the engine: a fault is told, and not over and over
# `hard` tells once that a path stops, and once that it goes on. On a busy machine its server may
# stall by itself, too.
_TIMES_MAX = 3


def lost_bytes(result: FioResult) -> int:
    """Give the bytes that may be lost, as the engine says."""
    return sum(map(int, _LOST.findall(result.messages)))


@dataclass(frozen=True)
class Outcome:
    """What came of a cell. `complaints` say what was not as expected.

    `recovery_s`: the longest that an I/O took, which is the time until what the fault held was
    answered. `end_s`: where the job did not come through, its end counted from the fault, or from
    SIGINT where it was held. `again` and `moved` are calls sent again and calls taken over by other
    paths. `lost_bytes` is what the engine said.
    """

    cell: str
    place: str
    fault: str
    work: str
    mode: str
    expected: str
    outcome: str
    complaints: list[str]
    short: str
    seconds: float
    recovery_s: float | None
    end_s: float | None
    again: int
    moved: int
    again_bytes: int
    lost_bytes: int
    written_bytes: int
    read_bytes: int
    said: list[str]
    command: str

    @property
    def met(self) -> bool:
        """Whether all was as expected."""
        return not self.complaints


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
        outcome=_how_ended(left),
        complaints=list(_complaints(cell, left, moved)),
        short=cell.expected.short,
        seconds=round(result.seconds, 2),
        recovery_s=round(_longest_io(report), 3) if came_through and report else None,
        end_s=None if came_through or since is None else round(left.ended - since, 3),
        again=again,
        moved=moved,
        again_bytes=(again + moved) * cell.block + rewritten,
        lost_bytes=lost_bytes(result),
        written_bytes=report.bytes("write") if report else 0,
        read_bytes=report.bytes("read") if report else 0,
        said=left.said,
        command=_fio_command(result.argv),
    )


def not_run(cell: Cell, why: str) -> Outcome:
    """Give the outcome of a cell that came to nothing, by no fault of the engine."""
    left = Left(FioResult([], None, 0.0, "", "", None, [], Path()))
    return replace(judge(cell, left), outcome="not run", complaints=[why])


def _longest_io(report: FioReport) -> float:
    """Give the longest that an I/O took, in seconds."""
    sides = [job[side] for job in report.jobs for side in ("read", "write", "trim")]
    return max((float(side["clat_ns"]["max"]) for side in sides), default=0.0) / 1e9


def _fio_command(argv: Sequence[str]) -> str:
    """Give fio's command as one would type it, without where it leaves its files."""
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
    if left.signalled is not None:
        return "held"
    error = report.error if report else 0
    return f"failed {errno.errorcode.get(error, 'without a reason')}"


def _complaints(cell: Cell, left: Left, moved: int) -> Iterator[str]:
    """Say what is not as expected."""
    expected, outcome, said = cell.expected, _how_ended(left), "\n".join(left.said)
    if outcome != expected.text:
        yield f"{outcome}, where {expected.text} was expected"
    tells_once = cell.mode is Mode.HARD and expected.how == "done"
    for words in expected.says:
        times = len(re.findall(words, said))
        if not times:
            yield f"it did not say: {words}"
        elif tells_once and times > _TIMES_MAX * cell.paths:
            yield f"it said {times} times: {words}"
    if len(left.said) > _LINES_MAX:
        yield f"it said {len(left.said)} lines"
    if left.fault is None:
        yield "the fault did not come"
    if expected.moves and not moved:
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
