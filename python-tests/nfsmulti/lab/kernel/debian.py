# SPDX-License-Identifier: GPL-2.0-only
"""Packages of Debian with a kernel, which are unpacked below build/ and not installed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from nfsmulti.errors import MissingError
from nfsmulti.paths import BUILD
from nfsmulti.processes import CommandError, run

FOLDER = BUILD / "kernel-lab"
_FETCH_SECONDS = 900.0
_SECONDS = 120.0


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """Keep other harnesses from fetching the kernel, and from tidying up, meanwhile."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def refuse_without_install(what: str) -> None:
    """Raise MissingError where --no-install keeps apt from fetching `what`."""
    if os.environ.get("NFSMULTI_NO_INSTALL") == "1":
        raise MissingError(
            f"{what} is not here, and --no-install keeps apt from fetching it",
            "leave out --no-install",
        )


def unpack(package: str, folder: Path, *, meta: bool = False) -> None:
    """Unpack the newest `package`, or what it stands for as `meta`, into `folder`.

    Raises CommandError.
    """
    download = folder / "download"
    download.mkdir(parents=True)
    file = _download(package, meta, download)
    run(["dpkg", "-x", str(file), str(folder)], timeout=_FETCH_SECONDS).check()
    file.unlink()
    download.rmdir()


def _download(package: str, meta: bool, folder: Path) -> Path:
    """Download the newest package; where apt's lists are too old for that, renew them first."""

    def fetch() -> None:
        name = _newest(package) if meta else package
        run(["apt-get", "download", name], timeout=_FETCH_SECONDS, cwd=folder).check()

    try:
        fetch()
    except CommandError:
        if os.geteuid() != 0:
            raise
        run(["apt-get", "update"], timeout=_FETCH_SECONDS).check()
        fetch()
    packages = list(folder.glob("*.deb"))
    if not packages:
        raise CommandError("apt-get download left no package")
    return packages[0]


def _newest(meta: str) -> str:
    """Name the package that `meta`, that of the newest, depends on."""
    said = run(["apt-cache", "depends", meta], timeout=_SECONDS, env={"LC_ALL": "C"}).check().stdout
    match = re.search(r"Depends: (linux-image-\S+)", said)
    if not match:
        raise CommandError(f"apt knows no {meta}; apt-get update may help")
    return match[1]
