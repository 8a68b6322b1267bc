# SPDX-License-Identifier: GPL-2.0-only
"""run --metrics: what Prometheus reads during a run, what docs/ say, and what Grafana asks for."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from pathlib import Path

import made_runs
import pytest
from prometheus_client.parser import text_string_to_metric_families
from run_helpers import made_record, own_cells

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.paths import ROOT
from nfsmulti.run import runner
from nfsmulti.run.live import TROUBLES, Live
from nfsmulti.run.metrics import Metrics
from nfsmulti.run.place import OnPool
from nfsmulti.run.record import Watcher, waiting_cell
from nfsmulti.scenario import Scale
from servers.scripted import Answer, Nfs, ScriptedServer, on

_SECONDS = 5.0


_PATH = "10.0.0.1:2049:/export"


def _told(file: Path) -> dict[str, float]:
    """Return the values in a file, by name; of several, the last."""
    found = text_string_to_metric_families(file.read_text())
    return {sample.name: sample.value for family in found for sample in family.samples}


def test_documents_name_what_is_told_of_a_cell(tmp_path: Path) -> None:
    """Also where it is run again, at twice its length: counters never go down."""
    record = made_record(tmp_path / "run", "oltp", own_cells("oltp", Scale(True, None))[:1])
    (planned,) = record.plan.cells
    metrics = Metrics(file := tmp_path / "nfsmulti.prom", record, Watcher())
    counts = {"bytes": 4e6, "ops": 1000.0, "ns": 5e8, **dict.fromkeys(TROUBLES, 1.0)}
    now = Live({_PATH: counts}, {_PATH: counts})
    assert now.text([1.0, 2.0, 4.0]).startswith("4.00 MB/s 1,000 IOPS 0.500 ms ▂▄█ 1 error 1")
    metrics.begin(planned)
    metrics.tick(1.5, now)
    told = _told(file)
    metrics.begin(planned)
    metrics.tick(1.0, now)
    assert f'reconnects_total{{label="",path="{_PATH}",scenario="oltp"}} 2.0' in file.read_text()
    figures = made_runs.figures(random.Random(1), 900e6, 65536, 2500)
    metrics.end(dataclasses.replace(waiting_cell(planned), status="done", read=figures))
    told |= _told(file)
    values = {
        "cell_seconds": 1.5,
        "path_bytes_per_second": 4e6,
        "path_operations_per_second": 1000,
        "path_latency_seconds": 0.0005,
        "last_bytes_per_second": figures.bytes_per_s,
        "last_operations_per_second": figures.iops,
        "last_p99_seconds": figures.p99_us / 1e6,
    }
    assert {name: told[f"nfsmulti_{name}"] for name in values} == pytest.approx(values)
    names = {*told}
    board = json.loads((ROOT / "docs/grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert set(re.findall(r"nfsmulti_\w+", " ".join(asked))) == names
    assert set(re.findall(r"`(nfsmulti_\w+)", (ROOT / "docs/reports.md").read_text())) == names


def test_a_run_tells_what_its_paths_met(tmp_path: Path) -> None:
    """Connections are reset on the way."""
    specs = own_cells("oltp", Scale(True, _SECONDS))[:1]
    record = made_record(tmp_path / "run", "oltp", specs)
    reset = on(Nfs.READ, Answer(reply=False, end="reset"), every=20)
    metrics = Metrics(file := tmp_path / "nfsmulti.prom", record, Watcher())
    with ScriptedServer(reset) as server:
        runner.run_in_place(record, "pool", lambda: OnPool(server.pool()), Engine.built(), metrics)
    (cell,) = record.cells
    assert cell.status == "done", cell.why
    last = file.read_text()
    assert re.search(r"nfsmulti_path_reconnects_total\{.*\} [1-9]", last)
    assert re.search(r'nfsmulti_cells\{label="",scenario="oltp",status="done"\} 1.0', last)
    assert "nfsmulti_cell_seconds{" not in last
    assert "reconnect" in cell.marks
    assert list((record.folder / cell.folder).glob("live_file*")) == []


def test_a_file_that_cannot_be_written_ends_the_command_first(tmp_path: Path) -> None:
    record = made_record(tmp_path / "run", "dd", own_cells("dd", Scale(True, None))[:1])
    for name, why in {
        "none/nfsmulti.prom": "No such file",
        "nfsmulti.txt": "node-exporter",
    }.items():
        with pytest.raises(HarnessError, match=rf"--metrics .*: {why}"):
            Metrics(tmp_path / name, record, Watcher())
