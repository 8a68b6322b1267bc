# SPDX-License-Identifier: GPL-2.0-only
"""The tests' own servers, nfs-sink and the scripted one, by a client that can also do wrong.

What would hide a fault of the engine if it were wrong: that the core of both, which the simulator
has as well, is sound and strict, and that what is ordered is sent and counted.
"""

import contextlib
import re
import secrets
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from engine_helpers import eventually

from jobs import Fio
from nfsmulti.bench.sink import Sink
from nfsmulti.fiorun import Engine, FioResult, Option
from nfsmulti.processes import run
from servers.record_proxy import RecordProxy
from servers.rpc import (
    NFS,
    AcceptStat,
    Fixed,
    Hyper,
    RpcClient,
    RpcError,
    accepted,
    mark,
    record,
    xdr,
)
from servers.scripted import Answer, Call, Nfs, Nfs4, ScriptedServer, Stable, Status4, Terms

_TIB = 1 << 40
_SECONDS = 60.0

# --- a client of NFSv4.1 that does what it is told ---

_BOTH = 3  # share access, to read and to write
_CREATE = (1, 0, 0, 0)  # UNCHECKED, without attributes
_OTHER = 7  # a claim or stable_how that is none


def op(operation: Nfs4, *arguments: int | bytes) -> bytes:
    return xdr(operation.value, *arguments)


_EXPORT = [op(Nfs4.PUTROOTFH), op(Nfs4.LOOKUP, b"export")]


class Reply(NamedTuple):
    """The results of a compound."""

    sent: bytes

    @property
    def status(self) -> int:
        return int.from_bytes(self.sent[:4])

    def of(self, operation: Nfs4) -> bytes:
        """Return what lies behind an operation's number and its status, which is 0."""
        assert self.sent.startswith(xdr(Status4.OK, b"tag!")), self
        _, found, body = self.sent.rpartition(xdr(operation.value, Status4.OK))
        assert found, self
        return body


class File(NamedTuple):
    """A file's handle and its stateid; its methods return operations."""

    handle: bytes
    stateid: bytes

    def to(self, operation: Nfs4, *arguments: int | bytes) -> list[bytes]:
        return [op(Nfs4.PUTFH, self.handle), op(operation, *arguments)]

    def read(self, offset: int, count: int) -> list[bytes]:
        return self.to(Nfs4.READ, Fixed(self.stateid), Hyper(offset), count)

    def write(self, offset: int, data: bytes, stable: int = Stable.UNSTABLE) -> list[bytes]:
        return self.to(Nfs4.WRITE, Fixed(self.stateid), Hyper(offset), stable, data)

    def commit(self) -> list[bytes]:
        return self.to(Nfs4.COMMIT, Hyper(0), 0)

    def close(self) -> list[bytes]:
        return self.to(Nfs4.CLOSE, 0, Fixed(self.stateid))


