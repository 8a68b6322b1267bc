# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti run, with cells of a moment each."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import run_harness

from nfsmulti import paths
from nfsmulti.processes import Completed, Process, find
from nfsmulti.summary import Summary

_SECONDS = 90.0
_SHORT = {"NFSMULTI_CELL_SECONDS": "0.2"}

# Stands for a fio whose first report is broken, and for the real one from then on.
_BROKEN_ONCE = """\
#!/bin/sh
for word; do
	case $word in
	--output=*)
		mkdir {marker} 2>/dev/null || break
		printf '{said}' >"${{word#--output=}}"
		exit 0
		;;
	esac
done
exec {fio} "$@"
"""


@pytest.fixture
def mount(tmp_path: Path) -> str:
    """Give a pool that needs no server: a directory."""
    folder = tmp_path / "mount"
    folder.mkdir()
    return str(folder)


def _run(results: Path, *words: str, env: Mapping[str, str] | None = None) -> Completed:
    return run_harness(
        "run", *words, "--results", str(results), env={**_SHORT, **(env or {})}, timeout=_SECONDS
    )


def _only(results: Path, scenario: str = "dd") -> Path:
    (folder,) = (results / scenario).iterdir()
    return folder


def _statuses(folder: Path) -> Counter[str]:
    return Counter(cell.status for cell in Summary.load(folder).cells)


def test_pool_runs_every_cell_and_leaves_what_fio_said(tmp_path: Path, mount: str) -> None:
    done = _run(tmp_path, "dd", "--pool", mount, "--quick", "--label", "own")
    assert done.status == 0, done.stderr
    assert "left out: capped and uncapped" in done.stdout
    folder = _only(tmp_path)
    assert folder.name.endswith("Z-own")
    summary = Summary.load(folder)
    assert summary.place["kind"] == "pool"
    assert summary.ended
    assert _statuses(folder) == {"done": 12}
    assert {cell.repeat for cell in summary.cells} == {1, 2}
    for cell in summary.cells:
        kept = folder / cell.folder
        assert json.loads((kept / "fio.json").read_text())["jobs"]
        assert (kept / "stderr").exists()
        assert (kept / "command").read_text().strip() == cell.command
        side = cell.write if cell.factors["direction"] == "write" else cell.read
        assert side is not None
        assert sum(side.bins.values()) == side.ops
        assert len(cell.jobs) == cell.factors["streams"]
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["machine"]["engine_sha256"]
    assert environment["pool"]["sysctls"]["net.ipv4.tcp_rmem"]
    assert "finished" in _run(tmp_path, "dd", str(folder), "--resume").stderr


def test_kill_loses_no_more_than_the_cell_under_way(tmp_path: Path, mount: str) -> None:
    argv = [sys.executable, "-m", "nfsmulti", "run", "dd", "--pool", mount, "--quick"]
    env = {**_SHORT, "PYTHONPATH": str(paths.PYTHON_TESTS)}
    with Process([*argv, "--results", str(tmp_path)], env=env) as process:
        folder = _wait_for_cells(tmp_path, 3)
        process.signal(signal.SIGKILL)
        process.wait(10)
    before = Summary.load(folder)
    kept = {cell.id: (folder / cell.folder / "fio.json") for cell in before.done}
    written = {name: file.stat().st_mtime_ns for name, file in kept.items()}
    assert 3 <= len(kept) < 12
    done = _run(tmp_path, "dd", "--resume")
    assert done.status == 0, done.stdout + done.stderr
    after = Summary.load(folder)
    assert _statuses(folder) == {"done": 12}
    assert [cell.id for cell in after.cells] == [cell.id for cell in before.cells]
    assert {name: file.stat().st_mtime_ns for name, file in kept.items()} == written
    assert "holds no unfinished run" in _run(tmp_path, "dd", "--resume").stderr


def _wait_for_cells(results: Path, count: int) -> Path:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        for folder in (results / "dd").glob("*"):
            if (folder / "summary.json").exists() and len(Summary.load(folder).done) >= count:
                return folder
        time.sleep(0.05)
    raise AssertionError("no cell has ended")


def test_interrupt_says_how_to_go_on(tmp_path: Path, mount: str) -> None:
    argv = [sys.executable, "-m", "nfsmulti", "run", "dd", "--pool", mount, "--quick"]
    env = {**_SHORT, "PYTHONPATH": str(paths.PYTHON_TESTS)}
    with (
        (tmp_path / "said").open("w+b") as said,
        Process([*argv, "--results", str(tmp_path)], env=env, stdout=said) as process,
    ):
        folder = _wait_for_cells(tmp_path, 1)
        process.signal(signal.SIGINT)
        assert process.wait(20) == 130
    text = (tmp_path / "said").read_text()
    assert f"stopped; go on with: ./nfsmulti run dd --resume {paths.shown(folder)}" in text
    assert _statuses(folder)["failed"] == 0


@pytest.mark.parametrize("said", ["{\\n broken", '{\\n "jobs": [{}]\\n}\\n', ""])
def test_broken_json_fails_its_cell_alone(tmp_path: Path, mount: str, said: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    script = _BROKEN_ONCE.format(marker=tmp_path / "marker", said=said, fio=find("fio"))
    (programs / "fio").write_text(script)
    (programs / "fio").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    results = tmp_path / "results"
    words = ["--pool", mount, "--quick", "--repeat", "1"]
    done = _run(results, "dd", *words, env=env)
    assert done.status == 1, done.stderr
    assert "1 of 6 cells failed" in done.stdout
    folder = _only(results)
    (failed,) = [cell for cell in Summary.load(folder).cells if cell.status == "failed"]
    assert failed.why
    assert "JSON" in failed.why
    assert "\n" not in failed.why
    assert _statuses(folder) == {"done": 5, "failed": 1}
    again = _run(results, "dd", str(folder), "--resume")
    assert again.status == 0, again.stdout + again.stderr
    assert _statuses(folder) == {"done": 6}
