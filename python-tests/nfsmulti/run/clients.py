# SPDX-License-Identifier: GPL-2.0-only
"""The NFS clients of a cell: who was served, how evenly, and what a restart of the server did.

The restart begins after a third of the cell's time. Its times are of CLOCK_MONOTONIC, which all
processes of a machine share. The new clients are a second fio, which begins when the restart is
done and may outlast the cell's own fio.
"""

import contextlib
import dataclasses
import re
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Self

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import ConnectionStats, FioProcess
from nfsmulti.run import watch
from nfsmulti.run.place import Target
from nfsmulti.run.plan import Plan, PlannedCell
from nfsmulti.scenario import CellSpec
from nfsmulti.stats import jain
from nfsmulti.stories.clients import JOB, NEIGHBOURS, NEW
from nfsmulti.summary import Cell, Clients, Factor, Restart

_PART = 3  # the restart begins after 1/3 of the cell's time
_POLL_SECONDS = 0.1
_LAST_SECONDS = 300.0  # that new clients may wait beyond the cell: over three default grace periods


def most(plan: Plan) -> int:
    """Return how many clients, and connections of neighbours, a run's server has, at most."""
    return max(_together(cell.spec) for cell in plan.cells)


def _together(spec: CellSpec) -> int:
    """Count those of a cell, with the clients that leave at its restart, or come after it."""
    count = int(spec.options.get("nclients") or 0)
    if NEIGHBOURS in spec.jobs:
        count += int(spec.own[NEIGHBOURS]["nconnect"] or 1) * spec.paths
    beside = spec.absent + NEW if spec.restart else 0
    return count * int(spec.options.get("numjobs") or 1) + beside


def figures(stats: Sequence[ConnectionStats]) -> Clients | None:
    """Return what became of a cell's clients; None if there are none, or none did anything."""
    lines = [one for one in stats if one.client is not None]
    ops = [one.read_ops + one.write_ops + one.meta_ops for one in lines]
    if not any(ops):
        return None
    return Clients(
        asked=len(ops),
        served=sum(done > 0 for done in ops),
        slowest=min(ops) * len(ops) / sum(ops),
        jain=jain(ops),
    )


# --- a server that takes fewer clients ---


def as_many_as_are_taken(
    planned: PlannedCell, failed: Cell, run: Callable[[PlannedCell], Cell], folder: Path
) -> Cell:
    """Run a cell that `failed` again, with as many clients as the engine says the server takes.

    `folder` is that of the run. Returns `failed` if the engine has not said how many.
    """
    log = folder / failed.folder / "stderr"
    said = log.read_text(errors="replace") if log.exists() else ""
    taken = re.search(r"nfsmulti: .*: (\d+) of (\d+) clients were served", said)
    if not taken:
        return failed
    count, asked = map(int, taken.groups())
    cell = run(_with(planned, count, asked))
    if not cell.clients:
        return cell
    why = (failed.why or "").rpartition("nfsmulti: ")[2]
    served = dataclasses.replace(cell.clients, asked=asked, why=why)
    return dataclasses.replace(cell, clients=served)


def _with(planned: PlannedCell, count: int, asked: int) -> PlannedCell:
    """Return the cell with fewer clients than were asked for; each client keeps its rate."""
    spec, own = planned.spec, dict(planned.spec.own)
    depth = int(spec.options["client_depth"] or 1) * count
    if JOB in own:
        rate = int(own[JOB]["arrival_rate"] or 0) * count // asked
        own[JOB] = {**own[JOB], "arrival_rate": rate}
    options = {**spec.options, "nclients": count, "iodepth": depth}
    paths = min(count, spec.paths)  # the engine refuses fewer clients than paths
    fewer = dataclasses.replace(spec, options=options, own=own, paths=paths)
    return dataclasses.replace(planned, spec=fewer)


