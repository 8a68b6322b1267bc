# SPDX-License-Identifier: GPL-2.0-only
"""What is durable when, by real fio: stable_how, COMMIT of several files; stripes.

What a server loses, and what syncs wait for, is in test_scenarios.py.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_jobs import (
    BLOCKS,
    BOTH,
    KIB,
    Case,
    Client,
    Options,
    Outcomes,
    covers_once,
    failed,
    fixture_of_runs,
    replay_files,
    soundly,
    undisturbed,
)

from nfsmulti.processes import run
from servers.scripted import (
    Answer,
    Call,
    Nfs,
    ScriptedServer,
    Stable,
    on,
)

pytestmark = pytest.mark.sanitized


# --- durability ---


def test_a_loss_ends_the_job(client: Client, server: ScriptedServer) -> None:
    server.hooks.append(on(Nfs.COMMIT, Answer(do=ScriptedServer.new_verifier), nth=1))
    failed(client(server), f'{64 * KIB} bytes of "f" may be lost', error=errno.EIO)


_STABLE: dict[str, tuple[Options, Stable]] = {
    "by default": ({}, Stable.UNSTABLE),
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


def test_syncfs_commits_every_file_at_once(client: Client, server: ScriptedServer) -> None:
    """No COMMIT is answered before all are there; closing the files then owes nothing."""
    if "No such" in run(["fio", "--cmdhelp=end_syncfs"], timeout=60).stderr:
        pytest.skip("this fio has no end_syncfs: 3.42 is the first")
    server.hooks.append(on(Nfs.COMMIT, Answer(hold=3)))
    undisturbed(client(server, filename="a:b:c", size="192k", end_syncfs=1))
    commits = server.calls(Nfs.COMMIT)
    assert sorted(call.file for call in commits) == ["a", "b", "c"]
    answers = [call.answered for call in commits if call.answered is not None]
    assert max(call.time for call in commits) < min(answers)


def test_a_sync_waits_for_its_own_file_alone(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    """A write of b that ends is not the one of a that is awaited; c's is awaited by nobody."""

    def late(call: Call) -> Answer | None:
        if call.procedure is Nfs.WRITE and (call.file, call.offset) == ("a", 4 * KIB):
            return Answer(delay=0.2)
        return Answer(hold=2) if call.file == "c" or call.procedure is Nfs.COMMIT else None

    server.hooks.append(late)
    opened = [f"{name} open" for name in "abc"]
    writes = ["a write 0 4096", "a write 4096 4096", "b write 0 4096", "c write 0 4096"]
    log = replay_files(tmp_path, "abc", *opened, *writes, "a sync 0 0", "a close")
    undisturbed(client(server, iodepth=16, **log))
    first = server.calls(Nfs.COMMIT)[0]
    assert first.file == "a"
    for write in (write for write in server.calls(Nfs.WRITE) if write.file == "a"):
        assert write.answered is not None
        assert write.answered < first.time
    (of_c,) = (write for write in server.calls(Nfs.WRITE) if write.file == "c")
    assert of_c.answered is not None
    assert of_c.answered > first.time


# --- several paths ---

_ADDRESSES = tuple(f"127.0.0.{number}" for number in range(1, 5))


@pytest.fixture
def four() -> Iterator[ScriptedServer]:
    """Yield one server with four addresses."""
    with ScriptedServer(addresses=_ADDRESSES) as running:
        yield running


@pytest.mark.parametrize(("stripe", "block"), [(64 * KIB, 4 * KIB), (10007, 25011)])
def test_stripes_lie_where_they_must(
    client: Client, four: ScriptedServer, stripe: int, block: int
) -> None:
    size = 24 * block
    job: Options = {"stripe_size": stripe, "bs": block, "size": size, "verify": "crc32c"}
    undisturbed(client(four, spread="stripe", nconnect=2, **job))
    for call in four.calls(*BOTH):
        first = call.offset // stripe
        assert (call.offset + call.count - 1) // stripe == first
        assert call.server[0] == _ADDRESSES[first % 4]
    lie = {(call.offset // stripe % 8, call.connection) for call in four.calls(*BOTH)}
    assert len(lie) == len({connection for _, connection in lie}) == min(8, -(-size // stripe))
    covers_once(four.calls(Nfs.WRITE), size)
    covers_once(four.calls(Nfs.READ), size)


def test_verifiers_are_kept_per_path(client: Client, four: ScriptedServer) -> None:
    """The nodes of a cluster may have one each: nothing is lost while each keeps to its own."""

    def own_verifier(call: Call) -> Answer | None:
        if call.procedure not in (Nfs.WRITE, Nfs.COMMIT):
            return None
        return Answer(verifier=call.server[0].encode()[-8:])

    four.hooks.append(own_verifier)
    undisturbed(client(four, spread="roundrobin", fsync=4))
