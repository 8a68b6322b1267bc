# SPDX-License-Identifier: GPL-2.0-only
"""Messages in memory: records, RPC replies, NFSv3 calls and results; the ledger."""

from __future__ import annotations

import ctypes
import errno
import random
import re
import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import codec_abi
import hold_abi
import nfs4_abi
import pool_abi
import pytest
import rpcrdma_abi
from codec_abi import (
    COMMIT,
    FH_SIZE,
    READ,
    VERDICTS,
    WRITE,
    CodecLibrary,
    Commit,
    Ledger,
    RecordRefusedError,
    Records,
    ReplyHeader,
    build_ledger,
    text_of,
)
from hypothesis import example, given
from hypothesis import strategies as st
from xdrlib3 import Unpacker

from nfsmulti.paths import ROOT
from nfsmulti.processes import run
from servers.scripted.call import decode
from servers.scripted.protocol import (
    AcceptStat,
    AuthStat,
    Nfs,
    Stable,
    Status,
    accepted,
    denied,
    mark,
    message,
    record,
    rpc_mismatch,
)

U32, U64 = 2**32 - 1, 2**64 - 1
WORDS, HYPERS = st.integers(0, U32), st.integers(0, U64)
VERIFIERS = st.binary(min_size=8, max_size=8)


# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")


@pytest.fixture(scope="module")
def codec(testlib: ctypes.CDLL) -> CodecLibrary:
    return CodecLibrary(testlib)


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return found or pytest.skip("there is no C compiler")


@pytest.fixture(scope="module")
def books(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build_ledger(compiler, ROOT / "engine", tmp_path_factory.mktemp("ledger"))


_HEADERS = (
    "group/hold.h", "nfs/nfs3.h", "nfs/nfs4_template.h", "pool/pool.h", "pool/spread.h",
    "wire/record.h", "wire/message.h", "wire/rpcrdma.h",
)  # fmt: skip


def mirrors() -> Iterator[tuple[str, type[ctypes.Structure]]]:
    """Yield the tests' structures, each by what its docstring says it is."""
    for module in (codec_abi, hold_abi, nfs4_abi, pool_abi, rpcrdma_abi):
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, ctypes.Structure):
                for name in re.findall(r"^struct (\w+)| and struct (\w+)", one.__doc__ or ""):
                    yield "".join(name), one


def test_structures_are_mirrored(compiler: str, tmp_path: Path) -> None:
    """And constants."""
    lines = ["#include <stddef.h>", *(f'#include "{header}"' for header in _HEADERS)]
    same = [f"NFS4_{op.name} == {op.value}" for op in nfs4_abi.Op]
    same += [f"RPCRDMA_HEADER_MAX == {rpcrdma_abi.HEADER_MAX}"]
    same += [f"RPCRDMA_{name} == {n}" for n, name in enumerate(rpcrdma_abi.VERDICTS)]
    for name, mirror in mirrors():
        same.append(f"sizeof(struct {name}) == {ctypes.sizeof(mirror)}")
        for member in (field[0] for field in mirror._fields_):
            at = getattr(mirror, member).offset
            same.append(f"offsetof(struct {name}, {member.rstrip('_')}) == {at}")
    lines += [f'_Static_assert({one}, "{one}");' for one in same]
    source = tmp_path / "mirrors.c"
    source.write_text("\n".join(lines) + "\n")
    run([compiler, "-fsyntax-only", f"-I{ROOT / 'engine'}", str(source)], timeout=60).check()


# --- records ---

_NOBODY = U32
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
    """What a stream carries here: a head that tells its own and the bulk's length, data, a rest."""

    head: bytes
    bulk: bytes
    rest: bytes
    nobodys: bool

    @property
    def whole(self) -> bytes:
        """The message as it is sent."""
        return self.head + self.bulk + self.rest


@st.composite
def messages(draw: st.DrawFn) -> Message:
    noise = random.Random(draw(st.integers(0, 1000)))
    nobodys = draw(st.integers(0, 4)) == 0
    head, bulk = draw(st.integers(_HEAD_MIN, _HEAD_MAX)), draw(_ANY_BULK)
    lengths = struct.pack(">2I", head, _NOBODY if nobodys else bulk)
    return Message(
        head=lengths + noise.randbytes(head - len(lengths)),
        bulk=noise.randbytes(bulk),
        rest=noise.randbytes(draw(st.integers(0, 10))),
        nobodys=nobodys,
    )


