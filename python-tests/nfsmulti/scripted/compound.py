# SPDX-License-Identifier: GPL-2.0-only
"""COMPOUND of NFSv4.1 (RFC 8881, 2.6, 2.10, 16.2): its operations in order, and its slot."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from xdrlib3 import Packer, Unpacker

from nfsmulti.scripted.answer import Answer, Call
from nfsmulti.scripted.files import NfsError
from nfsmulti.scripted.operations4 import Operations, Scene
from nfsmulti.scripted.procedures import Export
from nfsmulti.scripted.protocol import (
    FIRST_OPERATION,
    ILLEGAL_OPERATION,
    LAST_OPERATION,
    Nfs4,
    Status4,
)
from nfsmulti.scripted.state4 import Slot, Terms
from nfsmulti.scripted.xdr4 import Arguments4, SequenceArguments, UnknownAttributeError, decode4

_OPERATIONS = {one.value: one for one in Nfs4 if one.value >= FIRST_OPERATION}
_ALONE = {
    Nfs4.EXCHANGE_ID,
    Nfs4.CREATE_SESSION,
    Nfs4.BIND_CONN_TO_SESSION,
    Nfs4.DESTROY_SESSION,
    Nfs4.DESTROY_CLIENTID,
}  # where no SEQUENCE goes before
_REPLY_HEADERS = 36  # of RPC and COMPOUND with an empty tag
_ADMIN_STATE_REVOKED = 0x20  # SEQ4_STATUS_


class UnheardError(Exception):
    """The script wants the compound to be as if it had never come."""


# Logs an operation, and gives the script's answer.
Ask = Callable[[Nfs4, Arguments4, Scene], tuple[Call, Answer]]


@dataclass
class _Running:
    """One compound that is being carried out."""

    scene: Scene
    operations: int
    size: int  # of the whole message
    request: bytes  # a digest of the arguments
    position: int = 0
    reply_size: int = _REPLY_HEADERS
    sequence: int = 0
    slot: Slot | None = None
    cache: bool = False
    again: bool = False  # it was carried out before
    replay: bytes | None = None  # and this was the reply


class Compounds:
    """Carries compounds out."""

    def __init__(self, export: Export, terms: Terms):
        self.operations = Operations(export, terms)
        self.terms = terms
        self.sessions, self.opens = self.operations.sessions, self.operations.opens

    def run(self, source: Unpacker, scene: Scene, whole: Answer, ask: Ask) -> bytes:
        """Carry a compound out as far as the script wants it, and give its results.

        Raises UnheardError, and EOFError or ValueError where it is no compound.
        """
        size, start = len(source.get_buffer()), source.get_position()
        tag, minor, count = source.unpack_opaque(), source.unpack_uint(), source.unpack_uint()
        if minor not in self.terms.minors:
            return _results(Status4.MINOR_VERS_MISMATCH, tag, [])
        if whole.status or not whole.act:
            return _results(whole.status or Status4.SERVERFAULT, tag, [])
        digest = hashlib.sha256(source.get_buffer()[start:]).digest()
        running = _Running(scene, count, size, digest)
        status, done = 0, []
        for running.position in range(count):
            scene.final = running.position == count - 1
            status, result = self._operation(source, running, ask)
            done.append(result)
            if running.replay is not None:
                return running.replay
            if status:
                break
        results = _results(status, tag, done)
        if running.slot is not None and not running.again:
            slot = running.slot
            slot.sequence, slot.request = running.sequence, running.request
            slot.reply = results if running.cache or count == 1 else None
        return results

    def expire(self) -> None:
        """Forget all clients with all they have."""
        for client in list(self.sessions.clients.values()):
            self.operations.forget(client)

    def restart(self) -> None:
        """Begin another life."""
        self.sessions.restart(self.opens.by_owner())
        self.opens.restart()

    # --- one operation ---

    def _operation(self, source: Unpacker, running: _Running, ask: Ask) -> tuple[int, bytes]:
        """Carry one out; give its status, and its number and results."""
        number, pack = ILLEGAL_OPERATION, Packer()
        try:
            number = source.unpack_uint()
            if not FIRST_OPERATION <= number <= LAST_OPERATION:
                number = ILLEGAL_OPERATION
                raise NfsError(Status4.OP_ILLEGAL)
            operation = _OPERATIONS.get(number)
            self._check_place(operation, running)
            if operation is None:
                raise NfsError(Status4.NOTSUPP)
            if running.again:
                raise NfsError(Status4.RETRY_UNCACHED_REP)
            arguments = _decode(operation, source)
            call, answer = ask(operation, arguments, running.scene)
        except EOFError:
            return _failed(number, Status4.BADXDR)
        except NfsError as error:
            return _failed(number, error.status)
        if not answer.act and not answer.reply:
            raise UnheardError
        return self._carry_out(operation, arguments, call, answer, running, pack)

    def _carry_out(
        self,
        operation: Nfs4,
        arguments: Arguments4,
        call: Call,
        answer: Answer,
        running: _Running,
        pack: Packer,
    ) -> tuple[int, bytes]:
        pack.pack_uint(operation.value)
        pack.pack_uint(Status4.OK)
        status = 0
        try:
            if answer.status and operation is not Nfs4.CREATE_SESSION:
                raise NfsError(answer.status)
            if not answer.act:
                raise NfsError(Status4.SERVERFAULT)
            if isinstance(arguments, SequenceArguments):
                self._sequence(running, arguments, call, pack)
            else:
                call.moved = self.operations.run(operation, running.scene, arguments, answer, pack)
            self._check_size(running, pack)
        except NfsError as error:
            status, result = _failed(operation.value, error.status)
        else:
            result = pack.get_buffer()
        if answer.results is not None:
            status = int.from_bytes(answer.results[:4], "big")
            result = operation.value.to_bytes(4, "big") + answer.results
        running.reply_size += len(result)
        call.status = call.status or status
        return status, result

    def _check_place(self, operation: Nfs4 | None, running: _Running) -> None:
        first, sessionless = running.position == 0, operation in _ALONE
        if operation is Nfs4.SEQUENCE and not first:
            raise NfsError(Status4.SEQUENCE_POS)
        if operation is Nfs4.BIND_CONN_TO_SESSION and running.operations > 1:
            raise NfsError(Status4.NOT_ONLY_OP)
        if first and operation is not Nfs4.SEQUENCE:
            if not sessionless:
                raise NfsError(Status4.OP_NOT_IN_SESSION)
            if running.operations > 1:
                raise NfsError(Status4.NOT_ONLY_OP)

    def _check_size(self, running: _Running, pack: Packer) -> None:
        session = running.scene.session
        if session is None or running.replay is not None:
            return
        size = running.reply_size + len(pack.get_buffer())
        if size > session.fore.max_response:
            raise NfsError(Status4.REP_TOO_BIG)
        if running.cache and size > session.fore.max_cached:
            raise NfsError(Status4.REP_TOO_BIG_TO_CACHE)

    # --- SEQUENCE ---

    def _sequence(
        self, running: _Running, arguments: SequenceArguments, call: Call, pack: Packer
    ) -> None:
        terms, scene = self.terms, running.scene
        session = self.sessions.session(arguments.id)
        if self.sessions.lapsed(session.client):
            self.operations.forget(session.client)
            raise NfsError(Status4.BADSESSION)
        if terms.bind_first and scene.connection not in session.connections:
            raise NfsError(Status4.CONN_NOT_BOUND_TO_SESSION)
        if running.operations > session.fore.max_operations:
            raise NfsError(Status4.TOO_MANY_OPS)
        if running.size > session.fore.max_request:
            raise NfsError(Status4.REQ_TOO_BIG)
        slot = session.slot(arguments.slot)
        running.again = self.sessions.is_again(slot, arguments.sequence, running.request)
        session.client.renewed = time.monotonic()
        if running.again:
            call.replayed = slot.reply is not None
            call.status = 0 if call.replayed else Status4.RETRY_UNCACHED_REP
            if not call.replayed and terms.uncached_at_sequence:
                raise NfsError(Status4.RETRY_UNCACHED_REP)
            running.replay = slot.reply
        else:
            target = session.fore.slots - 1 if terms.target is None else terms.target
            session.retarget(slot, arguments.highest, target)
        session.connections.add(scene.connection)
        scene.session, running.slot = session, slot
        running.sequence, running.cache = arguments.sequence, arguments.cache
        pack.pack_fopaque(len(session.id), session.id)
        for word in (arguments.sequence, arguments.slot, session.highest):
            pack.pack_uint(word)
        pack.pack_uint(session.highest if slot.told is None else slot.told)
        pack.pack_uint(_ADMIN_STATE_REVOKED if self.opens.revoked(session.client) else 0)


def _decode(operation: Nfs4, source: Unpacker) -> Arguments4:
    try:
        return decode4(operation, source)
    except UnknownAttributeError:
        raise NfsError(Status4.ATTRNOTSUPP) from None
    except (EOFError, ValueError):
        raise NfsError(Status4.BADXDR) from None


def _failed(number: int, status: int) -> tuple[int, bytes]:
    words = [number, status, *([0] if number == Nfs4.SETATTR.value else [])]  # no attribute was set
    return status, b"".join(word.to_bytes(4, "big") for word in words)


def _results(status: int, tag: bytes, done: list[bytes]) -> bytes:
    """Give COMPOUND4res."""
    pack = Packer()
    pack.pack_uint(status)
    pack.pack_opaque(tag)
    pack.pack_uint(len(done))
    return pack.get_buffer() + b"".join(done)
