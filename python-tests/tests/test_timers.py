# SPDX-License-Identifier: GPL-2.0-only
"""How long a call is waited for, by nfs(5), how long one that is put off waits, and other silence.

timers.h; and tcp_socket.c: since when the other host has not been heard, as its kernel's ACKs tell.
"""

import socket
import time
from collections import Counter

import pytest
from engine_c import CData, ffi

pytestmark = pytest.mark.sanitized

ffi.cdef("bool timers_overdue(uint64_t, uint32_t, uint64_t);")
ffi.cdef("bool timers_expired(uint64_t, unsigned int, bool, uint64_t);")
ffi.cdef("uint64_t timers_delay(uint32_t, bool);")
ffi.cdef("uint64_t timers_pause(bool, uint32_t, uint32_t);")
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


@pytest.mark.parametrize(
    ("timeo", "retrans", "waits"),
    [(60 * _S, 2, 180 * _S), (300 * _MS, 0, 300 * _MS), (600 * _S, 9, 6000 * _S)],
)
def test_a_soft_call_has_timeo_and_as_much_for_each_retransmission(
    testlib: CData, timeo: int, retrans: int, waits: int
) -> None:
    assert not testlib.timers_expired(timeo, retrans, True, waits)
    assert testlib.timers_expired(timeo, retrans, True, waits + 1)
    assert not testlib.timers_expired(timeo, retrans, False, 1000 * waits)  # hard: never


def test_a_call_that_is_put_off_waits_twice_as_long_up_to_5_s(testlib: CData) -> None:
    doubled = [100 * _MS, 200 * _MS, 400 * _MS, 800 * _MS]
    longest = [1600 * _MS, 3200 * _MS, 5 * _S, 5 * _S]
    assert [testlib.timers_delay(times, False) for times in range(8)] == doubled + longest
    assert testlib.timers_delay(2**32 - 1, False) == 5 * _S
    assert [testlib.timers_delay(times, True) for times in range(5)] == [*doubled, _S]  # session


def test_the_pauses_between_connections_double_up_to_1_s(testlib: CData) -> None:
    pauses = [0, *(100 * _MS << times for times in range(4)), _S, _S]
    assert [testlib.timers_pause(False, 1, earlier) for earlier in range(7)] == pauses


@pytest.mark.parametrize("earlier", range(8))
def test_clients_with_jitter_are_spread_evenly_over_1_s(testlib: CData, earlier: int) -> None:
    """So are their later attempts: of 1,000 about 100 are in each tenth of a second."""
    pauses = [testlib.timers_pause(True, client, earlier) for client in range(1, 1001)]
    tenths = Counter(pause * 10 // _S for pause in pauses)
    assert sorted(tenths) == list(range(10))
    assert min(tenths.values()) > 60


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
