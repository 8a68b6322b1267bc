# SPDX-License-Identifier: GPL-2.0-only
"""A kernel mount that one cell has for itself.

Mounts of one server that are there at once share the connections of the first, whatever their
nconnect says (nfs(5)): one follows the other.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.processes import run

_SECONDS = 60.0


class CellMount:
    """One mount at a time. Whoever has it calls end() in the end."""

    def __init__(self) -> None:
        self._folder = ""

    def make(self, source: str, options: str) -> str:
        """Mount `source` with nfs(5)'s `options`, after what was mounted before has gone.

        Gives the directory. Raises HarnessError, also where the mount has not the nconnect that was
        asked for: another mount of that server lends it its connections.
        """
        self.end()
        folder = tempfile.mkdtemp(prefix="nfsmulti-mount-")
        try:
            mount = ["mount", "-t", "nfs", "-o", options, source, folder]
            run(mount, timeout=_SECONDS).check()
        except HarnessError:
            Path(folder).rmdir()
            raise
        self._folder = folder
        wanted, has = _nconnect(options), _nconnect(_options_of(folder))
        if wanted != has:
            raise HarnessError(
                f"{source}: nconnect={wanted} was asked for and the mount has {has}: another mount"
                " of this server lends it its connections",
                "unmount that one first",
            )
        return folder

    def end(self) -> None:
        """Unmount what was mounted last."""
        if self._folder:
            run(["umount", self._folder], timeout=_SECONDS).check()
            Path(self._folder).rmdir()
            self._folder = ""


def _nconnect(options: str) -> int:
    found = re.search(r"\bnconnect=(\d+)", options)
    return int(found[1]) if found else 1


def _options_of(folder: str) -> str:
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return next((words[3] for words in reversed(lines) if words[1] == folder), "")
