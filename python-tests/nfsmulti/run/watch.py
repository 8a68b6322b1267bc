# SPDX-License-Identifier: GPL-2.0-only
"""What is watched while a cell runs: this machine's processors, and the server's with its memory.

Both are asked again and again for /proc/stat and /proc/meminfo: a server every second, by `cat` and
nothing else. The CPU time of the whole machine counts while jobs do I/O, and not while fio starts
or ends: fio runs exec_prerun in each job right before its first I/O (fio(1)), which writes the time
down. What the processors work right before a cell is other programs' work, which cannot be told
from the cell's own later.
"""

import contextlib
import os
import shlex
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import FioReport
from nfsmulti.processes import run
from nfsmulti.summary import Server

_BEGIN = "cpu.begin"
_UPTIME = Path("/proc/uptime")
# Words of the shell alone, which starts no program. fio adds "> FILE", which # keeps from it.
_NOTE = 'exec 9>>{file}; read -r up _ </proc/uptime; echo "$up" >&9 #'
_TOGETHER = Path(__file__).with_name("begin.sh")
# The part of the run time in which all jobs must have been at work, for the rest to be like it.
_LEAST = 0.5
MOST_SAMPLES = 10_000
TICKS = os.sysconf("SC_CLK_TCK")  # in a second
_QUIET_SECONDS = 0.2  # of what others work, before a cell: /proc/uptime and /proc/stat tell 10 ms
_FILES = ("/proc/stat", "/proc/meminfo")
_INTERVAL = 1.0
_SECONDS = 10.0

# Gives both files, one after the other. Raises HarnessError.
Ask = Callable[[], str]


# --- this machine's processors ---


def fio_options(folder: Path, jobs: int, before: str) -> dict[str, str]:
    """Return fio's options that leave in `folder` when its jobs began, on this machine.

    With a command in `before` one of so many jobs runs it when all have come, and then they begin
    together; all end where it fails.
    """
    file = str(folder / _BEGIN)
    if before:
        return {"exec_prerun": f"{shlex.join(['sh', str(_TOGETHER), file, str(jobs), before])} #"}
    return {"exec_prerun": _NOTE.format(file=shlex.quote(file))}


def others_busy(cpus: Collection[int] | None = None) -> float:
    """Return the part of the processors' time that is worked while nothing of a run does."""
    before = Sample.of(local(), cpus)
    time.sleep(_QUIET_SECONDS)
    after = Sample.of(local(), cpus)
    busy = (after.busy - before.busy) / TICKS / (after.uptime - before.uptime) / processors(cpus)
    return min(busy, 1.0)  # both clocks have ticks of 10 ms


def processors(cpus: Collection[int] | None = None) -> int:
    """Count these processors, or all."""
    return len(cpus or ()) or os.cpu_count() or 1


def busy_ticks(stat: str, cpus: Collection[int] | None) -> int:
    """Add up all that /proc/stat tells but idle and iowait; guests are in user (proc(5)).

    A container's /proc/stat may count its processors anew: its sum is then that of its own.
    """
    whole, *each = [line.split()[:9] for line in stat.splitlines() if line.startswith("cpu")]
    names = {f"cpu{number}" for number in cpus or ()}
    chosen = [words for words in each if words[0] in names]
    if len(chosen) < max(len(names), 1):
        chosen = [whole]
    return sum(sum(map(int, words[1:4] + words[6:])) for words in chosen)


def window(folder: Path, report: FioReport) -> tuple[float, float] | None:
    """Return the uptimes between which all jobs did I/O; None where that was not written down."""
    begins, times = _begins(folder), _run_times(report)
    if not begins or len(begins) != len(times):
        return None
    return max(begins), min(begins) + min(times) / 1000


def seconds_of_io(folder: Path) -> float:
    """Return how long ago the first job began its I/O, 0 where none has."""
    begins = _begins(folder)
    return _uptime() - min(begins) if begins else 0.0


def _begins(folder: Path) -> list[float]:
    """Return the uptimes at which jobs began, as far as that was written down."""
    file = folder / _BEGIN
    return [float(line) for line in file.read_text().split()] if file.exists() else []


def _uptime() -> float:
    return float(_UPTIME.read_text().split()[0])


def _run_times(report: FioReport) -> list[int]:
    """Return the run time of each job in ms."""
    return [max(job[way]["runtime"] for way in ("read", "write")) for job in report.jobs]


# --- whom to ask ---


def local() -> str:
    """Ask this machine."""
    return "".join(Path(file).read_text() for file in _FILES)


def of_processes(pids: Callable[[], Iterable[int]]) -> Ask:
    """Return what asks this machine for what some of its processes alone have worked."""

    def ask() -> str:
        text = local()
        had = sum(map(int, text.split("\n", 1)[0].split()[1:9]))
        busy = 0
        for pid in pids():  # with the threads that have ended, too
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
                busy += sum(map(int, stat.split()[11:13]))
        return f"cpu {busy} 0 0 {had - busy} 0 0 0 0\n{text.partition(chr(10))[2]}"

    return ask


