# SPDX-License-Identifier: GPL-2.0-only
"""Whether a published ratio is found again, by a rule that does not look at the figures first.

It holds where ours is at least nine tenths of theirs, and its 95 % interval lies above 1. It holds
in kind where the interval lies above 1 alone. Of one run on either side there is no interval: then
the ratio itself is taken, and the sentence says so.
"""

from __future__ import annotations

from enum import StrEnum

from nfsmulti.stats.ratio import Ratio

_OF_THEIRS = 0.9


class Verdict(StrEnum):
    """Whether a story holds here."""

    HOLDS = "The story holds here."
    IN_KIND = "The story holds here in kind: there is a gain, and it is smaller."
    NOT = "The story does not hold here."
    UNTOLD = "Whether the story holds here cannot be told."


RULE = (
    "A story holds where our ratio is at least nine tenths of the published one and its 95 %"
    " interval lies above 1; it holds in kind where the interval lies above 1 alone."
)
_SINGLE = " Each side was run once: without repeats there is no interval, and this may be chance."


def judge(ours: Ratio | None, theirs: float) -> Verdict:
    """Hold our ratio against theirs."""
    if ours is None:
        return Verdict.UNTOLD
    if (ours.value if ours.low is None else ours.low) <= 1:
        return Verdict.NOT
    return Verdict.HOLDS if ours.value >= _OF_THEIRS * theirs else Verdict.IN_KIND


def sentence(ours: Ratio | None, theirs: float) -> str:
    """Give the verdict, with a warning where it rests on single runs."""
    return judge(ours, theirs) + (_SINGLE if ours and ours.low is None else "")
