# SPDX-License-Identifier: GPL-2.0-only
"""portion.h: how much one receive takes, against servers that answer each portion at some rate."""

from collections import Counter

import pytest
from engine_c import CONSTANTS, CData, zeros

_MS = 1_000_000


def _receives(testlib: CData, rates: dict[int, float], sleeps: dict[int, float]) -> Counter[int]:
    """Return by which portions 100,000 receives of 40 KB go.

    `rates`: bytes a nanosecond by portion, `sleeps`: those of the thread in a receive.
    """
    portion, sample, seen = zeros("portion"), zeros("portion_sample"), Counter[int]()
    testlib.portion_init(portion)
    now = slept = 0.0
    for receive in range(1, 100_001):
        seen[portion.part] += 1
        now += 40_000 / rates[portion.part]
        slept += sleeps[portion.part]
        portion.receives += 1  # portion_due() is inline
        if portion.receives >= portion.until:
            sample.now, sample.bytes, sample.slept = int(now), receive * 40_000, int(slept)
            testlib.portion_weigh(portion, sample)
    return seen


@pytest.mark.parametrize(
    ("rates", "sleeps", "stays"),
    [
        # A server that is never waited for is asked for no smaller portion.
        ({2: 3.0, 4: 9.0, 8: 9.0}, {2: 0.0, 4: 0.0, 8: 0.0}, 2),
        ({2: 3.0, 4: 9.0, 8: 9.0}, {2: 0.02, 4: 0.0, 8: 0.0}, 2),
        # One that sleeps gets a smaller one where that brings a tenth more.
        ({2: 1.0, 4: 1.2, 8: 9.0}, {2: 0.2, 4: 0.01, 8: 0.0}, 4),
        ({2: 1.0, 4: 1.2, 8: 1.5}, {2: 0.2, 4: 0.2, 8: 0.2}, 8),
        ({2: 1.0, 4: 1.2, 8: 1.25}, {2: 0.2, 4: 0.2, 8: 0.0}, 4),
        ({2: 1.0, 4: 1.05, 8: 9.0}, {2: 0.2, 4: 0.2, 8: 0.2}, 2),
    ],
)
def test_a_smaller_portion_is_kept_where_it_brings_a_tenth_more(
    testlib: CData, rates: dict[int, float], sleeps: dict[int, float], stays: int
) -> None:
    seen = _receives(testlib, rates, sleeps)
    assert seen.most_common(1)[0][0] == stays
    assert seen[stays] > 95_000  # the rest are trials


def test_a_server_that_changes_is_tried_anew(testlib: CData) -> None:
    rates, sleeps = {2: 1.0, 4: 1.2, 8: 1.5}, {2: 0.2, 4: 0.2, 8: 0.2}
    portion, sample = zeros("portion"), zeros("portion_sample")
    testlib.portion_init(portion)
    parts = []
    for polls in (False, True):
        for _ in range(40):  # samples: more than one round of trials
            sample.now += _MS
            sample.bytes += int(_MS * (2.0 if polls else rates[portion.part]))
            sample.slept += 0 if polls else int(1000 * sleeps[portion.part])
            testlib.portion_weigh(portion, sample)
            if portion.phase == CONSTANTS.PORTION_HOLDS:
                parts.append(portion.part)
    assert parts[0] == 8
    assert parts[-1] == 2


def test_a_clock_that_stands_divides_by_nothing(testlib: CData) -> None:
    portion, sample = zeros("portion"), zeros("portion_sample")
    testlib.portion_init(portion)
    for _ in range(20):
        sample.slept += 1000
        testlib.portion_weigh(portion, sample)
        assert portion.part in {2, 4, 8}
