# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti faults: runs the tests of servers that fail, and writes their tables.

These are the fault matrix on real servers, and the scenarios in the simulator.
"""

from __future__ import annotations

import ast
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nfsmulti import testrun, texts
from nfsmulti.errors import HarnessError
from nfsmulti.folders import own_folder
from nfsmulti.machine import versions
from nfsmulti.paths import RESULTS, shown, write_whole
from nfsmulti.processes import run
from nfsmulti.screen import Screen, laid_out
from nfsmulti.texts import Table

_FILES = ["test_fault_matrix.py", "test_scenarios*.py"]
_SERVERS = {"tcp": "nfs-ganesha, TCP", "rdma": "knfsd, RDMA"}
_MODES = ("hard", "soft", "failover")
_KEY = (
    "done: completed and verified; held: still waiting when interrupted, as `hard` promises; EIO,"
    " ETIMEDOUT, …: the job failed with that error; lost: data that may not be on the server, and"
    " was reported; \\*: short of a promise; ✗: not as expected. An I/O that took a"
    " second or more is told. write is UNSTABLE WRITEs and a COMMIT, write sync FILE_SYNC ones;"
    " write hold has hold_writes. Every byte and entry was checked on the server, and fio's count"
    " against the engine's."
)


@dataclass(frozen=True)
class Ended:
    """A test that has ended; `outcome` and `short` are a cell's own words."""

    file: str
    name: str
    outcome: str = ""
    short: str = ""
    failed: str = ""
    skipped: str = ""


def faults(words: str, *, brief: bool, listed: bool, results: Path | None) -> None:
    """Run the chosen tests, and leave the tables of what came of them."""
    chosen = ["-k", " and ".join(re.findall(r"[\w.:+-]+", words))] if words else []
    part = testrun.Part("faults", "not full" if brief else "", testrun.files(*_FILES))
    if listed:
        _list(part.command([*chosen, "--collect-only", "-q"]), words)
        return
    begun = datetime.now(UTC)
    with own_folder(results, RESULTS / "faults") as folder:
        status = None
        try:
            with testrun.under_way(part, [*chosen, "-q", "-r", "N"]) as process:
                status = process.wait()
        finally:
            ended = _read(part.junit)
            if ended:
                _write(folder / "report.md", begun, ended)
        if status == testrun.NONE_CHOSEN:
            raise _unknown(words)
        if status not in (0, 1) or not ended:
            raise HarnessError(f"pytest ended with status {status}, and {len(ended)} tests ran")
    sys.exit(any(one.failed or one.skipped for one in ended))


def _unknown(words: str) -> HarnessError:
    return HarnessError(f"--filter='{words}': no test's name has all these words", "see --list")


def _list(command: Sequence[str], words: str) -> None:
    done = run(command, timeout=60)
    names = [line.split("::", 1)[1] for line in done.stdout.splitlines() if "::" in line]
    if not names:
        raise _unknown(words)
    print(*(_cell_of(name) or name for name in names), sep="\n")


def _cell_of(name: str) -> str:
    """Return the name of a test's cell of the matrix; "": it has none."""
    found = re.fullmatch(r"test_cell\w*\[(.+)\]", name)
    return found[1] if found else ""


def _read(junit: Path) -> list[Ended]:
    """Read what came of the tests, as far as they got."""
    return [_ended(case) for case in ET.parse(junit).iter("testcase")] if junit.exists() else []


def _ended(case: ET.Element) -> Ended:
    noted = {one.get("name"): one.get("value", "") for one in case.iter("property")}
    failed = [one.text or "" for one in case if one.tag in _FAILURES]
    skipped = [one.get("message", "") for one in case.iter("skipped")]
    return Ended(
        file=case.get("classname", "").rpartition(".")[2],
        name=case.get("name", ""),
        outcome=noted.get("outcome", ""),
        short=noted.get("short", ""),
        failed="".join(failed),
        skipped="".join(skipped),
    )


_FAILURES = ("failure", "error")


# --- what is written ---


def _write(file: Path, begun: datetime, ended: Sequence[Ended]) -> None:
    """Write the tables as Markdown, and print them."""
    cells = [one for one in ended if _cell_of(one.name)]
    tables = [table for of in _SERVERS if (table := _grid(cells, of)).rows]
    tables += [_scenarios([one for one in ended if not _cell_of(one.name)])]
    tables = [table for table in tables if table.rows]
    bad = [one for one in ended if one.failed or one.skipped]
    setting = versions()
    headline = f"{len(ended) - len(bad)} of {len(ended)} tests of faults ended as expected."
    lines = [
        "# What jobs do when servers and networks fail",
        f"{headline} {texts.moment(begun.isoformat())}; nfsmulti {setting['nfsmulti']},"
        f" {setting['fio']}.",
        *_shorts(cells),
        _KEY,
        *(table.markdown().rstrip() for table in tables),
        *(f"- {_told(one)}" for one in bad),
    ]
    write_whole(file, "\n\n".join(lines) + "\n")
    out = Screen(soft_wrap=True)
    for table in tables:
        out.print(laid_out(table), "")
    for one in bad:
        out.print(_told(one))
    out.print(f"{headline} {shown(file)} has the tables.")


def _told(one: Ended) -> str:
    """Say what was not as expected, or why a test did not run."""
    name = _cell_of(one.name) or one.name
    why = [line for line in one.failed.splitlines() if line.startswith("E ")]
    what = why[0].removeprefix("E").strip() if why else one.failed.strip().partition("\n")[0]
    return f"NOT AS EXPECTED: {name}: {what}" if one.failed else f"not run: {name}: {one.skipped}"


def _grid(cells: Sequence[Ended], transport: str) -> Table:
    """Return a row for each fault on a server, and a column for each mode."""
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for one in cells:
        fault, work, mode, of = _cell_of(one.name).rsplit(", ", 3)
        if of == transport:
            modes = found.setdefault(fault, {name: defaultdict(list) for name in _MODES})
            modes[mode][_outcome(one)].append(work)
    rows = [
        [fault, *(_field(outcomes) for outcomes in modes.values())]
        for fault, modes in found.items()
    ]
    columns = 1 + len(_MODES)
    title = _SERVERS[transport]
    return Table(["", *_MODES], rows, title, text_columns=columns, text_wraps=True)


def _outcome(one: Ended) -> str:
    if one.skipped:
        return texts.MISSING
    return f"{'✗ ' * bool(one.failed)}{one.outcome or 'failed'}{'*' * bool(one.short)}"


def _field(outcomes: dict[str, list[str]]) -> str:
    return "; ".join(f"{', '.join(works)}: {text}" for text, works in outcomes.items())


def _scenarios(ended: Sequence[Ended]) -> Table:
    """Return a row for each file of scenarios: what it is about, and how many ended as written."""
    counts = Counter(one.file for one in ended)
    good = Counter(one.file for one in ended if not (one.failed or one.skipped))
    rows = [[_about(file), str(counts[file]), str(good[file])] for file in counts]
    return Table(["", "scenarios", "as expected"], rows, "in the simulator")


def _about(file: str) -> str:
    (path,) = testrun.files(f"{file}.py")
    text = ast.get_docstring(ast.parse(Path(path).read_text())) or file
    return text.partition("\n")[0]


def _shorts(cells: Sequence[Ended]) -> list[str]:
    """Return each shortcoming once, with the cells that show it."""
    found = defaultdict(list)
    for one in cells:
        if one.short:
            found[one.short].append(_cell_of(one.name))
    return [f"\\* {'; '.join(names)}: {short}." for short, names in found.items()]
