# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti soak: data or entries over real servers whose paths fail and return.

Data are written and verified; entries are made, verified and removed.
"""

from __future__ import annotations

import operator
import os
import random
import shlex
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Direction, Engine, Fio, FioProcess, FioResult, Options
from nfsmulti.folders import own_folder
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.lab.faults import FaultKind, Faults
from nfsmulti.machine import versions
from nfsmulti.paths import RESULTS, shown, write_json
from nfsmulti.screen import Bar, Screen, laid_out
from nfsmulti.texts import Table
from servers import judge

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


def content(round_number: int) -> Options:
    """Return fio's words for what stands in a file after that round."""
    return {"verify": "pattern", "verify_pattern": f"0x{prefix_of(round_number).hex()}%o"}


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


# --- what all passes do, in sums ---


_WRITTEN, _VERIFIED, _COMPARED = "bytes written", "bytes verified", "bytes compared at the server"
_LOST = "bytes lost, as reported"


@dataclass
class Totals:
    """Sums so far, by what they are. `troubles` are the things that must not be, in words."""

    counts: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys((_WRITTEN, _VERIFIED, _COMPARED, _LOST), 0))
    )
    faults: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether what was written has been read back whole, and nothing else went wrong.

        That is bytes; entries, where there are any, are troubles as soon as their number is wrong.
        """
        whole = self.counts[_WRITTEN] == self.counts[_VERIFIED] and self.counts["I/Os"] > 0
        return whole and not self.troubles and not self.counts[_LOST]

    def add(self, name: str, result: FioResult) -> None:
        """Count what one fio did; what it says against itself is a trouble."""
        self.counts[_LOST] += judge.lost_bytes(result.messages)
        for line in result.stats:
            self.counts["I/Os"] += line.read_ops + line.write_ops + line.meta_ops
            self.counts["calls reissued on other paths"] += line.reissues
            self.counts["retransmissions"] += line.retransmissions
            self.counts["reconnects"] += line.reconnects
            self.counts["bytes held and written again"] += line.rewritten_bytes
        # An I/O on an entry has a size for fio, and moves no bytes.
        if result.report is not None and not any(line.meta_ops for line in result.stats):
            self.counts[_WRITTEN] += result.report.bytes("write")
            self.counts[_VERIFIED] += result.report.bytes("read")
        if result.status != 0:
            how = "did not end" if result.status is None else f"status {result.status}"
            said = "\n  ".join(result.messages.splitlines()[-8:])
            self.troubles.append(f"{name}: fio: {how} ({result.folder})\n  {said}")

    def compare(self, direction: Direction, wanted: int, result: FioResult) -> None:
        """Hold what a pass was to move against what fio and the engine count, if it ended well."""
        if result.status == 0 and result.report:
            moved = sum(line.bytes - line.rewritten_bytes for line in result.stats)
            counted = result.report.bytes(direction)
            self.troubles += judge.miscounted(direction, wanted, counted, moved)

    def table(self) -> Table:
        """Return them for people."""
        sums = {**self.counts, "faults injected": self.faults.total(), **self.faults}
        return Table(
            ["over all passes", ""], [[name, f"{count:,}"] for name, count in sums.items()]
        )

    def as_dict(self) -> dict[str, object]:
        """Return them for a file."""
        injected = {"faults injected": self.faults.total(), "faults": self.faults}
        return {**self.counts, **injected, "troubles": self.troubles}


# --- the passes ---


_STEP_SECONDS = 0.1  # between two looks at the clock and at fio
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
    """Runs fio while paths fail, pass after pass, and counts into `totals`.

    It ends early where a pass has failed, which `totals` tells then. Files are opened while all
    paths are whole: names are not retried, whatever `hard` says of data.
    """

    lab: Lab
    pool: str
    fio: Fio
    folder: Path
    totals: Totals
    bar: Bar

    def __post_init__(self) -> None:
        """Make ready to break the lab's paths."""
        self._faults = Faults(self.lab)

    def on_data(self, rounds: int, seed: int, seconds: int) -> None:
        """Run rounds of two passes, one that writes and one that reads, of so many seconds each."""
        self.bar.show(total=2 * rounds * seconds)
        files = [self.lab.export_dir / name for name in _JOBS]
        for file in files:  # for the first round, as for others
            with file.open("wb") as made:
                made.truncate(_RATE * seconds)
        for number in range(2 * rounds):
            self._data_pass(number, seed, seconds, files)
            if number % 2 and not self.totals.troubles:
                self._compare(number // 2, _RATE * seconds, files)
            if self.totals.troubles:
                return

    def _data_pass(self, number: int, seed: int, seconds: int, files: Sequence[Path]) -> None:
        round_number, reads = divmod(number, 2)
        direction: Direction = "read" if reads else "write"
        options = {
            "rw": f"rand{direction}",
            "bs": BLOCK,
            "size": _RATE * seconds,
            "rate": _RATE,
            "iodepth": 16,
            "timeo": 10,  # so that silence is met by retransmission and failover in good time
            **content(round_number),
            "do_verify": reads,
        }
        folder = self.folder / f"{number:03}-{direction}"
        faults = schedule(seed, number, seconds, self.lab.config.addresses)
        folder.mkdir(parents=True)
        write_json(folder / "faults.json", [asdict(fault) for fault in faults])
        before = _touched(files)

        def under_way() -> bool:
            """Tell whether each job has moved data: its file is open on all paths then."""
            return not any(map(operator.eq, before, _touched(files)))

        name = f"round {round_number + 1}, {direction}"
        with self.fio.start(
            folder, pool=self.pool, options=options, arguments=_ARGUMENTS
        ) as process:
            result = self._pass(name, process, faults, under_way, number * seconds)
        self.totals.compare(direction, len(files) * _RATE * seconds, result)

    def _compare(self, round_number: int, size: int, files: Sequence[Path]) -> None:
        """Read the files where the servers keep them, without NFS, and count what is right."""
        for file in files:
            with file.open("rb") as kept:
                wrong = next(judge.wrong_blocks(kept, BLOCK, size, prefix_of(round_number)), None)
            if wrong is None:
                self.totals.counts[_COMPARED] += size
            else:
                self.totals.troubles.append(
                    f"{file.name} does not hold what was written, from byte {wrong:,} on"
                )

    def on_entries(self, entries: int, more: Options | None = None) -> None:
        """Make entries, verify and remove them, while connections are reset, one each second.

        One server must be behind all addresses, so that each entry is wanted once, whichever path
        made it. `more` are options of fio.
        """
        paths, seconds = self.lab.config.addresses, _ENTRIES_SECONDS + entries // _ENTRIES_PER_S
        resets = [PathFault(at, at, at % paths, FaultKind.RESET) for at in range(1, seconds)]
        for name, (options, there) in _ON_ENTRIES.items():
            begun = self.folder / name / "begun"  # right before the first I/O: all paths are there
            words = {"size": entries, "exec_prerun": f": >{shlex.quote(str(begun))} #"}
            job = {**_METADATA, **words, **options, **(more or {})}
            with self.fio.start(begun.parent, pool=self.pool, options=job) as process:
                result = self._pass(f"entries {name}", process, resets, begun.exists)
            self._count(name, entries, entries if there else 0, result)
            if self.totals.troubles:
                return
        if not self.totals.faults:
            self.totals.troubles.append(
                "no connection was reset: the passes were shorter than a second, or this kernel"
                " resets none (CONFIG_INET_DIAG_DESTROY)"
            )

    def _count(self, name: str, entries: int, wanted: int, result: FioResult) -> None:
        """Hold what fio did, and what the server keeps, against what must be."""
        done = sum(line.meta_ops for line in result.stats)
        self.totals.counts[f"entries {name}"] = done
        errors = sum(line.errors for line in result.operations)
        self.totals.troubles += judge.miscounted_entries(entries, errors, **{name: done})
        kept = sum(len(files) for _, _, files in os.walk(self.lab.export_dir / _TOP))
        if kept != wanted:
            self.totals.troubles.append(
                f"after they were {name} the server has {kept:,} entries, not {wanted:,}"
            )

    def _pass(
        self,
        name: str,
        process: FioProcess,
        faults: Sequence[PathFault],
        under_way: Callable[[], bool],
        done: float = 0.0,
    ) -> FioResult:
        """Break paths while fio runs, from when it is under way, and count what it did."""
        try:
            deadline = time.monotonic() + _OPEN_SECONDS
            while process.running and not under_way() and time.monotonic() < deadline:
                process.wait(_STEP_SECONDS)
            self._break_paths(faults, process, name, done)
        finally:
            self._faults.end_all()
        result = process.result(_END_SECONDS)
        self.totals.add(name, result)
        return result

    def _break_paths(
        self, faults: Sequence[PathFault], process: FioProcess, name: str, done: float
    ) -> None:
        """Let paths fail and return as the schedule says, while fio runs."""
        begins = [(fault.begin, True, fault) for fault in faults]
        ends = [(fault.end, False, fault) for fault in faults]
        start = time.monotonic()
        for moment, begin, fault in sorted([*begins, *ends], key=operator.itemgetter(0)):
            while process.running and (now := time.monotonic() - start) < moment:
                broken = [f"{path}: {kind}" for path, kind in sorted(self._faults.present.items())]
                what = ", ".join(broken) or "all paths are whole"
                so_far = f"{self.totals.faults.total()} faults so far"
                self.bar.show(f"{name}: {what}, {so_far}", done + now)
                process.wait(min(_STEP_SECONDS, moment - now))
            if not process.running:
                return
            if not begin:
                self._faults.end(fault.path)
            elif self._faults.begin(fault.kind, fault.path):
                self.totals.faults[fault.kind] += 1


def _touched(files: Sequence[Path]) -> list[int]:
    """Return when each file was last written or read, at the server."""
    return [max(file.stat().st_mtime_ns, file.stat().st_atime_ns) for file in files]


# --- the command ---


# A round is a pass that writes and one that reads; a round is about a minute with what is between.
_PASS_SECONDS = 25
_MINUTES, _SEED = 20, 1


def soak(
    minutes: int | None,
    seed: int | None,
    paths: int,
    nfsvers: str,
    entries: int | None,
    results: Path | None,
) -> None:
    """Run passes of writing and verifying, or one on entries, and print their sums."""
    if entries and (minutes, seed) != (None, None):
        raise HarnessError("--entries makes each entry once: leave out --minutes and --seed")
    minutes, seed = minutes or _MINUTES, _SEED if seed is None else seed
    out = Screen()
    totals, begin = Totals(), time.monotonic()
    with own_folder(results, RESULTS / "soak") as folder:
        try:
            config = LabConfig(paths, instances=Instances.ONE if entries else Instances.PER_ADDRESS)
            with Bar(out, "starting the lab", None) as bar, Lab(config) as lab:
                fio = Fio(Engine.built(), enter=lab.command([]))
                pool = lab.pool_of(paths, version=None if nfsvers == "3" else nfsvers)
                passes = Passes(lab, pool, fio, folder, totals, bar)
                if entries:
                    passes.on_entries(entries)
                else:
                    passes.on_data(minutes, seed, _PASS_SECONDS)
        except KeyboardInterrupt:
            totals.troubles.append("interrupted")
        except (SystemExit, HarnessError) as stop:
            totals.troubles.append(f"ended early: {stop}")
            raise
        finally:
            seconds = time.monotonic() - begin
            length = {"entries": entries} if entries else {"minutes": minutes, "seed": seed}
            choice = {**length, "nfsvers": nfsvers, "paths": paths, "seconds": round(seconds, 1)}
            write_json(folder / "soak.json", {"versions": versions(), **choice, **totals.as_dict()})
    out.print(laid_out(totals.table()))
    for trouble in totals.troubles:
        out.print(trouble, soft_wrap=True)
    right = "entry was made, found and removed once" if entries else "byte is what was written"
    wrong = f"NOT every {'entry' if entries else 'byte'} is accounted for"
    found = f"every {right}" if totals.good else wrong
    how = "" if entries else f"seed {seed}, "
    out.print(f"{how}{seconds:.0f} s: {found}. {shown(folder)} holds fio's output.")
    sys.exit(0 if totals.good else 1)
