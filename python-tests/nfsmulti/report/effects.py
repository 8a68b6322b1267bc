# SPDX-License-Identifier: GPL-2.0-only
"""Which factors of a sweep matter: analysis of variance, and what levels differ by.

The model is ordinary least squares on all factors, with those two-way interactions that the runs
tell apart from all others: of a fraction of a factorial these are a few, or none. Level means are
averaged over the levels of all other factors (least squares means), so that runs that are missing
favour nobody. Probabilities are corrected where several tests are made at once.

A factor may be set in turn: in each block all runs of one level follow each other. What drifts from
one such turn to the next falls on the factor alone, and runs of one turn do not tell it from an
effect. So it is tested as in a split-plot design: against how its levels' differences vary from
block to block. Its interactions are tested against single runs, as all else.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfsmulti.report import cells
from nfsmulti.stats import Ratio, holm
from nfsmulti.summary import Cell
from nfsmulti.summary import Factor as Level

if TYPE_CHECKING:
    import pandas as pd

_BLOCK = "C(block)"
_FEWEST_FREEDOM = 3  # residual degrees of freedom that a model must leave
_NO_ERROR = 1e-300  # stands for an error of 0


@dataclass(frozen=True)
class Effect:
    """A row of the ANOVA table, type II: one factor, or two that interact.

    `partial_eta` is its part of the variance that is left when all others are taken off. `f` is
    NaN and `p` is 1 where the runs cannot test it; `holm` is p corrected for all that they can.
    """

    factors: tuple[str, ...]
    sum_squares: float
    freedom: int
    f: float = math.nan
    p: float = 1.0
    partial_eta: float = math.nan
    holm: float = 1.0


@dataclass(frozen=True)
class Estimate:
    """A linear combination of the model's parameters, with its standard error.

    Without degrees of freedom the error is not known.
    """

    value: float
    error: float
    freedom: float

    @property
    def _t(self) -> Any:
        from scipy import stats

        return stats.t(self.freedom, self.value, max(self.error, _NO_ERROR))

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval; None where the error is not known."""
        if not self.freedom:
            return None
        low, high = self._t.interval(0.95)
        return float(low), float(high)

    @property
    def p(self) -> float:
        """The two-sided probability of such a value, or one further from 0, if it were 0."""
        return 2 * float(min(self._t.cdf(0), self._t.sf(0))) if self.freedom else 1.0

    def within(self, margin: float) -> float:
        """Return the p of two one-sided tests (TOST): small where the value is within ±`margin`.

        D. Schuirmann, J. Pharmacokin. Biopharm. 15 (1987).
        """
        return float(max(self._t.sf(margin), self._t.cdf(-margin))) if self.freedom else 1.0


