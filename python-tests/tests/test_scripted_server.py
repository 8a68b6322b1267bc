# SPDX-License-Identifier: GPL-2.0-only
"""The scripted server itself: sound NFS where no hook speaks, and faults as they are ordered.

Only what would mislead the tests that use it: most of it fails there as well.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Self

import pytest
from nfs41_client import Client41, Fixed, Held, Hyper, op, pack, path
from xdrlib3 import Packer, Unpacker

from nfsmulti import calls
from nfsmulti.calls import RpcClient, RpcDeniedError, RpcVersionError
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.scripted import (
    AcceptStat,
    Answer,
    AuthStat,
    Call,
    Export,
    Mount,
    Nfs,
    Nfs4,
    ScriptedServer,
    Stable,
    Status,
    Status4,
    Terms,
    accepted,
    denied,
    mark,
    on,
    reserved_ports_only,
)
from nfsmulti.scripted.files import FileSystem

SECONDS = 60.0
NFS, MOUNT = 100003, 100005


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


class Client:
    """Plain calls of NFS, one at a time."""

    def __init__(self, server: ScriptedServer):
        with RpcClient("127.0.0.1", server.mount_port, MOUNT, 3) as mount:
            self.root = calls.mount(mount, server.export.path)
        self._rpc = RpcClient("127.0.0.1", server.nfs_port, NFS, 3)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rpc.__exit__()

    def call(self, procedure: Nfs, *arguments: int | bytes) -> tuple[int, Unpacker]:
        """Call with words, hypers and opaques; give the status and the results behind it."""
        pack = Packer()
        for argument in arguments:
            if isinstance(argument, bytes):
                pack.pack_opaque(argument)
            elif isinstance(argument, Hyper):
                pack.pack_uhyper(argument)
            else:
                pack.pack_uint(argument)
        results = self._rpc.call(procedure.value, pack.get_buffer())
        return results.unpack_uint(), results

    def status(self, procedure: Nfs, *arguments: int | bytes) -> int:
        """Call for the status alone."""
        return self.call(procedure, *arguments)[0]

    def lookup(self, name: str) -> bytes:
        """Give a file's handle."""
        status, results = self.call(Nfs.LOOKUP, self.root, name.encode())
        assert status == Status.OK
        return bytes(results.unpack_opaque())

    def create(self, name: str) -> bytes:
        """Create a file, which must be new, and give its handle."""
        assert self.status(Nfs.CREATE, self.root, name.encode(), 1, *[0] * 6) == Status.OK
        return self.lookup(name)

    def size(self, handle: bytes) -> int:
        """GETATTR for the size."""
        status, results = self.call(Nfs.GETATTR, handle)
        assert status == Status.OK
        for _ in range(5):
            results.unpack_uint()
        return int(results.unpack_uhyper())

    def read(self, handle: bytes, offset: int, count: int) -> tuple[bytes, bool]:
        """READ: give the data, and whether it ends the file."""
        status, results = self.call(Nfs.READ, handle, Hyper(offset), count)
        assert status == Status.OK
        skip_attributes(results)
        length, eof = results.unpack_uint(), results.unpack_bool()
        data = bytes(results.unpack_opaque())
        assert len(data) == length
        results.done()
        return data, eof

    def write(
        self, handle: bytes, offset: int, data: bytes, stable: Stable = Stable.UNSTABLE
    ) -> tuple[int, int, bytes]:
        """WRITE: give the count, how durable it is, and the verifier."""
        arguments = (handle, Hyper(offset), len(data), stable, data)
        status, results = self.call(Nfs.WRITE, *arguments)
        assert status == Status.OK
        skip_change(results)
        return results.unpack_uint(), results.unpack_uint(), bytes(results.unpack_fopaque(8))

    def commit(self, handle: bytes, offset: int = 0, count: int = 0) -> bytes:
        """COMMIT: give the verifier."""
        status, results = self.call(Nfs.COMMIT, handle, Hyper(offset), count)
        assert status == Status.OK
        skip_change(results)
        return bytes(results.unpack_fopaque(8))


def skip_attributes(results: Unpacker) -> None:
    if results.unpack_bool():
        results.unpack_fopaque(84)


def skip_change(results: Unpacker) -> None:
    if results.unpack_bool():
        results.unpack_fopaque(24)
    skip_attributes(results)


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[Client]:
    with Client(server) as running:
        yield running


# --- sound ---


@pytest.mark.parametrize(("handle_size", "attributes"), [(31, True), (64, False)])
def test_read_write_commit(handle_size: int, attributes: bool) -> None:
    export = Export(attributes=attributes, files=FileSystem(handle_size))
    with ScriptedServer(export=export) as server, Client(server) as client:
        handle = client.create("f")
        assert len(handle) == handle_size
        first = client.write(handle, 5, b"hello")
        assert first == (5, Stable.UNSTABLE, export.files.verifier)
        assert client.read(handle, 0, 100) == (bytes(5) + b"hello", True)
        assert client.read(handle, 4, 3) == (b"\0he", False)
        assert client.read(handle, 50, 1) == (b"", True)
        assert server.durable("f") == b""
        assert client.commit(handle) == export.files.verifier
        assert server.durable("f") == server.content("f") == bytes(5) + b"hello"


