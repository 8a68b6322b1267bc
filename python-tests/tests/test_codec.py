# SPDX-License-Identifier: GPL-2.0-only
"""Messages in memory: RPC replies (RFC 5531), NFSv3 (RFC 1813) and NFSv4.1 (RFC 8881)."""

import errno
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import pytest
from engine_c import (
    CONSTANTS,
    CData,
    Guarded,
    ffi,
    name_of,
    read,
    rubbish,
    text,
    text_of,
    value,
    written,
    zeros,
)

from servers.rpc import (
    AcceptStat,
    AuthStat,
    Fixed,
    Hyper,
    accepted,
    denied,
    message,
    rpc_mismatch,
    xdr,
)
from servers.scripted import Nfs, Status, Status4
from servers.scripted import Nfs4 as Op

# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")

U32, U64 = 2**32 - 1, 2**64 - 1
_VERIFIER = b"verifier"


# --- RPC headers ---


# What follows xid and REPLY, and what that means: verdict, auth_stat, low, high, errno, words.
RPC_REPLIES: dict[bytes, tuple[str, int, int, int, int, str]] = {
    accepted(AcceptStat.SUCCESS): ("RPC_SUCCESS", 0, 0, 0, 0, ""),
    accepted(AcceptStat.SUCCESS, verifier=b"v" * 399, flavor=9): ("RPC_SUCCESS", 0, 0, 0, 0, ""),
    accepted(AcceptStat.SUCCESS, verifier=b"v" * 400, flavor=9): ("RPC_SUCCESS", 0, 0, 0, 0, ""),
    accepted(AcceptStat.PROG_UNAVAIL): ("RPC_PROG_UNAVAIL", 0, 0, 0, 93, "does not offer NFS"),
    accepted(AcceptStat.PROG_MISMATCH, xdr(4, U32), b"v", flavor=9): (
        "RPC_PROG_MISMATCH", 0, 4, U32, errno.EPROTONOSUPPORT,
        "versions 4 to 4294967295, not 3 (PROG_MISMATCH): version= chooses another",
    ),
    accepted(AcceptStat.PROC_UNAVAIL): ("RPC_PROC_UNAVAIL", 0, 0, 0, 93, "lacks the procedure"),
    accepted(AcceptStat.GARBAGE_ARGS): ("RPC_GARBAGE_ARGS", 0, 0, 0, 22, "could not read"),
    accepted(AcceptStat.SYSTEM_ERR): ("RPC_SYSTEM_ERR", 0, 0, 0, 121, "ran out of some"),
    rpc_mismatch(3, 4): ("RPC_OTHER_VERSION", 0, 3, 4, 93, "RPC versions 3 to 4"),
    denied(AuthStat.BADCRED): ("RPC_AUTH_ERROR", 1, 0, 0, errno.EACCES, "denied the credentials"),
    denied(AuthStat.TOOWEAK): (
        "RPC_AUTH_ERROR", 5, 0, 0, errno.EACCES, "(AUTH_TOOWEAK): it may want a reserved source",
    ),
    xdr(1, 1, U32): ("RPC_AUTH_ERROR", U32, 0, 0, errno.EACCES, "unknown auth_stat"),
}  # fmt: skip
_NO_REPLIES = (
    message(7, xdr(0, 0, 0, 6)),  # accept_stat
    message(7, xdr(0, 0, 0, U32)),
    message(7, xdr(0, 0, 401) + bytes(500)),  # the verifier's length
    message(7, xdr(0, 0, U32) + bytes(500)),
    message(7, xdr(2)),  # neither accepted nor denied
    message(7, xdr(1, 2)),  # reject_stat
    *(message(7, accepted(AcceptStat.SUCCESS), kind) for kind in (0, 2, U32)),
)


def decode_reply(lib: CData, sent: bytes) -> tuple[CData, int, int]:
    """Return the header, where the results begin, and what is wrong (enum xdr_flaw)."""
    header = zeros("rpc_reply_header")
    return header, *read(sent, lambda source: lib.rpc_decode_reply(source, header))


