# SPDX-License-Identifier: GPL-2.0-only
"""NFSv4.1's recovery (RFC 8881, 2.10 and 8): what is lost is asked for again, or told."""

from collections import Counter
from itertools import pairwise, product

import pytest
from simulated import (
    BLOCKS,
    LINUX,
    MUTE,
    SECOND,
    UNHEARD,
    Act,
    CData,
    End,
    Fate,
    Hook,
    Ran,
    Scenarios,
    on,
)

from servers.scripted import Claim, Nfs4, Status4

pytestmark = pytest.mark.sanitized

_W, _S, _O = Nfs4.WRITE, Nfs4.SEQUENCE, Nfs4.OPEN
_DEPTH = 8  # of the job
_EXPIRE, _REVOKE, _END_SESSIONS = ({"act": act} for act in (Act.EXPIRE, Act.REVOKE, Act.SESSIONS))
_RESTARTS: Fate = {"restarts": True}


def _place(call: CData) -> tuple[int, int, int]:
    return call.session, call.slot, call.sequence


def _sessions(ran: Ran) -> int:
    return len({call.session for call in ran.calls(_W)})


def _claims(ran: Ran) -> list[int]:
    return [call.claim for call in ran.calls(_O) if not call.status]


# --- connections that are lost ---


def _lost(fate: Fate) -> list[Hook]:
    """Make hooks: the first eight WRITEs have that fate, and the last one's connection ends."""
    return [on(_W, {**fate, "end": End.RESET}, nth=_DEPTH), on(_W, fate, last=_DEPTH - 1)]


def test_calls_that_the_server_has_not_got_go_out_again(scenario: Scenarios) -> None:
    """By the slot and with the number that they had, over another connection."""
    ran = scenario(*_lost(UNHEARD), version=4)
    lost, again = ran.calls(_W)[:_DEPTH], ran.calls(_W)[_DEPTH : 2 * _DEPTH]
    assert [(_place(call), call.xid, call.offset) for call in again] == [
        (_place(call), call.xid, call.offset) for call in lost
    ]
    assert {c.connection for c in again}.isdisjoint(c.connection for c in lost)
    assert (ran.result.reconnects, _sessions(ran)) == (1, 1)


def test_calls_whose_replies_are_gone_are_made_anew(scenario: Scenarios) -> None:
    """RETRY_UNCACHED_REP: the slot's next number, and the same bytes."""
    ran = scenario(*_lost(MUTE), version=4, uncached=True)
    calls = ran.calls(_W)
    assert len({_place(call) for call in calls}) == len(calls) == BLOCKS + _DEPTH
    times = Counter(call.offset for call in calls)
    assert {at for at, count in times.items() if count == 2} == {c.offset for c in calls[:_DEPTH]}
    assert _sessions(ran) == 1


