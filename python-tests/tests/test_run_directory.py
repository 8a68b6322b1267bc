# SPDX-License-Identifier: GPL-2.0-only
"""What a run leaves alone on a user's servers, what it leaves behind, and what it asks first."""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from conftest import call_harness, in_full, refusal, run_harness
from run_helpers import SHORT, begun, hanging_run

from nfsmulti import paths
from nfsmulti.lab import Lab
from nfsmulti.metadata import OPERATIONS
from nfsmulti.processes import Completed, run
from nfsmulti.run import directory, start
from nfsmulti.run.directory import FILE, Leftover, new_name, run_directory
from nfsmulti.run.plan import jobfile_jobs
from nfsmulti.summary import Summary
from nfsmulti.terminal import Lines
from servers.scripted import Answer, Nfs, ScriptedServer, Status, on

_SECONDS = 240.0
_LARGE = 1 << 20


def _names() -> list[str]:
    """Return the names of all files that bundled jobs use."""
    found = set()
    for file in paths.JOBFILES.glob("*.fio"):
        for job, options in jobfile_jobs(file.name, []).items():
            pattern = options.get("filename") or options.get("filename_format") or "$jobname"
            found |= {
                str(pattern).replace("$jobname", job).replace("$jobnum", str(number))
                for number in range(5)
            }
    return sorted(found)


