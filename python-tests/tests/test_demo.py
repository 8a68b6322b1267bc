# SPDX-License-Identifier: GPL-2.0-only
"""The demo: what it says of made figures, and short runs of it in a lab and without privileges."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest
from conftest import call_harness, missing, needs_privileges, or_skip
from rich.console import Console

from nfsmulti import demo, machine
from nfsmulti.bench.sink import Sink
from nfsmulti.demo import Loopback, Place, in_namespaces
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab import Lab, Limits, fit
from nfsmulti.lab.ganesha import plugins
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import find, run
from nfsmulti.report.story import Verdict
from nfsmulti.run.plan import PlannedCell
from nfsmulti.showcase import IN_LAB, ON_LOOPBACK, Outcome, Workload, outcomes, trouble
from nfsmulti.summary import Cell, Figures, Summary

_SECONDS, _CORES = 3.0, 2
_DD, _FSPERF = IN_LAB[:2]
_USER = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
_CAPABILITIES = ("setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-all")
_CORES_OF_ONE = """
import os
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
from nfsmulti.demo import OWN_CPUS
print(OWN_CPUS == os.sched_getaffinity(0))
"""
_SHORT_DEMO = """
import sys
from pathlib import Path
from nfsmulti import demo
from nfsmulti.lab import lab
demo.REPEATS, demo.FIT_SECONDS, demo.RUN_SECONDS = 1, 0.7, 0.5
demo.RESULTS = Path(sys.argv[1])
lab.LABS = demo.RESULTS / "lab"
demo.demo()
"""


def _cells(rates: Sequence[float], busy_cores: float) -> list[Cell]:
    """Make a repeat for each rate in MB/s, during which so many cores were busy."""
    blank = Figures(100, 100, _SECONDS, 1e3, 0, 1e3, 1e3, 1e3, 1e3, 1e3, {"1000": 100})
    return [
        Cell(
            id="",
            factors={},
            repeat=repeat,
            status="done",
            folder="",
            command="",
            read=dataclasses.replace(blank, bytes_per_s=rate * 1e6),
            cpu_s=0.3,
            machine_cpu_s=busy_cores * _SECONDS,
            processors=_CORES,
            paths={"one": 0.5, "other": 0.5},
        )
        for repeat, rate in enumerate(rates, start=1)
    ]


def _fsperf(one: Sequence[float], many: Sequence[float], busy_cores: float = 1.2) -> Outcome:
    """Return fsperf with these rates, where a cap is 387 MB/s and the link 587 MB/s."""
    limits = fit(1.2e9, link=_FSPERF.link, cap=_FSPERF.cap, paths=_FSPERF.connections)
    assert limits.cap == 3100e6
    sides = _cells(one, busy_cores), _cells(many, busy_cores)
    return Outcome(_FSPERF, limits, *sides)


_SEVERAL = "fsperf: Several stayed at 65% of the link's 4.7 Gbit/s: "
# The rates on one path and on four, the cores that were busy, and what is said of that.
_TOLD: dict[str, tuple[list[float], list[float], float, str]] = {
    "shown": ([380, 381, 379], [575, 574, 576], 1.2, ""),
    "limits that were not reached did not hold the sides": (
        [250, 251, 249], [400, 399, 401], 1.2, ""),
    "processors that are the limit": (
        [380, 382, 378], [384, 380, 381], 1.97,
        _SEVERAL + "the processors are the limit, 98% of 2 cores were busy with fio, its servers"
        " and whatever else runs here."),
    "processors that were busy at the limits": (
        [384, 385, 300], [575, 400, 580], 1.97, "fsperf: 3 repeats; about 47 would be enough."),
    "a cap that was not reached": (
        [200, 201, 199], [200, 202, 198], 1.2,
        "fsperf: One path stayed at 52% of its cap of 3.1 Gbit/s: no reason was found (60% of 2"
        " cores were busy)."),
    "no known reason": (
        [380, 382, 378], [384, 380, 381], 1.2,
        _SEVERAL + "no reason was found (60% of 2 cores were busy)."),
}  # fmt: skip


@pytest.mark.parametrize("case", _TOLD)
def test_what_is_told_of_an_effect(case: str) -> None:
    one, many, busy_cores, words = _TOLD[case]
    assert trouble(_fsperf(one, many, busy_cores)) == words


def test_processors_that_were_busy_on_the_other_side_alone_are_not_the_limit() -> None:
    one, many = _fsperf([380, 382, 378], [], 1.97), _fsperf([], [384, 380, 381], 1.2)
    said = trouble(dataclasses.replace(many, one=one.one))
    assert said.startswith(_SEVERAL + "no reason was found (60% of 2")


def test_only_processors_that_the_demo_may_use_count() -> None:
    argv = [sys.executable, "-c", _CORES_OF_ONE]
    done = run(argv, timeout=100, env={"PYTHONPATH": str(PYTHON_TESTS)}).check()
    assert done.stdout == "True\n"


@pytest.mark.parametrize("workload", IN_LAB, ids=lambda workload: workload.name)
def test_the_fitted_burst_goes_with_every_cap(
    monkeypatch: pytest.MonkeyPatch, workload: Workload
) -> None:
    given: list[Limits] = []
    monkeypatch.setattr(Lab, "limit", lambda _, limits: given.append(limits))
    limits = fit(1.2e9, link=workload.link, cap=workload.cap, paths=workload.connections)
    in_namespaces(workload).limit(workload.limits(limits))
    (one,) = given
    assert one.burst == limits.limits.burst
    cap = one.per_connection if workload.per_connection else one.per_address
    assert cap == limits.limits.per_address


@pytest.mark.parametrize(("seconds", "repeats"), [(6, [3, 3, 3]), (9, [1, 2, 2]), (40, [1, 1, 1])])
def test_a_slow_machine_has_fewer_repeats(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: float, repeats: list[int]
) -> None:
    """Every fio takes so long; the budget is 150 s, and what one row leaves is the next one's."""
    now = 0.0

    def run_cell(planned: PlannedCell, *_: object, **__: object) -> Cell:
        nonlocal now
        now += seconds
        return dataclasses.replace(_cells([200], 1)[0], factors=planned.spec.factors)

    monkeypatch.setattr(demo, "run_cell", run_cell)
    monkeypatch.setattr(demo, "monotonic", lambda: now)
    place = {"kind": "loopback"}
    summary = demo.measured(Console(quiet=True), tmp_path, ON_LOOPBACK, _Nothing, place)
    found = outcomes(summary)
    assert [len(outcome.one) for outcome in found] == repeats
    assert [len(outcome.many) for outcome in found] == repeats
    for outcome, count in zip(found, repeats, strict=True):
        few = f": there was time for {count} of 3 repeats on this machine." in trouble(outcome)
        assert few == (count < 3)
        assert not few or outcome.judged.verdict is Verdict.INCONCLUSIVE


