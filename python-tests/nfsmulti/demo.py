# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti demo: where it runs, and how: within a budget of time, limits fitted as it goes.

What runs and what that shows is in stories/demo.py; cells and summary.json are those of a run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Protocol, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nfsmulti import machine
from nfsmulti.bench.sink import Sink
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.fiorun import Engine
from nfsmulti.hosts import RemoteFio
from nfsmulti.lab import Fit, LabConfig, Limits, fit
from nfsmulti.paths import COMMAND, RESULTS, as_typed, shown
from nfsmulti.report import cells
from nfsmulti.run import environment
from nfsmulti.run.cell import run_cell
from nfsmulti.run.place import InLab, Serving
from nfsmulti.run.plan import PlannedCell, name_of
from nfsmulti.run.record import now_text, one_line, waiting_cell
from nfsmulti.run.watch import Ask
from nfsmulti.stories.demo import (
    BUDGET_SECONDS,
    FIT_SECONDS,
    IN_LAB,
    LAB,
    ON_LOOPBACK,
    REPEATS,
    Outcome,
    Workload,
    cell_of,
    story,
    table,
    write_plot,
)
from nfsmulti.stories.scenario import CellSpec
from nfsmulti.summary import Cell, Summary
from nfsmulti.texts import parse_rate, rate_text

# The processors that fio and its servers may use, which can be fewer than the machine has.
OWN_CPUS = frozenset(os.sched_getaffinity(0))
_START_SECONDS = 1.0  # what starting and ending a fio adds to a run

_IN_LAB = (
    "Real NFS servers (nfs-ganesha), in namespaces on this machine. The demo first measures what"
    " the machine carries without limits, then caps the link and each path (for randread each"
    " connection) at rates that it can carry."
)
_IN_MEMORY = (
    "A real NFS server (nfs-ganesha) with its files in memory, over NFSv4.1, in namespaces that any"
    " user may make. The demo first measures what this machine carries without limits, then caps"
    " the link and each path (for randread each connection) at rates that it can carry."
)
_ON_LOOPBACK = (
    "Without namespaces: not permitted here ({lacking}). The server is the benchmark's"
    " own: it answers READ from memory and discards WRITE. It listens on 127.0.0.1 and the"
    " addresses after it, and the kernel caps what it sends on each connection."
)
_LEFT_OUT_IN_MEMORY = (
    "Left out without root: NFSv3, a server process for each path, and a file system (the server"
    " keeps the first 2 MiB of each file)."
)
_LEFT_OUT = (
    "Left out without namespaces: real servers (nfs-ganesha), writes (only what a server sends is"
    " capped), and a limit of the link itself, as the published figures had."
)

_NEXT_IN_LAB = """\
  ./nfsmulti lab start --link {link} --per-address {per_address} --assured {assured} \
--burst {burst}
  ./nfsmulti lab exec -- fio --ioengine=external:./build/libnfsmulti.so --pool=lab \
--spread=stripe jobfiles/fsperf.fio
  ./nfsmulti lab stop
"""
_NEXT = """\
With a server of your own:
  ./nfsmulti doctor --pool='nfs://SERVER/EXPORT'
  fio --ioengine=external:./build/libnfsmulti.so --pool='nfs://10.0.0.[1-4]/EXPORT' \
--spread=roundrobin jobfiles/fsperf.fio"""