def test_a_synchronous_write_is_durable(server: ScriptedServer, client: Client) -> None:
    handle = client.create("f")
    assert client.write(handle, 0, b"abc", Stable.DATA_SYNC)[1] == Stable.DATA_SYNC
    server.new_verifier()
    assert server.content("f") == b"abc"


def test_commit_covers_its_range(server: ScriptedServer, client: Client) -> None:
    handle = client.create("f")
    client.write(handle, 0, b"a" * 30)
    client.commit(handle, 10, 10)
    server.new_verifier()
    assert server.content("f") == bytes(10) + b"a" * 10
    client.write(handle, 15, b"b" * 10)
    client.commit(handle, 20)
    server.new_verifier()
    assert server.content("f") == bytes(10) + b"a" * 10 + b"b" * 5


def test_a_restart_loses_what_was_not_committed(server: ScriptedServer) -> None:
    with Client(server) as client:
        handle = client.create("f")
        _, _, verifier = client.write(handle, 0, b"kept")
        client.commit(handle)
        client.write(handle, 2, b"lost")
        server.restart()
        with pytest.raises(ConnectionError):
            client.commit(handle)
    with Client(server) as client:
        assert client.read(handle, 0, 10) == (b"kept", True)
        assert client.commit(handle) != verifier
        assert client.commit(handle) == client.write(handle, 0, b"")[2]


def test_limits(server: ScriptedServer, client: Client) -> None:
    server.export.rtmax, server.export.wtmax = 7, 5
    with RpcClient("127.0.0.1", server.nfs_port, NFS, 3) as rpc:
        assert calls.fsinfo(rpc, client.root) == calls.FsInfo(7, 5)
    handle = client.create("f")
    assert client.write(handle, 0, b"123456789")[0] == 5
    server.create("g", b"123456789")
    assert client.read(client.lookup("g"), 0, 100) == (b"1234567", False)


def test_names(server: ScriptedServer, client: Client) -> None:
    root, none, times = client.root, [0] * 4, [0, 0]
    server.create("d/f", b"x")
    directory = client.lookup("d")
    expected: list[tuple[Nfs, tuple[int | bytes, ...], int]] = [
        (Nfs.LOOKUP, (root, b"absent"), Status.NOENT),
        (Nfs.CREATE, (root, b"new", 1, *none, *times), Status.OK),
        (Nfs.CREATE, (root, b"new", 1, *none, *times), Status.EXIST),
        (Nfs.CREATE, (root, b"new", 0, *none, *times), Status.OK),
        (Nfs.CREATE, (root, b"excl", 2, Hyper(7)), Status.OK),
        (Nfs.CREATE, (root, b"d", 0, *none, *times), Status.ISDIR),
        (Nfs.MKDIR, (root, b"e", *none, *times), Status.OK),
        (Nfs.MKDIR, (root, b"e", *none, *times), Status.EXIST),
        (Nfs.RMDIR, (root, b"d"), Status.NOTEMPTY),
        (Nfs.RMDIR, (root, b"new"), Status.NOTDIR),
        (Nfs.RMDIR, (root, b"e"), Status.OK),
        (Nfs.REMOVE, (root, b"d"), Status.ISDIR),
        (Nfs.RENAME, (directory, b"f", root, b"new"), Status.OK),
        (Nfs.RMDIR, (root, b"d"), Status.OK),
        (Nfs.GETATTR, (directory,), Status.STALE),
        (Nfs.GETATTR, (b"short",), Status.BADHANDLE),
        (Nfs.READ, (root, Hyper(0), 1), Status.ISDIR),
        (Nfs.ACCESS, (root, 0x3F), Status.OK),
        (Nfs.FSSTAT, (root,), Status.OK),
        (Nfs.PATHCONF, (root,), Status.OK),
    ]
    for procedure, arguments, status in expected:
        assert client.status(procedure, *arguments) == status, (procedure, arguments)
    assert client.read(client.lookup("new"), 0, 9) == (b"x", True)
    assert client.status(Nfs.REMOVE, root, b"new") == Status.OK
    assert [call.file for call in server.calls(Nfs.REMOVE, Nfs.RENAME)] == ["d", "d/f", "new"]


