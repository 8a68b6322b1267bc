# SPDX-License-Identifier: GPL-2.0-only
"""Faults of nfs-ganesha in a lab: of its servers, and of the paths to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.faults.job import Cell, Fault, Left, Place, RunningJob, files_of, put_files
from nfsmulti.fiorun import Engine, Fio
from nfsmulti.lab import Instances, Lab, LabConfig
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
        if path in self.present:
            raise HarnessError(f"path {path} is broken already: {self.present[path]}")
        if kind is FaultKind.RESET:
            # It prints what it has closed: nothing, without CONFIG_INET_DIAG_DESTROY.
            return bool(self._on_server("ss", "-HKtn", "src", self._address(path)).stdout.strip())
        self._acts(kind, path)[0]()
        self.present[path] = kind
        return True

    def end(self, path: int) -> None:
        """Mend the path; one that is whole is no error."""
        if kind := self.present.pop(path, None):
            self._acts(kind, path)[1]()

    def end_all(self) -> None:
        """Mend everything."""
        for path in list(self.present):
            self.end(path)

    def _acts(self, kind: FaultKind, path: int) -> tuple[Callable[[], object], ...]:
        """Return how a fault is begun, and how it is ended."""
        server, words = self._lab.server(path), self._lab.network.address_words
        rules = _DROP.format(path=path, address=self._address(path))
        return {
            FaultKind.KILL: (server.kill, server.start),
            FaultKind.STOP: (server.pause, server.resume),
            FaultKind.DROP: (
                lambda: self._on_server("nft", "-f", "-", stdin=rules).check(),
                lambda: self._on_server("nft", "delete", "table", "ip", f"path{path}").check(),
            ),
            FaultKind.ADDRESS: (
                lambda: self._on_server("ip", *words("del", path)).check(),
                lambda: self._on_server("ip", *words("add", path)).check(),
            ),
        }[kind]

    def _address(self, path: int) -> str:
        return self._lab.network.addresses(self._lab.config.addresses)[path][0]

    def _on_server(self, *argv: str, stdin: str = "") -> Completed:
        network = self._lab.network
        argv = (*network.enter(network.server), *argv)
        return run(argv, timeout=_SECONDS, stdin=stdin)


_VICTIM = 1  # the path that it befalls, counted from 0


@dataclass(frozen=True)
class LabFault(Fault):
    """A path is broken for some seconds (None: for good), and again after as long, `times` times.

    `before` breaks it before the job starts; `version` is that of NFS. One server is behind all
    addresses, unless it is servers that fail: then each address has its own.
    """

    place = Place.LAB
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


FAULTS = (
    LabFault("server killed, back after 0.5 s", FaultKind.KILL, 0.5),
    LabFault("NFSv4.1: server killed, back after 0.5 s", FaultKind.KILL, 0.5, version="4.1"),
    LabFault("server killed, back after 2 s", FaultKind.KILL, 2.0),
    LabFault("server killed for good", FaultKind.KILL),
    LabFault("server stopped (SIGSTOP) for 5 s", FaultKind.STOP, 5.0),
    LabFault("packets dropped both ways for 2 s", FaultKind.DROP, 2.0),
    LabFault("address removed", FaultKind.ADDRESS),
    LabFault("address removed for 2 s", FaultKind.ADDRESS, 2.0),
    LabFault("one of four paths dead from the start", FaultKind.KILL, before=True, paths=4),
    LabFault("one of four paths dead mid-run", FaultKind.KILL, paths=4),
    LabFault(
        "one of four paths flapping (0.8 s, three times)",
        FaultKind.DROP,
        0.8,
        times=3,
        paths=4,
        options={"rate_iops": 16},
    ),
)
