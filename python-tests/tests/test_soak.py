# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti soak: its schedule, its faults, what it takes for wrong, and a minute of it."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FioRunner, call_harness, in_full, missing, namespaces, refusal
from engine_helpers import done, eventually, family, running, traces
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from nfsmulti import paths, soak
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.fiorun import Engine, Fio, FioReport, FioResult, Option
from nfsmulti.lab import Instances, Lab, LabConfig
from nfsmulti.lab.faults import FaultKind, Faults
from nfsmulti.lab.lab import live_labs
from nfsmulti.lab.network import Network
from nfsmulti.processes import Process
from nfsmulti.screen import Bar
from nfsmulti.soak import BLOCK, Passes, Totals, prefix_of, schedule
from servers import judge

_BYTES = ("written", "verified", "compared at the server")
_READ: dict[str, Option] = {"rw": "read", "bs": "4k", "size": "64k", "filename": "f"}


@settings(deadline=None)
@given(st.integers(), st.integers(0, 1000), st.floats(0, 300), st.integers(2, 16))
def test_schedule_leaves_a_path_whole(seed: int, number: int, seconds: float, count: int) -> None:
    faults = schedule(seed, number, seconds, count)
    assert faults == schedule(seed, number, seconds, count)
    for fault in faults:
        assert 0 <= fault.begin <= fault.end <= seconds
        others = [other for other in faults if other.begin <= fault.begin < other.end]
        broken = [other.path for other in others if other is not fault]
        assert fault.path not in broken
        assert len({*broken, fault.path}) < count


def test_schedule_knows_every_kind_and_the_seed() -> None:
    faults = schedule(1, 0, 300, 4)
    assert {fault.kind for fault in faults} == set(FaultKind)
    assert {fault.path for fault in faults} == set(range(4))
    assert faults != schedule(2, 0, 300, 4)
    assert faults != schedule(1, 1, 300, 4)


def test_faults_last_until_they_are_ended(fio: FioRunner, lab: Lab, faults: Faults) -> None:
    """Each breaks its own path alone; the first address is the subnet's, and takes none along."""
    (lab.export_dir / "f").write_bytes(bytes(64 << 10))
    soft: dict[str, Option] = {**_READ, "soft": 1, "timeo": 1, "retrans": 0}
    assert not faults.begin(FaultKind.RESET, 3), "nobody is connected"
    assert faults.begin(FaultKind.ADDRESS, 0)
    done(fio(pool=",".join(lab.path(number) for number in (1, 2, 3)), spread="stripe", **_READ))
    for path, kind in enumerate((FaultKind.KILL, FaultKind.STOP, FaultKind.DROP), start=1):
        assert faults.begin(kind, path)
    with ExitStack() as stack:
        broken = [stack.enter_context(fio.start(pool=lab.path(path), **soft)) for path in range(4)]
        assert [fio.finish(process).status for process in broken] == [1] * 4
    for path in range(4):
        faults.end(path)
    result = fio(spread="roundrobin", **_READ)
    done(result)
    assert [line.read_ops for line in result.stats] == [4] * 4


@pytest.mark.full
def test_a_path_that_is_cut_off_is_connected_to_anew(
    fio: FioRunner, lab: Lab, faults: Faults
) -> None:
    """Before timeo, which is a minute: TCP alone would try ever more rarely."""
    (lab.export_dir / "f").write_bytes(bytes(64 << 10))
    asked = ["ss", "-Htn", "state", "syn-sent"]
    with fio.start(pool=lab.path(3), time_based=1, runtime=600, trace=1, **_READ) as process:
        eventually(lambda: traces(process))
        assert faults.begin(FaultKind.DROP, 3)
        eventually(lambda: lab.run(asked).check().stdout, 120)
        faults.end(3)
        reads = traces(process)
        eventually(lambda: traces(process) > reads + 100)
        process.signal(signal.SIGTERM)
        result = fio.finish(process)
    assert [line.reconnects for line in result.stats] == [1]


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


def _result(status: int | None, messages: str = "") -> FioResult:
    return FioResult([], status, 1.0, messages, "", None, [], Path("folder"))


def _totals(written: int, verified: int) -> Totals:
    counts = {"I/Os": 1, "bytes written": written, "bytes verified": verified}
    return Totals(Counter(counts))


def test_totals_tell_what_must_not_be() -> None:
    sound = _totals(4096, 4096)
    assert sound.good
    assert not _totals(4096, 0).good
    assert not Totals().good
    sound.add("a", _result(0))
    assert sound.good
    lost = 'nfsmulti: t: 10.77.0.1:/export: 4096 bytes of "f" may be lost: the server did not'
    sound.add("b", _result(1, lost))
    assert sound.counts["bytes lost, as reported"] == 4096
    assert "status 1" in sound.troubles[0]
    hung = _totals(1, 1)
    hung.add("c", _result(None))
    assert "did not end" in hung.troubles[0]
    assert not hung.good


