# SPDX-License-Identifier: GPL-2.0-only
"""Metadata jobs with several operations: the figures of each kind, and meta_mix=."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Sequence

import pytest
from engine_helpers import Place, done, fixture_of_places, said
from hypothesis import given
from hypothesis import strategies as st

from nfsmulti.fiorun import FioResult, OperationStats, Option

place = fixture_of_places("nfs", "nfs4")

_ENTRIES = 200
_JOB: dict[str, Option] = {
    "metadata": 1,
    "rw": "randrw",
    "bs": 1,
    "size": _ENTRIES,
    "iodepth": 16,
    "dir_entries": 50,
    "filename": "tree",
}
_PERCENTILES = ("p50_us", "p95_us", "p99_us", "p99_9_us", "p99_99_us", "max_us")


def _by_kind(result: FioResult) -> dict[str, OperationStats]:
    """Give the figures of a run's only job, and expect them to be sound."""
    done(result)
    found = {line.operation: line for line in result.operations}
    assert len(found) == len(result.operations)
    for line in found.values():
        latencies = [getattr(line, name) for name in _PERCENTILES]
        assert latencies == sorted(latencies)
        assert bool(line.ops) == (line.iops > 0) == (line.mean_us > 0)
        assert line.mean_us <= line.max_us
    return found


# --- figures ---

_BINS = (44 - 6 + 1) << 6


class _Histogram(ctypes.Structure):
    """struct histogram."""

    _fields_ = (
        ("count", ctypes.c_uint64),
        ("sum", ctypes.c_uint64),
        ("max", ctypes.c_uint64),
        ("bins", ctypes.c_uint64 * _BINS),
    )


@pytest.mark.sanitized
@given(
    values=st.lists(st.integers(0, 2**44 - 1), min_size=1),
    percent=st.floats(0, 100),
)
def test_percentiles_are_off_by_less_than_two_per_cent(
    testlib: ctypes.CDLL, values: Sequence[int], percent: float
) -> None:
    testlib.histogram_percentile.restype = ctypes.c_uint64
    testlib.histogram_mean.restype = ctypes.c_uint64
    histogram = _Histogram()
    for value in values:
        testlib.histogram_add(ctypes.byref(histogram), ctypes.c_uint64(value))
    rank = max(1, math.ceil(percent / 100 * len(values)))
    exact = sorted(values)[rank - 1]
    given_ = testlib.histogram_percentile(ctypes.byref(histogram), ctypes.c_double(percent))
    assert given_ == pytest.approx(exact, rel=0.02, abs=0)
    assert testlib.histogram_mean(ctypes.byref(histogram)) == sum(values) // len(values)


def test_no_value_is_too_large(testlib: ctypes.CDLL) -> None:
    testlib.histogram_percentile.restype = ctypes.c_uint64
    histogram = _Histogram()
    testlib.histogram_add(ctypes.byref(histogram), ctypes.c_uint64(2**64 - 1))
    assert histogram.bins[_BINS - 1] == 1
    assert testlib.histogram_percentile(ctypes.byref(histogram), ctypes.c_double(50)) >= 2**43


def test_figures_of_each_kind_of_operation(place: Place) -> None:
    result = place.fio(**_JOB, meta_write="setattr", rwmixread=70)
    found = _by_kind(result)
    assert set(found) == {"getattr", "setattr"}
    report = done(result)
    assert found["getattr"].ops == report.operations("read")
    assert found["setattr"].ops == report.operations("write")
    assert said(result) == []
    for kind in found:
        assert f" {kind}: {found[kind].ops} done, 0 errors, IOPS=" in result.messages


def test_latencies_are_about_those_of_fio(place: Place) -> None:
    """Those of fio end somewhat later, and are of another clock."""
    result = place.fio(**{**_JOB, "rw": "randread", "size": 2000})
    (line,) = _by_kind(result).values()
    assert line.mean_us * 1000 == pytest.approx(done(result).latency_mean("read"), rel=0.25)
    assert " getattr: " not in result.messages  # of a single kind fio tells all there is


@pytest.mark.parametrize("thread", [0, 1])
def test_each_job_has_lines_of_its_own(place: Place, thread: int) -> None:
    result = place.fio(**_JOB, meta_write="setattr", numjobs=4, thread=thread)
    done(result)
    lines = [json.loads(line) for line in (result.folder / "stats.jsonl").read_text().splitlines()]
    kinds = [(line["job_number"], line.get("operation", "connection")) for line in lines]
    assert sorted(kinds) == sorted(
        (number, kind) for number in range(4) for kind in ("connection", "getattr", "setattr")
    )
    assert sum(line.ops for line in result.operations) == 4 * _ENTRIES


def test_errors_are_counted_apart(place: Place) -> None:
    """Every entry but one is there already, which is not an error of fio's to end the job."""
    job: dict[str, Option] = {**_JOB, "rw": "write", "iodepth": 1, "size": 20}
    done(place.fio(**job))
    goes_on: dict[str, Option] = {"continue_on_error": "write", "ignore_error": "EEXIST,EEXIST"}
    result = place.fio(**{**job, **goes_on, "size": 21})
    (line,) = result.operations
    assert (line.ops, line.errors) == (1, 20)


def test_data_jobs_have_no_operations(place: Place) -> None:
    result = place.fio(rw="write", bs="64k", size="1m", filename="f")
    done(result)
    assert result.operations == []
    assert "kind" not in (result.folder / "stats.jsonl").read_text()
