# SPDX-License-Identifier: GPL-2.0-only
"""security: what Kerberos and TLS cost.

Nothing was published with it that could be repeated. Each workload runs under each flavor, sys in
clear among them, on one connection and on several. Each connection has a job of its own, since a
thread's crypto is one core's.
"""

from dataclasses import replace

from nfsmulti.lab import Kerberos, LabConfig
from nfsmulti.report.measures import IOPS, MB_PER_S, SERVER_CPU, Measure, Take
from nfsmulti.report.story import Section
from nfsmulti.report.told import Run
from nfsmulti.scenario import PLAIN_WORKLOADS, CellSpec
from nfsmulti.story import At, Bars, Column, Factor, Grid, Levels, Lines, Story

WORKLOADS: dict[str, Levels] = {**PLAIN_WORKLOADS, "1m-read": {"rw": "read", "bs": "1m"}}
_SEC, _XPRTSEC = ("sys", "krb5", "krb5i", "krb5p"), ("none", "tls", "mtls")
_DEPTH = 32  # of all jobs together: connections alone make the difference


def _flavors(at: At) -> dict[str, tuple[str, str]]:
    """Return nfs(5)'s sec and xprtsec of each flavor to measure; sys in clear is the first."""
    sec, xprtsec = at.scale.choice.sec, at.scale.choice.xprtsec
    pairs = [(one, other) for one in sec or _SEC[:1] for other in xprtsec or _XPRTSEC[:1]]
    if not (sec or xprtsec):
        pairs = [(one, "none") for one in _SEC] + [("sys", one) for one in _XPRTSEC]
    return {_name(*one): one for one in [("sys", "none"), *pairs]}


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
        files={"nfsmulti-security": size},
        optional=at.flavor,
    )  # fmt: skip


def _mounted(cell: CellSpec, at: At) -> CellSpec:
    """Return a cell on a kernel mount of the same flavor, and with as many connections."""
    security = ",".join(cell.query.split("&")[-2:])
    options, lacking = f"{at.mount_options()},{security}", f"{cell.optional}, mount"
    return at.mounted(cell, "mount", {"client": "mount"}, mount_options=options, optional=lacking)


WORDS = {
    "4k-randread": "4 KiB read", "64k-read": "64 KiB read", "64k-write": "64 KiB write",
    "1m-read": "1 MiB read",
}  # fmt: skip
CLIENT, SERVER = "client CPU µs/op", SERVER_CPU.name


def proxied(run: Run, at: Levels) -> bool:
    """Whether the lab's proxy, in Python, limits a cell, and works beside its server."""
    return not run.own and "tls" in str(at["flavor"])


def figures(run: Run) -> dict[str, Take]:
    """Return the figures that are not told of what the proxy limits."""

    def told(one: Measure) -> Measure:
        return replace(one, take=lambda cell: None if proxied(run, cell.factors) else one(cell))

    return {one.name: told(one) for one in (MB_PER_S, IOPS, SERVER_CPU)}


def workloads(run: Run) -> list[str]:
    """Return what was measured, the one that the answer tells of first."""
    return sorted(map(str, run.levels("workload")), key=lambda one: one != "64k-read")


def unit(workload: str) -> str:
    """Return how throughput is taken: small blocks are counted."""
    return "IOPS" if workload.startswith("4k") else "MB/s"


def flavors(run: Run, workload: str) -> dict[str, Levels]:
    """Return each flavor that was measured, by its name; others are held to the first."""
    return run.rows("flavor", "client", at={"workload": workload})


def ends(run: Run, workload: str) -> tuple[Levels, Levels]:
    """Return the fewest connections and the most."""
    counts = run.counts("connections", {"workload": workload})
    return {"connections": counts[0]}, {"connections": counts[-1]}


def columns(run: Run, workload: str) -> list[Column]:
    """Return what a flavor costs on the fewest connections, and what it reaches on the most."""
    (few, many), rate = ends(run, workload), unit(workload)
    name, first = next(iter(flavors(run, workload).items()))
    to, times = {**first, **few}, f"times {name}"
    found = [
        Column(rate, rate, few),
        Column(times, rate, few, to),
        Column("client CPU, µs/op", CLIENT, few, interval=False),
        Column(f"CPU, {times}", CLIENT, few, to),
    ]
    heading = f"{rate} with {run.words(many)}, {times}"
    return found + [Column(heading, rate, many, {**first, **many})] * (many != few)


