# SPDX-License-Identifier: GPL-2.0-only
"""The transport for kernel mounts beside fio's io_uring engine, on the same file."""

from __future__ import annotations

import contextlib
import resource
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from nfsmulti.bench.cases import Case
from nfsmulti.bench.runs import Contender, Cores, Run, Timing, figures_of, folder_of, run_fio
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine, FioResult
from nfsmulti.paths import write_files

_FILE, _SIZE = "bench", 256 << 20
_TMPFS = Path("/dev/shm")
_LEAST_SECONDS = 1e-6  # a ratio to nothing cannot be taken
_BARE = Timing(runtime=1, ramp=0, repeats=5)

CPU_HOW = (
    "CPU is that of fio with all its processes and kernel workers, minus that of a"
    " one-millisecond run: io_uring hands buffered writes to kernel workers, which fio's own"
    " figures leave out. The file on disk is opened with direct=1."
)


def _common(case: Case) -> list[str]:
    size = [f"--size={_SIZE}", f"--iodepth={case.depth}"]
    return [*size, "--direct=1"] if case.place == "disk" else size


def our_mount(engine: Engine) -> Contender:
    """Give the engine under test, on a directory."""

    def words(case: Case, folder: str) -> list[str]:
        chosen = [f"--ioengine={engine.option}", f"--pool={folder}", f"--filename={_FILE}"]
        return [*chosen, *_common(case)]

    return Contender("nfsmulti", "fio", words)


def io_uring() -> Contender:
    """Give fio's io_uring engine."""

    def words(case: Case, folder: str) -> list[str]:
        return ["--ioengine=io_uring", f"--filename={folder}/{_FILE}", *_common(case)]

    return Contender("io_uring", "fio", words, role="peer")


@contextlib.contextmanager
def places(disk: Path) -> Iterator[dict[str, Path]]:
    """Give a directory on tmpfs and one below `disk`, with the file written; both go at the end."""
    if not _TMPFS.is_dir():
        raise HarnessError(f"{_TMPFS} is missing, and the file in memory needs it")
    disk.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="nfsmulti-bench-", dir=_TMPFS) as memory,
        tempfile.TemporaryDirectory(prefix="mount-", dir=disk) as real,
    ):
        found = {"tmpfs": Path(memory), "disk": Path(real)}
        for folder in found.values():
            write_files(folder, {_FILE: _SIZE})
        yield found


class _Cpu(NamedTuple):
    """Seconds of CPU time."""

    user: float
    system: float

    @classmethod
    def of_ended_children(cls) -> Self:
        """Give the time of all processes that this one has started and seen end, and of theirs."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(usage.ru_utime, usage.ru_stime)

    def less(self, other: _Cpu) -> _Cpu:
        """Give what this has more than another.

        The kernel knows the sum well and guesses its parts: where one part falls below zero, the
        other pays.
        """
        total = max(_LEAST_SECONDS, sum(self) - sum(other))
        user = min(max(0.0, self.user - other.user), total)
        return _Cpu(user, total - user)


@dataclass
class MountBench:
    """Runs engines on a core of their own, on the files in `places`."""

    cores: Cores
    timing: Timing
    folder: Path
    places: dict[str, Path]
    _bare: dict[str, _Cpu] = field(default_factory=dict, init=False)

    def run_once(self, contender: Contender, case: Case, number: int) -> Run:
        """Run a contender on a case, its run of that number."""
        if contender.name not in self._bare:
            self._bare[contender.name] = self._measure_bare(contender, case)
        result, cpu = self._run(contender, case, str(number), self.timing)
        return figures_of(result, case, cpu=cpu.less(self._bare[contender.name]))

    def _measure_bare(self, contender: Contender, case: Case) -> _Cpu:
        """Measure what fio needs to start and to end, whatever the case."""
        runs = [self._run(contender, case, "bare", _BARE)[1] for _ in range(_BARE.repeats)]
        return _Cpu(*(statistics.median(seconds) for seconds in zip(*runs, strict=True)))

    def _run(
        self, contender: Contender, case: Case, name: str, timing: Timing
    ) -> tuple[FioResult, _Cpu]:
        """Run fio, and give its result with the CPU time of all its processes."""
        folder = folder_of(self.folder, contender, case) / name
        enter = ["taskset", "-c", str(self.cores.client)]
        before = _Cpu.of_ended_children()
        place, does_io = str(self.places[case.place]), timing is not _BARE
        result = run_fio(contender, case, place, timing, folder, enter=enter, does_io=does_io)
        after = _Cpu.of_ended_children()
        return result, after.less(before)
