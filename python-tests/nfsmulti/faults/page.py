# SPDX-License-Identifier: GPL-2.0-only
"""What came of the fault matrix, and its page: a grid of faults and modes, out of results.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nfsmulti import texts, typed
from nfsmulti.errors import HarnessError
from nfsmulti.faults.job import Mode, Place
from nfsmulti.faults.outcome import Outcome
from nfsmulti.paths import COMMAND, shown
from nfsmulti.report import pages
from nfsmulti.report.answer import Answer
from nfsmulti.report.story import Section
from nfsmulti.texts import Table

FILE = "results.json"
_TITLE = "What jobs do when servers and networks fail"
_SHORT, _WRONG = _MARKS = "*", "✗ "
_KEY = (
    "done: completed and verified; held: still waiting when interrupted, as `hard` promises; lost:"
    f" data that may not be on the server, and was reported; {_SHORT}: short of a promise;"
    f" {_WRONG.strip()}: not as expected; {texts.MISSING}: not run."
)
_HOW = (
    "`hard` waits while a server is away, and goes on when it is back. `soft` fails with ETIMEDOUT"
    " when it stays silent for too long. `failover` goes on by other paths while one is dead.",
    "A field of the grid has all kinds of work that one fault befell in one mode: reads, writes and"
    " metadata operations, a fio job each. First stands how most of them ended; kinds that ended"
    " otherwise are named.",
    "Every byte, and every entry, was checked on the server, and fio's count against the engine's:"
    " what was neither kept nor told as lost would be named. An I/O that took a second or more is"
    " told. EIO, ETIMEDOUT, …: the job failed, with that error.",
    "write is UNSTABLE WRITEs and a COMMIT; write sync FILE_SYNC ones; write hold has hold_writes."
    " create, stat, remove and trim are metadata operations on 64 entries; trim is a remove by"
    " rw=trim.",
    "RDMA has no dropped packets and no broken messages: rdma_rxe passes packets between its own"
    " addresses around any filter, and no scripted server speaks RPC-over-RDMA.",
)


@dataclass(frozen=True)
class Left:
    """What a run has written."""

    cells: list[Outcome] = field(default_factory=list)
    setting: dict[str, str] = field(default_factory=dict)
    begun: str = ""


def read(folder: Path) -> Left:
    """Read what a run has written; nothing where it has not got so far."""
    file = folder / FILE
    if not file.exists():
        return Left()
    data = typed.load(file)
    if not isinstance(data, dict) or "cells" not in data:
        raise HarnessError(f"{shown(file)}: not of this version of nfsmulti", "measure again")
    return typed.read(Left, data, f"{shown(file)}: ")


def write(folder: Path) -> str:
    """Write the page beside results.json, and give what a terminal shows of it."""
    left = read(folder)
    outcomes, setting = left.cells, left.setting
    answer = _answer(outcomes, setting)
    grids = [
        Table(
            ["", *Mode],
            _grid([one for one in outcomes if one.place == place]),
            place.value,
            text_columns=1 + len(Mode),
            text_wraps=True,
        )
        for place in Place
    ]
    grids = [grid for grid in grids if grid.rows]
    marked = [grid for one in grids if (grid := _part(one, marked=True)).rows]
    plain = [grid for one in grids if (grid := _part(one, marked=False)).rows]
    wrong = [f"{one.cell}: {'; '.join(one.complaints)}" for one in outcomes if not one.met]
    sections = [
        Section("Not as expected", points=wrong),
        Section("Short of a promise, or not as expected", [_KEY] if marked else [], marked),
        Section("As expected", [_KEY], plain, folded=True),
        Section("How to read it", points=_HOW, folded=True),
        Section(
            "Conditions",
            tables=[Table(["", ""], [[*pair] for pair in setting.items()], text_columns=2)],
            folded=True,
        ),
    ]
    about = f"Fault matrix, {texts.moment(left.begun)}."
    pages.save(folder, title=_TITLE, about=about, answer=answer, sections=sections, data=FILE)
    told = pages.told(folder, answer, f"{COMMAND} soak", grids)
    return "\n".join([*(f"NOT AS EXPECTED: {one}" for one in wrong), told])


def _answer(outcomes: Sequence[Outcome], setting: Mapping[str, str]) -> Answer:
    met = sum(one.met for one in outcomes)
    short = sum(bool(one.short) for one in outcomes)
    headline = f"{met} of {len(outcomes)} jobs ended as expected"
    if met == len(outcomes):  # what a job wrote is accounted for, or it has a complaint
        headline = f"0 of {met} jobs hid a loss"
    if short:
        headline += f"; {short} broke another promise (known, below)"
    rows = []
    for mode in Mode:
        ended = [one for one in outcomes if one.mode == mode]
        hows = Counter(one.outcome.partition(" ")[0] for one in ended)
        lost = sum(one.lost_bytes > 0 for one in ended)
        counts = (len(ended), hows["done"], hows["failed"], hows["held"], lost)
        if ended:
            rows.append([mode, *map(str, counts)])
    headings = ["", "jobs", "done", "failed with an error", "held", "lost data, told"]
    faults = len({one.fault for one in outcomes})
    works = len({one.work for one in outcomes})
    places = [place for place in Place if any(one.place == place for one in outcomes)]
    return Answer(
        f"{headline}.",
        Table(headings, rows),
        _shorts(outcomes),
        f"{faults} faults, {works} kinds of work, {len(rows)} modes; {'; '.join(places)};"
        f" nfsmulti {setting.get('nfsmulti')}, {setting.get('fio')}.",
    )


def _grid(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return a row for each fault: what came of its jobs in each mode; exceptions come first."""
    rows = []
    for fault in dict.fromkeys(one.fault for one in outcomes):
        own = [one for one in outcomes if one.fault == fault]
        rows.append([fault, *(_field(one for one in own if one.mode == mode) for mode in Mode)])
    return sorted(rows, key=lambda row: {*row[1:]} <= {"done", texts.MISSING})


