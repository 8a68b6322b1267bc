# SPDX-License-Identifier: GPL-2.0-only
"""What a run writes down, summary.json and environment.json, whole at any time; and its bar."""

import contextlib
import dataclasses
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import psutil
from rich.console import Console

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.lab import guest
from nfsmulti.machine import memory, processor, versions
from nfsmulti.paths import shown, write_json
from nfsmulti.processes import claimed, run
from nfsmulti.report import conditions, measures
from nfsmulti.run.live import Live
from nfsmulti.run.place import Target
from nfsmulti.run.plan import WARM_UP_SECONDS, Plan, PlannedCell, jobfile_jobs, warm_ups
from nfsmulti.screen import Bar
from nfsmulti.summary import Cell, Summary
from nfsmulti.texts import number


class Record:
    """The plan of the run in `folder`, its summary as it was last written, and its page's answer.

    The answer is "" as long as there is none.
    """

    def __init__(self, folder: Path, plan: Plan, summary: Summary):
        self.folder, self.plan, self.summary = folder, plan, summary
        self.answer = ""

    @classmethod
    def begin(cls, folder: Path, plan: Plan, place: dict[str, Any]) -> Self:
        """Make the folder of a new run, in which every cell waits; `place` is the summary's."""
        folder.mkdir(parents=True, exist_ok=True)
        plan.save(folder)
        summary = waiting_run(plan, place)
        summary.save(folder)
        return cls(folder, plan, summary)

    @classmethod
    def resume(cls, folder: Path) -> Self:
        """Take up a run where it stopped. Raises HarnessError where there is none.

        What lies in its cells' folders is removed, and written: none may lead elsewhere.
        """
        cells = folder / "cells"
        for one in (cells, *cells.glob("*")):
            if one.is_symlink():
                raise HarnessError(f"{shown(one)} is a link, and a run's own are none: remove it")
        plan, summary = Plan.load(folder), Summary.load(folder)
        if [cell.id for cell in plan.cells] != [cell.id for cell in summary.cells]:
            raise HarnessError(f"{shown(folder)}: its plan and its summary name other cells")
        return cls(folder, plan, summary)

    @property
    def cells(self) -> list[Cell]:
        """The cells, in the order of the plan."""
        return self.summary.cells

    @property
    def failed(self) -> list[Cell]:
        """The cells that failed."""
        return [cell for cell in self.cells if cell.status == "failed"]

    def cell(self, name: str) -> Cell:
        """Return a cell by its id."""
        return next(cell for cell in self.cells if cell.id == name)

    def waiting(self, place: str | None = None) -> list[PlannedCell]:
        """Return the cells that are still to be run, of one place or of all."""
        status = {cell.id: cell.status for cell in self.cells}
        return [
            cell
            for cell in self.plan.cells
            if status[cell.id] == "waiting" and place in (None, cell.spec.place)
        ]

    def set(self, cell: Cell) -> None:
        """Write down what became of a cell."""
        cells = [cell if cell.id == one.id else one for one in self.cells]
        self._save(dataclasses.replace(self.summary, cells=cells))

    def fail(self, cell: PlannedCell, why: str) -> Cell:
        """Write down that a cell could not be run."""
        failed = dataclasses.replace(waiting_cell(cell), status="failed", why=one_line(why))
        self.set(failed)
        return failed

    def skip(self, cell: PlannedCell, why: str) -> Cell:
        """Write down that a cell was not worth running."""
        skipped = dataclasses.replace(waiting_cell(cell), status="skipped", why=why)
        self.set(skipped)
        return skipped

    def retry(self) -> None:
        """Let the cells that failed wait again."""
        failed = {cell.id for cell in self.failed}
        cells = [
            waiting_cell(plan) if plan.id in failed else cell
            for plan, cell in zip(self.plan.cells, self.cells, strict=True)
        ]
        self._save(dataclasses.replace(self.summary, cells=cells, ended=""))

    def end(self) -> None:
        """Write down that nothing waits any more."""
        self._save(dataclasses.replace(self.summary, ended=now_text()))

    def reload(self) -> None:
        """Read again what another process has written."""
        self.summary = Summary.load(self.folder)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep others from running the same, and read again what they have written till then.

        Raises HarnessError where another process runs it.
        """
        with claimed(self.folder) as mine:
            if not mine:
                raise HarnessError(f"{shown(self.folder)} is being run by another process")
            self.reload()
            yield

    def _save(self, summary: Summary) -> None:
        if summary != self.summary:
            summary.save(self.folder)
        self.summary = summary


def waiting_run(plan: Plan, place: dict[str, Any]) -> Summary:
    """Return the summary of a run in which every cell waits."""
    return Summary(
        scenario=plan.scenario,
        label=plan.label,
        started=plan.started,
        ended="",
        quick=plan.quick,
        command=plan.command,
        place=place,
        cells=[waiting_cell(cell) for cell in plan.cells],
        warm_up_s=WARM_UP_SECONDS if warm_ups(plan.cells) else 0.0,
    )


def waiting_cell(cell: PlannedCell) -> Cell:
    """Return the summary's cell of one that has not run."""
    return Cell(
        id=cell.id,
        factors=cell.spec.factors,
        repeat=cell.repeat,
        status="waiting",
        folder=f"cells/{cell.id}",
        command="",
        order=cell.order,
    )


