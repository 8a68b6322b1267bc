# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti soak: data or entries over real servers whose paths fail and return.

Data are written and verified; entries are made, verified and removed.
"""

from __future__ import annotations

import operator
import os
import random
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from nfsmulti.errors import HarnessError
from nfsmulti.faults.lab_faults import FaultKind, Faults
from nfsmulti.faults.outcome import lost_bytes
from nfsmulti.fiorun import Engine, Fio, FioProcess, FioResult, Option, Options, words_of
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.machine import versions
from nfsmulti.paths import RESULTS, shown, write_json
from nfsmulti.processes import run
from nfsmulti.texts import Bar

# --- what is written and read back: a fio with failover over all spreads, and a fio without it ---
# Why it is asked for as it is:
#
# - A block's content is the number of its round and its offset, so that the reading pass knows
#   every byte, and what an earlier round has left is as wrong as anything else.
# - A round writes each block once: a server that was silent may carry a WRITE out after another
#   path has done so. That is the same bytes again as long as nothing newer has taken their place.
# - Each server has a verifier of its own, so what one has only promised to keep is not another's to
#   COMMIT: WRITEs are durable when they are answered (file_sync), or held until they are
#   (hold_writes), with a sync now and then.


_BLOCK = 16 << 10
_RATE = 1 << 20
_DURABLE: Options = {"stable": "file_sync"}
_HELD: Options = {"stable": "unstable", "hold_writes": "1m", "fsync": 64}


@dataclass(frozen=True)
class Job:
    """One job: the name of its section and of its file, how it spreads its I/O, and its rate.

    `kept`: the options by which its writes are durable at once, or held until they are. The rate is
    in bytes/s.
    """

    name: str
    spread: str
    rate: int
    kept: Options

    def size(self, seconds: int) -> int:
        """Give the bytes of its file: as much as a pass of `seconds` moves."""
        return self.rate * seconds // _BLOCK * _BLOCK


# The jobs of each fio, by what they are promised.
GROUPS = {
    "failover": (
        Job("failover-job", "job", 4 * _RATE, _DURABLE),
        Job("failover-roundrobin", "roundrobin", 4 * _RATE, _DURABLE),
        Job("failover-queue", "queue", 4 * _RATE, _HELD),
        Job("failover-stripe", "stripe", 4 * _RATE, _HELD),
    ),
    "hard": (Job("hard", "roundrobin", _RATE, _HELD),),
}
JOBS = tuple(job for jobs in GROUPS.values() for job in jobs)


def _content(round_number: int) -> Options:
    """Give fio's words for what stands in a file after that round."""
    return {"verify": "pattern", "verify_pattern": f"0x{round_number:08x}%o"}


def _words(**options: Option) -> list[str]:
    return [f"--{key}={value}" for key, value in words_of(options).items()]


def _arguments(jobs: Sequence[Job], direction: str, seconds: int) -> list[str]:
    """Give jobs as fio's command line has them."""
    words: list[str] = []
    for job in jobs:
        words += [
            f"--name={job.name}",
            *_words(filename=job.name, spread=job.spread, size=job.size(seconds), rate=job.rate),
            *_words(**(job.kept if direction == "write" else {})),
        ]
    return words


