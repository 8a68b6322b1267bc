# SPDX-License-Identifier: GPL-2.0-only
"""run clients: what its page tells, what it asks before it runs, and runs of it in a lab."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pty
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_runs
import numpy
import psutil
import pytest
from conftest import call_harness, needs_privileges, or_skip, refusal, started_lab
from engine_helpers import eventually
from made_runs import changed, only, report_of

from nfsmulti.arguments import understand
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import ConnectionStats, FioProcess
from nfsmulti.lab import LabConfig
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import run
from nfsmulti.report import recovery
from nfsmulti.report.measures import MEASURES
from nfsmulti.report.told import Run
from nfsmulti.run import clients, command
from nfsmulti.run.clients import Restarting
from nfsmulti.run.place import OnPool, Target
from nfsmulti.run.plan import Plan, PlannedCell, ordered
from nfsmulti.scenario import CellSpec, Choice, OwnPool, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.stories.clients import figures
from nfsmulti.summary import Arrivals, Cell, Clients, Figures, Restart, Summary
from servers.scripted import ScriptedServer

_SECONDS = "NFSMULTI_CELL_SECONDS"
_MANY = "300 connections are more than a server in use may have room for"

# --- what became of a cell's clients ---


def _line(ops: int = 0, **more: Any) -> ConnectionStats:
    """Return a connection's line; what is not given is 0, or nothing."""
    fields = ConnectionStats.__dataclass_fields__.items()
    none = {
        name: "" if one.type == "str" else 0
        for name, one in fields
        if one.type in ("str", "int", "float")
    }
    return ConnectionStats(**{**none, "job": "clients", "read_ops": ops, **more})


def test_the_slowest_client_is_told_in_parts_of_the_mean_beside_jains_index() -> None:
    """Connections of jobs without nclients are nobody's clients, whatever the job is called."""
    lines = [_line(ops=ops, client=n) for n, ops in enumerate((30, 10, 0))]
    lines.append(_line(ops=900))
    assert clients.figures(lines) == Clients(3, 2, 0.0, 1600 / 3000)
    assert clients.figures(lines[:2]) == Clients(2, 2, 0.5, 0.8)
    assert clients.figures(lines[3:]) is None


# --- the page ---


def test_the_answer_tells_of_the_most_clients_how_many_are_served_and_how_evenly() -> None:
    text = report_of(made_runs.clients())
    assert re.search(
        r"1,000 of 1,000 clients are served: 8\d,\d{3} IOPS, p99 \d+\.\d ms; the slowest does 12 %"
        r" of the mean\.", text,
    )  # fmt: skip
    rows = re.findall(r"\| ([\d,]+ of [\d,]+ clients?) \| [\d,]+ ± ", text)
    assert rows == ["1 of 1 client", *(f"{n} of {n} clients" for n in ("10", "100", "1,000"))]


def _beside(alone: Summary, **fields: Any) -> Summary:
    """Add the cells of 1,000 clients beside 8 busy connections, with other fields."""
    most = only(alone, lambda cell: cell.factors["clients"] == 1000)
    more = changed(most, factors=lambda cell: {**cell.factors, "neighbours": 8}, **fields)
    return dataclasses.replace(alone, cells=[*alone.cells, *more.cells])


def test_the_answer_is_of_the_rate_where_it_is_not_held() -> None:
    """There is no wait to tell then, alone or beside busy connections."""
    held, lost = (Arrivals(100, 90, sustained=one) for one in (True, False))
    alone = changed(made_runs.clients(), arrivals=lost,
                    factors=lambda cell: {**cell.factors, "rate": 90})  # fmt: skip
    said = r"1,000 of 1,000 clients are served, but not at the rate of 90 IOPS each: 8\d,\d+ IOPS"
    assert re.search(rf"{said}; the slowest does 12 % of the mean\.", report_of(alone))
    even = f"Even without busy connections {said}"
    assert re.search(even, report_of(_beside(alone, arrivals=lost)))
    alone = changed(alone, arrivals=held)
    text = report_of(_beside(alone, arrivals=lost))
    assert re.search(rf"Beside 8 busy connections {said}\.", text)


