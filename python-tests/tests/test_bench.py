# SPDX-License-Identifier: GPL-2.0-only
"""bench: its cases, its page, and runs of it that are short."""

import dataclasses
import functools
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import call_harness
from engine_helpers import anybody_names, eventually
from made_runs import changed, only, part, reference
from rich.console import Console

from nfsmulti.bench import command, cost, stall
from nfsmulti.bench.command import OnSink, choose, choose_cores
from nfsmulti.bench.cost import (
    CLIENT_COST,
    DATA,
    IO_URING,
    OTHER,
    OURS,
    PEER,
    SINGLE,
    V3,
    YARDSTICK,
    Case,
    Timing,
)
from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.processes import Completed, find
from nfsmulti.report import pages
from nfsmulti.report.answer import Answer
from nfsmulti.report.told import tell
from nfsmulti.run.cell import run_cell
from nfsmulti.run.plan import PlannedCell
from nfsmulti.scenario import CellSpec
from nfsmulti.screen import laid_out
from nfsmulti.stats import Ratio
from nfsmulti.summary import Cell, Summary
from nfsmulti.texts import Table

# --- cases ---


def test_cases_have_names_by_which_they_are_chosen() -> None:
    names, words = ([getattr(case, one) for case in CLIENT_COST] for one in ("name", "words"))
    assert len({*names}) == len({*words}) == len(CLIENT_COST)
    assert call_harness("bench", "client-cost", "--list").check().stdout.splitlines() == names
    assert choose(CLIENT_COST, []) == list(CLIENT_COST)
    chosen = [case.name for case in choose(CLIENT_COST, ["write ?k d*", "read 1m d8"])]
    assert chosen == ["write 4k d32", "write 8k d8", "read 1m d8", "write 4k d32 v4.1"]
    with pytest.raises(HarnessError, match="'write 5k' matches no case"):
        choose(CLIENT_COST, ["write 5k"])


def _engines(name: str, **more: Path) -> dict[str, CellSpec]:
    engines = {YARDSTICK: Path("y.so")} | more
    (case,) = (one for one in CLIENT_COST if one.name == name)
    found = cost.client_cost(case, cost.QUICK, Path("/peer/fio"), engines)
    return {str(spec.factors["engine"]): spec for spec in found}


def test_who_is_held_beside_our_engine_in_which_case() -> None:
    """One connection beside many, version 3 beside 4.1, and reads beside a metadata operation."""
    assert [*_engines("randread 4k d32")] == [OURS, PEER, YARDSTICK]
    many = _engines("randread 4k d256 c64")
    assert [*many] == [OURS, PEER, SINGLE]
    assert (many[OURS].options["nconnect"], many[OURS].options["iodepth"]) == (64, 256)
    assert (many[SINGLE].options["iodepth"], "nconnect" in many[SINGLE].options) == (256, False)
    peer = many[PEER]
    assert (peer.fio, peer.options["numjobs"], peer.options["iodepth"]) == ("/peer/fio", 64, 4)
    assert [*_engines("write 64k d64 c64")] == [OURS, PEER]
    later = _engines("randread 4k d32 v4.1")
    assert {name: spec.query for name, spec in later.items()} == {OURS: "version=4.1", V3: ""}
    entries = _engines("getattr d32")
    assert {name: spec.options.get("meta_read") for name, spec in entries.items()} == {
        OURS: "getattr",
        DATA: None,
    }
    assert entries[OURS].options["size"] == 262144


def test_two_builds_run_the_same_and_no_other_engine_does() -> None:
    for name in ("randread 4k d32", "randread 4k d256 c64", "getattr d32"):
        found = _engines(name, **{OTHER: Path("/old.so")})
        assert [*found] == [OURS, OTHER]
        ours, other = found.values()
        options = {**ours.options, "ioengine": "external:/old.so"}
        same = dataclasses.replace(ours, factors=other.factors, options=options)
        assert (other, ours.options.get("ioengine")) == (same, None)


# --- its page ---


