# SPDX-License-Identifier: GPL-2.0-only
"""oltp: a database's mix.

Published: Oracle 10.1 OLTP on AIX 5.3 and a NetApp FAS880 (2005), about two reads to a write in
blocks of 8 KiB, over NFS, iSCSI and Fibre Channel: transactions, host CPU, protocol efficiency (CPU
per transaction, NFS = 1.0) and block-read response, where 8 KiB reads took under 0.1 ms longer over
NFS than over the SAN.

Each cell is one job, whose iodepth is the concurrency: connections alone make the difference.

Factors: connections (one, pool, mount), concurrency.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from nfsmulti import texts
from nfsmulti.lab.guest import ADDRESSES, Mount
from nfsmulti.report import cells, charts, conditions, curves, measures
from nfsmulti.report.answer import Answer
from nfsmulti.report.curves import Axis, Curve
from nfsmulti.report.measures import Take
from nfsmulti.report.story import Beside, Finding, Plot, Report, Section, Told, untestable
from nfsmulti.scenario import CellSpec, GuestPlace, OwnPool, Scale, timed
from nfsmulti.stats import Ratio
from nfsmulti.story import At, Factor, Story
from nfsmulti.summary import Cell, Summary
from nfsmulti.summary import Factor as Level
from nfsmulti.texts import Table

# --- what runs ---

_POOL_CONNECTIONS = 8  # at least so many, on all paths together
_MOUNT = Mount("/mnt/tcp3", ("vers=3", "proto=tcp"))
_PLACES = {"guest": GuestPlace({"mount": (_MOUNT,)})}


def _kinds(at: At) -> list[str]:
    return ["one", "pool"] * bool(at.pool.urls) + ["mount"] * bool(at.pool.mounts)


def _left_out(_: Scale, pool: OwnPool) -> list[str]:
    return ["one and pool need URLs in the pool"] * (not pool.urls) + [
        "mount needs a kernel mount: add its directory to the pool"
    ] * (not pool.mounts)


def _job(at: At) -> CellSpec:
    seconds, size = at.seconds(4, 20), 64 << 20 if at.scale.quick else 256 << 20
    paths = at.pool.urls if at.own else len(ADDRESSES)
    options: dict[str, Level | None] = {
        "iodepth": at.concurrency, "size": size, **timed(seconds)
    }  # fmt: skip
    if at.connections == "pool":
        options |= {"nconnect": -(-_POOL_CONNECTIONS // paths), "spread": "roundrobin"}
    mounted = at.connections == "mount"
    return CellSpec(
        {}, "", "oltp.fio", options, seconds,
        client="mount" if mounted else "pool",
        mounts="mount" if mounted else "",
        paths=paths if at.connections == "pool" else 1,
        files={"nfsmulti-oltp": size},
    )  # fmt: skip


# --- what it tells ---

_JUDGED = untestable("there is no SAN here to compare it with")
_KINDS = {"one": "one connection", "pool": "several connections", "mount": "kernel mount"}

_WHOSE: dict[Take, str] = {measures.MACHINE_CPU: "machine", measures.JOBS_CPU: "fio's jobs"}

_AXIS = Axis("concurrency", measures.IOPS, "IOPS")
_Kinds = dict[str, Curve]


def _names(kinds: _Kinds) -> dict[str, str]:
    """Name each kind, with how many connections several are where a command tells."""
    for cell in itertools.chain(*kinds["pool"].cells.values()):
        if (every := cell.connections) and every > 1:
            return {**_KINDS, "pool": f"{every} connections"}
    return _KINDS


def _curves(summary: Summary) -> _Kinds:
    """Return what each kind of connections did; one that was not measured has no counts."""
    return {kind: Curve.along(_AXIS, cells.having(summary, connections=kind)) for kind in _KINDS}


def _to_one(kinds: _Kinds, kind: str, at: int, measure: Take) -> Ratio | None:
    """Return a figure as a multiple of one connection's; None for one connection itself."""
    over, under = (kinds[which].at(at) for which in (kind, "one"))
    return cells.ratio(over, under, measure) if kind != "one" else None


def _p50_us(found: Sequence[Cell]) -> float | None:
    return cells.percentile_of(found, 50, "read")


def _alone(one: Curve) -> str:
    """Return one connection's p50 of reads at its lowest concurrency."""
    median = _p50_us(one.at(min(one.counts, default=0)))
    return f"{texts.number(median / 1000)} ms (p50) over NFS alone" if median else texts.MISSING


