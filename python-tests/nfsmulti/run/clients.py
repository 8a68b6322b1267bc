# SPDX-License-Identifier: GPL-2.0-only
"""The NFS clients of a cell: who was served, and how evenly."""

from __future__ import annotations

from collections.abc import Sequence

from nfsmulti.fiorun import ConnectionStats
from nfsmulti.run.plan import Plan
from nfsmulti.stats import jain
from nfsmulti.stories.clients import JOB
from nfsmulti.summary import Clients


def most(plan: Plan) -> int:
    """Return how many clients a run's server has at a time, at most: each host has so many."""
    counts = [int(cell.spec.options.get("nclients") or 0) for cell in plan.cells]
    return max(counts) * len(plan.hosts.split(","))


def figures(stats: Sequence[ConnectionStats]) -> Clients | None:
    """Return what became of a cell's clients; None without any, or where nothing was told."""
    ops = [one.read_ops + one.write_ops + one.meta_ops for one in stats if one.job == JOB]
    if not any(ops):
        return None
    return Clients(
        asked=len(ops),
        served=sum(done > 0 for done in ops),
        slowest=min(ops) * len(ops) / sum(ops),
        jain=jain(ops),
    )
