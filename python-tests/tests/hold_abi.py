# SPDX-License-Identifier: GPL-2.0-only
"""engine/group/hold.h for tests: its structures, and its functions in the engine's test library."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator
from functools import partial
from typing import Any, Self

from codec_abi import Ledger, declare, flags, hypers, words

VERIFIER = 8
EXTENTS_MIN = 16
EXTENT_BYTES = 512


class Extent(c.Structure):
    """struct hold_extent."""

    _fields_ = (
        ("data", c.c_void_p), *hypers("offset"), *words("length", "file", "connection"),
        *flags("under_way", "again", "settled", "dropped", "mixed_verifiers"),
        ("ledger", c.POINTER(Ledger)), ("verifier", c.c_uint8 * VERIFIER), *hypers("answered"),
    )  # fmt: skip

    @property
    def content(self) -> bytes:
        """The copy."""
        return c.string_at(self.data, self.length)


class Hold(c.Structure):
    """struct hold; as methods it has the functions of hold.h, without their first argument."""

    _fields_ = (
        ("memory", c.c_void_p), *hypers("size", "head"), ("extents", c.POINTER(Extent)),
        *hypers("extent_max", "first", "end", "clock", "under_way"), *flags("lost"),
        *hypers("uncovered", "covered"),
    )  # fmt: skip

    def __init__(self, lib: c.CDLL, size: int) -> None:
        super().__init__()
        self._lib = lib
        extent, ledger, number = c.POINTER(Extent), c.POINTER(Ledger), c.c_uint64
        self._declare("init", c.c_int, number)
        self._declare("free", None)
        self._declare("room", c.c_bool, c.c_uint32)
        self._declare("take", extent, c.c_uint32, number, c.c_char_p, c.c_uint32)
        self._declare("wrote", None, extent, ledger, c.c_char_p)
        self._declare("finished", None, extent, c.c_bool, c.c_uint32)
        self._declare("committed", None, ledger, number, c.c_char_p)
        self._declare("begin_commit", None)
        self._declare("commit_failed", None, ledger, number)
        self._declare("begin_replay", number)
        self._declare("again", None, extent)
        self._declare("forget", None, c.c_uint32)
        assert self.init(size) == 0

    def _declare(self, name: str, result: Any, *arguments: Any) -> None:
        declare(self._lib, f"hold_{name}", result, c.POINTER(Hold), *arguments)

    def __getattr__(self, name: str) -> Any:
        return partial(getattr(self._lib, f"hold_{name}"), self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
        assert bytes(self) == bytes(c.sizeof(Hold))

    def held(self) -> Iterator[Extent]:
        """Yield what is held, in its order."""
        number = self.first
        while number < self.end:
            yield self.extents[number % self.extent_max]
            number = max(number + 1, self.first)

    def take(self, file: int, offset: int, data: bytes) -> Extent:
        """hold_take()."""
        extent = self._lib.hold_take(self, file, offset, data, len(data)).contents
        assert isinstance(extent, Extent)
        return extent

    def finished(self, extent: Extent, *, failed: bool = False) -> None:
        """hold_finished(), on any connection."""
        self._lib.hold_finished(self, extent, failed, 0)
