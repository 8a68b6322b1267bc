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

from servers.rpc import RPCSEC_GSS, xdr
from servers.scripted.files import DIRECTORY, REGULAR, Export, Node
from servers.scripted.protocol import (
    NFS3,
    OPERATIONS,
    Answer,
    Call,
    NfsError,
    Procedure,
    RpcCall,
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
_DIRECTORY_SIZE = 4096
# Of struct arguments.
_TOLD = ("offset", "count", "stable", "wanted", "claim", "sequence", "slot")


@dataclass
class Terms:
    """What the server offers to clients of NFSv4.1, and how strict it is.

    A script may change it at any time, but for `slots` and `delegates`; sessions keep what they
    were granted.
    """

    minors: tuple[int, ...] = (1, 2)  # none: version 4 is PROG_MISMATCH
    slots: int = 64
    delegates: bool = False  # OPEN gives a delegation of reads, whatever was wished
    tells_limits: bool = True  # whether there are maxread and maxwrite
    minor_ids: dict[str, int] = field(default_factory=dict)  # server_owner's, by address; else 0

    # As in struct limits (core/call.h).
    lease: int = 90
    closes_apart: bool = False
    goes_on: bool = False
    zero_id: bool = False
    target: int = 0
    next_session: int = 0
    request_max: int = _MESSAGE
    response_max: int = _MESSAGE


class Kept(NamedTuple):
    """How much of clients there is, and the share access of all opens together."""

    clients: int
    sessions: int
    opens: int  # and delegations
    access: int


_SERVERS = Path(__file__).parents[1]
# Logs a procedure or operation with its arguments, as Call names them; gives the script's answer.
Ask = Callable[..., tuple[Call, Answer]]


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
    """Make a C function of a method: where it returns a status, it may raise NfsError."""
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
        self._export, self._terms = export, terms
        self._raised: BaseException | None = None
        self._ask: Ask
        self._call: Call
        self._answer: Answer
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

        Raises ValueError where these are no arguments.
        """
        self._asked.version, self._asked.procedure = 3, procedure.value
        return self._serve(arguments, ask)

    def compound(self, call: Call, whole: Answer, rpc: RpcCall, ask: Ask) -> bytes:
        """Carry a COMPOUND out likewise, and ask about its operations."""
        source = Unpacker(rpc.arguments)
        tag, minor = source.unpack_opaque(), source.unpack_uint()
        if minor not in self._terms.minors:
            return xdr(Status4.MINOR_VERS_MISMATCH, tag, 0)
        if refusal := whole.refusal():
            return xdr(refusal, tag, 0)
        self._asked.version, self._asked.connection = 4, call.connection
        self._asked.header = rpc.header
        self._asked.address = self._terms.minor_ids.get(call.server[0], 0)
        results = self._serve(rpc.arguments, ask)
        return results if whole.results is None else whole.results

    def _serve(self, arguments: bytes, ask: Ask) -> bytes:
        self._ask, asked = ask, self._asked
        content = self._ffi.from_buffer(arguments)
        asked.arguments, asked.length = content, len(arguments)
        _serving.core = self
        answered = self._library.hooks_answer(self._server, self._limits, asked)
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        if not answered:
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
        for name, _ in self._ffi.typeof("struct limits").fields:
            if hasattr(terms, name):
                setattr(limits, name, getattr(terms, name))
        flavors = self._export.flavors
        told = xdr(len(flavors)) + b"".join(map(_secinfo4, flavors))
        self._flavors = self._ffi.from_buffer(told)
        limits.flavors, limits.flavors_length = self._flavors, len(told)

    # --- calls of NFSv3, and operations of NFSv4.1 (hooks.h) ---

    def _begin(self, number: int) -> int:
        procedures, told = NFS3 if self._asked.version == 3 else OPERATIONS, self._asked.operation
        nodes, name = self._export.nodes, self._name(told.name)
        path = nodes[told.file].below(name) if told.file < len(nodes) else name
        lost = told.status in (Status.STALE, Status.BADHANDLE)
        self._call, self._answer = self._ask(
            procedures[number],
            file="?" if lost else path,
            name=name,
            session=told.session.number,
            **{one: getattr(told, one) for one in _TOLD},
        )
        self._offer()
        unheard = self._answer.unheard()
        return int(self._library.HOOKS_UNHEARD) if unheard else self._answer.refusal()

    def _end(self) -> int:
        asked, results = self._asked, self._answer.results
        room = self._ffi.buffer(self._results)
        if results is not None:
            asked.written, asked.replaced = asked.begun + len(results), True
            room[asked.begun : asked.written] = results
        self._call.status = int.from_bytes(room[asked.begun : asked.begun + 4], "big")
        return self._call.status

    # --- files (core/files.h) ---

    def _file(self, number: int) -> Node:
        return self._export.nodes[number].must_be(REGULAR)

    def _name(self, name: CData) -> str:
        return bytes(self._ffi.buffer(name.bytes, name.length)).decode(errors="surrogateescape")

    def _find(self, handle: CData, length: int, file: CData) -> None:
        file[0] = self._export.node(bytes(self._ffi.buffer(handle, length))).number

    def _tell(self, file: int, handle: CData) -> int:
        told = self._export.nodes[file].handle
        self._ffi.memmove(handle, told, len(told))
        return len(told)

    def _attributes(self, file: int) -> CData:
        node = self._export.nodes[file]
        size = len(node.current) if node.kind == REGULAR else _DIRECTORY_SIZE
        words = {"type": node.kind, "size": size, "file_system": node.fsid}
        return self._ffi.new("struct file_attributes *", words)[0]

    def _set_size(self, file: int, size: int) -> None:
        node = self._export.nodes[file]
        if node.kind == REGULAR:
            node.resize(size)

    def _lookup(self, directory: int, name: CData, file: CData) -> None:
        file[0] = self._export.lookup(self._export.nodes[directory], self._name(name)).number

    def _make(self, directory: int, name: CData, kind: int, guarded: bool, file: CData) -> None:
        where, called = self._export.nodes[directory], self._name(name)
        there = where.children.get(called)
        if there is None or guarded or kind != REGULAR:
            there = self._export.make(kind, where, called)
        file[0] = there.must_be(kind).number

    def _remove(self, directory: int, name: CData) -> None:
        self._export.remove(self._export.nodes[directory], self._name(name))

    def _rename(self, *_: object) -> None:
        raise NfsError(Status.NOTSUPP)

    def _link(self, file: int, directory: int, name: CData) -> None:
        self._export.link(self._file(file), self._export.nodes[directory], self._name(name))

    def _list(self, directory: int, first: int, page: CData) -> None:
        names = list(self._export.nodes[directory].must_be(DIRECTORY).children)
        if self._export.verifies_cookies:
            verifier = zlib.crc32("/".join(names).encode())
            if first and page.verifier != verifier:
                raise NfsError(Status4.NOT_SAME)
            page.verifier = verifier
        answer, room = self._answer, self._asked.operation.count - _PAGE_ROOM
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
        content, eof = self._file(file).current, self._answer.eof
        count = self._moves(read.length, self._export.rtmax)
        data = bytes(memoryview(content)[read.offset : read.offset + count])
        self._call.moved = len(data)
        read.end = read.offset + len(data) >= len(content) if eof is None else eof
        self._data = self._ffi.from_buffer(data)
        read.data, read.length = self._data, len(data)

    def _write(self, file: int, write: CData, data: CData) -> None:
        write.length = self._call.moved = self._moves(write.length, self._export.wtmax)
        content = bytes(self._ffi.buffer(data, write.length))
        self._file(file).write(write.offset, content, durably=write.stable != Stable.UNSTABLE)
        write.verifier = self._verifier()

    def _commit(self, _: CData, file: int, commit: CData) -> None:
        node = self._file(file)
        node.durable[:] = node.current  # whatever range was asked for
        commit.verifier = self._verifier()

    def _moves(self, asked: int, most: int) -> int:
        """Return the bytes that a READ or WRITE moves."""
        return min(asked, most, asked if self._answer.limit is None else self._answer.limit)

    def _verifier(self) -> int:
        told = self._answer.verifier
        return int.from_bytes(self._export.verifier if told is None else told, sys.byteorder)


def _secinfo4(flavor: int) -> bytes:
    if flavor <= _BEFORE_KRB5:
        return xdr(flavor)
    return xdr(RPCSEC_GSS, _KERBEROS, 0, flavor - _BEFORE_KRB5)
