# SPDX-License-Identifier: GPL-2.0-only
"""randread: a small file read at random by four jobs, which measures the transport."""

from __future__ import annotations

from nfsmulti.lab.kernel.mounts import Mount
from nfsmulti.scenarios.scenario import OWN, CellSpec, GuestPlace, OwnPool, Scale, Scenario, timed
from nfsmulti.summary import Factor

_FILES = {"1.txt": 10_000_000}
_JOBS = 4
_POOLS = {
    "rdma-pool": "proto=rdma",
    "rdma-pool-v4.1": "proto=rdma&version=4.1",
    "tcp-pool": "proto=tcp",
    "tcp-pool-v4.1": "proto=tcp&version=4.1",
}
# What the publication mounted with; its intr means nothing any more (nfs(5)), its async is nothing
# that a reader meets.
_OPTIONS = ("hard", "noatime", "nodiratime", "nolock", "noresvport")
_SIZES = ("rsize=1048576", "wsize=1048576")


def _mount(folder: str, version: str, protocol: str) -> Mount:
    return Mount(folder, (f"vers={version}", f"proto={protocol}", *_OPTIONS, *_SIZES))


_MOUNTS = {
    "rdma-mount-v3": _mount("/mnt/rdma3", "3", "rdma"),
    "rdma-mount-v4.1": _mount("/mnt/rdma41", "4.1", "rdma"),
    # Version 4.1 would find that it knows the server, and use the connection over RDMA.
    "tcp-mount": _mount("/mnt/tcp3", "3", "tcp"),
}
_DIFFERS = (
    "Published with an adapter of 40 Gbit/s between two machines: here rdma_rxe in one"
    " that is emulated.",
    "Published with rsize = wsize = 1048576: asked for here too, but the guest's server grants"
    " 262144 (environment.json, mounts).",
    "Published with sunrpc.tcp_slot_table_entries = 128: here it is the kernel's own.",
    "Published with an export that is async: here it is sync, which reads do not meet.",
)
_PLACES = {
    "guest": GuestPlace(
        {name: (mount,) for name, mount in _MOUNTS.items()}, threads=16, differs=_DIFFERS
    )
}


def _cells(scale: Scale) -> list[CellSpec]:
    pools = [_cell(name, "guest", scale, query=query) for name, query in _POOLS.items()]
    return [*pools, *(_cell(name, "guest", scale, mounts=name) for name in _MOUNTS)]


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    said = f"{', '.join([*_POOLS, *_MOUNTS])} are the lab's: your pool is what it is"
    return [_cell("pool", OWN, scale, paths=min(_JOBS, pool.paths))], [said]


def _cell(
    transport: str,
    place: str,
    scale: Scale,
    *,
    query: str = "",
    mounts: str = "",
    paths: int = 1,
) -> CellSpec:
    seconds = scale.seconds(4, 30)
    options: dict[str, Factor | None] = {"numjobs": _JOBS, **timed(seconds)}
    return CellSpec(
        factors={"transport": transport},
        place=place,
        jobfile="randread.fio",
        options=options,
        seconds=seconds,
        client="mount" if mounts else "pool",
        mounts=mounts,
        query=query,
        paths=paths,
        files=_FILES,
    )


RANDREAD = Scenario(
    "randread", "the transport, RDMA beside TCP, pools beside mounts", _PLACES, _cells, _own_cells
)
