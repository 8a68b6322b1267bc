# SPDX-License-Identifier: GPL-2.0-only
"""Figures and sentences as the reports write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nfsmulti.stats.ratio import Ratio
from nfsmulti.stats.sample import FEWEST, Sample

MISSING = "\N{EN DASH}"


def number(value: float | None, digits: int = 3) -> str:
    """Write a figure with `digits` digits, or all before the point: 1,094 or 19.4 or 0.123."""
    if value is None or not math.isfinite(value):
        return MISSING
    if not value:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, min(places, 6))}f}"


def mean(sample: Sample | None, unit: str = "", scale: float = 1.0) -> str:
    """Write a sample's mean, divided by `scale`, with its unit."""
    if sample is None:
        return MISSING
    return f"{number(sample.mean / scale)} {unit}".strip()


def cv(sample: Sample | None) -> str:
    """Write a sample's coefficient of variation in per cent, without the sign."""
    if sample is None or sample.cv_percent is None:
        return MISSING
    return f"{sample.cv_percent:.1f}"


def count(sample: Sample | None) -> str:
    """Write how often a figure was measured."""
    return str(sample.n) if sample else MISSING


def p_value(p: float | None) -> str:
    """Write a probability."""
    if p is None or math.isnan(p):
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def inconclusive(ratio: Ratio) -> str:
    """Say behind a ratio why it tells no difference; "" where it does."""
    if ratio.low is None:
        return f" (inconclusive: an interval needs {FEWEST} repeats)"
    return " (inconclusive: the interval spans 1)" if ratio.spans_one else ""


def several(words: Sequence[str]) -> str:
    """Write "a", "a and b", "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
