# SPDX-License-Identifier: GPL-2.0-only
"""NFSv4.1 (RFC 8881): what is lost is asked for again, or told; what a job's connections share.

What needs no socket and nothing of fio is a scenario: test_scenarios*.py.
"""

import errno
import itertools
from collections import Counter
from functools import partial

import pytest
from conftest import FioRunner
from engine_helpers import done, said
from scripted_jobs import (
    NEVER,
    TWO_ADDRESSES,
    Case,
    Options,
    Outcome,
    Run,
    case,
    failed,
    runs,
)

from servers.rpc import Hyper, xdr
from servers.scripted import (
    DATA4,
    AcceptStat,
    Answer,
    Call,
    Claim,
    Hook,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status4,
    Terms,
    accepted,
    on,
)
from servers.scripted.protocol import Share

pytestmark = pytest.mark.sanitized

_DEPTH = 8  # of the job
_DATA_SESSION = 3  # its first CREATE_SESSION for data: names have theirs before
_VERIFIED = {"version": 4, "verify": "crc32c", "end_fsync": 1}
_TURNS: Options = {"nconnect": 2, "spread": "roundrobin"}
# Two connections on each path, and all of them in use.
_ALL: Options = {"rw": "randwrite", "verify": "crc32c", **_TURNS}
_BOTH = Share.READ | Share.WRITE
_LOST = Answer(reply=False, end="reset")
_DELAYS = Answer(status=Status4.DELAY)
_FHEXPIRED = 10014
_ENDS_SESSIONS = on(Nfs4.WRITE, Answer(do=ScriptedServer.end_sessions), nth=_DEPTH)


def _keeps_nothing(server: ScriptedServer) -> None:
    """Expect that the server holds nothing of ours any more."""
    assert server.kept()[:3] == (0, 0, 0), "clients, sessions and opens are left"


def _data_sessions(ran: Outcome) -> int:
    return len({call.session for call in ran.calls(*DATA4)})


# --- jobs that come through, and leave nothing behind ---

_LATER = (
    Nfs4.CREATE_SESSION, Nfs4.EXCHANGE_ID, Nfs4.DESTROY_SESSION, Nfs4.DESTROY_CLIENTID, Nfs4.CLOSE,
)  # fmt: skip
_LAST = (Nfs4.CLOSE, Nfs4.BIND_CONN_TO_SESSION, Nfs4.DESTROY_SESSION, Nfs4.DESTROY_CLIENTID)
_RESTART = Answer(do=ScriptedServer.restart, act=False, reply=False)


def _next_session(status: Status4, told: int, times: int) -> Case:
    """Make a case: a confirmed client's next CREATE_SESSION is refused, and EXCHANGE_ID says that.

    RFC 8881, 18.35.3: nothing. NOSPC takes the number of its CREATE_SESSION, DELAY does not.
    """
    last = _DATA_SESSION + times
    again = on(Nfs4.CREATE_SESSION, Answer(status=status), first=last, after=_DATA_SESSION)
    terms = partial(Terms, next_session=1 + told)
    return case(_ENDS_SESSIONS, again, **_VERIFIED, terms=terms, expected=4 + 2 * times)


@runs(
    {
        "an open whose reply is lost": case(on(Nfs4.OPEN, _LOST, nth=1), **_VERIFIED),
        "a restart before a new file is closed": case(
            on(Nfs4.CLOSE, _RESTART, nth=1), **_VERIFIED
        ),
        "a slow server at the end": case(on(_LAST, Answer(delay=0.1)), **_VERIFIED, nconnect=2),
        # Also that of names, which rest for longer than a soft call may take.
        "time runs from when a call is sent": case(
            on((Nfs4.WRITE, Nfs4.CLOSE), Answer(delay=0.3)),
            version=4, timeo=30, retrans=0, soft=1, iodepth=1, quiet=True,
        ),
        # Twice by each of those; others are in test_scenarios_nfs4.py.
        "asked to wait": case(
            *(on(one, _DELAYS, first=2) for one in _LATER), **_VERIFIED, quiet=True
        ),
        "jobs that set their own files up": case(version=4, create_serialize=0, numjobs=2),
        "jobs that do no more": case(version=4, create_serialize=0, numjobs=2, create_only=1),
        "a job that fails": case(version=4, filename="d", files={"d/f": b""}, error=errno.EISDIR),
        "DELAY, told 1": _next_session(Status4.DELAY, 1, 2),
        "NOSPC, told 0": _next_session(Status4.NOSPC, 0, 2),
    }
)  # fmt: skip
def test_what_leaves_nothing_behind(ran: Outcome) -> None:
    _keeps_nothing(ran.server)
    if ran.case.expected:
        assert len(ran.calls(Nfs4.CREATE_SESSION)) < _DATA_SESSION + ran.case.expected


