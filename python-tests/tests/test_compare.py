# SPDX-License-Identifier: GPL-2.0-only
"""compare: what it prints, how it exits, and that equal runs pass it."""

import dataclasses
import functools
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import made_runs
import pytest
from browser import look
from conftest import call_harness, refusal
from made_runs import block, changed, dd, only, placed

from nfsmulti.kept.compare import Figure, judged, together, trials
from nfsmulti.kept.forms import Exit
from nfsmulti.kept.pairs import Pair, pairs, why_not
from nfsmulti.paths import PYTHON_TESTS, shown
from nfsmulti.processes import Completed, Process
from nfsmulti.report import charts
from nfsmulti.report.answer import MOST_ROWS
from nfsmulti.run.start import Request, planned
from nfsmulti.scenario import Choice
from nfsmulti.summary import Cell, Figures, Status, Summary


@pytest.fixture(autouse=True)
def _blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave plots blank: to draw them takes half of what a comparison does."""
    monkeypatch.setattr(charts, "svg_of", lambda *_: "<svg></svg>")


def _compare(tmp_path: Path, a: Summary, b: Summary, *options: str) -> Completed:
    folders = [made_runs.saved(one, tmp_path / name) for one, name in ((a, "a"), (b, "b"))]
    return call_harness("compare", *map(str, folders), *options)


def _said(done: Completed) -> str:
    return " ".join(done.stdout.split())


def _only(summary: Summary, streams: int) -> Summary:
    """Keep the cells of so many streams."""
    return only(summary, lambda cell: cell.factors["streams"] == streams)


def _mixed(run: Summary, slow: Summary, **factors: str | int) -> Summary:
    """Return a run whose cells with these factors are another run's."""
    cells = [
        two if factors.items() <= one.factors.items() else one
        for one, two in zip(run.cells, slow.cells, strict=True)
    ]
    return dataclasses.replace(run, cells=cells)


def test_a_run_is_equal_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # its page is drawn
    done = _compare(tmp_path, dd(), dd())
    assert done.status == 0
    lines = [line for line in done.stdout.splitlines() if not line.endswith("/compare.html")]
    assert max(map(len, lines)) <= 80
    assert re.search(r"capped, read, 1 stream +14\.\d +14\.\d +1\.00 ±", done.stdout)
    same = "not shown to be worse: nothing is significantly worse by more than 5 %, in 21 tests"
    assert same in _said(done)
    assert done.stdout.count("1.00 ±") == MOST_ROWS
    assert "10 of 21 rows, those furthest from 1; the page has all" in done.stdout
    assert re.match(
        r"[\d.]+ times A's throughput \(.*\): not shown to be worse\.\n\nA: ", done.stdout
    )
    assert re.search(r"all cells together +\N{EN DASH} +\N{EN DASH} +1\.00 ±", done.stdout)
    assert (tmp_path / "b" / "compare.html").read_text().count("1.00 ±") == MOST_ROWS + 21


_EQUAL: dict[str, tuple[Callable[..., Summary], int]] = {
    "dd": (dd, 12),
    "oltp": (made_runs.oltp, 6),
    "sweep": (functools.partial(made_runs.sweep, lambda _: 100), 4),
}


@functools.cache
def _equal_runs(name: str) -> list[list[Pair]]:
    """Return pairs of runs of one thing, cell by cell."""
    make, count = _EQUAL[name]
    return [pairs(make(seed=2 * n), make(seed=2 * n + 1)) for n in range(1, count + 1)]


@pytest.mark.parametrize("name", _EQUAL)
def test_no_pair_of_equal_runs_is_called_worse(name: str) -> None:
    for found in _equal_runs(name):
        end, lines = judged(trials(found, [Figure.THROUGHPUT, Figure.CPU], 0.05), 0.05)
        assert end is Exit.PASSED, lines


