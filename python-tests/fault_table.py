# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti faults and soak: run tests of servers that fail, and tell what came of them.

Of faults these are the fault matrix on real servers, and the scenarios in the simulator.
"""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import testrun
from nfsmulti import machine, texts
from nfsmulti.errors import HarnessError
from nfsmulti.kept import own_folder
from nfsmulti.paths import RESULTS, shown, write_whole
from nfsmulti.processes import run
from nfsmulti.screen import Screen, laid_out
from nfsmulti.texts import Table

_FILES = ("test_fault_matrix.py", "test_scenarios*.py")
_SERVERS = {"tcp": "nfs-ganesha, TCP", "rdma": "knfsd, RDMA"}
_MODES = ("hard", "soft", "failover")
_KEY = (
    "done: completed and verified; held: still waiting when interrupted, as `hard` promises; EIO,"
    " ETIMEDOUT, …: the job failed with that error; lost: data that may not be on the server, and"
    " was reported; \\*: short of a promise; ✗: not as expected. write is UNSTABLE WRITEs and a"
    " COMMIT, write sync FILE_SYNC ones; write hold has hold_writes. Every byte and entry was"
    " checked on the server, and fio's count against the engine's."
)


def faults(words: str, *, brief: bool, listed: bool, results: Path | None) -> None:
    """Run the chosen tests, and leave the tables of what came of them."""
    found = re.findall(r"[\w.:+-]+", words)
    if words and not found:
        raise _unknown(words)  # pytest's -k '' would choose all
    chosen = ["-k", " and ".join(found)] if found else []
    files = testrun.files(*_FILES)
    here = testrun.Part(
        "faults", "not kernel_lab and not full" if brief else "not kernel_lab", files
    )
    parts = [here] if brief else [here, testrun.Part("faults-guest", "kernel_lab", files)]
    if listed:
        every = testrun.Part("faults", "not full" if brief else "", files)
        done = run(every.command([*chosen, "--collect-only", "-q"]), timeout=60)
        names = [line.split("::", 1)[1] for line in done.stdout.splitlines() if "::" in line]
        if not names:
            raise _unknown(words)
        print(*(_CELL.sub(r"\1", name) for name in names), sep="\n")
        return
    begun = datetime.now(UTC)
    ended: list[_Ended] = []
    with own_folder(results, RESULTS / "faults") as folder:
        try:
            for part in parts:
                part.junit.unlink(missing_ok=True)
            statuses = testrun.run_parts(parts, [*chosen, "-q", "-r", "N"])
        finally:
            left = [part.junit for part in parts if part.junit.exists()]
            ended += [_Ended.read(one) for file in left for one in ET.parse(file).iter("testcase")]
            if ended:
                _write(folder / "report.md", begun, ended)
    if statuses == {testrun.NONE_CHOSEN}:
        raise _unknown(words)
    for status in statuses - {0, 1, testrun.NONE_CHOSEN}:
        raise HarnessError(f"pytest ended with status {status}, and {len(ended)} tests ran")
    sys.exit(any(one.trouble for one in ended))


def _unknown(words: str) -> HarnessError:
    return HarnessError(f"--filter='{words}': no test's name has all these words", "see --list")


SOAK = "NFSMULTI_SOAK"  # what is asked of the tests in test_soak.py, as JSON
_ON_DATA = "test_data_are_read_back_as_they_were_written"
_ON_ENTRIES = "test_entries_are_made_found_and_removed_once"
_PASS_SECONDS = 25  # a round, which writes and reads, is about a minute with what is between


def soak(
    minutes: int | None,
    seed: int | None,
    paths: int,
    nfsvers: str,
    entries: int | None,
    results: Path | None,
) -> None:
    """Run the test that soaks data, or entries, for as long as is asked; its status is ours."""
    if entries and (minutes, seed) != (None, None):
        raise HarnessError("--entries makes each entry once: leave out --minutes and --seed")
    if lacking := machine.missing_privileges():
        raise HarnessError(
            f"soak breaks the paths of a lab in namespaces, which is not permitted here: {lacking}",
            "run it as root, with CAP_SYS_ADMIN and CAP_NET_ADMIN",
        )
    with own_folder(results, RESULTS / "soak") as folder:
        asked = {
            "rounds": minutes or 20,
            "seconds": _PASS_SECONDS,
            "seed": 1 if seed is None else seed,
            "paths": paths,
            "version": None if nfsvers == "3" else nfsvers,
            "entries": entries or 0,
            "folder": str(folder),
        }
        # CI: what is missing is a failure.
        env = {SOAK: json.dumps(asked), "CI": "true"}
        (file,) = testrun.files("test_soak.py")
        part = testrun.Part("soak", "", [f"{file}::{_ON_ENTRIES if entries else _ON_DATA}"], env)
        (status,) = testrun.run_parts([part], ["-q", "-s", "--timeout=0"])
    if any(folder.iterdir()):
        print(f"{shown(folder)} holds the sums, the faults of each pass and fio's output.")
    sys.exit(status)


# --- what pytest leaves of a test ---


_CELL = re.compile(r"test_cell\w*\[(.+)\]")  # the name of a cell's test, and of the cell


@dataclass(frozen=True)
class _Ended:
    """A test that has ended: a cell's or a scenario's."""

    name: str
    cell: str  # fault, work, mode, transport; "": none
    outcome: str
    short: str
    trouble: str  # "": it ended as expected

    @classmethod
    def read(cls, case: ET.Element) -> _Ended:
        noted = {one.get("name"): one.get("value", "") for one in case.iter("property")}
        cell = _CELL.fullmatch(case.get("name", ""))
        name = cell[1] if cell else case.get("name", "")
        outcome, trouble = noted.get("outcome", ""), ""
        for skipped in case.iter("skipped"):
            outcome, trouble = texts.MISSING, f"not run: {name}: {skipped.get('message')}"
        for failed in (*case.iter("failure"), *case.iter("error")):
            text = failed.text or ""
            why = re.search(r"^E +(.*)", text, re.MULTILINE)
            outcome = f"✗ {outcome}"
            trouble = f"NOT AS EXPECTED: {name}: {why[1] if why else text.partition(chr(10))[0]}"
        return cls(name, name if cell else "", outcome, noted.get("short", ""), trouble)


# --- what is written ---


def _write(file: Path, begun: datetime, ended: Sequence[_Ended]) -> None:
    """Write the tables as Markdown, and print them."""
    cells = [one for one in ended if one.cell]
    tables = [table for transport in _SERVERS if (table := _grid(cells, transport)).rows]
    troubles = [one.trouble for one in ended if one.trouble]
    scenarios = [one for one in ended if not one.cell]
    good = sum(not one.trouble for one in scenarios)
    headline = (
        f"{len(ended) - len(troubles)} of {len(ended)} tests ended as expected;"
        f" {good} of these are scenarios in the simulator."
    )
    shorts = {
        short: "; ".join(one.cell for one in cells if one.short == short)
        for short in dict.fromkeys(one.short for one in cells if one.short)
    }
    setting = machine.versions()
    paragraphs = [
        "# What jobs do when servers and networks fail",
        headline,
        *(f"\\* {names}: {short}." for short, names in shorts.items()),
        *(f"- {trouble}" for trouble in troubles),
        *(table.markdown().rstrip() for table in tables),
        _KEY,
        f"{texts.moment(begun.isoformat())}, nfsmulti {setting['nfsmulti']}, {setting['fio']}.",
    ]
    write_whole(file, "\n\n".join(paragraphs) + "\n")
    out = Screen(soft_wrap=True)
    for table in tables:
        out.print(laid_out(table))
    out.print(*troubles, f"{headline} {shown(file)} has the tables.", sep="\n")


def _grid(cells: Sequence[_Ended], transport: str) -> Table:
    """Return a row for each fault on a server, and a column for each mode."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in cells:
        fault, work, mode, of = one.cell.rsplit(", ", 3)
        if of == transport:
            fields = found.setdefault(fault, {name: [] for name in _MODES})
            fields[mode].append(f"{work}: {one.outcome}{'*' * bool(one.short)}")
    rows = [[fault, *map("; ".join, fields.values())] for fault, fields in found.items()]
    columns = 1 + len(_MODES)
    return Table(["", *_MODES], rows, _SERVERS[transport], text_columns=columns, text_wraps=True)