def test_how_many_clients_are_served_is_not_guessed() -> None:
    """Without the engine's lines nobody knows; repeats that differ are both named."""
    text = report_of(changed(made_runs.clients(), clients=None))
    assert "An unknown number of 1,000 clients are served: 8" in text
    some = Clients(1000, 123, 0.99, 1.0)
    text = report_of(changed(
        made_runs.clients(), lambda cell: (cell.factors["clients"], cell.repeat) == (1000, 2),
        clients=some))  # fmt: skip
    assert "123 to 1,000 of 1,000 clients are served" in text


def test_the_answer_beside_busy_connections_is_what_clients_wait_there() -> None:
    """The neighbours' writes are not the clients'."""

    def slower(cell: Cell) -> Figures | None:
        bins = {str(3 * int(ns)): n for ns, n in cell.read.bins.items()} if cell.read else {}
        return cell.read and dataclasses.replace(cell.read, bins=bins)

    summary = _beside(made_runs.clients(), read=slower, write=lambda cell: cell.read)
    assert re.search(
        r"Beside 8 busy connections 1,000 of 1,000 clients wait 3\.00 times as long"
        r" \(p50 3\d\.\d ms, 1\d\.\d ms alone\)\.", report_of(summary),
    )  # fmt: skip


def test_iops_are_those_of_the_clients_not_of_their_neighbours() -> None:
    iops = figures(Run(SCENARIOS["clients"], made_runs.clients()))["IOPS"]
    cell = made_runs.clients().cells[-1]
    assert cell.read
    assert iops(dataclasses.replace(cell, write=cell.read)) == cell.read.iops


def test_what_arrives_by_a_clock_waits_from_when_it_was_due() -> None:
    """Where the rate was not held there is no wait to tell."""
    waits = figures(Run(SCENARIOS["clients"], made_runs.clients()))["p99 ms"]
    cell = made_runs.clients().cells[-1]
    assert cell.read
    read = dataclasses.replace(cell.read, response={"7000000": 1000})
    held = dataclasses.replace(cell, read=read, arrivals=Arrivals(100, 100, sustained=True))
    assert waits(held) == 7.0
    assert waits(dataclasses.replace(held, arrivals=Arrivals(100, 90, sustained=False))) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("restart s", 2.5), ("half back s", 3.2), ("all back s", 4.1), ("new wait s", 15.6)],
)
def test_figures_of_a_restart_are_seconds(name: str, value: float) -> None:
    """None where a client is not back: the others' figure would be that of the fast ones."""
    restart = Restart(2.5, 3, [3.1, 3.2, 4.1], new=2, waited_s=[15.5, 15.6])
    cell = Cell("a", {}, 1, "done", "a", "fio", restart=restart)
    assert MEASURES[name](cell) == value
    late = dataclasses.replace(restart, known=6, new=3)
    missing = MEASURES[name](dataclasses.replace(cell, restart=late))
    assert missing == {"restart s": 2.5, "half back s": 4.1}.get(name)


@pytest.mark.parametrize(
    ("restart", "told"),
    [
        (
            Restart(2.5, 300, [3.0] * 299 + [4.1], absent=5, new=2, waited_s=[15.5, 15.6]),
            "300 of 300 clients were back 4.10 s after a restart; new ones waited 15.6 s,"
            " because 5 did not return.",
        ),
        (
            Restart(2.5, 300, [3.0] * 300, absent=5, new=2, waited_s=[0.1, 0.1]),
            "300 of 300 clients were back 3.00 s after a restart; new ones waited 0.100 s;"
            " 5 did not return.",
        ),
        (
            Restart(2.5, 300, [3.0] * 299, new=2, waited_s=[5.4, 5.5]),
            "299 of 300 clients were back after a restart; new ones waited 5.50 s.",
        ),
        (
            Restart(2.5, 300, [3.0] * 300, new=2, waited_s=[5.4]),
            "300 of 300 clients were back 3.00 s after a restart; new ones were not served in"
            " time.",
        ),
    ],
)
def test_the_answer_after_a_restart(restart: Restart, told: str) -> None:
    assert told in report_of(_restarted(lambda _: restart))


