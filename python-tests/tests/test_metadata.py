# SPDX-License-Identifier: GPL-2.0-only
"""metadata=1: one I/O is one operation on one entry, on nfs-ganesha and on scripted servers."""

from __future__ import annotations

import errno
import os
import signal
import stat
import struct
import threading
from pathlib import Path
from typing import Literal

import pytest
from engine_helpers import (
    Place,
    done,
    eventually,
    failed_io,
    fixture_of_places,
    refused,
    said,
    sections,
    stderr_of,
)
from scripted_jobs import TWO_ADDRESSES, Client, failed, first_of

from nfsmulti.fiorun import FioProcess, FioResult, Option
from servers.scripted import (
    Answer,
    AuthStat,
    Call,
    Hook,
    Nfs,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status,
    Status4,
    Terms,
    denied,
    on,
)
from servers.scripted.files import as_directory

place = fixture_of_places("nfs", "nfs4")
exported = fixture_of_places("nfs")
mounted = fixture_of_places("mount")

_ENTRIES = 300
_JOB: dict[str, Option] = {
    "metadata": 1, "bs": 1, "size": _ENTRIES, "iodepth": 16, "dir_entries": 50, "filename": "tree",
}  # fmt: skip
_WRITE: dict[str, Option] = {**_JOB, "rw": "write"}
_READ: dict[str, Option] = {**_JOB, "rw": "randread"}
_VERIFY: dict[str, Option] = {**_READ, "meta_verify": 1}


def _entries(place: Place, of: str = "tree") -> dict[str, Path]:
    """Return what lies below the directories of a tree, by name: no name may be there twice."""
    found = [Path(top, name) for top, _, names in os.walk(place.files / of) for name in names]
    assert len({path.name for path in found}) == len(found)
    return {path.name: path for path in found}


def _done(result: FioResult) -> int:
    """Return the operations of a job that did well, whatever it has said."""
    done(result)
    return sum(line.meta_ops for line in result.stats)


def _operations(result: FioResult) -> tuple[int, int]:
    """Return the operations and the LOOKUPs before them."""
    operations = _done(result)
    assert said(result) == []
    return operations, sum(line.lookups for line in result.stats)


both_versions = pytest.mark.parametrize("version", [3, 4])


# --- what each operation does ---


def test_entries_are_created_in_directories(place: Place) -> None:
    assert _operations(place.fio(**_WRITE)) == (_ENTRIES, 0)
    found = _entries(place)
    assert set(found) == {f"e{number:x}" for number in range(_ENTRIES)}
    assert all(path.parent.name == f"d{int(name[1:], 16) // 50:x}" for name, path in found.items())
    assert all(path.is_file() and path.stat().st_mode & 0o777 == 0o644 for path in found.values())


def test_creates_of_what_is_there(place: Place) -> None:
    done(place.fio(**_WRITE))
    again = place.fio(**_WRITE)
    failed_io(again, "File exists")
    (line,) = said(again)
    assert "create of entry" in line
    assert "meta_write=remove" in line


@both_versions
def test_a_tree_in_the_export_itself(client: Client, server: ScriptedServer, version: int) -> None:
    """A name that has no components."""
    job: dict[str, Option] = {**_WRITE, "size": 10, "filename": "."}
    assert _operations(client(server, pool=server.url_of(version), **job))[0] == 10


@pytest.mark.parametrize("depth", [0, 8])
def test_depth_of_the_tree(exported: Place, depth: int) -> None:
    """None, and the longest way there is, with two of a kind in a directory."""
    tree = exported.files / "tree"
    assert _done(exported.fio(**{**_WRITE, "tree_depth": depth, "dir_entries": 2})) == _ENTRIES
    found = _entries(exported)
    assert len(found) == _ENTRIES
    assert {len(path.relative_to(tree).parts) for path in found.values()} == {depth + 1}
    for top, directories, names in os.walk(tree):
        if depth and Path(top) != tree:
            assert len(directories) + len(names) <= 2


@pytest.mark.parametrize(
    ("kind", "removal"),
    [
        ("mkdir", {"meta_write": "rmdir", "rw": "trim"}),
        ("symlink", {"meta_write": "remove"}),
    ],
)
def test_other_kinds_of_entries(place: Place, kind: str, removal: dict[str, Option]) -> None:
    size = 40
    assert _operations(place.fio(**{**_WRITE, "size": size, "meta_write": kind}))[0] == size
    found = list((place.files / "tree" / "d0").iterdir())
    assert len(found) == size
    check = stat.S_ISDIR if kind == "mkdir" else stat.S_ISLNK
    assert all(check(path.lstat().st_mode) for path in found)
    assert _operations(place.fio(**{**_READ, "size": size}))[0] == size  # a link itself
    if kind == "mkdir" and place.kind == "nfs":  # NFSv4.1's REMOVE takes directories as well
        result = place.fio(**{**_WRITE, "size": size, "meta_write": "remove"})
        failed_io(result)
        assert "remove of entry" in said(result)[0]
        assert "rmdir for directories" in said(result)[0]
    assert _operations(place.fio(**{**_WRITE, "size": size, **removal}))[0] == size
    assert list((place.files / "tree" / "d0").iterdir()) == []


