# SPDX-License-Identifier: GPL-2.0-only
"""The table: each cell of the fault matrix with what must come of it.

What is promised stands in docs/promises.md and nfs(5). Modes and works that a row leaves
out do not apply to its fault.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nfsmulti.faults.cell import Cell, Expected, Fault, Mode, Work
from nfsmulti.faults.faults import (
    DELAY,
    ENDLESS_DATA,
    ENDLESS_VERIFIER,
    FORGETS,
    GARBAGE,
    GRACE,
    HUGE_RECORD,
    JUKEBOX,
    PACED,
    RESET_SOON,
    STRANGER,
    Answers,
    FaultKind,
    GuestFault,
    LabFault,
    ScriptedFault,
    address_removed,
    at,
    by_procedure,
    each,
    first,
    from_then_on,
    grant,
    in_turn,
    link_down,
    once,
    over_again,
    server_away,
    stall,
    unanswered_until,
)
from nfsmulti.fiorun import Options
from nfsmulti.lab import Instances
from nfsmulti.scripted import Answer, Nfs, Nfs4, ScriptedServer, Status, Status4, Terms

HARD, SOFT, FAILOVER = Mode
READ, WRITE, SYNC, HOLD, CREATE, STAT, REMOVE, TRIM = Work
KILL, STOP, DROP, ADDRESS = (FaultKind.KILL, FaultKind.STOP, FaultKind.DROP, FaultKind.ADDRESS)

Modes = Mapping[Mode, Expected]


def every(expected: Expected) -> Modes:
    """Expect the same of all modes."""
    return dict.fromkeys(Mode, expected)


# --- what may come of a cell ---

DONE = Expected("done")
_STOPS = "connection lost with|server not responding, still trying"
AGAIN = Expected("done", says=(_STOPS, "server OK"))
SILENT = Expected("done", says=("server not responding, still trying", "server OK"))
MOVED = Expected("done", says=("does not answer",), moves=True)
LOST = Expected("failed", errno.EIO, says=("bytes of",), loses=True)
MENDED = Expected("done", says=("bytes again", "all of it is durable now"))
MOVED_AND_MENDED = replace(MOVED, says=(*MOVED.says, *MENDED.says))
NOT_MENDED = replace(LOST, says=("the write verifier changed each of 3 times",))
TIMED_OUT = Expected("failed", errno.ETIMEDOUT)
GAVE_UP = Expected("failed", errno.EPROTO, says=("the server broke the protocol 3 times running",))
REFUTED = Expected("failed", errno.EPROTO, says=("contradicts the call or itself",))
NOTHING = Expected("failed", errno.EIO, says=("no data came, and not the end of file",))
NONE_TAKEN = Expected("failed", errno.EIO, says=("the server took no data",))
STALE = Expected("failed", errno.ESTALE, says=("the server does not know the file any more",))
STALE_DIRECTORY = Expected("failed", errno.ESTALE, says=("NFS3ERR_STALE",))
NO_SPACE = Expected("failed", errno.ENOSPC)
NO_ROOM = replace(NO_SPACE, says=("the server has no room for more entries",))
TIMED_OUT_LOST = replace(TIMED_OUT, loses=True)
# The server may be back in time for the COMMIT, or for what hold_writes writes again.
TIMED_OUT_LOST_OR_NOT = replace(TIMED_OUT, loses=None)
HELD = Expected("held", says=(_STOPS, "giving up"))
HELD_LOST = replace(HELD, loses=True)
HELD_SILENT = Expected("held", says=("server not responding, still trying", "giving up"))
HELD_SILENT_LOST = replace(HELD_SILENT, loses=True)
NO_WAY_BACK = replace(
    HELD,
    short="the link came back, but rdma_rxe of Linux 6.1 makes no new connection after a send"
    " while the link was down: the job keeps waiting instead of continuing",
)
NO_WAY_BACK_LOST = replace(NO_WAY_BACK, loses=True)
MOVED_SLOWLY = replace(
    MOVED,
    short="fio reopens the file before it verifies, and asks the dead path first: that takes"
    " eight seconds",
)
CANNOT_REACH = Expected("failed", errno.ECONNREFUSED, says=("cannot reach port",))
NO_SESSION = Expected("failed", errno.ENOSPC, says=("NFS4ERR_NOSPC",))
WITHOUT_IT = Expected("done", says=("cannot reach port",))


@dataclass(frozen=True)
class Row:
    """One fault: what is expected of each work, by mode.

    `sync` is for FILE_SYNC WRITEs and `hold` for hold_writes, which are of interest where a server
    may forget what is UNSTABLE. `entries` is for create, stat and remove alike, save what these say
    otherwise or beside it; `trim` is what fares as remove does, and stands where fio may see one
    otherwise than a write: sent again, failed, and taken over by another path.
    The short form has the cells in `brief`, if any are given; else all but those that fare as an
    earlier one does, where work on data and on entries count apart.
    """

    fault: Fault
    read: Modes = field(default_factory=dict)
    write: Modes = field(default_factory=dict)
    sync: Modes = field(default_factory=dict)
    hold: Modes = field(default_factory=dict)
    entries: Modes = field(default_factory=dict)
    create: Modes = field(default_factory=dict)
    stat: Modes = field(default_factory=dict)
    remove: Modes = field(default_factory=dict)
    trim: Modes = field(default_factory=dict)
    brief: Sequence[tuple[Work, Mode]] = ()

    def cells(self) -> Iterator[Cell]:
        """Give the row's cells."""
        data = (self.read, self.write, self.sync, self.hold)
        entries = [{**self.entries, **own} for own in (self.create, self.stat, self.remove)]
        seen: list[tuple[bool, Expected]] = []
        for work, modes in zip(Work, (*data, *entries, self.trim), strict=True):
            for mode, expected in modes.items():
                fares = (work.on_entries, expected)
                brief = (work, mode) in self.brief if self.brief else fares not in seen
                seen.append(fares)
                yield Cell(self.fault, work, mode, expected, brief)


