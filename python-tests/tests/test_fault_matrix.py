# SPDX-License-Identifier: GPL-2.0-only
"""Jobs on real servers that fail: each cell of the fault matrix ends as docs/promises.md says.

A cell is a fault, a kind of work and a mode. What differs by the kind of call, by reply or by state
alone is a scenario (test_scenarios*.py). ./nfsmulti faults runs both, and makes their tables.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import in_full, or_skip
from fault_cells import ADDRESS_AWAY, SERVER_AWAY, Acts, Cell, Fault, in_guest, in_lab
from judge import Expected, Left, outcome
from lab_faults import FaultKind as Kind

from nfsmulti.fiorun import Engine

_SILENT = "server not responding, still trying"
_STOPS = f"connection lost with|{_SILENT}"
_MENDED = ("bytes again", "all held data is durable now")
_AGAIN = Expected(first=_STOPS, says=("server OK",), resends=True)
_HELD = Expected(("held",), _STOPS, ("giving up",))
_MOVED = Expected(first="does not answer", moves=True)
_TIMED_OUT = Expected(("ETIMEDOUT",), "no answer within")
_ENDS: Mapping[str, Expected] = {
    "done": Expected(),
    "again": _AGAIN,
    "silent": replace(_AGAIN, first=_SILENT),
    "without it": Expected(says=("cannot reach port",)),
    "mended": Expected(says=_MENDED),
    "moved": _MOVED,
    "moved, mended": replace(_MOVED, says=_MENDED),
    "moved slowly": replace(
        _MOVED,
        short="fio reopens the file before it verifies, and asks the dead path first: that takes"
        " eight seconds, where `timeo` promises half a second",
    ),
    "held": _HELD,
    "held silent": replace(_HELD, first=_SILENT),
    "lost": Expected(("EIO, lost",), says=("bytes of",)),
    "timed out": _TIMED_OUT,
    "timed out, lost": replace(_TIMED_OUT, outcomes=("ETIMEDOUT, lost",)),
    # The server may be back in time for the COMMIT.
    "timed out, lost?": replace(_TIMED_OUT, outcomes=("ETIMEDOUT, lost", "ETIMEDOUT")),
    "unreachable": Expected(("ECONNREFUSED",), says=("cannot reach port",)),
}


def _lab(name: str, kind: Kind, seconds: float | None = None, **words: Any) -> Fault:
    return Fault(name, partial(in_lab, kind), seconds, **words)


def _guest(name: str, acts: Acts, seconds: float) -> Fault:
    return Fault(name, partial(in_guest, acts), seconds)


# By fault; by work and mode. The first of each fault is a quick test's.
Rows = Mapping[Fault, Mapping[str, str]]
_LAB: Rows = {
    _lab("server killed, back after 0.5 s", Kind.KILL, 0.5): {
        "write, hard": "lost",
        "write sync, soft": "done",
        "write hold, failover": "mended",
        "create, hard": "done",
    },
    _lab("NFSv4.1: server killed, back after 0.5 s", Kind.KILL, 0.5, version="4.1"): {
        "write hold, hard": "mended",
        "write, hard": "lost",
        "create, hard": "done",
    },
    _lab("server killed, back after 2 s", Kind.KILL, 2.0): {
        "read, failover": "moved",
        "write, soft": "timed out, lost",
        "remove, hard": "again",
    },
    _lab("server killed for good", Kind.KILL): {
        "read, hard": "held",
        "write sync, failover": "moved",
        "write hold, failover": "moved, mended",
        "create, soft": "timed out",
        "create, failover": "moved",
    },
    _lab("server stopped (SIGSTOP) for 5 s", Kind.STOP, 5.0): {
        "write, hard": "silent",
        "read, soft": "timed out",
        "write, failover": "lost",
    },
    _lab("packets dropped both ways for 2 s", Kind.DROP, 2.0): {
        "write, hard": "silent",
        "write, soft": "timed out, lost?",
        "write, failover": "moved",
        "create, hard": "silent",
        "remove, failover": "moved",
    },
    _lab("address removed", Kind.ADDRESS): {
        "read, hard": "held silent",
        "read, failover": "moved",
        "write, failover": "moved slowly",
    },
    _lab("address removed for 2 s", Kind.ADDRESS, 2.0): {"write, hard": "silent"},
    _lab("one of four paths dead from the start", Kind.KILL, before=True, paths=4): {
        "read, hard": "unreachable",
        "write, failover": "without it",
    },
    _lab("one of four paths dead mid-run", Kind.KILL, paths=4): {
        "write, failover": "lost",
        "remove, failover": "moved",
    },
    _lab("one of four paths flapping (0.8 s, three times)", Kind.DROP, 0.8, times=3, paths=4): {
        "write, failover": "moved"
    },
}
_GUEST: Rows = {
    _guest("knfsd stopped, started after 2 s", SERVER_AWAY, 2.0): {"write, hard": "lost"},
    _guest("address removed for 2 s", ADDRESS_AWAY, 2.0): {"read, failover": "moved"},
}


def _cells(rows: Rows, transport: str) -> dict[str, Cell]:
    """Return the cells of these rows by their names, which fault_table.py reads."""
    return {
        f"{fault.name}, {work}, {mode}, {transport}": Cell(fault, work, mode, _ENDS[end])
        for fault, ends in rows.items()
        for what, end in ends.items()
        for work, mode in (what.split(", "),)
    }


_TCP, _RDMA = _cells(_LAB, "tcp"), _cells(_GUEST, "rdma")
_QUICK = {f"{fault.name}, {next(iter(ends))}, tcp" for fault, ends in _LAB.items()}


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Left]]]:
    """Run the cells of the tests that are to run, four at a time: nearly all they do is wait.

    Each runs whole in one of the pool's threads: the processes that it starts end with the thread.
    """
    chosen = {item.name for item in request.session.items}
    folder = tmp_path_factory.mktemp("cells")
    with ThreadPoolExecutor(4, thread_name_prefix="cell") as pool:
        yield {
            name: pool.submit(cell.run, engine, folder / str(number))
            for number, (name, cell) in enumerate(_TCP.items())
            if f"test_cell[{name}]" in chosen
        }
        pool.shutdown(cancel_futures=True)


def _as_expected(item: pytest.Item, cell: Cell, run: Callable[[], Left]) -> None:
    """Expect it, and note what came of it for the tables of ./nfsmulti faults."""
    with or_skip():
        left = run()
    item.user_properties += [("outcome", outcome(left)), ("short", cell.expected.short)]
    found = cell.complaints(left)
    assert not found, "\n  ".join([*found, left.result.command, *left.said])


@pytest.mark.parametrize("cell", [name if name in _QUICK else in_full(name) for name in _TCP])
def test_cell(request: pytest.FixtureRequest, runs: Mapping[str, Future[Left]], cell: str) -> None:
    _as_expected(request.node, _TCP[cell], runs[cell].result)


@pytest.mark.kernel_lab
@pytest.mark.parametrize("cell", _RDMA)
def test_cell_over_rdma(
    request: pytest.FixtureRequest, engine: Engine, tmp_path: Path, cell: str
) -> None:
    _as_expected(request.node, _RDMA[cell], lambda: _RDMA[cell].run(engine, tmp_path))
