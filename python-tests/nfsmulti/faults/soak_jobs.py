# SPDX-License-Identifier: GPL-2.0-only
"""What is written and read back: a fio with failover over all spreads, and a fio without it.

Why it is asked for as it is:

- A block's content is the number of its round and its offset, so that the reading pass knows every
  byte, and what an earlier round has left is as wrong as anything else.
- A round writes each block once: a server that was silent may carry a WRITE out after another path
  has done so. That is the same bytes again as long as nothing newer has taken their place.
- Each server has a verifier of its own, so what one has only promised to keep is not another's to
  COMMIT: WRITEs are durable when they are answered (file_sync), or held until they are
  (hold_writes), with a sync now and then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nfsmulti.fiorun import Options

Direction = Literal["write", "read"]

BLOCK = 16 << 10
DEPTH = 16
_FAILOVER_RATE = 4 << 20  # bytes/s of each job
_HARD_RATE = 1 << 20
_TIMEO = 10  # deciseconds, so that silence is met by retransmission and failover in good time


@dataclass(frozen=True)
class Job:
    """One job: the name of its section and of its file, how it spreads its I/O, and its rate.

    `held`: its writes are held until they are durable, instead of being durable at once.
    """

    name: str
    spread: str
    rate: int
    held: bool

    def size(self, seconds: int) -> int:
        """Give the bytes of its file: as much as a pass of `seconds` moves."""
        return self.rate * seconds // BLOCK * BLOCK


@dataclass(frozen=True)
class Group:
    """The jobs of one fio."""

    name: str
    failover: bool
    jobs: tuple[Job, ...]


_HELD = {"stable": "unstable", "hold_writes": "1m", "fsync": 64}
_DURABLE = {"stable": "file_sync"}

GROUPS = (
    Group(
        "failover",
        True,
        (
            Job("failover-job", "job", _FAILOVER_RATE, held=False),
            Job("failover-roundrobin", "roundrobin", _FAILOVER_RATE, held=False),
            Job("failover-queue", "queue", _FAILOVER_RATE, held=True),
            Job("failover-stripe", "stripe", _FAILOVER_RATE, held=True),
        ),
    ),
    Group("hard", False, (Job("hard", "roundrobin", _HARD_RATE, held=True),)),
)
JOBS = tuple(job for group in GROUPS for job in group.jobs)


def options(group: Group, direction: Direction, round_number: int) -> Options:
    """Give the options that all jobs of a group have in a pass."""
    return {
        "rw": f"rand{direction}",
        "bs": BLOCK,
        "iodepth": DEPTH,
        "failover": group.failover,
        "timeo": _TIMEO,
        **content(round_number),
        "do_verify": direction == "read",
    }


def content(round_number: int) -> Options:
    """Give fio's words for what stands in a file after that round."""
    return {"verify": "pattern", "verify_pattern": f"0x{round_number:08x}%o"}


def arguments(group: Group, direction: Direction, seconds: int) -> list[str]:
    """Give the jobs as fio's command line has them."""
    words: list[str] = []
    for job in group.jobs:
        kept = _HELD if job.held else _DURABLE
        words += [
            f"--name={job.name}",
            f"--filename={job.name}",
            f"--spread={job.spread}",
            f"--size={job.size(seconds)}",
            f"--rate={job.rate}",
            *(f"--{key}={value}" for key, value in kept.items() if direction == "write"),
        ]
    return words


def comparison(job: Job, file: str, seconds: int, round_number: int) -> list[str]:
    """Give the words for a fio that reads a job's file without NFS and knows every byte."""
    return [
        "--name=compare",
        "--ioengine=psync",
        f"--filename={file.replace(':', chr(92) + ':')}",
        "--rw=read",
        f"--bs={BLOCK}",
        f"--size={job.size(seconds)}",
        *(f"--{key}={value}" for key, value in content(round_number).items()),
    ]
