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
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from engine_c import CData, value
from engine_helpers import eventually
from test_codec import read_results

from jobs import Fio
from nfsmulti.bench.sink import Sink
from nfsmulti.fiorun import Engine, FioResult, Option
from nfsmulti.processes import run
from servers.record_proxy import RecordProxy
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


@dataclass(frozen=True)
class Reply:
    """The results of a compound, which the engine's own decoders read: test_codec.py has those."""

    lib: CData = field(compare=False)
    sent: bytes
    operations: Sequence[bytes]

    @property
    def status(self) -> int:
        return int.from_bytes(self.sent[:4])

    @property
    def first_status(self) -> int:
        """Its first operation's: behind status, tag and count, and the operation's number."""
        return int.from_bytes(self.sent[20:24])

    def of(self, operation: Nfs4) -> CData:
        return self._read()[1][operation]

    @property
    def data(self) -> bytes:
        """What a READ has brought, which is the last operation."""
        used, bodies = self._read()
        return self.sent[used : used + bodies[Nfs4.READ].count]

    def _read(self) -> tuple[int, dict[Nfs4, CData]]:
        operations = [Nfs4(int.from_bytes(one[:4])) for one in self.operations]
        reading = read_results(self.lib, self.sent, *operations)
        assert reading.sound, self
        assert not any(reading.statuses), self
        assert self.sent[4:12] == xdr(b"tag!"), self
        assert Nfs4.READ in operations or reading.used == len(self.sent), self
        return reading.used, dict(zip(operations, reading.bodies, strict=True))


class Client41(RpcClient):
    """A connection to a port of 127.0.0.1, a client ID and a session."""

    def __init__(self, lib: CData, port: int):
        super().__init__("127.0.0.1", port, NFS, 4)
        self._lib, self.port, self.client, self.session = lib, port, 0, b""
        self.sequences: dict[int, int] = {}  # the last one of each slot

    def reconnect(self) -> None:
        self.__exit__()
        super().__init__("127.0.0.1", self.port, NFS, 4)

    def compound(self, *operations: bytes, minor: int = 1) -> Reply:
        call = xdr(b"tag!", minor, len(operations)) + b"".join(operations)
        return Reply(self._lib, self.call(1, call), operations)

    def begin(self, *, complete: bool = True) -> int:
        """Get a client ID and a session; give CREATE_SESSION's status."""
        arguments = (Fixed(b"verifier"), b"tests", 0x10000, 0, 0)
        made = self.compound(op(Nfs4.EXCHANGE_ID, *arguments)).of(Nfs4.EXCHANGE_ID)
        self.client = made.client
        status = self.create_session(made.sequence)
        if complete and not status:
            self.ask(op(Nfs4.RECLAIM_COMPLETE, 0))
        return status

    def create_session(self, sequence: int) -> int:
        channel = (0, 1 << 22, 1 << 22, 1 << 16, 64, 8, 0)
        arguments = (Hyper(self.client), sequence, 0, *channel, *channel, 0, 1, 0)
        reply = self.compound(op(Nfs4.CREATE_SESSION, *arguments))
        if not reply.status:
            self.session = value(reply.of(Nfs4.CREATE_SESSION).session)
            self.sequences = {}
        return reply.status

    def ask(self, *operations: bytes, slot: int = 0, cache: bool = False) -> Reply:
        """Send operations behind the slot's next SEQUENCE."""
        self.sequences[slot] = self.sequences.get(slot, 0) + 1
        reply = self.again(*operations, slot=slot, cache=cache)
        self.sequences[slot] -= reply.first_status != 0
        return reply

    def again(self, *operations: bytes, slot: int = 0, cache: bool = False) -> Reply:
        """Send operations behind the slot's last SEQUENCE."""
        words = (Fixed(self.session), self.sequences[slot], slot, slot, cache)
        return self.compound(op(Nfs4.SEQUENCE, *words), *operations)

    def open(self, name: str, create: bool = False) -> Reply:
        """OPEN a file of /export by name, which may make it, and get its handle."""
        how = (1, 0, 0, 0) if create else (0,)  # UNCHECKED, without attributes
        arguments = (0, _BOTH, 0, Hyper(self.client), b"o", *how, 0, name.encode())
        return self.ask(*path("export"), op(Nfs4.OPEN, *arguments), op(Nfs4.GETFH))

    def opened(self, name: str, create: bool = False) -> Held:
        """OPEN a file, which must go well."""
        reply = self.open(name, create)
        handle = reply.of(Nfs4.GETFH)
        return Held(
            bytes(handle.bytes[0 : handle.length]), value(reply.of(Nfs4.OPEN).stateid.bytes)
        )


