# SPDX-License-Identifier: GPL-2.0-only
"""What the engine promises of servers that fail, promise by promise, on scripted servers.

What lies elsewhere:
- calls sent again with their xid, on a new connection too: test_protocol.py,
  test_outstanding_calls_go_out_again and test_a_call_is_sent_again_with_its_number;
- soft: test_protocol.py, test_soft_gives_up and those beside it;
- failover: test_failover.py, and over RDMA test_rdma.py;
- durability: test_protocol.py, test_what_the_server_lost_is_reported; with a hold of what was
  written: test_hold_writes.py;
- short counts, statuses, refusals and replies that contradict themselves: test_protocol.py;
- reading beyond the end of a file: test_engine_defects.py.
"""

from __future__ import annotations

import errno
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise, product

import pytest
from engine_helpers import cpu_seconds, done, eventually, said
from scripted_jobs import (
    BLOCKS,
    SECONDS,
    Case,
    Client,
    Options,
    Outcomes,
    covers_once,
    failed,
    fixture_of_runs,
    numbered,
    reading,
    start_fio,
    undisturbed,
)

from nfsmulti.fiorun import Engine, FioProcess, FioResult
from nfsmulti.scripted import (
    DATA,
    AcceptStat,
    Answer,
    Call,
    Hook,
    Nfs,
    ScriptedServer,
    Status,
    accepted,
    on,
)

pytestmark = pytest.mark.sanitized

KIB, MIB = 1 << 10, 1 << 20
_NEVER = Answer(reply=False)
_GRACE = 10013  # NFS4ERR_GRACE
_ADDRESSES = ("127.0.0.1", "127.0.0.2")


# --- hard: one line when a path stops, one when it resumes ---


def _lose_each_call(first: int, last: int) -> Hook:
    """Make a hook that ends the connection of the WRITEs first … last, instead of answering."""
    lose = on(Nfs.WRITE, Answer(act=False, reply=False, end="close"), after=first - 1, first=last)
    return lambda call: lose(call)


def test_hard_tells_once_per_path_that_it_stops_and_resumes(
    client: Client,
    server: ScriptedServer,
) -> None:
    """Four connections, all of them lost with the server, and lost again when it is back."""
    restart = on(Nfs.WRITE, Answer(do=lambda one: one.restart(down=1.5)), nth=9)
    server.hooks.extend([restart, _lose_each_call(10, 20)])
    result = client(server, nconnect=4, spread="roundrobin", stable="file_sync", verify="crc32c")
    done(result)
    assert sum(line.reconnects for line in result.stats) > 4
    stops, resumes = said(result)
    assert f"127.0.0.1:{server.nfs_port}:/export: connection lost" in stops
    assert f"127.0.0.1:{server.nfs_port}:/export: server OK" in resumes


def test_hard_tells_it_each_time(client: Client, server: ScriptedServer) -> None:
    lose = Answer(act=False, reply=False, end="close")
    server.hooks.extend([on(Nfs.WRITE, lose, nth=5), on(Nfs.WRITE, lose, nth=12)])
    result = client(server, iodepth=1)
    done(result)
    words = [line.partition("/export: ")[2].split()[0] for line in said(result)]
    assert words == ["connection", "server"] * 2


def test_failover_tells_once_per_path_that_it_stops_and_resumes(
    client: Client,
    paths: ScriptedServer,
) -> None:
    """Four connections to a path that takes calls and answers none, also when they are new."""
    silent = threading.Event()

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs.WRITE and call.nth == 1:
            silent.set()
            return Answer(do=lambda one: one.later(2.5, silent.clear))
        if call.server[0] != _ADDRESSES[1] or call.procedure not in (*DATA, Nfs.NULL):
            return None
        return Answer(act=False, reply=False) if silent.is_set() else None

    paths.hooks.append(hook)
    result = client(
        paths, failover=1, nconnect=4, spread="roundrobin", timeo=5, rate_iops=12, size="192k"
    )
    done(result)
    lines = [line for line in said(result) if f"{_ADDRESSES[1]}:" in line]
    stops, resumes = lines
    assert "does not answer" in stops
    assert "answers again" in resumes
    assert len(said(result)) == 2