@pytest.fixture
def export(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory that holds files of others, of every name that bundled jobs use."""
    folder = tmp_path / "export"
    folder.mkdir()
    with _foreign(folder):
        yield folder


def _state(folder: Path) -> Mapping[str, str]:
    """Return what lies below a folder, with its kind, its links, its time and what it holds.

    Large ones, of other tests, have a time in its place.
    """
    found = {}
    for path in folder.rglob("*"):
        facts, holds = path.lstat(), ""
        if path.is_symlink():
            holds = str(path.readlink())
        elif path.is_file() and facts.st_size <= _LARGE:
            holds = hashlib.sha256(path.read_bytes()).hexdigest()
        told = f"{facts.st_mode:o} {facts.st_nlink} {facts.st_uid} {facts.st_mtime_ns} {holds}"
        found[str(path.relative_to(folder))] = told
    return found


# As a run, a mark, a job or doctor names what it makes; and what a terminal or a shell would read.
_ODD = [b"nfsmulti-19700101T000000Z-0123abcd", b"nfsmulti-mark-0123456789abcdef0123456789abcdef"]
_ODD += [b"nfsmulti-metadata-0123abcd", b".nfsmulti-doctor-0123abcd", b"-rf", b"*", b" ", b"\xff"]
_ODD += [b"new\nline", b"\x1b]0;title\x07", b"n" * 255]


@contextlib.contextmanager
def _foreign(export: Path) -> Iterator[Path]:
    """Make files of others of every name, and in a folder, which is yielded, of every kind."""
    for name in _names():
        (export / name).write_text(f"mine: {name}\n")
    folder = export / "foreign"
    folder.mkdir()
    (folder / "file").write_text("mine")
    (folder / "hard").hardlink_to(folder / "file")
    os.mkfifo(folder / "fifo")
    for name, target in (("link", "file"), ("up", ".."), ("nowhere", "gone"), ("root", "/")):
        (folder / name).symlink_to(target)
    for number, odd in enumerate(folder / os.fsdecode(name) for name in _ODD):
        if number % 2:
            odd.write_text("mine")
        else:
            (odd / "inner").mkdir(parents=True)
            (odd / "inner/file").write_text("mine")
    folder.joinpath(*["deep"] * 200).mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # which other tests do not find
    for name in _names():
        (export / name).unlink(missing_ok=True)


def test_run_leaves_what_fio_said_and_changes_no_file_that_is_there(
    tmp_path: Path, export: Path
) -> None:
    before = _state(export)
    words = [f"--pool={export}", "--quick", "--repeat=2", "--label=own", f"--results={tmp_path}"]
    done = run_harness("run", "oltp", *words, env=SHORT)
    assert done.status == 0, done.stdout + done.stderr
    assert re.search(r"its files go to nfsmulti-\S+/ \(up to .*removed at the end", done.stdout)
    assert _state(export) == before
    assert "left out: one and pool need URLs" in done.stdout
    (folder,) = (tmp_path / "oltp").iterdir()
    assert folder.name.endswith("Z-own")
    summary = Summary.load(folder)
    assert summary.place["kind"] == "pool"
    assert summary.ended
    assert [cell.status for cell in summary.cells] == ["done"] * 6
    assert {cell.repeat for cell in summary.cells} == {1, 2}
    for cell in summary.cells:
        kept = folder / cell.folder
        assert json.loads((kept / "fio.json").read_text())["jobs"]
        assert (kept / "stderr").exists()
        assert (kept / "command").read_text().strip() == cell.command
        for side in (cell.read, cell.write):
            assert side is not None
            assert sum(side.bins.values()) == side.ops
        assert len(cell.jobs) == 1
    assert "<html" in (folder / "report.html").read_text()
    answer = (folder / "report.md").read_text().partition("## The answer")[2].split("\n\n")[1]
    assert answer in " ".join(done.stdout.split())
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["machine"]["engine_sha256"]
    assert environment["pool"]["sysctls"]["net.ipv4.tcp_rmem"]
    assert "finished" in refusal("run", "oltp", str(folder), "--resume")


@pytest.mark.parametrize("version", ["mount", "3", "4.1"])
def test_a_run_that_was_killed_and_clean_change_nothing_of_others(
    tmp_path: Path, lab: Lab, version: str
) -> None:
    """The run's directory has links to what others have, which go with it, and alone."""
    export = tmp_path / "export" if version == "mount" else lab.export_dir
    pool = str(export) if version == "mount" else lab.path(0, version=version)
    enter = [] if version == "mount" else lab.command([])
    export.mkdir(exist_ok=True)
    with _foreign(export) as foreign:
        before = _state(export)
        with hanging_run(tmp_path, 4, "dd", f"--pool={pool}", enter=enter) as process:
            process.signal(signal.SIGKILL)
            assert process.wait(_SECONDS) == -signal.SIGKILL
        assert before.items() <= _state(export).items()
        over = rf"NFSv{re.escape(version)} over TCP, READ \d+ KiB, .* free"
        assert version == "mount" or re.search(over, (tmp_path / "said").read_text())
        (left,) = export.glob("nfsmulti-2*")
        (left / "hard").hardlink_to(foreign / "file")
        (left / "link").symlink_to("../foreign")
        (left / "deep/up").parent.mkdir()
        (left / "deep/up").symlink_to("../../foreign", target_is_directory=True)
        where = [f"--pool={pool}", f"--results={tmp_path / 'results'}"]
        for _ in range(2):
            run_harness("clean", *where, enter=enter).check()
            assert not left.exists()
        assert _state(export) == before


@pytest.mark.parametrize(
    ("words", "operations"),
    [
        (("metadata", "--depth=8", "--nconnect=1"), {*OPERATIONS}),
        (("metadata", "--workload=create,remove", "--nconnect=1"), {"create", "remove"}),
        in_full(("metadata", "--version=4.1", "--depth=8", "--nconnect=1"), {*OPERATIONS}),
        in_full(("connections", "--version=4.1", "--nconnect=1", "--jobs=1"), {None}),
    ],
)
def test_a_run_changes_no_file_of_a_server(
    tmp_path: Path, lab: Lab, words: tuple[str, ...], operations: set[str | None]
) -> None:
    """Over NFSv4.1 a server needs no MOUNT. Entries are made before those that are removed."""
    pool = ",".join(lab.path(number) for number in (0, 1))
    if "--version=4.1" in words:
        pool = re.sub(r"mountport=\d+", "mountport=1", pool)
    where = [f"--pool={pool}", "--quick", "--repeat=1", f"--results={tmp_path}"]
    with _foreign(lab.export_dir):
        before = _state(lab.export_dir)
        run_harness("run", *words, *where, enter=lab.command([]), env=SHORT).check()
        assert _state(lab.export_dir) == before
    (folder,) = tmp_path.glob("*/*Z")
    cells = Summary.load(folder).cells
    assert {cell.factors.get("operation") for cell in cells} == operations
    for cell in cells:
        assert (cell.status, cell.ops > 1) == ("done", True)
        made = folder / cell.folder / "make/fio.json"
        assert made.exists() == (cell.factors.get("operation") == "remove")


_REFUSED = {
    "read-only": ("dd", ["ro"], "this user may make none there"),
    "no room": ("dd", ["small"], "the run needs .* are free"),
    "no export": ("dd", ["none"], "/none: cannot be used: .*(MNT3ERR_ACCES|NFS4ERR_NOENT)"),
    "different files": ("metadata", ["export", "small"], "/export and 10.*/small do not lead to"),
}


@pytest.mark.parametrize("version", ["3", in_full("4.1")])
@pytest.mark.parametrize("name", _REFUSED)
def test_run_that_cannot_be_is_refused_before_its_first_cell(
    tmp_path: Path, lab: Lab, name: str, version: str
) -> None:
    scenario, exports, why = _REFUSED[name]
    before = _state(lab.volume("export")), _state(lab.volume("small"))
    pool = ",".join(
        lab.path(number, export=export, version=version) for number, export in enumerate(exports)
    )
    where = [f"--pool={pool}", f"--results={tmp_path / 'results'}"]
    done = run_harness("run", scenario, "--quick", *where, enter=lab.command([]), env=SHORT)
    assert done.status == 1, done.stdout + done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("nfsmulti: "))
    assert re.search(why, line), line
    # That files differ is found as the run's directory is made.
    assert (tmp_path / "results").exists() == (name == "different files")
    assert (_state(lab.volume("export")), _state(lab.volume("small"))) == before