def test_correction_is_what_lets_equal_runs_pass_without_a_threshold() -> None:
    worse, uncorrected = 0, 0
    for found in _equal_runs("dd"):
        rows = trials(found, [Figure.THROUGHPUT], 0)
        worse += judged(rows, 0)[0] is Exit.WORSE
        uncorrected += any((one.ratio.p or 1) < 0.05 for one in rows)
    assert worse <= 1
    assert uncorrected > 2 * worse + 3


def _drifting(rng: random.Random) -> list[Cell]:
    """Make 18 cells, five repeats each: noise of 5 %, and a drift of as much from each to each."""
    found = []
    for repeat in range(1, 6):
        drift = rng.gauss(0, 0.05)
        for number in range(18):
            rate = (1 + number) * math.exp(drift + rng.gauss(0, 0.05))
            found.append(block(repeat, rate, n=number))
    return found


@pytest.mark.full
def test_the_mean_over_cells_that_drift_together_holds_its_level() -> None:
    """Of 1,000 pairs of equal runs, its 95 % interval excludes 1 in about 50.

    Cells taken as independent exclude it in more than 500. Six cells did not get done in B.
    """
    rng, excluded, made = random.Random(14), 0, dd(1)
    for _ in range(1000):
        a, b = _drifting(rng), _drifting(rng)
        b = rng.sample(b, len(b) - 6)
        runs = (dataclasses.replace(made, cells=cells) for cells in (a, b))
        ratio = together(pairs(*runs), Figure.THROUGHPUT)
        assert ratio
        excluded += ratio.spans_one is False
    assert 30 <= excluded <= 70


def test_a_cell_that_ran_once_does_not_tell_how_repeats_differ() -> None:
    once, twice = block(1, 1, n=0), block(1, 1, n=1)
    a, b = (dataclasses.replace(dd(1), cells=[once, twice, block(2, rate, n=1)]) for rate in (1, 4))
    ratio = together(pairs(a, b), Figure.THROUGHPUT)
    assert ratio
    assert ratio.value == pytest.approx(math.sqrt(2))  # 1 of the one cell, and 2 of the other
    repeated = [block(repeat, 1, n=0) for repeat in (1, 2, 3)]
    a, b = (dataclasses.replace(dd(1), cells=[*repeated, block(1, rate, n=1)]) for rate in (1, 4))
    ratio = together(pairs(a, b), Figure.THROUGHPUT)
    assert ratio
    assert ratio.value == pytest.approx(1)  # of the cell that has an interval alone


def test_cells_are_told_in_the_order_of_their_names() -> None:
    """A plan has them in another order in each repeat."""
    made = dd(1)
    cells = [block(1, 1, n=number) for number in (10, 2, 1)]
    found = pairs(*[dataclasses.replace(made, cells=cells)] * 2)
    assert [pair.name for pair in found] == ["n 1", "n 2", "n 10"]


def _changed(summary: Summary, streams: int, repeat: int, status: Status) -> Summary:
    """Let the cells of so many streams wait, or fail, from a repeat on."""
    return changed(
        summary,
        lambda cell: cell.factors["streams"] == streams and cell.repeat >= repeat,
        status=status, read=None, write=None,
    )  # fmt: skip


def _busy(summary: Summary, busy: float, every: int = 1) -> Summary:
    disturbed = {id(cell) for cell in summary.cells[::every]}
    return changed(summary, lambda cell: id(cell) in disturbed, others_busy=busy)


_A, _B = dd(), dd(seed=2)
_ONE = _only(dd(1), 1)
_SLOWER, _MUCH_SLOWER = dd(slower=1.1, seed=2), dd(slower=1.3, seed=2)
_PASSES = r"not shown to be worse: nothing [^:]* in 21 tests$"


def _slowed(factor: int, way: Figures | None) -> Figures:
    assert way
    bins = {str(factor * int(ns)): count for ns, count in way.bins.items()}
    return dataclasses.replace(way, bins=bins)


_MIX = changed(made_runs.oltp(), write=lambda cell: _slowed(100, cell.write))
_SLOW_READS = changed(
    made_runs.oltp(seed=2),
    read=lambda cell: _slowed(2, cell.read),
    write=lambda cell: _slowed(100, cell.write),
)


