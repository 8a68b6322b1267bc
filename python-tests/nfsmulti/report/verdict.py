# SPDX-License-Identifier: GPL-2.0-only
"""Whether a published ratio is found again, by a rule that does not look at the figures first.

It holds where ours is at least nine tenths of theirs, and its 95 % interval lies above 1. It holds
in kind where the interval lies above 1 and the gain is at least half of theirs. It does not hold
where the whole interval lies below such a gain; all else cannot be told. Under three repeats there
is no interval, and nothing can be told.
"""

from __future__ import annotations

from enum import StrEnum

from nfsmulti.stats.ratio import FEWEST, Ratio

OF_THEIRS, _OF_THEIR_GAIN = 0.9, 0.5


class Verdict(StrEnum):
    """Whether a story holds here."""

    HOLDS = "The story holds here."
    IN_KIND = "The story holds here in kind: there is a gain, and it is smaller."
    NOT = "The story does not hold here."
    UNTOLD = "Whether the story holds here cannot be told."


RULE = (
    "A story holds where our ratio is at least nine tenths of the published one and its 95 %"
    " interval lies above 1; it holds in kind where the interval lies above 1 and the gain is at"
    " least half of the published one. It does not hold where the whole interval lies below such a"
    " gain. All else cannot be told: more repeats make the interval narrower."
)
SINGLE = f" An interval takes {FEWEST} repeats."


def judge(ours: Ratio | None, theirs: float) -> Verdict:
    """Hold our ratio against theirs."""
    if ours is None:
        return Verdict.UNTOLD
    in_kind = 1 + _OF_THEIR_GAIN * (theirs - 1)
    if ours.above(1):
        if ours.value >= OF_THEIRS * theirs:
            return Verdict.HOLDS
        if ours.value >= in_kind:
            return Verdict.IN_KIND
    return Verdict.NOT if ours.above(in_kind) is False else Verdict.UNTOLD


def sentence(ours: Ratio | None, theirs: float) -> str:
    """Give the verdict, with a warning where it rests on single runs."""
    return judge(ours, theirs) + (SINGLE if ours and ours.low is None else "")