class Client41(RpcClient):
    """A connection to a port of 127.0.0.1, a client ID, a session and one slot."""

    def __init__(self, port: int):
        super().__init__("127.0.0.1", port, NFS, 4)
        self.port, self.client, self.session, self.sequence = port, 0, b"", 0

    def reconnect(self) -> None:
        self.__exit__()
        super().__init__("127.0.0.1", self.port, NFS, 4)

    def compound(self, *operations: bytes, minor: int = 1) -> Reply:
        return Reply(self.call(1, xdr(b"tag!", minor, len(operations)) + b"".join(operations)))

    def begin(self, *, complete: bool = True) -> None:
        """Get a client ID and a session."""
        arguments = (Fixed(b"verifier"), b"tests", 0x10000, 0, 0)
        made = self.compound(op(Nfs4.EXCHANGE_ID, *arguments)).of(Nfs4.EXCHANGE_ID)
        self.client, sequence = struct.unpack_from(">QI", made)
        session = self.create_session(sequence).of(Nfs4.CREATE_SESSION)
        self.session, self.sequence = session[:16], 0
        if complete:
            self.ask(op(Nfs4.RECLAIM_COMPLETE, 0))

    def create_session(self, sequence: int) -> Reply:
        channel = (0, 1 << 22, 1 << 22, 1 << 16, 64, 8, 0)
        arguments = (Hyper(self.client), sequence, 0, *channel, *channel, 0, 1, 0)
        return self.compound(op(Nfs4.CREATE_SESSION, *arguments))

    def ask(self, *operations: bytes, ahead: int = 1, slot: int = 0, cache: bool = False) -> Reply:
        """Send operations behind the slot's next SEQUENCE, or one `ahead` of its last one."""
        words = (Fixed(self.session), self.sequence + ahead, slot, slot, cache)
        reply = self.compound(op(Nfs4.SEQUENCE, *words), *operations)
        if reply.sent[20:24] == bytes(4):  # SEQUENCE's status, behind status, tag, count and number
            self.sequence += ahead
        return reply

    def open(self, *how: int) -> Reply:
        """OPEN the export's file "f", and get its handle."""
        owner = (0, _BOTH, 0, Hyper(self.client), b"o")
        made = op(Nfs4.OPEN, *owner, *(how or (0,)), 0, b"f")
        return self.ask(*_EXPORT, made, op(Nfs4.GETFH))

    def opened(self, *how: int) -> File:
        reply = self.open(*how)
        (length,) = struct.unpack_from(">I", reply.of(Nfs4.GETFH))
        return File(reply.of(Nfs4.GETFH)[4 : 4 + length], reply.of(Nfs4.OPEN)[:16])

    def read(self, file: File, offset: int, count: int) -> tuple[bool, bytes]:
        """Return whether the file ends there, and its bytes."""
        body = self.ask(*file.read(offset, count)).of(Nfs4.READ)
        eof, length = struct.unpack_from(">2I", body)
        return bool(eof), body[8 : 8 + length]


@contextlib.contextmanager
def client_of(port: int) -> Iterator[Client41]:
    with Client41(port) as running:
        running.begin()
        yield running


# --- nfs-sink ---


@pytest.fixture
def sink(build_dir: Path) -> Iterator[Sink]:
    with Sink(folder=build_dir) as running:
        yield running


@pytest.fixture
def client(sink: Sink) -> Iterator[Client41]:
    with client_of(sink.port) as running:
        yield running


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
    with Sink(["--pacing", "1000000"], folder=build_dir) as sink, client_of(sink.port):
        argv = ["ss", "-tinH", f"sport = :{sink.port}"]
        shown = run(argv, timeout=_SECONDS).check().stdout
    assert re.search(r"pacing_rate \S+/(8000000|8M)bps", shown), shown


def test_writes_are_counted_and_grow_the_file(sink: Sink, client: Client41) -> None:
    """And reads end where it does."""
    file, lengths = client.opened(), (1, 4096, 1 << 20)
    assert client.read(file, _TIB - 2, 4096) == (True, bytes(2))
    for length in lengths:
        put = file.write(_TIB, b"x" * length, Stable.DATA_SYNC)
        count, how, verifier = struct.unpack_from(">2I8s", client.ask(*put).of(Nfs4.WRITE))
        assert (count, how) == (length, Stable.DATA_SYNC)
        assert client.ask(*file.commit()).of(Nfs4.COMMIT) == verifier != bytes(8)
        assert client.read(file, _TIB, 2 << 20) == (True, bytes(length))
    assert client.read(file, 0, 4096) == (False, bytes(4096))
    assert client.ask(*file.close()).status == Status4.OK
    counts = sink.stop()
    assert (counts.write_bytes, counts.read_bytes) == (sum(lengths), sum(lengths) + 2 + 4096)
    made = [counts.nfs4[name] for name in ("OPEN", "READ", "WRITE", "COMMIT", "CLOSE")]
    assert made == [1, 5, 3, 3, 1]


@pytest.mark.parametrize("options", [[], ["--spin"]], ids=["sleeps", "spins"])
def test_ends_with_its_counts_whoever_is_connected(build_dir: Path, options: list[str]) -> None:
    with Sink(options, folder=build_dir) as sink, client_of(sink.port) as client:
        assert client.read(client.opened(*_CREATE), 0, 1) == (True, b"")
        counts = sink.stop()  # which one that has to be killed does not tell
    assert (counts.nfs4["OPEN"], counts.nfs4["READ"], counts.nfs, counts.mount) == (1, 1, {}, {})
    assert counts.connections == 1
    assert counts.busy_seconds > 0


