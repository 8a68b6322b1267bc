# SPDX-License-Identifier: GPL-2.0-only
"""Files in memory, where what was not committed is kept apart, so that a restart loses it.

For NFS version 4, a pseudo file system (RFC 8881, 7) leads to the export.
"""

import itertools
import secrets
from dataclasses import dataclass, field
from typing import TypeVar

from servers.rpc import AUTH_SYS
from servers.scripted.protocol import VERIFIER_SIZE, NfsError, Stable, Status

REGULAR, DIRECTORY = 1, 2
_HANDLE_SIZE = 32
_FSID = 0x6E66736D


@dataclass(eq=False)
class Node:
    """A file or directory. `path` is its name from the export's root, with "" for the root.

    One with another `fsid` is of another file system.
    """

    fileid: int
    path: str
    fsid: int = _FSID
    named: bool = True  # an open file may lose its name

    @property
    def kind(self) -> int:
        """The number of its kind: ftype3, and nfs_ftype4 too."""
        return REGULAR if isinstance(self, File) else DIRECTORY

    @property
    def size(self) -> int:
        """The bytes of a file; all directories have the same."""
        return len(self.current) if isinstance(self, File) else 4096

    @property
    def handle(self) -> bytes:
        """Its file handle."""
        return self.fileid.to_bytes(8, "big").rjust(_HANDLE_SIZE, b"\xfa")


@dataclass(eq=False)
class Directory(Node):
    """A directory."""

    children: dict[str, Node] = field(default_factory=dict)


@dataclass(eq=False)
class File(Node):
    """A regular file: `current` is what a READ sees, `durable` what a restart leaves of it."""

    current: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes."""
        return bytes(memoryview(self.current)[offset : offset + count])

    def write(self, offset: int, data: bytes, stable: Stable) -> None:
        """Write, durably unless `stable` is UNSTABLE."""
        _put(self.current, offset, data)
        if stable is not Stable.UNSTABLE:
            _put(self.durable, offset, data)

    def commit(self) -> None:
        """Make all durable, whatever range was asked for."""
        self.durable[:] = self.current

    def resize(self, size: int) -> None:
        """Cut or lengthen the file; that is durable at once."""
        for image in (self.current, self.durable):
            del image[size:]
            image.extend(bytes(size - len(image)))

    def lose(self) -> None:
        """Forget what was not committed."""
        self.current[:] = self.durable


def as_directory(node: Node) -> Directory:
    """Return a node that must be a directory."""
    if not isinstance(node, Directory):
        raise NfsError(Status.NOTDIR)
    return node


def as_file(node: Node) -> File:
    """Return a node that must be a regular file."""
    if not isinstance(node, File):
        raise NfsError(Status.ISDIR)
    return node


def path_of(node: Node | None, name: str) -> str:
    """Return the path of a node, or of a name below it."""
    path = "" if node is None else node.path
    if not name:
        return path
    return f"{path.rstrip('/')}/{name}" if path else name


def _put(image: bytearray, offset: int, data: bytes | bytearray) -> None:
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


_NodeType = TypeVar("_NodeType", bound=Node)


class FileSystem:
    """One file system, its file handles, and the write verifier of the server's present life."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.keeps: int | None = None  # handles: those used last, the others are stale; None: all
        self._kept: dict[bytes, None] = {}
        self.verifies_cookies = False  # READDIR's, whose verifier changes with the directory
        self.verifier = secrets.token_bytes(VERIFIER_SIZE)
        self.root = Directory(next(self._numbers), "")
        self.nodes: dict[int, Node] = {self.root.fileid: self.root}

    def node(self, handle: bytes) -> Node:
        """Return what a handle stands for, whether it still has a name or not."""
        if len(handle) != _HANDLE_SIZE:
            raise NfsError(Status.BADHANDLE)
        number = int.from_bytes(handle[-8:], "big")
        forgotten = self.keeps is not None and handle not in (*self._kept, self.root.handle)
        if number not in self.nodes or forgotten:
            raise NfsError(Status.STALE)
        self.tell(self.nodes[number])
        return self.nodes[number]

    def tell(self, node: Node) -> bytes:
        """Return the handle of a node to a client: it is one that is kept."""
        if self.keeps is not None:
            self._kept.pop(node.handle, None)
            self._kept[node.handle] = None
            for oldest in list(self._kept)[: -self.keeps]:
                del self._kept[oldest]
        return node.handle

    def lookup(self, directory: Directory, name: str) -> Node:
        """Find a name in a directory."""
        if name not in directory.children:
            raise NfsError(Status.NOENT)
        return directory.children[name]

    def find(self, path: str) -> Node:
        """Find a path from the root."""
        node: Node = self.root
        for name in filter(None, path.split("/")):
            node = self.lookup(as_directory(node), name)
        return node

    def make(self, kind: type[_NodeType], directory: Directory, name: str) -> _NodeType:
        """Make an empty file or directory; the name must be free."""
        self._check_free(directory, name)
        node = kind(next(self._numbers), f"{directory.path}/{name}".lstrip("/"))
        directory.children[name] = self.nodes[node.fileid] = node
        return node

    def link(self, file: File, directory: Directory, name: str) -> None:
        """Give a file another name, which must be free; its path stays the first."""
        self._check_free(directory, name)
        directory.children[name] = file

    def remove(self, directory: Directory, name: str) -> None:
        """Remove a name of a file, or an empty directory, whose handle is stale from now on."""
        node = self.lookup(directory, name)
        if isinstance(node, Directory) and node.children:
            raise NfsError(Status.NOTEMPTY)
        del directory.children[name]
        node.named = node in directory.children.values()  # links are in one directory
        if isinstance(node, Directory):
            del self.nodes[node.fileid]

    def files(self) -> list[File]:
        """Return all files that have a name."""
        nodes = list(self.nodes.values())
        return [node for node in nodes if isinstance(node, File) and node.named]

    def restart(self) -> None:
        """Begin another life: what was not committed is gone, and the write verifier is new."""
        for file in self.files():
            file.lose()
        self.verifier = secrets.token_bytes(VERIFIER_SIZE)

    def _check_free(self, directory: Directory, name: str) -> None:
        if "/" in name or name in (".", ".."):
            raise NfsError(Status.INVAL)
        if name in directory.children:
            raise NfsError(Status.EXIST)


@dataclass
class Export:
    """What the server offers: its export, the limits of one READ and WRITE, and its files.

    `flavors` are the pseudo flavors of security (RFC 2623) that it says it takes.
    """

    path: str = "/export"
    flavors: tuple[int, ...] = (AUTH_SYS,)
    rtmax: int = 1 << 20
    wtmax: int = 1 << 20
    files: FileSystem = field(default_factory=FileSystem)


# --- the pseudo file system ---


_FIRST_NUMBER = 1 << 62  # no file has such a high one


def above(export: Export) -> Directory:
    """Make a directory for each component of the export's path, which leads to the files.

    Its own path begins with "/"; that of a file is relative to the export.
    """
    root = export.files.root
    components = [part for part in export.path.split("/") if part]
    for depth in reversed(range(len(components))):
        path = "/" + "/".join(components[:depth])
        directory = Directory(_FIRST_NUMBER + depth, path, fsid=0)
        directory.children[components[depth]] = root
        export.files.nodes[directory.fileid] = root = directory
    return root
