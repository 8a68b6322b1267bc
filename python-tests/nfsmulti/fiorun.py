# SPDX-License-Identifier: GPL-2.0-only
"""fio with the engine: how it is run, and what it (json+) and the engine (stats_file) report.

fio's units: bw is KiB/s and runtime ms in its JSON, latencies are ns, CPU is per cent of a core.
"""

import json
import math
import re
import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from nfsmulti import typed
from nfsmulti.paths import built, shown
from nfsmulti.processes import Process
from nfsmulti.stats import merged, percentile_ns

_SUM_OF_HOSTS = "All clients"  # what fio's client adds

# What one of fio's own lines begins with: a host's name, from its client.
_HOST = re.compile(r"^<[^>]*> ")
# Lines that are no reason: of exec_prerun (see run/watch.py), of fio's client at the beginning, and
# of what TLS leaves in clear.
_BESIDE = re.compile(r" : Saving output of prerun in |^hostname=|NFSv3's MOUNT goes in clear")
# fio leaves a complaint's line open where its helper takes a signal: fio had been stopped before.
_OPEN_LINE = r"(?<=in helper thread failed: Interrupted system call)"
# Of the report: an opening brace alone in its line.
_BEGIN = re.compile(rf"(?:^|{_OPEN_LINE})\{{\n", re.MULTILINE)

Direction = Literal["read", "write", "trim"]
Latency = Literal["slat", "clat", "lat"]

# What the engine says of a job where all is well: its progress, and its summary.
SUMMARY = re.compile(
    r"nfsmulti: .*("
    r"\d+ connections? on \d+ paths?:|"
    r"clients: \d+ of \d+ (served|lost)|\w+: \d+ done, 0 errors|"
    r"TLS: \d+ connections? with|Kerberos: \d+ connections? with|crypto: \d+ %|"
    r"meta_mix: beside the job's entries|discard=1: (READ payload|nothing) was dropped|"
    r"arrivals: (not )?sustained|"
    r"response: service p99 |"
    r'entries of ".*": (\d+ (files|director)|\d+ % done))'
)


@dataclass(frozen=True)
class FioReport:
    """One fio's JSON, whole in `data`; sums and percentiles are over all its jobs."""

    data: dict[str, Any]

    @classmethod
    def parse(cls, output: str) -> Self | None:
        """Read fio's output, in which messages may stand before the JSON; None if there is none."""
        begin = _BEGIN.search(output)
        try:
            return cls(json.JSONDecoder().raw_decode(output, begin.start())[0]) if begin else None
        except ValueError:
            return None

    @staticmethod
    def messages_of(output: str) -> str:
        """Return what stands before the JSON in fio's output."""
        return _BEGIN.split(output, maxsplit=1)[0].strip()

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The jobs, or groups of them where group_reporting was set; those of all hosts."""
        jobs = self.data["jobs"] if "jobs" in self.data else self.data["client_stats"]
        return [job for job in jobs if job.get("jobname") != _SUM_OF_HOSTS]

    @property
    def error(self) -> int:
        """The first job's errno that is not 0."""
        return next((job["error"] for job in self.jobs if job["error"]), 0)

    def seconds(self, direction: Direction) -> float:
        """Return the longest run time of a job."""
        return float(max(job[direction]["runtime"] for job in self.jobs)) / 1000

    def bytes(self, direction: Direction) -> int:
        """Return the bytes transferred."""
        return sum(job[direction]["io_bytes"] for job in self.jobs)

    def operations(self, direction: Direction) -> int:
        """Return the number of I/Os."""
        return sum(job[direction]["total_ios"] for job in self.jobs)

    def bandwidth(self, direction: Direction) -> float:
        """Return bytes per second, all jobs together, as fio's own summary has it."""
        seconds = self.seconds(direction)
        return self.bytes(direction) / seconds if seconds else 0.0

    def iops(self, direction: Direction) -> float:
        """Return I/Os per second, all jobs together."""
        seconds = self.seconds(direction)
        return self.operations(direction) / seconds if seconds else 0.0

    def cpu_seconds(self, *kinds: Literal["usr_cpu", "sys_cpu"]) -> float:
        """Return the client's CPU time, user and system or one of them, all jobs together."""
        return math.fsum(
            job[kind] / 100 * job["job_runtime"] / 1000
            for job in self.jobs
            for kind in kinds or ("usr_cpu", "sys_cpu")
        )

    def latency_mean(self, direction: Direction) -> float:
        """Return the mean completion latency in ns."""
        latencies = [job[direction]["clat_ns"] for job in self.jobs]
        count = sum(latency["N"] for latency in latencies)
        total = sum(latency["mean"] * latency["N"] for latency in latencies)
        return float(total / max(1, count))

    def latency_bins(self, direction: Direction, kind: Latency = "clat") -> Counter[int]:
        """Return the bins of a latency of all jobs, if fio kept any: ns to the number of I/Os."""
        return merged(job[direction][f"{kind}_ns"].get("bins", {}) for job in self.jobs)

    def latency_percentile(self, direction: Direction, percent: float) -> float:
        """Return a percentile of completion latency in ns, out of the merged bins of all jobs."""
        return float(percentile_ns(self.latency_bins(direction), percent) or 0)


