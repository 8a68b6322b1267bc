# SPDX-License-Identifier: GPL-2.0-only
"""A server of MOUNT, NFS version 3 and 4.1 for tests, which answers as a script tells it to.

with ScriptedServer(on(Nfs.READ, Answer(status=Status.JUKEBOX), first=3)) as server:
    server.create("file", bytes(1 << 20))
    ... run a client on server.pool() ...
    assert len({call.xid for call in server.calls(Nfs.READ)}) == 4

NFSv4.1's operations are scripted as NFSv3's procedures are:

with ScriptedServer(
    on(Nfs4.WRITE, Answer(end="reset", reply=False), nth=5),  # carried out; the reply is lost
    terms=Terms(slots=4),
) as server:
    ... run a client on server.url(version=4) ...
    assert server.calls(Nfs4.WRITE)[4].status == Status4.OK
    assert not server.kept().clients

Each connection has a thread, in which hooks are called, plain functions of the test; one at a time,
whatever connection that is. Everything else may be called from any thread, hooks included.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from xdrlib3 import Unpacker

from servers.listening import Listener
from servers.rpc import (
    MOUNT,
    NFS,
    AcceptStat,
    AuthStat,
    accepted,
    denied,
    mark,
    message,
    receive_record,
    record,
    rpc_mismatch,
    xdr,
)
from servers.scripted.core import Ask, Core, Kept, Terms
from servers.scripted.files import DIRECTORY, REGULAR, Export
from servers.scripted.protocol import (
    MOUNT3,
    NFS3,
    NFS4,
    SOUND,
    Answer,
    Call,
    Claim,
    Mount,
    Nfs,
    Nfs4,
    NfsError,
    Procedure,
    RpcCall,
    Stable,
    Status,
    Status4,
    parse_call,
)

DATA: tuple[Procedure, ...] = (Nfs.READ, Nfs.WRITE, Nfs.COMMIT)
DATA4: tuple[Procedure, ...] = (Nfs4.READ, Nfs4.WRITE, Nfs4.COMMIT)
_FIRST_UNRESERVED_PORT = 1024
_BIND_TRIES = 32
_LINGER_NOT = struct.pack("ii", 1, 0)
_POLL = 0.05
_RECORD_MAX = 128 << 20


# --- scripts ---


# Gets a call and returns its Answer, or None for no opinion; the first Answer of all hooks wins.
Hook = Callable[[Call], Answer | None]


def on(
    procedures: Procedure | Sequence[Procedure],
    answer: Answer,
    *,
    nth: int | None = None,
    first: int | None = None,
    after: int = 0,
    every: int = 1,
) -> Hook:
    """Answer calls of these procedures so: all, the nth, the first few, those after some.

    `every` picks every nth of them.
    """
    wanted = (procedures,) if isinstance(procedures, Nfs | Mount | Nfs4) else tuple(procedures)

    def hook(call: Call) -> Answer | None:
        last = call.nth if first is None else first
        due = after < call.nth <= last and nth in (None, call.nth) and call.nth % every == 0
        return answer if due and call.procedure in wanted else None

    return hook


def reserved_ports_only(call: Call) -> Answer | None:
    """Refuse callers from unprivileged ports, as an export that is "secure" does."""
    if call.client[1] < _FIRST_UNRESERVED_PORT:
        return None
    return Answer(act=False, rpc=denied(AuthStat.TOOWEAK))


# --- its connections ---


class Connection:
    """One client's connection, number `number` among those to its port.

    Whoever calls serve() closes its socket then.
    """

    def __init__(
        self, host: ScriptedServer, accepted_socket: socket.socket, number: int, program: int
    ):
        self.number = number
        self.client: tuple[str, int] = accepted_socket.getpeername()[:2]
        self.server: tuple[str, int] = accepted_socket.getsockname()[:2]
        self._host = host
        self._socket = accepted_socket
        self._program = program
        self._sending = threading.Lock()
        self._closing = False
        self._ended = threading.Event()

    def reset(self, how: int = socket.SHUT_RD) -> None:
        """End the connection by RST, and what waits for it: to send as well, by SHUT_RDWR."""
        self._ended.set()
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            self._socket.shutdown(how)

    def close(self) -> None:
        """End the connection by FIN; what the client still sends is read and forgotten."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    # --- receiving ---

    def serve(self) -> None:
        """Serve it to its end, which is an OSError."""
        try:
            while True:
                data = receive_record(self)
                self._check()
                if not self._closing:
                    self._handle(data)
        finally:
            self._ended.set()

    def recv(self, count: int) -> bytes:
        """Receive a part of a record, where the server reads."""
        if count > _RECORD_MAX:
            raise ConnectionAbortedError
        while not self._host.reading.wait(_POLL):
            self._check()
        return self._socket.recv(count)

    def _check(self) -> None:
        if self._ended.is_set():
            raise ConnectionAbortedError

    # --- answering ---

    def _handle(self, data: bytes) -> None:
        host, call, how = self._host, None, SOUND
        versions = {3: MOUNT3} if self._program == MOUNT else {3: NFS3, 4: NFS4}
        if not host.terms.minors:
            versions.pop(4, None)
        try:
            rpc = parse_call(data, self._program, versions)
        except (EOFError, ValueError):
            raise ConnectionAbortedError from None
        rest = rpc.refusal
        if rest is None:
            try:
                with host.lock:
                    self._check()
                    call, how, results = host.carry_out(self, rpc)
                rest = accepted(AcceptStat.SUCCESS, results) if how.rpc is None else how.rpc
            except (EOFError, ValueError):
                rest = accepted(AcceptStat.GARBAGE_ARGS)
        deliver = partial(self._deliver, call, how, message(rpc.xid, rest))
        if how.delay or how.pause:  # further calls are read meanwhile
            threading.Thread(target=deliver, daemon=True).start()
        else:
            deliver()

    # --- sending ---

    def _deliver(self, call: Call | None, how: Answer, reply: bytes) -> None:
        if self._ended.wait(how.delay):
            return
        with contextlib.suppress(OSError):
            if how.reply:
                self._send(how.sent(reply), call, how.chunk, how.pause)
        if how.end == "reset":
            self.reset()
        elif how.end == "close":
            self.close()

    def _send(self, data: bytes, call: Call | None, chunk: int, pause: float) -> None:
        """Send a reply; what follows from its arrival is later than its call is answered."""
        with self._sending:
            for at in range(0, len(data), chunk or len(data) or 1):
                if call:
                    call.answered = time.monotonic()
                self._socket.sendall(data[at : at + (chunk or len(data))])
                if chunk and self._ended.wait(pause):
                    return


