# SPDX-License-Identifier: GPL-2.0-only
"""connections: one workload on more and more connections, by transport, version and jobs.

Nothing was published with it: it asks what more connections give on a server, and where that stops.
In the lab a connection has a cap and four fill the link (capped), or nothing is limited and the
processors are what ends it (uncapped). RDMA and kernel mounts need the kernel lab (guest).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from nfsmulti.lab.config import LabConfig
from nfsmulti.lab.limits import Limits
from nfsmulti.scenarios.scenario import (
    OWN,
    CellSpec,
    GuestPlace,
    OwnPool,
    Place,
    Scale,
    Scenario,
    timed,
)
from nfsmulti.summary import Factor

# What each workload gives fio; its name begins with the block size.
WORKLOADS: Mapping[str, dict[str, Factor]] = {
    "4k-randread": {"rw": "randread", "bs": "4k"},
    "64k-read": {"rw": "read", "bs": "64k"},
    "64k-write": {"rw": "write", "bs": "64k"},
    "8k-oltp": {"rw": "randrw", "rwmixread": 67, "bs": "8k"},
}
PROTOCOLS, VERSIONS = ("tcp", "rdma"), ("3", "4.1")
MOST = 256  # the engine's nconnect

_NCONNECT, _QUICK_NCONNECT = (1, 2, 4, 8, 16), (1, 2, 4, 8)
_JOBS, _QUICK_JOBS = (1, 4), (1,)
_BYTES, _QUICK_BYTES, _TINY_BYTES = 1 << 30, 128 << 20, 16 << 20
_PROBE_SECONDS, _PROBE_CONNECTIONS = 2.0, 4
_GUEST = "guest"
_PLACES: dict[str, Place] = {
    "capped": LabConfig(
        addresses=1, limits=Limits(link="9400mbit", per_connection="2500mbit", burst="2m")
    ),
    "uncapped": LabConfig(addresses=1),
    _GUEST: GuestPlace(),
}
_RDMA_PORT = 20049


@dataclass(frozen=True)
class Choice:
    """What to measure; what is empty is chosen by where and how long it is run.

    Without `protocols` and `versions` a pool of the user is what its URLs say.
    """

    nconnect: tuple[int, ...] = ()
    protocols: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    jobs: tuple[int, ...] = ()
    mounts: bool = False
    workload: str = "64k-read"


def scenario(choice: Choice) -> Scenario:
    """Give the scenario with these cells."""
    return Scenario(
        "connections",
        "what more connections give, and where it stops",
        _PLACES,
        functools.partial(_cells, choice),
        functools.partial(_own_cells, choice),
        repeats=5,
        quick_repeats=5,
        probes=functools.partial(_probes, choice),
    )


def _cells(choice: Choice, scale: Scale) -> list[CellSpec]:
    protocols = choice.protocols or ("tcp",)
    kernel = choice.mounts or "rdma" in protocols
    places = [_GUEST] if kernel else [name for name in _PLACES if name != _GUEST]
    return [
        cell
        for place in places
        for version in choice.versions or ("3",)
        for proto in protocols
        for cell in _curves(
            choice, scale, place, proto, version, f"proto={proto}&version={version}"
        )
    ]


def _own_cells(choice: Choice, scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    if not pool.urls:
        return [], ["connections need URLs in the pool: a directory has those of its mount"]
    said = ["directories: theirs are those of their mounts"] if pool.mounts else []
    cells = []
    for proto in choice.protocols or ("",):
        for version in choice.versions or ("",):
            words = [f"proto={proto}"] if proto else []
            words += [f"version={version}"] if version else []
            cells += _curves(
                choice,
                scale,
                OWN,
                proto or pool.url_proto or "mixed",
                version or pool.url_version or "mixed",
                "&".join(words),
                pool.urls,
            )
    return cells, said


def _curves(
    choice: Choice, scale: Scale, place: str, proto: str, version: str, query: str, paths: int = 1
) -> list[CellSpec]:
    """Give the cells of one transport and version, by the engine, and by mounts where asked for."""
    nconnect = choice.nconnect or (_QUICK_NCONNECT if scale.quick else _NCONNECT)
    jobs = choice.jobs or (_QUICK_JOBS if scale.quick else _JOBS)
    cells = []
    for each, number in itertools.product(jobs, nconnect):
        cell = _cell(choice.workload, scale, place, (proto, version, number, each))
        options = {**cell.options, "nconnect": number, "spread": "roundrobin"}
        cells.append(dataclasses.replace(cell, query=query, paths=paths, options=options))
        if choice.mounts:
            factors = {**cell.factors, "transport": f"{proto}-mount"}
            mount = _mount_options(proto, version, number)
            cells.append(
                dataclasses.replace(cell, client="mount", factors=factors, mount_options=mount)
            )
    return cells


def _mount_options(proto: str, version: str, nconnect: int) -> str:
    """Give nfs(5)'s options; the kernel chooses what a mixed pool leaves open."""
    words = [f"vers={version}"] if version in VERSIONS else []
    words += [f"proto={proto}"] if proto in PROTOCOLS else []
    words += ["nolock"] if version == "3" else []
    words += [f"port={_RDMA_PORT}"] if proto == "rdma" else []
    return ",".join([*words, f"nconnect={nconnect}"])


def _cell(workload: str, scale: Scale, place: str, levels: tuple[str, str, int, int]) -> CellSpec:
    proto, version, nconnect, jobs = levels
    seconds = scale.seconds(2, 10)
    size = _QUICK_BYTES if scale.quick else _BYTES
    if scale.cell_seconds:
        size = _TINY_BYTES
    return CellSpec(
        factors={
            "limits": place,
            "transport": proto,
            "version": version,
            "jobs": jobs,
            "nconnect": nconnect,
            "workload": workload,
        },
        place=place,
        jobfile="connections.fio",
        options={**WORKLOADS[workload], "numjobs": jobs, "size": size, **timed(seconds)},
        seconds=seconds,
        files={"connections": size},
    )


def _probes(choice: Choice, scale: Scale) -> dict[str, CellSpec]:
    seconds = scale.cell_seconds or _PROBE_SECONDS
    once = dataclasses.replace(choice, nconnect=(_PROBE_CONNECTIONS,), jobs=(1,))
    cell = next((cell for cell in _cells(once, scale) if cell.place == "capped"), None)
    if cell is None:
        return {}
    options = {**cell.options, **timed(seconds)}
    return {"capped": dataclasses.replace(cell, options=options, seconds=seconds)}


CONNECTIONS = scenario(Choice())
