# SPDX-License-Identifier: GPL-2.0-only
"""What this machine has, on which a figure may depend, and what of a lab it permits."""

from __future__ import annotations

import functools
import os
import platform
import re
from pathlib import Path

from nfsmulti.errors import MissingError
from nfsmulti.paths import build_dir
from nfsmulti.processes import find, run

_SECONDS = 60.0

PRIVILEGES = Path(__file__).with_name("privileges.sh")
NAMESPACES = Path(__file__).with_name("namespaces.sh")
ALONE = "root of a user namespace alone"


def versions() -> dict[str, str]:
    """Give the version of each component by name; "not installed" where it is missing."""
    return {
        "system": _system(),
        "kernel": platform.release(),
        "processors": f"{os.cpu_count()} x {platform.machine()}",
        "fio": _said(["fio", "--version"], r"(fio-\S+)"),
        "nfsmulti": engine_version(),
        "engine": _engine(),
        "libnfs": _said(["pkg-config", "--modversion", "libnfs"], r"(\S+)"),
        "nfs-ganesha": _said(["ganesha.nfsd", "-v"], r"Release\s*=\s*V?(\S+)"),
        "python": platform.python_version(),
    }


def engine_version() -> str:
    """Give the version of the engine in the build folder."""
    return _said([str(build_dir() / "nfsmulti-pool"), "--version"], r"nfsmulti (\S+)")


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _said(argv: list[str], pattern: str) -> str:
    try:
        argv = [find(argv[0]), *argv[1:]]
    except MissingError:
        return "not installed"
    done = run(argv, timeout=_SECONDS)
    match = re.search(pattern, done.stdout + done.stderr)
    return match[1] if match else "unknown"


def _engine() -> str:
    library = build_dir() / "libnfsmulti.so"
    return str(library) if library.exists() else "not built"


@functools.cache
def missing_privileges() -> str | None:
    """Name what a whole lab needs and this process is not permitted; None where it may make one.

    "not root", "no CAP_SYS_ADMIN" (or CAP_NET_ADMIN, or both), "no namespaces" with the kernel's
    reason, or ALONE: it may make namespaces, but not export files. Nothing is left behind.
    """
    return run(["sh", str(PRIVILEGES)], timeout=_SECONDS).check().stdout.strip() or None


def may_make_namespaces() -> bool:
    """Whether this process may make network namespaces, and limit rates there."""
    return missing_privileges() in (None, ALONE)
