# SPDX-License-Identifier: GPL-2.0-only
"""What the engine promises of servers that fail, promise by promise, on scripted servers.

What lies elsewhere:
- calls sent again with their xid, on a new connection too, soft, refusals, what is told of a path
  that stops, and a server that asks to wait: test_scenarios_calls.py;
- failover: test_scenarios_failover.py, and over RDMA test_rdma.py;
- durability, also with a hold of what was written: test_scenarios.py;
- short counts, and replies that contradict themselves: test_replies.py;
- statuses and refusals: test_refusals.py;
- reading beyond the end of a file: test_engine_files.py, and in parts: test_replies.py.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import pytest
from engine_helpers import cpu_seconds, done, eventually, family, job_of, said, sections, stderr_of
from limits import Within
from scripted_jobs import (
    KIB,
    MIB,
    NEVER,
    READING,
    SECONDS,
    TWO_ADDRESSES,
    Case,
    Client,
    Options,
    Outcomes,
    covers_once,
    failed,
    first_of,
    fixture_of_runs,
    go,
    numbered,
    preloaded,
    start_fio,
)

from nfsmulti.fiorun import Engine, FioProcess
from servers.judge import lost_bytes
from servers.scripted import (
    DATA,
    DATA4,
    Answer,
    Call,
    Hook,
    Mount,
    Nfs,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status,
    Status4,
    on,
)

pytestmark = pytest.mark.sanitized


def _end_once_it_says(words: str) -> Callable[[ScriptedServer, FioProcess], None]:
    """Make what tells a job to end as soon as it has said something."""

    def during(_: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: words in stderr_of(process))
        process.signal(signal.SIGTERM)

    return during


# --- told when nothing has been sent yet, or nothing has come in full ---

_TRICKLE = on(Nfs.READ, Answer(chunk=100, pause=1.0))
_TRICKLES: Options = {"rw": "read", "iodepth": 1, "filename": "r", "timeo": 2}
_told = _end_once_it_says("server not responding, still trying")


def _reads_no_data(call: Call) -> Answer | None:
    """Answer what comes last before the data, FSINFO of the file, and read nothing more."""
    last = call.procedure is Nfs.FSINFO and call.file != ""
    return Answer(do=ScriptedServer.stop_reading) if last else None


halves = fixture_of_runs(
    {
        "the server does not read": Case(
            _reads_no_data,
            {"bs": "16m", "wsize": "16m", "size": "64m", "iodepth": 1, "timeo": 2},
            wtmax=16 * MIB,
            receive_buffer=64 * KIB,
            during=_told,
        ),
        "the reply trickles": Case(_TRICKLE, _TRICKLES, during=_told),
        "soft": Case(_TRICKLE, {**_TRICKLES, "soft": 1, "retrans": 1}),
    }
)


@pytest.mark.parametrize("name", ["the server does not read", "the reply trickles"])
def test_hard_tells_of_what_is_half_done(halves: Outcomes, name: str) -> None:
    """The only call is still on its way out, or its answer has begun to come."""
    result = halves[name].result
    assert result.status not in (0, None)
    assert result.messages.count("not responding") == 1


def test_soft_fails_a_reply_that_trickles(halves: Outcomes) -> None:
    failed(halves["soft"].result, error=errno.ETIMEDOUT)


# --- hard: what ends a job all the same ---


def _fill(running: ScriptedServer) -> None:
    running.stall()
    running.reset_connections()


def _fall_silent(running: ScriptedServer) -> None:
    running.hooks.insert(0, on((*Nfs, *Nfs4), NEVER))


_HANGING: dict[str, Hook] = {
    "silent": on((*DATA, Nfs.NULL), NEVER, after=4),
    "gone": on(DATA, Answer(reply=False, do=go), after=4),
    "full": on(DATA, Answer(reply=False, do=_fill), after=4),
    "does not read": on(DATA, Answer(reply=False, do=ScriptedServer.stop_reading), after=4),
    "always patience": on(DATA, Answer(status=Status.JUKEBOX), after=4),
    "always closes": on(DATA, Answer(reply=False, end="close"), after=4),
    "COMMIT unanswered": on(Nfs.COMMIT, Answer(reply=False, do=_fall_silent)),
}


def _hanging_job(name: str, **options: object) -> Options:
    """Return the options of a job that hangs so; `runtime` ends it by itself."""
    endless: Options = {} if name == "COMMIT unanswered" else {"time_based": 1}
    spread: Options = {"nconnect": 2, "spread": "roundrobin"}
    # A major timeout, which `retrans` sets, is no end to it.
    return {**endless, "runtime": 60, "timeo": 5, "retrans": 1, **spread, **options}


def _until_it_hangs(server: ScriptedServer, process: FioProcess) -> None:
    """Wait for the call that is not answered any more, and some time for fio to wait on."""
    eventually(lambda: server.calls(Nfs.COMMIT) or _past_the_answered(server))
    assert process.wait(0.3) is None


def _past_the_answered(server: ScriptedServer) -> bool:
    unanswered_commit = server.hooks[-1] is _HANGING["COMMIT unanswered"]
    return not unanswered_commit and len(server.calls(*DATA)) > 4


def _ended_by(number: signal.Signals) -> Callable[[ScriptedServer, FioProcess], None]:
    def during(server: ScriptedServer, process: FioProcess) -> None:
        _until_it_hangs(server, process)
        process.signal(number)

    return during


_ENDINGS: dict[str, Case] = {
    **{
        f"{name}, SIGINT": Case(hook, _hanging_job(name), during=_ended_by(signal.SIGINT))
        for name, hook in _HANGING.items()
    },
    **{
        f"{name}, runtime": Case(hook, _hanging_job(name, runtime=3))
        for name, hook in _HANGING.items()
        if name in ("gone", "full")
    },
    **{
        f"{name}, failover, SIGTERM": Case(
            _HANGING[name], _hanging_job(name, failover=1), during=_ended_by(signal.SIGTERM)
        )
        for name in ("silent", "gone", "full")
    },
    # One that is not polled waits within its read.
    "silent, one connection, SIGTERM": Case(
        _HANGING["silent"],
        _hanging_job("silent", nconnect=1, timeo=600),
        during=_ended_by(signal.SIGTERM),
    ),
    "silent, a thread, SIGINT": Case(
        _HANGING["silent"], _hanging_job("silent", thread=1), during=_ended_by(signal.SIGINT)
    ),
}
# A tick of 0.1 s has a few on each connection; what spins has 100,000 a second.
_SYSCALLS_MAX = 2000

endings = fixture_of_runs(_ENDINGS)


@pytest.mark.parametrize("name", _ENDINGS)
def test_signals_and_runtime_end_a_hard_job(endings: Outcomes, name: str) -> None:
    """However it hangs, and although the server never answers; nor has it spun meanwhile.

    What was in flight is an error. What was written before counts, and may be lost: no COMMIT came.
    """
    result = endings[name].result
    failed(result, "that the server did not answer: the run is ending", error=errno.EINTR)
    assert result.report is not None
    written = result.report.bytes("write")
    assert sum(line.write_bytes for line in result.stats) == written == lost_bytes(result.messages)
    in_flight = result.report.operations("write") - written // (4 * KIB) or 1  # the COMMIT
    assert f"giving up {in_flight} calls" in result.messages
    assert sum(line.syscalls for line in result.stats) < _SYSCALLS_MAX, "it has spun"


@pytest.mark.timing
@pytest.mark.parametrize("name", ["gone", "silent"])
def test_the_runtime_ends_a_hard_job_within_5_seconds(
    client: Client, server: ScriptedServer, within: Within, name: str
) -> None:
    """A server that is there and answers nothing is given longer: until a signal."""
    server.hooks.append(_HANGING[name])
    with client.start(server, **_hanging_job(name, runtime=1)) as process:
        _until_it_hangs(server, process)
        assert process.wait(1.0) is None
        if name == "silent":
            assert process.wait(1.0) is None
            process.signal(signal.SIGINT)
        with within(5.0):
            process.wait(SECONDS)
        assert client.finish(process).status not in (0, None)


@pytest.mark.timing
def test_signals_end_hard_jobs_within_5_seconds(client: Client, within: Within) -> None:
    """All at once, since they only wait: without using the processor until then."""
    jobs = [(name, 0) for name in _HANGING] + [(name, 1) for name in ("silent", "gone", "full")]
    with ExitStack() as stack:
        running = list[tuple[ScriptedServer, FioProcess]]()
        for name, failover in jobs:
            server = stack.enter_context(ScriptedServer(_HANGING[name]))
            process = client.start(server, **_hanging_job(name, failover=failover))
            running.append((server, stack.enter_context(process)))
        for server, process in running:
            _until_it_hangs(server, process)
        before = [cpu_seconds(process.pid) for _, process in running]
        assert running[0][1].wait(1.0) is None
        for (name, failover), (_, process), seconds in zip(jobs, running, before, strict=True):
            assert cpu_seconds(process.pid) - seconds < 0.5, f"{name}, {failover}: it spins"
        with within(5.0):
            for number, (_, process) in zip(cycle((signal.SIGINT, signal.SIGTERM)), running):
                process.signal(number)
            for _, process in running:
                process.wait(SECONDS)
        assert not {client.finish(process).status for _, process in running} & {0, None}


@pytest.mark.timing
def test_a_signal_ends_a_job_of_many_silent_paths_within_5_seconds(
    client: Client, within: Within
) -> None:
    """NFSv4.1 has sessions to end over each of them."""
    addresses = [f"127.0.0.{number}" for number in range(1, 9)]
    silent = on(DATA4, Answer(reply=False, do=_fall_silent), after=4)
    with ScriptedServer(silent, addresses=addresses) as server:
        options = _hanging_job("silent", filename="f", runtime=60, nconnect=1)
        with client.start(server, pool=server.pool(version="4.1"), **options) as process:
            eventually(lambda: len(server.hooks) > 1)
            process.signal(signal.SIGTERM)
            with within(5.0):
                process.wait(SECONDS)
            assert client.finish(process).status not in (0, None)


@pytest.mark.parametrize("more", [{}, {"exitall": 1}], ids=["alone", "exitall"])
def test_a_signal_ends_a_job_that_opens(
    client: Client, server: ScriptedServer, more: Options
) -> None:
    """Its runtime, which has not begun then, does not hide the signal, whatever the clock says.

    It gives up 2 s after the signal: 8 s before MOUNT would give up by itself and say so.
    """
    server.hooks.append(on(Mount.MNT, NEVER))
    alone: Options = {"create_serialize": 0}  # else fio asks before the job opens
    with client.start(server, runtime=1, clocksource="clock_gettime", **alone, **more) as process:
        server.wait_for(lambda: bool(server.calls(Mount.MNT)))
        process.signal(signal.SIGTERM)
        result = client.finish(process)
    assert result.status not in (0, None)
    assert "the server does not answer" not in result.messages


@pytest.mark.parametrize("version", [3, 4])
def test_a_signal_ends_a_job_that_lays_its_file_out(client: Client, version: int) -> None:
    """What is half laid out goes if the server answers soon: it does not."""
    silent = on((Nfs.WRITE, Nfs4.WRITE), Answer(reply=False, do=_fall_silent))
    with (
        ScriptedServer(silent) as server,
        client.start(server, pool=server.pool_of(version), exitall=1, **READING) as process,
    ):
        server.wait_for(lambda: len(server.calls(Nfs.WRITE, Nfs4.WRITE)) > 0)
        process.signal(signal.SIGTERM)
        result = client.finish(process)
    assert result.status not in (0, None)
    assert "the server does not answer" not in result.messages


def test_a_job_that_is_forked_while_a_thread_sets_its_files_up(
    engine: Engine, tmp_path: Path
) -> None:
    """It does not wait for what that thread has, and nobody in its process will ever let go.

    It waits for a job that the server keeps until the thread lays its file out; and the thread is
    kept at that until the server is asked for the new job's file.
    """
    jobs = sections(
        thread={"filename": "t", "thread": 1},
        before={"filename": "r"},
        process={"filename": "p", "wait_for": "before"},
    )

    def keep(call: Call) -> Answer | None:
        asked = any(one.file == "p" for one in server.calls())
        too_soon = not asked if call.procedure is Nfs.WRITE else not server.calls(Nfs.WRITE)
        waits = call.procedure in (Nfs.READ, Nfs.WRITE) and too_soon
        return Answer(status=Status.JUKEBOX) if waits else None

    with ScriptedServer(keep) as server:
        server.create("r", bytes(64 * KIB))
        options = {**READING, "create_serialize": 0}
        with start_fio(engine, tmp_path, server.pool(), jobs, options) as process:
            done(process.result(SECONDS))


_RUNTIME: Options = {"runtime": 1, "time_based": 1, "rate_iops": 50}
_TO_ITS_END: Options = {**_RUNTIME, "rate_iops": 0, "thinktime": 20000}
_FOR_LONG: Options = {**_TO_ITS_END, "runtime": 300}
_LATE: dict[Procedure, Hook] = {
    procedure: on(procedure, Answer(delay=6.0), nth=nth)
    for procedure, nth in ((Nfs.COMMIT, 1), (Nfs.READ, 9), (Nfs.WRITE, 9), (Nfs.CREATE, 3))
}
_SLOW: dict[Procedure, Options] = {
    Nfs.READ: {**_RUNTIME, **READING, "iodepth": 1},
    Nfs.WRITE: {**_RUNTIME, "iodepth": 1},
    Nfs.CREATE: {"runtime": 1, "metadata": 1, "bs": 1, "size": 8, "iodepth": 1},
}
_SLOW_COMMIT: dict[str, tuple[Options, Sequence[str]]] = {
    "COMMIT": (_RUNTIME, ()),
    "hold, failover": ({**_RUNTIME, "hold_writes": "64k", "failover": 1}, ()),
    "a job that sets its own files up": ({**_TO_ITS_END, "create_serialize": 0}, ()),
    "exitall": (
        {**_FOR_LONG, "exitall": 1},
        sections(w={"filename": "f"}, r={**READING, "filename": "r", "runtime": 1}),
    ),
    "steadystate": ({**_FOR_LONG, "steadystate": "iops:90%", "steadystate_duration": 1}, ()),
}

_READS_FAIL = on(Nfs.READ, Answer(status=Status.IO))
_THEN_READS_FAIL = on(Nfs.WRITE, Answer(do=lambda server: server.hooks.append(_READS_FAIL)), nth=9)

slow_ends = fixture_of_runs(
    {
        **{
            name: Case(_LATE[Nfs.COMMIT], options, arguments)
            for name, (options, arguments) in _SLOW_COMMIT.items()
        },
        **{procedure.name: Case(_LATE[procedure], _SLOW[procedure]) for procedure in _SLOW},
        "exitall_on_error": Case(
            first_of(_LATE[Nfs.COMMIT], _THEN_READS_FAIL),
            {**_FOR_LONG, "exitall_on_error": 1},
            sections(w={"filename": "f"}, r={**READING, "filename": "r"}),
        ),
    }
)


@pytest.mark.parametrize("name", [*_SLOW_COMMIT, *(procedure.name for procedure in _SLOW)])
def test_a_jobs_end_waits_for_a_server_that_is_slow(slow_ends: Outcomes, name: str) -> None:
    """It takes longer than one that is gone would be given.

    With a full hold, WRITEs that have not begun wait behind that COMMIT.
    """
    server, result = slow_ends[name].server, slow_ends[name].result
    done(result)
    assert said(result) == []
    if name != Nfs.CREATE.name:
        assert server.durable("f") == server.content("f")


def test_a_jobs_error_ends_others_as_their_runtime_does(slow_ends: Outcomes) -> None:
    """That job alone has failed, and no other is said to have lost anything."""
    run = slow_ends["exitall_on_error"]
    server, result = run.server, run.result
    assert result.status == 1, result.messages
    assert result.report is not None, result.output
    assert {job["jobname"]: job["error"] for job in result.report.jobs} == {"w": 0, "r": errno.EIO}
    (line,) = said(result)
    assert "NFS3ERR_IO" in line
    moved = sum(call.moved for call in server.calls(Nfs.WRITE))
    assert job_of(result.report, "w")["write"]["io_bytes"] == moved
    assert server.durable("f") == server.content("f")


_CLOCK = """\
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ahead;

