# SPDX-License-Identifier: GPL-2.0-only
"""Connections that are lost, and replies that do not come: hard, soft, and calls sent again.

The fault matrix has what comes of each kind of fault; here is how, and what it has no cell for.
"""

from __future__ import annotations

import errno
import struct
import time
from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from engine_helpers import done, eventually, said, stderr_of
from scripted_jobs import (
    BLOCKS,
    BOTH,
    KIB,
    MIB,
    NEVER,
    READING,
    Case,
    Client,
    Options,
    Outcomes,
    covers_once,
    failed,
    fixture_of_runs,
    last_of,
    numbered,
    replay,
    undisturbed,
)

from servers.scripted import (
    DATA,
    Answer,
    Call,
    Nfs,
    ScriptedServer,
    Stable,
    Status,
    mark,
    on,
)

pytestmark = pytest.mark.sanitized


# --- connections that are lost ---

_DEPTH = 8

_ENDS: dict[str, Answer] = {
    "reset with all outstanding": Answer(reply=False, end="reset"),
    "behind garbage": Answer(raw=mark(40) + b"\xff" * 40, end="close"),
}

ends = fixture_of_runs(
    {
        name: Case(last_of(_DEPTH, answer), {"verify": "crc32c", "iodepth": _DEPTH})
        for name, answer in _ENDS.items()
    }
)


@pytest.mark.parametrize("name", _ENDS)
def test_outstanding_calls_go_out_again(ends: Outcomes, name: str) -> None:
    server, result = ends[name].server, ends[name].result
    done(result)
    assert [line.reconnects for line in result.stats] == [1]
    assert [line.retransmissions for line in result.stats] == [_DEPTH]
    stops, resumes = said(result)
    assert f"connection lost with {_DEPTH} calls outstanding" in stops
    assert "server OK" in resumes
    calls = server.calls(Nfs.WRITE)
    first, again = calls[:_DEPTH], calls[_DEPTH : 2 * _DEPTH]
    assert [(call.xid, call.offset) for call in first] == [(c.xid, c.offset) for c in again]
    assert {call.connection for call in again} == {first[0].connection + 1}


def test_loss_within_the_data_of_a_read(client: Client, server: ScriptedServer) -> None:
    size = 512 * KIB
    server.create("f", numbered(size, 64 * KIB))
    server.hooks.append(on(Nfs.READ, Answer(cut=32 * KIB, end="close"), nth=3))
    verify: Options = {"verify": "pattern", "verify_pattern": "%o"}
    result = client(server, **READING, bs="64k", size=size, **verify)
    done(result)
    assert [line.reconnects for line in result.stats] == [1]
    calls = server.calls(Nfs.READ)
    again = next(call for call in calls[3:] if call.xid == calls[2].xid)
    assert (again.offset, again.connection) == (calls[2].offset, calls[2].connection + 1)


def test_a_server_that_does_not_read_for_a_while(client: Client) -> None:
    def rest(server: ScriptedServer) -> None:
        server.stop_reading()
        server.later(0.3, server.read_again)

    hook = on(Nfs.WRITE, Answer(do=rest), nth=3)
    with ScriptedServer(hook, receive_buffer=64 * KIB) as server:
        undisturbed(client(server, bs="1m", size="32m", iodepth=32, verify="crc32c"))
        assert len({call.xid for call in server.calls(Nfs.WRITE)}) == 32


# --- replies that do not come ---


def test_a_call_is_sent_again_with_its_number(client: Client, server: ScriptedServer) -> None:
    """At least the one that was not answered; where the server is late others, too."""
    server.hooks.append(on(Nfs.WRITE, NEVER, nth=1))
    result = client(server, timeo=5, verify="crc32c")
    done(result)
    assert sum(line.retransmissions for line in result.stats) >= 1
    assert [line.reconnects for line in result.stats] == [0]
    lost = server.calls(Nfs.WRITE)[0]
    first, again, *_ = (call for call in server.calls(Nfs.WRITE) if call.xid == lost.xid)
    assert (first.offset, first.count) == (again.offset, again.count)
    assert first.connection == again.connection
    lines = said(result)
    assert "server not responding, still trying" in lines[0]
    assert "server OK" in lines[-1]


def test_calls_are_sent_again_after_longer_and_longer(
    client: Client, server: ScriptedServer
) -> None:
    """nfs(5), timeo: each time-out is longer than the last by as much.

    Counted from the call before, which is certainly older than the one that is not answered.
    """
    server.hooks.append(on(Nfs.WRITE, NEVER, first=4))
    done(client(server, timeo=2, iodepth=1))
    before = next(two for two in pairwise(server.calls()) if two[1].procedure is Nfs.WRITE)[0]
    first, *again = server.calls(Nfs.WRITE)[:5]
    assert {call.xid for call in again} == {first.xid}
    for call, timeouts in zip(again, accumulate(range(1, 5)), strict=True):
        assert call.time - before.time >= 0.2 * timeouts


_GRACE = 10013  # NFS4ERR_GRACE, which some servers say in NFSv3, too


