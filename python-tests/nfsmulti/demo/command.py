# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti demo."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nfsmulti import privileges
from nfsmulti.demo.outcome import Outcome, story, table
from nfsmulti.demo.place import Loopback, Namespaces, Place
from nfsmulti.demo.workloads import (
    FIT_SECONDS,
    IN_LAB,
    ON_LOOPBACK,
    REPEATS,
    Side,
    Workload,
    fio_options,
)
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.lab import Fit, fit
from nfsmulti.machine import versions
from nfsmulti.paths import RESULTS, shown
from nfsmulti.report import cells
from nfsmulti.run.cell import run_cell
from nfsmulti.run.plan import PlannedCell
from nfsmulti.scenarios import CellSpec
from nfsmulti.summary import Cell
from nfsmulti.units import parse_rate, rate_text
from nfsmulti.wholefile import write_json

_START_SECONDS = 1.0  # what starting and ending a fio adds to a run

_IN_LAB = (
    "Real NFS servers (nfs-ganesha), in namespaces on this machine. What it carries without limits"
    " is measured first; then the link and each connection are limited to what it can carry."
)
_ON_LOOPBACK = (
    "Without namespaces, which are not permitted here ({lacking}). The server is the benchmark's"
    " own: it answers READ from memory and discards WRITE. It listens on 127.0.0.1 and up, and the"
    " kernel caps what it sends on each connection."
)
_LEFT_OUT = (
    "Left out without namespaces: real servers (nfs-ganesha), writes (only what a server sends is"
    " capped), and a link with a limit of its own, as the published figures had."
)

_NEXT_IN_LAB = """\
  ./nfsmulti lab start --link {link} --per-address {per_address}
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
    rates that the machine can carry: real ones where it may make namespaces for them (root), or
    else the benchmark's own, which any user may run. Takes less than three minutes, and leaves its
    results under results/demo/.
    """
    from nfsmulti.demo.plot import write_plot  # matplotlib takes half a second to load

    out = Console(highlight=False)
    folder = RESULTS / "demo" / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    lacking = privileges.missing()
    out.print(_ON_LOOPBACK.format(lacking=lacking) if lacking else _IN_LAB, end="\n\n")
    workloads, make = (ON_LOOPBACK, Loopback) if lacking else (IN_LAB, Namespaces)
    with _Meter(out, workloads) as meter:
        outcomes = [_Run(workload, folder, meter).outcome(make) for workload in workloads]
    write_plot(outcomes, folder / "demo.png")
    _write_summary(outcomes, folder / "summary.json")
    out.print(table(outcomes))
    for outcome in outcomes:
        out.print(f"{story(outcome)}\n", markup=False)
    if lacking:
        out.print(f"{_LEFT_OUT}\n")
    said = f"{shown(folder)} holds demo.png, summary.json, and each fio's command and output.\n"
    out.print(said, soft_wrap=True, markup=False)
    out.print("[bold]What to type next[/bold]")
    out.print(("" if lacking else _next_in_lab(outcomes)) + _NEXT, soft_wrap=True, markup=False)
    if any(outcome.why for outcome in outcomes):
        raise typer.Exit(1)


class _Meter(Progress):
    """One bar for the whole demo, which moves with time since every run's length is known."""

    def __init__(self, console: Console, workloads: Sequence[Workload]):
        columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
        super().__init__(*columns, console=console, transient=True)
        runs = [
            2 * (FIT_SECONDS + REPEATS * workload.seconds + (1 + REPEATS) * _START_SECONDS)
            for workload in workloads
        ]
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


@dataclasses.dataclass(frozen=True)
class _Run:
    """A workload's runs, all on one set of servers."""

    workload: Workload
    folder: Path
    meter: _Meter

    def outcome(self, make: Callable[[Workload], Place]) -> Outcome:
        """Run what fits the limits, then both sides in turn, so that noise falls on both alike.

        Raises HarnessError where the servers do not start.
        """
        workload = self.workload
        with make(workload) as place:
            try:
                return self._measured(place)
            except HarnessError as error:
                return Outcome(workload, why=error.what)

    def _measured(self, place: Place) -> Outcome:
        workload, one, many = self.workload, [], []
        limits = self._fit(place)
        place.limit(limits)
        for repeat in range(1, REPEATS + 1):
            one.append(self._cell(place, f"one-r{repeat}", workload.one, workload.seconds))
            many.append(self._cell(place, f"many-r{repeat}", workload.many, workload.seconds))
        return Outcome(workload, limits, one, many)

    def _fit(self, place: Place) -> Fit:
        """Measure both sides without limits, and fit the limits so that each can reach its own."""
        workload = self.workload
        one, many = (
            cells.bandwidth(self._cell(place, f"{name}-fit", side, FIT_SECONDS)) or 0.0
            for name, side in (("one", workload.one), ("many", workload.many))
        )
        carried = min(many, one * parse_rate(workload.link) / parse_rate(workload.cap))
        limits = fit(carried, link=workload.link, cap=workload.cap, paths=workload.connections)
        part = f", {limits.part}" if workload.published else ""
        self.meter.console.print(
            f"{workload.name}: without limits this machine carries {one / 1e6:,.0f} MB/s on one"
            f" connection, {many / 1e6:,.0f} MB/s on {workload.connections}; each is capped at"
            f" {rate_text(limits.cap)}{part}",
            markup=False,
        )
        return limits

    def _cell(self, place: Place, name: str, side: Side, seconds: float) -> Cell:
        """Run one fio; raises HarnessError where it fails."""
        workload = self.workload
        spec = CellSpec(
            factors={"side": side.row},
            place=workload.name,
            jobfile=workload.jobfile,
            options=fio_options(workload, side, seconds),
            seconds=seconds,
            paths=side.paths,
            files=workload.files,
        )
        self.meter.begin(side.row)
        planned = PlannedCell(f"{workload.name}-{name}", 1, 0, spec)
        cell = run_cell(planned, place, Engine.built(), self.folder, self.meter.tick)
        self.meter.end(seconds)
        if cell.status != "done":
            raise HarnessError(f"{cell.why} ({shown(self.folder / cell.folder)})")
        return cell


def _next_in_lab(outcomes: Sequence[Outcome]) -> str:
    """Give the lines that start a lab with the limits of one that the demo has fitted, if any."""
    fits = [one.fit for one in outcomes if one.fit and not one.workload.per_connection]
    if not fits:
        return ""
    limits = fits[-1].limits
    return _NEXT_IN_LAB.format(link=limits.link, per_address=limits.per_address)


def _write_summary(outcomes: Sequence[Outcome], file: Path) -> None:
    rows = {
        outcome.workload.name: {
            "why": outcome.why,
            "verdict": outcome.verdict,
            "ratio": dataclasses.asdict(outcome.ratio) if outcome.ratio else None,
            "theirs": outcome.workload.theirs,
            "busy": outcome.busy,
            "fit": dataclasses.asdict(outcome.fit) if outcome.fit else None,
            "one": [dataclasses.asdict(cell) for cell in outcome.one],
            "many": [dataclasses.asdict(cell) for cell in outcome.many],
        }
        for outcome in outcomes
    }
    write_json(file, {"versions": versions(), "rows": rows})
