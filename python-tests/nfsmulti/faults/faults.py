# SPDX-License-Identifier: GPL-2.0-only
"""The faults: of the scripted server, nfs-ganesha in a lab, the kernel's server in a guest.

The first are those that a real server does not commit on demand. The last are over RDMA.
"""

from __future__ import annotations

import copy
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from pathlib import Path

from nfsmulti.calls import RDMA_PORT
from nfsmulti.errors import HarnessError
from nfsmulti.faults.job import ENTRIES, FILE, Cell, Fault, Left, Place, RunningJob, Work
from nfsmulti.fiorun import Engine, Fio
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.pool import ask_rdma
from nfsmulti.processes import Completed, find, run
from servers.scripted import Answer, Call, Nfs, Nfs4, Procedure, ScriptedServer, Terms

_SECONDS = 60.0


def _put_files(export: Path, files: Mapping[str, bytes]) -> None:
    """Put files into an export, behind its server's back."""
    for name, content in files.items():
        (export / name).parent.mkdir(parents=True, exist_ok=True)
        (export / name).write_bytes(content)


def _files_of(export: Path) -> dict[str, bytes]:
    """Give the files of the job in an export, by name."""
    paths = [export / FILE, *(export / FILE).rglob("*")]
    return {str(path.relative_to(export)): path.read_bytes() for path in paths if path.is_file()}


# --- of the scripted server ---

_LOOPBACK = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")

# Gives the answer to call number n (from 1) of those that it is about; None: a sound one.
Answers = Callable[[int, Call], Answer | None]


@dataclass(frozen=True)
class ScriptedFault(Fault):
    """How calls to the victim are answered: those of the work's procedure, or of `procedures`.

    With `hostile`, the victim answers NULL, by which it is asked for a sign of life, no better from
    the first faulty answer on. With `terms` the job speaks NFSv4.1, on these terms of the server.
    """

    place = Place.SCRIPTED
    answers: Answers
    _: KW_ONLY
    procedures: Sequence[Procedure] = ()
    terms: Terms | None = None
    hostile: bool = False

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell."""
        hook = _Hook(cell, self)
        terms = replace(self.terms) if self.terms else None  # its answers may change them
        with ScriptedServer(hook, addresses=_LOOPBACK[: cell.paths], terms=terms) as server:
            for name, content in cell.files.items():
                server.create(name, content)
            pool = server.pool4() if self.terms else server.pool()
            with RunningJob(cell, Fio(engine), pool, folder) as job:
                left = job.finish()
            left.fault, left.files = hook.begun, server.all_durable()
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
    """Asks a fault for the answers to a cell, and notes when the first faulty one is given."""

    def __init__(self, cell: Cell, fault: ScriptedFault):
        self.begun: float | None = None
        self._victim = _LOOPBACK[cell.victim]
        version3, version4 = _CARRIES[cell.work]
        self._procedures = fault.procedures or (version4 if fault.terms else version3,)
        # Directories are asked for their attributes, too.
        self._files = ENTRIES if cell.work is Work.STAT else ()
        self._hostile = fault.hostile
        self._answers = copy.deepcopy(fault.answers)  # they may remember calls
        self._count = 0

    def __call__(self, call: Call) -> Answer | None:
        """Answer a call as the fault wants it."""
        if call.server[0] != self._victim:
            return None
        if call.procedure is Nfs.NULL and self._hostile and self.begun:
            return self._answers(self._count, call)
        if call.procedure not in self._procedures or (self._files and call.file not in self._files):
            return None
        self._count += 1
        answer = self._answers(self._count, call)
        if answer is not None:
            self.begun = self.begun or time.monotonic()
        return answer


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
    STOP break all paths. `present` has the paths that are broken. Raises MissingError where nft, ss
    or sysctl is missing.
    """

    def __init__(self, lab: Lab):
        if lab.config.local:
            raise HarnessError("faults of single paths need namespaces")
        for program in ("nft", "ss", "sysctl"):
            find(program)
        self._lab = lab
        self.present: dict[int, FaultKind] = {}
        # Else the first address of a subnet takes the others with it.
        self._on_server("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1").check()

    def begin(self, kind: FaultKind, path: int) -> bool:
        """Break the path, counted from 0; False where there was nothing to be broken."""
        address, _ = self._lab.network.addresses(self._lab.config.addresses)[path]
        if path in self.present:
            raise HarnessError(f"path {path} is broken already: {self.present[path]}")
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
        self.present[path] = kind
        return True

    def end(self, path: int) -> None:
        """Mend the path; one that is whole is no error."""
        match self.present.pop(path, None):
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
        for path in list(self.present):
            self.end(path)

    def _on_server(self, *argv: str, stdin: str = "") -> Completed:
        network = self._lab.network
        return run([*network.enter(network.server), *argv], timeout=_SECONDS, stdin=stdin)


VICTIM = 1  # the path that it befalls, counted from 0


