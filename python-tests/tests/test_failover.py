# SPDX-License-Identifier: GPL-2.0-only
"""failover=1 over TCP: paths that fall silent, are gone, or come back, in scripted servers."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import FioRunner, started_lab
from engine_helpers import done, said
from scripted_jobs import (
    KIB,
    MIB,
    TWO_ADDRESSES,
    Case,
    Client,
    Options,
    Outcomes,
    covers_once,
    first_of,
    fixture_of_runs,
)

from nfsmulti.fiorun import Engine, Fio, FioResult
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.processes import run as run_command
from servers.scripted import (
    DATA,
    Answer,
    Call,
    Hook,
    Nfs,
    Nfs4,
    ScriptedServer,
    Status,
    Status4,
    on,
)

pytestmark = pytest.mark.sanitized

_FIRST, _SECOND = TWO_ADDRESSES
PROG_UNAVAIL = struct.pack(">4I", 0, 0, 0, 1)  # accepted, AUTH_NONE: RFC 5531, 9

# Of 2 MiB: 64 KiB blocks, half of them by each path. A path is dead after 4 s of silence, which no
# path has by chance, however busy the machine.
_JOB: Options = {
    "failover": 1, "spread": "stripe", "bs": "64k", "size": "2m", "iodepth": 8,
    "verify": "crc32c", "timeo": 40,
}  # fmt: skip


class Silence:
    """A hook: an address takes calls, and answers none of them from the nth on until told.

    With `one` those of one connection alone, the first to write: known by its port, which those
    that replace it have, too.
    """

    def __init__(self, address: str, after: int, *, one: bool = False):
        self.on = True
        self.connection: int | None = None  # the one that it fell silent on
        self._address, self._left = address, after
        self._one, self._port = one, 0

    def __call__(self, call: Call) -> Answer | None:
        """Leave a call unanswered, if it is one of those."""
        if call.server[0] != self._address or call.procedure not in (*DATA, Nfs.NULL):
            return None
        if call.procedure is Nfs.WRITE and not self._port:
            self._port = call.client[1]
        if self._one and call.client[1] != self._port:
            return None
        self._left -= 1
        if not self.on or self._left >= 0:
            return None
        if self.connection is None:
            self.connection = call.connection
        return Answer(act=False, reply=False)


def _returning(after: int) -> Hook:
    """Make a hook: the second address is silent until it is asked on a new connection.

    Meanwhile the first is slow, or all would be done before the next tick asks.
    """
    silence = Silence(_SECOND, after)

    def relent(call: Call) -> Answer | None:
        first = silence.connection
        if first is None or not silence.on:
            return None
        if call.procedure is Nfs.NULL and call.connection > first:
            silence.on = False
        slow = call.procedure in DATA and call.server[0] == _FIRST
        return Answer(delay=0.2) if slow else None

    return first_of(relent, silence)


def _both_for_a_while(after: int) -> Hook:
    """Make a hook: both addresses fall silent, for 6 s from the first WRITE."""
    silences = [Silence(address, after) for address in TWO_ADDRESSES]

    def relent() -> None:
        for silence in silences:
            silence.on = False

    def begin(call: Call) -> Answer | None:
        wait = call.procedure is Nfs.WRITE and call.nth == 1
        return Answer(do=lambda server: server.later(6.0, relent)) if wait else None

    return first_of(begin, *silences)


def _without_nfs(after: int) -> Hook:
    """Make a hook: the second address is silent, and then says that it does not offer NFS."""
    silence = Silence(_SECOND, after)

    def deny(call: Call) -> Answer | None:
        first = silence.connection
        again = first is not None and call.server[0] == _SECOND and call.connection > first
        return Answer(rpc=PROG_UNAVAIL) if again else None

    return first_of(deny, silence)


def _slow(call: Call) -> Answer | None:
    """Take longer for one call than a silent path has."""
    slow = call.procedure is Nfs.WRITE and call.offset == 1 << 16
    return Answer(delay=6.0) if slow else None


_FORGETS = on(Nfs.COMMIT, Answer(do=ScriptedServer.new_verifier), nth=1)
_UNVERIFIED: Options = {"verify": None, "end_fsync": 1}
_TWO_EACH: Options = {**_UNVERIFIED, "nconnect": 2, "spread": "roundrobin", "iodepth": 1}
_CASES: Mapping[str, tuple[Hook, Options]] = {
    "silent": (Silence(_SECOND, after=5), {}),
    "never back": (Silence(_SECOND, after=5), {"rate_iops": 12}),
    "back, without NFS": (_without_nfs(5), {"rate_iops": 12}),
    "back, roundrobin": (_returning(5), {"spread": "roundrobin", "rate_iops": 12}),
    "back, queue": (_returning(5), {"spread": "queue", "rate_iops": 12}),
    "back, stripe": (_returning(5), {"rate_iops": 12}),
    "slow": (_slow, {"timeo": 50}),
    "soft": (Silence(_SECOND, after=5), {"soft": 1, "retrans": 0}),
    "committed by another": (Silence(_SECOND, after=16), _UNVERIFIED),
    "one of two, at a WRITE": (Silence(_SECOND, after=5, one=True), _TWO_EACH),
    "one of two, at a COMMIT": (Silence(_SECOND, after=8, one=True), _TWO_EACH),
    "lost": (first_of(_FORGETS, Silence(_SECOND, after=16)), _UNVERIFIED),
    "all silent, soft": (
        first_of(*(Silence(address, after=5) for address in TWO_ADDRESSES)),
        {"soft": 1, "retrans": 0, "timeo": 10, "verify": None},
    ),
    "all silent, hard": (_both_for_a_while(5), {}),
}

runs = fixture_of_runs(
    {
        name: Case(hook, {**_JOB, **options}, addresses=TWO_ADDRESSES)
        for name, (hook, options) in _CASES.items()
    }
)


def _by_path(result: FioResult) -> dict[str, int]:
    return {line.path.partition(":")[0]: line.reissues for line in result.stats}


def _came_through(runs: Outcomes, name: str) -> ScriptedServer:
    """Expect that all is written and durable."""
    server = runs[name].server
    done(runs[name].result)
    assert len(server.durable("f")) == 2 * MIB
    assert server.durable("f") == server.content("f")
    return server


def test_a_path_that_falls_silent(runs: Outcomes) -> None:
    server, result = _came_through(runs, "silent"), runs["silent"].result
    assert _by_path(result)[_FIRST] > 0
    assert _by_path(result)[_SECOND] == 0
    assert any(f"{_SECOND}:" in line and "does not answer" in line for line in said(result))
    answered = [call for call in server.calls(Nfs.WRITE) if call.answered is not None]
    covers_once(answered, 2 * MIB)


@pytest.mark.parametrize("spread", ["roundrobin", "queue", "stripe"])
def test_a_path_that_comes_back_is_used_again(runs: Outcomes, spread: str) -> None:
    """And both is told; for a path of several connections: test_promises.py."""
    server = _came_through(runs, f"back, {spread}")
    stops, resumes = said(runs[f"back, {spread}"].result)
    assert f"{_SECOND}:" in stops
    assert "does not answer" in stops
    assert f"{_SECOND}:" in resumes
    assert "answers again" in resumes
    probes = [call for call in server.calls(Nfs.NULL) if call.server[0] == _SECOND]
    later = [call for call in server.calls(*DATA) if call.time > probes[-1].time]
    assert Counter(call.server[0] for call in later)[_SECOND] > 0


def test_long_calls_are_no_silence(runs: Outcomes) -> None:
    """A server that takes its time for one call, and answers others, is asked and left alone."""
    _came_through(runs, "slow")
    assert "does not answer" not in "".join(said(runs["slow"].result))
    assert _by_path(runs["slow"].result) == {_FIRST: 0, _SECOND: 0}


@pytest.mark.parametrize("name", ["back, without NFS", "never back"])
def test_a_path_that_shows_no_life_is_not_taken_back(runs: Outcomes, name: str) -> None:
    """It can be connected to, but NULL is answered with an error, or not at all."""
    server = _came_through(runs, name)
    assert any(call.server[0] == _SECOND for call in server.calls(Nfs.NULL))
    lines = said(runs[name].result)
    assert sum("go to other paths" in line for line in lines) == 1
    assert not any("answers again" in line for line in lines)


def test_soft_fails_nothing_while_another_path_lives(runs: Outcomes) -> None:
    """Even where it gives up as soon as a path is known to be dead."""
    _came_through(runs, "soft")


def test_what_a_dead_path_wrote_is_committed_by_another(runs: Outcomes) -> None:
    """Its WRITEs are answered, and nothing after them: their COMMIT goes where it can."""
    server = _came_through(runs, "committed by another")
    commits = [call for call in server.calls(Nfs.COMMIT) if call.answered is not None]
    assert {call.server[0] for call in commits} == {_FIRST}
    assert len(commits) == 2


@pytest.mark.parametrize("procedure", ["WRITE", "COMMIT"])
def test_a_path_commits_over_what_it_has_left(runs: Outcomes, procedure: str) -> None:
    """One of its two connections is dead, both of the other path's live: its COMMIT stays with it.

    I/Os take the four connections in turn, one at a time: the fourth WRITE is the living one's.
    """
    server = _came_through(runs, f"one of two, at a {procedure}")
    unanswered = [call for call in server.calls(*DATA) if call.answered is None]
    commits = [call for call in server.calls(Nfs.COMMIT) if call.answered is not None]
    (living,) = (call.client for call in server.calls(Nfs.WRITE) if call.offset == 3 * 64 * KIB)
    assert {call.procedure for call in unanswered} == {Nfs[procedure]}
    assert sorted((call.server[0], call.offset, call.count) for call in commits) == [
        (_FIRST, 0, 0),
        (_SECOND, 0, 0),
    ]
    assert [call.client for call in commits if call.server[0] == _SECOND] == [living]


def test_what_was_lost_behind_a_dead_path_is_reported(runs: Outcomes) -> None:
    result = runs["lost"].result
    assert result.status == 1
    lost = [line for line in said(result) if "may be lost" in line]
    assert {line.split()[2].partition(":")[0] for line in lost} == {*TWO_ADDRESSES}


def test_the_last_path_gives_up_as_soft_says(runs: Outcomes) -> None:
    result = runs["all silent, soft"].result
    assert result.status == 1
    assert "Connection timed out" in result.messages


def test_the_last_path_waits_as_hard_says(runs: Outcomes) -> None:
    _came_through(runs, "all silent, hard")


def test_a_path_that_is_dead_from_the_start(client: Client, paths: ScriptedServer) -> None:
    """The first one, which is asked first for names; another is in the fault matrix."""
    paths.refuse(_FIRST)
    result = client(paths, **_JOB)
    done(result)
    assert {call.server[0] for call in paths.calls(Nfs.WRITE)} == {_SECOND}
    assert any(f"{_FIRST}:" in line and "cannot reach port" in line for line in said(result))


@pytest.mark.parametrize("version", [3, 4])
def test_a_call_that_was_asked_to_wait_leaves_a_dead_path(
    client: Client, paths: ScriptedServer, version: int
) -> None:
    """Its fifth wait takes 1.6 s: it is within that when the path has been gone for 1 s."""
    status, waits, asked = Status.JUKEBOX if version == 3 else Status4.DELAY, 5, list[Call]()

    def wait_and_die(call: Call) -> Answer | None:
        if call.procedure not in (Nfs.WRITE, Nfs4.WRITE) or call.server[0] != _SECOND:
            return None
        if asked and call.offset != asked[0].offset:
            return None
        asked.append(call)
        if len(asked) < waits:
            return Answer(status=status)
        return Answer(status=status, do=lambda server: server.refuse(_SECOND), end="close")

    paths.hooks.append(wait_and_die)
    done(client(paths, pool=paths.pool_of(version), **_JOB))
    copies = [c for c in paths.calls(Nfs.WRITE, Nfs4.WRITE) if c.offset == asked[0].offset]
    assert [call.server[0] for call in copies] == [_SECOND] * waits + [_FIRST]
    assert len(paths.durable("f")) == 2 * MIB
    assert paths.durable("f") == paths.content("f")


@pytest.mark.full
def test_a_probe_waits_for_the_data_before_it(
    engine: Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A slow link is no silence: a path that takes data is asked again when it has taken it."""
    with started_lab(LabConfig(addresses=2, limits=Limits(link="4mbit"))) as lab:
        # Deep queues before a slow link would make TCP send twice what is only late.
        shallow = "echo 4096 32768 65536 >/proc/sys/net/ipv4/tcp_wmem"
        run_command(lab.command(["sh", "-c", shallow]), timeout=60).check()
        fio = Fio(engine, enter=lab.command([]), env=lab.environment)
        run = FioRunner(fio, lab.pool, tmp_path, request.node)
        job = {**_JOB, "bs": "1m", "size": "6m", "iodepth": 6, "verify": None}
        # Each path's replies come every 4 s or so.
        result = run(rw="write", filename="slow", **{**job, "timeo": 24})
    done(result)
    assert "does not answer" not in "".join(said(result))
