# SPDX-License-Identifier: GPL-2.0-only
"""What a server of NFSv4.1 keeps of its clients (RFC 8881).

That is client IDs, sessions and slots (2.4, 2.10), the grace period (8.4.2), and what is open, by
its stateids (8.2 and 9).
"""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass, field

from servers.scripted.call import OTHER_SIZE, Arguments, Channel, Stateid
from servers.scripted.files import File
from servers.scripted.protocol import NfsError, Share, Status4

_NUMBERS = 1 << 32  # of sequences and seqids
_HEADERS = 65536  # room for all of a compound but the data of READ or WRITE
_MESSAGE = (1 << 20) + _HEADERS
_OPERATIONS = 16


@dataclass
class Terms:
    """What the server offers to clients of NFSv4.1, and how strict it is.

    A script may change it at any time; sessions keep the channel that they were granted.
    """

    minors: tuple[int, ...] = (1, 2)  # none: version 4 is PROG_MISMATCH
    slots: int = 64
    target: int | None = None  # SEQUENCE's target_highest_slotid; None: the last slot granted
    max_request: int = _MESSAGE
    max_response: int = _MESSAGE
    lease: int = 90  # seconds
    next_session: int | None = None  # EXCHANGE_ID's eir_sequenceid once confirmed; None: the next
    goes_on: bool = False  # whether a compound goes on behind an operation that failed
    current_stateid: bool = True  # whether that of OPEN may be named by those behind it
    tells_limits: bool = True  # whether there are maxread and maxwrite
    zero_id: bool = False  # whether a client has the ID 0; at most one is there then
    delegates: bool = False  # OPEN gives a delegation of reads, whatever was wished
    minor_ids: dict[str, int] = field(default_factory=dict)  # server_owner's, by address; else 0


@dataclass(eq=False)
class Slot:
    """A slot: its last sequence number, and what was asked and answered under it."""

    sequence: int = 0
    request: bytes = b""
    reply: bytes | None = None  # None: it was not to be cached
    told: int | None = None  # the target_highest_slotid in its last reply


@dataclass(eq=False)
class Client:
    """A client ID."""

    id: int
    owner: bytes
    verifier: bytes
    user: int  # who may use it
    confirmed: bool = False
    sequence: int = 0  # of CREATE_SESSION
    created: tuple[int, bytes] | None = None  # the last CREATE_SESSION's status and results
    reclaimed: bool = False  # RECLAIM_COMPLETE has come


@dataclass(eq=False)
class Session:
    """A session; slots up to `highest` may be used."""

    id: bytes
    client: Client
    fore: Channel
    highest: int
    slots: dict[int, Slot] = field(default_factory=dict)

    def slot(self, number: int) -> Slot:
        """Return a slot."""
        if number > self.highest:
            raise NfsError(Status4.BADSLOT)
        return self.slots.setdefault(number, Slot())

    def retarget(self, slot: Slot, in_use: int, target: int) -> None:
        """Offer slots up to the target.

        Slots beyond it are dropped once a client that knows the target uses none of them.
        """
        if target > self.highest:
            self.highest = target
        elif slot.told == target and in_use <= target:
            self.highest = target
            self.slots = {number: one for number, one in self.slots.items() if number <= target}
        slot.told = target


