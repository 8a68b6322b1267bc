# SPDX-License-Identifier: GPL-2.0-only
"""in_guest.py: what tests do in the guest is told on the host. The guest here is a mere process."""

import os
import sys
from pathlib import Path

import pytest

from nfsmulti.paths import PYTHON_TESTS, ROOT
from nfsmulti.processes import Completed, run

_CONFTEST = """
import os, pytest, subprocess

pytest_plugins = ("in_guest", "standstill")

def missing(error):
    raise error

def run_in_guest(command, config, *, stdout, stderr, cwd, env):
    env = {**os.environ, **env, "NFSMULTI_LAB_EXPORT": "/export"}
    return subprocess.run(command, stdout=stdout, stderr=stderr, cwd=cwd, env=env).returncode

def pytest_configure():
    import in_guest
    in_guest.run_in_guest = run_in_guest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if "NFSMULTI_LAB_EXPORT" in os.environ and call.when == "call":
        report.duration = 123.0
    return report
"""
_TESTS = """
import os, pytest, signal, subprocess

pytestmark = pytest.mark.kernel_lab
inside = "NFSMULTI_LAB_EXPORT" in os.environ

@pytest.fixture
def broken():
    yield
    assert 1 + 1 == 3

def test_well():
    assert inside

@pytest.mark.parametrize("number", [1, 2])
def test_wrong(number):
    print("said before")
    assert number == 1, "quite wrong"

def test_skipped():
    pytest.skip("for a reason")

def test_broken_afterwards(broken):
    pass

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

def test_crash(capfd):
    with capfd.disabled():
        os.write(2, b"last words")
        os._exit(9)

def test_never_reached():
    pass
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a folder of such tests, below the root as the real ones are."""
    if not tmp_path.is_relative_to(ROOT):
        pytest.skip("temporary folders lie elsewhere; ./nfsmulti test has them in build/")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_inner.py").write_text(_TESTS)
    return tmp_path


def _pytest(folder: Path, *tests: str) -> Completed:
    words = ["-p", "no:cacheprovider", "--no-header", "-rA", "--tb=short", "--durations=1"]
    settings = ["-c", str(ROOT / "pyproject.toml")]
    env = {"PYTHONPATH": f"{PYTHON_TESTS / 'tests'}:{os.environ.get('PYTHONPATH', '')}"}
    argv = [sys.executable, "-m", "pytest", *settings, *words]
    argv += [f"{folder}/test_inner.py::test_{test}" for test in tests]
    return run(argv, timeout=240, cwd=ROOT, env=env)


def test_outcomes_words_and_times_come_back(host: Path) -> None:
    done = _pytest(host, "well", "wrong", "skipped", "broken_afterwards")
    assert done.status == 1, done.stdout
    lines = done.stdout.splitlines()
    for outcome, test in [
        ("PASSED", "test_well"),
        ("PASSED", "test_wrong[1]"),
        ("FAILED", "test_wrong[2]"),
        ("FAILED", "test_broken_afterwards"),
    ]:
        assert any(line.startswith(outcome) and test in line for line in lines), done.stdout
    assert "SKIPPED [1]" in done.stdout
    for words in ("for a reason", "quite wrong", "said before", "assert (1 + 1) == 3"):
        assert words in done.stdout
    assert "123.00s call " in done.stdout


def test_what_fails_while_the_machine_stands_still_runs_again(host: Path) -> None:
    """So does one whose fixture met it in a test before. What else fails does not."""
    done = _pytest(host, "before", "standstill", "wrong", "crash")
    assert "3 passed" in done.stdout
    assert "2 failed" in done.stdout
    assert "::test_standstill runs again\n" in done.stdout  # the guest said so, before it crashed
    (told,) = (line for line in done.stdout.splitlines() if "stood still" in line)
    assert "test_standstill: it failed while the machine stood still for" in told
    assert told.endswith("too early")


def test_a_skip_afterwards_hides_no_failure(host: Path) -> None:
    done = _pytest(host, "skipped_then")
    assert "1 failed" in done.stdout
    assert "too early" in done.stdout


def test_a_crash_in_the_guest_fails_what_did_not_end(host: Path) -> None:
    done = _pytest(host, "well", "crash", "never_reached")
    assert done.status == 1
    assert "1 passed" in done.stdout
    assert "2 failed" in done.stdout
    # Under CI=true pytest says it once more, in its summary.
    assert done.stdout.count("it has not ended in the guest; pytest ended there with status 9") >= 2
    assert "last words" in done.stdout
