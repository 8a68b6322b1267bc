# SPDX-License-Identifier: GPL-2.0-only
"""What a server tells of itself during a cell, and amounts: --size, --runtime, --depth and --bs."""

import dataclasses
import re
import sys
import threading
from pathlib import Path
from typing import Any

import made_runs
import pytest
from conftest import call_harness
from made_runs import reference, report_of
from run_helpers import made_record, own_cells, run_one

from nfsmulti.errors import HarnessError
from nfsmulti.run import watch
from nfsmulti.run.amounts import Amounts, cached, file_bytes, server_memory
from nfsmulti.run.place import OnPool
from nfsmulti.run.record import said
from nfsmulti.run.watch import Watch
from nfsmulti.scenario import Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Cell, Factor, Server, Summary
from servers.scripted import ScriptedServer

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
    assert said(cells[0]).endswith("; no figures of the server: ssh nas cat: failed (255): refused")


# What a scenario's cells differ in themselves, or have none of.
_OWN = {
    "sweep": {"size", "bs"},
    "sio": {"bs"},
    "oltp": {"depth"},
    "neighbour": {"depth", "bs"},
    "metadata": {"size", "bs", "depth"},
    "security": {"depth"},
    "clients": {"depth"},
    "readsize": {"bs", "depth"},
}
_GIVEN: dict[str, Any] = {"size": 64 << 20, "depth": 7, "bs": 12288}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_takes_amounts(name: str) -> None:
    specs = own_cells(name, Scale(quick=True))
    taken = {key: value for key, value in _GIVEN.items() if key not in _OWN.get(name, set())}
    for key in _GIVEN.keys() - taken.keys():
        with pytest.raises(HarnessError, match=f"--{key}: "):
            Amounts(**{key: _GIVEN[key]}).of(specs)
    for spec in Amounts(**taken, runtime=2.5).of(specs):
        options = spec.options
        assert (options["runtime"], spec.seconds) == ("2500ms", 2.5)
        assert spec.entries or options["time_based"] is True
        parts = int(options["numjobs"] or 1) if "offset_increment" in options else 1
        assert "size" not in taken or options["size"] == taken["size"] // parts
        assert "size" not in taken or set(spec.files.values()) <= {taken["size"]}
        assert "depth" not in taken or options["iodepth"] == 7
        assert "bs" not in taken or options["bs"] == 12288


def test_a_run_of_given_amounts_says_how_they_relate_to_the_servers_memory(tmp_path: Path) -> None:
    words = ["--runtime=0.3s", "--size=8m", "--bs=12k", "--depth=5", "--factors=overwrite=1"]
    words += ["--nconnect=1,2", "--jobs=1", "--repeat=1", f"--results={tmp_path}"]
    words += ["--server-command=env"]
    with ScriptedServer() as server:
        done = call_harness("run", "connections", "--quick", f"--pool={server.pool()}", *words)
    assert done.status == 0, done.stdout + done.stderr
    assert "one file of 8 MiB, and the server has " in done.stdout
    (folder,) = tmp_path.glob("connections/*")
    assert "file of 8 MiB (fits into the server's memory)" in (folder / "report.md").read_text()
    cells = Summary.load(folder).cells
    assert {cell.id for cell in cells} == {"nconnect1-r1", "nconnect2-r1"}
    for cell in cells:
        assert cell.factors["workload"] == "12k-read"
        for option in ("bs=12288", "size=8388608", "iodepth=5", "runtime=300ms", "overwrite=1"):
            assert f"--{option} " in cell.command, option


_MEMORY: list[tuple[str, dict[str, Factor], int | None, str]] = [
    ("connections", {}, 8 << 30, "8.0 GiB of memory: reads may come from its cache; --size=16g"),
    ("connections", {}, 2 << 30, "4,096 MiB, more than the server has: 2.0 GiB of memory"),
    ("connections", {}, None, "with more memory than that may read from its cache (--size)"),
    ("connections", {"rw": "randwrite"}, 8 << 30, "MiB, and the server has 8.0 GiB of memory"),
    ("connections", {"rw": "write"}, None, "one file of 4,096 MiB"),
    ("dd", {}, 1 << 40, "--size=410g goes beyond it"),
]


def test_memory_that_holds_the_files_is_told() -> None:
    for name, options, memory, words in _MEMORY:
        specs = Amounts(size=4 << 30).of(own_cells(name, Scale(quick=True)))
        specs = [dataclasses.replace(one, options={**one.options, **options}) for one in specs]
        told = {"server_memory": memory, "file_bytes": file_bytes(specs)} if memory else {}
        summary = dataclasses.replace(reference("connections"), place={"kind": "pool", **told})
        line = cached(specs, summary)
        assert words in line
        assert "--size" in words or line.endswith(words)


@pytest.mark.parametrize("memory", [None, 2 << 30, 8 << 30])
def test_a_page_tells_what_fits_into_the_servers_memory(memory: int | None) -> None:
    made = reference("connections")
    cells = [dataclasses.replace(cell, command="fio --size=4g --pool=a:/b") for cell in made.cells]
    told = {"server_memory": memory, "file_bytes": 4 << 30} if memory else {}
    summary = dataclasses.replace(made, place={"kind": "pool", **told}, cells=cells)
    assert ("fits into the server's memory" in report_of(summary)) == (memory == 8 << 30)


def test_a_lab_has_its_files_in_memory() -> None:
    specs = own_cells("connections", Scale(quick=True))
    assert "MiB, which the lab's server has in memory" in cached(specs, reference("connections"))


def test_a_server_that_does_not_tell_its_memory_costs_that_alone() -> None:
    assert server_memory("false") is None
    assert server_memory("env") is not None
