# SPDX-License-Identifier: GPL-2.0-only
"""One run of one engine on one case, and the figures that it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.bench.cases import Case, Role
from nfsmulti.bench.jobs import kill_jobs
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import FioProcess, FioResult

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
    `counts_calls` has a stats_file. One that
    `may_hang` at its end has its jobs killed when their time is over, and fio's report is taken for
    what it says.
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
class Sample:
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
    traced = "strace" in enter
    with FioProcess(argv, folder) as process:
        if process.wait(timing.seconds + spare) is None and contender.may_hang:
            kill_jobs(process, traced=traced)
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


def sample(
    result: FioResult, case: Case, *, cpu: tuple[float, float] | None = None, busy: float | None
) -> Sample:
    """Take the figures out of a run; `cpu` are the seconds, user and system, if not fio's own."""
    report, direction = result.report, case.direction
    assert report is not None
    operations = report.operations(direction)
    user, system = cpu or tuple(
        sum(job[key] / 100 * job["job_runtime"] / 1000 for job in report.jobs)
        for key in ("usr_cpu", "sys_cpu")
    )
    counted = sum(line.read_ops + line.write_ops for line in result.stats)
    return Sample(
        iops=report.iops(direction),
        bandwidth=report.bandwidth(direction),
        cpu_user=user * 1e6 / operations,
        cpu_system=system * 1e6 / operations,
        p50=report.latency_percentile(direction, 50),
        p99=report.latency_percentile(direction, 99),
        calls=sum(line.syscalls for line in result.stats) / counted if counted else None,
        server_busy=busy,
    )
