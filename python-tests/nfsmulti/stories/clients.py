# SPDX-License-Identifier: GPL-2.0-only
"""clients: how many NFS clients a server serves, and how evenly.

Nothing was published with it. One machine is many clients; each has one read of 4 KiB under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfsmulti.lab import LabConfig
from nfsmulti.scenario import CellSpec, timed
from nfsmulti.story import At, Column, Factor, Grid, Levels, Lines, Page, Story

if TYPE_CHECKING:
    from nfsmulti.report.told import Run
    from nfsmulti.summary import Factor as Level

JOB = "clients"  # of the job file
# More, on a server that is not the lab's, want a user's consent.
MOST_UNASKED = 256
_LAB = [1, 10, 100, 1000]


def _levels(at: At) -> list[Level]:
    return [*(one for one in _LAB if not at.own or one <= MOST_UNASKED)]


def job(at: At) -> CellSpec:
    """Return random reads of so many clients."""
    seconds, size = at.seconds(5, 15), at.size(16 << 20, 128 << 20, 1 << 30)
    return CellSpec(
        {}, "", "clients.fio",
        {"nclients": at.clients, "iodepth": at.clients, "client_depth": 1, "spread": "roundrobin",
         "size": size, **timed(seconds)},
        seconds,
        jobs=[JOB],
        query=at.query,
        paths=min(at.clients, at.pool.urls),
        files={"nfsmulti-clients": size},
    )  # fmt: skip


def _served(run: Run, at: Levels) -> str:
    """Say how many clients of those that were asked for are served: "1,023 of 2,000 clients"."""
    least = run.sample("clients served", at)
    return f"{min(least.values) if least else 0:,.0f} of {at['clients']:,} clients"


def rows(run: Run) -> dict[str, Levels]:
    """Return each number of clients, by how many of them are served."""
    others = [name for name in run.story.factors if name != "clients"]
    varied = [name for name in run.varying(others) if len(run.levels(name)) > 1]
    return {
        ", ".join(
            filter(None, (run.words({name: at[name] for name in varied}), _served(run, at)))
        ): at
        for at in run.combinations(*others, "clients")
    }


def headline(run: Run) -> str:
    """Tell of the most clients that were measured, of the first row."""
    first = run.combinations(*(name for name in run.story.factors if name != "clients"))[0]
    at = {**first, "clients": max(run.counts("clients", first))}
    slowest = run.sample("slowest client %", at)
    part = f"; the slowest does {slowest.mean:.0f} % of the mean" if slowest else ""
    rates = f"{run.text('IOPS', at)}, p99 {run.text('p99 ms', at)}"
    return f"{_served(run, at)} are served: {rates}{part}."


STORY = Story(
    name="clients",
    page=Page(
        about=__doc__,
        names={"clients": "{} clients"},
        headline=headline,
        table=Grid(
            rows,
            [
                *(Column(name, name) for name in ("IOPS", "p50 ms", "p99 ms")),
                Column("slowest, % of the mean", "slowest client %"),
                Column("Jain's index", "clients' Jain"),
            ],
        ),
        plots=[Lines("clients", ["version"], ["IOPS", "p99 ms", "slowest client %"])],
        reading=[
            "A client is served if it has done I/O. Jain's index is 1 if all did equally much; of"
            " many it hides a slow one, which the slowest client's part of the mean shows.",
            "Of several NFS versions the answer tells of the first, at its most clients.",
        ],
    ),
    places={"lab": LabConfig(addresses=1)},
    factors={
        "version": Factor(),
        "clients": Factor(_levels, quick=[1, 10, 100], asked="clients"),
    },
    job=job,
    without_urls="clients needs URLs in the pool: a mount is one client, the kernel's",
    lengthens=False,
)
