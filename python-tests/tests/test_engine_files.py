# SPDX-License-Identifier: GPL-2.0-only
"""A job's I/O as with psync, and its files: their layout, their names and their end.

Where fio's own psync engine gives the figures to expect, it is run beside.
"""

import zlib
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import Place, done, failed_io, figures, psync, refused, sections
from scripted_jobs import replay

from jobs import Fio
from nfsmulti.fiorun import Engine, Option
from nfsmulti.lab import Lab

_MIB = 1 << 20


def _is_random(content: bytes) -> bool:
    """Tell whether content does not compress, and no block of it comes twice."""
    blocks = [content[at : at + 4096] for at in range(0, len(content), 4096)]
    return len(zlib.compress(content)) > 0.95 * len(content) and len(set(blocks)) == len(blocks)


# --- what psync does ---

_AS_PSYNC: dict[str, tuple[str, dict[str, dict[str, Option]]]] = {  # jobs, and what they share
    "directions, blocks and patterns": ("--iodepth=8 --bs=4k --size=1m", {
        **{mode: {"rw": mode} for mode in ("read", "write", "randread", "randwrite", "randrw")},
        "rw": {"rw": "rw"},
        "mix": {"rw": "randrw", "rwmixread": 80},
        "small": {"rw": "randrw", "bs": 512},
        "odd": {"rw": "write", "bs": 3000},
        "whole": {"rw": "write", "bs": "1m"},
        "range": {"rw": "randrw", "bsrange": "512-128k"},
        "unaligned": {"rw": "randrw", "bsrange": "512-128k", "bs_unaligned": 1},
        "split": {"rw": "randrw", "bssplit": "4k/50:64k/50"},
        "directions": {"rw": "randrw", "bs": "4k,64k"},
        "large": {"rw": "rw", "bs": "4m", "size": "16m"},
        "nomap": {"rw": "randread", "norandommap": 1},
        "strided": {"rw": "read", "zonemode": "strided", "zonesize": "64k", "zoneskip": "64k"},
        "skip": {"rw": "read:4k"},
        "loops": {"rw": "read", "loops": 3},
        "more": {"rw": "randread", "io_size": "3m"},
        "less": {"rw": "randread", "io_size": "100k"},
        "number": {"rw": "read", "number_ios": 5},
        "overlap": {"rw": "randwrite", "serialize_overlap": 1, "norandommap": 1},
        "aligned": {"rw": "randwrite", "bs": "3k", "blockalign": "8k"},
        "kinds": {"rw": "randrw", "bs": "4k,16k", "bs_is_seq_rand": 1},
    }),
    "sizes, offsets and parts": ("--bs=64k --numjobs=2", {  # of files that are there, or not
        "whole": {"rw": "read", "filename": "a"},
        "rest": {"rw": "read", "filename": "b", "offset": "1m"},
        "part": {"rw": "read", "filename": "c", "offset": "64k", "size": "128k"},
        "behind": {"rw": "read", "filename": "d", "offset": "2m", "size": "2m", "overwrite": 1},
        "half": {"rw": "read", "filename": "e", "size": "50%"},
        "quarter": {"rw": "read", "filename": "f", "offset": "75%"},
        "longer": {"rw": "read", "filename": "g", "size": "4m", "overwrite": 1},
        "filesize": {"rw": "read", "filename": "h", "filesize": "1m"},
        "again": {"rw": "read", "filename": "i", "size": "1m", "io_size": "2m"},
        "overwrite": {"rw": "write", "filename": "j", "filesize": "1m"},
        "extend": {"rw": "write", "filename": "k", "offset": "2m", "size": "2m"},
        "new": {"rw": "write", "filename": "l", "filesize": "1m"},
        "jobs": {"rw": "write", "filename": "m", "size": "1m", "offset_increment": "1m"},
    }),
    "several files": ("--bs=16k --size=1m", {
        "write": {"rw": "write", "nrfiles": 4},
        "read": {"rw": "read", "nrfiles": 4},
        "list": {"rw": "read", "filename": "x:y:z", "size": "3m"},
        "few": {"rw": "randrw", "nrfiles": 16, "openfiles": 3, "file_service_type": "random"},
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


def test_layout_follows_the_buffer_options(exported: Place) -> None:
    jobs = sections(
        zero={"zero_buffers": 1, "filename": "zero"},
        pattern={"buffer_pattern": "0x1234", "filename": "pattern"},
        soft={"buffer_compress_percentage": 80, "refill_buffers": 1, "filename": "soft"},
    )
    exported.fio.well(rw="read", bs="64k", size="1m", arguments=jobs)
    assert (exported.files / "zero").read_bytes() == bytes(_MIB)
    assert (exported.files / "pattern").read_bytes() == b"\x12\x34" * (_MIB // 2)
    assert len(zlib.compress((exported.files / "soft").read_bytes())) < 0.5 * _MIB


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
    job: dict[str, Option] = {"bs": "64k", "size": "1m", "verify": "crc32c", "filename": "f"}
    export.fio.well(rw="write", io_size="256k", do_verify=0, verify_state_save=1, **job)
    before = (export.files / "f").read_bytes()
    assert len(before) == 256 << 10
    for name, options in _VERIFYING.items():
        result = export.fio(**job, **{"verify_state_save": 0, **options})
        if "verify_state_load" in options:
            assert done(result).bytes("read") == 256 << 10
        elif name != "mixes":  # which verifies what it has not written: fio's mix differs then
            failed_io(result, "a READ beyond the end of file: less was written than this job")
            assert result.report is not None
            assert result.report.bytes("read") == 256 << 10
        assert (export.files / "f").read_bytes() == before


def test_nothing_is_made_to_be_verified(exported: Place) -> None:
    """But by jobs that verify what an earlier one of the same run writes."""
    job: dict[str, Option] = {"bs": "64k", "size": "1m", "verify": "crc32c"}
    for name in ("no writes", "reads by the state"):
        refused(exported.fio(filename="f", **job, **_VERIFYING[name]), "No such file or directory")
    assert exported.names() == []
    jobs = sections(w={"rw": "write", "do_verify": 0}, r={"rw": "read", "stonewall": 1})
    report = done(exported.fio(filename="f", verify_state_save=0, **job, arguments=jobs))
    assert report.bytes("read") == _MIB


def test_verifying_needs_no_right_to_write(export: Place, lab: Lab) -> None:
    """NFSv4.1 opens for reading."""
    job: dict[str, Option] = {"bs": "64k", "size": "1m", "verify": "crc32c", "filename": "f"}
    export.fio.well(rw="write", do_verify=0, verify_state_save=0, **job)
    pool = lab.pool_of(1, export="ro", version="4.1" if export.kind == "nfs4" else None)
    assert done(export.fio(pool=pool, rw="write", verify_only=1, **job)).bytes("read") == _MIB


def test_short_file_is_extended_and_its_content_kept(place: Place) -> None:
    """Where overwrite=1 says so."""
    before = place.random("f", 1_234_567)
    place.fio.well(rw="read", bs="64k", size="4m", filename="f", overwrite=1)
    after = (place.files / "f").read_bytes()
    assert len(after) == 4 * _MIB
    assert after[: len(before)] == before
    assert _is_random(after[len(before) :])
    place.fio.well(rw="randread", bs="4k", size="1m", filename="f")  # which is long enough now
    assert (place.files / "f").read_bytes() == after


def test_who_gets_a_layout(exported: Place) -> None:
    """Readers do, and writers with overwrite=1; a writer makes its file as it goes, or opens it."""
    one = {"bs": "64k", "size": "1m", "io_size": "64k"}
    jobs = sections(
        reader={**one, "rw": "read"},
        mixed={**one, "rw": "randrw"},
        over={**one, "rw": "write", "overwrite": 1},
        writer={**one, "rw": "write"},
        opener={**one, "rw": "write", "create_on_open": 1},
    )
    exported.fio.well(arguments=jobs)
    sizes = {"reader": _MIB, "mixed": _MIB, "over": _MIB, "writer": 64 << 10, "opener": 64 << 10}
    assert exported.sizes() == {f"{name}.0.0": size for name, size in sizes.items()}


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


# The job's options, whether it ends before fio has seen the error, and what its reason says.
_BEYOND: dict[str, tuple[dict[str, Option], str]] = {
    "a log": ({"iodepth": 1}, "the log of read_iolog= reads more"),
    "a log, at the end": ({"iodepth": 8}, "the log of read_iolog= reads more"),
    "create_on_open": ({"rw": "randrw", "create_on_open": 1}, "lays no file out"),
}


@pytest.mark.parametrize("name", _BEYOND)
def test_why_a_read_is_beyond_the_end_of_file(mounted: Place, tmp_path: Path, name: str) -> None:
    options, words = _BEYOND[name]
    if name.startswith("a log"):
        mounted.random("f", 4096)
        options = {**replay(tmp_path, "read 0 4096", "read 4096 4096"), **options}
    else:
        options = {"bs": "4k", "size": "64k", "filename": "f", **options}
    result = mounted.fio(**options)
    assert result.status == 1, result.messages
    assert "a READ beyond the end of file" in refused(result, words)


# --- their end ---


def test_unlink_takes_the_servers_file_and_not_a_local_one(exported: Place) -> None:
    (exported.cwd / "f").write_text("local")
    exported.random("f", 65536)
    exported.fio.well(rw="read", bs="4k", filename="f", unlink=1)
    assert exported.names() == []
    assert (exported.cwd / "f").read_text() == "local"
    (exported.cwd / "f").unlink()


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
    """A write is refused by WRITE, and in NFSv4.1 by OPEN."""
    export.random("f", 65536)
    later = export.kind == "nfs4"
    pool = lab.pool_of(4, export="ro", version="4.1" if later else None)
    report = done(export.fio(pool=pool, rw="randread", bs="4k", filename="f", spread="queue"))
    assert report.bytes("read") == 65536
    result = export.fio(pool=pool, rw="write", bs="4k", filename="f")
    expect, status = (refused, "NFS4ERR_ROFS") if later else (failed_io, "NFS3ERR_ROFS")
    expect(result, status, "/ro", "Read-only file system")
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
