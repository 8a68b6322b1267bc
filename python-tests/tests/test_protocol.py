# SPDX-License-Identifier: GPL-2.0-only
"""NFSv3 over TCP: the engine in fio against scripted servers, and what they saw on the wire.

Nearly all of a run's time is waiting. The runs that a table describes are made at once, a server
for each; the tests then look at what each has left.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path

import pytest
from engine_helpers import cpu_seconds, done, eventually, said, sections

from nfsmulti.fiorun import Engine, Fio, FioProcess, FioResult, Option
from nfsmulti.scripted import (
    DATA,
    AcceptStat,
    Answer,
    AuthStat,
    Call,
    Export,
    Hook,
    Mount,
    Nfs,
    Procedure,
    ScriptedServer,
    Stable,
    Status,
    accepted,
    denied,
    mark,
    message,
    on,
    record,
    reserved_ports_only,
    rpc_mismatch,
)

pytestmark = pytest.mark.sanitized

KIB, MIB = 1 << 10, 1 << 20
SECONDS = 30.0  # for one fio
AT_ONCE = 8
BOTH = (Nfs.READ, Nfs.WRITE)

Options = Mapping[str, Option]

JOB: Options = {"rw": "write", "bs": "4k", "size": "64k", "iodepth": 8, "verify_state_save": 0}
BLOCKS = 16  # of that job
# Blocks of every size and alignment, all of them read back and verified.
MIXTURE: Options = {
    "bsrange": "512-64k",
    "bs_unaligned": 1,
    "size": "1m",
    "iodepth": 16,
    "verify": "crc32c",
}
READING: Options = {"rw": "read"}  # of a file of 64 KiB


# --- runs ---


def start_fio(
    engine: Engine,
    folder: Path,
    pool: str,
    arguments: Sequence[str],
    options: Options,
    enter: Sequence[str] = (),
) -> FioProcess:
    """Start JOB with other options on the file "f", or the jobs that `arguments` describe."""
    file: Options = {} if arguments else {"filename": "f"}
    common = {**JOB, **file, **options}
    return Fio(engine, enter).start(folder, pool=pool, options=common, arguments=arguments)


class Client:
    """fio with the engine, one run after the other."""

    def __init__(self, engine: Engine, folder: Path, item: pytest.Item):
        self._engine, self._folder, self._item = engine, folder, item
        self._runs = 0

    def start(
        self,
        server: ScriptedServer,
        *,
        pool: str | None = None,
        enter: Sequence[str] = (),
        **options: Option,
    ) -> FioProcess:
        """Start JOB with other options, by default on all of the server's addresses."""
        self._runs += 1
        folder = self._folder / f"fio-{self._runs}"
        return start_fio(self._engine, folder, pool or server.pool(), (), options, enter)

    def __call__(
        self,
        server: ScriptedServer,
        *,
        pool: str | None = None,
        enter: Sequence[str] = (),
        **options: Option,
    ) -> FioResult:
        """Run it to its end, for SECONDS at most: then its status is None."""
        with self.start(server, pool=pool, enter=enter, **options) as process:
            return self.finish(process)

    def finish(self, process: FioProcess) -> FioResult:
        """Wait for a fio that start() gave."""
        result = process.result(SECONDS)
        words = f"{result.command}\nstatus {result.status}\n{result.messages}"
        self._item.add_report_section("call", "fio", words)
        return result


