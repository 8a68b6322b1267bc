# SPDX-License-Identifier: GPL-2.0-only
"""Where a workload of the demo runs: in a lab, or on loopback addresses without privileges."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

from nfsmulti import privileges
from nfsmulti.bench.sink import Sink
from nfsmulti.demo.workloads import Workload
from nfsmulti.errors import HarnessError
from nfsmulti.hosts import RemoteFio
from nfsmulti.lab import Fit, LabConfig, Limits
from nfsmulti.run.place import InLab, Serving
from nfsmulti.run.server import Ask
from nfsmulti.stories import CellSpec


class Place(Serving, Protocol):
    """A place that starts without limits."""

    def limit(self, fit: Fit) -> None:
        """Limit it, between two fios. Raises HarnessError."""
        ...


class Namespaces(InLab):
    """A lab of real servers: of one that keeps its files in memory for those who are not root."""

    def __init__(self, workload: Workload):
        memory = privileges.missing() is not None
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
