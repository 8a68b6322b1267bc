# SPDX-License-Identifier: GPL-2.0-only
"""NFSv4.1 in XDR: bitmap4 and fattr4 (RFC 8881, 3.3.7 and 5), and operations' arguments (18)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from xdrlib3 import Packer, Unpacker

from nfsmulti.scripted.files import NAME_MAX, Node
from nfsmulti.scripted.procedures import Asked, unpack_name
from nfsmulti.scripted.protocol import (
    SESSION_ID_SIZE,
    VERIFIER_SIZE,
    Attribute,
    Claim,
    Create,
    Nfs4,
    Share,
    Stable,
)
from nfsmulti.scripted.state4 import ANONYMOUS, OTHER_SIZE, Channel, Stateid

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
    fsid: int
    lease: int
    maxread: int
    maxwrite: int


def change_of(node: Node) -> int:
    """Give changeid4: it is another one after each change."""
    return int(node.changed * 1e9)


def _unpack_bitmap(source: Unpacker) -> set[int]:
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


def _unpack_settable(source: Unpacker) -> dict[Attribute, int]:
    """Read fattr4 that is to be set; owners and times are read, and have no value.

    Raises UnknownAttributeError, and ValueError or EOFError where it is no fattr4.
    """
    numbers = _unpack_bitmap(source)
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


def _pack_fsid(pack: Packer, subject: Subject) -> None:
    pack.pack_uhyper(subject.fsid)
    pack.pack_uhyper(0)


def _pack_time(pack: Packer, subject: Subject) -> None:
    fraction, whole = math.modf(subject.node.changed)
    pack.pack_hyper(int(whole))
    pack.pack_uint(int(fraction * 1e9))


_PACKERS: dict[int, Callable[[Packer, Subject], None]] = {
    Attribute.SUPPORTED_ATTRS: lambda pack, _: pack_bitmap(pack, {*_PACKERS, *_SET_ONLY}),
    Attribute.TYPE: lambda pack, it: pack.pack_uint(it.node.kind),
    Attribute.FH_EXPIRE_TYPE: lambda pack, _: pack.pack_uint(0),  # persistent
    Attribute.CHANGE: lambda pack, it: pack.pack_uhyper(change_of(it.node)),
    Attribute.SIZE: lambda pack, it: pack.pack_uhyper(it.node.size),
    Attribute.LINK_SUPPORT: lambda pack, _: pack.pack_bool(False),
    Attribute.SYMLINK_SUPPORT: lambda pack, _: pack.pack_bool(False),
    Attribute.NAMED_ATTR: lambda pack, _: pack.pack_bool(False),
    Attribute.FSID: _pack_fsid,
    Attribute.UNIQUE_HANDLES: lambda pack, _: pack.pack_bool(True),
    Attribute.LEASE_TIME: lambda pack, it: pack.pack_uint(it.lease),
    Attribute.RDATTR_ERROR: lambda pack, _: pack.pack_uint(0),
    Attribute.FILEHANDLE: lambda pack, it: pack.pack_opaque(it.node.handle),
    Attribute.FILEID: lambda pack, it: pack.pack_uhyper(it.node.fileid),
    Attribute.MAXFILESIZE: lambda pack, _: pack.pack_uhyper(_FILE_SIZE_MAX),
    Attribute.MAXNAME: lambda pack, _: pack.pack_uint(NAME_MAX),
    Attribute.MAXREAD: lambda pack, it: pack.pack_uhyper(it.maxread),
    Attribute.MAXWRITE: lambda pack, it: pack.pack_uhyper(it.maxwrite),
    Attribute.MODE: lambda pack, it: pack.pack_uint(it.node.mode),
    Attribute.NUMLINKS: lambda pack, _: pack.pack_uint(1),
    Attribute.OWNER: lambda pack, it: pack.pack_string(str(it.node.uid).encode()),
    Attribute.OWNER_GROUP: lambda pack, it: pack.pack_string(str(it.node.gid).encode()),
    Attribute.SPACE_USED: lambda pack, it: pack.pack_uhyper(it.node.size),
    Attribute.TIME_ACCESS: _pack_time,
    Attribute.TIME_METADATA: _pack_time,
    Attribute.TIME_MODIFY: _pack_time,
    Attribute.SUPPATTR_EXCLCREAT: lambda pack, _: pack_bitmap(
        pack, {Attribute.SIZE, Attribute.MODE}
    ),
}


# --- arguments ---


_TIME_SIZE = 12
_AUTH_NONE, _AUTH_SYS, _RPCSEC_GSS = 0, 1, 6
_LINK, _BLOCK, _CHARACTER = 5, 3, 4  # nfs_ftype4
_SHARE_BITS = 3


@dataclass(frozen=True)
class Arguments4(Asked):
    """An operation's arguments, as far as it has them."""

    handle: bytes = b""  # PUTFH
    name: str = ""
    stateid: Stateid = ANONYMOUS
    wanted: frozenset[int] = frozenset()  # GETATTR, READDIR
    settable: dict[Attribute, int] = field(default_factory=dict)  # SETATTR, OPEN, CREATE
    kind: int = 0  # CREATE: nfs_ftype4
    flag: bool = False  # RECLAIM_COMPLETE: one file system alone
    id: bytes = b""  # of a session or a client