@pytest.fixture
def client(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Client:
    return Client(engine, tmp_path, request.node)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def soundly(_: Call) -> Answer | None:
    """Answer all calls as a sound server does."""
    return None


@dataclass(frozen=True)
class Case:
    """One run: what the server does and has, and the jobs; `url` are arguments of the pool."""

    hook: Hook = soundly
    options: Options = field(default_factory=dict)
    arguments: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=lambda: {"r": bytes(64 * KIB)})
    rtmax: int = MIB
    wtmax: int = MIB
    url: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a run has left."""

    server: ScriptedServer
    result: FioResult


Outcomes = Mapping[str, Outcome]


def fixture_of_runs(cases: Mapping[str, Case]) -> Callable[..., Outcomes]:
    """Make a fixture that runs all cases and gives their outcomes."""

    @pytest.fixture(scope="module")
    def outcomes(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
        found: dict[str, Outcome] = {}
        names = iter(cases)
        while some := list(islice(names, AT_ONCE)):
            folder = tmp_path_factory.mktemp("runs")
            with ExitStack() as stack:
                running = [_begin(stack, engine, folder, cases[name]) for name in some]
                for name, (server, process) in zip(some, running, strict=True):
                    found[name] = Outcome(server, process.result(SECONDS))
        return found

    fixture: Callable[..., Outcomes] = outcomes
    return fixture


def _begin(
    stack: ExitStack, engine: Engine, folder: Path, case: Case
) -> tuple[ScriptedServer, FioProcess]:
    export = Export(rtmax=case.rtmax, wtmax=case.wtmax)
    server = stack.enter_context(ScriptedServer(case.hook, export=export))
    for name, content in case.files.items():
        server.create(name, content)
    own, pool = folder / str(server.nfs_port), server.pool(**case.url)
    process = start_fio(engine, own, pool, case.arguments, case.options)
    return server, stack.enter_context(process)


def read_and_write(hook: Hook, **options: Option) -> Case:
    """Make a case of two jobs at once, "r" that reads a file "r" and "w" that writes one."""
    jobs = sections(r={"rw": "read", "filename": "r"}, w={"rw": "write", "filename": "w"})
    return Case(hook, options, jobs)


def reading(hook: Hook, block: int = 4 * KIB, size: int = 64 * KIB, **options: Option) -> Case:
    """Make a case of a job that reads "f" and verifies each block."""
    verify: Options = {"verify": "pattern", "verify_pattern": "%o"}
    job = {**READING, "bs": block, "size": size, **verify, **options}
    return Case(hook, job, files={"f": numbered(size, block)})


def numbered(size: int, block: int) -> bytes:
    """Give the content that fio's verify_pattern=%o stands for: each block holds its offset."""
    return b"".join(struct.pack("<Q", offset) * (block // 8) for offset in range(0, size, block))


# --- what is expected ---


def failed(result: FioResult, *words: str, error: int) -> None:
    """Expect that all jobs ended by themselves with this errno, and that words tell why."""
    assert result.status is not None, f"fio hung: {result.messages}"
    assert result.status > 0, f"status {result.status}: {result.messages}"
    assert result.report is not None, result.output
    assert {job["error"] for job in result.report.jobs} == {error}, result.messages
    for word in words:
        assert word in result.messages


def undisturbed(result: FioResult) -> None:
    """Expect success over the first connection, without any call sent twice."""
    done(result)
    assert said(result) == []
    assert {line.retransmissions + line.reconnects + line.errors for line in result.stats} == {0}


def said_by(result: FioResult, job: str) -> list[str]:
    return [line for line in said(result) if line.startswith(f"nfsmulti: {job}: ")]


def covers_once(calls: Iterable[Call], size: int) -> None:
    """Expect that the calls moved each byte of a file once."""
    at = 0
    for call in sorted(calls, key=lambda call: call.offset):
        assert call.offset == at
        at += call.moved
    assert at == size


# --- replies however they come ---

_RANDOM_SIZES = tuple(random.Random(3).choices(range(3000), k=200))
_DELIVERIES: dict[str, Answer] = {
    "as usual": Answer(),
    "out of order": Answer(hold=5),
    "late": Answer(delay=0.01),
    "fragments of 1": Answer(fragments=(1,)),
    "fragments of 3": Answer(fragments=(3,)),
    "fragments of 7": Answer(fragments=(7,)),
    "fragments with heads of their own": Answer(fragments=(24, 4, 84, 12, 1 << 20)),
    "fragments that end in the data": Answer(fragments=(128 + 333, 1 << 20)),
    "fragments of any size": Answer(fragments=_RANDOM_SIZES),
    "empty fragments": Answer(fragments=(0, 0, 100, 0)),
    "few bytes at once": Answer(chunk=97),
    "out of order, in fragments": Answer(hold=3, fragments=(1021,)),
    "no attributes": Answer(attributes=0),
    "end of file not told": Answer(eof=0),
    "made durable at once": Answer(committed=2),
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


def test_late_replies_to_finished_calls(client: Client, server: ScriptedServer) -> None:
    """Each reply comes behind another one to a call of the same slot that is long over."""
    depth, finished = 4, list[int]()

    def repeat(call: Call) -> Answer | None:
        if call.procedure not in DATA:
            return None
        finished.append(call.xid)
        over = finished[:-depth]
        reply = struct.pack(">6I", over[-1], 1, 0, 0, 0, 0) + bytes(8) if over else b""
        return Answer(before=mark(len(reply)) + reply if over else b"")

    server.hooks.append(repeat)
    result = client(server, **{**MIXTURE, "iodepth": depth})
    undisturbed(result)
    assert result.stats[0].stale_replies == len(server.calls(*DATA)) - depth


def test_one_byte_at_a_time(client: Client, server: ScriptedServer) -> None:
    server.hooks.append(on(DATA, Answer(chunk=1)))
    undisturbed(client(server, verify="crc32c", bs=1021, size=1021 * 8))
    assert len(server.content("f")) == 1021 * 8


def test_a_call_waits_for_others_while_a_reply_comes_in(
    client: Client, server: ScriptedServer
) -> None:
    """But no longer than for one tick of 0.1 s, although here the reply's rest takes far longer.

    The first reply makes room for a ninth call, and with it comes the beginning of the second.
    """
    size, depth, rest = 64 * KIB, 8, 3.0
    first = list[int]()

    def stall(call: Call) -> Answer | None:
        if call.procedure is not Nfs.READ:
            return None
        if call.nth == 1:
            first.append(call.xid)
            return Answer(reply=False)
        if call.nth > 2:
            return Answer(delay=0.01)
        results = struct.pack(">5I", Status.OK, 0, size, 0, size) + bytes(size)
        whole = record(message(first[0], accepted(AcceptStat.SUCCESS, results)))
        return Answer(before=whole, chunk=len(whole) + 1000, pause=rest)

    server.hooks.append(stall)
    server.create("f", bytes(16 * size))
    undisturbed(client(server, rw="read", bs=size, size=16 * size, iodepth=depth))
    calls = server.calls(Nfs.READ)
    assert 0.03 < calls[depth].time - calls[depth - 1].time < rest / 2


# --- calls that move less ---

_LIMITS = {
    f"{procedure.name} {limit}": (procedure, limit, 4 * KIB if limit == 1 else 64 * KIB)
    for procedure in BOTH
    for limit in (1, 1000, 4095)
}

short_counts = fixture_of_runs(
    {
        name: Case(on(procedure, Answer(limit=limit)), {"size": size, "verify": "crc32c"})
        for name, (procedure, limit, size) in _LIMITS.items()
    }
)


@pytest.mark.parametrize("name", _LIMITS)
def test_short_counts_are_continued(short_counts: Outcomes, name: str) -> None:
    procedure, limit, size = _LIMITS[name]
    undisturbed(short_counts[name].result)
    calls = short_counts[name].server.calls(procedure)
    covers_once(calls, size)
    assert {call.moved for call in calls} == {limit, 4 * KIB % limit or limit}
    # Each continuation asks for all of the rest, by a number of its own.
    assert all((call.offset + call.count) % (4 * KIB) == 0 for call in calls)
    assert len({call.xid for call in calls}) == len(calls)


# The answer to the fifth call of a job at depth 1; errno and words.
_MISSING: dict[str, tuple[Nfs, Answer, int, str]] = {
    "no data": (
        Nfs.READ,
        Answer(limit=0, eof=0),
        errno.EIO,
        "READ of 4096 bytes at 16384 brought none, and not the end of file either",
    ),
    "end of file": (Nfs.READ, Answer(limit=0, eof=1), errno.EIO, "READ beyond the end of file"),
    "end of file in a block": (
        Nfs.READ,
        Answer(limit=1024, eof=1),
        errno.EILSEQ,
        "verify failed at file f offset 16384",
    ),
    "other data": (
        Nfs.READ,
        Answer(spoil=True),
        errno.EILSEQ,
        "verify failed at file f offset 16384",
    ),
    "nothing written": (
        Nfs.WRITE,
        Answer(limit=0),
        errno.EIO,
        "WRITE of 4096 bytes at 16384: the server took 0",
    ),
}

missing_data = fixture_of_runs(
    {
        name: reading(on(procedure, answer, nth=5), iodepth=1, rw=procedure.name.lower())
        for name, (procedure, answer, _, _) in _MISSING.items()
    }
)


@pytest.mark.parametrize("name", _MISSING)
def test_what_does_not_come_is_an_error(missing_data: Outcomes, name: str) -> None:
    _, _, error, words = _MISSING[name]
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
    "the smaller": Split(
        8 * KIB, 16 * KIB, {"rsize": "64k", "wsize": "2k"}, {8 * KIB}, {2 * KIB}, 64 * KIB
    ),
    "odd": Split(
        MIB,
        MIB,
        {"rsize": 10007, "wsize": 5003},
        {10007, 256 * KIB % 10007},
        {5003, 256 * KIB % 5003},
    ),
    "a mebibyte by itself": Split(4 * MIB, 4 * MIB, {}, {MIB}, {MIB}, 4 * MIB),
    "more where asked for": Split(
        4 * MIB, 4 * MIB, {"rsize": "4m", "wsize": "4m"}, {4 * MIB}, {4 * MIB}, 4 * MIB
    ),
    "boundless": Split(2**32 - 1, 2**32 - 1, {}, {MIB}, {MIB}, 4 * MIB),
    "the path's own words": Split(
        MIB,
        MIB,
        {"rsize": "1m", "wsize": "1m"},
        {8 * KIB},
        {4 * KIB},
        64 * KIB,
        {"rsize": "8k", "wsize": 4096},
    ),
}

splits = fixture_of_runs({name: split.case for name, split in _SPLITS.items()})


@pytest.mark.parametrize("name", _SPLITS)
def test_blocks_are_split(splits: Outcomes, name: str) -> None:
    server, split = splits[name].server, _SPLITS[name]
    undisturbed(splits[name].result)
    for procedure, counts in ((Nfs.READ, split.reads), (Nfs.WRITE, split.writes)):
        covers_once(server.calls(procedure), 2 * split.block)
        assert {call.count for call in server.calls(procedure)} == counts


_ODD = (1, 3, 511, 513, 4097)
_PATTERN = bytes(range(1, 251))


def odd_content(block: int) -> bytes:
    return (_PATTERN * (block // len(_PATTERN) + 1))[:block] * 20


odd_sizes = fixture_of_runs(
    {
        str(block): Case(
            options={
                "bs": block,
                "size": block * 20,
                "verify": "pattern",
                "verify_pattern": "0x" + _PATTERN[:block].hex(),
            },
            arguments=sections(
                w={"rw": "write", "filename": "w"}, r={"rw": "read", "filename": "r"}
            ),
            files={"r": odd_content(block)},
        )
        for block in _ODD
    }
)


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
    """Make a hook that lets FSINFO of the engine's own tell other limits than that of libnfs.

    libnfs asks about the export's root while it mounts, and refuses to where it is offered less
    than 8 KiB; the engine asks about its file.
    """

    def hook(call: Call) -> Answer | None:
        if call.procedure is not Nfs.FSINFO or call.file == "":
            return None
        limits = struct.pack(">7I", rtmax, rtmax, 1, wtmax, wtmax, 1, 4096)
        return Answer(results=struct.pack(">2I", 0, 0) + limits + bytes(8 + 4 + 4 + 4))

    return hook


_NO_LIMITS: dict[str, tuple[Case, str]] = {
    "rtmax 0": (Case(rtmax=0), "server max rsize of 0"),  # libnfs's own words
    "wtmax 0": (Case(wtmax=0), "server max wsize of 0"),
    "rtmax 0 at the second look": (
        Case(own_limits(0, MIB)),
        "offers rtmax 0 and wtmax 1048576 (FSINFO): neither may be 0",
    ),
    "wtmax 0 at the second look": (
        Case(own_limits(MIB, 0)),
        "offers rtmax 1048576 and wtmax 0 (FSINFO): neither may be 0",
    ),
}

limits = fixture_of_runs({name: case for name, (case, _) in _NO_LIMITS.items()})


@pytest.mark.parametrize("name", _NO_LIMITS)
def test_servers_that_take_nothing_are_refused(limits: Outcomes, name: str) -> None:
    result = limits[name].result
    assert result.status == 1
    (line,) = said(result)
    assert _NO_LIMITS[name][1] in line
    assert not limits[name].server.calls(*DATA)


def test_the_smallest_limits_serve(client: Client, server: ScriptedServer) -> None:
    server.hooks.append(own_limits(512, 100))
    undisturbed(client(server, verify="crc32c"))
    assert {call.count for call in server.calls(Nfs.READ)} == {512}
    assert {call.count for call in server.calls(Nfs.WRITE)} == {100, 4096 % 100}


# --- connections that are lost ---

_DEPTH = 8


def last_of(number: int, answer: Answer) -> Hook:
    """Make a hook that leaves the first WRITEs unanswered, and answers the last of them so."""
    silent = on(Nfs.WRITE, Answer(reply=False), first=number - 1)
    last = on(Nfs.WRITE, answer, nth=number)
    return lambda call: last(call) or silent(call)


_ENDS: dict[str, Answer] = {
    "reset with all outstanding": Answer(reply=False, end="reset"),
    "closed with all outstanding": Answer(reply=False, end="close"),
    "in a mark": Answer(cut=2, end="close"),
    "in a head": Answer(cut=50, end="reset"),
    "before the last byte": Answer(cut=163, end="close"),
    "behind garbage": Answer(raw=mark(40) + b"\xff" * 40, end="close"),
}

ends = fixture_of_runs(
    {
        name: Case(last_of(_DEPTH, answer), {"verify": "crc32c", "iodepth": _DEPTH})
        for name, answer in _ENDS.items()
    }
)


@pytest.mark.parametrize("name", _ENDS)
def test_outstanding_calls_go_out_again(ends: Outcomes, name: str) -> None:
    server, result = ends[name].server, ends[name].result
    done(result)
    assert [line.reconnects for line in result.stats] == [1]
    assert [line.retransmissions for line in result.stats] == [_DEPTH]
    stops, resumes = said(result)
    assert f"connection lost with {_DEPTH} calls outstanding" in stops
    assert "server OK" in resumes
    calls = server.calls(Nfs.WRITE)
    first, again = calls[:_DEPTH], calls[_DEPTH : 2 * _DEPTH]
    assert [(call.xid, call.offset) for call in first] == [(c.xid, c.offset) for c in again]
    assert {call.connection for call in again} == {first[0].connection + 1}


_CUTS: dict[str, tuple[int, Answer]] = {
    "small, reset": (4 * KIB, Answer(cut=2 * KIB, end="reset")),
    "small, closed": (4 * KIB, Answer(cut=2 * KIB, end="close")),
    "large, reset": (64 * KIB, Answer(cut=32 * KIB, end="reset")),
    "large, closed": (64 * KIB, Answer(cut=32 * KIB, end="close")),
    "large, in its pad": (64 * KIB - 8, Answer(cut=64 * KIB + 119, end="close")),
}

cuts = fixture_of_runs(
    {
        name: reading(on(Nfs.READ, answer, nth=3), block, 8 * block)
        for name, (block, answer) in _CUTS.items()
    }
)


@pytest.mark.parametrize("name", _CUTS)
def test_loss_within_the_data_of_a_read(cuts: Outcomes, name: str) -> None:
    server, result = cuts[name].server, cuts[name].result
    done(result)
    assert [line.reconnects for line in result.stats] == [1]
    calls = server.calls(Nfs.READ)
    again = next(call for call in calls[3:] if call.xid == calls[2].xid)
    assert (again.offset, again.connection) == (calls[2].offset, calls[2].connection + 1)


def test_loss_of_an_idle_connection(client: Client, server: ScriptedServer) -> None:
    def lose_soon(server: ScriptedServer) -> None:
        server.later(0.1, server.reset_connections)

    server.hooks.append(on(Nfs.WRITE, Answer(do=lose_soon), nth=8))
    result = client(server, iodepth=1, thinktime="300ms", thinktime_blocks=8, verify="crc32c")
    done(result)
    assert [line.reconnects for line in result.stats] == [1]
    assert len({call.connection for call in server.calls(*BOTH)}) == 2


def test_a_server_that_comes_back(client: Client, server: ScriptedServer) -> None:
    restart = Answer(do=lambda server: server.restart(down=0.5))
    server.hooks.append(on(Nfs.WRITE, restart, nth=10))
    result = client(server, verify="crc32c", sync=1)
    done(result)
    assert [line.reconnects for line in result.stats] == [1]
    assert len({call.xid for call in server.calls(Nfs.WRITE)}) == BLOCKS


def test_a_server_that_does_not_read_for_a_while(client: Client) -> None:
    def rest(server: ScriptedServer) -> None:
        server.stop_reading()
        server.later(0.5, server.read_again)

    hook = on(Nfs.WRITE, Answer(do=rest), nth=3)
    with ScriptedServer(hook, receive_buffer=64 * KIB) as server:
        undisturbed(client(server, bs="1m", size="32m", iodepth=32, verify="crc32c"))
        assert len({call.xid for call in server.calls(Nfs.WRITE)}) == 32


# --- replies that do not come ---

silences = fixture_of_runs(
    {
        procedure.name: Case(
            on(procedure, Answer(reply=False), nth=1), {"timeo": 2, "verify": "crc32c"}
        )
        for procedure in (Nfs.READ, Nfs.WRITE, Nfs.COMMIT)
    }
)


@pytest.mark.parametrize("procedure", DATA)
def test_a_call_is_sent_again_with_its_number(silences: Outcomes, procedure: Procedure) -> None:
    server, result = silences[procedure.name].server, silences[procedure.name].result
    done(result)
    assert [line.retransmissions for line in result.stats] == [1]
    assert [line.reconnects for line in result.stats] == [0]
    lost = server.calls(procedure)[0]
    first, again = (call for call in server.calls(procedure) if call.xid == lost.xid)
    assert (first.offset, first.count) == (again.offset, again.count)
    assert first.connection == again.connection
    assert again.time - first.time >= 0.2
    silent, answers = said(result)
    assert "server not responding, still trying" in silent
    assert "server OK" in answers


jukeboxes = fixture_of_runs(
    {
        procedure.name: Case(
            on(procedure, Answer(status=Status.JUKEBOX), first=3),
            {"verify": "crc32c", "iodepth": 1},
        )
        for procedure in (Nfs.READ, Nfs.WRITE, Nfs.COMMIT)
    }
)


@pytest.mark.parametrize("procedure", DATA)
def test_jukebox(jukeboxes: Outcomes, procedure: Procedure) -> None:
    undisturbed(jukeboxes[procedure.name].result)
    calls = jukeboxes[procedure.name].server.calls(procedure)
    assert len({call.xid for call in calls}) == len(calls)
    assert len({call.offset for call in calls[:4]}) == 1
    waits = [later.time - earlier.time for earlier, later in pairwise(calls[:4])]
    assert waits == sorted(waits)
    assert waits[0] >= 0.1
    assert len(calls) == (4 if procedure is Nfs.COMMIT else BLOCKS + 3)


@pytest.mark.parametrize(("timeo", "retrans"), [(2, 1), (1, 4)])
def test_soft_gives_up(client: Client, server: ScriptedServer, timeo: int, retrans: int) -> None:
    server.hooks.append(on(BOTH, Answer(reply=False), after=4))
    result = client(server, timeo=timeo, retrans=retrans, soft=1)
    waited = time.monotonic() - server.calls(Nfs.WRITE)[4].time
    give_up = timeo / 10 * (retrans + 1)
    failed(result, f"no answer within {give_up:.1f} s", error=errno.ETIMEDOUT)
    assert give_up <= waited < give_up + 3
    tries = Counter(call.xid for call in server.calls(Nfs.WRITE)[4:])
    assert max(tries.values()) <= retrans + 1


def test_patience_asked_for_is_no_silence(client: Client, server: ScriptedServer) -> None:
    """A soft mount gives up a server that does not answer, not one that says: later."""
    server.hooks.append(on(Nfs.WRITE, Answer(status=Status.JUKEBOX), first=3))
    undisturbed(client(server, timeo=1, retrans=1, soft=1, iodepth=1, verify="crc32c"))


def test_soft_gives_up_a_server_that_is_gone(client: Client, server: ScriptedServer) -> None:
    def go(server: ScriptedServer) -> None:
        server.refuse()
        server.reset_connections()

    server.create("f", bytes(64 * KIB))
    server.hooks.append(on(Nfs.READ, Answer(do=go), nth=5))
    failed(client(server, timeo=2, retrans=1, soft=1, **READING), error=errno.ETIMEDOUT)


def test_hard_waits_for_ever_but_can_be_ended(client: Client, server: ScriptedServer) -> None:
    server.hooks.append(on(BOTH, Answer(reply=False), after=4))
    with client.start(server, timeo=1, retrans=1) as process:
        eventually(lambda: len(server.calls(Nfs.WRITE)) > 30)
        assert process.running
        assert cpu_seconds(process.pid) < 2, "it spins"
        begin = time.monotonic()
        process.signal(signal.SIGINT)
        result = client.finish(process)
    assert result.status is not None
    assert time.monotonic() - begin < 5
    assert "giving up 8 calls that the server did not answer" in result.messages


# --- refusals ---

_STATUSES: dict[int, int] = {
    Status.STALE: errno.ESTALE,
    Status.NOSPC: errno.ENOSPC,
    Status.DQUOT: errno.EDQUOT,
    Status.IO: errno.EIO,
    Status.ROFS: errno.EROFS,
    Status.ACCES: errno.EACCES,
    12345: errno.EIO,
}

statuses = fixture_of_runs(
    {str(status): read_and_write(on(BOTH, Answer(status=status), nth=5)) for status in _STATUSES}
)


@pytest.mark.parametrize(("status", "error"), _STATUSES.items())
def test_statuses_are_reported_as_such(statuses: Outcomes, status: int, error: int) -> None:
    server, result = statuses[str(status)].server, statuses[str(status)].result
    known = status in {one.value for one in Status}
    word = f"NFS3ERR_{Status(status).name}" if known else "an unknown nfsstat3"
    failed(
        result,
        f"127.0.0.1:{server.nfs_port}:/export: {word}",
        f"{os.strerror(error)}: read offset=16384",
        f"{os.strerror(error)}: write offset=16384",
        error=error,
    )


_NAMES: dict[str, tuple[Procedure, Status, int]] = {
    "MNT ACCES": (Mount.MNT, Status.ACCES, errno.EACCES),
    "MNT NOENT": (Mount.MNT, Status.NOENT, errno.EPERM),  # as libnfs has it
    "LOOKUP STALE": (Nfs.LOOKUP, Status.STALE, errno.ESTALE),
    "LOOKUP ACCES": (Nfs.LOOKUP, Status.ACCES, errno.EACCES),
    "CREATE ROFS": (Nfs.CREATE, Status.ROFS, errno.EROFS),
    "CREATE NOSPC": (Nfs.CREATE, Status.NOSPC, errno.ENOSPC),
    "CREATE ACCES": (Nfs.CREATE, Status.ACCES, errno.EACCES),
}

names = fixture_of_runs(
    {
        name: Case(on(procedure, Answer(status=status)))
        for name, (procedure, status, _) in _NAMES.items()
    }
)


@pytest.mark.parametrize("name", _NAMES)
def test_statuses_of_names_are_reported_as_such(names: Outcomes, name: str) -> None:
    _, status, error = _NAMES[name]
    failed(names[name].result, f"ERR_{status.name}", error=error)


_REFUSALS: dict[str, tuple[bytes, int, str]] = {
    "AUTH_TOOWEAK": (denied(AuthStat.TOOWEAK), errno.EACCES, "it may want a reserved source port"),
    "AUTH_BADCRED": (denied(AuthStat.BADCRED), errno.EACCES, "the server denied AUTH_SYS"),
    "RPC_MISMATCH": (rpc_mismatch(3, 4), errno.EPROTONOSUPPORT, "RPC versions 3 to 4, not 2"),
    "PROG_UNAVAIL": (
        accepted(AcceptStat.PROG_UNAVAIL),
        errno.EPROTONOSUPPORT,
        "the server does not offer NFS on this port",
    ),
    "PROG_MISMATCH": (
        accepted(AcceptStat.PROG_MISMATCH),
        errno.EPROTONOSUPPORT,
        "the server offers NFS versions 4 to 4, not 3",
    ),
    "PROC_UNAVAIL": (
        accepted(AcceptStat.PROC_UNAVAIL),
        errno.EPROTONOSUPPORT,
        "the server lacks the procedure",
    ),
    "GARBAGE_ARGS": (
        accepted(AcceptStat.GARBAGE_ARGS),
        errno.EINVAL,
        "the server could not read the call",
    ),
    "SYSTEM_ERR": (
        accepted(AcceptStat.SYSTEM_ERR),
        errno.EREMOTEIO,
        "the server ran out of something",
    ),
}

refusals = fixture_of_runs(
    {
        name: read_and_write(on(BOTH, Answer(act=False, rpc=rpc), after=2))
        for name, (rpc, _, _) in _REFUSALS.items()
    }
)


@pytest.mark.parametrize("name", _REFUSALS)
def test_calls_that_are_not_accepted(refusals: Outcomes, name: str) -> None:
    result, (_, error, words) = refusals[name].result, _REFUSALS[name]
    failed(result, error=error)
    for job, procedure in (("r", "READ"), ("w", "WRITE")):
        lines = said_by(result, job)
        assert f": {procedure}: " in lines[0]
        assert words in lines[0]
        assert name in lines[0]
        assert len(lines) == 1, "one line is enough, however many calls were outstanding"


_NO_RESERVED_PORTS = (
    "setpriv",
    "--bounding-set=-net_bind_service",
    "--inh-caps=-net_bind_service",
    "--",
)


@pytest.mark.parametrize(
    "where",
    [DATA, (Nfs.LOOKUP,), (Nfs.FSINFO,), (Mount.MNT,)],
    ids=["data", "names", "limits", "mount"],
)
def test_unprivileged_ports_are_refused(
    client: Client, server: ScriptedServer, where: tuple[Procedure, ...]
) -> None:
    first_free = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()
    if os.geteuid() or int(first_free) < 1024:
        pytest.skip("whether a port below 1024 is to be had cannot be chosen here")
    server.hooks.append(lambda call: reserved_ports_only(call) if call.procedure in where else None)
    done(client(server))
    assert {call.client[1] < 1024 for call in server.calls(*DATA)} == {True}
    result = client(server, enter=_NO_RESERVED_PORTS)
    assert result.status == 1, result.messages
    lines = said(result)
    assert "reserved" in lines[0]
    assert len(lines) == 1


# --- durability ---

_FORGETS = Answer(do=ScriptedServer.new_verifier)


def verifiers_at_random(call: Call) -> Answer | None:
    return Answer(verifier=os.urandom(8)) if call.procedure in (Nfs.WRITE, Nfs.COMMIT) else None


@dataclass(frozen=True)
class Loss:
    """When a server forgets, and how many bytes the job must then report as lost."""

    hook: Hook
    options: Options
    bytes: int
    error: int = errno.EIO


_LOSSES = {
    "between WRITE and COMMIT": Loss(on(Nfs.COMMIT, _FORGETS, nth=1), {}, 64 * KIB),
    "before end_fsync": Loss(on(Nfs.COMMIT, _FORGETS, nth=1), {"end_fsync": 1}, 64 * KIB),
    "between WRITEs": Loss(on(Nfs.WRITE, _FORGETS, nth=11), {"iodepth": 1}, 40 * KIB),
    "between fsyncs": Loss(on(Nfs.WRITE, _FORGETS, nth=12), {"iodepth": 1, "fsync": 8}, 12 * KIB),
    "before the second fdatasync": Loss(
        on(Nfs.COMMIT, _FORGETS, nth=2), {"iodepth": 1, "fdatasync": 6}, 24 * KIB
    ),
    "with the connection": Loss(
        on(Nfs.COMMIT, Answer(do=ScriptedServer.restart), nth=1),
        {"iodepth": 1, "fsync": 16},
        64 * KIB,
    ),
    "with each reply": Loss(verifiers_at_random, {"iodepth": 1}, 64 * KIB),
    "COMMIT fails": Loss(on(Nfs.COMMIT, Answer(status=Status.IO)), {"end_fsync": 1}, 64 * KIB),
    "COMMIT finds no space": Loss(
        on(Nfs.COMMIT, Answer(status=Status.NOSPC)), {"end_fsync": 1}, 64 * KIB, errno.ENOSPC
    ),
}

losses = fixture_of_runs({name: Case(loss.hook, loss.options) for name, loss in _LOSSES.items()})


@pytest.mark.parametrize("name", _LOSSES)
def test_what_the_server_lost_is_reported(losses: Outcomes, name: str) -> None:
    result, label = losses[name].result, f"127.0.0.1:{losses[name].server.nfs_port}:/export: "
    failed(result, error=_LOSSES[name].error)
    lines = [line.partition(label)[2] for line in said(result) if "may be lost" in line]
    assert all(' bytes of "f" may be lost: ' in line for line in lines)
    assert sum(int(line.split()[0]) for line in lines) == _LOSSES[name].bytes


def test_what_a_server_that_is_gone_had_not_committed_is_reported(
    client: Client, server: ScriptedServer
) -> None:
    """Its COMMIT does not even leave."""

    def go(server: ScriptedServer) -> None:
        server.refuse()
        server.reset_connections()

    server.hooks.append(on(Nfs.WRITE, Answer(do=go), nth=11))
    result = client(server, iodepth=1, soft=1, timeo=2, retrans=1)
    failed(result, f'{40 * KIB} bytes of "f" may be lost', error=errno.ETIMEDOUT)


_KEPT: dict[str, tuple[Hook, Options]] = {
    "all was committed before": (on(Nfs.WRITE, _FORGETS, nth=9), {"iodepth": 1, "fsync": 8}),
    "all was durable at once": (on(Nfs.WRITE, _FORGETS, nth=9), {"sync": 1}),
    "the server did more than it was asked to": (on(Nfs.WRITE, Answer(committed=2)), {}),
    "nothing was written": (on(Nfs.READ, _FORGETS, nth=5), {**READING, "filename": "r"}),
}

kept = fixture_of_runs({name: Case(hook, options) for name, (hook, options) in _KEPT.items()})


@pytest.mark.parametrize("name", _KEPT)
def test_what_is_durable_is_not_lost(kept: Outcomes, name: str) -> None:
    server = kept[name].server
    undisturbed(kept[name].result)
    if server.calls(Nfs.WRITE):
        assert len(server.durable("f")) == 64 * KIB
        assert server.durable("f") == server.content("f")


_STABLE: dict[str, tuple[Options, Stable]] = {
    "by default": ({}, Stable.UNSTABLE),
    "unstable": ({"stable": "unstable"}, Stable.UNSTABLE),
    "data_sync": ({"stable": "data_sync"}, Stable.DATA_SYNC),
    "file_sync": ({"stable": "file_sync"}, Stable.FILE_SYNC),
    "sync=1": ({"sync": 1}, Stable.FILE_SYNC),
    "sync=sync": ({"sync": "sync", "stable": "data_sync"}, Stable.FILE_SYNC),
    "sync=dsync": ({"sync": "dsync"}, Stable.DATA_SYNC),
    "sync=dsync, file_sync": ({"sync": "dsync", "stable": "file_sync"}, Stable.FILE_SYNC),
}

stables = fixture_of_runs({name: Case(soundly, options) for name, (options, _) in _STABLE.items()})


@pytest.mark.parametrize("name", _STABLE)
def test_how_writes_ask(stables: Outcomes, name: str) -> None:
    server, (_, stable) = stables[name].server, _STABLE[name]
    undisturbed(stables[name].result)
    assert [call.stable for call in server.calls(Nfs.WRITE)] == [stable] * BLOCKS
    assert len(server.calls(Nfs.COMMIT)) == (stable is Stable.UNSTABLE)
    assert len(server.durable("f")) == 64 * KIB


def test_writes_that_are_less_durable_than_asked(client: Client, server: ScriptedServer) -> None:
    server.hooks.append(on(Nfs.WRITE, Answer(committed=Stable.UNSTABLE), nth=3))
    failed(client(server, sync=1), "as stable_how 0 where 2 was asked", error=errno.EIO)


# What is on the wire at depth 1: w WRITE, c COMMIT.
_SYNCS: dict[str, tuple[Options, str]] = {
    "fsync": ({"fsync": 4}, "wwwwcwwwwcwwwwcwwwwc"),
    "fdatasync": ({"fdatasync": 8}, "wwwwwwwwcwwwwwwwwc"),
    "end_fsync": ({"end_fsync": 1}, "wwwwwwwwwwwwwwwwc"),
    "fsync_on_close": ({"fsync_on_close": 1}, "wwwwwwwwwwwwwwwwc"),
    "at the close": ({}, "wwwwwwwwwwwwwwwwc"),
    "nothing to sync": ({"fsync": 4, "sync": 1}, "wwwwwwwwwwwwwwww"),
}

syncs = fixture_of_runs(
    {name: Case(soundly, {"iodepth": 1, **options}) for name, (options, _) in _SYNCS.items()}
)


@pytest.mark.parametrize("name", _SYNCS)
def test_syncs_commit(syncs: Outcomes, name: str) -> None:
    server = syncs[name].server
    undisturbed(syncs[name].result)
    letters: dict[Procedure, str] = {Nfs.WRITE: "w", Nfs.COMMIT: "c"}
    assert "".join(letters[call.procedure] for call in server.calls(*DATA)) == _SYNCS[name][1]
    assert {(call.offset, call.count) for call in server.calls(Nfs.COMMIT)} <= {(0, 0)}
    assert server.durable("f") == server.content("f")


def test_a_sync_waits_for_the_writes_before_it(client: Client, server: ScriptedServer) -> None:
    """Half of the writes are answered at once, so that there is something to commit early."""
    server.hooks.append(on(Nfs.WRITE, Answer(delay=0.2), every=2))
    undisturbed(client(server, fsync=12))
    commit = server.calls(Nfs.COMMIT)[0]
    for write in server.calls(Nfs.WRITE)[:12]:
        assert write.answered is not None
        assert write.answered < commit.time


# --- who calls, and from where ---

callers = fixture_of_runs(
    {
        "nconnect": Case(options={"nconnect": 4, "spread": "roundrobin", "verify": "crc32c"}),
        "localaddr": Case(
            options={
                "nconnect": 4,
                "spread": "roundrobin",
                "localaddr": "127.0.0.2+127.0.0.3",
            }
        ),
    }
)


def test_credentials(client: Client, server: ScriptedServer) -> None:
    """The caller's own groups go with its own user and group alone."""
    groups, enter = tuple(os.getgroups()[:16]), list[str]()
    if os.geteuid() == 0:
        groups, enter = (4, 5, 77777), ["setpriv", "--groups", "4,5,77777", "--"]
    undisturbed(client(server, enter=enter))
    (seen,) = {call.credentials for call in server.calls(*DATA)}
    assert (seen.uid, seen.gid, seen.gids) == (os.geteuid(), os.getegid(), groups)
    assert seen.machine == os.uname().nodename[:64]
    undisturbed(client(server, pool=server.pool(uid=1234, gid=4294967294), enter=enter))
    later = {call.credentials for call in server.calls() if call.credentials.uid == 1234}
    assert {credentials.gid for credentials in later} == {4294967294}
    assert {call.credentials.gids for call in server.calls(*DATA)} == {groups, ()}


def test_nconnect(callers: Outcomes) -> None:
    undisturbed(callers["nconnect"].result)
    for procedure in BOTH:
        calls = Counter(call.client for call in callers["nconnect"].server.calls(procedure))
        assert list(calls.values()) == [4] * 4


def test_local_addresses_are_bound_in_turn(callers: Outcomes) -> None:
    server, result = callers["localaddr"].server, callers["localaddr"].result
    undisturbed(result)
    clients = dict.fromkeys(call.client for call in server.calls(Nfs.WRITE))
    expected = ["127.0.0.2", "127.0.0.3"] * 2
    assert [address for address, _ in clients] == expected
    assert [line.local.split(":")[0] for line in result.stats] == expected


# --- several paths ---

_ADDRESSES = tuple(f"127.0.0.{number}" for number in range(1, 5))


@pytest.fixture
def paths() -> Iterator[ScriptedServer]:
    """Give one server with four addresses."""
    with ScriptedServer(addresses=_ADDRESSES) as running:
        yield running


@pytest.mark.parametrize(
    ("stripe", "block"), [(16 * KIB, 48 * KIB), (64 * KIB, 4 * KIB), (10007, 25011)]
)
def test_stripes_lie_where_they_must(
    client: Client, paths: ScriptedServer, stripe: int, block: int
) -> None:
    size = 24 * block
    job: Options = {"stripe_size": stripe, "bs": block, "size": size, "verify": "crc32c"}
    undisturbed(client(paths, spread="stripe", **job))
    for call in paths.calls(*BOTH):
        first = call.offset // stripe
        assert (call.offset + call.count - 1) // stripe == first
        assert call.server[0] == _ADDRESSES[first % 4]
    covers_once(paths.calls(Nfs.WRITE), size)
    covers_once(paths.calls(Nfs.READ), size)


def test_only_paths_that_wrote_are_committed(client: Client, paths: ScriptedServer) -> None:
    undisturbed(client(paths, spread="stripe", stripe_size="32k", end_fsync=1))
    commits = Counter(call.server[0] for call in paths.calls(Nfs.COMMIT))
    assert commits == {"127.0.0.1": 1, "127.0.0.2": 1}
    assert paths.durable("f") == paths.content("f")


def test_reading_commits_nothing(client: Client, paths: ScriptedServer) -> None:
    paths.create("f", bytes(64 * KIB))
    undisturbed(client(paths, spread="roundrobin", end_fsync=1, **READING))
    assert len(paths.calls(Nfs.READ)) == BLOCKS
    assert not paths.calls(Nfs.WRITE, Nfs.COMMIT)


def test_verifiers_are_kept_per_path(client: Client, paths: ScriptedServer) -> None:
    """The nodes of a cluster may have one each: nothing is lost while each keeps to its own."""

    def own_verifier(call: Call) -> Answer | None:
        if call.procedure not in (Nfs.WRITE, Nfs.COMMIT):
            return None
        return Answer(verifier=call.server[0].encode()[-8:])

    paths.hooks.append(own_verifier)
    undisturbed(client(paths, spread="roundrobin", fsync=4))


def test_a_loss_names_its_path(client: Client, paths: ScriptedServer) -> None:
    def forget(call: Call) -> Answer | None:
        lost = call.procedure is Nfs.COMMIT and call.server[0] == "127.0.0.3"
        return Answer(verifier=b"another!") if lost else None

    paths.hooks.append(forget)
    result = client(paths, spread="roundrobin")
    lost = f'127.0.0.3:{paths.nfs_port}:/export: 16384 bytes of "f" may be lost'
    failed(result, lost, error=errno.EIO)
    assert result.messages.count("may be lost") == 1


# --- hostile servers ---

_BROKEN = (errno.EPROTO, "the server broke the protocol 3 times running: giving up")
_CONTRADICTS = (errno.EPROTO, "contradicts the call or itself")
_SILENT = (errno.ETIMEDOUT, "no answer within")
_GONE = (errno.ETIMEDOUT, "connection lost")
# What all READs and WRITEs but the first four are answered with; the errno and words to expect.
_HOSTILE: dict[str, tuple[Answer, tuple[int, str]]] = {
    "a call": (Answer(message_type=0), _BROKEN),
    "neither call nor reply": (Answer(message_type=7), _BROKEN),
    "neither accepted nor denied": (Answer(rpc=struct.pack(">I", 2)), _BROKEN),
    "unknown accept_stat": (Answer(rpc=struct.pack(">4I", 0, 0, 0, 6)), _BROKEN),
    "endless verifier": (Answer(rpc=struct.pack(">3I", 0, 0, 2**32 - 1) + bytes(64)), _BROKEN),
    "another call's number": (Answer(xid=1), _SILENT),
    "no results": (Answer(results=b""), _BROKEN),
    "half a result": (Answer(results=struct.pack(">2I", 0, 1) + bytes(40)), _BROKEN),
    "attributes that are neither there nor not": (Answer(attributes=2), _CONTRADICTS),
    "more than was asked": (Answer(extra=4, count=4100), _CONTRADICTS),
    "much more than was asked": (Answer(extra=2 * MIB, count=2**32 - 1), _CONTRADICTS),
    "nothing": (Answer(raw=mark(0)), _BROKEN),
    "half a number": (Answer(raw=mark(3) + b"abc"), _BROKEN),
    "a record of 2 GiB": (Answer(raw=mark(2**31 - 1) + bytes(4096)), _BROKEN),
    "a fragment of 2 GiB": (Answer(raw=mark(2**31 - 1, last=False) + bytes(4096)), _BROKEN),
    "fragments without end": (Answer(raw=mark(0, last=False) * 20000), _SILENT),
    "garbage": (Answer(raw=random.Random(1).randbytes(5000)), _BROKEN),
    "half a reply each time": (Answer(cut=60, end="close"), _GONE),
    "reset each time": (Answer(reply=False, end="reset"), _GONE),
}
# Those that READ and WRITE have apart.
_HOSTILE_READS: dict[str, tuple[Answer, tuple[int, str]]] = {
    "more data than its count": (Answer(length=4097), _CONTRADICTS),
    "less data than its count": (Answer(length=0), _CONTRADICTS),
    "more than was asked, four bytes": (Answer(extra=4), _CONTRADICTS),
    "oversized opaque": (Answer(count=2**32 - 1, length=2**32 - 1), _CONTRADICTS),
    "data that is not there": (Answer(cut=200, end="close"), _GONE),
    "end of file that is neither": (Answer(eof=2), _CONTRADICTS),
}
_HOSTILE_WRITES: dict[str, tuple[Answer, tuple[int, str]]] = {
    "more than was sent": (Answer(count=4097), _CONTRADICTS),
    "count 2^32-1": (Answer(count=2**32 - 1), _CONTRADICTS),
    "unknown stable_how": (Answer(committed=3), _CONTRADICTS),
}
_SOFT: Options = {"soft": 1, "timeo": 3, "retrans": 1}

hostile = fixture_of_runs(
    {
        **{
            name: read_and_write(on(BOTH, answer, after=4), **_SOFT)
            for name, (answer, _) in _HOSTILE.items()
        },
        **{
            name: reading(on(Nfs.READ, answer, after=4), **_SOFT)
            for name, (answer, _) in _HOSTILE_READS.items()
        },
        **{
            name: Case(on(Nfs.WRITE, answer, after=4), _SOFT)
            for name, (answer, _) in _HOSTILE_WRITES.items()
        },
    }
)


@pytest.mark.parametrize("name", [*_HOSTILE, *_HOSTILE_READS, *_HOSTILE_WRITES])
def test_hostile_replies(hostile: Outcomes, name: str) -> None:
    _, (error, words) = {**_HOSTILE, **_HOSTILE_READS, **_HOSTILE_WRITES}[name]
    failed(hostile[name].result, words, error=error)


# What libnfs gets for the names of files: the answer to one procedure.
_HOSTILE_NAMES: dict[str, tuple[Procedure, Answer]] = {
    "MNT: another RPC": (Mount.MNT, Answer(rpc=rpc_mismatch(3, 4))),
    "MNT: a record of 2 GiB": (Mount.MNT, Answer(raw=mark(2**31 - 1) + bytes(4096))),
    "LOOKUP: garbage": (Nfs.LOOKUP, Answer(raw=random.Random(1).randbytes(5000))),
    "LOOKUP: half a reply": (Nfs.LOOKUP, Answer(cut=20, end="close")),
    "LOOKUP: half a number": (Nfs.LOOKUP, Answer(raw=mark(3) + b"abc")),
    "FSINFO: no results": (Nfs.FSINFO, Answer(results=b"")),
    "FSINFO: reset": (Nfs.FSINFO, Answer(reply=False, end="reset")),
    "CREATE: no such attributes": (Nfs.CREATE, Answer(attributes=9)),
    "CREATE: a verifier too long": (
        Nfs.CREATE,
        Answer(rpc=struct.pack(">3I", 0, 0, 4000) + bytes(4004)),
    ),
}

hostile_names = fixture_of_runs(
    {name: Case(on(procedure, answer)) for name, (procedure, answer) in _HOSTILE_NAMES.items()}
)


@pytest.mark.parametrize("name", _HOSTILE_NAMES)
def test_hostile_replies_about_names(hostile_names: Outcomes, name: str) -> None:
    result = hostile_names[name].result
    assert result.status == 1, result.messages
    (line,) = said(result)
    assert f"127.0.0.1:{hostile_names[name].server.nfs_port}:/export: cannot " in line
    assert not hostile_names[name].server.calls(*DATA)


def test_a_reply_to_a_call_that_has_not_left(client: Client) -> None:
    """A server can guess the number of a call that it has not got; to answer it breaks the rules.

    Numbers hold generation and slot, so those of one batch at depth 32 are 65 apart. The server
    reads no more than the first of 32 WRITEs of a mebibyte, far from all that the socket takes.
    """
    depth, guessed = 32, list[int]()

    def guess(call: Call) -> Answer | None:
        if call.procedure is not Nfs.WRITE or call.nth > 1:
            return None
        guessed.append((call.xid + (depth - 2) * (2 * depth + 1)) % 2**32)
        results = struct.pack(">5I", 0, 0, 0, MIB, Stable.FILE_SYNC) + bytes(8)
        reply = struct.pack(">6I", guessed[0], 1, 0, 0, 0, 0) + results
        return Answer(do=ScriptedServer.stop_reading, raw=mark(len(reply)) + reply)

    with ScriptedServer(guess, receive_buffer=64 * KIB) as server:
        with client.start(server, bs="1m", size="32m", iodepth=depth, verify="crc32c") as process:
            eventually(lambda: guessed and "messages are broken" in stderr_of(process))
            server.read_again()
            result = client.finish(process)
        done(result)
        assert [line.reconnects for line in result.stats] == [1]
        assert guessed[0] in {call.xid for call in server.calls(Nfs.WRITE)[1:]}


def stderr_of(process: FioProcess) -> str:
    return (process.folder / "stderr").read_text()


def replay(folder: Path, *operations: str) -> dict[str, Option]:
    """Write a log of operations, such as "read 0 4096", for fio to replay."""
    log = folder / "operations"
    lines = ["fio version 2 iolog", "f add", "f open", *(f"f {line}" for line in operations)]
    log.write_text("\n".join([*lines, "f close", ""]))
    return {"read_iolog": str(log), "rw": "randrw"}


def test_a_log_is_replayed_to_its_end(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    """What is under way at its last line must be finished, though fio asks for no completions."""
    server.create("f", bytes(64 * KIB))
    blocks = range(0, 64 * KIB, 4 * KIB)
    done(client(server, **replay(tmp_path, *(f"write {offset} 4096" for offset in blocks))))
    covers_once(server.calls(Nfs.WRITE), 64 * KIB)
    assert server.durable("f") == server.content("f")


def test_a_reply_that_trickles_while_nothing_can_be_sent(client: Client, tmp_path: Path) -> None:
    """Its call is overdue and waits to be sent again, behind as many writes as the socket queues.

    The server reads nothing meanwhile, and the reply is complete before the call has gone out.
    """
    writes = 128
    log = replay(
        tmp_path,
        f"read {64 * MIB} {MIB}",
        *(f"write {number * 256 * KIB} {256 * KIB}" for number in range(writes)),
        *(f"read {number * 4096} 4096" for number in range(200)),
    )

    def rest(server: ScriptedServer) -> None:
        server.stop_reading()
        server.later(1.0, server.read_again)

    trickle = on(Nfs.READ, Answer(do=rest, chunk=64 * KIB, pause=0.04), nth=1)
    with ScriptedServer(trickle, receive_buffer=64 * KIB) as server:
        server.create("f", bytes(65 * MIB))
        done(client(server, bs="1m", size="65m", iodepth=writes + 1, timeo=1, **log))
        assert len({call.offset for call in server.calls(Nfs.WRITE)}) == writes