def test_reply_headers(testlib: CData) -> None:
    for rest, (*meaning, words) in RPC_REPLIES.items():
        whole = message(0xFEDCBA98, rest)
        header, used, more = decode_reply(testlib, whole + b"results!")
        assert (header.xid, used, more) == (0xFEDCBA98, len(whole), False), meaning
        numbers = (header.auth_stat, header.low, header.high, testlib.rpc_verdict_errno(header))
        assert [name_of("rpc_verdict", header.verdict), *numbers] == meaning
        assert words in verdict_text(testlib, header)
        assert decode_reply(testlib, whole)[1:] == (used, False), meaning
        for length in range(len(whole)):
            assert decode_reply(testlib, whole[:length])[2], f"{length} bytes are no whole header"


def test_what_is_no_reply(testlib: CData) -> None:
    for sent in _NO_REPLIES:
        header, _, more = decode_reply(testlib, sent)
        verdict = name_of("rpc_verdict", header.verdict)
        assert (more, header.xid, verdict) == (False, 7, "RPC_NOT_A_REPLY"), sent
        assert testlib.rpc_verdict_errno(header) == errno.EPROTO


def verdict_text(lib: CData, header: CData) -> str:
    return text_of(500, lambda room, size: lib.rpc_verdict_text(header, 3, room, size))


def test_a_reply_to_auth_sys_has_one_of_its_verifiers(testlib: CData) -> None:
    """AUTH_SHORT, too: it offers a credential that no client need use (RFC 5531, appendix A)."""
    auth, verifier = zeros("auth_sys"), zeros("rpc_verifier")
    testlib.auth_sys_init(auth, zeros("auth_sys_ids"))
    for flavor in (0, 1, 2, 3, 6):
        verifier.flavor = flavor
        found = auth.base.flavor.check(ffi.addressof(auth, "base"), zeros("rpc_stamp"), verifier)
        assert name_of("rpc_belief", found) == f"RPC_{'BELIEVED' if flavor < 3 else 'REFUSED'}"


# --- NFSv3 calls ---


_FILE, _DIRECTORY = b"a file", b"a directory"
_NAME, _OTHER = b"name", b"other"


def attributes(mode: int) -> bytes:
    """Return a sattr3 (2.6) that sets a mode alone."""
    return xdr(1, mode, 0, 0, 0, 0, 0)


_PLACE = xdr(_DIRECTORY, _NAME)  # diropargs3
# What RFC 1813, 3.3 makes of each procedure but those of the data path: number and arguments.
_CALLS: dict[str, tuple[int, bytes]] = {
    "GETATTR": (1, xdr(_FILE)),
    "SETATTR": (2, xdr(_FILE, 0, 0, 0, 0, 0, 1, 0)),  # mtime, no guard
    "LOOKUP": (3, _PLACE),
    "ACCESS": (4, xdr(_FILE, 0x3F)),
    "CREATE": (8, _PLACE + xdr(1) + attributes(0o644)),  # GUARDED
    "MKDIR": (9, _PLACE + attributes(0o755)),
    "SYMLINK": (10, _PLACE + attributes(0o777) + xdr(b"nowhere")),
    "REMOVE": (12, _PLACE),
    "RMDIR": (13, _PLACE),
    "RENAME": (14, _PLACE + xdr(_DIRECTORY, _OTHER)),
    "LINK": (15, xdr(_FILE, _DIRECTORY, _OTHER)),
    "READDIR": (16, xdr(_DIRECTORY, Hyper(5), Fixed(b"verifier"), 4096)),
    "FSSTAT": (18, xdr(_FILE)),
    "FSINFO": (19, xdr(_FILE)),
}
# A file that only this client can have made, and what completes it (3.3.8): mode, and both times.
_EXCLUSIVE: dict[str, tuple[int, bytes]] = {
    "CREATE": (8, _PLACE + xdr(2, Hyper(77))),
    "SETATTR": (2, xdr(_FILE, 1, 0o644, 0, 0, 0, 1, 1, 0)),
}
ffi.cdef("uint8_t *nfs3_put_call(struct xdr_out *, const struct meta_arguments *);")


def call_sent(lib: CData, asked: CData) -> tuple[tuple[int, ...], bytes]:
    """Return the header up to the procedure's number, and the arguments."""
    room = Guarded(1024)
    arguments = lib.nfs3_put_call(cursor := room.cursor("xdr_out"), asked)
    begins = int(arguments - room.at)
    return struct.unpack(">6I", room.content[:24]), room.content[begins : room.used(cursor)]