def wish(head: bytes) -> tuple[int, int] | None:
    """Read a message's own lengths, as the engine's handler reads a reply."""
    if len(head) < _HEAD_MIN:
        return None
    length, bulk = struct.unpack_from(">2I", head)
    if bulk == _NOBODY:
        return len(head), -1
    return (length, bulk) if len(head) >= length else None


@given(st.lists(st.tuples(messages(), _SIZES), min_size=1, max_size=5), _SIZES)
@example([(Message(struct.pack(">2I", 8, 4), b"data", b"", False), [1])], [1])
@example([(Message(struct.pack(">2I", 8, 0), b"", b"", False), [0, 0])] * 3, [4])
def test_records_in_any_parts(
    codec: CodecLibrary, sent: list[tuple[Message, list[int]]], parts: list[int]
) -> None:
    """However the records are cut into fragments and received: every reply, all data in place."""
    stream = b"".join(record(one.whole, thrifty(fragments)) for one, fragments in sent)
    with Records(codec, _MESSAGE_MAX, wish) as records:
        records.feed(stream, thrifty(parts) or [len(stream)])
        assert len(records.seen) == len(sent)
        for seen, (one, _) in zip(records.seen, sent, strict=True):
            if one.nobodys:
                assert seen.bulk is None
                assert one.whole.startswith(seen.head)
                assert seen.finished == 0
            else:
                assert seen.bulk is not None
                assert (seen.head, seen.bulk.content) == (one.head, one.bulk)
                assert seen.finished == 1


def thrifty(sizes: Sequence[int]) -> tuple[int, ...]:
    """Add a large size to small ones, so that they do not make a hundred thousand parts."""
    return (*sizes, 5000) if sizes and max(sizes) < 500 else tuple(sizes)


def test_half_of_what_is_expected_is_received_at_once(codec: CodecLibrary) -> None:
    """Client and server then work side by side. It is neither tiny nor beyond the stage."""
    message = struct.pack(">2I", 8, 4088) + bytes(4088)
    with Records(codec, _MESSAGE_MAX, wish) as records:
        assert records.room_for(1) == 40 << 10
        records.feed(record(message) * 100, [5000])
        assert records.room_for(2) == 40 << 10
        assert records.room_for(32) == pytest.approx(16 * 4096, rel=0.01)
        assert records.room_for(500) == 128 << 10
        records.feed(record(message) * 468, [5000])
        assert records.room_for(32) == pytest.approx(16 * 4096, rel=0.01)


_SHORT = struct.pack(">2I", 8, 100)
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
    "no data at all": (mark(8) + _SHORT, 1000, errno.EBADMSG),
}  # fmt: skip


def test_hostile_records(codec: CodecLibrary) -> None:
    """What came before them, byte by byte as well, is whole."""
    head, data = struct.pack(">2I", 40, 600) + bytes(range(32)), random.Random(5).randbytes(600)
    sound = record(head + data + b"end", (1, 0))
    for (name, (stream, most, code)), part in product(_REFUSED.items(), (1, 7, 100_000)):
        with Records(codec, most, wish) as records:
            records.feed(sound * 2, [part])
            with pytest.raises(RecordRefusedError) as refused:
                records.feed(stream, [part])
            assert refused.value.code == code, name
            for seen in records.seen[:2]:
                assert seen.bulk is not None, name
                assert (seen.head, seen.bulk.content, seen.finished) == (head, data, 1), name
            assert all(seen.finished == 0 for seen in records.seen[2:]), name


# --- RPC headers ---


def with_verifier(stat: int, verifier: bytes, rest: bytes = b"") -> bytes:
    pad = bytes(-len(verifier) % 4)
    return struct.pack(">3I", 0, 9, len(verifier)) + verifier + pad + struct.pack(">I", stat) + rest


