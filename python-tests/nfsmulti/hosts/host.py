# SPDX-License-Identifier: GPL-2.0-only
"""The hosts of a run: who they are, and whether a fio --server answers there."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from dataclasses import dataclass

from nfsmulti.errors import HarnessError

PORT = 8765  # fio's own
_CONNECT_SECONDS = 3.0
_FORM = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<six>[^]\s]+)\]|(?P<name>[^][:\s@]+))(?::(?P<port>\d+))?"
)


@dataclass(frozen=True)
class Host:
    """A machine that jobs run on. `login` is how ssh names it, `port` that of its fio --server."""

    name: str
    login: str
    port: int = PORT

    @property
    def text(self) -> str:
        """How people name it: with its port where that is not fio's own."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == PORT else f"{name}:{self.port}"

    @property
    def client_option(self) -> str:
        """How fio's --client names it (fio(1), "CLIENT / SERVER")."""
        return f"{'ip6' if ':' in self.name else 'ip'}:{self.name},{self.port}"

    @property
    def server_option(self) -> str:
        """How its own fio --server names where it listens: all addresses."""
        return f"{'ip6:::' if ':' in self.name else 'ip:0.0.0.0'},{self.port}"

    def serves(self) -> bool:
        """Tell whether something listens where its fio --server would; blocks up to 3 seconds."""
        with contextlib.suppress(OSError):
            socket.create_connection((self.name, self.port), _CONNECT_SECONDS).close()
            return True
        return False


def parse_hosts(text: str) -> list[Host]:
    """Read HOST[:PORT],…, where HOST is [USER@]NAME, an address, or [an IPv6 address].

    Raises HarnessError naming the word that is none.
    """
    hosts = [_parse(word.strip()) for word in text.split(",")]
    ends = [(host.name, host.port) for host in hosts]
    for host, end in zip(hosts, ends, strict=True):
        if ends.count(end) > 1:
            raise HarnessError(f"--hosts: {host.text} is there twice")
    return hosts


def _parse(word: str) -> Host:
    match = _FORM.fullmatch(word)
    port = int(match["port"] or PORT) if match else 0
    if match is None or not 1 <= port <= 65535:
        raise HarnessError(f"--hosts: '{word}' is no HOST[:PORT]", "as --hosts=alpha,10.0.0.2:8765")
    if match["six"]:
        with contextlib.suppress(ValueError):
            return _made(match["user"], str(ipaddress.IPv6Address(match["six"])), port)
        raise HarnessError(f"--hosts: '{match['six']}' is no IPv6 address")
    return _made(match["user"], match["name"], port)


def _made(user: str | None, name: str, port: int) -> Host:
    return Host(name, f"{user}@{name}" if user else name, port)
