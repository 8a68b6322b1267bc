# SPDX-License-Identifier: GPL-2.0-only
"""COMPOUND of NFSv4.1 (RFC 8881, 2.6, 2.10, 16.2 and 18): its operations in order, and its slot."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import astuple, dataclass, field

from xdrlib3 import Unpacker

from servers.rpc import RPCSEC_GSS, Fixed, Hyper, xdr
from servers.scripted.call import Arguments, Call, Channel, Results, Stateid, decode
from servers.scripted.files import (
    DIRECTORY,
    Directory,
    Export,
    File,
    Node,
    above,
    as_directory,
    as_file,
)
from servers.scripted.nfs3 import (
    ACCESS_ALL,
    cookie_verifier,
    nfstime,
    page,
    read,
    verifier,
    write,
)
from servers.scripted.protocol import (
    FIRST_OPERATION,
    ILLEGAL_OPERATION,
    LAST_OPERATION,
    Attribute,
    Claim,
    Credentials,
    Nfs4,
    NfsError,
    Share,
    Status4,
)
from servers.scripted.state4 import (
    ANONYMOUS,
    BYPASS,
    CLOSED,
    CURRENT,
    Client,
    Opens,
    Session,
    Sessions,
    Slot,
    Terms,
)

_KERBEROS = bytes.fromhex("2a864886f712010202")  # 1.2.840.113554.1.2.2
_BEFORE_KRB5 = 390002  # the pseudo flavors of krb5 to krb5p have the service as well
_OPERATIONS = {one.value: one for one in Nfs4 if one.value >= FIRST_OPERATION}
_ALONE = {
    Nfs4.EXCHANGE_ID,
    Nfs4.CREATE_SESSION,
    Nfs4.BIND_CONN_TO_SESSION,
    Nfs4.DESTROY_SESSION,
    Nfs4.DESTROY_CLIENTID,
}  # where no SEQUENCE goes before
_REPLY_HEADERS = 36  # of RPC and COMPOUND with an empty tag
_CONN_BACK_CHAN = 2
_BOUND = {1: 1, 2: 2, 3: 3, 7: 3}  # as asked for: fore, back, fore or both, back or both
_NO_DELEGATION, _READ_DELEGATION = 0, 1
_SP4_NONE = 0
_USE_NON_PNFS, _CONFIRMED = 0x10000, 0x80000000  # EXCHGID4_FLAG_


@dataclass
class Compound:
    """One compound that is being carried out: who calls, and what operations leave to the next."""

    address: str  # of the server
    caller: Credentials
    source: Unpacker  # of what is still to be read
    size: int = 0  # of the whole message
    request: bytes = b""  # a digest of the arguments
    operations: int = 0
    position: int = 0  # of the present operation
    reply_size: int = _REPLY_HEADERS
    sequence: Arguments | None = None  # of SEQUENCE
    session: Session | None = None
    slot: Slot | None = None
    again: bool = False  # it was carried out before
    replay: bytes | None = None  # and this was the reply
    node: Node | None = None  # the current file handle
    saved: Node | None = None
    stateid: Stateid | None = None  # the current one

    # The present operation
    arguments: Arguments = field(init=False)
    answer: Results = field(init=False)
    call: Call = field(init=False)

    @property
    def client(self) -> Client:
        """The session's client."""
        if self.session is None:
            raise NfsError(Status4.OP_NOT_IN_SESSION)
        return self.session.client

    def current(self) -> Node:
        """Return what the current file handle stands for."""
        if self.node is None:
            raise NfsError(Status4.NOFILEHANDLE)
        return self.node

    def go(self, node: Node) -> None:
        """Make another file handle the current one: the stateid was not its."""
        self.node, self.stateid = node, None

    def given(self, stateid: Stateid) -> Stateid:
        """Return a stateid that is no name for the current one."""
        if stateid != CURRENT:
            return stateid
        if self.stateid is None:
            raise NfsError(Status4.BAD_STATEID)
        return self.stateid


# Logs an operation, and gives the script's answer.
Ask = Callable[[Nfs4, Compound], tuple[Call, Results]]


