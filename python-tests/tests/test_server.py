# SPDX-License-Identifier: GPL-2.0-only
"""What a server tells of itself during a cell, and that nothing is made up where it does not."""

import dataclasses
import re
import sys
import threading
from pathlib import Path

import made_runs
import pytest
from made_runs import report_of
from run_helpers import made_record, own_cells, run_one

from nfsmulti.run import watch
from nfsmulti.run.place import OnPool
from nfsmulti.run.record import said
from nfsmulti.run.watch import Watch
from nfsmulti.scenario import Scale
from nfsmulti.summary import Cell, Server, Summary

_STAT = "cpu  {0} 0 0 {1} 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\n"
_MEMINFO = "MemTotal: 9 kB\nCached: {2} kB\nDirty: {3} kB\n"


def test_figures_are_those_between_the_samples() -> None:
    samples = iter([(100, 100, 10, 1), (175, 125, 30, 5)])

    def ask() -> str:
        return (_STAT + _MEMINFO).format(*next(samples))

    with Watch(ask) as told:
        pass
    assert told.why is None
    assert told.figures(None) == Server(75.0, 2, 5 << 10, 30 << 10)


def test_a_watch_asks_as_often_as_its_place_says(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []

    class Waits(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return len(waits) > 2

    watching = Watch(watch.local, 0.1)
    monkeypatch.setattr(watching, "_end", Waits())
    with watching:
        pass
    assert waits == [0.1] * 3  # s
    assert len(watching.samples) == 4


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("nosuchprogram", "nosuchprogram is not installed"),
        (f"{sys.executable} -c 'exit(255)'", r"cat /proc/stat /proc/meminfo failed \(255\)"),
        (f"{sys.executable} -c pass", "the server's answer is not Linux's /proc"),
        ("sh -c 'exec sleep 100'", "did not end within 1 s"),
    ],
)
def test_server_that_does_not_tell_leaves_a_line_and_no_figures(
    command: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in command:  # the others end by themselves, however slow the machine is
        monkeypatch.setattr(watch, "_SECONDS", 1.0)
    with Watch(watch.by_command(command)) as told:
        pass
    assert told.figures(None) is None
    assert told.why is not None
    assert re.search(why, told.why), told.why


def test_cell_has_figures_of_its_server(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    specs = own_cells("neighbour", Scale(True, 1.5))[-1:]
    record = made_record(tmp_path / "run", "neighbour", specs)
    cell = run_one(record, OnPool(str(tmp_path / "mount"), "env"))
    assert (cell.status, cell.server_why) == ("done", None), cell.why
    assert cell.server is not None
    assert cell.server.cpu_percent is not None
    assert 0 <= cell.server.cpu_percent <= 100
    assert cell.server.cached_bytes > 0
    assert cell.read is not None
    assert cell.write is not None
    assert cell.read_over_time["p99_us"]
    assert [job.name for job in cell.jobs] == ["readers"] * 4 + ["writer"]
    record.set(cell)
    assert Summary.load(record.folder).cells == [cell]


def _asked(cell: Cell) -> Cell:
    told = Server(37.5, 8, 3_000_000, 5_000_000_000)
    if cell.repeat == 1:
        return dataclasses.replace(cell, server_why="ssh nas cat: failed (255): refused")
    return dataclasses.replace(cell, server=told)


def test_report_tells_of_the_server_and_of_cells_that_it_did_not_tell() -> None:
    summary = made_runs.dd()
    assert "server %" not in report_of(summary)
    cells = [_asked(cell) for cell in summary.cells]
    text = report_of(dataclasses.replace(summary, cells=cells))
    assert "“server %” is of the server's 8 processors" in text
    row = r"\| each address capped, write, 1 stream \| .*\| 37\.5 \| 3\.00 \| 5,000 \|"
    assert re.search(row, text)
    assert (
        "20 of 60 cells have no figures of the server: ssh nas cat: failed (255): refused" in text
    )
    untold = [dataclasses.replace(cell, server=None, server_why="refused") for cell in cells]
    text = report_of(dataclasses.replace(summary, cells=untold))
    assert "60 of 60 cells have no figures of the server: refused" in text
    assert "| server %" not in text
    assert said(untold[0]).endswith("; no figures of the server: refused")
