# SPDX-License-Identifier: GPL-2.0-only
"""Carries out what waits in a run: place by place, each cell in the plan's order, past failures."""

import contextlib
import dataclasses
import functools
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from nfsmulti import typed
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.fiorun import Engine
from nfsmulti.lab.guest import GuestConfig, run_in_guest
from nfsmulti.paths import write_whole
from nfsmulti.processes import end_politely
from nfsmulti.report.pages import naming
from nfsmulti.run import clients, offered, preflight
from nfsmulti.run.cell import run_cell
from nfsmulti.run.directory import Leftover, run_directory
from nfsmulti.run.live import Live
from nfsmulti.run.place import InGuest, InLab, OnHosts, OnPool, Target, split_pool
from nfsmulti.run.plan import PLAIN, Plan, PlannedCell, Setting, warm_ups, warmed
from nfsmulti.run.record import Meter, Record, Watcher, expected_seconds, waiting_cell, write_place
from nfsmulti.run.watch import answer
from nfsmulti.scenario import OWN, GuestPlace
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Cell, Factor
from nfsmulti.texts import duration_text

# A boot may take so many times what is expected, and so much longer. A cell that hangs is ended by
# the harness inside; this ends a guest in which that hangs too.
_PATIENCE, _SPARE_SECONDS = 5.0, 600.0


def run_in_place(
    record: Record, name: str, make: Callable[[], Target], engine: Engine, watcher: Watcher
) -> None:
    """Run the waiting cells of the place `name`, which `make` gives, and again whenever it dies.

    A cell that fails is recorded, and the next one follows; one whose block's setting could not be
    turned has failed too. Raises HarnessError where the place does not start at all; where it does
    not start again, the rest has failed.
    """
    waiting = record.waiting(name)
    first = True
    while waiting:
        with contextlib.ExitStack() as stack:
            try:
                place = stack.enter_context(make())
            except HarnessError as error:
                if first:
                    raise
                for cell in waiting:
                    watcher.begin(cell)
                    watcher.end(record.fail(cell, f"{name} did not start again: {error.what}"))
                return
            first = False
            write_place(record.folder, name, place)
            setting, controller = record.plan.setting, None
            if setting:
                controller = stack.enter_context(
                    SettingController(setting, record.folder, watcher.note)
                )
            runs = _Runs(record, place, engine, watcher, controller)
            if runs.warm_up(waiting):
                runs.until_trouble(waiting)


@dataclasses.dataclass(frozen=True)
class _Runs:
    """The runs in one place, for as long as it serves."""

    record: Record
    place: Target
    engine: Engine
    watcher: Watcher
    controller: "SettingController | None"

    def warm_up(self, waiting: list[PlannedCell]) -> bool:
        """Run each combination once, shortly, for nothing; False where the place serves no more.

        The cell whose warm-up ended it has then failed, and is off the list. Where a warm-up fails
        otherwise the others go on, and the cell's own run says why; cells that need what the server
        turns out to lack are skipped, and off the list. Raises HarnessError where none worked.
        """
        tried: list[Cell] = []
        first: dict[str, Cell] = {}
        for planned in warm_ups(waiting):
            optional = planned.spec.optional
            if optional in first and first[optional].status != "done":
                continue
            cell = self._run(planned)
            self.watcher.end(cell)
            tried.append(cell)
            if optional:
                first.setdefault(optional, cell)
            shutil.rmtree(self.record.folder / cell.folder, ignore_errors=True)
            if why := self.place.trouble():
                failed = warmed(planned, waiting)
                waiting.remove(failed)
                self.watcher.end(self.record.fail(failed, f"in its warm-up: {why}"))
                return False
        if tried and all(one.status != "done" for one in tried):
            raise HarnessError(f"no cell can be run: {tried[0].why}", self.place.remedy)
        lacking = {name: cell.why or "" for name, cell in first.items() if cell.status != "done"}
        for name, why in lacking.items():
            self.watcher.note(f"{name} is not measured: {why}")
        for planned in [one for one in waiting if one.spec.optional in lacking]:
            waiting.remove(planned)
            self.record.skip(planned, lacking[planned.spec.optional])
        return True

    def until_trouble(self, waiting: list[PlannedCell]) -> None:
        """Run cells, and take them off the list, until there are none or the place has trouble."""
        probes = offered.Probes(self._probe, self.watcher.note)
        while waiting:
            cell = waiting.pop(0)
            if why := offered.pointless(cell, self.record.cells):
                self.watcher.begin(cell)
                self.watcher.end(self.record.skip(cell, why))
                continue
            try:
                if self.controller:
                    self.controller.turn(cell)
                cell = offered.at_load(cell, self.record.cells, self.record.plan.seed)
                probes.wait(cell)
            except HarnessError as error:
                self.watcher.begin(cell)
                self.watcher.end(self.record.fail(cell, error.what))
                continue
            done = self._run(cell)
            self.record.set(done)
            self.watcher.end(done)
            if self.place.trouble():
                return

    def _try(self, planned: PlannedCell) -> Cell:
        """Run a cell once, of what may be several tries."""
        return run_cell(planned, self.place, self.engine, self.record.folder, self.watcher.tick)

    def _probe(self, planned: PlannedCell) -> Cell:
        """Run a cell that counts for nothing."""
        cell = run_cell(planned, self.place, self.engine, self.record.folder, lambda *_: None)
        shutil.rmtree(self.record.folder / cell.folder, ignore_errors=True)
        return cell

    def _run(self, planned: PlannedCell) -> Cell:
        self.watcher.begin(planned)
        for _ in range(planned.spec.tries):
            cell = self._try(planned)
            if cell.status == "done":
                break
        if cell.status != "done" and planned.spec.partial:
            cell = clients.as_many_as_are_taken(planned, cell, self._try, self.record.folder)
        return cell


