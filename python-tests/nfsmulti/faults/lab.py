# SPDX-License-Identifier: GPL-2.0-only
"""Faults of real servers: what befalls nfs-ganesha and its network while a job runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from nfsmulti.faults.cell import FILE, Cell, Fault, Left, Place, RunningJob, content_of
from nfsmulti.fiorun import Engine, Fio, Options
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.lab.faults import FaultKind, Faults

CALLS_BEFORE = 10  # that the job has made when the fault comes
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
            file = lab.export_dir / FILE
            if not cell.work.writes:
                file.write_bytes(content_of(cell))
            second = _start_again(lab)
            if self.before:
                faults.begin(self.kind, VICTIM)
            numbers = range(cell.paths) if cell.paths > 1 else (VICTIM,)
            pool = ",".join(lab.path(number, version=self.version) for number in numbers)
            fio = Fio(engine, enter=lab.command([]), env=lab.environment)
            with RunningJob(cell, fio, pool, folder) as job:
                if not self.before:
                    job.until_traced(CALLS_BEFORE)
                job.now()
                if not self.before:
                    _break(self, faults, job, second)
                left = job.finish(cell.expected)
            left.file = file.read_bytes() if file.exists() else b""
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
