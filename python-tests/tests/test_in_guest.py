# SPDX-License-Identifier: GPL-2.0-only
"""in_guest.py and standstill.py. The guest here is a mere process."""

import os
import sys
from pathlib import Path

import pytest

from nfsmulti.paths import PYTHON_TESTS, ROOT
from nfsmulti.processes import Completed, run

_CONFTEST = """
import os, subprocess
import in_guest
from nfsmulti.errors import HarnessError, MissingError

pytest_plugins = ("in_guest", "standstill")

def run_in_guest(command, config):
    if os.environ["GUEST"] == "missing":
        raise MissingError("qemu is not installed", "install it")
    if os.environ["GUEST"] == "dies":
        raise HarnessError("the guest ended before the command")
    print("booted", config.results, flush=True)
    return subprocess.run(command, env={**os.environ, "NFSMULTI_LAB_EXPORT": "/export"}).returncode

in_guest.run_in_guest = run_in_guest
"""
_TESTS = """
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
    (tmp_path / "test_inner.py").write_text(_TESTS)
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


def test_a_skip_afterwards_hides_no_failure(host: Path) -> None:
    done = _pytest(host, "-k", "skipped_then")
    assert "1 failed" in done.stdout
    assert "too early" in done.stdout
