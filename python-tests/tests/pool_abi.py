# SPDX-License-Identifier: GPL-2.0-only
"""The C interface of pool.h and spread.h for tests: mirrors of its structures, thin wrappers."""

import ctypes as c
import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from codec_abi import declare, hypers, words

PATHS_MAX = 1024
ARG_SOFT, ARG_PROTO, ARG_LOCALADDR, ARG_VERSION = 1 << 7, 1 << 0, 1 << 8, 1 << 12
ARG_NUMBERS = {
    "port": 1 << 1,
    "mountport": 1 << 2,
    "rsize": 1 << 3,
    "wsize": 1 << 4,
    "timeo": 1 << 5,
    "retrans": 1 << 6,
    "uid": 1 << 9,
    "gid": 1 << 10,
    "rdmaport": 1 << 11,
}
VERSION_WORDS = ("3", "4.1", "4.2")  # by the minor version
PROTO_WORDS = {
    (0, socket.AF_UNSPEC): "tcp",
    (0, socket.AF_INET6): "tcp6",
    (1, socket.AF_UNSPEC): "rdma",
    (1, socket.AF_INET6): "rdma6",
}

Argument = int | bool | str


class PoolError(c.Structure):
    """struct pool_error."""

    _fields_ = (("column", c.c_size_t), ("reason", c.c_char * 240))


class PathArgs(c.Structure):
    """struct path_args."""

    _fields_ = (
        *words("set", "minor"), ("proto", c.c_int), ("family", c.c_int),
        *words("port", "mountport", "rdmaport", "rsize", "wsize", "timeo", "retrans"),
        ("soft", c.c_bool), ("localaddr", c.c_char_p), *words("uid", "gid"),
    )  # fmt: skip


class SockaddrStorage(c.Structure):
    """The system's struct sockaddr_storage, of which the tests read IPv4 and IPv6 addresses."""

    _fields_ = (("family", c.c_ushort), ("rest", c.c_ubyte * 118), ("_align", c.c_ulong))

    def address(self) -> str:
        """Return the numeric address, or "" where there is none."""
        if self.family == socket.AF_INET6:
            return socket.inet_ntop(socket.AF_INET6, bytes(self.rest[6:22]))
        if self.family == socket.AF_INET:
            return socket.inet_ntop(socket.AF_INET, bytes(self.rest[2:6]))
        return ""

    def put(self, address: str) -> None:
        """Hold this numeric address, with port 0."""
        self.family = socket.AF_INET6 if ":" in address else socket.AF_INET
        binary = socket.inet_pton(self.family, address)
        start = 6 if ":" in address else 2
        self.rest[start : start + len(binary)] = binary


class PoolPath(c.Structure):
    """struct pool_path."""

    _fields_ = (
        ("kind", c.c_int), ("dir", c.c_char_p), ("host", c.c_char_p), ("export", c.c_char_p),
        ("args", PathArgs), ("addr", SockaddrStorage), *words("addr_len"), ("label", c.c_char_p),
        ("column", c.c_size_t),
    )  # fmt: skip


class Pool(c.Structure):
    """struct pool."""

    _fields_ = (("paths", c.POINTER(PoolPath)), *words("count"))


class SpreadPiece(c.Structure):
    """struct spread_piece."""

    _fields_ = (*hypers("offset"), *words("length", "connection"))


class Spread(c.Structure):
    """struct spread."""

    _fields_ = (
        ("policy", c.c_int), *words("first", "step", "count"), *hypers("stripe_size"),
        *words("next"), ("load", c.c_void_p),
    )  # fmt: skip


JOB, ROUNDROBIN, QUEUE, STRIPE = range(4)

RESOLVER = c.CFUNCTYPE(
    c.c_int, c.c_char_p, c.c_int, c.POINTER(SockaddrStorage), c.c_uint, c.POINTER(c.c_char),
    c.c_size_t,
)  # fmt: skip