def test_calls_for_metadata(testlib: CData) -> None:
    handles = [ffi.new("struct nfs_handle *", [len(one), one]) for one in (_FILE, _DIRECTORY)]
    listing = ffi.new("struct listing *", {"cookie": 5, "verifier": b"verifier"})
    asked = zeros("meta_arguments")
    asked.handle, asked.directory, asked.listing = handles[0][0], handles[1], listing
    asked.name, asked.other, asked.bytes, asked.verifier = _NAME, _OTHER, 4096, 77
    for name, (procedure, arguments) in (*_CALLS.items(), *_EXCLUSIVE.items()):
        asked.exclusive = asked.made = (procedure, arguments) in _EXCLUSIVE.values()
        asked.op = getattr(CONSTANTS, f"META_{name}")
        header = (7, 0, 2, 100003, 3, procedure)
        assert call_sent(testlib, asked) == (header, arguments), name
    assert call_sent(testlib, ffi.NULL) == ((7, 0, 2, 100003, 3, 0), b"")


# --- NFSv3 results ---


# What a reply says of a failure, and of a success: optional attributes of these sizes (RFC 1813,
# 2.6). A success has more before and behind them; what it says of I/O is count, eof, committed and
# verifier.
_FATTR, _WCC = (84,), (24, 84)
_MADE = xdr(1, _FILE, 0)  # a handle, but no attributes
_RESULTS: list[tuple[str, Sequence[int], bytes, bytes, tuple[int, bool, int, bytes]]] = [
    *(
        ("READ", _FATTR, b"", xdr(count, eof, count), (count, eof, 0, bytes(8)))
        for count, eof in ((0, False), (4096, True), (U32, True))  # up to its data
    ),
    *(
        ("WRITE", _WCC, b"", xdr(count, how) + _VERIFIER, (count, False, how, _VERIFIER))
        for count, how in ((0, 0), (4096, 2), (U32, 1))
    ),
    ("COMMIT", _WCC, b"", _VERIFIER, (0, False, 0, _VERIFIER)),
    *(
        (name, sizes, front, rest, (0, False, 0, bytes(8)))
        for name, sizes, front, rest in (
            ("GETATTR", (), bytes(84), b""),
            ("LOOKUP", _FATTR, xdr(_FILE) + bytes(4), b""),
            ("ACCESS", _FATTR, b"", bytes(4)),
            ("SETATTR", _WCC, b"", b""),
            *((name, _WCC, _MADE, b"") for name in ("CREATE", "MKDIR", "SYMLINK")),
            *((name, _WCC, b"", b"") for name in ("REMOVE", "RMDIR")),
            ("RENAME", _WCC * 2, b"", b""),
            ("LINK", _FATTR + _WCC, b"", b""),
            ("READDIR", _FATTR, b"", bytes(16)),
            ("FSSTAT", _FATTR, b"", bytes(52)),
            ("FSINFO", _FATTR, b"", bytes(48)),
        )
    ),
]
_DATA_PATH = ("READ", "WRITE", "COMMIT")


def results() -> Iterator[tuple[str, bytes, int, tuple[int, bool, int, bytes]]]:
    """Yield procedures and their results, with each choice of attributes, and what they say."""
    for name, sizes, before, behind, says in _RESULTS:
        for there in product((0, 1), repeat=len(sizes)):
            pairs = zip(there, sizes, strict=True)
            given = b"".join(xdr(one) + b"\xa5" * size * one for one, size in pairs)
            yield name, xdr(70) + given, 70, (0, False, 0, bytes(8))
            yield name, xdr(0) + before + given + behind, 0, says


def decode_results(lib: CData, name: str, sent: bytes) -> tuple[int, object]:
    """Return what is wrong with the results, and what has been read."""
    statuses = list[int]()
    io, meta = zeros("io_result"), zeros("meta_result")
    if name in _DATA_PATH:
        decode, which, result = lib.nfs3_decode, Nfs[name].value, io
    else:
        decode, which, result = lib.nfs3_decode_meta, getattr(CONSTANTS, f"META_{name}"), meta
    used, flaw = read(sent, lambda source: statuses.append(decode(source, which, result)))
    says = (io.count, io.eof, io.committed, value(io.verifier))
    return flaw, (used, statuses[0], says)


