# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti bench: client-cost, mount and stall. The cells of their stories, in turn."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import psutil

from nfsmulti.bench import cost, peers, stall
from nfsmulti.bench.cost import Case, Timing
from nfsmulti.bench.sink import Sink
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine, FioProcess
from nfsmulti.folders import own_folder
from nfsmulti.paths import BUILD, COMMAND, RESULTS, shown, write_files
from nfsmulti.report import pages
from nfsmulti.run import runner
from nfsmulti.run.cell import command, jobs_of
from nfsmulti.run.place import Target, asked
from nfsmulti.run.plan import Plan, ordered
from nfsmulti.run.record import Record, now_text, write_machine
from nfsmulti.scenario import CellSpec
from nfsmulti.screen import Screen, laid_out
from nfsmulti.summary import Cell, Server
from nfsmulti.texts import Table

_out = Screen(soft_wrap=True)
_SEED = 1  # of the order, in which the engines of a workload follow each other
_Case = TypeVar("_Case", bound=Case)


# --- what a bench is told ---


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every bench is told."""

    quick: bool
    targets: bool = False
    repeat: int | None
    results: Path | None
    case: Sequence[str] | None
    listed: bool
    client_cpu: int | None

    @property
    def timing(self) -> Timing:
        """How long and how often each case is run."""
        timing = cost.QUICK if self.quick else cost.FULL
        return dataclasses.replace(timing, repeats=self.repeat or timing.repeats)

    def chosen(self, cases: Sequence[_Case]) -> list[_Case]:
        """Choose from these cases; --list ends here."""
        found = choose(cases, self.case or [])
        if self.listed:
            _list(found, targets=self.targets)
            raise SystemExit(0)
        return found


@dataclass(frozen=True, kw_only=True)
class _SinkOptions(Options):
    server_cpu: int | None
    server_sleeps: bool = True


def choose(cases: Sequence[_Case], patterns: Sequence[str]) -> list[_Case]:
    """Return the cases whose name is, or matches, one of `patterns`; all where there is none.

    Raises HarnessError for a pattern that no case matches.
    """
    found = {one: fnmatch.filter([case.name for case in cases], one) for one in patterns}
    for pattern, names in found.items():
        if not names:
            raise HarnessError(f"--case '{pattern}' matches no case", "--list shows their names")
    return [case for case in cases if not found or any(case.name in one for one in found.values())]


def _list(cases: Sequence[Case], *, targets: bool) -> None:
    """Show the cases by name, with their targets where these are asked for."""
    rows = [
        [
            case.name,
            *((bar.beside, cost.RATIOS.get(bar.figure, "calls/op"), bar.text) if bar else ()),
        ]
        for case in cases
        for bar in (targets and case.bars) or [None]
    ]
    headings = ["case", *(["beside", "figure", "target"] if targets else [])]
    _out.print(laid_out(Table(headings, rows, text_columns=len(headings))))


# --- processors ---

_TOPOLOGY = Path("/sys/devices/system/cpu")


class Cores(NamedTuple):
    """The client's processor and the server's."""

    client: int
    server: int


def choose_cores(client: int | None = None, server: int | None = None) -> Cores:
    """Fill in what is not given. Raises HarnessError where there are not two cores."""
    core = {cpu: _core(cpu) for cpu in sorted(os.sched_getaffinity(0))}
    for cpu in (client, server):
        if cpu is not None and cpu not in core:
            raise HarnessError(f"processor {cpu} is not one of {list(core)}")
    if client is not None and server is not None:
        return Cores(client, server)
    for one in core if client is None else [client]:
        for other in core if server is None else [server]:
            if core[one] != core[other]:
                return Cores(one, other)
    raise HarnessError("client and server need a core each, and there is only one")


def _core(cpu: int) -> str:
    """Name the core of a processor: hardware threads of one core have the same name."""
    try:
        return (_TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


# --- where fio runs: on a core of its own ---


class OnSink(Target):
    """nfs-sink on a core of its own, another one for each cell: it tells at its end what it did."""

    def __init__(self, cores: Cores, *, sleeps: bool = False, more: Sequence[str] = ()):
        self.enter, self.cpus = ["taskset", "-c", str(cores.client)], {cores.client}
        self._cores, self._name = cores, shlex.join(["nfs-sink", *more])
        self._options = ["--cpus", str(cores.server), *([] if sleeps else ["--spin"]), *more]
        how = "sleeps between calls, and the client pays for waking it up"
        self._how = how if sleeps else "polls for calls: the client pays for no wake-ups"
        self._serving = contextlib.ExitStack()

    def __exit__(self, *_: object) -> None:
        self._serving.close()

    def prepare(self, spec: CellSpec) -> CellSpec:
        """Start another sink, and put its URL and port into the options of other engines."""
        self._serving.close()
        self._sink, self._spec = self._serving.enter_context(Sink(self._options)), spec
        options = {
            name: value.format(url=self._sink.url, port=self._sink.port)
            if isinstance(value, str)
            else value
            for name, value in spec.options.items()
        }
        return dataclasses.replace(spec, options=options)

    def pool(self, spec: CellSpec) -> str:
        """Return the sink's path."""
        return asked(self._sink.url, spec)

    def told(self, cell: Cell) -> Cell:
        """Return the cell with the sink's work; a metadata operation has moved no data."""
        busy = 100 * self._sink.stop().busy_seconds / self._spec.seconds
        if "meta_read" in self._spec.options and cell.read:
            read = dataclasses.replace(cell.read, bytes=0, bytes_per_s=0.0)
            cell = dataclasses.replace(cell, read=read)
        return dataclasses.replace(cell, server=Server(min(busy, 100.0), 1, 0, 0))

    def servers(self) -> list[str]:
        """Say what it is."""
        return [f"{self._name}, which {self._how}"]

    @property
    def about(self) -> dict[str, Any]:
        """Say the same for a summary's place."""
        found = {f"{side} on processor": cpu for side, cpu in self._cores._asdict().items()}
        return {"kind": "loopback", "pool": self._name, **found}


