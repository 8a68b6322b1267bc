# SPDX-License-Identifier: GPL-2.0-only
"""Ratios of figures that were measured in pairs, with their 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nfsmulti.bench.cases import Bar

_CONFIDENCE = 0.95


class Verdict(StrEnum):
    """Whether a bar is met; it is open where the interval holds the bar."""

    MET = "met"
    MET_OPEN = "met (open)"
    NOT_MET_OPEN = "not met (open)"
    NOT_MET = "not met"


@dataclass(frozen=True)
class Ratio:
    """A ratio, and the interval that holds it; of one pair alone there is no interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of_pairs(cls, ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
        """Give the geometric mean of the pairs' ratios, and Student's t interval of their logs.

        A pair is two runs next to each other in time, so that what slows the machine down for a
        while slows both.
        """
        logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
        mean = math.fsum(logs) / len(logs)
        if len(logs) == 1:
            return cls(math.exp(mean), 0.0, math.inf)
        from scipy import stats  # takes a second to load

        half = float(stats.sem(logs) * stats.t.ppf((1 + _CONFIDENCE) / 2, len(logs) - 1))
        return cls(math.exp(mean), math.exp(mean - half), math.exp(mean + half))

    @property
    def text(self) -> str:
        """The ratio with its interval, such as "0.21x (0.20 to 0.22)"."""
        if math.isinf(self.high):
            return f"{self.value:.2f}x"
        return f"{self.value:.2f}x ({self.low:.2f} to {self.high:.2f})"

    def verdict(self, bar: Bar) -> Verdict:
        """Hold the ratio against a bar."""
        met = bar.met(self.value)
        if bar.met(self.low) != bar.met(self.high):
            return Verdict.MET_OPEN if met else Verdict.NOT_MET_OPEN
        return Verdict.MET if met else Verdict.NOT_MET
