# SPDX-License-Identifier: GPL-2.0-only
"""Messages in memory: RPC replies (RFC 5531), NFSv3 calls and results (RFC 1813)."""

from __future__ import annotations

import errno
import random
import struct
from dataclasses import dataclass

import pytest
from engine_c import CONSTANTS, CData, Guarded, ffi, name_of, read, text, text_of, value, zeros
from hypothesis import given
from hypothesis import strategies as st
from xdrlib3 import Unpacker

from servers.scripted.call import decode
from servers.scripted.protocol import (
    AcceptStat,
    AuthStat,
    Nfs,
    Stable,
    Status,
    accepted,
    denied,
    message,
    rpc_mismatch,
)

U32, U64 = 2**32 - 1, 2**64 - 1
WORDS, HYPERS = st.integers(0, U32), st.integers(0, U64)
VERIFIERS = st.binary(min_size=8, max_size=8)

# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")

# --- RPC headers ---


def with_verifier(stat: int, verifier: bytes, rest: bytes = b"") -> bytes:
    pad = bytes(-len(verifier) % 4)
    return struct.pack(">3I", 0, 9, len(verifier)) + verifier + pad + struct.pack(">I", stat) + rest


# What follows xid and REPLY, and what that means: verdict, auth_stat, low, high, errno, words.
_REPLIES: dict[bytes, tuple[str, int, int, int, int, str]] = {
    accepted(AcceptStat.SUCCESS): ("RPC_SUCCESS", 0, 0, 0, 0, ""),
    with_verifier(0, b"v" * 399): ("RPC_SUCCESS", 0, 0, 0, 0, ""),
    with_verifier(0, b"v" * 400): ("RPC_SUCCESS", 0, 0, 0, 0, ""),
    accepted(AcceptStat.PROG_UNAVAIL): ("RPC_PROG_UNAVAIL", 0, 0, 0, 93, "does not offer NFS"),
    with_verifier(2, b"v", struct.pack(">2I", 4, U32)): (
        "RPC_PROG_MISMATCH", 0, 4, U32, errno.EPROTONOSUPPORT, "versions 4 to 4294967295, not 3",
    ),
    accepted(AcceptStat.PROC_UNAVAIL): ("RPC_PROC_UNAVAIL", 0, 0, 0, 93, "lacks the procedure"),
    accepted(AcceptStat.GARBAGE_ARGS): ("RPC_GARBAGE_ARGS", 0, 0, 0, 22, "could not read"),
    accepted(AcceptStat.SYSTEM_ERR): ("RPC_SYSTEM_ERR", 0, 0, 0, 121, "ran out of some"),
    rpc_mismatch(3, 4): ("RPC_MISMATCH", 0, 3, 4, 93, "RPC versions 3 to 4"),
    denied(AuthStat.BADCRED): ("RPC_AUTH_ERROR", 1, 0, 0, errno.EACCES, "denied the credentials"),
    denied(AuthStat.TOOWEAK): ("RPC_AUTH_ERROR", 5, 0, 0, errno.EACCES, "(AUTH_TOOWEAK)"),
    struct.pack(">3I", 1, 1, U32): ("RPC_AUTH_ERROR", U32, 0, 0, errno.EACCES, "unknown auth_stat"),
}  # fmt: skip
_NO_REPLIES: dict[str, bytes] = {
    "accept_stat 6": struct.pack(">4I", 0, 0, 0, 6),
    "accept_stat 2^32-1": struct.pack(">4I", 0, 0, 0, U32),
    "a verifier of 401 bytes": struct.pack(">3I", 0, 0, 401) + bytes(500),
    "a verifier of 4 GiB": struct.pack(">3I", 0, 0, U32) + bytes(500),
    "neither accepted nor denied": struct.pack(">I", 2),
    "reject_stat 2": struct.pack(">2I", 1, 2),
}


