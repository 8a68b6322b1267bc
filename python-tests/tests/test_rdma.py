# SPDX-License-Identifier: GPL-2.0-only
"""NFS over RDMA from user space: the engine on rdma_rxe against the kernel's own server."""

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import Traced, done, eventually, mounted_at, refused, said, stderr_of
from kernel_nfsd import DELETE_DEVICE, mend

from jobs import Fio
from nfsmulti import doctor
from nfsmulti.fiorun import Engine, FioResult, Option
from nfsmulti.lab.guest import ADDRESS6, ADDRESSES, EXPORT
from nfsmulti.machine import Level, rdma_devices
from nfsmulti.pool import read_pool
from nfsmulti.processes import Process, run

pytestmark = pytest.mark.kernel_lab

_SECONDS = 240.0  # for whatever does not hang, on a slow machine too
_KIB, _MIB = 1 << 10, 1 << 20
_ONE = f"nfs://{ADDRESSES[0]}{EXPORT}"
_BOTH = ",".join(f"nfs://{address}{EXPORT}" for address in ADDRESSES)
_SIX = f"nfs://[{ADDRESS6}]{EXPORT}"

Rdma = Callable[..., FioResult]


@pytest.fixture(autouse=True)
def _empty_export() -> Iterator[None]:
    yield
    for file in Path(EXPORT).iterdir():
        file.unlink()


@pytest.fixture
def rdma(local_fio: FioRunner) -> Rdma:
    """Return a fio whose jobs use RDMA; the file is "f" where nothing else is said."""

    def start(pool: str = _ONE, **options: Option) -> FioResult:
        words = {"proto": "rdma", "filename": "f", **options}
        return local_fio(pool=pool, timeout=_SECONDS, **words)

    return start


Limits = Callable[..., dict[str, str]]


@pytest.fixture
def limits(build_dir: Path) -> Limits:
    """Return the environment for a device with limits of faults.c."""

    def environment(**faults: int) -> dict[str, str]:
        loaded = {"LD_PRELOAD": str(build_dir / "librdma-faults.so")}
        return loaded | {name: str(value) for name, value in faults.items()}

    return environment


def _verified(size: int, **options: Option) -> dict[str, Option]:
    return {"rw": "randwrite", "verify": "crc32c", "size": size, **options}


@pytest.fixture
def mended() -> Iterator[None]:
    """See to it that addresses, device and server are as they were, whatever a test did."""
    yield
    mend()


# --- data ---


