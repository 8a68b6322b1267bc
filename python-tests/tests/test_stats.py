# SPDX-License-Identifier: GPL-2.0-only
"""Statistics against answers that are known from elsewhere."""

import dataclasses
import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import block

from nfsmulti import texts
from nfsmulti.report import cells, measures
from nfsmulti.report.story import Judged, Verdict, beyond, judge, weakest
from nfsmulti.stats import Ratio, Sample, holm, jain, merged, percentile_us
from nfsmulti.summary import Cell

_FIGURE = st.floats(min_value=1e-3, max_value=1e6)


def _sample(*values: float) -> Sample:
    return Sample(values)


# --- mean and variation ---


def test_mean_variation_and_interval() -> None:
    """One value has no variation, and two have no interval."""
    one = _sample(2, 4, 4, 4, 5, 5, 7, 9)  # mean 5, sum of squares 32, s² = 32/7
    assert one.mean == 5
    assert one.median == 4  # the lower of the two in the middle, which was measured
    assert one.cv_percent == pytest.approx(100 * math.sqrt(32 / 7) / 5)
    # t(0.975, 2) = 4.302653, s = 1, standard error 1/√3.
    half = 4.302653 / math.sqrt(3)
    assert _sample(9, 10, 11).interval == pytest.approx((10 - half, 10 + half))
    assert _sample(5).cv_percent is None
    assert _sample(5, 6).interval is None
    assert (Sample.of([]), Sample.of([3])) == (None, _sample(3))


# --- ratios of figures that were measured in blocks ---


def test_paired_ratio_is_of_pairs_with_students_interval() -> None:
    from scipy import stats  # takes a second to load

    ratio = Ratio.paired([1, 2, 3], [2, 4, 6])
    assert ratio == Ratio(0.5, 0.5, 0.5, 0, 3, 0)
    assert ratio.text == "0.50 (0.50 to 0.50)"
    assert Ratio.paired([2, 1, 4], [2, 1, 4]).p == 1
    logs = [0, math.log(2), math.log(4)]
    _as_scipy(Ratio.paired([1, 2, 4], [1, 1, 1]), stats.ttest_1samp(logs, 0))
    for values in ([1], [1, 1.1]):  # an interval takes three pairs
        few = Ratio.paired(values, [4] * len(values))
        assert (few.low, few.high, few.p, few.spans_one, few.above(0.1)) == (None,) * 5
    assert Ratio.paired([1], [4]).text == "0.25"


def _as_scipy(ratio: Ratio, tested: Any) -> None:
    interval = tested.confidence_interval(0.95)
    assert ratio.p == pytest.approx(tested.pvalue)
    assert ratio.ends == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_enough_repeats_tell_in_four_of_five_runs() -> None:
    # Textbook: an effect of 0.5 standard deviations takes 34 pairs, of 0.8 it takes 15 (J. Cohen,
    # two-sided 0.05, power 0.80).
    for spread, n in ((2, 34), (1 / 0.8, 15)):
        assert Ratio(math.e, n=3, spread=spread).pairs_to_tell(1) == n
        assert Ratio(1, n=3, spread=spread).pairs_to_tell(math.e) == n
    assert Ratio(math.e, n=99, spread=1 / 0.8).pairs_to_tell(1) == 100
    assert Ratio(math.e, n=3, spread=5).pairs_to_tell(1) == 101


@given(st.lists(st.tuples(_FIGURE, _FIGURE), min_size=3, max_size=6))
def test_ratio_turned_round_is_its_inverse(pairs: list[tuple[float, float]]) -> None:
    over, under = zip(*pairs, strict=True)
    ratio, inverse = Ratio.paired(over, under), Ratio.paired(under, over)
    assert ratio.value * inverse.value == pytest.approx(1)
    assert ratio.p == pytest.approx(inverse.p)


def _ratio(over: list[Cell], under: list[Cell]) -> tuple[float, int] | None:
    """Return the ratio of their rates, and of how many pairs it is."""
    found = cells.ratio(over, under, measures.MB_PER_S)
    return None if found is None else (round(found.value, 9), found.n)


