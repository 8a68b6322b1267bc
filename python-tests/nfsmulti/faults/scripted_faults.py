# SPDX-License-Identifier: GPL-2.0-only
"""Faults of a server that answers as it is told to: those that a real one commits on no demand."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

from nfsmulti.faults.job import ENTRIES, Cell, Fault, Left, Place, RunningJob, Work
from nfsmulti.fiorun import Engine, Fio
from servers.scripted import (
    AcceptStat,
    Answer,
    Call,
    Nfs,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status,
    Status4,
    Terms,
    accepted,
    mark,
    message,
    record,
)

_LOOPBACK = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")

# Gives the answer to call number n (from 1) of those that it is about; None: a sound one.
Answers = Callable[[int, Call], Answer | None]


@dataclass(frozen=True)
class ScriptedFault(Fault):
    """How calls to the victim are answered: those of the work's procedure, or of `procedures`.

    With `hostile`, the victim answers NULL, by which it is asked for a sign of life, no better from
    the first faulty answer on. With `terms` the job speaks NFSv4.1, on these terms of the server.
    """

    place = Place.SCRIPTED
    answers: Answers
    _: KW_ONLY
    procedures: Sequence[Procedure] = ()
    terms: Terms | None = None
    hostile: bool = False

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell."""
        hook = _Hook(cell, self)
        terms = replace(self.terms) if self.terms else None  # its answers may change them
        with ScriptedServer(hook, addresses=_LOOPBACK[: cell.paths], terms=terms) as server:
            for name, content in cell.files.items():
                server.create(name, content)
            pool = server.pool4() if self.terms else server.pool()
            with RunningJob(cell, Fio(engine), pool, folder) as job:
                left = job.finish()
            left.came, left.files = hook.begun, server.all_durable()
        return left


# What carries a block or an entry of each work, by version.
_CARRIES: dict[Work, tuple[Procedure, Procedure]] = {
    Work.READ: (Nfs.READ, Nfs4.READ),
    Work.WRITE: (Nfs.WRITE, Nfs4.WRITE),
    Work.SYNC: (Nfs.WRITE, Nfs4.WRITE),
    Work.HOLD: (Nfs.WRITE, Nfs4.WRITE),
    Work.CREATE: (Nfs.CREATE, Nfs4.OPEN),
    Work.STAT: (Nfs.GETATTR, Nfs4.GETATTR),
    Work.REMOVE: (Nfs.REMOVE, Nfs4.REMOVE),
    Work.TRIM: (Nfs.REMOVE, Nfs4.REMOVE),
}


class _Hook:
    """Asks a fault for the answers to a cell, and notes that a faulty one was given."""

    def __init__(self, cell: Cell, fault: ScriptedFault):
        self.begun = False
        self._victim = _LOOPBACK[cell.victim]
        version3, version4 = _CARRIES[cell.work]
        self._procedures = fault.procedures or (version4 if fault.terms else version3,)
        # Directories are asked for their attributes, too.
        self._files = ENTRIES if cell.work is Work.STAT else ()
        self._hostile = fault.hostile
        self._answers = copy.deepcopy(fault.answers)  # they may remember calls
        self._count = 0

    def __call__(self, call: Call) -> Answer | None:
        """Answer a call as the fault wants it."""
        if call.server[0] != self._victim:
            return None
        if call.procedure is Nfs.NULL and self._hostile and self.begun:
            return self._answers(self._count, call)
        if call.procedure not in self._procedures or (self._files and call.file not in self._files):
            return None
        self._count += 1
        answer = self._answers(self._count, call)
        self.begun |= answer is not None
        return answer


# --- answers ---


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
        """Return the answer to a call."""
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


# --- the faults ---


def _v41(name: str, answers: Answers, terms: Terms | None = None, **more: Any) -> ScriptedFault:
    return ScriptedFault(f"NFSv4.1: {name}", answers, terms=terms or Terms(), **more)


