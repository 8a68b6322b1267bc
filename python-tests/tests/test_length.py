# SPDX-License-Identifier: GPL-2.0-only
"""When a cell is lengthened: the rule on series made by hand, and a run of real cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import in_full
from made_runs import report_of
from run_helpers import made_record, own_cells

from nfsmulti.fiorun import Engine, FioReport
from nfsmulti.run import runner
from nfsmulti.run.place import OnPool
from nfsmulti.run.plan import PlannedCell, lengthened, may_double
from nfsmulti.run.record import Record, Watcher, waiting_cell
from nfsmulti.run.series import Series
from nfsmulti.scenario import CellSpec, Scale
from nfsmulti.stats import MOST_TIMES, Window, halves, settled
from nfsmulti.summary import Cell, Factor, Summary


def _series(*rates: float) -> list[Window]:
    return [Window(second, second + 1, rate) for second, rate in enumerate(rates)]


def test_a_rate_has_settled_where_its_halves_agree() -> None:
    for rates, expected in (
        ((100, 100, 100, 100), True),
        ((100, 50, 100, 50), True),  # ups and downs that cancel out
        ((95, 95, 105, 105), True),
        ((94, 94, 106, 106), False),
        ((20, 60, 100, 100), False),  # a ramp
        ((20, 60, *[100] * 14), False),
        ((20, 60, *[100] * 30), True),  # which fades
        ((100, 100, 100), False),  # too short to tell
        ((), False),
    ):
        assert settled(_series(*rates), len(rates)) is expected, rates


def test_windows_of_several_jobs_are_added_up() -> None:
    """One over the middle counts on both sides. Each job's end at times of their own."""
    jobs = [Window(0, 2, 10), Window(2, 4, 30), *_series(30, 30, 10, 10)]
    assert halves(jobs, 4) == (80, 80)
    assert settled(jobs, 4)
    assert halves([Window(0, 3, 10), Window(3, 4, 40)], 4) == (20, 50)
    jobs = [Window(at, at + 0.97 + job / 100, 30) for job in range(4) for at in range(4)]
    assert not settled([window for window in jobs if window.begin < 2], 2)
    assert settled(jobs, 3.97)


def test_a_stall_at_the_end_has_not_settled(tmp_path: Path) -> None:
    """Of it fio writes nothing down: the run's own time tells, and ends with it."""
    lines = "".join(f"{second}000, 8, 0, 0, 0\n" for second in range(1, 6))
    (tmp_path / "bw_bw.1.log").write_text(lines)
    logs = Series(CellSpec({}, "pool", "dd.fio", {}, 1000), tmp_path)  # windows of a second
    found = logs.windows()
    assert settled(found, 5)
    assert not settled(found, 10)
    assert logs.bandwidth(found, 7) == [8192.0] * 5 + [0.0] * 2
    for runtime_ms, end in ((5000, 5), (5900, 5), (9000, 9)):  # whole, a part, a stall
        report = FioReport({"jobs": [{"job_runtime": runtime_ms}]})
        assert logs.end(found, report) == end


def _waiting(folder: Path, seconds: float, repeats: int = 2, cells: int = 3) -> Record:
    specs = [
        dataclasses.replace(spec, seconds=seconds) for spec in own_cells("dd", Scale(True))[:cells]
    ]
    record = made_record(folder, "dd", specs, repeats)
    return Record(folder, dataclasses.replace(record.plan, most_times=4), Summary.load(folder))


def test_lengthening_has_a_bound_for_each_cell_and_for_all(tmp_path: Path) -> None:
    record = _waiting(tmp_path / "long", 100)  # 600 s in all, of which 300 may be added
    first, second, _ = record.plan.cells[:3]
    assert may_double(first, 1, record.plan, record.cells)  # 100 s in each repeat, and once more
    assert not may_double(first, 2, record.plan, record.cells)
    done = [dataclasses.replace(waiting_cell(first), status="done", times=2)]
    assert not may_double(second, 1, record.plan, done)
    record = _waiting(tmp_path / "short", 1)  # a minute may be added
    cell = record.plan.cells[0]
    assert may_double(cell, 2, record.plan, record.cells)
    assert not may_double(cell, 4, record.plan, record.cells)
    assert not may_double(cell, 1, dataclasses.replace(record.plan, most_times=1), record.cells)


def test_what_is_timed_goes_on_and_what_has_a_size_is_moved_again(tmp_path: Path) -> None:
    timed = _waiting(tmp_path / "run", 4).plan.cells[0]
    assert lengthened(timed, 1) == timed
    assert lengthened(timed, 4).spec.options["runtime"] == "16000ms"
    options: dict[str, Factor | None] = {"size": 1 << 20}
    sized = dataclasses.replace(timed, spec=dataclasses.replace(timed.spec, options=options))
    assert lengthened(sized, 2).spec.options == {**options, "loops": 2}
    assert lengthened(sized, 2).spec.seconds == 8


