# SPDX-License-Identifier: GPL-2.0-only
"""oltp: a database's mix.

Published: Oracle 10.1 OLTP on AIX 5.3 and a NetApp FAS880 (2005), about two reads to a write in
blocks of 8 KiB, over NFS, iSCSI and Fibre Channel: transactions, host CPU, protocol efficiency (CPU
per transaction, NFS = 1.0) and block-read response, where 8 KiB reads took under 0.1 ms longer over
NFS than over the SAN.

Each cell is one job, whose iodepth is the concurrency: connections alone make the difference.
"""

from nfsmulti import texts
from nfsmulti.lab.guest import ADDRESSES, Mount
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec, GuestPlace
from nfsmulti.story import At, Beside, Column, Factor, Grid, Levels, Lines, Story

CONNECTIONS = 8  # of the pool: at least so many, on all paths together
KINDS = {"one": "one connection", "pool": "several connections", "mount": "kernel mount"}
ONE = {"connections": "one"}


def _left_out(at: At) -> list[str]:
    urls = "one and pool need URLs in the pool"
    mount = "mount needs a kernel mount: add its directory to the pool"
    return [urls] * (not at.pool.urls) + [mount] * (not at.pool.mounts)


def job(at: At) -> CellSpec:
    """Return a job with `at.concurrency` I/Os in flight, on `at.connections`."""
    size = 64 << 20 if at.scale.quick else 256 << 20
    paths = at.pool.urls if at.own else len(ADDRESSES)
    several, mounted = at.connections == "pool", at.connections == "mount"
    spread: Levels = (
        {"nconnect": -(-CONNECTIONS // paths), "spread": "roundrobin"} if several else {}
    )
    return at.cell(
        "oltp.fio",
        {"iodepth": at.concurrency, "size": size, **spread},
        at.seconds(4, 20),
        client="mount" if mounted else "pool",
        mounts="mount" if mounted else "",
        paths=paths if several else 1,
        files={"nfsmulti-oltp": size},
    )


def names(run: Run) -> dict[str, str]:
    """Name each kind, with how many connections several are where a command tells."""
    every = (cell.connections for cell in run.at({"connections": "pool"}))
    several = next((f"{one} connections" for one in every if one and one > 1), KINDS["pool"])
    return {**KINDS, "pool": several}


def rows(run: Run) -> dict[str, Levels]:
    """Return each kind at the highest concurrency of all, or else its own."""
    counts = {
        str(kind): run.counts("concurrency", {"connections": kind})
        for kind in run.levels("connections")
    }
    shared = set.intersection(*map(set, counts.values()))
    return {
        run.words({"connections": kind}): {
            "connections": kind, "concurrency": max(shared or each)
        }
        for kind, each in counts.items()
    }  # fmt: skip


def columns(run: Run) -> list[Column]:
    """Return the rate, the wait and the cost of each kind, beside one connection."""
    whose = "machine" if run.cost.name.startswith("machine") else "fio's jobs"
    return [
        Column("IOPS", "IOPS"),
        Column("times one connection", "IOPS", to=ONE),
        Column("read p50, ms", "read p50 ms", pooled=True),
        Column(f"CPU/op ({whose}), times one connection", "CPU µs/op", to=ONE),
    ]


def in_flight(run: Run) -> str:
    """Say at which concurrency the table tells of each kind."""
    counts = {str(at["concurrency"]) for at in rows(run).values()}
    return f"{' or '.join(sorted(counts))} in flight"


def headline(run: Run) -> str:
    """Tell the fastest kind, and each in times one connection."""
    every = rows(run)
    gains = {
        name: texts.times_in_words(gain)
        for name, at in every.items()
        if at["connections"] != "one" and (gain := run.ratio("IOPS", at, {**at, **ONE}))
    }
    if not gains:
        return run.incomplete("one connection and another kind")
    best = run.best("IOPS", every)
    words = (
        f"{run.text('IOPS', every[best])} over {best} with {every[best]['concurrency']} in flight"
    )
    words += f", {gains.pop(best)} one connection" if best in gains else ""
    told = ", ".join(f"{name}: {gain}" for name, gain in gains.items())
    return f"{'; '.join(filter(None, (words, told)))}."


def alone(run: Run, _: Levels) -> str:
    """Return one connection's p50 of reads at its lowest concurrency."""
    least: Levels = {**ONE, "concurrency": min(run.counts("concurrency", ONE), default=0)}
    median = run.pooled("read p50 ms", least)
    return f"{texts.number(median)} ms (p50) over NFS alone" if median else texts.MISSING


def beside(run: Run) -> list[Beside]:
    """Return what was published: costs are relative to one connection."""
    found = [Beside("protocol efficiency: CPU per transaction, NFS", "1.0 (the scale)", ratio=1.0,
                    ours="1.0: one connection")]  # fmt: skip
    for kind in ("pool", "mount"):
        one, other = ({*run.counts("concurrency", {"connections": of})} for of in ("one", kind))
        at: Levels = {"connections": kind, "concurrency": max(one & other, default=0)}
        for whose, measure in (("fio's jobs", "jobs"), ("the machine", "machine")):
            what = f"CPU per operation of {whose}: {KINDS[kind]} to one connection"
            found.append(Beside(what, texts.MISSING, at, of={**at, **ONE},
                                measure=f"{measure} CPU µs/op"))  # fmt: skip
    san = "reads of 8 KiB: how much longer over NFS than over a SAN"
    none = "there is no SAN here to compare it with"
    return [*found, Beside(san, "under 0.1 ms more", ours=alone, why=none)]


STORY = Story(
    names=names,
    headline=headline,
    table=Grid(rows, columns, in_flight),
    plots=[Lines("concurrency", ["connections"], ["read p50 ms : IOPS"], log=True),
           Lines("concurrency", ["connections"], ["CPU µs/op"])],
    beside=beside,
    reading=lambda run: [
        "IOPS are reads and writes together, of 8 KiB each, two to one. Concurrency is I/Os in"
        f" flight, all jobs together{',' * bool(run.hosts)}{run.hosts}.",
        "The curve rises to the right while there is capacity left, and turns upwards where more"
        " concurrency buys only waiting.",
    ],
    places={"guest": GuestPlace({"mount": (Mount("/mnt/tcp3", ("vers=3", "proto=tcp")),)})},
    factors={
        "connections": Factor(
            lambda at: ["one", "pool"] * bool(at.pool.urls) + ["mount"] * bool(at.pool.mounts)
        ),
        "concurrency": Factor([1, 2, 4, 8, 16, 32, 64], quick=[1, 8, 32]),
    },
    job=job,
    left_out=_left_out,
)  # fmt: skip
