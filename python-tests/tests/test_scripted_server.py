# SPDX-License-Identifier: GPL-2.0-only
"""The scripted server itself: only what would hide a fault of the engine if it were wrong.

That it and the core, which the simulator has as well, are sound and strict, and that it sends what
is ordered where nothing else shows that.
"""

import contextlib
import secrets
import socket
from collections.abc import Iterator

import pytest
from nfs41_client import Client41, Held, op, path

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

SECONDS = 60.0


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
    with socket.create_connection(("127.0.0.1", server.nfs_port), SECONDS) as wire:
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
