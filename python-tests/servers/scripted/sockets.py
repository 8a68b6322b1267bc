# SPDX-License-Identifier: GPL-2.0-only
"""A client's connection to the server."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import Protocol

from servers.rpc import AcceptStat, accepted, message, receive_record, record
from servers.scripted.call import Call, Delivery
from servers.scripted.core import Terms
from servers.scripted.protocol import Mount, Nfs, RpcCall, parse_call

_LINGER_NOT = struct.pack("ii", 1, 0)
_POLL = 0.05
_RECORD_MAX = 128 << 20

Program = type[Nfs] | type[Mount]


class Host(Protocol):
    """What a connection needs of the server."""

    terms: Terms
    reading: threading.Event  # is cleared where nothing is to be read
    lock: threading.RLock  # is held while calls are carried out, one after the other

    def carry_out(self, connection: Connection, rpc: RpcCall) -> tuple[Call, Delivery, bytes]:
        """Carry a call out as the script wants; give how it is delivered, and its results.

        Raises EOFError or ValueError where its arguments are none.
        """


class Connection:
    """One client's connection, number `number` among those to its port.

    Whoever calls serve() closes its socket then.
    """

    def __init__(self, host: Host, accepted_socket: socket.socket, number: int, program: Program):
        self.number = number
        self.client: tuple[str, int] = accepted_socket.getpeername()[:2]
        self.server: tuple[str, int] = accepted_socket.getsockname()[:2]
        self._host = host
        self._socket = accepted_socket
        self._program = program
        self._sending = threading.Lock()
        self._closing = False
        self._ended = threading.Event()

    def reset(self, how: int = socket.SHUT_RD) -> None:
        """End the connection by RST, and what waits for it: to send as well, by SHUT_RDWR."""
        self._ended.set()
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            self._socket.shutdown(how)

    def close(self) -> None:
        """End the connection by FIN; what the client still sends is read and forgotten."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    # --- receiving ---

    def serve(self) -> None:
        """Serve it to its end, which is an OSError."""
        try:
            while True:
                data = receive_record(self)
                self._check()
                if not self._closing:
                    self._handle(data)
        finally:
            self._ended.set()

    def recv(self, count: int) -> bytes:
        """Receive a part of a record, where the server reads."""
        if count > _RECORD_MAX:
            raise ConnectionAbortedError
        while not self._host.reading.wait(_POLL):
            self._check()
        return self._socket.recv(count)

    def _check(self) -> None:
        if self._ended.is_set():
            raise ConnectionAbortedError

    # --- answering ---

    def _handle(self, data: bytes) -> None:
        try:
            rpc = parse_call(data, without=None if self._host.terms.minors else 4)
        except (EOFError, ValueError):
            raise ConnectionAbortedError from None
        refusal = rpc.refusal
        if refusal is None and isinstance(rpc.procedure, Mount) != (self._program is Mount):
            refusal = accepted(AcceptStat.PROG_UNAVAIL)
        if refusal is None:
            refusal = self._carry_out(rpc)
        if refusal is not None:
            with self._sending:
                self._socket.sendall(record(message(rpc.xid, refusal)))

    def _carry_out(self, rpc: RpcCall) -> bytes | None:
        """Carry a call out and deliver the reply, or give why its arguments are refused."""
        try:
            with self._host.lock:
                self._check()
                call, how, results = self._host.carry_out(self, rpc)
        except (EOFError, ValueError):
            return accepted(AcceptStat.GARBAGE_ARGS)
        rest = accepted(AcceptStat.SUCCESS, results) if how.rpc is None else how.rpc
        reply = message(rpc.xid, rest)
        if how.delay or how.repeat or how.pause:  # further calls are read meanwhile
            threading.Thread(target=self._deliver, args=(call, how, reply), daemon=True).start()
        else:
            self._deliver(call, how, reply)
        return None

    # --- sending ---

    def _deliver(self, call: Call, how: Delivery, reply: bytes) -> None:
        if self._ended.wait(how.delay):
            return
        with contextlib.suppress(OSError):
            whole = record(reply, how.fragments)
            if how.reply:
                data = how.before + (whole if how.raw is None else how.raw)
                self._send(data[: how.cut], call, how.chunk, how.pause)
            for seconds in how.repeat:
                if self._ended.wait(seconds):
                    return
                self._send(whole, call)
        if how.end == "reset":
            self.reset()
        elif how.end == "close":
            self.close()

    def _send(self, data: bytes, call: Call, chunk: int = 0, pause: float = 0.0) -> None:
        """Send a reply; what follows from its arrival is later than its call is answered."""
        with self._sending:
            for at in range(0, len(data), chunk or len(data) or 1):
                call.answered = time.monotonic()
                self._socket.sendall(data[at : at + (chunk or len(data))])
                if chunk and self._ended.wait(pause):
                    return
