# SPDX-License-Identifier: GPL-2.0-only
"""A job whose fio was killed ends as by SIGTERM; one whose fio lives goes on, whoever else ends."""

import os
import shlex
import signal
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import eventually, family, running, stderr_of
from scripted_jobs import Options, go

from nfsmulti.fiorun import Engine, FioProcess
from nfsmulti.lab.lab import free_ports
from nfsmulti.processes import Identity, Process, run
from servers.scripted import DATA, DATA4, Nfs, ScriptedServer

pytestmark = pytest.mark.sanitized

_ENDLESS: Options = {"time_based": 1, "runtime": 600, "nconnect": 2, "spread": "roundrobin"}
_SAYS = "fio itself has ended"


def _kill_fio_alone(process: FioProcess) -> None:
    """Kill fio, as a CI or the kernel does, and no job, as the harness would; they are to end."""
    eventually(lambda: family(process.pid))
    jobs = [Identity.of(pid) for pid in family(process.pid)]
    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not any(job.alive() for job in jobs))


@pytest.mark.parametrize(
    ("server_is", "version", "options"),
    [
        ("gone", 3, {}),
        ("gone", 4, {"exitall": None}),
        ("there", 3, {"thinktime": "500s", "thinktime_blocks": 8}),
        ("there", 4, {}),
    ],
)
def test_a_job_ends_with_its_fio(
    client: FioRunner, server: ScriptedServer, server_is: str, version: int, options: Options
) -> None:
    """Also one that waits for its server for ever, and one that is asleep in fio."""
    pool = server.pool(version=version)
    with client.start(pool=pool, **_ENDLESS, **options) as process:
        eventually(lambda: len(server.calls(*(DATA if version == 3 else DATA4))) > 4)
        if server_is == "gone":
            go(server)
        _kill_fio_alone(process)
        assert stderr_of(process).count(_SAYS) == 1
        assert "1 commits" in stderr_of(process) or server_is == "gone"


def test_a_job_ends_that_fio_has_not_let_begin(client: FioRunner, server: ScriptedServer) -> None:
    """It waits for a lock that nobody opens any more."""
    with client.start(pool=server.pool(), numjobs=200, **_ENDLESS) as process:
        _kill_fio_alone(process)


# --- whose fio lives ---


def _go_on(server: ScriptedServer) -> None:
    """Expect more I/O than may be under way."""
    before = len(server.calls(Nfs.WRITE))
    eventually(lambda: len(server.calls(Nfs.WRITE)) > before + 100)


@pytest.mark.parametrize("thread", [0, 1])
def test_a_job_outlives_the_shell_of_its_fio(
    client: FioRunner, server: ScriptedServer, thread: int
) -> None:
    shell = ["sh", "-c", 'nohup setsid "$0" "$@" &']
    with client.start(pool=server.pool(), enter=shell, thread=thread, **_ENDLESS) as process:
        eventually(lambda: not running(process.pid))
        _go_on(server)
        assert _SAYS not in stderr_of(process)


@pytest.mark.parametrize("thread", [0, 1])
def test_a_job_of_a_daemon_outlives_who_started_it(
    engine: Engine, server: ScriptedServer, tmp_path: Path, thread: int
) -> None:
    (port,) = free_ports("127.0.0.1", [8765])
    setting = ["env", *(f"{key}={value}" for key, value in engine.env.items())]
    daemon = [*setting, "fio", f"--server=ip:127.0.0.1,{port}", f"--daemonize={tmp_path / 'pid'}"]
    job = tmp_path / "job.fio"
    options = {"ioengine": engine.option, "pool": server.pool(), "filename": "f", "rw": "write",
               "bs": "4k", "size": "4m", "numjobs": 2, "thread": thread}  # fmt: skip
    job.write_text("\n".join(["[a]", *(f"{key}={value}" for key, value in options.items()), ""]))
    keep = ["sh", "-c", f"{shlex.join(daemon)}; exec sleep 1000"]
    with Process(keep):
        eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        done = run(["fio", f"--client=ip:127.0.0.1,{port}", str(job)], timeout=90)
    assert done.status == 0, done.stdout + done.stderr
    assert _SAYS not in done.stdout + done.stderr
    assert sum(call.moved for call in server.calls(Nfs.WRITE)) == 8 << 20