def test_the_log(server: ScriptedServer) -> None:
    with RpcClient("127.0.0.1", server.nfs_port, NFS, 3, user=(12, 34)) as rpc:
        rpc.call(0)
        rpc.call(0)
    with RpcClient("127.0.0.1", server.nfs_port, NFS, 3) as rpc:
        rpc.call(0)
    calls = server.calls(Nfs.NULL)
    assert [call.nth for call in calls] == [1, 2, 3]
    assert [call.connection for call in calls] == [0, 0, 1]
    assert calls[1].xid == (calls[0].xid + 1) % 2**32
    assert (calls[0].credentials.uid, calls[0].credentials.gid) == (12, 34)
    assert calls[0].client[0] == "127.0.0.1"
    assert calls[0].server == ("127.0.0.1", server.nfs_port)
    assert not server.calls(Mount.NULL)


def test_several_addresses() -> None:
    addresses = ["127.0.0.1", "127.0.0.2", "::1"]
    with ScriptedServer(addresses=addresses) as server:
        for address in addresses:
            with RpcClient(address, server.nfs_port, NFS, 3) as rpc:
                rpc.call(0)
        assert [call.server[0] for call in server.calls()] == addresses
        assert [call.connection for call in server.calls()] == [0, 1, 2]
        ports = f"nfsport={server.nfs_port}&mountport={server.mount_port}"
        assert server.pool().endswith(f",nfs://[::1]/export?{ports}")


# --- NFSv4.1 ---


@pytest.fixture
def client41(server: ScriptedServer) -> Iterator[Client41]:
    with Client41(server) as running:
        assert running.begin() == Status4.OK
        yield running


def statuses(server: ScriptedServer, operation: Nfs4) -> list[int | None]:
    return [call.status for call in server.calls(operation)]


def test_v41_whole_life(server: ScriptedServer, client41: Client41) -> None:
    file = client41.opened("f", create=True)
    verifier = server.export.files.verifier
    assert client41.call(*file.write(5, b"hello")).of(Nfs4.WRITE) == (5, 0, verifier)
    assert client41.call(*file.read(0, 99)).of(Nfs4.READ) == (True, bytes(5) + b"hello")
    assert client41.call(*file.read(4, 3)).of(Nfs4.READ) == (False, b"\0he")
    assert server.durable("f") == b""
    assert client41.call(*file.commit()).of(Nfs4.COMMIT) == verifier
    assert server.durable("f") == bytes(5) + b"hello"
    assert [one.file.path for one in server.opens()] == ["f"]
    assert client41.call(*file.close()).status == Status4.OK
    busy = client41.compound(op(Nfs4.DESTROY_CLIENTID, Hyper(client41.client)))
    assert busy.status == Status4.CLIENTID_BUSY
    assert client41.end() == [Status4.OK, Status4.OK]
    assert [*server.opens(), *server.sessions(), *server.clients()] == []
    write = server.calls(Nfs4.WRITE)[0]
    assert (write.file, write.offset, write.count, write.moved) == ("f", 5, 5, 5)
    assert (write.session, write.slot, write.sequence) == (client41.session, 0, 3)


def test_v41_a_client_of_another_hand(server: ScriptedServer) -> None:
    nfs_rs = pytest.importorskip("nfs_rs")
    server.create("d/f", bytes(3 << 20))
    data = secrets.token_bytes(3 << 20)
    with nfs_rs.Client.connect(server.url4(noresvport="true")) as other:
        assert other.stat("d/f").size == 3 << 20
        other.mkdir("e")
        with other.open("e/new", "wb") as file:
            file.write(data)
        with other.open("e/new", "rb") as file:
            assert file.read() == data
        other.remove("d/f")
    assert server.durable("e/new") == data
    assert [*server.opens(), *server.sessions(), *server.clients()] == []


def test_v41_a_client_id_has_one_user(server: ScriptedServer, client41: Client41) -> None:
    exchange = pack(b"", 1, 1) + op(Nfs4.EXCHANGE_ID, Fixed(b"verifier"), client41.owner, 0, 0, 0)
    with RpcClient("127.0.0.1", server.nfs_port, NFS, 4, user=(12, 34)) as rpc:
        assert rpc.call(1, exchange).unpack_uint() == Status4.CLID_INUSE


def test_v41_versions(server: ScriptedServer) -> None:
    with Client41(server) as client:
        server.terms.minors = (2,)
        assert client.compound(minor=1).status == Status4.MINOR_VERS_MISMATCH
        assert client.compound(minor=2).status == Status4.OK
        server.terms.minors = ()
        with pytest.raises(RpcVersionError, match="offers versions 3 to 3"):
            client.compound()


