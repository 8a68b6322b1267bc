# SPDX-License-Identifier: GPL-2.0-only
"""fsperf: one reader over four paths.

Published: SAP HANA's `fsperf -t read -m throughput -f 2g -b 64k`, one process that reads a 2 GiB
file in 64 KiB blocks asynchronously, from a NetApp FAS8060 to RHEL over 10 GbE; the volume is
mounted from four LIFs on one port, and each I/O goes to the next mount. NFSv3: 718 MB/s over one
mount, 1100 MB/s over four (1.53 times); NFSv4: 523 and 1094 MB/s (2.09 times).

The lab has the limits of the story, 9.4 Gbit/s for the link and 6.2 Gbit/s for a connection, or as
much of them as the machine can carry. An emulated processor is far from that: the guest has an
eightieth of them.

Factors: client (nfs3, nfs4.1, mount-v3, mount-v4.1), paths, spread (job, stripe, roundrobin).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from nfsmulti import texts
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.lab.guest import Mount
from nfsmulti.report import cells, charts, conditions, curves, measures
from nfsmulti.report.answer import Answer
from nfsmulti.report.curves import Axis, Curve, ends_table
from nfsmulti.report.story import RULE, Beside, Finding, Judged, Plot, Report, Section, Story, judge
from nfsmulti.scenario import (
    OWN,
    CellSpec,
    Client,
    GuestPlace,
    OwnPool,
    Place,
    Scale,
    Scenario,
    timed,
)
from nfsmulti.stats import Ratio
from nfsmulti.summary import Factor, Summary

# --- what runs ---

_PATHS = 4
_PROBE_SECONDS = 2.0
_BYTES, _GUEST_BYTES = 2 << 30, 64 << 20


def _mounts(version: str) -> tuple[Mount, ...]:
    """Return a mount in each of the guest's client namespaces (run/place.py)."""
    options = (f"vers={version}", "proto=tcp")
    return tuple(Mount(f"/mnt/v{version}-{number}", options) for number in range(1, _PATHS + 1))


_GUEST = GuestPlace(
    mounts={f"mount-v{version}": _mounts(version) for version in ("3", "4.1")},
    link="118mbit",
    per_mount="78mbit",
)
_LAB = LabConfig(
    addresses=_PATHS,
    limits=Limits(link="9400mbit", per_address="6200mbit", assured="1gbit", burst="2m"),
)
_PLACES: dict[str, Place] = {"lab": _LAB, "guest": _GUEST}


def _cells(scale: Scale) -> list[CellSpec]:
    clients = [("nfs3", "lab"), ("nfs4.1", "lab"), *((name, "guest") for name in _GUEST.mounts)]
    return [cell for client, place in clients for cell in _cells_of(client, place, scale, _PATHS)]


def _own_cells(scale: Scale, pool: OwnPool) -> tuple[list[CellSpec], list[str]]:
    found, said = [], []
    if pool.urls:
        found += _cells_of(f"nfs{pool.url_version}", OWN, scale, min(_PATHS, pool.urls))
    if pool.mounts:
        client = f"mount-v{pool.version}" if pool.version else "mount"
        found += _cells_of(client, OWN, scale, min(_PATHS, pool.mounts))
    else:
        said.append("mount-v3 and mount-v4.1 need kernel mounts: add their directories to the pool")
    if (most := max(pool.urls, pool.mounts)) < _PATHS:
        said.append(f"{most + 1} to {_PATHS} paths: the pool has {most}")
    return found, said


def _cells_of(client: str, place: str, scale: Scale, most: int) -> list[CellSpec]:
    several = [2, 4] if scale.quick else range(2, most + 1)
    counts = dict.fromkeys(min(count, most) for count in several) if most > 1 else ()
    ways = [(1, "job")]
    ways += [(paths, spread) for paths in counts for spread in ("stripe", "roundrobin")]
    return [_cell(client, place, scale, paths, spread) for paths, spread in ways]


def _cell(client: str, place: str, scale: Scale, paths: int, spread: str) -> CellSpec:
    seconds = scale.seconds(4, 20)
    mounted = not client.startswith("nfs")
    size = _GUEST_BYTES if place == "guest" or scale.cell_seconds else _BYTES
    options: dict[str, Factor | None] = {"spread": spread, "size": size, **timed(seconds)}
    kind: Client = "mounts" if mounted else "pool"
    return CellSpec(
        factors={"client": client, "paths": paths, "spread": spread},
        place=place,
        jobfile="fsperf.fio",
        options=options,
        seconds=seconds,
        client=kind,
        query="version=4.1" if (client, place) == ("nfs4.1", "lab") else "",
        mounts=client if mounted else "",
        paths=paths,
        files={"nfsmulti-fsperf": size},
    )


def _probes(scale: Scale) -> dict[str, CellSpec]:
    seconds = scale.cell_seconds or _PROBE_SECONDS
    cell = _cell("nfs3", "lab", scale, _PATHS, "roundrobin")
    return {
        "lab": dataclasses.replace(
            cell, options={**cell.options, **timed(seconds)}, seconds=seconds
        )
    }


# --- what it tells ---

_CLIENTS = {
    "nfs3": "nfsmulti, NFSv3",
    "nfs4.1": "nfsmulti, NFSv4.1",
    "mount-v3": "kernel mounts, NFSv3",
    "mount-v4.1": "kernel mounts, NFSv4.1",
}
_NO_GAIN = 1.02
_NFS3, _NFS4 = (718, 1100), (523, 1094)  # MB/s over one mount and over four


def _clients(summary: Summary) -> dict[str, str]:
    """Return all clients, published ones first, with what they are called."""
    measured = [str(client) for client in cells.levels(summary.done, "client")]
    return {**_CLIENTS, **{name: name for name in measured if name not in _CLIENTS}}