def _restarted(restart: Callable[[Cell], Restart], clients: int = 300) -> Summary:
    """Make a run of so many clients, whose server was restarted in each repeat."""
    run = only(made_runs.clients(), lambda cell: cell.factors["clients"] == 1000)
    return changed(run, restart=restart, clients=Clients(clients, clients, 1.0, 1.0),
                   factors=lambda cell: {**cell.factors, "clients": clients})  # fmt: skip


def test_a_repeat_in_which_a_client_never_returned_leaves_no_time_until_all_were_back() -> None:
    """Of the other repeats it would be that of the lucky ones."""
    whole, short = Restart(2.5, 3, [3.0, 3.0, 4.0]), Restart(2.5, 3, [3.0, 3.0])
    summary = _restarted(lambda cell: short if cell.repeat == 2 else whole, clients=3)
    assert "2 of 3 clients were back after a restart." in report_of(summary)


@pytest.mark.parametrize(
    "other",
    [
        Restart(2.5, 300, [3.0] * 300, absent=5, new=2, waited_s=[0.1, 0.1]),
        Restart(2.5, 300, [3.0] * 299, absent=5, new=2, waited_s=[15.5, 15.6]),
    ],
)
def test_absent_clients_are_no_reason_where_a_repeat_has_another(other: Restart) -> None:
    """Its new clients did not wait, or one that it knew did not return either."""
    held_up = Restart(2.5, 300, [3.0] * 300, absent=5, new=2, waited_s=[15.5, 15.6])
    text = report_of(_restarted(lambda cell: other if cell.repeat == 2 else held_up))
    assert re.search(r"new ones waited 1\d\.\d s; 5 did not return\.", text)


def test_a_restart_that_no_client_noticed_is_none_of_this_server() -> None:
    idle, whole = Restart(0.1, 0, [], new=2, waited_s=[0.1, 0.1]), Restart(2.5, 300, [3.0] * 300)
    doubt = ": does --restart restart this server, and end when it is back?"
    text = report_of(_restarted(lambda _: idle))
    assert f"No client lost its connection{doubt}" in text
    assert "300 clients, none of which lost its connection" in text
    text = report_of(_restarted(lambda cell: idle if cell.repeat == 2 else whole))
    assert f"No client lost its connection in 1 of 3 repeats{doubt}" in text


def test_clients_that_kept_their_connection_are_counted_beside_those_that_lost_it() -> None:
    """Or rows of several numbers of clients would be one."""
    restart = Restart(2.5, 90, [3.0] * 90)
    summaries = [_restarted(lambda _: restart, clients=n) for n in (100, 1000)]
    cells = [cell for one in summaries for cell in one.cells]
    text = report_of(dataclasses.replace(summaries[0], cells=cells))
    told = "90 of 90 clients that lost the connection ({} in all)"
    assert f"{told.format('1,000')} were back 3.00 s after a restart." in text
    rows = re.findall(r"\| (90 of [^|]*) \|", text)
    assert rows == [told.format(count) for count in ("100", "1,000")]


def test_the_grace_period_is_a_band_until_the_first_new_client_is_served() -> None:
    """The curves count from the begin of the restart."""
    restart = Restart(2.5, 2, [3.0, 4.0], new=2, waited_s=[15.0, 15.5])
    cell = Cell("a", {"clients": 2}, 1, "done", "a", "fio", restart=restart)
    run = Run(SCENARIOS["clients"], Summary("clients", "", "", "", False, "", {}, [cell]))
    (section,) = recovery.sections(run, {"2 clients": {"clients": 2}})
    axes = section.plots[0].figure.axes[0]
    curves = {line.get_label(): numpy.asarray(line.get_xdata()).tolist() for line in axes.lines}
    assert curves["known clients"] == [0.0, 3.0, 4.0]
    assert curves["new clients"] == [2.5, 17.5, 18.0]
    band = axes.patches[0].get_extents().transformed(axes.transData.inverted())
    assert [band.x0, band.x1] == pytest.approx([2.5, 17.5])


def test_clients_that_a_server_does_not_take_are_told_with_what_it_does_to_them() -> None:
    why = "10.0.0.1:/vol1: connection lost with 1 calls outstanding (Connection reset by peer)"
    summary = changed(made_runs.clients(), lambda cell: cell.factors["clients"] == 1000,
                      clients=Clients(1000, 123, 0.99, 1.0, why))  # fmt: skip
    text = report_of(summary)
    assert "123 of 1,000 clients are served; the server resets the others: let it take" in text
    assert {cell.connections for cell in summary.cells} == {1, 10, 100, 123}