def test_filesize_as_a_range_is_drawn_from(exported: Place) -> None:
    """And is no share of size=, which would be 40 entries in each of five directories."""
    done(exported.fio(metadata=1, rw="write", bs=1, nrfiles=5, filesize="2-90", size=200))
    counts = [sum(len(names) for *_, names in os.walk(top)) for top in exported.files.iterdir()]
    assert len(counts) == 5
    assert len(set(counts)) > 1


@pytest.mark.parametrize("what", ["getattr", "lookup", "access", "setattr"])
def test_what_a_job_needs_is_laid_out_first(place: Place, what: str) -> None:
    """All but lookup go by the entry's handle, which takes one LOOKUP."""
    option = {"rw": "write", "meta_write": what} if what == "setattr" else {"meta_read": what}
    result = place.fio(**{**_READ, **option})
    assert _operations(result) == (_ENTRIES, 0 if what == "lookup" else _ENTRIES)
    assert len(_entries(place)) == _ENTRIES


_STAT = {1, 3, 4, 8, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53}  # RFC 8881, 5.6 and 5.7


@pytest.mark.sanitized
@pytest.mark.parametrize("what", ["getattr", "lookup"])
def test_nfs4_asks_for_what_stat_tells(client: Client, server: ScriptedServer, what: str) -> None:
    job: dict[str, Option] = {**_READ, "size": 20, "meta_read": what}
    done(client(server, **job, pool=server.url4()))
    assert server.calls(Nfs4.GETATTR)[-1].wanted == _STAT


def test_a_layout_makes_the_entries_of_its_job_alone(exported: Place) -> None:
    assert _operations(exported.fio(**{**_READ, "size": 20}, offset=280))[0] == 20
    assert sorted(_entries(exported)) == sorted(f"e{number:x}" for number in range(280, 300))


@pytest.mark.parametrize("words", [["--readonly"], ["--allow_file_create=0"]])
def test_what_may_not_be_laid_out(exported: Place, words: list[str]) -> None:
    done(exported.fio(**{**_WRITE, "size": 20}))
    done(exported.fio(arguments=[*words, "--name=j"], **{**_READ, "size": 20}))
    result = exported.fio(arguments=[*words, "--name=j"], **{**_READ, "size": 30})
    refused(result, "No such file", "allow_file_create=0 forbids")
    assert len(_entries(exported)) == 20
    assert _operations(exported.fio(**{**_READ, "size": 30}))[0] == len(_entries(exported)) == 30


@pytest.mark.full
def test_a_layout_tells_what_it_does(client: Client, server: ScriptedServer) -> None:
    """One that lasts, because the server asks to wait, also tells how far it has come."""
    told = threading.Event()
    later = Answer(act=False, status=Status.JUKEBOX)

    def wait(call: Call) -> Answer | None:
        return later if call.procedure is Nfs.CREATE and not told.is_set() else None

    server.hooks.append(wait)
    with client.start(server, **{**_READ, "size": 60}) as process:
        eventually(lambda: " % done" in stderr_of(process))
        told.set()
        result = client.finish(process)
    done(result)
    lines = [line for line in result.messages.splitlines() if "entries of" in line]
    begins, goes_on = lines[:2]  # how far it has come is told again where it lasts longer
    assert '"tree": 60 files in 2 directories: looking them up' in begins
    assert '"tree": 0 % done, 0 entries/s' in goes_on


def test_handles_are_looked_up_once(exported: Place) -> None:
    """As long as the job runs; two at once of one entry might both look it up."""
    job: dict[str, Option] = {**_READ, "iodepth": 1, "time_based": 1, "runtime": 1}
    operations, lookups = _operations(exported.fio(**job))
    assert lookups == min(operations, _ENTRIES)


def test_setattr_sets_the_time_of_modification(place: Place) -> None:
    done(place.fio(**_WRITE))
    for path in _entries(place).values():
        os.utime(path, (1, 1))
    done(place.fio(meta_write="setattr", **_WRITE))
    assert all(path.stat().st_mtime > 1 for path in _entries(place).values())


def test_a_second_rename_gives_the_first_names_back(place: Place) -> None:
    done(place.fio(**_WRITE))
    first = set(_entries(place))
    done(place.fio(meta_write="rename", **_WRITE))
    other = set(_entries(place))
    assert len(other) == len(first)
    assert not other & first
    done(place.fio(meta_write="rename", **_WRITE))
    assert set(_entries(place)) == first


def test_link_gives_a_second_name(place: Place) -> None:
    """A removal takes the first name, and where that is gone the other."""
    done(place.fio(**_WRITE))
    first = set(_entries(place))
    assert _operations(place.fio(meta_write="link", **_WRITE)) == (_ENTRIES, _ENTRIES)
    found = _entries(place)
    assert set(found) == first | {"r" + name[1:] for name in first}
    assert all(path.stat().st_nlink == 2 for path in found.values())
    again = place.fio(meta_write="link", **_WRITE)
    failed_io(again, "File exists")
    assert "two names already" in said(again)[0]
    assert _operations(place.fio(meta_write="remove", **_WRITE)) == (_ENTRIES, 0)
    assert set(_entries(place)) == {"r" + name[1:] for name in first}
    assert _operations(place.fio(meta_write="remove", **_WRITE)) == (_ENTRIES, 0)
    assert _entries(place) == {}