def demo() -> None:
    """Run the dd, fsperf and randread jobfiles on one connection and on several, side by side.

    Starts NFS servers on this machine and limits them as the published stories were limited, at
    rates that the machine can carry: real ones if it may make namespaces for them, otherwise the
    benchmark's own, which any user may run. Takes less than three minutes, with fewer
    repeats on a slow machine, and leaves its results under results/demo/.
    """
    out = Console(highlight=False)
    folder = RESULTS / "demo" / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    started = now_text()
    lacking, namespaces = machine.missing_privileges(), machine.may_make_namespaces()
    said, left_out = _IN_LAB, ""
    if lacking:
        said, left_out = (
            (_IN_MEMORY, _LEFT_OUT_IN_MEMORY) if namespaces else (_ON_LOOPBACK, _LEFT_OUT)
        )
    out.print(said.format(lacking=lacking), end="\n\n")
    workloads, make = (IN_LAB, Namespaces) if namespaces else (ON_LOOPBACK, Loopback)
    outcomes = measured(out, folder, workloads, make)
    write_plot(outcomes, folder / "demo.png")
    _save(outcomes, folder, started, namespaces=namespaces)
    out.print(table(outcomes))
    for outcome in outcomes:
        out.print(f"{story(outcome)}\n", markup=False)
    if left_out:
        out.print(f"{left_out}\n")
    said = f"{shown(folder)} holds demo.png, summary.json, and each fio's command and output.\n"
    out.print(said, soft_wrap=True, markup=False)
    out.print("[bold]What to type next[/bold]")
    to_type = (next_in_lab(outcomes) if namespaces else "") + _NEXT
    out.print(as_typed(to_type), soft_wrap=True, markup=False)
    if any(outcome.why for outcome in outcomes):
        raise typer.Exit(1)


def measured(
    out: Console, folder: Path, workloads: Sequence[Workload], make: Callable[[Workload], Place]
) -> list[Outcome]:
    """Run all workloads. Each has its share of the time, and what those before it have left."""
    outcomes, begin = [], monotonic()
    with _Meter(out, workloads) as meter:
        for number, workload in enumerate(workloads, start=1):
            deadline = begin + BUDGET_SECONDS * number / len(workloads)
            outcomes.append(_Run(workload, folder, meter, deadline).outcome(make))
            meter.leave(workload)
    return outcomes


class _Meter(Progress):
    """One bar for the whole demo, which moves with time since every run's length is known."""

    def __init__(self, console: Console, workloads: Sequence[Workload]):
        columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
        super().__init__(*columns, console=console, transient=True)
        runs = [
            2 * (FIT_SECONDS + REPEATS * workload.seconds + (1 + REPEATS) * _START_SECONDS)
            for workload in workloads
        ]
        names = [workload.name for workload in workloads]
        self._ends = dict(zip(names, itertools.accumulate(runs), strict=True))
        self._task = self.add_task("starting servers", total=sum(runs))
        self._done = 0.0

    def begin(self, description: str) -> None:
        """Say what runs."""
        self.update(self._task, description=description)

    def tick(self, seconds: float) -> None:
        """Note that it has been running for so long."""
        self.update(self._task, completed=self._done + seconds)

    def end(self, seconds: float) -> None:
        """Note that it has ended, which should have taken so long."""
        self._done += seconds + _START_SECONDS
        self.update(self._task, completed=self._done)

    def leave(self, workload: Workload) -> None:
        """Note that a workload has ended, with all its runs or with fewer."""
        self._done = self._ends[workload.name]
        self.update(self._task, completed=self._done)


@dataclasses.dataclass(frozen=True)
class _Run:
    """A workload's runs, all on one set of servers. No repeat begins that would end too late.

    `deadline` is when, by the monotonic clock.
    """

    workload: Workload
    folder: Path
    meter: _Meter
    deadline: float

    def outcome(self, make: Callable[[Workload], Place]) -> Outcome:
        """Run what fits the limits, then blocks of both sides, in random order.

        The outcome says why where that fails. Raises MissingError: it ends the demo.
        """
        try:
            with make(self.workload) as place:
                return self._measured(place)
        except MissingError:
            raise
        except (HarnessError, OSError) as error:
            return Outcome(self.workload, why=one_line(str(error)))

    def _measured(self, place: Place) -> Outcome:
        workload = self.workload
        one: list[Cell] = []
        many: list[Cell] = []
        fitted = self._fit(place)
        limits = place.limit(fitted)
        for repeat in range(1, REPEATS + 1):
            begin = monotonic()
            for side, kept in random.sample([("one", one), ("many", many)], 2):
                kept.append(self._cell(place, side, workload.seconds, repeat))
            end = monotonic()
            if end + (end - begin) > self.deadline:
                break
        return Outcome(workload, fitted, one, many, limits=limits)

    def _fit(self, place: Place) -> Fit:
        """Measure both sides without limits, and fit the limits so that each can reach its own."""
        workload = self.workload
        one, many = (
            cells.bandwidth(self._cell(place, side, FIT_SECONDS)) or 0.0 for side in ("one", "many")
        )
        carried = min(many, one * parse_rate(workload.link) / parse_rate(workload.cap))
        limits = fit(carried, link=workload.link, cap=workload.cap, paths=workload.connections)
        part = f", {limits.part}" if workload.published else ""
        self.meter.console.print(
            f"{workload.name}: without limits this machine carries {one / 1e6:,.0f} MB/s on one"
            f" connection, {many / 1e6:,.0f} MB/s on {workload.connections}; each"
            f" {workload.capped} is capped at {rate_text(limits.cap)}{part}",
            markup=False,
        )
        return limits

    def _cell(self, place: Place, side: str, seconds: float, repeat: int = 0) -> Cell:
        """Run one fio, which fits the limits where it is no repeat; raises HarnessError."""
        workload = self.workload
        spec = cell_of(workload, side, seconds)
        self.meter.begin((workload.one if side == "one" else workload.many).row)
        name = f"{name_of(spec.factors)}-{f'r{repeat}' if repeat else 'fit'}"
        planned = PlannedCell(name, repeat, 0, spec)
        cell = run_cell(planned, place, Engine.built(), self.folder, self.meter.tick, cpus=OWN_CPUS)
        self.meter.end(seconds)
        if cell.status != "done":
            raise HarnessError(f"{cell.why} ({shown(self.folder / cell.folder)})")
        return cell


