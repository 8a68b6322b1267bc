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
_VERIFIED: dict[str, Option] = {"rw": "randwrite", "verify": "crc32c"}


def _port(line: ConnectionStats) -> int:
    return int(line.local.rpartition(":")[2])


def test_many_jobs_on_one_server(lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """More connections than there are reserved ports (512 to 1023): the rest goes without.

    One build is enough: so many processes under a sanitizer are a test of the machine's memory.
    """
    empty(lab.export_dir)
    fio = FioRunner(Fio(Engine.built(), enter=lab.command([])), lab.path(0), tmp_path, request.node)
    jobs: dict[str, Option] = {"numjobs": _JOBS, "nconnect": _CONNECTIONS, "spread": "roundrobin"}
    result = fio(bs="4k", size="64k", iodepth=4, **_VERIFIED, **jobs, timeout=180)
    report = done(result)
    assert report.bytes("write") == report.bytes("read") == _JOBS << 16
    assert len(result.stats) == _JOBS * _CONNECTIONS
    assert all(line.write_ops for line in result.stats)
    assert {_port(line) < _RESERVED for line in result.stats} == {True, False}
    assert [file.stat().st_size for file in lab.export_dir.iterdir()] == [1 << 16] * _JOBS
