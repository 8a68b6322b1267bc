# SPDX-License-Identifier: GPL-2.0-only
"""A call: its arguments as hooks see them, how it is to be answered, and its line in the log."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from xdrlib3 import Unpacker

from servers.scripted.protocol import (
    SESSION_ID_SIZE,
    VERIFIER_SIZE,
    Claim,
    Credentials,
    Mount,
    Nfs,
    Nfs4,
    Procedure,
    Stable,
)

_STATEID_SIZE = 16


@dataclass(kw_only=True)
class Arguments:
    """The arguments of a procedure or operation that hooks and tests look at."""

    handle: bytes = b""
    name: str = ""
    offset: int = 0  # READDIR: the cookie
    count: int = 0  # READDIR: the bytes of results that the caller takes
    stable: Stable = Stable.UNSTABLE

    # NFSv4.1 alone
    wanted: frozenset[int] = frozenset()  # GETATTR: the attributes
    claim: Claim | None = None
    session: bytes = b""
    sequence: int = 0
    slot: int = 0
    highest: int = 0


# --- how it is to be answered ---


@dataclass(frozen=True, kw_only=True)
class Results:
    """What is done, and what the results say. As it stands: as by a sound server."""

    act: bool = True  # False: the call is not carried out, only answered
    status: int | None = None  # of procedure or operation; unless OK: it is not carried out
    limit: int | None = None  # READ, WRITE: bytes that it moves at most; READDIR: entries
    count: int | None = None  # NFSv3's READ, WRITE: the count, whatever was moved
    cookie: int | None = None  # READDIR: that of all entries
    extra: int = 0  # READ: so many bytes are added to the data, in its count and length as well
    eof: int | None = None  # READ, READDIR
    verifier: bytes | None = None  # WRITE, COMMIT
    attributes: int | None = None  # NFSv3: the flag before optional ones: 0, 1, or nonsense
    results: bytes | None = None  # other results altogether; of an operation: from its status on


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What the RPC message says, and how it is sent. As it stands: as by a sound server."""

    reply: bool = True  # False: nothing goes back
    rpc: bytes | None = None  # what accepted(), denied() or rpc_mismatch() of servers.rpc give
    delay: float = 0.0  # seconds
    fragments: tuple[int, ...] = ()  # their sizes, over and over; none: one fragment
    chunk: int = 0  # bytes sent at once
    pause: float = 0.0  # seconds between chunks
    before: bytes = b""  # raw bytes sent before the record
    raw: bytes | None = None  # raw bytes sent in the record's place
    cut: int | None = None  # bytes of the record that are sent
    repeat: Sequence[float] = ()  # it is sent again after so many seconds, and so on
    end: Literal["", "close", "reset"] = ""  # what becomes of the connection then

    def says_something(self) -> bool:
        """Whether anything differs from a sound server's delivery."""
        return any(getattr(self, one.name) != one.default for one in fields(Delivery))


# --- what the log keeps ---


@dataclass(eq=False, kw_only=True)
class Call(Arguments):
    """A call that the server has got, as its log keeps it: with its arguments, but no data.

    NFSv4.1: one for COMPOUND, and one for each of its operations that the server came to. Of these
    `session`, `slot` and `sequence` are their SEQUENCE's, where there is one.
    """

    procedure: Procedure
    xid: int
    connection: int  # its number among those to this port, from 0
    client: tuple[str, int]
    server: tuple[str, int]
    credentials: Credentials
    nth: int  # its number among the calls of this procedure, from 1
    file: str = ""  # relative to the export; "?" for a stale handle
    moved: int = 0  # bytes that READ or WRITE moved, as far as the server is concerned
    time: float = field(default_factory=time.monotonic)
    answered: float | None = None  # when the reply was handed to the kernel
    status: int | None = None  # NFSv4.1's operations alone: what it ended with


# --- arguments in XDR ---

