# SPDX-License-Identifier: GPL-2.0-only
"""failover=1 over TCP: paths that fall silent, are gone, or come back, in scripted servers."""

from __future__ import annotations

from collections import Counter

import pytest
from engine_helpers import done, said
from scripted_jobs import Client, covers_once

from nfsmulti.fiorun import FioResult, Option
from nfsmulti.scripted import DATA, Answer, Call, Nfs, ScriptedServer, Status

pytestmark = pytest.mark.sanitized

KIB, MIB = 1 << 10, 1 << 20
_FIRST, _SECOND = _ADDRESSES = ("127.0.0.1", "127.0.0.2")

# Of 2 MiB: 64 KiB blocks, half of them by each path.
_JOB: dict[str, Option] = {
    "failover": 1,
    "spread": "stripe",
    "bs": "64k",
    "size": "2m",
    "iodepth": 8,
    "verify": "crc32c",
    "timeo": 5,
}


class Silence:
    """A hook: an address takes calls, and answers none of them from the nth on until told."""

    def __init__(self, address: str, after: int):
        self.on = True
        self.connection: int | None = None  # the one that it fell silent on
        self._address, self._left = address, after

    def __call__(self, call: Call) -> Answer | None:
        """Leave a call unanswered, if it is one of those."""
        if call.server[0] != self._address or call.procedure not in (*DATA, Nfs.NULL):
            return None
        self._left -= 1
        if not self.on or self._left >= 0:
            return None
        if self.connection is None:
            self.connection = call.connection
        return Answer(act=False, reply=False)


def _by_path(result: FioResult) -> dict[str, int]:
    return {line.path.partition(":")[0]: line.reissues for line in result.stats}


def test_a_path_that_falls_silent(client: Client, paths: ScriptedServer) -> None:
    paths.hooks.append(Silence(_SECOND, after=5))
    result = client(paths, **_JOB)
    done(result)
    assert paths.durable("f") == paths.content("f")
    assert _by_path(result)[_FIRST] > 0
    assert _by_path(result)[_SECOND] == 0
    assert any(f"{_SECOND}:" in line and "does not answer" in line for line in said(result))
    answered = [call for call in paths.calls(Nfs.WRITE) if call.answered is not None]
    covers_once(answered, 2 * MIB)


def test_a_path_that_is_gone(client: Client, paths: ScriptedServer) -> None:
    def cut(server: ScriptedServer) -> None:
        server.refuse(_SECOND)
        server.reset_connections()

    def hook(call: Call) -> Answer | None:
        return Answer(do=cut) if call.procedure is Nfs.WRITE and call.nth == 10 else None

    paths.hooks.append(hook)
    result = client(paths, **_JOB)
    done(result)
    assert paths.durable("f") == paths.content("f")
    assert _by_path(result)[_FIRST] > 0


@pytest.mark.parametrize("spread", ["roundrobin", "queue", "stripe"])
def test_a_path_that_comes_back_is_used_again(
    client: Client,
    paths: ScriptedServer,
    spread: str,
) -> None:
    silence = Silence(_SECOND, after=5)

    def relent(call: Call) -> Answer | None:
        first = silence.connection
        if first is not None and call.procedure is Nfs.NULL and call.connection > first:
            silence.on = False
        return None

    paths.hooks.extend([relent, silence])
    options: dict[str, Option] = {**_JOB, "spread": spread, "rate_iops": 16}
    result = client(paths, **options)
    done(result)
    assert any(f"{_SECOND}:" in line and "answers again" in line for line in said(result))
    assert any(f"{_SECOND}:" in line and "does not answer" in line for line in said(result))
    probes = [call for call in paths.calls(Nfs.NULL) if call.server[0] == _SECOND]
    later = [call for call in paths.calls(*DATA) if call.time > probes[-1].time]
    assert Counter(call.server[0] for call in later)[_SECOND] > 0


def test_long_calls_are_no_silence(client: Client, paths: ScriptedServer) -> None:
    """A server that takes its time for one call, and answers others, is asked and left alone."""
    slow = Answer(delay=2.0)

    def hook(call: Call) -> Answer | None:
        return slow if call.procedure is Nfs.WRITE and call.offset == 64 * KIB else None

    paths.hooks.append(hook)
    result = client(paths, **_JOB)
    done(result)
    assert not said(result) or "does not answer" not in "".join(said(result))
    assert _by_path(result) == {_FIRST: 0, _SECOND: 0}


