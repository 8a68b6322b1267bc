# SPDX-License-Identifier: GPL-2.0-only
"""Commands that never outlive their owner.

Each runs in a session of its own, is ended with everything it started, and dies with the harness
even when that is killed with SIGKILL. What it started is known by a mark in the environment, which
tells it from all others (see reaper.py). Output goes to files, so nobody waits for a reader.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import secrets
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from nfsmulti import reaper
from nfsmulti.errors import HarnessError, MissingError

_KILL_SECONDS = 5.0
_TOLD_BYTES = 1 << 20


class CommandError(HarnessError):
    """A command failed or did not end in time."""


def find(program: str) -> str:
    """Return the full path of `program`; raises MissingError."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        remedy = f"install its package: on Debian apt-file search bin/{program} names it"
        raise MissingError(f"{program} is not installed", remedy)
    return found


@functools.cache
def boot_id() -> str:
    """Return the kernel's name for this boot, since start times count from it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True)
class Identity:
    """One process and no later one with its number: pid, start in clock ticks since `boot`."""

    pid: int
    start: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """Identify a live process; raises ProcessLookupError where there is none."""
        start = _start_time(pid)
        if start is None:
            raise ProcessLookupError(pid)
        return cls(pid, start, boot_id())

    def alive(self) -> bool:
        """Tell whether the very process still runs."""
        return self.boot == boot_id() and _start_time(self.pid) == self.start

    def kill(self, grace: float = 0.0) -> None:
        """Send SIGKILL, if the process is still the one that is meant.

        With `grace` SIGTERM comes so many seconds before, and SIGKILL where that did not do.
        """
        polite = [(signal.SIGTERM, grace)] if grace else []
        with contextlib.suppress(ProcessLookupError), _pidfd(self.pid) as handle:
            for number, seconds in (*polite, (signal.SIGKILL, _KILL_SECONDS)):
                if self.alive():
                    signal.pidfd_send_signal(handle, number)
                    _ends(handle, seconds)


def _start_time(pid: int) -> int | None:
    """Return a process's start in clock ticks since boot; None for the dead and for zombies."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return None if fields[0] in "ZX" else int(fields[19])


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int]:
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        os.close(handle)


