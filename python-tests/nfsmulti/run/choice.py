# SPDX-License-Identifier: GPL-2.0-only
"""What a user chooses of `run connections`, and whether this machine can do it on their pool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nfsmulti import machine
from nfsmulti.errors import HarnessError
from nfsmulti.machine import Level, rdma_devices
from nfsmulti.processes import find, run
from nfsmulti.stories.connections import MOST, PROTOCOLS, VERSIONS, Choice

_SECONDS = 20.0


def parse(
    *, nconnect: str, proto: str, version: str, jobs: str, mounts: bool, workload: str | None
) -> Choice:
    """Read the words of the options. Raises HarnessError that names the option and its values."""
    return Choice(
        _numbers("--nconnect", nconnect),
        _words("--proto", proto, PROTOCOLS),
        _words("--version", version, VERSIONS),
        _numbers("--jobs", jobs),
        mounts,
        workload or Choice.workload,
    )


def check(choice: Choice, hosts: str) -> None:
    """Raise HarnessError where a user's pool cannot be used like that from this machine."""
    if choice.mounts:
        _check_mounts(hosts)
    if "rdma" in choice.protocols and not hosts:
        findings = list(rdma_devices(wanted=True))
        if all(finding.level is not Level.OK for finding in findings):
            raise HarnessError(f"--proto rdma: {findings[0].what}", findings[0].remedy)


def _check_mounts(hosts: str) -> None:
    if hosts:
        raise HarnessError("--mounts mounts on this machine only: leave out --hosts")
    if why := machine.missing_privileges():
        raise HarnessError(f"--mounts: mounting needs root ({why})", "run it as root")
    find("mount.nfs")
    known = Path("/proc/filesystems").read_text().split()
    if "nfs" not in known and run(["modprobe", "-qn", "nfs"], timeout=_SECONDS).status:
        raise HarnessError(
            "--mounts: this kernel has no NFS client", "leave it out, or use another kernel"
        )


def _numbers(option: str, text: str) -> tuple[int, ...]:
    words = text.split(",") if text else []
    if not all(word.isdecimal() and 1 <= int(word) <= MOST for word in words) or _twice(words):
        raise HarnessError(
            f"{option} {text}: give numbers from 1 to {MOST}, each once, such as 1,4,8"
        )
    return tuple(sorted(map(int, words)))


def _words(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    words = text.split(",") if text else []
    if not all(word in known for word in words) or _twice(words):
        raise HarnessError(f"{option} {text}: give {' or '.join(known)}, or {','.join(known)}")
    return tuple(words)


def _twice(words: Sequence[str]) -> bool:
    return len(set(words)) < len(words)
