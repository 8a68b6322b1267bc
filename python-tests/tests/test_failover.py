# SPDX-License-Identifier: GPL-2.0-only
"""failover=1 over TCP: what needs names or a link; the rest is in test_scenarios_failover.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FioRunner, started_lab
from engine_helpers import done, said
from scripted_jobs import (
    TWO_ADDRESSES,
    Client,
    Options,
)

from nfsmulti.fiorun import Engine, Fio
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.processes import run as run_command
from servers.scripted import (
    Nfs,
    ScriptedServer,
)

pytestmark = pytest.mark.sanitized

_FIRST, _SECOND = TWO_ADDRESSES

# Of 2 MiB: 64 KiB blocks, half of them by each path. A path is dead after 4 s of silence, which no
# path has by chance, however busy the machine.
_JOB: Options = {
    "failover": 1, "spread": "stripe", "bs": "64k", "size": "2m", "iodepth": 8,
    "verify": "crc32c", "timeo": 40,
}  # fmt: skip


def test_a_path_that_is_dead_from_the_start(client: Client, paths: ScriptedServer) -> None:
    """The first one, which is asked first for names; another is in the fault matrix."""
    paths.refuse(_FIRST)
    result = client(paths, **_JOB)
    done(result)
    assert {call.server[0] for call in paths.calls(Nfs.WRITE)} == {_SECOND}
    assert any(f"{_FIRST}:" in line and "cannot reach port" in line for line in said(result))


@pytest.mark.full
def test_a_probe_waits_for_the_data_before_it(
    engine: Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A slow link is no silence: a path that takes data is asked again when it has taken it."""
    with started_lab(LabConfig(addresses=2, limits=Limits(link="4mbit"))) as lab:
        # Deep queues before a slow link would make TCP send twice what is only late.
        shallow = "echo 4096 32768 65536 >/proc/sys/net/ipv4/tcp_wmem"
        run_command(lab.command(["sh", "-c", shallow]), timeout=60).check()
        fio = Fio(engine, enter=lab.command([]), env=lab.environment)
        run = FioRunner(fio, lab.pool, tmp_path, request.node)
        job = {**_JOB, "bs": "1m", "size": "6m", "iodepth": 6, "verify": None}
        # Each path's replies come every 4 s or so.
        result = run(rw="write", filename="slow", **{**job, "timeo": 24})
    done(result)
    assert "does not answer" not in "".join(said(result))
