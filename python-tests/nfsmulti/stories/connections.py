# SPDX-License-Identifier: GPL-2.0-only
"""connections: what more of them gain, and where that stops.

Nothing was published with it: it asks what more connections give on a server, and where that stops.
In the lab a connection has a cap and four fill the link (capped), or nothing is limited and the
processors are what ends it (uncapped). RDMA and kernel mounts need the kernel lab (guest).

Factors: limits (capped, uncapped, guest, pool), transport (tcp, rdma, and each with -mount),
version, jobs, nconnect, workload.
"""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePath

from nfsmulti import texts
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.pool import mount_ports, mount_source
from nfsmulti.report import cells, charts, conditions, curves, measures, scaling
from nfsmulti.report.answer import Answer, discards, extent, fewest, varying
from nfsmulti.report.curves import Axis, Curve
from nfsmulti.report.measures import Take
from nfsmulti.report.story import Plot, Report, Section, Told
from nfsmulti.scenario import (
    FOR_HARNESS,
    OWN,
    PLAIN_WORKLOADS,
    STAMPS,
    CellSpec,
    GuestPlace,
    Place,
    mount_options,
    timed,
)
from nfsmulti.story import At, Factor, Story
from nfsmulti.summary import Factor as Level
from nfsmulti.summary import Summary
from nfsmulti.units import parse_rate

# --- what runs ---

WORKLOADS: Mapping[str, dict[str, Level]] = {
    **PLAIN_WORKLOADS,
    "8k-oltp": {"rw": "randrw", "rwmixread": 67, "bs": "8k"},
}
_WORKLOAD = "64k-read"

_GUEST = "guest"
_PLACES: dict[str, Place] = {
    "capped": LabConfig(
        addresses=1, limits=Limits(link="9400mbit", per_connection="2500mbit", burst="2m")
    ),
    "uncapped": LabConfig(addresses=1),
    _GUEST: GuestPlace(),
}


def _job(at: At) -> CellSpec:
    size, seconds = at.size(16 << 20, 128 << 20, 1 << 30), at.seconds(2, 10)
    return CellSpec(
        {}, "", "connections.fio",
        {**WORKLOADS[at.workload], STAMPS: 1, "numjobs": at.jobs, "size": size, **timed(seconds),
         "nconnect": at.nconnect, "spread": "roundrobin",
         **({"discard": 1} if at.scale.choice.discard else {})},
        seconds,
        query=at.query,
        paths=at.pool.urls,
        files={"nfsmulti-connections": size},
    )  # fmt: skip


def _mounted(cell: CellSpec, at: At) -> CellSpec:
    """Return a cell of kernel mounts. Over several, the engine spreads each job's I/O."""
    alone = cell.paths == 1
    gone = {"nconnect", "discard", *(["spread"] if alone else [])}
    return dataclasses.replace(
        cell,
        factors={**cell.factors, "transport": f"{at.proto}-mount"},
        client="mount" if alone else "mounts",
        options={name: value for name, value in cell.options.items() if name not in gone},
        query="",
        mount_options=mount_options(at.proto, at.version, at.nconnect),
    )


# --- what it tells ---

_FACTORS = ("limits", "transport", "version", "jobs", "nconnect", "workload")
_NAMES = {
    "tcp": "TCP",
    "rdma": "RDMA",
    "tcp-mount": "the kernel's mount over TCP",
    "rdma-mount": "the kernel's mount over RDMA",
}
_KERNELS_MOST = 16  # nconnect of a mount (nfs(5))
_MOST_LINES = 6  # in one plot
# Of fio's command line, what is not pasted: `overwrite` is for files of the run's own.
_OURS = FOR_HARNESS | {STAMPS, "output", "output-format", "name", "overwrite"}
_SERVER, _MOUNT = "nfs://SERVER/EXPORT", "/mnt"
_MOUNT_BY = ("mount", "-t", "nfs", "-o")


def tell(summary: Summary) -> Told:
    """Tell where each curve ends, and what the transports, versions and jobs differ in."""
    drawn = _curves(summary)
    return Told(
        answer=dataclasses.replace(_answer(drawn), caveats=_of_client(drawn, summary)),
        sections=[Section("Plots", plots=_plots(drawn)), *_calls(drawn)],
        reading=[
            scaling.RULE,
            "nconnect is the number of connections that each job has on each path; a kernel mount"
            " has as many for all jobs together. Of a pool of several URLs each is mounted, and"
            " this engine spreads each job's I/O over the mounts; on one mount fio's libaio does"
            " it. Each job has 64 I/Os in flight, whatever nconnect is.",
            *conditions.differences(summary, "In the lab, the servers are on the same machine."),
        ],
        ending=[_lines(summary, drawn)],
    )


def _curves(summary: Summary) -> list[Curve]:
    """Return the measured curves, in the order of places, transports, versions and jobs."""
    found = sorted(curves.curves(summary.done, Axis()), key=_order)
    return [
        dataclasses.replace(one, link=_link(summary, str(one.levels["limits"]))) for one in found
    ]


