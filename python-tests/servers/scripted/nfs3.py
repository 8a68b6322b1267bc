# SPDX-License-Identifier: GPL-2.0-only
"""The procedures of MOUNT and NFS version 3 (RFC 1813), carried out; each gives its results."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence

from servers.rpc import Fixed, Hyper, xdr
from servers.scripted.call import Arguments, Results
from servers.scripted.files import Directory, Export, File, FileSystem, Node, as_directory, as_file
from servers.scripted.protocol import (
    VERIFIER_SIZE,
    Credentials,
    Mount,
    Nfs,
    Nfs4,
    NfsError,
    Procedure,
    Stable,
    Status,
)

ACCESS_ALL = 0x3F
_HOMOGENEOUS_AND_CANSETTIME = 0x18
FILE_SIZE_MAX = 1 << 62
_PAGE_ROOM, _ENTRY_ROOM = 128, 32  # bytes of READDIR's results, and of one entry in them
_COOKIE = 2  # no cookie is that low (RFC 8881, 18.23.3)

_NO_STATUS = (Nfs.NULL, Nfs4.NULL, Mount.NULL, Mount.UMNT)

# How many optional attributes (post_op_attr, pre_op_attr) stand in results that are no success.
_ATTRIBUTES_OF_FAILURE: dict[Procedure, int] = {
    Mount.MNT: 0,
    Nfs.GETATTR: 0,
    Nfs.LOOKUP: 1,
    Nfs.ACCESS: 1,
    Nfs.READ: 1,
    Nfs.READDIR: 1,
    Nfs.FSSTAT: 1,
    Nfs.FSINFO: 1,
    Nfs.LINK: 3,
}
_WCC_DATA = 2


class Task:
    """One call that is being carried out; `moved` are the bytes that READ or WRITE moved."""

    def __init__(
        self, export: Export, arguments: Arguments, answer: Results, caller: Credentials
    ) -> None:
        self.export, self._files = export, export.files
        self._arguments, self._answer, self._caller = arguments, answer, caller
        self._flag = 1 if answer.attributes is None else answer.attributes
        self.moved = 0

    def run(self, procedure: Procedure) -> bytes:
        """Carry it out as far as the answer leaves it to us, and give its results."""
        answer = self._answer
        if answer.results is not None and not answer.act:
            return answer.results
        results = self._run(procedure)
        return results if answer.results is None else answer.results

    def _run(self, procedure: Procedure) -> bytes:
        """Call the method of the procedure's name, if there is one."""
        work: Callable[[], bytes] | None = getattr(self, f"_{procedure.name.lower()}", None)
        if procedure in _NO_STATUS:
            return work() if work else b""
        try:
            if self._answer.status:
                raise NfsError(self._answer.status)
            if not self._answer.act:
                raise NfsError(Status.SERVERFAULT)
            if work is None:
                raise NfsError(Status.NOTSUPP)
            return xdr(Status.OK) + work()
        except NfsError as error:
            return xdr(error.status) + bytes(4 * _ATTRIBUTES_OF_FAILURE.get(procedure, _WCC_DATA))

    # --- MOUNT ---

    def _mnt(self) -> bytes:
        """Return the export, or a directory below it."""
        path = self._arguments.name
        below = path.removeprefix(self.export.path)
        if below == path or below[:1] not in ("", "/"):
            raise NfsError(Status.NOENT)
        root, flavors = as_directory(self._files.find(below)), self.export.flavors
        return xdr(root.handle, len(flavors), *flavors)

    # --- attributes ---

    def _fattr3(self, node: Node) -> bytes:
        longs = (node.size, node.size, 0, node.fsid, node.fileid)
        times = 3 * nfstime(node.changed)
        return xdr(node.kind, node.mode, 1, node.uid, node.gid, *map(Hyper, longs), *times)

    def _post(self, node: Node) -> bytes:
        """Return post_op_attr."""
        return xdr(self._flag) + (self._fattr3(node) if self._flag else b"")

    def _wcc(self, node: Node, before: bytes) -> bytes:
        """Return wcc_data: what was before, and what is now."""
        return xdr(self._flag) + (before if self._flag else b"") + self._post(node)

    def _getattr(self) -> bytes:
        return self._fattr3(self._files.node(self._arguments.handle))

    def _setattr(self) -> bytes:
        node = self._files.node(self._arguments.handle)
        before = _before(node)
        node.set(self._arguments.settable)
        return self._wcc(node, before)

    def _access(self) -> bytes:
        node = self._files.node(self._arguments.handle)
        return self._post(node) + xdr(self._arguments.count & ACCESS_ALL)

    def _fsinfo(self) -> bytes:
        root = self._post(self._files.node(self._arguments.handle))
        rtmax, wtmax = self.export.rtmax, self.export.wtmax
        words = (rtmax, rtmax, 1, wtmax, wtmax, 1, min(rtmax, 65536))
        return root + xdr(*words, Hyper(FILE_SIZE_MAX), 0, 1, _HOMOGENEOUS_AND_CANSETTIME)

    # --- data ---

    def _read(self) -> bytes:
        file = self._files.file(self._arguments.handle)
        self.moved, count, rest = read(file, self._arguments, self._answer, self.export.rtmax)
        return self._post(file) + xdr(count) + rest

    def _write(self) -> bytes:
        file = self._files.file(self._arguments.handle)
        before = _before(file)
        self.moved, results = write(file, self._arguments, self._answer, self.export)
        return self._wcc(file, before) + results

    def _commit(self) -> bytes:
        file = self._files.file(self._arguments.handle)
        before = _before(file)
        file.commit(self._arguments.offset, self._arguments.count)
        return self._wcc(file, before) + xdr(verifier(self._answer, self._files))

    # --- names ---

    def _directory(self) -> tuple[Directory, bytes]:
        """Return the directory that the call is about, and what it is before it changes."""
        directory = self._files.directory(self._arguments.handle)
        return directory, _before(directory)

    def _lookup(self) -> bytes:
        directory, _ = self._directory()
        node = self._files.lookup(directory, self._arguments.name)
        return xdr(self._files.tell(node)) + self._post(node) + self._post(directory)

    def _create(self) -> bytes:
        directory, before = self._directory()
        creation = self._arguments.creation
        assert creation is not None
        made = self._files.create_as(directory, self._arguments.name, self._caller, creation)
        return self._made(made) + self._wcc(directory, before)

    def _mkdir(self) -> bytes:
        directory, before = self._directory()
        name, wanted = self._arguments.name, self._arguments.settable
        made = self._files.make_directory(directory, name, self._caller, wanted)
        return self._made(made) + self._wcc(directory, before)

    def _made(self, node: Node) -> bytes:
        return xdr(True, self._files.tell(node)) + self._post(node)

    def _remove(self) -> bytes:
        return self._unlink(as_file)

    def _rmdir(self) -> bytes:
        return self._unlink(as_directory)

    def _unlink(self, checked: Callable[[Node], Node]) -> bytes:
        directory, before = self._directory()
        checked(self._files.lookup(directory, self._arguments.name))
        self._files.remove(directory, self._arguments.name)
        return self._wcc(directory, before)

    def _link(self) -> bytes:
        file = self._files.file(self._arguments.handle)
        directory = self._files.directory(self._arguments.to_handle)
        before = _before(directory)
        self._files.link(file, directory, self._arguments.to_name)
        return self._post(file) + self._wcc(directory, before)

    def _readdir(self) -> bytes:
        directory, _ = self._directory()
        above = self._files.lookup(directory, "..")
        entries = [(".", directory), ("..", above), *directory.children.items()]
        cookies = cookie_verifier(directory, self._files, self._arguments, Status.BAD_COOKIE)
        return self._post(directory) + page(entries, self._arguments, self._answer, cookies)


