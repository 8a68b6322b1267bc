# SPDX-License-Identifier: GPL-2.0-only
"""NFSv4.1's operations but SEQUENCE (RFC 8881, 18), carried out; each writes what follows OK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdrlib3 import Packer

from nfsmulti.scripted.answer import Answer
from nfsmulti.scripted.files import DIRECTORY, Directory, File, Names, NfsError, Node
from nfsmulti.scripted.procedures import (
    ACCESS_ALL,
    FSID,
    Export,
    pack_page,
    pack_verifier,
    pack_written,
    read,
    write,
)
from nfsmulti.scripted.protocol import (
    Attribute,
    Claim,
    Create,
    Credentials,
    Exchange,
    Nfs4,
    Share,
    Status4,
)
from nfsmulti.scripted.state4 import (
    ANONYMOUS,
    BYPASS,
    CLOSED,
    CURRENT,
    Channel,
    Client,
    Opens,
    Session,
    Sessions,
    Stateid,
    Terms,
)
from nfsmulti.scripted.xdr4 import (
    Arguments4,
    ExchangeArguments,
    OpenArguments,
    SequenceArguments,
    SessionArguments,
    Subject,
    change_of,
    pack_attributes,
    pack_bitmap,
)

_CONN_BACK_CHAN = 2
_SESSION_FLAGS = 7  # that a client may set
_BOUND = {1: 1, 2: 2, 3: 3, 7: 3}  # as asked for: fore, back, fore or both, back or both
_EXCHANGE_FLAGS = 0x40070103  # that a client may set
_CHANNEL_MIN = 256  # bytes of a message that SEQUENCE fits into
_NO_DELEGATION, _READ_DELEGATION = 0, 1
_SP4_NONE = 0


@dataclass
class Scene:
    """Who calls, and what the operations of one compound leave to the next."""

    connection: int
    address: str  # of the server
    caller: Credentials
    sequence: SequenceArguments | None = None
    session: Session | None = None
    final: bool = False  # no operation follows
    node: Node | None = None  # the current file handle
    saved: Node | None = None
    stateid: Stateid | None = None  # the current one

    @property
    def client(self) -> Client:
        """The session's client."""
        if self.session is None:
            raise NfsError(Status4.OP_NOT_IN_SESSION)
        return self.session.client

    def place(self, arguments: Arguments4) -> tuple[bytes, int | None, int]:
        """Give session, slot and sequence number of an operation."""
        if isinstance(arguments, SequenceArguments):
            self.sequence = arguments
        if self.sequence is None:
            return b"", None, 0
        return self.sequence.id, self.sequence.slot, self.sequence.sequence

    def go(self, node: Node) -> None:
        """Make another file handle the current one: the stateid was not its."""
        self.node, self.stateid = node, None

    def current(self) -> Node:
        """Give what the current file handle stands for."""
        if self.node is None:
            raise NfsError(Status4.NOFILEHANDLE)
        return self.node

    def directory(self) -> Directory:
        """Give the current directory."""
        node = self.current()
        if not isinstance(node, Directory):
            raise NfsError(Status4.NOTDIR)
        return node

    def file(self) -> File:
        """Give the current file."""
        node = self.current()
        if not isinstance(node, File):
            raise NfsError(Status4.ISDIR)
        return node


_Operation = Callable[[Scene, Any, Answer, Packer], int | None]


