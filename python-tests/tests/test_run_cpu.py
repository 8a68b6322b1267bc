# SPDX-License-Identifier: GPL-2.0-only
"""The machine's CPU time of a cell is that of its I/O alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_helpers import made_record, own_cells

from nfsmulti.fiorun import Engine
from nfsmulti.processes import run
from nfsmulti.run import cpu
from nfsmulti.run.cell import run_cell
from nfsmulti.run.place import OnPool
from nfsmulti.scenarios import Scale


def _write(folder: Path, name: str, *moments: tuple[float, int]) -> None:
    """Write moments, each with the ticks that one processor has worked by then."""
    lines = [f"{uptime} cpu  {ticks} 0 0 999 99 0 0 0 0 0\n" for uptime, ticks in moments]
    (folder / name).write_text("".join(lines))


def test_cpu_is_that_of_the_time_in_which_all_jobs_work(tmp_path: Path) -> None:
    _write(tmp_path, "cpu.begin", (10.0, 500), (10.2, 1000))
    _write(tmp_path, "cpu.end", (20.0, 1490), (20.1, 9000))
    assert cpu.busy_seconds(tmp_path, 9.8) == pytest.approx(4.9)
    assert cpu.busy_seconds(tmp_path, 10.0) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("end", "run_time"), [(19.0, 10.0), (10.0, 10.0), (9.0, 10.0), (21.5, 10.0), (20.0, 0.0)]
)
def test_cpu_of_another_time_than_the_jobs_is_not_told(
    tmp_path: Path, end: float, run_time: float
) -> None:
    _write(tmp_path, "cpu.begin", (10.2, 1000))
    _write(tmp_path, "cpu.end", (end, 2000))
    assert cpu.busy_seconds(tmp_path, run_time) is None


def test_cpu_of_jobs_that_did_not_end_is_not_told(tmp_path: Path) -> None:
    assert cpu.busy_seconds(tmp_path, 10.0) is None
    _write(tmp_path, "cpu.begin", (10.0, 500), (10.0, 500))
    _write(tmp_path, "cpu.end", (20.0, 1500))
    assert cpu.busy_seconds(tmp_path, 10.0) is None


@pytest.mark.parametrize("scenario", ["randread", "sio"])  # whose jobs are processes, and threads
def test_each_job_takes_the_time_as_its_io_begins_and_ends(tmp_path: Path, scenario: str) -> None:
    mount, work = tmp_path / "mount", tmp_path / "it's here"
    mount.mkdir()
    specs = own_cells(scenario, Scale(True, 0.3))
    spec = next(s for s in specs if s.options["numjobs"] == 4)
    record = made_record(work, scenario, [spec])
    (planned,) = record.waiting()
    cell = run_cell(planned, OnPool(str(mount)), Engine.built(), work, lambda _: None)
    assert cell.status == "done", cell.why
    folder = work / cell.folder
    begins, ends = (
        [float(line.split()[0]) for line in (folder / name).read_text().splitlines()]
        for name in ("cpu.begin", "cpu.end")
    )
    assert len(begins) == len(ends) == 4
    assert max(begins) < min(ends)
    assert not list(Path.cwd().glob("*run.txt"))


def test_the_kernel_s_figures_are_read_as_they_are(tmp_path: Path) -> None:
    line = cpu.options(tmp_path)["exec_prerun"]
    for name in ("exec_prerun", "exec_postrun"):
        run(["sh", "-c", f"{cpu.options(tmp_path)[name]} > {tmp_path}/x 2>&1"], timeout=20).check()
    assert line != cpu.options(tmp_path)["exec_postrun"]
    assert not (tmp_path / "x").exists()
    begin, end = ((tmp_path / f"cpu.{name}").read_text().split() for name in ("begin", "end"))
    assert float(begin[0]) <= float(end[0])
    assert begin[1] == end[1] == "cpu"
