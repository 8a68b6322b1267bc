# SPDX-License-Identifier: GPL-2.0-only
"""What a job says, to people and to programs; fio's own modes around the engine, and its ABI.

Logs are replayed in test_engine_io.py; jobs on servers of several hosts are in test_hosts.py.
"""

import contextlib
import dataclasses
import errno
import json
import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine_c import CData, ffi, zeros
from engine_helpers import Place, Traced, complaints, eventually, in_memory
from scripted_jobs import Run, go

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import OperationStats, Option, PathStats
from nfsmulti.paths import ROOT
from nfsmulti.processes import run
from servers.scripted import Answer, Nfs, Nfs4, Status, Terms, on

_JOB = ["--name=job", "--rw=read", "--bs=16k", "--size=1m", "--filename=f"]


# --- what fio shows ---


def test_the_library_exports_one_symbol_and_needs_nothing_that_is_not_there(mounted: Place) -> None:
    mounted.fio.well(rw="read", bs="16k", size="64k", filename="f", env={"LD_BIND_NOW": "1"})
    completed = run(["nm", "-D", "--defined-only", str(mounted.program.engine.library)], timeout=60)
    names = [line.split()[2] for line in completed.check().stdout.splitlines()]
    assert [name for name in names if not name.startswith("__")] == ["get_ioengine"]


_SUMMARY = re.compile(
    r"nfsmulti: job: 4 connections on 4 paths: 64 reads, 0 writes, 0 commits,"
    r" 0 retransmissions, 0 reconnects, 0 errors\n"
)


def test_summary_lines(mounted: Place, tmp_path: Path) -> None:
    """One for each job: in fio's own text, or on standard error where that is for programs.

    In an output file too, where fio has begun and not yet told its figures: of processes and
    threads, where --output comes last, where jobs prepare their files themselves. What fio's client
    shows is in test_engine_leaks.py.
    """
    output = tmp_path / "out"
    to, words = f"--output={output}", [f"--ioengine={mounted.program.engine.option}", *_JOB]
    words += [f"--pool={mounted.pool}", "--spread=queue"]
    for more, stdout, stderr in (([], 1, 0), (["--output-format=json"], 0, 1)):
        said = mounted.raw(*more, *words)
        assert len(_SUMMARY.findall(said.stdout)) == stdout
        assert len(_SUMMARY.findall(said.stderr)) == stderr
    words.append("--numjobs=3")
    for row in ([*words, to], [to, *words, "--create_serialize=0"], [to, *words, "--thread=1"]):
        completed = mounted.raw(*row)
        assert completed.status == 0, completed.stderr
        before, _, text = output.read_text().partition("Starting 3 ")
        begun, _, told = text.partition("(groupid=0")
        assert [len(_SUMMARY.findall(part)) for part in (before, begun, told)] == [0, 3, 0]
        assert _SUMMARY.search(completed.stdout + completed.stderr) is None


# --- another fio ---


@pytest.mark.parametrize("what", ["version", "option", "offset"])
def test_an_engine_built_for_another_fio_is_refused(
    mounted: Place, tmp_path: Path, what: str
) -> None:
    """A copy of the library that expects another version, or another table of options."""
    version = run(["fio", "--version"], timeout=60).check().stdout.strip()
    earlier = version[:-1] + ("0" if version[-1] != "0" else "1")
    ours, other, told = {
        "version": (version, earlier, f"built for {earlier}, but this is {version}"),
        "option": ("log_prio", "log_pri0", "it has no option 'log_pri0'"),
        "offset": ("log_prio", "filename", "its option 'filename' is at offset "),
    }[what]
    library = tmp_path / "other.so"
    content = mounted.program.engine.library.read_bytes()
    assert ours.encode() + b"\0" in content
    library.write_bytes(content.replace(ours.encode() + b"\0", other.encode() + b"\0"))
    words = [f"--ioengine=external:{library}", f"--pool={mounted.pool}", *_JOB]
    completed = mounted.raw(*words)
    assert completed.status == 1
    (line,) = complaints(completed.stdout + completed.stderr)
    assert told in line
    assert "rebuild it: cmake " in line
    assert mounted.names() == []


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