@pytest.mark.parametrize(("restart", "held"), [("", None), ("reboot", "64m")])
def test_neighbours_keep_what_a_restart_may_lose(restart: str, held: str | None) -> None:
    """Or lost data would end their job, and the cell."""
    choice = Choice(clients=(10,), neighbour=(8,), restart=restart)
    *_, beside = SCENARIOS["clients"].own_cells(Scale(choice=choice), OwnPool(1, 0))[0]
    assert beside.own["neighbours"]["hold_writes"] == held


def test_a_cell_runs_with_as_many_clients_as_the_engine_says(tmp_path: Path) -> None:
    """Which have their part of the rate, and use no more paths than they are."""
    choice = Choice(clients=(100,), rate=(10,), partial=True)
    (spec,), _ = SCENARIOS["clients"].own_cells(Scale(choice=choice), OwnPool(40, 0))
    why = "fio: status 1: nfsmulti: clients: connection lost (Connection reset by peer)"
    failed = Cell("a", spec.factors, 1, "failed", "cells/a", "fio", why)
    (tmp_path / "cells/a").mkdir(parents=True)
    said = "nfsmulti: clients: 37 of 100 clients were served: raise the server's limit\n"
    (tmp_path / "cells/a/stderr").write_text(said)
    tried: list[list[object]] = []

    def run_it(planned: PlannedCell) -> Cell:
        options = {**planned.spec.options, **planned.spec.own["clients"]}
        names = ("nclients", "iodepth", "arrival_rate")
        tried.append([planned.spec.paths, *(options[name] for name in names)])
        return dataclasses.replace(failed, status="done", clients=Clients(37, 37, 1.0, 1.0))

    found = clients.as_many_as_are_taken(PlannedCell("a", 1, 1, spec), failed, run_it, tmp_path)
    assert tried == [[37, 37, 148, 370]]
    why = "clients: connection lost (Connection reset by peer)"
    assert found.clients == Clients(100, 37, 1.0, 1.0, why)


# --- a restart, and the cell's end ---


class _Slow(OnPool):
    """A place whose server is there again after so many steps."""

    def __init__(self) -> None:
        super().__init__("nfs://127.0.0.1/x")
        self.left = 3

    def restart(self, _: str) -> Iterator[None]:
        """Count them."""
        while self.left:
            yield
            self.left -= 1


def _restarting(folder: Path, place: Target, command: str = "reboot") -> Restarting:
    """Return the restart of a cell whose jobs are under way; its new clients do nothing."""
    (folder / "cpu.begin").write_text("0.0\n")
    (spec,), _ = SCENARIOS["clients"].own_cells(
        Scale(choice=Choice(clients=(10,), restart=command)), OwnPool(1, 0)
    )
    return Restarting(spec, place, folder, lambda _, own: FioProcess(["true"], own))


def _end_by(error: BaseException, restarting: Restarting, began: Path | None = None) -> None:
    """End a cell, whose restart has begun, by an error."""
    with restarting:
        restarting.poll()
        if began:
            eventually(lambda: began.exists() and began.read_text(), 10)
        raise error


def test_a_cell_that_fails_leaves_no_restart_half_done(tmp_path: Path) -> None:
    """The next cell needs the server; what failed needs no new clients."""
    place = _Slow()
    restarting = _restarting(tmp_path, place)
    with pytest.raises(HarnessError, match="fio"):
        _end_by(HarnessError("fio has died"), restarting)
    assert (place.left, (tmp_path / "new").exists()) == (0, False)


def test_a_restart_that_outlives_the_cells_fio_is_waited_for(tmp_path: Path) -> None:
    """A server answers before the command that started it ends."""
    with _restarting(tmp_path, _Slow()) as restarting:
        restarting.poll()
        found = restarting.told([])
    assert found
    assert found.took_s > 0
    assert (tmp_path / "new").exists()