# As the RFCs write them, up to the last one that is looked at: each one's type and name, no name
# where it is read and forgotten.
_LAYOUTS: dict[Procedure, str] = {
    **dict.fromkeys(Nfs, "opaque handle"),
    **dict.fromkeys((Nfs.NULL,), ""),
    **dict.fromkeys(
        (Nfs.LOOKUP, Nfs.CREATE, Nfs.MKDIR, Nfs.REMOVE, Nfs.RMDIR), "opaque handle, string name"
    ),
    **dict.fromkeys((Nfs.READ, Nfs.COMMIT), "opaque handle, uhyper offset, uint count"),
    Nfs.WRITE: "opaque handle, uhyper offset, uint count, stable_how stable",
    Nfs.READDIR: "opaque handle, uhyper offset, verifier, uint count",
    Mount.MNT: "string name",
    **dict.fromkeys((Nfs4.LINK, Nfs4.LOOKUP, Nfs4.REMOVE, Nfs4.SECINFO), "string name"),
    Nfs4.COMMIT: "uhyper offset, uint count",
    Nfs4.CREATE: "uint, string name",
    Nfs4.GETATTR: "bitmap4 wanted",
    Nfs4.PUTFH: "opaque handle",
    Nfs4.READ: "stateid4, uhyper offset, uint count",
    Nfs4.READDIR: "uhyper offset, verifier, uint, uint count",
    Nfs4.WRITE: "stateid4, uhyper offset, stable_how stable, uint count",
    **dict.fromkeys((Nfs4.BIND_CONN_TO_SESSION, Nfs4.DESTROY_SESSION), "sessionid4 session"),
    Nfs4.SEQUENCE: "sessionid4 session, uint sequence, uint slot, uint highest, uint",
}


def decode(procedure: Procedure, source: Unpacker) -> Arguments:
    """Read the arguments of a procedure or operation that are looked at.

    Raises EOFError or ValueError where they are none.
    """
    given: dict[str, Any] = {}
    for part in filter(None, _LAYOUTS.get(procedure, "").split(", ")):
        kind, _, name = part.partition(" ")
        value = _TYPES[kind](source)
        if name:
            given[name] = value
    if procedure is Nfs4.OPEN:
        given = _open(source)
    return Arguments(**given)


def _name(source: Unpacker) -> str:
    return source.unpack_string().decode(errors="surrogateescape")


def _bitmap4(source: Unpacker) -> frozenset[int]:
    """Return the numbers in it."""
    words = source.unpack_array(source.unpack_uint)
    bits = ((32 * at + bit, word >> bit & 1) for at, word in enumerate(words) for bit in range(32))
    return frozenset(number for number, is_set in bits if is_set)


def _open(source: Unpacker) -> dict[str, Any]:
    """Read the claim, which is behind the owner and how a file is made (RFC 8881, 18.16)."""
    exclusive, exclusive_with_attributes = 2, 3
    source.unpack_fopaque(3 * 4 + 8)  # sequence, access, deny, client ID
    source.unpack_opaque()
    if source.unpack_bool():
        mode = source.unpack_uint()
        if mode in (exclusive, exclusive_with_attributes):
            source.unpack_fopaque(VERIFIER_SIZE)
        if mode != exclusive:
            _bitmap4(source)
            source.unpack_opaque()
    claim = Claim(source.unpack_uint())
    return {"claim": claim, "name": _name(source) if claim is Claim.NULL else ""}


_TYPES: dict[str, Callable[[Unpacker], Any]] = {
    "uint": Unpacker.unpack_uint,
    "uhyper": Unpacker.unpack_uhyper,
    "opaque": Unpacker.unpack_opaque,
    "string": _name,
    "verifier": lambda it: it.unpack_fopaque(VERIFIER_SIZE),
    "stable_how": lambda it: Stable(it.unpack_uint()),
    "bitmap4": _bitmap4,
    "stateid4": lambda it: it.unpack_fopaque(_STATEID_SIZE),
    "sessionid4": lambda it: it.unpack_fopaque(SESSION_ID_SIZE),
}