def test_a_silent_path_is_not_taken_back(client: Client, paths: ScriptedServer) -> None:
    """It can be connected to, but the probe is not answered either."""
    paths.hooks.append(Silence(_SECOND, after=5))
    result = client(paths, **{**_JOB, "rate_iops": 24})
    done(result)
    assert not any("answers again" in line for line in said(result))
    assert [call for call in paths.calls(Nfs.NULL) if call.server[0] == _SECOND]


def test_a_job_that_keeps_to_its_path_leaves_it(client: Client, paths: ScriptedServer) -> None:
    paths.hooks.append(Silence(_FIRST, after=5))
    result = client(paths, **{**_JOB, "spread": "job"})
    done(result)
    assert _by_path(result) == {_FIRST: 0, _SECOND: _by_path(result)[_SECOND]}
    assert _by_path(result)[_SECOND] > 0


@pytest.mark.parametrize("address", _ADDRESSES)
def test_a_path_that_is_dead_from_the_start(
    client: Client,
    paths: ScriptedServer,
    address: str,
) -> None:
    paths.refuse(address)
    result = client(paths, **_JOB)
    done(result)
    assert {call.server[0] for call in paths.calls(Nfs.WRITE)} == {*_ADDRESSES} - {address}
    assert any(f"{address}:" in line and "cannot reach port" in line for line in said(result))


def test_a_path_that_cannot_find_the_file(client: Client, paths: ScriptedServer) -> None:
    def hook(call: Call) -> Answer | None:
        stale = call.procedure is Nfs.LOOKUP and call.server[0] == _SECOND
        return Answer(status=Status.IO) if stale else None

    paths.hooks.append(hook)
    done(client(paths, **_JOB))
    assert {call.server[0] for call in paths.calls(Nfs.WRITE)} == {_FIRST}
    assert paths.durable("f") == paths.content("f")


def test_soft_fails_nothing_while_another_path_lives(
    client: Client,
    paths: ScriptedServer,
) -> None:
    """Even where it gives up sooner than a path is known to be dead."""
    paths.hooks.append(Silence(_SECOND, after=5))
    done(client(paths, **{**_JOB, "soft": 1, "retrans": 0, "timeo": 1}))
    assert paths.durable("f") == paths.content("f")


def test_without_failover_such_a_path_ends_the_job(client: Client, paths: ScriptedServer) -> None:
    paths.refuse(_SECOND)
    assert client(paths, **{**_JOB, "failover": 0}).status == 1


def test_what_a_dead_path_wrote_is_committed_by_another(
    client: Client,
    paths: ScriptedServer,
) -> None:
    """Its WRITEs are answered, and nothing after them: their COMMIT goes where it can."""
    paths.hooks.append(Silence(_SECOND, after=16))
    result = client(paths, **{**_JOB, "verify": None, "end_fsync": 1})
    done(result)
    assert paths.durable("f") == paths.content("f")
    commits = [call for call in paths.calls(Nfs.COMMIT) if call.answered is not None]
    assert {call.server[0] for call in commits} == {_FIRST}
    assert len(commits) == 2


def test_what_was_lost_behind_a_dead_path_is_reported(
    client: Client,
    paths: ScriptedServer,
) -> None:
    def restart(call: Call) -> Answer | None:
        first_commit = call.procedure is Nfs.COMMIT and call.nth == 1
        return Answer(do=ScriptedServer.new_verifier) if first_commit else None

    paths.hooks.extend([restart, Silence(_SECOND, after=16)])
    result = client(paths, **{**_JOB, "verify": None, "end_fsync": 1})
    assert result.status == 1
    lost = [line for line in said(result) if "may be lost" in line]
    assert {line.split()[2].partition(":")[0] for line in lost} == {*_ADDRESSES}


def test_the_last_path_gives_up_as_soft_says(client: Client, paths: ScriptedServer) -> None:
    paths.hooks.extend(Silence(address, after=5) for address in _ADDRESSES)
    result = client(paths, **{**_JOB, "soft": 1, "retrans": 1, "verify": None})
    assert result.status == 1
    assert "Connection timed out" in result.messages


def test_the_last_path_waits_as_hard_says(client: Client, paths: ScriptedServer) -> None:
    silences = [Silence(address, after=5) for address in _ADDRESSES]

    def relent(_: ScriptedServer) -> None:
        for silence in silences:
            silence.on = False

    def begin(call: Call) -> Answer | None:
        wait = call.procedure is Nfs.WRITE and call.nth == 1
        return Answer(do=lambda server: server.later(3.0, lambda: relent(server))) if wait else None

    paths.hooks.extend([begin, *silences])
    done(client(paths, **_JOB))
    assert paths.durable("f") == paths.content("f")
