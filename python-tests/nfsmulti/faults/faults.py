# SPDX-License-Identifier: GPL-2.0-only
"""The faults: of the scripted server, nfs-ganesha in a lab, the kernel's server in a guest.

The first are those that a real server does not commit on demand. The last are over RDMA.
"""

from __future__ import annotations

import random
import shutil
import struct
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from nfsmulti.calls import RDMA_PORT
from nfsmulti.errors import HarnessError
from nfsmulti.faults.cell import (
    ENTRIES,
    FILE,
    Cell,
    Fault,
    Left,
    Place,
    RunningJob,
    Work,
    files_of,
    put_files,
)
from nfsmulti.fiorun import Engine, Fio, Options
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.pool import ask_rdma
from nfsmulti.processes import Completed, find, run
from nfsmulti.scripted import (
    Answer,
    Call,
    Nfs,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status,
    Status4,
    Terms,
    mark,
)

_SECONDS = 60.0

# --- of the scripted server ---

_LOOPBACK = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
_DEPTH = 8  # of the job

# Gives the answer to call number n (from 1) of those that it is about; None: a sound one.
Answers = Callable[[int, Call], Answer | None]


def once(nth: int, answer: Answer) -> Answers:
    """Answer the nth call so."""
    return lambda number, _: answer if number == nth else None


def first(count: int, answer: Answer) -> Answers:
    """Answer the first few calls so."""
    return lambda number, _: answer if number <= count else None


def each(answer: Answer) -> Answers:
    """Answer all calls so."""
    return lambda _, __: answer


def from_then_on(nth: int, answer: Answer) -> Answers:
    """Answer the nth call and all later ones so."""
    return lambda number, _: answer if number >= nth else None


def unanswered_until(nth: int, answer: Answer) -> Answers:
    """Leave calls unanswered until the nth, which is answered so."""
    silent = Answer(reply=False)
    return lambda number, _: silent if number < nth else answer if number == nth else None


def by_procedure(read: Answers, write: Answers) -> Answers:
    """Answer READs and WRITEs each in their own way."""
    return lambda number, call: (read if call.procedure is Nfs.READ else write)(number, call)


def at(numbers: Collection[int], answer: Answer) -> Answers:
    """Answer the calls of these numbers so."""
    return lambda number, _: answer if number in numbers else None


def in_turn(*some: Answer) -> Answers:
    """Answer the first calls so, each in its own way."""
    return lambda number, _: some[number - 1] if number <= len(some) else None


def over_again() -> Answers:
    """Send before each reply another one, to a call that is finished."""
    finished: list[int] = []

    def answers(_: int, call: Call) -> Answer | None:
        finished.append(call.xid)
        old = finished[:-_DEPTH]
        reply = struct.pack(">6I", old[-1], 1, 0, 0, 0, 0) + bytes(8) if old else b""
        return Answer(before=mark(len(reply)) + reply) if old else None

    return answers