# What follows xid and REPLY, and what that means: verdict, auth_stat, low, high, errno, words.
_REPLIES: dict[bytes, tuple[str, int, int, int, int, str]] = {
    accepted(AcceptStat.SUCCESS): ("SUCCESS", 0, 0, 0, 0, ""),
    with_verifier(0, b"v" * 399): ("SUCCESS", 0, 0, 0, 0, ""),
    with_verifier(0, b"v" * 400): ("SUCCESS", 0, 0, 0, 0, ""),
    accepted(AcceptStat.PROG_UNAVAIL): ("PROG_UNAVAIL", 0, 0, 0, 93, "does not offer NFS"),
    with_verifier(2, b"v", struct.pack(">2I", 4, U32)): (
        "PROG_MISMATCH", 0, 4, U32, errno.EPROTONOSUPPORT, "versions 4 to 4294967295, not 3",
    ),
    accepted(AcceptStat.PROC_UNAVAIL): ("PROC_UNAVAIL", 0, 0, 0, 93, "lacks the procedure"),
    accepted(AcceptStat.GARBAGE_ARGS): ("GARBAGE_ARGS", 0, 0, 0, errno.EINVAL, "could not read"),
    accepted(AcceptStat.SYSTEM_ERR): ("SYSTEM_ERR", 0, 0, 0, errno.EREMOTEIO, "ran out of some"),
    rpc_mismatch(3, 4): ("RPC_MISMATCH", 0, 3, 4, 93, "RPC versions 3 to 4"),
    denied(AuthStat.BADCRED): ("AUTH_ERROR", 1, 0, 0, errno.EACCES, "denied the credentials"),
    denied(AuthStat.TOOWEAK): ("AUTH_ERROR", 5, 0, 0, errno.EACCES, "(AUTH_TOOWEAK)"),
    struct.pack(">3I", 1, 1, U32): ("AUTH_ERROR", U32, 0, 0, errno.EACCES, "unknown auth_stat"),
}  # fmt: skip
_NO_REPLIES: dict[str, bytes] = {
    "accept_stat 6": struct.pack(">4I", 0, 0, 0, 6),
    "accept_stat 2^32-1": struct.pack(">4I", 0, 0, 0, U32),
    "a verifier of 401 bytes": struct.pack(">3I", 0, 0, 401) + bytes(500),
    "a verifier of 4 GiB": struct.pack(">3I", 0, 0, U32) + bytes(500),
    "neither accepted nor denied": struct.pack(">I", 2),
    "reject_stat 2": struct.pack(">2I", 1, 2),
}


def test_reply_headers(codec: CodecLibrary) -> None:
    for rest, (*meaning, words) in _REPLIES.items():
        whole = message(0xFEDCBA98, rest)
        header, used, more = codec.decode_reply(whole + b"results!")
        assert (header.xid, used, more) == (0xFEDCBA98, len(whole), False), meaning
        numbers = (header.auth_stat, header.low, header.high, codec.lib.rpc_verdict_errno(header))
        assert [VERDICTS[header.verdict], *numbers] == meaning
        assert words in verdict_text(codec, header)
        assert codec.decode_reply(whole)[1:] == (used, False), meaning
        for length in range(len(whole)):
            assert codec.decode_reply(whole[:length])[2], f"{length} bytes are no whole header"


def test_what_is_no_reply(codec: CodecLibrary) -> None:
    said = {what: message(7, rest) for what, rest in _NO_REPLIES.items()}
    for kind in (0, 2, U32):
        said[f"message type {kind}"] = message(7, accepted(AcceptStat.SUCCESS), kind)
    for what, data in said.items():
        header, _, more = codec.decode_reply(data)
        assert (more, header.xid, VERDICTS[header.verdict]) == (False, 7, "NOT_A_REPLY"), what
        assert codec.lib.rpc_verdict_errno(header) == errno.EPROTO


def verdict_text(codec: CodecLibrary, header: ReplyHeader) -> str:
    return text_of(500, lambda room, size: codec.lib.rpc_verdict_text(header, 3, room, size))


# --- NFSv3 calls ---


@given(st.binary(min_size=1, max_size=FH_SIZE), HYPERS, WORDS, st.sampled_from(Stable))
def test_nfs_calls(
    codec: CodecLibrary, handle: bytes, offset: int, length: int, stable: Stable
) -> None:
    """Up to a WRITE's data, of which there is none here."""
    for procedure, numbers, expected in (
        (Nfs.READ, (offset, length), (offset, length, Stable.UNSTABLE)),
        (Nfs.WRITE, (offset, 0, stable), (offset, 0, stable)),
        (Nfs.COMMIT, (), (0, 0, Stable.UNSTABLE)),
    ):
        call = decode(procedure, Unpacker(codec.encode(procedure.name.lower(), handle, *numbers)))
        assert (call.handle, call.offset, call.count, call.stable) == (handle, *expected)


