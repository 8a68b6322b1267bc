# SPDX-License-Identifier: GPL-2.0-only
"""namespace=rdma: a server that offers NFS on RDMA alone, and the process that speaks to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import FioRunner, run_harness
from engine_helpers import catches, complaints, done, ends, eventually, refused

from nfsmulti.fiorun import Engine, FioResult, Option
from nfsmulti.lab.kernel import ADDRESSES, EXPORT
from nfsmulti.nfs import nfs3
from nfsmulti.processes import Process, run

pytestmark = pytest.mark.kernel_lab

_SECONDS = 60.0
_MIB = 1 << 20
_ONE = f"nfs://{ADDRESSES[0]}{EXPORT}"
_BOTH = ",".join(f"nfs://{address}{EXPORT}" for address in ADDRESSES)
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
        return rdma_alone(pool=pool, **{**_RDMA, **options})

    return start


_RDMA: dict[str, Option] = {"proto": "rdma", "namespace": "rdma"}
_READS: dict[str, Option] = {"rw": "randread", "bs": "64k", "iodepth": 8}


def _verified(size: int, **options: Option) -> dict[str, Option]:
    return {"rw": "randwrite", "bs": "64k", "verify": "crc32c", "size": size, **options}


def test_names_over_tcp_do_not_do(rdma: Rdma) -> None:
    """What the others show, they show on a server without NFS over TCP."""
    line = refused(rdma(**_verified(_MIB, filename="f", namespace="tcp")))
    assert f"port {nfs3.NFS_PORT}" in line or "cannot mount" in line


# --- what it is for ---


def test_several_files_are_written_verified_and_removed(rdma: Rdma) -> None:
    size = 6 * _MIB
    report = done(rdma(**_verified(size, nrfiles=3, filesize="2m", iodepth=8, unlink=1)))
    assert (report.bytes("write"), report.bytes("read")) == (size, size)
    assert list(_FILES.iterdir()) == []


@pytest.mark.parametrize("name", ["f", "a/b/c/f", "n" * 255])
def test_a_missing_file_is_laid_out(rdma: Rdma, name: str) -> None:
    """By fio's parent, before it forks, with the directories above it."""
    report = done(rdma(**_READS, size="4m", filename=name))
    assert report.bytes("read") == 4 * _MIB
    file = _FILES / name
    assert file.stat().st_size == 4 * _MIB
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert file.read_bytes().count(bytes(4096)) < 4, "the file is not filled"


def test_what_is_there_is_made_longer_and_kept(rdma: Rdma) -> None:
    begin = os.urandom(_MIB + 4321)
    (_FILES / "f").write_bytes(begin)
    done(rdma(**_READS, size="3m", filename="f"))
    content = (_FILES / "f").read_bytes()
    assert len(content) == 3 * _MIB
    assert content.startswith(begin)


@pytest.mark.parametrize("thread", [0, 1])
def test_jobs_and_paths(rdma: Rdma, thread: int) -> None:
    """Each opens its files by itself; the files of both are laid out over both paths."""
    result = rdma(_BOTH, **_READS, size="2m", numjobs=3, thread=thread, spread="stripe")
    done(result)
    assert len(result.stats) == 6
    assert {line.transport for line in result.stats} == {"rdma"}
    assert len(list(_FILES.iterdir())) == 3


def test_an_argument_of_the_path(rdma: Rdma) -> None:
    pool = f"{_ONE}?proto=rdma&namespace=rdma"
    done(rdma(pool, **_verified(_MIB, filename="f", proto=None, namespace=None)))


@pytest.mark.parametrize(("export", "level"), [(EXPORT, "ok"), ("/wrong", "fail")])
@pytest.mark.usefixtures("rdma_alone")
def test_doctor(export: str, level: str) -> None:
    """It asks nothing of NFS over TCP."""
    pool = f"nfs://{ADDRESSES[0]}{export}?proto=rdma&namespace=rdma"
    done = run_harness("doctor", "--json", "--pool", pool)
    found = [one for one in json.loads(done.stdout) if one["what"].startswith(ADDRESSES[0])]
    assert {one["level"] for one in found if "MOUNT" in one["what"]} == {level}
    assert {one["level"] for one in found if "NFS over RDMA" in one["what"]} == {"ok"}
    assert len(found) == 2


# --- what goes wrong with a name ---


def test_a_name_that_is_not_there(rdma: Rdma) -> None:
    line = refused(rdma(**_READS, size="1m", filename="no/such", allow_file_create=0))
    assert '"no/such" does not exist' in line


