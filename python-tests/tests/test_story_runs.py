# SPDX-License-Identifier: GPL-2.0-only
"""run metadata: what it runs, where it says operations stop growing, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import pytest
from conftest import needs_privileges, or_skip
from run_helpers import QUIET, REPORT, begun, staged_fio

from nfsmulti import export
from nfsmulti.errors import HarnessError
from nfsmulti.export import Usage
from nfsmulti.fiorun import Engine, FioReport
from nfsmulti.lab import Lab
from nfsmulti.processes import find, run
from nfsmulti.run import command, start
from nfsmulti.run.cell import Entries, run_cell
from nfsmulti.run.cell import command as command_of
from nfsmulti.run.place import OnPool
from nfsmulti.run.plan import PlannedCell
from nfsmulti.run.watch import fio_options
from nfsmulti.scenario import CellSpec, Choice, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.stories.metadata import OPERATIONS
from nfsmulti.summary import Summary

_METADATA = SCENARIOS["metadata"]

# --- what is run ---


def test_fio_s_own_engines_end_when_all_entries_are_done_and_ask_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fio's set-up has looked up is forgotten before filestat begins."""
    place, engine = OnPool("nfs://127.0.0.1/a"), Engine(tmp_path / "no.so")
    monkeypatch.setattr(place, "mounts", lambda _: [str(tmp_path)])
    cells = _METADATA.cells(Scale(choice=Choice((1,), depth=(32,), mounts=True)))
    for cell in [one for one in cells if one.client == "mount"]:
        words = command_of(cell, place, engine, tmp_path)
        before = next(word for word in words if word.startswith("--exec_prerun="))
        assert ("drop_caches" in before) == (cell.options["ioengine"] == "filestat")
        assert not [word for word in words if word.startswith(("--size=", "--time_based"))]


def test_a_command_before_the_first_io_runs_once_or_ends_all(tmp_path: Path) -> None:
    """It runs when the last job has come, so that no I/O is before it."""
    job = ["fio", "--output-format=json", "--ioengine=null", "--size=4k", "--numjobs=4"]
    job += ["--name=t", "--group_reporting"]

    def operations(command: str) -> int:
        folder = Path(mkdtemp(dir=tmp_path))
        words = [f"--{name}={value}" for name, value in fio_options(folder, 4, command).items()]
        report = FioReport.parse(run([*job, *words], timeout=60, cwd=tmp_path).stdout)
        assert report
        return report.operations("read")

    assert operations(f"wc -l <$file.came >>{tmp_path}/log") == 4
    assert (tmp_path / "log").read_text() == "4\n"
    assert operations("false") == 0


# --- the entries of a cell ---


def _cell(operation: str) -> CellSpec:
    return next(c for c in _METADATA.cells(Scale(True)) if c.factors["operation"] == operation)


def test_what_ended_a_cell_is_said_where_its_entries_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount's before its fio began; the engine's in less time, for the server may be gone."""
    peers = _METADATA.cells(Scale(True, choice=Choice(mounts=True)))
    mounted = next(cell for cell in peers if cell.client == "mount")
    limits: list[float] = []

    def late(*_: object, seconds: float, **__: object) -> Usage:
        limits.append(seconds)
        raise HarnessError("late")

    monkeypatch.setattr(export, "remove_unmarked", late)
    place, engine = OnPool(str(tmp_path)), Engine(Path())

    def entries(spec: CellSpec) -> Entries:
        return Entries(spec, place, engine, tmp_path)

    with pytest.raises(HarnessError, match="gone"), entries(mounted):
        raise HarnessError("gone")
    with pytest.raises(HarnessError, match="gone"), entries(_cell("create")):
        raise HarnessError("gone")
    with pytest.raises(HarnessError, match="late"), entries(_cell("create")):
        pass
    after_failure, usual = limits
    assert after_failure < usual / 5


@pytest.mark.parametrize("report", ["", '{\n "jobs": 1}\n', '{\n "jobs": [{"write": null}]}\n'])
def test_entries_that_were_not_made_fail_a_cell_that_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    monkeypatch.setenv("PATH", staged_fio(tmp_path, 1, REPORT.format(said=report)))
    cell = PlannedCell("one", 1, 1, _cell("remove"))
    place = OnPool(str(tmp_path))
    found = run_cell(cell, place, Engine.built(), tmp_path, lambda *_: None)
    assert found.status == "failed"
    assert found.why


# --- over nfs-ganesha ---


def test_run_in_the_lab_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over NFSv3 and another's server: test_run_directory.py."""
    needs_privileges()
    with or_skip():
        find("ganesha.nfsd")
    left: list[str] = []
    stop = Lab.stop

    def look_and_stop(lab: Lab) -> None:
        left.extend(str(path.relative_to(lab.export_dir)) for path in lab.export_dir.rglob("*"))
        stop(lab)

    monkeypatch.setattr(Lab, "stop", look_and_stop)
    monkeypatch.setenv("NFSMULTI_CELL_SECONDS", "0.3")
    monkeypatch.setattr(command, "_out", QUIET)
    choice = Choice((1,), version=("4.1",), depth=(8,))
    record = begun(tmp_path, start.Request(repeat=1, choice=choice), "metadata")
    assert command._carry_out(record) == 0
    assert left == []
    summary = Summary.load(record.folder)
    assert len(summary.done) == len(OPERATIONS)
    for cell in summary.done:
        made = record.folder / cell.folder / "make" / "fio.json"
        assert made.exists() == (cell.factors["operation"] == "remove")
        assert cell.ops > 1
    assert "creates/s" in (record.folder / "report.html").read_text()
