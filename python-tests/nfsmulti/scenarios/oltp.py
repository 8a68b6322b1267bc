# SPDX-License-Identifier: GPL-2.0-only
"""oltp: a database's mix at rising concurrency, over one connection, a pool, and a kernel mount.

All are one job, whose iodepth is the concurrency, so that connections alone make the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from nfsmulti.lab.kernel.mounts import ADDRESSES, Mount
from nfsmulti.scenarios.scenario import OWN, CellSpec, GuestPlace, OwnPool, Scale, Scenario, timed
from nfsmulti.summary import Factor

_CONCURRENCY, _QUICK_CONCURRENCY = (1, 2, 4, 8, 16, 32, 64), (1, 8, 32)
_BYTES, _QUICK_BYTES = 256 << 20, 64 << 20
_POOL_CONNECTIONS = 8  # at least so many, on all paths together
_MOUNT = Mount("/mnt/tcp3", ("vers=3", "proto=tcp"))
_PLACES = {"guest": GuestPlace({"mount": (_MOUNT,)})}


def _cells(scale: Scale) -> list[CellSpec]:
    return _cells_in("guest", scale, ("one", "pool", "mount"), len(ADDRESSES))


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    kinds, said = [], []
    if pool.urls:
        kinds += ["one", "pool"]
    else:
        said.append("one and pool need URLs in the pool")
    if pool.mounts:
        kinds.append("mount")
    else:
        said.append("mount needs a kernel mount: add its directory to the pool")
    return _cells_in(OWN, scale, kinds, pool.urls), said


def _cells_in(place: str, scale: Scale, kinds: Sequence[str], paths: int) -> list[CellSpec]:
    return [
        _cell(place, scale, kind, concurrency, paths)
        for kind in kinds
        for concurrency in (_QUICK_CONCURRENCY if scale.quick else _CONCURRENCY)
    ]


def _cell(place: str, scale: Scale, kind: str, concurrency: int, paths: int) -> CellSpec:
    seconds = scale.seconds(4, 20)
    size = _QUICK_BYTES if scale.quick else _BYTES
    options: dict[str, Factor | None] = {"iodepth": concurrency, "size": size, **timed(seconds)}
    if kind == "pool":
        options |= {"nconnect": -(-_POOL_CONNECTIONS // paths), "spread": "roundrobin"}
    return CellSpec(
        factors={"connections": kind, "concurrency": concurrency},
        place=place,
        jobfile="oltp.fio",
        options=options,
        seconds=seconds,
        client="mount" if kind == "mount" else "pool",
        mounts="mount" if kind == "mount" else "",
        paths=paths if kind == "pool" else 1,
        files={"oltp": size},
    )


OLTP = Scenario("oltp", "a database's mix at rising concurrency", _PLACES, _cells, _own_cells)
