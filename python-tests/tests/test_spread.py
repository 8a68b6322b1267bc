# SPDX-License-Identifier: GPL-2.0-only
"""spread.h: which bytes of an I/O go over which connection.

How connections take turns, and that an I/O stays on one, is in test_engine_spread.py; where
stripes lie is in test_scenarios_files.py.
"""

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from engine_c import CONSTANTS, CData, ffi, zeros

U32 = 2**32 - 1


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


def test_pieces_max_is_what_the_worst_offset_needs(testlib: CData) -> None:
    for stripe_size, length, longest in product(range(1, 9), repeat=3):
        for policy in ("STRIPE", "JOB"):
            spread = spread_of(policy, count=3, stripe_size=stripe_size)
            needed = max(
                len(list(cut(testlib, spread, offset, length, longest)))
                for offset in range(stripe_size)
            )
            told = testlib.spread_pieces_max(spread, length, longest)
            assert told == needed, (policy, stripe_size, length, longest)


def test_stripes_beyond_32_bits_take_turns(testlib: CData) -> None:
    """2^32 stripes are no multiple of three connections."""
    spread = spread_of("STRIPE", first=7, step=2, count=3, stripe_size=4096)
    offset = (2**32 - 2) * 4096
    connections = [one for _, _, one in cut(testlib, spread, offset, 5 * 4096, 5 * 4096)]
    assert connections == [11, 7, 9, 11, 7]


def test_pieces_max_does_not_overflow(testlib: CData) -> None:
    one_byte_stripes = spread_of("STRIPE", count=2, stripe_size=1)
    huge_stripes = spread_of("STRIPE", count=2, stripe_size=2**64 - 1)
    assert testlib.spread_pieces_max(one_byte_stripes, U32, U32) == U32
    assert testlib.spread_pieces_max(huge_stripes, U32, 1) == U32
    assert testlib.spread_pieces_max(huge_stripes, U32, U32) == 2
    assert testlib.spread_pieces_max(spread_of("ROUNDROBIN", count=2), U32, 1) == U32


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13, 64])
def test_queue_chooses_the_least_loaded(testlib: CData, count: int) -> None:
    """Of several the one that was given nothing for longest, as a look at all of them finds it."""
    loads, given_at, chance = [0] * count, [0] * count, random.Random(count)
    flying: list[tuple[int, int]] = []

    def least() -> int:
        return min(range(count), key=lambda i: (loads[i], given_at[i], i))

    load = ffi.gc(testlib.spread_load_new(count), testlib.spread_load_free)
    spread = spread_of("QUEUE", count=count, load=load)
    for turn in range(1, 1000):
        if flying and chance.random() < 0.4:
            connection, size = flying.pop(chance.randrange(len(flying)))
            size = -size
        else:
            size = 4096 * chance.randint(1, 4)
            connection = next(iter(cut(testlib, spread, turn, size, 4096)))[2]
            assert connection == least()
            given_at[connection] = turn
            flying.append((connection, size))
        testlib.spread_load_add(load, connection, size)
        loads[connection] += size
        assert testlib.spread_load_least(load) == least()
