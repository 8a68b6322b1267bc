# SPDX-License-Identifier: GPL-2.0-only
"""The engine's NFSv4.1 on the kernel's server: over TCP and RDMA, and a server that restarts.

Pools of several versions are in test_engine_pool.py, jobs that fail in test_nfs4.py.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import (
    amid_writes,
    by_path,
    done,
    eventually,
    held_amid_writes,
    said,
    stopped_well,
    traces,
    verified,
    written_in_pass,
)

from nfsmulti.fiorun import Option
from nfsmulti.lab import kernel_server
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.processes import run
from servers.scripted import Nfs4

pytestmark = pytest.mark.kernel_lab

_SECONDS = 240.0  # for whatever does not hang, on a slow machine too
_KIB, _MIB = 1 << 10, 1 << 20
_CLIENTS = 100  # more than the kernel takes at once
# The export is the root of the server's pseudo file system (fsid=0).
_PATHS = [f"nfs://{address}/?version=4.1" for address in ADDRESSES]
_ONE, _BOTH = _PATHS[0], ",".join(_PATHS)


@pytest.fixture(autouse=True)
def _no_client_stays() -> Iterator[None]:
    """Whatever a job did, and however it ended: its clients have taken leave of the server."""
    yield
    for file in Path(EXPORT).iterdir():
        file.unlink()
    assert _clients() == []


def _clients() -> list[str]:
    """Return the engine's clients that the server knows: a kernel mount is one of its own."""
    known = []
    for file in kernel_server.NFSD.glob("clients/*/info"):
        with contextlib.suppress(OSError):  # it has just left
            known.append(file.read_text())
    return [client for client in known if "nfsmulti" in client]


def _verified(size: int, **options: Option) -> dict[str, Option]:
    job: dict[str, Option] = {"rw": "randwrite", "verify": "crc32c", "size": size, "filename": "f"}
    return {**job, "iodepth": 16, **options}


def _endless(**options: Option) -> dict[str, Option]:
    """Return a job that a signal ends, and that tells of each I/O; with `verify` it reads again."""
    # Others have the processor, too.
    slow: dict[str, Option] = {"bs": "16k", "rate_iops": 50, "verify": None}
    return {**_verified(_MIB), "time_based": 1, "runtime": 3600, "trace": 1, **slow, **options}


# --- data ---


@pytest.mark.parametrize(
    ("protocol", "block", "trunking"),
    [
        ("tcp", 16 * _KIB, "session"),
        ("rdma", 512, "clientid"),  # with the messages
        ("rdma", _MIB, "session"),  # by RDMA, in several calls
    ],
    ids=["tcp-session", "rdma-512", "rdma-1m-session"],
)
def test_two_addresses(protocol: str, block: int, trunking: str, guest_fio: FioRunner) -> None:
    size = min(128 * block, 8 * _MIB)
    job = _verified(size, proto=protocol, bs=block, trunking=trunking, spread="roundrobin")
    result = guest_fio(pool=_BOTH, timeout=_SECONDS, **job)
    report = done(result)
    assert (report.bytes("write"), report.bytes("read")) == (size, size)
    assert [line.transport for line in result.stats] == [protocol] * 2
    assert len(set(by_path(result.stats).values())) == 1
    assert [line.retransmissions + line.reconnects + line.errors for line in result.stats] == [0, 0]


# --- slots ---

_LOSE_REPLIES = """\
table inet replies {
	chain out { type filter hook output priority 0; tcp sport 2049 meta length > 120 drop; }
}
"""


def _done_by_the_server(operation: Nfs4) -> int:
    for line in Path("/proc/net/rpc/nfsd").read_text().splitlines():
        name, _, *counts = line.split()
        if name == "proc4ops":
            return int(counts[operation.value])
    raise AssertionError("the kernel does not count the operations of NFSv4")