def test_stalls_again_and_again(build_dir: Path) -> None:
    waits = list[float]()
    with Sink(["--stall", "199:200"], folder=build_dir) as sink, client_of(sink.port) as client:
        while sum(waits) < 1:  # five periods
            begun = time.monotonic()
            client.ask()
            waits.append(time.monotonic() - begun)
        assert sink.stop().stalls >= 2
    assert max(waits) > 0.1


def test_bad_options_are_named(build_dir: Path) -> None:
    for option in ("--pacing=0", "--cpus=1-", "--stall=5", "--stall=5:5", "--port=65536"):
        done = run([str(build_dir / "nfs-sink"), option], timeout=_SECONDS)
        assert done.status == 2
        assert option in done.stderr


# --- the scripted server ---


@pytest.fixture
def client41(server: ScriptedServer) -> Iterator[Client41]:
    with client_of(server.nfs_port) as running:
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
        with pytest.raises(RpcError) as refused:
            rpc.call(1, xdr(server.export.root.handle, 7))
        assert refused.value.args == (accepted(AcceptStat.GARBAGE_ARGS),)
        rpc.call(0)


def test_v41_slots(server: ScriptedServer, client41: Client41) -> None:
    """What a slot answers again is not carried out."""
    file = client41.opened(*_CREATE)
    put, other = [file.write(0, one, Stable.FILE_SYNC) for one in (b"a", b"b")]
    first = client41.ask(*put, cache=True)
    assert client41.ask(*put, ahead=0, cache=True) == first
    assert client41.ask(*other, ahead=0, cache=True).status == Status4.SEQ_FALSE_RETRY
    client41.ask(*other)
    assert client41.ask(*other, ahead=0).status == Status4.RETRY_UNCACHED_REP
    assert client41.ask(*other, ahead=2).status == Status4.SEQ_MISORDERED
    assert client41.ask(slot=64).status == Status4.BADSLOT
    assert len(server.calls(Nfs4.WRITE)) == 2


def test_v41_refuses(client41: Client41) -> None:
    root, none = op(Nfs4.PUTROOTFH), op(Nfs4.DESTROY_CLIENTID, Hyper(0))
    leave = op(Nfs4.DESTROY_CLIENTID, Hyper(client41.client))
    end = op(Nfs4.DESTROY_SESSION, Fixed(client41.session))
    file = client41.opened(*_CREATE)
    made_up = File(file.handle, file.stateid[:-1] + b"?")
    assert client41.compound(root).status == Status4.OP_NOT_IN_SESSION
    assert client41.compound(minor=0).status == Status4.MINOR_VERS_MISMATCH
    assert client41.ask(xdr(12)).status == Status4.NOTSUPP  # LOCK
    assert client41.ask(xdr(99)).status == Status4.OP_ILLEGAL
    assert client41.ask(op(Nfs4.GETFH)).status == Status4.NOFILEHANDLE
    assert client41.ask(*made_up.read(0, 1)).status == Status4.BAD_STATEID
    claims = (0, _BOTH, 0, Hyper(client41.client), b"o", 0, _OTHER)
    assert client41.ask(op(Nfs4.PUTROOTFH), op(Nfs4.OPEN, *claims)).status == Status4.NOTSUPP
    assert client41.ask(*file.write(0, b"z", _OTHER)).status == Status4.OK
    assert client41.ask(*file.close()).status == Status4.OK
    assert client41.ask(*file.write(0, b"z")).status == Status4.BAD_STATEID
    assert client41.compound(leave).status == Status4.CLIENTID_BUSY
    assert client41.compound(end).status == Status4.OK
    assert client41.ask().status == Status4.BADSESSION
    assert client41.compound(leave).status == Status4.OK
    assert client41.compound(none).status == Status4.STALE_CLIENTID


