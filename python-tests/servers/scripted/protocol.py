# SPDX-License-Identifier: GPL-2.0-only
"""Numbers of MOUNT and NFS, their calls as hooks see them, and how they are to be answered.

NFS is version 3 (RFC 1813) and version 4, minor versions 1 and 2 (RFC 8881, RFC 7862).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, IntFlag
from typing import TYPE_CHECKING, Literal

from xdrlib3 import Unpacker

from servers.rpc import AUTH_SYS, CALL, RPC_VERSION, AcceptStat, accepted, record, rpc_mismatch, xdr

if TYPE_CHECKING:
    from servers.scripted import ScriptedServer

VERIFIER_SIZE = 8


class Nfs4(Enum):
    """The two procedures of version 4, and the operations that the core serves.

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
    RENAME = 29
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
    ISDIR = 21
    NOSPC = 28
    ROFS = 30
    STALE = 70
    NOTSUPP = 10004
    TOOSMALL = 10005
    SERVERFAULT = 10006
    BADTYPE = 10007
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
    ATTRNOTSUPP = 10032
    NO_GRACE = 10033
    OP_ILLEGAL = 10044
    ADMIN_REVOKED = 10047
    BADSESSION = 10052
    BADSLOT = 10053
    COMPLETE_ALREADY = 10054
    CONN_NOT_BOUND_TO_SESSION = 10055
    SEQ_MISORDERED = 10063
    SEQUENCE_POS = 10064
    REQ_TOO_BIG = 10065
    REP_TOO_BIG = 10066
    RETRY_UNCACHED_REP = 10068
    OP_NOT_IN_SESSION = 10071
    CLIENTID_BUSY = 10074
    SEQ_FALSE_RETRY = 10076
    BAD_HIGH_SLOT = 10077
    DEADSESSION = 10078
    NOT_ONLY_OP = 10081
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
Procedures = dict[int, Procedure]
NFS3: Procedures = {one.value: one for one in Nfs}
NFS4: Procedures = {one.value: one for one in (Nfs4.NULL, Nfs4.COMPOUND)}
OPERATIONS: Procedures = {one.value: one for one in Nfs4 if one.value not in NFS4}
MOUNT3: Procedures = {one.value: one for one in Mount}


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
    """A call's header, with what is behind it.

    `refusal` is what an RPC server must answer to a call that it does not offer, or None.
    """

    xid: int
    procedure: Procedure
    credentials: Credentials
    header: int  # its bytes
    arguments: bytes
    refusal: bytes | None = None


def parse_call(data: bytes, program: int, versions: Mapping[int, Procedures]) -> RpcCall:
    """Read the header of a call to a server of one program. Raises ValueError or EOFError."""
    source = Unpacker(data)
    xid, kind, rpc_version, called, version, number = (source.unpack_uint() for _ in range(6))
    if kind != CALL:
        raise ValueError(f"message type {kind} is no call")
    flavor, body = source.unpack_uint(), Unpacker(source.unpack_opaque())
    credentials = unpack_auth_sys(body) if flavor == AUTH_SYS else Credentials()
    source.unpack_uint()
    source.unpack_opaque()
    procedure = versions.get(version, {}).get(number)
    refusal = None
    if rpc_version != RPC_VERSION:
        refusal = rpc_mismatch(RPC_VERSION, RPC_VERSION)
    elif called != program:
        refusal = accepted(AcceptStat.PROG_UNAVAIL)
    elif version not in versions:
        refusal = accepted(AcceptStat.PROG_MISMATCH, xdr(min(versions), max(versions)))
    elif procedure is None:
        refusal = accepted(AcceptStat.PROC_UNAVAIL)
    header = source.get_position()
    return RpcCall(xid, procedure or Nfs.NULL, credentials, header, data[header:], refusal)


def unpack_auth_sys(source: Unpacker) -> Credentials:
    """Read authsys_parms."""
    source.unpack_uint()  # the stamp
    machine = source.unpack_string().decode(errors="replace")
    uid, gid = source.unpack_uint(), source.unpack_uint()
    return Credentials(machine, uid, gid, tuple(source.unpack_array(source.unpack_uint)))


# --- calls, as hooks see them and the log keeps them, and how they are to be answered ---


@dataclass(eq=False, kw_only=True)
class Call:
    """A call that the server has got: with those arguments that hooks and tests look at.

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

    # Arguments
    file: str = ""  # relative to the export; "?" for a stale handle
    name: str = ""
    offset: int = 0  # READDIR: the cookie
    count: int = 0  # READDIR: the bytes of results that the caller takes
    stable: int = Stable.UNSTABLE

    # NFSv4.1 alone
    wanted: int = 0  # GETATTR: bit N is attribute N
    claim: int = Claim.NULL
    session: int = 0  # this one's number, and what follows: of the SEQUENCE before it, if any
    sequence: int = 0
    slot: int = 0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a call is answered. As it stands: as a sound server does.

    NFSv4.1: COMPOUND and each operation have answers of their own. What they say of the message
    and how it is sent is taken from the first that says something of it. Where an operation is
    neither carried out nor answered, the compound is as if it had not come: its slot has not moved.
    """

    do: Callable[[ScriptedServer], object] | None = None  # to the server, before all else

    # What is done, and what the results say.
    act: bool = True  # False: the call is not carried out, only answered
    status: int | None = None  # of procedure or operation; unless OK: it is not carried out
    limit: int | None = None  # READ, WRITE: bytes that it moves at most; READDIR: entries
    cookie: int | None = None  # READDIR: that of all entries
    eof: int | None = None  # READ, READDIR
    verifier: bytes | None = None  # WRITE, COMMIT
    attributes: int | None = None  # NFSv3: the flag before optional ones: 0, 1, or nonsense
    results: bytes | None = None  # other results altogether; of an operation: from its status on

    # What the RPC message says, and how it is sent.
    reply: bool = True  # False: nothing goes back
    rpc: bytes | None = None  # what accepted(), denied() or rpc_mismatch() of servers.rpc give
    delay: float = 0.0  # seconds
    sent: Callable[[bytes], bytes] = record  # what goes out for a message
    chunk: int = 0  # bytes sent at once
    pause: float = 0.0  # seconds between chunks
    end: Literal["", "close", "reset"] = ""  # what becomes of the connection then

    def unheard(self) -> bool:
        """Whether the call is as if it had not come."""
        return not self.act and not self.reply

    def refusal(self) -> int:
        """Return the status that the call has because it is not carried out, or 0."""
        return self.status or (Status.OK if self.act else Status.SERVERFAULT)

    def says_something(self) -> bool:
        """Whether the message, or how it is sent, differs from a sound server's."""
        return any(getattr(self, name) != getattr(SOUND, name) for name in _OF_MESSAGES)


SOUND = Answer()
_OF_MESSAGES = ("reply", "rpc", "delay", "sent", "chunk", "pause", "end")
