# SPDX-License-Identifier: GPL-2.0-only
"""A call: its arguments as they stand in XDR, how it is to be answered, and its line in the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from xdrlib3 import Unpacker

from servers.scripted.protocol import (
    SESSION_ID_SIZE,
    VERIFIER_SIZE,
    Attribute,
    Claim,
    Create,
    Credentials,
    Mount,
    Nfs,
    Nfs4,
    NfsError,
    Procedure,
    Stable,
    Status4,
)

OTHER_SIZE = 12
_SHARE_BITS = 3  # of OPEN's access; the others say what delegation is wanted
_TIME4_SIZE = 12


@dataclass(frozen=True)
class Stateid:
    """stateid4; as it stands: the anonymous one."""

    seqid: int = 0
    other: bytes = bytes(OTHER_SIZE)


@dataclass(frozen=True)
class Channel:
    """channel_attrs4 (RFC 8881, 18.36), without padding and RDMA."""

    max_request: int = 0
    max_response: int = 0
    max_cached: int = 0
    max_operations: int = 0
    slots: int = 0


Settable = dict[Attribute, int]  # sattr3 or fattr4; a time is left out, and never the client's own


@dataclass(frozen=True)
class Creation:
    """createhow3 or createhow4; it has a verifier where it is exclusive."""

    how: Create
    settable: Settable
    verifier: bytes = b""


@dataclass(kw_only=True)
class Arguments:
    """The arguments of a procedure or operation, as far as it has them."""

    handle: bytes = b""
    name: str = ""
    to_handle: bytes = b""  # LINK
    to_name: str = ""
    offset: int = 0  # READDIR: the cookie
    count: int = 0  # READDIR: the bytes of results that the caller takes; ACCESS: what is asked for
    stable: Stable = Stable.UNSTABLE
    data: bytes = b""
    settable: Settable = field(default_factory=dict)  # SETATTR, MKDIR, NFSv4.1's CREATE
    creation: Creation | None = None  # CREATE, OPEN; None: the file must be there

    # NFSv4.1 alone
    stateid: Stateid = Stateid()
    wanted: frozenset[int] = frozenset()  # GETATTR, READDIR: the attributes
    kind: int = 0  # CREATE: nfs_ftype4; BIND_CONN_TO_SESSION: the direction
    access: int = 0  # Share
    claim: Claim | None = None
    owner: bytes = b""  # EXCHANGE_ID: of the client; OPEN: the open-owner
    verifier: bytes = b""
    client_id: int = 0
    session: bytes = b""
    flags: int = 0
    sequence: int = 0
    slot: int = 0
    highest: int = 0
    cache: bool = False
    fore: Channel = Channel()
    back: Channel = Channel()
    one_fs: bool = False


# --- how it is to be answered ---


@dataclass(frozen=True, kw_only=True)
class Results:
    """What is done, and what the results say. As it stands: as by a sound server."""

    act: bool = True  # False: the call is not carried out, only answered
    status: int | None = None  # of procedure or operation; unless OK: it is not carried out
    limit: int | None = None  # READ, WRITE: bytes that it moves at most; READDIR: entries
    count: int | None = None  # READ, WRITE: the count, whatever was moved
    length: int | None = None  # READ: the data's length, whatever it has; READDIR: all cookies
    extra: int = 0  # READ: so many bytes are added to the data, in its count and length as well
    spoil: bool = False  # READ: the data's last byte is another one
    eof: int | None = None  # READ, READDIR
    committed: int | None = None  # WRITE: UNSTABLE is done as well as said
    verifier: bytes | None = None  # WRITE, COMMIT
    attributes: int | None = None  # the flags before optional attributes: 0, 1, or nonsense
    results: bytes | None = None  # other results altogether; of an operation: from its status on


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What the RPC message says, and how it is sent. As it stands: as by a sound server."""

    reply: bool = True  # False: nothing goes back
    rpc: bytes | None = None  # what protocol.accepted(), denied() or rpc_mismatch() give
    xid: int | None = None
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

    def says_something(self) -> bool:
        """Whether anything differs from a sound server's delivery."""
        return any(getattr(self, one.name) != one.default for one in fields(Delivery))


# --- what the log keeps ---