def test_results(testlib: CData) -> None:
    """All of them are read, and no more, whichever attributes the server leaves out."""
    for name, sent, status, says in results():
        found = decode_results(testlib, name, sent + b"behind")
        assert found == (CONSTANTS.XDR_SOUND, (len(sent), status, says)), (name, sent)
        for length in range(len(sent)):
            flaw, _ = decode_results(testlib, name, sent[:length])
            assert flaw == CONSTANTS.XDR_SHORT, (name, length)


def test_what_a_server_offers(testlib: CData) -> None:
    """FSSTAT's bytes, then files, in all, free and for the caller; FSINFO's rtmax, wtmax; rights.

    RFC 1813, 3.3.18, 3.3.19 and 3.3.4.
    """
    meta = zeros("meta_result")

    def decode(name: str, sent: bytes) -> None:
        op = getattr(CONSTANTS, f"META_{name}")
        read(xdr(0, 0) + sent, lambda source: testlib.nfs3_decode_meta(source, op, meta))

    decode("FSSTAT", xdr(*map(Hyper, range(1, 7)), 0))
    assert [*value(meta.attributes.room).values()] == [*range(1, 7)]
    decode("FSINFO", xdr(*range(1, 8), Hyper(8), 9, 10, 11))
    assert (meta.attributes.limits.read_max, meta.attributes.limits.write_max) == (1, 4)
    decode("ACCESS", xdr(0x15))
    assert meta.access == 0x15


def test_contradictory_results(testlib: CData) -> None:
    """Attributes neither there nor not, another length than the count, an unknown stable_how."""
    for name, sent in (
        ("READ", xdr(0, 2)),
        ("READ", xdr(0, 0, 4096, 1, 4097)),
        ("WRITE", xdr(0, 0, 0, 4096, 3) + _VERIFIER),
    ):
        flaw, _ = decode_results(testlib, name, sent + bytes(200))
        assert flaw == CONSTANTS.XDR_WRONG, (name, sent)


def test_status_names(testlib: CData) -> None:
    own = {Status.BADHANDLE: "EBADF", Status.NOTSUPP: "EOPNOTSUPP", Status.JUKEBOX: "EAGAIN"}
    own |= {Status.OK: "", Status.ACCES: "EACCES", Status.SERVERFAULT: "EREMOTEIO"}
    own |= {Status.BAD_COOKIE: "EIO"}
    for status in Status:
        name = "NFS3_OK" if status is Status.OK else f"NFS3ERR_{status.name}"
        assert text(testlib.nfs3_status(status).name) == name
        word = own.get(status, f"E{status.name}")
        assert testlib.nfs3_status(status).error == (getattr(errno, word) if word else 0), name
    assert text(testlib.nfs3_status(12345).name) == "an unknown nfsstat3"


# --- NFSv4.1: arguments ---

OPERATIONS: Mapping[str, int] = ffi.typeof("enum nfs4_operation").relements


_SESSION, _STATEID = b"session 16 bytes", b"stateid 16 bytes"
_CLIENT = 0x1122334455667788
_ALL = 1 << 1 | 1 << 4 | 1 << 10 | 1 << 30 | 1 << 31
_STAT = (1 << 1 | 1 << 3 | 1 << 4 | 1 << 8 | 1 << 20, 0x0030A23A)  # two words of a bitmap
_ROOM = (1 << 1 | 1 << 4 | 7 << 21, 7 << 10)  # space and files: available, free, total
_OWNER = b"an owner"
_OPAQUE_MAX, _FH_SIZE = CONSTANTS.NFS4_OPAQUE_MAX, CONSTANTS.NFS4_FHSIZE
_FORE = ffi.new("struct nfs4_channel *", [0x100001, 0x100002, 3, 4, 5])
_OWNED, _NAME4 = ffi.new("char[]", _OWNER), ffi.new("char[]", b"name")  # kept
_OPEN_HEAD = xdr(Hyper(_CLIENT), _OWNER)
_MODE_0644 = xdr(2, 0, 1 << 1) + xdr(xdr(0o644))  # attribute 33


def _open(access: int, create: bool, claim: str, name: bytes = b"") -> tuple[str, CData]:
    made = zeros("nfs4_open")
    made.client, made.owner, made.owner_length = _CLIENT, _OWNED, len(_OWNER)
    made.access, made.create = access, create
    made.claim = getattr(CONSTANTS, f"NFS4_CLAIM_{claim}")
    made.name = _NAME4 if name else ffi.NULL
    return "open", made