@dataclass(frozen=True)
class Held:
    """A file's handle and its stateid."""

    handle: bytes
    stateid: bytes

    def _by_handle(self, operation: Nfs4, *arguments: int | bytes) -> list[bytes]:
        return [op(Nfs4.PUTFH, self.handle), op(operation, *arguments)]

    def read(self, offset: int, count: int) -> list[bytes]:
        return self._by_handle(Nfs4.READ, Fixed(self.stateid), Hyper(offset), count)

    def write(self, offset: int, data: bytes, stable: Stable = Stable.UNSTABLE) -> list[bytes]:
        return self._by_handle(Nfs4.WRITE, Fixed(self.stateid), Hyper(offset), stable, data)

    def commit(self) -> list[bytes]:
        return self._by_handle(Nfs4.COMMIT, Hyper(0), 0)

    def close(self) -> list[bytes]:
        return self._by_handle(Nfs4.CLOSE, 0, Fixed(self.stateid))

    def reclaim(self, client: int) -> list[bytes]:
        """Return the operations of an OPEN that reclaims after a restart."""
        return self._by_handle(Nfs4.OPEN, 0, _BOTH, 0, Hyper(client), b"o", 0, 1, 0)


@contextlib.contextmanager
def client_of(lib: CData, port: int) -> Iterator[Client41]:
    with Client41(lib, port) as running:
        assert running.begin() == Status4.OK
        yield running


# --- nfs-sink ---


@pytest.fixture
def sink(build_dir: Path) -> Iterator[Sink]:
    with Sink(folder=build_dir) as running:
        yield running


@pytest.fixture
def client(testlib: CData, sink: Sink) -> Iterator[Client41]:
    with client_of(testlib, sink.port) as running:
        yield running


def read(client: Client41, file: Held, offset: int, count: int) -> tuple[bool, bytes]:
    """Return whether the file ends there, and its bytes."""
    reply = client.ask(*file.read(offset, count))
    return reply.of(Nfs4.READ).eof, reply.data


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


def test_pacing_is_each_connections_own(build_dir: Path, testlib: CData) -> None:
    options = ["--pacing", "1000000"]
    with Sink(options, folder=build_dir) as sink, client_of(testlib, sink.port):
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
        wrote = client.ask(*put).of(Nfs4.WRITE)
        assert (wrote.count, wrote.committed) == (length, Stable.DATA_SYNC)
        commit = client.ask(*file.commit()).of(Nfs4.COMMIT)
        assert value(commit.verifier) == value(wrote.verifier) != bytes(8)
        assert read(client, file, _TIB, 2 << 20) == (True, bytes(length))
        assert client.ask(*file.close()).status == Status4.OK
    counts = sink.stop()
    assert counts.write_bytes == counts.read_bytes == sum(lengths)
    assert counts.nfs4["READ"] == counts.nfs4["WRITE"] == counts.nfs4["CLOSE"] == len(lengths)


@pytest.mark.parametrize("options", [[], ["--spin"]], ids=["sleeps", "spins"])
def test_ends_with_its_counts_whoever_is_connected(
    build_dir: Path, testlib: CData, options: list[str]
) -> None:
    with (
        Sink(options, folder=build_dir) as sink,
        client_of(testlib, sink.port) as client,
    ):
        assert read(client, client.opened("a", create=True), 0, 1) == (True, b"")
        counts = sink.stop()  # which one that has to be killed does not tell
    assert (counts.nfs4["OPEN"], counts.nfs4["READ"], counts.nfs, counts.mount) == (1, 1, {}, {})
    assert counts.connections == 1
    assert counts.busy_seconds > 0


def test_stalls_again_and_again(build_dir: Path, testlib: CData) -> None:
    options = ["--stall", "199:200"]
    with (
        Sink(options, folder=build_dir) as sink,
        client_of(testlib, sink.port) as client,
    ):

        def waits() -> bool:
            begun = time.monotonic()
            client.ask()
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
def client41(testlib: CData, server: ScriptedServer) -> Iterator[Client41]:
    with client_of(testlib, server.nfs_port) as running:
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
    first = value(client41.ask(*file.write(0, b"kept")).of(Nfs4.WRITE).verifier)
    assert value(client41.ask(*file.commit()).of(Nfs4.COMMIT).verifier) == first
    client41.ask(*file.write(2, b"lost"))
    assert (server.content("f"), server.durable("f")) == (b"kelost", b"kept")
    server.restart()
    assert server.content("f") == b"kept"
    assert server.export.files.verifier != first


