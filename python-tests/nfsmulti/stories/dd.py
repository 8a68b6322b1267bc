# SPDX-License-Identifier: GPL-2.0-only
"""dd: one stream against five.

Published: `dd` of 838,860,800 bytes in blocks of 8192, written and read back, from AIX and Linux
clients to a RHEL 6.8 server over 1 Gbit/s Ethernet (NFSv3, TCP, rsize = wsize = 32768). AIX wrote
19.4 MB/s with one stream and 72 MB/s with five at once; Linux wrote 139 MB/s and read 98.0 MB/s
with one. The limit was per connection.

capped is the story's AIX client, whose connections do not get beyond a rate of their own; uncapped
is its Linux client, for which the link alone is the limit.

Factors: client (capped, uncapped), direction (write, read), streams.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nfsmulti import texts
from nfsmulti.lab import LabConfig, Limits
from nfsmulti.report import cells, charts, conditions, measures
from nfsmulti.report.answer import Answer
from nfsmulti.report.curves import Axis, Curve, ends_table
from nfsmulti.report.story import RULE, Beside, Finding, Judged, Plot, Report, Section, Told, judge
from nfsmulti.scenario import CellSpec, timed
from nfsmulti.stats import Ratio, Sample
from nfsmulti.story import At, Factor, Story
from nfsmulti.summary import Factor as Level
from nfsmulti.summary import Summary

# --- what runs ---

_STREAMS = 5
_CLEAR = 2.0  # times one stream: what shows that the connection is the limit
_BYTES = 838_860_800  # dd's own: count=102400 bs=8192
_QUICK_BYTES, _TINY_BYTES = 128 << 20, 1 << 20
_LINK, _CAP = 118e6, 14.2e6  # bytes/s that the lab's limits leave

_PLACES = {
    "capped": LabConfig(addresses=_STREAMS, limits=Limits(link="1gbit", per_address="120mbit")),
    "uncapped": LabConfig(addresses=_STREAMS, limits=Limits(link="1gbit")),
}


def _job(at: At) -> CellSpec:
    whole = not at.scale.quick and at.scale.cell_seconds is None
    options: dict[str, Level | None] = {"numjobs": at.streams}
    if whole:
        rate = min(at.streams * _CAP, _LINK) if at.client == "capped" else _LINK
        size, seconds = _BYTES, at.streams * _BYTES / rate
    else:
        size, seconds = at.size(1 << 20, 128 << 20, _BYTES), at.seconds(4, 0)
        options |= {"size": size, **timed(seconds)}
    reading = range(at.streams if at.direction == "read" else 0)
    return CellSpec(
        {}, "", f"dd-{at.direction}.fio", options, seconds,
        paths=min(at.streams, at.pool.paths),
        files={f"nfsmulti-dd.{number}": size for number in reading},
    )  # fmt: skip


# --- what it tells ---

_PUBLISHED_RATIO = 72 / 19.4
_POOL = "pool"
_WHERE = {
    "capped": "each address capped",
    "uncapped": "only the link capped",
    _POOL: "no caps of the lab",
}
_ORIGINALS = {"capped": "AIX", "uncapped": "Linux"}

# client, direction, streams: published text, ratio to one stream
_PUBLISHED = (
    ("capped", "write", 1, "43.20 s, 19.4 MB/s", None),
    # Less than five times one stream, and than the link: here five times the cap fits into it.
    ("capped", "write", _STREAMS, "55 s, 72 MB/s in sum", _PUBLISHED_RATIO),
    ("capped", "read", 1, "30.86 s, 27.2 MB/s", None),
    # More than 1 Gbit/s carries: that clock stopped before all was sent, ours after COMMIT.
    ("uncapped", "write", 1, "6.02 s, 139 MB/s, in part into the client's cache", None),
    ("uncapped", "read", 1, "8.56 s, 98.0 MB/s", None),
)
_UNMEASURED = (
    Beside("FTP over the same link", "100 MB/s"),
    Beside("the server's own disk, 8,388,608,000 bytes", "4.20 s, 2.0 GB/s"),
)


def _curve(summary: Summary, client: str, direction: str) -> Curve:
    """Return the rate of all streams together, by their number."""
    found = cells.having(summary, client=client, direction=direction)
    return Curve.along(Axis("streams"), found)


def _client(summary: Summary, client: str) -> str:
    """Return the client that stands beside a published one: a user's pool is both."""
    measured = cells.having(summary, client=client)
    return _POOL if not measured and cells.having(summary, client=_POOL) else client


def _time(summary: Summary, rate: Sample, streams: int) -> str:
    """Return what every stream takes for its 838,860,800 bytes at the rate of all together."""
    seconds = f"{summary.hosts * streams * _BYTES / 1e6 / rate.mean:.2f} s"
    return f"{seconds} (extrapolated)" if summary.quick else seconds


def _published_gain(summary: Summary) -> tuple[str, Ratio | None, Judged]:
    """Return whose gain stands beside the published one, the gain, and its verdict."""
    client = _client(summary, "capped")
    gain = _curve(summary, client, "write").gain(_STREAMS, 1)
    allowed = conditions.allowed(summary, "capped")
    most = None if allowed is None else min(allowed, _STREAMS)
    return client, gain, judge(gain, _PUBLISHED_RATIO, most)


