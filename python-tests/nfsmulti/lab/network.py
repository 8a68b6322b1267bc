# SPDX-License-Identifier: GPL-2.0-only
"""A lab's network: limits of rates, and a server's and a client's namespace, joined by one link."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.processes import run
from nfsmulti.units import parse_rate, parse_size

# --- limits of the link, of addresses and of connections, and what tc and nft need to set them ---
# Each end limits what it sends: the server's end by source address (reads), the client's end by
# destination address (writes). Connections are told apart by numbers, which each end gives them.

# A token bucket holds 2 ms of its rate, and never less than one large segment of the network stack:
# smaller ones miss the rate and cost softirq time.
_BURST_SECONDS = 0.002
_BURST_MIN = 256 << 10

# Each new connection gets the next number, and with it a class, in both directions. After so many
# connections in total the numbers start over: a connection then shares the class, and so the cap,
# of the one that got its number before, if that is still open.
_CONNECTIONS = range(0x100, 0x500)
_ROOT = "qdisc replace dev {} root handle 1: htb default 99"
_TABLE = "inet nfsmulti-connections"


@dataclass(frozen=True)
class Limits:
    """Rates in tc's words ("9400mbit", "1gbit"), `burst` as "2m" (bytes); None sets no limit.

    `link` limits all addresses together, `per_address` caps each one. `assured` is each one's share
    when all are busy. `per_connection` caps each TCP connection, to whichever address it is.
    """

    link: str | None = None
    per_address: str | None = None
    assured: str | None = None
    burst: str | None = None
    per_connection: str | None = None

    def __post_init__(self) -> None:
        """Refuse limits that exclude each other."""
        if self.per_address and self.per_connection:
            raise HarnessError(
                "--per-address and --per-connection exclude each other: a cap holds for an address"
                " or for a connection"
            )
        if self.assured and not self.per_address:
            raise HarnessError("--assured is a share of --per-address: give that too")

    def __bool__(self) -> bool:
        """Tell whether anything is limited."""
        return bool(self.rates)

    @property
    def rates(self) -> dict[str, str]:
        """The rates that are set, by name."""
        return {name: rate for name, rate in vars(self).items() if rate and name != "burst"}

    def commands(self, device: str, direction: str, addresses: Sequence[str]) -> list[str]:
        """Return lines for `tc -batch`: `direction` is src or dst, and `addresses` are IPv4.

        Raises HarnessError where more is assured than the link has: tc would exceed it.
        """
        if self.per_address:
            return self._classes(device, direction, addresses)
        if self.per_connection:
            return self._connection_classes(device)
        if not self.link:
            return []
        rate = parse_rate(self.link)
        bucket = f"rate {rate}bit burst {self._burst(rate)} latency 50ms"
        return [f"qdisc replace dev {device} root tbf {bucket}"]

    def _classes(self, device: str, direction: str, addresses: Sequence[str]) -> list[str]:
        cap = parse_rate(self.per_address or "")
        link = parse_rate(self.link) if self.link else cap * len(addresses)
        share = link // len(addresses)
        assured = parse_rate(self.assured) if self.assured else min(cap, share)
        if assured > share:
            raise HarnessError(
                f"--assured={self.assured} for each address is more than the link has",
                f"assure at most {share // 10**6}mbit",
            )
        lines = self._link_class(device, link)
        for number, address in enumerate(addresses, start=0x10):
            flow = f"1:{number:x}"
            lines += [
                self._class(device, "1:1", flow, assured, cap),
                f"filter add dev {device} parent 1: protocol ip prio 1"
                f" u32 match ip {direction} {address}/32 flowid {flow}",
            ]
        return lines

    def numbering(self, device: str) -> str:
        """Return the text for `nft -f` that numbers the connections which send over `device`.

        A packet's priority then names its class, which is what HTB asks for first.
        """
        classes = ", ".join(f'{number} : "1:{number:x}"' for number in _CONNECTIONS)
        number = f"numgen inc mod {len(_CONNECTIONS)} offset {_CONNECTIONS.start}"
        packets = f'add rule {_TABLE} out oifname "{device}" meta l4proto tcp'
        lines = [
            f"add table {_TABLE}",
            f"add chain {_TABLE} out {{ type filter hook output priority mangle; }}",
            f"{packets} ct mark 0 ct mark set {number}",
            f"{packets} meta priority set ct mark map {{ {classes} }}",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _connection_classes(self, device: str) -> list[str]:
        """Return a class to each number. Those below a link borrow from it what they use."""
        cap = parse_rate(self.per_connection or "")
        rate, parent = cap, "1:"
        lines = [_ROOT.format(device)]
        if self.link:
            link = parse_rate(self.link)
            rate, parent = min(cap, max(link // len(_CONNECTIONS), 8)), "1:1"
            lines = self._link_class(device, link)
        flows = (f"1:{number:x}" for number in _CONNECTIONS)
        return lines + [self._class(device, parent, flow, rate, cap) for flow in flows]

    def _link_class(self, device: str, link: int) -> list[str]:
        """Return the lines for the class 1:1, which all others share."""
        return [_ROOT.format(device), self._class(device, "1:", "1:1", link, link)]

    def _class(self, device: str, parent: str, flow: str, rate: int, ceil: int) -> str:
        burst = self._burst(ceil)
        return (
            f"class add dev {device} parent {parent} classid {flow} htb rate {rate}bit"
            f" ceil {ceil}bit burst {burst} cburst {burst} quantum 65536"
        )

    def _burst(self, rate: int) -> int:
        """Return a bucket's size in bytes for `rate` in bit/s."""
        if self.burst:
            return parse_size(self.burst)
        return max(_BURST_MIN, int(rate / 8 * _BURST_SECONDS))


