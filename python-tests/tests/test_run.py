# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti run, with cells of a moment each."""

import dataclasses
import errno
import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Self
from unittest import mock

import psutil
import pytest
from conftest import call_harness, needs_privileges, or_skip, refusal, run_harness
from engine_helpers import eventually
from made_runs import report_of
from rich.console import Console
from run_helpers import (
    QUIET,
    REPORT,
    SHORT,
    begun,
    hanging_run,
    made_record,
    own_cells,
    run_one,
    scripted_cells,
    staged_fio,
)

from nfsmulti import paths
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.lab.ganesha import Server
from nfsmulti.lab.guest import GuestConfig, inside, run_in_guest
from nfsmulti.processes import run
from nfsmulti.run import command, runner, start
from nfsmulti.run.cell import run_cell
from nfsmulti.run.live import Live
from nfsmulti.run.place import InGuest, InLab, OnPool
from nfsmulti.run.plan import Plan, ordered, warm_ups
from nfsmulti.run.record import Meter, Record, Watcher, expected_seconds, waiting_cell, write_place
from nfsmulti.run.runner import ProgressStream, run_in_guests
from nfsmulti.scenario import GuestPlace, Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Summary

_SECONDS = 240.0


@pytest.fixture
def mount(tmp_path: Path) -> str:
    """Return a pool that needs no server: a directory."""
    folder = tmp_path / "mount"
    folder.mkdir()
    return str(folder)


def test_kill_loses_no_more_than_the_cell_under_way(tmp_path: Path, mount: str) -> None:
    results = tmp_path / "results"
    # After three warm-ups and a cell.
    with hanging_run(tmp_path, 5, "oltp", "--pool", mount, "--repeat=1") as process:
        process.signal(signal.SIGKILL)
        process.wait(_SECONDS)
    (folder,) = (results / "oltp").iterdir()
    # Its fio has the folder among its words, and ends with the harness.
    eventually(lambda: run(["pgrep", "-f", str(folder)], timeout=20).status, _SECONDS)
    before = Summary.load(folder)
    kept = {cell.id: (folder / cell.folder / "fio.json") for cell in before.done}
    written = {name: file.stat().st_mtime_ns for name, file in kept.items()}
    assert len(kept) == 1
    (left,) = Path(mount).iterdir()
    assert f"{left.name}/ is removed" in call_harness("clean", "--results", str(results)).stdout
    assert not list(Path(mount).iterdir())
    again = ("run", "oltp", "--resume", "--results", str(results), "--json")
    done = run_harness(*again, env=SHORT, timeout=_SECONDS)
    assert done.status == 0, done.stdout + done.stderr
    (told,) = json.loads(done.stdout)["runs"]
    assert (told["folder"], told["cells"]) == (paths.shown(folder), {"done": 3})
    assert f"\n{told['answer']}\n" in (folder / "report.md").read_text()
    assert told["left_on_server"] is None
    assert paths.shown(folder / "report.html") in done.stderr
    after = Summary.load(folder)
    assert [cell.status for cell in after.cells] == ["done"] * 3
    assert [cell.id for cell in after.cells] == [cell.id for cell in before.cells]
    assert {name: file.stat().st_mtime_ns for name, file in kept.items()} == written
    said = refusal("run", "oltp", "--resume", "--results", str(results))
    assert "holds no unfinished run" in said


def test_interrupt_says_how_to_go_on(tmp_path: Path, mount: str) -> None:
    with hanging_run(tmp_path, 4, "oltp", "--pool", mount) as process:  # after the warm-ups
        process.signal(signal.SIGINT)
        assert process.wait(_SECONDS) == 130
    (folder,) = (tmp_path / "results/oltp").iterdir()
    text = (tmp_path / "said").read_text()
    assert f"stopped; continue with: ./nfsmulti run oltp --resume {paths.shown(folder)}" in text
    assert "failed" not in {cell.status for cell in Summary.load(folder).cells}
    assert not list(Path(mount).iterdir())


@pytest.mark.parametrize(
    ("story", "said", "why"),
    [
        ("dd", "{\\n broken", "JSON"),
        ("dd", '{\\n "jobs": ["x"]\\n}\\n', "JSON"),
        ("dd", "", "JSON"),
        ("metadata", '{\\n "jobs": [{"write": null}]\\n}\\n', ""),  # of the entries to remove
    ],
)
def test_a_cell_of_a_broken_report_fails_in_a_line(
    tmp_path: Path, mount: str, monkeypatch: pytest.MonkeyPatch, story: str, said: str, why: str
) -> None:
    monkeypatch.setenv("PATH", staged_fio(tmp_path, 1, REPORT.format(said=said)))
    specs = SCENARIOS[story].cells(Scale(True, 0.2))
    chosen = [spec for spec in specs if spec.factors.get("operation", "remove") == "remove"]
    cell = run_one(made_record(tmp_path / "run", story, chosen[:1]), OnPool(mount))
    assert cell.status == "failed"
    assert cell.why
    assert why in cell.why
    assert "\n" not in cell.why


