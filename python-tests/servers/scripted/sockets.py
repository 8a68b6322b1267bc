# SPDX-License-Identifier: GPL-2.0-only
"""The server's sockets: one that listens for a program at an address, and a client's connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable, Coroutine
from typing import Protocol

from servers.rpc import LAST_FRAGMENT
from servers.scripted.call import Call, Delivery
from servers.scripted.core import Terms
from servers.scripted.protocol import (
    AcceptStat,
    Mount,
    Nfs,
    RpcCall,
    accepted,
    message,
    parse_call,
    record,
)

_BACKLOG = 256
_FULL_SECONDS = 0.5  # a connection on this machine that takes longer finds the queue full
_RECEIVE_SIZE = 1 << 20
_RECORD_MAX = 128 << 20
_HELD_SECONDS = 0.3
_LINGER_NOT = struct.pack("ii", 1, 0)

Program = type[Nfs] | type[Mount]


class Host(Protocol):
    """What a connection needs of the server."""

    terms: Terms
    reading: asyncio.Event  # is cleared where nothing is to be read

    def carry_out(self, connection: Connection, rpc: RpcCall) -> tuple[Call, Delivery, bytes]:
        """Carry a call out as the script wants; give how it is delivered, and its results.

        Raises EOFError or ValueError where its arguments are none.
        """


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
        with contextlib.suppress(OSError):
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
            word = int.from_bytes(await self._take(4), "big")
            last = bool(word & LAST_FRAGMENT)
            length = word & ~LAST_FRAGMENT
            if length > _RECORD_MAX:
                raise ConnectionAbortedError
            parts.append(await self._take(length))
        return b"".join(parts)

    async def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            await self._host.reading.wait()
            data = await asyncio.get_running_loop().sock_recv(self._socket, _RECEIVE_SIZE)
            if not data:
                raise ConnectionAbortedError
            self._received += data
        taken = bytes(memoryview(self._received)[:count])
        del self._received[:count]
        return taken

    # --- answering ---

    async def _handle(self, data: bytes) -> None:
        try:
            rpc = parse_call(data, without=None if self._host.terms.minors else 4)
        except (EOFError, ValueError):
            raise ConnectionAbortedError from None
        refusal = rpc.refusal
        if refusal is None and isinstance(rpc.procedure, Mount) != (self._program is Mount):
            refusal = accepted(AcceptStat.PROG_UNAVAIL)
        if refusal is None:
            refusal = await self._carry_out(rpc)
        if refusal is not None:
            await self._send(record(message(rpc.xid, refusal)))

    async def _carry_out(self, rpc: RpcCall) -> bytes | None:
        """Carry a call out and deliver the reply, or give why its arguments are refused."""
        try:
            call, how, results = self._host.carry_out(self, rpc)
        except (EOFError, ValueError):
            return accepted(AcceptStat.GARBAGE_ARGS)
        rest = accepted(AcceptStat.SUCCESS, results) if how.rpc is None else how.rpc
        xid = rpc.xid if how.xid is None else how.xid
        delivery = self._deliver(call, how, message(xid, rest))
        if how.delay or how.repeat or how.pause:
            self._later(delivery)
        else:
            await delivery
        return None

    def _later(self, delivery: Coroutine[None, None, None]) -> None:
        """Deliver while further calls are read."""
        task = asyncio.get_running_loop().create_task(delivery)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    # --- sending ---

    async def _deliver(self, call: Call, how: Delivery, reply: bytes) -> None:
        with contextlib.suppress(OSError):
            await asyncio.sleep(how.delay)
            whole = record(reply, how.fragments)
            if how.hold:
                await self._hold(call, whole, how.hold)
            elif how.reply:
                data = how.before + (whole if how.raw is None else how.raw)
                await self._send(data[: how.cut], how.chunk, how.pause)
                call.answered = time.monotonic()
            for seconds in how.repeat:
                await asyncio.sleep(seconds)
                await self._send(whole)
        if how.end == "reset":
            self.reset()
        elif how.end == "close":
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


class Listener:
    """One program's listening socket at one address."""

    def __init__(
        self,
        program: Program,
        address: str,
        port: int,
        receive_buffer: int | None,
        adopt: Callable[[socket.socket, Program], None],
    ):
        self.program, self.address = program, address
        self._receive_buffer, self._adopt = receive_buffer, adopt
        self._socket: socket.socket | None = self._bind(port, listen=True)
        self.port: int = self._socket.getsockname()[1]
        self._fillers: dict[int, socket.socket] = {}  # by their ports

    def open(self) -> None:
        """Accept connections."""
        self._close_fillers()
        if self._socket is None:
            self._socket = self._bind(self.port)
        self._socket.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def refuse(self) -> None:
        """Let connections be refused; the port is kept, so that no other server gets it."""
        self.close()
        self._socket = self._bind(self.port)

    def close(self) -> None:
        """Return the port up."""
        self._close_fillers()
        if self._socket is None:
            return
        with contextlib.suppress(RuntimeError):  # before the server's thread has begun
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None

    def stall(self) -> None:
        """Let connections wait: none is accepted, and the queue of those that wait is full."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.listen(0)
        while self._fill():
            pass

    def _close_fillers(self) -> None:
        for filler in self._fillers.values():
            filler.close()

    def _fill(self) -> bool:
        """Put a connection into the queue; False where there is no more room."""
        assert self._socket is not None
        filler = socket.socket(self._socket.family)
        filler.settimeout(_FULL_SECONDS)
        try:
            filler.connect(self._socket.getsockname())
        except TimeoutError:
            filler.close()
            return False
        self._fillers[filler.getsockname()[1]] = filler
        return True

    def _bind(self, port: int, listen: bool = False) -> socket.socket:
        listening = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET)
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._receive_buffer is not None:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
            listening.bind((self.address, port))
            if listen:  # which fails where another does
                listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
        return listening

    def _accept(self) -> None:
        assert self._socket is not None
        try:
            accepted, peer = self._socket.accept()
        except OSError:  # it is gone already
            return
        if self._fillers.pop(peer[1], None) is not None:
            accepted.close()
        else:
            self._adopt(accepted, self.program)
