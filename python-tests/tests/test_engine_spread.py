# SPDX-License-Identifier: GPL-2.0-only
"""How I/O is laid over paths and connections: the stats file and the trace prove what is promised.

Places have 4 paths. Connection c of a job lies on the c mod P-th of the paths that the job uses.
Where stripes lie is in test_scenarios_files.py, what localaddr= binds in test_refusals.py.
"""

from collections.abc import Sequence

import pytest
from engine_helpers import PATHS, Place, Traced, done, sections

from nfsmulti.fiorun import ConnectionStats, Option

_JOB: dict[str, Option] = {"bs": "16k", "size": "1m", "filename": "f"}


def _paths_of_jobs(stats: Sequence[ConnectionStats]) -> dict[int, str]:
    assert all(line.connection == 0 for line in stats)
    paths = {line.job_number: line.path for line in stats}
    assert len(paths) == len(stats)
    return paths


def _in_turn(place: Place, count: int) -> dict[int, str]:
    return {number: place.labels[number % PATHS] for number in range(count)}


def _reads(stats: Sequence[ConnectionStats]) -> list[int]:
    return [line.read_ops for line in stats]


def _writes(stats: Sequence[ConnectionStats]) -> list[int]:
    return [line.write_ops for line in stats]


# --- spread=job ---


@pytest.mark.parametrize(
    ("first", "other"),
    [(1, {"failover": 1}), (65535, {"spread_writes": "stripe", "nconnect": 2})],
    ids=str,
)
def test_first_path_is_that_of_the_first_job(
    exported: Place, first: int, other: dict[str, Option]
) -> None:
    """Of all paths, to which the job has connections here: its own ones take turns."""
    result = exported.fio.well(rw="read", numjobs=3, first_path=first, **_JOB, **other)
    used = [line for line in result.stats if line.read_ops]
    labels = {number: exported.labels[(number + first) % PATHS] for number in range(3)}
    assert {(line.job_number, line.path) for line in used} == set(labels.items())
    assert len(used) == 3 * int(other.get("nconnect", 1))


def test_jobs_count_over_all_sections(mounted: Place) -> None:
    jobs = sections(
        a={"numjobs": 2},
        b={"rw": "write", "stonewall": None, "filename": "g"},
        c={"numjobs": 3, "thread": 1},
        d={"stonewall": None},
    )
    result = mounted.fio.well(rw="read", arguments=jobs, **_JOB)
    assert _paths_of_jobs(result.stats) == _in_turn(mounted, 7)
    names = {line.job_number: line.job for line in result.stats}
    assert "".join(names[number] for number in range(7)) == "aabcccd"


# --- a direction of its own ---


@pytest.mark.parametrize(
    ("reads", "writes"),
    [("roundrobin", "roundrobin"), ("roundrobin", "job"), ("job", "roundrobin"), ("job", "queue")],
)
def test_each_direction_has_its_own_spread_and_turn(
    mounted: Place, reads: str, writes: str
) -> None:
    spreads: dict[str, Option] = {"spread_reads": reads, "spread_writes": writes}
    result = mounted.fio(rw="randrw", spread="stripe", iodepth=4, **spreads, **_JOB)
    report = done(result)
    for spread, counts, total in (
        (reads, _reads(result.stats), report.operations("read")),
        (writes, _writes(result.stats), report.operations("write")),
    ):
        in_turn = [total // 4 + (number < total % 4) for number in range(4)]
        expected = {"roundrobin": in_turn, "job": [total, 0, 0, 0]}
        assert counts == expected.get(spread, counts)
        assert sum(counts) == total


# --- spread=stripe ---


def test_stripe_is_the_largest_block_by_default(mounted: Place) -> None:
    job: dict[str, Option] = {"rw": "read", "bsrange": "4k-32k", "size": "1m", "filename": "f"}
    result = mounted.fio.well(spread="stripe", trace=1, **job)
    assert all(call.connection == call.offset // 32768 % 4 for call in Traced.read(result.stderr))
    assert [line.read_bytes for line in result.stats] == [262144] * 4


# --- many connections, and where they come from ---


def test_connections_cost_nothing_for_each_io(exported: Place) -> None:
    """A call takes as many system calls on 256 connections as on 4: a send, a wait, a receive."""
    costs = []
    for nconnect in (1, 64):
        job: dict[str, Option] = {"rw": "randread", "bs": "4k", "size": "8m", "filename": "f"}
        result = exported.fio(nconnect=nconnect, spread="roundrobin", **job)
        operations = done(result).operations("read")
        costs.append(sum(line.syscalls for line in result.stats) / operations)
    assert costs[0] < 4
    assert costs[1] < costs[0] + 0.6  # what opening and closing 256 of them takes
