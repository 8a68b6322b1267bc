# SPDX-License-Identifier: GPL-2.0-only
"""A proxy before an NFS server that lets a test change what single RPC records become.

with RecordProxy((address, port)) as proxy:
    fault = proxy.replies = Fault(lambda reply: reply.is_bulk, lambda reply: [flipped(reply, -1)])
    ... run a client on proxy.port ...
    assert fault.met

A hook is given each record of its direction and returns those that go on in its place: the same
one, a changed one, none, or several. It may also answer a call by itself (`call.answer`), or keep a
record and send it later (`record.go_on`).
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from servers import rpc
from servers.listening import Listener, connect

INIT = 1
_BULK = 4000  # bytes: what is longer has data of I/O


class Connection:
    """One of the client's, and the one to the server that it has become."""

    def __init__(self, client: socket.socket, server: socket.socket):
        self.client, self.server = client, server
        self._sending = {client: threading.Lock(), server: threading.Lock()}

    def send(self, to: socket.socket, data: bytes) -> None:
        """Send one record, whole."""
        self.send_stream(to, rpc.record(data))

    def send_stream(self, to: socket.socket, data: bytes) -> None:
        """Send bytes that bring their own record marks, right or wrong."""
        with self._sending[to]:
            to.sendall(data)

    def cut(self) -> None:
        """End it at both sides."""
        for one in (self.client, self.server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class Record:
    """One RPC message; `call` is the one that a reply answers."""

    data: bytes
    connection: Connection
    call: Record | None = None

    def word(self, number: int) -> int:
        """Return one of the 32-bit words it consists of."""
        return int.from_bytes(self.data[4 * number : 4 * number + 4], "big")

    @property
    def xid(self) -> int:
        """The number of the call."""
        return self.word(0)

    @property
    def gss_procedure(self) -> int | None:
        """What a call does with its context (RFC 2203, 5): 0 is to use it; None without one."""
        return self.word(9) if self.word(6) == rpc.RPCSEC_GSS else None

    @property
    def is_init(self) -> bool:
        """Whether it makes a context, or answers such a call."""
        return (self.call or self).gss_procedure == INIT

    @property
    def is_bulk(self) -> bool:
        """Whether it has data of I/O."""
        return len(self.data) > _BULK

    @property
    def results_at(self) -> int:
        """Where the results of a reply that was accepted begin."""
        return 24 + self.word(4)  # behind a verifier of that length

    def go_on(self) -> None:
        """Send it where it was to go."""
        connection = self.connection
        connection.send(connection.client if self.call else connection.server, self.data)

    def answer(self, reply: bytes) -> list[bytes]:
        """Answer a call in the server's place, by what follows xid and REPLY: it does not go on."""
        self.connection.send(self.connection.client, rpc.message(self.xid, reply))
        return []

    def deny(self, auth_stat: rpc.AuthStat) -> list[bytes]:
        """Answer a call MSG_DENIED."""
        return self.answer(rpc.denied(auth_stat))


Hook = Callable[[Record], Iterable[bytes]]


def passed(record: Record) -> list[bytes]:
    """Let a record go on as it is."""
    return [record.data]


def flipped(record: Record, at: int) -> list[bytes]:
    """Change one byte of a record."""
    data = bytearray(record.data)
    data[at] ^= 1
    return [bytes(data)]


@dataclass
class Fault:
    """A hook that does something to the first `times` records that are meant; others pass."""

    meant: Callable[[Record], bool]
    become: Hook
    times: int = 1
    met: list[Record] = field(default_factory=list)

    def __call__(self, record: Record) -> Iterable[bytes]:
        """Return what becomes of a record."""
        if len(self.met) >= self.times or not self.meant(record):
            return passed(record)
        self.met.append(record)
        return self.become(record)


@dataclass
class RecordProxy:
    """It listens at `address`, on `port`, while `with` lasts, and leads to a server at `to`.

    One hook runs at a time. `seen` are all calls, `failures` what hooks have raised.
    """

    to: tuple[str, int]
    address: str = "127.0.0.1"
    calls: Hook = passed
    replies: Hook = passed
    seen: list[Record] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._hooks = threading.Lock()
        self._unanswered: dict[int, Record] = {}
        self._failures: list[Exception] = []
        self._listener = Listener(self.address, 0, lambda client: partial(self._serve, client))
        self.port = self._listener.port
        self._listener.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        assert not self._failures, self._failures

    def _serve(self, client: socket.socket) -> None:
        with connect(self.to) as server:
            self._listener.open.add(server)
            connection = Connection(client, server)
            replies = threading.Thread(target=self._pump, args=(connection, server, client))
            replies.start()
            self._pump(connection, client, server)
            replies.join()

    def _pump(self, connection: Connection, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                for data in self._becomes(connection, source, rpc.receive_record(source)):
                    connection.send(to, data)
        connection.cut()

    def _becomes(self, connection: Connection, source: socket.socket, data: bytes) -> list[bytes]:
        with self._hooks:
            try:
                if source is connection.client:
                    call = Record(data, connection)
                    self._unanswered[call.xid] = call
                    self.seen.append(call)
                    return list(self.calls(call))
                (xid,) = struct.unpack_from(">I", data)
                return list(self.replies(Record(data, connection, self._unanswered[xid])))
            except OSError as error:  # the hook has sent, and its connection is gone
                raise EOFError from error
            except Exception as error:
                self._failures.append(error)
                raise EOFError from error
