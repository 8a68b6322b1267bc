# SPDX-License-Identifier: GPL-2.0-only
"""fiorun.py: fio under control, and the figures in its report."""

import re
from pathlib import Path

import pytest
from conftest import FioRunner

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import ConnectionStats, FioReport, FioResult, shares
from nfsmulti.paths import JOBFILES


def _job(runtime: int, latencies: dict[int, int]) -> dict[str, object]:
    count = sum(latencies.values())
    mean = sum(latency * seen for latency, seen in latencies.items()) / count
    clat = {"N": count, "mean": mean, "bins": {str(k): v for k, v in latencies.items()}}
    read = {"runtime": runtime, "io_bytes": 1000 * count, "total_ios": count, "clat_ns": clat}
    cpu = {"usr_cpu": 10.0, "sys_cpu": 40.0, "job_runtime": runtime}
    return {"error": 0, "read": read, **cpu}


def test_report_sums_jobs_and_merges_percentiles() -> None:
    jobs = [_job(2000, {100: 98, 900: 2}), _job(1000, {100: 50, 500: 50})]
    report = FioReport({"jobs": jobs})
    assert report.bytes("read") == 200_000
    assert report.bandwidth("read") == 100_000
    assert report.iops("read") == 100
    assert report.latency_mean("read") == pytest.approx((148 * 100 + 50 * 500 + 2 * 900) / 200)
    assert report.latency_percentile("read", 50) == 100
    assert report.latency_percentile("read", 99) == 500
    assert report.latency_percentile("read", 100) == 900
    assert report.cpu_seconds() == pytest.approx(1.5)


def test_report_after_messages_and_without_one() -> None:
    output = 'engine: {something}\n{\n "jobs": []\n}\nmore'
    report = FioReport.parse(output)
    assert report is not None
    assert report.jobs == []
    assert FioReport.messages_of(output) == "engine: {something}"
    complaint = "fio: select() call in helper thread failed: Interrupted system call"
    assert FioReport.parse(f'{complaint}{{\n "jobs": []\n}}') == report
    assert FioReport.messages_of(f"{complaint}{{\n}}") == complaint
    assert FioReport.parse("fio: refused") is None
    assert FioReport.parse('{\n "jobs": [') is None


@pytest.mark.parametrize(
    ("output", "stderr", "reason"),
    [
        ("fio: pid=9, err=5/", "nfsmulti: a: 2 connections on 1 path: 9 reads\nnfsmulti: a: gone",
         "nfsmulti: a: gone"),
        ("other\nfio: refused", "", "fio: refused"),
        ("<10.0.0.1> Bad option <x>\n", "hostname=a, be=0\nx : Saving output of prerun in a",
         "Bad option <x>"),
        ("", "\n", "it said nothing"),
    ],
)  # fmt: skip
def test_a_failed_run_is_told_by_the_line_that_says_why(
    output: str, stderr: str, reason: str
) -> None:
    """By the engine's before fio's; not by what jobs have done, nor by what is said beside."""
    assert FioResult([], 1, 0.1, output, stderr, None, [], Path()).reason == reason


def test_broken_stats_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "stats.jsonl"
    whole = (
        ('{"job": "a"}', "job_number"),
        ("{", "JSON"),
        *((one, "object") for one in ("5", "[]")),
    )
    for line, why in whole:
        file.write_text(line + "\n")
        with pytest.raises(HarnessError, match=rf"stats\.jsonl, line 1: .*{why}"):
            ConnectionStats.read(file)
    assert ConnectionStats.read(tmp_path / "none") == []


def _short(jobfile: Path, size: str, folder: Path) -> Path:
    """Return a job file with less to do."""
    text = jobfile.read_text().replace("runtime=30", "runtime=200ms")
    short = folder / jobfile.name
    short.write_text(re.sub("^size=.*", f"size={size}", text, flags=re.MULTILINE))
    return short


_METADATA = sorted(JOBFILES.glob("metadata-*.fio"))
_DATA = sorted(set(JOBFILES.glob("*.fio")) - set(_METADATA))


@pytest.mark.parametrize("jobfile", _DATA, ids=lambda path: path.stem)
def test_jobfiles_on_one_path_and_the_pool_by_name(
    fio: FioRunner, jobfile: Path, tmp_path: Path
) -> None:
    short = _short(jobfile, "8m", tmp_path)
    for pool, spread in (("one", "job"), ("lab", "roundrobin")):
        result = fio(pool=pool, jobfile=short, spread=spread, io_size="2m")
        assert result.status == 0, result.messages
        assert result.report is not None
        assert len(shares(result.stats)) == (1 if pool == "one" else 4)


def test_metadata_jobfiles_one_after_another(fio: FioRunner, tmp_path: Path) -> None:
    """All work on the same entries: were one left by a remove, the create after it would fail."""
    short = {path.stem: _short(path, "200", tmp_path) for path in _METADATA}
    for name in ("create", "stat", "mixed", "remove") * 2:
        result = fio(pool="lab", jobfile=short[f"metadata-{name}"], spread="roundrobin")
        assert result.status == 0, result.messages
        if name in ("create", "remove"):  # the others run for a time
            assert sum(line.meta_ops for line in result.stats) == 200
    for operation in ("create", "remove") * 2:
        result = fio(pool="lab", jobfile=short["metadata-shared"], meta_write=operation)
        assert result.status == 0, result.messages
        assert sum(line.meta_ops for line in result.stats) == 2 * 4 * 200
