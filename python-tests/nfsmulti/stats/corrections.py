# SPDX-License-Identifier: GPL-2.0-only
"""What probabilities become where several tests are made at once."""

from __future__ import annotations

from collections.abc import Sequence


def holm(probabilities: Sequence[float]) -> list[float]:
    """Give Holm's corrected p of each of several tests, in their order."""
    from statsmodels.stats.multitest import multipletests  # takes seconds to load

    if not probabilities:
        return []
    return [float(p) for p in multipletests(probabilities, method="holm")[1]]
