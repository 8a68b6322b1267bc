# SPDX-License-Identifier: GPL-2.0-only
"""Which factors of a factorial experiment matter: analysis of variance, and what levels differ by.

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

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

Level = str | int | float | bool
_BLOCK = "C(block)"
_FEWEST_FREEDOM = 3  # residual degrees of freedom that a model must leave


@dataclass(frozen=True)
class Effect:
    """A row of the ANOVA table, type II: one factor, or two that interact.

    `partial_eta` is its part of the variance that is left when all others are taken off. `f` is
    NaN and `p` is 1 where the runs cannot test it.
    """

    factors: tuple[str, ...]
    sum_squares: float
    freedom: int
    f: float
    p: float
    partial_eta: float


@dataclass(frozen=True)
class Estimate:
    """A linear combination of the model's parameters, with its standard error.

    Without degrees of freedom the error is not known.
    """

    value: float
    error: float
    freedom: float

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval; None where the error is not known."""
        from scipy import stats

        if not self.freedom:
            return None
        half = self.error * float(stats.t.ppf(0.975, self.freedom))
        return self.value - half, self.value + half

    @property
    def p(self) -> float:
        """The two-sided probability of such a value, or one further from 0, if it were 0."""
        from scipy import stats

        if not self.freedom:
            return 1.0
        if not self.error:
            return float(not self.value)
        return 2 * float(stats.t.sf(abs(self.value) / self.error, self.freedom))

    def within(self, margin: float) -> float:
        """Give the p of two one-sided tests (TOST): small where the value is within ±`margin`.

        D. Schuirmann, J. Pharmacokin. Biopharm. 15 (1987).
        """
        from scipy import stats

        if not self.freedom:
            return 1.0
        if not self.error:
            return float(abs(self.value) >= margin)
        tests = [(margin - self.value) / self.error, (margin + self.value) / self.error]
        return max(float(stats.t.sf(test, self.freedom)) for test in tests)


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
        self.levels = {name: list(dict.fromkeys(runs[name])) for name in factors}
        self.levels = {name: found for name, found in self.levels.items() if len(found) > 1}
        # A factor may be named as nobody may name a variable.
        self._columns = {name: f"f{number}" for number, name in enumerate(self.levels)}
        self._in_turn = in_turn if in_turn in self.levels else ""
        self._turns = f"{_BLOCK}:C({self._columns[in_turn]})" if self._in_turn else ""
        self._blocks = list(dict.fromkeys(runs[block])) if block else []
        renamed = {**self._columns, response: "response", **({block: "block"} if block else {})}
        table = runs[list(renamed)].rename(columns=renamed)
        self._result, self.interactions = self._fit(table)

    def _fit(self, table: pd.DataFrame) -> tuple[Any, list[tuple[str, str]]]:
        """Fit the factors with the interactions that can be told, or alone; gives these as well."""
        import numpy as np
        import statsmodels.formula.api as smf  # takes two seconds to load

        terms = {f"C({column})": name for name, column in self._columns.items()}
        if not terms:
            raise ValueError("no factor has two levels")
        blocks = self._block_terms
        every = " + ".join([f"({' + '.join(terms)}) ** 2", *blocks])
        told = _told_apart(smf.ols(f"response ~ {every}", table))
        for pairs in (told, []):
            model = smf.ols(f"response ~ {' + '.join([*terms, *pairs, *blocks])}", table)
            parameters = model.exog.shape[1]
            enough = len(model.endog) - parameters >= _FEWEST_FREEDOM
            if enough and np.linalg.matrix_rank(model.exog) == parameters:
                named = [tuple(terms[part] for part in pair.split(":")) for pair in pairs]
                return model.fit(), [(one, other) for one, other in named]
        raise ValueError("too few runs to tell the factors apart")

    @property
    def residual_freedom(self) -> int:
        """The residual degrees of freedom."""
        return int(self._result.df_resid)

    @property
    def residual_deviation(self) -> float:
        """The residual standard deviation, in the response's unit."""
        return math.sqrt(self._result.scale)

    def effects(self) -> list[Effect]:
        """Give the ANOVA table of type II, factors first, without its residual row."""
        from scipy import stats

        names = {f"C({column})": name for name, column in self._columns.items()}
        effects = []
        for term, (squares, freedom) in self._anova.items():
            if term in (*self._block_terms, "Residual"):
                continue
            factors = tuple(names[part] for part in term.split(":"))
            error = self._turns if factors == (self._in_turn,) else "Residual"
            if error not in self._anova:
                effects.append(Effect(factors, squares, int(freedom), math.nan, 1.0, math.nan))
                continue
            of_error, left = self._anova[error]
            f = squares / freedom / (of_error / left) if of_error else math.inf
            p = float(stats.f.sf(f, freedom, left))
            eta = squares / (squares + of_error or 1.0)
            effects.append(Effect(factors, squares, int(freedom), f, p, eta))
        return effects

    @functools.cached_property
    def _anova(self) -> dict[str, tuple[float, float]]:
        """The sums of squares and degrees of freedom, by their terms."""
        from statsmodels.stats.anova import anova_lm

        table = anova_lm(self._result, typ=2)
        return {
            str(term): (float(row["sum_sq"]), float(row["df"])) for term, row in table.iterrows()
        }

    @property
    def _block_terms(self) -> list[str]:
        """The terms of what changes from block to block, and there from turn to turn."""
        if len(self._blocks) < 2:
            return []
        return [_BLOCK, self._turns] if self._turns else [_BLOCK]

    def mean(self, levels: Mapping[str, Level]) -> Estimate:
        """Give the mean response at levels of some factors, over all levels of the others."""
        return self._estimate(self._row(levels), self._row_of_turns(levels))

    def difference(self, over: Mapping[str, Level], under: Mapping[str, Level]) -> Estimate:
        """Give by how much the mean at some levels exceeds that at others."""
        return self._estimate(
            self._row(over) - self._row(under),
            self._row_of_turns(over) - self._row_of_turns(under),
        )

    def _row_of_turns(self, levels: Mapping[str, Level]) -> Any:
        """Give the part of a row that lies between turns: the mean at the level that is set."""
        own = {name: level for name, level in levels.items() if name == self._in_turn}
        return self._row(own) if own else 0 * self._row({})

    def _row(self, levels: Mapping[str, Level]) -> Any:
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
        """Give `row` times the parameters; `of_turns` is its part that lies between turns."""
        import numpy as np

        covariance = np.asarray(self._result.cov_params())
        value = float(row @ np.asarray(self._result.params))
        within, between = (max(float(v @ covariance @ v), 0.0) for v in (row - of_turns, of_turns))
        freedom = float(self._result.df_resid)
        if not between:
            return Estimate(value, math.sqrt(within), freedom)
        if not self._block_terms:
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


def holm(probabilities: Sequence[float]) -> list[float]:
    """Give Holm's corrected p of each of several tests, in their order."""
    from statsmodels.stats.multitest import multipletests  # takes seconds to load

    if not probabilities:
        return []
    return [float(p) for p in multipletests(probabilities, method="holm")[1]]
