# SPDX-License-Identifier: GPL-2.0-only
"""The table: each cell of the fault matrix with what must come of it.

What is promised stands in docs/promises.md and nfs(5). Modes and works that a row leaves
out do not apply to its fault.
"""

from __future__ import annotations

import errno
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from nfsmulti.faults.faults import (
    ADDRESS_AWAY,
    LINK_DOWN,
    SERVER_AWAY,
    Answers,
    FaultKind,
    GuestFault,
    LabFault,
    ScriptedFault,
)
from nfsmulti.faults.job import Cell, Expected, Fault, Mode, Work
from nfsmulti.lab import Instances
from servers.scripted import (
    AcceptStat,
    Answer,
    Call,
    Nfs,
    Nfs4,
    ScriptedServer,
    Status,
    Status4,
    Terms,
    accepted,
    mark,
    message,
    record,
)

HARD, SOFT, FAILOVER = Mode
READ, WRITE, SYNC, HOLD, CREATE, STAT, REMOVE, TRIM = Work
KILL, STOP, DROP, ADDRESS = (FaultKind.KILL, FaultKind.STOP, FaultKind.DROP, FaultKind.ADDRESS)

# --- what may come of a cell ---

DONE = Expected("done")
_SILENT = "server not responding, still trying"
_STOPS = f"connection lost with|{_SILENT}"
AGAIN = Expected("done", says=(_STOPS, "server OK"))
SILENT = Expected("done", says=(_SILENT, "server OK"))
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
NO_SPACE = Expected("failed", errno.ENOSPC)
NO_ROOM = replace(NO_SPACE, says=("the server has no room for more entries",))
TIMED_OUT_LOST = replace(TIMED_OUT, loses=True)
# The server may be back in time for the COMMIT, or for what hold_writes writes again.
TIMED_OUT_LOST_OR_NOT = replace(TIMED_OUT, loses=None)
HELD = Expected("held", says=(_STOPS, "giving up"))
HELD_LOST = replace(HELD, loses=True)
HELD_SILENT = Expected("held", says=(_SILENT, "giving up"))
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

Modes = dict[Mode, Expected]


def every(expected: Expected) -> Modes:
    """Expect the same of all modes."""
    return dict.fromkeys(Mode, expected)


# What the modes make of a path that comes back after a while, …
BACK: Modes = {HARD: AGAIN, SOFT: TIMED_OUT, FAILOVER: MOVED}
BACK_SILENT = BACK | {HARD: SILENT}
# … of one that does not, …
GONE: Modes = {HARD: HELD, SOFT: TIMED_OUT, FAILOVER: MOVED}
GONE_LOST: Modes = {HARD: HELD_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: LOST}
# … and of one whose answers are none.
BROKEN: Modes = {HARD: GAVE_UP, SOFT: GAVE_UP, FAILOVER: MOVED}

_NONE: Modes = {}


def row(
    fault: Fault,
    *,
    data: Modes = _NONE,
    read: Modes = _NONE,
    write: Modes = _NONE,
    sync: Modes = _NONE,
    hold: Modes = _NONE,
    entries: Modes = _NONE,
    create: Modes = _NONE,
    stat: Modes = _NONE,
    remove: Modes = _NONE,
    trim: Modes = _NONE,
    brief: Sequence[tuple[Work, Mode]] = (),
) -> Iterator[Cell]:
    """Give the cells of one fault: what is expected of each work, by mode.

    `data` is for reads and writes alike, save what these say otherwise or beside it; `sync` is for
    FILE_SYNC WRITEs and `hold` for hold_writes, which are of interest where a server may forget
    what is UNSTABLE. `entries` is for create, stat and remove in the same way; `trim` is what fares
    as remove does, and stands where fio may see one otherwise than a write: sent again, failed, and
    taken over by another path.
    The short form has the cells in `brief`, if any are given; else all but those that fare as an
    earlier one does, where work on data and on entries count apart.
    """
    on_data = (data | read, data | write, sync, hold)
    on_entries = (entries | create, entries | stat, entries | remove, trim)
    seen: list[tuple[bool, Expected]] = []
    for work, modes in zip(Work, on_data + on_entries, strict=True):
        for mode, expected in modes.items():
            fares = (work.on_entries, expected)
            short = (work, mode) in brief if brief else fares not in seen
            yield Cell(fault, work, mode, expected, short)
            seen.append(fares)


