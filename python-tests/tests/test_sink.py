# SPDX-License-Identifier: GPL-2.0-only
"""nfs-sink: it serves the engine and other clients, and counts what they ask for.

What NFSv3's and NFSv4.1's messages mean to it is the simulator's server as well: test_sim.py.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_helpers import eventually
from nfs41_client import Client41, Held, Reply, op

from jobs import Fio
from nfsmulti.bench.sink import Sink
from nfsmulti.fiorun import Engine, FioResult, Option
from nfsmulti.processes import run
from servers.rpc import Fixed, Hyper, xdr
from servers.scripted import Nfs4, Stable, Status4

_TIB = 1 << 40
_SECONDS = 60.0


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


def test_sessions(sink: Sink) -> None:
    root = op(Nfs4.PUTROOTFH)
    with Client41(sink.port, slots=5000) as client, Client41(sink.port) as other:
        assert client.begin() == other.begin() == Status4.OK
        assert client.channel[-1] == 1024
        told = {"sequence": 2, "slot": 0, "highest": 1023, "target": 1023, "flags": 0}
        assert client.call().of(Nfs4.SEQUENCE) == told
        assert other.client == client.client
        assert other.session != client.session
        bind = op(Nfs4.BIND_CONN_TO_SESSION, Fixed(client.session), 3, 0)
        assert other.compound(bind).status == Status4.OK

        def ask(sequence: int, slot: int, minor: int = 1) -> Reply:  # of the first, by the other
            words = (Fixed(client.session), sequence, slot, 0, 0)
            return other.compound(op(Nfs4.SEQUENCE, *words), minor=minor)

        for sequence, slot, status in (
            (1, 1023, Status4.OK),
            (1, 1023, Status4.RETRY_UNCACHED_REP),
            (3, 1023, Status4.SEQ_MISORDERED),
            (1, 1024, Status4.BADSLOT),
        ):
            assert ask(sequence, slot).status == status, (sequence, slot)
        assert ask(2, 1023, minor=2).status == Status4.OK
        assert client.compound(root).status == Status4.OP_NOT_IN_SESSION
        assert client.compound(minor=0).status == Status4.MINOR_VERS_MISMATCH
        assert client.call(xdr(12)).status == Status4.NOTSUPP  # LOCK
        assert client.call(xdr(99)).status == Status4.OP_ILLEGAL
        assert client.call(op(Nfs4.GETFH)).status == Status4.NOFILEHANDLE
        foreign = Held(b"any", xdr(1, 0x73696E6B, 0, 0))  # an open of a sink that ran before
        assert client.call(*foreign.read(0, 1)).status == Status4.STALE_STATEID
        destroy = op(Nfs4.DESTROY_CLIENTID, Hyper(client.client))
        assert client.compound(destroy).status == Status4.CLIENTID_BUSY
        for session in (client.session, other.session):
            assert client.compound(op(Nfs4.DESTROY_SESSION, Fixed(session))).status == Status4.OK
        assert client.call().status == Status4.BADSESSION
        assert client.compound(destroy).status == Status4.OK
        gone = op(Nfs4.DESTROY_CLIENTID, Hyper(0))
        assert client.compound(gone).status == Status4.STALE_CLIENTID


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
    for option in (
        "--pacing=0",
        "--cpus=1-",
        "--stall=5",
        "--stall=5:5",
        "--address=nowhere",
        "--wrong",
    ):
        done = run([str(build_dir / "nfs-sink"), option], timeout=_SECONDS)
        assert done.status == 2
        assert option in done.stderr
