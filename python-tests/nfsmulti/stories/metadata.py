# SPDX-License-Identifier: GPL-2.0-only
"""metadata: operations on entries, against depth and against connections, beside fio's own engines.

Nothing is reproduced: it asks how many creates, stats, lookups and removes per second a server
does, and what ends that. In the lab, on a pool, or (--mounts) in the kernel lab and on mounts of a
pool's URLs: there fio's filecreate, filestat and filedelete make one system call at a time in each
of 1 to 32 jobs. fio's set-up looks each file up before filestat begins: the kernel's cache is
emptied in between, so that filestat, like the engine, asks the server for each file.

Factors: limits (lab, guest, pool), operation, version, client (engine, filecreate, filestat,
filedelete), jobs, depth, nconnect.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from nfsmulti import texts
from nfsmulti.lab import LabConfig
from nfsmulti.report import cells, charts, conditions, scaling
from nfsmulti.report.scaling import Axis, Curve
from nfsmulti.report.story import (
    Beside,
    Finding,
    Plot,
    Report,
    Section,
    Story,
    as_wanted,
    beyond,
    untestable,
)
from nfsmulti.stats import Ratio, Sample
from nfsmulti.stories.connections import WHOSE_CPU, Choice, costs, draw, mount_options
from nfsmulti.stories.scenario import (
    OWN,
    CellSpec,
    Entries,
    GuestPlace,
    OwnPool,
    Place,
    Scale,
    Scenario,
    timed,
)
from nfsmulti.summary import Cell, Factor, Summary
from nfsmulti.texts import Table

# --- what runs ---


@dataclasses.dataclass(frozen=True)
class _Operation:
    """A job file, what it is given, and fio's engine that does the same, "" where there is none."""

    jobfile: str
    options: dict[str, Factor | None]
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
_DEPTH, _DEPTHS, _QUICK_DEPTHS = 32, (1, 8, 32, 128), (1, 32, 128)
_NCONNECT, _QUICK_NCONNECT = (1, 2, 4, 8), (1, 4)
_PEER_JOBS = (1, 4, 16, _DEPTH)  # in the end as many calls under way as the engine has
_USED_PER_S = 2000  # entries that are asked for: again and again by the engine, once by filestat
_PEER_FILES_PER_S = 5000  # of all jobs together: where a mount makes more, a cell ends early
_REMOVED_PER_S = 500  # the same of filedelete, whose files are laid out first
_FORGET = "echo 2 >/proc/sys/vm/drop_caches"  # names and attributes (admin-guide/sysctl/vm.rst)
_LAB, _GUEST = "lab", "guest"
_PLACES: dict[str, Place] = {_LAB: LabConfig(addresses=1), _GUEST: GuestPlace()}


def size_of(entries: int) -> dict[str, Factor | None]:
    """Give the size of a job on so many entries: 1 KiB stands for one, as in fio's logs."""
    return {"size": f"{entries}k"}


def scenario(choice: Choice) -> Scenario:
    """Give the scenario with these cells."""
    return Scenario(
        "metadata",
        _PLACES,
        functools.partial(_cells, choice),
        functools.partial(_own_cells, choice),
        report=_REPORT,
        lengthens=False,
    )


def _cells(choice: Choice, scale: Scale) -> list[CellSpec]:
    place, found = _GUEST if choice.mounts else _LAB, []
    for version in choice.versions or ("3",):
        found += _cells_of(choice, scale, place, version, f"version={version}")
    return found