@dataclass(frozen=True, kw_only=True)
class ScriptedFault(Fault):
    """How calls to the victim are answered: those of the work's procedure, or of `procedures`.

    `answers` makes the answers of one run. With `hostile`, the victim answers NULL, by which it is
    asked for a sign of life, no better from the first faulty answer on. With `terms` the job speaks
    NFSv4.1, on these terms of the server.
    """

    answers: Callable[[], Answers]
    procedures: tuple[Procedure, ...] = ()
    terms: Terms | None = None
    hostile: bool = False
    place: Place = Place.SCRIPTED

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell."""
        hook = _Hook(cell, self)
        terms = replace(self.terms) if self.terms else None  # its answers may change them
        with ScriptedServer(hook, addresses=_LOOPBACK[: cell.paths], terms=terms) as server:
            for name, content in cell.files.items():
                server.create(name, content)
            pool = server.pool4() if self.terms else server.pool()
            with RunningJob(cell, Fio(engine), pool, folder) as job:
                hook.job = job
                left = job.finish(cell.expected)
            left.files = server.all_durable()
        return left


# What carries a block or an entry of each work, by version.
_CARRIES: dict[Work, tuple[Procedure, Procedure]] = {
    Work.READ: (Nfs.READ, Nfs4.READ),
    Work.WRITE: (Nfs.WRITE, Nfs4.WRITE),
    Work.SYNC: (Nfs.WRITE, Nfs4.WRITE),
    Work.HOLD: (Nfs.WRITE, Nfs4.WRITE),
    Work.CREATE: (Nfs.CREATE, Nfs4.OPEN),
    Work.STAT: (Nfs.GETATTR, Nfs4.GETATTR),
    Work.REMOVE: (Nfs.REMOVE, Nfs4.REMOVE),
    Work.TRIM: (Nfs.REMOVE, Nfs4.REMOVE),
}


class _Hook:
    """Asks a cell's answers, and notes when the first faulty one is given."""

    def __init__(self, cell: Cell, fault: ScriptedFault):
        self.job: RunningJob | None = None
        self._victim = _LOOPBACK[cell.victim]
        version3, version4 = _CARRIES[cell.work]
        self._procedures = fault.procedures or (version4 if fault.terms else version3,)
        # Directories are asked for their attributes, too.
        self._files = ENTRIES if cell.work is Work.STAT else ()
        self._hostile, self._answers = fault.hostile, fault.answers()
        self._count, self._begun = 0, False

    def __call__(self, call: Call) -> Answer | None:
        """Answer a call as the fault wants it."""
        if call.server[0] != self._victim:
            return None
        if call.procedure is Nfs.NULL and self._hostile and self._begun:
            return replace(self._answers(self._count, call) or Answer(), limit=None)
        if call.procedure not in self._procedures:
            return None
        if self._files and call.file not in self._files:
            return None
        self._count += 1
        answer = self._answers(self._count, call)
        if answer is not None and not self._begun and self.job is not None:
            self._begun = True
            self.job.now()
        return answer


def _reset_soon(server: ScriptedServer) -> None:
    server.later(0.1, server.reset_connections)


def stall(address_of: int, seconds: float) -> Callable[[ScriptedServer], None]:
    """Lose all connections, and take none at one address for a while: its queue is full."""

    def act(server: ScriptedServer) -> None:
        address = server.addresses[min(address_of, len(server.addresses) - 1)]
        server.stall(address)
        server.later(seconds, lambda: server.accept(address))
        server.reset_connections()

    return act


def grant(slots: int | None) -> Callable[[ScriptedServer], None]:
    """Want so many slots of each session used; None: all."""

    def act(server: ScriptedServer) -> None:
        server.terms.target = None if slots is None else slots - 1

    return act


RESET_SOON = Answer(do=_reset_soon)
FORGETS = Answer(do=ScriptedServer.new_verifier)
STRANGER = Answer(before=mark(24) + struct.pack(">6I", 7, 1, 0, 0, 0, 0))
ENDLESS_VERIFIER = Answer(rpc=struct.pack(">3I", 0, 0, 2**32 - 1) + bytes(64))
ENDLESS_DATA = Answer(count=2**32 - 1, length=2**32 - 1)
HUGE_RECORD = Answer(raw=mark(2**31 - 1) + bytes(4096))
GARBAGE = Answer(raw=random.Random(1).randbytes(5000))
JUKEBOX = Answer(status=Status.JUKEBOX)
DELAY, GRACE = Answer(status=Status4.DELAY), Answer(status=Status4.GRACE)


# --- of nfs-ganesha in a lab ---

_DROP = """\
table ip path{path} {{
	chain in {{ type filter hook input priority 0; ip daddr {address} drop; }}
	chain out {{ type filter hook output priority 0; ip saddr {address} drop; }}
}}
"""


class FaultKind(StrEnum):
    """A fault; all but RESET last until they are ended."""

    KILL = "server killed"  # SIGKILL; its end is a restart
    STOP = "server stopped"  # SIGSTOP: connections stay, and nobody answers
    DROP = "packets dropped"  # both ways, in silence
    ADDRESS = "address removed"
    RESET = "connections reset"


