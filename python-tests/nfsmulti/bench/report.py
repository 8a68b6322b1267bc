# SPDX-License-Identifier: GPL-2.0-only
"""What a bench leaves: tables for people, in the terminal and as report.md, and results.json."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from nfsmulti.bench.cores import Cores
from nfsmulti.bench.runs import Timing
from nfsmulti.errors import HarnessError
from nfsmulti.machine import versions
from nfsmulti.paths import ROOT, portable
from nfsmulti.processes import run
from nfsmulti.tables import Table

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


def noise_note() -> list[str]:
    """Warn where the machine does something else as well."""
    load = os.getloadavg()[0]
    if load < _BUSY_LOAD:
        return []
    return [f"The machine was busy with something else (load {load:.2f} before): expect noise."]


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