@pytest.mark.parametrize(("depth", "in_flight"), [(128, 128), (256, 160)])
def test_slots(depth: int, in_flight: int, guest_fio: FioRunner) -> None:
    """How many calls one connection has in flight: the kernel grants a session 160 slots.

    They are counted while no reply comes back: what the server has read and the job has not got.
    """
    before = _done_by_the_server(Nfs4.READ)
    # Without a rate: fio would let each I/O end before it waits for the time of the next.
    job = _endless(rw="randread", bs="4k", iodepth=depth, rate_iops=0)
    with guest_fio.start(pool=_ONE, **job) as process:

        def outstanding() -> int:
            return _done_by_the_server(Nfs4.READ) - before - traces(process)

        eventually(lambda: traces(process) > 8, _SECONDS)
        run(["nft", "-f", "-"], timeout=_SECONDS, stdin=_LOSE_REPLIES).check()
        try:
            eventually(lambda: outstanding() == in_flight, _SECONDS)
        finally:
            run(["nft", "delete", "table", "inet", "replies"], timeout=_SECONDS).check()
        done_before = traces(process)
        eventually(lambda: traces(process) > done_before + depth, _SECONDS)
        process.signal(signal.SIGINT)
        result = guest_fio.finish(process, _SECONDS)
    stopped_well(result)
    assert any("grants a session 160 slots" in line for line in said(result)) == (depth > in_flight)


# --- many clients ---


def test_each_client_is_one_of_the_servers(guest_fio: FioRunner) -> None:
    """And the one that asked for names is not: it has left. So do all at the end."""
    job = _endless(rw="randread", bs="4k", iodepth=_CLIENTS, nclients=_CLIENTS)
    with guest_fio.start(pool=_ONE, **job) as process:
        eventually(lambda: traces(process) > _CLIENTS, _SECONDS)
        assert len(_clients()) == _CLIENTS
        process.signal(signal.SIGINT)
        stopped_well(guest_fio.finish(process, _SECONDS))


# --- ends ---


def test_an_interrupted_job_takes_leave(guest_fio: FioRunner) -> None:
    with guest_fio.start(pool=_BOTH, **_endless(proto="rdma")) as process:
        eventually(lambda: traces(process) > 16, _SECONDS)
        assert _clients()
        process.signal(signal.SIGINT)
        stopped_well(guest_fio.finish(process, _SECONDS))


@pytest.mark.usefixtures("server_mended")
@pytest.mark.parametrize(
    ("protocol", "reclaims"), [("tcp", True), ("rdma", False)], ids=["tcp-grace", "rdma-no-grace"]
)
def test_a_server_that_restarts(protocol: str, reclaims: bool, guest_fio: FioRunner) -> None:
    """Nothing is lost: files are opened again, and what was not committed is written again.

    In the grace period opens are reclaimed and writes go on; whoever opens a file anew, as fio
    does before it verifies, waits for its end. After it, all are opened anew.
    """
    blocks = 64
    # A single process, which stands still as a whole; names have 5 s for an answer.
    slow: dict[str, Option] = {"rate_iops": 40, "thread": 1, "timeo": 20, "retrans": 1}
    words = _endless(proto=protocol, hold_writes="64m", spread="roundrobin", verify="crc32c")
    with guest_fio.start(pool=_BOTH, **{**words, **slow}) as process:
        with held_amid_writes(process, blocks, _SECONDS):
            before = verified(process)
            kernel_server.stop()
            kernel_server.start()
            if not reclaims:
                kernel_server.end_grace()
        if reclaims:
            eventually(lambda: written_in_pass(process) >= blocks, _SECONDS)
            tried = _done_by_the_server(Nfs4.OPEN)
            eventually(lambda: _done_by_the_server(Nfs4.OPEN) > tried + 6, _SECONDS)
            assert verified(process) == before
            kernel_server.end_grace()
        eventually(lambda: verified(process) >= before + blocks, _SECONDS)
        eventually(lambda: amid_writes(process, blocks), _SECONDS)
        process.signal(signal.SIGINT)
        result = guest_fio.finish(process, _SECONDS)
    stopped_well(result)
    assert all(line.reconnects for line in result.stats)
    assert sum(line.rewritten_bytes for line in result.stats) > 0