def test_a_bench_mount_of_an_earlier_version_has_its_page(tmp_path: Path) -> None:
    run, names = reference("client-cost"), {OURS: OURS, PEER: IO_URING}
    found = [
        dataclasses.replace(cell, factors={**cell.factors, "engine": names[engine]})
        for cell in run.cells
        if cell.factors["workload"] == "4k writes, depth 32"
        if (engine := str(cell.factors["engine"])) in names
    ]
    dataclasses.replace(run, scenario="mount", cells=found).save(tmp_path)
    said = " ".join(pages.write(tmp_path)[1].split())
    assert re.match(r"\d+ % of the CPU per operation of fio's io_uring engine, 4k writes", said)


def test_less_cpu_is_better_and_fewer_iops_are_worse() -> None:
    half, unsure = Ratio(0.5, 0.4, 0.6), Ratio(0.5, 0.2, 1.1)
    said = [
        cost._says(one, more_is_better=iops) for one in (half, unsure) for iops in (False, True)
    ]
    assert said == ["better", "worse", "", ""]


# --- tables ---


def test_words_of_a_table_wrap_and_are_not_cut_and_figures_stay_in_their_line() -> None:
    table = Table(["cell", "IOPS"], [["a word " * 20, "1,000,000 ± 9,000,000"]], text_wraps=True)
    out = Console(width=40)
    with out.capture() as captured:
        out.print(laid_out(table))
    assert captured.get().count("word") == 20
    assert "1,000,000 ± 9,000,000" in captured.get()


# --- parts ---


def test_client_and_server_have_a_core_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardware threads of one core are none."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 2, 3})
    cores = {1: "1-2", 2: "1-2", 3: "3"}
    monkeypatch.setattr("nfsmulti.bench.command._core", cores.__getitem__)
    assert choose_cores() == (1, 3)
    cores[3] = "1-2"
    with pytest.raises(HarnessError, match="there is only one"):
        choose_cores()


# --- runs ---


def _run(spec: CellSpec, folder: Path) -> Cell:
    with OnSink(choose_cores()) as place:
        planned = PlannedCell("one", 1, 1, spec)
        return run_cell(planned, place, Engine.built(), folder, lambda *_: None)


def test_any_other_engine_is_a_yardstick(tmp_path: Path) -> None:
    """It is told the server's port alone: this one, which would need a pool, says so."""
    library = tmp_path / "y.so"
    library.write_bytes(
        Engine.built().library.read_bytes().replace(b"\0stats_file\0", b"\0other_file\0")
    )
    added = dict([command.other_engine(library)])
    assert [*added] == [YARDSTICK]
    specs = cost.client_cost(Case("randread", "4k", 8), Timing(0.3, 0.0), None, added)
    (spec,) = (one for one in specs if one.factors["engine"] == YARDSTICK)
    found = _run(spec, tmp_path)
    assert f"--ioengine=external:{library} " in found.command
    assert re.search(r" --port=\d+ ", found.command)
    assert "no pool: give pool=" in (found.why or "")


def test_a_peer_is_built_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fio of the distribution that has an nfs engine is taken as it is."""
    answers = {"sh": f"source: in {tmp_path}\n", "configure": "NFS engine                    yes\n"}
    ran: list[tuple[str, Path | None]] = []

    def run(argv: Sequence[str], *, timeout: float, cwd: Path | None = None) -> Completed:
        name = Path(argv[0]).name
        ran.append((name, cwd))
        return Completed([*argv], 0, answers.get(name, ""), "")

    monkeypatch.setattr(command, "run", run)
    assert command.peer_fio(print) == tmp_path / "fio"
    assert ran[-3:] == [("sh", None), ("configure", tmp_path), ("make", tmp_path)]
    answers["fio"] = "\tnetsplice\n\tnfs\n"
    assert str(command.peer_fio(print)) == find("fio")


def test_what_is_no_engine_for_this_fio_ends_it(tmp_path: Path) -> None:
    """Before anything runs, and before fio's source is fetched for the peer."""
    (tmp_path / "no.so").write_text("no library\n")
    content = Engine.built().library.read_bytes()
    (tmp_path / "old.so").write_bytes(re.sub(rb"\0fio-3\.\d", b"\0fio-2.9", content))
    results = tmp_path / "results"
    for name, why in (
        ("missing.so", "there is no such file"),
        ("no.so", "fio does not load it"),
        ("old.so", "built for fio-2.9"),
    ):
        words = ["--results", str(results), "--engine", str(tmp_path / name)]
        with pytest.raises(HarnessError, match=f"--engine .*/{name}: {why}[^\n]*"):
            call_harness("bench", "client-cost", *words)
    assert not results.exists()


