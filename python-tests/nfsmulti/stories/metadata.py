# SPDX-License-Identifier: GPL-2.0-only
"""metadata: operations per second.

Published, and beside ours for orientation alone: 16,000 to 17,000 mkdirs/s on nfs-ganesha (its
issue 1220), and 15,600 creates/s of a user-space server on loopback, each on hardware of its own.
No publication is reproduced: the run asks what this server does.

How many creates, stats, lookups and removes per second, and what ends that? In the lab, on a pool,
or (--mounts) in the kernel lab and on mounts of a pool's URLs: there fio's filecreate, filestat and
filedelete make one system call at a time in each of 1 to 32 jobs. fio's set-up looks each file up
before filestat begins: the kernel's cache is emptied in between, so that filestat, like the engine,
asks the server for each file.

Factors: limits (lab, guest, pool), operation, version, client (engine, filecreate, filestat,
filedelete), jobs, depth, nconnect.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nfsmulti import texts
from nfsmulti.lab import LabConfig
from nfsmulti.report import cells, charts, conditions, curves, measures, scaling
from nfsmulti.report.answer import MOST_ROWS, Answer
from nfsmulti.report.curves import Axis, Curve
from nfsmulti.report.measures import Take
from nfsmulti.report.story import (
    Finding,
    Plot,
    Report,
    Section,
    Told,
    as_wanted,
    beyond,
    untestable,
)
from nfsmulti.scenario import (
    CellSpec,
    Entries,
    GuestPlace,
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


@dataclasses.dataclass(frozen=True)
class _Operation:
    """A job file, what it is given, and fio's engine that does the same, "" where there is none."""

    jobfile: str
    options: dict[str, Level | None]
    entries: Entries
    peer: str
    many: str  # in a sentence


OPERATIONS = {
    "create": _Operation(
        "metadata-create.fio", {"meta_write": "create"}, "makes", "filecreate", "creates"
    ),
    "getattr": _Operation("metadata-stat.fio", {"meta_read": "getattr"}, "uses", "", "GETATTRs"),
    "lookup": _Operation(
        "metadata-stat.fio", {"meta_read": "lookup"}, "uses", "filestat", "LOOKUPs"
    ),
    "remove": _Operation(
        "metadata-remove.fio", {"meta_write": "remove"}, "removes", "filedelete", "removes"
    ),
}
ENGINE = "engine"
MOST = 1 << 20  # entries of a cell that makes them; those that it has no time for are not made
_DEPTH = 32
_PEER_JOBS = (1, 4, 16, _DEPTH)  # in the end as many calls under way as the engine has
_USED_PER_S = 2000  # entries that are asked for: again and again by the engine, once by filestat
_PEER_FILES_PER_S = 5000  # of all jobs together: where a mount makes more, a cell ends early
_REMOVED_PER_S = 500  # the same of filedelete, whose files are laid out first
_FORGET = "echo 2 >/proc/sys/vm/drop_caches"  # names and attributes (admin-guide/sysctl/vm.rst)
_LAB, _GUEST = "lab", "guest"
_PLACES: dict[str, Place] = {_LAB: LabConfig(addresses=1), _GUEST: GuestPlace()}


def size_of(entries: int) -> dict[str, Level | None]:
    """Return the size of a job on so many entries: 1 KiB stands for one, as in fio's logs."""
    return {"size": f"{entries}k"}


def _combinations(factors: Mapping[str, Factor], where: At) -> Iterator[dict[str, Level]]:
    """Yield each depth with the fewest connections, and one depth with more; and a mount's jobs."""
    operations, depths, connections = (
        [*factors[name].at(where)] for name in ("operation", "depth", "nconnect")
    )
    depth = _DEPTH if _DEPTH in depths else max(map(int, depths))
    levels = [(one, connections[0]) for one in depths]
    levels += [(depth, number) for number in connections[1:]]
    for operation in map(str, operations):
        known: dict[str, Level] = {"operation": operation, "client": ENGINE, "jobs": 1}
        yield from ({**known, "depth": each, "nconnect": number} for each, number in levels)
        peer = OPERATIONS[operation].peer if where.scale.choice.mounts else ""
        if peer:
            known |= {"client": peer, "depth": 1, "nconnect": min(map(int, connections))}
            yield from ({**known, "jobs": jobs} for jobs in _PEER_JOBS)


