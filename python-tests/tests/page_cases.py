# SPDX-License-Identifier: GPL-2.0-only
"""Runs by what their pages promise, which a story's reference run does not show.

Of those with "drawn" in their promise, what plots draw is kept as well.
"""

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any

import made_runs
from made_runs import (
    changed,
    connections_factors,
    faster,
    made,
    only,
    part,
    placed,
    reference,
    sweep,
)

from nfsmulti.run.plan import crossed
from nfsmulti.scenario import Scale
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import (
    Arrivals,
    Cell,
    Clients,
    Factor,
    JobRow,
    Parts,
    Restart,
    Server,
    Status,
    Summary,
)  # fmt: skip

_HOSTS = ["h1", "h2"]


def cases(name: str) -> dict[str, Summary]:
    """Return the runs of a story."""
    return _CASES.get(name, dict)()


def _lacking(run: Summary, factors: dict[str, Factor], status: Status, why: str = "") -> Summary:
    """Return a run with one more cell, which failed or waits."""
    cell = Cell("more", factors, 1, status, "cells/more", "fio", why)
    return dataclasses.replace(run, cells=[*run.cells, cell])


def _joined(*runs: Summary) -> Summary:
    return dataclasses.replace(runs[0], cells=[cell for run in runs for cell in run.cells])


def _dd() -> dict[str, Summary]:
    run = reference("dd")
    unrun, own = (
        _unrun(),
        changed(placed(run, kind="pool", hosts=_HOSTS), command="fio --size=12345678"),
    )
    at: dict[str, Factor] = {"client": "pool", "direction": "write"}
    of_rates = {1: {"write": 200e6}, 5: {"write": float(2 * 800 << 20)}}
    uncapped = made("dd", [({**at, "streams": count}, one) for count, one in of_rates.items()])
    rates = {(1, 1): 1e8, (1, 5): 1e8, (4, 1): 1e8, (4, 5): 3e8}  # by nconnect and streams
    by_nconnect = [
        ({**at, "streams": streams, "nconnect": nconnect}, {"write": rate})
        for (nconnect, streams), rate in rates.items()
    ]
    return {
        "an own pool has nothing published": only(own, lambda cell: cell is own.cells[0]),
        "unless asked for; of all hosts, a time that was not measured is extrapolated": (
            dataclasses.replace(own, quick=True, command=f"{own.command} --published")
        ),
        "both published clients stand beside a run without caps, of all hosts' streams": placed(
            uncapped, hosts=_HOSTS, limits={}
        ),
        "failed and waiting cells are named": unrun,
        "what was published is told where nothing is done": only(
            unrun, lambda cell: cell.status == "waiting"
        ),
        "cells that differ in another factor are no repeats": made("dd", by_nconnect),
    }


def _unrun() -> Summary:
    at = {"client": "capped", "direction": "write"}
    run = made("dd", [({**at, "streams": 1}, {"write": 14.5e6})])
    run = _lacking(run, {**at, "streams": 5}, "failed", "server | gone")
    return _lacking(run, {"client": "capped", "direction": "read", "streams": 1}, "waiting")


def _fsperf() -> dict[str, Summary]:
    jain = {"read": 1e9, "paths": {"a": 0.75, "b": 0.25}}
    several = ((1, "job"), (2, "stripe"), (2, "roundrobin"))
    run, guest = reference("fsperf"), {"link": "118mbit", "per_mount": "78mbit"}
    lab = {"link": "9400mbit", "per_address": "6200mbit", "burst": "2m"}
    wider, slower = {**lab, "per_address": "4000mbit"}, {**guest, "per_mount": "39mbit"}
    return {
        "a ratio that the lab's limits rule out": placed(run, limits=lab),
        "but not the guest's": placed(run, limits={"lab": lab, "guest": slower}),
        "or not the lab's": placed(run, limits={"lab": wider, "guest": guest}),
        "one path alone": only(run, lambda cell: cell.factors["paths"] == 1),
        "two paths alone": made(
            "fsperf", [({"client": "nfs3", "paths": 2, "spread": "roundrobin"}, jain)]
        ),
        "on a pool the most paths there are": made(
            "fsperf",
            [
                ({"client": "mount-v4.2", "paths": paths, "spread": spread}, {"read": 5e8 * paths})
                for paths, spread in several
            ],
        ),
    }


