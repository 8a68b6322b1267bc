# SPDX-License-Identifier: GPL-2.0-only
"""processes.py and reaper.py: nothing that the harness starts outlives it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from engine_helpers import eventually, running

from nfsmulti.daemon import Daemon
from nfsmulti.errors import MissingError
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import CommandError, Identity, Process, find, run, shell_status

_LEAVES_A_CHILD = "sleep 1000 & echo $! >pid; "
_LEAVES_A_SESSION = (  # as fio's jobs are
    "setsid sh -c 'echo $$ >pid; exec sleep 1000' & until [ -s pid ]; do :; done; "
)


def _await_end(pid: int) -> None:
    """Wait until the process is gone, or a zombie."""
    eventually(lambda: not running(pid))


def _has_pid(folder: Path) -> bool:
    """Whether a command's number is there: the file is made before it is written."""
    file = folder / "pid"
    return file.exists() and file.stat().st_size > 0


def _pid_in(folder: Path) -> int:
    eventually(lambda: _has_pid(folder))
    return int((folder / "pid").read_text())


def _harness(script: str, folder: Path) -> list[str]:
    """Return the command of another harness, which runs `script` in `folder`."""
    begin = f"import os, signal, subprocess, sys\nos.chdir({str(folder)!r})\n"
    path = f"sys.path.insert(0, {str(PYTHON_TESTS)!r})\nfrom nfsmulti import processes\n"
    return [sys.executable, "-c", begin + path + script]


def _starts(leaves: str) -> str:
    """Return the script of a harness that starts a command and waits for what it leaves."""
    return f"""
process = processes.Process(["sh", "-c", {leaves + "wait"!r}])
while not (os.path.exists("pid") and os.path.getsize("pid")):
    process.wait(0.02)
"""


def test_output_and_status() -> None:
    done = run(["sh", "-c", "cat; echo err >&2; exit 3"], timeout=60, stdin="in")
    assert (done.status, done.stdout, done.stderr) == (3, "in", "err\n")
    with pytest.raises(CommandError, match=r"(?s)exit 3.*failed \(3\).*err"):
        done.check()
    assert run(["sh", "-c", "kill -TERM $$"], timeout=60).status == -signal.SIGTERM


def test_a_daemon_ends_pauses_and_adds_to_what_it_said(tmp_path: Path) -> None:
    """A start that finds it paused lets it go on."""
    log, said = tmp_path / "log", []
    script = "trap 'echo bye; exit' TERM; echo $$ in \"$PWD\"; sleep 1000 & wait"
    argv = ["sh", "-c", script]
    one = Daemon("it", argv, log, lambda: b" in " in one.logged(), cwd=tmp_path)
    for end, words in ((one.kill, ""), (one.stop, "bye\n")):
        one.start()
        pid = one.pid
        said.append(f"{pid} in {tmp_path}\n")
        assert one.said() == said[-1]
        for go_on in (one.resume, one.start):
            one.pause()
            eventually(lambda: ") T " in Path(f"/proc/{one.pid}/stat").read_text())
            assert one.running
            go_on()
            eventually(lambda: ") T " not in Path(f"/proc/{one.pid}/stat").read_text())
        assert one.pid == pid
        end()
        said[-1] += words
        assert (one.running, one.pid) == (False, None)
    assert log.read_text() == "".join(said)


@pytest.mark.parametrize("leaves", [_LEAVES_A_CHILD, _LEAVES_A_SESSION], ids=["child", "session"])
def test_what_a_command_leaves_ends_with_it_and_after_its_time(leaves: str, tmp_path: Path) -> None:
    assert run(["sh", "-c", leaves], timeout=60, cwd=tmp_path).status == 0
    _await_end(_pid_in(tmp_path))
    (tmp_path / "pid").unlink()
    for timeout in (0.3, 3, 30):
        done = run(["sh", "-c", leaves + "wait"], timeout=timeout, cwd=tmp_path)
        assert done.status is None
        if _has_pid(tmp_path):  # else it has not come that far
            break
    _await_end(_pid_in(tmp_path))


