# SPDX-License-Identifier: GPL-2.0-only
"""What is made of the figures that a cell's fio leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfsmulti.run.cell import over_time, read_over_time, windows


def test_windows_of_a_log_are_seconds(tmp_path: Path) -> None:
    cases: tuple[tuple[list[int], list[float]], ...] = (
        ([1000, 2000, 3000], [1024.0, 1024.0, 1024.0]),
        ([1003, 2190, 3520], [1024.0, 1024.0, 1024.0]),  # windows that drift
        ([1400, 2450, 3500, 4550], [1024.0, 1024.0, 1024.0, 1024.0]),
        ([1000, 4010, 5010], [1024.0, 0.0, 0.0, 1024.0, 1024.0]),  # nothing for two seconds
        ([], []),
    )
    for ends, rates in cases:
        (tmp_path / "bw_bw.1.log").write_text("".join(f"{at}, 1, 0, 4096, 0\n" for at in ends))
        found = over_time(windows(tmp_path, 1000), (ends or [0])[-1] / 1000)
        assert found == pytest.approx(rates, rel=0.02), ends


def test_jobs_and_directions_are_summed_second_by_second(tmp_path: Path) -> None:
    for job in (1, 2):
        lines = "".join(f"{at}, {job}, {way}, 4096, 0\n" for at in (1001, 2300) for way in (0, 1))
        (tmp_path / f"bw_bw.{job}.log").write_text(lines)
    assert over_time(windows(tmp_path, 1000), 2.3) == pytest.approx([6 * 1024.0] * 2)


def test_short_windows_are_added_up_to_seconds(tmp_path: Path) -> None:
    ends = [251, 502, 750, 1001, 1250, 1500, 1999]  # and one lacks, in which nothing was moved
    (tmp_path / "bw_bw.1.log").write_text("".join(f"{at}, 4, 1, 0, 0\n" for at in ends))
    assert over_time(windows(tmp_path, 250), 1.999) == pytest.approx([4096, 3072], rel=0.01)


def test_readers_latency_is_that_of_all_jobs_bins_second_by_second(tmp_path: Path) -> None:
    def line(at: int, way: int, **counts: int) -> str:
        bins = [counts.get(f"bin{number}", 0) for number in range(1856)]
        return f"{at}, {way}, 4096, {', '.join(map(str, bins))}\n"

    one = line(1000, 0, bin640=99) + line(1000, 1, bin1000=7) + line(3001, 0, bin640=1)
    (tmp_path / "latency_clat_hist.1.log").write_text(one)
    (tmp_path / "latency_clat_hist.2.log").write_text(line(1002, 0, bin640=96, bin700=5))
    # Bins 640 and 700 of fio's json+ are these.
    ns640, ns700 = 33.024, 63.744
    assert read_over_time(tmp_path) == {
        "p50_us": [ns640, None, ns640],
        "p99_us": [ns700, None, ns640],
    }