@pytest.mark.parametrize(
    ("a", "b", "options", "status", "last"),
    [
        (_A, _SLOWER, "", 10, r"worse: all cells together 0\.91 \(0\.\d\d to 0\.9\d\)"),
        (_SLOWER, _A, "", 0, r" better: nothing is [^:]* in 21 tests$"),
        (_A, _SLOWER, "--threshold 15", 0, _PASSES),
        (_A, dd(slower=1.02, seed=2), "", 0, _PASSES),
        (_A, dd(slower=1.02, seed=2), "--threshold 0.5", 10,
         r"worse: each address capped, read, 1 stream 0\.96"),
        # Other figures are judged where asked for: here CPU, which has doubled.
        (_A, changed(_B, cpu_s=lambda cell: 2 * cell.cpu_s), "", 0, _PASSES),
        (_A, changed(_B, cpu_s=lambda cell: 2 * cell.cpu_s), "--judge throughput --judge cpu", 10,
         r"worse: all cells together cpu 2\.0"),
        (_A, changed(_B, cpu_s=0.0), "--judge cpu", 11, r"comparable: no cell has cpu in both$"),
        # So is a mix's p99, by the reads' and the writes': these are a hundred times as slow.
        (_MIX, _SLOW_READS, "", 0, r"nothing is significantly worse"),
        (_MIX, _SLOW_READS, "--judge p99", 10,
         r"worse: all cells together read p99 (1\.9|2\.[01])"),
        # Without intervals there is no verdict.
        (dd(1), dd(1, seed=2), "", 11, r"run with --repeat 3$"),
        (dd(2), dd(2, slower=1.5, seed=2), "", 11, r"run with --repeat 3$"),
        (_A, dd(1, seed=2), "", 11, r"run with --repeat 3$"),
        (dd(1), made_runs.oltp(1), "", 11,
         r"nfsmulti: not comparable: their scenarios differ: dd and oltp"),
        (dd(1), dd(1), "--allow kernl", 11,
         r"nfsmulti: not comparable: --allow 'kernl': the runs have no such condition: did you mean"
         r" kernel\?"),
        (_changed(_ONE, 1, 1, "failed"), _ONE, "", 11, r"not comparable: no cell is done in A$"),
        # What B has still to run counts where A ran it.
        (_A, _changed(_A, 5, 1, "waiting"), "", 11, r"B is not finished: 12 cells .* --resume"),
        (_A, _changed(_A, 5, 3, "waiting"), "", 11, r"B is not finished: 4 cells .* --resume"),
        (_A, _changed(dd(4), 5, 4, "waiting"), "", 0, _PASSES),
        # One slow cell is found among others, which are not worse together.
        (dd(5), _mixed(dd(5, seed=2), dd(5, slower=1.5, seed=3),
                       client="capped", direction="write", streams=3), "", 10,
         r" worse: each address capped, write, 3 streams 0\.6[^:]*$"),
        # A busy machine is not taken for a regression: in a fourth of its cells, or more.
        (_A, _busy(_MUCH_SLOWER, 0.97, 4), "", 12,
         r"by the figures alone: worse: all cells .* machine of B 97 % busy: rerun it when idle$"),
        (_A, _busy(_MUCH_SLOWER, 0.97, 4), "--allow busy", 10, r"worse: all cells together 0\.77"),
        (_A, _busy(_MUCH_SLOWER, 0.97, 5), "", 10, r"worse: all cells together 0\.77"),
        (_A, _busy(_MUCH_SLOWER, 0.09), "", 10, r"worse: all cells together 0\.77"),
    ],
)  # fmt: skip
def test_what_a_comparison_says_and_how_it_exits(
    tmp_path: Path, a: Summary, b: Summary, options: str, status: int, last: str
) -> None:
    done = _compare(tmp_path, a, b, *options.split())
    said = " ".join((done.stdout or done.stderr).split())
    assert (done.status, re.search(last, said) is not None) == (status, True), said
    assert ("worse: all cells" in said) == ("worse: all cells" in last)
    assert (done.stdout == "") == said.startswith("nfsmulti:")


