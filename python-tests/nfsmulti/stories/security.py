# SPDX-License-Identifier: GPL-2.0-only
"""security: what Kerberos and TLS cost.

Nothing was published with it that could be repeated: vendors give a percentage for one client, and
of several connections with Kerberos nobody says anything. Each workload runs under each flavor,
sys in clear among them, on one connection and on several. Each has a job of its own, since a
thread's crypto is one core's.

Factors: flavor (sys, krb5, krb5i, krb5p; tls, mtls; both, as krb5p+tls), client (engine, mount),
workload, connections.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Collection, Sequence

from nfsmulti import texts
from nfsmulti.errors import HarnessError
from nfsmulti.lab import Kerberos, LabConfig
from nfsmulti.report import cells, charts, curves, measures
from nfsmulti.report.answer import MOST_ROWS, Answer
from nfsmulti.report.curves import Axis, Curve
from nfsmulti.report.measures import Take
from nfsmulti.report.story import Plot, Report, Section, Told
from nfsmulti.scenario import (
    PLAIN_WORKLOADS,
    CellSpec,
    Choice,
    OwnPool,
    Place,
    Scale,
    mount_options,
    timed,
)
from nfsmulti.stats import Ratio, Sample
from nfsmulti.story import ONE_URL, At, Factor, Story
from nfsmulti.summary import Cell, Summary
from nfsmulti.summary import Factor as Level
from nfsmulti.texts import MISSING, Table

# --- what runs ---

WORKLOADS: dict[str, dict[str, Level]] = {
    **PLAIN_WORKLOADS,
    "1m-read": {"rw": "read", "bs": "1m"},
}
_SEC, _XPRTSEC = ("sys", "krb5", "krb5i", "krb5p"), ("none", "tls", "mtls")
_DEPTH = 32  # of all jobs together: connections alone make the difference
_FILE = "nfsmulti-security"
_ENGINE, _MOUNT = "engine", "mount"
_LAB = "lab"
_PLACES: dict[str, Place] = {_LAB: LabConfig(addresses=1, kerberos=Kerberos(), xprtsec="tls:mtls")}


def _flavors(choice: Choice) -> list[tuple[str, str]]:
    """Return nfs(5)'s sec and xprtsec of each flavor to measure; sys in clear is the first."""
    chosen = [*itertools.product(choice.sec or _SEC[:1], choice.xprtsec or _XPRTSEC[:1])]
    if not (choice.sec or choice.xprtsec):
        chosen = [*itertools.product(_SEC, _XPRTSEC[:1]), *itertools.product(_SEC[:1], _XPRTSEC)]
    return [*dict.fromkeys([(_SEC[0], _XPRTSEC[0]), *chosen])]


def _name(sec: str, xprtsec: str) -> str:
    words = [word for word in (sec, xprtsec) if word not in ("sys", "none")]
    return "+".join(words) or "sys"


