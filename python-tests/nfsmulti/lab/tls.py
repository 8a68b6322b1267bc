# SPDX-License-Identifier: GPL-2.0-only
"""TLS in a lab: certificates, made by openssl, and a proxy at each address of servers without it.

The certificates are an authority's, and those that it or another one signs.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path

from nfsmulti.daemon import Daemon
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import run

_SECONDS = 60.0
_NEW = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
_DAYS = 365
_READY = b"listening"
NAME = "server.test"  # which need not resolve


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path


class Certificates:
    """Each is made when it is first asked for; `names` are the servers' names and addresses."""

    def __init__(self, folder: Path, names: Iterable[str] = (NAME, "127.0.0.1")):
        self._folder = folder
        self._names = "subjectAltName=" + ",".join(f"{_kind(name)}:{name}" for name in names)

    # The one whose certificates are trusted, and another.
    authority = cached_property[Pair](lambda self: self._authority("ca"))
    stranger = cached_property[Pair](lambda self: self._authority("stranger"))
    # A server's, a client's, and one of yesterday for either side.
    server = cached_property[Pair](lambda self: self._signed("server", self.authority))
    client = cached_property[Pair](lambda self: self._signed("client", self.authority))
    expired = cached_property[Pair](lambda self: self._signed("expired", self.authority, days=-1))

    def other(self, subject: str, *extensions: str, by: Pair | None = None) -> Pair:
        """Return a new one with no others than these extensions, by the authority or another."""
        return self._signed(subject, by or self.authority, extensions=extensions)

    def options(self, xprtsec: str) -> dict[str, str]:
        """Return what fio's engine is told of a client's, who has one of its own for mtls."""
        trusted = {"xprtsec": xprtsec, "tls_ca": str(self.authority.certificate)}
        if xprtsec != "mtls":
            return trusted
        own = {"tls_cert": str(self.client.certificate), "tls_key": str(self.client.key)}
        return {**trusted, **own}

    def _authority(self, name: str) -> Pair:
        pair = self._pair(name)
        where = ["-keyout", str(pair.key), "-out", str(pair.certificate)]
        _openssl("req", "-x509", *_NEW, *where, "-days", str(_DAYS), "-subj", f"/CN={name}")
        return pair

    def _signed(
        self, name: str, by: Pair, days: int = _DAYS, extensions: Iterable[str] | None = None
    ) -> Pair:
        pair, request = self._pair(name), self._folder / f"{name}.csr"
        added = [self._names] if extensions is None else extensions
        words = [word for one in added for word in ("-addext", one)]
        where = ["-keyout", str(pair.key), "-out", str(request)]
        _openssl("req", *_NEW, *where, "-subj", f"/CN={name}", *words)
        signer = ["-CA", str(by.certificate), "-CAkey", str(by.key), "-CAcreateserial"]
        where = ["-in", str(request), "-out", str(pair.certificate)]
        _openssl("x509", "-req", *signer, "-copy_extensions=copy", "-days", str(days), *where)
        return pair

    def _pair(self, name: str) -> Pair:
        return Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")


def _kind(name: str) -> str:
    """Return the word that openssl has for a name of this kind."""
    try:
        ip_address(name)
    except ValueError:
        return "DNS"
    return "IP"


def _openssl(*words: str) -> None:
    run(["openssl", *words], timeout=_SECONDS).check()


class Tls(Daemon):
    """One process that listens, for each address, on the first port of `ports` before the second.

    `takes` are exports(5)'s words: with mtls clients are asked for a certificate, with that alone
    they have to show one. `options` are for fio's engine, of the last word; `enter` are the words
    before its command.
    """

    def __init__(
        self,
        ports: Mapping[str, tuple[int, int]],
        *,
        takes: Sequence[str],
        folder: Path,
        enter: Sequence[str],
    ):
        folder.mkdir()
        made = Certificates(folder, names=[NAME, *ports])
        self.options = made.options(takes[-1])
        files = (made.server.certificate, made.server.key, made.authority.certificate)
        own = [*map(str, files), ":".join(takes)]
        ways = [f"{address},{port},{to}" for address, (port, to) in ports.items()]
        super().__init__(
            "the lab's TLS proxy",
            [*enter, sys.executable, "-m", "servers.tls_proxy", *own, *ways],
            folder / "proxy.out",
            lambda: _READY in self.logged(),
            env={"PYTHONPATH": str(PYTHON_TESTS)},
        )