def next_in_lab(outcomes: Sequence[Outcome]) -> str:
    """Give the lines that start a lab with the limits fitted for fsperf.fio, if that has run."""
    fits = [one.fit for one in outcomes if one.fit and one.workload.jobfile == "fsperf.fio"]
    return _NEXT_IN_LAB.format(**dataclasses.asdict(fits[0].limits)) if fits else ""


def _save(outcomes: Sequence[Outcome], folder: Path, started: str, *, namespaces: bool) -> None:
    """Write summary.json and environment.json, as of a run: `compare` and `report` take them."""
    fits = {one.workload.name: one.fit for one in outcomes if one.fit}
    place = {
        "kind": LAB if namespaces else "loopback",
        **({"files": "in the server's memory"} if machine.missing_privileges() else {}),
        "limits": {one.workload.name: dict(one.limits) for one in outcomes if one.fit},
        "fitted": {name: dataclasses.asdict(fit) for name, fit in fits.items()},
    }
    found = [cell for one in outcomes for cell in _cells(one)]
    numbered = [dataclasses.replace(cell, order=n) for n, cell in enumerate(found, start=1)]
    command = f"{COMMAND} demo"
    Summary("demo", "", started, now_text(), False, command, place, numbered).save(folder)
    environment.write_machine(folder)


def _cells(outcome: Outcome) -> list[Cell]:
    """Give the cells of a workload; where it was not measured, one that says why."""
    if not outcome.why:
        return [*outcome.one, *outcome.many]
    name = outcome.workload.name
    failed = PlannedCell(f"{name}-one-r1", 1, 0, cell_of(outcome.workload, "one", 0))
    return [dataclasses.replace(waiting_cell(failed), status="failed", why=outcome.why)]


# --- where they run ---


class Place(Serving, Protocol):
    """A place that starts without limits."""

    def limit(self, fit: Fit) -> dict[str, str]:
        """Limit it, between two fios: gives the rates by name. Raises HarnessError."""
        ...


class Namespaces(InLab):
    """A lab of real servers: of one that keeps its files in memory for those who are not root."""

    def __init__(self, workload: Workload):
        memory = machine.missing_privileges() is not None
        super().__init__(LabConfig(addresses=workload.addresses, memory=memory))
        self._per_connection = workload.per_connection

    def limit(self, fit: Fit) -> dict[str, str]:
        """Cap each address, behind a link, or each connection."""
        fitted = fit.limits
        cap = Limits(per_connection=fitted.per_address, burst=fitted.burst)
        limits = cap if self._per_connection else fitted
        self._lab.limit(limits)
        return limits.rates


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

    def limit(self, fit: Fit) -> dict[str, str]:
        """Cap each connection, in what the servers send. They are started anew for that."""
        self._stack.close()
        self._start("--pacing", str(fit.cap // 8))
        return {"per_connection": fit.limits.per_address or ""}

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
