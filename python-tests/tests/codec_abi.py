# SPDX-License-Identifier: GPL-2.0-only
"""The C interface of wire/, nfs/ and the ledger for tests: mirrors of structures, thin wrappers."""

from __future__ import annotations

import ctypes as c
import errno
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

FH_SIZE, FH4_SIZE = 64, 128
READ, WRITE, COMMIT = 6, 7, 21
VERDICTS = (
    "SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR",
    "RPC_MISMATCH", "AUTH_ERROR", "NOT_A_REPLY",
)  # fmt: skip
CANARY = b"\xa5" * 64

Members = tuple[tuple[str, Any], ...]


def words(*names: str) -> Members:
    """Return members of 32 bits, by their names."""
    return tuple((name, c.c_uint32) for name in names)


def hypers(*names: str) -> Members:
    """Return members of 64 bits."""
    return tuple((name, c.c_uint64) for name in names)


def flags(*names: str) -> Members:
    """Return members that are true or false."""
    return tuple((name, c.c_bool) for name in names)


def declare(lib: c.CDLL, name: str, result: Any, *arguments: Any) -> None:
    """Declare a function of a library."""
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


class Guarded:
    """Memory between two canaries."""

    def __init__(self, size: int, content: bytes = b""):
        self.size = size
        filled = CANARY + content.ljust(size, b"\0") + CANARY
        self._memory = c.create_string_buffer(filled, len(filled))  # kept, as long as this is
        self.address = c.addressof(self._memory) + len(CANARY)

    @property
    def intact(self) -> bool:
        """Whether nothing was written outside."""
        before = c.string_at(self.address - len(CANARY), len(CANARY))
        return before == c.string_at(self.address + self.size, len(CANARY)) == CANARY

    @property
    def content(self) -> bytes:
        """What is in it."""
        return c.string_at(self.address, self.size)


class Cursor(c.Structure):
    """struct xdr_in and struct xdr_out."""

    _fields_ = (("at", c.c_void_p), ("end", c.c_void_p), ("bad", c.c_bool))

    @classmethod
    def over(cls, memory: Guarded) -> Self:
        """Return a cursor over all of the memory."""
        return cls(memory.address, memory.address + memory.size, False)

    def used(self, memory: Guarded) -> int:
        """Return how far it has come."""
        used = int(self.at or 0) - memory.address
        assert 0 <= used <= memory.size
        return used


def written(room: int, put: Callable[[Cursor], object]) -> bytes | None:
    """Return what a function puts into so much room; None where it does not fit."""
    memory = Guarded(room)
    out = Cursor.over(memory)
    put(out)
    assert memory.intact
    return None if out.bad else memory.content[: out.used(memory)]


def read(data: bytes, get: Callable[[Cursor], object]) -> tuple[int, bool]:
    """Let a function read the data; gives the bytes used, and whether it needs more."""
    memory = Guarded(len(data), data)
    source = Cursor.over(memory)
    get(source)
    assert memory.intact
    assert memory.content == data
    return source.used(memory), bool(source.bad)


def text_of(size: int, put: Callable[[int, int], object]) -> str:
    """Return the text that a function puts at an address, into so much room."""
    memory = Guarded(size)
    put(memory.address, size)
    assert memory.intact
    assert b"\0" in memory.content
    return memory.content.split(b"\0")[0].decode()


class Verifier(c.Structure):
    """struct rpc_verifier."""

    _fields_ = (*words("flavor", "length"), ("body", c.c_void_p))


class ReplyHeader(c.Structure):
    """struct rpc_reply_header."""

    _fields_ = (
        *words("xid"), ("verdict", c.c_int), *words("auth_stat"), ("verifier", Verifier),
        *words("low", "high"),
    )  # fmt: skip


class Handle(c.Structure):
    """struct nfs_handle."""

    _fields_ = (("length", c.c_uint32), ("bytes", c.c_uint8 * FH4_SIZE))

    @classmethod
    def of(cls, handle: bytes) -> Self:
        """Return a file handle."""
        return cls(len(handle), (c.c_uint8 * FH4_SIZE)(*handle))


class Result(c.Structure):
    """struct nfs3_result."""

    _fields_ = (
        *words("status", "count"), *flags("eof"), ("committed", c.c_int),
        ("verifier", c.c_uint8 * 8),
    )  # fmt: skip


class Reply(c.Structure):
    """struct rpc_reply."""

    _fields_ = (("message", c.c_void_p), ("have", c.c_uint32), ("whole", c.c_bool))


