# SPDX-License-Identifier: GPL-2.0-only
"""The CPU time of a whole machine while jobs do I/O, and not while fio starts or ends.

fio runs exec_prerun in each job before its first I/O, and exec_postrun after its last (fio(1));
both append a line here: the seconds since the machine was started, and the first of /proc/stat.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

_BEGIN, _END = "cpu.begin", "cpu.end"
# Words of the shell alone, which starts no program. fio adds "> FILE", which # keeps from it.
_LINE = '{ read -r cpu; read -r up _ </proc/uptime; echo "$up $cpu" >>%s; } </proc/stat #'
# The part of the jobs' run time in which all of them must have been at work.
_LEAST = 0.9


def options(folder: Path) -> dict[str, str]:
    """Give fio's options that leave in `folder` what busy_seconds() reads."""
    begin, end = (shlex.quote(str(folder / name)) for name in (_BEGIN, _END))
    return {"exec_prerun": _LINE % begin, "exec_postrun": _LINE % end}


def busy_seconds(folder: Path, run_time: float) -> float | None:
    """Give the seconds that the machine's processors have worked in the jobs' run time, in seconds.

    Measured from the last job's begin to the first one's end, when all are at work, and brought to
    `run_time`. None where that is less than 90 % of it or the other way round: not told.
    """
    begins, ends = _moments(folder / _BEGIN), _moments(folder / _END)
    if not begins or len(begins) != len(ends):
        return None
    begin, end = max(begins, key=lambda at: at.uptime), min(ends, key=lambda at: at.uptime)
    measured = end.uptime - begin.uptime
    if run_time <= 0 or not _LEAST <= measured / run_time <= 1 / _LEAST:
        return None
    return (end.busy - begin.busy) * run_time / measured


@dataclass(frozen=True)
class _Moment:
    """Seconds since the machine was started, and those that its processors have worked."""

    uptime: float
    busy: float


def _moments(file: Path) -> list[_Moment]:
    """Read them, empty where there are none. Raises ValueError where a line is another one."""
    if not file.exists():
        return []
    return [_moment(line) for line in file.read_text().splitlines()]


def _moment(line: str) -> _Moment:
    """All that /proc/stat tells but idle and iowait; guests are counted in user (proc(5))."""
    uptime, _cpu, *ticks = line.split()
    user, nice, system, _idle, _iowait, *others = map(int, ticks[:8])
    busy = (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")
    return _Moment(float(uptime), busy)
