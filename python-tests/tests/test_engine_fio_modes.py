# SPDX-License-Identifier: GPL-2.0-only
"""fio's own modes around the engine: client and server, its outputs, its helps, ABI.

Logs are replayed in test_engine_io.py; jobs on servers of several hosts are in test_hosts.py.
"""

import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_helpers import Place, complaints, eventually

from nfsmulti.fiorun import ConnectionStats
from nfsmulti.lab.lab import free_ports
from nfsmulti.processes import Process, run

_JOB = ["--name=job", "--rw=read", "--bs=16k", "--size=1m", "--filename=f"]


def _words(place: Place, *more: str) -> list[str]:
    return [f"--ioengine={place.engine.option}", f"--pool={place.pool}", *more]


# --- client and server ---

_CLIENT = {"ASAN_OPTIONS": "detect_leaks=0"}  # fio's client frees nothing, and loads no engine


def _listens(server: Process, port: int) -> bool:
    return f":{port:04X} 00000000:" in Path(f"/proc/{server.pid}/net/tcp").read_text()


@contextlib.contextmanager
def _server(place: Place, folder: Path) -> Iterator[str]:
    """Run a fio server where the place's clients run; gives a client's word for it."""
    (port,) = free_ports("127.0.0.1", [8765])
    command = place.command(f"--server=ip:127.0.0.1,{port}")
    with (folder / "server").open("wb") as log, Process(command, stdout=log, stderr=log) as server:
        eventually(lambda: _listens(server, port))
        yield f"--client=ip:127.0.0.1,{port}"


def _job_file(place: Place, folder: Path, name: str, *options: str) -> Path:
    stats = f"stats_file={folder / f'stats-{name}'}"
    common = [f"ioengine={place.engine.option}", f"pool={place.pool}", stats]
    file = folder / f"{name}.fio"
    lines = ["[global]", *common, f"[{name}]", "bs=16k", "size=1m", *options, ""]
    file.write_text("\n".join(lines))
    return file


# --- what fio shows ---


def test_showcmd_shows_what_runs(mounted: Place, tmp_path: Path) -> None:
    """A jobfile is shown as words, with the engine and its options."""
    file = _job_file(mounted, tmp_path, "a", "rw=randread", "filename=f", "spread=roundrobin")
    shown = mounted.raw("--showcmd", str(file))
    assert (shown.status, shown.stderr) == (0, "")
    assert mounted.names() == []
    (line,) = shown.stdout.splitlines()
    words = shlex.split(line)
    assert words[0] == "fio"
    again = mounted.raw("--output-format=json", *words[1:])
    assert again.status == 0, again.stdout + again.stderr
    lines = ConnectionStats.read(tmp_path / "stats-a")
    assert [line.read_ops for line in lines] == [16] * 4


def test_the_library_exports_one_symbol_and_needs_nothing_that_is_not_there(mounted: Place) -> None:
    mounted.fio.well(rw="read", bs="16k", size="64k", filename="f", env={"LD_BIND_NOW": "1"})
    completed = run(["nm", "-D", "--defined-only", str(mounted.engine.library)], timeout=60)
    names = [line.split()[2] for line in completed.check().stdout.splitlines()]
    assert [name for name in names if not name.startswith("__")] == ["get_ioengine"]


# --- what fio writes ---


def test_output_stays_readable_whatever_is_logged(exported: Place) -> None:
    """Standard output holds fio's report alone, with every call traced."""
    job = ["--name=one", "--rw=randrw", "--bs=16k", "--size=256k", "--filename=f", "--trace=1"]
    spread = ["--spread=queue", "--nconnect=2", "--verify=crc32c"]
    completed = exported.raw(*_words(exported, "--output-format=terse,json", *job, *spread))
    assert completed.status == 0, completed.stderr
    assert completed.stderr.count(" trace: connection ") > 16
    end = completed.stdout.index("\n", 1) + 1
    terse, text = completed.stdout[:end], completed.stdout[end:]
    assert re.fullmatch(r"\n?3;fio-[^;]*;one;0;0;[^\n]*\n", terse)
    assert "jobs" in json.loads(text)