@pytest.mark.parametrize("status", [int(Status.JUKEBOX), _GRACE])
def test_what_asks_for_patience_is_asked_again_later(
    client: Client, server: ScriptedServer, status: int
) -> None:
    server.hooks.append(on(Nfs.WRITE, Answer(status=status), first=3))
    undisturbed(client(server, verify="crc32c", iodepth=1))
    calls = server.calls(Nfs.WRITE)
    assert len({call.xid for call in calls}) == len(calls)
    assert len({call.offset for call in calls[:4]}) == 1
    waits = [later.time - earlier.time for earlier, later in pairwise(calls[:4])]
    assert all(wait >= least for wait, least in zip(waits, (0.1, 0.2, 0.4), strict=True))
    assert len(calls) == BLOCKS + 3


@pytest.mark.parametrize(("timeo", "retrans"), [(3, 1), (1, 4)])
def test_soft_gives_up(client: Client, server: ScriptedServer, timeo: int, retrans: int) -> None:
    server.hooks.append(on(BOTH, NEVER))
    result = client(server, timeo=timeo, retrans=retrans, soft=1)
    ended = time.monotonic()
    give_up = timeo / 10 * (retrans + 1)
    failed(result, f"no answer within {give_up:.1f} s", error=errno.ETIMEDOUT)
    before = [call for call in server.calls() if call.procedure not in DATA][-1]
    assert ended - before.time >= give_up
    tries = Counter(call.xid for call in server.calls(Nfs.WRITE))
    assert max(tries.values()) <= retrans + 1


def test_patience_asked_for_is_no_silence(client: Client, server: ScriptedServer) -> None:
    """A soft mount gives up a server that does not answer, not one that says: later.

    It does so for 3.1 s in all, where 3 s of silence would be too long, and then takes its time.
    """
    server.hooks.append(on(Nfs.WRITE, Answer(status=Status.JUKEBOX), first=5))
    server.hooks.append(on(Nfs.WRITE, Answer(delay=0.5), nth=6))
    undisturbed(client(server, timeo=30, retrans=0, soft=1, iodepth=1))


# --- replies at odd moments ---


def test_a_reply_to_a_call_that_has_not_left(client: Client) -> None:
    """A server can guess the number of a call that it has not got; to answer it breaks the rules.

    Numbers hold generation and slot, so those of one batch at depth 32 are 65 apart. The server
    reads no more than the first of 32 WRITEs of a mebibyte, far from all that the socket takes.
    """
    depth, guessed = 32, list[int]()

    def guess(call: Call) -> Answer | None:
        if call.procedure is not Nfs.WRITE or call.nth > 1:
            return None
        guessed.append((call.xid + (depth - 2) * (2 * depth + 1)) % 2**32)
        results = struct.pack(">5I", 0, 0, 0, MIB, Stable.FILE_SYNC) + bytes(8)
        reply = struct.pack(">6I", guessed[0], 1, 0, 0, 0, 0) + results
        return Answer(do=ScriptedServer.stop_reading, raw=mark(len(reply)) + reply)

    with ScriptedServer(guess, receive_buffer=64 * KIB) as server:
        with client.start(server, bs="1m", size="32m", iodepth=depth, verify="crc32c") as process:
            eventually(lambda: guessed and "messages are broken" in stderr_of(process))
            server.read_again()
            result = client.finish(process)
        done(result)
        assert [line.reconnects for line in result.stats] == [1]
        assert guessed[0] in {call.xid for call in server.calls(Nfs.WRITE)[1:]}


def test_a_log_is_replayed_to_its_end(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    """What is under way at its last line must be finished, though fio asks for no completions."""
    server.create("f", bytes(64 * KIB))
    blocks = range(0, 64 * KIB, 4 * KIB)
    done(client(server, **replay(tmp_path, *(f"write {offset} 4096" for offset in blocks))))
    covers_once(server.calls(Nfs.WRITE), 64 * KIB)
    assert server.durable("f") == server.content("f")


def test_a_reply_that_trickles_while_nothing_can_be_sent(client: Client, tmp_path: Path) -> None:
    """Its call is overdue and waits to be sent again, behind as many writes as the socket queues.

    The server reads nothing meanwhile, and the reply is complete before the call has gone out.
    """
    writes = 64
    log = replay(
        tmp_path,
        f"read {64 * MIB} {MIB}",
        *(f"write {number * 256 * KIB} {256 * KIB}" for number in range(writes)),
        *(f"read {number * 4096} 4096" for number in range(100)),
    )

    def rest(server: ScriptedServer) -> None:
        server.stop_reading()
        server.later(1.0, server.read_again)

    trickle = on(Nfs.READ, Answer(do=rest, chunk=64 * KIB, pause=0.04), nth=1)
    with ScriptedServer(trickle, receive_buffer=64 * KIB) as server:
        server.create("f", bytes(65 * MIB))
        done(client(server, bs="1m", size="65m", iodepth=writes + 1, timeo=1, **log))
        assert len({call.offset for call in server.calls(Nfs.WRITE)}) == writes