def test_v41_a_slot_answers_again(server: ScriptedServer, client41: Client41) -> None:
    file = client41.opened("f", create=True)
    put, other = [file.write(0, one, Stable.FILE_SYNC) for one in (b"a", b"b")]
    first = client41.call(*put, cache=True)
    assert client41.again(*put, cache=True) == first
    assert client41.again(*other, cache=True).status == Status4.SEQ_FALSE_RETRY
    first = client41.call(*other)
    again = client41.again(*other)
    assert [one[1] for one in again.results] == [Status4.OK, Status4.RETRY_UNCACHED_REP]
    server.terms.uncached_at_sequence = True
    assert [one[1] for one in client41.again(*other).results] == [Status4.RETRY_UNCACHED_REP]
    client41.sequences[0] += 2
    assert client41.again(*other).status == Status4.SEQ_MISORDERED
    client41.sequences[0] -= 1
    assert client41.again(*other).status == Status4.OK
    told = server.calls(Nfs4.SEQUENCE)[-7:]
    assert [one.replayed for one in told] == [True, *[False] * 6]
    assert [one.status for one in told[2:6]] == [0, *[Status4.RETRY_UNCACHED_REP] * 2, 10063]
    assert len(server.calls(Nfs4.WRITE)) == 3  # what the slot answers is not carried out


@pytest.mark.parametrize("act", [True, False])
def test_v41_a_reply_is_lost(act: bool) -> None:
    """After the WRITE its slot has the reply; before it, the call is a new one to the server."""
    lost = on(Nfs4.WRITE, Answer(act=act, reply=False, end="reset"), first=1)
    with ScriptedServer(lost) as server, Client41(server) as client:
        assert client.begin() == Status4.OK
        put = client.opened("f", create=True).write(0, b"x", Stable.FILE_SYNC)
        with pytest.raises(ConnectionError):
            client.call(*put, cache=True)
        assert server.content("f") == (b"x" if act else b"")
        client.connect()
        assert client.again(*put, cache=True).of(Nfs4.WRITE)[0] == 1
        assert server.calls(Nfs4.SEQUENCE)[-1].replayed == act
        assert server.content("f") == b"x"


def test_v41_the_slot_table_changes(server: ScriptedServer) -> None:
    server.terms.slots = 4
    with Client41(server) as client:
        assert client.begin() == Status4.OK
        assert client.channel[-1] == 4
        assert client.call(slot=4).status == Status4.BADSLOT
        assert client.call(slot=3).of(Nfs4.SEQUENCE)["target"] == 3
        server.terms.target = 1
        assert client.call(slot=0, highest=3).of(Nfs4.SEQUENCE)["target"] == 1
        assert client.call(slot=3).status == Status4.OK  # not before the client knows
        assert client.call(slot=0).of(Nfs4.SEQUENCE)["highest"] == 1
        assert client.call(slot=3).status == Status4.BADSLOT
        server.terms.target = 5
        assert client.call(slot=0).of(Nfs4.SEQUENCE)["target"] == 5
        client.sequences[3] = 0  # the slot is a new one
        assert client.call(slot=3).status == client.call(slot=5).status == Status4.OK


def test_v41_stateids(server: ScriptedServer, client41: Client41) -> None:
    server.create("f", b"x")
    reader = client41.opened("f", access=1)
    assert client41.call(*reader.write(0, b"y")).status == Status4.OPENMODE
    writer = client41.opened("f")
    assert client41.call(*reader.read(0, 1)).status == Status4.OLD_STATEID
    made_up = Held(writer.handle, writer.stateid[:-1] + b"?")
    assert client41.call(*made_up.read(0, 1)).status == Status4.BAD_STATEID
    for special in (bytes(16), b"\xff" * 16):
        assert client41.call(*Held(writer.handle, special).read(0, 1)).status == Status4.OK
    server.revoke()
    assert client41.call(*writer.write(0, b"z")).status == Status4.ADMIN_REVOKED
    assert client41.call().of(Nfs4.SEQUENCE)["flags"] == 0x20
    writer = client41.opened("f")
    assert client41.call(*writer.write(0, b"z")).status == Status4.OK
    assert client41.call(*writer.close()).status == Status4.OK
    assert client41.call(*writer.write(0, b"z")).status == Status4.BAD_STATEID


def test_v41_restart(server: ScriptedServer, client41: Client41) -> None:
    file = client41.opened("f", create=True)
    server.restart()
    client41.connect()
    assert client41.call().status == Status4.BADSESSION
    assert client41.create_session(2) == Status4.STALE_CLIENTID
    assert client41.begin(complete=False) == Status4.OK
    assert client41.open("f").status == Status4.GRACE
    stranger = Held(server.export.files.handle(server.export.files.root), b"")
    assert client41.call(*stranger.reclaim(client41.client)).status == Status4.ISDIR
    reply = client41.call(*file.reclaim(client41.client))
    held = Held(file.handle, reply.of(Nfs4.OPEN))
    assert client41.call(*held.write(0, b"x")).status == Status4.OK
    assert client41.call(op(Nfs4.RECLAIM_COMPLETE, 0)).status == Status4.OK
    assert client41.call(op(Nfs4.RECLAIM_COMPLETE, 0)).status == Status4.COMPLETE_ALREADY
    assert client41.open("f").status == Status4.OK
    assert client41.call(*file.reclaim(client41.client)).status == Status4.NO_GRACE


