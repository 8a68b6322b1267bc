# SPDX-License-Identifier: GPL-2.0-only
"""The tests' own servers, nfs-sink and the scripted one, by a client that can also do wrong.

What would hide a fault of the engine if it were wrong: that the core of both, which the simulator
has as well, is sound and strict, and that what is ordered is sent and counted.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from engine_helpers import eventually
from xdrlib3 import Unpacker

from jobs import Fio
from nfsmulti.bench.sink import Sink
from nfsmulti.fiorun import Engine, FioResult, Option
from nfsmulti.processes import run
from servers.rpc import (
    CALL,
    NFS,
    RPC_VERSION,
    AcceptStat,
    Fixed,
    Hyper,
    RpcClient,
    RpcError,
    accepted,
    mark,
    message,
    record,
    xdr,
)
from servers.scripted import (
    Answer,
    Call,
    Nfs,
    Nfs4,
    ScriptedServer,
    Stable,
    Status4,
    Terms,
    on,
)

_TIB = 1 << 40
_SECONDS = 60.0

# --- a client of NFSv4.1 that does what it is told ---

_BOTH = 3  # share access, to read and to write


def op(operation: Nfs4, *arguments: int | bytes) -> bytes:
    return xdr(operation.value, *arguments)


def path(*names: str) -> list[bytes]:
    return [op(Nfs4.PUTROOTFH), *(op(Nfs4.LOOKUP, name.encode()) for name in names)]


@dataclass
class Reply:
    """The results of a compound: its status, and of each operation the status and what follows."""

    status: int
    results: list[tuple[Nfs4 | int, int, Any]]

    def of(self, operation: Nfs4) -> Any:
        return next(given for which, _, given in self.results if which is operation)


def _open(source: Unpacker) -> bytes:
    stateid = source.unpack_fopaque(16)
    source.unpack_fopaque(24)
    source.unpack_array(source.unpack_uint)
    assert source.unpack_uint() == 0  # no delegation
    return stateid


def _create_session(source: Unpacker) -> bytes:
    session = source.unpack_fopaque(16)
    source.unpack_fopaque(8 + 28 + 28)
    return session


def _exchange(source: Unpacker) -> tuple[int, int]:
    client, sequence = source.unpack_uhyper(), source.unpack_uint()
    source.unpack_fopaque(4 + 4 + 8)
    for _ in range(2):
        source.unpack_opaque()
    source.unpack_uint()
    return client, sequence


_RESULTS: dict[Nfs4, Callable[[Unpacker], Any]] = {
    Nfs4.SEQUENCE: lambda source: source.unpack_fopaque(36),
    Nfs4.OPEN: _open,
    Nfs4.CREATE_SESSION: _create_session,
    Nfs4.EXCHANGE_ID: _exchange,
    Nfs4.GETFH: lambda source: source.unpack_opaque(),
    Nfs4.CLOSE: lambda source: source.unpack_fopaque(16),
    Nfs4.READ: lambda source: (source.unpack_bool(), source.unpack_opaque()),
    Nfs4.WRITE: lambda source: (
        source.unpack_uint(),
        source.unpack_uint(),
        source.unpack_fopaque(8),
    ),
    Nfs4.COMMIT: lambda source: source.unpack_fopaque(8),
}


@dataclass
class Client41:
    """A connection to a port of 127.0.0.1, a client ID and a session."""

    port: int
    client: int = 0
    session: bytes = b""
    sequences: dict[int, int] = field(default_factory=dict)  # the last one of each slot

    def __post_init__(self) -> None:
        self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rpc.__exit__()

    def connect(self) -> None:
        """Make a connection, the former one is forgotten."""
        self._rpc = RpcClient("127.0.0.1", self.port, NFS, 4)

    def compound(self, *operations: bytes, minor: int = 1) -> Reply:
        call = xdr(b"tag!", minor, len(operations)) + b"".join(operations)
        source = Unpacker(self._rpc.call(1, call))
        status = source.unpack_uint()
        assert source.unpack_opaque() == b"tag!"
        results: list[tuple[Nfs4 | int, int, Any]] = []
        for _ in range(source.unpack_uint()):
            number, ended = source.unpack_uint(), source.unpack_uint()
            known = {one.value: one for one in Nfs4}.get(number, number)
            decode = _RESULTS.get(known) if isinstance(known, Nfs4) and not ended else None
            results.append((known, ended, decode(source) if decode else None))
        source.done()
        return Reply(status, results)

    def begin(self, *, complete: bool = True) -> int:
        """Get a client ID and a session; give CREATE_SESSION's status."""
        verifier = Fixed(b"verifier")
        arguments = (verifier, b"tests", 0x10000, 0, 0)
        reply = self.compound(op(Nfs4.EXCHANGE_ID, *arguments))
        self.client, sequence = reply.of(Nfs4.EXCHANGE_ID)
        status = self.create_session(sequence)
        if complete and not status:
            self.call(op(Nfs4.RECLAIM_COMPLETE, 0))
        return status

    def create_session(self, sequence: int) -> int:
        channel = (0, 1 << 22, 1 << 22, 1 << 16, 64, 8, 0)
        arguments = (Hyper(self.client), sequence, 0, *channel, *channel, 0, 1, 0)
        reply = self.compound(op(Nfs4.CREATE_SESSION, *arguments))
        if not reply.status:
            self.session = reply.of(Nfs4.CREATE_SESSION)
            self.sequences = {}
        return reply.status

    def call(self, *operations: bytes, slot: int = 0, cache: bool = False) -> Reply:
        """Send operations behind the slot's next SEQUENCE."""
        self.sequences[slot] = self.sequences.get(slot, 0) + 1
        reply = self.again(*operations, slot=slot, cache=cache)
        if reply.results and reply.results[0][1]:
            self.sequences[slot] -= 1
        return reply

    def again(self, *operations: bytes, slot: int = 0, cache: bool = False) -> Reply:
        """Send operations behind the slot's last SEQUENCE."""
        words = (Fixed(self.session), self.sequences[slot], slot, slot, cache)
        return self.compound(op(Nfs4.SEQUENCE, *words), *operations)

    def open(self, name: str, create: bool = False) -> Reply:
        """OPEN a file of /export by name, which may make it, and get its handle."""
        how = (1, 0, 0, 0) if create else (0,)  # UNCHECKED, without attributes
        arguments = (0, _BOTH, 0, Hyper(self.client), b"o", *how, 0, name.encode())
        return self.call(*path("export"), op(Nfs4.OPEN, *arguments), op(Nfs4.GETFH))

    def opened(self, name: str, create: bool = False) -> Held:
        """OPEN a file, which must go well."""
        reply = self.open(name, create)
        assert reply.status == 0, reply
        return Held(reply.of(Nfs4.GETFH), reply.of(Nfs4.OPEN))


