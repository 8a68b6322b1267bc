# SPDX-License-Identifier: GPL-2.0-only
"""Runs of a few cells, made by hand."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from engine_helpers import eventually
from rich.console import Console

from nfsmulti import paths
from nfsmulti.fiorun import Engine
from nfsmulti.processes import Process, find
from nfsmulti.run import runner, start
from nfsmulti.run.cell import run_cell
from nfsmulti.run.place import Target
from nfsmulti.run.plan import Plan, PlannedCell, Setting, ordered, under
from nfsmulti.run.record import Record, waiting_cell
from nfsmulti.scenario import CellSpec, OwnPool, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Cell, Status

QUIET = Console(quiet=True)
SHORT = {"NFSMULTI_CELL_SECONDS": "0.2", "PYTHONPATH": str(paths.PYTHON_TESTS)}
_SECONDS = 240.0

# Stands for a fio that works until a cell of its own number, where it gives a report or hangs.
_FIO = """\
#!/bin/sh
for word; do
	case $word in
	--output=*)
		number=1
		while ! mkdir "$0.$number" 2>/dev/null; do number=$((number + 1)); done
		[ "$number" -eq {number} ] || break
		{does}
		;;
	esac
done
exec {fio} "$@"
"""
HANG = "while :; do sleep 0.1; done"
REPORT = "printf '{said}' >\"${{word#--output=}}\"; exit 0"


def staged_fio(folder: Path, number: int, does: str) -> str:
    """Write such a fio; gives the PATH by which it is found."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "fio").write_text(_FIO.format(number=number, does=does, fio=find("fio")))
    (programs / "fio").chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


@contextlib.contextmanager
def hanging_run(
    folder: Path, number: int, *words: str, enter: Sequence[str] = ()
) -> Iterator[Process]:
    """Yield a run after the words `enter`, whose fio of this number, warm-ups included, hangs.

    It has `folder`/results, and prints to `folder`/said.
    """
    # Where the tests were started in the background, SIGINT would be ignored.
    argv = [*enter, "env", "--default-signal=INT", sys.executable, "-m", "nfsmulti", "run"]
    argv += [*words, "--quick", "--results", str(folder / "results")]
    env = {**SHORT, "PATH": staged_fio(folder, number, HANG)}
    with (folder / "said").open("wb") as said, Process(argv, env=env, stdout=said) as process:
        eventually((folder / f"bin/fio.{number}").exists, _SECONDS)
        yield process


def own_cells(name: str, scale: Scale) -> list[CellSpec]:
    """Return what is run on a pool of one URL and one mount."""
    return SCENARIOS[name].own_cells(scale, OwnPool(urls=1, mounts=1))[0]


def run_one(record: Record, place: Target) -> Cell:
    """Run the only cell of a run."""
    (planned,) = record.waiting()
    return run_cell(planned, place, Engine.built(), record.folder, lambda *_: None)


def scripted_cells(monkeypatch: pytest.MonkeyPatch, *statuses: Status) -> list[PlannedCell]:
    """Let cells not run, but end so, one after the other, and all others well; returns which."""
    ran: list[PlannedCell] = []
    left = iter(statuses)

    def run_cell(planned: PlannedCell, _: Target, __: Engine, folder: Path, *___: object) -> Cell:
        ran.append(planned)
        cell = waiting_cell(planned)
        (folder / cell.folder).mkdir(parents=True, exist_ok=True)
        status: Status = next(left, "done")
        return dataclasses.replace(cell, status=status, why="x" if status == "failed" else None)

    monkeypatch.setattr(runner, "run_cell", run_cell)
    return ran


def begun(results: Path, request: start.Request, name: str) -> Record:
    """Begin a run of a scenario, without a look at its pool."""
    return start.begin(results, *start.planned(request, name))


def made_record(
    folder: Path,
    scenario: str,
    specs: list[CellSpec],
    repeats: int = 1,
    setting: Setting | None = None,
) -> Record:
    """Begin a run of these cells alone, under every value of a setting."""
    cells = ordered(under(specs, setting), repeats, seed=1)
    plan = Plan(
        scenario=scenario, quick=True, started="", command="", seed=1, cells=cells, setting=setting
    )
    return Record.begin(folder, plan, {})