_TMPFS = Path("/dev/shm")


class OnFiles(Target):
    """A file on tmpfs, and one in a directory `disk`; both go at the end."""

    def __init__(self, client: int, disk: Path):
        self.enter, self.cpus, self._disk = ["taskset", "-c", str(client)], {client}, disk

    def __enter__(self) -> Self:
        if not _TMPFS.is_dir():
            raise HarnessError(f"{_TMPFS} is missing, and the file in memory needs it")
        self._disk.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo:
            self._folders = {
                place: Path(undo.enter_context(tempfile.TemporaryDirectory("", "nfsmulti-", where)))
                for place, where in zip(cost.PLACES, (_TMPFS, self._disk), strict=True)
            }
            self._made = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def prepare(self, spec: CellSpec) -> CellSpec:
        """Write the file."""
        write_files(self._folders[spec.place], spec.files)
        return spec

    def pool(self, spec: CellSpec) -> str:
        """Return the folder that holds the cell's file."""
        return str(self._folders[spec.place])

    def mounts(self, spec: CellSpec) -> list[str]:
        """Return the same."""
        return [self.pool(spec)]

    def servers(self) -> list[str]:
        """There is none."""
        return []


# --- a job's memory ---

_MEMORY_CASE = Case("randread", "4k", 128, connections=4)
_MEMORY_TARGET = 2 << 20
_UNTIL_MEASURED = Timing(60.0, 0.0, 1)  # it is ended once it was measured
_MEASURE_SECONDS = 60.0
_SETTLED_CPU_S = 0.3  # a job that has worked for so long has used all that it will use


def memory(place: OnSink, folder: Path) -> int:
    """Return the bytes that our job has beyond one of the null engine. Raises HarnessError."""
    ours = cost.client_cost(_MEMORY_CASE, _UNTIL_MEASURED, None, None)[0]
    alike = {name: at for name, at in ours.options.items() if name not in ("nconnect", "spread")}
    null = dataclasses.replace(ours, client="other", options={"ioengine": "null", **alike})
    with place:
        return _private(ours, place, folder / "ours") - _private(null, place, folder / "null")


def _private(spec: CellSpec, place: Target, folder: Path) -> int:
    """Return the bytes that a job has for itself and has written to."""
    deadline = time.monotonic() + _MEASURE_SECONDS
    argv = command(place.prepare(spec), place, Engine.built(), folder)
    with FioProcess(argv, folder) as process:
        while time.monotonic() < deadline and process.running:
            for job in jobs_of(process):
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = job.cpu_times()
                    if times.user + times.system > _SETTLED_CPU_S:
                        return sum(mapping.private_dirty for mapping in job.memory_maps())
            process.wait(0.02)
    raise HarnessError("no job ran whose memory could be measured")


