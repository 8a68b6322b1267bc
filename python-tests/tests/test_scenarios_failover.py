# SPDX-License-Identifier: GPL-2.0-only
"""failover=1: paths that fall silent, are gone, or come back."""

from collections import Counter

import pytest
from simulated import (
    BLOCK,
    BLOCKS,
    FORGETS,
    SECOND,
    UNHEARD,
    Act,
    CData,
    End,
    Fate,
    Hook,
    Ran,
    Scenarios,
    on,
)

from servers.scripted import Nfs, Nfs4, Status, Status4

pytestmark = pytest.mark.sanitized

_W, _C, _NULL = Nfs.WRITE, Nfs.COMMIT, Nfs.NULL
_FIRST, _SECOND = range(2)  # addresses
_SPREADS = {"roundrobin": 1, "queue": 2, "stripe": 3}  # enum spread_policy
# A path is dead after 4 s of silence.
_PATHS: dict[str, object] = {"paths": 2, "failover": True, "timeo": 40}


def _silent(
    address: int, after: int, *, one: bool = False, until: float = 3600.0, probes: int = 99
) -> Hook:
    """Make a hook: an address answers no calls behind so many, for a time; nor its first probes.

    With `one` those of one connection alone, the first to write.
    """
    seen, asked, connections = 0, 0, list[int]()

    def hook(call: CData) -> Fate | None:
        nonlocal seen, asked
        if call.address != address or call.time > until * SECOND or asked > probes:
            return None
        if call.procedure == _W.value:
            connections.append(call.connection)
        if one and call.procedure != _NULL.value and call.connection != connections[0]:
            return None
        seen += 1
        asked += seen > after and call.procedure == _NULL.value
        return UNHEARD if seen > after and asked <= probes else None

    return hook


def _commits(ran: Ran) -> list[CData]:
    return [call for call in ran.calls(_C) if call.answered]


