# SPDX-License-Identifier: GPL-2.0-only
"""Whether B is worse than A, by a rule that two equal runs pass.

Every cell is a test, and so is the geometric mean over all cells; by chance alone, one in twenty of
them would differ. So B is worse only where a test is significant after Holm's correction over all
of them, and the change is larger than the threshold, which two runs of one thing may differ by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from nfsmulti.compare.runs import Figure, Pair
from nfsmulti.stats.effects import holm
from nfsmulti.stats.ratio import Ratio

_SIGNIFICANT = 0.05
TOGETHER = "all cells together"


class Exit(IntEnum):
    """What the command ends with."""

    PASSED = 0
    WORSE = 10
    NOT_COMPARABLE = 11


@dataclass(frozen=True)
class Tested:
    """The ratio B : A of one figure, in one cell or over all; `p` is Holm's, None without one."""

    name: str
    figure: Figure
    ratio: Ratio
    p: float | None = None

    def beyond_chance(self) -> bool:
        """Tell whether it differs from 1, after the correction."""
        return self.p is not None and self.p < _SIGNIFICANT


@dataclass(frozen=True)
class Conclusion:
    """The end of a comparison: how it exits, and why in lines."""

    exit: Exit
    lines: list[str]


def together(found: Sequence[Pair], figure: Figure) -> Ratio | None:
    """Give the geometric mean over the cells; over those with an interval, where some have none."""
    samples = [one for pair in found if (one := pair.samples(figure))]
    repeated = [one for one in samples if min(side.n for side in one) > 1]
    return Ratio.unpaired(repeated or samples) if samples else None


def trials(found: Sequence[Pair], judged: Sequence[Figure]) -> list[Tested]:
    """Give the tests of the judged figures, corrected for their number."""
    plain = [
        Tested(name, figure, ratio)
        for figure in judged
        for name, ratio in (
            (TOGETHER, together(found, figure)),
            *((pair.name, pair.ratio(figure)) for pair in found),
        )
        if ratio
    ]
    corrected = iter(holm([one.ratio.p for one in plain if one.ratio.p is not None]))
    return [
        Tested(one.name, one.figure, one.ratio, None if one.ratio.p is None else next(corrected))
        for one in plain
    ]


def by_tests(found: Sequence[Pair], judged: Sequence[Figure], threshold: float) -> Conclusion:
    """Judge by intervals. Where no cell has one, the runs are not comparable."""
    all_tests = trials(found, judged)
    if not any(one.p is not None for one in all_tests):
        return Conclusion(
            Exit.NOT_COMPARABLE,
            [
                "no interval: no cell ran at least twice on both sides: run with --repeat 3, or"
                " set --tolerance PERCENT"
            ],
        )
    worse = [
        one
        for one in all_tests
        if one.beyond_chance() and one.figure.worse(one.ratio.value, threshold)
    ]
    if worse:
        return Conclusion(Exit.WORSE, [_worse_line(one) for one in worse])
    better = [
        one
        for one in all_tests
        if one.name == TOGETHER
        and one.beyond_chance()
        and one.figure.better(one.ratio.value, threshold)
    ]
    said = "better" if better else "no difference"
    number = sum(one.p is not None for one in all_tests)
    beyond = f"nothing is significantly worse by more than {100 * threshold:g} %"
    hidden = [_hidden_line(one) for one in all_tests if _could_hide(one, threshold)]
    return Conclusion(Exit.PASSED, [*hidden, f"{said}: {beyond}, in {number} tests"])


def _could_hide(one: Tested, threshold: float) -> bool:
    """Tell whether the mean's own interval reaches beyond the threshold, to the worse side."""
    ends = [end for end in (one.ratio.low, one.ratio.high) if end is not None]
    return one.name == TOGETHER and any(one.figure.worse(end, threshold) for end in ends)


def _hidden_line(one: Tested) -> str:
    return (
        f"note: {one.figure} {one.ratio.text} is too wide to exclude a larger loss: run more"
        " repeats"
    )


def by_tolerance(found: Sequence[Pair], judged: Sequence[Figure], tolerance: float) -> Conclusion:
    """Judge by the ratios alone: nothing may be worse by more than the tolerance."""
    worse = [one for one in trials(found, judged) if one.figure.worse(one.ratio.value, tolerance)]
    if worse:
        return Conclusion(Exit.WORSE, [_worse_line(one) for one in worse])
    line = f"equal or better: nothing is worse by more than {100 * tolerance:g} %, without a test"
    return Conclusion(Exit.PASSED, [line])


def _worse_line(one: Tested) -> str:
    p = "" if one.p is None else f", p {'< 0.001' if one.p < 0.001 else f'= {one.p:.3f}'} (Holm)"
    return f"worse: {one.name}: {one.figure} {one.ratio.text}{p}"
