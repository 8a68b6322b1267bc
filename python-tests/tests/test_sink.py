# SPDX-License-Identifier: GPL-2.0-only
"""nfs-sink: it serves the engine and other clients, and counts what they ask for."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdrlib3 import Packer, Unpacker

from nfsmulti import calls
from nfsmulti.bench.sink import Sink
from nfsmulti.calls import RpcClient, RpcError, RpcVersionError
from nfsmulti.fiorun import Engine, Fio, FioResult, Option
from nfsmulti.processes import run

_ADDRESS = "127.0.0.1"
_LOOKUP, _READ, _WRITE, _COMMIT = 3, 6, 7, 21
_CLOSE, _COMMIT4, _CREATE, _GETATTR, _GETFH, _LOOKUP4, _OPEN = 4, 5, 6, 9, 10, 15, 18
_PUTFH, _PUTROOTFH, _READ4, _REMOVE, _SETATTR, _WRITE4 = 22, 24, 25, 28, 34, 38
_BIND, _EXCHANGE_ID, _CREATE_SESSION, _DESTROY_SESSION, _SEQUENCE = 41, 42, 43, 44, 53
_DESTROY_CLIENTID, _RECLAIM_COMPLETE = 57, 58
_TIB = 1 << 40
_ATTRIBUTES = 84  # bytes of them
_EXIST, _ISDIR, _NOTSUPP, _NOFILEHANDLE, _MINOR_VERS_MISMATCH = 17, 21, 10004, 10020, 10021
_STALE_CLIENTID, _BAD_STATEID, _OP_ILLEGAL, _BADSESSION = 10022, 10025, 10044, 10052
_BADSLOT, _SEQ_MISORDERED, _RETRY_UNCACHED_REP = 10053, 10063, 10068
_OP_NOT_IN_SESSION, _CLIENTID_BUSY = 10071, 10074
_SECONDS = 60.0


@pytest.fixture
def sink(build_dir: Path) -> Iterator[Sink]:
    with Sink(folder=build_dir) as running:
        yield running


def _run(engine: Engine, sink: Sink, folder: Path, **options: Option) -> FioResult:
    result = Fio(engine).run(folder, pool=sink.url, options={"filename": "dir/file", **options})
    assert result.status == 0, result.messages
    return result


class _Client:
    """Makes NFS calls one at a time."""

    def __init__(self, sink: Sink):
        self.rpc = RpcClient(_ADDRESS, sink.port, calls.NFS, 3)
        with RpcClient(_ADDRESS, sink.port, calls.MOUNT, 3) as mount:
            self.root = calls.mount(mount, "/export")

    def lookup(self, name: str) -> bytes:
        arguments = Packer()
        arguments.pack_opaque(self.root)
        arguments.pack_string(name.encode())
        reply = self.rpc.call(_LOOKUP, arguments.get_buffer())
        assert reply.unpack_uint() == 0
        return bytes(reply.unpack_opaque())

    def read(self, file: bytes, offset: int, count: int) -> tuple[bytes, bool]:
        reply = self._call(_READ, file, offset, count)
        length, eof = reply.unpack_uint(), reply.unpack_bool()
        data = bytes(reply.unpack_opaque())
        assert len(data) == length
        reply.done()
        return data, eof

    def write(self, file: bytes, offset: int, data: bytes) -> tuple[int, int, bytes]:
        arguments = Packer()
        arguments.pack_uint(1)
        arguments.pack_opaque(data)
        reply = self._call(_WRITE, file, offset, len(data), arguments.get_buffer())
        reply.unpack_uint()
        return reply.unpack_uint(), reply.unpack_uint(), bytes(reply.unpack_fopaque(8))

    def commit(self, file: bytes) -> bytes:
        reply = self._call(_COMMIT, file, 0, 0)
        reply.unpack_uint()
        return bytes(reply.unpack_fopaque(8))

    def _call(
        self, procedure: int, file: bytes, offset: int, count: int, more: bytes = b""
    ) -> Unpacker:
        arguments = Packer()
        arguments.pack_opaque(file)
        arguments.pack_uhyper(offset)
        arguments.pack_uint(count)
        reply = self.rpc.call(procedure, arguments.get_buffer() + more)
        assert reply.unpack_uint() == 0
        if reply.unpack_bool():
            reply.unpack_fopaque(_ATTRIBUTES)
        return reply


class _Client4:
    """Makes NFSv4.1 calls one at a time, on one slot of a session of its own."""

    def __init__(self, sink: Sink, slots: int = 1):
        self.rpc = RpcClient(_ADDRESS, sink.port, calls.NFS, 4)
        self.sequence = 0
        identified = self.results(
            _words(_EXCHANGE_ID, 1, 2) + _opaque(b"client") + _words(0x10000, 0, 0)
        )
        assert identified.unpack_uint() == _EXCHANGE_ID
        assert identified.unpack_uint() == 0
        self.client = bytes(identified.unpack_fopaque(8))
        channel = (0, 1 << 20, 1 << 20, 0, 8, slots, 0)
        created = self.results(
            _words(_CREATE_SESSION) + self.client + _words(1, 0, *channel, *channel, 0, 1, 0)
        )
        assert (created.unpack_uint(), created.unpack_uint()) == (_CREATE_SESSION, 0)
        self.session = bytes(created.unpack_fopaque(16))
        words = [created.unpack_uint() for _ in range(2 + 7)]
        self.slots = words[7]

    def results(self, *operations: bytes, minor: int = 1) -> Unpacker:
        """Carry out all the operations, and give their results."""
        status, done, reply = self.compound(*operations, minor=minor)
        assert (status, done) == (0, len(operations))
        return reply

    def compound(self, *operations: bytes, minor: int = 1) -> tuple[int, int, Unpacker]:
        arguments = _opaque(b"tag!") + _words(minor, len(operations)) + b"".join(operations)
        reply = self.rpc.call(1, arguments)
        status = reply.unpack_uint()
        assert reply.unpack_opaque() == b"tag!"
        return status, reply.unpack_uint(), reply

    def in_session(self, *operations: bytes) -> Unpacker:
        """Carry out all the operations, and give the results behind SEQUENCE's."""
        self.sequence += 1
        reply = self.results(self.ask(self.sequence), *operations)
        assert (reply.unpack_uint(), reply.unpack_uint()) == (_SEQUENCE, 0)
        assert reply.unpack_fopaque(16) == self.session
        words = [reply.unpack_uint() for _ in range(5)]
        assert words == [self.sequence, 0, self.slots - 1, self.slots - 1, 0]
        return reply

    def refused(self, *operations: bytes) -> int:
        """Give the status of the last operation, which is not carried out."""
        self.sequence += 1
        status, done, _ = self.compound(self.ask(self.sequence), *operations)
        assert done == 1 + len(operations)
        return status

    def ask(self, sequence: int, slot: int = 0) -> bytes:
        return _words(_SEQUENCE) + self.session + _words(sequence, slot, 0, 0)

    def open(self, name: bytes, *how: int) -> tuple[bytes, bytes]:
        """Give a stateid and a file handle."""
        reply = self.in_session(
            _words(_PUTROOTFH),
            _words(_LOOKUP4) + _opaque(b"export"),
            _words(_OPEN, 0, 3, 0) + self.client + _opaque(b"o") + _words(*how, 0) + _opaque(name),
            _words(_GETFH),
        )
        words = [reply.unpack_uint() for _ in range(5)]
        assert words == [_PUTROOTFH, 0, _LOOKUP4, 0, _OPEN]
        assert reply.unpack_uint() == 0
        stateid = bytes(reply.unpack_fopaque(16))
        reply.unpack_fopaque(20 + 4)  # change, flags
        reply.unpack_array(reply.unpack_uint)
        words = [reply.unpack_uint() for _ in range(3)]
        assert words == [0, _GETFH, 0]
        return stateid, bytes(reply.unpack_opaque())

    def of_file(self, file: bytes, operation: bytes) -> Unpacker:
        """Carry out an operation on it, and give its results behind the status."""
        reply = self.in_session(_words(_PUTFH) + _opaque(file), operation)
        assert [reply.unpack_uint() for _ in range(4)] == [_PUTFH, 0, _number(operation), 0]
        return reply


