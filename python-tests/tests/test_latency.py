# SPDX-License-Identifier: GPL-2.0-only
"""run latency: which loads are offered, how far a server holds them, and what is told of that."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import made_runs
import pytest
from conftest import call_harness
from made_runs import latency, part
from run_helpers import made_record

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import ArrivalStats, Engine, FioReport, FioResult, ResponseStats
from nfsmulti.hosts import RemoteFio, parse_hosts
from nfsmulti.run import offered, runner
from nfsmulti.run.cell import _parts as _told
from nfsmulti.run.cell import command as command_of
from nfsmulti.run.place import OnPool
from nfsmulti.run.plan import PlannedCell, ordered, warm_ups
from nfsmulti.run.record import Watcher
from nfsmulti.run.series import Series
from nfsmulti.run.start import resumed
from nfsmulti.scenario import CellSpec, Choice, OwnPool, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Arrivals, Cell, Parts, Summary
from servers.scripted import ScriptedServer

_SEED = 7
_PEAK = latency(1, nconnect=(1,)).cells[0]
_LATENCY = SCENARIOS["latency"]


def _specs(choice: Choice, pool: OwnPool | None = None) -> list[CellSpec]:
    return _LATENCY.own_cells(Scale(True, None, choice), pool or OwnPool(urls=1, mounts=0))[0]


def _plan(choice: Choice, repeats: int = 2) -> list[PlannedCell]:
    return offered.peaks_first(ordered(_specs(choice), repeats, _SEED))


def _ended(planned: PlannedCell, *, sustained: bool = True, **more: Any) -> Cell:
    """Return a cell that has run: a peak of 10,000 IOPS, or a load that was sustained or not."""
    came = Arrivals(1000.0, 1000.0, sustained) if planned.spec.load else None
    assert _PEAK.read
    return dataclasses.replace(
        _PEAK, factors=planned.spec.factors, repeat=planned.repeat, arrivals=came,
        read=dataclasses.replace(_PEAK.read, iops=10_000.0), **more,
    )  # fmt: skip


# --- which loads are offered ---


def test_each_repeat_has_the_peak_of_a_configuration_and_then_its_loads_in_a_random_order() -> None:
    plan = _plan(Choice(nconnect=(1, 4), load=(10, 20, 30, 40, 50, 60)), 3)
    assert [cell.order for cell in plan] == list(range(1, 43))
    orders = []
    for at in range(0, len(plan), 7):
        peak, *others = plan[at : at + 7]
        assert peak.spec.load == 0
        assert {offered.configuration(cell.spec.factors) for cell in others} == {
            offered.configuration(peak.spec.factors)
        }
        assert {cell.repeat for cell in others} == {peak.repeat}
        orders.append(tuple(cell.spec.load for cell in others))
    assert {tuple(sorted(order)) for order in orders} == {(10, 20, 30, 40, 50, 60)}
    assert len(set(orders)) > 1
    assert len(warm_ups(plan)) == 2


def test_a_load_is_a_part_of_its_own_peak_and_each_repeat_has_its_own_seed() -> None:
    plan = _plan(Choice(nconnect=(1, 4), load=(50,)))
    peaks = [cell for cell in plan if not cell.spec.load]
    others = [cell for cell in plan if cell.spec.load]
    row = _ended(peaks[0]).jobs[0]
    own = _ended(peaks[0], jobs=[row] * 4)  # the plan has its only load next
    done = [own, *map(_ended, peaks[1:])]
    options = [offered.at_load(cell, done, _SEED).spec.options for cell in others]
    assert [one["arrival_rate"] for one in options] == [1250, 5000, 5000, 5000]
    assert len({one["randseed"] for one in options}) == 2
    assert options[0]["lat_percentiles"] == 1
    assert offered.at_load(peaks[0], done, _SEED) == peaks[0]


def test_a_peak_that_cannot_be_measured_fails_its_loads_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = _specs(Choice(load=(20, 50)))
    record = made_record(tmp_path / "run", "latency", specs, repeats=2)

    def run_cell(planned: PlannedCell, *_: object) -> Cell:
        cell = _ended(planned, id=planned.id, folder=f"cells/{planned.id}")
        lost = planned.repeat == 1 and not planned.spec.load
        return dataclasses.replace(cell, status="failed", why="no server") if lost else cell

    monkeypatch.setattr(runner, "run_cell", run_cell)
    runs = runner._Runs(record, OnPool("nfs://127.0.0.1/a"), Engine(Path("e")), Watcher(), None)
    runs.until_trouble(offered.peaks_first(record.waiting()))
    whys = {cell.why for cell in record.cells if cell.repeat == 1 and cell.status == "failed"}
    assert whys == {
        "no server", "the peak that its load is a part of could not be measured: no server"
    }  # fmt: skip
    assert {cell.status for cell in record.cells if cell.repeat == 2} == {"done"}


def test_after_the_first_load_that_is_not_sustained_only_one_more_is_run() -> None:
    plan = {cell.spec.load: cell for cell in _plan(Choice(load=(20, 40, 60, 80, 100)), 1)}
    done = [_ended(plan[40]), _ended(plan[60], sustained=False)]
    assert not any(offered.pointless(plan[load], done) for load in (20, 80, 100))
    done.append(_ended(plan[100], sustained=False))
    assert offered.pointless(plan[80], done) == "60 % was not sustained"
    assert not offered.pointless(plan[20], done)
    other = dataclasses.replace(plan[80], repeat=2)
    assert not offered.pointless(other, done)


def test_a_skipped_load_neither_waits_nor_is_run_again(tmp_path: Path) -> None:
    record = made_record(tmp_path / "run", "latency", _specs(Choice(load=(20,))))
    for planned in record.waiting():
        record.skip(planned, "20 % was not sustained")
    record.retry()
    assert record.waiting() == []
    assert Summary.load(record.folder).cells[0].why == "20 % was not sustained"
    with pytest.raises(HarnessError, match="is finished: nothing is left to run"):
        resumed(tmp_path, record.folder, "latency")


# --- until the server has caught up ---


def test_a_load_waits_until_a_probe_is_as_fast_as_the_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that never catches up is told."""
    waits, ran, said = iter([100, 900, 160, 140, 151, 149, 900]), list[PlannedCell](), list[str]()

    def run(planned: PlannedCell) -> Cell:
        ran.append(planned)
        read = part("read", bins={f"{next(waits)}000": 100})
        return dataclasses.replace(_ended(planned), read=read(_ended(planned)))

    probes = offered.Probes(run, said.append)
    peak, load, *_ = _plan(Choice(load=(50,)), 1)
    probes.wait(peak)
    assert not ran
    for seen in (1, 4, 6):
        probes.wait(load)
        assert len(ran) == seen
    spec = ran[0].spec
    assert (spec.options["iodepth"], spec.load, spec.seconds, said) == (1, 0, 1, [])
    monkeypatch.setattr(offered, "_PATIENCE_SECONDS", -1.0)
    probes.wait(load)
    assert said == [f"before {load.id} the server had not caught up: 900 µs"]


