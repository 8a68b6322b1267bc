# SPDX-License-Identifier: GPL-2.0-only
"""The procedures of MOUNT and NFS version 3: arguments decoded, carried out, results encoded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdrlib3 import Packer, Unpacker

from nfsmulti.scripted.answer import Answer
from nfsmulti.scripted.files import NAME_MAX, Directory, File, FileSystem, NfsError, Node
from nfsmulti.scripted.protocol import (
    VERIFIER_SIZE,
    Credentials,
    Mount,
    Nfs,
    Nfs4,
    Procedure,
    Stable,
    Status,
)

_UNCHECKED, _EXCLUSIVE = 0, 2  # createmode3
_CLIENT_TIME = 2  # time_how
_AUTH_SYS = 1
ACCESS_ALL = 0x3F
_HOMOGENEOUS_AND_CANSETTIME = 0x18
FSID = 0x6E66736D
_SPACE = 1 << 40
_PAGE_ROOM, _ENTRY_ROOM = 128, 32  # bytes of READDIR's results, and of one entry in them
_COOKIE = 2  # no cookie is that low (RFC 8881, 18.23.3)

# How many optional attributes (post_op_attr, pre_op_attr) stand in results that are no success.
_ATTRIBUTES_OF_FAILURE = {
    Nfs.GETATTR: 0,
    Nfs.LOOKUP: 1,
    Nfs.ACCESS: 1,
    Nfs.READ: 1,
    Nfs.READDIR: 1,
    Nfs.READDIRPLUS: 1,
    Nfs.FSSTAT: 1,
    Nfs.FSINFO: 1,
    Nfs.PATHCONF: 1,
    Nfs.RENAME: 4,
    Nfs.LINK: 3,
}
_WCC_DATA = 2


@dataclass(frozen=True)
class Settable:
    """sattr3, without its times."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a READ, WRITE or COMMIT of either version is about, and how far a listing is to go."""

    offset: int = 0  # READDIR, READDIRPLUS: the cookie
    count: int = 0  # those: the bytes of results that the caller takes; ACCESS: what is asked for
    stable: Stable = Stable.UNSTABLE
    data: bytes = b""


@dataclass(frozen=True)
class Arguments(Asked):
    """A call's arguments, as far as its procedure has them."""

    handle: bytes = b""
    name: str = ""
    to_handle: bytes = b""  # RENAME, LINK
    to_name: str = ""
    how: int = _UNCHECKED  # CREATE
    verifier: bytes = b""  # CREATE, where it is exclusive
    settable: Settable = Settable()  # SETATTR, CREATE, MKDIR


@dataclass
class Export:
    """What the server offers: its export, the limits of one READ and WRITE, and its files."""

    path: str = "/export"
    rtmax: int = 1 << 20
    wtmax: int = 1 << 20
    files: FileSystem = field(default_factory=FileSystem)
    mounted: list[tuple[str, str]] = field(default_factory=list)


# --- arguments ---


def decode(procedure: Procedure, source: Unpacker) -> Arguments:
    """Read a call's arguments. Raises EOFError or ValueError where they are none."""
    if procedure in (Mount.MNT, Mount.UMNT):
        return Arguments(name=unpack_name(source))
    if isinstance(procedure, Mount | Nfs4) or procedure is Nfs.NULL:
        return Arguments()
    return _DECODERS.get(procedure, _handle)(source)


def unpack_name(source: Unpacker) -> str:
    """Read the name of a file or directory."""
    return source.unpack_string().decode(errors="surrogateescape")


def _handle(it: Unpacker) -> Arguments:
    return Arguments(it.unpack_opaque())


def _handle_and_name(it: Unpacker) -> Arguments:
    return Arguments(it.unpack_opaque(), unpack_name(it))


def _handle_and_range(it: Unpacker) -> Arguments:
    return Arguments(it.unpack_opaque(), offset=it.unpack_uhyper(), count=it.unpack_uint())


