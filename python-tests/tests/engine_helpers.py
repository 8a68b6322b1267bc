# SPDX-License-Identifier: GPL-2.0-only
"""What the engine's tests share: where a job's files lie, and what they look for in a result.

A test that takes the fixture `place` runs on a lab's export by both versions of NFS, and on plain
directories; others name what they run on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from conftest import FioRunner
from conftest import done as done

from jobs import Fio
from nfsmulti.fiorun import (
    SUMMARY,
    ConnectionStats,
    Engine,
    FioProcess,
    FioReport,
    FioResult,
    Option,
)
from nfsmulti.lab import Lab
from nfsmulti.lab.guest import Mount
from nfsmulti.processes import Completed, Identity, Process, run

PATHS = 4
_MOUNT_SECONDS = 60.0

_VERIFY_STATE = re.compile(r"local-.*-verify\.state")  # fio's own
_TRACE = re.compile(
    r'trace: connection (\d+) (\S+) "([^"]*)" (READ|WRITE|COMMIT) (\d+)@(\d+) = (\d+)(?:: (.*))?$',
    re.MULTILINE,
)


@dataclass(frozen=True)
class Place:
    """Where a job's files lie, and fio there, with a pool of 4 paths to it.

    `files` is the folder as this machine sees it, `paths` are the pool's paths and `labels` what
    the engine calls them. `folder` is the test's; fio's working folder lies in it.
    """

    kind: str
    program: Fio
    folder: Path
    files: Path
    paths: Sequence[str]
    labels: Sequence[str]

    @cached_property
    def fio(self) -> FioRunner:
        return FioRunner(self.program, self.pool, self.folder)

    @property
    def pool(self) -> str:
        return ",".join(self.paths)

    def run(self, argv: Sequence[str], **words: Any) -> Completed:
        """Run a program where the place is reached."""
        return run([*self.program.enter, *argv], env=self.program.env, **words)

    def raw(self, *words: str) -> Completed:
        variables = {**self.program.env, **self.program.engine.env}
        setting = [f"{key}={value}" for key, value in variables.items()]
        return run([*self.program.enter, "env", *setting, "fio", *words], timeout=120)

    def write(self, name: str, content: bytes) -> bytes:
        """Put a file there, behind the engine's back; gives `content`."""
        file = self.files / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return content

    def random(self, name: str, size: int) -> bytes:
        return self.write(name, os.urandom(size))

    def names(self) -> list[str]:
        files = (file for file in self.files.rglob("*") if file.is_file())
        return sorted(str(file.relative_to(self.files)) for file in files)

    def sizes(self) -> dict[str, int]:
        return {name: (self.files / name).stat().st_size for name in self.names()}


def _places(*kinds: str) -> object:
    """Make a fixture that gives an empty Place of each kind."""

    @pytest.fixture(params=kinds)
    def place(
        request: pytest.FixtureRequest,
        engine: Engine,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Place]:
        cwd = tmp_path / "cwd"
        cwd.mkdir()
        monkeypatch.chdir(cwd)
        if request.param == "mount":
            place = place_of_directories(engine, tmp_path)
        else:
            lab: Lab = request.getfixturevalue("lab")
            place = place_in_lab(lab, engine, tmp_path, request.param)
            empty(lab.export_dir)
        yield place
        left = {file.name for file in cwd.iterdir() if not _VERIFY_STATE.fullmatch(file.name)}
        assert left == set(), "fio has made files in the local folder"

    return place


place = _places("nfs", "nfs4", "mount")
v3_or_mount = _places("nfs", "mount")
export = _places("nfs", "nfs4")
exported = _places("nfs")
mounted = _places("mount")


def place_in_lab(lab: Lab, engine: Engine, folder: Path, kind: str = "nfs") -> Place:
    """Return the lab's main export, by NFSv3 or as "nfs4" by NFSv4.1."""
    version = "4.1" if kind == "nfs4" else None
    paths = [lab.path(number, version=version) for number in range(lab.config.addresses)]
    labels = [f"10.77.0.{number + 1}:22049:/export" for number in range(len(paths))]
    fio = Fio(engine, enter=lab.command([]), env=lab.environment)
    return Place(kind, fio, folder, lab.export_dir, paths, labels)


def place_of_directories(engine: Engine, folder: Path) -> Place:
    """Return a directory, with 4 names for it that stand for 4 mounts."""
    files = folder / "files"
    files.mkdir()
    links = [folder / f"mount{number}" for number in range(PATHS)]
    for link in links:
        link.symlink_to(files)
    paths = [str(link) for link in links]
    return Place("mount", Fio(engine), folder, files, paths, labels=paths)


@contextlib.contextmanager
def in_memory(place: Place, size: str) -> Iterator[Place]:
    """Yield a place of directories, its files on a small file system that nobody else sees."""
    script = 'mount -t tmpfs -o size="$1" tmpfs "$0"; exec sleep 1000'
    namespace = ["unshare", "--mount", "--", "sh", "-ec", script, str(place.files), size]
    with Process(namespace) as holder:
        files = Path(f"/proc/{holder.pid}/root{place.files}")
        eventually(lambda: files.is_mount())
        fio = Fio(place.program.engine, ["nsenter", f"--target={holder.pid}", "--mount", "--"])
        yield dataclasses.replace(place, program=fio, folder=place.folder / "memory", files=files)


