# SPDX-License-Identifier: GPL-2.0-only
"""What the engine is held beside: fio's own `nfs` engine, and a yardstick of the user's.

The peer is a fio of the installed version that has its own `nfs` engine.
Where the distribution's fio has none, its source is fetched by apt, with lists, cache and sources
of its own below build/peers/ (as cmake/fio-headers.sh does for the headers: no privileges are
needed, and the machine's apt is left as it is), and built there with the distribution's libnfs.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from nfsmulti.bench.cases import RIVALS, Case
from nfsmulti.bench.runs import Contender
from nfsmulti.bench.sink import port_of
from nfsmulti.errors import HarnessError
from nfsmulti.fioreleases import CONFIG, compilations, complaint
from nfsmulti.paths import BUILD, needs_sources, shown
from nfsmulti.processes import find, run

_PEERS = BUILD / "peers"
_APT = Path("/etc/apt")
_ASK_SECONDS = 20.0
_FETCH_SECONDS = 300.0
_BUILD_SECONDS = 900.0
# What ./configure finds out by itself is left to it; libnfs alone has to be asked for.
CONFIGURE = "--enable-libnfs"


def peer_fio(say: Callable[[str], None]) -> Path:
    """Give a fio with an `nfs` engine, built once. Raises HarnessError; `say` tells of the work."""
    installed = Path(find("fio"))
    if _has_engine(installed):
        return installed
    source, version = _source_package(installed)
    folder = _PEERS / f"{source}_{version}-libnfs"
    built = folder / "fio"
    if not built.exists():
        say(f"fetching the source of {source} {version}, once")
        work = _PEERS / "work"
        shutil.rmtree(work, ignore_errors=True)
        tree = unpack(_fetch(source, version, work), work)
        say(f"building fio {version} with its nfs engine, once")
        _make(tree)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (tree / "fio").rename(built)  # last: a folder that has it is complete
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
        text = file.read_text()
        text = re.sub(r"^deb\s", "deb-src ", text, flags=re.MULTILINE)
        text = re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.MULTILINE)
        text = re.sub(r"^Architectures:.*\n", "", text, flags=re.MULTILINE)
        (folder / file.name).write_text(text)


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


_YARDSTICK = RIVALS["yardstick"]
_COMPILE_SECONDS = 120.0

YARDSTICK_IS = (
    f"“{_YARDSTICK}” is the yardstick, the engine that --yardstick names: the least that plain"
    " sockets need for the same calls. It is a limit, not a client: one connection, headers encoded"
    " once, and no names, checks, retransmission, reconnecting or COMMIT. Rows with several"
    " connections, or of NFSv4.1, say “-”."
)


def yardstick(source: Path, folder: Path) -> Contender:
    """Compile a fio engine into a folder. Raises HarnessError where that fails."""
    needs_sources("bench client-cost --yardstick")
    library = _compile(source, folder)

    def words(case: Case, url: str) -> list[str]:
        engine = [f"--ioengine=external:{library}", f"--port={port_of(url)}"]
        return [*engine, "--size=1g", f"--iodepth={case.depth}"]

    def takes(case: Case) -> bool:
        return case.connections == 1 and not case.version and not case.operation

    return Contender(_YARDSTICK, "fio", words, role="yardstick", takes=takes)


def _compile(source: Path, folder: Path) -> Path:
    """Compile with the build's compiler, the engine's config-host.h and the headers of its fio."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "yardstick.so"
    like = compilations()[0]
    flags = ["-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", f"-I{CONFIG}", f"-I{like.headers}"]
    done = run([like.compiler, *flags, "-o", str(library), str(source)], timeout=_COMPILE_SECONDS)
    if done.status != 0:
        raise HarnessError(
            f"--yardstick {shown(source)} does not compile: {complaint(done)}",
            f"it must be one file, the source of a fio engine: {done.command}",
        )
    return library
