# SPDX-License-Identifier: GPL-2.0-only
"""ONC RPC over TCP (RFC 5531) in Python: XDR, records, and a client with one connection."""

import random
import socket
import struct
from enum import IntEnum
from typing import Protocol, Self

NFS, MOUNT = 100003, 100005
CALL, REPLY, RPC_VERSION = 0, 1, 2
AUTH_NONE, AUTH_SYS, RPCSEC_GSS, AUTH_TLS = 0, 1, 6, 7
STARTTLS = b"STARTTLS"
_ACCEPTED, _DENIED = 0, 1
_RPC_MISMATCH, _AUTH_ERROR = 0, 1
_LAST_FRAGMENT = 1 << 31

_TIMEOUT_SECONDS = 10.0  # a busy server may stand still for some


class Hyper(int):
    """A number that is a hyper in XDR."""


class Fixed(bytes):
    """Bytes that go without their length in XDR, filled up to whole words."""


def xdr(*values: int | str | bytes) -> bytes:
    """Return words, hypers, strings, opaques and fixed bytes in XDR (RFC 4506)."""
    return b"".join(map(_packed, values))


def _packed(value: int | str | bytes) -> bytes:
    if isinstance(value, str):
        value = value.encode(errors="surrogateescape")
    if isinstance(value, int):
        return struct.pack(">Q" if isinstance(value, Hyper) else ">I", value)
    length = b"" if isinstance(value, Fixed) else struct.pack(">I", len(value))
    return length + value + bytes(-len(value) % 4)


# --- replies, and records ---


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
    TOOWEAK = 5
    FAILED = 7
    CREDPROBLEM = 13  # RPCSEC_GSS (RFC 2203, 5.3.3.3)
    CTXPROBLEM = 14


def accepted(
    stat: int, results: bytes = b"", verifier: bytes = b"", flavor: int = AUTH_NONE
) -> bytes:
    """Return what follows xid and REPLY of an accepted call; PROG_MISMATCH has low, high."""
    if stat is AcceptStat.PROG_MISMATCH and not results:
        results = xdr(4, 4)
    return xdr(_ACCEPTED, flavor, verifier, stat) + results


def denied(stat: int) -> bytes:
    """Return what follows xid and REPLY where the caller is not let in."""
    return xdr(_DENIED, _AUTH_ERROR, stat)


def rpc_mismatch(low: int, high: int) -> bytes:
    """Return what follows xid and REPLY where the server speaks RPC versions `low` to `high`."""
    return xdr(_DENIED, _RPC_MISMATCH, low, high)


def message(xid: int, rest: bytes, message_type: int = REPLY) -> bytes:
    """Return a whole RPC message."""
    return xdr(xid, message_type) + rest


def mark(length: int, *, last: bool = True) -> bytes:
    """Return a record mark (RFC 5531, 11)."""
    return xdr(length | (_LAST_FRAGMENT if last else 0))


def record(data: bytes, fragments: tuple[int, ...] = ()) -> bytes:
    """Return a record: one fragment, or fragments of the given sizes, over and over.

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


class Source(Protocol):
    """What a record is received from: a socket, or one that waits before it takes more."""

    def recv(self, count: int, /) -> bytes:
        """Return as many bytes at most, b"" at the end."""


def receive_record(source: Source) -> bytes:
    """Receive one record and give its message. OSError where the connection ends before."""
    message, last = b"", False
    while not last:
        mark = int.from_bytes(_receive(source, 4), "big")
        last = bool(mark & _LAST_FRAGMENT)
        message += _receive(source, mark & ~_LAST_FRAGMENT)
    return message


def _receive(source: Source, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = source.recv(count - len(data))
        if not part:
            raise ConnectionResetError("the peer closed the connection")
        data += part
    return bytes(data)


class RpcError(Exception):
    """The server answered, but did not do what was called: what follows xid and REPLY says why."""


class RpcClient:
    """A connection to one version of one program. OSError where it cannot be made or breaks."""

    def __init__(self, address: str, port: int, program: int, version: int):
        self._program, self._version = program, version
        self._xid = random.getrandbits(31)
        self._socket = socket.create_connection((address, port), timeout=_TIMEOUT_SECONDS)

    def call(self, procedure: int, arguments: bytes = b"") -> bytes:
        """Make one call and give its results in XDR. Raises RpcError or OSError."""
        self._xid += 1
        what = (RPC_VERSION, self._program, self._version, procedure)
        call = xdr(*what, AUTH_NONE, b"", AUTH_NONE, b"") + arguments
        self._socket.sendall(record(message(self._xid, call, CALL)))
        reply = receive_record(self._socket)
        sound = message(self._xid, accepted(AcceptStat.SUCCESS))
        if not reply.startswith(sound):
            raise RpcError(reply[8:])
        return reply[len(sound) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
