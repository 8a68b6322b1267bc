# SPDX-License-Identifier: GPL-2.0-only
"""Connections that are lost, and replies that do not come: hard, soft, and calls sent again."""

import errno
from collections.abc import Sequence
from itertools import pairwise

import pytest
from simulated import (
    BLOCK,
    BLOCKS,
    JITTER,
    LINUX,
    MUTE,
    SECOND,
    UNHEARD,
    Act,
    End,
    Fate,
    Hook,
    Scenarios,
    on,
)

from servers.scripted import Nfs, Nfs4, Stable, Status, Status4

pytestmark = pytest.mark.sanitized

_W, _R = Nfs.WRITE, Nfs.READ
_DEPTH = 8
_SOFT: dict[str, object] = {"soft": True, "retrans": 0}
_LONG = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5, 5]


# --- calls that are sent again ---


_ENDS: dict[str, Fate] = {
    "reset": {**MUTE, "end": End.RESET},
    "close": {**MUTE, "end": End.CLOSE},
    "behind garbage": {"garbage": True, "end": End.CLOSE},
}


@pytest.mark.parametrize("name", _ENDS)
def test_outstanding_calls_go_out_again(scenario: Scenarios, name: str) -> None:
    """With their xids, over another connection, and without asking again."""
    ran = scenario(on(_W, _ENDS[name], nth=_DEPTH), on(_W, MUTE, last=_DEPTH - 1))
    first, again = ran.calls(_W)[:_DEPTH], ran.calls(_W)[_DEPTH : 2 * _DEPTH]
    assert [(c.xid, c.offset) for c in first] == [(c.xid, c.offset) for c in again]
    assert {c.connection for c in first}.isdisjoint(c.connection for c in again)
    assert (ran.result.reconnects, ran.result.retransmissions) == (1, _DEPTH)
    assert ran.said(f"connection lost with {_DEPTH} calls outstanding") == 1
    assert ran.said("server OK") == 1


_CLOSES: Fate = {**UNHEARD, "end": End.CLOSE}


def test_a_path_is_told_of_once_when_it_stops_and_when_it_resumes(scenario: Scenarios) -> None:
    """Four connections, all of them lost with the server, and lost again when it is back."""
    hooks = on(_W, {"restarts": True}, nth=9), on(_W, _CLOSES, after=9, last=14)
    ran = scenario(*hooks, nconnect=4, stable=int(Stable.FILE_SYNC))
    assert ran.result.reconnects > 4
    assert len(ran.lines) == 2
    assert ran.said("connection lost") == ran.said("server OK") == 1


def test_a_path_is_told_of_each_time_that_it_stops(scenario: Scenarios) -> None:
    ran = scenario(on(_W, _CLOSES, nth=5), on(_W, _CLOSES, nth=12), depth=1)
    assert ["connection lost" in line for line in ran.lines] == [True, False] * 2
    assert ran.said("server OK") == 2