# --- what became of the arrivals ---

_JOB = dict.fromkeys((one.name for one in dataclasses.fields(ArrivalStats)), 0) | {
    "due": 100, "dropped": 3, "offered": 50.0, "achieved": 48.0, "sustained": True,
}  # fmt: skip


def _arrivals(jobs: list[dict[str, Any]], *, rate: int = 50) -> Arrivals:
    """Return what becomes of 98 I/Os in two seconds."""
    side: dict[str, Any] = {"io_bytes": 4096, "total_ios": 98, "runtime": 2000}
    side |= {name: {"bins": {"1000": 98}} for name in ("slat_ns", "lat_ns")}
    none = {"io_bytes": 0, "total_ios": 0, "runtime": 0, "slat_ns": {}, "lat_ns": {}}
    report = FioReport({"jobs": [{"jobname": "t", "read": side, "write": none}]})
    told = [ArrivalStats(**job) for job in jobs]
    result = FioResult([], 0, 2.0, "", "", report, [], Path(), arrivals=told)
    spec = dataclasses.replace(_specs(Choice())[1], seconds=2.0)
    spec = dataclasses.replace(spec, options={**spec.options, "arrival_rate": rate})
    found = offered.arrivals(spec, result, report)
    assert found
    return found


def test_arrivals_are_those_of_all_jobs() -> None:
    jobs = [
        {**_JOB, "depth_used_up": 0.5},
        {**_JOB, "due": 300, "depth_used_up": 0.1, "sustained": False},
    ]
    found = _arrivals(jobs)
    assert (found.offered, found.achieved, found.due, found.dropped) == (100, 96, 400, 6)
    assert not found.sustained
    assert found.full == pytest.approx(0.2)
    assert found.lag == {"1000": 98}


def test_arrivals_of_other_hosts_are_told_by_fios_rate() -> None:
    """49 a second are what chance leaves of 60 in two seconds, but not of 70."""
    assert _arrivals([], rate=60).sustained
    assert not _arrivals([], rate=70).sustained


def test_hosts_do_not_send_in_step(tmp_path: Path) -> None:
    fio = RemoteFio(parse_hosts("a,b"), Engine(Path("/e.so")))
    fio.command(tmp_path, {"t": {"randseed": 5, "rw": "randread"}})
    seeds = [
        re.findall(r"randseed=(\d+)", (tmp_path / f"host{number}.fio").read_text())
        for number in (1, 2)
    ]
    assert seeds == [["5"], ["6"]]


def test_the_response_over_time_is_of_fios_averages(tmp_path: Path) -> None:
    (tmp_path / "latency_lat.1.log").write_text("500, 1000, 0, 0, 0\n1000, 3000, 0, 0, 0\n")
    (tmp_path / "latency_lat.2.log").write_text("2500, 5000, 1, 0, 0\n")
    spec = dataclasses.replace(_specs(Choice())[1], seconds=4.0)
    assert Series(spec, tmp_path).response() == [2.0, None, 5.0]
    words = command_of(spec, OnPool("nfs://127.0.0.1/a"), Engine(Path("e.so")), tmp_path)
    assert f"--write_lat_log={tmp_path / 'latency'}" in words