# --- hard: told when nothing has been sent yet, or nothing has come in full ---


def _says_silence(client: Client, server: ScriptedServer, **options: object) -> None:
    with client.start(server, timeo=2, **options) as process:  # type: ignore[arg-type]
        errors = process.folder / "stderr"
        eventually(lambda: "server not responding, still trying" in errors.read_text())
        process.signal(signal.SIGTERM)
        result = client.finish(process)
    assert result.status not in (0, None)
    assert result.messages.count("not responding") == 1


def test_hard_tells_of_a_server_that_does_not_read(client: Client) -> None:
    """The only call is still on its way out."""
    rest = Answer(do=ScriptedServer.stop_reading)
    hook = on(Nfs.WRITE, rest, nth=1)
    with ScriptedServer(hook, receive_buffer=64 * KIB) as running:
        _says_silence(client, running, bs="16m", wsize="16m", size="64m", iodepth=1)


def test_hard_tells_of_a_reply_that_trickles(client: Client, server: ScriptedServer) -> None:
    """The only call's answer has begun to come."""
    server.create("f", bytes(64 * KIB))
    server.hooks.append(on(Nfs.READ, Answer(chunk=100, pause=1.0)))
    _says_silence(client, server, rw="read", iodepth=1)


def test_soft_fails_a_reply_that_trickles(client: Client, server: ScriptedServer) -> None:
    server.create("f", bytes(64 * KIB))
    server.hooks.append(on(Nfs.READ, Answer(chunk=100, pause=1.0)))
    failed(client(server, rw="read", soft=1, timeo=2, retrans=1), error=errno.ETIMEDOUT)


def test_calls_are_sent_again_after_longer_and_longer(
    client: Client,
    server: ScriptedServer,
) -> None:
    """nfs(5), timeo: each time-out is longer than the last by as much."""
    server.hooks.append(on(Nfs.WRITE, _NEVER, first=4))
    done(client(server, timeo=2, iodepth=1))
    calls = server.calls(Nfs.WRITE)[:5]
    assert len({call.xid for call in calls}) == 1
    for number, (earlier, later) in enumerate(pairwise(calls), start=1):
        assert later.time - earlier.time >= number * 0.2 - 0.01


# --- hard: what ends a job all the same ---


def _go(running: ScriptedServer) -> None:
    running.refuse()
    running.reset_connections()


def _fill(running: ScriptedServer) -> None:
    running.stall()
    running.reset_connections()


def _fall_silent(running: ScriptedServer) -> None:
    running.hooks.insert(0, on((*DATA, Nfs.NULL), _NEVER))


_HANGING: dict[str, Hook] = {
    "silent": on((*DATA, Nfs.NULL), _NEVER, after=4),
    "gone": on(DATA, Answer(reply=False, do=_go), after=4),
    "full": on(DATA, Answer(reply=False, do=_fill), after=4),
    "does not read": on(DATA, Answer(reply=False, do=ScriptedServer.stop_reading), after=4),
    "always patience": on(DATA, Answer(status=Status.JUKEBOX), after=4),
    "always closes": on(DATA, Answer(reply=False, end="close"), after=4),
    "COMMIT unanswered": on(Nfs.COMMIT, Answer(reply=False, do=_fall_silent)),
}
_WITHIN = 5.0
_ENDINGS: dict[str, signal.Signals | None] = {
    "SIGINT": signal.SIGINT,
    "SIGTERM": signal.SIGTERM,
    "runtime": None,
}


@dataclass(frozen=True)
class Ended:
    """How a job has ended, how long after it was told to, and what a second's waiting cost it."""

    result: FioResult
    seconds: float
    cpu_seconds: float


Endings = Mapping[tuple[str, str], Ended]


