# SPDX-License-Identifier: GPL-2.0-only
"""Faults of real servers: of nfs-ganesha in a lab, and of the kernel's in the guest, over RDMA."""

import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

import kernel_nfsd
from fault_cells import FILE, Cell, Fault, Left, RunningJob, files_of, put_files
from lab_faults import FaultKind, Faults

from jobs import Fio
from nfsmulti.fiorun import Engine, Options
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.lab.guest import ADDRESS6, ADDRESSES, EXPORT
from nfsmulti.pool import RDMA_PORT, ask_rdma
from nfsmulti.processes import run

# --- nfs-ganesha ---


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
            put_files(lab.export_dir, cell.files)
            lab.server(_VICTIM).kill()
            _await_second_after(time.time())
            started = time.time()
            lab.server(_VICTIM).start()
            if self.before:
                faults.begin(self.kind, _VICTIM)
            numbers = range(cell.paths) if cell.paths > 1 else (_VICTIM,)
            pool = ",".join(lab.path(number, version=self.version) for number in numbers)
            fio = Fio(engine, enter=lab.command([]), env=lab.environment)
            with RunningJob(cell, fio, pool, folder) as job:
                if not self.before:
                    job.until_under_way()
                    self._break(faults, job, started)
                left = job.finish()
            left.files = files_of(lab.export_dir)
        return left

    def _break(self, faults: Faults, job: RunningJob, started: float) -> None:
        for number in range(self.times):
            faults.begin(self.kind, _VICTIM)
            if self.seconds is None:
                return
            job.meets(self.seconds)
            if self.kind is FaultKind.KILL:
                _await_second_after(started)
            faults.end(_VICTIM)
            if number + 1 < self.times:
                job.process.wait(self.seconds)


def _await_second_after(moment: float) -> None:
    """Ganesha's write verifier is the second of its start, and shall be each start's own."""
    time.sleep(max(0.0, int(moment) + 1 - time.time()))


# --- the kernel's server ---
# Client, server and device are on one machine there, and cells run one after the other. rdma_rxe
# hands packets between its own addresses over within itself, past any filter, so that none can be
# dropped. Where something is sent while an address is being removed, the device or the server may
# break and make no more connections, for anybody: the cell then tells nothing of the engine, and is
# run again.


_SECONDS = 60.0
_DEVICE = "dummy0"
DELETE_DEVICE = ["rdma", "link", "delete", "rxe0"]

# How a fault begins, and how it ends. Without its threads the server has no connections, and
# without its link the device no addresses.
Acts = tuple[Callable[[], object], Callable[[], object]]


def _do(*words: str) -> None:
    run(words, timeout=_SECONDS).check()


def _set_address(how: str, address: str = ADDRESSES[1]) -> None:
    _do("ip", "address", how, f"{address}/24", "dev", _DEVICE)


SERVER_AWAY: Acts = (kernel_nfsd.stop, kernel_nfsd.start)
LINK_DOWN: Acts = (
    lambda: _do("ip", "link", "set", _DEVICE, "down"),
    lambda: _do("ip", "link", "set", _DEVICE, "up"),
)
ADDRESS_AWAY: Acts = (lambda: _set_address("delete"), lambda: _set_address("replace"))


@dataclass(frozen=True)
class GuestFault(Fault):
    """What is done under way, for some seconds (None: for good).

    `turns`: how often a cell is run, where it may break the device.
    """

    pace: ClassVar[Options] = {"rate_iops": 10, "proto": "rdma", "thread": 1}
    acts: Acts
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
                mend()
        return left

    def _run_once(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        export = Path(EXPORT)
        put_files(export, cell.files)
        addresses = ADDRESSES if cell.paths > 1 else ADDRESSES[1:]
        pool = ",".join(f"nfs://{address}{EXPORT}" for address in addresses)
        begin, end = self.acts
        try:
            with RunningJob(cell, Fio(engine), pool, folder) as job:
                job.until_under_way()
                # It stands still meanwhile, so that the fault comes in its middle on a slow machine
                # too. That is fio's main process alone: jobs are its threads (thread=1).
                job.process.signal(signal.SIGSTOP)
                begin()
                job.process.signal(signal.SIGCONT)
                if self.seconds is not None:
                    job.meets(self.seconds)
                    end()
                left = job.finish()
            left.files = files_of(export)
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

    The device is made anew: what is sent while its link is down breaks rdma_rxe for good.
    """
    LINK_DOWN[1]()
    for address in ADDRESSES:
        _set_address("replace", address)
    _do("ip", "address", "replace", f"{ADDRESS6}/64", "dev", _DEVICE, "nodad")
    run(DELETE_DEVICE, timeout=_SECONDS)
    _do("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", _DEVICE)
    kernel_nfsd.start()
    kernel_nfsd.end_grace()  # NFSv4's tests after it would wait a minute
