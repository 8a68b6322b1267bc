# SPDX-License-Identifier: GPL-2.0-only
"""Framings in memory: records (RFC 5531, 11), RPC-over-RDMA (RFC 8166) and its private data (8797).

The vectors were written by hand from the RFCs. Any bytes at all are read as they are meant by
python-tests/fuzz/; that data is where it belongs, however records are cut, is in test_sim.py.
"""

import errno
import random
import shutil
import struct
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import missing
from engine_c import CONSTANTS, CData, Guarded, ffi, name_of, read, rubbish, text_of, written, zeros

from nfsmulti.errors import MissingError
from nfsmulti.paths import PYTHON_TESTS, ROOT
from nfsmulti.processes import run
from servers.rpc import mark, record

# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")

U32, U64 = 2**32 - 1, 2**64 - 1
_SEGMENTS_MAX = CONSTANTS.RPCRDMA_SEGMENTS_MAX
FIXED = 16  # bytes of the words that all versions have


words = bytes.fromhex  # of XDR units


# What a reply's header says: its verdict, and behind it what is valid for that. That is xid and
# credits, if it has these, and of MSG the segments and where the RPC message begins, of ERR_VERS
# the lowest and the highest version.
Reply = tuple[object, ...]


def decode_raw(lib: CData, data: bytes) -> tuple[CData, str, int]:
    """Decode into a structure full of rubbish; gives it, its verdict and the bytes used."""
    reply = rubbish("rpcrdma_reply")
    used, _ = read(data, lambda source: lib.rpcrdma_decode_reply(source, reply))
    return reply, name_of("rpcrdma_verdict", reply.verdict).removeprefix("RPCRDMA_"), used


def decode_reply(lib: CData, data: bytes) -> Reply:
    reply, verdict, used = decode_raw(lib, data)
    if verdict == "TOO_SHORT":
        return (verdict,)
    listed = reply.write.segments[0 : reply.write.count] if verdict == "MSG" else []
    segments = tuple((one.handle, one.length, one.offset) for one in listed)
    more = {"MSG": (segments, used), "ERR_VERS": (reply.low, reply.high)}.get(verdict, ())
    return (verdict, reply.xid, reply.credits, *more)


def text_of_verdict(lib: CData, reply: CData, size: int = 300) -> str:
    return text_of(size, lambda room, size: lib.rpcrdma_verdict_text(reply, room, size))


# --- calls ---

_CALLS: dict[str, tuple[dict[str, Any], bytes]] = {
    "no data": ({}, words("11223344 00000001 00000080 00000000 00000000 00000000 00000000")),
    "data to send, in two segments": (
        {"read": [2, [(1, 2, 3), (U32, U32, U64)]], "position": 156},
        words(
            """
            11223344 00000001 00000080 00000000
            00000001 0000009c 00000001 00000002 00000000 00000003
            00000001 0000009c ffffffff ffffffff ffffffff ffffffff
            00000000 00000000 00000000
            """
        ),
    ),
    "data to receive, in two segments": (
        {"write": [2, [(1, 2, 3), (0xDEADBEEF, 512, 0x7F12_3456_7000)]]},
        words(
            """
            11223344 00000001 00000080 00000000
            00000000
            00000001 00000002
            00000001 00000002 00000000 00000003
            deadbeef 00000200 00007f12 34567000
            00000000 00000000
            """
        ),
    ),
}


def test_calls(testlib: CData) -> None:
    """Each has the room that it is said to need, and is not made in less."""
    for name, (parts, sent) in _CALLS.items():
        call = ffi.new("struct rpcrdma_call *", {"xid": 0x11223344, "credits": 128, **parts})

        def put(out: CData, call: CData = call) -> None:
            testlib.rpcrdma_encode_call(out, call)

        assert testlib.rpcrdma_call_size(call) == len(sent), name
        assert written(len(sent), put) == sent, name
        assert {written(room, put) for room in range(len(sent))} == {None}, name
    most = [_SEGMENTS_MAX, [(1, 2, 3)] * _SEGMENTS_MAX]
    longest = ffi.new("struct rpcrdma_call *", [1, 1, most, 0, most])
    assert testlib.rpcrdma_call_size(longest) == CONSTANTS.RPCRDMA_HEADER_MAX


