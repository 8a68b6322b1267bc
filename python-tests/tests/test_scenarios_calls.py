# SPDX-License-Identifier: GPL-2.0-only
"""Connections that are lost, and replies that do not come: hard, soft, and calls sent again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from simulated import BLOCK, BLOCKS, MUTE, SECOND, End, Fate, Scenarios, on

from servers.scripted import Nfs, Nfs4, Status

pytestmark = pytest.mark.sanitized

_W, _R = Nfs.WRITE, Nfs.READ
_DEPTH = 8
_SOFT: dict[str, object] = {"soft": True, "retrans": 0}


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
    assert not ran.error
    assert ran.result.durable
    assert [(c.xid, c.offset) for c in first] == [(c.xid, c.offset) for c in again]
    assert {c.connection for c in first}.isdisjoint(c.connection for c in again)
    assert (ran.result.reconnects, ran.result.retransmissions) == (1, _DEPTH)
    assert ran.said(f"connection lost with {_DEPTH} calls outstanding") == 1
    assert ran.said("server OK") == 1


def test_a_call_is_sent_again_with_its_number(scenario: Scenarios) -> None:
    ran = scenario(on(_W, MUTE, nth=1), timeo=5)
    first, again = ran.calls(_W)[0], ran.calls(_W)[-1]
    assert not ran.error
    assert (first.xid, first.connection) == (again.xid, again.connection)
    assert (ran.result.reconnects, ran.result.retransmissions) == (0, 1)
    assert ran.said("server not responding, still trying") == ran.said("server OK") == 1


def test_calls_are_sent_again_after_longer_and_longer(scenario: Scenarios) -> None:
    """nfs(5), timeo: each time-out is longer than the last by as much. The tick is 0.1 s."""
    ran = scenario(on(_W, MUTE, last=4), depth=1, timeo=2)
    copies = ran.calls(_W)[:5]
    waits = [(later.time - earlier.time) / SECOND for earlier, later in pairwise(copies)]
    assert len({call.xid for call in copies}) == 1
    assert waits == pytest.approx([0.2, 0.4, 0.6, 0.8], abs=0.15)


def test_a_major_timeout_takes_a_new_connection(scenario: Scenarios) -> None:
    """nfs(5), hard: a connection that has gone silent is not asked for ever."""
    ran = scenario(on(_W, MUTE, after=4, last=6), depth=1, timeo=10, retrans=1)
    first, again, renewed = ran.calls(_W)[4:7]
    assert not ran.error
    assert first.xid == again.xid == renewed.xid
    assert first.connection == again.connection != renewed.connection
    assert ran.result.reconnects == 1


@pytest.mark.parametrize("status", [Status.JUKEBOX, 10013], ids=["JUKEBOX", "GRACE"])
def test_what_asks_for_patience_is_asked_again_later(scenario: Scenarios, status: int) -> None:
    """By other xids, 0.1 s later, then twice as late each time. NFSv3 servers say GRACE, too."""
    ran = scenario(on(_W, {"status": status}, last=3), depth=1)
    copies = ran.calls(_W)[:4]
    waits = [(later.time - earlier.time) / SECOND for earlier, later in pairwise(copies)]
    assert (ran.error, ran.lines, len(ran.calls(_W))) == ("", [], BLOCKS + 3)
    assert len({call.xid for call in copies}) == 4
    assert {call.offset for call in copies} == {0}
    assert waits == pytest.approx([0.1, 0.2, 0.4], abs=0.15)


@pytest.mark.parametrize(("timeo", "retrans"), [(3, 1), (1, 4)])
def test_soft_gives_up(scenario: Scenarios, timeo: int, retrans: int) -> None:
    ran = scenario(on(_W, MUTE), soft=True, timeo=timeo, retrans=retrans)
    most = timeo / 10 * (retrans + 1)
    copies = [call for call in ran.calls(_W) if call.xid == ran.calls(_W)[0].xid]
    assert ran.error == "ETIMEDOUT"
    assert ran.said(f"no answer within {most:.1f} s")
    assert ran.result.took / SECOND >= most
    assert len(copies) <= retrans + 1


def test_patience_asked_for_is_no_silence(scenario: Scenarios) -> None:
    """Soft gives up a server that is silent for 3 s, not one that says "later" for 3.1 s."""
    late: Fate = {"delay": SECOND // 2}
    asks = on(_W, {"status": Status.JUKEBOX}, last=5)
    ran = scenario(asks, on(_W, late, nth=6), depth=1, timeo=30, **_SOFT)
    assert (ran.error, ran.lines) == ("", [])


@pytest.mark.parametrize("version", [3, 4])
def test_a_connection_that_ends_behind_a_reply(scenario: Scenarios, version: int) -> None:
    """As servers end what was idle: the next call may have left, and goes out once more."""
    write = _W if version == 3 else Nfs4.WRITE
    ran = scenario(on(write, {"end": End.CLOSE}, nth=8), depth=1, version=version)
    answered = [call.offset // BLOCK for call in ran.calls(write)]
    assert (ran.error, answered) == ("", [*range(BLOCKS)])
    assert (ran.result.reconnects, ran.result.retransmissions) == (1, 1)


@pytest.mark.parametrize("terms", [{}, {"soft": True}], ids=["hard", "soft"])
def test_a_server_that_breaks_the_protocol_is_given_up(
    scenario: Scenarios, terms: dict[str, object]
) -> None:
    """A message that is no reply ends its connection, and three in a row end the job."""
    ran = scenario(on(_W, {"is_call": True}, after=4), depth=1, **terms)
    assert (ran.error, len({call.connection for call in ran.calls(_W)})) == ("EPROTO", 3)
    assert ran.said("the server broke the protocol 3 times") == 1


# --- parts ---


@pytest.mark.parametrize("reads", [False, True], ids=["WRITE", "READ"])
def test_the_rest_is_asked_for(scenario: Scenarios, reads: bool) -> None:
    operation = _R if reads else _W
    ran = scenario(on(operation, {"limit": 1000}, nth=3), reads=reads)
    assert (ran.error, ran.lines) == ("", [])
    assert ran.result.sound if reads else ran.result.durable
    rest = [call for call in ran.calls(operation) if call.count != BLOCK]
    assert [(call.offset % BLOCK, call.count) for call in rest] == [(1000, BLOCK - 1000)]


def test_a_refusal_is_one_line_with_its_remedy(scenario: Scenarios) -> None:
    """Eight WRITEs of two paths are refused: the export is full over both."""
    ran = scenario(on(_W, {"status": Status.NOSPC}), paths=2)
    assert ran.error == "ENOSPC"
    assert ran.said("WRITE of") == 1
    assert ran.said("NFS3ERR_NOSPC: the file system is full") == 1