@pytest.mark.parametrize(
    ("rw", "name", "access"), [("read", "r", Share.READ), ("write", "new", _BOTH)]
)
def test_a_file_is_open_once_and_for_what_the_job_does(
    job: Run, rw: str, name: str, access: Share
) -> None:
    found: list[tuple[int, int]] = []
    look = Answer(do=lambda server: found.append(server.kept()[2:]))
    job(on((Nfs4.READ, Nfs4.WRITE), look, nth=1), rw=rw, filename=name, version=4)
    assert found == [(1, access)]


def test_a_file_that_is_not_opened_is_not_opened_again(job: Run) -> None:
    restarts = on(Nfs4.READ, _RESTART, nth=_DEPTH)
    ran = job(restarts, rw="read", filename="r", version=4, open="none")
    assert ran.calls(Nfs4.OPEN) == []


def test_what_an_earlier_copy_has_removed_is_removed(job: Run) -> None:
    """The second copy has a slot of another session, and finds no file (NOENT)."""
    lost = Answer(do=ScriptedServer.end_sessions, reply=False, end="reset")
    ran = job(on(Nfs4.REMOVE, lost, nth=1), unlink=1, **_VERIFIED)
    first, again, *_ = ran.calls(Nfs4.REMOVE)
    assert (first.status, again.status) == (Status4.OK, Status4.NOENT)
    assert first.session != again.session
    assert {call.session for call in ran.calls(Nfs4.CREATE_SESSION)} == {0}  # without SEQUENCE


def test_a_restarted_server_may_give_the_client_id_again(job: Run) -> None:
    """Unconfirmed: that shows the restart. The open is reclaimed, and sessions count anew.

    Delegations go back, which the server gives against the wish, also as it reclaims the open.
    """
    terms = partial(Terms, zero_id=True, delegates=True)
    restarts = on(Nfs4.WRITE, Answer(do=ScriptedServer.restart), nth=10)
    ran = job(restarts, version=4, terms=terms, stable="file_sync", verify="crc32c")
    opens = [call for call in ran.calls(Nfs4.OPEN) if not call.status]
    again = [call.claim for call in opens if call.claim != Claim.NULL]
    assert again == [Claim.PREVIOUS]
    assert [call.status for call in ran.calls(Nfs4.DELEGRETURN)] == [0] * len(opens)
    assert Status4.SEQ_MISORDERED not in {call.status for call in ran.calls(Nfs4.CREATE_SESSION)}
    _keeps_nothing(ran.server)


def test_an_export_whose_handle_is_forgotten(job: Run) -> None:
    """Names are asked about by it: it is looked up again from the root, each time here."""
    forgets = (Answer(status=status) for status in (Status4.STALE, _FHEXPIRED))
    turns = itertools.cycle(step for answer in forgets for step in (answer, None))

    def hook(call: Call) -> Answer | None:
        return next(turns) if call.procedure is Nfs4.PUTFH and not call.file else None

    ran = job(hook, **_VERIFIED, unlink=1, filename="d/f", quiet=True)
    statuses = [call.status for call in ran.calls(Nfs4.PUTFH) if not call.file]
    assert statuses[:4] == [Status4.STALE, 0, _FHEXPIRED, 0]
    assert len(statuses) % 2 == 0, "as many were forgotten as known"
    _keeps_nothing(ran.server)