Resolve = Callable[[str, int], list[str]]
"""Gives the addresses of a host, or raises OSError."""


@dataclass(frozen=True)
class Path:
    """A struct pool_path as Python has it; of the arguments only those that are set."""

    kind: str
    label: str
    dir: str | None = None
    host: str | None = None
    export: str | None = None
    args: dict[str, Argument] = field(default_factory=dict)
    address: str = ""
    column: int = field(default=0, compare=False)


class PoolRefused(Exception):  # noqa: N818 - the pool is refused; nothing went wrong
    """A pool or a name was refused."""

    def __init__(self, code: int, column: int, reason: str) -> None:
        super().__init__(f"{errno.errorcode[code]}: column {column}: {reason}")
        self.code, self.column, self.reason = code, column, reason


def _text(value: bytes | None) -> str | None:
    return None if value is None else os.fsdecode(value)


def _arguments(args: PathArgs) -> dict[str, Argument]:
    found: dict[str, Argument] = {
        word: getattr(args, word) for word, bit in ARG_NUMBERS.items() if args.set & bit
    }
    if args.set & ARG_VERSION:
        found["version"] = VERSION_WORDS[args.minor]
    if args.set & ARG_PROTO:
        found["proto"] = PROTO_WORDS[args.proto, args.family]
    if args.set & ARG_SOFT:
        found["soft"] = args.soft
    if args.set & ARG_LOCALADDR:
        found["localaddr"] = os.fsdecode(args.localaddr)
    return found


def _path(path: PoolPath) -> Path:
    assert path.addr_len == {0: 0, socket.AF_INET: 16, socket.AF_INET6: 28}[path.addr.family]
    return Path(
        kind=("mount", "nfs")[path.kind],
        label=os.fsdecode(path.label),
        dir=_text(path.dir),
        host=_text(path.host),
        export=_text(path.export),
        args=_arguments(path.args),
        address=path.addr.address(),
        column=path.column,
    )