def _own_cells(choice: Choice, scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    if not pool.urls:
        return [], ["metadata operations need URLs in the pool"]
    said = ["directories: the operations go to URLs alone"] if pool.mounts else []
    paths = 1 if choice.mounts else pool.urls
    if paths < pool.urls:
        said.append("URLs after the first: a mount has one, and is compared with the same")
    found = []
    for version in choice.versions or ("",):
        known = version or pool.url_version or "mixed"
        query = f"version={version}" if version else ""
        found += _cells_of(choice, scale, OWN, known, query, paths)
    return found, said


def _cells_of(
    choice: Choice, scale: Scale, place: str, version: str, query: str, paths: int = 1
) -> list[CellSpec]:
    """Give the cells of one version: of the engine, and of fio's own engines on a mount."""
    depths = choice.depths or (_QUICK_DEPTHS if scale.quick else _DEPTHS)
    nconnect = choice.nconnect or (_QUICK_NCONNECT if scale.quick else _NCONNECT)
    depth = _DEPTH if _DEPTH in depths else max(depths)
    levels = [(one, nconnect[0]) for one in depths]
    levels += [(depth, number) for number in nconnect[1:]]
    found = []
    for operation in choice.workloads or OPERATIONS:
        for each, number in levels:
            cell = _cell(scale, (place, operation, version, ENGINE, 1, each, number))
            found.append(dataclasses.replace(cell, query=query, paths=paths))
        if choice.mounts and (peer := OPERATIONS[operation].peer):
            for jobs in _PEER_JOBS:
                peers = (place, operation, version, peer, jobs, 1, min(nconnect))
                found.append(_peer(_cell(scale, peers)))
    return found


def _cell(scale: Scale, levels: tuple[str, str, str, str, int, int, int]) -> CellSpec:
    """Give a cell at the levels of all factors; of fio's own engine it is what _peer() makes."""
    place, operation, _, _, _, depth, nconnect = levels
    what, seconds = OPERATIONS[operation], scale.seconds(1, 10)
    options: dict[str, Factor | None] = {
        "metadata": 1, **what.options, "bs": "1k", "tree_depth": 0, "iodepth": depth,
        "nconnect": nconnect, "spread": "roundrobin",
    }  # fmt: skip
    if what.entries == "makes":
        options |= {"runtime": timed(seconds)["runtime"], **size_of(MOST)}
    elif what.entries == "uses":
        options |= {**timed(seconds), **size_of(round(_USED_PER_S * seconds))}
    return CellSpec(
        factors=dict(zip(_FACTORS, levels, strict=True)),
        place=place,
        jobfile=what.jobfile,
        options=options,
        seconds=seconds,
        entries=what.entries,
    )


def _peer(cell: CellSpec) -> CellSpec:
    """Make of the engine's cell that of fio's own engine, each of whose jobs has one call."""
    jobs, nconnect = (int(cell.factors[name]) for name in ("jobs", "nconnect"))
    each = _PEER_FILES_PER_S if cell.entries == "makes" else _REMOVED_PER_S
    files = round((_USED_PER_S if cell.entries == "uses" else each) * cell.seconds)
    timed_job = ("norandommap", "size", "time_based", "runtime")
    gone: dict[str, Factor | None] = dict.fromkeys([*cell.options, *timed_job])
    options: dict[str, Factor | None] = {
        **gone, "ioengine": cell.factors["client"], "numjobs": jobs, "bs": "1k", "filesize": "1k",
        "rw": "read" if cell.entries == "uses" else "write", "nrfiles": max(1, files // jobs),
        "openfiles": 1, "fallocate": "none",
    }  # fmt: skip
    if cell.entries == "makes":
        options["runtime"] = cell.options["runtime"]
    mounting = mount_options("tcp", str(cell.factors["version"]), nconnect)
    return dataclasses.replace(
        cell,
        client="mount",
        options=options,
        mount_options=mounting.removesuffix(",nconnect=1"),  # which older kernels do not know
        prerun=_FORGET if cell.entries == "uses" else "",
    )


# --- what it tells ---

_FACTORS = ("limits", "operation", "version", "client", "jobs", "depth", "nconnect")
_LIMITS = {_LAB: "In the lab", _GUEST: "In the kernel lab", OWN: "On this pool"}
_UNIT = "operations/s"
_AXES = {name: Axis(name, cells.iops, _UNIT, 1.0) for name in ("depth", "nconnect")}
# What this project wants beside fio's engines on a mount: times their operations, and their CPU.
_WANTED = (
    ("create", cells.iops, 2.0),
    ("lookup", cells.iops, 3.0),
    ("lookup", cells.machine_cpu_us, 0.5),
)
_NO_MOUNT = "no kernel mount: --mounts makes one"
_NOT_BOTH = "no cell of the engine, or none on the kernel mount, is done"
_PUBLISHED = (
    ("mkdir on nfs-ganesha (its issue 1220)", "16,000 to 17,000 mkdirs/s", "create"),
    ("creates of a user-space server on loopback", "15,600 operations/s", "create"),
)
_RATE = untestable(
    "a rate was published and no ratio: it takes the same hardware, client and server"
)


def tell(summary: Summary) -> Story:
    """Tell for each operation where it stops growing, and what fio's own engines do on a mount."""
    curves = _curves(summary)
    sections = [Section("Where it stops growing", tables=[_ends(curves)], plots=_plots(curves))]
    if peers := _peers_table(summary):
        title = "Beside fio's own engines on a kernel mount"
        sections.append(Section(title, [_PEERS], [peers]))
    sections.append(Section("Every cell", tables=[_table(summary)]))
    return Story(
        answer=_answer(summary, curves),
        sections=sections,
        reading=[
            f"{scaling.RULE} The same holds of depths.",
            "Depth is how many operations a job has under way, over all its connections. Each cell"
            " makes its entries, all in one directory, and removes them afterwards; neither counts."
            " Creates and removes go on for as long as other cells do, on as many entries as there"
            f" is time for; getattr and lookup take entries at random, {_USED_PER_S:,} for each"
            " second of a cell. A GETATTR goes by the entry's handle, which a LOOKUP before the"
            " first one finds; both are one operation.",
            WHOSE_CPU,
            *conditions.differences(summary, "In the lab, the server is on the same machine."),
        ],
    )


_PEERS = (
    "Each of fio's jobs makes one system call after the other; the number of jobs that is fastest"
    " counts. The mount has the kernel's default caches, and as many connections as the engine."
    " fio's set-up looks each file up before filestat begins; the kernel's cache of names and"
    " attributes is emptied in between (drop_caches), so that the first stat of a file asks the"
    " server, by one LOOKUP, as the engine does."
)


def _curves(summary: Summary) -> list[Curve]:
    """Give the curves against depth and against nconnect of each place, operation and version."""
    groups: dict[tuple[Factor, ...], list[Cell]] = {}
    for cell in cells.having(summary, client=ENGINE):
        key = tuple(cell.factors[name] for name in ("limits", "operation", "version"))
        groups.setdefault(key, []).append(cell)
    order = list(OPERATIONS)
    found = []
    for key in sorted(groups, key=lambda key: (order.index(str(key[1])), str(key[2]))):
        levels = dict(zip(("limits", "operation", "version"), key, strict=True))
        for rising, other in (("depth", "nconnect"), ("nconnect", "depth")):
            curve = _longest(groups[key], levels, rising, other)
            if len(curve.counts) > 1 or rising == "depth":
                found.append(curve)
    return found


def _longest(group: Sequence[Cell], levels: dict[str, Factor], rising: str, other: str) -> Curve:
    """Give the curve with the most counts: all other levels were measured at one of these alone."""
    curves = []
    for level in cells.levels(group, other):
        here = [cell for cell in group if cell.factors[other] == level]
        counts = cells.by_count(here, rising)
        curves.append(Curve({**levels, other: level}, counts, axis=_AXES[rising]))
    return max(curves, key=lambda curve: len(curve.counts))


def _answer(summary: Summary, curves: list[Curve]) -> list[str]:
    """Give a sentence for each operation and version, with what a mount does beside it."""
    answer = []
    for curve in curves:
        what = OPERATIONS[str(curve.levels["operation"])].many
        where = f"{_LIMITS[str(curve.levels['limits'])]}, NFSv{curve.levels['version']}, {what}"
        answer.append(f"{where} at {_other(curve)}{_stop(curve)}")
    answer += [pair.sentence(*of) for of, pair in _pairs(summary).items()]
    if not curves:
        answer.append("No cell of the engine is done.")
    if failed := [cell for cell in summary.cells if cell.status == "failed"]:
        answer.append(f"{len(failed)} cells failed, and are missing from the curves: see below.")
    return answer


def _stop(curve: Curve) -> str:
    """Say where a curve stops growing; where that is not told, what it has reached."""
    found, at = scaling.knee(curve), scaling.chosen(curve)
    reached = f"{texts.mean(curve.rate(at), _UNIT)} at {curve.words(at)}"
    if found.end is scaling.End.SINGLE:
        return f": {reached}, which alone was measured."
    knee = found.end is scaling.End.KNEE
    stop = f" stop growing at {curve.words(at)}" if knee else f", {reached}"
    return f"{stop}: {scaling.verdict(curve)}"


def _other(curve: Curve) -> str:
    """Name what does not rise: "nconnect=1", "depth 32"."""
    name = "depth" if curve.axis.name == "nconnect" else "nconnect"
    return Axis(name).level(int(curve.levels[name]))


def _name(curve: Curve, curves: Sequence[Curve]) -> str:
    words = [str(curve.levels["operation"])]
    if len({one.levels["version"] for one in curves}) > 1:
        words.append(f"v{curve.levels['version']}")
    return " ".join(words)


@dataclasses.dataclass(frozen=True)
class _Pair:
    """The engine at some depth on few connections, and the best of fio's own engine's jobs."""

    ours: list[Cell]
    theirs: list[Cell]
    depth: int
    nconnect: int

    def ratio(self, measure: cells.Measure) -> Ratio | None:
        """Give the engine's figure in times the peer's."""
        return cells.ratio(self.ours, self.theirs, measure)

    def sentence(self, operation: str, version: Factor) -> str:
        """Say what the engine does in times the peer, and at which cost."""
        peer = self.theirs[0].factors
        rate, cpu = self.ratio(cells.iops), self.ratio(cells.machine_cpu_us)
        at = "one connection" if self.nconnect == 1 else f"{self.nconnect} connections"
        jobs = f"{peer['jobs']} job{'' if peer['jobs'] == 1 else 's'}"
        words = f"NFSv{version}, {operation} at depth {self.depth} on {at}: "
        if rate is None:
            return f"{words}no repeat has both that and fio's {peer['client']} with {jobs}."
        cost = (
            f", at {cpu.text} times its CPU per operation{texts.inconclusive(cpu)}" if cpu else ""
        )
        return (
            f"{words}{rate.text} times{texts.inconclusive(rate)} what fio's {peer['client']} does"
            f" on a kernel mount, at its best with {jobs}{cost}."
        )


def _beside_peer(summary: Summary, operation: str, version: Factor) -> _Pair | None:
    """Give the engine's cells that are compared, and those of the peer's best jobs.

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


def _pairs(summary: Summary) -> dict[tuple[str, Factor], _Pair]:
    """Give what was measured on a mount as well, by operation and version."""
    found = {
        (operation, version): _beside_peer(summary, operation, version)
        for version in cells.levels(summary.done, "version")
        for operation in OPERATIONS
    }
    return {of: pair for of, pair in found.items() if pair}


def _mean(found: Iterable[Cell]) -> float:
    rate = cells.sample(found, cells.iops)
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
    summary: Summary, operation: str, version: Factor, measure: cells.Measure, limit: float
) -> Finding:
    pair = _beside_peer(summary, operation, version)
    ratio = pair.ratio(measure) if pair else None
    cpu = measure is not cells.iops
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


def beside(summary: Summary) -> list[Beside]:
    """Give the published rates beside the fastest cell of ours."""
    return [
        Beside(what, theirs, _ours(summary, operation), _fastest(summary, operation))
        for what, theirs, operation in _PUBLISHED
    ]


def _fastest(summary: Summary, operation: str) -> Sample | None:
    groups = cells.by_name(cells.having(summary, operation=operation, client=ENGINE))
    return cells.sample(max(groups.values(), key=_mean, default=[]), cells.iops)


def _ours(summary: Summary, operation: str) -> str:
    """Name our operation: not each publication has measured that one."""
    return texts.mean(_fastest(summary, operation), f"{OPERATIONS[operation].many}/s")


def _ends(curves: list[Curve]) -> Table:
    rows = []
    for curve in curves:
        found, at = scaling.knee(curve), scaling.chosen(curve)
        gain = curve.gain(at, curve.counts[0]) if at != curve.counts[0] else None
        ends = "rising to the last" if found.end is scaling.End.RISING else str(found.end.value)
        rows.append([
            _name(curve, curves), curve.axis.name, _other(curve), ends,
            str(at), texts.mean(curve.rate(at)), texts.ratio(gain), scaling.limit(curve, at),
        ])  # fmt: skip
    headings = ["operation", "against", "at", "ends", "there at", _UNIT, "times the first",
                "limit there"]  # fmt: skip
    return Table(headings, rows, text_columns=4, ending_text_columns=1)


def _peers_table(summary: Summary) -> Table | None:
    rows = []
    for (operation, version), pair in _pairs(summary).items():
        peer = pair.theirs[0].factors
        rows.append([
            f"{operation} v{version}", f"{peer['client']}, numjobs={peer['jobs']}",
            *(texts.mean(cells.sample(side, cells.iops)) for side in (pair.ours, pair.theirs)),
            *map(texts.ratio, map(pair.ratio, (cells.iops, cells.machine_cpu_us))),
        ])  # fmt: skip
    headings = ["operation", "beside", f"engine, {_UNIT}", "beside it", "times", "times its CPU"]
    return Table(headings, rows, text_columns=2) if rows else None


def _table(summary: Summary) -> Table:
    rows = []
    for found in cells.by_name(summary.done).values():
        factors = found[0].factors
        rows.append([
            *(str(factors[name]) for name in _FACTORS[1:]),
            *cells.columns(cells.sample(found, cells.iops)), *costs(found),
        ])  # fmt: skip
    order = list(OPERATIONS)
    rows.sort(key=lambda row: (order.index(row[0]), row[1], row[2] != ENGINE, row[2],
                               *map(int, row[3:6])))  # fmt: skip
    headings = [*_FACTORS[1:], _UNIT, "CV %", "n", "clat p50, µs", "p99, µs",
                "CPU per operation, µs", "of fio's jobs, µs"]  # fmt: skip
    return Table(headings, rows, text_columns=3)


def _plots(curves: list[Curve]) -> list[Plot]:
    """Draw, of each version, operations per second on both axes, and CPU time against depth."""
    plots = []
    for version in dict.fromkeys(str(curve.levels["version"]) for curve in curves):
        for axis, what, unit, measure in (
            ("depth", "Operations", _UNIT, cells.iops),
            ("nconnect", "Operations", _UNIT, cells.iops),
            ("depth", "CPU per operation", "µs of the whole machine", cells.machine_cpu_us),
            ("depth", "Latency, p99", "clat p99, µs", cells.p99_us),
        ):
            those = [
                curve
                for curve in curves
                if (curve.levels["version"], curve.axis.name) == (version, axis)
                and len(curve.counts) > 1
            ]
            if those:
                title = f"{what}, NFSv{version}"
                names = [str(curve.levels["operation"]) for curve in those]
                file = what.partition(",")[0].lower().replace(" ", "-")
                name = f"{file}-{axis}-v{version.replace('.', '')}"
                caption = f"{title}, against {axis}; {charts.REPEATS}."
                plots.append(Plot(name, caption, draw(those, names, title, unit, measure)))
    return plots


_REPORT = Report(
    title="metadata: operations per second, and where they stop growing",
    publication=(
        "Published, and beside ours for orientation alone: 16,000 to 17,000 mkdirs/s on nfs-ganesha"
        " (its issue 1220), and 15,600 creates/s of a user-space server on loopback, each on"
        " hardware of its own. No publication is reproduced: the run asks what this server does."
    ),
    factors=_FACTORS,
    beside=beside,
    tell=tell,
    findings=findings,
)

METADATA = scenario(Choice())
