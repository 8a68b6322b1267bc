# SPDX-License-Identifier: GPL-2.0-only
"""The demo, with runs of a second each."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from conftest import FioRunner

from nfsmulti.demo import command
from nfsmulti.demo.outcome import Figures
from nfsmulti.demo.workloads import WORKLOADS
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Options
from nfsmulti.lab import Lab

_SHORT: Options = {"runtime": 1, "time_based": True, "io_size": "32m"}


def test_demo_leaves_figures_a_plot_and_what_to_type(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = [workload for workload in WORKLOADS if workload.name != "randread"]
    short = [
        dataclasses.replace(
            workload, seconds=1, one={**workload.one, **_SHORT}, pool={**workload.pool, **_SHORT}
        )
        for workload in chosen
    ]
    monkeypatch.setattr(command, "WORKLOADS", short)
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    command.demo()
    (folder,) = (tmp_path / "demo").iterdir()
    assert (folder / "demo.png").stat().st_size > 10_000
    runs = json.loads((folder / "summary.json").read_text())["runs"]
    assert list(runs) == [workload.name for workload in short]
    assert len(runs["dd-write"]["one"]["shares"]) == 1
    assert len(runs["dd-write"]["pool"]["shares"]) == 5
    assert "--spread=roundrobin" in (folder / "fsperf-pool" / "command").read_text()
    printed = " ".join(capsys.readouterr().out.split())
    assert "fsperf, 4 paths" in printed
    assert "Published: NFSv3, 10 GbE" in printed
    assert "./nfsmulti lab start" in printed


def test_failed_fio_is_told_in_its_own_words(fio: FioRunner) -> None:
    failed = fio(pool="nfs://10.77.0.1/nowhere?nfsport=22049&mountport=22050", filename="f")
    with pytest.raises(HarnessError, match=r"(?s)fsperf: fio failed \(status 1\).*nowhere"):
        Figures.of(failed, WORKLOADS[1])
