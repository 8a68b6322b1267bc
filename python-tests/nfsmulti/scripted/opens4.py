# SPDX-License-Identifier: GPL-2.0-only
"""What NFSv4.1's clients have open, and its stateids (RFC 8881, 8.2 and 9)."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass

from nfsmulti.scripted.files import File, NfsError
from nfsmulti.scripted.protocol4 import Share, Status4
from nfsmulti.scripted.sessions4 import Client

_OTHER_SIZE = 12
_SEQIDS = 1 << 32


@dataclass(frozen=True)
class Stateid:
    """stateid4."""

    seqid: int
    other: bytes


ANONYMOUS = Stateid(0, bytes(_OTHER_SIZE))
BYPASS = Stateid(_SEQIDS - 1, b"\xff" * _OTHER_SIZE)
CURRENT = Stateid(1, bytes(_OTHER_SIZE))  # the one that an operation before has left
CLOSED = Stateid(_SEQIDS - 1, bytes(_OTHER_SIZE))  # what CLOSE gives back: of no use


@dataclass(eq=False)
class Open:
    """A file that an open-owner of a client has open."""

    other: bytes
    client: Client
    owner: bytes
    file: File
    access: Share
    deny: Share
    seqid: int = 1
    revoked: bool = False

    @property
    def stateid(self) -> Stateid:
        """Its stateid as it is now."""
        return Stateid(self.seqid, self.other)


class Opens:
    """All opens of a server."""

    def __init__(self) -> None:
        self.all: dict[bytes, Open] = {}
        self._life = secrets.token_bytes(4)
        self._numbers = itertools.count(1)

    def open(self, client: Client, owner: bytes, file: File, access: Share, deny: Share) -> Open:
        """Open a file, or open it further where the owner has it open."""
        if not access:
            raise NfsError(Status4.INVAL)
        alive = [one for one in self.all.values() if one.file is file and not one.revoked]
        mine = None
        for one in alive:
            if one.client is client and one.owner == owner:
                mine = one
            elif one.deny & access or one.access & deny:
                raise NfsError(Status4.SHARE_DENIED)
        if mine is not None:
            mine.access, mine.deny = mine.access | access, mine.deny | deny
            mine.seqid += 1
            return mine
        other = self._life + next(self._numbers).to_bytes(8, "big")
        self.all[other] = made = Open(other, client, owner, file, access, deny)
        return made

    def find(self, stateid: Stateid, client: Client) -> Open:
        """Give what a stateid stands for."""
        found = self.all.get(stateid.other)
        if found is None or found.client is not client or stateid.seqid > found.seqid:
            raise NfsError(Status4.BAD_STATEID)
        if found.revoked:
            raise NfsError(Status4.ADMIN_REVOKED)
        if stateid.seqid not in (0, found.seqid):
            raise NfsError(Status4.OLD_STATEID)
        return found

    def check(self, stateid: Stateid, client: Client, file: File, access: Share) -> None:
        """Refuse to use a file by a stateid that does not allow it."""
        found = self.find(stateid, client)
        if found.file is not file:
            raise NfsError(Status4.BAD_STATEID)
        if not found.access & access:
            raise NfsError(Status4.OPENMODE)

    def revoke(self) -> None:
        """Revoke all opens."""
        for one in self.all.values():
            one.revoked = True

    def denies(self, file: File, access: Share) -> bool:
        """Whether somebody has a file open and denies others this access."""
        return any(one.file is file and one.deny & access for one in self.all.values())

    def close(self, stateid: Stateid, client: Client) -> None:
        """Close what a stateid stands for."""
        del self.all[self.find(stateid, client).other]

    def free(self, stateid: Stateid, client: Client) -> None:
        """Forget a stateid that was revoked."""
        found = self.all.get(stateid.other)
        if found is None or found.client is not client:
            raise NfsError(Status4.BAD_STATEID)
        if not found.revoked:
            raise NfsError(Status4.LOCKS_HELD)
        del self.all[stateid.other]

    def revoked(self, client: Client) -> bool:
        """Whether something of a client was revoked, which it has not yet freed."""
        return any(one.revoked and one.client is client for one in self.all.values())

    def forget(self, client: Client) -> None:
        """Forget all that a client has open."""
        self.all = {key: one for key, one in self.all.items() if one.client is not client}

    def by_owner(self) -> dict[bytes, set[File]]:
        """Give the open files by the client's owner."""
        found: dict[bytes, set[File]] = {}
        for one in self.all.values():
            if not one.revoked:
                found.setdefault(one.client.owner, set()).add(one.file)
        return found

    def restart(self) -> None:
        """Begin another life with nothing open."""
        self.all, self._life = {}, secrets.token_bytes(4)