def test_a_bench_of_two_builds_leaves_its_report(tmp_path: Path) -> None:
    """Of data, and of a metadata operation, which has no bytes."""
    library = tmp_path / "libother.so"
    shutil.copy(Engine.built().library, library)
    results = tmp_path / "results"
    words = ["--quick", "--repeat=1", "--case=randread 4k d32 v4.1", "--case=getattr d32"]
    words += [f"--results={results}", f"--engine={library}"]
    call_harness("bench", "client-cost", *words).check()
    done = Summary.load(results).done
    assert Counter(cell.factors["engine"] for cell in done) == {OURS: 2, OTHER: 2}
    for cell in done:
        data = "version=4.1" in cell.command
        assert (f"external:{library}" in cell.command) == (cell.factors["engine"] == OTHER)
        assert ("--meta_read=getattr" in cell.command) != data
        assert "_log" not in cell.command  # whose cost would be ours
        assert cell.read
        assert cell.read.iops
        expected = cell.read.iops * 4096 * data
        assert cell.read.bytes_per_s == pytest.approx(expected, rel=0.01)
        assert 0 < (cell.calls_per_op or 0) < 10
        assert cell.cpu_s > 0
        assert cell.server
        assert 0 < (cell.server.cpu_percent or 0) <= 100
    digest = hashlib.sha256(library.read_bytes()).hexdigest()[:12]
    text = (results / "report.md").read_text()
    assert f"libother.so (sha256 {digest})" in text
    assert re.search(r"^taskset .*fio .*--ioengine=\S+ .*--meta_read=getattr", text, re.MULTILINE)
    assert re.search(r"^\| machine \| processor \| \S", text, re.MULTILINE)
    assert "nfs-sink, which polls for calls: the client pays for no wake-ups" in text
    assert (results / "plots/cpu.png").read_bytes().startswith(b"\x89PNG")


def test_a_bench_of_this_engine_alone_holds_it_beside_a_reads_cost(tmp_path: Path) -> None:
    words = ["--quick", "--repeat=1", "--case=getattr d32", f"--results={tmp_path}"]
    call_harness("bench", "client-cost", *words).check()
    assert {cell.factors["engine"] for cell in Summary.load(tmp_path).done} == {OURS, DATA}
    text = (tmp_path / "report.md").read_text()
    assert re.search(r"^\d+ % of the CPU per operation of a READ's, getattr", text, re.MULTILINE)


