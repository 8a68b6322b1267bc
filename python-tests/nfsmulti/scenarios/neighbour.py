# SPDX-License-Identifier: GPL-2.0-only
"""neighbour: readers that wait for each block, alone and beside a bulk writer; and what moves bulk.

A reader has one I/O under way, as fast as the server answers or at a rate of its own. Each workload
is a set of jobs of one jobfile, which run at once.
"""

from __future__ import annotations

from nfsmulti.scenarios.scenario import OWN, CellSpec, GuestPlace, OwnPool, Scale, Scenario, timed
from nfsmulti.summary import Factor

# The jobs of each workload, by their names in the jobfile.
WORKLOADS = {
    "readers": ["readers"],
    "writer": ["writer"],
    "readers-beside-writer": ["readers", "writer"],
    "readers-limited": ["readers-limited"],
    "readers-limited-beside-writer": ["readers-limited", "writer"],
    "writers": ["writers"],
    "random-writers": ["random-writers"],
    "sequential-readers": ["sequential-readers"],
    "random-readers": ["random-readers"],
}
_QUICK = ("readers", "writer", "readers-beside-writer")
_JOBS = 4  # of most workloads; the writer beside the readers is one more
_BYTES, _QUICK_BYTES = 1 << 30, 64 << 20
_DIFFERS = (
    "Published with 16 jobs, files of twice the memory and XFS on NVMe: here four jobs, and files"
    " of 64 MiB in a server's memory.",
    "Client and server share the guest's processor: a writer's client takes part of it as well.",
)
_PLACES = {"guest": GuestPlace(differs=_DIFFERS)}


def _cells(scale: Scale) -> list[CellSpec]:
    return [_cell("guest", scale, name, 1, _QUICK_BYTES) for name in _names(scale)]


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    size = _QUICK_BYTES if scale.quick or scale.cell_seconds else _BYTES
    paths = min(_JOBS + 1, pool.urls or pool.mounts)
    return [_cell(OWN, scale, name, paths, size) for name in _names(scale)], []


def _names(scale: Scale) -> list[str]:
    return [name for name in WORKLOADS if not scale.quick or name in _QUICK]


def _cell(place: str, scale: Scale, workload: str, paths: int, size: int) -> CellSpec:
    seconds = scale.seconds(10, 30)
    options: dict[str, Factor | None] = {"size": size, **timed(seconds)}
    jobs = WORKLOADS[workload]
    bulk = 1 if "writer" in jobs else _JOBS if not workload.startswith("readers") else 0
    files = {"readers": size} if workload.startswith("readers") else {}
    return CellSpec(
        factors={"workload": workload},
        place=place,
        jobfile="neighbour.fio",
        jobs=jobs,
        options=options,
        seconds=seconds,
        paths=paths,
        files={**files, **{f"bulk.{number}": size for number in range(bulk)}},
        latency_over_time=True,
    )


NEIGHBOUR = Scenario(
    "neighbour",
    "readers beside a bulk writer",
    _PLACES,
    _cells,
    _own_cells,
    repeats=5,
)
