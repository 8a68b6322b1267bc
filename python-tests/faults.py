# SPDX-License-Identifier: GPL-2.0-only
"""Put faults into the engine that a stranger to the tests chose, one after the other.

Run as a program, by the Python of the tests, with the folder of a build and perhaps numbers of
faults.json. Each fault is found if the tests that it names fail. It ends with status 1 where one
was not found.
"""

from __future__ import annotations

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
_SECONDS = 600  # what takes as long does not end


@dataclass(frozen=True)
class Fault:
    """A file of the engine, a text that stands there once, and what stands there instead."""

    id: int
    file: str
    old: str
    new: str
    what: str  # is wrong then, and what a user would see
    found_by: Sequence[str]  # pytest's names, below python-tests/tests


def _build(work: Path) -> None:
    subprocess.run(["cmake", "--build", work, "--parallel", "2"], check=True, capture_output=True)


def _failed(source: Path, work: Path, tests: Sequence[str]) -> bool:
    """Whether one of the tests fails, or does not end."""
    names = [str(source / "python-tests/tests" / name) for name in tests]
    argv = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *names]
    paths = {"PYTHONPATH": str(source / "python-tests"), "NFSMULTI_BUILD_DIR": str(work)}
    try:
        done = subprocess.run(
            argv, cwd=source, env=os.environ | paths, capture_output=True, timeout=_SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    if done.returncode > 1:
        sys.exit(f"pytest ended with status {done.returncode}: {done.stdout.decode()[-800:]}")
    return done.returncode != 0  # by a signal, too: pytest loads the engine


def main(build: Path, numbers: Sequence[int]) -> int:
    """Try those faults, or all; return how many were not found."""
    faults = [Fault(**fault) for fault in json.loads(_LIST.read_text())["faults"]]
    if numbers:
        faults = [fault for fault in faults if fault.id in numbers]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        source, work = Path(folder, "source"), Path(folder, "source/build")
        shutil.copytree(_ROOT, source, ignore=shutil.ignore_patterns("build", ".git"))
        headers = f"-DFIO_HEADERS_DIR={build / 'fio-headers'}"
        configure = ["cmake", "-S", str(source), "-B", str(work), headers]
        subprocess.run(configure, check=True, capture_output=True)
        _build(work)
        for tests in {tuple(fault.found_by) for fault in faults}:
            if _failed(source, work, tests):
                sys.exit(f"these fail without a fault: {tests}")
        for fault in faults:
            file = source / fault.file
            text = file.read_text()
            if text.count(fault.old) != 1:
                sys.exit(f"{fault.file}: not once there: {fault.old!r}")
            file.write_text(text.replace(fault.old, fault.new))
            _build(work)
            found = _failed(source, work, fault.found_by)
            file.write_text(text)
            print(f"{fault.id} {fault.what}: {'found' if found else 'NOT FOUND'}", flush=True)
            missed += not found
    return missed


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1]).resolve(), [*map(int, sys.argv[2:])]) else 0)
