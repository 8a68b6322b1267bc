# SPDX-License-Identifier: GPL-2.0-only
"""Runs for tests: each story's reference run, and runs that never ran.

These have figures as a server might give them, the same each time.
"""

import dataclasses
import functools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from nfsmulti.paths import RESULTS
from nfsmulti.report import pages
from nfsmulti.stats import percentile_us
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import Arrivals, Cell, Factor, Figures, JobRow, Parts, Summary

PLACE = {
    "kind": "lab",
    "pool": "nfs://10.77.0.[1-5]/export",
    "limits": {"link": "1gbit", "per_address": "120mbit"},
}
UNLIMITED = {"kind": "lab", "pool": "", "limits": {}}
ENVIRONMENT = {
    "kernel": "6.1.0-35-amd64",
    "fio": "fio-3.33",
    "server": {"name": "nfs-ganesha", "version": "4.3"},
    "sysctls": {"net.ipv4.tcp_rmem": "4096 131072 6291456"},
    "links": [{"name": "veth0", "mtu": 1500}],
    "mounts": [],
}


def figures(
    rng: random.Random, bytes_per_s: float, block: int, mean_us: float, seconds: float = 4.0
) -> Figures:
    """Make the figures of one direction, with bins whose percentiles are those that it gives."""
    ops = round(bytes_per_s * seconds / block)
    bins: Counter[int] = Counter()
    for _ in range(200):
        bins[round(mean_us * rng.lognormvariate(-0.08, 0.4)) * 1000] += max(1, ops // 200)
    p50, p95, p99, p999 = (percentile_us(bins, percent) or 0 for percent in (50, 95, 99, 99.9))
    return Figures(
        ops, ops * block, seconds, ops / seconds, ops * block / seconds,
        mean_us, p50, p95, p99, p999, {str(latency): count for latency, count in bins.items()},
    )  # fmt: skip


def _cell(
    rng: random.Random,
    factors: Mapping[str, Factor],
    repeat: int,
    *,
    slower: float = 1.0,
    read: float = 0,
    write: float = 0,
    rate: float = 0,
    block: int = 8192,
    mean_us: float = 400,
    cpu_us: float = 20,
    jobs: int = 1,
    processors: int = 0,
    noise: float = 0.01,
    paths: Mapping[str, float] | None = None,
) -> Cell:
    """Make a cell; rates in bytes per second, CPU in µs per I/O.

    `rate` is that of the direction that the factors name.
    """
    ways = {"read": read, "write": write}
    ways |= {str(factors["direction"]): rate} if rate else {}
    sides = {
        way: figures(rng, at * rng.lognormvariate(0, noise) / slower, block, mean_us)
        for way, at in ways.items()
        if at
    }
    ops = sum(side.ops for side in sides.values())
    rates = {side: figure.bytes_per_s / jobs for side, figure in sides.items()}
    rows = [
        JobRow(
            "t", number, rates.get("read", 0), rates.get("read", 0) / block,
            rates.get("write", 0), rates.get("write", 0) / block,
            mean_us, mean_us * 0.9, mean_us * 2.2, 4.2, 30.0,
        )
        for number in range(jobs)
    ]  # fmt: skip
    name = "-".join(str(value) for value in factors.values())
    over = " --spread=roundrobin" if "nconnect" in factors else ""
    own, machine = (cpu * rng.lognormvariate(0, 0.01) for cpu in (cpu_us, 2.5 * cpu_us))
    return Cell(
        f"{name}-{repeat}", dict(factors), repeat, "done", f"cells/{name}-{repeat}",
        f"fio --name=t --output={name}{over}", seconds=4.0,
        read=sides.get("read"), write=sides.get("write"),
        cpu_s=own * ops / 1e6, machine_cpu_s=machine * ops / 1e6, processors=processors,
        usr_percent=4.2 * jobs, sys_percent=30.0 * jobs, jobs=rows, paths=dict(paths or {}),
    )  # fmt: skip


def block(repeat: int, rate: float, **factors: Factor) -> Cell:
    """Make a cell that has read at a rate, of which nothing else is known."""
    side = Figures(1, 1, 1, 1, rate, 1, 1, 1, 1, 1)
    return Cell(f"{repeat}", factors, repeat, "done", "", "", read=side)


def made(
    scenario: str,
    cells: Iterable[tuple[Mapping[str, Factor], Mapping[str, Any]]],
    repeats: int = 3,
    seed: int = 1,
    place: Mapping[str, Any] = PLACE,
    **usual: Any,
) -> Summary:
    """Make a run of cells by their factors, with what `_cell` takes of each, or of all.

    Figures vary a little from repeat to repeat.
    """
    rng = random.Random(f"{scenario} {seed}")
    return Summary(
        scenario, "made", "2026-11-20T17:00:00Z", "2026-11-20T17:20:00Z", False,
        f"./nfsmulti run {scenario} --lab --repeat {repeats}", dict(place),
        [_cell(rng, factors, repeat, **usual, **own)
         for factors, own in cells for repeat in range(1, repeats + 1)],
    )  # fmt: skip


def only(summary: Summary, where: Callable[[Cell], bool]) -> Summary:
    """Return a run with some of its cells."""
    return dataclasses.replace(summary, cells=[*filter(where, summary.cells)])


def changed(
    summary: Summary, where: Callable[[Cell], bool] = lambda _: True, **fields: Any
) -> Summary:
    """Return a run of which some cells, or all, have other fields: values, or what a cell gives.

    Of `factors` those are kept that are not given.
    """

    def change(cell: Cell) -> Cell:
        found = {name: to(cell) if callable(to) else to for name, to in fields.items()}
        found["factors"] = {**cell.factors, **found.get("factors", {})}
        return dataclasses.replace(cell, **found)

    cells = [change(cell) if where(cell) else cell for cell in summary.cells]
    return dataclasses.replace(summary, cells=cells)


def part(name: str, **fields: Any) -> Callable[[Cell], Any]:
    """Return what gives a part of a cell, such as what it read, with other fields like these."""

    def change(cell: Cell) -> Any:
        found = {one: to(cell) if callable(to) else to for one, to in fields.items()}
        return getattr(cell, name) and dataclasses.replace(getattr(cell, name), **found)

    return change


def placed(summary: Summary, **place: Any) -> Summary:
    """Return a run that was made in another place, or under other conditions there."""
    return dataclasses.replace(summary, place={**summary.place, **place})


def faster(cell: Cell, times: float) -> Cell:
    """Return a cell with so many times its throughput."""
    read, write = (
        side and dataclasses.replace(side, bytes_per_s=side.bytes_per_s * times)
        for side in (cell.read, cell.write)
    )
    return dataclasses.replace(cell, read=read, write=write)


def saved(summary: Summary, folder: Path) -> Path:
    """Write a run's summary.json and environment.json."""
    folder.mkdir(parents=True, exist_ok=True)
    summary.save(folder)
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT))
    return folder


