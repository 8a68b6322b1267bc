# SPDX-License-Identifier: GPL-2.0-only
"""Names within a running job: files that are opened, made and removed one after the other.

Servers close connections that are idle, restart, and stall: hard, soft, timeo and retrans are to
hold for names as they do for data.
"""

import errno
import signal
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from engine_helpers import eventually, stderr_of
from scripted_jobs import TWO_ADDRESSES, Case, Outcome, Run, case, go, runs

from nfsmulti.fiorun import FioProcess, Option
from servers.scripted import (
    Answer,
    Call,
    Hook,
    Mount,
    Nfs,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status,
    Status4,
    on,
)

pytestmark = pytest.mark.sanitized

_FILES = 4
# Each is opened, read or written, closed and removed before the next.
_ONE_BY_ONE: Mapping[str, Option] = {
    "filename": ":".join(f"f{number}" for number in range(_FILES)),
    "file_service_type": "sequential",
    "openfiles": 1,
    "size": f"{_FILES * 16}k",
    "unlink": 1,
}
_LATE = Answer(delay=10.5)  # more than what a server has by default
_LOST = Answer(reply=False, end="reset")  # carried out
_ENDED = Answer(act=False, reply=False, end="close")
_UNHEARD = Answer(act=False, reply=False)
_LATER = Answer(act=False, status=Status.JUKEBOX)
# It ends all connections, also that for names, once a file is written; the COMMIT that comes again
# is answered.
_IDLE = on(Nfs.COMMIT, Answer(do=ScriptedServer.reset_connections), every=2)


# --- connections that are lost ---

_lost = partial(case, files={}, **_ONE_BY_ONE)


@runs(
    {
        "idle": _lost(_IDLE),
        "idle, of two paths": _lost(
            _IDLE, failover=1, spread="roundrobin", addresses=TWO_ADDRESSES
        ),
        "LOOKUP unheard": _lost(on(Nfs.LOOKUP, _ENDED, every=3)),
        "REMOVE lost": _lost(on(Nfs.REMOVE, _LOST, every=2)),
        "REMOVE lost, then put off": _lost(
            on(Nfs.REMOVE, _LOST, nth=1), on(Nfs.REMOVE, _LATER, nth=2)
        ),
        "REMOVE lost, soft": _lost(on(Nfs.REMOVE, _LOST, every=2), soft=1),
    }
)
def test_a_lost_connection_for_names_is_no_error(ran: Outcome) -> None:
    """Nor is a name that is there, or gone, where the answer to an earlier call was lost."""
    assert not ran.server.all_durable(), "not all were removed"
    assert not [line for line in ran.said() if "cannot" in line]


def test_the_connection_for_names_ends_when_all_files_are_open(job: Run) -> None:
    """The name of the file that is removed goes over another one, behind that for data."""
    ran = job(unlink=1)
    assert ran.calls(Nfs.REMOVE)[-1].connection > ran.calls(Nfs.WRITE)[-1].connection


# --- creates of which an earlier copy may have been carried out ---


def _theirs(server: ScriptedServer) -> None:
    server.create("a/f", b"theirs")


def _asked_anew() -> Hook:
    """Make a hook: the first session's connections end before the file's CREATE is sent."""
    sessions = 0

    def hook(call: Call) -> Answer | None:
        nonlocal sessions
        sessions += call.procedure is Nfs4.CREATE_SESSION
        ends = call.procedure is Nfs4.LOOKUP and sessions == 1 and call.nth > 3
        return _ENDED if ends else None

    return hook


def _lost_and_asked_anew() -> Hook:
    """Make a hook: a CREATE is carried out, and its first session, or xid, has no more answers."""
    sessions = 0
    lost: Call | None = None

    def hook(call: Call) -> Answer | None:
        nonlocal sessions, lost
        sessions += call.procedure is Nfs4.CREATE_SESSION
        if not lost and (call.procedure is Nfs4.OPEN or on(Nfs.CREATE, _LOST, nth=2)(call)):
            lost = call
            return _LOST
        of_first = call.procedure is Nfs4.SEQUENCE and sessions == 1
        again = lost and (of_first or call.xid == lost.xid)
        return _ENDED if again else None

    return hook


