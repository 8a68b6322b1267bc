# SPDX-License-Identifier: GPL-2.0-only
"""clients: how many NFS clients a server serves, and how evenly.

Nothing was published with it. One machine acts as many NFS clients. Each keeps one read of 4 KiB
under way, or reads by a clock. Their neighbours are the busy connections of one more client, which
writes.
"""

from nfsmulti import texts
from nfsmulti.lab import LabConfig
from nfsmulti.report import cells, loads, recovery
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec
from nfsmulti.story import At, Column, Factor, Grid, Levels, Lines, Options, Story

JOB, NEIGHBOURS = "clients", "neighbours"  # of the job file
NEW = 5  # clients that come after a restart
# More connections than these to a --pool need the user's consent.
MOST_UNASKED = 256
_DOUBTFUL = 0.1  # if this machine adds more than this part of the mean, a caveat says so
_WAITING = 4  # I/Os that each client may have under way if a clock sends them (--rate)
_LAB, _GRACE = "lab", "lab-grace"
_TAKE_MORE = "let it take more connections (nfs-ganesha: RPC_Max_Connections; nfsd: threads)"


def _levels(at: At) -> list[int]:
    counts = [1, 10, 100] if at.scale.quick or at.own else [1, 10, 100, 1000]
    return counts[1:] if at.scale.choice.restart else counts


def _combinations(at: At) -> list[Levels]:
    """Return all on a pool, and in one lab: that with a short grace period if it is restarted."""
    place = _GRACE if at.scale.choice.restart else _LAB
    return at.every() if at.own or at.place == place else []


_PERCENTILES = ("lat_percentiles", "clat_percentiles", "slat_percentiles")


def _own(at: At) -> dict[str, Options]:
    """Return the options of the clients' job alone, and of their neighbours' job alone."""
    found: dict[str, Options] = {}
    if at.rate:
        found[JOB] = {"arrival_rate": at.rate * at.clients, **dict.fromkeys(_PERCENTILES, 1)}
    if at.neighbours:
        found[NEIGHBOURS] = {
            "nclients": 0, "client_depth": 0, "rx_timestamps": 0, "nconnect": at.neighbours,
            "iodepth": 4 * at.neighbours,
            "hold_writes": "64m" if at.scale.choice.restart else None,  # or a restart ends the job
        }  # fmt: skip
    return found


