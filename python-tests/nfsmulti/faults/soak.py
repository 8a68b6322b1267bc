# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti soak: data or entries over real servers whose paths fail and return.

Data are written and verified; entries are made, verified and removed.
"""

from __future__ import annotations

import itertools
import os
import random
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from nfsmulti.errors import HarnessError
from nfsmulti.faults.cell import lost_bytes
from nfsmulti.faults.faults import FaultKind, Faults
from nfsmulti.fiorun import Engine, Fio, FioProcess, FioResult, Options
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


Direction = Literal["write", "read"]

_BLOCK = 16 << 10
_DEPTH = 16
_FAILOVER_RATE = 4 << 20  # bytes/s of each job
_HARD_RATE = 1 << 20
_TIMEO = 10  # deciseconds, so that silence is met by retransmission and failover in good time


@dataclass(frozen=True)
class Job:
    """One job: the name of its section and of its file, how it spreads its I/O, and its rate.

    `held`: its writes are held until they are durable, instead of being durable at once.
    """

    name: str
    spread: str
    rate: int
    held: bool

    def size(self, seconds: int) -> int:
        """Give the bytes of its file: as much as a pass of `seconds` moves."""
        return self.rate * seconds // _BLOCK * _BLOCK


@dataclass(frozen=True)
class Group:
    """The jobs of one fio."""

    name: str
    failover: bool
    jobs: tuple[Job, ...]


_HELD = {"stable": "unstable", "hold_writes": "1m", "fsync": 64}
_DURABLE = {"stable": "file_sync"}

GROUPS = (
    Group(
        "failover",
        True,
        (
            Job("failover-job", "job", _FAILOVER_RATE, held=False),
            Job("failover-roundrobin", "roundrobin", _FAILOVER_RATE, held=False),
            Job("failover-queue", "queue", _FAILOVER_RATE, held=True),
            Job("failover-stripe", "stripe", _FAILOVER_RATE, held=True),
        ),
    ),
    Group("hard", False, (Job("hard", "roundrobin", _HARD_RATE, held=True),)),
)
JOBS = tuple(job for group in GROUPS for job in group.jobs)


def _options(group: Group, direction: Direction, round_number: int) -> Options:
    """Give the options that all jobs of a group have in a pass."""
    return {
        "rw": f"rand{direction}",
        "bs": _BLOCK,
        "iodepth": _DEPTH,
        "failover": group.failover,
        "timeo": _TIMEO,
        **_content(round_number),
        "do_verify": direction == "read",
    }


def _content(round_number: int) -> Options:
    """Give fio's words for what stands in a file after that round."""
    return {"verify": "pattern", "verify_pattern": f"0x{round_number:08x}%o"}


def _arguments(group: Group, direction: Direction, seconds: int) -> list[str]:
    """Give the jobs as fio's command line has them."""
    words: list[str] = []
    for job in group.jobs:
        kept = _HELD if job.held else _DURABLE
        words += [
            f"--name={job.name}",
            f"--filename={job.name}",
            f"--spread={job.spread}",
            f"--size={job.size(seconds)}",
            f"--rate={job.rate}",
            *(f"--{key}={value}" for key, value in kept.items() if direction == "write"),
        ]
    return words


def comparison(job: Job, file: str, seconds: int, round_number: int) -> list[str]:
    """Give the words for a fio that reads a job's file without NFS and knows every byte."""
    return [
        "--name=compare",
        "--ioengine=psync",
        f"--filename={file.replace(':', chr(92) + ':')}",
        "--rw=read",
        f"--bs={_BLOCK}",
        f"--size={job.size(seconds)}",
        *(f"--{key}={value}" for key, value in _content(round_number).items()),
    ]


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
    reissues: int = 0
    retransmissions: int = 0
    reconnects: int = 0
    rewritten: int = 0
    lost: int = 0
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


@dataclass
class _Passes:
    """What passes run in, and what they count into and tell."""

    lab: Lab
    fio: Fio
    folder: Path
    totals: Totals
    bar: Bar

    def __post_init__(self) -> None:
        """Make ready to break the lab's paths."""
        self.faults = Faults(self.lab)


