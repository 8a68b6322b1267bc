# SPDX-License-Identifier: GPL-2.0-only
"""Rate limits of a lab's link and of its addresses, and the tc commands that set them.

Each end limits what it sends: the server's end by source address (reads), the client's end by
destination address (writes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nfsmulti.errors import HarnessError
from nfsmulti.units import check, parse_rate, parse_size

# A token bucket holds 2 ms of its rate, and never less than one large segment of the network stack:
# smaller ones miss the rate and cost softirq time.
_BURST_SECONDS = 0.002
_BURST_MIN = 256 << 10


@dataclass(frozen=True)
class Limits:
    """Rates in tc's words ("9400mbit", "1gbit"), `burst` as "2m" (bytes); None sets no limit.

    `link` limits all addresses together, `per_address` caps each one (an address stands for a
    connection with its own cap). `assured` is each one's share when all are busy.
    """

    link: str | None = None
    per_address: str | None = None
    assured: str | None = None
    burst: str | None = None

    def __post_init__(self) -> None:
        """Refuse words that tc would not understand, naming the option."""
        check("--link", self.link, parse_rate)
        check("--per-address", self.per_address, parse_rate)
        check("--assured", self.assured, parse_rate)
        check("--burst", self.burst, parse_size)
        if self.assured and not self.per_address:
            raise HarnessError("--assured is a share of --per-address: give that too")

    def __bool__(self) -> bool:
        """Tell whether anything is limited."""
        return bool(self.link or self.per_address)

    @property
    def rates(self) -> dict[str, str]:
        """The rates that are set, by name."""
        rates = {"link": self.link, "per_address": self.per_address, "assured": self.assured}
        return {name: rate for name, rate in rates.items() if rate}

    def commands(
        self, device: str, direction: str, addresses: Sequence[tuple[str, str]]
    ) -> list[str]:
        """Give lines for `tc -batch`: `direction` is src or dst, `addresses` pairs of IPv4, IPv6.

        Raises HarnessError where more is assured than the link has: tc would exceed it.
        """
        if self.per_address:
            return self._classes(device, direction, addresses)
        if self.link:
            rate = parse_rate(self.link)
            bucket = f"rate {rate}bit burst {self._burst(rate)} latency 50ms"
            return [f"qdisc replace dev {device} root tbf {bucket}"]
        return []

    def _classes(
        self, device: str, direction: str, addresses: Sequence[tuple[str, str]]
    ) -> list[str]:
        cap = parse_rate(self.per_address or "")
        link = parse_rate(self.link) if self.link else cap * len(addresses)
        share = link // len(addresses)
        assured = parse_rate(self.assured) if self.assured else min(cap, share)
        if assured > share:
            raise HarnessError(
                f"--assured={self.assured} is more than a part of the link for each address",
                f"assure at most {share // 10**6}mbit",
            )
        bucket = f"burst {self._burst(cap)} cburst {self._burst(cap)}"
        whole = (
            f"rate {link}bit ceil {link}bit burst {self._burst(link)} cburst {self._burst(link)}"
        )
        lines = [
            f"qdisc replace dev {device} root handle 1: htb default 99",
            f"class add dev {device} parent 1: classid 1:1 htb {whole}",
        ]
        for number, (ipv4, ipv6) in enumerate(addresses, start=0x10):
            flow = f"1:{number:x}"
            lines += [
                f"class add dev {device} parent 1:1 classid {flow} htb"
                f" rate {assured}bit ceil {cap}bit {bucket} quantum 65536",
                f"filter add dev {device} parent 1: protocol ip prio 1"
                f" u32 match ip {direction} {ipv4}/32 flowid {flow}",
                f"filter add dev {device} parent 1: protocol ipv6 prio 2"
                f" u32 match ip6 {direction} {ipv6}/128 flowid {flow}",
            ]
        return lines

    def _burst(self, rate: int) -> int:
        """Give a bucket's size in bytes for `rate` in bit/s."""
        if self.burst:
            return parse_size(self.burst)
        return max(_BURST_MIN, int(rate / 8 * _BURST_SECONDS))
