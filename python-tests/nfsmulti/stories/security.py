# SPDX-License-Identifier: GPL-2.0-only
"""security: what Kerberos and TLS cost.

Nothing was published with it that could be repeated: vendors give a percentage for one client, and
of several connections with Kerberos nobody says anything. Each workload runs under each flavor,
sys in clear among them, on one connection and on several. Each has a job of its own, since a
thread's crypto is one core's.
"""

from __future__ import annotations

import functools
import itertools
import re

from nfsmulti.errors import HarnessError
from nfsmulti.lab import Kerberos, LabConfig
from nfsmulti.report import measures
from nfsmulti.report.measures import MACHINE_CPU, MEASURES, SERVER_CPU, Take
from nfsmulti.report.story import Section
from nfsmulti.report.told import Run
from nfsmulti.scenario import (
    PLAIN_WORKLOADS,
    CellSpec,
)
from nfsmulti.stats import Ratio
from nfsmulti.story import (
    At,
    Bars,
    Column,
    Factor,
    Grid,
    Level,
    Levels,
    Lines,
    Page,
    Story,
)
from nfsmulti.summary import Cell, Summary

WORKLOADS: dict[str, dict[str, Level]] = {
    **PLAIN_WORKLOADS,
    "1m-read": {"rw": "read", "bs": "1m"},
}
_SEC, _XPRTSEC = ("sys", "krb5", "krb5i", "krb5p"), ("none", "tls", "mtls")
_DEPTH = 32  # of all jobs together: connections alone make the difference
_FILE = "nfsmulti-security"
_ENGINE, _MOUNT = "engine", "mount"


def _flavors(at: At) -> dict[str, tuple[str, str]]:
    """Return nfs(5)'s sec and xprtsec of each flavor to measure; sys in clear is the first."""
    sec, xprtsec = at.scale.choice.sec, at.scale.choice.xprtsec
    chosen = itertools.product(sec or _SEC[:1], xprtsec or _XPRTSEC[:1])
    every = [*itertools.product(_SEC, _XPRTSEC[:1]), *itertools.product(_SEC[:1], _XPRTSEC)]
    pairs = [(_SEC[0], _XPRTSEC[0]), *(chosen if sec or xprtsec else every)]
    return {_name(*one): one for one in pairs}


def _name(*flavor: str) -> str:
    return "+".join(word for word in flavor if word not in ("sys", "none")) or "sys"


