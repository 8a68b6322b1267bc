# SPDX-License-Identifier: GPL-2.0-only
"""Faults of real servers: what befalls nfs-ganesha and its network while a job runs."""

from __future__ import annotations

import string
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nfsmulti.faults.cell import Cell, Fault, Place
from nfsmulti.faults.job import FILE, Left, RunningJob, content_of
from nfsmulti.fiorun import Engine, Fio, Options
from nfsmulti.lab import Instances, Lab, LabConfig, Server
from nfsmulti.processes import find
from nfsmulti.processes import run as run_command

_SECONDS = 20.0
_ADDRESSES = 4
CALLS_BEFORE = 10  # that the job has made when the fault comes

_DROP = string.Template("""\
table ip faults {
	chain in { type filter hook input priority 0; ip daddr $address drop; }
	chain out { type filter hook output priority 0; ip saddr $address drop; }
}
""")

# Slow enough for the fault to come in time, and traced, so that one can tell when.
PACED: Options = {"rate_iops": 40, "trace": 1}


@dataclass
class Scene:
    """A lab, the address (counted from 0) that the fault befalls, and the job under way."""

    lab: Lab
    victim: int
    job: RunningJob
    second: int  # when the servers were started

    @property
    def server(self) -> Server:
        """The server at that address."""
        return self.lab.server(self.victim)

    @property
    def address(self) -> str:
        """The address itself."""
        return self.lab.network.addresses(_ADDRESSES)[self.victim][0]

    def wait(self, seconds: float) -> None:
        """Let time pass, but no longer than the job runs."""
        self.job.wait(seconds)

    def network(self, *words: str, stdin: str = "") -> None:
        """Run a command in the server's network namespace; raises MissingError, CommandError."""
        enter = self.lab.network.enter(self.lab.network.server)
        run_command([*enter, find(words[0]), *words[1:]], timeout=_SECONDS, stdin=stdin).check()


@dataclass(frozen=True, kw_only=True)
class LabFault(Fault):
    """What is done to the servers under way, or `before` the job starts.

    `instances` tells whether one server is behind all addresses, or each has its own.
    """

    act: Callable[[Scene], None]
    instances: Instances = Instances.PER_ADDRESS
    before: bool = False
    place: Place = Place.LAB
    options: Options = field(default_factory=lambda: PACED)


def run(cell: Cell, fault: LabFault, engine: Engine, folder: Path) -> Left:
    """Run a cell in a lab of its own, which takes half a second."""
    with Lab(LabConfig(addresses=max(2, cell.paths), instances=fault.instances)) as lab:
        second = int(time.time())
        file = lab.export_dir / FILE
        if not cell.work.writes:
            file.write_bytes(content_of(cell))
        numbers = range(cell.paths) if cell.paths > 1 else (1,)  # the first address stays
        pool = ",".join(lab.path(number) for number in numbers)
        if cell.paths > 1 and fault.instances is Instances.PER_ADDRESS:
            _restart_later(lab.server(1), second)
        fio = Fio(engine, enter=lab.command([]), env=lab.environment)
        if fault.before:
            lab.server(1).kill()
        with RunningJob(cell, fio, pool, folder) as job:
            if fault.before:
                job.now()
            else:
                job.until_traced(CALLS_BEFORE)
                job.now()
                fault.act(Scene(lab, 1, job, second))
            left = job.finish(cell.expected)
        left.file = file.read_bytes() if file.exists() else b""
    return left


def _restart_later(server: Server, second: int) -> None:
    """Start a server in another second than this one: Ganesha's write verifier holds no more."""
    server.kill()
    while int(time.time()) == second:
        time.sleep(0.02)
    server.start()


# --- what befalls ---


def nothing(_: Scene) -> None:
    """Leave it at what was done before."""


def killed(back_after: float | None) -> Callable[[Scene], None]:
    """Kill the server with SIGKILL, and start it again after a while, or never."""

    def act(scene: Scene) -> None:
        scene.server.kill()
        if back_after is not None:
            scene.wait(back_after)
            _restart_later(scene.server, scene.second)

    return act


def stopped(seconds: float) -> Callable[[Scene], None]:
    """Stop the server with SIGSTOP, and let it go on after a while."""

    def act(scene: Scene) -> None:
        scene.server.pause()
        scene.wait(seconds)
        scene.server.resume()

    return act


def dropped(seconds: float, times: int = 1) -> Callable[[Scene], None]:
    """Drop all packets from and to the address for a while, and do so again after as long."""

    def act(scene: Scene) -> None:
        rules = _DROP.substitute(address=scene.address)
        for number in range(times):
            if number:
                scene.wait(seconds)
            scene.network("nft", "-f", "-", stdin=rules)
            scene.wait(seconds)
            scene.network("nft", "delete", "table", "ip", "faults")

    return act


def address_removed(back_after: float | None) -> Callable[[Scene], None]:
    """Take the address from the server, and give it back after a while, or never."""

    def act(scene: Scene) -> None:
        where = (f"{scene.address}/24", "dev", "v0")
        scene.network("ip", "address", "delete", *where)
        if back_after is not None:
            scene.wait(back_after)
            scene.network("ip", "address", "add", *where)

    return act
