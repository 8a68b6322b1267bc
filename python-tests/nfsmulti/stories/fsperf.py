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

import itertools
from collections.abc import Iterator, Mapping, Sequence

from nfsmulti import texts
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.lab.guest import Mount
from nfsmulti.report import cells, charts, conditions, curves, measures
from nfsmulti.report.answer import Answer
from nfsmulti.report.curves import Axis, Curve, ends_table
from nfsmulti.report.story import RULE, Beside, Finding, Judged, Plot, Report, Section, Told, judge
from nfsmulti.scenario import (
    CellSpec,
    GuestPlace,
    OwnPool,
    Place,
    Scale,
    timed,
)
from nfsmulti.stats import Ratio
from nfsmulti.story import At, Factor, Story
from nfsmulti.summary import Factor as Level
from nfsmulti.summary import Summary

# --- what runs ---

_PATHS = 4


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


def _clients_of(at: At) -> list[str]:
    pool = at.pool
    if not at.own:
        return ["nfs3", "nfs4.1"] if at.place == "lab" else [*_GUEST.mounts]
    mounted = f"mount-v{pool.version}" if pool.version else "mount"
    return [f"nfs{pool.url_version}"] * bool(pool.urls) + [mounted] * bool(pool.mounts)


def _combinations(factors: Mapping[str, Factor], where: At) -> Iterator[dict[str, Level]]:
    """Yield one path, and several in each way to spread over them."""
    for client in factors["client"].at(where):
        here = where.pool.urls if str(client).startswith("nfs") else where.pool.mounts
        most = min(_PATHS, here) if where.own else _PATHS
        yield {"client": client, "paths": 1, "spread": "job"}
        several = [2, 4] if where.scale.quick else range(2, most + 1)
        counts = dict.fromkeys(min(count, most) for count in several) if most > 1 else ()
        for paths, spread in itertools.product(counts, ["stripe", "roundrobin"]):
            yield {"client": client, "paths": paths, "spread": spread}


def _left_out(_: Scale, pool: OwnPool) -> list[str]:
    most = max(pool.urls, pool.mounts)
    return ["mount-v3 and mount-v4.1 need kernel mounts: add their directories to the pool"] * (
        not pool.mounts
    ) + [f"{most + 1} to {_PATHS} paths: the pool has {most}"] * (most < _PATHS)


def _job(at: At) -> CellSpec:
    seconds, mounted = at.seconds(4, 20), not at.client.startswith("nfs")
    size = 64 << 20 if at.place == "guest" or at.scale.cell_seconds else 2 << 30
    return CellSpec(
        {}, "", "fsperf.fio",
        {"spread": at.spread, "size": size, **timed(seconds)},
        seconds,
        client="mounts" if mounted else "pool",
        query="version=4.1" if (at.client, at.place) == ("nfs4.1", "lab") else "",
        mounts=at.client if mounted else "",
        paths=at.paths,
        files={"nfsmulti-fsperf": size},
    )  # fmt: skip


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


def tell(summary: Summary) -> Told:
    """Tell what several paths do for one reader here."""
    clients = [client for client in _clients(summary) if cells.having(summary, client=client)]
    sections = [Section("Plots", plots=[_scaling_plot(summary, client) for client in clients])]
    return Told(
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

STORY = Story(
    report=_REPORT,
    places=_PLACES,
    factors={"client": Factor(_clients_of), "paths": Factor(), "spread": Factor()},
    combinations=_combinations,
    job=_job,
    probe=("lab", {"client": "nfs3", "paths": _PATHS, "spread": "roundrobin"}),
    left_out=_left_out,
)
