# SPDX-License-Identifier: GPL-2.0-only
"""RPC-over-RDMA in memory: headers of calls and replies (RFC 8166), private data (RFC 8797).

The vectors were written by hand from the RFCs. Any bytes at all, and private data, are read as they
are meant by python-tests/fuzz/.
"""

import errno
import shutil
import struct
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import missing
from engine_c import CONSTANTS, CData, Guarded, ffi, name_of, read, rubbish, text_of, written, zeros

from nfsmulti.errors import MissingError
from nfsmulti.paths import PYTHON_TESTS, ROOT
from nfsmulti.processes import run

U32, U64 = 2**32 - 1, 2**64 - 1
_SEGMENTS_MAX = CONSTANTS.RPCRDMA_SEGMENTS_MAX
FIXED = 16  # bytes of the words that all versions have

# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")

Segment = tuple[int, int, int]  # handle, length, offset
words = bytes.fromhex  # of XDR units


class Reply(NamedTuple):
    """What a reply's header says; `rpc` is where the RPC message begins, None without one."""

    verdict: str
    xid: int = 0
    credits: int = 0
    write: tuple[Segment, ...] = ()
    low: int = 0
    high: int = 0
    rpc: int | None = None


def decode_raw(lib: CData, data: bytes) -> tuple[CData, str, int]:
    """Decode into a structure full of rubbish; gives it, its verdict and the bytes used."""
    reply = rubbish("rpcrdma_reply")
    used, _ = read(data, lambda source: lib.rpcrdma_decode_reply(source, reply))
    return reply, name_of("rpcrdma_verdict", reply.verdict).removeprefix("RPCRDMA_"), used


def decode_reply(lib: CData, data: bytes) -> Reply:
    """Return what is valid for its verdict."""
    reply, verdict, used = decode_raw(lib, data)
    if verdict == "TOO_SHORT":
        return Reply(verdict)
    whose = reply.xid, reply.credits
    if verdict == "MSG":
        listed = reply.write.segments[0 : reply.write.count]
        segments = tuple((one.handle, one.length, one.offset) for one in listed)
        return Reply(verdict, *whose, segments, rpc=used)
    if verdict == "ERR_VERS":
        return Reply(verdict, *whose, low=reply.low, high=reply.high)
    return Reply(verdict, *whose)


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


def test_the_longest_call_is_known(testlib: CData) -> None:
    most = [_SEGMENTS_MAX, [(1, 2, 3)] * _SEGMENTS_MAX]
    call = ffi.new("struct rpcrdma_call *", [1, 1, most, 0, most])
    assert testlib.rpcrdma_call_size(call) == CONSTANTS.RPCRDMA_HEADER_MAX


# --- replies ---

_XID = 0x11223344
_HEAD = words("11223344 00000001 00000080 00000000")
_CHUNK = words("00000001 00000001 deadbeef 00000200 00007f12 34567000 00000000")
_NONE = words("00000000")
_RPC = words("11223344 00000001 00000000 00000000 00000000 00000000")
_SEGMENT = (0xDEADBEEF, 512, 0x7F12_3456_7000)

REPLIES: dict[str, tuple[bytes, Reply]] = {
    "no data": (_HEAD + _NONE * 3 + _RPC, Reply("MSG", _XID, 128, rpc=28)),
    "data": (
        _HEAD + _NONE + _CHUNK + _NONE + _RPC, Reply("MSG", _XID, 128, (_SEGMENT,), rpc=52),
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
            00000000 00000001
            """
        ),
        Reply("MSG", 0, 0, ((1, 4096, U64), (2, 0, 0x1000)), rpc=68),
    ),
    "data in eight segments": (
        _HEAD + words("00000000 00000001 00000008") + bytes(128) + _NONE * 2 + _RPC,
        Reply("MSG", _XID, 128, ((0, 0, 0),) * 8, rpc=164),
    ),
    "ERR_VERS": (
        words("11223344 00000001 00000080 00000004 00000001 00000002 ffffffff"),
        Reply("ERR_VERS", _XID, 128, low=2, high=U32),
    ),
    "ERR_CHUNK": (
        words("11223344 00000001 00000080 00000004 00000002"), Reply("ERR_CHUNK", _XID, 128),
    ),
}  # fmt: skip


def test_replies(testlib: CData) -> None:
    """What has been cut off is missed, unless it lies behind what is needed."""
    for name, (sent, expected) in REPLIES.items():
        assert decode_reply(testlib, sent) == expected, name
        needed = {"MSG": (expected.rpc or 0) + 4, "ERR_VERS": 28, "ERR_CHUNK": 20}[expected.verdict]
        broken = Reply("MALFORMED", expected.xid, expected.credits)
        for length in range(len(sent)):
            cut = Reply("TOO_SHORT") if length < FIXED else broken if length < needed else expected
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
        assert testlib.rpcrdma_verdict_errno(reply) == code
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


def test_written_beyond_4_gib(testlib: CData) -> None:
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


def _compiled(name: str, folder: Path, *more: str) -> str:
    """Compile a program of python-tests/rdma/ with files of the engine; return its path."""
    compiler = shutil.which("cc") or missing(MissingError("there is no C compiler"))
    program = str(folder / name)
    flags = ["-D_GNU_SOURCE", f"-I{ROOT / 'engine'}", "-o", program]
    run([compiler, *flags, str(PYTHON_TESTS / f"rdma/{name}.c"), *more], timeout=60).check()
    return program


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


def _needs_rdma(build_dir: Path) -> None:
    if not (build_dir / "nfsmulti-rdma").exists():
        missing(MissingError("the engine was built without libibverbs and librdmacm"))


def _channel(name: str, build_dir: Path, folder: Path) -> str:
    """Compile a program of python-tests/rdma/ that has the channel; return its path."""
    _needs_rdma(build_dir)
    sources = [
        str(ROOT / "engine" / name)
        for name in (
            "transport/address.c", "transport/rdma_link.c", "transport/rdma_memory.c",
            "wire/rpcrdma.c",
        )
    ]  # fmt: skip
    return _compiled(name, folder, *sources, "-lrdmacm", "-libverbs")


def test_data_is_where_the_reply_says(build_dir: Path, tmp_path: Path) -> None:
    """What the server has not written is old bytes of the buffer, and no data."""
    program = _channel("placed", build_dir, tmp_path)
    for name, (sent, named, behind, outcome) in _PLACED.items():
        (tmp_path / "reply").write_bytes(sent)
        argv = [program, str(tmp_path / "reply"), str(named), str(behind)]
        assert run(argv, timeout=60).check().stdout == outcome, name


def test_calls_keep_to_credits_and_replies_to_what_the_server_sends(
    build_dir: Path, tmp_path: Path
) -> None:
    program = _channel("bounds", build_dir, tmp_path)
    assert run([program], timeout=60).check().stdout == "1, 0, 100, 0"


def test_each_device_has_keys_of_its_own(build_dir: Path, tmp_path: Path) -> None:
    """And one that was removed is there anew: what its connections had ends with the last."""
    _needs_rdma(build_dir)
    program = _compiled("devices", tmp_path)
    said = run([program], timeout=60).check().stdout
    assert said == "1 2 1 | 1 by 1 | 2 by 1 | 1 by 0 | 2 segments | 3 2 | 1 | 3 2"
