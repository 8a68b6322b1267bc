# SPDX-License-Identifier: GPL-2.0-only
"""A cell of the fault matrix: a fault, a kind of work and a mode; its fio job and its judge.

Faults are those of nfs-ganesha in a lab, and of the kernel's server in the guest, over RDMA.
"""

from __future__ import annotations

import errno
import io
import re
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import ClassVar

import judge
import kernel_nfsd
from engine_helpers import complaints as engine_lines
from engine_helpers import eventually, stderr_of, traces
from lab_faults import FaultKind, Faults

from jobs import Fio
from nfsmulti.fiorun import Engine, FioProcess, FioReport, FioResult, Options
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.lab.guest import ADDRESS6, ADDRESSES, EXPORT
from nfsmulti.pool import RDMA_PORT, ask_rdma
from nfsmulti.processes import run

FILE = "f"
_BLOCK, _BLOCKS = 16 << 10, 64
WRITTEN = b"".join(judge.block_at(number * _BLOCK, _BLOCK) for number in range(_BLOCKS))
_BYTES: Options = {
    "filename": FILE, "bs": _BLOCK, "size": len(WRITTEN), "iodepth": 8,
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

    There are as many addresses as `paths` says; by default two with failover, and else one. `pace`
    are options of fio that let the fault come in time.
    """

    pace: ClassVar[Options]
    name: str
    _: KW_ONLY
    paths: int | None = None

    @abstractmethod
    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell of this fault; what fio leaves lies in `folder`."""


@dataclass(frozen=True)
class Expected:
    """What must come of a cell: how it ends, as outcome() has it, by one of these words.

    A job that is held waits for as long as one likes, and SIGINT ends it. `first` is a pattern for
    what the engine says while the fault lasts ("": nothing that is sure), `says` are those for its
    other lines; `resends`: the path's calls went out again; `moves`: other paths took them over.
    `short` says how far that is from what was promised.
    """

    outcomes: tuple[str, ...]
    first: str = ""
    says: tuple[str, ...] = ()
    resends: bool = False
    moves: bool = False
    short: str = ""


@dataclass(frozen=True)
class Cell:
    """One cell. The fault befalls the last but one of the job's addresses, or the only one."""

    fault: Fault
    work: str
    mode: str
    expected: Expected

    @property
    def paths(self) -> int:
        return self.fault.paths or (2 if self.mode == "failover" else 1)

    @property
    def options(self) -> Options:
        """The options of its fio: failover notices silence soon, and soft where it shall."""
        soft = (
            5 if self.expected.outcomes[0].startswith("ETIMEDOUT") else 75
        )  # tenths of a second, twice
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
        before = {"read": {FILE: WRITTEN}, "remove": dict.fromkeys(ENTRIES, b"")}
        return before.get(self.work, {})


# --- its fio job, from its start to what it left ---


_END_SECONDS = 180.0  # what takes longer hangs
_HOLD_SECONDS = 1.0  # that a job is seen to go on waiting
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


def _under_way(process: FioProcess) -> None:
    """Wait until some of its calls have been answered: the fault comes now."""
    _until(process, lambda: traces(process) >= _CALLS_BEFORE)


def _meets(cell: Cell, process: FioProcess, seconds: float) -> None:
    """Let the fault last so long, and until the job has met it, which may stand still."""
    process.wait(seconds)
    _until(process, lambda: re.search(cell.expected.first, stderr_of(process)))


def _finish(cell: Cell, process: FioProcess) -> Left:
    """Wait for the end; send SIGINT where it is held, once it has said so and waits on."""
    signalled = False
    if "held" in cell.expected.outcomes:
        _meets(cell, process, _HOLD_SECONDS)
        process.wait(_HOLD_SECONDS)
        if signalled := process.running:
            process.signal(signal.SIGINT)
    return Left(process.result(_END_SECONDS), signalled)


def _until(process: FioProcess, what: Callable[[], object]) -> None:
    eventually(lambda: not process.running or what(), _END_SECONDS)


def _put_files(export: Path, cell: Cell) -> None:
    for name, content in cell.files.items():
        (export / name).parent.mkdir(parents=True, exist_ok=True)
        (export / name).write_bytes(content)


def _files_of(export: Path) -> dict[str, bytes]:
    paths = [export / FILE, *(export / FILE).rglob("*")]
    return {str(path.relative_to(export)): path.read_bytes() for path in paths if path.is_file()}


# --- its judgement ---


_CRASH = re.compile(r"got signal=|AddressSanitizer|runtime error:|LeakSanitizer")
_LINES_MAX = 40  # of the engine: a fault is told, and not over and over


def outcome(left: Left) -> str:
    """Return how it ended: done, held, with an errno in fio's report; and whether data was lost."""
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


def complaints(cell: Cell, left: Left) -> list[str]:
    """Say what is not as expected of a cell, and what does not add up."""
    return [*_unlike(cell, left), *_discrepancies(cell, left)]


def _unlike(cell: Cell, left: Left) -> Iterator[str]:
    expected, ended, lines = cell.expected, outcome(left), "\n".join(left.said)
    if ended not in expected.outcomes:
        yield f"{ended}, where {' or '.join(expected.outcomes)} was expected"
    for words in (expected.first, *expected.says):
        if not re.search(words, lines):
            yield f"it did not say: {words}"
    if len(left.said) > _LINES_MAX:
        yield f"it said {len(left.said)} lines"
    victim = min(1, cell.paths - 1)
    own = [line for line in left.result.stats if line.connection == victim]
    others = [line for line in left.result.stats if line.connection != victim]
    if expected.resends and not any(line.retransmissions for line in own):
        yield "no call was sent again"
    if expected.moves and not any(line.reissues for line in others):
        yield "no call was reissued on another path"
    if any(line.reconnects for line in others):
        yield "another path than the fault's was connected to anew"


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
    result, size, writes = left.result, len(WRITTEN), cell.work != "read"
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


# --- faults of nfs-ganesha ---


_VICTIM = 1  # the path that it befalls, counted from 0; a lab has two at least


@dataclass(frozen=True)
class LabFault(Fault):
    """A path is broken for some seconds (None: for good), and again after as long, `times` times.

    `before` breaks it before the job starts; `version` is that of NFS. One server is behind all
    addresses, unless it is servers that fail: then each address has its own.
    """

    pace: ClassVar[Options] = {"rate_iops": 16}
    kind: FaultKind
    seconds: float | None = None
    _: KW_ONLY
    times: int = 1
    before: bool = False
    version: str | None = None

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell in a lab of its own, which takes half a second."""
        own = self.kind in (FaultKind.KILL, FaultKind.STOP)
        instances = Instances.PER_ADDRESS if own else Instances.ONE
        with Lab(LabConfig(addresses=max(2, cell.paths), instances=instances)) as lab:
            faults = Faults(lab)
            _put_files(lab.export_dir, cell)
            lab.server(_VICTIM).kill()
            _await_second_after(time.time())
            started = time.time()
            lab.server(_VICTIM).start()
            if self.before:
                faults.begin(self.kind, _VICTIM)
            numbers = range(cell.paths) if cell.paths > 1 else (_VICTIM,)
            pool = ",".join(lab.path(number, version=self.version) for number in numbers)
            fio = Fio(engine, enter=lab.command([]), env=lab.environment)
            with fio.start(folder, pool=pool, options=cell.options) as process:
                if not self.before:
                    _under_way(process)
                    self._break(cell, faults, process, started)
                left = _finish(cell, process)
            left.files = _files_of(lab.export_dir)
        return left

    def _break(self, cell: Cell, faults: Faults, process: FioProcess, started: float) -> None:
        for number in range(self.times):
            faults.begin(self.kind, _VICTIM)
            if self.seconds is None:
                return
            _meets(cell, process, self.seconds)
            if self.kind is FaultKind.KILL:
                _await_second_after(started)
            faults.end(_VICTIM)
            if number + 1 < self.times:
                process.wait(self.seconds)


def _await_second_after(moment: float) -> None:
    """Ganesha's write verifier is the second of its start, and shall be each start's own."""
    time.sleep(max(0.0, int(moment) + 1 - time.time()))


# --- faults of the kernel's server ---
# Client, server and device are on one machine there, and cells run one after the other. rdma_rxe
# hands packets between its own addresses over within itself, past any filter, so that none can be
# dropped. Where something is sent while an address is being removed, the device or the server may
# break and make no more connections, for anybody: the cell then tells nothing of the engine, and is
# run again.


_SECONDS = 60.0
_DEVICE = "dummy0"
DELETE_DEVICE = ["rdma", "link", "delete", "rxe0"]

# How a fault begins, and how it ends. Without its threads the server has no connections.
Acts = tuple[Callable[[], object], Callable[[], object]]


def _do(*words: str) -> None:
    run(words, timeout=_SECONDS).check()


def _set_address(how: str, address: str = ADDRESSES[1]) -> None:
    _do("ip", "address", how, f"{address}/24", "dev", _DEVICE)


SERVER_AWAY: Acts = (kernel_nfsd.stop, kernel_nfsd.start)
ADDRESS_AWAY: Acts = (lambda: _set_address("delete"), lambda: _set_address("replace"))


@dataclass(frozen=True)
class GuestFault(Fault):
    """What is done under way, for some seconds.

    `turns`: how often a cell is run, where it may break the device.
    """

    pace: ClassVar[Options] = {"rate_iops": 10, "proto": "rdma", "thread": 1}
    acts: Acts
    seconds: float
    _: KW_ONLY
    turns: int = 1

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell, in the guest; the server and its network are mended after it."""
        for turn in range(self.turns):
            try:
                left = self._run_once(cell, engine, folder / str(turn))
                if left.result.status is not None or _connects():
                    break
            finally:
                mend()
        return left

    def _run_once(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        export = Path(EXPORT)
        _put_files(export, cell)
        addresses = ADDRESSES if cell.paths > 1 else ADDRESSES[1:]
        pool = ",".join(f"nfs://{address}{EXPORT}" for address in addresses)
        begin, end = self.acts
        try:
            with Fio(engine).start(folder, pool=pool, options=cell.options) as process:
                _under_way(process)
                # It stands still meanwhile, so that the fault comes in its middle on a slow machine
                # too. That is fio's main process alone: jobs are its threads (thread=1).
                process.signal(signal.SIGSTOP)
                begin()
                process.signal(signal.SIGCONT)
                _meets(cell, process, self.seconds)
                end()
                left = _finish(cell, process)
            left.files = _files_of(export)
        finally:
            shutil.rmtree(export / FILE, ignore_errors=True)  # if it is a directory
            (export / FILE).unlink(missing_ok=True)  # if it is a file
        return left


def _connects() -> bool:
    """Whether the server takes a connection over RDMA at an address that nothing befell."""
    asked = ask_rdma(ADDRESSES[0], RDMA_PORT, seconds=_SECONDS)
    return asked is not None and not asked[1]


def mend() -> None:
    """See to it that addresses, device and server are as they were.

    The device is made anew: what is sent while an address is removed may break it for good.
    """
    for address in ADDRESSES:
        _set_address("replace", address)
    _do("ip", "address", "replace", f"{ADDRESS6}/64", "dev", _DEVICE, "nodad")
    run(DELETE_DEVICE, timeout=_SECONDS)
    _do("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", _DEVICE)
    kernel_nfsd.start()
    kernel_nfsd.end_grace()  # NFSv4's tests after it would wait a minute
