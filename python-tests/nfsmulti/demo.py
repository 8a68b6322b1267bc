# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti demo: where it runs, and how: within a budget of time, limits fitted as it goes.

What runs and what that shows is in showcase.py; cells and summary.json are those of a run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Self

from rich.console import Console

from nfsmulti import machine
from nfsmulti.bench.sink import Sink
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.fiorun import Engine
from nfsmulti.folders import run_folder
from nfsmulti.lab import Fit, LabConfig, Limits, fit
from nfsmulti.paths import COMMAND, RESULTS, shown
from nfsmulti.report import measures, pages
from nfsmulti.run.cell import run_cell
from nfsmulti.run.place import InLab, Target
from nfsmulti.run.plan import PlannedCell, name_of, ordered
from nfsmulti.run.record import Meter, now_text, one_line, waiting_cell, write_machine
from nfsmulti.scenario import CellSpec
from nfsmulti.screen import Screen
from nfsmulti.showcase import (
    IN_LAB,
    LAB,
    ON_LOOPBACK,
    REPEATS,
    SIDES,
    Workload,
    cell_of,
)
from nfsmulti.summary import Cell, Summary
from nfsmulti.texts import rate_text
from nfsmulti.units import parse_rate

# What a fio runs for. In all: 3 workloads x 2 sides x (FIT + REPEATS x RUN), with what it takes to
# start a fio and a lab, is well below three minutes. On a slower machine fewer repeats are made, so
# that all rows together end within the budget.
FIT_SECONDS, RUN_SECONDS, BUDGET_SECONDS = 1.0, 3.0, 150.0
# The processors that fio and its servers may use, which can be fewer than the machine has.
OWN_CPUS = frozenset(os.sched_getaffinity(0))

_HOW = (
    " The demo first measures what this machine carries without limits, then caps the link and each"
    " path (for randread each connection) at rates that it can carry."
)
_IN_LAB = f"Real NFS servers (nfs-ganesha), in namespaces on this machine.{_HOW}"
_IN_MEMORY = (
    "A real NFS server (nfs-ganesha) with its files in memory, over NFSv4.1, in namespaces that any"
    f" user may make.{_HOW} Left out without root: NFSv3, a server process for each path, and a"
    " file system (the server keeps the first 2 MiB of each file)."
)
_ON_LOOPBACK = (
    "Without namespaces: not permitted here ({lacking}). The server is the benchmark's"
    " own: it answers READ from memory and discards WRITE. It listens on 127.0.0.1 and the"
    " addresses after it, and the kernel caps what it sends on each connection. Left out without"
    " namespaces: real servers (nfs-ganesha), writes (only what a server sends is capped), and a"
    " limit of the link itself, as the published figures had."
)


def demo() -> None:
    """Measure each workload on one connection and on several, and print the answer."""
    out = Screen()
    folder = run_folder(RESULTS / "demo")
    lacking, namespaces = machine.missing_privileges(), machine.may_make_namespaces()
    said = (_IN_MEMORY if namespaces else _ON_LOOPBACK) if lacking else _IN_LAB
    out.print(said.format(lacking=lacking), end="\n\n")
    place: dict[str, Any] = {"kind": LAB if namespaces else "loopback"}
    if lacking:
        place["files"] = "in the server's memory"
    workloads = IN_LAB if namespaces else ON_LOOPBACK
    make: Callable[[Workload], Place] = in_namespaces if namespaces else Loopback
    summary = measured(out, folder, workloads, make, place)
    summary.save(folder)
    write_machine(folder)
    out.print(f"\n{pages.write(folder)}", soft_wrap=True)
    if any(cell.status == "failed" for cell in summary.cells):
        raise SystemExit(1)