def test_cells_are_paired_by_their_repeat() -> None:
    over = [block(3, 30), block(1, 2), block(2, 10), block(4, 7)]
    under = [block(1, 1), block(2, 5), block(3, 15), block(5, 9)]
    assert _ratio(over, under) == (2, 3)
    assert _ratio([block(1, 1)], [block(2, 1)]) is None
    assert _ratio([block(1, 0)], [block(1, 1)]) is None
    two = [block(1, 2, paths=2), block(1, 8, paths=3)]
    assert _ratio(two, [block(1, 2, paths=1)]) == (2, 1)


def test_cells_are_paired_with_their_like() -> None:
    rates = {"small": 1, "large": 100}
    over, under = (
        [
            block(repeat, times * rate, client=client, size=size)
            for repeat in (1, 2, 3)
            for size, rate in rates.items()
        ]
        for client, times in (("many", 2), ("one", 1))
    )
    for over_lacks, under_lacks, n in (((4,), (5,), 2), ((), (5,), 3), ((0, 2, 4), (), 3)):
        some = [cell for number, cell in enumerate(over) if number not in over_lacks]
        others = [cell for number, cell in enumerate(under) if number not in under_lacks]
        assert _ratio(some, others) == (2, n)


def test_a_pair_that_repeats_lack_neither_shifts_the_ratio_nor_adds_scatter() -> None:
    gains = {"small": 2, "large": 4}
    over = [block(n, gain, many=1, size=size) for size, gain in gains.items() for n in (1, 2, 3)]
    under = [block(n, 1, many=0, size=size) for size in gains for n in (1, 2, 3)]
    balanced, lacking = (
        cells.ratio(found, under, measures.MB_PER_S) for found in (over, over[:-2])
    )
    assert balanced
    assert lacking
    assert lacking.value == pytest.approx(balanced.value)
    assert lacking.n == 3
    assert lacking.spread == pytest.approx(0)
    once = cells.ratio([over[0], over[4]], under, measures.MB_PER_S)  # nothing tells how these vary
    assert once
    assert once.value == pytest.approx(balanced.value)
    assert once.low is None


def test_of_cells_without_their_like_whole_repeats_are_paired() -> None:
    """As in half of a factorial."""
    over, under = (
        [
            block(repeat, times * rate, buffer=buffer, sync=sync, size=size)
            for repeat in (1, 2, 3)
            for (sync, size), rate in zip(half, (1, 100), strict=True)
        ]
        for buffer, times, half in ((2, 2, ((0, 0), (1, 1))), (1, 1, ((0, 1), (1, 0))))
    )
    assert (_ratio(over, under), _ratio(over[:5], under)) == ((2, 3), (2, 2))
    failed = [dataclasses.replace(cell, read=None) for cell in over[1::2]]
    assert _ratio([*over[::2], *failed], under) is None


def test_a_design_with_likes_stays_one_where_those_failed() -> None:
    over = [block(1, 1, a=1, size=0), block(1, 2, a=1, size=1)]
    under = [block(1, 1, a=2, size=0), block(1, 2, a=2, size=1)]
    over[0] = dataclasses.replace(over[0], read=None)
    under[1] = dataclasses.replace(under[1], read=None)
    assert _ratio(over, under) is None


