# SPDX-License-Identifier: GPL-2.0-only
"""A cell of the fault matrix: a fault, a kind of work and a mode; its fio job and its judge."""

from __future__ import annotations

import errno
import io
import re
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

import judge
from engine_helpers import complaints as engine_lines

from jobs import Fio
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine, FioReport, FioResult, Options

FILE = "f"
_BLOCK, _BLOCKS = 16 << 10, 64
_WRITTEN = b"".join(judge.block_at(number * _BLOCK, _BLOCK) for number in range(_BLOCKS))
_BYTES: Options = {
    "filename": FILE, "bs": _BLOCK, "size": len(_WRITTEN), "iodepth": 8,
    "verify": "pattern", "verify_pattern": "%o", "verify_state_save": 0,
}  # fmt: skip
# As many entries as other jobs have blocks, by number: names below the export.
_PER_DIRECTORY = 16
ENTRIES = [f"{FILE}/d{number // _PER_DIRECTORY:x}/e{number:x}" for number in range(_BLOCKS)]
_ENTRIES: Options = {
    "filename": FILE, "bs": 1, "size": len(ENTRIES), "iodepth": 8,
    "metadata": 1, "dir_entries": _PER_DIRECTORY,
}  # fmt: skip
# "write" is UNSTABLE WRITEs and a COMMIT, "write sync" FILE_SYNC ones; all are read back.
_WORKS: Mapping[str, Options] = {
    "read": {**_BYTES, "rw": "read"},
    "write": {**_BYTES, "rw": "write", "end_fsync": 1},
    "write sync": {**_BYTES, "rw": "write", "stable": "file_sync"},
    "write hold": {**_BYTES, "rw": "write", "end_fsync": 1, "hold_writes": "1m"},
    "create": {**_ENTRIES, "rw": "write", "meta_write": "create"},
    "remove": {**_ENTRIES, "rw": "write", "meta_write": "remove"},
}


@dataclass(frozen=True)
class Fault(ABC):
    """What goes wrong, and the job that meets it.

    It befalls the last but one of the job's addresses, or the only one. There are as many as
    `paths` says; by default two with failover, and else one. `pace` are options of fio that let
    the fault come in time.
    """

    pace: ClassVar[Options]
    name: str
    _: KW_ONLY
    paths: int | None = None

    @abstractmethod
    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell of this fault; what fio leaves lies in `folder`. Raises HarnessError."""


@dataclass(frozen=True)
class Expected:
    """What must come of a cell.

    done    fio ends with 0, and every byte and entry is right
    failed  fio ends with `error` (an errno) in its report and a status that is not 0
    held    the job waits for as long as one likes, and SIGINT ends it

    `first` is a pattern for what the engine says while the fault lasts ("": nothing that is sure),
    `says` are those for its other lines; `resends`: the path's calls went out again; `moves`: other
    paths took them over; `loses`: the engine tells of bytes that may be lost (None: it may, or may
    not, which is a matter of time). `short` says how far that is from what was promised.
    """

    how: Literal["done", "failed", "held"]
    error: int = 0
    first: str = ""
    says: tuple[str, ...] = ()
    resends: bool = False
    moves: bool = False
    loses: bool | None = False
    short: str = ""

    @property
    def text(self) -> str:
        return errno.errorcode[self.error] if self.error else self.how


@dataclass(frozen=True)
class Cell:
    """One cell."""

    fault: Fault
    work: str
    mode: str
    expected: Expected

    @property
    def paths(self) -> int:
        return self.fault.paths or (2 if self.mode == "failover" else 1)

    @property
    def victim(self) -> int:
        return min(1, self.paths - 1)

    @property
    def options(self) -> Options:
        """The options of its fio: failover notices silence soon, and soft where it shall."""
        soft = 5 if self.expected.error == errno.ETIMEDOUT else 75  # tenths of a second, twice
        return {
            **_WORKS[self.work],
            self.mode: 1,
            "retrans": 1 if self.mode == "soft" else None,
            "timeo": {"hard": 10, "soft": soft, "failover": 5}[self.mode],
            "spread": "stripe" if self.paths > 1 else None,
            "trace": 1,
            **self.fault.pace,
        }

    @property
    def files(self) -> dict[str, bytes]:
        """What must be there before the job: files by name below the export."""
        before = {"read": {FILE: _WRITTEN}, "remove": dict.fromkeys(ENTRIES, b"")}
        return before.get(self.work, {})


# --- its fio job, from its start to what it left ---


_CELL_SECONDS = 180.0  # what takes longer hangs
_END_SECONDS = 60.0  # what has not ended so long after SIGINT hangs
_HOLD_SECONDS = 1.0  # that a job is seen to go on waiting
_POLL = 0.005
_CALLS_BEFORE = 10  # that a server has answered when the fault comes


@dataclass
class Left:
    """What a cell's fio left, whether SIGINT ended it, and the server's files by name."""

    result: FioResult
    signalled: bool = False
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def said(self) -> list[str]:
        """The engine's own lines, without its summary and its trace."""
        return [line for line in engine_lines(self.result.messages) if " trace: " not in line]


