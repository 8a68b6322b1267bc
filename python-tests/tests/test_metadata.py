# SPDX-License-Identifier: GPL-2.0-only
"""metadata=1: one I/O is one operation on one entry; meta_mix= has several kinds of operations."""

import errno
import math
import os
import re
import stat
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_c import CData, zeros
from engine_helpers import (
    Place,
    done,
    eventually,
    failed_io,
    job_of,
    refused,
    said,
    sections,
    stderr_of,
)
from hypothesis import given
from hypothesis import strategies as st
from scripted_jobs import TWO_ADDRESSES, Outcome, Run, case, runs

from nfsmulti.fiorun import FioProcess, FioResult, OperationStats, Option
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

_ENTRIES = 300
_JOB: dict[str, Option] = {
    "metadata": 1, "bs": 1, "size": _ENTRIES, "iodepth": 16, "dir_entries": 50, "filename": "tree",
}  # fmt: skip
_WRITE: dict[str, Option] = {**_JOB, "rw": "write"}
_READ: dict[str, Option] = {**_JOB, "rw": "randread"}
_VERIFY: dict[str, Option] = {**_READ, "meta_verify": 1}


_CREATE: dict[int, Procedure] = {3: Nfs.CREATE, 4: Nfs4.OPEN}
_LOST = Answer(reply=False, end="reset")  # carried out
_UNHEARD = Answer(act=False, reply=False, end="reset")


def _entries(place: Place, of: str = "tree") -> dict[str, Path]:
    """Return what lies below the directories of a tree, by name: no name may be there twice."""
    found = [Path(top, name) for top, _, names in os.walk(place.files / of) for name in names]
    assert len({path.name for path in found}) == len(found)
    return {path.name: path for path in found}


def _made(count: int) -> dict[str, bytes]:
    """Return the first entries, as a scripted server has them."""
    return {f"tree/d{number // 50:x}/e{number:x}": b"" for number in range(count)}


def _done(result: FioResult) -> int:
    """Return the operations of a job that did well, whatever it has said."""
    done(result)
    return sum(line.meta_ops for line in result.stats)


def _operations(result: FioResult) -> tuple[int, int]:
    operations = _done(result)
    assert said(result) == []
    return operations, sum(line.lookups for line in result.stats)


# --- what each operation does ---


_FIRST = {f"e{number:x}" for number in range(_ENTRIES)}
_OTHER = {f"r{number:x}" for number in range(_ENTRIES)}
# What is done to all entries, one operation after the other; the names that it leaves, its LOOKUPs
# of handles, and what is said where it is done twice.
_OPERATIONS: tuple[tuple[str, set[str], int, str | None], ...] = (
    ("create", _FIRST, 0, "remove the entries first, by a run with meta_write=remove"),
    ("setattr", _FIRST, _ENTRIES, None),
    ("rename", _OTHER, 0, None),
    ("rename", _FIRST, 0, None),
    ("link", _FIRST | _OTHER, _ENTRIES, "it has two names already"),
    ("remove", _OTHER, 0, None),  # the first name, and where that is gone the other
    ("remove", set(), 0, None),
)


def test_what_operations_leave(export: Place) -> None:
    for operation, names, lookups, twice in _OPERATIONS:
        job = {**_WRITE, "meta_write": operation}
        assert _operations(export.fio(**job)) == (_ENTRIES, lookups), operation
        found = _entries(export)
        assert set(found) == names, operation
        for name, path in found.items():
            assert path.parent.name == f"d{int(name[1:], 16) // 50:x}"
            status = path.stat()
            assert stat.S_ISREG(status.st_mode)
            assert status.st_mode & 0o777 == 0o644
            assert status.st_nlink == 1 + (operation == "link")
            assert operation != "setattr" or status.st_mtime > 1
            os.utime(path, (1, 1))
        if twice:
            again = export.fio(**job)
            failed_io(again, "File exists", f"{operation} of entry", twice)
            assert len(said(again)) == 1


def test_the_deepest_tree(exported: Place) -> None:
    """With two of a kind in a directory; one without depth is read and verified below."""
    tree = exported.files / "tree"
    assert _done(exported.fio(**{**_WRITE, "tree_depth": 8, "dir_entries": 2})) == _ENTRIES
    assert {len(path.relative_to(tree).parts) for path in _entries(exported).values()} == {9}
    for top, directories, names in os.walk(tree):
        assert len(directories) + len(names) <= 2 or Path(top) == tree