class PoolLibrary:
    """Calls of pool.h. A refusal is raised as PoolRefused, once it left nothing behind."""

    def __init__(self, lib: c.CDLL) -> None:
        self.lib = lib
        pool, error, text = c.POINTER(Pool), c.POINTER(PoolError), c.c_char_p
        relative = c.POINTER(c.c_void_p)
        declare(lib, "pool_parse", c.c_int, text, pool, error)
        declare(lib, "pool_is_name", c.c_bool, text)
        declare(lib, "pool_by_name", c.c_int, text, text, pool, error)
        declare(lib, "pool_by_file", c.c_int, text, text, pool, relative, error)
        declare(lib, "pool_resolve", c.c_int, pool, RESOLVER, error)
        declare(lib, "pool_relative_name", c.c_int, pool, text, relative, error)
        declare(lib, "pool_free", None, pool)

    def is_name(self, text: str) -> bool:
        """pool_is_name()."""
        return bool(self.lib.pool_is_name(os.fsencode(text)))

    def parse(self, text: str | bytes) -> list[Path]:
        """pool_parse()."""
        with self._pool(self.lib.pool_parse, text) as pool:
            return self._paths(pool)

    def by_name(self, env: str | bytes, name: str) -> list[Path]:
        """pool_by_name()."""
        with self._pool(self.lib.pool_by_name, env, name) as pool:
            return self._paths(pool)

    def by_file(self, env: str | bytes, file: str) -> tuple[list[Path], str]:
        """pool_by_file(): the paths, and the file's name relative to them."""
        name, rest = c.create_string_buffer(os.fsencode(file)), c.c_void_p()

        def find(env: bytes, pool: Pool, err: PoolError) -> int:
            return int(self.lib.pool_by_file(env, name, pool, rest, err))

        with self._pool(find, env) as pool:
            return self._paths(pool), self._inside(name, rest)

    def relative_name(self, pool_text: str, file: str) -> str:
        """pool_relative_name() with a pool that is parsed first."""
        with self._pool(self.lib.pool_parse, pool_text) as pool:
            err, rest = PoolError(), c.c_void_p()
            name = c.create_string_buffer(os.fsencode(file))
            self._check(self.lib.pool_relative_name(pool, name, rest, err), err)
            return self._inside(name, rest)

    def resolve(self, text: str, resolve: Resolve) -> list[Path]:
        """pool_resolve() of a pool that is parsed first; a failure must leave it as it was."""

        @RESOLVER
        def call(host, family, addrs, most, why, why_size):  # type: ignore[no-untyped-def]
            try:
                found = resolve(os.fsdecode(host), family)
            except OSError as error:
                c.memmove(why, os.fsencode(str(error.strerror))[: why_size - 1] + b"\0", why_size)
                return -(error.errno or errno.EIO)
            for i, address in enumerate(found[:most]):
                addrs[i].put(address)
            return min(len(found), most)

        with self._pool(self.lib.pool_parse, text) as pool:
            before, err = self._paths(pool), PoolError()
            code = self.lib.pool_resolve(pool, call, err)
            if code:
                assert self._paths(pool) == before
            self._check(code, err)
            return self._paths(pool)

    @contextmanager
    def _pool(self, find: Callable[..., int], *texts: str | bytes) -> Iterator[Pool]:
        """Yield the pool that a function finds by these texts."""
        pool, err = Pool(), PoolError()
        code = find(*map(os.fsencode, texts), pool, err)
        assert not code or not (pool.paths or pool.count), "a refused pool is not empty"
        self._check(code, err)
        try:
            yield pool
        finally:
            self.lib.pool_free(pool)
            assert not pool.paths
            assert not pool.count

    @staticmethod
    def _paths(pool: Pool) -> list[Path]:
        return [_path(pool.paths[i]) for i in range(pool.count)]

    @staticmethod
    def _check(code: int, err: PoolError) -> None:
        if code:
            raise PoolRefused(-code, err.column, err.reason.decode(errors="replace"))

    @staticmethod
    def _inside(name: c.Array[c.c_char], rest: c.c_void_p) -> str:
        """Return the end of `name` from `rest`, which must point into it."""
        offset = (rest.value or 0) - c.addressof(name)
        assert 0 <= offset < len(name)
        return os.fsdecode(name.value[offset:])


class SpreadLibrary:
    """Calls of spread.h."""

    def __init__(self, lib: c.CDLL) -> None:
        self.lib = lib
        spread, piece = c.POINTER(Spread), c.POINTER(SpreadPiece)
        number, load = c.c_uint32, c.c_void_p
        declare(lib, "spread_cut", None, spread, c.c_uint64, number, number, c.c_int, piece)
        declare(lib, "spread_pieces_max", number, spread, number, number)
        declare(lib, "spread_load_new", load, number)
        declare(lib, "spread_load_free", None, load)
        declare(lib, "spread_load_add", None, load, number, c.c_int64)
        declare(lib, "spread_load_least", number, load)

    def cut(
        self, spread: Spread, offset: int, length: int, max_length: int
    ) -> Iterable[tuple[int, int, int]]:
        """Cut an I/O as the engine does: (offset, length, connection) of each piece."""
        piece, at, end = SpreadPiece(), offset, offset + length
        while at < end:
            self.lib.spread_cut(spread, at, end - at, max_length, at == offset, piece)
            yield piece.offset, piece.length, piece.connection
            assert piece.length
            at += piece.length

    def pieces_max(self, spread: Spread, length: int, max_length: int) -> int:
        """spread_pieces_max()."""
        return int(self.lib.spread_pieces_max(spread, length, max_length))

    @contextmanager
    def load(self, count: int) -> Iterator[int]:
        """Yield a struct spread_load."""
        handle = self.lib.spread_load_new(count)
        assert handle
        yield handle
        self.lib.spread_load_free(handle)
