# SPDX-License-Identifier: GPL-2.0-only
"""results/README.md: every published finding has its row, with a reference run or without."""

import lzma
from pathlib import Path

import made_runs

import made_docs
from nfsmulti.paths import RESULTS
from nfsmulti.report import pages
from nfsmulti.stories import SCENARIOS
from nfsmulti.summary import FILE, Summary

# Every figure of the publications, as they print it.
_FIGURES = (
    "43.20 s, 19.4 MB/s", "30.86 s, 27.2 MB/s", "55 s, 72 MB/s in sum",
    "6.02 s, 139 MB/s, in part into the client's cache",
    "8.56 s, 98.0 MB/s", "100 MB/s", "4.20 s, 2.0 GB/s", "718 MB/s", "1,100 MB/s", "523 MB/s",
    "1,094 MB/s", "995, 957, 1,274 and 952 MiB/s", "4,178 MiB/s (4,381 MB/s), 66.8k IOPS",
    "478, 497, 371, 500 µs", "318 to 375 µs", "1,400 to 3,700 µs", "3.7 to 4.7 %", "24 to 36 %",
    "no gain, or a loss", "a large gain", "rises", "1.0 (the scale)", "under 0.1 ms more",
    "118 MB/s", "117 MB/s", "9.137 s", "18.274 s", "36.547 s", "84.1 MB/s", "82.5 MB/s",
    "4,844 MB/s, buffered", "9,636 MB/s, buffered",
    "590 MB/s under dontcache, 1,561 MB/s after a patch",
)  # fmt: skip


def _rows(results: Path) -> list[list[str]]:
    text = made_docs.write_findings(results).read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_published_figure_is_in_a_report() -> None:
    rows = [
        row
        for scenario in SCENARIOS.values()
        for told in (scenario.report.beside, scenario.report.findings)
        for row in told(pages.nothing(scenario.name))
    ]
    assert {row.theirs for row in rows} >= set(_FIGURES)


def test_every_finding_has_a_row_on_one_page(tmp_path: Path) -> None:
    rows = [row for row in _rows(tmp_path)[2:] if len(row) == 6]
    names = {"dd", "fsperf", "randread", "sio", "oltp", "sweep", "neighbour"}
    assert {row[0] for row in rows} == names
    assert {row[2] for row in rows} == {"not measured", "not testable here"}
    assert len(rows) <= 20


def test_reference_runs_fill_their_rows(tmp_path: Path) -> None:
    made_runs.saved(made_runs.dd(), tmp_path / "reference" / "dd")
    made_runs.saved(made_runs.dd(slower=3), tmp_path / "reference" / "dd-again")
    (tmp_path / "reference" / "client-cost").mkdir()
    rows = _rows(tmp_path)
    (row,) = [row for row in rows if row[0] == "[dd](reference/dd/report.md)" and len(row) == 6]
    assert row[3] == "3.71 times (19.4 to 72 MB/s)"
    assert row[4].startswith("5.0")
    assert row[2] == "reproduced by construction"
    text = (tmp_path / "README.md").read_text()
    where = "lab nfs://10.77.0.[1-5]/export: link 1 Gbit/s, each address 120 Mbit/s"
    assert text.count(f"| 2026-11-20 17:00 UTC | 60 of 60 | {where} |") == 2


def test_a_reference_run_may_be_packed(tmp_path: Path) -> None:
    folder = tmp_path / "reference" / "dd"
    made_runs.saved(made_runs.dd(), folder)
    plain = Summary.load(folder)
    (folder / f"{FILE}.xz").write_bytes(lzma.compress((folder / FILE).read_bytes()))
    (folder / FILE).unlink()
    assert Summary.load(folder) == plain
    assert "(reference/dd/report.md)" in made_docs.write_findings(tmp_path).read_text()


def test_readme_is_up_to_date(tmp_path: Path) -> None:
    """A reference run that came later, or a report that changed, shows in results/README.md."""
    (tmp_path / "reference").symlink_to(RESULTS / "reference")
    assert made_docs.write_findings(tmp_path).read_text() == (RESULTS / "README.md").read_text()
