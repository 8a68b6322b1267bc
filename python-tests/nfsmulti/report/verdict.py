# SPDX-License-Identifier: GPL-2.0-only
"""Whether a published ratio is found again, by a rule that does not look at the figures first.

It holds where ours is at least nine tenths of theirs, and its 95 % interval lies above 1. It holds
in kind where the interval lies above 1 and the gain is at least half of theirs. It does not hold
where the whole interval lies below such a gain; all else cannot be told. Where one side was run
once there is no interval: the ratio alone can then say that a story holds, or that there is no gain
at all, and the sentence says what it rests on.
"""

from __future__ import annotations

from enum import StrEnum

from nfsmulti.stats.ratio import Ratio

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
SINGLE = " Each side was run once: without repeats there is no interval, and this may be chance."


def judge(ours: Ratio | None, theirs: float) -> Verdict:
    """Hold our ratio against theirs."""
    if ours is None:
        return Verdict.UNTOLD
    in_kind = 1 + _OF_THEIR_GAIN * (theirs - 1)
    if ours.above(1):
        if ours.value >= OF_THEIRS * theirs:
            return Verdict.HOLDS
        if ours.low is not None and ours.value >= in_kind:
            return Verdict.IN_KIND
    least = 1.0 if ours.low is None else in_kind
    return Verdict.NOT if ours.above(least) is False else Verdict.UNTOLD


def sentence(ours: Ratio | None, theirs: float) -> str:
    """Give the verdict, with a warning where it rests on single runs."""
    return judge(ours, theirs) + (SINGLE if ours and ours.low is None else "")
