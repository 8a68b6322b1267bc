# SPDX-License-Identifier: GPL-2.0-only
"""The engine beside fio's own nfs engine and beside itself, all against the sink.

Memory is measured in runs of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from nfsmulti.bench.runs import (
    DATA,
    OURS,
    PEER,
    SINGLE,
    V3,
    YARDSTICK,
    Bar,
    Case,
    Contender,
    Cores,
    Figure,
    Run,
    Timing,
    command,
    figures_of,
    jobs_of,
    run_fio,
)
from nfsmulti.bench.sink import Sink, port_of
from nfsmulti.errors import HarnessError
from nfsmulti.fioreleases import CONFIG, compilations, complaint, headers_of
from nfsmulti.fiorun import Engine, FioProcess
from nfsmulti.paths import BUILD, needs_sources, shown
from nfsmulti.processes import find, run
from nfsmulti.units import parse_size

# --- what is measured ---


def _bars(cpu: float, rate: float | None = None, calls: float | None = None) -> tuple[Bar, ...]:
    limits: list[tuple[Figure, float | None]] = [("cpu", cpu), ("rate", rate), ("calls", calls)]
    return tuple(Bar(figure, limit) for figure, limit in limits if limit is not None)


_YARDSTICK_BARS = (
    Bar("cpu", 1.10, YARDSTICK),
    Bar("rate", 0.95, YARDSTICK),
    Bar("p50", 1.0, YARDSTICK),
)
# Of many connections beside one, at the same depth.
_MANY_BARS = (Bar("cpu", 2.5, SINGLE), Bar("rate", 0.45, SINGLE))
# Of NFSv4.1, which fio's nfs engine does not have, beside our own NFSv3.
_VERSION_BARS = (Bar("cpu", 1.25, V3), Bar("rate", 0.85, V3))
# Of a metadata operation, which fio's nfs engine has not, beside the I/O of this size.
_METADATA_BARS = (Bar("cpu", 1.0, DATA),)

# Bars beside the peer are for fio's nfs engine on the distribution's libnfs, on one connection.
# Reads of 64 KiB and more have none for the rate: there the server is the limit.
CLIENT_COST = (
    Case("randread", "4k", 1, bars=_bars(0.80, 1.1)),
    Case("randread", "4k", 8, bars=_bars(0.50, 1.2) + _YARDSTICK_BARS),
    Case("randread", "4k", 32, bars=_bars(0.30, 2.6, calls=0.20) + _YARDSTICK_BARS),
    Case("randread", "4k", 128, bars=_bars(0.22, 4.2) + _YARDSTICK_BARS),
    Case("write", "4k", 32, bars=_bars(0.32, 1.9) + _YARDSTICK_BARS),
    Case("write", "8k", 8, bars=_bars(0.65, 1.0)),
    Case("write", "64k", 8, bars=_bars(0.33, 3.0) + _YARDSTICK_BARS),
    Case("write", "1m", 8, bars=_bars(0.70, 1.3)),
    Case("read", "64k", 8, bars=_bars(0.85) + _YARDSTICK_BARS),
    Case("read", "1m", 8, bars=_bars(0.85)),
    # The peer has one connection to a job, so that it takes as many jobs as connections.
    Case("randread", "4k", 128, connections=4),
    Case("write", "64k", 8, connections=4),
    Case("read", "64k", 8, connections=4),
    Case("randread", "4k", 256, connections=64, bars=_MANY_BARS),
    Case("write", "64k", 64, connections=64),
    Case("read", "64k", 64, connections=64),
    Case("randread", "4k", 1, version="4.1"),
    Case("randread", "4k", 32, bars=_VERSION_BARS, version="4.1"),
    Case("write", "4k", 32, version="4.1"),
    Case("read", "64k", 8, version="4.1"),
    Case("randread", "4k", 32, bars=_METADATA_BARS, operation="getattr"),
)

_SCALE_DEPTH = 256
_MOST = 64
# Connections first, then depths.
SCALE = tuple(
    [
        Case("randread", "4k", _SCALE_DEPTH, number, bars=_MANY_BARS if number == _MOST else ())
        for number in (1 << bit for bit in range(_MOST.bit_length()))
    ]
    + [Case("randread", "4k", 1 << bit) for bit in range(11) if 1 << bit != _SCALE_DEPTH]
)

# --- the engine ---

_FILE = ("--filename=bench", "--size=1g")
_ENTRIES = 64


def our_engine(engine: Engine) -> Contender:
    """Give the engine under test: one job, striped over its connections."""

    def words(case: Case, url: str) -> list[str]:
        spread = ["--spread=stripe", f"--nconnect={case.connections}"]
        return [
            f"--ioengine={engine.option}",
            f"--pool={_path(case, url)}",
            *(spread if case.connections > 1 else ()),
            *(_entries(case) if case.operation else _FILE),
            f"--iodepth={case.depth}",
        ]

    return Contender(OURS, "fio", words, counts_calls=True)


def _entries(case: Case) -> list[str]:
    """Give the words for operations on a few entries, so that nearly all calls are what is asked.

    An I/O's size stands for one entry.
    """
    size = _ENTRIES * parse_size(case.bs)
    return ["--filename=entries", f"--size={size}", "--metadata=1", f"--meta_read={case.operation}"]


def _path(case: Case, url: str) -> str:
    """Give the sink's path for a case: NFSv4.1 has one port, and none for MOUNT."""
    if not case.version:
        return url
    return f"{url.partition('?')[0]}?port={port_of(url)}&version={case.version}"


