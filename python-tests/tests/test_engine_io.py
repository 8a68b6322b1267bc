# SPDX-License-Identifier: GPL-2.0-only
"""Reads and writes: verified data, depths, rates, times and memory.

Modes and block sizes are in test_engine_files.py, where psync gives the figures to expect; what
rsize= and wsize= do, and data that fails its verification, in test_replies.py.
"""

import os
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from engine_helpers import (
    Place,
    done,
    ends,
    eventually,
    failed_io,
    family,
    figures,
    job_of,
    refused,
    sections,
    sleeps,
    traces,
)
from scripted_jobs import Options, Run, preloaded, replay, replay_files, undisturbed

from nfsmulti.fiorun import FioProcess, Option
from servers.scripted import Answer, Nfs, Nfs4, Procedure, ScriptedServer, Terms, on

_MIB = 1 << 20


# --- what is refused ---


def test_what_fio_would_not_trim_is_no_trimming(mounted: Place) -> None:
    checked: Options = {"rw": "write", "verify": "crc32c", "bs": "4k", "size": "64k"}
    nothings: tuple[Options, ...] = ({}, {"trim_backlog": 4, "do_verify": 0})
    for nothing in nothings:
        mounted.fio.well(filename="f", trim_percentage=50, **checked, **nothing)


def test_what_the_engine_cannot_do_is_refused(mounted: Place, tmp_path: Path) -> None:
    """More of it is in test_options.py."""
    job: Options = {"bs": "4k", "size": "64k", "filename": "f"}
    log = replay(tmp_path, "write 0 4096")
    refused(mounted.fio(read_iolog_chunked=1, **log), "read_iolog_chunked", "leave it out")
    assert mounted.fio(rw="write", file_append=1, **job).status == 1
    offload = mounted.fio(rw="read", io_submit_mode="offload", **job)
    assert offload.status == 1
    assert "offload" in offload.messages


# --- calls smaller than blocks ---


def test_more_calls_than_slots_wait_their_turn(exported: Place) -> None:
    """32 blocks of 1 MiB in calls of 1 KiB are 32768 calls at once: more than 8192 slots."""
    job: dict[str, Option] = {"rw": "write", "bs": "1m", "size": "32m", "filename": "f"}
    job |= {"fsync": 16, "spread": "roundrobin", "verify": "crc32c", "verify_interval": "64k"}
    result = exported.fio.well(iodepth=32, rsize="64k", wsize="1k", **job)
    assert sum(line.write_ops for line in result.stats) == 32768
    assert exported.sizes() == {"f": 32 * _MIB}


# --- data ---


def test_what_one_run_wrote_another_verifies(export: Place) -> None:
    """By writing's order alone, by reading, and as far as a run that ended early had come."""
    job: dict[str, Option] = {"bs": "4k", "size": "512k", "filename": "f", "verify": "crc32c"}
    export.fio.well(rw="randwrite", iodepth=8, do_verify=0, **job)
    for again in ({"rw": "randwrite", "verify_only": 1}, {"rw": "randread"}, {"rw": "read"}):
        result = export.fio(iodepth=8, **job, **again)
        assert done(result).bytes("read") == 512 << 10
        assert [line.write_ops for line in result.stats] == [0]
    part: dict[str, Option] = {**job, "filename": "g"}
    export.fio.well(rw="randwrite", number_ios=40, do_verify=0, verify_state_save=1, **part)
    report = done(export.fio(rw="randread", verify_state_load=1, **part))
    assert report.bytes("read") == 40 * 4096


def test_busy_poll(v3_or_mount: Place) -> None:
    """Asking without sleeping changes nothing but the time that it takes."""
    jobs = sections(one={"iodepth": 1}, many={"iodepth": 16, "nconnect": 2, "spread": "queue"})
    words = ["--rw=randwrite", "--bs=8k", "--size=1m", "--verify=crc32c", "--fsync=16", *jobs]
    report = done(v3_or_mount.fio(busy_poll=1000, arguments=words))
    assert [job["read"]["total_ios"] for job in report.jobs] == [128, 128]


def test_verify_while_writing_by_threads_of_its_own_and_in_any_memory(exported: Place) -> None:
    jobs = sections(
        backlog={"verify_backlog": 32, "bs": "4k", "filename": "a"},
        asynchronous={"verify_async": 2, "bs": "4k", "filename": "b"},
        mixed={"rw": "randrw", "bs": "16k", "filename": "c"},
        pattern={"verify": "pattern", "verify_pattern": "0xabcd%o", "bs": "8k", "filename": "d"},
        ranges={"bsrange": "1k-256k", "filename": "e"},
        spread={"bs": "8k", "spread": "queue", "nconnect": 4, "filename": "f"},
        overlap={"bs": "8k", "norandommap": 1, "serialize_overlap": 1, "filename": "g"},
        **{kind: {"mem": kind, "bs": "8k"} for kind in ("malloc", "shm", "mmap", "mmapshared")},
    )
    words = ["--rw=randwrite", "--verify=crc32c", "--iodepth=16", "--size=2m", *jobs]
    exported.fio.well(arguments=words)