def _randread() -> dict[str, Summary]:
    run = reference("randread")
    return {
        "the published mount stands beside a pool": made(
            "randread", [({"transport": "pool"}, {"read": 3e9})], block=65536, jobs=4
        ),
        "without a mount": only(run, lambda cell: "pool" in str(cell.factors["transport"])),
    }


def sio_of(
    rates: Mapping[str, float], *threads: int, pattern: str = "random", **more: Any
) -> Summary:
    """Make a run of sio that reads, at these rates by mode."""
    at = {"pattern": pattern, "direction": "read"}
    cells: list[Any] = [
        ({"mode": mode, **at, "threads": count}, {"read": rate, "jobs": count})
        for mode, rate in rates.items()
        for count in threads
    ]
    return made("sio", cells, **more)


def _sio() -> dict[str, Summary]:
    cached = sio_of({"buffered": 3e8, "direct": 3e7, "concurrent": 2.5e7}, 32)
    in_a_row = sio_of({"buffered": 3e8, "concurrent": 3e8}, 32, pattern="sequential")
    no_gain = {"buffered": 2e8, "direct": 1e8, "concurrent": 1.5e8}
    large = {"buffered": 1e8, "concurrent": 4e8}
    return {
        "a gain is above the limit with its whole interval": sio_of(
            no_gain, 1, pattern="sequential"
        ),
        "4 threads are no high concurrency": sio_of(large, 4),
        "what the client's cache answers is not judged, and the rest is": _joined(cached, in_a_row),
        "the weakest of several decides, and is named": _joined(
            sio_of(large, 16), sio_of(no_gain, 16, pattern="sequential")
        ),
        "CPU of two kinds is not taken together": changed(
            sio_of({"direct": 1e8}, 1, 32), lambda cell: cell.factors["threads"] == 1,
            machine_cpu_s=None, cpu_s=lambda cell: 0.0 if cell.repeat == 1 else cell.cpu_s),
        "a pool's page compares with nothing published": placed(reference("sio"), kind="pool"),
    }  # fmt: skip


def _oltp() -> dict[str, Summary]:
    one: list[Any] = [
        ({"connections": "one", "concurrency": at}, {"read": 2e7, "write": 1e7}) for at in (1, 8)
    ]
    alone, run = made("oltp", one), reference("oltp")
    few = only(alone, lambda cell: cell.factors["concurrency"] == 1 and cell.repeat < 3)

    def bins(cell: Cell) -> dict[str, int]:
        return {"1000000": 98} if cell.repeat == 1 else {"9000000": 2}

    same = changed(alone, factors={"connections": "pool"})
    return {
        **{
            f"{words}, in {part:.0%} of all cells": placed(
                _full(made("oltp", one, 4), part), kind=kind
            )
            for words, kind, part in (
                ("client and server share a full processor", "kernel-lab", 0.25),
                ("the client had a full processor", "pool", 1),
            )
        },
        "percentiles are of all repeats together": changed(few, read=part("read", bins=bins)),
        "the server's are full": placed(changed(run, server=Server(97.0, 8, 0, 0)), kind="pool"),
        "a question mark is explained": _joined(alone, same),
        "each at its own concurrency where they share none": only(
            run, lambda cell: [*cell.factors.values()] in (["one", 4], ["pool", 16])
        ),
        "full in a fifth counts for nothing; how many several are, and versions of mounts": changed(
            placed(_full(run, 0.2), mounts={"m": "vers=4.2,proto=rdma"}),
            lambda cell: cell.factors["connections"] == "pool",
            command="fio --pool=a --nconnect=4 --spread=roundrobin", paths={"a": 0.5, "b": 0.5}),
    }  # fmt: skip


def _full(run: Summary, part: float) -> Summary:
    """Return a run on one processor, which was full in a part of all cells."""
    busy = {id(cell) for cell in run.cells[: round(part * len(run.cells))]}

    def seconds(cell: Cell) -> float:
        return cell.seconds * (1.0 if id(cell) in busy else 0.25)

    return changed(run, processors=1, machine_cpu_s=seconds, server=None)


