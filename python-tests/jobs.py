# SPDX-License-Identifier: GPL-2.0-only
"""fio's jobs with the engine, as tests start them, here or as a lab's clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nfsmulti.fiorun import Engine, FioProcess, FioResult, Options, words_of


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

    def run(self, folder: Path, *, timeout: float = 60, **words: Any) -> FioResult:
        """Start fio by the words of start(), wait `timeout` seconds, and end what still runs."""
        with self.start(folder, **words) as process:
            return process.result(timeout)
