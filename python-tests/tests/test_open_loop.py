# SPDX-License-Identifier: GPL-2.0-only
"""arrival_rate=: the arrival clock by itself, and fio under it, whatever the server does.

The clock is an argument, in nanoseconds. No test here looks at the wall clock: a server's delays
are only ever lower bounds.
"""

import heapq
import re
import signal
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from engine_c import CData, ffi, text, zeros
from engine_helpers import Place, catches, done, ends, eventually, said, sections, stderr_of
from scripted_jobs import Options, Run, undisturbed

from nfsmulti.fiorun import ArrivalStats, FioReport, FioResult, Option
from servers.scripted import Answer, Nfs, on

pytestmark = pytest.mark.sanitized

_SEC = 10**9


class Clock:
    """An arrival clock whose first schedule begins at `now`."""

    def __init__(
        self,
        lib: CData,
        rate: float = 1000,
        *,
        fixed: bool = False,
        by_bytes: bool = False,
        seed: int = 1,
        now: int = 0,
        first: int = 4096,
    ):
        self._lib, self.state = lib, zeros("arrivals")
        terms = ffi.new("struct arrivals_terms *", [rate, by_bytes, fixed, seed])
        lib.arrivals_init(self.state, terms)
        self.call("begin", now, first)

    def call(self, name: str, *values: int) -> int:
        return int(getattr(self._lib, f"arrivals_{name}")(self.state, *values) or 0)

    def end(self, *, cut: bool = True) -> None:
        """End the schedule where it was last looked at, or with its last arrival."""
        self.call("end", cut)

    def take(self, count: int, size: int = 4096) -> list[int]:
        return [self.call("take", size) for _ in range(count)]

    def serve(self, count: int, lag: int = 0) -> None:
        """Take arrivals that are sent `lag` after they were due, and complete."""
        for due in self.take(count):
            self.call("sent", due, due + lag)
            self.call("finished", due, due + lag)


# --- the schedule ---


@pytest.mark.parametrize("fixed", [False, True])
def test_one_seed_one_schedule(testlib: CData, fixed: bool) -> None:
    first, again, other = (
        Clock(testlib, fixed=fixed, seed=seed, now=5 * _SEC).take(1000) for seed in (1, 1, 2)
    )
    assert first == again
    assert set(first).isdisjoint(other)
    assert first == sorted(first)
    assert first[0] > 5 * _SEC


def test_when_the_clock_is_looked_at_changes_nothing(testlib: CData) -> None:
    late = Clock(testlib)
    late.call("look", 100 * _SEC)
    late.call("freed", 100 * _SEC)
    assert late.take(100) == Clock(testlib).take(100)


def test_poisson_gaps_are_exponential(testlib: CData) -> None:
    """By their distribution, and without a memory: neighbours tell nothing of each other."""
    from scipy import stats  # takes a second to load

    gaps = [b - a for a, b in pairwise(Clock(testlib, 2000).take(100_000))]
    assert stats.kstest(gaps, "expon", args=(0, _SEC / 2000)).pvalue > 0.01
    assert abs(stats.pearsonr(gaps[1:], gaps[:-1])[0]) < 0.01