def test_a_drift_between_blocks_does_not_hide_the_ratio() -> None:
    """Each of 1,000 runs has five blocks; its interval holds the true ratio in 95 % of them.

    Analysed as if unpaired, such a run has an interval several times as wide, which holds all and
    finds nothing.
    """
    rng, true, blocks = random.Random(14), 1.2, range(1, 6)
    held, found = Counter[str](), Counter[str]()
    widths = {"paired": 0.0, "unpaired": 0.0}
    for _ in range(1000):
        over, under = [], []
        for repeat in blocks:
            shift = rng.gauss(0, 0.3)
            pair = (math.exp(shift + rng.gauss(0, 0.04)) for _ in range(2))
            over.append(block(repeat, true * next(pair)))
            under.append(block(repeat, next(pair)))
        samples = [cells.sample(side, measures.MB_PER_S) for side in (over, under)]
        assert samples[0] is not None
        assert samples[1] is not None
        for kind, ratio in (
            ("paired", cells.ratio(over, under, measures.MB_PER_S)),
            ("unpaired", Ratio.unpaired(samples[0], samples[1])),
        ):
            assert ratio is not None
            assert ratio.low is not None
            assert ratio.high is not None
            held[kind] += ratio.low <= true <= ratio.high
            found[kind] += bool(ratio.above(1))
            widths[kind] += math.log(ratio.high / ratio.low) / 1000
    assert 935 <= held["paired"] <= 965
    assert held["unpaired"] >= 995
    assert widths["unpaired"] > 4 * widths["paired"]
    assert found["paired"] > 990
    assert found["unpaired"] < 50


# --- ratios of figures of different runs ---


def _welch(over: Sequence[float], under: Sequence[float]) -> Ratio:
    return Ratio.unpaired(Sample(tuple(over)), Sample(tuple(under)))


def test_unpaired_ratio_against_scipys_welch() -> None:
    from scipy import stats

    a, b = (3.1, 3.3, 2.9, 3.0), (2.0, 2.2, 2.6)
    ratio = _welch(a, b)
    assert ratio.value == pytest.approx(stats.gmean(a) / stats.gmean(b))
    logs = ([math.log(value) for value in side] for side in (a, b))
    _as_scipy(ratio, stats.ttest_ind(*logs, equal_var=False))


@pytest.mark.filterwarnings("error")
def test_unpaired_figures_without_an_interval_and_that_do_not_vary() -> None:
    assert _welch([4], [4]) == Ratio(1)
    assert _welch([4, 4], [2, 2, 2]).low is None
    assert _welch([4] * 3, [2] * 3) == Ratio(2, 2, 2, 0)
    assert _welch([2] * 3, [2] * 3) == Ratio(1, 1, 1, 1)
    low, high = _welch([2, 2, 2], [1, 1.1, 0.9]).ends  # one side varies
    assert low < 2 < high


# --- verdicts ---


def test_verdict_on_a_published_ratio() -> None:
    for ours, theirs, verdict in (
        (None, 1.5, Verdict.NOT_MEASURED),
        # the limit is half of their gain: 1.25
        (Ratio(1.5, 1.4, 1.6), 1.5, Verdict.REPRODUCED),
        (Ratio(1.3, 1.26, 1.34), 1.5, Verdict.REPRODUCED),
        (Ratio(1.5, 1.24, 1.81), 1.5, Verdict.INCONCLUSIVE),
        (Ratio(1.2, 1.15, 1.26), 1.5, Verdict.INCONCLUSIVE),
        (Ratio(1.2, 1.16, 1.24), 1.5, Verdict.NOT),
        (Ratio(1.4, 0.9, 14.0), 1.5, Verdict.INCONCLUSIVE),
        # without an interval
        (Ratio(1.5), 1.5, Verdict.INCONCLUSIVE),
        (Ratio(0.99), 1.5, Verdict.INCONCLUSIVE),
    ):
        found = verdict is Verdict.REPRODUCED
        limited = Verdict.BY_CONSTRUCTION if found else verdict
        most = {None: verdict, 1.4: limited, 5: verdict, 1.2: Verdict.NOT_TESTABLE}
        assert {limit: judge(ours, theirs, limit).verdict for limit in most} == most, ours


def test_a_verdict_of_no_gain_is_the_other_side_of_its_limit() -> None:
    for ratio, verdict in (
        (Ratio(1.0, 0.9, 1.04), Verdict.REPRODUCED),
        (Ratio(1.0, 0.9, 1.06), Verdict.INCONCLUSIVE),
        (Ratio(1.1, 1.06, 1.2), Verdict.NOT),
    ):
        assert beyond(ratio, 1.05, below=True).verdict is verdict


