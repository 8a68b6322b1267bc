# SPDX-License-Identifier: GPL-2.0-only
"""The server core in C (servers/core/, hooks.h), by cffi: with these files, and as a script wants.

It reads calls of NFS version 3 and 4.1, carries them out, writes their results, and keeps what
there is of NFSv4.1's clients.
"""

import functools
import os
import re
import secrets
import sys
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cffi import FFI
from xdrlib3 import Unpacker

from servers.rpc import NFS, RPCSEC_GSS, xdr
from servers.scripted.files import (
    REGULAR,
    Directory,
    Export,
    File,
    Node,
    above,
    as_directory,
    as_file,
    path_of,
)
from servers.scripted.protocol import (
    PROGRAMS,
    Arguments,
    Call,
    Claim,
    Nfs,
    Nfs4,
    NfsError,
    Procedure,
    Results,
    Stable,
    Status,
    Status4,
)

CData = Any

_ROOM = 16 << 20  # for results
_MESSAGE = (1 << 20) + 65536
_PAGE_ROOM, _ENTRY_ROOM = 128, 32  # bytes of READDIR's results, and of one entry in them
_KERBEROS = bytes.fromhex("2a864886f712010202")  # 1.2.840.113554.1.2.2
_BEFORE_KRB5 = 390002  # the pseudo flavors of krb5 to krb5p have the service as well
_MAXREAD, _MAXWRITE = 30, 31  # attributes
_OPERATIONS = {one.value: one for one in Nfs4 if one not in (Nfs4.NULL, Nfs4.COMPOUND)}


@dataclass
class Terms:
    """What the server offers to clients of NFSv4.1, and how strict it is.

    A script may change it at any time, but for `slots` and `delegates`; sessions keep what they
    were granted.
    """

    minors: tuple[int, ...] = (1, 2)  # none: version 4 is PROG_MISMATCH
    slots: int = 64
    target: int | None = None  # SEQUENCE's target_highest_slotid; None: the last slot granted
    max_request: int = _MESSAGE
    max_response: int = _MESSAGE
    lease: int = 90  # seconds
    next_session: int | None = None  # EXCHANGE_ID's eir_sequenceid once confirmed; None: the next
    goes_on: bool = False  # whether a compound goes on behind an operation that failed
    current_stateid: bool = True  # whether that of OPEN may be named by those behind it
    tells_limits: bool = True  # whether there are maxread and maxwrite
    zero_id: bool = False  # whether a client has the ID 0; at most one is there then
    delegates: bool = False  # OPEN gives a delegation of reads, whatever was wished
    minor_ids: dict[str, int] = field(default_factory=dict)  # server_owner's, by address; else 0


class Kept(NamedTuple):
    """How much of clients there is, and the share access of all opens together."""

    clients: int
    sessions: int
    opens: int  # and delegations
    access: int


class UnheardError(Exception):
    """The script wants a compound to be as if it had never come."""


_SERVERS = Path(__file__).parents[1]
# Logs a procedure or operation, and gives the script's answer.
Ask = Callable[[Procedure, Arguments], tuple[Call, Results]]


# Of core/clients.h, which has more than cffi reads.
_OF_CLIENTS = """
    uint64_t attributes_all(void);
    void clients_restart(struct clients *clients);
    void clients_forget_sessions(struct clients *clients);
    struct clients_kept {
        uint32_t clients, sessions, opens, access;
    };
    struct clients_kept clients_kept(const struct clients *clients);
"""

_serving = threading.local()  # core: whose call this thread carries out
_loading = threading.Lock()  # the hooks are set once, by the first thread that makes a core


