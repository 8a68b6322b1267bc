# SPDX-License-Identifier: GPL-2.0-only
"""The demo: what it says of made figures, and short runs of it in a lab and without privileges."""

import dataclasses
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import call_harness, missing, needs_privileges, or_skip
from made_runs import figures, made

from nfsmulti import demo, machine, showcase
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab import LabConfig
from nfsmulti.lab.ganesha import plugins
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import find, run
from nfsmulti.report.told import published, tell
from nfsmulti.run.record import Record, Watcher, waiting_cell
from nfsmulti.summary import Cell, Summary

_USER = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
_CAPABILITIES = ("setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-all")
_SHORT_DEMO = """
import dataclasses, sys
from pathlib import Path
from nfsmulti import demo, showcase
from nfsmulti.lab import lab
showcase.SECONDS, demo.STORY = 0.5, dataclasses.replace(demo.STORY, repeats=1)
demo.RESULTS = Path(sys.argv[1])
lab.LABS = demo.RESULTS / "lab"
demo.demo()
"""


def _run(workload: str, one: float, many: float, repeats: int = 3) -> Summary:
    """Make a run of both sides of a workload, at such rates in MB/s."""
    limits = {name: at.limits.rates for name, at in showcase.WORKLOADS.items()}
    cells = [
        ({"workload": workload, "side": side}, {"read": rate * 1e6})
        for side, rate in zip(showcase.SIDES, (one, many), strict=True)
        if rate
    ]
    return made("demo", cells, repeats, place={"kind": "lab", "limits": limits}, noise=0.001)


def test_what_is_told_of_a_workload() -> None:
    for workload, one, many, repeats, times, verdict in (
        ("fsperf", 74, 112, 3, "1.51 ± ", "by construction"),  # all that the link allows
        ("dd", 12, 12, 3, "1.00 ± ", "not reproduced"),
        ("dd", 12, 58, 2, "4.8", "inconclusive"),  # too few repeats
        ("dd", 12, 0, 3, "12.0 ± ", "not measured"),  # the only column
    ):
        run = _run(workload, one, many, repeats)
        ((name, *_, gain),) = tell(showcase.STORY, run).answer.table.rows
        (finding,) = published(showcase.STORY, run)[0]
        assert name.startswith(f"{workload}: ")
        assert gain.startswith(times)
        assert finding.judged.verdict.endswith(verdict)
    run = _run("randread", 10, 40)
    said = "4.00 (randread) times the bandwidth of one connection."
    assert tell(showcase.STORY, run).answer.headline == said
    assert not published(showcase.STORY, run)[0]  # of which nothing was published


