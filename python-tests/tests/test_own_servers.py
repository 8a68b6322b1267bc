# SPDX-License-Identifier: GPL-2.0-only
"""The tests' own servers, nfs-sink and the scripted one: they send what is ordered, and count.

That the core of both, which the simulator has as well, is strict is what faults.json relies on:
most faults of NFSv4.1's sessions and stateids are found by its refusals alone.
"""

import re
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_helpers import eventually

from jobs import Fio
from nfsmulti.bench.sink import Sink
from nfsmulti.fiorun import Engine, FioResult, Option
from nfsmulti.processes import run
from servers.rpc import (
    CALL,
    NFS,
    RPC_VERSION,
    AcceptStat,
    RpcClient,
    RpcError,
    accepted,
    mark,
    message,
    record,
    xdr,
)
from servers.scripted import Answer, Call, Nfs, ScriptedServer, on

_SECONDS = 60.0

# --- nfs-sink ---


@pytest.fixture
def sink(build_dir: Path) -> Iterator[Sink]:
    with Sink(folder=build_dir) as running:
        yield running


def _client_of(sink: Sink) -> RpcClient:
    return RpcClient("127.0.0.1", sink.port, NFS, 3)


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
    with Sink(["--pacing", "1000000"], folder=build_dir) as sink, _client_of(sink):
        argv = ["ss", "-tinH", f"sport = :{sink.port}"]
        shown = run(argv, timeout=_SECONDS).check().stdout
    assert re.search(r"pacing_rate \S+/(8000000|8M)bps", shown), shown


@pytest.mark.parametrize("options", [[], ["--spin"]], ids=["sleeps", "spins"])
def test_ends_with_its_counts_whoever_is_connected(build_dir: Path, options: list[str]) -> None:
    with Sink(options, folder=build_dir) as sink, _client_of(sink) as client:
        client.call(0)
        counts = sink.stop()  # which one that has to be killed does not tell
    assert (counts.nfs, counts.nfs4, counts.mount) == ({"NULL": 1}, {}, {})
    assert counts.connections == 1
    assert counts.busy_seconds > 0


def test_stalls_again_and_again(build_dir: Path) -> None:
    with Sink(["--stall", "199:200"], folder=build_dir) as sink, _client_of(sink) as client:

        def waits() -> bool:
            begun = time.monotonic()
            client.call(0)
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
