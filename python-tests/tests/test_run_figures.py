# SPDX-License-Identifier: GPL-2.0-only
"""What is made of the figures that a cell's fio leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfsmulti.run.figures import over_time


@pytest.mark.parametrize(
    ("ends", "rates"),
    [
        ([1000, 2000, 3000], [1024.0, 1024.0, 1024.0]),
        ([1003, 2190, 3520], [1024.0, 1024.0, 1024.0]),  # windows that drift
        ([1400, 2450, 3500, 4550], [1024.0, 1024.0, 1024.0, 1024.0]),
        ([1000, 4010, 5010], [1024.0, 0.0, 0.0, 1024.0, 1024.0]),  # nothing for two seconds
        ([], []),
    ],
)
def test_windows_of_a_log_are_seconds(tmp_path: Path, ends: list[int], rates: list[float]) -> None:
    (tmp_path / "bw_bw.1.log").write_text("".join(f"{at}, 1, 0, 4096, 0\n" for at in ends))
    assert over_time(tmp_path) == rates


def test_jobs_and_directions_are_summed_second_by_second(tmp_path: Path) -> None:
    for job in (1, 2):
        lines = "".join(f"{at}, {job}, {way}, 4096, 0\n" for at in (1001, 2300) for way in (0, 1))
        (tmp_path / f"bw_bw.{job}.log").write_text(lines)
    assert over_time(tmp_path) == [6 * 1024.0] * 2
