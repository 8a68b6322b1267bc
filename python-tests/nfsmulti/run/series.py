# SPDX-License-Identifier: GPL-2.0-only
"""How a cell went on, out of fio's logs: bandwidth and latency, one figure per second, or fewer.

fio keeps logs in memory until it ends. So that 8 hours take no more of it than a minute does, what
one line stands for grows with the run time: see options().
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from nfsmulti.fiorun import Direction, FioReport
from nfsmulti.scenario import CellSpec
from nfsmulti.stats import Window, percentile_us

_BANDWIDTH, _LATENCY = "bw", "latency"
_WINDOW_SECONDS, _FEWEST = 0.25, 8
# Lines of a job in a log; of all jobs together, of which each line may be a histogram of 15 KB.
_MOST, _MOST_HISTOGRAMS = 1000, 4000
_NEARLY = 0.05  # s that a last window may lack of a second
_DIRECTIONS: tuple[tuple[Direction, int], ...] = (("read", 0), ("write", 1))


def window_ms(spec: CellSpec) -> int:
    """Return the windows of a cell's bandwidth log, of which it then has from 8 to 1,000.

    fio writes them off the path of I/Os, from counters.
    """
    seconds = max(min(_WINDOW_SECONDS, spec.seconds / _FEWEST), spec.seconds / _MOST)
    return max(1, round(seconds * 1000))


def figure_s(spec: CellSpec) -> int:
    """Return the seconds that one figure of a series stands for."""
    jobs = int(spec.options.get("numjobs") or 1)
    most = max(spec.seconds / _MOST, spec.seconds * jobs / _MOST_HISTOGRAMS)
    return max(1, math.ceil(most))


def options(spec: CellSpec, folder: Path) -> dict[str, Any]:
    """Return fio's options that log into `folder`.

    A histogram costs some ns per I/O, of which the engine alone takes microseconds.
    """
    return {
        "write_bw_log": str(folder / _BANDWIDTH),
        "log_avg_msec": window_ms(spec),
        "write_hist_log": str(folder / _LATENCY),
        "log_hist_msec": 1000 * figure_s(spec),
        # Averaged: raw, fio would wait for all I/O each time that a log grows.
        **({"write_lat_log": str(folder / _LATENCY)} if spec.load else {}),
    }


@dataclass(frozen=True)
class Series:
    """What the logs in `folder` tell of a cell; LookupError, ValueError or TypeError if broken."""

    spec: CellSpec
    folder: Path

    def windows(self) -> list[Window]:
        """Return the windows of all jobs and directions out of fio's bandwidth logs, if any.

        A line is "ms, KiB/s, direction, block size, …", one for each window, direction and job.
        Where nothing was moved fio leaves a window out; the next one is then of its nominal length.
        """
        nominal, found = window_ms(self.spec), []
        for log in self.folder.glob(f"{_BANDWIDTH}_bw.*.log"):
            ends: dict[str, int] = {}
            for line in log.read_text().splitlines():
                at, rate, way, *_ = line.split(", ")
                end, before = int(at), ends.get(way, 0)
                begin = before if end - before < 1.5 * nominal else end - nominal
                found.append(Window(begin / 1000, end / 1000, float(int(rate) << 10)))
                ends[way] = end
        return found

    def end(self, found: Sequence[Window], report: FioReport) -> float:
        """Return the end of what the windows show, s: the last one's, or after a stall the run's.

        fio writes down neither a last window that is not whole nor one in which nothing was moved.
        """
        last = max((window.end for window in found), default=0.0)
        ended = max(float(job["job_runtime"]) for job in report.jobs) / 1000
        return ended if ended - last > 2 * window_ms(self.spec) / 1000 else last

    def bandwidth(self, found: Sequence[Window], end: float) -> list[float]:
        """Return bytes per second of all jobs and directions, for each whole figure up to `end`."""
        step = figure_s(self.spec)
        sums = [0.0] * int((end + _NEARLY) / step)
        for window in found:
            for at in range(int(window.begin / step), min(math.ceil(window.end / step), len(sums))):
                sums[at] += window.bytes(at * step, (at + 1) * step)
        return [total / step for total in sums]

    def latency(self) -> dict[str, dict[str, list[float | None]]]:
        """Return p50_us and p99_us of a direction that has I/O, and remove the histograms.

        A line is "ms, direction, block size, a count for each bin"; those of all jobs are added up.
        """
        bins: dict[str, defaultdict[int, Counter[int]]] = {}
        for log in self.folder.glob(f"{_LATENCY}_clat_hist.*.log"):
            lines = [list(map(int, line.split(", "))) for line in log.read_text().splitlines()]
            for name, way in _DIRECTIONS:
                own = [line for line in lines if line[1] == way]
                places = self._places([line[0] for line in own])
                for place, line in zip(places, own, strict=True):
                    found = {_bin_ns(number): count for number, count in enumerate(line[3:])}
                    at = bins.setdefault(name, defaultdict(Counter))[place]
                    at.update({ns: count for ns, count in found.items() if count})
            log.unlink()
        return {
            name: {
                key: [percentile_us(own[place], percent) for place in range(max(own) + 1)]
                for key, percent in (("p50_us", 50), ("p99_us", 99))
            }
            for name, own in bins.items()
        }

    def response(self) -> list[float | None]:
        """Return the mean response in µs for each figure, of a cell at a load.

        A line is "ms, ns, …", the mean over a window of one job.
        """
        found: defaultdict[int, list[int]] = defaultdict(list)
        for log in self.folder.glob(f"{_LATENCY}_lat.*.log"):
            for line in log.read_text().splitlines():
                at, ns, *_ = map(int, line.split(", "))
                found[int((at - 1) / 1000 / figure_s(self.spec))].append(ns)
        last = max(found, default=-1)
        return [fmean(found[at]) / 1000 if found[at] else None for at in range(last + 1)]

    def marks(self, uptimes: Mapping[str, Sequence[float]], begin: float) -> dict[str, list[int]]:
        """Return the figures in which something happened, from 0; `begin` is the jobs' uptime."""
        step = figure_s(self.spec)
        return {
            name: sorted({max(0, int((at - begin) / step)) for at in found})
            for name, found in uptimes.items()
        }

    def _places(self, ends: Sequence[int]) -> list[int]:
        """Return each window of a log, which ends at so many ms, its place from 0.

        They are of a second and a bit, which adds up: what counts is the time since the one before.
        """
        lengths = (
            max(1, round((end - before) / 1000 / figure_s(self.spec)))
            for before, end in itertools.pairwise([0, *ends])
        )
        return [place - 1 for place in itertools.accumulate(lengths)]


def _bin_ns(number: int) -> int:
    """Return the latency that stands for a bin, as fio does: 64 bins to each power of 2."""
    if number < 128:
        return number
    power, part = number // 64 - 1, number % 64
    return int((1 << power + 6) + (part + 0.5) * (1 << power))
