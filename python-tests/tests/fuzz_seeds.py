# SPDX-License-Identifier: GPL-2.0-only
"""What the fuzzers of python-tests/fuzz/ begin with: a few inputs each, most of them sound.

The vectors of other tests are among them. An input that once failed belongs here too.
"""

import re
import struct
from collections.abc import Sequence

import test_codec
import test_pool
import test_wire

from nfsmulti.paths import PYTHON_TESTS
from servers.rpc import STARTTLS, AcceptStat, AuthStat, accepted, denied, mark, message, record, xdr

_XID = 0x01020304
_ATTRIBUTES = struct.pack(">I84x", 1)
_NOBODYS, _BROKEN, _AGAIN, _DROPPED = 1 << 31, 1 << 30, 1 << 29, 1 << 28


def _stream(records: bytes, sizes: Sequence[int] = (255,)) -> bytes:
    """Return a stream for record.c: the squares of 16 sizes cut it."""
    return bytes(sizes[i % len(sizes)] for i in range(16)) + records


def _message(head: int, bulk: int, kind: int = 0, rest: int = 0) -> bytes:
    """Return a message for record.c: a head of 8 bytes and more, bulk data, a rest."""
    return xdr(head - 8, bulk | kind) + bytes(head - 8) + bytes(bulk) + bytes(rest)


_RECORDS = (
    record(_message(128, 20000, _AGAIN, rest=40)) * 2 + record(_message(8, 0, _AGAIN)),
    record(_message(40, 300), (8, 0, 33)) + record(_message(8, 1), (1,)),
    record(_message(128, 20000, _DROPPED, rest=3), (9000,)) * 2 + record(_message(8, 3)),
    record(_message(200, 50, _NOBODYS)) + record(_message(8, 0, _BROKEN)),
    record(_message(128, 20000)) + record(_message(39000, 0)),  # a head longer than any
    mark(0) + mark(1 << 30, last=False),
)

# Directories' pages.
_READDIR3 = xdr(1, 0, 5, 2) + b"e4\0\0" + xdr(0, 3, 1, 0, 6, 5) + b"e4.13\0\0\0" + xdr(0, 4)
_READDIR4 = xdr(1, 0, 3, 2) + b"e4\0\0" + xdr(0, 0, 1, 0, 4, 2) + b"r5\0\0" + xdr(1, 0, 0)
_READDIR, _RENAME, _ACCESS, _SETATTR = 26, 29, 3, 34
_BODIES = [
    *((body.operation.value, body.result) for body in test_codec.BODIES),
    (_READDIR, xdr(_READDIR, 0) + b"verifier" + _READDIR4 + xdr(0, 1)),
    (_READDIR, xdr(_READDIR, 10027)),
    (_RENAME, xdr(_RENAME, 0) + 2 * xdr(1, 0, 2, 0, 3)),
    (_ACCESS, xdr(_ACCESS, 0, 63, 31)),
    (_SETATTR, xdr(_SETATTR, 13, 0)),
]


def _results() -> list[bytes]:
    """Return replies to compounds, whose operations fuzz/nfs.c knows by their places."""
    source = (PYTHON_TESTS / "fuzz/nfs.c").read_text().partition("operations[] = {")[2]
    names = re.findall(r"NFS4_(\w+)", source.partition("}")[0])
    numbers = test_codec.OPERATIONS
    places = {numbers[f"NFS4_{name}"]: place for place, name in enumerate(names)}
    seeds = [bytes(1) + xdr(10021, 0, 0)]
    for operation, result in _BODIES:
        if operation in places:
            status = int.from_bytes(result[4:8])
            seeds.append(bytes([1, places[operation]]) + xdr(status, 0, 1) + result)
    return seeds


def _token(choice: int, flags: int, extra: int = 0, rotation: int = 0) -> bytes:
    """Return a Wrap token for krb5_token.c, not sealed yet; an EC of 4096 lies."""
    outer, copy = (struct.pack(">4B2HQ", 5, 4, flags, 255, extra, rrc, 7) for rrc in (rotation, 0))
    return bytes([choice]) + outer + bytes(16) + b"plaintext" + bytes(extra % 4096) + copy


# RPCSEC_GSS: the reply that makes the client's context, and those to its call.