def test_v41_grace_lasts_for_all(server: ScriptedServer, client41: Client41) -> None:
    server.create("f")
    with Client41(server, owner=b"another") as other:
        assert other.begin() == Status4.OK
        server.restart()
        client41.connect()
        assert client41.begin() == Status4.OK
        assert client41.open("f").status == Status4.GRACE
        server.end_grace()
        assert client41.open("f").status == Status4.OK


@pytest.mark.parametrize("how", ["expire", "lapse", "end sessions"])
def test_v41_the_session_is_gone(how: str, server: ScriptedServer, client41: Client41) -> None:
    client41.opened("f", create=True)
    if how == "expire":
        server.expire()
    elif how == "lapse":
        server.terms.lapses, server.terms.lease = True, 0
    else:
        server.end_sessions()
    assert client41.call().status == Status4.BADSESSION
    kept = how == "end sessions"
    assert client41.create_session(2) == (Status4.OK if kept else Status4.STALE_CLIENTID)
    assert len(server.opens()) == len(server.clients()) == kept


def test_v41_statuses_as_ordered() -> None:
    hooks = (
        on(Nfs4.READ, Answer(status=Status4.DELAY), first=2),
        on(Nfs4.CREATE_SESSION, Answer(status=Status4.TOOSMALL), first=1),
        on(Nfs4.SEQUENCE, Answer(status=Status4.DEADSESSION), nth=6),
    )
    with ScriptedServer(*hooks) as server, Client41(server) as client:
        assert client.begin() == Status4.TOOSMALL
        assert client.create_session(1) == Status4.TOOSMALL  # again
        assert client.create_session(2) == Status4.OK
        server.create("f", b"x")
        assert client.open("f").status == Status4.GRACE  # RECLAIM_COMPLETE has not come
        client.call(op(Nfs4.RECLAIM_COMPLETE, 0))
        get = client.opened("f").read(0, 1)
        for _ in range(2):
            assert client.call(*get).status == Status4.DELAY
        assert client.call(*get).status == Status4.DEADSESSION
        assert client.call(*get).of(Nfs4.READ) == (True, b"x")
        assert statuses(server, Nfs4.READ) == [Status4.DELAY, Status4.DELAY, 0]


def test_v41_data_faults() -> None:
    hooks = (
        on(Nfs4.READ, Answer(limit=1, eof=0), nth=1),
        on(Nfs4.READ, Answer(extra=2), nth=2),
        on(Nfs4.WRITE, Answer(limit=1, committed=0, verifier=b"8 bytes!")),
    )
    with ScriptedServer(*hooks) as server, Client41(server) as client:
        assert client.begin() == Status4.OK
        server.create("f", b"0123")
        file = client.opened("f")
        assert client.call(*file.read(0, 4)).of(Nfs4.READ) == (False, b"0")
        assert client.call(*file.read(2, 2)).of(Nfs4.READ) == (True, b"23\xee\xee")
        put = file.write(0, b"ab", Stable.FILE_SYNC)
        assert client.call(*put).of(Nfs4.WRITE) == (1, 0, b"8 bytes!")
        assert (server.content("f"), server.durable("f")) == (b"a123", b"0123")


def test_v41_places_and_sizes(server: ScriptedServer, client41: Client41) -> None:
    server.terms.bind_first = True
    bind = op(Nfs4.BIND_CONN_TO_SESSION, Fixed(client41.session), 3, 0)
    client41.connect()
    assert client41.call().status == Status4.CONN_NOT_BOUND_TO_SESSION
    assert client41.compound(bind).status == Status4.OK
    root = op(Nfs4.PUTROOTFH)
    assert client41.compound(root).status == Status4.OP_NOT_IN_SESSION
    assert client41.call(op(Nfs4.SEQUENCE)).status == Status4.SEQUENCE_POS
    assert client41.compound(bind, root).status == Status4.NOT_ONLY_OP
    assert client41.call(*[root] * 16).status == Status4.TOO_MANY_OPS
    assert client41.call(pack(1)).status == Status4.OP_ILLEGAL
    assert client41.call(pack(7)).status == Status4.NOTSUPP  # DELEGPURGE
    assert client41.call(root, pack(Nfs4.LOOKUP.value, 99)).status == Status4.BADXDR
    file = client41.opened("f", create=True)
    server.terms.max_response = 512
    assert client41.create_session(2) == Status4.OK
    client41.call(*file.write(0, bytes(1024)))
    assert client41.call(*file.read(0, 1024)).status == Status4.REP_TOO_BIG
    assert client41.call(*file.read(0, 100)).status == Status4.OK


