# SPDX-License-Identifier: GPL-2.0-only
"""NFS over RDMA from user space: the engine on rdma_rxe against the kernel's own server."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import Traced, by_path, complaints, done, eventually, mounted_at, refused, said

from nfsmulti.fiorun import Engine, Fio, FioResult, Option
from nfsmulti.lab.kernel import ADDRESSES, EXPORT
from nfsmulti.lab.kernel.mounts import ADDRESS6
from nfsmulti.paths import PYTHON_TESTS, ROOT
from nfsmulti.processes import run

pytestmark = pytest.mark.kernel_lab

_SECONDS = 60.0
_KIB, _MIB = 1 << 10, 1 << 20
_ONE = f"nfs://{ADDRESSES[0]}{EXPORT}"
_BOTH = ",".join(f"nfs://{address}{EXPORT}" for address in ADDRESSES)
_SIX = f"nfs://[{ADDRESS6}]{EXPORT}"
_PORTS = Path("/proc/fs/nfsd/portlist")
_LISTENS = "rdma 20049"

Rdma = Callable[..., FioResult]

_SIZES = {"512": 512, "4k": 4 * _KIB, "64k": 64 * _KIB, "1m": _MIB, "4m": 4 * _MIB}


@pytest.fixture
def rdma(guest_fio: FioRunner) -> Iterator[Rdma]:
    """Give a fio whose jobs use RDMA; the file is "f" where nothing else is said."""

    def start(pool: str = _ONE, jobfile: Path | None = None, **options: Option) -> FioResult:
        file: dict[str, Option] = {} if jobfile else {"filename": "f"}
        return guest_fio(pool=pool, jobfile=jobfile, **{"proto": "rdma", **file, **options})

    yield start
    for file in Path(EXPORT).iterdir():
        file.unlink()


Limits = Callable[..., dict[str, str]]


@pytest.fixture
def limits(build_dir: Path) -> Limits:
    """Give the environment for a device with limits of faults.c."""

    def environment(**faults: int) -> dict[str, str]:
        loaded = {"LD_PRELOAD": str(build_dir / "librdma-faults.so")}
        return loaded | {name: str(value) for name, value in faults.items()}

    return environment


def _verified(size: int, **options: Option) -> dict[str, Option]:
    return {"rw": "randwrite", "verify": "crc32c", "size": size, **options}


def _listening() -> bool:
    return _LISTENS in _PORTS.read_text().splitlines()


@pytest.fixture
def mended() -> Iterator[None]:
    """See to it that addresses, device and server are as they were, whatever a test did.

    The device is made anew: what is sent while its link is down breaks rdma_rxe for good.
    """
    yield
    run(["ip", "link", "set", "dummy0", "up"], timeout=_SECONDS).check()
    for address in ADDRESSES:
        run(
            ["ip", "address", "replace", f"{address}/24", "dev", "dummy0"], timeout=_SECONDS
        ).check()
    run(["ip", "address", "replace", f"{ADDRESS6}/64", "dev", "dummy0", "nodad"], timeout=_SECONDS)
    run(_DELETE, timeout=_SECONDS)
    run(_ADD, timeout=_SECONDS).check()
    run(["rpc.nfsd", "8"], timeout=_SECONDS).check()
    if not _listening():
        _PORTS.write_text(_LISTENS)


_DELETE = ["rdma", "link", "delete", "rxe0"]
_ADD = ["rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "dummy0"]


# --- data ---


@pytest.mark.parametrize("depth", [1, 8, 64])
@pytest.mark.parametrize("block", _SIZES)
def test_blocks_are_read_back(rdma: Rdma, block: str, depth: int) -> None:
    size = max(16 * _SIZES[block], _MIB)
    result = rdma(**_verified(size, bs=block, iodepth=depth))
    report = done(result)
    assert (report.bytes("write"), report.bytes("read")) == (size, size)
    (line,) = result.stats
    assert line.transport == "rdma"
    assert line.remote == f"{ADDRESSES[0]}:20049"
    assert line.sends == line.receives == line.read_ops + line.write_ops + line.commits
    # Of messages, and of fio's buffers, unless their data goes with the messages.
    assert line.registrations == (2 if _SIZES[block] > 2 * _KIB else 1)
    assert line.credits > 1
    assert (line.retransmissions, line.reconnects, line.rnr_errors, line.retry_errors) == (0,) * 4


def test_small_data_goes_with_its_message(rdma: Rdma) -> None:
    """What fits into the inline threshold is not moved by RDMA: the messages are as much longer."""
    sent = {}
    for threshold in (1024, 4096):
        options = _verified(256 * _KIB, bs="2k", iodepth=8, inline=threshold)
        (line,) = rdma(**options).stats
        sent[threshold] = (line.bytes_sent, line.bytes_received)
    moved = 256 * _KIB
    assert all(
        0.9 * moved < more - less < 1.1 * moved for less, more in zip(*sent.values(), strict=True)
    )


@pytest.mark.parametrize("block", [512, 1000, 4 * _KIB + 1, 100_001])
def test_odd_sizes_and_places(rdma: Rdma, block: int) -> None:
    """XDR pads, and buffers that begin anywhere."""
    done(rdma(**_verified(20 * block, bs=block, bs_unaligned=1, iodepth=7, iomem_align=1)))


@pytest.mark.parametrize("memory", ["malloc", "mmap", "shm", "mmaphuge"])
def test_kinds_of_memory(rdma: Rdma, memory: str) -> None:
    huge: dict[str, Option] = {}
    if memory == "mmaphuge":
        Path("/proc/sys/vm/nr_hugepages").write_text("8")
        huge = {"hugepage-size": 2 * _MIB}
    try:
        done(rdma(**_verified(4 * _MIB, bs="256k", iodepth=4, mem=memory, **huge)))
    finally:
        Path("/proc/sys/vm/nr_hugepages").write_text("0")


def test_threads_and_processes(rdma: Rdma) -> None:
    for thread in (0, 1):
        jobs = _verified(_MIB, bs="16k", iodepth=4, numjobs=3, thread=thread, filename=None)
        done(rdma(**{**jobs, "filename_format": "t$jobnum"}))


def test_a_missing_file_is_laid_out(rdma: Rdma) -> None:
    """By fio's parent, before it forks: over TCP."""
    done(rdma(rw="randread", bs="64k", size="2m", iodepth=4))
    assert (Path(EXPORT) / "f").stat().st_size == 2 * _MIB


