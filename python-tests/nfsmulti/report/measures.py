# SPDX-License-Identifier: GPL-2.0-only
"""Each figure of a cell: its name with its unit, and how it is taken. cells.csv has them all.

What a page, a terminal or another command tells is one of these, or a mean or ratio of one.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nfsmulti.stats import jain, merged, percentile_us
from nfsmulti.summary import Cell, Figures

WAYS = ("read", "write")
CPU = "CPU µs/op"  # of the machine where a cell of the run has it, else of fio's jobs
Take = Callable[[Cell], float | None]


@dataclass(frozen=True)
class Measure:
    """A figure of a cell, None where it was not taken; `words` are those of a plot's title."""

    name: str
    words: str
    take: Take

    def __call__(self, cell: Cell) -> float | None:
        """Take it."""
        return self.take(cell)


def sides(cell: Cell, *ways: str) -> list[Figures]:
    """Return the figures of the directions that a cell has moved data in; of all, or of some."""
    found: list[Figures | None] = [getattr(cell, way) for way in ways or WAYS]
    return [side for side in found if side and side.ops]


def longest_s(cell: Cell) -> float:
    """Return for how long a cell moved data."""
    return max((side.seconds for side in sides(cell)), default=0.0)


def latency_us(figures: Sequence[Figures], percent: float) -> float | None:
    """Return a percentile of clat of several repeats or directions, by their bins together."""
    if any(not side.bins for side in figures):
        # Without bins only one alone can tell, in fio's own words.
        own = {50: "p50_us", 95: "p95_us", 99: "p99_us", 99.9: "p999_us"}.get(percent)
        return getattr(figures[0], own) if own and len(figures) == 1 else None
    return percentile_us(merged(side.bins for side in figures), percent)


def _each(name: str, words: str, take: Callable[[list[Figures]], float | None]) -> list[Measure]:
    """Return a figure of both directions together; and of each, where a cell moved data in both."""

    def of(*ways: str) -> Measure:
        def taken(cell: Cell) -> float | None:
            return take(sides(cell, *ways)) if len(sides(cell)) > len(ways) else None

        return Measure(
            " ".join([*ways, name]), " of ".join([words, *(f"{way}s" for way in ways)]), taken
        )

    return [of(), *map(of, WAYS)]


def _sum(name: str) -> Callable[[list[Figures]], float | None]:
    return lambda found: sum(getattr(side, name) for side in found) or None


def _percentile(percent: float) -> Callable[[list[Figures]], float | None]:
    return lambda found: _ms(latency_us(found, percent))


def _ms(us: float | None) -> float | None:
    return us and us / 1000


def _of(part: str, name: str) -> Callable[[Cell], Any]:
    """Return how a figure of a part of a cell is taken, such as of its arrivals."""
    return lambda cell: getattr(getattr(cell, part), name, None)


def _waits(part: str, name: str, percent: float) -> Take:
    """Return the same of a percentile of bins."""
    return lambda cell: _ms(
        percentile_us(merged([getattr(getattr(cell, part), name, {})]), percent)
    )


def _response(percent: float, cell: Cell) -> float | None:
    bins = [side.response for side in sides(cell)] if cell.arrivals else []
    return _ms(percentile_us(merged(bins), percent))


def _per_op(seconds: float | None, cell: Cell) -> float | None:
    return seconds / cell.ops * 1e6 if cell.ops and seconds else None


def _server_s(cell: Cell) -> float | None:
    server = cell.server
    if not (server and server.cpu_percent):
        return None
    return server.cpu_percent / 100 * server.processors * longest_s(cell)


def _processors(cell: Cell) -> float | None:
    seconds = longest_s(cell) * cell.processors
    return 100 * cell.machine_cpu_s / seconds if cell.machine_cpu_s and seconds else None


def _jain(cell: Cell) -> float | None:
    """Return what the run counted; an earlier version did not."""
    return cell.jain or (jain(cell.paths.values()) if any(cell.paths.values()) else None)


def _of_mounts(way: str, name: str, per: int = 0) -> Take:
    """Return the same of the calls of mounts; means in µs are told `per` 1,000."""

    def taken(cell: Cell) -> float | None:
        found = getattr(cell.mount_calls.get(way), name, None)
        return found / per if found and per else found

    return taken


def _back(part: float) -> Take:
    """Return how the time is taken until so many clients were back; None where they never are."""

    def taken(cell: Cell) -> float | None:
        found = cell.restart
        count = math.ceil(part * found.known) if found else 0
        return found.back_s[count - 1] if found and 0 < count <= len(found.back_s) else None

    return taken


def _waited(cell: Cell) -> float | None:
    """Return how long the last new client waited after a restart; None where one still does."""
    found = cell.restart
    return found.waited_s[-1] if found and 0 < found.new <= len(found.waited_s) else None