def one_line(text: str) -> str:
    """Return the first line of a message, with the last where that follows a colon."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["nothing was said"]
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") and lines[1:] else lines[0]


def now_text() -> str:
    """Return the time as summaries have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- environment.json: what figures may depend on, of the machine and of each place ---
# A key is "machine", or the name of a place, whose part says what holds where its clients are.

_SECONDS = 20.0
_SHOWN = 24  # characters of a version or a digest
_PROC_SYS = "/proc/sys/"
_SYSCTLS = (
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/default_qdisc",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_window_scaling",
    "sunrpc/tcp_slot_table_entries",
    "sunrpc/tcp_max_slot_table_entries",
    "sunrpc/rdma_slot_table_entries",
    "vm/dirty_ratio",
    "vm/dirty_background_ratio",
    "vm/dirty_bytes",
    "vm/dirty_background_bytes",
)


def write_machine(folder: Path) -> None:
    """Write what holds for this machine."""
    told = {"processor": processor(), "memory_kb": memory() >> 10}
    _add(folder, "machine", {**versions(), **_engine(), **told})


def changed(folder: Path) -> str | None:
    """Say with which other version, engine, fio or kernel a run began, None where with none."""
    then = conditions.load(folder).get("machine", {})
    now = {**versions(), **_engine()}
    for name in ("nfsmulti", "engine_sha256", "fio", "kernel"):
        if name in then and then[name] != now[name]:
            what = name.removesuffix("_sha256")
            return f"another {what}: {then[name][:_SHOWN]}, here it is {now[name][:_SHOWN]}"
    return None


def write_place(folder: Path, name: str, place: Target) -> None:
    """Write what holds where a place's clients are: links and their limits, mounts, sysctls."""
    enter = list(place.enter)
    mounts = Path("/proc/self/mounts").read_text(errors="surrogateescape").splitlines()
    # Those that there are; the network's are their namespace's own.
    names = [f"{_PROC_SYS}{name}" for name in _SYSCTLS]
    told = _said([*enter, "grep", "-sH", "", *names]).splitlines()
    sysctls = (line.removeprefix(_PROC_SYS).partition(":") for line in told)
    found = {
        "guest": guest.described(),
        "kernel": _said([*enter, "uname", "-sr"]),
        "links": _links(enter),
        "mounts": [line for line in mounts if line.split()[2].startswith("nfs")],
        "sysctls": {name.replace("/", "."): value for name, _, value in sysctls},
        "servers": place.servers(),
    }
    _add(folder, name, found)


def _links(enter: Sequence[str]) -> list[dict[str, Any]]:
    """Return each link, with the speed in Mbit/s that its driver tells; None where it has none."""
    speeds: dict[str, int | None] = {}  # of our own namespace; none where a driver fails to tell
    with contextlib.suppress(OSError):
        if not enter:
            speeds = {name: one.speed or None for name, one in psutil.net_if_stats().items()}
    found: list[Any] = []
    with contextlib.suppress(ValueError):  # nothing, or cut off
        found = json.loads(_said([*enter, "ip", "-json", "-details", "address", "show"]))
    return [
        {
            "name": link["ifname"],
            "kind": link.get("linkinfo", {}).get("info_kind", link["link_type"]),
            "mtu": link["mtu"],
            "state": link["operstate"],
            "addresses": [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"]],
            "speed_mbit": speeds.get(link["ifname"]),
            "limits": _said([*enter, "tc", "qdisc", "show", "dev", link["ifname"]]).splitlines(),
        }
        for link in found
    ]


def _engine() -> dict[str, Any]:
    library = Engine.built().library
    built = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(library.stat().st_mtime))
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    return {"engine_built": built, "engine_sha256": digest}


def _said(argv: Sequence[str]) -> str:
    return run(argv, timeout=_SECONDS).stdout.strip()


def _add(folder: Path, name: str, part: dict[str, Any]) -> None:
    write_json(folder / conditions.FILE, {**conditions.load(folder), name: part})


# --- what a user sees of it: a bar with the time that is left, and a line for each cell ---

# What a cell takes beside its own time: fio's start and end, in a guest with an emulated processor.
_LAB_SECONDS, _GUEST_SECONDS = 1.0, 8.0
_SPARKS = 12  # of the sparkline