def _neighbours() -> Summary:
    """Return the reference run under two counts of the server's threads, without other loads."""
    loads = ("readers", "writer", "readers-beside-writer")
    run = only(
        reference("neighbour"),
        lambda cell: cell.factors["workload"] in loads and cell.factors["threads"] != 1,
    )
    return placed(run, setting={})


def _under(*levels: Factor) -> Summary:
    """Make a run of neighbour under two values of a setting of the server."""
    at = dict(zip((8, 64), levels, strict=True))
    run = changed(_neighbours(), factors=lambda cell: {"threads": at[cell.factors["threads"]]})
    return placed(run, setting={"name": "threads", "values": [*levels]})


def _few_reads(number: int) -> Summary:
    readers = ("readers", "readers-beside-writer")
    cells: list[Any] = [({"workload": one}, {"read": 2e6, "block": 4096}) for one in readers]
    return changed(made("neighbour", cells), read=part("read", ops=number))


def _neighbour() -> dict[str, Summary]:
    threads = _under(1, 64)

    def by_a_clock(cell: Cell) -> dict[str, Factor]:
        workload = str(cell.factors["workload"])
        return {"workload": workload.replace("readers", "readers-limited")}

    def last(cell: Cell) -> bool:
        beside = cell.factors == {"workload": "readers-beside-writer", "threads": 64}
        return beside and cell.repeat == 3

    few = dataclasses.replace(made_runs.figures(random.Random(1), 4e6, 4096, 9e4), ops=999)
    limited = changed(_neighbours(), factors=by_a_clock)
    writers = ("random-writers", "writers")
    return {
        "p50 of fewer": _few_reads(300),
        "none of four": _few_reads(4),
        "a server has so many threads": threads,
        "or threads that are so, in the order that was asked for": _under("dontcache", "cached"),
        "readers by a clock": limited,
        "writers alone": only(
            reference("neighbour"), lambda cell: cell.factors["workload"] in writers
        ),
        "drawn: no percentile of the fast repeats alone": changed(_neighbours(), last, read=few),
    }


def _security() -> dict[str, Summary]:
    lab = only(
        reference("security"), lambda cell: cell.factors["workload"] in ("64k-read", "4k-randread")
    )
    pool = placed(lab, kind="pool", pool="nfs://10.77.0.1/export")
    why = "fio: status 1: nfsmulti: security: 10.77.0.1:/export: no certificate is asked for"
    some = only(pool, lambda cell: cell.factors["flavor"] in ("sys", "krb5p"))
    mounts = changed(
        some,
        factors={"client": "mount"},
        machine_cpu_s=lambda cell: 2 * cell.machine_cpu_s,  # else they could be taken for ours
    )
    mounted = _joined(pool, mounts)
    ktls = changed(lab, tls=lambda cell: cell.tls.replace("GnuTLS", "the kernel (kTLS)"))
    return {
        "a flavor that the server lacks; the kernel's work is in the jobs' calls": changed(
            ktls,
            lambda cell: cell.factors["flavor"] == "mtls",
            status="skipped",
            why=why,
            read=None,
        ),
        "a mount's CPU time is its machine's": mounted,
        "which is the server's, too, in a guest": placed(mounted, own_server=True),
        "without sys others are held to the first": only(
            lab, lambda cell: cell.factors["flavor"] != "sys"
        ),
        "one alone is held to nothing": only(lab, lambda cell: cell.factors["flavor"] == "krb5"),
    }


def _readsize() -> dict[str, Summary]:
    cells: list[Any] = [
        ({"version": "3", "nconnect": 1, "kib": kib}, {"read": rate, "block": kib << 10})
        for kib, rate in ((4, 1e8), (64, 5e8), (1024, 5e8))
    ]
    return {"the smallest reads that are fast enough are told": made("readsize", cells)}