@dataclass(kw_only=True)
class Passes(_Passes):
    """Runs rounds of two passes, one that writes and one that reads, and counts into `totals`.

    `seconds` is how long paths fail in a pass. Files are opened while all paths are whole: names
    are not retried, whatever `hard` says of data.
    """

    pool: str
    seed: int
    seconds: int

    def run(self, rounds: int) -> None:
        """Run them all; ends early where one has failed, which `totals` tells then."""
        self.bar.show(total=2 * rounds * self.seconds)
        for job, file in zip(JOBS, self._files, strict=True):  # for the first round, as for others
            file.touch()
            run(["truncate", f"--size={job.size(self.seconds)}", str(file)], timeout=10).check()
        for number in range(rounds):
            self._pass(2 * number, "write", number)
            if not self.totals.troubles:
                self._pass(2 * number + 1, "read", number)
            if not self.totals.troubles:
                self._compare(number)
            if self.totals.troubles:
                return

    @property
    def _files(self) -> list[Path]:
        return [self.lab.export_dir / job.name for job in JOBS]

    def _pass(self, number: int, direction: Direction, round_number: int) -> None:
        faults = schedule(self.seed, number, self.seconds, self.lab.config.addresses)
        folder = self.folder / f"{number:03}-{direction}"
        name = f"round {round_number + 1}, {direction}"
        with ExitStack() as stack:
            stack.callback(self.faults.end_all)
            touched = self._touched()
            fios = {
                group.name: stack.enter_context(
                    self.fio.start(
                        folder / group.name,
                        pool=self.pool,
                        options=_options(group, direction, round_number),
                        arguments=_arguments(group, direction, self.seconds),
                    )
                )
                for group in GROUPS
            }
            write_json(folder / "faults.json", [asdict(fault) for fault in faults])
            self._await_first_io(list(fios.values()), touched)
            self._break_paths(faults, list(fios.values()), name, number * self.seconds)
            self.faults.end_all()
            deadline = time.monotonic() + _END_SECONDS
            for group, process in fios.items():
                result = process.result(max(deadline - time.monotonic(), 0))
                self.totals.add(f"{name}, {group}", result)

    def _touched(self) -> list[int]:
        """Give when each file was last written or read, at the server."""
        status = [file.stat() for file in self._files]
        return [max(one.st_mtime_ns, one.st_atime_ns) for one in status]

    def _await_first_io(self, fios: Sequence[FioProcess], before: list[int]) -> None:
        """Wait until each job has moved data: it has opened its file on all paths then."""
        deadline = time.monotonic() + _OPEN_SECONDS
        while any(map(int.__eq__, before, self._touched())):
            if time.monotonic() > deadline or not all(process.running for process in fios):
                return  # the fio's status will tell
            time.sleep(_STEP_SECONDS)

    def _break_paths(
        self, faults: list[PathFault], fios: Sequence[FioProcess], name: str, done: float
    ) -> None:
        """Let paths fail and return as the schedule says, while any fio runs."""
        begins = [(fault.begin, True, fault) for fault in faults]
        ends = [(fault.end, False, fault) for fault in faults]
        steps = sorted([*begins, *ends], key=itemgetter(0))
        start = time.monotonic()
        broken: dict[int, FaultKind] = {}
        for moment, begin, fault in steps:
            while (now := time.monotonic() - start) < moment:
                what = ", ".join(f"{path}: {kind}" for path, kind in sorted(broken.items()))
                self.bar.show(f"{name}: {what or 'all paths are whole'}", done + now)
                time.sleep(min(_STEP_SECONDS, moment - now))
            if not any(process.running for process in fios):
                return
            if not begin:
                self.faults.end(fault.path)
                broken.pop(fault.path, None)
            elif self.faults.begin(fault.kind, fault.path):
                self.totals.faults[fault.kind] += 1
                broken[fault.path] = fault.kind

    def _compare(self, round_number: int) -> None:
        """Read the files where the servers keep them, without NFS, and count what is right."""
        for job, file in zip(JOBS, self._files, strict=True):
            words = comparison(job, str(file), self.seconds, round_number)
            done = run(["fio", *words], timeout=_COMPARE_SECONDS)
            if done.status == 0:
                self.totals.compared += job.size(self.seconds)
            else:
                said = "\n  ".join((done.stderr + done.stdout).splitlines()[:8])
                self.totals.troubles.append(
                    f"{file.name} does not hold what was written:\n  {said}"
                )


# --- entries made, verified and removed, while connections are reset ---
# One server is behind all addresses, so that each entry is wanted once, whichever path made it.


_TOP = "entries"
_JOB: Options = {
    "metadata": 1, "bs": 1, "iodepth": 32, "spread": "roundrobin", "filename": _TOP,
}  # fmt: skip
# What a pass does, and whether the server then has the entries.
_PASSES: dict[str, tuple[Options, bool]] = {
    "made": ({"rw": "write"}, True),
    "verified": ({"rw": "read", "meta_verify": 1}, True),
    "removed": ({"rw": "write", "meta_write": "remove"}, False),
}
_RESET_SECONDS = 1.0
_ENTRIES_SECONDS, _ENTRIES_PER_S = 120.0, 100  # where a server does fewer, the pass has failed


