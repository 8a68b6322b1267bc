# SPDX-License-Identifier: GPL-2.0-only
"""Analysis of variance against a textbook, and level means against those that were put in."""

from __future__ import annotations

import itertools
import random

import pandas as pd
import pytest
from scipy import stats

from nfsmulti.report.effects import Estimate, Model
from nfsmulti.stats import holm

# E. W. Crampton, The growth of the odontoblast of the incisor teeth (1947), as in R's ToothGrowth:
# length by supplement and dose, ten animals each.
_TEETH = {
    ("VC", 0.5): [4.2, 11.5, 7.3, 5.8, 6.4, 10, 11.2, 11.2, 5.2, 7],
    ("VC", 1.0): [16.5, 16.5, 15.2, 17.3, 22.5, 17.3, 13.6, 14.5, 18.8, 15.5],
    ("VC", 2.0): [23.6, 18.5, 33.9, 25.5, 26.4, 32.5, 26.7, 21.5, 23.3, 29.5],
    ("OJ", 0.5): [15.2, 21.5, 17.6, 9.7, 14.5, 10, 8.2, 9.4, 16.5, 9.7],
    ("OJ", 1.0): [19.7, 23.3, 23.6, 26.4, 20, 25.2, 25.8, 21.2, 14.5, 27.3],
    ("OJ", 2.0): [25.5, 26.4, 22.4, 24.5, 24.8, 30.9, 26.4, 27.3, 29.4, 23],
}


def _teeth() -> Model:
    rows = [(*key, value) for key, values in _TEETH.items() for value in values]
    return Model(pd.DataFrame(rows, columns=["supp", "dose", "len"]), ["supp", "dose"], "len")


def test_anova_of_a_textbooks_data() -> None:
    # summary(aov(len ~ supp * factor(dose), ToothGrowth))
    supp, dose, both = _teeth().effects()
    assert (supp.factors, dose.factors, both.factors) == (("supp",), ("dose",), ("supp", "dose"))
    assert [one.freedom for one in (supp, dose, both)] == [1, 2, 2]
    assert [one.sum_squares for one in (supp, dose, both)] == pytest.approx(
        [205.35, 2426.43, 108.32], abs=0.01
    )
    assert [one.f for one in (supp, dose, both)] == pytest.approx([15.572, 92.0, 4.107], abs=0.001)
    assert supp.p == pytest.approx(0.000231, abs=1e-6)
    assert dose.p < 1e-15
    assert both.p == pytest.approx(0.0219, abs=1e-4)
    assert both.partial_eta == pytest.approx(108.319 / (108.319 + 712.106), rel=1e-4)
    assert _teeth().residual[1] == 54


def test_means_of_a_textbooks_data() -> None:
    model = _teeth()
    assert model.mean({"supp": "OJ", "dose": 0.5}).value == pytest.approx(13.23)
    assert model.mean({"supp": "OJ"}).value == pytest.approx((13.23 + 22.70 + 26.06) / 3)
    gap = model.difference({"supp": "OJ"}, {"supp": "VC"})
    assert gap.value == pytest.approx(3.7)
    assert gap.p == pytest.approx(0.000231, abs=1e-6)  # as the F test, of one degree of freedom
    assert gap.interval == pytest.approx((3.7 - 1.880, 3.7 + 1.880), abs=0.002)


def test_missing_runs_favour_no_level() -> None:
    rng = random.Random(1)
    rows = [
        (a, b, c, 10 * a + 100 * b + rng.gauss(0, 0.01))
        for a, b, c in itertools.product((1, 2), (1, 2, 3), range(4))
        if (a, b) != (1, 3) or c == 0
    ]
    model = Model(pd.DataFrame(rows, columns=["a", "b", "c", "y"]), ["a", "b"], "y")
    assert model.interactions
    assert model.difference({"a": 2}, {"a": 1}).value == pytest.approx(10, abs=0.05)


def test_runs_too_few_for_interactions_give_the_factors_alone() -> None:
    rows = [(a, b, c, a + b + c) for a, b, c in itertools.product((0, 1), repeat=3)]
    half = [row for row in rows if sum(row[:3]) % 2 == 0]
    names = ["a", "b", "c", "y"]
    model = Model(pd.DataFrame([*rows, *half], columns=names), ["a", "b", "c"], "y")
    assert model.interactions
    model = Model(pd.DataFrame([*half, *half], columns=names), ["a", "b", "c"], "y")
    assert not model.interactions
    assert [one.factors for one in model.effects()] == [("a",), ("b",), ("c",)]
    with pytest.raises(ValueError, match="too few runs"):
        Model(pd.DataFrame(half, columns=names), ["a", "b", "c"], "y")


def test_a_drift_between_blocks_is_neither_a_factor_nor_noise() -> None:
    rng = random.Random(1)
    rows = [
        (a, b, block, a + 0.1 * b + 5 * block + rng.gauss(0, 0.01))
        for a, b, block in itertools.product((1, 2), (1, 2, 3), range(4))
    ]
    table = pd.DataFrame(rows[1:], columns=["a", "b", "block of runs", "y"])
    model = Model(table, ["a", "b"], "y", "block of runs")
    assert [one.factors for one in model.effects()] == [("a",), ("b",), ("a", "b")]
    assert model.residual[1] == 23 - 1 - 1 - 2 - 2 - 3
    assert model.residual[0] / model.residual[1] < 0.02**2
    assert model.difference({"a": 2}, {"a": 1}).value == pytest.approx(1, abs=0.02)
    assert model.mean({}).value == pytest.approx(1.5 + 0.2 + 7.5, abs=0.02)
    one = table[table["block of runs"] == 1]
    assert Model(one, ["a"], "y", "block of runs").residual[1] == 6 - 2


