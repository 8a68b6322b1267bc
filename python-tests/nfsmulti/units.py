# SPDX-License-Identifier: GPL-2.0-only
"""Sizes, times and limits of latency as one types them, rates as tc has; ValueError says how."""

import math
import re
from dataclasses import dataclass
from typing import Self

_SIZE = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_RATE = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


def parse_size(text: str) -> int:
    """Read a size such as "256k", "2m" or "4g" (powers of 1024); gives bytes."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if not match or not int(match[1]):
        raise ValueError(f"'{text}' is not a size: write it like 256k, 4m or 2g")
    return int(match[1]) << _SIZE[match[2]]


def size_text(size: int) -> str:
    """Write bytes with the largest unit that divides them: 65536 is "64k"."""
    for bits, unit in ((30, "g"), (20, "m"), (10, "k")):
        if not size % (1 << bits):
            return f"{size >> bits}{unit}"
    return str(size)


def parse_seconds(text: str) -> float:
    """Read a time such as "30", "30s", "5m" or "8h"; gives seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip().lower())
    if not match or not float(match[1]):
        raise ValueError(f"'{text}' is not a time: write it like 30s, 5m or 8h")
    return float(match[1]) * _SECONDS[match[2]]


def parse_rate(text: str) -> int:
    """Read a rate such as "9400mbit" or "1gbit"; gives bit/s. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", text.strip().lower())
    if not match or not float(match[1]):
        raise ValueError(f"'{text}' is not a rate: write it like 120mbit or 9.4gbit")
    return round(float(match[1]) * _RATE[match[2]])


@dataclass(frozen=True)
class Slo:
    """A limit of latency: so many per cent of all I/O take at most so many µs; inf is none."""

    percent: float
    us: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a limit such as "p99:1ms" or "p99.9:500us"."""
        match = re.fullmatch(r"p(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)(us|ms|s)", text.strip().lower())
        if not match or not 0 < float(match[1]) < 100 or not float(match[2]):
            raise ValueError(f"'{text}' is not a limit of latency: write it like p99:1ms")
        return cls(float(match[1]), float(match[2]) * _US[match[3]])

    @property
    def given(self) -> bool:
        """Whether there is a limit at all."""
        return self.us < math.inf

    @property
    def text(self) -> str:
        """Its words: "p99 within 1 ms"."""
        return f"p{self.percent:g} within {self.time}"

    @property
    def time(self) -> str:
        """The limit alone: "1 ms"."""
        return f"{self.us / 1000:g} ms" if self.us >= 1000 else f"{self.us:g} µs"