_SUMMARY = re.compile(
    r"nfsmulti: job: 4 connections on 4 paths: 64 reads, 0 writes, 0 commits,"
    r" 0 retransmissions, 0 reconnects, 0 errors\n"
)


def test_summary_lines(mounted: Place, tmp_path: Path) -> None:
    """One for each job: in fio's own text, or on standard error where that is for programs.

    In an output file too, where fio has begun and not yet told its figures: of processes and
    threads, where --output comes last, where jobs prepare their files themselves, in a client's.
    """
    output = tmp_path / "out"
    to, words = f"--output={output}", _words(mounted, "--spread=queue", *_JOB)
    for more, stdout, stderr in (([], 1, 0), (["--output-format=json"], 0, 1)):
        said = mounted.raw(*more, *words)
        assert len(_SUMMARY.findall(said.stdout)) == stdout
        assert len(_SUMMARY.findall(said.stderr)) == stderr
    words.append("--numjobs=3")
    one = _job_file(mounted, tmp_path, "job", "rw=read", "filename=f", "spread=queue", "numjobs=3")
    with _server(mounted, tmp_path) as client:
        for row in (
            [*words, to],
            [to, *words, "--create_serialize=0"],
            [to, *words, "--thread=1"],
            [to, client, str(one)],
        ):
            completed = mounted.raw(*row, env=_CLIENT)
            assert completed.status == 0, completed.stderr
            before, _, text = output.read_text().partition("Starting 3 ")
            begun, _, told = text.partition("(groupid=0")
            assert [len(_SUMMARY.findall(part)) for part in (before, begun, told)] == [0, 3, 0]
            assert _SUMMARY.search(completed.stdout + completed.stderr) is None


# --- another fio ---


@pytest.mark.parametrize("what", ["version", "option", "offset"])
def test_an_engine_built_for_another_fio_is_refused(
    mounted: Place, tmp_path: Path, what: str
) -> None:
    """A copy of the library that expects another version, or another table of options."""
    version = run(["fio", "--version"], timeout=60).check().stdout.strip()
    earlier = version[:-1] + ("0" if version[-1] != "0" else "1")
    ours, other, told = {
        "version": (version, earlier, f"built for {earlier}, but this is {version}"),
        "option": ("log_prio", "log_pri0", "it has no option 'log_pri0'"),
        "offset": ("log_prio", "filename", "its option 'filename' is at offset "),
    }[what]
    library = tmp_path / "other.so"
    content = mounted.engine.library.read_bytes()
    assert ours.encode() + b"\0" in content
    library.write_bytes(content.replace(ours.encode() + b"\0", other.encode() + b"\0"))
    words = [f"--ioengine=external:{library}", f"--pool={mounted.pool}", *_JOB]
    completed = mounted.raw(*words)
    assert completed.status == 1
    (line,) = complaints(completed.stdout + completed.stderr)
    assert told in line
    assert "rebuild it: cmake " in line
    assert mounted.names() == []


def test_programs_that_are_not_fio_are_refused(mounted: Place, tmp_path: Path) -> None:
    """The engine says what is wrong even where nothing of fio is there to be asked."""
    script = (
        "import ctypes, sys\n"
        "library = ctypes.CDLL(sys.argv[1], mode=1)\n"
        "ops = ctypes.c_void_p(1)\n"
        "library.get_ioengine(ctypes.byref(ops))\n"
        "sys.exit(3 if ops.value is None else 0)\n"
    )
    python = ["/usr/bin/python3", "-c", script, str(mounted.engine.library)]
    completed = run(python, timeout=60, env=dict(mounted.engine.env))
    if "undefined symbol" in completed.stderr:
        return  # what it takes from fio is missing: it is not even loaded
    assert completed.status == 3, completed.stderr
    (line,) = complaints(completed.stderr)
    assert "this program does not export fio's symbols" in line