def _decode_write(source: Unpacker) -> Arguments:
    handle, offset, count = source.unpack_opaque(), source.unpack_uhyper(), source.unpack_uint()
    stable, data = Stable(source.unpack_uint()), source.unpack_opaque()
    if len(data) != count:
        raise ValueError(f"WRITE of {count} bytes brings {len(data)}")
    source.done()
    return Arguments(handle, offset=offset, count=count, stable=stable, data=data)


def _decode_create(source: Unpacker) -> Arguments:
    handle, name, how = source.unpack_opaque(), unpack_name(source), source.unpack_uint()
    if how == _EXCLUSIVE:
        return Arguments(handle, name, how=how, verifier=source.unpack_fopaque(VERIFIER_SIZE))
    return Arguments(handle, name, how=how, settable=_settable(source))


def _decode_readdir(source: Unpacker, *, plus: bool = False) -> Arguments:
    handle, cookie = source.unpack_opaque(), source.unpack_uhyper()
    source.unpack_uhyper()  # the cookie verifier
    if plus:
        source.unpack_uint()  # the bytes of names and cookies
    return Arguments(handle, offset=cookie, count=source.unpack_uint())


def _settable(source: Unpacker) -> Settable:
    mode, uid, gid = (source.unpack_uint() if source.unpack_bool() else None for _ in range(3))
    size = source.unpack_uhyper() if source.unpack_bool() else None
    for _ in range(2):
        if source.unpack_uint() == _CLIENT_TIME:
            source.unpack_uhyper()
    return Settable(mode, uid, gid, size)


_DECODERS: dict[Nfs, Callable[[Unpacker], Arguments]] = {
    Nfs.SETATTR: lambda it: Arguments(it.unpack_opaque(), settable=_settable(it)),
    Nfs.LOOKUP: _handle_and_name,
    Nfs.ACCESS: lambda it: Arguments(it.unpack_opaque(), count=it.unpack_uint()),
    Nfs.READ: _handle_and_range,
    Nfs.WRITE: _decode_write,
    Nfs.CREATE: _decode_create,
    Nfs.MKDIR: lambda it: Arguments(it.unpack_opaque(), unpack_name(it), settable=_settable(it)),
    Nfs.REMOVE: _handle_and_name,
    Nfs.RMDIR: _handle_and_name,
    Nfs.RENAME: lambda it: Arguments(
        it.unpack_opaque(), unpack_name(it), it.unpack_opaque(), unpack_name(it)
    ),
    Nfs.LINK: lambda it: Arguments(
        it.unpack_opaque(), to_handle=it.unpack_opaque(), to_name=unpack_name(it)
    ),
    Nfs.READDIR: _decode_readdir,
    Nfs.READDIRPLUS: lambda it: _decode_readdir(it, plus=True),
    Nfs.COMMIT: _handle_and_range,
}


# --- results ---


