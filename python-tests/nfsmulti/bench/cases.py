# SPDX-License-Identifier: GPL-2.0-only
"""The cases that are measured, and the bars that they are held against."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Direction
from nfsmulti.stats import Ratio

# Who runs: the engine under test, one that a bar may be beside, or another.
Role = Literal["ours", "peer", "yardstick", "single", "v3", "data", "other"]
# Those that a bar may be beside; the last three are the engine under test itself.
RIVALS: Mapping[Role, str] = {
    "peer": "fio's own engine",
    "yardstick": "plain sockets",
    "single": "one connection",
    "v3": "NFSv3",
    "data": "READ",
}
# What is held against another's: CPU time per operation, operations per second, and latency.
Ratioed = Literal["cpu", "rate", "p50"]
# What a bar is about: one of these ratios, or our own system calls per operation.
Figure = Literal["cpu", "rate", "p50", "calls"]


class BarVerdict(StrEnum):
    """Whether a bar is met; it is open where the interval holds the bar, or there is none."""

    MET = "met"
    MET_OPEN = "met (open)"
    NOT_MET_OPEN = "not met (open)"
    NOT_MET = "not met"


@dataclass(frozen=True)
class Bar:
    """A limit, for a ratio `beside` another engine: the least for the rate, the most for others."""

    figure: Figure
    limit: float
    beside: Role = "peer"

    @property
    def text(self) -> str:
        """The bar as it is shown."""
        return f"{'≥' if self.figure == 'rate' else '≤'} {self.limit:g}"

    def met(self, value: float) -> bool:
        """Tell whether `value` is on the right side."""
        return value >= self.limit if self.figure == "rate" else value <= self.limit

    def verdict(self, ratio: Ratio) -> BarVerdict:
        """Hold a ratio against it."""
        met = self.met(ratio.value)
        if ratio.low is None or ratio.high is None or self.met(ratio.low) != self.met(ratio.high):
            return BarVerdict.MET_OPEN if met else BarVerdict.NOT_MET_OPEN
        return BarVerdict.MET if met else BarVerdict.NOT_MET


@dataclass(frozen=True)
class Case:
    """One workload: fio's rw, bs and iodepth, the depth being that of all connections together.

    `version` is that of NFS where it is not 3. `operation` is a metadata operation, which is made
    instead of each I/O.
    """

    rw: str
    bs: str
    depth: int
    connections: int = 1
    bars: tuple[Bar, ...] = ()
    place: str = ""  # of the file, where that makes a difference
    version: str = ""
    operation: str = ""

    @property
    def name(self) -> str:
        """A name in the words of the bars, such as "randread 4k d32", "… c4" or "… v4.1"."""
        what = [self.operation] if self.operation else [self.rw, self.bs]
        words = [self.place, *what, f"d{self.depth}"]
        if self.connections > 1:
            words.append(f"c{self.connections}")
        if self.version:
            words.append(f"v{self.version}")
        return " ".join(filter(None, words))

    @property
    def direction(self) -> Direction:
        """What its I/Os do."""
        return "write" if "write" in self.rw else "read"


def _bars(cpu: float, rate: float | None = None, calls: float | None = None) -> tuple[Bar, ...]:
    limits: list[tuple[Figure, float | None]] = [("cpu", cpu), ("rate", rate), ("calls", calls)]
    return tuple(Bar(figure, limit) for figure, limit in limits if limit is not None)


_YARDSTICK = (
    Bar("cpu", 1.10, "yardstick"),
    Bar("rate", 0.95, "yardstick"),
    Bar("p50", 1.0, "yardstick"),
)
# Of many connections beside one, at the same depth.
MANY_BARS = (Bar("cpu", 2.5, "single"), Bar("rate", 0.45, "single"))
# Of NFSv4.1, which fio's nfs engine does not have, beside our own NFSv3.
_VERSION_BARS = (Bar("cpu", 1.25, "v3"), Bar("rate", 0.85, "v3"))
# Of a metadata operation, which fio's nfs engine has not, beside the I/O of this size.
_METADATA_BARS = (Bar("cpu", 1.0, "data"),)

# Bars beside the peer are for fio's nfs engine on the distribution's libnfs, on one connection.
# Reads of 64 KiB and more have none for the rate: there the server is the limit.
CLIENT_COST = (
    Case("randread", "4k", 1, bars=_bars(0.80, 1.1)),
    Case("randread", "4k", 8, bars=_bars(0.50, 1.2) + _YARDSTICK),
    Case("randread", "4k", 32, bars=_bars(0.30, 2.6, calls=0.20) + _YARDSTICK),
    Case("randread", "4k", 128, bars=_bars(0.22, 4.2) + _YARDSTICK),
    Case("write", "4k", 32, bars=_bars(0.32, 1.9) + _YARDSTICK),
    Case("write", "8k", 8, bars=_bars(0.65, 1.0)),
    Case("write", "64k", 8, bars=_bars(0.33, 3.0) + _YARDSTICK),
    Case("write", "1m", 8, bars=_bars(0.70, 1.3)),
    Case("read", "64k", 8, bars=_bars(0.85) + _YARDSTICK),
    Case("read", "1m", 8, bars=_bars(0.85)),
    # The peer has one connection to a job, so that it takes as many jobs as connections.
    Case("randread", "4k", 128, connections=4),
    Case("write", "64k", 8, connections=4),
    Case("read", "64k", 8, connections=4),
    Case("randread", "4k", 256, connections=64, bars=MANY_BARS),
    Case("write", "64k", 64, connections=64),
    Case("read", "64k", 64, connections=64),
    Case("randread", "4k", 1, version="4.1"),
    Case("randread", "4k", 32, bars=_VERSION_BARS, version="4.1"),
    Case("write", "4k", 32, version="4.1"),
    Case("read", "64k", 8, version="4.1"),
    Case("randread", "4k", 32, bars=_METADATA_BARS, operation="getattr"),
)

# A job's memory beyond fio's own and its I/O buffers, in bytes, and where it is measured.
MEMORY_CASE = Case("randread", "4k", 128, connections=4)
MEMORY_LIMIT = 2 << 20

_MOUNT_BARS = (Bar("cpu", 1.03), Bar("rate", 0.97))
MOUNT = tuple(
    Case(rw, bs, depth, bars=_MOUNT_BARS, place=place)
    for place in ("tmpfs", "disk")
    for rw, bs, depth in (
        ("randread", "4k", 1),
        ("randread", "4k", 32),
        ("randwrite", "4k", 32),
        ("read", "64k", 8),
        ("write", "1m", 8),
    )
)

# The published one, and one in which data is next to nothing.
RDMA = (
    Case("randread", "64k", 8, bars=(Bar("rate", 1.3), Bar("cpu", 0.5))),
    Case("randread", "512", 8),
)

_SCALE_DEPTH = 256
# Connections first, then depths.
SCALE = tuple(
    [Case("randread", "4k", _SCALE_DEPTH, connections=1 << bit) for bit in range(7)]
    + [Case("randread", "4k", 1 << bit) for bit in range(11) if 1 << bit != _SCALE_DEPTH]
)
# One connection, and the most.
SCALE_ENDS = SCALE[0], SCALE[6]


def choose(cases: Sequence[Case], patterns: Sequence[str]) -> list[Case]:
    """Give the cases whose name is, or matches, one of `patterns`; all where there is none.

    Raises HarnessError for a pattern that no case matches.
    """
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(case.name, pattern) for case in cases):
            raise HarnessError(f"--case '{pattern}' matches no case", "--list shows their names")
    return [
        case
        for case in cases
        if not patterns or any(fnmatch.fnmatchcase(case.name, pattern) for pattern in patterns)
    ]
