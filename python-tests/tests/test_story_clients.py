# SPDX-License-Identifier: GPL-2.0-only
"""run clients: what its page tells, what it asks before it runs, and runs of it in a lab."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import made_runs
import pytest
from conftest import call_harness, needs_privileges, or_skip, refusal
from made_runs import report_of

from nfsmulti.fiorun import ConnectionStats
from nfsmulti.run import clients
from nfsmulti.summary import Clients, Summary
from servers.scripted import ScriptedServer

_SHORT = {"NFSMULTI_CELL_SECONDS": "0.5"}

# --- what became of a cell's clients ---


def _line(job: str = "clients", ops: int = 0, **more: Any) -> ConnectionStats:
    """Return a connection's line; what is not given is 0, or nothing."""
    fields = ConnectionStats.__dataclass_fields__.items()
    none = {
        name: "" if one.type == "str" else 0
        for name, one in fields
        if one.type in ("str", "int", "float")
    }
    return ConnectionStats(**{**none, "job": job, "read_ops": ops, **more})


def test_the_slowest_client_is_told_in_parts_of_the_mean_beside_jains_index() -> None:
    """Other jobs' connections are nobody's clients."""
    lines = [_line(ops=30), _line(ops=10), _line(ops=0), _line("neighbours", 900)]
    assert clients.figures(lines) == Clients(3, 2, 0.0, 1600 / 3000)
    assert clients.figures(lines[:2]) == Clients(2, 2, 0.5, 0.8)
    assert clients.figures([_line("job", 5)]) is None


# --- the page ---


def test_the_answer_tells_of_the_most_clients_how_many_are_served_and_how_evenly() -> None:
    text = report_of(made_runs.clients())
    assert re.search(
        r"1,000 of 1,000 clients are served: 8\d,\d{3} IOPS, p99 \d+\.\d ms; the slowest does 12 %"
        r" of the mean\.", text,
    )  # fmt: skip
    rows = re.findall(r"\| ([\d,]+ of [\d,]+ clients) \| [\d,]+ ± ", text)
    assert rows == [f"{n} of {n} clients" for n in ("1", "10", "100", "1,000")]


# --- before it runs ---


def test_more_clients_than_a_server_in_use_may_take_need_a_yes(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        words = ["clients", "--clients=300", f"--pool={server.pool()}", f"--results={tmp_path}"]
        assert "300 clients are more than a server in use may have room for" in refusal(
            "run", *words
        )
    assert not [*tmp_path.iterdir()]


# --- a run ---


def _ran(folder: Path, *words: str) -> Summary:
    """Run it in the lab."""
    needs_privileges()
    with or_skip():
        done = call_harness(
            "run", "clients", "--quick", "--repeat=1", f"--results={folder}", *words
        )
    assert done.status == 0, done.stdout + done.stderr
    (run,) = (folder / "clients").iterdir()
    return Summary.load(run)


def test_a_run_in_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _SHORT.items():
        monkeypatch.setenv(name, value)
    summary = _ran(tmp_path, "--clients=2,20", "--version=4.1")
    counts = {cell.factors["clients"]: cell.clients for cell in summary.done}
    assert {count: (one.asked, one.served) for count, one in counts.items() if one} == {
        2: (2, 2), 20: (20, 20),
    }  # fmt: skip
    assert {cell.connections for cell in summary.done} == {2, 20}