@pytest.mark.parametrize(("repeat", "failed"), [(1, 3), (3, 1)])
def test_a_cell_or_a_repeat_that_fails_is_worse(tmp_path: Path, repeat: int, failed: int) -> None:
    a = dd()
    b = _changed(a, 5, repeat, "failed")
    done = _compare(tmp_path, a, b)
    assert done.status == 10
    worse = "worse: each address capped, read, 5 streams: "
    assert f"{worse}{failed} of its 3 repeats failed in B" in done.stdout
    assert done.stdout.endswith("worse: 4 cells failed more often in B than in A\n")
    alone = "4 combinations of factors ran in only one of the two runs."
    assert (alone in done.stdout) == (failed == 3)
    assert _compare(tmp_path, b, b if failed == 1 else a).status == 0


@pytest.mark.parametrize(
    ("b", "why"),
    [
        (lambda a: dataclasses.replace(a, quick=True), "their lengths differ: full and quick"),
        (lambda a: placed(a, kind="pool"), "their places (kind) differ: lab and pool"),
        (lambda a: placed(a, limits={"link": "10g"}),
         "their places (limits) differ: link 1gbit, per_address 120mbit and link 10g"),
        (lambda a: placed(a, hosts=["a", "b", "c"]), "their numbers of hosts differ: 1 and 3"),
        (lambda a: placed(a, hosts=["b"]), None),
        (lambda a: changed(a, factors={"depth": 1}),
         "their factors differ: client, direction, streams and client, depth, direction, streams"),
        (lambda _: _only(_A, 5), "no combination of factors ran in both: streams is 1 in A and 5"
                                 " in B"),
    ],
)  # fmt: skip
def test_runs_are_compared_with_their_like_alone(
    b: Callable[[Summary], Summary], why: str | None
) -> None:
    a = placed(_only(_A, 1), hosts=["a"])
    assert why_not(a, b(a)) == why


def test_runs_in_which_the_server_restarts_are_compared_with_their_like_alone() -> None:
    """An outage inside lowers each figure."""
    choices = Choice(), Choice(restart="reboot"), Choice(restart="reboot", absent=1.0)
    quiet, restarted, absent = (
        placed(made_runs.reference("clients"), **planned(Request(choice=choice), "clients")[1])
        for choice in choices
    )
    assert why_not(quiet, restarted) == "their places (restart) differ: none and reboot"
    assert why_not(restarted, absent) == "their places (absent) differ: none and 1.0"


def test_programs_read_why_runs_are_not_comparable(tmp_path: Path) -> None:
    """One is no run, one is a quick one, and one is of a later harness."""
    a = str(made_runs.saved(dd(1), tmp_path / "a"))
    quick = made_runs.saved(dataclasses.replace(dd(1), quick=True), tmp_path / "c")
    later = made_runs.saved(dd(1), tmp_path / "d")
    data = json.loads((later / "summary.json").read_text())
    (later / "summary.json").write_text(json.dumps({**data, "version": 2}))
    for b, why in (
        (str(tmp_path / "b"), "not the folder of a run"),
        (str(quick), "their lengths differ"),
        (str(later), "version 2"),
    ):
        forms = ("text", "json")
        of = {form: call_harness("compare", a, b, "--format", form) for form in forms}
        assert all((one.status, why in one.stderr) == (11, True) for one in of.values())
        assert of["text"].stdout == ""
        found = json.loads(of["json"].stdout)
        assert (found["exit"], found["verdict"], found["rows"]) == (11, "not comparable", [])
        assert why in found["lines"][-1]


def test_runs_that_vary_too_much_to_tell_say_so() -> None:
    made = dd()
    cells = [made_runs.faster(cell, 1 if cell.repeat == 1 else 3) for cell in made.cells]
    run = dataclasses.replace(made, cells=cells)
    end, lines = judged(trials(pairs(run, run), [Figure.THROUGHPUT], 0.05), 0.05)
    assert end is Exit.PASSED
    assert lines[0].startswith("note: throughput 1.00 (0.")
    assert len(judged(trials(pairs(made, made), [Figure.THROUGHPUT], 0.05), 0.05)[1]) == 1


