# SPDX-License-Identifier: GPL-2.0-only
"""NFSv3 over TCP: replies however they come, short, in other sizes, and from hostile servers.

What needs no socket and nothing of fio is a scenario: test_scenarios*.py.
"""

from __future__ import annotations

import errno
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from engine_helpers import done, said, sections
from scripted_jobs import (
    BOTH,
    KIB,
    MIB,
    Case,
    Client,
    Options,
    Outcomes,
    covers_once,
    failed,
    fixture_of_runs,
    read_and_write,
    reading,
    undisturbed,
)

from servers.scripted import (
    DATA,
    AcceptStat,
    Answer,
    Call,
    Hook,
    Nfs,
    Nfs4,
    ScriptedServer,
    Status,
    Terms,
    accepted,
    mark,
    message,
    on,
    record,
)

pytestmark = pytest.mark.sanitized

# Blocks of every size and alignment, all of them read back and verified.
MIXTURE: Options = {
    "bsrange": "512-64k", "bs_unaligned": 1, "size": "256k", "iodepth": 16, "verify": "crc32c",
}  # fmt: skip


# --- replies however they come ---

_RANDOM_SIZES = tuple(random.Random(3).choices(range(3000), k=200))
_DELIVERIES: dict[str, Answer] = {
    "out of order": Answer(hold=5),
    "fragments of any size": Answer(fragments=_RANDOM_SIZES),
    "no attributes": Answer(attributes=0),
    "end of file not told": Answer(eof=0),
}
_STALE: dict[str, Answer] = {
    "twice": Answer(repeat=(0,)),
    "an unknown number before": Answer(before=mark(24) + struct.pack(">6I", 7, 1, 0, 0, 0, 0)),
    "no reply at all before": Answer(before=mark(5) + b"12345"),
    "an unknown one in fragments": Answer(
        before=mark(4, last=False) + bytes(4) + mark(0, last=False) + mark(70000) + bytes(70000)
    ),
}

deliveries = fixture_of_runs(
    {name: Case(on(DATA, answer), MIXTURE) for name, answer in {**_DELIVERIES, **_STALE}.items()}
)


@pytest.mark.parametrize("name", [*_DELIVERIES, *_STALE])
def test_deliveries(deliveries: Outcomes, name: str) -> None:
    server, result = deliveries[name].server, deliveries[name].result
    undisturbed(result)
    covers_once(server.calls(Nfs.WRITE), done(result).bytes("write"))
    covers_once(server.calls(Nfs.READ), done(result).bytes("write"))
    assert server.durable("f") == server.content("f")
    stale = result.stats[0].stale_replies
    assert stale > len(server.calls(Nfs.WRITE)) if name in _STALE else stale == 0


def test_a_call_waits_for_others_while_a_reply_comes_in(
    client: Client, server: ScriptedServer
) -> None:
    """But no longer than for one tick of 0.1 s, although here more and more of replies comes in.

    Each piece that the server sends has the rest of one reply, which makes room for a call, and the
    beginning of the next. A tick may be due just then, but not at each of them.
    """
    size, depth, pieces, pause = 64 * KIB, 32, 8, 0.35
    replies = list[bytes]()

    def in_pieces(call: Call) -> Answer | None:
        if call.procedure is not Nfs.READ:
            return None
        if call.nth > depth + 1:
            return Answer(delay=0.001)  # further calls are read meanwhile
        results = struct.pack(">5I", Status.OK, 0, size, 0, size) + bytes(size)
        replies.append(record(message(call.xid, accepted(AcceptStat.SUCCESS, results))))
        if call.nth < depth:
            return Answer(reply=False)
        if call.nth > depth:
            return Answer(delay=0.001, before=b"".join(replies[pieces:depth]))
        raw = b"".join(replies[:pieces])
        return Answer(raw=raw, chunk=len(replies[0]) + 1000, pause=pause)

    server.hooks.append(in_pieces)
    server.create("f", bytes(48 * size))
    undisturbed(client(server, rw="read", bs=size, size=48 * size, iodepth=depth))
    last, *new = server.calls(Nfs.READ)[depth - 1 : depth + pieces]
    assert last.answered is not None
    waits = [call.time - last.time - number * pause for number, call in enumerate(new)]
    assert max(waits) > 0.09, "none has waited"
    assert new[0].time < last.answered - 1.5 * pause, "it has waited for the last piece"


# --- data that is missing, or other; calls that move less are in test_scenarios_calls.py ---

_VERIFY_FAILED = "verify failed at file f offset 16384"
# The answer to the fifth READ of a job at depth 1; errno and words.
_MISSING: dict[str, tuple[Answer, int, str]] = {
    "end of file": (Answer(limit=0, eof=1), errno.EIO, "READ beyond the end of file"),
    "nothing, and no end of file": (Answer(limit=0, eof=0), errno.EIO, "neither data nor the end of file"),
    "end of file in a block": (Answer(limit=1024, eof=1), errno.EILSEQ, _VERIFY_FAILED),
    "other data": (Answer(spoil=True), errno.EILSEQ, _VERIFY_FAILED),
}

