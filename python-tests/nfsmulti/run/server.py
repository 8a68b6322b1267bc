# SPDX-License-Identifier: GPL-2.0-only
"""What a server's kernel tells during a cell: processors, Dirty and Cached, asked every second.

Nothing is run there but `cat /proc/stat /proc/meminfo`.
"""

from __future__ import annotations

import functools
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nfsmulti.errors import HarnessError
from nfsmulti.processes import run
from nfsmulti.run import cpu
from nfsmulti.summary import Server

_FILES = ("/proc/stat", "/proc/meminfo")
_INTERVAL = 1.0
_SECONDS = 10.0

# Gives both files, one after the other. Raises HarnessError.
Ask = Callable[[], str]


def local() -> str:
    """Ask this machine."""
    return "".join(Path(file).read_text() for file in _FILES)


def by_command(command: str) -> Ask:
    """Give what asks by the words of a user that lead there, as "ssh nas". Raises HarnessError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise HarnessError(f"--server-command {command}: {error}") from None
    return functools.partial(_said, [*words, "cat", *_FILES])


def _said(argv: list[str]) -> str:
    done = run(argv, timeout=_SECONDS)
    if done.status == 0:
        return done.stdout
    how = f"failed ({done.status})" if done.status else f"did not end within {_SECONDS:g} s"
    raise HarnessError(": ".join([f"{done.command} {how}", *done.stderr.strip().splitlines()[-1:]]))


@dataclass(frozen=True)
class _Sample:
    """What held at `uptime`, this machine's; `busy` and `ticks` of all processors add up."""

    uptime: float
    busy: int
    ticks: int
    processors: int
    dirty: int
    cached: int

    @classmethod
    def of(cls, text: str) -> _Sample:
        """Read both files. Raises HarnessError."""
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        lines = {words[0]: words for line in text.splitlines() if (words := line.split())}
        processors = sum(name.startswith("cpu") and name != "cpu" for name in lines)
        try:
            dirty, cached = (int(lines[name][1]) << 10 for name in ("Dirty:", "Cached:"))
            ticks = sum(map(int, lines["cpu"][1:9]))
            return cls(uptime, cpu.busy_ticks(text), ticks, processors, dirty, cached)
        except (LookupError, ValueError):
            raise HarnessError(
                "the server's answer is not Linux's /proc/stat and /proc/meminfo"
            ) from None


class Watch:
    """Asks before, every second during, and after `with`; where `ask` is None, nobody.

    It stops at the first failure, which `why` says in a line: figures are then missing.
    """

    def __init__(self, ask: Ask | None):
        self._ask = ask
        self._samples: list[_Sample] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._every_second, daemon=True)
        self.why: str | None = None

    def __enter__(self) -> Self:
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._take()

    def figures(self, window: tuple[float, float] | None) -> Server | None:
        """Give what it told between two uptimes, when all jobs did I/O, or else in all."""
        if self._ask is None or self.why:
            return None
        begin, end = window or (0.0, 0.0)
        found = [one for one in self._samples if begin <= one.uptime <= end]
        found = found if len(found) > 1 else self._samples
        first, last = found[0], found[-1]
        ticks = last.ticks - first.ticks
        return Server(
            cpu_percent=100 * (last.busy - first.busy) / ticks if ticks > 0 else None,
            processors=last.processors,
            dirty_bytes=max(one.dirty for one in self._samples),
            cached_bytes=max(one.cached for one in self._samples),
        )

    def _every_second(self) -> None:
        while not self._end.wait(_INTERVAL):
            self._take()

    def _take(self) -> None:
        if self._ask is None or self.why:
            return
        try:
            self._samples.append(_Sample.of(self._ask()))
        except (HarnessError, OSError) as error:
            self.why = str(error).splitlines()[0]
