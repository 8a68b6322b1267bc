# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti test: which parts run, here or in the guest, what becomes of them, and limits of time.

And ./nfsmulti faults: which tests it runs, and the tables and the status that it makes of them.
"""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import slow_machine
from conftest import call_harness, namespaces, needs_privileges, refusal

import testrun
from nfsmulti import texts
from nfsmulti.errors import HarnessError
from nfsmulti.paths import PYTHON_TESTS, ROOT, shown
from nfsmulti.processes import Completed, claimed, run
from testrun import Part, _Session

_JUNIT = """<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}">{}</testsuite>
</testsuites>"""


@dataclass
class Parts:
    """Stands for pytest and for the builds: what each is run with, and how it shall end.

    `counts` are tests, failures, errors and skips of a part that ends with a status; `cases` are
    JUnit's of the tests here and in the guest.
    """

    status: dict[str, int | type[BaseException]] = field(default_factory=dict)
    counts: dict[object, tuple[int, ...]] = field(
        default_factory=lambda: {0: (3, 0, 0, 1), 1: (12, 1, 2, 4), 5: (0, 0, 0, 0)}
    )
    cases: Sequence[str] = ("", "")
    run: dict[str, list[str]] = field(default_factory=dict)
    env: dict[str, dict[str, str]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    def start(self, part: Part, arguments: Sequence[str], _output: int | None = None) -> Any:
        self.events.append(f"{part.name} begins")
        self.run[part.name], self.env[part.name] = part.command(arguments), dict(part.env)
        status = self.status.get(part.name, 0)
        if counts := self.counts.get(status):
            cases = self.cases[part.marks == "kernel_lab"]
            part.junit.write_text(_JUNIT.format(*counts, cases))

        def wait() -> int:
            self.events.append(f"{part.name} ends")
            if isinstance(status, int):
                return status
            raise status

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
    assert ["-n" in parts.run[name] for name in parts.run] == [True, False]


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


@pytest.mark.parametrize(
    ("words", "ends", "status", "said"),
    [
        ("", {"timing": 1}, 1, "tests 0:01:00 2 passed, 0 failed, 1 skipped"),
        ("", {"timing": 1}, 1, "timing 0:01:00 5 passed, 3 failed, 4 skipped"),
        ("", {"timing": 1}, 1, "tests: 7 passed, 3 failed, 5 skipped, in 0:05:00"),
        # What crashes counts as failed, and the rest is run.
        ("--full", {"guest": -9}, 1, "pytest ended with status -9"),
        ("--full", {"guest": -9}, 1, "tests: 6 passed, 1 failed, 3 skipped, in "),
        ("--full", {"tests": 3}, 1, "pytest ended with status 3"),
        ("--full", {"tests": 3}, 1, " 1 failed, "),
        ("--full", {"clang": 1}, 1, "build of clang"),
        ("--full", {"clang": 1}, 1, " 1 failed, "),
        # Tests that are skipped were chosen.
        ("-k rdma", {"timing": 5}, 0, "tests: 2 passed, 0 failed, 1 skipped, in 0:05:00"),
        ("-k nosuch", {"tests": 5, "timing": 5}, 5, "nfsmulti: no test was chosen"),
    ],
)
def test_what_becomes_of_parts_and_their_sum(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, words: str, ends: Any, status: int, said: str
) -> None:
    minutes = types.SimpleNamespace(monotonic=itertools.count(step=60.0).__next__)
    monkeypatch.setattr(testrun, "time", minutes)  # one at each look
    parts.status = ends
    done = call_harness("test", *words.split())
    lines = f"{done.stdout}{done.stderr}".splitlines()
    assert (done.status, said in " ".join(" ".join(lines).split())) == (status, True), lines
    assert parts.events[-1] == "timing ends"


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
    monkeypatch.setattr(slow_machine, "_now", lambda: now[0])
    monkeypatch.setattr(slow_machine, "_slowness", lambda: next(slowness))
    figures: list[tuple[str, object]] = []

    def take(seconds: float) -> None:
        with slow_machine._within(figures, 5.0):
            now[0] += seconds

    take(4.9)
    with pytest.raises(AssertionError, match=r"5\.10 s of 5 s"):
        take(5.1)
    for _ in ("slow before", "slow after"):
        take(14.9)
    assert figures[0] == ("timing", "4.90 s of 5 s, on a machine 1.0 times as slow")


# --- the guest, and a machine that stands still: in_guest.py, slow_machine.py ---

# The guest here is a mere process.
_CONFTEST = """
import os, subprocess
import in_guest
from nfsmulti.errors import HarnessError, MissingError

