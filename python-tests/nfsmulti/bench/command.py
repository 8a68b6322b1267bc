# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti bench: client-cost, mount, rdma, scale."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from nfsmulti.bench import client_cost as sink
from nfsmulti.bench import mounts, report
from nfsmulti.bench.report import CaseResult
from nfsmulti.bench.runs import (
    FULL,
    QUICK,
    SINGLE,
    Case,
    Contender,
    Cores,
    Run,
    Timing,
    choose,
    choose_cores,
    command,
    figures_of,
    run_fio,
)
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.lab import guest
from nfsmulti.machine import versions
from nfsmulti.paths import BUILD, RESULTS, ROOT, portable, write_json
from nfsmulti.processes import run
from nfsmulti.texts import Bar, Table

_out = Console(highlight=False, soft_wrap=True)

_URL = "nfs://127.0.0.1/export?nfsport=PORT&mountport=PORT"
_SECONDS = 10.0
_CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")

# Runs an engine on a case; the run's files go to the folder.
RunOnce = Callable[[Contender, Case, Path], Run]


# --- what a bench is told ---


@dataclass(frozen=True)
class Options:
    """What every bench is told."""

    quick: bool
    targets: bool
    repeat: int | None
    results: Path | None

    def timing(self) -> Timing:
        """Give how long and how often each case is run."""
        timing = QUICK if self.quick else FULL
        return dataclasses.replace(timing, repeats=self.repeat or timing.repeats)

    def folder(self, name: str) -> Path:
        """Give where its results go: what is given, or a folder for this time."""
        return self.results or RESULTS / name / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


@dataclass(frozen=True)
class _CaseOptions(Options):
    """What those with cases to choose from are told."""

    case: Sequence[str] | None
    listed: bool
    client_cpu: int | None

    def chosen(self, cases: Sequence[Case]) -> list[Case]:
        """Choose from these cases; --list ends here."""
        found = choose(cases, self.case or [])
        if self.listed:
            _list(found, targets=self.targets)
            raise SystemExit(0)
        return found


@dataclass(frozen=True)
class _SinkOptions(_CaseOptions):
    """What those with nfs-sink for a server are told."""

    server_cpu: int | None
    server_sleeps: bool

    def under_way(self, name: str) -> tuple[Bench, sink.SinkBench]:
        """Begin a bench of that name."""
        cores = choose_cores(self.client_cpu, self.server_cpu)
        bench = Bench(name, self, cores)
        server = sink.SinkBench(cores, bench.timing, bench.scratch, self.server_sleeps)
        bench.data["setting"]["server"] = server.server_text
        return bench, server


def _list(cases: Sequence[Case], *, targets: bool) -> None:
    """Show the cases by name, with their bars where these are asked for."""
    rows = [
        [
            case.name,
            *((bar.beside, report.RATIOS.get(bar.figure, "calls/op"), bar.text) if bar else ""),
        ]
        for case in cases
        for bar in (targets and case.bars) or [None]
    ]
    headings = ["case", *(["beside", "figure", "target"] if targets else [])]
    _out.print(Table(headings, rows, text_columns=len(headings)).terminal())


# --- a bench under way ---


class Bench:
    """A bench, and what it has found: `data`, as it stands in results.json.

    Its runs leave their files below `scratch`. `cores` are None where processors are not chosen.
    """

    def __init__(self, name: str, options: Options, cores: Cores | None):
        self.timing = options.timing()
        self._options, self._folder = options, options.folder(name)
        self.results: list[CaseResult] = []
        begun = datetime.now(UTC)
        self.scratch = BUILD / "bench" / name / f"{begun:%Y%m%dT%H%M%SZ}"
        self.data: dict[str, Any] = {
            "bench": name,
            "begun": begun.isoformat(timespec="seconds"),
            "quick": options.quick,
            "setting": _setting(cores),
            "left_out": [],
        }

    def measure(
        self,
        cases: Sequence[Case],
        contenders: Sequence[Contender],
        run_once: RunOnce,
        target: str = "",
        *,
        cases_in_turn: bool = False,
    ) -> None:
        """Run engines in turn on each case that they take, as often as it is to be repeated.

        With `cases_in_turn` all cases have had a run before any has its next. `target` is what
        stands for the server in the commands of the page.
        """
        takers = [[one for one in contenders if one.takes(case)] for case in cases]
        self.results = [
            CaseResult(case, {one.name: [] for one in those})
            for case, those in zip(cases, takers, strict=True)
        ]
        order = [
            (number, result, those)
            for result, those in zip(self.results, takers, strict=True)
            for number in range(self.timing.repeats)
        ]
        if cases_in_turn:
            order.sort(key=lambda one: one[0])
        with Bar(_out, "", sum(len(those) for _, _, those in order)) as bar:
            for number, result, those in order:
                for contender in those:
                    bar.show(f"{result.case.words}: {contender.name}")
                    self._run(run_once, contender, result, number)
                    bar.show(advance=1)
        self.data["commands"] = list(self._commands(cases, contenders, target))

    def _run(
        self, run_once: RunOnce, contender: Contender, result: CaseResult, number: int
    ) -> None:
        runs = result.runs[contender.name]
        if len(runs) < number:  # the last was left out
            return
        try:
            folder = self.scratch / f"{result.case.name}-{contender.name}".replace(" ", "-")
            runs.append(run_once(contender, result.case, folder / str(number)))
        except HarnessError as error:
            has_run = any(one.runs.get(contender.name) for one in self.results)
            if not contender.optional or not has_run:
                raise
            why = "; ".join(dict.fromkeys(error.what.splitlines()))
            self.data["left_out"].append({"case": result.case.name, "why": why})
            runs.clear()

    def _commands(
        self, cases: Sequence[Case], contenders: Sequence[Contender], target: str
    ) -> dict[str, None]:
        """Give what each engine runs for its first case of each NFS version, as one types it."""
        first = {(one.name, case.version): (one, case) for one in contenders
                 for case in reversed(cases) if one.takes(case)}  # fmt: skip
        return dict.fromkeys(
            portable(shlex.join(word for word in command(one, case, target, self.timing, Path())
                       if not word.startswith("--output")))
            for one, case in first.values()
        )  # fmt: skip

    def finish(self, *, page: bool = True) -> None:
        """Write what was found, and its page, and show the answer."""
        self._folder.mkdir(parents=True, exist_ok=True)
        timing = dataclasses.asdict(self.timing)
        values = {**self.data, "timing": timing, "cases": [one.data() for one in self.results]}
        write_json(self._folder / report.FILE, values)
        if page:
            print(report.write(self._folder, targets=self._options.targets))