def test_counts_that_differ_are_troubles() -> None:
    report = FioReport({"jobs": [{"write": {"io_bytes": 4096}}]})
    totals = Totals()
    totals.compare("write", 4096, replace(_result(0), report=report))
    assert totals.troubles == ["write: 4096 bytes wanted, fio counts 4096, the engine 0"]


def test_a_short_round(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lab` is there for its skip alone: the soak has a lab of its own."""
    monkeypatch.setattr(soak, "_PASS_SECONDS", 5)
    # Its faults are of every kind, and servers are killed in both passes.
    ended = call_harness("soak", "--minutes=1", "--seed=13", f"--results={tmp_path / 'soak'}")
    assert ended.status == 0, ended.stdout + ended.stderr
    found = json.loads((tmp_path / "soak/soak.json").read_text())
    assert len({found[f"bytes {how}"] for how in _BYTES}) == 1
    assert found["bytes lost, as reported"] == 0
    assert found["faults injected"] > 3
    assert found["calls reissued on other paths"] > 0
    assert found["reconnects"] > 0
    assert found["bytes held and written again"] > 0
    assert "every byte is what was written" in ended.stdout


def test_entries_are_made_found_and_removed_once(lab: Lab, engine: Engine, tmp_path: Path) -> None:
    """`lab` is there for its skip alone: one server is behind all addresses here."""
    totals = Totals()
    with (
        Lab(LabConfig(addresses=2, instances=Instances.ONE)) as one,
        Bar(Console(quiet=True), "", None) as bar,
    ):
        fio = Fio(engine, enter=one.command([]))
        pool = one.pool_of(2, version="4.1")
        # So that a pass takes more than a second, and has its reset.
        Passes(one, pool, fio, tmp_path, totals, bar).on_entries(1500, {"rate_iops": 1000})
        if not totals.faults:
            missing(MissingError("this kernel resets no connections (CONFIG_INET_DIAG_DESTROY)"))
        assert totals.good, totals.troubles
        assert totals.counts["reconnects"] > 0
        done = [totals.counts[f"entries {how}"] for how in ("made", "verified", "removed")]
        assert done == [1500] * 3
        assert (totals.counts["I/Os"], totals.counts["bytes written"]) == (4500, 0)
        (one.export_dir / "entries" / "left").touch()
        totals = Totals()
        Passes(one, pool, fio, tmp_path / "again", totals, bar).on_entries(40)
    assert totals.troubles == ["after they were made the server has 41 entries, not 40"]


@pytest.mark.parametrize("number", [signal.SIGINT, in_full(signal.SIGTERM)])
def test_a_signal_ends_it_and_leaves_nothing(
    lab: Lab, tmp_path: Path, number: signal.Signals
) -> None:
    # Where the tests were started in the background, SIGINT would be ignored.
    argv = ["env", "--default-signal=INT", sys.executable, "-m", "nfsmulti"]
    argv += ["soak", "--paths=2", f"--results={tmp_path / 'soak'}"]
    env = {"PYTHONPATH": str(paths.PYTHON_TESTS)}
    with (
        (tmp_path / "out").open("wb") as out,
        Process(argv, env=env, stdout=out, stderr=out) as process,
    ):
        eventually((tmp_path / "soak/000-write/command").exists, 120)
        below = family(process.pid)
        (own,) = (state for state in live_labs() if state.owner.pid == process.pid)
        process.signal(number)
        status = process.wait(120)
        said = (tmp_path / "out").read_text()
    assert status in (1, 128 + number), said
    assert below
    eventually(lambda: not any(map(running, below)))
    network = Network(own.id)
    assert not {network.server, network.client} & namespaces()
    assert not any(process.alive() for process in own.processes.values())
    assert not own.folder.exists()


def test_soak_that_cannot_go_on_leaves_what_it_found(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lab` is there for its skip alone."""

    def fail(*_: object) -> None:
        raise HarnessError("no space")

    monkeypatch.setattr(Passes, "on_data", fail)
    with pytest.raises(HarnessError, match="no space"):
        call_harness("soak", "--minutes=1", "--seed=3", "--paths=2", f"--results={tmp_path}")
    left = json.loads((tmp_path / "soak.json").read_text())
    assert left["seed"] == 3
    assert left["troubles"] == ["ended early: no space"]


def test_soaks_that_begin_in_one_second_have_a_folder_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise HarnessError("no lab")

    monkeypatch.setattr("nfsmulti.soak.RESULTS", tmp_path)
    monkeypatch.setattr("nfsmulti.soak.Lab", fail)
    for _ in range(3):
        assert refusal("soak") == "no lab"
    assert len([*tmp_path.glob("soak/*/soak.json")]) == 3
