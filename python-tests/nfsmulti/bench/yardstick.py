# SPDX-License-Identifier: GPL-2.0-only
"""The yardstick: an engine of the user's with plain sockets and nothing else, as a limit."""

from __future__ import annotations

from pathlib import Path

from nfsmulti.bench.cases import RIVALS, Case
from nfsmulti.bench.runs import Contender
from nfsmulti.bench.sink import port_of
from nfsmulti.compiling import CONFIG, compilations, complaint
from nfsmulti.errors import HarnessError
from nfsmulti.paths import shown
from nfsmulti.processes import run

NAME = RIVALS["yardstick"]
_COMPILE_SECONDS = 120.0

WHAT = (
    f"“{NAME}” is the yardstick, the engine that --yardstick names: the least that plain sockets"
    " need for the same calls. It is a limit, not a client: one connection, headers encoded once,"
    " and no names, checks, retransmission, reconnecting or COMMIT. Rows with several connections,"
    " or of NFSv4.1, say “-”."
)


def yardstick(source: Path, folder: Path) -> Contender:
    """Compile a fio engine into a folder. Raises HarnessError where that fails."""
    library = _compile(source, folder)

    def words(case: Case, url: str) -> list[str]:
        engine = [f"--ioengine=external:{library}", f"--port={port_of(url)}"]
        return [*engine, "--size=1g", f"--iodepth={case.depth}"]

    def takes(case: Case) -> bool:
        return case.connections == 1 and not case.version

    return Contender(NAME, "fio", words, role="yardstick", takes=takes)


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