def beside(summary: Summary) -> list[Beside]:
    """Return the published table beside ours."""
    rows = []
    for original, direction, streams, theirs, ratio in _PUBLISHED:
        client = _client(summary, original)
        curve = _curve(summary, client, direction)
        rate = curve.rate(streams)
        each = f"{streams} stream{'' if streams == 1 else 's'}{conditions.on_each(summary)}"
        ours = texts.MISSING
        if rate:
            ours = f"{_time(summary, rate, streams)}, {texts.mean(rate, 'MB/s')}"
        our_ratio = curve.gain(streams, 1) if ratio else None
        name = f"{_ORIGINALS[original]} ({_WHERE[client]}), {direction}, {each}"
        rows.append(Beside(name, theirs, ours, ratio, our_ratio))
    return [*rows, *_UNMEASURED]


def findings(summary: Summary) -> list[Finding]:
    """Return the one finding: the limit is each connection's."""
    _, gain, judged = _published_gain(summary)
    what = "five streams write more than one: the limit is per connection"
    theirs = f"{_PUBLISHED_RATIO:.2f} times (19.4 to 72 MB/s)"
    return [Finding(what, theirs, f"{gain.text} times" if gain else texts.MISSING, judged)]


def tell(summary: Summary) -> Told:
    """Tell what one stream and several do here."""
    clients = [str(client) for client in cells.levels(summary.done, "client")]
    return Told(
        answer=_answer(summary, clients),
        sections=[Section("Plots", plots=[_plot(summary, client) for client in clients])],
        reading=[
            "Rates are of all streams together. The time is what each stream takes for the"
            " 838,860,800 bytes of the original dd, at that rate. In a quick run it is"
            " extrapolated from a few seconds.",
            "A stream is one job with one request of 8 KiB at a time, and has a connection of its"
            " own. Where the sum grows along a dotted line, the connection is the limit; where"
            " it becomes flat, the link or the server is.",
            RULE,
        ],
    )


def _answer(summary: Summary, clients: Sequence[str]) -> Answer:
    """Tell what the most streams write in times one, and each direction of each client beside."""
    client, gain, _ = _published_gain(summary)
    if gain:
        rate = _curve(summary, client, "write").text(_STREAMS)
        end = f"{conditions.on_each(summary)}, {gain.value:.3g} times 1 stream"
        words = f"{rate} written by {_STREAMS} streams{end}"
        other = _curve(summary, "uncapped", "write").gain(_STREAMS, 1)
        if client == "capped":
            words += " where each address is capped"
            words += f"; {other.value:.2f} times where only the link is" if other else ""
        elif gain.above(_CLEAR):
            words += ": each connection has a limit of its own"
    else:
        written = [_curve(summary, one, "write") for one in clients]
        fastest = max((one.mean(count) for one in written for count in one.counts), default=None)
        words = f"{texts.number(fastest)} MB/s written at most"
        words += f"; 1 stream and {_STREAMS} were not both measured"
    named = [
        (f"{direction}{f', {_WHERE[one]}' if len(clients) > 1 else ''}", curve)
        for one in clients
        for direction in ("write", "read")
        if (curve := _curve(summary, one, direction)).counts
    ]
    return Answer(f"{words}.", ends_table(named, "stream"))


def _plot(summary: Summary, client: str) -> Plot:
    title = f"Streams, {_WHERE[client]}"
    figure, axes = charts.panel(title, "streams, each on a connection", "MB/s, all streams")
    dotted, drawn = "", {}
    for way in ("write", "read"):
        found = _curve(summary, client, way).samples(measures.MB_PER_S)
        drawn[way] = {count: rate for count, rate in found.items() if rate}
    every = [rate for points in drawn.values() for rate in points.values()]
    highest = max(map(charts.highest, every), default=1.0)
    for number, (direction, points) in enumerate(drawn.items()):
        if not points:
            continue
        charts.line(axes, number, direction, [*points.items()])
        one = points[1].mean if 1 in points else math.inf
        ideal = {count: one * count for count in points if one * count <= charts.ROOM * highest}
        if len(ideal) > 1:
            colour, label = charts.COLOURS[number], f"times 1 {direction} stream"
            dotted = "; dotted: as many times 1 stream"
            axes.plot([*ideal], [*ideal.values()], ":", color=colour, label=label)
    axes.set_xticks(sorted({1}.union(*drawn.values())))
    charts.from_zero(axes, highest)
    charts.legend(axes)
    return Plot(
        f"scaling-{client}",
        f"{title}: rate of all streams against their number; {charts.REPEATS}{dotted}.",
        figure,
    )


_REPORT = Report(
    "dd",
    __doc__,
    factors=("client", "direction", "streams"),
    beside=beside,
    tell=tell,
    findings=findings,
    names=lambda _: _WHERE,
)

STORY = Story(
    report=_REPORT,
    places=_PLACES,
    place="client",
    factors={
        "client": Factor(),
        "direction": Factor(["write", "read"]),
        "streams": Factor(range(1, _STREAMS + 1), quick=[1, 2, _STREAMS]),
    },
    job=_job,
    left_out=lambda *_: [
        "capped and uncapped are limits of the lab: your pool has its own (client=pool)"
    ],
)