@functools.cache
def _library() -> tuple[FFI, CData]:
    """Return the library, which calls a Core's methods, and what reads its interface's headers."""
    names = ("core/call.h", "core/files.h", "scripted/hooks.h")
    text = "".join((_SERVERS / name).read_text() for name in names)
    text = re.sub(r"(?ms)/\*.*?\*/|^#.*?$|^static inline.*?^}$", "", text)
    text = re.sub(r"FILES\((.*), (\w+)\)", r"extern \1 (*\2)", text)
    ffi = FFI()
    ffi.cdef(text + _OF_CLIENTS)
    build = os.environ.get("NFSMULTI_BUILD_DIR") or _SERVERS.parents[1] / "build"
    library = ffi.dlopen(str(Path(build, "libnfsmulti-hooks.so").resolve()))
    for name in re.findall(r"extern \w.* \(\*(\w+)\)", text):
        hook = _hook(ffi, ffi.typeof(getattr(library, name)), f"_{name.partition('_')[2]}")
        setattr(library, name, hook)
        _hooks.append(hook)
    return ffi, library


_hooks: list[CData] = []  # what C refers to


def _hook(ffi: FFI, kind: CData, method: str) -> CData:
    """Make a C function of a method: where it returns a status, it may raise NfsError.

    One that returns a struct and raises that gives zeros.
    """
    nothing = 0 if kind.result.kind == "primitive" else None

    def call(*arguments: object) -> object:
        return getattr(_serving.core, method)(*arguments) or nothing

    def failed(_: object, error: BaseException, __: object) -> int | None:
        status = error.status if isinstance(error, NfsError) else _serving.core.failed(error)
        return None if nothing is None else status

    return ffi.callback(kind, call, onerror=failed)