# --- a baseline, machines that allow no verdict, and forms for other programs ---


def _kept(results: Path, name: str, summary: Summary) -> Path:
    return made_runs.saved(summary, results / summary.scenario / name)


def test_the_newest_run_is_compared_with_its_baseline(tmp_path: Path) -> None:
    """A capped connection in one cell, put in on purpose, is what the first line names.

    A newer run of a scenario without a baseline is not what was asked for.
    """
    there = ("--results", str(tmp_path))
    first = _kept(tmp_path, "20261120T170000Z", dd(5))
    none = call_harness("compare", *there)
    assert (none.status, none.stdout) == (11, "")
    assert f"no run below {shown(tmp_path)} has a baseline\n" in none.stderr
    assert none.stderr.endswith(f"choose one: ./nfsmulti baseline set {shown(first)}\n")
    assert call_harness("baseline", "set", str(first), *there).status == 0
    assert "20261120T170000Z" in call_harness("baseline", "show", *there).stdout
    told = json.loads(call_harness("baseline", "show", "--json", *there).stdout)
    assert told["dd"] == {"run": shown(first), "started": "2026-11-20T17:00:00Z"}
    assert "is its own baseline" in call_harness("compare", *there).stderr
    older = _kept(tmp_path, "20261119T170000Z", dd(5))
    assert "is its own baseline" in call_harness("compare", *there).stderr
    shutil.rmtree(older)
    lost = _kept(tmp_path, "20261123T170000Z", made_runs.oltp())
    chosen = json.loads(call_harness("baseline", "set", str(lost), *there, "--json").stdout)
    assert (chosen["run"], chosen["busy"]) == (shown(lost), False)
    shutil.rmtree(lost)
    _kept(tmp_path, "20261124T170000Z", made_runs.oltp())
    twice = call_harness("compare", str(first), str(first), *there)
    assert (twice.status, twice.stdout, twice.stderr.count("\n")) == (11, "", 1)
    assert "is both A and B" in twice.stderr
    capped = _mixed(dd(5, seed=2), dd(5, slower=1.5, seed=3), streams=3, client="capped")
    _kept(tmp_path, "20261121T170000Z-capped", capped)
    _kept(tmp_path, "20261122T170000Z", made_runs.reference("fsperf"))
    done = call_harness("compare", *there)
    assert done.status == 10
    assert re.match(
        r"0\.6\d times A's throughput \(.*\) with each address capped, \w+, 3\sstreams: worse\.\n",
        done.stdout,
    )
    assert "\n\nA: 20261120T170000Z (2026-11-20 17:00 UTC)\n" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert re.match(r"worse: each address capped, \w+, 3 streams 0\.6\d \(", last)


@pytest.mark.parametrize(
    ("machine", "place", "status", "said"),
    [
        ({"kernel": "6.12"}, {}, 12, "unreliable: conditions differ: kernel is 6.1 in A and 6.12"),
        ({}, {"sysctls": {"vm.dirty_ratio": "40"}}, 12, "lab: vm.dirty_ratio is 20 in A and 40"),
        ({}, {"links": [{"name": "eth0", "mtu": 9000}]}, 12, "lab: mtu of eth0 is 1500 in A"),
        ({"engine_sha256": "1" * 64}, {}, 0, "engine differs: SHA-256 00000000 and SHA-256 1111"),
        ({}, {"servers": ["nfsd 6.12"]}, 0, "server (lab) differs: nfsd 6.1 and nfsd 6.12"),
    ],
)
def test_conditions_that_matter_make_a_verdict_unreliable(
    tmp_path: Path, machine: dict[str, object], place: dict[str, object], status: int, said: str
) -> None:
    at_first: dict[str, dict[str, object]] = {
        "machine": {"kernel": "6.1", "engine_sha256": "0" * 64},
        "lab": {
            "sysctls": {"vm.dirty_ratio": "20"},
            "links": [{"name": "eth0", "mtu": 1500}],
            "servers": ["nfsd 6.1"],
        },
    }
    later = {"machine": {**at_first["machine"], **machine}, "lab": {**at_first["lab"], **place}}
    for name, environment in (("a", at_first), ("b", later)):
        folder = made_runs.saved(dd(), tmp_path / name)
        (folder / "environment.json").write_text(json.dumps(environment))
    folders = [str(tmp_path / name) for name in "ab"]
    done = call_harness("compare", *folders)
    assert (done.status, said in _said(done)) == (status, True), done.stdout
    if allow := re.search("--allow ('.*'|[^ ]*) accepts it", _said(done)):
        words = shlex.split(allow[0])[:2]
        assert call_harness("compare", *folders, *words).status == 0
    assert bool(allow) == (status == 12)


