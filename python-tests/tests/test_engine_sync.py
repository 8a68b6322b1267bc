# SPDX-License-Identifier: GPL-2.0-only
"""Durability: which of fio's options bring a COMMIT (an fsync of a mount), and when.

What is on the wire is in test_durability.py, and replayed logs are in test_replies.py.
"""

from __future__ import annotations

from pathlib import Path

from engine_helpers import Place, done, fixture_of_places, job_of, psync, sections

from nfsmulti.fiorun import Option

place = fixture_of_places("nfs", "nfs4", "mount")
exported = fixture_of_places("nfs")
mounted = fixture_of_places("mount")

_WRITE = ["--rw=write", "--bs=64k", "--size=1m"]


def test_commits_of_a_job_at_depth_1(place: Place, tmp_path: Path) -> None:
    """16 writes: the syncs that fio asks for, and one COMMIT where the file is closed in debt."""
    expected: dict[str, tuple[dict[str, Option], int]] = {
        "plain": ({}, 1),
        "fsync": ({"fsync": 4}, 4),
        "fdatasync": ({"fdatasync": 4}, 4),
        "end": ({"end_fsync": 1}, 1),
        "close": ({"fsync_on_close": 1}, 1),
        "range": ({"sync_file_range": "write:4"}, 4),
        "sync": ({"sync": 1}, 0),
        "dsync": ({"sync": "dsync"}, 0),
        "data_sync": ({"stable": "data_sync"}, 0),
        "file_sync": ({"stable": "file_sync"}, 0),
        "both": ({"stable": "file_sync", "fsync": 1, "end_fsync": 1}, 0),
        "reader": ({"rw": "read", "fsync": 1, "end_fsync": 1}, 0),
        "loops": ({"loops": 3}, 3),
        "unlinked": ({"unlink": 1}, 0),
    }
    jobs = sections(**{name: options for name, (options, _) in expected.items()})
    result = place.fio(arguments=[*_WRITE, *jobs])
    report = done(result)
    commits = {line.job: line.commits for line in result.stats}
    assert commits == {name: count for name, (_, count) in expected.items()}
    assert set(place.sizes().values()) == {1 << 20}
    jobs = sections(fsync={"fsync": 4}, end={"end_fsync": 1})
    of_psync, _ = psync(tmp_path / "psync", [*_WRITE, *jobs])
    for name in ("fsync", "end"):
        syncs = job_of(of_psync, name)["sync"]["total_ios"]
        assert job_of(report, name)["sync"]["total_ios"] == syncs


def test_fsync_on_close_of_files_that_are_closed_under_way(mounted: Place) -> None:
    """The file that the last of several I/Os in flight closes (fio syncs it by itself, too)."""
    files: dict[str, Option] = {"nrfiles": 8, "openfiles": 2, "file_service_type": "random"}
    job: dict[str, Option] = {"rw": "randwrite", "bs": "4k", "size": "1m", "iodepth": 16}
    result = mounted.fio(**job, **files, fsync_on_close=1)
    assert done(result).bytes("write") == 1 << 20


def test_create_fsync_and_layout_leave_no_debt(mounted: Place) -> None:
    for create_fsync in (0, 1):
        result = mounted.fio(
            rw="read", bs="64k", size="1m", filename=f"f{create_fsync}", create_fsync=create_fsync
        )
        done(result)
        assert [line.commits for line in result.stats] == [0]
