# SPDX-License-Identifier: GPL-2.0-only
"""randread.fio's workload over RDMA and TCP, by the engine and by kernel mounts, in the kernel lab.

Client and server share the guest, and its processors are emulated: ratios within one boot mean
something, figures by themselves do not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from nfsmulti.bench.cases import Bar, Case
from nfsmulti.bench.results import HEADINGS, TITLE, figure_cells
from nfsmulti.bench.runs import Contender, Run, Timing, figures_of, folder_of, run_fio
from nfsmulti.fiorun import Engine
from nfsmulti.lab.guest import ADDRESSES, EXPORT, GuestConfig, Mount, run_in_guest
from nfsmulti.stats import Ratio
from nfsmulti.texts import Table

# The published one, and one in which data is next to nothing.
CASES = (Case("randread", "64k", 8), Case("randread", "512", 8))
JOBS = 4
BARS = (Bar("rate", 1.3), Bar("cpu", 0.5))  # of the first case

_FILE, _SIZE = "1.txt", 10_000_000
_MOUNTS = {
    "mount v3 rdma": Mount.parse("/mnt/v3-rdma=vers=3,proto=rdma"),
    "mount v4.1 rdma": Mount.parse("/mnt/v41-rdma=vers=4.1,proto=rdma"),
    "mount v3 tcp": Mount.parse("/mnt/v3-tcp=vers=3,proto=tcp"),
}
_POOLS = {"pool rdma": "rdma", "pool tcp": "tcp"}
OURS, PEER = "pool rdma", "mount v3 rdma"

HOW = (
    "CPU is the four jobs' user and system time, as fio reports it. It covers all that a pool"
    " costs, but not what the kernel does for a mount in its own workers (sending, receiving), so"
    " it flatters mounts. The processor is busy all the time, so the inverse of IOPS is the cost"
    " of an operation on client and server together. Client and server share one emulated"
    " machine: only ratios within this boot are meaningful."
)


def boot(words: Sequence[str], results: Path) -> int:
    """Run ./nfsmulti bench rdma with `words` in a guest, which leaves its report in `results`."""
    results.mkdir(parents=True, exist_ok=True)
    config = GuestConfig(mounts=tuple(_MOUNTS.values()), results=results.absolute())
    command = [sys.executable, "-m", "nfsmulti", "bench", "rdma", *words]
    return run_in_guest([*command, "--results", str(results.absolute())], config)


def contenders(engine: Engine) -> list[Contender]:
    """Give the engine over RDMA and TCP, and fio's libaio on each mount."""

    def ours(proto: str) -> Contender:
        pool = f"nfs://{ADDRESSES[0]}{EXPORT}"
        words = [f"--ioengine={engine.option}", f"--pool={pool}", f"--proto={proto}"]
        return Contender(f"pool {proto}", "fio", lambda case, _target: [*words, *_common(case)])

    def mount(name: str, folder: str) -> Contender:
        words = ["--ioengine=libaio", f"--directory={folder}", "--direct=1", "--invalidate=1"]
        return Contender(name, "fio", lambda case, _target: [*words, *_common(case)])

    pools = [ours(proto) for proto in _POOLS.values()]
    return [*pools, *(mount(name, one.folder) for name, one in _MOUNTS.items())]


def _common(case: Case) -> list[str]:
    """Give what randread.fio says, without its names."""
    return [
        f"--iodepth={case.depth}",
        f"--numjobs={JOBS}",
        f"--filename={_FILE}",
        f"--size={_SIZE}",
        "--exitall",
    ]


Found = dict[Case, dict[str, list[Run]]]


def sweep(engine: Engine, timing: Timing, folder: Path) -> Found:
    """Run all contenders in turn, and all over again, on each case; in the guest."""
    some = contenders(engine)
    found: Found = {case: {one.name: [] for one in some} for case in CASES}
    for case, runs in found.items():
        for number in range(timing.repeats):
            for one in some:
                own = folder_of(folder, one, case) / str(number)
                result = run_fio(one, case, "", timing, own, enter=[])
                runs[one.name].append(figures_of(result, case, busy=None))
    return found


def figures(found: Found) -> Table:
    """Show the median of each figure of each contender."""
    rows = [
        [case.name, name, *figure_cells(runs, None)]
        for case, by_name in found.items()
        for name, runs in by_name.items()
    ]
    return Table(HEADINGS, rows, TITLE)


def bar_lines(found: Found) -> list[str]:
    """Hold the engine over RDMA against the kernel's own RDMA mount."""
    lines = []
    for case, runs in found.items():
        ours, peer = runs[OURS], runs[PEER]
        rate = Ratio.paired([run.iops for run in ours], [run.iops for run in peer])
        cpu = Ratio.paired([run.cpu for run in ours], [run.cpu for run in peer])
        for words, ratio, bar in zip(("IOPS", "CPU of fio's jobs"), (rate, cpu), BARS, strict=True):
            said = f"{case.name}, {OURS} to {PEER}: {words} {ratio.text}"
            judged = f", bar {bar.text}: {bar.verdict(ratio).value}" if case == CASES[0] else ""
            lines.append(said + judged)
    return lines