@pytest.mark.parametrize(
    ("kind", "same", "removal", "is_kind", "words"),
    [
        ("mkdir", "rmdir", {"meta_write": "rmdir", "rw": "trim"}, stat.S_ISDIR, "a directory"),
        ("symlink", "symlink", {"meta_write": "remove"}, stat.S_ISLNK, "a symbolic link of 7 b"),
        ("create", "create", {"rw": "randtrim"}, stat.S_ISREG, "a file of 5 bytes"),
    ],
)
def test_kinds_of_entries(
    export: Place,
    kind: str,
    same: str,
    removal: dict[str, Option],
    is_kind: Callable[[int], bool],
    words: str,
) -> None:
    """They are made, read, verified as that kind and as no other, and removed; links themselves."""
    write: dict[str, Option] = {**_WRITE, "size": 40}
    assert _operations(export.fio(**{**write, "meta_write": kind}))[0] == 40
    directory = export.files / "tree/d0"
    found = list(directory.iterdir())
    assert len(found) == 40
    assert all(is_kind(path.lstat().st_mode) for path in found)
    for what, meant in (("getattr", kind), ("lookup", same)):
        read = {**_READ, "size": 40, "meta_read": what}
        assert _operations(export.fio(**read))[0] == 40
        assert _operations(export.fio(**read, meta_verify=1, meta_write=meant))[0] == 40
    if kind == "create":
        (directory / "e0").write_bytes(b"12345")
    for what in ("getattr", "lookup"):
        read = {**_VERIFY, "size": 40, "meta_read": what, "rw": "read", "iodepth": 1}
        result = export.fio(**read)
        failed_io(result, f"{what} of entry 0", f"it is {words}", "must be a file of 0 bytes")
        assert len(said(result)) == 1
    if kind == "mkdir" and export.kind == "nfs":  # NFSv4.1's REMOVE takes directories as well
        failed_io(export.fio(**write, meta_write="remove"), "remove of entry", "rmdir for direct")
    for _ in range(2):  # the second time they are laid out first
        result = export.fio(**{**write, **removal})
        assert _operations(result)[0] == 40
        (job,) = done(result).jobs
        assert job["trim" if "rw" in removal else "write"]["total_ios"] == 40
        assert list(directory.iterdir()) == []


@pytest.mark.parametrize("what", ["getattr", "lookup", "access", "readdir", "setattr"])
def test_what_a_job_needs_is_laid_out_first(export: Place, what: str) -> None:
    """All but two operations go by the entry's handle, which takes one LOOKUP."""
    option = {"rw": "write", "meta_write": what} if what == "setattr" else {"meta_read": what}
    lookups = 0 if what in ("lookup", "readdir") else _ENTRIES
    assert _operations(export.fio(**{**_READ, **option})) == (_ENTRIES, lookups)
    assert set(_entries(export)) == _FIRST


def test_handles_are_looked_up_once(exported: Place) -> None:
    """As long as the job runs; two at once of one entry might both look it up."""
    drawn: dict[str, Option] = {"rw": "randwrite", "norandommap": 1, "io_size": 1000, "iodepth": 1}
    operations, lookups = _operations(exported.fio(**{**_WRITE, **drawn, "meta_write": "setattr"}))
    assert operations == 1000
    assert lookups <= _ENTRIES


@pytest.mark.parametrize("words", [["--readonly"], ["--allow_file_create=0"]])
def test_what_may_not_be_laid_out(exported: Place, words: list[str]) -> None:
    exported.fio.well(**{**_WRITE, "size": 20})
    exported.fio.well(arguments=[*words, "--name=j"], **{**_READ, "size": 20})
    result = exported.fio(arguments=[*words, "--name=j"], **{**_READ, "size": 30})
    refused(result, "No such file", "allow_file_create=0 forbids")
    assert len(_entries(exported)) == 20
    assert _operations(exported.fio(**{**_READ, "size": 30}))[0] == len(_entries(exported)) == 30


@pytest.mark.full
def test_a_layout_tells_what_it_does(job: Run) -> None:
    """One that lasts, because the server asks to wait, also tells how far it has come."""
    told = threading.Event()
    later = Answer(act=False, status=Status.JUKEBOX)

    def wait(call: Call) -> Answer | None:
        return later if call.procedure is Nfs.CREATE and not told.is_set() else None

    def during(_: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: " % done" in stderr_of(process))
        told.set()

    ran = job(wait, during=during, **{**_READ, "size": 60})
    assert '"tree": 60 files in 2 directories: looking them up' in ran.result.messages
    assert '"tree": 0 % done, 0 entries/s' in ran.result.messages


def test_open_is_nfsv4s_alone(export: Place) -> None:
    """Jobs that are set up over the same paths do not share the refusal."""
    many: dict[str, Option] = {"size": 2, "nconnect": 2, "spread": "roundrobin", "io_size": 100}
    words = [f"--{key}={value}" for key, value in {**_READ, **many}.items()]
    for word, asked in (("meta_read", "open"), ("meta_mix", "open:1,getattr:1")):
        jobs = sections(a={word: asked}, b={"stonewall": None})
        result = export.fio(arguments=[*words, *jobs])
        if export.kind == "nfs4":
            assert _operations(result)[0] == 200  # of one entry at once
            lookups = sum(line.lookups for line in result.stats if line.job == "a")
            assert word == "meta_mix" or not lookups
        else:
            refused(result, "nfsmulti: a: ", f"{word}=open", "NFSv3 has no OPEN", "version=4.1")
            assert result.report is not None
            assert job_of(result.report, "b")["read"]["total_ios"] == 100