@dataclass(frozen=True)
class Held:
    """A file's handle and its stateid."""

    handle: bytes
    stateid: bytes

    def read(self, offset: int, count: int) -> list[bytes]:
        arguments = (Fixed(self.stateid), Hyper(offset), count)
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.READ, *arguments)]

    def write(self, offset: int, data: bytes, stable: Stable = Stable.UNSTABLE) -> list[bytes]:
        arguments = (Fixed(self.stateid), Hyper(offset), stable, data)
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.WRITE, *arguments)]

    def commit(self) -> list[bytes]:
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.COMMIT, Hyper(0), 0)]

    def close(self) -> list[bytes]:
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.CLOSE, 0, Fixed(self.stateid))]

    def reclaim(self, client: int) -> list[bytes]:
        """Return the operations of an OPEN that reclaims after a restart."""
        arguments = (0, _BOTH, 0, Hyper(client), b"o", 0, 1, 0)
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.OPEN, *arguments)]


# --- nfs-sink ---


@pytest.fixture
def sink(build_dir: Path) -> Iterator[Sink]:
    with Sink(folder=build_dir) as running:
        yield running


@contextlib.contextmanager
def client_of(sink: Sink) -> Iterator[Client41]:
    with Client41(sink.port) as running:
        assert running.begin() == Status4.OK
        yield running


@pytest.fixture
def client(sink: Sink) -> Iterator[Client41]:
    with client_of(sink) as running:
        yield running


