# SPDX-License-Identifier: GPL-2.0-only
"""Faults of NFS over RDMA: what befalls the kernel's server, its device and its network.

Cells run in the guest of ./nfsmulti lab kernel, one after the other: client, server and device are
on one machine there. rdma_rxe hands packets between its own addresses over within itself, past any
filter, so that none can be dropped. Where something is sent while an address is being removed, the
device or the server may break and make no more connections, for anybody: the cell then tells
nothing of the engine, and is run again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nfsmulti.calls import RDMA_PORT
from nfsmulti.faults.cell import FILE, Cell, Fault, Left, Place, RunningJob, files_of, put_files
from nfsmulti.fiorun import Engine, Fio, Options
from nfsmulti.lab.kernel import ADDRESSES, EXPORT
from nfsmulti.pool import ask_rdma
from nfsmulti.processes import run as run_command

_SECONDS = 60.0
_VICTIM = ADDRESSES[1]
_THREADS = Path("/proc/fs/nfsd/threads")
_PORTS = Path("/proc/fs/nfsd/portlist")
_PORT = str(RDMA_PORT)
_LISTENS = f"rdma {_PORT}"
_DEVICE = "dummy0"

# An emulated processor is slow, and the job is to be in the middle when the fault comes.
_PACED: Options = {"rate_iops": 10, "trace": 1, "proto": "rdma", "thread": 1}


@dataclass(frozen=True, kw_only=True)
class GuestFault(Fault):
    """What is done under way. `turns`: how often, where it may break the device."""

    act: Callable[[RunningJob], None]
    turns: int = 1
    place: Place = Place.GUEST
    options: Options = field(default_factory=lambda: _PACED)

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
    _do("rdma", "link", "delete", "rxe0", check=False)
    _do("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", _DEVICE)
    _start_server()


def _do(*words: str, check: bool = True) -> None:
    done = run_command(words, timeout=_SECONDS)
    if check:
        done.check()


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
