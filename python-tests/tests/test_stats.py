# SPDX-License-Identifier: GPL-2.0-only
"""Statistics against answers that are known from elsewhere."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nfsmulti.report.verdict import Verdict, judge, sentence
from nfsmulti.stats.fairness import jain
from nfsmulti.stats.percentiles import merged, percentile_us
from nfsmulti.stats.ratio import Ratio
from nfsmulti.stats.sample import Sample

_FIGURES = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=2, max_size=6)


def _sample(*values: float) -> Sample:
    return Sample(values)


# --- mean and variation ---


def test_mean_and_variation() -> None:
    one = _sample(2, 4, 4, 4, 5, 5, 7, 9)  # mean 5, sum of squares 32, s² = 32/7
    assert one.mean == 5
    assert one.cv_percent == pytest.approx(100 * math.sqrt(32 / 7) / 5)
    assert (Sample.of([]), Sample.of([3])) == (None, _sample(3))


def test_interval_of_a_mean_is_students() -> None:
    # t(0.975, 2) = 4.302653, s = 1, standard error 1/√3.
    interval = _sample(9, 10, 11).interval
    assert interval == pytest.approx((10 - 4.302653 / math.sqrt(3), 10 + 4.302653 / math.sqrt(3)))


def test_one_value_has_no_variation_and_no_interval() -> None:
    assert _sample(5).cv_percent is None
    assert _sample(5).interval is None


# --- ratios ---


def test_ratio_against_welchs_test_by_hand() -> None:
    # Logs 3, 4, 5, 6 and 1, 2, 3: means 4.5 and 2, s²/n = 5/12 and 1/3, so the standard error is
    # √0.75 and Welch's degrees of freedom are 0.75² / ((5/12)²/3 + (1/3)²/2) = 4.959.
    ratio = Ratio.of(_sample(*map(math.exp, (3, 4, 5, 6))), _sample(*map(math.exp, (1, 2, 3))))
    assert ratio is not None
    assert ratio.value == pytest.approx(math.exp(2.5))
    assert ratio.low is not None
    assert ratio.high is not None
    half = math.log(ratio.high / ratio.low) / 2
    assert half / math.sqrt(0.75) == pytest.approx(2.577, abs=0.001)  # t(0.975, 4.959)
    assert ratio.p == pytest.approx(0.0345, abs=0.0005)  # of t = 2.887


def test_ratio_against_scipys_welch() -> None:
    a, b = (3.1, 3.3, 2.9, 3.0), (2.0, 2.2, 2.6)
    tested = stats.ttest_ind([*map(math.log, a)], [*map(math.log, b)], equal_var=False)
    ratio = Ratio.of(Sample(a), Sample(b))
    assert ratio is not None
    assert ratio.p == pytest.approx(tested.pvalue)
    interval = tested.confidence_interval(0.95)
    assert ratio.low == pytest.approx(math.exp(interval.low))
    assert ratio.high == pytest.approx(math.exp(interval.high))


def test_several_ratios_together() -> None:
    # Two pairs alike: the same ratio, half the variance, twice Welch's degrees of freedom.
    a, b = _sample(*map(math.exp, (3, 4, 5, 6))), _sample(*map(math.exp, (1, 2, 3)))
    ratio = Ratio.together([(a, b), (a, b)])
    assert ratio.value == pytest.approx(math.exp(2.5))
    assert ratio.high is not None
    half = math.log(ratio.high / ratio.value)
    assert half == pytest.approx(
        math.sqrt(0.75 / 2) * float(stats.t.ppf(0.975, 2 * 4.9592)), rel=1e-4
    )
    opposite = Ratio.together([(a, b), (b, a)])
    assert opposite.value == pytest.approx(1)
    assert opposite.spans_one


@given(_FIGURES, _FIGURES)
def test_ratio_turned_round_is_its_inverse(a: list[float], b: list[float]) -> None:
    ratio, inverse = (Ratio.of(Sample(tuple(x)), Sample(tuple(y))) for x, y in ((a, b), (b, a)))
    assert ratio is not None
    assert inverse is not None
    assert ratio.value * inverse.value == pytest.approx(1)
    assert ratio.spans_one == inverse.spans_one


def test_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    rng = random.Random(3)
    held = 0
    for _ in range(400):
        a, b = ([math.exp(rng.gauss(0, 0.05)) for _ in range(4)] for _ in range(2))
        held += bool(ratio.spans_one) if (ratio := Ratio.of(_sample(*a), _sample(*b))) else 0
    assert 0.92 <= held / 400 <= 0.98


def test_ratios_without_an_interval() -> None:
    assert Ratio.of(None, _sample(1)) is None
    assert Ratio.of(_sample(1), _sample(0)) is None
    single = Ratio.of(_sample(6), _sample(2))
    assert single is not None
    assert single.text == "3.00"
    assert single.spans_one is None


def test_figures_that_do_not_vary() -> None:
    assert Ratio.of(_sample(4, 4), _sample(2, 2)) == Ratio(2, 2, 2, 0)
    assert Ratio.of(_sample(2, 2), _sample(2, 2)) == Ratio(1, 1, 1, 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (None, 1.5, Verdict.UNTOLD),
        # nine tenths of theirs
        (Ratio(1.5, 1.4, 1.6), 1.5, Verdict.HOLDS),
        (Ratio(1.35, 1.3, 1.4), 1.5, Verdict.HOLDS),
        (Ratio(1.34, 1.3, 1.4), 1.5, Verdict.IN_KIND),
        # half of their gain
        (Ratio(1.25, 1.2, 1.3), 1.5, Verdict.IN_KIND),
        (Ratio(1.24, 1.2, 1.3), 1.5, Verdict.UNTOLD),
        # a story fails only where the interval excludes it
        (Ratio(3.6, 0.9, 14.0), 3.71, Verdict.UNTOLD),
        (Ratio(2.0, 1.5, 2.6), 3.71, Verdict.UNTOLD),
        (Ratio(2.0, 1.8, 2.2), 3.71, Verdict.NOT),
        (Ratio(1.1, 0.9, 1.3), 3.71, Verdict.NOT),
        # single runs
        (Ratio(1.5), 1.5, Verdict.HOLDS),
        (Ratio(1.34), 1.5, Verdict.UNTOLD),
        (Ratio(0.99), 1.5, Verdict.NOT),
    ],
)
def test_verdict_on_a_published_ratio(ours: Ratio | None, theirs: float, verdict: Verdict) -> None:
    assert judge(ours, theirs) is verdict


def test_verdict_on_single_runs_says_so() -> None:
    assert "may be chance" in sentence(Ratio(1.5), 1.5)
    assert "may be chance" not in sentence(Ratio(1.5, 1.4, 1.6), 1.5)


# --- shares ---


def test_jains_index() -> None:
    shares: list[list[float]] = [[1, 1, 1, 1], [1, 0, 0, 0], [0.5, 0.25, 0.25], [3]]
    assert [jain(one) for one in shares] == pytest.approx([1, 0.25, 8 / 9, 1])


def test_nothing_shared_has_no_index() -> None:
    with pytest.raises(ValueError, match="nothing is shared"):
        jain([0, 0])


# --- percentiles ---


def test_percentiles_come_from_bins_together() -> None:
    # 98 I/Os of 1 ms and 2 of 9 ms; the mean of the two runs' own medians would be 5 ms.
    bins = merged([{"1000000": 98}, {"9000000": 2}])
    assert percentile_us(bins, 50) == 1000
    assert percentile_us(bins, 98) == 1000
    assert percentile_us(bins, 99) == 9000
    assert percentile_us(bins, 0) == 1000
    assert percentile_us(merged([{"7000": 1}, {"7000": 2}]), 100) == 7
    assert percentile_us(merged([]), 50) is None


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30), st.sampled_from([50, 95, 99, 100]))
def test_percentile_is_the_nearest_rank(latencies: list[int], percent: int) -> None:
    bins = merged({str(latency): 1} for latency in latencies)
    rank = math.ceil(len(latencies) * percent / 100)
    assert percentile_us(bins, percent) == sorted(latencies)[rank - 1] / 1000
