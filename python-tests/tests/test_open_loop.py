# SPDX-License-Identifier: GPL-2.0-only
"""arrival_rate=: fio under a clock of the engine's, whatever the server does.

The clock by itself is in test_arrivals.py. No test here looks at the wall clock: a server's delays
are only ever lower bounds.
"""

import re
import signal
from itertools import pairwise
from pathlib import Path

import pytest
from engine_helpers import Place, catches, done, ends, eventually, said, sections, stderr_of
from scripted_jobs import Options, Run, undisturbed

from nfsmulti.fiorun import ArrivalStats, FioReport, FioResult, Option
from servers.scripted import Answer, Nfs, on

_BLOCKS = 64
_AT_ONCE = 10_000_000  # a second: all of a small job is due within microseconds
_JOB: Options = {
    "rw": "randread", "bs": "4k", "size": f"{4 * _BLOCKS}k", "iodepth": 8, "filename": "f",
    "lat_percentiles": 1, "arrival_rate": 2000,
}  # fmt: skip
_SCRIPTED: Options = {"rw": "read", "filename": "r", "lat_percentiles": 1}  # 16 blocks of 4 KiB
_DUE = re.compile(r"trace: connection .* due (\d+) ns, lag (\d+) ns$", re.MULTILINE)


def _job(**options: Option) -> dict[str, Option]:
    return {**_JOB, **options}


def _clock(result: FioResult) -> tuple[FioReport, ArrivalStats]:
    """Expect success, and a clock whose counts are sound; gives its line."""
    report = done(result)
    (clock,) = result.arrivals
    assert clock.due == clock.sent + clock.dropped
    assert clock.in_time <= clock.sent
    assert f"arrivals: {'' if clock.sustained else 'not '}sustained" in result.messages
    return report, clock


def _dues(result: FioResult, name: str = "") -> list[int]:
    """Return the instants, in order, at which I/O of a job was due, since the clock began."""
    done(result)
    lines = (line for line in result.stderr.splitlines() if f": {name}" in line)
    return sorted(int(one[1]) for line in lines if (one := _DUE.search(line)))


# --- what fio counts ---


@pytest.mark.sanitized
def test_all_is_sent_once_and_latency_is_lag_and_service(place: Place) -> None:
    process, depth = ("fixed", 1) if place.kind == "nfs" else ("poisson", 8)
    job = _job(iodepth=depth, arrival_process=process, nconnect=2, spread="queue")
    result = place.fio(**job, clocksource=None)  # with fio's clock as users have it
    report, clock = _clock(result)
    read = report.jobs[0]["read"]
    assert clock.process == process
    assert clock.sent == read["total_ios"] == _BLOCKS
    assert sum(line.read_ops for line in result.stats) == _BLOCKS
    slat, clat, lat = (read[f"{kind}_ns"] for kind in ("slat", "clat", "lat"))
    assert slat["N"] == clat["N"] == lat["N"] == _BLOCKS
    assert slat["mean"] + clat["mean"] == pytest.approx(lat["mean"], rel=1e-6)
    assert slat["max"] / 1000 == pytest.approx(clock.lag_max_us)
    assert said(result) == []


def test_latency_begins_when_an_io_is_due(job: Run) -> None:
    """At depth 1 each I/O waits for all before it, which are slow; all were due at once."""
    seconds, blocks = 0.02, 16
    slow = on(Nfs.READ, Answer(delay=seconds))
    ran = job(slow, **_SCRIPTED, iodepth=1, arrival_rate=_AT_ONCE)
    report, clock = _clock(ran.result)
    read = report.jobs[0]["read"]
    assert read["clat_ns"]["min"] > seconds * 1e9
    for kind, before in (("slat_ns", blocks - 1), ("lat_ns", blocks)):
        assert read[kind]["max"] > before * seconds * 1e9
    assert clock.depth_used_up == (blocks - 1) / blocks
    assert not clock.sustained
    (line,) = ran.stats
    assert line.lag_max_us == pytest.approx(clock.lag_max_us)
    assert line.wait_max_us < line.lag_max_us


def test_no_reply_is_waited_for(job: Run) -> None:
    """All others are sent before the first is answered; fio's rate_iops would wait for that."""
    ran = job(on(Nfs.READ, Answer(delay=1), nth=1), **_SCRIPTED, arrival_rate=1000)
    undisturbed(ran.result)
    assert _clock(ran.result)[1].sent == 16
    first, *others = ran.calls(Nfs.READ)
    assert first.answered
    assert all(call.time < first.answered for call in others)


def test_replies_are_taken_while_nothing_is_due(job: Run) -> None:
    """One I/O in more than an hour: the other one's reply is not left until then."""
    rare: Options = {"iodepth": 2, "arrival_bw": 1, "bs": "1", "arrival_process": "fixed"}
    assert _clock(job(**_SCRIPTED, **rare, number_ios=1).result)[1].sent == 1


# --- one seed, one schedule ---


def test_seeds_and_job_numbers_decide_the_schedule(mounted: Place) -> None:
    jobs = sections(a=_job(), b=_job(iodepth=1))

    def schedules(seed: int) -> list[list[int]]:
        result = mounted.fio(arguments=jobs, trace=1, randseed=seed)
        return [_dues(result, f"{name}: ") for name in "ab"]

    first, second = schedules(7)
    assert len(first) == len(second) == _BLOCKS
    assert set(first).isdisjoint(second)
    assert [first, second] == schedules(7)
    assert set(first).isdisjoint(schedules(8)[0])