def test_an_inconclusive_verdict_says_how_many_repeats_would_tell() -> None:
    # Standard deviation 0.3 about ln 1.5, the limit at ln 1.25, 0.608 of these away.
    wide = Ratio(1.5, 0.9, 2.5, n=4, spread=0.3)
    assert judge(wide, 1.5).why == "4 repeats; about 24 would be enough"
    two = Ratio.paired([1.50, 1.52], [1, 1])
    assert judge(two, 1.5).why == "2 repeats; about 3 would be enough"
    assert judge(Ratio.paired([1.5], [1]), 1.5).why == "1 repeat, and an interval needs 3"
    close = Ratio(1.26, 1.0, 1.6, n=3, spread=0.3)
    assert judge(close, 1.5).why == "3 repeats; more than 100 would be needed"
    alike = Ratio.paired([1, 1], [1, 1])
    assert judge(alike, 1.5).why == "2 repeats, and an interval needs 3"


def test_a_finding_of_several_has_the_verdict_of_the_weakest() -> None:
    found = [
        Judged(Verdict.REPRODUCED, ""), Judged(Verdict.INCONCLUSIVE, "", 4),
        Judged(Verdict.INCONCLUSIVE, "", 9), Judged(Verdict.NOT, ""),
        Judged(Verdict.REPRODUCED, ""),
    ]  # fmt: skip
    expected = [found[0], found[1], found[2], found[3], found[3]]
    assert [weakest(found[:count]) for count in range(1, 6)] == expected


def test_figures_are_written_with_half_of_their_interval() -> None:
    assert [texts.counted(n, "cell") for n in (0, 1, 2)] == ["0 cells", "1 cell", "2 cells"]
    assert texts.measured(Sample((99.0, 100.0, 101.0))) == "100 ± 2"
    assert texts.measured(Sample((99.0, 101.0))) == "100"  # an interval needs three
    assert texts.measured(None) == texts.times(None) == texts.MISSING
    assert texts.times(Ratio(3.75, 3.7, 3.9)) == "3.75 ± 0.15"
    assert texts.times(Ratio(3.75, 0.15, 98.19)) == "3.75 (0.15 to 98.19)"
    assert texts.times(Ratio(1.58, 1.18, 2.12)) == "1.58 (1.18 to 2.12)"
    assert texts.times(Ratio(17.18, 13.79, 21.41)) == "17.2 (13.8 to 21.4)"
    assert texts.times(Ratio(3.75)) == "3.75"


# --- shares ---


def test_jains_index() -> None:
    shares: list[list[float]] = [[1, 1, 1, 1], [1, 0, 0, 0], [0.5, 0.25, 0.25], [3]]
    assert [jain(one) for one in shares] == pytest.approx([1, 0.25, 8 / 9, 1])
    with pytest.raises(ValueError, match="nothing is shared"):
        jain([0, 0])


# --- percentiles ---


@given(st.lists(st.integers(1, 10**9), max_size=30), st.sampled_from([0, 50, 95, 99, 100]))
def test_percentile_is_the_nearest_rank_of_all_bins(latencies: list[int], percent: int) -> None:
    bins = merged({str(latency): 1} for latency in latencies)
    rank = max(1, math.ceil(len(latencies) * percent / 100))
    wanted = sorted(latencies)[rank - 1] / 1000 if latencies else None
    assert percentile_us(bins, percent) == wanted


# --- several tests at once, and likeness ---


def test_holm() -> None:
    # Holm (1979): 0.01 x 4, 0.025 x 3, 0.03 x 2, 0.5 x 1, none below the one before it.
    assert holm([0.03, 0.01, 0.5, 0.025]) == pytest.approx([0.075, 0.04, 0.5, 0.075])
    assert holm([]) == []


def test_likeness_needs_an_interval_not_only_a_small_difference() -> None:
    for ratio, alike in (
        (Ratio(1.01, 0.99, 1.015), True),
        (Ratio(1.01, 0.99, 1.03), False),
        (Ratio(0.99, 0.97, 1.01), False),
        (Ratio(1.0), False),
    ):
        assert ratio.within(0.02) is alike, ratio
