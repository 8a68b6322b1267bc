# SPDX-License-Identifier: GPL-2.0-only
"""What a server knows a client by: its address and port, and its groups."""

from __future__ import annotations

from typing import Literal

import pytest
from engine_helpers import done, said
from scripted_jobs import Client

from nfsmulti.scripted import DATA, Answer, Call, Nfs, ScriptedServer, on

pytestmark = pytest.mark.sanitized


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_new_connection_comes_from_the_same_port(
    client: Client,
    server: ScriptedServer,
    end: Literal["reset", "close"],
) -> None:
    """By it knfsd's reply cache knows a WRITE that is sent again."""
    lose = Answer(reply=False, end=end)
    server.hooks.append(on(Nfs.WRITE, lose, nth=5))
    server.hooks.append(on(Nfs.WRITE, lose, nth=12))
    result = client(server, nconnect=2, spread="roundrobin")
    done(result)
    assert sum(line.reconnects for line in result.stats) == 2
    calls = server.calls(*DATA)
    assert len({call.connection for call in calls}) == 4
    assert len({call.client for call in calls}) == 2


def test_local_addresses_do_not_change_with_a_new_connection(
    client: Client,
    server: ScriptedServer,
) -> None:
    server.hooks.append(on(Nfs.WRITE, Answer(reply=False, end="reset"), nth=5))
    pool = server.pool(localaddr="127.0.0.8+127.0.0.9")
    done(client(server, pool=pool))
    assert {call.client[0] for call in server.calls(*DATA)} == {"127.0.0.8"}


def test_of_many_groups_the_first_16_are_sent(
    client: Client,
    server: ScriptedServer,
) -> None:
    groups = tuple(range(1000, 1300))
    enter = ["setpriv", "--groups", ",".join(map(str, groups)), "--"]
    result = client(server, enter=enter, nconnect=2)
    done(result)
    (line,) = said(result)
    assert "of your 300 groups the first 16 go to the server" in line
    assert {call.credentials.gids for call in server.calls(*DATA)} == {groups[:16]}


def test_a_null_reply_may_come_in_pieces(
    client: Client,
    server: ScriptedServer,
) -> None:
    """Not even its first, of 8 bytes, is a reply that nobody waits for."""

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs.NULL:
            return Answer(chunk=8, pause=0.05)
        return Answer(delay=3.0) if call.procedure is Nfs.WRITE and call.nth == 5 else None

    server.hooks.append(hook)
    result = client(server, failover=1, timeo=5, nconnect=2, spread="roundrobin")
    done(result)
    assert [call for call in server.calls(Nfs.NULL) if call.connection >= 0]
    assert sum(line.stale_replies for line in result.stats) == 0


def test_after_a_major_timeout_calls_go_over_a_new_connection(
    client: Client,
    server: ScriptedServer,
) -> None:
    """nfs(5), hard: a connection that has gone silent is not asked for ever."""
    connections = set[int]()

    def hook(call: Call) -> Answer | None:
        if call.procedure is not Nfs.WRITE:
            return None
        connections.add(call.connection)
        silent = len(connections) == 1 and call.nth > 4
        return Answer(act=False, reply=False) if silent else None

    server.hooks.append(hook)
    result = client(server, timeo=2, retrans=2, iodepth=1)
    done(result)
    calls = [call for call in server.calls(Nfs.WRITE) if call.offset == 16 << 10]
    *silent, last = calls
    assert len(silent) == 3
    assert len({call.connection for call in silent}) == 1
    assert last.connection != silent[0].connection
    assert len({call.xid for call in calls}) == 1
    assert len({call.client for call in calls}) == 1
