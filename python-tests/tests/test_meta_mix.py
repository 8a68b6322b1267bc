# SPDX-License-Identifier: GPL-2.0-only
"""Metadata jobs with several operations: the figures of each kind, and meta_mix=."""

import errno
import math
import re
from collections.abc import Sequence

import pytest
from engine_c import CData, zeros
from engine_helpers import Place, done, job_of, refused, said, sections
from hypothesis import given
from hypothesis import strategies as st
from scripted_jobs import Run

from nfsmulti.fiorun import FioResult, OperationStats, Option
from servers.scripted import Answer, Nfs, Status, on

_ENTRIES = 200
_JOB: dict[str, Option] = {
    "metadata": 1, "rw": "randrw", "bs": 1, "size": _ENTRIES, "iodepth": 16, "dir_entries": 50,
    "filename": "tree",
}  # fmt: skip
_PERCENTILES = ("p50_us", "p95_us", "p99_us", "p99_9_us", "p99_99_us", "max_us")


def _expect_sound(line: OperationStats) -> None:
    latencies = [getattr(line, name) for name in _PERCENTILES]
    assert latencies == sorted(latencies)
    assert bool(line.ops) == (line.iops > 0) == (line.mean_us > 0)
    assert line.mean_us <= line.max_us


def _by_kind(result: FioResult) -> dict[str, OperationStats]:
    """Return the figures of a run's only job, and expect them to be sound."""
    done(result)
    found = {line.operation: line for line in result.operations}
    assert len(found) == len(result.operations)
    for line in found.values():
        _expect_sound(line)
    return found


# --- figures ---


@pytest.mark.sanitized
@given(values=st.lists(st.integers(0, 2**44 - 1), min_size=1), percent=st.floats(0, 100))
def test_percentiles_are_off_by_less_than_one_per_cent(
    testlib: CData, values: Sequence[int], percent: float
) -> None:
    histogram = zeros("histogram")
    for value in values:
        testlib.histogram_add(histogram, value)
    rank = max(1, math.ceil(percent / 100 * len(values)))
    told = testlib.histogram_percentile(histogram, percent)
    assert told == pytest.approx(sorted(values)[rank - 1], rel=0.01, abs=0)
    assert testlib.histogram_mean(histogram) == sum(values) // len(values)


def test_no_value_is_too_large(testlib: CData) -> None:
    histogram = zeros("histogram")
    testlib.histogram_add(histogram, 2**64 - 1)
    part = histogram.parts[testlib.HISTOGRAM_PARTS - 1]
    assert part[testlib.HISTOGRAM_PART - 1] == 1
    assert testlib.histogram_percentile(histogram, 50) >= 2**43


def test_each_job_has_figures_of_each_kind_of_operation(export: Place) -> None:
    thread = int(export.kind == "nfs4")
    result = export.fio(**_JOB, meta_write="setattr", rwmixread=70, numjobs=4, thread=thread)
    report = done(result)
    assert said(result) == []
    expected = {(job, kind) for job in range(4) for kind in ("getattr", "setattr")}
    assert {(line.job_number, line.operation) for line in result.operations} == expected
    assert len(result.operations) == len(expected)
    done_by_fio = {"getattr": report.operations("read"), "setattr": report.operations("write")}
    for kind, operations in done_by_fio.items():
        lines = [line for line in result.operations if line.operation == kind]
        assert sum(line.ops for line in lines) == operations
        for line in lines:
            _expect_sound(line)
            told = rf" {kind}: {line.ops} done, 0 errors, IOPS=.*, p99\.99=[0-9.]+$"
            assert re.search(told, result.messages, re.MULTILINE)
    assert sum(line.ops for line in result.operations) == 4 * _ENTRIES


def test_latencies_hold_the_servers_delay(job: Run) -> None:
    """Where a removal has to make an entry first, the CREATE's delay is not the REMOVE's."""
    delay = 0.1
    removals = {**_JOB, "size": 32, "rw": "randwrite", "meta_mix": "remove:1"}
    result = job(on(Nfs.CREATE, Answer(delay=delay)), **removals).result
    found = _by_kind(result)
    assert {kind: line.ops for kind, line in found.items()} == {"create": 32, "remove": 32}
    assert delay * 1e6 <= found["create"].mean_us <= result.seconds * 1e6
    assert found["remove"].p50_us < found["create"].p50_us