def decode_reply(lib: CData, sent: bytes) -> tuple[CData, int, bool]:
    """Return the header, where the results begin, and whether it needs more."""
    header = zeros("rpc_reply_header")
    return header, *read(sent, lambda source: lib.rpc_decode_reply(source, header))


def test_reply_headers(testlib: CData) -> None:
    for rest, (*meaning, words) in _REPLIES.items():
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


@given(st.binary(min_size=1, max_size=64), HYPERS, WORDS, st.sampled_from(Stable))
def test_nfs_calls(testlib: CData, handle: bytes, offset: int, length: int, stable: Stable) -> None:
    """Up to a WRITE's data, of which there is none here."""
    file = ffi.new("struct nfs_handle *", [len(handle), handle])
    for procedure, numbers, expected in (
        (Nfs.READ, (offset, length), (offset, length, Stable.UNSTABLE)),
        (Nfs.WRITE, (offset, 0, stable), (offset, 0, stable)),
        (Nfs.COMMIT, (), (0, 0, Stable.UNSTABLE)),
    ):
        encode = getattr(testlib, f"nfs3_encode_{procedure.name.lower()}")
        out = Guarded(96)
        encode(cursor := out.cursor("xdr_out"), file, *numbers)
        assert out.intact
        call = decode(procedure, Unpacker(out.content[: out.used(cursor)]))
        assert (call.handle, call.offset, call.count, call.stable) == (handle, *expected)


_FILE, _DIRECTORY = b"a file", b"a directory"
_NAME, _OTHER = b"name", b"other"


