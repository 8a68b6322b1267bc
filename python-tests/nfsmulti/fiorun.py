# SPDX-License-Identifier: GPL-2.0-only
"""Runs fio with the engine, under a timeout, and reads what it reports."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nfsmulti.errors import MissingError
from nfsmulti.fioreport import ConnectionStats, FioReport
from nfsmulti.paths import build_dir
from nfsmulti.processes import Process

# A str, int, float or bool; None leaves the option out. Any, because a type checker holds the
# values of `**options` against every keyword parameter.
Option = Any
Options = Mapping[str, Option]

# fio ends its jobs at SIGTERM; a job that then waits for a dead server gets this long.
_GRACE_SECONDS = 10.0


@dataclass(frozen=True)
class Engine:
    """A built engine; `env` is what fio needs to load it, such as a sanitizer's runtime."""

    library: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def built(cls, folder: Path | None = None, env: Mapping[str, str] | None = None) -> Engine:
        """Give the engine in the build folder; raises MissingError."""
        library = (folder or build_dir()) / "libnfsmulti.so"
        if not library.exists():
            raise MissingError(f"{library} is not built", "./nfsmulti build")
        return cls(library, env or {})

    @property
    def option(self) -> str:
        """The engine as fio's --ioengine wants it."""
        return f"external:{self.library}"


@dataclass(frozen=True)
class FioResult:
    """What one fio left. `status` is None where it was killed after its timeout.

    `report` is None where fio wrote none, or none that can be read.
    """

    argv: list[str]
    status: int | None
    seconds: float
    output: str
    stderr: str
    report: FioReport | None
    stats: list[ConnectionStats]
    folder: Path

    @property
    def command(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.argv)

    @property
    def messages(self) -> str:
        """All that fio and the engine said beside the report."""
        return "\n".join(filter(None, (FioReport.messages_of(self.output), self.stderr.strip())))


class FioProcess(Process):
    """A running fio; its files lie in `folder`, which is made, one run to a folder."""

    def __init__(self, argv: Sequence[str], folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._begin = time.monotonic()
        (folder / "command").write_text(shlex.join(argv) + "\n")
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            super().__init__(argv, stdout=out, stderr=err)

    def result(self, timeout: float) -> FioResult:
        """Wait up to `timeout` seconds, end what still runs, and read what it left."""
        status = self.wait(timeout)
        if status is None:
            self.end(_GRACE_SECONDS)
        seconds = time.monotonic() - self._begin
        output = self._read("fio.json") + self._read("stdout")
        return FioResult(
            argv=self.argv,
            status=status,
            seconds=seconds,
            output=output,
            stderr=self._read("stderr"),
            report=FioReport.parse(output),
            stats=ConnectionStats.read(self.folder / "stats.jsonl"),
            folder=self.folder,
        )

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(errors="replace")
        except FileNotFoundError:
            return ""


@dataclass(frozen=True)
class Fio:
    """How to start fio: with which engine, and behind which words (a lab's, to be its client)."""

    engine: Engine
    enter: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def start(
        self,
        folder: Path,
        *,
        pool: str | None,
        options: Options,
        jobfile: Path | None = None,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> FioProcess:
        """Start fio on `pool`, with options as {"rw": "read"}; those that are None are left out.

        The options apply to the jobs of `jobfile`, or else to the jobs that `arguments` describe as
        fio's command line does (--name=a --rw=read --name=b ...), or else to one job.
        """
        folder = folder.absolute()
        common = {"pool": pool, "stats_file": str(folder / "stats.jsonl"), **options}
        words = [
            f"--output={folder / 'fio.json'}",
            "--output-format=json+",
            f"--ioengine={self.engine.option}",
            *(f"--{key}={value}" for key, value in words_of(common).items()),
        ]
        jobs = [str(jobfile)] if jobfile else arguments or ["--name=job"]
        # The environment is set behind the words that enter the lab: a sanitizer's runtime is
        # meant for fio alone.
        variables = {**self.env, **self.engine.env, **(env or {})}
        setting = ["env", *(f"{key}={value}" for key, value in variables.items())]
        return FioProcess([*self.enter, *setting, "fio", *words, *jobs], folder)

    def run(
        self,
        folder: Path,
        *,
        pool: str | None,
        options: Options,
        timeout: float = 60,
        jobfile: Path | None = None,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> FioResult:
        """Start fio as start() does, wait up to `timeout` seconds, and end what still runs."""
        with self.start(
            folder, pool=pool, options=options, jobfile=jobfile, arguments=arguments, env=env
        ) as process:
            return process.result(timeout)


def words_of(options: Options) -> dict[str, str]:
    """Give options as fio spells them, without those that are None."""
    return {key: _text(value) for key, value in options.items() if value is not None}


def _text(value: Option) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