_LIST: dict[str, Option] = {
    **_READ, "size": 20, "iodepth": 1, "number_ios": 1, "meta_read": "readdir",
}  # fmt: skip
_SHORT: dict[str, Option] = {"timeo": 15, "retrans": 1}
_READDIR: dict[int, Procedure] = {3: Nfs.READDIR, 4: Nfs4.READDIR}
_PAGE = Answer(limit=7)
_PAGES = on((Nfs.READDIR, Nfs4.READDIR), _PAGE)
_KEEPS_FORGETTING = {"error": errno.EIO, "says": "keeps forgetting the cookies"}
_NOWHERE = {"error": errno.EPROTO, "says": "the listing neither advances nor ends"}


def _fails(version: int, status: str, **which: int) -> Hook:
    failure = Status4[status] if version == 4 else Status[status]
    return on(_READDIR[version], Answer(act=False, status=failure), **which)


def _beyond_the_first(hook: Hook) -> Hook:
    return lambda call: hook(call) if call.offset else None


def _changes(last: int) -> Hook:
    """Make a hook: another name is there with each page up to the last, and cookies are old."""

    def change(server: ScriptedServer) -> None:
        server.export.verifies_cookies = True
        server.create(f"tree/d0/new{len(server.calls())}")

    def hook(call: Call) -> Answer | None:
        changes = change if call.nth < last else None
        return Answer(limit=7, do=changes) if call.procedure is Nfs4.READDIR else None

    return hook


def _asked(ran: Outcome) -> list[int]:
    return [call.offset for call in ran.calls(Nfs.READDIR, Nfs4.READDIR)]


# A directory of 20 is listed once, of which a server may give 7 to a page; NFSv3's has 2 more. What
# is expected of the pages' cookies.
_LISTINGS = {
    **{
        f"goes on from its cookie, v{version}": case(
            on(_READDIR[version], Answer(limit=7, reply=False, end="reset"), nth=2),
            _PAGES,
            version=version,
            **_LIST,
            expected=lambda ran: _asked(ran)[:4] == [0, 9, 9, 16],
        )
        for version in (3, 4)
    },
    "a cookie is forgotten": case(
        _fails(3, "BAD_COOKIE", nth=2), _PAGES, **_LIST, soft=1, quiet=True
    ),
    "a cookie is forgotten, v4": case(
        _fails(4, "NOT_SAME", nth=2), _PAGES, version=4, **_LIST, quiet=True
    ),
    "all cookies are": case(
        _beyond_the_first(_fails(3, "BAD_COOKIE")), _PAGES, **_LIST, **_SHORT, soft=1,
        **_KEEPS_FORGETTING,
    ),
    "all cookies are, v4, hard": case(
        _beyond_the_first(_fails(4, "NOT_SAME")), _PAGES, version=4, **_LIST, **_SHORT,
        error=errno.EIO, says=("NFS4ERR_NOT_SAME", "keeps forgetting the cookies"),
    ),
    "the directory changes 29 times": case(
        _changes(30), version=4, **_LIST, quiet=True, expected=lambda ran: len(_asked(ran)) > 30
    ),
    "it changes for ever, soft": case(
        _changes(1 << 30), version=4, **_LIST, **_SHORT, soft=1, **_KEEPS_FORGETTING
    ),
    # As nfs-ganesha answers when a name is removed: the same page again, but not for ever.
    **{
        f"{status} {times} times, v{version}": case(
            _fails(version, status, after=1, first=times + 1),
            _PAGES,
            version=version,
            **_LIST,
            error=0 if times == 3 else getattr(errno, f"E{status}"),
            says="readdir of entry",
            expected=lambda ran, times=times: {*_asked(ran)[1 : times + 1]} == {9},
        )
        for version, status, times in (
            (3, "NOENT", 3), (4, "STALE", 3), (3, "STALE", 1000), (4, "NOENT", 1000),
        )
    },
    "names are removed on every page": case(
        on(Nfs.READDIR, _PAGE, every=8), _fails(3, "NOENT"), **{**_LIST, "size": 40},
        quiet=True, expected=lambda ran: len(_asked(ran)) > 16,
    ),
    "one cookie for all": case(on(Nfs.READDIR, Answer(limit=7, cookie=9)), **_LIST, **_NOWHERE),
}  # fmt: skip


# --- pools and jobs ---


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


def test_jobs_in_shared_directories(export: Place) -> None:
    thread = int(export.kind == "nfs4")
    options: dict[str, Option] = {"numjobs": 3, "shared_dir": 1, "thread": thread}
    assert _operations(export.fio(**_WRITE, **options))[0] == 3 * _ENTRIES
    assert len(_entries(export)) == 3 * _ENTRIES
    assert _operations(export.fio(**_READ, **options))[0] == 3 * _ENTRIES
    assert _operations(export.fio(**_VERIFY, **options))[0] == 3 * _ENTRIES
    _entries(export)["e7.1"].unlink()
    refused(export.fio(**_VERIFY, **options), "1 missing: entry 7 is the first")


