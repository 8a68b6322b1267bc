# SPDX-License-Identifier: GPL-2.0-only
"""Limits fitted to the machine: a story's link and caps, at what this machine can carry."""

from __future__ import annotations

from dataclasses import dataclass

from nfsmulti.errors import HarnessError
from nfsmulti.lab.limits import Limits
from nfsmulti.units import parse_rate

# The part of what a machine carried without limits that the fitted link takes. The limits must
# bind, not the processors, in every cell: shaping costs time, and a program that keeps one of two
# cores busy takes a quarter to a third of the rate.
HEADROOM = 0.5
_MBIT = 10**6


@dataclass(frozen=True)
class Fit:
    """Limits at which a machine shows a story's ratio.

    `carried` is what the machine carries without limits, in bytes/s. `link` and `cap`, the rate of
    one path, are in bit/s, in the published proportion; `assured` is each path's share when all are
    busy. `fraction` is the link's rate in terms of the published one, at most 1.
    """

    carried: float
    link: int
    cap: int
    assured: int
    fraction: float

    @property
    def limits(self) -> Limits:
        """The limits to give a lab."""
        return Limits(
            link=f"{self.link // _MBIT}mbit",
            per_address=f"{self.cap // _MBIT}mbit",
            assured=f"{self.assured // _MBIT}mbit",
        )

    def text(self) -> str:
        """Say it in a sentence."""
        part = "the" if self.fraction == 1 else f"{100 * self.fraction:.3g} % of the"
        return f"At {part} published rates: this machine carries {self.carried / 1e6:,.0f} MB/s."


def fit(carried: float, *, link: str, cap: str, paths: int) -> Fit:
    """Fit a story's `link` and `cap` to a machine that carried so many bytes/s without limits.

    The rates are tc's words, such as "9400mbit"; none is raised, and none falls below 1 Mbit/s.
    Raises HarnessError where nothing was carried.
    """
    if carried <= 0:
        raise HarnessError(
            "limits cannot be fitted: nothing was carried without them", "see what fio says"
        )
    published, capped = parse_rate(link), parse_rate(cap)
    fraction = min(1.0, HEADROOM * carried * 8 / published)
    fitted, one = (max(int(fraction * rate) // _MBIT, 1) * _MBIT for rate in (published, capped))
    share = max(fitted // paths // _MBIT, 1) * _MBIT
    return Fit(carried, fitted, one, min(one, share), fraction)
