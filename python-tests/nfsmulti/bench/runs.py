# SPDX-License-Identifier: GPL-2.0-only
"""A case with its bars, an engine, and a run of one on the other: its processor, fio, and figures.

What is asked of an engine, the bars, is set before it is measured.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Direction, FioProcess, FioResult
from nfsmulti.processes import Process
from nfsmulti.report.answer import KINDS
from nfsmulti.stats import Ratio

# --- a case ---

# What engines are called, in tables and by the bars that are beside them. The last three are the
# engine under test itself, otherwise than in the case.
OURS, PEER, YARDSTICK = "nfsmulti", "fio nfs", "plain sockets"
SINGLE, V3, DATA = "one connection", "NFSv3", "READ"
# What a bar is about: the ratio of CPU time per operation, of operations per second, or of latency,
# or our own system calls per operation.
Figure = Literal["cpu", "rate", "p50", "calls"]


class BarVerdict(StrEnum):
    """Whether a bar is met; it is open where the interval holds the bar, or there is none."""

    MET = "met"
    MET_OPEN = "met (open)"
    NOT_MET_OPEN = "not met (open)"
    NOT_MET = "not met"


@dataclass(frozen=True)
class Bar:
    """A limit, for a ratio `beside` another engine: the least for the rate, the most for others."""

    figure: Figure
    limit: float
    beside: str = PEER

    @property
    def text(self) -> str:
        """The bar as it is shown."""
        return f"{'≥' if self.figure == 'rate' else '≤'} {self.limit:g}"

    def met(self, value: float) -> bool:
        """Tell whether `value` is on the right side."""
        return value >= self.limit if self.figure == "rate" else value <= self.limit

    def verdict(self, ratio: Ratio) -> BarVerdict:
        """Hold a ratio against it."""
        met = self.met(ratio.value)
        if ratio.low is None or ratio.high is None or self.met(ratio.low) != self.met(ratio.high):
            return BarVerdict.MET_OPEN if met else BarVerdict.NOT_MET_OPEN
        return BarVerdict.MET if met else BarVerdict.NOT_MET


@dataclass(frozen=True)
class Case:
    """One workload: fio's rw, bs and iodepth, the depth being that of all connections together.

    `version` is that of NFS where it is not 3. `operation` is a metadata operation, which is made
    instead of each I/O.
    """

    rw: str
    bs: str
    depth: int
    connections: int = 1
    bars: tuple[Bar, ...] = ()
    place: str = ""  # of the file, where that makes a difference
    version: str = ""
    operation: str = ""

    @property
    def name(self) -> str:
        """A name in the words of the bars, such as "randread 4k d32", "… c4" or "… v4.1"."""
        what = [self.operation] if self.operation else [self.rw, self.bs]
        words = [self.place, *what, f"d{self.depth}"]
        if self.connections > 1:
            words.append(f"c{self.connections}")
        if self.version:
            words.append(f"v{self.version}")
        return " ".join(filter(None, words))

    @property
    def words(self) -> str:
        """What it does, in words: "4k random reads, depth 32, 4 connections"."""
        kind = KINDS[self.rw].removeprefix("sequential ")
        what = self.operation or f"{self.bs} {kind}"
        more = [
            f"depth {self.depth}",
            f"{self.connections} connections" if self.connections > 1 else "",
            f"NFSv{self.version}" if self.version else "",
            self.place and f"on {self.place}",
        ]
        return ", ".join(filter(None, [what, *more]))

    @property
    def direction(self) -> Direction:
        """What its I/Os do."""
        return "write" if "write" in self.rw else "read"


def choose(cases: Sequence[Case], patterns: Sequence[str]) -> list[Case]:
    """Give the cases whose name is, or matches, one of `patterns`; all where there is none.

    Raises HarnessError for a pattern that no case matches.
    """
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(case.name, pattern) for case in cases):
            raise HarnessError(f"--case '{pattern}' matches no case", "--list shows their names")
    return [
        case
        for case in cases
        if not patterns or any(fnmatch.fnmatchcase(case.name, pattern) for pattern in patterns)
    ]


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


# --- a run ---

# Beyond a run's own time, for fio and its jobs to start and to end. A job of fio's nfs engine that
# has not ended by then never does.
_SPARE_SECONDS = 3.0
_SPARE_SECONDS_PER_CONNECTION = 0.05
_GRACE_SECONDS = 20.0
# A run may be cut short by so much.
_SHORTEST = 0.8
# What fio counts of CPU time: a job that got less counts as nothing, to which there is no ratio.
_LEAST_SECONDS = 1e-3


@dataclass(frozen=True)
class Contender:
    """An engine: its name, the fio that has it, and the words that choose it for a case.

    `target` is the server's URL, or a directory. It runs those cases that it `takes`. One that
    `counts_calls` has a stats_file. One that `may_hang` at its end has its jobs killed when their
    time is over, and fio's report is taken for what it says. An `optional` one, which is the
    user's, is left out of a case that it fails on.
    """

    name: str
    fio: str
    words: Callable[[Case, str], list[str]]  # (case, target)
    counts_calls: bool = False
    may_hang: bool = False
    optional: bool = False
    takes: Callable[[Case], bool] = lambda _: True


@dataclass(frozen=True)
class Timing:
    """How long a run is measured, after how long a start, in ms; and how often it is repeated."""

    runtime: int
    ramp: int
    repeats: int

    @property
    def seconds(self) -> float:
        """What one run takes, with its start."""
        return (self.runtime + self.ramp) / 1000

    @property
    def does_io(self) -> bool:
        """Whether a run is sure to do I/O: one of a millisecond may be over before its first."""
        return self.runtime > 1


FULL = Timing(runtime=5000, ramp=500, repeats=5)
QUICK = Timing(runtime=1000, ramp=200, repeats=3)


@dataclass(frozen=True)
class Run:
    """The figures of one run: CPU in µs per operation, latencies in ns, bandwidth in bytes/s.

    `calls` are system calls per operation, None where the engine does not count them.
    `server_busy` is the part of the time that the server's core worked, None where it is unknown.
    """

    iops: float
    bandwidth: float
    cpu_user: float
    cpu_system: float
    p50: float
    p99: float
    calls: float | None = None
    server_busy: float | None = None

    @property
    def cpu(self) -> float:
        """CPU time per operation, user and system."""
        return self.cpu_user + self.cpu_system


def command(
    contender: Contender, case: Case, target: str, timing: Timing, folder: Path
) -> list[str]:
    """Give a contender's fio, with the options that all contenders get for a case."""
    return [
        contender.fio,
        f"--output={folder / 'fio.json'}",
        "--output-format=json+",
        *contender.words(case, target),
        "--name=job",
        f"--rw={case.rw}",
        f"--bs={case.bs}",
        "--norandommap",
        "--group_reporting",
        "--time_based",
        f"--runtime={timing.runtime}ms",
        f"--ramp_time={timing.ramp}ms",
    ]


