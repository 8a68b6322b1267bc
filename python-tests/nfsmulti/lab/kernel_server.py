# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's NFS server in the guest: what its export takes, its programs, and its restarts."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from nfsmulti.errors import HarnessError
from nfsmulti.lab.guest import EXPORT, EXPORT_OPTIONS
from nfsmulti.processes import Process, run

NFSD = Path("/proc/fs/nfsd")
_SECONDS = 60.0
_THREADS, _PORTS, _GRACE = NFSD / "threads", NFSD / "portlist", NFSD / "v4_end_grace"
_RDMA = "rdma 20049"
_CGROUPS = Path("/sys/fs/cgroup")


_exported = ["sec=sys"]


@contextlib.contextmanager
def exported(options: str) -> Iterator[None]:
    """Add exports(5)'s `options` to the export's own; those before come back at the end."""
    _exported.append(options)
    try:
        _export()
        yield
    finally:
        _exported.pop()
        _export()


def _export() -> None:
    words = ["exportfs", "-o", f"{EXPORT_OPTIONS},{_exported[-1]}", f"*:{EXPORT}"]
    run(words, timeout=_SECONDS).check()


@contextlib.contextmanager
def running(
    argv: Sequence[str], serves: Callable[[Process], bool], env: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Yield a program of the server's, which runs beside it, from when it serves."""
    with Process(argv, env=env) as process:
        if not process.comes_up(lambda: serves(process), _SECONDS):
            raise HarnessError(f"the guest's {argv[0]} did not start")
        yield process


def stop() -> int:
    """Stop the server: all connections end, and what was not committed is as good as lost.

    Return how many threads it had.
    """
    threads = int(_THREADS.read_text())
    run(["rpc.nfsd", "0"], timeout=_SECONDS).check()
    return threads


def start(threads: int = 8) -> None:
    """Start it as the guest's boot does, if it does not run. A grace period begins."""
    run(["rpc.nfsd", str(threads)], timeout=_SECONDS).check()
    if _RDMA not in _PORTS.read_text().splitlines():
        _PORTS.write_text(_RDMA)


def cpu_stat() -> Path:
    """Put its threads into a cgroup, and return the cpu.stat that tells what they work there.

    Those of a server that restarts later are in none.
    """
    if not (_CGROUPS / "cgroup.procs").exists():
        run(["mount", "-t", "cgroup2", "none", str(_CGROUPS)], timeout=_SECONDS).check()
    group = _CGROUPS / "nfsd"
    group.mkdir(exist_ok=True)
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "nfsd":
            with contextlib.suppress(ProcessLookupError):  # it may have ended
                (group / "cgroup.procs").write_text(str(process.pid))
    return group / "cpu.stat"


def end_grace() -> None:
    """End its grace period, if there is one: kernels differ in what they say then."""
    try:
        _GRACE.write_text("Y")
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
