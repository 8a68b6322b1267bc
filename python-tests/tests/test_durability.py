# SPDX-License-Identifier: GPL-2.0-only
"""What is durable when, by real fio: stable_how, which options bring a COMMIT, and hold_writes=.

What a server loses, and what syncs wait for, is in test_scenarios.py; real servers that are killed
are in the fault matrix.
"""

import signal
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import Place, done, eventually, job_of, psync, said, sections
from scripted_jobs import (
    BLOCKS,
    KIB,
    NEVER,
    Options,
    Outcome,
    Run,
    case,
    go,
    replay,
    replay_files,
    runs,
    undisturbed,
)

from nfsmulti.fiorun import FioProcess
from nfsmulti.processes import run
from servers.scripted import Answer, Call, Nfs, ScriptedServer, Stable, on

pytestmark = pytest.mark.sanitized

_FORGETS = Answer(do=ScriptedServer.new_verifier)
_WRITE = ["--rw=write", "--bs=64k", "--size=1m"]


@runs(
    {
        "by default": case(expected=Stable.UNSTABLE),
        "data_sync": case(stable="data_sync", expected=Stable.DATA_SYNC),
        "file_sync": case(stable="file_sync", expected=Stable.FILE_SYNC),
        "sync=1": case(sync=1, expected=Stable.FILE_SYNC),
        "sync=sync": case(sync="sync", stable="data_sync", expected=Stable.FILE_SYNC),
        "sync=dsync": case(sync="dsync", expected=Stable.DATA_SYNC),
        "sync=dsync, file_sync": case(sync="dsync", stable="file_sync", expected=Stable.FILE_SYNC),
    }
)
def test_how_writes_ask(ran: Outcome) -> None:
    stable = ran.case.expected
    undisturbed(ran.result)
    assert [call.stable for call in ran.calls(Nfs.WRITE)] == [stable] * BLOCKS
    assert len(ran.calls(Nfs.COMMIT)) == (stable == Stable.UNSTABLE)
    assert len(ran.server.durable("f")) == 64 * KIB


def test_syncfs_commits_every_file_at_once(job: Run) -> None:
    """Long before one is answered; closing the files then owes nothing."""
    if "No such" in run(["fio", "--cmdhelp=end_syncfs"], timeout=60).stderr:
        pytest.skip("this fio has no end_syncfs: 3.42 is the first")
    ran = job(on(Nfs.COMMIT, Answer(delay=0.3)), filename="a:b:c", size="192k", end_syncfs=1)
    undisturbed(ran.result)
    commits = ran.calls(Nfs.COMMIT)
    assert sorted(call.file for call in commits) == ["a", "b", "c"]
    answers = [call.answered for call in commits if call.answered is not None]
    assert max(call.time for call in commits) < min(answers)


def test_commits_of_a_job_at_depth_1(place: Place, tmp_path: Path) -> None:
    """16 writes: the syncs that fio asks for, and one COMMIT where the file is closed in debt."""
    expected: dict[str, tuple[Options, int]] = {
        "plain": ({}, 1),
        "fsync": ({"fsync": 4}, 4),
        "fdatasync": ({"fdatasync": 4}, 4),
        "end": ({"end_fsync": 1}, 1),
        "close": ({"fsync_on_close": 1}, 1),
        "range": ({"sync_file_range": "write:4"}, 4),
        "sync": ({"sync": 1}, 0),
        "dsync": ({"sync": "dsync"}, 0),
        "data_sync": ({"stable": "data_sync"}, 0),
        "file_sync": ({"stable": "file_sync"}, 0),
        "both": ({"stable": "file_sync", "fsync": 1, "end_fsync": 1}, 0),
        "reader": ({"rw": "read", "fsync": 1, "end_fsync": 1, "hold_writes": 1}, 0),
        # Mounts have no hold, which a single block would fill.
        "held": ({"hold_writes": "64k" if place.kind == "mount" else "64m"}, 1),
        "loops": ({"loops": 3}, 3),
        "unlinked": ({"unlink": 1}, 0),
        "over all paths": ({"unlink": 1, "spread": "roundrobin"}, 0),
    }
    jobs = sections(**{name: options for name, (options, _) in expected.items()})
    result = place.fio(arguments=[*_WRITE, *jobs])
    report = done(result)
    assert said(result) == []
    commits = {line.job: line.commits for line in result.stats}
    assert commits == {name: count for name, (_, count) in expected.items()}
    assert set(place.sizes().values()) == {1 << 20}
    jobs = sections(fsync={"fsync": 4}, end={"end_fsync": 1})
    of_psync, _ = psync(tmp_path / "psync", [*_WRITE, *jobs])
    for name in ("fsync", "end"):
        syncs = job_of(of_psync, name)["sync"]["total_ios"]
        assert job_of(report, name)["sync"]["total_ios"] == syncs


# --- hold_writes ---


