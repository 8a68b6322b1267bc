# SPDX-License-Identifier: GPL-2.0-only
"""NFSv3 over TCP: replies however they come, short, in other sizes, dropped, and hostile ones.

What needs no socket and nothing of fio is a scenario: test_scenarios*.py.
"""

import errno
from functools import partial

import pytest
from engine_helpers import Place, done, eventually, job_of, refused, said, sections, stderr_of
from scripted_jobs import (
    KIB,
    MIB,
    TWO_ADDRESSES,
    Case,
    Options,
    Outcome,
    Run,
    case,
    covers_once,
    runs,
    undisturbed,
)

from nfsmulti.fiorun import FioProcess
from servers.rpc import Hyper, xdr
from servers.scripted import (
    DATA,
    AcceptStat,
    Answer,
    Call,
    Hook,
    Nfs,
    Nfs4,
    ScriptedServer,
    Stable,
    Status,
    Terms,
    accepted,
    mark,
    message,
    on,
    record,
)

pytestmark = pytest.mark.sanitized


# --- replies however they come ---

# Blocks of every size and alignment, all of them read back and verified.
_MIXTURE: Options = {
    "bsrange": "512-64k", "bs_unaligned": 1, "size": "256k", "iodepth": 16, "verify": "crc32c",
}  # fmt: skip
_UNKNOWN = mark(4, last=False) + bytes(4) + mark(0, last=False) + mark(70000) + bytes(70000)
_STALE: dict[str, Answer] = {
    "less than a number": Answer(sent=lambda reply: mark(5) + b"12345" + record(reply)),
    "an unknown number in fragments": Answer(sent=lambda reply: _UNKNOWN + record(reply)),
}


@runs({name: case(on(DATA, answer), **_MIXTURE) for name, answer in _STALE.items()})
def test_what_answers_no_call_is_skipped(ran: Outcome) -> None:
    """Before each reply; replies that come twice, or in another order: test_scenarios*.py."""
    undisturbed(ran.result)
    written = done(ran.result).bytes("write")
    covers_once(ran.calls(Nfs.WRITE), written)
    covers_once(ran.calls(Nfs.READ), written)
    assert ran.server.durable("f") == ran.server.content("f")
    assert ran.stats[0].stale_replies > len(ran.calls(Nfs.WRITE))


def test_a_call_waits_for_others_while_a_reply_comes_in(job: Run) -> None:
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
        results = xdr(Status.OK, 0, size, 0, size) + bytes(size)
        replies.append(record(message(call.xid, accepted(AcceptStat.SUCCESS, results))))
        if call.nth < depth:
            return Answer(reply=False)
        if call.nth > depth:
            between = b"".join(replies[pieces:depth])
            return Answer(delay=0.001, sent=lambda reply: between + record(reply))
        chunk = len(replies[0]) + 1000
        return Answer(sent=lambda _: b"".join(replies[:pieces]), chunk=chunk, pause=pause)

    files = {"f": bytes(48 * size)}
    ran = job(in_pieces, rw="read", bs=size, size=48 * size, iodepth=depth, files=files)
    undisturbed(ran.result)
    last, *new = ran.calls(Nfs.READ)[depth - 1 : depth + pieces]
    assert last.answered is not None
    waits = [call.time - last.time - number * pause for number, call in enumerate(new)]
    assert max(waits) > 0.09, "none has waited"
    assert new[0].time < last.answered - 1.5 * pause, "it has waited for the last piece"


# --- sizes ---


def _split(reads: set[int], writes: set[int], *, block: int = 256 * KIB, **words: object) -> Case:
    """Make a case of two blocks, written and verified, with the counts of READ and WRITE."""
    expected = {Nfs.READ: reads, Nfs.WRITE: writes}
    size = {"bs": block, "size": 2 * block}
    return case(**size, verify="crc32c", **words, expected=expected)


_LARGE = {"rtmax": 4 * MIB, "wtmax": 4 * MIB, "block": 4 * MIB}
_BOUNDLESS = {"rtmax": 2**32 - 1, "wtmax": 2**32 - 1, "block": 4 * MIB}


@runs(
    {
        "as the server offers": _split({64 * KIB}, {32 * KIB}, rtmax=64 * KIB, wtmax=32 * KIB),
        "as the user asks": _split({16 * KIB}, {8 * KIB}, rsize="16k", wsize="8k"),
        "a mebibyte by itself": _split({MIB}, {MIB}, **_LARGE),
        "more where asked for": _split({4 * MIB}, {4 * MIB}, **_LARGE, rsize="4m", wsize="4m"),
        "boundless": _split({MIB}, {MIB}, **_BOUNDLESS),
    }
)
def test_blocks_are_split(ran: Outcome) -> None:
    undisturbed(ran.result)
    for procedure, counts in ran.case.expected.items():
        covers_once(ran.calls(procedure), done(ran.result).bytes("write"))
        assert {call.count for call in ran.calls(procedure)} == counts