def both(
    fault: Fault,
    modes: Modes,
    write: Modes | None = None,
    brief: Sequence[tuple[Work, Mode]] = (),
    **entries: Modes,
) -> Row:
    """Expect the same of reading and of writing, save what `write` says otherwise.

    `entries` are Row's `entries`, `create`, `stat`, `remove` and `trim`.
    """
    return Row(fault, read=modes, write={**modes, **(write or {})}, brief=brief, **entries)


_FOUR = dict.fromkeys(Mode, 4)
_SMALL = {"bs": "1k", "size": "16k"}
_LOST_REPLY = Answer(reply=False, end="reset")
_LOST_CALL = Answer(act=False, reply=False, end="reset")

SCRIPTED = [
    # Connections
    both(
        ScriptedFault(
            name="connection reset while idle",
            answers=lambda: once(8, RESET_SOON),
            options={"iodepth": 1, "thinktime": "300ms", "thinktime_blocks": 16, "size": "512k"},
        ),
        every(AGAIN),
    ),
    both(
        ScriptedFault(
            name="connection reset with 8 calls in flight",
            answers=lambda: unanswered_until(8, Answer(reply=False, end="reset")),
        ),
        every(AGAIN),
        entries={HARD: AGAIN},  # those that were carried out are found so
        create=every(AGAIN),
        remove=every(AGAIN),
        trim={HARD: AGAIN},
        brief=[(READ, HARD), (CREATE, HARD), (REMOVE, HARD), (TRIM, HARD)],
    ),
    Row(
        ScriptedFault(
            name="calls lost with the connection, three times",
            answers=lambda: at((8, 16, 24), _LOST_CALL),
        ),
        entries={HARD: AGAIN},
        create={FAILOVER: AGAIN},
    ),
    both(
        ScriptedFault(
            name="connection reset in mid-record",
            answers=lambda: once(10, Answer(cut=60, end="reset")),
        ),
        every(AGAIN),
    ),
    both(
        ScriptedFault(
            name="listener full for 3 s",
            answers=lambda: once(10, Answer(do=stall(1, 3.0))),
        ),
        {HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED},
        {SOFT: TIMED_OUT_LOST_OR_NOT},
        create={HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED},
        remove={HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED},
    ),
    both(
        ScriptedFault(
            name="one of four paths slow (100 ms)",
            answers=lambda: each(Answer(delay=0.1)),
            paths=_FOUR,
        ),
        every(DONE),
    ),
    # What a server may answer
    Row(
        ScriptedFault(name="short READ", answers=lambda: each(Answer(limit=5000))),
        read=every(DONE),
    ),
    Row(
        ScriptedFault(name="short WRITE", answers=lambda: each(Answer(limit=5000))),
        write=every(DONE),
    ),
    Row(
        ScriptedFault(name="count 0", answers=lambda: once(10, Answer(limit=0, eof=0))),
        read=every(NOTHING),
        write=every(NONE_TAKEN),
    ),
    both(
        ScriptedFault(name="JUKEBOX three times", answers=lambda: first(3, JUKEBOX)),
        every(DONE),
        entries={HARD: DONE},
        create={SOFT: DONE},
    ),
    both(
        ScriptedFault(name="STALE", answers=lambda: once(10, Answer(status=Status.STALE))),
        every(STALE),
        entries={HARD: STALE_DIRECTORY},
        stat={HARD: DONE},  # its handle is looked up once more
        trim={HARD: STALE_DIRECTORY},
    ),
    Row(
        ScriptedFault(name="NOSPC", answers=lambda: once(10, Answer(status=Status.NOSPC))),
        write=every(NO_SPACE),
        create=every(NO_ROOM),
    ),
    # Durability
    Row(
        ScriptedFault(
            name="new verifier between WRITE and COMMIT",
            answers=lambda: once(1, FORGETS),
            procedures=(Nfs.COMMIT,),
        ),
        write=every(LOST),
        hold=every(MENDED),
    ),
    Row(
        ScriptedFault(
            name="new verifier on every COMMIT",
            answers=lambda: each(FORGETS),
            procedures=(Nfs.COMMIT,),
            options={"fsync": 16},
        ),
        write=every(LOST),
        hold=every(NOT_MENDED),
    ),
    # What a server must not answer
    both(ScriptedFault(name="unknown xid", answers=lambda: each(STRANGER)), every(DONE)),
    both(
        ScriptedFault(name="duplicate reply", answers=lambda: each(Answer(repeat=(0,)))),
        every(DONE),
    ),
    both(ScriptedFault(name="reply for a finished xid", answers=over_again), every(DONE)),
    both(
        ScriptedFault(
            name="wrong message type",
            answers=lambda: from_then_on(9, Answer(message_type=0)),
            hostile=True,
        ),
        {HARD: GAVE_UP, SOFT: GAVE_UP, FAILOVER: MOVED},
    ),
    Row(
        ScriptedFault(
            name="oversized opaque",
            answers=lambda: by_procedure(
                read=from_then_on(9, ENDLESS_DATA), write=from_then_on(9, ENDLESS_VERIFIER)
            ),
            hostile=True,
        ),
        read=every(REFUTED),
        write={HARD: GAVE_UP, SOFT: GAVE_UP, FAILOVER: MOVED},
    ),
    both(
        ScriptedFault(
            name="truncated record",
            answers=lambda: once(10, Answer(cut=60, end="close")),
        ),
        every(AGAIN),
    ),
    both(
        ScriptedFault(
            name="truncated record each time",
            answers=lambda: from_then_on(9, Answer(cut=20, end="close")),
            hostile=True,
        ),
        {HARD: HELD, SOFT: TIMED_OUT, FAILOVER: MOVED},
        {HARD: HELD_LOST},
        create={HARD: HELD, SOFT: TIMED_OUT, FAILOVER: MOVED},
        remove={FAILOVER: MOVED},
    ),
    both(
        ScriptedFault(
            name="record of 2 GiB",
            answers=lambda: from_then_on(9, HUGE_RECORD),
            hostile=True,
        ),
        {HARD: GAVE_UP, SOFT: GAVE_UP, FAILOVER: MOVED},
    ),
    both(
        ScriptedFault(
            name="one byte at a time", answers=lambda: each(Answer(chunk=1)), options=_SMALL
        ),
        every(DONE),
    ),
    both(
        ScriptedFault(
            name="fragments of odd sizes",
            answers=lambda: each(Answer(fragments=(1, 3, 7, 0, 1021))),
        ),
        every(DONE),
    ),
    Row(
        ScriptedFault(
            name="more data than asked", answers=lambda: from_then_on(9, Answer(extra=4))
        ),
        read=every(REFUTED),
    ),
    both(
        ScriptedFault(name="garbage", answers=lambda: from_then_on(9, GARBAGE), hostile=True),
        {HARD: GAVE_UP, SOFT: GAVE_UP, FAILOVER: MOVED},
        entries={FAILOVER: MOVED},
        create={HARD: GAVE_UP, SOFT: GAVE_UP},
        trim={FAILOVER: MOVED},
    ),
]