def _shorten(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(showcase, "SECONDS", 0.5)
    monkeypatch.setattr(demo, "STORY", dataclasses.replace(showcase.STORY, repeats=1))
    monkeypatch.setattr(demo, "RESULTS", folder)


def _left(folder: Path) -> tuple[Path, Summary]:
    (left,) = folder.glob("demo/*")
    return left, Summary.load(left)


def test_rows_that_fail_leave_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One whose cells fail, called as on its page, and one whose servers do not start."""

    def run_in_place(
        record: Record, name: str, make: object, engine: object, watcher: Watcher
    ) -> None:
        if name == "fsperf":
            raise HarnessError("no server started", "see its log")
        for planned in record.waiting(name):
            rate = 4e7 if planned.spec.factors["side"] == "many" else 1e7
            side = figures(random.Random(1), rate, 4096, 90)
            cell = dataclasses.replace(waiting_cell(planned), status="done", read=side)
            record.set(cell)
            watcher.end(record.fail(planned, "fio: gone") if name == "dd" else cell)

    _shorten(monkeypatch, tmp_path)
    monkeypatch.setattr(machine, "missing_privileges", lambda: None)
    monkeypatch.setattr(demo, "run_in_place", run_in_place)
    with pytest.raises(SystemExit):
        demo.demo()
    _, summary = _left(tmp_path)
    failed = {str(cell.factors["workload"]) for cell in summary.cells if cell.status == "failed"}
    assert failed == {"dd", "fsperf"}
    printed = " ".join(capsys.readouterr().out.split())
    for said in (
        "dd, one, repeat 1 failed: fio: gone ",
        "fsperf was not measured: no server started see its log",
        "4.00 (randread) times the bandwidth of one connection.",
        "4 of 6 cells failed and are missing: all with workload dd and fsperf",
    ):
        assert said in printed
    assert "randread, one, repeat 1" not in printed  # without a line for what is done


def test_an_interrupt_leaves_the_page_of_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: LabConfig) -> demo.Loopback:
        raise KeyboardInterrupt

    _shorten(monkeypatch, tmp_path)
    monkeypatch.setattr(machine, "missing_privileges", lambda: "no CAP_NET_ADMIN")
    monkeypatch.setattr(machine, "may_make_namespaces", lambda: False)
    monkeypatch.setattr(demo, "Loopback", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo.demo()
    folder, summary = _left(tmp_path)
    many = len(summary.cells)
    said = f"Interrupted: {many} of {many} cells have not run: begin it anew."  # no --resume
    assert said in (folder / "report.md").read_text()
    printed = capsys.readouterr().out
    assert printed.startswith("Without namespaces: not permitted here (no CAP_NET_ADMIN). The ")
    assert f"{folder.name}/report.html" in printed


def test_demo_leaves_figures_a_plot_and_what_to_type_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_privileges()
    with or_skip():
        find("nft")
    _shorten(monkeypatch, tmp_path)
    demo.demo()
    folder, summary = _left(tmp_path)
    cells = {tuple(cell.factors.values()): cell for cell in summary.done}
    assert [len(cells["dd", side].paths) for side in showcase.SIDES] == [1, 5]
    assert "--spread=roundrobin" in cells["fsperf", "many"].command
    assert "--nconnect=4" in cells["randread", "many"].command
    printed = " ".join(capsys.readouterr().out.split())
    assert "(published: 1.53)" in printed
    assert printed.endswith("Next: ./nfsmulti run connections --quick --pool=nfs://SERVER/EXPORT")
    again = str(shutil.copytree(folder, tmp_path / "again"))
    compared = call_harness("compare", str(folder), again, "--allow", "busy")
    assert compared.status == 11
    assert "no cell ran 3 times on both sides" in compared.stdout
    assert call_harness("report", str(folder)).status == 0
    assert (folder / "plots/bandwidth.png").stat().st_size > 10_000


def _short_demo(
    folder: Path, enter: Sequence[str], lacking: str, then: Sequence[str] = ()
) -> tuple[str, list[Cell]]:
    """Run a short demo after `enter` and `then`; gives what it printed, and what it measured."""
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
    return " ".join(done.stdout.split()), _left(folder)[1].done


@pytest.mark.full
def test_demo_of_a_user_in_namespaces_of_its_own(tmp_path: Path) -> None:
    with or_skip():
        plugins("MEM")
    then = ["sh", str(machine.PRIVILEGES)]
    printed, done = _short_demo(tmp_path, _USER, "not root", then)
    assert "(nfs-ganesha) with its files in memory, over NFSv4.1, in namespaces" in printed
    assert "Left out without root: NFSv3, a server process for each path" in printed
    assert len(done) == 6
    assert sum(cell.write is not None for cell in done) == 2


@pytest.mark.full
def test_demo_of_a_root_without_privileges(tmp_path: Path) -> None:
    """As in many containers."""
    lacking = "no CAP_SYS_ADMIN and CAP_NET_ADMIN"
    printed, done = _short_demo(tmp_path, _CAPABILITIES, lacking)
    assert f"not permitted here ({lacking})" in printed
    assert "Left out without namespaces: real servers (nfs-ganesha), several paths" in printed
    assert [cell.factors["workload"] for cell in done] == ["randread"] * 2
    assert printed.endswith("Next: ./nfsmulti run connections --quick --pool=nfs://SERVER/EXPORT")
