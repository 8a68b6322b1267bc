# SPDX-License-Identifier: GPL-2.0-only
"""What the fuzzers of python-tests/fuzz/ begin with: a few inputs each, most of them sound.

An input that once failed belongs here too. `_KNFSD` are whole messages of Linux 6.1's server over
rdma_rxe, transport header and all: a READ of 16 bytes that came inline, and one of 64 KiB by RDMA;
`_KNFSD_PRIVATE` is what it sent when the connection was made (RFC 8797), with the padding of the
InfiniBand CM's message.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from nfsmulti.calls import AUTH_NONE, STARTTLS, xdr
from servers.scripted.protocol import (
    AcceptStat,
    AuthStat,
    accepted,
    denied,
    mark,
    message,
    record,
    rpc_mismatch,
)

_KNFSD = {
    "READ": bytes.fromhex(
        "263e77e6000000010000004000000000000000000000000000000000263e77e60000000100000000"
        "000000000000000000000000000000000000000100000001000001a4000000010000000000000000"
        "00000000000000210000000000001000000000000000000000000000000000000000000000000002"
        "6b007f7501cb8e186b007f723231b1196b007f723231b11900000010000000000000001041206669"
        "6c6520746861742074686520"
    ),
    "READ by a chunk": bytes.fromhex(
        "5378f1a400000001000000400000000000000000000000010000000100000962000100000000563c"
        "4a91cd0000000000000000005378f1a4000000010000000000000000000000000000000000000000"
        "0000000100000001000001a400000001000000000000000000000000000100000000000000010000"
        "0000000000000000000000000000000000000000000000036b007f78258ed4166b007f761c427517"
        "6b007f761c427517000100000000000100010000"
    ),
}

_KNFSD_PRIVATE = bytes.fromhex("f6ab0e1801000303") + bytes(188)

_XID = 0x01020304
_ATTRIBUTES, _NO_ATTRIBUTES = struct.pack(">I84x", 1), bytes(4)
_BEFORE = struct.pack(">I24x", 1)
_NOBODYS, _BROKEN, _AGAIN, _DROPPED = 1 << 31, 1 << 30, 1 << 29, 1 << 28


def _words(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def _stream(records: bytes, sizes: Sequence[int] = (255,)) -> bytes:
    """Return a stream for record.c: the squares of 16 sizes cut it."""
    return bytes(sizes[i % len(sizes)] for i in range(16)) + records


def _message(head: int, bulk: int, kind: int = 0, rest: int = 0) -> bytes:
    """Return a message for record.c: a head of 8 bytes and more, bulk data, a rest."""
    return _words(head - 8, bulk | kind) + bytes(head - 8) + bytes(bulk) + bytes(rest)


_RECORDS = (
    record(_message(128, 4096)) + record(_message(60, 0)),
    record(_message(128, 20000, rest=3)) * 2,
    record(_message(128, 20000, _AGAIN, rest=40)) * 2 + record(_message(8, 0, _AGAIN)),
    record(_message(40, 300), (8, 0, 33)) + record(_message(8, 1), (1,)),
    record(_message(128, 20000, _DROPPED, rest=3), (9000,)) * 2 + record(_message(8, 3)),
    record(_message(200, 50, _NOBODYS)) + record(_message(8, 8)),
    record(_message(8, 8)) + record(_message(8, 0, _BROKEN)),
    record(_message(128, 20000)) + record(_message(39000, 0)),  # a head longer than any
    mark(0) + mark(1 << 30, last=False),
)

# Transport headers: the lists of an RDMA_MSG, and its RPC message.
_HEAD = _words(_XID, 1, 32, 0)
_CHUNK = _words(1, 1, 0xDEADBEEF, 4096, 1, 0x2000)
_RPC = message(_XID, accepted(AcceptStat.SUCCESS))

# NFSv4.1: replies to compounds, whose operations fuzz/nfs4.c knows by their places in its list.
_SEQUENCE, _PUTFH = _words(53, 0) + b"session 16 bytes" + _words(1, 0, 63, 63, 0), _words(22, 0)
_READDIR3 = (
    _words(1, 0, 5, 2) + b"e4\0\0" + _words(0, 3, 1, 0, 6, 5) + b"e4.13\0\0\0" + _words(0, 4)
)
_READDIR4 = _words(1, 0, 3, 2) + b"e4\0\0" + _words(0, 0, 1, 0, 4, 2) + b"r5\0\0" + _words(1, 0, 0)
_CHANGE = _words(1, 0, 2, 0, 3)
_ID = b"stateid 16 bytes"
_KERBEROS = bytes.fromhex("2a864886f712010202000000")
_ACE = _words(0, 0, 1, 6) + b"OWNER@\0\0"
_DELEGATIONS = (
    _words(0),
    _words(3, 1, 1),
    _words(1) + _ID + _words(0) + _ACE,
    _words(2) + _ID + _words(0, 2, 8, 4096) + _ACE,
)
_SERVER = _words(0, 1, 5) + b"major\0\0\0" + _words(5) + b"scope\0\0\0"
_IMPLEMENTATION = _words(1, 4) + b"name" + _words(4) + b"name" + _words(0, 0, 0)
_CHANNEL = _words(0, 4096, 4096, 0, 2, 64)


def _results(operations: Sequence[int], *results: bytes, status: int = 0) -> bytes:
    head = bytes((len(operations), *operations)) + _words(status, 0, len(results))
    return head + b"".join(results)


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
    _init(handle=b""),
    _init(major=128),
    bytes([5, 1, 0]) + _some(_words(4) + b"ctx1" + _words(0, 0, 32, 0)),
)

# TLS: how fuzz/tls.c is to read what follows.
_PROBE, _RECORD, _WITHOUT_TYPE, _OTHER_LEVEL, _OTHER_KIND, _NONE = range(6)
_ALERT, _HANDSHAKE = 21, 22
_TICKET, _KEY_UPDATE = _words(4 << 24 | 9) + bytes(9), _words(24 << 24 | 1) + b"\0"
_OFFER = record(message(_XID, xdr(0, AUTH_NONE, STARTTLS, 0)))


def _said(form: int, choice: int, what: bytes = b"") -> bytes:
    return bytes([form, choice]) + what


_URLS = (
    "nfs://[fe80::1%eth0]:2049/export?proto=rdma&rdmaport=20049&soft&timeo=600&retrans=2",
    "nfs://n[08-11].lab/a%2Cb?version=3&nfsport=2049&mountport=20048&uid=0&gid=0,/mnt/a",
    "nfs://10.0.0.[1-4]/x?rsize=64k&wsize=1m&hard=0&localaddr=10.0.0.7+fe80::1%25eth0",
    "nfs://nas.lab/x?sec=krb5p&principal=me/it@LAB&keytab=FILE:/k%2Cy&ccache=DIR:/c&xprtsec=tls",
    "nfs://nas.lab/x?sec=sys&server_principal=nfs/nas.lab@LAB",
)

SEEDS: dict[str, tuple[bytes, ...]] = {
    "environment": (
        b"e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/\0e4b",
        b"e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/\0/mnt/v33/dir/file",
        b"a:/mnt b:/mnt\0/mnt/x",
        b"lab:nfs://10.0.0.[1-2]/x\t\ne4a:/\0nobody",
    ),
    "krb5_token": (
        *(bytes([choice]) + b"\4\4\0" + b"\xff" * 5 + bytes(20) for choice in range(8)),
        *(_token(choice, 2) for choice in range(8)),
        *(_token(16 + choice, 2 + 4 * (choice % 2)) for choice in range(8)),
        *(_token(16 + choice, 2, extra, 40) for choice in (0, 4) for extra in (0, 7, 60, 4096)),
        *(_token(24 + choice, 3 + 4 * (choice % 2)) for choice in range(8)),
    ),
    "message": (
        *(
            message(_XID, rest)
            for rest in (
                accepted(AcceptStat.SUCCESS),
                accepted(AcceptStat.PROG_MISMATCH),
                accepted(AcceptStat.GARBAGE_ARGS),
                rpc_mismatch(3, 4),
                denied(AuthStat.TOOWEAK),
            )
        ),
    ),
    "nfs3": (
        b"\0" + _words(0) + _ATTRIBUTES + _words(4096, 1, 4096),
        b"\1" + _words(0) + _BEFORE + _ATTRIBUTES + _words(4096, 2) + b"verifier",
        b"\2" + _words(0) + _NO_ATTRIBUTES * 2 + b"verifier",
        b"\0" + _words(70) + _NO_ATTRIBUTES,
        b"\1" + _words(10008) + _NO_ATTRIBUTES * 2,
        b"\x07" + _words(0) + _ATTRIBUTES + b"verifier" + _READDIR3 + _words(0, 1),
        b"\x07" + _words(0) + _NO_ATTRIBUTES + b"verifier" + _words(0, 0),
        b"\x07" + _words(10003) + _NO_ATTRIBUTES,
    ),
    "nfs4": (
        _results((0, 1, 2), _SEQUENCE, _PUTFH, _words(25, 0, 1, 4096)),
        _results((0, 1, 3), _SEQUENCE, _PUTFH, _words(38, 0, 4096, 2) + b"verifier"),
        _results((0, 1, 4), _SEQUENCE, _PUTFH, _words(5, 0) + b"verifier"),
        _results((0, 1, 2), _SEQUENCE, _words(22, 70), status=70),
        _results((0, 1, 2), _words(10044, 10044), status=10044),
        _results((0, 1, 2), status=10021),
        *(
            _results((1, 7, 5), _PUTFH, opened, _words(10, 0, 8) + b"a handle")
            for opened in (
                _words(18, 0) + _ID + _CHANGE + _words(4, 2, 0, 2) + one for one in _DELEGATIONS
            )
        ),
        _results((6,), _words(9, 0, 1, 0x12, 12, 1, 0, 4096)),
        _results((6,), _words(9, 0, 2, 0xC0000412, 0, 32, 2, 0, 9, 90, 0, 8, 0, 8)),
        _results(
            (6,),
            _words(9, 0, 2, 0x12, 0x32, 36, 1, 0, 0, 0o644, 1, 5)
            + b"0@lab\0\0\0"
            + _words(1)
            + b"0\0\0\0",
        ),
        _results((19,), _words(26, 0) + b"verifier" + _READDIR4 + _words(0, 1)),
        _results((19,), _words(26, 10027), status=10027),
        _results((1, 21), _PUTFH, _words(33, 0, 2, 1, 6, 9) + _KERBEROS + _words(0, 3)),
        _results((8, 10), _words(4, 0) + _ID, _words(28, 0) + _CHANGE),
        _results((9, 5), _words(6, 0) + _CHANGE + _words(2, 0, 2), _words(10, 0, 4) + b"here"),
        _results((11,), _words(42, 0, 1, 2, 1, 0x80010000, 0) + _SERVER + _words(0)),
        _results((11,), _words(42, 0, 1, 2, 1, 0, 0) + _SERVER + _IMPLEMENTATION),
        _results(
            (12,),
            _words(43, 0) + _ID + _words(1, 0) + (_CHANNEL + _words(0)) + _CHANNEL + _words(1, 9),
        ),
        _results((13,), _words(41, 0) + _ID + _words(1, 0)),
    ),
    "pool": (
        b"/mnt/a,/mnt/b/\0/mnt/b/dir/file",
        *(url.encode() + b"\0/file" for url in _URLS),
        *(b"nfs://", b"nfs://[", b"nfs://[%", b"nfs://h/%", b"nfs://h/x?uid=%"),
        b"/mnt/a\0/mnt/a/" + b"x" * 5000,
    ),
    "record": (
        *(_stream(records, sizes) for records in _RECORDS for sizes in ((255,), (0, 3, 60))),
    ),
    "rpcrdma": (
        _HEAD + _words(0, 0, 0) + _RPC,
        _HEAD + _words(0) + _CHUNK + _words(0, 0) + _RPC,
        _HEAD + _words(0, 1, 2) + _CHUNK[8:] * 2 + _words(0, 0) + _RPC,
        _HEAD + _words(0, 1, 8) + bytes(8 * 16) + _words(0, 0) + _RPC,
        _HEAD + _words(0, 1, 9) + bytes(9 * 16) + _words(0, 0) + _RPC,
        _HEAD + _words(1, 120) + _CHUNK[8:] + _words(0, 0, 0) + _RPC,
        _words(_XID, 1, 32, 1, 0, 0) + _CHUNK,
        _words(_XID, 1, 32, 4, 1, 1, 1),
        _words(_XID, 1, 32, 4, 2),
        bytes.fromhex("f6ab0e18 01 01 03 3f"),
        *_KNFSD.values(),
        _KNFSD_PRIVATE,
    ),
    "rpcsec_gss": (*(bytes([choice]) + client for choice in range(3) for client in _CLIENTS),),
    "tls": (
        *(_said(_PROBE, part, _OFFER) for part in (1, 7, 255)),
        _said(_PROBE, 255, _OFFER[:-2]),
        _said(_PROBE, 255, b"\0" + _OFFER[1:]),
        _said(_PROBE, 255, record(message(_XID, accepted(AcceptStat.SUCCESS)))),
        _said(_PROBE, 255, record(message(_XID, denied(AuthStat.TOOWEAK)))),
        *(_said(_PROBE, 255, mark(length) + bytes(512)) for length in (0, 508, 509, 0x7FFFFFFF)),
        *(_said(_RECORD, _ALERT, alert) for alert in (b"\1\0", b"\2\x74", b"\2\xff", b"\2", b"")),
        *(
            _said(_RECORD, _HANDSHAKE, messages)
            for messages in (
                b"",
                _TICKET,
                _TICKET * 2 + _KEY_UPDATE,
                _TICKET[:-1],
                _TICKET + _TICKET[:3],
                _words(4 << 24 | 0xFFFFFF),
                _KEY_UPDATE,
                _words(1 << 24),
            )
        ),
        _said(_RECORD, 23, b"data"),
        *(_said(form, _HANDSHAKE, _TICKET) for form in (_WITHOUT_TYPE, _OTHER_LEVEL, _OTHER_KIND)),
        _said(_WITHOUT_TYPE, _ALERT),
        _said(_NONE, _HANDSHAKE),
    ),
}
