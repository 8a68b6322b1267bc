# SPDX-License-Identifier: GPL-2.0-only
"""The engine on the kernel's NFS: its mounts over TCP and RDMA, and its server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import by_path, done, eventually

from nfsmulti.fiorun import Engine, Fio
from nfsmulti.lab.kernel import ADDRESSES, EXPORT, Mount
from nfsmulti.processes import run

pytestmark = pytest.mark.kernel_lab

_SECONDS = 60.0
_MIB = 1 << 20

# The mounts, and what the kernel must say of them.
_MOUNTS = {
    "vers=3,proto=tcp": {"vers=3", "proto=tcp"},
    "vers=3,proto=tcp,nconnect=4": {"vers=3", "proto=tcp", "nconnect=4"},
    "vers=4.1,proto=tcp": {"vers=4.1", "proto=tcp"},
    "vers=4.2,proto=tcp,nconnect=2": {"vers=4.2", "proto=tcp", "nconnect=2"},
    "vers=3,proto=rdma": {"vers=3", "proto=rdma", "port=20049"},
    "vers=4.1,proto=rdma": {"vers=4.1", "proto=rdma", "port=20049"},
}
_URLS = {
    "tcp": [f"nfs://{address}{EXPORT}" for address in ADDRESSES],
    "tcp6": [f"nfs://[fd02::15]{EXPORT}"],
}

Mounted = Callable[[str], contextlib.AbstractContextManager[list[Path]]]


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    """Give a function that mounts the export once per address."""

    @contextlib.contextmanager
    def mount(options: str) -> Iterator[list[Path]]:
        with contextlib.ExitStack() as undo:
            folders = []
            for number, address in enumerate(ADDRESSES):
                folder = tmp_path / f"mount{number}"
                folder.mkdir()
                wanted = Mount.parse(f"{folder}={options},address={address}")
                run(wanted.command, timeout=_SECONDS).check()
                undo.callback(_unmount, folder)
                folders.append(folder)
            yield folders

    return mount


@pytest.fixture
def fio(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> FioRunner:
    return FioRunner(Fio(engine), "", tmp_path, request.node)


def _unmount(folder: Path) -> None:
    """Unmount; the kernel lets go of a ring's files some time after its process has ended."""
    eventually(lambda: run(["umount", str(folder)], timeout=_SECONDS).status == 0)


def _mount_options(folder: Path) -> set[str]:
    """Give the kernel's own words on a mount of NFS."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, system = line.partition(" - ")
        if fields.split()[4] == str(folder) and system.startswith("nfs"):
            return set(system.split()[2].split(","))
    raise AssertionError(f"{folder} is no mount of NFS")


@pytest.mark.parametrize("options", _MOUNTS)
def test_stripes_over_two_mounts_are_read_back(
    options: str, mounted: Mounted, fio: FioRunner
) -> None:
    with mounted(options) as folders:
        for folder, address in zip(folders, ADDRESSES, strict=True):
            assert _MOUNTS[options] <= _mount_options(folder)
            # A client of version 4 notices that both are one server, and keeps to the first.
            if "vers=3" in options:
                assert f"addr={address}" in _mount_options(folder)
        result = fio(
            pool=",".join(map(str, folders)),
            spread="stripe",
            rw="write",
            verify="crc32c",
            bs="64k",
            size="8m",
            iodepth=8,
            direct=1,
            filename="f",
        )
        report = done(result)
        assert (report.bytes("write"), report.bytes("read")) == (8 * _MIB, 8 * _MIB)
        assert by_path(result.stats) == {str(folder): 64 for folder in folders}
        assert (Path(EXPORT) / "f").stat().st_size == 8 * _MIB
        (folders[0] / "f").unlink()


@pytest.mark.parametrize("protocol", _URLS)
def test_kernel_server_from_user_space(protocol: str, fio: FioRunner) -> None:
    result = fio(
        pool=",".join(_URLS[protocol]),
        proto=protocol,
        nconnect=2,
        spread="roundrobin",
        rw="randwrite",
        verify="crc32c",
        bs="16k",
        size="8m",
        iodepth=16,
        filename="f",
    )
    report = done(result)
    assert (report.bytes("write"), report.bytes("read")) == (8 * _MIB, 8 * _MIB)
    assert sum(by_path(result.stats).values()) == 512
    assert len(by_path(result.stats)) == len(_URLS[protocol])


def test_pools_of_the_guest(fio: FioRunner) -> None:
    """The names that a command finds in its environment lead to the server."""
    for pool in ("lab", "one"):
        done(fio(pool=pool, rw="write", bs="64k", size="256k", filename=pool))
        assert (Path(EXPORT) / pool).stat().st_size == 256 << 10
    assert os.environ["POOL"] == ",".join(_URLS["tcp"])