def test_directories_of_their_own(exported: Place) -> None:
    """Each with the entries of its job alone, also where they are laid out."""
    jobs = sections(a={"size": 20, "rw": "write"}, b={"size": 30, "offset": 10, "rw": "randread"})
    common = {name: word for name, word in _JOB.items() if name not in ("filename", "size")}
    assert _operations(exported.fio(arguments=jobs, **common))[0] == 50
    for of, numbers in (("a.0.0", range(20)), ("b.0.0", range(10, 40))):
        assert set(_entries(exported, of)) == {f"e{number:x}" for number in numbers}


# --- meta_verify=1 ---


def test_verify_finds_what_is_missing(exported: Place) -> None:
    """And makes nothing. Names of others, and numbers beyond the job's, are nothing to it."""
    exported.fio.well(**{**_WRITE, "size": _ENTRIES + 10})
    found = _entries(exported)
    for name in ("e1.2", "E1", "e01", "e", "exx", "eFF", "ffff", "r" * 200):
        (found["e1"].parent / name).touch()
    assert _operations(exported.fio(**_VERIFY))[0] == _ENTRIES
    found["e5"].rename(found["e5"].parent / "r5")
    # Neither is one where it is then.
    before = found["eff"].rename(found["e7"].parent / "eff")
    behind = found["e50"].rename(found["ec8"].parent / "e50")
    for number in (200, 299):
        found[f"e{number:x}"].unlink()
    result = exported.fio(**_VERIFY)
    before.unlink()
    behind.unlink()
    refused(result, '"tree": 300 entries, of which 4 missing: entry 80 is the first')
    assert not found["e50"].exists()
    for number in (5, 80, 200, 255, 299):
        found[f"e{number:x}"].touch()
    twice = exported.fio(**_VERIFY)
    refused(twice, '"tree": 300 entries, of which 1 duplicate: entry 5 is the first')
    assert _operations(exported.fio(**_VERIFY, meta_write="link"))[0] == _ENTRIES


# --- calls that are lost, by scripted servers ---


def _lose(server: ScriptedServer) -> None:
    server.refuse(TWO_ADDRESSES[1])
    server.reset_connections()


def _dies(call: Call) -> Answer | None:
    """Let the second address be gone when it is asked for a page, which is not answered."""
    dies = call.procedure is Nfs.READDIR and call.server[0] == TWO_ADDRESSES[1]
    return Answer(act=False, reply=False, do=_lose) if dies else None


def _did_well(ran: Outcome, operation: Nfs4) -> int:
    return sum(not call.status for call in ran.calls(operation))


def _listed_anew(ran: Outcome) -> bool:
    """Whether a listing began again over the other path: a cookie is valid on its own alone."""
    asked = [(call.server[0], call.offset) for call in ran.calls(Nfs.READDIR)]
    lost = next(n for n, (at, offset) in enumerate(asked) if at == TWO_ADDRESSES[1] and offset)
    return asked[lost + 1] == (TWO_ADDRESSES[0], 0)


def _delegations_went_back(ran: Outcome) -> bool:
    return _did_well(ran, Nfs4.DELEGRETURN) == _did_well(ran, Nfs4.OPEN) == 40


def _refused_one_close(ran: Outcome) -> bool:
    told = [call.status for call in ran.calls(Nfs4.CLOSE)]
    delegated = 40 if ran.case.terms().delegates else 0
    return (
        told == [Status4.BAD_STATEID, *[0] * 3, Status4.DELAY, *[0] * 37]
        and (_did_well(ran, Nfs4.OPEN), _did_well(ran, Nfs4.DELEGRETURN)) == (40, delegated)
        and ran.said() == []
    )


_LATER = Answer(act=False, status=Status.JUKEBOX)
_TWO = {"addresses": TWO_ADDRESSES, "failover": 1, "timeo": 5, "spread": "roundrobin"}
_20: dict[str, Option] = {**_WRITE, "size": 20, "iodepth": 1}
_VERIFY_20 = {**_20, "rw": "randread", "meta_verify": 1}
_BARE_LOOKUP = on(Nfs.LOOKUP, Answer(attributes=0))
_40: dict[str, Option] = {**_20, "size": 40}
_OPEN_40 = {**_40, "rw": "randread", "meta_read": "open", "files": _made(40), "version": 4}
_WAIT_TO_CLOSE = on(Nfs4.CLOSE, Answer(status=Status4.DELAY), nth=5)
_GIVES = {"terms": partial(Terms, delegates=True), "version": 4}
_LOSES_RETURNS = on(Nfs4.DELEGRETURN, _LOST, every=10)

