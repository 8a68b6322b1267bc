# SPDX-License-Identifier: GPL-2.0-only
"""Connections that are lost, replies that do not come: hard, soft, failover, calls sent again."""

import errno
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from simulated import (
    BLOCK,
    BLOCKS,
    FORGETS,
    JITTER,
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

from servers.scripted import Nfs, Nfs4, Stable, Status, Status4

pytestmark = pytest.mark.sanitized

_W, _R, _C, _NULL = Nfs.WRITE, Nfs.READ, Nfs.COMMIT, Nfs.NULL
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
    # Of a first copy: a server that always says so is not asked without a pause.
    "RETRY_UNCACHED_REP": (
        {"status": Status4.RETRY_UNCACHED_REP}, 0, 3, {"version": 4}, [0.1, 0.2, 0.4],
    ),
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
    write = Nfs4.WRITE if "version" in terms else _W
    ran = scenario(on(write, fate, after=after, last=last), depth=1, **terms)
    calls = ran.calls(write)[after : last + 1]
    waits = [(later.time - earlier.time) / SECOND for earlier, later in pairwise(calls)]
    assert waits == pytest.approx(expected, abs=0.15)
    assert len({call.offset for call in calls}) == 1
    assert len({call.xid for call in calls}) == (last + 1 if "status" in fate else 1)
    assert len(ran.calls(write)) == BLOCKS + last - after
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
    Until then NFSv4.1's server asks to wait. Later its connection ends for another reason.
    """
    reads = Nfs4.READ if version == 4 else _R
    forgets: Fate = {"act": Act.CONTEXTS}
    hooks = [
        on(reads, {"delay": 20 * SECOND}, nth=1),
        on(reads, forgets, after=1, last=4, every=2),
        on(Nfs4.READ, {**UNHEARD, "end": End.RESET}, nth=14),
    ]
    ran = scenario(
        *hooks, version=version, nclients=nclients, reads=True, depth=2, timeo=600, service=3
    )
    assert ran.result.reconnects == 2 * (version == 4)
    assert ran.said("outstanding (Connection reset by peer)") == (version == 4)
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


def test_a_late_reply_moves_no_window_but_that_of_its_own_context(scenario: Scenarios) -> None:
    """Numbers begin anew with each context: the next one's first call waits longer than it."""
    late = on(_R, {"delay": 3 * SECOND}, nth=1)
    forgets = on(_R, {"act": Act.CONTEXTS}, nth=2)
    longer = on(_R, {"delay": 6 * SECOND}, nth=3)
    terms: dict[str, object] = {"reads": True, "blocks": 400, "block": 64}
    result = scenario(late, forgets, longer, depth=16, service=1, **terms).result
    assert (result.contexts, result.retransmissions) == (2, 0)
    assert result.took > 6 * SECOND


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
    """However many I/Os meet it on a path; an error of the export is told once for both."""
    reads, version = operation is _R, 4 if isinstance(operation, Nfs4) else 3
    ran = scenario(
        on(operation, {"status": status}),
        reads=reads,
        version=version,
        paths=2,
        nconnect=2,
        error=errno.errorcode[error],
    )
    name = f"NFS{version}ERR_{status.name}"
    told = 2 if remedy is _GONE and operation is not Nfs.COMMIT else 1
    assert ran.said(f"{name}: {remedy}") == ran.said(name) == told


def test_calls_that_rpc_does_not_accept_are_told_of_once(scenario: Scenarios) -> None:
    """However many were outstanding."""
    ran = scenario(on(_W, {"unserved": True}), error="EPROTONOSUPPORT")
    assert ran.said("PROG_UNAVAIL") == 1


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


# --- failover=1: paths that fall silent, are gone, or come back ---


_FIRST, _SECOND = range(2)  # addresses
_SPREADS = {"roundrobin": 1, "queue": 2, "stripe": 3}  # enum spread_policy
# A path is dead after 4 s of silence.
_PATHS: dict[str, object] = {"paths": 2, "failover": True, "timeo": 40}


def _silent(
    address: int, after: int, *, one: bool = False, until: float = 3600.0, probes: int = 99
) -> Hook:
    """Make a hook: an address answers no calls behind so many, for a time; nor its first probes.

    With `one` those of one connection alone, the first to write.
    """
    seen, asked, connections = 0, 0, list[int]()

    def hook(call: CData) -> Fate | None:
        nonlocal seen, asked
        if call.address != address or call.time > until * SECOND or asked > probes:
            return None
        if call.procedure == _W.value:
            connections.append(call.connection)
        if one and call.procedure != _NULL.value and call.connection != connections[0]:
            return None
        seen += 1
        asked += seen > after and call.procedure == _NULL.value
        return UNHEARD if seen > after and asked <= probes else None

    return hook


def _commits(ran: Ran) -> list[CData]:
    return [call for call in ran.calls(_C) if call.answered]


def test_a_path_that_falls_silent(scenario: Scenarios) -> None:
    """Its calls go over the other one, within timeo and the time to look at it."""
    ran = scenario(_silent(_SECOND, 5), **_PATHS)
    answered = [call for call in ran.calls(_W) if call.answered]
    assert ran.said("path 1: does not answer") == len(ran.lines) == 1
    assert 2 <= max(call.answered for call in answered) / SECOND <= 6
    assert sorted(call.offset // BLOCK for call in answered) == list(range(BLOCKS))


def test_a_path_that_refuses_connections(scenario: Scenarios) -> None:
    """It is down for a second, whatever is tried meanwhile, and then looked at."""
    gone: Fate = {**UNHEARD, "act": Act.REFUSE_ADDRESS, "end": End.RESET}
    ran = scenario(on(_W, gone, address=_SECOND), **_PATHS)
    assert 1 < max(call.answered for call in ran.calls(_W)) / SECOND < 1.5


@pytest.mark.parametrize("spread", _SPREADS)
def test_a_path_that_comes_back_is_used_again(scenario: Scenarios, spread: str) -> None:
    """It answers its second probe; meanwhile the first is slow, or all would be done."""
    slow = on(_W, {"delay": SECOND}, address=_FIRST)
    ran = scenario(_silent(_SECOND, 3, probes=1), slow, **_PATHS, depth=2, spread=_SPREADS[spread])
    assert ran.said("path 1: does not answer") == ran.said("path 1: answers again") == 1
    probe = ran.calls(_NULL)[-1]
    later = Counter(call.address for call in ran.calls(_W) if call.time > probe.time)
    assert later[_SECOND] > 0


def test_a_path_of_several_connections_is_told_of_once(scenario: Scenarios) -> None:
    """Four, which take calls and answer none, also when they are new; for 12 s."""
    slow = on(_W, {"delay": 8 * SECOND}, address=_FIRST)
    ran = scenario(_silent(_SECOND, 4, until=12), slow, **_PATHS, nconnect=4)
    assert len({call.connection for call in ran.calls(_NULL) if call.address == _SECOND}) >= 4
    assert ran.said("path 1: does not answer") == ran.said("path 1: answers again") == 1
    assert len(ran.lines) == 2


def test_a_long_call_is_no_silence(scenario: Scenarios) -> None:
    """A server that takes its time for one call, and answers others, is asked and left alone."""
    ran = scenario(on(_W, {"delay": 6 * SECOND}, nth=4), **{**_PATHS, "timeo": 50})
    late = ran.calls(_W)[3]
    assert ran.lines == []
    assert {call.address for call in ran.calls(_W) if call.offset == late.offset} == {late.address}


def test_a_probe_waits_for_the_data_before_it(scenario: Scenarios) -> None:
    """A slow link is no silence: a WRITE takes 0.2 s to leave, and 0.1 s without a reply is."""
    ran = scenario(**{**_PATHS, "timeo": 1}, window=1, blocks=8, block=2 * BLOCK)
    assert ran.lines == []
    assert ran.calls(_NULL)


_DEAD, _BACK = "does not answer", "answers again"
_BROKEN: Fate = {"is_call": True}
_DIES: Fate = {"act": Act.REFUSE_ADDRESS, "restarts": True}
_SLOW = on(_W, {"delay": SECOND}, address=_FIRST)

# What befalls the second path, or both; terms, and how often what is said.
_SURVIVED: dict[str, tuple[list[Hook], dict[str, object], dict[str, int]]] = {
    # It can be connected to, but NULL is answered with an error, or not at all.
    **{
        f"no life: {name}": (
            [on(_NULL, fate, address=_SECOND, after=1), _silent(_SECOND, 3), _SLOW],
            {"depth": 2}, {"go to other paths": 1, _BACK: 0},
        )
        for name, fate in {"silent": UNHEARD, "without NFS": {"unserved": True}}.items()
    },
    # What its server says, to NULL too, is no reply; the other path goes on.
    "the protocol is broken": (
        [on(kind, _BROKEN, address=_SECOND) for kind in (_W, _NULL)], {},
        {"path 1: the server broke the protocol 3 times": 1, _DEAD: 1},
    ),
    # Even where it gives up as soon as a path is known to be dead.
    "soft": ([_silent(_SECOND, 5)], {"soft": True, "retrans": 0}, {_DEAD: 1}),
    # Its WRITEs are answered, and nothing after them: their COMMIT goes where it can.
    "silent at its COMMIT": ([_silent(_SECOND, BLOCKS // 2)], {}, {"may be lost": 0}),
    "both, hard": ([_silent(path, 3, until=6) for path in (_FIRST, _SECOND)], {}, {}),
    # The server behind the paths has lost everything meanwhile.
    "a hold": ([on(_C, _DIES, nth=1)], {"hold": 1 << 20}, {"all held data is durable now": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", _SURVIVED)
def test_what_another_path_makes_good(scenario: Scenarios, name: str) -> None:
    hooks, terms, said = _SURVIVED[name]
    ran = scenario(*hooks, **_PATHS, **terms)
    assert {text: ran.said(text) for text in said} == said
    if name.startswith("no life"):
        assert len([call for call in ran.calls(_NULL) if call.address == _SECOND]) > 1
    if name == "silent at its COMMIT":
        assert [call.address for call in _commits(ran)] == [_FIRST] * 2
    assert ran.result.rewritten == (BLOCKS * BLOCK if "hold" in terms else 0)


@pytest.mark.parametrize("replies", [3, 7])
def test_a_path_that_broke_the_protocol_comes_back(scenario: Scenarios, replies: int) -> None:
    """Once its server answers: so many of its replies were none, from the fourth on to probes."""
    broken = list[CData]()

    def hook(call: CData) -> Fate | None:
        asks = call.procedure == (_W if len(broken) < 3 else _NULL).value
        if call.address != _SECOND or not asks or len(broken) == replies:
            return None
        broken.append(call)
        return _BROKEN

    ran = scenario(hook, _SLOW, **_PATHS, depth=2)
    assert ran.said("path 1: the server broke the protocol 3 times") == replies // 3
    assert ran.said(_BACK) == 1
    later = Counter(call.address for call in ran.calls(_W) if call.time > broken[-1].time)
    assert later[_SECOND] > 0


@pytest.mark.parametrize(("after", "lost"), [(2, _W), (4, _C)], ids=["WRITE", "COMMIT"])
def test_a_path_commits_over_what_it_has_left(scenario: Scenarios, after: int, lost: Nfs) -> None:
    """One of its two connections is dead, both of the other path's live: its COMMIT stays with it.

    I/Os take the four connections in turn, one at a time: each has four of the sixteen WRITEs.
    """
    ran = scenario(_silent(_SECOND, after, one=True), **_PATHS, nconnect=2, depth=1)
    assert {call.procedure for call in ran.calls(_W, _C) if not call.answered} == {lost.value}
    assert sorted(call.address for call in _commits(ran)) == [_FIRST, _SECOND]


def test_what_was_lost_behind_a_dead_path_is_reported(scenario: Scenarios) -> None:
    ran = scenario(on(_C, FORGETS, nth=1), _silent(_SECOND, BLOCKS // 2), **_PATHS, error="EIO")
    lost = [line for line in ran.lines if "may be lost" in line]
    assert sorted(line.split(": ")[1] for line in lost) == ["path 0", "path 1"]


def test_the_last_path_gives_up_as_soft_says(scenario: Scenarios) -> None:
    silent = _silent(_FIRST, 3), _silent(_SECOND, 3)
    scenario(*silent, **{**_PATHS, "timeo": 10}, soft=True, retrans=0, error="ETIMEDOUT")


@pytest.mark.parametrize("version", [3, 4])
def test_a_call_that_was_asked_to_wait_leaves_a_dead_path(
    scenario: Scenarios, version: int
) -> None:
    """Its fifth wait takes 1.6 s: it is within that when the path has been gone for 1 s."""
    status, write = (Status.JUKEBOX, _W) if version == 3 else (Status4.DELAY, Nfs4.WRITE)
    waits, asked = 5, list[int]()

    def hook(call: CData) -> Fate | None:
        if call.procedure != write.value or call.address != _SECOND:
            return None
        if asked and call.offset != asked[0]:
            return None
        asked.append(call.offset)
        dies = {"act": Act.REFUSE_ADDRESS, "end": End.CLOSE} if len(asked) == waits else {}
        return {"status": status, **dies}

    ran = scenario(hook, **_PATHS, version=version, leaves=True)
    copies = [call.address for call in ran.calls(write) if call.offset == asked[0]]
    assert copies == [_SECOND] * waits + [_FIRST]
