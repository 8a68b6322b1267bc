# SPDX-License-Identifier: GPL-2.0-only
"""A server of MOUNT and NFS version 3 for tests, which answers as a script tells it to.

with ScriptedServer(on(Nfs.READ, Answer(status=Status.JUKEBOX), first=3)) as server:
    server.create("file", bytes(1 << 20))
    ... run a client on server.pool() ...
    assert len({call.xid for call in server.calls(Nfs.READ)}) == 4
"""

from nfsmulti.scripted.answer import DATA, SOUND, Answer, Call, Hook, on, reserved_ports_only
from nfsmulti.scripted.procedures import Export
from nfsmulti.scripted.protocol import (
    AcceptStat,
    AuthStat,
    Credentials,
    Mount,
    Nfs,
    Procedure,
    Stable,
    Status,
    accepted,
    denied,
    mark,
    message,
    record,
    rpc_mismatch,
)
from nfsmulti.scripted.server import ScriptedServer

__all__ = [
    "DATA",
    "SOUND",
    "AcceptStat",
    "Answer",
    "AuthStat",
    "Call",
    "Credentials",
    "Export",
    "Hook",
    "Mount",
    "Nfs",
    "Procedure",
    "ScriptedServer",
    "Stable",
    "Status",
    "accepted",
    "denied",
    "mark",
    "message",
    "on",
    "record",
    "reserved_ports_only",
    "rpc_mismatch",
]
