# SPDX-License-Identifier: GPL-2.0-only
"""Records in memory (RFC 5531, 11): how much is received at once, and what is refused.

That data is where it belongs, however records are cut, is in test_scenarios_files.py and
test_sim.py.
"""

import errno
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

import pytest
from engine_c import CData, Guarded, ffi, zeros

from servers.rpc import mark, record

# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")

_DROPPED = 2**29  # beside the length of data: it is not wanted
_MESSAGE_MAX = 300_000


@dataclass
class Seen:
    """One reply as a handler saw it; `bulk` is where its data went."""

    head: bytes
    bulk: Guarded
    finished: int = 0


class Records:
    """A record reader at work. A head tells its own and the data's length."""

    def __init__(self, lib: CData, message_max: int):
        self._lib = lib
        self.seen: list[Seen] = []
        reply = "int (*)(void *, const struct rpc_reply *, struct rpc_bulk *)"
        finished = "void (*)(void *, void *)"
        self._callbacks = ffi.callback(reply, self._reply), ffi.callback(finished, self._finished)
        self._handler = ffi.new("struct rpc_handler *", self._callbacks)
        self.reader, self._space = zeros("record_reader"), ffi.new("struct iovec[2]")
        most = lib.RPC_REPLY_HEAD_MAX
        self._size = lib.record_stage_size(most)
        self._stage = ffi.new("uint8_t[]", self._size)
        lib.record_reader_init(self.reader, self._handler, message_max, most, self._stage)

    def feed(self, data: bytes, part: int) -> int:
        """Receive the data in parts of at most so many bytes; give the errno that ends it, or 0."""
        at, error = 0, 0
        while at < len(data) and not error:
            self._lend_stage()
            taken = self._receive(data[at : at + part])
            error = self._lib.record_took(self.reader, taken)
            assert all(one.bulk.intact for one in self.seen)
            at += taken
        return -int(error)

    def _lend_stage(self) -> None:
        """Give an empty stage to others, who write into it, and the reader another."""
        if self._lib.record_stage_is_empty(self.reader):
            self._stage = ffi.new("uint8_t[]", bytes([0xEE]) * self._size)
            self.reader.stage = self._stage

    def room_for(self, expected: int) -> int:
        """How much is received at once while so many replies are on their way."""
        self.reader.expected = max(self.reader.expected, expected)
        assert self._lib.record_space(self.reader, self._space) == 1
        return int(self._space[0].iov_len)

    def _receive(self, data: bytes) -> int:
        """Put what there is room for where it belongs."""
        count = self._lib.record_space(self.reader, self._space)
        taken = 0
        for one in self._space[0:count]:
            part = data[taken : taken + one.iov_len]
            taken += len(part)
            if one.iov_base:
                ffi.memmove(one.iov_base, part, len(part))
        return taken

    def _reply(self, _context: CData, reply: CData, bulk: CData) -> int:
        message = bytes(ffi.buffer(reply.message, reply.have))
        head, length = struct.unpack_from(">2I", message) if len(message) >= 8 else (9, 0)
        if len(message) < head:
            return 0
        self.seen.append(Seen(message[:head], Guarded(length % _DROPPED)))
        bulk.to = ffi.NULL if length & _DROPPED else self.seen[-1].bulk.at
        bulk.length = length % _DROPPED
        bulk.token = ffi.cast("void *", len(self.seen))
        return int(head)

    def _finished(self, _context: CData, token: CData) -> None:
        self.seen[int(ffi.cast("uintptr_t", token)) - 1].finished += 1


@contextmanager
def reading(lib: CData, message_max: int = _MESSAGE_MAX) -> Iterator[Records]:
    records = Records(lib, message_max)
    yield records


def test_half_of_what_is_expected_is_received_at_once(testlib: CData) -> None:
    """Client and server then work side by side. It is neither tiny nor beyond the stage."""
    message = struct.pack(">2I", 8, 4088) + bytes(4088)
    with reading(testlib) as records:
        assert records.room_for(1) == 40 << 10
        records.feed(record(message) * 100, 5000)
        assert records.room_for(2) == 40 << 10
        assert records.room_for(32) == pytest.approx(16 * 4096, rel=0.01)
        assert records.room_for(500) == 128 << 10
        records.feed(record(message) * 468, 5000)
        assert records.room_for(32) == pytest.approx(16 * 4096, rel=0.01)


_SHORT, _SHORT_DROPPED = struct.pack(">2I", 8, 100), struct.pack(">2I", 8, _DROPPED | 100)
_REFUSED: dict[str, tuple[bytes, int, int]] = {
    "longer than the most": (mark(1001), 1000, errno.EMSGSIZE),
    "2 GiB": (mark(2**31 - 1) + bytes(100), 2**31 - 2, errno.EMSGSIZE),
    "2 GiB to be continued": (mark(2**31 - 1, last=False), 1000, errno.EMSGSIZE),
    "longer by its second fragment": (
        mark(600, last=False) + struct.pack(">2I", 8, 900) + bytes(592) + mark(401), 1000,
        errno.EMSGSIZE,
    ),
    "longer by a fragment of the head": (
        mark(6, last=False) + bytes(6) + mark(995), 1000, errno.EMSGSIZE,
    ),
    "nothing": (mark(0), 1000, errno.EBADMSG),
    "nothing in fragments": (mark(0, last=False) * 5 + mark(0), 1000, errno.EBADMSG),
    "half a head": (mark(7) + bytes(7), 1000, errno.EBADMSG),
    "half a head in fragments": (record(bytes(7), (1,)), 1000, errno.EBADMSG),
    "a head without end": (
        mark(50_000) + struct.pack(">2I", 49_000, 0) + bytes(40_000),
        50_000,
        errno.EBADMSG,
    ),
    "less data than told": (mark(50) + _SHORT + bytes(42), 1000, errno.EBADMSG),
    "less data than told, in fragments": (
        record(_SHORT + bytes(99), (30,)), 1000, errno.EBADMSG,
    ),
    "less data to drop than told": (
        record(_SHORT_DROPPED + bytes(99), (30,)) + record(_SHORT), 1000, errno.EBADMSG,
    ),
    "no data at all": (mark(8) + _SHORT, 1000, errno.EBADMSG),
}  # fmt: skip


def test_hostile_records(testlib: CData) -> None:
    """What came before them, byte by byte as well, is whole."""
    head, data = struct.pack(">2I", 40, 600) + bytes(range(32)), random.Random(5).randbytes(600)
    sound = record(head + data + b"end", (1, 0))
    for (name, (stream, most, code)), part in product(_REFUSED.items(), (1, 7, 100_000)):
        with reading(testlib, most) as records:
            assert records.feed(sound * 2, part) == 0, name
            assert records.feed(stream, part) == code, name
            for seen in records.seen[:2]:
                assert (seen.head, seen.bulk.content, seen.finished) == (head, data, 1), name
            assert all(seen.finished == 0 for seen in records.seen[2:]), name