def test_a_client_is_back_when_its_outage_ended_by_the_engines_own_count(tmp_path: Path) -> None:
    """Not yet while I/O waits for an answer; if none does, as soon as one could be sent."""
    lost = round(time.monotonic() * 1e6) + 10**9
    lines = [
        _line(lost_at_us=[lost], back_at_us=[lost + 1], answered_at_us=[answered],
              ended_at_us=[ended], client=number)
        for number, (answered, ended) in enumerate(
            [(lost + 2_000_000, lost + 2_000_000), (None, None), (lost + 9_000_000, lost)]
        )
    ]  # fmt: skip
    with _restarting(tmp_path, _Slow()) as restarting:
        restarting.poll()
        found = restarting.told(lines)
    assert found
    assert (found.known, len(found.back_s)) == (3, 2)
    assert found.back_s[1] - found.back_s[0] == pytest.approx(2.0)


def test_a_restart_that_ctrl_c_ends_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = tmp_path / "pid"
    place, hangs = OnPool("nfs://127.0.0.1/x"), f"echo $$ >{pid}; exec sleep 1000"
    restarting = _restarting(tmp_path, place, hangs)
    with pytest.raises(KeyboardInterrupt):
        _end_by(KeyboardInterrupt(), restarting, pid)
    assert re.search(r"interrupted\W+see whether the server runs", capsys.readouterr().err)
    assert not psutil.pid_exists(int(pid.read_text()))


def test_clients_beside_a_restart_use_no_more_paths_than_they_are(tmp_path: Path) -> None:
    """The engine refuses fewer clients than paths. They are one job's, whatever the cell's are."""
    specs, _ = SCENARIOS["clients"].own_cells(
        Scale(choice=Choice(clients=(100,), restart="reboot", absent=1)), OwnPool(6, 0)
    )
    spec = dataclasses.replace(specs[0], options={**specs[0].options, "numjobs": 8})
    begun: dict[str, tuple[object, ...]] = {}

    def start(spec: CellSpec, folder: Path) -> FioProcess:
        options = spec.options
        begun[folder.name] = (spec.paths, options["nclients"], options["numjobs"])
        process = FioProcess(["sleep", "1000"], folder)
        (folder / "cpu.begin").write_text("0.0\n")
        return process

    (tmp_path / "cpu.begin").write_text("0.0\n")
    with Restarting(spec, _Slow(), tmp_path, start) as restarting:
        while "new" not in begun:
            restarting.poll()
    assert begun == {"absent": (1, 1, None), "new": (5, 5, None)}


# --- before it runs ---


def test_a_rate_is_each_clients_and_neighbours_have_none() -> None:
    choice = Choice(clients=(100,), neighbour=(8,), rate=(10,))
    alone, beside = SCENARIOS["clients"].own_cells(Scale(choice=choice), OwnPool(1, 0))[0]
    assert (alone.jobs, beside.jobs) == (["clients"], ["clients", "neighbours"])
    assert alone.own["clients"]["arrival_rate"] == beside.own["clients"]["arrival_rate"] == 1000
    neighbours = beside.own["neighbours"]
    assert (neighbours["nclients"], neighbours["nconnect"]) == (0, 8)
    assert "arrival_rate" not in {**neighbours, **beside.options}


@pytest.mark.parametrize(
    ("most", "jobs", "choice"),
    [
        (256, None, Choice(clients=(10, 256))),
        (256 + 256 + 5, None, Choice(clients=(256,), restart="reboot", absent=100)),
        (8 * 200, 8, Choice(clients=(200,))),
        (100 + 2 * 64, None, Choice(clients=(100,), neighbour=(64,))),
    ],
)
def test_all_that_a_server_has_to_take_is_asked_about(
    most: int, jobs: int | None, choice: Choice
) -> None:
    """Clients of each job, those beside them, and the neighbours' connections on each path."""
    specs, _ = SCENARIOS["clients"].own_cells(Scale(choice=choice), OwnPool(2, 0))
    specs = [
        dataclasses.replace(one, options={**one.options, "numjobs": jobs}) if jobs else one
        for one in specs
    ]
    plan = Plan("clients", "", True, "", "", 1, None, [], ordered(specs, 1, seed=1))
    assert clients.most(plan) == most


