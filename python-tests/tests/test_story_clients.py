# SPDX-License-Identifier: GPL-2.0-only
"""run clients: what its page tells, what it asks before it runs, and runs of it in a lab."""

import contextlib
import dataclasses
import os
import pty
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_runs
import psutil
import pytest
from conftest import call_harness, needs_privileges, or_skip, refusal, started_lab
from engine_helpers import eventually
from made_runs import changed

from nfsmulti.arguments import understand
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import ConnectionStats, FioProcess
from nfsmulti.lab import LabConfig
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import run
from nfsmulti.run import clients, command
from nfsmulti.run.clients import Restarting
from nfsmulti.run.place import OnPool, Target
from nfsmulti.run.plan import Plan, PlannedCell, ordered
from nfsmulti.scenario import CellSpec, Choice, OwnPool, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Cell, Clients, Summary
from servers.scripted import ScriptedServer

_SECONDS = "NFSMULTI_CELL_SECONDS"
_MANY = "300 connections are more than a server in use may have room for"

# --- what became of a cell's clients ---


def _line(ops: int = 0, **more: Any) -> ConnectionStats:
    """Return a connection's line; what is not given is 0, or nothing."""
    fields = ConnectionStats.__dataclass_fields__.items()
    none = {
        name: "" if one.type is str else 0 for name, one in fields if one.type in (str, int, float)
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


def test_the_connections_of_a_cell_are_those_of_the_clients_that_are_served() -> None:
    run = changed(
        made_runs.reference("clients"),
        lambda cell: cell.factors["clients"] == 1000,
        clients=Clients(1000, 123, 0.99, 1.0, "the server takes no more"),
    )
    assert {cell.connections for cell in run.cells} == {1, 10, 100, 123}


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
    """Not yet while I/O waits for an answer; if none does, as soon as one could be sent.

    Who lost nothing is none that the restart knew, and neighbours are no clients.
    """
    lost = round(time.monotonic() * 1e6) + 10**9
    lines = [
        _line(lost_at_us=[lost], back_at_us=[lost + 1], answered_at_us=[answered],
              ended_at_us=[ended], client=number)
        for number, (answered, ended) in enumerate(
            [(lost + 2_000_000, lost + 2_000_000), (None, None), (lost + 9_000_000, lost)]
        )
    ]  # fmt: skip
    lines += [dataclasses.replace(lines[0], job="neighbours"), _line(client=3)]
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
    cells = ordered(specs, 1, seed=1)
    plan = Plan(scenario="clients", quick=True, started="", command="", seed=1, cells=cells)
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
    """With neighbours and without."""
    monkeypatch.setenv(_SECONDS, "0.5")
    words = ["--clients=2,20", "--version=4.1", "--neighbour=2", "--rate=100"]
    done = _ran(tmp_path, *words).done
    served = [(cell.clients.asked, cell.clients.served) for cell in done if cell.clients]
    assert sorted(served) == [(2, 2), (2, 2), (20, 20), (20, 20)]
    writes = {cell.connections: cell.write is not None for cell in done}
    assert writes == {2: False, 4: True, 20: False, 22: True}
    assert {cell.arrivals.due > 0 for cell in done if cell.arrivals} == {True}


def test_a_restart_in_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All clients come back but those that were killed; new ones come when the server does."""
    monkeypatch.setenv(_SECONDS, "6")
    words = ["--clients=20", "--version=4.1", "--restart", "--absent=10%"]
    (cell,) = _ran(tmp_path, *words).done
    restart = cell.restart
    assert restart
    assert (restart.known, len(restart.back_s), len(restart.waited_s)) == (20, 20, restart.new)
    assert restart.took_s / 2 < restart.back_s[0]  # the command may notice later than clients do
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
