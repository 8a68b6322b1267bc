# SPDX-License-Identifier: GPL-2.0-only
"""--size, --runtime, --depth and --bs: of every scenario, and in a run."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from conftest import call_harness
from made_runs import reference, report_of
from run_helpers import own_cells

from nfsmulti.errors import HarnessError
from nfsmulti.run.amounts import Amounts, cached, file_bytes, server_memory
from nfsmulti.scenario import Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Factor, Summary
from servers.scripted import ScriptedServer

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


@pytest.mark.parametrize(
    ("name", "options", "memory", "said"),
    [
        (
            "connections",
            {},
            8 << 30,
            "8.0 GiB of memory: reads may come from its cache; --size=16g",
        ),
        ("connections", {}, 2 << 30, "4,096 MiB, more than the server has: 2.0 GiB of memory"),
        ("connections", {}, None, "with more memory than that may read from its cache (--size)"),
        ("connections", {"rw": "randwrite"}, 8 << 30, "MiB, and the server has 8.0 GiB of memory"),
        ("connections", {"rw": "write"}, None, "one file of 4,096 MiB"),
        ("dd", {}, 1 << 40, "--size=410g goes beyond it"),
    ],
)
def test_memory_that_holds_the_files_is_told(
    name: str, options: dict[str, Factor], memory: int | None, said: str
) -> None:
    specs = Amounts(size=4 << 30).of(own_cells(name, Scale(quick=True)))
    specs = [dataclasses.replace(one, options={**one.options, **options}) for one in specs]
    told = {"server_memory": memory, "file_bytes": file_bytes(specs)} if memory else {}
    made = reference("connections")
    cells = [dataclasses.replace(cell, command="fio --size=4g --pool=a:/b") for cell in made.cells]
    summary = dataclasses.replace(made, place={"kind": "pool", **told}, cells=cells)
    line = cached(specs, summary)
    assert said in line
    assert "--size" in said or line.endswith(said)
    fits = memory is not None and "more than" not in line
    assert ("fits into the server's memory" in report_of(summary)) == fits


def test_a_lab_has_its_files_in_memory() -> None:
    specs = own_cells("connections", Scale(quick=True))
    assert "MiB, which the lab's server has in memory" in cached(specs, reference("connections"))


def test_a_server_that_does_not_tell_its_memory_costs_that_alone() -> None:
    assert server_memory("false") is None
    assert server_memory("env") is not None
