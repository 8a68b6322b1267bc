# SPDX-License-Identifier: GPL-2.0-only
"""ONC RPC (RFC 5531), MOUNT version 3 and NFS version 3 (RFC 1813): numbers and message headers.

NFS version 4's numbers are protocol4's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum

from xdrlib3 import Unpacker

from nfsmulti.scripted.protocol4 import Nfs4

LAST_FRAGMENT = 1 << 31
MARK_SIZE = 4
CALL, REPLY = 0, 1
_RPC_VERSION = 2
_ACCEPTED, _DENIED = 0, 1
_RPC_MISMATCH, _AUTH_ERROR = 0, 1
_AUTH_SYS = 1
_PROGRAM_VERSION = 3
_NFS, _MOUNT = 100003, 100005


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
    RENAME = 14
    READDIRPLUS = 17
    FSSTAT = 18
    FSINFO = 19
    PATHCONF = 20
    COMMIT = 21


class Mount(Enum):
    """MOUNT version 3's procedures (RFC 1813, appendix I)."""

    NULL = 0
    MNT = 1
    DUMP = 2
    UMNT = 3
    EXPORT = 5


Procedure = Nfs | Mount | Nfs4  # an operation of version 4 counts as one
PROGRAMS: dict[int, dict[int, dict[int, Procedure]]] = {  # procedures by version and number
    _NFS: {
        3: {one.value: one for one in Nfs},
        4: {one.value: one for one in (Nfs4.NULL, Nfs4.COMPOUND)},
    },
    _MOUNT: {3: {one.value: one for one in Mount}},
}


class Status(IntEnum):
    """nfsstat3 (RFC 1813, 2.6), of which mountstat3 has some values."""

    OK = 0
    PERM = 1
    NOENT = 2
    IO = 5
    NXIO = 6
    ACCES = 13
    EXIST = 17
    NOTDIR = 20
    ISDIR = 21
    INVAL = 22
    FBIG = 27
    NOSPC = 28
    ROFS = 30
    NAMETOOLONG = 63
    NOTEMPTY = 66
    DQUOT = 69
    STALE = 70
    BADHANDLE = 10001
    NOTSUPP = 10004
    SERVERFAULT = 10006
    JUKEBOX = 10008


class Stable(IntEnum):
    """stable_how (RFC 1813, 3.3.7)."""

    UNSTABLE = 0
    DATA_SYNC = 1
    FILE_SYNC = 2


class AcceptStat(IntEnum):
    """What became of a call that was accepted (RFC 5531, 9)."""

    SUCCESS = 0
    PROG_UNAVAIL = 1
    PROG_MISMATCH = 2
    PROC_UNAVAIL = 3
    GARBAGE_ARGS = 4
    SYSTEM_ERR = 5


class AuthStat(IntEnum):
    """Why a caller was not let in (RFC 5531, 9)."""

    BADCRED = 1
    REJECTEDCRED = 2
    BADVERF = 3
    REJECTEDVERF = 4
    TOOWEAK = 5


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


def _words(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def accepted(stat: AcceptStat, results: bytes = b"") -> bytes:
    """Give what follows xid and REPLY where the call was accepted; PROG_MISMATCH has low, high."""
    if stat is AcceptStat.PROG_MISMATCH and not results:
        results = _words(_PROGRAM_VERSION + 1, _PROGRAM_VERSION + 1)
    return _words(_ACCEPTED, 0, 0, stat) + results


def denied(stat: AuthStat) -> bytes:
    """Give what follows xid and REPLY where the caller is not let in."""
    return _words(_DENIED, _AUTH_ERROR, stat)


def rpc_mismatch(low: int, high: int) -> bytes:
    """Give what follows xid and REPLY where the server speaks RPC versions `low` to `high`."""
    return _words(_DENIED, _RPC_MISMATCH, low, high)


def message(xid: int, rest: bytes, message_type: int = REPLY) -> bytes:
    """Give a whole RPC message."""
    return _words(xid, message_type) + rest


def mark(length: int, *, last: bool = True) -> bytes:
    """Give a record mark (RFC 5531, 11)."""
    return _words(length | (LAST_FRAGMENT if last else 0))


def record(data: bytes, fragments: tuple[int, ...] = ()) -> bytes:
    """Give a record: one fragment, or fragments of the given sizes, over and over.

    A size of 0 makes an empty fragment. Where none but empty ones are wanted, they come first.
    """
    if not any(fragments):
        return b"".join([mark(0, last=False)] * len(fragments)) + mark(len(data)) + data
    parts, at, turn = [], 0, 0
    while True:
        part = data[at : at + fragments[turn % len(fragments)]]
        at, turn = at + len(part), turn + 1
        parts += [mark(len(part), last=at == len(data)), part]
        if at == len(data):
            return b"".join(parts)


def parse_call(data: bytes, without: int | None = None) -> RpcCall:
    """Read a call's header; one version is not offered. Raises ValueError or EOFError."""
    source = Unpacker(data)
    xid, kind, version, number, program_version, procedure = (
        source.unpack_uint() for _ in range(6)
    )
    if kind != CALL:
        raise ValueError(f"message type {kind} is no call")
    credentials = _credentials(source)
    source.unpack_uint()
    source.unpack_opaque()
    versions = {key: one for key, one in PROGRAMS.get(number, {}).items() if key != without}
    known = versions.get(program_version, {}).get(procedure)
    refusal = None
    if version != _RPC_VERSION:
        refusal = rpc_mismatch(_RPC_VERSION, _RPC_VERSION)
    elif not versions:
        refusal = accepted(AcceptStat.PROG_UNAVAIL)
    elif program_version not in versions:
        refusal = accepted(AcceptStat.PROG_MISMATCH, _words(min(versions), max(versions)))
    elif known is None:
        refusal = accepted(AcceptStat.PROC_UNAVAIL)
    return RpcCall(xid, known or Nfs.NULL, credentials, source, refusal)


def _credentials(source: Unpacker) -> Credentials:
    flavor, body = source.unpack_uint(), Unpacker(source.unpack_opaque())
    if flavor != _AUTH_SYS:
        return Credentials()
    body.unpack_uint()  # the stamp
    machine = body.unpack_string().decode(errors="replace")
    uid, gid = body.unpack_uint(), body.unpack_uint()
    return Credentials(machine, uid, gid, tuple(body.unpack_array(body.unpack_uint)))
