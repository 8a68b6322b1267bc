# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti run."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from nfsmulti.errors import HarnessError
from nfsmulti.lab.kernels import GUEST_HELP, Kind
from nfsmulti.options import by_fields
from nfsmulti.paths import COMMAND, RESULTS, shown
from nfsmulti.report import pages
from nfsmulti.run import plan, runner, start
from nfsmulti.run.directory import Leftover
from nfsmulti.run.record import Record
from nfsmulti.stories import SCENARIOS, GuestPlace
from nfsmulti.stories.connections import MOST, PROTOCOLS, VERSIONS, WORKLOADS, Choice
from nfsmulti.stories.metadata import OPERATIONS
from nfsmulti.texts import duration_text

_out = Console(highlight=False, soft_wrap=True)
_INTERRUPTED = 130
_MOST_DEPTH = 65536  # of a job of metadata
_OF_CONNECTIONS = "Options of connections and metadata"


Which = Literal[
    "dd", "sio", "oltp", "sweep", "fsperf", "randread", "neighbour", "connections", "metadata",
    "all",
]  # fmt: skip
# Which options of their own some take.
_TAKEN = {
    "connections": {"nconnect", "proto", "version", "mounts", "jobs", "workload"},
    "metadata": {"nconnect", "depth", "version", "mounts", "workload"},
}


def _of_some(metavar: str, words: str) -> Any:
    """Give an option that connections and metadata alone take."""
    return typer.Option(metavar=metavar, help=words, rich_help_panel=_OF_CONNECTIONS)


@dataclass(frozen=True)
class _Options:
    """What a run is to be, and where."""

    pool: Annotated[
        str | None, typer.Option(metavar="POOL", help="Run on this pool instead of in the lab.")
    ] = None
    hosts: Annotated[
        str,
        typer.Option(
            metavar="HOST[:PORT],...",
            help="With --pool: run on these hosts at once, each with all jobs, by fio's"
            " client/server mode. If no fio --server answers, ssh starts one. The engine must be"
            " at the same path on each.",
        ),
    ] = ""
    lab: Annotated[
        bool, typer.Option("--lab", help="Run in the lab, with the scenario's limits: the default.")
    ] = False
    repeat: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Repeats of each cell (default: 3; neighbour 5, or 3 if --quick; connections 5).",
        ),
    ] = None
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cells, a few seconds each.")] = False
    label: Annotated[str, typer.Option(help="A word to add to the name of the run's folder.")] = ""
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue the run in DIR, or the newest unfinished one."),
    ] = False
    factors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V1,V2 ...",
            help="Cross the cells with options of the engine or of fio.",
        ),
    ] = None
    setting: Annotated[
        str,
        typer.Option(
            metavar="NAME=V1,V2",
            help="Cross the cells with a setting of the server. --set changes it before each block:"
            " all cells under one value, in one repeat.",
        ),
    ] = ""
    set: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Sets it, with {NAME} for the value: 'ssh nas \"echo {threads} >"
            " /proc/fs/nfsd/threads\"'."
            " In the kernel lab it runs in the guest.",
        ),
    ] = ""
    get: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Prints only the setting's value, which is checked after --set and restored at"
            " the end. Without --get the first value is set at the end.",
        ),
    ] = ""
    server_command: Annotated[
        str,
        typer.Option(
            metavar="WORDS",
            help="With --pool: the command that reaches its server, such as 'ssh nas'. It runs `cat"
            " /proc/stat /proc/meminfo` there, for CPU time, Dirty and Cached, and nothing else.",
        ),
    ] = ""
    guest: Annotated[
        Kind | None, typer.Option(help=f"In the kernel lab; qemu if not given. {GUEST_HELP}")
    ] = None
    nconnect: Annotated[str, _of_some("N,...", "Connections on each path of a job.")] = ""
    proto: Annotated[
        str, _of_some("tcp,rdma", "Transports, instead of those in the pool's URLs.")
    ] = ""
    version: Annotated[
        str, _of_some("3,4.1", "NFS versions, instead of those in the pool's URLs.")
    ] = ""
    mounts: Annotated[
        bool,
        typer.Option(
            "--mounts",
            help="Also measure kernel mounts, each with its cell's nconnect= (needs root).",
            rich_help_panel=_OF_CONNECTIONS,
        ),
    ] = False
    jobs: Annotated[str, _of_some("N,...", "Numbers of fio jobs.")] = ""
    workload: Annotated[
        str,
        _of_some(
            "NAME,...",
            f"What connections moves, one of {', '.join(WORKLOADS)} (default: 64k-read), or"
            f" the operations of metadata (default: {','.join(OPERATIONS)}).",
        ),
    ] = ""
    depth: Annotated[str, _of_some("N,...", "Operations that a job of metadata has under way.")] = (
        ""
    )
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Seed of the order of cells; an earlier run's repeats its order."
        ),
    ] = None
    directory: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="With --pool: the directory for all files of the run, relative to the export. It"
            " must not be there yet (default: a new name, nfsmulti-TIME-RANDOM).",
        ),
    ] = ""
    keep: Annotated[
        bool, typer.Option("--keep", help="With --pool: leave the run's directory on the server.")
    ] = False
    results: Annotated[
        Path, typer.Option(metavar="DIR", help="Where runs are kept.", show_default="results/")
    ] = RESULTS

    @property
    def given(self) -> list[str]:
        """The names of those that were given, and say what the run is."""
        values = {**vars(self), "resume": None, "results": None}
        # 0 is given, although it equals False.
        return [
            name.replace("_", "-")
            for name, value in values.items()
            if value is not None and value is not False and value != ""
        ]

    def request(self, scenario: Which, more_factors: list[str]) -> start.Request:
        """Read them. Raises HarnessError."""
        return start.Request(
            pool=self.pool,
            repeat=self.repeat,
            quick=self.quick,
            label=self.label,
            seed=self.seed,
            factors=plan.parse_factors([*(self.factors or []), *more_factors]),
            command=shlex.join([COMMAND, *sys.argv[1:]]),
            guest=self.guest or Kind.QEMU,
            hosts=self.hosts,
            setting=plan.parse_setting(self.setting, self.set, self.get),
            server_command=self.server_command,
            directory=self.directory,
            keep=self.keep,
            choice=Choice(
                _numbers("--nconnect", self.nconnect, MOST),
                _words("--proto", self.proto, PROTOCOLS),
                _words("--version", self.version, VERSIONS),
                _numbers("--jobs", self.jobs, MOST),
                self.mounts,
                _workloads(scenario, self.workload),
                _numbers("--depth", self.depth, _MOST_DEPTH),
            ),
        )