def test_jobs_that_hang_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have then not run their time, unless they hang at their end.

    What fio needs to start is not theirs: killed then, they hang fio itself.
    """
    slow = tmp_path / "slow-fio"
    slow.write_text('#!/bin/sh\nsleep 2\nexec fio "$@"\n')
    slow.chmod(0o755)
    options: cost.Options = {
        "ioengine": "null", "size": "1g", "time_based": 1, "runtime": 60, "thinktime": "100ms",
    }  # fmt: skip
    hanging = CellSpec(
        {"engine": "null"}, "", "", options, 0.5, client="other", fio=str(slow), patience=1.0
    )
    found = _run(hanging, tmp_path)
    assert found.status == "failed"
    assert (found.why or "").startswith("fio ran for 0 s only: fio: ")
    assert "got signal=9" in (found.why or "")
    eventually(lambda: not anybody_names(str(tmp_path)))
    monkeypatch.chdir(tmp_path)  # where fio leaves a file of what that command says
    ends = {**options, "runtime": 1, "exec_postrun": "sleep 9"}
    late = dataclasses.replace(hanging, options=ends, fio="fio")
    assert _run(late, tmp_path / "late").status == "done"


# --- a server that stalls ---


@pytest.mark.parametrize(
    ("depth", "service_ns", "percentiles"),
    [
        # A tenth of all I/O waits for what is left of 500 ms.
        (64, 1000, {50: 0.001, 89.9: 0.001, 95: 250, 99: 450, 99.9: 495}),
        # One after the other: with t ms left, 2 (500 - t) were due before, of 0.05 ms each.
        (1, 50_000, {50: 0.05, 95: 275, 99: 455, 99.9: 495.5}),
    ],
)
def test_what_users_see(depth: int, service_ns: int, percentiles: dict[float, float]) -> None:
    waits = stall.users_see(service_ns, depth)
    for percent, known in percentiles.items():
        assert stall.ms(waits, percent) == pytest.approx(
            known, rel=0.001, abs=0.5 if known > 1 else None
        )


def test_all_are_alike_but_the_clock() -> None:
    """And no repeat has the schedule of another."""
    clocks = (stall.OURS, stall.FIOS)
    ours, fios = (stall.spec(stall.Case(clock=one), 20.0).options for one in clocks)
    differ = {name for name in {*ours, *fios} if ours.get(name) != fios.get(name)}
    assert differ == {"arrival_rate", "arrival_process", "rate_iops", "rate_process"}
    assert (ours["lat_percentiles"], ours["randrepeat"]) == (1, 0)


def test_a_clock_that_is_off_is_told() -> None:
    """By more than 5 %, of its percentiles the worst; one clock alone compares nothing."""

    def told(run: Summary) -> Answer:
        return tell(pages.EVERY_STORY["stall"], run).answer

    for times, said in (
        (1.04, []),
        (1.1, ["arrival_rate is off by up to 10 % (p99, fixed d64): rerun when idle."]),
    ):
        off = changed(
            reference("stall"),
            lambda cell: cell.factors["process"] == "fixed" and cell.factors["iodepth"] == 64,
            read=part("read", response=functools.partial(_slower, times)),
        )
        assert told(off).caveats == said
    alone = only(reference("stall"), lambda cell: cell.factors["clock"] == stall.OURS)
    without = "Without arrival_rate poisson d64 and rate_iops poisson d64 nothing can be compared."
    assert told(alone).headline == without


def _slower(times: float, cell: Cell) -> dict[str, int]:
    assert cell.read
    return {str(round(times * int(ns))): count for ns, count in cell.read.response.items()}


def test_the_sink_stalls_and_sleeps_as_servers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(command, "measure", lambda *words, **_: given.extend(words))
    call_harness("bench", "stall").check()
    *_, place, about = given
    assert about["pool"] == "nfs-sink --stall 500:5000"
    assert "which sleeps between calls" in place.servers()[0]


@pytest.mark.full
def test_a_stalling_run_leaves_its_report(tmp_path: Path) -> None:
    """Users that ask in a stall are in the arrival clock's percentiles, whatever else went on."""
    words = ["--quick", "--repeat", "1", "--case", "* poisson d64", "--results", str(tmp_path)]
    done = call_harness("bench", "stall", *words).check()
    said = r"^\d+ ms at p99 is what users see \(calculated\); fio's rate_iops says "
    assert re.search(said, done.stdout, re.MULTILINE)
    data = json.loads((tmp_path / "summary.json").read_text())
    assert data["place"]["pool"] == "nfs-sink --stall 500:5000"
    found = {cell["factors"]["clock"]: cell["read"] for cell in data["cells"]}
    assert found.keys() == {stall.OURS, stall.FIOS}
    for read in found.values():
        assert sum(read["response"].values()) == sum(read["bins"].values()) == read["ops"]
    assert stall.ms({int(ns): n for ns, n in found[stall.OURS]["response"].items()}, 99) > 400
    assert (tmp_path / "plots/percentiles.png").read_bytes().startswith(b"\x89PNG")