@dataclass(frozen=True)
class _Line:
    """A line of the engine's stats_file, of one kind; those of connections have none."""

    kind: ClassVar[str | None] = None

    @classmethod
    def read(cls, file: Path) -> list[Self]:
        """Read a file's lines of this kind, empty where absent. HarnessError for a broken line."""
        found = []
        lines = typed.read_text(file, "surrogateescape").splitlines() if file.exists() else []
        for number, line in enumerate(lines, start=1):
            where = f"{shown(file)}, line {number}: "
            values = typed.read(dict[str, Any], typed.parse(line, where), where)
            if values.get("kind") == cls.kind:
                found.append(typed.read(cls, values, where))
        return found


@dataclass(frozen=True)
class PathStats(_Line):
    """What one job's connections of one path have done so far: a line of live_file."""

    kind: ClassVar[str | None] = "path"
    job: str
    job_number: int
    path: str
    read_ops: int
    read_bytes: int
    write_ops: int
    write_bytes: int
    commits: int
    meta_ops: int
    lookups: int
    rewritten_bytes: int
    retransmissions: int
    reconnects: int
    reissues: int
    stale_replies: int
    errors: int
    rtt_mean_us: float

    @property
    def bytes(self) -> int:
        """Bytes of data in both directions."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True)
class ConnectionStats(PathStats):
    """What one connection of one job has done, as far as the harness uses it."""

    kind = None
    connection: int
    local: str
    remote: str
    transport: str
    syscalls: int
    bytes_sent: int
    bytes_received: int
    sends: int
    receives: int
    rtt_max_us: float

    # Of engines that tell them
    discarded_bytes: int = 0
    rtt_p50_us: float = 0.0
    wait_mean_us: float = 0.0
    wait_p50_us: float = 0.0
    wait_max_us: float = 0.0
    lag_mean_us: float = 0.0
    lag_p99_us: float = 0.0
    lag_max_us: float = 0.0

    # nfs(5)'s words
    sec: str = ""
    xprtsec: str = ""

    # TLS's alone
    cipher: str = ""
    ktls: int = 0
    handshakes: int = 0
    handshake_mean_us: float = 0.0

    # Kerberos's alone
    enctype: str = ""
    contexts: int = 0
    context_mean_us: float = 0.0

    # Of either
    crypto_ms: float = 0.0

    # Of clients (nclients) alone; instants are of time.monotonic(), in µs. The newest outages, the
    # oldest of them first.
    client: int | None = None
    client_name: str = ""
    begun_at_us: int = 0
    first_io_at_us: int | None = None
    outages: int = 0
    lost_at_us: list[int] = field(default_factory=list)
    back_at_us: list[int | None] = field(default_factory=list)
    answered_at_us: list[int | None] = field(default_factory=list)
    ended_at_us: list[int | None] = field(default_factory=list)

    # RDMA's alone
    credits: int = 0
    rnr_errors: int = 0
    retry_errors: int = 0
    registrations: int = 0


@dataclass(frozen=True)
class OperationStats(_Line):
    """One job's metadata operations of a sort.

    Latencies are of those that were done, without the errors.
    """

    kind = "operation"
    job: str
    job_number: int
    operation: str
    ops: int
    errors: int
    iops: float
    mean_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    p99_9_us: float
    p99_99_us: float
    max_us: float


@dataclass(frozen=True)
class ArrivalStats(_Line):
    """One job's arrival clock: what was due, what became of it, and how late it was sent.

    Rates are per second of `seconds`; `depth_used_up` is a share of those that were sent.
    """

    kind = "arrivals"
    job: str
    job_number: int
    process: str
    due: int
    sent: int
    dropped: int
    in_time: int
    seconds: float
    offered: float
    achieved: float
    depth_used_up: float
    lag_mean_us: float
    lag_p99_us: float
    lag_max_us: float
    lag_end_us: float
    sustained: bool


@dataclass(frozen=True)
class ResponseStats(_Line):
    """One job's replies, whose time is split by the kernel's receive stamps; bins are as fio's.

    Service ends and wake-up begins when the kernel had the reply. A stamp is that of a whole
    receive, of `shared_stamps` replies not their own.
    """

    kind = "response"
    job: str
    job_number: int
    replies: int
    shared_stamps: int
    service_bins: dict[str, int]
    wake_up_bins: dict[str, int]
    lag_bins: dict[str, int] = field(default_factory=dict)


def shares(stats: list[ConnectionStats]) -> dict[str, float]:
    """Return each path's part of all bytes, in the order of first use."""
    total = sum(line.bytes for line in stats) or 1
    paths = dict.fromkeys(line.path for line in stats)
    return {path: sum(line.bytes for line in stats if line.path == path) / total for path in paths}