def test_a_run_whose_pool_has_gone_stays_to_be_resumed(tmp_path: Path, export: Path) -> None:
    """The doctor's words come first, although an earlier try has left a directory there."""
    request = start.Request(pool=str(export), quick=True, repeat=1)
    folder = begun(tmp_path / "results", request, "dd").folder
    Leftover(str(export), new_name(), _MARK, 0).save(folder)
    before = _state(folder)
    export.rename(tmp_path / "away")
    done = run_harness("run", "dd", "--resume", "--results", str(tmp_path / "results"))
    assert done.status == 1
    said = rf"nfsmulti: {export}: cannot be used: .*\n  .*mount the export there"
    assert re.search(said, done.stderr), done.stderr
    again = f"cells left to run; continue with: ./nfsmulti run dd --resume {paths.shown(folder)}\n"
    assert again in done.stdout
    assert _state(folder) == before


def test_what_stays_is_named_and_cleaned(tmp_path: Path, export: Path, noted: Path) -> None:
    results = tmp_path / "results"
    renamed = "nfsmulti-20260101T000000Z-0123abcd-mine"  # by a user, who wants to keep it
    (export / renamed).mkdir()
    other = export / "nfsmulti-20260101T000000Z-0123abcd"  # of another machine, it may be
    other.mkdir()
    before = _state(export)
    left = Leftover(str(export), new_name(), _MARK, 1000)
    (export / left.directory / _MARK).mkdir(parents=True)
    noted_as = Leftover(str(tmp_path / "moved"), left.directory, _MARK, 1000)
    noted_as.save(noted)  # --pool says where the same export is now
    clean = f"./nfsmulti clean --pool={export} --results {paths.shown(results)}"
    said = f"{left.directory}/ stays on the server (up to 1.0 kB); remove it with: {clean}"
    assert left.text(results) == said
    where = ("clean", f"--pool={export}", "--results", str(results))
    cleaned = call_harness(*where)
    assert cleaned.status == 0
    assert f"{left.directory}/ is removed (2 entries, 0 bytes)\n" in cleaned.stdout
    assert renamed not in cleaned.stdout + cleaned.stderr
    assert _state(export) == before
    told = json.loads(call_harness(*where, "--json").stdout)
    assert {name: one["became"] for name, one in told.items()} == {other.name: "stays"}
    by_hand = told[other.name]["text"].partition("if it is yours: ")[2]
    run(["sh", "-c", by_hand], timeout=_SECONDS).check()
    assert not other.exists()


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    """Return the folder of a run, in which it notes its directory."""
    folder = tmp_path / "results/dd/run"
    folder.mkdir(parents=True)
    return folder


def _cleaned(folder: Path) -> Completed:
    return call_harness("clean", "--results", str(folder / "results"))


