# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel tells of its mounts' calls. The lines are Debian 13's, where fio has written."""

import csv
import dataclasses
from pathlib import Path

from made_runs import Maker, connections_factors, report_of

from nfsmulti.report import cells, rows
from nfsmulti.run.mountstats import folders, means, sums
from nfsmulti.summary import MountCalls


def _text(write: str, plus: str) -> str:
    """Two mounts of one file system, which tell the same, one of NFSv4.2, and one of no NFS."""
    v3 = f"nfs statvers=1.1\n\txprt:\ttcp 670 1 2 0 1 45 45 0 103\n\t       WRITE: {write}\n"
    v4 = f"nfs4 statvers=1.1\n\tper-op statistics\n\t   READ_PLUS: {plus}\n"
    return (
        "device root mounted on / with fstype overlay\n"
        f"device 10.0.2.15:/export mounted on /mnt/a with fstype {v3}\n"
        f"device 10.0.2.15:/export mounted on /mnt/c\\040d with fstype {v3}\n"
        f"device 10.0.2.16:/ mounted on /mnt/b with fstype {v4}"
    )


def _calls(*found: str, said: str = "statvers=1.1") -> dict[str, MountCalls]:
    before = _text("1 1 0 9 8 2 5 7", "0 0 0 0 0 0 0 0 0")
    after = _text("65 71 2 4201984 8704 134 710 854", "64 64 0 11776 4201984 53 257 329 0")
    device = {"/mnt/a": 38, "/mnt/b": 39, "/mnt/c d": 38}.__getitem__
    each = (sums(found, text.replace("statvers=1.1", said), device) for text in (before, after))
    return means(*each)


def test_means_are_of_the_calls_in_between_and_of_each_file_system_once() -> None:
    written = {"write": MountCalls(64, 132e3 / 64, 705e3 / 64, 10e3 / 64)}
    assert _calls(*folders(["env", "IOTRAP_MOUNT_POOLS=m:/mnt/a/,/mnt/c d/", "fio"])) == written
    read = {"read": MountCalls(64, 53e3 / 64, 257e3 / 64, 19e3 / 64)}
    assert _calls("/mnt/b/below", *folders(["--directory=/mnt/a"])) == read | written
    assert _calls("/mnt/a", "/tmp") == _calls() == _calls("/mnt/a", said="statvers=2.0") == {}
    assert folders(["--pool=/mnt/a,nfs://127.0.0.1/b"]) == folders(["fio"]) == []


def test_rows_and_pages_tell_means_of_mounts_alone(tmp_path: Path) -> None:
    made = Maker("connections", 1)
    for transport in ("tcp-mount", "tcp"):
        made.add(connections_factors(1, transport=transport), read=1e9)
    calls = {"read": MountCalls(3000, 100.0, 2100.0, 20.5)}
    found = [dataclasses.replace(made.cells[0], mount_calls=calls), made.cells[1]]
    run = dataclasses.replace(made.summary(), cells=found)
    rows.write(run, tmp_path)
    with (tmp_path / rows.FILE).open(newline="") as file:
        there, none = csv.DictReader(file)
    told = {"read calls": "3000", "read lag ms": "0.1", "read service ms": "2.1"}
    assert told | {"read wake-up ms": "0.0205"} == {
        name: there[name] for name in there if name.startswith("read") and none[name] == ""
    }
    assert "write calls" not in there
    said = "READ mean: lag 0.100 ms, service 2.10 ms, wake-up 0.0205 ms"
    assert f"{said}." in report_of(run)
    assert (cells.wake_up(found[:1]), cells.wake_up(found)) == (said, "")
