# SPDX-License-Identifier: GPL-2.0-only
"""A server's setting as a factor: commands of the user turn it, and put it back."""

import contextlib
import dataclasses
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from conftest import run_harness
from run_helpers import made_record

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.run import runner
from nfsmulti.run.place import InGuest
from nfsmulti.run.plan import Plan, PlannedCell, Setting, ordered, under, warm_ups
from nfsmulti.run.record import Watcher
from nfsmulti.run.runner import SettingController, run_in_place
from nfsmulti.scenario import GuestPlace, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Summary

_SECONDS = 240.0


def _cells(one: Setting, repeats: int = 1) -> list[PlannedCell]:
    specs = SCENARIOS["neighbour"].cells(Scale(True))
    return ordered(under(specs, one), repeats, seed=3, block=one.name)


def test_all_cells_under_one_value_are_a_block_of_a_repeat() -> None:
    cells = _cells(Setting("mode", [0, 1, 2], "{mode}"), repeats=3)
    blocks = [(cell.repeat, cell.spec.factors["mode"]) for cell in cells]
    in_a_row = [block for block, _ in groupby(blocks)]
    assert len(in_a_row) == len(set(in_a_row)) == 9
    assert set(Counter(blocks).values()) == {3}
    assert len({tuple(value for repeat, value in in_a_row if repeat == r) for r in (1, 2, 3)}) > 1


def test_cells_that_differ_in_a_setting_alone_warm_up_together() -> None:
    warm = warm_ups(_cells(Setting("mode", [0, 1, 2], "{mode}"), repeats=2))
    workloads = [cell.spec.factors["workload"] for cell in warm]
    assert sorted(map(str, workloads)) == ["readers", "readers-beside-writer", "writer"]
    spec = dataclasses.replace(warm[0].spec, seconds=0.5)
    (short,) = warm_ups([dataclasses.replace(warm[0], spec=spec)])
    assert (short.spec.seconds, short.spec.options["runtime"]) == (0.5, "500ms")


def test_setting_is_turned_for_each_block_and_put_back(tmp_path: Path) -> None:
    pool, state, log = tmp_path / "mount", tmp_path / "state", tmp_path / "log"
    pool.mkdir()
    state.write_text("7\n")
    turn = f"echo {{mode}} >> {log}; [ {{mode}} != 1 ] || exit 3; echo {{mode}} > {state}"
    done = run_harness(
        *("run", "neighbour", "--pool", str(pool), "--quick", "--repeat", "1"),
        *("--setting", "mode=0,1", "--set", turn, "--get", f"cat {state}"),
        *("--results", str(tmp_path / "results")),
        env={"NFSMULTI_CELL_SECONDS": "0.2"},
        timeout=_SECONDS,
    )
    assert done.status == 1
    assert "mode is restored to 7, as it was before" in done.stdout
    assert state.read_text() == "7\n"
    assert sorted(log.read_text().split()) == ["0", "1", "7"]
    (folder,) = (tmp_path / "results/neighbour").iterdir()
    assert not (folder / "setting.before").exists()
    for cell in Summary.load(folder).cells:
        failed = cell.factors["mode"] == 1
        assert cell.status == ("failed" if failed else "done"), cell.why
        assert not failed or (cell.why and cell.why.startswith("--set mode=1: `echo 1 >> "))
    assert Plan.load(folder).setting == Setting("mode", [0, 1], turn, f"cat {state}")
    assert "mode 0" in (folder / "report.md").read_text()


def test_command_that_fails_hangs_or_does_nothing_fails_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does a --get that prints more than the value."""
    state, log = tmp_path / "state", tmp_path / "log"
    prints = ("18 8", "0 [8] 16", "8 threads", "8.0", "-8")
    for command, said in (
        ("echo no >&2; exit 2", r"`echo .*` failed \(2\): no"),
        ("true", "--get then says '18'"),
        *((f"echo '{one}' >{state}", "--get then says") for one in prints),
        ("exec sleep 100", "did not end within 4 s"),
    ):
        if "sleep" in command:  # the others end by themselves
            monkeypatch.setattr(runner, "_SETTING_SECONDS", 4.0)
        state.write_text("18")
        turn = f"echo {{a}} >> {log}; if [ {{a}} = 18 ]; then echo 18 >{state}; else {command}; fi"
        one = Setting("a", [8, 9], turn, f"cat {state}")
        lines: list[str] = []
        log.write_text("")
        with SettingController(one, tmp_path, lines.append) as controller:
            for cell in _cells(one):
                with pytest.raises(HarnessError, match=said):
                    controller.turn(cell)
        assert sorted(log.read_text().split()) == ["18", "8", "9"]
        assert lines == ["a is restored to 18, as it was before"]


_AFTER = "a is restored to"


@pytest.mark.parametrize(
    ("get", "interrupted", "state", "line"),
    [
        ("cat {state}", "", "4096\t131072\n", f"{_AFTER} 4096 131072, as it was before"),
        ("cat {state}", "4", "4\n", f"{_AFTER} 4, as it was before"),
        ("", "", "5\n", f"{_AFTER} 5, the first value: without --get its original is unknown"),
    ],
)
def test_what_was_there_before_is_put_back(
    tmp_path: Path, get: str, interrupted: str, state: str, line: str
) -> None:
    """Blanks of what --get prints are alike; a run that was killed has left what was there."""
    file, lines = tmp_path / "state", list[str]()
    file.write_text("4096\t131072\n")
    if interrupted:
        (tmp_path / "setting.before").write_text(interrupted)
    turn = f"echo '{{a}}' | tr ' ' '\\t' > {file}"
    one = Setting("a", [5, "1 2"], turn, get.format(state=file))
    with (
        contextlib.suppress(KeyboardInterrupt),
        SettingController(one, tmp_path, lines.append) as controller,
    ):
        for cell in _cells(one):
            controller.turn(cell)
        raise KeyboardInterrupt
    assert file.read_text() == state
    assert lines == [line]


def test_setting_that_cannot_be_read_or_put_back_is_said(tmp_path: Path) -> None:
    for turn, get, said in (
        ("echo {a}", "exit 4", r"--get: `exit 4` failed \(4\)"),
        ("echo {a}", "echo '[a] b'", "cannot be restored"),
        ("exit 1 {a}", "", r"a is NOT restored to 1: --set a=1: `exit 1 1` failed \(1\)"),
    ):
        one = Setting("a", [1], turn, get)
        with pytest.raises(HarnessError, match=said), SettingController(one, tmp_path, print):
            assert not get


@pytest.mark.kernel_lab
def test_threads_of_the_kernels_server_are_a_setting(tmp_path: Path) -> None:
    threads = Path("/proc/fs/nfsd/threads")
    before = threads.read_text()
    one = Setting("threads", [1, 3], f"echo {{threads}} > {threads}", f"cat {threads}")
    specs = SCENARIOS["neighbour"].cells(Scale(True, 1))
    writer = [spec for spec in specs if spec.factors["workload"] == "writer"]
    record = made_record(tmp_path / "run", "neighbour", writer, setting=one)
    run_in_place(record, "guest", lambda: InGuest(GuestPlace()), Engine.built(), Watcher())
    assert threads.read_text() == before
    for cell in record.cells:
        assert cell.status == "done", cell.why
        assert [job.name for job in cell.jobs] == ["writer"]
        assert cell.server is not None
