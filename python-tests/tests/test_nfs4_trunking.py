# SPDX-License-Identifier: GPL-2.0-only
"""NFSv4.1: what the connections of a job share, a client ID or a session (RFC 8881, 2.10.5)."""

from __future__ import annotations

import errno

import pytest
from engine_helpers import done, said
from scripted_jobs import TWO_ADDRESSES, Client, Options, failed

from servers.scripted import DATA4, Answer, Call, Nfs4, ScriptedServer, Status4, Terms

pytestmark = pytest.mark.sanitized

# Two connections on each path, and all of them in use.
NCONNECT = 2
ALL: Options = {
    "rw": "randwrite", "verify": "crc32c", "nconnect": NCONNECT, "spread": "roundrobin",
}  # fmt: skip


def _pool(*servers: ScriptedServer) -> str:
    return ",".join(server.url4(address) for server in servers for address in server.addresses)


def _data_sessions(server: ScriptedServer) -> set[bytes]:
    """Return the sessions that READ, WRITE and COMMIT came over."""
    return {call.session for call in server.calls(*DATA4)}


def _clients(server: ScriptedServer) -> int:
    """Count the client IDs that it was asked to destroy, and did."""
    return sum(call.status == 0 for call in server.calls(Nfs4.DESTROY_CLIENTID))


def test_a_session_for_each_connection_under_one_client_id(client: Client) -> None:
    with ScriptedServer(addresses=TWO_ADDRESSES) as server:
        result = client(server, pool=_pool(server), **ALL)
        done(result)
        assert said(result) == []
        assert len(_data_sessions(server)) == NCONNECT * len(TWO_ADDRESSES)
        assert _clients(server) == 2  # of the process that sets up, and of the job
        assert not server.sessions()
        assert not server.clients()


def test_one_session_over_all_addresses(client: Client) -> None:
    with ScriptedServer(addresses=TWO_ADDRESSES) as server:
        result = client(server, pool=_pool(server), trunking="session", **ALL)
        done(result)
        assert said(result) == []
        assert len(_data_sessions(server)) == 1
        assert len({call.server for call in server.calls(*DATA4)}) == len(TWO_ADDRESSES)


def test_another_connection_renews_where_one_cannot(client: Client) -> None:
    """The first idle connection is lost with its renewal; the lease is that of the client."""
    first, second = TWO_ADDRESSES
    written: list[Call] = []  # what the client waits for, idle
    lost: list[Call] = []
    renewed: list[Call] = []

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs4.WRITE and call.server[0] == second and not renewed:
            written.append(call)
            return Answer(act=False, reply=False)
        if call.procedure is not Nfs4.SEQUENCE or not written or call.slot == written[0].slot:
            return None
        if not lost:
            lost.append(call)
            return Answer(do=lambda it: it.refuse(first), act=False, reply=False, end="reset")
        if not renewed:
            renewed.append(call)
            return Answer(do=ScriptedServer.accept, end="reset")
        return None

    terms = Terms(lease=1)
    with ScriptedServer(hook, addresses=TWO_ADDRESSES, terms=terms) as server:
        options: Options = {"trunking": "session", "spread": "roundrobin", "iodepth": 1}
        done(client(server, pool=_pool(server), **options))
        assert [call.server[0] for call in (*lost, *renewed)] == [first, second]
        assert len(_data_sessions(server)) == 1


@pytest.mark.parametrize(
    ("trunking", "nconnect"), [("session", NCONNECT), ("clientid", NCONNECT), ("clientid", 1)]
)
def test_a_server_that_ties_opens_to_a_session(
    client: Client, trunking: str, nconnect: int
) -> None:
    """Names have one of their own: opened again over that for data, a file can be used there."""
    with ScriptedServer() as server:

        def hook(call: Call) -> Answer | None:
            opens = [one for one in server.calls(Nfs4.OPEN) if one.file == "f"]
            tied = call.procedure not in DATA4 or call.session == opens[-1].session
            return None if tied else Answer(status=Status4.BAD_STATEID)

        server.hooks.append(hook)
        options: Options = {**ALL, "nconnect": nconnect, "trunking": trunking}
        result = client(server, pool=_pool(server), **options)
        if len(_data_sessions(server)) == 1:
            done(result)
            assert said(result) == []
        else:
            failed(result, "NFS4ERR_BAD_STATEID", "trunking=session", error=errno.EIO)
        assert not server.sessions()


def test_an_address_that_no_session_spans_is_told(client: Client) -> None:
    terms = Terms(minor_ids={TWO_ADDRESSES[1]: 9})
    with ScriptedServer(addresses=TWO_ADDRESSES, terms=terms) as server:
        result = client(server, pool=_pool(server), trunking="session", **ALL)
        done(result)
        assert any("trunking=session: the server does not span" in line for line in said(result))
        assert len(_data_sessions(server)) == 1 + NCONNECT


def test_another_server_is_an_error(client: Client) -> None:
    with ScriptedServer() as one, ScriptedServer(addresses=TWO_ADDRESSES[1:]) as other:
        result = client(one, pool=_pool(one, other), trunking="session", **ALL)
        assert result.status not in (0, None)
        assert any("this is another server" in line for line in said(result))


def test_calls_beyond_the_slots_wait_and_that_is_told(client: Client) -> None:
    with ScriptedServer(terms=Terms(slots=2)) as server:
        result = client(server, pool=_pool(server), iodepth=8, rw="read", size="4m")
        done(result)
        waited = [line for line in said(result) if "the server grants a session 2 slots" in line]
        assert len(waited) == 2, "the job, and before it the lay-out"
        assert all(line.startswith("nfsmulti: job: ") for line in waited)
        assert {call.slot for call in server.calls(Nfs4.SEQUENCE)} == {0, 1}


def test_an_open_that_no_slot_is_left_for_gets_another_session(client: Client) -> None:
    """One connection's call keeps the last slot, as it waits for an OPEN, which waits for a slot.

    The server takes the other slot back with the answer by which the file is to be opened again.
    """
    lost = Answer(act=False, reply=False, end="reset")
    with ScriptedServer(addresses=TWO_ADDRESSES, terms=Terms(slots=2)) as server:

        def hook(call: Call) -> Answer | None:
            if call.procedure is Nfs4.SEQUENCE and call.slot == 1:
                server.terms.target = 0
            written = server.calls(Nfs4.WRITE)
            if call.procedure is not Nfs4.WRITE or call.session != written[0].session:
                return None
            return Answer(status=Status4.BAD_STATEID) if call.slot == 1 else lost

        server.hooks.append(hook)
        options: Options = {"trunking": "session", "spread": "roundrobin", "iodepth": 2}
        result = client(server, pool=_pool(server), timeo=10, retrans=0, **options)
        done(result)
        calls = server.calls(Nfs4.WRITE)
        first = [call for call in calls if call.session == calls[0].session]
        assert {(call.slot, call.server[0]) for call in first} == set(enumerate(TWO_ADDRESSES))
        assert len(_data_sessions(server)) == 2
        assert not server.sessions()
        assert not server.clients()
