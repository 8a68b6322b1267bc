# SPDX-License-Identifier: GPL-2.0-only
"""randread.fio's workload over RDMA and TCP, by the engine and by kernel mounts, in the kernel lab.

Client and server share the guest, and its processors are emulated: ratios within one boot mean
something, figures by themselves do not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nfsmulti.bench.cases import Bar, Case, Ratioed, Role
from nfsmulti.bench.report import CaseResult
from nfsmulti.bench.runs import Contender, Run, Timing, figures_of, folder_of, run_fio
from nfsmulti.fiorun import Engine
from nfsmulti.lab.guest import ADDRESSES, EXPORT, GuestConfig, Mount, run_in_guest
from nfsmulti.paths import RESULTS

# The published one, and one in which data is next to nothing.
CASES = (
    Case("randread", "64k", 8, bars=(Bar("rate", 1.3), Bar("cpu", 0.5))),
    Case("randread", "512", 8),
)
_JOBS = 4
_FIGURES: Mapping[Ratioed, str] = {"rate": "IOPS", "cpu": "CPU of fio's jobs"}

_FILE, _SIZE = "1.txt", 10_000_000
_MOUNTS = {
    "mount v3 rdma": Mount.parse("/mnt/v3-rdma=vers=3,proto=rdma"),
    "mount v4.1 rdma": Mount.parse("/mnt/v41-rdma=vers=4.1,proto=rdma"),
    "mount v3 tcp": Mount.parse("/mnt/v3-tcp=vers=3,proto=tcp"),
}
_PEER = "mount v3 rdma"

HOW = (
    "CPU is the four jobs' user and system time, as fio reports it. It covers all that a pool"
    " costs, but not what the kernel does for a mount in its own workers (sending, receiving), so"
    " it flatters mounts. The processor is busy all the time, so the inverse of IOPS is the cost"
    " of an operation on client and server together. Client and server share one emulated"
    " machine: only ratios within this boot are meaningful."
)


def boot(words: Sequence[str], results: Path | None) -> int:
    """Run ./nfsmulti bench rdma with `words` in a guest, which leaves its report in `results`.

    Without it, that is a folder for this time.
    """
    results = results or RESULTS / "rdma" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    results.mkdir(parents=True, exist_ok=True)
    config = GuestConfig(mounts=tuple(_MOUNTS.values()), results=results.absolute())
    command = [sys.executable, "-m", "nfsmulti", "bench", "rdma", *words]
    return run_in_guest([*command, "--results", str(results.absolute())], config)


def contenders(engine: Engine) -> list[Contender]:
    """Give the engine over RDMA and TCP, and fio's libaio on each mount."""

    def contender(name: str, role: Role, *words: str) -> Contender:
        # What randread.fio says, without its names.
        same = [f"--numjobs={_JOBS}", f"--filename={_FILE}", f"--size={_SIZE}", "--exitall"]
        return Contender(
            name, "fio", lambda case, _: [*words, f"--iodepth={case.depth}", *same], role=role
        )

    pool = [f"--ioengine={engine.option}", f"--pool=nfs://{ADDRESSES[0]}{EXPORT}"]
    mount = ["--ioengine=libaio", "--direct=1", "--invalidate=1"]
    return [
        contender("pool rdma", "ours", *pool, "--proto=rdma"),
        contender("pool tcp", "other", *pool, "--proto=tcp"),
        *(
            contender(
                name, "peer" if name == _PEER else "other", *mount, f"--directory={one.folder}"
            )
            for name, one in _MOUNTS.items()
        ),
    ]


@dataclass(frozen=True)
class RdmaBench:
    """Runs them in the guest."""

    timing: Timing
    folder: Path

    def run_once(self, contender: Contender, case: Case, number: int) -> Run:
        """Run a contender on a case, its run of that number."""
        folder = folder_of(self.folder, contender, case) / str(number)
        return figures_of(run_fio(contender, case, "", self.timing, folder, enter=[]), case)


def bar_lines(results: Sequence[CaseResult]) -> Iterator[str]:
    """Hold the engine over RDMA against the kernel's own RDMA mount."""
    for result in results:
        peer = next(one for one in result.rivals if one.role == "peer")
        judged = {one.bar.figure: one for one in result.judgements()}
        for figure, words in _FIGURES.items():
            said = f"{result.case.name}, {result.ours.name} to {peer.name}: {words}"
            bar = judged.get(figure)
            held = f", bar {bar.bar.text}: {bar.verdict.value}" if bar else ""
            yield f"{said} {result.ratio(figure, peer).text}{held}"