def _ends(handle: int, timeout: float | None) -> bool:
    """Wait up to `timeout` seconds for a process to end, when its pidfd becomes readable."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(None if timeout is None else max(timeout, 0) * 1000))


@functools.cache
def _reaper() -> subprocess.Popen[bytes]:
    """Start the program that ends what we started when we can no longer do it (see reaper.py)."""
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", reaper.__file__],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    atexit.register(program.communicate)  # its input ends; it ends with the last that we have left
    return program


def _tell_reaper(line: str) -> None:
    pipe = _reaper().stdin
    assert pipe is not None
    with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended, or we are about to
        pipe.write(f"{line}\n".encode())


def unmarked() -> dict[str, str]:
    """Return our environment for a program that shall outlive us and those who have started us."""
    return {name: value for name, value in os.environ.items() if name != reaper.VARIABLE}


class Process:
    """A running command. Use it as a context manager, or call end().

    Start it from a thread that lives as long as the command may: PR_SET_PDEATHSIG counts threads.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: IO[bytes] | int | None = subprocess.DEVNULL,
        stdout: IO[bytes] | int | None = None,
        stderr: IO[bytes] | int | None = None,
    ):
        """Start `argv`, with `env` added to ours. MissingError where argv[0] is not found."""
        self.argv = list(argv)
        program = find(argv[0])
        self._mark = secrets.token_hex(8)
        marks = f"{os.environ.get(reaper.VARIABLE, '')} {self._mark}".lstrip()
        _tell_reaper(f"+{self._mark}")
        # With close_fds, a start would close its copy of the reaper's pipe before the mark can be
        # seen: if we were killed then, the reaper would look too early. The exec closes our files
        # too, since Python opens them with O_CLOEXEC.
        try:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", program, *argv[1:]],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env={**os.environ, **(env or {}), reaper.VARIABLE: marks},
                start_new_session=True,
                close_fds=False,
            )
        except BaseException as error:  # of a signal, too, by which time the command may run
            self._kill_marked()
            if isinstance(error, ValueError):  # a NUL, or half a character
                raise HarnessError(f"{argv[0]} cannot be given such words: {error}") from None
            raise

    @property
    def pid(self) -> int:
        """The process id, which is its session's and group's too."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether the command itself still runs."""
        return self._popen.returncode is None and not self._exited(0)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command alone; nothing happens where it has ended."""
        if self._popen.returncode is None:
            os.kill(self.pid, number)

    def interrupt(self) -> None:
        """Do as Ctrl-C does in a terminal: SIGINT for the command and those of its group."""
        if self._popen.returncode is None:
            os.killpg(self.pid, signal.SIGINT)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait up to `timeout` seconds; give the exit status (negative: a signal), None if it runs.

        What the command left behind is killed as soon as it has ended itself.
        """
        if self._popen.returncode is None and self._exited(timeout):
            self.kill()
        return self._popen.returncode

    def comes_up(self, ready: Callable[[], bool], timeout: float) -> bool:
        """Poll until it is ready; False where it has ended before, or after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not ready():
            if self.wait(0.01) is not None or time.monotonic() > deadline:
                return False
        return True

    def end(self, grace: float = 3.0) -> int:
        """End the command: SIGTERM, and SIGKILL for all that is left after `grace` seconds."""
        if self._popen.returncode is None:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            self._exited(grace)
        return self.kill()

    def kill(self) -> int:
        """End the command and all that it started with SIGKILL."""
        if self._popen.returncode is None:
            # The group first: it may hold programs that have overwritten their environment.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait()
            self._kill_marked()
        return self._popen.returncode

    def _kill_marked(self) -> None:
        if reaper.kill_marked([self._mark.encode()]):
            _tell_reaper(f"-{self._mark}")

    def _exited(self, timeout: float | None) -> bool:
        """Wait for the end without reaping, so that the group's number stays ours."""
        with _pidfd(self.pid) as handle:
            return _ends(handle, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


@dataclass(frozen=True)
class Completed:
    """A command that has ended. `status` is None where it had to be killed after its timeout."""

    argv: list[str]
    status: int | None
    stdout: str
    stderr: str

    @property
    def command(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.argv)

    def check(self) -> Self:
        """Raise CommandError unless the command ended with status 0."""
        if self.status == 0:
            return self
        how = "did not end in time" if self.status is None else f"failed ({self.status})"
        said = (self.stderr.strip() or self.stdout.strip()).splitlines()[-5:]
        raise CommandError("\n  ".join([f"{self.command}: {how}{':' * bool(said)}", *said]))


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str = "",
    each_second: Callable[[str], None] = lambda _: None,
) -> Completed:
    """Run a command for at most `timeout` seconds, then end it and everything it started.

    `each_second` is told what it has printed so far.
    """
    deadline = time.monotonic() + timeout
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        source.write(stdin.encode())
        source.seek(0)
        with Process(argv, env=env, cwd=cwd, stdin=source, stdout=stdout, stderr=stderr) as process:
            while (status := process.wait(min(1.0, deadline - time.monotonic()))) is None:
                if time.monotonic() >= deadline:
                    break
                each_second(os.pread(stdout.fileno(), _TOLD_BYTES, 0).decode(errors="replace"))
        return Completed(list(argv), status, _text(stdout), _text(stderr))


def last_words(text: str, who: str = "it", lines: int = 8) -> str:
    """Return the end of what a program has said, below "it said:", as an error tells it."""
    said = [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]
    return "\n  ".join([f"{who} said:", *said] if said else [f"{who} said nothing"])


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="surrogateescape")


# --- what one process has at a time ---


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Wait until no other process has locked a file, which is made, and keep others waiting.

    Whoever must wait is told so on stderr.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"nfsmulti: waiting for another process, which has {file}", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Claim a folder until the end, or the process's; tells whether nobody else has it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        mine = False
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        yield mine
    finally:
        os.close(handle)


# --- the harness's own end ---


def shell_status(status: int | None) -> int:
    """Return what a shell makes of a Process.wait(): 128 and its number for a signal."""
    status = status or 0
    return status if status >= 0 else 128 - status


def end_politely() -> None:
    """Have SIGTERM and SIGHUP end us as Ctrl-C does: all that we hold is let go.

    They become SystemExit, with the status that a shell would give.
    """

    def leave(number: int, _: types.FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
