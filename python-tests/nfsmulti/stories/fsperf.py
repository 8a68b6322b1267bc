# SPDX-License-Identifier: GPL-2.0-only
"""fsperf: one reader over four paths.

Published: SAP HANA's `fsperf -t read -m throughput -f 2g -b 64k`, one process that reads a 2 GiB
file in 64 KiB blocks asynchronously, from a NetApp FAS8060 to RHEL over 10 GbE; the volume is
mounted from four LIFs on one port, and each I/O goes to the next mount. NFSv3: 718 MB/s over one
mount, 1,100 MB/s over four (1.53 times); NFSv4: 523 and 1,094 MB/s (2.09 times).

The lab has a tenth of the story's limits, 9.4 Gbit/s for the link and 6.2 Gbit/s for a connection,
which any machine carries. An emulated processor is far from that: the guest has an eightieth.
"""

from collections.abc import Iterator

from nfsmulti.lab import LabConfig, Limits
from nfsmulti.lab.guest import Mount
from nfsmulti.report import conditions
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec, GuestPlace
from nfsmulti.story import At, Beside, Claim, Ends, Factor, Levels, Lines, Story

PATHS = 4
CLIENTS = {
    "nfs3": "nfsmulti, NFSv3",
    "nfs4.1": "nfsmulti, NFSv4.1",
    "mount-v3": "kernel mounts, NFSv3",
    "mount-v4.1": "kernel mounts, NFSv4.1",
}
NO_GAIN = 1.02  # times: more paths that give less are not needed


def _mounts(version: str) -> tuple[Mount, ...]:
    """Return a mount in each of the guest's client namespaces (run/place.py)."""
    options = (f"vers={version}", "proto=tcp")
    return tuple(Mount(f"/mnt/v{version}-{number}", options) for number in range(1, PATHS + 1))


GUEST = GuestPlace(
    mounts={f"mount-v{version}": _mounts(version) for version in ("3", "4.1")},
    link="118mbit",
    per_mount="78mbit",
)
LAB = LabConfig(
    addresses=PATHS,
    limits=Limits(link="940mbit", per_address="620mbit", assured="100mbit", burst="2m"),
)


def _clients(at: At) -> list[str]:
    pool = at.pool
    if not at.own:
        return ["nfs3", "nfs4.1"] if at.place == "lab" else [*GUEST.mounts]
    mounted = f"mount-v{pool.version}" if pool.version else "mount"
    return [f"nfs{pool.url_version}"] * bool(pool.urls) + [mounted] * bool(pool.mounts)


def _combinations(at: At) -> list[Levels]:
    """Return one path, and several in each way to spread over them."""
    found: list[Levels] = []
    for client in at.all("client"):
        here = at.pool.urls if str(client).startswith("nfs") else at.pool.mounts
        most = min(PATHS, here) if at.own else PATHS
        found.append({"client": client, "paths": 1, "spread": "job"})
        several = [2, 4] if at.scale.quick else range(2, most + 1)
        counts = dict.fromkeys(min(count, most) for count in several if most > 1)
        found += [{"client": client, "paths": paths, "spread": spread}
                  for paths in counts for spread in ("stripe", "roundrobin")]  # fmt: skip
    return found


def _left_out(at: At) -> list[str]:
    most = max(at.pool.urls, at.pool.mounts)
    mounts = "mount-v3 and mount-v4.1 need kernel mounts: add their directories to the pool"
    few = f"{most + 1} to {PATHS} paths: the pool has {most}"
    return [mounts] * (not at.pool.mounts) + [few] * (most < PATHS)


def job(at: At) -> CellSpec:
    """Return one reader, over `at.paths` paths."""
    mounted = not at.client.startswith("nfs")
    size = 64 << 20 if at.place == "guest" or at.scale.cell_seconds else 2 << 30
    return at.cell(
        "fsperf.fio",
        {"spread": at.spread, "size": size},
        at.seconds(4, 20),
        client="mounts" if mounted else "pool",
        query="version=4.1" if (at.client, at.place) == ("nfs4.1", "lab") else "",
        mounts=at.client if mounted else "",
        paths=at.paths,
        files={"nfsmulti-fsperf": size},
    )