def _setting(cores: Cores | None) -> dict[str, str]:
    """Say on what, and how, the figures are measured."""
    model = re.search(r"^model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    pinned = {}
    if cores:
        pinned = {f"{side} on processor": str(cpu) for side, cpu in cores._asdict().items()}
    return {
        **versions(),
        "engine": _revision(),
        "processor": model[1] if model else "unknown",
        "TCP congestion control": _CONGESTION.read_text().strip(),
        **pinned,
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def _revision() -> str:
    try:
        said = run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], timeout=_SECONDS)
    except HarnessError:  # a machine without git; a copy without git's folder says nothing
        return "unknown"
    return said.stdout.strip() or "unknown"


# --- the commands ---


def client_cost(yardstick: Path | None, **given: Any) -> None:
    """Measure beside fio's own nfs engine, run by run."""
    options = _SinkOptions(**given)
    cases = options.chosen(sink.CLIENT_COST)
    bench, server = options.under_way("client-cost")
    engine, rivals = Engine.built(), []
    if yardstick:  # before the peer is built, which takes minutes
        bench.data["setting"]["yardstick"] = yardstick.name
        rivals.append(sink.yardstick_engine(yardstick, bench.scratch))
    if not all(one.version or one.operation for one in cases):
        rivals.insert(0, sink.peer_engine(sink.peer_fio(_out.print)))
    contenders = [sink.our_engine(engine), *rivals, *sink.ourselves(engine)]
    bench.measure(cases, contenders, server.run_once, _URL)
    bench.data["memory_bytes"] = server.memory(contenders[0])
    bench.finish()


def mount(disk: Path | None, **given: Any) -> None:
    """Measure beside fio's io_uring engine, on the same file."""
    options = _CaseOptions(**given)
    cases = options.chosen(mounts.MOUNT)
    cores = choose_cores(options.client_cpu)
    bench = Bench("mount", options, cores)
    bench.timing = dataclasses.replace(bench.timing, ramp=0)
    with mounts.places(disk or bench.scratch) as folders:
        contenders = [mounts.our_mount(Engine.built()), mounts.io_uring()]
        run_once = mounts.MountBench(cores, bench.timing, folders).run_once
        bench.measure(cases, contenders, run_once, "DIRECTORY")
    bench.finish()


def rdma(**given: Any) -> None:
    """Measure in the kernel lab, which this starts unless it runs there already."""
    options = Options(**given)
    timing = options.timing()
    if not guest.inside():
        folder = options.folder("rdma").absolute()
        words = [*(["--quick"] if options.quick else []), f"--repeat={timing.repeats}"]
        if status := mounts.boot(words, folder):
            sys.exit(status)
        print(report.write(folder, targets=options.targets))
        return

    def run_once(contender: Contender, case: Case, folder: Path) -> Run:
        return figures_of(run_fio(contender, case, "", timing, folder, enter=[]), case)

    bench = Bench("rdma", options, None)
    bench.measure(mounts.RDMA, mounts.over_rdma(Engine.built()), run_once)
    bench.finish(page=False)  # which would take a minute here


def scale(**given: Any) -> None:
    """Measure as connections and depth grow."""
    options = _SinkOptions(**given)
    cases = options.chosen(sink.SCALE)
    ours = sink.our_engine(Engine.built())
    bench, server = options.under_way("scale")
    bench.measure(cases, [ours], server.run_once, _URL, cases_in_turn=True)
    alone = {one.case.depth: one.ours for one in bench.results if one.case.connections == 1}
    for one in bench.results:
        if one.case.connections > 1 and one.case.depth in alone:
            one.runs[SINGLE] = alone[one.case.depth]
    bench.finish()
