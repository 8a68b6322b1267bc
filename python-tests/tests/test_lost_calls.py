# SPDX-License-Identifier: GPL-2.0-only
"""Connections that are lost, and replies that do not come: hard, soft, and calls sent again.

What needs no socket and nothing of fio is a scenario: test_scenarios*.py.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from engine_helpers import done, eventually, stderr_of
from scripted_jobs import (
    KIB,
    MIB,
    READING,
    Client,
    Options,
    covers_once,
    numbered,
    replay,
    undisturbed,
)

from servers.scripted import (
    Answer,
    Call,
    Nfs,
    ScriptedServer,
    Stable,
    mark,
    on,
)

pytestmark = pytest.mark.sanitized


# --- connections that are lost ---


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