def read(client: Client41, file: Held, offset: int, count: int) -> tuple[bool, bytes]:
    """Return whether the file ends there, and its bytes."""
    found: tuple[bool, bytes] = client.call(*file.read(offset, count)).of(Nfs4.READ)
    return found


def serves(client: Client41) -> None:
    assert read(client, client.opened("a", create=True), 0, 1) == (True, b"")


def _run(engine: Engine, sink: Sink, folder: Path, **options: Option) -> FioResult:
    result = Fio(engine).run(folder, pool=sink.url, options={"filename": "dir/file", **options})
    assert result.status == 0, result.messages
    return result


def test_serves_the_engine(engine: Engine, sink: Sink, tmp_path: Path) -> None:
    written = _run(engine, sink, tmp_path / "w", rw="write", bs="64k", size="32m", end_fsync=1)
    read = _run(engine, sink, tmp_path / "r", rw="randread", bs="4k", size="8m", iodepth=32)
    counts = sink.stop()
    assert written.report is not None
    assert read.report is not None
    assert counts.nfs["WRITE"] == written.report.operations("write") == 512
    assert counts.write_bytes == written.report.bytes("write")
    assert counts.nfs["COMMIT"] == 1
    assert counts.nfs["READ"] == read.report.operations("read") == 2048
    assert counts.read_bytes == read.report.bytes("read")
    assert counts.mount["MNT"] == 2  # one for each fio


def test_many_connections_on_several_threads(
    build_dir: Path, engine: Engine, tmp_path: Path
) -> None:
    with Sink(["--cpus", "0,0,0"], folder=build_dir) as sink:
        job: dict[str, Option] = {"rw": "randrw", "bsrange": "512-256k", "size": "32m"}
        spread: dict[str, Option] = {"iodepth": 64, "nconnect": 16, "spread": "roundrobin"}
        result = _run(engine, sink, tmp_path / "rw", **job, **spread)
        counts = sink.stop()
    assert counts.nfs["READ"] == sum(line.read_ops for line in result.stats)
    assert counts.nfs["WRITE"] == sum(line.write_ops for line in result.stats)
    assert counts.connections >= len(result.stats) == 16


def test_pacing_is_each_connections_own(build_dir: Path) -> None:
    with Sink(["--pacing", "1000000"], folder=build_dir) as sink, client_of(sink):
        argv = ["ss", "-tinH", f"sport = :{sink.port}"]
        shown = run(argv, timeout=_SECONDS).check().stdout
    assert re.search(r"pacing_rate \S+/(8000000|8M)bps", shown), shown


def test_reads_end_where_the_file_does(client: Client41) -> None:
    file = client.opened("any")
    assert read(client, file, 0, 4096) == (False, bytes(4096))
    assert read(client, file, _TIB - 2, 4096) == (True, bytes(2))
    assert read(client, file, _TIB, 1) == (True, b"")


def test_writes_are_counted_and_grow_the_file(sink: Sink, client: Client41) -> None:
    lengths = (1, 4096, 16384, 1 << 20)
    for length in lengths:
        file = client.opened(f"of {length}", create=True)
        put = file.write(_TIB, b"x" * length, Stable.DATA_SYNC)
        count, stable, verifier = client.call(*put).of(Nfs4.WRITE)
        assert (count, stable) == (length, Stable.DATA_SYNC)
        assert client.call(*file.commit()).of(Nfs4.COMMIT) == verifier
        assert read(client, file, _TIB, 2 << 20) == (True, bytes(length))
        assert client.call(*file.close()).status == Status4.OK
    counts = sink.stop()
    assert counts.write_bytes == counts.read_bytes == sum(lengths)
    assert counts.nfs4["READ"] == counts.nfs4["WRITE"] == counts.nfs4["CLOSE"] == len(lengths)


@pytest.mark.parametrize("options", [[], ["--spin"]], ids=["sleeps", "spins"])
def test_ends_with_its_counts_whoever_is_connected(build_dir: Path, options: list[str]) -> None:
    with Sink(options, folder=build_dir) as sink, client_of(sink) as client:
        serves(client)
        counts = sink.stop()  # which one that has to be killed does not tell
    assert (counts.nfs4["OPEN"], counts.nfs4["READ"], counts.nfs, counts.mount) == (1, 1, {}, {})
    assert counts.connections == 1
    assert counts.busy_seconds > 0