static void go_ahead(int number)
{
	ahead += 61;
}

__attribute__((constructor)) static void catch(void)
{
	signal(SIGUSR2, go_ahead);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int error = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += ahead;
	return error;
}
"""


def test_a_file_that_the_server_never_opens_ends_a_minute_after_its_job(
    engine: Engine, tmp_path: Path
) -> None:
    """The end of another job is its end, and SIGUSR2 puts its clock forward."""
    forward = preloaded(engine, tmp_path, _CLOCK)
    jobs = sections(
        w={"filename": "a:b", "openfiles": 1, "file_service_type": "sequential"},
        r={**READING, "filename": "r"},
    )

    def opens() -> int:
        return sum(call.file == "b" for call in server.calls(Nfs4.OPEN))

    def never(call: Call) -> Answer | None:
        """Keep the other job at its READs until this one asks for its second file."""
        waits = call.procedure is Nfs4.READ and not opens()
        refused = call.procedure is Nfs4.OPEN and call.file == "b"
        return Answer(status=Status4.DELAY) if waits or refused else None

    with ScriptedServer(never) as server:
        server.create("r", bytes(64 * KIB))
        folder, pool = tmp_path / "fio", server.pool4()
        with start_fio(forward, folder, pool, jobs, {"exitall": 1}) as process:
            server.wait_for(lambda: opens() > 0)
            eventually(lambda: len(family(process.pid)) == 1)
            asked = opens()
            # One may be under way, and the next due: the engine looks at its end before a third.
            server.wait_for(lambda: opens() > asked + 2)
            (job,) = family(process.pid)
            os.kill(job, signal.SIGUSR2)
            result = process.result(SECONDS)
    assert result.status not in (0, None)
    assert 'cannot create "b": Interrupted' in result.messages


# A kernel that answers nothing until all is cancelled, and then that it did half of each WRITE.
_HALF = r"""
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <time.h>