def _run(
    record: Record, monkeypatch: pytest.MonkeyPatch, settles: Callable[[PlannedCell], bool]
) -> list[tuple[str, float]]:
    """Run a record's cells by hand; gives each fio's cell and its planned seconds."""
    ran: list[tuple[str, float]] = []

    def made(planned: PlannedCell, *_: object) -> Cell:
        if planned.repeat:
            ran.append((planned.id, planned.spec.seconds))
        return dataclasses.replace(waiting_cell(planned), status="done", settled=settles(planned))

    monkeypatch.setattr(runner, "run_cell", made)
    runner.run_in_place(record, "pool", lambda: OnPool("/tmp"), Engine(Path("none")), Watcher())
    return ran


def _after_two(planned: PlannedCell) -> bool:
    return planned.spec.seconds >= 2


def test_the_first_repeat_decides_and_a_run_that_is_resumed_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = _waiting(tmp_path / "run", 1, repeats=3, cells=1)
    one, two, three = (cell.id for cell in record.plan.cells)
    ran = _run(record, monkeypatch, _after_two)
    assert ran == [(one, 1), (one, 2), (two, 2), (three, 2)]
    assert [cell.times for cell in record.cells] == [2, 2, 2]
    record.fail(record.plan.cells[0], "it is run again")
    record.retry()
    resumed = Record(record.folder, record.plan, Summary.load(record.folder))
    assert _run(resumed, monkeypatch, lambda _: False) == [(one, 2)]


def test_a_cell_that_does_not_settle_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = _waiting(tmp_path / "run", 1, cells=1)
    ran = _run(record, monkeypatch, lambda _: False)
    assert [seconds for _, seconds in ran] == [1, 2, 4, 4]
    text = report_of(dataclasses.replace(Summary.load(record.folder), most_times=MOST_TIMES))
    assert "| run | lengthened | 1 of 1: those with `times` above 1 in cells.csv |" in text
    assert "| run | did not settle | 1 of 1: those with `settled` False in cells.csv |" in text


def test_a_longer_try_that_fails_leaves_the_shorter_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = _waiting(tmp_path / "run", 1, cells=1)
    left = record.folder / waiting_cell(record.plan.cells[0]).folder / "fio.json"

    def made(planned: PlannedCell, *_: object) -> Cell:
        cell = waiting_cell(planned)
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_text(f"{planned.spec.seconds}")
        if planned.spec.seconds > 1:
            return dataclasses.replace(cell, status="failed", why="no room")
        return dataclasses.replace(cell, status="done", settled=False)

    monkeypatch.setattr(runner, "run_cell", made)
    monkeypatch.setattr(runner, "warm_ups", lambda _: [])
    runner.run_in_place(record, "pool", lambda: OnPool("/tmp"), Engine(Path("none")), Watcher())
    ended = [(cell.status, cell.times, cell.settled) for cell in record.cells]
    assert ended == [("done", 1, False)] * 2
    assert left.read_text() == "1"


def test_cells_that_are_compared_by_a_further_factor_run_equally_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = _waiting(tmp_path / "run", 1, repeats=1, cells=1)
    one = record.plan.cells[0]
    cells = [
        dataclasses.replace(
            one,
            id=f"{one.id}-nconnect{count}",
            spec=dataclasses.replace(one.spec, factors={**one.spec.factors, "nconnect": count}),
        )
        for count in (1, 4)
    ]
    plan = dataclasses.replace(record.plan, cells=cells, further=("nconnect",))
    summary = dataclasses.replace(
        Summary.load(record.folder), cells=[waiting_cell(cell) for cell in cells]
    )
    record = Record(record.folder, plan, summary)
    assert [seconds for _, seconds in _run(record, monkeypatch, _after_two)] == [1, 2, 2]


@pytest.mark.parametrize(
    "lasts", [in_full({"runtime": "500ms", "time_based": True}), {"size": "2m", "runtime": None}]
)
def test_real_cells_go_on_as_long_as_they_are_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasts: dict[str, Factor | None]
) -> None:
    """What they did says whether they have settled; here it is that twice is long enough."""
    folder = tmp_path / "mount"
    folder.mkdir()
    spec = own_cells("dd", Scale(True, 0.5))[0]
    options: dict[str, Factor | None] = {"numjobs": 1, "rate": "4m", **lasts}
    record = made_record(tmp_path / "run", "dd", [dataclasses.replace(spec, options=options)], 2)
    plan = dataclasses.replace(record.plan, most_times=MOST_TIMES)
    record = Record(record.folder, plan, Summary.load(record.folder))
    said = iter([False, False, True, True])  # the first of the warm-up
    monkeypatch.setattr("nfsmulti.run.cell.settled", lambda *_: next(said))
    runner.run_in_place(record, "pool", lambda: OnPool(str(folder)), Engine.built(), Watcher())
    one, two = record.cells
    assert one.settled, one.why
    assert one.times == two.times == 2
    if "size" in lasts:
        assert one.write
        assert one.write.bytes == 2 * (2 << 20)
