# SPDX-License-Identifier: GPL-2.0-only
"""fio's own modes around the engine: client and server, its outputs, its helps, ABI.

Logs are replayed in test_engine_io.py.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from engine_helpers import Place, complaints, done, eventually, fixture_of_places

from nfsmulti.fiorun import ArrivalStats, ConnectionStats
from nfsmulti.lab.lab import free_ports
from nfsmulti.processes import Process, run

exported = fixture_of_places("nfs")
mounted = fixture_of_places("mount")

_MIB = 1 << 20
_JOB = ["--name=job", "--rw=read", "--bs=16k", "--size=1m", "--filename=f"]


def _words(place: Place, *more: str) -> list[str]:
    return [f"--ioengine={place.engine.option}", f"--pool={place.pool}", *more]


def _jsons(text: str) -> list[dict[str, object]]:
    """Read a text that is nothing but JSON objects, one after the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text.rstrip()):
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


# --- client and server ---

_PORTS = (8765, 8766)
_CLIENT = {"ASAN_OPTIONS": "detect_leaks=0"}  # fio's client frees nothing, and loads no engine


def _listens(server: Process, port: int) -> bool:
    return f":{port:04X} 00000000:" in Path(f"/proc/{server.pid}/net/tcp").read_text()


@contextlib.contextmanager
def _servers(place: Place, folder: Path) -> Iterator[list[str]]:
    """Run two fio servers where the place's clients run; gives a client's words for each."""
    with contextlib.ExitStack() as stack:
        ports = free_ports("127.0.0.1", _PORTS)
        for port in ports:
            log = stack.enter_context((folder / f"server-{port}").open("wb"))
            command = place.command(f"--server=ip:127.0.0.1,{port}")
            server = stack.enter_context(Process(command, stdout=log, stderr=log))
            eventually(partial(_listens, server, port))
        yield [f"--client=ip:127.0.0.1,{port}" for port in ports]


def _job_file(place: Place, folder: Path, name: str, *options: str) -> Path:
    stats = f"stats_file={folder / f'stats-{name}'}"
    common = [f"ioengine={place.engine.option}", f"pool={place.pool}", stats]
    file = folder / f"{name}.fio"
    lines = ["[global]", *common, f"[{name}]", "bs=16k", "size=1m", *options, ""]
    file.write_text("\n".join(lines))
    return file


def test_two_servers(exported: Place, tmp_path: Path) -> None:
    """Each counts its own jobs: job k of a server is on path k mod P. One has an arrival clock.

    What a server says reaches its client, for people and for programs.
    """
    write = _job_file(exported, tmp_path, "a", "rw=write", "numjobs=5")
    verify = ["rw=randwrite", "verify=crc32c", "iodepth=8", "spread=stripe", "stripe_size=20k"]
    stripe = _job_file(exported, tmp_path, "b", *verify)
    clock = _job_file(
        exported, tmp_path, "c", "rw=randread", "arrival_rate=1k", "lat_percentiles=1"
    )
    wrong = _job_file(exported, tmp_path, "d", "rw=read", "pool=/no/such/folder")
    with _servers(exported, tmp_path) as clients:
        words = [clients[0], str(write), clients[1], str(stripe)]
        completed = exported.raw(*words, "--output-format=json", env=_CLIENT)
        refused = [
            exported.raw(clients[1], str(wrong), *output, env=_CLIENT)
            for output in ([], ["--output-format=json"])
        ]
        timed = exported.raw(clients[0], str(clock), env=_CLIENT)
    assert completed.status == 0, completed.stdout + completed.stderr
    (report,) = _jsons(completed.stdout)
    assert isinstance(report["client_stats"], list)
    assert {job["jobname"] for job in report["client_stats"]} == {"a", "b", "All clients"}
    assert all(job["error"] == 0 for job in report["client_stats"])
    lines = ConnectionStats.read(tmp_path / "stats-a")
    paths = {line.job_number: line.path for line in lines}
    assert paths == {number: exported.labels[number % 4] for number in range(5)}
    striped = ConnectionStats.read(tmp_path / "stats-b")
    assert [line.path for line in striped] == exported.labels
    assert sum(line.write_bytes for line in striped) == _MIB
    assert len(exported.names()) == 7
    assert [line.sent for line in ArrivalStats.read(tmp_path / "stats-c")] == [64]
    assert "nfsmulti: c: arrivals: " in timed.stdout
    for one in refused:
        assert one.status == 1
        said = [line for line in (one.stdout + one.stderr).splitlines() if "nfsmulti: " in line]
        assert any("/no/such/folder: cannot open the mount" in line for line in said)


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
    done(mounted.fio(rw="read", bs="16k", size="64k", filename="f", env={"LD_BIND_NOW": "1"}))
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
    (report,) = _jsons(text)
    assert "jobs" in report


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
    with _servers(mounted, tmp_path) as clients:
        for row in (
            [*words, to],
            [to, *words, "--create_serialize=0"],
            [to, *words, "--thread=1"],
            [to, clients[0], str(one)],
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
