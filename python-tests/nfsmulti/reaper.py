# SPDX-License-Identifier: GPL-2.0-only
"""Ends what a harness started, when the harness itself is gone however it ended.

Each program that processes.py starts has a mark of its own in its environment, and hands it on to
all that it starts in turn, whatever session or user they change to. (PR_SET_PDEATHSIG alone does
not do: fio's jobs are grandchildren, and rpcbind loses the setting when it changes its user.)

Run as a program of its own by processes.py. Its standard input is a pipe that only the harness
holds: "+MARK" comes before a start, "-MARK" when nothing with the mark is left. When the pipe
closes, every process with a mark that was not taken back is killed.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

# Holds the marks: of the program itself, and before it those of the harnesses around its own.
VARIABLE = "NFSMULTI_STARTED_AS"

_ROUNDS = 500
_PAUSE_SECONDS = 0.01


def kill_marked(marks: Collection[bytes]) -> bool:
    """Kill every process with one of `marks`, round after round; tell whether none is left.

    Gives up after some seconds: a process may hang in the kernel. Does not find those whose
    environment we may not read, and those that have overwritten it.
    """
    loading: set[int] = set()
    for _ in range(_ROUNDS):  # a process may fork while it is looked for
        environments = _environments()
        found = [pid for pid, text in environments.items() if any(mark in text for mark in marks)]
        # While the kernel loads a program, it shows no environment: we look once more.
        before, loading = loading, {pid for pid, text in environments.items() if not text}
        if not found and loading <= before:
            return True
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)
    return False


def _environments() -> dict[int, bytes]:
    """Return the environments, by process id, that we may read."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                text = (entry / "environ").read_bytes()
                if not text:
                    (entry / "exe").readlink()  # fails for zombies and for the kernel's threads
                found[int(entry.name)] = text
    return found


def _main() -> None:
    marks: set[bytes] = set()
    for line in sys.stdin.buffer:
        change = marks.add if line[:1] == b"+" else marks.discard
        change(line[1:].strip())
    # In the first round one may have forked, and have ended before it was seen.
    for _ in range(2 if marks else 0):
        kill_marked(marks)


if __name__ == "__main__":
    _main()
