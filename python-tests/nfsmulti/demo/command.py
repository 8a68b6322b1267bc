# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti demo."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nfsmulti.demo.outcome import Figures, Outcome, story, table
from nfsmulti.demo.workloads import WORKLOADS, Workload
from nfsmulti.fiorun import Engine, Fio, FioProcess, FioResult, Options
from nfsmulti.lab import Lab
from nfsmulti.machine import versions
from nfsmulti.paths import JOBFILES, RESULTS, shown

# On top of a run's own time: starting fio, writing the file where it is missing.
_START_SECONDS = 3
_SPARE_SECONDS = 60

_NEXT = """\
[bold]What to type next[/bold]
  ./nfsmulti lab start --link 9400mbit --per-address 6200mbit
  ./nfsmulti lab exec -- fio --ioengine=external:./build/libnfsmulti.so --pool=lab \
--spread=stripe jobfiles/fsperf.fio
  ./nfsmulti lab stop
With a server of your own:
  ./nfsmulti doctor --pool='nfs://SERVER/EXPORT'
  fio --ioengine=external:./build/libnfsmulti.so --pool='nfs://10.0.0.[1-4]/EXPORT' \
--spread=roundrobin jobfiles/fsperf.fio"""


def demo() -> None:
    """Run the dd, fsperf and randread jobfiles on one path and on a pool, side by side.

    Starts real NFS servers on this machine, with the link limits of the published stories. Takes
    about two minutes, needs root, and leaves its results under results/demo/.
    """
    from nfsmulti.demo.plot import write_plot  # matplotlib takes half a second to load

    out = Console(highlight=False)
    folder = RESULTS / "demo" / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with _Meter(out) as meter:
        outcomes = [_Run(workload, folder, meter).outcome() for workload in WORKLOADS]
    write_plot(outcomes, folder / "demo.png")
    _write_summary(outcomes, folder / "summary.json")
    out.print(table(outcomes))
    for outcome in outcomes:
        out.print(f"{story(outcome)}\n")
    out.print(f"{shown(folder)} holds demo.png, summary.json, and each fio's command and output.\n")
    out.print(_NEXT, soft_wrap=True, markup=True)


class _Meter(Progress):
    """One bar for the whole demo, which moves with time since every run's length is known."""

    def __init__(self, console: Console):
        columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
        super().__init__(*columns, console=console, transient=True)
        runs = [2 * (workload.seconds + _START_SECONDS) for workload in WORKLOADS]
        self._task = self.add_task("starting the lab", total=sum(runs))
        self._done = 0

    def watch(self, process: FioProcess, description: str, seconds: int) -> FioResult:
        """Wait for a fio that takes about `seconds`, and give its result."""
        expected = seconds + _START_SECONDS
        for second in range(expected):
            self.update(self._task, description=description, completed=self._done + second)
            if process.wait(1) is not None:
                break
        self._done += expected
        self.update(self._task, completed=self._done)
        return process.result(_SPARE_SECONDS)


@dataclasses.dataclass(frozen=True)
class _Run:
    """A workload's two runs in a lab of its own."""

    workload: Workload
    folder: Path
    meter: _Meter

    def outcome(self) -> Outcome:
        """Run on one path, then on the pool. Raises HarnessError where lab or fio fail."""
        workload = self.workload
        with Lab(workload.lab) as lab:
            fio = Fio(Engine.built(), enter=lab.command([]))
            one = self._figures(fio, lab.pool_of(1), "one", workload.one_text, workload.one)
            pool = self._figures(fio, lab.pool, "pool", workload.pool_text, workload.pool)
        return Outcome(workload, one, pool)

    def _figures(self, fio: Fio, pool: str, label: str, text: str, options: Options) -> Figures:
        workload = self.workload
        folder = self.folder / f"{workload.name}-{label}"
        jobfile = JOBFILES / workload.jobfile
        with fio.start(folder, pool=pool, jobfile=jobfile, options=options) as process:
            result = self.meter.watch(process, f"{workload.name}, {text}", workload.seconds)
        return Figures.of(result, workload)


def _write_summary(outcomes: list[Outcome], file: Path) -> None:
    runs = {
        outcome.workload.name: {
            "one": dataclasses.asdict(outcome.one),
            "pool": dataclasses.asdict(outcome.pool),
            "ratio": outcome.ratio,
            "published": outcome.workload.published,
            "published_ratio": outcome.workload.published_ratio,
        }
        for outcome in outcomes
    }
    file.write_text(json.dumps({"versions": versions(), "runs": runs}, indent="\t") + "\n")
