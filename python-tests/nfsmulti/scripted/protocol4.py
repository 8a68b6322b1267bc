# SPDX-License-Identifier: GPL-2.0-only
"""NFS version 4, minor versions 1 and 2 (RFC 8881, RFC 7862): numbers."""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag

VERIFIER_SIZE = 8
SESSION_ID_SIZE = 16


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
    GETATTR = 9
    GETFH = 10
    LOOKUP = 15
    LOOKUPP = 16
    OPEN = 18
    PUTFH = 22
    PUTROOTFH = 24
    READ = 25
    REMOVE = 28
    SETATTR = 34
    WRITE = 38
    BIND_CONN_TO_SESSION = 41
    EXCHANGE_ID = 42
    CREATE_SESSION = 43
    DESTROY_SESSION = 44
    FREE_STATEID = 45
    SEQUENCE = 53
    DESTROY_CLIENTID = 57
    RECLAIM_COMPLETE = 58


FIRST_OPERATION, LAST_OPERATION = 3, 71  # of minor version 2
ILLEGAL_OPERATION = 10044  # the number that the answer to any other has


class Status4(IntEnum):
    """nfsstat4 (RFC 8881, 15.1)."""

    OK = 0
    PERM = 1
    NOENT = 2
    IO = 5
    NXIO = 6
    ACCESS = 13
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
    TOOSMALL = 10005
    SERVERFAULT = 10006
    BADTYPE = 10007
    DELAY = 10008
    EXPIRED = 10011
    LOCKED = 10012
    GRACE = 10013
    SHARE_DENIED = 10015
    WRONGSEC = 10016
    CLID_INUSE = 10017
    RESOURCE = 10018
    MOVED = 10019
    NOFILEHANDLE = 10020
    MINOR_VERS_MISMATCH = 10021
    STALE_CLIENTID = 10022
    STALE_STATEID = 10023
    OLD_STATEID = 10024
    BAD_STATEID = 10025
    NOT_SAME = 10027
    ATTRNOTSUPP = 10032
    NO_GRACE = 10033
    RECLAIM_BAD = 10034
    BADXDR = 10036
    LOCKS_HELD = 10037
    OPENMODE = 10038
    BADNAME = 10041
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
    REP_TOO_BIG_TO_CACHE = 10067
    RETRY_UNCACHED_REP = 10068
    TOO_MANY_OPS = 10070
    OP_NOT_IN_SESSION = 10071
    CLIENTID_BUSY = 10074
    SEQ_FALSE_RETRY = 10076
    DEADSESSION = 10078
    NOT_ONLY_OP = 10081


class Exchange(IntFlag):
    """EXCHANGE_ID's flags (RFC 8881, 18.35)."""

    USE_NON_PNFS = 0x10000
    UPDATE = 0x40000000
    CONFIRMED = 0x80000000


class Share(IntFlag):
    """OPEN's share access and deny; other bits say what delegation is wanted."""

    READ = 1
    WRITE = 2


class Create(IntEnum):
    """createmode4 (RFC 8881, 18.16)."""

    UNCHECKED = 0
    GUARDED = 1
    EXCLUSIVE = 2
    EXCLUSIVE4_1 = 3


class Claim(IntEnum):
    """open_claim_type4, as far as the server knows it."""

    NULL = 0
    PREVIOUS = 1
    FH = 4


class Attribute(IntEnum):
    """The attributes that the server knows (RFC 8881, 5.6 and 5.7)."""

    SUPPORTED_ATTRS = 0
    TYPE = 1
    FH_EXPIRE_TYPE = 2
    CHANGE = 3
    SIZE = 4
    LINK_SUPPORT = 5
    SYMLINK_SUPPORT = 6
    NAMED_ATTR = 7
    FSID = 8
    UNIQUE_HANDLES = 9
    LEASE_TIME = 10
    RDATTR_ERROR = 11
    FILEHANDLE = 19
    FILEID = 20
    MAXFILESIZE = 27
    MAXNAME = 29
    MAXREAD = 30
    MAXWRITE = 31
    MODE = 33
    NUMLINKS = 35
    OWNER = 36
    OWNER_GROUP = 37
    SPACE_USED = 45
    TIME_ACCESS = 47
    TIME_ACCESS_SET = 48
    TIME_METADATA = 52
    TIME_MODIFY = 53
    TIME_MODIFY_SET = 54
    SUPPATTR_EXCLCREAT = 75
