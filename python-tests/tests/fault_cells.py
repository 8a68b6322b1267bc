# SPDX-License-Identifier: GPL-2.0-only
"""Runs of the fault matrix: a fault befalls a job on real servers, in a lab or in the guest."""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import kernel_nfsd
from engine_helpers import eventually, stderr_of, traces
from judge import FILE, WORKS, Expected, Left, complaints
from lab_faults import FaultKind, Faults

from jobs import Fio
from nfsmulti.fiorun import Engine, FioProcess, Options
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.lab.guest import ADDRESS6, ADDRESSES, EXPORT
from nfsmulti.pool import RDMA_PORT, ask_rdma
from nfsmulti.processes import run

_END_SECONDS = 180.0  # what takes longer hangs
_HOLD_SECONDS = 1.0  # that a job is seen to go on waiting
_TURNS = 3
_CALLS_BEFORE = 10  # that a server has answered when the fault comes


@dataclass(frozen=True)
class Place:
    """Servers and their export; how a cell's fault begins there, and how it ends."""

    fio: Fio
    pool: str
    export: Path
    options: Options  # of fio: let the fault come in time
    begin: Callable[[], object]
    end: Callable[[], object]
    sound: Callable[[], bool] = lambda: True  # whether a job that hung there tells of the engine


@dataclass(frozen=True)
class Fault:
    """What befalls a job under way, `times` times for some seconds, or for good (None).

    `before`: it is there before the job starts. There are as many addresses as `paths` says; by
    default two with failover, and else one. `version` is that of NFS.
    """

    name: str
    at: Callable[[Engine, Cell], AbstractContextManager[Place]]
    seconds: float | None = None
    _: KW_ONLY
    times: int = 1
    before: bool = False
    paths: int | None = None
    version: str | None = None


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
        gives_up = self.expected.outcomes[0].startswith("ETIMEDOUT")
        soft = 5 if gives_up else 75  # tenths of a second, twice
        return {
            **WORKS[self.work].options,
            self.mode: 1,
            "retrans": 1 if self.mode == "soft" else None,
            "timeo": {"hard": 10, "soft": soft, "failover": 5}[self.mode],
            "spread": "stripe" if self.paths > 1 else None,
            "trace": 1,
        }

    def complaints(self, left: Left) -> list[str]:
        return complaints(WORKS[self.work], left, self.expected, min(1, self.paths - 1))

    def run(self, engine: Engine, folder: Path) -> Left:
        """Run it, again where its place broke; fio's files lie in `folder`."""
        for turn in range(_TURNS):
            left, sound = self._run_once(engine, folder / str(turn))
            if sound:
                break
        return left

    def _run_once(self, engine: Engine, folder: Path) -> tuple[Left, bool]:
        with self.fault.at(engine, self) as place:
            for name, content in WORKS[self.work].before.items():
                (place.export / name).parent.mkdir(parents=True, exist_ok=True)
                (place.export / name).write_bytes(content)
            if self.fault.before:
                place.begin()
            options = {**self.options, **place.options}
            with place.fio.start(folder, pool=place.pool, options=options) as process:
                if not self.fault.before:
                    _until(process, lambda: traces(process) >= _CALLS_BEFORE)
                    self._break(place, process)
                left = self._finish(process)
            paths = [place.export / FILE, *(place.export / FILE).rglob("*")]
            files = {path for path in paths if path.is_file()}
            left.files = {str(one.relative_to(place.export)): one.read_bytes() for one in files}
            return left, left.result.status is not None or place.sound()

    def _break(self, place: Place, process: FioProcess) -> None:
        for number in range(self.fault.times):
            if number:
                process.wait(self.fault.seconds)
            # In the guest jobs are threads of this process, and stand still meanwhile: so the fault
            # comes in their middle on a slow machine, too.
            process.signal(signal.SIGSTOP)
            place.begin()
            process.signal(signal.SIGCONT)
            if self.fault.seconds is not None:
                self._meets(process, self.fault.seconds)
                place.end()

    def _meets(self, process: FioProcess, seconds: float) -> None:
        """Let the fault last so long, and until the job has met it, which may stand still."""
        process.wait(seconds)
        _until(process, lambda: re.search(self.expected.first, stderr_of(process)))

    def _finish(self, process: FioProcess) -> Left:
        """Wait for the end; send SIGINT where it is held, once it has said so and waits on."""
        signalled = False
        if "held" in self.expected.outcomes:
            self._meets(process, _HOLD_SECONDS)
            process.wait(_HOLD_SECONDS)
            if signalled := process.running:
                process.signal(signal.SIGINT)
        return Left(process.result(_END_SECONDS), signalled)


def _until(process: FioProcess, what: Callable[[], object]) -> None:
    eventually(lambda: not process.running or what(), _END_SECONDS)


# --- faults of nfs-ganesha ---


_VICTIM = 1  # the path that it befalls, counted from 0; a lab has two at least


@contextmanager
def in_lab(kind: FaultKind, engine: Engine, cell: Cell) -> Iterator[Place]:
    """Yield a lab of the cell's own, which takes half a second.

    One server is behind all addresses, unless it is servers that fail: then each address has its
    own.
    """
    own = kind in (FaultKind.KILL, FaultKind.STOP)
    instances = Instances.PER_ADDRESS if own else Instances.ONE
    with Lab(LabConfig(addresses=max(2, cell.paths), instances=instances)) as lab:
        faults, victim = Faults(lab), lab.server(_VICTIM)
        victim.kill()
        _await_second_after(time.time())
        started = time.time()
        victim.start()

        def end() -> None:
            if kind is FaultKind.KILL:
                _await_second_after(started)
            faults.end(_VICTIM)

        numbers = range(cell.paths) if cell.paths > 1 else (_VICTIM,)
        yield Place(
            Fio(engine, enter=lab.command([]), env=lab.environment),
            ",".join(lab.path(number, version=cell.fault.version) for number in numbers),
            lab.export_dir,
            {"rate_iops": 16},
            lambda: faults.begin(kind, _VICTIM),
            end,
        )


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


@contextmanager
def in_guest(acts: Acts, engine: Engine, cell: Cell) -> Iterator[Place]:
    """Yield the guest's server, which is mended at the end, with its network."""
    export = Path(EXPORT)
    addresses = ADDRESSES if cell.paths > 1 else ADDRESSES[1:]
    pool = ",".join(f"nfs://{address}{EXPORT}" for address in addresses)
    options: Options = {"rate_iops": 10, "proto": "rdma", "thread": 1}
    try:
        yield Place(Fio(engine), pool, export, options, *acts, _connects)
    finally:
        shutil.rmtree(export / FILE, ignore_errors=True)  # if it is a directory
        (export / FILE).unlink(missing_ok=True)  # if it is a file
        mend()


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
