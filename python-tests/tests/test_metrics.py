# SPDX-License-Identifier: GPL-2.0-only
"""run --metrics: what Prometheus reads during a run, what docs/ say, and what Grafana asks for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from run_helpers import made_record, own_cells

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.paths import ROOT
from nfsmulti.run import runner
from nfsmulti.run.live import Live
from nfsmulti.run.metrics import Metrics
from nfsmulti.run.place import OnPool
from nfsmulti.run.record import Record, Watcher
from nfsmulti.scripted import Answer, Nfs, ScriptedServer, on
from nfsmulti.stories import Scale

_SECONDS = 5.0


class _Kept(Metrics):
    """Keeps what the file had in each second."""

    def __init__(self, file: Path, record: Record):
        super().__init__(file, record, Watcher())
        self.file, self.seconds, self.lines = file, list[str](), list[str]()

    def tick(self, seconds: float, now: Live | None) -> None:
        """Keep it."""
        super().tick(seconds, now)
        if now:
            self.seconds.append(self.file.read_text())
            self.lines.append(now.text([1.0, 2.0, 4.0]))


def _names(text: str) -> set[str]:
    found = text_string_to_metric_families(text)
    return {sample.name for family in found for sample in family.samples}


def test_a_run_tells_each_second_what_its_paths_do(tmp_path: Path) -> None:
    """Connections are reset on the way."""
    specs = own_cells("oltp", Scale(True, _SECONDS))[:1]
    record = made_record(tmp_path / "run", "oltp", specs)
    reset = on(Nfs.READ, Answer(reply=False, end="reset"), every=100)
    with ScriptedServer(reset) as server:
        kept = _Kept(tmp_path / "nfsmulti.prom", record)
        runner.run_in_place(record, "pool", lambda: OnPool(server.pool()), Engine.built(), kept)
    (cell,) = record.cells
    assert cell.status == "done", cell.why
    last = (tmp_path / "nfsmulti.prom").read_text()
    assert re.search(r'nfsmulti_path_bytes_per_second\{.*path=".*"\} [1-9]', "".join(kept.seconds))
    assert re.search(r"nfsmulti_path_reconnects_total\{.*\} [1-9]", last)
    assert re.search(r'nfsmulti_cells\{label="",scenario="oltp",status="done"\} 1.0', last)
    assert "nfsmulti_cell_seconds{" not in last
    assert any(re.fullmatch(r"\S+ MB/s \S+ IOPS \S+ .s ▂▄█.*", line) for line in kept.lines), (
        kept.lines
    )
    names = set().union(*map(_names, [*kept.seconds, last]))
    board = json.loads((ROOT / "docs/grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert set(re.findall(r"nfsmulti_\w+", " ".join(asked))) == names
    assert set(re.findall(r"`(nfsmulti_\w+)", (ROOT / "docs/reports.md").read_text())) == names
    assert "reconnect" in cell.marks
    assert list((record.folder / cell.folder).glob("live_file*")) == []


def test_a_file_that_cannot_be_written_ends_the_command_first(tmp_path: Path) -> None:
    record = made_record(tmp_path / "run", "dd", own_cells("dd", Scale(True, None))[:1])
    with pytest.raises(HarnessError, match=r"--metrics .*: No such file"):
        Metrics(tmp_path / "none" / "nfsmulti.prom", record, Watcher())
