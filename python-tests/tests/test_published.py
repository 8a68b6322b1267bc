# SPDX-License-Identifier: GPL-2.0-only
"""results/README.md: every published figure has its row, with a reference run or without."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import made_runs
import pytest

from nfsmulti.errors import HarnessError
from nfsmulti.paths import RESULTS
from nfsmulti.report import published

# Every figure of the publications, as they print it.
_FIGURES = (
    "43.20 s, 19.4 MB/s", "30.86 s, 27.2 MB/s", "55 s, 72 MB/s in sum", "6.02 s, 139 MB/s",
    "8.56 s, 98.0 MB/s", "100 MB/s", "4.20 s, 2.0 GB/s", "718 MB/s", "1,100 MB/s", "523 MB/s",
    "1,094 MB/s", "995, 957, 1274, 952 MiB/s", "4178 MiB/s (4381 MB/s), 66.8k IOPS",
    "478, 497, 371, 500 µs", "318 to 375 µs", "1,400 to 3,700 µs", "3.7 to 4.7 %", "24 to 36 %",
    "no gain, or a loss", "a large gain", "rises", "1.0 (the scale)", "under 0.1 ms more",
    "118 MB/s", "117 MB/s", "9.137 s", "18.274 s", "36.547 s", "84.1 MB/s", "82.5 MB/s",
)  # fmt: skip


def _rows(results: Path) -> list[list[str]]:
    text = published.write(results).read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_published_figure_has_a_row(tmp_path: Path) -> None:
    rows = _rows(tmp_path)
    assert {row[2] for row in rows[2:]} >= set(_FIGURES)
    assert {row[4] for row in rows[2:]} == {"no reference run"}
    assert "There are none yet" in (tmp_path / "README.md").read_text()


def test_reference_runs_fill_their_rows(tmp_path: Path) -> None:
    made_runs.saved(made_runs.dd(), tmp_path / "reference" / "dd")
    made_runs.saved(made_runs.dd(slower=3), tmp_path / "reference" / "dd-again")
    (tmp_path / "reference" / "client-cost").mkdir()
    rows = {(row[0], row[1]): row for row in _rows(tmp_path)}
    row = rows["dd", "AIX (capped), write, 5 streams"]
    assert row[3] == "3.71"
    assert row[4].endswith(" 73.0 MB/s")
    assert row[5].startswith("5.0")
    assert row[8] == "lab nfs://10.77.0.[1-5]/export (link 1gbit; per_address 120mbit)"
    assert row[9].endswith("here five times the cap fits into the link.")
    assert rows["dd", "FTP over the same link"][4] == "not in the reference run"
    assert rows["fsperf", "NFSv3 mounts, 1 path"][4] == "no reference run"
    text = (tmp_path / "README.md").read_text()
    assert "| [dd](reference/dd/report.md) | 2026-11-20T17:00:00Z | 60 of 60 |" in text


def test_reference_of_an_unknown_scenario_is_refused(tmp_path: Path) -> None:
    summary = dataclasses.replace(made_runs.dd(1), scenario="other")
    made_runs.saved(summary, tmp_path / "reference" / "other")
    with pytest.raises(HarnessError, match="no report for scenario 'other'"):
        published.write(tmp_path)


def test_readme_is_up_to_date(tmp_path: Path) -> None:
    """A reference run that came later, or a report that changed, shows in results/README.md."""
    (tmp_path / "reference").symlink_to(RESULTS / "reference")
    assert published.write(tmp_path).read_text() == (RESULTS / "README.md").read_text()
