# SPDX-License-Identifier: GPL-2.0-only
"""Jobs on real servers that fail: each cell of the fault matrix ends as docs/promises.md says.

A cell is a fault, a kind of work and a mode. What differs by the kind of call, by reply or by state
alone is a scenario (test_scenarios*.py). ./nfsmulti faults runs both, and makes their tables.
"""

import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import kernel_nfsd
import pytest
from conftest import in_full, or_skip
from engine_helpers import eventually, stderr_of, traces
from judge import FILE, WORKS, Expected, Left, complaints, outcome
from lab_faults import FaultKind as Kind
from lab_faults import Faults

from jobs import Fio
from nfsmulti.fiorun import Engine, FioProcess, Options
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.pool import RDMA_PORT, ask_rdma

_END_SECONDS = 180.0  # what takes longer hangs
_HOLD_SECONDS = 1.0  # that a job is seen to go on waiting
_TURNS = 3
_CALLS_BEFORE = 10  # that a server has answered when the fault comes
_VICTIM = 1  # the path that is broken, counted from 0; there are two at least

# How a fault of the kernel's server begins, and how it ends. Without threads it has no connections.
_Acts = tuple[Callable[[], object], Callable[[], object]]
_SERVER_AWAY: _Acts = (kernel_nfsd.stop, kernel_nfsd.start)
_ADDRESS_AWAY: _Acts = (
    lambda: kernel_nfsd.set_address("delete", f"{ADDRESSES[_VICTIM]}/24"),
    lambda: kernel_nfsd.set_address("replace", f"{ADDRESSES[_VICTIM]}/24"),
)


@dataclass(frozen=True)
class _Fault:
    """What befalls a job under way, `times` times for some seconds, or for good (None).

    `before`: it is there before the job starts. There are as many addresses as `paths` says; by
    default two with failover, and else one: the one that is broken. `version` is that of NFS.
    """

    name: str
    kind: Kind | _Acts  # in a lab, or of the kernel's server
    seconds: float | None = None
    times: int = 1
    before: bool = False
    paths: int | None = None
    version: str | None = None


@dataclass(frozen=True)
class _Cell:
    fault: _Fault
    work: str
    mode: str
    expected: Expected

    @property
    def paths(self) -> int:
        return self.fault.paths or (2 if self.mode == "failover" else 1)

    @property
    def options(self) -> Options:
        """The options of its fio: failover notices silence soon, and soft where it shall."""
        gives_up = self.expected.outcomes[0].startswith("ETIMEDOUT")
        soft = 5 if gives_up else 75  # tenths of a second, twice
        return {
            **WORKS[self.work].options,
            self.mode: 1,
            "retrans": 1 if self.mode == "soft" else None,
            "timeo": {"hard": 10, "soft": soft, "failover": 5}[self.mode],
            "spread": "stripe" if self.paths > 1 else None,
            "trace": 1,
        }


@dataclass(frozen=True)
class _Place:
    """Servers and their export; how a cell's fault begins there, and how it ends."""

    fio: Fio
    pool: str
    export: Path
    options: Options  # of fio: let the fault come in time
    begin: Callable[[], object]
    end: Callable[[], object]
    sound: Callable[[], bool] = lambda: True  # whether a job that hung there tells of the engine


# --- faults of nfs-ganesha ---


@contextmanager
def _in_lab(kind: Kind, engine: Engine, cell: _Cell) -> Iterator[_Place]:
    """Yield a lab of the cell's own, which takes half a second.

    One server is behind all addresses, unless it is servers that fail: then each address has its
    own.
    """
    own = kind in (Kind.KILL, Kind.STOP)
    with Lab(LabConfig(addresses=max(2, cell.paths), one_server=not own)) as lab:
        faults, victim = Faults(lab), lab.server(_VICTIM)
        victim.kill()
        _await_second_after(time.time())
        started = time.time()
        victim.start()

        def end() -> None:
            if kind is Kind.KILL:
                _await_second_after(started)
            faults.end(_VICTIM)

        numbers = range(cell.paths) if cell.paths > 1 else (_VICTIM,)
        yield _Place(
            Fio(engine, enter=lab.command([]), env=lab.environment),
            ",".join(lab.path(number, version=cell.fault.version) for number in numbers),
            lab.export_dir,
            {"rate_iops": 16},
            lambda: faults.begin(kind, _VICTIM),
            end,
        )


