# SPDX-License-Identifier: GPL-2.0-only
"""Entries made, verified and removed over several addresses, while connections are reset.

One server is behind all addresses, so that each entry is wanted once, whichever path made it.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

from nfsmulti.faults.lab import FaultKind, Faults
from nfsmulti.faults.totals import Meter, Totals
from nfsmulti.fiorun import Fio, FioProcess, Options
from nfsmulti.lab import Lab

_TOP = "entries"
_JOB: Options = {
    "metadata": 1, "bs": 1, "iodepth": 32, "spread": "roundrobin", "filename": _TOP,
}  # fmt: skip
# What a pass does, and whether the server then has the entries.
_PASSES: dict[str, tuple[Options, bool]] = {
    "made": ({"rw": "write"}, True),
    "verified": ({"rw": "read", "meta_verify": 1}, True),
    "removed": ({"rw": "write", "meta_write": "remove"}, False),
}
_RESET_SECONDS = 1.0
_SECONDS, _ENTRIES_PER_S = 120.0, 100  # where a server does fewer, the pass has failed


class EntryPasses:
    """Runs the three passes, and counts into `totals`."""

    def __init__(self, lab: Lab, fio: Fio, folder: Path, totals: Totals, meter: Meter):
        self._lab, self._fio, self._folder = lab, fio, folder
        self._totals, self._meter = totals, meter
        self._faults = Faults(lab)

    def run(self, entries: int, pool: str) -> None:
        """Run them all; ends early where one has failed, which `totals` tells then."""
        self._meter.expect(3 * entries)
        for number, (name, (options, there)) in enumerate(_PASSES.items()):
            folder = self._folder / name
            options = {**_JOB, **options, "size": entries}
            with self._fio.start(folder, pool=pool, options=options) as process:
                self._reset(process, f"entries {name}", number * entries)
                result = process.result(_SECONDS + entries / _ENTRIES_PER_S)
            self._totals.add(name, result)
            self._totals.entries[name] = sum(line.meta_ops for line in result.stats)
            self._hold(name, entries if there else 0, entries)
            if self._totals.troubles:
                return

    def _reset(self, process: FioProcess, what: str, done: float) -> None:
        """Close the connections of one address after the other, one each second."""
        paths: Iterator[int] = itertools.cycle(range(self._lab.config.addresses))
        begin = time.monotonic()
        while process.running:
            self._meter.show(f"{what}: {time.monotonic() - begin:.0f} s", done)
            process.wait(_RESET_SECONDS)
            if process.running and self._faults.begin(FaultKind.RESET, next(paths)):
                self._totals.faults[FaultKind.RESET] += 1

    def _hold(self, name: str, wanted: int, entries: int) -> None:
        """Hold what fio did, and what the server keeps, against what must be."""
        if self._totals.entries[name] != entries:
            self._totals.troubles.append(
                f"{self._totals.entries[name]:,} of {entries:,} entries were {name}"
            )
        kept = sum(len(files) for _, _, files in os.walk(self._lab.export_dir / _TOP))
        if kept != wanted:
            self._totals.troubles.append(
                f"after they were {name} the server has {kept:,} entries, not {wanted:,}"
            )