@dataclass(eq=False, kw_only=True)
class Call(Arguments):
    """A call that the server has got, as its log keeps it: with its arguments, but no data.

    NFSv4.1: one for COMPOUND, and one for each of its operations that the server came to. Of these
    `session`, `slot` and `sequence` are their SEQUENCE's.
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

    # NFSv4.1's operations alone
    status: int | None = None  # what it ended with; RETRY_UNCACHED_REP is SEQUENCE's
    replayed: bool = False  # SEQUENCE: the slot's reply went out again, nothing was carried out


# --- arguments in XDR ---

# As the RFCs write them: each one's type and name, no name where it is read and forgotten. Of a
# guard, a time, a type of file and callbacks' security the server knows those without data alone.
_LAYOUTS: dict[Procedure, str] = {
    Mount.MNT: "string name",
    Mount.UMNT: "string name",
    Nfs.GETATTR: "opaque handle",
    Nfs.SETATTR: "opaque handle, sattr3 settable, bool",
    Nfs.LOOKUP: "opaque handle, string name",
    Nfs.ACCESS: "opaque handle, uint count",
    Nfs.READ: "opaque handle, uhyper offset, uint count",
    Nfs.WRITE: "opaque handle, uhyper offset, uint count, stable_how stable, opaque data",
    Nfs.CREATE: "opaque handle, string name, createhow3 creation",
    Nfs.MKDIR: "opaque handle, string name, sattr3 settable",
    Nfs.REMOVE: "opaque handle, string name",
    Nfs.RMDIR: "opaque handle, string name",
    Nfs.LINK: "opaque handle, opaque to_handle, string to_name",
    Nfs.READDIR: "opaque handle, uhyper offset, verifier verifier, uint count",
    Nfs.FSSTAT: "opaque handle",
    Nfs.FSINFO: "opaque handle",
    Nfs.COMMIT: "opaque handle, uhyper offset, uint count",
    Nfs4.ACCESS: "uint count",
    Nfs4.CLOSE: "uint, stateid4 stateid",
    Nfs4.COMMIT: "uhyper offset, uint count",
    Nfs4.CREATE: "uint kind, string name, fattr4 settable",
    Nfs4.DELEGRETURN: "stateid4 stateid",
    Nfs4.GETATTR: "bitmap4 wanted",
    Nfs4.LINK: "string name",
    Nfs4.LOOKUP: "string name",
    Nfs4.OPEN: "uint, share access, uint, uhyper, opaque owner, openflag4 creation",
    Nfs4.PUTFH: "opaque handle",
    Nfs4.READ: "stateid4 stateid, uhyper offset, uint count",
    Nfs4.READDIR: "uhyper offset, verifier verifier, uint, uint count, bitmap4 wanted",
    Nfs4.REMOVE: "string name",
    Nfs4.SECINFO: "string name",
    Nfs4.SECINFO_NO_NAME: "uint kind",
    Nfs4.SETATTR: "stateid4 stateid, fattr4 settable",
    Nfs4.WRITE: "stateid4 stateid, uhyper offset, stable_how stable, opaque data",
    Nfs4.BIND_CONN_TO_SESSION: "sessionid4 session, uint kind, bool",
    Nfs4.EXCHANGE_ID: "verifier verifier, opaque owner, uint flags, state_protect4, nfs_impl_id4",
    Nfs4.CREATE_SESSION: "uhyper client_id, uint sequence, uint flags, channel_attrs4 fore,"
    " channel_attrs4 back, uint, flavors",
    Nfs4.DESTROY_SESSION: "sessionid4 session",
    Nfs4.SEQUENCE: "sessionid4 session, uint sequence, uint slot, uint highest, bool cache",
    Nfs4.DESTROY_CLIENTID: "uhyper client_id",
    Nfs4.RECLAIM_COMPLETE: "bool one_fs",
}


def decode(procedure: Procedure, source: Unpacker) -> Arguments:
    """Read the arguments of a procedure, which are all that is left, or of an operation.

    Raises EOFError or ValueError where they are none, NfsError where an operation's cannot be met.
    """
    given: dict[str, Any] = {}
    for part in filter(None, _LAYOUTS.get(procedure, "").split(", ")):
        kind, _, name = part.partition(" ")
        value = _TYPES[kind](source)
        if name:
            given[name] = value
    if procedure is Nfs4.OPEN:
        given |= _open_claim(source)
    if "data" in given and given.setdefault("count", len(given["data"])) != len(given["data"]):
        raise ValueError(f"WRITE of {given['count']} bytes brings {len(given['data'])}")
    if not isinstance(procedure, Nfs4) and source.get_position() < len(source.get_buffer()):
        raise ValueError(f"more than the arguments of {procedure.name}")
    return Arguments(**given)


def _name(source: Unpacker) -> str:
    return source.unpack_string().decode(errors="surrogateescape")


def _sattr3(source: Unpacker) -> Settable:
    given: Settable = {}
    for attribute in (Attribute.MODE, Attribute.OWNER, Attribute.OWNER_GROUP):
        if source.unpack_bool():
            given[attribute] = source.unpack_uint()
    if source.unpack_bool():
        given[Attribute.SIZE] = source.unpack_uhyper()
    for _ in range(2):
        source.unpack_uint()  # time_how
    return given


def _bitmap4(source: Unpacker) -> frozenset[int]:
    """Return the numbers in it."""
    words = source.unpack_array(source.unpack_uint)
    bits = ((32 * at + bit, word >> bit & 1) for at, word in enumerate(words) for bit in range(32))
    return frozenset(number for number, is_set in bits if is_set)


def _fattr4(source: Unpacker) -> Settable:
    """Return what is to be set."""
    numbers, values = _bitmap4(source), Unpacker(source.unpack_opaque())
    if not numbers <= _SETTABLE.keys():
        raise NfsError(Status4.ATTRNOTSUPP)
    given = {Attribute(number): _SETTABLE[number](values) for number in sorted(numbers)}
    if values.get_position() != len(values.get_buffer()):
        raise ValueError("more in fattr4 than its bitmap says")
    return given


def _owner4(source: Unpacker) -> int:
    return int(source.unpack_opaque())  # this server knows no names (RFC 8881, 5.9)


_SETTABLE: dict[int, Callable[[Unpacker], int]] = {
    Attribute.SIZE: Unpacker.unpack_uhyper,
    Attribute.MODE: Unpacker.unpack_uint,
    Attribute.OWNER: _owner4,
    Attribute.OWNER_GROUP: _owner4,
    Attribute.TIME_ACCESS_SET: Unpacker.unpack_uint,
    Attribute.TIME_MODIFY_SET: Unpacker.unpack_uint,
}


def _createhow(source: Unpacker, settable: Callable[[Unpacker], Settable]) -> Creation:
    how = Create(source.unpack_uint())
    exclusive = how in (Create.EXCLUSIVE, Create.EXCLUSIVE4_1)
    verifier = source.unpack_fopaque(VERIFIER_SIZE) if exclusive else b""
    return Creation(how, {} if how is Create.EXCLUSIVE else settable(source), verifier)


def _open_claim(source: Unpacker) -> dict[str, Any]:
    claim = Claim(source.unpack_uint())
    if claim is Claim.PREVIOUS:
        source.unpack_uint()  # the delegation that it had
    return {"claim": claim, "name": _name(source) if claim is Claim.NULL else ""}


def _state_protect4(source: Unpacker) -> None:
    if source.unpack_uint():
        raise NfsError(Status4.NOTSUPP)


def _nfs_impl_id4(source: Unpacker) -> None:
    for _ in range(source.unpack_uint()):
        source.unpack_opaque()
        source.unpack_opaque()
        source.unpack_fopaque(_TIME4_SIZE)


def _channel_attrs4(source: Unpacker) -> Channel:
    source.unpack_uint()  # the padding of headers
    channel = Channel(*(source.unpack_uint() for _ in range(5)))
    source.unpack_array(source.unpack_uint)
    return channel


_TYPES: dict[str, Callable[[Unpacker], Any]] = {
    "uint": Unpacker.unpack_uint,
    "uhyper": Unpacker.unpack_uhyper,
    "bool": Unpacker.unpack_bool,
    "opaque": Unpacker.unpack_opaque,
    "string": _name,
    "verifier": lambda it: it.unpack_fopaque(VERIFIER_SIZE),
    "stable_how": lambda it: Stable(it.unpack_uint()),
    "sattr3": _sattr3,
    "createhow3": lambda it: _createhow(it, _sattr3),
    "bitmap4": _bitmap4,
    "fattr4": _fattr4,
    "stateid4": lambda it: Stateid(it.unpack_uint(), it.unpack_fopaque(OTHER_SIZE)),
    "sessionid4": lambda it: it.unpack_fopaque(SESSION_ID_SIZE),
    "share": lambda it: it.unpack_uint() & _SHARE_BITS,
    "openflag4": lambda it: _createhow(it, _fattr4) if it.unpack_bool() else None,
    "state_protect4": _state_protect4,
    "nfs_impl_id4": _nfs_impl_id4,
    "channel_attrs4": _channel_attrs4,
    "flavors": lambda it: it.unpack_array(it.unpack_uint),
}