class RunningJob:
    """A cell's fio, under way. A context manager; nothing of it outlives that."""

    def __init__(self, cell: Cell, fio: Fio, pool: str, folder: Path):
        self._expected = cell.expected
        self._until = time.monotonic() + _CELL_SECONDS
        self.process = fio.start(folder, pool=pool, options=cell.options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.end()

    def until_under_way(self) -> None:
        """Wait until some of its calls have been answered: the fault comes now."""
        self._until_said(" trace: connection ", _CALLS_BEFORE)

    def meets(self, seconds: float) -> None:
        """Let the fault last so long, and until the job has met it, which may stand still."""
        self.process.wait(seconds)
        self._until_said(self._expected.first)

    def finish(self) -> Left:
        """Wait for the end; send SIGINT where it is held, once it has said so and waits on."""
        signalled = False
        if self._expected.how == "held":
            self._until_said(self._expected.first)
            self.process.wait(_HOLD_SECONDS)
            if signalled := self.process.running:
                self.process.signal(signal.SIGINT)
        left = self._until - time.monotonic()
        return Left(self.process.result(max(left, _END_SECONDS)), signalled)

    def _until_said(self, pattern: str, times: int = 1) -> None:
        said = self.process.folder / "stderr"
        while self.process.running:
            if len(re.findall(pattern, said.read_text(errors="replace"))) >= times:
                return
            if time.monotonic() > self._until:
                raise HarnessError(f"the job has not said within {_CELL_SECONDS} s: {pattern}")
            self.process.wait(_POLL)


# --- its judgement ---


_CRASH = re.compile(r"got signal=|AddressSanitizer|runtime error:|LeakSanitizer")
_LINES_MAX = 40  # of the engine: a fault is told, and not over and over
# `hard` tells once that a path stops, and once that it goes on. On a busy machine its server may
# stall by itself, too.
_TIMES_MAX = 3


def complaints(cell: Cell, left: Left) -> list[str]:
    """Say what is not as expected of a cell, and what does not add up."""
    return [*_unlike(cell, left), *_discrepancies(cell, left)]


def outcome(left: Left) -> str:
    return _ending(left) + ", lost" * bool(judge.lost_bytes(left.result.messages))


def _ending(left: Left) -> str:
    result = left.result
    if result.status is None:
        return "hung"
    if result.status < 0 or _CRASH.search(result.messages):
        return "crashed"
    if result.status == 0:
        return "done"
    if left.signalled:
        return "held"
    return errno.errorcode.get(result.report.error if result.report else 0, "no reason")


def _unlike(cell: Cell, left: Left) -> Iterator[str]:
    expected, stats, ending = cell.expected, left.result.stats, _ending(left)
    if ending != expected.text:
        yield f"{ending}, where {expected.text} was expected"
    tells_once = cell.mode == "hard" and expected.how == "done"
    for words in filter(None, (expected.first, *expected.says)):
        times = len(re.findall(words, "\n".join(left.said)))
        if not times:
            yield f"it did not say: {words}"
        elif tells_once and times > _TIMES_MAX * cell.paths:
            yield f"it said {times} times: {words}"
    if len(left.said) > _LINES_MAX:
        yield f"it said {len(left.said)} lines"
    own = [line for line in stats if line.connection == cell.victim]
    others = [line for line in stats if line.connection != cell.victim]
    if expected.resends and not any(line.retransmissions for line in own):
        yield "no call was sent again"
    if expected.moves and not any(line.reissues for line in others):
        yield "no call was reissued on another path"
    if any(line.reconnects for line in others):
        yield "another path than the fault's was connected to anew"
    lost = judge.lost_bytes(left.result.messages)
    if expected.loses not in (None, lost > 0):
        yield f"{lost} bytes were reported as lost"


def _discrepancies(cell: Cell, left: Left) -> Iterator[str]:
    """Hold what fio counts against the engine's own count, and against the server's files."""
    report = left.result.report
    if report is None:
        yield "fio left no report"
    elif "metadata" in cell.options:
        yield from _of_entries(cell, left, report)
    else:
        yield from _of_bytes(cell, left, report)


def _of_bytes(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    result, size, writes = left.result, len(_WRITTEN), cell.work != "read"
    wrong = [*judge.wrong_blocks(io.BytesIO(left.files.get(FILE, b"")), _BLOCK, size)]
    if result.status != 0:
        if writes:
            kept, lost = size - len(wrong) * _BLOCK, judge.lost_bytes(result.messages)
            yield from judge.unaccounted(report.bytes("write"), kept, lost)
        return
    if wrong:
        yield "the server's file does not hold what was written"
    read = sum(line.read_bytes for line in result.stats)
    yield from judge.miscounted("read", size, report.bytes("read"), read)
    if writes:
        written = sum(line.write_bytes - line.rewritten_bytes for line in result.stats)
        yield from judge.miscounted("write", size, report.bytes("write"), written)


def _of_entries(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    result, removed, done = left.result, cell.work == "remove", report.bytes("write")
    if result.status == 0:
        yield from judge.miscounted_entries(
            len(ENTRIES),
            sum(line.errors for line in result.operations),
            fio=done,
            engine=sum(line.ops for line in result.operations),
            connections=sum(line.meta_ops for line in result.stats),
        )
    # Of those that are under way fio may count none, whether they are done or not.
    doubtful = 0 if result.status == 0 else 2 * cell.options["iodepth"]
    there = set(left.files)
    yield from judge.misplaced(set(ENTRIES), there, removed=removed, done=done, doubtful=doubtful)


# --- the files of an export, behind its server's back ---


def put_files(export: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (export / name).parent.mkdir(parents=True, exist_ok=True)
        (export / name).write_bytes(content)


def files_of(export: Path) -> dict[str, bytes]:
    paths = [export / FILE, *(export / FILE).rglob("*")]
    return {str(path.relative_to(export)): path.read_bytes() for path in paths if path.is_file()}
