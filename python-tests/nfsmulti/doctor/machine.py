# SPDX-License-Identifier: GPL-2.0-only
"""The doctor's look at this machine: fio and engine, limits, RDMA devices."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from nfsmulti.doctor import rdma
from nfsmulti.doctor.finding import Finding, fail, ok, warn
from nfsmulti.errors import MissingError
from nfsmulti.paths import build_dir, shown
from nfsmulti.processes import find, run

_SECONDS = 20.0
_FILES_WANTED = 1024


def look(*, rdma_wanted: bool) -> Iterator[Finding]:
    """Check what jobs need of this machine; `rdma_wanted` where the pool has RDMA paths."""
    yield from _fio_and_engine()
    yield _files()
    yield from rdma.machine(wanted=rdma_wanted)


def _fio_and_engine() -> Iterator[Finding]:
    try:
        fio = find("fio")
    except MissingError as error:
        yield fail(error.what, error.remedy or "")
        return
    version = run([fio, "--version"], timeout=_SECONDS).stdout.strip()
    library = build_dir() / "libnfsmulti.so"
    if not library.exists():
        yield fail(f"{version} is there, the engine is not built", "./nfsmulti build")
        return
    # fio splits what follows --enghelp= at commas, so the name should be short.
    help_text = run([fio, f"--enghelp=./{library.name}"], timeout=_SECONDS, cwd=library.parent)
    if help_text.status == 0 and "pool" in help_text.stdout:
        yield ok(f"{version} loads {shown(library)}")
    else:
        said = (help_text.stderr + help_text.stdout).strip().splitlines()
        reason = said[0] if said else f"status {help_text.status}"
        yield fail(f"{version} does not load {shown(library)}: {reason}", "./nfsmulti build")


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    what = f"{soft} open files are allowed, each connection takes one"
    if soft >= _FILES_WANTED:
        return ok(what)
    if hard >= _FILES_WANTED or hard == resource.RLIM_INFINITY:
        return warn(what, f"ulimit -n {_FILES_WANTED}")
    return warn(what, "raise 'nofile' in /etc/security/limits.conf")