def beside(summary: Summary) -> list[Beside]:
    """Return what was published beside ours: costs are relative to one connection."""
    kinds = _curves(summary)
    what = "protocol efficiency: CPU per transaction, NFS"
    rows = [Beside(what, "1.0 (the scale)", "1.0: one connection", their_ratio=1.0)]
    for kind in ("pool", "mount"):
        # The highest concurrency that both had.
        at = max({*kinds["one"].counts} & {*kinds[kind].counts}, default=0)
        for name, cost in (
            ("fio's jobs", measures.JOBS_CPU),
            ("the machine", measures.MACHINE_CPU),
        ):
            sample = cells.sample(kinds[kind].at(at), cost)
            what = f"CPU per operation of {name}: {_KINDS[kind]} to one connection"
            ours = texts.mean(sample, "µs")
            ratio = _to_one(kinds, kind, at, cost)
            rows.append(Beside(what, texts.MISSING, ours, our_ratio=ratio))
    what = "8 KiB read response, NFS over SAN"
    return [*rows, Beside(what, "under 0.1 ms more", _alone(kinds["one"]))]


def findings(summary: Summary) -> list[Finding]:
    """Return what was published of NFS beside a SAN."""
    what = "reads of 8 KiB take little longer over NFS than over a SAN"
    return [Finding(what, "under 0.1 ms more", _alone(_curves(summary)["one"]), _JUDGED)]


def tell(summary: Summary) -> Told:
    """Tell what more connections do for a database's mix here, and what they cost."""
    kinds, cost = _curves(summary), cells.cpu_measure(summary.done)
    where = f",{on_each}" if (on_each := conditions.on_each(summary)) else ""
    return Told(
        answer=_answer(kinds, cost),
        sections=[Section("Plots", plots=_plots(kinds, cost))],
        reading=[
            "IOPS are reads and writes together, of 8 KiB each, two to one. Concurrency is I/Os"
            f" in flight, all jobs together{where}.",
            "The curve rises to the right while there is capacity left, and turns upwards where"
            " more concurrency buys only waiting.",
        ],
    )


def _answer(kinds: _Kinds, cost: Take) -> Answer:
    """Tell what each kind does in times one connection, at the highest concurrency of all."""
    measured = {kind: curve for kind, curve in kinds.items() if curve.counts}
    names, shared = _names(kinds), set.intersection(*({*one.counts} for one in measured.values()))
    rows, rates, counts = [], {}, {}
    gains: dict[str, str] = {}
    for kind, curve in measured.items():
        at = counts[kind] = max(shared or curve.counts)
        median = _p50_us(curve.at(at))
        gain, dearer = (_to_one(kinds, kind, at, measure) for measure in (measures.IOPS, cost))
        own = "1" if kind == "one" else None
        rows.append([
            names[kind], texts.measured(curve.rate(at)), own or texts.marked(gain),
            texts.number(median and median / 1000), own or texts.marked(dearer),
        ])  # fmt: skip
        rates[kind] = curve.mean(at)
        gains |= {kind: texts.times_in_words(gain)} if gain else {}
    best = max(rates, key=lambda kind: rates[kind])
    words = f"{texts.number(rates[best])} IOPS over {names[best]} with {counts[best]} in flight"
    words += "" if gains else "; nothing to compare with was measured"
    words += f", {gains.pop(best)} one connection" if best in gains else ""
    told = [f"{names[kind]}: {gain}" for kind, gain in gains.items()]
    words = "; ".join([words, *([", ".join(told)] if told else [])])
    first = f"{' or '.join(sorted({*map(str, counts.values())}))} in flight"
    headings = ["IOPS", "times one connection", "read p50, ms"]
    headings += [f"CPU/op ({_WHOSE[cost]}), times one connection"]
    return Answer(f"{words}.", Table([first, *headings], rows))


def _plots(kinds: _Kinds, cost: Take) -> list[Plot]:
    """Draw response against throughput, and what an operation costs."""
    names = _names(kinds)
    named = [(names[kind], curve) for kind, curve in kinds.items() if curve.counts]
    axes, title = ("IOPS", "read latency, median, ms"), "Response against throughput"
    response = curves.latency(named, title, axes, measures.IOPS, _p50_us, charts.logarithmic, 3)
    caption = (
        "Median read response against IOPS, both on logarithmic axes; the numbers are the"
        " I/Os in flight."
    )
    title = f"CPU per operation ({_WHOSE[cost]})"
    cpu = curves.draw(named, title, "µs", cost, columns=3)
    return [
        Plot("curve", caption, response),
        Plot("cpu", f"{title} against I/Os in flight; {charts.REPEATS}.", cpu),
    ]


_REPORT = Report(
    "oltp",
    __doc__,
    factors=("connections", "concurrency"),
    beside=beside,
    tell=tell,
    findings=findings,
    names=lambda summary: _names(_curves(summary)),
)

STORY = Story(
    report=_REPORT,
    places=_PLACES,
    factors={
        "connections": Factor(_kinds),
        "concurrency": Factor([1, 2, 4, 8, 16, 32, 64], quick=[1, 8, 32]),
    },
    job=_job,
    left_out=_left_out,
)
