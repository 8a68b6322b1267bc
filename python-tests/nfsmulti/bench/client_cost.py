# SPDX-License-Identifier: GPL-2.0-only
"""The engine beside fio's own nfs engine and beside itself, all against the sink."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfsmulti.bench.cases import RIVALS, Case, Role
from nfsmulti.bench.runs import (
    Contender,
    Cores,
    Run,
    Timing,
    figures_of,
    folder_of,
    measure_memory,
    read_strace,
    run_fio,
    strace_words,
)
from nfsmulti.bench.sink import Sink, SinkCounts, port_of
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine, FioResult
from nfsmulti.texts import parse_size

_FILE = ("--filename=bench", "--size=1g")
_ENTRIES = 64
_UNTIMED = Timing(runtime=700, ramp=0, repeats=1)
_TRIES = 3


def our_engine(engine: Engine) -> Contender:
    """Give the engine under test: one job, striped over its connections."""

    def words(case: Case, url: str) -> list[str]:
        spread = ["--spread=stripe", f"--nconnect={case.connections}"]
        return [
            f"--ioengine={engine.option}",
            f"--pool={_path(case, url)}",
            *(spread if case.connections > 1 else ()),
            *(_entries(case) if case.operation else _FILE),
            f"--iodepth={case.depth}",
        ]

    return Contender("nfsmulti", "fio", words, counts_calls=True)


def _entries(case: Case) -> list[str]:
    """Give the words for operations on a few entries, so that nearly all calls are what is asked.

    An I/O's size stands for one entry.
    """
    size = _ENTRIES * parse_size(case.bs)
    return ["--filename=entries", f"--size={size}", "--metadata=1", f"--meta_read={case.operation}"]


def _path(case: Case, url: str) -> str:
    """Give the sink's path for a case: NFSv4.1 has one port, and none for MOUNT."""
    if not case.version:
        return url
    return f"{url.partition('?')[0]}?port={port_of(url)}&version={case.version}"


def peer_engine(fio: Path) -> Contender:
    """Give fio's nfs engine, which has one connection to a job: as many jobs as connections."""

    def words(case: Case, url: str) -> list[str]:
        return [
            "--ioengine=nfs",
            f"--nfs_url={url}",
            *_FILE,
            f"--iodepth={case.depth // case.connections}",
            *([f"--numjobs={case.connections}"] if case.connections > 1 else ()),
        ]

    def takes(case: Case) -> bool:
        return not case.version and not case.operation

    return Contender("fio nfs", str(fio), words, may_hang=True, role="peer", takes=takes)


def one_connection(engine: Engine) -> Contender:
    """Give the engine under test on one connection, for cases that are held beside that."""

    def takes(case: Case) -> bool:
        return any(bar.beside == "single" for bar in case.bars)

    return _ourselves(engine, "single", takes, connections=1)


def version_3(engine: Engine) -> Contender:
    """Give the engine under test over NFSv3, for cases of another version."""

    def takes(case: Case) -> bool:
        return bool(case.version)

    return _ourselves(engine, "v3", takes, version="")


def reads_instead(engine: Engine) -> Contender:
    """Give the engine under test with READs, where a case has a metadata operation."""

    def takes(case: Case) -> bool:
        return bool(case.operation)

    return _ourselves(engine, "data", takes, operation="")


def _ourselves(
    engine: Engine, role: Role, takes: Callable[[Case], bool], **changes: Any
) -> Contender:
    """Give the engine under test on a case that is otherwise than ours."""
    ours = our_engine(engine)

    def words(case: Case, url: str) -> list[str]:
        return ours.words(dataclasses.replace(case, **changes), url)

    return dataclasses.replace(ours, name=RIVALS[role], words=words, role=role, takes=takes)


@dataclass(frozen=True)
class SinkBench:
    """Runs engines on a core of their own, each run against a sink of its own on another core."""

    cores: Cores
    timing: Timing
    folder: Path
    server_sleeps: bool = False

    @property
    def server_text(self) -> str:
        """Say what the server is."""
        if self.server_sleeps:
            return "nfs-sink, which sleeps between calls: the client pays for waking it up"
        return "nfs-sink, which polls for calls: the client pays for no wake-ups"

    @property
    def _enter(self) -> list[str]:
        return ["taskset", "-c", str(self.cores.client)]

    def _sink(self) -> Sink:
        spin = [] if self.server_sleeps else ["--spin"]
        return Sink(["--cpus", str(self.cores.server), *spin])

    def run_once(self, contender: Contender, case: Case, number: int) -> Run:
        """Run a contender on a case, its run of that number."""
        folder = folder_of(self.folder, contender, case) / str(number)
        result, counts = self._run(contender, case, self.timing, folder, self._enter)
        busy = min(1.0, counts.busy_seconds / self.timing.seconds)
        return figures_of(result, case, busy=busy)

    def count_calls(self, contender: Contender, case: Case) -> float:
        """Count a contender's system calls per operation, under strace. Raises MissingError."""
        folder = folder_of(self.folder, contender, case) / "strace"
        folder.mkdir(parents=True, exist_ok=True)
        output = folder / "calls"
        enter = [*self._enter, *strace_words(output)]
        _, counts = self._run(contender, case, _UNTIMED, folder, enter)
        operations = counts.nfs.get("READ", 0) + counts.nfs.get("WRITE", 0)
        return read_strace(output) / operations

    def memory(self, ours: Contender) -> int:
        """Measure what a job needs, in bytes."""
        with self._sink() as sink:
            return measure_memory(ours, sink.url, self.folder / "memory", self._enter)

    def _run(
        self, contender: Contender, case: Case, timing: Timing, folder: Path, enter: Sequence[str]
    ) -> tuple[FioResult, SinkCounts]:
        """Run a contender against a sink of its own. What may hang may fail too: it has tries."""
        stats_file = folder / "stats.jsonl"
        words = [f"--stats_file={stats_file}"] if contender.counts_calls else []
        for tries_left in reversed(range(_TRIES if contender.may_hang else 1)):
            try:
                with self._sink() as sink:
                    result = run_fio(
                        contender, case, sink.url, timing, folder, enter=enter, words=words
                    )
                    return result, sink.stop()
            except HarnessError:
                if not tries_left:
                    raise
        raise AssertionError("unreachable")
