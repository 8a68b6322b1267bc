# SPDX-License-Identifier: GPL-2.0-only
"""engine/conn/hold.h for tests: its structures, and its functions in the engine's test library."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator
from typing import Self

from codec_abi import Ledger, flags, hypers, words

VERIFIER = 8
EXTENTS_MIN = 16
EXTENT_BYTES = 512


class Extent(c.Structure):
    """struct hold_extent."""

    _fields_ = (
        ("data", c.c_void_p), *hypers("offset"), *words("length", "file", "connection"),
        *flags("under_way", "again", "settled", "dropped", "torn"), ("ledger", c.POINTER(Ledger)),
        ("verifier", c.c_uint8 * VERIFIER), *hypers("answered"),
    )  # fmt: skip

    @property
    def content(self) -> bytes:
        """The copy."""
        return c.string_at(self.data, self.length)


class _Hold(c.Structure):
    """struct hold."""

    _fields_ = (
        ("memory", c.c_void_p), *hypers("size", "head"), ("extents", c.POINTER(Extent)),
        *hypers("extent_max", "first", "end", "clock", "under_way"), *flags("lost"),
        *hypers("uncovered", "covered"),
    )  # fmt: skip


class Hold:
    """A struct hold of `size` bytes."""

    def __init__(self, lib: c.CDLL, size: int) -> None:
        lib.hold_take.restype = c.POINTER(Extent)
        lib.hold_room.restype = c.c_bool
        lib.hold_begin_replay.restype = c.c_uint64
        self._lib = lib
        self._hold = _Hold()
        assert lib.hold_init(self._at, c.c_uint64(size)) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lib.hold_free(self._at)
        assert bytes(self._hold) == bytes(c.sizeof(_Hold))

    @property
    def _at(self) -> c.Array[_Hold]:
        return c.pointer(self._hold)  # type: ignore[return-value]

    @property
    def lost(self) -> bool:
        """Whether something is known to be lost."""
        return bool(self._hold.lost)

    @lost.setter
    def lost(self, value: bool) -> None:
        self._hold.lost = value

    @property
    def clock(self) -> int:
        """The number of WRITEs answered so far."""
        return int(self._hold.clock)

    @property
    def uncovered(self) -> int:
        """The room of what was answered after the last begin_commit()."""
        return int(self._hold.uncovered)

    def extents(self) -> Iterator[Extent]:
        """Give what is held, in its order."""
        number = self._hold.first
        while number < self._hold.end:
            yield self._hold.extents[number % self._hold.extent_max]
            number = max(number + 1, self._hold.first)

    def room(self, length: int) -> bool:
        """hold_room()."""
        return bool(self._lib.hold_room(self._at, length))

    def take(self, file: int, offset: int, data: bytes) -> Extent:
        """hold_take()."""
        extent = self._lib.hold_take(self._at, file, c.c_uint64(offset), data, len(data)).contents
        assert isinstance(extent, Extent)
        return extent

    def wrote(self, extent: Extent, ledger: Ledger, verifier: bytes) -> None:
        """hold_wrote()."""
        self._lib.hold_wrote(self._at, c.byref(extent), c.byref(ledger), verifier)

    def finished(self, extent: Extent, *, failed: bool = False) -> None:
        """hold_finished()."""
        self._lib.hold_finished(self._at, c.byref(extent), failed, 0)

    def committed(self, ledger: Ledger, sent: int, verifier: bytes) -> None:
        """hold_committed()."""
        self._lib.hold_committed(self._at, c.byref(ledger), c.c_uint64(sent), verifier)

    def begin_commit(self) -> None:
        """hold_begin_commit()."""
        self._lib.hold_begin_commit(self._at)

    def commit_failed(self, ledger: Ledger, sent: int) -> None:
        """hold_commit_failed()."""
        self._lib.hold_commit_failed(self._at, c.byref(ledger), c.c_uint64(sent))

    def begin_replay(self) -> int:
        """hold_begin_replay()."""
        return int(self._lib.hold_begin_replay(self._at))

    def again(self, extent: Extent) -> None:
        """hold_again()."""
        self._lib.hold_again(self._at, c.byref(extent))

    def forget(self, file: int) -> None:
        """hold_forget()."""
        self._lib.hold_forget(self._at, file)
