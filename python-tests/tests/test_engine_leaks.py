# SPDX-License-Identifier: GPL-2.0-only
"""Nothing grows in a long job; one whose fio was killed ends as by SIGTERM, and no other does."""

import os
import re
import shlex
import signal
from functools import partial
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import Place, ends, eventually, family, running, stderr_of
from scripted_jobs import Options, go

from nfsmulti.fiorun import Engine, FioProcess, Option
from nfsmulti.lab.lab import free_ports
from nfsmulti.processes import Identity, Process, run
from servers.scripted import DATA, DATA4, Answer, Call, Nfs, ScriptedServer

pytestmark = pytest.mark.sanitized

_FOR_LONG: dict[str, Option] = {"time_based": 1, "runtime": 300}
_READING: dict[str, Option] = {
    "rw": "randread", "bs": "4k", "size": "1m", "filename": "f", **_FOR_LONG,
}  # fmt: skip
_OPENING: dict[str, Option] = {
    "rw": "randrw", "bs": "4k", "size": "1m", "nrfiles": 64, "openfiles": 4, "iodepth": 4,
    "file_service_type": "sequential", "spread": "roundrobin", "nconnect": 2, "trace": 1,
    **_FOR_LONG,
}  # fmt: skip
_LOOPING: dict[str, Option] = {
    "rw": "write", "bs": "4k", "size": "256k", "nrfiles": 4, "iodepth": 16, "spread": "queue",
    "fsync": 4, "unlink_each_loop": 1, "loops": 100_000, "trace": 1,
}  # fmt: skip


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _operations(process: FioProcess) -> int:
    """Count lines of the trace, cheaply: they are about as long as each other."""
    return (process.folder / "stderr").stat().st_size // 100


def _beyond(process: FioProcess, operations: int) -> bool:
    return _operations(process) > operations


def _samples(process: FioProcess, count: int) -> tuple[list[int], list[int]]:
    """Look at the job's descriptors and memory, with thousands of operations in between."""
    (job,) = family(process.pid)
    descriptors, memory = [], []
    for _ in range(count):
        eventually(partial(_beyond, process, _operations(process) + 1000))
        descriptors.append(_descriptors(job))
        memory.append(_resident(job))
    return descriptors, memory


def _is_flat(sanitized: bool, memory: list[int], most: int = 1 << 20) -> bool:
    """Tell whether memory stays as it is; a sanitizer keeps what was freed, and finds leaks."""
    return sanitized or memory[-1] - memory[0] < most


def test_a_byte_that_is_lost_is_found_by_the_sanitizer_alone(
    local_fio: FioRunner, tmp_path: Path, sanitized: bool
) -> None:
    job: dict[str, Option] = {"rw": "write", "bs": "4k", "size": "4k", "filename": "f"}
    result = local_fio(pool=str(tmp_path), env={"NFSMULTI_TEST_LEAK": "1"}, **job)
    assert ("LeakSanitizer: detected memory leaks" in result.messages) == sanitized
    assert (result.status != 0) == sanitized


@pytest.mark.parametrize(
    ("job", "open_now"), [(_OPENING, 10), (_LOOPING, 20)], ids=["opens", "loops"]
)
def test_files_come_and_go_all_the_time(
    v3_or_mount: Place, sanitized: bool, job: dict[str, Option], open_now: int
) -> None:
    with v3_or_mount.fio.start(**job) as process:
        eventually(lambda: _operations(process) > 2000)
        descriptors, memory = _samples(process, 5)
        process.signal(signal.SIGTERM)
        ends(process)
        v3_or_mount.fio.finish(process)
    assert max(descriptors) - min(descriptors) <= open_now
    assert max(descriptors) < 100
    assert _is_flat(sanitized, memory)


class _Ending:
    """A hook: every fourth READ's reply is the last on its connection."""

    def __init__(self) -> None:
        self.connections = 0

    def __call__(self, call: Call) -> Answer | None:
        self.connections = max(self.connections, call.connection + 1)
        return Answer(end="reset") if call.procedure is Nfs.READ and call.nth % 4 == 0 else None


def _private_dirty(pid: int) -> int:
    """Return the bytes that are the process's own, after its fork."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    (kib,) = re.findall(r"^Private_Dirty: *(\d+) kB$", text, re.MULTILINE)
    return int(kib) << 10


def test_a_thousand_reconnects(local_fio: FioRunner, sanitized: bool) -> None:
    """Many connections at once, since each is opened again with the next tick only."""
    nconnect = 16
    ending = _Ending()
    with ScriptedServer(ending) as server:
        server.create("f", bytes(1 << 20))
        terms: dict[str, Option] = {"iodepth": 32, "nconnect": nconnect, "spread": "queue"}
        with local_fio.start(pool=server.pool(), **terms, **_READING) as process:
            server.wait_for(lambda: ending.connections >= 100, 60)
            (job,) = family(process.pid)
            descriptors, memory = _descriptors(job), _private_dirty(job)
            server.wait_for(lambda: ending.connections >= 1000, 240)
            more, larger = _descriptors(job), _private_dirty(job)
            process.signal(signal.SIGTERM)
            ends(process)
            result = local_fio.finish(process)
    assert sum(line.reconnects for line in result.stats) > 900
    assert more <= descriptors + nconnect  # as many as are up just now
    assert _is_flat(sanitized, [memory, larger], 128 << 10)


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