class Operations:
    """Carries operations out."""

    def __init__(self, export: Export, terms: Terms):
        self._export, self._terms = export, terms
        self._names = Names(export.path, export.files)
        self.sessions, self.opens = Sessions(terms), Opens()
        self._exclusive: dict[File, bytes] = {}  # the verifiers they were created with
        self._table: dict[Nfs4, _Operation] = {
            Nfs4.ACCESS: self._access,
            Nfs4.CLOSE: self._close,
            Nfs4.COMMIT: self._commit,
            Nfs4.CREATE: self._create,
            Nfs4.DELEGRETURN: self._delegreturn,
            Nfs4.GETATTR: self._getattr,
            Nfs4.GETFH: self._getfh,
            Nfs4.LINK: self._link,
            Nfs4.LOOKUP: self._lookup,
            Nfs4.LOOKUPP: self._lookupp,
            Nfs4.OPEN: self._open,
            Nfs4.PUTFH: self._putfh,
            Nfs4.PUTROOTFH: self._putrootfh,
            Nfs4.READ: self._read,
            Nfs4.READDIR: self._readdir,
            Nfs4.REMOVE: self._remove,
            Nfs4.SAVEFH: self._savefh,
            Nfs4.SETATTR: self._setattr,
            Nfs4.WRITE: self._write,
            Nfs4.BIND_CONN_TO_SESSION: self._bind,
            Nfs4.EXCHANGE_ID: self._exchange,
            Nfs4.CREATE_SESSION: self._create_session,
            Nfs4.DESTROY_SESSION: self._destroy_session,
            Nfs4.FREE_STATEID: self._free,
            Nfs4.DESTROY_CLIENTID: self._destroy_client,
            Nfs4.RECLAIM_COMPLETE: self._reclaim_complete,
        }

    def run(
        self, operation: Nfs4, scene: Scene, arguments: Arguments4, answer: Answer, pack: Packer
    ) -> int:
        """Carry one out and write its results; give the bytes that it moved. Raises NfsError."""
        return self._table[operation](scene, arguments, answer, pack) or 0

    def path_of(self, scene: Scene, arguments: Arguments4) -> str:
        """Give the file that an operation is about, relative to the export; "?" if stale."""
        node = scene.node
        if arguments.handle:
            try:
                node = self._names.node(arguments.handle)
            except NfsError:
                return "?"
        path = "" if node is None else node.path
        if not arguments.name:
            return path
        return f"{path.rstrip('/')}/{arguments.name}" if path else arguments.name

    def forget(self, client: Client) -> None:
        """Forget a client with all it has."""
        self.opens.forget(client)
        self.sessions.forget(client)

    # --- clients and sessions ---

    def _exchange(self, scene: Scene, wanted: ExchangeArguments, _: Answer, pack: Packer) -> None:
        if wanted.flags & ~_EXCHANGE_FLAGS:
            raise NfsError(Status4.INVAL)
        if wanted.protect != _SP4_NONE:
            raise NfsError(Status4.NOTSUPP)
        update = bool(wanted.flags & Exchange.UPDATE)
        client = self.sessions.exchange(wanted.id, wanted.verifier, scene.caller.uid, update)
        confirmed = Exchange.CONFIRMED if client.confirmed else Exchange(0)
        pack.pack_uhyper(client.id)
        told = self._terms.next_session if client.confirmed else None
        pack.pack_uint((client.sequence + 1) % (1 << 32) if told is None else told)
        pack.pack_uint(Exchange.USE_NON_PNFS | confirmed)
        pack.pack_uint(_SP4_NONE)
        pack.pack_uhyper(self._terms.minor_ids.get(scene.address, 0))
        pack.pack_opaque(self.sessions.major_id)
        pack.pack_opaque(self.sessions.major_id)  # the scope
        pack.pack_uint(0)  # nothing of the implementation

    def _create_session(
        self, scene: Scene, wanted: SessionArguments, answer: Answer, pack: Packer
    ) -> None:
        client = self.sessions.client(int.from_bytes(wanted.id, "big"))
        if answer.status in (Status4.DELAY, Status4.STALE_CLIENTID):
            raise NfsError(answer.status)  # which no slot remembers
        if self.sessions.lapsed(client):
            self.forget(client)
            raise NfsError(Status4.STALE_CLIENTID)
        if not client.confirmed and client.user != scene.caller.uid:
            raise NfsError(Status4.CLID_INUSE)
        if wanted.flags & ~_SESSION_FLAGS:
            raise NfsError(Status4.INVAL)
        if self.sessions.is_new(client, wanted.sequence):
            client.sequence = wanted.sequence
            try:
                if answer.status:
                    raise NfsError(answer.status)
                client.created = (Status4.OK, self._new_session(scene, client, wanted))
            except NfsError as error:
                client.created = (error.status, b"")
        assert client.created is not None
        status, results = client.created
        if status:
            raise NfsError(status)
        pack.pack_fopaque(len(results), results)

    def _new_session(self, scene: Scene, client: Client, wanted: SessionArguments) -> bytes:
        if min(wanted.fore.max_request, wanted.fore.max_response) < _CHANNEL_MIN:
            raise NfsError(Status4.TOOSMALL)
        former = self.sessions.confirm(client)
        if former is not None:
            self.opens.forget(former)
        session = self.sessions.create(client, wanted.fore, scene.connection)
        pack = Packer()
        pack.pack_fopaque(len(session.id), session.id)
        pack.pack_uint(wanted.sequence)
        pack.pack_uint(wanted.flags & _CONN_BACK_CHAN)  # on which nothing ever comes
        _pack_channel(pack, session.fore)
        _pack_channel(pack, wanted.back)
        return pack.get_buffer()

    def _bind(self, scene: Scene, wanted: Arguments4, _: Answer, pack: Packer) -> None:
        session = self.sessions.session(wanted.id)
        if wanted.kind not in _BOUND:
            raise NfsError(Status4.INVAL)
        session.connections.add(scene.connection)
        pack.pack_fopaque(len(session.id), session.id)
        pack.pack_uint(_BOUND[wanted.kind])
        pack.pack_bool(False)

    def _destroy_session(self, scene: Scene, wanted: Arguments4, _: Answer, __: Packer) -> None:
        session = self.sessions.session(wanted.id)
        if scene.connection not in session.connections:
            raise NfsError(Status4.CONN_NOT_BOUND_TO_SESSION)
        if scene.session is session and not scene.final:
            raise NfsError(Status4.NOT_ONLY_OP)
        del self.sessions.sessions[session.id]

    def _destroy_client(self, _: Scene, wanted: Arguments4, __: Answer, ___: Packer) -> None:
        self.opens.forget(self.sessions.destroy_client(int.from_bytes(wanted.id, "big")))

    def _reclaim_complete(self, scene: Scene, wanted: Arguments4, _: Answer, __: Packer) -> None:
        if not wanted.flag:
            self.sessions.reclaim_complete(scene.client)

    # --- handles and attributes ---

    def _putrootfh(self, scene: Scene, _: Arguments4, __: Answer, ___: Packer) -> None:
        scene.go(self._names.root)

    def _putfh(self, scene: Scene, wanted: Arguments4, _: Answer, __: Packer) -> None:
        scene.go(self._names.node(wanted.handle))

    def _savefh(self, scene: Scene, _: Arguments4, __: Answer, ___: Packer) -> None:
        scene.saved = scene.current()

    def _getfh(self, scene: Scene, _: Arguments4, __: Answer, pack: Packer) -> None:
        pack.pack_opaque(scene.current().handle)

    def _lookup(self, scene: Scene, wanted: Arguments4, _: Answer, __: Packer) -> None:
        scene.go(self._names.lookup(scene.directory(), wanted.name))

    def _lookupp(self, scene: Scene, _: Arguments4, __: Answer, ___: Packer) -> None:
        scene.go(self._names.parent(scene.directory()))

    def _access(self, scene: Scene, wanted: Arguments4, _: Answer, pack: Packer) -> None:
        scene.current()
        pack.pack_uint(wanted.count & ACCESS_ALL)
        pack.pack_uint(wanted.count & ACCESS_ALL)

    def _getattr(self, scene: Scene, wanted: Arguments4, _: Answer, pack: Packer) -> None:
        node, export = scene.current(), self._export
        fsid = 0 if self._names.leads(node) else FSID
        subject = Subject(node, fsid, self._terms.lease, export.rtmax, export.wtmax)
        pack_attributes(pack, subject, wanted.wanted)

    def _setattr(self, scene: Scene, wanted: Arguments4, _: Answer, pack: Packer) -> None:
        node = self._changeable(scene.current())
        if Attribute.SIZE in wanted.settable:
            self._check(scene, wanted.stateid, scene.file(), Share.WRITE)
        _apply(node, wanted.settable)
        pack_bitmap(pack, wanted.settable)

    # --- names ---

    def _changeable(self, node: Node) -> Node:
        if self._names.leads(node):
            raise NfsError(Status4.ROFS)
        return node

    def _create(self, scene: Scene, wanted: Arguments4, _: Answer, pack: Packer) -> None:
        directory, files = scene.directory(), self._export.files
        self._changeable(directory)
        if wanted.kind != DIRECTORY:
            raise NfsError(Status4.BADTYPE)
        before = change_of(directory)
        mode = wanted.settable.get(Attribute.MODE, 0o755)
        caller = scene.caller
        scene.go(files.make_directory(directory, wanted.name, mode, caller.uid, caller.gid))
        _pack_change(pack, before, directory)
        pack_bitmap(pack, wanted.settable)

    def _remove(self, scene: Scene, wanted: Arguments4, _: Answer, pack: Packer) -> None:
        directory, files = scene.directory(), self._export.files
        self._changeable(directory)
        before = change_of(directory)
        if isinstance(self._names.lookup(directory, wanted.name), Directory):
            files.remove_directory(directory, wanted.name)
        else:
            files.remove(directory, wanted.name)
        _pack_change(pack, before, directory)

    def _link(self, scene: Scene, wanted: Arguments4, _: Answer, pack: Packer) -> None:
        directory, file = scene.directory(), scene.saved
        self._changeable(directory)
        if not isinstance(file, File):
            raise NfsError(Status4.ISDIR if file else Status4.NOFILEHANDLE)
        before = change_of(directory)
        self._export.files.link(file, directory, wanted.name)
        _pack_change(pack, before, directory)

    def _readdir(self, scene: Scene, wanted: Arguments4, answer: Answer, pack: Packer) -> None:
        pack_page(pack, list(scene.directory().children.items()), wanted, answer, nfs4=True)

    # --- opens ---

    def _open(self, scene: Scene, wanted: OpenArguments, _: Answer, pack: Packer) -> None:
        about = scene.current()
        before = change_of(about)
        if wanted.claim is Claim.PREVIOUS:
            file = scene.file()
            self.sessions.check_reclaim(scene.client, file)
        else:
            self.sessions.check_open(scene.client)
            file = scene.file() if wanted.claim is Claim.FH else self._named(scene, wanted)
        opened = self.opens.open(scene.client, wanted.id, file, wanted.access, wanted.deny)
        scene.node, scene.stateid = file, opened.stateid
        _pack_stateid(pack, opened.stateid)
        _pack_change(pack, before, about)
        pack.pack_uint(0)  # flags
        pack_bitmap(pack, wanted.settable)
        if self._terms.delegates:
            _pack_delegation(pack, self.opens.delegate(scene.client, file))
        else:
            pack.pack_uint(_NO_DELEGATION)

    def _named(self, scene: Scene, wanted: OpenArguments) -> File:
        """Give the file that OPEN names, which is made where it is to be."""
        directory = scene.directory()
        if wanted.how is None:
            found = self._names.lookup(directory, wanted.name)
        else:
            self._changeable(directory)
            found = self._made(scene, directory, wanted)
        if not isinstance(found, File):
            raise NfsError(Status4.ISDIR)
        return found

    def _made(self, scene: Scene, directory: Directory, wanted: OpenArguments) -> Node:
        found = directory.children.get(wanted.name)
        if found is None:
            caller = scene.caller
            made = self._export.files.create(directory, wanted.name, 0o644, caller.uid, caller.gid)
            _apply(made, wanted.settable)
            if wanted.verifier:
                self._exclusive[made] = wanted.verifier
            return made
        again = isinstance(found, File) and self._exclusive.get(found) == wanted.verifier != b""
        if wanted.how is not Create.UNCHECKED and not again:
            raise NfsError(Status4.EXIST)
        if isinstance(found, File) and wanted.settable.get(Attribute.SIZE) == 0:
            found.resize(0)
        return found

    def _close(self, scene: Scene, wanted: Arguments4, _: Answer, pack: Packer) -> None:
        scene.current()
        self.opens.close(self._given(scene, wanted.stateid), scene.client)
        _pack_stateid(pack, CLOSED)

    def _delegreturn(self, scene: Scene, wanted: Arguments4, _: Answer, __: Packer) -> None:
        self.opens.take_back(wanted.stateid, scene.client, scene.file())

    def _free(self, scene: Scene, wanted: Arguments4, _: Answer, __: Packer) -> None:
        self.opens.free(self._given(scene, wanted.stateid), scene.client)

    def _given(self, scene: Scene, stateid: Stateid) -> Stateid:
        """Give a stateid that is no name for the current one."""
        if stateid != CURRENT:
            return stateid
        if scene.stateid is None:
            raise NfsError(Status4.BAD_STATEID)
        return scene.stateid

    def _check(self, scene: Scene, stateid: Stateid, file: File, access: Share) -> None:
        given = self._given(scene, stateid)
        if given not in (ANONYMOUS, BYPASS):
            self.opens.check(given, scene.client, file, access)
        elif self.sessions.in_grace():
            raise NfsError(Status4.GRACE)
        elif self.opens.denies(file, access):
            raise NfsError(Status4.LOCKED)

    # --- data ---

    def _read(self, scene: Scene, wanted: Arguments4, answer: Answer, pack: Packer) -> int:
        file = scene.file()
        self._check(scene, wanted.stateid, file, Share.READ)
        return read(pack, file, wanted, answer, self._export.rtmax, nfs4=True)

    def _write(self, scene: Scene, wanted: Arguments4, answer: Answer, pack: Packer) -> int:
        file = scene.file()
        self._check(scene, wanted.stateid, file, Share.WRITE)
        written = write(file, wanted, answer, self._export.wtmax)
        pack_written(pack, written, answer, self._export.files)
        return written[0]

    def _commit(self, scene: Scene, wanted: Arguments4, answer: Answer, pack: Packer) -> None:
        scene.file().commit(wanted.offset, wanted.count)
        pack_verifier(pack, answer, self._export.files)


