# SPDX-License-Identifier: GPL-2.0-only
"""Which factors of a factorial experiment matter: analysis of variance, and what levels differ by.

The model is ordinary least squares on all factors, with those two-way interactions that the runs
tell apart from all others: of a fraction of a factorial these are a few, or none. Level means are
averaged over the levels of all other factors (least squares means), so that runs that are missing
favour nobody. Probabilities are corrected where several tests are made at once.
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

    `partial_eta` is its part of the variance that is left when all others are taken off.
    """

    factors: tuple[str, ...]
    sum_squares: float
    freedom: int
    f: float
    p: float
    partial_eta: float


@dataclass(frozen=True)
class Estimate:
    """A linear combination of the model's parameters, with its standard error."""

    value: float
    error: float
    freedom: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        from scipy import stats

        half = self.error * float(stats.t.ppf(0.975, self.freedom))
        return self.value - half, self.value + half

    @property
    def p(self) -> float:
        """The two-sided probability of such a value, or one further from 0, if it were 0."""
        from scipy import stats

        if not self.error:
            return float(not self.value)
        return 2 * float(stats.t.sf(abs(self.value) / self.error, self.freedom))

    def within(self, margin: float) -> float:
        """Give the p of two one-sided tests (TOST): small where the value is within ±`margin`.

        D. Schuirmann, J. Pharmacokin. Biopharm. 15 (1987).
        """
        from scipy import stats

        if not self.error:
            return float(abs(self.value) >= margin)
        tests = [(margin - self.value) / self.error, (margin + self.value) / self.error]
        return max(float(stats.t.sf(test, self.freedom)) for test in tests)


class Model:
    """A model of a response that was measured under several factors, each run a row."""

    def __init__(self, runs: pd.DataFrame, factors: Sequence[str], response: str, block: str = ""):
        """Fit. Raises ValueError where the runs cannot tell even the factors themselves apart.

        `factors` that have one level alone are left out. `block` is the column that tells which
        runs were made together: what changes from block to block is neither a factor nor noise.
        """
        self.levels = {name: list(dict.fromkeys(runs[name])) for name in factors}
        self.levels = {name: found for name, found in self.levels.items() if len(found) > 1}
        # A factor may be named as nobody may name a variable.
        self._columns = {name: f"f{number}" for number, name in enumerate(self.levels)}
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
        blocks = [_BLOCK] if len(self._blocks) > 1 else []
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
        from statsmodels.stats.anova import anova_lm

        table = anova_lm(self._result, typ=2)
        names = {f"C({column})": name for name, column in self._columns.items()}
        residual = float(table.loc["Residual", "sum_sq"])
        return [
            Effect(
                factors=tuple(names[part] for part in str(term).split(":")),
                sum_squares=float(row["sum_sq"]),
                freedom=int(row["df"]),
                f=float(row["F"]),
                p=float(row["PR(>F)"]),
                partial_eta=float(row["sum_sq"]) / (float(row["sum_sq"]) + residual or 1.0),
            )
            for term, row in table.drop(index=["Residual", _BLOCK], errors="ignore").iterrows()
        ]

    def mean(self, levels: Mapping[str, Level]) -> Estimate:
        """Give the mean response at levels of some factors, over all levels of the others."""
        return self._estimate(self._row(levels))

    def difference(self, over: Mapping[str, Level], under: Mapping[str, Level]) -> Estimate:
        """Give by how much the mean at some levels exceeds that at others."""
        return self._estimate(self._row(over) - self._row(under))

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

    def _estimate(self, row: Any) -> Estimate:
        import numpy as np

        variance = float(row @ np.asarray(self._result.cov_params()) @ row)
        value = float(row @ np.asarray(self._result.params))
        return Estimate(value, math.sqrt(max(variance, 0.0)), float(self._result.df_resid))


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
        and whole - rank(np.delete(model.exog, place, axis=1)) == place.stop - place.start
    ]


def holm(probabilities: Sequence[float]) -> list[float]:
    """Give Holm's corrected p of each of several tests, in their order."""
    from statsmodels.stats.multitest import multipletests  # takes seconds to load

    if not probabilities:
        return []
    return [float(p) for p in multipletests(probabilities, method="holm")[1]]