def _recovers(
    name: str,
    answers: Callable[[], Answers],
    terms: Terms | None = None,
    *,
    expected: Expected = DONE,
    entries: bool = False,
    options: Options | None = None,
) -> Row:
    fault = ScriptedFault(
        name=f"NFSv4.1: {name}", answers=answers, terms=terms or Terms(), options=options or {}
    )
    modes = {HARD: expected}
    return both(fault, modes, entries=modes if entries else {})


# NFSv4.1: a row for each promise of its recovery.
SCRIPTED4 = [
    both(
        ScriptedFault(
            name="NFSv4.1: replies lost with the connection, three times",
            answers=lambda: at((16, 32, 48), _LOST_REPLY),
            terms=Terms(),
        ),
        {HARD: AGAIN},
        entries={HARD: AGAIN},
        trim={HARD: AGAIN},
        brief=[(READ, HARD), (CREATE, HARD), (REMOVE, HARD)],
    ),
    _recovers(
        "calls lost with the connection, three times",
        lambda: at((16, 32, 48), _LOST_CALL),
        expected=AGAIN,
        entries=True,
    ),
    _recovers(
        "all sessions ended", lambda: once(10, Answer(do=ScriptedServer.end_sessions)), entries=True
    ),
    Row(
        ScriptedFault(
            name="NFSv4.1: server starts again",
            answers=lambda: once(10, Answer(do=ScriptedServer.restart)),
            terms=Terms(grace=1.0),
        ),
        read={HARD: AGAIN},
        write={HARD: LOST},
        sync={HARD: AGAIN},
        hold={HARD: MENDED},
        entries={HARD: AGAIN},
    ),
    _recovers("lease expired", lambda: once(10, Answer(do=ScriptedServer.expire))),
    _recovers(
        "lease expired while the job paused",
        lambda: each(Answer()),
        Terms(lease=1, lapses=True),
        options={"iodepth": 1, "thinktime": "3s", "thinktime_blocks": 40},
    ),
    _recovers("opens revoked", lambda: once(10, Answer(do=ScriptedServer.revoke))),
    _recovers("DELAY and GRACE", lambda: in_turn(DELAY, GRACE, DELAY, GRACE), entries=True),
    _recovers(
        "slots taken back and given again",
        lambda: in_turn(
            *[Answer()] * 9, Answer(do=grant(1)), *[Answer()] * 20, Answer(do=grant(None))
        ),
    ),
    _recovers("one slot", lambda: each(Answer()), Terms(slots=1)),
    Row(
        ScriptedFault(
            name="NFSv4.1: no room for a session",
            answers=lambda: each(Answer(status=Status4.NOSPC)),
            procedures=(Nfs4.CREATE_SESSION,),
            terms=Terms(),
        ),
        read={HARD: NO_SESSION},
    ),
    both(
        ScriptedFault(
            name="NFSv4.1: listener full for 3 s",
            answers=lambda: once(10, Answer(do=stall(1, 3.0))),
            terms=Terms(),
        ),
        {HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED},
        {SOFT: TIMED_OUT_LOST_OR_NOT},
    ),
]

