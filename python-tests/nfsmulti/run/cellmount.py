# SPDX-License-Identifier: GPL-2.0-only
"""Kernel mounts that one cell has for itself.

Mounts of one server that are there at once share the connections of the first, whatever their
nconnect says (nfs(5)): one follows the other.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.processes import run

_SECONDS = 60.0


class CellMounts:
    """The mounts of one cell at a time. Whoever has them calls end() in the end."""

    def __init__(self) -> None:
        self._folders: list[str] = []

    def make(self, wanted: Sequence[tuple[str, str]]) -> list[str]:
        """Mount each source with its nfs(5) options, after what was mounted before has gone.

        Gives the directories. Raises HarnessError, also where a mount has not connections of its
        own: another mount of that server lends it those that it has.
        """
        self.end()
        for source, options in wanted:
            self._add(source, options)
        return list(self._folders)

    def _add(self, source: str, options: str) -> None:
        folder = tempfile.mkdtemp(prefix="nfsmulti-mount-")
        try:
            mount = ["mount", "-t", "nfs", "-o", options, source, folder]
            run(mount, timeout=_SECONDS).check()
        except HarnessError:
            Path(folder).rmdir()
            raise
        self._folders.append(folder)
        found = _options_of(folder)
        peers = {_address(_options_of(other)) for other in self._folders[:-1]} - {""}
        if _address(found) in peers:
            raise HarnessError(
                f"{source}: the kernel mounts it over an earlier path's connections: both are on"
                " one server",
                "name each address of a server once",
            )
        asked, has = _nconnect(options), _nconnect(found)
        if asked != has:
            raise HarnessError(
                f"{source}: nconnect={asked} was asked for and the mount has {has}: it shares the"
                " connections of another mount of this server",
                "unmount that one first",
            )

    def end(self) -> None:
        """Unmount all, the last one first; what is busy goes when its last user does."""
        stuck: list[str] = []
        while self._folders:
            folder = self._folders.pop()
            done = run(["umount", folder], timeout=_SECONDS)
            if done.status != 0:
                done = run(["umount", "--lazy", folder], timeout=_SECONDS)
            if done.status == 0:
                Path(folder).rmdir()
            else:
                stuck.append(done.stderr.strip() or f"umount {folder} did not end in time")
        if stuck:
            raise HarnessError("; ".join(stuck), "unmount it by hand")


def _address(options: str) -> str:
    """Give the address and port that a mount's connections go to, "" where they are not told."""
    found = [re.search(rf"(?<![a-z]){name}=([^,]+)", options) for name in ("addr", "port")]
    return ":".join(one[1] for one in found if one)


def _nconnect(options: str) -> int:
    found = re.search(r"\bnconnect=(\d+)", options)
    return int(found[1]) if found else 1


def _options_of(folder: str) -> str:
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return next((words[3] for words in reversed(lines) if words[1] == folder), "")
