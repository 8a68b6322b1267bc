# SPDX-License-Identifier: GPL-2.0-only
"""Faults of real servers: how a path of a lab breaks and is mended, and the cells that it meets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.faults.cell import Cell, Fault, Left, Place, RunningJob, files_of, put_files
from nfsmulti.fiorun import Engine, Fio, Options
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
