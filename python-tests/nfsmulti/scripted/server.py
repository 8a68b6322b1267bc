# SPDX-License-Identifier: GPL-2.0-only
"""The scripted server: its sockets, its thread, its log, and what a test may do to it.

It runs in a thread of its own, so hooks are plain functions of the test; they are called in that
thread. Everything else may be called from any thread, hooks included.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Self, TypeVar

from nfsmulti.scripted.answer import SOUND, Answer, Call, Connection, Hook, Program
from nfsmulti.scripted.compound import Compounds, UnheardError
from nfsmulti.scripted.files import Directory, File, NfsError
from nfsmulti.scripted.operations4 import Scene
from nfsmulti.scripted.procedures import Asked, Export, Procedures, decode
from nfsmulti.scripted.protocol import Mount, Nfs, Nfs4, Procedure, RpcCall
from nfsmulti.scripted.state4 import Client, Open, Session, Terms
from nfsmulti.scripted.xdr4 import Arguments4, OpenArguments

_BACKLOG = 256
_START_SECONDS = _STOP_SECONDS = 60.0
_BIND_TRIES = 32
_FULL_SECONDS = 0.5  # a connection on this machine that takes longer finds the queue full

_Item = TypeVar("_Item")


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
        self._procedures = Procedures(self.export)
        self._compounds = Compounds(self.export, self.terms)
        self.addresses = tuple(addresses)
        self._receive_buffer = receive_buffer
        self._log: list[Call] = []
        self._counts: dict[Procedure, int] = {}
        self._logged = threading.Condition()
        self._failure: BaseException | None = None
        self._connections: set[Connection] = set()
        self._numbers: dict[Program, Iterator[int]] = {
            Nfs: itertools.count(),
            Mount: itertools.count(),
        }
        self._listeners = [
            *self._listen(Nfs, nfs_port),
            *self._listen(Mount, mount_port),
        ]
        self._thread = threading.Thread(target=self._run, name="scripted NFS server", daemon=True)
        self._started: Future[None] = Future()
        self._timers: list[asyncio.TimerHandle] = []
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self.reading: asyncio.Event

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(_START_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise RuntimeError("the scripted server does not end")
        if self._failure is not None and kind is None:
            raise self._failure

    # --- where it is ---

    @property
    def nfs_port(self) -> int:
        """The NFS port."""
        return next(one.port for one in self._listeners if one.program is Nfs)

    @property
    def mount_port(self) -> int:
        """The MOUNT port."""
        return next(one.port for one in self._listeners if one.program is Mount)

    def url(self, address: str | None = None, **arguments: object) -> str:
        """Give the export's URL at an address (the first one), with further arguments."""
        host = address or self.addresses[0]
        words = {"nfsport": self.nfs_port, "mountport": self.mount_port, **arguments}
        return f"nfs://{_bracketed(host)}{self.export.path}?{_query(words)}"

    def url4(self, address: str | None = None, **arguments: object) -> str:
        """Give the export's URL of NFSv4.1 at an address (the first one)."""
        host = _bracketed(address or self.addresses[0])
        words = {"version": "4.1", **arguments}
        return f"nfs://{host}:{self.nfs_port}{self.export.path}?{_query(words)}"

    def pool(self, **arguments: object) -> str:
        """Give the pool of all addresses."""
        return ",".join(self.url(address, **arguments) for address in self.addresses)

    def pool4(self) -> str:
        """Give the pool of all addresses, by NFSv4.1."""
        return ",".join(self.url4(address) for address in self.addresses)

    # --- what it got ---

    def calls(self, *procedures: Procedure) -> list[Call]:
        """Give the calls so far in the order of their arrival; of these procedures, or all."""
        log = self._log[:]
        return [call for call in log if call.procedure in procedures] if procedures else log

    def clients(self) -> list[Client]:
        """Give the client IDs of NFSv4.1 that there are."""
        return list(self._compounds.sessions.clients.values())

    def sessions(self) -> list[Session]:
        """Give the sessions of NFSv4.1 that there are."""
        return list(self._compounds.sessions.sessions.values())

    def opens(self) -> list[Open]:
        """Give what clients of NFSv4.1 have open."""
        return list(self._compounds.opens.all.values())

    def wait_for(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until the condition holds, which is looked at after each call."""
        with self._logged:
            if not self._logged.wait_for(condition, seconds):
                raise TimeoutError(f"not in {seconds} s: the server has got {len(self._log)} calls")

    # --- its files ---

    def create(self, path: str, content: bytes = b"") -> None:
        """Make a file with durable content, and the directories above it."""
        *parents, name = path.split("/")
        directory = self.export.files.root
        for parent in parents:
            found = directory.children.get(parent)
            if found is None:
                found = self.export.files.make_directory(directory, parent, 0o755, 0, 0)
            if not isinstance(found, Directory):
                raise NotADirectoryError(path)
            directory = found
        file = self.export.files.create(directory, name, 0o644, 0, 0)
        file.current[:] = file.durable[:] = content

    def content(self, path: str) -> bytes:
        """Give what a READ of a file would see; raises FileNotFoundError."""
        return bytes(self._file(path).current)

    def durable(self, path: str) -> bytes:
        """Give what of a file a restart would leave; raises FileNotFoundError."""
        return bytes(self._file(path).durable)

    def all_durable(self) -> dict[str, bytes]:
        """Give what a restart would leave of all files, by name."""

        def below(directory: Directory, above: str) -> Iterator[tuple[str, bytes]]:
            for name, node in list(directory.children.items()):
                if isinstance(node, Directory):
                    yield from below(node, f"{above}{name}/")
                elif isinstance(node, File):
                    yield above + name, bytes(node.durable)

        return dict(below(self.export.files.root, ""))

    def _file(self, path: str) -> File:
        try:
            node = self.export.files.find(path)
        except NfsError:
            raise FileNotFoundError(path) from None
        if not isinstance(node, File):
            raise IsADirectoryError(path)
        return node

    # --- what may happen to it ---

    def restart(self, down: float = 0.0) -> None:
        """Lose what was not committed and all connections; answer again after `down` seconds.

        NFSv4.1's clients, sessions and opens are forgotten. A grace period begins for the clients
        that there were: it ends when each has sent RECLAIM_COMPLETE, after Terms.grace seconds, or
        by end_grace().
        """

        def die() -> None:
            self.export.files.restart()
            self._compounds.restart()
            if down:
                self.refuse()
                self.later(down, self.accept)
            self.reset_connections()

        self._do(die)

    def new_verifier(self) -> None:
        """Lose what was not committed, but no connection."""
        self._do(self.export.files.restart)

    def end_grace(self) -> None:
        """End the grace period of a restart."""
        self._do(self._compounds.sessions.end_grace)

    def expire(self) -> None:
        """Forget all clients of NFSv4.1 with all they have, as where their leases have ended."""
        self._do(self._compounds.expire)

    def end_sessions(self) -> None:
        """Forget all sessions of NFSv4.1, but no client."""
        self._do(lambda: self._compounds.sessions.sessions.clear())

    def revoke(self) -> None:
        """Revoke all that clients of NFSv4.1 have open."""
        self._do(self._compounds.opens.revoke)

    def reset_connections(self) -> None:
        """End all connections by RST."""
        self._do_each(lambda: self._connections, Connection.reset)

    def stop_reading(self) -> None:
        """Read nothing more from any connection, so that clients cannot send."""
        self._do(lambda: self.reading.clear())

    def read_again(self) -> None:
        """Go on after stop_reading()."""
        self._do(lambda: self.reading.set())

    def refuse(self, address: str | None = None) -> None:
        """Refuse new connections, at one address or all."""
        self._do_each(lambda: self._listeners_at(address), _Listener.refuse)

    def stall(self, address: str | None = None) -> None:
        """Leave new connections without any answer, at one address or all: the queues are full."""
        self._do_each(lambda: self._listeners_at(address), _Listener.stall)

    def accept(self, address: str | None = None) -> None:
        """Go on after refuse() or stall()."""
        self._do_each(lambda: self._listeners_at(address), _Listener.open)

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something in the server's thread after a while."""
        self._do(lambda: self._timers.append(self._loop.call_later(seconds, action)))

    def _listeners_at(self, address: str | None) -> Iterable[_Listener]:
        return (one for one in self._listeners if address in (None, one.address))

    def _do_each(self, those: Callable[[], Iterable[_Item]], what: Callable[[_Item], None]) -> None:
        def act() -> None:
            for one in tuple(those()):
                what(one)

        self._do(act)

    def _do(self, action: Callable[[], None]) -> None:
        """Do something in the server's thread."""
        if threading.current_thread() is self._thread:
            action()
            return
        done: Future[None] = Future()

        def act() -> None:
            try:
                action()
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(act)
        done.result(_STOP_SECONDS)

    # --- its connections' Host ---

    def carry_out(self, connection: Connection, rpc: RpcCall) -> tuple[Call, Answer, bytes]:
        """Carry a call out, and ask the hooks how it is to be answered."""
        if rpc.procedure is Nfs4.COMPOUND:
            return self._compound(connection, rpc)
        arguments = decode(rpc.procedure, rpc.arguments)
        file = self._procedures.path_of(arguments)
        call = self._call(connection, rpc, rpc.procedure, file, arguments)
        answer = self._decide(call)
        results, call.moved = self._procedures.run(
            rpc.procedure, arguments, answer, rpc.credentials
        )
        return call, answer, results

    def _compound(self, connection: Connection, rpc: RpcCall) -> tuple[Call, Answer, bytes]:
        """Carry a COMPOUND out, and ask the hooks for it and for each of its operations."""
        whole = self._call(connection, rpc, Nfs4.COMPOUND, "", Asked())
        answers = [self._decide(whole)]

        def ask(operation: Nfs4, arguments: Arguments4, scene: Scene) -> tuple[Call, Answer]:
            file = self._compounds.operations.path_of(scene, arguments)
            call = self._call(connection, rpc, operation, file, arguments)
            call.wanted = arguments.wanted
            call.session, call.slot, call.sequence = scene.place(arguments)
            if isinstance(arguments, OpenArguments):
                call.claim = arguments.claim
            answers.append(self._decide(call))
            return call, answers[-1]

        scene = Scene(connection.number, connection.server[0], rpc.credentials)
        try:
            results = self._compounds.run(rpc.arguments, scene, answers[0], ask)
        except UnheardError:
            results = b""
        if answers[0].results is not None:
            results = answers[0].results
        delivery = next((one for one in answers if one.delivers()), SOUND)
        return whole, delivery, results

    def version_refused(self) -> int | None:
        """Give the version of NFS that is not offered."""
        return None if self.terms.minors else 4

    def _call(
        self, connection: Connection, rpc: RpcCall, procedure: Procedure, file: str, asked: Asked
    ) -> Call:
        """Give the log's entry for a call."""
        nth = self._counts[procedure] = self._counts.get(procedure, 0) + 1
        return Call(
            procedure=procedure,
            xid=rpc.xid,
            connection=connection.number,
            client=connection.client,
            server=connection.server,
            credentials=rpc.credentials,
            nth=nth,
            file=file,
            offset=asked.offset,
            count=asked.count,
            stable=asked.stable,
        )

    def _decide(self, call: Call) -> Answer:
        """Log a call, and ask the hooks."""
        with self._logged:
            self._log.append(call)
            self._logged.notify_all()
        try:
            answers = (hook(call) for hook in self.hooks)
            answer = next(filter(None, answers), SOUND)
            if answer.do is not None:
                answer.do(self)
            return answer
        except Exception as error:
            self._failure = self._failure or error
            return SOUND

    # --- its thread ---

    def _listen(self, program: Program, wanted: int) -> list[_Listener]:
        """Listen at all addresses on one port: the wanted one, or (0) one that is free at all."""
        for _ in range(_BIND_TRIES):
            listeners: list[_Listener] = []
            try:
                for address in self.addresses:
                    port = listeners[0].port if listeners else wanted
                    listener = _Listener(program, address, port, self._receive_buffer, self._adopt)
                    listeners.append(listener)
            except OSError as error:
                for listener in listeners:
                    listener.close()
                if wanted or not listeners or error.errno != errno.EADDRINUSE:
                    raise
            else:
                return listeners
        raise OSError(errno.EADDRINUSE, "no port is free at all addresses")

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._failure = self._failure or error
            if not self._started.done():
                self._started.set_exception(error)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping, self.reading = asyncio.Event(), asyncio.Event()
        self.reading.set()
        for listener in self._listeners:
            listener.open()
        self._started.set_result(None)
        await self._stopping.wait()
        for timer in self._timers:
            timer.cancel()
        for listener in self._listeners:
            listener.close()
        connections = [*self._connections]
        self.reset_connections()
        tasks = (connection.task for connection in connections)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _adopt(self, accepted: socket.socket, program: Program) -> None:
        """Serve a new connection."""
        try:
            connection = Connection(self, accepted, next(self._numbers[program]), program)
        except OSError:
            accepted.close()
            return
        self._connections.add(connection)
        connection.task.add_done_callback(lambda task: self._forget(connection, task))

    def _forget(self, connection: Connection, task: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        if not task.cancelled():
            self._failure = self._failure or task.exception()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _query(words: dict[str, object]) -> str:
    return "&".join(f"{key}={value}" for key, value in words.items())


class _Listener:
    """One program's listening socket at one address."""

    def __init__(
        self,
        program: Program,
        address: str,
        port: int,
        receive_buffer: int | None,
        adopt: Callable[[socket.socket, Program], None],
    ):
        self.program, self.address = program, address
        self._receive_buffer, self._adopt = receive_buffer, adopt
        self._socket: socket.socket | None = self._bind(port, listen=True)
        self.port: int = self._socket.getsockname()[1]
        self._fillers: dict[int, socket.socket] = {}  # by their ports

    def open(self) -> None:
        """Accept connections."""
        self._close_fillers()
        if self._socket is None:
            self._socket = self._bind(self.port)
        self._socket.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def refuse(self) -> None:
        """Let connections be refused; the port is kept, so that no other server gets it."""
        self.close()
        self._socket = self._bind(self.port)

    def close(self) -> None:
        """Give the port up."""
        self._close_fillers()
        if self._socket is None:
            return
        with contextlib.suppress(RuntimeError):  # before the server's thread has begun
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None

    def stall(self) -> None:
        """Let connections wait: none is accepted, and the queue of those that wait is full."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.listen(0)
        while self._fill():
            pass

    def _close_fillers(self) -> None:
        for filler in self._fillers.values():
            filler.close()

    def _fill(self) -> bool:
        """Put a connection into the queue; False where there is no more room."""
        assert self._socket is not None
        filler = socket.socket(self._socket.family)
        filler.settimeout(_FULL_SECONDS)
        try:
            filler.connect(self._socket.getsockname())
        except TimeoutError:
            filler.close()
            return False
        self._fillers[filler.getsockname()[1]] = filler
        return True

    def _bind(self, port: int, listen: bool = False) -> socket.socket:
        listening = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET)
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._receive_buffer is not None:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
            listening.bind((self.address, port))
            if listen:  # which fails where another does
                listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
        return listening

    def _accept(self) -> None:
        assert self._socket is not None
        try:
            accepted, peer = self._socket.accept()
        except OSError:  # it is gone already
            return
        if self._fillers.pop(peer[1], None) is not None:
            accepted.close()
        else:
            self._adopt(accepted, self.program)