def test_what_people_are_told_programs_are_too(job: Run) -> None:
    """A JSON for programs has no lines of the engine, and none reach fio's client with one."""
    rows: dict[str, dict[str, Option]] = {
        "1 connection on 1 path: ": {},
        "arrivals: ": {"arrival_rate": 10_000, "trace": 1},
        "arrival_rate without lat_percentiles=1": {"arrival_rate": 10_000},
        'bytes of "f" may be lost: ': {"rw": "write", "fsync": 4, "bs": "4k", "size": "64k"},
        "meta_mix: beside the job's entries": {
            "metadata": 1, "meta_mix": "create:1", "rw": "randwrite", "bs": 1, "size": 9,
            "filename": "d",
        },
    }  # fmt: skip
    restarts = on(Nfs.COMMIT, Answer(verifier=b"restarts"), nth=1)
    for words, options in rows.items():
        there = {"f": bytes(65536)}
        result = job(restarts, **{"rw": "read", **options}, files=there, error=None).result
        said = r"^nfsmulti: job: (?!trace: |entries of )(.*)$"
        told = re.findall(said, result.messages, re.MULTILINE)
        lines = [json.loads(line) for line in (result.folder / "stats.jsonl").open()]
        messages = [line for line in lines if line.get("kind") == "message"]
        assert [line["text"] for line in messages] == told
        assert any(words in line for line in told)
        assert {(line["job"], line["job_number"]) for line in messages} == {("job", 0)}


def test_every_key_is_there_with_its_type(place: Place) -> None:
    result = place.fio.well(
        rw="randrw", bs="16k", size="2m", filename="f", spread="roundrobin", nconnect=2
    )
    text = (result.folder / "stats.jsonl").read_text()
    assert text.endswith("}\n")
    lines = [line for line in map(json.loads, text.splitlines()) if line.get("kind") != "message"]
    assert len(lines) == 8
    security = (None, None) if place.kind == "mount" else ("sys", "none")
    for line in lines:
        assert (line.pop("sec", None), line.pop("xprtsec", None)) == security
        assert set(line) == {*_TEXTS, *_NUMBERS, *_TIMES}
        assert 0 < line["rtt_mean_us"] <= line["rtt_max_us"]
        assert all(isinstance(line[key], str) and line[key] for key in _TEXTS)
        assert all(type(line[key]) is int for key in _NUMBERS)
        assert all(isinstance(line[key], float) for key in _TIMES)
    for told in result.stats if place.kind == "nfs" else []:
        # A little more than the data: a header for each call and for each reply.
        calls = told.read_ops + told.write_ops + told.commits
        assert 80 * calls < told.bytes_sent - told.write_bytes < 300 * calls
        assert 80 * calls < told.bytes_received - told.read_bytes < 300 * calls
        assert calls < told.syscalls < 10 * calls
        assert 0 < told.sends <= calls
        assert 0 < told.receives <= told.syscalls - told.sends
    assert Traced.read(result.stderr) == []


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


def test_a_file_that_cannot_be_written_is_said_once(mounted: Place) -> None:
    files: dict[str, Option] = {"stats_file": "/none/here", "live_file": "/none/there"}
    result = mounted.fio(**_READ, **files, time_based=1, runtime=2)
    for option, file in files.items():
        words = f"cannot write {option}={file}: No such file or directory"
        assert result.messages.count(words) == 1


@pytest.mark.usefixtures("lab")  # or a skip: it mounts
def test_a_file_that_is_written_in_part_is_said(mounted: Place) -> None:
    """The disk has room for six bytes more of it."""
    stats = mounted.files / "stats"
    with in_memory(mounted, "16k") as place:
        place.write("f", bytes(4096))
        place.write("stats", bytes(3 * 4096 - 6))
        result = place.fio(rw="read", bs="4k", filename="f", stats_file=str(stats))
    words = f"cannot write stats_file={stats}: No space left on device"
    assert result.messages.count(words) == 1


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


def test_trace_has_a_line_for_each_operation(place: Place) -> None:
    """By the environment as well; of a mount, whose addresses are no hosts'."""
    by: dict[str, Any] = {"trace": 1}
    if place.kind == "mount":
        by = {"env": {"IOTRAP_TRACE": "1"}}
    job: dict[str, Option] = {"rw": "randrw", "bs": "16k", "size": "1m", "filename": "d/f"}
    stripes: dict[str, Option] = {"spread": "stripe", "stripe_size": "8k"}
    result = place.fio.well(iodepth=8, fsync=8, **by, **job, **stripes)
    calls = Traced.read(result.stderr)
    seen = Counter((call.connection, call.operation) for call in calls)
    for line in result.stats:
        assert seen[line.connection, "READ"] == line.read_ops
        assert seen[line.connection, "WRITE"] == line.write_ops
        assert seen[line.connection, "COMMIT"] == line.commits
        mount = ("-", line.path, "mount")
        assert ((line.local, line.remote, line.transport) == mount) == (place.kind == "mount")
    assert {call.path for call in calls} <= set(place.labels)
    assert {call.file for call in calls} == {"d/f"}
    assert all(call.done == call.length for call in calls if call.operation != "COMMIT")
