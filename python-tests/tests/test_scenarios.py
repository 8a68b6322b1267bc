# SPDX-License-Identifier: GPL-2.0-only
"""What is durable when: stable_how, COMMIT, write verifiers, what a server loses; hold_writes.

Of several files a job, and requests of several segments, too.
"""

from collections import Counter

import pytest
from simulated import (
    BLOCK,
    BLOCKS,
    FORGETS,
    MUTE,
    SECOND,
    Act,
    CData,
    End,
    Fate,
    Hook,
    Scenarios,
    on,
)

from servers.scripted import Nfs, Nfs4, Stable, Status

pytestmark = pytest.mark.sanitized

_W, _R, _C = Nfs.WRITE, Nfs.READ, Nfs.COMMIT
_RENAMES: Fate = {"renames": True}
_RESTARTS: Fate = {"restarts": True}
_REFUSES: Fate = {"act": Act.REFUSE, "unheard": True}
_SOON: dict[str, object] = {"soft": True, "timeo": 30, "retrans": 0}


# --- what is lost ---

_LOSSES: dict[str, tuple[list[Hook], dict[str, object], int, str]] = {  # blocks lost, error
    "between WRITE and COMMIT": ([on(_C, FORGETS, nth=1)], {}, 16, "EIO"),
    "between WRITEs": ([on(_W, FORGETS, nth=11)], {"depth": 1}, 10, "EIO"),
    "between fsyncs": ([on(_W, FORGETS, nth=12)], {"depth": 1, "fsync": 8}, 3, "EIO"),
    "before the second fsync": ([on(_C, FORGETS, nth=2)], {"depth": 1, "fsync": 6}, 6, "EIO"),
    "with the connection": ([on(_C, _RESTARTS, nth=1)], {"depth": 1}, 16, "EIO"),
    "with the state of NFSv4.1": (
        [on(Nfs4.WRITE, _RESTARTS, nth=10)], {"depth": 1, "version": 4}, 9, "EIO",
    ),
    "with each reply": ([on(_W, _RENAMES), on(_C, _RENAMES)], {"depth": 1}, 16, "EIO"),
    "COMMIT finds no space": ([on(_C, {"status": Status.NOSPC})], {}, 16, "ENOSPC"),
    "COMMIT is unknown": ([on(_C, {"unserved": True})], {}, 16, "EPROTONOSUPPORT"),
    "COMMIT has an unknown status": ([on(_C, {"status": 4711})], {}, 16, "EIO"),
    "COMMIT is not answered": ([on(_C, MUTE)], _SOON, 16, "ETIMEDOUT"),
    "COMMIT is put off": (
        [on(_C, {"status": Status.JUKEBOX}, nth=1), on(_C, FORGETS, nth=2)], {}, 16, "EIO",
    ),
    "with a server that is gone": (
        [on(_W, _REFUSES, nth=11)], {"depth": 1, **_SOON}, 10, "ETIMEDOUT",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _LOSSES)
def test_what_the_server_lost_is_reported(scenario: Scenarios, name: str) -> None:
    hooks, terms, lost, error = _LOSSES[name]
    ran = scenario(*hooks, **terms, error=error)
    assert ran.lost == lost * BLOCK


_FILE_SYNC = int(Stable.FILE_SYNC)
_SMALL: dict[str, object] = {"hold": BLOCK, "fsync": 4}
_KEPT: dict[str, tuple[Hook, dict[str, object], int]] = {  # and how many COMMITs there are
    "all was committed before": (on(_W, FORGETS, nth=9), {"depth": 1, "fsync": 8}, 2),
    "all was durable at once": (on(_W, FORGETS, nth=9), {"stable": _FILE_SYNC}, 0),
    # What owes no COMMIT is not held: a hold of one block does not fill.
    "DATA_SYNC and a hold": (on(_W, {}), {"stable": 1, **_SMALL}, 0),
    "FILE_SYNC and a hold": (on(_W, {}), {"stable": _FILE_SYNC, **_SMALL}, 0),
    "more than asked, and a hold": (on(_W, {"committed": 1 + _FILE_SYNC}), _SMALL, 0),
    "the server did more than it was asked to": (on(_W, {"committed": 1 + _FILE_SYNC}), {}, 0),
    "nothing was written": (on(Nfs.READ, FORGETS, nth=5), {"reads": True}, 0),
}


@pytest.mark.parametrize("name", _KEPT)
def test_what_is_durable_is_not_lost(scenario: Scenarios, name: str) -> None:
    hook, terms, commits = _KEPT[name]
    ran = scenario(hook, **terms)
    assert ran.lines == []
    assert len(ran.calls(_C)) == commits
    assert {call.stable for call in ran.calls(_W)} <= {terms.get("stable", Stable.UNSTABLE)}


@pytest.mark.parametrize(
    ("stable", "committed"),
    [
        (Stable.DATA_SYNC, Stable.UNSTABLE),
        (Stable.FILE_SYNC, Stable.UNSTABLE),
        (Stable.FILE_SYNC, Stable.DATA_SYNC),
    ],
)
def test_writes_that_are_less_durable_than_asked(
    scenario: Scenarios, stable: Stable, committed: Stable
) -> None:
    ran = scenario(
        on(_W, {"committed": 1 + int(committed)}, nth=3), stable=int(stable), error="EIO"
    )
    assert ran.said("the server made data less durable than stable= asks for") == 1


# --- syncs ---


def test_syncs_of_the_same_writes_share_a_commit(scenario: Scenarios) -> None:
    """There are two each time, of fsync or fdatasync."""
    ran = scenario(fsync=4)
    assert (len(ran.calls(_W)), len(ran.calls(_C))) == (BLOCKS, 4)
    assert {(call.offset, call.count) for call in ran.calls(_C)} == {(0, 0)}


def test_a_sync_waits_for_the_writes_before_it(scenario: Scenarios) -> None:
    """Half of the writes are answered at once, so that there is something to commit early."""
    ran = scenario(on(_W, {"delay": SECOND // 5}, every=2), fsync=12)
    commit = ran.calls(_C)[0]
    assert all(0 < call.answered < commit.time for call in ran.calls(_W)[:12])


def test_only_paths_that_wrote_are_committed(scenario: Scenarios) -> None:
    """spread=stripe: two stripes of two blocks, over the first two of three paths."""
    ran = scenario(paths=3, spread=3, blocks=4)
    assert sorted(call.address for call in ran.calls(_C)) == [0, 1]


def test_a_loss_names_its_path(scenario: Scenarios) -> None:
    ran = scenario(on(_C, _RENAMES, address=2), paths=3, blocks=15, error="EIO")
    assert ran.said(f'path 2: {5 * BLOCK} bytes of "file" may be lost') == 1
    assert ran.said("may be lost") == 1


# --- hold_writes: what is lost is written again ---

_WHOLE = {"hold": 1 << 20}


@pytest.mark.parametrize("hold", [{}, _WHOLE], ids=["without", "with"])
def test_a_hold_changes_nothing_for_a_server_that_stays(
    scenario: Scenarios, hold: dict[str, object]
) -> None:
    ran = scenario(fsync=5, depth=1, **hold)
    letters = "".join("W" if call.procedure == _W.value else "C" for call in ran.log)
    assert (ran.lines, letters) == ([], "WWWWWCWWWWWCWWWWWCWC")


def _restarts(times: int) -> list[Hook]:
    """Restart at each COMMIT, which is then sent again and answered; so many times."""
    return [on(_C, _RESTARTS, nth=nth) for nth in range(1, 2 * times, 2)]


_REPAIRS: dict[str, tuple[list[Hook], dict[str, object], int]] = {  # blocks written again
    "between WRITE and COMMIT": ([on(_C, FORGETS, nth=1)], {}, 16),
    "with the connection": (_restarts(1), {}, 16),
    "three times": ([on(_C, FORGETS, last=3)], {}, 3 * 16),
    "five times, with the connection": (_restarts(5), {}, 5 * 16),
    # By the open that was reclaimed. Nine WRITEs were answered before, the tenth tells of it.
    "NFSv4.1": ([on(Nfs4.WRITE, _RESTARTS, nth=10)], {"depth": 1, "version": 4}, 10),
    # The first COMMIT of one file finds out for both. Over NFSv4.1 each has its own stateid.
    "two files": ([on(_C, FORGETS, nth=1)], {"files": 2}, 16),
    "two files, NFSv4.1": ([on(Nfs4.COMMIT, FORGETS, nth=1)], {"files": 2, "version": 4}, 16),
}


@pytest.mark.parametrize("name", _REPAIRS)
def test_what_a_server_lost_is_written_again(scenario: Scenarios, name: str) -> None:
    hooks, terms, blocks = _REPAIRS[name]
    ran = scenario(*hooks, **_WHOLE, **terms)
    assert ran.result.rewritten == blocks * BLOCK
    assert ran.said("write verifier changed") == ran.said("all held data is durable now") == 1


def test_nothing_else_is_written_before_it_is_replayed(scenario: Scenarios) -> None:
    """The restart is found out at the ninth WRITE; seven more are queued behind the repair."""
    ran = scenario(on(_W, FORGETS, nth=9), depth=1, **_WHOLE)
    blocks = [call.offset // BLOCK for call in ran.calls(_W)]
    assert blocks == [*range(9), *range(9), *range(9, BLOCKS)]  # in their order


def test_a_server_that_restarts_now_and_then_is_not_given_up(scenario: Scenarios) -> None:
    """It loses each pair of blocks twice: only rounds in a row count, and each loss is told."""
    pairs, newest, lost = 20, 0, Counter[int]()

    def hook(call: CData) -> Fate | None:
        nonlocal newest
        if call.procedure == _W.value:
            newest = max(newest, call.offset)
            return None
        lost[newest] += 1
        return FORGETS if lost[newest] <= 2 else None

    ran = scenario(hook, block=512, blocks=2 * pairs, depth=1, fsync=2, **_WHOLE)
    assert ran.result.rewritten == 2 * 2 * pairs * 512
    assert ran.said("write verifier changed") == ran.said("is durable now") == pairs


_STUBBORN: dict[str, tuple[list[Hook], dict[str, object], int, int]] = {  # blocks, and rounds
    "a new verifier on every COMMIT": ([on(_C, FORGETS)], {}, 16, 3),
    "a new verifier in every reply": ([on(_W, _RENAMES), on(_C, _RENAMES)], {"depth": 1}, 2, 3),
    "a full hold each time": ([on(_C, FORGETS)], {"hold": 8 * BLOCK}, 8, 3),
    "a restart each time": (_restarts(99), {}, 16, 16),
}


@pytest.mark.parametrize("name", _STUBBORN)
def test_a_server_that_forgets_each_time_is_given_up(scenario: Scenarios, name: str) -> None:
    hooks, terms, blocks, rounds = _STUBBORN[name]
    ran = scenario(*hooks, **{**_WHOLE, **terms}, error="EIO")
    assert ran.result.rewritten == rounds * blocks * BLOCK
    assert ran.said(f"written again {rounds} times, and the write verifier changed") == 1
    assert ran.said(f'path 0: {blocks * BLOCK} bytes of "file" may be lost') == 1


_HOPELESS: dict[str, tuple[Hook, str]] = {  # and why
    "WRITE no space": (on(_W, {"status": Status.NOSPC}, after=BLOCKS), "No space left on device"),
    "WRITE no answer": (on(_W, MUTE, after=BLOCKS), "Connection timed out"),
    "COMMIT stale": (on(_C, {"status": Status.STALE}, after=1), "Stale file handle"),
    "COMMIT no answer": (on(_C, MUTE, after=1), "Connection timed out"),
}


@pytest.mark.parametrize("name", _HOPELESS)
def test_what_cannot_be_replayed_is_reported(scenario: Scenarios, name: str) -> None:
    hook, why = _HOPELESS[name]
    ran = scenario(on(_C, FORGETS, nth=1), hook, **_WHOLE, **_SOON, error="EIO")
    assert ran.said(f"a WRITE or COMMIT failed: {why}") == 1
    assert ran.said(f'{BLOCKS * BLOCK} bytes of "file" may be lost') == 1


def test_nothing_is_written_after_that(scenario: Scenarios) -> None:
    """A job that goes on at errors has its writes refused."""
    ran = scenario(on(_C, FORGETS), hold=4 * BLOCK, depth=1, goes_on=True, error="EIO")
    assert max(call.offset for call in ran.calls(_W)) < 4 * BLOCK


def test_a_full_hold_waits_for_a_commit(scenario: Scenarios) -> None:
    """There is never more uncommitted data than it has room for: five blocks."""
    ran = scenario(hold=6 * BLOCK - 1)
    uncommitted = 0
    assert len(ran.calls(_W)) == BLOCKS
    for call in ran.log:
        uncommitted = uncommitted + 1 if call.procedure == _W.value else 0
        assert uncommitted <= 5


def test_commit_begins_at_half_of_the_hold(scenario: Scenarios) -> None:
    """The writer goes on: the first COMMIT is answered when the other half is written."""
    ran = scenario(on(_C, MUTE, nth=1), hold=8 * BLOCK, depth=1, timeo=5)
    letters = "".join("W" if call.procedure == _W.value else "C" for call in ran.log)
    assert letters[:9] == "WWWWCWWWW"


def test_a_commit_that_makes_room_and_fails_is_reported(scenario: Scenarios) -> None:
    ran = scenario(on(_C, {"status": Status.STALE}), hold=8 * BLOCK, depth=1, error="ESTALE")
    assert ran.said("a WRITE or COMMIT failed: Stale file handle") == 1
    assert ran.said('bytes of "file" may be lost') == 1
    assert len(ran.calls(_W)) < BLOCKS


def test_reconnecting_loses_nothing_of_it(scenario: Scenarios) -> None:
    lost = on(_W, {**MUTE, "end": End.RESET}, nth=8), on(_W, MUTE, last=7)
    ran = scenario(*lost, **_WHOLE)
    assert (ran.result.rewritten, ran.result.reconnects) == (0, 1)


def test_what_is_held_goes_out_again_over_its_path(scenario: Scenarios) -> None:
    """One node of a cluster restarts; the oldest of the other's writes is durable by then."""
    ran = scenario(on(_C, _RENAMES, address=1, nth=1), paths=2, **_WHOLE)
    again = [call.address for call in ran.calls(_W)[BLOCKS:]]
    assert again == [1] * 8 + [0] * 7


# --- several files ---

_SEGMENT = BLOCK // 4
_IN_FOUR: dict[str, object] = {"blocks": 1, "rsize": _SEGMENT, "wsize": _SEGMENT}
_LATE: Fate = {"delay": SECOND // 5}


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