def _own_limits(rtmax: int, wtmax: int) -> Hook:
    """Make a hook that lets FSINFO of a file tell other limits than that of the export's root."""

    def hook(call: Call) -> Answer | None:
        if call.procedure is not Nfs.FSINFO or call.file == "":
            return None
        limits = xdr(rtmax, rtmax, 1, wtmax, wtmax, 1, 4096)
        return Answer(results=xdr(0, 0) + limits + bytes(8 + 4 + 4 + 4))

    return hook


@runs(
    {
        "rtmax 0": case(rtmax=0, expected=(0, MIB)),
        "rtmax 0 at the second look": case(_own_limits(0, MIB), expected=(0, MIB)),
        "wtmax 0 at the second look": case(_own_limits(MIB, 0), expected=(MIB, 0)),
    }
)
def test_a_limit_of_0_is_none(ran: Outcome) -> None:
    (line,) = set(ran.said())
    reads, writes = ran.case.expected
    assert f"offers READs of {reads} bytes and WRITEs of {writes}: 0 counts as no limit" in line


@pytest.mark.parametrize("small", [3, 4])
def test_the_smallest_session_limits_all(job: Run, small: int) -> None:
    """Of two connections' sessions for data, the third and fourth, either one.

    What its messages carry is the limit, where an NFSv4.1 server tells none of READ and WRITE.
    """
    block, terms = 256 * KIB, Terms(tells_limits=False)

    def grant(call: Call) -> None:
        if call.procedure is Nfs4.CREATE_SESSION:
            terms.response_max = 61 * KIB if call.nth == small else 2 * MIB
            terms.request_max = 31 * KIB if call.nth == small else 2 * MIB

    two: Options = {"nconnect": 2, "bs": block, "size": 2 * block, "verify": "crc32c"}
    ran = job(grant, version=4, terms=lambda: terms, spread="roundrobin", **two)
    for operation, counts in (
        (Nfs4.READ, {60 * KIB, 16 * KIB}),
        (Nfs4.WRITE, {30 * KIB, 16 * KIB}),
    ):
        assert {call.count for call in ran.calls(operation)} == counts
        assert len({call.session for call in ran.calls(operation)}) == 2


@pytest.mark.parametrize("address", TWO_ADDRESSES)
def test_the_smallest_limits_serve(job: Run, address: str) -> None:
    """Those of one path, whichever it is, hold for all."""
    small = _own_limits(512, 100)

    def of_one_path(call: Call) -> Answer | None:
        return small(call) if call.server[0] == address else None

    two = {"addresses": TWO_ADDRESSES, "spread": "roundrobin"}
    ran = job(of_one_path, **two, verify="crc32c")
    undisturbed(ran.result)
    assert {call.count for call in ran.calls(Nfs.READ)} == {512}
    assert {call.count for call in ran.calls(Nfs.WRITE)} == {100, 4096 % 100}


# --- replies at odd moments ---


def test_a_reply_to_a_call_that_has_not_left(job: Run) -> None:
    """A server can guess the number of a call that it has not got; to answer it breaks the rules.

    Numbers hold generation and slot, so those of one batch at depth 32 are 65 apart. The server
    reads no more than the first of 32 WRITEs of a mebibyte, far from all that the socket takes, and
    the others when it reads again.
    """
    depth, guessed = 32, list[int]()

    def guess(call: Call) -> Answer | None:
        if call.procedure is not Nfs.WRITE or call.nth > 1:
            return None
        guessed.append((call.xid + (depth - 2) * (2 * depth + 1)) % 2**32)
        results = xdr(0, 0, 0, MIB, Stable.FILE_SYNC, Hyper(0))
        reply = message(guessed[0], accepted(AcceptStat.SUCCESS, results))
        return Answer(do=ScriptedServer.stop_reading, sent=lambda _: record(reply))

    def go_on(server: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: guessed and "messages are broken" in stderr_of(process))
        server.reading.set()

    large: Options = {"bs": "1m", "size": "32m", "iodepth": depth, "verify": "crc32c"}
    ran = job(guess, receive_buffer=64 * KIB, during=go_on, **large)
    assert [line.reconnects for line in ran.stats] == [1]
    assert guessed[0] in {call.xid for call in ran.calls(Nfs.WRITE)[1:]}


# --- discard=1: data that is dropped in the kernel ---