# Operations of which servers accept much, and the bytes that the RFC's XDR makes of them.
_OPERATIONS: list[tuple[tuple[Any, ...], bytes]] = [
    # OPEN of a file, of a new one, to reclaim, and by handle.
    (_open(1, False, "NULL", b"name"), xdr(18, 0, 1 | 0x400, 0) + _OPEN_HEAD + xdr(0, 0, b"name")),
    (
        _open(3, True, "NULL", b"name"),
        xdr(18, 0, 3 | 0x400, 0) + _OPEN_HEAD + xdr(1, 1) + _MODE_0644 + xdr(0, b"name"),
    ),
    (_open(2, False, "PREVIOUS"), xdr(18, 0, 2 | 0x400, 0) + _OPEN_HEAD + xdr(0, 1, 0)),
    (_open(2, False, "FH"), xdr(18, 0, 2 | 0x400, 0) + _OPEN_HEAD + xdr(0, 4)),
    (("secinfo", _NAME4), xdr(33, b"name")),
    (("secinfo", ffi.NULL), xdr(52, 0)),  # SECINFO_NO_NAME
    (
        ("exchange_id", _VERIFIER, _OWNER, len(_OWNER)),
        xdr(42) + _VERIFIER + xdr(_OWNER, 0x10000, 0, 0),
    ),
    (
        ("create_session", _CLIENT, 6, _FORE),
        xdr(43, Hyper(_CLIENT), 6, 0) + xdr(0, 0x100001, 0x100002, 3, 4, 5, 0)
        + xdr(0, 4096, 4096, 0, 2, 1, 0) + xdr(0x40000000, 1, 0),
    ),
]  # fmt: skip


def compound(lib: CData, name: str, *arguments: Any, room: int) -> bytes | None:
    """Return a compound of one operation; None where there is no room for it."""
    made = zeros("nfs4_compound")

    def put(out: CData) -> None:
        lib.nfs4_begin(made, out, 1)
        getattr(lib, f"nfs4_put_{name}")(made, *arguments)

    return written(room, put)


def test_operations(testlib: CData) -> None:
    for put, sent in _OPERATIONS:
        whole = xdr(0, 1, 1) + sent
        assert compound(testlib, *put, room=len(whole)) == whole, put
        for room in range(len(whole)):
            assert compound(testlib, *put, room=room) is None, (put, room)


def test_operation_names(testlib: CData) -> None:
    for name, number in OPERATIONS.items():
        assert f"NFS4_{text(testlib.nfs4_operation_name(number))}" == name
    own = {f"NFS4_{one.name}": one.value for one in Op if one not in (Op.NULL, Op.COMPOUND)}
    assert own.items() <= OPERATIONS.items()
    assert text(testlib.nfs4_operation_name(99)) == "?"


# --- NFSv4.1: results ---


class Body(NamedTuple):
    """A result's body as it is sent, and what it says."""

    operation: Op
    sent: bytes
    says: Mapping[str, Any] = {}

    @property
    def result(self) -> bytes:
        return xdr(self.operation.value, 0) + self.sent


def reply(status: int, *results: bytes, tag: bytes = b"") -> bytes:
    return xdr(status, tag, len(results)) + b"".join(results)


_CHANGE = xdr(1, Hyper(2), Hyper(3))
_WHO = xdr(b"OWNER@")
_OPENED = _STATEID + _CHANGE + xdr(4)  # and attrset, and the delegation
_TIMES = b"".join(xdr(Hyper(number), number) for number in (1, 2, 3))
_STAT_VALUES = (
    xdr(5, Hyper(1), Hyper(7), Hyper(2), Hyper(3), Hyper(4))  # type to fileid
    + xdr(0o644, 1, b"root@lab", b"0", Hyper(0), Hyper(512)) + _TIMES
)  # fmt: skip
_OTHER4 = b"delegation's id."
_KERBEROS = bytes.fromhex("2a864886f712010202")  # 1.2.840.113554.1.2.2
_NAMES = {"major": b"major", "scope": b"scope 8."}
_SERVER = xdr(0, Hyper(5), _NAMES["major"], _NAMES["scope"])
_SERVER_SAYS: dict[str, Any] = {"minor": 5, "major_length": 5, "scope_length": 8}
_SERVER_SAYS |= {name: text.ljust(_OPAQUE_MAX, b"\0") for name, text in _NAMES.items()}
_FORE_SAYS = value(ffi.new("struct nfs4_channel *", [1, 2, 3, 4, 5])[0])
_NOTHING_READ = {"eof": False, "committed": 0, "verifier": bytes(8), "count": 0}