static int cancelled;

static void *real(const char *name)
{
    return dlsym(dlopen("liburing.so.2", RTLD_NOW), name);
}

int io_uring_submit(struct io_uring *ring)
{
    int (*submit)(struct io_uring *) = real("io_uring_submit");
    unsigned int last = (ring->sq.sqe_tail - 1) & *ring->sq.kring_mask;

    if (cancelled && io_uring_sq_ready(ring))
        fprintf(stderr, "submitted after all was given up\n");
    if (ring->sq.sqes[last].opcode == IORING_OP_ASYNC_CANCEL && !cancelled++)
        fprintf(stderr, "cancelled\n");
    return submit(ring);
}

int io_uring_wait_cqe_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                              struct __kernel_timespec *slice)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    return -ETIME;
}

unsigned int io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes,
                                     unsigned int count)
{
    unsigned int (*peek)(struct io_uring *, struct io_uring_cqe **, unsigned int) =
        real("io_uring_peek_batch_cqe");
    unsigned int ready = cancelled ? peek(ring, cqes, count) : 0;

    for (unsigned int i = 0; i < ready; i++)
        if (cqes[i]->user_data && cqes[i]->res > 1)
            cqes[i]->res /= 2;
    return ready;
}
"""


def test_what_a_mount_gave_up_does_not_go_on(engine: Engine, tmp_path: Path) -> None:
    """A WRITE that was half done when it was to be cancelled: its buffer is fio's again."""
    (tmp_path / "mount").mkdir()
    half = preloaded(engine, tmp_path, _HALF)
    with start_fio(half, tmp_path / "fio", str(tmp_path / "mount"), (), {}) as process:
        eventually((tmp_path / "mount" / "f").exists)
        process.signal(signal.SIGTERM)
        result = process.result(SECONDS)
    assert result.status not in (0, None)
    assert "cancelled" in result.messages
    assert "submitted after" not in result.messages


