# SPDX-License-Identifier: GPL-2.0-only
"""`run --metrics FILE`: what a run does, for the textfile collector of Prometheus's node-exporter.

The file is replaced each second, whole or not at all. It stays when the run has ended, with no cell
under way.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import ConnectionStats
from nfsmulti.paths import write_whole
from nfsmulti.report import measures
from nfsmulti.run.live import TROUBLES, Counts, Live, added, totals
from nfsmulti.run.plan import PlannedCell
from nfsmulti.run.record import Record, Watcher
from nfsmulti.summary import Cell

_GAUGES = {
    "nfsmulti_cells": "Cells of the run, by status.",
    "nfsmulti_cell_seconds": "Seconds that the cell under way has been running for.",
    "nfsmulti_path_bytes_per_second": "Bytes per second of a path, in the latest second.",
    "nfsmulti_path_operations_per_second": "Calls answered per second, likewise.",
    "nfsmulti_path_latency_seconds": "Mean time from a call to its reply, likewise.",
    "nfsmulti_last_bytes_per_second": "Bytes per second of the latest cell that is done.",
    "nfsmulti_last_operations_per_second": "I/Os per second of that cell.",
    "nfsmulti_last_p99_seconds": "99th percentile of that cell's completion latency.",
}
_COUNTERS = {f"nfsmulti_path_{name}": f"{name.title()} of a path in this run." for name in TROUBLES}


class Metrics(Watcher, Collector):
    """Writes them to `file`. Raises HarnessError where that cannot be written at the beginning.

    Later nothing is raised: a full disk is no reason to fail a cell. All is passed on to `beside`.
    """

    def __init__(self, file: Path, record: Record, beside: Watcher):
        self._file, self._record, self._beside = file, record, beside
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._cell = ""
        self._seconds = 0.0
        self._now: Live | None = None
        self._last: Cell | None = None
        # Of what has ended.
        self._troubles: dict[str, Counts] = {}
        if file.suffix != ".prom":
            raise HarnessError(f"--metrics {file}: node-exporter reads files named *.prom alone")
        try:
            self._save()
        except HarnessError as error:
            raise HarnessError(f"--metrics {error.what}") from None

    def begin(self, cell: PlannedCell) -> None:
        """Tell which cell is under way; one that was cut short to run longer is not told of."""
        if self._now:
            self._troubles = added((self._troubles, self._now.paths))
        self._cell = cell.id
        self._write(0.0, None)
        self._beside.begin(cell)

    def tick(self, seconds: float, now: Live | None) -> None:
        """Tell for how long, and what it does."""
        self._write(seconds, now)
        self._beside.tick(seconds, now)

    def end(self, cell: Cell) -> None:
        """Tell what it has found, which of a warm-up does not count."""
        self._cell = ""
        if cell.status == "done" and cell.repeat:
            self._last = cell
        with contextlib.suppress(HarnessError):  # a broken line has failed the cell
            stats = ConnectionStats.read(self._record.folder / cell.folder / "stats.jsonl")
            self._troubles = added((self._troubles, totals(stats)))
        self._write(0.0, None)
        self._beside.end(cell)

    def note(self, line: str) -> None:
        """Pass it on."""
        self._beside.note(line)

    def collect(self) -> Iterator[Metric]:
        """Yield what holds now, as prometheus_client asks for it."""
        plan = self._record.plan
        run = {"scenario": plan.scenario, "label": plan.label}
        samples: dict[str, Metric] = {
            **{name: GaugeMetricFamily(name, text) for name, text in _GAUGES.items()},
            **{name: CounterMetricFamily(name, text) for name, text in _COUNTERS.items()},
        }

        def add(name: str, value: float | None, **labels: str) -> None:
            kind = samples[f"nfsmulti_{name}"]
            ending = "_total" if kind.type == "counter" else ""
            if value is not None:
                kind.add_sample(f"nfsmulti_{name}{ending}", {**run, **labels}, value)

        statuses = Counter(str(cell.status) for cell in self._record.cells)
        for status in ("done", "failed", "waiting", "skipped"):
            add("cells", statuses[status], status=status)
        if self._cell:
            add("cell_seconds", self._seconds, cell=self._cell)
        now = self._now or Live({}, {})
        for path in now.per_s:
            rates = now.rates([path])
            add("path_bytes_per_second", rates.bytes_per_s, path=path)
            add("path_operations_per_second", rates.ops_per_s, path=path)
            add("path_latency_seconds", rates.latency_s, path=path)
        for path, counts in added((self._troubles, now.paths)).items():
            for name in TROUBLES:
                add(f"path_{name}", counts.get(name, 0), path=path)
        if self._last:
            found, rate = (one(self._last) for one in (measures.P99, measures.MB_PER_S))
            add("last_bytes_per_second", rate and rate * 1e6, cell=self._last.id)
            add("last_operations_per_second", measures.IOPS(self._last), cell=self._last.id)
            add("last_p99_seconds", found and found / 1000, cell=self._last.id)
        yield from (one for one in samples.values() if one.samples)

    def _write(self, seconds: float, now: Live | None) -> None:
        self._seconds, self._now = seconds, now
        with contextlib.suppress(HarnessError):
            self._save()

    def _save(self) -> None:
        write_whole(self._file, generate_latest(self._registry))
