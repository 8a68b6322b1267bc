# SPDX-License-Identifier: GPL-2.0-only
"""The doctor's look at this machine: fio and engine, limits, RDMA devices."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

from nfsmulti.doctor.finding import Finding, fail, ok, warn
from nfsmulti.errors import MissingError
from nfsmulti.paths import build_dir, shown
from nfsmulti.processes import find, run

_SECONDS = 20.0
_FILES_WANTED = 1024
_INFINIBAND = Path("/sys/class/infiniband")


def look(*, rdma_wanted: bool) -> Iterator[Finding]:
    """Check what jobs need of this machine; `rdma_wanted` where the pool has RDMA paths."""
    yield from _fio_and_engine()
    yield _files()
    yield from _rdma(rdma_wanted)


def _fio_and_engine() -> Iterator[Finding]:
    try:
        fio = find("fio")
    except MissingError as error:
        yield fail(error.what, error.remedy or "")
        return
    version = run([fio, "--version"], timeout=_SECONDS).stdout.strip()
    library = build_dir() / "libnfsmulti.so"
    if not library.exists():
        yield fail(f"{version} is there, the engine is not built", "./nfsmulti build")
        return
    # fio splits what follows --enghelp= at commas, so the name should be short.
    help_text = run([fio, f"--enghelp=./{library.name}"], timeout=_SECONDS, cwd=library.parent)
    if help_text.status == 0 and "pool" in help_text.stdout:
        yield ok(f"{version} loads {shown(library)}")
    else:
        said = (help_text.stderr + help_text.stdout).strip().splitlines()
        reason = said[0] if said else f"status {help_text.status}"
        yield fail(f"{version} does not load {shown(library)}: {reason}", "./nfsmulti build")


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    what = f"{soft} open files are allowed, each connection takes one"
    if soft >= _FILES_WANTED:
        return ok(what)
    if hard >= _FILES_WANTED or hard == resource.RLIM_INFINITY:
        return warn(what, f"ulimit -n {_FILES_WANTED}")
    return warn(what, "raise 'nofile' in /etc/security/limits.conf")


def _rdma(wanted: bool) -> Iterator[Finding]:
    devices = sorted(_INFINIBAND.iterdir()) if _INFINIBAND.is_dir() else []
    if not devices and wanted:
        yield fail(
            "the pool has proto=rdma, and this machine has no RDMA device",
            "load the adapter's driver (rdma link), or try rdma_rxe: "
            "rdma link add rxe0 type rxe netdev DEVICE",
        )
    elif not devices:
        yield ok("no RDMA device: paths with proto=tcp work")
    for device in devices:
        for port in sorted((device / "ports").iterdir()):
            yield _rdma_port(device.name, port)
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if devices and locked != resource.RLIM_INFINITY:
        yield warn(
            f"{locked >> 10} KiB may be locked, and RDMA locks all I/O buffers",
            "ulimit -l unlimited",
        )


def _rdma_port(device: str, port: Path) -> Finding:
    def said(name: str) -> str:
        return (port / name).read_text().strip()

    state = said("state").partition(": ")[2]
    what = f"RDMA device {device} port {port.name}: {state}, {said('rate')}, {said('link_layer')}"
    if state == "ACTIVE":
        return ok(what)
    return warn(what, f"bring its link up: rdma link show {device}/{port.name}")
