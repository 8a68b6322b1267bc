# SPDX-License-Identifier: GPL-2.0-only
"""What is made of what a cell's fio leaves: its report, logs and CPU time, and the run's files.

Of mounts what the kernel tells of their calls: these lines are Debian 13's, where fio has written.
"""

import csv
import dataclasses
import json
import os
import re
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import made_runs
import numpy as np
import pytest
from conftest import FioRunner
from made_runs import changed, connections_factors, made, report_of
from run_helpers import made_record, own_cells, run_one

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import ConnectionStats, FioReport, FioResult, PathStats, shares
from nfsmulti.paths import JOBFILES, ROOT
from nfsmulti.report import cells, charts, overtime, rows
from nfsmulti.report.measures import MEASURES
from nfsmulti.run import cell, series, watch
from nfsmulti.run.live import TROUBLES, Live, Sampler
from nfsmulti.run.mountstats import folders, means, sums
from nfsmulti.run.place import OnPool
from nfsmulti.run.series import Series
from nfsmulti.run.watch import Sample, Watch
from nfsmulti.scenario import CellSpec, Scale
from nfsmulti.stats import Window, halves, settled
from nfsmulti.summary import FILE, Arrivals, Cell, MountCalls, Restart, Summary
from servers.scripted import Answer, Nfs, ScriptedServer, on


def _logs(folder: Path, seconds: float = 8, jobs: int = 1) -> Series:
    spec = CellSpec({}, "pool", "dd.fio", {"numjobs": jobs}, seconds)
    return Series(spec, folder)


def test_windows_of_a_log_are_seconds(tmp_path: Path) -> None:
    """Of all jobs and both directions they are summed. A cell's length makes its windows'."""
    for seconds, lines, rates in (
        (1000, {1000: 1, 2000: 2, 3000: 4}, [1, 2, 4]),
        (1000, {1003: 1, 2190: 2, 3520: 4}, [1, 1.997, 3.62]),  # windows that drift
        (1000, {1000: 1, 4010: 3, 5010: 5}, [1, 0, 0, 2.97, 4.98]),  # nothing for two seconds
        (1000, {}, []),
        (8, {251: 1, 502: 2, 750: 3, 1001: 4, 1250: 5, 1500: 6, 1999: 8}, [2.5, 4.75]),  # 250 ms
    ):
        for job, way in product((1, 2), (0, 1)):
            each = 2 * job + way  # which adds up to 14
            text = "".join(f"{at}, {each * rate}, {way}, 4096, 0\n" for at, rate in lines.items())
            log = tmp_path / f"bw_bw.{job}.log"
            log.write_text(way * (log.read_text() if log.exists() else "") + text)
        logs = _logs(tmp_path, seconds)
        found = logs.bandwidth(logs.windows(), max(lines, default=0) / 1000)
        assert found == pytest.approx([14 * 1024 * rate for rate in rates], rel=0.005), lines


def test_latency_is_that_of_all_jobs_bins_second_by_second(tmp_path: Path) -> None:
    def line(at: int, way: int, **counts: int) -> str:
        bins = [counts.get(f"bin{number}", 0) for number in range(1856)]
        return f"{at}, {way}, 4096, {', '.join(map(str, bins))}\n"

    one = line(1000, 0, bin640=99) + line(1000, 1, bin1000=7) + line(3001, 0, bin640=1)
    (tmp_path / "latency_clat_hist.1.log").write_text(one)
    (tmp_path / "latency_clat_hist.2.log").write_text(line(1002, 0, bin640=96, bin700=5))
    # Bins 640, 700 and 1000 of fio's json+ are these.
    ns640, ns700, ns1000 = 33.024, 63.744, 1712.128
    found = _logs(tmp_path).latency()
    assert found["read"] == {"p50_us": [ns640, None, ns640], "p99_us": [ns700, None, ns640]}
    assert found["write"] == {"p50_us": [ns1000], "p99_us": [ns1000]}
    assert list(tmp_path.iterdir()) == []  # histograms take room


def test_logs_of_eight_hours_are_no_longer_than_those_of_minutes(tmp_path: Path) -> None:
    for seconds, jobs, window_ms, figure_s in (
        (2, 1, 250, 1),
        (300, 1, 300, 1),
        (8 * 3600, 1, 28800, 29),
        (8 * 3600, 64, 28800, 461),
    ):
        spec = _logs(tmp_path, seconds, jobs).spec
        options = series.options(spec, tmp_path)
        assert (options["log_avg_msec"], options["log_hist_msec"]) == (window_ms, figure_s * 1000)
        assert seconds / figure_s * jobs <= 4000
    lines = "".join(f"{at}, 1, 0, 4096, 0\n" for at in range(28800, 8 * 3600_000 + 1, 28800))
    (tmp_path / "bw_bw.1.log").write_text(lines)
    logs = _logs(tmp_path, 8 * 3600)
    found = logs.bandwidth(logs.windows(), 8 * 3600)
    assert found == pytest.approx([1024.0] * 993)
    assert logs.marks({"reconnect": [100.0, 101.0, 130.0]}, 100.0) == {"reconnect": [0, 1]}


