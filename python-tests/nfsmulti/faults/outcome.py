# SPDX-License-Identifier: GPL-2.0-only
"""What came of a cell, held against what the table expects; and what a run of the matrix leaves.

That is a table in the terminal, report.md, and results.json.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import rich.table

from nfsmulti.faults.cell import (
    ENTRIES,
    FILE,
    Cell,
    Left,
    Mode,
    Place,
    Work,
    longest_io,
    lost_bytes,
    says,
)
from nfsmulti.fiorun import FioReport, FioResult
from nfsmulti.paths import portable
from nfsmulti.texts import Table

_CRASH = re.compile(r"got signal=|AddressSanitizer|runtime error:|LeakSanitizer")
# An entry's operation, by the entry's number, where no error follows.
_OPERATION = re.compile(r" trace: connection .* \d+@(\d+) = \d+$", re.MULTILINE)
_LINES_MAX = 40  # of the engine: a fault is told, and not over and over
_TIMES_MAX = 3  # a path stops once; on a busy machine its server may stall by itself, too


@dataclass(frozen=True)
class Outcome:
    """What came of a cell. `complaints` say what was not as expected.

    `recovery_s`: the longest that an I/O took, which is the time until what the fault held was
    answered. `end_s`: where the job did not come through, its end counted from the fault, or from
    SIGINT where it was held. `again` and `moved` are calls sent again and calls taken over by other
    paths. `lost_bytes` is what the engine said.
    """

    cell: str
    place: str
    fault: str
    work: str
    mode: str
    expected: str
    outcome: str
    complaints: list[str]
    short: str
    seconds: float
    recovery_s: float | None
    end_s: float | None
    again: int
    moved: int
    again_bytes: int
    lost_bytes: int
    written_bytes: int
    read_bytes: int
    said: list[str]
    command: str

    @property
    def met(self) -> bool:
        """Whether all was as expected."""
        return not self.complaints


def judge(cell: Cell, left: Left) -> Outcome:
    """Give the outcome of a cell."""
    result, report = left.result, left.result.report
    stats = result.stats
    again = sum(line.retransmissions for line in stats)
    rewritten = sum(line.rewritten_bytes for line in stats)
    moved = sum(line.reissues for line in stats)
    since = left.signalled or left.fault
    came_through = result.status == 0
    return Outcome(
        cell=cell.id,
        place=cell.fault.place.value,
        fault=cell.fault.name,
        work=cell.work.value,
        mode=cell.mode.value,
        expected=cell.expected.text,
        outcome=_how_ended(left),
        complaints=list(_complaints(cell, left, moved)),
        short=cell.expected.short,
        seconds=round(result.seconds, 2),
        recovery_s=round(longest_io(report), 3) if came_through and report else None,
        end_s=None if came_through or since is None else round(left.ended - since, 3),
        again=again,
        moved=moved,
        again_bytes=(again + moved) * cell.block + rewritten,
        lost_bytes=lost_bytes(left.said),
        written_bytes=report.bytes("write") if report else 0,
        read_bytes=report.bytes("read") if report else 0,
        said=left.said,
        command=_fio_command(result.argv),
    )


def not_run(cell: Cell, why: str) -> Outcome:
    """Give the outcome of a cell that came to nothing, by no fault of the engine."""
    left = Left(FioResult([], None, 0.0, "", "", None, [], Path()))
    return dataclasses.replace(judge(cell, left), outcome="not run", complaints=[why])


def _fio_command(argv: Sequence[str]) -> str:
    """Give fio's command as one would type it, without where it leaves its files."""
    words = argv[argv.index("fio") :] if "fio" in argv else argv
    return shlex.join(word for word in words if not word.startswith(("--output=", "--stats_file")))


def _how_ended(left: Left) -> str:
    """Say in a word or two how fio ended."""
    status, report = left.result.status, left.result.report
    if status is None:
        return "hung"
    if status < 0 or _CRASH.search(left.result.messages):
        return "crashed"
    if status == 0:
        return "done"
    if left.signalled is not None:
        return "held"
    error = report.error if report else 0
    return f"failed {errno.errorcode.get(error, 'without a reason')}"


def _complaints(cell: Cell, left: Left, moved: int) -> Iterator[str]:
    """Say what is not as expected."""
    expected, outcome, said = cell.expected, _how_ended(left), "\n".join(left.said)
    if outcome != expected.text:
        yield f"{outcome}, where {expected.text} was expected"
    yield from (f"it did not say: {words}" for words in expected.says if not says(words, said))
    yield from _over_again(cell, said)
    if len(left.said) > _LINES_MAX:
        yield f"it said {len(left.said)} lines"
    if left.fault is None:
        yield "the fault did not come"
    if expected.moves and not moved:
        yield "no call was reissued on another path"
    if expected.loses is not None and expected.loses != bool(lost_bytes(left.said)):
        yield f"{lost_bytes(left.said)} bytes were reported as lost"
    yield from discrepancies(cell, left)


