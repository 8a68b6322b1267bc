# SPDX-License-Identifier: GPL-2.0-only
"""latency: how long users wait, and how much load a server holds at that.

Nothing was published with it. Each configuration first runs as fast as it can, its peak;
then I/O arrives by a clock of its own, at parts of that peak in a random order. A workload is a job
file, one below jobfiles/latency or a user's.

Factors: limits (lab, guest, pool), transport (tcp, rdma, each with -mount, directory), version,
jobs, nconnect, workload, load (per cent of the peak, or that itself).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

from nfsmulti.lab import LabConfig
from nfsmulti.report import loads, response
from nfsmulti.report.story import Report
from nfsmulti.scenario import (
    MIXED,
    OWN,
    STAMPS,
    CellSpec,
    Choice,
    GuestPlace,
    OwnPool,
    Place,
    Scale,
    Scenario,
    mount_options,
    timed,
    ways,
)
from nfsmulti.summary import Factor

_FACTORS = ("limits", "transport", "version", "jobs", "nconnect", "workload", loads.FACTOR)
_WORKLOAD, _METADATA = "latency/4k-randread.fio", "software-build"
_LOADS, _QUICK_LOADS = tuple(range(10, 120, 10)), (20, 40, 60, 80, 100)
_BYTES, _QUICK_BYTES, _TINY_BYTES = 1 << 30, 128 << 20, 16 << 20
_FILE = "nfsmulti-latency"  # of every workload here that has one
_LAB, _GUEST = "lab", "guest"
_PLACES: dict[str, Place] = {_LAB: LabConfig(addresses=1), _GUEST: GuestPlace()}
_DIRECTORY = "directory"


def _cells(scale: Scale) -> list[CellSpec]:
    choice = scale.choice
    place = _GUEST if choice.mounts or "rdma" in choice.protocols else _LAB
    return [
        cell
        for *where, query in ways(choice)
        for cell in _cells_of(choice, scale, [place, *where], query)
    ]


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    choice = scale.choice
    if not pool.urls:  # the engine itself does the I/O there, too
        alone = dataclasses.replace(choice, mounts=False, nconnect=(1,))
        where = [OWN, _DIRECTORY, pool.version or MIXED]
        return _cells_of(alone, scale, where, "", pool.mounts), []
    said = ["directories: the load goes to URLs alone"] if pool.mounts else []
    found = []
    for *where, query in ways(choice, pool):
        found += _cells_of(choice, scale, [OWN, *where], query, pool.urls)
    return found, said


def _cells_of(
    choice: Choice, scale: Scale, where: Sequence[str], query: str, paths: int = 1
) -> list[CellSpec]:
    """Return the cells of one place, transport and version: of the engine, and of it on mounts."""
    place, proto, version = where
    offered = choice.loads or (_QUICK_LOADS if scale.quick else _LOADS)
    found = []
    for jobfile, jobs, nconnect, load in itertools.product(
        choice.workloads or (_WORKLOAD,),
        choice.jobs or (1,),
        choice.nconnect or (1,),
        (0, *offered),
    ):
        workload = Path(jobfile).stem
        levels = (place, proto, version, jobs, nconnect, workload, load or loads.PEAK)
        cell = _cell(jobfile, scale, dict(zip(_FACTORS, levels, strict=True)), load)
        cell = dataclasses.replace(cell, query=query, paths=paths)
        found.append(cell)
        if choice.mounts and workload != _METADATA:  # mounts cannot list a directory
            factors = {**cell.factors, "transport": f"{proto}-mount"}
            mounting = mount_options(proto, version, nconnect)
            found.append(
                dataclasses.replace(cell, factors=factors, client="mounts", mount_options=mounting)
            )
    return found


def _cell(jobfile: str, scale: Scale, factors: dict[str, Factor], load: int) -> CellSpec:
    """Return a cell of a job file: a user's own says itself how large its files are."""
    seconds, process = scale.seconds(5, 15), scale.choice.process
    size = _TINY_BYTES if scale.cell_seconds else _QUICK_BYTES if scale.quick else _BYTES
    own = Path(jobfile).is_absolute() or factors["workload"] == _METADATA
    options: dict[str, Factor | None] = {
        "numjobs": factors["jobs"], "nconnect": factors["nconnect"], "spread": "roundrobin",
        STAMPS: 1,
        **({} if own else {"size": size}),
        **({"arrival_process": process} if process else {}),
        **timed(seconds),
    }  # fmt: skip
    return CellSpec(
        factors=factors,
        place=str(factors["limits"]),
        jobfile=jobfile,
        options=options,
        seconds=seconds,
        files={} if own else {_FILE: size},
        load=load,
    )


_REPORT = Report(
    "latency", __doc__, factors=_FACTORS, tell=response.tell, over_time=response.at_limits
)

SCENARIO = Scenario(_PLACES, _cells, _own_cells, repeats=5, lengthens=False, report=_REPORT)
