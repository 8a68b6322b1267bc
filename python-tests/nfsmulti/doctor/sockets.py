# SPDX-License-Identifier: GPL-2.0-only
"""Whether the kernel's TCP buffers let one connection fill the link."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from nfsmulti.doctor.finding import Finding, ok, warn
from nfsmulti.processes import run
from nfsmulti.units import rate_text

_SECONDS = 10.0
_ASSUMED_BITS = 10 * 10**9
_SYSCTL = Path("/proc/sys/net/ipv4")


def look(label: str, address: str, round_trip: float) -> Iterator[Finding]:
    """Compare the buffers with rate times `round_trip` (seconds) towards `address`."""
    rate, source = _rate(address)
    needed = 2 * int(rate / 8 * round_trip)  # the kernel counts its own overhead in
    limits = {
        name: int((_SYSCTL / name).read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem")
    }
    small = {name: limit for name, limit in limits.items() if limit < needed}
    flight = f"{rate_text(rate)}{source} x {round_trip * 1e3:.2g} ms round trip"
    if not small:
        sizes = " and ".join(f"{limit >> 10} KiB" for limit in limits.values())
        yield ok(f"{label}: TCP buffers grow to {sizes}, enough for {flight}")
    for name, limit in small.items():
        text = " ".join((_SYSCTL / name).read_text().split()[:2])
        yield warn(
            f"{label}: net.ipv4.{name} ends at {limit >> 10} KiB, too small for {flight}",
            f"sysctl -w net.ipv4.{name}='{text} {needed}'",
        )


def device(address: str) -> tuple[str, int] | None:
    """Find the device that leads to an address, and its rate in bit/s; None where it tells none."""
    route = run(["ip", "-json", "route", "get", address], timeout=_SECONDS)
    try:
        name = json.loads(route.stdout)[0]["dev"]
        mbits = int(Path(f"/sys/class/net/{name}/speed").read_text())
    except (ValueError, LookupError, OSError):
        return None
    return (name, mbits * 10**6) if mbits > 0 else None


def links(addresses: Iterable[str]) -> dict[str, int]:
    """Give the devices that lead to addresses, with their rates; none where one is not known."""
    found = [device(address) for address in addresses]
    return dict(filter(None, found)) if all(found) else {}


def capacity(addresses: Iterable[str]) -> Iterator[Finding]:
    """Tell what the links to all servers carry at most, where their rates are known."""
    if rates := links(addresses):
        names = " and ".join(f"{name}: {rate_text(rate)}" for name, rate in rates.items())
        yield ok(
            f"the links to the servers ({names}) carry {sum(rates.values()) / 8e6:,.0f} MB/s at"
            " most; ./nfsmulti run connections measures what ends it before that"
        )


def _rate(address: str) -> tuple[int, str]:
    """Give the rate towards the address, in bit/s, and where it was found."""
    found = device(address)
    return (found[1], f" ({found[0]})") if found else (_ASSUMED_BITS, " (assumed)")