missing_data = fixture_of_runs(
    {
        name: reading(on(Nfs.READ, answer, nth=5), iodepth=1)
        for name, (answer, *_) in _MISSING.items()
    }
)


@pytest.mark.parametrize("name", _MISSING)
def test_what_does_not_come_is_an_error(missing_data: Outcomes, name: str) -> None:
    _, error, words = _MISSING[name]
    failed(missing_data[name].result, words, error=error)


# --- sizes ---


@dataclass(frozen=True)
class Split:
    """What a server offers and a user asks for, and the counts that READ and WRITE then have."""

    rtmax: int
    wtmax: int
    options: Options
    reads: set[int]
    writes: set[int]
    block: int = 256 * KIB
    url: Mapping[str, object] = field(default_factory=dict)

    @property
    def case(self) -> Case:
        """Two blocks, written and verified."""
        size = {"bs": self.block, "size": 2 * self.block}
        options = {**size, "verify": "crc32c", **self.options}
        return Case(options=options, rtmax=self.rtmax, wtmax=self.wtmax, url=self.url)


_SPLITS = {
    "as the server offers": Split(64 * KIB, 32 * KIB, {}, {64 * KIB}, {32 * KIB}),
    "as the user asks": Split(MIB, MIB, {"rsize": "16k", "wsize": "8k"}, {16 * KIB}, {8 * KIB}),
    "odd": Split(
        MIB, MIB, {"rsize": 10007, "wsize": 5003}, {10007, 256 * KIB % 10007},
        {5003, 256 * KIB % 5003},
    ),
    "a mebibyte by itself": Split(4 * MIB, 4 * MIB, {}, {MIB}, {MIB}, 4 * MIB),
    "more where asked for": Split(
        4 * MIB, 4 * MIB, {"rsize": "4m", "wsize": "4m"}, {4 * MIB}, {4 * MIB}, 4 * MIB
    ),
    "boundless": Split(2**32 - 1, 2**32 - 1, {}, {MIB}, {MIB}, 4 * MIB),
    "the path's own words": Split(
        MIB, MIB, {"rsize": "1m", "wsize": "1m"}, {8 * KIB}, {4 * KIB}, 64 * KIB,
        {"rsize": "8k", "wsize": 4096},
    ),
}  # fmt: skip

splits = fixture_of_runs({name: split.case for name, split in _SPLITS.items()})


@pytest.mark.parametrize("name", _SPLITS)
def test_blocks_are_split(splits: Outcomes, name: str) -> None:
    server, split = splits[name].server, _SPLITS[name]
    undisturbed(splits[name].result)
    for procedure, counts in ((Nfs.READ, split.reads), (Nfs.WRITE, split.writes)):
        covers_once(server.calls(procedure), 2 * split.block)
        assert {call.count for call in server.calls(procedure)} == counts


_ODD = (101, 103, 4097)  # fio verifies nothing smaller than its header
_PATTERN = bytes(range(1, 251))