@pytest.mark.parametrize("how", [{"meta_write": "remove"}, {"rw": "trim"}, {"rw": "randtrim"}])
def test_remove_leaves_nothing(exported: Place, how: dict[str, Option]) -> None:
    """Of entries that have their other name alone as well."""
    done(exported.fio(**_WRITE))
    done(exported.fio(**{**_WRITE, "size": 20, "meta_write": "rename"}))
    result = exported.fio(**{**_WRITE, **how})
    assert _operations(result) == (_ENTRIES, 0)
    (job,) = done(result).jobs
    assert job["trim" if "rw" in how else "write"]["total_ios"] == _ENTRIES
    assert _entries(exported) == {}


def test_open_is_nfsv4s_alone(place: Place) -> None:
    result = place.fio(meta_read="open", **_READ)
    if place.kind == "nfs4":
        assert _operations(result) == (_ENTRIES, 0)
        many: dict[str, Option] = {"size": 2, "nconnect": 2, "spread": "roundrobin"}
        job = {**_READ, **many, "meta_read": "open", "io_size": 100}
        assert _operations(place.fio(**job)) == (100, 0)  # of one entry at once
    else:
        refused(result, "meta_read=open", "NFSv3 has no OPEN", "version=4.1")


def test_readdir_lists_the_directory_of_its_entry(place: Place) -> None:
    """A directory of 2,000 takes several calls; the listing is one operation all the same."""
    size = 2000
    done(place.fio(**{**_WRITE, "size": size, "tree_depth": 0}))
    job: dict[str, Option] = {**_READ, "size": 20, "tree_depth": 0, "meta_read": "readdir"}
    assert _operations(place.fio(**job)) == (20, 0)


_READDIR: dict[int, Procedure] = {3: Nfs.READDIR, 4: Nfs4.READDIR}
_PAGE = Answer(limit=7)
_EMPTY = Answer(limit=0, eof=0)


def _start_list(
    client: Client, server: ScriptedServer, version: int, **options: Option
) -> FioProcess:
    """List a directory of 20 once, of which a server may give 7 to a page; NFSv3's has 2 more."""
    job: dict[str, Option] = {**_READ, "size": 20, "iodepth": 1, "number_ios": 1, **options}
    return client.start(server, **job, pool=server.url_of(version), meta_read="readdir")


def _list(client: Client, server: ScriptedServer, version: int, **options: Option) -> FioResult:
    with _start_list(client, server, version, **options) as process:
        return client.finish(process)


@pytest.mark.sanitized
@both_versions
def test_a_listing_goes_on_from_its_cookie(client: Client, version: int) -> None:
    """And a page that is lost is asked for again."""
    procedure = _READDIR[version]
    lost = on(procedure, Answer(limit=7, reply=False, end="reset"), nth=2)
    with ScriptedServer(lost, on(procedure, _PAGE)) as server:
        assert _done(_list(client, server, version)) == 1
        assert [call.offset for call in server.calls(procedure)][:4] == [0, 9, 9, 16]


@pytest.mark.sanitized
@pytest.mark.parametrize(("version", "how"), [(3, {"soft": 1}), (4, {})])
def test_a_server_that_forgets_cookies(
    client: Client, version: int, how: dict[str, Option]
) -> None:
    """Of a directory that stays as it is: the listing begins anew, but not for ever."""
    procedure, forgotten = (
        _READDIR[version],
        Status4.NOT_SAME if version == 4 else Status.BAD_COOKIE,
    )
    forget = Answer(act=False, status=forgotten)

    def forgets(call: Call) -> Answer | None:
        late = call.nth == 2 or len(listed) > 0
        return forget if call.procedure is procedure and call.offset and late else None

    listed = list[FioResult]()
    with ScriptedServer(forgets, on(procedure, _PAGE)) as server:
        listed.append(_list(client, server, version, **how))
        assert _operations(listed[0]) == (1, 0)
        result = _list(client, server, version, timeo=15, retrans=1, **how)
        name = "NFS4ERR_NOT_SAME" if version == 4 else "NFS3ERR_BAD_COOKIE"
        failed(result, name, "keeps forgetting the cookies", error=errno.EIO)


@pytest.mark.sanitized
def test_a_directory_that_changes_while_it_is_listed(client: Client) -> None:
    """And whose cookies then mean nothing any more: soft has a limit, hard a signal."""
    changes = [0]

    def change(server: ScriptedServer) -> None:
        changes[0] += 1
        directory = as_directory(server.export.files.find("tree/d0"))
        directory.children[f"new{changes[0]}"] = directory.children["e0"]

    def hook(call: Call) -> Answer | None:
        if call.procedure is not Nfs4.READDIR:
            return None
        return Answer(limit=7, do=change if call.nth < last else None)

    with ScriptedServer(hook) as server:
        server.export.files.verifies_cookies = True
        last = 30
        assert _operations(_list(client, server, 4)) == (1, 0)
        assert changes == [29]
        last = 1 << 30
        result = _list(client, server, 4, timeo=15, retrans=1, soft=1)
        failed(result, "keeps forgetting the cookies", error=errno.EIO)
        before = len(server.calls(Nfs4.READDIR))
        with _start_list(client, server, 4, timeo=15, retrans=1) as process:
            eventually(lambda: len(server.calls(Nfs4.READDIR)) > before + 50)
            process.signal(signal.SIGINT)
            assert client.finish(process).status is not None


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("version", "error", "times"),
    [(3, "NOENT", 3), (4, "STALE", 3), (3, "STALE", 1000), (4, "NOENT", 1000)],
)
def test_a_name_is_removed_while_the_server_lists(
    client: Client, version: int, error: str, times: int
) -> None:
    """As nfs-ganesha answers then: the same page is asked for again, but not for ever."""
    procedure = _READDIR[version]
    gone = Answer(act=False, status=Status4[error] if version == 4 else Status[error])
    late = on(procedure, gone, after=1, first=times + 1)
    with ScriptedServer(late, on(procedure, _PAGE)) as server:
        result = _list(client, server, version)
        if times == 3:
            assert _operations(result)[0] == 1
        else:
            failed(result, "readdir of entry", error=getattr(errno, f"E{error}"))
        assert {call.offset for call in server.calls(procedure)[1 : times + 1]} == {9}