def report_of(summary: Summary, environment: Mapping[str, Any] = ENVIRONMENT) -> str:
    """Return the text of a run's report.md, its plots not drawn, with each run of blanks as one."""
    contents = pages.contents(SCENARIOS[summary.scenario], summary, environment)
    return " ".join(pages.render(pages.TEMPLATES[pages.MARKDOWN], contents).split())


@functools.cache
def reference(name: str, repeats: int = 9) -> Summary:
    """Load a story's reference run, the ordinary one, with so many repeats at most."""
    return only(Summary.load(RESULTS / "reference" / name), lambda cell: cell.repeat <= repeats)


def dd(repeats: int = 3, slower: float = 1.0, seed: int = 1) -> Summary:
    """Make a run of dd: 14.5 MB/s by connection where capped, a link of 1 Gbit/s."""
    cells: Any = [
        ({"client": client, "direction": direction, "streams": streams},
         {"rate": min(one * streams, 117e6), "jobs": streams})
        for direction, streams in product(("write", "read"), range(1, 6))
        for client, one in (("capped", 14.5e6), ("uncapped", 105e6))
    ]  # fmt: skip
    return made("dd", cells, repeats, seed, slower=slower)


def oltp(repeats: int = 3, seed: int = 1) -> Summary:
    """Make a run of oltp, in which one connection is full at 20,000 IOPS."""
    kinds = {"one": (20e3, 25), "pool": (60e3, 22), "mount": (30e3, 15)}
    cells: Any = [
        ({"connections": kind, "concurrency": concurrency},
         {"read": rate * 8192 * 2 / 3, "write": rate * 8192 / 3, "cpu_us": cost,
          "mean_us": concurrency / rate * 1e6})
        for (kind, (most, cost)), concurrency in product(kinds.items(), (1, 4, 16, 64))
        for rate in [min(2500 * concurrency, most)]
    ]  # fmt: skip
    return made("oltp", cells, repeats, seed)