# --- more than fits at once ---


@pytest.mark.usefixtures("mended")
def test_more_calls_than_credits_wait_in_order(rdma: Rdma) -> None:
    """The server's only thread answers in the order in which the calls have come."""
    run(["rpc.nfsd", "1"], timeout=_SECONDS).check()
    size = 4 * _MIB
    written = rdma(**_verified(size, bs="4k", iodepth=256))
    assert done(written).bytes("read") == size
    result = rdma(rw="read", bs="4k", size=size, iodepth=256, trace=1)
    done(result)
    (line,) = result.stats
    assert 1 < line.credits < 256
    assert (line.rnr_errors, line.retransmissions) == (0, 0)
    assert line.sends == line.receives == line.read_ops == size // (4 * _KIB)
    offsets = [call.offset for call in Traced.read(result.stderr)]
    assert offsets == list(range(0, size, 4 * _KIB))


def test_data_that_lies_in_several_regions(rdma: Rdma, limits: Limits) -> None:
    """On a device whose registrations are small: a call names as many as its data lies in."""
    size = 4 * _MIB
    small = limits(RDMA_MAX_MR_SIZE=64 * _KIB)
    result = rdma(**_verified(size, bs="256k", iodepth=4, iomem_align=512), env=small)
    report = done(result)
    assert (report.bytes("write"), report.bytes("read")) == (size, size)
    (line,) = result.stats
    assert line.registrations >= 1 + 4 * 256 // 64  # its messages', and the buffers'
    assert line.sends == line.read_ops + line.write_ops + line.commits == 2 * size // 262144 + 1


def test_data_that_lies_in_too_many_regions(rdma: Rdma, limits: Limits) -> None:
    small = limits(RDMA_MAX_MR_SIZE=16 * _KIB)
    result = rdma(**_verified(_MIB, bs="256k", iodepth=2), env=small)
    assert result.status == 1
    (why,) = {line for line in said(result) if "regions" in line}
    assert "the data of one call lies in more than 8 regions of registered memory" in why


# --- paths ---


@pytest.mark.parametrize("spread", ["job", "roundrobin", "queue", "stripe"])
def test_spreads(rdma: Rdma, spread: str) -> None:
    result = rdma(
        _BOTH, **_verified(4 * _MIB, bs="64k", iodepth=16, nconnect=2, spread=spread, numjobs=1)
    )
    done(result)
    assert len(result.stats) == (2 if spread == "job" else 4)
    assert sum(by_path(result.stats).values()) == 64
    if spread in ("roundrobin", "stripe"):
        assert set(by_path(result.stats).values()) == {32}


