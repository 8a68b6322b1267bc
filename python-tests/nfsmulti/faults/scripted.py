# SPDX-License-Identifier: GPL-2.0-only
"""Faults that a real server does not commit on demand, by the scripted one."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from nfsmulti.faults.cell import ENTRIES, Cell, Fault, Left, Place, RunningJob, Work
from nfsmulti.fiorun import Engine, Fio
from nfsmulti.scripted import (
    Answer,
    Call,
    Nfs,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status,
    Status4,
    Terms,
    mark,
)

_ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
_DEPTH = 8  # of the job

# Gives the answer to call number n (from 1) of those that it is about; None: a sound one.
Answers = Callable[[int, Call], Answer | None]


def once(nth: int, answer: Answer) -> Answers:
    """Answer the nth call so."""
    return lambda number, _: answer if number == nth else None


def first(count: int, answer: Answer) -> Answers:
    """Answer the first few calls so."""
    return lambda number, _: answer if number <= count else None


def each(answer: Answer) -> Answers:
    """Answer all calls so."""
    return lambda _, __: answer


def from_then_on(nth: int, answer: Answer) -> Answers:
    """Answer the nth call and all later ones so."""
    return lambda number, _: answer if number >= nth else None


def unanswered_until(nth: int, answer: Answer) -> Answers:
    """Leave calls unanswered until the nth, which is answered so."""
    silent = Answer(reply=False)
    return lambda number, _: silent if number < nth else answer if number == nth else None


def by_procedure(read: Answers, write: Answers) -> Answers:
    """Answer READs and WRITEs each in their own way."""
    return lambda number, call: (read if call.procedure is Nfs.READ else write)(number, call)


def at(numbers: Collection[int], answer: Answer) -> Answers:
    """Answer the calls of these numbers so."""
    return lambda number, _: answer if number in numbers else None


def in_turn(*some: Answer) -> Answers:
    """Answer the first calls so, each in its own way."""
    return lambda number, _: some[number - 1] if number <= len(some) else None


def over_again() -> Answers:
    """Send before each reply another one, to a call that is finished."""
    finished: list[int] = []

    def answers(_: int, call: Call) -> Answer | None:
        finished.append(call.xid)
        old = finished[:-_DEPTH]
        reply = struct.pack(">6I", old[-1], 1, 0, 0, 0, 0) + bytes(8) if old else b""
        return Answer(before=mark(len(reply)) + reply) if old else None

    return answers


@dataclass(frozen=True, kw_only=True)
class ScriptedFault(Fault):
    """How calls to the victim are answered: those of the work's procedure, or of `procedures`.

    `answers` makes the answers of one run. With `hostile`, the victim answers NULL, by which it is
    asked for a sign of life, no better from the first faulty answer on. With `terms` the job speaks
    NFSv4.1, on these terms of the server.
    """

    answers: Callable[[], Answers]
    procedures: tuple[Procedure, ...] = ()
    terms: Terms | None = None
    hostile: bool = False
    place: Place = Place.SCRIPTED

    def run(self, cell: Cell, engine: Engine, folder: Path) -> Left:
        """Run a cell."""
        hook = _Hook(cell, self)
        terms = replace(self.terms) if self.terms else None  # its answers may change them
        with ScriptedServer(hook, addresses=_ADDRESSES[: cell.paths], terms=terms) as server:
            for name, content in cell.files.items():
                server.create(name, content)
            pool = server.pool4() if self.terms else server.pool()
            with RunningJob(cell, Fio(engine), pool, folder) as job:
                hook.job = job
                left = job.finish(cell.expected)
            left.files = server.all_durable()
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
    """Asks a cell's answers, and notes when the first faulty one is given."""

    def __init__(self, cell: Cell, fault: ScriptedFault):
        self.job: RunningJob | None = None
        self._victim = _ADDRESSES[cell.victim]
        version3, version4 = _CARRIES[cell.work]
        self._procedures = fault.procedures or (version4 if fault.terms else version3,)
        # Directories are asked for their attributes, too.
        self._files = ENTRIES if cell.work is Work.STAT else ()
        self._hostile, self._answers = fault.hostile, fault.answers()
        self._count, self._begun = 0, False

    def __call__(self, call: Call) -> Answer | None:
        """Answer a call as the fault wants it."""
        if call.server[0] != self._victim:
            return None
        if call.procedure is Nfs.NULL and self._hostile and self._begun:
            return replace(self._answers(self._count, call) or Answer(), limit=None)
        if call.procedure not in self._procedures:
            return None
        if self._files and call.file not in self._files:
            return None
        self._count += 1
        answer = self._answers(self._count, call)
        if answer is not None and not self._begun and self.job is not None:
            self._begun = True
            self.job.now()
        return answer


# --- what is done to the server ---


def _reset_soon(server: ScriptedServer) -> None:
    server.later(0.1, server.reset_connections)


def stall(address_of: int, seconds: float) -> Callable[[ScriptedServer], None]:
    """Lose all connections, and take none at one address for a while: its queue is full."""

    def act(server: ScriptedServer) -> None:
        address = server.addresses[min(address_of, len(server.addresses) - 1)]
        server.stall(address)
        server.later(seconds, lambda: server.accept(address))
        server.reset_connections()

    return act


def grant(slots: int | None) -> Callable[[ScriptedServer], None]:
    """Want so many slots of each session used; None: all."""

    def act(server: ScriptedServer) -> None:
        server.terms.target = None if slots is None else slots - 1

    return act


RESET_SOON = Answer(do=_reset_soon)
FORGETS = Answer(do=ScriptedServer.new_verifier)
STRANGER = Answer(before=mark(24) + struct.pack(">6I", 7, 1, 0, 0, 0, 0))
ENDLESS_VERIFIER = Answer(rpc=struct.pack(">3I", 0, 0, 2**32 - 1) + bytes(64))
ENDLESS_DATA = Answer(count=2**32 - 1, length=2**32 - 1)
HUGE_RECORD = Answer(raw=mark(2**31 - 1) + bytes(4096))
GARBAGE = Answer(raw=random.Random(1).randbytes(5000))
JUKEBOX = Answer(status=Status.JUKEBOX)
DELAY, GRACE = Answer(status=Status4.DELAY), Answer(status=Status4.GRACE)
