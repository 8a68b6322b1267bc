# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti test: which parts run, what becomes of them; and the limits of tests marked timing."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import limits
import pytest
from conftest import call_harness, namespaces, needs_privileges

import testrun
from nfsmulti.errors import HarnessError
from nfsmulti.paths import PYTHON_TESTS
from testrun import Part, _Session

_JUNIT = '<testsuites><testsuite tests="{}" failures="{}" errors="0" skipped="{}"/></testsuites>'


class Parts:
    """Stands for pytest and for the builds: what each is run with, and how it shall end.

    `counts` are tests, failures and skips of a part that ends with a status.
    """

    def __init__(self) -> None:
        self.status: dict[str, int] = {}
        self.counts = {0: (3, 0, 1), 1: (3, 1, 1), 5: (0, 0, 0)}
        self.run: dict[str, list[str]] = {}
        self.env: dict[str, dict[str, str]] = {}
        self.events: list[str] = []

    def start(self, part: Part, arguments: Sequence[str], _output: int | None = None) -> Any:
        self.events.append(f"{part.name} begins")
        self.run[part.name] = part.command(arguments)
        self.env[part.name] = dict(part.env)
        status = self.status.get(part.name, 0)
        if status in self.counts:
            part.junit.write_text(_JUNIT.format(*self.counts[status]))

        def wait() -> int:
            self.events.append(f"{part.name} ends")
            return status

        return contextlib.nullcontext(types.SimpleNamespace(running=False, wait=wait))

    def build(self, name: str) -> Path:
        self.events.append(f"{name} is built")
        if self.status.get(name):
            raise HarnessError("no such compiler")
        return Path(name)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    """Return the parts that ./nfsmulti test runs from here on."""
    found = Parts()
    monkeypatch.chdir(tmp_path)  # which the command leaves
    monkeypatch.setattr(testrun, "_FOLDER", tmp_path)
    monkeypatch.setattr(testrun, "_pytest", found.start)
    monkeypatch.setattr(testrun, "variant", found.build)
    monkeypatch.setattr(testrun, "_sanitizer_runtime", lambda: "libasan.so")
    return found


def _chosen(command: list[str]) -> str:
    return command[command.index("-m", 2) + 1]


# --- parts ---


def test_quick_leaves_out_what_needs_more_than_the_engine(parts: Parts) -> None:
    assert call_harness("test", "-k", "pool").status == 0
    assert list(parts.run) == ["tests", "timing"]
    for command in parts.run.values():
        assert "not full and not kernel_lab" in _chosen(command)
        assert command[-2:] == ["-k", "pool"]
    assert "not timing" in _chosen(parts.run["tests"])
    assert "-n" in parts.run["tests"]
    assert "-n" not in parts.run["timing"]


def test_full_runs_the_guest_beside_the_rest_and_timing_last_and_alone(parts: Parts) -> None:
    """Each test once: marks are evaluated as pytest does."""
    assert call_harness("test", "--full").status == 0
    order = ["guest begins", *(f"{name} is built" for name in ("asan", "tsan", "clang"))]
    order += ["tests begins", "tests ends", "sanitizers begins", "sanitizers ends", "guest ends"]
    assert parts.events == [*order, "timing begins", "timing ends"]
    assert "--build=asan" in parts.run["sanitizers"]
    assert parts.env["sanitizers"]["LD_PRELOAD"] == "libasan.so"
    assert "-n" not in [*parts.run["guest"], *parts.run["timing"]]
    marks = [_chosen(parts.run[name]) for name in ("guest", "tests", "timing")]
    for test in ("", "full", "kernel_lab", "timing", "sanitized", "full kernel_lab"):
        names = dict.fromkeys(("full", "kernel_lab", "timing", "sanitized"), False)
        names |= dict.fromkeys(test.split(), True)
        assert sum(bool(eval(mark, {}, names)) for mark in marks) == 1, test


# --- outcomes ---