def _words(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def _number(operation: bytes) -> int:
    return int.from_bytes(operation[:4])


def _opaque(value: bytes) -> bytes:
    return _words(len(value)) + value + bytes(-len(value) % 4)


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
    assert counts.mount["MNT"] >= 2


def test_many_connections_on_several_threads(
    build_dir: Path, engine: Engine, tmp_path: Path
) -> None:
    with Sink(["--threads", "3"], folder=build_dir) as sink:
        result = _run(
            engine,
            sink,
            tmp_path / "rw",
            rw="randrw",
            bsrange="512-256k",
            size="32m",
            iodepth=64,
            nconnect=16,
            spread="roundrobin",
        )
        counts = sink.stop()
    assert counts.nfs["READ"] == sum(line.read_ops for line in result.stats)
    assert counts.nfs["WRITE"] == sum(line.write_ops for line in result.stats)
    assert counts.connections >= len(result.stats) == 16


def test_transfer_sizes_are_what_was_asked_for(
    build_dir: Path, engine: Engine, tmp_path: Path
) -> None:
    options = ["--rtmax", "65536", "--wtmax", "32768"]
    with Sink(options, folder=build_dir) as sink:
        client = _Client(sink)
        assert calls.fsinfo(client.rpc, client.root) == calls.FsInfo(65536, 32768)
        for rw in ("read", "write"):
            _run(engine, sink, tmp_path / rw, rw=rw, bs="1m", size="4m")
        counts = sink.stop()
    assert counts.nfs["READ"] == 4 * 16
    assert counts.nfs["WRITE"] == 4 * 32


def test_pacing_is_each_connections_own(build_dir: Path) -> None:
    with Sink(["--pacing", "1000000"], folder=build_dir) as sink, _Client(sink).rpc:
        argv = ["ss", "-tinH", f"sport = :{sink.port}"]
        shown = run(argv, timeout=_SECONDS).check().stdout
    assert re.search(r"pacing_rate \S+/(8000000|8M)bps", shown), shown


def test_reads_end_where_the_file_does(build_dir: Path) -> None:
    with Sink(["--file-size", "10001"], folder=build_dir) as sink:
        client = _Client(sink)
        file = client.lookup("any")
        assert client.read(file, 0, 4096) == (bytes(4096), False)
        assert client.read(file, 9999, 4096) == (bytes(2), True)
        assert client.read(file, 10001, 1) == (b"", True)


def test_a_handle_of_nobodys_has_a_file(sink: Sink) -> None:
    """For a client without MOUNT and LOOKUP."""
    client = _Client(sink)
    for handle in (b"FFFFFFFF", b"F" * 32, b""):
        assert client.read(handle, 4096, 4096) == (bytes(4096), False)
        assert client.write(handle, 0, b"x")[0] == 1


def test_writes_are_counted_and_grow_the_file(sink: Sink) -> None:
    client = _Client(sink)
    lengths = (1, 4096, 16384, 1 << 20)
    for length in lengths:
        file = client.lookup(f"of {length}")
        count, stable, verifier = client.write(file, _TIB, b"x" * length)
        assert (count, stable) == (length, 1)
        assert client.commit(file) == verifier
        assert client.read(file, _TIB, 2 << 20) == (bytes(length), True)
    assert sink.stop().write_bytes == sum(lengths)


def test_names(sink: Sink) -> None:
    client = _Client(sink)
    assert client.lookup("a") == client.lookup("a") != client.lookup("b")
    calls.create_and_remove(client.rpc, client.root, "new")
    with pytest.raises(calls.Nfs3Error, match="EEXIST"):
        calls.create_and_remove(client.rpc, client.root, "a")


def test_what_it_does_not_serve(sink: Sink) -> None:
    client = _Client(sink)
    with pytest.raises(RpcError, match="accept status 3"):
        client.rpc.call(16)
    with (
        RpcClient(_ADDRESS, sink.port, calls.NFS, 2) as version2,
        pytest.raises(RpcVersionError, match="3 to 4"),
    ):
        version2.call(0)
    assert client.read(client.lookup("a"), 0, 1)[0] == bytes(1)


def test_nonsense_ends_its_own_connection_only(sink: Sink) -> None:
    client = _Client(sink)
    last = 1 << 31
    for said in (
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", last),  # an empty record
        struct.pack(">6I", last | 20, 1, 1, 2, 100003, 3),  # a reply
        struct.pack(">7I", last | 24, 1, 0, 2, 100003, 3, 6),  # half a header
        struct.pack(">9I", last | 1 << 30, 1, 0, 2, 100003, 3, 6, 1, 0xFFFFFFF0) + bytes(1 << 20),
    ):
        with (
            socket.create_connection((_ADDRESS, sink.port), timeout=_SECONDS) as nonsense,
            contextlib.suppress(ConnectionError),
        ):
            nonsense.sendall(said)
            assert nonsense.recv(1) == b""
        assert client.read(client.lookup("a"), 0, 1)[0] == bytes(1)


def test_nfs4_data(sink: Sink) -> None:
    client = _Client4(sink)
    client.in_session(_words(_RECLAIM_COMPLETE, 0))
    lengths = (1, 4096, 16384, 1 << 20)
    for length in lengths:
        stateid, file = client.open(f"of {length}".encode(), 1, 0, 0, 0)  # UNCHECKED, no attributes
        where = stateid + struct.pack(">Q", _TIB)
        write = _words(_WRITE4) + where + _words(1) + _opaque(b"x" * length)
        wrote = client.of_file(file, write)
        assert (wrote.unpack_uint(), wrote.unpack_uint()) == (length, 1)
        verifier = wrote.unpack_fopaque(8)
        wrote.done()
        commit = client.of_file(file, _words(_COMMIT4, 0, 0, 0))
        assert commit.unpack_fopaque(8) == verifier
        read = client.of_file(file, _words(_READ4) + where + _words(2 << 20))
        assert read.unpack_uint()  # the end
        assert read.unpack_opaque() == bytes(length)
        read.done()
        client.of_file(file, _words(_CLOSE, 0) + stateid)
    counts = sink.stop()
    assert counts.write_bytes == counts.read_bytes == sum(lengths)
    assert counts.nfs4["READ"] == counts.nfs4["WRITE"] == counts.nfs4["CLOSE"] == len(lengths)


def test_nfs4_calls_that_come_in_parts_are_served_once(sink: Sink) -> None:
    client = _Client4(sink)
    length = 50_000
    write = _words(_WRITE4) + bytes(16 + 8) + _words(2) + _opaque(bytes(length))
    create = _words(_OPEN, 0, 3, 0) + client.client + _opaque(b"o") + _words(1, 1, 0, 0, 0)
    with socket.create_connection((_ADDRESS, sink.port), timeout=_SECONDS) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for sequence, operations in enumerate(
            (
                [_words(_PUTFH) + _opaque(b"any"), write],
                [_words(_PUTROOTFH), create + _opaque(b"new"), _words(_GETFH)],
            ),
            start=1,
        ):
            call = _words(sequence, 0, 2, calls.NFS, 4, 1, 0, 0, 0, 0, 0, 1, 1 + len(operations))
            call += client.ask(sequence) + b"".join(operations)
            record = _words(1 << 31 | len(call)) + call
            for at in range(0, 300, 12):
                raw.sendall(record[at : at + 12])
                client.rpc.call(0)  # answered after what came before it was looked at
            raw.sendall(record[300:])
            (mark,) = struct.unpack(">I", raw.recv(4, socket.MSG_WAITALL))
            reply = raw.recv(mark & ~(1 << 31), socket.MSG_WAITALL)
            assert struct.unpack(">9I", reply[:36])[6:] == (0, 0, 1 + len(operations))
    counts = sink.stop()
    assert counts.nfs4["SEQUENCE"] == 2
    assert counts.write_bytes == length


def test_nfs4_names_and_attributes(sink: Sink) -> None:
    client = _Client4(sink)
    asked = [0, 1, 2, 3, 4, 5, 8, 10, 20, 30, 31, 33]  # 5 is not served
    bits = sum(1 << bit for bit in asked)
    getattr_ = _words(_GETATTR, 2, bits & 0xFFFFFFFF, bits >> 32)
    none = _words(0, 0)
    size_is_512 = _words(1, 1 << 4, 8, 0, 512)
    client.in_session(_words(_PUTROOTFH), _words(_CREATE, 2) + _opaque(b"dir") + none)
    stateid, file = client.open(b"made", 1, 1, 0, 0)  # GUARDED, no attributes
    assert client.open(b"made", 0)[1] == file
    again = _words(_OPEN, 0, 3, 0) + client.client + _opaque(b"o")
    create = again + _words(1, 1, 0, 0, 0) + _opaque(b"made")
    assert client.refused(_words(_PUTROOTFH), create) == _EXIST
    reclaim = again + _words(0, 1, 0)
    assert client.of_file(file, reclaim).unpack_fopaque(16) == stateid
    client.of_file(file, _words(_SETATTR) + stateid + size_is_512)
    attributes = client.of_file(file, getattr_)
    served = bits & ~(1 << 5)
    assert attributes.unpack_array(attributes.unpack_uint) == [served & 0xFFFFFFFF, served >> 32]
    values = Unpacker(attributes.unpack_opaque())
    attributes.done()
    values.unpack_array(values.unpack_uint)
    assert (values.unpack_uint(), values.unpack_uint()) == (1, 0)
    assert (values.unpack_uhyper(), values.unpack_uhyper()) == (512, 512)
    assert (values.unpack_uhyper(), values.unpack_uhyper()) == (1, 0)
    assert values.unpack_uint() > 0
    values.unpack_uhyper()
    assert (values.unpack_uhyper(), values.unpack_uhyper()) == (1 << 20, 1 << 20)
    assert values.unpack_uint() == 0o666
    values.done()
    client.in_session(_words(_PUTROOTFH), _words(_REMOVE) + _opaque(b"made"))
    assert client.open(b"made", 1, 1, 0, 0)[1] != file
    assert client.refused(_words(_PUTROOTFH), again + _words(0, 0) + _opaque(b"dir")) == _ISDIR


def test_nfs4_sessions(sink: Sink) -> None:
    client = _Client4(sink, slots=5000)
    assert client.slots == 1024
    other = _Client4(sink)
    assert other.client == client.client
    assert other.session != client.session
    other.rpc.call(0)
    other.results(_words(_BIND) + client.session + _words(3, 0))
    other.results(client.ask(1, slot=1023), minor=2)  # a session spans connections
    for sequence, slot, status in (
        (1, 1023, _RETRY_UNCACHED_REP),
        (3, 1023, _SEQ_MISORDERED),
        (1, 1024, _BADSLOT),
    ):
        assert client.compound(client.ask(sequence, slot))[:2] == (status, 1)
    assert client.compound(_words(_PUTROOTFH))[0] == _OP_NOT_IN_SESSION
    assert client.compound(minor=0)[:2] == (_MINOR_VERS_MISMATCH, 0)
    assert client.refused(_words(12)) == _NOTSUPP  # LOCK
    assert client.refused(_words(99)) == _OP_ILLEGAL
    assert client.refused(_words(_GETFH)) == _NOFILEHANDLE
    foreign = _words(1, 0x73696E6B, 0, 0)  # an open of a sink that ran before
    read = _words(_READ4) + foreign + _words(0, 0, 1)
    assert client.refused(_words(_PUTROOTFH), read) == _BAD_STATEID
    destroy = _words(_DESTROY_CLIENTID) + client.client
    assert client.compound(destroy)[0] == _CLIENTID_BUSY
    for session in (client.session, other.session):
        client.results(_words(_DESTROY_SESSION) + session)
    assert client.compound(client.ask(2))[0] == _BADSESSION
    client.results(destroy)
    assert client.compound(_words(_DESTROY_CLIENTID, 0, 0))[0] == _STALE_CLIENTID


@pytest.mark.parametrize("options", [[], ["--spin"]], ids=["sleeps", "spins"])
def test_ends_with_its_counts_whoever_is_connected(build_dir: Path, options: list[str]) -> None:
    with Sink(options, folder=build_dir) as sink:
        client = _Client(sink)
        assert client.read(client.lookup("a"), 0, 1)[0] == bytes(1)
        counts = sink.stop()  # which one that has to be killed does not tell
    assert counts.nfs == {"LOOKUP": 1, "READ": 1}
    assert counts.mount == {"MNT": 1}
    assert counts.connections == 2
    assert counts.busy_seconds > 0


def test_bad_options_are_named(build_dir: Path) -> None:
    for option in ("--rtmax=0", "--cpus=1-", "--threads=x", "--address=nowhere"):
        done = run([str(build_dir / "nfs-sink"), option], timeout=_SECONDS)
        assert done.status == 1
        assert option in done.stderr
