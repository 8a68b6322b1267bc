# SPDX-License-Identifier: GPL-2.0-only
"""Which path fails when, how, and for how long: drawn by a seed, so that a run can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass

from nfsmulti.lab.faults import FaultKind

# Seconds: between the beginnings of faults, and how long each kind lasts, from … to.
_GAP = (0.2, 2.0)
_LASTS = {
    FaultKind.KILL: (0.2, 3.0),
    FaultKind.STOP: (0.5, 4.0),
    FaultKind.DROP: (0.5, 4.0),
    FaultKind.ADDRESS: (0.5, 3.0),
    FaultKind.RESET: (0.0, 0.0),
}


@dataclass(frozen=True)
class Fault:
    """One fault: `begin` and `end` are seconds since the beginning of its pass."""

    begin: float
    end: float
    path: int
    kind: FaultKind


def schedule(seed: int, number: int, seconds: float, paths: int) -> list[Fault]:
    """Give the faults of pass `number`, in the order of their beginnings.

    At any time at least one path has none; all are over after `seconds`. The same arguments give
    the same faults.
    """
    draw = random.Random(f"{seed}/{number}")
    whole_from = [0.0] * paths
    faults: list[Fault] = []
    now = draw.uniform(*_GAP)
    while now < seconds:
        kind = draw.choice(list(_LASTS))
        end = min(now + draw.uniform(*_LASTS[kind]), seconds)
        whole = [path for path in range(paths) if whole_from[path] < now]
        if len(whole) > 1:
            path = draw.choice(whole)
            whole_from[path] = end
            faults.append(Fault(now, end, path, kind))
        now += draw.uniform(*_GAP)
    return faults