def jobs_of(process: Process) -> list[psutil.Process]:
    """Give the running jobs of the fio that `process` is."""
    return _children(psutil.Process(process.pid))


def _children(parent: psutil.Process) -> list[psutil.Process]:
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):  # the parent has ended
        for child in parent.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
    return found


def run_fio(
    contender: Contender,
    case: Case,
    target: str,
    timing: Timing,
    folder: Path,
    *,
    enter: Sequence[str],
    words: Sequence[str] = (),
) -> FioResult:
    """Run a contender's fio behind the words `enter`. Raises HarnessError where it gives nothing.

    `words` are more of fio's options.
    """
    argv = [*enter, *command(contender, case, target, timing, folder), *words]
    spare = _SPARE_SECONDS + _SPARE_SECONDS_PER_CONNECTION * case.connections
    with FioProcess(argv, folder) as process:
        if process.wait(timing.seconds + spare) is None and contender.may_hang:
            # fio itself then ends, and reports what they had done.
            for job in jobs_of(process):
                with contextlib.suppress(psutil.NoSuchProcess):
                    job.kill()
        result = process.result(_GRACE_SECONDS)
    _check(contender, case, timing, result)
    return result


def _check(contender: Contender, case: Case, timing: Timing, result: FioResult) -> None:
    report, direction = result.report, case.direction
    trouble = None
    if report is None or (timing.does_io and not report.operations(direction)):
        trouble = "fio reports nothing"
    elif result.status != 0 and not contender.may_hang:
        trouble = f"status {result.status}" if result.status is not None else "it did not end"
    elif timing.does_io and report.seconds(direction) < _SHORTEST * timing.runtime / 1000:
        trouble = f"it ran for {report.seconds(direction)} s only"
    if trouble:
        said = "\n".join(result.messages.splitlines()[-8:])
        raise HarnessError(f"{case.name}, {contender.name}: {trouble}\n{said}", result.command)


def figures_of(
    result: FioResult,
    case: Case,
    *,
    cpu: tuple[float, float] | None = None,
    busy: float | None = None,
) -> Run:
    """Take the figures out of a run; `cpu` are the seconds, user and system, if not fio's own."""
    report, direction = result.report, case.direction
    assert report is not None
    operations = report.operations(direction)
    least = (report.cpu_seconds("usr_cpu"), max(report.cpu_seconds("sys_cpu"), _LEAST_SECONDS))
    user, system = cpu or least
    entries = sum(line.meta_ops for line in result.stats)  # for which fio counts bytes as well
    counted = entries + sum(line.read_ops + line.write_ops for line in result.stats)
    return Run(
        iops=report.iops(direction),
        bandwidth=0.0 if entries else report.bandwidth(direction),
        cpu_user=user * 1e6 / operations,
        cpu_system=system * 1e6 / operations,
        p50=report.latency_percentile(direction, 50),
        p99=report.latency_percentile(direction, 99),
        calls=sum(line.syscalls for line in result.stats) / counted if counted else None,
        server_busy=busy,
    )