class _Task:
    """One call, being carried out; its results are written into `pack`."""

    def __init__(self, arguments: Arguments, answer: Answer, caller: Credentials):
        self.arguments, self.answer, self.caller = arguments, answer, caller
        self._flag = 1 if answer.attributes is None else answer.attributes
        self.pack = Packer()

    def status(self, status: int) -> None:
        """Write nfsstat3."""
        self.pack.pack_uint(status)

    def attributes(self, node: Node) -> None:
        """Write fattr3."""
        for word in (node.kind, node.mode, 1, node.uid, node.gid):
            self.pack.pack_uint(word)
        for long in (node.size, node.size, 0, FSID, node.fileid):
            self.pack.pack_uhyper(long)
        for _ in range(3):
            self._time(node.changed)

    def optional_attributes(self, node: Node) -> None:
        """Write post_op_attr."""
        self.pack.pack_uint(self._flag)
        if self._flag:
            self.attributes(node)

    def no_attributes(self, count: int) -> None:
        """Write post_op_attr, or pre_op_attr, that says nothing."""
        for _ in range(count):
            self.pack.pack_uint(0)

    def change(self, node: Node, size: int, changed: float) -> None:
        """Write wcc_data: what was before, and what is now."""
        self.pack.pack_uint(self._flag)
        if self._flag:
            self.pack.pack_uhyper(size)
            self._time(changed)
            self._time(changed)
        self.optional_attributes(node)

    def handle(self, node: Node) -> None:
        """Write nfs_fh3."""
        self.pack.pack_opaque(node.handle)

    def optional_handle(self, node: Node) -> None:
        """Write post_op_fh3."""
        self.pack.pack_bool(True)
        self.handle(node)

    def owner(self, mode: int) -> tuple[int, int, int]:
        """Give mode, uid and gid of what is made."""
        wanted = self.arguments.settable
        return (
            mode if wanted.mode is None else wanted.mode,
            self.caller.uid if wanted.uid is None else wanted.uid,
            self.caller.gid if wanted.gid is None else wanted.gid,
        )

    def _time(self, seconds: float) -> None:
        fraction, whole = math.modf(seconds)
        self.pack.pack_uint(int(whole))
        self.pack.pack_uint(int(fraction * 1e9))


