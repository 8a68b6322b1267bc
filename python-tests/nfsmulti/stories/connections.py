# SPDX-License-Identifier: GPL-2.0-only
"""connections: what more of them gain, and where that stops.

Nothing was published with it: it asks what more connections give on a server, and where that stops.
In the lab a connection has a cap and four fill the link (capped), or nothing is limited and the
processors are what ends it (uncapped). RDMA and kernel mounts need the kernel lab (guest).
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath

from nfsmulti import texts
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.pool import mount_ports, mount_source
from nfsmulti.report import cells, scaling
from nfsmulti.report.answer import discards, extent, fewest, varying
from nfsmulti.report.curves import Curve
from nfsmulti.report.measures import CPU
from nfsmulti.report.story import Section
from nfsmulti.report.told import Run
from nfsmulti.scenario import (
    FOR_HARNESS,
    PLAIN_WORKLOADS,
    STAMPS,
    CellSpec,
    GuestPlace,
    mount_options,
)
from nfsmulti.story import At, Factor, Level, Levels, Lines, Page, Story
from nfsmulti.texts import Table

WORKLOADS: Mapping[str, dict[str, Level]] = {
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


KERNELS_MOST = 16  # nconnect of a mount (nfs(5))
MOST_LINES = 6  # in one plot
# Of fio's command line, what is not pasted: `overwrite` is for files of the run's own.
OURS = FOR_HARNESS | {STAMPS, "output", "output-format", "name", "overwrite"}
OTHERS = ("limits", "transport", "version", "jobs", "workload")


def curves(run: Run) -> list[Curve]:
    """Return a curve for each place, transport, version and number of jobs."""
    return run.curves("nconnect")


def name(curve: Curve, run: Run) -> str:
    """Name a curve by the levels in which those of this run differ, one alone by its transport."""
    differing = {one: curve.levels[one] for one in OTHERS if len(run.levels(one)) > 1}
    kinds = {"tcp": "TCP", "rdma": "RDMA"}
    proto, _, mount = str(curve.levels["transport"]).partition("-")
    alone = kinds.get(proto, "")
    return run.words(differing) or (f"the kernel's mount over {alone}" if mount else alone)


def unit(run: Run) -> str:
    """Return how throughput is taken: IOPS of small blocks, else MB/s."""
    return "MB/s" if str(run.levels("workload")[0]).startswith("64k") else "IOPS"


def table(run: Run) -> Table:
    """Lay out, below each other, some counts of each curve: as many as there is room for."""
    drawn = curves(run)

    def least(curve: Curve) -> int:
        return curve.counts[0]

    def rows(pick: Callable[[Curve], Collection[int]]) -> list[list[str]]:
        return [
            [
                name(curve, run), str(curve.connections(count) or curve.words(count)),
                texts.measured(cells.sample(curve.at(count), run.measure(unit(run)))),
                "1" if count == least(curve) else texts.times(curve.gain(count, least(curve))),
                texts.number(cells.pooled_ms(curve.at(count), "p99 ms")),
                texts.mean(cells.sample(curve.at(count), run.cost)),
            ]
            for curve in drawn for count in sorted(pick(curve))
        ]  # fmt: skip

    few = fewest(
        functools.partial(rows, pick)
        for pick in (
            lambda curve: curve.counts,
            lambda curve: {curve.counts[0], scaling.chosen(curve), curve.counts[-1]},
            lambda curve: {scaling.chosen(curve)},
        )
    )
    fewest_of = extent(str(one.connections(one.counts[0]) or "the fewest") for one in drawn)
    times = f"times {fewest_of} connection{'' if fewest_of == '1' else 's'}"
    return varying(["", "connections", unit(run), times, "p99, ms", "CPU, µs/op"], few, 1)


def headline(run: Run) -> str:
    """Say where the first curve ends, and what the first of another place reaches."""
    drawn = curves(run)
    said = scaling.verdict(drawn[0])
    places = {str(one.levels["limits"]): one for one in reversed(drawn)}
    del places[str(drawn[0].levels["limits"])]
    for place, curve in reversed(places.items()):
        at = scaling.chosen(curve)
        said = f"{said.removesuffix('.')}; {place} {curve.text(at)} with {curve.words(at)}."
    return said


def caveats(run: Run) -> list[str]:
    """Say whether a client that discards is the limit, and what shows whether another one is."""
    reads = [one for one in curves(run) if {"tcp", "64k-read"} <= {*one.levels.values()}]
    chosen = [one.cells[scaling.chosen(one)] for one in reads]
    core = max(map(scaling.core, chosen), default=0.0)
    if not discards(run.summary):
        said = "A core is full: with `--discard` (over TCP in clear) it need not copy what is read."
        return [said] * (core >= scaling.FULL)
    busy = f"the busiest job takes {100 * core:.0f} % of its core"
    if core >= scaling.FULL:
        return [f"Even so {busy}: more jobs may reach more."]
    shared = any("this client" in scaling.limit(one, scaling.chosen(one)) for one in reads)
    return [] if shared else [f"This client is not the limit: {busy}."]


def calls(run: Run) -> list[Section]:
    """Say where mounts' calls spent their time, each curve with the connections that are chosen."""
    told = {name(one, run): cells.mounted(one.cells[scaling.chosen(one)]) for one in curves(run)}
    points = [f"{whose}: {said}." for whose, said in told.items() if said]
    words = "By /proc/self/mountstats, which has no percentiles: see docs/arrivals.md."
    return [Section("Calls of the mounts", [words], points=points)] * bool(points)


