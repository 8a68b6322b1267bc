# SPDX-License-Identifier: GPL-2.0-only
"""run latency: which loads are offered, how far a server holds them, and what is told of that."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import made_runs
import numpy as np
import pytest
from conftest import call_harness
from made_runs import changed, latency, latency_factors, only, report_of
from matplotlib.figure import Figure
from run_helpers import made_record

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import (
    ArrivalStats,
    Engine,
    FioReport,
    FioResult,
    ResponseStats,
)
from nfsmulti.hosts import RemoteFio, parse_hosts
from nfsmulti.paths import ROOT
from nfsmulti.report import loads
from nfsmulti.report.answer import MOST_ROWS
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
from nfsmulti.summary import Arrivals, Cell, Figures, Parts, Summary
from nfsmulti.texts import MISSING
from nfsmulti.units import Slo
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
    runs = runner._Runs(record, OnPool("nfs://127.0.0.1/a"), Engine(Path("e")), _Quiet(), None)
    runs.until_trouble(offered.peaks_first(record.waiting()))
    whys = {cell.why for cell in record.cells if cell.repeat == 1 and cell.status == "failed"}
    assert whys == {
        "no server", "the peak that its load is a part of could not be measured: no server"
    }  # fmt: skip
    assert {cell.status for cell in record.cells if cell.repeat == 2} == {"done"}


class _Quiet(Watcher):
    """Says nothing."""


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


def _probes(waits: list[float], said: list[str]) -> tuple[offered.Probes, list[PlannedCell]]:
    """Return probes that take so long, in µs."""
    ran: list[PlannedCell] = []

    def run(planned: PlannedCell) -> Cell:
        ran.append(planned)
        cell = _ended(planned)
        assert cell.read
        bins = {str(int(waits.pop(0) * 1000)): 100}
        return dataclasses.replace(cell, read=dataclasses.replace(cell.read, bins=bins))

    return offered.Probes(run, said.append), ran


def test_a_load_waits_until_a_probe_is_as_fast_as_the_fastest() -> None:
    said: list[str] = []
    probes, ran = _probes([100, 900, 160, 140], said)
    peak, load, *_ = _plan(Choice(load=(50,)), 1)
    probes.wait(peak)
    assert not ran
    probes.wait(load)
    probes.wait(load)
    assert len(ran) == 4
    spec = ran[0].spec
    assert (spec.options["iodepth"], spec.load, spec.seconds, said) == (1, 0, 1, [])


def test_a_server_that_never_catches_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    probes, _ = _probes([100, 900], said)
    load = _plan(Choice(load=(50,)), 1)[1]
    probes.wait(load)
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
    assert _arrivals([], rate=50).sustained
    assert not _arrivals([], rate=80).sustained


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


# --- how far a configuration is good ---


def _one(**made: Any) -> Summary:
    """Make a run of one configuration."""
    return latency(**{"nconnect": (1,), **made})


def _curve(run: Summary) -> loads.Curve:
    (curve,) = loads.curves(run)
    return curve


def test_the_load_within_a_limit_is_between_two_that_were_measured() -> None:
    curve = _curve(_one(noise=0.0))
    points = curve.points[1]
    assert [round(rate) for rate, _ in points] == [4000, 8000, 12000, 16000]
    us = points[2][1] * 1.2
    curve = dataclasses.replace(curve, slo=Slo(99, us))
    found = curve.limit
    assert found
    assert points[2][0] < found.rate.mean < points[3][0]
    assert curve.at(found.rate.mean)[1] == pytest.approx(us)
    assert curve.good == found.rate.median
    assert (found.met, found.last, found.load) == (True, False, 60)


def test_a_limit_that_all_loads_meet_ends_at_the_last_that_was_sustained() -> None:
    found = _curve(_one(slo="p99:1s", noise=0.0)).limit
    assert found
    assert (round(found.rate.mean), found.last, found.load) == (16000, True, 80)


def test_the_knee_has_the_highest_power() -> None:
    curve = _curve(_one(slo="", noise=0.0))
    best = max(curve.points[1], key=lambda point: point[0] / point[1])
    assert curve.limit
    assert curve.limit.rate.mean == best[0]


def test_a_load_that_most_repeats_did_not_sustain_is_part_of_no_fit() -> None:
    run = changed(
        _one(),
        lambda cell: cell.factors["load"] == 80 and cell.repeat > 1,
        arrivals=lambda cell: dataclasses.replace(cell.arrivals, sustained=False),
    )
    curve = _curve(run)
    assert len(curve.points[1]) == 3
    assert len(curve.lost(80)) == 3


def test_two_configurations_are_compared_at_one_load() -> None:
    one, four = loads.curves(latency(noise=0.0))
    assert loads.against(one, four, 20_000) is None
    ratio = loads.against(one, four, 16_000)
    assert ratio
    assert ratio.value == pytest.approx((1 - 0.2) / (1 - 0.8), rel=0.01)


# --- what is told ---


def _hiccup(run: Summary, load: int) -> Summary:
    """Return a run in whose first repeat 2 % of the I/O at one load took 400 ms."""
    return changed(
        run,
        lambda cell: (cell.repeat, cell.factors["load"]) == (1, load),
        read=lambda cell: _responding(cell, {**cell.read.response, "400000000": 400}),
    )


def _responding(cell: Cell, response: dict[str, int]) -> Figures:
    assert cell.read
    return dataclasses.replace(cell.read, response=response)


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (80, r"1[56],\d{3} IOPS (repeats 1[34],\d{3} to 1[56],\d{3}; "
             r"\d\d % of the peak, [12]\d,\d{3}) keep p99 within 3 ms"),
        (60, r"1[56],\d{3} IOPS (repeats \d?\d,\d{3} to 1[56],\d{3}; "
             r"\d\d % of the peak, [12]\d,\d{3}) keep p99 within 3 ms"),
        (40, r"No one figure: repeats 5,\d{3} to 16,\d{3} IOPS keep p99 within 3 ms, repeats differ"
             r" more than threefold; the peak is [12]\d,\d{3}."),
    ],
)  # fmt: skip
def test_the_answer_and_its_table_are_medians_of_the_repeats(load: int, said: str) -> None:
    """A repeat with a hiccup moves neither; what the table has at less load is within the limit."""
    run = _hiccup(_one(slo="p99:3ms"), load)
    answer = _LATENCY.report.tell(run).answer
    assert re.match(said.replace("(", r"\(").replace(")", r"\)"), answer.headline), answer.headline
    good = float(answer.headline.split()[0].replace(",", "")) if load > 40 else 5000.0
    rows = [row for row in answer.table.rows if "not" not in row[0]]
    assert len(rows) == 4
    at = list(answer.table.headings).index("p99, ms")
    for row in rows:
        iops = float(row[1].partition(" ")[0].replace(",", ""))
        assert (float(row[at]) <= 3) or iops > good, row


def test_what_the_table_has_below_the_answer_is_within_the_limit() -> None:
    """Repeats whose peaks differ reach other rates at one load: of the reference runs as well."""
    folders = [ROOT / "results/reference" / name for name in ("latency", "latency-kernel")]
    for curve in [one for folder in folders for one in loads.curves(Summary.load(folder))]:
        waits = curve.by_repeat(lambda cell: loads.told_us([cell], 99))
        rates = {load: rate.median for load in waits if (rate := curve.rate(load))}
        assert curve.limit
        below = [load for load in waits if rates[load] <= curve.limit.rate.median]
        assert [load for load in below if waits[load].median > curve.slo.us] == []


def test_configurations_that_repeats_do_not_tell_apart_have_no_difference() -> None:
    one, two = (_one(slo="p99:3ms", seed=seed) for seed in (1, 2))
    others = changed(_hiccup(two, 60), factors=lambda cell: {**cell.factors, "nconnect": 2})
    run = dataclasses.replace(one, cells=[*one.cells, *others.cells])
    headline = _LATENCY.report.tell(run).answer.headline
    assert re.search(r" ms; with [12] connections? 1\d,\d+: no measurable difference", headline)
    assert len(headline.split()) <= 25


def test_configurations_without_one_figure_are_counted() -> None:
    """One alone is named."""
    one = _hiccup(_one(slo="p99:3ms"), 40)
    for like, said in ((one, "2 of 2 configurations"), (_one(slo="p99:3ms"), "1 connection")):
        other = changed(like, factors=lambda cell: {**cell.factors, "nconnect": 2})
        both = dataclasses.replace(one, cells=[*one.cells, *other.cells])
        assert f"⚠ {said}: no figure, since repeats differ" in report_of(both)


def test_too_few_ios_in_a_repeat_are_pooled_and_marked() -> None:
    run = changed(
        _one(),
        lambda cell: cell.arrivals is not None and cell.repeat == 1,
        read=lambda cell: _responding(cell, {"100000": 900}),
    )
    table = _LATENCY.report.tell(run).answer.table
    assert "*: all repeats together, since one has too few I/Os" in table.title
    at = list(table.headings).index("p99, ms")
    assert all(row[at].endswith("*") for row in table.rows if "not" not in row[0])


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (_one(slo=""), [
            r"answer 8,\d\d\d IOPS \(.*; 4\d % of the peak, [12]\d,\d+\) at the knee: p99 is 0\.\d",
            r"The knee is the load with the highest power",
            rf"\| 120, not sustained \| \d+,\d+ ± \d+ (\| {MISSING} ){{4}}\|",
        ]),
        (latency(slo=""),
         [r"\| IOPS, at the knee \| % of peak \| p99 there, ms \| p99, times the best's \|"]),
        (_one(slo="p99:100us"),
         [r"answer p99 within 100 µs is not met at any load: p99 is 0\.2\d+ ms at 20 %\."]),
        (only(_one(), lambda cell: cell.factors["load"] in ("peak", 120)),
         [r"answer No response to tell: no load was sustained\."]),
    ],
    ids=["the knee, by its rule", "knees side by side", "not met by the lowest load",
         "none sustained"],
)  # fmt: skip
def test_where_no_load_is_within_a_limit_the_answer_says_why(run: Summary, told: list[str]) -> None:
    text = report_of(run)
    assert [words for words in told if not re.search(words, text)] == []


def test_the_page_says_whose_latency_it_is() -> None:
    """By the kernel's stamps; a run without any has lines of lag and service."""
    run = _one()
    text = report_of(run)
    whose = "service p99 2.10 ms, wake-up p99 0.0420 ms: this client adds 1.9 % of the mean"
    assert f"60 %: {whose}; 25 % of the replies share a stamp: service is an upper bound." in text
    assert _lines_of(run) == {"lag", "service", "wake-up"}
    unstamped = changed(run, parts=None)
    assert "wake-up" not in report_of(unstamped)
    assert _lines_of(unstamped) == {"lag", "service"}
    text = report_of(changed(run, parts=Parts({}, {"900000": 1}, {"100001": 1})))
    assert "⚠ Not the server's alone: service p99 0.900 ms, wake-up p99 0.100 ms: this cl" in text


