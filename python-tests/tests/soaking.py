# SPDX-License-Identifier: GPL-2.0-only
"""Data or entries over real servers whose paths fail and return, and what must come of them.

Data are written and verified; entries are made, verified and removed.
"""

import operator
import os
import random
import shlex
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import judge
from lab_faults import FaultKind, Faults

from jobs import Fio
from nfsmulti.fiorun import Direction, FioProcess, FioResult, Options
from nfsmulti.lab import Lab
from nfsmulti.paths import write_json

# --- what is written and read back: by jobs with failover over all spreads, and by one without ---
# Why it is asked for as it is:
#
# - A block's content is the number of its round and its offset, so that the reading pass knows
#   every byte, and what an earlier round has left is as wrong as anything else.
# - A round writes each block once: a server that was silent may carry a WRITE out after another
#   path has done so. That is the same bytes again as long as nothing newer has taken their place.
# - Each server has a verifier of its own, so what one has only promised to keep is not another's to
#   COMMIT: WRITEs are durable when they are answered (file_sync), or held until they are
#   (hold_writes), with a sync now and then.


BLOCK = 16 << 10
_RATE = 4 << 20  # bytes/s of a job; a pass of so many seconds moves its whole file
_DURABLE: Options = {"stable": "file_sync"}
_HELD: Options = {"stable": "unstable", "hold_writes": "1m", "fsync": 64}
# By the name of the job and of its file.
_JOBS: Mapping[str, Options] = {
    "failover-job": {"failover": 1, "spread": "job", **_DURABLE},
    "failover-roundrobin": {"failover": 1, "spread": "roundrobin", **_DURABLE},
    "failover-queue": {"failover": 1, "spread": "queue", **_HELD},
    "failover-stripe": {"failover": 1, "spread": "stripe", **_HELD},
    "hard": {"hard": 1, "spread": "roundrobin", **_HELD},
}
_ARGUMENTS = [
    f"--{key}={value}"
    for name, options in _JOBS.items()
    for key, value in {"name": name, "filename": name, **options}.items()
]


def prefix_of(round_number: int) -> bytes:
    """Return what each block of that round begins with, before its offset."""
    return struct.pack(">I", round_number)


# --- which path fails when: drawn by a seed, so that a run can be repeated ---


# Seconds: between the beginnings of faults, and how long each kind lasts, from … to.
_GAP = (0.2, 2.0)
_LASTS = {
    FaultKind.KILL: (0.2, 3.0),
    FaultKind.STOP: (0.5, 4.0),
    FaultKind.DROP: (0.5, 4.0),
    FaultKind.ADDRESS: (0.5, 3.0),
    FaultKind.RESET: (0.0, 0.0),
}


@dataclass(frozen=True)
class PathFault:
    """One fault: `begin` and `end` are seconds since the beginning of its pass."""

    begin: float
    end: float
    path: int
    kind: FaultKind


def schedule(seed: int, number: int, seconds: float, paths: int) -> list[PathFault]:
    """Return the faults of pass `number`, in the order of their beginnings.

    At any time at least one path has none; all are over after `seconds`. The same arguments give
    the same faults.
    """
    draw = random.Random(f"{seed}/{number}")
    whole_from = [0.0] * paths
    faults: list[PathFault] = []
    now = draw.uniform(*_GAP)
    while now < seconds:
        kind = draw.choice(list(_LASTS))
        end = min(now + draw.uniform(*_LASTS[kind]), seconds)
        whole = [path for path in range(paths) if whole_from[path] < now]
        if len(whole) > 1:
            path = draw.choice(whole)
            whole_from[path] = end
            faults.append(PathFault(now, end, path, kind))
        now += draw.uniform(*_GAP)
    return faults


# --- the passes ---


_OPEN_SECONDS = 60.0
_END_SECONDS = 60.0  # for what is left to be done once all paths are whole

_TOP = "entries"
_METADATA = {"metadata": 1, "bs": 1, "iodepth": 32, "spread": "roundrobin", "filename": _TOP}
# What is done to entries in turn, and whether the server then has them.
_ON_ENTRIES: dict[str, tuple[Options, bool]] = {
    "made": ({"rw": "write"}, True),
    "verified": ({"rw": "read", "meta_verify": 1}, True),
    "removed": ({"rw": "write", "meta_write": "remove"}, False),
}
_ENTRIES_SECONDS, _ENTRIES_PER_S = 60, 100  # where a server does fewer, the pass has failed


