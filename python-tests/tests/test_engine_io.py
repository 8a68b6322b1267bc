# SPDX-License-Identifier: GPL-2.0-only
"""Reads and writes: verified data, depths, rates, times and memory; the stats file and the trace.

Modes and block sizes are in test_engine_files.py, where psync gives the figures to expect; what
rsize= and wsize= do, and data that fails its verification, in test_replies.py.
"""

import contextlib
import dataclasses
import errno
import json
import os
import re
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine_c import CData, ffi, zeros
from engine_helpers import (
    Place,
    Traced,
    done,
    ends,
    eventually,
    failed_io,
    family,
    figures,
    job_of,
    refused,
    said,
    sections,
    sleeps,
    traces,
)
from scripted_jobs import Options, Run, go, preloaded, undisturbed

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import FioProcess, FioResult, OperationStats, Option, PathStats
from nfsmulti.paths import ROOT
from servers.scripted import Answer, Nfs, Nfs4, Procedure, ScriptedServer, Status, Terms, on

_MIB = 1 << 20


# --- calls smaller than blocks ---


def test_more_calls_than_slots_wait_their_turn(exported: Place) -> None:
    """32 blocks of 1 MiB in calls of 1 KiB are 32768 calls at once: more than 8192 slots."""
    job: dict[str, Option] = {"rw": "write", "bs": "1m", "size": "32m", "filename": "f"}
    job |= {"fsync": 16, "spread": "roundrobin", "verify": "crc32c", "verify_interval": "64k"}
    result = exported.fio.well(iodepth=32, rsize="64k", wsize="1k", **job)
    assert sum(line.write_ops for line in result.stats) == 32768
    assert exported.sizes() == {"f": 32 * _MIB}


# --- data ---


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


def test_a_log_takes_its_time(v3_or_mount: Place, tmp_path: Path) -> None:
    """Ten reads in 0.5 s; at its end fio leaves I/O in flight, and closes and removes files."""
    steps = [step for at in range(1, 11) for step in (at * 50_000, f"{'fg'[at % 2]} read 0 4096")]
    add: list[str | int] = ["f add", "g add", 1, "f open", "g open"]
    for name in "fg":
        v3_or_mount.random(name, 4096)
    log = _log(tmp_path, *add, *steps, "f close", "g close")
    result = v3_or_mount.fio(iodepth=64 if v3_or_mount.kind == "nfs" else 1, unlink=1, **log)
    (job,) = done(result).jobs
    assert job["job_runtime"] >= 450
    assert sum(line.read_ops for line in result.stats) == 10
    assert v3_or_mount.names() == []


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


# --- the stats file and the trace ---

_READ: dict[str, Option] = {"rw": "read", "bs": "16k", "size": "64k", "filename": "f"}
_TEXTS = ["job", "path", "local", "remote", "transport"]
_NUMBERS = [
    "job_number", "connection", "read_ops", "read_bytes", "write_ops", "write_bytes", "commits",
    "meta_ops", "lookups", "rewritten_bytes", "syscalls", "bytes_sent", "bytes_received",
    "discarded_bytes", "sends", "receives", "retransmissions", "reconnects", "reissues",
    "stale_replies", "errors",
]  # fmt: skip
_OF_LATENCIES = ["mean", "p50", "p95", "p99", "p99_9", "p99_99", "max"]
_TIMES = [f"{span}_{figure}_us" for span in ("wait", "rtt") for figure in _OF_LATENCIES]


def _lines(result: FioResult) -> list[dict[str, Any]]:
    """Read the stats file line by line: JSON objects, each on its own."""
    text = (result.folder / "stats.jsonl").read_text()
    assert text.endswith("}\n")
    lines = [json.loads(line) for line in text.splitlines()]
    return [line for line in lines if line.get("kind") != "message"]


_LOSES: dict[str, Option] = {"rw": "write", "fsync": 4, "bs": "4k", "size": "64k"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "1 connection on 1 path: "),
        ({"arrival_rate": 10_000, "trace": 1}, "arrivals: "),
        ({"arrival_rate": 10_000}, "arrival_rate without lat_percentiles=1"),
        (_LOSES, 'bytes of "f" may be lost: '),
    ],
)
def test_what_people_are_told_programs_are_too(
    job: Run, options: dict[str, Option], words: str
) -> None:
    """A JSON for programs has no lines of the engine, and none reach fio's client with one."""
    restarts = on(Nfs.COMMIT, Answer(verifier=b"restarts"), nth=1)
    there = {"f": bytes(65536)}
    result = job(restarts, **{"rw": "read", **options}, files=there, error=None).result
    told = re.findall(r"^nfsmulti: job: (?!trace: )(.*)$", result.messages, re.MULTILINE)
    lines = [json.loads(line) for line in (result.folder / "stats.jsonl").open()]
    messages = [line for line in lines if line.get("kind") == "message"]
    assert [line["text"] for line in messages] == told
    assert any(words in line for line in told)
    assert {(line["job"], line["job_number"]) for line in messages} == {("job", 0)}


