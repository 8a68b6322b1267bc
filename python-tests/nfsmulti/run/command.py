# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti run."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from nfsmulti.arguments.measure import PUBLISHED
from nfsmulti.errors import HarnessError
from nfsmulti.lab.kernels import Kind
from nfsmulti.paths import COMMAND, RESULTS, shown
from nfsmulti.report import pages
from nfsmulti.run import plan, runner, start
from nfsmulti.run.amounts import Amounts, cached
from nfsmulti.run.directory import Leftover
from nfsmulti.run.record import Record
from nfsmulti.stories import SCENARIOS, Choice, GuestPlace
from nfsmulti.stories.connections import WORKLOADS
from nfsmulti.stories.metadata import OPERATIONS
from nfsmulti.texts import duration_text

_out = Console(highlight=False, soft_wrap=True)
_INTERRUPTED = 130
# The options of their own that some take.
_TAKEN = {
    "connections": {"nconnect", "proto", "version", "mounts", "jobs", "workload"},
    "metadata": {"nconnect", "version", "mounts", "workload"},
}


@dataclass(frozen=True)
class _Options:
    """What a run is to be, and where."""

    pool: str | None
    hosts: str
    lab: bool
    repeat: int | None
    quick: bool
    label: str
    resume: bool
    factors: Sequence[str] | None
    setting: str
    set: str
    get: str
    server_command: str
    guest: str | None
    nconnect: tuple[int, ...]
    proto: tuple[str, ...]
    version: tuple[str, ...]
    mounts: bool
    jobs: tuple[int, ...]
    workload: tuple[str, ...]
    size: int | None
    runtime: float | None
    bs: int | None
    depth: tuple[int, ...]
    precondition: bool
    seed: int | None
    directory: str
    keep: bool
    published: bool
    results: Path | None
    metrics: Path | None

    @property
    def folder(self) -> Path:
        """The folder that keeps runs."""
        return self.results or RESULTS

    @property
    def given(self) -> list[str]:
        """The names of those that were given, and say what the run is."""
        values = {**vars(self), "resume": None, "results": None, "metrics": None}
        # 0 is given, although it equals False.
        return [
            name.replace("_", "-")
            for name, value in values.items()
            if value is not None and value is not False and value not in ("", ())
        ]

    def amounts(self, depths: Sequence[int]) -> Amounts:
        """Return how much cells move. Raises HarnessError."""
        if len(depths) > 1:
            given = ",".join(map(str, depths))
            raise HarnessError(
                f"--depth {given}: give one number", f"--factors iodepth={given} compares several"
            )
        depth = depths[0] if depths else None
        return Amounts(self.size, self.runtime, depth, self.bs, self.precondition)

    def request(self, scenario: str, more_factors: Sequence[str]) -> start.Request:
        """Read them. Raises HarnessError."""
        own_depths = self.depth if scenario == "metadata" else ()
        return start.Request(
            pool=self.pool,
            repeat=self.repeat,
            quick=self.quick,
            label=self.label,
            seed=self.seed,
            factors=plan.parse_factors([*(self.factors or []), *more_factors]),
            command=shlex.join([COMMAND, *sys.argv[1:]]),
            guest=Kind(self.guest or Kind.QEMU),
            hosts=self.hosts,
            setting=plan.parse_setting(self.setting, self.set, self.get),
            server_command=self.server_command,
            directory=self.directory,
            keep=self.keep,
            choice=Choice(
                self.nconnect,
                self.proto,
                self.version,
                self.jobs,
                self.mounts,
                _workloads(scenario, self.workload),
                own_depths,
            ),
            amounts=self.amounts(() if own_depths else self.depth),
        )


def run(scenario: str, more: Sequence[str], **given: Any) -> None:
    """Begin the runs that are asked for, or go on with one, and carry them out."""
    options = _Options(**given)
    _check(scenario, options)
    every = scenario == "all"
    chosen = list(PUBLISHED) if every else [scenario]
    if options.resume:
        begin = functools.partial(start.resumed, options.folder, _folder(more, chosen))
    else:
        begin = functools.partial(start.begun, options.folder, options.request(scenario, more))
    records = _begin_all(chosen, begin) if every else [begin(chosen[0])]
    again = f"{COMMAND} run {scenario} --resume"
    again += f" --results {shown(options.results)}" if options.results else ""
    sys.exit(_carry_out_all(records, again if every else "", options.metrics))