def job(at: At) -> CellSpec:
    """Return a cell: the clients' random reads, and their neighbours' writes if there are any."""
    choice, size = at.scale.choice, at.size(16 << 20, 128 << 20, 1 << 30)
    jobs, depth = [JOB, NEIGHBOURS][: 2 if at.neighbours else 1], _WAITING if at.rate else 1
    return at.cell(
        "clients.fio",
        {"nclients": at.clients, "iodepth": depth * at.clients, "client_depth": depth,
         "spread": "roundrobin", "size": size, "rx_timestamps": 1},
        at.seconds(15, 30) if choice.restart else at.seconds(5, 15),
        jobs=jobs,
        own=_own(at),
        query=at.query,
        paths=min(at.clients, at.pool.urls),
        files={f"nfsmulti-{one}": size for one in jobs},
        restart=choice.restart,
        partial=choice.partial,
        warm_up=not choice.partial,
        absent=int(-(-at.clients * choice.absent // 100)),  # rounded up
    )  # fmt: skip


def _served(run: Run, at: Levels) -> str:
    """Say how many clients are served, or back after a restart: "1,023 of 2,000 clients".

    Where repeats differ, the fewest and the most are told: "123 to 1,000 of 1,000 clients".
    """
    if recovery.found(run, at):
        return recovery.back(run, at)
    found = run.sample("clients served", at)
    there = texts.ends(found.values, "{:,.0f}".format) if found else "an unknown number"
    return recovery.part(there, _asked(run, at))


def _asked(run: Run, at: Levels) -> int:
    return max(map(recovery.asked, run.at(at)))


def rows(run: Run) -> dict[str, Levels]:
    """Return the levels of each row, by its name, which says how many clients are served."""
    others = [name for name in run.story.factors if name != "clients"]
    varied = [name for name in others if len(run.levels(name)) > 1]
    found: dict[str, Levels] = {}
    for at in run.combinations(*others, "clients"):
        words = run.words({name: at[name] for name in varied})
        found[f"{words}, {_served(run, at)}".removeprefix(", ")] = at
    return found


def headline(run: Run) -> str:
    """Answer for the most clients, at the first level of each other factor."""
    first = run.combinations(*(name for name in run.story.factors if name != "clients"))[0]
    at = {**first, "clients": max(run.counts("clients", first))}
    if recovery.found(run, at):
        return recovery.headline(run, at)
    like = {name: level for name, level in at.items() if name != "neighbours"}
    if beside := max(run.counts("neighbours", like), default=0):
        return _beside(run, at, {**at, "neighbours": beside})
    if why := [cell.clients.why for cell in run.at(at) if cell.clients and cell.clients.why]:
        what = "resets the others" if "reset by peer" in why[0] else "does not serve the others"
        return f"{_are_served(run, at)}; the server {what}: {_TAKE_MORE}."
    slowest = run.sample("slowest client %", at)
    part = f"; the slowest does {slowest.mean:.0f} % of the mean" if slowest else ""
    rates = _late(run, at) or f": {run.text('IOPS', at)}, p99 {run.text('p99 ms', at)}"
    said = f"{_are_served(run, at)}{rates}{part}."
    return said[0].upper() + said[1:]


def _are_served(run: Run, at: Levels) -> str:
    return f"{_served(run, at)} {'is' if _asked(run, at) == 1 else 'are'} served"


def _late(run: Run, at: Levels) -> str:
    """Say how many I/Os were done if a repeat did not hold the rate; "" if all did."""
    if all(cell.arrivals is None or cell.arrivals.sustained for cell in run.at(at)):
        return ""
    return f", but not at the rate of {at['rate']:,} IOPS each: {run.text('IOPS', at)}"


_COLUMNS = [
    *(Column(name, name) for name in ("IOPS", "p50 ms", "p99 ms")),
    Column("slowest, % of the mean", "slowest client %"),
    Column("Jain's index", "clients' Jain"),
]
_LINES = Lines("clients", ["version", "neighbours", "rate"], ["IOPS", "p99 ms", "slowest client %"])


def _beside(run: Run, alone: Levels, beside: Levels) -> str:
    """Say how long clients wait beside busy connections."""
    if late := _late(run, alone):
        return f"Even without busy connections {_are_served(run, alone)}{late}."
    begin = f"Beside {beside['neighbours']} busy connections "
    if late := _late(run, beside):
        return f"{begin}{_are_served(run, beside)}{late}."
    found = run.ratio("p50 ms", beside, alone)
    waits = f"p50 {run.text('p50 ms', beside)}, {run.text('p50 ms', alone)} alone"
    longer = f"{texts.times_in_words(found)} as long" if found else "too little to tell"
    wait = "waits" if _asked(run, beside) == 1 else "wait"
    return f"{begin}{_served(run, beside)} {wait} {longer} ({waits})."


def caveats(run: Run) -> list[str]:
    """Warn if a rate was not sustained, and if clients also wait for this machine."""
    added, _ = cells.whose(run.at({"clients": max(run.counts("clients"))}))
    said = f"The latency is not the server's alone: this machine adds {100 * added:.0f} % of it."
    return [*loads.fell_behind(run.summary.done), *[said] * (added > _DOUBTFUL)]


STORY = Story(
    names={"neighbours": "{} busy neighbours", "rate": "{} IOPS each"},
    figures=lambda _: {
        "IOPS": lambda cell: cell.read.iops if cell.read else None,  # neighbours only write
        "p50 ms": loads.wait(50, "clients'"),
        "p99 ms": loads.wait(99, "clients'"),
    },
    headline=headline,
    caveats=caveats,
    table=lambda run: Grid(rows, recovery.columns(run) or _COLUMNS),
    plots=lambda run: [] if recovery.columns(run) else [_LINES],
    more=lambda run: recovery.sections(run, rows(run)),
    reading=[
        "A client is served if it has done I/O. Jain's index is 1 if all clients did the same;"
        " among many clients it hides a slow one, which the slowest client's figure shows.",
        *recovery.READING,
        "With several NFS versions, the answer is about the first, at its most clients.",
    ],
    places={_LAB: LabConfig(addresses=1), _GRACE: LabConfig(addresses=1, lease=15)},
    factors={
        "version": Factor(),
        "neighbours": Factor(asked="neighbour", always=[0]),
        "rate": Factor([0], asked="rate"),
        "clients": Factor(_levels, asked="clients"),
    },
    combinations=_combinations,
    job=job,
    urls_alone="a mount is one client, the kernel's",
)