def empty(folder: Path) -> None:
    """Remove all files: to no bytes first, since a server may hold them open for a while."""
    for path, _, names in os.walk(folder, topdown=False):
        for name in names:
            file = Path(path) / name
            if not file.is_symlink():
                os.truncate(file, 0)
            file.unlink()
        if Path(path) != folder:
            Path(path).rmdir()


def sections(**jobs: Mapping[str, Option]) -> list[str]:
    """Return the words for several jobs, each with its own options, by name; None: a word alone."""
    return [
        f"--{key}" if value is None else f"--{key}={value}"
        for name, options in jobs.items()
        for key, value in {"name": name, **options}.items()
    ]


def stopped_well(result: FioResult) -> FioReport:
    """Expect that a job has no error, though a signal has ended it, and give the report."""
    assert result.report is not None, result.messages
    assert result.report.error == 0, result.messages
    return result.report


def said(result: FioResult) -> list[str]:
    """Return the engine's own lines, without the summary that ends each job."""
    text = result.stderr + FioReport.messages_of(result.output)
    return complaints(text)


def complaints(text: str) -> list[str]:
    """Return the engine's own lines out of fio's, without summaries."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line.startswith("nfsmulti: ") and not SUMMARY.match(line)]


def refused(result: FioResult, *words: str) -> str:
    """Expect a failure with a single line of the engine, which holds `words`; gives the line."""
    assert result.status not in (0, None), f"status {result.status}: {result.messages}"
    assert result.status > 0, f"fio crashed: {result.messages}"
    lines = said(result)
    assert len(lines) == 1, result.messages
    for word in words:
        assert word in lines[0]
    return lines[0]


def failed_io(result: FioResult, *words: str) -> None:
    """Expect that a job ended by an I/O error, told in one line each by fio and the engine."""
    assert result.status not in (0, None), f"status {result.status}: {result.messages}"
    assert result.status > 0, f"fio crashed: {result.messages}"
    lines = [line for line in result.messages.splitlines() if line.startswith("fio: ")]
    assert any(line.startswith("fio: io_u error") for line in lines), result.messages
    assert said(result), result.messages
    lines += said(result)
    for word in words:
        assert any(word in line for line in lines), result.messages


def job_of(report: FioReport, name: str) -> dict[str, Any]:
    (job,) = (job for job in report.jobs if job["jobname"] == name)
    return job


def figures(report: FioReport) -> dict[str, tuple[int, ...]]:
    """Return each job's bytes and I/Os that it has read, and those that it has written."""
    kinds = [(way, what) for way in ("read", "write") for what in ("io_bytes", "total_ios")]
    return {job["jobname"]: tuple(job[way][what] for way, what in kinds) for job in report.jobs}


def psync(
    folder: Path, arguments: Sequence[str], files: Mapping[str, bytes] | None = None
) -> tuple[FioReport, dict[str, int]]:
    """Run jobs on fio's own psync engine in `folder`: what they count, and the sizes of files."""
    folder.mkdir()
    for name, content in (files or {}).items():
        (folder / name).write_bytes(content)
    words = ["--ioengine=psync", "--output-format=json", "--verify_state_save=0", *arguments]
    done = run(["fio", *words], timeout=60, cwd=folder).check()
    report = FioReport.parse(done.stdout)
    assert report is not None
    return report, {file.name: file.stat().st_size for file in folder.iterdir()}


class Traced(NamedTuple):
    """One line of trace=1: an operation that has ended."""

    connection: int
    path: str
    file: str
    operation: str
    length: int
    offset: int
    done: int
    error: str

    @classmethod
    def read(cls, text: str) -> list[Traced]:
        """Find the operations in what fio said."""
        found = _TRACE.findall(text)
        return [cls(int(a), b, c, d, int(e), int(f), int(g), h) for a, b, c, d, e, f, g, h in found]


def by_path(stats: Sequence[ConnectionStats]) -> Mapping[str, int]:
    """Return the WRITEs on each path that has any."""
    sums = Counter[str]()
    for line in stats:
        sums[line.path] += line.write_ops
    return +sums