def opaque(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def attributes(mode: int) -> bytes:
    """Return a sattr3 (2.6) that sets a mode alone."""
    return struct.pack(">7I", 1, mode, 0, 0, 0, 0, 0)


_PLACE = opaque(_DIRECTORY) + opaque(_NAME)  # diropargs3
# What RFC 1813, 3.3 makes of each procedure but those of the data path: number and arguments.
_CALLS: dict[str, tuple[int, bytes]] = {
    "GETATTR": (1, opaque(_FILE)),
    "SETATTR": (2, opaque(_FILE) + struct.pack(">7I", 0, 0, 0, 0, 0, 1, 0)),  # mtime, no guard
    "LOOKUP": (3, _PLACE),
    "ACCESS": (4, opaque(_FILE) + struct.pack(">I", 0x3F)),
    "CREATE": (8, _PLACE + struct.pack(">I", 1) + attributes(0o644)),  # GUARDED
    "MKDIR": (9, _PLACE + attributes(0o755)),
    "SYMLINK": (10, _PLACE + attributes(0o777) + opaque(b"nowhere")),
    "REMOVE": (12, _PLACE),
    "RMDIR": (13, _PLACE),
    "RENAME": (14, _PLACE + opaque(_DIRECTORY) + opaque(_OTHER)),
    "LINK": (15, opaque(_FILE) + opaque(_DIRECTORY) + opaque(_OTHER)),
    "READDIR": (16, opaque(_DIRECTORY) + struct.pack(">Q8sI", 5, b"verifier", 4096)),
    "FSSTAT": (18, opaque(_FILE)),
    "FSINFO": (19, opaque(_FILE)),
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
    asked.name, asked.other, asked.bytes = _NAME, _OTHER, 4096
    for name, (procedure, arguments) in _CALLS.items():
        asked.op = getattr(CONSTANTS, f"META_{name}")
        header = (7, 0, 2, 100003, 3, procedure)
        assert call_sent(testlib, asked) == (header, arguments), name
    assert call_sent(testlib, ffi.NULL) == ((7, 0, 2, 100003, 3, 0), b"")


# --- NFSv3 results ---


@dataclass(frozen=True)
class Expected:
    """Results as they are sent, and what they say."""

    procedure: Nfs
    sent: bytes
    status: int = 0
    count: int = 0
    eof: bool = False
    committed: int = 0
    verifier: bytes = bytes(8)


@st.composite
def results(draw: st.DrawFn) -> Expected:
    """Draw the results of READ (up to its data), WRITE or COMMIT."""
    noise = random.Random(draw(st.integers(0, 99)))
    procedure = draw(st.sampled_from([Nfs.READ, Nfs.WRITE, Nfs.COMMIT]))
    status = draw(st.one_of(st.just(0), WORDS))
    sent = struct.pack(">I", status)
    for size in [84] if procedure is Nfs.READ else [24, 84]:
        there = draw(st.booleans())
        sent += struct.pack(">I", there) + (noise.randbytes(size) if there else b"")
    if status:
        return Expected(procedure, sent, status)
    count, eof, verifier = draw(WORDS), draw(st.booleans()), draw(VERIFIERS)
    committed = draw(st.integers(0, 2))
    if procedure is Nfs.READ:
        return Expected(procedure, sent + struct.pack(">3I", count, eof, count), 0, count, eof)
    if procedure is Nfs.WRITE:
        sent += struct.pack(">2I", count, committed) + verifier
        return Expected(procedure, sent, count=count, committed=committed, verifier=verifier)
    return Expected(procedure, sent + verifier, verifier=verifier)


def decode_results(lib: CData, procedure: Nfs, sent: bytes) -> tuple[bool, int, CData, int, bool]:
    """Return whether they are sound, status and result, the bytes used, whether it needs more."""
    status, result, sound = ffi.new("uint32_t *"), zeros("io_result"), []
    used, more = read(
        sent, lambda source: sound.append(lib.nfs3_decode(source, procedure.value, status, result))
    )
    return sound[0], status[0], result, used, more


@given(results(), st.binary(max_size=20))
def test_results(testlib: CData, expected: Expected, behind: bytes) -> None:
    sound, status, result, used, more = decode_results(
        testlib, expected.procedure, expected.sent + behind
    )
    assert (sound, more, used) == (True, False, len(expected.sent))
    assert status == expected.status
    assert (result.count, result.eof) == (expected.count, expected.eof)
    assert (result.committed, value(result.verifier)) == (expected.committed, expected.verifier)
    for length in range(len(expected.sent)):
        assert decode_results(testlib, expected.procedure, expected.sent[:length])[-1], (
            "more is needed"
        )


@given(results(), st.data())
def test_contradictory_results(testlib: CData, expected: Expected, data: st.DataObject) -> None:
    """A boolean that is neither, another length than the count, an unknown stable_how."""
    sent, wrong = expected.sent, st.integers(2, U32)
    places: dict[int, st.SearchStrategy[int]] = {4: wrong}  # the first optional attributes
    if expected.procedure is not Nfs.READ:
        second = 8 + 24 * sent[7]
        places[second] = wrong
    if not expected.status and expected.procedure is Nfs.READ:
        places[len(sent) - 8] = wrong
        places[len(sent) - 4] = WORDS.filter(lambda length: length != expected.count)
    if not expected.status and expected.procedure is Nfs.WRITE:
        places[len(sent) - 12] = st.integers(3, U32)
    for place, values in places.items():
        changed = bytearray(sent)
        struct.pack_into(">I", changed, place, data.draw(values))
        sound, *_, used, _ = decode_results(
            testlib, expected.procedure, bytes(changed) + bytes(200)
        )
        assert not sound, f"{changed!r}, where the word at {place} is wrong"
        assert used <= len(sent) + 200


def test_status_names(testlib: CData) -> None:
    own = {Status.BADHANDLE: "EBADF", Status.NOTSUPP: "EOPNOTSUPP", Status.JUKEBOX: "EAGAIN"}
    own |= {Status.OK: "", Status.ACCES: "EACCES", Status.SERVERFAULT: "EREMOTEIO"}
    own |= {Status.BAD_COOKIE: "EIO"}
    for status in Status:
        name = "NFS3_OK" if status is Status.OK else f"NFS3ERR_{status.name}"
        assert text(testlib.nfs3_status_name(status)) == name
        word = own.get(status, f"E{status.name}")
        assert testlib.nfs3_errno(status) == (getattr(errno, word) if word else 0), name