def expected(record: Record) -> float:
    """Estimate the seconds that the cells take that are not done."""
    done = {cell.id for cell in record.cells if cell.status in ("done", "skipped")}
    left = [cell for cell in record.plan.cells if cell.id not in done]
    return expected_seconds(left, guests(record.plan))


def carry_out(
    record: Record,
    out: Console,
    make: Callable[[], Target] | None = None,
) -> None:
    """Run all cells that wait or have failed before; its folder is claimed.

    `make` gives the place of every cell, where it is none of the scenario's.
    Raises HarnessError where places did not start, after the cells of the others: what waits there
    can be resumed.
    """
    missed: list[HarnessError] = []
    plan = record.plan
    seconds = duration_text(expected(record))
    record.retry()
    left = record.waiting()

    out.print(f"  {len(left)} of {len(plan.cells)} cells to run, about {seconds}")
    with Meter(
        out, left, len(plan.cells), guests(plan), lambda cell: naming(record.summary)(cell)
    ) as meter:
        for name in plan.places:
            try:
                if not record.waiting(name):
                    continue
                if make:
                    run_in_place(record, name, make, Engine.built(), meter)
                else:
                    _run_place(record, name, meter)
            except HarnessError as error:
                missed.append(error)
    if missed:
        raise missed[0] if len(missed) == 1 else HarnessError("; ".join(map(str, missed)))
    record.end()


def _run_place(record: Record, name: str, watcher: Watcher) -> None:
    """Run what waits in one place, where that is."""
    engine = Engine.built()
    if name == OWN:
        _run_on_pool(record, engine, watcher)
        return
    place = SCENARIOS[record.plan.scenario].places[name]
    if isinstance(place, GuestPlace):
        run_in_guests(record, name, place, watcher)
        return
    run_in_place(record, name, functools.partial(InLab, place), engine, watcher)


def _run_on_pool(record: Record, engine: Engine, watcher: Watcher) -> None:
    """Run what waits on a user's pool, in a directory that is there for as long as the run."""
    plan = record.plan
    pool, command = plan.pool or "", plan.server_command
    if "/" not in pool:  # a name, which the environment may forget
        pool = ",".join(split_pool(pool))
    place = OnPool(pool)
    if left := Leftover.of(record.folder):  # of an earlier try, whose files take room
        preflight.reach(plan, place)  # in better words than a removal's
        left.remove(record.folder)
    wanted = preflight.check(plan, place, watcher.note)
    asked = wanted.pool  # it may have no other version, or security
    make: Callable[[], Target]
    with run_directory(record.folder, asked, wanted.bytes) as name:
        watcher.note(f"its files go to {name}/ ({wanted.text()}), which is removed at the end")
        make = functools.partial(OnPool, pool, command, name)
        if plan.hosts:
            hosts = record.folder.absolute() / "hosts"
            make = functools.partial(OnHosts, asked, plan.hosts, engine, hosts, command, name)
        run_in_place(record, OWN, make, engine, watcher)