def test_a_name_that_is_too_long(rdma: Rdma) -> None:
    line = refused(rdma(**_READS, size="1m", filename="n" * 256))
    assert "a part of the name is too long" in line


def test_a_directory(rdma: Rdma) -> None:
    (_FILES / "d").mkdir()
    line = refused(rdma(**_READS, size="1m", filename="d"))
    assert "Is a directory" in line


@pytest.mark.parametrize("name", ["link", "linked/f"])
def test_symbolic_links_are_not_followed(rdma: Rdma, name: str) -> None:
    (_FILES / "d").mkdir()
    (_FILES / "d/f").write_bytes(bytes(_MIB))
    (_FILES / "link").symlink_to("d/f")
    (_FILES / "linked").symlink_to("d")
    line = refused(rdma(**_READS, size="1m", filename=name))
    assert "symbolic link" in line
    assert name in line


def test_a_wrong_export(rdma: Rdma) -> None:
    line = refused(rdma(f"nfs://{ADDRESSES[0]}/wrong", **_READS, size="1m", filename="f"))
    assert "/wrong: cannot mount: MNT3ERR_" in line
    assert "is that the export's path" in line


def test_nothing_listens(rdma: Rdma) -> None:
    line = refused(rdma(**_READS, size="1m", filename="f", rdmaport=20050))
    assert "RDMA port 20050: Connection refused" in line
    assert "rdmaport=" in line


# --- the process beside fio ---


_LONG: dict[str, Option] = {**_RDMA, **_READS, "size": "2g", "filename": "f"}


def _laying_out() -> bool:
    file = _FILES / "f"
    return file.exists() and file.stat().st_size > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_silent_server_does_not_hold_fio(rdma_alone: FioRunner, number: signal.Signals) -> None:
    """Stopped, its processes are as silent as the server can be."""
    with rdma_alone.start(pool=_ONE, **_LONG) as process:
        eventually(_laying_out, _SECONDS)
        for pid in _relays():
            os.kill(pid, signal.SIGSTOP)
        assert catches(process.pid, number)
        os.kill(process.pid, number)
        ends(process, 15)
        assert rdma_alone.finish(process).status not in (0, None)


def test_a_server_that_does_not_accept(rdma_alone: FioRunner) -> None:
    """A listener that is stopped: the connection neither comes nor fails."""
    with Process(["rping", "-s", "-a", ADDRESSES[0], "-p", "20051", "-P"]) as listener:
        show = ["rdma", "resource", "show", "cm_id"]
        eventually(
            lambda: "LISTEN" in _line_of(listener.pid, run(show, timeout=_SECONDS).stdout), _SECONDS
        )
        os.kill(listener.pid, signal.SIGSTOP)
        options: dict[str, Option] = {**_LONG, "rdmaport": 20051}
        with rdma_alone.start(pool=_ONE, **options) as process:
            eventually(lambda: _relays() or not process.running, _SECONDS)
            assert _relays()
            assert catches(process.pid, signal.SIGTERM)
            os.kill(process.pid, signal.SIGTERM)
            ends(process, 15)


def _line_of(pid: int, text: str) -> str:
    return "".join(line for line in text.splitlines() if f" pid {pid} " in f"{line} ")


def test_it_is_started_again_where_it_is_lost(rdma_alone: FioRunner) -> None:
    """As any other connection: what was under way is sent again."""
    with rdma_alone.start(pool=_ONE, **{**_LONG, "size": "64m"}) as process:
        eventually(_laying_out, _SECONDS)
        for pid in _relays():
            os.kill(pid, signal.SIGKILL)
        result = rdma_alone.finish(process)
    done(result)
    assert any("connection lost" in line for line in complaints(result.messages))


def test_it_is_the_engines_own(
    rdma_alone: FioRunner, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another of its name is not run, whatever PATH and the working folder offer."""
    other = tmp_path / _RELAY
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    path = f"{tmp_path}:{os.environ['PATH']}"
    with rdma_alone.start(pool=_ONE, env={"PATH": path}, **_LONG) as process:
        eventually(_laying_out, _SECONDS)
        programs = {Path(f"/proc/{pid}/exe").readlink() for pid in _relays()}
        process.signal(signal.SIGTERM)
        rdma_alone.finish(process)
    assert programs == {engine.library.with_name(_RELAY).resolve()}


def test_it_ends_with_a_fio_that_is_killed(rdma_alone: FioRunner) -> None:
    with rdma_alone.start(pool=_ONE, **_LONG) as process:
        eventually(_laying_out, _SECONDS)
        assert _relays()
        os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: not _relays(), _SECONDS)