FAULTS = (
    ScriptedFault(
        "connection reset while idle",
        at(Answer(do=_reset_soon), 8),
        options={"iodepth": 1, "thinktime": "300ms", "thinktime_blocks": 16, "size": "512k"},
    ),
    ScriptedFault(
        "connection reset with 8 calls in flight",
        in_turn(*[Answer(reply=False)] * 7, LOST_REPLY),
    ),
    ScriptedFault("calls lost with the connection, three times", at(LOST_CALL, 8, 16, 24)),
    ScriptedFault("connection reset in mid-record", at(Answer(cut=60, end="reset"), 10)),
    ScriptedFault("listener full for 3 s", at(LISTENER_FULL, 10)),
    ScriptedFault("one of four paths slow (100 ms)", each(Answer(delay=0.1)), paths=4),
    ScriptedFault("short READ", each(Answer(limit=5000))),
    ScriptedFault("short WRITE", each(Answer(limit=5000))),
    ScriptedFault("count 0", at(Answer(limit=0, eof=0), 10)),
    ScriptedFault("JUKEBOX three times", at(JUKEBOX, 1, 2, 3)),
    ScriptedFault("STALE", at(Answer(status=Status.STALE), 10)),
    ScriptedFault("NOSPC", at(Answer(status=Status.NOSPC), 10)),
    ScriptedFault(
        "new verifier between WRITE and COMMIT", at(FORGETS, 1), procedures=(Nfs.COMMIT,)
    ),
    ScriptedFault(
        "new verifier on every COMMIT",
        each(FORGETS),
        procedures=(Nfs.COMMIT,),
        options={"fsync": 16},
    ),
    ScriptedFault("unknown xid", each(STRANGER)),
    ScriptedFault("duplicate reply", each(Answer(repeat=(0,)))),
    ScriptedFault("reply for a finished xid", OverAgain()),
    ScriptedFault("wrong message type", each(Answer(message_type=0), since=9), hostile=True),
    ScriptedFault("oversized data", each(ENDLESS_DATA, since=9)),
    ScriptedFault("oversized verifier", each(ENDLESS_VERIFIER, since=9), hostile=True),
    ScriptedFault("truncated record", at(Answer(cut=60, end="close"), 10)),
    ScriptedFault(
        "truncated record each time", each(Answer(cut=20, end="close"), since=9), hostile=True
    ),
    ScriptedFault("record of 2 GiB", each(HUGE_RECORD, since=9), hostile=True),
    ScriptedFault("one byte at a time", each(Answer(chunk=1)), options={"bs": "1k", "size": "16k"}),
    ScriptedFault("fragments of odd sizes", each(Answer(fragments=(1, 3, 7, 0, 1021)))),
    ScriptedFault("more data than asked", each(Answer(extra=4), since=9)),
    ScriptedFault("garbage", each(GARBAGE, since=9), hostile=True),
    _v41("replies lost with the connection, three times", at(LOST_REPLY, 16, 32, 48)),
    _v41("calls lost with the connection, three times", at(LOST_CALL, 16, 32, 48)),
    _v41("all sessions ended", at(Answer(do=ScriptedServer.end_sessions), 10)),
    _v41("server starts again", at(Answer(do=ScriptedServer.restart), 10), Terms(grace=1.0)),
    _v41("lease expired", at(Answer(do=ScriptedServer.expire), 10)),
    _v41(
        "lease expired while the job paused",
        each(Answer()),
        Terms(lease=1, lapses=True),
        options={"iodepth": 1, "thinktime": "3s", "thinktime_blocks": 40},
    ),
    _v41("opens revoked", at(Answer(do=ScriptedServer.revoke), 10)),
    _v41("DELAY and GRACE", in_turn(DELAY, GRACE, DELAY, GRACE)),
    _v41(
        "slots taken back and given again",
        in_turn(*[Answer()] * 9, _grant(1), *[Answer()] * 20, _grant(None)),
    ),
    _v41("one slot", each(Answer()), Terms(slots=1)),
    _v41(
        "no room for a session",
        each(Answer(status=Status4.NOSPC)),
        procedures=(Nfs4.CREATE_SESSION,),
    ),
    _v41("listener full for 3 s", at(LISTENER_FULL, 10)),
)
