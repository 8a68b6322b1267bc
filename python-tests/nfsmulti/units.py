# SPDX-License-Identifier: GPL-2.0-only
"""Rates and sizes as tc, mount and fio write them, and figures as people read them."""

import datetime
import re
from collections.abc import Callable

from nfsmulti.errors import HarnessError

_RATE = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


def parse_rate(text: str) -> int:
    """Read a rate such as "9400mbit" or "1gbit"; gives bit/s. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", text.strip().lower())
    if not match or not float(match[1]):
        raise ValueError(f"'{text}' is not a rate: write it like 120mbit or 9.4gbit")
    return round(float(match[1]) * _RATE[match[2]])


def parse_size(text: str) -> int:
    """Read a size such as "256k", "2m" or "4g" (powers of 1024); gives bytes. Raises ValueError."""
    match = re.fullmatch(r"(\d+)([kmg]?)b?", text.strip().lower())
    if not match or not int(match[1]):
        raise ValueError(f"'{text}' is not a size: write it like 256k, 4m or 2g")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2]]


def check(what: str, text: str | None, parse: Callable[[str], int]) -> None:
    """Raise HarnessError naming `what` where `text` is given and `parse` refuses it."""
    try:
        if text is not None:
            parse(text)
    except ValueError as error:
        raise HarnessError(f"{what}: {error}") from None


def rate_text(bits: int) -> str:
    """Write a rate in bit/s the short way: 120 Mbit/s, 9.4 Gbit/s."""
    return f"{bits / 1e9:g} Gbit/s" if bits >= 10**9 else f"{bits / 1e6:g} Mbit/s"


def time_text(nanoseconds: float) -> str:
    """Write a latency with three digits and the unit that suits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def duration_text(seconds: float) -> str:
    """Write a time as h:mm:ss."""
    return str(datetime.timedelta(seconds=round(seconds)))
