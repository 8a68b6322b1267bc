# SPDX-License-Identifier: GPL-2.0-only
"""What a cell's jobs do while they run: the engine's live_file, read once a second.

Only the engine on this machine, or in a guest, writes it: of fio's own engines, and of other hosts,
nothing is known before they end.
"""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import PathStats
from nfsmulti.texts import counted, number

OPTION = "live_file"
SECONDS = 1.0
_STALE_SECONDS = 3.0  # without a word from a job, from which on it does nothing
# What went wrong on a path, by its name in stats_file.
TROUBLES = ("errors", "reconnects", "reissues", "retransmissions")
# Marks of a cell's time series; the engine says once in its log where replies are delayed.
_MARKS = {"reconnects": "reconnect", "reissues": "failover", "retransmissions": "retransmission"}
_DELAYED, DELAYED_SAID = "delayed reply", "the server keeps asking to wait"
_BARS = "▁▂▃▄▅▆▇█"


# Of a path, by name: bytes, ops, ns of waiting, and troubles.
Counts = dict[str, float]


def _counts(line: PathStats) -> Counts:
    ops = line.read_ops + line.write_ops + line.commits + line.meta_ops + line.lookups
    counts = {"bytes": line.bytes, "ops": ops, "ns": round(line.rtt_mean_us * 1000 * ops)}
    return {**counts, **{name: getattr(line, name) for name in TROUBLES}}


def added(parts: Iterable[Mapping[str, Counts]]) -> dict[str, Counts]:
    """Add up what each path did in each part."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for part in parts:
        for path, counts in part.items():
            found[path].update(counts)
    return {path: dict(counts) for path, counts in found.items()}


@dataclass(frozen=True)
class Live:
    """What each path has done since the cell began, and what it did per second at the last look."""

    paths: dict[str, Counts]
    per_s: dict[str, Counts]

    def rates(self) -> Counter[str]:
        """Return what all paths together did per second."""
        found = Counter[str]()
        for counts in self.per_s.values():
            found.update(counts)
        return found

    def text(self, bandwidths: Sequence[float]) -> str:
        """Say it in a line, with a sparkline of the latest bandwidths."""
        rates = self.rates()
        words = [f"{number(rates['bytes'] / 1e6)} MB/s", f"{number(rates['ops'])} IOPS"]
        if rates["ops"] and rates["ns"]:  # the mean time from a call to its reply
            words.append(f"{number(rates['ns'] / rates['ops'] / 1e6)} ms")
        if any(bandwidths):
            most = max(bandwidths)
            words.append("".join(_BARS[int(7 * one / most)] for one in bandwidths))
        counts = {name: sum(path[name] for path in self.paths.values()) for name in TROUBLES}
        words += [counted(int(n), name.removesuffix("s")) for name, n in counts.items() if n]
        return " ".join(words)


def _rates(
    before: Mapping[str, Counts], now: Mapping[str, Counts], seconds: float
) -> dict[str, Counts]:
    """Return what each path did per second between two looks."""
    return {
        path: {
            name: (n - before.get(path, {}).get(name, 0)) / seconds for name, n in counts.items()
        }
        for path, counts in now.items()
    }


class Sampler:
    """Reads what a fio's jobs write to `folder`, and notes in `marks` at which uptimes what was."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.marks: defaultdict[str, list[float]] = defaultdict(list)
        self._files: dict[Path, tuple[float, Live]] = {}  # what each job wrote last, and when
        self._paths: dict[str, Counts] = {}
        self._said = 0

    def take(self) -> Live | None:
        """Look again; None where there is nothing yet, or never will be."""
        for file in self.folder.glob(f"{OPTION}.*"):
            with contextlib.suppress(HarnessError):  # it is being written: the next look has it
                at, lines = file.stat().st_mtime, PathStats.read(file)
                paths = added({line.path: _counts(line)} for line in lines)
                then, known = self._files.get(file, (at, Live({}, {})))
                if at > then:
                    self._files[file] = at, Live(paths, _rates(known.paths, paths, at - then))
                else:
                    self._files.setdefault(file, (at, Live(paths, {})))
        files = self._files.values()
        before, self._paths = self._paths, added(one.paths for _, one in files)
        self._mark(before)
        per_s = added(one.per_s for at, one in files if time.time() - at < _STALE_SECONDS)
        return Live(self._paths, per_s) if any(one.per_s for _, one in files) else None

    def clear(self) -> None:
        """Remove the files: stats_file has the same in the end."""
        for file in self.folder.glob(f"{OPTION}.*"):
            file.unlink()

    def _mark(self, before: dict[str, Counts]) -> None:
        # The engine wrote it half a second ago, of the second before.
        at = time.clock_gettime(time.CLOCK_BOOTTIME) - SECONDS
        for path, counts in self._paths.items():
            for name, mark in _MARKS.items():
                if counts[name] > before.get(path, {}).get(name, 0):
                    self.marks[mark].append(at)
        if self._delayed():
            self.marks[_DELAYED].append(at)

    def _delayed(self) -> bool:
        """Tell whether the engine has said so since the look before."""
        with (self.folder / "stderr").open("rb") as log:
            log.seek(self._said)
            said = log.read()
        whole = said.rpartition(b"\n")[0]  # a line may be half there
        self._said += len(whole)
        return DELAYED_SAID.encode() in whole
