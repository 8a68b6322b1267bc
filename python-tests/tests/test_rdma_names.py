# SPDX-License-Identifier: GPL-2.0-only
"""namespace=rdma: a server that offers NFS on RDMA alone, and the process that speaks to it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import done, eventually, refused

from nfsmulti.fiorun import FioResult, Option
from nfsmulti.lab.kernel import ADDRESSES, EXPORT
from nfsmulti.nfs import nfs3
from nfsmulti.processes import run

pytestmark = pytest.mark.kernel_lab

_SECONDS = 240.0
_MIB = 1 << 20
_ONE = f"nfs://{ADDRESSES[0]}{EXPORT}"
_FILES = Path(EXPORT)
_RELAY = "nfsmulti-relay"

# knfsd opens a TCP port by itself, so the way there is taken away: NFS's alone, not MOUNT's.
_NO_TCP = [
    f"rule add pref 5 ipproto tcp dport {nfs3.NFS_PORT} prohibit",
    "rule add pref 10 lookup local",
    "rule del pref 0",
]
_TCP = ["rule add pref 0 lookup local", "rule del pref 10", "rule del pref 5"]


def _ip(*commands: str) -> None:
    for words in commands:
        run(["ip", *words.split()], timeout=_SECONDS).check()


def _relays() -> list[int]:
    """Name the processes that speak RDMA for a fio."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text().strip() == _RELAY:
                found.append(int(folder.name))
        except OSError:
            continue  # it has just ended
    return found


@pytest.fixture
def rdma_alone(guest_fio: FioRunner) -> Iterator[FioRunner]:
    """Give a fio that is to use RDMA for all but MOUNT, where the server has no other NFS."""
    _ip(*_NO_TCP)
    try:
        yield guest_fio
        eventually(lambda: not _relays(), _SECONDS)
    finally:
        _ip(*_TCP)
        for pid in _relays():
            os.kill(pid, signal.SIGKILL)
        for file in _FILES.iterdir():
            if file.is_dir() and not file.is_symlink():
                shutil.rmtree(file)
            else:
                file.unlink()


Rdma = Callable[..., FioResult]


@pytest.fixture
def rdma(rdma_alone: FioRunner) -> Rdma:
    def start(pool: str = _ONE, **options: Option) -> FioResult:
        return rdma_alone(pool=pool, timeout=_SECONDS, **{**_RDMA, **options})

    return start


_RDMA: dict[str, Option] = {"proto": "rdma", "namespace": "rdma"}
_READS: dict[str, Option] = {"rw": "randread", "bs": "64k", "iodepth": 8}


def _verified(size: int, **options: Option) -> dict[str, Option]:
    return {"rw": "randwrite", "bs": "64k", "verify": "crc32c", "size": size, **options}


def test_several_files_are_written_verified_and_removed(rdma: Rdma) -> None:
    size = 3 * _MIB
    report = done(rdma(**_verified(size, nrfiles=3, filesize="1m", iodepth=8, unlink=1)))
    assert (report.bytes("write"), report.bytes("read")) == (size, size)
    assert list(_FILES.iterdir()) == []


def test_a_missing_file_is_laid_out(rdma: Rdma) -> None:
    """By fio's parent, before it forks, with the directories above it."""
    report = done(rdma(**_READS, size="1m", filename="a/b/c/f"))
    assert report.bytes("read") == _MIB
    file = _FILES / "a/b/c/f"
    assert file.stat().st_size == _MIB
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert file.read_bytes().count(bytes(4096)) < 4, "the file is not filled"


def test_symbolic_links_are_not_followed(rdma: Rdma) -> None:
    (_FILES / "d").mkdir()
    (_FILES / "d/f").write_bytes(bytes(_MIB))
    (_FILES / "linked").symlink_to("d")
    line = refused(rdma(**_READS, size="1m", filename="linked/f"))
    assert "symbolic link" in line
    assert "linked/f" in line


_LONG: dict[str, Option] = {**_RDMA, **_READS, "size": "2g", "filename": "f"}


def _laying_out() -> bool:
    file = _FILES / "f"
    return file.exists() and file.stat().st_size > 0


def test_it_ends_with_a_fio_that_is_killed(rdma_alone: FioRunner) -> None:
    with rdma_alone.start(pool=_ONE, **_LONG) as process:
        eventually(_laying_out, _SECONDS)
        assert _relays()
        os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: not _relays(), _SECONDS)