@pytest.mark.parametrize(
    ("scenarios", "unbuffered", "status"),
    [(1, "", 0), (500, "", 128 + signal.SIGPIPE), (1, "1", 128 + signal.SIGPIPE)],
)
def test_a_reader_that_ends_first_is_no_error(
    tmp_path: Path, scenarios: int, unbuffered: str, status: int
) -> None:
    """Little output is written at the end; much overflows its buffer while a command runs."""
    for number in range(scenarios):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "baseline").write_text("gone\n")
    reading, writing = os.pipe()
    os.close(reading)
    words = ["baseline", "show", "--results", str(tmp_path)]
    with (
        (tmp_path / "stderr").open("wb") as said,
        Process(
            [sys.executable, "-m", "nfsmulti", *words],
            env={"PYTHONPATH": str(PYTHON_TESTS), "PYTHONUNBUFFERED": unbuffered},
            stdout=writing,
            stderr=said,
        ) as process,
    ):
        os.close(writing)
        assert process.wait(60) == status
    assert (tmp_path / "stderr").read_text() == ""


def test_other_programs_read_the_verdict(tmp_path: Path) -> None:
    a, b = dd(), dd(slower=1.3, seed=2)
    found = json.loads(_compare(tmp_path, a, b, "--format", "json").stdout)
    assert (found["verdict"], found["exit"], len(found["rows"])) == ("worse", 10, 21)
    row = found["rows"][0]
    assert row["cell"] == "each address capped, read, 1 stream"
    assert (row["unit"], row["says"]) == ("MB/s", "worse")
    assert row["low"] < row["b"] / row["a"] < row["high"]


def test_history_marks_the_run_that_changed_a_figure(tmp_path: Path) -> None:
    """Nine runs: the fourth is on a busy machine, the sixth and all after it have lost a fifth.

    The second has lost 3 %, which is significant and too little. Of those after the nine one is as
    fast as at first, and the newest is on a busy machine.
    """
    slower = {2: 1.03, 4: 2.0, **dict.fromkeys(range(6, 10), 1.25)}
    for day in range(1, 10):
        run = dd(slower=slower.get(day, 1.0), seed=day)
        _kept(tmp_path, f"202611{day:02}T170000Z", _busy(run, 0.9) if day == 4 else run)
    _kept(tmp_path, "20261130T170000Z", dd())
    _kept(tmp_path, "20261030T170000Z", dataclasses.replace(dd(), quick=True))
    _kept(tmp_path, "20261201T170000Z", _changed(dd(), 5, 3, "waiting"))
    (_kept(tmp_path, "20261202T170000Z", dd()) / "summary.json").write_text("{")
    _kept(tmp_path, "20261203T170000Z", _busy(dd(slower=3), 0.9))
    done = call_harness("history", "dd", "--results", str(tmp_path))
    told = json.loads(call_harness("history", "dd", "--json", "--results", str(tmp_path)).stdout)
    of_json = {one["run"].split()[0]: one["says"] for one in told["runs"] if one["says"]}
    assert (told["unit"], len(told["left_out"])) == ("MB/s", 3)
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("2026-1")]
    assert len(rows) == 11  # each run, beside those that are left out
    says = {row[0]: row[-1] for row in rows if row[-1] in ("change", "busy")}
    assert of_json == says
    assert (says.pop("2026-11-04"), says.pop("2026-12-03")) == ("busy", "busy")
    assert says == {"2026-11-06": "change", "2026-11-30": "change"}
    assert "⚠ The newest run, 2026-12-03 17:00, was on a busy machine.\n" in done.stdout
    (now,) = (line.split()[2] for line in done.stdout.splitlines() if line.startswith("2026-11-30"))
    headline = rf"{re.escape(now)} MB/s since 2026-11-30 17:00, 1\.2\d times the"
    assert re.match(headline, done.stdout)
    for left_out in (
        "2026-10-30 17:00: their lengths differ: full and quick",
        "2026-12-01 17:00: 4 of its cells have not run: continue it with run --resume",
        "2026-12-02 17:00: ",
    ):
        assert f"⚠ Left out: {left_out}" in re.sub(r"\n +", " ", done.stdout)
    assert not [*(tmp_path / "dd").glob("*.html")]  # there was a page until 0.7.0


