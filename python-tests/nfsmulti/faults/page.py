# SPDX-License-Identifier: GPL-2.0-only
"""What came of the fault matrix, and its page: a grid of faults and modes, out of results.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nfsmulti import texts
from nfsmulti.faults.cell import Mode, Outcome, Place
from nfsmulti.paths import COMMAND
from nfsmulti.report import pages
from nfsmulti.report.answer import MOST_CAVEATS, Answer
from nfsmulti.report.story import Section
from nfsmulti.texts import Table

FILE = "results.json"
_TITLE = "What jobs do when servers and networks fail"
_SHORT, _WRONG = "*", "✗ "
_HOW = (
    "A field of the grid has all kinds of work that one fault befell in one mode: reads, writes and"
    " metadata operations, a fio job each. First stands how most of them ended; kinds that ended"
    " otherwise are named.",
    "done: every byte, and every entry, was checked on the server, and fio's count against the"
    " engine's. Where an I/O took a second or more, the longest is told.",
    "EIO, ETIMEDOUT, …: the job failed, with that error. What was neither kept by the server nor"
    " told as lost would be named.",
    "lost: the engine told which bytes may be lost, with path and file.",
    "held: the job kept waiting, as `hard` promises, until SIGINT ended it.",
    f"{_SHORT}: as expected, and short of what is promised. {_WRONG.strip()}: not as expected.",
    "write is UNSTABLE WRITEs and a COMMIT; write sync FILE_SYNC ones; write hold has hold_writes."
    " create, stat, remove and trim are metadata operations on 64 entries; trim is a remove by"
    " rw=trim.",
    "RDMA has no dropped packets and no broken messages: rdma_rxe passes packets between its own"
    " addresses around any filter, and no scripted server speaks RPC-over-RDMA.",
)


def write(folder: Path) -> str:
    """Write the page beside results.json, and give what a terminal shows of it."""
    values = json.loads((folder / FILE).read_text())
    outcomes = [Outcome(**one) for one in values["cells"]]
    setting = values["setting"]
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
    wrong = [f"{one.cell}: {'; '.join(one.complaints)}" for one in outcomes if not one.met]
    sections = [
        Section("Not as expected", points=wrong),
        Section("Fault and mode", tables=grids),
        Section("Short of what is promised", points=_shorts(outcomes)[MOST_CAVEATS:]),
        Section("How to read it", points=_HOW, folded=True),
        Section(
            "Conditions",
            tables=[Table(["", ""], [[*pair] for pair in setting.items()], text_columns=2)],
            folded=True,
        ),
    ]
    about = f"Fault matrix, {values['begun']}."
    pages.save(folder, title=_TITLE, about=about, answer=answer, sections=sections, data=FILE)
    told = pages.told(folder, answer, f"{COMMAND} soak", grids)
    return "\n".join([*(f"NOT AS EXPECTED: {one}" for one in wrong), told])


def _answer(outcomes: Sequence[Outcome], setting: Mapping[str, str]) -> Answer:
    met = sum(one.met for one in outcomes)
    short = sum(bool(one.short) for one in outcomes)
    headline = f"{met} of {len(outcomes)} jobs ended as expected when something failed"
    rows = []
    for mode in Mode:
        ended = [one for one in outcomes if one.mode == mode]
        counts = [
            len(ended),
            sum(one.outcome == "done" for one in ended),
            sum(one.outcome.startswith("failed") for one in ended),
            sum(one.outcome == "held" for one in ended),
            sum(not one.met for one in ended),
        ]
        if ended:
            rows.append([mode, *map(str, counts)])
    headings = ["", "jobs", "done, all right", "failed, told so", "kept waiting", "not as expected"]
    faults = len({one.fault for one in outcomes})
    works = len({one.work for one in outcomes})
    places = [place for place in Place if any(one.place == place for one in outcomes)]
    return Answer(
        f"{headline}{f'; {short} fall short of a promise' if short else ''}.",
        Table(headings, rows),
        [f"{one}." for one in _shorts(outcomes)][:MOST_CAVEATS],
        f"{faults} faults, {works} kinds of work, {len(rows)} modes; {'; '.join(places)};"
        f" nfsmulti {setting['nfsmulti']}, {setting['fio']}.",
    )


def _grid(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Give a row for each fault: what came of its jobs in each mode."""
    return [
        [
            fault,
            *(_field(one for one in outcomes if (one.fault, one.mode) == (fault, mode))
              for mode in Mode),
        ]
        for fault in dict.fromkeys(one.fault for one in outcomes)
    ]  # fmt: skip


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
    """Give each shortcoming once, with the faults that show it."""
    faults: dict[str, dict[str, None]] = {}
    for one in outcomes:
        if one.short:
            faults.setdefault(one.short, {})[one.fault] = None
    return [f"{', '.join(where)}: {short}" for short, where in faults.items()]
