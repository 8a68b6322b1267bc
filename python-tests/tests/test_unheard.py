# SPDX-License-Identifier: GPL-2.0-only
"""tcp_socket.c: for how long the other host has not been heard, as its kernel's ACKs tell."""

from __future__ import annotations

import socket
import time

from engine_c import CData, ffi

ffi.cdef("int socket_to(uint16_t);")
ffi.cdef("uint64_t socket_unheard(int);")
_MS = 1_000_000  # in ns
_TICK = 10 * _MS  # the longest of a kernel


def test_silence_is_in_nanoseconds(testlib: CData) -> None:
    """The kernel tells it in milliseconds: the first that is not 0 is between one and all."""
    unheard = 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        begun = time.monotonic_ns()
        with socket.create_connection(listener.getsockname()) as client:
            while not unheard:
                unheard = testlib.socket_unheard(client.fileno())
    assert _MS <= unheard <= time.monotonic_ns() - begun + _TICK


def test_a_host_that_is_alive_is_heard_each_10_s(testlib: CData) -> None:
    """It acknowledges what the kernel sends over an idle connection; one such probe may be lost."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, port = listener.getsockname()
        with socket.socket(fileno=testlib.socket_to(port)) as client:
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            times = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL
            idle, interval = (client.getsockopt(socket.IPPROTO_TCP, one) for one in times)
    assert idle + interval <= 10