# What is expected to hold, if that is not all, of jobs that do all their operations.
_COME_THROUGH = {
    "directories that are full": case(
        **{**_40, "dir_entries": 20}, quiet=True,
        expected=lambda ran: [c.file for c in ran.calls(Nfs.MKDIR)]
        == ["tree", "tree/d0", "tree/d1"],
    ),
    # A name that has no components.
    "a tree in the export itself, v4": case(**{**_20, "filename": "."}, version=4, quiet=True),
    "a listing that begins anew is verified": case(  # what it brought before does not count
        _fails(3, "BAD_COOKIE", nth=3), _PAGES, **{**_VERIFY, "size": 40}, files=_made(40),
        quiet=True,
    ),
    "a directory, a connection lost and then told to wait": case(
        on(Nfs.MKDIR, _UNHEARD, first=2), on(Nfs.MKDIR, _LATER, nth=3), **_20,
        expected=lambda ran: "cannot" not in "".join(ran.said()),
    ),
    # One that the server gives against the wish; the reply to DELEGRETURN may be lost as well.
    "a create's delegation goes back": case(
        _LOSES_RETURNS, **_GIVES, **_40, expected=_delegations_went_back
    ),
    "an open's delegation goes back": case(
        _LOSES_RETURNS, **{**_OPEN_40, **_GIVES}, expected=_delegations_went_back
    ),
    # From the first refusal on CLOSE has a compound of its own, which may have to wait.
    "no CLOSE by the current stateid, of a create": case(
        _WAIT_TO_CLOSE, version=4, terms=partial(Terms, closes_apart=True), **_40,
        expected=_refused_one_close,
    ),
    "no CLOSE by the current stateid, of an open": case(
        _WAIT_TO_CLOSE, **_OPEN_40, terms=partial(Terms, closes_apart=True, delegates=True),
        expected=_refused_one_close,
    ),
    "a path dies amid a listing": case(
        _beyond_the_first(_dies), _PAGES, **_TWO,
        **{**_20, "rw": "read", "meta_read": "readdir"}, files=_made(20), expected=_listed_anew,
    ),
    "a server that goes on behind a failure": case(  # its LOOKUPs find nothing first
        terms=partial(Terms, goes_on=True), version=4, **{**_20, "rw": "randread"}
    ),
    **{
        f"{what} asks for what stat(2) tells": case(  # RFC 8881, 5.6 and 5.7
            **{**_20, "rw": "randread"}, meta_read=what, version=4,
            expected=lambda ran: ran.calls(Nfs4.GETATTR)[-1].wanted
            == sum(1 << bit for bit in (1, 3, 4, 8, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53)),
        )
        for what in ("getattr", "lookup")
    },
    # RFC 1813, 3.3.3: obj_attributes is optional. GETATTR's are not.
    "LOOKUP brings no attributes": case(
        _BARE_LOOKUP, **_VERIFY_20, meta_read="getattr", files=_made(20), quiet=True
    ),
    # Also with one call at a time, as a session for names has.
    "verify asks for what a session takes": case(
        terms=partial(Terms, response_max=2048), version=4, quiet=True, tree_depth=0,
        **{**_VERIFY_20, "size": 100}, files={f"tree/e{number:x}": b"" for number in range(100)},
    ),
}  # fmt: skip


def _gone(server: ScriptedServer) -> None:
    export = server.export
    gone = export.find("tree/d1")
    for name in list(gone.children):
        export.remove(gone, name)
    export.remove(export.find("tree"), "d1")


def _ten_are_made(ran: Outcome) -> bool:
    """Whether what was made before is counted, by fio as well, and one line tells of the rest."""
    assert ran.result.report is not None
    counts = sum(line.meta_ops for line in ran.stats), ran.result.report.bytes("write")
    return counts == (10, 10) and len(ran.said()) == 1


def _stays_up(ran: Outcome) -> bool:
    return not any(line.reconnects for line in ran.stats)


