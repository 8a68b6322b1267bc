# SPDX-License-Identifier: GPL-2.0-only
"""What a sweep's runs say of its factors, one direction at a time.

The model's response is the logarithm of the speed, so that effects are ratios and level means are
geometric. Settings are the factors that one can choose; direction and transfer are the work.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfsmulti import texts
from nfsmulti.effects import Effect, Level, Model, holm
from nfsmulti.report import cells
from nfsmulti.report.story import Judged, Verdict
from nfsmulti.stats import Ratio
from nfsmulti.summary import Summary
from nfsmulti.texts import Table

if TYPE_CHECKING:
    import pandas as pd

DIRECTIONS = ("read", "write")
WORK = ("direction", "transfer")
# As no factor can be named.
_REPEAT, _SPEED = "in repeat", "its speed"
_SIGNIFICANT = 0.05
_MATTERS = 0.02  # a factor matters where its best level exceeds its worst by that, and p agrees
ALIKE = _MATTERS  # two settings are alike where their speeds differ by less
_FLAT = 0.05  # a plateau's levels differ by less than that
KNEE = 32768
_FULL = 0.9  # of what a lab's link carries, headers and all


@dataclass(frozen=True)
class Direction:
    """One direction's runs, and what was made of them."""

    name: str
    runs: pd.DataFrame
    factors: list[str]
    model: Model | None
    why_none: str = ""

    @property
    def settings(self) -> list[str]:
        """The factors with more than one level that can be chosen."""
        return [name for name in self.levels if name not in WORK]

    @property
    def levels(self) -> dict[str, list[Level]]:
        """The levels of each factor that has more than one, numbers by size."""
        if self.model is None:
            return {}
        return {name: _sorted(found) for name, found in self.model.levels.items()}

    @property
    def left_out(self) -> list[str]:
        """The levels and repeats that its model leaves out: "threads 64", "repeat 4"."""
        left = self.model.left_out if self.model else {}
        names = {_REPEAT: "repeat"}
        return [f"{names.get(name, name)} {one}" for name, found in left.items() for one in found]


def direction_of(summary: Summary, name: str) -> Direction | None:
    """Take a direction's runs and fit their model; None where there are none."""
    import pandas as pd

    rows = [
        {**cell.factors, _SPEED: math.log(speed), _REPEAT: cell.repeat}
        for cell in cells.having(summary, direction=name)
        if (speed := cells.bandwidth(cell))
    ]
    if not rows:
        return None
    runs = pd.DataFrame(rows)
    known = ("direction", _SPEED, _REPEAT)
    factors = [str(column) for column in runs.columns if column not in known]
    try:
        model = Model(runs, factors, _SPEED, _REPEAT, setting_of(summary))
        return Direction(name, runs, factors, model)
    except ValueError as error:
        return Direction(name, runs, factors, None, str(error))


def setting_of(summary: Summary) -> str:
    """Name the factor that is a setting of the server, "" for none."""
    return str((summary.place.get("setting") or {}).get("name", ""))


def ratio(model: Model, over: dict[str, Level], under: dict[str, Level]) -> Ratio:
    """Give the speed at some levels as a multiple of that at others, over all other factors."""
    gap = model.difference(over, under)
    if gap.interval is None:
        return Ratio(math.exp(gap.value), p=gap.p)
    low, high = map(math.exp, gap.interval)
    return Ratio(math.exp(gap.value), low, high, gap.p)


def anova(direction: Direction) -> Table:
    """Lay out the ANOVA table, with Holm's corrected p and what the levels differ by."""
    model = direction.model
    assert model is not None
    rows = [
        [
            " x ".join(effect.factors), texts.number(effect.sum_squares), str(effect.freedom),
            texts.number(effect.f), texts.p_value(effect.p), texts.p_value(corrected),
            texts.number(effect.partial_eta), _span_text(direction, effect),
        ]
        for effect, corrected in _corrected(model)
    ]  # fmt: skip
    residual = model.residual_deviation**2 * model.residual_freedom
    none = [texts.MISSING] * 4
    rows.append(
        ["residual", texts.number(residual), str(model.residual_freedom), *none, texts.MISSING]
    )
    headings = [
        "factor", "sum of squares", "df", "F", "p", "p (Holm)", "partial η²", "best to worst level",
    ]  # fmt: skip
    title = f"{direction.name.capitalize()}s: analysis of variance, type II, of log speed"
    return Table(headings, rows, title)


