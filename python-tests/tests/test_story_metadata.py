# SPDX-License-Identifier: GPL-2.0-only
"""run metadata: what it runs, where it says operations stop growing, and what it leaves behind."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from itertools import product
from pathlib import Path
from tempfile import mkdtemp

import made_runs
import pytest
from conftest import needs_privileges, or_skip
from made_runs import Maker, changed, metadata_factors, report_of
from run_helpers import QUIET, REPORT, begun, staged_fio

from nfsmulti import export
from nfsmulti.errors import HarnessError
from nfsmulti.export import Usage
from nfsmulti.fiorun import Engine, FioReport
from nfsmulti.lab import Lab
from nfsmulti.processes import find, run
from nfsmulti.run import command, record, start
from nfsmulti.run.cell import Entries, run_cell
from nfsmulti.run.cell import command as command_of
from nfsmulti.run.place import OnPool
from nfsmulti.run.plan import PlannedCell
from nfsmulti.run.watch import fio_options
from nfsmulti.scenario import CellSpec, Choice, OwnPool, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.stories.metadata import OPERATIONS
from nfsmulti.summary import Summary

_METADATA = SCENARIOS["metadata"]

# --- what is run ---


def test_choice_makes_the_cells() -> None:
    chosen = Choice((1, 4), depth=(8, 32), version=("3", "4.1"), workload=("create",))
    cells, said = _METADATA.own_cells(Scale(choice=chosen), OwnPool(urls=2, mounts=0))
    assert said == []
    levels = [(c.factors["version"], c.factors["depth"], c.factors["nconnect"]) for c in cells]
    assert levels == [(v, *at) for v in ("3", "4.1") for at in ((8, 1), (32, 1), (32, 4))]
    assert cells[2].options["iodepth"] == 32
    assert cells[2].options["nconnect"] == 4
    assert {(cell.query, cell.paths) for cell in cells} == {("version=3", 2), ("version=4.1", 2)}
    deep = Choice((1, 4), depth=(64, 8, 16), workload=("create",))  # 32 is not among them
    cells = _METADATA.cells(Scale(choice=deep))
    pairs = [(cell.factors["depth"], cell.factors["nconnect"]) for cell in cells]
    assert pairs == [(64, 1), (8, 1), (16, 1), (64, 4)]
    two = Choice((1,), depth=(8,), workload=("remove", "create"))
    cells = _METADATA.cells(Scale(choice=two))
    assert [cell.factors["operation"] for cell in cells] == ["remove", "create"]
    plain = _METADATA.cells(Scale(quick=True))
    assert {cell.factors["operation"] for cell in plain} == set(OPERATIONS)
    assert {cell.place for cell in plain} == {"lab"}
    assert _METADATA.own_cells(Scale(choice=chosen), OwnPool(urls=0, mounts=1))[0] == []


def test_fio_s_own_engines_run_on_mounts_and_ask_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = _METADATA.cells(Scale(choice=Choice((1,), depth=(32,), mounts=True)))
    assert {cell.place for cell in cells} == {"guest"}
    peers = [cell for cell in cells if cell.client == "mount"]
    found = Counter((cell.factors["operation"], cell.options["ioengine"]) for cell in peers)
    assert found == {
        ("create", "filecreate"): 4, ("lookup", "filestat"): 4, ("remove", "filedelete"): 4,
    }  # fmt: skip
    assert {cell.factors["jobs"] for cell in peers} == {1, 4, 16, 32}
    for cell in peers:
        assert cell.mount_options == "vers=3,proto=tcp,nolock"
        assert cell.options["metadata"] is None
        assert cell.options["iodepth"] is None
    place = OnPool("nfs://127.0.0.1/a")
    monkeypatch.setattr(place, "mounts", lambda _: [str(tmp_path)])
    engine = Engine(tmp_path / "no.so")
    words = [word for cell in peers for word in command_of(cell, place, engine, tmp_path)]
    assert not [word for word in words if word.startswith("--size=")]  # it would end them early
    # What fio's set-up has looked up is forgotten before filestat begins, and asked for once.
    for cell in peers:
        words = command_of(cell, place, engine, tmp_path)
        before = next(word for word in words if word.startswith("--exec_prerun="))
        assert ("drop_caches" in before) == (cell.options["ioengine"] == "filestat")
        assert not [word for word in words if word.startswith("--time_based")]


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


def test_what_is_compared_with_a_mount_has_one_url_as_well() -> None:
    own = OwnPool(urls=2, mounts=0)
    cells, said = _METADATA.own_cells(Scale(choice=Choice((1,), mounts=True)), own)
    assert {cell.paths for cell in cells} == {1}
    assert said == ["URLs after the first: a mount has one, and is compared with the same"]


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


# --- what it tells ---


def test_verdict_says_where_it_stops_and_what_is_full() -> None:
    summary = made_runs.metadata()
    text = report_of(summary)
    assert re.search(
        r"16,\d+ creates/s, .* and 16,\d+ removes/s with 32 in flight; more gain nothing\.", text
    )
    assert "| 128 in flight | 4 connections, times 1 |" in text
    row = r"\| create \| (1,0|9)\d\S* ± \d+ \| [78],\d+ ± \d+ \| 16,\d+ ± \d+ \|"
    assert re.search(rf"{row} [^|]+\| (0\.99|1\.0\d) ± ", text)
    assert "MB/s" not in text.split("## Conditions")[0].replace(" MB/s are 10^6", "")
    assert re.fullmatch(r"[\d,]+ operations/s", record.said(summary.cells[0]))
    assert (
        "link"
        not in text.split("## Reading")[0].split("## The answer")[1].split("## Every cell")[0]
    )


def test_versions_of_an_operation_stand_side_by_side() -> None:
    made = made_runs.metadata()
    later = changed(made, factors=lambda cell: {**cell.factors, "version": "4.1"})
    both = dataclasses.replace(made, cells=[*made.cells, *later.cells])
    rows = re.findall(r"\| (\w+, NFSv\S+) \|", report_of(both))
    operations = ("create", "getattr", "lookup", "remove")
    assert rows[:8] == [f"{one}, NFSv{version}" for one in operations for version in ("3", "4.1")]


def _creates(
    engine: dict[int, int],
    mounts: dict[int, int],
    repeats: int = 3,
    depths: tuple[int, ...] = (32,),
) -> Summary:
    """Make a run of creates/s: of the engine by nconnect, on mounts by jobs."""
    made = Maker("metadata", repeats)
    for (nconnect, rate), depth in product(engine.items(), depths):
        factors = metadata_factors("create", depth, nconnect, place="guest")
        made.add(factors, write=rate * 1024, block=1024)
    for jobs, rate in mounts.items():
        factors = metadata_factors("create", 1, place="guest", client="filecreate", jobs=jobs)
        made.add(factors, write=rate * 1024, block=1024)
    return made.summary()


def test_mounts_are_compared_at_their_best() -> None:
    text = report_of(_creates({1: 9000}, {1: 1000, 4: 3000, 16: 2500}))
    assert re.search(
        r"[\d,]+ creates/s with 32 in flight: (3(\.0\d)?|2\.9\d) times the kernel mount\.", text
    )
    row = r"\| create \| [\d,]+ ± \d+ \| [23],[\d,]+ ± \d+ \| (3\.0|2\.9)\d ± \d\.\d\d \|"
    assert re.search(row, text)
    assert "⚠ Both sides ran on the same client; on the mount, a job makes one call at a" in text
    assert "the first stat of a file asks the server" in text


def test_a_mount_that_was_measured_in_other_repeats_is_not_compared() -> None:
    run = _creates({1: 9000}, {4: 3000}, repeats=2)
    text = report_of(dataclasses.replace(run, cells=[run.cells[0], run.cells[3]]))
    assert re.search(r"\| create \| [\d,]+ \| [\d,]+ \|", text)
    assert "times the mount |" not in text


def test_the_fewest_connections_are_compared() -> None:
    """In a section of their own, where more was measured of nfsmulti."""
    text = report_of(_creates({4: 9000, 8: 18000}, {1: 3000}, depths=(8, 32, 128)))
    beside = text.partition("## Beside fio's own engines on a kernel mount")[2]
    assert re.search(r"\| create \| [89],[^|]+ \| [23],[^|]+ \| (3\.0|2\.9)\d ", beside)


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