def guests(plan: Plan) -> set[str]:
    """Return the places of a run that are kernel labs."""
    scenario = SCENARIOS.get(plan.scenario)  # None: a bench's
    places = scenario.places if scenario else {}
    return {name for name, place in places.items() if isinstance(place, GuestPlace)}


# --- a server's setting as a factor: turned before each block, and at the end back ---
# A block is all cells under one value in one repeat. A command runs where the harness does: on this
# machine for a pool or a lab, in the guest for the kernel lab. It fails where it ends with another
# status than 0 or takes too long, or where what --get then prints is another value.
#
# --get prints the value and nothing else: its output is also what is set again at the end. Of a
# file that lists all values, as "none [mq-deadline]", a command that cuts out the current one is
# needed.

_SETTING_SECONDS = 30.0
_BEFORE = "setting.before"  # while a run goes on, or was killed


class SettingController:
    """Turns a setting from `with` until its end, which puts it back and tells `say` so.

    To enter raises HarnessError where --get fails; to leave, where the setting could not be put
    back: an exception that is under way goes first. `folder` is the run's: a run that was killed
    leaves there what the setting was.
    """

    def __init__(self, setting: Setting, folder: Path, say: Callable[[str], None]):
        self._setting, self._file, self._say = setting, folder / _BEFORE, say
        self._before: str | None = None  # its value before the run, None where nobody knows
        self._block: tuple[int, Factor] | None = None
        self._trouble: HarnessError | None = None

    def __enter__(self) -> Self:
        if not self._setting.get:
            return self
        if not self._file.exists():  # else of a run that was killed
            before = self._value()
            if not PLAIN.fullmatch(before):
                raise HarnessError(
                    f"--get {self._setting.get}: it printed {before!r}, which cannot be restored",
                    "give a command that prints only the value",
                )
            write_whole(self._file, before)
        self._before = typed.read_text(self._file)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        name, value, why = self._setting.name, self._before, "as it was before"
        if value is None:
            value = str(self._setting.values[0])
            why = "the first value: without --get its original is unknown"
        try:
            self._set(value)
        except HarnessError as error:
            what = f"{name} is NOT restored to {value}: {error.what}"
            missed = HarnessError(what, self._setting.command(value))
            if not kind:
                raise missed from None
            self._say(str(missed))
        else:
            self._file.unlink(missing_ok=True)
            self._say(f"{name} is restored to {value}, {why}")

    def turn(self, cell: PlannedCell) -> None:
        """Set the value of the cell's block, once for all its cells; HarnessError if it failed."""
        value = cell.spec.factors[self._setting.name]
        if self._block != (cell.repeat, value):
            self._block, self._trouble = (cell.repeat, value), None
            try:
                self._set(value)
            except HarnessError as error:
                self._trouble = error
        if self._trouble:
            raise self._trouble

    def _set(self, value: Factor) -> None:
        """Set a value, and see that it holds."""
        option = f"--set {self._setting.name}={value}"
        _said(self._setting.command(value), option)
        wanted = " ".join(str(value).split())
        if self._setting.get and (said := self._value()) != wanted:
            raise HarnessError(f"{option}: --get then says {said!r}")

    def _value(self) -> str:
        """Return what --get prints; several numbers, as sysctls have, are one blank apart."""
        return " ".join(_said(self._setting.get, "--get").split())


def _said(command: str, option: str) -> str:
    """Run a command of the user, and give its output. Raises HarnessError."""
    return answer(["sh", "-c", command], f"{option}: `{command}`", _SETTING_SECONDS)


# --- cells in a guest of the kernel lab, all in one boot, by the harness there ---
# That is this file as a program: `python -m` FOLDER PLACE. It writes into the folder of the run,
# which the guest shares, and prints a JSON line for each event: {"begin": cell},
# {"tick": seconds, "now": a Live}, {"end": cell}, {"note": line}.