class Procedures:
    """Carries calls out."""

    def __init__(self, export: Export):
        self._export = export
        self._exclusive: dict[Node, bytes] = {}  # the verifiers that files were created with
        self._nfs: dict[Nfs, Callable[[_Task], int | None]] = {
            Nfs.GETATTR: self._getattr,
            Nfs.SETATTR: self._setattr,
            Nfs.LOOKUP: self._lookup,
            Nfs.ACCESS: self._access,
            Nfs.READ: self._read,
            Nfs.WRITE: self._write,
            Nfs.CREATE: self._create,
            Nfs.MKDIR: self._mkdir,
            Nfs.REMOVE: lambda task: self._unlink(task, export.files.remove),
            Nfs.RMDIR: lambda task: self._unlink(task, export.files.remove_directory),
            Nfs.RENAME: self._rename,
            Nfs.LINK: self._link,
            Nfs.READDIR: self._readdir,
            Nfs.READDIRPLUS: self._readdirplus,
            Nfs.FSSTAT: self._fsstat,
            Nfs.FSINFO: self._fsinfo,
            Nfs.PATHCONF: self._pathconf,
            Nfs.COMMIT: self._commit,
        }

    def path_of(self, arguments: Arguments) -> str:
        """Give the file that a call is about, relative to the export; "?" for a stale handle."""
        if not arguments.handle:
            return arguments.name
        try:
            path = self._export.files.node(arguments.handle).path
        except NfsError:
            return "?"
        return f"{path}/{arguments.name}".strip("/")

    def run(
        self, procedure: Procedure, arguments: Arguments, answer: Answer, caller: Credentials
    ) -> tuple[bytes, int]:
        """Carry a call out, as far as the answer leaves it to us.

        Gives its results, and the bytes that READ or WRITE moved.
        """
        if answer.results is not None and not answer.act:
            return answer.results, 0
        task = _Task(arguments, answer, caller)
        moved = 0
        if isinstance(procedure, Mount):
            self._mount(procedure, task)
        elif isinstance(procedure, Nfs) and procedure is not Nfs.NULL:
            moved = self._run_nfs(procedure, task)
        return task.pack.get_buffer() if answer.results is None else answer.results, moved

    def _run_nfs(self, procedure: Nfs, task: _Task) -> int:
        try:
            if task.answer.status:
                raise NfsError(task.answer.status)
            if not task.answer.act:
                raise NfsError(Status.SERVERFAULT)
            task.status(Status.OK)
            return self._nfs[procedure](task) or 0
        except NfsError as error:
            task.pack.reset()
            task.status(error.status)
            task.no_attributes(_ATTRIBUTES_OF_FAILURE.get(procedure, _WCC_DATA))
            return 0

    # --- MOUNT ---

    def _mount(self, procedure: Mount, task: _Task) -> None:
        pack = task.pack
        entry = (task.caller.machine, task.arguments.name)
        if procedure is Mount.MNT:
            self._mnt(task)
        elif procedure is Mount.UMNT and entry in self._export.mounted:
            self._export.mounted.remove(entry)
        elif procedure is Mount.DUMP:
            for machine, path in self._export.mounted:
                pack.pack_bool(True)
                pack.pack_string(machine.encode())
                pack.pack_string(path.encode())
            pack.pack_bool(False)
        elif procedure is Mount.EXPORT:
            pack.pack_bool(True)
            pack.pack_string(self._export.path.encode())
            pack.pack_bool(False)  # for everybody
            pack.pack_bool(False)

    def _mnt(self, task: _Task) -> None:
        try:
            if task.answer.status:
                raise NfsError(task.answer.status)
            directory = self._mountable(task.arguments.name)
        except NfsError as error:
            task.status(error.status)
            return
        self._export.mounted.append((task.caller.machine, task.arguments.name))
        task.status(Status.OK)
        task.handle(directory)
        task.pack.pack_array([_AUTH_SYS], task.pack.pack_uint)

    def _mountable(self, path: str) -> Directory:
        """Find the export, or a directory below it."""
        below = path.removeprefix(self._export.path)
        if below == path or below[:1] not in ("", "/"):
            raise NfsError(Status.NOENT)
        node = self._export.files.find(below)
        if not isinstance(node, Directory):
            raise NfsError(Status.NOTDIR)
        return node

    # --- NFS: files ---

    def _getattr(self, task: _Task) -> None:
        node = self._export.files.node(task.arguments.handle)
        task.attributes(node)

    def _setattr(self, task: _Task) -> None:
        arguments = task.arguments
        node = self._export.files.node(arguments.handle)
        before = _before(node)
        wanted = arguments.settable
        if wanted.size is not None:
            self._export.files.file(arguments.handle).resize(wanted.size)
        self._exclusive.pop(node, None)  # it is kept in the times
        node.mode = node.mode if wanted.mode is None else wanted.mode
        node.uid = node.uid if wanted.uid is None else wanted.uid
        node.gid = node.gid if wanted.gid is None else wanted.gid
        task.change(node, *before)

    def _access(self, task: _Task) -> None:
        node = self._export.files.node(task.arguments.handle)
        task.optional_attributes(node)
        task.pack.pack_uint(task.arguments.count & ACCESS_ALL)

    def _read(self, task: _Task) -> int:
        file = self._export.files.file(task.arguments.handle)
        task.optional_attributes(file)
        return read(task.pack, file, task.arguments, task.answer, self._export.rtmax)

    def _write(self, task: _Task) -> int:
        files = self._export.files
        file = files.file(task.arguments.handle)
        before = _before(file)
        written = write(file, task.arguments, task.answer, self._export.wtmax)
        task.change(file, *before)
        pack_written(task.pack, written, task.answer, files)
        return written[0]

    def _commit(self, task: _Task) -> None:
        files, arguments = self._export.files, task.arguments
        file = files.file(arguments.handle)
        before = _before(file)
        file.commit(arguments.offset, arguments.count)
        task.change(file, *before)
        pack_verifier(task.pack, task.answer, files)

    # --- NFS: names ---

    def _lookup(self, task: _Task) -> None:
        directory = self._export.files.directory(task.arguments.handle)
        node = self._export.files.lookup(directory, task.arguments.name)
        task.handle(node)
        task.optional_attributes(node)
        task.optional_attributes(directory)

    def _create(self, task: _Task) -> None:
        arguments, files = task.arguments, self._export.files
        directory = files.directory(arguments.handle)
        before = _before(directory)
        existing = directory.children.get(arguments.name)
        again = existing and self._exclusive.get(existing) == arguments.verifier != b""
        if arguments.how != _UNCHECKED and existing is not None and not again:
            raise NfsError(Status.EXIST)
        if existing is None:
            mode = 0 if arguments.verifier else 0o644
            file = files.create(directory, arguments.name, *task.owner(mode))
            if arguments.verifier:
                self._exclusive[file] = arguments.verifier
        elif isinstance(existing, File):
            file = existing
        else:
            raise NfsError(Status.ISDIR)
        if arguments.settable.size is not None:
            file.resize(arguments.settable.size)
        self._made(task, file, directory, before)

    def _mkdir(self, task: _Task) -> None:
        arguments, files = task.arguments, self._export.files
        directory = files.directory(arguments.handle)
        before = _before(directory)
        made = files.make_directory(directory, arguments.name, *task.owner(0o755))
        self._made(task, made, directory, before)

    def _made(
        self, task: _Task, node: Node, directory: Directory, before: tuple[int, float]
    ) -> None:
        task.optional_handle(node)
        task.optional_attributes(node)
        task.change(directory, *before)

    def _unlink(self, task: _Task, remove: Callable[[Directory, str], None]) -> None:
        directory = self._export.files.directory(task.arguments.handle)
        before = _before(directory)
        remove(directory, task.arguments.name)
        task.change(directory, *before)

    def _rename(self, task: _Task) -> None:
        arguments, files = task.arguments, self._export.files
        source = files.directory(arguments.handle)
        target = files.directory(arguments.to_handle)
        before = _before(source), _before(target)
        files.rename(source, arguments.name, target, arguments.to_name)
        task.change(source, *before[0])
        task.change(target, *before[1])

    def _link(self, task: _Task) -> None:
        arguments, files = task.arguments, self._export.files
        file, directory = files.file(arguments.handle), files.directory(arguments.to_handle)
        before = _before(directory)
        files.link(file, directory, arguments.to_name)
        task.optional_attributes(file)
        task.change(directory, *before)

    def _listed(self, directory: Directory) -> Sequence[tuple[str, Node]]:
        above = self._export.files.lookup(directory, "..")
        return [(".", directory), ("..", above), *directory.children.items()]

    def _readdir(self, task: _Task) -> None:
        """Give what fits into `count`, and of entries the answer's `limit` at most."""
        arguments, answer, pack = task.arguments, task.answer, task.pack
        directory = self._export.files.directory(arguments.handle)
        entries = self._listed(directory)
        task.optional_attributes(directory)
        pack_page(pack, entries, arguments, answer)

    def _readdirplus(self, task: _Task) -> None:
        """Give all entries behind the cookie at once: `count` is taken for large enough."""
        files, pack = self._export.files, task.pack
        directory = files.directory(task.arguments.handle)
        entries = self._listed(directory)
        task.optional_attributes(directory)
        pack.pack_fopaque(8, bytes(8))
        for cookie, (name, node) in enumerate(entries, start=1):
            if cookie <= task.arguments.offset:
                continue
            pack.pack_bool(True)
            pack.pack_uhyper(node.fileid)
            pack.pack_string(name.encode(errors="surrogateescape"))
            pack.pack_uhyper(cookie)
            task.optional_attributes(node)
            task.optional_handle(node)
        pack.pack_bool(False)
        pack.pack_bool(True)

    # --- NFS: the file system ---

    def _fsstat(self, task: _Task) -> None:
        task.optional_attributes(self._export.files.node(task.arguments.handle))
        for long in (_SPACE, _SPACE, _SPACE, _SPACE, _SPACE, _SPACE):
            task.pack.pack_uhyper(long)
        task.pack.pack_uint(0)

    def _fsinfo(self, task: _Task) -> None:
        pack, export = task.pack, self._export
        task.optional_attributes(export.files.node(task.arguments.handle))
        for limit in (export.rtmax, export.wtmax):
            for word in (limit, limit, 1):
                pack.pack_uint(word)
        pack.pack_uint(min(export.rtmax, 65536))
        pack.pack_uhyper(1 << 62)
        pack.pack_uint(0)
        pack.pack_uint(1)
        pack.pack_uint(_HOMOGENEOUS_AND_CANSETTIME)

    def _pathconf(self, task: _Task) -> None:
        pack = task.pack
        task.optional_attributes(self._export.files.node(task.arguments.handle))
        for word in (1, NAME_MAX, True, True, False, True):
            pack.pack_uint(word)


