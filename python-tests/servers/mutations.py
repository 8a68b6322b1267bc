# SPDX-License-Identifier: GPL-2.0-only
"""Changes RPC records on their way, by a seed: what a hostile or broken server and network may do.

    mutator = Mutator(seed)
    proxy.calls, proxy.replies = mutator.call, mutator.reply

Replies become anything. Calls are lost, doubled, delayed or come with the end of their connection,
but keep their bytes: AUTH_SYS has no checksum, so a changed WRITE would be the server's to store.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable

from servers.record_proxy import Record

# How often a record is changed, one rate a seed: rare changes let a job go on, to its later states.
_RATES = (0.002, 0.01, 0.05, 0.2)
_HEAD = 400  # bytes in which most of a reply's fields lie: READ's data follows
_HELD_MOST = 16
# Lengths, counts and statuses that decoders trip over; some of NFSv3's and NFSv4.1's own errors.
_WORDS = (
    0, 1, 2, 3, 5, 13, 16, 17, 28, 63, 64, 65, 70, 128, 1023, 4096, 65535, 65536, 0xFFFFF, 1 << 24,
    0x7FFFFFFC, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF, 10001, 10004, 10006, 10008, 10011,
    10013, 10022, 10023, 10025, 10033, 10047, 10052, 10053, 10055, 10063, 10068, 10071, 10078,
)  # fmt: skip


class Mutator:
    """Both hooks of one proxy; `done` counts what was changed, by kind."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._rate = self._random.choice(_RATES)
        self._held: list[Record] = []
        self._earlier: list[bytes] = []
        self.done: Counter[str] = Counter()
        self._calls: tuple[Callable[[Record], list[bytes]], ...] = (
            self._lose,
            self._double,
            self._hold,
            self._cut,
        )
        self._replies: tuple[Callable[[Record], list[bytes]], ...] = (
            *self._calls,
            self._flip,
            self._flip,
            self._set_word,
            self._set_word,
            self._set_word,
            self._shorten,
            self._lengthen,
            self._splice,
            self._mark_wrongly,
            self._fragment,
        )

    def call(self, record: Record) -> list[bytes]:
        """Return what becomes of a call."""
        return self._become(record, self._calls)

    def reply(self, record: Record) -> list[bytes]:
        """Return what becomes of a reply."""
        became = self._become(record, self._replies)
        self._earlier = [*self._earlier[-_HELD_MOST:], record.data]
        return became

    def _become(
        self, record: Record, kinds: tuple[Callable[[Record], list[bytes]], ...]
    ) -> list[bytes]:
        if self._random.random() >= self._rate:
            self._let_go()
            return [record.data]
        kind = self._random.choice(kinds)
        self.done[kind.__name__.strip("_")] += 1
        return kind(record)

    def _lose(self, _: Record) -> list[bytes]:
        return []

    def _double(self, record: Record) -> list[bytes]:
        return [record.data, record.data]

    def _cut(self, record: Record) -> list[bytes]:
        record.connection.cut()
        return []

    def _hold(self, record: Record) -> list[bytes]:
        """Keep a record until some later one has passed: replies and calls change their order."""
        if len(self._held) < _HELD_MOST:
            self._held.append(record)
            return []
        return [record.data]

    def _let_go(self) -> None:
        while self._held and self._random.random() < 0.5:
            record = self._held.pop(self._random.randrange(len(self._held)))
            try:
                record.go_on()
            except OSError:  # its connection is gone, and it with it
                continue

    def _at(self, data: bytes) -> int:
        """Return a place in a reply, mostly among its fields."""
        end = len(data) if self._random.random() < 0.2 else min(len(data), _HEAD)
        return self._random.randrange(end)

    def _flip(self, record: Record) -> list[bytes]:
        data = bytearray(record.data)
        data[self._at(record.data)] ^= 1 << self._random.randrange(8)
        return [bytes(data)]

    def _set_word(self, record: Record) -> list[bytes]:
        at = self._at(record.data) & ~3
        word = self._random.choice((*_WORDS, len(record.data), self._random.getrandbits(32)))
        return [record.data[:at] + struct.pack(">I", word) + record.data[at + 4 :]]

    def _shorten(self, record: Record) -> list[bytes]:
        return [record.data[: self._at(record.data)]]

    def _lengthen(self, record: Record) -> list[bytes]:
        return [record.data + self._random.randbytes(self._random.choice((1, 4, 60, 5000)))]

    def _splice(self, record: Record) -> list[bytes]:
        """Go over to an earlier reply at some place, under this reply's xid."""
        if not self._earlier:
            return [record.data]
        other = self._random.choice(self._earlier)
        at = max(4, self._at(record.data) & ~3)
        return [record.data[:at] + other[at:]]

    def _mark_wrongly(self, record: Record) -> list[bytes]:
        """Send a record mark that does not fit what follows (RFC 5531, 11)."""
        length = len(record.data)
        wrong = self._random.choice((0, 1, length - 1, length + 1, 1 << 20, 0x7FFFFFFF))
        last = self._random.choice((0, 1 << 31))
        self._send(record, struct.pack(">I", last | wrong) + record.data)
        return []

    def _fragment(self, record: Record) -> list[bytes]:
        """Send a record in fragments, some of them empty, which is legal."""
        stream, rest = b"", record.data
        while len(rest) > 0:
            length = self._random.choice((0, 1, 4, 31, 512, len(rest)))
            part, rest = rest[:length], rest[length:]
            last = 0 if rest else 1 << 31
            stream += struct.pack(">I", last | len(part)) + part
            if len(stream) > 4 * len(record.data) + _HEAD:  # enough of small ones
                stream += struct.pack(">I", 1 << 31 | len(rest)) + rest if rest else b""
                break
        self._send(record, stream)
        return []

    def _send(self, record: Record, stream: bytes) -> None:
        record.connection.send_stream(record.connection.client, stream)