@dataclass(frozen=True, kw_only=True)
class ExchangeArguments(Arguments4):
    """EXCHANGE_ID's; `id` is the owner."""

    verifier: bytes
    flags: int
    protect: int


@dataclass(frozen=True, kw_only=True)
class SessionArguments(Arguments4):
    """CREATE_SESSION's; `id` is the client ID."""

    sequence: int
    flags: int
    fore: Channel
    back: Channel


@dataclass(frozen=True, kw_only=True)
class SequenceArguments(Arguments4):
    """SEQUENCE's; `id` is the session."""

    sequence: int
    slot: int
    highest: int
    cache: bool


@dataclass(frozen=True, kw_only=True)
class OpenArguments(Arguments4):
    """OPEN's; `id` is the open-owner."""

    access: Share
    deny: Share
    how: Create | None  # None: the file must be there
    claim: Claim
    verifier: bytes  # where it is exclusive


def decode4(operation: Nfs4, source: Unpacker) -> Arguments4:
    """Read an operation's arguments. Raises EOFError or ValueError where they are none."""
    decode = _DECODERS.get(operation)
    return decode(source) if decode else Arguments4()


def _unpack_stateid(source: Unpacker) -> Stateid:
    return Stateid(source.unpack_uint(), source.unpack_fopaque(OTHER_SIZE))


def _unpack_channel(source: Unpacker) -> Channel:
    source.unpack_uint()  # the padding of headers
    channel = Channel(*(source.unpack_uint() for _ in range(5)))
    source.unpack_array(source.unpack_uint)
    return channel


def _close(source: Unpacker) -> Arguments4:
    source.unpack_uint()
    return Arguments4(stateid=_unpack_stateid(source))


def _create(source: Unpacker) -> Arguments4:
    kind = source.unpack_uint()
    if kind == _LINK:
        source.unpack_opaque()
    elif kind in (_BLOCK, _CHARACTER):
        source.unpack_uhyper()
    return Arguments4(kind=kind, name=unpack_name(source), settable=_unpack_settable(source))


def _open(source: Unpacker) -> OpenArguments:
    source.unpack_uint()  # NFSv4.0's seqid
    access, deny = Share(source.unpack_uint() & _SHARE_BITS), Share(source.unpack_uint())
    source.unpack_uhyper()  # the client ID: that of the session is meant
    owner = source.unpack_opaque()
    how, settable, verifier = None, {}, b""
    if source.unpack_bool():
        how = Create(source.unpack_uint())
        if how in (Create.EXCLUSIVE, Create.EXCLUSIVE4_1):
            verifier = source.unpack_fopaque(VERIFIER_SIZE)
        if how is not Create.EXCLUSIVE:
            settable = _unpack_settable(source)
    claim = Claim(source.unpack_uint())
    name = unpack_name(source) if claim is Claim.NULL else ""
    if claim is Claim.PREVIOUS:
        source.unpack_uint()  # the delegation that it had
    return OpenArguments(
        id=owner,
        name=name,
        settable=settable,
        access=access,
        deny=deny,
        how=how,
        claim=claim,
        verifier=verifier,
    )


def _readdir(source: Unpacker) -> Arguments4:
    cookie = source.unpack_uhyper()
    source.unpack_fopaque(VERIFIER_SIZE)
    source.unpack_uint()  # the bytes of names and cookies
    count = source.unpack_uint()
    return Arguments4(offset=cookie, count=count, wanted=frozenset(_unpack_bitmap(source)))