def _over_again(cell: Cell, said: str) -> Iterator[str]:
    """Hold `hard` to its word: a line when a path stops, and one when it goes on."""
    if cell.mode is Mode.HARD and cell.expected.how == "done":
        for words in cell.expected.says:
            times = sum(said.count(one) for one in words.split("|"))
            if times > _TIMES_MAX * cell.paths:
                yield f"it said {times} times: {words}"


# --- the account: of the bytes of a file, and of the entries of metadata operations ---
# Either holds what fio counts against the engine's own count, and against the server's files.


def discrepancies(cell: Cell, left: Left) -> Iterator[str]:
    """Say what does not add up."""
    report = left.result.report
    if report is None:
        yield "fio left no report"
    elif cell.work.on_entries:
        yield from _of_entries(cell, left, report)
    elif left.result.status == 0:
        yield from _of_whole_file(cell, left, report)
    elif cell.work is not Work.READ:
        yield from _of_written(cell, left, report)


# Bytes: each is read right, or written and kept, or told as lost.


def _of_written(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    kept = _kept(left.files.get(FILE, b""), cell.content, cell.block)
    written, lost = report.bytes("write"), lost_bytes(left.said)
    if kept + lost < written:
        yield f"of {written} bytes written {kept} were kept, {lost} reported as lost"


def _of_whole_file(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    """Hold a job that came through against the file, and fio's count against the engine's."""
    stats, content = left.result.stats, cell.content
    if left.files.get(FILE) != content:
        yield "the server's file does not hold what was written"
    sides = {"read": sum(line.read_bytes for line in stats)}
    if cell.work is not Work.READ:
        sides["write"] = sum(line.write_bytes - line.rewritten_bytes for line in stats)
    for side, moved in sides.items():
        counted = report.bytes("read" if side == "read" else "write")
        if counted != len(content) or moved != counted:
            yield f"{side}: {len(content)} bytes wanted, fio counts {counted}, the engine {moved}"


def _kept(file: bytes, content: bytes, block: int) -> int:
    """Count the bytes of blocks that are in the file as they should."""
    places = range(0, len(content), block)
    return sum(block for at in places if file[at : at + block] == content[at : at + block])


# Entries: what is done stays done, and nothing else is there.


def _of_entries(cell: Cell, left: Left, report: FioReport) -> Iterator[str]:
    """Hold the operations that are done against the server's files.

    An operation that failed, or was not answered, may have been carried out or not: as many as are
    under way at once.
    """
    there = left.files.keys()
    done = {ENTRIES[int(number)] for number in _OPERATION.findall(left.result.stderr)}
    counted = report.bytes(cell.work.counted) // cell.block
    if left.result.status == 0:
        yield from _of_counts(left, counted, len(done))
    elif counted > len(done):
        yield f"fio counts {counted} operations, the trace has {len(done)} that are done"
    wanted = set(ENTRIES)
    changed = wanted - there if cell.work.removes else there & wanted
    if cell.work is not Work.STAT and len(changed - done) > cell.depth:
        yield f"{len(changed - done)} entries were changed by operations that are not done"
    if cell.work.removes:
        yield from _some(there & done, "entries removed and still there")
    else:
        needed = wanted if cell.work is Work.STAT else done
        yield from _some(needed - there, "entries not there")
    yield from _some(there - wanted, "files that are no entries of the job")


def _of_counts(left: Left, counted: int, done: int) -> Iterator[str]:
    """Hold all counts of a job that came through against the number of its entries."""
    wanted, lines, stats = len(ENTRIES), left.result.operations, left.result.stats
    engine, calls = sum(line.ops for line in lines), sum(line.meta_ops for line in stats)
    errors = sum(line.errors for line in lines)
    if {counted, done, engine, calls} != {wanted} or errors:
        yield (
            f"{wanted} operations wanted, fio counts {counted}, the trace {done}, the engine"
            f" {engine} and {errors} errors, its connections {calls}"
        )


def _some(names: set[str], what: str) -> Iterator[str]:
    if names:
        yield f"{what}: {len(names)}, such as {min(names)}"


# --- the report of a run ---


RESULTS = "results.json"
REPORT = "report.md"

_HEADINGS = (
    "fault",
    "work",
    "mode",
    "outcome",
    "recovered after",
    "ended after",
    "sent again",
    "bytes lost",
    "as expected",
)
_NUMBERS = 4  # the first column that holds figures
_HOW = """\
A row is one fio job with the engine, and one fault injected into it. “write” is UNSTABLE WRITEs
with a COMMIT at the end, “write sync” FILE_SYNC ones, “write hold” is “write” with hold_writes; all
are read back.
Each block's content is known. If a job is done, the server's file was compared with it byte by
byte, and fio's byte count with the engine's. If it failed, bytes that were neither kept by the
server nor reported as lost would be named.

“create”, “stat”, “remove” and “trim” are metadata operations (metadata=1), one on each of 64
entries; “stat” is a LOOKUP and a GETATTR, “trim” a “remove” by rw=trim. They are durable when they
are answered. If a job is done, each entry was there, or gone, on the server, nothing else was, and
fio's count and the engine's were the number of entries. If it failed, an operation that was done
and is not found on the server would be named.

- outcome: done; failed, with fio's error; held: it kept waiting, as `hard` promises, until SIGINT
  ended it.
- recovered after: seconds, the longest that an I/O of the job took: I/Os that the fault held up
  were answered within that time, all others sooner.
- ended after: seconds from the fault, or from SIGINT for a job that was held, to fio's end.
- sent again: bytes of calls that were sent again to the same server or reissued on another path
  (a call counts as a block), and of data that hold_writes has written again; of metadata
  operations: calls.
- bytes lost: those that the engine reported as possibly lost, in the line with path and file.

RDMA's cells have no dropped packets and no broken messages: rdma_rxe passes packets between its own
addresses around any filter, and no scripted server speaks RPC-over-RDMA.
"""


@dataclass(frozen=True)
class Run:
    """A run of the matrix: when, on what, and what came of it."""

    begun: datetime
    setting: dict[str, str]
    outcomes: Sequence[Outcome]

    @property
    def verdict(self) -> str:
        """One line on the whole."""
        short = sum(bool(one.short) for one in self.outcomes)
        return (
            f"{len(self.outcomes)} cells: {sum(one.met for one in self.outcomes)} as expected"
            f" ({short} of them short of what is promised),"
            f" {sum(not one.met for one in self.outcomes)} not"
        )

    def write(self, folder: Path) -> None:
        """Write report.md and results.json."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT).write_text(portable("\n".join(self._markdown())))
        values = {
            "begun": self.begun.isoformat(timespec="seconds"),
            "setting": self.setting,
            "cells": [dataclasses.asdict(one) for one in self.outcomes],
        }
        text = json.dumps(values, indent="\t", ensure_ascii=False)
        (folder / RESULTS).write_text(portable(text) + "\n")

    def table(self) -> rich.table.Table:
        """Give them for the terminal, what is not as expected in red."""
        table = _table(self.outcomes).terminal()
        for one, row in zip(self.outcomes, table.rows, strict=True):
            row.style = None if one.met else "red"
        return table

    def _markdown(self) -> Iterator[str]:
        yield f"# Fault matrix, {self.begun:%Y-%m-%d %H:%M} UTC\n\n{self.verdict}.\n\n{_HOW}"
        for place in Place:
            here = [one for one in self.outcomes if one.place == place]
            if here:
                yield f"## {place.value[0].upper()}{place.value[1:]}\n"
                yield _table(here).markdown()
        yield from _listed("Short of what is promised", _shorts(self.outcomes))
        wrong = [f"{one.cell}: {'; '.join(one.complaints)}" for one in self.outcomes if not one.met]
        yield from _listed("Not as expected", wrong)
        yield from _listed("Setting", [f"{key}: {value}" for key, value in self.setting.items()])


def read_outcomes(folder: Path) -> list[Outcome]:
    """Read what a run has written; none where it has not got so far."""
    file = folder / RESULTS
    values: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"cells": []}
    return [Outcome(**one) for one in values["cells"]]


def _cells(one: Outcome) -> list[str]:
    """Give a row's texts."""
    return [
        one.fault,
        one.work,
        one.mode,
        one.outcome,
        _seconds(one.recovery_s),
        _seconds(one.end_s),
        f"{one.again_bytes:,}",
        f"{one.lost_bytes:,}",
        "no" if one.complaints else "yes, short" if one.short else "yes",
    ]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _table(outcomes: Sequence[Outcome]) -> Table:
    rows = [_cells(one) for one in outcomes]
    return Table(_HEADINGS, rows, text_columns=_NUMBERS, ending_text_columns=1, text_wraps=True)


def _shorts(outcomes: Sequence[Outcome]) -> list[str]:
    """Give each shortcoming once, with the cells that show it."""
    cells: dict[str, list[str]] = {}
    for one in outcomes:
        if one.short:
            cells.setdefault(one.short, []).append(one.cell)
    return [f"{short} ({'; '.join(names)})" for short, names in cells.items()]


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"