class Core:
    """The core of one server."""

    def __init__(self, export: Export, terms: Terms):
        with _loading:
            self._ffi, self._library = _library()
        self._export, self._files, self._terms = export, export.files, terms
        self._top = above(export)
        self._raised: BaseException | None = None
        self._ask: Ask
        self._call: Call
        self._answer: Results
        name, instance = secrets.token_hex(8).encode(), secrets.randbits(31)
        made = self._library.hooks_new(name, instance, terms.delegates, terms.slots)
        self._server = self._ffi.gc(made, self._library.hooks_free)
        self._clients = self._ffi.cast("struct clients *", made)
        self._limits = self._ffi.new("struct limits *")
        self._results = self._ffi.new("uint8_t[]", _ROOM)
        self._asked = self._ffi.new("struct asked *", {"results": self._results, "room": _ROOM})

    def failed(self, error: BaseException) -> int:
        """Keep what a hook has raised for the end of the call; return that call's status."""
        self._raised = self._raised or error
        return Status.SERVERFAULT

    # --- what is there ---

    def restart(self) -> None:
        """Begin another life, and a grace period."""
        self._library.clients_restart(self._clients)

    def end_sessions(self) -> None:
        """Forget all sessions."""
        self._library.clients_forget_sessions(self._clients)

    def kept(self) -> Kept:
        """Return what there is of clients."""
        kept = self._library.clients_kept(self._clients)
        return Kept(kept.clients, kept.sessions, kept.opens, kept.access)

    # --- calls ---

    def nfs3(self, procedure: Procedure, arguments: bytes, ask: Ask) -> bytes:
        """Carry a call of NFSv3 out as far as the script leaves it to us, and give its results.

        Raises UnheardError, and ValueError where these are no arguments.
        """
        self._asked.version, self._asked.procedure = 3, procedure.value
        return self._serve(arguments, ask)

    def compound(
        self, call: Call, whole: Results, arguments: bytes, ask: Ask, header: int
    ) -> bytes:
        """Carry a COMPOUND out likewise, behind so many bytes, and ask about its operations."""
        source = Unpacker(arguments)
        tag, minor = source.unpack_opaque(), source.unpack_uint()
        if minor not in self._terms.minors:
            return xdr(Status4.MINOR_VERS_MISMATCH, tag, 0)
        if refusal := _refusal(whole):
            return xdr(refusal, tag, 0)
        self._asked.version, self._asked.connection = 4, call.connection
        self._asked.header = header
        self._asked.address = self._terms.minor_ids.get(call.server[0], 0)
        results = self._serve(arguments, ask)
        return results if whole.results is None else whole.results

    def _serve(self, arguments: bytes, ask: Ask) -> bytes:
        self._ask, asked, library = ask, self._asked, self._library
        content = self._ffi.new("uint8_t[]", arguments or bytes(1))
        asked.arguments, asked.length = content, len(arguments)
        _serving.core = self
        ended = library.hooks_answer(self._server, self._limits, asked)
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        if ended == library.HOOKED_UNHEARD:
            raise UnheardError
        if ended == library.HOOKED_GARBAGE:
            raise ValueError("these are no arguments, or more than these")
        return bytes(self._ffi.buffer(self._results, asked.written))

    def _offer(self) -> None:
        """Let the core have the terms as they are now."""
        terms, limits, attributes = self._terms, self._limits, self._answer.attributes
        limits.read_max, limits.write_max = self._export.rtmax, self._export.wtmax
        limits.optional = 1 if attributes is None else attributes
        limits.attributes = self._library.attributes_all()
        if not terms.tells_limits:
            limits.attributes &= ~(1 << _MAXREAD | 1 << _MAXWRITE)
        limits.lease, limits.goes_on, limits.zero_id = terms.lease, terms.goes_on, terms.zero_id
        limits.closes_apart = not terms.current_stateid
        limits.request_max, limits.response_max = terms.max_request, terms.max_response
        limits.target = 0 if terms.target is None else terms.target + 1
        limits.next_session = 0 if terms.next_session is None else terms.next_session + 1
        flavors = self._export.flavors
        told = xdr(len(flavors)) + b"".join(map(_secinfo4, flavors))
        self._flavors = self._ffi.from_buffer(told)
        limits.flavors, limits.flavors_length = self._flavors, len(told)

    # --- calls of NFSv3, and operations of NFSv4.1 (hooks.h) ---

    def _begin(self, number: int) -> int:
        operation, told = self._operation(number), self._asked.operation
        if operation is None:
            return 0
        name, lost = self._name(told.name), told.status in (Status.STALE, Status.BADHANDLE)
        asked = Arguments(
            file="?" if lost else path_of(self._node_or_none(told.file), name),
            name=name,
            offset=told.offset,
            count=told.count,
            stable=Stable(told.stable),
            wanted=frozenset(bit for bit in range(64) if told.wanted >> bit & 1),
            claim=Claim(told.claim) if operation is Nfs4.OPEN else None,
            session=told.session.number,
            sequence=told.sequence,
            slot=told.slot,
        )
        try:
            self._call, self._answer = self._ask(operation, asked)
        except UnheardError:
            return int(self._library.HOOKS_UNHEARD)
        self._offer()
        refusal = _refusal(self._answer)
        counts = refusal not in (Status.OK, Status4.DELAY, Status4.STALE_CLIENTID)
        if operation is Nfs4.CREATE_SESSION and self._answer.act and counts:
            return refusal | int(self._library.HOOKS_TAKEN)
        return refusal

    def _end(self, number: int, status: int) -> int:
        operation, asked, answer = self._operation(number), self._asked, self._answer
        if operation is None:
            return status
        room = self._ffi.buffer(self._results)
        results = before = bytes(room[asked.begun : asked.written])
        if operation is Nfs.READ and not status and answer.count is not None:
            results = results[:-12] + xdr(answer.count) + results[-8:]
        if answer.results is not None:
            results, asked.replaced = answer.results, True
        if results != before:
            asked.written = asked.begun + len(results)
            room[asked.begun : asked.written] = results
        self._call.status = int.from_bytes(results[:4], "big")
        return self._call.status

    def _operation(self, number: int) -> Procedure | None:
        return (_OPERATIONS if self._asked.version == 4 else PROGRAMS[NFS][3]).get(number)

    # --- files (core/files.h) ---

    def _node(self, number: int) -> Node:
        node = self._node_or_none(number)
        if node is None:
            raise NfsError(Status.STALE)
        return node

    def _node_or_none(self, number: int) -> Node | None:
        return self._files.nodes.get(number) if number else self._top

    def _directory(self, number: int) -> Directory:
        return as_directory(self._node(number))

    def _name(self, name: CData) -> str:
        return bytes(self._ffi.buffer(name.bytes, name.length)).decode(errors="surrogateescape")

    def _find(self, handle: CData, length: int, file: CData) -> None:
        file[0] = self._files.node(bytes(self._ffi.buffer(handle, length))).fileid

    def _tell(self, file: int, handle: CData) -> int:
        told = self._files.tell(self._node(file))
        self._ffi.memmove(handle, told, len(told))
        return len(told)

    def _attributes(self, file: int) -> CData:
        node = self._node(file)
        words = {"type": node.kind, "size": node.size, "file_system": node.fsid}
        return self._ffi.new("struct file_attributes *", words)[0]

    def _set_size(self, file: int, size: int) -> None:
        node = self._node(file)
        if isinstance(node, File):
            node.resize(size)

    def _lookup(self, directory: int, name: CData, file: CData) -> None:
        file[0] = self._files.lookup(self._directory(directory), self._name(name)).fileid

    def _make(self, directory: int, name: CData, kind: int, guarded: bool, file: CData) -> None:
        where, called = self._directory(directory), self._name(name)
        there = where.children.get(called)
        if there is None or guarded or kind != REGULAR:
            made = File if kind == REGULAR else Directory
            there = self._files.make(made, where, called)
        file[0] = as_file(there).fileid if kind == REGULAR else there.fileid

    def _remove(self, directory: int, name: CData) -> None:
        self._files.remove(self._directory(directory), self._name(name))

    def _rename(self, *_: object) -> None:
        raise NfsError(Status.NOTSUPP)

    def _link(self, file: int, directory: int, name: CData) -> None:
        linked = as_file(self._node(file))
        self._files.link(linked, self._directory(directory), self._name(name))

    def _list(self, directory: int, first: int, page: CData) -> None:
        names, answer = list(self._directory(directory).children), self._answer
        if self._files.verifies_cookies:
            verifier = zlib.crc32("/".join(names).encode())
            if first and page.verifier != verifier:
                raise NfsError(Status4.NOT_SAME)
            page.verifier = verifier
        room = self._asked.operation.count - _PAGE_ROOM
        most = self._library.PAGE_NAMES
        most = most if answer.limit is None else min(answer.limit, most)
        page.count = 0
        for name in names[first : first + most]:
            room -= _ENTRY_ROOM + len(name)
            if room < 0:
                break
            page.names[page.count] = name.encode()
            page.count += 1
        page.end = first + page.count >= len(names) if answer.eof is None else answer.eof
        if answer.cookie is not None:
            page.cookie, page.step = answer.cookie, 0

    def _read(self, _: CData, file: int, read: CData) -> None:
        there, answer = as_file(self._node(file)), self._answer
        data = there.read(read.offset, self._moves(read.length, self._export.rtmax))
        self._call.moved = len(data)
        end = read.offset + len(data) >= there.size
        read.end = end if answer.eof is None else answer.eof
        self._data = data + b"\xee" * answer.extra
        self._buffer = self._ffi.from_buffer(self._data)
        read.data, read.length = self._buffer, len(self._data)

    def _write(self, file: int, write: CData, data: CData) -> None:
        moved = self._call.moved = self._moves(write.length, self._export.wtmax)
        content = bytes(self._ffi.buffer(data, moved))
        as_file(self._node(file)).write(write.offset, content, Stable(write.stable))
        write.length = moved if self._answer.count is None else self._answer.count
        write.verifier = self._verifier()

    def _commit(self, _: CData, file: int, commit: CData) -> None:
        as_file(self._node(file)).commit()
        commit.verifier = self._verifier()

    def _moves(self, asked: int, most: int) -> int:
        """Return the bytes that a READ or WRITE moves."""
        return min(asked, most, asked if self._answer.limit is None else self._answer.limit)

    def _verifier(self) -> int:
        told = self._answer.verifier
        return int.from_bytes(self._files.verifier if told is None else told, sys.byteorder)


def _refusal(answer: Results) -> int:
    """Return the status that a call has because it is not carried out, or 0."""
    return answer.status or (Status.OK if answer.act else Status.SERVERFAULT)


def _secinfo4(flavor: int) -> bytes:
    if flavor <= _BEFORE_KRB5:
        return xdr(flavor)
    return xdr(RPCSEC_GSS, _KERBEROS, 0, flavor - _BEFORE_KRB5)
