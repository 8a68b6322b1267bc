# SPDX-License-Identifier: GPL-2.0-only
"""summary.json: all that a run of a scenario found, and what its reports are made of.

A run is a list of cells. A cell is one fio (or several at once, on several hosts) under one
combination of factors, run once. Units stand in the names: `_s` seconds, `_us`
microseconds, `_bytes_per_s`; percentages are of one core.

Version 1. A reader of this version refuses others; fields that it does not know are dropped, so
that fields may be added without another version.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from nfsmulti import typed
from nfsmulti.errors import HarnessError
from nfsmulti.paths import shown, write_whole

SCHEMA = "nfsmulti-summary"
VERSION = 1
FILE = "summary.json"

# What has a command of its own, instead of `run`. One that was interrupted is begun anew.
GONE = "mount"  # since 0.7.0; earlier runs are still read
OWN_COMMANDS = {
    "demo": "demo",
    "client-cost": "bench client-cost",
    GONE: "bench mount",
    "stall": "bench stall",
}

Status = Literal["done", "failed", "waiting", "skipped"]
Factor = str | int | float | bool


@dataclass(frozen=True)
class Figures:
    """What one direction of a cell did, all its jobs together; latencies are fio's clat.

    Those that an earlier version did not keep are None. `bins` are fio's latency bins in ns, so
    that percentiles of several runs can be had from the bins together; `response` are those of
    fio's lat, of a cell with lat_percentiles=1.
    """

    ops: int
    bytes: int
    seconds: float
    iops: float
    bytes_per_s: float
    mean_us: float | None
    p50_us: float
    p95_us: float | None
    p99_us: float
    p999_us: float | None
    bins: dict[str, int] = field(default_factory=dict)
    response: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRow:
    """One job of a cell, as fio's own output has it."""

    name: str
    number: int
    read_bytes_per_s: float
    read_iops: float
    write_bytes_per_s: float
    write_iops: float
    mean_us: float
    p50_us: float
    p99_us: float
    usr_percent: float
    sys_percent: float
    host: str = ""


@dataclass(frozen=True)
class Server:
    """What a server's kernel told of itself during a cell.

    `cpu_percent` is of all its processors, None where too little time passed to tell; Dirty and
    Cached of its /proc/meminfo are the highest that were seen.
    """

    cpu_percent: float | None
    processors: int
    dirty_bytes: int
    cached_bytes: int


@dataclass(frozen=True)
class Arrivals:
    """What became of I/O that arrived by a clock of its own, all jobs together.

    `offered` and `achieved` are I/Os per second: those that were due, and those that completed in
    time. Where responses grew all the time it is not `sustained`, and latencies say nothing. `full`
    is the part of the arrivals that found the depth used up. `lag` has fio's bins in ns from when
    I/O was due to its sending; those to its end are the cell's. `over_time` is the mean response in
    us, one for every `figure_s` seconds of the cell.
    """

    offered: float
    achieved: float
    sustained: bool
    due: int = 0
    dropped: int = 0
    full: float = 0.0
    lag: dict[str, int] = field(default_factory=dict)
    over_time: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class Parts:
    """What responses are made of by the kernel's receive stamps (rx_timestamps=1), of all jobs.

    fio's bins in ns: `lag` from when I/O was due to its sending, of a cell at a load alone;
    `service` until this client's kernel had the reply, the network's and the server's; `wake_up`
    until the job took it, this client's. `shared` is the part of the replies whose stamp is that of
    several in one receive: their service is an upper bound.
    """

    lag: dict[str, int] = field(default_factory=dict)
    service: dict[str, int] = field(default_factory=dict)
    wake_up: dict[str, int] = field(default_factory=dict)
    shared: float = 0.0


@dataclass(frozen=True)
class MountCalls:
    """READ or WRITE calls of kernel mounts: until they were sent, were answered, and ended."""

    calls: int
    lag_mean_us: float
    service_mean_us: float
    wake_up_mean_us: float


@dataclass(frozen=True)
class Clients:
    """What became of a cell's NFS clients, each with a connection of its own (nclients).

    `served` of the `asked` have done I/O. `slowest` is the slowest client's operations as a part of
    the mean of all clients, `jain` Jain's index of all clients' operations. If the server took
    fewer clients, `why` says why, and `served`, `slowest` and `jain` are of the clients that it
    took.
    """

    asked: int
    served: int
    slowest: float
    jain: float
    why: str = ""


