# SPDX-License-Identifier: GPL-2.0-only
"""What a job needs beyond fio and its I/O buffers, which fio's null engine has too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from nfsmulti.bench.cases import MEMORY_CASE, MEMORY_LIMIT
from nfsmulti.bench.jobs import jobs_of, private_bytes
from nfsmulti.bench.runs import Contender, Timing, command
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import FioProcess

_TIMING = Timing(runtime=60_000, ramp=0, repeats=1)  # it is ended once it was measured
_START_SECONDS = 10.0
# A job that has run so long has used all that it will use.
_SETTLED_SECONDS = 0.6

_NULL = Contender(
    "null", "fio", lambda case, _: ["--ioengine=null", "--size=1g", f"--iodepth={case.depth}"]
)


def memory_line(beyond: int) -> str:
    """Hold the memory against its bar."""
    verdict = "met" if beyond <= MEMORY_LIMIT else "not met"
    return (
        f"memory of a job beyond fio's own and its I/O buffers, {MEMORY_CASE.name}:"
        f" {beyond / 2**20:.2f} MiB, bar ≤ {MEMORY_LIMIT / 2**20:g} MiB: {verdict}"
    )


def measure_memory(ours: Contender, target: str, folder: Path, enter: Sequence[str]) -> int:
    """Give the bytes that our job has beyond one of the null engine."""
    return _private(ours, target, folder / "ours", enter) - _private(
        _NULL, target, folder / "null", enter
    )


def _private(contender: Contender, target: str, folder: Path, enter: Sequence[str]) -> int:
    argv = [*enter, *command(contender, MEMORY_CASE, target, _TIMING, folder)]
    deadline = time.monotonic() + _START_SECONDS
    with FioProcess(argv, folder) as process:
        while time.monotonic() < deadline and process.running:
            if jobs := jobs_of(process):
                time.sleep(_SETTLED_SECONDS)
                return private_bytes(jobs[0])
            time.sleep(0.02)
    raise HarnessError(f"{contender.name}: no job ran whose memory could be measured")