_SHORT_REFUSAL = Answer(results=struct.pack(">I", Status.INVAL))
_NO_ROOM, _FEWER = "no room for more entries", "use a smaller dir_entries="
_MLINK = 31  # NFS3ERR_MLINK
_THERE = "it is there already"
_FAIL = {
    # Where the first copy was not heard NFSv4.1's slot tells so.
    "others' file, an OPEN not heard, v4": case(
        on(Nfs4.OPEN, _UNHEARD, nth=6), **_20, files={"tree/d0/e5": b""}, version=4,
        error=errno.EEXIST, says=("create of entry 5", _THERE),
    ),
    # One that is put off was not carried out.
    **{
        f"others' file, put off, {later.name}": case(
            on(operation, Answer(act=False, status=later), nth=6), **_20,
            files={"tree/d0/e5": b""}, version=version, error=errno.EEXIST, says=_THERE,
        )
        for version, operation, later in (
            (3, Nfs.CREATE, Status.JUKEBOX), (4, Nfs4.OPEN, Status4.DELAY),
        )
    },
    # And whose compound went well, as its last operation did.
    "a server that goes on behind a failure": case(
        terms=partial(Terms, goes_on=True), version=4, **_20, files=_made(20),
        error=errno.EEXIST, says=("NFS4ERR_EXIST", _THERE),
    ),
    "a directory that is denied, hard": case(
        on(Nfs.MKDIR, Answer(act=False, rpc=denied(AuthStat.TOOWEAK))), **_WRITE,
        error=errno.EACCES,
        says=("the server denied the credentials", "reserved source port"),
    ),
    # A connection that is lost is no denial, whichever way it ends.
    **{
        f"a directory that is not opened, soft, {end}": case(
            on(Nfs.MKDIR, Answer(act=False, reply=False, end=end)),
            **_WRITE, soft=1, timeo=5, retrans=0, error=errno.ETIMEDOUT,
            says=("cannot open the directory", os.strerror(errno.ETIMEDOUT)),
        )
        for end in ("close", "reset")
    },
    # Its handle is stale for good: it is looked up once, and the message says so.
    **{
        f"a directory that is gone, v{version}": case(
            on(create, Answer(do=_gone), nth=70), version=version, **{**_WRITE, "iodepth": 1},
            error=errno.ENOENT,
            says=("does not find that directory again", "its directory is gone"),
        )
        for version, create in _CREATE.items()
    },
    # What a server makes no more entries with, after the tenth.
    **{
        f"{status} in {depth} directories, v{version}": case(
            on(_CREATE[version], Answer(act=False, status=status), after=10),
            **{**_WRITE, "size": 40, "tree_depth": depth}, version=version, error=error,
            says=words, expected=_ten_are_made,
        )
        for version, depth, status, error, words in (
            (3, 1, Status.NOSPC, errno.ENOSPC, _NO_ROOM),
            (4, 1, Status.DQUOT, errno.EDQUOT, _NO_ROOM),
            (3, 1, Status.FBIG, errno.EFBIG, _FEWER),
            (4, 1, _MLINK, errno.EMLINK, _FEWER),
            (3, 0, _MLINK, errno.EMLINK, "use tree_depth=1"),
            (4, 1, Status.ROFS, errno.EROFS, "over this export?"),
            (3, 1, Status.ACCES, errno.EACCES, "may this user do that here"),
        )
    },
    "LOOKUP brings no attributes": case(
        _BARE_LOOKUP, **_VERIFY_20, meta_read="lookup", files=_made(20), error=errno.EILSEQ,
        says="of a type that the server's LOOKUP does not report",
    ),
    # A status without what follows it, of NFSv3 attributes: it counts, for that operation alone.
    "LINK is refused in short": case(
        on(Nfs.LINK, _SHORT_REFUSAL), **_20, meta_write="link", files=_made(20),
        error=errno.EINVAL, says="NFS3ERR_INVAL, and its reply is too short", expected=_stays_up,
    ),
    "SETATTR is refused in short": case(
        on(Nfs4.SETATTR, _SHORT_REFUSAL), **_20, meta_write="setattr", files=_made(20), version=4,
        error=errno.EINVAL, says="ERR_INVAL", expected=_stays_up,
    ),
}  # fmt: skip


@pytest.mark.sanitized
@runs(
    {
        **{f"a listing: {name}": one for name, one in _LISTINGS.items()},
        **{f"done: {name}": one for name, one in _COME_THROUGH.items()},
        **{f"failed: {name}": one for name, one in _FAIL.items()},
    }
)
def test_jobs_on_odd_servers(ran: Outcome) -> None:
    options = ran.case.options
    assert ran.case.error or _done(ran.result) == options.get("number_ios", options["size"])
    assert ran.case.expected is None or ran.case.expected(ran)


@pytest.mark.sanitized
def test_a_server_that_forgets_handles(client: FioRunner, server: ScriptedServer) -> None:
    """Of entries and of directories: they are looked up again, from the root."""
    known: dict[str, None] = {}  # by the paths of those 40 that were named last

    def forgets(call: Call) -> Answer | None:
        if call.procedure not in (Nfs4.PUTFH, Nfs4.GETFH) or not call.file:
            return None
        if call.procedure is Nfs4.PUTFH and call.file not in known:
            return Answer(status=Status4.STALE)
        known.pop(call.file, None)
        known[call.file] = None
        for oldest in list(known)[:-40]:
            del known[oldest]
        return None

    server.hooks.append(forgets)
    for how in (
        {"rw": "write", "filename": ".hidden"},
        {"rw": "randread", "filename": ".hidden"},
        {"rw": "write", "filename": "."},
        {"rw": "randread", "filename": ".", "meta_read": "readdir"},
        {"rw": "write", "filename": ".", "meta_write": "link"},
        {"rw": "read", "filename": ".", "meta_write": "link", "meta_verify": 1},
    ):
        job = {**_JOB, "size": 100, "dir_entries": 20, **how}
        assert _operations(client(pool=server.pool(version=4), **job))[0] == 100


# --- the figures of each kind of operation ---

_MADE = 200
_MIXED: dict[str, Option] = {**_JOB, "rw": "randrw", "size": _MADE}
_PERCENTILES = ("p50_us", "p95_us", "p99_us", "p99_9_us", "p99_99_us", "max_us")


def _expect_sound(line: OperationStats) -> None:
    latencies = [getattr(line, name) for name in _PERCENTILES]
    assert latencies == sorted(latencies)
    assert bool(line.ops) == (line.iops > 0) == (line.mean_us > 0)
    assert line.mean_us <= line.max_us