@dataclass(frozen=True)
class Restart:
    """What a server's restart in the middle of a cell did to its clients; times in s, sorted.

    The restart was done `took_s` after it began. `known` clients lost their connections by it;
    `back_s` has for each of them the time from the start of the restart until the client was back:
    an I/O of it was answered, or it had none to do and could send one again. `new` clients began
    when the restart was done; `waited_s` has for each of them the time from its own begin to its
    first I/O. Clients that were never served are left out. `absent` clients were killed before the
    restart.
    """

    took_s: float
    known: int
    back_s: list[float]
    absent: int = 0
    new: int = 0
    waited_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Cell:
    """One cell. `status` is "waiting" until it ran; `why` says in one line why it failed.

    A cell that was not worth running is "skipped", and `why` says why. `arrivals` are of one at a
    load. `folder` holds what its fio left, relative to the run. `cpu_s` is the CPU time of fio's
    jobs, user and system; `usr_percent` and `sys_percent` are the sums of theirs over all jobs,
    each in per cent of one core. `machine_cpu_s` is the CPU time of the whole machine in their run
    time, where it could be told: it includes what a kernel does for a mount, and a server on the
    same machine, but neither fio's start nor its end; `processors` is how many that are, 0 where
    that was not written down, and `others_busy` the part of their time that was worked right before
    fio was started, which is other programs' work. `calls_per_op` are the engine's system calls,
    `crypto_s` its part of `cpu_s` that was Kerberos's and TLS's encryption and checksums; `tls` has
    the cipher, and who encrypts: "AES-256-GCM, by GnuTLS" or "by the kernel (kTLS)". `paths` gives
    each path's part of all bytes, `jain` Jain's index of these. `over_time` holds bytes per second
    of all jobs together, one figure for every `figure_s` seconds; `read_over_time` and
    `write_over_time` likewise the clat's p50_us and p99_us; `marks` the figures, from 0, in which
    there were reconnects, failovers, retransmissions or delayed replies. `server` is what the
    server told, None where nobody asked, or where `server_why` says in a line why there is no
    answer. `settled` tells whether
    its two halves agreed (see stats.py), None where nothing was written down of that; versions
    before 0.7.0 then ran it again, `times` its planned length.
    `parts` are of its responses, where the kernel stamped replies; `mount_calls` by read and write.
    `clients` are of a cell of many NFS clients, `restart` of one in which their server was
    restarted.
    """

    id: str
    factors: dict[str, Factor]
    repeat: int
    status: Status
    folder: str
    command: str
    why: str | None = None
    order: int = 0
    seconds: float = 0.0
    read: Figures | None = None
    write: Figures | None = None
    cpu_s: float = 0.0
    machine_cpu_s: float | None = None
    processors: int = 0
    others_busy: float | None = None
    calls_per_op: float | None = None
    crypto_s: float | None = None
    tls: str = ""
    usr_percent: float = 0.0
    sys_percent: float = 0.0
    jobs: list[JobRow] = field(default_factory=list)
    paths: dict[str, float] = field(default_factory=dict)
    jain: float | None = None
    over_time: list[float] = field(default_factory=list)
    read_over_time: dict[str, list[float | None]] = field(default_factory=dict)
    write_over_time: dict[str, list[float | None]] = field(default_factory=dict)
    figure_s: int = 1
    marks: dict[str, list[int]] = field(default_factory=dict)
    server: Server | None = None
    server_why: str | None = None
    times: int = 1
    settled: bool | None = None
    arrivals: Arrivals | None = None
    parts: Parts | None = None
    mount_calls: dict[str, MountCalls] = field(default_factory=dict)
    clients: Clients | None = None
    restart: Restart | None = None

    @property
    def connections(self) -> int | None:
        """All of its connections to the server: jobs x the paths of each x nconnect (options.md).

        Kernel mounts have theirs for all jobs together: mounts x nconnect (nfs(5)). None where that
        is not known: of other hosts' jobs, and of mounts that the run did not make itself.
        """
        if any(job.host for job in self.jobs):
            return None
        options = r"--(nconnect|numjobs|spread\w*|failover|directory|pool)=(\S+)"
        at: dict[str, Factor] = {**dict(re.findall(options, self.command)), **self.factors}
        paths, each = max(len(self.paths), 1), str(at.get("nconnect", ""))
        kinds = " ".join(str(at.get(name)) for name in ("client", "transport", "connections"))
        below = "pool" not in at and "directory" in at
        below = below or any(path.startswith("/") for path in self.paths)
        if below or re.search(r"mount|\bdirectory|\bfile", kinds):
            each = each or str(at.get("connections", ""))
            own = each.isdecimal() and at.get("transport") != "directory"
            return paths * int(each) if own else None
        jobs = max(1, len(self.jobs), *(int(at.get(name, 1)) for name in ("jobs", "numjobs")))
        if self.clients:
            taken = self.clients.served if self.clients.why else self.clients.asked
            return taken + int(at.get("neighbours", 0))
        spreads = {at.get(name, "job") for name in ("spread", "spread_reads", "spread_writes")}
        one = spreads == {"job"} and str(at.get("failover", 0)) in ("0", "False")
        return jobs * (1 if one else paths) * int(each or 1)

    @property
    def ops(self) -> int:
        """The I/Os of both directions."""
        return sum(one.ops for one in (self.read, self.write) if one)


