# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti bench: client-cost, mount, rdma, scale."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from nfsmulti.arguments.measure import COLUMNS
from nfsmulti.bench import mounts
from nfsmulti.bench.client_cost import (
    CALLS_HOW,
    CLIENT_COST,
    MANY_BARS,
    SCALE,
    SCALE_ENDS,
    YARDSTICK_IS,
    SinkBench,
    memory_line,
    our_engine,
    ourselves,
    peer_engine,
    peer_fio,
    yardstick_engine,
)
from nfsmulti.bench.report import (
    RATIOS,
    CaseResult,
    Report,
    calls_lines,
    draw_comparison,
    draw_scale,
)
from nfsmulti.bench.runs import (
    FULL,
    QUICK,
    RIVALS,
    Case,
    Contender,
    Figure,
    Run,
    Timing,
    choose,
    choose_cores,
    figures_of,
    run_fio,
)
from nfsmulti.errors import MissingError
from nfsmulti.fiorun import Engine
from nfsmulti.lab import guest
from nfsmulti.texts import MISSING, Table

_out = Console(highlight=False, soft_wrap=True)

_URL = "nfs://127.0.0.1/export?nfsport=PORT&mountport=PORT"
_COLUMNS = "\n".join(f"- {line}" for line in COLUMNS)


@dataclass(frozen=True)
class _Options:
    """What every bench is told."""

    quick: bool
    repeat: int | None
    results: Path | None

    def timing(self) -> Timing:
        """Give how long and how often each case is run."""
        timing = QUICK if self.quick else FULL
        return dataclasses.replace(timing, repeats=self.repeat or timing.repeats)


@dataclass(frozen=True)
class _CaseOptions(_Options):
    """What those with cases to choose from are told."""

    case: Sequence[str] | None
    listed: bool
    client_cpu: int | None

    def chosen(self, cases: Sequence[Case]) -> list[Case]:
        """Choose from these cases; --list ends here."""
        found = choose(cases, self.case or [])
        if self.listed:
            _list(found)
            raise SystemExit(0)
        return found


@dataclass(frozen=True)
class _SinkOptions(_CaseOptions):
    """What those with nfs-sink for a server are told."""

    server_cpu: int | None
    server_sleeps: bool

    def under_way(self, name: str) -> tuple[Report, SinkBench]:
        """Begin a bench of that name."""
        cores = choose_cores(self.client_cpu, self.server_cpu)
        report = Report(name, self.timing(), cores, _out)
        bench = SinkBench(cores, report.timing, report.scratch, self.server_sleeps)
        report.setting["server"] = bench.server_text
        return report, bench


def client_cost(yardstick: Path | None, **given: Any) -> None:
    """Measure beside fio's own nfs engine, run by run."""
    options = _SinkOptions(**given)
    cases = options.chosen(CLIENT_COST)
    report, bench = options.under_way("client-cost")
    limit = _yardstick(report, yardstick)  # before the peer is built, which takes minutes
    engine, rivals = Engine.built(), limit
    if not all(one.version or one.operation for one in cases):
        rivals = [peer_engine(peer_fio(_out.print)), *limit]
    contenders = [our_engine(engine), *rivals, *ourselves(engine)]
    found = report.measure(cases, contenders, bench.run_once)
    how_counted = _count_calls(bench, rivals, found)
    memory = bench.memory(contenders[0])
    report.add_comparison(contenders, _URL)
    report.lines += [*calls_lines(found), memory_line(memory)]
    report.notes += [_tcp(report), how_counted, _COLUMNS]
    report.data["memory_bytes"] = memory
    report.finish(options.results, draw_comparison)


def mount(disk: Path | None, **given: Any) -> None:
    """Measure beside fio's io_uring engine, on the same file."""
    options = _CaseOptions(**given)
    cases = options.chosen(mounts.MOUNT)
    cores = choose_cores(options.client_cpu)
    contenders = [mounts.our_mount(Engine.built()), mounts.io_uring()]
    report = Report("mount", dataclasses.replace(options.timing(), ramp=0), cores, _out)
    with mounts.places(disk or report.scratch) as folders:
        bench = mounts.MountBench(cores, report.timing, folders)
        report.measure(cases, contenders, bench.run_once)
    report.add_comparison(contenders, "DIRECTORY")
    report.notes += [mounts.CPU_HOW, _COLUMNS]
    report.finish(options.results, draw_comparison)


