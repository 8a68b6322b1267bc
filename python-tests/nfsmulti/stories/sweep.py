# SPDX-License-Identifier: GPL-2.0-only
"""sweep: four mount options against each other.

Published: a full factorial of read and write, sync and async, soft and hard, rsize = wsize of 16384
to 131072 and transfers of 1024, 2048 and 4096 MB, over TCP and 1 Gbit/s Ethernet. Best read 118
MB/s (buffers of 131072; 117 MB/s with 65536 and 32768), best write 84.1 MB/s (soft, sync, 65536).
Flat for buffers from 32768 up; sync or async, soft or hard mattered little. Settings are often
published; this finds yours.

Every combination runs, in a random order. The quick form is half of them: those whose levels'
numbers add up to an even one. Each level of a factor then meets each level of two others equally
often.
"""

from nfsmulti.lab import LabConfig, Limits
from nfsmulti.report import effects
from nfsmulti.scenario import CellSpec
from nfsmulti.story import At, Factor, Levels, Story

LINK = 117e6  # bytes/s that a link of 1 Gbit/s leaves


def combinations(at: At) -> list[Levels]:
    """Return every combination, or the half of a quick form."""

    def even(levels: Levels) -> bool:
        return sum(at.all(name).index(level) for name, level in levels.items()) % 2 == 0

    return [one for one in at.every() if even(one) or not at.scale.quick]


def job(at: At) -> CellSpec:
    """Return a transfer of `at.transfer` MB of 2^20 bytes."""
    size = at.transfer << 20
    return CellSpec(
        {}, "", "sweep.fio",
        {"rw": at.direction, "bs": at.buffer, "rsize": at.buffer, "wsize": at.buffer, "size": size,
         "sync": int(at.sync == "sync"), at.mount: 1},
        size / LINK,
        files={"nfsmulti-sweep": size} if at.direction == "read" else {},
    )  # fmt: skip


STORY = Story(
    any_factors=True,
    tell=effects.tell,
    beside=effects.beside,
    findings=lambda run: effects.findings(run.summary),
    places={"1gbit": LabConfig(addresses=1, limits=Limits(link="1gbit"))},
    factors={
        "direction": Factor(["read", "write"]),
        "sync": Factor(["sync", "async"]),
        "mount": Factor(["soft", "hard"]),
        "buffer": Factor([16384, 32768, 65536, 131072]),
        "transfer": Factor(
            lambda at: (
                [1, 2, 4]
                if at.scale.cell_seconds
                else [64, 128, 256]
                if at.scale.quick
                else [1024, 2048, 4096]
            )
        ),
    },
    combinations=combinations,
    job=job,
    urls_alone="a mount has the options that it was mounted with",
)