class Faults:
    """Breaks and mends the paths of a lab that has namespaces.

    Each path has one fault at a time at most. Where one server is behind all addresses, KILL and
    STOP break all paths. Raises MissingError where nft, ss or sysctl is missing.
    """

    def __init__(self, lab: Lab):
        if lab.config.local:
            raise HarnessError("faults of single paths need namespaces")
        for program in ("nft", "ss", "sysctl"):
            find(program)
        self._lab = lab
        self._present: dict[int, FaultKind] = {}
        # Else the first address of a subnet takes the others with it.
        self._on_server("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1").check()

    def begin(self, kind: FaultKind, path: int) -> bool:
        """Break the path, counted from 0; False where there was nothing to be broken."""
        address = self._address(path)
        if path in self._present:
            raise HarnessError(f"path {path} is broken already: {self._present[path]}")
        match kind:
            case FaultKind.KILL:
                self._lab.server(path).kill()
            case FaultKind.STOP:
                self._lab.server(path).pause()
            case FaultKind.DROP:
                rules = _DROP.format(path=path, address=address)
                self._on_server("nft", "-f", "-", stdin=rules).check()
            case FaultKind.ADDRESS:
                self._on_server("ip", *self._lab.network.address_words("del", path)).check()
            case FaultKind.RESET:
                # It prints what it has closed: nothing, without CONFIG_INET_DIAG_DESTROY.
                return bool(self._on_server("ss", "-HKtn", "src", address).stdout.strip())
        self._present[path] = kind
        return True

    def end(self, path: int) -> None:
        """Mend the path; one that is whole is no error."""
        match self._present.pop(path, None):
            case FaultKind.KILL:
                self._lab.server(path).start()
            case FaultKind.STOP:
                self._lab.server(path).resume()
            case FaultKind.DROP:
                self._on_server("nft", "delete", "table", "ip", f"path{path}").check()
            case FaultKind.ADDRESS:
                self._on_server("ip", *self._lab.network.address_words("add", path)).check()

    def end_all(self) -> None:
        """Mend everything."""
        for path in list(self._present):
            self.end(path)

    def _address(self, path: int) -> str:
        return self._lab.network.addresses(self._lab.config.addresses)[path][0]

    def _on_server(self, *argv: str, stdin: str = "") -> Completed:
        enter: Sequence[str] = self._lab.network.enter(self._lab.network.server)
        return run([*enter, *argv], timeout=_SECONDS, stdin=stdin)


VICTIM = 1  # the path that it befalls, counted from 0

# Slow enough for the fault to come in time, even where the harness stalls for two seconds; and
# traced, so that one can tell when.
PACED: Options = {"rate_iops": 20, "trace": 1}


@dataclass(frozen=True, kw_only=True)
class LabFault(Fault):
    """A path is broken for some seconds (None: for good), and again after as long, `times` times.

    `before` breaks it before the job starts. `instances` tells whether one server is behind all
    addresses, or each has its own; `version` is that of NFS.
    """

    kind: FaultKind
    seconds: float | None = None
    times: int = 1
    before: bool = False
    version: str | None = None
    instances: Instances = Instances.PER_ADDRESS
    place: Place = Place.LAB
    options: Options = field(default_factory=lambda: PACED)

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell in a lab of its own, which takes half a second."""
        with Lab(LabConfig(addresses=max(2, cell.paths), instances=self.instances)) as lab:
            faults = Faults(lab)
            put_files(lab.export_dir, cell.files)
            second = _start_again(lab)
            if self.before:
                faults.begin(self.kind, VICTIM)
            numbers = range(cell.paths) if cell.paths > 1 else (VICTIM,)
            pool = ",".join(lab.path(number, version=self.version) for number in numbers)
            fio = Fio(engine, enter=lab.command([]), env=lab.environment)
            with RunningJob(cell, fio, pool, folder) as job:
                if not self.before:
                    job.until_under_way()
                job.now()
                if not self.before:
                    _break(self, faults, job, second)
                left = job.finish(cell.expected)
            left.files = files_of(lab.export_dir)
        return left


def _another_second(than: int) -> int:
    """Wait for another second than this one, and give it.

    Ganesha's write verifier is the second of its start, and shall be each start's own.
    """
    while (now := int(time.time())) == than:
        time.sleep(0.02)
    return now


def _start_again(lab: Lab) -> int:
    """Start the victim's server in another second than the others'; gives that second."""
    lab.server(VICTIM).kill()
    second = _another_second(int(time.time()))
    lab.server(VICTIM).start()
    return second


def _break(fault: LabFault, faults: Faults, job: RunningJob, second: int) -> None:
    for number in range(fault.times):
        faults.begin(fault.kind, VICTIM)
        if fault.seconds is None:
            return
        job.wait(fault.seconds)
        if fault.kind is FaultKind.KILL:
            _another_second(second)
        faults.end(VICTIM)
        if number + 1 < fault.times:
            job.wait(fault.seconds)


# --- of the kernel's server, its device and its network, over RDMA ---
# Cells run in the guest of ./nfsmulti lab kernel, one after the other: client, server and device
# are on one machine there. rdma_rxe hands packets between its own addresses over within itself,
# past any filter, so that none can be dropped. Where something is sent while an address is being
# removed, the device or the server may break and make no more connections, for anybody: the cell
# then tells nothing of the engine, and is run again.

_VICTIM = ADDRESSES[1]
_THREADS = Path("/proc/fs/nfsd/threads")
_PORTS = Path("/proc/fs/nfsd/portlist")
_PORT = str(RDMA_PORT)
_LISTENS = f"rdma {_PORT}"
_DEVICE = "dummy0"

# An emulated processor is slow, and the job is to be in the middle when the fault comes.
_RDMA_PACED: Options = {"rate_iops": 10, "trace": 1, "proto": "rdma", "thread": 1}


@dataclass(frozen=True, kw_only=True)
class GuestFault(Fault):
    """What is done under way. `turns`: how often, where it may break the device."""

    act: Callable[[RunningJob], None]
    turns: int = 1
    place: Place = Place.GUEST
    options: Options = field(default_factory=lambda: _RDMA_PACED)

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell, in the guest; the server and its network are mended after it."""
        for turn in range(self.turns):
            try:
                left = _run_once(cell, self, engine, folder / str(turn))
                if left.result.status is not None or _connects():
                    break
            finally:
                mend()
        return left