@pytest.mark.parametrize("slots", [_DEPTH, _DEPTH // 2])
def test_calls_that_the_server_is_still_at_are_asked_for_again(
    scenario: Scenarios, slots: int
) -> None:
    """DELAY of SEQUENCE (RFC 8881, 15.1.1.3): later, with the slot and the number that they had.

    Before calls that wait for a slot: there is none but theirs.
    """
    lost, asked = set[tuple[int, int, int]](), Counter[tuple[int, int, int]]()

    def hook(call: CData) -> Fate | None:
        if call.procedure == _W.value and call.nth <= slots:
            lost.add(_place(call))
            return {**UNHEARD, "end": End.RESET if call.nth == slots else 0}
        if call.procedure != _S.value or _place(call) not in lost:
            return None
        asked[_place(call)] += 1
        return {"status": Status4.DELAY} if asked[_place(call)] <= 2 else None

    ran = scenario(hook, version=4, slots=slots)
    assert set(asked.values()) == {3}
    assert (len(asked), len(ran.calls(_W)), _sessions(ran)) == (slots, BLOCKS + slots, 1)


# --- sessions that are lost ---


_RESET_AT = on(_W, {**MUTE, "end": End.RESET}, nth=_DEPTH)
_RESTART = on(_W, _RESTARTS, nth=10)


# Hooks, terms, whether anything is said, the sessions of data, and how the file was opened again: F
# by its handle, P by the claim of before a restart, x in vain; C is RECLAIM_COMPLETE.
_Recovery = tuple[list[Hook], dict[str, object], bool, int, str]
_SYNC: dict[str, object] = {"stable": 2}
_RECOVERIES: dict[str, _Recovery] = {
    # Whatever the server says of the old session, it is not left there; over a new connection,
    # which the session does not know yet, neither.
    **{
        status.name: ([on(_S, {"status": status}, nth=9)], {}, False, 2, "")
        for status in (
            Status4.BADSLOT, Status4.BAD_HIGH_SLOT, Status4.DEADSESSION, Status4.SEQ_MISORDERED,
            Status4.SEQ_FALSE_RETRY,
        )
    },
    "DEADSESSION, over a new connection": (
        [_RESET_AT, on(_S, {"status": Status4.DEADSESSION}, nth=9)], {}, True, 2, "",
    ),
    # SEQUENCE refuses a call's second copy: the first may still come, and take the slot's number.
    "a copy over a connection that is not bound": (
        [
            *_lost(MUTE),
            on(_S, {"status": Status4.CONN_NOT_BOUND_TO_SESSION}, nth=9),
        ],
        {}, True, 2, "",
    ),
    "the session was ended": ([on(_S, _END_SESSIONS, nth=9)], {}, False, 2, ""),
    # The call is made anew: the slot's next number.
    "a call's reply is gone, behind SEQUENCE": (
        [on(_W, {"status": Status4.RETRY_UNCACHED_REP}, nth=5)], {}, False, 1, "",
    ),
    # By a connection that the server knows already, where it will not bind any.
    "a session that cannot be bound": (
        [
            on(_S, {"status": Status4.SEQ_MISORDERED}, nth=9),
            on(Nfs4.BIND_CONN_TO_SESSION, {"status": Status4.NOTSUPP}),
        ],
        {}, False, 2, "",
    ),
    # The client, its session and its open are made again. The server says so, or that it does not
    # know the session (0).
    **{
        f"an expired lease, {status}": (
            [on(_S, {**_EXPIRE, "status": status}, nth=9)], {}, False, 2, "xCF",
        )
        for status in (0, Status4.EXPIRED, Status4.STALE_CLIENTID)
    },
    # Within the grace period, which RECLAIM_COMPLETE ends; and once more before that.
    "a restart": ([_RESTART], _SYNC, True, 2, "PC"),
    "a restart while opens are reclaimed": (
        [_RESTART, on(Nfs4.RECLAIM_COMPLETE, _RESTARTS, nth=1)], _SYNC, True, 2, "PCPC",
    ),
    "a grace period that is over": (
        [_RESTART, on(_O, {"status": Status4.NO_GRACE}, nth=1)], _SYNC, True, 2, "xCF",
    ),
    "a READ's open was revoked": (
        [on(Nfs4.READ, {**_REVOKE, "status": Status4.ADMIN_REVOKED}, nth=5)], {"reads": True},
        False, 1, "F",
    ),
    **{
        f"a WRITE's open: {status.name}": (
            [on(_W, {**_REVOKE, "status": status}, nth=5)], {}, False, 1, "F",
        )
        for status in (
            Status4.BAD_STATEID, Status4.OLD_STATEID, Status4.STALE_STATEID, Status4.EXPIRED,
            Status4.ADMIN_REVOKED, Status4.DELEG_REVOKED,
        )
    },
    # Told twice to wait. The open is lost, so that there is one during I/O.
    **{
        f"{operation.name}: {status.name}": (
            [on(_W, _REVOKE, nth=5), on(operation, {"status": status}, last=2)], {}, False, 1,
            "xxF" if operation is _O else "F",
        )
        for operation, status in (
            (_S, Status4.DELAY), (Nfs4.COMMIT, Status4.DELAY), (_O, Status4.DELAY),
            (_O, Status4.GRACE),
        )
    },
}  # fmt: skip


def _letter(call: CData) -> str:
    if call.procedure == Nfs4.RECLAIM_COMPLETE.value:
        return "C"
    return "x" if call.status else {Claim.FH.value: "F", Claim.PREVIOUS.value: "P"}[call.claim]


@pytest.mark.parametrize("name", _RECOVERIES)
def test_what_is_lost_is_made_again(scenario: Scenarios, name: str) -> None:
    hooks, terms, told, sessions, opened = _RECOVERIES[name]
    ran = scenario(*hooks, version=4, **terms)
    assert bool(ran.lines) == told
    assert len({call.session for call in ran.calls(_W, Nfs4.READ)}) == sessions
    assert "".join(_letter(call) for call in ran.calls(_O, Nfs4.RECLAIM_COMPLETE)) == opened


def test_each_client_reclaims_after_a_restart(scenario: Scenarios) -> None:
    """Once, within the grace period, which ends when all have said so."""
    ran = scenario(_RESTART, version=4, nclients=4, **_SYNC)
    again = Counter((c.client, _letter(c)) for c in ran.calls(_O, Nfs4.RECLAIM_COMPLETE))
    assert again == dict.fromkeys(product(range(1, 5), "PC"), 1)


def test_a_server_that_wants_connections_bound(scenario: Scenarios) -> None:
    """Which refuses SEQUENCE over the new one until that is bound."""
    ran = scenario(_RESET_AT, version=4, binds=True)
    assert len(ran.calls(Nfs4.BIND_CONN_TO_SESSION)) == 1


@pytest.mark.parametrize("reconnect", [0, LINUX])
def test_a_session_that_is_refused_for_a_while(scenario: Scenarios, reconnect: int) -> None:
    """Linux asks for it each 3 s."""
    refused = on(Nfs4.CREATE_SESSION, {"status": Status4.NOSPC}, last=3)
    ran = scenario(on(_S, _END_SESSIONS, nth=9), refused, version=4, reconnect=reconnect)
    assert len(ran.lines) == 3
    assert ran.said("NFS4ERR_NOSPC") == ran.said("connection lost") == ran.said("server OK") == 1
    assert _sessions(ran) == 2
    if reconnect == LINUX:
        connects = [time / SECOND for time in ran.result.connected[0 : ran.result.connects]]
        assert connects == pytest.approx([3, 6, 9], abs=0.3)


def test_a_session_that_is_put_off_is_asked_for_each_second(scenario: Scenarios) -> None:
    """At the last: all calls wait for it."""
    busy = on(Nfs4.CREATE_SESSION, {"status": Status4.DELAY}, last=7)
    calls = scenario(on(_S, _END_SESSIONS, nth=9), busy, version=4).calls(Nfs4.CREATE_SESSION)
    waits = [(later.time - earlier.time) / SECOND for earlier, later in pairwise(calls)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1, 1], abs=0.15)


def test_a_call_of_a_lost_session_does_not_stand_before_those_that_have_slots(
    scenario: Scenarios,
) -> None:
    """It needs a slot of the new session, of which they have them all."""
    ran = scenario(
        on(_W, {**_END_SESSIONS, **UNHEARD}, nth=3),
        on(_W, UNHEARD, nth=6),
        on(_W, {**UNHEARD, "end": End.RESET}, nth=7),
        version=4,
        slots=2,
    )
    calls = ran.calls(_W)
    assert {_place(call) for call in calls[5:7]} == {_place(call) for call in calls[7:9]}
    assert _sessions(ran) == 2


@pytest.mark.parametrize(
    "status",
    [
        Status4.BADSESSION,
        Status4.SEQ_MISORDERED,
        Status4.CONN_NOT_BOUND_TO_SESSION,
        Status4.STALE_CLIENTID,
    ],
    ids=str,
)
def test_a_session_that_is_refused_for_long_is_asked_for_ever_more_rarely(
    scenario: Scenarios, status: Status4
) -> None:
    """Each of eight calls is refused seven times within 11 s, and told of once."""
    leaves = status in (Status4.BADSESSION, Status4.STALE_CLIENTID)
    ran = scenario(on(_S, {"status": status}, after=8, last=60), version=4, leaves=leaves)
    assert ran.said(f"keeps refusing it (NFS4ERR_{status.name})") == len(ran.lines) == 1
    assert 11 <= ran.result.took / SECOND <= 12
    assert len(ran.calls(_W)) == BLOCKS


@pytest.mark.parametrize(("repeated", "asked"), [(1, 2), (3, 4), (99, 4)])
def test_a_session_that_another_connection_has(
    scenario: Scenarios, repeated: int, asked: int
) -> None:
    """A CREATE_SESSION gets the reply to the other's: it is sent again, three times at most.

    Then that session is taken: a server may have one for all. Here one connection alone uses it.
    """
    again = on(Nfs4.CREATE_SESSION, {"repeats": True}, after=1, last=1 + repeated)
    late = on(_W, {**_END_SESSIONS, "delay": 40 * SECOND}, nth=BLOCKS)
    ran = scenario(late, again, version=4, nconnect=2, depth=1, timeo=6000)
    made = [call for call in ran.calls(Nfs4.CREATE_SESSION) if not call.status]
    assert len(made) == 1 + asked
    assert len({call.connection for call in made}) == 2


def test_a_shared_session_outlives_a_path_that_held_all_slots(scenario: Scenarios) -> None:
    held = 0

    def hook(call: CData) -> Fate | None:
        nonlocal held
        if call.procedure != _S.value or call.address:
            return None
        held += 1
        dies = {"end": End.RESET, "act": Act.REFUSE_ADDRESS} if held == _DEPTH else {}
        return {**UNHEARD, **dies}

    two: dict[str, object] = {"paths": 2, "failover": True, "trunks": True}
    ran = scenario(hook, version=4, slots=_DEPTH, **two, leaves=True)
    assert held == _DEPTH
    assert [call.address for call in ran.calls(_W)] == [1] * BLOCKS


# --- the lease ---


def test_an_idle_client_renews_its_lease(scenario: Scenarios) -> None:
    """Each 30 s, a third of the server's lease, while a WRITE is under way for 5 minutes.

    The renewals are not among its I/O's round trips.
    """
    ran = scenario(on(_W, {"delay": 300 * SECOND}, nth=BLOCKS), version=4, timeo=6000)
    times = [call.time for call in ran.calls(_S)]
    assert max(later - before for before, later in pairwise(times)) <= 31 * SECOND
    assert ran.result.rtts == len(ran.calls(_W, Nfs4.COMMIT))


def test_a_renewal_that_the_transport_refuses_ends(scenario: Scenarios) -> None:
    """It has no I/O. The server may have had it: its slot goes on in a new session alone."""
    late = on(_W, {"delay": 300 * SECOND}, nth=BLOCKS)
    ran = scenario(on(_S, {"refused": True}, nth=BLOCKS + 1), late, version=4, timeo=6000)
    assert ran.said("SEQUENCE") == ran.said("ERR_CHUNK") == 1
    assert len(ran.calls(Nfs4.CREATE_SESSION)) == 1


def test_idle_clients_renew_their_leases_and_connect_again(scenario: Scenarios) -> None:
    """One of four waits 5 minutes for a reply. The others lose their connections meanwhile."""
    late = on(_W, {"delay": 300 * SECOND}, nth=BLOCKS)
    lost = set[int]()

    def lose(call: CData) -> Fate | None:
        idle = 60 * SECOND < call.time < 300 * SECOND
        if not idle or call.procedure != _S.value or call.client in lost:
            return None
        lost.add(call.client)
        return {**UNHEARD, "end": End.RESET}

    ran = scenario(lose, late, version=4, nclients=4, depth=4, timeo=6000)
    assert len(lost) == 3
    for client in lost:
        renewals = [call for call in ran.calls(_S) if call.client == client and call.answered]
        times = [0, *(call.time for call in renewals)]
        assert max(later - before for before, later in pairwise(times)) <= 31 * SECOND
        assert len({call.connection for call in renewals}) == 2


def test_another_connection_renews_where_one_cannot(scenario: Scenarios) -> None:
    """The first address of a shared session is gone; the lease is that of the client."""
    late = on(Nfs4.READ, {"delay": 300 * SECOND}, nth=BLOCKS - 1)  # over the second
    gone: Fate = {**UNHEARD, "end": End.RESET, "act": Act.REFUSE_ADDRESS}
    renews = on(_S, gone, address=0, after=BLOCKS)
    ran = scenario(renews, late, version=4, paths=2, trunks=True, timeo=6000, reads=True)
    renewed = [call.time for call in ran.calls(_S) if call.answered and call.time > SECOND]
    assert any(not call.answered for call in ran.calls(_S) if not call.address)
    assert len({call.session for call in ran.calls(_S)}) == 1
    assert max(later - before for before, later in pairwise([0, *renewed])) < 90 * SECOND


# --- opens that are lost ---


def test_a_file_that_cannot_be_opened_again_fails(scenario: Scenarios) -> None:
    stale = on(_O, {"status": Status4.STALE})
    ran = scenario(on(Nfs4.READ, _REVOKE, nth=5), stale, version=4, reads=True, error="ESTALE")
    assert ran.said("does not know the file any more") == 1


@pytest.mark.parametrize("trunks", [False, True])
@pytest.mark.parametrize(
    ("operation", "status"),
    [(_W, Status4.BAD_STATEID), (_W, Status4.EXPIRED), (Nfs4.READ, Status4.OLD_STATEID)],
    ids=str,
)
def test_an_open_that_is_refused_for_ever_ends_the_job(
    scenario: Scenarios, operation: Nfs4, status: Status4, trunks: bool
) -> None:
    """Another OPEN was no help: no third is asked for, and a line says what may be."""
    reads = operation is Nfs4.READ
    refuses = on(operation, {"status": status, **_REVOKE})
    ran = scenario(refuses, version=4, depth=1, reads=reads, trunks=trunks, error="EIO")
    use = "open=none or version=3" if trunks else "trunking=session, open=none"
    assert (
        ran.said("as soon as the file was opened again") == ran.said(f"NFS4ERR_{status.name}") == 1
    )
    assert ran.said(use) == ran.said(f'{operation.name} of "file" at 0: ') == 1
    assert _claims(ran) == [Claim.FH.value]


# --- soft ---


def test_soft_goes_on_after_a_call_that_was_given_up(scenario: Scenarios) -> None:
    """Its slot is in doubt, and so another session takes over. Each such time is told of once."""
    soft = {"timeo": 4, "retrans": 0, "soft": True, "goes_on": True, "depth": 1}
    times = on(Nfs4.READ, UNHEARD, last=4), on(Nfs4.READ, UNHEARD, after=8, last=10)
    ran = scenario(*times, version=4, reads=True, **soft, error="ETIMEDOUT")
    assert len({call.session for call in ran.calls(Nfs4.READ)}) > 1
    assert ran.calls(Nfs4.READ)[-1].answered
    assert ran.said("no answer within 0.4 s") == 2


def test_soft_waits_for_a_server_that_is_still_at_a_call(scenario: Scenarios) -> None:
    """Its waits, 3.2 s at the last, are no silence; and after them one timeo is as long as ever."""
    delays, lost, copies = 6, list[tuple[int, int, int]](), 0

    def hook(call: CData) -> Fate | None:
        nonlocal copies
        if call.procedure == _W.value and call.nth == 5:
            lost.append(_place(call))
            return {**UNHEARD, "end": End.RESET}
        if call.procedure != _S.value or _place(call) not in lost:
            return None
        copies += 1
        if copies == delays + 1:
            return UNHEARD
        return {"status": Status4.DELAY} if copies <= delays else None

    soft = {"timeo": 3, "retrans": 9, "soft": True, "depth": 1}
    ran = scenario(hook, version=4, **soft)
    assert copies >= delays + 2
    assert _sessions(ran) == 1
