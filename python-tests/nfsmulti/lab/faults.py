# SPDX-License-Identifier: GPL-2.0-only
"""What can go wrong with one path of a running lab, and how it is put right again."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from nfsmulti.errors import HarnessError
from nfsmulti.lab.lab import Lab
from nfsmulti.processes import Completed, find, run

_SECONDS = 60.0

_DROP = """\
table ip path{path} {{
	chain in {{ type filter hook input priority 0; ip daddr {address} drop; }}
	chain out {{ type filter hook output priority 0; ip saddr {address} drop; }}
}}
"""


class FaultKind(StrEnum):
    """A fault; all but RESET last until they are ended."""

    KILL = "server killed"  # SIGKILL; its end is a restart
    STOP = "server stopped"  # SIGSTOP: connections stay, and nobody answers
    DROP = "packets dropped"  # both ways, in silence
    ADDRESS = "address removed"
    RESET = "connections reset"


class Faults:
    """Breaks and mends the paths of a lab that has namespaces.

    Each path has one fault at a time at most. Where one server is behind all addresses, KILL and
    STOP break all paths. Raises MissingError where nft, ss or sysctl is missing.
    """

    def __init__(self, lab: Lab):
        if lab.config.local:
            raise HarnessError("faults of single paths need namespaces")
        for program in ("nft", "ss", "sysctl"):
            find(program)
        self._lab = lab
        self._present: dict[int, FaultKind] = {}
        # Else the first address of a subnet takes the others with it.
        self._on_server("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1").check()

    def begin(self, kind: FaultKind, path: int) -> bool:
        """Break the path, counted from 0; False where there was nothing to be broken."""
        address = self._address(path)
        if path in self._present:
            raise HarnessError(f"path {path} is broken already: {self._present[path]}")
        match kind:
            case FaultKind.KILL:
                self._lab.server(path).kill()
            case FaultKind.STOP:
                self._lab.server(path).pause()
            case FaultKind.DROP:
                rules = _DROP.format(path=path, address=address)
                self._on_server("nft", "-f", "-", stdin=rules).check()
            case FaultKind.ADDRESS:
                self._on_server("ip", *self._lab.network.address_words("del", path)).check()
            case FaultKind.RESET:
                # It prints what it has closed: nothing, without CONFIG_INET_DIAG_DESTROY.
                return bool(self._on_server("ss", "-HKtn", "src", address).stdout.strip())
        self._present[path] = kind
        return True

    def end(self, path: int) -> None:
        """Mend the path; one that is whole is no error."""
        match self._present.pop(path, None):
            case FaultKind.KILL:
                self._lab.server(path).start()
            case FaultKind.STOP:
                self._lab.server(path).resume()
            case FaultKind.DROP:
                self._on_server("nft", "delete", "table", "ip", f"path{path}").check()
            case FaultKind.ADDRESS:
                self._on_server("ip", *self._lab.network.address_words("add", path)).check()

    def end_all(self) -> None:
        """Mend everything."""
        for path in list(self._present):
            self.end(path)

    def _address(self, path: int) -> str:
        return self._lab.network.addresses(self._lab.config.addresses)[path][0]

    def _on_server(self, *argv: str, stdin: str = "") -> Completed:
        enter: Sequence[str] = self._lab.network.enter(self._lab.network.server)
        return run([*enter, *argv], timeout=_SECONDS, stdin=stdin)