def eventually(what: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something is true. `seconds` only protect against hanging."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.005)


def catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for the signal: a fio that has will end properly."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True  # it has ended: nothing to wait for
    (mask,) = re.findall(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


def traces(process: FioProcess) -> int:
    """Count what a running fio with trace=1 has done so far."""
    return (process.folder / "stderr").read_bytes().count(b" trace: connection ")


def all_go_on(process: FioProcess, connections: int, depth: int, seconds: float = 60) -> None:
    """Wait until each connection of a job with trace=1 has done more than was in flight."""

    def each_has_done() -> list[int]:
        told = (process.folder / "stderr").read_bytes()
        return [told.count(b" trace: connection %d " % number) for number in range(connections)]

    enough = [done + depth for done in each_has_done()]
    eventually(
        lambda: all(now > then for now, then in zip(each_has_done(), enough, strict=True)), seconds
    )


def written_in_pass(process: FioProcess) -> int:
    """Count what a job with trace=1 that writes and verifies in turn has written since it read."""
    return stderr_of(process).rpartition('" READ ')[2].count('" WRITE ')


def verified(process: FioProcess) -> int:
    """Count what such a job has read again."""
    return stderr_of(process).count('" READ ')


def amid_writes(process: FioProcess, blocks: int) -> bool:
    """Tell whether such a job has writes that are not durable.

    It writes `blocks`, and then a COMMIT, in each turn: in the first half it is far from that, and
    from opening its file again, which a signal would interrupt.
    """
    return 0 < written_in_pass(process) <= blocks // 2


@contextlib.contextmanager
def held_amid_writes(process: FioProcess, blocks: int, seconds: float = 60) -> Iterator[None]:
    """Hold such a job, of one process (thread=1), while it has writes that are not durable."""

    def is_held() -> bool:
        if amid_writes(process, blocks):
            process.signal(signal.SIGSTOP)
            eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
            if amid_writes(process, blocks):
                return True
            process.signal(signal.SIGCONT)  # we were late
        return False

    eventually(is_held, seconds)
    try:
        yield
    finally:
        process.signal(signal.SIGCONT)


def family(pid: int) -> list[int]:
    """Return the processes below one: fio's jobs, each of which has a session of its own."""
    below = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                below += [int(child), *family(int(child))]
    return below


def running(pid: int) -> bool:
    """Whether a process is there, and no zombie: in a container nobody may bury these."""
    with contextlib.suppress(ProcessLookupError):
        return bool(Identity.of(pid))
    return False


def sleeps(pid: int) -> bool:
    """Whether a process's main thread waits for something."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() == psutil.STATUS_SLEEPING)
    return False


def anybody_names(word: str) -> bool:
    commands = (one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"]))
    return any(word in one for command in commands for one in command)


def cpu_seconds(pid: int) -> float:
    seconds = 0.0
    for member in [pid, *family(pid)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = psutil.Process(member).cpu_times()
            seconds += times.user + times.system
    return seconds


_OF_A_THREAD = ("comm", "wchan", "syscall")


def stderr_of(process: FioProcess) -> str:
    return (process.folder / "stderr").read_text(errors="replace")


def _threads(pid: int) -> str:
    """Tell where each thread of a process is in the kernel: a lock, a wait for replies, or none."""
    lines = ""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            name, where, call = ((task / file).read_text().strip() for file in _OF_A_THREAD)
            lines += f"{pid} {task.name} {name}: {where}, system call {call}\n"
    return lines


def _handler_waits_for_itself(pid: int) -> bool:
    """Whether fio's signal handler waits for a lock that its own thread holds.

    It formats its line with malloc(), and a signal may come within malloc(). While the handler
    runs, its signal is blocked.
    """
    main = Path(f"/proc/{pid}/task/{pid}")
    with contextlib.suppress(OSError):
        blocked = re.search(r"^SigBlk:\s*(\w+)", (main / "status").read_text(), re.MULTILINE)
        ending = 1 << (signal.SIGTERM - 1) | 1 << (signal.SIGINT - 1)
        handles = blocked and int(blocked[1], 16) & ending
        return bool(handles) and "futex" in (main / "wchan").read_text()
    return False


def ends(process: FioProcess, seconds: float = 60) -> None:
    """Expect a fio to end by itself, and no job of it to outlive it.

    `seconds` only protect against hanging; what must end in time is tested with `within`.
    """
    deadline = time.monotonic() + seconds
    jobs: set[Identity] = set()
    while process.running:
        for pid in family(process.pid):
            with contextlib.suppress(ProcessLookupError):
                jobs.add(Identity.of(pid))
        if time.monotonic() > deadline:
            where = "".join(_threads(pid) for pid in (process.pid, *family(process.pid)))
            itself = _handler_waits_for_itself(process.pid)
            process.kill()
            for job in jobs:
                job.kill()
            if itself:
                pytest.xfail(f"fio's handler waits for a lock that it interrupted:\n{where}")
            pytest.fail(f"fio has not ended within {seconds} seconds:\n{where}")
        time.sleep(0.005)
    eventually(lambda: not any(job.alive() for job in jobs))


@contextlib.contextmanager
def mounted_at(folder: Path, options: str) -> Iterator[Path]:
    """Mount the guest's export on a new folder, with the options of lab.guest's Mount."""
    folder.mkdir()
    run(Mount.parse(f"{folder}={options}").command, timeout=_MOUNT_SECONDS).check()
    try:
        yield folder
    finally:
        # The kernel lets go of a ring's files some time after its process has ended.
        eventually(lambda: run(["umount", str(folder)], timeout=_MOUNT_SECONDS).status == 0)