def comparison(job: Job, file: str, seconds: int, round_number: int) -> list[str]:
    """Give the words for a fio that reads a job's file without NFS and knows every byte."""
    name = file.replace(":", r"\:")
    words = _words(ioengine="psync", filename=name, rw="read", bs=_BLOCK, size=job.size(seconds))
    return ["--name=compare", *words, *_words(**_content(round_number))]


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
    """Give the faults of pass `number`, in the order of their beginnings.

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


@dataclass
class Totals:
    """Sums so far. `troubles` are the things that must not be, in words; `lost` are bytes."""

    ios: int = 0
    written: int = 0
    verified: int = 0
    compared: int = 0
    rewritten: int = 0
    lost: int = 0
    reissues: int = 0
    retransmissions: int = 0
    reconnects: int = 0
    entries: Counter[str] = field(default_factory=Counter)  # made, verified, removed
    faults: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether what was written has been read back whole, and nothing else went wrong.

        That is bytes; entries, where there are any, are troubles as soon as their number is wrong.
        """
        whole = bool(self.entries) or 0 < self.written == self.verified
        return whole and not self.troubles and not self.lost

    def add(self, name: str, result: FioResult) -> None:
        """Count what one fio did; what it says against itself is a trouble."""
        for line in result.stats:
            self.ios += line.read_ops + line.write_ops + line.meta_ops
            self.reissues += line.reissues
            self.retransmissions += line.retransmissions
            self.reconnects += line.reconnects
            self.rewritten += line.rewritten_bytes
        # An I/O on an entry has a size for fio, and moves no bytes.
        if result.report is not None and not any(line.meta_ops for line in result.stats):
            self.written += result.report.bytes("write")
            self.verified += result.report.bytes("read")
        self.lost += lost_bytes(result)
        if result.status != 0:
            how = "did not end" if result.status is None else f"status {result.status}"
            said = "\n  ".join(result.messages.splitlines()[-8:])
            self.troubles.append(f"{name}: fio: {how} ({result.folder})\n  {said}")

    def table(self) -> Table:
        """Give them for people."""
        table = Table(show_header=False)
        for name, value in self.as_dict().items():
            if isinstance(value, int):
                table.add_row(name, f"{value:,}")
        for kind, count in sorted(self.faults.items()):
            table.add_row(f"  {kind}", f"{count:,}")
        return table

    def as_dict(self) -> dict[str, object]:
        """Give them by what they are, for a file."""
        return {
            "I/Os": self.ios,
            "bytes written": self.written,
            "bytes verified": self.verified,
            "bytes compared at the server": self.compared,
            "bytes held and written again": self.rewritten,
            "bytes lost, as reported": self.lost,
            "calls reissued on other paths": self.reissues,
            "retransmissions": self.retransmissions,
            "reconnects": self.reconnects,
            **{f"entries {what}": count for what, count in self.entries.items()},
            "faults injected": self.faults.total(),
            "faults": dict(sorted(self.faults.items())),
            "troubles": self.troubles,
        }


# --- the passes ---