@pytest.mark.sanitized
def test_names_are_removed_on_every_page(client: Client) -> None:
    """Each page has a bound of its own: a long listing may meet many removals."""
    gone = Answer(act=False, status=Status.NOENT)
    with ScriptedServer(on(Nfs.READDIR, _PAGE, every=8), on(Nfs.READDIR, gone)) as server:
        assert _operations(_list(client, server, 3, size=40, number_ios=1)) == (1, 0)
        assert len(server.calls(Nfs.READDIR)) > 16


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("version", "answer", "words"),
    [
        (3, Answer(limit=7, length=9), "the listing does not advance"),
        (4, Answer(limit=7, length=0), "the listing does not advance"),
        (3, _EMPTY, "8 pages in a row have no name"),
    ],
)
def test_a_listing_that_does_not_advance(
    client: Client, version: int, answer: Answer, words: str
) -> None:
    with ScriptedServer(on(_READDIR[version], answer)) as server:
        failed(_list(client, server, version), words, error=errno.EPROTO)


@pytest.mark.sanitized
def test_pages_without_a_name(client: Client) -> None:
    """Seven at the beginning and seven after each page that has names: the same is asked again."""
    pages = on(Nfs4.READDIR, _PAGE, every=8), on(Nfs4.READDIR, _EMPTY)
    with ScriptedServer(*pages) as server:
        assert _done(_list(client, server, 4)) == 1
        asked = [call.offset for call in server.calls(Nfs4.READDIR)]
        assert len(asked) % 8 == 0
        assert asked == sorted(8 * asked[::8])


# --- pools and jobs ---


@pytest.mark.parametrize("option", [_WRITE, _READ, _VERIFY], ids=["write", "read", "verify"])
@pytest.mark.parametrize("url", ["", ",nfs://127.0.0.1/export"], ids=["alone", "beside a URL"])
def test_a_kernel_mount_is_refused(mounted: Place, option: dict[str, Option], url: str) -> None:
    """Nobody asks the server of the URL, which is not there."""
    result = mounted.fio(**option, pool=mounted.paths[0] + url)
    refused(result, f"{mounted.paths[0]}: ", "gone since 0.7.0", "fio's filecreate, filestat and")
    assert list(mounted.files.iterdir()) == []