def _lines_of(run: Summary) -> set[str]:
    return {text.get_text() for text in _parts(run).legends[0].get_texts()}


def test_what_a_response_is_made_of_is_drawn_by_medians_of_repeats() -> None:
    """2 µs of lag, 2,100 of service and 40 of wake-up, in ms; one repeat of three is disturbed."""
    late = Parts({"90000000": 20000}, {"2100000": 20000}, {"40000": 20000})
    disturbed = {"where": lambda cell: (cell.repeat, cell.factors["load"]) == (2, 40)}
    axes = _parts(changed(_one(slo="p99:1s"), **disturbed, parts=late)).axes[0]
    drawn = [np.asarray(lines[0].get_ydata()).max() for lines in axes.containers]
    assert drawn == pytest.approx([0.002, 2.1, 0.0401])


def test_a_knee_is_told_of_the_load_that_it_is_at() -> None:
    """Of three repeats one has its knee, 11,980 IOPS, at another load, and their median is 11,990.

    That is below the median rate of the load where the others have theirs, by chance alone.
    """
    rates = {(1, 40): 8000.0, (1, 60): 12000.0, (2, 40): 8000.0, (2, 60): 11990.0,
             (3, 40): 11980.0, (3, 60): 18000.0}  # fmt: skip

    def rate(cell: Any) -> float:
        return rates.get((cell.repeat, cell.factors["load"]), 0.0)

    run = changed(
        _one(slo=""),
        lambda cell: rate(cell) > 0,
        arrivals=lambda cell: dataclasses.replace(cell.arrivals, achieved=rate(cell)),
        read=lambda cell: _responding(
            cell, {"90000000" if rate(cell) == 18000 else "100000": 20000}
        ),
    )
    curve = _curve(run)
    assert curve.limit
    assert (curve.limit.rate.median, curve.limit.load) == (11990.0, 60)


