# SPDX-License-Identifier: GPL-2.0-only
"""hold_writes=SIZE: what a server loses before it is durable is written again, by real fio.

Real servers that are killed are in the fault matrix.
"""

from __future__ import annotations

import errno
import os
import signal
from itertools import chain, pairwise
from pathlib import Path

import pytest
from engine_helpers import (
    Place,
    done,
    eventually,
    fixture_of_places,
    refused,
    said,
)
from scripted_jobs import (
    BLOCKS,
    NEVER,
    TWO_ADDRESSES,
    Case,
    Client,
    Options,
    Outcomes,
    failed,
    first_of,
    fixture_of_runs,
    go,
    last_of,
    replay,
    replay_files,
    undisturbed,
    verifiers_at_random,
)

from nfsmulti.fiorun import FioResult
from servers.scripted import Answer, Call, Hook, Nfs, ScriptedServer, Stable, Status, on

pytestmark = pytest.mark.sanitized

exported = fixture_of_places("nfs")

KIB, MIB = 1 << 10, 1 << 20
_FORGETS = Answer(do=ScriptedServer.new_verifier)
_HOLD: Options = {"hold_writes": "1m", "verify": "crc32c"}


def _rewritten(result: FioResult) -> int:
    return sum(line.rewritten_bytes for line in result.stats)


def _restarts(times: int) -> Hook:
    """Restart at each COMMIT, which is then sent again and answered; so many times."""

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs.COMMIT and call.nth in range(1, 2 * times, 2):
            return Answer(do=ScriptedServer.restart)
        return None

    return hook


# --- what is lost once ---


# What the server does, and how many bytes are then written again.
_REPAIRS: dict[str, tuple[Hook, int]] = {
    "between WRITE and COMMIT": (on(Nfs.COMMIT, _FORGETS, nth=1), 64 * KIB),
    "with the connection": (_restarts(1), 64 * KIB),
    "three times": (on(Nfs.COMMIT, _FORGETS, first=3), 192 * KIB),
    "five times, with the connection": (_restarts(5), 5 * 64 * KIB),
}

repairs = fixture_of_runs(
    {name: Case(hook, {**_HOLD, "end_fsync": 1}) for name, (hook, _) in _REPAIRS.items()}
)


@pytest.mark.parametrize("name", _REPAIRS)
def test_what_a_server_lost_is_written_again(repairs: Outcomes, name: str) -> None:
    running, result = repairs[name].server, repairs[name].result
    done(result)
    assert running.durable("f") == running.content("f")
    assert len(running.durable("f")) == 64 * KIB
    assert _rewritten(result) == _REPAIRS[name][1]
    (line,) = (line for line in said(result) if "write verifier changed" in line)
    assert f"127.0.0.1:{running.nfs_port}:/export: the server lost" in line
    assert any("all of it is durable now" in line for line in said(result))