_STEP_SECONDS = 0.1  # between two looks at the clock and at the fios
_OPEN_SECONDS = 60.0
_END_SECONDS = 60.0  # for what is left to be done once all paths are whole
_COMPARE_SECONDS = 120.0

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
    """Runs fios while paths fail, pass after pass, and counts into `totals`.

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
        files = [self.lab.export_dir / job.name for job in JOBS]
        for job, file in zip(JOBS, files, strict=True):  # for the first round, as for others
            with file.open("wb") as made:
                made.truncate(job.size(seconds))
        for number in range(2 * rounds):
            self._data_pass(number, seed, seconds, files)
            if number % 2 and not self.totals.troubles:
                self._compare(number // 2, seconds, files)
            if self.totals.troubles:
                return

    def _data_pass(self, number: int, seed: int, seconds: int, files: Sequence[Path]) -> None:
        round_number, reads = divmod(number, 2)
        direction = "read" if reads else "write"
        options = {
            "rw": f"rand{direction}",
            "bs": _BLOCK,
            "iodepth": 16,
            "timeo": 10,  # so that silence is met by retransmission and failover in good time
            **_content(round_number),
            "do_verify": reads,
        }
        folder = self.folder / f"{number:03}-{direction}"
        fios = {
            folder / group: ({**options, group: 1}, _arguments(jobs, direction, seconds))
            for group, jobs in GROUPS.items()
        }
        faults = schedule(seed, number, seconds, self.lab.config.addresses)
        folder.mkdir(parents=True)
        write_json(folder / "faults.json", [asdict(fault) for fault in faults])
        name = f"round {round_number + 1}, {direction}"
        before = _touched(files)

        def under_way() -> bool:
            """Tell whether each job has moved data: its file is open on all paths then."""
            return not any(map(operator.eq, before, _touched(files)))

        results = self._pass(name, fios, faults, under_way, number * seconds)
        for group, result in zip(GROUPS, results, strict=True):
            self.totals.add(f"{name}, {group}", result)

    def _compare(self, round_number: int, seconds: int, files: Sequence[Path]) -> None:
        """Read the files where the servers keep them, without NFS, and count what is right."""
        for job, file in zip(JOBS, files, strict=True):
            words = comparison(job, str(file), seconds, round_number)
            done = run(["fio", *words], timeout=_COMPARE_SECONDS)
            if done.status == 0:
                self.totals.compared += job.size(seconds)
            else:
                said = "\n  ".join((done.stderr + done.stdout).splitlines()[:8])
                self.totals.troubles.append(
                    f"{file.name} does not hold what was written:\n  {said}"
                )

    def on_entries(self, entries: int, more: Options | None = None) -> None:
        """Make entries, verify and remove them, while connections are reset, one each second.

        One server must be behind all addresses, so that each entry is wanted once, whichever path
        made it. `more` are options of fio.
        """
        paths, seconds = self.lab.config.addresses, _ENTRIES_SECONDS + entries // _ENTRIES_PER_S
        resets = [PathFault(at, at, at % paths, FaultKind.RESET) for at in range(1, seconds)]
        for name, (options, there) in _ON_ENTRIES.items():
            folder = self.folder / name
            begun = folder / "begun"  # written right before the first I/O: all paths are mounted
            words = {"size": entries, "exec_prerun": f": >{shlex.quote(str(begun))} #"}
            fios = {folder: ({**_METADATA, **words, **options, **(more or {})}, ())}
            (result,) = self._pass(f"entries {name}", fios, resets, begun.exists)
            self.totals.add(name, result)
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
        done = self.totals.entries[name] = sum(line.meta_ops for line in result.stats)
        if done != entries:
            self.totals.troubles.append(f"{done:,} of {entries:,} entries were {name}")
        kept = sum(len(files) for _, _, files in os.walk(self.lab.export_dir / _TOP))
        if kept != wanted:
            self.totals.troubles.append(
                f"after they were {name} the server has {kept:,} entries, not {wanted:,}"
            )

    def _pass(
        self,
        name: str,
        fios: Mapping[Path, tuple[Options, Sequence[str]]],
        faults: Sequence[PathFault],
        under_way: Callable[[], bool],
        done: float = 0.0,
    ) -> list[FioResult]:
        """Run fios, each with its options and jobs in its folder, and break paths meanwhile."""
        with ExitStack() as stack:
            stack.callback(self._faults.end_all)
            running = [
                stack.enter_context(
                    self.fio.start(folder, pool=self.pool, options=options, arguments=jobs)
                )
                for folder, (options, jobs) in fios.items()
            ]
            deadline = time.monotonic() + _OPEN_SECONDS
            while not under_way() and time.monotonic() < deadline:
                if not all(process.running for process in running):
                    break  # its status will tell
                time.sleep(_STEP_SECONDS)
            self._break_paths(faults, running, name, done)
            self._faults.end_all()
            deadline = time.monotonic() + _END_SECONDS
            return [process.result(max(deadline - time.monotonic(), 0)) for process in running]

    def _break_paths(
        self, faults: Sequence[PathFault], fios: Sequence[FioProcess], name: str, done: float
    ) -> None:
        """Let paths fail and return as the schedule says, while any fio runs."""
        begins = [(fault.begin, True, fault) for fault in faults]
        ends = [(fault.end, False, fault) for fault in faults]
        start = time.monotonic()
        for moment, begin, fault in sorted([*begins, *ends], key=operator.itemgetter(0)):
            while running := any(process.running for process in fios):
                now = time.monotonic() - start
                if now >= moment:
                    break
                broken = [f"{path}: {kind}" for path, kind in sorted(self._faults.present.items())]
                so_far = f"{self.totals.faults.total()} faults so far"
                what = ", ".join(broken) or "all paths are whole"
                self.bar.show(f"{name}: {what}, {so_far}", done + now)
                time.sleep(min(_STEP_SECONDS, moment - now))
            if not running:
                return
            if not begin:
                self._faults.end(fault.path)
            elif self._faults.begin(fault.kind, fault.path):
                self.totals.faults[fault.kind] += 1


def _touched(files: Sequence[Path]) -> list[int]:
    """Give when each file was last written or read, at the server."""
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
    out = Console(highlight=False)
    folder = (results or RESULTS / "soak" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise HarnessError(f"{shown(folder)} is not empty", "name another --results")
    totals, begin = Totals(), time.monotonic()
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
        summary = {"versions": versions(), **choice, **totals.as_dict()}
        write_json(folder / "soak.json", summary)
    out.print(totals.table())
    for trouble in totals.troubles:
        out.print(trouble, markup=False, soft_wrap=True)
    right = "entry was made, found and removed once" if entries else "byte is what was written"
    wrong = f"NOT every {'entry' if entries else 'byte'} is accounted for"
    found = f"every {right}" if totals.good else wrong
    how = "" if entries else f"seed {seed}, "
    out.print(f"{how}{seconds:.0f} s: {found}. {shown(folder)} holds each fio's output.")
    sys.exit(0 if totals.good else 1)