def test_delayed_replies_are_marked_when_the_engine_says_so(tmp_path: Path) -> None:
    line = "nfsmulti: a: 10.0.0.1:/e: READ: the server keeps asking to wait (NFS3ERR_JUKEBOX)"
    sampler, found = Sampler(tmp_path), []
    for said in ("", f"{line[:60]}", f"{line[60:]}: still trying\n", "nfsmulti: server OK\n"):
        with (tmp_path / "stderr").open("a") as log:
            log.write(said)
        assert sampler.take() is None
        found.append(len(sampler.marks["delayed reply"]))
    assert found == [0, 0, 1, 1]


def test_the_live_line_says_what_all_paths_do() -> None:
    troubles = {name: float(count) for count, name in enumerate(TROUBLES)}
    since = {"a": {"bytes": 9e9, **troubles}, "b": {"bytes": 8e9, **dict.fromkeys(TROUBLES, 1.0)}}
    per_s = {
        "a": {"bytes": 3e6, "ops": 750.0, "ns": 3e8},
        "b": {"bytes": 1e6, "ops": 250, "ns": 2e8},
    }
    said = "1 error 2 reconnects 3 reissues 4 retransmissions"
    assert Live(since, per_s).text([1, 2, 4]) == f"4.00 MB/s 1,000 IOPS 0.500 ms ▂▄█ {said}"
    asked_to_wait = {"ns": 5e8, **dict.fromkeys(TROUBLES, 0.0)}
    assert Live({"a": asked_to_wait}, {"a": asked_to_wait}).text([]) == "0 MB/s 0 IOPS"


def test_connections_that_are_reset_are_marked_where_a_cell_went_on(tmp_path: Path) -> None:
    record = made_record(tmp_path / "run", "oltp", own_cells("oltp", Scale(True, 5.0))[:1])
    reset = on(Nfs.READ, Answer(reply=False, end="reset"), every=20)
    with ScriptedServer(reset) as server:
        done = run_one(record, OnPool(server.pool()))
    assert done.status == "done", done.why
    assert "reconnect" in done.marks
    assert list((record.folder / done.folder).glob("live_file*")) == []


def test_of_jobs_that_write_no_more_nothing_is_told(tmp_path: Path) -> None:
    ops = dict.fromkeys(("read_ops", "write_ops", "commits", "meta_ops", "lookups"), 1)
    line = {one.name: 0 for one in dataclasses.fields(PathStats)} | {"job": "t", "path": "p", **ops}
    (tmp_path / "stderr").touch()
    sampler, now = Sampler(tmp_path), time.time()
    for done, ages in ((1e6, (6, 3)), (3e6, (4, 1))):
        for name, age in zip("ab", ages, strict=True):
            file = tmp_path / f"live_file.{name}"
            told = {"kind": "path", "read_bytes": int(done), "reconnects": int(name == "a")}
            file.write_text(json.dumps({**line, **told}))
            os.utime(file, (now - age, now - age))
        live = sampler.take()
    assert live
    assert [at["p"]["bytes"] for at in (live.per_s, live.paths)] == pytest.approx([1e6, 6e6])
    assert live.paths["p"]["ops"] == 2 * len(ops)
    assert len(sampler.marks["reconnect"]) == 1