# --- NFSv3 results ---


@dataclass(frozen=True)
class Expected:
    """Results as they are sent, and what they say."""

    procedure: int
    sent: bytes
    status: int = 0
    count: int = 0
    eof: bool = False
    committed: int = 0
    verifier: bytes = bytes(8)


@st.composite
def results(draw: st.DrawFn) -> Expected:
    """Draw the results of READ (up to its data), WRITE or COMMIT."""
    noise = random.Random(draw(st.integers(0, 99)))
    procedure = draw(st.sampled_from([READ, WRITE, COMMIT]))
    status = draw(st.one_of(st.just(0), WORDS))
    sent = struct.pack(">I", status)
    for size in [84] if procedure == READ else [24, 84]:
        there = draw(st.booleans())
        sent += struct.pack(">I", there) + (noise.randbytes(size) if there else b"")
    if status:
        return Expected(procedure, sent, status)
    count, eof, verifier = draw(WORDS), draw(st.booleans()), draw(VERIFIERS)
    committed = draw(st.integers(0, 2))
    if procedure == READ:
        return Expected(procedure, sent + struct.pack(">3I", count, eof, count), 0, count, eof)
    if procedure == WRITE:
        sent += struct.pack(">2I", count, committed) + verifier
        return Expected(procedure, sent, count=count, committed=committed, verifier=verifier)
    return Expected(procedure, sent + verifier, verifier=verifier)


@given(results(), st.binary(max_size=20))
def test_results(codec: CodecLibrary, expected: Expected, behind: bytes) -> None:
    sound, result, used, more = codec.decode(expected.procedure, expected.sent + behind)
    assert (sound, more, used) == (True, False, len(expected.sent))
    assert result.status == expected.status
    assert (result.count, result.eof) == (expected.count, expected.eof)
    assert (result.committed, bytes(result.verifier)) == (expected.committed, expected.verifier)
    for length in range(len(expected.sent)):
        assert codec.decode(expected.procedure, expected.sent[:length])[3], "more is needed"


@given(results(), st.data())
def test_contradictory_results(
    codec: CodecLibrary, expected: Expected, data: st.DataObject
) -> None:
    """A boolean that is neither, another length than the count, an unknown stable_how."""
    sent, wrong = expected.sent, st.integers(2, U32)
    places: dict[int, st.SearchStrategy[int]] = {4: wrong}  # the first optional attributes
    if expected.procedure != READ:
        second = 8 + 24 * sent[7]
        places[second] = wrong
    if not expected.status and expected.procedure == READ:
        places[len(sent) - 8] = wrong
        places[len(sent) - 4] = WORDS.filter(lambda length: length != expected.count)
    if not expected.status and expected.procedure == WRITE:
        places[len(sent) - 12] = st.integers(3, U32)
    for place, values in places.items():
        changed = bytearray(sent)
        struct.pack_into(">I", changed, place, data.draw(values))
        sound, _, used, _ = codec.decode(expected.procedure, bytes(changed) + bytes(200))
        assert not sound, f"{changed!r}, where the word at {place} is wrong"
        assert used <= len(sent) + 200


def test_status_names(codec: CodecLibrary) -> None:
    own = {Status.BADHANDLE: "EBADF", Status.NOTSUPP: "EOPNOTSUPP", Status.JUKEBOX: "EAGAIN"}
    own |= {Status.OK: "", Status.ACCES: "EACCES", Status.SERVERFAULT: "EREMOTEIO"}
    own |= {Status.BAD_COOKIE: "EIO"}
    for status in Status:
        name = "NFS3_OK" if status is Status.OK else f"NFS3ERR_{status.name}"
        assert codec.lib.nfs3_status_name(status).decode() == name
        word = own.get(status, f"E{status.name}")
        assert codec.lib.nfs3_errno(status) == (getattr(errno, word) if word else 0), name


# --- the ledger ---


