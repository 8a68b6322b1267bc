# SPDX-License-Identifier: GPL-2.0-only
"""Soaks: real servers whose paths fail and return at random, for as long as ./nfsmulti soak says.

Without that, a short one.
"""

import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import MagicMock

import judge
import pytest
from conftest import call_harness, missing, refusal, started_lab
from hypothesis import given as of
from hypothesis import settings
from hypothesis import strategies as st
from lab_faults import FaultKind
from soaking import BLOCK, Passes, prefix_of, schedule

import fault_table as commands
import testrun
from jobs import Fio
from nfsmulti import machine, typed
from nfsmulti.errors import MissingError
from nfsmulti.fiorun import Engine
from nfsmulti.lab import Instances, LabConfig


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


@pytest.fixture
def soak() -> _Soak:
    return typed.read(_Soak, json.loads(os.environ.get(commands.SOAK, "{}")))


def test_data_are_read_back_as_they_were_written(
    soak: _Soak, engine: Engine, tmp_path: Path
) -> None:
    with started_lab(LabConfig(soak.paths)) as lab:
        fio, folder = Fio(engine, enter=lab.command([])), Path(soak.folder or tmp_path)
        passes = Passes(lab, lab.pool_of(soak.paths, version=soak.version), fio, folder)
        passes.on_data(soak.rounds, soak.seed, soak.seconds)
    sums = passes.sums
    assert all(sums[kind] for kind in {*FaultKind} - {FaultKind.RESET})  # a kernel may not have it
    assert all(sums[name] for name in ("reissues", "reconnects", "bytes written again"))


def test_entries_are_made_found_and_removed_once(
    soak: _Soak, engine: Engine, tmp_path: Path
) -> None:
    config = LabConfig(soak.paths, instances=Instances.ONE)
    entries = soak.entries or 1500
    more = {"rate_iops": entries // 2}  # so that each pass takes two seconds, and has its reset
    with started_lab(config) as lab:
        fio, folder = Fio(engine, enter=lab.command([])), Path(soak.folder or tmp_path)
        passes = Passes(lab, lab.pool_of(soak.paths, version=soak.version or "4.1"), fio, folder)
        passes.on_entries(entries, more)
    if not passes.sums[FaultKind.RESET]:
        missing(MissingError("this kernel resets no connections (CONFIG_INET_DIAG_DESTROY)"))
    assert passes.sums["reconnects"] > 0


# --- the command ---


@pytest.mark.parametrize(
    ("words", "chosen", "asked"),
    [
        ("--minutes=2 --paths=3", test_data_are_read_back_as_they_were_written, _Soak(2, 25, 1, 3)),
        (
            "--entries=700 --nfsvers=4.2",
            test_entries_are_made_found_and_removed_once,
            _Soak(20, 25, 1, 4, "4.2", 700),
        ),
    ],
    ids=["data", "entries"],
)
def test_the_command_runs_one_of_these(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    chosen: Callable[..., None],
    asked: _Soak,
) -> None:
    under_way = MagicMock()
    under_way.return_value.__enter__.return_value.wait.return_value = 3
    monkeypatch.setattr(testrun, "under_way", under_way)
    monkeypatch.setattr(machine, "missing_privileges", lambda: None)
    assert call_harness("soak", *words.split(), f"--results={tmp_path / 'soak'}").status == 3
    ((part, _),) = (call.args for call in under_way.call_args_list)
    assert [*part.words] == [f"{__file__}::{chosen.__name__}"]
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


# --- what they are made of ---


@settings(deadline=None)
@of(st.integers(), st.integers(0, 1000), st.floats(0, 300), st.integers(2, 16))
def test_schedule_leaves_a_path_whole(seed: int, number: int, seconds: float, count: int) -> None:
    faults = schedule(seed, number, seconds, count)
    assert faults == schedule(seed, number, seconds, count)
    for fault in faults:
        assert 0 <= fault.begin <= fault.end <= seconds
        others = [other for other in faults if other.begin <= fault.begin < other.end]
        broken = [other.path for other in others if other is not fault]
        assert fault.path not in broken
        assert len({*broken, fault.path}) < count


def test_what_is_not_what_was_written_is_found() -> None:
    size = 1 << 20
    right = b"".join(judge.block_at(at, BLOCK, prefix_of(7)) for at in range(0, size, BLOCK))

    def wrong(file: bytes, number: int) -> list[int]:
        return [*judge.wrong_blocks(io.BytesIO(file), BLOCK, size, prefix_of(number))]

    assert wrong(right, 7) == []
    assert wrong(right, 6) == [*range(0, size, BLOCK)]
    turned = right[:777_777] + bytes([right[777_777] ^ 1]) + right[777_778:]
    assert wrong(turned, 7) == [777_777 // BLOCK * BLOCK]
    assert wrong(right[:-512], 7) == [size - BLOCK]
