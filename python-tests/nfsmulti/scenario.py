# SPDX-License-Identifier: GPL-2.0-only
"""What fio runs for a combination of factors, where, and what of it a user chooses."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from nfsmulti.lab import LabConfig
from nfsmulti.lab.guest import Mount
from nfsmulti.pool import RDMA_PORT
from nfsmulti.summary import Factor

# What the harness gives fio for itself: none of it is the workload's.
FOR_HARNESS = frozenset({
    "stats_file", "live_file", "exec_prerun",
    "write_bw_log", "write_lat_log", "log_avg_msec", "write_hist_log", "log_hist_msec",
})  # fmt: skip

# The engine's option by which the kernel tells when it has a reply. A cell asks for it, and gets it
# where that can be told.
STAMPS = "rx_timestamps"

# Whose NFS client a cell uses: the engine's own, on a pool; the kernel's, by the engine on mounts
# that IOTRAP_MOUNT_POOLS names, or by one of fio's own engines on a single mount; "other": that of
# the engine that the cell's options choose.
Client = Literal["pool", "mounts", "mount", "other"]

# What a metadata cell does to its entries: makes them, uses them, or removes them.
Entries = Literal["", "makes", "uses", "removes"]


@dataclass(frozen=True)
class CellSpec:
    """One combination of factors, and what fio runs for it.

    `place` names one of the scenario's places. `jobs` are the sections of `jobfile` that run, all
    where there is none; without a jobfile there is one job. `options` are fio's and the engine's,
    for all of them and on top of what the jobfile and the harness say; None takes one away. A pool
    has the place's first `paths` paths, each with the arguments in `query`, which win over the
    path's own; `mounts` names a group of the place's mounts, or `mount_options` are nfs(5)'s for
    mounts of these paths that are the cell's alone. `files` must be there, with so many bytes,
    before fio starts. `seconds` are what fio is expected to take. `entries` is of a cell of
    metadata operations, which has entries of its own: see run/cell.py. `prerun` is a command of the
    shell that runs when all `numjobs` are ready for their first I/O, which then begin together;
    where it fails, so does the cell. `fio` is the program. Where there is a `patience`, jobs that
    do I/O for so many seconds beyond their time are killed, and what fio then reports counts; a
    cell that fails has so many `tries`. With a `load` I/O arrives by a clock: at so many per cent
    of what the cell without one has reached. One with a `warm_up` has run before, for nothing. With
    a `restart` the server is restarted in the middle, by this command of the shell, or by the lab
    (OWN_SERVER), right after as many clients as are `absent` were killed. Of a `partial` cell the
    server may take fewer clients. `own` are options of single jobs, by name, which win over those
    of all. What a server may lack is named by `optional`: where the first warm-up of such cells
    fails, all of them are skipped, for its reason.
    """

    factors: dict[str, Factor]
    place: str
    jobfile: str
    options: dict[str, Factor | None]
    seconds: float
    client: Client = "pool"
    paths: int = 1
    query: str = ""
    mounts: str = ""
    mount_options: str = ""
    files: dict[str, int] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    entries: Entries = ""
    prerun: str = ""
    fio: str = "fio"
    patience: float = 0.0
    tries: int = 1
    load: int = 0
    warm_up: bool = True
    optional: str = ""
    restart: str = ""
    absent: int = 0
    partial: bool = False
    own: dict[str, dict[str, Factor | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class GuestPlace:
    """A guest of the kernel lab: groups of kernel mounts of its server, by name.

    `link` and `per_mount` limit what the server sends, in tc's words; each mount of a group then
    has a link of its own into the shared one (see run/place.py). `threads` are nfsd's, None
    for those of the kernel lab. `differs` says in a line each what is not as it was published.
    """

    mounts: Mapping[str, tuple[Mount, ...]] = field(default_factory=dict)
    link: str | None = None
    per_mount: str | None = None
    threads: int | None = None
    client_memory: int | None = None
    differs: tuple[str, ...] = ()

    @property
    def limits(self) -> dict[str, str]:
        """The limits that are set, by name."""
        pairs = {"link": self.link, "per_mount": self.per_mount}
        return {name: rate for name, rate in pairs.items() if rate}


Place = LabConfig | GuestPlace


@dataclass(frozen=True)
class OwnPool:
    """What the pool of a user has: URLs and kernel mounts, each with their version of NFS.

    A version, and `url_proto`, the URLs' transport, is "" where it is not known, or not one.
    `memory` are the bytes of this machine's.
    """

    urls: int
    mounts: int
    version: str = ""
    url_version: str = "3"
    url_proto: str = "tcp"
    memory: int = field(default=0, compare=False)

    @property
    def paths(self) -> int:
        """All of them."""
        return self.urls + self.mounts


# Where a cell runs on a pool of the user.
OWN = "pool"
# What restarts a lab's server, where no command does.
OWN_SERVER = "the lab's own server"


@dataclass(frozen=True)
class Choice:
    """What a user chose to measure; what is empty follows from the scenario, and where it is run.

    Each member is called as its option of `run`. Without `proto` and `version` a pool of the user
    is what its URLs say. `depth` is metadata's, `load` in per cent, `slo` and `arrival_process` are
    latency's, `sec` and `xprtsec` security's, `discard` connections'. The members after `discard`
    are those of the scenario clients.
    """

    nconnect: tuple[int, ...] = ()
    proto: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    jobs: tuple[int, ...] = ()
    mounts: bool = False
    workload: tuple[str, ...] = ()
    depth: tuple[int, ...] = ()
    load: tuple[int, ...] = ()
    slo: str = ""
    arrival_process: str = ""
    sec: tuple[str, ...] = ()
    xprtsec: tuple[str, ...] = ()
    discard: bool = False
    clients: tuple[int, ...] = ()
    restart: str = ""
    neighbour: tuple[int, ...] = ()
    rate: tuple[int, ...] = ()
    absent: float = 0.0
    partial: bool = False


# What workloads that several scenarios have give fio; a name begins with the block size.
PLAIN_WORKLOADS: Mapping[str, dict[str, Factor]] = {
    "4k-randread": {"rw": "randread", "bs": "4k"},
    "64k-read": {"rw": "read", "bs": "64k"},
    "64k-write": {"rw": "write", "bs": "64k"},
}

MIXED = "mixed"  # of a pool whose URLs differ


def ways(choice: Choice, pool: OwnPool | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield each transport and version that was chosen, and the query of URLs that asks for them.

    What was not chosen is the pool's own, and not asked for; without a pool TCP and version 3.
    """
    own = pool or OwnPool(urls=1, mounts=0)
    known = ("", "") if pool else (own.url_proto, own.url_version)
    for proto, version in itertools.product(choice.proto or known[:1], choice.version or known[1:]):
        words = {"proto": proto, "version": version}
        query = "&".join(f"{name}={word}" for name, word in words.items() if word)
        yield proto or own.url_proto or MIXED, version or own.url_version or MIXED, query


def mount_options(proto: str, version: str, nconnect: int) -> str:
    """Return nfs(5)'s options of such a mount; the kernel chooses what a mixed pool leaves open."""
    words = [f"vers={version}"] if version != MIXED else []
    words += [f"proto={proto}"] if proto != MIXED else []
    words += ["nolock"] if version == "3" else []
    words += [f"port={RDMA_PORT}"] if proto == "rdma" else []
    return ",".join([*words, f"nconnect={nconnect}"])


@dataclass(frozen=True)
class Scale:
    """How much is run: the whole scenario, or a quick look at it, or what was chosen.

    `cell_seconds` takes the place of every cell's own time, where it is given.
    """

    quick: bool = False
    cell_seconds: float | None = None
    choice: Choice = Choice()

    def seconds(self, quick: float, full: float) -> float:
        """Return a cell's time: `quick` or `full`, unless another was given."""
        return self.cell_seconds or (quick if self.quick else full)


def timed(seconds: float) -> dict[str, Factor | None]:
    """Return the options for a job that goes on for so long, whatever its size."""
    return {"runtime": f"{round(seconds * 1000)}ms", "time_based": True}