def test_a_path_that_falls_silent(scenario: Scenarios) -> None:
    """Its calls go over the other one, within timeo and the time to look at it."""
    ran = scenario(_silent(_SECOND, 5), **_PATHS)
    answered = [call for call in ran.calls(_W) if call.answered]
    assert ran.said("path 1: does not answer") == len(ran.lines) == 1
    assert 2 <= max(call.answered for call in answered) / SECOND <= 6
    assert sorted(call.offset // BLOCK for call in answered) == list(range(BLOCKS))


def test_a_path_that_refuses_connections(scenario: Scenarios) -> None:
    """It is down for a second, whatever is tried meanwhile, and then looked at."""
    gone: Fate = {**UNHEARD, "act": Act.REFUSE_ADDRESS, "end": End.RESET}
    ran = scenario(on(_W, gone, address=_SECOND), **_PATHS)
    assert 1 < max(call.answered for call in ran.calls(_W)) / SECOND < 1.5


@pytest.mark.parametrize("spread", _SPREADS)
def test_a_path_that_comes_back_is_used_again(scenario: Scenarios, spread: str) -> None:
    """It answers its second probe; meanwhile the first is slow, or all would be done."""
    slow = on(_W, {"delay": SECOND}, address=_FIRST)
    ran = scenario(_silent(_SECOND, 3, probes=1), slow, **_PATHS, depth=2, spread=_SPREADS[spread])
    assert ran.said("path 1: does not answer") == ran.said("path 1: answers again") == 1
    probe = ran.calls(_NULL)[-1]
    later = Counter(call.address for call in ran.calls(_W) if call.time > probe.time)
    assert later[_SECOND] > 0


def test_a_path_of_several_connections_is_told_of_once(scenario: Scenarios) -> None:
    """Four, which take calls and answer none, also when they are new; for 12 s."""
    slow = on(_W, {"delay": 8 * SECOND}, address=_FIRST)
    ran = scenario(_silent(_SECOND, 4, until=12), slow, **_PATHS, nconnect=4)
    assert len({call.connection for call in ran.calls(_NULL) if call.address == _SECOND}) >= 4
    assert ran.said("path 1: does not answer") == ran.said("path 1: answers again") == 1
    assert len(ran.lines) == 2


def test_a_long_call_is_no_silence(scenario: Scenarios) -> None:
    """A server that takes its time for one call, and answers others, is asked and left alone."""

    def hook(call: CData) -> Fate | None:
        late = call.procedure == _W.value and call.offset == 3 * BLOCK
        return {"delay": 6 * SECOND} if late else None

    ran = scenario(hook, **{**_PATHS, "timeo": 50})
    assert ran.lines == []
    assert len({call.address for call in ran.calls(_W) if call.offset == 3 * BLOCK}) == 1


def test_a_probe_waits_for_the_data_before_it(scenario: Scenarios) -> None:
    """A slow link is no silence: a WRITE takes 0.2 s to leave, and 0.1 s without a reply is."""
    ran = scenario(**{**_PATHS, "timeo": 1}, window=1, blocks=8, block=2 * BLOCK)
    assert ran.lines == []
    assert ran.calls(_NULL)


_DEAD, _BACK = "does not answer", "answers again"
_BROKEN: Fate = {"is_call": True}
_DIES: Fate = {"act": Act.REFUSE_ADDRESS, "restarts": True}
_SLOW = on(_W, {"delay": SECOND}, address=_FIRST)

# What befalls the second path, or both; terms, and how often what is said.
_SURVIVED: dict[str, tuple[list[Hook], dict[str, object], dict[str, int]]] = {
    # It can be connected to, but NULL is answered with an error, or not at all.
    **{
        f"no life: {name}": (
            [on(_NULL, fate, address=_SECOND, after=1), _silent(_SECOND, 3), _SLOW],
            {"depth": 2}, {"go to other paths": 1, _BACK: 0},
        )
        for name, fate in {"silent": UNHEARD, "without NFS": {"unserved": True}}.items()
    },
    # What its server says, to NULL too, is no reply; the other path goes on.
    "the protocol is broken": (
        [on(kind, _BROKEN, address=_SECOND) for kind in (_W, _NULL)], {},
        {"path 1: the server broke the protocol 3 times": 1, _DEAD: 1},
    ),
    # Even where it gives up as soon as a path is known to be dead.
    "soft": ([_silent(_SECOND, 5)], {"soft": True, "retrans": 0}, {_DEAD: 1}),
    # Its WRITEs are answered, and nothing after them: their COMMIT goes where it can.
    "silent at its COMMIT": ([_silent(_SECOND, BLOCKS // 2)], {}, {"may be lost": 0}),
    "both, hard": ([_silent(path, 3, until=6) for path in (_FIRST, _SECOND)], {}, {}),
    # The server behind the paths has lost everything meanwhile.
    "a hold": ([on(_C, _DIES, nth=1)], {"hold": 1 << 20}, {"all held data is durable now": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", _SURVIVED)
def test_what_another_path_makes_good(scenario: Scenarios, name: str) -> None:
    hooks, terms, said = _SURVIVED[name]
    ran = scenario(*hooks, **_PATHS, **terms)
    assert {text: ran.said(text) for text in said} == said
    if name.startswith("no life"):
        assert len([call for call in ran.calls(_NULL) if call.address == _SECOND]) > 1
    if name == "silent at its COMMIT":
        assert [call.address for call in _commits(ran)] == [_FIRST] * 2
    assert ran.result.rewritten == (BLOCKS * BLOCK if "hold" in terms else 0)


def test_a_path_that_broke_the_protocol_comes_back(scenario: Scenarios) -> None:
    """Once its server answers: three of its replies to WRITEs were none."""
    broken = list[CData]()

    def hook(call: CData) -> Fate | None:
        if call.address != _SECOND or call.procedure != _W.value or len(broken) == 3:
            return None
        broken.append(call)
        return _BROKEN

    ran = scenario(hook, _SLOW, **_PATHS, depth=2)
    assert ran.said("path 1: the server broke the protocol 3 times") == ran.said(_BACK) == 1
    later = Counter(call.address for call in ran.calls(_W) if call.time > broken[-1].time)
    assert later[_SECOND] > 0


@pytest.mark.parametrize(("after", "lost"), [(2, _W), (4, _C)], ids=["WRITE", "COMMIT"])
def test_a_path_commits_over_what_it_has_left(scenario: Scenarios, after: int, lost: Nfs) -> None:
    """One of its two connections is dead, both of the other path's live: its COMMIT stays with it.

    I/Os take the four connections in turn, one at a time: each has four of the sixteen WRITEs.
    """
    ran = scenario(_silent(_SECOND, after, one=True), **_PATHS, nconnect=2, depth=1)
    assert {call.procedure for call in ran.calls(_W, _C) if not call.answered} == {lost.value}
    assert sorted(call.address for call in _commits(ran)) == [_FIRST, _SECOND]


def test_what_was_lost_behind_a_dead_path_is_reported(scenario: Scenarios) -> None:
    ran = scenario(on(_C, FORGETS, nth=1), _silent(_SECOND, BLOCKS // 2), **_PATHS, error="EIO")
    lost = [line for line in ran.lines if "may be lost" in line]
    assert sorted(line.split(": ")[1] for line in lost) == ["path 0", "path 1"]


def test_the_last_path_gives_up_as_soft_says(scenario: Scenarios) -> None:
    silent = _silent(_FIRST, 3), _silent(_SECOND, 3)
    scenario(*silent, **{**_PATHS, "timeo": 10}, soft=True, retrans=0, error="ETIMEDOUT")


@pytest.mark.parametrize("version", [3, 4])
def test_a_call_that_was_asked_to_wait_leaves_a_dead_path(
    scenario: Scenarios, version: int
) -> None:
    """Its fifth wait takes 1.6 s: it is within that when the path has been gone for 1 s."""
    status, write = (Status.JUKEBOX, _W) if version == 3 else (Status4.DELAY, Nfs4.WRITE)
    waits, asked = 5, list[int]()

    def hook(call: CData) -> Fate | None:
        if call.procedure != write.value or call.address != _SECOND:
            return None
        if asked and call.offset != asked[0]:
            return None
        asked.append(call.offset)
        dies = {"act": Act.REFUSE_ADDRESS, "end": End.CLOSE} if len(asked) == waits else {}
        return {"status": status, **dies}

    ran = scenario(hook, **_PATHS, version=version, leaves=True)
    copies = [call.address for call in ran.calls(write) if call.offset == asked[0]]
    assert copies == [_SECOND] * waits + [_FIRST]