def _await_second_after(moment: float) -> None:
    """Ganesha's write verifier is the second of its start, and shall be each start's own."""
    time.sleep(max(0.0, int(moment) + 1 - time.time()))


# --- faults of the kernel's server ---
# Client, server and device are on one machine there, and cells run one after the other. rdma_rxe
# hands packets between its own addresses over within itself, past any filter, so that none can be
# dropped. Where something is sent while an address is being removed, the device or the server may
# break and make no more connections, for anybody: the cell then tells nothing of the engine, and is
# run again.


@contextmanager
def _in_guest(acts: _Acts, engine: Engine, cell: _Cell) -> Iterator[_Place]:
    """Yield the guest's server, which is mended at the end, with its network."""
    export = Path(EXPORT)
    addresses = ADDRESSES if cell.paths > 1 else ADDRESSES[_VICTIM:]
    pool = ",".join(f"nfs://{address}{EXPORT}" for address in addresses)
    options: Options = {"rate_iops": 10, "proto": "rdma", "thread": 1}
    try:
        yield _Place(Fio(engine), pool, export, options, *acts, _connects)
    finally:
        shutil.rmtree(export / FILE, ignore_errors=True)  # if it is a directory
        (export / FILE).unlink(missing_ok=True)  # if it is a file
        kernel_nfsd.mend()


def _connects() -> bool:
    """Whether the server takes a connection over RDMA at an address that nothing befell."""
    asked = ask_rdma(ADDRESSES[0], RDMA_PORT, seconds=60.0)
    return asked is not None and not asked[1]


# --- a cell's run ---


def _run(cell: _Cell, engine: Engine, folder: Path) -> Left:
    """Run it, again where its place broke; fio's files lie in `folder`."""
    for turn in range(_TURNS):
        left, sound = _run_once(cell, engine, folder / str(turn))
        if sound:
            break
    return left


def _run_once(cell: _Cell, engine: Engine, folder: Path) -> tuple[Left, bool]:
    kind = cell.fault.kind
    at = _in_lab(kind, engine, cell) if isinstance(kind, Kind) else _in_guest(kind, engine, cell)
    with at as place:
        for name, content in WORKS[cell.work].before.items():
            (place.export / name).parent.mkdir(parents=True, exist_ok=True)
            (place.export / name).write_bytes(content)
        if cell.fault.before:
            place.begin()
        options = {**cell.options, **place.options}
        with place.fio.start(folder, pool=place.pool, options=options) as process:
            if not cell.fault.before:
                _until(process, lambda: traces(process) >= _CALLS_BEFORE)
                _break(cell, place, process)
            left = _finish(cell, process)
        paths = [place.export / FILE, *(place.export / FILE).rglob("*")]
        files = {path for path in paths if path.is_file()}
        left.files = {str(one.relative_to(place.export)): one.read_bytes() for one in files}
        return left, left.result.status is not None or place.sound()


def _break(cell: _Cell, place: _Place, process: FioProcess) -> None:
    seconds = cell.fault.seconds
    for number in range(cell.fault.times):
        if number:
            process.wait(seconds)
        # In the guest jobs are threads of this process, and stand still meanwhile: so the fault
        # comes in their middle on a slow machine, too.
        process.signal(signal.SIGSTOP)
        place.begin()
        process.signal(signal.SIGCONT)
        if seconds is not None:
            _meets(cell, process, seconds)
            place.end()


def _meets(cell: _Cell, process: FioProcess, seconds: float) -> None:
    """Let the fault last so long, and until the job has met it, which may stand still."""
    process.wait(seconds)
    _until(process, lambda: re.search(cell.expected.first, stderr_of(process)))


def _finish(cell: _Cell, process: FioProcess) -> Left:
    """Wait for the end; send SIGINT where it is held, once it has said so and waits on."""
    signalled = False
    if "held" in cell.expected.outcomes:
        _meets(cell, process, _HOLD_SECONDS)
        process.wait(_HOLD_SECONDS)
        if signalled := process.running:
            process.signal(signal.SIGINT)
    return Left(process.result(_END_SECONDS), signalled)


def _until(process: FioProcess, what: Callable[[], object]) -> None:
    eventually(lambda: not process.running or what(), _END_SECONDS)