@pytest.fixture(scope="module", params=[0, 1], ids=["hard", "failover"])
def endings(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Endings:
    """Let all servers fall silent, and tell all jobs to end: they wait at the same time."""
    job: Options = {"failover": request.param, "timeo": 5, "nconnect": 2, "spread": "roundrobin"}
    runs: dict[tuple[str, str], tuple[ScriptedServer, FioProcess]] = {}
    ended: dict[tuple[str, str], Ended] = {}
    with ExitStack() as stack:
        for name, ending in product(_HANGING, _ENDINGS):
            running = stack.enter_context(ScriptedServer(_HANGING[name]))
            options = {**job, "runtime": 1 if ending == "runtime" else 60}
            if name != "COMMIT unanswered":
                options["time_based"] = 1
            folder = tmp_path_factory.mktemp("ending")
            process = start_fio(engine, folder, running.pool(), (), options)
            runs[name, ending] = running, stack.enter_context(process)
        for running, process in runs.values():
            _until_it_hangs(running, process)
        cpu = {key: cpu_seconds(process.pid) for key, (_, process) in runs.items()}
        time.sleep(1)
        cpu = {key: cpu_seconds(runs[key][1].pid) - before for key, before in cpu.items()}
        told = time.monotonic()
        for (_, ending), (_, process) in runs.items():
            if wanted := _ENDINGS[ending]:
                process.signal(wanted)
        for key, (_, process) in runs.items():
            process.wait(SECONDS)
            seconds = time.monotonic() - told
            ended[key] = Ended(process.result(SECONDS), seconds, cpu[key])
    return ended


def _until_it_hangs(server: ScriptedServer, process: FioProcess) -> None:
    """Wait for the last call that is answered, and some time for fio to wait for more."""
    server.wait_for(lambda: len(server.calls(*DATA)) > 4)
    assert process.wait(0.1) is None


@pytest.mark.parametrize("name", _HANGING)
@pytest.mark.parametrize("ending", _ENDINGS)
def test_signals_and_runtime_end_a_hard_job_within_5_seconds(
    endings: Endings, name: str, ending: str
) -> None:
    ended = endings[name, ending]
    assert ended.result.status is not None, "fio hung"
    assert ended.result.status > 0, ended.result.messages
    assert ended.seconds < _WITHIN, ended.result.messages
    assert ended.cpu_seconds < 0.5, "it spins"


@pytest.mark.parametrize(
    "options",
    [{}, {"failover": 1}, {"hold_writes": "64k"}, {"hold_writes": "64k", "failover": 1}],
    ids=str,
)
def test_runtime_waits_for_the_commit_of_a_server_that_lives(
    client: Client,
    server: ScriptedServer,
    options: Options,
) -> None:
    """It answers NULL while it commits for longer than a silent one would be given.

    With a full hold, WRITEs that have not begun wait behind that COMMIT.
    """
    server.hooks.append(on(Nfs.COMMIT, Answer(delay=6.0)))
    result = client(server, runtime=1, time_based=1, rate_iops=50, **options)
    done(result)
    assert server.durable("f") == server.content("f")
    assert len([call for call in server.calls(Nfs.NULL) if call.connection > 0]) >= 3


# --- what servers say ---


@pytest.mark.parametrize("procedure", DATA)
def test_grace_is_waited_for(
    client: Client,
    server: ScriptedServer,
    procedure: Nfs,
) -> None:
    """As some servers say it in NFSv3, too."""
    server.hooks.append(on(procedure, Answer(status=_GRACE), first=3))
    undisturbed(client(server, iodepth=1, verify="crc32c"))
    waits = [later.time - sooner.time for sooner, later in pairwise(server.calls(procedure)[:4])]
    assert all(wait >= 0.1 for wait in waits)


@pytest.mark.parametrize("soft", [0, 1])
def test_a_server_that_asks_for_patience_for_ever(
    client: Client,
    server: ScriptedServer,
    soft: int,
) -> None:
    """It is told once, asked ever more rarely, and left when the job is to end."""
    server.hooks.append(on(Nfs.WRITE, Answer(status=Status.JUKEBOX), after=4))
    options: Options = {"soft": soft, "timeo": 1, "retrans": 1, "nconnect": 2}
    with client.start(server, **options, iodepth=2, spread="roundrobin") as process:
        errors = process.folder / "stderr"
        eventually(lambda: "asks for patience again and again" in errors.read_text())
        assert cpu_seconds(process.pid) < 1
        process.signal(signal.SIGTERM)
        result = client.finish(process)
    assert result.status not in (0, None)
    assert result.messages.count("asks for patience") == 1
    assert "NFS3ERR_JUKEBOX" in result.messages
    asked = [call for call in server.calls(Nfs.WRITE)[4:] if call.offset == 16 * KIB]
    assert len(asked) < 12


@pytest.mark.parametrize("procedure", DATA)
def test_stale_is_one_clear_line(
    client: Client,
    server: ScriptedServer,
    procedure: Nfs,
) -> None:
    """However many calls on however many connections meet it."""
    server.create("f", bytes(64 * KIB))
    server.hooks.append(on(procedure, Answer(status=Status.STALE)))
    rw = "read" if procedure is Nfs.READ else "write"
    result = client(server, rw=rw, nconnect=4, spread="roundrobin")
    failed(result, error=errno.ESTALE)
    (line,) = (line for line in said(result) if "STALE" in line)
    assert f"/export: {procedure.name}: NFS3ERR_STALE: the server does not know the file" in line


# --- hostile servers: replies to COMMIT ---

_COMMIT_REPLIES: dict[str, Answer] = {
    "no such procedure": Answer(act=False, rpc=accepted(AcceptStat.PROC_UNAVAIL)),
    "no results": Answer(results=b""),
    "half a verifier": Answer(results=bytes(4 + 4 + 4 + 4)),
    "nonsense attributes": Answer(attributes=2),
    "an unknown status": Answer(status=4711),
    "another's number": Answer(xid=1),
    "none": _NEVER,
    "an end": Answer(reply=False, end="reset"),
}

commits = fixture_of_runs(
    {
        name: Case(on(Nfs.COMMIT, answer), {"soft": 1, "timeo": 2, "retrans": 1, "end_fsync": 1})
        for name, answer in _COMMIT_REPLIES.items()
    }
)


@pytest.mark.parametrize("name", _COMMIT_REPLIES)
def test_what_no_commit_has_confirmed_is_reported(commits: Outcomes, name: str) -> None:
    result = commits[name].result
    assert result.status == 1, result.messages
    lines = [line for line in said(result) if "may be lost" in line]
    assert sum(int(line.partition("/export: ")[2].split()[0]) for line in lines) == 64 * KIB


# --- hostile servers: replies to others' calls ---


def test_data_that_answers_another_call_is_found_out(
    client: Client,
    server: ScriptedServer,
) -> None:
    """A reply to a READ bears the number of another READ that is outstanding."""
    server.create("f", numbered(64 * KIB, 4 * KIB))
    first = list[int]()

    def exchange(call: Call) -> Answer | None:
        if call.procedure is not Nfs.READ:
            return None
        first.append(call.xid)
        return _NEVER if call.nth == 1 else Answer(xid=first[0]) if call.nth == 2 else None

    server.hooks.append(exchange)
    verify: Options = {"verify": "pattern", "verify_pattern": "%o"}
    failed(client(server, rw="read", timeo=5, **verify), error=errno.EILSEQ)


def test_a_reply_to_a_write_is_none_to_a_read(
    client: Client,
    server: ScriptedServer,
) -> None:
    """Results of one procedure under the number of another: not a byte is taken from them."""
    server.create("f", numbered(64 * KIB, 4 * KIB))
    write_results = bytes(4 + 4 + 4) + (4 * KIB).to_bytes(4) + bytes(4) + b"verifier"
    server.hooks.append(on(Nfs.READ, Answer(results=write_results), nth=5))
    failed(client(server, rw="read", iodepth=1, soft=1, timeo=2, retrans=1), error=errno.EPROTO)


cut_short = fixture_of_runs(
    {
        "all of a block": reading(on(Nfs.READ, Answer(limit=0, eof=1), nth=5), iodepth=1),
        "half of a block": Case(
            on(Nfs.READ, Answer(limit=2 * KIB, eof=1), nth=5),
            {"rw": "read", "iodepth": 1, "filename": "r"},
        ),
    }
)


def test_an_end_of_file_in_its_middle_is_no_data(cut_short: Outcomes) -> None:
    """A block that is missing is an error; of one that is cut, fio asks for the other half."""
    failed(cut_short["all of a block"].result, "beyond the end of file", error=errno.EIO)
    outcome = cut_short["half of a block"]
    assert done(outcome.result).bytes("read") <= 64 * KIB
    covers_once(outcome.server.calls(Nfs.READ), 64 * KIB)


# --- hostile servers: connections ---


@contextmanager
def _slammed(port: int) -> Iterator[Callable[[], int]]:
    """Accept connections to a port of this machine and close them at once; gives their number."""
    count, stop = [0], threading.Event()
    listening = socket.create_server(("127.0.0.1", port))
    listening.settimeout(0.05)

    def slam() -> None:
        while not stop.is_set():
            try:
                listening.accept()[0].close()
                count[0] += 1
            except TimeoutError:
                pass

    thread = threading.Thread(target=slam)
    thread.start()
    try:
        yield lambda: count[0]
    finally:
        stop.set()
        thread.join()
        listening.close()


def test_connections_that_are_closed_at_once_are_opened_ever_more_rarely(
    client: Client,
    server: ScriptedServer,
) -> None:
    server.hooks.append(on(Nfs.WRITE, _NEVER, after=4))
    with client.start(server, iodepth=4) as process:
        server.wait_for(lambda: len(server.calls(Nfs.WRITE)) >= 5)
        _go(server)
        with _slammed(server.nfs_port) as connections:
            eventually(lambda: connections() >= 5)
            assert process.wait(2.0) is None
            assert connections() <= 8
            assert cpu_seconds(process.pid) < 1
        server.hooks.clear()
        server.accept()
        result = client.finish(process)
    done(result)
    assert len(said(result)) == 2


def test_patience_and_an_end_each_time_is_no_spin(
    client: Client,
    server: ScriptedServer,
) -> None:
    """Each connection is answered once, and so that nothing is done."""
    server.hooks.append(on(Nfs.WRITE, Answer(status=Status.JUKEBOX, end="close"), after=4))
    with client.start(server, iodepth=4) as process:
        eventually(lambda: len(server.calls(Nfs.WRITE)) > 16)
        assert process.wait(2.0) is None
        assert cpu_seconds(process.pid) < 1
        process.signal(signal.SIGTERM)
        result = client.finish(process)
    assert result.status not in (0, None)
    assert sum(line.reconnects for line in result.stats) < 10 * result.seconds + 5
    assert len(server.calls(Nfs.WRITE)) > BLOCKS - 8


# --- failover: while a file is laid out ---


@pytest.mark.parametrize("silent", [(Nfs.WRITE, Nfs.COMMIT, Nfs.NULL), (Nfs.COMMIT, Nfs.NULL)])
def test_a_file_is_laid_out_by_the_paths_that_are_left(
    client: Client,
    paths: ScriptedServer,
    silent: tuple[Nfs, ...],
) -> None:
    """One of two falls silent at a WRITE, or at the COMMIT of what it took."""
    told = threading.Event()

    def hook(call: Call) -> Answer | None:
        if call.server[0] != _ADDRESSES[1] or call.procedure not in silent:
            return None
        if call.procedure is silent[0]:
            told.set()
        return Answer(act=False, reply=False) if told.is_set() else None

    paths.hooks.append(hook)
    done(client(paths, rw="read", bs="64k", size="8m", failover=1, timeo=5))
    assert len(paths.durable("f")) == 8 * MIB
    assert paths.durable("f") == paths.content("f")
    assert told.is_set()


def _second_finds_nothing(call: Call) -> Answer | None:
    lost = call.procedure is Nfs.LOOKUP and call.server[0] == _ADDRESSES[1]
    return Answer(status=Status.IO) if lost else None


def test_a_file_is_laid_out_without_a_path_that_cannot_find_it(
    client: Client,
    paths: ScriptedServer,
) -> None:
    paths.hooks.append(_second_finds_nothing)
    done(client(paths, rw="read", bs="64k", size="4m", failover=1))
    assert len(paths.durable("f")) == 4 * MIB


def test_every_file_is_laid_out_without_a_path_that_cannot_find_them(
    client: Client,
    paths: ScriptedServer,
) -> None:
    """What was found out of a path for one file is nothing that the next waits for."""
    paths.hooks.append(_second_finds_nothing)
    done(client(paths, rw="read", bs="64k", size="256k", filename="x:y", failover=1))
    assert len(paths.durable("x")) == len(paths.durable("y")) == 128 * KIB
