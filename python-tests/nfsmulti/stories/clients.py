# SPDX-License-Identifier: GPL-2.0-only
"""clients: how many NFS clients a server serves, and how evenly.

Nothing was published with it. One machine is many clients; each has one read of 4 KiB under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from nfsmulti.lab import LabConfig
from nfsmulti.report import recovery
from nfsmulti.scenario import OWN, CellSpec, timed
from nfsmulti.story import At, Column, Factor, Grid, Level, Levels, Lines, Page, Story, every

if TYPE_CHECKING:
    from nfsmulti.report.told import Run

JOB = "clients"  # of the job file
NEW = 5  # clients that come after a restart
# More, on a server that is not the lab's, want a user's consent.
MOST_UNASKED = 256
_LAB, _GRACE = "lab", "lab-grace"


def _levels(at: At) -> Sequence[Level]:
    fewest = 10 if at.scale.choice.restart else 1
    most = 100 if at.scale.quick or at.own else 1000
    return [one for one in (1, 10, 100, 1000) if fewest <= one <= most]


def _combinations(factors: Mapping[str, Factor], at: At) -> Iterable[Mapping[str, Level]]:
    """Return all, in the place that has a grace period where the server is restarted."""
    place = _GRACE if at.scale.choice.restart else _LAB
    return every(factors, at) if at.place in (OWN, place) else ()


def job(at: At) -> CellSpec:
    """Return random reads of so many clients."""
    restart, size = at.scale.choice.restart, at.size(16 << 20, 128 << 20, 1 << 30)
    seconds = at.seconds(15, 30) if restart else at.seconds(5, 15)
    return CellSpec(
        {}, "", "clients.fio",
        {"nclients": at.clients, "iodepth": at.clients, "client_depth": 1, "spread": "roundrobin",
         "size": size, **timed(seconds)},
        seconds,
        jobs=[JOB],
        query=at.query,
        paths=min(at.clients, at.pool.urls),
        files={"nfsmulti-clients": size},
        restart=restart,
    )  # fmt: skip


def _served(run: Run, at: Levels) -> str:
    """Say how many clients are served, or back after a restart: "1,023 of 2,000 clients"."""
    if restarts := recovery.found(run, at):
        return recovery.back(restarts)
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
    if recovery.found(run, at):
        return recovery.headline(run, at)
    slowest = run.sample("slowest client %", at)
    part = f"; the slowest does {slowest.mean:.0f} % of the mean" if slowest else ""
    rates = f"{run.text('IOPS', at)}, p99 {run.text('p99 ms', at)}"
    return f"{_served(run, at)} are served: {rates}{part}."


_COLUMNS = [
    *(Column(name, name) for name in ("IOPS", "p50 ms", "p99 ms")),
    Column("slowest, % of the mean", "slowest client %"),
    Column("Jain's index", "clients' Jain"),
]
_DRAWN = ["IOPS", "p99 ms", "slowest client %"]


def _restarted(run: Run) -> bool:
    return any(cell.restart for cell in run.summary.done)


STORY = Story(
    name="clients",
    page=Page(
        about=__doc__,
        names={"clients": "{} clients"},
        headline=headline,
        table=lambda run: run.table(Grid(rows, recovery.COLUMNS if _restarted(run) else _COLUMNS)),
        plots=lambda run: () if _restarted(run) else [Lines("clients", ["version"], _DRAWN)],
        more=lambda run: recovery.sections(run, rows(run)),
        reading=[
            "A client is served if it has done I/O. Jain's index is 1 if all did equally much; of"
            " many it hides a slow one, which the slowest client's part of the mean shows.",
            *recovery.READING,
            "Of several NFS versions the answer tells of the first, at its most clients.",
        ],
    ),
    places={_LAB: LabConfig(addresses=1), _GRACE: LabConfig(addresses=1, lease=15)},
    factors={
        "version": Factor(),
        "clients": Factor(_levels, asked="clients"),
    },
    combinations=_combinations,
    job=job,
    without_urls="clients needs URLs in the pool: a mount is one client, the kernel's",
    lengthens=False,
)
