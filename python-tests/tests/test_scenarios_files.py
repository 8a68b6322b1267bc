# SPDX-License-Identifier: GPL-2.0-only
"""Several files a job, requests of several segments, stripes, and replies in fragments."""

from collections import Counter
from collections.abc import Iterable
from itertools import product

import pytest
from simulated import BLOCK, BLOCKS, FORGETS, SECOND, CData, Fate, Hook, Scenarios, on

from servers.scripted import Nfs, Nfs4, Stable, Status

pytestmark = pytest.mark.sanitized

_W, _R, _C = Nfs.WRITE, Nfs.READ, Nfs.COMMIT
_SEGMENT = BLOCK // 4
_IN_FOUR: dict[str, object] = {"blocks": 1, "rsize": _SEGMENT, "wsize": _SEGMENT}
_LATE: Fate = {"delay": SECOND // 5}


def _by_file(calls: Iterable[CData]) -> Counter[tuple[int, int]]:
    return Counter((call.file, call.offset) for call in calls)


def _all_of(files: int) -> set[tuple[int, int]]:
    return {(file, BLOCK * number) for file in range(files) for number in range(BLOCKS // files)}


# --- several files ---


@pytest.mark.parametrize("version", [3, 4])
def test_each_file_has_its_own_data(scenario: Scenarios, version: int) -> None:
    """Over NFSv4.1 with its own stateid, which the server does not take for another file."""
    write, commit = (_W, _C) if version == 3 else (Nfs4.WRITE, Nfs4.COMMIT)
    ran = scenario(files=4, version=version)
    assert set(_by_file(ran.calls(write))) == _all_of(4)
    assert sorted(call.file for call in ran.calls(commit)) == [0, 1, 2, 3]
    scenario(files=4, version=version, reads=True)


def test_a_sync_waits_for_its_own_file_alone(scenario: Scenarios) -> None:
    """Writes of file 1 that end are not those of file 0 that are awaited; file 2's end later.

    The second write of file 0 is late: only it is awaited by then.
    """
    late = on(_W, _LATE, file=0, nth=4), on(_W, {"delay": SECOND}, file=2)
    ran = scenario(*late, files=3, blocks=6, fsync=2)
    commits = ran.calls(_C)
    assert [call.file for call in commits] == [1, 0, 2]
    for commit in commits:
        writes = [call for call in ran.calls(_W) if call.file == commit.file]
        assert all(call.answered <= commit.time for call in writes)
    assert commits[1].answered < SECOND


def test_each_file_tells_its_own_loss(scenario: Scenarios) -> None:
    """The first COMMIT finds the restart: file 0 has lost its half, file 1 finds out for itself."""
    ran = scenario(on(_C, FORGETS, nth=1), files=2, error="EIO")
    half = BLOCKS * BLOCK // 2
    assert ran.lost == 2 * half
    assert ran.said(f'{half} bytes of "file" may be lost') == 1
    assert ran.said(f'{half} bytes of "file1" may be lost') == 1


def test_a_file_that_was_synced_has_lost_nothing(scenario: Scenarios) -> None:
    """File 0 is durable when the server forgets; of file 1 three blocks are not."""
    ran = scenario(on(_C, FORGETS, nth=2), files=2, blocks=8, fsync=4, depth=1, error="EIO")
    assert ran.lost == 4 * BLOCK
    assert ran.said('of "file" may be lost') == 0


def test_a_sync_tells_no_other_files_loss(scenario: Scenarios) -> None:
    """Closing file 0, all of which was durable at once; file 1's second write found its loss."""
    eager = on(_W, {"committed": 1 + int(Stable.FILE_SYNC)}, file=0)
    ran = scenario(eager, on(_W, FORGETS, nth=4), files=2, blocks=4, depth=1, error="EIO")
    assert ran.lost == BLOCK
    assert (ran.said('"file" is not durable'), ran.said('"file1" is not durable')) == (0, 1)


@pytest.mark.parametrize("version", [3, 4])
def test_each_file_is_replayed_by_its_own_data(scenario: Scenarios, version: int) -> None:
    """hold_writes: the first COMMIT of one file finds out for both what the server has lost."""
    write, commit = (_W, _C) if version == 3 else (Nfs4.WRITE, Nfs4.COMMIT)
    ran = scenario(on(commit, FORGETS, nth=1), files=2, hold=1 << 20, version=version)
    again = ran.calls(write)[BLOCKS:]
    assert ran.result.rewritten == BLOCKS * BLOCK
    assert _by_file(again) == dict.fromkeys(_all_of(2), 1)
    assert {call.file for call in ran.calls(commit) if call.time > again[-1].time} == {0, 1}


# --- requests of several segments ---


@pytest.mark.parametrize("reads", [False, True], ids=["WRITE", "READ"])
def test_a_block_is_cut_into_segments(scenario: Scenarios, reads: bool) -> None:
    """All go out at once, also those of an odd size: 3 of 600 bytes, and the rest."""
    operation = _R if reads else _W
    ran = scenario(on(operation, _LATE), reads=reads, blocks=1, rsize=600, wsize=600)
    calls = ran.calls(operation)
    assert ran.result.moved == BLOCK
    assert [(call.offset, call.count) for call in calls] == [
        (0, 600), (600, 600), (1200, 600), (1800, BLOCK - 1800),
    ]  # fmt: skip
    assert max(call.time for call in calls) < min(call.answered for call in calls)


@pytest.mark.parametrize("late", [2, 3], ids=["the third first", "the second first"])
def test_a_block_ends_where_its_first_short_or_failed_segment_does(
    scenario: Scenarios, late: int
) -> None:
    """The file ends in the second of four segments; of two errors the one that came first counts.

    The third segment's is EIO.
    """
    ends = _SEGMENT + 300
    ran = scenario(on(_R, _LATE, nth=late), reads=True, size=ends, **_IN_FOUR)
    assert ran.result.moved == ends
    assert len(ran.calls(_R)) == 4
    fates: dict[int, Fate] = {2: {"status": Status.ACCES}, 3: {"status": Status.IO}}
    fates[late] = {**fates[late], **_LATE}
    ran = scenario(
        *(on(_R, fate, nth=nth) for nth, fate in fates.items()),
        reads=True,
        **_IN_FOUR,
        error="EIO" if late == 2 else "EACCES",
    )


def test_a_segment_that_is_lost_is_reported_once(scenario: Scenarios) -> None:
    """The first of four: the server forgets before the second. Three syncs ask."""
    ran = scenario(on(_W, FORGETS, nth=2), fsync=1, **_IN_FOUR, error="EIO")
    assert ran.lost == _SEGMENT
    assert ran.said("may be lost") == 1


def test_segments_are_replayed_to_where_they_were(scenario: Scenarios) -> None:
    """hold_writes: once the server has forgotten the first of four."""
    ran = scenario(on(_W, FORGETS, nth=2), hold=1 << 20, **_IN_FOUR)
    assert set(_by_file(ran.calls(_W))) == {(0, _SEGMENT * number) for number in range(4)}


@pytest.mark.parametrize("reads", [False, True], ids=["WRITE", "READ"])
@pytest.mark.parametrize(("stripe", "block"), [(64 << 10, 1024), (1001, 2503)])
def test_stripes_lie_where_they_must(
    scenario: Scenarios, reads: bool, stripe: int, block: int
) -> None:
    """spread=stripe: over three paths of two connections each."""
    count = (32 << 10) // block
    terms = {"paths": 3, "nconnect": 2, "spread": 3, "stripe": stripe, "block": block}
    ran = scenario(reads=reads, blocks=count, **terms)
    calls = ran.calls(_R if reads else _W)
    assert ran.result.moved == count * block
    for call in calls:
        first = call.offset // stripe
        assert (call.offset + call.count - 1) // stripe == first
        assert call.address == first % 3
    columns = {call.offset // stripe % 6 for call in calls}
    assert len({call.connection for call in calls}) == len(columns)
    assert len({(call.offset // stripe % 6, call.connection) for call in calls}) == len(columns)
    assert sum(call.count for call in calls) == count * block


# --- odd sizes, and replies in fragments ---


_HEAD = 128  # bytes of a READ's reply before its data, about
_FRAGMENTS: dict[str, Hook] = {
    "whole": lambda _: None,
    "of one byte": lambda _: {"fragment": 1},
    "that end in the head": lambda _: {"fragment": 41},
    "that end in the data": lambda _: {"fragment": _HEAD + 333},
    "of any size": lambda call: {"fragment": 1 + call.xid % 3000},
}


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", _FRAGMENTS)
def test_odd_sizes_in_fragments(scenario: Scenarios, name: str, version: int) -> None:
    """Whatever the pad: what is written is on the server, and comes back."""
    for block, reads in product((1, 101, 103, BLOCK - 3, 4093), (False, True)):
        ran = scenario(_FRAGMENTS[name], version=version, reads=reads, blocks=4, block=block)
        moved = ran.calls(_R, _W, Nfs4.READ, Nfs4.WRITE)
        assert ran.lines == []
        assert {call.count for call in moved} == {block}