def test_v41_names(server: ScriptedServer, client41: Client41) -> None:
    export = path("export")
    make = op(Nfs4.CREATE, 2, b"d", 0, b"")
    expected: list[tuple[list[bytes], int]] = [
        (path("nowhere"), Status4.NOENT),
        (path("export", ".."), Status4.BADNAME),
        ([*export, op(Nfs4.LOOKUPP), op(Nfs4.LOOKUP, b"export")], Status4.OK),
        ([op(Nfs4.PUTROOTFH), op(Nfs4.LOOKUPP)], Status4.NOENT),
        ([op(Nfs4.PUTROOTFH), make], Status4.ROFS),
        ([*export, make], Status4.OK),
        ([*export, make], Status4.EXIST),
        ([*export, op(Nfs4.REMOVE, b"d")], Status4.OK),
        ([*export, op(Nfs4.ACCESS, 0x3F)], Status4.OK),
        ([op(Nfs4.GETFH)], Status4.NOFILEHANDLE),
        ([op(Nfs4.PUTFH, b"short")], Status4.BADHANDLE),
    ]
    for operations, status in expected:
        assert client41.call(*operations).status == status, operations
    file = client41.opened("f", create=True)
    size = (Fixed(file.stateid), 1, 1 << 4, pack(pack(Hyper(7))))
    cut = pack(Nfs4.SETATTR.value, *size[:3]) + size[3]
    assert client41.call(op(Nfs4.PUTFH, file.handle), cut).status == Status4.OK
    asked = op(Nfs4.GETATTR, 2, 1 << 1 | 1 << 4 | 1 << 10 | 1 << 30, 1 << 1)
    given = client41.call(op(Nfs4.PUTFH, file.handle), asked).of(Nfs4.GETATTR)
    assert given[1] == pack(1, Hyper(7), 90, Hyper(1 << 20), 0o644)


def test_v41_server_owner_by_address() -> None:
    """The same major ID at all addresses; the minor ID says whether they share sessions."""
    addresses = ("127.0.0.1", "127.0.0.2")
    exchange = pack(b"", 1, 1) + op(Nfs4.EXCHANGE_ID, Fixed(b"verifier"), b"o", 0, 0, 0)
    with ScriptedServer(addresses=addresses, terms=Terms(minor_ids={"127.0.0.2": 9})) as server:
        owners = []
        for address in addresses:
            with RpcClient(address, server.nfs_port, NFS, 4) as rpc:
                reply = rpc.call(1, exchange)
            reply.unpack_fopaque(20)  # COMPOUND's status, tag and count; number and status
            reply.unpack_fopaque(20)  # client ID, sequence, flags, protection
            owners.append((reply.unpack_uhyper(), reply.unpack_opaque()))
    assert [minor for minor, _ in owners] == [0, 9]
    assert owners[0][1] == owners[1][1]


# --- on the wire ---


