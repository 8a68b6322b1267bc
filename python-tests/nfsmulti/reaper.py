# SPDX-License-Identifier: GPL-2.0-only
"""Ends what a harness started, when the harness itself is gone however it ended.

Run as a program of its own by processes.py. Its standard input is a pipe that only the harness
holds: "+PID START" registers a session by its leader, "-PID" takes it back. When the pipe closes,
every process of the sessions that are left is killed. (PR_SET_PDEATHSIG alone does not do: fio's
jobs are grandchildren, and rpcbind loses the setting when it changes its user.)
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple, Self

_ROUNDS = 250


class ProcessStat(NamedTuple):
    """What /proc/PID/stat says: `start` is in clock ticks since boot."""

    runs: bool
    session: int
    start: int

    @classmethod
    def of(cls, pid: int) -> Self:
        """Read it; raises OSError where there is no such process."""
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        fields = stat.rpartition(")")[2].split()  # the name before may hold anything
        return cls(runs=fields[0] not in "ZX", session=int(fields[3]), start=int(fields[19]))


def _kill_sessions(leaders: dict[int, int]) -> bool:
    """Kill the members of the sessions `leaders` (pid to start time); tell whether any was left."""
    found = False
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        pid = int(entry.name)
        try:
            stat = ProcessStat.of(pid)
            stranger = pid == stat.session and stat.start != leaders.get(pid)
            if stat.runs and stat.session in leaders and not stranger:
                os.kill(pid, signal.SIGKILL)
                found = True
        except OSError:
            continue
    return found


def _main() -> None:
    leaders: dict[int, int] = {}
    for line in sys.stdin:
        pid, _, start = line[1:].partition(" ")
        if line[0] == "+":
            leaders[int(pid)] = int(start)
        else:
            leaders.pop(int(pid), None)
    for _ in range(_ROUNDS):  # a process may fork while it is looked for
        if not leaders or not _kill_sessions(leaders):
            break
        time.sleep(0.02)


if __name__ == "__main__":
    _main()