def _job(at: At) -> CellSpec:
    """Return a job for each connection, a thread of its own."""
    size, seconds = at.size(16 << 20, 128 << 20, 1 << 30), at.seconds(2, 5)
    sec, xprtsec = next(one for one in _flavors(at.scale.choice) if _name(*one) == at.flavor)
    asked = at.query if at.own else "version=4.1"
    return CellSpec(
        {}, "", "security.fio",
        {**WORKLOADS[at.workload], "numjobs": at.connections,
         "iodepth": max(1, _DEPTH // at.connections), "size": size, **timed(seconds)},
        seconds,
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
    mounting = mount_options(at.proto, at.version, at.connections)
    security = ",".join(cell.query.split("&")[-2:])
    return dataclasses.replace(
        cell,
        factors={**cell.factors, "client": _MOUNT},
        client="mount",
        mount_options=f"{mounting},{security}",
        optional=f"{cell.optional}, {_MOUNT}",
    )


def _left_out(scale: Scale, pool: OwnPool) -> list[str]:
    said = ["directories: theirs is that of their mounts"] * bool(pool.mounts)
    return said + [ONE_URL] * (scale.choice.mounts and pool.urls > 1)


# --- what it tells ---

_FACTORS = ("flavor", "client", "workload", "connections")
_ORDER = [_name(sec, xprtsec) for xprtsec in _XPRTSEC for sec in _SEC]
_TOLD = "64k-read"  # in the answer
_WORDS = {
    "4k-randread": "4 KiB read",
    "64k-read": "64 KiB read",
    "64k-write": "64 KiB write",
    "1m-read": "1 MiB read",
}
_PROXIED = "The lab's TLS is a proxy in Python, which limits it: no rate of TLS is told."
_BEFORE_REASON = re.compile(r"^fio: status \d+: (nfsmulti: )?(security: )?")
_LOOPBACK = re.compile(r"//(127\.|\[::1\])")


@dataclasses.dataclass(frozen=True)
class _Workload:
    """What a run did of one workload, and how the client's CPU time per I/O is taken."""

    name: str
    found: Sequence[Cell]
    client_us: Take
    proxied: bool  # what goes over TLS

    @property
    def clients(self) -> list[tuple[str, str]]:
        """Each flavor with its client, those of the engine first; others are held to the first."""
        every = {(str(one.factors["flavor"]), str(one.factors["client"])) for one in self.found}
        return sorted(every, key=lambda one: (one[1] != _ENGINE, _place_of(one[0])))

    @property
    def least(self) -> int:
        """The fewest connections."""
        return min(cells.counts(self.found, "connections"))

    @property
    def most(self) -> int:
        """The most."""
        return max(cells.counts(self.found, "connections"))

    def connections(self, at: int) -> str:
        """Return how many connections there are at a level of that factor, in words."""
        return self.curve(*self.clients[0]).words(at)

    @property
    def axis(self) -> Axis:
        """Small blocks are counted."""
        counted = Axis("connections", measures.IOPS, "IOPS")
        return counted if self.name.startswith("4k") else Axis("connections")

    def curve(self, flavor: str, client: str = _ENGINE) -> Curve:
        """Return what a flavor did at each number of connections."""
        levels = {"flavor": flavor, "client": client}
        found = [one for one in self.found if levels.items() <= one.factors.items()]
        return Curve.along(self.axis, found)

    def ratio(self, flavor: str, client: str, at: int, measure: Take) -> Ratio | None:
        """Return a figure in times that of the first flavor by the engine; None for its own."""
        base = self.clients[0]
        if (flavor, client) == base:
            return None
        return cells.ratio(self.curve(flavor, client).at(at), self.curve(*base).at(at), measure)

    def tells_rate(self, flavor: str) -> bool:
        """Tell whether a flavor's rates are the server's."""
        return not (self.proxied and "tls" in flavor)


def _place_of(flavor: str) -> int:
    return _ORDER.index(flavor)


def _workloads(summary: Summary) -> list[_Workload]:
    """Return what was measured, the one that the answer tells of first."""
    lab = summary.place.get("kind") != "pool"
    measure = _engine_us if _shared(summary) else cells.cpu_measure(summary.done)
    if summary.place.get("apart"):
        measure = _rest_us
    names = cells.levels(summary.done, "workload")
    return [
        _Workload(str(name), cells.having(summary, workload=name), measure, proxied=lab)
        for name in sorted(names, key=lambda one: one != _TOLD)
    ]


def _shared(summary: Summary) -> bool:
    """Tell whether client and server are one machine."""
    place, pool = summary.place, str(summary.place.get("pool") or "")
    return place.get("kind") != "pool" or "apart" in place or bool(_LOOPBACK.search(pool))


def _engine_us(cell: Cell) -> float | None:
    """Return the CPU time of fio's jobs per I/O; a kernel mount works beside them."""
    return measures.JOBS_CPU(cell) if cell.factors["client"] == _ENGINE else None


def _rest_us(cell: Cell) -> float | None:
    """Return the machine's CPU time per I/O but for its server's, where that is told apart."""
    machine, server = measures.MACHINE_CPU(cell), measures.SERVER_CPU(cell)
    return machine - server if machine and server else None


def _s_per_gib(measure: Take) -> Take:
    """Return how CPU seconds per GiB are taken of what gives µs per I/O."""

    def seconds(cell: Cell) -> float | None:
        us, moved = measure(cell), sum(side.bytes for side in measures.sides(cell))
        return us / 1e6 * cell.ops / moved * (1 << 30) if us and moved else None

    return seconds


def tell(summary: Summary) -> Told:
    """Tell what each flavor costs beside sys in clear, or the first that was measured."""
    found = _workloads(summary)
    return Told(
        answer=_answer(found[0], lost=bool(_not_measured(summary).points)),
        sections=[
            Section("Every flavor", words=_tls(summary), tables=[_table(one) for one in found]),
            _not_measured(summary),
            Section("Plots", plots=[plot for one in found for plot in _plots(one)]),
        ],
        reading=_reading(summary, found[0]),
    )


def _answer(told: _Workload, *, lost: bool) -> Answer:
    """Tell of one workload: what a flavor costs on one connection, and reaches on the most."""
    base, _ = told.clients[0]
    unit = told.axis.unit
    times = f"times {base}"
    rows: list[list[str]] = []
    for flavor, client in told.clients:
        curve = told.curve(flavor, client)
        ratio = functools.partial(told.ratio, flavor, client)
        own = "1" if not rows else None
        gain = ratio(told.least, told.axis.measure), ratio(told.most, told.axis.measure)
        rates = [texts.measured(curve.rate(told.least)), *map(texts.marked, gain)]
        if not told.tells_rate(flavor):
            rates = [MISSING] * 3
        cost = cells.sample(curve.at(told.least), told.client_us)
        dearer = ratio(told.least, told.client_us)
        rows.append([
            _words(flavor, client), rates[0], own or rates[1], texts.mean(cost),
            own or texts.marked(dearer), own or rates[2],
        ])  # fmt: skip
    headings = ["", unit, times, "client CPU, µs/op", f"CPU, {times}"]
    headings += [f"{unit} with {told.connections(told.most)}, {times}"]
    kept = 6 if told.most > told.least else 5
    table = Table(headings[:kept], [row[:kept] for row in rows[:MOST_ROWS]])
    caveats = ["Flavors that were not measured are listed below, with the reason."] if lost else []
    caveats += [_PROXIED] if any(not told.tells_rate(one) for one, _ in told.clients) else []
    return Answer(_headline(told), table, caveats)


def _words(flavor: str, client: str) -> str:
    return flavor if client == _ENGINE else f"{flavor}, kernel mount"


def _headline(told: _Workload) -> str:
    """Say what the dearest flavor costs, and TLS, and what the first reaches with connections."""
    base, _ = told.clients[0]
    costs = {
        flavor: cost.value
        for flavor, client in told.clients
        if client == _ENGINE
        if (cost := told.ratio(flavor, client, told.least, told.client_us))
    }
    if not costs:
        return f"Only {base} was measured: there is nothing to compare it with."
    dearest = max(costs, key=lambda one: costs[one])
    what = _WORDS.get(told.name, told.name)
    words = f"{dearest} costs {costs[dearest]:.1f} times the CPU of {base} per {what}"
    server = told.ratio(dearest, _ENGINE, told.least, measures.SERVER_CPU)
    if server and told.tells_rate(dearest):
        words += f" (server: {server.value:.1f})"
    other = next((one for one in ("tls", "krb5p") if one in costs and one != dearest), "")
    words += f", {other.replace('tls', 'TLS')} {costs[other]:.1f}" if other else ""
    reached = told.ratio(dearest, _ENGINE, told.most, told.axis.measure)
    if told.most > told.least and reached and told.tells_rate(dearest):
        part = f"{100 * reached.value:.0f} % of {base}"
        words += f"; with {told.connections(told.most)} {dearest} reaches {part}"
    return f"{words}."


def _table(told: _Workload) -> Table:
    """Lay out what each flavor does and costs on the fewest connections."""
    at, (base, _) = told.least, told.clients[0]
    rows: list[list[str]] = []
    for flavor, client in told.clients:
        found = told.curve(flavor, client).at(at)
        ratio = functools.partial(told.ratio, flavor, client, at)
        own = "1" if not rows else None
        rates = [
            texts.mean(cells.sample(found, measures.IOPS)),
            texts.mean(cells.sample(found, measures.MB_PER_S)),
            own or texts.marked(ratio(told.axis.measure)),
        ]
        client_cost, server_cost = (
            [
                texts.mean(cells.sample(found, us)),
                own or texts.marked(ratio(us)),
                texts.mean(cells.sample(found, _s_per_gib(us))),
            ]
            for us in (told.client_us, measures.SERVER_CPU)
        )
        if not told.tells_rate(flavor):  # nor does the proxy's work count
            rates = server_cost = [MISSING] * 3
        crypto = texts.mean(cells.sample(found, measures.MEASURES["crypto µs/op"]))
        rows.append([_words(flavor, client), *rates, *client_cost, crypto, *server_cost])
    times = f"times {base}"
    headings = ["", "IOPS", "MB/s", times]
    headings += ["client CPU, µs/op", f"client, {times}", "client, s/GiB", "of it crypto, µs/op"]
    headings += ["server CPU, µs/op", f"server, {times}", "server, s/GiB"]
    kept = len(headings) if any(map(measures.SERVER_CPU, told.found)) else len(headings) - 3
    title = f"{told.name}, {told.connections(at)}"
    return Table(headings[:kept], [row[:kept] for row in rows], title)


def _tls(summary: Summary) -> list[str]:
    """Say by which cipher calls went over TLS, and who encrypted."""
    beside = "; its work is in the jobs' system calls, and not in what is told of crypto"
    found = sorted({cell.tls for cell in summary.done if cell.tls})
    return [f"TLS: {one}{beside if 'kTLS' in one else ''}." for one in found]


def _not_measured(summary: Summary) -> Section:
    """List what the server lacks, or this client, with the reason in the engine's words."""
    why = {
        _words(str(cell.factors["flavor"]), str(cell.factors["client"])): cell.why or ""
        for cell in summary.cells
        if cell.status == "skipped"
    }
    points = [f"{name}: {_BEFORE_REASON.sub('', one)}" for name, one in why.items()]
    return Section("Not measured", points=points)


def _plots(told: _Workload) -> list[Plot]:
    """Draw what an operation costs on the fewest connections, and rates over connections."""
    plots = [_cost_plot(told)]
    named = [
        (_words(flavor, client), told.curve(flavor, client))
        for flavor, client in told.clients
        if told.tells_rate(flavor)
    ]
    if told.most > told.least:
        title = f"{_WORDS.get(told.name, told.name)}s over connections"
        figure = curves.draw(named, title, told.axis.unit, _measure_of(told.axis), 3)
        caption = f"{title}, each with a job of its own; {charts.REPEATS}."
        plots.append(Plot(f"connections-{told.name}", caption, figure))
    return plots


def _measure_of(axis: Axis) -> Take:
    return measures.IOPS if axis.unit == "IOPS" else measures.MB_PER_S


def _cost_plot(told: _Workload) -> Plot:
    flavors = [flavor for flavor, client in told.clients if client == _ENGINE]

    def drawn(client: str, measure: Take, of: Collection[str]) -> list[Sample | None]:
        return [
            cells.sample(told.curve(one, client).at(told.least), measure) if one in of else None
            for one in flavors
        ]

    series = {
        "client": drawn(_ENGINE, told.client_us, flavors),
        "client, kernel mount": drawn(_MOUNT, told.client_us, flavors),
        "server": drawn(_ENGINE, measures.SERVER_CPU, [*filter(told.tells_rate, flavors)]),
    }
    title = f"CPU time per {_WORDS.get(told.name, told.name)}"
    figure = charts.bars(title, "µs", flavors, {k: v for k, v in series.items() if any(v)})
    return Plot(f"cpu-{told.name}", f"{title}; {charts.REPEATS}.", figure)


def _reading(summary: Summary, told: _Workload) -> list[str]:
    machines: dict[Take, str] = {
        measures.MACHINE_CPU: "its whole machine",
        _rest_us: "its machine but for the server",
    }
    client = machines.get(told.client_us, "fio's jobs")
    words = [
        f"The client's CPU time is that of {client}: the workload, TCP and crypto. Ratios are"
        " paired by repeat.",
        f"Each connection has a job of its own, a thread; all together have {_DEPTH} I/Os in"
        " flight.",
    ]
    if any(cell.server for cell in told.found):
        alone = summary.place.get("kind") != "pool" or "apart" in summary.place
        whose = "processes" if alone else "whole machine"
        words.append(f"The server's CPU time is that of its {whose}.")
    if _shared(summary):
        words.append(
            "Client and server share the processors of one machine: where these are full, rates"
            " compare the cost of both."
        )
    return words


_REPORT = Report("security", __doc__, factors=_FACTORS, tell=tell)

STORY = Story(
    name="security",
    own_report=_REPORT,
    places=_PLACES,
    factors={
        "flavor": Factor(lambda at: [_name(*one) for one in _flavors(at.scale.choice)]),
        "client": Factor([_ENGINE]),
        "workload": Factor([*WORKLOADS], quick=["64k-read", "64k-write"], asked="workloads"),
        "connections": Factor([1, 4, 8], quick=[1, 4], asked="nconnect"),
    },
    job=_job,
    twin=_mounted,
    without_urls="security needs URLs in the pool: a directory has that of its mount",
    left_out=_left_out,
    repeats=5,
)