# --- what a scripted server answers ---


def at(answer: Answer, *numbers: int) -> Answers:
    """Answer the calls of these numbers so."""
    return lambda number, _: answer if number in numbers else None


def each(answer: Answer, since: int = 1) -> Answers:
    """Answer all calls from that number on so."""
    return lambda number, _: answer if number >= since else None


def in_turn(*some: Answer) -> Answers:
    """Answer the first calls so, each in its own way."""
    return lambda number, _: some[number - 1] if number <= len(some) else None


class OverAgain:
    """Sends before each reply another one, to a call that is finished."""

    def __init__(self) -> None:
        self._calls: list[int] = []

    def __call__(self, _: int, call: Call) -> Answer | None:
        """Give the answer to a call."""
        self._calls.append(call.xid)
        finished = self._calls[:-8]  # the job has 8 under way
        if not finished:
            return None
        return Answer(before=record(message(finished[-1], accepted(AcceptStat.SUCCESS, bytes(8)))))


def _reset_soon(server: ScriptedServer) -> None:
    server.later(0.1, server.reset_connections)


def _fill_listener(server: ScriptedServer) -> None:
    """Lose all connections, and take none at the victim's address for 3 s: its queue is full."""
    address = server.addresses[:2][-1]
    server.stall(address)
    server.later(3.0, lambda: server.accept(address))
    server.reset_connections()


def _grant(slots: int | None) -> Answer:
    """Want so many slots of each session used; None: all."""

    def act(server: ScriptedServer) -> None:
        server.terms.target = None if slots is None else slots - 1

    return Answer(do=act)


LOST_REPLY = Answer(reply=False, end="reset")
LOST_CALL = Answer(act=False, reply=False, end="reset")
LISTENER_FULL = Answer(do=_fill_listener)
FORGETS = Answer(do=ScriptedServer.new_verifier)
STRANGER = Answer(before=record(message(7, accepted(AcceptStat.SUCCESS))))
ENDLESS_VERIFIER = Answer(rpc=struct.pack(">3I", 0, 0, 2**32 - 1) + bytes(64))
ENDLESS_DATA = Answer(count=2**32 - 1, length=2**32 - 1)
HUGE_RECORD = Answer(raw=mark(2**31 - 1) + bytes(4096))
GARBAGE = Answer(raw=random.Random(1).randbytes(5000))
JUKEBOX = Answer(status=Status.JUKEBOX)
DELAY, GRACE = Answer(status=Status4.DELAY), Answer(status=Status4.GRACE)

# --- the rows ---


def _v41(name: str, answers: Answers, terms: Terms | None = None, **more: Any) -> ScriptedFault:
    return ScriptedFault(f"NFSv4.1: {name}", answers, terms=terms or Terms(), **more)


