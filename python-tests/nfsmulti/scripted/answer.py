# SPDX-License-Identifier: GPL-2.0-only
"""What a script decides: for each call, how it is answered.

A hook is a plain function that is given a call and gives an Answer, or None where it has no wish.
The first hook that has one decides. on() makes the most common hooks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal

from nfsmulti.scripted.protocol import (
    REPLY,
    AuthStat,
    Claim,
    Credentials,
    Mount,
    Nfs,
    Nfs4,
    Procedure,
    Stable,
    denied,
)

if TYPE_CHECKING:
    from nfsmulti.scripted.server import ScriptedServer

DATA: tuple[Procedure, ...] = (Nfs.READ, Nfs.WRITE, Nfs.COMMIT)
DATA4: tuple[Procedure, ...] = (Nfs4.READ, Nfs4.WRITE, Nfs4.COMMIT)
_FIRST_UNRESERVED_PORT = 1024


@dataclass(eq=False)
class Call:
    """A call that the server has got, as its log keeps it.

    NFSv4.1: one for COMPOUND, and one for each of its operations that the server came to.
    """

    procedure: Procedure
    xid: int
    connection: int  # its number among those to this port, from 0
    client: tuple[str, int]
    server: tuple[str, int]
    credentials: Credentials
    nth: int  # its number among the calls of this procedure, from 1
    file: str = ""  # relative to the export
    offset: int = 0
    count: int = 0
    stable: Stable = Stable.UNSTABLE
    moved: int = 0  # bytes that READ or WRITE moved, as far as the server is concerned
    time: float = field(default_factory=time.monotonic)
    answered: float | None = None  # when the reply was handed to the kernel

    # NFSv4.1's operations alone
    session: bytes = b""
    slot: int | None = None
    sequence: int = 0
    claim: Claim | None = None  # OPEN's
    wanted: frozenset[int] = frozenset()  # GETATTR: the attributes
    status: int | None = None  # what it ended with; RETRY_UNCACHED_REP is SEQUENCE's
    replayed: bool = False  # SEQUENCE: the slot's reply went out again, nothing was carried out


@dataclass(frozen=True)
class Answer:
    """How a call is answered. As it stands: as a sound server does.

    NFSv4.1: COMPOUND and each operation have answers of their own. What they say of the message
    and how it is sent is taken from the first that says something of it. Where an operation is
    neither carried out nor answered, the compound is as if it had not come: its slot has not moved.
    """

    # What is done
    do: Callable[[ScriptedServer], object] | None = None  # to the server, before all else
    act: bool = True  # False: the call is not carried out, only answered
    reply: bool = True  # False: nothing goes back
    status: int | None = None  # of procedure or operation; unless OK: it is not carried out
    limit: int | None = None  # READ, WRITE: bytes that it moves at most; READDIR: entries

    # What the results say
    count: int | None = None  # READ, WRITE: the count, whatever was moved
    length: int | None = None  # READ: the data's length, whatever it has; READDIR: all cookies
    extra: int = 0  # READ: so many bytes are added to the data, in its count and length as well
    spoil: bool = False  # READ: the data's last byte is another one
    eof: int | None = None  # READ, READDIR
    committed: int | None = None  # WRITE: UNSTABLE is done as well as said
    verifier: bytes | None = None  # WRITE, COMMIT
    attributes: int | None = None  # the flags before optional attributes: 0, 1, or nonsense
    results: bytes | None = None  # other results altogether; of an operation: from its status on

    # What the RPC message says
    rpc: bytes | None = None  # what protocol.accepted(), denied() or rpc_mismatch() give
    xid: int | None = None
    message_type: int = REPLY

    # How it is sent
    delay: float = 0.0  # seconds
    hold: int = 0  # wait until so many replies are held on the connection; the last goes out first
    fragments: tuple[int, ...] = ()  # their sizes, over and over; none: one fragment
    chunk: int = 0  # bytes sent at once
    pause: float = 0.0  # seconds between chunks
    before: bytes = b""  # raw bytes sent before the record
    raw: bytes | None = None  # raw bytes sent in the record's place
    cut: int | None = None  # bytes of the record that are sent
    repeat: Sequence[float] = ()  # it is sent again after so many seconds, and so on
    end: Literal["", "close", "reset"] = ""  # what becomes of the connection then

    def delivers(self) -> bool:
        """Whether it says something of the message, or how it is sent."""
        return any(getattr(self, name) != sound for name, sound in _DELIVERY.items())


_RESULTS = (
    *("do", "act", "status", "limit", "count", "length", "extra", "spoil", "eof"),
    *("committed", "verifier", "attributes", "results"),
)
_DELIVERY = {one.name: one.default for one in fields(Answer) if one.name not in _RESULTS}
SOUND = Answer()

Hook = Callable[[Call], Answer | None]


def on(
    procedures: Procedure | Sequence[Procedure],
    answer: Answer,
    *,
    nth: int | None = None,
    first: int | None = None,
    after: int = 0,
    every: int = 1,
) -> Hook:
    """Answer calls of these procedures so: all, the nth, the first few, those after some.

    `every` picks each so manyth of them.
    """
    wanted = (procedures,) if isinstance(procedures, Nfs | Mount | Nfs4) else tuple(procedures)

    def hook(call: Call) -> Answer | None:
        if call.procedure not in wanted or call.nth <= after:
            return None
        if nth is not None and call.nth != nth:
            return None
        if first is not None and call.nth > first:
            return None
        return answer if call.nth % every == 0 else None

    return hook


def reserved_ports_only(call: Call) -> Answer | None:
    """Refuse callers from unprivileged ports, as an export that is "secure" does."""
    if call.client[1] < _FIRST_UNRESERVED_PORT:
        return None
    return Answer(act=False, rpc=denied(AuthStat.TOOWEAK))
