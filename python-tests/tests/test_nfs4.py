# SPDX-License-Identifier: GPL-2.0-only
"""NFSv4.1 against a real server, nfs-ganesha: what NFSv3 can do, and what only sessions need.

Sizes, layout, unlink, syncs and the stats file are tested with the other kinds of paths, in
test_engine_files.py, test_durability.py and test_engine_stats.py; servers and paths that go, and
leases, in test_scenarios_nfs4.py, test_scenarios_failover.py and the fault matrix.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from conftest import started_lab
from engine_helpers import (
    Place,
    done,
    ends,
    eventually,
    fixture_of_places,
    sections,
    traces,
)

from nfsmulti.fiorun import Option
from nfsmulti.lab import EXPORT, READ_ONLY, Lab, LabConfig

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