def ourselves(engine: Engine) -> list[Contender]:
    """Give the engine under test on cases that are otherwise than ours, and held beside that.

    They are on one connection, over NFSv3, and with READs for a metadata operation.
    """

    def otherwise(name: str, takes: Callable[[Case], bool], **changes: Any) -> Contender:
        def words(case: Case, url: str) -> list[str]:
            return ours.words(dataclasses.replace(case, **changes), url)

        return dataclasses.replace(ours, name=name, words=words, takes=takes)

    def beside_one(case: Case) -> bool:
        return any(bar.beside == SINGLE for bar in case.bars)

    ours = our_engine(engine)
    return [
        otherwise(SINGLE, beside_one, connections=1),
        otherwise(V3, lambda case: bool(case.version), version=""),
        otherwise(DATA, lambda case: bool(case.operation), operation=""),
    ]


# --- runs against the sink ---

_TRIES = 3
# A job's memory beyond fio's own and its I/O buffers, in bytes, and where it is measured.
_MEMORY_LIMIT = 2 << 20
_MEMORY_CASE = Case("randread", "4k", 128, connections=4)
_UNTIL_MEASURED = Timing(runtime=60_000, ramp=0, repeats=1)  # it is ended once it was measured
_START_SECONDS = 10.0
# A job that has run so long has used all that it will use.
_SETTLED_SECONDS = 0.6
_NULL = Contender(
    "null", "fio", lambda case, _: ["--ioengine=null", "--size=1g", f"--iodepth={case.depth}"]
)


@dataclass(frozen=True)
class SinkBench:
    """Runs engines on a core of their own, each run against a sink of its own on another core."""

    cores: Cores
    timing: Timing
    folder: Path
    server_sleeps: bool = False

    @property
    def server_text(self) -> str:
        """Say what the server is."""
        if self.server_sleeps:
            return "nfs-sink, which sleeps between calls: the client pays for waking it up"
        return "nfs-sink, which polls for calls: the client pays for no wake-ups"

    @property
    def _enter(self) -> list[str]:
        return ["taskset", "-c", str(self.cores.client)]

    def _sink(self) -> Sink:
        spin = [] if self.server_sleeps else ["--spin"]
        return Sink(["--cpus", str(self.cores.server), *spin])

    def run_once(self, contender: Contender, case: Case, folder: Path) -> Run:
        """Run a contender on a case; its files go to the folder. What may hang has tries."""
        for _ in range(_TRIES - 1 if contender.may_hang else 0):
            with contextlib.suppress(HarnessError):
                return self._try(contender, case, folder)
        return self._try(contender, case, folder)

    def _try(self, contender: Contender, case: Case, folder: Path) -> Run:
        words = [f"--stats_file={folder / 'stats.jsonl'}"] if contender.counts_calls else []
        with self._sink() as sink:
            result = run_fio(
                contender, case, sink.url, self.timing, folder, enter=self._enter, words=words
            )
            busy = min(1.0, sink.stop().busy_seconds / self.timing.seconds)
        return figures_of(result, case, busy=busy)

    def memory(self, ours: Contender) -> int:
        """Give the bytes that our job has beyond one of the null engine."""
        with self._sink() as sink:
            return self._private(ours, sink.url) - self._private(_NULL, sink.url)

    def _private(self, contender: Contender, target: str) -> int:
        folder = self.folder / "memory" / contender.name
        words = command(contender, _MEMORY_CASE, target, _UNTIL_MEASURED, folder)
        deadline = time.monotonic() + _START_SECONDS
        with FioProcess([*self._enter, *words], folder) as process:
            while time.monotonic() < deadline and process.running:
                if jobs := jobs_of(process):
                    time.sleep(_SETTLED_SECONDS)
                    with contextlib.suppress(psutil.NoSuchProcess):
                        # What it has for itself and has written to.
                        return sum(mapping.private_dirty for mapping in jobs[0].memory_maps())
                time.sleep(0.02)
        raise HarnessError(f"{contender.name}: no job ran whose memory could be measured")


