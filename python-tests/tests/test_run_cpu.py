# SPDX-License-Identifier: GPL-2.0-only
"""The machine's CPU time of a cell is that of its I/O alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from run_helpers import made_record, own_cells, run_one

from nfsmulti.fiorun import FioReport
from nfsmulti.run import watch
from nfsmulti.run.place import OnPool
from nfsmulti.run.watch import Sample, Watch
from nfsmulti.scenario import Scale


def _report(*milliseconds: int) -> FioReport:
    """Return the report of jobs that read for so long."""
    jobs = [{"read": {"runtime": one}, "write": {"runtime": 0}} for one in milliseconds]
    return FioReport({"jobs": jobs})


def _watch(*samples: tuple[float, float]) -> Watch:
    """Return one that has sampled how many seconds were worked at these uptimes."""
    found = Watch(watch.local)
    found.samples = [Sample(at, round(busy * watch.TICKS), 0, 2, 0, 0) for at, busy in samples]
    return found


# From 100 s on half of one processor works, before and after that two.
_WATCH = _watch((90, 0), (100, 20), (110, 25), (120, 45))


def test_cpu_is_that_of_the_time_in_which_all_jobs_work(tmp_path: Path) -> None:
    """And is not told where that is not known."""
    assert _WATCH.busy_seconds(tmp_path, _report(5_000)) is None
    for begins, milliseconds, seconds in (
        ("100.00", [watch.MOST_SAMPLES], 5.0),
        ("100.00 102.00", [8_000, 8_000], 4.0),
        ("102.00 100.00", [8_000, watch.MOST_SAMPLES], 5.0),
        ("110.00", [5_000], 10.0),
        ("100.00", [5_000, 5_000], None),  # a job did not say when it began
        ("100.00 103.00", [5_000, 5_000], None),  # for most of the time one job worked
        ("100.00 100.00", [2_000, 9_000], None),
        ("119.00", [5_000], None),  # it ended after the last sample
        ("89.00", [5_000], None),
    ):
        (tmp_path / "cpu.begin").write_text(begins.replace(" ", "\n") + "\n")
        found = _WATCH.busy_seconds(tmp_path, _report(*milliseconds))
        assert found == (seconds and pytest.approx(seconds)), (begins, milliseconds)


def test_samples_of_many_hours_take_no_more_memory_than_those_of_one() -> None:
    long = _watch(*((at / 10, 0) for at in range(watch.MOST_SAMPLES)))
    long.take()
    assert len(long.samples) == watch.MOST_SAMPLES / 2 + 1
    assert [sample.uptime for sample in long.samples[:2]] == [0, 0.2]


def test_what_others_work_is_taken_before_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second's work of one of two processors within half a second is half of both."""
    for worked, busy in ((0.5, 0.5), (1.02, 1.0)):  # ticks may add up to more than there is
        samples = iter(_watch((100, 20), (100.5, 20 + worked)).samples)
        monkeypatch.setattr(Sample, "of", lambda *_, samples=samples: next(samples))
        assert watch.others_busy({0, 1}) == pytest.approx(busy)


def test_cpu_can_be_that_of_some_processors() -> None:
    one = [ticks * os.sysconf("SC_CLK_TCK") for ticks in (1, 1, 1, 9, 9, 1, 1, 0, 0, 0)]
    rows = {"cpu": [3 * ticks for ticks in one], "cpu0": one, "cpu1": one, "cpu2": one}
    stat = "".join(f"{name} {' '.join(map(str, row))}\n" for name, row in rows.items())
    for cpus, seconds in (
        (None, 15.0),
        ({0}, 5.0),
        ({1, 2}, 10.0),
        ({2, 7}, 15.0),  # in a container whose processors have other numbers
    ):
        assert Sample.of(f"{stat}Dirty: 0 kB\nCached: 0 kB\n", cpus).busy == seconds * watch.TICKS


@pytest.mark.parametrize("scenario", ["randread", "sio"])  # whose jobs are processes, and threads
def test_each_job_takes_the_time_as_its_io_begins_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    mount, work = tmp_path / "mount", tmp_path / "it's here"
    mount.mkdir()
    specs = own_cells(scenario, Scale(True, 0.3))
    spec = next(s for s in specs if s.options["numjobs"] != 1)
    record = made_record(work, scenario, [spec])
    before = Sample.of(watch.local())
    place, asked = OnPool(str(mount)), list[str]()

    def client() -> str:
        asked.append(local())
        return asked[-1]

    local = watch.local
    monkeypatch.setattr(watch, "local", client)
    cell = run_one(record, place)
    assert asked
    assert cell.status == "done", cell.why
    assert cell.others_busy is not None
    report = FioReport.parse((work / cell.folder / "fio.json").read_text())
    assert report
    told = report.jobs
    assert [(job.usr_percent, job.sys_percent) for job in cell.jobs] == [
        (job["usr_cpu"], job["sys_cpu"]) for job in told
    ]
    assert cell.usr_percent == pytest.approx(sum(job["usr_cpu"] for job in told))
    assert cell.sys_percent == pytest.approx(sum(job["sys_cpu"] for job in told))
    begins = (work / cell.folder / "cpu.begin").read_text().splitlines()
    assert len(begins) == spec.options["numjobs"]
    assert before.uptime <= min(map(float, begins))
    assert max(map(float, begins)) <= Sample.of(watch.local()).uptime
    assert not list(Path.cwd().glob("*run.txt"))


def test_a_labs_server_is_its_processes_alone() -> None:
    """Of none it is nothing, and of this one what the kernel counts for it."""
    before, nobody, after = (
        Sample.of(text) for text in (watch.local(), watch.of_processes(list)(), watch.local())
    )
    assert nobody.busy == 0
    assert before.had <= nobody.had <= after.had
    assert nobody.processors == before.processors
    own = os.times()
    mine = Sample.of(watch.of_processes(lambda: [os.getpid()])()).busy / watch.TICKS
    again = os.times()
    assert own.user + own.system - 0.05 <= mine <= again.user + again.system + 0.05
    gone = Sample.of(watch.of_processes(lambda: [1 << 30])())
    assert gone.busy == 0
