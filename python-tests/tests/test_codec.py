# SPDX-License-Identifier: GPL-2.0-only
"""Messages in memory: RPC replies (RFC 5531), NFSv3 calls and results (RFC 1813)."""

import errno
import struct
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import pytest
from engine_c import CONSTANTS, CData, Guarded, ffi, name_of, read, text, text_of, value, zeros

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
from servers.scripted import Nfs, Status

U32, U64 = 2**32 - 1, 2**64 - 1
_VERIFIER = b"verifier"

# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")

# --- RPC headers ---


# What follows xid and REPLY, and what that means: verdict, auth_stat, low, high, errno, words.
REPLIES: dict[bytes, tuple[str, int, int, int, int, str]] = {
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
    rpc_mismatch(3, 4): ("RPC_MISMATCH", 0, 3, 4, 93, "RPC versions 3 to 4"),
    denied(AuthStat.BADCRED): ("RPC_AUTH_ERROR", 1, 0, 0, errno.EACCES, "denied the credentials"),
    denied(AuthStat.TOOWEAK): (
        "RPC_AUTH_ERROR", 5, 0, 0, errno.EACCES, "(AUTH_TOOWEAK): it may want a reserved source",
    ),
    xdr(1, 1, U32): ("RPC_AUTH_ERROR", U32, 0, 0, errno.EACCES, "unknown auth_stat"),
}  # fmt: skip
_NO_REPLIES: dict[str, bytes] = {
    "accept_stat 6": xdr(0, 0, 0, 6),
    "accept_stat 2^32-1": xdr(0, 0, 0, U32),
    "a verifier of 401 bytes": xdr(0, 0, 401) + bytes(500),
    "a verifier of 4 GiB": xdr(0, 0, U32) + bytes(500),
    "neither accepted nor denied": xdr(2),
    "reject_stat 2": xdr(1, 2),
}


def decode_reply(lib: CData, sent: bytes) -> tuple[CData, int, bool]:
    """Return the header, where the results begin, and whether it needs more."""
    header = zeros("rpc_reply_header")
    return header, *read(sent, lambda source: lib.rpc_decode_reply(source, header))


def test_reply_headers(testlib: CData) -> None:
    for rest, (*meaning, words) in REPLIES.items():
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
    said = {what: message(7, rest) for what, rest in _NO_REPLIES.items()}
    for kind in (0, 2, U32):
        said[f"message type {kind}"] = message(7, accepted(AcceptStat.SUCCESS), kind)
    for what, data in said.items():
        header, _, more = decode_reply(testlib, data)
        assert (more, header.xid, name_of("rpc_verdict", header.verdict)) == (
            False,
            7,
            "RPC_NOT_A_REPLY",
        ), what
        assert testlib.rpc_verdict_errno(header) == errno.EPROTO


def verdict_text(lib: CData, header: CData) -> str:
    return text_of(500, lambda room, size: lib.rpc_verdict_text(header, 3, room, size))


@pytest.mark.parametrize(
    ("flavor", "belief"),
    [(0, "BELIEVED"), (1, "BELIEVED"), (2, "BELIEVED"), (3, "REFUSED"), (6, "REFUSED")],
)
def test_a_reply_to_auth_sys_has_one_of_its_verifiers(
    testlib: CData, flavor: int, belief: str
) -> None:
    """AUTH_SHORT, too: it offers a credential that no client need use (RFC 5531, appendix A)."""
    auth, verifier = zeros("auth_sys"), zeros("rpc_verifier")
    testlib.auth_sys_init(auth, zeros("auth_sys_ids"))
    verifier.flavor = flavor
    found = auth.base.flavor.check(ffi.addressof(auth, "base"), zeros("rpc_stamp"), verifier)
    assert name_of("rpc_belief", found) == f"RPC_{belief}"


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
ffi.cdef("uint8_t *nfs3_put_call(struct xdr_out *, const struct meta_arguments *);")


