# SPDX-License-Identifier: GPL-2.0-only
"""The engine's C for tests: its own headers, as cffi reads them, and memory that is watched."""

import re
import subprocess
from collections.abc import Callable
from itertools import count, takewhile
from typing import Any

from cffi import FFI

from nfsmulti.paths import ROOT

CData = Any  # cffi's objects: structures, pointers, and a library with its functions

_HEADERS = (
    "group/hold.h", "nfs/nfs3.h", "nfs/nfs4_meta.h", "nfs/status.h", "pool/pool.h",
    "pool/spread.h", "stats/arrivals.h", "stats/counters.h",
    "terms/terms.h", "transport/portion.h", "wire/krb5_token.h", "wire/message.h", "wire/record.h",
    "wire/rpcrdma.h",
)  # fmt: skip
# Of the system's headers, what those name.
_SYSTEM = """
typedef unsigned int socklen_t;
struct sockaddr_storage { unsigned short ss_family; uint8_t rest[118]; unsigned long align; };
struct iovec { void *iov_base; size_t iov_len; };
"""


def _with_included(header: str, seen: set[str]) -> str:
    """Return a header's text behind those that it includes, each of them once."""
    if header in seen:
        return ""
    seen.add(header)
    text = (ROOT / "engine" / header).read_text()
    included = re.findall(r'^#include "(.*)"', text, re.MULTILINE)
    return "".join(_with_included(one, seen) for one in included) + text


def _declarations() -> str:
    """Return the headers in the C that cffi reads: macros expanded, no bodies of functions."""
    seen: set[str] = set()
    text = _SYSTEM + "".join(_with_included(header, seen) for header in _HEADERS)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).replace("\\\n", "")
    number = re.compile(r'^#define (\w+)[ \t]+((?!UINT64_MAX|").*)$', re.MULTILINE)
    text = number.sub(r"enum { \1 = \2 };", text)
    text = re.sub(r"^#(include|pragma).*", "", text, flags=re.MULTILINE)
    text = subprocess.run(
        ["/usr/bin/cc", "-E", "-P", "-"], input=text, capture_output=True, text=True, check=True
    ).stdout
    text = re.sub(r" __attribute__\(\(.*\)\)", "", text)
    body = re.compile(r"^(?:static )?inline ([^;{}]*)\n\{\n.*?^\}", re.MULTILINE | re.DOTALL)
    return body.sub(r"\1;", text)


ffi = FFI()
ffi.cdef(_declarations())
CONSTANTS: CData = ffi.dlopen(None)  # by their names in C

_CANARY = b"\xa5" * 64


def zeros(kind: str) -> CData:
    """Return a structure, all zeros."""
    return ffi.new(f"struct {kind} *")


def rubbish(kind: str) -> CData:
    """Return a structure full of what nobody has written."""
    made = zeros(kind)
    ffi.buffer(made)[:] = b"\xa5" * ffi.sizeof(made[0])
    return made


def text(string: CData) -> str:
    """Return a C string; a file's name may have any bytes."""
    return bytes(ffi.string(string)).decode(errors="surrogateescape")


def value(data: CData) -> Any:
    """Return a structure as a dict of its members, an array as bytes, a number as it is."""
    if not isinstance(data, ffi.CData):
        return data
    kind = ffi.typeof(data)
    if kind.kind == "struct":
        return {name: value(getattr(data, name)) for name, _ in kind.fields}
    return bytes(ffi.buffer(data))


def terms_rows(lib: CData) -> list[CData]:
    rows = takewhile(lambda term: term.word, (lib.terms_table[i] for i in count()))
    return list(rows)


class Guarded:
    """Memory between two canaries."""

    def __init__(self, size: int, content: bytes = b""):
        self.size = size
        self._memory = ffi.new("uint8_t[]", _CANARY + content.ljust(size, b"\0") + _CANARY)
        self.at = self._memory + len(_CANARY)
        self.end = self.at + size

    @property
    def intact(self) -> bool:
        whole = bytes(ffi.buffer(self._memory))
        return whole.startswith(_CANARY) and whole.endswith(_CANARY + b"\0")

    @property
    def content(self) -> bytes:
        return bytes(ffi.buffer(self.at, self.size))

    def cursor(self, kind: str) -> CData:
        return ffi.new(f"struct {kind} *", [self.at, self.end])

    def used(self, cursor: CData) -> int:
        """Return how far a cursor has come."""
        assert self.at <= cursor.at <= self.end
        return int(cursor.at - self.at)


def written(room: int, put: Callable[[CData], object]) -> bytes | None:
    """Return what a function puts into so much room; None where it does not fit."""
    memory = Guarded(room)
    out = memory.cursor("xdr_out")
    put(out)
    assert memory.intact
    return None if out.bad else memory.content[: memory.used(out)]


def read(data: bytes, get: Callable[[CData], object]) -> tuple[int, int]:
    """Let a function read the data; gives the bytes used, and what is wrong (enum xdr_flaw)."""
    memory = Guarded(len(data), data)
    source = memory.cursor("xdr_in")
    get(source)
    assert memory.intact
    assert memory.content == data
    return memory.used(source), source.bad


def text_of(size: int, put: Callable[[CData, int], object]) -> str:
    """Return the text that a function puts at an address, into so much room."""
    memory = Guarded(size)
    put(ffi.cast("char *", memory.at), size)
    assert memory.intact
    assert b"\0" in memory.content
    return memory.content.split(b"\0")[0].decode()


def name_of(enum: str, number: int) -> str:
    return str(ffi.string(ffi.cast(f"enum {enum}", number)))
