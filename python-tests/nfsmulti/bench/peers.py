# SPDX-License-Identifier: GPL-2.0-only
"""The engines that are measured beside ours: fio's own nfs engine, another build of ours."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.fiorun import Engine
from nfsmulti.paths import BUILD, ROOT, shown
from nfsmulti.processes import find, run
from nfsmulti.run.plan import of_engine
from nfsmulti.scenario import FOR_HARNESS

_ASK_SECONDS = 20.0
_FETCH_SECONDS = 300.0
_BUILD_SECONDS = 900.0
_PEERS = BUILD / "peers"
_FETCH = ROOT / "cmake/fio-headers.sh"
# What ./configure finds out by itself is left to it; libnfs alone has to be asked for.
_CONFIGURE = "--enable-libnfs"


def peer_fio(say: Callable[[str], None]) -> Path:
    """Return a fio of the installed version that has an `nfs` engine. Raises HarnessError.

    Where the distribution's has none it is built, once, from its source package with the
    distribution's libnfs; `say` tells of the work.
    """
    installed = Path(find("fio"))
    if _has_engine(installed):
        return installed
    if not any(_PEERS.glob("*/fio")):
        say("fetching the source of the installed fio and building its nfs engine, once")
    fetch = ["sh", str(_FETCH), str(installed), str(_PEERS), "cmake", "whole"]
    said = run(fetch, timeout=_FETCH_SECONDS)
    if said.status != 0:
        raise HarnessError(
            f"fio's nfs engine: {said.stderr.strip().partition(':')[0] or 'no source in time'}",
            "put a fio first in PATH that has it: fio --enghelp lists nfs",
        )
    tree = Path(said.stdout.split(maxsplit=2)[2].strip())
    if (tree / "fio").exists():
        return tree / "fio"
    configured = run([str(tree / "configure"), _CONFIGURE], timeout=_BUILD_SECONDS, cwd=tree)
    if not re.search(r"^NFS engine\s+yes", configured.check().stdout, re.MULTILINE):
        raise HarnessError("fio's nfs engine needs libnfs", "apt-get install libnfs-dev")
    run(["make", f"-j{os.cpu_count()}", "fio"], timeout=_BUILD_SECONDS, cwd=tree).check()
    return tree / "fio"


def other_build(file: Path) -> Path:
    """Return the whole path of another build of our engine. Raises HarnessError where it is none.

    fio itself is asked, whose version an engine is built for.
    """
    what = "there is no such file"
    if file.is_file():
        asked = [find("fio"), f"--enghelp=./{file.name},stats_file"]
        said = run(asked, timeout=_ASK_SECONDS, cwd=file.parent)
        if said.status == 0 and re.search(r"^\s*stats_file: ", said.stdout, re.MULTILINE):
            return file.absolute()
        why = re.search(r"^nfsmulti: (.*?)(;|$)", said.stderr, re.MULTILINE)
        what = why[1] if why else "fio does not find nfsmulti's engine in it"
    raise HarnessError(f"--engine {shown(file)}: {what}", "name the libnfsmulti.so of a build")


def yardstick(file: Path) -> Path:
    """Return the whole path of a user's engine. Raises HarnessError where fio does not load it."""
    what = "there is no such file"
    if file.is_file():
        asked = [find("fio"), f"--enghelp=./{file.name}"]
        if run(asked, timeout=_ASK_SECONDS, cwd=file.parent).status == 0:
            return file.absolute()
        what = "fio does not load it"
    raise HarnessError(f"--yardstick {shown(file)}: {what}", "name a fio engine that is compiled")


def fingerprint(build: Path) -> str:
    """Tell a build from others, as "sha256 2c26b46b68ff"."""
    return f"sha256 {hashlib.sha256(build.read_bytes()).hexdigest()[:12]}"


def own_options(words: Sequence[str]) -> dict[str, str]:
    """Read --option NAME=VALUE. Raises HarnessError for what the build's engine does not take."""
    found = dict(word.split("=", 1) for word in words if re.match(r"\w+=", word))
    for word in words:
        name = word.partition("=")[0]
        if name not in found or name in FOR_HARNESS | {"pool"} or not of_engine(name):
            raise HarnessError(
                f"--option {word}: write NAME=VALUE, of the engine's options that a bench can set",
                "fio --enghelp=./build/libnfsmulti.so lists them",
            )
    given = [f"--{name}={value}" for name, value in found.items()]
    parse = [find("fio"), "--parse-only", "--name=t", f"--ioengine={Engine.built().option}", *given]
    said = run(parse, timeout=_ASK_SECONDS)
    if said.status:
        refused = re.search(r"failed parsing (.*)", said.stderr + said.stdout)
        raise HarnessError(
            f"--option {refused[1] if refused else ' '.join(words)}: fio refuses this value",
            "fio --enghelp=./build/libnfsmulti.so,NAME says what an option takes",
        )
    return found


def _has_engine(fio: Path) -> bool:
    engines = run([str(fio), "--enghelp"], timeout=_ASK_SECONDS).stdout
    return re.search(r"^\s*nfs\s*$", engines, re.MULTILINE) is not None
