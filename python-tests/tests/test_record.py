# SPDX-License-Identifier: GPL-2.0-only
"""Records in memory (RFC 5531, 11): what a reader makes of a stream, sound or hostile."""

from __future__ import annotations

import errno
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Self

import pytest
from engine_c import CData, Guarded, ffi, zeros
from hypothesis import example, given
from hypothesis import strategies as st

from servers.scripted.protocol import mark, record

# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")

# --- a reader, watched at each step ---

_STAGE = 128 << 10


@dataclass
class Seen:
    """One reply as a handler saw it; `bulk` is where its data went, of zeros if it was dropped.

    `again` is all but the data, where the reply was handed over again.
    """

    head: bytes
    bulk: Guarded | None = None
    again: bytes | None = None
    finished: int = 0


class RecordRefusedError(Exception):
    """record_took() gave this errno."""

    def __init__(self, code: int):
        super().__init__(errno.errorcode[code])
        self.code = code


class Records:
    """A record reader at work."""

    def __init__(self, lib: CData, message_max: int):
        self._lib = lib
        self.seen: list[Seen] = []
        self._failure: AssertionError | None = None
        reply = "int (*)(void *, const struct rpc_reply *, struct rpc_bulk *)"
        finished = "void (*)(void *, void *)"
        self._callbacks = ffi.callback(reply, self._reply), ffi.callback(finished, self._finished)
        self._handler = ffi.new("struct rpc_handler *", self._callbacks)
        self._reader, self._space = zeros("record_reader"), ffi.new("struct iovec[2]")
        assert (
            lib.record_reader_init(self._reader, self._handler, message_max, lib.RPC_REPLY_HEAD_MAX)
            == 0
        )

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
        self._reader.expected = max(self._reader.expected, expected)
        assert self._lib.record_space(self._reader, self._space) == 1
        return int(self._space[0].iov_len)

    def _receive(self, data: bytes) -> int:
        """Put what there is room for where it belongs."""
        count = self._lib.record_space(self._reader, self._space)
        assert count in (1, 2)
        assert self._space[0].iov_len > 0
        taken = 0
        for one in self._space[0:count]:
            part = data[taken : taken + one.iov_len]
            taken += len(part)
            if one.iov_base == ffi.NULL:
                assert count == 1
                continue
            self._check_place(ffi.cast("uint8_t *", one.iov_base), one.iov_len)
            ffi.memmove(one.iov_base, part, len(part))
        error = self._lib.record_took(self._reader, taken)
        if self._failure:
            raise self._failure
        assert all(one.bulk.intact for one in self.seen if one.bulk)
        if error:
            raise RecordRefusedError(-error)
        return taken

    def _check_place(self, begin: CData, length: int) -> None:
        """Expect memory of the stage, or what is left of the present bulk buffer."""
        end, stage = begin + length, self._reader.stage
        bulk = self.seen[-1].bulk if self.seen else None
        in_stage = stage <= begin <= end <= stage + _STAGE
        assert in_stage or (bulk and bulk.at <= begin <= end <= bulk.end)

    def _reply(self, _context: CData, reply: CData, bulk: CData) -> int:
        if reply.have > _STAGE:
            self._failure = AssertionError(f"{reply.have} bytes at hand")
            return -errno.EFAULT
        message = bytes(ffi.buffer(reply.message, reply.have))
        if reply.cut:
            return self._again(message, reply, bulk)
        wish = _wish(message)
        if wish is None:
            return 0
        head, length, again, dropped = wish
        seen = Seen(message[:head])
        self.seen.append(seen)
        if length >= 0:
            seen.bulk = Guarded(length)
            bulk.to, bulk.length = ffi.NULL if dropped else seen.bulk.at, length
            bulk.token = ffi.cast("void *", len(self.seen))
            bulk.again = again and reply.length > 0
        return head

    def _again(self, message: bytes, reply: CData, bulk: CData) -> int:
        seen = self.seen[-1]
        if not reply.whole or reply.cut != len(seen.head) or seen.again is not None:
            self._failure = AssertionError("a reply is handed over again that is not there")
        seen.again = message
        if not struct.unpack_from(">2I", message)[1] & _REFUSED_AGAIN:
            bulk.token = ffi.cast("void *", len(self.seen))
        return len(message)

    def _finished(self, _context: CData, token: CData) -> None:
        if token != ffi.cast("void *", len(self.seen)):
            self._failure = AssertionError("another reply has begun meanwhile")
        self.seen[-1].finished += 1


# --- what it reads ---

_NOBODY, _AGAIN, _REFUSED_AGAIN, _DROPPED = 2**32 - 1, 2**31, 2**30, 2**29
_HEAD_MIN, _HEAD_MAX = 8, 1000
_MESSAGE_MAX = 300_000
_ANY_BULK = st.one_of(
    st.integers(0, 40), st.integers(16380, 16390), st.integers(0, 70_000), st.just(200_000)
)
_SIZES = st.lists(
    st.one_of(st.integers(0, 8), st.integers(0, 2000), st.integers(0, 200_000)), max_size=8
)