@pytest.mark.parametrize("spread", ["job", "roundrobin", "queue", "stripe"])
def test_spreads(exported: Place, spread: str) -> None:
    """With stripe_size=dir_entries, a directory keeps to its connection."""
    for job in (_WRITE, _READ):
        result = exported.fio(**{**job, "spread": spread, "nconnect": 2, "stripe_size": 50})
        assert _operations(result)[0] == _ENTRIES
        used = [line for line in result.stats if line.meta_ops]
        expected = {"job": 2, "stripe": min(8, _ENTRIES // 50)}
        assert len(used) == expected.get(spread, 8)
    assert len(_entries(exported)) == _ENTRIES


def test_jobs_in_shared_directories(place: Place) -> None:
    thread = int(place.kind == "nfs4")
    options: dict[str, Option] = {"numjobs": 3, "shared_dir": 1, "thread": thread}
    assert _operations(place.fio(**_WRITE, **options))[0] == 3 * _ENTRIES
    assert len(_entries(place)) == 3 * _ENTRIES
    assert _operations(place.fio(**_READ, **options))[0] == 3 * _ENTRIES
    assert _operations(place.fio(**_VERIFY, **options))[0] == 3 * _ENTRIES
    _entries(place)["e7.1"].unlink()
    refused(place.fio(**_VERIFY, **options), "1 missing: entry 7 is the first")


def test_directories_of_their_own(exported: Place) -> None:
    options = {key: value for key, value in _WRITE.items() if key != "filename"}
    jobs = sections(a={"size": 20}, b={"size": 30, "offset": 10})
    result = exported.fio(arguments=jobs, **{k: v for k, v in options.items() if k != "size"})
    assert _operations(result)[0] == 50
    names = {of: set(_entries(exported, of)) for of in ("a.0.0", "b.0.0")}
    assert {of: len(found) for of, found in names.items()} == {"a.0.0": 20, "b.0.0": 30}
    assert min(names["b.0.0"], key=lambda name: int(name[1:], 16)) == "ea"


# --- meta_verify=1 ---


def test_verify_finds_what_is_missing(exported: Place) -> None:
    """And makes nothing. Names of others, and numbers beyond the job's, are nothing to it."""
    done(exported.fio(**{**_WRITE, "size": _ENTRIES + 10}))
    found = _entries(exported)
    for name in ("e1.2", "E1", "e01", "e", "exx", "eFF", "ffff", "r" * 200):
        (found["e1"].parent / name).touch()
    assert _operations(exported.fio(**_VERIFY))[0] == _ENTRIES
    found["e5"].rename(found["e5"].parent / "r5")
    elsewhere = found["eff"].rename(found["e7"].parent / "eff")  # which is none there
    for number in (80, 200, 299):
        found[f"e{number:x}"].unlink()
    result = exported.fio(**_VERIFY)
    elsewhere.unlink()
    refused(result, '"tree": 300 entries, of which 4 missing: entry 80 is the first')
    assert not found["e50"].exists()
    for number in (5, 80, 200, 255, 299):
        found[f"e{number:x}"].touch()
    twice = exported.fio(**_VERIFY)
    refused(twice, '"tree": 300 entries, of which 1 duplicate: entry 5 is the first')
    assert _operations(exported.fio(**_VERIFY, meta_write="link"))[0] == _ENTRIES


def test_verify_sees_what_an_entry_is(place: Place) -> None:
    what = "getattr" if place.kind == "nfs4" else "lookup"
    job: dict[str, Option] = {**_VERIFY, "size": 20, "meta_read": what}
    for kind, words in (("mkdir", "a directory"), ("symlink", "a symbolic link of 7 bytes")):
        tree: dict[str, Option] = {"filename": kind, "size": 20}
        done(place.fio(**{**_WRITE, **tree, "meta_write": kind}))
        assert _operations(place.fio(**{**job, **tree, "meta_write": kind}))[0] == 20
        if kind == "mkdir":
            assert _operations(place.fio(**{**job, **tree, "meta_write": "rmdir"}))[0] == 20
        result = place.fio(**{**job, **tree, "iodepth": 1, "rw": "read"})
        failed_io(result)
        (line,) = said(result)
        assert f"{what} of entry 0" in line
        assert f"it is {words} and must be a file of 0 bytes" in line
    done(place.fio(**{**_WRITE, "size": 20}))
    _entries(place)["e4"].write_bytes(b"12345")
    result = place.fio(**job)
    failed_io(result)
    assert "entry 4" in said(result)[0]
    assert "it is a file of 5 bytes and must be a file of 0 bytes" in said(result)[0]


@pytest.mark.sanitized
@pytest.mark.parametrize("what", ["getattr", "lookup"])
def test_verify_where_lookup_brings_no_attributes(
    client: Client, server: ScriptedServer, what: str
) -> None:
    """RFC 1813, 3.3.3: obj_attributes is optional. GETATTR's are not."""
    job: dict[str, Option] = {**_READ, "size": 20, "iodepth": 1}
    done(client(server, **job))
    server.hooks.append(on(Nfs.LOOKUP, Answer(attributes=0)))
    result = client(server, **job, meta_verify=1, meta_read=what)
    if what == "getattr":
        assert _operations(result)[0] == 20
    else:
        failed(result, "of a type that the server's LOOKUP does not report", error=errno.EILSEQ)


@pytest.mark.sanitized
def test_verify_where_a_listing_begins_anew(client: Client, server: ScriptedServer) -> None:
    """What it brought before does not count."""
    job: dict[str, Option] = {**_READ, "size": 40}
    done(client(server, **job))
    forgets = Answer(act=False, status=Status.BAD_COOKIE)
    server.hooks += [on(Nfs.READDIR, forgets, nth=3), on(Nfs.READDIR, _PAGE)]
    assert _operations(client(server, **job, meta_verify=1))[0] == 40


@pytest.mark.sanitized
def test_verify_asks_for_what_a_session_takes(client4: Client) -> None:
    """Also with one call at a time, as a session for names has."""
    with ScriptedServer(terms=Terms(max_response=2048)) as server:
        job: dict[str, Option] = {**_READ, "iodepth": 1, "tree_depth": 0}
        done(client4(server, **job))
        assert _operations(client4(server, **job, meta_verify=1))[0] == _ENTRIES


# --- calls that are lost, by scripted servers ---


@pytest.mark.sanitized
def test_entries_survive_resets(client: Client, paths: ScriptedServer) -> None:
    """Made, verified and removed in 12 directories, which are opened under resets as well."""
    size = 600
    paths.hooks += [on(one, _LOST, every=50) for one in (Nfs4.LOOKUP, Nfs4.OPEN, Nfs4.REMOVE)]
    paths.hooks += [on(one, _LOST, every=5) for one in (Nfs4.CREATE, Nfs4.READDIR)]
    job: dict[str, Option] = {**_JOB, "size": size, "spread": "roundrobin", "nconnect": 2}
    for how in (
        {"rw": "write"},
        {"rw": "read", "meta_verify": 1},
        {"rw": "write", "meta_write": "remove"},
    ):
        result = client(paths, **{**job, **how}, pool=paths.pool4())
        assert _done(result) == size
        assert sum(line.reconnects for line in result.stats)


@pytest.mark.sanitized
@pytest.mark.parametrize("end", ["close", "reset"])
def test_soft_ends_where_a_directory_is_not_opened(
    client: Client, server: ScriptedServer, end: Literal["close", "reset"]
) -> None:
    """A connection that is lost is no denial, whichever way it ends."""
    server.hooks.append(on(Nfs.MKDIR, Answer(act=False, reply=False, end=end)))
    result = client(server, **{**_WRITE, "soft": 1, "timeo": 5, "retrans": 0})
    assert result.status
    (line,) = (line for line in said(result) if "cannot open the directory" in line)
    assert os.strerror(errno.ETIMEDOUT) in line
    server.hooks.clear()
    later = Answer(act=False, status=Status.JUKEBOX)
    lost = Answer(act=False, reply=False, end=end)
    so_far = len(server.calls(Nfs.MKDIR))
    server.hooks += [on(Nfs.MKDIR, lost, first=so_far + 3), on(Nfs.MKDIR, later, nth=so_far + 4)]
    result = client(server, **_WRITE)
    assert _done(result) == _ENTRIES
    assert [line for line in said(result) if "cannot" in line] == []


_LOST = Answer(reply=False, end="reset")  # carried out
_UNHEARD = Answer(act=False, reply=False, end="reset")


def _dies_at(procedure: Nfs | Nfs4, *, act: bool = False) -> Hook:
    """Make a hook: the second address is gone when it gets such a call, which is not answered.

    `act`: it has carried it out.
    """

    def lose(server: ScriptedServer) -> None:
        server.refuse(TWO_ADDRESSES[1])
        server.reset_connections()

    def hook(call: Call) -> Answer | None:
        dies = call.procedure is procedure and call.server[0] == TWO_ADDRESSES[1]
        return Answer(act=act, reply=False, do=lose) if dies else None

    return hook


@pytest.mark.sanitized
@pytest.mark.parametrize("procedure", [Nfs.CREATE, Nfs.REMOVE])
def test_a_lost_call_that_is_then_to_wait(
    client: Client, server: ScriptedServer, procedure: Nfs
) -> None:
    """It was carried out, and the server asks the next copy to come later: that is remembered."""
    job: dict[str, Option] = {**_WRITE, "size": 20, "iodepth": 1}
    if procedure is Nfs.REMOVE:
        done(client(server, **job))
    later = Answer(act=False, status=Status.JUKEBOX)
    server.hooks += [on(procedure, _LOST, nth=5), on(procedure, later, nth=6)]
    operation = "create" if procedure is Nfs.CREATE else "remove"
    assert _done(client(server, **job, meta_write=operation)) == 20


def _did_well(server: ScriptedServer, operation: Nfs4) -> int:
    return sum(not call.status for call in server.calls(operation))


@pytest.mark.sanitized
@pytest.mark.parametrize("what", ["create", "open"])
def test_a_delegation_goes_back(client: Client, what: str) -> None:
    """One that the server gives against the wish; the reply to DELEGRETURN may be lost as well."""
    with ScriptedServer(terms=Terms(delegates=True)) as server:
        if what == "open":
            for number in range(40):
                server.create(f"tree/d0/e{number:x}")
        server.hooks.append(on(Nfs4.DELEGRETURN, _LOST, every=10))
        job: dict[str, Option] = {**(_WRITE if what == "create" else _READ), "size": 40}
        job |= {"iodepth": 1, "meta_read": "open", "pool": server.url4()}
        assert _done(client(server, **job)) == 40
        assert _did_well(server, Nfs4.DELEGRETURN) == _did_well(server, Nfs4.OPEN) == 40


@pytest.mark.sanitized
@pytest.mark.parametrize(("what", "delegates"), [("create", False), ("open", True)])
def test_a_server_that_takes_no_close_by_the_current_stateid(
    client4: Client, what: str, delegates: bool
) -> None:
    """It refuses one; from then on CLOSE has a compound of its own, which may have to wait."""
    terms = Terms(current_stateid=False, delegates=delegates)
    later = Answer(status=Status4.DELAY)
    with ScriptedServer(on(Nfs4.CLOSE, later, nth=5), terms=terms) as server:
        if what == "open":
            for number in range(40):
                server.create(f"tree/d0/e{number:x}")
        job: dict[str, Option] = {**_JOB, "rw": "write" if what == "create" else "randread"}
        job |= {"size": 40, "iodepth": 1, "meta_read": "open"}
        assert _operations(client4(server, **job)) == (40, 0)
        told = [call.status for call in server.calls(Nfs4.CLOSE)]
        assert told == [Status4.BAD_STATEID, *[0] * 3, Status4.DELAY, *[0] * 37]
        assert _did_well(server, Nfs4.OPEN) == 40
        assert _did_well(server, Nfs4.DELEGRETURN) == 40 * delegates


@pytest.mark.full
@pytest.mark.sanitized
def test_a_path_dies_before_a_delegation_goes_back(client: Client) -> None:
    """The file is created: another path finds it, which is no error.

    A DELEGRETURN that was to wait first says nothing of that.
    """
    opened = set[tuple[tuple[str, int], int]]()

    def delays(call: Call) -> Answer | None:
        """Answer what follows an OPEN by DELAY of SEQUENCE: with one I/O under way, its return."""
        connection = (call.server, call.connection)
        if call.procedure is Nfs4.OPEN:
            opened.add(connection)
        if call.procedure is not Nfs4.SEQUENCE or connection not in opened:
            return None
        opened.remove(connection)
        return Answer(status=Status4.DELAY)

    hook = first_of(delays, _dies_at(Nfs4.DELEGRETURN))
    with ScriptedServer(hook, addresses=TWO_ADDRESSES, terms=Terms(delegates=True)) as server:
        job: dict[str, Option] = {**_WRITE, "size": 40, "failover": 1, "timeo": 5, "iodepth": 1}
        result = client(server, **job, spread="roundrobin", pool=server.pool4())
        assert _done(result) == 40
        assert sum(line.reissues for line in result.stats) > 0


@pytest.mark.sanitized
@pytest.mark.parametrize(("operation", "procedure"), [("link", Nfs.LINK), ("create", Nfs.CREATE)])
def test_a_call_that_a_lost_path_carried_out(
    client: Client, operation: str, procedure: Nfs
) -> None:
    """The other path may look the entry up first, and finds what the call has made."""
    with ScriptedServer(_dies_at(procedure, act=True), addresses=TWO_ADDRESSES) as server:
        job: dict[str, Option] = {**_WRITE, "size": 40, "failover": 1, "timeo": 5}
        result = client(server, **job, meta_write=operation, spread="roundrobin")
        assert _done(result) == 40
        assert sum(line.reissues for line in result.stats) > 0


@pytest.mark.sanitized
def test_hard_does_not_wait_for_a_server_that_denies_a_directory(
    client: Client, server: ScriptedServer
) -> None:
    server.hooks.append(on(Nfs.MKDIR, Answer(act=False, rpc=denied(AuthStat.TOOWEAK))))
    result = client(server, **_WRITE)
    failed(result, "the server denied the credentials", "reserved source port", error=errno.EACCES)


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("version", "first", "told"),
    [(3, "unheard", False), (4, "unheard", True), (4, "lost", False)],
)
def test_a_file_of_others_whose_create_is_sent_twice(
    client: Client, server: ScriptedServer, version: int, first: str, told: bool
) -> None:
    """Where the first copy was not heard NFSv4.1's slot tells so."""
    server.create("tree/d0/e5")
    create = Nfs4.OPEN if version == 4 else Nfs.CREATE
    server.hooks.append(on(create, _UNHEARD if first == "unheard" else _LOST, nth=6))
    job: dict[str, Option] = {**_WRITE, "size": 20, "iodepth": 1}
    result = client(server, **job, pool=server.url_of(version))
    if told:
        failed(result, "create of entry 5", "it is there already", error=errno.EEXIST)
    else:
        done(result)


@pytest.mark.sanitized
@pytest.mark.parametrize("status", ["DELAY", "BADSESSION"])
def test_an_entry_that_is_there_is_an_error_after_a_refusal(
    client: Client, server: ScriptedServer, status: str
) -> None:
    """A call that SEQUENCE refuses has made nothing: what is there is not its own."""
    server.create("tree/e0", b"")
    met = set[int]()

    def refuse(call: Call) -> Answer | None:
        """Refuse the first call of each connection: the only create is one."""
        if call.procedure is not Nfs4.SEQUENCE or call.connection in met:
            return None
        met.add(call.connection)
        return Answer(status=Status4[status])

    server.hooks.append(refuse)
    job: dict[str, Option] = {**_WRITE, "size": 1, "tree_depth": 0}
    failed_io(client(server, pool=server.url4(), **job), "File exists")
    (create,) = server.calls(Nfs4.OPEN)
    asked = server.calls(Nfs4.SEQUENCE)
    told = [call.status for call in asked if call.connection == create.connection]
    assert told == [Status4[status], 0]  # there was nothing else to refuse


@pytest.mark.sanitized
def test_a_handle_that_is_stale_is_looked_up_again(client: Client, server: ScriptedServer) -> None:
    stale = Answer(act=False, status=Status.STALE)
    server.hooks.append(on(Nfs.GETATTR, stale, after=20, every=7))
    result = client(server, **{**_JOB, "size": 40, "iodepth": 1}, rw="randread")
    operations, lookups = _operations(result)
    assert operations == 40
    assert lookups > 40


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("procedure", "how"),
    [
        (Nfs.READDIR, {"rw": "read", "meta_read": "readdir"}),
        (Nfs.CREATE, {"offset": 1}),
        (Nfs.LINK, {"meta_write": "link"}),
        (Nfs4.SETATTR, {"meta_write": "setattr"}),
    ],
    ids=str,
)
def test_a_refusal_without_what_follows_its_status(
    client: Client, server: ScriptedServer, procedure: Procedure, how: dict[str, Option]
) -> None:
    """Of NFSv3 that are attributes: the status counts, and only that operation fails."""
    server.create("e0")
    job: dict[str, Option] = {**_WRITE, "size": 1, "tree_depth": 0, "filename": ".", **how}
    version = 4 if isinstance(procedure, Nfs4) else 3
    done(client(server, **{**job, "rw": "read", "offset": 0}, pool=server.url_of(version)))
    short = Answer(results=struct.pack(">I", Status.INVAL))

    def hook(call: Call) -> Answer | None:
        about_entry = call.file in ("e0", "e1") or procedure is Nfs.READDIR
        return short if call.procedure is procedure and about_entry else None

    server.hooks.append(hook)
    result = client(server, **job, pool=server.url_of(version))
    failed(result, f"NFS{version}ERR_INVAL", error=errno.EINVAL)
    assert not any(line.reconnects for line in result.stats)
    if version == 3:
        assert f'{procedure.name} of entry "e' in result.messages
        assert "NFS3ERR_INVAL, and its reply is too short" in result.messages


