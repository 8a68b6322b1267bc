# SPDX-License-Identifier: GPL-2.0-only
"""What a proxy listens by: a thread for each connection, and an end to all of them."""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

_SECONDS = 60.0


class Listening(ABC):
    """It listens on `port` from `_listen()` until `with` ends, and then waits for its threads."""

    port: int

    @abstractmethod
    def cut(self) -> None:
        """End all connections."""

    @abstractmethod
    def _serve(self, client: socket.socket) -> None:
        """Serve one connection, in a thread of its own: OSError ends it."""

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._keeper.close()
        self.cut()
        for thread in self._threads:
            thread.join(_SECONDS)
            assert not thread.is_alive(), "a connection does not end"

    def _listen(self, address: str, port: int = 0) -> None:
        self._threads: list[threading.Thread] = []
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        # It keeps the port while nobody listens there.
        self._keeper = socket.socket(self._family)
        self._keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._keeper.bind((address, port))
        self.port = self._keeper.getsockname()[1]
        self.accept()

    def refuse(self) -> None:
        """Take no more connections, until accept()."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def accept(self) -> None:
        """Take connections, on the same port as ever."""
        at = self._keeper.getsockname()[:2]
        self._listener = socket.create_server(at, family=self._family)
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._begin, client)

    def _begin(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._serve(client)


def connect(to: tuple[str, int]) -> socket.socket:
    """Return a connection that sends at once."""
    server = socket.create_connection(to, timeout=_SECONDS)
    server.settimeout(None)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server
