# SPDX-License-Identifier: GPL-2.0-only
"""The ledger (engine/group/ledger.h) beside a model of the server that it keeps book of."""

from engine_c import CData, ffi, zeros
from hypothesis import example, given
from hypothesis import strategies as st


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