def test_dead_server_fails_its_cell_which_a_resumed_run_repeats(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lab` is there for its skip alone."""
    servers: set[Server] = set()
    said = io.StringIO()

    class Dying(InLab):
        """A lab whose server is killed while its first cell runs."""

        def trouble(self) -> str | None:
            if not servers and (record.folder / record.cells[0].folder).exists():
                self._lab.servers[0].kill()
                servers.update(self._lab.servers)
            return super().trouble()

    monkeypatch.setattr(runner, "InLab", Dying)
    monkeypatch.setattr(command, "_out", Console(file=said, width=400))
    record = made_record(tmp_path / "run", "dd", SCENARIOS["dd"].cells(Scale(True, 1))[:2])
    assert command._carry_out(record) == 1
    again = f"./nfsmulti run dd --resume {paths.shown(record.folder)}"
    assert f"1 of 2 cells failed; run them again with: {again}\n" in said.getvalue()
    first, second = Summary.load(record.folder).cells
    assert (first.status, first.why) == ("failed", "the server on 10.77.0.1 has died")
    assert "--output-format=json+" in first.command
    assert (second.status, second.why) == ("done", None)
    assert command._carry_out(Record.resume(record.folder)) == 0
    repeated, kept = Summary.load(record.folder).cells
    assert (repeated.status, kept) == ("done", second)
    assert not [server.name for server in servers if server.running]


class Leaving(OnPool):
    """A pool that is there so many times, and each time for one cell or for all."""

    def __init__(self, pool: str, starts: int, trouble: str | None = None):
        super().__init__(pool)
        self._starts, self._trouble = iter(range(starts)), trouble

    def __enter__(self) -> Self:
        if next(self._starts, None) is None:
            raise HarnessError("no such luck")
        return super().__enter__()

    def trouble(self) -> str | None:
        return self._trouble


def _run_in(place: OnPool, record: Record, watcher: Watcher | None = None) -> None:
    runner.run_in_place(record, "pool", lambda: place, Engine.built(), watcher or Watcher())


def test_each_combination_warms_up_first_and_counts_for_nothing(
    tmp_path: Path, mount: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one fails that ends nothing."""
    ran = scripted_cells(monkeypatch, "failed")
    record = made_record(tmp_path / "run", "oltp", own_cells("oltp", Scale(True))[:3], repeats=3)
    _run_in(OnPool(mount), record)
    combinations = [f"concurrency{cell.spec.factors['concurrency']}" for cell in ran[:3]]
    assert len({*combinations}) == 3
    assert [cell.id for cell in ran[:3]] == [f"warm-up-{name}" for name in combinations]
    assert {(cell.repeat, cell.spec.options["runtime"]) for cell in ran[:3]} == {(0, "2000ms")}
    assert ran[3:] == record.plan.cells
    assert {cell.spec.options["runtime"] for cell in ran[3:]} == {"4000ms"}
    assert [cell.id for cell in record.cells] == [cell.id for cell in ran[3:]]
    assert len([*(tmp_path / "run/cells").iterdir()]) == 9
    assert "| run | warm-up | each cell for 2 s at most" in report_of(Summary.load(record.folder))


def test_a_cell_has_no_more_tries_than_it_needs(
    tmp_path: Path, mount: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [dataclasses.replace(own_cells("dd", Scale(True, 1))[0], tries=4, warm_up=False)]
    record = made_record(tmp_path / "run", "dd", specs)
    ran = scripted_cells(monkeypatch, "failed", "failed")
    watcher = mock.Mock(spec=Watcher)
    _run_in(OnPool(mount), record, watcher)
    assert watcher.begin.call_count == 1
    assert (ran, [cell.status for cell in record.cells]) == (record.plan.cells * 3, ["done"])


def test_lab_that_does_not_start_again_fails_the_rest(tmp_path: Path, mount: str) -> None:
    specs = [spec for spec in own_cells("dd", Scale(True, 0.2)) if spec.factors["streams"] == 1]
    record = made_record(tmp_path / "run", "dd", specs)
    _run_in(Leaving(mount, 1, "gone"), record)
    assert [(cell.status, cell.why) for cell in record.cells] == [
        ("failed", "in its warm-up: gone"),
        ("failed", "pool did not start again: no such luck"),
    ]


def test_a_file_that_an_earlier_cell_left_shorter_is_laid_out(tmp_path: Path, mount: str) -> None:
    """A cell of writes that did not come far in its time."""
    file = Path(mount) / "nfsmulti-dd.0"
    file.write_bytes(bytes(8192))
    specs = [spec for spec in own_cells("dd", Scale(True, 0.2)) if spec.files.keys() == {file.name}]
    cell = run_one(made_record(tmp_path / "run", "dd", specs), OnPool(mount))
    assert cell.status == "done", cell.why
    assert file.stat().st_size == 1 << 20


def test_a_labs_files_are_written_where_they_are_too_short(tmp_path: Path) -> None:
    """With data, not holes."""
    for name, size in (("long", 9), ("short", 3)):
        (tmp_path / name).write_bytes(b"x" * size)
    paths.write_files(tmp_path, {"long": 5, "short": 5, "new": (1 << 20) + 2})
    assert (tmp_path / "long").read_bytes() == b"x" * 9
    assert (tmp_path / "short").read_bytes() == bytes(range(5))
    assert (tmp_path / "new").read_bytes() == bytes(range(256)) * 4096 + bytes(range(2))


def test_a_runs_bar_moves_with_the_seconds_of_its_cells(tmp_path: Path) -> None:
    """A cell that ends early moves it as far, and one that takes longer no further."""
    record = made_record(tmp_path / "run", "dd", own_cells("dd", Scale(True, 2))[:2])
    one, two = record.plan.cells
    bar = Meter(Console(quiet=True), [one, two], 2, set(), lambda cell: cell.id)
    (task,) = bar.tasks
    found = [task.completed]
    bar.begin(one)
    bar.tick(1.5, None)
    found.append(task.completed)
    bar.over()
    found.append(task.completed)
    bar.begin(two)
    for seconds in (1, 9):
        bar.tick(seconds, None)
        found.append(task.completed)
    assert found == [0, 1.5, 3, 4, 6]  # fio's start and end take a second
    assert task.total == expected_seconds([one, two], set()) > 6


def test_place_that_does_not_start_leaves_the_others_and_a_report(
    tmp_path: Path, mount: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lab(config: LabConfig) -> OnPool:
        return Leaving(mount, 0 if config.limits.per_address else 9)

    monkeypatch.setattr(runner, "InLab", lab)
    monkeypatch.setattr(command, "_out", QUIET)
    specs = SCENARIOS["dd"].cells(Scale(True, 0.2))
    some = [spec for spec in specs if spec.factors["streams"] == 1]
    record = made_record(tmp_path / "run", "dd", some)
    assert record.plan.places == ["capped", "uncapped"]
    every = runner.expected(record)
    record.fail(record.waiting("capped")[0], "no room")
    assert runner.expected(record) == every > 0  # it is to run again
    record.end()  # which does not hold any more once that cell is to run again
    assert command._carry_out(record) == 1
    assert "no such luck" in capsys.readouterr().err
    after = Summary.load(record.folder)
    assert {(c.factors["client"], c.status) for c in after.cells} == {
        ("capped", "waiting"),
        ("uncapped", "done"),
    }
    assert not after.ended
    assert (record.folder / "report.md").exists()


def test_a_report_that_fails_leaves_the_figures(
    tmp_path: Path, mount: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(folder: Path) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("nfsmulti.report.pages.write", broken)
    monkeypatch.setattr(command, "_out", QUIET)
    cells = ordered(own_cells("dd", Scale(True, 0.2))[:1], 1, seed=1)
    plan = Plan(scenario="dd", quick=True, started="", command="", seed=1, pool=mount, cells=cells)
    record = Record.begin(tmp_path / "dd", plan, {})
    assert command._carry_out(record) == 1
    assert [cell.status for cell in Summary.load(record.folder).cells] == ["done"]
    assert "no report: ZeroDivisionError()" in capsys.readouterr().err


def test_a_guest_has_time_for_all_cells_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many cells of one length have twice the time, but for what a boot takes."""
    found: list[float] = []

    def ended(_: object, config: GuestConfig, **__: object) -> int:
        found.append(config.timeout)
        raise HarnessError("no boot")

    monkeypatch.setattr(runner, "run_in_guest", ended)
    cells = SCENARIOS["randread"].cells(Scale(True, 100))[:1]
    for count in (1, 2, 3):
        record = made_record(tmp_path / str(count), "randread", cells, repeats=count)
        with pytest.raises(HarnessError, match="no boot"):
            run_in_guests(record, "guest", GuestPlace(), Watcher())
    one, two, three = found
    assert three - two == two - one > 100  # s: a cell's I/O alone takes as long


@pytest.mark.full
@pytest.mark.timeout(1800)  # a boot
def test_guest_that_dies_fails_its_cell_and_the_next_boot_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if inside():
        pytest.skip("a guest has no guests")
    transport = SCENARIOS["randread"].cells(Scale(True, 2))[:2]
    record = made_record(tmp_path / "run", "randread", transport)

    def dies(*_: object, stdout: IO[bytes], **__: object) -> int:
        begun = {"begin": warm_ups(record.waiting())[0].id}
        stdout.write(f"{json.dumps(begun)}\n".encode())
        raise HarnessError("the guest ended before the command")

    boots: Iterator[Callable[..., int]] = iter([dies, run_in_guest])
    monkeypatch.setattr(runner, "run_in_guest", lambda *args, **kw: next(boots)(*args, **kw))
    with or_skip():
        run_in_guests(record, "guest", GuestPlace(), Watcher())
    first, second = Summary.load(record.folder).cells
    assert first.status == "failed", first
    assert first.why == "the guest ended before the command"
    assert second.status == "done", second.why
    assert second.read is not None
    assert len(second.jobs) == 4
    begins = (record.folder / second.folder / "cpu.begin").read_text().splitlines()
    assert len(begins) == 4
    environment = json.loads((record.folder / "environment.json").read_text())
    assert "nfsd" in environment["guest"]["servers"][0]
    assert (record.folder / second.folder / "fio.json").exists()


@pytest.mark.kernel_lab
def test_limited_mounts_are_connections_of_their_own(tmp_path: Path) -> None:
    scenario = SCENARIOS["fsperf"]
    place = scenario.places["guest"]
    assert isinstance(place, GuestPlace)
    # fio logs bandwidth as I/Os complete, which may take long in an emulated guest.
    specs = [spec for spec in scenario.cells(Scale(True, 8)) if spec.place == "guest"]
    four = [s for s in specs if s.factors["paths"] == 4 and s.factors["spread"] == "roundrobin"]
    record = made_record(tmp_path / "run", "fsperf", four[-1:])
    (planned,) = record.waiting()
    with InGuest(place) as serving:
        cell = run_cell(planned, serving, Engine.built(), record.folder, lambda *_: None)
    assert cell.status == "done", cell.why
    assert len(cell.paths) == 4
    assert cell.jain is not None
    assert cell.jain > 0.9
    assert cell.over_time
    assert (record.folder / cell.folder / "stats.jsonl").exists()
    peers = run(["ss", "-Htn", "state", "established", "sport = 2049"], timeout=120).stdout
    clients = {line.split()[3].rpartition(":")[0].rpartition(":")[2] for line in peers.splitlines()}
    assert {f"10.77.0.{number}" for number in range(101, 105)} <= {c.strip("[]") for c in clients}


def test_output_of_the_guest_may_come_in_pieces(tmp_path: Path) -> None:
    watcher = mock.Mock(spec=Watcher)
    specs = SCENARIOS["randread"].cells(Scale(True, 1))[:1]
    record = made_record(tmp_path / "run", "randread", specs)
    (cell,) = record.waiting()
    stream = ProgressStream(record, [cell], watcher)
    now: dict[str, Any] = {"paths": {"p": {"ops": 1}}, "per_s": {}}
    ticked = json.dumps({"tick": 1.5, "now": now})
    said = f'{{"begin": "{cell.id}"}}\n{ticked}\n{{"end": "{cell.id}"}}\n'.encode()
    for byte in said[:30]:
        stream.write(bytes([byte]))
    assert stream.under_way == cell
    guests = Record.resume(record.folder)  # which writes into the folder of the run
    done = dataclasses.replace(waiting_cell(cell), status="done")
    guests.set(done)
    stream.write(said[30:])
    assert stream.under_way is None
    events = [mock.call.begin(cell), mock.call.tick(1.5, Live(**now)), mock.call.end(done)]
    assert watcher.method_calls == events


def test_cell_that_moved_data_the_other_way_fails(tmp_path: Path, mount: str) -> None:
    spec = own_cells("dd", Scale(True, 0.2))[0]
    assert spec.factors["direction"] == "write"
    other = dataclasses.replace(spec, options={**spec.options, "rw": "rw"})
    cell = run_one(made_record(tmp_path / "run", "dd", [other]), OnPool(mount))
    assert cell.status == "failed"
    assert cell.why == "fio did read in a cell whose direction is write"


def test_run_goes_on_with_the_engine_it_began_with(tmp_path: Path, mount: str) -> None:
    request = start.Request(pool=mount, quick=True, repeat=1)
    folder = begun(tmp_path, request, "randread").folder
    start.resumed(tmp_path, folder, "randread")
    file = folder / "environment.json"
    then = json.loads(file.read_text())
    then["machine"]["engine_sha256"] = "0123"
    file.write_text(json.dumps(then))
    with pytest.raises(HarnessError, match="began with another engine: 0123, here it is"):
        start.resumed(tmp_path, folder, "randread")
    file.write_text("{")
    with pytest.raises(HarnessError, match=r"environment\.json: no JSON: Expecting"):
        start.resumed(tmp_path, folder, "randread")


@pytest.mark.parametrize("part", ["cells", "cells/{cell}"])
def test_run_whose_cells_lead_elsewhere_is_not_taken_up(tmp_path: Path, part: str) -> None:
    record = made_record(tmp_path / "run", "dd", own_cells("dd", Scale(True, 1))[:1])
    folder = record.folder / part.format(cell=record.cells[0].id)
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(tmp_path)
    with pytest.raises(HarnessError, match=f"{folder.name} is a link, and a run's own are none"):
        Record.resume(record.folder)


def test_link_whose_driver_fails_has_no_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(psutil, "net_if_stats", fails)
    write_place(tmp_path, "pool", OnPool("/mnt"))
    links = json.loads((tmp_path / "environment.json").read_text())["pool"]["links"]
    assert "lo" in {link["name"] for link in links}
    assert {link["speed_mbit"] for link in links} == {None}


def test_sysctls_are_those_of_the_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network's: of where the clients of a place are, and not of this process."""
    needs_privileges()
    own = 'echo 4096 5000 6000 >/proc/sys/net/ipv4/tcp_rmem; exec "$@"'
    place = OnPool("/mnt")
    monkeypatch.setattr(place, "enter", ["unshare", "--net", "sh", "-ec", own, "sh"])
    write_place(tmp_path, "pool", place)
    told = json.loads((tmp_path / "environment.json").read_text())["pool"]
    assert told["sysctls"]["net.ipv4.tcp_rmem"].split() == ["4096", "5000", "6000"]


def test_command_of_a_run_gives_its_order_again(tmp_path: Path, mount: str) -> None:
    asked = start.Request(pool=mount, quick=True, command="./nfsmulti run dd")
    plan = begun(tmp_path, asked, "dd").plan
    assert plan.command == f"./nfsmulti run dd --seed {plan.seed}"
    given = dataclasses.replace(asked, seed=0, command="./nfsmulti run dd --seed 0", label="b")
    again = begun(tmp_path, given, "dd").plan
    assert (again.command, again.seed) == (given.command, 0)


def test_cell_whose_files_cannot_be_kept_fails(
    tmp_path: Path, mount: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier try has left is no hindrance."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    place = OnPool(mount)
    monkeypatch.setattr(place, "scratch", tmp_path / "scratch")
    record = made_record(tmp_path / "run", "dd", own_cells("dd", Scale(True, 0.2))[:1])
    (planned,) = record.waiting()
    for left in (record.folder / "cells" / planned.id, tmp_path / "scratch" / planned.id):
        left.mkdir(parents=True)
        (left / "stats.jsonl").write_text("broken\n")
    cell = run_one(record, place)
    assert (cell.status, cell.why) == ("done", None)
    assert (record.folder / cell.folder / "fio.json").exists()
    monkeypatch.setattr("nfsmulti.run.cell.shutil.copytree", full)
    cell = run_one(record, place)
    assert cell.status == "failed"
    assert "No space left on device" in (cell.why or "")


def test_two_runs_of_one_folder_exclude_each_other(tmp_path: Path) -> None:
    record = made_record(tmp_path / "run", "dd", own_cells("dd", Scale(True, 0.2)))
    other = Record.resume(record.folder)
    with (
        record.claimed(),
        pytest.raises(HarnessError, match="is being run by another process"),
        other.claimed(),
    ):
        pass
    record.skip(record.plan.cells[0], "it is done")
    with other.claimed():
        assert other.cells[0].why == "it is done"