@dataclass(frozen=True)
class LabFault(Fault):
    """A path is broken for some seconds (None: for good), and again after as long, `times` times.

    `before` breaks it before the job starts. `instances` tells whether one server is behind all
    addresses, or each has its own; `version` is that of NFS.
    """

    place = Place.LAB
    kind: FaultKind
    seconds: float | None = None
    _: KW_ONLY
    times: int = 1
    before: bool = False
    version: str | None = None
    instances: Instances = Instances.PER_ADDRESS

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell in a lab of its own, which takes half a second."""
        with Lab(LabConfig(addresses=max(2, cell.paths), instances=self.instances)) as lab:
            faults = Faults(lab)
            _put_files(lab.export_dir, cell.files)
            lab.server(VICTIM).kill()
            _await_second_after(time.time())
            started = time.time()
            lab.server(VICTIM).start()
            if self.before:
                faults.begin(self.kind, VICTIM)
            numbers = range(cell.paths) if cell.paths > 1 else (VICTIM,)
            pool = ",".join(lab.path(number, version=self.version) for number in numbers)
            fio = Fio(engine, enter=lab.command([]), env=lab.environment)
            with RunningJob(cell, fio, pool, folder) as job:
                if not self.before:
                    job.until_under_way()
                    self._break(faults, job, started)
                left = job.finish()
            left.files = _files_of(lab.export_dir)
        return left

    def _break(self, faults: Faults, job: RunningJob, started: float) -> None:
        for number in range(self.times):
            faults.begin(self.kind, VICTIM)
            if self.seconds is None:
                return
            job.process.wait(self.seconds)
            if self.kind is FaultKind.KILL:
                _await_second_after(started)
            faults.end(VICTIM)
            if number + 1 < self.times:
                job.process.wait(self.seconds)


def _await_second_after(moment: float) -> None:
    """Ganesha's write verifier is the second of its start, and shall be each start's own."""
    time.sleep(max(0.0, int(moment) + 1 - time.time()))


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
_DEVICE = "dummy0"


def _do(*words: str) -> None:
    run(words, timeout=_SECONDS).check()


def _start_server() -> None:
    """Start its threads, and then RDMA's port, as init.sh does."""
    _do("rpc.nfsd", "8")
    if f"rdma {_PORT}" not in _PORTS.read_text().splitlines():
        _PORTS.write_text(f"rdma {_PORT}")


def _set_address(how: str, address: str = _VICTIM) -> None:
    _do("ip", "address", how, f"{address}/24", "dev", _DEVICE)


def _set_link(how: str) -> None:
    _do("ip", "link", "set", _DEVICE, how)


# How a fault begins, and how it ends. Without its threads the server has no connections, and
# without its link the device no addresses.
_Acts = tuple[Callable[[], object], Callable[[], object]]
SERVER_AWAY: _Acts = (lambda: _THREADS.write_text("0"), _start_server)
LINK_DOWN: _Acts = (lambda: _set_link("down"), lambda: _set_link("up"))
ADDRESS_AWAY: _Acts = (lambda: _set_address("delete"), lambda: _set_address("replace"))


@dataclass(frozen=True)
class GuestFault(Fault):
    """What is done under way, for some seconds (None: for good).

    `turns`: how often a cell is run, where it may break the device.
    """

    place = Place.GUEST
    acts: _Acts
    seconds: float | None = None
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
                _mend()
        return left

    def _run_once(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        export = Path(EXPORT)
        shutil.rmtree(export / FILE, ignore_errors=True)  # of the cell before: a directory, …
        (export / FILE).unlink(missing_ok=True)  # … or a file
        _put_files(export, cell.files)
        addresses = ADDRESSES if cell.paths > 1 else (_VICTIM,)
        pool = ",".join(f"nfs://{address}{EXPORT}" for address in addresses)
        begin, end = self.acts
        with RunningJob(cell, Fio(engine), pool, folder) as job:
            job.until_under_way()
            # It stands still meanwhile, so that the fault comes in its middle on a slow machine
            # too. That is fio's main process alone: jobs are its threads (thread=1).
            job.process.signal(signal.SIGSTOP)
            begin()
            job.process.signal(signal.SIGCONT)
            if self.seconds is not None:
                job.process.wait(self.seconds)
                end()
            left = job.finish()
        left.files = _files_of(export)
        return left


def _connects() -> bool:
    """Whether the server takes a connection over RDMA at an address that nothing befell."""
    asked = ask_rdma(ADDRESSES[0], _PORT, seconds=_SECONDS)
    return asked is not None and not asked[1]


def _mend() -> None:
    """See to it that addresses, device and server are as they were.

    The device is made anew: what is sent while its link is down breaks rdma_rxe for good.
    """
    _set_link("up")
    for address in ADDRESSES:
        _set_address("replace", address)
    run(["rdma", "link", "delete", "rxe0"], timeout=_SECONDS)
    _do("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", _DEVICE)
    _start_server()
