# SPDX-License-Identifier: GPL-2.0-only
"""What the demo runs, and where: a workload each on one connection and on several, limits to fit.

The place is a lab, or loopback addresses for those who have no privileges.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from nfsmulti import machine
from nfsmulti.bench.sink import Sink
from nfsmulti.errors import HarnessError
from nfsmulti.hosts import RemoteFio
from nfsmulti.lab import Fit, LabConfig, Limits
from nfsmulti.run.place import InLab, Serving
from nfsmulti.run.watch import Ask
from nfsmulti.stories import CellSpec
from nfsmulti.stories.scenario import timed
from nfsmulti.summary import Factor

REPEATS = 3
# What a fio runs for. In all: 3 workloads x 2 sides x (FIT + REPEATS x RUN), with what it takes to
# start a fio and a lab, is well below three minutes. On a slower machine fewer repeats are made, so
# that all rows together end within the budget.
FIT_SECONDS, RUN_SECONDS, BUDGET_SECONDS = 1.0, 3.0, 150.0

_MIB = 1 << 20


@dataclass(frozen=True)
class Side:
    """One side of a comparison: in a row of the table, in a sentence with its verb, for fio."""

    row: str
    words: str
    options: dict[str, Factor | None]
    paths: int = 1


@dataclass(frozen=True)
class Workload:
    """A jobfile, run with `options` and those of each side.

    `link` and `cap` are limits in tc's words, which are lowered in their proportion to what the
    machine can carry. A cap holds for each path of the side `many`, which is an address of a lab,
    or for each connection where `per_connection`; there are `connections` of them. `files` must be
    there. `theirs` is the ratio to hold ours against, and `said` where it comes from; `published`
    where link and cap are a publication's.
    """

    name: str
    jobfile: str
    options: dict[str, Factor | None]
    one: Side
    many: Side
    connections: int
    link: str
    cap: str
    theirs: float
    said: str
    files: dict[str, int] = field(default_factory=dict)
    per_connection: bool = False
    published: bool = True
    seconds: float = RUN_SECONDS

    @property
    def capped(self) -> str:
        """What a cap holds for."""
        return "connection" if self.per_connection else "path"

    @property
    def addresses(self) -> int:
        """How many the servers need."""
        return self.many.paths


_DD = Workload(
    name="dd",
    jobfile="dd-write.fio",
    options={"size": 64 * _MIB},
    one=Side("dd-write, 1 stream", "one stream does", {}),
    many=Side("dd-write, 5 streams", "five streams on five paths write", {"numjobs": 5}, paths=5),
    connections=5,
    link="1gbit",
    cap="200mbit",
    theirs=72 / 19.4,
    said="published: 3.71 times (AIX, 1 GbE: 19.4 MB/s, five streams 72 MB/s)",
)
_FSPERF = Workload(
    name="fsperf",
    jobfile="fsperf.fio",
    options={"size": 256 * _MIB},
    one=Side("fsperf, 1 path", "it does on one path", {}),
    many=Side(
        "fsperf, 4 paths", "one reader reads on four paths", {"spread": "roundrobin"}, paths=4
    ),
    connections=4,
    link="9400mbit",
    cap="6200mbit",
    theirs=1100 / 718,
    said="published: 1.53 times (NFSv3, 10 GbE: 718 MB/s, four mounts 1100 MB/s)",
    files={"fsperf": 256 * _MIB},
)
# Where nothing is published, a "link" of twice all caps together only keeps these well below what
# the machine carries: then they are reached beside other programs too.
_RANDREAD = Workload(
    name="randread",
    jobfile="randread.fio",
    options={"numjobs": 1},
    one=Side("randread, nconnect=1", "one does", {"nconnect": 1}),
    many=Side(
        "randread, nconnect=4",
        "four connections to one address read",
        {"nconnect": 4, "spread": "roundrobin"},
    ),
    connections=4,
    link="18800mbit",
    cap="2350mbit",
    theirs=4.0,
    said="four caps together allow 4.00 times",
    files={"1.txt": 10_000_000},
    per_connection=True,
    published=False,
)

IN_LAB = (_DD, _FSPERF, _RANDREAD)

# Pacing caps what a server sends on a connection: there are reads alone, and no link to share.
ON_LOOPBACK = (
    dataclasses.replace(
        _DD,
        jobfile="dd-read.fio",
        one=dataclasses.replace(_DD.one, row="dd-read, 1 stream"),
        link="2gbit",
        many=dataclasses.replace(
            _DD.many, row="dd-read, 5 streams", words="five streams on five paths read"
        ),
        theirs=5.0,
        said="five caps together allow 5.00 times",
        per_connection=True,
        published=False,
    ),
    dataclasses.replace(
        _FSPERF,
        link="49600mbit",
        theirs=4.0,
        said="four caps together allow 4.00 times",
        per_connection=True,
        published=False,
    ),
    _RANDREAD,
)


def fio_options(workload: Workload, side: Side, seconds: float) -> dict[str, Factor | None]:
    """Give fio's options for a side that runs for so long."""
    return {**workload.options, **side.options, **timed(seconds)}


# --- where they run ---


class Place(Serving, Protocol):
    """A place that starts without limits."""

    def limit(self, fit: Fit) -> None:
        """Limit it, between two fios. Raises HarnessError."""
        ...


class Namespaces(InLab):
    """A lab of real servers: of one that keeps its files in memory for those who are not root."""

    def __init__(self, workload: Workload):
        memory = machine.missing_privileges() is not None
        super().__init__(LabConfig(addresses=workload.addresses, memory=memory))
        self._per_connection = workload.per_connection

    def limit(self, fit: Fit) -> None:
        """Cap each address, behind a link, or each connection."""
        fitted = fit.limits
        cap = Limits(per_connection=fitted.per_address, burst=fitted.burst)
        self._lab.limit(cap if self._per_connection else fitted)


class Loopback:
    """The benchmark's own servers on 127.0.0.1 and up, one to an address, for any user."""

    enter: Sequence[str] = ()
    scratch: Path | None = None
    remote: RemoteFio | None = None
    ask: Ask | None = None

    def __init__(self, workload: Workload):
        self._addresses = [f"127.0.0.{number}" for number in range(1, workload.addresses + 1)]
        self._stack = contextlib.ExitStack()
        self._sinks: list[Sink] = []

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def limit(self, fit: Fit) -> None:
        """Cap each connection, in what the servers send. They are started anew for that."""
        self._stack.close()
        self._start("--pacing", str(fit.cap // 8))

    def pool(self, spec: CellSpec) -> str:
        """Give the pool of the first addresses."""
        return ",".join(sink.url for sink in self._sinks[: spec.paths])

    def mounts(self, spec: CellSpec) -> list[str]:
        """Refuse: this machine's kernel is not asked to mount anything."""
        raise HarnessError(f"there are no mounts for {spec.mounts}")

    def prepare(self, files: Mapping[str, int]) -> None:
        """Do nothing: these servers have every file."""

    def trouble(self) -> str | None:
        """Tell which server has died."""
        dead = [sink.address for sink in self._sinks if not sink.running]
        return f"the server on {', '.join(dead)} has died" if dead else None

    def servers(self) -> list[str]:
        """Name the program on each address."""
        return [f"nfs-sink on {sink.address}" for sink in self._sinks]

    def _start(self, *options: str) -> None:
        with contextlib.ExitStack() as undo:
            self._sinks = [
                undo.enter_context(Sink(["--address", address, *options]))
                for address in self._addresses
            ]
            self._stack = undo.pop_all()