# --- what servers say ---

_NAMES = (Nfs.LOOKUP, Nfs.MKDIR, Nfs.CREATE, Nfs.REMOVE, Nfs.FSINFO)


@pytest.mark.sanitized
def test_names_are_asked_for_again(client: Client) -> None:
    """The server puts the first three calls of each kind off, and FSINFO of a file."""
    later = [on(procedure, Answer(status=Status.JUKEBOX), first=3) for procedure in _NAMES]
    with ScriptedServer(*later, on(Nfs.FSINFO, Answer(status=Status.JUKEBOX), nth=5)) as server:
        result = client(server, **READING, filename="d/f", unlink=1)
        done(result)
        assert said(result) == []
        assert not server.all_durable()
        assert {call.procedure for call in server.calls(*_NAMES) if call.nth > 3} == {*_NAMES}


@pytest.mark.sanitized
@pytest.mark.parametrize("procedure", [Nfs.LOOKUP, Nfs.FSINFO])
def test_names_that_are_put_off_for_ever(client: Client, procedure: Nfs) -> None:
    """That is told once, and a signal ends it. The export is asked about by FSINFO."""
    with ScriptedServer(on(procedure, Answer(status=Status.JUKEBOX))) as server:
        with client.start(server, **READING, soft=1, timeo=30, retrans=0) as process:
            _end_once_it_says("keeps asking to wait (NFS3ERR_JUKEBOX)")(server, process)
            result = client.finish(process)
        assert result.status not in (0, None)
        assert result.messages.count("keeps asking to wait") == 1
        first, *again = (call.time for call in server.calls(procedure))
        _ever_more_rarely(first, again, longest=5.0)


