# SPDX-License-Identifier: GPL-2.0-only
"""Network namespaces: a server's and a client's, joined by one link, and further hosts' beside it.

Where there are further hosts, the server's end of the link is a bridge, and each host has a link to
that; what the server's end limits holds for all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.lab.limits import Limits
from nfsmulti.processes import run

_SECONDS = 60.0
_SERVER_DEVICE, _CLIENT_DEVICE = "v0", "v1"
_NETNS = Path("/run/netns")


@dataclass(frozen=True)
class Network:
    """The pair of namespaces of the lab `id`. Creating one needs root."""

    id: str

    @property
    def server(self) -> str:
        """The name of the server's namespace."""
        return f"nfsmulti-{self.id}-server"

    @property
    def client(self) -> str:
        """The name of the client's namespace."""
        return f"nfsmulti-{self.id}-client"

    def host(self, number: int) -> str:
        """Give the name of a further host's namespace; they are counted from 1."""
        return f"nfsmulti-{self.id}-host{number}"

    @staticmethod
    def host_address(number: int) -> str:
        """Give the address of a further host."""
        return f"10.77.0.{number + 200}"

    @staticmethod
    def addresses(count: int) -> list[tuple[str, str]]:
        """Give the server's addresses, IPv4 and IPv6 each."""
        return [(f"10.77.0.{number}", f"fd77::{number:x}") for number in range(1, count + 1)]

    @staticmethod
    def client_addresses(count: int) -> list[tuple[str, str]]:
        """Give the client's addresses, as many as the server's."""
        return [
            (f"10.77.0.{number + 100}", f"fd77::1:{number:x}") for number in range(1, count + 1)
        ]

    def create(self, count: int, hosts: int = 0) -> None:
        """Make both namespaces with `count` addresses each, and further hosts with one each.

        Raises CommandError.
        """
        names = [self.client, *(self.host(number) for number in range(1, hosts + 1))]
        for name in (self.server, *names):
            run(["ip", "netns", "add", name], timeout=_SECONDS).check()
        if hosts:
            self._run_batch("ip", self.server, [f"link add {_SERVER_DEVICE} type bridge"])
            for number, name in enumerate(names):
                self._join(f"p{number}", name)
                lines = [f"link set p{number} master {_SERVER_DEVICE} up"]
                self._run_batch("ip", self.server, lines)
        else:
            self._join(_SERVER_DEVICE, self.client)
        self._configure(self.server, _SERVER_DEVICE, self.addresses(count))
        self._configure(self.client, _CLIENT_DEVICE, self.client_addresses(count))
        for number in range(1, hosts + 1):
            lines = ["link set lo up", f"link set {_CLIENT_DEVICE} up"]
            lines.append(f"addr add {self.host_address(number)}/24 dev {_CLIENT_DEVICE}")
            self._run_batch("ip", self.host(number), lines)

    def limit(self, limits: Limits, count: int) -> None:
        """Limit what both ends send, in place of the limits that they have.

        Raises CommandError, or HarnessError for limits that clash.
        """
        for name, device, direction in self._ends():
            lines = limits.commands(device, direction, self.addresses(count))
            self._run_batch("tc", name, [*_without_limits(device), *lines])

    def number_connections(self, limits: Limits) -> None:
        """Have both ends number their connections, or no longer, as `limits` need it.

        Raises HarnessError where this kernel cannot.
        """
        for name, device, _ in self._ends():
            argv = [*self.enter(name), "nft", "-f", "-"]
            done = run(argv, timeout=_SECONDS, stdin=limits.numbering(device))
            if done.status != 0:
                said = (done.stderr.strip() or "it did not end in time").splitlines()[0]
                raise HarnessError(
                    "--per-connection: nft cannot number connections, for which it needs a kernel"
                    f" with conntrack and numgen: {said[:200]}",
                    "use --per-address",
                )

    def remove(self) -> None:
        """Remove the names that are there; a namespace ends with its last process."""
        hosts = (entry.name for entry in _NETNS.glob(f"nfsmulti-{self.id}-host*"))
        for name in (self.server, self.client, *hosts):
            if (_NETNS / name).exists():
                run(["ip", "netns", "delete", name], timeout=_SECONDS).check()

    @classmethod
    def address_words(cls, action: str, number: int) -> list[str]:
        """Give the words for ip(8) that add or del the server's IPv4 address `number`, from 0."""
        ipv4, _ = cls.addresses(number + 1)[number]
        return ["addr", action, f"{ipv4}/24", "dev", _SERVER_DEVICE]

    @staticmethod
    def enter(name: str, root: str = "") -> list[str]:
        """Give the words to put before a command that shall run in the namespace `name`.

        `root` leads to where its name is, if that is not here.
        """
        return ["nsenter", f"--net={root}{_NETNS / name}", "--"]

    def _ends(self) -> tuple[tuple[str, str, str], ...]:
        """Give each end's namespace and device, and what tc calls the server's address there."""
        return (self.server, _SERVER_DEVICE, "src"), (self.client, _CLIENT_DEVICE, "dst")

    def _join(self, server_device: str, name: str) -> None:
        """Lay a link from the server's namespace to another."""
        link = f"{server_device} netns {self.server} type veth peer name {_CLIENT_DEVICE}"
        run(["ip", "link", "add", *link.split(), "netns", name], timeout=_SECONDS).check()

    def _configure(self, name: str, device: str, addresses: list[tuple[str, str]]) -> None:
        lines = ["link set lo up", f"link set {device} up"]
        for ipv4, ipv6 in addresses:
            lines.append(f"addr add {ipv4}/24 dev {device}")
            lines.append(f"addr add {ipv6}/64 dev {device} nodad")
        self._run_batch("ip", name, lines)

    def _run_batch(self, program: str, name: str, lines: list[str]) -> None:
        """Run ip or tc in a namespace, by nsenter because their own -n wants / to be a mount."""
        batch = "".join(f"{line}\n" for line in lines)
        argv = [*self.enter(name), program, "-batch", "-"]
        run(argv, timeout=_SECONDS, stdin=batch).check()


def _without_limits(device: str) -> list[str]:
    """Give lines for `tc -batch` that take a device's limits away, whether it has some or not.

    A device without limits has nothing that tc would delete, so it is given a queue first.
    """
    return [f"qdisc replace dev {device} root pfifo", f"qdisc delete dev {device} root"]