def _run_once(cell: Cell, fault: GuestFault, engine: Engine, folder: Path) -> Left:
    export = Path(EXPORT)
    shutil.rmtree(export / FILE, ignore_errors=True)  # of the cell before: a directory, …
    (export / FILE).unlink(missing_ok=True)  # … or a file
    put_files(export, cell.files)
    addresses = ADDRESSES if cell.paths > 1 else (_VICTIM,)
    pool = ",".join(f"nfs://{address}{EXPORT}" for address in addresses)
    with RunningJob(cell, Fio(engine), pool, folder) as job:
        job.until_under_way()
        job.now()
        fault.act(job)
        left = job.finish(cell.expected)
    left.files = files_of(export)
    return left


def _connects() -> bool:
    """Whether the server takes a connection over RDMA at an address that nothing befell."""
    asked = ask_rdma(ADDRESSES[0], _PORT, seconds=_SECONDS)
    return asked is not None and not asked[1]


def mend() -> None:
    """See to it that addresses, device and server are as they were.

    The device is made anew: what is sent while its link is down breaks rdma_rxe for good.
    """
    _do("ip", "link", "set", _DEVICE, "up")
    for address in ADDRESSES:
        _do("ip", "address", "replace", f"{address}/24", "dev", _DEVICE)
    run(["rdma", "link", "delete", "rxe0"], timeout=_SECONDS)
    _do("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", _DEVICE)
    _start_server()


def _do(*words: str) -> None:
    run(words, timeout=_SECONDS).check()


def _start_server() -> None:
    """Start its threads, and then RDMA's port, as init.sh does."""
    _do("rpc.nfsd", "8")
    if _LISTENS not in _PORTS.read_text().splitlines():
        _PORTS.write_text(_LISTENS)


def server_away(seconds: float) -> Callable[[RunningJob], None]:
    """Take all of the server's threads, and with them its connections; start it again."""

    def act(job: RunningJob) -> None:
        with job.stopped():
            _THREADS.write_text("0")
        job.wait(seconds)
        _start_server()

    return act


def link_down(seconds: float) -> Callable[[RunningJob], None]:
    """Take the device's link down for a while, and with it all addresses."""

    def act(job: RunningJob) -> None:
        with job.stopped():
            _do("ip", "link", "set", _DEVICE, "down")
        job.wait(seconds)
        _do("ip", "link", "set", _DEVICE, "up")

    return act


def address_removed(back_after: float | None) -> Callable[[RunningJob], None]:
    """Take the address away, and give it back after a while, or never."""

    def act(job: RunningJob) -> None:
        where = (f"{_VICTIM}/24", "dev", _DEVICE)
        with job.stopped():
            _do("ip", "address", "delete", *where)
        if back_after is not None:
            job.wait(back_after)
            _do("ip", "address", "add", *where)

    return act
