# SPDX-License-Identifier: GPL-2.0-only
"""A proxy that speaks RPC-with-TLS (RFC 9289) before a server that does not.

with TlsProxy((address, port), certificate, key) as proxy:
    proxy.fault = Fault.DENIED  # what the next connections meet
    ... run a client on proxy.port ...
    assert not proxy.clear  # nothing but the probe came in clear

As a program it serves until it is ended, before several ports:
python -m servers.tls_proxy CERTIFICATE KEY CLIENTS tls|mtls|tls:mtls ADDRESS,PORT,TO...
"""

import _ssl
import contextlib
import ctypes
import itertools
import os
import select
import signal
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, Self

from servers import rpc
from servers.listening import Listener, connect

_HEADER = struct.Struct(">10I")  # of a call without credentials
_CHUNK = 1 << 18


class Fault(Enum):
    """What a connection meets in place of TLS 1.3."""

    DENIED = auto()  # the probe, as by servers that do not know its flavor
    WITHOUT_WORD = auto()  # the probe is answered, as by NULL, without STARTTLS
    CLOSED = auto()  # at the probe
    SILENT = auto()  # at the probe
    OTHER_XID = auto()  # in the answer to the probe
    MORE = auto()  # a byte follows that answer, in clear
    TLS_1_2 = auto()
    CUT = auto()  # the handshake


@dataclass
class Handshake:
    """What was agreed on in one."""

    cipher: str
    protocol: str | None  # by ALPN
    subject: object  # of the client's certificate


# --- what is no data ---


def _openssl(one: ssl.SSLSocket | ssl.SSLContext) -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """Return OpenSSL, for what Python does not have of it, and its own object of that."""
    # CPython's object of a context is its own head, and OpenSSL's; that of a connection has a
    # reference to the socket between these.
    at = id(one) + object.__basicsize__
    if isinstance(one, ssl.SSLSocket):
        connection: object = one._sslobj  # type: ignore[attr-defined]
        at = id(connection) + object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)
    library = ctypes.CDLL(_ssl.__file__)  # a Python that has it built in has no such file
    return library, ctypes.c_void_p.from_address(at)


def send_ticket(client: ssl.SSLSocket) -> None:
    """Send a session ticket along with the next data."""
    openssl, connection = _openssl(client)
    assert openssl.SSL_new_session_ticket(connection) == 1


def send_long_ticket(client: ssl.SSLSocket) -> None:
    """Send one that takes several records, as long as records are short."""
    openssl, connection = _openssl(client)
    openssl.SSL_get_session.restype = ctypes.c_void_p
    session = ctypes.c_void_p(openssl.SSL_get_session(connection))
    data = bytes(_LONG)
    assert openssl.SSL_SESSION_set1_ticket_appdata(session, data, ctypes.c_size_t(_LONG)) == 1
    assert openssl.SSL_ctrl(connection, _SET_MAX_SEND_FRAGMENT, ctypes.c_long(_SHORT), None) == 1
    send_ticket(client)


_SET_MAX_SEND_FRAGMENT = 52
_SHORT, _LONG = 512, 1200


def update_keys(client: ssl.SSLSocket) -> None:
    """Send a KeyUpdate along with the next data, and what follows with other keys."""
    openssl, connection = _openssl(client)
    assert openssl.SSL_key_update(connection, 0) == 1


FORGED = b"\x17\x03\x03\x00\x20" + bytes(32)  # a record that nobody has encrypted


def forge(client: ssl.SSLSocket) -> None:
    """Send such a record."""
    os.write(client.fileno(), FORGED)


_RECORD_SIZE_LIMIT = ctypes.create_string_buffer(struct.pack(">H", 1 << 14), 2)  # the longest


def _add_limit(_ssl: int, _type: int, _in: int, at: Any, length: Any, *_: int) -> int:
    at[0], length[0] = ctypes.addressof(_RECORD_SIZE_LIMIT), 2
    return 1


_ADD_LIMIT = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_uint,
    ctypes.c_uint,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    *[ctypes.c_void_p] * 4,
)(_add_limit)


def _limit_records(context: ssl.SSLContext) -> None:
    """Tell clients that records must be short (RFC 8449), which OpenSSL never does."""
    record_size_limit, in_hello, in_encrypted_extensions = 28, 0x80, 0x400
    openssl, at = _openssl(context)
    where = in_hello | in_encrypted_extensions
    add = openssl.SSL_CTX_add_custom_ext
    assert add(at, record_size_limit, where, _ADD_LIMIT, None, None, None, None) == 1


def _name_authority(context: ssl.SSLContext, authority: Path) -> None:
    """Tell clients by whom their certificates must be signed."""
    openssl, at = _openssl(context)
    openssl.SSL_load_client_CA_file.restype = ctypes.c_void_p
    names = ctypes.c_void_p(openssl.SSL_load_client_CA_file(os.fsencode(authority)))
    assert names.value, authority
    openssl.SSL_CTX_set_client_CA_list(at, names)


# --- the proxy ---


