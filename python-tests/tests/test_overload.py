# SPDX-License-Identifier: GPL-2.0-only
"""Far more connections, and far more calls in flight, than anyone should ask of one server."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import done, empty

from nfsmulti.fiorun import ConnectionStats, Engine, Fio, Option
from nfsmulti.lab import Lab

_JOBS, _CONNECTIONS = 160, 4
_RESERVED = 1024  # ports below this are root's
_VERIFIED: dict[str, Option] = {"rw": "randwrite", "verify": "crc32c", "spread": "roundrobin"}


def _port(line: ConnectionStats) -> int:
    return int(line.local.rpartition(":")[2])


@pytest.fixture
def fio(lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> FioRunner:
    """Return a runner of the one build: under a sanitizer it would test the machine's memory."""
    empty(lab.export_dir)
    return FioRunner(
        Fio(Engine.built(), enter=lab.command([])), lab.path(0), tmp_path, request.node
    )


def test_many_jobs_on_one_server(fio: FioRunner, lab: Lab) -> None:
    jobs: dict[str, Option] = {"numjobs": _JOBS, "nconnect": _CONNECTIONS}
    result = fio(bs="4k", size="64k", iodepth=4, **_VERIFIED, **jobs, timeout=180)
    report = done(result)
    assert report.bytes("write") == report.bytes("read") == _JOBS << 16
    assert len(result.stats) == _JOBS * _CONNECTIONS
    assert all(line.write_ops for line in result.stats)
    assert [file.stat().st_size for file in lab.export_dir.iterdir()] == [1 << 16] * _JOBS


def test_more_connections_than_reserved_ports(fio: FioRunner, lab: Lab) -> None:
    """There are 512 to one server (512 to 1023): the rest goes without."""
    paths, each = 4, 160
    pool = ",".join([lab.path(0)] * paths)
    result = fio(pool=pool, nconnect=each, bs="4k", size="5m", iodepth=64, **_VERIFIED, timeout=180)
    done(result)
    assert len(result.stats) == paths * each
    assert {_port(line) < _RESERVED for line in result.stats} == {True, False}