def job(at: At) -> CellSpec:
    """Return a job for each connection, a thread of its own."""
    size = at.size(16 << 20, 128 << 20, 1 << 30)
    sec, xprtsec = _flavors(at)[at.flavor]
    asked = at.query if at.own else "version=4.1"
    return at.cell(
        "security.fio",
        {**WORKLOADS[at.workload], "numjobs": at.connections,
         "iodepth": max(1, _DEPTH // at.connections), "size": size},
        at.seconds(2, 5),
        paths=1 if at.scale.choice.mounts else at.pool.urls,
        query=f"{asked}&sec={sec}&xprtsec={xprtsec}".removeprefix("&"),
        files={_FILE: size},
        optional=at.flavor,
    )  # fmt: skip


def _mounted(cell: CellSpec, at: At) -> CellSpec:
    """Return a cell on a kernel mount of the same flavor, and with as many connections."""
    if not at.own:
        raise HarnessError(
            "--mounts: the lab has no kernel client with Kerberos or TLS",
            "give the --pool of a server that this machine can mount",
        )
    security = ",".join(cell.query.split("&")[-2:])
    return at.mounted(
        cell,
        "mount",
        {"client": _MOUNT},
        mount_options=f"{at.mount_options()},{security}",
        optional=f"{cell.optional}, {_MOUNT}",
    )


def _left_out(at: At) -> list[str]:
    return ["directories: theirs is that of their mounts"] * bool(at.pool.mounts)


ENGINE: Levels = {"client": _ENGINE}
WORDS = {
    "4k-randread": "4 KiB read",
    "64k-read": "64 KiB read",
    "64k-write": "64 KiB write",
    "1m-read": "1 MiB read",
}
CLIENT, SERVER = "client CPU µs/op", SERVER_CPU.name
PROXIED = "The lab's TLS is a proxy in Python, which limits it: no rate of TLS is told."
_BEFORE_REASON = re.compile(r"^fio: status \d+: (nfsmulti: )?(security: )?")
_LOOPBACK = re.compile(r"//(127\.|\[::1\])")


def shared(summary: Summary) -> bool:
    """Tell whether client and server are one machine."""
    place, pool = summary.place, str(summary.place.get("pool") or "")
    return place.get("kind") != "pool" or "apart" in place or bool(_LOOPBACK.search(pool))


def whose(run: Run) -> tuple[str, Take]:
    """Return whose CPU time is the client's, and how it is taken.

    A kernel mount works beside fio's jobs, which are then no measure of it.
    """

    def of_jobs(cell: Cell) -> float | None:
        return measures.JOBS_CPU(cell) if cell.factors["client"] == _ENGINE else None

    def rest(cell: Cell) -> float | None:
        machine, server = MACHINE_CPU(cell), SERVER_CPU(cell)
        return machine - server if machine and server else None

    if run.summary.place.get("apart"):
        return "its machine but for the server", rest
    if shared(run.summary):
        return "fio's jobs", of_jobs
    return "its whole machine" if run.cost is MACHINE_CPU else "fio's jobs", run.cost


def figures(run: Run) -> dict[str, Take]:
    """Return the client's and the server's CPU time, and no rate where the lab's proxy limits it.

    Nor does the proxy's work count.
    """
    lab, client = run.summary.place.get("kind") != "pool", whose(run)[1]

    def told(take: Take) -> Take:
        return lambda cell: None if lab and "tls" in str(cell.factors["flavor"]) else take(cell)

    def s_per_gib(take: Take) -> Take:
        def seconds(cell: Cell) -> float | None:
            us, moved = take(cell), MEASURES["bytes"](cell)
            return us / 1e6 * cell.ops / moved * (1 << 30) if us and moved else None

        return seconds

    server = told(SERVER_CPU)
    return {
        CLIENT: client, "client s/GiB": s_per_gib(client),
        SERVER: server, "server s/GiB": s_per_gib(server),
        **{name: told(MEASURES[name]) for name in ("MB/s", "IOPS")},
    }  # fmt: skip


def workloads(run: Run) -> list[str]:
    """Return what was measured, the one that the answer tells of first."""
    return sorted(map(str, run.levels("workload")), key=lambda one: one != "64k-read")


def unit(workload: str) -> str:
    """Return how throughput is taken: small blocks are counted."""
    return "IOPS" if workload.startswith("4k") else "MB/s"


def flavors(run: Run, workload: str) -> dict[str, Levels]:
    """Return each flavor, those of the engine first; others are held to the first."""
    every = [
        {"workload": workload, **one}
        for one in run.combinations("client", "flavor")
        if run.at({"workload": workload, **one})
    ]
    return {f"{one['flavor']}{', kernel mount' * (one['client'] == _MOUNT)}": one for one in every}


def base(run: Run, workload: str) -> Levels:
    """Return the flavor that others are held to."""
    return next(iter(flavors(run, workload).values()))


def ends(run: Run, workload: str) -> tuple[tuple[Level, str], tuple[Level, str]]:
    """Return the fewest connections and the most, with their words."""
    curve = run.curve("connections", base(run, workload))
    counts = run.counts("connections", {"workload": workload})
    few, many = (
        (at, curve.words(at) if at in curve.counts else f"{at} connections")
        for at in (counts[0], counts[-1])
    )
    return few, many


def columns(run: Run) -> list[Column]:
    """Return what a flavor costs on the fewest connections, and what it reaches on the most."""
    workload = workloads(run)[0]
    first, rate = base(run, workload), unit(workload)
    (few, _), (many, words) = ends(run, workload)
    at, times = {"connections": few}, f"times {first['flavor']}"
    to = {"flavor": first["flavor"], "client": first["client"]}
    found = [
        Column(rate, rate, at),
        Column(times, rate, at, {**to, **at}),
        Column("client CPU, µs/op", CLIENT, at, interval=False),
        Column(f"CPU, {times}", CLIENT, at, {**to, **at}),
    ]
    most = {"connections": many}
    return found + [Column(f"{rate} with {words}, {times}", rate, most, {**to, **most})] * (
        many != few
    )


def every_flavor(run: Run) -> list[Section]:
    """Lay out what each flavor does and costs on the fewest connections."""
    tables = []
    for workload in workloads(run):
        first, rate, (few, words) = base(run, workload), unit(workload), ends(run, workload)[0]
        at, times = {"connections": few}, f"times {first['flavor']}"
        to = {"flavor": first["flavor"], "client": first["client"], **at}

        def mean(heading: str, measure: str, at: Levels = at) -> Column:
            return Column(heading, measure, at, interval=False)

        shown = [
            mean("IOPS", "IOPS"), mean("MB/s", "MB/s"), Column(times, rate, at, to),
            mean("client CPU, µs/op", CLIENT), Column(f"client, {times}", CLIENT, at, to),
            mean("client, s/GiB", "client s/GiB"), mean("of it crypto, µs/op", "crypto µs/op"),
        ]  # fmt: skip
        if any(map(SERVER_CPU, run.at({"workload": workload}))):
            shown += [
                mean("server CPU, µs/op", SERVER), Column(f"server, {times}", SERVER, at, to),
                mean("server, s/GiB", "server s/GiB"),
            ]  # fmt: skip
        title = f"{workload}, {words}"
        tables.append(
            run.table(Grid(functools.partial(flavors, workload=workload), shown, title=title))
        )
    beside = "; its work is in the jobs' system calls, and not in what is told of crypto"
    ciphers = sorted({cell.tls for cell in run.summary.done if cell.tls})
    said = [f"TLS: {one}{beside if 'kTLS' in one else ''}." for one in ciphers]
    return [Section("Every flavor", said, tables), not_measured(run.summary)]


def not_measured(summary: Summary) -> Section:
    """List what the server lacks, or this client, with the reason in the engine's words."""
    why = {
        f"{cell.factors['flavor']}{', kernel mount' * (cell.factors['client'] == _MOUNT)}": cell.why
        for cell in summary.cells
        if cell.status == "skipped"
    }
    points = [f"{name}: {_BEFORE_REASON.sub('', one or '')}" for name, one in why.items()]
    return Section("Not measured", points=points)


def headline(run: Run) -> str:
    """Say what the dearest flavor costs, and TLS, and what the first reaches with connections."""
    workload = workloads(run)[0]
    first = base(run, workload)
    (few, _), (many, words) = ends(run, workload)

    def times(flavor: str, measure: str, connections: Level) -> Ratio | None:
        over, under = (
            {**first, "flavor": one, "connections": connections}
            for one in (flavor, first["flavor"])
        )
        return run.ratio(measure, over, under) if over != under else None

    every = map(str, run.levels("flavor", {"workload": workload, **ENGINE}))
    costs = {one: cost.value for one in every if (cost := times(one, CLIENT, few))}
    if not costs:
        return f"Only {first['flavor']} was measured: there is nothing to compare it with."
    dearest = max(costs, key=lambda one: costs[one])
    what = WORDS.get(workload, workload)
    said = f"{dearest} costs {costs[dearest]:.1f} times the CPU of {first['flavor']} per {what}"
    server = times(dearest, SERVER, few)
    said += f" (server: {server.value:.1f})" if server else ""
    other = next((one for one in ("tls", "krb5p") if one in costs and one != dearest), "")
    said += f", {other.replace('tls', 'TLS')} {costs[other]:.1f}" if other else ""
    reached = times(dearest, unit(workload), many)
    if many != few and reached:
        part = f"{100 * reached.value:.0f} % of {first['flavor']}"
        said += f"; with {words} {dearest} reaches {part}"
    return f"{said}."


def caveats(run: Run) -> list[str]:
    """Say which flavors are told of below, and whose rates are not told."""
    lost = bool(not_measured(run.summary).points)
    lab = run.summary.place.get("kind") != "pool"
    tls = any("tls" in str(one) for one in run.levels("flavor"))
    said = "Flavors that were not measured are listed below, with the reason."
    return [said] * lost + [PROXIED] * (lab and tls)


def plots(run: Run) -> list[Bars | Lines]:
    """Draw what an operation costs on the fewest connections, and rates over connections."""
    found: list[Bars | Lines] = []
    for one in workloads(run):
        at: Levels = {"connections": ends(run, one)[0][0], **ENGINE}
        mounted = {**at, "client": _MOUNT}
        series = [Column("client", CLIENT, at), Column("client, kernel mount", CLIENT, mounted),
                  Column("server", SERVER, at)]  # fmt: skip
        found.append(Bars("flavor", series, {"workload": one}))
        found.append(Lines("connections", ["flavor", "client"], [unit(one)], {"workload": [one]}))
    return found


def reading(run: Run) -> list[str]:
    """Say whose CPU time is told."""
    place = run.summary.place
    alone = place.get("kind") != "pool" or "apart" in place
    server = any(cell.server for cell in run.at({"workload": workloads(run)[0]}))
    return [
        f"The client's CPU time is that of {whose(run)[0]}: the workload, TCP and crypto. Ratios"
        " are paired by repeat.",
        f"Each connection has a job of its own, a thread; all together have {_DEPTH} I/Os in"
        " flight.",
        *[f"The server's CPU time is that of its {'processes' if alone else 'whole machine'}."]
        * server,
        *[
            "Client and server share the processors of one machine: where these are full, rates"
            " compare the cost of both."
        ]
        * shared(run.summary),
    ]


PAGE = Page(
    about=__doc__,
    names={_name(sec, xprtsec): _name(sec, xprtsec) for xprtsec in _XPRTSEC for sec in _SEC},
    figures=figures,
    headline=headline,
    table=Grid(lambda run: flavors(run, workloads(run)[0]), columns),
    caveats=caveats,
    plots=plots,
    more=every_flavor,
    reading=reading,
)

STORY = Story(
    name="security",
    page=PAGE,
    places={"lab": LabConfig(addresses=1, kerberos=Kerberos(), xprtsec="tls:mtls")},
    factors={
        "flavor": Factor(lambda at: [*_flavors(at)]),
        "client": Factor([_ENGINE]),
        "workload": Factor([*WORKLOADS], quick=["64k-read", "64k-write"], asked="workload"),
        "connections": Factor([1, 4, 8], quick=[1, 4], asked="nconnect"),
    },
    job=job,
    twin=_mounted,
    without_urls="security needs URLs in the pool: a directory has that of its mount",
    left_out=_left_out,
    repeats=5,
)