_NO_EXCLUSIVE = Answer(act=False, status=Status.NOTSUPP)
_RESET = Answer(act=False, reply=False, end="reset")
_LOST_WITH_ITS_SESSION = Answer(reply=False, end="reset", do=ScriptedServer.end_sessions)
_SOON: Mapping[str, Option] = {"timeo": 10, "retrans": 0}  # asked anew after 5 s
_create = partial(case, rw="read", filename="a/f")
_strangers = partial(
    _create, version=4, error=errno.EINVAL, says="does not change an existing file"
)


@runs(
    {
        "NFSv3, GUARDED": _create(
            on(Nfs.CREATE, _NO_EXCLUSIVE, nth=1), on(Nfs.CREATE, _LOST, nth=2)
        ),
        "NFSv4.1, another session": _create(
            on(Nfs4.OPEN, _LOST_WITH_ITS_SESSION, nth=1), version=4
        ),
        "NFSv3, GUARDED, asked anew": _create(
            on(Nfs.CREATE, _NO_EXCLUSIVE, nth=1), _lost_and_asked_anew(), **_SOON
        ),
        "NFSv4.1, asked anew": _create(_lost_and_asked_anew(), version=4, **_SOON),
        "NFSv4.1, not heard": _strangers(
            on(Nfs4.OPEN, _RESET, nth=1), on(Nfs4.OPEN, Answer(do=_theirs), nth=2)
        ),
        "NFSv4.1, not heard, then told to wait": _strangers(
            on(Nfs4.OPEN, _RESET, nth=1),
            on(Nfs4.OPEN, Answer(act=False, status=Status4.DELAY), nth=2),
            on(Nfs4.OPEN, Answer(do=_theirs), nth=3),
        ),
        "NFSv4.1, not sent": _strangers(
            _asked_anew(), on(Nfs4.OPEN, Answer(do=_theirs), nth=1), **_SOON
        ),
    }
)
def test_whose_a_file_is_that_a_create_finds(ran: Outcome) -> None:
    """Ours where an earlier copy of the CREATE may have been carried out; else a stranger's."""
    content = ran.server.content("a/f")
    assert content == b"theirs" if ran.case.error else len(content) == 64 << 10


def test_a_server_that_goes_before_the_first_file_is_open_ends_the_job(job: Run) -> None:
    """Nothing has begun: it is asked over one more connection, which cannot be had."""
    going = on(Nfs.LOOKUP, Answer(reply=False, do=go), nth=1)
    job(going, rw="read", filename="r", refused=("cannot find", "Connection refused"))


# --- servers that stall ---


def _silent(*procedures: Procedure, first: int | None = None, each: bool = False) -> Hook:
    """Make a hook: these calls have no answer once a file is read or written.

    Or the first few of them alone; or of each address the first one, with its copies.
    """
    asked = list[Call]()
    begun = False

    def hook(call: Call) -> Answer | None:
        nonlocal begun
        begun = begun or call.procedure in (Nfs.READ, Nfs.COMMIT, Nfs4.COMMIT)
        if not begun or call.procedure not in procedures:
            return None
        asked.append(call)
        unheard = first is None or len(asked) <= first
        if each:
            unheard = call.xid == next(a.xid for a in asked if a.server[0] == call.server[0])
        return _UNHEARD if unheard else None

    return hook


_SHORT: Mapping[str, Option] = {**_ONE_BY_ONE, "timeo": 5, "retrans": 0}
_PATIENT: Mapping[str, Option] = {"timeo": 70, "retrans": 1}
_THERE = {f"f{number}": bytes(16 << 10) for number in range(_FILES)}


