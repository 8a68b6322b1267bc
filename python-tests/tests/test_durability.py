# SPDX-License-Identifier: GPL-2.0-only
"""What is durable when: stable_how, COMMIT, write verifiers, and what a server loses; stripes."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from engine_helpers import said
from scripted_jobs import (
    BLOCKS,
    BOTH,
    KIB,
    READING,
    Case,
    Client,
    Options,
    Outcomes,
    covers_once,
    failed,
    fixture_of_runs,
    go,
    replay_files,
    soundly,
    undisturbed,
    verifiers_at_random,
)

from nfsmulti.processes import run
from servers.scripted import (
    Answer,
    Call,
    Hook,
    Nfs,
    ScriptedServer,
    Stable,
    Status,
    on,
)

pytestmark = pytest.mark.sanitized


# --- durability ---

_FORGETS = Answer(do=ScriptedServer.new_verifier)


@dataclass(frozen=True)
class Loss:
    """When a server forgets, and how many bytes the job must then report as lost."""

    hook: Hook
    options: Options
    bytes: int
    error: int = errno.EIO


_RESTARTS = on(Nfs.COMMIT, Answer(do=ScriptedServer.restart), nth=1)
_LOSSES = {
    "between WRITE and COMMIT": Loss(on(Nfs.COMMIT, _FORGETS, nth=1), {}, 64 * KIB),
    "between WRITEs": Loss(on(Nfs.WRITE, _FORGETS, nth=11), {"iodepth": 1}, 40 * KIB),
    "between fsyncs": Loss(on(Nfs.WRITE, _FORGETS, nth=12), {"iodepth": 1, "fsync": 8}, 12 * KIB),
    "before the second fdatasync": Loss(
        on(Nfs.COMMIT, _FORGETS, nth=2), {"iodepth": 1, "fdatasync": 6}, 24 * KIB
    ),
    "with the connection": Loss(_RESTARTS, {"iodepth": 1, "fsync": 16}, 64 * KIB),
    "with each reply": Loss(verifiers_at_random, {"iodepth": 1}, 64 * KIB),
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
    server.hooks.append(on(Nfs.WRITE, Answer(do=go), nth=11))
    result = client(server, iodepth=1, soft=1, timeo=30, retrans=0)
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
    words = "the server made it less durable than stable= asks for"
    failed(client(server, sync=1), words, error=errno.EIO)


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


def test_syncs_of_the_same_writes_share_a_commit(client: Client, server: ScriptedServer) -> None:
    """While one is unanswered fio queues another, as far as iodepth goes."""
    undisturbed(client(server, fsync=8, size="256k"))
    assert len(server.calls(Nfs.WRITE)) == 64
    commits = [(call.offset, call.count) for call in server.calls(Nfs.COMMIT)]
    assert commits == [(0, 0)] * 8
    assert server.durable("f") == server.content("f")


def test_a_sync_waits_for_the_writes_before_it(client: Client, server: ScriptedServer) -> None:
    """Half of the writes are answered at once, so that there is something to commit early."""
    server.hooks.append(on(Nfs.WRITE, Answer(delay=0.2), every=2))
    undisturbed(client(server, fsync=12))
    commit = server.calls(Nfs.COMMIT)[0]
    for write in server.calls(Nfs.WRITE)[:12]:
        assert write.answered is not None
        assert write.answered < commit.time


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


def test_only_paths_that_wrote_are_committed(client: Client, four: ScriptedServer) -> None:
    undisturbed(client(four, spread="stripe", stripe_size="32k", end_fsync=1))
    commits = Counter(call.server[0] for call in four.calls(Nfs.COMMIT))
    assert commits == {"127.0.0.1": 1, "127.0.0.2": 1}
    assert four.durable("f") == four.content("f")


def test_verifiers_are_kept_per_path(client: Client, four: ScriptedServer) -> None:
    """The nodes of a cluster may have one each: nothing is lost while each keeps to its own."""

    def own_verifier(call: Call) -> Answer | None:
        if call.procedure not in (Nfs.WRITE, Nfs.COMMIT):
            return None
        return Answer(verifier=call.server[0].encode()[-8:])

    four.hooks.append(own_verifier)
    undisturbed(client(four, spread="roundrobin", fsync=4))


def test_a_loss_names_its_path(client: Client, four: ScriptedServer) -> None:
    def forget(call: Call) -> Answer | None:
        lost = call.procedure is Nfs.COMMIT and call.server[0] == "127.0.0.3"
        return Answer(verifier=b"another!") if lost else None

    four.hooks.append(forget)
    result = client(four, spread="roundrobin")
    lost = f'127.0.0.3:{four.nfs_port}:/export: 16384 bytes of "f" may be lost'
    failed(result, lost, error=errno.EIO)
    assert result.messages.count("may be lost") == 1