# --- depth ---


def test_iodepths(v3_or_mount: Place) -> None:
    depths = (1, 2, 3, 16, 255, 1024, 4096)
    jobs = sections(**{f"depth{depth}": {"iodepth": depth} for depth in depths})
    words = ["--rw=randread", "--bs=1k", "--size=4m", "--filename=f", "--spread=roundrobin", *jobs]
    result = v3_or_mount.fio(arguments=words)
    report = done(result)
    assert figures(report) == dict.fromkeys(figures(report), (4 * _MIB, 4096, 0, 0))
    assert [line.read_ops for line in result.stats] == [1024] * 4 * len(depths)
    assert not any(line.retransmissions + line.reconnects for line in result.stats)
    # The queue is filled, since the engine hands nothing back before it is asked.
    assert job_of(report, "depth4096")["iodepth_level"][">=64"] > 90
    # A waiting queue belongs to completion latency, and both add up to the whole.
    for job in report.jobs:
        slat, clat, lat = (job["read"][f"{kind}_ns"] for kind in ("slat", "clat", "lat"))
        assert slat["N"] == clat["N"] == 4096
        assert 0 < clat["mean"] <= lat["mean"]
        assert slat["mean"] + clat["mean"] == pytest.approx(lat["mean"], rel=0.05)


def test_getevents_waits_for_the_minimum(v3_or_mount: Place) -> None:
    """At least 16 of 64 at once are asked for, and nearly always had (the last ones aside)."""
    job: Options = {"rw": "randread", "bs": "4k", "size": "8m", "filename": "f", "iodepth": 64}
    batches: Options = {"iodepth_batch_complete_min": 16, "iodepth_batch_complete_max": 64}
    complete = job_of(done(v3_or_mount.fio(**job, **batches)), "job")["iodepth_complete"]
    assert complete["4"] + complete["8"] < 10
    assert complete["0"] == 0


# --- what fio does while I/O is queued ---

_HOUR = 3600_000_000  # in a log, which has microseconds

# What a log does before its next entry an hour later, the job's options, and the calls that the
# server has until then.
_SLEEPS: dict[str, tuple[list[str], Options, dict[Procedure, int]]] = {
    "a read": (["f read 0 4096"], {}, {Nfs.READ: 1}),
    "connections": (
        [f"f read {offset} 4096" for offset in range(0, 16384, 4096)],
        {"nconnect": 4, "spread": "roundrobin"},
        {Nfs.READ: 4},
    ),
    "no room": (["f write 0 8388608"], {"wsize": "64k", "iodepth": 2}, {Nfs.WRITE: 128}),
    "a sync": (["f write 0 4096", "f sync 0 0"], {}, {Nfs.WRITE: 1, Nfs.COMMIT: 1}),
    "a hold": (
        ["f write 0 8192", "f write 8192 8192"],
        {"hold_writes": "8k", "bs": "8k"},
        {Nfs.WRITE: 2, Nfs.COMMIT: 1},
    ),
    "slots": (["f read 0 4096", "f read 4096 4096"], {}, {Nfs4.READ: 2}),
}  # fmt: skip


def _log(folder: Path, *entries: str | int) -> Options:
    """Write a log with times: numbers are the microseconds since its beginning, from then on."""
    log, now, lines = folder / "log", 0, ["fio version 3 iolog"]
    for entry in entries:
        if isinstance(entry, int):
            now = entry
        else:
            lines.append(f"{now} {entry}")
    log.write_text("\n".join([*lines, ""]))
    return {"read_iolog": str(log), "rw": "randrw"}


@pytest.mark.parametrize("name", _SLEEPS)
def test_all_has_left_before_fio_sleeps(job: Run, tmp_path: Path, name: str) -> None:
    """By fio 3.33, which asks for no completions until its log goes on."""
    entries, options, wanted = _SLEEPS[name]
    log = _log(tmp_path, "f add", 1, "f open", *entries, _HOUR, "f read 0 4096", "f close")

    def during(server: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: Counter(call.procedure for call in server.calls(*wanted)) == wanted)
        process.signal(signal.SIGINT)
        ends(process)

    server = {"terms": partial(Terms, slots=1), "receive_buffer": 64 << 10}
    files, version = {"f": bytes(8 << 20)}, 4 if name == "slots" else 3
    words = {**server, "files": files, "version": version, **options, **log}
    job(**words, during=during, error=None)