class Restarting:
    """Restarts the server in the middle of a cell, if it is to be: one step at each poll().

    `start` begins a fio for some cell, in a folder. While the server is `down`, it is no trouble
    that it does not run. Its end waits for that of the restart, since the next cell needs a server,
    and raises HarnessError where the restart fails; a signal ends the restart, too.
    """

    def __init__(
        self, spec: CellSpec, place: Target, folder: Path,
        start: Callable[[CellSpec, Path], FioProcess],
    ):  # fmt: skip
        self._spec, self._place, self._folder, self._start = spec, place, folder, start
        self._others = contextlib.ExitStack()
        self._began = self._took = 0.0
        self._new: FioProcess | None = None
        self.down = False
        self._steps = self._all_steps()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._others, contextlib.closing(self._steps):
            if not kind or issubclass(kind, Exception):
                self._finish()

    def poll(self) -> None:
        """Take the next step. Raises HarnessError if the server could not be restarted."""
        next(self._steps, None)
        self._begin_new()

    def _finish(self) -> None:
        """Wait for the end of a restart that has begun. Raises HarnessError where it fails."""
        if self.down:
            for _ in self._steps:
                time.sleep(_POLL_SECONDS)

    def _all_steps(self) -> Generator[None]:
        if not self._spec.restart:
            return
        # As a thread the job dies with its fio: its clients cannot tell the server that they leave.
        many = self._spec.absent
        leaving = self._begin("absent", many, thread=1) if many else None
        while not self._under_way(leaving):
            yield
        if leaving:
            leaving.kill()
        self.down, self._began = True, time.monotonic()
        yield from self._place.restart(self._spec.restart)
        self.down, self._took = False, time.monotonic() - self._began

    def _begin_new(self) -> None:
        """Start the new clients once, when the restart is done."""
        if self._took and not self._new:
            self._new = self._begin("new", NEW, number_ios=NEW, runtime=None, time_based=None)

    def _under_way(self, leaving: FioProcess | None) -> bool:
        """Tell whether to restart now. Raises HarnessError if the absent clients have ended."""
        if leaving and (status := leaving.wait(0)) is not None:
            why = leaving.result(0).reason
            raise HarnessError(
                f"the --absent clients ended before the restart ({status}): {why}",
                "see whether the server takes more clients",
            )
        if leaving and not watch.seconds_of_io(leaving.folder):
            return False
        return watch.seconds_of_io(self._folder) >= self._spec.seconds / _PART

    def _begin(self, name: str, clients: int, **more: Factor | None) -> FioProcess:
        """Start this many more clients beside those of the cell, with options of their own."""
        own = {"nclients": clients, "iodepth": clients, "numjobs": None}
        options = {**self._spec.options, **more, **own}
        paths = min(clients, self._spec.paths)
        spec = dataclasses.replace(self._spec, options=options, jobs=[JOB], own={}, paths=paths)
        return self._others.enter_context(self._start(spec, self._folder / name))

    def told(self, stats: Sequence[ConnectionStats]) -> Restart | None:
        """Wait for the restart and the new clients, and return what was found; HarnessError.

        The cell's fio may end right before the command does: it is done as soon as the server is.
        """
        if not self._spec.restart:
            return None
        self._finish()
        self._begin_new()
        if not self._new:
            raise HarnessError(
                "the cell ended before the server was restarted", "use a longer --runtime"
            )
        new = self._new.result(_LAST_SECONDS)
        if new.status:
            raise HarnessError(
                f"the clients that began after the restart failed: {new.reason}",
                "see whether the server takes more clients",
            )
        began = 1e6 * self._began
        clients = [one for one in stats if one.job == JOB and one.lost_at_us]
        lost = [one for one in clients if one.lost_at_us[-1] >= began]  # by the restart
        back = [one.ended_at_us[-1] for one in lost]
        first = [(one.begun_at_us, one.first_io_at_us) for one in new.stats]
        return Restart(
            took_s=round(self._took, 3),
            known=len(lost),
            back_s=sorted(round((at - began) / 1e6, 3) for at in back if at is not None),
            absent=self._spec.absent,
            new=NEW,
            waited_s=sorted(round((at - at_0) / 1e6, 3) for at_0, at in first if at is not None),
        )