def _order(curve: Curve) -> tuple[int, int, str, int]:
    levels = curve.levels
    places, names = [*_PLACES, OWN], list(_NAMES)
    place, name = str(levels["limits"]), str(levels["transport"])
    at = names.index(name) if name in names else len(names)
    return places.index(place), at, str(levels["version"]), int(levels["jobs"])


def _link(summary: Summary, place: str) -> int | None:
    """Return the rate of the link that a place is known to have, in bit/s."""
    if links := summary.place.get("links"):
        return int(sum(links.values()))
    rate = conditions.limits(summary, place).get("link")
    return parse_rate(rate) if rate else None


def _answer(drawn: list[Curve]) -> Answer:
    """Tell where the curves end."""
    (unit, measure), (_, cost) = _throughput(drawn), _cpu(drawn)

    def rows(pick: Callable[[Curve], Collection[int]]) -> list[list[str]]:
        found = []
        for curve in drawn:
            lowest = curve.counts[0]
            for count in sorted(pick(curve)):
                those = curve.cells[count]
                connections = curve.connections(count)
                p99 = cells.percentile_of(those, 99)
                found.append([
                    _name(curve, drawn), str(connections or f"nconnect {count}"),
                    texts.measured(cells.sample(those, measure)),
                    "1" if count == lowest else texts.times(curve.gain(count, lowest)),
                    texts.number(p99 and p99 / 1000), texts.mean(cells.sample(those, cost)),
                ])  # fmt: skip
        return found

    few = fewest(
        functools.partial(rows, pick)
        for pick in (
            lambda curve: curve.counts,
            lambda curve: {curve.counts[0], scaling.chosen(curve), curve.counts[-1]},
            lambda curve: {scaling.chosen(curve)},
        )
    )
    least = extent(str(one.connections(one.counts[0]) or "the fewest") for one in drawn)
    times = f"times {least} connection{'' if least == '1' else 's'}"
    headings = ["", "connections", unit, times, "p99, ms", "CPU, µs/op"]
    return Answer(_headline(drawn), varying(headings, few, 1))


def _headline(drawn: Sequence[Curve]) -> str:
    """Say where the first curve ends, and what the first of another place reaches."""
    said = scaling.verdict(drawn[0])
    places = {str(one.levels["limits"]): one for one in reversed(drawn)}
    del places[str(drawn[0].levels["limits"])]
    for place, curve in reversed(places.items()):
        at = scaling.chosen(curve)
        said = f"{said.removesuffix('.')}; {place} {curve.text(at)} with {curve.words(at)}."
    return said


def _of_client(drawn: Sequence[Curve], summary: Summary) -> list[str]:
    """Say whether a client that discards is the limit, and what shows whether another one is."""
    reads = [one for one in drawn if {"tcp", _WORKLOAD} <= {*one.levels.values()}]
    chosen = [one.cells[scaling.chosen(one)] for one in reads]
    core = max(map(scaling.core, chosen), default=0.0)
    if not discards(summary):
        said = "A core is full: with `--discard` (over TCP in clear) it need not copy what is read."
        return [said] * (core >= scaling.FULL)
    busy = f"the busiest job takes {100 * core:.0f} % of its core"
    if core >= scaling.FULL:
        return [f"Even so {busy}: more jobs may reach more."]
    shared = any("this client" in scaling.limit(one, scaling.chosen(one)) for one in reads)
    return [] if shared else [f"This client is not the limit: {busy}."]


def _calls(drawn: Sequence[Curve]) -> list[Section]:
    """Say where mounts' calls spent their time, each curve with the connections that are chosen."""
    told = {_name(one, drawn): cells.mounted(one.cells[scaling.chosen(one)]) for one in drawn}
    points = [f"{name}: {said}." for name, said in told.items() if said]
    words = "By /proc/self/mountstats, which has no percentiles: see docs/arrivals.md."
    return [Section("Calls of the mounts", [words], points=points)] * bool(points)


def _cpu(drawn: Sequence[Curve]) -> tuple[str, Take]:
    """Return whose CPU time per operation is told, and how: fio's jobs' if no more is known."""
    measure = cells.cpu_measure(
        cell for curve in drawn for group in curve.cells.values() for cell in group
    )
    machine = measure is measures.MACHINE_CPU
    return "the whole machine" if machine else "fio's jobs", measure


def _name(curve: Curve, drawn: Sequence[Curve]) -> str:
    """Name a curve by the levels in which those of this run differ, one alone by its transport."""
    differing = {
        name: level
        for name, level in curve.levels.items()
        if len({one.levels[name] for one in drawn}) > 1
    }
    return cells.words(differing) or _NAMES.get(str(curve.levels["transport"]), "")


def _throughput(drawn: Sequence[Curve]) -> tuple[str, Take]:
    """Return the unit of throughput, and how it is taken: IOPS of small blocks, else MB/s."""
    if not str(drawn[0].levels["workload"]).startswith("64k"):
        return "IOPS", measures.IOPS
    return "MB/s", measures.MB_PER_S