LAB = [
    Row(
        LabFault(name="server killed, back after 0.5 s", kind=KILL, seconds=0.5),
        read=every(DONE),
        write=every(LOST),
        sync=every(DONE),
        hold=every(MENDED),
        entries={HARD: DONE},
        create=every(DONE),
        trim={HARD: DONE},
        brief=[(WRITE, HARD), (SYNC, HARD), (HOLD, HARD), (CREATE, HARD)],
    ),
    Row(
        LabFault(
            name="NFSv4.1: server killed, back after 0.5 s",
            kind=KILL,
            seconds=0.5,
            version="4.1",
        ),
        read={HARD: DONE},
        write={HARD: LOST},
        sync={HARD: DONE},
        hold={HARD: MENDED},
        entries={HARD: DONE},
    ),
    Row(
        LabFault(name="server killed, back after 2 s", kind=KILL, seconds=2.0),
        read={HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED},
        write={HARD: LOST, SOFT: TIMED_OUT_LOST, FAILOVER: LOST},
        sync={HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED},
        hold={HARD: MENDED, SOFT: TIMED_OUT_LOST_OR_NOT, FAILOVER: MOVED_AND_MENDED},
        create={HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED},
        stat={FAILOVER: MOVED},
        remove={HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED},
        brief=[(READ, FAILOVER), (WRITE, SOFT), (REMOVE, FAILOVER)],
    ),
    Row(
        LabFault(name="server killed for good", kind=KILL),
        read={HARD: HELD, SOFT: TIMED_OUT, FAILOVER: MOVED},
        write={HARD: HELD_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: LOST},
        sync={HARD: HELD, SOFT: TIMED_OUT, FAILOVER: MOVED},
        hold={HARD: HELD_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: MOVED_AND_MENDED},
        entries={FAILOVER: MOVED},
        create={HARD: HELD, SOFT: TIMED_OUT},
        remove={HARD: HELD},
        brief=[(READ, HARD), (SYNC, FAILOVER), (CREATE, HARD), (CREATE, FAILOVER)],
    ),
    Row(
        LabFault(name="server stopped (SIGSTOP) for 5 s", kind=STOP, seconds=5.0),
        read={HARD: SILENT, SOFT: TIMED_OUT, FAILOVER: MOVED},
        write={HARD: SILENT, SOFT: TIMED_OUT_LOST_OR_NOT, FAILOVER: LOST},
        sync={FAILOVER: MOVED},
        hold={FAILOVER: MOVED_AND_MENDED},
        create={FAILOVER: MOVED},
        remove={FAILOVER: MOVED},
        brief=[(WRITE, HARD), (READ, FAILOVER)],
    ),
    both(
        LabFault(
            name="packets dropped both ways for 2 s",
            kind=DROP,
            seconds=2.0,
            instances=Instances.ONE,
        ),
        {HARD: SILENT, SOFT: TIMED_OUT, FAILOVER: MOVED},
        {SOFT: TIMED_OUT_LOST_OR_NOT},
        create={HARD: SILENT, SOFT: TIMED_OUT, FAILOVER: MOVED},
        remove={HARD: SILENT, FAILOVER: MOVED},
        brief=[(WRITE, HARD), (READ, FAILOVER), (CREATE, FAILOVER)],
    ),
    both(
        LabFault(name="address removed", kind=ADDRESS, instances=Instances.ONE),
        {HARD: HELD_SILENT, SOFT: TIMED_OUT, FAILOVER: MOVED},
        {HARD: HELD_SILENT_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: MOVED_SLOWLY},
        brief=[(WRITE, HARD), (READ, FAILOVER)],
    ),
    both(
        LabFault(
            name="address removed for 2 s", kind=ADDRESS, seconds=2.0, instances=Instances.ONE
        ),
        {HARD: SILENT, SOFT: TIMED_OUT, FAILOVER: MOVED},
        {SOFT: TIMED_OUT_LOST_OR_NOT},
        brief=[(WRITE, HARD)],
    ),
    both(
        LabFault(name="one of four paths dead from the start", kind=KILL, before=True, paths=_FOUR),
        {HARD: CANNOT_REACH, SOFT: CANNOT_REACH, FAILOVER: WITHOUT_IT},
        brief=[(READ, HARD), (WRITE, FAILOVER)],
    ),
    Row(
        LabFault(name="one of four paths dead mid-run", kind=KILL, paths=_FOUR),
        read={HARD: HELD, SOFT: TIMED_OUT, FAILOVER: MOVED},
        write={HARD: HELD_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: LOST},
        sync={HARD: HELD, SOFT: TIMED_OUT, FAILOVER: MOVED},
        hold={FAILOVER: MOVED_AND_MENDED},
        entries={FAILOVER: MOVED},
        create={HARD: HELD, SOFT: TIMED_OUT},
        brief=[(WRITE, FAILOVER), (STAT, FAILOVER)],
    ),
    both(
        LabFault(
            name="one of four paths flapping (0.8 s, three times)",
            kind=DROP,
            seconds=0.8,
            times=3,
            instances=Instances.ONE,
            paths=_FOUR,
            options={**PACED, "rate_iops": 16},
        ),
        {HARD: DONE, SOFT: DONE, FAILOVER: MOVED},
        brief=[(WRITE, FAILOVER)],
    ),
]

