# SPDX-License-Identifier: GPL-2.0-only
"""spread.h: which bytes of an I/O go over which connection.

How connections take turns, and that an I/O stays on one, is in test_engine_spread.py.
"""

from collections.abc import Iterator
from typing import Any

from engine_c import CONSTANTS, CData, ffi, zeros
from hypothesis import example, given
from hypothesis import strategies as st

U32 = 2**32 - 1
# The file's last byte may be the last that 64 bits can name.
OFFSETS = st.one_of(st.integers(0, 1 << 24), st.integers(0, 2**63 - 1 - U32))
LENGTHS = st.one_of(st.integers(1, 1 << 16), st.integers(1, 1 << 26))
STRIPES = st.one_of(
    st.integers(1, 1 << 20), st.integers(1, 2**64 - 1), st.sampled_from([4096, 65536, 1 << 20])
)
COUNTS = st.one_of(st.integers(1, 64), st.integers(1, 1 << 20))


def spread_of(policy: str, **members: Any) -> CData:
    values = {"policy": getattr(CONSTANTS, f"SPREAD_{policy}"), "step": 1, **members}
    return ffi.new("struct spread *", values)


def cut(
    lib: CData, spread: CData, offset: int, length: int, longest: int
) -> Iterator[tuple[int, int, int]]:
    """Cut an I/O as the engine does: (offset, length, connection) of each piece."""
    piece, at, end = zeros("spread_piece"), offset, offset + length
    while at < end:
        lib.spread_cut(spread, at, end - at, longest, at == offset, piece)
        yield piece.offset, piece.length, piece.connection
        assert piece.length
        at += piece.length


@st.composite
def striped(draw: st.DrawFn) -> tuple[CData, int, int, int]:
    """Draw stripes, an offset, a length and a longest piece: that makes some hundred pieces."""
    first, step = draw(st.integers(0, 1000)), draw(st.integers(1, 64))
    size = draw(STRIPES)
    spread = spread_of("STRIPE", first=first, step=step, count=draw(COUNTS), stripe_size=size)
    length = min(draw(LENGTHS), size * 300)
    shortest = -(-length // 300)
    return spread, draw(OFFSETS), length, draw(st.integers(shortest, max(shortest, 1 << 22)))


@given(striped())
def test_stripe_cuts_where_it_must_and_puts_each_byte_on_its_connection(
    testlib: CData, case: tuple[CData, int, int, int]
) -> None:
    spread, offset, length, longest = case
    at = offset
    for start, size, connection in cut(testlib, spread, offset, length, longest):
        assert start == at
        assert 1 <= size <= longest
        at += size
        stripes = {start // spread.stripe_size, (at - 1) // spread.stripe_size}
        assert {spread.first + s % spread.count * spread.step for s in stripes} == {connection}
        assert size == longest or at % spread.stripe_size == 0 or at == offset + length
    assert at == offset + length


@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.sampled_from(["STRIPE", "JOB"])
)
@example(1, 1, 1, "STRIPE")
@example(2, 2, 2, "STRIPE")
def test_pieces_max_is_what_the_worst_offset_needs(
    testlib: CData, stripe_size: int, length: int, max_length: int, policy: str
) -> None:
    spread = spread_of(policy, count=3, stripe_size=stripe_size)
    needed = [
        len(list(cut(testlib, spread, offset, length, max_length))) for offset in range(stripe_size)
    ]
    assert testlib.spread_pieces_max(spread, length, max_length) == max(needed)


def test_stripes_beyond_32_bits_take_turns(testlib: CData) -> None:
    """2^32 stripes are no multiple of three connections."""
    spread = spread_of("STRIPE", first=7, step=1, count=3, stripe_size=4096)
    offset = (2**32 - 2) * 4096
    connections = [one for _, _, one in cut(testlib, spread, offset, 5 * 4096, 5 * 4096)]
    assert connections == [9, 7, 8, 9, 7]


def test_pieces_max_does_not_overflow(testlib: CData) -> None:
    one_byte_stripes = spread_of("STRIPE", count=2, stripe_size=1)
    huge_stripes = spread_of("STRIPE", count=2, stripe_size=2**64 - 1)
    assert testlib.spread_pieces_max(one_byte_stripes, U32, U32) == U32
    assert testlib.spread_pieces_max(huge_stripes, U32, 1) == U32
    assert testlib.spread_pieces_max(huge_stripes, U32, U32) == 2
    assert testlib.spread_pieces_max(spread_of("ROUNDROBIN", count=2), U32, 1) == U32


@given(st.integers(1, 70), st.data())
def test_queue_chooses_the_least_loaded(testlib: CData, count: int, data: st.DataObject) -> None:
    """Of several the one that was given nothing for longest, as a look at all of them finds it."""
    loads, given_at, turns = [0] * count, [0] * count, iter(range(1, 1000))
    flying: list[tuple[int, int]] = []

    def least() -> int:
        return min(range(count), key=lambda i: (loads[i], given_at[i], i))

    load = ffi.gc(testlib.spread_load_new(count), testlib.spread_load_free)
    spread = spread_of("QUEUE", count=count, load=load)
    for step in data.draw(st.lists(st.integers(0, 1 << 22), max_size=200)):
        if flying and step % 3 == 0:
            connection, size = flying.pop(step % len(flying))
            size = -size
        else:
            size = 4096 * (1 + step % 4)
            connection = next(iter(cut(testlib, spread, step, size, 4096)))[2]
            assert connection == least()
            given_at[connection] = next(turns)
            flying.append((connection, size))
        testlib.spread_load_add(load, connection, size)
        loads[connection] += size
        assert testlib.spread_load_least(load) == least()
