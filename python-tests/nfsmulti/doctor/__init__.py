# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti doctor: what stands in the way on this machine and on the servers of a pool.

Each look gives findings, which are defined here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is: `warn` costs speed or some jobs, `fail` stops every job."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What was found, and what to do about it where something is to be done."""

    level: Level
    what: str
    remedy: str | None = None


def ok(what: str) -> Finding:
    """Make a finding that needs nothing."""
    return Finding(Level.OK, what)


def warn(what: str, remedy: str) -> Finding:
    """Make a finding that costs speed, or fails some jobs."""
    return Finding(Level.WARN, what, remedy)


def fail(what: str, remedy: str) -> Finding:
    """Make a finding that fails every job."""
    return Finding(Level.FAIL, what, remedy)