def test_nothing_else_is_written_before_it_is_replayed(
    client: Client, server: ScriptedServer
) -> None:
    """The restart is found out at the ninth WRITE; seven more are queued behind the repair."""
    server.hooks.append(on(Nfs.WRITE, _FORGETS, nth=9))
    done(client(server, **{**_HOLD, "iodepth": 1}))
    offsets = [call.offset // (4 * KIB) for call in server.calls(Nfs.WRITE)]
    assert offsets == [*range(9), *range(9), *range(9, BLOCKS)]
    order = [call.procedure for call in server.calls(Nfs.WRITE, Nfs.COMMIT)]
    assert order.index(Nfs.COMMIT) == 18


def test_every_file_is_replayed(client: Client, server: ScriptedServer) -> None:
    """The first COMMIT finds out for all files what their writes have lost."""
    server.hooks.append(on(Nfs.COMMIT, _FORGETS, nth=1))
    done(client(server, **_HOLD, filename="a:b:c", size="192k"))
    for name in "abc":
        assert len(server.durable(name)) == 64 * KIB
        assert server.durable(name) == server.content(name)


# --- what is lost each time ---

# What the server does, and how many bytes are written again in each of how many rounds.
_STUBBORN: dict[str, tuple[Hook, Options, int, int]] = {
    "a new verifier on every COMMIT": (on(Nfs.COMMIT, _FORGETS), {}, 64 * KIB, 3),
    "a new verifier in every reply": (verifiers_at_random, {"iodepth": 1}, 8 * KIB, 3),
    "a full hold each time": (on(Nfs.COMMIT, _FORGETS), {"hold_writes": "32k"}, 32 * KIB, 3),
    "a restart each time": (_restarts(99), {"end_fsync": 1}, 64 * KIB, 16),
}

stubborn = fixture_of_runs(
    {name: Case(hook, {**_HOLD, **options}) for name, (hook, options, *_) in _STUBBORN.items()}
)


@pytest.mark.parametrize("name", _STUBBORN)
def test_a_server_that_forgets_each_time_is_given_up(stubborn: Outcomes, name: str) -> None:
    running, result = stubborn[name].server, stubborn[name].result
    failed(result, error=errno.EIO)
    _, _, again, rounds = _STUBBORN[name]
    assert _rewritten(result) == rounds * again
    lines = said(result)
    given_up = [line for line in lines if f"changed each of {rounds} times" in line]
    assert len(given_up) == 1
    (lost,) = (line for line in lines if "may be lost" in line)
    assert f'127.0.0.1:{running.nfs_port}:/export: {again} bytes of "f"' in lost


# --- what cannot be written again ---

_SOON: Options = {"soft": 1, "timeo": 30, "retrans": 0}
# The procedure that fails from then on, how, and the errno to be told.
_HOPELESS: dict[str, tuple[Nfs, Answer, Options, int]] = {
    "WRITE no space": (Nfs.WRITE, Answer(status=Status.NOSPC), {}, errno.ENOSPC),
    "COMMIT stale": (Nfs.COMMIT, Answer(status=Status.STALE), {}, errno.ESTALE),
    "WRITE no answer": (Nfs.WRITE, NEVER, _SOON, errno.ETIMEDOUT),
    "COMMIT no answer": (Nfs.COMMIT, NEVER, _SOON, errno.ETIMEDOUT),
}

hopeless = fixture_of_runs(
    {
        name: Case(
            first_of(
                on(Nfs.COMMIT, _FORGETS, nth=1),
                on(procedure, answer, after=BLOCKS if procedure is Nfs.WRITE else 1),
            ),
            {**_HOLD, "verify": None, **options},
        )
        for name, (procedure, answer, options, _) in _HOPELESS.items()
    }
)


@pytest.mark.parametrize("name", _HOPELESS)
def test_what_cannot_be_replayed_is_reported(hopeless: Outcomes, name: str) -> None:
    result, (*_, error) = hopeless[name].result, _HOPELESS[name]
    assert result.status == 1, result.messages
    lines = said(result)
    assert any(f"writing again failed: {os.strerror(error)}" in line for line in lines)
    assert sum('65536 bytes of "f" may be lost' in line for line in lines) == 1


def test_nothing_is_written_after_that(client: Client, server: ScriptedServer) -> None:
    """A job that goes on at errors has its writes refused."""
    server.hooks.append(on(Nfs.COMMIT, _FORGETS))
    result = client(server, hold_writes="16k", continue_on_error="write", iodepth=1)
    assert result.status == 1
    assert max(call.offset for call in server.calls(Nfs.WRITE)) < 16 * KIB


# --- a full hold ---


def test_a_full_hold_waits_for_a_commit(client: Client, server: ScriptedServer) -> None:
    """There is never more uncommitted data than it has room for."""
    uncommitted = set[int]()

    def measure(call: Call) -> Answer | None:
        if call.procedure is Nfs.WRITE:
            uncommitted.add(call.offset)
            assert len(uncommitted) * 4 <= 23
        elif call.procedure is Nfs.COMMIT:
            uncommitted.clear()
        return None

    server.hooks.append(measure)
    undisturbed(client(server, hold_writes="23k", iodepth=4, verify="crc32c"))
    assert len(server.calls(Nfs.WRITE)) == BLOCKS
    assert len(server.calls(Nfs.COMMIT)) <= BLOCKS + 1


# A COMMIT is sent again soon, and in the end given up, until the server wants to answer it. So is
# whatever else a server is late with: calls are counted by their numbers.
_INSISTENT: Options = {"soft": 1, "timeo": 5, "retrans": 20}


def _numbered(server: ScriptedServer, *procedures: Nfs) -> list[Call]:
    """Return the calls, each once however often it was sent, in the order of their arrival."""
    calls: dict[int, Call] = {}
    for call in server.calls(*procedures):
        calls.setdefault(call.xid, call)
    return list(calls.values())


def test_commit_begins_at_half_of_the_hold(client: Client, server: ScriptedServer) -> None:
    """The writer goes on: the first COMMIT is answered when the other half is written."""

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs.COMMIT and len(_numbered(server, Nfs.WRITE)) < BLOCKS // 2:
            return NEVER
        return None

    server.hooks.append(hook)
    done(client(server, hold_writes="32k", iodepth=1, **_INSISTENT))
    calls = _numbered(server, Nfs.WRITE, Nfs.COMMIT)
    letters = "".join(call.procedure.name[0] for call in calls)
    assert letters.startswith("WWWWC"), letters
    assert server.durable("f") == server.content("f")


def test_a_commit_that_makes_room_and_fails_is_reported(
    client: Client, server: ScriptedServer
) -> None:
    server.hooks.append(on(Nfs.COMMIT, Answer(status=Status.STALE)))
    result = client(server, hold_writes="32k", iodepth=1)
    words = f"writing again failed: {os.strerror(errno.ESTALE)}"
    failed(result, words, 'bytes of "f" may be lost', error=errno.ESTALE)
    assert len(server.calls(Nfs.WRITE)) < BLOCKS


def test_reads_pass_a_write_that_waits_for_room(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    """No COMMIT is answered before all of them are."""
    reads = 8

    def hook(call: Call) -> Answer | None:
        waits = len(_numbered(server, Nfs.READ)) < reads
        return NEVER if call.procedure is Nfs.COMMIT and waits else None

    server.create("f", bytes(64 * KIB))
    server.hooks.append(hook)
    writes = (f"write {number * 4096} 4096" for number in range(5))
    log = (*writes, *(f"read {32768 + number * 4096} 4096" for number in range(reads)))
    done(client(server, hold_writes="16k", iodepth=16, **_INSISTENT, **replay(tmp_path, *log)))
    assert len(_numbered(server, Nfs.READ)) == reads
    assert server.durable("f") == server.content("f")


# --- what is written twice ---


@pytest.mark.parametrize("names", [("f", "f"), ("f", "./f")], ids=["one name", "two names"])
def test_overlapping_writes_go_out_again_in_their_order(
    client: Client, server: ScriptedServer, tmp_path: Path, names: tuple[str, str]
) -> None:
    """A WRITE over another that is under way waits for its reply; those beside it do not."""
    slow, slowest = Answer(delay=0.02), Answer(delay=0.5)

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs.COMMIT and call.nth == 1:
            return _FORGETS
        if call.procedure is not Nfs.WRITE or call.nth <= 2 * BLOCKS:
            return None
        return slowest if call.nth == 2 * BLOCKS + 1 else slow

    server.hooks.append(hook)
    server.create("f", bytes(16 * KIB))
    used = sorted(set(names))
    writes = (
        f"{names[number // 4 % 2]} write {number % 4 * 4096} 4096" for number in range(2 * BLOCKS)
    )
    lines = [f"{name} open" for name in used], writes, [f"{name} close" for name in used]
    log = replay_files(tmp_path, used, *chain(*lines))
    done(client(server, hold_writes="1m", iodepth=8, **log))
    again = server.calls(Nfs.WRITE)[2 * BLOCKS :]
    assert len(again) == 2 * BLOCKS
    for offset in range(0, 16 * KIB, 4 * KIB):
        for first, second in pairwise(call for call in again if call.offset == offset):
            assert first.answered is not None
            assert first.answered <= second.time
    assert again[0].answered is not None
    assert again[1].time < again[0].answered


def test_a_name_that_is_closed_leaves_what_was_written_last(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    """The file has another name, whose older WRITE is lost and written again."""
    newest: list[bytes] = []

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs.COMMIT and call.nth == 1:
            newest.append(server.content("f"))
        return _FORGETS if call.procedure is Nfs.COMMIT and call.nth == 2 else None

    server.hooks.append(hook)
    server.create("f", bytes(8 * KIB))
    opens, writes = ("./f open", "f open"), ("f write 0 4096", "./f write 0 4096")
    lines = (*opens, *writes, "./f close", "f close")
    log = replay_files(tmp_path, ["f", "./f"], *lines)
    done(client(server, hold_writes="1m", iodepth=1, **log))
    assert newest == [server.durable("f")]


# --- several paths ---


def test_paths_with_verifiers_of_their_own(client: Client, paths: ScriptedServer) -> None:
    """One node of a cluster restarts: all that is held goes out again, each over its path.

    The first of the other node's writes are durable by then, and nothing older is held.
    """
    lives = dict.fromkeys(TWO_ADDRESSES, 0)

    def verifier(call: Call) -> Answer | None:
        if call.procedure not in (Nfs.WRITE, Nfs.COMMIT):
            return None
        if call.procedure is Nfs.COMMIT and call.server[0] == TWO_ADDRESSES[1]:
            lives[TWO_ADDRESSES[1]] = 1
        life = lives[call.server[0]]
        return Answer(verifier=call.server[0].encode()[-7:] + bytes([life]))

    paths.hooks.append(verifier)
    result = client(paths, **_HOLD, spread="roundrobin")
    done(result)
    assert [line.rewritten_bytes for line in result.stats] == [28 * KIB, 32 * KIB]
    assert len(paths.calls(Nfs.COMMIT)) == 4


def test_a_survivor_writes_again_what_a_dead_path_wrote(
    client: Client, paths: ScriptedServer
) -> None:
    """failover=1, and the server behind the paths has lost everything meanwhile."""

    def die(running: ScriptedServer) -> None:
        running.refuse(TWO_ADDRESSES[1])
        running.restart()

    paths.hooks.append(on(Nfs.COMMIT, Answer(do=die), nth=1))
    result = client(paths, **_HOLD, spread="roundrobin", failover=1, timeo=5)
    done(result)
    assert paths.durable("f") == paths.content("f")
    assert len(paths.durable("f")) == 64 * KIB
    assert result.stats[0].rewritten_bytes + result.stats[1].rewritten_bytes >= 64 * KIB


def test_a_file_that_is_closed_meanwhile_is_replayed_first(
    client: Client, server: ScriptedServer
) -> None:
    """The job's last I/O is a READ, which is answered while its WRITEs go out again."""
    seen: set[int] = set()

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs.READ:
            return Answer(delay=0.6)
        if call.procedure is not Nfs.WRITE:
            return None
        if call.offset in seen:
            return Answer(delay=1.5)
        seen.add(call.offset)
        return _FORGETS if len(seen) == 2 else None

    server.create("f", bytes(32 * KIB))
    server.hooks.append(hook)
    done(client(server, rw="randrw", bs="4k", size="32k", iodepth=8, hold_writes="1m"))
    assert seen
    server.new_verifier()
    durable = server.durable("f")
    assert all(any(durable[offset : offset + 4 * KIB]) for offset in seen)


def _mixed(server: ScriptedServer, folder: Path) -> str:
    """Return a pool of a server and a directory that have the same file."""
    folder.mkdir()
    (folder / "f").write_bytes(bytes(128 * KIB))
    server.create("f", bytes(128 * KIB))
    return f"{server.url()},{folder}"


def test_a_mount_beside_it_is_still_synced(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    """Its kernel has what went through it, whatever the server of the other path has lost."""
    server.hooks.append(on(Nfs.WRITE, _FORGETS, nth=8))
    pool = _mixed(server, tmp_path / "mount")
    options: Options = {"spread": "roundrobin", "iodepth": 1, "end_fsync": 1, "trace": 1}
    result = client(server, pool=pool, size="60k", hold_writes="1m", **options)
    done(result)
    commits = [line.path for line in result.stats if line.commits]
    assert commits == [line.path for line in result.stats]


def test_nothing_goes_out_again_through_a_mount(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    """The server goes while data is written again, and comes back: no mount stands in for it."""
    seen: set[int] = set()
    gone: list[ScriptedServer] = []

    def leave(running: ScriptedServer) -> None:
        go(running)
        gone.append(running)
        running.later(2.0, running.accept)

    def hook(call: Call) -> Answer | None:
        if call.procedure is not Nfs.WRITE:
            return None
        if call.offset in seen and not gone:
            return Answer(reply=False, do=leave)
        seen.add(call.offset)
        return _FORGETS if len(seen) == 7 else None

    server.hooks.append(hook)
    pool = _mixed(server, tmp_path / "mount")
    options: Options = {"spread": "roundrobin", "iodepth": 1, "end_fsync": 1, "failover": 1}
    done(client(server, pool=pool, rw="randwrite", hold_writes="1m", direct=1, **options))
    assert gone


def test_a_job_that_is_stopped_meanwhile_ends(client: Client, server: ScriptedServer) -> None:
    """hard: nothing of what is written again is answered."""
    hook = on(Nfs.WRITE, NEVER, after=BLOCKS)
    server.hooks.extend([on(Nfs.COMMIT, _FORGETS, nth=1), hook])
    with client.start(server, **{**_HOLD, "verify": None}) as process:
        eventually(lambda: len(server.calls(Nfs.WRITE)) > BLOCKS)
        process.signal(signal.SIGTERM)
        result = client.finish(process)
    assert result.status not in (0, None)
    assert any('65536 bytes of "f" may be lost' in line for line in said(result))


# --- without losses ---


def test_it_changes_nothing_for_a_server_that_stays(client: Client, server: ScriptedServer) -> None:
    for times, hold in enumerate((None, "1m"), start=1):
        undisturbed(client(server, hold_writes=hold, fsync=5, iodepth=1))
        letters = "".join(call.procedure.name[0] for call in server.calls(Nfs.WRITE, Nfs.COMMIT))
        assert letters == "WWWWWCWWWWWCWWWWWCWC" * times


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"hold_writes": "4k", "sync": 1}, Answer()),
        ({"hold_writes": "4k", "stable": "data_sync"}, Answer()),
        ({"hold_writes": "8k", "verify": "crc32c"}, Answer(committed=Stable.FILE_SYNC)),
        ({"hold_writes": "1m", "unlink": 1}, Answer()),
    ],
    ids=["sync", "data_sync", "durable at once", "unlinked"],
)
def test_what_owes_no_commit_is_not_held(
    client: Client, server: ScriptedServer, options: Options, answer: Answer
) -> None:
    server.hooks.append(on(Nfs.WRITE, answer))
    undisturbed(client(server, **options))
    assert server.calls(Nfs.COMMIT) == []


def test_reconnecting_loses_nothing_of_it(client: Client, server: ScriptedServer) -> None:
    server.hooks.append(last_of(8, Answer(reply=False, end="reset")))
    result = client(server, **_HOLD)
    done(result)
    assert _rewritten(result) == 0


# --- its value ---


def test_a_hold_that_no_block_fits_in_is_refused(client: Client, server: ScriptedServer) -> None:
    line = refused(client(server, hold_writes=4095), "a write of this job has up to 4096 bytes")
    assert "hold_writes=4095: " in line
    assert server.calls(Nfs.WRITE) == []


def test_a_hold_that_no_memory_is_left_for_is_refused(
    client: Client, server: ScriptedServer
) -> None:
    assert client(server, hold_writes="all").status not in (0, None)  # no size at all
    assert server.calls() == []
    for value in ("1p", "-1"):
        refused(client(server, hold_writes=value), "not enough memory for it")


def test_readers_and_mounts_ignore_it(place: Place) -> None:
    place.random("f", 64 * KIB)
    undisturbed(place.fio(rw="read", bs="4k", filename="f", hold_writes="1"))
    if place.kind == "mount":
        undisturbed(place.fio(rw="write", bs="4k", size="64k", filename="g", hold_writes="4k"))


place = fixture_of_places("nfs", "mount")
