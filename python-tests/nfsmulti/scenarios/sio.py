# SPDX-License-Identifier: GPL-2.0-only
"""sio: what more threads bring, by the way in which they share one file.

buffered and direct are a kernel mount, which all threads share; concurrent gives each thread a
connection of its own. A sequential thread reads its own part of the file, round and round.
"""

from __future__ import annotations

from collections.abc import Sequence

from nfsmulti.lab.kernel.mounts import Mount
from nfsmulti.scenarios.scenario import OWN, CellSpec, GuestPlace, OwnPool, Scale, Scenario, timed
from nfsmulti.summary import Factor

_PATTERNS = ("sequential", "random")
_DIRECT = {"buffered": 0, "direct": 1}
_THREADS, _QUICK_THREADS = (1, 2, 4, 8, 16, 32), (1, 4, 16)
_BYTES, _QUICK_BYTES = 256 << 20, 64 << 20
# The publication's RPCs had 32 KiB.
_MOUNT = Mount("/mnt/tcp3", ("vers=3", "proto=tcp", "rsize=32768", "wsize=32768"))
_DIFFERS = (
    "Published over a link of 1 Gbit/s with an MTU of 1500: here client and server are one emulated"
    " machine, whose loopback has no limit.",
    "Published with AIX as the client, whose direct I/O holds a lock for each file.",
)
_PLACES = {"guest": GuestPlace({"mount": (_MOUNT,)}, differs=_DIFFERS)}


def _cells(scale: Scale) -> list[CellSpec]:
    return _cells_in("guest", scale, (*_DIRECT, "concurrent"), 1)


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    modes, said = ["concurrent"], []
    if pool.mounts:
        modes += _DIRECT
    else:
        said.append("buffered and direct need a kernel mount: add its directory to the pool")
    return _cells_in(OWN, scale, modes, pool.urls or pool.mounts), said


def _cells_in(place: str, scale: Scale, modes: Sequence[str], paths: int) -> list[CellSpec]:
    return [
        _cell(place, scale, mode, pattern, threads, min(paths, threads))
        for mode in modes
        for pattern in _PATTERNS
        for threads in (_QUICK_THREADS if scale.quick else _THREADS)
    ]


def _cell(place: str, scale: Scale, mode: str, pattern: str, threads: int, paths: int) -> CellSpec:
    seconds = scale.seconds(3, 20)
    size = _QUICK_BYTES if scale.quick else _BYTES
    options: dict[str, Factor | None] = {"numjobs": threads, **timed(seconds)}
    if pattern == "sequential":
        options |= {"size": size // threads, "offset_increment": size // threads}
    else:
        options |= {"size": size}
    options["direct"] = _DIRECT.get(mode, 1)
    mounted = mode in _DIRECT
    if mounted:
        options["ioengine"] = "psync"
    return CellSpec(
        factors={"mode": mode, "pattern": pattern, "threads": threads},
        place=place,
        jobfile=f"sio-{pattern}.fio",
        options=options,
        seconds=seconds,
        client="mount" if mounted else "pool",
        mounts="mount" if mounted else "",
        paths=1 if mounted else paths,
        files={"sio": size},
    )


SIO = Scenario("sio", "threads, by the way they share a file", _PLACES, _cells, _own_cells)