_ROWS = (
    # Connections
    row(
        ScriptedFault(
            "connection reset while idle",
            at(Answer(do=_reset_soon), 8),
            options={"iodepth": 1, "thinktime": "300ms", "thinktime_blocks": 16, "size": "512k"},
        ),
        data=every(AGAIN),
    ),
    row(
        ScriptedFault(
            "connection reset with 8 calls in flight",
            in_turn(*[Answer(reply=False)] * 7, LOST_REPLY),
        ),
        data=every(AGAIN),
        entries={HARD: AGAIN},  # those that were carried out are found so
        create=every(AGAIN),
        remove=every(AGAIN),
        trim={HARD: AGAIN},
        brief=[(READ, HARD), (CREATE, HARD), (REMOVE, HARD), (TRIM, HARD)],
    ),
    row(
        ScriptedFault("calls lost with the connection, three times", at(LOST_CALL, 8, 16, 24)),
        entries={HARD: AGAIN},
        create={FAILOVER: AGAIN},
    ),
    row(
        ScriptedFault("connection reset in mid-record", at(Answer(cut=60, end="reset"), 10)),
        data=every(AGAIN),
    ),
    row(
        ScriptedFault("listener full for 3 s", at(LISTENER_FULL, 10)),
        data=BACK,
        write={SOFT: TIMED_OUT_LOST_OR_NOT},
        create=BACK,
        remove=BACK,
    ),
    row(
        ScriptedFault("one of four paths slow (100 ms)", each(Answer(delay=0.1)), paths=4),
        data=every(DONE),
    ),
    # What a server may answer
    row(ScriptedFault("short READ", each(Answer(limit=5000))), read=every(DONE)),
    row(ScriptedFault("short WRITE", each(Answer(limit=5000))), write=every(DONE)),
    row(
        ScriptedFault("count 0", at(Answer(limit=0, eof=0), 10)),
        read=every(NOTHING),
        write=every(NONE_TAKEN),
    ),
    row(
        ScriptedFault("JUKEBOX three times", at(JUKEBOX, 1, 2, 3)),
        data=every(DONE),
        entries={HARD: DONE},
        create={SOFT: DONE},
    ),
    row(
        ScriptedFault("STALE", at(Answer(status=Status.STALE), 10)),
        data=every(STALE),
        entries={HARD: DONE},  # what has become stale is looked up once more
        trim={HARD: DONE},
    ),
    row(
        ScriptedFault("NOSPC", at(Answer(status=Status.NOSPC), 10)),
        write=every(NO_SPACE),
        create=every(NO_ROOM),
    ),
    # Durability
    row(
        ScriptedFault(
            "new verifier between WRITE and COMMIT", at(FORGETS, 1), procedures=(Nfs.COMMIT,)
        ),
        write=every(LOST),
        hold=every(MENDED),
    ),
    row(
        ScriptedFault(
            "new verifier on every COMMIT",
            each(FORGETS),
            procedures=(Nfs.COMMIT,),
            options={"fsync": 16},
        ),
        write=every(LOST),
        hold=every(NOT_MENDED),
    ),
    # What a server must not answer
    row(ScriptedFault("unknown xid", each(STRANGER)), data=every(DONE)),
    row(ScriptedFault("duplicate reply", each(Answer(repeat=(0,)))), data=every(DONE)),
    row(ScriptedFault("reply for a finished xid", OverAgain()), data=every(DONE)),
    row(
        ScriptedFault("wrong message type", each(Answer(message_type=0), since=9), hostile=True),
        data=BROKEN,
    ),
    row(ScriptedFault("oversized opaque", each(ENDLESS_DATA, since=9)), read=every(REFUTED)),
    row(
        ScriptedFault("oversized opaque", each(ENDLESS_VERIFIER, since=9), hostile=True),
        write=BROKEN,
    ),
    row(ScriptedFault("truncated record", at(Answer(cut=60, end="close"), 10)), data=every(AGAIN)),
    row(
        ScriptedFault(
            "truncated record each time", each(Answer(cut=20, end="close"), since=9), hostile=True
        ),
        data=GONE,
        write={HARD: HELD_LOST},
        create=GONE,
        remove={FAILOVER: MOVED},
    ),
    row(ScriptedFault("record of 2 GiB", each(HUGE_RECORD, since=9), hostile=True), data=BROKEN),
    row(
        ScriptedFault(
            "one byte at a time", each(Answer(chunk=1)), options={"bs": "1k", "size": "16k"}
        ),
        data=every(DONE),
    ),
    row(
        ScriptedFault("fragments of odd sizes", each(Answer(fragments=(1, 3, 7, 0, 1021)))),
        data=every(DONE),
    ),
    row(ScriptedFault("more data than asked", each(Answer(extra=4), since=9)), read=every(REFUTED)),
    row(
        ScriptedFault("garbage", each(GARBAGE, since=9), hostile=True),
        data=BROKEN,
        entries={FAILOVER: MOVED},
        create={HARD: GAVE_UP, SOFT: GAVE_UP},
        trim={FAILOVER: MOVED},
    ),
    # NFSv4.1: a row for each promise of its recovery
    row(
        _v41("replies lost with the connection, three times", at(LOST_REPLY, 16, 32, 48)),
        data={HARD: AGAIN},
        entries={HARD: AGAIN},
        trim={HARD: AGAIN},
        brief=[(READ, HARD), (CREATE, HARD), (REMOVE, HARD)],
    ),
    row(
        _v41("calls lost with the connection, three times", at(LOST_CALL, 16, 32, 48)),
        data={HARD: AGAIN},
        entries={HARD: AGAIN},
    ),
    row(
        _v41("all sessions ended", at(Answer(do=ScriptedServer.end_sessions), 10)),
        data={HARD: DONE},
        entries={HARD: DONE},
    ),
    row(
        _v41("server starts again", at(Answer(do=ScriptedServer.restart), 10), Terms(grace=1.0)),
        read={HARD: AGAIN},
        write={HARD: LOST},
        sync={HARD: AGAIN},
        hold={HARD: MENDED},
        entries={HARD: AGAIN},
    ),
    row(_v41("lease expired", at(Answer(do=ScriptedServer.expire), 10)), data={HARD: DONE}),
    row(
        _v41(
            "lease expired while the job paused",
            each(Answer()),
            Terms(lease=1, lapses=True),
            options={"iodepth": 1, "thinktime": "3s", "thinktime_blocks": 40},
        ),
        data={HARD: DONE},
    ),
    row(_v41("opens revoked", at(Answer(do=ScriptedServer.revoke), 10)), data={HARD: DONE}),
    row(
        _v41("DELAY and GRACE", in_turn(DELAY, GRACE, DELAY, GRACE)),
        data={HARD: DONE},
        entries={HARD: DONE},
    ),
    row(
        _v41(
            "slots taken back and given again",
            in_turn(*[Answer()] * 9, _grant(1), *[Answer()] * 20, _grant(None)),
        ),
        data={HARD: DONE},
    ),
    row(_v41("one slot", each(Answer()), Terms(slots=1)), data={HARD: DONE}),
    row(
        _v41(
            "no room for a session",
            each(Answer(status=Status4.NOSPC)),
            procedures=(Nfs4.CREATE_SESSION,),
        ),
        read={HARD: NO_SESSION},
    ),
    row(
        _v41("listener full for 3 s", at(LISTENER_FULL, 10)),
        data=BACK,
        write={SOFT: TIMED_OUT_LOST_OR_NOT},
    ),
    # Of nfs-ganesha in a lab
    row(
        LabFault("server killed, back after 0.5 s", KILL, 0.5),
        read=every(DONE),
        write=every(LOST),
        sync=every(DONE),
        hold=every(MENDED),
        entries={HARD: DONE},
        create=every(DONE),
        trim={HARD: DONE},
        brief=[(WRITE, HARD), (SYNC, HARD), (HOLD, HARD), (CREATE, HARD)],
    ),
    row(
        LabFault("NFSv4.1: server killed, back after 0.5 s", KILL, 0.5, version="4.1"),
        read={HARD: DONE},
        write={HARD: LOST},
        sync={HARD: DONE},
        hold={HARD: MENDED},
        entries={HARD: DONE},
    ),
    row(
        LabFault("server killed, back after 2 s", KILL, 2.0),
        read=BACK,
        write={HARD: LOST, SOFT: TIMED_OUT_LOST, FAILOVER: LOST},
        sync=BACK,
        hold={HARD: MENDED, SOFT: TIMED_OUT_LOST_OR_NOT, FAILOVER: MOVED_AND_MENDED},
        create=BACK,
        stat={FAILOVER: MOVED},
        remove=BACK,
        brief=[(READ, FAILOVER), (WRITE, SOFT), (REMOVE, FAILOVER)],
    ),
    row(
        LabFault("server killed for good", KILL),
        read=GONE,
        write=GONE_LOST,
        sync=GONE,
        hold=GONE_LOST | {FAILOVER: MOVED_AND_MENDED},
        entries={FAILOVER: MOVED},
        create={HARD: HELD, SOFT: TIMED_OUT},
        remove={HARD: HELD},
        brief=[(READ, HARD), (SYNC, FAILOVER), (CREATE, HARD), (CREATE, FAILOVER)],
    ),
    row(
        LabFault("server stopped (SIGSTOP) for 5 s", STOP, 5.0),
        read=BACK_SILENT,
        write={HARD: SILENT, SOFT: TIMED_OUT_LOST_OR_NOT, FAILOVER: LOST},
        sync={FAILOVER: MOVED},
        hold={FAILOVER: MOVED_AND_MENDED},
        create={FAILOVER: MOVED},
        remove={FAILOVER: MOVED},
        brief=[(WRITE, HARD), (READ, FAILOVER)],
    ),
    row(
        LabFault("packets dropped both ways for 2 s", DROP, 2.0, instances=Instances.ONE),
        data=BACK_SILENT,
        write={SOFT: TIMED_OUT_LOST_OR_NOT},
        create=BACK_SILENT,
        remove={HARD: SILENT, FAILOVER: MOVED},
        brief=[(WRITE, HARD), (READ, FAILOVER), (CREATE, FAILOVER)],
    ),
    row(
        LabFault("address removed", ADDRESS, instances=Instances.ONE),
        data=GONE | {HARD: HELD_SILENT},
        write={HARD: HELD_SILENT_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: MOVED_SLOWLY},
        brief=[(WRITE, HARD), (READ, FAILOVER)],
    ),
    row(
        LabFault("address removed for 2 s", ADDRESS, 2.0, instances=Instances.ONE),
        data=BACK_SILENT,
        write={SOFT: TIMED_OUT_LOST_OR_NOT},
        brief=[(WRITE, HARD)],
    ),
    row(
        LabFault("one of four paths dead from the start", KILL, before=True, paths=4),
        data=every(CANNOT_REACH) | {FAILOVER: WITHOUT_IT},
        brief=[(READ, HARD), (WRITE, FAILOVER)],
    ),
    row(
        LabFault("one of four paths dead mid-run", KILL, paths=4),
        read=GONE,
        write=GONE_LOST,
        sync=GONE,
        hold={FAILOVER: MOVED_AND_MENDED},
        entries={FAILOVER: MOVED},
        create={HARD: HELD, SOFT: TIMED_OUT},
        brief=[(WRITE, FAILOVER), (STAT, FAILOVER)],
    ),
    row(
        LabFault(
            "one of four paths flapping (0.8 s, three times)",
            DROP,
            0.8,
            times=3,
            instances=Instances.ONE,
            paths=4,
            options={"rate_iops": 16},
        ),
        data={HARD: DONE, SOFT: DONE, FAILOVER: MOVED},
        brief=[(WRITE, FAILOVER)],
    ),
    # Of the kernel's server in a guest
    row(
        GuestFault("knfsd stopped, started after 2 s", SERVER_AWAY, 2.0),
        read=BACK | {FAILOVER: DONE},
        write={HARD: LOST, SOFT: TIMED_OUT_LOST, FAILOVER: LOST},
        sync=BACK | {FAILOVER: DONE},
        hold={HARD: MENDED, SOFT: TIMED_OUT_LOST_OR_NOT, FAILOVER: MENDED},
        create=BACK | {FAILOVER: DONE},
        remove={HARD: AGAIN},
        brief=[(WRITE, HARD), (CREATE, HARD)],
    ),
    row(
        GuestFault("link down for 2 s", LINK_DOWN, 2.0),
        data={HARD: NO_WAY_BACK, SOFT: TIMED_OUT, FAILOVER: NO_WAY_BACK},
        write={HARD: NO_WAY_BACK_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: NO_WAY_BACK_LOST},
        brief=[(READ, HARD)],
    ),
    row(
        GuestFault("address removed", ADDRESS_AWAY),
        data=GONE,
        write={HARD: HELD_LOST, SOFT: TIMED_OUT_LOST, FAILOVER: MOVED_SLOWLY},
        create={FAILOVER: MOVED},
        brief=[(WRITE, FAILOVER)],
    ),
    row(
        GuestFault("address removed for 2 s", ADDRESS_AWAY, 2.0, turns=3),
        data=BACK,
        write={SOFT: TIMED_OUT_LOST_OR_NOT},
        brief=[(READ, FAILOVER)],  # it needs no connection that a broken device would not make
    ),
)

CELLS: Sequence[Cell] = [cell for cells in _ROWS for cell in cells]