def test_what_is_dropped_is_counted_and_told(export: Place) -> None:
    jobs = sections(long={"bs": "64k"}, short={"bs": "16k", "stonewall": None})
    result = export.fio(rw="read", size="8m", filename="f", discard=1, arguments=jobs)
    report, dropped = done(result), {"long": 0, "short": 0}
    for line in result.stats:
        dropped[line.job] += line.discarded_bytes
    assert {job_of(report, name)["read"]["io_bytes"] for name in dropped} == {8 * MIB}
    assert 4 * MIB < dropped["long"] <= 8 * MIB
    assert dropped["short"] == 0
    told = f"READ payload was dropped in the kernel, not copied: {dropped['long'] / 2**30:.2f} GiB"
    assert f"long: discard=1: {told}" in result.messages
    assert "short: discard=1: nothing was dropped: READs below 32 KiB are copied" in result.messages


_LESS = xdr(Status.OK, 0, 64 * KIB, 0, 64 * KIB) + bytes(60 * KIB)
_IN_FRAGMENTS = partial(record, fragments=(33_333, 1, MIB))
# How READs are answered; the errno and words that the job ends with.
_ANSWERS: dict[str, tuple[Hook, int, str]] = {
    "as usual": (on(Nfs.READ, Answer()), 0, ""),
    "fragments that end in the data": (on(Nfs.READ, Answer(sent=_IN_FRAGMENTS)), 0, ""),
    "short": (on(Nfs.READ, Answer(limit=40_000)), 0, ""),
    "lost within the data": (
        on(Nfs.READ, Answer(sent=lambda reply: record(reply)[: 40 * KIB], end="close"), nth=3),
        0, "",
    ),
    "less than its count": (on(Nfs.READ, Answer(results=_LESS)), errno.EPROTO, "the protocol"),
    "an error": (on(Nfs.READ, Answer(status=Status.IO)), errno.EIO, "NFS3ERR_IO"),
    "end of file": (on(Nfs.READ, Answer(limit=0, eof=1)), errno.EIO, "beyond the end of file"),
    "nothing": (
        on(Nfs.READ, Answer(limit=0, eof=0)), errno.EIO, "neither data nor the end of file",
    ),
}  # fmt: skip
_LARGE_READS: Options = {"rw": "read", "bs": 64 * KIB, "size": MIB}


@runs(
    {
        name: case(
            hook, **_LARGE_READS, discard=1, files={"f": bytes(MIB)}, error=error, says=words,
            expected=name == "lost within the data",
        )
        for name, (hook, error, words) in _ANSWERS.items()
    }
)  # fmt: skip
def test_it_comes_and_fails_as_what_is_copied(ran: Outcome) -> None:
    if not ran.case.error:
        (line,) = ran.stats
        assert done(ran.result).bytes("read") == MIB
        assert (line.read_bytes, line.errors) == (MIB, 0)
        assert line.reconnects == ran.case.expected
        assert MIB / 2 <= line.discarded_bytes <= line.bytes_received


def test_a_later_job_is_refused_before_its_file_is_laid_out(mounted: Place) -> None:
    jobs = sections(plain={"filename": "a"}, dropping={"filename": "b", "discard": 1})
    result = mounted.fio(pool=mounted.paths[0], rw="read", size="64k", arguments=jobs)
    refused(result, "dropping: ", "name the mount's export (nfs://...)")
    assert mounted.names() == ["a"]


# --- hostile servers ---


# More than was asked for or sent, as the results of a READ and of a WRITE.
_MUCH = Answer(results=xdr(0, 0, 2 * MIB, 0, bytes(2 * MIB)))
_MUCH_WRITTEN = Answer(results=xdr(0, 0, 0, 2**32 - 1, Stable.FILE_SYNC, Hyper(0)))
# What all READs and WRITEs but the first four are answered with; the errno and words to expect.
# Which replies and records are none is in test_codec.py.
_HOSTILE: dict[str, tuple[Answer, int, str]] = {
    "half a result": (
        Answer(results=xdr(0, 1) + bytes(40)), errno.EPROTO, "the reply is too short",
    ),
    "a status, and nonsense": (
        Answer(results=xdr(Status.IO, 7)), errno.EIO, "and its reply contradicts itself",
    ),
    "much more than was asked": (_MUCH, errno.EPROTO, "contradicts the call or itself"),
    "fragments without end": (
        Answer(sent=lambda _: mark(0, last=False) * 20000), errno.ETIMEDOUT, "no answer within",
    ),
}  # fmt: skip


@runs(
    {
        name: case(
            on(Nfs.READ, answer, after=4),
            on(Nfs.WRITE, _MUCH_WRITTEN if answer is _MUCH else answer, after=4),
            arguments=sections(r={"rw": "read", "filename": "r"}, w={"filename": "w"}),
            **({"soft": 1, "timeo": 5, "retrans": 1} if error == errno.ETIMEDOUT else {}),
            error=error,
            says=words,
        )
        for name, (answer, error, words) in _HOSTILE.items()
    }
)
def test_hostile_replies(ran: Outcome) -> None:
    assert said(ran.result)