def _check(scenario: str, options: _Options) -> None:
    """Raise HarnessError where options exclude each other, or the scenario."""
    if options.pool and options.lab:
        raise HarnessError("--pool and --lab exclude each other")
    if options.hosts and not options.pool and not options.resume:
        raise HarnessError("--hosts needs a --pool that they all reach")
    if options.server_command and not options.pool and not options.resume:
        raise HarnessError(
            "--server-command needs a --pool, whose server it asks",
            "leave it out: in the kernel lab the server is asked without it",
        )
    for name in ("directory", "keep"):
        if name in options.given and not options.pool and not options.resume:
            raise HarnessError(f"--{name} needs a --pool: a lab's files go with the lab")
    if scenario == "all" and options.directory and options.keep:
        raise HarnessError("--directory with --keep is of one run, and all are several")
    if options.guest and options.pool:
        raise HarnessError("--guest is for the kernel lab, and --pool runs on your own servers")
    if options.guest and scenario != "all":
        places = SCENARIOS[scenario].places.values()
        if not any(isinstance(place, GuestPlace) for place in places):
            raise HarnessError(f"--guest: no cell of {scenario} is in the kernel lab")
    taken = _TAKEN.get(scenario, set())
    known = set().union(*_TAKEN.values())
    if wrong := [name for name in options.given if name in known - taken]:
        raise HarnessError(
            f"{_named(wrong)}: only for {_takers(wrong)}, not for {scenario}",
            "leave it out; --factors crosses the cells of any scenario with options",
        )
    if options.resume and (given := _named(options.given)):  # its plan says what it is
        raise HarnessError(
            f"--resume continues a run as it began: {given} cannot change that",
            f"leave out {given}, or start another run without --resume",
        )


def _named(options: Sequence[str]) -> str:
    return ", ".join(f"--{name}" for name in options)


def _takers(options: Sequence[str]) -> str:
    """Name the scenarios that take these options, and which they take where that is not all."""
    found = []
    for which, names in _TAKEN.items():
        if taken := [name for name in options if name in names]:
            of = "" if len(taken) == len(options) else f" ({_named(taken)})"
            found.append(f"{which}{of}")
    return " and ".join(found)


def _workloads(scenario: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """Check --workload: one name, or several operations of metadata."""
    known = OPERATIONS if scenario == "metadata" else WORKLOADS
    if not {*given} <= {*known} or (len(given) > 1 and scenario != "metadata"):
        raise HarnessError(f"--workload {','.join(given)}: give {' or '.join(known)}")
    return given


def _folder(words: Sequence[str], chosen: list[str]) -> Path | None:
    """Give the folder that --resume was given."""
    if not words:
        return None
    if len(words) > 1 or len(chosen) > 1:
        raise HarnessError("--resume continues one run: name its scenario and its folder")
    return Path(words[0])


def _begin_all(names: list[str], begin: Callable[[str], Record]) -> list[Record]:
    """Begin the runs that are possible; says of the others why they are not."""
    records = []
    for name in names:
        try:
            records.append(begin(name))
        except start.NothingToRunError as error:
            _out.print(f"left out: {error.what}", markup=False)
    if not records:
        raise HarnessError("nothing is left to run")
    return records


def _carry_out_all(records: list[Record], again: str, metrics: Path | None = None) -> int:
    """Carry out runs one after the other; gives the exit status. `again` resumes them all."""
    if len(records) > 1:
        seconds = sum(runner.expected(record) for record in records)
        _out.print(f"{len(records)} scenarios, about {duration_text(seconds)}")
    status = 0
    for record in records:
        try:
            status = max(status, _one(record, metrics), _say_leftover(record))
        except (KeyboardInterrupt, SystemExit) as stop:
            _out.print(f"stopped; continue with: {again or _resume_line(record)}", markup=False)
            _say_leftover(record)
            code = _INTERRUPTED if isinstance(stop, KeyboardInterrupt) else stop.code
            raise SystemExit(code) from None
    return status


def _one(record: Record, metrics: Path | None) -> int:
    """Carry out a run and say how it went; gives its exit status."""
    _out.print(f"[bold]{record.plan.scenario}[/bold]: {shown(record.folder)}")
    for line in record.plan.left_out:
        _out.print(f"  left out: {line}", markup=False)
    if line := cached([cell.spec for cell in record.plan.cells], record.summary):
        _out.print(f"  {line}", markup=False)
    status = 0
    try:
        runner.carry_out(record, _out, metrics)
    except HarnessError as error:
        print(f"nfsmulti: {error}", file=sys.stderr)
        status = 1
    if any(cell.status == "done" for cell in record.cells):
        status = max(status, _reported(record))
    again = _resume_line(record)
    if left := len(record.waiting()):
        _out.print(f"{left} cells were not run; continue with: {again}", markup=False)
    if failed := len(record.failed):
        _out.print(
            f"{failed} of {len(record.cells)} cells failed; run them again with: {again}",
            markup=False,
        )
    return 1 if left or failed else status


def _say_leftover(record: Record) -> int:
    """Say what the run has left on its servers; gives 1 where it was to leave nothing."""
    left = Leftover.of(record.folder)
    if left:
        _out.print(left.text(record.folder.parent.parent), markup=False)
    return int(left is not None and not record.plan.keep)


def _reported(record: Record) -> int:
    """Write the report and say its answer. What goes wrong with it is no reason to stop others."""
    folder = shown(record.folder)
    try:
        answer = pages.write(record.folder)
    except Exception as error:  # whatever it is: the figures are safe, and other runs wait
        print(f"nfsmulti: {folder}: no report: {error!r}", file=sys.stderr)
        _out.print(f"{folder} holds summary.json, each fio's output", markup=False)
        return 1
    _out.print(f"\n{answer}", markup=False)
    return 0


def _resume_line(record: Record) -> str:
    return f"{COMMAND} run {record.plan.scenario} --resume {shown(record.folder)}"