def measured(
    out: Console,
    folder: Path,
    workloads: Sequence[Workload],
    make: Callable[[Workload], Place],
    place: dict[str, Any],
) -> Summary:
    """Run all workloads. Each has its share of the time, and what those before it have left.

    `place` is the summary's, without limits. A workload that fails has one cell, which says why.
    Raises MissingError: it ends the demo.
    """
    started, begin = now_text(), monotonic()
    limits: dict[str, dict[str, str]] = {}
    fitted: dict[str, dict[str, Any]] = {}
    found: list[Cell] = []
    specs = [cell_of(workload, side, RUN_SECONDS) for workload in workloads for side in SIDES]
    planned = ordered(specs, REPEATS, secrets.randbelow(1 << 31))
    with Meter(out, planned, len(planned), set()) as meter:
        for number, workload in enumerate(workloads, start=1):
            own = [cell for cell in planned if cell.spec.place == workload.name]
            try:
                with make(workload) as servers:
                    servers.cpus = OWN_CPUS
                    run = _Run(workload, servers, folder, meter)
                    fit = run.fitted()
                    servers.limit(workload.limits(fit))
                    done = run.repeated(own, begin + BUDGET_SECONDS * number / len(workloads))
                for left in own[len(done) :]:
                    meter.begin(left)
                    meter.over()
                limits[workload.name] = workload.limits(fit).rates
                fitted[workload.name] = dataclasses.asdict(fit)
            except MissingError:
                with contextlib.suppress(OSError):
                    folder.rmdir()  # nothing was measured
                raise
            except (HarnessError, OSError) as error:
                why = one_line(str(error))
                out.print(f"{workload.name} was not measured: {why}")
                done = [dataclasses.replace(waiting_cell(own[0]), status="failed", why=why)]
            found += done
    place = {**place, "limits": limits, "fitted": fitted}
    return Summary("demo", "", started, now_text(), False, f"{COMMAND} demo", place, found)


@dataclasses.dataclass(frozen=True)
class _Run:
    """A workload's runs, all on one set of servers; each may raise HarnessError."""

    workload: Workload
    servers: Place
    folder: Path
    meter: Meter

    def fitted(self) -> Fit:
        """Measure both sides without limits, and fit the limits so that each can reach its own."""
        workload = self.workload
        specs = [cell_of(workload, side, FIT_SECONDS) for side in SIDES]
        probes = [PlannedCell(f"{name_of(spec.factors)}-fit", 0, 0, spec) for spec in specs]
        one, many = (measures.MB_PER_S(self._cell(probe)) or 0.0 for probe in probes)
        carried = min(many, one * parse_rate(workload.link) / parse_rate(workload.cap))
        limits = fit(
            1e6 * carried, link=workload.link, cap=workload.cap, paths=workload.connections
        )
        part = "" if workload.per_connection else f", {limits.part}"
        self.meter.console.print(
            f"{workload.name}: without limits this machine carries {one:,.0f} MB/s on one"
            f" connection, {many:,.0f} MB/s on {workload.connections}; each"
            f" {workload.capped} is capped at {rate_text(limits.cap)}{part}",
            markup=False,
        )
        return limits

    def repeated(self, planned: Sequence[PlannedCell], deadline: float) -> list[Cell]:
        """Run blocks of both sides. None begins that would end after the deadline."""
        done: list[Cell] = []
        for at in range(0, len(planned), len(SIDES)):
            begin = monotonic()
            done += [self._cell(cell) for cell in planned[at : at + len(SIDES)]]
            end = monotonic()
            if end + (end - begin) > deadline:
                break
        return done

    def _cell(self, planned: PlannedCell) -> Cell:
        self.meter.begin(planned)
        engine, tick = Engine.built(), self.meter.tick
        cell = run_cell(planned, self.servers, engine, self.folder, tick)
        self.meter.over()
        if cell.status != "done":
            raise HarnessError(f"{cell.why} ({shown(self.folder / cell.folder)})")
        return cell


# --- where they run ---


def in_namespaces(workload: Workload) -> InLab:
    """Return a lab of real servers, without root of one that keeps its files in memory."""
    memory = machine.missing_privileges() is not None
    return InLab(LabConfig(addresses=workload.many.paths, memory=memory))


class Loopback(Target):
    """The benchmark's own servers on 127.0.0.1 and up, one to an address, which have every file."""

    def __init__(self, workload: Workload):
        numbers = range(1, workload.many.paths + 1)
        self._addresses = [f"127.0.0.{number}" for number in numbers]
        self._stack = contextlib.ExitStack()
        self._sinks: list[Sink] = []

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def limit(self, limits: Limits) -> None:
        """Cap each connection, in what the servers send. They are started anew for that."""
        self._stack.close()
        self._start("--pacing", str(parse_rate(limits.per_connection or "") // 8))

    def pool(self, spec: CellSpec) -> str:
        """Return the pool of the first addresses."""
        return ",".join(sink.url for sink in self._sinks[: spec.paths])

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


Place = InLab | Loopback