# --- a bench ---


def measure(
    name: str,
    options: Options,
    specs: Sequence[CellSpec],
    place: OnSink | OnFiles,
    about: Mapping[str, Any],
) -> None:
    """Run all cells, write what was found with its page, and show the answer.

    `about` is the summary's place. Ends the process with status 1 where a cell failed.
    """
    cells = ordered(specs, options.timing.repeats, _SEED, "workload")
    plan = Plan(
        scenario=name,
        label="",
        quick=options.quick,
        started=now_text(),
        command=shlex.join([COMMAND, *sys.argv[1:]]),
        seed=_SEED,
        pool=None,
        left_out=[],
        cells=cells,
    )
    with own_folder(options.results, RESULTS / name) as folder:
        record = Record.begin(folder, plan, dict(about))
        write_machine(folder)
        runner.carry_out(record, _out, make=lambda: place)
    _out.print(f"\n{pages.write(folder)}")
    if record.failed:
        raise SystemExit(1)


def client_cost(
    yardstick: Path | None, engine: Path | None, option: Sequence[str] | None, **given: Any
) -> None:
    """Measure beside fio's own nfs engine, or another build of ours, run by run."""
    options = _SinkOptions(**given)
    builds = bool(engine or option)
    if builds and options.targets:
        raise HarnessError(
            "--targets with --engine or --option: the targets are beside fio's own nfs engine",
            "leave out --targets",
        )
    if builds:
        pairs = cost.QUICK_PAIRS if options.quick else cost.PAIRS
        options = dataclasses.replace(options, repeat=options.repeat or pairs)
    more = cost.SCAN if builds or options.case or options.listed else ()
    cases = options.chosen((*cost.CLIENT_COST, *more))
    own = peers.own_options(option or [])
    other = peers.other_build(engine or Engine.built().library) if builds else None
    cores = choose_cores(options.client_cpu, options.server_cpu)
    place = OnSink(cores, sleeps=options.server_sleeps)
    scratch = BUILD / "bench"
    limit = peers.yardstick(yardstick, scratch) if yardstick else None  # the peer takes minutes
    plain = not builds and any(not case.version and not case.operation for case in cases)
    peer = peers.peer_fio(_out.print) if plain else None
    about = place.about
    if yardstick:
        about["yardstick"] = yardstick.name
    if other:
        about[cost.OURS] = peers.fingerprint(Engine.built().library)
        which = f"{shown(engine)} ({peers.fingerprint(other)})" if engine else "the same build"
        about[cost.OTHER] = which + (f" without {', '.join(option)}" if option else "")
    else:
        used = memory(place, scratch / "memory") / 2**20
        about[
            f"a job's memory beyond fio's own and its buffers (target: {_MEMORY_TARGET >> 20} MiB)"
        ] = f"{used:.2f} MiB"
    specs = [
        spec
        for case in cases
        for spec in cost.client_cost(case, options.timing, peer, limit, other, own)
    ]
    measure("client-cost", options, specs, place, about)


def mount(disk: Path | None, **given: Any) -> None:
    """Measure beside fio's io_uring engine, on the same file."""
    options = Options(**given)
    cases = options.chosen(cost.MOUNT)
    cores, disk = choose_cores(options.client_cpu), disk or BUILD / "bench"
    specs = [spec for case in cases for spec in cost.on_mount(case, options.timing)]
    about = {
        "kind": "pool",
        "pool": f"files on {_TMPFS} and {shown(disk)}",
        "client on processor": cores.client,
    }
    measure("mount", options, specs, OnFiles(cores.client, disk), about)


def stalling(**given: Any) -> None:
    """Measure the latency of a server that stalls, by the arrival clock and by fio's rate."""
    options = _SinkOptions(**given)
    cases = options.chosen(stall.CASES)
    cores = choose_cores(options.client_cpu, options.server_cpu)
    place = OnSink(cores, sleeps=options.server_sleeps, more=stall.SINK)
    seconds = stall.QUICK_SECONDS if options.quick else stall.SECONDS
    specs = [stall.spec(case, seconds) for case in cases]
    measure("stall", options, specs, place, place.about)