# --- what NFSv4.1 has as well ---


def read(
    pack: Packer, file: File, asked: Asked, answer: Answer, most: int, *, nfs4: bool = False
) -> int:
    """Carry READ out, and write its results behind the attributes; give the bytes that it moved."""
    data = file.read(asked.offset, _moves(asked, answer, most))
    moved, end = len(data), asked.offset + len(data)
    if answer.spoil and data:
        data = data[:-1] + bytes([data[-1] ^ 0xFF])
    data += b"\xee" * answer.extra
    if not nfs4:
        pack.pack_uint(len(data) if answer.count is None else answer.count)
    pack.pack_uint(int(end >= len(file.current)) if answer.eof is None else answer.eof)
    pack.pack_uint(len(data) if answer.length is None else answer.length)
    pack.pack_fopaque(len(data), data)
    return moved


def write(file: File, asked: Asked, answer: Answer, most: int) -> tuple[int, int]:
    """Carry WRITE out; give the bytes that it moved, and how it says that they are committed."""
    data = asked.data[: _moves(asked, answer, most)]
    committed = asked.stable if answer.committed is None else answer.committed
    unstable = committed == Stable.UNSTABLE
    file.write(asked.offset, data, Stable.UNSTABLE if unstable else Stable.FILE_SYNC)
    return len(data), committed