pytest_plugins = ("in_guest", "slow_machine")

def run_in_guest(command, config):
    if os.environ["GUEST"] == "missing":
        raise MissingError("qemu is not installed", "install it")
    if os.environ["GUEST"] == "dies":
        raise HarnessError("the guest ended before the command")
    print("booted", config.results, flush=True)
    return subprocess.run(command, env={**os.environ, "NFSMULTI_LAB_EXPORT": "/export"}).returncode

in_guest.run_in_guest = run_in_guest
"""
_INNER = """
import os, pytest, signal, subprocess

@pytest.mark.kernel_lab
@pytest.mark.parametrize("number", [1, 2])
def test_there(number):
    assert "NFSMULTI_LAB_EXPORT" in os.environ
    assert number == 1, "quite wrong"

made = []

@pytest.fixture(scope="module")
def number():
    made.append(len(made))
    if len(made) == 1:
        subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    return made[-1]

def test_before(number):
    pass

def test_standstill(number):
    assert number == 1, "too early"

def test_skipped_then(number):
    assert number == 1, "too early"
    pytest.skip("nothing lacked before")

def test_wrong():
    assert False
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a folder of such tests, below the root as the real ones are."""
    if not tmp_path.is_relative_to(ROOT):
        pytest.skip("temporary folders lie elsewhere; ./nfsmulti test has them in build/")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_inner.py").write_text(_INNER)
    return tmp_path


def _pytest(folder: Path, *words: str, guest: str = "", ci: str = "") -> Completed:
    argv = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
    argv += ["-p", "no:cacheprovider", "--no-header", "-rA", "--tb=short", str(folder), *words]
    path = f"{PYTHON_TESTS / 'tests'}:{os.environ.get('PYTHONPATH', '')}"
    env = {"PYTHONPATH": path, "GUEST": guest, "CI": ci}
    return run(argv, timeout=240, cwd=ROOT, env=env)


def test_tests_for_the_guest_run_there_alone_and_are_told_here(host: Path) -> None:
    done = _pytest(host, "-m", "kernel_lab", f"--junitxml={host}/there/junit.xml")
    assert done.status == 1, done.stdout
    assert done.stdout.startswith(f"booted {host}/there\n")
    assert "1 failed, 1 passed" in done.stdout
    assert "quite wrong" in done.stdout
    assert 'tests="2"' in (host / "there/junit.xml").read_text()
    none = _pytest(host, "-m", "kernel_lab", "-k", "nosuch")
    assert (none.status, "booted" in none.stdout) == (5, False)
    here = _pytest(host, "-k", "there")
    assert (here.status, here.stdout.count("it runs in the guest, by -m kernel_lab")) == (0, 1)


def test_a_guest_that_is_missing_or_dies_is_told(host: Path) -> None:
    """What it lacks is a skip, and where nothing may be missing a failure."""
    skipped = _pytest(host, "-m", "kernel_lab", guest="missing")
    assert (skipped.status, "qemu is not installed" in skipped.stdout) == (0, True)
    words = ("-m", "kernel_lab", f"--junitxml={host}/junit.xml")
    failed = _pytest(host, *words, guest="missing", ci="true")
    assert (failed.status, "qemu is not installed" in failed.stderr) == (1, True)
    died = _pytest(host, *words, guest="dies")
    assert (died.status, died.stderr) == (3, "nfsmulti: the guest ended before the command\n")
    assert not (host / "junit.xml").exists()  # by which ./nfsmulti test would count no failure


def test_what_fails_while_the_machine_stands_still_runs_again(host: Path) -> None:
    """So does one whose fixture met it in a test before. What else fails does not."""
    done = _pytest(host, "-k", "before or standstill or wrong")
    assert "1 failed, 2 passed" in done.stdout
    assert done.stdout.count(" runs again\n") == 1
    (told,) = (line for line in done.stdout.splitlines() if "stood still" in line)
    assert "test_standstill: it failed while the machine stood still for" in told
    assert told.endswith("too early")
    then = _pytest(host, "-k", "skipped_then")  # a skip afterwards hides no failure
    assert "1 failed" in then.stdout
    assert "too early" in then.stdout


# --- ./nfsmulti faults ---


def _case(name: str, became: str = "", **noted: str) -> str:
    """Write a test's element of pytest's JUnit file: it passed, or failed or was skipped."""
    inner = "".join(f'<property name="{key}" value="{noted[key]}"/>' for key in noted)
    if became:
        inner += f'<{became} message="no {name}">def test():\nE   it hung</{became}>'
    return f'<testcase name="{name}">{inner}</testcase>'


def test_real_scenarios_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testrun, "_FOLDER", tmp_path)
    results = tmp_path / "faults"
    done = call_harness("faults", "--results", str(results), "--filter", "scenarios soft_gives_up")
    assert done.status == 0, done.stdout
    told = (results / "report.md").read_text()
    assert "4 of 4 tests ended as expected; 4 of these are scenarios" in told


def test_cells_are_a_grid_and_what_is_not_as_expected_is_told(tmp_path: Path, parts: Parts) -> None:
    cells = {"read, hard": "", "write, soft": "failure", "write, hard": "error", "x, hard": ""}
    noted = {"read, hard": {"outcome": "held", "short": "it waits"}}
    here = [
        _case(f"test_cell[a, b, {one}, tcp]", became, **noted.get(one, {"outcome": "done"}))
        for one, became in cells.items()
    ]
    here += [_case("test_cell[c, read, soft, tcp]", "skipped"), _case("test_a_loss_is_told")]
    parts.cases = "".join(here), _case("test_cell_over_rdma[d, x, failover, rdma]", outcome="EIO")
    words = ("faults", "--results", str(tmp_path / "faults"))
    parts.status = {"faults": 1}
    done = call_harness(*words)
    assert done.status == 1
    text = (tmp_path / "faults/report.md").read_text()
    assert "4 of 7 tests ended as expected; 1 of these are scenarios" in text
    assert "| a, b | read: held*; write: ✗ done; x: done | write: ✗ done |  |" in text
    assert f"| c |  | read: {texts.MISSING} |  |" in text
    tcp, _, rdma = text.partition("**knfsd, RDMA**\n\n")
    assert "| d |  |  | x: EIO |" in rdma
    assert ("| d |" in tcp, "| c |" in rdma) == (False, False)
    assert "\\* a, b, read, hard, tcp: it waits." in text
    for told in (
        "NOT AS EXPECTED: a, b, write, soft, tcp: it hung",
        "not run: c, read, soft, tcp: no test_cell[c, read, soft, tcp]",
    ):
        assert told in done.stdout
        assert f"- {told}" in text


def test_what_has_ended_is_kept_where_pytest_is_interrupted_or_crashes(
    tmp_path: Path, parts: Parts
) -> None:
    said = "^pytest ended with status -9, and 1 tests ran$"
    for status, error, why in (
        (KeyboardInterrupt, KeyboardInterrupt, None),
        (-9, HarnessError, said),
    ):
        parts.status, parts.cases = {"faults": status}, (_case("test_a_loss_is_told"), "")
        parts.counts[status] = (1, 0, 0, 0)
        folder = tmp_path / error.__name__
        with pytest.raises(error, match=why):
            call_harness("faults", "--brief", "--results", str(folder))
        assert "1 of 1 tests ended as expected" in (folder / "report.md").read_text()


def test_jobs_are_listed_and_not_run() -> None:
    done = call_harness("faults", "--list", "--filter", "SIGSTOP soft")
    assert done.stdout == "server stopped (SIGSTOP) for 5 s, read, soft, tcp\n"
    for words in ("nosuch", "()"):
        told = refusal("faults", "--list", "--filter", words)
        assert "no test's name has all these words" in told


@pytest.mark.parametrize(
    "words", [("faults",), ("soak",), ("bench", "stall", "--quick")], ids=lambda words: words[0]
)
def test_a_folder_has_one_run(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = f"{shown(tmp_path)} is not empty, or another run has it\n  name another --results"
    with claimed(tmp_path):
        assert refusal(*words, "--results", str(tmp_path)) == refused
    (tmp_path / "report.md").write_text("of another run")
    assert refusal(*words, "--results", str(tmp_path)) == refused
    assert [file.name for file in tmp_path.iterdir()] == ["report.md"]
