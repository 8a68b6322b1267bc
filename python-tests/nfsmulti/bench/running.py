# SPDX-License-Identifier: GPL-2.0-only
"""One call of a bench: its runs in their order, with a progress bar, and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nfsmulti.bench.cases import Case
from nfsmulti.bench.compare import CaseResult, RunOnce
from nfsmulti.bench.cores import Cores
from nfsmulti.bench.report import Report, command_text, noise_note, now, setting
from nfsmulti.bench.runs import Contender, Sample, Timing, command
from nfsmulti.bench.tables import bars_grid, case_data, figures_grid
from nfsmulti.paths import BUILD, RESULTS, shown

OPEN = "“open”: the 95 % interval holds the bar, so that these runs alone do not decide it."


class Running:
    """A bench under way. Its runs leave their files below `scratch`."""

    def __init__(self, name: str, timing: Timing, cores: Cores, out: Console):
        self.name, self.timing, self.cores = name, timing, cores
        self.report = Report(name, now(), setting(timing, cores), notes=noise_note())
        self.scratch = BUILD / "bench" / name / self._time
        self._out = out

    def compare(
        self, cases: Sequence[Case], contenders: tuple[Contender, Contender], run_once: RunOnce
    ) -> list[CaseResult]:
        """Run two engines in turn on each case, as often as it is to be repeated."""
        found = [CaseResult(case) for case in cases]
        with _Meter(self._out, 2 * self.timing.repeats * len(cases)) as meter:
            for result in found:
                for number in range(self.timing.repeats):
                    for contender, runs in zip(contenders, (result.ours, result.peer), strict=True):
                        meter.begin(f"{result.case.name}, {contender.name}")
                        runs.append(run_once(contender, result.case, number))
                        meter.end()
        return found

    def sweep(
        self, cases: Sequence[Case], contender: Contender, run_once: RunOnce
    ) -> dict[Case, list[Sample]]:
        """Run an engine on all cases in turn, and all over again."""
        found: dict[Case, list[Sample]] = {case: [] for case in cases}
        with _Meter(self._out, self.timing.repeats * len(cases)) as meter:
            for number in range(self.timing.repeats):
                for case, runs in found.items():
                    meter.begin(case.name)
                    runs.append(run_once(contender, case, number))
                    meter.end()
        return found

    def add_commands(self, contenders: Sequence[Contender], case: Case, target: str) -> None:
        """Put into the report what is run for a case."""
        self.report.commands += [
            command_text(command(contender, case, target, self.timing, Path()))
            for contender in contenders
        ]

    def add_comparison(
        self, found: Sequence[CaseResult], contenders: tuple[Contender, Contender]
    ) -> None:
        """Put the tables and the data of a comparison into the report."""
        self.report.grids += [figures_grid(found, contenders), bars_grid(found, contenders[1])]
        self.report.data["cases"] = [case_data(result, contenders) for result in found]
        self.report.notes.append(OPEN)

    def finish(self, given: Path | None, draw: Callable[[Path], None]) -> None:
        """Write the report to the folder that is given, or to one for this time, and show it.

        `draw` writes the report's picture to a file.
        """
        folder = given or RESULTS / self.name / self._time
        folder.mkdir(parents=True, exist_ok=True)
        draw(folder / f"{self.name}.png")
        self.report.write(folder)
        self.report.print(self._out)
        self._out.print(
            f"{shown(folder)} holds report.md, results.json and {self.name}.png;"
            f" {shown(self.scratch)} each fio's command and output."
        )

    @property
    def _time(self) -> str:
        return f"{self.report.begun:%Y%m%dT%H%M%SZ}"


class _Meter(Progress):
    """One bar for all runs, a step to each."""

    def __init__(self, out: Console, runs: int):
        columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
        super().__init__(*columns, console=out, transient=True)
        self._task = self.add_task("", total=runs)

    def begin(self, what: str) -> None:
        self.update(self._task, description=what)

    def end(self) -> None:
        self.advance(self._task)
