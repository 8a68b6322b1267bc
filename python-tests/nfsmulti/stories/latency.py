# SPDX-License-Identifier: GPL-2.0-only
"""latency: how long users wait, and how much load a server holds at that.

Nothing was published with it. Each configuration first runs as fast as it can, its peak;
then I/O arrives by a clock of its own, at parts of that peak in a random order. A workload is a job
file, one below jobfiles/latency or a user's.
"""

from dataclasses import replace
from pathlib import Path

from nfsmulti.lab import LabConfig
from nfsmulti.report import loads, response
from nfsmulti.scenario import MIXED, CellSpec, GuestPlace
from nfsmulti.story import At, Factor, Levels, Story

_WORKLOAD, _METADATA = "latency/4k-randread.fio", "software-build"
_DIRECTORY = "directory"


def _combinations(at: At) -> list[Levels]:
    """Return all; on directories alone the engine itself does the I/O, as they were mounted."""
    if at.pool.urls:
        return at.every()
    known: Levels = {
        "transport": _DIRECTORY, "version": at.pool.version or MIXED, "nconnect": 1
    }  # fmt: skip
    return [{**one, **known} for one in replace(at, levels={**at.levels, **known}).every()]


def _job(at: At) -> CellSpec:
    """Return a cell of a job file: a user's own says itself how large its files are."""
    process, size = at.scale.choice.arrival_process, at.size(16 << 20, 128 << 20, 1 << 30)
    own = Path(at.workload).is_absolute() or Path(at.workload).stem == _METADATA
    load = at.levels[loads.FACTOR]
    return at.cell(
        at.workload,
        {"numjobs": at.jobs, "nconnect": at.nconnect, "spread": "roundrobin", "rx_timestamps": 1,
         **({} if own else {"size": size}),
         **({"arrival_process": process} if process else {})},
        at.seconds(5, 15),
        query=at.query if at.transport != _DIRECTORY else "",
        paths=at.pool.urls or at.pool.mounts,
        files={} if own else {"nfsmulti-latency": size},
        load=0 if load == loads.PEAK else int(load),
        factors={"workload": Path(at.workload).stem},
    )  # fmt: skip


def _mounted(cell: CellSpec, at: At) -> CellSpec | None:
    """Return a cell of the engine on kernel mounts, which cannot list a directory."""
    if Path(at.workload).stem == _METADATA or at.transport == _DIRECTORY:
        return None
    return at.mounted(cell, "mounts", {"transport": f"{at.proto}-mount"})


STORY = Story(
    names=loads.TRANSPORTS,
    tell=response.tell,
    over_time=response.at_limits,
    places={"lab": LabConfig(addresses=1), "guest": GuestPlace()},
    place="limits",
    factors={
        "limits": Factor(),
        "transport": Factor(),
        "version": Factor(),
        "jobs": Factor([1], asked="jobs"),
        "nconnect": Factor([1], asked="nconnect"),
        "workload": Factor([_WORKLOAD], asked="workload"),
        loads.FACTOR: Factor(range(10, 120, 10), quick=range(20, 120, 20), asked="load",
                              always=[loads.PEAK]),
    },
    combinations=_combinations,
    job=_job,
    twin=_mounted,
    left_out=lambda at: (
        ["directories: the load goes to URLs alone"] * bool(at.pool.urls and at.pool.mounts)
    ),
    repeats=5,
)  # fmt: skip
