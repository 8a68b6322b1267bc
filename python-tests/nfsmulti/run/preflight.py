# SPDX-License-Identifier: GPL-2.0-only
"""What a run will need of a user's servers, and whether they can give it, before its first cell."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nfsmulti import doctor, export
from nfsmulti.errors import HarnessError
from nfsmulti.export import PathInfo
from nfsmulti.hosts import parse_hosts
from nfsmulti.run.place import OnPool
from nfsmulti.run.plan import Plan, jobfile_jobs
from nfsmulti.scenario import CellSpec
from nfsmulti.texts import amount
from nfsmulti.units import parse_size

_READS = ("read", "randread")
# A host, from 0; what the names of a job's files are made of; and which of them it is.
_File = tuple[int, str, int]


@dataclass(frozen=True)
class Needs:
    """What a run makes at most: bytes of all its files together, and files and directories.

    `certain` are those of the entries that are made however slow the server is. `pool` is what the
    servers can be reached by.
    """

    bytes: int
    entries: int
    certain: int
    pool: str = ""

    def text(self) -> str:
        """Say it in a few words."""
        return f"up to {amount(self.bytes)} in {self.entries:,} files"


def needs(plan: Plan) -> Needs:
    """Count what all cells make: a file that several use, once, in its largest size."""
    hosts = len(parse_hosts(plan.hosts)) if plan.hosts else 1
    files: dict[_File, int] = {}
    entries = certain = 0
    for planned in plan.cells:
        spec = planned.spec
        if spec.entries:  # each cell removes its own
            entries = max(entries, _entries(spec))
            if spec.client == "mount" or spec.entries == "uses":
                certain = max(certain, _entries(spec))
            continue
        for file, size in _files(spec, hosts):
            files[file] = max(size, files.get(file, 0))
    return Needs(sum(files.values()), len(files) + entries, len(files) + certain)


def _entries(spec: CellSpec) -> int:
    """Return the most entries of a metadata cell."""
    options = spec.options
    if spec.client == "mount":
        return int(str(options["nrfiles"])) * int(str(options["numjobs"]))
    return int(str(options.get("size", "0k")).removesuffix("k"))


def _files(spec: CellSpec, hosts: int) -> Iterator[tuple[_File, int]]:
    """Yield each file of a cell's jobs with its bytes; each host has its own of those it writes.

    Where a job has no `filename`, each of its clones has a file.
    """
    for job, own in jobfile_jobs(spec.jobfile, spec.jobs).items():
        options = {**own, **spec.options}
        size = parse_size(str(options.get("filesize") or options.get("size")))
        name = options.get("filename")
        clones = 1 if name else int(options.get("numjobs") or 1)
        shared = options.get("rw", "read") in _READS
        for host, clone in itertools.product(range(1 if shared else hosts), range(clones)):
            yield (host, str(name or options.get("filename_format") or job), clone), size


def check(plan: Plan, place: OnPool, say: Callable[[str], None]) -> Needs:
    """See whether the servers of a run's pool can give what it needs, and say what they have.

    Raises HarnessError, with a remedy, for the first thing that is in the way.
    """
    wanted = needs(plan)
    pool, found = reach(plan, place)
    for path in found:
        _check_path(path, wanted)
    for line, labels in _alike(found).items():
        say(f"{', '.join(labels)}: {line}")
    return replace(wanted, pool=pool)


def reach(plan: Plan, place: OnPool) -> tuple[str, list[PathInfo]]:
    """Ask a run's pool, in each version and over each transport that cells use.

    Of what cells have that a server may lack, the first that works is enough. Gives the pool as it
    was asked first, and what is on each path. Raises HarnessError, in the doctor's words.
    """
    by_pool = [planned.spec for planned in plan.cells if planned.spec.client == "pool"]
    sure = dict.fromkeys(place.as_asked(spec) for spec in by_pool if not spec.optional)
    perhaps = dict.fromkeys(place.as_asked(spec) for spec in by_pool if spec.optional)
    works = (pool for pool in perhaps if not any(path.error for path in export.info(pool)))
    first = itertools.islice(itertools.chain(works, perhaps), 1)  # where none works, of all
    pools = [*sure, *first] or [plan.pool or ""]
    return pools[0], [path for pool in pools for path in doctor.usable(pool)]


def _check_path(path: PathInfo, wanted: Needs) -> None:
    if path.may_write is False:
        raise HarnessError(
            f"{path.label}: a run makes files, and this user may make none there",
            path.remedy or "allow this host and user to write, or name an export that does",
        )
    if path.bytes_available is not None and path.bytes_available < wanted.bytes:
        raise HarnessError(
            f"{path.label}: the run needs {amount(wanted.bytes)}, and"
            f" {amount(path.bytes_available)} are free",
            "make room, give a smaller --size, or measure on a larger export",
        )
    if path.files_available is not None and path.files_available < wanted.certain:
        raise HarnessError(
            f"{path.label}: the run makes {wanted.certain:,} files, and there is room for"
            f" {path.files_available:,}",
            "make room, or measure on a larger export",
        )


def _alike(found: list[PathInfo]) -> dict[str, dict[str, None]]:
    """Return what paths have, in a line, with the paths that have the same."""
    lines: dict[str, dict[str, None]] = {}
    for path in found:
        free = "room unknown"
        if path.bytes_available is not None:
            free = f"{amount(path.bytes_available)} free"
        how = "directory"
        if path.version != "mount":
            sizes = f"READ {path.read_max >> 10} KiB, WRITE {path.write_max >> 10} KiB"
            how = f"NFSv{path.version} over {path.proto.upper()}, {sizes}"
        lines.setdefault(f"{how}, {free}", {})[path.label] = None  # once
    return lines