# --- the cells ---

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


# By fault; by work and mode. The first of each fault is a quick test's.
_Rows = Mapping[_Fault, Mapping[str, str]]
_LAB: _Rows = {
    _Fault("server killed, back after 0.5 s", Kind.KILL, 0.5): {
        "write, hard": "lost",
        "write sync, soft": "done",
        "write hold, failover": "mended",
        "create, hard": "done",
    },
    _Fault("NFSv4.1: server killed, back after 0.5 s", Kind.KILL, 0.5, version="4.1"): {
        "write hold, hard": "mended",
        "write, hard": "lost",
        "create, hard": "done",
    },
    _Fault("server killed, back after 2 s", Kind.KILL, 2.0): {
        "read, failover": "moved",
        "write, soft": "timed out, lost",
        "remove, hard": "again",
    },
    _Fault("server killed for good", Kind.KILL): {
        "read, hard": "held",
        "write sync, failover": "moved",
        "write hold, failover": "moved, mended",
        "create, soft": "timed out",
        "create, failover": "moved",
    },
    _Fault("server stopped (SIGSTOP) for 5 s", Kind.STOP, 5.0): {
        "write, hard": "silent",
        "read, soft": "timed out",
        "write, failover": "lost",
    },
    _Fault("packets dropped both ways for 2 s", Kind.DROP, 2.0): {
        "write, hard": "silent",
        "write, soft": "timed out, lost?",
        "write, failover": "moved",
        "create, hard": "silent",
        "remove, failover": "moved",
    },
    _Fault("address removed", Kind.ADDRESS): {
        "read, hard": "held silent",
        "read, failover": "moved",
        "write, failover": "moved slowly",
    },
    _Fault("address removed for 2 s", Kind.ADDRESS, 2.0): {"write, hard": "silent"},
    _Fault("one of four paths dead from the start", Kind.KILL, before=True, paths=4): {
        "read, hard": "unreachable",
        "write, failover": "without it",
    },
    _Fault("one of four paths dead mid-run", Kind.KILL, paths=4): {
        "write, failover": "lost",
        "remove, failover": "moved",
    },
    _Fault("one of four paths flapping (0.8 s, three times)", Kind.DROP, 0.8, times=3, paths=4): {
        "write, failover": "moved"
    },
}
_GUEST: _Rows = {
    _Fault("knfsd stopped, started after 2 s", _SERVER_AWAY, 2.0): {"write, hard": "lost"},
    _Fault("address removed for 2 s", _ADDRESS_AWAY, 2.0): {"read, failover": "moved"},
}


def _cells(rows: _Rows, transport: str) -> dict[str, _Cell]:
    """Return the cells of these rows by their names, which fault_table.py reads."""
    return {
        f"{fault.name}, {work}, {mode}, {transport}": _Cell(fault, work, mode, _ENDS[end])
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
            name: pool.submit(_run, cell, engine, folder / str(number))
            for number, (name, cell) in enumerate(_TCP.items())
            if f"test_cell[{name}]" in chosen
        }
        pool.shutdown(cancel_futures=True)


def _as_expected(item: pytest.Item, cell: _Cell, run: Callable[[], Left]) -> None:
    """Expect it, and note what came of it for the tables of ./nfsmulti faults."""
    with or_skip():
        left = run()
    item.user_properties += [("outcome", outcome(left)), ("short", cell.expected.short)]
    victim = min(_VICTIM, cell.paths - 1)
    found = list(complaints(WORKS[cell.work], left, cell.expected, victim))
    assert not found, "\n  ".join([*found, left.result.command, *left.said])


@pytest.mark.parametrize("cell", [name if name in _QUICK else in_full(name) for name in _TCP])
def test_cell(request: pytest.FixtureRequest, runs: Mapping[str, Future[Left]], cell: str) -> None:
    _as_expected(request.node, _TCP[cell], runs[cell].result)


@pytest.mark.kernel_lab
@pytest.mark.parametrize("cell", _RDMA)
def test_cell_over_rdma(
    request: pytest.FixtureRequest, engine: Engine, tmp_path: Path, cell: str
) -> None:
    _as_expected(request.node, _RDMA[cell], lambda: _run(_RDMA[cell], engine, tmp_path))