def _metadata() -> dict[str, Summary]:
    run, two = reference("metadata"), creates({1: 9000}, {4: 3000}, repeats=2)
    later = changed(run, factors={"version": "4.1"})
    return {
        "versions of an operation stand side by side": _joined(run, later),
        "mounts are compared at their best": creates({1: 9000}, {1: 1000, 4: 3000, 16: 2500}),
        "the fewest connections are compared": creates(
            {4: 9000, 8: 18000}, {1: 3000}, depths=(8, 32, 128)
        ),
        "not with a mount that was measured in other repeats": dataclasses.replace(
            two, cells=[two.cells[0], two.cells[3]]
        ),
        "drawn: operations whose growth ends differently": _joined(
            _operations(1, 8, 32, 128), _operations(1, 8, name="getattr")
        ),
        "other depths than 32": _operations(8, 128),
    }


def _operations(*depths: int, name: str = "create") -> Summary:
    """Make a run of an operation at several depths, of which 32 fills two processors."""
    rates = {depth: min(1000 * depth, 16500) for depth in depths}
    cells = [
        (_of_metadata(name, depth), {"write": rate * 1024, "mean_us": depth / rate * 1e6})
        for depth, rate in rates.items()
    ]
    return made("metadata", cells, block=1024, cpu_us=46, processors=2)


def creates(
    engine: Mapping[int, float],
    mounts: Mapping[int, float],
    repeats: int = 3,
    depths: tuple[int, ...] = (32,),
) -> Summary:
    """Make a run of creates/s: of the engine by nconnect, on mounts by jobs."""
    found = [
        (_of_metadata("create", depth, nconnect=nconnect), {"write": rate * 1024})
        for nconnect, rate in engine.items()
        for depth in depths
    ] + [
        (_of_metadata("create", 1, client="filecreate", jobs=jobs), {"write": rate * 1024})
        for jobs, rate in mounts.items()
    ]
    return made("metadata", found, repeats, block=1024)


def _of_metadata(operation: str, depth: int, **more: Factor) -> dict[str, Factor]:
    return {
        "limits": "guest", "operation": operation, "version": "3", "client": "engine", "jobs": 1,
        "depth": depth, "nconnect": 1, **more,
    }  # fmt: skip


# --- clients ---


def _most(repeat: int | None = None) -> Callable[[Cell], bool]:
    """Choose the cells of the most clients, of one repeat or of all."""
    return lambda cell: cell.factors["clients"] == 1000 and repeat in (None, cell.repeat)


def _beside(alone: Summary, **fields: Any) -> Summary:
    """Add the cells of 1,000 clients beside 8 busy connections, with other fields."""
    return _joined(alone, changed(only(alone, _most()), factors={"neighbours": 8}, **fields))


def _slower(cell: Cell) -> dict[str, int]:
    return {str(3 * int(ns)): n for ns, n in cell.read.bins.items()} if cell.read else {}


def _restarted(*restarts: Restart, clients: int = 300) -> Summary:
    """Make a run of so many clients, whose server was restarted in each repeat: the last so."""
    return changed(
        only(reference("clients"), _most()),
        restart=lambda cell: restarts[min(cell.repeat, len(restarts)) - 1],
        clients=Clients(clients, clients, 1.0, 1.0),
        factors={"clients": clients},
    )


_LATE = [3.0, 3.5, 3.6, 4.1]  # seconds until clients were back


def restarted() -> Summary:
    """Make a run whose new clients waited for absent ones: others were back, some at once."""
    early = Restart(2.0, 4, [1.0, 1.5, 1.7, 1.9], 4, 2, [1.6, 15.7])
    return _restarted(Restart(2.5, 4, _LATE, 5, 2, [15.5, 15.6]), early, clients=4)


