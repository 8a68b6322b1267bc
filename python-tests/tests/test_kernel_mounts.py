# SPDX-License-Identifier: GPL-2.0-only
"""The engine on the kernel's NFS: its mounts over TCP and RDMA, and its server."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import by_path, done, eventually, mounted_at, traces

from nfsmulti.fiorun import Option
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.processes import run
from nfsmulti.run.place import InGuest
from nfsmulti.scenario import CellSpec, GuestPlace

pytestmark = pytest.mark.kernel_lab

_SECONDS = 240.0  # for whatever does not hang, on a slow machine too
_MIB = 1 << 20

# The mounts, and what the kernel must say of them.
_MOUNTS = {
    "vers=4.2,proto=tcp,nconnect=2": {"vers=4.2", "proto=tcp", "nconnect=2"},
    "vers=3,proto=rdma": {"vers=3", "proto=rdma", "port=20049"},
}
_URLS = {
    "tcp": [f"nfs://{address}{EXPORT}" for address in ADDRESSES],
    "tcp6": [f"nfs://[fd02::15]{EXPORT}"],
}

_VERIFIED: dict[str, Option] = {"verify": "crc32c", "size": "2m", "filename": "f"}

Mounted = Callable[[str], contextlib.AbstractContextManager[list[Path]]]


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    """Yield a function that mounts the export once per address."""

    @contextlib.contextmanager
    def mount(options: str) -> Iterator[list[Path]]:
        with contextlib.ExitStack() as undo:
            yield [
                undo.enter_context(mounted_at(tmp_path / f"mount{n}", f"{options},address={one}"))
                for n, one in enumerate(ADDRESSES)
            ]

    return mount


def _mount_options(folder: Path) -> set[str]:
    """Return the kernel's own words on a mount of NFS."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, system = line.partition(" - ")
        if fields.split()[4] == str(folder) and system.startswith("nfs"):
            return set(system.split()[2].split(","))
    raise AssertionError(f"{folder} is no mount of NFS")


@pytest.mark.parametrize("options", _MOUNTS)
def test_stripes_over_two_mounts_are_read_back(
    options: str, mounted: Mounted, guest_fio: FioRunner
) -> None:
    with mounted(options) as folders:
        for folder, address in zip(folders, ADDRESSES, strict=True):
            assert _MOUNTS[options] <= _mount_options(folder)
            # A client of version 4 notices that both are one server, and keeps to the first.
            if "vers=3" in options:
                assert f"addr={address}" in _mount_options(folder)
        job: dict[str, Option] = {"rw": "write", "bs": "64k", "iodepth": 8, "direct": 1}
        pool = ",".join(map(str, folders))
        result = guest_fio(pool=pool, timeout=_SECONDS, spread="stripe", **job, **_VERIFIED)
        report = done(result)
        assert (report.bytes("write"), report.bytes("read")) == (2 * _MIB, 2 * _MIB)
        assert by_path(result.stats) == {str(folder): 16 for folder in folders}
        assert (Path(EXPORT) / "f").stat().st_size == 2 * _MIB
        (folders[0] / "f").unlink()


def test_a_client_of_little_memory_caches_no_more_of_a_mount(tmp_path: Path) -> None:
    most = 48 << 20
    place = InGuest(GuestPlace(client_memory=most))
    place.prepare(CellSpec({}, "", "", {}, 0, files={"cached": 2 * most}))
    with mounted_at(tmp_path / "mount", "vers=3,proto=tcp") as folder, place:
        read = ["dd", f"if={folder}/cached", "of=/dev/null", "bs=1M"]
        run([*place.enter, *read], timeout=_SECONDS).check()
        stat = Path("/sys/fs/cgroup/clients/memory.stat").read_text()
    found = re.search(r"^file (\d+)$", stat, re.MULTILINE)
    assert found
    assert most / 2 < int(found[1]) <= most


def test_the_server_from_user_space(guest_fio: FioRunner) -> None:
    """By the names that a command finds in its environment, and over IPv6."""
    job: dict[str, Option] = {"rw": "randwrite", "bs": "16k", "iodepth": 16, **_VERIFIED}
    for pool, proto in (("lab", "tcp"), ("one", "tcp"), (_URLS["tcp6"][0], "tcp6")):
        spread: dict[str, Option] = {"proto": proto, "nconnect": 2, "spread": "roundrobin"}
        result = guest_fio(pool=pool, timeout=_SECONDS, **spread, **job)
        report = done(result)
        assert (report.bytes("write"), report.bytes("read")) == (2 * _MIB, 2 * _MIB)
        assert sum(by_path(result.stats).values()) == 128
        assert len(by_path(result.stats)) == (2 if pool == "lab" else 1)
        (Path(EXPORT) / "f").unlink()
    assert os.environ["POOL"] == ",".join(_URLS["tcp"])


_LOSE_REPLIES = """\
table inet replies {
	chain out { type filter hook output priority 0; tcp sport 2049 drop; }
}
"""


def _reply_cache_hits() -> int:
    """Count the calls that the server has answered as it had answered them before."""
    lines = Path("/proc/net/rpc/nfsd").read_text().splitlines()
    (hits,) = (line.split()[1] for line in lines if line.startswith("rc "))
    return int(hits)


def _connecting_anew() -> bool:
    return bool(run(["ss", "-Htn", "state", "syn-sent"], timeout=_SECONDS).check().stdout)


def test_the_reply_cache_knows_what_comes_again_over_a_new_connection(guest_fio: FioRunner) -> None:
    """It knows a call by its xid, and by the client's address and port."""
    before = _reply_cache_hits()
    job: dict[str, Option] = {"rw": "write", "bs": "4k", "size": "2m", "filename": "again"}
    job |= {"iodepth": 8, "rate_iops": 50, "time_based": 1, "runtime": 3600, "trace": 1}
    with guest_fio.start(pool=_URLS["tcp"][0], timeo=10, retrans=1, **job) as process:
        eventually(lambda: traces(process) > 8, _SECONDS)
        run(["nft", "-f", "-"], timeout=_SECONDS, stdin=_LOSE_REPLIES).check()
        eventually(_connecting_anew, _SECONDS)
        run(["nft", "delete", "table", "inet", "replies"], timeout=_SECONDS).check()
        written = traces(process)
        eventually(lambda: traces(process) > written + 8, _SECONDS)
        process.signal(signal.SIGTERM)
        result = guest_fio.finish(process, _SECONDS)
    assert sum(line.reconnects for line in result.stats) > 0
    assert _reply_cache_hits() > before
