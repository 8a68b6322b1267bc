# SPDX-License-Identifier: GPL-2.0-only
"""A cell of the matrix: a fault, a kind of work and a mode; and its fio job, until it has ended."""

from __future__ import annotations

import errno
import re
import signal
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Literal, Self

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import SUMMARY, Engine, Fio, FioResult, Options
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

    `first` is a pattern for what the engine says while the fault lasts ("": nothing that is sure),
    `says` are those for its other lines; `moves`: calls were taken over by other paths; `loses`:
    the engine tells of bytes that may be lost (None: it may, or may not, which is a matter of
    time). `short` says how far that is from what was promised.
    """

    how: Literal["done", "failed", "held"]
    error: int = 0
    first: str = ""
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
    """What a cell's fio left, whether the fault came, and whether SIGINT was sent."""

    result: FioResult
    # The server's own files by name below the export, as far as they would outlive the server.
    files: dict[str, bytes] = field(default_factory=dict)
    came: bool = True
    signalled: bool = False

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
        self._begun = time.monotonic()
        self.process = fio.start(folder, pool=pool, options=cell.options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.end()

    def until_under_way(self) -> None:
        """Wait until some of its calls have been answered (trace=1): the fault comes now."""
        self._until_said(" trace: connection ", _CALLS_BEFORE)

    def meets(self, seconds: float) -> None:
        """Let the fault last so long, and until the job has met it, which may stand still."""
        self.process.wait(seconds)
        self._until_said(self._cell.expected.first)

    def finish(self) -> Left:
        """Wait for the end; send SIGINT where it is held, once it has said so and waits on."""
        signalled, expected = False, self._cell.expected
        if expected.how == "held":
            self._until_said(expected.first)
            self.process.wait(_HOLD_SECONDS)
            if signalled := self.process.running:
                self.process.signal(signal.SIGINT)
        left = self._begun + _CELL_SECONDS - time.monotonic()
        return Left(self.process.result(max(left, _END_SECONDS)), signalled=signalled)

    def _until_said(self, pattern: str, times: int = 1) -> None:
        said = self.process.folder / "stderr"
        while self.process.running:
            if len(re.findall(pattern, said.read_text(errors="replace"))) >= times:
                return
            if time.monotonic() > self._begun + _CELL_SECONDS:
                raise HarnessError(f"{self._cell.id}: the awaited event did not happen")
            self.process.wait(_POLL)


# --- the files of an export, behind its server's back ---


def put_files(export: Path, files: Mapping[str, bytes]) -> None:
    """Put files there, by name below the export."""
    for name, content in files.items():
        (export / name).parent.mkdir(parents=True, exist_ok=True)
        (export / name).write_bytes(content)


def files_of(export: Path) -> dict[str, bytes]:
    """Return the files of the job in an export, by name."""
    paths = [export / FILE, *(export / FILE).rglob("*")]
    return {str(path.relative_to(export)): path.read_bytes() for path in paths if path.is_file()}