# --- meta_mix ---

_MIX = "getattr:50,lookup:15,readdir:5,setattr:5,create:15,remove:10"
_LEFT = re.compile(
    r"meta_mix: beside the job's entries, (\d+) files and (\d+) directories are left; "
    r"(\d+) removals had to make an entry first"
)


def _left(result: FioResult) -> tuple[int, int, int]:
    """Return the files and directories that a job has told it left, and what removals made."""
    (found,) = _LEFT.findall(result.messages)
    return int(found[0]), int(found[1]), int(found[2])


def _names(place: Place) -> tuple[list[str], list[str]]:
    """Name the job's entries that are there, and those beside them."""
    found = [path.name for path in (place.files / "tree").glob("d*/*")]
    return sorted(n for n in found if n[0] == "e"), sorted(n for n in found if n[0] != "e")


def _expect_share(part: int, of: int, share: float) -> None:
    """Expect a binomial count, within five standard deviations."""
    assert abs(part - of * share) <= 5 * math.sqrt(of * share * (1 - share))


def test_operations_by_weight(export: Place) -> None:
    size = 2000
    spread: dict[str, Option] = {"nconnect": 2, "spread": "stripe", "stripe_size": 50}
    result = export.fio(**{**_JOB, **spread, "size": size, "meta_mix": _MIX})
    report, found = done(result), _by_kind(result)
    assert said(result) == []
    files, directories, made_first = _left(result)
    reads, writes = report.operations("read"), report.operations("write")
    assert reads + writes == size
    assert reads == pytest.approx(0.7 * size, rel=0.05)  # fio's own draw
    assert sum(found[name].ops for name in ("getattr", "lookup", "readdir")) == reads
    drawn = {name: line.ops for name, line in found.items()}
    drawn["create"] -= made_first
    assert drawn["setattr"] + drawn["create"] + drawn["remove"] == writes
    for name, share in {"getattr": 50 / 70, "lookup": 15 / 70, "readdir": 5 / 70}.items():
        _expect_share(drawn[name], reads, share)
    for name, share in {"setattr": 5 / 30, "create": 15 / 30, "remove": 10 / 30}.items():
        _expect_share(drawn[name], writes, share)
    own, beside = _names(export)
    assert len(own) == size
    assert (len(beside), directories) == (files, 0)
    assert files == found["create"].ops - found["remove"].ops


def _traced(place: Place, **options: Option) -> list[tuple[str, str]]:
    """Run a job of one I/O at a time; return each operation and its entry."""
    result = place.fio.well(**{**_JOB, "iodepth": 1, "trace": 1, **options})
    return re.findall(r'"tree" (\w+) \d+@(\d+)', result.messages)


def test_the_same_seed_draws_the_same_operations(exported: Place) -> None:
    def names(**options: Option) -> list[str]:
        return [operation for operation, _ in _traced(exported, meta_mix=_MIX, **options)]

    first = names()
    assert names() == first != names(randseed=7)
    assert names(randrepeat=0) != first


def test_removals_take_the_oldest_first(exported: Place) -> None:
    """Also once so many are there that the list of them has grown (from 1,024)."""
    traced = _traced(exported, meta_mix="create:3,remove:1", rw="randwrite", size=3000)
    created = [entry for operation, entry in traced if operation == "create"]
    removed = [entry for operation, entry in traced if operation == "remove"]
    assert removed == created[: len(removed)]
    assert len(created) > 2 * len(removed) > 1000