def _ever_more_rarely(since: float, times: Sequence[float], longest: float) -> None:
    """Expect that nothing came before waits that double from 0.1 s to `longest`, one after another.

    `since` is when the first wait began, or earlier. The sum holds however late a time was taken.
    """
    wait = 0.1
    for when in times:
        since += wait
        assert when >= since
        wait = min(2 * wait, longest)


def test_what_fails_while_a_file_is_laid_out(client: Client, server: ScriptedServer) -> None:
    server.hooks.append(on(Nfs.WRITE, Answer(status=Status.NOSPC), nth=3))
    result = client(server, **READING, bs="64k", size="4m")
    third = server.calls(Nfs.WRITE)[2]
    at = f'/export: laying out "f": WRITE at {third.offset}: No space left on device'
    (line,) = said(result)
    assert f"{at}: NFS3ERR_NOSPC: the file system is full" in line


# --- hostile servers: replies to others' calls ---


def test_data_that_answers_another_call_is_found_out(
    client: Client, server: ScriptedServer
) -> None:
    """A reply to a READ bears the number of another READ that is outstanding."""
    server.create("f", numbered(64 * KIB, 4 * KIB))
    first = list[int]()

    def exchange(call: Call) -> Answer | None:
        if call.procedure is not Nfs.READ:
            return None
        first.append(call.xid)
        return NEVER if call.nth == 1 else Answer(xid=first[0]) if call.nth == 2 else None

    server.hooks.append(exchange)
    verify: Options = {"verify": "pattern", "verify_pattern": "%o"}
    failed(client(server, rw="read", timeo=5, **verify), error=errno.EILSEQ)


