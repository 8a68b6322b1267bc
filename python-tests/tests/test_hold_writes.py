# SPDX-License-Identifier: GPL-2.0-only
"""hold_writes=SIZE: what a server loses before it is durable is written again, by real fio.

Real servers that are killed are in the fault matrix.
"""

from __future__ import annotations

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
    Client,
    Options,
    go,
    replay,
    replay_files,
    undisturbed,
)

from servers.scripted import Answer, Call, Nfs, ScriptedServer, on

pytestmark = pytest.mark.sanitized

exported = fixture_of_places("nfs")

KIB, MIB = 1 << 10, 1 << 20
_FORGETS = Answer(do=ScriptedServer.new_verifier)
_HOLD: Options = {"hold_writes": "1m", "verify": "crc32c"}


# --- a full hold ---


# A COMMIT is sent again soon, and in the end given up, until the server wants to answer it. So is
# whatever else a server is late with: calls are counted by their numbers.
_INSISTENT: Options = {"soft": 1, "timeo": 5, "retrans": 20}


def _numbered(server: ScriptedServer, *procedures: Nfs) -> list[Call]:
    """Return the calls, each once however often it was sent, in the order of their arrival."""
    calls: dict[int, Call] = {}
    for call in server.calls(*procedures):
        calls.setdefault(call.xid, call)
    return list(calls.values())


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


def test_a_file_that_is_removed_owes_no_commit(client: Client, server: ScriptedServer) -> None:
    undisturbed(client(server, hold_writes="1m", unlink=1))
    assert server.calls(Nfs.COMMIT) == []


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
