# SPDX-License-Identifier: GPL-2.0-only
"""The scripted server itself: sound NFS where no hook speaks, and faults as they are ordered.

Only what would mislead the tests that use it: most of it fails there as well.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Self

import pytest
from nfs41_client import Client41, Held, op

from nfsmulti.calls import Fixed, Results, RpcClient, RpcError, xdr
from servers.scripted import Answer, Call, Nfs, Nfs4, ScriptedServer, Stable, Status4, mark, on

SECONDS = 60.0
NFS, MOUNT = 100003, 100005


# --- sound ---


@pytest.fixture
def client41(server: ScriptedServer) -> Iterator[Client41]:
    with Client41(server.nfs_port) as running:
        assert running.begin() == Status4.OK
        yield running


@pytest.mark.parametrize("url", [ScriptedServer.url, ScriptedServer.url4])
def test_a_client_of_another_hand(server: ScriptedServer, url: Callable[..., str]) -> None:
    """In NFSv3 and in NFSv4.1."""
    nfs_rs = pytest.importorskip("nfs_rs")
    server.create("d/f", bytes(3 << 20))
    data = secrets.token_bytes(3 << 20)
    with nfs_rs.Client.connect(url(server, noresvport="true")) as other:
        assert other.stat("d/f").size == 3 << 20
        other.mkdir("e")
        with other.open("e/new", "wb") as file:
            file.write(data)
        with other.open("e/new", "rb") as file:
            assert file.read() == data
        other.remove("d/f")
    assert server.durable("e/new") == data
    assert [*server.opens(), *server.sessions(), *server.clients()] == []


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


def test_v41_a_client_id_has_one_user(server: ScriptedServer, client41: Client41) -> None:
    exchange = xdr(b"", 1, 1) + op(Nfs4.EXCHANGE_ID, Fixed(b"verifier"), client41.owner, 0, 0, 0)
    with RpcClient("127.0.0.1", server.nfs_port, NFS, 4, user=(12, 34)) as rpc:
        assert Results(rpc.call(1, exchange)).word() == Status4.CLID_INUSE


def test_v41_a_slot_answers_again(server: ScriptedServer, client41: Client41) -> None:
    file = client41.opened("f", create=True)
    put, other = [file.write(0, one, Stable.FILE_SYNC) for one in (b"a", b"b")]
    first = client41.call(*put, cache=True)
    assert client41.again(*put, cache=True) == first
    assert client41.again(*other, cache=True).status == Status4.SEQ_FALSE_RETRY
    first = client41.call(*other)
    again = client41.again(*other)
    assert [one[1] for one in again.results] == [Status4.OK, Status4.RETRY_UNCACHED_REP]
    client41.sequences[0] += 2
    assert client41.again(*other).status == Status4.SEQ_MISORDERED
    client41.sequences[0] -= 1
    assert client41.again(*other).status == Status4.OK
    told = server.calls(Nfs4.SEQUENCE)[-6:]
    assert [one.replayed for one in told] == [True, *[False] * 5]
    assert [one.status for one in told[2:5]] == [0, Status4.RETRY_UNCACHED_REP, 10063]
    assert len(server.calls(Nfs4.WRITE)) == 3  # what the slot answers is not carried out


def test_v41_the_slot_table_changes(server: ScriptedServer) -> None:
    server.terms.slots = 4
    with Client41(server.nfs_port) as client:
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
    stranger = Held(server.export.files.root.handle, b"")
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
    with Client41(server.nfs_port, owner=b"another") as other:
        assert other.begin() == Status4.OK
        server.restart()
        client41.connect()
        assert client41.begin() == Status4.OK
        assert client41.open("f").status == Status4.GRACE
        server.end_grace()
        assert client41.open("f").status == Status4.OK


def test_v41_statuses_as_ordered() -> None:
    hooks = (
        on(Nfs4.READ, Answer(status=Status4.DELAY), first=2),
        on(Nfs4.CREATE_SESSION, Answer(status=Status4.TOOSMALL), first=1),
        on(Nfs4.SEQUENCE, Answer(status=Status4.DEADSESSION), nth=6),
    )
    with ScriptedServer(*hooks) as server, Client41(server.nfs_port) as client:
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
        statuses = [call.status for call in server.calls(Nfs4.READ)]
        assert statuses == [Status4.DELAY, Status4.DELAY, 0]


def test_v41_data_faults() -> None:
    hooks = (
        on(Nfs4.READ, Answer(limit=1, eof=0), nth=1),
        on(Nfs4.READ, Answer(extra=2), nth=2),
        on(Nfs4.WRITE, Answer(limit=1, committed=0, verifier=b"8 bytes!")),
    )
    with ScriptedServer(*hooks) as server, Client41(server.nfs_port) as client:
        assert client.begin() == Status4.OK
        server.create("f", b"0123")
        file = client.opened("f")
        assert client.call(*file.read(0, 4)).of(Nfs4.READ) == (False, b"0")
        assert client.call(*file.read(2, 2)).of(Nfs4.READ) == (True, b"23\xee\xee")
        put = file.write(0, b"ab", Stable.FILE_SYNC)
        assert client.call(*put).of(Nfs4.WRITE) == (1, 0, b"8 bytes!")
        assert (server.content("f"), server.durable("f")) == (b"a123", b"0123")


def test_v41_places_and_sizes(server: ScriptedServer, client41: Client41) -> None:
    bind = op(Nfs4.BIND_CONN_TO_SESSION, Fixed(client41.session), 3, 0)
    assert client41.compound(bind).status == Status4.OK
    root = op(Nfs4.PUTROOTFH)
    assert client41.compound(root).status == Status4.OP_NOT_IN_SESSION
    assert client41.call(op(Nfs4.SEQUENCE)).status == Status4.SEQUENCE_POS
    assert client41.compound(bind, root).status == Status4.NOT_ONLY_OP
    assert client41.call(*[root] * 16).status == Status4.TOO_MANY_OPS
    assert client41.call(xdr(1)).status == Status4.OP_ILLEGAL
    assert client41.call(xdr(7)).status == Status4.NOTSUPP  # DELEGPURGE
    assert client41.call(root, xdr(Nfs4.LOOKUP.value, 99)).status == Status4.BADXDR
    file = client41.opened("f", create=True)
    server.terms.max_response = 512
    assert client41.create_session(2) == Status4.OK
    client41.call(*file.write(0, bytes(1024)))
    assert client41.call(*file.read(0, 1024)).status == Status4.REP_TOO_BIG
    assert client41.call(*file.read(0, 100)).status == Status4.OK


# --- on the wire ---


class Wire:
    """A raw connection to the NFS port."""

    def __init__(self, server: ScriptedServer):
        self._socket = socket.create_connection(("127.0.0.1", server.nfs_port), SECONDS)

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


def reply(xid: int) -> bytes:
    """Return the message that answers NULL."""
    return struct.pack(">6I", xid, 1, 0, 0, 0, 0)


WHOLE = mark(24) + reply(7)


def test_fragments() -> None:
    sizes = on(Nfs.NULL, Answer(fragments=(20, 0, 3)))
    parts = ((20, 0, 20), (0, 20, 20), (3, 20, 23), (1, 23, 24))
    with ScriptedServer(sizes) as server, Wire(server) as wire:
        wire.null(7)
        for size, begin, end in parts:
            assert wire.receive(4 + size) == mark(size, last=end == 24) + reply(7)[begin:end]
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
            wire.receive(1)


def test_held_replies_come_in_reverse() -> None:
    with ScriptedServer(on(Nfs.NULL, Answer(hold=3))) as server, Wire(server) as wire:
        wire.null(1, 2, 3, 4)
        expected = b"".join(mark(24) + reply(xid) for xid in (3, 2, 1, 4))
        assert wire.receive(len(expected)) == expected


def test_an_exception_of_a_hook_is_raised_at_the_end() -> None:
    def hook(call: Call) -> Answer | None:
        raise AssertionError(f"no {call.procedure} wanted")

    server = ScriptedServer(hook).__enter__()
    with Wire(server) as wire:
        wire.null(7)
        assert wire.receive(28) == WHOLE
    with pytest.raises(AssertionError, match=r"no Nfs\.NULL wanted"):
        server.__exit__(None)


# --- what happens to it ---


def connects(server: ScriptedServer, seconds: float = 0.3) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.nfs_port), seconds).close()
    except TimeoutError:
        return False
    return True


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
