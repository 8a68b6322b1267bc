# SPDX-License-Identifier: GPL-2.0-only
"""connections: what more of them gain, and where that stops.

Nothing was published with it: it asks what more connections give on a server, and where that stops.
In the lab a connection has a cap and four fill the link (capped), or nothing is limited and the
processors are what ends it (uncapped). RDMA and kernel mounts need the kernel lab (guest).
"""

from nfsmulti.lab import LabConfig, Limits
from nfsmulti.report import answer, scaling
from nfsmulti.report.told import Run
from nfsmulti.scenario import PLAIN_WORKLOADS, CellSpec, GuestPlace
from nfsmulti.story import At, Factor, Knees, Levels, Lines, Story

WORKLOADS: dict[str, Levels] = {
    **PLAIN_WORKLOADS,
    "8k-oltp": {"rw": "randrw", "rwmixread": 67, "bs": "8k"},
}


def combinations(at: At) -> list[Levels]:
    """Return every combination, and of several paths first one connection on one of them."""
    found: list[Levels] = []
    for levels in at.every():
        alone = [{**levels, "paths": 1}] * (at.pool.urls > 1 and levels["nconnect"] == 1)
        found += [*alone, levels]
    return found


def job(at: At) -> CellSpec:
    """Return a cell in which each of `at.jobs` has `at.nconnect` connections on each path."""
    size = at.size(16 << 20, 128 << 20, 1 << 30)
    return at.cell(
        "connections.fio",
        {**WORKLOADS[at.workload], "rx_timestamps": 1, "numjobs": at.jobs, "size": size,
         "nconnect": at.nconnect, "spread": "roundrobin",
         **({"discard": 1} if at.scale.choice.discard else {})},
        at.seconds(2, 10),
        query=at.query,
        paths=int(at.levels.get("paths", at.pool.urls)),
        files={"nfsmulti-connections": size},
    )  # fmt: skip


def _mounted(cell: CellSpec, at: At) -> CellSpec:
    """Return a cell of kernel mounts. Of several URLs the engine does all I/O, of one fio's libaio.

    The cell on the first of several, which others are held against, is the engine's too.
    """
    alone = at.pool.urls == 1
    gone = {"nconnect", "discard", *(["spread"] if alone else [])}
    options = {name: value for name, value in cell.options.items() if name not in gone}
    return at.mounted(
        cell,
        "mount" if alone else "mounts",
        {"transport": f"{at.proto}-mount"},
        options=options,
        query="",
    )


MOST_LINES = 6  # in one plot
OTHERS = ("limits", "transport", "version", "jobs", "workload")


def unit(run: Run) -> str:
    """Return how throughput is taken: IOPS of small blocks, else MB/s."""
    return "MB/s" if str(run.levels("workload")[0]).startswith("64k") else "IOPS"


def headline(run: Run) -> str:
    """Say where the first curve ends, and what the first of another place reaches."""
    first, *others = run.curves("nconnect")
    said = scaling.verdict(first)
    places = {str(one.levels["limits"]): one for one in reversed(others)}
    places.pop(str(first.levels["limits"]), None)
    for place, curve in reversed(places.items()):
        at = scaling.chosen(curve)
        said = f"{said.removesuffix('.')}; {place} {curve.text(at)} with {curve.words(at)}."
    return said


def caveats(run: Run) -> list[str]:
    """Say of reads over TCP whether this client is the limit."""
    reads = [one for one in run.curves("nconnect") if {"tcp", "64k-read"} <= {*one.levels.values()}]
    return scaling.of_client(reads, discards=answer.discards(run.summary))


def plots(run: Run) -> list[Lines]:
    """Draw all curves; those of each number of jobs for themselves where they are many."""
    many = len(run.curves("nconnect")) > MOST_LINES and len(run.levels("jobs")) > 1
    shown = [unit(run), "CPU µs/op", f"p99 ms : {unit(run)}"]
    return [Lines("nconnect", OTHERS, shown, panels=["jobs"] if many else [])]


STORY = Story(
    headline=headline,
    table=Knees("nconnect", unit),
    caveats=caveats,
    plots=plots,
    reading=[
        scaling.RULE,
        "nconnect is the number of connections that each job has on each path; a kernel mount"
        " has as many for all jobs together. Of a pool of several URLs each is mounted, and"
        " this engine spreads each job's I/O over the mounts; on the mount of a single URL fio's"
        " libaio does it. Each job has 64 I/Os in flight, whatever nconnect is.",
    ],
    differs="In the lab, the servers are on the same machine.",
    places={
        "capped": LabConfig(
            addresses=1, limits=Limits(link="940mbit", per_connection="250mbit", burst="1m")
        ),
        "uncapped": LabConfig(addresses=1),
        "guest": GuestPlace(),
    },
    place="limits",
    factors={
        "limits": Factor(),
        "transport": Factor(["tcp", "rdma", "tcp-mount", "rdma-mount"]),
        "version": Factor(),
        "jobs": Factor([1, 4], quick=[1], asked="jobs"),
        "nconnect": Factor([1, 2, 4, 8, 16], quick=[1, 2, 4, 8], asked="nconnect"),
        "workload": Factor(["64k-read"], asked="workload"),
    },
    of_some=["paths"],
    combinations=combinations,
    job=job,
    twin=_mounted,
    urls_alone="a directory has the connections of its mount",
    repeats=5,
    quick_repeats=5,
)