def plots(run: Run) -> list[Lines]:
    """Draw all curves; those of each number of jobs for themselves where they are many."""
    panels = ["jobs"] if len(curves(run)) > MOST_LINES and len(run.levels("jobs")) > 1 else []
    shown = [unit(run), CPU, f"p99 ms : {unit(run)}"]
    return [Lines("nconnect", OTHERS, shown, panels=panels)]


def to_paste(run: Run) -> list[Section]:
    """Return what to mount with and a job for fio: of the first curve that is as good as any there.

    "There" is the first place.
    """
    drawn, summary = curves(run), run.summary
    here = [curve for curve in drawn if curve.levels["limits"] == drawn[0].levels["limits"]]
    rates = [curve.mean(scaling.chosen(curve)) for curve in here]
    best = here[next(n for n, rate in enumerate(rates) if scaling.GAIN * rate >= max(rates))]
    at = scaling.chosen(best)
    transport = str(best.levels["transport"])
    proto = transport.removesuffix("-mount")
    each = int(best.at(at)[0].factors["nconnect"])
    each *= 1 if proto != transport else int(best.levels["jobs"])  # a mount is all jobs'
    version, most = str(best.levels["version"]), min(each, KERNELS_MOST)
    options = mount_options(proto, version, most, locks=True)
    given = {option: values[-1] for option, values in cells.given(best.cells[at][0]).items()}
    own = summary.place.get("kind") == "pool"
    pools = [cells.given(cell).get("pool") for one in here if own for cell in one.at(at)]
    pool = next((one[-1] for one in pools if one), "nfs://SERVER/EXPORT")
    urls = pool.split(",")
    folders = [f"/mnt/{n}" for n in range(1, len(urls) + 1)] if len(urls) > 1 else ["/mnt"]
    if "pool" in given:
        given["pool"] = pool
    elif given.get("ioengine", "").startswith("external:"):  # over several mounts
        given["pool"] = ",".join(folders)
    else:
        given["directory"] = "/mnt"
    if "filename" in given:  # not the run's, nor in its directory, which goes with it
        given["filename"] = PurePath(given["filename"]).name.removeprefix("nfsmulti-")
    job = [f"{option}={value}" for option, value in given.items() if option not in OURS]
    mounts = [
        shlex.join(["mount", "-t", "nfs", "-o", mount_ports(url, options), mount_source(url), to])
        for url, to in zip(urls, folders, strict=True)
    ]
    alike = ", the fewest that are not shown to be worse" if scaling.alike(best) else ""
    words = f"For {best.words(at)}{alike}; a kernel mount has {KERNELS_MOST} at most."
    words += " Choose a `filename` of your own."
    if summary.place.get("hosts"):
        words += f" The job for fio is `{best.cells[at][0].folder}/host1.fio`."
        return [Section("Lines to paste", [words], lines=mounts)]
    return [Section("Lines to paste", [words], lines=[*mounts, "", "[connections]", *job])]


PAGE = Page(
    about=__doc__,
    headline=headline,
    table=table,
    caveats=caveats,
    plots=plots,
    more=calls,
    ending=to_paste,
    reading=[
        scaling.RULE,
        "nconnect is the number of connections that each job has on each path; a kernel mount"
        " has as many for all jobs together. Of a pool of several URLs each is mounted, and"
        " this engine spreads each job's I/O over the mounts; on the mount of a single URL fio's"
        " libaio does it. Each job has 64 I/Os in flight, whatever nconnect is.",
    ],
    differs="In the lab, the servers are on the same machine.",
)

STORY = Story(
    name="connections",
    page=PAGE,
    places={
        "capped": LabConfig(
            addresses=1, limits=Limits(link="9400mbit", per_connection="2500mbit", burst="2m")
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
    probe=("capped", {"jobs": 1, "nconnect": 4}),
    without_urls="connections need URLs in the pool: a directory has those of its mount",
    left_out=lambda at: ["directories: theirs are those of their mounts"] * bool(at.pool.mounts),
    repeats=5,
    quick_repeats=5,
)
