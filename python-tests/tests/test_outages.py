# SPDX-License-Identifier: GPL-2.0-only
"""What is counted of a path's connections, and kept of a client's outages; a job's last lines.

The clock is an argument, in nanoseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from engine_c import CData, ffi, text, zeros

pytestmark = pytest.mark.sanitized

_SEC, _MSEC, _USEC = 10**9, 10**6, 10**3

# What happens to a client: its name, and its instant; whether I/O waits.
_Event = tuple[str, int] | tuple[str, int, bool]


def _lived(lib: CData, events: Sequence[_Event]) -> CData:
    """Return the outages of a client to which that happened."""
    outages = zeros("outages")
    lib.outages_begin(outages, 1)
    lib.outages_up(outages, 1, True)
    for name, *values in events:
        getattr(lib, f"outages_{name}")(outages, *values)
    return outages


def _kept(lib: CData, outages: CData) -> list[tuple[int, int, int]]:
    """Return when it was lost, back and answered, each time."""
    found = [lib.outages_get(outages, n) for n in range(lib.outages_kept(outages))]
    return [(one.lost, one.back, one.answered) for one in found]


def _outage(lost: int, answered: int) -> list[_Event]:
    return [("lost", lost), ("up", lost + 1, True), ("answered", answered)]


# --- connections together ---


def test_each_count_of_a_path_is_that_of_its_connections(testlib: CData) -> None:
    one, both = zeros("counters"), zeros("counters")
    names = [
        name for name, field in ffi.typeof(one[0]).fields if field.type is ffi.typeof("uint64_t")
    ]
    for number, name in enumerate(names, 1):
        setattr(one, name, number)
        setattr(both, name, 100 * number)
    testlib.counters_add(both, one)
    assert [getattr(both, name) for name in names] == [101 * n for n in range(1, len(names) + 1)]


# --- one client's ---


def test_a_connection_lost_before_an_answer_is_of_the_same_outage(testlib: CData) -> None:
    one = _lived(testlib, [
        ("answered", 5), ("lost", 10), ("lost", 11), ("up", 20, True), ("lost", 30),
        ("up", 40, True), ("up", 41, True), ("answered", 50), ("answered", 60),
    ])  # fmt: skip
    assert _kept(testlib, one) == [(10, 40, 50)]
    assert (one.count, one.first_io, one.longest) == (1, 5, 40)


def test_a_client_without_io_is_back_before_its_next_answer(testlib: CData) -> None:
    one = _lived(testlib, [
        ("lost", 10), ("up", 20, False), ("lost", 30), ("up", 45, False), ("answered", 90)
    ])  # fmt: skip
    assert _kept(testlib, one) == [(10, 20, 0), (30, 45, 90)]
    assert (one.count, one.first_io, one.longest) == (2, 90, 15)


def test_what_is_lost_while_it_begins_is_no_outage(testlib: CData) -> None:
    one = zeros("outages")
    testlib.outages_begin(one, 1)
    testlib.outages_lost(one, 2)
    assert one.count == 0
    assert testlib.outages_over(one)


def test_the_newest_outages_are_kept(testlib: CData) -> None:
    """And of all the longest; the last one lasts, though it was back for a while."""
    events = [event for begin in range(100, 600, 100) for event in _outage(begin, begin + 9)]
    lasts: list[_Event] = [("lost", 900), ("up", 910, True), ("lost", 920)]
    one = _lived(testlib, [*_outage(10, 90), *events, *lasts])
    assert _kept(testlib, one) == [(400, 401, 409), (500, 501, 509), (900, 0, 0)]
    assert (one.count, one.longest) == (7, 80)
    assert not testlib.outages_over(one)


# --- the last lines ---


@dataclass(frozen=True)
class Client:
    """One client's figures; `rtt` in microseconds."""

    operations: int = 1
    rtt: int = 100
    events: Sequence[_Event] = ()
    why: str = "?"
    errors: int = 0


def _tell(lib: CData, *clients: Client) -> list[str]:
    """Return the lines that are told of clients, numbered from 10."""
    figures, kept, lines = ffi.new("struct client_figures[]", len(clients)), [], list[str]()
    for number, (client, one) in enumerate(zip(clients, figures, strict=True), start=10):
        one.number, one.operations, one.errors = number, client.operations, client.errors
        one.rtt, one.outages = rtt, outages = zeros("histogram"), _lived(lib, client.events)
        one.why = why = ffi.new("char[]", client.why.encode())
        for _ in range(client.operations):
            lib.histogram_add(rtt, client.rtt * _USEC)
        kept.append((rtt, outages, why))  # what those point to
    lib.clients_tell(
        figures,
        len(clients),
        ffi.callback("void(const char *)", lambda line: lines.append(text(line))),
    )
    for rtt, _, _ in kept:
        lib.histogram_free(rtt)
    return lines


def test_the_slowest_client_is_told_where_all_did_the_same(testlib: CData) -> None:
    assert _tell(testlib, Client(4), Client(4, rtt=50), Client(4, rtt=7000)) == [
        "clients: 3 of 3 served, 4 to 4 operations each, Jain's index 1.0000; p50 (usec): 49.9"
        " (client 11) to 6979.6 (client 12)"
    ]


def test_how_soon_clients_are_back(testlib: CData) -> None:
    """Each by its longest outage; a share of those that lost their connection."""
    _, line, _ = _tell(
        testlib,
        Client(),
        Client(events=[*_outage(10 * _SEC, 11 * _SEC), *_outage(20 * _SEC, 20 * _SEC + 5)]),
        Client(events=_outage(10 * _SEC, 14_132 * _MSEC)),
        Client(events=_outage(10 * _SEC, 50 * _SEC)),
        Client(events=[*_outage(15 * _SEC, 16 * _SEC), ("lost", 60 * _SEC)]),
    )
    assert line == (
        "clients: 4 of 5 lost their connection; back within 1, 5, 10, 30, 90 s: 25.0, 50.0, 50.0,"
        " 50.0, 75.0 %; slowest: client 13 after 40.000 s; not back: 1 of them"
    )


def test_not_all_of_many_are_100_per_cent(testlib: CData) -> None:
    back, away = (Client(events=_outage(10 * _SEC, end * _SEC)) for end in (11, 200))
    _, line = _tell(testlib, *[back] * 4999, away)
    assert "90 s: 99.9, 99.9, 99.9, 99.9, 99.9 %" in line


def test_a_cause_has_one_line(testlib: CData) -> None:
    away: list[_Event] = [("lost", 10)]
    lines = _tell(
        testlib,
        Client(), Client(0, why="refused"), Client(why="refused", events=away),
        Client(0, why="silent"), Client(0, why="refused"),
    )  # fmt: skip
    assert lines[2:] == [
        "clients: 2 not served: refused", "clients: 1 not back: refused",
        "clients: 1 not served: silent",
    ]  # fmt: skip
    assert _tell(testlib, Client(0, errors=1))[1:] == ["clients: 1 not served: ?"]
    # Without I/O there is none.
    assert _tell(testlib, Client(0, events=away)) == [
        "clients: 0 of 1 served, 0 to 0 operations each, Jain's index 0.0000"
    ]
