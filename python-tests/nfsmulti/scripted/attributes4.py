# SPDX-License-Identifier: GPL-2.0-only
"""Attributes of NFS version 4: bitmap4 and fattr4 (RFC 8881, 3.3.7 and 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from xdrlib3 import Packer, Unpacker

from nfsmulti.scripted.files import File, Node
from nfsmulti.scripted.protocol4 import Attribute

_REGULAR, _DIRECTORY = 1, 2  # nfs_ftype4
_DIRECTORY_SIZE = 4096
_NAME_MAX = 255
_FILE_SIZE_MAX = 1 << 62
_CLIENT_TIME = 1  # settime4
_SET_ONLY = {Attribute.TIME_ACCESS_SET, Attribute.TIME_MODIFY_SET}
_SETTABLE = {Attribute.SIZE, Attribute.MODE, Attribute.OWNER, Attribute.OWNER_GROUP} | _SET_ONLY


class UnknownAttributeError(ValueError):
    """An attribute that cannot be set is to be set."""


@dataclass(frozen=True)
class Subject:
    """Whose attributes are told, and what its server says of all files."""

    node: Node
    handle: bytes
    fsid: int
    lease: int
    maxread: int
    maxwrite: int


def change_of(node: Node) -> int:
    """Give changeid4: it is another one after each change."""
    return int(node.changed * 1e9)


def unpack_bitmap(source: Unpacker) -> set[int]:
    """Read bitmap4: the numbers in it."""
    words = source.unpack_array(source.unpack_uint)
    return {32 * at + bit for at, word in enumerate(words) for bit in range(32) if word >> bit & 1}


def pack_bitmap(pack: Packer, numbers: Collection[int]) -> None:
    """Write bitmap4."""
    words = [0] * (max(numbers, default=-1) // 32 + 1)
    for number in numbers:
        words[number // 32] |= 1 << number % 32
    pack.pack_array(words, pack.pack_uint)


def pack_attributes(pack: Packer, subject: Subject, wanted: Collection[int]) -> None:
    """Write fattr4: those of the wanted attributes that the server knows."""
    told = sorted(Attribute(number) for number in wanted if number in _PACKERS)
    values = Packer()
    for attribute in told:
        _PACKERS[attribute](values, subject)
    pack_bitmap(pack, told)
    pack.pack_opaque(values.get_buffer())


def unpack_settable(source: Unpacker) -> dict[Attribute, int]:
    """Read fattr4 that is to be set; owners and times are read, and have no value.

    Raises UnknownAttributeError, and ValueError or EOFError where it is no fattr4.
    """
    numbers = unpack_bitmap(source)
    values = Unpacker(source.unpack_opaque())
    if not numbers <= _SETTABLE:
        raise UnknownAttributeError(f"attributes {numbers - _SETTABLE}")
    given: dict[Attribute, int] = {}
    for attribute in sorted(Attribute(number) for number in numbers):
        if attribute is Attribute.SIZE:
            given[attribute] = values.unpack_uhyper()
        elif attribute is Attribute.MODE:
            given[attribute] = values.unpack_uint()
        elif attribute in _SET_ONLY:
            given[attribute] = 0
            if values.unpack_uint() == _CLIENT_TIME:
                values.unpack_fopaque(12)
        else:
            given[attribute] = 0
            values.unpack_opaque()
    if values.get_position() != len(values.get_buffer()):
        raise ValueError("more in fattr4 than its bitmap says")
    return given


def _size(node: Node) -> int:
    return len(node.current) if isinstance(node, File) else _DIRECTORY_SIZE


def _pack_fsid(pack: Packer, subject: Subject) -> None:
    pack.pack_uhyper(subject.fsid)
    pack.pack_uhyper(0)


def _pack_time(pack: Packer, subject: Subject) -> None:
    fraction, whole = math.modf(subject.node.changed)
    pack.pack_hyper(int(whole))
    pack.pack_uint(int(fraction * 1e9))


_PACKERS: dict[int, Callable[[Packer, Subject], None]] = {
    Attribute.SUPPORTED_ATTRS: lambda pack, _: pack_bitmap(pack, {*_PACKERS, *_SET_ONLY}),
    Attribute.TYPE: lambda pack, it: pack.pack_uint(
        _REGULAR if isinstance(it.node, File) else _DIRECTORY
    ),
    Attribute.FH_EXPIRE_TYPE: lambda pack, _: pack.pack_uint(0),  # persistent
    Attribute.CHANGE: lambda pack, it: pack.pack_uhyper(change_of(it.node)),
    Attribute.SIZE: lambda pack, it: pack.pack_uhyper(_size(it.node)),
    Attribute.LINK_SUPPORT: lambda pack, _: pack.pack_bool(False),
    Attribute.SYMLINK_SUPPORT: lambda pack, _: pack.pack_bool(False),
    Attribute.NAMED_ATTR: lambda pack, _: pack.pack_bool(False),
    Attribute.FSID: _pack_fsid,
    Attribute.UNIQUE_HANDLES: lambda pack, _: pack.pack_bool(True),
    Attribute.LEASE_TIME: lambda pack, it: pack.pack_uint(it.lease),
    Attribute.RDATTR_ERROR: lambda pack, _: pack.pack_uint(0),
    Attribute.FILEHANDLE: lambda pack, it: pack.pack_opaque(it.handle),
    Attribute.FILEID: lambda pack, it: pack.pack_uhyper(it.node.fileid),
    Attribute.MAXFILESIZE: lambda pack, _: pack.pack_uhyper(_FILE_SIZE_MAX),
    Attribute.MAXNAME: lambda pack, _: pack.pack_uint(_NAME_MAX),
    Attribute.MAXREAD: lambda pack, it: pack.pack_uhyper(it.maxread),
    Attribute.MAXWRITE: lambda pack, it: pack.pack_uhyper(it.maxwrite),
    Attribute.MODE: lambda pack, it: pack.pack_uint(it.node.mode),
    Attribute.NUMLINKS: lambda pack, _: pack.pack_uint(1),
    Attribute.OWNER: lambda pack, it: pack.pack_string(str(it.node.uid).encode()),
    Attribute.OWNER_GROUP: lambda pack, it: pack.pack_string(str(it.node.gid).encode()),
    Attribute.SPACE_USED: lambda pack, it: pack.pack_uhyper(_size(it.node)),
    Attribute.TIME_ACCESS: _pack_time,
    Attribute.TIME_METADATA: _pack_time,
    Attribute.TIME_MODIFY: _pack_time,
    Attribute.SUPPATTR_EXCLCREAT: lambda pack, _: pack_bitmap(
        pack, {Attribute.SIZE, Attribute.MODE}
    ),
}
