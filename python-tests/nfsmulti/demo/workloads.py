# SPDX-License-Identifier: GPL-2.0-only
"""What the demo runs: a published story each, with the lab that has its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nfsmulti.fiorun import Options
from nfsmulti.lab import LabConfig, Limits


@dataclass(frozen=True)
class Workload:
    """A jobfile, run with the options `one` on one path, and with `pool` on all paths of the lab.

    `seconds` is how long each of the two runs takes. `published` are the figures of the story.
    """

    jobfile: str
    direction: Literal["read", "write"]
    lab: LabConfig
    one_text: str
    pool_text: str
    one: Options
    pool: Options
    seconds: int
    published: str
    published_ratio: float | None
    explanation: str

    @property
    def name(self) -> str:
        """The jobfile's name without its ending."""
        return self.jobfile.removesuffix(".fio")


WORKLOADS = (
    Workload(
        jobfile="dd-write.fio",
        direction="write",
        lab=LabConfig(addresses=5, limits=Limits(link="1gbit", per_address="120mbit")),
        one_text="1 stream on 1 path",
        pool_text="5 streams on 5 paths",
        one={"runtime": 8},
        pool={"runtime": 8, "numjobs": 5},
        seconds=8,
        published="AIX, 1 GbE: 19.4 MB/s, five streams 72 MB/s",
        published_ratio=72 / 19.4,
        explanation=(
            "dd-write copies zeros as dd does, one 8 KiB request at a time. Every connection of"
            " this lab is capped at 120 Mbit/s of a 1 Gbit/s link, so one stream sees its cap and"
            " five streams on five connections nearly five times that."
        ),
    ),
    Workload(
        jobfile="fsperf.fio",
        direction="read",
        lab=LabConfig(
            addresses=4,
            limits=Limits(link="9400mbit", per_address="6200mbit", assured="1gbit", burst="2m"),
        ),
        one_text="1 reader on 1 path",
        pool_text="1 reader on 4 paths",
        one={"runtime": 8, "time_based": True},
        pool={"runtime": 8, "time_based": True, "spread": "roundrobin"},
        seconds=8,
        published="NFSv3, 10 GbE: 718 MB/s, four mounts 1100 MB/s",
        published_ratio=1100 / 718,
        explanation=(
            "fsperf is one process reading 64 KiB blocks. One connection is capped at 6.2 Gbit/s;"
            " sending each I/O over the next of four connections leaves only the link's 9.4 Gbit/s"
            " as the limit."
        ),
    ),
    Workload(
        jobfile="randread.fio",
        direction="read",
        lab=LabConfig(addresses=4),
        one_text="4 jobs on 1 path",
        pool_text="4 jobs on 4 paths",
        one={},
        pool={},
        seconds=30,
        published="NFS over RDMA, 40 GbE: 4381 MB/s over four jobs",
        published_ratio=None,
        explanation=(
            "randread reads a small file at random from four jobs, with no limit on the link. Here"
            " the processors of this machine are the limit: the pool spreads the jobs over four"
            " server processes, where one path has one."
        ),
    ),
)
