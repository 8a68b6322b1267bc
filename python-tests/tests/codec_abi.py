# SPDX-License-Identifier: GPL-2.0-only
"""The C interface of rpc/, nfs/ and stats/ for tests: mirrors of structures, thin wrappers."""

from __future__ import annotations

import ctypes as c
import errno
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

CALL_MAX = 24 + 168  # the header, and AUTH_SYS_ROOM
FH_SIZE, FH4_SIZE = 64, 128
READ, WRITE, COMMIT = 6, 7, 21
VERDICTS = (
    "SUCCESS",
    "PROG_UNAVAIL",
    "PROG_MISMATCH",
    "PROC_UNAVAIL",
    "GARBAGE_ARGS",
    "SYSTEM_ERR",
    "RPC_MISMATCH",
    "AUTH_ERROR",
    "NOT_A_REPLY",
)
CANARY = b"\xa5" * 64


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
        """Give a cursor over all of the memory."""
        return cls(memory.address, memory.address + memory.size, False)

    def used(self, memory: Guarded) -> int:
        """Give how far it has come."""
        return int(self.at or 0) - memory.address


class Cred(c.Structure):
    """struct auth_sys_ids."""

    _fields_ = (
        ("machine", c.c_char * 65),
        ("uid", c.c_uint32),
        ("gid", c.c_uint32),
        ("gids", c.c_uint32 * 16),
        ("gid_count", c.c_uint32),
    )

    @classmethod
    def of(cls, machine: bytes, uid: int, gid: int, gids: Sequence[int]) -> Self:
        """Give credentials."""
        return cls(machine, uid, gid, (c.c_uint32 * 16)(*gids), len(gids))


class AuthSys(c.Structure):
    """struct auth_sys."""

    _fields_ = (("base", c.c_void_p), ("length", c.c_uint32), ("bytes", c.c_uint8 * 168))


class Verifier(c.Structure):
    """struct rpc_verifier."""

    _fields_ = (("flavor", c.c_uint32), ("length", c.c_uint32), ("body", c.c_void_p))


class ReplyHeader(c.Structure):
    """struct rpc_reply_header."""

    _fields_ = (
        ("xid", c.c_uint32),
        ("verdict", c.c_int),
        ("auth_stat", c.c_uint32),
        ("verifier", Verifier),
        ("low", c.c_uint32),
        ("high", c.c_uint32),
    )


class Handle(c.Structure):
    """struct nfs_handle."""

    _fields_ = (("length", c.c_uint32), ("bytes", c.c_uint8 * FH4_SIZE))

    @classmethod
    def of(cls, handle: bytes) -> Self:
        """Give a file handle."""
        return cls(len(handle), (c.c_uint8 * FH4_SIZE)(*handle))


class Result(c.Structure):
    """struct nfs3_result."""

    _fields_ = (
        ("status", c.c_uint32),
        ("count", c.c_uint32),
        ("eof", c.c_bool),
        ("committed", c.c_int),
        ("verifier", c.c_uint8 * 8),
    )


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
        ("handler", c.POINTER(Handler)),
        ("message_max", c.c_uint32),
        ("stage", c.c_void_p),
        ("from_", c.c_uint32),
        ("to", c.c_uint32),
        ("expected", c.c_uint32),
        ("reply_size", c.c_uint32),
        ("part", c.c_int),
        ("in_fragment", c.c_bool),
        ("last", c.c_bool),
        ("fragment", c.c_uint32),
        ("message", c.c_uint32),
        ("bulk", Bulk),
        ("bulk_done", c.c_uint32),
    )


class Iovec(c.Structure):
    """struct iovec."""

    _fields_ = (("base", c.c_void_p), ("length", c.c_size_t))


class CountersLabel(c.Structure):
    """struct counters_label."""

    _fields_ = (
        ("job", c.c_char_p),
        ("job_number", c.c_uint32),
        ("connection", c.c_uint32),
        ("path", c.c_char_p),
        ("local", c.c_char_p),
        ("remote", c.c_char_p),
        ("transport", c.c_char_p),
    )


class Counters(c.Structure):
    """struct counters."""

    _fields_ = tuple(
        (name, c.c_uint64)
        for name in (
            "read_ops",
            "read_bytes",
            "write_ops",
            "write_bytes",
            "commits",
            "meta_ops",
            "lookups",
            "rewritten_bytes",
            "retransmissions",
            "reconnects",
            "reissues",
            "stale_replies",
            "errors",
            "rtt_count",
            "rtt_sum",
            "rtt_max",
        )
    )


class TransportCounters(c.Structure):
    """struct transport_counters."""

    _fields_ = (
        ("syscalls", c.c_uint64),
        ("bytes_sent", c.c_uint64),
        ("bytes_received", c.c_uint64),
        ("sends", c.c_uint64),
        ("receives", c.c_uint64),
        ("credits", c.c_uint64),
        ("rnr_errors", c.c_uint64),
        ("retry_errors", c.c_uint64),
        ("registrations", c.c_uint64),
    )


