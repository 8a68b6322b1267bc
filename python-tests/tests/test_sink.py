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

from nfsmulti.bench.sink import Sink
from nfsmulti.fiorun import Engine, Fio, FioResult, Option
from nfsmulti.nfs import nfs3
from nfsmulti.nfs.rpc import RpcClient, RpcError, RpcVersionError
from nfsmulti.processes import run

_ADDRESS = "127.0.0.1"
_LOOKUP, _READ, _WRITE, _COMMIT = 3, 6, 7, 21
_TIB = 1 << 40
_ATTRIBUTES = 84  # bytes of them
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
        self.rpc = RpcClient(_ADDRESS, sink.port, nfs3.NFS, 3)
        with RpcClient(_ADDRESS, sink.port, nfs3.MOUNT, 3) as mount:
            self.root = nfs3.mount(mount, "/export")

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
        assert nfs3.fsinfo(client.rpc, client.root) == nfs3.FsInfo(65536, 32768)
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
    nfs3.create_and_remove(client.rpc, client.root, "new")
    with pytest.raises(nfs3.Nfs3Error, match="EEXIST"):
        nfs3.create_and_remove(client.rpc, client.root, "a")


def test_what_it_does_not_serve(sink: Sink) -> None:
    client = _Client(sink)
    with pytest.raises(RpcError, match="accept status 3"):
        client.rpc.call(16)
    with (
        RpcClient(_ADDRESS, sink.port, nfs3.NFS, 4) as version4,
        pytest.raises(RpcVersionError, match="3 to 3"),
    ):
        version4.call(0)
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