def every_flavor(run: Run) -> list[Section]:
    """Lay out what each flavor does and costs, client and server, with each workload."""
    tables = []
    for workload in workloads(run):
        few, rows = ends(run, workload)[0], flavors(run, workload)
        name, first = next(iter(rows.items()))
        shown = [
            *columns(run, workload),
            Column("of it crypto, µs/op", "crypto µs/op", few, interval=False),
            Column("server CPU, µs/op", SERVER, few, interval=False),
            Column(f"server, times {name}", SERVER, few, {**first, **few}),
        ]
        tables.append(run.table(Grid(rows, shown, title=f"{workload}, {run.words(few)}")))
    beside = "; its work is in the jobs' system calls, and not in what is told of crypto"
    ciphers = sorted({cell.tls for cell in run.summary.done if cell.tls})
    said = [f"TLS: {one}{beside if 'kTLS' in one else ''}." for one in ciphers]
    return [Section("Every flavor", said, tables)]


def headline(run: Run) -> str:
    """Say what the dearest flavor costs, and TLS, and what the first reaches with connections."""
    workload = workloads(run)[0]
    (name, first), (few, many) = next(iter(flavors(run, workload).items())), ends(run, workload)

    def times(flavor: str, measure: str, at: Levels) -> float | None:
        one = run.ratio(measure, {**first, **at, "flavor": flavor}, {**first, **at})
        return one.value if one else None

    others = {*map(str, run.levels("flavor", {"workload": workload}))} - {first["flavor"]}
    costs = {one: cost for one in others if (cost := times(one, CLIENT, few))}
    if not costs:
        return run.incomplete("sys and another flavor")
    dearest = max(costs, key=lambda one: costs[one])
    said = f"{dearest} costs {costs[dearest]:.1f} times the CPU of {name} per {WORDS.get(workload)}"
    server = times(dearest, SERVER, few)
    said += f" (server: {server:.1f})" if server else ""
    other = next((one for one in ("tls", "krb5p") if one in costs and one != dearest), "")
    said += f", {other.replace('tls', 'TLS')} {costs[other]:.1f}" if other else ""
    if many != few and (reached := times(dearest, unit(workload), many)):
        said += f"; with {run.words(many)} {dearest} reaches {100 * reached:.0f} % of {name}"
    return f"{said}."


def plots(run: Run) -> list[Bars | Lines]:
    """Draw what an operation costs on the fewest connections, and rates over connections."""
    found: list[Bars | Lines] = []
    for one in workloads(run):
        at: Levels = {**ends(run, one)[0], "client": "engine"}
        series = [Column("client", CLIENT, at), Column("server", SERVER, at),
                  Column("client, kernel mount", CLIENT, {**at, "client": "mount"})]  # fmt: skip
        found.append(Bars("flavor", series, {"workload": one}))
        found.append(Lines("connections", ["flavor", "client"], [unit(one)], {"workload": [one]}))
    return found


STORY = Story(
    names={**{_name(sec, xprtsec): _name(sec, xprtsec) for xprtsec in _XPRTSEC for sec in _SEC},
           "engine": "nfsmulti", "mount": "kernel mount"},
    figures=figures,
    headline=headline,
    table=Grid(lambda run: flavors(run, workloads(run)[0]),
               lambda run: columns(run, workloads(run)[0])),
    caveats=lambda run: [
        "The lab's TLS is a proxy in Python, which limits it: no rate of TLS is told."
    ] * any(proxied(run, cell.factors) for cell in run.summary.done),
    plots=plots,
    more=every_flavor,
    reading=lambda run: [
        f"The client's CPU time is that of {run.client_cpu[0]}: the workload, TCP and crypto."
        " The server's is that of its processes where they are known, else of its machine.",
        f"Each connection has a job, a thread of its own; all have {_DEPTH} I/Os in flight.",
    ],
    places={"lab": LabConfig(addresses=1, kerberos=Kerberos(), xprtsec="tls:mtls")},
    factors={
        "flavor": Factor(lambda at: [*_flavors(at)]),
        "client": Factor(["engine"]),
        "workload": Factor([*WORKLOADS], quick=["64k-read", "64k-write"], asked="workload"),
        "connections": Factor([1, 4, 8], quick=[1, 4], asked="nconnect"),
    },
    job=job,
    twin=_mounted,
    urls_alone="a directory has the security of its mount",
    repeats=5,
)  # fmt: skip
