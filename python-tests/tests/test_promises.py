# SPDX-License-Identifier: GPL-2.0-only
"""What the engine promises of servers that fail, where it needs signals, runtimes or fio's files.

Calls sent again, failover and durability are scenarios: test_scenarios*.py.
"""

import errno
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import cpu_seconds, eventually, job_of, sections, stderr_of
from judge import lost_bytes
from scripted_jobs import (
    KIB,
    MIB,
    NEVER,
    READING,
    SECONDS,
    TWO_ADDRESSES,
    Options,
    Outcome,
    Run,
    case,
    failed,
    go,
    preloaded,
    runner,
    runs,
)
from slow_machine import Within

from nfsmulti.fiorun import Engine, FioProcess, FioResult, Option
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


# --- told when nothing has been sent yet, or nothing has come in full ---

_TRICKLES: Options = {"rw": "read", "iodepth": 1, "filename": "r", "timeo": 2}
_trickle = partial(case, on(Nfs.READ, Answer(chunk=100, pause=1.0)), **_TRICKLES)


def _told(_: ScriptedServer, process: FioProcess) -> None:
    """Tell a job to end as soon as it has said that it waits."""
    eventually(lambda: "server not responding, still trying" in stderr_of(process))
    process.signal(signal.SIGTERM)


def _reads_no_data(call: Call) -> Answer | None:
    """Answer what comes last before the data, FSINFO of the file, and read nothing more."""
    last = call.procedure is Nfs.FSINFO and call.file != ""
    return Answer(do=ScriptedServer.stop_reading) if last else None


@runs(
    {
        "the server does not read": case(
            _reads_no_data, bs="16m", wsize="16m", size="64m", iodepth=1, timeo=2,
            wtmax=16 * MIB, receive_buffer=64 * KIB, during=_told, error=None,
        ),
        "the reply trickles": _trickle(during=_told, error=None),
        "the reply trickles, soft": _trickle(soft=1, retrans=1, error=errno.ETIMEDOUT),
    }
)  # fmt: skip
def test_hard_tells_of_what_is_half_done_and_soft_fails(ran: Outcome) -> None:
    """The only call is still on its way out, or its answer has begun to come."""
    assert ran.result.status not in (0, None)
    assert ran.case.error or ran.result.messages.count("not responding") == 1


# --- hard: what ends a job all the same ---


def _fill(running: ScriptedServer) -> None:
    running.stall()
    running.reset_connections()


def _leave_one(running: ScriptedServer) -> None:
    running.refuse(TWO_ADDRESSES[1])
    running.reset_connections()


def _fall_silent(running: ScriptedServer) -> None:
    running.hooks.insert(0, on((*Nfs, *Nfs4), NEVER))


_SILENT = on((*DATA, Nfs.NULL), NEVER, after=4)
_GONE = on(DATA, Answer(reply=False, do=go), after=4)
_FULL = on(DATA, Answer(reply=False, do=_fill), after=4)
_HANGING: dict[str, tuple[Hook, Options]] = {
    "silent": (_SILENT, {}),
    "gone": (_GONE, {}),
    "full": (_FULL, {}),
    "does not read": (on(DATA, Answer(reply=False, do=ScriptedServer.stop_reading), after=4), {}),
    "always patience": (on(DATA, Answer(status=Status.JUKEBOX), after=4), {}),
    "always closes": (on(DATA, Answer(reply=False, end="close"), after=4), {}),
    # It has sessions to end over each of eight paths.
    "v4": (on(DATA4, Answer(reply=False, do=_fall_silent), after=4), {"nconnect": 1}),
    "silent, failover": (_SILENT, {"failover": 1}),
    "gone, failover": (_GONE, {"failover": 1}),
    "full, failover": (_FULL, {"failover": 1}),
    # Which waits within its read: it is not polled.
    "silent, one connection": (_SILENT, {"nconnect": 1, "timeo": 600}),
    "silent, thread": (_SILENT, {"thread": 1}),
    # The other host answers, and owes nothing once all I/O in flight is this one's.
    "one of two is gone": (
        on(DATA, Answer(reply=False, do=_leave_one), nth=5), {"rate_iops": 200, "timeo": 600},
    ),
}  # fmt: skip
_ADDRESSES = {"v4": 8, "one of two is gone": 2}
# A major timeout, which `retrans` sets, is no end to it; a runtime is.
_ENDLESS: Options = {
    "time_based": 1, "runtime": 60, "timeo": 5, "retrans": 1, "nconnect": 2, "spread": "roundrobin",
}  # fmt: skip


