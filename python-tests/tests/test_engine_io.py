# SPDX-License-Identifier: GPL-2.0-only
"""A job's I/O as with psync; its files, their names and their end; depths, times and memory.

Where fio's own psync engine gives the figures to expect, it is run beside. What rsize= and wsize=
do, and data that fails its verification, is in test_replies.py.
"""

import os
import signal
import zlib
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import (
    Place,
    Traced,
    done,
    ends,
    eventually,
    failed_io,
    figures,
    job_of,
    psync,
    refused,
    sections,
)
from scripted_jobs import Options, Run, preloaded, replay, undisturbed

from jobs import Fio
from nfsmulti.fiorun import Engine, FioProcess, Option
from nfsmulti.lab import Lab
from servers.scripted import Answer, Nfs, Nfs4, Procedure, ScriptedServer, Terms, on

_MIB = 1 << 20


# --- what psync does ---

_AS_PSYNC: dict[str, tuple[str, dict[str, dict[str, Option]]]] = {  # jobs, and what they share
    "directions, blocks and patterns": ("--iodepth=8 --bs=4k --size=1m", {
        **{mode: {"rw": mode} for mode in ("read", "write", "randread", "randwrite", "randrw")},
        "rw": {"rw": "rw"},
        "odd": {"rw": "write", "bs": 3000},
        "range": {"rw": "randrw", "bsrange": "512-128k"},
        "unaligned": {"rw": "randrw", "bsrange": "512-128k", "bs_unaligned": 1},
        "directions": {"rw": "randrw", "bs": "4k,64k"},
        "large": {"rw": "rw", "bs": "4m", "size": "16m"},
        "nomap": {"rw": "randread", "norandommap": 1},
        "loops": {"rw": "read", "loops": 3},
        "more": {"rw": "randread", "io_size": "3m"},
        "overlap": {"rw": "randwrite", "serialize_overlap": 1, "norandommap": 1},
        "aligned": {"rw": "randwrite", "bs": "3k", "blockalign": "8k"},
    }),
    "sizes, offsets and parts": ("--bs=64k --numjobs=2", {  # of files that are there, or not
        "whole": {"rw": "read", "filename": "a"},
        "rest": {"rw": "read", "filename": "b", "offset": "1m"},
        "part": {"rw": "read", "filename": "c", "offset": "64k", "size": "128k"},
        "behind": {"rw": "read", "filename": "d", "offset": "2m", "size": "2m", "overwrite": 1},
        "half": {"rw": "read", "filename": "e", "size": "50%"},
        "longer": {"rw": "read", "filename": "g", "size": "4m", "overwrite": 1},
        "filesize": {"rw": "read", "filename": "h", "filesize": "1m"},
        "again": {"rw": "read", "filename": "i", "size": "1m", "io_size": "2m"},
        "overwrite": {"rw": "write", "filename": "j", "filesize": "1m"},
        "extend": {"rw": "write", "filename": "k", "offset": "2m", "size": "2m"},
        "new": {"rw": "write", "filename": "l", "filesize": "1m"},
        "jobs": {"rw": "write", "filename": "m", "size": "1m", "offset_increment": "1m"},
        "far": {
            "rw": "write", "filename": "n", "offset": "12g", "size": "64k", "verify": "crc32c",
        },
    }),
    "several files": ("--bs=16k --size=1m", {
        "write": {"rw": "write", "nrfiles": 4},
        "read": {"rw": "read", "nrfiles": 4},
        "list": {"rw": "read", "filename": "x:y:z", "size": "3m"},
        "few": {"rw": "randrw", "nrfiles": 16, "openfiles": 3, "file_service_type": "random"},
        # The file that the last of several I/Os in flight closes (fio syncs it by itself, too).
        "closed": {
            "rw": "randwrite", "bs": "4k", "nrfiles": 8, "openfiles": 2, "iodepth": 16,
            "file_service_type": "random", "fsync_on_close": 1,
        },
        "one": {"rw": "write", "nrfiles": 4, "openfiles": 1, "file_service_type": "sequential"},
        "sized": {"rw": "read", "nrfiles": 3, "filesize": "256k", "size": "768k"},
        # Each file's size is drawn from the range, not a share of size=.
        "drawn": {"rw": "read", "bs": "4k", "nrfiles": 5, "filesize": "4k-64k", "size": "128k"},
    }),
    "unlink": ("--bs=64k --size=1m", {
        "write": {"rw": "write", "unlink": 1},
        "read": {"rw": "read", "unlink": 1},
        "loops": {"rw": "write", "unlink": 1, "loops": 3},
        "each": {"rw": "write", "unlink_each_loop": 1, "loops": 3},
        "many": {"rw": "randrw", "unlink": 1, "nrfiles": 8},
        "kept": {"rw": "write"},
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", _AS_PSYNC)
def test_jobs_are_as_with_psync(place: Place, tmp_path: Path, name: str) -> None:
    """The same bytes and I/Os; psync works at depth 1, whatever it is.

    And files of the same sizes, where writers fill theirs: fio makes psync's beforehand.
    """
    common, jobs = _AS_PSYNC[name]
    files = dict.fromkeys("abcdefghijk" if "parts" in name else "", b"x" * 3_000_064)
    words = [*common.split(), *sections(**jobs)]
    expected, sizes = psync(tmp_path / "psync", words, files)
    for file, content in files.items():
        place.write(file, content)
    assert figures(done(place.fio(arguments=words))) == figures(expected)
    assert place.sizes() == sizes or "patterns" in name
    assert sizes


# --- layout ---


def test_reading_jobs_change_no_file_that_is_there(place: Place) -> None:
    """It may be anybody's. One that is long enough they read, and one that is missing they make."""
    for name, size in (("short", 9), ("empty", 0), ("long", 2 * _MIB)):
        place.random(name, size)
    before = {name: (place.files / name).read_bytes() for name in place.names()}
    job: dict[str, Option] = {"rw": "randread", "bs": "4k", "size": "1m"}
    for name in ("short", "empty"):
        names = f"by-{name}:{name}"  # it makes the first
        refused(place.fio(**job, filename=names), "a job that only reads does not change an")
    place.fio.well(**job, filename="long")
    place.fio.well(**job, filename="missing")
    assert {name: (place.files / name).read_bytes() for name in before} == before
    assert place.sizes()["missing"] == _MIB


def test_a_reading_job_extends_what_its_run_has_made(exported: Place) -> None:
    """A file that a writing job has created is nobody else's."""
    jobs = sections(
        w={"rw": "write", "size": "64k"}, r={"rw": "read", "size": "1m", "stonewall": 1}
    )
    exported.fio.well(bs="64k", filename="f", create_serialize=0, arguments=jobs)
    assert exported.sizes() == {"f": _MIB}


_CHECKED: dict[str, Option] = {"bs": "64k", "size": "1m", "verify": "crc32c", "filename": "f"}
_STATE: dict[str, Option] = {"verify_state_load": 1}
_DRY: dict[str, Option] = {"verify_only": 1}
_VERIFYING: dict[str, dict[str, Option]] = {
    "reads": {"rw": "read"}, "reads by the state": {"rw": "read", **_STATE},
    "no writes": {"rw": "write", **_DRY},
    "no writes by the state": {"rw": "write", **_DRY, **_STATE},
    "overwrites": {"rw": "write", **_DRY, "overwrite": 1}, "mixes": {"rw": "randrw", **_DRY},
}  # fmt: skip


def test_what_is_verified_stays_as_it_was(export: Place) -> None:
    """A write that was interrupted leaves less than its size: that is read, and nothing added."""
    export.fio.well(rw="write", io_size="256k", do_verify=0, verify_state_save=1, **_CHECKED)
    before = (export.files / "f").read_bytes()
    assert len(before) == 256 << 10
    for name, options in _VERIFYING.items():
        result = export.fio(**_CHECKED, **{"verify_state_save": 0, **options})
        if "verify_state_load" in options:
            assert done(result).bytes("read") == 256 << 10
        elif name != "mixes":  # which verifies what it has not written: fio's mix differs then
            failed_io(result, "a READ beyond the end of file: less was written than this job")
            assert result.report is not None
            assert result.report.bytes("read") == 256 << 10
        assert (export.files / "f").read_bytes() == before


def test_nothing_is_made_to_be_verified(exported: Place) -> None:
    """But by jobs that verify what an earlier one of the same run writes."""
    for name in ("no writes", "reads by the state"):
        refused(exported.fio(**_CHECKED, **_VERIFYING[name]), "No such file or directory")
    assert exported.names() == []
    jobs = sections(w={"rw": "write", "do_verify": 0}, r={"rw": "read", "stonewall": 1})
    report = done(exported.fio(verify_state_save=0, **_CHECKED, arguments=jobs))
    assert report.bytes("read") == _MIB


def test_short_file_is_extended_and_its_content_kept(place: Place) -> None:
    """Where overwrite=1 says so."""
    before = place.random("f", 1_234_567)
    place.fio.well(rw="read", bs="64k", size="4m", filename="f", overwrite=1)
    after = (place.files / "f").read_bytes()
    assert len(after) == 4 * _MIB
    assert after[: len(before)] == before
    added = after[len(before) :]
    blocks = [added[at : at + 4096] for at in range(0, len(added), 4096)]
    assert len(zlib.compress(added)) > 0.95 * len(added)
    assert len({*blocks}) == len(blocks)  # farther apart than zlib looks back
    place.fio.well(rw="randread", bs="4k", size="1m", filename="f")  # which is long enough now
    assert (place.files / "f").read_bytes() == after


def test_who_gets_a_layout(exported: Place) -> None:
    """Readers do, and writers with overwrite=1; a writer makes its file as it goes, or opens it.

    It follows the buffer's options.
    """
    one = {"bs": "64k", "size": "1m", "io_size": "64k"}
    jobs = sections(
        reader={**one, "rw": "read"},
        mixed={**one, "rw": "randrw"},
        over={**one, "rw": "write", "overwrite": 1},
        writer={**one, "rw": "write"},
        opener={**one, "rw": "write", "create_on_open": 1},
        zero={**one, "rw": "read", "zero_buffers": 1},
        pattern={**one, "rw": "read", "buffer_pattern": "0x1234"},
        soft={**one, "rw": "read", "buffer_compress_percentage": 80, "refill_buffers": 1},
    )
    exported.fio.well(arguments=jobs)
    sizes = dict.fromkeys(("mixed", "over", "pattern", "reader", "soft", "zero"), _MIB)
    sizes |= {"writer": 64 << 10, "opener": 64 << 10}
    assert exported.sizes() == {f"{name}.0.0": size for name, size in sizes.items()}
    assert (exported.files / "zero.0.0").read_bytes() == bytes(_MIB)
    assert (exported.files / "pattern.0.0").read_bytes() == b"\x12\x34" * (_MIB // 2)
    assert len(zlib.compress((exported.files / "soft.0.0").read_bytes())) < 0.5 * _MIB


def test_create_only_lays_out_and_does_no_io(mounted: Place) -> None:
    """For writers too: the job opens no file, and nobody else would make it."""
    for rw, names in (("read", "a:b:c"), ("write", "d:e:f")):
        result = mounted.fio(rw=rw, bs="64k", size="3m", filename=names, create_only=1)
        report = done(result)
        assert report.operations("read") + report.operations("write") == 0
    assert mounted.sizes() == dict.fromkeys("abcdef", _MIB)


# --- several files, and their names ---


def test_one_file_of_the_server_under_several_names(place: Place) -> None:
    """A name given twice, and a hard link: no OPEN or CLOSE of one disturbs another's I/O."""
    place.random("f", 65536)
    (place.files / "g").hardlink_to(place.files / "f")
    deep: dict[str, Option] = {"rw": "randrw", "iodepth": 8}
    jobs = sections(
        format={**deep, "filename_format": "h", "nrfiles": 4},
        link={**deep, "filename": "f:g"},
        list={"rw": "read", "filename": "f:f", "file_service_type": "sequential"},
    )
    result = place.fio.well(bs="4k", size="128k", io_size="8m", arguments=jobs, timeout=60)
    assert {line.errors for line in result.stats} == {0}


def test_folders_of_a_name_are_made(place: Place) -> None:
    """A second slash or a dot says nothing; absolute names are below a mount, or the export."""
    absolute = f"{place.paths[1]}/a/b/d" if place.kind == "mount" else "/a/b/d"
    same = ["a/b/c", "a//b/c", "./a/b/c", "a/./b/c"]
    names = [*same, absolute, "with blank", "Größe", "100%", 'quo"te', "back\\slash"]
    place.fio.well(rw="write", bs="64k", size=f"{64 * len(names)}k", filename=":".join(names))
    assert place.sizes() == dict.fromkeys(sorted(["a/b/c", "a/b/d", *names[5:]]), 64 << 10)
    place.fio.well(rw="write", bs="64k", size="64k", filename="a/e/f")
    if place.kind != "mount":
        place.fio.well(rw="write", bs=1, size=2, filename="a/./bd/", metadata=1, tree_depth=0)
        assert len(place.names()) == 3 + 5 + 2


def test_a_symbolic_link(export: Place) -> None:
    """NFS's clients follow links by themselves (RFC 8881, 18.24), and this one does not."""
    export.random("f", 65536)
    (export.files / "link").symlink_to("f")
    result = export.fio(rw="read", bs="4k", filename="link")
    refused(result, '"link"', "a symbolic link", "name what it leads to")


def test_why_a_read_is_beyond_the_end_of_file(mounted: Place, tmp_path: Path) -> None:
    """Also where the job ends before fio has seen the error, at depth 8."""
    beyond = "a READ beyond the end of file"
    job: Options = {"rw": "randrw", "bs": "4k", "size": "64k", "create_on_open": 1}
    refused(mounted.fio(**job, filename="new"), beyond, "lays no file out")
    mounted.random("f", 4096)
    log = replay(tmp_path, "read 0 4096", "read 4096 4096")
    for depth in (1, 8):
        result = mounted.fio(**log, iodepth=depth)
        refused(result, beyond, "the log of read_iolog= reads more")
        assert result.status == 1, result.messages


# --- their end ---


def test_unlink_takes_the_servers_file_and_not_a_local_one(exported: Place) -> None:
    (exported.folder / "cwd" / "f").write_text("local")
    exported.random("f", 65536)
    exported.fio.well(rw="read", bs="4k", filename="f", unlink=1)
    assert exported.names() == []
    assert (exported.folder / "cwd" / "f").read_text() == "local"
    (exported.folder / "cwd" / "f").unlink()


# --- what may not be written ---


def test_allow_file_create(mounted: Place) -> None:
    mounted.random("there", 65536)
    mounted.fio.well(rw="read", bs="4k", filename="there", allow_file_create=0)
    mounted.fio.well(rw="write", bs="4k", size="64k", filename="there", allow_file_create=0)
    for rw in ("read", "write"):
        result = mounted.fio(rw=rw, bs="4k", size="64k", filename="missing", allow_file_create=0)
        refused(result, '"missing"', "does not exist", "allow_file_create=0")
    assert mounted.names() == ["there"]


def test_readonly(export: Place) -> None:
    content, words = export.random("there", 65536), ["--readonly", "--name=job"]
    export.fio.well(rw="read", bs="4k", filename="there", arguments=words)
    for name in ("there", "missing"):
        result = export.fio(rw="read", bs="4k", size="128k", filename=name, arguments=words)
        refused(result, f'"{name}"', "--readonly")
    assert export.fio(rw="write", bs="4k", filename="there", arguments=words).status == 1
    assert export.names() == ["there"]
    assert (export.files / "there").read_bytes() == content


def test_read_job_on_a_read_only_export(export: Place, lab: Lab) -> None:
    """A write is refused by WRITE, and in NFSv4.1 by OPEN. Verifying needs no right to write."""
    export.fio.well(rw="write", do_verify=0, verify_state_save=0, **_CHECKED)
    later = export.kind == "nfs4"
    pool = lab.pool_of(4, export="ro", version="4.1" if later else None)
    report = done(export.fio(pool=pool, rw="randread", bs="4k", filename="f", spread="queue"))
    assert report.bytes("read") == _MIB
    assert done(export.fio(pool=pool, rw="write", verify_only=1, **_CHECKED)).bytes("read") == _MIB
    result = export.fio(pool=pool, rw="write", bs="4k", filename="f", trace=1)
    expect, status = (refused, "NFS4ERR_ROFS") if later else (failed_io, "NFS3ERR_ROFS")
    expect(result, status, "/ro", "Read-only file system")
    if not later:
        (call,), (line,) = Traced.read(result.stderr), result.stats
        assert (call.operation, call.done, call.error) == ("WRITE", 0, "Read-only file system")
        assert (line.errors, line.write_ops) == (1, 0)
    for rw in ("read", "write"):
        result = export.fio(pool=pool, rw=rw, bs="4k", size="64k", filename="missing")
        refused(result, '"missing"', "Read-only file system", "the export is read-only: allow")
    assert export.names() == ["f"]


def test_read_job_on_a_read_only_mount(
    mounted: Place, lab: Lab, engine: Engine, tmp_path: Path
) -> None:
    """Any directory, bound read-only where fio runs; `lab` is there for its skip alone."""
    mounted.random("f", 65536)
    script = 'mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"; exec "$@"'
    enter = ["unshare", "--mount", "--", "sh", "-ec", script, str(mounted.files)]
    fio = FioRunner(Fio(engine, enter), str(mounted.files), tmp_path / "ro")
    assert done(fio(rw="randread", bs="4k", filename="f")).bytes("read") == 65536
    assert fio(rw="write", bs="4k", filename="f").status == 1
    for rw in ("read", "write"):
        result = fio(rw=rw, bs="4k", size="64k", filename="missing")
        refused(result, "Read-only file system", "the export is read-only: allow writing there")
    assert mounted.names() == ["f"]


def test_no_more_open_files(exported: Place, lab: Lab, engine: Engine, tmp_path: Path) -> None:
    few = Fio(engine, [*lab.command([]), "prlimit", "--nofile=16", "--"])
    fio = FioRunner(few, exported.pool, tmp_path / "few")
    result = fio(rw="write", bs="4k", size="64k", filename="f", nconnect=16)
    refused(result, "Too many open files: a process may open 16: raise ulimit -n")


def test_users_and_permissions(exported: Place, lab: Lab) -> None:
    """uid= and gid= of a path are who the server sees."""
    (exported.files / "own").mkdir()
    (exported.files / "own").chmod(0o777)
    user = f"{lab.path(0)}&uid=4321&gid=1234"
    exported.fio.well(pool=user, rw="write", bs="4k", size="64k", filename="own/f")
    status = (exported.files / "own/f").stat()
    assert (status.st_uid, status.st_gid) == (4321, 1234)
    result = exported.fio(pool=user, rw="write", bs="4k", size="64k", filename="g")
    refused(result, 'cannot create "g"', "Permission denied")
    exported.random("h", 65536)
    # Who only reads needs no right to write.
    for mode, rw, denied in ((0o600, "read", 1), (0o444, "read", 0), (0o444, "write", 1)):
        (exported.files / "h").chmod(mode)
        result = exported.fio(pool=user, rw=rw, bs="4k", filename="h")
        assert result.status == denied, result.messages
        assert ("Permission denied" in result.messages) == bool(denied)
    assert exported.names() == ["h", "own/f"]


# --- calls smaller than blocks ---


def test_more_calls_than_slots_wait_their_turn(exported: Place) -> None:
    """32 blocks of 1 MiB in calls of 1 KiB are 32768 calls at once: more than 8192 slots."""
    job: dict[str, Option] = {"rw": "write", "bs": "1m", "size": "32m", "filename": "f"}
    job |= {"fsync": 16, "spread": "roundrobin", "verify": "crc32c", "verify_interval": "64k"}
    result = exported.fio.well(iodepth=32, rsize="64k", wsize="1k", **job)
    assert sum(line.write_ops for line in result.stats) == 32768
    assert exported.sizes() == {"f": 32 * _MIB}


def test_verify_while_writing_by_threads_of_its_own_and_in_any_memory(exported: Place) -> None:
    jobs = sections(
        backlog={"verify_backlog": 32, "bs": "4k", "filename": "a"},
        asynchronous={"verify_async": 2, "bs": "4k", "filename": "b"},
        mixed={"rw": "randrw", "bs": "16k", "filename": "c"},
        pattern={"verify": "pattern", "verify_pattern": "0xabcd%o", "bs": "8k", "filename": "d"},
        ranges={"bsrange": "1k-256k", "filename": "e"},
        spread={"bs": "8k", "spread": "queue", "nconnect": 4, "filename": "f"},
        overlap={"bs": "8k", "norandommap": 1, "serialize_overlap": 1, "filename": "g"},
        **{kind: {"mem": kind, "bs": "8k"} for kind in ("malloc", "shm", "mmap", "mmapshared")},
    )
    words = ["--rw=randwrite", "--verify=crc32c", "--iodepth=16", "--size=2m", *jobs]
    exported.fio.well(arguments=words)


# --- depth ---


def test_iodepths(v3_or_mount: Place) -> None:
    """Also with busy_poll: asking without sleeping changes nothing but the time that it takes."""
    depths = (1, 2, 3, 16, 255, 1024, 4096)
    polls = {1: 1000, 16: 1000}
    jobs = sections(
        **{f"depth{one}": {"iodepth": one, "busy_poll": polls.get(one, 0)} for one in depths}
    )
    words = ["--rw=randread", "--bs=1k", "--size=4m", "--filename=f", "--spread=roundrobin", *jobs]
    result = v3_or_mount.fio(arguments=words)
    report = done(result)
    assert figures(report) == dict.fromkeys(figures(report), (4 * _MIB, 4096, 0, 0))
    assert [line.read_ops for line in result.stats] == [1024] * 4 * len(depths)
    assert not any(line.retransmissions + line.reconnects for line in result.stats)
    # The queue is filled, since the engine hands nothing back before it is asked.
    assert job_of(report, "depth4096")["iodepth_level"][">=64"] > 90
    # A waiting queue belongs to completion latency, and both add up to the whole.
    for job in report.jobs:
        slat, clat, lat = (job["read"][f"{kind}_ns"] for kind in ("slat", "clat", "lat"))
        assert slat["N"] == clat["N"] == 4096
        assert 0 < clat["mean"] <= lat["mean"]
        assert slat["mean"] + clat["mean"] == pytest.approx(lat["mean"], rel=0.05)


def test_busy_poll(v3_or_mount: Place) -> None:
    """Asking without sleeping changes nothing but the time that it takes."""
    words: Options = {"rw": "randwrite", "bs": "8k", "size": "1m", "verify": "crc32c", "fsync": 16}
    report = done(v3_or_mount.fio(busy_poll=1000, iodepth=16, nconnect=2, spread="queue", **words))
    assert report.operations("read") == 128


def test_getevents_waits_for_the_minimum(v3_or_mount: Place) -> None:
    """At least 16 of 64 at once are asked for, and nearly always had (the last ones aside)."""
    job: Options = {"rw": "randread", "bs": "4k", "size": "8m", "filename": "f", "iodepth": 64}
    batches: Options = {"iodepth_batch_complete_min": 16, "iodepth_batch_complete_max": 64}
    complete = job_of(done(v3_or_mount.fio(**job, **batches)), "job")["iodepth_complete"]
    assert complete["4"] + complete["8"] < 10
    assert complete["0"] == 0


def test_the_tail_of_a_job_that_is_cut_by_time_is_not_lost(exported: Place) -> None:
    """Each write that fio counts is on the server, and nothing is in flight when it ends."""
    job: Options = {"rw": "write", "bs": "64k", "size": "2g", "filename": "f", "iodepth": 32}
    result = exported.fio(**job, runtime=1, rate="32m")
    written = done(result).bytes("write")
    assert exported.sizes() == {"f": written}
    assert sum(line.write_bytes for line in result.stats) == written


# --- what fio does while I/O is queued ---

_HOUR = 3600_000_000  # in a log, which has microseconds

# What a log does before its next entry an hour later, the job's options, and the calls that the
# server has until then.
_SLEEPS: dict[str, tuple[list[str], Options, dict[Procedure, int]]] = {
    "reads": (
        ["f read 0 4096", "f read 4096 4096"], {"nconnect": 2, "spread": "roundrobin"},
        {Nfs.READ: 2},
    ),
    "no room": (["f write 0 8388608"], {"wsize": "64k", "iodepth": 2}, {Nfs.WRITE: 128}),
    "a sync": (["f write 0 4096", "f sync 0 0"], {}, {Nfs.WRITE: 1, Nfs.COMMIT: 1}),
    "a hold": (
        ["f write 0 8192", "f write 8192 8192"],
        {"hold_writes": "8k", "bs": "8k"},
        {Nfs.WRITE: 2, Nfs.COMMIT: 1},
    ),
    "slots": (["f read 0 4096", "f read 4096 4096"], {}, {Nfs4.READ: 2}),
}  # fmt: skip


def _log(folder: Path, *entries: str | int) -> Options:
    """Write a log with times: numbers are the microseconds since its beginning, from then on."""
    log, now, lines = folder / "log", 0, ["fio version 3 iolog"]
    for entry in entries:
        if isinstance(entry, int):
            now = entry
        else:
            lines.append(f"{now} {entry}")
    log.write_text("\n".join([*lines, ""]))
    return {"read_iolog": str(log), "rw": "randrw"}


@pytest.mark.parametrize("name", _SLEEPS)
def test_all_has_left_before_fio_sleeps(job: Run, tmp_path: Path, name: str) -> None:
    """By fio 3.33, which asks for no completions until its log goes on."""
    entries, options, wanted = _SLEEPS[name]
    log = _log(tmp_path, "f add", 1, "f open", *entries, _HOUR, "f read 0 4096", "f close")

    def during(server: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: Counter(call.procedure for call in server.calls(*wanted)) == wanted)
        process.signal(signal.SIGINT)
        ends(process)

    server = {"terms": partial(Terms, slots=1), "receive_buffer": 64 << 10}
    files, version = {"f": bytes(8 << 20)}, 4 if name == "slots" else 3
    words = {**server, "files": files, "version": version, **options, **log}
    job(**words, during=during, error=None)


def test_a_log_takes_its_time(v3_or_mount: Place, tmp_path: Path) -> None:
    """Ten reads in 0.5 s; at its end fio leaves I/O in flight, and closes and removes files."""
    steps = [step for at in range(1, 11) for step in (at * 50_000, f"{'fg'[at % 2]} read 0 4096")]
    add: list[str | int] = ["f add", "g add", 1, "f open", "g open"]
    for name in "fg":
        v3_or_mount.random(name, 4096)
    log = _log(tmp_path, *add, *steps, "f close", "g close")
    result = v3_or_mount.fio(iodepth=64 if v3_or_mount.kind == "nfs" else 1, unlink=1, **log)
    (job,) = done(result).jobs
    assert job["job_runtime"] >= 450
    assert sum(line.read_ops for line in result.stats) == 10
    assert v3_or_mount.names() == []


def test_io_has_left_before_another_file_is_opened(job: Run) -> None:
    """The READ of the first is not kept back while the LOOKUP of the second is not answered."""
    files = {name: bytes(4096) for name in "fg"}
    late = on(Nfs.LOOKUP, Answer(delay=0.3))
    ran = job(late, filename="f:g", size="8k", rw="read", files=files)
    undisturbed(ran.result)
    answered = ran.calls(Nfs.LOOKUP)[-1].answered
    assert answered is not None
    assert ran.calls(Nfs.READ)[0].time < answered


# --- what a mount does in part ---


def _needs_o_direct(folder: Path) -> None:
    file = folder / "probe"
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except OSError:
        pytest.skip("the file system of the temporary folder has no O_DIRECT")
    finally:
        file.unlink()


# A kernel that is asked for half of what it was to do, each third time.
_IN_PART = r"""
#include <liburing.h>

static unsigned int asked;

int io_uring_submit(struct io_uring *ring)
{
    int (*submit)(struct io_uring *) = dlsym(dlopen("liburing.so.2", RTLD_NOW), "io_uring_submit");

    for (unsigned int i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[i & *ring->sq.kring_mask];

        if (sqe->len > 4096 && ++asked % 3 == 0)
            sqe->len /= 2;
    }
    return submit(ring);
}
"""


def test_a_machine_that_forbids_io_uring(mounted: Place, tmp_path: Path) -> None:
    no_ring = "int io_uring_queue_init(unsigned n, void *ring, unsigned flags) { return -EPERM; }"
    forbidden = preloaded(mounted.program.engine, tmp_path, no_ring).env
    result = mounted.fio(env=forbidden, rw="write", bs="4k", size="64k", filename="f")
    refused(result, "cannot set up io_uring: Operation not permitted", "io_uring_disabled")


@pytest.mark.parametrize("direct", [0, 1])
def test_a_mount_is_asked_for_the_rest(mounted: Place, tmp_path: Path, direct: int) -> None:
    """Blocks of random content; with direct=1 their buffers are registered."""
    if direct:
        _needs_o_direct(mounted.files)
    part = preloaded(mounted.program.engine, tmp_path, _IN_PART).env
    job: dict[str, Option] = {**_CHECKED, "size": "4m", "iodepth": 8, "direct": direct}
    result = mounted.fio(env=part, rw="write", **job)
    assert figures(done(result)) == {"job": (4 * _MIB, 64, 4 * _MIB, 64)}
    (line,) = result.stats
    assert (line.write_bytes, line.read_bytes) == (4 * _MIB, 4 * _MIB)
    assert min(line.write_ops, line.read_ops) > 64
    # What a whole kernel reads is what was written.
    assert done(mounted.fio(rw="write", verify_only=1, **job)).bytes("read") == 4 * _MIB


def test_a_mounts_file_ends_within_a_block(mounted: Place, tmp_path: Path) -> None:
    """The rest is asked for, and there is none: that is the end, and no more is counted."""
    part = preloaded(mounted.program.engine, tmp_path, _IN_PART).env
    mounted.fio.well(rw="write", do_verify=0, **_CHECKED)
    os.truncate(mounted.files / "f", 640_777)
    result = mounted.fio(env=part, rw="write", verify_only=1, **_CHECKED)
    failed_io(result, "beyond the end of file", "read offset=640777, buflen=14583")
    assert result.report is not None
    assert result.report.bytes("read") == 9 * (64 << 10)  # the blocks that are whole
    assert [line.read_bytes for line in result.stats] == [640_777]