class Watcher:
    """Is told how a run goes on; one that is no more than this says nothing."""

    def begin(self, cell: PlannedCell) -> None:
        """Note that a cell begins, or its warm-up."""

    def tick(self, seconds: float, now: Live | None) -> None:
        """Note that it has been running for so long, and what it does, where that is known."""

    def end(self, cell: Cell) -> None:
        """Note that it has ended."""

    def note(self, line: str) -> None:
        """Pass on a line to the user."""


def expected_seconds(cells: Sequence[PlannedCell], guests: set[str]) -> float:
    """Estimate what cells take with their warm-up; `guests` are the places of the kernel lab."""
    return sum(_seconds_of(cell, guests) for cell in [*warm_ups(cells), *cells])


class Meter(Bar, Watcher):
    """The bar. It moves with time, since what a cell takes is known, and jumps at its end.

    `name` says what a cell is called.
    """

    def __init__(
        self,
        out: Console,
        cells: Sequence[PlannedCell],
        total: int,
        guests: set[str],
        name: Callable[[Cell], str],
    ):
        super().__init__(out, "starting", expected_seconds(cells, guests))
        self._total, self._guests, self.name = total, guests, name
        self._bandwidths: deque[float] = deque(maxlen=_SPARKS)
        self._seconds, self._done, self._place = 0.0, 0.0, f"{total}"

    def begin(self, cell: PlannedCell) -> None:
        """Show which cell runs."""
        self._seconds = _seconds_of(cell, self._guests)
        self._place = f"{cell.order}/{self._total}"
        self._bandwidths.clear()
        self.show(f"{self._place} {called(as_planned(cell), self.name)}")

    def tick(self, seconds: float, now: Live | None) -> None:
        """Move on, up to where the cell should end, and show what it does."""
        if now:
            self._bandwidths.append(now.rates()["bytes"])
        self.show(
            done=self._done + min(seconds, self._seconds),
            beside=now.text(self._bandwidths) if now else "",
        )

    def end(self, cell: Cell) -> None:
        """Print what the cell has found, which of a warm-up does not count."""
        self.over()
        if cell.repeat:
            self.console.print(f"{self._place:>7} {called(cell, self.name)}: {said(cell)}")

    def over(self) -> None:
        """Move to where the cell should end, without a line for it."""
        self._done += self._seconds
        self._seconds = 0.0
        self.show(done=self._done)

    def note(self, line: str) -> None:
        """Print it."""
        self.console.print(f"  {line}")


def called(cell: Cell, name: Callable[[Cell], str]) -> str:
    """Say which repeat of a cell it is, or that it is the warm-up; `name` is that of all."""
    return f"{name(cell)}, {f'repeat {cell.repeat}' if cell.repeat else 'warm-up'}"


def as_planned(cell: PlannedCell) -> Cell:
    """Return a cell that has not run, with that by which its connections are counted."""
    spec = cell.spec
    jobs = jobfile_jobs(spec.jobfile, spec.jobs).values()
    number = sum(int({**own, **spec.options}.get("numjobs") or 1) for own in jobs)
    options = {**next(iter(jobs)), **spec.options, "numjobs": number}
    command = [f"--{name}={level}" for name, level in options.items() if level is not None]
    below = "/" if spec.client in ("mount", "mounts") else ""
    paths = {f"{below}{number}": 0.0 for number in range(spec.paths)}
    return dataclasses.replace(waiting_cell(cell), command=" ".join(command), paths=paths)


def said(cell: Cell) -> str:
    """Say in a few words what became of a cell."""
    if cell.status in ("failed", "skipped"):
        return f"{cell.status.upper()}: {cell.why}"
    sides = []
    for way in (one for one in measures.WAYS if measures.sides(cell, one)):
        whose = f"{way} " if len(measures.sides(cell)) > 1 else ""
        names = f"{whose}MB/s", f"{whose}IOPS"
        of_data, iops = (number(measures.MEASURES[name](cell)) for name in names)
        data = f"{way} {of_data} MB/s, {iops} IOPS"  # which operations of metadata do not move
        sides.append(f"{iops} operations/s" if "operation" in cell.factors else data)
    if cell.arrivals and not cell.arrivals.sustained:
        sides.append(f"not sustained: {number(cell.arrivals.offered)} IOPS were offered")
    if cell.server_why:
        sides.append(f"no figures of the server: {cell.server_why}")
    return "; ".join(sides)


def _seconds_of(cell: PlannedCell, guests: set[str]) -> float:
    fios = 2 if cell.spec.entries in ("makes", "removes") else 1  # entries go, or come first
    around = _GUEST_SECONDS if cell.spec.place in guests else _LAB_SECONDS
    probe = 1 + around if cell.spec.load else 0
    return fios * (cell.spec.seconds + around) + probe
