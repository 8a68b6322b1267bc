# SPDX-License-Identifier: GPL-2.0-only
"""One call of a bench: its runs in their order, with a progress bar, and the report that it leaves.

The report is tables for people, in the terminal and as report.md, and results.json.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from nfsmulti.bench.cases import Case
from nfsmulti.bench.results import (
    CaseResult,
    RunOnce,
    bars_grid,
    bars_lines,
    case_data,
    figures_grid,
)
from nfsmulti.bench.runs import Contender, Cores, Run, Timing, command
from nfsmulti.errors import HarnessError
from nfsmulti.machine import versions
from nfsmulti.paths import BUILD, RESULTS, ROOT, portable, shown
from nfsmulti.processes import run
from nfsmulti.texts import Bar, Table

_NARROWEST = 170  # columns that the tables need
_SECONDS = 10.0
_BUSY_LOAD = 0.5


@dataclass
class Report:
    """What a bench has found. `commands` are examples, one of each kind; `data` is for JSON."""

    name: str
    begun: datetime
    setting: dict[str, str]
    grids: list[Table] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def print(self, out: Console) -> None:
        """Show it in the terminal."""
        out.width = max(out.width, _NARROWEST)
        for grid in self.grids:
            out.print(grid.terminal())
        for line in [*self.lines, *self.notes]:
            out.print(line, markup=False)

    def write(self, folder: Path) -> None:
        """Write report.md and results.json."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.md").write_text(self._markdown(folder))
        values = {
            "bench": self.name,
            "begun": self.begun.isoformat(timespec="seconds"),
            "setting": self.setting,
            **self.data,
        }
        text = json.dumps(values, indent="\t", allow_nan=False, ensure_ascii=False)
        (folder / "results.json").write_text(portable(text) + "\n")

    def _markdown(self, folder: Path) -> str:
        picture = f"{self.name}.png"
        parts = [
            f"# bench {self.name}, {self.begun:%Y-%m-%d %H:%M} UTC\n",
            *(grid.markdown() for grid in self.grids),
            "".join(f"- {line}\n" for line in self.lines),
            "\n".join(f"{note}\n" for note in self.notes),
            f"![figures]({picture})\n" if (folder / picture).exists() else "",
            "**Setting**\n",
            "".join(f"- {name}: {value}\n" for name, value in self.setting.items()),
            "**Commands**\n",
            "```\n" + "\n".join(self.commands) + "\n```\n",
        ]
        return portable("\n".join(filter(None, parts)))


def setting(timing: Timing, cores: Cores | None) -> dict[str, str]:
    """Say on what, and how, the figures are measured; None: processors are not chosen."""
    pinned = {}
    if cores is not None:
        pinned = {
            "client on processor": str(cores.client),
            "server on processor": str(cores.server),
        }
    return {
        **versions(),
        "engine": _revision(),
        "processor": _found(Path("/proc/cpuinfo"), r"model name\s*:\s*(.*)"),
        "TCP congestion control": _found(
            Path("/proc/sys/net/ipv4/tcp_congestion_control"), r"(\S+)"
        ),
        **pinned,
        "runs": f"{timing.repeats} of each, {timing.runtime} ms after {timing.ramp} ms",
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def _noise_note() -> list[str]:
    """Warn where the machine does something else as well."""
    load = os.getloadavg()[0]
    if load < _BUSY_LOAD:
        return []
    return [f"Other work kept the machine busy (load {load:.2f} before the run): expect noise."]


def now() -> datetime:
    """Give the time, in UTC."""
    return datetime.now(UTC)


def command_text(argv: Sequence[str]) -> str:
    """Give a command as one would type it, without where it leaves its files."""
    return shlex.join(word for word in argv if not word.startswith(("--output", "--stats_file")))


def _revision() -> str:
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        said = run(asked, timeout=_SECONDS)
    except (OSError, HarnessError):  # a copy without git's folder, or a machine without git
        return "unknown"
    return said.stdout.strip() or "unknown"


def _found(file: Path, pattern: str) -> str:
    try:
        match = re.search(pattern, file.read_text())
    except OSError:
        match = None
    return match[1] if match else "unknown"


# --- the runs ---


class Running:
    """A bench under way. Its runs leave their files below `scratch`."""

    def __init__(self, name: str, timing: Timing, cores: Cores, out: Console):
        self.name, self.timing, self.cores = name, timing, cores
        self.report = Report(name, now(), setting(timing, cores), notes=_noise_note())
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
        with Bar(self._out, "", self.timing.repeats * sum(map(len, takers))) as bar:
            for result, chosen in zip(found, takers, strict=True):
                for number in range(self.timing.repeats):
                    for contender in list(chosen):
                        bar.show(f"{result.case.name}, {contender.name}")
                        try:
                            run = run_once(contender, result.case, number)
                            result.runs.setdefault(contender.role, []).append(run)
                        except HarnessError as error:
                            self._leave_out(contender, found, error)
                            chosen.remove(contender)
                            result.runs.pop(contender.role, None)
                        bar.show(advance=1)
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
    ) -> dict[Case, list[Run]]:
        """Run an engine on all cases in turn, and all over again."""
        found: dict[Case, list[Run]] = {case: [] for case in cases}
        with Bar(self._out, "", self.timing.repeats * len(cases)) as bar:
            for number in range(self.timing.repeats):
                for case, runs in found.items():
                    bar.show(case.name)
                    runs.append(run_once(contender, case, number))
                    bar.show(advance=1)
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