# What a response is made of, and what these parts are called.
PARTS = {"lag": "lag", "service": "service", "wake_up": "wake-up"}
# In the order of the columns.
MEASURES = {one.name: one for one in (
    *_each("MB/s", "bandwidth", lambda found: sum(s.bytes_per_s for s in found) / 1e6 or None),
    *_each("IOPS", "I/Os per second", _sum("iops")),
    *_each("mean ms", "latency, mean",
           lambda found: _ms(found[0].mean_us) if len(found) == 1 else None),
    *(one for at in (50, 95, 99, 99.9)
      for one in _each(f"p{at:g} ms", f"latency, p{at:g}", _percentile(at))),
    *_each("I/Os", "I/Os", _sum("ops")),
    *_each("bytes", "bytes", _sum("bytes")),
    Measure("run time s", "run time", longest_s),
    Measure("jobs CPU µs/op", "CPU per operation of fio's jobs",
            lambda cell: _per_op(cell.cpu_s, cell)),
    Measure("machine CPU µs/op", "CPU per operation of the whole machine",
            lambda cell: _per_op(cell.machine_cpu_s, cell)),
    Measure("server CPU µs/op", "CPU per operation of the server",
            lambda cell: _per_op(_server_s(cell), cell)),
    Measure("crypto µs/op", "encryption and checksums per operation",
            lambda cell: _per_op(cell.crypto_s, cell)),
    Measure("busiest job %", "busiest job, of a core", lambda cell: max(
        (job.usr_percent + job.sys_percent for job in cell.jobs), default=None)),
    Measure("processors %", "processors busy", _processors),
    Measure("others %", "processors that other programs had before",
            lambda cell: None if cell.others_busy is None else 100 * cell.others_busy),
    Measure("server %", "processors of the server", _of("server", "cpu_percent")),
    Measure("server Dirty MB", "the server's Dirty, at most",
            lambda cell: cell.server.dirty_bytes / 1e6 if cell.server else None),
    Measure("server Cached MB", "the server's Cached, at most",
            lambda cell: cell.server.cached_bytes / 1e6 if cell.server else None),
    Measure("calls/op", "system calls per operation", lambda cell: cell.calls_per_op),
    Measure("Jain", "Jain's index over paths", _jain),
    Measure("due IOPS", "I/Os per second that were due", _of("arrivals", "offered")),
    Measure("IOPS in time", "I/Os per second in time", _of("arrivals", "achieved")),
    Measure("sustained", "whether the rate was held", _of("arrivals", "sustained")),
    Measure("due", "arrivals", _of("arrivals", "due")),
    Measure("dropped", "arrivals that were not sent", _of("arrivals", "dropped")),
    *(Measure(f"lag p{at} ms", f"lag, p{at}", _waits("arrivals", "lag", at)) for at in (50, 99)),
    *(Measure(f"response p{at} ms", f"response, p{at}", functools.partial(_response, at))
      for at in (50, 99)),
    *(Measure(f"{words} p{at} ms", f"{words}, p{at}", _waits("parts", name, at))
      for name, words in [*PARTS.items()][1:] for at in (50, 99)),
    Measure("clients served", "clients that are served", _of("clients", "served")),
    Measure("slowest client %", "operations of the slowest client, of the mean of all",
            lambda cell: 100 * cell.clients.slowest if cell.clients else None),
    Measure("clients' Jain", "Jain's index over clients", _of("clients", "jain")),
    Measure("restart s", "restart: until the server was there again", _of("restart", "took_s")),
    Measure("half back s", "restart: until half of the clients were back", _back(0.5)),
    Measure("all back s", "restart: until all clients were back", _back(1.0)),
    Measure("new wait s", "restart: until all new clients were served", _waited),
    *(Measure(f"{way} {name}", f"{way} {name} of mounts", take)
      for way in WAYS for name, take in (
          ("calls", _of_mounts(way, "calls")),
          *((f"{words} ms", _of_mounts(way, f"{name}_mean_us", 1000))
            for name, words in PARTS.items()))),
)}  # fmt: skip
MB_PER_S, IOPS, P99 = (MEASURES[name] for name in ("MB/s", "IOPS", "p99 ms"))
JOBS_CPU, MACHINE_CPU, SERVER_CPU = (
    MEASURES[f"{whose} CPU µs/op"] for whose in ("jobs", "machine", "server")
)
# p99 as runs and factors are compared by it: of a cell that reads and writes, that of each. In a
# p99 of both the slower ones would hide the others.
P99_OF_EACH: Mapping[str, Take] = {
    "p99": lambda cell: P99(cell) if len(sides(cell)) == 1 else None,
    **{f"{way} p99": MEASURES[f"{way} p99 ms"] for way in WAYS},
}
PROCESSORS = MEASURES["processors %"]