def rdma(**given: Any) -> None:
    """Measure in the kernel lab, which this starts unless it runs there already."""
    options = _Options(**given)
    timing = options.timing()
    if not guest.inside():
        words = [*(["--quick"] if options.quick else []), f"--repeat={timing.repeats}"]
        sys.exit(mounts.boot(words, options.results))
    assert options.results is not None
    report = Report("rdma", timing, None, _out)
    contenders = mounts.over_rdma(Engine.built())

    def run_once(contender: Contender, case: Case, folder: Path) -> Run:
        return figures_of(run_fio(contender, case, "", timing, folder, enter=[]), case)

    report.measure(mounts.RDMA, contenders, run_once)
    report.add_figures(contenders, "")
    report.lines += mounts.rdma_lines(report.results)
    report.notes.append(mounts.RDMA_HOW)
    report.data["cases"] = [result.data() for result in report.results]
    report.write(options.results)


def scale(**given: Any) -> None:
    """Measure as connections and depth grow."""
    options = _SinkOptions(**given)
    cases = options.chosen(SCALE)
    ours = our_engine(Engine.built())
    report, bench = options.under_way("scale")
    report.measure(cases, [ours], bench.run_once, cases_in_turn=True)
    report.add_figures([ours], _URL)
    report.lines += _scale_lines(report.results)
    report.notes += [_tcp(report), _COLUMNS]
    report.data["cases"] = [
        {"case": one.case.name, "runs": [dataclasses.asdict(run) for run in one.runs[ours]]}
        for one in report.results
    ]
    report.finish(options.results, draw_scale)


def _list(cases: Sequence[Case]) -> None:
    """Show the cases with their bars, a line for each engine that a case is held beside."""
    headings = ("case", "beside", "CPU per operation", "IOPS", "p50", "system calls")
    rows = [row for case in cases for row in _bars_of(case)]
    _out.width = max(_out.width, 100)
    _out.print(Table(headings, rows, text_columns=len(headings)).terminal())


def _bars_of(case: Case) -> Iterator[list[str]]:
    name = case.name
    for role, rival in RIVALS.items():
        texts = {bar.figure: bar.text for bar in case.bars if bar.beside == role}
        if texts:
            figures: Sequence[Figure] = ("cpu", "rate", "p50", "calls")
            yield [name, rival, *(texts.get(figure, MISSING) for figure in figures)]
            name = ""
    if not case.bars:
        yield [name, *[""] * 5]


def _yardstick(report: Report, source: Path | None) -> list[Contender]:
    """Build the yardstick where there is one, and have the report say what it is."""
    if source is None:
        return []
    report.setting["yardstick"] = source.name
    report.notes.append(YARDSTICK_IS)
    return [yardstick_engine(source, report.scratch)]


def _count_calls(
    bench: SinkBench, contenders: Sequence[Contender], found: Sequence[CaseResult]
) -> str:
    """Count the system calls of those who do not; say how, or why not.

    Not on several connections, where the peer has as many jobs.
    """
    try:
        for result in found:
            for one in contenders:
                if result.case.connections == 1 and result.runs.get(one):
                    result.counted[one] = bench.count_calls(one, result.case)
    except MissingError as error:
        return f"System calls of other engines were not counted: {error.what}."
    return CALLS_HOW


def _tcp(report: Report) -> str:
    """Say what TCP the figures depend on."""
    kernel, control = report.setting["kernel"], report.setting["TCP congestion control"]
    return (
        f"TCP is kernel {kernel}'s. Every engine sends with the system's congestion control,"
        f" {control}, and the server with reno. bbr paces its sends, on loopback too: compare"
        " only figures from the same kernel and congestion control."
    )


def _scale_lines(results: Sequence[CaseResult]) -> list[str]:
    """Hold the most connections against one."""
    found = {result.case: result.runs[result.ours] for result in results}
    one, most = SCALE_ENDS
    if one not in found or most not in found:
        return []
    ours = results[0].ours
    single = dataclasses.replace(ours, role="single")
    held = dataclasses.replace(most, bars=MANY_BARS)
    return [
        f"{RATIOS[judged.bar.figure]} on {most.connections} connections relative to one, at depth"
        f" {most.depth}: {judged.found.text}, bar {judged.bar.text}: {judged.verdict.value}"
        for judged in CaseResult(held, {ours: found[most], single: found[one]}).judgements()
    ]
