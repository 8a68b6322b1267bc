# SPDX-License-Identifier: GPL-2.0-only
"""Put faults into the engine and the harness, one after the other: tests find each.

Run as a program, by the Python of the tests, with the folder of a build and perhaps numbers of
faults in faults.json, from 1. A fault is found if what it names fails: tests, or nfsmulti-sim
within 2000 jobs. It ends with status 1 where one was not found.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_LIST = Path(__file__).with_suffix(".json")
_SIMULATOR = "nfsmulti-sim"
_JOBS = 2000  # each was found within 1400
_SECONDS = 900  # what takes as long does not end


@dataclass(frozen=True)
class Fault:
    """A file of the source, a text that stands there once, and what stands there instead."""

    file: str
    old: str
    new: str
    what: str  # is wrong then, and what a user would see
    found_by: Sequence[str]  # pytest's names, below python-tests/tests; or nfsmulti-sim


def _build(work: Path, finders: Sequence[str]) -> None:
    target = ["--target", _SIMULATOR] if _SIMULATOR in finders else []
    argv = ["cmake", "--build", str(work), "--parallel", "2", *target]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        sys.exit(f"{argv}: {done.stderr[-800:]}")


def _told(source: Path, work: Path, finders: Sequence[str]) -> str:
    """Return what the finders say of the engine; "": nothing is wrong."""
    names = [str(source / "python-tests/tests" / name) for name in finders]
    argv = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *names]
    if _SIMULATOR in finders:
        argv = [str(work / _SIMULATOR), "--jobs", str(_JOBS)]
    # Where a part is missing, a test that needs it fails, and is not skipped.
    paths = {
        "CI": "true",
        "PYTHONPATH": str(source / "python-tests"),
        "NFSMULTI_BUILD_DIR": str(work),
    }
    try:
        done = subprocess.run(
            argv, cwd=source, env=os.environ | paths, capture_output=True, text=True,
            errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "it does not end"
    if done.returncode > 1:
        sys.exit(f"{argv}: status {done.returncode}: {done.stdout[-800:]}")
    if not done.returncode:
        return ""
    how = f"it ends with status {done.returncode}"  # of a signal: less than 0
    lines = [line for line in (*done.stdout.splitlines(), how) if line.strip()]
    return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[0])


def _try(fault: Fault, source: Path, work: Path) -> str:
    file = source / fault.file
    text = file.read_text()
    if text.count(fault.old) != 1:
        sys.exit(f"{fault.file}: not once there: {fault.old!r}")
    file.write_text(text.replace(fault.old, fault.new))
    _build(work, fault.found_by)
    told = _told(source, work, fault.found_by)
    file.write_text(text)
    return told


def main(build: Path, numbers: Sequence[int]) -> int:
    """Try those faults, or all; return how many were not found."""
    faults = [Fault(**fault) for fault in json.loads(_LIST.read_text())["faults"]]
    chosen = dict(enumerate(faults, start=1))
    chosen = {number: chosen[number] for number in numbers or chosen}
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        source, work = Path(folder, "source"), Path(folder, "source/build")
        users_runs = "[0-9]*T[0-9]*Z*"  # in results/, beside the reference runs
        left_out = shutil.ignore_patterns("build", ".git", users_runs)
        shutil.copytree(_ROOT, source, ignore=left_out)
        headers = f"-DFIO_HEADERS_DIR={build / 'fio-headers'}"
        configure = ["cmake", "-S", str(source), "-B", str(work), headers]
        subprocess.run(configure, check=True, capture_output=True)
        _build(work, [])
        for finders in {tuple(fault.found_by) for fault in chosen.values()}:
            if told := _told(source, work, finders):
                sys.exit(f"these fail without a fault: {finders}: {told}")
        for number, fault in chosen.items():
            print(f"{number} {fault.what}: ", end="", flush=True)
            told = _try(fault, source, work)
            print(told or "NOT FOUND", flush=True)
            missed += not told
    return missed


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1]).resolve(), [*map(int, sys.argv[2:])]) else 0)
