# SPDX-License-Identifier: GPL-2.0-only
"""How calls are answered: what a script decides, and one TCP connection that carries it out.

A hook is a plain function that is given a call and gives an Answer, or None where it has no wish.
The first hook that has one decides. on() makes the most common hooks.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, Protocol

from nfsmulti.scripted.protocol import (
    LAST_FRAGMENT,
    MARK_SIZE,
    REPLY,
    AcceptStat,
    AuthStat,
    Claim,
    Credentials,
    Mount,
    Nfs,
    Nfs4,
    Procedure,
    RpcCall,
    Stable,
    accepted,
    denied,
    message,
    parse_call,
    record,
)

if TYPE_CHECKING:
    from nfsmulti.scripted.server import ScriptedServer

DATA: tuple[Procedure, ...] = (Nfs.READ, Nfs.WRITE, Nfs.COMMIT)
DATA4: tuple[Procedure, ...] = (Nfs4.READ, Nfs4.WRITE, Nfs4.COMMIT)
_FIRST_UNRESERVED_PORT = 1024


@dataclass(eq=False)
class Call:
    """A call that the server has got, as its log keeps it.

    NFSv4.1: one for COMPOUND, and one for each of its operations that the server came to.
    """

    procedure: Procedure
    xid: int
    connection: int  # its number among those to this port, from 0
    client: tuple[str, int]
    server: tuple[str, int]
    credentials: Credentials
    nth: int  # its number among the calls of this procedure, from 1
    file: str = ""  # relative to the export
    offset: int = 0
    count: int = 0
    stable: Stable = Stable.UNSTABLE
    moved: int = 0  # bytes that READ or WRITE moved, as far as the server is concerned
    time: float = field(default_factory=time.monotonic)
    answered: float | None = None  # when the reply was handed to the kernel

    # NFSv4.1's operations alone
    session: bytes = b""
    slot: int | None = None
    sequence: int = 0
    claim: Claim | None = None  # OPEN's
    wanted: frozenset[int] = frozenset()  # GETATTR: the attributes
    status: int | None = None  # what it ended with; RETRY_UNCACHED_REP is SEQUENCE's
    replayed: bool = False  # SEQUENCE: the slot's reply went out again, nothing was carried out


@dataclass(frozen=True)
class Answer:
    """How a call is answered. As it stands: as a sound server does.

    NFSv4.1: COMPOUND and each operation have answers of their own. What they say of the message
    and how it is sent is taken from the first that says something of it. Where an operation is
    neither carried out nor answered, the compound is as if it had not come: its slot has not moved.
    """

    # What is done
    do: Callable[[ScriptedServer], object] | None = None  # to the server, before all else
    act: bool = True  # False: the call is not carried out, only answered
    reply: bool = True  # False: nothing goes back
    status: int | None = None  # of procedure or operation; unless OK: it is not carried out
    limit: int | None = None  # READ, WRITE: bytes that it moves at most; READDIR: entries

    # What the results say
    count: int | None = None  # READ, WRITE: the count, whatever was moved
    length: int | None = None  # READ: the data's length, whatever it has; READDIR: all cookies
    extra: int = 0  # READ: so many bytes are added to the data, in its count and length as well
    spoil: bool = False  # READ: the data's last byte is another one
    eof: int | None = None  # READ, READDIR
    committed: int | None = None  # WRITE: UNSTABLE is done as well as said
    verifier: bytes | None = None  # WRITE, COMMIT
    attributes: int | None = None  # the flags before optional attributes: 0, 1, or nonsense
    results: bytes | None = None  # other results altogether; of an operation: from its status on

    # What the RPC message says
    rpc: bytes | None = None  # what protocol.accepted(), denied() or rpc_mismatch() give
    xid: int | None = None
    message_type: int = REPLY

    # How it is sent
    delay: float = 0.0  # seconds
    hold: int = 0  # wait until so many replies are held on the connection; the last goes out first
    fragments: tuple[int, ...] = ()  # their sizes, over and over; none: one fragment
    chunk: int = 0  # bytes sent at once
    pause: float = 0.0  # seconds between chunks
    before: bytes = b""  # raw bytes sent before the record
    raw: bytes | None = None  # raw bytes sent in the record's place
    cut: int | None = None  # bytes of the record that are sent
    repeat: Sequence[float] = ()  # it is sent again after so many seconds, and so on
    end: Literal["", "close", "reset"] = ""  # what becomes of the connection then

    def delivers(self) -> bool:
        """Whether it says something of the message, or how it is sent."""
        return any(getattr(self, name) != sound for name, sound in _DELIVERY.items())


_RESULTS = (
    *("do", "act", "status", "limit", "count", "length", "extra", "spoil", "eof"),
    *("committed", "verifier", "attributes", "results"),
)
_DELIVERY = {one.name: one.default for one in fields(Answer) if one.name not in _RESULTS}
SOUND = Answer()

Hook = Callable[[Call], Answer | None]


def on(
    procedures: Procedure | Sequence[Procedure],
    answer: Answer,
    *,
    nth: int | None = None,
    first: int | None = None,
    after: int = 0,
    every: int = 1,
) -> Hook:
    """Answer calls of these procedures so: all, the nth, the first few, those after some.

    `every` picks each so manyth of them.
    """
    wanted = (procedures,) if isinstance(procedures, Nfs | Mount | Nfs4) else tuple(procedures)

    def hook(call: Call) -> Answer | None:
        if call.procedure not in wanted or call.nth <= after:
            return None
        if nth is not None and call.nth != nth:
            return None
        if first is not None and call.nth > first:
            return None
        return answer if call.nth % every == 0 else None

    return hook


def reserved_ports_only(call: Call) -> Answer | None:
    """Refuse callers from unprivileged ports, as an export that is "secure" does."""
    if call.client[1] < _FIRST_UNRESERVED_PORT:
        return None
    return Answer(act=False, rpc=denied(AuthStat.TOOWEAK))


# --- connections ---

_RECEIVE_SIZE = 1 << 20
_RECORD_MAX = 128 << 20
_HELD_SECONDS = 0.3
_LINGER_NOT = struct.pack("ii", 1, 0)

Program = type[Nfs] | type[Mount]


class Host(Protocol):
    """What a connection needs of the server."""

    reading: asyncio.Event

    def carry_out(self, connection: Connection, rpc: RpcCall) -> tuple[Call, Answer, bytes]:
        """Carry a call out as the script wants; give how it is delivered, and its results.

        Raises EOFError or ValueError where its arguments are none.
        """

    def version_refused(self) -> int | None:
        """Give the version of NFS that is not offered."""


class _ConnectionEnded(Exception):  # noqa: N818 - which is no error
    pass


class Connection:
    """One client's connection, number `number` among those to its port."""

    def __init__(self, host: Host, accepted_socket: socket.socket, number: int, program: Program):
        self.number = number
        self.client: tuple[str, int] = accepted_socket.getpeername()[:2]
        self.server: tuple[str, int] = accepted_socket.getsockname()[:2]
        self._host = host
        self._socket = accepted_socket
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._program = program
        self._received = bytearray()
        self._sending = asyncio.Lock()
        self._closing = False
        self._held: list[tuple[Call, bytes]] = []
        self._late: set[asyncio.Task[None]] = set()
        self.task = asyncio.get_running_loop().create_task(self._serve())
        self.task.add_done_callback(self._end)  # also where it is cancelled before it begins

    def reset(self) -> None:
        """End the connection by RST."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.task.cancel()

    def close(self) -> None:
        """End the connection by FIN; what the client still sends is read and forgotten."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    # --- receiving ---

    async def _serve(self) -> None:
        with contextlib.suppress(_ConnectionEnded, OSError):
            while True:
                data = await self._record()
                if not self._closing:
                    await self._handle(data)

    def _end(self, _: asyncio.Task[None]) -> None:
        for task in self._late:
            task.cancel()
        self._socket.close()

    async def _record(self) -> bytes:
        parts, last = [], False
        while not last:
            word = int.from_bytes(await self._take(MARK_SIZE), "big")
            last = bool(word & LAST_FRAGMENT)
            length = word & ~LAST_FRAGMENT
            if length > _RECORD_MAX:
                raise _ConnectionEnded
            parts.append(await self._take(length))
        return b"".join(parts)

    async def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            await self._host.reading.wait()
            data = await asyncio.get_running_loop().sock_recv(self._socket, _RECEIVE_SIZE)
            if not data:
                raise _ConnectionEnded
            self._received += data
        taken = bytes(memoryview(self._received)[:count])
        del self._received[:count]
        return taken

    # --- answering ---

    async def _handle(self, data: bytes) -> None:
        try:
            rpc = parse_call(data, self._host.version_refused())
        except (EOFError, ValueError):
            raise _ConnectionEnded from None
        if rpc.refusal is not None:
            await self._send(record(message(rpc.xid, rpc.refusal)))
        elif isinstance(rpc.procedure, Mount) != (self._program is Mount):
            refusal = accepted(AcceptStat.PROG_UNAVAIL)
            await self._send(record(message(rpc.xid, refusal)))
        else:
            await self._carry_out(rpc)

    async def _carry_out(self, rpc: RpcCall) -> None:
        try:
            call, answer, results = self._host.carry_out(self, rpc)
        except (EOFError, ValueError):
            refusal = accepted(AcceptStat.GARBAGE_ARGS)
            await self._send(record(message(rpc.xid, refusal)))
            return
        rest = accepted(AcceptStat.SUCCESS, results) if answer.rpc is None else answer.rpc
        xid = rpc.xid if answer.xid is None else answer.xid
        delivery = self._deliver(call, answer, message(xid, rest, answer.message_type))
        if answer.delay or answer.repeat or answer.pause:
            self._later(delivery)
        else:
            await delivery

    def _later(self, delivery: Coroutine[None, None, None]) -> None:
        """Deliver while further calls are read."""
        task = asyncio.get_running_loop().create_task(delivery)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    # --- sending ---

    async def _deliver(self, call: Call, answer: Answer, reply: bytes) -> None:
        with contextlib.suppress(OSError):
            await asyncio.sleep(answer.delay)
            whole = record(reply, answer.fragments)
            if answer.hold:
                await self._hold(call, whole, answer.hold)
            elif answer.reply:
                data = answer.before + (whole if answer.raw is None else answer.raw)
                await self._send(data[: answer.cut], answer.chunk, answer.pause)
                call.answered = time.monotonic()
            for seconds in answer.repeat:
                await asyncio.sleep(seconds)
                await self._send(whole)
        if answer.end == "reset":
            self.reset()
        elif answer.end == "close":
            self.close()

    async def _send(self, data: bytes, chunk: int = 0, pause: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        async with self._sending:
            for at in range(0, len(data), chunk or len(data) or 1):
                await loop.sock_sendall(self._socket, data[at : at + (chunk or len(data))])
                if chunk:
                    await asyncio.sleep(pause)

    async def _hold(self, call: Call, whole: bytes, count: int) -> None:
        """Keep a reply back; the one that makes `count` sets all free, the latest first."""
        self._held.append((call, whole))
        if len(self._held) >= count:
            await self._release()
        elif len(self._held) == 1:
            self._later(self._release_in_time())

    async def _release_in_time(self) -> None:
        await asyncio.sleep(_HELD_SECONDS)
        await self._release()

    async def _release(self) -> None:
        held, self._held = self._held, []
        for call, whole in reversed(held):
            await self._send(whole)
            call.answered = time.monotonic()
