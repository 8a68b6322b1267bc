# SPDX-License-Identifier: GPL-2.0-only
"""What the fuzzers of python-tests/fuzz/ begin with: a few inputs each, most of them sound.

Those of fuzz_captures.py are what real servers have sent. An input that once failed belongs here
too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from fuzz_captures import GANESHA, KNFSD, KNFSD_PRIVATE

from nfsmulti.scripted.protocol import (
    AcceptStat,
    AuthStat,
    accepted,
    denied,
    mark,
    message,
    record,
    rpc_mismatch,
)

_XID = 0x01020304
_ATTRIBUTES, _NO_ATTRIBUTES = struct.pack(">I84x", 1), bytes(4)
_BEFORE = struct.pack(">I24x", 1)
_NOBODYS, _BROKEN = 1 << 31, 1 << 30


def _words(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def _stream(records: bytes, sizes: Sequence[int] = (255,)) -> bytes:
    """Give a stream for record.c: the squares of 16 sizes cut it."""
    return bytes(sizes[i % len(sizes)] for i in range(16)) + records


def _message(head: int, bulk: int, kind: int = 0, rest: int = 0) -> bytes:
    """Give a message for record.c: a head of 8 bytes and more, bulk data, a rest."""
    return _words(head - 8, bulk | kind) + bytes(head - 8) + bytes(bulk) + bytes(rest)


_RECORDS = (
    record(_message(128, 4096)) + record(_message(60, 0)),
    record(_message(128, 20000, rest=3)) * 2,
    record(_message(40, 300), (8, 0, 33)) + record(_message(8, 1), (1,)),
    record(_message(200, 50, _NOBODYS)) + record(_message(8, 8)),
    record(_message(8, 8)) + record(_message(8, 0, _BROKEN)),
    record(_message(128, 20000)) + record(_message(6000, 0)),  # a head longer than any
    mark(0) + mark(1 << 30, last=False),
)

# Transport headers: the lists of an RDMA_MSG, and its RPC message.
_HEAD = _words(_XID, 1, 32, 0)
_CHUNK = _words(1, 1, 0xDEADBEEF, 4096, 1, 0x2000)
_RPC = message(_XID, accepted(AcceptStat.SUCCESS))

_HEADER = 24  # bytes of an RPC reply before its results, where AUTH_NONE verifies it

_URLS = (
    "nfs://[fe80::1%eth0]:2049/export?proto=rdma&rdmaport=20049&soft&timeo=600&retrans=2",
    "nfs://n[08-11].lab/a%2Cb?version=3&nfsport=2049&mountport=20048&uid=0&gid=0,/mnt/a",
    "nfs://10.0.0.[1-4]/x?rsize=64k&wsize=1m&hard=0&localaddr=10.0.0.7+fe80::1%25eth0",
)

SEEDS: dict[str, tuple[bytes, ...]] = {
    "environment": (
        b"e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/\0e4b",
        b"e4a:/mnt/v32/,/mnt/v33/ e4b:/mnt/v42/\0/mnt/v33/dir/file",
        b"a:/mnt b:/mnt\0/mnt/x",
        b"lab:nfs://10.0.0.[1-2]/x\t\ne4a:/\0nobody",
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
        *GANESHA.values(),
    ),
    "nfs3": (
        b"\0" + _words(0) + _ATTRIBUTES + _words(4096, 1, 4096),
        b"\1" + _words(0) + _BEFORE + _ATTRIBUTES + _words(4096, 2) + b"verifier",
        b"\2" + _words(0) + _NO_ATTRIBUTES * 2 + b"verifier",
        b"\0" + _words(70) + _NO_ATTRIBUTES,
        b"\1" + _words(10008) + _NO_ATTRIBUTES * 2,
        b"\0" + GANESHA["READ"][_HEADER:],
        b"\1" + GANESHA["WRITE"][_HEADER:],
        b"\1" + GANESHA["NFS3ERR_ROFS"][_HEADER:],
        b"\2" + GANESHA["COMMIT"][_HEADER:],
    ),
    "pool": (
        b"/mnt/a,/mnt/b/\0/mnt/b/dir/file",
        *(url.encode() + b"\0/file" for url in _URLS),
    ),
    "record": (
        *(_stream(records, sizes) for records in _RECORDS for sizes in ((255,), (0, 3, 60))),
        _stream(b"".join(map(record, GANESHA.values())), (0, 3, 60)),
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
        *KNFSD.values(),
        KNFSD_PRIVATE,
    ),
}