@pytest.mark.parametrize(
    ("rate", "gap"),
    [
        ({"arrival_rate": "1k"}, 1e9 / 1024),  # as in rate_iops
        ({"arrival_rate": None, "arrival_bw": "16m"}, 4096 / (16 << 20) * 1e9),
    ],
)
def test_a_rate_is_of_ios_or_bytes(mounted: Place, rate: Options, gap: float) -> None:
    dues = _dues(mounted.fio(**{**_job(arrival_process="fixed", trace=1), **rate}))
    assert len(dues) == _BLOCKS
    assert all(b - a == pytest.approx(gap, abs=1) for a, b in pairwise(dues))


# --- how it ends ---


@pytest.mark.sanitized
def test_overload_ends_with_the_runtime_and_is_told(mounted: Place) -> None:
    result = mounted.fio(**_job(arrival_rate=_AT_ONCE, runtime=1, time_based=1))
    report, clock = _clock(result)
    assert not clock.sustained
    assert clock.dropped > 0
    assert clock.sent == report.operations("read") == sum(line.read_ops for line in result.stats)
    assert clock.lag_end_us >= clock.lag_p99_us
    assert clock.depth_used_up > 0.9


def test_the_runtime_ends_a_wait(mounted: Place) -> None:
    """The first I/O is due in an hour."""
    result = mounted.fio(**_job(arrival_rate=None, arrival_bw=1, runtime=1, time_based=1))
    _, clock = _clock(result)
    assert (clock.due, clock.sent) == (0, 0)


@pytest.mark.parametrize("thread", [0, 1])
def test_a_signal_ends_a_wait(mounted: Place, thread: int) -> None:
    job = _job(arrival_rate=None, arrival_bw=1, thread=thread, lat_percentiles=0)
    with mounted.fio.start(**job) as process:
        eventually(lambda: catches(process.pid, signal.SIGINT))
        eventually(lambda: "without lat_percentiles=1" in stderr_of(process))  # it has begun
        process.signal(signal.SIGINT)
        ends(process)


@pytest.mark.parametrize(
    ("limit", "operations"),
    [({"number_ios": 11}, 11), ({"io_size": "40k"}, 10), ({"loops": 2, "number_ios": 11}, 22)],
)
def test_what_ends_a_job(mounted: Place, limit: Options, operations: int) -> None:
    """Its schedule ends with it: nothing was to follow, though all is late."""
    report, clock = _clock(mounted.fio(**_job(arrival_rate=_AT_ONCE), **limit))
    assert clock.sent == report.operations("read") == operations
    assert (clock.due, clock.in_time, clock.dropped) == (operations, operations, 0)
    assert clock.offered > clock.achieved


def test_a_ramp_is_in_no_figure(mounted: Place) -> None:
    """But for what was under way at its end, or late, which fio counts."""
    result = mounted.fio(**_job(arrival_rate=500, ramp_time=1, runtime=1, time_based=1))
    report, clock = _clock(result)
    assert clock.offered == pytest.approx(500, rel=0.2)
    assert clock.sent - 8 <= report.operations("read")
    assert clock.sent < sum(line.read_ops for line in result.stats)


# --- what else fio does ---


_SCHEDULED: dict[str, Options] = {
    "syncs are sent at once": {"rw": "randwrite", "fsync": 4, "end_fsync": 1},
    "reads that verify are not scheduled": {"rw": "randwrite", "verify": "crc32c"},
    "both directions and several files": {
        "rw": "randrw", "bsrange": "512-16k", "filename": "a:b:c", "size": "768k",
        "spread": "roundrobin",
    },
}  # fmt: skip


@pytest.mark.sanitized
@pytest.mark.parametrize("name", _SCHEDULED)
def test_what_is_scheduled(exported: Place, name: str) -> None:
    job = _job(**_SCHEDULED[name])
    result = exported.fio(**job)
    report, clock = _clock(result)
    reads, writes = report.operations("read"), report.operations("write")
    assert clock.sent == (reads + writes if job["rw"] == "randrw" else writes) >= _BLOCKS
    if "fsync" in job:
        assert report.jobs[0]["sync"]["total_ios"] >= _BLOCKS // 4
    if "verify" in job:
        assert sum(line.read_ops for line in result.stats) == _BLOCKS


@pytest.mark.sanitized
def test_metadata_operations(export: Place) -> None:
    """They begin when they are due, too: each waits for all before it."""
    tree: Options = {"metadata": 1, "bs": 1, "size": 200, "filename": "tree", "dir_entries": 50}
    export.fio.well(**tree, rw="write", iodepth=16)
    result = export.fio(**{**_JOB, **tree, "iodepth": 1, "arrival_rate": _AT_ONCE})
    report, clock = _clock(result)
    (line,) = result.operations
    assert clock.sent == line.ops == report.operations("read") == 200
    lat = report.jobs[0]["read"]["lat_ns"]["mean"]
    assert line.mean_us * 1000 == pytest.approx(lat, rel=0.1)


# --- what is said ---


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lat_percentiles": 0}, "without lat_percentiles=1"),
        ({"write_lat_log": "log"}, "log_entries=1048576"),
    ],
)
def test_what_good_figures_lack_is_said_once(
    mounted: Place, tmp_path: Path, options: Options, words: str
) -> None:
    if "write_lat_log" in options:
        options = {"write_lat_log": str(tmp_path / "log")}
    result = mounted.fio.well(**{**_JOB, **options}, numjobs=2)
    (line,) = said(result)
    assert words in line