@contextmanager
def _hanging(
    client: FioRunner, name: str, **options: Option
) -> Iterator[tuple[FioProcess, Callable[[], bool]]]:
    """Start such a job; and what tells that it waits for a call that is not answered any more."""
    hook, own = _HANGING[name]
    addresses = [f"127.0.0.{number}" for number in range(1, 1 + _ADDRESSES.get(name, 1))]
    with ScriptedServer(hook, addresses=addresses) as server:
        pool = server.pool(version=4 if name == "v4" else 3)
        with client.start(pool=pool, **{**_ENDLESS, **own, **options}) as process:
            yield process, lambda: len(server.calls(*DATA, *DATA4)) > 4


def _gave_up(result: FioResult) -> None:
    """Expect that what was in flight is an error.

    What was written before counts, and may be lost: no COMMIT came.
    """
    failed(result, "that the server did not answer: the run is ending", error=errno.EINTR)
    assert result.report is not None
    written = result.report.bytes("write")
    assert sum(line.write_bytes for line in result.stats) == written
    assert lost_bytes(result.messages) == written
    in_flight = result.report.operations("write") - written // (4 * KIB)
    assert f"giving up {in_flight} calls" in result.messages


@pytest.mark.timing
@pytest.mark.parametrize("name", ["gone", "one of two is gone", "silent"])
def test_the_runtime_ends_a_hard_job_within_5_seconds(
    client: FioRunner, within: Within, name: str
) -> None:
    """A server that is there and answers nothing is given longer: until a signal."""
    with _hanging(client, name, runtime=1) as (process, hangs):
        eventually(hangs)
        assert process.wait(2.3) is None
        if name == "silent":
            process.signal(signal.SIGINT)
        with within(5.0):
            process.wait(SECONDS)
        _gave_up(client.finish(process))


def _signal_all(
    client: FioRunner, limit: AbstractContextManager[None], most: float, **options: Option
) -> None:
    """End them at once; until then, for a second, all together take so much of the processors."""
    with ExitStack() as stack:
        jobs = [stack.enter_context(_hanging(client, name, **options)) for name in _HANGING]
        for _, hangs in jobs:
            eventually(hangs)
        before = [cpu_seconds(process.pid) for process, _ in jobs]
        assert jobs[0][0].wait(1.0) is None
        spent = sum(cpu_seconds(process.pid) for process, _ in jobs) - sum(before)
        assert spent < most, "all share the processors: one that spins, or each, takes more"
        with limit:
            for number, (process, _) in zip(cycle((signal.SIGINT, signal.SIGTERM)), jobs):
                process.signal(number)
            for process, _ in jobs:
                process.wait(SECONDS)
        for process, _ in jobs:
            _gave_up(client.finish(process))


@pytest.mark.timing
def test_signals_end_hard_jobs_within_5_seconds(client: FioRunner, within: Within) -> None:
    """Their clock is slow: what a busy machine takes is less beside their timers."""
    slow = 3
    clock = {"NFSMULTI_TEST_CLOCK": f"1/{slow}"}
    _signal_all(client, within(5.0 * slow), 0.5, env=clock)


@pytest.mark.full
def test_signals_end_hard_jobs(client: FioRunner) -> None:
    """Also with AddressSanitizer, under which nothing is timed."""
    _signal_all(client, nullcontext(), math.inf)


def _stop_at(*procedures: Procedure) -> Callable[[ScriptedServer, FioProcess], None]:
    """Make what tells a job to end when the server has got such a call."""

    def during(server: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: len(server.calls(*procedures)) > 0)
        process.signal(signal.SIGTERM)

    return during


_SILENT_WRITE = on((Nfs.WRITE, Nfs4.WRITE), Answer(reply=False, do=_fall_silent))
_lays_out = partial(case, _SILENT_WRITE, during=_stop_at(Nfs.WRITE, Nfs4.WRITE), error=None)


