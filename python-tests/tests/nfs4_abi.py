# SPDX-License-Identifier: GPL-2.0-only
"""The C interface of nfs4.h for tests: mirrors of structures, thin wrappers."""

from __future__ import annotations

import ctypes as c
from enum import IntEnum
from typing import Any, NamedTuple, Self

from codec_abi import FH4_SIZE, Cursor, Handle, declare, flags, hypers, read, words, written

OPAQUE_MAX = 1024
_SESSION, _STATEID, _VERIFIER = c.c_uint8 * 16, c.c_uint8 * 16, c.c_uint8 * 8


class Op(IntEnum):
    """enum nfs4_operation."""

    CLOSE = 4
    COMMIT = 5
    CREATE = 6
    DELEGRETURN = 8
    GETATTR = 9
    GETFH = 10
    LOOKUP = 15
    OPEN = 18
    PUTFH = 22
    PUTROOTFH = 24
    READ = 25
    REMOVE = 28
    WRITE = 38
    BIND_CONN_TO_SESSION = 41
    EXCHANGE_ID = 42
    CREATE_SESSION = 43
    DESTROY_SESSION = 44
    SEQUENCE = 53
    DESTROY_CLIENTID = 57
    RECLAIM_COMPLETE = 58
    ILLEGAL = 10044


class Stateid(c.Structure):
    """struct nfs4_stateid."""

    _fields_ = (("bytes", _STATEID),)

    @classmethod
    def of(cls, stateid: bytes) -> Self:
        """Return a stateid."""
        return cls(_STATEID(*stateid))


class Sequence(c.Structure):
    """struct nfs4_sequence."""

    _fields_ = (
        ("session", _SESSION), *words("sequence", "slot", "highest_slot"), *flags("cache"),
    )  # fmt: skip

    @classmethod
    def of(cls, session: bytes, *numbers: int) -> Self:
        """Return SEQUENCE's arguments."""
        return cls(_SESSION(*session), *numbers)


class Range(c.Structure):
    """struct nfs4_range."""

    _fields_ = (*hypers("offset"), *words("length", "stable"), ("stateid", c.c_void_p))


class Template(c.Structure):
    """struct nfs4_template."""

    _fields_ = (("operation", c.c_int), *words("length"), ("bytes", c.c_uint8 * (92 + FH4_SIZE)))


class Open(c.Structure):
    """struct nfs4_open."""

    _fields_ = (
        *hypers("client"), ("owner", c.c_char_p), *words("owner_length"), ("access", c.c_int),
        *flags("create"), *words("mode"), ("claim", c.c_int), ("name", c.c_char_p),
    )  # fmt: skip


class Channel(c.Structure):
    """struct nfs4_channel."""

    _fields_ = words("request_max", "response_max", "cached_max", "operations_max", "slots")


class Compound(c.Structure):
    """struct nfs4_compound."""

    _fields_ = (("out", c.POINTER(Cursor)), ("count_at", c.c_void_p), ("count", c.c_uint32))


class Results(c.Structure):
    """struct nfs4_results."""

    _fields_ = (
        ("in_", c.POINTER(Cursor)), *words("status", "left"), *flags("broken"),
    )  # fmt: skip


class SequenceResult(c.Structure):
    """struct nfs4_sequence_result."""

    _fields_ = words("sequence", "slot", "highest_slot", "target_highest_slot")


class Attributes(c.Structure):
    """struct nfs4_attributes."""

    _fields_ = (
        *words("type"), *hypers("size"), *words("lease_time"), *hypers("read_max", "write_max"),
        ("fsid", c.c_uint64 * 2), *hypers("fileid", "told"), ("space", c.c_uint64 * 3),
        ("files", c.c_uint64 * 3),
    )  # fmt: skip


class DataResult(c.Structure):
    """struct nfs4_data_result."""

    _fields_ = (*words("count"), *flags("eof"), *words("committed"), ("verifier", _VERIFIER))


class OpenResult(c.Structure):
    """struct nfs4_open_result."""

    _fields_ = (("stateid", Stateid), *flags("delegated"), ("delegation", Stateid))


class Server(c.Structure):
    """struct nfs4_server."""

    _fields_ = (
        *hypers("minor"), *words("major_length", "scope_length"),
        ("major", c.c_uint8 * OPAQUE_MAX), ("scope", c.c_uint8 * OPAQUE_MAX),
    )  # fmt: skip


class ExchangeResult(c.Structure):
    """struct nfs4_exchange_result."""

    _fields_ = (*hypers("client"), *words("sequence", "flags"), ("server", Server))


class SessionResult(c.Structure):
    """struct nfs4_session_result."""

    _fields_ = (("session", _SESSION), ("fore", Channel))