@pytest.mark.parametrize("depth", [1, 64])
def test_a_log_takes_its_time(v3_or_mount: Place, tmp_path: Path, depth: int) -> None:
    """Ten reads in 0.5 s; at its end fio leaves I/O in flight, and closes and removes files."""
    steps = [step for at in range(1, 11) for step in (at * 50_000, f"{'fg'[at % 2]} read 0 4096")]
    add: list[str | int] = ["f add", "g add", 1, "f open", "g open"]
    for name in "fg":
        v3_or_mount.random(name, 4096)
    log = _log(tmp_path, *add, *steps, "f close", "g close")
    result = v3_or_mount.fio(iodepth=depth, unlink=1, **log)
    (job,) = done(result).jobs
    assert job["job_runtime"] >= 450
    assert sum(line.read_ops for line in result.stats) == 10
    assert v3_or_mount.names() == []


def test_a_log_closes_and_opens_files_between(v3_or_mount: Place, tmp_path: Path) -> None:
    steps = ["f open", "f write 0 4096", "f close"]
    files = [step.replace("f ", f"{name} ") for name in "fghf" for step in steps]
    log = replay_files(tmp_path, list("fgh"), *files)
    result = v3_or_mount.fio.well(iodepth=4, nconnect=2, spread="roundrobin", **log)
    assert sum(line.write_ops for line in result.stats) == 4
    assert v3_or_mount.sizes() == dict.fromkeys("fgh", 4096)


def test_io_has_left_before_another_file_is_opened(job: Run) -> None:
    """The READ of the first is not kept back while the LOOKUP of the second is not answered."""
    files = {name: bytes(4096) for name in "fg"}
    late = on(Nfs.LOOKUP, Answer(delay=0.3))
    ran = job(late, filename="f:g", size="8k", rw="read", files=files)
    undisturbed(ran.result)
    answered = ran.calls(Nfs.LOOKUP)[-1].answered
    assert answered is not None
    assert ran.calls(Nfs.READ)[0].time < answered


# --- time ---


def test_times_and_rates(exported: Place) -> None:
    """All jobs at once, 2 seconds: no job ends before its time, none does more than its rate."""
    exported.random("f", 65536)
    timed: dict[str, Option] = {"time_based": 1, "runtime": 2}
    often: dict[str, Option] = {**timed, "rate_iops": 500}  # that is no limit for so short a file
    jobs = sections(
        timed=often,
        threads={**often, "thread": 1, "numjobs": 2, "iodepth": 64},
        cut={"runtime": 2, "rate_iops": 50, "filename": "h", "size": "1m", "overwrite": 1},
        ramped={**often, "ramp_time": 1},
        rated={**timed, "rate": "400k"},
        counted={**timed, "rate_iops": 100, "iodepth": 1},
        thinking={**timed, "thinktime": "100ms", "iodepth": 1},
        writer={**often, "rw": "randwrite", "filename": "g", "size": "64k"},
    )
    words = ["--rw=randread", "--bs=4k", "--filename=f", "--iodepth=8", *jobs]
    report = done(exported.fio(arguments=words))
    assert all(job["job_runtime"] > 1980 for job in report.jobs)
    reads = {job["jobname"]: job["read"]["total_ios"] for job in report.jobs}
    assert min(reads["timed"], reads["threads"]) > 64, "the file was read more than once"
    assert job_of(report, "writer")["write"]["total_ios"] > 16
    for name, rate in (("cut", 50), ("rated", 100), ("counted", 100), ("thinking", 10)):
        assert 0 < reads[name] < 1.2 * rate * job_of(report, name)["job_runtime"] / 1000


def test_the_tail_of_a_job_that_is_cut_by_time_is_not_lost(exported: Place) -> None:
    """Each write that fio counts is on the server, and nothing is in flight when it ends."""
    job: Options = {"rw": "write", "bs": "64k", "size": "2g", "filename": "f", "iodepth": 32}
    result = exported.fio(**job, runtime=1, rate="32m")
    written = done(result).bytes("write")
    assert exported.sizes() == {"f": written}
    assert sum(line.write_bytes for line in result.stats) == written


def test_waiting_for_time_costs_nothing(exported: Place) -> None:
    job: Options = {"rw": "randread", "bs": "16k", "size": "1m", "iodepth": 8, "rate_iops": 1}
    timed: Options = {"time_based": 1, "runtime": 300, "spread": "roundrobin", "nconnect": 4}
    with exported.fio.start(**job, **timed, trace=1) as process:
        eventually(lambda: traces(process))
        eventually(lambda: _sleep(process))