def _clients() -> dict[str, Summary]:
    alone = reference("clients")

    def arrived(cell: Cell) -> Arrivals:
        return Arrivals(100, 90 if cell.repeat == 2 else 95, sustained=False)

    one = only(alone, lambda cell: cell.factors["clients"] == 1)
    lost = changed(alone, arrivals=arrived, factors={"rate": 90})
    held = changed(lost, arrivals=part("arrivals", sustained=True))
    not_held = {"arrivals": Arrivals(100, 90, sustained=False)}
    held = changed(held, read=part("read", response={"7000000": 999}))
    reset = "10.0.0.1:/vol1: connection lost with 1 calls outstanding (Connection reset by peer)"
    return {
        "where the rate is not held there is no wait to tell": _beside(lost, **not_held),
        "it may be held without these alone": _beside(held, **not_held),
        "without the engine's lines nobody knows how many are served": changed(alone, clients=None),
        "a repeat that differs in that, and what a server does to those that it does not take": (
            changed(alone, _most(2), clients=Clients(1000, 123, 0.99, 1.0, reset))
        ),
        "beside busy connections it tells what clients wait, not the neighbours' writes": _beside(
            alone, read=part("read", bins=_slower), write=lambda cell: cell.read
        ),
        "one client": one,
        "one that waits": _joined(
            one, changed(one, factors={"neighbours": 8}, read=part("read", bins=_slower))
        ),
        **_restarts(),
    }


def _restarts() -> dict[str, Summary]:
    every, whole = [3.0] * 300, Restart(2.5, 300, [3.0] * 300)
    held_up = Restart(2.5, 300, every, absent=5, new=2, waited_s=[15.5, 15.6])
    idle, kept = Restart(0.1, 0, [], new=2, waited_s=[0.1, 0.1]), Restart(2.5, 90, [3.0] * 90)
    late, soon, at_once = (Restart(2.5, 4, _LATE, 5, 2, [at, 15.6]) for at in (15.5, 1.1, 1.0))

    def but(**fields: Any) -> Restart:
        return dataclasses.replace(held_up, **fields)

    return {
        "drawn: absent clients are why new ones waited": restarted(),
        "drawn: they are not where these did not wait in a repeat": _restarted(
            late, at_once, soon, late, clients=4
        ),
        "nor where the last one that was known came as late": _restarted(
            but(back_s=[3.0] * 299 + [17.0])
        ),
        "nor where one that was known did not return either": _restarted(
            held_up, but(back_s=[3.0] * 299), held_up
        ),
        "new ones that were not served": _restarted(
            Restart(2.5, 300, every, new=2, waited_s=[5.4])
        ),
        "a restart that no client noticed is none of this server": _restarted(idle),
        "no time until all were back without all, in a repeat, beside those that lost nothing": (
            _joined(
                _restarted(kept, clients=100),
                _restarted(whole, Restart(2.5, 300, [3.0] * 299), whole, clients=1000),
            )
        ),
    }  # fmt: skip


# --- latency ---


def one_latency(**made: Any) -> Summary:
    """Make a run of one configuration."""
    return made_runs.latency(**{"nconnect": (1,), **made})


def hiccup(run: Summary, load: int) -> Summary:
    """Return a run in whose first repeat 2 % of the I/O at one load took 400 ms."""
    read = part("read", response=lambda cell: {**cell.read.response, "400000000": 400})
    return changed(run, lambda cell: (cell.repeat, cell.factors["load"]) == (1, load), read=read)


def _arrived(cell: Cell) -> bool:
    return cell.arrivals is not None