def _by_kind(result: FioResult) -> dict[str, OperationStats]:
    """Return the figures of a run's only job, and expect them to be sound."""
    done(result)
    found = {line.operation: line for line in result.operations}
    assert len(found) == len(result.operations)
    for line in found.values():
        _expect_sound(line)
    return found


@pytest.mark.sanitized
@given(values=st.lists(st.integers(0, 2**44 - 1), min_size=1), percent=st.floats(0, 100))
def test_percentiles_are_off_by_less_than_one_per_cent(
    testlib: CData, values: Sequence[int], percent: float
) -> None:
    histogram = zeros("histogram")
    for value in values:
        testlib.histogram_add(histogram, value)
    rank = max(1, math.ceil(percent / 100 * len(values)))
    told = testlib.histogram_percentile(histogram, percent)
    assert told == pytest.approx(sorted(values)[rank - 1], rel=0.01, abs=0)
    assert testlib.histogram_mean(histogram) == sum(values) // len(values)
    testlib.histogram_add(histogram, 2**64 - 1)  # no value is too large
    assert 2**43 <= testlib.histogram_percentile(histogram, 100) < 2**45


def test_each_job_has_figures_of_each_kind_of_operation(export: Place) -> None:
    thread = int(export.kind == "nfs4")
    result = export.fio(**_MIXED, meta_write="setattr", rwmixread=70, numjobs=4, thread=thread)
    report = done(result)
    assert said(result) == []
    expected = {(job, kind) for job in range(4) for kind in ("getattr", "setattr")}
    assert {(line.job_number, line.operation) for line in result.operations} == expected
    assert len(result.operations) == len(expected)
    done_by_fio = {"getattr": report.operations("read"), "setattr": report.operations("write")}
    for kind, operations in done_by_fio.items():
        lines = [line for line in result.operations if line.operation == kind]
        assert sum(line.ops for line in lines) == operations
        for line in lines:
            _expect_sound(line)
            told = rf" {kind}: {line.ops} done, 0 errors, IOPS=.*, p99\.99=[0-9.]+$"
            assert re.search(told, result.messages, re.MULTILINE)
    assert sum(line.ops for line in result.operations) == 4 * _MADE


def test_latencies_hold_the_servers_delay(job: Run) -> None:
    """Where a removal has to make an entry first, the CREATE's delay is not the REMOVE's."""
    delay = 0.1
    removals = {**_MIXED, "size": 32, "rw": "randwrite", "meta_mix": "remove:1"}
    result = job(on(Nfs.CREATE, Answer(delay=delay)), **removals).result
    found = _by_kind(result)
    assert {kind: line.ops for kind, line in found.items()} == {"create": 32, "remove": 32}
    assert delay * 1e6 <= found["create"].mean_us <= result.seconds * 1e6
    assert found["remove"].p50_us < found["create"].p50_us


# --- meta_mix ---

_MIX = "getattr:50,lookup:15,readdir:5,setattr:5,create:15,remove:10"
_LEFT = re.compile(
    r"meta_mix: beside the job's entries, (\d+) files and (\d+) directories are left; "
    r"(\d+) removals had to make an entry first"
)


def _left(result: FioResult) -> tuple[int, int, int]:
    """Return the files and directories that a job has told it left, and what removals made."""
    (found,) = _LEFT.findall(result.messages)
    return int(found[0]), int(found[1]), int(found[2])


def _own_and_beside(place: Place) -> tuple[list[str], list[str]]:
    """Name the job's entries that are there, and those beside them."""
    found = [path.name for path in (place.files / "tree").glob("d*/*")]
    return sorted(n for n in found if n[0] == "e"), sorted(n for n in found if n[0] != "e")


def _expect_share(part: int, of: int, share: float) -> None:
    """Expect a binomial count, within five standard deviations."""
    assert abs(part - of * share) <= 5 * math.sqrt(of * share * (1 - share))


def test_operations_by_weight(export: Place) -> None:
    size = 2000
    spread: dict[str, Option] = {"nconnect": 2, "spread": "stripe", "stripe_size": 50}
    result = export.fio(**{**_MIXED, **spread, "size": size, "meta_mix": _MIX})
    report, found = done(result), _by_kind(result)
    assert said(result) == []
    files, directories, made_first = _left(result)
    reads, writes = report.operations("read"), report.operations("write")
    assert reads + writes == size
    assert reads == pytest.approx(0.7 * size, rel=0.05)  # fio's own draw
    assert sum(found[name].ops for name in ("getattr", "lookup", "readdir")) == reads
    drawn = {name: line.ops for name, line in found.items()}
    drawn["create"] -= made_first
    assert drawn["setattr"] + drawn["create"] + drawn["remove"] == writes
    for name, share in {"getattr": 50 / 70, "lookup": 15 / 70, "readdir": 5 / 70}.items():
        _expect_share(drawn[name], reads, share)
    for name, share in {"setattr": 5 / 30, "create": 15 / 30, "remove": 10 / 30}.items():
        _expect_share(drawn[name], writes, share)
    own, beside = _own_and_beside(export)
    assert len(own) == size
    assert (len(beside), directories) == (files, 0)
    assert files == found["create"].ops - found["remove"].ops


