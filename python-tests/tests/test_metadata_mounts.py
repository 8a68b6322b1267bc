# SPDX-License-Identifier: GPL-2.0-only
"""metadata=1 over kernel mounts, by io_uring. Any directory serves as one.

Trees, names, kinds of entries, spreads and mixes are the same as a server's: test_metadata.py and
test_meta_mix.py have these of both; test_kernel_mounts.py has mounts of NFS.
"""

from __future__ import annotations

import errno
import signal
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import (
    Place,
    done,
    ends,
    eventually,
    failed_io,
    family,
    fixture_of_places,
    in_memory,
    refused,
    said,
    traces,
)
from scripted_jobs import Client, failed, go

from nfsmulti.fiorun import Fio, FioResult, Option
from nfsmulti.lab import Lab
from nfsmulti.processes import run
from servers.scripted import Answer, Call, Nfs, ScriptedServer

place = fixture_of_places("mount")
exported = fixture_of_places("nfs", "nfs4")

_ENTRIES = 500
_JOB: dict[str, Option] = {
    "metadata": 1, "bs": 1, "size": _ENTRIES, "iodepth": 64, "dir_entries": 60, "filename": "tree",
}  # fmt: skip
_WRITE: dict[str, Option] = {**_JOB, "rw": "write"}
_READ: dict[str, Option] = {**_JOB, "rw": "randread"}


def _operations(result: FioResult) -> int:
    """Return the operations; a mount needs no LOOKUP before them."""
    done(result)
    assert said(result) == []
    assert all(line.transport == "mount" and not line.lookups for line in result.stats)
    return sum(line.meta_ops for line in result.stats)


def test_a_pool_of_mounts_and_urls(exported: Place, lab: Lab) -> None:
    """The lab's export directory serves as a mount of the export."""
    pool = ",".join([str(exported.files), exported.paths[0]])
    for job in (_WRITE, _READ, {**_WRITE, "meta_write": "remove"}):
        result = exported.fio(**job, pool=pool, spread="roundrobin")
        done(result)
        assert said(result) == []
        assert {line.transport: line.meta_ops for line in result.stats} == {
            "mount": _ENTRIES // 2,
            "tcp": _ENTRIES // 2,
        }
    assert list((exported.files / "tree").glob("d*/*")) == []


# --- entries that are not as a job needs them ---


@pytest.mark.sanitized
def test_entries_that_are_there_or_gone(place: Place) -> None:
    done(place.fio(**_WRITE))
    for job, words in (
        (_WRITE, ["create of entry", "File exists", "meta_write=remove"]),
        ({**_WRITE, "meta_write": "rmdir"}, ["rmdir of entry", "Not a directory", "rmdir for"]),
        ({**_WRITE, "meta_write": "remove", "loops": 2}, ["remove of entry", "by another job"]),
    ):
        result = place.fio(**job)
        failed_io(result)
        (line,) = said(result)
        assert all(word in line for word in words)