def test_more_clients_than_a_server_in_use_may_take_need_a_yes(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        words = ["clients", "--clients=300", f"--pool={server.pool()}", f"--results={tmp_path}"]
        assert _MANY in refusal("run", *words)
        others = ["run", "connections", *words[2:], "--factors", "nclients=300"]
        each = _MANY.replace("300", "1,200")  # its cells have four jobs
        assert f"{each}\n  use --yes" in refusal(*others)
    assert understand([*others, "--yes"]).values["yes"]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("typed", "goes_on"), [("y\n", True), ("\n", False), ("\x04", False)])
def test_the_question_is_asked_on_stderr_and_an_end_of_input_is_a_no(
    typed: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stdout it would be in the output of --json."""
    terminal, ours = pty.openpty()
    with os.fdopen(terminal, "wb", 0) as user, os.fdopen(ours) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        user.write(typed.encode())
        with contextlib.nullcontext() if goes_on else pytest.raises(HarnessError, match="nothing"):
            command._ask(300)
    assert capsys.readouterr() == ("", f"{_MANY}. Go on? [y/N] ")


# --- a run ---


def _ran(folder: Path, *words: str) -> Summary:
    """Run it in the lab."""
    needs_privileges()
    with or_skip():
        done = call_harness(
            "run", "clients", "--quick", "--repeat=1", f"--results={folder}", *words
        )
    assert done.status == 0, done.stdout + done.stderr
    (run,) = (folder / "clients").iterdir()
    return Summary.load(run)


def test_a_run_in_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_SECONDS, "0.5")
    summary = _ran(tmp_path, "--clients=2,20", "--version=4.1")
    counts = {cell.factors["clients"]: cell.clients for cell in summary.done}
    assert {count: (one.asked, one.served) for count, one in counts.items() if one} == {
        2: (2, 2), 20: (20, 20),
    }  # fmt: skip
    assert {cell.connections for cell in summary.done} == {2, 20}


def test_a_run_beside_neighbours_in_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_SECONDS, "0.5")
    summary = _ran(tmp_path, "--clients=4", "--neighbour=2", "--rate=100")
    counts = {cell.connections: cell.write is not None for cell in summary.done}
    assert counts == {4: False, 6: True}
    assert {cell.arrivals.due > 0 for cell in summary.done if cell.arrivals} == {True}


def test_a_restart_in_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All clients come back but those that were killed; new ones come when the server does."""
    monkeypatch.setenv(_SECONDS, "6")
    words = ["--clients=20", "--version=4.1", "--restart", "--absent=10%"]
    (cell,) = _ran(tmp_path, *words).done
    restart = cell.restart
    assert restart
    assert (restart.known, len(restart.back_s), len(restart.waited_s)) == (20, 20, restart.new)
    assert restart.took_s <= restart.back_s[0]
    (absent,) = tmp_path.glob("clients/*/cells/*/absent")
    assert restart.absent == 2
    assert (absent / "cpu.begin").read_text()
    assert ConnectionStats.read(absent / "stats.jsonl") == []  # as they were killed


def test_a_restart_that_fails_ends_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_SECONDS, "0.5")
    with ScriptedServer() as server:
        words = [
            f"--pool={server.pool()}",
            "--clients=2",
            "--restart",
            "echo it is gone >&2; exit 3",
        ]
        done = call_harness(
            "run", "clients", "--quick", "--repeat=1", f"--results={tmp_path}", *words
        )
    assert done.status == 1
    assert "--restart 'echo it is gone >&2; exit 3' failed (3): it is gone" in done.stdout


def test_a_server_that_takes_fewer_clients(tmp_path: Path) -> None:
    """nfs-ganesha counts some sockets of its own. Without --partial such a cell fails."""
    with started_lab(LabConfig(addresses=1, connections=12)) as lab:
        words = ["--clients=16", "--quick", "--repeat=1", f"--results={tmp_path}"]
        argv = [sys.executable, "-m", "nfsmulti", "run", "clients", *words]
        argv = lab.command([*argv, f"--pool={lab.path(0, version='4.1')}"])
        env = {"PYTHONPATH": str(PYTHON_TESTS), _SECONDS: "0.5"}
        assert run(argv, timeout=100, env=env).status == 1
        done = run([*argv, "--partial"], timeout=100, env=env)
    assert done.status == 0, done.stdout + done.stderr
    (told,) = re.findall(r"(\d+) of 16 clients are served; the server resets", done.stdout)
    assert 8 <= int(told) <= 12