@runs(
    {
        # Its runtime, which has not begun then, does not hide the signal, whatever the clock says.
        # It gives up 2 s after the signal: 8 s before MOUNT would give up by itself and say so.
        # It has its own file to set up, or else fio would ask before it opens.
        "opens": case(
            on(Mount.MNT, NEVER),
            runtime=1,
            exitall=1,
            create_serialize=0,
            during=_stop_at(Mount.MNT),
            error=None,
        ),
        # What is half laid out goes if the server answers soon: it does not.
        "lays its file out": _lays_out(exitall=1, **READING),
        "lays its file out, v4": _lays_out(version=4, exitall=1, **READING),
    }
)
def test_a_signal_ends_a_job_that_does_no_io(ran: Outcome) -> None:
    assert ran.result.status not in (0, None)
    assert "the server does not answer" not in ran.result.messages


def test_a_signal_ends_a_sync_that_is_not_answered(job: Run) -> None:
    """Nothing is in flight but the COMMIT, which may have lost all that was written."""
    silent = on(Nfs.COMMIT, Answer(reply=False, do=_fall_silent))
    result = job(silent, during=_stop_at(Nfs.COMMIT), error=None).result
    failed(result, "that the server did not answer: the run is ending", error=errno.EINTR)
    assert "giving up 1 calls" in result.messages
    assert result.report is not None
    assert lost_bytes(result.messages) == result.report.bytes("write") > 0


def test_a_job_that_is_forked_while_a_thread_sets_its_files_up(job: Run) -> None:
    """It does not wait for what that thread has, and nobody in its process will ever let go.

    It waits for a job that the server keeps until the thread lays its file out; and the thread is
    kept at that until the server is asked for the new job's file.
    """
    jobs = sections(
        thread={"filename": "t", "thread": 1},
        before={"filename": "r"},
        process={"filename": "p", "wait_for": "before"},
    )
    begun = set[str]()

    def keep(call: Call) -> Answer | None:
        begun.add("WRITE" if call.procedure is Nfs.WRITE else call.file)
        waits = call.procedure is Nfs.WRITE and "p" not in begun
        waits = waits or (call.procedure is Nfs.READ and "WRITE" not in begun)
        return Answer(status=Status.JUKEBOX) if waits else None

    job(keep, arguments=jobs, **READING, create_serialize=0)


# The clock of these jobs is six times as fast: what is late by a second is 6 s late for them.
_QUICK = {"NFSMULTI_TEST_CLOCK": "6"}
_LATE_COMMIT = on(Nfs.COMMIT, Answer(delay=1.0), nth=1)
_RUNTIME: Options = {"runtime": 6, "time_based": 1, "rate_iops": 50}
_FOR_LONG: Options = {"runtime": 300, "time_based": 1, "thinktime": 20000}
_late = partial(case, _LATE_COMMIT, quiet=True, env=_QUICK)


@runs(
    {
        "COMMIT": _late(**_RUNTIME),
        # With a full hold, WRITEs that have not begun wait behind that COMMIT.
        "hold, failover": _late(**_RUNTIME, hold_writes="64k", failover=1),
        "its own files": _late(**{**_FOR_LONG, "runtime": 6}, create_serialize=0),
        "exitall": _late(
            arguments=sections(w={"filename": "f"}, r={**READING, "filename": "r", "runtime": 1}),
            **_FOR_LONG,
            exitall=1,
        ),
        # A second, in which it has to begin.
        "steadystate": _late(**_FOR_LONG, steadystate="iops:90%", steadystate_duration=6),
        "READ": case(
            on(Nfs.READ, Answer(delay=1.0), nth=9), **{**_RUNTIME, **READING}, iodepth=1,
            quiet=True, env=_QUICK,
        ),
        # 13 s lie between two of them by the job's clock, and 66 s from the first to the last.
        "READs": case(
            *(on(Nfs.READ, Answer(delay=1.1 * n), nth=8 + n) for n in range(1, 7)),
            **{**READING, "runtime": 6, "time_based": 1}, iodepth=6, timeo=6000, quiet=True,
            env={"NFSMULTI_TEST_CLOCK": "12"},
        ),
        "CREATE": case(
            on(Nfs.CREATE, Answer(delay=1.0), nth=3), runtime=6, metadata=1, bs=1, size=8,
            iodepth=1, quiet=True, env=_QUICK,
        ),
    }
)  # fmt: skip
def test_a_jobs_end_waits_for_a_server_that_is_slow(ran: Outcome) -> None:
    """It takes longer than one that is gone would be given."""
    if "metadata" not in ran.case.options:
        assert ran.server.durable("f") == ran.server.content("f")


