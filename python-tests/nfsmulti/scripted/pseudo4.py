# SPDX-License-Identifier: GPL-2.0-only
"""The pseudo file system of NFS version 4 (RFC 8881, 7): it leads to the export."""

from __future__ import annotations

from nfsmulti.scripted.files import Directory, FileSystem, NfsError, Node
from nfsmulti.scripted.protocol4 import Status4

_FIRST_NUMBER = 1 << 62  # no file has such a high one


class Names:
    """The names and handles of a server: a directory for each component, then the files.

    The path of a directory above the export begins with "/"; that of a file is the export's.
    """

    def __init__(self, export: str, files: FileSystem):
        self._files = files
        self._above: dict[bytes, Directory] = {}
        self._parents: dict[Directory, Directory] = {}
        components = [part for part in export.split("/") if part]
        below = files.root
        for depth in reversed(range(len(components))):
            path = "/" + "/".join(components[:depth])
            directory = Directory(_FIRST_NUMBER + depth, path, 0o755, 0, 0)
            directory.children[components[depth]] = below
            self._parents[below] = directory
            self._above[files.handle(directory)] = below = directory
        self.root = below

    def handle(self, node: Node) -> bytes:
        """Give a node's handle."""
        return self._files.handle(node)

    def node(self, handle: bytes) -> Node:
        """Give what a handle stands for."""
        return self._above.get(handle) or self._files.node(handle)

    def leads(self, node: Node) -> bool:
        """Whether a node is a directory above the export, which nobody can change."""
        return self.handle(node) in self._above

    def lookup(self, directory: Directory, name: str) -> Node:
        """Find a name in a directory."""
        if not name:
            raise NfsError(Status4.INVAL)
        if name in (".", ".."):
            raise NfsError(Status4.BADNAME)
        return self._files.lookup(directory, name)

    def parent(self, directory: Directory) -> Node:
        """Give the directory above another."""
        if directory is self.root:
            raise NfsError(Status4.NOENT)
        return self._parents.get(directory) or self._files.lookup(directory, "..")