def _of_all(hook: Hook, **words: Any) -> Case:
    two = {"failover": 1, "spread": "roundrobin", "addresses": TWO_ADDRESSES}
    return case(hook, **{**_SHORT, **two, **words})


def _go_for_a_while(server: ScriptedServer) -> None:
    """Be gone for longer than the two paths are waited for."""
    go(server)
    server.later(11.0, server.accept)


def _gone_at_a_name() -> Hook:
    gone = _silent(Nfs.LOOKUP, first=1)
    return lambda call: Answer(reply=False, do=_go_for_a_while) if gone(call) else None


# The server is silent for longer than 5 s, which names once had at the least, or than 10 s.
@runs(
    {
        "MNT": case(on(Mount.MNT, _LATE, nth=1), **_PATIENT),
        "EXCHANGE_ID": case(on(Nfs4.EXCHANGE_ID, _LATE, nth=1), **_PATIENT, version=4),
        # Each path is given up after 5 s, and the last one, or the first, nevertheless asked again.
        "LOOKUP to open, of all paths": _of_all(
            _silent(Nfs.LOOKUP, each=True), rw="read", files=_THERE, expected=TWO_ADDRESSES
        ),
        "LOOKUP to make, of all paths": _of_all(
            _silent(Nfs.LOOKUP, each=True), expected=TWO_ADDRESSES
        ),
        "REMOVE, of all paths": _of_all(_silent(Nfs.REMOVE, each=True), expected=TWO_ADDRESSES),
        "all paths are gone": _of_all(_gone_at_a_name(), rw="read", files=_THERE),
        "the first LOOKUP, soft": case(
            on(Nfs.LOOKUP, Answer(delay=2.5), nth=1), soft=1, timeo=20, retrans=0
        ),
        "LOOKUP": case(_silent(Nfs.LOOKUP, first=2), **_SHORT),
        "REMOVE": case(_silent(Nfs.REMOVE, first=2), **_SHORT),
        "OPEN": case(_silent(Nfs4.OPEN, first=4), **_SHORT, version=4),
    }
)
def test_a_server_that_stalls_is_waited_for(ran: Outcome) -> None:
    """Within a job by `hard`; before the first file is open by what timeo and retrans add up to."""
    assert ran.calls(Nfs.WRITE, Nfs.READ, Nfs4.WRITE)
    if ran.case.expected:
        unheard = [one for one in ran.calls(Nfs.LOOKUP, Nfs.REMOVE) if not one.answered]
        assert {call.server[0] for call in unheard} == {*ran.case.expected}


def _stop_once_told(_: ScriptedServer, process: FioProcess) -> None:
    eventually(lambda: "server not responding, still trying" in stderr_of(process))
    process.signal(signal.SIGTERM)


def _stop_once_asked_thrice(server: ScriptedServer, process: FioProcess) -> None:
    eventually(lambda: len(server.calls(Nfs.COMMIT, Nfs4.COMMIT)) > 0)
    before = len(server.calls(Nfs.LOOKUP, Nfs4.OPEN))
    eventually(lambda: len(server.calls(Nfs.LOOKUP, Nfs4.OPEN)) > before + 2)
    process.signal(signal.SIGTERM)


_hard = partial(case, **_SHORT, error=None)
_gone = on(Nfs.CREATE, Answer(reply=False, do=go), nth=2)


@runs(
    {
        "silent": _hard(_silent(Nfs.LOOKUP), during=_stop_once_asked_thrice),
        "silent, v4": _hard(_silent(Nfs4.OPEN), version=4, during=_stop_once_asked_thrice),
        "gone between two files": _hard(_gone, during=_stop_once_told),
    }
)
def test_hard_asks_for_a_name_until_a_signal_comes(ran: Outcome) -> None:
    assert ran.result.status not in (0, None)
    assert "still trying" in ran.result.messages
