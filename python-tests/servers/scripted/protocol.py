# SPDX-License-Identifier: GPL-2.0-only
"""Numbers of MOUNT and NFS, their calls as hooks see them, and how they are to be answered.

NFS is version 3 (RFC 1813) and version 4, minor versions 1 and 2 (RFC 8881, RFC 7862).
"""

import time
from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum, IntFlag
from typing import Literal

from xdrlib3 import Unpacker

from servers.rpc import (
    AUTH_SYS,
    CALL,
    MOUNT,
    NFS,
    RPC_VERSION,
    AcceptStat,
    accepted,
    rpc_mismatch,
    xdr,
)

VERIFIER_SIZE = 8


class Nfs4(Enum):
    """The two procedures of version 4, and the operations that the server carries out.

    No operation has the number of a procedure, so both are in one list.
    """

    NULL = 0
    COMPOUND = 1
    ACCESS = 3
    CLOSE = 4
    COMMIT = 5
    CREATE = 6
    DELEGRETURN = 8
    GETATTR = 9
    GETFH = 10
    LINK = 11
    LOOKUP = 15
    OPEN = 18
    PUTFH = 22
    PUTROOTFH = 24
    READ = 25
    READDIR = 26
    REMOVE = 28
    SAVEFH = 32
    SECINFO = 33
    SETATTR = 34
    WRITE = 38
    BIND_CONN_TO_SESSION = 41
    EXCHANGE_ID = 42
    CREATE_SESSION = 43
    DESTROY_SESSION = 44
    SECINFO_NO_NAME = 52
    SEQUENCE = 53
    DESTROY_CLIENTID = 57
    RECLAIM_COMPLETE = 58


class Status4(IntEnum):
    """nfsstat4 (RFC 8881, 15.1), as far as a server or script says it."""

    OK = 0
    NOENT = 2
    ACCESS = 13
    EXIST = 17
    ISDIR = 21
    INVAL = 22
    NOSPC = 28
    ROFS = 30
    STALE = 70
    NOTSUPP = 10004
    TOOSMALL = 10005
    SERVERFAULT = 10006
    DELAY = 10008
    EXPIRED = 10011
    LOCKED = 10012
    GRACE = 10013
    NOFILEHANDLE = 10020
    MINOR_VERS_MISMATCH = 10021
    STALE_CLIENTID = 10022
    STALE_STATEID = 10023
    OLD_STATEID = 10024
    BAD_STATEID = 10025
    NOT_SAME = 10027
    NO_GRACE = 10033
    OP_ILLEGAL = 10044
    ADMIN_REVOKED = 10047
    BADSESSION = 10052
    BADSLOT = 10053
    COMPLETE_ALREADY = 10054
    CONN_NOT_BOUND_TO_SESSION = 10055
    SEQ_MISORDERED = 10063
    REQ_TOO_BIG = 10065
    REP_TOO_BIG = 10066
    RETRY_UNCACHED_REP = 10068
    OP_NOT_IN_SESSION = 10071
    CLIENTID_BUSY = 10074
    SEQ_FALSE_RETRY = 10076
    BAD_HIGH_SLOT = 10077
    DEADSESSION = 10078
    DELEG_REVOKED = 10087


class Share(IntFlag):
    """OPEN's share access; other bits say what delegation is wanted."""

    READ = 1
    WRITE = 2


class Claim(IntEnum):
    """open_claim_type4, as far as the server knows it."""

    NULL = 0
    PREVIOUS = 1
    FH = 4


# --- MOUNT, NFS version 3, RPC ---


class Nfs(Enum):
    """NFS version 3's procedures (RFC 1813, 3.3)."""

    NULL = 0
    GETATTR = 1
    SETATTR = 2
    LOOKUP = 3
    ACCESS = 4
    READ = 6
    WRITE = 7
    CREATE = 8
    MKDIR = 9
    REMOVE = 12
    RMDIR = 13
    LINK = 15
    READDIR = 16
    FSSTAT = 18
    FSINFO = 19
    COMMIT = 21


class Mount(Enum):
    """MOUNT version 3's procedures (RFC 1813, appendix I)."""

    NULL = 0
    MNT = 1
    UMNT = 3


Procedure = Nfs | Mount | Nfs4  # an operation of version 4 counts as one
PROGRAMS: dict[int, dict[int, dict[int, Procedure]]] = {  # procedures by version and number
    NFS: {
        3: {one.value: one for one in Nfs},
        4: {one.value: one for one in (Nfs4.NULL, Nfs4.COMPOUND)},
    },
    MOUNT: {3: {one.value: one for one in Mount}},
}