def test_v41_a_slot_answers_again(server: ScriptedServer, client41: Client41) -> None:
    file = client41.opened("f", create=True)
    put, other = [file.write(0, one, Stable.FILE_SYNC) for one in (b"a", b"b")]
    first = client41.ask(*put, cache=True)
    assert client41.again(*put, cache=True) == first
    assert client41.again(*other, cache=True).status == Status4.SEQ_FALSE_RETRY
    client41.ask(*other)
    again = client41.again(*other)
    assert again.status == Status4.RETRY_UNCACHED_REP
    client41.sequences[0] += 2
    assert client41.again(*other).status == Status4.SEQ_MISORDERED
    assert client41.ask(slot=64).status == Status4.BADSLOT
    assert len(server.calls(Nfs4.WRITE)) == 2  # what the slot answers is not carried out


def test_v41_refuses(client41: Client41) -> None:
    root, none = op(Nfs4.PUTROOTFH), op(Nfs4.DESTROY_CLIENTID, Hyper(0))
    leave = op(Nfs4.DESTROY_CLIENTID, Hyper(client41.client))
    end = op(Nfs4.DESTROY_SESSION, Fixed(client41.session))
    assert client41.compound(root).status == Status4.OP_NOT_IN_SESSION
    assert client41.compound(minor=0).status == Status4.MINOR_VERS_MISMATCH
    assert client41.ask(xdr(12)).status == Status4.NOTSUPP  # LOCK
    assert client41.ask(xdr(99)).status == Status4.OP_ILLEGAL
    assert client41.ask(op(Nfs4.GETFH)).status == Status4.NOFILEHANDLE
    assert client41.compound(leave).status == Status4.CLIENTID_BUSY
    assert client41.compound(end).status == Status4.OK
    assert client41.ask().status == Status4.BADSESSION
    assert client41.compound(leave).status == Status4.OK
    assert client41.compound(none).status == Status4.STALE_CLIENTID


def test_v41_stateids(server: ScriptedServer, client41: Client41) -> None:
    server.create("f", b"x")
    file = client41.opened("f")
    made_up = Held(file.handle, file.stateid[:-1] + b"?")
    assert client41.ask(*made_up.read(0, 1)).status == Status4.BAD_STATEID
    assert client41.ask(*file.write(0, b"z")).status == Status4.OK
    assert client41.ask(*file.close()).status == Status4.OK
    assert client41.ask(*file.write(0, b"z")).status == Status4.BAD_STATEID


def test_v41_restart(server: ScriptedServer, client41: Client41) -> None:
    file = client41.opened("f", create=True)
    server.restart()
    client41.reconnect()
    assert client41.ask().status == Status4.BADSESSION
    assert client41.create_session(2) == Status4.STALE_CLIENTID
    assert client41.begin(complete=False) == Status4.OK
    assert client41.open("f").status == Status4.GRACE
    stranger = Held(server.export.files.root.handle, b"")
    assert client41.ask(*stranger.reclaim(client41.client)).status == Status4.ISDIR
    reply = client41.ask(*file.reclaim(client41.client))
    held = Held(file.handle, value(reply.of(Nfs4.OPEN).stateid.bytes))
    assert client41.ask(*held.write(0, b"x")).status == Status4.OK
    assert client41.ask(op(Nfs4.RECLAIM_COMPLETE, 0)).status == Status4.OK
    assert client41.ask(op(Nfs4.RECLAIM_COMPLETE, 0)).status == Status4.COMPLETE_ALREADY
    assert client41.open("f").status == Status4.OK
    assert client41.ask(*file.reclaim(client41.client)).status == Status4.NO_GRACE


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
    testlib: CData, terms: Terms, operations: list[bytes]
) -> None:
    server = ScriptedServer(terms=terms).__enter__()
    with Client41(testlib, server.nfs_port) as client, contextlib.suppress(OSError):
        client.begin()
        client.ask(*operations)
    with pytest.raises(AssertionError, match="session takes"):
        server.__exit__(None)


_SIZE = (1, 1 << 4)  # a bitmap4


@pytest.mark.parametrize("operation", [Nfs4.GETATTR, Nfs4.SETATTR])
def test_v41_a_file_goes_while_it_is_looked_at(
    server: ScriptedServer,
    client41: Client41,
    operation: Nfs4,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where C takes no status of Python, it goes on, and nothing is said."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    file = client41.opened("f", create=True)
    nodes = server.export.files.nodes
    words = _SIZE if operation is Nfs4.GETATTR else (Fixed(file.stateid), *_SIZE, xdr(Hyper(1)))
    number = server.export.files.find("f").fileid
    server.hooks.append(on(operation, Answer(do=lambda _: nodes.pop(number))))
    assert client41.ask(op(Nfs4.PUTFH, file.handle), op(operation, *words)).status == Status4.OK
    assert number not in nodes
    assert not said


# --- on the wire ---


def test_a_proxy_ends_whose_server_reads_nothing() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        RecordProxy(silent.getsockname()) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), _SECONDS) as client,
    ):
        client.sendall(record(bytes(64 << 20)))  # more than sockets hold
        eventually(lambda: proxy.seen)


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