def memory_line(beyond: int) -> str:
    """Hold the memory against its target."""
    verdict = "met" if beyond <= _MEMORY_LIMIT else "not met"
    return (
        f"Memory of a job beyond fio's own and its I/O buffers, {_MEMORY_CASE.name}:"
        f" {beyond / 2**20:.2f} MiB, target ≤ {_MEMORY_LIMIT / 2**20:g} MiB: {verdict}."
    )


# --- the peer: a fio of the installed version that has its own `nfs` engine ---
# Where the distribution's fio has none, its source is fetched by apt, with lists, cache and sources
# of its own below build/peers/ (as cmake/fio-headers.sh does for the headers: no privileges are
# needed, and the machine's apt is left as it is), and built there with the distribution's libnfs.

_PEERS = BUILD / "peers"
_APT = Path("/etc/apt")
_ASK_SECONDS = 20.0
_FETCH_SECONDS = 300.0
_BUILD_SECONDS = 900.0
# What ./configure finds out by itself is left to it; libnfs alone has to be asked for.
CONFIGURE = "--enable-libnfs"


def peer_engine(fio: Path) -> Contender:
    """Give fio's nfs engine, which has one connection to a job: as many jobs as connections."""

    def words(case: Case, url: str) -> list[str]:
        return [
            "--ioengine=nfs",
            f"--nfs_url={url}",
            *_FILE,
            f"--iodepth={case.depth // case.connections}",
            *([f"--numjobs={case.connections}"] if case.connections > 1 else ()),
        ]

    def takes(case: Case) -> bool:
        return not case.version and not case.operation

    return Contender(PEER, str(fio), words, may_hang=True, takes=takes)


def peer_fio(say: Callable[[str], None]) -> Path:
    """Give a fio with an `nfs` engine, built once. Raises HarnessError; `say` tells of the work."""
    installed = Path(find("fio"))
    if _has_engine(installed):
        return installed
    source, version = _source_package(installed)
    built = _PEERS / f"{source}_{version}-libnfs/fio"
    if not built.exists():
        say(f"fetching the source of {source} {version}, once")
        work = _PEERS / "work"
        shutil.rmtree(work, ignore_errors=True)
        tree = unpack(_fetch(source, version, work), work)
        say(f"building fio {version} with its nfs engine, once")
        _make(tree)
        built.parent.mkdir(exist_ok=True)
        (tree / "fio").rename(built)
        shutil.rmtree(work)
    return built


def _has_engine(fio: Path) -> bool:
    engines = run([str(fio), "--enghelp"], timeout=_ASK_SECONDS).stdout
    return re.search(r"^\s*nfs\s*$", engines, re.MULTILINE) is not None


