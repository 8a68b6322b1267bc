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
from nfsmulti.bench.tables import bars_grid, bars_lines, case_data, figures_grid
from nfsmulti.errors import HarnessError
from nfsmulti.paths import BUILD, RESULTS, shown


class Running:
    """A bench under way. Its runs leave their files below `scratch`."""

    def __init__(self, name: str, timing: Timing, cores: Cores, out: Console):
        self.name, self.timing, self.cores = name, timing, cores
        self.report = Report(name, now(), setting(timing, cores), notes=noise_note())
        self.scratch = BUILD / "bench" / name / self._time
        self._out = out

    def compare(
        self, cases: Sequence[Case], contenders: Sequence[Contender], run_once: RunOnce
    ) -> list[CaseResult]:
        """Run engines in turn on each case that they take, as often as it is to be repeated.

        A yardstick, which is the user's, is left out of a case that it fails on.
        """
        found = [CaseResult(case) for case in cases]
        takers = [[one for one in contenders if one.takes(case)] for case in cases]
        with _Meter(self._out, self.timing.repeats * sum(map(len, takers))) as meter:
            for result, chosen in zip(found, takers, strict=True):
                for number in range(self.timing.repeats):
                    for contender in list(chosen):
                        meter.begin(f"{result.case.name}, {contender.name}")
                        try:
                            run = run_once(contender, result.case, number)
                            result.runs.setdefault(contender.role, []).append(run)
                        except HarnessError as error:
                            self._leave_out(contender, found, error)
                            chosen.remove(contender)
                            result.runs.pop(contender.role, None)
                        meter.end()
        return found

    def _leave_out(
        self, contender: Contender, found: Sequence[CaseResult], error: HarnessError
    ) -> None:
        """Note the failure of a yardstick that has run at all; else raise it again."""
        if contender.role != "yardstick" or not any(contender.role in one.runs for one in found):
            raise error
        self.report.notes.append(f"Left out: {'; '.join(dict.fromkeys(error.what.splitlines()))}")

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

    def add_commands(
        self, contenders: Sequence[Contender], cases: Sequence[Case], target: str
    ) -> None:
        """Put into the report what each contender runs for its first case of each version."""
        for one in contenders:
            first = {case.version: case for case in reversed(cases) if one.takes(case)}
            for case in reversed(first.values()):
                argv = command(one, case, target, self.timing, Path())
                self.report.commands.append(command_text(argv))

    def add_comparison(self, found: Sequence[CaseResult], contenders: Sequence[Contender]) -> None:
        """Put the tables and the data of a comparison into the report; ours is the first."""
        self.report.grids.append(figures_grid(found, contenders))
        self.report.grids += [
            bars_grid(found, rival)
            for rival in contenders[1:]
            if any(rival.role in result.runs for result in found)
        ]
        self.report.lines += bars_lines(found, contenders)
        self.report.data["cases"] = [case_data(result, contenders) for result in found]

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