# --- how it is run ---


# A str, int, float or bool; None leaves the option out. Any, because a type checker holds the
# values of `**options` against every keyword parameter.
Option = Any
Options = Mapping[str, Option]

# fio ends its jobs at SIGTERM; a job that then waits for a dead server gets this long.
_GRACE_SECONDS = 10.0


@dataclass(frozen=True)
class Engine:
    """A built engine; `env` is what fio needs to load it, such as a sanitizer's runtime."""

    library: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def built(cls, folder: Path | None = None, env: Mapping[str, str] | None = None) -> Self:
        """Return the engine in the build folder; raises MissingError."""
        return cls(built("libnfsmulti.so", folder), env or {})

    @property
    def option(self) -> str:
        """The engine as fio's --ioengine wants it."""
        return f"external:{self.library}"


@dataclass(frozen=True)
class FioResult:
    """What one fio left. `status` is None where it was killed after its timeout.

    `report` is None where fio wrote none, or none that can be read.
    """

    argv: list[str]
    status: int | None
    seconds: float
    output: str
    stderr: str
    report: FioReport | None
    stats: list[ConnectionStats]
    folder: Path
    operations: list[OperationStats] = field(default_factory=list)
    arrivals: list[ArrivalStats] = field(default_factory=list)
    responses: list[ResponseStats] = field(default_factory=list)

    @property
    def command(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.argv)

    @property
    def messages(self) -> str:
        """All that fio and the engine said beside the report."""
        return "\n".join(filter(None, (FioReport.messages_of(self.output), self.stderr.strip())))

    @property
    def reason(self) -> str:
        """The line that says what happened: the engine's first word, or else fio's."""
        lines = [_HOST.sub("", line).strip() for line in self.messages.splitlines()]
        lines = [
            one for one in lines if one and not SUMMARY.search(one) and not _BESIDE.search(one)
        ]
        begins = ("nfsmulti: ", "fio: ", "Bad option", "client", "")
        found = (line for begin in begins for line in lines if line.startswith(begin))
        return next(found, "it said nothing")


class FioProcess(Process):
    """A running fio; its files lie in `folder`, which is made, one run to a folder."""

    def __init__(self, argv: Sequence[str], folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._begin = time.monotonic()
        (folder / "command").write_text(shlex.join(argv) + "\n", errors="surrogateescape")
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            super().__init__(argv, stdout=out, stderr=err)

    def result(self, timeout: float) -> FioResult:
        """Wait up to `timeout` seconds, end what still runs, and read what it left."""
        status = self.wait(timeout)
        if status is None:
            self.end(_GRACE_SECONDS)
        seconds = time.monotonic() - self._begin
        output = self._read("fio.json") + self._read("stdout")
        return FioResult(
            argv=self.argv,
            status=status,
            seconds=seconds,
            output=output,
            stderr=self._read("stderr"),
            report=FioReport.parse(output),
            stats=ConnectionStats.read(self.folder / "stats.jsonl"),
            folder=self.folder,
            operations=OperationStats.read(self.folder / "stats.jsonl"),
            arrivals=ArrivalStats.read(self.folder / "stats.jsonl"),
            responses=ResponseStats.read(self.folder / "stats.jsonl"),
        )

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(errors="replace")
        except FileNotFoundError:
            return ""


def words_of(options: Options) -> dict[str, str]:
    """Return options as fio spells them, without those that are None."""
    return {
        key: str(int(value) if isinstance(value, bool) else value)
        for key, value in options.items()
        if value is not None
    }