def _job(at: At) -> CellSpec:
    """Return a cell of the engine, or of fio's own engine, each of whose jobs has one call."""
    what, seconds = OPERATIONS[at.operation], at.seconds(1, 10)
    options: dict[str, Level | None] = {
        "metadata": 1, **what.options, "bs": "1k", "tree_depth": 0, "iodepth": at.depth,
        "nconnect": at.nconnect, "spread": "roundrobin",
    }  # fmt: skip
    if what.entries == "makes":
        options |= {"runtime": timed(seconds)["runtime"], **size_of(MOST)}
    elif what.entries == "uses":
        options |= {**timed(seconds), **size_of(round(_USED_PER_S * seconds))}
    paths = 1 if at.scale.choice.mounts else at.pool.urls
    cell = CellSpec({}, "", what.jobfile, options, seconds, entries=what.entries)
    if at.client == ENGINE:
        return dataclasses.replace(cell, query=at.query, paths=paths)
    each = _PEER_FILES_PER_S if cell.entries == "makes" else _REMOVED_PER_S
    files = round((_USED_PER_S if cell.entries == "uses" else each) * seconds)
    timed_job = ("norandommap", "size", "time_based", "runtime")
    gone: dict[str, Level | None] = dict.fromkeys([*options, *timed_job])
    mounting = mount_options("tcp", at.version, at.nconnect)
    return dataclasses.replace(
        cell,
        client="mount",
        options={
            **gone, "ioengine": at.client, "numjobs": at.jobs, "bs": "1k", "filesize": "1k",
            "rw": "read" if cell.entries == "uses" else "write", "openfiles": 1,
            "fallocate": "none", "nrfiles": max(1, files // at.jobs),
            **({"runtime": options["runtime"]} if cell.entries == "makes" else {}),
        },
        mount_options=mounting.removesuffix(",nconnect=1"),  # which older kernels do not know
        prerun=_FORGET if cell.entries == "uses" else "",
    )  # fmt: skip


def _left_out(scale: Scale, pool: OwnPool) -> list[str]:
    said = ["directories: the operations go to URLs alone"] * bool(pool.mounts)
    return said + [ONE_URL] * (scale.choice.mounts and pool.urls > 1)


# --- what it tells ---

_FACTORS = ("limits", "operation", "version", "client", "jobs", "depth", "nconnect")
_UNIT = "operations/s"
_DEPTHS_AXIS = Axis("depth", measures.IOPS, _UNIT)
_NCONNECT_AXIS = dataclasses.replace(_DEPTHS_AXIS, name="nconnect")
# What this project wants beside fio's engines on a mount: times their operations, and their CPU.
_WANTED = (
    ("create", measures.IOPS, 2.0),
    ("lookup", measures.IOPS, 3.0),
    ("lookup", measures.MACHINE_CPU, 0.5),
)
_NO_MOUNT = "no kernel mount: --mounts makes one"
_NOT_BOTH = "no cell of nfsmulti, or none on the kernel mount, is done"
_PUBLISHED = (
    ("mkdir on nfs-ganesha (its issue 1220)", "16,000 to 17,000 mkdirs/s", "create"),
    ("creates of a user-space server on loopback", "15,600 operations/s", "create"),
)
_RATE = untestable(
    "a rate was published and no ratio: it takes the same hardware, client and server"
)


def tell(summary: Summary) -> Told:
    """Tell for each operation where it stops growing, and what fio's own engines do on a mount."""
    drawn, pairs = _curves(summary), _pairs(summary)
    depths, peers = _depth_table(drawn), _peers_table(pairs)
    by_depth = len(depths.headings) > _ALONE or not pairs
    sections = [Section("Plots", plots=_plots(drawn))]
    if pairs and by_depth:
        sections.append(Section("Beside fio's own engines on a kernel mount", tables=[peers]))
    return Told(
        answer=Answer(
            _headline(drawn, pairs),
            depths if by_depth else peers,
            [_MOUNTED] if pairs else [],
        ),
        sections=sections,
        reading=[
            f"{scaling.RULE} The same holds of depths.",
            "Depth is how many operations a job has under way, over all its connections. Each cell"
            " makes its entries, all in one directory, and removes them afterwards; neither counts."
            " Creates and removes go on for as long as other cells do, on as many entries as there"
            f" is time for; getattr and lookup take entries at random, {_USED_PER_S:,} for each"
            " second of a cell. A GETATTR goes by the entry's handle, which a LOOKUP before the"
            " first one finds; both are one operation.",
            *([_PEERS] if pairs else []),
            *conditions.differences(summary, "In the lab, the server is on the same machine."),
        ],
    )


_ALONE, _MOST_DEPTHS = 2, 4  # columns of a table of one depth alone; depths in a table
_MOUNTED = "Both sides ran on the same client; on the mount, a job makes one call at a time."
_PEERS = (
    "Each of fio's jobs makes one system call after the other; the number of jobs that is fastest"
    " counts. The mount has the kernel's default caches, and as many connections as nfsmulti."
    " fio's set-up looks each file up before filestat begins; the kernel's cache of names and"
    " attributes is emptied in between (drop_caches), so that the first stat of a file asks the"
    " server, by one LOOKUP, as nfsmulti does."
)


def _curves(summary: Summary) -> list[Curve]:
    """Return the curves against depth and against nconnect of each place, operation and version.

    All other levels were measured at one of these alone: the curve with the most counts is given.
    """
    found = []
    for axis, other in ((_DEPTHS_AXIS, "nconnect"), (_NCONNECT_AXIS, "depth")):
        every = curves.curves(cells.having(summary, client=ENGINE), axis)
        every.sort(key=lambda one: (-len(one.counts), int(one.levels[other])))
        longest: dict[tuple[Level, ...], Curve] = {}
        for curve in every:
            longest.setdefault(_key(curve), curve)
        found += [one for one in longest.values() if len(one.counts) > 1 or other == "nconnect"]
    order = list(OPERATIONS)
    return sorted(
        found,
        key=lambda one: (order.index(str(one.levels["operation"])), str(one.levels["version"])),
    )


def _headline(drawn: Sequence[Curve], pairs: _Pairs) -> str:
    """Return the rate of each operation, of the first version, and where all stop growing."""
    first = [curve for curve in drawn if curve.levels["version"] == drawn[0].levels["version"]]
    against_depth = [curve for curve in first if curve.axis.name == "depth"]
    rates = [
        f"{texts.mean(curve.rate(scaling.chosen(curve)))}"
        f" {OPERATIONS[str(curve.levels['operation'])].many}/s"
        for curve in against_depth
    ]
    if not rates:
        return "No cell of nfsmulti is done."
    found = [scaling.knee(curve) for curve in against_depth]
    counts = sorted({scaling.chosen(curve) for curve in against_depth})
    at = f" with {' to '.join(map(str, (counts[0], counts[-1])[: len(counts)]))} in flight"
    words = f"{texts.several(rates)}{at}"
    ratios = [pair.ratio(measures.IOPS) for pair in pairs.values()]
    if times := [f"{ratio.value:.3g}" for ratio in ratios if ratio]:
        return f"{words}: {texts.several(times[:3])} times the kernel mount."
    if all(one.end is scaling.End.KNEE for one in found):
        return f"{words}; more gain nothing."
    if all(one.end is scaling.End.RISING for one in found):
        return f"{words}, still rising."
    return f"{words}."


def _name(curve: Curve, drawn: Sequence[Curve]) -> str:
    words = [str(curve.levels["operation"])]
    if len({one.levels["version"] for one in drawn}) > 1:
        words.append(f"v{curve.levels['version']}")
    return " ".join(words)


@dataclasses.dataclass(frozen=True)
class _Pair:
    """The engine at some depth on few connections, and the best of fio's own engine's jobs."""

    ours: list[Cell]
    theirs: list[Cell]
    depth: int
    nconnect: int

    def ratio(self, measure: Take) -> Ratio | None:
        """Return the engine's figure in times the peer's."""
        return cells.ratio(self.ours, self.theirs, measure)


_Pairs = dict[tuple[str, Level], _Pair]


def _beside_peer(summary: Summary, operation: str, version: Level) -> _Pair | None:
    """Return the engine's cells that are compared, and those of the peer's best jobs.

    Both have as few connections as were measured.
    """
    own = cells.having(summary, operation=operation, version=version, client=ENGINE)
    nconnect = min(cells.counts(own, "nconnect"), default=1)
    own = [cell for cell in own if cell.factors["nconnect"] == nconnect]
    of = {"operation": operation, "version": version, "client": OPERATIONS[operation].peer}
    every = cells.levels(cells.having(summary, **of), "jobs")
    peers = [cells.having(summary, **of, jobs=jobs) for jobs in every]
    depths = cells.counts(own, "depth")
    if not peers or not depths:
        return None
    depth = _DEPTH if _DEPTH in depths else depths[-1]
    best = max(peers, key=_mean)
    ours = [cell for cell in own if cell.factors["depth"] == depth]
    return _Pair(ours, best, depth, nconnect)


def _pairs(summary: Summary) -> _Pairs:
    """Return what was measured on a mount as well, by operation and version."""
    found = {
        (operation, version): _beside_peer(summary, operation, version)
        for version in cells.levels(summary.done, "version")
        for operation in OPERATIONS
    }
    return {of: pair for of, pair in found.items() if pair}


def _mean(found: Iterable[Cell]) -> float:
    rate = cells.sample(found, measures.IOPS)
    return rate.mean if rate else 0.0


def findings(summary: Summary) -> list[Finding]:
    """Hold the engine against what this project wants beside a mount; published rates are none."""
    if not summary.cells:  # nothing was published that a run could reproduce
        return []
    wanted = [
        _finding(summary, operation, version, measure, limit)
        for version in cells.levels(summary.cells, "version")
        for operation, measure, limit in _WANTED
        if operation in cells.levels(summary.cells, "operation")
    ]
    published = [
        Finding(what, theirs, _ours(summary, operation), _RATE)
        for what, theirs, operation in _PUBLISHED
    ]
    return wanted + published


def _finding(
    summary: Summary, operation: str, version: Level, measure: Take, limit: float
) -> Finding:
    pair = _beside_peer(summary, operation, version)
    ratio = pair.ratio(measure) if pair else None
    cpu = measure is not measures.IOPS
    peer = OPERATIONS[operation].peer
    planned = any(
        cell.factors["client"] == peer and cell.factors["version"] == version
        for cell in summary.cells
    )
    why = _NOT_BOTH if planned else _NO_MOUNT
    judged = as_wanted(beyond(ratio, limit, below=cpu)) if pair else untestable(why)
    at = f"depth {pair.depth if pair else _DEPTH}"
    if pair and pair.nconnect > 1:
        at += f", nconnect={pair.nconnect}"
    return Finding(
        f"{operation} at {at} beside fio's {peer} on a kernel mount,"
        f" NFSv{version}{': CPU per operation' if cpu else ''}",
        f"none; wanted: {'at most' if cpu else 'at least'} {limit:g} times",
        f"{ratio.text} times" if ratio else texts.MISSING,
        judged,
    )


def _fastest(summary: Summary, operation: str) -> Sample | None:
    groups = cells.by_name(cells.having(summary, operation=operation, client=ENGINE))
    return cells.sample(max(groups.values(), key=_mean, default=[]), measures.IOPS)


def _ours(summary: Summary, operation: str) -> str:
    """Name our operation: not each publication has measured that one."""
    return texts.mean(_fastest(summary, operation), f"{OPERATIONS[operation].many}/s")


def _depth_table(drawn: Sequence[Curve]) -> Table:
    """Lay out operations against depth, and what the most connections give at one of these."""
    over_depth = [curve for curve in drawn if curve.axis.name == "depth"]
    depths = sorted({depth for curve in over_depth for depth in curve.counts})
    if len(depths) > _MOST_DEPTHS:
        depths = [*depths[: _MOST_DEPTHS - 1], depths[-1]]
    wide = {_key(curve): curve for curve in drawn if curve.axis.name == "nconnect"}
    rows = []
    for curve in over_depth:
        row = [_name(curve, drawn), *(texts.measured(curve.rate(depth)) for depth in depths)]
        if wide:
            other = wide.get(_key(curve))
            row.append(
                texts.times(other.gain(other.counts[-1], other.counts[0])) if other else MISSING
            )
        rows.append(row)
    headings = ["op/s", *(f"{depth} in flight" for depth in depths)]
    if wide:
        last, first = (max(c.total(c.counts[at]) for c in wide.values()) for at in (-1, 0))
        headings.append(f"{last} connections, times {first}")
    return Table(headings, rows[:MOST_ROWS])


def _key(curve: Curve) -> tuple[Level, ...]:
    return curve.levels["limits"], curve.levels["operation"], curve.levels["version"]


def _peers_table(pairs: _Pairs) -> Table:
    rows = []
    for (operation, version), pair in pairs.items():
        peer = pair.theirs[0].factors
        rows.append([
            operation if len({key[1] for key in pairs}) == 1 else f"{operation} v{version}",
            *(texts.measured(cells.sample(of, measures.IOPS)) for of in (pair.ours, pair.theirs)),
            str(peer["jobs"]),
            *map(texts.times, map(pair.ratio, (measures.IOPS, measures.MACHINE_CPU))),
        ])  # fmt: skip
    headings = [
        "op/s", "nfsmulti", "kernel mount", "mount's jobs", "times the mount",
        "CPU/op, times the mount's",
    ]  # fmt: skip
    return Table(headings, rows[:MOST_ROWS])


def _p99_ms(cell: Cell) -> float | None:
    return measures.P99(cell)


def _plots(drawn: list[Curve]) -> list[Plot]:
    """Draw, of each version, operations per second on both axes, and CPU time against depth."""
    plots = []
    for version in dict.fromkeys(str(curve.levels["version"]) for curve in drawn):
        for axis, what, unit, measure in (
            ("depth", "Operations", _UNIT, measures.IOPS),
            ("nconnect", "Operations", _UNIT, measures.IOPS),
            ("depth", "CPU per operation", "µs of the whole machine", measures.MACHINE_CPU),
            ("depth", "Latency, p99", "latency p99, ms", _p99_ms),
        ):
            named = [
                (str(curve.levels["operation"]), curve)
                for curve in drawn
                if (curve.levels["version"], curve.axis.name) == (version, axis)
                and len(curve.counts) > 1
            ]
            if named:
                title = f"{what}, NFSv{version}"
                file = what.partition(",")[0].lower().replace(" ", "-")
                name = f"{file}-{axis}-v{version.replace('.', '')}"
                caption = f"{title}, against {named[0][1].axis.label}; {charts.REPEATS}."
                plots.append(Plot(name, caption, curves.draw(named, title, unit, measure)))
    return plots


_REPORT = Report(
    "metadata",
    __doc__,
    factors=_FACTORS,
    tell=tell,
    findings=findings,
)

STORY = Story(
    name="metadata",
    own_report=_REPORT,
    places=_PLACES,
    place="limits",
    factors={
        "limits": Factor(),
        "operation": Factor([*OPERATIONS], asked="workloads"),
        "version": Factor(),
        "client": Factor(),
        "jobs": Factor(),
        "depth": Factor([1, 8, 32, 128], quick=[1, 32, 128], asked="depths"),
        "nconnect": Factor([1, 2, 4, 8], quick=[1, 4], asked="nconnect"),
    },
    combinations=_combinations,
    job=_job,
    without_urls="metadata operations need URLs in the pool",
    left_out=_left_out,
    lengthens=False,
)
