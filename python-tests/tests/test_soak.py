# SPDX-License-Identifier: GPL-2.0-only
"""Soaks: real servers whose paths fail and return at random, for as long as ./nfsmulti soak says.

Without that, a short one. Data are written and verified; entries are made, verified and removed.
"""

import json
import operator
import os
import random
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from unittest.mock import MagicMock

import judge
import pytest
from conftest import call_harness, missing, refusal, started_lab
from lab_faults import FaultKind, Faults

import fault_table as commands
import testrun
from jobs import Fio
from nfsmulti import machine, typed
from nfsmulti.errors import MissingError
from nfsmulti.fiorun import Direction, Engine, FioProcess, Options
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.paths import write_json

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
class _PathFault:
    """One fault: `begin` and `end` are seconds since the beginning of its pass."""

    begin: float
    end: float
    path: int
    kind: FaultKind


def _schedule(seed: int, number: int, seconds: float, paths: int) -> list[_PathFault]:
    """Return the faults of pass `number`, in the order of their beginnings.

    At any time at least one path has none; all are over after `seconds`. The same arguments give
    the same faults.
    """
    draw = random.Random(f"{seed}/{number}")
    whole_from = [0.0] * paths
    faults: list[_PathFault] = []
    now = draw.uniform(*_GAP)
    while now < seconds:
        kind = draw.choice(list(_LASTS))
        end = min(now + draw.uniform(*_LASTS[kind]), seconds)
        whole = [path for path in range(paths) if whole_from[path] < now]
        if len(whole) > 1:
            path = draw.choice(whole)
            whole_from[path] = end
            faults.append(_PathFault(now, end, path, kind))
        now += draw.uniform(*_GAP)
    return faults


# --- passes over servers that fail ---


_SECONDS = 60.0  # to open files, and for what is left to be done once all paths are whole


@dataclass(frozen=True)
class _Soak:
    """What is asked for. Seed 13 has faults of every kind, and kills servers in both passes."""

    rounds: int = 1
    seconds: int = 5  # of a pass
    seed: int = 13
    paths: int = 4
    version: str | None = None
    entries: int = 0
    folder: str = ""


class _Passes:
    """Runs fio while paths of a lab fail, pass after pass; `sums` says what all have done.

    A pass after which something is wrong fails an assertion. Files are opened while all paths are
    whole: names are not retried, whatever `hard` says of data.
    """

    def __init__(self, lab: Lab, engine: Engine, folder: Path, version: str | None):
        self._folder, self.sums, self._faults = folder, Counter[str](), Faults(lab)
        self._pool = lab.pool_of(lab.config.addresses, version=version)
        self._fio = Fio(engine, enter=lab.command([]))

    def run(
        self,
        name: str,
        faults: Sequence[_PathFault],
        under_way: Callable[[], bool],
        wanted: int,
        options: Options,
        arguments: Sequence[str] = (),
    ) -> None:
        """Break paths while fio runs, from when it is under way; it must do all that is wanted."""
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)  # of a try while the machine stood still
        write_json(folder / "faults.json", [asdict(fault) for fault in faults])
        with self._fio.start(
            folder, pool=self._pool, options=options, arguments=arguments
        ) as process:
            try:
                if process.comes_up(under_way, _SECONDS):
                    self._break_paths(faults, process)
            finally:
                self._faults.end_all()
            result = process.result(_SECONDS)
        assert result.status == 0, result.messages
        assert not judge.lost_bytes(result.messages), result.messages
        side: Direction = "read" if "read" in str(options["rw"]) else "write"
        assert not [*judge.miscounted(result, side, wanted)]
        for line in result.stats:
            self.sums["reissues"] += line.reissues
            self.sums["retransmissions"] += line.retransmissions
            self.sums["reconnects"] += line.reconnects
            self.sums["bytes written again"] += line.rewritten_bytes
        self.sums[f"{'entries' if result.operations else 'bytes'}, {side}"] += wanted
        print(
            name, *(f"{what}: {sum_:,}" for what, sum_ in self.sums.items()), sep="  ", flush=True
        )
        write_json(self._folder / "soak.json", self.sums)

    def _break_paths(self, faults: Sequence[_PathFault], process: FioProcess) -> None:
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


@pytest.fixture
def soak() -> _Soak:
    return typed.read(_Soak, json.loads(os.environ.get(commands.SOAK, "{}")))


# --- data: by jobs with failover over all spreads, and by one without ---
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
# Silence is met by retransmission and failover in good time.
_DATA: Options = {"bs": _BLOCK, "rate": _RATE, "iodepth": 16, "timeo": 10, "verify": "pattern"}


def _touched(files: Sequence[Path]) -> list[int]:
    return [max(file.stat().st_mtime_ns, file.stat().st_atime_ns) for file in files]