@dataclass(frozen=True)
class Summary:
    """One run of one scenario; `place` says on what: kind (pool, lab, kernel-lab), pool, limits.

    A demo is one as well, whose kind may be loopback.

    Before its cells, each combination of factors ran for `warm_up_s`, for nothing.
    """

    scenario: str
    label: str
    started: str
    ended: str
    quick: bool
    command: str
    place: dict[str, Any]
    cells: list[Cell]
    warm_up_s: float = 0.0

    @property
    def done(self) -> list[Cell]:
        """The cells that ran and did not fail."""
        return [cell for cell in self.cells if cell.status == "done"]

    @property
    def to_end(self) -> str:
        """What to do about cells that still wait."""
        return "begin it anew" if self.scenario in OWN_COMMANDS else "continue it with run --resume"

    @property
    def hosts(self) -> int:
        """How many hosts ran each cell at once: those of --hosts, or this machine."""
        return len(self.place.get("hosts") or ["this machine"])

    @property
    def setting(self) -> str:
        """The factor that is a setting of the server, "" for none."""
        return str((self.place.get("setting") or {}).get("name", ""))

    @property
    def beside_clients(self) -> bool:
        """Whether figures of the server are of its processes alone: clients share its machine.

        So it is in a lab. Earlier runs say "apart" of a guest's own server.
        """
        return self.place.get("kind") == "lab" or bool(self.place.get("apart"))

    @property
    def in_memory(self) -> bool:
        """Whether the run's files are known to fit into its server's memory; a lab's lie there."""
        if self.place.get("kind") != "pool":
            return True
        return int(self.place.get("file_bytes", 0)) < int(self.place.get("server_memory", 0))

    def save(self, folder: Path) -> None:
        """Write summary.json, whole or not at all: a line for each cell."""
        head = {"schema": SCHEMA, "version": VERSION, **vars(self)}
        cells = ",\n".join(json.dumps(cell, default=vars) for cell in head.pop("cells"))
        text = f'{json.dumps(head).removesuffix("}")}, "cells": [\n{cells}\n]}}'
        write_whole(folder / FILE, f"{text}\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a run's summary, as it is or by xz. Raises HarnessError for none of this version."""
        file, packed = folder / FILE, folder / f"{FILE}.xz"
        if folder.is_file():
            raise HarnessError(f"{shown(folder)}: Not a directory: name the folder of a run")
        try:
            file = packed if packed.exists() and not file.exists() else file
            data = typed.load(file)
        except FileNotFoundError:
            raise HarnessError(f"{shown(folder)}: no {FILE}: not the folder of a run") from None
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise HarnessError(f"{shown(file)}: not a summary of ./nfsmulti run")
        if data.get("version") != VERSION:
            raise HarnessError(
                f"{shown(file)}: version {data.get('version')!r:.40}, and this harness reads"
                f" {VERSION}: use the harness that wrote it"
            )
        return typed.read(cls, data, f"{shown(file)}: ")
