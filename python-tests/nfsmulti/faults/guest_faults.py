# SPDX-License-Identifier: GPL-2.0-only
"""Faults of the kernel's server, its device and its network, over RDMA.

Cells run in the guest of ./nfsmulti lab kernel, one after the other: client, server and device are
on one machine there. rdma_rxe hands packets between its own addresses over within itself, past any
filter, so that none can be dropped. Where something is sent while an address is being removed, the
device or the server may break and make no more connections, for anybody: the cell then tells
nothing of the engine, and is run again.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from nfsmulti.calls import RDMA_PORT
from nfsmulti.faults.job import FILE, Cell, Fault, Left, Place, RunningJob, files_of, put_files
from nfsmulti.fiorun import Engine, Fio
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.pool import ask_rdma
from nfsmulti.processes import run

_SECONDS = 60.0
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
        put_files(export, cell.files)
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
                job.meets(self.seconds)
                end()
            left = job.finish()
        left.files = files_of(export)
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


FAULTS = (
    GuestFault("knfsd stopped, started after 2 s", SERVER_AWAY, 2.0),
    GuestFault("link down for 2 s", LINK_DOWN, 2.0),
    GuestFault("address removed", ADDRESS_AWAY),
    GuestFault("address removed for 2 s", ADDRESS_AWAY, 2.0, turns=3),
)