def _traced(place: Place, **options: Option) -> list[tuple[str, str]]:
    """Run a job of one I/O at a time; return each operation and its entry."""
    result = place.fio.well(**{**_MIXED, "iodepth": 1, "trace": 1, **options})
    return re.findall(r'"tree" (\w+) \d+@(\d+)', result.messages)


def test_the_same_seed_draws_the_same_operations(exported: Place) -> None:
    def names(**options: Option) -> list[str]:
        return [operation for operation, _ in _traced(exported, meta_mix=_MIX, **options)]

    first = names()
    assert names() == first != names(randseed=7)
    assert names(randrepeat=0) != first


def test_removals_take_the_oldest_first(exported: Place) -> None:
    """Also once so many are there that the list of them has grown (from 1,024)."""
    traced = _traced(exported, meta_mix="create:3,remove:1", rw="randwrite", size=3000)
    created = [entry for operation, entry in traced if operation == "create"]
    removed = [entry for operation, entry in traced if operation == "remove"]
    assert removed == created[: len(removed)]
    assert len(created) > 2 * len(removed) > 1000


@pytest.mark.parametrize("make", ["create", "mkdir"])
def test_what_is_not_there_is_made_before_it_is_removed(exported: Place, make: str) -> None:
    """One at a time, every removal finds nothing: its I/O is two operations."""
    job: dict[str, Option] = {**_MIXED, "rw": "randwrite", "iodepth": 1, "size": 60}
    remove = {"create": "remove", "mkdir": "rmdir"}[make]
    result = exported.fio(**job, meta_mix=f"{remove}:1")
    found = _by_kind(result)
    assert {name: line.ops for name, line in found.items()} == {make: 60, remove: 60}
    assert _left(result) == (0, 0, 60)
    assert _own_and_beside(exported) == ([], [])
    result = exported.fio(**job, meta_mix=f"{make}:1")
    assert _by_kind(result)[make].ops == 60
    own, beside = _own_and_beside(exported)
    assert own == []
    assert len(beside) == 60 == sum(_left(result))


def test_jobs_that_share_directories_do_not_meet(exported: Place) -> None:
    """Nor do they meet what an earlier run has left; files are opened again by each loop."""
    job: dict[str, Option] = {**_MIXED, "meta_mix": _MIX, "numjobs": 3, "loops": 2}
    left = 0
    for _ in range(2):
        result = exported.fio.well(**job)
        assert said(result) == []
        left += sum(int(found[0]) for found in _LEFT.findall(result.messages))
    own, beside = _own_and_beside(exported)
    assert (len(own), len(beside)) == (_MADE, left)


def test_a_mix_that_fits_its_job(exported: Place) -> None:
    mixes: dict[str, dict[str, Option]] = {
        "getattr:1,lookup:1": {"rw": "randread"},
        "setattr:1": {"rw": "randwrite"},
        "getattr:2,setattr:1": {"rwmixread": 67},  # as the weights have it
    }
    for mix, how in mixes.items():
        result = exported.fio(**{**_MIXED, **how, "meta_mix": mix})
        found = _by_kind(result)
        assert sum(line.ops for line in found.values()) == _MADE
        for kind in found:  # of a single kind fio tells all there is
            assert (f" {kind}: " in result.messages) == (len(found) > 1)
        assert said(result) == []
        assert _own_and_beside(exported)[1] == []


_WRITE_40: dict[str, Option] = {**_MIXED, "rw": "randwrite", "iodepth": 1, "size": 40}


@pytest.mark.sanitized
def test_a_new_entry_that_cannot_be_made(job: Run) -> None:
    """The removal for which it was to be made does not follow."""
    full = on(Nfs.CREATE, Answer(act=False, status=Status.NOSPC), after=10)
    says = ("No space left on device", "no room for more")
    ran = job(full, **_WRITE_40, meta_mix="remove:1", error=errno.ENOSPC, says=says)
    name = ran.calls(Nfs.CREATE)[10].file.removeprefix("tree/")
    assert f'create of entry "{name}" below "tree": No space left' in ran.result.messages
    found = {line.operation: (line.ops, line.errors) for line in ran.result.operations}
    assert found == {"create": (10, 1), "remove": (10, 0)}
    (told,) = (line for line in ran.said() if " done, " in line)
    assert " create: 10 done, 1 errors" in told


@pytest.mark.sanitized
def test_a_notice_names_the_new_entry(job: Run) -> None:
    """By what its directory shows: its number means nothing to anybody."""
    odd = on(Nfs.CREATE, Answer(attributes=2), nth=3)
    ran = job(odd, **_WRITE_40, meta_mix="create:1", error=errno.EPROTO)
    name = ran.calls(Nfs.CREATE)[2].file.removeprefix("tree/")
    words = f'CREATE of entry "{name}" below "tree": the reply contradicts'
    assert words in ran.result.messages
