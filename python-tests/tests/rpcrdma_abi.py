# SPDX-License-Identifier: GPL-2.0-only
"""The C interface of rpcrdma.h for tests: mirrors of structures, thin wrappers."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from codec_abi import Cursor, Guarded, declare, hypers, read, text_of, words, written

SEGMENTS_MAX = 8  # RPCRDMA_SEGMENTS_MAX
HEADER_MAX = 356  # RPCRDMA_HEADER_MAX
VERDICTS = ("MSG", "ERR_VERS", "ERR_CHUNK", "MALFORMED", "TOO_SHORT")


class Segment(NamedTuple):
    """A segment as tests write it."""

    handle: int
    length: int
    offset: int


class CSegment(c.Structure):
    """struct rpcrdma_segment."""

    _fields_ = (*words("handle", "length"), *hypers("offset"))


class CChunk(c.Structure):
    """struct rpcrdma_chunk."""

    _fields_ = (*words("count"), ("segments", CSegment * SEGMENTS_MAX))

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> Self:
        """Return a chunk of these segments."""
        listed = [CSegment(*one) for one in segments]
        return cls(len(listed), (CSegment * SEGMENTS_MAX)(*listed))

    @property
    def listed(self) -> tuple[Segment, ...]:
        """Its segments."""
        used = self.segments[: self.count]
        return tuple(Segment(one.handle, one.length, one.offset) for one in used)


class CCall(c.Structure):
    """struct rpcrdma_call."""

    _fields_ = (*words("xid", "credits"), ("read", CChunk), *words("position"), ("write", CChunk))


class CReply(c.Structure):
    """struct rpcrdma_reply."""

    _fields_ = (
        ("verdict", c.c_int), *words("xid", "credits"), ("write", CChunk), *words("low", "high"),
        ("fault", c.c_char_p),
    )  # fmt: skip


class CInline(c.Structure):
    """struct rpcrdma_inline."""

    _fields_ = words("send", "receive")


class Call(NamedTuple):
    """A call's header."""

    xid: int
    credits: int
    read: tuple[Segment, ...] = ()
    position: int = 0
    write: tuple[Segment, ...] = ()


class Reply(NamedTuple):
    """What a reply's header says; `rpc` is where the RPC message begins, None without one."""

    verdict: str
    xid: int = 0
    credits: int = 0
    write: tuple[Segment, ...] = ()
    low: int = 0
    high: int = 0
    rpc: int | None = None


class Inline(NamedTuple):
    """Inline thresholds."""

    send: int
    receive: int


class RpcRdmaLibrary:
    """Calls of rpcrdma.h."""

    def __init__(self, lib: c.CDLL) -> None:
        self.lib = lib
        cursor, call, reply = c.POINTER(Cursor), c.POINTER(CCall), c.POINTER(CReply)
        chunk, inline = c.POINTER(CChunk), c.POINTER(CInline)
        self._declare("call_size", c.c_uint32, call)
        self._declare("encode_call", None, cursor, call)
        self._declare("decode_reply", None, cursor, reply)
        self._declare("written", c.c_bool, chunk, chunk, c.POINTER(c.c_uint64))
        self._declare("verdict_errno", c.c_int, reply)
        self._declare("verdict_text", None, reply, c.c_void_p, c.c_size_t)
        self._declare("credit_window", c.c_uint32, c.c_uint32, c.c_uint32)
        self._declare("encode_private", None, c.c_void_p, inline)
        self._declare("decode_private", CInline, c.c_void_p, c.c_uint32)
        self._declare("effective_inline", CInline, inline, inline)

    def _declare(self, name: str, result: Any, *arguments: Any) -> None:
        declare(self.lib, f"rpcrdma_{name}", result, *arguments)

    def encode_call(self, call: Call, room: int) -> bytes | None:
        """rpcrdma_encode_call() into so much room; None where it does not fit."""
        return written(room, lambda out: self.lib.rpcrdma_encode_call(out, self._mirror(call)))

    def call_size(self, call: Call) -> int:
        """rpcrdma_call_size()."""
        return int(self.lib.rpcrdma_call_size(self._mirror(call)))

    @staticmethod
    def _mirror(call: Call) -> CCall:
        read, write = CChunk.of(call.read), CChunk.of(call.write)
        return CCall(call.xid, call.credits, read, call.position, write)

    def decode_raw(self, data: bytes) -> tuple[CReply, int]:
        """rpcrdma_decode_reply() into a structure full of rubbish; it, and the bytes used."""
        reply = CReply()
        c.memset(c.addressof(reply), 0xA5, c.sizeof(reply))
        used, _ = read(data, lambda source: self.lib.rpcrdma_decode_reply(source, reply))
        return reply, used

    def decode_reply(self, data: bytes) -> Reply:
        """rpcrdma_decode_reply(): what is valid for its verdict."""
        reply, used = self.decode_raw(data)
        match verdict := VERDICTS[reply.verdict]:
            case "MSG":
                write = reply.write.listed
                return Reply(verdict, reply.xid, reply.credits, write, rpc=used)
            case "ERR_VERS":
                return Reply(verdict, reply.xid, reply.credits, low=reply.low, high=reply.high)
            case "TOO_SHORT":
                return Reply(verdict)
        return Reply(verdict, reply.xid, reply.credits)

    def text(self, reply: CReply, size: int = 300) -> str:
        """rpcrdma_verdict_text() into so much room."""
        put = self.lib.rpcrdma_verdict_text
        return text_of(size, lambda room, size: put(reply, room, size))

    def written(self, offered: Iterable[Segment], returned: Iterable[Segment]) -> int | None:
        """rpcrdma_written(); None where it refuses."""
        count = c.c_uint64(0xA5A5A5A5)
        sound = self.lib.rpcrdma_written(CChunk.of(offered), CChunk.of(returned), count)
        return count.value if sound else None

    def encode_private(self, mine: Inline) -> bytes:
        """rpcrdma_encode_private()."""
        memory = Guarded(8)
        self.lib.rpcrdma_encode_private(memory.address, CInline(*mine))
        assert memory.intact
        return memory.content

    def decode_private(self, data: bytes | None) -> Inline:
        """rpcrdma_decode_private(); None is a null pointer."""
        memory = Guarded(len(data or b""), data or b"")
        peers = self.lib.rpcrdma_decode_private(
            None if data is None else memory.address, memory.size
        )
        return Inline(peers.send, peers.receive)

    def effective_inline(self, mine: Inline, peers: Inline) -> Inline:
        """rpcrdma_effective_inline()."""
        both = self.lib.rpcrdma_effective_inline(CInline(*mine), CInline(*peers))
        return Inline(both.send, both.receive)
