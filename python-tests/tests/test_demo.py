# SPDX-License-Identifier: GPL-2.0-only
"""The demo: what it says of made figures, and short runs of it in a lab and without privileges."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from conftest import missing

from nfsmulti import privileges
from nfsmulti.demo import command
from nfsmulti.demo.outcome import Outcome, story
from nfsmulti.demo.workloads import IN_LAB, ON_LOOPBACK
from nfsmulti.errors import MissingError
from nfsmulti.lab import fit
from nfsmulti.paths import PYTHON_TESTS, ROOT
from nfsmulti.processes import run
from nfsmulti.report.verdict import Verdict
from nfsmulti.summary import Cell, Figures

_SECONDS, _CORES = 3.0, 2
_DD, _FSPERF = IN_LAB[:2]
_USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_CAPABILITIES = ("setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-all")
_SHORT_DEMO = """
import sys
from dataclasses import replace
from pathlib import Path
from nfsmulti.demo import command
command.REPEATS, command.FIT_SECONDS, command.RESULTS = 1, 0.5, Path(sys.argv[1])
command.ON_LOOPBACK = [replace(one, seconds=0.5) for one in command.ON_LOOPBACK]
command.demo()
"""


def _cells(rates: Sequence[float], busy_cores: float) -> list[Cell]:
    """Make a repeat for each rate in MB/s, during which so many cores were busy."""
    blank = Figures(100, 100, _SECONDS, 1e3, 0, 1e3, 1e3, 1e3, 1e3, 1e3, {"1000": 100})
    return [
        Cell(
            id="",
            factors={},
            repeat=1,
            status="done",
            folder="",
            command="",
            read=dataclasses.replace(blank, bytes_per_s=rate * 1e6),
            cpu_s=0.3,
            machine_cpu_s=busy_cores * _SECONDS,
            paths={"one": 0.5, "other": 0.5},
        )
        for rate in rates
    ]


def _fsperf(one: Sequence[float], many: Sequence[float], busy_cores: float = 1.2) -> Outcome:
    """Give fsperf with these rates, where a cap is 387 MB/s and the link 587 MB/s."""
    limits = fit(1.2e9, link=_FSPERF.link, cap=_FSPERF.cap, paths=_FSPERF.connections)
    assert limits.cap == 3100e6
    sides = _cells(one, busy_cores), _cells(many, busy_cores)
    return Outcome(_FSPERF, limits, *sides, cores=_CORES)


def test_an_effect_that_is_shown() -> None:
    outcome = _fsperf([380, 381, 379], [575, 574, 576])
    assert outcome.verdict is Verdict.HOLDS
    said = story(outcome)
    assert "fsperf: one reader reads on four paths 1.51 (1.51 to 1.52) times" in said
    assert "published were 1.53 times" in said
    assert "The story holds here. One connection has reached its cap of 3.1 Gbit/s." in said
    assert "Several have reached the link's 4.7 Gbit/s. Share of each path: 50% 50%." in said


def test_limits_that_were_not_reached_are_not_what_held_the_sides() -> None:
    said = story(_fsperf([250, 251, 249], [400, 399, 401]))
    assert "holds here. One connection stayed below its cap of 3.1 Gbit/s. Share of each" in said


def test_processors_that_are_the_limit() -> None:
    outcome = _fsperf([380, 382, 378], [384, 380, 381], busy_cores=1.97)
    assert outcome.verdict is Verdict.NOT
    said = story(outcome)
    assert "The story does not hold here. The processors are the limit: 98% of 2 cores" in said
    assert "reached" not in said


def test_a_cap_that_was_not_reached() -> None:
    said = story(_fsperf([200, 201, 199], [200, 202, 198]))
    assert "does not hold here. One connection did not reach its cap of 3.1 Gbit/s" in said


def test_an_effect_that_is_missing_for_no_known_reason() -> None:
    said = story(_fsperf([380, 382, 378], [384, 380, 381]))
    assert "does not hold here. No reason was found" in said
    assert "(60% of 2 cores were busy)" in said


def test_figures_that_vary_too_much() -> None:
    outcome = _fsperf([200, 380, 300], [576, 300, 450])
    assert outcome.verdict is Verdict.UNTOLD
    assert "cannot be told. One connection did not reach" in story(outcome)


def test_a_workload_that_failed() -> None:
    outcome = Outcome(_DD, why="fio: status 1: no space left")
    assert story(outcome) == "dd was not measured: fio: status 1: no space left."
    assert outcome.ratio is None


def test_a_workload_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _shorten(monkeypatch, tmp_path)
    broken = dataclasses.replace(ON_LOOPBACK[0], options={"rw": "sideways"})
    last = dataclasses.replace(ON_LOOPBACK[2], seconds=0.5)
    monkeypatch.setattr(command, "ON_LOOPBACK", [broken, last])
    monkeypatch.setattr(privileges, "missing", lambda: "not root")
    with pytest.raises(typer.Exit):
        command.demo()
    printed = " ".join(capsys.readouterr().out.split())
    assert "dd was not measured: fio" in printed
    assert "randread: four connections to one address read" in printed


def _shorten(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(command, "REPEATS", 1)
    monkeypatch.setattr(command, "FIT_SECONDS", 0.5)
    monkeypatch.setattr(command, "RESULTS", folder)


def test_demo_leaves_figures_a_plot_and_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if lacking := privileges.missing():
        missing(MissingError(lacking))
    _shorten(monkeypatch, tmp_path)
    short = [dataclasses.replace(workload, seconds=0.5) for workload in IN_LAB]
    monkeypatch.setattr(command, "IN_LAB", short)
    command.demo()
    (folder,) = (tmp_path / "demo").iterdir()
    assert (folder / "demo.png").stat().st_size > 10_000
    rows = json.loads((folder / "summary.json").read_text())["rows"]
    assert list(rows) == [workload.name for workload in IN_LAB]
    assert [len(rows["dd"][side][0]["paths"]) for side in ("one", "many")] == [1, 5]
    assert "--spread=roundrobin" in rows["fsperf"]["many"][0]["command"]
    assert "--nconnect=4" in rows["randread"]["many"][0]["command"]
    printed = " ".join(capsys.readouterr().out.split())
    assert "fsperf, 4 paths" in printed
    assert "published were 1.53 times (NFSv3, 10 GbE" in printed
    assert f"lab start --link {rows['fsperf']['fit']['link'] // 10**6}mbit" in printed


@pytest.mark.parametrize(
    ("enter", "lacking"),
    [(_USER, "not root"), (_CAPABILITIES, "no CAP_SYS_ADMIN and CAP_NET_ADMIN")],
)
def test_demo_without_privileges(enter: Sequence[str], lacking: str) -> None:
    if os.geteuid() or run([*enter, "test", "-r", str(ROOT)], timeout=20).status:
        pytest.skip(f"{ROOT} cannot be read after {' '.join(enter)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        argv = [*enter, sys.executable, "-c", _SHORT_DEMO, str(folder)]
        env = {"PYTHONPATH": str(PYTHON_TESTS), "MPLCONFIGDIR": name}
        done = run(argv, timeout=100, env=env).check()
        (summary,) = folder.glob("demo/*/summary.json")
        rows = json.loads(summary.read_text())["rows"]
    printed = " ".join(done.stdout.split())
    assert f"not permitted here ({lacking})" in printed
    assert "answers READ from memory and discards WRITE" in printed
    assert "Left out without namespaces: real servers (nfs-ganesha), writes" in printed
    assert "lab start" not in printed
    assert list(rows) == ["dd", "fsperf", "randread"]
    assert [len(rows["fsperf"][side][0]["paths"]) for side in ("one", "many")] == [1, 4]
    assert all(row["many"][0]["write"] is None for row in rows.values())
