# SPDX-License-Identifier: GPL-2.0-only
"""How evenly something is shared."""

from __future__ import annotations

import math
from collections.abc import Collection


def jain(shares: Collection[float]) -> float:
    """Give Jain's index of shares: 1 where all are equal, 1/n where one has all.

    R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984. Raises ValueError where nothing is shared.
    """
    squares = math.fsum(share * share for share in shares)
    if not squares:
        raise ValueError("nothing is shared")
    return math.fsum(shares) ** 2 / (len(shares) * squares)