@dataclass
class EntryPasses(_Passes):
    """Runs the three passes, with `more` of fio's options, and counts into `totals`."""

    more: Options = field(default_factory=dict)

    def run(self, entries: int, pool: str) -> None:
        """Run them all; ends early where one has failed, which `totals` tells then."""
        for name, (options, there) in _PASSES.items():
            folder = self.folder / name
            begun = folder / "begun"  # written right before the first I/O: all paths are mounted
            deadline = time.monotonic() + _ENTRIES_SECONDS + entries / _ENTRIES_PER_S
            words = {"size": entries, "exec_prerun": f": >{shlex.quote(str(begun))} #"}
            options = {**_JOB, **self.more, **options, **words}
            with self.fio.start(folder, pool=pool, options=options) as process:
                self._reset(process, begun, deadline, f"entries {name}")
                result = process.result(max(0.0, deadline - time.monotonic()))
            self.totals.add(name, result)
            self.totals.entries[name] = sum(line.meta_ops for line in result.stats)
            self._hold(name, entries if there else 0, entries)
            if self.totals.troubles:
                return
        if not self.totals.faults[FaultKind.RESET]:
            self.totals.troubles.append(
                "no connection was reset: the passes were shorter than a second, or this kernel"
                " resets none (CONFIG_INET_DIAG_DESTROY)"
            )

    def _reset(self, process: FioProcess, begun: Path, deadline: float, what: str) -> None:
        """Close the connections of one address after the other, one each second."""
        begin = time.monotonic()
        resets = 0
        for path in itertools.cycle(range(self.lab.config.addresses)):
            process.wait(_RESET_SECONDS)
            now = time.monotonic()
            if not process.running or now > deadline:
                break
            self.bar.show(f"{what}: {now - begin:.0f} s, {resets} resets", 0)
            if begun.exists():
                resets += self.faults.begin(FaultKind.RESET, path)
        self.totals.faults[FaultKind.RESET] += resets

    def _hold(self, name: str, wanted: int, entries: int) -> None:
        """Hold what fio did, and what the server keeps, against what must be."""
        if self.totals.entries[name] != entries:
            self.totals.troubles.append(
                f"{self.totals.entries[name]:,} of {entries:,} entries were {name}"
            )
        kept = sum(len(files) for _, _, files in os.walk(self.lab.export_dir / _TOP))
        if kept != wanted:
            self.totals.troubles.append(
                f"after they were {name} the server has {kept:,} entries, not {wanted:,}"
            )


# --- the command ---


# A round is a pass that writes and one that reads; a round is about a minute with what is between.
_PASS_SECONDS = 25
_MINUTES, _SEED = 20, 1


def soak(
    minutes: Annotated[
        int | None, typer.Option(min=1, help="How long; a round takes a minute. Default: 20.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the faults: the same seed gives the same faults. Default: 1."),
    ] = None,
    paths: Annotated[int, typer.Option(min=2, max=16, help="Server addresses.")] = 4,
    nfsvers: Annotated[Literal["3", "4.1", "4.2"], typer.Option(help="NFS version.")] = "3",
    entries: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Metadata instead of data: make so many entries, verify and remove them, once,"
            " while connections are reset each second.",
        ),
    ] = None,
    results: Annotated[Path | None, typer.Option(help="Where to keep fio's output.")] = None,
) -> None:
    """Write and verify on real servers while their paths fail and return at random.

    Servers are killed, stopped and started again; packets are dropped, addresses removed,
    connections reset; one path always works. Four jobs have failover=1, a fifth waits (hard).
    With --entries one server is behind all addresses, its connections are reset, and the job waits.
    Exit status 0: every byte was read back as it was written, and nothing was lost; or every entry
    was made, found and removed once.
    """
    if entries and (minutes, seed) != (None, None):
        raise HarnessError("--entries makes each entry once: leave out --minutes and --seed")
    minutes, seed = minutes or _MINUTES, _SEED if seed is None else seed
    out = Console(highlight=False)
    folder = (results or RESULTS / "soak" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise HarnessError(f"{shown(folder)} is not empty", "name another --results")
    totals = Totals()
    begin = time.monotonic()
    try:
        servers = Instances.ONE if entries else Instances.PER_ADDRESS
        config = LabConfig(addresses=paths, instances=servers)
        with Bar(out, "starting the lab", None) as bar, Lab(config) as lab:
            fio = Fio(Engine.built(), enter=lab.command([]))
            pool = lab.pool_of(paths, version=None if nfsvers == "3" else nfsvers)
            if entries:
                EntryPasses(lab, fio, folder, totals, bar).run(entries, pool)
            else:
                passes = Passes(
                    lab, fio, folder, totals, bar, pool=pool, seed=seed, seconds=_PASS_SECONDS
                )
                passes.run(minutes)
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
    kind = "entry" if entries else "byte"
    right = "was made, found and removed once" if entries else "is what was written"
    found = f"every {kind} {right}" if totals.good else f"NOT every {kind} is accounted for"
    how = "" if entries else f"seed {seed}, "
    out.print(f"{how}{seconds:.0f} s: {found}. {shown(folder)} holds each fio's output.")
    raise typer.Exit(0 if totals.good else 1)