def test_every_key_is_there_with_its_type(place: Place) -> None:
    result = place.fio.well(
        rw="randrw", bs="16k", size="1m", filename="f", spread="queue", nconnect=2
    )
    lines = _lines(result)
    assert len(lines) == 8
    security = (None, None) if place.kind == "mount" else ("sys", "none")
    for line in lines:
        assert (line.pop("sec", None), line.pop("xprtsec", None)) == security
        assert set(line) == {*_TEXTS, *_NUMBERS, *_TIMES}
        assert 0 < line["rtt_mean_us"] <= line["rtt_max_us"]
        assert all(isinstance(line[key], str) and line[key] for key in _TEXTS)
        assert all(type(line[key]) is int for key in _NUMBERS)
        assert all(isinstance(line[key], float) for key in _TIMES)


def test_documents_name_every_key() -> None:
    """docs/reports.md tells what is in the file."""
    text = (ROOT / "docs/reports.md").read_text()
    of_operations = [field.name for field in dataclasses.fields(OperationStats)]
    keys = [*_TEXTS, *_NUMBERS, *_TIMES, *of_operations]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_a_paths_counters_are_its_connections_sums(testlib: CData) -> None:
    total, one = zeros("counters"), zeros("counters")
    members = ffi.typeof("struct counters").fields
    numbers = [name for name, member in members if member.type.kind == "primitive"]
    for value, name in enumerate(numbers, start=1):
        setattr(one, name, value)
    for _ in range(2):
        testlib.counters_add(total, one)
    expected = {name: 2 * value for value, name in enumerate(numbers, start=1)}
    assert {name: getattr(total, name) for name in numbers} == expected


def test_a_live_file_is_replaced_while_the_job_runs(mounted: Place, tmp_path: Path) -> None:
    live = tmp_path / "live"
    job: dict[str, Option] = {
        **_READ, "nconnect": 2, "numjobs": 2, "thread": 1, "live_file": str(live),
    }  # fmt: skip
    files = [Path(f"{live}.{number}") for number in range(2)]

    def reads() -> list[int]:
        found = []
        for file in files:
            with contextlib.suppress(HarnessError):  # it is being written
                found += [line.read_ops for line in PathStats.read(file)]
        return found

    with mounted.fio.start(**job, time_based=1, runtime=600) as process:
        eventually(lambda: len(reads()) == 2)
        first = sum(reads())
        eventually(lambda: len(found := reads()) == 2 and sum(found) > first)
        process.end(10)


def test_a_live_file_that_cannot_be_written_is_said_once(mounted: Place) -> None:
    result = mounted.fio.well(
        rw="read", bs="4k", size="64k", time_based=1, runtime=2, live_file="/none/live"
    )
    assert result.messages.count("cannot write live_file=/none/live: No such file") == 1


def test_bytes_on_the_wire(exported: Place) -> None:
    """A little more than the data: a header for each call and for each reply."""
    result = exported.fio.well(rw="randrw", bs="64k", size="4m", filename="f", spread="roundrobin")
    for line in result.stats:
        calls = line.read_ops + line.write_ops + line.commits
        assert 80 * calls < line.bytes_sent - line.write_bytes < 300 * calls
        assert 80 * calls < line.bytes_received - line.read_bytes < 300 * calls
        assert calls < line.syscalls < 10 * calls
        assert 0 < line.sends <= calls
        assert 0 < line.receives <= line.syscalls - line.sends


def test_a_round_trip_begins_with_the_last_sending(job: Run) -> None:
    """The first copy is lost, and sent again after 1 s: the server has not had the call before."""
    lost = on(Nfs.WRITE, Answer(act=False, reply=False), nth=1)
    ran = job(lost, on(Nfs.WRITE, Answer(delay=0.3), nth=2), timeo=10, iodepth=1)
    (line,) = ran.stats
    first, again, *_ = ran.calls(Nfs.WRITE)
    assert (again.xid, line.retransmissions) == (first.xid, 1)
    assert again.answered is not None
    assert 0.29 < line.rtt_max_us / 1e6 < again.answered - first.time - 0.5
    assert line.rtt_mean_us < line.rtt_max_us