def test_a_page_shows_how_cells_went_on_and_what_went_wrong() -> None:
    run = made_runs.reference("fsperf", 1)
    bandwidth = overtime.section(run, {}).plots[0]
    assert "Marks" not in bandwidth.caption
    last, waits = run.cells[-1].id, {"p99_us": [9.0] * 4}
    marks = {"reconnect": [1, 2]}
    marked = changed(run, lambda cell: cell.id == last, marks=marks, write_over_time=waits)
    both = overtime.section(marked, {}).plots
    assert [plot.name for plot in both] == ["over-time-bandwidth", "over-time-p99"]
    assert all(plot.caption.endswith("Marks: a reconnect in that time.") for plot in both)
    assert ": reconnect</title>" in charts.svg_of(both[0].figure, "x")
    assert "reads alone" not in both[1].caption
    mixed = changed(marked, lambda cell: cell.id == last, read_over_time=waits, factors={"own": 1})
    drawn = overtime.section(mixed, {}).plots
    assert "Of reads alone where a job also writes." in drawn[1].caption
    assert overtime.section(made_runs.dd(1), {}).plots == []
    for one, expected in (
        (changed(run, over_time=[3e6, 4e6]), {"bandwidth": [3.0, 4.0], "p99": [0.09, 0.095]}),
        (made_runs.latency(), {"p99": [0.09, 0.095], "response": [2.5, 2.5]}),
    ):
        for plot in overtime.section(one, {}).plots:
            told = expected[plot.name.removeprefix("over-time-")]
            assert np.asarray(plot.figure.axes[0].lines[0].get_ydata()) == pytest.approx(told)


def test_a_cell_has_each_cipher_and_who_encrypts() -> None:
    lines: list[Any] = [
        SimpleNamespace(cipher=cipher, ktls=ktls) for cipher, ktls in (("A", 1), ("A", 0), ("", 0))
    ]
    assert cell._tls(lines) == "A, by GnuTLS; A, by the kernel (kTLS)"
    assert cell._tls(lines[2:]) == ""


# --- when a cell has settled ---


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
    logs = _logs(tmp_path, 1000)  # windows of a second
    found = logs.windows()
    assert settled(found, 5)
    assert not settled(found, 10)
    assert logs.bandwidth(found, 7) == [8192.0] * 5 + [0.0] * 2
    for runtime_ms, end in ((5000, 5), (5900, 5), (9000, 9)):  # whole, a part, a stall
        report = FioReport({"jobs": [{"job_runtime": runtime_ms}]})
        assert logs.end(found, report) == end


@pytest.mark.parametrize("times", [1, 2])
def test_a_page_counts_the_cells_that_have_not_settled(times: int) -> None:
    """And those that an earlier version ran longer for that; of other hosts nothing is known."""
    run = made_runs.dd()
    one, remote, unlogged, *others = run.cells
    remote = dataclasses.replace(remote, settled=None, over_time=[1.0, 2.0])
    unlogged = dataclasses.replace(unlogged, settled=False)
    unsettled = dataclasses.replace(one, settled=False, times=times, over_time=[1.0, 2.0])
    cells = [unsettled, remote, unlogged, *others]
    text = made_runs.report_of(dataclasses.replace(run, cells=cells))
    which = f"1 of {len(run.done)}: those with"
    assert f"| run | did not settle | {which} `settled` False in cells.csv:" in text
    assert (f"| run | lengthened | {which} `times` above 1" in text) is (times > 1)
    assert "did not settle" not in made_runs.report_of(run)


# --- CPU time: of its I/O alone ---


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


# --- fio's report ---


def _job(runtime: int, latencies: dict[int, int], usr: float, sys: float) -> dict[str, object]:
    count = sum(latencies.values())
    mean = sum(latency * seen for latency, seen in latencies.items()) / count
    clat = {"N": count, "mean": mean, "bins": {str(k): v for k, v in latencies.items()}}
    read: dict[str, object] = {
        "runtime": runtime, "io_bytes": 1000 * count, "total_ios": count,
    }  # fmt: skip
    read |= {"clat_ns": clat, "lat_ns": clat}
    cpu = {"usr_cpu": usr, "sys_cpu": sys, "job_runtime": runtime}
    return {"error": 0, "read": read, **cpu}


def test_report_sums_jobs_and_merges_percentiles() -> None:
    jobs = [_job(2000, {100: 98, 900: 2}, 10, 40), _job(1000, {100: 100, 500: 100}, 5, 20)]
    report = FioReport({"jobs": jobs})
    assert report.bytes("read") == 300_000
    assert report.bandwidth("read") == 150_000
    assert report.iops("read") == 150
    assert report.latency_mean("read") == pytest.approx((198 * 100 + 100 * 500 + 2 * 900) / 300)
    assert report.latency_percentile("read", 50) == 100
    assert report.latency_percentile("read", 99) == 500
    assert report.latency_percentile("read", 100) == 900
    assert report.cpu_seconds() == pytest.approx(1.25)


def test_percentiles_of_a_cell_are_those_that_they_are_called() -> None:
    """In µs, of fio's ns, each of the last I/O that counts for it."""
    job = _job(1000, {1000: 500, 2000: 450, 3000: 40, 4000: 9, 9000: 1}, 0, 0)
    found = cell.figures(FioReport({"jobs": [job]}), "read")
    assert found
    assert (found.p50_us, found.p95_us, found.p99_us, found.p999_us) == (1, 2, 3, 4)