_MARK = "nfsmulti-mark-0123456789abcdef0123456789abcdef"
_OURS = "nfsmulti-20260101T000000Z-0123abcd"
_NOTE = {"directory": _OURS, "mark": _MARK, "bytes": 0}
_CRAFTED: dict[str, tuple[object, str]] = {
    "no mark": ({**_NOTE, "mark": ""}, f'"{_OURS}" has no mark, which runs make since 0.7.0'),
    "a name that is there": ({**_NOTE, "mark": "alice"}, "its mark is none that a run writes"),
    "0.6.0": ({**_NOTE, "mark": _OURS}, "its mark is none that a run writes"),
    "below": ({**_NOTE, "mark": f"alice/{_MARK}"}, "its mark is none that a run writes"),
    "newline": ({**_NOTE, "mark": f"{_MARK}\n"}, "its mark is none that a run writes"),
    "number": ({**_NOTE, "mark": 5}, ".mark: 5 is not a text"),
    "list": ({**_NOTE, "directory": ["home"]}, ".directory: ['home'] is not a text"),
    "root": ({**_NOTE, "directory": ""}, "its directory is none that"),
    "another's": ({**_NOTE, "directory": "home"}, "its directory is none that"),
    "up": ({**_NOTE, "directory": f"a/../{_OURS}"}, "its directory is none that"),
    "slash": ({**_NOTE, "directory": f"{_OURS}/"}, "its directory is none that"),
    "absolute": ({**_NOTE, "directory": f"/{_OURS}"}, "its directory is none that"),
    "pool": ({**_NOTE, "pool": "nfs://\u001b]0;/x"}, "its pool is none that"),
    "half a character": ({**_NOTE, "pool": "/\ud800"}, "its pool is none that"),
    "no bytes": ({**_NOTE, "bytes": -1}, ".bytes: -1 is below 0"),
    "an array": ([_NOTE], "is not an object"),
    "none there": (_NOTE, f'"{_OURS}" is not the directory that was made'),
}


@pytest.mark.parametrize("name", _CRAFTED)
def test_a_note_is_no_proof(tmp_path: Path, export: Path, noted: Path, name: str) -> None:
    """Whoever hands on a folder of results can write a note."""
    note, why = _CRAFTED[name]
    (export / "home/alice").mkdir(parents=True)
    (export / "home/file").write_text("mine")
    (export / _OURS / "alice").mkdir(parents=True)
    if isinstance(note, dict):
        note = {"pool": str(export), **note}
    (noted / FILE).write_text(json.dumps(note))
    before = _state(export)
    for _ in range(2):  # removed by nothing that the first has done
        done = _cleaned(tmp_path)
        assert done.status == 1, done.stdout
        (line,) = done.stdout.splitlines()
        assert why in line
        assert _state(export) == before


def test_a_note_that_is_a_link_is_refused(tmp_path: Path, export: Path, noted: Path) -> None:
    """The run that it leads to may be going on."""
    live = tmp_path / "live"
    live.mkdir()
    with run_directory(live, str(export), 0) as name:
        (noted / FILE).symlink_to(live / FILE)
        done = _cleaned(tmp_path)
        assert done.status == 1
        assert "a link, which no run makes" in done.stdout
        assert (export / name).is_dir()


def test_a_long_removal_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(directory, "_FIRST", 1)  # after so many seconds
    wait = Answer(act=False, status=Status.JUKEBOX)  # for 3 s
    with (
        ScriptedServer(on(Nfs.REMOVE, wait, first=5)) as server,
        run_directory(tmp_path, server.url(), 0) as name,
    ):
        server.create(f"{name}/file", b"ours")
    assert capsys.readouterr().out == f"removing {name}/: 0 entries so far\n"


def test_a_terminal_has_no_line_of_a_removal_that_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Lines, "is_terminal", True)
    (tmp_path / "export").mkdir()
    with run_directory(tmp_path, str(tmp_path / "export"), 0) as name:
        pass
    *_, shown, last = capsys.readouterr().out.split("\r\x1b[K")
    assert f"removing {name}/" in shown
    assert last == ""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(seen := io.BytesIO()))
    Lines().passing("now")
    assert seen.getvalue() == b"\r\x1b[Know"  # at once


def test_server_that_has_gone_keeps_what_the_last_line_names(tmp_path: Path, export: Path) -> None:
    away = tmp_path / "away"
    before = _state(export)
    with hanging_run(tmp_path, 4, "dd", f"--pool={export}") as process:
        export.rename(away)
        process.signal(signal.SIGINT)
        assert process.wait(_SECONDS) == 130
    (run_folder,) = (tmp_path / "results/dd").iterdir()
    last = (tmp_path / "said").read_text().splitlines()[-1]
    assert re.fullmatch(
        r"nfsmulti-\S+/ stays on the server \(up to \d.*\); remove it with: \S+ clean .*", last
    )
    assert (run_folder / FILE).exists()
    later, there = run_folder.with_name("zz"), tmp_path / "there"
    left = Leftover(str(there), new_name(), _MARK, 0)
    for made in (later, there / left.directory / _MARK):
        made.mkdir(parents=True)
    left.save(later)
    assert _cleaned(tmp_path).status == 1  # whatever the last one came to
    assert list(there.iterdir()) == []
    away.rename(export)
    assert _cleaned(tmp_path).status == 0
    assert _state(export) == before