# --- the namespaces ---

_SECONDS = 120.0  # in an emulated guest, too
_SERVER_DEVICE, _CLIENT_DEVICE = "v0", "v1"
ADDRESS6, _CLIENT_ADDRESS6 = "fd77::1", "fd77::1:1"
_NETNS = Path("/run/netns")


class Network:
    """The pair of namespaces of a lab, by their names. Creating one needs root."""

    def __init__(self, lab_id: str):
        self.server, self.client = (f"nfsmulti-{lab_id}-{end}" for end in ("server", "client"))

    @staticmethod
    def addresses(count: int) -> list[str]:
        """Return the server's addresses, beside which it has ADDRESS6."""
        return [f"10.77.0.{number}" for number in range(1, count + 1)]

    def create(self, count: int, limits: Limits) -> None:
        """Make both namespaces with `count` addresses each, and limit what both ends send.

        Raises CommandError, or HarnessError for limits that clash, or that this kernel has not.
        """
        for name in (self.server, self.client):
            run(["ip", "netns", "add", name], timeout=_SECONDS).check()
        ends = f"{_SERVER_DEVICE} netns {self.server} type veth peer name {_CLIENT_DEVICE}"
        words = ["ip", "link", "add", *ends.split(), "netns", self.client]
        run(words, timeout=_SECONDS).check()
        of_client = [f"10.77.0.{number + 100}" for number in range(1, count + 1)]
        _bring_up(self.server, _SERVER_DEVICE, [*self.addresses(count), ADDRESS6])
        _bring_up(self.client, _CLIENT_DEVICE, [*of_client, _CLIENT_ADDRESS6])
        # What tc calls the server's address at each end.
        limited = (self.server, _SERVER_DEVICE, "src"), (self.client, _CLIENT_DEVICE, "dst")
        for name, device, direction in limited:
            if limits.per_connection:
                _number_connections(name, limits.numbering(device))
            batch("tc", name, limits.commands(device, direction, self.addresses(count)))

    def remove(self) -> None:
        """Remove the names that are there; a namespace ends with its last process."""
        for name in (self.server, self.client):
            if (_NETNS / name).exists():
                run(["ip", "netns", "delete", name], timeout=_SECONDS).check()

    @staticmethod
    def enter(name: str, root: str = "") -> list[str]:
        """Return the words to put before a command that shall run in the namespace `name`.

        `root` leads to where its name is, if that is not here.
        """
        return ["nsenter", f"--net={root}{_NETNS / name}", "--"]


def batch(program: str, name: str | None, lines: Sequence[str]) -> None:
    """Run ip or tc on lines of its own commands, in a namespace or, without a name, here.

    By nsenter, because their own -n wants / to be a mount. Raises CommandError.
    """
    argv = [*(Network.enter(name) if name else []), program, "-batch", "-"]
    run(argv, timeout=_SECONDS, stdin="".join(f"{line}\n" for line in lines)).check()


def _bring_up(name: str, device: str, addresses: Sequence[str]) -> None:
    """Bring up a namespace's device with addresses."""
    lines = ["link set lo up", f"link set {device} up"]
    for address in addresses:
        length = "64 nodad" if ":" in address else "24"
        lines.append(f"addr add {address}/{length} dev {device}")
    batch("ip", name, lines)


def _number_connections(name: str, numbering: str) -> None:
    """Have a namespace number its connections. Raises HarnessError where this kernel cannot."""
    done = run([*Network.enter(name), "nft", "-f", "-"], timeout=_SECONDS, stdin=numbering)
    if done.status != 0:
        said = (done.stderr.strip() or "it did not end in time").splitlines()[0]
        raise HarnessError(
            "--per-connection: nft cannot number connections, for which it needs a kernel"
            f" with conntrack and numgen: {said[:200]}",
            "use --per-address",
        )
