# SPDX-License-Identifier: GPL-2.0-only
"""sweep: every combination of the mount options that people argue about, in a random order.

The quick form is half of them: those whose levels' numbers add up to an even one. Each level of a
factor then meets each level of two others equally often.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from nfsmulti.lab.config import LabConfig
from nfsmulti.lab.limits import Limits
from nfsmulti.scenarios.scenario import OWN, CellSpec, OwnPool, Scale, Scenario
from nfsmulti.summary import Factor

_MB = 1 << 20
_LINK = 117e6  # bytes/s that a link of 1 Gbit/s leaves
_TINY_TRANSFERS = (1, 2, 4)

_LEVELS: dict[str, Sequence[Factor]] = {
    "direction": ("read", "write"),
    "sync": ("sync", "async"),
    "mount": ("soft", "hard"),
    "buffer": (16384, 32768, 65536, 131072),
}
_TRANSFERS, _QUICK_TRANSFERS = (1024, 2048, 4096), (64, 128, 256)

_PLACES = {"1gbit": LabConfig(addresses=1, limits=Limits(link="1gbit"))}


def _cells(scale: Scale) -> list[CellSpec]:
    return _cells_in("1gbit", scale)


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    if not pool.urls:
        said = "a kernel mount has the options it was mounted with: give a pool of URLs"
        return [], [said]
    return _cells_in(OWN, scale), []


def _cells_in(place: str, scale: Scale) -> list[CellSpec]:
    transfers = _QUICK_TRANSFERS if scale.quick else _TRANSFERS
    levels = {**_LEVELS, "transfer": _TINY_TRANSFERS if scale.cell_seconds else transfers}
    numbered = itertools.product(*(range(len(values)) for values in levels.values()))
    return [
        _cell(place, {name: levels[name][i] for name, i in zip(levels, numbers, strict=True)})
        for numbers in numbered
        if not scale.quick or sum(numbers) % 2 == 0
    ]


def _cell(place: str, factors: dict[str, Factor]) -> CellSpec:
    size = int(factors["transfer"]) * _MB
    buffer, reading = factors["buffer"], factors["direction"] == "read"
    return CellSpec(
        factors=factors,
        place=place,
        jobfile="sweep.fio",
        options={
            "rw": factors["direction"],
            "bs": buffer,
            "rsize": buffer,
            "wsize": buffer,
            "size": size,
            "sync": int(factors["sync"] == "sync"),
            str(factors["mount"]): 1,
        },
        seconds=size / _LINK,
        files={"sweep": size} if reading else {},
    )


SWEEP = Scenario("sweep", "which settings are best for a server", _PLACES, _cells, _own_cells)