def by_command(command: str) -> Ask:
    """Return what asks by a user's words that lead there, as "ssh nas". Raises HarnessError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise HarnessError(f"--server-command {command}: {error}") from None
    argv = [*words, "cat", *_FILES]
    return lambda: answer(argv, shlex.join(argv), _SECONDS)


def answer(argv: Sequence[str], what: str, seconds: float) -> str:
    """Return what a command prints. Raises HarnessError, of `what`, where it fails or is late."""
    done = run(argv, timeout=seconds)
    if done.status == 0:
        return done.stdout.strip()
    said = done.stderr.strip()
    how = f"did not end within {seconds:g} s"
    if done.status:
        how, said = f"failed ({done.status})", said or done.stdout.strip()
    raise HarnessError(": ".join([f"{what} {how}", *said.splitlines()[-1:]]))


# --- what they tell ---


@dataclass(frozen=True)
class Sample:
    """What held at `uptime`, this machine's: clock ticks that processors worked, of those they had.

    Both are of all processors, or of some of them alone, and add up. `dirty` and `cached` are
    bytes.
    """

    uptime: float
    busy: int
    had: int
    processors: int
    dirty: int
    cached: int

    @classmethod
    def of(cls, text: str, cpus: Collection[int] | None = None) -> Self:
        """Read both files. Raises HarnessError."""
        uptime = _uptime()
        lines = {words[0]: words for line in text.splitlines() if (words := line.split())}
        processors = sum(name.startswith("cpu") and name != "cpu" for name in lines)
        try:
            dirty, cached = (int(lines[name][1]) << 10 for name in ("Dirty:", "Cached:"))
            had = sum(map(int, lines["cpu"][1:9]))
            return cls(uptime, busy_ticks(text, cpus), had, processors, dirty, cached)
        except (LookupError, ValueError):
            raise HarnessError(
                "the server's answer is not Linux's /proc/stat and /proc/meminfo"
            ) from None


class Watch:
    """Asks before, `every` so many seconds during, and after `with`; where `ask` is None, nobody.

    It stops at the first failure, which `why` says in a line: figures are then missing. With `cpus`
    the processors of these numbers alone count.
    """

    def __init__(
        self, ask: Ask | None, every: float = _INTERVAL, cpus: Collection[int] | None = None
    ):
        self._ask, self._every, self.cpus = ask, every, cpus
        self.samples: list[Sample] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._again_and_again, daemon=True)
        self.why: str | None = None

    def __enter__(self) -> Self:
        self.take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self.take()

    def take(self) -> None:
        """Ask now; of a run of hours every second sample goes, again and again."""
        if self._ask is None or self.why:
            return
        if len(self.samples) >= MOST_SAMPLES:
            del self.samples[1::2]
        try:
            self.samples.append(Sample.of(self._ask(), self.cpus))
        except (HarnessError, OSError) as error:
            self.why = str(error).splitlines()[0]

    def figures(self, window: tuple[float, float] | None) -> Server | None:
        """Return what was told between two uptimes, when all jobs did I/O, or else in all."""
        if self._ask is None or self.why:
            return None
        begin, end = window or (0.0, 0.0)
        found = [one for one in self.samples if begin <= one.uptime <= end]
        found = found if len(found) > 1 else self.samples
        first, last = found[0], found[-1]
        had = last.had - first.had
        return Server(
            cpu_percent=100 * (last.busy - first.busy) / had if had > 0 else None,
            processors=last.processors,
            dirty_bytes=max(one.dirty for one in self.samples),
            cached_bytes=max(one.cached for one in self.samples),
        )

    def busy_seconds(self, folder: Path, report: FioReport) -> float | None:
        """Return the seconds that the machine's processors have worked in the jobs' run time.

        Measured from the last job's begin to the first one's end, when all are at work, and brought
        to the run time. None where that is too small a part of it: not told.
        """
        found = window(folder, report)
        if found is None:
            return None
        begin, end = found
        run_time = max(_run_times(report)) / 1000
        first, last = self._busy_at(begin), self._busy_at(end)
        if first is None or last is None or end - begin < _LEAST * run_time:
            return None
        return (last - first) / TICKS * run_time / (end - begin)

    def _busy_at(self, uptime: float) -> float | None:
        """Return what lies between the samples around a time, None where these are not there."""
        after = bisect_left(self.samples, uptime, key=lambda sample: sample.uptime)
        if not 0 < after < len(self.samples):
            return None
        one, other = self.samples[after - 1], self.samples[after]
        part = (uptime - one.uptime) / (other.uptime - one.uptime)
        return one.busy + part * (other.busy - one.busy)

    def _again_and_again(self) -> None:
        while not self._end.wait(self._every):
            self.take()