def _some(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _init(window: int = 5, handle: bytes = b"ctx1", major: int = 1) -> bytes:
    """Return the reply that makes a context; the window by its place in fuzz/rpcsec_gss.c."""
    proved, fields, minor = 1, 1, 0
    head = bytes([window, proved, fields]) + _some(handle)
    return head + bytes([major, minor]) + _some(b"a token")


def _reply(form: int, number: int = 0) -> bytes:
    """Return a reply to the call, whose verifier is of its latest number or the one before."""
    proved = 1
    return bytes([number, proved, form]) + _some(b"results of a call")


_FOREIGN_REPLY = bytes([0, 0, 6]) + _some(bytes(28)) + b"\3" + _some(b"results")
_CLIENTS = (
    *(_init() + _reply(form) for form in range(4)),
    _init() + _FOREIGN_REPLY + _reply(3, 1),
    _init() + _reply(3, 2) + _reply(3),
    *(_init(window=window) for window in range(10)),
    _init(handle=bytes(129)),
    _init(major=128),
)

# TLS: how fuzz/tls.c is to read what follows.
_PROBE, _RECORD, _WITHOUT_TYPE, _, _, _NONE = range(6)
_ALERT, _HANDSHAKE = 21, 22
_TICKET, _KEY_UPDATE = xdr(4 << 24 | 9) + bytes(9), xdr(24 << 24 | 1) + b"\0"
_OFFER = record(message(_XID, accepted(AcceptStat.SUCCESS, verifier=STARTTLS)))


def _said(form: int, choice: int, what: bytes = b"") -> bytes:
    return bytes([form, choice]) + what


_DATA_PATH = ("READ", "WRITE", "COMMIT")  # as fuzz/nfs.c has them

SEEDS: dict[str, tuple[bytes, ...]] = {
    "environment": (
        b"e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/\0e4b",
        b"e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/\0/mnt/v33/dir/file",
        b"lab:nfs://10.0.0.[1-2]/x\t\ne4a:/\0nobody",
    ),
    "krb5_token": (
        bytes(1) + b"\4\4\0" + b"\xff" * 5 + bytes(20),
        *(_token(16 + choice, 2 + 4 * (choice % 2)) for choice in range(8)),
        *(_token(16 + choice, 2, extra, 40) for choice in (0, 4) for extra in (0, 7, 60, 4096)),
        *(_token(24 + choice, 3 + 4 * choice) for choice in (0, 1)),
    ),
    "message": tuple(message(_XID, rest) for rest in test_codec.RPC_REPLIES),
    "nfs3": (
        *(
            bytes([_DATA_PATH.index(name)]) + sent
            for name, sent, *_ in test_codec.results()
            if name in _DATA_PATH
        ),
        b"\x07" + xdr(0) + _ATTRIBUTES + b"verifier" + _READDIR3 + xdr(0, 1),
        b"\x07" + xdr(10003) + bytes(4),
    ),
    "nfs4": tuple(_results()),
    "pool": (
        b"/mnt/a,/mnt/b/\0/mnt/b/dir/file",
        *(pool.encode() + b"\0/file" for pool in test_pool.ACCEPTED if len(pool) < 300),
        *(b"nfs://", b"nfs://[", b"nfs://[%", b"nfs://h/%", b"nfs://h/x?uid=%"),
        b"/mnt/a\0/mnt/a/" + b"x" * 5000,
    ),
    "record": (
        *(_stream(records, sizes) for records in _RECORDS for sizes in ((255,), (0, 3, 60))),
    ),
    "rpcrdma": (
        *(sent for sent, _ in test_wire.REPLIES.values()),
        *(sent for sent, _ in test_wire.REFUSED.values()),
        bytes.fromhex("f6ab0e18 01 01 03 3f"),
    ),
    "rpcsec_gss": (*(bytes([choice]) + client for choice in range(3) for client in _CLIENTS),),
    "tls": (
        *(_said(_PROBE, part, _OFFER) for part in (1, 255)),
        _said(_PROBE, 255, record(message(_XID, denied(AuthStat.TOOWEAK)))),
        *(_said(_RECORD, _ALERT, alert) for alert in (b"\1\0", b"\2\x74")),
        *(_said(_RECORD, _HANDSHAKE, said) for said in (_TICKET * 2 + _KEY_UPDATE, _TICKET[:-1])),
        *(_said(form, _HANDSHAKE, _TICKET) for form in (_WITHOUT_TYPE, _NONE)),
    ),
}