def test_data_are_read_back_as_they_were_written(
    soak: _Soak, engine: Engine, tmp_path: Path
) -> None:
    size = _RATE * soak.seconds
    with started_lab(LabConfig(soak.paths)) as lab:
        passes = _Passes(lab, engine, Path(soak.folder or tmp_path), soak.version)
        files = [lab.export_dir / name for name in _JOBS]
        for file in files:
            with file.open("wb") as made:
                made.truncate(size)
        for number, reads in product(range(soak.rounds), (False, True)):
            pattern = {"verify_pattern": f"0x{number:08x}%o", "do_verify": reads}
            before = _touched(files)
            passes.run(
                f"{number + 1:03}-{'read' if reads else 'write'}",
                _schedule(soak.seed, 2 * number + reads, soak.seconds, soak.paths),
                # Each job has moved data: its file is open on all paths then.
                lambda old=before: not any(map(operator.eq, old, _touched(files))),  # type: ignore[misc]
                len(_JOBS) * size,
                {**_DATA, **pattern, "size": size, "rw": "randread" if reads else "randwrite"},
                _ARGUMENTS,
            )
    sums = passes.sums
    assert all(sums[kind] for kind in {*FaultKind} - {FaultKind.RESET})  # a kernel may not have it
    assert all(sums[name] for name in ("reissues", "reconnects", "bytes written again"))


# --- entries: made, verified and removed, while connections are reset, one each second ---


_TOP = "entries"
_METADATA: Options = {
    "metadata": 1, "bs": 1, "iodepth": 32, "spread": "roundrobin", "filename": _TOP,
}  # fmt: skip
# What is done to entries in turn, and whether the server then has them.
_ON_ENTRIES: Mapping[str, tuple[Options, bool]] = {
    "made": ({"rw": "write"}, True),
    "verified": ({"rw": "read", "meta_verify": 1}, True),
    "removed": ({"rw": "write", "meta_write": "remove"}, False),
}
_ENTRIES_PER_S = 100  # where a server does fewer, the pass has failed


def test_entries_are_made_found_and_removed_once(
    soak: _Soak, engine: Engine, tmp_path: Path
) -> None:
    """One server is behind all addresses: each entry is wanted once, whichever path made it."""
    entries, folder = soak.entries or 1500, Path(soak.folder or tmp_path)
    seconds = range(1, 60 + entries // _ENTRIES_PER_S)
    resets = [_PathFault(at, at, at % soak.paths, FaultKind.RESET) for at in seconds]
    with started_lab(LabConfig(soak.paths, one_server=True)) as lab:
        passes = _Passes(lab, engine, folder, soak.version or "4.1")
        for name, (options, there) in _ON_ENTRIES.items():
            begun = folder / name / "begun"  # right before the first I/O: all paths are there
            options = {
                **_METADATA, **options, "size": entries,
                "rate_iops": entries // 2,  # so that each pass takes two seconds, and has its reset
                "exec_prerun": f": >{shlex.quote(str(begun))} #",
            }  # fmt: skip
            passes.run(name, resets, begun.exists, entries, options)
            kept = sum(len(files) for _, _, files in os.walk(lab.export_dir / _TOP))
            assert kept == entries * there, f"the server's, after they were {name}"
    if not passes.sums[FaultKind.RESET]:
        missing(MissingError("this kernel resets no connections (CONFIG_INET_DIAG_DESTROY)"))
    assert passes.sums["reconnects"] > 0


# --- the command ---


@pytest.mark.parametrize(
    ("words", "chosen", "asked"),
    [
        ("--minutes=2 --paths=3", "test_data_are", _Soak(2, 25, 1, 3)),
        ("--entries=700 --nfsvers=4.2", "test_entries_are", _Soak(20, 25, 1, 4, "4.2", 700)),
    ],
)
def test_the_command_runs_one_of_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, chosen: str, asked: _Soak
) -> None:
    under_way = MagicMock()
    under_way.return_value.__enter__.return_value.wait.return_value = 3
    monkeypatch.setattr(testrun, "under_way", under_way)
    monkeypatch.setattr(machine, "missing_privileges", lambda: None)
    assert call_harness("soak", *words.split(), f"--results={tmp_path / 'soak'}").status == 3
    ((part, _),) = (call.args for call in under_way.call_args_list)
    (named,) = part.words
    (name,) = (name for name in globals() if name.startswith(chosen))
    assert named == f"{__file__}::{name}"
    given = typed.read(_Soak, json.loads(part.env[commands.SOAK]))
    assert given == replace(asked, folder=str(tmp_path / "soak"))


def test_what_it_cannot_do_it_says_before_any_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "missing_privileges", lambda: "not root")
    monkeypatch.setattr(testrun, "under_way", None)
    said = refusal("soak")
    assert "not permitted here: not root" in said
    assert said.endswith("run it as root, with CAP_SYS_ADMIN and CAP_NET_ADMIN")
    said = "--entries makes each entry once: leave out --minutes and --seed"
    assert refusal("soak", "--entries=700", "--minutes=1") == said