# What becomes of WRITEs behind so many, up to one; terms, and the waits that are expected then.
_WAITS: dict[str, tuple[Fate, int, int, dict[str, object], list[float]]] = {
    # nfs(5), timeo: each time-out is longer than the last by as much.
    "sent again": (MUTE, 0, 4, {"timeo": 2}, [0.2, 0.4, 0.6, 0.8]),
    "connections that are closed": (_CLOSES, 4, 12, {}, [0.0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]),
    # NFSv3 servers say GRACE, too.
    "JUKEBOX": ({"status": Status.JUKEBOX}, 0, 3, {}, [0.1, 0.2, 0.4]),
    "GRACE": ({"status": 10013}, 0, 3, {}, [0.1, 0.2, 0.4]),
    # Which is told once, by the sixth time: after 3.1 s. Each is 5 s at the last.
    "JUKEBOX five times": ({"status": Status.JUKEBOX}, 0, 5, {}, _LONG[:5]),
    "JUKEBOX six times": ({"status": Status.JUKEBOX}, 0, 6, {}, _LONG[:6]),
    "JUKEBOX for long": ({"status": Status.JUKEBOX}, 0, 10, {}, _LONG),
    "JUKEBOX for long, soft": (
        {"status": Status.JUKEBOX}, 0, 10, {"timeo": 30, **_SOFT}, _LONG,
    ),
    "JUKEBOX for minutes": ({"status": Status.JUKEBOX}, 0, 80, {}, [*_LONG, *[5.0] * 70]),
    "JUKEBOX and an end": ({"status": Status.JUKEBOX, "end": End.CLOSE}, 0, 10, {}, _LONG),
    # Of one client: what is due comes by deadlines.
    "a client's JUKEBOX": ({"status": Status.JUKEBOX}, 0, 3, {"nclients": 1}, [0.1, 0.2, 0.4]),
    "a client's connection": (_CLOSES, 4, 8, {"nclients": 1}, [0.0, 0.1, 0.2, 0.4]),
    # Linux connects at once, whatever was answered over the connection.
    "connections that are closed, linux": (_CLOSES, 0, 8, {"reconnect": LINUX}, [0.0] * 8),
}  # fmt: skip


@pytest.mark.parametrize("name", _WAITS)
def test_calls_go_out_again_after_longer_and_longer(scenario: Scenarios, name: str) -> None:
    """The tick is 0.1 s. One that was put off is another call each time."""
    fate, after, last, terms, expected = _WAITS[name]
    ran = scenario(on(_W, fate, after=after, last=last), depth=1, **terms)
    calls = ran.calls(_W)[after : last + 1]
    waits = [(later.time - earlier.time) / SECOND for earlier, later in pairwise(calls)]
    assert waits == pytest.approx(expected, abs=0.15)
    assert len({call.offset for call in calls}) == 1
    assert len({call.xid for call in calls}) == (last + 1 if "status" in fate else 1)
    assert len(ran.calls(_W)) == BLOCKS + last - after
    if fate is _CLOSES:
        assert len({call.connection for call in calls}) == len(calls)
    if "status" in fate:
        assert ran.said("keeps asking to wait (NFS3ERR_JUKEBOX)") == (last > 5)


