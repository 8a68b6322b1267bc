# SPDX-License-Identifier: GPL-2.0-only
"""How much every cell moves where a user says so, and what of it a server's memory holds."""

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nfsmulti.errors import HarnessError
from nfsmulti.run.plan import jobfile_jobs
from nfsmulti.run.watch import by_command
from nfsmulti.scenario import CellSpec, timed
from nfsmulti.summary import Summary
from nfsmulti.units import parse_size, size_text

# What fio calls them.
_OPTIONS = {"size": "size", "depth": "iodepth", "bs": "bs"}


@dataclass(frozen=True)
class Amounts:
    """Bytes of each file, seconds of each cell, I/Os in flight per job, bytes of an I/O."""

    size: int | None = None
    runtime: float | None = None
    depth: int | None = None
    bs: int | None = None

    @property
    def given(self) -> dict[str, int | float]:
        """Those that a user has given."""
        return {name: value for name, value in vars(self).items() if value}

    def of(self, specs: Sequence[CellSpec]) -> list[CellSpec]:
        """Return the cells with these amounts. Raises HarnessError where cells differ in one."""
        for name in self.given.keys() & _OPTIONS.keys():
            if any(spec.entries for spec in specs) and name != "depth":
                raise HarnessError(f"--{name}: entries have no bytes", "leave it out for metadata")
            if len(_values(specs, _OPTIONS[name])) > 1:
                raise HarnessError(
                    f"--{name}: the cells of this scenario differ in it",
                    "leave it out; run connections takes it",
                )
        return [self._of(spec) for spec in specs]

    def _of(self, spec: CellSpec) -> CellSpec:
        options, seconds = dict(spec.options), spec.seconds
        factors, files = spec.factors, spec.files
        if self.size:
            if "time_based" not in options:
                seconds *= self.size / max(map(parse_size, _values([spec], "size")))
            options["size"] = self.size
            if "offset_increment" in options:  # each job has its part of one file
                part = self.size // int(options["numjobs"] or 1)
                options |= {"size": part, "offset_increment": part}
            files = dict.fromkeys(files, self.size)
        if self.runtime:
            seconds = self.runtime
            more = timed(seconds)
            if spec.entries and "time_based" not in options:  # there are only so many
                more.pop("time_based")
            options |= more
        if self.depth:
            options["iodepth"] = self.depth
        if self.bs:
            options["bs"] = self.bs
            if "workload" in factors:  # its name begins with the block size
                name = re.sub(r"^\d+k", size_text(self.bs), str(factors["workload"]))
                factors = {**factors, "workload": name}
        return dataclasses.replace(
            spec, options=options, factors=factors, files=files, seconds=seconds
        )


def _values(specs: Sequence[CellSpec], name: str) -> set[str]:
    """Return the values of an option of fio in these cells; parts of a file are no other size."""
    return {
        str(spec.options.get(name, job.get(name)))
        for spec in specs
        if "offset_increment" not in spec.options or name != "size"
        for job in jobfile_jobs(spec.jobfile, spec.jobs).values()
    }


def server_memory(command: str) -> int | None:
    """Return the bytes of memory of the server that a command leads to; None if it does not tell.

    Nothing but this rests on them: why it fails is told with what each cell asks of the server.
    """
    try:
        told = by_command(command)()
    except HarnessError:
        return None
    found = re.search(r"^MemTotal: +(\d+) kB", told, re.MULTILINE)
    return int(found[1]) << 10 if found else None


def file_bytes(specs: Sequence[CellSpec]) -> int:
    """Return the bytes of all files of the cell that has the most."""
    return max((sum(spec.files.values()) for spec in specs), default=0)


def cached(specs: Sequence[CellSpec], summary: Summary) -> str:
    """Say in a line how the files of a run relate to its server's memory; "" without files."""
    sizes = max((list(spec.files.values()) for spec in specs), key=sum, default=[])
    if not sizes:
        return ""
    files = f"{len(sizes)} files of " if len(sizes) > 1 else "one file of "
    files += f"{sizes[0] >> 20:,} MiB"
    memory, ways = summary.place.get("server_memory"), _values(specs, "rw")
    reads = any(not way.removeprefix("rand").startswith("write") for way in ways)
    if summary.place.get("kind", "pool") != "pool":
        return f"{files}, which the lab's server has in memory"
    if memory is None:
        more = ": a server with more memory than that may read from its cache (--size)"
        return files + (more if reads else "")
    size = f"{memory / (1 << 30):.1f} GiB"
    has = f"the server has {size} of memory"
    if not summary.in_memory:
        return f"{files}, more than the server has: {size} of memory"
    if not reads:
        return f"{files}, and {has}"
    beyond = math.ceil(2 * memory / len(sizes) / (1 << 30))
    return f"{files}, and {has}: reads may come from its cache; --size={beyond}g goes beyond it"