def test_stalls_again_and_again(build_dir: Path) -> None:
    with Sink(["--stall", "199:200"], folder=build_dir) as sink, client_of(sink) as client:

        def waits() -> bool:
            begun = time.monotonic()
            client.call()
            return time.monotonic() - begun > 0.1

        eventually(waits)
        eventually(waits)
        counts = sink.stop()
    assert counts.stalls >= 2


def test_bad_options_are_named(build_dir: Path) -> None:
    for option in ("--pacing=0", "--cpus=1-", "--stall=5", "--stall=5:5", "--address=nowhere"):
        done = run([str(build_dir / "nfs-sink"), option], timeout=_SECONDS)
        assert done.status == 2
        assert option in done.stderr


# --- the scripted server ---


@pytest.fixture
def client41(server: ScriptedServer) -> Iterator[Client41]:
    with Client41(server.nfs_port) as running:
        assert running.begin() == Status4.OK
        yield running


@pytest.mark.parametrize("version", [3, 4])
def test_a_client_of_another_hand(server: ScriptedServer, version: int) -> None:
    nfs_rs = pytest.importorskip("nfs_rs")
    server.create("d/f", bytes(3 << 20))
    data = secrets.token_bytes(3 << 20)
    with nfs_rs.Client.connect(server.url(version=version, noresvport="true")) as other:
        assert other.stat("d/f").size == 3 << 20
        other.mkdir("e")
        with other.open("e/new", "wb") as file:
            file.write(data)
        with other.open("e/new", "rb") as file:
            assert file.read() == data
        other.remove("d/f")
    assert server.durable("e/new") == data
    assert server.kept()[:3] == (0, 0, 0)


def test_arguments_of_which_some_are_left_are_garbage(server: ScriptedServer) -> None:
    """And the next call is answered (RFC 5531, 9)."""
    with RpcClient("127.0.0.1", server.nfs_port, NFS, 3) as rpc:
        with pytest.raises(RpcError, match="accept status 4"):
            rpc.call(1, xdr(server.export.files.root.handle, 7))
        rpc.call(0)


def test_a_restart_loses_what_was_not_committed(server: ScriptedServer, client41: Client41) -> None:
    file = client41.opened("f", create=True)
    first = client41.call(*file.write(0, b"kept")).of(Nfs4.WRITE)
    assert client41.call(*file.commit()).of(Nfs4.COMMIT) == first[2]
    client41.call(*file.write(2, b"lost"))
    assert (server.content("f"), server.durable("f")) == (b"kelost", b"kept")
    server.restart()
    assert server.content("f") == b"kept"
    assert server.export.files.verifier != first[2]


def test_v41_a_slot_answers_again(server: ScriptedServer, client41: Client41) -> None:
    file = client41.opened("f", create=True)
    put, other = [file.write(0, one, Stable.FILE_SYNC) for one in (b"a", b"b")]
    first = client41.call(*put, cache=True)
    assert client41.again(*put, cache=True) == first
    assert client41.again(*other, cache=True).status == Status4.SEQ_FALSE_RETRY
    client41.call(*other)
    again = client41.again(*other)
    assert again.status == Status4.RETRY_UNCACHED_REP
    client41.sequences[0] += 2
    assert client41.again(*other).status == Status4.SEQ_MISORDERED
    assert client41.call(slot=64).status == Status4.BADSLOT
    assert len(server.calls(Nfs4.WRITE)) == 2  # what the slot answers is not carried out


def test_v41_refuses(client41: Client41) -> None:
    root, none = op(Nfs4.PUTROOTFH), op(Nfs4.DESTROY_CLIENTID, Hyper(0))
    leave = op(Nfs4.DESTROY_CLIENTID, Hyper(client41.client))
    end = op(Nfs4.DESTROY_SESSION, Fixed(client41.session))
    assert client41.compound(root).status == Status4.OP_NOT_IN_SESSION
    assert client41.compound(minor=0).status == Status4.MINOR_VERS_MISMATCH
    assert client41.call(xdr(12)).status == Status4.NOTSUPP  # LOCK
    assert client41.call(xdr(99)).status == Status4.OP_ILLEGAL
    assert client41.call(op(Nfs4.GETFH)).status == Status4.NOFILEHANDLE
    assert client41.compound(leave).status == Status4.CLIENTID_BUSY
    assert client41.compound(end).status == Status4.OK
    assert client41.call().status == Status4.BADSESSION
    assert client41.compound(leave).status == Status4.OK
    assert client41.compound(none).status == Status4.STALE_CLIENTID