def test_v41_restart(server: ScriptedServer, client41: Client41) -> None:
    """What was not committed is lost, and what was open is reclaimed, in the grace period alone."""

    def reclaim(handle: bytes) -> Reply:
        arguments = (0, _BOTH, 0, Hyper(client41.client), b"o", 0, 1, 0)
        return client41.ask(*File(handle, b"").to(Nfs4.OPEN, *arguments))

    file = client41.opened(*_CREATE)
    verifier = client41.ask(*file.write(0, b"kept")).of(Nfs4.WRITE)[8:]
    assert client41.ask(*file.commit()).of(Nfs4.COMMIT) == verifier
    client41.ask(*file.write(2, b"lost"))
    assert (server.content("f"), server.durable("f")) == (b"kelost", b"kept")
    server.restart()
    assert server.content("f") == b"kept"
    assert server.export.verifier != verifier
    client41.reconnect()
    assert client41.ask().status == Status4.BADSESSION
    assert client41.create_session(2).status == Status4.STALE_CLIENTID
    client41.begin(complete=False)
    assert client41.open().status == Status4.GRACE
    assert reclaim(server.export.root.handle).status == Status4.ISDIR
    held = File(file.handle, reclaim(file.handle).of(Nfs4.OPEN)[:16])
    assert client41.ask(*held.write(0, b"x")).status == Status4.OK
    assert client41.ask(op(Nfs4.RECLAIM_COMPLETE, 0)).status == Status4.OK
    assert client41.ask(op(Nfs4.RECLAIM_COMPLETE, 0)).status == Status4.COMPLETE_ALREADY
    assert client41.open().status == Status4.OK
    assert reclaim(file.handle).status == Status4.NO_GRACE


@pytest.mark.parametrize(
    ("terms", "operations", "status"),
    [
        # 92 bytes of RPC's and COMPOUND's headers and SEQUENCE, and 4 of each other operation;
        # 84 and 8 of their results (RFC 8881, 18.36.3).
        (Terms(request_max=400), [op(Nfs4.PUTROOTFH)] * 77, Status4.OK),
        (Terms(request_max=400), [op(Nfs4.PUTROOTFH)] * 78, Status4.REQ_TOO_BIG),
        (Terms(response_max=404), [op(Nfs4.PUTROOTFH)] * 40, Status4.OK),
        (Terms(response_max=404), [op(Nfs4.PUTROOTFH)] * 41, Status4.REP_TOO_BIG),
        (
            Terms(response_max=4096),
            [*_EXPORT, op(Nfs4.READDIR, *[0] * 4, 4096, 4097, 0)],
            Status4.REP_TOO_BIG,
        ),
    ],
)
def test_v41_a_session_takes_no_more_than_it_was_granted(
    terms: Terms, operations: list[bytes], status: Status4
) -> None:
    with ScriptedServer(terms=terms) as server, client_of(server.nfs_port) as client:
        assert client.ask(*operations).status == status


# --- on the wire ---


def test_a_proxy_ends_whose_server_reads_nothing() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        RecordProxy(silent.getsockname()) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), _SECONDS) as client,
    ):
        client.sendall(record(bytes(64 << 20)))  # more than sockets hold
        eventually(lambda: proxy.seen)


def test_fragments() -> None:
    data, parts = bytes(range(24)), ((0, 20), (20, 20), (20, 23), (23, 24))
    fragments = (mark(end - at, last=end == 24) + data[at:end] for at, end in parts)
    assert record(data, (20, 0, 3)) == b"".join(fragments)


def test_an_exception_of_a_hook_is_raised_at_the_end() -> None:
    def hook(call: Call) -> Answer | None:
        raise AssertionError(f"no {call.procedure} wanted")

    server = ScriptedServer(hook).__enter__()
    with RpcClient("127.0.0.1", server.nfs_port, NFS, 3) as client:
        assert client.call(0) == b""
    with pytest.raises(AssertionError, match=r"no Nfs\.NULL wanted"):
        server.__exit__(None)


@pytest.mark.filterwarnings("error")
def test_an_exception_of_the_servers_own_is_raised_at_the_end() -> None:
    """Of a function that C calls: of one that cuts files, by a size that none can have."""
    server = ScriptedServer().__enter__()
    server.create("f")
    size = xdr(server.export.find("f").handle, 0, 0, 0, 1, Hyper(1 << 63), 0, 0, 0)
    lost = pytest.raises(ConnectionResetError)
    with RpcClient("127.0.0.1", server.nfs_port, NFS, 3) as client, lost:
        client.call(Nfs.SETATTR.value, size)
    with pytest.raises(OverflowError):
        server.__exit__(None)