def _latency() -> dict[str, Summary]:
    one, other = (one_latency(slo="p99:3ms", seed=seed) for seed in (1, 2))

    def two(run: Summary) -> Summary:
        return changed(run, factors={"nconnect": 2})

    late = {"20000": 20000}
    doubtful = Parts({}, {"900000": 1}, {"100001": 1})
    few = changed(
        one, _arrived, arrivals=part("arrivals", lag=late),
        read=part("read", response={"100000": 19}),
    )  # fmt: skip
    late_often = changed(
        other, lambda cell: cell.factors["load"] == 20 and cell.repeat > 1,
        read=part("read", response={"400000000": 20000}),
    )  # fmt: skip
    unheld = changed(
        one_latency(), lambda cell: cell.factors["load"] == 80 and cell.repeat > 1,
        arrivals=part("arrivals", sustained=False),
    )  # fmt: skip
    return {
        "one configuration": one_latency(),
        "knees side by side": made_runs.latency(slo=""),
        "a knee is told of the load that it is at": _odd_knee(),
        "not met by the lowest load": one_latency(slo="p99:100us"),
        "none sustained": only(one, lambda cell: cell.factors["load"] in ("peak", 120)),
        "not sustained by most repeats": unheld,
        "a hiccup": hiccup(one, 40),
        "repeats do not tell configurations apart": _joined(one, two(hiccup(other, 60))),
        "two without a figure": _joined(hiccup(one, 40), two(hiccup(one, 40))),
        "other transports": _joined(
            *(changed(one, factors={"transport": at}) for at in ("rdma", "rdma-mount"))
        ),
        "drawn without stamps, with a repeat's too few I/Os pooled": changed(
            changed(one, parts=None), lambda cell: _arrived(cell) and cell.repeat == 1,
            read=part("read", response={"100000": 900}),
        ),
        "drawn by medians of repeats, of which all meet the limit": changed(
            one_latency(slo="p99:1s"), lambda cell: (cell.repeat, cell.factors["load"]) == (2, 40),
            parts=Parts({"90000000": 20000}, {"2100000": 20000}, {"40000": 20000})),
        "several workloads, of which the first has the headline": _joined(
            one, changed(two(other), factors={"workload": "64k-read"})
        ),
        "many loads": one_latency(repeats=1, loads=range(10, 121, 5)),
        "the latency is not the server's alone": _joined(changed(one, parts=doubtful), two(other)),
        "over the limit at once, in the most repeats of any": _joined(
            hiccup(one, 20), two(late_often)
        ),
        "the generator's lag": changed(one, _arrived, arrivals=part("arrivals", lag=late)),
        "which is no doubt where the depth was used up": changed(
            one, _arrived, arrivals=part("arrivals", lag=late, full=0.6)
        ),
        "nor where they are too few for a median": few,
        "which two may tell, too": _joined(
            only(one, lambda cell: cell.factors["load"] == 120), two(few)),
    }  # fmt: skip


def _odd_knee() -> Summary:
    """Make a run of which one repeat has its knee, 11,980 IOPS, at another load than two others.

    The median of the three is 11,990 IOPS: below the median rate of the load of these two.
    """
    rates = {(1, 40): 8000.0, (1, 60): 12000.0, (2, 40): 8000.0, (2, 60): 11990.0,
             (3, 40): 11980.0, (3, 60): 18000.0}  # fmt: skip

    def rate(cell: Cell) -> Any:
        return rates.get((cell.repeat, int(cell.factors["load"])) if _arrived(cell) else (0, 0))

    def response(cell: Cell) -> dict[str, int]:
        return {"90000000" if rate(cell) == 18000 else "100000": 20000}

    return changed(
        one_latency(slo=""), rate, arrivals=part("arrivals", achieved=rate),
        read=part("read", response=response),
    )  # fmt: skip


# --- connections ---

_BOTH = {"eth0": 4_400_000_000, "eth1": 5_000_000_000}
_LINK = {"kind": "pool", "pool": "nas", "limits": {}, "links": _BOTH}
_POOL = {"kind": "pool", "pool": "nas", "limits": {}}
_FLAT = dict.fromkeys((1, 2, 4, 8), 400e6)


def _curve(
    rates: Mapping[int, float], place: Mapping[str, Any] = _POOL, core: float = 34, **more: Any
) -> Summary:
    """Make a run of these rates; `core` is what the busiest job takes of one, in per cent."""
    cells = [(connections_factors(count), {"read": rate}) for count, rate in rates.items()]
    usual = {"repeats": 5, "block": 65536, "processors": 2, **more}
    run = made("connections", cells, place=place, **usual)
    return changed(run, jobs=lambda cell: _busy(cell, core))


def _busy(cell: Cell, percent: float) -> list[JobRow]:
    return [dataclasses.replace(row, usr_percent=percent, sys_percent=0) for row in cell.jobs]