def test_a_slot_table_that_shrinks_and_grows(job: Run) -> None:
    """Slots beyond the target lie idle; those that come back begin with the number 1."""
    shrink, grow = 32, 160

    def target(slots: int) -> Answer:
        return Answer(do=lambda server: setattr(server.terms, "target", slots))

    hooks = on(Nfs4.WRITE, target(2), nth=shrink), on(Nfs4.WRITE, target(0), nth=grow)
    ran = job(*hooks, size="1m", **_VERIFIED)
    slots = [call.slot for call in ran.calls(Nfs4.WRITE)]
    assert len(slots) == 256
    again = [call for call in ran.calls(Nfs4.WRITE)[grow:] if call.slot > 1]
    assert {call.slot for call in again if call.sequence == 1} == set(range(2, _DEPTH))
    assert set(slots[:shrink]) == set(slots[grow + _DEPTH :]) == set(range(_DEPTH))
    assert set(slots[shrink + 2 * _DEPTH : grow]) == {0, 1}
    assert _data_sessions(ran) == 1


# --- refusals ---

_TOO_SOON: Options = {"timeo": 10, "retrans": 0}
_ID_ZERO = Answer(act=False, results=xdr(0, Hyper(0), 1, 0x10000, 0, Hyper(0), b"a", b"a", 0))


def _refuse(procedure: Procedure, status: Status4) -> Hook:
    return on(procedure, Answer(act=procedure is Nfs4.CREATE_SESSION, status=status))


_REFUSED: dict[str, Hook] = {
    # Nothing is told of its path, which may be right.
    "/export: cannot find the export: the server does not answer\n": on(Nfs4.LOOKUP, NEVER),
    "the NFS server running there": on(Nfs4.EXCHANGE_ID, Answer(sent=lambda _: b"HTTP/1.1 400 ")),
    "CREATE_SESSION: NFS4ERR_STALE_CLIENTID": on(Nfs4.EXCHANGE_ID, _ID_ZERO),
    "no room for another session: end other clients, or use a lower nconnect": _refuse(
        Nfs4.CREATE_SESSION, Status4.NOSPC),
    "use a larger rsize": _refuse(Nfs4.CREATE_SESSION, Status4.TOOSMALL),
    **{
        f"{one.name}: NFS4ERR_{status.name}": _refuse(one, status)
        for one, status in (
            (Nfs4.CREATE_SESSION, Status4.DELAY),
            (Nfs4.RECLAIM_COMPLETE, Status4.STALE_CLIENTID),
        )
    },
    # The session for data; names have theirs.
    "no reply to session set-up": on(Nfs4.CREATE_SESSION, NEVER, after=_DATA_SESSION - 1),
    " times in a row: the server offers no session": on(
        Nfs4.CREATE_SESSION, Answer(status=Status4.STALE_CLIENTID), after=_DATA_SESSION - 1),
}  # fmt: skip


@runs(
    {
        words: case(hook, version=4, **_TOO_SOON, soft=1, error=None, expected=words)
        for words, hook in _REFUSED.items()
    }
)
def test_what_is_refused_for_ever_is_asked_ever_more_slowly(ran: Outcome) -> None:
    """By some dozens of calls, and not by some ten thousand; the job tells what was refused."""
    assert ran.result.status not in (0, None)
    calls = Counter(call.procedure for call in ran.calls())
    assert calls.total() < 400, calls
    assert not calls[Nfs4.WRITE]
    assert ran.case.expected in ran.result.messages


def test_a_path_that_leads_nowhere_leaves_no_client(client: FioRunner) -> None:
    with ScriptedServer() as server:
        result = client(pool=server.pool(version=4).replace("/export", "/export/nowhere"))
        assert result.status not in (0, None)
        assert not server.kept().clients


# --- what connections share, a client ID or a session (2.10.5) ---


_over_two = partial(case, addresses=TWO_ADDRESSES, version=4, **_ALL)


# The sessions that data comes over.
@runs(
    {
        "a session for each connection": _over_two(trunking="clientid", expected=4),
        # It is a number as any other (RFC 8881, 3.3).
        "a client ID of zero": _over_two(terms=partial(Terms, zero_id=True), expected=4),
        "one session over all addresses": _over_two(trunking="session", expected=1),
        "an address that no session spans": _over_two(
            trunking="session", terms=partial(Terms, minor_ids={TWO_ADDRESSES[1]: 9}), expected=3
        ),
    }
)
def test_what_a_jobs_connections_share(ran: Outcome) -> None:
    """There is one client ID: of the process that sets up, and of the job."""
    destroyed = [call for call in ran.calls(Nfs4.DESTROY_CLIENTID) if call.status == 0]
    told = ["trunking=session: the server does not span" in line for line in ran.said()]
    assert (_data_sessions(ran), len(destroyed)) == (ran.case.expected, 2)
    assert {call.server[0] for call in ran.calls(*DATA4)} == {*TWO_ADDRESSES}
    assert told == ([True] if ran.case.expected == 3 else [])
    _keeps_nothing(ran.server)