@pytest.mark.parametrize(
    ("busy", "said"),
    [
        ((1, 1, 1), "No verdict: all 3 runs were on a busy machine."),
        ((1,), "No verdict: the only run was on a busy machine."),
        ((1, 0, 1), r"65\.7 MB/s (the geometric mean over 20 cells, 1 to 5 connections): only one"
                    " run counts, which nothing is held against yet."),
        ((0, 0, 1), r"65\.7 MB/s; none of 2 runs is shown to have changed it (the geometric mean"
                    " over 20 cells, 1 to 5 connections)."),
    ],
)  # fmt: skip
def test_no_headline_is_of_runs_that_count_for_nothing(
    tmp_path: Path, busy: tuple[int, ...], said: str
) -> None:
    for day, one in enumerate(busy, start=1):
        run = dd(seed=day)
        folder = tmp_path / "dd" / f"202611{day:02}T170000Z"
        made_runs.saved(_busy(run, 0.9) if one else run, folder)
    done = call_harness("history", "dd", "--results", str(tmp_path))
    first = " ".join(done.stdout.split("\n\n")[0].split())
    assert re.fullmatch(said.replace("(", r"\(").replace(")", r"\)"), first), first
    note = call_harness("baseline", "set", str(folder), "--results", str(tmp_path)).stdout
    assert ("It was on a busy machine: no comparison with it is a verdict." in note) == busy[-1]
    if len(busy) == 3:
        call_harness("compare", str(folder.with_name("20261101T170000Z")), str(folder))
        page = " ".join((folder / "compare.html").read_text().split())
        assert "No verdict: other programs kept the machine of " in page
        assert "times A's throughput" not in page


def test_history_names_the_command_that_there_is(tmp_path: Path) -> None:
    there = ("--results", str(tmp_path))
    for name, remedy in (
        ("dd", "start one: ./nfsmulti run dd"),
        ("stall", "start one: ./nfsmulti bench stall"),
        ("mount", "bench mount is gone since 0.7.0: --results=DIR names the folder of earlier"),
    ):
        assert f"holds no finished run of {name}\n  {remedy}" in refusal("history", name, *there)
    _kept(tmp_path, "20261201T170000Z", _changed(dd(), 5, 3, "waiting"))
    left_out = "Left out: 2026-12-01 17:00: 4 of its cells have not run"
    assert left_out in refusal("history", "dd", *there)


@pytest.mark.full
def test_figures_beside_a_short_word_have_one_line_on_a_phone(tmp_path: Path) -> None:
    _compare(tmp_path, dd(), dd(slower=1.3, seed=2))
    console, (seen,) = look([(tmp_path / "b/compare.html").read_text()], tmp_path, 400)
    assert (console, seen.overflow, seen.broken) == ([], 0, 0)