class Bulk(c.Structure):
    """struct rpc_bulk."""

    _fields_ = (("to", c.c_void_p), ("length", c.c_uint32), ("token", c.c_void_p))


REPLY = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Reply), c.POINTER(Bulk))
FINISHED = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)


class Handler(c.Structure):
    """struct rpc_handler."""

    _fields_ = (
        ("reply", REPLY),
        ("finished", FINISHED),
        ("refused", c.c_void_p),  # RDMA's alone
        ("context", c.c_void_p),
    )


class RecordReader(c.Structure):
    """struct record_reader."""

    _fields_ = (
        ("handler", c.POINTER(Handler)), *words("message_max"), ("stage", c.c_void_p),
        *words("from_", "to", "expected", "reply_size"), ("part", c.c_int),
        *flags("in_fragment", "last"), *words("fragment", "message"), ("bulk", Bulk),
        *words("bulk_done"),
    )  # fmt: skip


class Iovec(c.Structure):
    """The system's struct iovec."""

    _fields_ = (("base", c.c_void_p), ("length", c.c_size_t))


class CodecLibrary:
    """Calls of message.h, nfs3.h, status.h and record.h."""

    def __init__(self, lib: c.CDLL) -> None:
        self.lib = lib
        cursor, number = c.POINTER(Cursor), c.c_uint32
        header, reader = c.POINTER(ReplyHeader), c.POINTER(RecordReader)
        declare(lib, "rpc_decode_reply", None, cursor, header)
        declare(lib, "rpc_verdict_errno", c.c_int, header)
        declare(lib, "rpc_verdict_text", None, header, number, c.c_void_p, c.c_size_t)
        common = (cursor, c.POINTER(Handle))
        declare(lib, "nfs3_encode_read", None, *common, c.c_uint64, number)
        declare(lib, "nfs3_encode_write", None, *common, c.c_uint64, number, c.c_int)
        declare(lib, "nfs3_encode_commit", None, *common)
        declare(lib, "nfs3_decode", c.c_bool, cursor, c.c_int, c.POINTER(Result))
        declare(lib, "nfs3_errno", c.c_int, number)
        declare(lib, "nfs3_status_name", c.c_char_p, number)
        declare(lib, "record_reader_init", c.c_int, reader, c.POINTER(Handler), number)
        declare(lib, "record_reader_free", None, reader)
        declare(lib, "record_expect", None, reader)
        declare(lib, "record_space", c.c_int, reader, c.POINTER(Iovec))
        declare(lib, "record_took", c.c_int, reader, number)

    def decode_reply(self, message: bytes) -> tuple[ReplyHeader, int, bool]:
        """rpc_decode_reply(): the header, where the results begin, and whether it needs more."""
        header = ReplyHeader()
        used, more = read(message, lambda source: self.lib.rpc_decode_reply(source, header))
        return header, used, more

    def encode(self, name: str, handle: bytes, *numbers: int) -> bytes:
        """nfs3_encode_read(), _write() or _commit(), into the room that their header says."""
        encode = getattr(self.lib, f"nfs3_encode_{name}")
        arguments = written(96, lambda out: encode(out, Handle.of(handle), *numbers))
        assert arguments is not None
        return arguments

    def decode(self, procedure: int, results: bytes) -> tuple[bool, Result, int, bool]:
        """nfs3_decode(): whether it is sound, the result, the bytes used, whether it needs more."""
        result, sound = Result(), []
        used, more = read(
            results, lambda source: sound.append(self.lib.nfs3_decode(source, procedure, result))
        )
        return bool(sound[0]), result, used, more


@dataclass
class Seen:
    """One reply as a handler saw it; `bulk` is where its data went."""

    head: bytes
    bulk: Guarded | None = None
    finished: int = 0


class RecordRefusedError(Exception):
    """record_took() gave this errno."""

    def __init__(self, code: int):
        super().__init__(errno.errorcode[code])
        self.code = code


# What a reply's first bytes ask for: the length of its head and of its bulk data, or None for
# more bytes.
Wish = Callable[[bytes], tuple[int, int] | None]