@pytest.mark.sanitized
def test_a_server_that_goes_on_behind_an_operation_that_failed(client4: Client) -> None:
    """And whose compound went well, as its last operation did."""
    with ScriptedServer(terms=Terms(goes_on=True)) as server:
        job: dict[str, Option] = {**_JOB, "size": 20}
        done(client4(server, **job, rw="randread"))  # its LOOKUPs find nothing first
        again = client4(server, **{**job, "rw": "write", "iodepth": 1})
        failed(again, "NFS4ERR_EXIST", "it is there already", error=errno.EEXIST)


@pytest.mark.sanitized
def test_a_server_that_forgets_handles(client4: Client, server: ScriptedServer) -> None:
    """Of entries and of directories: they are looked up again, from the root."""
    server.export.files.keeps = 100
    for how in (
        {"rw": "write"},
        {"rw": "randread"},
        {"rw": "randread", "meta_read": "readdir"},
        {"rw": "randwrite", "meta_write": "setattr"},
        {"rw": "write", "meta_write": "link"},
        {"rw": "read", "meta_verify": 1, "meta_write": "link"},
        {"rw": "randtrim"},
        {"rw": "write", "filename": "."},
    ):
        assert _operations(client4(server, **{**_JOB, **how}))[0] == _ENTRIES