def _plots(drawn: list[Curve]) -> list[Plot]:
    """Draw all curves; those of each number of jobs for themselves where they are many."""
    jobs = list(dict.fromkeys(int(curve.levels["jobs"]) for curve in drawn))
    if len(drawn) <= _MOST_LINES or len(jobs) == 1:
        return _plots_of(drawn, "", "")
    return [
        plot
        for number in jobs
        for plot in _plots_of(
            [curve for curve in drawn if curve.levels["jobs"] == number],
            f"-jobs{number}",
            f", {number} job{'s' if number > 1 else ''}",
        )
    ]


def _plots_of(drawn: list[Curve], suffix: str, of_jobs: str) -> list[Plot]:
    whose, cost = _cpu(drawn)
    plots = []
    for name, title, unit, measure in (
        ("throughput", "Throughput", *_throughput(drawn)),
        ("cpu", "CPU per operation", f"µs of {whose}", cost),
    ):
        named = [(_name(one, drawn), one) for one in drawn]
        figure = curves.draw(named, f"{title}{of_jobs}", unit, measure)
        caption = f"{title}{of_jobs} against connections; {charts.REPEATS}."
        plots.append(Plot(f"{name}{suffix}", caption, figure))
    return [*plots, _latency_plot(drawn, suffix, of_jobs)]


def _latency_plot(drawn: list[Curve], suffix: str, of_jobs: str) -> Plot:
    unit, measure = _throughput(drawn)
    title = f"Latency against throughput{of_jobs}"
    named = [(_name(one, drawn), one) for one in drawn]
    axes = unit, "latency p99, ms"
    figure = curves.latency(
        named, title, axes, measure, lambda found: cells.percentile_of(found, 99)
    )
    caption = f"p99 of latency against throughput{of_jobs}; the numbers are connections."
    return Plot(f"latency{suffix}", caption, figure)


def _lines(summary: Summary, drawn: list[Curve]) -> Section:
    """Return what to mount with and a job for fio: of the first curve that is as good as any there.

    There is the first place.
    """
    here = [curve for curve in drawn if curve.levels["limits"] == drawn[0].levels["limits"]]
    rates = [curve.mean(scaling.chosen(curve)) for curve in here]
    best = here[next(n for n, rate in enumerate(rates) if scaling.GAIN * rate >= max(rates))]
    at = scaling.chosen(best)
    transport = str(best.levels["transport"])
    proto = transport.removesuffix("-mount")
    each = at if proto != transport else at * int(best.levels["jobs"])  # a mount is all jobs'
    version, most = str(best.levels["version"]), min(each, _KERNELS_MOST)
    options = mount_options(proto, version, most, locks=True)
    given = {name: values[-1] for name, values in cells.given(best.cells[at][0]).items()}
    pools = [
        pools[-1]
        for curve in here
        if (pools := cells.given(curve.cells[curve.counts[0]][0]).get("pool"))
    ]
    pool = pools[0] if pools and summary.place.get("kind") == "pool" else _SERVER
    urls = pool.split(",")
    folders = [f"{_MOUNT}/{n}" for n in range(1, len(urls) + 1)] if len(urls) > 1 else [_MOUNT]
    if "pool" in given:
        given["pool"] = pool
    elif given.get("ioengine", "").startswith("external:"):  # over several mounts
        given["pool"] = ",".join(folders)
    else:
        given["directory"] = _MOUNT
    if "filename" in given:  # not the run's, nor in its directory, which goes with it
        given["filename"] = PurePath(given["filename"]).name.removeprefix("nfsmulti-")
    job = [f"{name}={value}" for name, value in given.items() if name not in _OURS]
    mounts = [
        shlex.join([*_MOUNT_BY, mount_ports(url, options), mount_source(url), folder])
        for url, folder in zip(urls, folders, strict=True)
    ]
    fewest_alike = ", the fewest that are not shown to be worse" if scaling.alike(best) else ""
    words = f"For {best.words(at)}{fewest_alike}; a kernel mount has {_KERNELS_MOST} at most."
    words += " Choose a `filename` of your own."
    if summary.place.get("hosts"):
        file = f"`{best.cells[at][0].folder}/host1.fio`"
        return Section("Lines to paste", [f"{words} The job for fio is {file}."], lines=mounts)
    return Section("Lines to paste", [words], lines=[*mounts, "", "[connections]", *job])


_REPORT = Report(
    "connections",
    __doc__,
    factors=_FACTORS,
    tell=tell,
)

STORY = Story(
    name="connections",
    own_report=_REPORT,
    places=_PLACES,
    place="limits",
    factors={
        "limits": Factor(),
        "transport": Factor(),
        "version": Factor(),
        "jobs": Factor([1, 4], quick=[1], asked="jobs"),
        "nconnect": Factor([1, 2, 4, 8, 16], quick=[1, 2, 4, 8], asked="nconnect"),
        "workload": Factor([_WORKLOAD], asked="workloads"),
    },
    job=_job,
    twin=_mounted,
    probe=("capped", {"jobs": 1, "nconnect": 4}),
    without_urls="connections need URLs in the pool: a directory has those of its mount",
    left_out=lambda _, pool: ["directories: theirs are those of their mounts"] * bool(pool.mounts),
    repeats=5,
    quick_repeats=5,
)