class Wire:
    """A raw connection to the NFS port."""

    def __init__(self, server: ScriptedServer):
        self._socket = socket.create_connection(("127.0.0.1", server.nfs_port), SECONDS)
        self.root = server.export.files.handle(server.export.files.root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def null(self, *xids: int) -> None:
        """Call NULL, for which the reply is reply(xid); all the calls arrive at once."""
        calls = [struct.pack(">10I", xid, 0, 2, NFS, 3, 0, 0, 0, 0, 0) for xid in xids]
        self._socket.sendall(b"".join(mark(len(call)) + call for call in calls))

    def receive(self, count: int) -> bytes:
        """Take so many bytes, which must come."""
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            assert part, "the server has ended the connection"
            data += part
        return data

    def silent(self) -> bool:
        """Whether nothing more comes for a while."""
        self._socket.settimeout(0.1)
        try:
            return not self._socket.recv(1)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(SECONDS)

    def at_end(self) -> bool:
        """Whether the server has ended the connection in good order."""
        return not self._socket.recv(1)


def reply(
    xid: int, *, message_type: int = 1, rest: bytes = struct.pack(">4I", 0, 0, 0, 0)
) -> bytes:
    """Give the message that answers NULL."""
    return struct.pack(">2I", xid, message_type) + rest


WHOLE = mark(24) + reply(7)
# An answer to NULL number 7, and the bytes that come for it.
DELIVERIES: dict[str, tuple[Answer, bytes]] = {
    "fragments": (
        Answer(fragments=(20, 0, 3)),
        mark(20, last=False)
        + reply(7)[:20]
        + mark(0, last=False)
        + mark(3, last=False)
        + reply(7)[20:23]
        + mark(1)
        + reply(7)[23:],
    ),
    "twice": (Answer(repeat=(0, 0.05)), WHOLE * 3),
    "cut": (Answer(cut=9), WHOLE[:9]),
    "denied": (
        Answer(rpc=denied(AuthStat.TOOWEAK)),
        mark(20) + reply(7, rest=struct.pack(">3I", 1, 1, 5)),
    ),
    "another version": (
        Answer(rpc=accepted(AcceptStat.PROG_MISMATCH)),
        mark(32) + reply(7, rest=struct.pack(">6I", 0, 0, 0, 2, 4, 4)),
    ),
}


@pytest.mark.parametrize(("answer", "expected"), DELIVERIES.values(), ids=DELIVERIES.keys())
def test_deliveries(answer: Answer, expected: bytes) -> None:
    with ScriptedServer(on(Nfs.NULL, answer)) as server, Wire(server) as wire:
        wire.null(7)
        assert wire.receive(len(expected)) == expected
        assert wire.silent()


def test_reset() -> None:
    with (
        ScriptedServer(on(Nfs.NULL, Answer(reply=False, end="reset"), nth=3)) as server,
        Wire(server) as wire,
    ):
        wire.null(1, 2)
        wire.receive(2 * len(WHOLE))
        wire.null(3)
        with pytest.raises(ConnectionResetError):
            wire.at_end()


def test_held_replies_come_in_reverse() -> None:
    with ScriptedServer(on(Nfs.NULL, Answer(hold=3))) as server, Wire(server) as wire:
        wire.null(1, 2, 3, 4)
        expected = b"".join(mark(24) + reply(xid) for xid in (3, 2, 1, 4))
        assert wire.receive(len(expected)) == expected


def test_the_first_hook_that_answers_decides() -> None:
    hooks = (
        on(Nfs.NULL, Answer(xid=100), nth=2),
        on(Nfs.NULL, Answer(xid=200), first=1),
        on((Nfs.NULL, Nfs.READ), Answer(xid=300), after=3, every=2),
    )
    with ScriptedServer(*hooks) as server, Wire(server) as wire:
        wire.null(*range(1, 7))
        replies = [wire.receive(28)[4:8] for _ in range(6)]
    assert [int.from_bytes(xid) for xid in replies] == [200, 100, 3, 300, 5, 300]


def test_an_exception_of_a_hook_is_raised_at_the_end() -> None:
    def hook(call: Call) -> Answer | None:
        raise AssertionError(f"no {call.procedure} wanted")

    server = ScriptedServer(hook).__enter__()
    with Wire(server) as wire:
        wire.null(7)
        assert wire.receive(28) == WHOLE
    with pytest.raises(AssertionError, match=r"no Nfs\.NULL wanted"):
        server.__exit__(None)


def test_reserved_ports_only() -> None:
    with ScriptedServer(reserved_ports_only) as server:
        with (
            RpcClient("127.0.0.1", server.nfs_port, NFS, 3) as rpc,
            pytest.raises(RpcDeniedError),
        ):
            rpc.call(0)
        with (
            contextlib.suppress(PermissionError),  # of anybody but root
            RpcClient("127.0.0.1", server.nfs_port, NFS, 3, reserved=True) as rpc,
        ):
            rpc.call(0)


# Faults of READ and WRITE: the answer, and count, eof, data length and data of READ's results;
# or count and committed of WRITE's, on a file of "0123456789" read and written 4 bytes at 2.
READ_FAULTS: dict[str, tuple[Answer, tuple[int, int, int, bytes]]] = {
    "short": (Answer(limit=1), (1, 0, 1, b"2\0\0\0")),
    "length": (Answer(length=99), (4, 0, 99, b"2345")),
    "extra": (Answer(extra=4), (8, 0, 8, b"2345\xee\xee\xee\xee")),
}
WRITE_FAULTS: dict[str, tuple[Answer, tuple[int, int], bytes]] = {
    "short": (Answer(limit=1), (1, 2), b"01a3456789"),
    "count": (Answer(count=9), (9, 2), b"01abcd6789"),
    "not durable": (Answer(committed=0), (4, 0), b"0123456789"),
}


@pytest.mark.parametrize(("answer", "expected"), READ_FAULTS.values(), ids=READ_FAULTS.keys())
def test_read_faults(answer: Answer, expected: tuple[int, int, int, bytes]) -> None:
    with ScriptedServer(on(Nfs.READ, answer)) as server, Client(server) as client:
        server.create("f", b"0123456789")
        status, results = client.call(Nfs.READ, client.lookup("f"), Hyper(2), 4)
        assert status == Status.OK
        skip_attributes(results)
        numbers = (results.unpack_uint(), results.unpack_uint(), results.unpack_uint())
        data = results.get_buffer()[results.get_position() :]
        assert (*numbers, data) == expected


@pytest.mark.parametrize(
    ("answer", "expected", "durable"), WRITE_FAULTS.values(), ids=WRITE_FAULTS.keys()
)
def test_write_faults(answer: Answer, expected: tuple[int, int], durable: bytes) -> None:
    with ScriptedServer(on(Nfs.WRITE, answer)) as server, Client(server) as client:
        server.create("f", b"0123456789")
        handle = client.lookup("f")
        assert client.write(handle, 2, b"abcd", Stable.FILE_SYNC)[:2] == expected
        assert server.durable("f") == durable
        assert server.calls(Nfs.WRITE)[0].moved == (expected[0] if expected[0] < 9 else 4)


def test_a_status_is_not_carried_out() -> None:
    """The results of a failure have as many words as RFC 1813 says: nothing is left over."""
    words: list[tuple[Nfs, tuple[int | bytes, ...], int]] = [
        (Nfs.READ, (Hyper(0), 1), 1),
        (Nfs.LOOKUP, (b"f",), 1),
        (Nfs.COMMIT, (Hyper(0), 0), 2),
    ]
    patience = Answer(status=Status.JUKEBOX)
    with (
        ScriptedServer(on((Nfs.READ, Nfs.COMMIT, Nfs.LOOKUP), patience)) as server,
        Client(server) as client,
    ):
        for procedure, arguments, count in words:
            status, results = client.call(procedure, client.root, *arguments)
            assert status == Status.JUKEBOX
            assert [results.unpack_uint() for _ in range(count)] == [0] * count
            results.done()


# --- what happens to it ---


def connects(server: ScriptedServer, seconds: float = 0.3) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.nfs_port), seconds).close()
    except TimeoutError:
        return False
    return True