def test_full_and_read_only(
    place: Place, lab: Lab, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`lab` is there for its skip alone, where nobody may mount."""
    with in_memory(place, "4m", tmp_path, request.node) as small:

        def remount(options: str) -> None:
            words = ["mount", "-o", f"remount,{options}", str(place.files)]
            run([*small.enter, *words], timeout=60).check()

        done(small.fio(**_WRITE))
        remount("nr_inodes=600")
        result = small.fio(**{**_WRITE, "filename": "more"})
        failed_io(result, "No space left")
        assert "no room for more entries" in said(result)[0]
        assert sum(line.meta_ops for line in result.stats) > 0
        remount("ro")
        for what in ("getattr", "lookup", "open"):
            assert _operations(small.fio(**_READ, meta_read=what)) == _ENTRIES
        result = small.fio(**_WRITE, meta_write="remove")
        failed_io(result, "Read-only file system")


@pytest.mark.sanitized
def test_a_link_that_a_lost_path_has_not_sent(client: Client, tmp_path: Path) -> None:
    """Its LOOKUP was: on the mount, which takes it over, the other name is there already."""
    directory = tmp_path / "mount" / "tree"
    directory.mkdir(parents=True)
    linked: list[Call] = []

    def lose(call: Call) -> Answer | None:
        if call.procedure is Nfs.LINK:
            linked.append(call)
        lost = linked and call.procedure is Nfs.LOOKUP
        return Answer(act=False, reply=False, do=go) if lost else None

    with ScriptedServer(lose) as server:
        for number in range(4):
            server.create(f"tree/e{number}")
            (directory / f"e{number}").touch()
        (directory / "r2").touch()  # over the server's path: e0, e2
        job: dict[str, Option] = {**_WRITE, "size": 4, "iodepth": 1, "tree_depth": 0}
        paths = f"{server.url()},{directory.parent}"
        how: dict[str, Option] = {"spread": "roundrobin", "failover": 1, "timeo": 5}
        result = client(server, **job, **how, pool=paths, meta_write="link")
        failed(result, "link of entry 2", "two names already", error=errno.EEXIST)


# --- what is left of a job ---


def _with_descriptors(place: Place, most: int, folder: Path, item: pytest.Item) -> FioRunner:
    """Run fio where no process may have more than so many."""
    limited = Fio(place.engine, ["prlimit", f"--nofile={most}"])
    return FioRunner(limited, place.pool, folder / "limited", item)


def test_descriptors_are_closed(
    place: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A job that kept one for each entry would run out of them; iodepth of them it needs."""
    fio = _with_descriptors(place, 200, tmp_path, request.node)
    assert _operations(fio(**_WRITE)) == _ENTRIES
    assert _operations(fio(**_READ, meta_read="open")) == _ENTRIES
    result = fio(**{**_READ, "meta_read": "open", "iodepth": 400})
    failed_io(result, "Too many open files")
    assert "raise ulimit -n" in said(result)[0]


@pytest.mark.sanitized
@pytest.mark.parametrize("thread", [0, 1])
def test_a_job_that_is_ended(place: Place, thread: int) -> None:
    """By SIGTERM, with opens under way: it ends well, and its files were closed meanwhile."""
    job: dict[str, Option] = {**_READ, "meta_read": "open", "time_based": 1, "runtime": 3600}
    with place.fio.start(**job, thread=thread, trace=1) as process:
        eventually(lambda: traces(process) > 2 * _ENTRIES)
        for pid in [process.pid, *family(process.pid)]:
            assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < 2 * 64
        process.signal(signal.SIGTERM)
        ends(process)
        result = place.fio.finish(process)
    assert result.status == 128  # fio's own, of one that a signal ends
    assert sum(line.meta_ops for line in result.stats) > _ENTRIES
    assert not any(line.errors for line in result.stats)


# --- refusals ---


def test_what_io_uring_has_no_operation_for(place: Place) -> None:
    for option, name in (
        ({"rw": "read", "meta_read": "access"}, "access"),
        ({"rw": "read", "meta_read": "readdir"}, "readdir"),
        ({"meta_write": "setattr"}, "setattr"),
        ({"rw": "randrw", "meta_mix": "getattr:1,setattr:1"}, "setattr"),
    ):
        result = place.fio(**{**_WRITE, **option})
        refused(result, "kernel mount", f"no operation for {name}", "nfs://SERVER/EXPORT")
    result = place.fio(**_READ, meta_verify=1)
    refused(result, "meta_verify=1", "no operation that lists", "nfs://SERVER/EXPORT")
    assert not (place.files / "tree").exists()


_OLD = """\
#include <liburing.h>
#include <stdlib.h>

struct io_uring_probe *io_uring_get_probe(void)
{
	enum { OPS = IORING_OP_LINKAT + 1 };
	struct io_uring_probe *probe =
		calloc(1, sizeof(*probe) + OPS * sizeof(struct io_uring_probe_op));

	probe->last_op = OPS - 1;
	for (int op = 0; op < OPS; op++)
		probe->ops[op].flags = IO_URING_OP_SUPPORTED;
	probe->ops[IORING_OP_%s].flags = 0;
	return probe;
}
"""


@pytest.mark.parametrize(
    ("lacks", "options", "words"),
    [
        ("MKDIRAT of Linux 5.15", {"meta_write": "mkdir"}, "mkdir, in the job"),
        ("CLOSE of Linux 5.6", {}, "create, in the job"),
        # What is made before the job, or by a removal of a mix that finds nothing
        ("MKDIRAT of Linux 5.15", {"meta_write": "rmdir"}, "mkdir, before the job"),
        ("STATX of Linux 5.6", {"meta_write": "rename"}, "lookup, before the job"),
        ("MKDIRAT of Linux 5.15", {"rw": "randrw", "meta_mix": "getattr:1,rmdir:1"}, "mkdir, in"),
    ],
)
def test_an_older_kernel(
    place: Place, tmp_path: Path, lacks: str, options: dict[str, Option], words: str
) -> None:
    """Here one that says it lacks an operation of io_uring."""
    (tmp_path / "old.c").write_text(_OLD % lacks.split()[0])
    library = tmp_path / "old.so"
    run(["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "old.c")], timeout=60).check()
    result = place.fio(**{**_WRITE, **options}, env={"LD_PRELOAD": str(library)})
    refused(result, words, f"needs io_uring's {lacks}", "nfs://SERVER/EXPORT")
    assert not (place.files / "tree").exists()