@dataclass
class Passes:
    """Runs fio while paths fail, pass after pass; `sums` says what all have done.

    A pass after which something is wrong fails an assertion. Files are opened while all paths are
    whole: names are not retried, whatever `hard` says of data.
    """

    lab: Lab
    pool: str
    fio: Fio
    folder: Path
    sums: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._faults = Faults(self.lab)
        self._files = [self.lab.export_dir / name for name in _JOBS]

    def on_data(self, rounds: int, seed: int, seconds: int) -> None:
        """Run rounds of two passes, one that writes and one that reads, of so many seconds each."""
        for file in self._files:  # for the first round, as for others
            with file.open("wb") as made:
                made.truncate(_RATE * seconds)
        for number in range(rounds):
            self._data_pass(number, "write", seed, seconds)
            self._data_pass(number, "read", seed, seconds)
            self._compare(number, _RATE * seconds)

    def _data_pass(self, number: int, direction: Direction, seed: int, seconds: int) -> None:
        reads = direction == "read"
        options = {
            "rw": f"rand{direction}",
            "bs": BLOCK,
            "size": _RATE * seconds,
            "rate": _RATE,
            "iodepth": 16,
            "timeo": 10,  # so that silence is met by retransmission and failover in good time
            "verify": "pattern",
            "verify_pattern": f"0x{prefix_of(number).hex()}%o",
            "do_verify": reads,
        }
        faults = schedule(seed, 2 * number + reads, seconds, self.lab.config.addresses)
        before = self._touched()

        def under_way() -> bool:
            """Tell whether each job has moved data: its file is open on all paths then."""
            return not any(map(operator.eq, before, self._touched()))

        name = f"{number + 1:03}-{direction}"
        result = self._pass(name, faults, under_way, options, _ARGUMENTS)
        assert result.report
        moved = sum(line.bytes - line.rewritten_bytes for line in result.stats)
        wanted, counted = len(_JOBS) * _RATE * seconds, result.report.bytes(direction)
        assert not [*judge.miscounted(direction, wanted, counted, moved)]
        self.sums[f"bytes {direction}"] += counted

    def _touched(self) -> list[int]:
        found = (file.stat() for file in self._files)
        return [max(one.st_mtime_ns, one.st_atime_ns) for one in found]

    def _compare(self, number: int, size: int) -> None:
        """Read the files where the servers keep them, without NFS."""
        for file in self._files:
            with file.open("rb") as kept:
                wrong = next(judge.wrong_blocks(kept, BLOCK, size, prefix_of(number)), None)
            assert wrong is None, f"{file.name} is not what was written, from byte {wrong} on"

    def on_entries(self, entries: int, more: Options) -> None:
        """Make entries, verify and remove them, while connections are reset, one each second.

        One server must be behind all addresses, so that each entry is wanted once, whichever path
        made it. `more` are options of fio.
        """
        paths, seconds = self.lab.config.addresses, _ENTRIES_SECONDS + entries // _ENTRIES_PER_S
        resets = [PathFault(at, at, at % paths, FaultKind.RESET) for at in range(1, seconds)]
        for name, (options, there) in _ON_ENTRIES.items():
            begun = self.folder / name / "begun"  # right before the first I/O: all paths are there
            words = {"size": entries, "exec_prerun": f": >{shlex.quote(str(begun))} #"}
            job = {**_METADATA, **words, **options, **more}
            result = self._pass(name, resets, begun.exists, job)
            done = sum(line.meta_ops for line in result.stats)
            errors = sum(line.errors for line in result.operations)
            assert not [*judge.miscounted_entries(entries, errors, **{name: done})]
            kept = sum(len(files) for _, _, files in os.walk(self.lab.export_dir / _TOP))
            assert kept == (entries if there else 0), f"the server's, after they were {name}"
            self.sums[f"entries {name}"] += done

    def _pass(
        self,
        name: str,
        faults: Sequence[PathFault],
        under_way: Callable[[], bool],
        options: Options,
        arguments: Sequence[str] = (),
    ) -> FioResult:
        """Break paths while fio runs, from when it is under way; it must end well."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)  # of a try while the machine stood still
        write_json(folder / "faults.json", [asdict(fault) for fault in faults])
        with self.fio.start(
            folder, pool=self.pool, options=options, arguments=arguments
        ) as process:
            try:
                if process.comes_up(under_way, _OPEN_SECONDS):
                    self._break_paths(faults, process)
            finally:
                self._faults.end_all()
            result = process.result(_END_SECONDS)
        assert result.status == 0, result.messages
        assert not judge.lost_bytes(result.messages), result.messages
        for line in result.stats:
            self.sums["reissues"] += line.reissues
            self.sums["retransmissions"] += line.retransmissions
            self.sums["reconnects"] += line.reconnects
            self.sums["bytes written again"] += line.rewritten_bytes
        print(
            name, *(f"{what}: {total:,}" for what, total in self.sums.items()), sep="  ", flush=True
        )
        write_json(self.folder / "soak.json", self.sums)
        return result

    def _break_paths(self, faults: Sequence[PathFault], process: FioProcess) -> None:
        """Let paths fail and return as the schedule says, while fio runs."""
        begins = [(fault.begin, True, fault) for fault in faults]
        ends = [(fault.end, False, fault) for fault in faults]
        start = time.monotonic()
        for moment, begin, fault in sorted([*begins, *ends], key=operator.itemgetter(0)):
            if process.wait(max(0.0, start + moment - time.monotonic())) is not None:
                return
            if not begin:
                self._faults.end(fault.path)
            elif self._faults.begin(fault.kind, fault.path):
                self.sums[fault.kind] += 1
