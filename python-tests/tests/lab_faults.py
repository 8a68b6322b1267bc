# SPDX-License-Identifier: GPL-2.0-only
"""Faults in a lab: of its servers, and of the paths to them."""

from collections.abc import Callable
from enum import StrEnum

from nfsmulti.lab import Lab
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
        assert not lab.config.local
        for program in ("nft", "ss", "sysctl"):
            find(program)
        self._lab = lab
        self._present: dict[int, FaultKind] = {}
        # Else the first address of a subnet takes the others with it.
        self._on_server("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1").check()

    def begin(self, kind: FaultKind, path: int) -> bool:
        """Break the path, counted from 0; False where there was nothing to be broken."""
        assert path not in self._present
        if kind is FaultKind.RESET:
            # It prints what it has closed: nothing, without CONFIG_INET_DIAG_DESTROY.
            return bool(self._on_server("ss", "-HKtn", "src", self._address(path)).stdout.strip())
        self._acts(kind, path)[0]()
        self._present[path] = kind
        return True

    def end(self, path: int) -> None:
        """Mend the path; one that is whole is no error."""
        if kind := self._present.pop(path, None):
            self._acts(kind, path)[1]()

    def end_all(self) -> None:
        for path in list(self._present):
            self.end(path)

    def _acts(self, kind: FaultKind, path: int) -> tuple[Callable[[], object], ...]:
        server = self._lab.server(path)
        address = [f"{self._address(path)}/24", "dev", "v0"]
        rules = _DROP.format(path=path, address=self._address(path))
        return {
            FaultKind.KILL: (server.kill, server.start),
            FaultKind.STOP: (server.pause, server.resume),
            FaultKind.DROP: (
                lambda: self._on_server("nft", "-f", "-", stdin=rules).check(),
                lambda: self._on_server("nft", "delete", "table", "ip", f"path{path}").check(),
            ),
            FaultKind.ADDRESS: (
                lambda: self._on_server("ip", "address", "del", *address).check(),
                lambda: self._on_server("ip", "address", "add", *address).check(),
            ),
        }[kind]

    def _address(self, path: int) -> str:
        return self._lab.network.addresses(self._lab.config.addresses)[path]

    def _on_server(self, *argv: str, stdin: str = "") -> Completed:
        network = self._lab.network
        argv = (*network.enter(network.server), *argv)
        return run(argv, timeout=_SECONDS, stdin=stdin)
