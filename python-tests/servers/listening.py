# SPDX-License-Identifier: GPL-2.0-only
"""What servers for tests listen by: a thread for each connection, and an end to all of them."""

import contextlib
import socket
import threading
from collections.abc import Callable

_BACKLOG = 256
_SECONDS = 60.0
_FULL_SECONDS = 0.5  # a connection on this machine that takes longer finds the queue full


class Listener:
    """It has `port` at an address until end(), and takes connections there from accept() on.

    `adopt` is called for each of them, one after the other, and returns what its thread does: that
    may end by OSError.
    """

    def __init__(
        self,
        address: str,
        port: int,
        adopt: Callable[[socket.socket], Callable[[], None]],
        receive_buffer: int | None = None,
    ):
        self.address = address
        self._adopt, self._receive_buffer = adopt, receive_buffer
        self.open: set[socket.socket] = set()  # whoever serves one may add its own
        self._threads: list[threading.Thread] = []
        self._accepts: threading.Thread | None = None
        self._fillers: list[socket.socket] = []
        self._keeper = self._bound(port)  # it keeps the port while nobody listens there
        self.port: int = self._keeper.getsockname()[1]
        try:
            self._listener = self._bound(self.port, _BACKLOG)
        except OSError:  # another listens there
            self._keeper.close()
            raise

    def accept(self) -> None:
        """Take connections, also after refuse() or stall()."""
        self.refuse()
        self._listener = self._bound(self.port, _BACKLOG)
        self._accepts = self._start(self._accept, self._listener)

    def refuse(self) -> None:
        """Let connections be refused."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self._fillers):
            one.close()

    def stall(self) -> None:
        """Let connections wait: none is accepted, and the queue of those that wait is full."""
        self.refuse()
        self._listener = self._bound(self.port, backlog=0)
        while self._fill():
            pass

    def end(self) -> None:
        """Give the port up: there will be no more connections."""
        self.refuse()
        self._keeper.close()
        if self._accepts:
            self._accepts.join(_SECONDS)

    def close(self) -> None:
        """Give the port up, and end all connections."""
        self.end()
        for one in tuple(self.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.join()

    def join(self) -> None:
        """Wait until the threads of all connections have ended."""
        for thread in self._threads:
            thread.join(_SECONDS)
            assert not thread.is_alive(), "a connection does not end"

    def _bound(self, port: int, backlog: int | None = None) -> socket.socket:
        """Return a socket that has the port, and listens there where it has a backlog."""
        bound = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._receive_buffer is not None:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        try:
            bound.bind((self.address, port))
            if backlog is not None:
                bound.listen(backlog)
        except OSError:
            bound.close()
            raise
        return bound

    def _fill(self) -> bool:
        """Put a connection into the queue; False where there is no more room."""
        filler = socket.socket(self._listener.family)
        filler.settimeout(_FULL_SECONDS)
        try:
            filler.connect((self.address, self.port))
        except TimeoutError:
            filler.close()
            return False
        self._fillers.append(filler)
        return True

    def _start(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._begin(listener.accept()[0])

    def _begin(self, client: socket.socket) -> None:
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            serve = self._adopt(client)
        except OSError:  # it is gone already
            client.close()
        else:
            self.open.add(client)  # here, so that close() misses none
            self._start(self._serve, client, serve)

    def _serve(self, client: socket.socket, serve: Callable[[], None]) -> None:
        with client, contextlib.suppress(OSError):
            serve()
        self.open.discard(client)


def connect(to: tuple[str, int]) -> socket.socket:
    """Return a connection that sends at once."""
    server = socket.create_connection(to, timeout=_SECONDS)
    server.settimeout(None)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server
