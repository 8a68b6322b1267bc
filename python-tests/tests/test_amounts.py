# SPDX-License-Identifier: GPL-2.0-only
"""--size, --runtime, --depth, --bs and --precondition: of every scenario, and in a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import call_harness, refusal
from run_helpers import own_cells

from nfsmulti.errors import HarnessError
from nfsmulti.run.amounts import Amounts, cached
from nfsmulti.scripted import ScriptedServer
from nfsmulti.stories import SCENARIOS, Scale
from nfsmulti.summary import Summary

# What a scenario's cells differ in themselves, or have none of.
_OWN = {
    "sweep": {"size", "bs"},
    "sio": {"bs"},
    "oltp": {"depth"},
    "neighbour": {"depth", "bs"},
    "metadata": {"size", "bs", "depth"},
}
_GIVEN: dict[str, Any] = {"size": 64 << 20, "depth": 7, "bs": 12288}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_takes_amounts(name: str) -> None:
    specs = own_cells(name, Scale(quick=True))
    taken = {key: value for key, value in _GIVEN.items() if key not in _OWN.get(name, set())}
    for key in _GIVEN.keys() - taken.keys():
        with pytest.raises(HarnessError, match=f"--{key}: "):
            Amounts(**{key: _GIVEN[key]}).of(specs)
    for spec in Amounts(**taken, runtime=2.5, precondition=True).of(specs):
        options = spec.options
        assert (options["runtime"], spec.seconds) == ("2500ms", 2.5)
        assert spec.entries or (options["overwrite"], options["time_based"]) == (1, True)
        parts = int(options["numjobs"] or 1) if "offset_increment" in options else 1
        assert "size" not in taken or options["size"] == taken["size"] // parts
        assert "size" not in taken or set(spec.files.values()) <= {taken["size"]}
        assert "depth" not in taken or options["iodepth"] == 7
        assert "bs" not in taken or options["bs"] == 12288


def test_a_run_of_given_amounts_says_how_they_relate_to_the_servers_memory(tmp_path: Path) -> None:
    words = ["--runtime=0.3s", "--size=8m", "--bs=12k", "--depth=5", "--precondition"]
    words += ["--nconnect=1,2", "--jobs=1", "--repeat=1", f"--results={tmp_path}"]
    with ScriptedServer() as server:
        done = call_harness("run", "connections", "--quick", f"--pool={server.pool()}", *words)
    assert done.status == 0, done.stdout + done.stderr
    assert "one file of 8 MiB: a server with more memory than that" in done.stdout
    (folder,) = tmp_path.glob("connections/*")
    cells = Summary.load(folder).cells
    assert {cell.id for cell in cells} == {"nconnect1-r1", "nconnect2-r1"}
    for cell in cells:
        assert cell.factors["workload"] == "12k-read"
        for option in ("bs=12288", "size=8388608", "iodepth=5", "runtime=300ms", "overwrite=1"):
            assert f"--{option} " in cell.command, option


def test_one_depth_but_for_metadata() -> None:
    said = refusal("run", "connections", "--depth=1,2")
    assert "--factors iodepth=1,2 compares several" in said


def test_memory_that_holds_the_files_is_told() -> None:
    (spec,) = Amounts(size=4 << 30).of(own_cells("connections", Scale(quick=True))[:1])
    assert "cache; --size=16g goes beyond it" in cached(spec, 8 << 30)
    assert re.search(r"4,096 MiB, more than the server's 2.0 GiB", cached(spec, 2 << 30))
