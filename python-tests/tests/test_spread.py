# SPDX-License-Identifier: GPL-2.0-only
"""spread.h: which bytes of an I/O go over which connection.

Where stripes lie is in test_scenarios_files.py, what each direction and each job has in
test_engine_spread.py.
"""

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from engine_c import CONSTANTS, CData, ffi, zeros
from simulated import BLOCK, BLOCKS, SECOND, Scenarios, on

from servers.scripted import Nfs

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


# --- in a job ---


@pytest.mark.parametrize("policy", ["ROUNDROBIN", "QUEUE"])
def test_blocks_take_idle_connections_in_turn(scenario: Scenarios, policy: str) -> None:
    """Each on one connection, whatever calls it is cut into; over three paths of two each."""
    number = getattr(CONSTANTS, f"SPREAD_{policy}")
    terms = {"paths": 3, "nconnect": 2, "depth": 1, "rsize": BLOCK // 4}
    ran = scenario(reads=True, spread=number, **terms)
    used = [
        {c.connection for c in ran.calls(Nfs.READ) if c.offset // BLOCK == n} for n in range(BLOCKS)
    ]
    addresses = [call.address for call in ran.calls(Nfs.READ)[::4]]
    assert len(ran.calls(Nfs.READ)) == 4 * BLOCKS
    assert len(set.union(*used[:6])) == 6
    assert used == (used[:6] * 3)[:BLOCKS]
    assert addresses == ([0, 1, 2] * BLOCKS)[:BLOCKS]


def test_queue_keeps_away_from_a_path_that_is_held_up(scenario: Scenarios) -> None:
    """The others go on with what is not stuck there."""
    queue = CONSTANTS.SPREAD_QUEUE
    held = on(Nfs.READ, {"delay": 10 * SECOND}, address=1)
    ran = scenario(held, reads=True, spread=queue, paths=3, depth=4)
    calls = ran.calls(Nfs.READ)
    assert len(calls) == BLOCKS
    assert len([call for call in calls if call.address == 1]) <= 2
    assert len([call for call in calls if call.answered < SECOND]) >= BLOCKS - 2