def test_a_line_for_each_part_and_the_sum(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = types.SimpleNamespace(monotonic=itertools.count(step=60.0).__next__)
    monkeypatch.setattr(testrun, "time", minutes)  # one at each look
    parts.status["timing"] = 1
    done = call_harness("test")
    assert done.status == 1
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[-3] == "tests 0:01:00 2 passed, 0 failed, 1 skipped"
    assert lines[-2] == "timing 0:01:00 1 passed, 1 failed, 1 skipped"
    assert lines[-1] == "tests: 3 passed, 1 failed, 2 skipped, in 0:05:00"


def test_what_crashes_counts_as_failed_and_the_rest_is_run(parts: Parts) -> None:
    for name, status, said in (
        ("guest", -9, "pytest ended with status -9"),
        ("tests", 3, "pytest ended with status 3"),
        ("clang", 1, "build of clang"),
    ):
        parts.status = {name: status}
        done = call_harness("test", "--full")
        assert done.status == 1
        assert said in done.stdout
        assert ", 1 failed, " in done.stdout.splitlines()[-1]
        assert parts.events[-1] == "timing ends"


def test_tests_that_are_skipped_were_chosen(parts: Parts) -> None:
    parts.status = {"tests": 0, "timing": 5}
    parts.counts[0] = (2, 0, 2)
    assert call_harness("test", "-k", "rdma").status == 0
    parts.status["tests"] = 5
    done = call_harness("test", "-k", "nosuch")
    assert (done.status, done.stderr) == (5, "nfsmulti: no test was chosen\n")


def test_outcomes_of_a_real_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testrun, "_FOLDER", tmp_path)
    well, crash = tmp_path / "test_well.py", tmp_path / "test_crash.py"
    skipped = 'import pytest\n\n@pytest.mark.skip("so")\ndef test_skipped(): pass\n'
    well.write_text(f"{skipped}\ndef test_well(): pass\n\ndef test_wrong(): assert False\n")
    crash.write_text("import os\n\ndef test_well(): pass\n\ndef test_crash(): os._exit(9)\n")
    found = []
    for file in (well, crash):
        session = _Session([str(file), "-q", "-p", "no:cacheprovider"])
        session._run(Part(file.stem, "not timing"))
        (outcome,) = session._outcomes
        assert session.summary() == 1
        found.append((outcome.passed, outcome.failed, outcome.skipped, outcome.trouble))
    assert found == [(1, 1, 1, ""), (0, 0, 0, "pytest ended with status 9")]


# --- what tests start ---

# Neither our mark nor our group tells the process that it leaves from others.
_LEAVES = """
import subprocess, time

def test_leaves():
    subprocess.run(["ip", "netns", "add", "{}"], check=True)
    subprocess.Popen(["setsid", "env", "-i", "sleep", "1000"])
    print("left", flush=True)
    time.sleep(1000)
"""
_RUNS = """
import sys
from pathlib import Path
import testrun
from nfsmulti import processes

testrun._FOLDER = Path(sys.argv[1])
processes.end_politely()
words = [f"{sys.argv[1]}/test_left.py", "-s", "-p", "no:cacheprovider"]
testrun._Session(words)._run(testrun.Part("left", ""))
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_nothing_that_a_test_starts_outlives_the_runner(number: str, tmp_path: Path) -> None:
    needs_privileges()
    (tmp_path / "test_left.py").write_text(_LEAVES.format(tmp_path.name))
    argv = ["env", "--default-signal=INT", sys.executable, "-c", _RUNS, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(PYTHON_TESTS)}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        assert any(b"left" in line for line in runner.stdout)
        runner.send_signal(signal.Signals[number])
        try:
            runner.communicate(timeout=60)  # until nobody is left who could write
        finally:
            runner.kill()
    assert tmp_path.name not in namespaces()


def test_without_privileges_pytest_runs_where_we_are_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testrun, "_ENTER", ["false"])
    assert testrun._enclosed.__wrapped__() == []
    assert "servers that they started go on running" in capsys.readouterr().err


# --- limits ---


def test_a_limit_is_multiplied_by_how_slow_the_machine_is(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Right before or right after; what was taken is told with it. Not all tests have one."""
    with pytest.raises(AssertionError, match="only tests marked `timing`"):
        request.getfixturevalue("within")
    now, slowness = [100.0], iter([1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 3.0])
    monkeypatch.setattr(limits, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(limits, "_slowness", lambda: next(slowness))
    figures: list[tuple[str, object]] = []

    def take(seconds: float) -> None:
        with limits._within(figures, 5.0):
            now[0] += seconds

    take(4.9)
    with pytest.raises(AssertionError, match=r"5\.10 s of 5 s"):
        take(5.1)
    for _ in ("slow before", "slow after"):
        take(14.9)
    assert figures[0] == ("timing", "4.90 s of 5 s, on a machine 1.0 times as slow")