def what_matters(direction: Direction) -> str:
    """Say which factors matter, by how much, which are shown not to, and of which neither is."""
    model = direction.model
    name = direction.name.capitalize()
    if model is None:
        return f"{name}s: no analysis of variance, {direction.why_none}."
    effects = _corrected(model)
    mattering = [one for one in effects if _matters(direction, *one)]
    joined = {name for effect, _ in mattering for name in effect.factors}
    rest = [one for one in effects if len(one[0].factors) == 1 and one[0].factors[0] not in joined]
    little = [one for one in rest if _little(direction, one[0]) < _SIGNIFICANT]
    untold = [one for one in rest if one not in little]
    words = f"{name}s: {_matter_text([_size_text(direction, *one) for one in mattering])}."
    for heading, group in (
        (f"Shown to matter little, every level within {100 * ALIKE:g} % of every other", little),
        ("Inconclusive", untold),
    ):
        if group:
            words += f" {heading}: {texts.several([_size_text(direction, *one) for one in group])}."
    return words


def in_short(direction: Direction) -> str:
    """Say in one sentence which factors matter."""
    if direction.model is None:
        return what_matters(direction)
    found = [
        " with ".join(effect.factors)
        for effect, corrected in _corrected(direction.model)
        if _matters(direction, effect, corrected)
    ]
    return f"For {direction.name}s {_matter_text(found)}."


def _matter_text(found: Sequence[str]) -> str:
    if not found:
        return "no factor is shown to matter"
    return f"what matters here is {texts.several(found)}"


def _matters(direction: Direction, effect: Effect, corrected: float) -> bool:
    """Tell whether an effect is real, and a factor's large enough to care; `corrected` is its p."""
    if corrected >= _SIGNIFICANT:
        return False
    return len(effect.factors) > 1 or _span(direction, effect) - 1 >= _MATTERS


def alike(model: Model, one: dict[str, Level], other: dict[str, Level]) -> float:
    """Give the p of two one-sided tests: small where two settings' speeds are within ALIKE."""
    return model.difference(one, other).within(math.log1p(ALIKE))


def _little(direction: Direction, effect: Effect) -> float:
    """Give the p of all pairs of a factor's levels being alike."""
    assert direction.model is not None
    (name,) = effect.factors
    pairs = itertools.combinations(direction.levels[name], 2)
    return max(alike(direction.model, {name: one}, {name: other}) for one, other in pairs)


def _size_text(direction: Direction, effect: Effect, corrected: float) -> str:
    if len(effect.factors) > 1:
        pair = " with ".join(effect.factors)
        return f"{pair} (partial η² {effect.partial_eta:.2f}, {_p_text(corrected)})"
    gain = 100 * (_span(direction, effect) - 1)
    return f"{effect.factors[0]} (best level {gain:.1f} % above the worst, {_p_text(corrected)})"


def mattering_little(direction: Direction, factor: str) -> Judged:
    """Judge whether a factor matters little, by the rules of what_matters."""
    effects = _corrected(direction.model) if direction.model else []
    for effect, corrected in effects:
        if effect.factors == (factor,):
            size = f"{direction.name}s: {100 * (_span(direction, effect) - 1):.1f} %"
            if _little(direction, effect) < _SIGNIFICANT:
                return Judged(Verdict.REPRODUCED, f"{size}, shown to be under {100 * ALIKE:g} %")
            kind = Verdict.NOT if _matters(direction, effect, corrected) else Verdict.INCONCLUSIVE
            return Judged(kind, f"{size}, {_p_text(corrected)}")
    return Judged(Verdict.INCONCLUSIVE, "too few runs")