def test_a_jobs_error_ends_others_as_their_runtime_does(job: Run) -> None:
    """That job alone has failed, and no other is said to have lost anything."""
    jobs = sections(w={"filename": "f"}, r={**READING, "filename": "r"})
    fail = on(Nfs.READ, Answer(status=Status.IO))
    then_fail = on(Nfs.WRITE, Answer(do=lambda server: server.hooks.append(fail)), nth=9)
    ran = job(
        _LATE_COMMIT,
        then_fail,
        arguments=jobs,
        **_FOR_LONG,
        exitall_on_error=1,
        env=_QUICK,
        error=None,
    )
    assert ran.result.status == 1
    report = ran.result.report
    assert report is not None
    assert {job["jobname"]: job["error"] for job in report.jobs} == {"w": 0, "r": errno.EIO}
    (line,) = ran.said()
    assert "NFS3ERR_IO" in line
    moved = sum(call.moved for call in ran.calls(Nfs.WRITE))
    assert job_of(report, "w")["write"]["io_bytes"] == moved
    assert ran.server.durable("f") == ran.server.content("f")


def test_a_file_that_the_server_never_opens_ends_a_minute_after_its_job(job: Run) -> None:
    """The end of another job is its end. The clock is 12 times as fast."""
    jobs = sections(
        w={"filename": "a:b", "openfiles": 1, "file_service_type": "sequential"},
        r={**READING, "filename": "r"},
    )
    asked = list[Call]()

    def never(call: Call) -> Answer | None:
        """Keep the other job at its READs until this one asks for its second file."""
        refused = call.procedure is Nfs4.OPEN and call.file == "b"
        asked.extend([call] * refused)
        waits = call.procedure is Nfs4.READ and not asked
        return Answer(status=Status4.DELAY) if waits or refused else None

    quick = {"NFSMULTI_TEST_CLOCK": "12"}
    ran = job(never, version=4, arguments=jobs, exitall=1, env=quick, error=None)
    assert ran.result.status not in (0, None)
    assert 'cannot create "b": Interrupted' in ran.result.messages


_URING = r"""
#include <liburing.h>

#define URING(name) ((__typeof__(&name))dlsym(dlopen("liburing.so.2", RTLD_NOW), #name))
"""

# A kernel that answers nothing until all is cancelled, and then that it did half of each WRITE.
_HALF = r"""
static int cancelled;

int io_uring_submit(struct io_uring *ring)
{
    unsigned int last = (ring->sq.sqe_tail - 1) & *ring->sq.kring_mask;

    if (cancelled && io_uring_sq_ready(ring))
        fprintf(stderr, "submitted after all was given up\n");
    if (ring->sq.sqes[last].opcode == IORING_OP_ASYNC_CANCEL && !cancelled++)
        fprintf(stderr, "cancelled\n");
    return URING(io_uring_submit)(ring);
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
    unsigned int ready = cancelled ? URING(io_uring_peek_batch_cqe)(ring, cqes, count) : 0;

    for (unsigned int i = 0; i < ready; i++)
        if (cqes[i]->user_data && cqes[i]->res > 1)
            cqes[i]->res /= 2;
    return ready;
}
"""


def test_what_a_mount_gave_up_does_not_go_on(engine: Engine, tmp_path: Path) -> None:
    """A WRITE that was half done when it was to be cancelled: its buffer is fio's again."""
    (tmp_path / "mount").mkdir()
    half = runner(preloaded(engine, tmp_path, _URING + _HALF), tmp_path)
    with half.start(pool=str(tmp_path / "mount")) as process:
        eventually((tmp_path / "mount" / "f").exists)
        process.signal(signal.SIGTERM)
        result = half.finish(process)
    assert result.status not in (0, None)
    assert "cancelled" in result.messages
    assert "submitted after" not in result.messages


