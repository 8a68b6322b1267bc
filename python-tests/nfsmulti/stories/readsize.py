# SPDX-License-Identifier: GPL-2.0-only
"""readsize: how large a read should be, from 4 KiB to 1 MiB.

Nothing was published with it. All reads in flight together are 1 MiB, whatever the size of each.
"""

from nfsmulti.lab import LabConfig
from nfsmulti.report import scaling
from nfsmulti.report.measures import CPU
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec
from nfsmulti.story import At, Column, Factor, Grid, Lines, Story


def job(at: At) -> CellSpec:
    """Return sequential reads of `at.kib` KiB."""
    size = at.size(16 << 20, 128 << 20, 1 << 30)
    return at.cell(
        "connections.fio",
        {"rw": "read", "bs": f"{at.kib}k", "iodepth": 1024 // at.kib, "size": size,
         "nconnect": at.nconnect, "spread": "roundrobin"},
        at.seconds(2, 10),
        query=at.query,
        paths=at.pool.urls,
        files={"nfsmulti-connections": size},
    )  # fmt: skip


def columns(run: Run) -> list[Column]:
    """Return the bandwidth at each size."""
    return [Column(f"{kib} KiB", "MB/s", {"kib": kib}) for kib in run.counts("kib")]


STORY = Story(
    names={"kib": "{} KiB reads", "nconnect": "nconnect={}"},
    headline=lambda run: scaling.verdict(run.curves("kib")[0]),
    table=Grid(["version", "nconnect"], columns, corner="MB/s"),
    plots=[Lines("kib", ["version", "nconnect"], ["MB/s", CPU, "p99 ms : MB/s"])],
    reading=["Where several were measured, the answer tells of the first row."],
    places={"lab": LabConfig(addresses=1)},
    factors={
        "version": Factor(),
        "nconnect": Factor([1, 4], asked="nconnect"),
        "kib": Factor([4, 16, 64, 256, 1024], quick=[4, 64, 1024]),
    },
    job=job,
    urls_alone="a mount has the rsize that it was mounted with",
    repeats=5,
)