# What reads a result's body, and into what; nfs4_skip_result() goes over the others.
_GETTERS: dict[Op, tuple[str, type[c.Structure]]] = {
    Op.SEQUENCE: ("get_sequence", SequenceResult),
    Op.GETFH: ("get_handle", Handle),
    Op.GETATTR: ("get_attributes", Attributes),
    Op.READ: ("get_read", DataResult),
    Op.WRITE: ("get_write", DataResult),
    Op.COMMIT: ("get_commit", DataResult),
    Op.OPEN: ("get_open", OpenResult),
    Op.EXCHANGE_ID: ("get_exchange_id", ExchangeResult),
    Op.CREATE_SESSION: ("get_create_session", SessionResult),
}


class Reading(NamedTuple):
    """What a reply says: `statuses` and `bodies` in the order of the operations."""

    more: bool  # bytes are needed
    broken: bool
    left: int
    statuses: list[int]
    bodies: list[c.Structure | None]
    used: int

    @property
    def sound(self) -> bool:
        """nfs4_results_sound(), of a whole reply."""
        return not self.more and not self.broken and not self.left


def fields(structure: c.Structure) -> dict[str, Any]:
    """Return a structure's members, arrays as bytes."""
    members = {field[0]: getattr(structure, field[0]) for field in structure._fields_}
    return {name: _plain(value) for name, value in members.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, c.Structure):
        return fields(value)
    return bytes(value) if isinstance(value, c.Array) else value


class Nfs4Library:
    """Calls of nfs4.h."""

    def __init__(self, lib: c.CDLL) -> None:
        self.lib = lib
        compound, results = c.POINTER(Compound), c.POINTER(Results)
        number, hyper, text = c.c_uint32, c.c_uint64, c.c_char_p
        self._declare("begin", None, compound, c.POINTER(Cursor), number)
        self._declare("put_open", None, compound, c.POINTER(Open))
        self._declare("put_exchange_id", None, compound, text, text, number)
        self._declare("put_create_session", None, compound, hyper, number, c.POINTER(Channel))
        template, named = c.POINTER(Template), (c.POINTER(Handle), c.POINTER(Stateid))
        self._declare("template_make", None, template, c.c_int, number, *named)
        call = c.POINTER(Cursor), c.POINTER(Sequence), c.POINTER(Range)
        self._declare("template_put", None, template, *call)
        self._declare("read_results", None, results, c.POINTER(Cursor))
        self._declare("next_result", number, results, c.c_int)
        self._declare("skip_result", number, results, c.c_int)
        for getter, kind in _GETTERS.values():
            self._declare(getter, None, results, c.POINTER(kind))
        self._declare("errno", c.c_int, number)
        self._declare("status_name", text, number)
        self._declare("operation_name", text, c.c_int)

    def _declare(self, name: str, result: Any, *arguments: Any) -> None:
        declare(self.lib, f"nfs4_{name}", result, *arguments)

    def compound(self, minor: int, name: str, *arguments: Any, room: int) -> bytes | None:
        """Return a compound of one operation; None where there is no room for it."""
        compound = Compound()

        def put(out: Cursor) -> None:
            self.lib.nfs4_begin(compound, out, minor)
            getattr(self.lib, f"nfs4_put_{name}")(compound, *arguments)

        return written(room, put)

    def template(self, operation: Op, minor: int, handle: Handle, stateid: Stateid) -> Template:
        """Return the template of a file's READ, WRITE or COMMIT."""
        template = Template()
        self.lib.nfs4_template_make(template, operation, minor, handle, stateid)
        return template

    def call(
        self, template: Template, sequence: Sequence, span: Range, room: int = 4096
    ) -> bytes | None:
        """Return a call made of a template; None where there is no room for it."""
        put = self.lib.nfs4_template_put
        return written(room, lambda out: put(template, out, sequence, span))

    def read(self, reply: bytes, *operations: Op) -> Reading:
        """Read a reply's results, into structures full of rubbish."""
        results, statuses, bodies = Results(), [], []

        def get(source: Cursor) -> None:
            self.lib.nfs4_read_results(results, source)
            for operation in operations:
                how = "next" if operation in _GETTERS else "skip"
                statuses.append(getattr(self.lib, f"nfs4_{how}_result")(results, operation))
                if statuses[-1]:
                    return
                bodies.append(self._body(results, operation))

        used, more = read(reply, get)
        how = (more, results.broken, results.left)
        return Reading(*how, statuses, bodies, used)

    def _body(self, results: Results, operation: Op) -> c.Structure | None:
        if operation not in _GETTERS:
            return None
        getter, kind = _GETTERS[operation]
        body = kind()
        c.memset(c.addressof(body), 0xA5, c.sizeof(body))
        getattr(self.lib, f"nfs4_{getter}")(results, body)
        return body