def test_of_a_block_that_an_end_of_file_cuts_fio_asks_for_the_rest(
    client: Client, server: ScriptedServer
) -> None:
    """A block that is missing as a whole is an error: test_replies.py."""
    server.create("f", bytes(64 * KIB))
    server.hooks.append(on(Nfs.READ, Answer(limit=2 * KIB, eof=1), nth=5))
    assert done(client(server, rw="read", iodepth=1)).bytes("read") <= 64 * KIB
    covers_once(server.calls(Nfs.READ), 64 * KIB)


# --- failover: while a file is laid out ---


class _SilentFrom:
    """A hook: the second address answers none of its calls from the first of a kind on."""

    def __init__(self, *silent: Nfs):
        self.begun = False
        self._silent = silent

    def __call__(self, call: Call) -> Answer | None:
        """Leave a call unanswered, if it is one of those."""
        if call.server[0] != TWO_ADDRESSES[1] or call.procedure not in self._silent:
            return None
        self.begun = self.begun or call.procedure is self._silent[0]
        return Answer(act=False, reply=False) if self.begun else None


def _second_finds_nothing(call: Call) -> Answer | None:
    lost = call.procedure is Nfs.LOOKUP and call.server[0] == TWO_ADDRESSES[1]
    return Answer(status=Status.IO) if lost else None


_LAYING_OUT: Options = {"rw": "read", "bs": "64k", "failover": 1, "timeo": 20}
_SILENCES: Mapping[str, _SilentFrom] = {
    "silent at a WRITE": _SilentFrom(Nfs.WRITE, Nfs.COMMIT, Nfs.NULL),
    "silent at a COMMIT": _SilentFrom(Nfs.COMMIT, Nfs.NULL),
}

layouts = fixture_of_runs(
    {
        **{
            name: Case(hook, {**_LAYING_OUT, "size": "4m"}, addresses=TWO_ADDRESSES)
            for name, hook in _SILENCES.items()
        },
        "finds nothing": Case(
            _second_finds_nothing,
            {**_LAYING_OUT, "size": "256k", "filename": "x:y"},
            addresses=TWO_ADDRESSES,
        ),
    }
)


@pytest.mark.parametrize("name", _SILENCES)
def test_a_file_is_laid_out_by_the_paths_that_are_left(layouts: Outcomes, name: str) -> None:
    """One of two falls silent at a WRITE, or at the COMMIT of what it took."""
    server = layouts[name].server
    done(layouts[name].result)
    assert len(server.durable("f")) == 4 * MIB
    assert server.durable("f") == server.content("f")
    assert _SILENCES[name].begun


def test_files_are_laid_out_without_a_path_that_cannot_find_them(layouts: Outcomes) -> None:
    """What was found out of a path for one file is nothing that the next waits for."""
    server = layouts["finds nothing"].server
    done(layouts["finds nothing"].result)
    assert len(server.durable("x")) == len(server.durable("y")) == 128 * KIB