def _write(source: Unpacker) -> Arguments4:
    stateid, offset = _unpack_stateid(source), source.unpack_uhyper()
    stable, data = Stable(source.unpack_uint()), source.unpack_opaque()
    return Arguments4(stateid=stateid, offset=offset, stable=stable, data=data, count=len(data))


def _bind(source: Unpacker) -> Arguments4:
    session, direction = source.unpack_fopaque(SESSION_ID_SIZE), source.unpack_uint()
    source.unpack_bool()
    return Arguments4(id=session, kind=direction)


def _exchange(source: Unpacker) -> ExchangeArguments:
    verifier, owner = source.unpack_fopaque(VERIFIER_SIZE), source.unpack_opaque()
    flags, protect = source.unpack_uint(), source.unpack_uint()
    if not protect:

        def implementation() -> None:
            source.unpack_opaque()
            source.unpack_opaque()
            source.unpack_fopaque(_TIME_SIZE)

        source.unpack_array(implementation)
    return ExchangeArguments(id=owner, verifier=verifier, flags=flags, protect=protect)


def _create_session(source: Unpacker) -> SessionArguments:
    client, sequence, flags = source.unpack_fopaque(8), source.unpack_uint(), source.unpack_uint()
    fore, back = _unpack_channel(source), _unpack_channel(source)
    source.unpack_uint()  # the program of callbacks, which never come

    def security() -> None:
        flavor = source.unpack_uint()
        if flavor == _AUTH_SYS:
            source.unpack_uint()
            source.unpack_opaque()
            source.unpack_uhyper()
            source.unpack_array(source.unpack_uint)
        elif flavor == _RPCSEC_GSS:
            source.unpack_uint()
            source.unpack_opaque()
            source.unpack_opaque()
        elif flavor != _AUTH_NONE:
            raise ValueError(f"callbacks by flavor {flavor}")

    source.unpack_array(security)
    return SessionArguments(id=client, sequence=sequence, flags=flags, fore=fore, back=back)


def _sequence(source: Unpacker) -> SequenceArguments:
    session = source.unpack_fopaque(SESSION_ID_SIZE)
    sequence, slot, highest = (source.unpack_uint() for _ in range(3))
    return SequenceArguments(
        id=session, sequence=sequence, slot=slot, highest=highest, cache=source.unpack_bool()
    )


def _name(it: Unpacker) -> Arguments4:
    return Arguments4(name=unpack_name(it))


def _stateid(it: Unpacker) -> Arguments4:
    return Arguments4(stateid=_unpack_stateid(it))


_DECODERS: dict[Nfs4, Callable[[Unpacker], Arguments4]] = {
    Nfs4.ACCESS: lambda it: Arguments4(count=it.unpack_uint()),
    Nfs4.CLOSE: _close,
    Nfs4.COMMIT: lambda it: Arguments4(offset=it.unpack_uhyper(), count=it.unpack_uint()),
    Nfs4.CREATE: _create,
    Nfs4.DELEGRETURN: _stateid,
    Nfs4.GETATTR: lambda it: Arguments4(wanted=frozenset(_unpack_bitmap(it))),
    Nfs4.LINK: _name,
    Nfs4.LOOKUP: _name,
    Nfs4.OPEN: _open,
    Nfs4.PUTFH: lambda it: Arguments4(it.unpack_opaque()),
    Nfs4.READ: lambda it: Arguments4(
        stateid=_unpack_stateid(it), offset=it.unpack_uhyper(), count=it.unpack_uint()
    ),
    Nfs4.READDIR: _readdir,
    Nfs4.REMOVE: _name,
    Nfs4.SETATTR: lambda it: Arguments4(stateid=_unpack_stateid(it), settable=_unpack_settable(it)),
    Nfs4.WRITE: _write,
    Nfs4.BIND_CONN_TO_SESSION: _bind,
    Nfs4.EXCHANGE_ID: _exchange,
    Nfs4.CREATE_SESSION: _create_session,
    Nfs4.DESTROY_SESSION: lambda it: Arguments4(id=it.unpack_fopaque(SESSION_ID_SIZE)),
    Nfs4.FREE_STATEID: _stateid,
    Nfs4.SEQUENCE: _sequence,
    Nfs4.DESTROY_CLIENTID: lambda it: Arguments4(id=it.unpack_fopaque(8)),
    Nfs4.RECLAIM_COMPLETE: lambda it: Arguments4(flag=it.unpack_bool()),
}
