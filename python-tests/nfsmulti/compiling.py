# SPDX-License-Identifier: GPL-2.0-only
"""How the build compiles the files that see fio's headers, for compiling with others like it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import MissingError
from nfsmulti.paths import ROOT, build_dir
from nfsmulti.processes import Completed

CONFIG = ROOT / "engine" / "fio"  # holds the config-host.h that stands for fio's own
_BEFORE_HEADERS = "-isystem"


@dataclass(frozen=True)
class Compilation:
    """The command that compiles `source`, word by word."""

    source: Path
    argv: tuple[str, ...]

    @property
    def compiler(self) -> str:
        """The compiler."""
        return self.argv[0]

    @property
    def headers(self) -> Path:
        """The folder of fio's headers."""
        return Path(self.argv[self.argv.index(_BEFORE_HEADERS) + 1])

    def against(self, headers: Path, output: str) -> list[str]:
        """Give the same command for other headers of fio, with warnings as errors."""
        argv = list(self.argv)
        argv[argv.index(_BEFORE_HEADERS) + 1] = str(headers)
        argv[argv.index("-o") + 1] = output
        return [*argv, "-Werror"]


def compilations() -> list[Compilation]:
    """Give the commands of the build folder, one for each file. Raises MissingError."""
    file = build_dir() / "compile_commands.json"
    if not file.exists():
        raise MissingError(f"{file} is not there", "./nfsmulti build")
    return [
        Compilation(Path(entry["file"]), tuple(shlex.split(entry["command"])))
        for entry in json.loads(file.read_text())
        if Path(entry["file"]).parent == CONFIG
    ]


def complaint(done: Completed) -> str:
    """Give the first error of a compiler that failed, or else its last word."""
    lines = done.stderr.strip().splitlines() or ["the compiler said nothing"]
    first = next((line for line in lines if "error:" in line), lines[-1])
    return first.replace(f"{ROOT}/", "")