def on_link(
    judged: Judged, direction: Direction, factor: str, link: float | None, least: int = 0
) -> Judged:
    """Say so where a lab's link, in bytes/s, makes the levels of a factor alike by being full.

    Of a factor with numbers, the levels from `least` up are compared.
    """
    if not link or direction.model is None or judged.verdict is not Verdict.REPRODUCED:
        return judged
    levels = direction.levels[factor]
    compared = [one for one in levels if not isinstance(one, int | float) or one >= least]
    means = [direction.model.mean({factor: level}).value for level in compared]
    filled = math.exp(min(means)) / link
    if filled < _FULL:
        return judged
    why = f"{judged.why}; the lab's link is {100 * filled:.0f} % full at each level"
    return Judged(Verdict.BY_CONSTRUCTION, why)


@dataclass(frozen=True)
class Plateau:
    """Whether speed is flat for buffers from 32768 up: TOST's p, and 32768 against the smaller."""

    direction: str
    flat: bool
    p: float
    largest: int
    step: Ratio | None
    smaller: int | None
    ratios: dict[int, Ratio]

    @property
    def judged(self) -> Judged:
        """The verdict: not reproduced where a level lies with its interval beyond what is flat."""
        if self.flat:
            why = f"two one-sided tests put all within {100 * _FLAT:g} %, {_p_text(self.p)}"
            return Judged(Verdict.REPRODUCED, why)
        for buffer, one in self.ratios.items():
            if one.above(1 + _FLAT) or one.above(1 / (1 + _FLAT)) is False:
                return Judged(Verdict.NOT, f"{buffer} differs by more than {100 * _FLAT:g} %")
        return Judged(Verdict.INCONCLUSIVE, f"the intervals span {100 * _FLAT:g} %")

    @property
    def text(self) -> str:
        """The finding in a sentence or two."""
        if self.flat:
            words = f"The plateau appears: from {KNEE} to {self.largest} {self.direction}s are"
            words += f" flat, every buffer within {100 * _FLAT:g} % of {KNEE}"
        else:
            words = f"No plateau is shown for {self.direction}s: from {KNEE} to {self.largest} not"
            words += f" every buffer is within {100 * _FLAT:g} % of {KNEE}"
        words += f" (two one-sided tests, {_p_text(self.p)})."
        if self.step:
            words += f" Buffers of {KNEE} give {self.step.text} times what {self.smaller} does."
        return words


def plateau(direction: Direction) -> Plateau | None:
    """Test for a plateau; None where the buffers that were run cannot tell."""
    buffers = [value for value in direction.levels.get("buffer", []) if isinstance(value, int)]
    above = [buffer for buffer in buffers if buffer > KNEE]
    model = direction.model
    if model is None or not above or KNEE not in buffers:
        return None
    knee = {"buffer": KNEE}
    tests = [model.difference({"buffer": one}, knee).within(math.log1p(_FLAT)) for one in above]
    smaller = max((one for one in buffers if one < KNEE), default=None)
    step = None if smaller is None else ratio(model, dict(knee), {"buffer": smaller})
    p = max(tests)
    ratios = {one: ratio(model, {"buffer": one}, dict(knee)) for one in above}
    return Plateau(direction.name, p < _SIGNIFICANT, p, max(above), step, smaller, ratios)


def _corrected(model: Model) -> list[tuple[Effect, float]]:
    """Give the effects with Holm's p, of those that the runs can test."""
    effects = model.effects()
    tested = [effect for effect in effects if not math.isnan(effect.f)]
    corrected = dict(zip(tested, holm([effect.p for effect in tested]), strict=True))
    return [(effect, corrected.get(effect, effect.p)) for effect in effects]


def _span(direction: Direction, effect: Effect) -> float:
    """Give the best level's mean as a multiple of the worst's."""
    assert direction.model is not None
    (name,) = effect.factors
    means = [direction.model.mean({name: level}).value for level in direction.levels[name]]
    return math.exp(max(means) - min(means))


def _span_text(direction: Direction, effect: Effect) -> str:
    if len(effect.factors) > 1:
        return texts.MISSING
    return f"{_span(direction, effect):.3f}"


def _p_text(p: float) -> str:
    return f"p {texts.p_value(p)}" if p < 0.001 else f"p = {texts.p_value(p)}"


def _sorted(levels: Sequence[Level]) -> list[Level]:
    if all(isinstance(level, int | float) for level in levels):
        return sorted(levels, key=float)
    return list(levels)