def _connections() -> dict[str, Summary]:
    capped = {1: 300e6, 2: 600e6, 4: 1110e6, 8: 1120e6, 16: 1115e6}
    waking = Parts({}, {"2000000": 100}, {"40000": 98, "3500000": 2})
    flat, core = _curve(_FLAT), _curve(_FLAT, core=90)
    full = changed(flat, machine_cpu_s=6.8)  # 85 % of two processors

    def noisy_alone(cell: Cell) -> float:
        return (1.5, 0.4, 1.2, 0.5, 0.9)[cell.repeat - 1] if cell.factors["nconnect"] == 1 else 1.0

    def beside(run: Summary) -> Summary:
        return discards(_joined(flat, changed(run, factors={"version": "4.1"})))

    def discards(run: Summary) -> Summary:
        run = changed(run, command="fio --discard=1")
        return dataclasses.replace(run, command="run --discard")

    return {
        "the link is full": _curve(capped, _LINK),
        "so it is at 90 %": _curve({1: 3e8, 4: 1057.5e6}, _LINK, noise=0),
        "not by both of its directions": _curve({1: 1e9, 4: 1e9}, _LINK, write=1e9),
        "still rising, with a full core": _curve({1: 50e6, 4: 200e6}, core=90),
        "one count, which --discard does not help": changed(
            _curve({4: 1e9}), factors={"transport": "rdma"}
        ),
        "noise": _curve({1: 300e6, 4: 1100e6, 8: 1110e6}, noise=0.3),
        "repeats that failed are missed where they would be pairs": only(
            _curve({1: 300e6, 4: 1100e6}),
            lambda cell: cell.repeat == 3 or (cell.repeat < 3) == (cell.factors["nconnect"] == 1),
        ),
        "a dip does not rule out fewer": _curve(
            {1: 1000e6, 2: 700e6, 4: 1060e6, 8: 1060e6}, noise=0.05
        ),
        "noise of one count does not hide that more gain": _drifting(
            _curve({1: 4e8, 2: 4e8, 4: 6e8}), noisy_alone
        ),
        "the client's processors are": full,
        "others' work, which the wake-up shows": changed(full, others_busy=0.1, parts=waking),
        "their own wake-up": changed(full, parts=waking),
        "the server's are": changed(flat, server=Server(85.0, 8, 0, 0)),
        "a core is, even so with --discard": beside(core),
        "nothing is full, with --discard": discards(flat),
        "but for what another curve does": beside(full),
        "other transports, and a count that failed": _transports(),
        "several hosts count no paths": _by_hosts(),
        "one connection on one path is the base of several": _of_two_paths(),
    }


def _transports() -> Summary:
    rates = (("tcp", 9e8, 50), ("rdma", 9.7e8, 30), ("tcp-mount", 4.5e8, 50))
    cells = [
        (connections_factors(count, transport), {"read": rate * count / 4, "cpu_us": cost})
        for transport, rate, cost in rates
        for count in (1, 4)
    ]
    paths = {"10.0.0.1": 0.6, "10.0.0.2": 0.4}
    run = made("connections", cells, 5, place=_LINK, block=65536, paths=paths)
    urls = "nfs://10.0.0.1/vol%201?port=9;id,nfs://10.0.0.2/vol%201"
    command = f"env A=b fio --ioengine=external:/e.so '--pool={urls}' --nconnect=4"
    return changed(
        _lacking(run, connections_factors(16), "failed", "cannot connect: too many"),
        lambda cell: cell.status == "done",
        command=f"{command} --spread=roundrobin",
    )


def _by_hosts() -> Summary:
    run = _curve(dict.fromkeys((1, 4), 900e6), placed(_curve({1: 1e9}), hosts=_HOSTS).place)
    return changed(
        run, command="fio --output=/r/fio.json --client=a /r/host1.fio --client=b /r/host2.fio",
        jobs=lambda cell: [
            dataclasses.replace(row, host=host) for row in cell.jobs for host in _HOSTS
        ],
    )  # fmt: skip


def _of_two_paths() -> Summary:
    command = "fio --ioengine=external:/e.so --spread=roundrobin --pool=nfs://10.0.0.1/v"
    one, two = {"10.0.0.1": 1.0}, {"10.0.0.1": 0.5, "10.0.0.2": 0.5}
    several = _curve({1: 800e6, 2: 1200e6}, paths=two)
    alone = changed(_curve({1: 400e6}, paths=one), factors={"paths": 1}, command=command)
    return _joined(changed(several, command=f"{command},nfs://10.0.0.2/v"), alone)


# --- sweep ---