@dataclass
class TlsProxy:
    """It listens at `at`; `clients` is the CA of the certificates that clients must or may show."""

    to: tuple[str, int]
    certificate: Path
    key: Path
    clients: Path | None = None
    must: bool = True  # show one
    names_authority: bool = False  # to clients: that CA
    at: tuple[str, int] = ("127.0.0.1", 0)
    protocols: tuple[str, ...] = ("sunrpc",)
    takes_clear: bool = False  # calls that come so go on
    fault: Fault | None = None
    short_records: bool = False  # it takes no others
    early: bytes = b""  # sent along with the handshake; nothing else is then
    closes: Container[int] = ()  # connections by their handshake's number, right after it
    say: Callable[[ssl.SSLSocket], object] | None = None  # once to each client, before data
    clear: bytearray = field(default_factory=bytearray)  # what came so, beside probes
    handshakes: list[Handshake] = field(default_factory=list)
    probes: int = 0
    farewells: int = 0  # connections that the client ended by close_notify

    def __enter__(self) -> Self:
        self._numbers = itertools.count()
        self._listener = Listener(*self.at, lambda client: partial(self._answer_probe, client))
        self.port = self._listener.port
        self._listener.accept()
        return self

    def __exit__(self, *_: object) -> None:
        """End all connections without close_notify."""
        self._listener.close()

    def _answer_probe(self, client: socket.socket) -> None:
        fault, call = self.fault, rpc.receive_record(client)
        xid, *_, flavor, _, _, _ = _HEADER.unpack_from(call)
        if flavor != rpc.AUTH_TLS or len(call) != _HEADER.size:
            self.clear += call
            if self.takes_clear:
                self._pump_from(client, rpc.record(call))
            return
        self.probes += 1
        if fault is Fault.OTHER_XID:
            xid ^= 1
        if fault is Fault.DENIED:
            said = rpc.denied(rpc.AuthStat.REJECTEDCRED)
        elif fault is Fault.WITHOUT_WORD:
            said = rpc.accepted(rpc.AcceptStat.SUCCESS)
        else:
            said = rpc.accepted(rpc.AcceptStat.SUCCESS, verifier=rpc.STARTTLS)
        reply = rpc.message(xid, said)
        if fault is Fault.CLOSED:
            return
        if fault is not Fault.SILENT:
            fragments = (5,) if self.probes % 2 else ()  # RFC 5531, 11: each sender's choice
            client.sendall(rpc.record(reply, fragments) + b"\x80" * (fault is Fault.MORE))
        if fault in (Fault.DENIED, Fault.WITHOUT_WORD, Fault.SILENT):
            while data := client.recv(_CHUNK):
                self.clear += data
        elif fault is Fault.CUT:
            client.recv(_CHUNK)
        else:
            self._speak_tls(client, fault)

    def _speak_tls(self, client: socket.socket, fault: Fault | None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        context.set_alpn_protocols(list(self.protocols))
        if fault is Fault.TLS_1_2:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        if self.clients:
            context.verify_mode = ssl.CERT_REQUIRED if self.must else ssl.CERT_OPTIONAL
            context.load_verify_locations(self.clients)
            if self.names_authority:
                _name_authority(context, self.clients)
        if self.short_records:
            _limit_records(context)
        if self.early:
            self._speak_early(client, context)
            return
        with context.wrap_socket(client, server_side=True, suppress_ragged_eofs=False) as secure:
            self._listener.open.add(secure)
            cipher = secure.cipher()
            protocol, shown = secure.selected_alpn_protocol(), secure.getpeercert()
            self.handshakes.append(
                Handshake(cipher[0] if cipher else "", protocol, shown and shown["subject"])
            )
            if next(self._numbers) not in self.closes and self._pump_from(secure):
                self.farewells += 1

    def _speak_early(self, client: socket.socket, context: ssl.SSLContext) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        incoming.write(client.recv(_CHUNK))
        with contextlib.suppress(ssl.SSLWantReadError):
            context.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
        client.sendall(outgoing.read() + self.early)
        while client.recv(_CHUNK):
            pass

    def _pump_from(self, client: socket.socket, received: bytes = b"") -> bool:
        """Pump until one end has closed; tells whether it was the client."""
        with connect(self.to) as server:
            server.sendall(received)
            return self._pump(client, server) is client

    def _pump(self, client: socket.socket, server: socket.socket) -> socket.socket:
        said = self.say
        while True:
            buffered = isinstance(client, ssl.SSLSocket) and client.pending()
            ready = [client] if buffered else select.select([client, server], [], [])[0]
            for one, other in ((client, server), (server, client)):
                if one in ready:
                    data = one.recv(_CHUNK)
                    if not data:
                        return one
                    if one is server and self.say is not said:
                        said = self._say_to(client)
                    _send_at_once(other, data)

    def _say_to(self, client: socket.socket) -> Callable[[ssl.SSLSocket], object] | None:
        say = self.say
        if say and isinstance(client, ssl.SSLSocket):
            say(client)
        return say


def _send_at_once(to: socket.socket, data: bytes) -> None:
    """Send all, so that the records of TLS that it becomes arrive together."""
    to.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    to.sendall(data)
    to.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


def _serve_until_ended(certificate: str, key: str, clients: str, takes: str, *ways: str) -> None:
    with contextlib.ExitStack() as proxies:
        for address, port, to in (way.split(",") for way in ways):
            proxies.enter_context(
                TlsProxy(
                    (address, int(to)),
                    Path(certificate),
                    Path(key),
                    Path(clients) if "mtls" in takes else None,
                    must=takes == "mtls",
                    at=(address, int(port)),
                )
            )
        print("listening", flush=True)
        signal.pause()


if __name__ == "__main__":
    _serve_until_ended(*sys.argv[1:])