def test_reads_pass_a_write_that_waits_for_room(job: Run, tmp_path: Path) -> None:
    """No COMMIT is answered before all of them are. Calls are told apart by their numbers."""
    reads = set[int]()

    def hook(call: Call) -> Answer | None:
        if call.procedure is Nfs.READ:
            reads.add(call.xid)
        return NEVER if call.procedure is Nfs.COMMIT and len(reads) < 8 else None

    writes = (f"write {number * 4096} 4096" for number in range(5))
    log = (*writes, *(f"read {32768 + number * 4096} 4096" for number in range(8)))
    insistent: Options = {"soft": 1, "timeo": 5, "retrans": 20}
    options = {"hold_writes": "16k", "iodepth": 16, **insistent, **replay(tmp_path, *log)}
    ran = job(hook, **options, files={"f": bytes(64 * KIB)})
    assert len(reads) == 8
    assert ran.server.durable("f") == ran.server.content("f")


def test_overlapping_writes_go_out_again_in_their_order(job: Run, tmp_path: Path) -> None:
    """A WRITE over another that is under way waits for its reply; those beside it do not.

    By two names of a file; with one the simulator finds it.
    """
    slow = on(Nfs.WRITE, Answer(delay=0.02), after=2 * BLOCKS)
    slowest = on(Nfs.WRITE, Answer(delay=0.5), nth=2 * BLOCKS + 1)
    names = ["f", "./f"]
    writes = (
        f"{names[number // 4 % 2]} write {number % 4 * 4096} 4096" for number in range(2 * BLOCKS)
    )
    lines = *(f"{name} open" for name in names), *writes, *(f"{name} close" for name in names)
    log = {**replay_files(tmp_path, names, *lines), "hold_writes": "1m", "iodepth": 8}
    ran = job(on(Nfs.COMMIT, _FORGETS, nth=1), slowest, slow, **log, files={"f": bytes(16 * KIB)})
    again = ran.calls(Nfs.WRITE)[2 * BLOCKS :]
    assert len(again) == 2 * BLOCKS
    for offset in range(0, 16 * KIB, 4 * KIB):
        for first, second in pairwise(call for call in again if call.offset == offset):
            assert first.answered is not None
            assert first.answered <= second.time
    assert again[0].answered is not None
    assert again[1].time < again[0].answered


def test_a_name_that_is_closed_leaves_what_was_written_last(job: Run, tmp_path: Path) -> None:
    """The file has another name, whose older WRITE is lost and written again."""
    newest: list[bytes] = []
    keep = Answer(do=lambda server: newest.append(server.content("f")))
    opens, writes = ("./f open", "f open"), ("f write 0 4096", "./f write 0 4096")
    lines = (*opens, *writes, "./f close", "f close")
    log = {**replay_files(tmp_path, ["f", "./f"], *lines), "hold_writes": "1m", "iodepth": 1}
    hooks = on(Nfs.COMMIT, keep, nth=1), on(Nfs.COMMIT, _FORGETS, nth=2)
    ran = job(*hooks, **log, files={"f": bytes(8 * KIB)})
    assert newest == [ran.server.durable("f")]


def test_a_file_that_is_closed_meanwhile_is_replayed_first(job: Run) -> None:
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

    mixed: Options = {"rw": "randrw", "size": "32k", "hold_writes": "1m"}
    durable = job(hook, **mixed, files={"f": bytes(32 * KIB)}).server.durable("f")
    assert seen
    assert all(any(durable[offset : offset + 4 * KIB]) for offset in seen)


def _mixed(server: ScriptedServer, folder: Path) -> str:
    """Return a pool of a server and a directory that have the same file."""
    folder.mkdir()
    (folder / "f").write_bytes(bytes(128 * KIB))
    server.create("f", bytes(128 * KIB))
    return f"{server.url()},{folder}"


_TURNS: Options = {
    "spread": "roundrobin", "iodepth": 1, "end_fsync": 1, "hold_writes": "1m",
}  # fmt: skip


def test_a_mount_beside_it_is_still_synced(
    client: FioRunner, server: ScriptedServer, tmp_path: Path
) -> None:
    """Its kernel has what went through it, whatever the server of the other path has lost."""
    server.hooks.append(on(Nfs.WRITE, _FORGETS, nth=8))
    result = client(pool=_mixed(server, tmp_path / "mount"), size="60k", **_TURNS)
    assert result.status == 0
    assert [line.commits > 0 for line in result.stats] == [True, True]


def test_nothing_goes_out_again_through_a_mount(
    client: FioRunner, server: ScriptedServer, tmp_path: Path
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
    options: Options = {**_TURNS, "failover": 1, "direct": 1, "rw": "randwrite"}
    assert client(pool=pool, **options).status == 0
    assert gone


def test_a_job_that_is_stopped_meanwhile_ends(job: Run) -> None:
    """hard: nothing of what is written again is answered."""

    def stop(server: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: len(server.calls(Nfs.WRITE)) > BLOCKS)
        process.signal(signal.SIGTERM)

    hooks = on(Nfs.COMMIT, _FORGETS, nth=1), on(Nfs.WRITE, NEVER, after=BLOCKS)
    ran = job(*hooks, hold_writes="1m", during=stop, error=None)
    assert ran.result.status not in (0, None)
    assert any('65536 bytes of "f" may be lost' in line for line in ran.said())