def run_in_guests(record: Record, name: str, place: GuestPlace, watcher: Watcher) -> None:
    """Run the waiting cells of the place `name`: in one boot, or in more where a guest dies.

    The cell under way has then failed. Raises HarnessError where a guest runs no cell.
    """
    while waiting := record.waiting(name):
        stream = ProgressStream(record, waiting, watcher)
        why = _boot(record, name, place, stream, waiting)
        record.reload()
        if cell := stream.under_way:
            cell = cell if cell.repeat else warmed(cell, waiting)
            watcher.end(record.fail(cell, why))
        elif len(record.waiting(name)) == len(waiting):
            raise HarnessError(f"{record.plan.scenario}, {name}: {why}")


def _boot(
    record: Record,
    name: str,
    place: GuestPlace,
    stream: "ProgressStream",
    waiting: Sequence[PlannedCell],
) -> str:
    """Run one guest; say why it ended, for the case that this was too early."""
    folder = record.folder.absolute()
    mounts = [mount for group in place.mounts.values() for mount in group]
    config = GuestConfig(
        # Where links are limited, the mounts need these links first: place.py makes both.
        mounts=() if place.limits else tuple(mounts),
        results=folder,
        timeout=_PATIENCE * expected_seconds(waiting, {name}) + _SPARE_SECONDS,
    )
    command = [sys.executable, "-m", "nfsmulti.run.runner", str(folder), name]
    with tempfile.TemporaryFile() as said:
        try:
            status = run_in_guest(command, config, stdout=stream, stderr=said)
        except MissingError:
            raise
        except HarnessError as error:
            return error.what
        said.seek(0)
        last = said.read().decode(errors="replace").strip().splitlines()[-1:]
    return f"the harness in the guest ended with status {status}: {''.join(last)}"


class ProgressStream(io.BytesIO):
    """Takes what the harness in the guest prints (see _Lines) to a watcher."""

    def __init__(self, record: Record, cells: Sequence[PlannedCell], watcher: Watcher):
        super().__init__()
        self._record, self._watcher = record, watcher
        self._cells = {cell.id: cell for cell in [*warm_ups(cells), *cells]}
        self._rest = b""
        self.under_way: PlannedCell | None = None

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        """Take some output, which may end within a line."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._tell(json.loads(line))
        return len(data)

    def _tell(self, event: dict[str, Any]) -> None:
        if "begin" in event:
            self.under_way = self._cells[event["begin"]]
            self._watcher.begin(self.under_way)
        elif "tick" in event:
            now = event["now"]
            self._watcher.tick(event["tick"], Live(**now) if now else None)
        elif "note" in event:
            self._watcher.note(event["note"])
        else:
            planned, self.under_way = self._cells[event["end"]], None
            self._record.reload()
            done = self._record.cell(planned.id) if planned.repeat else waiting_cell(planned)
            self._watcher.end(done)


class _Lines(Watcher):
    """Tells the harness outside what happens in the guest: a ProgressStream reads it."""

    def begin(self, cell: PlannedCell) -> None:
        self._say(begin=cell.id)

    def tick(self, seconds: float, now: Live | None) -> None:
        self._say(tick=seconds, now=dataclasses.asdict(now) if now else None)

    def end(self, cell: Cell) -> None:
        self._say(end=cell.id)

    def note(self, line: str) -> None:
        self._say(note=line)

    @staticmethod
    def _say(**event: Any) -> None:
        print(json.dumps(event), flush=True)


def _main() -> None:
    """Run what waits in one place of a run, in a guest. Exit status 1 where that does not start."""
    end_politely()
    folder, name = sys.argv[1:]
    record = Record.resume(Path(folder))
    place = SCENARIOS[record.plan.scenario].places[name]
    assert isinstance(place, GuestPlace)
    try:
        make = functools.partial(InGuest, place)
        run_in_place(record, name, make, Engine.built(), _Lines())
    except HarnessError as error:
        sys.exit(f"nfsmulti: {error}")


if __name__ == "__main__":
    _main()