def odd_content(block: int) -> bytes:
    return (_PATTERN * (block // len(_PATTERN) + 1))[:block] * 20


odd_sizes = fixture_of_runs(
    {
        str(block): Case(
            options={
                "bs": block, "size": block * 20, "verify": "pattern",
                "verify_pattern": "0x" + _PATTERN[:block].hex(),
            },
            arguments=sections(
                w={"rw": "write", "filename": "w"}, r={"rw": "read", "filename": "r"}
            ),
            files={"r": odd_content(block)},
        )
        for block in _ODD
    }
)  # fmt: skip


@pytest.mark.parametrize("block", _ODD)
def test_odd_sizes(odd_sizes: Outcomes, block: int) -> None:
    """Whatever the pad: what is written is on the server, and comes back."""
    server = odd_sizes[str(block)].server
    undisturbed(odd_sizes[str(block)].result)
    assert server.durable("w") == odd_content(block)
    for file in "rw":
        covers_once((call for call in server.calls(Nfs.READ) if call.file == file), block * 20)
    assert {call.count for call in server.calls(*BOTH)} == {block}


def own_limits(rtmax: int, wtmax: int) -> Hook:
    """Make a hook that lets FSINFO of a file tell other limits than that of the export's root."""

    def hook(call: Call) -> Answer | None:
        if call.procedure is not Nfs.FSINFO or call.file == "":
            return None
        limits = struct.pack(">7I", rtmax, rtmax, 1, wtmax, wtmax, 1, 4096)
        return Answer(results=struct.pack(">2I", 0, 0) + limits + bytes(8 + 4 + 4 + 4))

    return hook


_OFFERS = "offers READs of {} bytes and WRITEs of {}: 0 counts as no limit"
_NO_LIMITS: dict[str, tuple[Case, str]] = {
    "rtmax 0": (Case(rtmax=0), _OFFERS.format(0, MIB)),
    "rtmax 0 at the second look": (Case(own_limits(0, MIB)), _OFFERS.format(0, MIB)),
    "wtmax 0 at the second look": (Case(own_limits(MIB, 0)), _OFFERS.format(MIB, 0)),
}

limits = fixture_of_runs({name: case for name, (case, _) in _NO_LIMITS.items()})


@pytest.mark.parametrize("name", _NO_LIMITS)
def test_a_limit_of_0_is_none(limits: Outcomes, name: str) -> None:
    result = limits[name].result
    done(result)
    (line,) = set(said(result))
    assert _NO_LIMITS[name][1] in line


@pytest.mark.sanitized
def test_an_nfsv4_server_need_not_tell_its_limits(client: Client) -> None:
    """What a session's messages carry is the limit then: here a READ of 60 KiB."""
    terms, block = Terms(max_response=61 * KIB, tells_limits=False), 256 * KIB
    with ScriptedServer(terms=terms) as server:
        done(client(server, pool=server.url4(), bs=block, size=block, verify="crc32c"))
        assert {call.count for call in server.calls(Nfs4.READ)} == {60 * KIB, 16 * KIB}


def test_the_smallest_limits_serve(client: Client, server: ScriptedServer) -> None:
    server.hooks.append(own_limits(512, 100))
    undisturbed(client(server, verify="crc32c"))
    assert {call.count for call in server.calls(Nfs.READ)} == {512}
    assert {call.count for call in server.calls(Nfs.WRITE)} == {100, 4096 % 100}


# --- hostile servers ---

_TOO_SHORT = (errno.EPROTO, "the reply is too short")
_CONTRADICTS = (errno.EPROTO, "contradicts the call or itself")
_SILENT = (errno.ETIMEDOUT, "no answer within")
_GONE = (errno.ETIMEDOUT, "connection lost")
# What all READs and WRITEs but the first four are answered with; the errno and words to expect.
# Which replies and records are none is in test_codec.py.
_HOSTILE: dict[str, tuple[Answer, tuple[int, str]]] = {
    "a verifier of RPCSEC_GSS": (
        Answer(rpc=struct.pack(">5I", 0, 6, 4, 1, 0) + bytes(200)),
        (errno.EACCES, "the reply's verifier is of another flavor"),
    ),
    "another call's number": (Answer(xid=1), _SILENT),
    "half a result": (Answer(results=struct.pack(">2I", 0, 1) + bytes(40)), _TOO_SHORT),
    "a status alone": (
        Answer(results=struct.pack(">I", Status.IO)),
        (errno.EIO, " of 4096 bytes at 16384: NFS3ERR_IO, and its reply is too short"),
    ),
    "a status, and nonsense": (
        Answer(results=struct.pack(">2I", Status.IO, 7)),
        (errno.EIO, "NFS3ERR_IO, and its reply contradicts itself"),
    ),
    "attributes that are neither there nor not": (Answer(attributes=2), _CONTRADICTS),
    "much more than was asked": (Answer(extra=2 * MIB, count=2**32 - 1), _CONTRADICTS),
    "fragments without end": (Answer(raw=mark(0, last=False) * 20000), _SILENT),
}
# Those that READ and WRITE have apart. More that contradict themselves are in test_codec.py.
_HOSTILE_READS: dict[str, tuple[Answer, tuple[int, str]]] = {
    "data that is not there": (Answer(cut=200, end="close"), _GONE),
}
_HOSTILE_WRITES: dict[str, tuple[Answer, tuple[int, str]]] = {
    "more than was sent": (Answer(count=4097), _CONTRADICTS),
}


def _patience(expected: tuple[int, str]) -> Options:
    """Let a job give up soon only where that is what is expected: replies may be late."""
    if expected not in (_SILENT, _GONE):
        return {}
    # What is lost must not have been silent for so long before.
    return {"soft": 1, "timeo": 5 if expected == _SILENT else 15, "retrans": 1}


hostile = fixture_of_runs(
    {
        **{
            name: read_and_write(on(BOTH, answer, after=4), **_patience(expected))
            for name, (answer, expected) in _HOSTILE.items()
        },
        **{
            name: reading(on(Nfs.READ, answer, after=4), **_patience(expected))
            for name, (answer, expected) in _HOSTILE_READS.items()
        },
        **{
            name: Case(on(Nfs.WRITE, answer, after=4), _patience(expected))
            for name, (answer, expected) in _HOSTILE_WRITES.items()
        },
    }
)


@pytest.mark.parametrize("name", [*_HOSTILE, *_HOSTILE_READS, *_HOSTILE_WRITES])
def test_hostile_replies(hostile: Outcomes, name: str) -> None:
    _, (error, words) = {**_HOSTILE, **_HOSTILE_READS, **_HOSTILE_WRITES}[name]
    failed(hostile[name].result, words, error=error)