@by_fields
def run(
    scenario: Annotated[Which, typer.Argument(metavar="SCENARIO", show_default=False)],
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIR", help="With --resume: the run's folder.", show_default=False),
    ] = None,
    *,
    options: _Options,
) -> None:
    """Repeat published measurements: dd, sio, oltp, sweep, fsperf, randread, neighbour, or all.

    Or connections: how many connections are enough, and what RDMA, NFSv4.1 or a kernel mount gains.
    Or metadata: creates, stats, lookups and removes per second, and what limits them.

    On a pool of your own, or in a lab with the limits of the publication (needs root). Each
    run leaves a folder with every fio's command and output, summary.json with all figures, and a
    report that sets them beside the published ones (report.html, report.md).

    A cell too short for its figure to settle runs longer: if the bandwidth of the two halves of
    its first repeat differs by more than 10 %, or too few samples show it, twice as long, then 4
    times. What it is compared with by repeat, --factors or --setting runs as long. All this adds
    at most half of the run's own time, or a minute. Not in sweep or metadata, not with --hosts.

    On a pool all files lie in a new directory, which is removed at the end: no file that is there
    is changed. What could not be removed is named in the last line; `clean` removes it.

    A cell that fails is marked so and the others still run; the exit status is then 1. --resume
    continues a run that was interrupted or has failed cells, and keeps the cells that are done.
    """
    _check(scenario, options)
    words = more or []
    every = scenario == "all"
    published = [name for name in SCENARIOS if name not in _TAKEN]
    chosen: list[str] = published if every else [scenario]
    if options.resume:
        begin = functools.partial(start.resumed, options.results, _folder(words, chosen))
    else:
        begin = functools.partial(start.begun, options.results, options.request(scenario, words))
    records = _begin_all(chosen, begin) if every else [begin(chosen[0])]
    again = f"{COMMAND} run {scenario} --resume"
    again += "" if options.results == RESULTS else f" --results {shown(options.results)}"
    raise typer.Exit(_carry_out_all(records, again if every else ""))


def _check(scenario: Which, options: _Options) -> None:
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


def _workloads(scenario: Which, text: str) -> tuple[str, ...]:
    """Read --workload: one name, or several of metadata."""
    if scenario == "metadata":
        return _words("--workload", text, list(OPERATIONS))
    if text and text not in WORKLOADS:
        raise HarnessError(f"--workload {text}: give {' or '.join(WORKLOADS)}")
    return (text,) if text else ()


def _numbers(option: str, text: str, most: int) -> tuple[int, ...]:
    words = text.split(",") if text else []
    if not all(word.isdecimal() and 1 <= int(word) <= most for word in words) or _twice(words):
        raise HarnessError(
            f"{option} {text}: give numbers from 1 to {most}, each once, such as 1,4,8"
        )
    return tuple(sorted(map(int, words)))


def _words(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    words = text.split(",") if text else []
    if not all(word in known for word in words) or _twice(words):
        raise HarnessError(f"{option} {text}: give {' or '.join(known)}, or {','.join(known)}")
    return tuple(words)


def _twice(words: Sequence[str]) -> bool:
    return len(set(words)) < len(words)


def _folder(words: list[str], chosen: list[str]) -> Path | None:
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


def _carry_out_all(records: list[Record], again: str) -> int:
    """Carry out runs one after the other; gives the exit status. `again` resumes them all."""
    if len(records) > 1:
        seconds = sum(runner.expected(record) for record in records)
        _out.print(f"{len(records)} scenarios, about {duration_text(seconds)}")
    status = 0
    for record in records:
        try:
            status = max(status, _one(record), _say_leftover(record))
        except (KeyboardInterrupt, SystemExit) as stop:
            _out.print(f"stopped; continue with: {again or _resume_line(record)}", markup=False)
            _say_leftover(record)
            code = _INTERRUPTED if isinstance(stop, KeyboardInterrupt) else stop.code
            raise SystemExit(code) from None
    return status


def _one(record: Record) -> int:
    """Carry out a run and say how it went; gives its exit status."""
    _out.print(f"[bold]{record.plan.scenario}[/bold]: {shown(record.folder)}")
    for line in record.plan.left_out:
        _out.print(f"  left out: {line}", markup=False)
    status = 0
    try:
        runner.carry_out(record, _out)
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