def test_ipv6(rdma: Rdma) -> None:
    result = rdma(_SIX, **_verified(_MIB, bs="64k", iodepth=4, proto="rdma6"))
    done(result)
    assert result.stats[0].remote == "[fd02::15]:20049"


def test_one_pool_of_tcp_and_rdma(rdma: Rdma) -> None:
    pool = f"{_ONE}?proto=rdma,{_ONE}?proto=tcp"
    result = rdma(pool, **_verified(4 * _MIB, bs="64k", iodepth=16, spread="roundrobin"))
    done(result)
    assert [line.transport for line in result.stats] == ["rdma", "tcp"]
    assert [line.write_ops for line in result.stats] == [32, 32]


# --- the same bytes by other ways ---


@pytest.mark.parametrize("way", ["tcp", "kernel mount"])
@pytest.mark.parametrize("first", ["rdma", "other"])
def test_what_one_way_writes_another_reads(
    guest_fio: FioRunner, tmp_path: Path, way: str, first: str
) -> None:
    common: dict[str, Option] = {
        "rw": "write",
        "bs": "64k",
        "size": "4m",
        "iodepth": 8,
        "verify": "crc32c",
        "filename": "f",
    }
    with contextlib.ExitStack() as undo:
        other: dict[str, Option] = {"pool": _ONE, "proto": "tcp"}
        if way == "kernel mount":
            other = {
                "pool": str(undo.enter_context(mounted_at(tmp_path / "m", "vers=3,proto=rdma"))),
                "direct": 1,
            }
        ways = [{"pool": _ONE, "proto": "rdma"}, other]
        writer, reader = ways if first == "rdma" else reversed(ways)
        done(guest_fio(**common, **writer, do_verify=0))
        report = done(guest_fio(**common, **reader, verify_only=1))
        assert report.bytes("read") == 4 * _MIB
    (Path(EXPORT) / "f").unlink()


# --- the jobfiles, and the doctor ---


@pytest.mark.parametrize("jobfile", ["randread", "dd-write", "dd-read", "fsperf"])
def test_jobfiles_run_over_rdma(rdma: Rdma, tmp_path: Path, jobfile: str) -> None:
    """As they are, but for a shorter time and with less data."""
    text = (ROOT / "jobfiles" / f"{jobfile}.fio").read_text()
    text = re.sub(r"(?m)^size=.*$", "size=8m", text)
    short = tmp_path / f"{jobfile}.fio"
    short.write_text(re.sub(r"(?m)^runtime=.*$", "runtime=1", text))
    done(rdma(_BOTH, jobfile=short))


def _doctor(pool: str) -> dict[str, str]:
    words = ["-m", "nfsmulti", "doctor", "--json", "--pool", pool]
    found = run([sys.executable, *words], timeout=_SECONDS, env={"PYTHONPATH": str(PYTHON_TESTS)})
    return {one["what"]: one["level"] for one in json.loads(found.stdout)}


def test_doctor() -> None:
    found = _doctor(f"{_ONE}?proto=rdma")
    (device,) = [what for what in found if what.startswith("RDMA device rxe0 port 1:")]
    assert re.search(r": ACTIVE, Ethernet, MTU \d+$", device)
    (server,) = [what for what in found if "NFS over RDMA on port 20049 answers by rxe0" in what]
    assert found[device] == found[server] == "ok"


def test_doctor_where_nothing_listens() -> None:
    found = _doctor(f"{_ONE}?proto=rdma&rdmaport=20050")
    (server,) = [what for what in found if "NFS over RDMA on port 20050" in what]
    assert "refused" in server
    assert found[server] == "fail"


# --- what goes wrong ---


def test_nothing_listens(rdma: Rdma) -> None:
    line = refused(rdma(rw="write", size="64k", rdmaport=20050))
    assert "RDMA port 20050" in line
    assert "Connection refused" in line


def test_no_device_leads_to_the_server(rdma: Rdma) -> None:
    line = refused(rdma(f"nfs://127.0.0.1{EXPORT}", rw="write", size="64k"))
    assert "RDMA port 20049" in line