def test_a_wait_ends_with_the_first_sending(job: Run) -> None:
    """What the server puts off three times is another call each time, and no longer waits."""
    puts_off = on(Nfs.WRITE, Answer(act=False, status=Status.JUKEBOX), first=3)
    ran = job(puts_off, iodepth=1)
    (line,) = ran.stats
    first, *_, last = ran.calls(Nfs.WRITE)[:4]
    assert first.offset == last.offset
    assert line.wait_max_us / 1e6 < (last.time - first.time) / 2


def test_waiting_for_a_slot_is_told_apart(job: Run) -> None:
    """NFSv4.1 with one slot: what the server is asked next waits in the job."""
    seconds, blocks = 0.02, 16
    slow = on(Nfs4.READ, Answer(delay=seconds))
    reads: dict[str, Any] = {"version": 4, "rw": "read", "iodepth": blocks}
    (line,) = job(slow, terms=partial(Terms, slots=1), **reads).stats
    assert line.rtt_p50_us > seconds * 1e6
    assert line.wait_max_us > (blocks - 1) * seconds * 1e6
    assert line.rtt_mean_us < line.wait_mean_us
    (line,) = job(slow, **reads).stats
    assert line.wait_p50_us < line.rtt_p50_us  # a busy machine may keep back single ones


def test_what_is_never_sent_has_waited_to_its_end(job: Run) -> None:
    """There is no connection, and `soft` ends it. The server has 2 s to read what comes before."""
    gone = on(Nfs.READ, Answer(reply=False, do=go), after=4)
    soft: dict[str, Option] = {"soft": 1, "timeo": 5, "retrans": 0, "rw": "read", "size": "128k"}
    files = {"f": bytes(128 << 10)}
    ran = job(gone, **soft, ignore_error=errno.ETIMEDOUT, files=files, error=None)
    (line,) = ran.stats
    assert line.errors > len(ran.calls(Nfs.READ)) - line.read_ops
    assert line.wait_max_us > 500_000


def test_stats_file_that_cannot_be_written(mounted: Place, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing" / "stats")
    result = mounted.fio(**_READ, stats_file=missing)
    (line,) = said(result)
    assert f"cannot write stats_file={missing}: No such file or directory" in line


def test_trace_has_a_line_for_each_operation(place: Place) -> None:
    job: dict[str, Option] = {"rw": "randrw", "bs": "16k", "size": "1m", "filename": "d/f"}
    stripes: dict[str, Option] = {"spread": "stripe", "stripe_size": "8k"}
    result = place.fio.well(iodepth=8, fsync=8, trace=1, **job, **stripes)
    calls = Traced.read(result.stderr)
    seen = Counter((call.connection, call.operation) for call in calls)
    for line in result.stats:
        assert seen[line.connection, "READ"] == line.read_ops
        assert seen[line.connection, "WRITE"] == line.write_ops
        assert seen[line.connection, "COMMIT"] == line.commits
    assert {call.path for call in calls} <= set(place.labels)
    assert {call.file for call in calls} == {"d/f"}
    assert all(call.done == call.length for call in calls if call.operation != "COMMIT")


def test_a_mounts_addresses_and_a_trace_by_the_environment(mounted: Place) -> None:
    result = mounted.fio(**_READ, env={"IOTRAP_TRACE": "1"})
    (line,) = result.stats
    path = mounted.paths[0]
    assert (line.path, line.local, line.remote, line.transport) == (path, "-", path, "mount")
    assert len(Traced.read(result.stderr)) == 4
    assert Traced.read(mounted.fio(**_READ).stderr) == []


def test_errors_are_counted_and_traced(exported: Place) -> None:
    exported.random("f", 65536)
    pool = exported.pool.replace("/export?", "/ro?")
    result = exported.fio(pool=pool, rw="write", bs="16k", filename="f", trace=1)
    failed_io(result, "NFS3ERR_ROFS")
    (call,) = Traced.read(result.stderr)
    assert (call.operation, call.done, call.error) == ("WRITE", 0, "Read-only file system")
    (line,) = result.stats
    assert (line.errors, line.write_ops) == (1, 0)