def _part(grid: Table, *, marked: bool) -> Table:
    """Return the rows of a grid that have a mark, or those that have none."""
    rows = [row for row in grid.rows if any(m in one for one in row for m in _MARKS) == marked]
    return replace(grid, rows=rows)


def _field(outcomes: Iterable[Outcome]) -> str:
    """Say how most jobs ended, and which ended otherwise: "done in 4 s; write: EIO, lost"."""
    ends: dict[str, list[Outcome]] = {}
    for one in outcomes:
        how = one.outcome.removeprefix("failed ") + (", lost" if one.lost_bytes else "")
        mark = _SHORT if one.short and one.met else ""
        ends.setdefault(f"{'' if one.met else _WRONG}{how}{mark}", []).append(one)
    said: list[str] = []
    for how, those in sorted(ends.items(), key=lambda pair: (-len(pair[1]), pair[0] != "done")):
        times = [one.recovery_s or 0 for one in those]
        seconds = f" in {max(times):.0f} s" if max(times) >= 1 else ""
        works = f"{', '.join(one.work for one in those)}: " if said else ""
        said.append(f"{works}{how}{seconds}")
    return "; ".join(said) or texts.MISSING


def _shorts(outcomes: Sequence[Outcome]) -> list[str]:
    """Return each shortcoming once, with the faults that show it, and whose promise it breaks."""
    cases = [one for one in outcomes if one.short]
    found = []
    for short in dict.fromkeys(one.short for one in cases):
        those = [one for one in cases if one.short == short]
        faults = dict.fromkeys(one.fault for one in those)
        modes = texts.several([f"`{mode}`" for mode in dict.fromkeys(one.mode for one in those)])
        which = f"{len(those)} of the {len(cases)}, short of {modes}"
        found.append(f"{', '.join(faults)} ({which}): {short}.")
    return found