_TAKES_AGAIN = r"""
unsigned int io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes,
                                     unsigned int count)
{
    static const int results[] = {-EAGAIN, -EINTR};
    static unsigned int told;
    unsigned int ready = URING(io_uring_peek_batch_cqe)(ring, cqes, count);

    for (unsigned int i = 0; i < ready; i++)
        if (cqes[i]->user_data && told++ % 3 < 2)
            cqes[i]->res = results[told % 2];
    return ready;
}
"""


def test_what_a_kernel_puts_off_is_asked_again(engine: Engine, tmp_path: Path) -> None:
    """By EAGAIN or EINTR, for I/Os and syncs alike; each counts once."""
    (tmp_path / "mount").mkdir()
    again = runner(preloaded(engine, tmp_path, _URING + _TAKES_AGAIN), tmp_path)
    result = again.well(pool=str(tmp_path / "mount"), fsync=4, verify="crc32c")
    (line,) = result.stats
    assert (line.write_ops, line.read_ops, line.commits, line.errors) == (16, 16, 3, 0)


# --- while a file is laid out ---


def test_what_fails_while_a_file_is_laid_out(job: Run) -> None:
    full = on(Nfs.WRITE, Answer(status=Status.NOSPC), nth=3)
    ran = job(full, **READING, bs="64k", size="4m", error=None)
    third = ran.calls(Nfs.WRITE)[2]
    assert {call.connection for call in ran.calls(Nfs.WRITE)} == {third.connection}
    at = f'/export: laying out "f": WRITE at {third.offset}: No space left on device'
    (line,) = ran.said()
    assert f"{at}: NFS3ERR_NOSPC: the file system is full" in line


@pytest.mark.parametrize("address", TWO_ADDRESSES)
def test_what_is_lost_while_a_file_is_laid_out(job: Run, address: str) -> None:
    """A COMMIT over one of two paths, whichever it is, shows another write verifier."""

    def restarted(call: Call) -> Answer | None:
        commits = call.procedure is Nfs.COMMIT and call.server[0] == address
        return Answer(verifier=b"restarts") if commits else None

    lost = 'laying out "f": the server lost data that was not committed'
    two = {"addresses": TWO_ADDRESSES, "files": {}}
    ran = job(restarted, **READING, bs="64k", size="4m", **two, refused=lost)
    assert not ran.server.all_durable(), "the file is not taken back"


# --- failover: while a file is laid out ---


def _silent_from(*silent: Nfs) -> Hook:
    """Make a hook: the second address answers none of its calls from the first of a kind on."""
    begun = list[Call]()

    def hook(call: Call) -> Answer | None:
        if call.server[0] != TWO_ADDRESSES[1] or call.procedure not in silent:
            return None
        if call.procedure is silent[0]:
            begun.append(call)
        return Answer(act=False, reply=False) if begun else None

    return hook


def _second_finds_nothing(call: Call) -> Answer | None:
    lost = call.procedure is Nfs.LOOKUP and call.server[0] == TWO_ADDRESSES[1]
    return Answer(status=Status.IO) if lost else None


_lays_out_by_two = partial(
    case, addresses=TWO_ADDRESSES, rw="read", bs="64k", size="4m", failover=1, timeo=20
)


@runs(
    {
        "silent at a WRITE": _lays_out_by_two(
            _silent_from(Nfs.WRITE, Nfs.COMMIT, Nfs.NULL), expected=Nfs.WRITE
        ),
        "silent at a COMMIT": _lays_out_by_two(
            _silent_from(Nfs.COMMIT, Nfs.NULL), expected=Nfs.COMMIT
        ),
        # What was found out of a path for one file is nothing that the next waits for.
        "finds nothing": _lays_out_by_two(
            _second_finds_nothing, filename="x:y", expected=Nfs.LOOKUP
        ),
    }
)
def test_files_are_laid_out_by_the_paths_that_are_left(ran: Outcome) -> None:
    """One of two falls silent at a WRITE, or at the COMMIT of what it took, or finds no file."""
    names = str(ran.case.options.get("filename", "f")).split(":")
    assert sum(len(ran.server.durable(name)) for name in names) == 4 * MIB
    assert all(ran.server.durable(name) == ran.server.content(name) for name in names)
    assert any(call.server[0] == TWO_ADDRESSES[1] for call in ran.calls(ran.case.expected))
