# SPDX-License-Identifier: GPL-2.0-only
"""nfsmulti-export: what there is on a path, over NFSv3, NFSv4.1 and mounts."""

import errno
import json
import os
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from engine_helpers import Place

from nfsmulti import export
from nfsmulti.errors import HarnessError
from nfsmulti.paths import built
from nfsmulti.processes import run
from servers.rpc import Hyper, xdr
from servers.scripted import (
    Answer,
    Call,
    Export,
    Hook,
    Nfs,
    Nfs4,
    ScriptedServer,
    Status,
    Status4,
    on,
)

both_versions = pytest.mark.parametrize("version", [3, 4])


@pytest.fixture
def there(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Let the module's program run where the place is reached."""
    monkeypatch.setattr(export, "run", place.run)
    return place


def test_what_paths_offer(there: Place) -> None:
    found = export.info(there.pool)
    assert [path.label for path in found] == list(there.labels)
    version = {"nfs": "3", "nfs4": "4.1", "mount": "mount"}[there.kind]
    for path in found:
        assert (path.error, path.version) == ("", version)
        assert path.may_write
        assert 0 < (path.bytes_available or 0) <= (path.bytes_total or 0)
        assert path.read_max == path.write_max == (0 if there.kind == "mount" else 1 << 20)


def test_a_directory_from_its_making_to_its_removal(there: Place) -> None:
    """A tree of more entries than one READDIR lists; links are removed, and not followed."""
    there.write("foreign/theirs", b"theirs")
    export.make(there.pool, "run")
    for number in range(1500):
        there.write(f"run/entry {number:0100}", b"12")
    there.write("run/a/b/n\xe4me", b"123")
    (there.files / "run" / "link").symlink_to("../foreign")
    there.write("run/entry", b"")
    (there.files / "run" / "a" / "up").symlink_to("..")
    listed = {one.name: one.type for one in export.listing(there.pool)}
    assert listed == {"foreign": "directory", "run": "directory"}
    assert export.listing(there.pool, "run/a/b") == [export.Entry("n\xe4me", "file", 3)]
    with pytest.raises(HarnessError, match='"run" is there already, and is not ours'):
        export.make(there.pool, "run")
    with pytest.raises(HarnessError, match='"link": Not a directory'):
        export.remove_unmarked(there.pool, "run/link/theirs")
    with pytest.raises(HarnessError, match=r"remove .*run.*not empty"):
        export.remove_empty(there.pool, "run")
    for mark in ("mark", "link", "entry"):  # none, a link to a directory, a file
        with pytest.raises(export.UnmarkedError, match=f'it has no directory "{mark}": it stays'):
            export.remove(there.pool, "run", mark)
    assert export.remove(there.pool, "run", "a") == export.Usage(entries=1507, bytes=3003)
    assert export.remove(there.pool, "run", "a") == export.Usage(entries=0, bytes=0)
    assert [path.name for path in there.files.iterdir()] == ["foreign"]
    assert (there.files / "foreign" / "theirs").read_bytes() == b"theirs"


def test_nothing_is_removed_without_a_mark(place: Place) -> None:
    """All files stay as they are; one line says why, or the usage where MARK is left out."""
    names = ["beside", "run/a/b/theirs", "run/theirs"]
    theirs = {name: place.random(name, 5000) for name in names}
    for words, status, said in (
        ([], 2, "Usage: "),
        *(([word], 2, f'"{word}": MARK is the name of a') for word in ("", ".", "..", "a/b")),
        *(([word], 4, f'has no directory "{word}": it stays') for word in ("mark", "theirs")),
    ):
        argv = [str(built("nfsmulti-export")), "remove", place.pool, "run", *words]
        done = place.run(argv, timeout=60)
        assert {name: (place.files / name).read_bytes() for name in place.names()} == theirs
        assert done.status == status, done.stderr
        assert said in done.stderr.splitlines()[0]
        assert not words or done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", ".", "a/..", "../a", "./a"])
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine").mkdir()
    for work in (export.remove_unmarked, export.remove_empty, export.make):
        with pytest.raises(HarnessError, match="relative to the export"):
            work(str(tmp_path / "mine"), name)
    assert (tmp_path / "mine").is_dir()


_NAMES = {
    b"a name, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80": "a name, \u00e4\u20ac\U0001f600",
    b"\x1b]0;title\x07\x7f\n": r"\x1b]0;title\x07\x7f\x0a",
    b"\x9b31m \xc2\x9b31m": r"\x9b31m \xc2\x9b31m",
    b"\xe2\x80\xae \xe2\x81\xa6 \xd8\x9c": r"\xe2\x80\xae \xe2\x81\xa6 \xd8\x9c",
    b"\xc0\xaf \xed\xa0\x80 \xf8\x80\x80\x80 \xf4\x90\x80\x80": r"\xc0\xaf \xed\xa0\x80"
    r" \xf8\x80\x80\x80 \xf4\x90\x80\x80",
    b"cut \xe2\x82": r"cut \xe2\x82",
}


@pytest.mark.parametrize("name", _NAMES)
def test_a_name_does_not_speak_to_the_terminal(tmp_path: Path, name: bytes) -> None:
    """Control characters, what is no UTF-8, and what turns text round are told as bytes."""
    with pytest.raises(HarnessError) as caught:
        export.make(str(tmp_path), os.fsdecode(name) + "/x")
    assert f'find directory "{_NAMES[name]}": ' in str(caught.value)


@pytest.mark.parametrize("name", ["nope", "a"])
def test_pools_that_are_not_there(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The harness says the last line: it names the variable that is set."""
    monkeypatch.delenv("NFSMULTI_POOLS", raising=False)
    monkeypatch.delenv("IOTRAP_MOUNT_POOLS", raising=False)
    refusal = "pool=nope: neither NFSMULTI_POOLS nor IOTRAP_MOUNT_POOLS is set"
    if name == "a":
        monkeypatch.setenv("IOTRAP_MOUNT_POOLS", "a:nfs://no.invalid/x")
        refusal = "IOTRAP_MOUNT_POOLS: column 3: "
    with pytest.raises(HarnessError, match=f"^{refusal}"):
        export.info(name)


@pytest.mark.parametrize("words", ["keytab=/k&sec=sys", "server_principal=nfs@x", "tls_ca=/ca.pem"])
def test_security_that_nothing_uses(words: str) -> None:
    """As a job refuses it: what was asked in clear would say nothing of it."""
    refusal = "127.0.0.1:/x: .* (need Kerberos|have no effect without TLS): give "
    with pytest.raises(HarnessError, match=refusal):
        export.info(f"nfs://127.0.0.2/x,nfs://127.0.0.1/x?{words}")


def test_directories_that_are_not_the_same(tmp_path: Path) -> None:
    """Also where both have one of that name; paths of a server are in test_run_directory.py."""
    first, second = tmp_path / "a", tmp_path / "b"
    (second / "run").mkdir(parents=True)
    first.mkdir()
    words = f"{first} and {second} do not lead to the same files"
    with pytest.raises(export.DifferentFilesError, match=words):
        export.make(f"{first},{second}", "run")
    assert list(first.iterdir()) == []


def test_file_numbers_of_two_versions_may_differ() -> None:
    """Two servers stand for one: the second one's directory is there once the first has made it."""
    with ScriptedServer() as first, ScriptedServer() as second:
        second.create("other", b"")
        made = Answer(do=lambda _: second.create("run/file", b""))
        first.hooks.append(on(Nfs.MKDIR, made))
        with pytest.raises(export.DifferentFilesError):
            export.make(f"{first.url()},{second.url()}", "run")
        export.remove_unmarked(second.url(), "run")
        export.make(f"{first.url()},{second.url(version=4)}", "run")


_DEEP = 1500  # levels


def test_a_directory_is_as_deep_as_it_may_be(place: Place) -> None:
    """Removed with few descriptors, whatever lies below: a mount needs some."""
    above = os.open(place.files, os.O_PATH)
    for name in ["run", *["deep"] * _DEEP]:
        os.mkdir(name, dir_fd=above)
        below = os.open(name, os.O_PATH, dir_fd=above)
        os.close(above)
        above = below
    os.mknod("file", dir_fd=above)
    os.close(above)
    limited = ["prlimit", "--nofile=100:100", str(built("nfsmulti-export"))]
    try:
        done = place.run([*limited, "remove-unmarked", place.pool, "run"], timeout=300)
        assert json.loads(done.stdout.splitlines()[-1])["entries"] == _DEEP + 2, done.stderr
        assert list(place.files.iterdir()) == []
    finally:  # Python removes no directory that is as deep, and later tests would fail for that
        run(["rm", "-rf", str(place.files / "run")], timeout=300)


def test_a_removal_ends_at_a_mount(tmp_path: Path) -> None:
    """Also of the same file system; all else goes, and what it lies in stays with its mark."""
    theirs, away = tmp_path / "theirs", tmp_path / "away"
    for folder in (theirs, away / "run/mark", away / "run/a/bound", away / "run/b/other"):
        folder.mkdir(parents=True)
    for file in (theirs / "file", away / "run/a/file", away / "run/b/file"):
        file.write_text("1")
    script = """\
mount --bind theirs away/run/a/bound
mount -t tmpfs none away/run/b/other
echo 1 >away/run/b/other/file
! "$1" remove "$PWD/away" run mark >removed
tail -n 1 removed
grep -q 1 away/run/b/other/file
umount away/run/a/bound away/run/b/other
"$1" remove "$PWD/away" run mark >removed
tail -n 1 removed
"""
    argv = ["unshare", "--mount", "--", "sh", "-ec", script, "sh", str(built("nfsmulti-export"))]
    done = run(argv, timeout=60, cwd=tmp_path)
    assert done.status == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["entries"] for one in said] == [2, 6]
    (line,) = done.stderr.splitlines()
    other = r"another file system: unmount it, or remove it by hand \(.*\): 2 entries stay"
    assert re.search(rf'away: go into "run/(a/bound|b/other)": {other}', line)
    assert (theirs / "file").read_text() == "1"
    assert list(away.iterdir()) == []


@both_versions
@pytest.mark.parametrize("more", [1, 1 << 32], ids=["minor", "major"])
def test_a_removal_ends_at_another_file_system(version: int, more: int) -> None:
    """NFSv4 tells a file system by two numbers."""
    with ScriptedServer() as server:
        for name in ("run/0/file", "run/a/other/file", "run/z"):
            server.create(name, b"12")
        server.export.find("run/a/other").fsid += more
        url = server.url(version=version)
        export.make(url, "run/mark")
        with pytest.raises(HarnessError, match='go into "run/a/other": another file system'):
            export.remove(url, "run", "mark")
        assert {one.name for one in export.listing(url, "run")} == {"a", "mark"}
        assert server.content("run/a/other/file") == b"12"


def test_what_a_server_does_not_tell() -> None:
    """That is no error; and one right of two is none: no LOOKUP beside READ, no EXTEND."""
    refusals = (
        on(Nfs4.ACCESS, Answer(act=False, status=Status4.NOTSUPP)),
        on(Nfs.FSSTAT, Answer(act=False, status=Status.NOTSUPP)),
    )
    half = on(Nfs.ACCESS, Answer(results=xdr(0, 0, 0x05)))
    uncounted = on(Nfs.FSSTAT, Answer(results=xdr(0, 0, *[Hyper(9)] * 3, *[Hyper(0)] * 3, 0)))
    for version, hooks, flavors, told in (
        (3, refusals, (1,), {"error": "", "bytes_available": None, "may_write": True}),
        (4, refusals, (1,), {"error": "", "bytes_available": None, "may_write": None}),
        (3, (half,), (1,), {"may_read": False, "may_write": False}),
        (3, (uncounted,), (1,), {"bytes_available": 9, "files_available": None}),
        (3, (), (), {"flavors": ["sys"], "flavors_error": ""}),
    ):
        with ScriptedServer(*hooks, export=Export(flavors=flavors)) as server:
            (found,) = export.info(server.url(version=version))
        assert {name: getattr(found, name) for name in told} == told


@both_versions
def test_a_path_that_is_not_there_is_told_beside_those_that_are(version: int) -> None:
    """A directory that the server refuses to make is an error."""
    rofs = on(Nfs.MKDIR, Answer(status=Status.ROFS)), on(Nfs4.CREATE, Answer(status=Status4.ROFS))
    with ScriptedServer(*rofs) as server:
        url = server.url(version=version)
        found = export.info(f"{url.replace('/export', '/nowhere')},{url}")
        with pytest.raises(HarnessError, match=r'make directory "run": NFS[34]ERR_ROFS'):
            export.make(url, "run")
    assert [bool(path.error) for path in found] == [True, False]
    assert found[0].remedy == "name an export that the server has"


def test_a_machine_without_an_rdma_device() -> None:
    """The remedy is in the error's words: another version would not help."""
    if list(Path("/sys/class/infiniband").glob("*")):
        pytest.skip("this machine has an RDMA device")
    (found,) = export.info("nfs://127.0.0.1/export?proto=rdma")
    assert "no RDMA device" in found.error
    assert (found.errno, found.remedy) == (errno.ENODEV, "")


def test_paths_that_were_not_asked_in_time_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no shorter list of those that were."""
    monkeypatch.setattr(export, "_INFO_SECONDS", 3.0)
    with ScriptedServer() as gone, ScriptedServer() as silent:
        gone.refuse()
        silent.stall()
        with pytest.raises(HarnessError, match="did not end in time"):
            export.info(f"{gone.url()},{silent.url()}")


@both_versions
def test_pages_without_a_name(version: int) -> None:
    """As Linux bears them, where eight do not follow each other."""
    procedure, empty = (Nfs.READDIR, Nfs4.READDIR)[version == 4], Answer(limit=0, eof=0)
    late = on(procedure, Answer(limit=5), every=8)
    with ScriptedServer(late, on(procedure, empty)) as server:
        for number in range(12):
            server.create(f"run/{number}", b"1")
        assert len(export.listing(server.url(version=version), "run")) == 12
        assert export.remove_unmarked(server.url(version=version), "run").entries >= 12
        server.hooks[:] = [on(procedure, empty)]
        with pytest.raises(HarnessError, match="8 pages in a row have no name"):
            export.listing(server.url(version=version))


@both_versions
def test_a_connection_that_is_lost_while_entries_come_and_go(version: int) -> None:
    """What was removed by a copy whose reply was lost is gone.

    What was made by one is ours: NFSv4.1's session for names has the server keep its replies.
    """
    lost = Answer(end="reset", reply=False)
    hooks = on((Nfs.REMOVE, Nfs4.REMOVE), lost, nth=3), on(Nfs4.CREATE, lost, nth=1)
    with ScriptedServer(*hooks) as server:
        export.make(server.url(version=version), "run")
        for number in range(20):
            server.create(f"run/{number}", b"1")
        assert export.remove_unmarked(server.url(version=version), "run").entries >= 20
        assert export.listing(server.url(version=version)) == []


@both_versions
def test_a_server_that_only_says_that_it_removes(version: int) -> None:
    """What it lists again stays, and is named: the removal does not go on for ever."""
    says = Answer(act=False, results=bytes(12 if version == 3 else 24))
    with ScriptedServer(on((Nfs.REMOVE, Nfs4.REMOVE), says)) as server:
        for number in range(3):
            server.create(f"run/{number}", b"1")
        words = r'remove "run/.": it was removed, and is there again .*: 3 entries stay'
        with pytest.raises(HarnessError, match=words):
            export.remove_unmarked(server.url(version=version), "run")


@both_versions
def test_the_mark_goes_last(version: int) -> None:
    """A removal that failed half-way can be repeated, also where the mark is listed first."""
    denied = Answer(act=False, status=Status.ACCES if version == 3 else Status4.ACCESS)
    with ScriptedServer(on(Nfs.REMOVE, denied, nth=3), on(Nfs4.REMOVE, denied, nth=3)) as server:
        for number in range(20):
            server.create(f"run/{number}", b"1")
        url = server.url(version=version)
        export.make(url, "run/0mark")
        with pytest.raises(HarnessError, match=r"remove .*ACCES"):
            export.remove(url, "run", "0mark")
        assert "0mark" in {one.name for one in export.listing(url, "run")}
        export.remove(url, "run", "0mark")
        assert export.listing(url) == []


@pytest.mark.parametrize(
    ("words", "status"), [(["nfsmulti-export", "info"], 1), (["nfsmulti-pool"], 2)]
)
def test_a_full_disk_is_noticed(tmp_path: Path, words: list[str], status: int) -> None:
    argv = [str(built(words[0])), *words[1:], str(tmp_path)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        status, f"{words[0]}: cannot print: No space left on device\n",
    )  # fmt: skip


# --- servers that have it wait for ever ---

# A clock that is 12 times as fast.
_QUICK = {"LD_PRELOAD": str(built("libquick-start.so")), "NFSMULTI_TEST_CLOCK": "12"}
_WAIT, _DELAY = (Answer(act=False, status=one) for one in (Status.JUKEBOX, Status4.DELAY))
_TOO_LONG = "the server has asked to wait for too long"


def _puts_the_check_off() -> Hook:
    """Make a hook: that LOOKUP waits until its connection is given up; the next is answered."""
    lookups: list[object] = []

    def hook(call: Call) -> Answer | None:
        if call.procedure is not Nfs.LOOKUP:
            return None
        lookups.append(call.client)
        return _WAIT if len(lookups) > 1 and call.client == lookups[0] else None

    return hook


# What is asked, by which version, of a server that does so, and what is said of that.
_WAITS: Sequence[tuple[str, int, Hook, str]] = (
    ("make run", 3, _puts_the_check_off(), 'find "run": Connection timed out'),
    # The mark, whose removal nobody answers, is not counted.
    ("remove run mark", 3, on(Nfs.RMDIR, _WAIT), '{"entries": 1, "bytes": 1}'),
    ("remove-unmarked run", 3, on(Nfs.REMOVE, _WAIT), f'"file": NFS3ERR_JUKEBOX: {_TOO_LONG}'),
    ("remove-unmarked run", 4, on(Nfs4.REMOVE, _DELAY), f'"file": NFS4ERR_DELAY: {_TOO_LONG}'),
    ("list run", 3, on(Nfs.READDIR, _WAIT), f'"the directory": NFS3ERR_JUKEBOX: {_TOO_LONG}'),
    ("info", 3, on(Nfs.FSINFO, _WAIT), _TOO_LONG),
)


def _waits(asked: str, version: int, hook: Hook, said: str) -> None:
    with ScriptedServer(hook) as server:
        if asked != "make run":
            server.create("run/mark/file", b"1")
        word, *names = asked.split()
        argv = [str(built("nfsmulti-export")), word, server.url(version=version), *names]
        done = run(argv, timeout=120, env=_QUICK)
        assert done.status == 1, asked
        assert said in done.stdout + done.stderr, asked
        server.hooks.clear()
        assert bool(export.listing(server.url())) == (asked != "make run")


def test_a_server_that_asks_to_wait_for_ever_is_given_up() -> None:
    """By the name and the server's word; what was made is taken back."""
    with ThreadPoolExecutor(len(_WAITS)) as threads:
        for one in [threads.submit(_waits, *row) for row in _WAITS]:
            one.result()
