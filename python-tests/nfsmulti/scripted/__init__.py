# SPDX-License-Identifier: GPL-2.0-only
"""A server of MOUNT, NFS version 3 and 4.1 for tests, which answers as a script tells it to.

with ScriptedServer(on(Nfs.READ, Answer(status=Status.JUKEBOX), first=3)) as server:
    server.create("file", bytes(1 << 20))
    ... run a client on server.pool() ...
    assert len({call.xid for call in server.calls(Nfs.READ)}) == 4

NFSv4.1's operations are scripted as NFSv3's procedures are:

with ScriptedServer(
    on(Nfs4.WRITE, Answer(end="reset", reply=False), nth=5),  # carried out; the reply is lost
    terms=Terms(slots=4),
) as server:
    ... run a client on server.url4() ...
    assert any(call.replayed for call in server.calls(Nfs4.SEQUENCE))
    assert not server.opens() and not server.sessions() and not server.clients()
"""

from nfsmulti.scripted.answer import DATA, DATA4, SOUND, Answer, Call, Hook, on, reserved_ports_only
from nfsmulti.scripted.procedures import Export
from nfsmulti.scripted.protocol import (
    AcceptStat,
    AuthStat,
    Claim,
    Mount,
    Nfs,
    Nfs4,
    Procedure,
    Stable,
    Status,
    Status4,
    accepted,
    denied,
    mark,
    message,
    record,
    rpc_mismatch,
)
from nfsmulti.scripted.server import ScriptedServer
from nfsmulti.scripted.state4 import Terms

__all__ = [
    "DATA",
    "DATA4",
    "SOUND",
    "AcceptStat",
    "Answer",
    "AuthStat",
    "Call",
    "Claim",
    "Export",
    "Hook",
    "Mount",
    "Nfs",
    "Nfs4",
    "Procedure",
    "ScriptedServer",
    "Stable",
    "Status",
    "Status4",
    "Terms",
    "accepted",
    "denied",
    "mark",
    "message",
    "on",
    "record",
    "reserved_ports_only",
    "rpc_mismatch",
]
