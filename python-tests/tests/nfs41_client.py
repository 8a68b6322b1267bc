# SPDX-License-Identifier: GPL-2.0-only
"""A client of NFSv4.1 that does what it is told, for tests of servers: also what it should not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from xdrlib3 import Unpacker

from servers.rpc import Fixed, Hyper, RpcClient, xdr
from servers.scripted import Nfs4, Stable

NFS, VERSION, COMPOUND = 100003, 4, 1
READ, WRITE = 1, 2  # share access


def op(operation: Nfs4, *arguments: int | bytes) -> bytes:
    return xdr(operation.value, *arguments)


def path(*names: str) -> list[bytes]:
    return [op(Nfs4.PUTROOTFH), *(op(Nfs4.LOOKUP, name.encode()) for name in names)]


@dataclass
class Reply:
    """The results of a compound: its status, and of each operation the status and what follows."""

    status: int
    results: list[tuple[Nfs4 | int, int, Any]]

    def of(self, operation: Nfs4) -> Any:
        return next(given for which, _, given in self.results if which is operation)


def _sequence(source: Unpacker) -> dict[str, int]:
    source.unpack_fopaque(16)
    names = ("sequence", "slot", "highest", "target", "flags")
    return {name: source.unpack_uint() for name in names}


def _open(source: Unpacker) -> bytes:
    stateid = source.unpack_fopaque(16)
    source.unpack_fopaque(24)
    source.unpack_array(source.unpack_uint)
    assert source.unpack_uint() == 0  # no delegation
    return stateid


def _create_session(source: Unpacker) -> tuple[bytes, list[int]]:
    session = source.unpack_fopaque(16)
    source.unpack_uhyper()
    channel = [source.unpack_uint() for _ in range(7)]
    source.unpack_fopaque(28)
    return session, channel[1:6]


def _exchange(source: Unpacker) -> tuple[int, int, int]:
    client, sequence, flags = source.unpack_uhyper(), source.unpack_uint(), source.unpack_uint()
    source.unpack_uint()
    source.unpack_uhyper()
    for _ in range(2):
        source.unpack_opaque()
    source.unpack_uint()
    return client, sequence, flags


_RESULTS: dict[Nfs4, Callable[[Unpacker], Any]] = {
    Nfs4.SEQUENCE: _sequence,
    Nfs4.OPEN: _open,
    Nfs4.CREATE_SESSION: _create_session,
    Nfs4.EXCHANGE_ID: _exchange,
    Nfs4.GETFH: lambda source: source.unpack_opaque(),
    Nfs4.CLOSE: lambda source: source.unpack_fopaque(16),
    Nfs4.READ: lambda source: (source.unpack_bool(), source.unpack_opaque()),
    Nfs4.WRITE: lambda source: (
        source.unpack_uint(),
        source.unpack_uint(),
        source.unpack_fopaque(8),
    ),
    Nfs4.COMMIT: lambda source: source.unpack_fopaque(8),
    Nfs4.BIND_CONN_TO_SESSION: lambda source: source.unpack_fopaque(24),
}


@dataclass
class Client41:
    """A connection to a port of 127.0.0.1, a client ID and a session."""

    port: int
    owner: bytes = b"tests"
    slots: int = 8
    client: int = 0
    session: bytes = b""
    channel: list[int] = field(default_factory=list)  # request, response, cached, operations, slots
    sequences: dict[int, int] = field(default_factory=dict)  # the last one of each slot

    def __post_init__(self) -> None:
        self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rpc.__exit__()

    def connect(self) -> None:
        """Make a connection, the former one is forgotten."""
        self._rpc = RpcClient("127.0.0.1", self.port, NFS, VERSION)

    def compound(self, *operations: bytes, minor: int = 1) -> Reply:
        call = xdr(b"tag!", minor, len(operations)) + b"".join(operations)
        source = Unpacker(self._rpc.call(COMPOUND, call))
        status = source.unpack_uint()
        assert source.unpack_opaque() == b"tag!"
        results: list[tuple[Nfs4 | int, int, Any]] = []
        for _ in range(source.unpack_uint()):
            number, ended = source.unpack_uint(), source.unpack_uint()
            known = {one.value: one for one in Nfs4}.get(number, number)
            decode = _RESULTS.get(known) if isinstance(known, Nfs4) and not ended else None
            results.append((known, ended, decode(source) if decode else None))
        source.done()
        return Reply(status, results)

    def begin(self, *, complete: bool = True) -> int:
        """Get a client ID and a session; give CREATE_SESSION's status."""
        verifier = Fixed(b"verifier")
        arguments = (verifier, self.owner, 0x10000, 0, 0)
        reply = self.compound(op(Nfs4.EXCHANGE_ID, *arguments))
        self.client, sequence, _ = reply.of(Nfs4.EXCHANGE_ID)
        status = self.create_session(sequence)
        if complete and not status:
            self.call(op(Nfs4.RECLAIM_COMPLETE, 0))
        return status

    def create_session(self, sequence: int) -> int:
        channel = (0, 1 << 22, 1 << 22, 1 << 16, 64, self.slots, 0)
        arguments = (Hyper(self.client), sequence, 0, *channel, *channel, 0, 1, 0)
        reply = self.compound(op(Nfs4.CREATE_SESSION, *arguments))
        if not reply.status:
            self.session, self.channel = reply.of(Nfs4.CREATE_SESSION)
            self.sequences = {}
        return reply.status

    def call(self, *operations: bytes, slot: int = 0, cache: bool = False) -> Reply:
        """Send operations behind the slot's next SEQUENCE."""
        self.sequences[slot] = self.sequences.get(slot, 0) + 1
        reply = self.again(*operations, slot=slot, cache=cache)
        if reply.results and reply.results[0][1]:
            self.sequences[slot] -= 1
        return reply

    def again(self, *operations: bytes, slot: int = 0, cache: bool = False) -> Reply:
        """Send operations behind the slot's last SEQUENCE."""
        words = (Fixed(self.session), self.sequences[slot], slot, slot, cache)
        return self.compound(op(Nfs4.SEQUENCE, *words), *operations)

    def open(self, name: str, access: int = READ | WRITE, create: bool = False) -> Reply:
        """OPEN a file of /export by name, which may make it, and get its handle."""
        how = (1, 0, 0, 0) if create else (0,)  # UNCHECKED, without attributes
        arguments = (0, access, 0, Hyper(self.client), b"o", *how, 0, name.encode())
        return self.call(*path("export"), op(Nfs4.OPEN, *arguments), op(Nfs4.GETFH))

    def opened(self, name: str, access: int = READ | WRITE, create: bool = False) -> Held:
        """OPEN a file, which must go well."""
        reply = self.open(name, access, create)
        assert reply.status == 0, reply
        return Held(reply.of(Nfs4.GETFH), reply.of(Nfs4.OPEN))


@dataclass(frozen=True)
class Held:
    """A file's handle and its stateid."""

    handle: bytes
    stateid: bytes

    def read(self, offset: int, count: int) -> list[bytes]:
        arguments = (Fixed(self.stateid), Hyper(offset), count)
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.READ, *arguments)]

    def write(self, offset: int, data: bytes, stable: Stable = Stable.UNSTABLE) -> list[bytes]:
        arguments = (Fixed(self.stateid), Hyper(offset), stable, data)
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.WRITE, *arguments)]

    def commit(self) -> list[bytes]:
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.COMMIT, Hyper(0), 0)]

    def close(self) -> list[bytes]:
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.CLOSE, 0, Fixed(self.stateid))]

    def reclaim(self, client: int, access: int = READ | WRITE) -> list[bytes]:
        """Return the operations of an OPEN that reclaims after a restart."""
        arguments = (0, access, 0, Hyper(client), b"o", 0, 1, 0)
        return [op(Nfs4.PUTFH, self.handle), op(Nfs4.OPEN, *arguments)]