def test_the_parts_of_a_response_are_those_of_all_jobs(tmp_path: Path) -> None:
    """By their bins; of three replies in four a stamp is their own."""
    line = '{"kind": "response", "job": "t", "job_number": %d, "replies": %d, "shared_stamps": %d, '
    line += '"clamped_stamps": 0, "service_p99_us": 9.0, "service_bins": {%s}, "wake_up_bins": {%s}'
    file = tmp_path / "stats.jsonl"
    file.write_text(
        line % (0, 6, 2, '"2000": 5, "9000": 1', '"100": 6')
        + ', "lag_bins": {"50": 6}}\n'
        + line % (1, 2, 0, '"10000": 1, "2000": 1', '"300": 2')
        + "}\n"
    )
    parts = _told(ResponseStats.read(file))
    assert parts == Parts({"50": 6}, {"2000": 6, "9000": 1, "10000": 1}, {"100": 6, "300": 2}, 0.25)
    assert list(parts.service) == ["2000", "9000", "10000"]
    assert _told([]) is None


def test_stamps_are_asked_for_where_the_kernel_has_them(tmp_path: Path) -> None:
    """Over TCP in clear; not over RDMA or TLS, nor of mounts or other hosts."""
    spec = _specs(Choice())[0]
    for pool, options, stamped in (
        ("nfs://127.0.0.1/a", {}, True),
        ("nfs://127.0.0.1/a?proto=rdma", {}, False),
        ("nfs://[::1]/a?proto=rdma6", {}, False),
        ("nfs://127.0.0.1/a,nfs://127.0.0.2/a?xprtsec=tls", {}, False),
        ("nfs://127.0.0.1/a", {"xprtsec": "mtls"}, False),
    ):
        asked = dataclasses.replace(spec, options={**spec.options, **options}, paths=2)
        place = OnPool(pool)
        place._urls = pool.split(",")  # so that nothing is asked
        words = command_of(asked, place, Engine(Path("e.so")), tmp_path)
        assert ("--rx_timestamps=1" in words) is stamped, pool
    place._urls, place._mounts = [], ["/mnt"]
    assert "--rx_timestamps=1" not in command_of(spec, place, Engine(Path("e.so")), tmp_path)


# --- two runs ---


def test_runs_of_latency_are_compared_by_their_own_figures(tmp_path: Path) -> None:
    """Equal runs pass, and a slower server is found."""
    runs = [latency(), latency(seed=2), latency(slower=1.3)]
    a, b, slower = (str(made_runs.saved(run, tmp_path / str(at))) for at, run in enumerate(runs))
    done = call_harness("compare", a, b)
    assert done.status == 0, done.stdout
    assert re.search(r"4 connections, at 1\d,\d\d\d IOPS ", done.stdout)
    done = call_harness("compare", a, slower)
    assert done.status == 10, done.stdout
    said = " ".join(done.stdout.split())
    assert re.search(r"worse: 4 connections load 0\.69 \(0\.69", said)
    assert re.search(r"worse: 1 connection, at 12,\d+ IOPS response 2\.4\d ", said)
    done = call_harness("compare", a, b, "--judge", "cpu")
    assert done.status == 11
    assert "runs of latency are compared by response and load" in done.stderr


# --- what is run ---


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nioengine=libaio\nsize=1m\n", r"\[a\] sets ioengine, which a run does itself"),
        ("[a]\nrate_iops=5\nsize=1m\n", r"\[a\] sets rate_iops"),
        ("[a]\nrw=read\n", r"\[a\] has no size="),
        ("no job\n", "not a job file"),
        ("", r"\[\] has no size="),
    ],
)
def test_a_job_that_cannot_be_offered_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mine.fio"
    file.write_text(text)
    with pytest.raises(HarnessError, match=said):
        offered.job_of(str(file))


def test_a_run_from_peak_to_page(tmp_path: Path) -> None:
    words = ["--quick", "--runtime=0.5s", "--size=1m", "--load=20,50", "--repeat=1"]
    words += ["--slo=p50:1s", f"--results={tmp_path}"]
    with ScriptedServer() as server:
        done = call_harness("run", "latency", f"--pool={server.pool()}", *words)
    assert done.status == 0, done.stdout + done.stderr
    (folder,) = tmp_path.glob("latency/*")
    summary = Summary.load(folder)
    assert [cell.status for cell in summary.cells] == ["done"] * 3
    assert summary.cells[0].factors["load"] == "peak"
    peak = summary.cells[0].read
    assert peak
    for cell in summary.cells[1:]:
        assert cell.arrivals
        part = int(cell.factors["load"]) / 100
        rate = int(re.findall(r"--arrival_rate=(\d+)", cell.command)[0])
        assert rate == round(part * peak.iops)
        assert cell.read
        assert sum(cell.read.response.values()) == cell.read.ops
        assert cell.parts
        ends = [sum(bins.values()) for bins in (cell.parts.service, cell.parts.wake_up)]
        assert ends[0] == ends[1] >= cell.read.ops
    assert not list((folder / "cells").glob("probe-*"))
    assert "<html" in (folder / "report.html").read_text()