def test_refuse_and_accept(server: ScriptedServer) -> None:
    port = server.nfs_port
    server.refuse()
    with pytest.raises(ConnectionRefusedError):
        connects(server)
    server.accept()
    assert connects(server)
    assert server.nfs_port == port


def test_stall_and_accept(server: ScriptedServer) -> None:
    with Wire(server) as wire:
        for _ in range(2):  # a connection that is there goes on
            wire.null(7)
            assert wire.receive(28) == WHOLE
            server.stall()
            assert not connects(server)
        server.accept()
        assert connects(server, SECONDS)


def test_restart_takes_its_time(server: ScriptedServer) -> None:
    begin = time.monotonic()
    server.restart(down=0.3)
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            connects(server)
            break
    assert time.monotonic() - begin >= 0.3


def test_all_connections_end(server: ScriptedServer) -> None:
    with Wire(server) as one, Wire(server) as other:
        for wire in (one, other):
            wire.null(7)
            wire.receive(28)
        server.close_connections()
        for wire in (one, other):
            assert wire.at_end()


def test_stop_reading(server: ScriptedServer) -> None:
    with Wire(server) as wire:
        wire.null(1)
        wire.receive(28)
        server.stop_reading()
        wire.null(2)  # the receive that was under way takes this one
        wire.receive(28)
        wire.null(3)
        assert wire.silent()
        server.read_again()
        assert wire.receive(28) == mark(24) + reply(3)


def test_it_always_ends() -> None:
    """Nothing that is under way holds it, and nobody listens any more."""
    slow = on(Nfs.NULL, Answer(delay=60), nth=1)
    held = on(Nfs.NULL, Answer(hold=9))
    with ScriptedServer(slow, held) as server, Wire(server) as wire:
        wire.null(1, 2)
        server.wait_for(lambda: len(server.calls()) == 2)
        server.stop_reading()
        server.stall()
    with pytest.raises(ConnectionRefusedError):
        connects(server)


# --- the command line ---


def commanded(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nfsmulti.scripted", *arguments],
        cwd=PYTHON_TESTS,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_command_line_v41() -> None:
    rules = ("--slots", "3", "--minor", "2", "--status", "4.getfh:delay:1")
    with commanded("--trace", *rules) as process:
        try:
            assert process.stdout is not None
            query = process.stdout.readline().split("?")[1]
            port = int(query.split("&")[0].removeprefix("nfsport="))
            with RpcClient("127.0.0.1", port, NFS, 4) as rpc:
                status = rpc.call(1, pack(b"", 1, 0)).unpack_uint()
                assert status == Status4.MINOR_VERS_MISMATCH
                rpc.call(1, pack(b"", 2, 1) + op(Nfs4.EXCHANGE_ID, Fixed(bytes(8)), b"o", 0, 0, 0))
        finally:
            process.terminate()
            said = process.communicate(timeout=SECONDS)
    assert ' 4.EXCHANGE_ID "" 0@0\n' in said[0], said


def test_command_line() -> None:
    rules = ("--status", "getattr:stale:1", "--reset-after", "3", "--fragments", "1,2")
    with commanded("--file", "f=10", "--trace", *rules) as process:
        try:
            assert process.stdout is not None
            words = dict(
                part.split("=") for part in process.stdout.readline().split("?")[1].split("&")
            )
            with RpcClient("127.0.0.1", int(words["mountport"]), MOUNT, 3) as rpc:
                root = calls.mount(rpc, "/export")
            with RpcClient("127.0.0.1", int(words["nfsport"]), NFS, 3) as rpc:
                with pytest.raises(calls.Nfs3Error, match="GETATTR"):
                    calls.identity(rpc, root)
                calls.identity(rpc, root)
                with pytest.raises(ConnectionError):
                    calls.identity(rpc, root)
        finally:
            process.terminate()
            said = process.communicate(timeout=SECONDS)
    assert process.returncode == 143
    assert said[0].count(' GETATTR "" 0@0\n') == 3, said
