# SPDX-License-Identifier: GPL-2.0-only
"""System calls per operation, counted by strace in a run that is not timed."""

from __future__ import annotations

import re
from pathlib import Path

# What moves data, or waits for it: what fio does to start and to end is left out.
DATA_PATH = (
    "poll,ppoll,select,pselect6,epoll_wait,epoll_pwait,epoll_pwait2,"
    "read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,"
    "io_uring_enter,io_getevents,io_submit"
)

HOW = (
    "System calls per operation: ours as the engine counts them (its stats_file, every run); the"
    " others' by strace -f -c in a run of its own that is not timed, of the calls that move data or"
    " wait for it."
)


def strace_words(output: Path) -> list[str]:
    """Give the words before a command that have its system calls counted into `output`."""
    wanted = ["-e", f"trace={DATA_PATH}", "-U", "calls,name"]
    return ["strace", "-f", "-qq", "-c", *wanted, "-o", str(output)]


def read_strace(output: Path) -> int:
    """Read the sum of all calls out of strace's table."""
    match = re.search(r"^\s*(\d+)\s+total\s*$", output.read_text(), re.MULTILINE)
    return int(match[1]) if match else 0
