# SPDX-License-Identifier: GPL-2.0-only
"""The ledger and the hold (engine/group/) by themselves, and beside models of servers."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import pytest
from engine_c import CONSTANTS, CData, ffi, zeros
from hypothesis import example, given
from hypothesis import strategies as st

pytestmark = pytest.mark.sanitized


class LedgerModel:
    """A server with one file, and a ledger that keeps book of it.

    `gone` are the bytes that the server has lost, `told` those that the ledger calls lost. It may
    tell more where it cannot know better: `doubtful` bounds that.
    """

    def __init__(self, lib: CData):
        self.lib, self.ledger = lib, zeros("ledger")
        self.life = 0
        self.volatile = self.gone = self.told = self.doubtful = 0
        self.early = 0  # volatile bytes that were written while a COMMIT was under way
        self.commits: list[tuple[CData, int]] = []  # with the volatile bytes that each covers

    def act(self, action: str, count: int) -> None:
        """Do one thing, and see that what is volatile stays in the testlib."""
        getattr(self, action)(count)
        assert not self.volatile or self.lib.ledger_unsettled(self.ledger)
        assert self.commits or not self.volatile or self.lib.ledger_owes(self.ledger)
        self.told += self.lib.ledger_take_lost(self.ledger)

    @property
    def verifier(self) -> bytes:
        return self.life.to_bytes(8)

    def write(self, count: int) -> None:
        self.lib.ledger_wrote(self.ledger, count, False, self.verifier)
        self.volatile += count
        if self.commits:
            self.early += count

    def write_durably(self, count: int) -> None:
        self.lib.ledger_wrote(self.ledger, count, True, self.verifier)

    def restart(self, _: int) -> None:
        self.life += 1
        self.gone += self.volatile
        self.volatile = self.early = 0
        self.commits = [(commit, 0) for commit, _ in self.commits]

    def begin(self, _: int) -> None:
        commit = ffi.new("struct ledger_commit *", self.lib.ledger_begin_commit(self.ledger))
        self.commits.append((commit, self.volatile))

    def end(self, _: int, which: int = 0) -> None:
        """Answer the oldest COMMIT: all is durable, also what the books do not know to be."""
        if self.commits:
            self.lib.ledger_end_commit(self.ledger, self.commits.pop(which)[0], self.verifier)
            self.doubtful += self.early
            self.volatile = self.early = 0
            self.commits = [(commit, 0) for commit, _ in self.commits]

    def end_latest(self, _: int) -> None:
        self.end(0, -1)

    def undo(self, _: int) -> None:
        """Answer the oldest by JUKEBOX: a hold must hear of a loss that this tells.

        Another COMMIT under way may yet make its bytes durable, which the books do not note.
        """
        if self.commits:
            lost = self.ledger.lost
            commit, _ = self.commits.pop(0)
            told = self.lib.ledger_undo_commit(self.ledger, commit)
            assert told == (self.ledger.lost > lost)
            self.doubtful += commit.bytes if self.commits else 0
            self.early = self.early if self.commits else 0

    def fail(self, _: int) -> None:
        """Answer it by an error: what it covers is written off."""
        if self.commits:
            commit, covered = self.commits.pop(0)
            self.lib.ledger_fail_commit(self.ledger, commit)
            self.doubtful += commit.bytes
            self.volatile -= covered
            self.early = self.early if self.commits else 0
            self.commits = [(other, max(0, more - covered)) for other, more in self.commits]


_ACTIONS = st.sampled_from(
    ["write", "write", "write_durably", "restart", "begin", "end", "end_latest", "undo", "fail"]
)


@given(st.lists(st.tuples(_ACTIONS, st.integers(1, 1000)), max_size=40))
@example([("write", 5), ("restart", 1), ("write", 7), ("begin", 1), ("end", 1)])
@example([("write", 5), ("begin", 1), ("restart", 1), ("write", 7), ("undo", 1)])
@example([("write", 5), ("begin", 1), ("undo", 1), ("restart", 1), ("write", 7)])
@example([("write", 5), ("begin", 1), ("write", 7), ("undo", 1), ("restart", 1)])
@example([("write", 5), ("begin", 1), ("write", 7), ("restart", 1), ("fail", 1)])
@example([("write", 5), *[("begin", 1)] * 2, ("end_latest", 1), ("restart", 1), ("end", 1)])
@example([("write", 5), *[("begin", 1)] * 2, ("undo", 1), ("end", 1), ("restart", 1)])
@example(
    [
        *(("write", 5), ("begin", 1), ("restart", 1)),  # the COMMIT comes to another server
        *(("write", 7), ("begin", 1), ("end_latest", 1), ("end", 1)),
    ]
)
def test_no_loss_is_overlooked(testlib: CData, story: list[tuple[str, int]]) -> None:
    """With the next COMMIT all that is gone has been told, and no more than must be."""
    model = LedgerModel(testlib)
    for action, count in story:
        model.act(action, count)
    while model.commits:
        model.act("end", 1)
    model.act("begin", 1)
    model.act("end", 1)
    assert not testlib.ledger_owes(model.ledger)
    assert not testlib.ledger_unsettled(model.ledger)
    assert model.gone <= model.told <= model.gone + model.doubtful


# --- the hold ---

_SIZE = 64  # of the file of a story, and of its hold
_OLD, _NEW = b"verifier", b"another!"


class Hold:
    """A hold; it has the members of struct hold, and hold.h's functions without their first one."""

    def __init__(self, lib: CData, size: int):
        self._lib, self.state = lib, zeros("hold")
        assert self.init(size) == 0

    def __getattr__(self, name: str) -> Any:
        if hasattr(self.state, name):
            return getattr(self.state, name)
        return partial(getattr(self._lib, f"hold_{name}"), self.state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
        assert not any(bytes(ffi.buffer(self.state)))

    def held(self) -> Iterator[CData]:
        number = self.first
        while number < self.end:
            yield self.extents + number % self.extent_max
            number = max(number + 1, self.first)

    def take(self, file: int, offset: int, data: bytes) -> CData:
        return self._lib.hold_take(self.state, file, offset, data, len(data))

    def finished(self, extent: CData, *, failed: bool = False) -> None:
        self._lib.hold_finished(self.state, extent, failed, 0)


@pytest.fixture
def hold(testlib: CData) -> Iterator[Hold]:
    with Hold(testlib, 100) as made:
        yield made


def _write(hold: Hold, data: bytes, ledger: CData, verifier: bytes = _OLD, file: int = 0) -> None:
    extent = hold.take(file, 0, data)
    hold.wrote(extent, ledger, verifier)
    hold.finished(extent)


def _content(extent: CData) -> bytes:
    return bytes(ffi.buffer(extent.data, extent.length))


def _contents(hold: Hold) -> list[bytes]:
    return [_content(extent) for extent in hold.held()]


# --- room ---


def test_the_memory_of_what_is_durable_is_used_again(testlib: CData) -> None:
    """Also round its end, where what does not fit before it goes to the beginning."""
    with Hold(testlib, 10) as hold:
        first, second = zeros("ledger"), zeros("ledger")
        _write(hold, b"aaaa", first)
        _write(hold, b"bbbb", second)
        assert not hold.room(3)
        hold.committed(first, hold.clock, _OLD)
        assert hold.room(4)
        assert not hold.room(5)
        _write(hold, b"ccc", first)
        assert _contents(hold) == [b"bbbb", b"ccc"]
        assert hold.room(1)
        assert not hold.room(2)


# --- what is settled, and what is lost ---


def test_a_write_whose_parts_lie_in_two_lives_is_lost(hold: Hold) -> None:
    ledger = zeros("ledger")
    extent = hold.take(0, 0, b"ab")
    hold.wrote(extent, ledger, _OLD)
    hold.wrote(extent, ledger, _NEW)
    hold.finished(extent)
    assert hold.lost
    hold.state.lost = False
    hold.committed(ledger, hold.clock, _NEW)
    assert hold.lost, "the first part is not durable"
    assert _contents(hold) == [b"ab"]


def test_a_part_that_a_commit_finds_lost(hold: Hold) -> None:
    """The rest of its WRITE is still under way."""
    ledger = zeros("ledger")
    extent = hold.take(0, 0, b"ab")
    hold.wrote(extent, ledger, _OLD)
    hold.committed(ledger, hold.clock, _NEW)
    assert hold.lost


def test_a_part_whose_commit_failed_is_kept(hold: Hold) -> None:
    """The rest of its WRITE is still under way: the next COMMIT is to cover all."""
    ledger = zeros("ledger")
    extent = hold.take(0, 0, b"ab")
    hold.wrote(extent, ledger, _OLD)
    hold.commit_failed(ledger, hold.clock)
    hold.wrote(extent, ledger, _OLD)
    hold.finished(extent)
    assert _contents(hold) == [b"ab"]
    assert ledger.held == 1


def test_what_failed_is_not_kept(hold: Hold) -> None:
    ledger = zeros("ledger")
    hold.finished(hold.take(0, 0, b"a"), failed=True)
    _write(hold, b"b", ledger)
    hold.commit_failed(ledger, hold.clock)
    assert _contents(hold) == []
    assert ledger.held == 0
    assert not hold.lost


def test_a_commit_tells_nothing_of_what_is_answered_later(hold: Hold) -> None:
    """Whether it succeeds or fails. Part of a WRITE that is under way was answered before."""
    ledger = zeros("ledger")
    _write(hold, b"a", ledger)
    sent = hold.clock
    _write(hold, b"b", ledger)
    extent = hold.take(0, 0, b"cd")
    hold.wrote(extent, ledger, _OLD)
    hold.committed(ledger, sent, _OLD)
    assert _contents(hold) == [b"b", b"cd"]
    hold.commit_failed(ledger, sent)
    hold.finished(extent)
    assert _contents(hold) == [b"b", b"cd"]
    assert ledger.held == len(_contents(hold))
    assert not hold.lost


def test_a_file_is_forgotten_with_what_is_under_way(hold: Hold) -> None:
    """Its memory is in use until the WRITE has ended."""
    ledger, other = zeros("ledger"), zeros("ledger")
    extent = hold.take(0, 0, b"a")
    _write(hold, b"b", other, file=1)
    hold.forget(0)
    assert _contents(hold) == [b"a", b"b"]
    assert (ledger.held, other.held) == (0, 1)
    assert hold.begin_replay() == len(b"b")
    hold.wrote(extent, ledger, _OLD)
    hold.finished(extent)
    assert _contents(hold) == [b"b"]
    assert ledger.held == 0


# --- what waits for a COMMIT ---


def test_small_writes_count_for_the_extents_that_they_use_up(hold: Hold) -> None:
    _write(hold, b"a", zeros("ledger"))
    assert hold.uncovered == CONSTANTS.HOLD_EXTENT_BYTES
    for _ in range(hold.extent_max - 1):
        assert hold.room(1)
        hold.take(0, 0, b"a")
    assert not hold.room(1), "there is memory, and no extent"


# --- a job and its server ---


class Server:
    """A cluster of two nodes with one file: a WRITE takes effect when it is sent, on either.

    A node loses what it took and did not commit, and what was there before comes to light again.
    """

    def __init__(self, hold: Hold) -> None:
        self.hold = hold
        self.ledgers = [zeros("ledger"), zeros("ledger")]
        self.lives = [0, 0]
        self.wanted = bytearray(_SIZE)
        self.writes: list[tuple[int, bool, int, bytes]] = []  # node, whether durable, offset, data

    @property
    def durable(self) -> bytearray:
        """What would be left if both nodes restarted."""
        seen = bytearray(_SIZE)
        for _, durable, offset, data in self.writes:
            if durable:
                seen[offset : offset + len(data)] = data
        return seen

    def verifier(self, path: int) -> bytes:
        return self.lives[path].to_bytes(8)

    def put(self, path: int, extent: CData) -> None:
        self.writes.append((path, False, extent.offset, _content(extent)))
        self.hold.wrote(extent, self.ledgers[path], self.verifier(path))
        self.hold.finished(extent)

    def write(self, path: int, offset: int, data: bytes) -> None:
        if not self.hold.room(len(data)):
            self.settle()
        self.put(path, self.hold.take(0, offset, data))
        self.wanted[offset : offset + len(data)] = data

    def restart(self, path: int) -> None:
        self.lives[path] += 1
        self.writes = [one for one in self.writes if one[0] != path or one[1]]

    def commit(self, path: int) -> None:
        self.writes = [
            (node, durable or node == path, offset, data)
            for node, durable, offset, data in self.writes
        ]
        self.hold.committed(self.ledgers[path], self.hold.clock, self.verifier(path))

    def settle(self) -> None:
        """COMMIT on both nodes, and write again until nothing is lost."""
        self.hold.begin_commit()
        for path in (0, 1):
            self.commit(path)
        while self.hold.lost:
            self.hold.begin_replay()
            for extent in self.hold.held():
                self.hold.again(extent)
                self.put(0, extent)
            for path in (0, 1):
                self.commit(path)


_BYTES = st.binary(min_size=1, max_size=24)
_WRITES = st.tuples(st.just("write"), st.integers(0, 1), st.integers(0, _SIZE - 24), _BYTES)
_EVENTS = st.tuples(st.sampled_from(["restart", "commit"]), st.integers(0, 1))


@given(story=st.lists(st.one_of(_WRITES, _WRITES, _EVENTS), max_size=30))
def test_what_is_written_last_wins(testlib: CData, story: list[tuple[str, int]]) -> None:
    """Whatever is written over what, and lost: after the repair every byte is the newest."""
    with Hold(testlib, _SIZE) as hold:
        server = Server(hold)
        for what, *words in story:
            getattr(server, what)(*words)
            if hold.lost:
                server.settle()
        server.settle()
        assert list(hold.held()) == []
        assert [ledger.held for ledger in server.ledgers] == [0, 0]
        assert hold.uncovered == 0
        assert server.durable == server.wanted
