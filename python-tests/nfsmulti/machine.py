# SPDX-License-Identifier: GPL-2.0-only
"""The versions of everything a figure or a failure may depend on."""

from __future__ import annotations

import os
import platform
import re

from nfsmulti.errors import MissingError
from nfsmulti.paths import build_dir
from nfsmulti.processes import find, run

_SECONDS = 60.0


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
