# SPDX-License-Identifier: GPL-2.0-only
"""How long a call is waited for, by nfs(5), and since when another host has not been heard.

timers.h, and tcp_socket.c, as the kernel's ACKs tell. How long calls that are put off, calls of
soft jobs and connections wait are scenarios.
"""

import socket
import time

import pytest
from engine_c import CData, ffi
from engine_helpers import eventually

pytestmark = pytest.mark.sanitized

ffi.cdef("bool timers_overdue(uint64_t, uint32_t, uint64_t);")
ffi.cdef("int socket_to(uint16_t);")
ffi.cdef("uint64_t socket_unheard(int);")
_MS, _S = 1_000_000, 1_000_000_000  # in ns
_TICK = 10 * _MS  # the longest of a kernel


@pytest.mark.parametrize(
    ("timeo", "tries", "waits"),
    [
        (60 * _S, 1, 60 * _S),
        (60 * _S, 2, 120 * _S),  # by as much each time: it does not double
        (60 * _S, 3, 180 * _S),
        (60 * _S, 10, 600 * _S),
        (60 * _S, 11, 600 * _S),  # the longest
        (700 * _S, 1, 600 * _S),
        (100 * _MS, 7, 700 * _MS),
    ],
)
def test_a_timeout_grows_by_timeo_up_to_600_s(
    testlib: CData, timeo: int, tries: int, waits: int
) -> None:
    assert not testlib.timers_overdue(timeo, tries, waits)
    assert testlib.timers_overdue(timeo, tries, waits + 1)


def test_silence_is_in_nanoseconds(testlib: CData) -> None:
    """The kernel tells it in milliseconds: the first that is not 0 is between one and all."""
    unheard = 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        begun = time.monotonic_ns()
        with socket.create_connection(listener.getsockname()) as client:
            while not unheard:
                unheard = testlib.socket_unheard(client.fileno())
    assert _MS <= unheard <= time.monotonic_ns() - begun + _TICK


def test_a_host_that_only_acknowledges_is_heard(testlib: CData) -> None:
    """It has sent no byte: a server may be silent, while its host is there."""
    silence = 0
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):

        def unheard() -> int:
            return int(testlib.socket_unheard(client.fileno()))

        while silence < 3 * _TICK:
            silence = unheard()
        eventually(lambda: client.send(b"?") and unheard() < silence)


def test_a_host_that_is_alive_is_heard_each_10_s(testlib: CData) -> None:
    """It acknowledges what the kernel sends over an idle connection; one such probe may be lost."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, port = listener.getsockname()
        with socket.socket(fileno=testlib.socket_to(port)) as client:
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            times = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL
            idle, interval = (client.getsockopt(socket.IPPROTO_TCP, one) for one in times)
    assert idle + interval <= 10
