# SPDX-License-Identifier: GPL-2.0-only
"""bench stall: what users see, by calculation; its page; and a run of it that is short."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import call_harness

from nfsmulti.bench import command
from nfsmulti.bench.stall import CASES, FIOS, OURS, Case, ms, spec, users_see
from nfsmulti.report import pages
from nfsmulti.summary import Cell, Figures, Summary

_MS = 10**6  # ns


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
    waits = users_see(service_ns, depth)
    for percent, known in percentiles.items():
        assert ms(waits, percent) == pytest.approx(known, rel=0.001, abs=0.5 if known > 1 else None)


def test_all_are_alike_but_the_clock() -> None:
    """And no repeat has the schedule of another."""
    ours, fios = (spec(Case(clock=clock), 20.0).options for clock in (OURS, FIOS))
    differ = {name for name in {*ours, *fios} if ours.get(name) != fios.get(name)}
    assert differ == {"arrival_rate", "arrival_process", "rate_iops", "rate_process"}
    assert (ours["lat_percentiles"], ours["randrepeat"]) == (1, 0)


# --- its page ---


def _cell(case: Case, p99_ms: int, p95_ms: int = 250) -> Cell:
    """Make up a cell of 1,000 I/Os, whose clat is 50 us."""
    response = {"50000": 900, str(p95_ms * _MS): 60, str(p99_ms * _MS): 40}
    bins = {"50000": 990, str(300 * _MS): 10}  # the latter in a stall
    done = Figures(1000, 4096, 1.0, 1990.0, 4096.0, 1, 1, 1, 1, 1, bins, response)
    return Cell(case.name, {**case.factors}, 1, "done", "", f"fio --{case.clock}=2000", read=done)


def _page(folder: Path, found: list[Cell]) -> str:
    """Save such a run, and give what a terminal shows of it, in one line."""
    place = {"kind": "loopback", "pool": "nfs-sink --stall 500:5000"}
    Summary("stall", "", "", "", False, "./nfsmulti bench stall", place, found).save(folder)
    return " ".join(pages.write(folder)[1].split())


def test_every_cell_has_lat_beside_clat(tmp_path: Path) -> None:
    _page(tmp_path, [_cell(Case(), 450), _cell(Case(clock=FIOS), 1)])
    every = (tmp_path / "report.md").read_text().partition("## Every cell")[2]
    heading, _, *rows = (line.split(" | ") for line in every.strip().splitlines()[:4])
    at = heading.index("lat p99 ms")
    assert [row[at] for row in rows] == ["450", "250"]
    assert [row[heading.index("p50 ms")] for row in rows] == ["0.0500", "0.0500"]


def test_the_answer_is_the_three_p99(tmp_path: Path) -> None:
    found = [_cell(CASES[0], 451, 255), _cell(CASES[1], 451), _cell(CASES[2], 31, 5)]
    said = _page(tmp_path, found)
    headline = "450 ms at p99 is what users see (calculated); fio's rate_iops says 31.0 ms"
    assert said.startswith(f"{headline}, arrival_rate 451 ms.")
    assert "is off" not in said
    text = (tmp_path / "report.md").read_text()
    rows = ["what users see, d64 | 0.050", "arrival_rate poisson d64 | 0.050", "rate_iops"]
    places = [text.index(f"\n| {row}") for row in rows]
    assert places == sorted(places)
    assert re.search(r"what users see, d64 \| 0\.0500 \| 250 \| 450 \| 495 \| 2,000 \|", text)
    assert re.search(r"rate_iops poisson d64 \| 0\.0500 \| 5\.00 \| 31\.0 .*\| 1,990 \|", text)
    assert (tmp_path / "plots/percentiles.svg").exists()


def test_a_clock_that_is_off_is_told(tmp_path: Path) -> None:
    """By more than 5 %, of its percentiles the worst; fio's rate is off by its nature."""
    found = [_cell(CASES[0], 430), _cell(CASES[1], 495), _cell(CASES[2], 31, 5)]
    said = _page(tmp_path, found)
    assert "⚠ arrival_rate is off by up to 10 % (p99, fixed d64): rerun" in said


def test_one_clock_alone_compares_nothing(tmp_path: Path) -> None:
    said = _page(tmp_path, [_cell(case, 451) for case in CASES[:2]])
    assert said.startswith("Without arrival_rate poisson d64 and rate_iops poisson d64 nothing")
    assert "| arrival_rate poisson d64 |" in (tmp_path / "report.md").read_text()


# --- a run ---


def test_the_sink_stalls_and_sleeps_as_servers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(command, "measure", lambda *words, **_: given.extend(words))
    call_harness("bench", "stall").check()
    *_, place, about = given
    assert about["pool"] == "nfs-sink --stall 500:5000"
    assert "which sleeps between calls" in place.servers()[0]


@pytest.mark.full
def test_a_run_leaves_its_report(tmp_path: Path) -> None:
    """Users that ask in a stall are in the arrival clock's percentiles, whatever else went on."""
    words = ["--quick", "--repeat", "1", "--case", "* poisson d64", "--results", str(tmp_path)]
    done = call_harness("bench", "stall", *words).check()
    said = r"^\d+ ms at p99 is what users see \(calculated\); fio's rate_iops says "
    assert re.search(said, done.stdout, re.MULTILINE)
    data = json.loads((tmp_path / "summary.json").read_text())
    assert data["place"]["pool"] == "nfs-sink --stall 500:5000"
    found = {cell["factors"]["clock"]: cell["read"] for cell in data["cells"]}
    assert found.keys() == {OURS, FIOS}
    for read in found.values():
        assert sum(read["response"].values()) == sum(read["bins"].values()) == read["ops"]
    assert ms({int(ns): n for ns, n in found[OURS]["response"].items()}, 99) > 400
    assert (tmp_path / "plots/percentiles.png").read_bytes().startswith(b"\x89PNG")