class Model:
    """A model of a response that was measured under several factors, each run a row."""

    def __init__(
        self,
        runs: pd.DataFrame,
        factors: Sequence[str],
        response: str,
        block: str = "",
        in_turn: str = "",
    ):
        """Fit. Raises ValueError where the runs cannot tell even the factors themselves apart.

        `factors` that have one level alone are left out. `block` is the column that tells which
        runs were made together: what changes from block to block is neither a factor nor noise.
        `in_turn` is the factor that is set in turn, if any. Each block must have the same of its
        levels: `left_out` names the levels and blocks that are left out for that.
        """
        self.left_out: dict[str, list[Level]] = {}
        if in_turn and runs[in_turn].nunique() > 1:
            every, runs = runs, _whole_blocks(runs, block, in_turn)
            for name in (in_turn, block):
                kept = {*runs[name]}
                if lost := [one for one in dict.fromkeys(every[name]) if one not in kept]:
                    self.left_out[name] = lost
        found = {name: cells.ordered(runs[name]) for name in factors}
        self.levels = {name: levels for name, levels in found.items() if len(levels) > 1}
        # A factor may be named as nobody may name a variable.
        self._columns = {name: f"f{number}" for number, name in enumerate(self.levels)}
        self._in_turn = in_turn if in_turn in self.levels else ""
        self._turns = f"{_BLOCK}:C({self._columns[in_turn]})" if self._in_turn else ""
        self._blocks = list(dict.fromkeys(runs[block])) if block else []
        renamed = {**self._columns, response: "response", **({block: "block"} if block else {})}
        self._result, self._terms = self._fit(runs[list(renamed)].rename(columns=renamed))

    def _fit(self, table: pd.DataFrame) -> tuple[Any, dict[str, tuple[str, ...]]]:
        """Fit the factors with the interactions that can be told, or alone; gives its terms, too.

        These have their factors.
        """
        import numpy as np
        import statsmodels.formula.api as smf  # takes two seconds to load

        alone = {f"C({column})": name for name, column in self._columns.items()}
        if not alone:
            raise ValueError("no factor has two levels")
        # What changes from block to block, and there from turn to turn.
        blocks = [_BLOCK, self._turns][: 1 + bool(self._turns)] if len(self._blocks) > 1 else []
        every = " + ".join([f"({' + '.join(alone)}) ** 2", *blocks])
        for pairs in (_told_apart(smf.ols(f"response ~ {every}", table)), []):
            model = smf.ols(f"response ~ {' + '.join([*alone, *pairs, *blocks])}", table)
            parameters = model.exog.shape[1]
            enough = len(model.endog) - parameters >= _FEWEST_FREEDOM
            if enough and np.linalg.matrix_rank(model.exog) == parameters:
                terms = [*alone, *pairs]
                return model.fit(), {
                    term: tuple(alone[part] for part in term.split(":")) for term in terms
                }
        raise ValueError("too few runs to tell the factors apart")

    @property
    def interactions(self) -> list[tuple[str, ...]]:
        """The pairs of factors whose interaction is in the model."""
        return [factors for factors in self._terms.values() if len(factors) > 1]

    @property
    def residual(self) -> tuple[float, int]:
        """The residual sum of squares, and its degrees of freedom."""
        return float(self._result.ssr), int(self._result.df_resid)

    def effects(self) -> list[Effect]:
        """Return the ANOVA table of type II, factors first, without its residual row."""
        from scipy import stats

        found = []
        for term, factors in self._terms.items():
            squares, freedom = self._anova[term]
            effect = Effect(factors, squares, int(freedom))
            error = self._turns if factors == (self._in_turn,) else "Residual"
            if error in self._anova:
                of_error, left = self._anova[error]
                f = squares / freedom / (of_error / left) if of_error else math.inf
                p = float(stats.f.sf(f, freedom, left))
                eta = squares / (squares + of_error or 1.0)
                effect = dataclasses.replace(effect, f=f, p=p, partial_eta=eta)
            found.append(effect)
        tested = [one for one in found if not math.isnan(one.f)]
        corrected = dict(zip(tested, holm([one.p for one in tested]), strict=True))
        return [dataclasses.replace(one, holm=corrected.get(one, 1.0)) for one in found]

    @functools.cached_property
    def _anova(self) -> dict[str, tuple[float, float]]:
        """The sums of squares and degrees of freedom, by their terms."""
        from statsmodels.stats.anova import anova_lm

        table = anova_lm(self._result, typ=2)
        return dict(zip(table.index, zip(table["sum_sq"], table["df"], strict=True), strict=True))

    def mean(self, levels: Mapping[str, Level]) -> Estimate:
        """Return the mean response at levels of some factors, over all levels of the others."""
        return self._estimate(self._row(levels), self._row_of_turns(levels))

    def difference(self, over: Mapping[str, Level], under: Mapping[str, Level]) -> Estimate:
        """Return by how much the mean at some levels exceeds that at others."""
        return self._estimate(
            self._row(over) - self._row(under),
            self._row_of_turns(over) - self._row_of_turns(under),
        )

    def _row_of_turns(self, levels: Mapping[str, Level]) -> Any:
        """Return the part of a row that lies between turns: the mean at the level that is set."""
        own = {name: level for name, level in levels.items() if name == self._in_turn}
        return self._row(own) if own else 0 * self._row({})

    def _row(self, levels: Mapping[str, Level]) -> Any:
        """Return the parameters' parts of a mean."""
        import numpy as np

        grid, rows = self._grid
        chosen = np.ones(len(grid), dtype=bool)
        for name, level in levels.items():
            if name in self.levels:
                chosen &= (grid[self._columns[name]] == level).to_numpy()
        return rows[chosen].mean(axis=0)

    @functools.cached_property
    def _grid(self) -> tuple[pd.DataFrame, Any]:
        """All combinations of levels, in each block, and the rows of these in the design matrix."""
        import numpy as np
        import pandas as pd
        from patsy import build_design_matrices

        combinations = list(itertools.product(*self.levels.values(), self._blocks or [0]))
        grid = pd.DataFrame(combinations, columns=[*self._columns.values(), "block"])
        (rows,) = build_design_matrices([self._result.model.data.model_spec], grid)
        return grid, np.asarray(rows)

    def _estimate(self, row: Any, of_turns: Any) -> Estimate:
        """Return `row` times the parameters; `of_turns` is its part that lies between turns."""
        import numpy as np

        covariance = np.asarray(self._result.cov_params())
        value = float(row @ np.asarray(self._result.params))
        within, between = (max(float(v @ covariance @ v), 0.0) for v in (row - of_turns, of_turns))
        if not between:
            return Estimate(value, math.sqrt(within), float(self._result.df_resid))
        if len(self._blocks) < 2:
            return Estimate(value, math.inf, 0)
        squares, turns = self._anova[self._turns]
        between *= squares / turns / float(self._result.scale)
        # The fewest of both parts. Satterthwaite's are too many where there are few blocks.
        return Estimate(value, math.sqrt(within + between), turns)