# --- replies ---

_XID = 0x11223344
_HEAD = words("11223344 00000001 00000080 00000000")
_CHUNK = words("00000001 00000001 deadbeef 00000200 00007f12 34567000 00000000")
_NONE = words("00000000")
_RPC = words("11223344 00000001 00000000 00000000 00000000 00000000")
_SEGMENT = (0xDEADBEEF, 512, 0x7F12_3456_7000)

REPLIES: dict[str, tuple[bytes, Reply]] = {
    "no data": (_HEAD + _NONE * 3 + _RPC, ("MSG", _XID, 128, (), 28)),
    "data": (
        _HEAD + _NONE + _CHUNK + _NONE + _RPC, ("MSG", _XID, 128, (_SEGMENT,), 52),
    ),
    "data in two segments, and no credits": (
        words(
            """
            00000000 00000001 00000000 00000000
            00000000
            00000001 00000002
            00000001 00001000 ffffffff ffffffff
            00000002 00000000 00000000 00001000
            00000000
            00000000
            00000000 00000001 00000000 00000000 00000000 00000000
            """
        ),
        ("MSG", 0, 0, ((1, 4096, U64), (2, 0, 0x1000)), 68),
    ),
    "data in eight segments": (
        _HEAD + words("00000000 00000001 00000008") + bytes(128) + _NONE * 2 + _RPC,
        ("MSG", _XID, 128, ((0, 0, 0),) * 8, 164),
    ),
    "ERR_VERS": (
        words("11223344 00000001 00000080 00000004 00000001 00000002 ffffffff"),
        ("ERR_VERS", _XID, 128, 2, U32),
    ),
    "ERR_CHUNK": (
        words("11223344 00000001 00000080 00000004 00000002"), ("ERR_CHUNK", _XID, 128),
    ),
}  # fmt: skip


def test_replies(testlib: CData) -> None:
    """What has been cut off is missed, unless it lies behind what is needed."""
    for name, (sent, expected) in REPLIES.items():
        assert decode_reply(testlib, sent) == expected, name
        needed = {"ERR_VERS": 28, "ERR_CHUNK": 20}.get(str(expected[0]), len(sent) - len(_RPC) + 4)
        broken = ("MALFORMED", *expected[1:3])
        for length in range(len(sent)):
            cut = ("TOO_SHORT",) if length < FIXED else broken if length < needed else expected
            assert decode_reply(testlib, sent[:length]) == cut, (name, length)


# What is wrong, the bytes, and words of the refusal.
REFUSED: dict[str, tuple[bytes, str]] = {
    "version 2": (words("11223344 00000002 00000080 00000000") + _NONE * 3 + _RPC, "version"),
    "RDMA_NOMSG": (words("11223344 00000001 00000080 00000001") + _NONE * 3, "RDMA_NOMSG"),
    "rdma_proc 5": (words("11223344 00000001 00000080 00000005") + bytes(60), "rdma_proc"),
    "rdma_err 3": (words("11223344 00000001 00000080 00000004 00000003 00000000"), "rdma_err"),
    "an error that ends": (words("11223344 00000001 00000080 00000004"), "half of an RDMA_ERROR"),
    "versions that end": (
        words("11223344 00000001 00000080 00000004 00000001 00000001"), "half of an RDMA_ERROR",
    ),
    "a Read list": (
        _HEAD + words("00000001 0000009c deadbeef 00000200 00007f12 34567000 00000000")
        + _NONE * 2 + _RPC, "a Read list",
    ),
    "a Write list of mark 2": (
        _HEAD + _NONE + words("00000002") + _CHUNK[4:] + _NONE + _RPC, "neither present nor absent",
    ),
    "two Write chunks": (_HEAD + _NONE + _CHUNK[:-4] + _CHUNK + _NONE + _RPC, "second Write chunk"),
    "nine segments": (
        _HEAD + _NONE + words("00000001 00000009") + bytes(9 * 16) + _NONE * 2 + _RPC,
        "more segments than",
    ),
    "a Reply chunk": (_HEAD + _NONE * 2 + _CHUNK[:-4] + _RPC, "a Reply chunk"),
    "no RPC message": (_HEAD + _NONE * 3, "no RPC message"),
    "another's RPC message": (
        _HEAD + _NONE * 3 + words("11223345") + _RPC[4:], "an RPC message of another xid",
    ),
}  # fmt: skip


