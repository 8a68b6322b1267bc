# SPDX-License-Identifier: GPL-2.0-only
"""NFSv4.1's recovery (RFC 8881, 2.10 and 8): what is lost is asked for again, or told.

What needs no socket and nothing of fio is a scenario: test_scenarios*.py.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from engine_helpers import done, refused, said
from scripted_jobs import (
    BLOCKS,
    TWO_ADDRESSES,
    Case,
    Client,
    Outcomes,
    fixture_of_runs,
    last_of,
)

from nfsmulti.calls import Hyper, xdr
from nfsmulti.fiorun import FioResult, Option
from servers.scripted import (
    Answer,
    Call,
    Claim,
    Hook,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status4,
    Terms,
    on,
)

pytestmark = pytest.mark.sanitized

DEPTH = 8  # of the job
DATA_SESSION = 3  # its first CREATE_SESSION for data: names have theirs before
VERIFIED: dict[str, Option] = {"verify": "crc32c", "end_fsync": 1}


def keeps_nothing(server: ScriptedServer) -> None:
    """Expect that the server holds nothing of ours any more."""
    left = (len(server.opens()), len(server.sessions()), len(server.clients()))
    assert left == (0, 0, 0), "opens, sessions and clients are left"


def well(result: FioResult) -> None:
    """Expect that a job notices nothing."""
    done(result)
    assert said(result) == []


def claims(server: ScriptedServer, file: str = "f") -> list[Claim | None]:
    """Return how a file was opened, each time that it was."""
    return [call.claim for call in server.calls(Nfs4.OPEN) if call.file == file and not call.status]


def reclaims(server: ScriptedServer) -> list[Claim | None]:
    """Return how opens were made again."""
    return [claim for claim in claims(server) if claim is not Claim.NULL]


def place(call: Call) -> tuple[bytes, int | None, int]:
    """Return slot and number of a call."""
    return call.session, call.slot, call.sequence


# --- connections that are lost ---


def test_calls_whose_replies_are_gone_are_made_anew(client4: Client) -> None:
    """RETRY_UNCACHED_REP behind SEQUENCE: the slot's next number, and the same bytes.

    That of SEQUENCE itself is in test_scenarios_nfs4.py.
    """
    hook = last_of(DEPTH, Answer(reply=False, end="reset"), procedure=Nfs4.WRITE)
    with ScriptedServer(hook) as server:
        done(client4(server, **VERIFIED))
        calls = server.calls(Nfs4.WRITE)
        first = calls[:DEPTH]
        asked = server.calls(Nfs4.SEQUENCE)
        replayed = {place(call) for call in asked if call.status == Status4.RETRY_UNCACHED_REP}
        assert replayed == {place(call) for call in first}
        assert len({place(call) for call in calls}) == len(calls)
        times = Counter(call.offset for call in calls)
        assert {at for at, count in times.items() if count == 2} == {c.offset for c in first}
        assert len(calls) == BLOCKS + DEPTH
        assert len({call.session for call in calls}) == 1
        keeps_nothing(server)


def test_an_open_whose_reply_is_lost_is_not_made_twice(client4: Client) -> None:
    """Its reply is kept in the slot, and comes from there."""
    hook = on(Nfs4.OPEN, Answer(reply=False, end="reset"), nth=1)
    with ScriptedServer(hook) as server:
        done(client4(server, **VERIFIED))
        assert sum(call.replayed for call in server.calls(Nfs4.SEQUENCE)) == 1
        keeps_nothing(server)


def test_what_an_earlier_copy_has_removed_is_removed(client4: Client) -> None:
    """The second copy has a slot of another session, and finds no file (NOENT)."""
    lost = Answer(do=ScriptedServer.end_sessions, reply=False, end="reset")
    with ScriptedServer(on(Nfs4.REMOVE, lost, nth=1)) as server:
        done(client4(server, unlink=1, **VERIFIED))
        first, again, *_ = server.calls(Nfs4.REMOVE)
        assert (first.status, again.status) == (Status4.OK, Status4.NOENT)
        assert first.session != again.session


# --- sessions that are lost ---


def test_a_session_that_is_refused_for_a_while(client4: Client) -> None:
    """The same CREATE_SESSION again would get the same answer, which the server keeps."""
    refusals = 3
    lose = on(Nfs4.WRITE, Answer(do=ScriptedServer.end_sessions), nth=DEPTH)
    with ScriptedServer(lose) as server:
        told = list[Call]()

        def refuse(call: Call) -> Answer | None:
            begun = len(server.calls(Nfs4.WRITE)) >= DEPTH and len(told) < refusals
            if not begun or call.procedure is not Nfs4.CREATE_SESSION:
                return None
            told.append(call)
            return Answer(status=Status4.NOSPC)

        server.hooks.append(refuse)
        result = client4(server, **VERIFIED)
        done(result)
        why, stops, resumes = said(result)
        assert "NFS4ERR_NOSPC" in why
        assert "connection lost" in stops
        assert "server OK" in resumes
        assert len({call.session for call in server.calls(Nfs4.WRITE)}) == 2
        keeps_nothing(server)


def grants_anothers(server: ScriptedServer, times: int) -> Hook:
    """Make a hook: a job's second connection is granted the first one's session so many times.

    As by a slow server, which has told both one number for CREATE_SESSION.
    """

    def hook(call: Call) -> Answer | None:
        second = DATA_SESSION < call.nth <= DATA_SESSION + times
        if call.procedure is not Nfs4.CREATE_SESSION or not second:
            return None
        (client,) = server.clients()
        assert client.created is not None
        return Answer(act=False, results=bytes(4) + client.created[1])

    return hook


def test_a_session_that_is_anothers_is_not_taken(client4: Client, server: ScriptedServer) -> None:
    server.hooks.append(grants_anothers(server, 1))
    well(client4(server, nconnect=2, **VERIFIED))
    assert len(server.calls(Nfs4.CREATE_SESSION)) == DATA_SESSION + 2
    pairs = {(call.session, call.connection) for call in server.calls(Nfs4.WRITE)}
    assert len(pairs) == len({session for session, _ in pairs}) == 2
    keeps_nothing(server)


def test_a_server_that_has_one_session_for_all(client4: Client, server: ScriptedServer) -> None:
    """It is asked three times more, and no more than that; one I/O gets on with one session."""
    server.hooks.append(grants_anothers(server, 20))
    well(client4(server, nconnect=2, size="4k"))
    assert len(server.calls(Nfs4.CREATE_SESSION)) == DATA_SESSION + 1 + 3
    keeps_nothing(server)


@pytest.mark.parametrize(
    ("status", "told", "times"),
    [
        (Status4.DELAY, 0, 1),
        (Status4.DELAY, 1, 2),
        (Status4.NOSPC, 0, 2),
        (Status4.NOSPC, 1, 1),
    ],
)
def test_what_a_confirmed_client_is_told_of_its_next_session(
    client4: Client, status: Status4, told: int, times: int
) -> None:
    """RFC 8881, 18.35.3: nothing. NOSPC takes the number of its CREATE_SESSION, DELAY does not."""
    begun = Answer(do=ScriptedServer.end_sessions)
    last = DATA_SESSION + times
    again = on(Nfs4.CREATE_SESSION, Answer(status=status), first=last, after=DATA_SESSION)
    lost = on(Nfs4.WRITE, begun, nth=DEPTH)
    with ScriptedServer(lost, again, terms=Terms(next_session=told)) as server:
        done(client4(server, **VERIFIED))
        assert len(server.calls(Nfs4.CREATE_SESSION)) < DATA_SESSION + 4 + 2 * times
        keeps_nothing(server)


# --- a server that starts again ---

RESTARTS = on(Nfs4.WRITE, Answer(do=ScriptedServer.restart), nth=10)
# A client of ours is idle then, which would reclaim only with its next call.
ENDS_GRACE = on(Nfs4.RECLAIM_COMPLETE, Answer(do=ScriptedServer.end_grace))
SYNC: dict[str, Option] = {"stable": "file_sync", "verify": "crc32c"}


def test_a_restart_before_a_new_file_is_closed(client4: Client) -> None:
    """Nothing is open any more."""
    restart = Answer(do=ScriptedServer.restart, act=False, reply=False)
    with ScriptedServer(on(Nfs4.CLOSE, restart, nth=1)) as server:
        done(client4(server, **VERIFIED))
        keeps_nothing(server)


def test_delegations_go_back(client4: Client) -> None:
    """Those that the server gives against the wish, also where a file is opened again."""
    with ScriptedServer(RESTARTS, ENDS_GRACE, terms=Terms(delegates=True)) as server:
        done(client4(server, **SYNC))
        assert reclaims(server) == [Claim.PREVIOUS]
        given, returned = server.calls(Nfs4.OPEN), server.calls(Nfs4.DELEGRETURN)
        assert sum(not call.status for call in given) == len(returned)
        assert [call.status for call in returned] == [0] * len(returned)


# --- leases and opens that are lost ---


def test_a_retry_with_the_stateid_of_an_earlier_open(client4: Client) -> None:
    """It has the same bytes (RFC 8881, 2.10.6.1.3); its refusal says nothing of the later OPEN.

    One connection is lost with a WRITE that the server has not got. It comes back only when the
    other one, whose WRITE was refused, has opened the file again and uses that.
    """
    refuses = Answer(act=False, reply=False, end="reset", do=ScriptedServer.refuse)
    with ScriptedServer(
        on(Nfs4.WRITE, refuses, nth=1),
        on(Nfs4.WRITE, Answer(do=ScriptedServer.revoke), nth=2),
        on(Nfs4.WRITE, Answer(do=ScriptedServer.accept), nth=3),
    ) as server:
        done(client4(server, nconnect=2, spread="roundrobin", iodepth=2, **VERIFIED))
        lost, refused, opened, *_ = calls = server.calls(Nfs4.WRITE)
        assert refused.connection == opened.connection != lost.connection
        again = [call for call in calls if call.xid == lost.xid]
        assert [place(call) for call in again] == [place(lost)] * 2
        assert [call.status for call in again] == [None, Status4.ADMIN_REVOKED]
        assert reclaims(server) == [Claim.FH]
        keeps_nothing(server)


_FHEXPIRED = 10014


@pytest.mark.parametrize("status", [Status4.STALE, _FHEXPIRED])
def test_an_export_whose_handle_is_forgotten(client4: Client, status: int) -> None:
    """Names are asked about by it: it is looked up again from the root, each time here."""
    turns = itertools.cycle((Answer(status=status), None))

    def hook(call: Call) -> Answer | None:
        return next(turns) if call.procedure is Nfs4.PUTFH and not call.file else None

    with ScriptedServer(hook) as server:
        well(client4(server, **VERIFIED, unlink=1, filename="d/f"))
        keeps_nothing(server)
        assert next(turns), "as many were forgotten as known"


# --- a server that wants to be asked later ---

LATER = (
    Nfs4.CREATE_SESSION, Nfs4.EXCHANGE_ID, Nfs4.DESTROY_SESSION, Nfs4.DESTROY_CLIENTID, Nfs4.CLOSE,
)  # fmt: skip


def test_asked_to_wait(client4: Client) -> None:
    """Twice by each of those; others are in test_scenarios_nfs4.py."""
    delays = [on(one, Answer(status=Status4.DELAY), first=2) for one in LATER]
    with ScriptedServer(*delays) as server:
        well(client4(server, **VERIFIED))
        assert {call.procedure for call in server.calls(*LATER) if call.nth > 2} == {*LATER}
        keeps_nothing(server)


# --- slots ---


def slots_of(calls: Sequence[Call]) -> set[int | None]:
    """Return the slots that calls came by."""
    return {call.slot for call in calls}


def test_a_slot_table_that_shrinks_and_grows(client4: Client) -> None:
    """Slots beyond the target lie idle; those that come back begin with the number 1."""
    shrink, grow, blocks = 32, 160, 256

    def retarget(call: Call) -> None:
        if call.procedure is Nfs4.WRITE and call.nth in (shrink, grow):
            server.terms.target = 1 if call.nth == shrink else None

    with ScriptedServer(retarget) as server:
        done(client4(server, size="1m", **VERIFIED))
        calls = server.calls(Nfs4.WRITE)
        assert len(calls) == blocks
        settled = shrink + 2 * DEPTH
        assert slots_of(calls[:shrink]) == set(range(DEPTH))
        assert slots_of(calls[settled:grow]) == {0, 1}
        assert slots_of(calls[grow + DEPTH :]) == set(range(DEPTH))
        assert len({call.session for call in calls}) == 1
        keeps_nothing(server)


# --- refusals ---


def test_a_session_that_is_never_granted(client4: Client) -> None:
    """The one for data: names had an answer."""
    never = on(Nfs4.CREATE_SESSION, Answer(act=False, reply=False), after=DATA_SESSION - 1)
    with ScriptedServer(never) as server:
        refused(client4(server, timeo=10, retrans=0), "no reply to session set-up")


def test_an_export_that_is_not_answered_for(client4: Client) -> None:
    """Nothing is told of its path, which may be right."""
    with ScriptedServer(on(Nfs4.LOOKUP, Answer(act=False, reply=False))) as server:
        *_, why = said(client4(server, timeo=10, retrans=0))
        assert why.endswith("/export: cannot find the export: the server does not answer")


def test_a_port_that_answers_in_another_protocol(client4: Client) -> None:
    with ScriptedServer(on(Nfs4.EXCHANGE_ID, Answer(raw=b"HTTP/1.1 400 "))) as server:
        refused(client4(server), "the server's messages are broken", "the NFS server running there")


@pytest.mark.parametrize(
    ("status", "word"), [(Status4.TOOSMALL, "rsize"), (Status4.NOSPC, "nconnect")]
)
def test_a_server_that_refuses_a_session(client4: Client, status: Status4, word: str) -> None:
    with ScriptedServer(on(Nfs4.CREATE_SESSION, Answer(status=status))) as server:
        refused(client4(server), "CREATE_SESSION", f"NFS4ERR_{status.name}", word)


_ID_ZERO = Answer(act=False, results=xdr(0, Hyper(0), 1, 0x10000, 0, Hyper(0), b"a", b"a", 0))


def _refuse(procedure: Procedure, status: Status4) -> Hook:
    return on(procedure, Answer(act=procedure is Nfs4.CREATE_SESSION, status=status))


def _from_data(hook: Hook) -> Hook:
    """Begin with the session for data: what names ask before is answered."""
    begun = list[Call]()

    def later(call: Call) -> Answer | None:
        if call.procedure is Nfs4.CREATE_SESSION and call.nth == DATA_SESSION:
            begun.append(call)
        return hook(call) if begun else None

    return later


_REFUSED: dict[str, Hook] = {
    "CREATE_SESSION: NFS4ERR_STALE_CLIENTID": on(Nfs4.EXCHANGE_ID, _ID_ZERO),
    **{
        f"{one.name}: NFS4ERR_{status.name}": _refuse(one, status)
        for one, status in (
            (Nfs4.CREATE_SESSION, Status4.SEQ_MISORDERED),
            (Nfs4.CREATE_SESSION, Status4.DELAY),
            (Nfs4.RECLAIM_COMPLETE, Status4.STALE_CLIENTID),
        )
    },
}  # fmt: skip
_REFUSED_DATA: dict[str, Hook] = {
    " times in a row: the server offers no session": _refuse(
        Nfs4.CREATE_SESSION, Status4.STALE_CLIENTID),
    **{
        f"the server keeps refusing it (NFS4ERR_{status.name})": _refuse(Nfs4.SEQUENCE, status)
        for status in (Status4.BADSESSION, Status4.SEQ_MISORDERED, Status4.RETRY_UNCACHED_REP)
    },
}  # fmt: skip
_SOFT: dict[str, Option] = {"timeo": 10, "retrans": 0, "soft": 1}
refusals = fixture_of_runs(
    {
        words: Case(hook, _SOFT, url={"version": "4.1"})
        for words, hook in {
            **_REFUSED,
            **{words: _from_data(hook) for words, hook in _REFUSED_DATA.items()},
        }.items()
    }
)


@pytest.mark.parametrize("words", [*_REFUSED, *_REFUSED_DATA])
def test_what_is_refused_for_ever_is_asked_ever_more_slowly(refusals: Outcomes, words: str) -> None:
    """By some dozens of calls, and not by some ten thousand; the job tells what was refused."""
    outcome = refusals[words]
    assert outcome.result.status not in (0, None), outcome.result.messages
    calls = Counter(call.procedure for call in outcome.server.calls())
    assert calls.total() < 400, calls
    assert words in outcome.result.messages


def test_a_client_id_may_be_zero(client4: Client) -> None:
    """It is a number as any other (RFC 8881, 3.3): both paths are one client by it."""
    asked = dict[bool, Counter[Procedure]]()
    for zero in (False, True):
        with ScriptedServer(addresses=TWO_ADDRESSES, terms=Terms(zero_id=zero)) as server:
            well(client4(server, nconnect=2, spread="roundrobin", **VERIFIED))
            keeps_nothing(server)
            setup = (Nfs4.EXCHANGE_ID, Nfs4.CREATE_SESSION, Nfs4.DESTROY_CLIENTID)
            asked[zero] = Counter(one.procedure for one in server.calls() if one.procedure in setup)
    assert asked[True] == asked[False]


# --- the end ---


def test_a_slow_server_is_told_all_the_same(client4: Client) -> None:
    """Each answer has its time, however many there are."""
    last = (Nfs4.CLOSE, Nfs4.BIND_CONN_TO_SESSION, Nfs4.DESTROY_SESSION, Nfs4.DESTROY_CLIENTID)
    with ScriptedServer(on(last, Answer(delay=0.3))) as server:
        done(client4(server, nconnect=2, **VERIFIED))
        keeps_nothing(server)


# --- soft ---


def test_time_runs_from_when_a_call_is_sent(client4: Client) -> None:
    """Also that of names, which rest for longer than a soft call may take, and are then asked."""
    late = Answer(delay=0.3)
    with ScriptedServer(on((Nfs4.WRITE, Nfs4.CLOSE), late)) as server:
        result = client4(server, timeo=30, retrans=0, soft=1, iodepth=1)
        done(result)
        assert said(result) == []
        keeps_nothing(server)


# --- what a call that was given up, or refused, leaves behind ---


def test_a_path_that_leads_nowhere_leaves_no_client(client: Client) -> None:
    with ScriptedServer() as server:
        result = client(server, pool=server.pool4().replace("/export", "/export/nowhere"))
        assert result.status not in (0, None)
        assert not server.clients()


@pytest.mark.parametrize("only", [0, 1])
def test_jobs_that_set_their_own_files_up_leave_nothing(
    client4: Client, server: ScriptedServer, only: int
) -> None:
    done(client4(server, create_serialize=0, numjobs=2, create_only=only))
    keeps_nothing(server)
