# SPDX-License-Identifier: GPL-2.0-only
"""What a run will need of a user's servers, and whether they can give it, before its first cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rich import filesize

from nfsmulti import export
from nfsmulti.errors import HarnessError
from nfsmulti.export import PathInfo
from nfsmulti.hosts import parse_hosts
from nfsmulti.run.place import OnPool
from nfsmulti.run.plan import Plan, jobfile_jobs
from nfsmulti.stories import CellSpec
from nfsmulti.summary import Factor
from nfsmulti.units import parse_size

_READS = ("read", "randread")


@dataclass(frozen=True)
class Needs:
    """What a run makes at most: bytes of all its files together, and files and directories.

    `certain` are those of the entries that are made however slow the server is.
    """

    bytes: int
    entries: int
    certain: int

    def text(self) -> str:
        """Say it in a few words."""
        return f"up to {filesize.decimal(self.bytes)} in {self.entries:,} files"


def needs(plan: Plan) -> Needs:
    """Count what all cells make: a file that several use, once, in its largest size."""
    hosts = len(parse_hosts(plan.hosts)) if plan.hosts else 1
    files: dict[str, int] = {}
    entries = certain = 0
    for planned in plan.cells:
        spec = planned.spec
        if spec.entries:  # each cell removes its own
            entries = max(entries, _entries(spec))
            if spec.client == "mount" or spec.entries == "uses":
                certain = max(certain, _entries(spec))
            continue
        for name, size in _files(spec, hosts):
            files[name] = max(size, files.get(name, 0))
    return Needs(sum(files.values()), len(files) + entries, len(files) + certain)


def _entries(spec: CellSpec) -> int:
    """Give the most entries of a metadata cell."""
    options = spec.options
    if spec.client == "mount":
        return int(str(options["nrfiles"])) * int(str(options["numjobs"]))
    return int(str(options.get("size", "0k")).removesuffix("k"))


def _files(spec: CellSpec, hosts: int) -> Iterator[tuple[str, int]]:
    """Give each file of a cell's jobs with its bytes; each host has its own of those it writes."""
    for job, own in jobfile_jobs(spec.jobfile, spec.jobs).items():
        options = {**own, **spec.options}
        size = parse_size(str(options.get("filesize") or options.get("size")))
        shared = options.get("rw", "read") in _READS
        for host in range(1 if shared else hosts):
            for number in range(int(options.get("numjobs") or 1)):
                yield f"{host}/{_name(job, number, options)}", size


def _name(job: str, number: int, options: Mapping[str, Factor | None]) -> str:
    """Give the name of a job's file, as fio makes it."""
    pattern = options.get("filename") or options.get("filename_format") or "$jobname.$jobnum"
    return str(pattern).replace("$jobname", job).replace("$jobnum", str(number))


def check(plan: Plan, place: OnPool, say: Callable[[str], None]) -> Needs:
    """See whether the servers of a run's pool can give what it needs, and say what they have.

    They are asked in each version and over each transport that cells use. Raises HarnessError, with
    a remedy, for the first thing that is in the way.
    """
    wanted = needs(plan)
    by_pool = (planned.spec for planned in plan.cells if planned.spec.client == "pool")
    pools = dict.fromkeys(map(place.as_asked, by_pool)) or [plan.pool or ""]
    found = [path for pool in pools for path in export.info(pool)]
    for path in found:
        _check_path(path, wanted)
    for line, labels in _alike(found).items():
        say(f"{', '.join(labels)}: {line}")
    return wanted


def _check_path(path: PathInfo, wanted: Needs) -> None:
    if path.error:
        raise HarnessError(f"{path.label}: {path.error}", path.remedy)
    if path.may_write is False:
        raise HarnessError(
            f"{path.label}: a run makes files, and this user may make none there",
            path.remedy or "allow this host and user to write, or name an export that does",
        )
    if path.bytes_available is not None and path.bytes_available < wanted.bytes:
        raise HarnessError(
            f"{path.label}: the run needs {filesize.decimal(wanted.bytes)}, and"
            f" {filesize.decimal(path.bytes_available)} are free",
            "make room, give a smaller --size, or measure on a larger export",
        )
    if path.files_available is not None and path.files_available < wanted.certain:
        raise HarnessError(
            f"{path.label}: the run makes {wanted.certain:,} files, and there is room for"
            f" {path.files_available:,}",
            "make room, or measure on a larger export",
        )


def _alike(found: list[PathInfo]) -> dict[str, dict[str, None]]:
    """Give what paths have, in a line, with the paths that have the same."""
    lines: dict[str, dict[str, None]] = {}
    for path in found:
        free = "room unknown"
        if path.bytes_available is not None:
            free = f"{filesize.decimal(path.bytes_available)} free"
        how = "directory"
        if path.version != "mount":
            sizes = f"READ {path.read_max >> 10} KiB, WRITE {path.write_max >> 10} KiB"
            how = f"NFSv{path.version} over {path.proto.upper()}, {sizes}"
        lines.setdefault(f"{how}, {free}", {})[path.label] = None  # once
    return lines
