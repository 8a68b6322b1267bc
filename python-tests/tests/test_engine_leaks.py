# SPDX-License-Identifier: GPL-2.0-only
"""Nothing grows in a long job; one whose fio was killed ends as by SIGTERM, and no other does."""

import os
import re
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import Place, eventually, family, running, stderr_of, traces
from scripted_jobs import Options, go

from nfsmulti.fiorun import Engine, FioProcess, Option
from nfsmulti.lab.lab import free_ports
from nfsmulti.processes import Identity, Process, run
from servers.scripted import DATA, DATA4, Answer, Call, Nfs, ScriptedServer

pytestmark = pytest.mark.sanitized

# --- nothing grows ---

_FOR_LONG: Options = {"time_based": 1, "runtime": 300, "bs": "4k", "size": "1m"}
# What opens and closes files, and how many may be open just now.
_COMING: Mapping[str, tuple[Options, int]] = {
    "opens": ({
        **_FOR_LONG, "rw": "randrw", "nrfiles": 64, "openfiles": 4, "iodepth": 4, "nconnect": 2,
        "file_service_type": "sequential", "spread": "roundrobin", "trace": 1,
    }, 10),
    "loops": ({
        "rw": "write", "bs": "4k", "size": "256k", "nrfiles": 4, "iodepth": 16, "fsync": 4,
        "spread": "queue", "unlink_each_loop": 1, "loops": 100_000, "trace": 1,
    }, 20),
}  # fmt: skip


def _look(process: FioProcess) -> tuple[int, int]:
    """Return how many descriptors fio's job has, and the bytes that are its own after its fork."""
    (job,) = family(process.pid)
    text = Path(f"/proc/{job}/smaps_rollup").read_text()
    (kib,) = re.findall(r"^Private_Dirty: *(\d+) kB$", text, re.MULTILINE)
    return len(list(Path(f"/proc/{job}/fd").iterdir())), int(kib) << 10


def test_a_byte_that_is_lost_is_found_by_the_sanitizer_alone(
    local_fio: FioRunner, tmp_path: Path, sanitized: bool
) -> None:
    job: dict[str, Option] = {"rw": "write", "bs": "4k", "size": "4k", "filename": "f"}
    result = local_fio(pool=str(tmp_path), env={"NFSMULTI_TEST_LEAK": "1"}, **job)
    assert ("LeakSanitizer: detected memory leaks" in result.messages) == sanitized
    assert (result.status != 0) == sanitized


@pytest.mark.parametrize("name", _COMING)
def test_files_come_and_go_all_the_time(v3_or_mount: Place, sanitized: bool, name: str) -> None:
    """A sanitizer keeps what was freed, and says at the end what leaks."""
    options, open_now = _COMING[name]
    with v3_or_mount.fio.start(**options) as process:
        eventually(lambda: traces(process) > 2000)
        descriptors, memory = _look(process)
        eventually(lambda: traces(process) > 8000)
        more, larger = _look(process)
        process.signal(signal.SIGTERM)
        assert "LeakSanitizer" not in v3_or_mount.fio.finish(process).messages
    assert more - descriptors <= open_now
    assert sanitized or larger - memory < 1 << 20


def test_hundreds_of_reconnects(local_fio: FioRunner, sanitized: bool) -> None:
    """Each fourth READ ends its connection; of many, since each returns with the next tick only."""
    seen, nconnect = set[int](), 16

    def end(call: Call) -> Answer | None:
        seen.add(call.connection)
        return Answer(end="reset") if call.procedure is Nfs.READ and call.nth % 4 == 0 else None

    with ScriptedServer(end) as server:
        server.create("f", bytes(1 << 20))
        terms: Options = {"iodepth": 32, "nconnect": nconnect, "spread": "queue", "filename": "f"}
        with local_fio.start(pool=server.pool(), rw="randread", **_FOR_LONG, **terms) as process:
            eventually(lambda: len(seen) >= 100, 60)
            descriptors, memory = _look(process)
            eventually(lambda: len(seen) >= 600, 240)
            more, larger = _look(process)
            process.signal(signal.SIGTERM)
            assert "LeakSanitizer" not in local_fio.finish(process).messages
    assert more <= descriptors + nconnect  # as many as are up just now
    assert sanitized or larger - memory < 128 << 10


# --- whose fio was killed ---

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


@pytest.mark.parametrize("thread", [0, 1])
def test_a_job_outlives_the_shell_of_its_fio(
    client: FioRunner, server: ScriptedServer, thread: int
) -> None:
    shell = ["sh", "-c", 'nohup setsid "$0" "$@" &']
    with client.start(pool=server.pool(), enter=shell, thread=thread, **_ENDLESS) as process:
        eventually(lambda: not running(process.pid))
        before = len(server.calls(Nfs.WRITE))
        eventually(lambda: len(server.calls(Nfs.WRITE)) > before + 100)  # more than is under way
        assert _SAYS not in stderr_of(process)


@pytest.mark.parametrize("thread", [0, 1])
def test_a_job_of_a_daemon_outlives_who_started_it(
    engine: Engine, server: ScriptedServer, tmp_path: Path, thread: int
) -> None:
    (port,) = free_ports("127.0.0.1", [0])  # no test beside this one takes it
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
    begun, _, told = done.stdout.partition("(groupid=0")  # a line of each job, before its figures
    assert [part.count("nfsmulti: a: 1 connection on 1 path: ") for part in (begun, told)] == [2, 0]
    assert sum(call.moved for call in server.calls(Nfs.WRITE)) == 8 << 20