class LedgerModel:
    """A server with one file, and a ledger that keeps book of it.

    `gone` are the bytes that the server has lost, `told` those that the ledger calls lost. It may
    tell more where it cannot know better: `doubtful` bounds that.
    """

    def __init__(self, lib: ctypes.CDLL):
        self.lib, self.ledger = lib, Ledger()
        self.life = 0
        self.volatile = self.gone = self.told = self.doubtful = 0
        self.early = 0  # volatile bytes that were written while a COMMIT was under way
        self.commits: list[tuple[Commit, int]] = []  # with the volatile bytes that each covers

    def act(self, action: str, count: int) -> None:
        """Do one thing, and see that what is volatile stays in the books."""
        getattr(self, action)(count)
        assert not self.volatile or self.lib.ledger_unsettled(self.ledger)
        assert self.commits or not self.volatile or self.lib.ledger_owes(self.ledger)
        self.told += self.lib.ledger_take_lost(self.ledger)

    @property
    def verifier(self) -> bytes:
        """The server's write verifier."""
        return self.life.to_bytes(8)

    def write(self, count: int) -> None:
        """WRITE, UNSTABLE."""
        self.lib.ledger_wrote(self.ledger, count, False, self.verifier)
        self.volatile += count
        if self.commits:
            self.early += count

    def write_durably(self, count: int) -> None:
        """WRITE, FILE_SYNC."""
        self.lib.ledger_wrote(self.ledger, count, True, self.verifier)

    def restart(self, _: int) -> None:
        """Lose what is not committed."""
        self.life += 1
        self.gone += self.volatile
        self.volatile = self.early = 0
        self.commits = [(commit, 0) for commit, _ in self.commits]

    def begin(self, _: int) -> None:
        """Send a COMMIT."""
        self.commits.append((self.lib.ledger_begin_commit(self.ledger), self.volatile))

    def end(self, _: int, which: int = 0) -> None:
        """Answer the oldest COMMIT: all is durable, also what the books do not know to be."""
        if self.commits:
            self.lib.ledger_end_commit(self.ledger, self.commits.pop(which)[0], self.verifier)
            self.doubtful += self.early
            self.volatile = self.early = 0
            self.commits = [(commit, 0) for commit, _ in self.commits]

    def end_latest(self, _: int) -> None:
        """Answer the latest COMMIT before the others."""
        self.end(0, -1)

    def undo(self, _: int) -> None:
        """Answer the oldest by JUKEBOX."""
        if self.commits:
            self.lib.ledger_undo_commit(self.ledger, self.commits.pop(0)[0])
            self.early = self.early if self.commits else 0

    def fail(self, _: int) -> None:
        """Answer it by an error: what it covers is written off."""
        if self.commits:
            commit, covered = self.commits.pop(0)
            self.lib.ledger_fail_commit(self.ledger, commit)
            self.doubtful += commit.bytes
            self.volatile -= covered
            self.early = self.early if self.commits else 0
            self.commits = [(other, max(0, more - covered)) for other, more in self.commits]


_ACTIONS = st.sampled_from(
    ["write", "write", "write_durably", "restart", "begin", "end", "end_latest", "undo", "fail"]
)


@given(st.lists(st.tuples(_ACTIONS, st.integers(1, 1000)), max_size=40))
@example([("write", 5), ("restart", 1), ("write", 7), ("begin", 1), ("end", 1)])
@example([("write", 5), ("begin", 1), ("restart", 1), ("write", 7), ("undo", 1)])
@example([("write", 5), ("begin", 1), ("undo", 1), ("restart", 1), ("write", 7)])
@example([("write", 5), ("begin", 1), ("write", 7), ("restart", 1), ("fail", 1)])
@example([("write", 5), *[("begin", 1)] * 2, ("end_latest", 1), ("restart", 1), ("end", 1)])
def test_no_loss_is_overlooked(books: ctypes.CDLL, story: list[tuple[str, int]]) -> None:
    """With the next COMMIT all that is gone has been told, and no more than must be."""
    model = LedgerModel(books)
    for action, count in story:
        model.act(action, count)
    while model.commits:
        model.act("end", 1)
    model.act("begin", 1)
    model.act("end", 1)
    assert not books.ledger_owes(model.ledger)
    assert not books.ledger_unsettled(model.ledger)
    assert model.gone <= model.told <= model.gone + model.doubtful
