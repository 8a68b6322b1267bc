# SPDX-License-Identifier: GPL-2.0-only
"""The doctor's look at RDMA: this machine's devices, and servers that are to speak NFS over it."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from typing import Any

from nfsmulti.doctor.finding import Finding, fail, ok, warn
from nfsmulti.doctor.pool import PoolPath
from nfsmulti.paths import build_dir
from nfsmulti.processes import Completed, run

_SECONDS = 20.0


def machine(*, wanted: bool) -> Iterator[Finding]:
    """Look at the devices; `wanted` where the pool has RDMA paths."""
    asked = _ask()
    if asked is None:
        what = "the engine was built without RDMA"
        remedy = "apt-get install libibverbs-dev librdmacm-dev; ./nfsmulti build"
        yield fail(f"the pool has proto=rdma, and {what}", remedy) if wanted else ok(what)
        return
    ports = _lines(asked)
    if asked.status:
        yield warn(f"RDMA devices cannot be used: {_reason(asked)}", "modprobe ib_uverbs rdma_ucm")
    elif not ports and wanted:
        yield fail(
            "the pool has proto=rdma, and this machine has no RDMA device",
            "load the adapter's driver (rdma link), or try rdma_rxe: "
            "rdma link add rxe0 type rxe netdev DEVICE",
        )
    elif not ports:
        yield ok("no RDMA device: paths with proto=tcp work")
    for port in ports:
        yield _port(port)
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if ports and locked != resource.RLIM_INFINITY:
        yield warn(
            f"{locked >> 10} KiB may be locked, and RDMA locks all I/O buffers",
            "ulimit -l unlimited",
        )


def server(path: PoolPath) -> Iterator[Finding]:
    """Connect to the server of a path as the engine does."""
    asked = _ask(path.address, str(path.rdmaport))
    if asked is None:
        return
    where = f"{path.label}: NFS over RDMA on port {path.rdmaport}"
    if asked.status:
        yield fail(
            f"{where}: {_reason(asked)}",
            "does the server listen (Linux: echo 'rdma 20049' > /proc/fs/nfsd/portlist), and does "
            "an RDMA device here lead to its address (rdma link)?",
        )
        return
    (said,) = _lines(asked)
    yield ok(
        f"{where} answers by {said['device']}: inline up to {said['inline_receive']} bytes to it,"
        f" {said['inline_send']} back"
    )


def _ask(*words: str) -> Completed | None:
    program = build_dir() / "nfsmulti-rdma"
    return run([str(program), *words], timeout=_SECONDS) if program.exists() else None


def _lines(asked: Completed) -> list[dict[str, Any]]:
    return [json.loads(line) for line in asked.stdout.splitlines()]


def _reason(asked: Completed) -> str:
    """Give the last words, without the program's name and what it was asked."""
    said = asked.stderr.strip().splitlines()
    return said[-1].rpartition(": ")[2] if said else "it did not answer in time"


def _port(port: dict[str, Any]) -> Finding:
    device = f"{port['device']} port {port['port']}"
    state = port["state"].upper()
    what = f"RDMA device {device}: {state}, {port['link_layer']}, MTU {port['mtu']}"
    if state == "ACTIVE":
        return ok(what)
    return warn(what, f"bring its link up: rdma link show {port['device']}/{port['port']}")
