# SPDX-License-Identifier: GPL-2.0-only
"""Faults of real servers: nfs-ganesha in a lab, and the kernel's own, over RDMA, in a guest."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from nfsmulti.calls import RDMA_PORT
from nfsmulti.errors import HarnessError
from nfsmulti.faults.cell import FILE, Cell, Fault, Left, Place, RunningJob, files_of, put_files
from nfsmulti.fiorun import Engine, Fio, Options
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.pool import ask_rdma
from nfsmulti.processes import Completed, find, run

_SECONDS = 60.0

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


# --- cells ---


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


# --- what befalls ---


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