def test_calls_of_the_data_path(testlib: CData) -> None:
    """Up to a WRITE's data, of which there is none here."""
    for handle in (_FILE, b"h" * 64):
        file, begin = ffi.new("struct nfs_handle *", [len(handle), handle]), xdr(handle)
        for name, numbers, sent in (
            ("read", (1 << 40, 512), xdr(Hyper(1 << 40), 512)),
            ("write", (3 << 40, 0, 2), xdr(Hyper(3 << 40), 0, 2, 0)),
            ("commit", (), xdr(Hyper(0), 0)),
        ):
            out, encode = Guarded(96), getattr(testlib, f"nfs3_encode_{name}")
            encode(cursor := out.cursor("xdr_out"), file, *numbers)
            assert out.intact
            assert out.content[: out.used(cursor)] == begin + sent, name


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
    asked.name, asked.other, asked.bytes = _NAME, _OTHER, 4096
    for name, (procedure, arguments) in _CALLS.items():
        asked.op = getattr(CONSTANTS, f"META_{name}")
        header = (7, 0, 2, 100003, 3, procedure)
        assert call_sent(testlib, asked) == (header, arguments), name
    assert call_sent(testlib, ffi.NULL) == ((7, 0, 2, 100003, 3, 0), b"")


# --- NFSv3 results ---


class Expected(NamedTuple):
    """Results as they are sent, and what they say."""

    procedure: Nfs
    sent: bytes
    status: int = 0
    moved: int = 0
    eof: bool = False
    committed: int = 0
    verifier: bytes = bytes(8)


def results() -> Iterator[Expected]:
    """Yield results of READ (up to its data), WRITE and COMMIT."""
    data_path = [(Nfs.READ, [84]), (Nfs.WRITE, [24, 84]), (Nfs.COMMIT, [24, 84])]
    for procedure, sizes in data_path:
        for there in product((0, 1), repeat=len(sizes)):
            given = b"".join(
                xdr(one) + b"\xa5" * size * one for one, size in zip(there, sizes, strict=True)
            )
            yield Expected(procedure, xdr(70) + given, 70)
            for count, word in ((0, 0), (4096, 1), (U32, 1)):
                sent = bytes(4) + given
                if procedure is Nfs.READ:
                    sent += xdr(count, word, count)
                    yield Expected(procedure, sent, 0, count, bool(word))
                elif procedure is Nfs.WRITE:
                    sent += xdr(count, 2 * word) + _VERIFIER
                    yield Expected(procedure, sent, 0, count, False, 2 * word, _VERIFIER)
                else:
                    yield Expected(procedure, sent + _VERIFIER, verifier=_VERIFIER)


def decode_results(lib: CData, procedure: Nfs, sent: bytes) -> tuple[bool, int, CData, int, bool]:
    """Return whether they are sound, status and result, the bytes used, whether it needs more."""
    status, result, sound = ffi.new("uint32_t *"), zeros("io_result"), []
    used, more = read(
        sent, lambda source: sound.append(lib.nfs3_decode(source, procedure.value, status, result))
    )
    return sound[0], status[0], result, used, more


def test_results(testlib: CData) -> None:
    for expected in results():
        sent, procedure = expected.sent, expected.procedure
        sound, status, result, used, more = decode_results(testlib, procedure, sent + b"behind")
        assert (sound, more, used) == (True, False, len(sent)), expected
        assert (status, result.count, result.eof) == expected[2:5], expected
        assert (result.committed, value(result.verifier)) == expected[5:], expected
        for length in range(len(sent)):
            assert decode_results(testlib, procedure, sent[:length])[-1], "more is needed"