def sweep(
    speed: Callable[[dict[str, Factor]], float], repeats: int = 3, seed: int = 1, **more: Any
) -> Summary:
    """Make a sweep of a server of which `speed` gives the MB/s; `more` has other levels."""
    levels: dict[str, tuple[Factor, ...]] = {
        "direction": ("read", "write"), "sync": ("sync", "async"), "mount": ("soft", "hard"),
        "buffer": (16384, 32768, 65536, 131072), "transfer": (64,), **more,
    }  # fmt: skip
    every = [dict(zip(levels, values, strict=True)) for values in product(*levels.values())]
    cells = [(factors, {"rate": speed(factors) * 1e6}) for factors in every]
    return made("sweep", cells, repeats, seed, block=1 << 20)


def connections_factors(nconnect: int, transport: str = "tcp") -> dict[str, Factor]:
    """Return the factors of a cell of connections."""
    return {
        "limits": "pool", "transport": transport, "version": "3", "jobs": 1,
        "nconnect": nconnect, "workload": "64k-read",
    }  # fmt: skip


def latency(
    repeats: int = 3, slower: float = 1.0, seed: int = 1, nconnect: tuple[int, ...] = (1, 4),
    slo: str = "p99:1ms", loads: Sequence[int] = (20, 40, 60, 80, 100, 120),
) -> Summary:  # fmt: skip
    """Make a run of latency: each connection is one server that takes 50 µs, as in M/M/1."""
    parts: dict[Factor, float] = {"peak": 1, **{load: min(1, load / 100) for load in loads}}
    cells = [
        (latency_factors(count, load), {"read": 20e3 * count * part * 4096})
        for count, (load, part) in product(nconnect, parts.items())
    ]
    run = made(
        "latency", cells, repeats, seed, {**UNLIMITED, "slo": slo},
        slower=slower, block=4096, mean_us=50,
    )  # fmt: skip
    return dataclasses.replace(run, cells=[_arrived(cell, slower) for cell in run.cells])


def _arrived(cell: Cell, slower: float) -> Cell:
    """Return a cell in which I/O arrived at a rate, with the responses of M/M/1, or a peak."""
    load = cell.factors["load"]
    if load == "peak" or not cell.read:
        return cell
    peak = 20e3 * int(cell.factors["nconnect"]) / slower
    offered = peak * int(load) / 100
    mean_us = 50 * slower / max(0.02, 1 - cell.read.iops / peak)
    bins: Counter[int] = Counter()
    for at in range(500):  # the quantiles of an exponential distribution
        bins[round(-mean_us * math.log(1 - (at + 0.5) / 500) * 1000)] += 40
    return dataclasses.replace(
        cell,
        arrivals=Arrivals(
            offered, cell.read.iops, offered < peak, due=20000, lag={"2000": 20000},
            over_time=[mean_us, None, mean_us],
        ),
        read=dataclasses.replace(cell.read, response={str(ns): n for ns, n in bins.items()}),
        read_over_time={"p50_us": [50.0, 50.0], "p99_us": [90.0, None, 95.0]},
        parts=Parts({"2000": 20000}, {"2100000": 20000}, {"40000": 19000, "42000": 1000}, 0.25),
    )  # fmt: skip


def latency_factors(nconnect: int, load: Factor) -> dict[str, Factor]:
    """Return the factors of a cell of latency."""
    return {
        "limits": "lab", "transport": "tcp", "version": "3", "jobs": 1, "nconnect": nconnect,
        "workload": "4k-randread", "load": load,
    }  # fmt: skip
