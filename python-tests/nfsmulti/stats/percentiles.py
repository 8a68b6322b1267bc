# SPDX-License-Identifier: GPL-2.0-only
"""Percentiles of latency over several jobs or repeats, out of json+ bins put together.

The mean of several runs' percentiles is no percentile of anything; bins can be added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping


def merged(bins: Iterable[Mapping[str, int]]) -> Counter[int]:
    """Add up fio's bins: latency in ns to the number of I/Os."""
    total: Counter[int] = Counter()
    for one in bins:
        for latency, count in one.items():
            total[int(latency)] += count
    return total


def percentile_ns(bins: Mapping[int, int], percent: float) -> int | None:
    """Give the latency in ns that `percent` of the I/Os do not exceed; None where there are none.

    As fio does: the first bin with which the count reaches that part of all I/Os.
    """
    total = sum(bins.values())
    wanted = total * percent / 100
    counted = 0
    for latency, count in sorted(bins.items()):
        counted += count
        if counted and counted >= wanted:
            return latency
    return None


def percentile_us(bins: Mapping[int, int], percent: float) -> float | None:
    """Give the same in µs."""
    latency = percentile_ns(bins, percent)
    return None if latency is None else latency / 1000
