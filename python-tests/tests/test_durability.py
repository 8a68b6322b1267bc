# SPDX-License-Identifier: GPL-2.0-only
"""What is durable when, by real fio: stable_how, COMMIT of several files.

What a server loses, and what syncs wait for, is in test_scenarios.py and test_scenarios_files.py.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from scripted_jobs import (
    BLOCKS,
    KIB,
    Case,
    Client,
    Options,
    Outcomes,
    failed,
    fixture_of_runs,
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


# --- several paths ---

_ADDRESSES = tuple(f"127.0.0.{number}" for number in range(1, 5))


@pytest.fixture
def four() -> Iterator[ScriptedServer]:
    """Yield one server with four addresses."""
    with ScriptedServer(addresses=_ADDRESSES) as running:
        yield running


def test_verifiers_are_kept_per_path(client: Client, four: ScriptedServer) -> None:
    """The nodes of a cluster may have one each: nothing is lost while each keeps to its own."""

    def own_verifier(call: Call) -> Answer | None:
        if call.procedure not in (Nfs.WRITE, Nfs.COMMIT):
            return None
        return Answer(verifier=call.server[0].encode()[-8:])

    four.hooks.append(own_verifier)
    undisturbed(client(four, spread="roundrobin", fsync=4))
