# SPDX-License-Identifier: GPL-2.0-only
"""dd: one stream against five.

Published: `dd` of 838,860,800 bytes in blocks of 8192, written and read back, from AIX and Linux
clients to a RHEL 6.8 server over 1 Gbit/s Ethernet (NFSv3, TCP, rsize = wsize = 32768). AIX wrote
19.4 MB/s with one stream and 72 MB/s with five at once; Linux wrote 139 MB/s and read 98.0 MB/s
with one. The limit was per connection.

capped is the story's AIX client, whose connections do not get beyond a rate of their own; uncapped
is its Linux client, for which the link alone is the limit.
"""

from dataclasses import replace

from nfsmulti import texts
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.report.told import Run
from nfsmulti.scenario import CellSpec
from nfsmulti.story import At, Beside, Claim, Ends, Factor, Levels, Lines, Story

BYTES = 838_860_800  # dd's own: count=102400 bs=8192
LINK, CAP = 118e6, 14.2e6  # bytes/s that the lab's limits leave
CLEAR = 2.0  # times one stream: what shows that the connection is the limit


def job(at: At) -> CellSpec:
    """Return a job of `at.streams` streams, each with a file, a path and a request of its own."""
    size, reading = at.size(1 << 20, 128 << 20, BYTES), at.direction == "read"
    cell = at.cell(
        f"dd-{at.direction}.fio",
        {"numjobs": at.streams, "size": size},
        at.seconds(4, 0),
        paths=min(at.streams, at.pool.paths),
        files={f"nfsmulti-dd.{number}": size for number in range(at.streams * reading)},
    )
    if cell.seconds:
        return cell
    rate = min(at.streams * CAP, LINK) if at.client == "capped" else LINK
    # All bytes, however long that takes.
    whole = {"numjobs": at.streams}
    return replace(cell, options=whole, seconds=at.streams * BYTES / rate)


def _at(client: str, direction: str, streams: int) -> Levels:
    return {"client": client, "direction": direction, "streams": streams}


ONE, FIVE = _at("capped", "write", 1), _at("capped", "write", 5)


def headline(run: Run) -> str:
    """Tell what the most streams write in times one, and where the link alone is the limit."""
    gain, here = run.ratio("MB/s", FIVE, ONE), run.levels("client", FIVE)
    if gain is None:
        return run.incomplete("writes of 1 stream and of 5")
    words = (
        f"{run.text('MB/s', FIVE)} written by 5 streams{run.hosts}, {gain.value:.3g} times 1 stream"
    )
    if here == ["capped"]:
        other = run.ratio("MB/s", _at("uncapped", "write", 5), _at("uncapped", "write", 1))
        words += " where each address is capped"
        words += f"; {other.value:.2f} times where only the link is" if other else ""
    elif gain.above(CLEAR):
        words += ": each connection has a limit of its own"
    return f"{words}."


def time_and_rate(run: Run, at: Levels) -> str:
    """Write what every stream takes for dd's own bytes at the rate of all together, and that."""
    if not (rate := run.sample("MB/s", at)):
        return texts.MISSING
    seconds = run.summary.hosts * int(at["streams"]) * BYTES / 1e6 / rate.mean
    told = " (extrapolated)" if run.summary.quick else ""
    return f"{seconds:.2f} s{told}, {texts.mean(rate, 'MB/s')}"


STORY = Story(
    names={
        "capped": "each address capped",
        "uncapped": "only the link capped",
        "pool": "no caps of the lab",
    },
    stands={"client": "pool"},
    headline=headline,
    table=Ends("streams", rows=["direction", "client"]),
    plots=[Lines("streams", ["direction"], panels=["client"], ideal=True, doublings=False)],
    claims=[
        Claim("five streams write more than one: the limit is per connection",
              "3.71 times (19.4 to 72 MB/s)", FIVE, ONE, gain=72 / 19.4, place="capped", most=5),
    ],
    beside=[
        Beside(f"{whose} ({{where}}), {direction}, {words}{{hosts}}", theirs,
               _at(client, direction, streams), ratio, ONE if ratio else None, time_and_rate)
        for whose, client, direction, words, streams, theirs, ratio in (
            ("AIX", "capped", "write", "1 stream", 1, "43.20 s, 19.4 MB/s", None),
            # Less than five times one stream, and than the link: here five caps fit into it.
            ("AIX", "capped", "write", "5 streams", 5, "55 s, 72 MB/s in sum", 72 / 19.4),
            ("AIX", "capped", "read", "1 stream", 1, "30.86 s, 27.2 MB/s", None),
            # More than 1 Gbit/s carries: that clock stopped before all was sent, ours after COMMIT.
            ("Linux", "uncapped", "write", "1 stream", 1,
             "6.02 s, 139 MB/s, in part into the client's cache", None),
            ("Linux", "uncapped", "read", "1 stream", 1, "8.56 s, 98.0 MB/s", None),
        )
    ] + [
        Beside("FTP over the same link", "100 MB/s"),
        Beside("the server's own disk, 8,388,608,000 bytes", "4.20 s, 2.0 GB/s"),
    ],
    reading=[
        "Rates are of all streams together. The time is what each stream takes for the 838,860,800"
        " bytes of the original dd, at that rate. In a quick run it is extrapolated from a few"
        " seconds.",
        "A stream is one job with one request of 8 KiB at a time, and has a connection of its own."
        " Where the sum grows along a dotted line, the connection is the limit; where it becomes"
        " flat, the link or the server is.",
    ],
    places={
        "capped": LabConfig(addresses=5, limits=Limits(link="1gbit", per_address="120mbit")),
        "uncapped": LabConfig(addresses=5, limits=Limits(link="1gbit")),
    },
    place="client",
    factors={
        "client": Factor(),
        "direction": Factor(["write", "read"]),
        "streams": Factor(range(1, 6), quick=[1, 2, 5]),
    },
    job=job,
    left_out=lambda _: [
        "capped and uncapped are limits of the lab: your pool has its own (client=pool)"
    ],
)  # fmt: skip