@pytest.mark.sanitized
@both_versions
def test_a_directory_that_is_gone(client: Client, server: ScriptedServer, version: int) -> None:
    """Its handle is stale for good: it is looked up once, and the message says so."""

    def remove(server: ScriptedServer) -> None:
        files = server.export.files
        gone = as_directory(files.find("tree/d1"))
        for name in list(gone.children):
            files.remove(gone, name)
        files.remove(as_directory(files.find("tree")), "d1")

    create = Nfs4.OPEN if version == 4 else Nfs.CREATE
    server.hooks.append(on(create, Answer(do=remove), nth=70))
    result = client(server, pool=server.url_of(version), **{**_WRITE, "iodepth": 1})
    words = "does not find that directory again", "its directory is gone"
    failed(result, *words, error=errno.ENOENT)


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("version", "status", "error", "words"),
    [
        (3, Status.NOSPC, errno.ENOSPC, "no room for more entries"),
        (4, Status.DQUOT, errno.EDQUOT, "no room for more entries"),
        (3, Status.FBIG, errno.EFBIG, "use a smaller dir_entries="),
        (4, 31, errno.EMLINK, "use a smaller dir_entries="),  # NFS3ERR_MLINK
        (3, 31, errno.EMLINK, "use tree_depth=1"),
        (4, Status.ROFS, errno.EROFS, "over this export?"),
        (3, Status.ACCES, errno.EACCES, "may this user do that here"),
    ],
)
def test_a_server_that_makes_no_more_entries(
    client: Client, server: ScriptedServer, version: int, status: int, error: int, words: str
) -> None:
    """What it has made before is counted, by fio as well."""
    create = Nfs4.OPEN if version == 4 else Nfs.CREATE
    server.hooks.append(on(create, Answer(act=False, status=status), after=10))
    depth = 0 if "tree_depth" in words else 1
    job: dict[str, Option] = {**_WRITE, "size": 40, "tree_depth": depth}
    result = client(server, **job, pool=server.url_of(version))
    failed(result, words, error=error)
    assert len(said(result)) == 1
    assert sum(line.meta_ops for line in result.stats) == 10
    assert result.report is not None
    assert [job["write"]["io_bytes"] for job in result.report.jobs] == [10]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("n" * 256, "File name too long"),
        ("file", "Not a directory"),
        ("file/below", "Not a directory"),
    ],
)
def test_a_directory_that_cannot_be_made(exported: Place, name: str, words: str) -> None:
    exported.write("file", b"")
    result = exported.fio(**{**_WRITE, "filename": name})
    refused(result, f'cannot open the directory "{name}', words)
    assert exported.names() == ["file"]