def test_refused_replies(testlib: CData) -> None:
    """A refusal leaves xid and credits valid, so that its call, and no other, fails by it."""
    for name, (sent, said) in REFUSED.items():
        reply, verdict, _ = decode_raw(testlib, sent)
        assert (verdict, reply.xid, reply.credits) == ("MALFORMED", _XID, 128), name
        assert said in text_of_verdict(testlib, reply), name


_WORDS_OF: dict[str, tuple[int, str]] = {
    "MSG": (0, "success"),
    "ERR_VERS": (errno.EPROTONOSUPPORT, "versions 2 to 4294967295, not 1 (ERR_VERS)"),
    "ERR_CHUNK": (errno.EREMOTEIO, "(ERR_CHUNK)"),
    "MALFORMED": (errno.EPROTO, "header has an apple"),
    "TOO_SHORT": (errno.EPROTO, "too short"),
}


def test_words_and_errors(testlib: CData) -> None:
    fault = ffi.new("char[]", b"an apple")
    for verdict, (code, said) in _WORDS_OF.items():
        reply = zeros("rpcrdma_reply")
        reply.verdict = getattr(CONSTANTS, f"RPCRDMA_{verdict}")
        reply.low, reply.high, reply.fault = 2, U32, fault
        assert testlib.rpcrdma_verdict_text(reply, ffi.NULL, 0) == code
        whole = text_of_verdict(testlib, reply)
        assert said in whole
        for size in range(1, len(whole) + 2):
            assert text_of_verdict(testlib, reply, size) == whole[: size - 1]


# --- what a Write chunk holds ---


def bytes_written(lib: CData, offered: tuple[int, ...], returned: tuple[int, ...]) -> int | None:
    """rpcrdma_written() of segments of these lengths; None where it refuses."""
    count = ffi.new("uint64_t *")
    chunks = (
        ffi.new("struct rpcrdma_chunk *", [len(one), [(0, length, 0) for length in one]])
        for one in (offered, returned)
    )
    return int(count[0]) if lib.rpcrdma_written(*chunks, count) else None


def test_written_is_what_lies_at_the_front(testlib: CData) -> None:
    """A server that fills a chunk byte by byte says these lengths, and no others are accepted."""
    for offered in product(range(4), repeat=3):
        filled = {}
        for count in range(sum(offered) + 1):
            before = (sum(offered[:place]) for place in range(3))
            said = (min(max(count - at, 0), room) for at, room in zip(before, offered, strict=True))
            filled[tuple(said)] = count
        for returned in product(range(5), repeat=3):
            told = bytes_written(testlib, offered, returned)
            assert told == filled.get(returned), (offered, returned)
        assert bytes_written(testlib, offered, ()) == 0
        assert bytes_written(testlib, offered, offered[:-1]) is None
        assert bytes_written(testlib, offered, (*offered, 0)) is None
    most = (U32,) * _SEGMENTS_MAX
    assert bytes_written(testlib, most, most) == _SEGMENTS_MAX * U32


# --- credits ---


def test_credit_window(testlib: CData) -> None:
    """A window of at least one, and no more than there are receives for."""
    granted = (0, 1, 7, 8, 9, U32)
    windows = [testlib.rpcrdma_credit_window(count, 8) for count in granted]
    assert windows == [1, 1, 7, 8, 8, 8]
    assert [testlib.rpcrdma_credit_window(count, 1) for count in (0, 5)] == [1, 1]


# --- private data ---

_TOLD: dict[tuple[int, int], bytes] = {
    (4096, 4096): bytes.fromhex("f6ab0e18 01 00 03 03"),  # Linux's
    (1024, 262144): bytes.fromhex("f6ab0e18 01 00 00 ff"),
    (9215, 65536): bytes.fromhex("f6ab0e18 01 00 07 3f"),  # a part of a KiB is not told
}