@dataclass(frozen=True)
class Message:
    """What a stream carries here: a head that tells its own and the bulk's length, data, a rest.

    The head also tells whether it is wanted again with the rest, and whether it is nobody's then;
    and whether the data is to be dropped.
    """

    head: bytes
    bulk: bytes
    rest: bytes
    nobodys: bool
    again: bool = False
    refused: bool = False
    dropped: bool = False

    @property
    def whole(self) -> bytes:
        return self.head + self.bulk + self.rest


@st.composite
def messages(draw: st.DrawFn) -> Message:
    noise = random.Random(draw(st.integers(0, 1000)))
    nobodys = draw(st.integers(0, 4)) == 0
    head, bulk = draw(st.integers(_HEAD_MIN, _HEAD_MAX)), draw(_ANY_BULK)
    again, refused, dropped = (draw(st.booleans()) for _ in range(3))
    flags = _AGAIN * again | _REFUSED_AGAIN * refused | _DROPPED * dropped
    lengths = struct.pack(">2I", head, _NOBODY if nobodys else bulk | flags)
    return Message(
        head=lengths + noise.randbytes(head - len(lengths)),
        bulk=noise.randbytes(bulk),
        rest=noise.randbytes(draw(st.integers(0, 10))),
        nobodys=nobodys,
        again=again,
        refused=refused,
        dropped=dropped,
    )


def _wish(head: bytes) -> tuple[int, int, bool, bool] | None:
    """Read a message's own lengths, of its head and its bulk data, and what is to be done with it.

    Whether it is wanted again, and whether its data is dropped. None: more bytes are needed.
    """
    if len(head) < _HEAD_MIN:
        return None
    length, bulk = struct.unpack_from(">2I", head)
    if bulk == _NOBODY:
        return len(head), -1, False, False
    again, dropped = bulk & _AGAIN > 0, bulk & _DROPPED > 0
    return (length, bulk % _DROPPED, again, dropped) if len(head) >= length else None


@given(st.lists(st.tuples(messages(), _SIZES), min_size=1, max_size=5), _SIZES)
@example([(Message(struct.pack(">2I", 8, 4), b"data", b"", False), [1])], [1])
@example([(Message(struct.pack(">2I", 8, 0), b"", b"", False), [0, 0])] * 3, [4])
def test_records_in_any_parts(
    testlib: CData, sent: list[tuple[Message, list[int]]], parts: list[int]
) -> None:
    """However the records are cut into fragments and received: every reply, all data in place.

    What is dropped is written nowhere. Of a reply that is wanted again, the rest comes with its
    head, once the data is in place.
    """
    stream = b"".join(record(one.whole, thrifty(fragments)) for one, fragments in sent)
    with Records(testlib, _MESSAGE_MAX) as records:
        records.feed(stream, thrifty(parts) or [len(stream)])
        assert len(records.seen) == len(sent)
        for seen, (one, fragments) in zip(records.seen, sent, strict=True):
            if one.nobodys:
                assert seen.bulk is None
                assert one.whole.startswith(seen.head)
                assert seen.finished == 0
            else:
                assert seen.bulk is not None
                kept = bytes(len(one.bulk)) if one.dropped else one.bulk
                assert (seen.head, seen.bulk.content) == (one.head, kept)
                if one.again and not fragments:
                    assert seen.again == one.head + one.rest
                else:
                    assert seen.again in (None, one.head + one.rest)
                assert seen.finished == (0 if seen.again and one.refused else 1)


def thrifty(sizes: Sequence[int]) -> tuple[int, ...]:
    """Add a large size to small ones, so that they do not make a hundred thousand parts."""
    return (*sizes, 5000) if sizes and max(sizes) < 500 else tuple(sizes)


def test_half_of_what_is_expected_is_received_at_once(testlib: CData) -> None:
    """Client and server then work side by side. It is neither tiny nor beyond the stage."""
    message = struct.pack(">2I", 8, 4088) + bytes(4088)
    with Records(testlib, _MESSAGE_MAX) as records:
        assert records.room_for(1) == 40 << 10
        records.feed(record(message) * 100, [5000])
        assert records.room_for(2) == 40 << 10
        assert records.room_for(32) == pytest.approx(16 * 4096, rel=0.01)
        assert records.room_for(500) == 128 << 10
        records.feed(record(message) * 468, [5000])
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
        with Records(testlib, most) as records:
            records.feed(sound * 2, [part])
            with pytest.raises(RecordRefusedError) as refused:
                records.feed(stream, [part])
            assert refused.value.code == code, name
            for seen in records.seen[:2]:
                assert seen.bulk is not None, name
                assert (seen.head, seen.bulk.content, seen.finished) == (head, data, 1), name
            assert all(seen.finished == 0 for seen in records.seen[2:]), name
