# SPDX-License-Identifier: GPL-2.0-only
"""One TCP connection to the scripted server: records in, answers out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Coroutine
from typing import Protocol

from nfsmulti.scripted.answer import Answer, Call
from nfsmulti.scripted.protocol import (
    LAST_FRAGMENT,
    MARK_SIZE,
    AcceptStat,
    Mount,
    Nfs,
    RpcCall,
    accepted,
    message,
    parse_call,
    record,
)

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