def _opened(attrset: bytes, delegation: bytes, delegated: bool = False) -> Body:
    says = {"stateid": {"bytes": _STATEID}, "delegated": delegated}
    says["delegation"] = {"bytes": _OTHER4 if delegated else bytes(16)}
    return Body(Op.OPEN, _OPENED + attrset + delegation, says)


def _attributes(
    kind: int,
    size: int,
    *,
    fsid: tuple[int, int] = (0, 0),
    fileid: int = 0,
    room: tuple[int, ...] = (U64,) * 6,
    **limits: int,
) -> dict[str, Any]:
    """Return what is read of attributes. The room is total, free, available: bytes, then files."""
    return {
        "kind": {"type": kind, "size": size},
        "identity": {"fsid": struct.pack("2Q", *fsid), "fileid": fileid},
        "room": value(ffi.new("struct meta_room *", room)[0]),
        "limits": {"read_max": 0, "write_max": 0, "lease_time": 0, **limits},
    }


BODIES = [
    _SEQUENCE := Body(
        Op.SEQUENCE, _SESSION + xdr(U32, 2, 3, 4, 5),
        {"sequence": U32, "slot": 2, "highest_slot": 3, "target_highest_slot": 4},
    ),
    Body(Op.PUTFH, b""),
    *(
        Body(Op.GETFH, xdr(one), {"length": len(one), "bytes": one.ljust(_FH_SIZE, b"\0")})
        for one in (b"handle", b"h" * _FH_SIZE)
    ),
    # Type and size; the limits too; what stat(2) tells; room.
    Body(Op.GETATTR, xdr(1, 1 << 1 | 1 << 4) + xdr(xdr(1, Hyper(U64))), _attributes(1, U64)),
    Body(
        Op.GETATTR, xdr(3, _ALL, 0, 0) + xdr(xdr(2, Hyper(7), 90, Hyper(8), Hyper(9))),
        _attributes(2, 7, lease_time=90, read_max=8, write_max=9),
    ),
    Body(
        Op.GETATTR, xdr(2, *_STAT) + xdr(_STAT_VALUES), _attributes(5, 7, fsid=(2, 3), fileid=4),
    ),
    Body(
        Op.GETATTR, xdr(2, *_ROOM) + xdr(xdr(2) + xdr(*map(Hyper, range(7)))),
        _attributes(2, 0, room=(6, 5, 4, 3, 2, 1)),
    ),
    Body(
        Op.SECINFO,
        xdr(5, 6, _KERBEROS, 0, 3, 1, 77, 6, _KERBEROS, 0, 1, 6, _KERBEROS[:-1], 0, 2),
        {"known": 1 << 0 | 1 << 1 | 1 << 3, "none": False},
    ),
    Body(
        Op.SECINFO_NO_NAME,
        xdr(4, 0, 6, _KERBEROS, 1, 2, 6, _KERBEROS, 0, 4, 6, _KERBEROS, 0, 0),
        {"known": 1 << 2, "none": True},
    ),
    Body(Op.READ, xdr(1, U32), _NOTHING_READ | {"count": U32, "eof": True}),
    Body(
        Op.WRITE, xdr(U32, 2) + _VERIFIER,
        _NOTHING_READ | {"count": U32, "committed": 2, "verifier": _VERIFIER},
    ),
    Body(Op.COMMIT, _VERIFIER, _NOTHING_READ | {"verifier": _VERIFIER}),
    # No delegation; attributes were set; a reason for none, without and with more behind it.
    _opened(xdr(0), xdr(0)),
    _opened(xdr(2, 0, 2), xdr(0)),
    _opened(xdr(0), xdr(3, 0)),
    _opened(xdr(0), xdr(3, 1, 1)),
    # One to read, and to write by bytes and by blocks.
    _opened(xdr(0), xdr(1) + _OTHER4 + xdr(0, 0, 0, 1) + _WHO, True),
    _opened(xdr(0), xdr(2) + _OTHER4 + xdr(1, 1, Hyper(4096), 0, 0, 1) + _WHO, True),
    _opened(xdr(0), xdr(2) + _OTHER4 + xdr(0, 2, 8, 4096, 0, 0, 1) + _WHO, True),
    Body(Op.CLOSE, _STATEID),
    Body(Op.CREATE, _CHANGE + xdr(2, 0, 2)),
    Body(Op.REMOVE, _CHANGE),
    # Of a server that does not tell its implementation, and of one that does.
    *(
        Body(
            Op.EXCHANGE_ID, xdr(Hyper(_CLIENT), 6, 0x80010000) + _SERVER + implementation,
            {"client": _CLIENT, "sequence": 6, "flags": 0x80010000, "server": _SERVER_SAYS},
        )
        for implementation in (xdr(0), xdr(1, b"kernel.org", b"Linux", Hyper(0), 0))
    ),
    # Over TCP, and over RDMA.
    *(
        Body(
            Op.CREATE_SESSION,
            _SESSION + xdr(6, 0) + xdr(0, 1, 2, 3, 4, 5, *ird) + xdr(0, 9, 9, 9, 9, 9, *ird),
            {"session": _SESSION, "fore": _FORE_SAYS},
        )
        for ird in ((0,), (1, 99))
    ),
    Body(Op.BIND_CONN_TO_SESSION, _SESSION + xdr(1, 0)),
]  # fmt: skip
_GOOD = _SEQUENCE.result