def test_v41_stateids(server: ScriptedServer, client41: Client41) -> None:
    server.create("f", b"x")
    file = client41.opened("f")
    made_up = Held(file.handle, file.stateid[:-1] + b"?")
    assert client41.call(*made_up.read(0, 1)).status == Status4.BAD_STATEID
    assert client41.call(*file.write(0, b"z")).status == Status4.OK
    assert client41.call(*file.close()).status == Status4.OK
    assert client41.call(*file.write(0, b"z")).status == Status4.BAD_STATEID


def test_v41_restart(server: ScriptedServer, client41: Client41) -> None:
    file = client41.opened("f", create=True)
    server.restart()
    client41.connect()
    assert client41.call().status == Status4.BADSESSION
    assert client41.create_session(2) == Status4.STALE_CLIENTID
    assert client41.begin(complete=False) == Status4.OK
    assert client41.open("f").status == Status4.GRACE
    stranger = Held(server.export.files.root.handle, b"")
    assert client41.call(*stranger.reclaim(client41.client)).status == Status4.ISDIR
    reply = client41.call(*file.reclaim(client41.client))
    held = Held(file.handle, reply.of(Nfs4.OPEN))
    assert client41.call(*held.write(0, b"x")).status == Status4.OK
    assert client41.call(op(Nfs4.RECLAIM_COMPLETE, 0)).status == Status4.OK
    assert client41.call(op(Nfs4.RECLAIM_COMPLETE, 0)).status == Status4.COMPLETE_ALREADY
    assert client41.open("f").status == Status4.OK
    assert client41.call(*file.reclaim(client41.client)).status == Status4.NO_GRACE


@pytest.mark.parametrize(
    ("terms", "operations"),
    [
        (Terms(max_request=400), [op(Nfs4.PUTROOTFH)] * 100),
        (Terms(max_response=400), [op(Nfs4.PUTROOTFH)] * 100),
        (
            Terms(max_response=4096),
            [*path("export"), op(Nfs4.READDIR, *[0] * 4, 4096, 4097, 0)],
        ),
    ],
)
def test_v41_a_session_takes_no_more_than_it_was_granted(
    terms: Terms, operations: list[bytes]
) -> None:
    server = ScriptedServer(terms=terms).__enter__()
    with Client41(server.nfs_port) as client, contextlib.suppress(OSError):
        client.begin()
        client.call(*operations)
    with pytest.raises(AssertionError, match="session takes"):
        server.__exit__(None)


# --- on the wire ---


_REPLY = message(1, accepted(AcceptStat.SUCCESS))


def _null(server: ScriptedServer, expected: bytes) -> None:
    """Call NULL: that must come back."""
    null = record(xdr(1, CALL, RPC_VERSION, NFS, 3, 0, 0, 0, 0, 0))
    with socket.create_connection(("127.0.0.1", server.nfs_port), _SECONDS) as wire:
        wire.sendall(null)
        assert wire.makefile("rb").read(len(expected)) == expected


def test_fragments() -> None:
    parts = ((0, 20), (20, 20), (20, 23), (23, 24))
    fragments = (mark(end - at, last=end == 24) + _REPLY[at:end] for at, end in parts)
    with ScriptedServer(on(Nfs.NULL, Answer(fragments=(20, 0, 3)))) as server:
        _null(server, b"".join(fragments))


def test_an_exception_of_a_hook_is_raised_at_the_end() -> None:
    def hook(call: Call) -> Answer | None:
        raise AssertionError(f"no {call.procedure} wanted")

    server = ScriptedServer(hook).__enter__()
    _null(server, record(_REPLY))
    with pytest.raises(AssertionError, match=r"no Nfs\.NULL wanted"):
        server.__exit__(None)
