# SPDX-License-Identifier: GPL-2.0-only
"""Entries made, verified and removed over several addresses, while connections are reset.

One server is behind all addresses, so that each entry is wanted once, whichever path made it.
"""

from __future__ import annotations

import itertools
import os
import shlex
import time
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
    """Runs the three passes, with `more` of fio's options, and counts into `totals`."""

    def __init__(
        self,
        lab: Lab,
        fio: Fio,
        folder: Path,
        totals: Totals,
        meter: Meter,
        more: Options | None = None,
    ):
        self._lab, self._fio, self._folder, self._more = lab, fio, folder, more or {}
        self._totals, self._meter = totals, meter
        self._faults = Faults(lab)

    def run(self, entries: int, pool: str) -> None:
        """Run them all; ends early where one has failed, which `totals` tells then."""
        for name, (options, there) in _PASSES.items():
            folder = self._folder / name
            begun = folder / "begun"  # written right before the first I/O: all paths are mounted
            deadline = time.monotonic() + _SECONDS + entries / _ENTRIES_PER_S
            words = {"size": entries, "exec_prerun": f": >{shlex.quote(str(begun))} #"}
            options = {**_JOB, **self._more, **options, **words}
            with self._fio.start(folder, pool=pool, options=options) as process:
                self._reset(process, begun, deadline, f"entries {name}")
                result = process.result(max(0.0, deadline - time.monotonic()))
            self._totals.add(name, result)
            self._totals.entries[name] = sum(line.meta_ops for line in result.stats)
            self._hold(name, entries if there else 0, entries)
            if self._totals.troubles:
                return
        if not self._totals.faults[FaultKind.RESET]:
            self._totals.troubles.append(
                "no connection was reset: the passes were shorter than a second, or this kernel"
                " resets none (CONFIG_INET_DIAG_DESTROY)"
            )

    def _reset(self, process: FioProcess, begun: Path, deadline: float, what: str) -> None:
        """Close the connections of one address after the other, one each second."""
        begin = time.monotonic()
        resets = 0
        for path in itertools.cycle(range(self._lab.config.addresses)):
            process.wait(_RESET_SECONDS)
            now = time.monotonic()
            if not process.running or now > deadline:
                break
            self._meter.show(f"{what}: {now - begin:.0f} s, {resets} resets", 0)
            if begun.exists():
                resets += self._faults.begin(FaultKind.RESET, path)
        self._totals.faults[FaultKind.RESET] += resets

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
