# SPDX-License-Identifier: GPL-2.0-only
"""fsperf: one reader on one path, then with its I/O spread over two to four.

The lab has the limits of the story, 9.4 Gbit/s for the link and 6.2 Gbit/s for a connection, or as
much of them as the machine can carry. An emulated processor is far from that: the guest has an
eightieth of them.
"""

from __future__ import annotations

import dataclasses

from nfsmulti.lab.config import LabConfig
from nfsmulti.lab.kernel.mounts import Mount
from nfsmulti.lab.limits import Limits
from nfsmulti.scenarios.scenario import (
    OWN,
    CellSpec,
    Client,
    GuestPlace,
    OwnPool,
    Place,
    Scale,
    Scenario,
    timed,
)
from nfsmulti.summary import Factor

_PATHS = 4
_PROBE_SECONDS = 2.0
_BYTES, _GUEST_BYTES = 2 << 30, 64 << 20


def _mounts(version: str) -> tuple[Mount, ...]:
    """Give a mount in each of the guest's client namespaces (run/guest_network.py)."""
    options = (f"vers={version}", "proto=tcp")
    return tuple(Mount(f"/mnt/v{version}-{number}", options) for number in range(1, _PATHS + 1))


_GUEST = GuestPlace(
    mounts={f"mount-v{version}": _mounts(version) for version in ("3", "4.1")},
    link="118mbit",
    per_mount="78mbit",
)
_LAB = LabConfig(
    addresses=_PATHS,
    limits=Limits(link="9400mbit", per_address="6200mbit", assured="1gbit", burst="2m"),
)
_PLACES: dict[str, Place] = {"lab": _LAB, "guest": _GUEST}


def _cells(scale: Scale) -> list[CellSpec]:
    clients = [("nfs3", "lab"), ("nfs4.1", "lab"), *((name, "guest") for name in _GUEST.mounts)]
    return [cell for client, place in clients for cell in _cells_of(client, place, scale, _PATHS)]


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    cells, said = [], []
    if pool.urls:
        cells += _cells_of(f"nfs{pool.url_version}", OWN, scale, min(_PATHS, pool.urls))
    if pool.mounts:
        client = f"mount-v{pool.version}" if pool.version else "mount"
        cells += _cells_of(client, OWN, scale, min(_PATHS, pool.mounts))
    else:
        said.append("mount-v3 and mount-v4.1 need kernel mounts: add their directories to the pool")
    if (most := max(pool.urls, pool.mounts)) < _PATHS:
        said.append(f"{most + 1} to {_PATHS} paths: the pool has {most}")
    return cells, said


def _cells_of(client: str, place: str, scale: Scale, most: int) -> list[CellSpec]:
    several = [2, 4] if scale.quick else range(2, most + 1)
    counts = dict.fromkeys(min(count, most) for count in several) if most > 1 else ()
    ways = [(1, "job")]
    ways += [(paths, spread) for paths in counts for spread in ("stripe", "roundrobin")]
    return [_cell(client, place, scale, paths, spread) for paths, spread in ways]


def _cell(client: str, place: str, scale: Scale, paths: int, spread: str) -> CellSpec:
    seconds = scale.seconds(4, 20)
    mounted = not client.startswith("nfs")
    size = _GUEST_BYTES if place == "guest" or scale.cell_seconds else _BYTES
    options: dict[str, Factor | None] = {"spread": spread, "size": size, **timed(seconds)}
    kind: Client = "mounts" if mounted else "pool"
    return CellSpec(
        factors={"client": client, "paths": paths, "spread": spread},
        place=place,
        jobfile="fsperf.fio",
        options=options,
        seconds=seconds,
        client=kind,
        query="version=4.1" if (client, place) == ("nfs4.1", "lab") else "",
        mounts=client if mounted else "",
        paths=paths,
        files={"fsperf": size},
        over_time=True,
    )


def _probes(scale: Scale) -> dict[str, CellSpec]:
    seconds = scale.cell_seconds or _PROBE_SECONDS
    cell = _cell("nfs3", "lab", scale, _PATHS, "roundrobin")
    return {
        "lab": dataclasses.replace(
            cell, options={**cell.options, **timed(seconds)}, seconds=seconds, over_time=False
        )
    }


FSPERF = Scenario(
    "fsperf", "one reader over several paths", _PLACES, _cells, _own_cells, probes=_probes
)