def _source_package(fio: Path) -> tuple[str, str]:
    """Give name and version of the source package that the installed fio was built from."""
    owner = run(["dpkg-query", "-S", str(fio.resolve())], timeout=_ASK_SECONDS).check().stdout
    package = owner.partition(":")[0]
    asked = ["dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package]
    source, _, version = run(asked, timeout=_ASK_SECONDS).check().stdout.partition(" ")
    return source, version


def _fetch(source: str, version: str, work: Path) -> Path:
    """Download a source package; gives upstream's archive."""
    download, sources = work / "download", work / "sources"
    for folder in (download, sources, work / "lists/partial", work / "cache/archives/partial"):
        folder.mkdir(parents=True)
    write_sources(sources)
    settings = {
        "Dir::State::Lists": work / "lists",
        "Dir::Cache": work / "cache",
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": sources,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    # Some of the machine's places have no sources: what counts is whether fio's come.
    update = run([*apt, "update"], timeout=_FETCH_SECONDS)
    wanted = ["source", "--download-only", "--only-source", f"{source}={version}"]
    fetched = run([*apt, *wanted], timeout=_FETCH_SECONDS, cwd=download)
    archives = sorted(download.glob("*.orig.tar.*[!c]"))
    if not archives:
        said = (fetched.stderr or update.stderr).strip().splitlines()[:1]
        raise HarnessError(
            f"cannot fetch the source of {source} {version}: {' '.join(said)}",
            "run it again when the package archive answers",
        )
    return archives[0]


def write_sources(folder: Path) -> None:
    """Turn the machine's places for packages into the same places for their sources."""
    for file in (_APT / "sources.list", *sorted((_APT / "sources.list.d").glob("*"))):
        if not file.is_file() or file.suffix not in (".list", ".sources"):
            continue
        text = file.read_text(errors="surrogateescape")
        text = re.sub(r"^deb\s", "deb-src ", text, flags=re.MULTILINE)
        text = re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.MULTILINE)
        text = re.sub(r"^Architectures:.*\n", "", text, flags=re.MULTILINE)
        (folder / file.name).write_text(text, errors="surrogateescape")


def unpack(archive: Path, work: Path) -> Path:
    """Unpack upstream's archive; Debian's patches change no engine, only how it is installed.

    apt has checked its signature; the filters of later Pythons are not in Debian 12's 3.11.2.
    """
    tree = work / "tree"
    shutil.unpack_archive(archive, tree)
    return next(folder for folder in (tree, *tree.iterdir()) if (folder / "configure").exists())


def _make(tree: Path) -> None:
    configured = run([str(tree / "configure"), CONFIGURE], timeout=_BUILD_SECONDS, cwd=tree)
    if not re.search(r"^NFS engine\s+yes", configured.check().stdout, re.MULTILINE):
        raise HarnessError("fio's nfs engine needs libnfs", "apt-get install libnfs-dev")
    run(["make", f"-j{os.cpu_count()}", "fio"], timeout=_BUILD_SECONDS, cwd=tree).check()


# --- the yardstick: an engine of the user's with plain sockets and nothing else, as a limit ---


_COMPILE_SECONDS = 120.0

YARDSTICK_IS = (
    f"“{YARDSTICK}” is the yardstick, the engine that --yardstick names: the least that plain"
    " sockets need for the same calls. It is a limit, not a client: one connection, headers encoded"
    " once, and no names, checks, retransmission, reconnecting or COMMIT."
)


def yardstick_engine(source: Path, folder: Path) -> Contender:
    """Compile a fio engine into a folder. Raises HarnessError where that fails."""
    needs_sources("bench client-cost --yardstick")
    library = _compile(source, folder)

    def words(case: Case, url: str) -> list[str]:
        engine = [f"--ioengine=external:{library}", f"--port={port_of(url)}"]
        return [*engine, "--size=1g", f"--iodepth={case.depth}"]

    def takes(case: Case) -> bool:
        return case.connections == 1 and not case.version and not case.operation

    return Contender(YARDSTICK, "fio", words, takes=takes, optional=True)


def _compile(source: Path, folder: Path) -> Path:
    """Compile with the build's compiler, the engine's config-host.h and the headers of its fio."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "yardstick.so"
    like = compilations()[0]
    flags = ["-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", f"-I{CONFIG}", f"-I{headers_of(like)}"]
    done = run([like[0], *flags, "-o", str(library), str(source)], timeout=_COMPILE_SECONDS)
    if done.status != 0:
        raise HarnessError(
            f"--yardstick {shown(source)} does not compile: {complaint(done)}",
            f"it must be one file, the source of a fio engine: {done.command}",
        )
    return library