# --- what NFSv4.1 has as well ---


def read(file: File, asked: Arguments, answer: Results, most: int) -> tuple[int, int, bytes]:
    """Carry READ out; give the bytes that it moved, the count to tell, and eof and the data."""
    data = file.read(asked.offset, _moves(asked, answer, most))
    moved, end = len(data), asked.offset + len(data)
    if answer.spoil and data:
        data = data[:-1] + bytes([data[-1] ^ 0xFF])
    data += b"\xee" * answer.extra
    eof = int(end >= file.size) if answer.eof is None else answer.eof
    length = len(data) if answer.length is None else answer.length
    count = len(data) if answer.count is None else answer.count
    return moved, count, xdr(eof, length, Fixed(data))


def write(file: File, asked: Arguments, answer: Results, export: Export) -> tuple[int, bytes]:
    """Carry WRITE out; give the bytes that it moved, and its results behind the attributes."""
    data = asked.data[: _moves(asked, answer, export.wtmax)]
    committed = asked.stable if answer.committed is None else answer.committed
    unstable = committed == Stable.UNSTABLE
    file.write(asked.offset, data, Stable.UNSTABLE if unstable else Stable.FILE_SYNC)
    count = len(data) if answer.count is None else answer.count
    return len(data), xdr(count, committed, verifier(answer, export.files))


def verifier(answer: Results, files: FileSystem) -> Fixed:
    """Return what WRITE and COMMIT end with."""
    return Fixed(files.verifier if answer.verifier is None else answer.verifier)


def _moves(asked: Arguments, answer: Results, most: int) -> int:
    """Return the bytes that a READ or WRITE moves."""
    return min(asked.count, most, asked.count if answer.limit is None else answer.limit)


def cookie_verifier(
    directory: Directory, files: FileSystem, asked: Arguments, refusal: int
) -> bytes:
    """Return that of READDIR's cookies, and refuse those of another one."""
    names = "/".join(directory.children).encode() if files.verifies_cookies else b""
    now = zlib.crc32(names).to_bytes(VERIFIER_SIZE, "big")
    if asked.offset and asked.verifier != now:
        raise NfsError(refusal)
    return now


def page(
    entries: Sequence[tuple[str, Node]],
    asked: Arguments,
    answer: Results,
    cookies: bytes,
    *,
    nfs4: bool = False,
) -> bytes:
    """Return READDIR's results behind its attributes: cookies are places in `entries`, from 3."""
    most = len(entries) if answer.limit is None else answer.limit
    room = asked.count - _PAGE_ROOM
    first = max(asked.offset - _COOKIE, 0)
    last, results = first, cookies
    for name, node in entries[first : first + most]:
        room -= _ENTRY_ROOM + len(name)
        if room < 0:
            break
        last += 1
        cookie = Hyper(last + _COOKIE if answer.length is None else answer.length)
        if nfs4:
            results += xdr(True, cookie, name, 0, b"")  # no attributes
        else:
            results += xdr(True, Hyper(node.fileid), name, cookie)
    return results + xdr(False, last >= len(entries) if answer.eof is None else bool(answer.eof))


def nfstime(seconds: float) -> tuple[int, int]:
    """Return whole seconds, and the nanoseconds."""
    fraction, whole = math.modf(seconds)
    return int(whole), int(fraction * 1e9)


def _before(node: Node) -> bytes:
    """Return wcc_attr."""
    return xdr(Hyper(node.size), *2 * nfstime(node.changed))