GUEST = [
    Row(
        GuestFault(name="knfsd stopped, started after 2 s", act=server_away(2.0)),
        read={HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: DONE},
        write={HARD: LOST, SOFT: TIMED_OUT_LOST, FAILOVER: LOST},
        sync={HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: DONE},
        hold={HARD: MENDED, SOFT: TIMED_OUT_LOST_OR_NOT, FAILOVER: MENDED},
        create={HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: DONE},
        remove={HARD: AGAIN},
        brief=[(WRITE, HARD), (CREATE, HARD)],
    ),
    both(
        GuestFault(name="link down for 2 s", act=link_down(2.0)),
        {HARD: NO_WAY_BACK, SOFT: TIMED_OUT, FAILOVER: NO_WAY_BACK},
        {HARD: NO_WAY_BACK_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: NO_WAY_BACK_LOST},
        brief=[(READ, HARD)],
    ),
    both(
        GuestFault(name="address removed", act=address_removed(None)),
        {HARD: HELD, SOFT: TIMED_OUT, FAILOVER: MOVED},
        {HARD: HELD_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: MOVED_SLOWLY},
        create={FAILOVER: MOVED},
        brief=[(WRITE, FAILOVER)],
    ),
    both(
        GuestFault(name="address removed for 2 s", act=address_removed(2.0), turns=3),
        {HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED},
        {SOFT: TIMED_OUT_LOST_OR_NOT},
        brief=[(READ, FAILOVER)],  # it needs no connection that a broken device would not make
    ),
]

ROWS: Sequence[Row] = [*SCRIPTED, *SCRIPTED4, *LAB, *GUEST]
CELLS: Sequence[Cell] = [cell for row in ROWS for cell in row.cells()]
