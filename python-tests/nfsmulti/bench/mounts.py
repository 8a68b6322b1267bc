# SPDX-License-Identifier: GPL-2.0-only
"""The engine beside what fio does on a mount: with a file of this machine, and over RDMA.

The first holds the transport for kernel mounts against fio's io_uring engine, on the same file. The
other runs randread.fio's workload over RDMA and TCP, by the engine and by kernel mounts, in the
kernel lab. Client and server share the guest there, and its processors are emulated: ratios within
one boot mean something, figures by themselves do not.
"""

from __future__ import annotations

import contextlib
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from nfsmulti.bench.runs import (
    OURS,
    Bar,
    Case,
    Contender,
    Cores,
    Run,
    Timing,
    figures_of,
    run_fio,
)
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine, FioResult
from nfsmulti.lab.guest import ADDRESSES, EXPORT, GuestConfig, Mount, run_in_guest
from nfsmulti.paths import write_files

# --- a file of this machine ---

_FILE, _SIZE = "bench", 256 << 20
_TMPFS = Path("/dev/shm")
_LEAST_SECONDS = 1e-6  # a ratio to nothing cannot be taken
_BARE = Timing(runtime=1, ramp=0, repeats=5)

IO_URING = "io_uring"
_MOUNT_BARS = (Bar("cpu", 1.03, IO_URING), Bar("rate", 0.97, IO_URING))
MOUNT = tuple(
    Case(rw, bs, depth, bars=_MOUNT_BARS, place=place)
    for place in ("tmpfs", "disk")
    for rw, bs, depth in (
        ("randread", "4k", 1),
        ("randread", "4k", 32),
        ("randwrite", "4k", 32),
        ("read", "64k", 8),
        ("write", "1m", 8),
    )
)

CPU_HOW = (
    "CPU is that of fio with all its processes and kernel workers, minus that of a"
    " one-millisecond run: io_uring hands buffered writes to kernel workers, which fio's own"
    " figures leave out. The file on disk is opened with direct=1."
)


def our_mount(engine: Engine) -> Contender:
    """Give the engine under test, on a directory."""

    def words(case: Case, folder: str) -> list[str]:
        return [f"--ioengine={engine.option}", f"--pool={folder}", *_common(case, _FILE)]

    return Contender(OURS, "fio", words)


def io_uring() -> Contender:
    """Give fio's io_uring engine."""

    def words(case: Case, folder: str) -> list[str]:
        return ["--ioengine=io_uring", *_common(case, f"{folder}/{_FILE}")]

    return Contender(IO_URING, "fio", words)


def _common(case: Case, file: str) -> list[str]:
    direct = ["--direct=1"] if case.place == "disk" else []
    return [f"--filename={file}", f"--size={_SIZE}", f"--iodepth={case.depth}", *direct]


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
    places: dict[str, Path]
    _bare: dict[str, _Cpu] = field(default_factory=dict, init=False)

    def run_once(self, contender: Contender, case: Case, folder: Path) -> Run:
        """Run a contender on a case; its files go to the folder."""
        if contender.name not in self._bare:
            self._bare[contender.name] = self._measure_bare(contender, case, folder)
        result, cpu = self._run(contender, case, self.timing, folder)
        return figures_of(result, case, cpu=cpu.less(self._bare[contender.name]))

    def _measure_bare(self, contender: Contender, case: Case, folder: Path) -> _Cpu:
        """Measure what fio needs to start and to end, whatever the case."""
        runs = [self._run(contender, case, _BARE, folder / "bare")[1] for _ in range(_BARE.repeats)]
        return _Cpu(*(statistics.median(seconds) for seconds in zip(*runs, strict=True)))

    def _run(
        self, contender: Contender, case: Case, timing: Timing, folder: Path
    ) -> tuple[FioResult, _Cpu]:
        """Run fio, and give its result with the CPU time of all its processes."""
        enter = ["taskset", "-c", str(self.cores.client)]
        before = _Cpu.of_ended_children()
        place = str(self.places[case.place])
        result = run_fio(contender, case, place, timing, folder, enter=enter)
        return result, _Cpu.of_ended_children().less(before)


# --- over RDMA ---

_PEER = "mount v3 rdma"
# The published one, and one in which data is next to nothing.
RDMA = (
    Case("randread", "64k", 8, bars=(Bar("rate", 1.3, _PEER), Bar("cpu", 0.5, _PEER))),
    Case("randread", "512", 8),
)

_JOBS = 4
_MOUNTS = {
    _PEER: Mount.parse("/mnt/v3-rdma=vers=3,proto=rdma"),
    "mount v4.1 rdma": Mount.parse("/mnt/v41-rdma=vers=4.1,proto=rdma"),
    "mount v3 tcp": Mount.parse("/mnt/v3-tcp=vers=3,proto=tcp"),
}

RDMA_HOW = (
    "CPU is the four jobs' user and system time, as fio reports it. It covers all that a pool"
    " costs, but not what the kernel does for a mount in its own workers (sending, receiving), so"
    " it flatters mounts. The processor is busy all the time, so the inverse of IOPS is the cost"
    " of an operation on client and server together. Client and server share one emulated"
    " machine: only ratios within this boot are meaningful."
)


def boot(words: Sequence[str], folder: Path) -> int:
    """Run ./nfsmulti bench rdma with `words` in a guest; gives its exit status.

    It leaves what it found in `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = GuestConfig(mounts=tuple(_MOUNTS.values()), results=folder)
    command = [sys.executable, "-m", "nfsmulti", "bench", "rdma", *words]
    return run_in_guest([*command, "--results", str(folder)], config)


def over_rdma(engine: Engine) -> list[Contender]:
    """Give the engine over RDMA, fio's libaio on each mount, and the engine over TCP."""

    def contender(name: str, *words: str) -> Contender:
        # What randread.fio says, without its names.
        same = [
            f"--numjobs={_JOBS}",
            "--filename=nfsmulti-randread",
            "--size=10000000",
            "--exitall",
        ]
        return Contender(name, "fio", lambda case, _: [*words, f"--iodepth={case.depth}", *same])

    pool = [f"--ioengine={engine.option}", f"--pool=nfs://{ADDRESSES[0]}{EXPORT}"]
    mount = ["--ioengine=libaio", "--direct=1", "--invalidate=1"]
    return [
        contender("pool rdma", *pool, "--proto=rdma"),
        *(contender(name, *mount, f"--directory={one.folder}") for name, one in _MOUNTS.items()),
        contender("pool tcp", *pool, "--proto=tcp"),
    ]