def _whole_blocks(runs: pd.DataFrame, block: str, factor: str) -> pd.DataFrame:
    """Keep the most runs of which each block has the same levels of a factor, at least two."""
    levels = {name: frozenset(part[factor]) for name, part in runs.groupby(block)}
    shared = dict.fromkeys(one & other for one in levels.values() for other in levels.values())
    kept = []
    for found in shared:
        whole = [name for name, own in levels.items() if found <= own]
        if len(found) > 1:
            kept.append(runs[runs[factor].isin(found) & runs[block].isin(whole)])
    if not kept:
        raise ValueError(f"no repeat has two levels of {factor}")
    return max(kept, key=len)


def _told_apart(model: Any) -> list[str]:
    """Name the interactions of a model, as "one:other", that no other terms can stand for."""
    import numpy as np

    rank = np.linalg.matrix_rank
    whole = rank(model.exog)
    places = model.data.model_spec.term_name_slices
    return [
        term
        for term, place in places.items()
        if ":" in term
        and _BLOCK not in term
        and whole - rank(np.delete(model.exog, place, axis=1)) == place.stop - place.start
    ]


# The response of a sweep is the logarithm of the speed, so that effects are ratios and level means
# are geometric.

_REPEAT, _SPEED = "in repeat", "its speed"  # as no factor can be named
SIGNIFICANT = 0.05
ALIKE = 0.02  # two settings are alike where their speeds differ by less


class Speed(Model):
    """The model of one direction's speed under all factors; each repeat is a block."""

    def __init__(self, name: str, found: Sequence[Cell], in_turn: str):
        """Fit, as Model does."""
        import pandas as pd

        runs = pd.DataFrame(
            {**cell.factors, _SPEED: math.log(speed), _REPEAT: cell.repeat}
            for cell in found
            if (speed := cells.bandwidth(cell))
        )
        if runs.empty:
            raise ValueError("nothing was run")
        known = ("direction", _SPEED, _REPEAT)
        factors = [str(column) for column in runs.columns if column not in known]
        super().__init__(runs, factors, _SPEED, _REPEAT, in_turn)
        self.name = name

    @property
    def missing(self) -> list[str]:
        """The levels and repeats that the model leaves out: "threads 64", "repeat 4"."""
        return [
            f"{'repeat' if name == _REPEAT else name} {one}"
            for name, found in self.left_out.items()
            for one in found
        ]

    def ratio(self, over: Mapping[str, Level], under: Mapping[str, Level]) -> Ratio:
        """Return the ratio of speeds at two levels, over all levels of the other factors."""
        gap = self.difference(over, under)
        low, high = map(math.exp, gap.interval) if gap.interval else (None, None)
        return Ratio(math.exp(gap.value), low, high, gap.p)

    def alike(self, factor: str, pairs: Iterable[tuple[Level, Level]], part: float) -> float:
        """Return the p of two one-sided tests: small where both levels of each pair are alike.

        Their speeds then differ by less than `part`.
        """
        gaps = (self.difference({factor: one}, {factor: other}) for one, other in pairs)
        return max(gap.within(math.log1p(part)) for gap in gaps)

    def at(self, levels: Mapping[str, Level]) -> float:
        """Return the mean speed in bytes/s at some levels, over all levels of the other factors."""
        return math.exp(self.mean(levels).value)

    def means(self, factor: str) -> dict[Level, float]:
        """Return the same at each level of a factor."""
        return {level: self.at({factor: level}) for level in self.levels[factor]}

    def span(self, factor: str) -> float:
        """Return the best level's mean as a multiple of the worst's."""
        means = self.means(factor).values()
        return max(means) / min(means)

    @functools.cached_property
    def mattering(self) -> list[Effect]:
        """The effects that are real, and of a factor alone large enough to care."""
        return [
            one
            for one in self.effects()
            if one.holm < SIGNIFICANT
            and (len(one.factors) > 1 or self.span(*one.factors) - 1 >= ALIKE)
        ]

    def matters_little(self, factor: str) -> bool:
        """Tell whether each level is shown to be like every other."""
        pairs = itertools.combinations(self.levels[factor], 2)
        return self.alike(factor, pairs, ALIKE) < SIGNIFICANT