class CodecLibrary:
    """Calls of message.h, nfs3.h, status.h, record.h and counters.h."""

    def __init__(self, lib: c.CDLL) -> None:
        self.lib = lib
        cursor = c.POINTER(Cursor)
        number = c.c_uint32
        auth = c.POINTER(AuthSys)
        self._declare("auth_sys_own_ids", number, c.POINTER(Cred))
        self._declare("auth_sys_init", None, auth, c.POINTER(Cred))
        self._declare("rpc_encode_call", None, cursor, *[number] * 4, auth)
        self._declare("rpc_decode_reply", None, cursor, c.POINTER(ReplyHeader))
        self._declare("rpc_verdict_errno", c.c_int, c.POINTER(ReplyHeader))
        header = c.POINTER(ReplyHeader)
        self._declare("rpc_verdict_text", None, header, number, c.c_void_p, c.c_size_t)
        common = (cursor, c.POINTER(Handle))
        self._declare("nfs3_encode_read", None, *common, c.c_uint64, number)
        self._declare("nfs3_encode_write", None, *common, c.c_uint64, number, c.c_int)
        self._declare("nfs3_encode_commit", None, *common)
        self._declare("nfs3_decode", c.c_bool, cursor, c.c_int, c.POINTER(Result))
        self._declare("nfs3_errno", c.c_int, number)
        self._declare("nfs3_status_name", c.c_char_p, number)
        reader = c.POINTER(RecordReader)
        self._declare("record_reader_init", c.c_int, reader, c.POINTER(Handler), number)
        self._declare("record_reader_free", None, reader)
        self._declare("record_expect", None, reader)
        self._declare("record_space", c.c_int, reader, c.POINTER(Iovec))
        self._declare("record_took", c.c_int, reader, number)
        tables = c.POINTER(CountersLabel), c.POINTER(Counters), c.POINTER(TransportCounters)
        self._declare("counters_write", None, c.c_void_p, *tables)

    def _declare(self, name: str, result: Any, *arguments: Any) -> None:
        function = getattr(self.lib, name)
        function.restype, function.argtypes = result, arguments

    def encode_call(
        self, room: int, xid: int, program: int, version: int, procedure: int, cred: Cred
    ) -> bytes | None:
        """rpc_encode_call() into so much room; None where it does not fit."""
        memory = Guarded(room)
        out = Cursor.over(memory)
        auth = AuthSys()
        self.lib.auth_sys_init(auth, cred)
        self.lib.rpc_encode_call(out, xid, program, version, procedure, auth)
        assert memory.intact
        return None if out.bad else memory.content[: out.used(memory)]

    def decode_reply(self, message: bytes) -> tuple[ReplyHeader, int, bool]:
        """rpc_decode_reply(): the header, where the results begin, and whether it needs more."""
        memory, header = Guarded(len(message), message), ReplyHeader()
        source = Cursor.over(memory)
        self.lib.rpc_decode_reply(source, header)
        assert memory.content == message
        return header, source.used(memory), source.bad

    def encode(self, name: str, handle: bytes, *numbers: int) -> bytes:
        """nfs3_encode_read(), _write() or _commit(), into the room that their header says."""
        memory = Guarded(96)
        out = Cursor.over(memory)
        getattr(self.lib, f"nfs3_encode_{name}")(out, Handle.of(handle), *numbers)
        assert not out.bad
        assert memory.intact
        return memory.content[: out.used(memory)]

    def decode(self, procedure: int, results: bytes) -> tuple[bool, Result, int, bool]:
        """nfs3_decode(): whether it is sound, the result, the bytes used, whether it needs more."""
        memory, result = Guarded(len(results), results), Result()
        source = Cursor.over(memory)
        sound = self.lib.nfs3_decode(source, procedure, result)
        return bool(sound), result, source.used(memory), source.bad

    def counters(
        self, label: CountersLabel, counters: Counters, transport: TransportCounters
    ) -> bytes:
        """counters_write()."""
        libc = c.CDLL(None)
        libc.open_memstream.restype = c.c_void_p
        libc.fclose.argtypes = [c.c_void_p]
        libc.free.argtypes = [c.c_void_p]
        text, size = c.c_void_p(), c.c_size_t()
        stream = libc.open_memstream(c.byref(text), c.byref(size))
        self.lib.counters_write(stream, label, counters, transport)
        libc.fclose(stream)
        try:
            return c.string_at(text.value or 0, size.value)
        finally:
            libc.free(text)


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
# more bytes; an int is an errno to fail with.
Wish = Callable[[bytes], tuple[int, int] | int | None]


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
        if isinstance(wish, int):
            return -wish
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


# --- ledger.h, which is all static inline ---