@pytest.mark.parametrize("trunking", ["session", "clientid"])
def test_a_server_that_ties_opens_to_a_session(job: Run, trunking: str) -> None:
    """Names have one of their own: opened again over that for data, a file can be used there."""
    opened = dict[str, int]()

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs4.OPEN:
            opened[call.file] = call.session
        tied = call.procedure not in DATA4 or call.session == opened["f"]
        return None if tied else Answer(status=Status4.BAD_STATEID)

    ran = job(hook, **_ALL, trunking=trunking, version=4, error=None)
    if trunking == "session":
        done(ran.result)
        assert ran.said() == []
    else:
        failed(ran.result, "NFS4ERR_BAD_STATEID", "trunking=session", error=errno.EIO)
    assert not ran.server.kept().sessions


def test_another_server_is_an_error(client: FioRunner) -> None:
    with ScriptedServer() as one, ScriptedServer(addresses=TWO_ADDRESSES[1:]) as other:
        result = client(
            pool=f"{one.pool(version=4)},{other.pool(version=4)}", trunking="session", **_ALL
        )
    assert result.status not in (0, None)
    assert any("this is another server" in line for line in said(result))


def test_a_renewal_that_is_refused_is_told(job: Run) -> None:
    """It has no I/O that would be: a READ is not answered meanwhile."""
    refused = Answer(act=False, rpc=accepted(AcceptStat.SYSTEM_ERR))
    asked = list[Call]()

    def refuse(call: Call) -> Answer | None:
        wanted = (Nfs4.READ, Nfs4.SEQUENCE)[len(asked)] if len(asked) < 2 else None
        if call.procedure is not wanted or (asked and call.session != asked[0].session):
            return None
        asked.append(call)
        return Answer(delay=6) if wanted is Nfs4.READ else refused

    ran = job(refuse, rw="read", iodepth=1, version=4, terms=partial(Terms, lease=3))
    assert sum("SEQUENCE" in line for line in ran.said()) == 1


def test_calls_beyond_the_slots_wait_and_that_is_told(job: Run) -> None:
    """Of all connections together: 960 READs of the first one, and 64 of the last."""
    spread = {"nconnect": 2, "spread": "stripe", "stripe_size": "3840k"}
    ran = job(version=4, terms=partial(Terms, slots=2), rw="read", size="4m", **spread)
    waited = [line for line in ran.said() if "the server grants a session 2 slots" in line]
    assert len(waited) == 2, "the job, and before it the lay-out"
    assert all(line.startswith("nfsmulti: job: ") for line in waited)
    assert int(waited[1].split(" times")[0].split()[-1]) > 960 // 2  # two at once have slots
    assert {call.slot for call in ran.calls(Nfs4.SEQUENCE)} == {0, 1}


def test_an_open_that_no_slot_is_left_for_gets_another_session(client: FioRunner) -> None:
    """One connection's call keeps the last slot, as it waits for an OPEN, which waits for a slot.

    The server takes the other slot back with the answer by which the file is to be opened again.
    """
    lost = Answer(act=False, reply=False, end="reset")
    with ScriptedServer(addresses=TWO_ADDRESSES, terms=Terms(slots=2)) as server:

        def hook(call: Call) -> Answer | None:
            if call.procedure is Nfs4.SEQUENCE and call.slot == 1:
                server.terms.target = 1
            written = server.calls(Nfs4.WRITE)
            if call.procedure is not Nfs4.WRITE or call.session != written[0].session:
                return None
            return Answer(status=Status4.BAD_STATEID) if call.slot == 1 else lost

        server.hooks.append(hook)
        options: Options = {"trunking": "session", "spread": "roundrobin", "iodepth": 2}
        client.well(pool=server.pool(version=4), **_TOO_SOON, **options)
        calls = server.calls(Nfs4.WRITE)
        first = [call for call in calls if call.session == calls[0].session]
        assert {(call.slot, call.server[0]) for call in first} == set(enumerate(TWO_ADDRESSES))
        assert len({call.session for call in server.calls(*DATA4)}) == 2
        _keeps_nothing(server)