_HUGE = Path("/proc/sys/vm/nr_hugepages")
# What is said beside 1 MiB in blocks of 64 KiB; the pool.
_BLOCKS: dict[str, tuple[dict[str, Option], str]] = {
    "with the messages": ({"bs": 512, "iodepth": 64, "size": _MIB // 4}, _ONE),
    "by RDMA, in several calls": ({"bs": "4m", "iodepth": 2, "size": "16m"}, _ONE),
    # XDR pads, and buffers that begin anywhere. A WRITE of 4001 bytes fits into a message of 4096
    # by its data alone, but not with the call's head.
    **{
        f"odd, {block}": (
            {"bs": block, "bs_unaligned": 1, "size": 20 * block, "iodepth": 7, "iomem_align": 1},
            _ONE,
        )
        for block in (1001, 4001, 100_001)
    },
    "shared memory": ({"mem": "shm"}, _ONE),
    "huge pages": ({"mem": "mmaphuge", "hugepage-size": 2 * _MIB, "bs": "256k"}, _ONE),
    "IPv6": ({"proto": "rdma6"}, _SIX),
    "threads": (
        {"numjobs": 3, "thread": 1, "filename": None, "filename_format": "t$jobnum"},
        _BOTH,
    ),
    "TCP and RDMA": ({"spread": "roundrobin"}, f"{_ONE}?proto=rdma,{_ONE}?proto=tcp"),
}


@pytest.mark.parametrize("name", _BLOCKS)
def test_blocks_are_read_back(rdma: Rdma, name: str) -> None:
    more, pool = _BLOCKS[name]
    _HUGE.write_text("8" if "huge" in name else "0")
    try:
        result = rdma(pool, **{**_verified(_MIB, bs="64k", iodepth=8), **more})
    finally:
        _HUGE.write_text("0")
    report = done(result)
    assert report.bytes("write") == report.bytes("read")
    expected = {
        "IPv6": [f"[{ADDRESS6}]:20049"],
        "threads": [f"{address}:20049" for address in (*ADDRESSES, ADDRESSES[0])],
    }.get(name, [f"{ADDRESSES[0]}:20049"])
    rdmas = [line for line in result.stats if line.transport == "rdma"]
    assert sorted(line.remote for line in rdmas) == sorted(expected)
    assert len(result.stats) == len(expected) + (name == "TCP and RDMA")
    for line in rdmas:
        assert line.sends == line.receives == line.read_ops + line.write_ops + line.commits > 0
        if "messages" in name or "RDMA," in name:
            # Of messages, and of fio's buffers, unless their data goes with the messages.
            assert line.registrations == 1 + ("RDMA" in name)
        assert line.credits > 1
        errors = (line.retransmissions, line.reconnects, line.rnr_errors, line.retry_errors)
        assert errors == (0, 0, 0, 0)


def test_small_data_goes_with_its_message(rdma: Rdma) -> None:
    """What fits into the inline threshold is not moved by RDMA: the messages are as much longer."""
    moved = 256 * _KIB
    (few,), (many,) = (
        rdma(**_verified(moved, bs="2k", iodepth=8, inline=threshold)).stats
        for threshold in (1024, 4096)
    )
    assert 0.9 * moved < many.bytes_sent - few.bytes_sent < 1.1 * moved
    assert 0.9 * moved < many.bytes_received - few.bytes_received < 1.1 * moved


def test_a_missing_file_is_laid_out(rdma: Rdma) -> None:
    """By fio's parent, before it forks: over TCP."""
    done(rdma(rw="randread", bs="64k", size="2m", iodepth=4))
    assert (Path(EXPORT) / "f").stat().st_size == 2 * _MIB


# --- more than fits at once ---


@pytest.mark.usefixtures("mended")
def test_more_calls_than_credits_wait_in_order(rdma: Rdma) -> None:
    """The server's only thread answers in the order in which the calls have come."""
    run(["rpc.nfsd", "1"], timeout=_SECONDS).check()
    size = _MIB
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
    size = 2 * _MIB
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


@pytest.mark.parametrize("pool", [_ONE, f"nfs://{ADDRESSES[0]}/?version=4.1"], ids=["3", "4.1"])
def test_listings(rdma: Rdma, pool: str) -> None:
    """A directory of 500 takes several replies, each as long as fits inline."""
    folder = Path(EXPORT) / "tree"
    folder.mkdir()
    try:
        for number in range(500):
            (folder / f"e{number:x}").touch()
        job: dict[str, Option] = {"metadata": 1, "bs": 1, "size": 500, "tree_depth": 0}
        words: dict[str, Option] = {"rw": "randread", "meta_read": "readdir", "number_ios": 20}
        result = rdma(pool, **job, **words, iodepth=4, filename="tree")
        done(result)
        (line,) = result.stats
        assert (line.transport, line.meta_ops) == ("rdma", 20)
        assert 20 * 3 < line.sends < 20 * 10
    finally:
        shutil.rmtree(folder)


def test_an_arrival_clock(rdma: Rdma) -> None:
    """A single queue pair is waited for by epoll then."""
    clock: dict[str, Option] = {"arrival_rate": 1000, "lat_percentiles": 1}
    result = rdma(rw="randread", bs="16k", size="1m", iodepth=8, **clock)
    done(result)
    assert [line.sent for line in result.arrivals] == [64]


# --- the same bytes by another way ---


def test_a_kernel_mount_reads_what_was_written(
    rdma: Rdma, local_fio: FioRunner, tmp_path: Path
) -> None:
    job: dict[str, Option] = {"rw": "write", "bs": "64k", "size": "2m", "verify": "crc32c"}
    done(rdma(**job, iodepth=8, do_verify=0))
    with mounted_at(tmp_path / "m", "vers=3,proto=rdma") as mount:
        reads = local_fio(**job, pool=str(mount), filename="f", direct=1, verify_only=1)
    assert done(reads).bytes("read") == 2 * _MIB


# --- the doctor ---


def test_doctor() -> None:
    """Its look at RDMA; the command imports more than an emulated processor is quick at."""
    pool = read_pool(f"{_ONE}?proto=rdma,{_ONE}?proto=rdma&rdmaport=20050")
    (device,) = rdma_devices(wanted=True)
    assert device.what == "RDMA device rxe0 port 1: ACTIVE, Ethernet"
    answers, nobody = (one for path in pool for one in doctor.rdma(path))
    assert "NFS over RDMA on port 20049 answers through rxe0" in answers.what
    assert "NFS over RDMA on port 20050" in nobody.what
    assert "refused" in nobody.what
    assert [device.level, answers.level, nobody.level] == [Level.OK, Level.OK, Level.FAIL]


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("pool", "port", "faults", "words"),
    [
        (_ONE, 20050, {}, "Connection refused"),
        (f"nfs://127.0.0.1{EXPORT}", 20049, {}, "127.0.0.1:/export"),  # no device leads there
        (_ONE, 20049, {"RDMA_NO_QUEUE_PAIR": 1}, "Cannot allocate"),
    ],
)
def test_a_connection_that_cannot_be_had(
    rdma: Rdma, limits: Limits, pool: str, port: int, faults: dict[str, int], words: str
) -> None:
    result = rdma(pool, rw="write", size="64k", rdmaport=port, env=limits(**faults))
    refused(result, f"cannot connect to RDMA port {port}", words)


def test_too_little_memory_may_be_locked(engine: Engine, tmp_path: Path) -> None:
    """Without CAP_IPC_LOCK, which lets root lock as much as it likes."""
    few = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]
    few = ["prlimit", f"--memlock={256 * _KIB}", *few]
    fio = FioRunner(Fio(engine, few), _ONE, tmp_path)
    result = fio(proto="rdma", filename="f", rw="write", bs="1m", size="8m", iodepth=8)
    assert result.status != 0
    assert any("may lock 256 KiB: raise ulimit -l" in line for line in said(result))


@pytest.mark.usefixtures("mended")
def test_a_device_that_is_removed_does_not_hold_fio(local_fio: FioRunner) -> None:
    """Memory and queues go with it. librdmacm 44 finds no device that came later.

    The job is unpaced, so that calls are outstanding. Servers that go: test_kernel_nfs.py, and the
    fault matrix.
    """
    file = Path(EXPORT) / "f"
    job: dict[str, Option] = {"rw": "randwrite", "bs": "16k", "size": "2m", "iodepth": 8}
    words: dict[str, Option] = {"proto": "rdma", "filename": "f", "time_based": 1, "runtime": 3600}
    with local_fio.start(pool=_ONE, **job, **words) as process:
        eventually(lambda: file.exists() and file.stat().st_size > 0, _SECONDS)
        with Process(DELETE_DEVICE) as deletion:
            eventually(lambda: "connection lost" in stderr_of(process), _SECONDS)
            process.signal(signal.SIGTERM)
            result = local_fio.finish(process, _SECONDS)
            assert deletion.wait(_SECONDS) == 0  # the kernel waits for fio with it
    assert result.status not in (0, None)