def test_contradictory_results(testlib: CData) -> None:
    """A boolean that is neither, another length than the count, an unknown stable_how."""
    for expected in results():
        sent, end = expected.sent, len(expected.sent)
        places = {4: (2, U32)}  # the first optional attributes
        if expected.procedure is not Nfs.READ:
            places[8 + 24 * sent[7]] = (2, U32)
        if not expected.status and expected.procedure is Nfs.READ:
            places[end - 8] = (2, U32)
            places[end - 4] = (expected.moved ^ 1, expected.moved ^ 1 << 31)
        if not expected.status and expected.procedure is Nfs.WRITE:
            places[end - 12] = (3, U32)
        for place, words in places.items():
            for word in words:
                changed = bytearray(sent) + bytes(200)
                struct.pack_into(">I", changed, place, word)
                sound, *_ = decode_results(testlib, expected.procedure, bytes(changed))
                assert not sound, (expected, place, word)


# Of a metadata operation: sizes of the optional attributes in front (RFC 1813, 2.6), which are all
# that a failure has; and what a success has besides, before and behind them.
_FATTR, _WCC = (84,), (24, 84)
_MADE = struct.pack(">I", 1) + xdr(_FILE) + bytes(4)  # a handle, but no attributes
_META_RESULTS: dict[str, tuple[Sequence[int], bytes, bytes]] = {
    "GETATTR": ((), bytes(84), b""),
    "LOOKUP": (_FATTR, xdr(_FILE) + bytes(4), b""),
    "ACCESS": (_FATTR, b"", bytes(4)),
    "SETATTR": (_WCC, b"", b""),
    "CREATE": (_WCC, _MADE, b""),
    "MKDIR": (_WCC, _MADE, b""),
    "SYMLINK": (_WCC, _MADE, b""),
    "REMOVE": (_WCC, b"", b""),
    "RMDIR": (_WCC, b"", b""),
    "RENAME": (_WCC * 2, b"", b""),
    "LINK": (_FATTR + _WCC, b"", b""),
    "READDIR": (_FATTR, b"", bytes(16)),
    "FSSTAT": (_FATTR, b"", bytes(52)),
    "FSINFO": (_FATTR, b"", bytes(48)),
}


def decode_meta(lib: CData, operation: str, sent: bytes) -> tuple[bool, int, int, bool]:
    """Return whether they are sound, the status, the bytes used, whether it needs more."""
    status, result, sound = ffi.new("uint32_t *"), zeros("meta_result"), []
    op = getattr(CONSTANTS, f"META_{operation}")
    used, more = read(
        sent, lambda source: sound.append(lib.nfs3_decode_meta(source, op, status, result))
    )
    return sound[0], status[0], used, more


@pytest.mark.parametrize("name", _META_RESULTS)
def test_results_for_metadata(testlib: CData, name: str) -> None:
    """All of them are read, and no more, whichever attributes the server leaves out."""
    sizes, before, behind = _META_RESULTS[name]
    for there in product((0, 1), repeat=len(sizes)):
        given = b"".join(
            struct.pack(">I", one) + b"\xa5" * size * one
            for one, size in zip(there, sizes, strict=True)
        )
        for status, rest in ((0, before + given + behind), (70, given)):
            sent = struct.pack(">I", status) + rest
            found = decode_meta(testlib, name, sent + b"behind")
            assert found == (True, status, len(sent), False), there


def test_status_names(testlib: CData) -> None:
    own = {Status.BADHANDLE: "EBADF", Status.NOTSUPP: "EOPNOTSUPP", Status.JUKEBOX: "EAGAIN"}
    own |= {Status.OK: "", Status.ACCES: "EACCES", Status.SERVERFAULT: "EREMOTEIO"}
    own |= {Status.BAD_COOKIE: "EIO"}
    for status in Status:
        name = "NFS3_OK" if status is Status.OK else f"NFS3ERR_{status.name}"
        assert text(testlib.nfs3_status_name(status)) == name
        word = own.get(status, f"E{status.name}")
        assert testlib.nfs3_errno(status) == (getattr(errno, word) if word else 0), name
    assert text(testlib.nfs3_status_name(12345)) == "an unknown nfsstat3"
