# SPDX-License-Identifier: GPL-2.0-only
"""Jobs on real servers that fail: each cell of the fault matrix ends as docs/promises.md says.

A cell is a fault, a kind of work and a mode. What differs by the kind of call, by reply or by state
alone is a scenario (test_scenarios*.py). ./nfsmulti faults runs both, and makes their tables.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import or_skip
from fault_cells import Cell, Expected, Fault, Outcome, judged
from faulty_servers import ADDRESS_AWAY, LINK_DOWN, SERVER_AWAY, GuestFault, LabFault

from nfsmulti.fiorun import Engine
from nfsmulti.lab.faults import FaultKind

_SILENT = "server not responding, still trying"
_STOPS = f"connection lost with|{_SILENT}"
_MENDED = ("bytes again", "all of it is durable now")
_AGAIN = Expected("done", first=_STOPS, says=("server OK",))
_HELD = Expected("held", first=_STOPS, says=("giving up",))
_MOVED = Expected("done", first="does not answer", moves=True)
_LOST = Expected("failed", errno.EIO, says=("bytes of",), loses=True)
_TIMED_OUT = Expected("failed", errno.ETIMEDOUT, first="no answer within")
_ENDS: Mapping[str, Expected] = {
    "done": Expected("done"),
    "again": _AGAIN,
    "silent": replace(_AGAIN, first=_SILENT),
    "without it": Expected("done", says=("cannot reach port",)),
    "mended": Expected("done", says=_MENDED),
    "moved": _MOVED,
    "moved, mended": replace(_MOVED, says=_MENDED),
    "moved slowly": replace(
        _MOVED,
        short="fio reopens the file before it verifies, and asks the dead path first: that takes"
        " eight seconds, where `timeo` promises half a second",
    ),
    "held": _HELD,
    "held silent": replace(_HELD, first=_SILENT),
    "no way back": replace(
        _HELD,
        short="the link came back, but rdma_rxe of Linux 6.1 makes no new connection after a send"
        " while the link was down: the job keeps waiting instead of continuing",
    ),
    "lost": _LOST,
    "timed out": _TIMED_OUT,
    "timed out, lost": replace(_TIMED_OUT, loses=True),
    # The server may be back in time for the COMMIT.
    "timed out, lost?": replace(_TIMED_OUT, loses=None),
    "unreachable": Expected("failed", errno.ECONNREFUSED, says=("cannot reach port",)),
}

# By work and mode; the first of each row is a quick test's.
Row = tuple[Fault, Mapping[str, str]]
_KILL, _STOP, _DROP, _ADDRESS = (
    FaultKind.KILL, FaultKind.STOP, FaultKind.DROP, FaultKind.ADDRESS,
)  # fmt: skip
_LAB: Sequence[Row] = [
    (
        LabFault("server killed, back after 0.5 s", _KILL, 0.5),
        {
            "write, hard": "lost",
            "write sync, soft": "done",
            "write hold, failover": "mended",
            "create, hard": "done",
        },
    ),
    (
        LabFault("NFSv4.1: server killed, back after 0.5 s", _KILL, 0.5, version="4.1"),
        {"write hold, hard": "mended", "write, hard": "lost", "create, hard": "done"},
    ),
    (
        LabFault("server killed, back after 2 s", _KILL, 2.0),
        {"read, failover": "moved", "write, soft": "timed out, lost", "remove, hard": "again"},
    ),
    (
        LabFault("server killed for good", _KILL),
        {
            "read, hard": "held",
            "write sync, failover": "moved",
            "write hold, failover": "moved, mended",
            "create, soft": "timed out",
            "create, failover": "moved",
        },
    ),
    (
        LabFault("server stopped (SIGSTOP) for 5 s", _STOP, 5.0),
        {"write, hard": "silent", "read, soft": "timed out", "write, failover": "lost"},
    ),
    (
        LabFault("packets dropped both ways for 2 s", _DROP, 2.0),
        {
            "write, hard": "silent",
            "write, soft": "timed out, lost?",
            "write, failover": "moved",
            "create, hard": "silent",
            "remove, failover": "moved",
        },
    ),
    (
        LabFault("address removed", _ADDRESS),
        {"read, hard": "held silent", "read, failover": "moved", "write, failover": "moved slowly"},
    ),
    (LabFault("address removed for 2 s", _ADDRESS, 2.0), {"write, hard": "silent"}),
    (
        LabFault("one of four paths dead from the start", _KILL, before=True, paths=4),
        {"read, hard": "unreachable", "write, failover": "without it"},
    ),
    (
        LabFault("one of four paths dead mid-run", _KILL, paths=4),
        {"write, failover": "lost", "remove, failover": "moved"},
    ),
    (
        LabFault(
            "one of four paths flapping (0.8 s, three times)", _DROP, 0.8, times=3, paths=4,
            options={"rate_iops": 16},
        ),
        {"write, failover": "moved"},
    ),
]  # fmt: skip
_GUEST: Sequence[Row] = [
    (
        GuestFault("knfsd stopped, started after 2 s", SERVER_AWAY, 2.0),
        {"write, hard": "lost", "create, hard": "again"},
    ),
    (GuestFault("link down for 2 s", LINK_DOWN, 2.0), {"read, hard": "no way back"}),
    (GuestFault("address removed", ADDRESS_AWAY), {"write, failover": "moved slowly"}),
    (
        GuestFault("address removed for 2 s", ADDRESS_AWAY, 2.0, turns=3),
        {"read, failover": "moved"},
    ),
]


def _cells(rows: Sequence[Row], transport: str) -> dict[str, Cell]:
    """Return the cells of these rows by their names, which nfsmulti/faults.py reads."""
    cells = {}
    for fault, ends in rows:
        for what, end in ends.items():
            work, mode = what.split(", ")
            cells[f"{fault.name}, {what}, {transport}"] = Cell(fault, work, mode, _ENDS[end])
    return cells


_TCP, _RDMA = _cells(_LAB, "tcp"), _cells(_GUEST, "rdma")
_QUICK = _cells([(fault, dict([*ends.items()][:1])) for fault, ends in _LAB], "tcp")


def _run(cell: Cell, engine: Engine, folder: Path) -> Outcome:
    return judged(cell, cell.fault.run(cell, engine, folder))


def _as_expected(item: pytest.Item, cell: Cell, run: Callable[[], Outcome]) -> None:
    """Expect it, and note what came of it for the tables of ./nfsmulti faults."""
    with or_skip():
        outcome = run()
    item.user_properties += [("outcome", outcome.text), ("short", cell.expected.short)]
    told = "\n  ".join([*outcome.complaints, outcome.command, *outcome.said])
    assert not outcome.complaints, told


@contextlib.contextmanager
def _under_way(
    names: Sequence[str], engine: Engine, folder: Path
) -> Iterator[dict[str, Future[Outcome]]]:
    """Run cells in their order, four at a time, as nearly all they do is wait.

    Each runs whole in one of the pool's threads: the processes that it starts end with the thread.
    """
    with ThreadPoolExecutor(4, thread_name_prefix="cell") as pool:
        try:
            yield {
                name: pool.submit(_run, _TCP[name], engine, folder / str(number))
                for number, name in enumerate(names)
            }
        finally:
            pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Outcome]]]:
    """Begin the cells of the tests that are to run, before the first of them asks for its own."""
    ours = [item for item in request.session.items if item.path == Path(__file__)]
    wanted = {item.callspec.params["cell"] for item in ours if hasattr(item, "callspec")}
    names = [name for name in _TCP if name in wanted]
    with _under_way(names, engine, tmp_path_factory.mktemp("cells")) as running:
        yield running


def _in_lab() -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.full] * (name not in _QUICK)) for name in _TCP]


@pytest.mark.parametrize("cell", _in_lab())
def test_cell(request: pytest.FixtureRequest, runs: dict[str, Future[Outcome]], cell: str) -> None:
    _as_expected(request.node, _TCP[cell], runs[cell].result)


@pytest.mark.kernel_lab
@pytest.mark.parametrize("cell", _RDMA)
def test_cell_over_rdma(
    request: pytest.FixtureRequest, engine: Engine, tmp_path: Path, cell: str
) -> None:
    _as_expected(request.node, _RDMA[cell], lambda: _run(_RDMA[cell], engine, tmp_path / "cell"))
