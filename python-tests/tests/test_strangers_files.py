# SPDX-License-Identifier: GPL-2.0-only
"""Folders of runs that somebody else has made: read within limits, never written through."""

import copy
import functools
import json
import lzma
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_runs
import pytest
from conftest import call_harness, in_full, run_harness
from run_helpers import made_record

from nfsmulti import kept, typed
from nfsmulti.errors import HarnessError
from nfsmulti.kept.compare import Figure, trials
from nfsmulti.kept.pairs import pairs
from nfsmulti.paths import shown
from nfsmulti.processes import run
from nfsmulti.report import conditions, pages, rows
from nfsmulti.run.record import Record
from nfsmulti.scenario import CellSpec
from nfsmulti.summary import FILE, Summary

_ESC = "\x1b]0;gone\x07"


# --- what is read ---


def _changed(old: str, new: str) -> Callable[[Path], object]:
    def change(file: Path) -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))

    return change


@functools.cache
def _bomb() -> bytes:
    return lzma.compress(b"[" * (129 << 20), preset=0)


def _packed(size: int | None = None) -> Callable[[Path], object]:
    def change(file: Path) -> None:
        file.unlink()
        file.with_name(f"{FILE}.xz").write_bytes(_bomb()[:size])

    return change


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


_BROKEN = {
    "unpacks to more": (_packed(), "holds more than 128 MiB"),
    "packed and cut": (_packed(900), "ended before"),
    "lists in lists": (lambda file: file.write_text("[" * 100_000), "in each other"),
    "deep in a member": (_changed('"kind": ', f'"x": {"[" * 90 + "]" * 90}, "kind": '), "in each"),
    "a FIFO": (_fifo, "no regular file"),
    "a list": (lambda file: file.write_text("[]"), "not a summary"),
    "a later version": (_changed('"version": 1', '"version": 2'), "version 2"),
    "no cells": (_changed('"cells": [', '"_": ['), "it lacks cells"),
    "a cell that is a number": (_changed('"cells": [', '"cells": [1, '), "[0]: 1 is not an object"),
    "no UTF-8": (lambda file: file.write_bytes(b'"\xff"'), "can't decode"),
    "NaN": (_changed('"repeat": 1', '"repeat": NaN'), "NaN is no number"),
    "a long integer": (_changed('"repeat": 1', f'"repeat": {"9" * 5000}'), "too large a number"),
    "below 0": (_changed('"repeat": 1', '"repeat": -1'), ".cells[0].repeat: -1 is below 0"),
    "no list": (_changed('"cells": [', '"cells": 5, "_": ['), ".cells: 5 is not a list"),
    "no text": (_changed('"id": "', '"id": [], "_": "'), ".id: [] is not a text"),
    "an unknown word": (_changed('"done"', '"gone"'), ".status: 'gone' is unknown"),
    "a member less": (_changed('"ops": ', '"oops": '), ".cells[0].write: it lacks ops"),
}


@pytest.mark.parametrize("what", _BROKEN)
def test_a_broken_summary_is_refused_with_its_place(what: str, tmp_path: Path) -> None:
    made_runs.saved(made_runs.dd(repeats=1), tmp_path)
    change, said = _BROKEN[what]
    change(tmp_path / FILE)
    with pytest.raises(HarnessError) as refused:
        Summary.load(tmp_path)
    assert said in refused.value.what
    assert refused.value.what.startswith(shown(tmp_path / FILE))
    assert len(refused.value.what.splitlines()) == 1


_VALUES: list[Any] = [None, True, -1, 0, 10**19, 1e308, "", "x", "'open", _ESC, [], {}, [[]]]


def _spots(data: Any) -> Iterator[tuple[Any, Any]]:
    inner = data.items() if isinstance(data, dict) else enumerate(data)
    for name, value in inner:
        yield data, name
        if isinstance(value, dict | list):
            yield from _spots(value)


@pytest.mark.parametrize("seed", [0, *map(in_full, range(1, 5))])
def test_whatever_a_run_is_made_of_is_shown_or_refused(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for made in map(made_runs.reference, ("dd", "randread", "sio"), (1, 1, 1)):
        folder = made_runs.saved(made, tmp_path)
        whole = [json.loads((folder / name).read_text()) for name in (FILE, conditions.FILE)]
        for _ in range(15):
            changed = copy.deepcopy(whole)
            for _ in range(chance.choice((1, 3))):
                holder, name = chance.choice([*_spots(changed)][2:])
                holder[name] = chance.choice(_VALUES)
            for name, data in zip((FILE, conditions.FILE), changed, strict=True):
                (folder / name).write_text(json.dumps(data))
            _read_by_all(folder)


def _read_by_all(folder: Path) -> None:
    try:
        made, environment = Summary.load(folder), conditions.load(folder)
        with typed.understood(folder):
            if report := pages.EVERY_STORY.get(made.scenario):
                pages.render("report.md.j2", pages.contents(report, made, environment))
            rows.write(made, folder)
            trials(pairs(made, made), [Figure.THROUGHPUT], 0.05)
    except HarnessError:
        pass


# --- what is written ---


def test_a_report_is_not_written_through_links(tmp_path: Path) -> None:
    folder, own = made_runs.saved(made_runs.dd(repeats=1), tmp_path / "run"), tmp_path / "own"
    own.write_text("mine")
    (folder / "report.md").symlink_to(own)
    (folder / "cells.csv").hardlink_to(own)
    os.mkfifo(folder / "report.html")
    call_harness("report", str(folder)).check()
    assert own.read_text() == "mine"
    assert all((folder / name).is_file() for name in ("report.md", "report.html", "cells.csv"))
    assert not (folder / "report.md").is_symlink()
    plots = folder / "plots"
    plots.rename(tmp_path / "elsewhere")
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "elsewhere").iterdir()}
    plots.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HarnessError, match=r"plots: Not a directory \(a link is not followed\)$"):
        call_harness("report", str(folder))
    assert {file.name: file.stat().st_mtime_ns for file in plots.iterdir()} == before