def _parts(run: Summary) -> Figure:
    story = _LATENCY.report.tell(run)
    return next(plot.figure for one in story.sections for plot in one.plots if plot.name == "parts")


def test_a_table_of_many_loads_is_short() -> None:
    run = _one(repeats=1)
    more = [
        dataclasses.replace(cell, factors=latency_factors(1, int(cell.factors["load"]) - step))
        for cell in run.cells
        if cell.arrivals
        for step in (0, 3, 6, 9)
    ]
    summary = dataclasses.replace(run, cells=[run.cells[0], *more])
    rows = _LATENCY.report.tell(summary).answer.table.rows
    assert 0 < len(rows) <= MOST_ROWS
    assert sum("not sustained" in row[0] for row in rows) == 1


@pytest.mark.parametrize(("full", "doubted"), [(0.0, True), (0.6, False)])
def test_a_lag_that_is_the_generators_own_is_a_doubt(full: float, doubted: bool) -> None:
    run = changed(
        _one(),
        lambda cell: cell.arrivals is not None,
        arrivals=lambda cell: dataclasses.replace(cell.arrivals, full=full, lag={"20000": 20000}),
    )
    assert ("⚠ The generator's own lag is up to 4" in report_of(run)) is doubted


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


def test_choice_makes_the_cells(tmp_path: Path) -> None:
    own = tmp_path / "mine.fio"
    own.write_text("[a]\nrw=read\nbs=4k\nsize=1m\n")
    chosen = Choice(
        (1, 4), ("tcp",), ("4.1",), (2,), mounts=True, load=(50,), arrival_process="fixed",
        workload=tuple(map(offered.job_of, ("8k-oltp", "software-build", str(own)))),
    )  # fmt: skip
    specs = _specs(chosen, OwnPool(urls=2, mounts=0))
    assert len(specs) == 2 * 2 * (2 + 1 + 2)
    engine, mount = specs[0], specs[1]
    assert (engine.client, engine.query, engine.paths) == ("pool", "proto=tcp&version=4.1", 2)
    assert (mount.client, mount.mount_options) == ("mounts", "vers=4.1,proto=tcp,nconnect=1")
    assert (mount.factors["transport"], mount.factors["jobs"]) == ("tcp-mount", 2)
    assert engine.options["arrival_process"] == "fixed"
    assert {spec.factors["workload"] for spec in specs} == {"8k-oltp", "software-build", "mine"}
    assert {spec.jobfile for spec in specs} == {
        "latency/8k-oltp.fio", "latency/software-build.fio", str(own)
    }  # fmt: skip
    (peak, *_) = _specs(Choice(mounts=True), OwnPool(urls=0, mounts=2, version="4.2"))
    assert (peak.client, peak.paths, peak.factors["transport"]) == ("pool", 2, "directory")
    assert {cell.place for cell in _LATENCY.cells(Scale(choice=chosen))} == {"guest"}


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