def test_a_copy_that_has_not_left_when_its_call_is_answered_never_does(
    scenario: Scenarios,
) -> None:
    """Its buffer is fio's again, so the connection is closed. A WRITE takes 0.1 s to leave."""
    ran = scenario(on(_W, {"delay": 3 * SECOND // 20}, nth=1), depth=1, timeo=2, window=1)
    assert len(ran.calls(_W)) == BLOCKS
    assert (ran.result.reconnects, ran.result.retransmissions) == (1, 1)


def test_a_major_timeout_takes_a_new_connection(scenario: Scenarios) -> None:
    """nfs(5), hard: a connection that has gone silent is not asked for ever."""
    ran = scenario(on(_W, MUTE, after=4, last=6), depth=1, timeo=10, retrans=1)
    first, again, renewed = ran.calls(_W)[4:7]
    assert first.xid == again.xid == renewed.xid
    assert first.connection == again.connection != renewed.connection
    assert ran.result.reconnects == 1


_RESTARTS = on(Nfs4.WRITE, {"restarts": True}, nth=2)
_CUT: Fate = {"cut": 17 * SECOND}

# What befalls a call; NFS's version, and how many new connections that takes.
_UNREACHED: dict[str, tuple[list[Hook], int, int]] = {
    "for 14 s": ([on(_W, {"cut": 14 * SECOND}, nth=4)], 3, 0),
    "for 17 s": ([on(_W, _CUT, nth=4)], 3, 1),
    "for 17 s, v4": ([on(Nfs4.WRITE, _CUT, nth=4)], 4, 1),
    "before the session": ([_RESTARTS, on(Nfs4.CREATE_SESSION, _CUT, nth=1)], 4, 2),
    "it acknowledges": ([on(_W, {"delay": 30 * SECOND}, nth=4)], 3, 0),
}


@pytest.mark.parametrize("name", _UNREACHED)
def test_a_host_that_is_out_of_reach_is_connected_to_anew(scenario: Scenarios, name: str) -> None:
    """After 15 s, which is told: TCP would send ever more slowly. One that acknowledges is not."""
    hooks, version, reconnects = _UNREACHED[name]
    ran = scenario(*hooks, depth=1, version=version, stable=int(Stable.FILE_SYNC))
    assert ran.result.reconnects == reconnects
    assert ran.said("server not responding, still trying") == (reconnects > 0)


_SILENT: dict[str, Fate] = {"silent": MUTE, "gone": {**UNHEARD, "act": Act.REFUSE}}


@pytest.mark.parametrize("name", _SILENT)
@pytest.mark.parametrize(("timeo", "retrans"), [(3, 1), (1, 4)])
def test_soft_gives_up(scenario: Scenarios, timeo: int, retrans: int, name: str) -> None:
    ran = scenario(
        on(_W, _SILENT[name]), soft=True, timeo=timeo, retrans=retrans, error="ETIMEDOUT"
    )
    most = timeo / 10 * (retrans + 1)
    copies = [call for call in ran.calls(_W) if call.xid == ran.calls(_W)[0].xid]
    assert ran.said(f"no answer within {most:.1f} s (timeo {timeo / 10} s, retrans {retrans}") == 1
    assert ran.result.took / SECOND >= most
    assert len(copies) <= retrans + 1


def test_clients_of_a_silent_server_give_up_as_soft_says(scenario: Scenarios) -> None:
    """Each by its own deadline."""
    ran = scenario(on(_W, MUTE), nconnect=8, nclients=8, timeo=3, **_SOFT, error="ETIMEDOUT")
    assert 0.3 <= ran.result.took / SECOND <= 0.5


def test_patience_asked_for_is_no_silence(scenario: Scenarios) -> None:
    """Soft gives up a server that is silent for 3 s, not one that says "later" for 3.1 s."""
    late: Fate = {"delay": SECOND // 2}
    asks = on(_W, {"status": Status.JUKEBOX}, last=5)
    ran = scenario(asks, on(_W, late, nth=6), depth=1, timeo=30, **_SOFT)
    assert ran.lines == []


@pytest.mark.parametrize("version", [3, 4])
def test_a_connection_that_ends_behind_a_reply(scenario: Scenarios, version: int) -> None:
    """As servers end what was idle: the next call may have left, and goes out once more."""
    write = _W if version == 3 else Nfs4.WRITE
    ran = scenario(on(write, {"end": End.CLOSE}, nth=8), depth=1, version=version)
    answered = [call.offset // BLOCK for call in ran.calls(write)]
    assert answered == [*range(BLOCKS)]
    assert (ran.result.reconnects, ran.result.retransmissions) == (1, 1)


@pytest.mark.parametrize("terms", [{}, {"soft": True}], ids=["hard", "soft"])
def test_a_server_that_breaks_the_protocol_is_given_up(
    scenario: Scenarios, terms: dict[str, object]
) -> None:
    """A message that is no reply ends its connection, and three in a row end the job."""
    ran = scenario(on(_W, {"is_call": True}, after=4), depth=1, **terms, error="EPROTO")
    assert len({call.connection for call in ran.calls(_W)}) == 3
    assert ran.said("the server broke the protocol 3 times") == 1


def _returns(scenario: Scenarios, **terms: object) -> list[float]:
    """Return after how many seconds each of 16 connections has returned to a restarted server."""
    restart = on(_W, {"restarts": True}, nth=1)
    ran = scenario(restart, nconnect=16, blocks=32, block=512, depth=32, **terms)
    first, *calls = ran.calls(_W)
    returned: dict[int, float] = {}
    for call in calls:
        returned.setdefault(call.connection, (call.time - first.time) / SECOND)
    assert len(returned) == 16
    return sorted(returned.values())


def test_connections_with_jitter_return_one_after_the_other(scenario: Scenarios) -> None:
    """Within a second, and a tick; without jitter all return in the first tick."""
    together, apart = _returns(scenario), _returns(scenario, reconnect=JITTER)
    assert together[-1] - together[0] < 0.01
    assert apart[-1] - apart[0] > 0.5
    assert apart[-1] < 1.2


def _connects(scenario: Scenarios, fate: Fate, **terms: object) -> list[float]:
    """Return after how many seconds a client connects like Linux's, once its WRITE had that fate.

    Each of its four connections does the same: the ticks are 0.1 s.
    """
    job = {"nconnect": 4, "depth": 4, "reconnect": LINUX, **terms}
    write = Nfs4.WRITE if job.get("version") == 4 else _W
    result = scenario(on(write, fate, nth=4), on(write, UNHEARD, last=3), **job).result
    connects = sorted(time / SECOND for time in result.connected[0 : result.connects])
    assert not len(connects) % 4
    assert all(
        last - first < 0.25 for first, last in zip(connects[::4], connects[3::4], strict=True)
    )
    return connects[::4]


@pytest.mark.parametrize("nclients", [0, 4])
def test_as_linux_does_refused_clients_connect_each_3_s(scenario: Scenarios, nclients: int) -> None:
    refuses: Fate = {**UNHEARD, "act": Act.REFUSE}
    soft: dict[str, object] = {"soft": True, "timeo": 200, "retrans": 0, "error": "ETIMEDOUT"}
    connects = _connects(scenario, refuses, nclients=nclients, **soft)
    assert connects == pytest.approx([3 * n for n in range(7)], abs=0.3)


@pytest.mark.parametrize("nclients", [0, 4])
@pytest.mark.parametrize(
    ("version", "silent", "again", "lease"),
    [(3, 170, 0, 0), (3, 200, 180, 0), (4, 100, 90, 0), (4, 50, 40, 40), (4, 25, 18, 1)],
)
def test_as_linux_does_clients_without_an_answer_leave_it_to_tcp(
    scenario: Scenarios, version: int, silent: int, again: int, lease: int, nclients: int
) -> None:
    """It repeats the SYN, in NFSv4 for a lease, or 18 s. The next connect follows at once."""
    cut: Fate = {"cut": silent * SECOND, "restarts": True}
    connects = _connects(scenario, cut, version=version, nclients=nclients, lease=lease)
    assert connects == pytest.approx([0, again][: 1 + (again > 0)], abs=0.3)


@pytest.mark.parametrize("service", [0, 3], ids=["clear", "krb5p"])
@pytest.mark.parametrize(
    ("hooks", "terms"),
    [((), {"window": 300}), ((on(_R, {"fragment": 5}),), {"reads": True})],
    ids=["sent", "received"],
)
def test_clients_that_lend_each_other_buffers_keep_what_is_partly_there(
    scenario: Scenarios,
    hooks: Sequence[Hook],
    terms: dict[str, object],
    service: int,
) -> None:
    """A window of 300 bytes cuts calls; a reply in fragments of 5 bytes comes in many parts."""
    ran = scenario(*hooks, nconnect=8, nclients=8, depth=16, service=service, **terms)
    assert ran.result.reconnects == 0


@pytest.mark.parametrize(("version", "nclients", "seconds"), [(3, 0, 1), (3, 1, 1), (4, 0, 25)])
def test_a_call_is_sent_again_once_no_key_can_verify_its_reply(
    scenario: Scenarios, version: int, nclients: int, seconds: float
) -> None:
    """Two contexts later, and not only after timeo: in NFSv4.1 over another connection.

    The server forgets the context of the first READ, and the next one; its reply comes after 20 s.
    Until then NFSv4.1's server asks to wait.
    """
    reads = Nfs4.READ if version == 4 else _R
    forgets: Fate = {"act": Act.CONTEXTS}
    hooks = on(reads, {"delay": 20 * SECOND}, nth=1), on(reads, forgets, after=1, last=4, every=2)
    ran = scenario(
        *hooks, version=version, nclients=nclients, reads=True, depth=2, timeo=600, service=3
    )
    assert ran.result.reconnects == (version == 4)
    assert ran.said("the Kerberos keys for a call's reply are gone") == (version == 4)
    assert ran.result.took < seconds * SECOND


@pytest.mark.parametrize("service", [1, 2, 3], ids=["krb5", "krb5i", "krb5p"])
@pytest.mark.parametrize("reads", [False, True], ids=["WRITE", "READ"])
def test_a_reply_to_a_call_of_the_context_before(
    scenario: Scenarios, reads: bool, service: int
) -> None:
    """It comes when the next one is in use, and is read by the keys of its own."""
    operation = _R if reads else _W
    late = on(operation, {"delay": SECOND}, nth=1)
    forgets = on(operation, {"act": Act.CONTEXTS}, nth=2)
    ran = scenario(late, forgets, reads=reads, depth=2, service=service)
    first, others = ran.calls(operation)[0], ran.calls(operation)[1:]
    assert first.answered > max(call.answered for call in others)
    result = ran.result
    assert (result.contexts, result.retransmissions, result.reconnects) == (2, 0, 0)


def test_the_time_of_all_contexts_is_told(scenario: Scenarios) -> None:
    """In a simulated network each one after the first takes about as long as the next."""
    forgets: Fate = {"act": Act.CONTEXTS}
    jobs = (
        scenario(on(_W, forgets, every=4, last=last), depth=1, service=1) for last in (4, 8, 12)
    )
    made = [(ran.result.contexts, ran.result.making / SECOND) for ran in jobs]
    (two, once), (three, twice), (four, thrice) = made
    assert (two, three, four) == (2, 3, 4)
    assert twice - once == pytest.approx(thrice - twice, rel=0.5)
    assert twice > once > 0


@pytest.mark.parametrize("version", [3, 4])
def test_hard_waits_where_the_server_refuses_tickets_for_a_while(
    scenario: Scenarios, version: int
) -> None:
    """It says so once. The context of before is forgotten: nothing can be asked meanwhile."""
    write = _W if version == 3 else Nfs4.WRITE
    ran = scenario(on(write, {"act": Act.TICKETS}, nth=4), depth=1, version=version, service=1)
    assert 10 <= ran.result.took / SECOND < 16
    assert ran.result.contexts == 2
    assert ran.said("the server refuses the ticket") == ran.said("server OK") == 1


# Of 16 clients, in seconds: they follow from the clients' numbers, and so are the same in each run.
_PAUSES = (
    0.137, 0.201, 0.207, 0.344, 0.346, 0.456, 0.479, 0.561,
    0.572, 0.588, 0.600, 0.653, 0.704, 0.892, 0.928, 0.976,
)  # fmt: skip


def test_each_client_with_jitter_returns_at_its_own_time(scenario: Scenarios) -> None:
    """Not with all others whose pause ends within a tick of 100 ms: servers queue few SYNs."""
    returns = _returns(scenario, reconnect=JITTER, nclients=16)
    late = [back - pause for back, pause in zip(returns, _PAUSES, strict=True)]
    assert max(map(abs, late)) < 0.02


@pytest.mark.parametrize(("rate", "seconds"), [(0, 0), (10, 1.5)])
def test_clients_begin_at_their_rate(scenario: Scenarios, rate: int, seconds: float) -> None:
    """Sixteen of them; without a rate all at once."""
    ran = scenario(nconnect=16, nclients=16, depth=16, client_start=rate)
    assert ran.result.began / SECOND == pytest.approx(seconds, abs=0.15)


def test_clients_of_a_silent_server_wait_in_ticks_of_100_ms(scenario: Scenarios) -> None:
    """Their deadline of 15 s has passed; until timeo has, each looks ten times a second."""
    ran = scenario(on(_W, UNHEARD, last=16), nconnect=16, nclients=16, depth=16, timeo=600)
    assert ran.result.retransmissions == 16
    silent = 60 - 15  # seconds
    assert 9 * silent < ran.result.unheard / 16 < 11 * silent


def test_a_server_that_breaks_the_protocol_now_and_then_is_kept(scenario: Scenarios) -> None:
    """Five times, and a reply after each: three in a row would be too many."""
    ran = scenario(on(_W, {"is_call": True}, every=4), depth=1)
    assert ran.result.reconnects == 5


# --- parts ---


@pytest.mark.parametrize(("limit", "block"), [(1, 64), (1000, BLOCK)])
@pytest.mark.parametrize("reads", [False, True], ids=["WRITE", "READ"])
def test_the_rest_is_asked_for(scenario: Scenarios, reads: bool, limit: int, block: int) -> None:
    """By another call each time, which asks for all of it."""
    operation = _R if reads else _W
    ran = scenario(on(operation, {"limit": limit}), reads=reads, blocks=2, block=block)
    calls = ran.calls(operation)
    assert ran.lines == []
    assert len({call.xid for call in calls}) == len(calls) == 2 * -(-block // limit)
    assert all((call.offset + call.count) % block == 0 for call in calls)


_GONE = "the server does not know the file any more"
_REFUSED: list[tuple[Nfs | Nfs4, Status | Status4, int, str]] = [
    (_R, Status.STALE, errno.ESTALE, _GONE),
    (_R, Status.BADHANDLE, errno.EBADF, _GONE),
    (_R, Status.ACCES, errno.EACCES, "may this user read that file"),
    (_W, Status.STALE, errno.ESTALE, _GONE),
    (_W, Status.NOENT, errno.ENOENT, _GONE),
    (_W, Status.NOSPC, errno.ENOSPC, "the file system is full"),
    (_W, Status.DQUOT, errno.EDQUOT, "the user's quota is used up"),
    (_W, Status.FBIG, errno.EFBIG, "the server takes no larger file"),
    (_W, Status.ROFS, errno.EROFS, "the export is read-only"),
    (_W, Status.ACCES, errno.EACCES, "may this user write that file"),
    (_W, Status.PERM, errno.EPERM, "may this user write that file"),
    (Nfs.COMMIT, Status.STALE, errno.ESTALE, _GONE),
    (Nfs.COMMIT, Status.NOSPC, errno.ENOSPC, "the file system is full"),
    (Nfs4.WRITE, Status4.NOSPC, errno.ENOSPC, "the file system is full"),
]


@pytest.mark.parametrize(
    ("operation", "status", "error", "remedy"),
    [pytest.param(*row, id=f"{row[0]} {row[1].name}") for row in _REFUSED],
)
def test_a_refusal_is_one_line_with_its_remedy(
    scenario: Scenarios, operation: Nfs | Nfs4, status: Status | Status4, error: int, remedy: str
) -> None:
    """However many calls on however many connections meet it; of an export, also of both paths."""
    reads, version = operation is _R, 4 if isinstance(operation, Nfs4) else 3
    ran = scenario(
        on(operation, {"status": status}),
        reads=reads,
        version=version,
        paths=1 if remedy is _GONE else 2,
        nconnect=2,
        error=errno.errorcode[error],
    )
    name = f"NFS{version}ERR_{status.name}"
    assert ran.said(f"{name}: {remedy}") == ran.said(name) == 1


def test_calls_that_rpc_does_not_accept_are_told_of_once(scenario: Scenarios) -> None:
    """However many were outstanding."""
    ran = scenario(on(_W, {"unserved": True}), error="EPROTONOSUPPORT")
    assert ran.said("PROG_UNAVAIL") == 1
