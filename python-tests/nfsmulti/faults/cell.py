# SPDX-License-Identifier: GPL-2.0-only
"""The words of the matrix: modes, kinds of work, faults, and what is expected of a cell."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from nfsmulti.fiorun import Options

Words = tuple[str, ...]


class Mode(StrEnum):
    """What the job has been promised (nfs(5); README, Options)."""

    HARD = "hard"
    SOFT = "soft"
    FAILOVER = "failover"


class Work(StrEnum):
    """What the job does; each block's content is known, and checked on the server's own file.

    "write" is made of UNSTABLE WRITEs and a COMMIT, "write sync" of FILE_SYNC WRITEs; "write hold"
    is "write" with hold_writes. All are read back.
    """

    READ = "read"
    WRITE = "write"
    SYNC = "write sync"
    HOLD = "write hold"

    @property
    def writes(self) -> bool:
        """Whether the fault meets WRITEs."""
        return self is not Work.READ


class Place(StrEnum):
    """Whose server it is."""

    SCRIPTED = "scripted server, TCP"
    LAB = "nfs-ganesha, TCP"
    GUEST = "knfsd, RDMA"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong, and the job that it meets: each place adds how it is brought about.

    It is always the last but one of `paths`' addresses, or the only one, that it befalls. `options`
    are fio's; `patience` is what `soft` allows, in seconds, where it is to give up.
    """

    name: str
    place: Place
    paths: Mapping[Mode, int] = field(
        default_factory=lambda: {Mode.HARD: 1, Mode.SOFT: 1, Mode.FAILOVER: 2}
    )
    options: Options = field(default_factory=dict)
    patience: float = 1.0


def says(words: str, text: str) -> bool:
    """Tell whether any of the words (with | between) are in the text."""
    return any(one in text for one in words.split("|"))


@dataclass(frozen=True)
class Expected:
    """What must come of a cell.

    done    fio ends with 0, and every byte is right
    failed  fio ends with `error` (an errno) in its report and a status that is not 0
    held    the job waits for as long as one likes, and SIGINT ends it

    `says` are words of the engine, with | between those of which any will do; `moves`: calls were
    taken over by other paths; `loses`: the engine tells of bytes that may be lost (None: it may, or
    may not, which is a matter of time). `short` says how far that is from what was promised.
    """

    how: Literal["done", "failed", "held"]
    error: int = 0
    says: Words = ()
    moves: bool = False
    loses: bool | None = False
    short: str = ""

    @property
    def text(self) -> str:
        """How it ends, in a word or two."""
        return f"{self.how} {errno.errorcode[self.error]}" if self.error else self.how


@dataclass(frozen=True)
class Cell:
    """One cell; `brief`: it belongs to the matrix's short form."""

    fault: Fault
    work: Work
    mode: Mode
    expected: Expected
    brief: bool = False

    @property
    def id(self) -> str:
        """Its name, as -k and --only know it."""
        transport = "rdma" if self.fault.place is Place.GUEST else "tcp"
        return f"{self.fault.name}, {self.work}, {self.mode}, {transport}"

    @property
    def paths(self) -> int:
        """How many addresses the job's pool has."""
        return self.fault.paths[self.mode]

    @property
    def victim(self) -> int:
        """The address that the fault befalls, counted from 0."""
        return min(1, self.paths - 1)
