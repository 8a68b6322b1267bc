# SPDX-License-Identifier: GPL-2.0-only
"""The job processes of a running fio: its children, each in a session of its own."""

from __future__ import annotations

import contextlib

import psutil

from nfsmulti.processes import Process


def jobs_of(process: Process, *, traced: bool = False) -> list[psutil.Process]:
    """Give the jobs of the fio that `process` is, or that it is the strace of."""
    fios = _children(psutil.Process(process.pid)) if traced else [psutil.Process(process.pid)]
    return [job for fio in fios for job in _children(fio)]


def kill_jobs(process: Process, *, traced: bool = False) -> None:
    """Kill what jobs_of() gives; fio itself then ends, and reports what they had done."""
    for job in jobs_of(process, traced=traced):
        with contextlib.suppress(psutil.NoSuchProcess):
            job.kill()


def private_bytes(job: psutil.Process) -> int:
    """Give the memory that a process has for itself and has written to."""
    return sum(mapping.private_dirty for mapping in job.memory_maps())


def _children(parent: psutil.Process) -> list[psutil.Process]:
    """Give the running children of a process."""
    found = []
    for child in parent.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found