# --- refusals ---


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"verify": "crc32c", "bs": "4k", "size": "40k"}, ["verify="]),
        ({"bs": "1,2"}, ["bs"]),
        ({"bsrange": "1-4"}, ["bs"]),
        ({"bs": 7}, ["whole numbers of entries"]),
        ({"unlink": 1}, ["meta_write=remove"]),
        ({"hold_writes": "1m"}, ["hold_writes"]),
        ({"rw": "randrw"}, ["a job of their own"]),
        ({"rw": "randrw", "meta_write": "rename"}, ["meta_write=setattr"]),
        ({"rw": "trimwrite"}, ["use rw=trim"]),
        ({"rw": "trim", "meta_write": "rename"}, ["a trim removes entries", "rmdir"]),
        ({"rw": "trim", "meta_verify": 1}, ["a job that only reads"]),
        ({"rw": "trim", "bs": "1,1,2"}, ["bs"]),
        ({"size": "1t"}, ["do not fit into this machine's memory"]),
        ({"meta_verify": 1}, ["a job that only reads"]),
        ({"meta_verify": 1, "rw": "read", "meta_read": "access"}, ["getattr and lookup"]),
        ({"meta_verify": 1, "rw": "randread", "meta_mix": "getattr:1"}, ["no meta_mix"]),
        ({"metadata": 0, "meta_verify": 1}, ["need metadata=1"]),
        ({"metadata": 0, "meta_mix": "open:1"}, ["need metadata=1"]),
    ],
)
def test_refusals(exported: Place, options: dict[str, Option], words: list[str]) -> None:
    """Before any server is asked, whatever its version."""
    refused(exported.fio(**{**_WRITE, **options}), "metadata=1", *words)
