# SPDX-License-Identifier: GPL-2.0-only
"""The CPU time of a whole machine while jobs do I/O, and not while fio starts or ends.

fio runs exec_prerun in each job right before its first I/O (fio(1)): that writes the time down.
The harness meanwhile samples what the processors have worked.
"""

from __future__ import annotations

import os
import shlex
from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from nfsmulti.fiorun import FioReport

_BEGIN = "cpu.begin"
_UPTIME, _STAT = Path("/proc/uptime"), Path("/proc/stat")
# Words of the shell alone, which starts no program. fio adds "> FILE", which # keeps from it.
_LINE = 'read -r up _ </proc/uptime; echo "$up" >>%s #'
# The part of the run time in which all jobs must have been at work, for the rest to be like it.
_LEAST = 0.5


def options(folder: Path) -> dict[str, str]:
    """Give fio's options that leave in `folder` when its jobs began, on this machine."""
    return {"exec_prerun": _LINE % shlex.quote(str(folder / _BEGIN))}


@dataclass(frozen=True)
class Sample:
    """Seconds since the machine was started, and those that its processors have worked."""

    uptime: float
    busy: float

    @classmethod
    def now(cls, cpus: Collection[int] | None = None) -> Sample:
        """Take what all processors have worked, or those of these numbers alone."""
        uptime = float(_UPTIME.read_text().split()[0])
        return cls(uptime, busy_ticks(_STAT.read_text(), cpus) / os.sysconf("SC_CLK_TCK"))


def busy_ticks(stat: str, cpus: Collection[int] | None = None) -> int:
    """Add up all that /proc/stat tells but idle and iowait; guests are in user (proc(5)).

    A container's /proc/stat may count its processors anew: its sum is then that of its own.
    """
    whole, *each = [line.split()[:9] for line in stat.splitlines() if line.startswith("cpu")]
    names = {f"cpu{number}" for number in cpus or ()}
    chosen = [words for words in each if words[0] in names]
    if len(chosen) < max(len(names), 1):
        chosen = [whole]
    return sum(sum(map(int, words[1:4] + words[6:])) for words in chosen)


@dataclass(frozen=True)
class Samples:
    """Samples in the order of time, some in a second, from before fio's start to after its end.

    They are of all processors, or of those in `cpus` alone.
    """

    samples: list[Sample] = field(default_factory=list)
    cpus: Collection[int] | None = None

    def take(self) -> None:
        """Add what holds now."""
        self.samples.append(Sample.now(self.cpus))

    def busy_seconds(self, folder: Path, report: FioReport) -> float | None:
        """Give the seconds that the machine's processors have worked in the jobs' run time.

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
        return (last - first) * run_time / (end - begin)

    def _busy_at(self, uptime: float) -> float | None:
        """Give what lies between the samples around a time, None where these are not there."""
        after = bisect_left(self.samples, uptime, key=lambda sample: sample.uptime)
        if not 0 < after < len(self.samples):
            return None
        one, other = self.samples[after - 1], self.samples[after]
        part = (uptime - one.uptime) / (other.uptime - one.uptime)
        return one.busy + part * (other.busy - one.busy)


def window(folder: Path, report: FioReport) -> tuple[float, float] | None:
    """Give the uptimes between which all jobs did I/O; None where that was not written down."""
    begins, times = _begins(folder / _BEGIN), _run_times(report)
    if not begins or len(begins) != len(times):
        return None
    return max(begins), min(begins) + min(times) / 1000


def _run_times(report: FioReport) -> list[int]:
    """Give the run time of each job in ms."""
    return [max(job[way]["runtime"] for way in ("read", "write")) for job in report.jobs]


def _begins(file: Path) -> list[float]:
    return [float(line) for line in file.read_text().split()] if file.exists() else []
