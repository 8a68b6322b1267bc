# SPDX-License-Identifier: GPL-2.0-only
"""One run of one engine on one case: its processor, its fio and jobs, and the figures it gives.

System calls are counted, and memory is measured, in runs of their own.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from nfsmulti.bench.cases import MEMORY_CASE, MEMORY_LIMIT, Case, Role
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import FioProcess, FioResult
from nfsmulti.processes import Process

_TOPOLOGY = Path("/sys/devices/system/cpu")


class Cores(NamedTuple):
    """The client's processor and the server's."""

    client: int
    server: int


def choose_cores(client: int | None = None, server: int | None = None) -> Cores:
    """Fill in what is not given. Raises HarnessError where there are not two cores."""
    allowed = sorted(os.sched_getaffinity(0))
    for cpu in (client, server):
        if cpu is not None and cpu not in allowed:
            raise HarnessError(f"processor {cpu} is not one of {allowed}")
    taken = server if client is None else client
    if client is None:
        client = next((cpu for cpu in allowed if taken is None or _apart(cpu, taken)), None)
    if server is None and client is not None:
        server = next((cpu for cpu in allowed if _apart(cpu, client)), None)
    if client is None or server is None:
        raise HarnessError("client and server need a core each, and there is only one")
    return Cores(client, server)


def _apart(one: int, other: int) -> bool:
    return one != other and _core(one) != _core(other)


def _core(cpu: int) -> str:
    """Name the core of a processor: hardware threads of one core have the same name."""
    try:
        return (_TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


# --- the jobs of a fio that runs ---


def _jobs_of(process: Process, *, traced: bool = False) -> list[psutil.Process]:
    """Give the jobs of the fio that `process` is, or that it is the strace of."""
    fios = _children(psutil.Process(process.pid)) if traced else [psutil.Process(process.pid)]
    return [job for fio in fios for job in _children(fio)]


def _children(parent: psutil.Process) -> list[psutil.Process]:
    """Give the running children of a process."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):  # the parent has ended
        for child in parent.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
    return found


# --- a run ---


# Beyond a run's own time, for fio and its jobs to start and to end. A job of fio's nfs engine that
# has not ended by then never does.
_SPARE_SECONDS = 3.0
_SPARE_SECONDS_PER_CONNECTION = 0.05
_GRACE_SECONDS = 20.0
# A run may be cut short by so much.
_SHORTEST = 0.8


@dataclass(frozen=True)
class Contender:
    """An engine: its name, the fio that has it, and the words that choose it for a case.

    `target` is the server's URL, or a directory. It runs those cases that it `takes`. One that
    `counts_calls` has a stats_file. One that `may_hang` at its end has its jobs killed when their
    time is over, and fio's report is taken for what it says.
    """

    name: str
    fio: str
    words: Callable[[Case, str], list[str]]  # (case, target)
    counts_calls: bool = False
    may_hang: bool = False
    role: Role = "ours"
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


def folder_of(folder: Path, contender: Contender, case: Case) -> Path:
    """Give the folder of a contender's runs on a case."""
    return folder / f"{case.name}-{contender.name}".replace(" ", "-")


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


def run_fio(
    contender: Contender,
    case: Case,
    target: str,
    timing: Timing,
    folder: Path,
    *,
    enter: Sequence[str],
    words: Sequence[str] = (),
    does_io: bool = True,
) -> FioResult:
    """Run a contender's fio behind the words `enter`. Raises HarnessError where it gives nothing.

    `words` are more of fio's options. Without `does_io` it may be over before its first I/O.
    """
    argv = [*enter, *command(contender, case, target, timing, folder), *words]
    spare = _SPARE_SECONDS + _SPARE_SECONDS_PER_CONNECTION * case.connections
    with FioProcess(argv, folder) as process:
        if process.wait(timing.seconds + spare) is None and contender.may_hang:
            # fio itself then ends, and reports what they had done.
            for job in _jobs_of(process, traced="strace" in enter):
                with contextlib.suppress(psutil.NoSuchProcess):
                    job.kill()
        result = process.result(_GRACE_SECONDS)
    _check(contender, case, timing, result, does_io=does_io)
    return result