class Sessions:
    """All clients and sessions of a server, over its lives."""

    def __init__(self, terms: Terms):
        self.terms = terms
        self.clients: dict[int, Client] = {}
        self.sessions: dict[bytes, Session] = {}
        self.reclaimable: set[bytes] = set()  # owners of before the restart
        self._numbers = itertools.count(1)
        self._boot = secrets.randbits(31) << 32
        self.major_id = secrets.token_hex(8).encode()

    # --- client IDs ---

    def exchange(self, owner: bytes, verifier: bytes, user: int) -> Client:
        """Return the client ID of an owner, which CREATE_SESSION confirms where it is new."""
        known = [one for one in self.clients.values() if one.owner == owner]
        confirmed = next((one for one in known if one.confirmed), None)
        if confirmed is not None and confirmed.user != user:
            if self._has_session(confirmed):
                raise NfsError(Status4.CLID_INUSE)
        elif confirmed is not None and confirmed.verifier == verifier:
            return confirmed
        for one in known:
            if not one.confirmed:
                del self.clients[one.id]
        number = 0 if self.terms.zero_id else self._boot | next(self._numbers)
        client = Client(number, owner, verifier, user)
        self.clients[client.id] = client
        return client

    def client(self, number: int) -> Client:
        """Return a client by its ID."""
        if number not in self.clients:
            raise NfsError(Status4.STALE_CLIENTID)
        return self.clients[number]

    def destroy_client(self, number: int) -> Client:
        """Forget a client, which must have no session."""
        if self._has_session(self.client(number)):
            raise NfsError(Status4.CLIENTID_BUSY)
        return self.clients.pop(number)

    def _has_session(self, client: Client) -> bool:
        return any(session.client is client for session in self.sessions.values())

    # --- sessions ---

    def is_new(self, client: Client, sequence: int) -> bool:
        """Whether CREATE_SESSION is a new call, and not the last one again."""
        if sequence == client.sequence and client.created is not None:
            return False
        if sequence != (client.sequence + 1) % _NUMBERS:
            raise NfsError(Status4.SEQ_MISORDERED)
        return True

    def create(self, client: Client, wanted: Channel) -> Session:
        """Make a session, which is granted no more than is wanted."""
        terms = self.terms
        fore = Channel(
            min(wanted.max_request, terms.max_request),
            min(wanted.max_response, terms.max_response),
            min(wanted.max_cached, _HEADERS),
            min(wanted.max_operations, _OPERATIONS),
            min(max(wanted.slots, 1), terms.slots),
        )
        number = client.id.to_bytes(8, "big") + next(self._numbers).to_bytes(8, "big")
        session = Session(number, client, fore, fore.slots - 1)
        self.sessions[number] = session
        return session

    def session(self, number: bytes) -> Session:
        """Return a session by its ID."""
        if number not in self.sessions:
            raise NfsError(Status4.BADSESSION)
        return self.sessions[number]

    def is_again(self, slot: Slot, sequence: int, request: bytes) -> bool:
        """Whether a call is the last one of its slot again."""
        if sequence == (slot.sequence + 1) % _NUMBERS:
            return False
        if sequence != slot.sequence or not slot.request:
            raise NfsError(Status4.SEQ_MISORDERED)
        if request != slot.request:
            raise NfsError(Status4.SEQ_FALSE_RETRY)
        return True

    # --- restart and grace ---

    def restart(self) -> None:
        """Forget all in another life, and begin a grace period for the clients there were."""
        awaited = self.reclaimable if self.in_grace() else set()
        self.reclaimable = awaited | {one.owner for one in self.clients.values() if one.reclaimed}
        self.clients, self.sessions = {}, {}

    def in_grace(self) -> bool:
        """Whether clients may reclaim what they had, and others must wait."""
        return bool(self.reclaimable)

    def end_grace(self) -> None:
        """End the grace period."""
        self.reclaimable = set()

    def reclaim_complete(self, client: Client) -> None:
        """Take note that a client has reclaimed all it wants."""
        if client.reclaimed:
            raise NfsError(Status4.COMPLETE_ALREADY)
        client.reclaimed = True
        self.reclaimable.discard(client.owner)

    def check_open(self, client: Client) -> None:
        """Refuse an OPEN that reclaims nothing, in grace or before RECLAIM_COMPLETE."""
        if not client.reclaimed or self.in_grace():
            raise NfsError(Status4.GRACE)

    def check_reclaim(self, client: Client) -> None:
        """Refuse to reclaim what may not be."""
        if client.reclaimed or not self.in_grace():
            raise NfsError(Status4.NO_GRACE)
        if client.owner not in self.reclaimable:
            raise NfsError(Status4.RECLAIM_BAD)


# --- opens and stateids ---


ANONYMOUS = Stateid()
BYPASS = Stateid(_NUMBERS - 1, b"\xff" * OTHER_SIZE)
CURRENT = Stateid(1)  # the one that an operation before has left
CLOSED = Stateid(_NUMBERS - 1)  # what CLOSE gives back: of no use


@dataclass(eq=False)
class Open:
    """A file that an open-owner of a client has open."""

    other: bytes
    client: Client
    owner: bytes
    file: File
    access: int
    seqid: int = 1

    @property
    def stateid(self) -> Stateid:
        """Its stateid as it is now."""
        return Stateid(self.seqid, self.other)


class Opens:
    """All opens of a server."""

    def __init__(self) -> None:
        self.all: dict[bytes, Open] = {}
        self.delegations: dict[bytes, tuple[Client, File]] = {}  # by `other` of their stateids
        self._life = secrets.token_bytes(4)
        self._numbers = itertools.count(1)

    def open(self, client: Client, file: File, wanted: Arguments) -> Open:
        """Open a file, or open it further where the owner has it open."""
        for one in self.all.values():
            if (one.file, one.client, one.owner) == (file, client, wanted.owner):
                one.access |= wanted.access
                one.seqid += 1
                return one
        other = self._other()
        self.all[other] = made = Open(other, client, wanted.owner, file, wanted.access)
        return made

    def delegate(self, client: Client, file: File) -> Stateid:
        """Delegate a file to a client."""
        other = self._other()
        self.delegations[other] = client, file
        return Stateid(1, other)

    def take_back(self, stateid: Stateid, client: Client, file: File) -> None:
        """Take a delegation of a file back."""
        if self.delegations.get(stateid.other) != (client, file):
            raise NfsError(Status4.BAD_STATEID)
        del self.delegations[stateid.other]

    def find(self, stateid: Stateid, client: Client) -> Open:
        """Return what a stateid stands for."""
        found = self.all.get(stateid.other)
        if found is None or found.client is not client or stateid.seqid > found.seqid:
            raise NfsError(Status4.BAD_STATEID)
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

    def close(self, stateid: Stateid, client: Client) -> None:
        """Close what a stateid stands for."""
        del self.all[self.find(stateid, client).other]

    def forget(self, client: Client) -> None:
        """Forget all that a client has open."""
        self.all = {key: one for key, one in self.all.items() if one.client is not client}
        left = {key: one for key, one in self.delegations.items() if one[0] is not client}
        self.delegations = left

    def restart(self) -> None:
        """Begin another life with nothing open."""
        self.all, self.delegations = {}, {}

    def _other(self) -> bytes:
        return self._life + next(self._numbers).to_bytes(8, "big")