def test_stopped_and_deaf_commands_are_ended(tmp_path: Path) -> None:
    with Process(["sh", "-c", "trap '' TERM; kill -STOP $$; sleep 1000"]) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        eventually(lambda: ") T " in stat.read_text())
        assert process.end(grace=0.3) == -signal.SIGKILL


def test_a_signal_ends_what_is_just_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exception comes out of a start whose command runs, and which nobody can end by name."""

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            eventually(lambda: _has_pid(tmp_path))
            raise SystemExit(128 + signal.SIGTERM)

    run(["true"], timeout=60)  # so that the reaper is there
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(SystemExit):
        Process(["sh", "-c", _LEAVES_A_CHILD + "wait"], cwd=tmp_path)
    _await_end(_pid_in(tmp_path))


# It is killed between fork() and exec().
_JUST_STARTING = """
harness = os.getpid()

def kill_the_harness():
    with open("pid", "w") as file:
        file.write(str(os.getpid()))
    os.kill(harness, signal.SIGKILL)
    while os.getppid() == harness:
        pass

processes.run(["true"], timeout=60)  # so that the reaper is there
start = subprocess.Popen
subprocess.Popen = lambda *words, **options: start(*words, **options, preexec_fn=kill_the_harness)
processes.Process(["sleep", "1000"])
"""


@pytest.mark.parametrize(
    "script",
    [
        # A child in the background has lost PR_SET_PDEATHSIG, as fio's jobs have.
        _starts(_LEAVES_A_CHILD),
        _starts(_LEAVES_A_SESSION),
        _JUST_STARTING,
        # Its own reaper can no longer do it: that of these tests does.
        f"{_starts(_LEAVES_A_SESSION)}os.kill(processes._reaper().pid, signal.SIGKILL)\n",
    ],
    ids=["child", "session", "just starting", "no reaper"],
)
def test_kill_of_the_harness_ends_what_it_has_started(script: str, tmp_path: Path) -> None:
    command = _harness(f"{script}os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    if "_reaper" in script:
        assert run(command, timeout=60).status == -signal.SIGKILL
    else:
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    _await_end(_pid_in(tmp_path))


def test_a_harness_outlives_its_reaper(tmp_path: Path) -> None:
    command = _harness("processes.run(['true'], timeout=60)", tmp_path)
    command[1:1] = ["-W", "error"]  # Python warns of what is left
    done = run(command, timeout=60).check()
    assert done.stderr == ""


def test_identity_spares_a_later_process_of_the_same_number() -> None:
    with Process(["sleep", "1000"]) as process:
        identity = Identity.of(process.pid)
        stranger = Identity(identity.pid, identity.start - 1, identity.boot)
        earlier_boot = Identity(identity.pid, identity.start, "another boot")
        for other in (stranger, earlier_boot):
            assert not other.alive()
            other.kill()
        assert process.running
        identity.kill()
        assert process.wait(60) == -signal.SIGKILL
        identity.kill()


def test_a_process_has_its_start_whatever_it_is_called(tmp_path: Path) -> None:
    program = shutil.copy(find("sleep"), tmp_path / "a) Z 1 (b")
    with Process([str(program), "1000"]) as process:
        started = psutil.Process(process.pid).create_time() - psutil.boot_time()
        own = Identity.of(process.pid)
        assert own.start / os.sysconf("SC_CLK_TCK") == pytest.approx(started, abs=0.02)
        assert own.alive()


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(
        MissingError, match=r"rpcbind is not installed\n.*apt-file search bin/rpcbind"
    ):
        find("rpcbind")


def test_a_status_is_told_as_a_shell_does() -> None:
    assert [shell_status(one) for one in (0, 7, -15, -9)] == [0, 7, 143, 137]
