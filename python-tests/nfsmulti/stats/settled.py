# SPDX-License-Identifier: GPL-2.0-only
"""Whether a rate has settled over the time that it was measured for: whether its halves agree.

The figure of a cell is the mean rate over its time. Where that is too short for a ramp to fade or
for ups and downs to cancel out, the mean of its first half differs from that of its second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

AGREE_PERCENT = 10.0
FEWEST = 4  # windows without which nothing can be told
MOST_TIMES = 4

RULE = (
    "If the bandwidth of the two halves of a cell's first repeat differs by more than"
    f" {AGREE_PERCENT:g} %, or too few samples show whether it does, that repeat runs again, twice"
    f" as long each time, up to {MOST_TIMES} times its length. The cells that it is compared with"
    " by repeat, --factors or --setting run as long. All this adds at most half of the run's own"
    " time, or a minute."
)


@dataclass(frozen=True)
class Window:
    """A mean rate in bytes per second, from `begin` to `end`, in seconds since the start."""

    begin: float
    end: float
    rate: float

    def bytes(self, begin: float, end: float) -> float:
        """Give what was moved in the part of the window that lies between `begin` and `end`."""
        return self.rate * max(0.0, min(self.end, end) - max(self.begin, begin))


def halves(windows: Sequence[Window], end: float) -> tuple[float, float]:
    """Give what was moved in the two halves of the time from 0 to `end`, in seconds.

    Windows of several jobs may overlap: what they moved is added up.
    """
    first, second = (
        math.fsum(window.bytes(begin, begin + end / 2) for window in windows)
        for begin in (0.0, end / 2)
    )
    return first, second


def settled(windows: Sequence[Window], end: float) -> bool:
    """Tell whether the halves differ by at most AGREE_PERCENT of their mean.

    `end` is that of the run, in seconds. Too few windows have not settled: what they were measured
    over is too short to tell.
    """
    if len({window.end for window in windows}) < FEWEST:
        return False
    first, second = halves(windows, end)
    return abs(first - second) <= AGREE_PERCENT / 100 * (first + second) / 2