def _sleep(process: FioProcess) -> bool:
    """Tell whether fio and its job sleep, at 40 looks in 0.2 s; one that polls never does."""
    for _ in range(40):
        time.sleep(0.005)
        if not all(map(sleeps, (process.pid, *family(process.pid)))):
            return False
    return True


# --- O_DIRECT ---


def _needs_o_direct(folder: Path) -> None:
    file = folder / "probe"
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except OSError:
        pytest.skip("the file system of the temporary folder has no O_DIRECT")
    finally:
        file.unlink()


def test_direct(v3_or_mount: Place) -> None:
    """It is no matter to NFS, and the kernel's of a directory."""
    if v3_or_mount.kind == "mount":
        _needs_o_direct(v3_or_mount.files)
    job: dict[str, Option] = {"rw": "randrw", "size": "1m", "filename": "f", "iodepth": 8}
    for direct in (0, 1):
        v3_or_mount.fio.well(direct=direct, bs="4k", verify="crc32c", **job)
    v3_or_mount.fio.well(direct=0, bs=1000, **job)
    odd = v3_or_mount.fio(direct=1, bs=1000, **job)
    if v3_or_mount.kind == "mount":
        failed_io(odd, "Invalid argument")
    else:
        done(odd)


def test_direct_reads_the_tail_of_a_file(mounted: Place) -> None:
    """A file whose end is off the sector grid: the last block is short, and no error."""
    _needs_o_direct(mounted.files)
    mounted.random("f", 3 * 4096 + 777)
    report = done(mounted.fio(rw="read", bs="4k", direct=1, filename="f"))
    assert report.bytes("read") == 3 * 4096


# --- what a mount does in part ---

# A kernel that is asked for half of what it was to do, each third time.
_IN_PART = r"""
#include <liburing.h>

static unsigned int asked;

int io_uring_submit(struct io_uring *ring)
{
    int (*submit)(struct io_uring *) = dlsym(dlopen("liburing.so.2", RTLD_NOW), "io_uring_submit");

    for (unsigned int i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[i & *ring->sq.kring_mask];

        if (sqe->len > 4096 && ++asked % 3 == 0)
            sqe->len /= 2;
    }
    return submit(ring);
}
"""


_NO_RING = r"""
#include <errno.h>
#include <liburing.h>

int io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags)
{
    return -EPERM;
}
"""


def test_a_machine_that_forbids_io_uring(mounted: Place, tmp_path: Path) -> None:
    forbidden = preloaded(mounted.engine, tmp_path, _NO_RING).env
    result = mounted.fio(env=forbidden, rw="write", bs="4k", size="64k", filename="f")
    refused(result, "cannot set up io_uring: Operation not permitted", "io_uring_disabled")


@pytest.mark.parametrize("direct", [0, 1])
def test_a_mount_is_asked_for_the_rest(mounted: Place, tmp_path: Path, direct: int) -> None:
    """Blocks of random content; with direct=1 their buffers are registered."""
    if direct:
        _needs_o_direct(mounted.files)
    part = preloaded(mounted.engine, tmp_path, _IN_PART).env
    job: dict[str, Option] = {
        "bs": "64k", "size": "4m", "iodepth": 8, "direct": direct, "filename": "f",
        "verify": "crc32c",
    }  # fmt: skip
    result = mounted.fio(env=part, rw="write", **job)
    assert figures(done(result)) == {"job": (4 * _MIB, 64, 4 * _MIB, 64)}
    (line,) = result.stats
    assert (line.write_bytes, line.read_bytes) == (4 * _MIB, 4 * _MIB)
    assert min(line.write_ops, line.read_ops) > 64
    # What a whole kernel reads is what was written.
    assert done(mounted.fio(rw="write", verify_only=1, **job)).bytes("read") == 4 * _MIB


def test_a_mounts_file_ends_within_a_block(mounted: Place, tmp_path: Path) -> None:
    """The rest is asked for, and there is none: that is the end, and no more is counted."""
    part = preloaded(mounted.engine, tmp_path, _IN_PART).env
    job: dict[str, Option] = {
        "rw": "write", "bs": "64k", "size": "1m", "filename": "f", "verify": "crc32c",
    }  # fmt: skip
    mounted.fio.well(do_verify=0, **job)
    os.truncate(mounted.files / "f", 640_777)
    result = mounted.fio(env=part, verify_only=1, **job)
    failed_io(result, "beyond the end of file", "read offset=640777, buflen=14583")
    assert result.report is not None
    assert result.report.bytes("read") == 9 * (64 << 10)  # the blocks that are whole
    assert [line.read_bytes for line in result.stats] == [640_777]