def _published(client: str) -> tuple[int, int]:
    return _NFS4 if "4." in client else _NFS3


def _published_ratio(client: str) -> float:
    one, many = _published(client)
    return many / one


def _most(summary: Summary, client: str) -> int:
    """Return the number of paths to hold against four: four, or the most there are."""
    counts = cells.counts(cells.having(summary, client=client), "paths")
    return _PATHS if _PATHS in counts or not counts else max(counts)


def _curve(summary: Summary, client: str, spread: str = "roundrobin") -> Curve:
    """Return a client's rate by the number of paths; over one every spread is the same."""
    found = [
        cell
        for cell in cells.having(summary, client=client)
        if cell.factors["spread"] == spread or cell.factors["paths"] == 1
    ]
    return Curve.along(Axis("paths"), found)


def _gain(summary: Summary, client: str) -> Ratio | None:
    """Return the rate over the most paths as a multiple of that over one."""
    most = _most(summary, client)
    return _curve(summary, client).gain(most, 1) if most > 1 else None


def beside(summary: Summary) -> list[Beside]:
    """Return the published table beside ours, the kernel's clients and nfsmulti."""
    rows = []
    for client, words in _clients(summary).items():
        (one, many), most = _published(client), _most(summary, client)
        curve = _curve(summary, client)
        rows.append(Beside(f"{words}, 1 path", f"{one} MB/s", curve.text(1)))
        there = curve.text(most) if most > 1 else texts.MISSING
        name = f"{words}, {most} paths by round robin"
        ratio = _published_ratio(client)
        rows.append(Beside(name, f"{many:,} MB/s", there, ratio, _gain(summary, client)))
    return rows


def tell(summary: Summary) -> Story:
    """Tell what several paths do for one reader here."""
    clients = [client for client in _clients(summary) if cells.having(summary, client=client)]
    sections = [Section("Plots", plots=[_scaling_plot(summary, client) for client in clients])]
    return Story(
        answer=_answer(summary, clients),
        sections=sections,
        reading=[
            "A ratio near the number of paths means that the connection was the limit; a rate near"
            " the link's, that the link is the limit now; a ratio near 1, that something else is:"
            " the server, its disks, or the client's processor.",
            "Jain's index is 1 where all paths carry the same, and 1/n where one carries all.",
            RULE,
        ],
    )


def _answer(summary: Summary, clients: Sequence[str]) -> Answer:
    """Tell what the most paths read in times one, of the first client that has both."""
    named = [(_clients(summary)[client], _curve(summary, client)) for client in clients]
    told = next((_told(summary, client) for client in clients if _gain(summary, client)), "")
    if not told:
        rate = texts.measured(named[0][1].rate(1))
        told = f"{rate} MB/s over one path; it and several were not both measured."
    links = {conditions.limits(summary, _place(client)).get("link") for client in clients}
    parts = [
        f"The {name} ran at {fit.part}: this machine carries no more."
        for name, fit in conditions.fits(summary).items()
        if fit.fraction < 1
    ]
    if len(links - {None}) > 1:
        parts.append("Mounts ran over a slower link in the guest: compare ratios, not MB/s.")
    return Answer(told, ends_table(named, "path"), parts)


def _told(summary: Summary, client: str) -> str:
    """Tell how many paths are enough: the fewest to which the most add less than 2 %."""
    curve, more = _curve(summary, client), ""
    _, *fewer, most = curve.counts
    enough = most
    for paths in reversed(fewer):
        ratio = curve.gain(most, paths)
        if ratio and ratio.above(_NO_GAIN) is False:
            enough, more = paths, "; more gain nothing"
    gain = curve.gain(enough, 1)
    assert gain
    full = conditions.full_link(summary, _place(client), curve.mean(enough))
    words = f"{curve.text(enough)} over {enough} paths, {gain.value:.2f} times 1 path"
    return f"{words} ({_clients(summary)[client]}){more}{full}."


def _place(client: str) -> str:
    return "lab" if client.startswith("nfs") else "guest"


def _judged(summary: Summary, client: str) -> Judged:
    allowed = conditions.allowed(summary, _place(client))
    most_here = None if allowed is None else min(allowed, _PATHS)
    return judge(_gain(summary, client), _published_ratio(client), most_here)


def findings(summary: Summary) -> list[Finding]:
    """Return the gain of several paths, for each client."""
    found = []
    for client, words in _clients(summary).items():
        most = _most(summary, client)
        gain = _gain(summary, client)
        what = f"{most} paths by round robin read more than one: {words}"
        ours = f"{gain.text} times" if gain else texts.MISSING
        theirs = f"{_published_ratio(client):.2f} times"
        found.append(Finding(what, theirs, ours, _judged(summary, client)))
    return found


def _scaling_plot(summary: Summary, client: str) -> Plot:
    name = _clients(summary)[client]
    named = [(spread, _curve(summary, client, spread)) for spread in ("roundrobin", "stripe")]
    figure = curves.draw(named, name, "MB/s", measures.MB_PER_S, doublings=False)
    caption = f"{name}: bandwidth against the number of paths; {charts.REPEATS}."
    return Plot(f"paths-{_file(client)}", caption, figure)


def _file(client: str) -> str:
    return client.replace(".", "-")


_REPORT = Report(
    "fsperf",
    __doc__,
    factors=("client", "paths", "spread"),
    beside=beside,
    tell=tell,
    findings=findings,
    names=_clients,
)

SCENARIO = Scenario(_PLACES, _cells, _own_cells, probes=_probes, report=_REPORT)