def test_report_after_messages_and_without_one() -> None:
    output = 'engine: {something}\n{\n "jobs": []\n}\nmore'
    report = FioReport.parse(output)
    assert report is not None
    assert report.jobs == []
    assert FioReport.messages_of(output) == "engine: {something}"
    complaint = "fio: select() call in helper thread failed: Interrupted system call"
    assert FioReport.parse(f'{complaint}{{\n "jobs": []\n}}') == report
    assert FioReport.messages_of(f"{complaint}{{\n}}") == complaint
    assert FioReport.parse("fio: refused") is None
    assert FioReport.parse('{\n "jobs": [') is None


@pytest.mark.parametrize(
    ("output", "stderr", "reason"),
    [
        ("fio: pid=9, err=5/", "nfsmulti: a: 2 connections on 1 path: 9 reads\nnfsmulti: a: gone",
         "nfsmulti: a: gone"),
        ("other\nfio: refused", "", "fio: refused"),
        ("<10.0.0.1> Bad option <x>\n", "hostname=a, be=0\nx : Saving output of prerun in a",
         "Bad option <x>"),
        ("", "\n", "it said nothing"),
    ],
)  # fmt: skip
def test_a_failed_run_is_told_by_the_line_that_says_why(
    output: str, stderr: str, reason: str
) -> None:
    """By the engine's before fio's; not by what jobs have done, nor by what is said beside."""
    assert FioResult([], 1, 0.1, output, stderr, None, [], Path()).reason == reason


def test_broken_stats_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "stats.jsonl"
    whole = (
        ('{"job": "a"}', "job_number"),
        ("{", "JSON"),
        *((one, "object") for one in ("5", "[]")),
    )
    for line, why in whole:
        file.write_text(line + "\n")
        with pytest.raises(HarnessError, match=rf"stats\.jsonl, line 1: .*{why}"):
            ConnectionStats.read(file)
    assert ConnectionStats.read(tmp_path / "none") == []


def _short(jobfile: Path, size: str, folder: Path) -> Path:
    """Return a job file with less to do."""
    text = jobfile.read_text().replace("runtime=30", "runtime=200ms")
    short = folder / jobfile.name
    short.write_text(re.sub("^size=.*", f"size={size}", text, flags=re.MULTILINE))
    return short


_METADATA = sorted(JOBFILES.glob("metadata-*.fio"))
_DATA = sorted(set(JOBFILES.glob("*.fio")) - set(_METADATA))


@pytest.mark.parametrize("jobfile", _DATA, ids=lambda path: path.stem)
def test_jobfiles_on_one_path_and_the_pool_by_name(
    fio: FioRunner, jobfile: Path, tmp_path: Path
) -> None:
    short = _short(jobfile, "8m", tmp_path)
    for pool, spread in (("one", "job"), ("lab", "roundrobin")):
        result = fio(pool=pool, jobfile=short, spread=spread, io_size="2m")
        assert result.status == 0, result.messages
        assert result.report is not None
        assert len(shares(result.stats)) == (1 if pool == "one" else 4)


def test_metadata_jobfiles_one_after_another(fio: FioRunner, tmp_path: Path) -> None:
    """All work on the same entries: were one left by a remove, the create after it would fail."""
    short = {path.stem: _short(path, "200", tmp_path) for path in _METADATA}
    for name in ("create", "stat", "mixed", "remove") * 2:
        result = fio(pool="lab", jobfile=short[f"metadata-{name}"], spread="roundrobin")
        assert result.status == 0, result.messages
        if name in ("create", "remove"):  # the others run for a time
            assert sum(line.meta_ops for line in result.stats) == 200
    for operation in ("create", "remove") * 2:
        result = fio(pool="lab", jobfile=short["metadata-shared"], meta_write=operation)
        assert result.status == 0, result.messages
        assert sum(line.meta_ops for line in result.stats) == 2 * 4 * 200


# --- summary.json and cells.csv ---


def test_summary_round_trips(tmp_path: Path) -> None:
    """Also with the fields of a later harness, which are dropped."""
    run = made_runs.dd(1)
    first, *others = run.cells
    failed = dataclasses.replace(first, status="failed", why="no server", read=None, write=None)
    run = dataclasses.replace(run, cells=[failed, *others])
    run.save(tmp_path)
    assert Summary.load(tmp_path) == run
    assert run.done == others
    assert [cell.ops > 0 for cell in (failed, *others)] == [False, *[True] * len(others)]
    data = json.loads((tmp_path / FILE).read_text())
    data["new"] = data["cells"][0]["new"] = data["cells"][1]["write"]["new"] = 1
    (tmp_path / FILE).write_text(json.dumps(data))
    assert Summary.load(tmp_path) == run


