# SPDX-License-Identifier: GPL-2.0-only
"""The engines that are measured beside ours: fio's own nfs engine, or one that a user names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from nfsmulti.bench.cost import OTHER, YARDSTICK
from nfsmulti.errors import HarnessError
from nfsmulti.paths import BUILD, ROOT, shown
from nfsmulti.processes import find, run

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


def other_engine(file: Path) -> tuple[str, Path]:
    """Return what an engine is called here, OTHER where it is a build of ours; and its whole path.

    Raises HarnessError where fio, which is asked, does not load it.
    """
    what = "there is no such file"
    if file.is_file():
        asked = [find("fio"), f"--enghelp=./{file.name}"]
        said = run(asked, timeout=_ASK_SECONDS, cwd=file.parent)
        if said.status == 0:
            ours = re.search(r"^\s*stats_file\b", said.stdout, re.MULTILINE)
            return OTHER if ours else YARDSTICK, file.absolute()
        why = re.search(r"^nfsmulti: (.*?)(;|$)", said.stderr, re.MULTILINE)
        what = why[1] if why else "fio does not load it"
    raise HarnessError(f"--engine {shown(file)}: {what}", "name one that is compiled for this fio")


def fingerprint(build: Path) -> str:
    """Tell a build from others, as "sha256 2c26b46b68ff"."""
    return f"sha256 {hashlib.sha256(build.read_bytes()).hexdigest()[:12]}"


def _has_engine(fio: Path) -> bool:
    engines = run([str(fio), "--enghelp"], timeout=_ASK_SECONDS).stdout
    return re.search(r"^\s*nfs\s*$", engines, re.MULTILINE) is not None