@pytest.mark.parametrize(("make", "remove"), [("create", "remove"), ("mkdir", "rmdir")])
def test_what_is_not_there_is_made_before_it_is_removed(
    exported: Place, make: str, remove: str
) -> None:
    """One at a time, every removal finds nothing: its I/O is two operations."""
    job: dict[str, Option] = {**_JOB, "rw": "randwrite", "iodepth": 1, "size": 60}
    result = exported.fio(**job, meta_mix=f"{remove}:1")
    found = _by_kind(result)
    assert {name: line.ops for name, line in found.items()} == {make: 60, remove: 60}
    assert _left(result) == (0, 0, 60)
    assert _names(exported) == ([], [])
    result = exported.fio(**job, meta_mix=f"{make}:1")
    assert _by_kind(result)[make].ops == 60
    own, beside = _names(exported)
    assert own == []
    assert len(beside) == 60 == sum(_left(result))


def test_jobs_that_share_directories_do_not_meet(exported: Place) -> None:
    """Nor do they meet what an earlier run has left; files are opened again by each loop."""
    job: dict[str, Option] = {**_JOB, "meta_mix": _MIX, "numjobs": 3, "loops": 2}
    left = 0
    for _ in range(2):
        result = exported.fio.well(**job)
        assert said(result) == []
        left += sum(int(found[0]) for found in _LEFT.findall(result.messages))
    assert (len(_names(exported)[0]), len(_names(exported)[1])) == (_ENTRIES, left)


@pytest.mark.parametrize(
    ("mix", "how"),
    [
        ("getattr:1,lookup:1", {"rw": "randread"}),
        ("setattr:1", {"rw": "randwrite"}),
        ("getattr:2,setattr:1", {"rwmixread": 67}),  # as the weights have it
    ],
)
def test_a_mix_that_fits_its_job(exported: Place, mix: str, how: dict[str, Option]) -> None:
    result = exported.fio(**{**_JOB, **how, "meta_mix": mix})
    found = _by_kind(result)
    assert sum(line.ops for line in found.values()) == _ENTRIES
    for kind in found:  # of a single kind fio tells all there is
        assert (f" {kind}: " in result.messages) == (len(found) > 1)
    assert said(result) == []
    assert _names(exported)[1] == []


_WRITE_40: dict[str, Option] = {**_JOB, "rw": "randwrite", "iodepth": 1, "size": 40}


@pytest.mark.sanitized
def test_a_new_entry_that_cannot_be_made(job: Run) -> None:
    """The removal for which it was to be made does not follow."""
    full = on(Nfs.CREATE, Answer(act=False, status=Status.NOSPC), after=10)
    says = ("No space left on device", "no room for more")
    ran = job(full, **_WRITE_40, meta_mix="remove:1", error=errno.ENOSPC, says=says)
    name = ran.calls(Nfs.CREATE)[10].file.removeprefix("tree/")
    assert f'create of entry "{name}" below "tree": No space left' in ran.result.messages
    found = {line.operation: (line.ops, line.errors) for line in ran.result.operations}
    assert found == {"create": (10, 1), "remove": (10, 0)}
    (told,) = (line for line in ran.said() if " done, " in line)
    assert " create: 10 done, 1 errors" in told


@pytest.mark.sanitized
def test_a_notice_names_the_new_entry(job: Run) -> None:
    """By what its directory shows: its number means nothing to anybody."""
    odd = on(Nfs.CREATE, Answer(attributes=2), nth=3)
    ran = job(odd, **_WRITE_40, meta_mix="create:1", error=errno.EPROTO)
    name = ran.calls(Nfs.CREATE)[2].file.removeprefix("tree/")
    words = f'CREATE of entry "{name}" below "tree": the reply contradicts'
    assert words in ran.result.messages


def test_a_refused_open_refuses_no_other_job(exported: Place) -> None:
    """Jobs that are set up over the same paths do not share the refusal."""
    jobs = sections(a={"meta_read": "open"}, b={"stonewall": None})
    words = [f"--{key}={value}" for key, value in _JOB.items() if key != "rw"]
    result = exported.fio(arguments=[*words, "--rw=randread", *jobs])
    refused(result, "nfsmulti: a: ", "NFSv3 has no OPEN")
    assert result.report is not None
    assert job_of(result.report, "b")["read"]["total_ios"] == _ENTRIES