# What reads a result's body, and into what; nfs4_skip_result() goes over the others.
_GETTERS = {
    Op.SEQUENCE: ("nfs4_get_sequence", "nfs4_sequence_result"),
    Op.GETFH: ("nfs_handle_get", "nfs_handle"),
    Op.GETATTR: ("nfs4_get_attributes", "meta_attributes"),
    Op.SECINFO: ("nfs4_get_secinfo", "flavors"),
    Op.SECINFO_NO_NAME: ("nfs4_get_secinfo", "flavors"),
    Op.READ: ("nfs4_get_read", "io_result"),
    Op.WRITE: ("io_result_get_write", "io_result"),
    Op.COMMIT: ("io_result_get_commit", "io_result"),
    Op.OPEN: ("nfs4_get_open", "nfs4_open_result"),
    Op.EXCHANGE_ID: ("nfs4_get_exchange_id", "nfs4_exchange_result"),
    Op.CREATE_SESSION: ("nfs4_get_create_session", "nfs4_session_result"),
}


class Reading(NamedTuple):
    """What a reply says: `statuses` and `bodies` in the order of the operations."""

    flaw: int  # XDR_SHORT: bytes are needed
    left: int
    statuses: list[int]
    bodies: list[CData]
    used: int

    @property
    def sound(self) -> bool:
        return not self.flaw and not self.left


def read_results(lib: CData, sent: bytes, *operations: Op) -> Reading:
    """Read a reply's results, into structures full of rubbish."""
    results = zeros("nfs4_results")
    statuses, bodies = list[int](), list[CData]()

    def get(source: CData) -> None:
        lib.nfs4_read_results(results, source)
        for operation in operations:
            getter, kind = _GETTERS.get(operation, ("", ""))
            step = lib.nfs4_next_result if getter else lib.nfs4_skip_result
            statuses.append(step(results, operation.value))
            if statuses[-1]:
                return
            bodies.append(rubbish(kind) if getter else None)
            if getter:
                bound = [CONSTANTS.NFS4_FHSIZE] if operation is Op.GETFH else []
                getattr(lib, getter)(source, *bound, bodies[-1])

    used, flaw = read(sent, get)
    return Reading(flaw, results.left, statuses, bodies, used)


def test_nfs4_results(testlib: CData) -> None:
    for body in BODIES:
        sent = reply(0, _GOOD, body.result, tag=b"tagged")
        reading = read_results(testlib, sent + b"behind it", Op.SEQUENCE, body.operation)
        assert reading.sound, body
        assert (reading.used, reading.statuses) == (len(sent), [0, 0]), body
        told = [value(one[0]) for one in reading.bodies if one is not None]
        assert told == [one for one in (_SEQUENCE.says, body.says) if one], body