def test_no_queue_pair_can_be_had(rdma: Rdma, limits: Limits) -> None:
    line = refused(rdma(**_verified(_MIB, bs="64k"), env=limits(RDMA_NO_QUEUE_PAIR=1)))
    assert f"{ADDRESSES[0]}:/export: cannot connect to RDMA port 20049: Cannot allocate" in line


def test_too_little_memory_may_be_locked(
    engine: Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Without CAP_IPC_LOCK, which lets root lock as much as it likes."""
    few = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]
    few = ["prlimit", f"--memlock={256 * _KIB}", *few]
    fio = FioRunner(Fio(engine, few), _ONE, tmp_path, request.node)
    result = fio(proto="rdma", filename="f", rw="write", bs="1m", size="8m", iodepth=8)
    assert result.status != 0
    assert any("may lock 256 KiB: raise ulimit -l" in line for line in said(result))


def _during(fio: Rdma, actions: Sequence[Sequence[str]], **options: Option) -> FioResult:
    """Run a job, and commands once it has written something, one second apart."""
    file = Path(EXPORT) / "f"

    def act() -> None:
        eventually(lambda: file.exists() and file.stat().st_size > 0)
        for number, words in enumerate(actions):
            time.sleep(1 if number else 0)
            run(words, timeout=_SECONDS)

    with ThreadPoolExecutor() as other:
        acting = other.submit(act)
        result = fio(**options)
        acting.result()
    return result


_WRITES: dict[str, Option] = {
    "rw": "randwrite",
    "bs": "16k",
    "size": "2m",
    "iodepth": 8,
    "time_based": 1,
    "runtime": 8,
}


@pytest.mark.usefixtures("mended")
def test_a_device_that_is_removed_does_not_hold_fio(rdma: Rdma) -> None:
    """Memory and queues go with it. librdmacm 44 finds no device that came later."""
    result = _during(rdma, [_DELETE], **_WRITES)
    assert result.status == 1
    assert any("(No such device)" in line for line in complaints(result.messages))


@pytest.mark.usefixtures("mended")
def test_a_link_that_goes_down_does_not_hold_fio(rdma: Rdma) -> None:
    result = _during(rdma, [["ip", "link", "set", "dummy0", "down"]], **_WRITES)
    assert result.status == 1
    assert any("connection lost" in line for line in complaints(result.messages))


@pytest.mark.usefixtures("mended")
def test_a_server_that_goes_and_comes_back(rdma: Rdma) -> None:
    """Its threads go, and with them all connections; what they had is sent again."""
    back = ["sh", "-c", f"rpc.nfsd 8; echo {_LISTENS} >{_PORTS}"]
    result = _during(rdma, [["rpc.nfsd", "0"], back], **_WRITES, sync=1)
    done(result)
    (line,) = result.stats
    assert line.reconnects >= 1
    assert line.retransmissions > 0


@pytest.mark.usefixtures("mended")
def test_what_a_server_lost_is_written_again(rdma: Rdma) -> None:
    """hold_writes: it comes back with another write verifier; the hold's memory is reached."""
    back = ["sh", "-c", f"rpc.nfsd 8; echo {_LISTENS} >{_PORTS}"]
    result = _during(rdma, [["rpc.nfsd", "0"], back], **_WRITES, hold_writes="256m")
    done(result)
    (line,) = result.stats
    assert line.rewritten_bytes > 0
    assert any("all of it is durable now" in line for line in complaints(result.messages))


@pytest.mark.usefixtures("mended")
def test_a_server_that_goes_does_not_hold_fio(rdma: Rdma) -> None:
    result = _during(rdma, [["rpc.nfsd", "0"]], **_WRITES)
    assert result.status == 1
    assert any("giving up" in line for line in complaints(result.messages))


# --- failover ---


@pytest.mark.usefixtures("mended")
def test_an_address_that_is_taken_away(rdma: Rdma) -> None:
    """Four connections on two addresses: the other two take over, and every byte verifies."""
    cut = ["ip", "address", "delete", f"{ADDRESSES[1]}/24", "dev", "dummy0"]
    result = _during(
        rdma,
        [cut],
        pool=_BOTH,
        **_verified(8 * _MIB, bs="64k", iodepth=16, nconnect=2),
        spread="stripe",
        failover=1,
        rate_iops=24,
    )
    report = done(result)
    assert (report.bytes("write"), report.bytes("read")) == (8 * _MIB, 8 * _MIB)
    reissues = {line.path.partition(":")[0]: line.reissues for line in result.stats}
    assert reissues[ADDRESSES[0]] > 0
