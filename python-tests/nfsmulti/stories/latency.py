# SPDX-License-Identifier: GPL-2.0-only
"""latency: how long users wait, and how much load a server holds at that.

Nothing was published with it. Each configuration first runs as fast as it can, its peak;
then I/O arrives by a clock of its own, at parts of that peak in a random order. A workload is a job
file, one below jobfiles/latency or a user's.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

from nfsmulti.lab import LabConfig
from nfsmulti.report import loads, response
from nfsmulti.scenario import (
    MIXED,
    STAMPS,
    CellSpec,
    GuestPlace,
    mount_options,
    timed,
)
from nfsmulti.story import At, Factor, Page, Story
from nfsmulti.summary import Factor as Level

_WORKLOAD, _METADATA = "latency/4k-randread.fio", "software-build"
_DIRECTORY = "directory"


def _combinations(factors: Mapping[str, Factor], where: At) -> Iterator[dict[str, Level]]:
    """Yield each workload with each configuration: its peak, and then its loads.

    On directories alone the engine itself does the I/O, as they were mounted.
    """
    names = ["workload", "jobs", "nconnect", loads.FACTOR]
    levels = {name: [*factors[name].at(where)] for name in names}
    known: dict[str, Level] = {}
    if where.own and not where.pool.urls:
        levels["nconnect"] = [1]
        known = {"transport": _DIRECTORY, "version": where.pool.version or MIXED}
    levels[loads.FACTOR].insert(0, loads.PEAK)
    for found in itertools.product(*levels.values()):
        yield {**known, **dict(zip(names, found, strict=True))}


def _job(at: At) -> CellSpec:
    """Return a cell of a job file: a user's own says itself how large its files are."""
    seconds, process = at.seconds(5, 15), at.scale.choice.arrival_process
    size = at.size(16 << 20, 128 << 20, 1 << 30)
    own = Path(at.workload).is_absolute() or Path(at.workload).stem == _METADATA
    load = at.levels[loads.FACTOR]
    return CellSpec(
        {"workload": Path(at.workload).stem}, "", at.workload,
        {"numjobs": at.jobs, "nconnect": at.nconnect, "spread": "roundrobin", STAMPS: 1,
         **({} if own else {"size": size}),
         **({"arrival_process": process} if process else {}), **timed(seconds)},
        seconds,
        query=at.query if at.transport != _DIRECTORY else "",
        paths=at.pool.urls or at.pool.mounts,
        files={} if own else {"nfsmulti-latency": size},
        load=0 if load == loads.PEAK else int(load),
    )  # fmt: skip


def _mounted(cell: CellSpec, at: At) -> CellSpec | None:
    """Return a cell of the engine on kernel mounts, which cannot list a directory."""
    if Path(at.workload).stem == _METADATA or at.transport == _DIRECTORY:
        return None
    return dataclasses.replace(
        cell,
        factors={**cell.factors, "transport": f"{at.proto}-mount"},
        client="mounts",
        mount_options=mount_options(at.proto, at.version, at.nconnect),
    )


PAGE = Page(about=__doc__, names=loads.TRANSPORTS, tell=response.tell, over_time=response.at_limits)

STORY = Story(
    name="latency",
    page=PAGE,
    places={"lab": LabConfig(addresses=1), "guest": GuestPlace()},
    place="limits",
    factors={
        "limits": Factor(),
        "transport": Factor(),
        "version": Factor(),
        "jobs": Factor([1], asked="jobs"),
        "nconnect": Factor([1], asked="nconnect"),
        "workload": Factor([_WORKLOAD], asked="workload"),
        loads.FACTOR: Factor(range(10, 120, 10), quick=range(20, 120, 20), asked="load"),
    },
    combinations=_combinations,
    job=_job,
    twin=_mounted,
    left_out=lambda _, pool: (
        ["directories: the load goes to URLs alone"] * bool(pool.urls and pool.mounts)
    ),
    repeats=5,
)
