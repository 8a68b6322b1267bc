# SPDX-License-Identifier: GPL-2.0-only
"""When a cell has settled, and what its page says."""

import dataclasses
from pathlib import Path

import made_runs
import pytest

from nfsmulti.fiorun import FioReport
from nfsmulti.run.series import Series
from nfsmulti.scenario import CellSpec
from nfsmulti.stats import Window, halves, settled


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


@pytest.mark.parametrize("times", [1, 2])
def test_a_page_counts_the_cells_that_have_not_settled(times: int) -> None:
    """And those that an earlier version ran longer for that."""
    run = made_runs.dd()
    one, *others = run.cells
    unsettled = dataclasses.replace(one, settled=False, times=times, over_time=[1.0, 2.0])
    text = made_runs.report_of(dataclasses.replace(run, cells=[unsettled, *others]))
    which = f"1 of {len(run.done)}: those with"
    assert f"| run | did not settle | {which} `settled` False in cells.csv:" in text
    assert (f"| run | lengthened | {which} `times` above 1" in text) is (times > 1)
    assert "did not settle" not in made_runs.report_of(run)