def pack_written(pack: Packer, written: tuple[int, int], answer: Answer, files: FileSystem) -> None:
    """Write WRITE's results behind the attributes."""
    moved, committed = written
    pack.pack_uint(moved if answer.count is None else answer.count)
    pack.pack_uint(committed)
    pack_verifier(pack, answer, files)


def pack_verifier(pack: Packer, answer: Answer, files: FileSystem) -> None:
    """Write what WRITE and COMMIT end with."""
    verifier = files.verifier if answer.verifier is None else answer.verifier
    pack.pack_fopaque(VERIFIER_SIZE, verifier)


def _moves(asked: Asked, answer: Answer, most: int) -> int:
    """Give the bytes that a READ or WRITE moves."""
    return min(asked.count, most, asked.count if answer.limit is None else answer.limit)


def pack_page(
    pack: Packer,
    entries: Sequence[tuple[str, Node]],
    asked: Asked,
    answer: Answer,
    *,
    nfs4: bool = False,
) -> None:
    """Write what READDIR gives behind its attributes: cookies are places in `entries`, from 3."""
    most = len(entries) if answer.limit is None else answer.limit
    room = asked.count - _PAGE_ROOM
    first = max(asked.offset - _COOKIE, 0)
    last = first
    pack.pack_fopaque(8, bytes(8))
    for name, node in entries[first : first + most]:
        room -= _ENTRY_ROOM + len(name)
        if room < 0:
            break
        last += 1
        cookie = last + _COOKIE if answer.length is None else answer.length
        pack.pack_bool(True)
        pack.pack_uhyper(cookie if nfs4 else node.fileid)
        pack.pack_string(name.encode(errors="surrogateescape"))
        if nfs4:
            pack.pack_uint(0)  # the bitmap of its attributes, …
            pack.pack_uint(0)  # … and their bytes
        else:
            pack.pack_uhyper(cookie)
    pack.pack_bool(False)
    pack.pack_bool(last >= len(entries) if answer.eof is None else bool(answer.eof))


def _before(node: Node) -> tuple[int, float]:
    return node.size, node.changed