def _drifting(run: Summary, drift: Callable[[Cell], float]) -> Summary:
    cells = [faster(cell, drift(cell)) for cell in run.cells]
    return dataclasses.replace(run, cells=cells)


def _sweep() -> dict[str, Summary]:
    def of_link(at: dict[str, Factor]) -> float:
        slow = 60 if at["buffer"] == 16384 else 119
        return 84 if at["direction"] == "write" else slow

    def of_both(at: dict[str, Factor]) -> float:
        best = at["buffer"] == (65536 if at["direction"] == "read" else 32768)
        return (106 if at["sync"] == "sync" else 100) * (1.2 if best else 1)

    def of_further(at: dict[str, Factor]) -> float:
        both = at["nconnect"] == 4 and at["version"] == "4.1"
        return 100 * (1.5 if at["nconnect"] == 4 else 1) * (1.2 if both else 1)

    lab = {"kind": "lab", "pool": "", "limits": {"link": "1gbit"}}
    same, rng = sweep(lambda _: 100), random.Random("noise 1")
    reads = only(same, lambda cell: cell.factors["direction"] == "read").cells
    two: dict[str, Any] = {"buffer": (65536, 131072)}
    return {
        "what fills the lab's link is alike by construction": placed(sweep(of_link), **lab),
        "reads alone": dataclasses.replace(same, cells=reads),
        "with a write": dataclasses.replace(same, cells=[*reads, same.cells[-1]]),
        "the best level of what matters, which no drift between repeats hides": _drifting(
            sweep(of_both, 4), lambda cell: 2**cell.repeat
        ),
        "soft with a warning": sweep(lambda at: 130 if at["mount"] == "soft" else 100),
        "drawn: nconnect and version": sweep(
            of_further, nconnect=(1, 4), version=(3, "4.1"), **two
        ),
        "half of all cells, of which a repeat lost one": changed(
            _half_of_a_sweep(), _lost_of_half, status="failed", read=None, write=None
        ),
        "noise shows no plateau": _drifting(same, lambda _: rng.uniform(0.5, 2)),
        **_sweeps_of_threads(two),
    }


def _lost_of_half(cell: Cell) -> bool:
    """Choose a fast cell of the third repeat."""
    fast = cell.factors["nconnect"] == 4 and cell.factors["sync"] == "async"
    return fast and cell.repeat == 3 and cell.factors["buffer"] == 65536


def _half_of_a_sweep() -> Summary:
    specs = crossed(SCENARIOS["sweep"].cells(Scale(True)), {"nconnect": (1, 4)})
    fast = (4, "async")
    return made("sweep", (
        (at, {"rate": 80e6 * (1.5 if (at["nconnect"], at["sync"]) == fast else 1)})
        for at in (spec.factors for spec in specs)
    ))  # fmt: skip


def _sweeps_of_threads(two: Mapping[str, Any]) -> dict[str, Summary]:
    """Make sweeps whose factor threads was a setting of the server."""

    def under(run: Summary) -> Summary:
        return placed(run, setting={"name": "threads", "values": [1, 8, 64]})

    def speed(at: dict[str, Factor]) -> float:
        return 100 * float(at["threads"])

    same = sweep(lambda _: 100, threads=(1, 8))
    drift = {(1, 8): 1.06, (2, 8): 0.99, (3, 8): 1.02}
    blocks = _drifting(
        same, lambda cell: drift.get((cell.repeat, int(cell.factors["threads"])), 1.0)
    )
    some = only(
        sweep(speed, threads=(1, 8, 64), **two),
        lambda cell: cell.factors["threads"] != 64 or cell.repeat == 1,
    )
    return {
        "a drift between blocks is no effect of it": under(blocks),
        "a setting of the server, of which a level that few repeats have costs itself alone": (
            under(some)
        ),
    }


_CASES: dict[str, Callable[[], dict[str, Summary]]] = {
    "dd": _dd, "fsperf": _fsperf, "randread": _randread, "sio": _sio, "oltp": _oltp,
    "neighbour": _neighbour, "security": _security, "metadata": _metadata, "clients": _clients,
    "latency": _latency, "connections": _connections, "sweep": _sweep, "readsize": _readsize,
}  # fmt: skip