# --- the server ---


class ScriptedServer:
    """A server of MOUNT, NFS version 3 and NFS version 4.1 on ports of the kernel's choice.

    Use it in a `with`; an exception of a hook is raised at its end. Each of `addresses` serves the
    same files on the same two ports.
    """

    def __init__(
        self,
        *hooks: Hook,
        addresses: Sequence[str] = ("127.0.0.1",),
        export: Export | None = None,
        nfs_port: int = 0,
        mount_port: int = 0,
        receive_buffer: int | None = None,
        terms: Terms | None = None,
    ):
        self.hooks = list(hooks)
        self.export = export or Export()
        self.terms = terms or Terms()
        self.core = Core(self.export, self.terms)
        self.addresses = tuple(addresses)
        self._receive_buffer = receive_buffer
        self._log: list[Call] = []
        self._counts = Counter[Procedure]()
        self._failure: BaseException | None = None
        self._connections: set[Connection] = set()
        self._numbers = {NFS: itertools.count(), MOUNT: itertools.count()}  # of connections
        nfs, mount = self._listen(NFS, nfs_port), self._listen(MOUNT, mount_port)
        self._listeners = [*nfs, *mount]
        self.nfs_port, self._mount_port = nfs[0].port, mount[0].port
        self._timers: list[threading.Timer] = []
        self.lock = threading.RLock()
        self.reading = threading.Event()
        self.reading.set()

    def __enter__(self) -> Self:
        for listener in self._listeners:
            listener.accept()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()
        for listener in self._listeners:
            listener.end()
        for connection in tuple(self._connections):
            connection.reset(socket.SHUT_RDWR)
        for listener in self._listeners:
            listener.join()
        if self._failure is not None and kind is None:
            raise self._failure

    # --- where it is ---

    def url(self, address: str | None = None, *, version: int = 3, **arguments: object) -> str:
        """Return the export's URL at an address (the first one), of NFSv3 or, for 4, of NFSv4.1."""
        host = address or self.addresses[0]
        host = f"[{host}]" if ":" in host else host
        words: dict[str, object] = {"nfsport": self.nfs_port, "mountport": self._mount_port}
        if version == 4:
            host, words = f"{host}:{self.nfs_port}", {"version": "4.1"}
        query = "&".join(f"{key}={value}" for key, value in {**words, **arguments}.items())
        return f"nfs://{host}{self.export.path}?{query}"

    def pool(self, *, version: int = 3, **arguments: object) -> str:
        """Return the pool of all addresses."""
        return ",".join(self.url(one, version=version, **arguments) for one in self.addresses)

    # --- what it got ---

    def calls(self, *procedures: Procedure) -> list[Call]:
        """Return the calls so far in the order of their arrival; of these procedures, or all."""
        log = self._log[:]
        return [call for call in log if call.procedure in procedures] if procedures else log

    def kept(self) -> Kept:
        """Return what the server keeps of clients of NFSv4.1."""
        return self.core.kept()

    # --- its files ---

    def create(self, path: str, content: bytes = b"") -> None:
        """Make a file with durable content, and the directories above it."""
        *parents, name = path.split("/")
        directory = self.export.root
        for parent in parents:
            if parent not in directory.children:
                self.export.make(DIRECTORY, directory, parent)
            directory = directory.children[parent]
        file = self.export.make(REGULAR, directory, name)
        file.current[:] = file.durable[:] = content

    def content(self, path: str) -> bytes:
        """Return what a READ of a file would see; raises NfsError where there is none."""
        return bytes(self.export.find(path).must_be(REGULAR).current)

    def durable(self, path: str) -> bytes:
        """Return what of a file a restart would leave; raises NfsError where there is none."""
        return bytes(self.export.find(path).must_be(REGULAR).durable)

    def all_durable(self) -> dict[str, bytes]:
        """Return what a restart would leave of all files, by name."""
        return {file.path: bytes(file.durable) for file in self.export.files()}

    # --- what may happen to it ---

    def restart(self) -> None:
        """Lose what was not committed and all connections.

        NFSv4.1's clients, sessions and opens are forgotten. A grace period begins, which for each
        client ends with its RECLAIM_COMPLETE.
        """
        with self.lock:
            self.export.restart()
            self.core.restart()
            self.reset_connections()

    def new_verifier(self) -> None:
        """Lose what was not committed, but no connection."""
        with self.lock:
            self.export.restart()

    def end_sessions(self) -> None:
        """Forget all sessions of NFSv4.1, but no client."""
        with self.lock:
            self.core.end_sessions()

    def reset_connections(self) -> None:
        """End all connections by RST."""
        with self.lock:
            for connection in tuple(self._connections):
                connection.reset()

    def stop_reading(self) -> None:
        """Read nothing from any connection until `reading` is set, so that clients cannot send."""
        self.reading.clear()

    def refuse(self, address: str | None = None) -> None:
        """Refuse new connections, at one address or all."""
        for listener in self._listeners:
            if address in (None, listener.address):
                listener.refuse()

    def stall(self) -> None:
        """Leave new connections without any answer: the queues are full."""
        for listener in self._listeners:
            listener.stall()

    def accept(self) -> None:
        """Go on after refuse() or stall()."""
        for listener in self._listeners:
            listener.accept()

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something after a while."""
        timer = threading.Timer(seconds, action)
        self._timers.append(timer)
        timer.start()

    # --- calls ---

    def carry_out(self, connection: Connection, rpc: RpcCall) -> tuple[Call, Answer, bytes]:
        """Carry a call out: it, or each operation, is logged, and its answer asked of the hooks."""
        asked: list[tuple[Call, Answer]] = []

        def ask(procedure: Procedure, **arguments: Any) -> tuple[Call, Answer]:
            self._counts[procedure] += 1
            call = Call(
                procedure=procedure,
                xid=rpc.xid,
                connection=connection.number,
                client=connection.client,
                server=connection.server,
                credentials=rpc.credentials,
                nth=self._counts[procedure],
                **arguments,
            )
            self._log.append(call)
            asked.append((call, self._decide(call)))
            return asked[-1]

        results = self._results(rpc, ask)
        how = next((answer for _, answer in asked if answer.says_something()), SOUND)
        return asked[0][0], how, results

    def _results(self, rpc: RpcCall, ask: Ask) -> bytes:
        if rpc.procedure is Mount.MNT:
            path = Unpacker(rpc.arguments).unpack_string().decode(errors="surrogateescape")
            return self._mount(path, ask(rpc.procedure, name=path, file=path)[1])
        if isinstance(rpc.procedure, Nfs):
            return self.core.nfs3(rpc.procedure, rpc.arguments, ask)
        call, answer = ask(rpc.procedure)
        if rpc.procedure is Nfs4.COMPOUND:
            return self.core.compound(call, answer, rpc, ask)
        return b""

    def _mount(self, path: str, answer: Answer) -> bytes:
        """Return the export, or a directory below it (RFC 1813, appendix I)."""
        below = path.removeprefix(self.export.path)
        if refusal := answer.refusal():
            return xdr(refusal)
        if below == path or below[:1] not in ("", "/"):
            return xdr(Status.NOENT)
        try:
            root, flavors = self.export.find(below).must_be(DIRECTORY), self.export.flavors
        except NfsError as error:
            return xdr(error.status)
        return xdr(Status.OK, root.handle, len(flavors), *flavors)

    def _decide(self, call: Call) -> Answer:
        try:
            answer = next(filter(None, (hook(call) for hook in self.hooks)), SOUND)
            if answer.do is not None:
                answer.do(self)
            return answer
        except Exception as error:
            self._failure = self._failure or error
            return SOUND

    # --- its sockets ---

    def _listen(self, program: int, wanted: int) -> list[Listener]:
        """Listen at all addresses on one port: the wanted one, or (0) one that is free at all."""
        for _ in range(_BIND_TRIES):
            listeners: list[Listener] = []
            try:
                for address in self.addresses:
                    port = listeners[0].port if listeners else wanted
                    adopt = partial(self._adopt, program)
                    listeners.append(Listener(address, port, adopt, self._receive_buffer))
            except OSError as error:
                for listener in listeners:
                    listener.end()
                if wanted or not listeners or error.errno != errno.EADDRINUSE:
                    raise
            else:
                return listeners
        raise OSError(errno.EADDRINUSE, "no port is free at all addresses")

    def _adopt(self, program: int, accepted: socket.socket) -> Callable[[], None]:
        """Return what serves a new connection."""
        connection = Connection(self, accepted, next(self._numbers[program]), program)
        self._connections.add(connection)
        return partial(self._serve, connection)

    def _serve(self, connection: Connection) -> None:
        try:
            connection.serve()
        except OSError:
            raise
        except Exception as error:
            self._failure = self._failure or error
        finally:
            self._connections.discard(connection)
