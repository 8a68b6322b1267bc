# SPDX-License-Identifier: GPL-2.0-only
"""NFSv4.1 against a real server, nfs-ganesha: what NFSv3 can do, and what only sessions need.

Sizes, layout, unlink, syncs and the stats file are tested with the other kinds of paths, in
test_engine_files.py, test_engine_sync.py and test_engine_stats.py.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import started_lab
from engine_helpers import (
    Place,
    by_path,
    done,
    ends,
    eventually,
    family,
    fixture_of_places,
    place_in_lab,
    sections,
    stderr_of,
    traces,
)

from nfsmulti.fiorun import Engine, FioProcess, Option
from nfsmulti.lab import EXPORT, READ_ONLY, Lab, LabConfig
from nfsmulti.lab.faults import FaultKind, Faults

exported = fixture_of_places("nfs4")

_MIB = 1 << 20
_VERIFIED: dict[str, Option] = {
    "rw": "randwrite", "bs": "16k", "size": "4m", "iodepth": 16, "verify": "crc32c",
}  # fmt: skip


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Yield a lab of this file's own: other files kill jobs, whose clients stay for a lease."""
    with started_lab(LabConfig(addresses=4, exports=(EXPORT, READ_ONLY))) as running:
        yield running


def _leaves_nothing(lab: Lab) -> None:
    """Expect that no server of the lab has a client of ours."""
    assert [client for server in lab.servers for client in server.clients] == []


# --- data ---


def test_verified_writes_with_each_spread(exported: Place, lab: Lab) -> None:
    """Two addresses, two connections to each; processes, and threads of one process."""
    spreads = ("job", "roundrobin", "queue", "stripe")
    jobs = sections(**{name: {"spread": name, "rw": "randrw"} for name in spreads})
    for thread in (0, 1):
        pool = ",".join(exported.paths[:2])
        words = ["--stripe_size=20k", "--verify_state_save=0", f"--thread={thread}", *jobs]
        result = exported.fio(pool=pool, nconnect=2, arguments=words, **_VERIFIED)
        done(result)
        for name in spreads:
            lines = [line for line in result.stats if line.job == name]
            assert len(lines) == (2 if name == "job" else 4)
            assert all(line.read_ops and line.write_ops for line in lines)
        _leaves_nothing(lab)


def test_verified_writes_without_open_and_by_another_minor_version(
    exported: Place, lab: Lab
) -> None:
    later = ",".join(lab.path(number, version="4.2") for number in range(2))
    for options in ({"open": "none"}, {"pool": later}):
        done(exported.fio(**{"spread": "roundrobin", "nconnect": 2, **_VERIFIED, **options}))
        _leaves_nothing(lab)


def test_blocks_are_cut(exported: Place) -> None:
    """At the server's 1 MiB where nothing else is said, and at odd sizes."""
    job: dict[str, Option] = {**_VERIFIED, "bs": "4m", "size": "16m", "verify_interval": "16k"}
    result = exported.fio(filename="f", **job)
    done(result)
    assert [(line.read_ops, line.write_ops) for line in result.stats] == [(16, 16)]
    done(exported.fio(rsize=3000, wsize=5000, stripe_size=7777, spread="stripe", **job))


# --- paths and servers that go ---


def test_a_path_that_dies_and_returns(exported: Place, lab: Lab, faults: Faults) -> None:
    """Its server is killed: the others write what it had not committed, and it is used again."""
    job: dict[str, Option] = {"failover": 1, "hold_writes": "32m", "rate": ",400k"}
    with exported.fio.start(
        spread="roundrobin", filename="f", timeo=20, trace=1, **job, **_VERIFIED
    ) as process:
        eventually(lambda: traces(process) > 40)
        faults.begin(FaultKind.KILL, 1)
        eventually(lambda: "other paths" in stderr_of(process))
        faults.end(1)
        eventually(lambda: "answers again" in stderr_of(process))
        result = exported.fio.finish(process)
    report = done(result)
    assert report.bytes("read") == report.bytes("write") == 4 * _MIB
    assert sum(line.reissues for line in result.stats) > 0
    assert set(by_path(result.stats)) == set(exported.labels)
    _leaves_nothing(lab)


def _progress(process: FioProcess, count: int) -> None:
    """Wait for so many more I/Os."""
    before = traces(process)
    eventually(lambda: traces(process) > before + count)


def _kills_and_restarts(place: Place, lab: Lab, times: int) -> None:
    """Kill all servers `times` times during verified writes, which must notice nothing."""
    size = times * 4
    job = {**_VERIFIED, "size": f"{size}m", "rate": ",2m", "hold_writes": f"{size}m"}
    with place.fio.start(filename="f", trace=1, **job) as process:
        for _ in range(times):
            _progress(process, 100)
            for server in lab.servers:
                server.kill()
            for server in lab.servers:
                server.start()
        result = place.fio.finish(process)
    report = done(result)
    assert report.bytes("read") == report.bytes("write") == size * _MIB
    assert sum(line.rewritten_bytes for line in result.stats) > 0
    _leaves_nothing(lab)


# --- the lease ---

_LEASE = 5


@pytest.fixture
def lease_lab() -> Iterator[Lab]:
    """Yield a lab whose leases are short, with a grace period after a restart."""
    with started_lab(LabConfig(addresses=1, lease=_LEASE)) as running:
        yield running


@pytest.fixture
def leased(lease_lab: Lab, engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """Return its export."""
    return place_in_lab(lease_lab, engine, tmp_path, request.node, "nfs4")


@pytest.mark.full
def test_files_are_reclaimed_within_the_grace_period(leased: Place, lease_lab: Lab) -> None:
    """Whoever does not reclaim what it had open waits for the period's end."""
    _kills_and_restarts(leased, lease_lab, 2)


@pytest.mark.full
def test_a_job_that_sleeps_longer_than_its_lease_goes_on(leased: Place, lease_lab: Lab) -> None:
    with leased.fio.start(filename="f", trace=1, rate="1m,1m", **_VERIFIED) as process:
        eventually(lambda: traces(process) > 40)
        jobs = family(process.pid)
        for pid in jobs:
            os.kill(pid, signal.SIGSTOP)
        eventually(lambda: not lease_lab.server(0).clients)  # the server has given it up
        for pid in jobs:
            os.kill(pid, signal.SIGCONT)
        result = leased.fio.finish(process)
    assert done(result).bytes("read") == 4 * _MIB
    _leaves_nothing(lease_lab)


# --- the end ---


def test_whoever_ends_early_leaves_nothing_at_the_server(exported: Place, lab: Lab) -> None:
    """A job that is stopped, one that fails, one that only lays its files out."""
    job: dict[str, Option] = {"rw": "randrw", "bs": "4k", "size": "1m", "nconnect": 2}
    with exported.fio.start(time_based=1, runtime=300, trace=1, numjobs=2, **job) as process:
        eventually(lambda: traces(process) > 100)
        assert any(server.clients for server in lab.servers)
        process.signal(signal.SIGTERM)
        ends(process)
        assert exported.fio.finish(process).status not in (0, None)
    _leaves_nothing(lab)
    (exported.files / "folder").mkdir()
    assert exported.fio(filename="folder", **job).status == 1
    _leaves_nothing(lab)
    done(exported.fio(create_only=1, filename="g", **job))
    _leaves_nothing(lab)