def _check(
    contender: Contender, case: Case, timing: Timing, result: FioResult, *, does_io: bool
) -> None:
    report, direction = result.report, case.direction
    trouble = None
    if report is None or (does_io and not report.operations(direction)):
        trouble = "fio reports nothing"
    elif result.status != 0 and not contender.may_hang:
        trouble = f"status {result.status}" if result.status is not None else "it did not end"
    elif does_io and report.seconds(direction) < _SHORTEST * timing.runtime / 1000:
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
    user, system = cpu or tuple(
        sum(job[key] / 100 * job["job_runtime"] / 1000 for job in report.jobs)
        for key in ("usr_cpu", "sys_cpu")
    )
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


# --- system calls ---


# What moves data, or waits for it: what fio does to start and to end is left out.
DATA_PATH = (
    "poll,ppoll,select,pselect6,epoll_wait,epoll_pwait,epoll_pwait2,"
    "read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,"
    "io_uring_enter,io_getevents,io_submit"
)

CALLS_HOW = (
    "System calls per operation: ours as the engine counts them (stats_file, every run); the"
    " other engines' by strace -f -c in a separate, untimed run, only calls that move data or"
    " wait for it."
)


def strace_words(output: Path) -> list[str]:
    """Give the words before a command that have its system calls counted into `output`."""
    wanted = ["-e", f"trace={DATA_PATH}", "-U", "calls,name"]
    return ["strace", "-f", "-qq", "-c", *wanted, "-o", str(output)]


def read_strace(output: Path) -> int:
    """Read the sum of all calls out of strace's table."""
    match = re.search(r"^\s*(\d+)\s+total\s*$", output.read_text(), re.MULTILINE)
    return int(match[1]) if match else 0


# --- memory ---


_UNTIL_MEASURED = Timing(runtime=60_000, ramp=0, repeats=1)  # it is ended once it was measured
_START_SECONDS = 10.0
# A job that has run so long has used all that it will use.
_SETTLED_SECONDS = 0.6

_NULL = Contender(
    "null", "fio", lambda case, _: ["--ioengine=null", "--size=1g", f"--iodepth={case.depth}"]
)


def memory_line(beyond: int) -> str:
    """Hold the memory against its bar."""
    verdict = "met" if beyond <= MEMORY_LIMIT else "not met"
    return (
        f"memory of a job beyond fio's own and its I/O buffers, {MEMORY_CASE.name}:"
        f" {beyond / 2**20:.2f} MiB, bar ≤ {MEMORY_LIMIT / 2**20:g} MiB: {verdict}"
    )


def measure_memory(ours: Contender, target: str, folder: Path, enter: Sequence[str]) -> int:
    """Give the bytes that our job has beyond one of the null engine."""
    return _private(ours, target, folder / "ours", enter) - _private(
        _NULL, target, folder / "null", enter
    )


def _private(contender: Contender, target: str, folder: Path, enter: Sequence[str]) -> int:
    argv = [*enter, *command(contender, MEMORY_CASE, target, _UNTIL_MEASURED, folder)]
    deadline = time.monotonic() + _START_SECONDS
    with FioProcess(argv, folder) as process:
        while time.monotonic() < deadline and process.running:
            if jobs := _jobs_of(process):
                time.sleep(_SETTLED_SECONDS)
                with contextlib.suppress(psutil.NoSuchProcess):
                    # What it has for itself and has written to.
                    return sum(mapping.private_dirty for mapping in jobs[0].memory_maps())
            time.sleep(0.02)
    raise HarnessError(f"{contender.name}: no job ran whose memory could be measured")
