# SPDX-License-Identifier: GPL-2.0-only
"""Limits fitted to the machine: a story's link and caps, at what this machine can carry."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nfsmulti.errors import HarnessError
from nfsmulti.lab.limits import Limits
from nfsmulti.units import parse_rate

# The most of what a machine carried without limits that the fitted link may take. The limits must
# bind, not the processors, in every cell: on two cores, another program that starts later and keeps
# one busy leaves client and server two thirds of what they had, and shaping costs a little too.
HEADROOM = 0.5
# A server that has waited so long for a processor makes up for it; with less, rates are not reached
# on a busy machine.
_BURST_SECONDS = 0.02
_BURST_MIN = 256 << 10
_MBIT = 10**6
_PARTS = {1: "the", 2: "half the", 3: "a third of the", 4: "a quarter of the", 5: "a fifth of the"}


@dataclass(frozen=True)
class Fit:
    """Limits at which a machine shows a story's ratio.

    `carried` is what the machine carries without limits, in bytes/s. `link` and `cap`, the rate of
    one path, are in bit/s, in the published proportion; `assured` is each path's share when all are
    busy. `fraction` is what they are of the full rates: 1, a half, a third and so on.
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
            burst=f"{max(_BURST_MIN, int(self.cap / 8 * _BURST_SECONDS)) >> 10}k",
        )

    @property
    def part(self) -> str:
        """Say what the rates are of the full ones: "a third of the full rates"."""
        whole = round(1 / self.fraction)
        return f"{_PARTS.get(whole, f'1/{whole} of the')} full rates"

    def text(self) -> str:
        """Say it in a sentence."""
        return f"At {self.part}: this machine carries {self.carried / 1e6:,.0f} MB/s."


def fit(carried: float, *, link: str, cap: str, paths: int) -> Fit:
    """Fit a story's `link` and `cap` to a machine that carried so many bytes/s without limits.

    The rates are tc's words, such as "9400mbit". They are divided by a whole number, so that runs
    on one machine get the same limits although it never carries quite the same. Raises HarnessError
    where not even 1 Mbit/s would be left.
    """
    published, capped = parse_rate(link), parse_rate(cap)
    whole = math.ceil(published / max(HEADROOM * carried * 8, 1))
    if min(capped, published / paths) < whole * _MBIT:
        raise HarnessError(
            f"limits cannot be fitted to {carried / 1e6:.3g} MB/s, which is all that was carried"
            " without them",
            "try again when the machine has less to do",
        )
    rates = (published, capped, min(capped, published // paths))
    fitted, one, share = (rate // whole // _MBIT * _MBIT for rate in rates)
    return Fit(carried, fitted, one, share, 1 / whole)
