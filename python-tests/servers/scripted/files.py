# SPDX-License-Identifier: GPL-2.0-only
"""Files in memory, where what was not committed is kept apart, so that a restart loses it.

For NFS version 4, a pseudo file system (RFC 8881, 7) leads to the export.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from servers.rpc import AUTH_SYS
from servers.scripted.protocol import VERIFIER_SIZE, NfsError, Status

REGULAR, DIRECTORY = 1, 2
_HANDLE_SIZE = 32
_FSID = 0x6E66736D


@dataclass(eq=False)
class Node:
    """A directory, or a file: `current` is what a READ sees, `durable` what a restart leaves.

    `path` is its first name from the export's root, "" for that; those above it begin with "/".
    """

    number: int
    kind: int  # ftype3, and nfs_ftype4 too
    path: str
    fsid: int = _FSID  # one with another is of another file system
    named: bool = True  # an open file may lose its name
    children: dict[str, Node] = field(default_factory=dict)
    current: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)

    @property
    def handle(self) -> bytes:
        """Its file handle."""
        return self.number.to_bytes(8, "big").rjust(_HANDLE_SIZE, b"\xfa")

    def below(self, name: str) -> str:
        """Return the path of a name in it, or with "" its own."""
        return f"{self.path.rstrip('/')}/{name}" if self.path and name else self.path or name

    def must_be(self, kind: int) -> Node:
        """Return it, where it is of that kind and, as a directory, still there."""
        if self.kind != kind:
            raise NfsError(Status.NOTDIR if kind == DIRECTORY else Status.ISDIR)
        if kind == DIRECTORY and not self.named:
            raise NfsError(Status.STALE)
        return self

    def write(self, offset: int, data: bytes, *, durably: bool) -> None:
        """Write data; behind the end of the file zeros precede it."""
        for image in (self.current, self.durable) if durably else (self.current,):
            image.extend(bytes(max(0, offset - len(image))))
            image[offset : offset + len(data)] = data

    def resize(self, size: int) -> None:
        """Cut or lengthen a file; that is durable at once."""
        for image in (self.current, self.durable):
            del image[size:]
            image.extend(bytes(size - len(image)))


@dataclass
class Export:
    """What the server offers: its export, the limits of one READ and WRITE, and its files.

    `flavors` are the pseudo flavors of security (RFC 2623) that it says it takes.
    """

    path: str = "/export"
    flavors: tuple[int, ...] = (AUTH_SYS,)
    rtmax: int = 1 << 20
    wtmax: int = 1 << 20
    verifies_cookies: bool = False  # READDIR's, whose verifier changes with the directory

    def __post_init__(self) -> None:
        self.verifier = secrets.token_bytes(VERIFIER_SIZE)  # of WRITEs, in the present life
        self.root = Node(0, DIRECTORY, "/")
        self.nodes = [self.root]  # all that there ever were, by number
        for name in filter(None, self.path.split("/")):
            self.root.fsid = 0
            self.root = self.make(DIRECTORY, self.root, name)
        self.root.path = ""

    def node(self, handle: bytes) -> Node:
        """Return what a handle stands for: a file also where it has no name any more."""
        if len(handle) != _HANDLE_SIZE:
            raise NfsError(Status.BADHANDLE)
        number = int.from_bytes(handle[-8:], "big")
        if number >= len(self.nodes):
            raise NfsError(Status.STALE)
        node = self.nodes[number]
        return node if node.kind == REGULAR else node.must_be(DIRECTORY)

    def lookup(self, directory: Node, name: str) -> Node:
        """Find a name in a directory."""
        if name not in directory.must_be(DIRECTORY).children:
            raise NfsError(Status.NOENT)
        return directory.children[name]

    def find(self, path: str) -> Node:
        """Find a path from the root."""
        node = self.root
        for name in filter(None, path.split("/")):
            node = self.lookup(node, name)
        return node

    def make(self, kind: int, directory: Node, name: str) -> Node:
        """Make an empty file or directory; the name must be free."""
        node = Node(len(self.nodes), kind, directory.below(name))
        self.link(node, directory, name)
        self.nodes.append(node)
        return node

    def link(self, node: Node, directory: Node, name: str) -> None:
        """Give a file another name, which must be free; its path stays the first."""
        if "/" in name or name in (".", ".."):
            raise NfsError(Status.INVAL)
        if name in directory.must_be(DIRECTORY).children:
            raise NfsError(Status.EXIST)
        directory.children[name] = node

    def remove(self, directory: Node, name: str) -> None:
        """Remove a name of a file, or an empty directory, whose handle is stale from now on."""
        node = self.lookup(directory, name)
        if node.children:
            raise NfsError(Status.NOTEMPTY)
        del directory.children[name]
        node.named = node in directory.children.values()  # links are in one directory

    def files(self) -> list[Node]:
        """Return all files that have a name."""
        return [node for node in self.nodes if node.kind == REGULAR and node.named]

    def restart(self) -> None:
        """Begin another life: what was not committed is gone, and the write verifier is new."""
        for file in self.files():
            file.current[:] = file.durable
        self.verifier = secrets.token_bytes(VERIFIER_SIZE)