def test_fixed_gaps_are_equal_and_jobs_not_in_step(testlib: CData) -> None:
    from scipy import stats  # takes a second to load

    clocks = [Clock(testlib, 1000, fixed=True, seed=seed) for seed in range(200)]
    phases = [clock.take(1)[0] for clock in clocks]
    assert stats.kstest(phases, "uniform", args=(0, _SEC / 1000)).pvalue > 0.01
    instants = clocks[0].take(1000)
    assert {b - a for a, b in pairwise(instants)} == {_SEC // 1000}


def test_roundings_do_not_add_up(testlib: CData) -> None:
    """A third of a second is no whole number of nanoseconds."""
    instants = Clock(testlib, 3, fixed=True).take(300_001)
    assert abs(instants[-1] - instants[0] - 100_000 * _SEC) <= 1


def test_the_gap_after_an_io_follows_its_length(testlib: CData) -> None:
    clock = Clock(testlib, 1_000_000, fixed=True, by_bytes=True, first=1000)
    first = clock.take(1, 1000)[0]
    assert first <= 1000 * 1000
    second, third = clock.take(1, 64_000)[0], clock.take(1)[0]
    assert (second - first, third - second) == (1000 * 1000, 64_000 * 1000)


def test_a_new_schedule_begins_one_gap_later(testlib: CData) -> None:
    clock = Clock(testlib, 1000, fixed=True)
    clock.serve(10)
    clock.call("begin", 100 * _SEC, 4096)
    assert 100 * _SEC < clock.take(1)[0] <= 100 * _SEC + _SEC // 1000


def test_what_is_left(testlib: CData) -> None:
    clock = Clock(testlib)
    due = clock.state.due
    assert [clock.call("left", now) for now in (0, due - 1, due, due + 5)] == [due, 1, 0, 0]


# --- what became of it ---


def test_what_was_due_and_not_sent_is_dropped(testlib: CData) -> None:
    clock = Clock(testlib, 1000, fixed=True)
    clock.serve(100)
    assert clock.state.due < _SEC // 5
    clock.call("look", clock.state.due - 1)
    clock.end()
    assert (clock.state.dropped, clock.state.late, clock.call("due")) == (0, 0, 100)
    behind = Clock(testlib, 1000, fixed=True)
    behind.serve(100)
    behind.call("look", behind.state.due + 899 * _SEC // 1000)
    behind.end()
    assert (behind.state.dropped, behind.call("due")) == (900, 1000)
    assert behind.state.late == 899 * _SEC // 1000
    assert behind.state.span == behind.state.seen


def test_a_backlog_of_bytes_is_counted_by_the_mean_length(testlib: CData) -> None:
    clock = Clock(testlib, 1_000_000, fixed=True, by_bytes=True)
    for size in (1000, 3000):
        clock.take(1, size)
    clock.call("look", clock.state.due + _SEC)
    clock.end()
    assert clock.state.dropped == 1 + 500


def test_lags_and_the_depth(testlib: CData) -> None:
    """An arrival found the depth used up that was due before that had room again."""
    clock = Clock(testlib, 1000, fixed=True)
    first, second, third = clock.take(3)
    clock.call("sent", first, first + 7)
    assert clock.state.crowded == 0
    clock.call("freed", second)
    clock.call("sent", second, second + 9)
    clock.call("sent", third, third)
    assert clock.state.crowded == 1
    assert (clock.state.lag.count, clock.state.lag.sum, clock.state.lag.max) == (3, 16, 9)


_SECOND = 1000  # arrivals, unless a case has another rate


@dataclass(frozen=True)
class _Server:
    """A server of the tests: `at_once` calls at a time, each in so many seconds, with stalls."""

    takes: float
    at_once: int = 1
    depth: int = 10**9  # the client's
    stalls: tuple[tuple[float, float], ...] = ()  # from and until, in seconds

    def run(self, clock: Clock, seconds: float = 1e9, count: float = 1e9) -> None:
        """Serve what is due until the runtime ends, or so many."""
        zero, done = clock.state.begun, list[int]()
        busy: list[int] = [zero] * self.at_once  # until when, each
        end = int(zero + seconds * _SEC)
        while len(done) < count:
            sent = max(clock.state.due, done[-self.depth] if len(done) >= self.depth else 0)
            if sent > end:
                break
            (due,) = clock.take(1)
            begun = max(sent, heapq.heappop(busy))
            for first, last in self.stalls:
                if zero + first * _SEC <= begun < zero + last * _SEC:
                    begun = int(zero + last * _SEC)
            heapq.heappush(busy, begun + int(self.takes * _SEC))
            done.append(begun + int(self.takes * _SEC))
            clock.call("sent", due, sent)
            clock.call("finished", due, done[-1])
        clock.call("look", end if seconds < 1e9 else clock.state.last)
        clock.end(cut=seconds < 1e9)


# The server, the rate, how long the job is, and whether the rate was sustained.
_LOADS: dict[str, tuple[_Server, float, dict[str, float], bool]] = {
    "slow": (_Server(0.2, 1000, 64), 100, {"seconds": 10}, True),
    "slow, and short": (_Server(0.2, 1000, 64), 100, {"seconds": 0.5}, True),
    "slow, one a second": (_Server(0.2, 1000, 64), 1, {"seconds": 10}, True),
    "slow, and too little depth": (_Server(0.2, 1000, 8), 100, {"seconds": 10}, False),
    "busy": (_Server(0.0008), _SECOND, {"seconds": 20}, True),
    "at 1.2 times": (_Server(0.0012), _SECOND, {"seconds": 20}, False),
    "at 1.2 times, 1 s": (_Server(0.0012), _SECOND, {"seconds": 1}, False),
    "at 1.2 times, depth 1": (_Server(0.0012, depth=1), _SECOND, {"seconds": 20}, False),
    "at 1.1 times": (_Server(0.0011), _SECOND, {"seconds": 20}, False),
    "at 100 times": (_Server(0.1, depth=8), _SECOND, {"seconds": 20}, False),
    "far too much": (_Server(0.5, depth=1), 1_000_000, {"seconds": 2}, False),
    "a stall": (_Server(0.0002, stalls=((9, 9.5),)), _SECOND, {"seconds": 20}, True),
    "a stall at the end": (_Server(0.0002, stalls=((19.5, 20.2),)), _SECOND, {"seconds": 20}, True),
    "a stall, and depth 1": (
        _Server(0.0002, depth=1, stalls=((19.5, 20.2),)), _SECOND, {"seconds": 20}, True,
    ),
    "stalls": (
        _Server(0.0002, depth=32, stalls=tuple((at, at + 0.5) for at in range(2, 60, 5))),
        2000, {"seconds": 20}, True,
    ),
    "silent from the middle": (
        _Server(0.0002, depth=1, stalls=((10, 25),)), _SECOND, {"seconds": 20}, False,
    ),
    "so many": (_Server(0.0002), _SECOND, {"count": 5000}, True),
    "so many, slow": (_Server(0.2, 1000, 64), 100, {"count": 500}, True),
    "so many, at 1.2 times": (_Server(0.0012), _SECOND, {"count": 5000}, False),
    "all at once": (_Server(0.02, depth=1), 10_000_000, {"count": 16}, False),
    "one": (_Server(0.02), _SECOND, {"count": 1}, True),
    "none": (_Server(0.02), 0.001, {"seconds": 1}, True),
}  # fmt: skip


@pytest.mark.parametrize("case", _LOADS)
def test_a_rate_is_sustained_where_responses_do_not_grow(testlib: CData, case: str) -> None:
    server, rate, length, held = _LOADS[case]
    for seed, fixed in ((1, False), (2, True)):
        clock = Clock(testlib, rate, fixed=fixed, seed=seed, now=1000 * _SEC)
        server.run(clock, **length)
        assert clock.call("sustained") == held
        if "count" in length:
            assert clock.state.dropped == clock.state.late == 0


def _grow(clock: Clock, count: int) -> None:
    """Serve arrivals each of which is sent 0.2 ms later than the one before."""
    for number, due in enumerate(clock.take(count)):
        clock.call("sent", due, due + number * 200_000)
        clock.call("finished", due, due + number * 200_000)


def test_each_loop_counts(testlib: CData) -> None:
    """What grows in each and begins anew with the next has grown, also where the last is even."""
    clock = Clock(testlib, 1000, fixed=True)
    for start in (100, 200, 300, 400):
        _grow(clock, 500)
        clock.call("begin", start * _SEC, 4096)
    clock.serve(500)
    clock.end(cut=False)
    assert not clock.call("sustained")


def test_each_loop_begins_anew(testlib: CData) -> None:
    """A loop whose responses are longer than those of the one before it has not grown."""
    clock = Clock(testlib, 1000, fixed=True)
    clock.serve(100)
    clock.call("begin", 100 * _SEC, 4096)
    clock.serve(1000, lag=_SEC)
    clock.end(cut=False)
    assert clock.call("sustained")


def test_a_schedule_ends_with_its_job(testlib: CData) -> None:
    """What it had left is not due, and the rate is what it was, however long the job took."""
    clock = Clock(testlib, 1000, fixed=True)
    (first, *_, last) = dues = clock.take(100)
    for due in dues:
        clock.call("look", 5 * _SEC)
        clock.call("sent", due, 5 * _SEC)
        clock.call("finished", due, 10 * _SEC)
    clock.end(cut=False)
    assert (clock.state.dropped, clock.state.late, clock.call("due")) == (0, 0, 100)
    assert clock.state.scheduled == last + _SEC // 1000
    assert (clock.state.span, clock.state.in_time) == (10 * _SEC, 100)
    assert first < last


def test_a_ramp_is_not_counted(testlib: CData) -> None:
    """Nor that responses grew, what was dropped, or that the depth was used up."""
    clock = Clock(testlib, 1000, fixed=True)
    clock.call("freed", _SEC // 20)
    _grow(clock, 100)
    clock.call("look", _SEC)
    clock.end()
    assert clock.state.dropped > 800
    assert clock.state.crowded > 0
    assert not clock.call("sustained")
    clock.call("begin", _SEC, 4096)
    clock.serve(100)
    (straggler,) = clock.take(1)
    begun = straggler + 1
    clock.call("measure", begun)
    clock.call("sent", straggler, straggler + 9000)
    clock.call("finished", straggler, straggler + 9000)
    clock.serve(1000, lag=_SEC)
    ends = clock.state.due - 1
    clock.call("look", ends)
    clock.end()
    assert (clock.state.lag.count, clock.state.lag.max) == (1000, _SEC)
    assert clock.state.finished == clock.state.in_time == 1000
    assert clock.state.span == clock.state.scheduled == ends - begun
    assert (clock.state.crowded, clock.state.dropped) == (0, 0)
    assert clock.call("sustained"), "responses were even since the ramp"


def test_loops_add_up(testlib: CData) -> None:
    """Without the time between them: each ends with its last arrival."""
    clock = Clock(testlib, 1000, fixed=True)
    for start in (10 * _SEC, 20 * _SEC, 30 * _SEC):
        clock.serve(100)
        clock.call("begin", start, 4096)
    clock.end(cut=False)
    assert clock.call("due") == 300
    assert 0.29 * _SEC < clock.state.span < clock.state.scheduled < 0.31 * _SEC


# --- how it is told ---


def test_the_line_for_people(testlib: CData) -> None:
    line = ffi.new("char[]", 512)
    clock = Clock(testlib, 1000, fixed=True)
    clock.serve(90, lag=5000)
    clock.serve(10, lag=50_000)
    clock.call("look", _SEC // 10)
    clock.end()
    testlib.arrivals_tell(line, clock.state)
    said = text(line)
    assert said.startswith("arrivals: sustained: offered 1000.0/s, achieved 1000.0/s; 100 due")
    assert "100 sent, 0 dropped; lag (usec): p50=5.0, p99=49.9, max=50.0, at the end=0.0" in said
    behind = Clock(testlib, 2000, fixed=True)
    _Server(0.001).run(behind, 1)
    testlib.arrivals_tell(line, behind.state)
    assert text(line).startswith("arrivals: not sustained (responses grew all the time")


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


def test_a_rate_is_of_ios_or_bytes(mounted: Place) -> None:
    for rate, gap in (
        ({"arrival_rate": "1k"}, 1e9 / 1024),  # as in rate_iops
        ({"arrival_rate": None, "arrival_bw": "16m"}, 4096 / (16 << 20) * 1e9),
    ):
        dues = _dues(mounted.fio(**{**_job(arrival_process="fixed", trace=1), **rate}))
        assert len(dues) == _BLOCKS
        assert all(b - a == pytest.approx(gap, abs=1) for a, b in pairwise(dues))


# --- how it ends ---


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


def test_what_ends_a_job(mounted: Place) -> None:
    """Its schedule ends with it: nothing was to follow, though all is late."""
    ends: list[Options] = [{"number_ios": 11}, {"io_size": "40k"}, {"loops": 2, "number_ios": 11}]
    for limit, operations in zip(ends, (11, 10, 22), strict=True):
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


def test_what_good_figures_lack_is_said_once(mounted: Place, tmp_path: Path) -> None:
    job = _job(lat_percentiles=0, write_lat_log=str(tmp_path / "log"), numjobs=2)
    lines = said(mounted.fio.well(**job))
    for words in ("without lat_percentiles=1", "log_entries=1048576"):
        assert sum(words in line for line in lines) == 1
    assert len(lines) == 2