_IO = (Op.SEQUENCE, Op.PUTFH)
_PUT = xdr(22, 0)
_STALE = xdr(22, 70)
# A reply, the operations that were asked for, and the statuses that it has; what lies behind them
# is not read.
_ENDS: list[tuple[bytes, tuple[Op, ...], list[int], bytes]] = [
    (reply(0, _GOOD, _PUT), _IO, [0, 0], b""),
    (reply(70, _GOOD, _STALE), (*_IO, Op.READ), [0, 70], b""),
    (reply(10052, xdr(53, 10052)), _IO, [10052], b""),
    (reply(10044, xdr(10044, 10044)), _IO, [10044], b""),
    # The status of all, and of the last, differ.
    (reply(71, _GOOD, _STALE), _IO, [0, 70], b""),
    (reply(70, _GOOD, _PUT), _IO, [0, 0], b""),
    (reply(70, _GOOD), _IO, [0, 70], b""),
    # Some servers go on behind a failure: the operation's own status counts.
    *((reply(all_, _GOOD, _STALE, _PUT), (*_IO, Op.READ), [0, 70], _PUT) for all_ in (0, 70, 71)),
    (reply(10021, tag=b"t" * _OPAQUE_MAX), (Op.SEQUENCE,), [10021], b""),
]


def test_compounds_end(testlib: CData) -> None:
    for sent, operations, statuses, behind in _ENDS:
        reading = read_results(testlib, sent, *operations)
        assert reading.sound, sent
        assert (reading.statuses, reading.used) == (statuses, len(sent) - len(behind)), sent


_CONTRADICTIONS: list[tuple[bytes, tuple[Op, ...]]] = [
    (reply(0, _PUT), (Op.PUTROOTFH,)),
    (reply(70, xdr(10044, 70)), (Op.SEQUENCE,)),  # an unknown operation, and another status
    (reply(0, xdr(10044, 0)), (Op.PUTFH,)),  # one that went well
    (reply(0, _PUT), (Op.PUTFH, Op.READ)),
    (reply(0), (Op.PUTFH,)),
    (xdr(0, _OPAQUE_MAX + 1) + bytes(2000), (Op.PUTFH,)),  # the tag
    # Sizes and counts that are too large, of bytes that are all there.
    (reply(0, xdr(10, 0) + xdr(b"h" * (_FH_SIZE + 1)), _GOOD), (Op.GETFH,)),
    (
        reply(0, xdr(42, 0, Hyper(7), 6, 0, 0, Hyper(5), b"m" * (_OPAQUE_MAX + 1), b"", 0), _GOOD),
        (Op.EXCHANGE_ID,),
    ),
    (reply(0, xdr(33, 0, 65, *[1] * 65), _GOOD), (Op.SECINFO,)),
]


def test_compounds_that_contradict(testlib: CData) -> None:
    """It stays so, although there are bytes enough. What else contradicts, or is cut, is fuzzed."""
    for sent, operations in _CONTRADICTIONS:
        reading = read_results(testlib, sent + bytes(200), *operations, Op.SEQUENCE)
        assert reading.flaw == CONSTANTS.XDR_WRONG, (sent, operations)
        assert not reading.statuses[-1], (sent, operations)
    reading = read_results(testlib, reply(0, _PUT, _PUT), Op.PUTFH)
    assert (reading.sound, reading.left) == (False, 1), "a result too many"


# --- nfsstat4 ---


def test_nfs4_status_names(testlib: CData) -> None:
    names = {n: text(testlib.nfs4_status(n).name) for n in range(11_000)}
    for status in Status4:
        assert names[status] == ("NFS4_OK" if status is Status4.OK else f"NFS4ERR_{status.name}")
    known = [n for n, name in names.items() if not name.startswith("an unknown")]
    assert known[0] == 0
    assert known[-1] == 10087
    assert len(known) == len({names[n] for n in known}) == 104
    assert set(range(10001, 10088)) - set(known) == {10002, 10073}


def test_errnos(testlib: CData) -> None:
    expected = {"OK": 0, "ENOENT": 2, "EACCES": 13, "EEXIST": 17, "ENOSPC": 28, "EROFS": 30}
    for name, number in {**expected, "EDQUOT": 69, "ESTALE": 70}.items():
        assert testlib.nfs4_status(number).error == getattr(errno, name, 0), name
    assert {testlib.nfs4_status(number).error for number in (10008, 10013)} == {errno.EAGAIN}
    lost = (10011, 10022, 10023, 10024, 10025, 10047, 10052, 10078, 10087, 12345)
    assert {testlib.nfs4_status(number).error for number in lost} == {errno.EIO}
    assert testlib.nfs4_status(10021).error == errno.EPROTONOSUPPORT