def _in_turn(blocks: int, levels: tuple[int, ...] = (1, 8)) -> pd.DataFrame:
    """Make runs of a factor `s` that is set in turn, of no effect, whose turns drift."""
    rng = random.Random(1)
    drift = {(s, block): rng.gauss(0, 1) for s in levels for block in range(blocks)}
    rows = [
        (a, b, s, block, drift[s, block] + a * s + rng.gauss(0, 0.1))
        for a, b, s, block in itertools.product((-1, 1), range(4), levels, range(blocks))
    ]
    return pd.DataFrame(rows, columns=["a", "b", "s", "block", "y"])


def test_a_factor_that_is_set_in_turn_is_tested_between_its_turns() -> None:
    table = _in_turn(5)
    model = Model(table, ["a", "b", "s"], "y", "block", "s")
    effects = {one.factors: one for one in model.effects()}
    turns = table.groupby(["s", "block"])["y"].mean()
    paired = stats.ttest_rel(turns[8], turns[1])
    assert effects["s",].p == pytest.approx(paired.pvalue)
    gap = model.difference({"s": 8}, {"s": 1})
    assert gap.interval == pytest.approx(tuple(paired.confidence_interval(0.95)))
    assert gap.p == pytest.approx(paired.pvalue)
    assert effects["a", "s"].p < 1e-9  # as the drift of a turn falls on both levels of a
    at = model.difference({"a": 1, "s": 8}, {"a": -1, "s": 8})
    assert at.interval == pytest.approx((16 - 0.1, 16 + 0.1), abs=0.1)
    assert model.difference({"a": 1, "s": 8}, {"a": 1, "s": 1}).error > gap.error


def test_what_differs_partly_between_turns_is_held_by_its_interval_at_two_blocks() -> None:
    """At least 95 % of runs; with Satterthwaite's degrees of freedom 92 %."""
    rng, held = random.Random(1), 0
    cells = list(itertools.product((1, 2), range(2), (1, 8), range(2)))
    for _ in range(200):
        drift = {(s, block): rng.gauss(0, 0.1) for s in (1, 8) for block in range(2)}
        rows = [(a, s, block, drift[s, block] + rng.gauss(0, 0.1)) for a, _, s, block in cells]
        table = pd.DataFrame(rows, columns=["a", "s", "block", "y"])
        model = Model(table, ["a", "s"], "y", "block", "s")
        interval = model.difference({"a": 2, "s": 8}, {"a": 1, "s": 1}).interval
        assert interval
        held += interval[0] <= 0 <= interval[1]
    assert held >= 190


def test_a_block_without_each_turn_is_left_out_and_one_alone_tells_nothing() -> None:
    table = _in_turn(4)
    lacking = table[(table["block"] != 2) | (table["s"] != 8)]
    whole = Model(table[table["block"] != 2], ["a", "b", "s"], "y", "block", "s")
    assert Model(lacking, ["a", "b", "s"], "y", "block", "s").effects() == whole.effects()
    alone = Model(table[table["block"] == 2], ["a", "b", "s"], "y", "block", "s")
    effects = {one.factors: one for one in alone.effects()}
    assert (effects["s",].p, effects["a", "s"].p < 0.001) == (1, True)
    gap = alone.difference({"s": 8}, {"s": 1})
    assert (gap.interval, gap.p, gap.within(1000)) == (None, 1, 1)
    apart = table[(table["block"] == 0) == (table["s"] == 8)]
    with pytest.raises(ValueError, match="no repeat has two levels of s"):
        Model(apart, ["a", "b", "s"], "y", "block", "s")


@pytest.mark.parametrize(
    ("failed", "left_out"),
    [([1, 2, 3], {"s": [64]}), ([3], {"block": [3]}), ([], {})],
)
def test_a_level_that_is_rarely_set_costs_itself_alone(
    failed: list[int], left_out: dict[str, list[int]]
) -> None:
    table = _in_turn(4, (1, 8, 64))
    lacking = table[(table["s"] != 64) | ~table["block"].isin(failed)]
    model = Model(lacking, ["a", "b", "s"], "y", "block", "s")
    assert model.left_out == left_out
    rest = table[~table["s"].isin(left_out.get("s", []))]
    rest = rest[~rest["block"].isin(left_out.get("block", []))]
    assert model.effects() == Model(rest, ["a", "b", "s"], "y", "block", "s").effects()


def test_a_factor_of_one_level_is_left_out() -> None:
    rows = [(a, "x", 0.1 * n + a) for a in (1, 2) for n in range(3)]
    table = pd.DataFrame(rows, columns=["a", "b", "y"])
    assert list(Model(table, ["a", "b"], "y").levels) == ["a"]
    with pytest.raises(ValueError, match="no factor"):
        Model(table, ["b"], "y")


def test_equivalence_needs_precision_not_only_a_small_difference() -> None:
    # t(20) of (0.05 - 0.01) / 0.01 = 4 upwards, and 6 downwards: the larger p is that of 4.
    assert Estimate(0.01, 0.01, 20).within(0.05) == pytest.approx(0.000352, abs=1e-6)
    assert Estimate(0.01, 0.05, 20).within(0.05) > 0.05
    assert Estimate(0.06, 0.001, 20).within(0.05) > 0.99
    assert Estimate(-0.06, 0.001, 20).within(0.05) > 0.99
    assert (Estimate(0.01, 0, 20).within(0.05), Estimate(0.06, 0, 20).within(0.05)) == (0, 1)


def test_holm() -> None:
    # Holm (1979): 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.5 x 1, none below the one before it.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([]) == []