_SHIM = """
#include <stdlib.h>
#include "conn/ledger.h"
struct ledger *shim_new(void) { return calloc(1, sizeof(struct ledger)); }
void shim_free(void *p) { free(p); }
void shim_wrote(struct ledger *l, uint64_t bytes, bool durable, const uint8_t *verifier)
{ ledger_wrote(l, bytes, durable, verifier); }
struct ledger_commit *shim_begin(struct ledger *l)
{
	struct ledger_commit *commit = malloc(sizeof(*commit));
	*commit = ledger_begin_commit(l);
	return commit;
}
uint64_t shim_commit_bytes(const struct ledger_commit *commit) { return commit->bytes; }
void shim_end(struct ledger *l, struct ledger_commit *commit, const uint8_t *verifier)
{ ledger_end_commit(l, commit, verifier); free(commit); }
void shim_undo(struct ledger *l, struct ledger_commit *commit)
{ ledger_undo_commit(l, commit); free(commit); }
void shim_fail(struct ledger *l, struct ledger_commit *commit)
{ ledger_fail_commit(l, commit); free(commit); }
bool shim_owes(const struct ledger *l) { return ledger_owes(l); }
bool shim_unsettled(const struct ledger *l) { return ledger_unsettled(l); }
uint64_t shim_take_lost(struct ledger *l) { return ledger_take_lost(l); }
"""
MIRRORS: dict[str, type[c.Structure]] = {
    "xdr_in": Cursor,
    "xdr_out": Cursor,
    "auth_sys_ids": Cred,
    "auth_sys": AuthSys,
    "rpc_verifier": Verifier,
    "rpc_reply_header": ReplyHeader,
    "rpc_reply": Reply,
    "rpc_bulk": Bulk,
    "rpc_handler": Handler,
    "record_reader": RecordReader,
    "nfs_handle": Handle,
    "nfs3_result": Result,
    "counters": Counters,
    "counters_label": CountersLabel,
    "transport_counters": TransportCounters,
}
_POINTER, _NUMBER, _BYTES = c.c_void_p, c.c_uint64, c.c_char_p
_SHIM_TYPES: dict[str, tuple[Any, ...]] = {
    "new": (_POINTER,),
    "free": (None, _POINTER),
    "wrote": (None, _POINTER, _NUMBER, c.c_bool, _BYTES),
    "begin": (_POINTER, _POINTER),
    "commit_bytes": (_NUMBER, _POINTER),
    "end": (None, _POINTER, _POINTER, _BYTES),
    "undo": (None, _POINTER, _POINTER),
    "fail": (None, _POINTER, _POINTER),
    "owes": (c.c_bool, _POINTER),
    "unsettled": (c.c_bool, _POINTER),
    "take_lost": (_NUMBER, _POINTER),
}


def build_shim(compiler: str, engine: Path, folder: Path) -> c.CDLL:
    """Compile the functions of ledger.h into a library."""
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(_SHIM)
    flags = ["-shared", "-fPIC", f"-I{engine}", "-o", str(library)]
    subprocess.run([compiler, *flags, str(source)], check=True, timeout=60)
    lib = c.CDLL(str(library))
    for name, (result, *arguments) in _SHIM_TYPES.items():
        function = getattr(lib, f"shim_{name}")
        function.restype, function.argtypes = result, arguments
    return lib


@dataclass(frozen=True)
class Commit:
    """A struct ledger_commit: what one COMMIT under way is to make durable."""

    pointer: int
    bytes: int


class Ledger:
    """A struct ledger."""

    def __init__(self, lib: c.CDLL) -> None:
        self._lib = lib
        self._pointer = lib.shim_new()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lib.shim_free(self._pointer)

    def wrote(self, count: int, durable: bool, verifier: bytes) -> None:
        """ledger_wrote()."""
        self._lib.shim_wrote(self._pointer, count, durable, verifier)

    def begin_commit(self) -> Commit:
        """ledger_begin_commit()."""
        pointer = self._lib.shim_begin(self._pointer)
        return Commit(pointer, int(self._lib.shim_commit_bytes(pointer)))

    def end_commit(self, commit: Commit, verifier: bytes) -> None:
        """ledger_end_commit()."""
        self._lib.shim_end(self._pointer, commit.pointer, verifier)

    def undo_commit(self, commit: Commit) -> None:
        """ledger_undo_commit()."""
        self._lib.shim_undo(self._pointer, commit.pointer)

    def fail_commit(self, commit: Commit) -> None:
        """ledger_fail_commit()."""
        self._lib.shim_fail(self._pointer, commit.pointer)

    def owes(self) -> bool:
        """ledger_owes()."""
        return bool(self._lib.shim_owes(self._pointer))

    def unsettled(self) -> bool:
        """ledger_unsettled()."""
        return bool(self._lib.shim_unsettled(self._pointer))

    def take_lost(self) -> int:
        """ledger_take_lost()."""
        return int(self._lib.shim_take_lost(self._pointer))