def test_pages_of_runs_are_not_written_through_links(tmp_path: Path) -> None:
    """The label of the run is no UTF-8, and a folder may lie where a page would."""
    own = tmp_path / "own"
    own.mkdir()
    results = tmp_path / "results"
    folder = made_runs.saved(made_runs.dd(repeats=1), results / "dd/20260101T000000Z-\udcff")
    (own / "page").write_text("mine")
    for name in ("baseline", "history.html"):
        (results / "dd" / name).symlink_to(own / "page")
    call_harness("baseline", "set", str(folder), "--results", str(results)).check()
    call_harness("history", "dd", "--results", str(results)).check()
    assert (own / "page").read_text() == "mine"
    assert kept.baseline(results, "dd") == folder
    file = results / "dd/baseline"
    file.unlink()
    file.mkdir()
    with pytest.raises(HarnessError, match=r"/baseline: Is a directory$"):
        call_harness("baseline", "set", str(folder), "--results", str(results))
    assert {*file.parent.iterdir()} == {folder, file, file.with_name("history.html")}
    file.rmdir()
    (results / "dd").rename(own / "dd")
    (results / "dd").symlink_to(own / "dd")
    with pytest.raises(HarnessError, match=r"/dd: Not a directory \(a link is not followed\)$"):
        call_harness("baseline", "set", str(folder), "--results", str(results))
    assert not (own / "dd/baseline").exists()


@pytest.mark.parametrize("scenario", ["../../own", "/own"])
def test_a_scenario_names_no_other_folder(scenario: str, tmp_path: Path) -> None:
    folder = made_runs.saved(made_runs.dd(repeats=1), tmp_path / "run")
    _changed('"scenario": "dd"', f'"scenario": "{scenario}"')(folder / FILE)
    with pytest.raises(HarnessError, match="does not lie in"):
        call_harness("baseline", "set", str(folder), "--results", str(tmp_path / "a/results"))


def test_a_plan_that_fits_nothing_here_is_not_resumed(tmp_path: Path) -> None:
    made_record(tmp_path, "dd", [CellSpec({}, "lab", "dd-read.fio", {}, 1)])
    plan = tmp_path / "plan.json"
    whole = plan.read_text()
    _changed('"id": "', '"id": "x')(plan)
    with pytest.raises(HarnessError, match="name other cells"):
        Record.resume(tmp_path)
    plan.write_text(whole.replace("dd-read.fio", "../x"))
    with pytest.raises(HarnessError, match=r"there is no job file '\.\./x'"):
        Record.resume(tmp_path)


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
def test_what_no_command_can_be_given_is_told(word: str) -> None:
    with pytest.raises(HarnessError, match="true cannot be given such words"):
        run(["true", word], timeout=60)


# --- what is shown ---


_LABEL = f"<script>x</script> [a](javascript:b) ![c](d) **e** `|f` {_ESC}\u202e\ud800\n# g"


def test_a_page_shows_others_text_and_does_not_obey_it(tmp_path: Path) -> None:
    summary = made_runs.dd(repeats=1)
    folder = made_runs.saved(summary, tmp_path)
    data = json.loads((folder / FILE).read_text())
    data |= {"label": _LABEL, "command": f"run dd '``` {_ESC}\n```\n# h\n````"}  # an open quote
    data["cells"][0] |= {"id": "=1+1", "why": "-1.5", "command": "fio --name='t"}
    data["cells"][1] |= {"id": "@x", "why": "+x"}
    data["cells"][2] |= {"id": " =1", "factors": {**data["cells"][2]["factors"], _ESC: "x"}}
    (folder / FILE).write_text(json.dumps(data))
    call_harness("report", str(folder)).check()
    text = (folder / "report.md").read_text()
    label = (
        r"&lt;script>x&lt;/script> [a\](javascript:b) ![c\](d) \*\*e\*\* `\|f`"
        r" \x1b]0;gone\x07\u202e\ud800 # g**, "
    )
    assert f"**{label}" in text
    assert not {"\x1b", "\x07", "\u202e"} & {*text}
    assert text.count("\n`````\n") == 2
    assert "run dd '```" in text
    assert not {"\x1b", "\x07", "\u202e"} & {*(folder / "report.html").read_text()}
    lines = (folder / "cells.csv").read_text()
    assert "\n'=1+1," in lines
    assert "\n'@x," in lines
    assert ",-1.5," in lines
    assert ",'+x," in lines
    assert "\n' =1," in lines
    assert "\x1b" not in lines


@pytest.mark.parametrize("words", [("compare", "{}", "{}/x"), ("report", "{}"), ("history", "{}")])
def test_a_terminal_obeys_no_name(words: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / f"a{_ESC}\n[bold]b"
    folder.mkdir()
    done = run_harness(*(word.replace("{}", str(folder)) for word in words))
    assert done.status not in (0, None)
    assert not {"\x1b", "\x07"} & {*done.stderr, *done.stdout}
    assert r"\x1b]0;gone\x07" in done.stderr
    assert "[bold]" in done.stderr