def _at(client: str, paths: int) -> Levels:
    return {"client": client, "spread": "roundrobin", "paths": paths}


def _published(run: Run) -> Iterator[tuple[str, str, Levels | None, tuple[int, int]]]:
    """Yield each client; its paths, in words and where they are, if it has several; and two rates.

    These were published of its version, in MB/s: over one path, and over four. Its paths are those
    to hold against four: four, or the most there are.
    """
    for client in dict.fromkeys([*CLIENTS, *map(str, run.levels("client"))]):
        counts = run.counts("paths", {"client": client})
        most = PATHS if PATHS in counts or not counts else max(counts)
        theirs = (523, 1094) if "4." in client else (718, 1100)
        paths = f"{most if most > 1 else 'several'} paths by round robin"
        yield client, paths, _at(client, most) if most > 1 else None, theirs


def beside(run: Run) -> list[Beside]:
    """Return the published table."""
    found = []
    for client, paths, several, (slow, fast) in _published(run):
        words, one = run.words({"client": client}), _at(client, 1)
        ratio, of = fast / slow, several and one
        found.append(Beside(f"{words}, 1 path", f"{slow} MB/s", one))
        found.append(Beside(f"{words}, {paths}", f"{fast:,} MB/s", several, ratio, of))
    return found


def claims(run: Run) -> list[Claim]:
    """Return the gain of several paths, for each client."""
    return [
        Claim(f"{paths} read more than one: {run.words({'client': client})}",
              f"{fast / slow:.2f} times", several, _at(client, 1), gain=fast / slow,
              place=_place(client), most=PATHS)
        for client, paths, several, (slow, fast) in _published(run)
    ]  # fmt: skip


def _place(client: str) -> str:
    return "lab" if client.startswith("nfs") else "guest"


def headline(run: Run) -> str:
    """Tell how many paths are enough: the fewest to which the most add less than 2 %."""
    for client in map(str, run.levels("client")):
        curve = run.curve("paths", {"client": client, "spread": "roundrobin"})
        counts = curve.counts
        if len(counts) < 2 or counts[0] != 1:
            continue
        *fewer, enough = counts[1:]
        none = [
            n for n in fewer if (gain := curve.gain(counts[-1], n)) and gain.above(NO_GAIN) is False
        ]
        more = "; more gain nothing" if none else ""
        enough = min([*none, enough])
        if not (gain := curve.gain(enough, 1)):
            continue
        full = conditions.full_link(run.summary, _place(client), curve.mean(enough))
        words = f"{curve.text(enough)} over {enough} paths, {gain.value:.2f} times 1 path"
        return f"{words} ({run.words({'client': client})}){more}{full}."
    return run.incomplete("one path and several")


def caveats(run: Run) -> list[str]:
    """Say that two places are not one."""
    places = {_place(str(client)) for client in run.levels("client")}
    said = "Mounts ran over a slower link in the guest: compare ratios, not MB/s."
    return [said] * (len(places) > 1 and not run.own)


STORY = Story(
    names=CLIENTS,
    stands={"spread": "job"},  # over one path every spread is the same
    headline=headline,
    table=Ends("paths", rows=["client"], where={"spread": "roundrobin"}),
    caveats=caveats,
    plots=[
        Lines("paths", {"spread": ["roundrobin", "stripe"]}, panels=["client"], doublings=False)
    ],
    beside=beside,
    claims=claims,
    reading=[
        "A ratio near the number of paths means that the connection was the limit; a rate near"
        " the link's, that the link is the limit now; a ratio near 1, that something else is:"
        " the server, its disks, or the client's processor.",
        "Jain's index is 1 where all paths carry the same, and 1/n where one carries all.",
    ],
    places={"lab": LAB, "guest": GUEST},
    factors={"client": Factor(_clients), "paths": Factor(), "spread": Factor()},
    combinations=_combinations,
    job=job,
    left_out=_left_out,
)