def test_private_data_to_the_byte(testlib: CData) -> None:
    """How any data is read, is looked at by fuzz/rpc.c."""
    assert testlib.rpcrdma_decode_private(ffi.NULL, 0).send == 1024
    for inline, sent in _TOLD.items():
        memory = Guarded(8)
        testlib.rpcrdma_encode_private(memory.at, ffi.new("struct rpcrdma_inline *", inline))
        assert memory.intact
        assert memory.content == sent
        for told in (sent + bytes(48), sent[:5] + b"\xff" + sent[6:]):  # padding; the peer's flags
            given = Guarded(len(told), told)
            peers = testlib.rpcrdma_decode_private(given.at, given.size)
            assert (peers.send, peers.receive) == (inline[0] // 1024 * 1024, inline[1])


def test_effective_inline(testlib: CData) -> None:
    """What one side sends is bounded by what the other receives."""
    for mine, peers, send, receive in (
        ((4096, 4096), (4096, 4096), 4096, 4096),
        ((4096, 8192), (1024, 2048), 2048, 1024),
        ((4096, 8192), (65536, 65536), 4096, 8192),
        ((4096, 8192), (8192, 1024), 1024, 8192),
    ):
        sides = (ffi.new("struct rpcrdma_inline *", side) for side in (mine, peers))
        both = testlib.rpcrdma_effective_inline(*sides)
        assert (both.send, both.receive) == (send, receive)


# --- a server that refuses, or says what is not so ---


def _run(build_dir: Path, folder: Path, name: str, *words: str, channel: bool = True) -> str:
    """Run a program of python-tests/rdma/, compiled with the engine's channel; give its output."""
    if not (build_dir / "nfsmulti-rdma").exists():
        missing(MissingError("the engine was built without libibverbs and librdmacm"))
    compiler = shutil.which("cc") or missing(MissingError("there is no C compiler"))
    program, engine = str(folder / name), ROOT / "engine"
    sources = [str(PYTHON_TESTS / f"rdma/{name}.c")]
    if channel:
        parts = ("address", "rdma_link", "rdma_memory")
        sources += [str(engine / f"transport/{part}.c") for part in parts]
        sources += [str(engine / "wire/rpcrdma.c"), "-lrdmacm", "-libverbs"]
    if not Path(program).exists():
        argv = [compiler, "-D_GNU_SOURCE", f"-I{engine}", "-o", program, *sources]
        run(argv, timeout=60).check()
    return run([program, *words], timeout=60).check().stdout


def _written(count: int) -> bytes:
    """Return a reply whose server says that it has written so many bytes."""
    chunk = _CHUNK.replace(words("00000200"), struct.pack(">I", count))
    return _HEAD + _NONE + chunk + _NONE + _RPC


_DATA = b"\x11" + bytes(510) + b"\x99"
_INLINE = _HEAD + _NONE * 3 + _RPC
_ELSEWHERE = f"{errno.EPROTO}: the reply's data is not where it says"
# A reply, the bytes that its RPC message names, where these belong, and what comes of it.
_PLACED: dict[str, tuple[bytes, int, int, str]] = {
    "all": (_written(512), 512, 0, "taken, 0000"),
    "a part": (_written(100), 100, 0, "taken, 0000"),
    "less than named": (_written(100), 512, 0, _ELSEWHERE),
    "more than named": (_written(512), 100, 0, _ELSEWHERE),
    "for another place": (_written(512), 512, 8, _ELSEWHERE),
    "inline": (_INLINE + _DATA, 512, 0, "taken, 1199"),
    "inline, less than named": (_INLINE + _DATA[:508], 512, 0, _ELSEWHERE),
    "none": (_INLINE, 512, 0, _ELSEWHERE),
}


def test_data_is_where_the_reply_says(build_dir: Path, tmp_path: Path) -> None:
    """What the server has not written is old bytes of the buffer, and no data."""
    for name, (sent, *places, outcome) in _PLACED.items():
        (tmp_path / "reply").write_bytes(sent)
        argv = map(str, (tmp_path / "reply", *places))
        assert _run(build_dir, tmp_path, "channel", *argv) == outcome, name


def test_calls_keep_to_credits_and_replies_to_what_the_server_sends(
    build_dir: Path, tmp_path: Path
) -> None:
    assert _run(build_dir, tmp_path, "channel") == "1, 0, 100, 0"


def test_each_device_has_keys_of_its_own(build_dir: Path, tmp_path: Path) -> None:
    """And one that was removed is there anew: what its connections had ends with the last."""
    said = _run(build_dir, tmp_path, "devices", channel=False)
    assert said == "1 2 1 | 1 by 1 | 2 by 1 | 1 by 0 | 2 segments | 3 2 | 1 | 3 2"


# --- records ---

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


def test_half_of_what_is_expected_is_received_at_once(testlib: CData) -> None:
    """Client and server then work side by side. It is neither tiny nor beyond the stage."""
    message = struct.pack(">2I", 8, 4088) + bytes(4088)
    records = Records(testlib, _MESSAGE_MAX)
    assert records.room_for(1) == 40 << 10
    records.feed(record(message) * 100, 5000)
    assert records.room_for(2) == 40 << 10
    assert records.room_for(32) == pytest.approx(16 * 4096, rel=0.01)
    assert records.room_for(500) == 128 << 10
    records.feed(record(message) * 468, 5000)
    assert records.room_for(32) == pytest.approx(16 * 4096, rel=0.01)


_SHORT, _SHORT_DROPPED = struct.pack(">2I", 8, 100), struct.pack(">2I", 8, _DROPPED | 100)
_REFUSED_RECORDS: dict[str, tuple[bytes, int, int]] = {
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
    for (name, (stream, most, code)), part in product(_REFUSED_RECORDS.items(), (1, 7, 100_000)):
        records = Records(testlib, most)
        assert records.feed(sound * 2, part) == 0, name
        assert records.feed(stream, part) == code, name
        for seen in records.seen[:2]:
            assert (seen.head, seen.bulk.content, seen.finished) == (head, data, 1), name
        assert all(seen.finished == 0 for seen in records.seen[2:]), name


# --- portion.h: how much one receive takes ---


def _receives(testlib: CData, rates: dict[int, float], sleeps: dict[int, float]) -> Counter[int]:
    """Return by which portions 100,000 receives of 40 KB go.

    `rates`: bytes a nanosecond by portion, `sleeps`: those of the thread in a receive.
    """
    portion, sample, seen = zeros("portion"), zeros("portion_sample"), Counter[int]()
    testlib.portion_init(portion)
    now = slept = 0.0
    for receive in range(1, 100_001):
        seen[portion.part] += 1
        now += 40_000 / rates[portion.part]
        slept += sleeps[portion.part]
        portion.receives += 1  # portion_due() is inline
        if portion.receives >= portion.until:
            sample.now, sample.bytes, sample.slept = int(now), receive * 40_000, int(slept)
            testlib.portion_weigh(portion, sample)
    return seen


def test_a_smaller_portion_is_kept_where_it_brings_a_tenth_more(testlib: CData) -> None:
    for rates, sleeps, stays in (
        # A server that is never waited for is asked for no smaller portion.
        ({2: 3.0, 4: 9.0, 8: 9.0}, {2: 0.0, 4: 0.0, 8: 0.0}, 2),
        # One that sleeps gets a smaller one where that brings a tenth more.
        ({2: 1.0, 4: 1.2, 8: 9.0}, {2: 0.2, 4: 0.01, 8: 0.0}, 4),
        ({2: 1.0, 4: 1.2, 8: 1.5}, {2: 0.2, 4: 0.2, 8: 0.2}, 8),
        ({2: 1.0, 4: 1.05, 8: 9.0}, {2: 0.2, 4: 0.2, 8: 0.2}, 2),
    ):
        seen = _receives(testlib, rates, sleeps)
        assert seen.most_common(1)[0][0] == stays
        assert seen[stays] > 95_000, stays  # the rest are trials


def test_a_clock_that_stands_divides_by_nothing(testlib: CData) -> None:
    portion, sample = zeros("portion"), zeros("portion_sample")
    testlib.portion_init(portion)
    for _ in range(20):
        sample.slept += 1000
        testlib.portion_weigh(portion, sample)
        assert portion.part in {2, 4, 8}