class _Nothing(Loopback):
    """Servers that are not started."""

    def __enter__(self) -> Self:
        return self

    def limit(self, limits: Limits) -> None:
        """Do nothing."""


def _shorten(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(demo, "REPEATS", 1)
    # To less than 1 MB/s, as in a stall, nothing is fitted.
    monkeypatch.setattr(demo, "FIT_SECONDS", 0.7)
    monkeypatch.setattr(demo, "RUN_SECONDS", 0.5)
    monkeypatch.setattr(demo, "RESULTS", folder)


def test_rows_that_fail_leave_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One whose fio fails, and one whose servers do not start."""
    _shorten(monkeypatch, tmp_path)
    monkeypatch.setattr(machine, "missing_privileges", lambda: "not root")
    broken = dataclasses.replace(ON_LOOPBACK[0], options={"rw": "sideways"})
    monkeypatch.setattr(demo, "ON_LOOPBACK", [broken, *ON_LOOPBACK[1:]])

    def make(workload: Workload) -> Place:
        if workload.name == "fsperf":
            raise HarnessError("nfs-sink did not start", "see its log")
        return Loopback(workload)

    def lacking(workload: Workload) -> Place:
        raise MissingError(f"nothing for {workload.name}")

    monkeypatch.setattr(demo, "Loopback", lacking)
    with pytest.raises(MissingError, match="nothing for dd"):  # which would be so for all
        demo.demo()
    monkeypatch.setattr(demo, "Loopback", make)
    with pytest.raises(SystemExit):
        demo.demo()
    (folder,) = tmp_path.glob("demo/*")
    whys = {one.workload.name: one.why for one in outcomes(Summary.load(folder))}
    assert (whys["fsperf"], whys["randread"]) == ("nfs-sink did not start", None)
    assert (folder / "plots/bandwidth.png").exists()
    printed = " ".join(capsys.readouterr().out.split())
    assert "dd was not measured: fio" in printed
    assert "fsperf \N{EN DASH} \N{EN DASH} \N{EN DASH}" in printed
    assert "fsperf was not measured: nfs-sink did not start" in printed
    assert "(randread) times the bandwidth of one connection." in printed


def test_servers_do_not_outlive_one_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Sink] = []

    class Failing(Sink):
        def __enter__(self) -> Self:
            if started:
                raise HarnessError("nfs-sink did not start")
            started.append(self)
            return super().__enter__()

    monkeypatch.setattr(demo, "Sink", Failing)
    with pytest.raises(HarnessError), Loopback(ON_LOOPBACK[0]):
        pass
    assert not started[0].running


def test_demo_leaves_figures_a_plot_and_what_to_type_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_privileges()
    with or_skip():
        find("nft")
    _shorten(monkeypatch, tmp_path)
    demo.demo()
    (folder,) = (tmp_path / "demo").iterdir()
    dd, fsperf, randread = outcomes(Summary.load(folder))
    assert [len(side[0].paths) for side in (dd.one, dd.many)] == [1, 5]
    assert "--spread=roundrobin" in fsperf.many[0].command
    assert "--nconnect=4" in randread.many[0].command
    printed = " ".join(capsys.readouterr().out.split())
    assert "published 1.53" in printed
    assert printed.endswith("Next: ./nfsmulti run connections --quick --pool=nfs://SERVER/EXPORT")
    again = str(shutil.copytree(folder, tmp_path / "again"))
    to_itself = ("compare", str(folder), again, "--tolerance", "0", "--allow", "busy")
    assert call_harness(*to_itself).status == 0
    assert call_harness("report", str(folder)).status == 0
    assert (folder / "plots/bandwidth.png").stat().st_size > 10_000


def _short_demo(
    folder: Path, enter: Sequence[str], lacking: str, then: Sequence[str] = ()
) -> tuple[str, list[Outcome]]:
    """Run a short demo after `enter` and `then`; gives what it printed, and what it showed."""
    if machine.missing_privileges() == lacking:
        enter = ()
    # Without CAP_SETPCAP setpriv changes nothing, and succeeds.
    probe = run([*enter, "sh", str(machine.PRIVILEGES)], timeout=100)
    if probe.stdout.strip() != lacking:
        said = (probe.stderr or probe.stdout).strip()
        missing(MissingError(f"{' '.join(enter)} does not lead to '{lacking}': {said}"))
    if run([*enter, *then, "true"], timeout=100).status:
        missing(MissingError("no user namespaces"))
    argv = [*enter, *then, sys.executable, "-c", _SHORT_DEMO, str(folder)]
    done = run(argv, timeout=250, env={"PYTHONPATH": str(PYTHON_TESTS)}).check()
    (left,) = folder.glob("demo/*")
    found = outcomes(Summary.load(left))
    assert [len(side[0].paths) for side in (found[1].one, found[1].many)] == [1, 4]
    return " ".join(done.stdout.split()), found


@pytest.mark.full
def test_demo_of_a_user_in_namespaces_of_its_own(tmp_path: Path) -> None:
    with or_skip():
        plugins("MEM")
    then = ["sh", str(machine.PRIVILEGES)]
    printed, (dd, *_) = _short_demo(tmp_path, _USER, "not root", then)
    assert "(nfs-ganesha) with its files in memory, over NFSv4.1, in namespaces" in printed
    assert "Left out without root: NFSv3, a server process for each path" in printed
    assert printed.endswith("Next: ./nfsmulti run connections --quick --pool=nfs://SERVER/EXPORT")
    assert dd.many[0].write


@pytest.mark.full
def test_demo_of_a_root_without_privileges(tmp_path: Path) -> None:
    """As in many containers."""
    lacking = "no CAP_SYS_ADMIN and CAP_NET_ADMIN"
    printed, found = _short_demo(tmp_path, _CAPABILITIES, lacking)
    assert f"not permitted here ({lacking})" in printed
    assert "answers READ from memory and discards WRITE" in printed
    assert "Left out without namespaces: real servers (nfs-ganesha), writes" in printed
    assert all(one.many[0].write is None for one in found)
