# SPDX-License-Identifier: GPL-2.0-only
"""The job processes of a running fio: its children, each in a session of its own."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from nfsmulti.processes import Process


def jobs_of(process: Process, *, traced: bool = False) -> list[int]:
    """Give the jobs of the fio that `process` is, or that it is the strace of."""
    fios = _children(process.pid) if traced else [process.pid]
    return [job for fio in fios for job in _children(fio)]


def kill_jobs(process: Process, *, traced: bool = False) -> None:
    """Kill what jobs_of() gives; fio itself then ends, and reports what they had done."""
    for job in jobs_of(process, traced=traced):
        with contextlib.suppress(ProcessLookupError):
            os.kill(job, signal.SIGKILL)


def private_bytes(pid: int) -> int:
    """Give the memory that a process has for itself and has written to."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(
        int(line.split()[1]) << 10
        for line in rollup.splitlines()
        if line.startswith("Private_Dirty:")
    )


def _children(parent: int) -> list[int]:
    """Give the running children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            stat = (entry / "stat").read_text(errors="replace")
            state, its_parent = stat.rpartition(")")[2].split()[:2]
            if int(its_parent) == parent and state not in "ZX":
                found.append(int(entry.name))
    return found
