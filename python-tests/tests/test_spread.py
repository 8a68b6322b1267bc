# SPDX-License-Identifier: GPL-2.0-only
"""spread.h: which bytes of an I/O go over which connection."""

import ctypes
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pool_abi import JOB, QUEUE, ROUNDROBIN, STRIPE, Spread, SpreadLibrary, SpreadLoad

U32 = 2**32 - 1
# The file's last byte may be the last that 64 bits can name.
OFFSETS = st.one_of(st.integers(0, 1 << 24), st.integers(0, 2**63 - 1 - U32))
LENGTHS = st.one_of(st.integers(1, 1 << 16), st.integers(1, 1 << 26))
STRIPES = st.one_of(
    st.integers(1, 1 << 20), st.integers(1, 2**64 - 1), st.sampled_from([4096, 65536, 1 << 20])
)
COUNTS = st.one_of(st.integers(1, 64), st.integers(1, 1 << 20))


@pytest.fixture(scope="module")
def spreads(testlib: ctypes.CDLL) -> SpreadLibrary:
    return SpreadLibrary(testlib)


@st.composite
def ios(draw: st.DrawFn, stripe_size: int | None = None) -> tuple[int, int, int]:
    """Draw an offset, a length and a longest piece that make no more than some hundred pieces."""
    offset, length = draw(OFFSETS), draw(LENGTHS)
    shortest = -(-length // 300)
    if stripe_size:
        length = min(length, stripe_size * 300)
    return offset, length, draw(st.integers(shortest, max(shortest, 1 << 22)))


@st.composite
def striped(draw: st.DrawFn) -> tuple[Spread, tuple[int, int, int]]:
    count = draw(COUNTS)
    spread = Spread(
        policy=STRIPE,
        first=draw(st.integers(0, 1000)),
        step=draw(st.integers(1, 64)),
        count=count,
        stripe_size=draw(STRIPES),
    )
    return spread, draw(ios(spread.stripe_size))


def turning(policy: int, count: int, first: int = 0, step: int = 1) -> Spread:
    return Spread(policy=policy, first=first, step=step, count=count)


def check_pieces(pieces: list[tuple[int, int, int]], io: tuple[int, int, int]) -> None:
    """Every byte is covered once, in order, by pieces that are not too long."""
    offset, length, max_length = io
    at = offset
    for start, size, _connection in pieces:
        assert start == at
        assert 1 <= size <= max_length
        at += size
    assert at == offset + length


@given(striped())
def test_stripe_cuts_where_it_must_and_puts_each_byte_on_its_connection(
    spreads: SpreadLibrary, case: tuple[Spread, tuple[int, int, int]]
) -> None:
    spread, io = case
    pieces = list(spreads.cut(spread, *io))
    check_pieces(pieces, io)
    for start, size, connection in pieces:
        stripes = {start // spread.stripe_size, (start + size - 1) // spread.stripe_size}
        assert {spread.first + s % spread.count * spread.step for s in stripes} == {connection}
    for start, size, _connection in pieces[:-1]:
        assert size == io[2] or (start + size) % spread.stripe_size == 0


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.sampled_from([STRIPE, JOB]))
@example(1, 1, 1, STRIPE)
@example(2, 2, 2, STRIPE)
def test_pieces_max_is_what_the_worst_offset_needs(
    spreads: SpreadLibrary, stripe_size: int, length: int, max_length: int, policy: int
) -> None:
    spread = Spread(policy=policy, step=1, count=3, stripe_size=stripe_size)
    needed = [
        len(list(spreads.cut(spread, offset, length, max_length))) for offset in range(stripe_size)
    ]
    assert spreads.pieces_max(spread, length, max_length) == max(needed)


@given(striped(), st.integers(0, 2**40))
def test_pieces_max_holds_for_large_numbers(
    spreads: SpreadLibrary, case: tuple[Spread, tuple[int, int, int]], stripe: int
) -> None:
    spread, (offset, length, max_length) = case
    most = spreads.pieces_max(spread, length, max_length)
    worst = (stripe % (2**62 // spread.stripe_size + 1)) * spread.stripe_size
    worst += spread.stripe_size - 1
    assert len(list(spreads.cut(spread, offset, length, max_length))) <= most
    if worst + length < 2**64:
        assert len(list(spreads.cut(spread, worst, length, max_length))) == most


def test_pieces_max_does_not_overflow(spreads: SpreadLibrary) -> None:
    one_byte_stripes = Spread(policy=STRIPE, step=1, count=2, stripe_size=1)
    huge_stripes = Spread(policy=STRIPE, step=1, count=2, stripe_size=2**64 - 1)
    assert spreads.pieces_max(one_byte_stripes, U32, U32) == U32
    assert spreads.pieces_max(huge_stripes, U32, 1) == U32
    assert spreads.pieces_max(huge_stripes, U32, U32) == 2
    assert spreads.pieces_max(turning(ROUNDROBIN, 2), U32, 1) == U32


@given(st.sampled_from([JOB, ROUNDROBIN]), ios())
def test_an_io_stays_on_one_connection(
    spreads: SpreadLibrary, policy: int, io: tuple[int, int, int]
) -> None:
    pieces = list(spreads.cut(turning(policy, 5), *io))
    check_pieces(pieces, io)
    assert len({connection for _offset, _length, connection in pieces}) == 1


@given(st.sampled_from([JOB, ROUNDROBIN]), st.integers(1, 70), st.data())
def test_turns_are_fair(
    spreads: SpreadLibrary, policy: int, count: int, data: st.DataObject
) -> None:
    first, step = data.draw(st.integers(0, 70)), data.draw(st.integers(1, 70))
    lengths = data.draw(st.lists(st.integers(1, 10), max_size=300))
    spread = turning(policy, count, first, step)
    chosen = [next(iter(spreads.cut(spread, 0, length, 3)))[2] for length in lengths]
    assert chosen == [first + i % count * step for i in range(len(lengths))]
    shares = [Counter(chosen)[first + i * step] for i in range(count)]
    assert max(shares) - min(shares) <= 1


class QueueModel:
    """The load as spread.h promises it, by looking at every connection each time."""

    def __init__(self, count: int) -> None:
        self.load = [0] * count
        self.given = [0] * count
        self.givings = 0

    def add(self, connection: int, count: int) -> None:
        """Give bytes to a connection, or (negative) take them off."""
        self.load[connection] += count
        if count > 0:
            self.givings += 1
            self.given[connection] = self.givings

    def least(self) -> int:
        """Find the connection to choose."""
        return min(range(len(self.load)), key=lambda i: (self.load[i], self.given[i], i))


@given(st.integers(1, 70), st.data())
def test_queue_chooses_the_least_loaded(
    spreads: SpreadLibrary, count: int, data: st.DataObject
) -> None:
    model = QueueModel(count)
    flying: list[tuple[int, int]] = []
    with SpreadLoad(spreads, count) as load:
        spread = Spread(policy=QUEUE, step=1, count=count, load=load.handle)
        for step in data.draw(st.lists(st.integers(0, 1 << 22), max_size=200)):
            if flying and step % 3 == 0:
                connection, size = flying.pop(step % len(flying))
                load.add(connection, -size)
                model.add(connection, -size)
                continue
            size = 4096 * (1 + step % 4)
            connection = next(iter(spreads.cut(spread, step, size, 4096)))[2]
            assert model.load[connection] == min(model.load)
            assert connection == model.least()
            load.add(connection, size)
            model.add(connection, size)
            flying.append((connection, size))
            assert load.least() == model.least()


@given(ios(), st.integers(1, 9), st.data())
def test_queue_keeps_an_io_on_one_connection(
    spreads: SpreadLibrary, io: tuple[int, int, int], count: int, data: st.DataObject
) -> None:
    with SpreadLoad(spreads, count) as load:
        busy = data.draw(st.integers(0, count - 1))
        load.add(busy, 1)
        spread = Spread(policy=QUEUE, step=1, count=count, load=load.handle)
        pieces = []
        for piece in spreads.cut(spread, *io):
            pieces.append(piece)
            load.add(piece[2], piece[1])  # which makes another one the least loaded
    check_pieces(pieces, io)
    assert len({connection for _offset, _length, connection in pieces}) == 1
    assert count == 1 or pieces[0][2] != busy