class Status(IntEnum):
    """nfsstat3 (RFC 1813, 2.6), of which mountstat3 has some values."""

    OK = 0
    PERM = 1
    NOENT = 2
    IO = 5
    ACCES = 13
    EXIST = 17
    NOTDIR = 20
    ISDIR = 21
    INVAL = 22
    FBIG = 27
    NOSPC = 28
    ROFS = 30
    NOTEMPTY = 66
    DQUOT = 69
    STALE = 70
    BADHANDLE = 10001
    BAD_COOKIE = 10003
    NOTSUPP = 10004
    SERVERFAULT = 10006
    JUKEBOX = 10008


class NfsError(Exception):
    """A procedure or operation ends with this status."""

    def __init__(self, status: int):
        super().__init__(status)
        self.status = status


class Stable(IntEnum):
    """stable_how (RFC 1813, 3.3.7)."""

    UNSTABLE = 0
    DATA_SYNC = 1
    FILE_SYNC = 2


@dataclass(frozen=True)
class Credentials:
    """AUTH_SYS (RFC 5531, appendix A); all zero for another flavor."""

    machine: str = ""
    uid: int = 0
    gid: int = 0
    gids: tuple[int, ...] = ()


@dataclass(frozen=True)
class RpcCall:
    """A call's header; `arguments` stands at the procedure's arguments.

    `refusal` is what an RPC server must answer to a call that it does not offer, or None.
    """

    xid: int
    procedure: Procedure
    credentials: Credentials
    arguments: Unpacker
    refusal: bytes | None = None


def parse_call(data: bytes, without: int | None = None) -> RpcCall:
    """Read a call's header; one version is not offered. Raises ValueError or EOFError."""
    source = Unpacker(data)
    xid, kind, version, number, program_version, procedure = (
        source.unpack_uint() for _ in range(6)
    )
    if kind != CALL:
        raise ValueError(f"message type {kind} is no call")
    flavor, body = source.unpack_uint(), Unpacker(source.unpack_opaque())
    credentials = unpack_auth_sys(body) if flavor == AUTH_SYS else Credentials()
    source.unpack_uint()
    source.unpack_opaque()
    versions = {key: one for key, one in PROGRAMS.get(number, {}).items() if key != without}
    known = versions.get(program_version, {}).get(procedure)
    refusal = None
    if version != RPC_VERSION:
        refusal = rpc_mismatch(RPC_VERSION, RPC_VERSION)
    elif not versions:
        refusal = accepted(AcceptStat.PROG_UNAVAIL)
    elif program_version not in versions:
        refusal = accepted(AcceptStat.PROG_MISMATCH, xdr(min(versions), max(versions)))
    elif known is None:
        refusal = accepted(AcceptStat.PROC_UNAVAIL)
    return RpcCall(xid, known or Nfs.NULL, credentials, source, refusal)


def unpack_auth_sys(source: Unpacker) -> Credentials:
    """Read authsys_parms."""
    source.unpack_uint()  # the stamp
    machine = source.unpack_string().decode(errors="replace")
    uid, gid = source.unpack_uint(), source.unpack_uint()
    return Credentials(machine, uid, gid, tuple(source.unpack_array(source.unpack_uint)))


# --- calls, as hooks see them ---


@dataclass(kw_only=True)
class Arguments:
    """The arguments of a procedure or operation that hooks and tests look at."""

    file: str = ""  # relative to the export; "?" for a stale handle
    name: str = ""
    offset: int = 0  # READDIR: the cookie
    count: int = 0  # READDIR: the bytes of results that the caller takes
    stable: Stable = Stable.UNSTABLE

    # NFSv4.1 alone
    wanted: frozenset[int] = frozenset()  # GETATTR: the attributes
    claim: Claim | None = None
    session: int = 0  # this one's number, and what follows: of the SEQUENCE before it, if any
    sequence: int = 0
    slot: int = 0


# --- how a call is to be answered ---


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
    end: Literal["", "close", "reset"] = ""  # what becomes of the connection then

    def says_something(self) -> bool:
        """Whether anything differs from a sound server's delivery."""
        return any(getattr(self, one.name) != one.default for one in fields(Delivery))


# --- what the log keeps ---


@dataclass(eq=False, kw_only=True)
class Call(Arguments):
    """A call that the server has got, as its log keeps it: with its arguments, but no data.

    NFSv4.1: one for COMPOUND, and one for each of its operations that the server came to.
    """

    procedure: Procedure
    xid: int
    connection: int  # its number among those to this port, from 0
    client: tuple[str, int]
    server: tuple[str, int]
    credentials: Credentials
    nth: int  # its number among the calls of this procedure, from 1
    moved: int = 0  # bytes that READ or WRITE moved, as far as the server is concerned
    time: float = field(default_factory=time.monotonic)
    answered: float | None = None  # when the reply was handed to the kernel
    status: int | None = None  # of procedure or operation; COMPOUND has none