class Records:
    """A record reader at work, watched at each step."""

    def __init__(self, library: CodecLibrary, message_max: int, wish: Wish) -> None:
        self._lib = library.lib
        self._wish = wish
        self.seen: list[Seen] = []
        self._failure: AssertionError | None = None
        self._handler = Handler(REPLY(self._reply), FINISHED(self._finished), None, None)
        self._reader = RecordReader()
        assert self._lib.record_reader_init(self._reader, self._handler, message_max) == 0
        self._stage = 128 << 10

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lib.record_reader_free(self._reader)

    def feed(self, data: bytes, sizes: Sequence[int]) -> None:
        """Receive the data in parts of at most these sizes, over and over."""
        at = turn = 0
        while at < len(data):
            at += self._receive(data[at : at + max(1, sizes[turn % len(sizes)])])
            turn += 1

    def room_for(self, expected: int) -> int:
        """How much is received at once while so many replies are on their way."""
        while self._reader.expected < expected:
            self._lib.record_expect(self._reader)
        space = (Iovec * 2)()
        assert self._lib.record_space(self._reader, space) == 1
        return int(space[0].length)

    def _receive(self, data: bytes) -> int:
        """Put what there is room for where it belongs."""
        space = (Iovec * 2)()
        count = self._lib.record_space(self._reader, space)
        assert count in (1, 2)
        assert space[0].length > 0
        taken = 0
        for one in space[:count]:
            self._check_place(one)
            part = data[taken : taken + one.length]
            c.memmove(one.base, part, len(part))
            taken += len(part)
        error = self._lib.record_took(self._reader, taken)
        if self._failure:
            raise self._failure
        assert all(one.bulk.intact for one in self.seen if one.bulk)
        if error:
            raise RecordRefusedError(-error)
        return taken

    def _check_place(self, place: Iovec) -> None:
        """Expect memory of the stage, or what is left of the present bulk buffer."""
        begin, end = place.base, place.base + place.length
        stage = self._reader.stage
        bulk = self.seen[-1].bulk if self.seen else None
        in_stage = stage <= begin <= end <= stage + self._stage
        assert in_stage or (bulk and bulk.address <= begin <= end <= bulk.address + bulk.size)

    def _reply(self, _context: int, reply: Any, bulk: Any) -> int:
        have = reply.contents.have
        if have > self._stage:
            self._failure = AssertionError(f"{have} bytes at hand")
            return -errno.EFAULT
        wish = self._wish(c.string_at(reply.contents.message, have))
        if wish is None:
            return 0
        head, length = wish
        seen = Seen(c.string_at(reply.contents.message, head))
        self.seen.append(seen)
        if length >= 0:
            seen.bulk = Guarded(length)
            bulk.contents.to, bulk.contents.length = seen.bulk.address, length
            bulk.contents.token = len(self.seen)
        return head

    def _finished(self, _context: int, token: int) -> None:
        if token != len(self.seen):
            self._failure = AssertionError("another reply has begun meanwhile")
        self.seen[-1].finished += 1


# --- ledger.h ---


class Ledger(c.Structure):
    """struct ledger."""

    _fields_ = (
        *hypers("unstable", "committing", "lost"), *words("held"), ("verifier", c.c_uint8 * 8),
        *hypers("commits", "settled"), ("settled_verifier", c.c_uint8 * 8),
    )  # fmt: skip


class Commit(c.Structure):
    """struct ledger_commit: what one COMMIT under way is to make durable."""

    _fields_ = (*hypers("bytes", "number", "clock"), ("verifier", c.c_uint8 * 8))


# All of it is static inline.
_LEDGER = """
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#define static
#define inline
#include "group/ledger.h"
"""


def build_ledger(compiler: str, engine: Path, folder: Path) -> c.CDLL:
    """Compile the functions of ledger.h into a library."""
    source, library = folder / "ledger.c", folder / "ledger.so"
    source.write_text(_LEDGER)
    options = ["-shared", "-fPIC", f"-I{engine}", "-o", str(library)]
    subprocess.run([compiler, *options, str(source)], check=True, timeout=60)
    lib, book, commit = c.CDLL(str(library)), c.POINTER(Ledger), c.POINTER(Commit)
    declare(lib, "ledger_wrote", c.c_bool, book, c.c_uint64, c.c_bool, c.c_char_p)
    declare(lib, "ledger_begin_commit", Commit, book)
    declare(lib, "ledger_end_commit", c.c_bool, book, commit, c.c_char_p)
    declare(lib, "ledger_undo_commit", None, book, commit)
    declare(lib, "ledger_fail_commit", None, book, commit)
    declare(lib, "ledger_owes", c.c_bool, book)
    declare(lib, "ledger_unsettled", c.c_bool, book)
    declare(lib, "ledger_take_lost", c.c_uint64, book)
    return lib