def _apply(node: Node, settable: dict[Attribute, int]) -> None:
    if Attribute.SIZE in settable:
        if not isinstance(node, File):
            raise NfsError(Status4.ISDIR)
        node.resize(settable[Attribute.SIZE])
    node.mode = settable.get(Attribute.MODE, node.mode)


def _pack_stateid(pack: Packer, stateid: Stateid) -> None:
    pack.pack_uint(stateid.seqid)
    pack.pack_fopaque(len(stateid.other), stateid.other)


def _pack_delegation(pack: Packer, stateid: Stateid) -> None:
    """Write open_read_delegation4: it was not recalled yet, and an ACE that allows nobody more."""
    pack.pack_uint(_READ_DELEGATION)
    _pack_stateid(pack, stateid)
    pack.pack_bool(False)
    for word in (0, 0, 0):
        pack.pack_uint(word)
    pack.pack_string(b"")


def _pack_change(pack: Packer, before: int, node: Node) -> None:
    """Write change_info4."""
    pack.pack_bool(True)
    pack.pack_uhyper(before)
    pack.pack_uhyper(change_of(node))


def _pack_channel(pack: Packer, channel: Channel) -> None:
    pack.pack_uint(0)  # no padding
    pack.pack_uint(channel.max_request)
    pack.pack_uint(channel.max_response)
    pack.pack_uint(channel.max_cached)
    pack.pack_uint(channel.max_operations)
    pack.pack_uint(channel.slots)
    pack.pack_uint(0)  # no RDMA