class Compounds:
    """Carries compounds out; each operation is the method of its name, which gives what follows OK.

    It may give None where nothing follows, and raises NfsError.
    """

    def __init__(self, export: Export, terms: Terms):
        self._export, self._files, self.terms = export, export.files, terms
        self._root = above(export)
        self.sessions, self.opens = Sessions(terms), Opens()

    def run(self, it: Compound, whole: Results, ask: Ask) -> bytes:
        """Carry a compound out as far as the script wants it, and give its results.

        Raises what `ask` does, and EOFError or ValueError where it is no compound.
        """
        source, start = it.source, it.source.get_position()
        tag, minor, it.operations = (
            source.unpack_opaque(),
            source.unpack_uint(),
            source.unpack_uint(),
        )
        if minor not in self.terms.minors:
            return xdr(Status4.MINOR_VERS_MISMATCH, tag, 0)
        if whole.status or not whole.act:
            return xdr(whole.status or Status4.SERVERFAULT, tag, 0)
        it.size = len(source.get_buffer())
        it.request = hashlib.sha256(source.get_buffer()[start:]).digest()
        status, done = 0, []
        for position in range(it.operations):
            it.position = position
            status, result = self._operation(it, ask)
            done.append(result)
            if it.replay is not None:
                return it.replay
            if status and (position == 0 or not self.terms.goes_on):
                break
        results = xdr(status, tag, len(done)) + b"".join(done)
        if it.slot is not None and it.sequence is not None and not it.again:
            it.slot.sequence, it.slot.request = it.sequence.sequence, it.request
            it.slot.reply = results if it.sequence.cache or it.operations == 1 else None
        return results

    def restart(self) -> None:
        """Begin another life."""
        self.sessions.restart()
        self.opens.restart()

    # --- one operation ---

    def _operation(self, it: Compound, ask: Ask) -> tuple[int, bytes]:
        """Carry one out; give its status, and its number and results."""
        number = ILLEGAL_OPERATION
        try:
            number = it.source.unpack_uint()
            if not FIRST_OPERATION <= number <= LAST_OPERATION:
                number = ILLEGAL_OPERATION
                raise NfsError(Status4.OP_ILLEGAL)
            operation = _OPERATIONS.get(number)
            self._check_place(operation, it)
            if operation is None:
                raise NfsError(Status4.NOTSUPP)
            if it.again:
                raise NfsError(Status4.RETRY_UNCACHED_REP)
            it.arguments = decode(operation, it.source)
        except (EOFError, ValueError):
            return _failed(number, Status4.BADXDR)
        except NfsError as error:
            return _failed(number, error.status)
        if operation is Nfs4.SEQUENCE:
            it.sequence = it.arguments
        it.call, it.answer = ask(operation, it)
        return self._carry_out(operation, it)

    def _carry_out(self, operation: Nfs4, it: Compound) -> tuple[int, bytes]:
        answer, status = it.answer, 0
        work: Callable[[Compound], bytes | None] = getattr(self, f"_{operation.name.lower()}")
        try:
            if answer.status and operation is not Nfs4.CREATE_SESSION:
                raise NfsError(answer.status)
            if not answer.act:
                raise NfsError(Status4.SERVERFAULT)
            result = xdr(operation.value, Status4.OK) + (work(it) or b"")
            self._check_size(it, len(result))
        except NfsError as error:
            status, result = _failed(operation.value, error.status)
        if answer.results is not None:
            status = int.from_bytes(answer.results[:4], "big")
            result = xdr(operation.value) + answer.results
        it.reply_size += len(result)
        it.call.status = it.call.status or status
        return status, result

    def _check_place(self, operation: Nfs4 | None, it: Compound) -> None:
        if operation is Nfs4.SEQUENCE:
            if it.position:
                raise NfsError(Status4.SEQUENCE_POS)
        elif it.position == 0 and operation not in _ALONE:
            raise NfsError(Status4.OP_NOT_IN_SESSION)
        elif it.operations > 1 and (it.position == 0 or operation is Nfs4.BIND_CONN_TO_SESSION):
            raise NfsError(Status4.NOT_ONLY_OP)

    def _check_size(self, it: Compound, added: int) -> None:
        if it.session is None or it.sequence is None or it.replay is not None:
            return
        size = it.reply_size + added
        if size > it.session.fore.max_response:
            raise NfsError(Status4.REP_TOO_BIG)
        if it.sequence.cache and size > it.session.fore.max_cached:
            raise NfsError(Status4.REP_TOO_BIG_TO_CACHE)

    def _sequence(self, it: Compound) -> bytes:
        asked, terms, call = it.arguments, self.terms, it.call
        session = self.sessions.session(asked.session)
        if it.operations > session.fore.max_operations:
            raise NfsError(Status4.TOO_MANY_OPS)
        if it.size > session.fore.max_request:
            raise NfsError(Status4.REQ_TOO_BIG)
        slot = session.slot(asked.slot)
        it.again = self.sessions.is_again(slot, asked.sequence, it.request)
        if it.again:
            call.replayed = slot.reply is not None
            call.status = 0 if call.replayed else Status4.RETRY_UNCACHED_REP
            it.replay = slot.reply
        else:
            target = session.fore.slots - 1 if terms.target is None else terms.target
            session.retarget(slot, asked.highest, target)
        it.session, it.slot = session, slot
        told = session.highest if slot.told is None else slot.told
        return xdr(Fixed(session.id), asked.sequence, asked.slot, session.highest, told, 0)

    # --- clients and sessions ---

    def _exchange_id(self, it: Compound) -> bytes:
        asked, terms, major_id = it.arguments, self.terms, self.sessions.major_id
        client = self.sessions.exchange(asked.owner, asked.verifier, it.caller.uid)
        told = terms.next_session if client.confirmed else None
        sequence = (client.sequence + 1) % (1 << 32) if told is None else told
        flags = _USE_NON_PNFS | (_CONFIRMED if client.confirmed else 0)
        owner = (Hyper(terms.minor_ids.get(it.address, 0)), major_id)
        scope, implementations = major_id, 0
        return xdr(Hyper(client.id), sequence, flags, _SP4_NONE, *owner, scope, implementations)

    def _create_session(self, it: Compound) -> bytes:
        asked, answer = it.arguments, it.answer
        client = self.sessions.client(asked.client_id)
        if answer.status in (Status4.DELAY, Status4.STALE_CLIENTID):
            raise NfsError(answer.status)  # which no slot remembers
        if self.sessions.is_new(client, asked.sequence):
            client.sequence = asked.sequence
            try:
                if answer.status:
                    raise NfsError(answer.status)
                client.created = (Status4.OK, self._new_session(it, client))
            except NfsError as error:
                client.created = (error.status, b"")
        assert client.created is not None
        status, results = client.created
        if status:
            raise NfsError(status)
        return results

    def _new_session(self, it: Compound, client: Client) -> bytes:
        asked = it.arguments
        client.confirmed = True
        session = self.sessions.create(client, asked.fore)
        flags = asked.flags & _CONN_BACK_CHAN  # on which nothing ever comes
        head = xdr(Fixed(session.id), asked.sequence, flags)
        return head + _channel_attrs4(session.fore) + _channel_attrs4(asked.back)

    def _bind_conn_to_session(self, it: Compound) -> bytes:
        session = self.sessions.session(it.arguments.session)
        if it.arguments.kind not in _BOUND:
            raise NfsError(Status4.INVAL)
        return xdr(Fixed(session.id), _BOUND[it.arguments.kind], False)

    def _destroy_session(self, it: Compound) -> None:
        session = self.sessions.session(it.arguments.session)
        del self.sessions.sessions[session.id]

    def _destroy_clientid(self, it: Compound) -> None:
        self.opens.forget(self.sessions.destroy_client(it.arguments.client_id))

    def _reclaim_complete(self, it: Compound) -> None:
        if not it.arguments.one_fs:
            self.sessions.reclaim_complete(it.client)

    # --- handles and attributes ---

    def _putrootfh(self, it: Compound) -> None:
        it.go(self._root)

    def _putfh(self, it: Compound) -> None:
        it.go(self._files.node(it.arguments.handle))

    def _savefh(self, it: Compound) -> None:
        it.saved = it.current()

    def _getfh(self, it: Compound) -> bytes:
        return xdr(self._files.tell(it.current()))

    def _lookup(self, it: Compound) -> None:
        it.go(self._files.lookup(as_directory(it.current()), it.arguments.name))

    def _secinfo(self, it: Compound) -> bytes:
        self._files.lookup(as_directory(it.current()), it.arguments.name)
        return self._flavors(it)

    def _secinfo_no_name(self, it: Compound) -> bytes:
        it.current()
        if it.arguments.kind:
            raise NfsError(Status4.NOTSUPP)  # of the directory above
        return self._flavors(it)

    def _flavors(self, it: Compound) -> bytes:
        it.node = it.stateid = None
        flavors = self._export.flavors
        return xdr(len(flavors)) + b"".join(_secinfo4(flavor) for flavor in flavors)

    def _access(self, it: Compound) -> bytes:
        it.current()
        supported = granted = it.arguments.count & ACCESS_ALL
        return xdr(supported, granted)

    def _getattr(self, it: Compound) -> bytes:
        known = self._attributes(it.current())
        told = sorted(number for number in it.arguments.wanted if number in known)
        values = xdr(*(value for number in told for value in known[number]))
        return xdr(bitmap4(told), values)

    def _attributes(self, node: Node) -> dict[int, tuple[int | str | bytes, ...]]:
        """Return those that clients ask for."""
        export, (seconds, nanoseconds) = self._export, nfstime(node.changed)
        changed = (Hyper(seconds), nanoseconds)
        known: dict[int, tuple[int | str | bytes, ...]] = {
            Attribute.TYPE: (node.kind,),
            Attribute.CHANGE: (change_of(node),),
            Attribute.SIZE: (Hyper(node.size),),
            Attribute.FSID: tuple(map(Hyper, divmod(node.fsid, 1 << 32))),
            Attribute.LEASE_TIME: (self.terms.lease,),
            Attribute.FILEHANDLE: (node.handle,),
            Attribute.FILEID: (Hyper(node.fileid),),
            Attribute.MAXREAD: (Hyper(export.rtmax),),
            Attribute.MAXWRITE: (Hyper(export.wtmax),),
            Attribute.MODE: (node.mode,),
            Attribute.NUMLINKS: (1,),
            Attribute.OWNER: (str(node.uid),),
            Attribute.OWNER_GROUP: (str(node.gid),),
            Attribute.SPACE_USED: (Hyper(node.size),),
            Attribute.TIME_ACCESS: changed,
            Attribute.TIME_METADATA: changed,
            Attribute.TIME_MODIFY: changed,
        }
        if not self.terms.tells_limits:
            del known[Attribute.MAXREAD], known[Attribute.MAXWRITE]
        set_only = (Attribute.TIME_ACCESS_SET, Attribute.TIME_MODIFY_SET)
        known[Attribute.SUPPORTED_ATTRS] = (bitmap4((0, *known, *set_only)),)
        return known

    def _setattr(self, it: Compound) -> bytes:
        node, wanted = it.current(), it.arguments.settable
        if Attribute.SIZE in wanted:
            self._check(it, as_file(node), Share.WRITE)
        node.set(wanted)
        return bitmap4(wanted)

    # --- names ---

    def _directory(self, it: Compound) -> tuple[Directory, Hyper]:
        """Return the current directory, which is to change, and its change attribute before."""
        return as_directory(it.current()), change_of(it.current())

    def _create(self, it: Compound) -> bytes:
        (directory, before), asked = self._directory(it), it.arguments
        if asked.kind != DIRECTORY:
            raise NfsError(Status4.BADTYPE)
        it.go(self._files.make_directory(directory, asked.name, it.caller, asked.settable))
        return _change_info4(before, directory) + bitmap4(asked.settable)

    def _remove(self, it: Compound) -> bytes:
        (directory, before), name = self._directory(it), it.arguments.name
        self._files.lookup(directory, name)
        self._files.remove(directory, name)
        return _change_info4(before, directory)

    def _link(self, it: Compound) -> bytes:
        directory, before = self._directory(it)
        if it.saved is None:
            raise NfsError(Status4.NOFILEHANDLE)
        self._files.link(as_file(it.saved), directory, it.arguments.name)
        return _change_info4(before, directory)

    def _readdir(self, it: Compound) -> bytes:
        directory = as_directory(it.current())
        cookies = cookie_verifier(directory, self._files, it.arguments, Status4.NOT_SAME)
        entries = list(directory.children.items())
        return page(entries, it.arguments, it.answer, cookies, nfs4=True)

    # --- opens ---

    def _open(self, it: Compound) -> bytes:
        about, asked = it.current(), it.arguments
        before = change_of(about)
        if asked.claim is Claim.PREVIOUS:
            file = as_file(about)
            self.sessions.check_reclaim(it.client)
        else:
            self.sessions.check_open(it.client)
            file = as_file(about) if asked.claim is Claim.FH else self._named(it)
        opened = self.opens.open(it.client, file, asked)
        it.node, it.stateid = file, opened.stateid
        settable = asked.creation.settable if asked.creation else ()
        flags = 0
        results = _stateid4(opened.stateid) + _change_info4(before, about)
        results += xdr(flags, bitmap4(settable))
        if not self.terms.delegates:
            return results + xdr(_NO_DELEGATION)
        delegated = _stateid4(self.opens.delegate(it.client, file))
        ace = (0, 0, 0, b"")  # which allows nobody more
        return results + xdr(_READ_DELEGATION, Fixed(delegated), False, *ace)

    def _named(self, it: Compound) -> File:
        """Return the file that OPEN names, which is made where it is to be."""
        directory, asked = as_directory(it.current()), it.arguments
        if asked.creation is None:
            return as_file(self._files.lookup(directory, asked.name))
        return self._files.create_as(directory, asked.name, it.caller, asked.creation)

    def _close(self, it: Compound) -> bytes:
        it.current()
        self.opens.close(self._given(it), it.client)
        return _stateid4(CLOSED)

    def _delegreturn(self, it: Compound) -> None:
        self.opens.take_back(it.arguments.stateid, it.client, as_file(it.current()))

    def _given(self, it: Compound) -> Stateid:
        if it.arguments.stateid == CURRENT and not self.terms.current_stateid:
            raise NfsError(Status4.BAD_STATEID)
        return it.given(it.arguments.stateid)

    def _check(self, it: Compound, file: File, access: Share) -> None:
        """Refuse to use a file by a stateid that does not allow it."""
        given = self._given(it)
        if given not in (ANONYMOUS, BYPASS):
            self.opens.check(given, it.client, file, access)
        elif self.sessions.in_grace():
            raise NfsError(Status4.GRACE)

    # --- data ---

    def _read(self, it: Compound) -> bytes:
        file = as_file(it.current())
        self._check(it, file, Share.READ)
        it.call.moved, _, results = read(file, it.arguments, it.answer, self._export.rtmax)
        return results

    def _write(self, it: Compound) -> bytes:
        file = as_file(it.current())
        self._check(it, file, Share.WRITE)
        it.call.moved, results = write(file, it.arguments, it.answer, self._export)
        return results

    def _commit(self, it: Compound) -> bytes:
        as_file(it.current()).commit(it.arguments.offset, it.arguments.count)
        return verifier(it.answer, self._files)


def change_of(node: Node) -> Hyper:
    """Return changeid4: it is another one after each change."""
    return Hyper(node.changed * 1e9)


def bitmap4(numbers: Collection[int]) -> Fixed:
    """Return the bitmap of attributes by their numbers."""
    words = [0] * (max(numbers, default=-1) // 32 + 1)
    for number in numbers:
        words[number // 32] |= 1 << number % 32
    return Fixed(xdr(len(words), *words))


def _stateid4(stateid: Stateid) -> bytes:
    return xdr(stateid.seqid, Fixed(stateid.other))


def _change_info4(before: int, node: Node) -> bytes:
    return xdr(True, Hyper(before), change_of(node))


def _secinfo4(flavor: int) -> bytes:
    if flavor <= _BEFORE_KRB5:
        return xdr(flavor)
    return xdr(RPCSEC_GSS, _KERBEROS, 0, flavor - _BEFORE_KRB5)


def _channel_attrs4(channel: Channel) -> bytes:
    pad, rdma = 0, 0
    return xdr(pad, *astuple(channel), rdma)


def _failed(number: int, status: int) -> tuple[int, bytes]:
    attributes = [0] if number == Nfs4.SETATTR.value else []  # none was set
    return status, xdr(number, status, *attributes)