def test_what_was_not_told_is_nothing() -> None:
    """But that a cell ran once, with a figure each second."""
    kinds = (Cell, ("a", {"b": 1}, 1, "done", "a", "fio")), (Arrivals, (1, 1, True))
    for kind, told in (*kinds, (Restart, (1, 1, [1]))):
        values = [value for value in vars(kind(*told)).values() if value]
        assert values == [*told, *([1, 1] if kind is Cell else [])]


def test_each_column_is_described() -> None:
    page = (ROOT / "docs/reports.md").read_text()
    assert not [name for name in (*rows.OF_CELL, *MEASURES) if f"`{name}`" not in page]


def test_what_is_no_folder_of_a_run_is_refused(tmp_path: Path) -> None:
    """Broken files in one: test_strangers_files.py."""
    (tmp_path / "file").touch()
    said = "(?s)Not a directory.*name the folder of a run"
    for path, why in (("file", said), ("", "no summary.json: not the folder of a run")):
        with pytest.raises(HarnessError, match=why):
            Summary.load(tmp_path / path)


# --- what the kernel tells of its mounts' calls ---


def _text(write: str, plus: str) -> str:
    """Two mounts of one file system, which tell the same, one of NFSv4.2, and one of no NFS."""
    v3 = f"nfs statvers=1.1\n\txprt:\ttcp 670 1 2 0 1 45 45 0 103\n\t       WRITE: {write}\n"
    v4 = f"nfs4 statvers=1.1\n\tper-op statistics\n\t   READ_PLUS: {plus}\n"
    return (
        "device root mounted on / with fstype overlay\n"
        f"device 10.0.2.15:/export mounted on /mnt/a with fstype {v3}\n"
        f"device 10.0.2.15:/export mounted on /mnt/c\\040d with fstype {v3}\n"
        f"device 10.0.2.16:/ mounted on /mnt/b with fstype {v4}"
    )


def _calls(*found: str, said: str = "statvers=1.1") -> dict[str, MountCalls]:
    before = _text("1 1 0 9 8 2 5 7", "0 0 0 0 0 0 0 0 0")
    after = _text("65 71 2 4201984 8704 134 710 854", "64 64 0 11776 4201984 53 257 329 0")
    device = {"/mnt/a": 38, "/mnt/b": 39, "/mnt/c d": 38}.__getitem__
    each = (sums(found, text.replace("statvers=1.1", said), device) for text in (before, after))
    return means(*each)


def test_means_are_of_the_calls_in_between_and_of_each_file_system_once() -> None:
    written = {"write": MountCalls(64, 132e3 / 64, 705e3 / 64, 10e3 / 64)}
    assert _calls(*folders(["env", "IOTRAP_MOUNT_POOLS=m:/mnt/a/,/mnt/c d/", "fio"])) == written
    read = {"read": MountCalls(64, 53e3 / 64, 257e3 / 64, 19e3 / 64)}
    assert _calls("/mnt/b/below", *folders(["--directory=/mnt/a"])) == read | written
    assert _calls("/mnt/a", "/tmp") == _calls() == _calls("/mnt/a", said="statvers=2.0") == {}
    assert folders(["--pool=/mnt/a,nfs://127.0.0.1/b"]) == folders(["fio"]) == []


def test_rows_and_pages_tell_means_of_mounts_alone(tmp_path: Path) -> None:
    both = ("tcp-mount", "tcp")
    run = made("connections", [(connections_factors(1, one), {"read": 1e9}) for one in both], 1)
    calls = {"read": MountCalls(3000, 100.0, 2100.0, 20.5)}
    run = changed(run, lambda cell: cell is run.cells[0], mount_calls=calls)
    found = run.cells
    rows.write(run, tmp_path)
    with (tmp_path / rows.FILE).open(newline="") as file:
        there, none = csv.DictReader(file)
    told = {"read calls": "3000", "read lag ms": "0.1", "read service ms": "2.1"}
    assert told | {"read wake-up ms": "0.0205"} == {
        name: there[name] for name in there if name.startswith("read") and none[name] == ""
    }
    assert "write calls" not in there
    said = "READ mean: lag 0.100 ms, service 2.10 ms, wake-up 0.0205 ms"
    assert f"{said}." in report_of(run)
    assert (cells.wake_up(found[:1]), cells.wake_up(found)) == (said, "")
