# SPDX-License-Identifier: GPL-2.0-only
"""Tokens of Kerberos (RFC 4121) in memory: what MIT's library makes is read, and the reverse.

`mic` and `wrap` are a second reading of the RFC, on MIT's crypto; they know nothing of the C code.
Any bytes at all are refused in good order by python-tests/fuzz/.
"""

from __future__ import annotations

import errno
import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from conftest import missing, or_skip
from engine_c import CONSTANTS, CData, Guarded, ffi
from hypothesis import given
from hypothesis import strategies as st
from mit_krb5 import MitKey

from nfsmulti.errors import MissingError

KEY_SIZES = {17: 16, 18: 32, 19: 16, 20: 32}
HEADER = 16
INITIATOR, ACCEPTOR = 0, 1
# RFC 4121, 2 and 4.2.2
SEAL, SIGN = {ACCEPTOR: 22, INITIATOR: 24}, {ACCEPTOR: 23, INITIATOR: 25}
SENT_BY_ACCEPTOR, SEALED, ACCEPTOR_SUBKEY = 1, 2, 4
U16, U64 = 2**16 - 1, 2**64 - 1

# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")


@dataclass(frozen=True)
class Message:
    """Who sends what, under which key."""

    enctype: int
    side: int = INITIATOR
    subkey: bool = False
    sequence: int = 7
    data: bytes = b"some bytes, as many as fill no block"
    seed: int = 1

    @property
    def key(self) -> bytes:
        """The context's key."""
        return random.Random(self.seed).randbytes(KEY_SIZES[self.enctype])

    @property
    def mit(self) -> MitKey:
        """The same key, as MIT's."""
        with or_skip():
            return MitKey(self.enctype, self.key)

    @property
    def flags(self) -> int:
        """Those of a MIC token."""
        return SENT_BY_ACCEPTOR * self.side | ACCEPTOR_SUBKEY * self.subkey


def mic(message: Message, **fields: int) -> bytes:
    """Return the MIC token as MIT's crypto makes it."""
    flags, filler = fields.get("flags", message.flags), fields.get("filler", 0xFF)
    kind = fields.get("kind", 0x0404)
    header = struct.pack(">HB5sQ", kind, flags, bytes([filler]) * 5, message.sequence)
    return header + message.mit.checksum(SIGN[message.side], message.data + header)


def wrap_header(message: Message, extra: int = 0, rotation: int = 0, **fields: int) -> bytes:
    flags, filler = fields.get("flags", message.flags | SEALED), fields.get("filler", 0xFF)
    kind, sequence = fields.get("kind", 0x0504), fields.get("sequence", message.sequence)
    return struct.pack(">H2B2HQ", kind, flags, filler, extra, rotation, sequence)


def wrap(
    message: Message, extra: int = 0, rotation: int = 0, *, copy: bytes = b"", **fields: int
) -> bytes:
    """Return a Wrap token as MIT's crypto makes it; `copy`: another header than is encrypted."""
    plain = message.data + bytes(min(extra, 100)) + (copy or wrap_header(message, extra, **fields))
    text = message.mit.encrypt(SEAL[message.side], plain)
    turn = -rotation % len(text)
    return wrap_header(message, extra, rotation, **fields) + text[turn:] + text[:turn]


ffi.cdef("int krb5_wraps_agree(uint32_t, bool, const struct iovec *, int);")
_BYTES = ffi.new("uint8_t[]", random.Random(0).randbytes((1 << 20) + 128))


class Keys:
    """The engine's, from a message's key."""

    def __init__(self, lib: CData, message: Message):
        try:
            self._free = lib.krb5_keys_free
        except AttributeError:
            missing(MissingError("the engine was built without GnuTLS"))
        self._lib = lib
        made = ffi.new("struct krb5_keys **")
        key = ffi.new("uint8_t[]", message.key)
        size = KEY_SIZES[message.enctype]
        assert lib.krb5_keys_new(made, message.enctype, key, size, message.subkey) == 0
        self._keys = ffi.gc(made[0], self._free)

    @property
    def sizes(self) -> tuple[int, int]:
        """Return those of a MIC token, and of what a Wrap token adds."""
        return self._lib.krb5_mic_size(self._keys), self._lib.krb5_wrap_size(self._keys)

    def mic(self, message: Message, parts: list[bytes]) -> bytes:
        token, (vector, memory) = Guarded(self.sizes[0]), vector_of(parts)
        make, sequence = self._lib.krb5_mic, message.sequence
        assert make(self._keys, message.side, sequence, vector, len(parts), token.at)
        assert self._lib.krb5_wrap_end(self._keys)
        assert token.intact
        assert [one.content for one in memory] == parts
        return token.content

    def mic_ok(
        self, side: int, parts: list[bytes], token: bytes, length: int | None = None
    ) -> bool:
        length = len(token) if length is None else length
        memory, (vector, cut_up) = Guarded(len(token), token), vector_of(parts)
        check = self._lib.krb5_mic_ok
        said = check(self._keys, side, vector, len(parts), memory.at, length)
        assert memory.content == token
        assert [one.content for one in cut_up] == parts
        return bool(said)

    def wrap(self, message: Message, parts: list[bytes]) -> bytes:
        token, (vector, memory) = Guarded(self.sizes[1] + len(message.data)), vector_of(parts)
        make, sequence = self._lib.krb5_wrap, message.sequence
        assert make(self._keys, message.side, sequence, vector, len(parts), token.at)
        assert self._lib.krb5_wrap_end(self._keys)
        assert token.intact
        assert [one.content for one in memory] == parts
        return token.content

    def unwrap(self, side: int, token: bytes, length: int | None = None) -> bytes | None:
        """Return the plaintext of a token, or of so much of it; None where that is refused."""
        memory = Guarded(len(token), token)
        room = len(token) if length is None else length
        plain, size = ffi.new("uint8_t **"), ffi.new("uint32_t *")
        said = self._lib.krb5_unwrap(self._keys, side, memory.at, room, plain, size)
        assert memory.intact
        if not said:
            return None
        assert plain[0] == memory.at + CONSTANTS.KRB5_WRAP_FRONT
        return bytes(ffi.buffer(plain[0], size[0]))

    def front(self, token: bytes, have: int | None = None) -> int:
        """Return how much of a token is before its plaintext, where it is plainly sealed."""
        memory = Guarded(len(token), token)
        return int(self._lib.krb5_wrap_front(memory.at, len(token) if have is None else have))

    def unwrap_parts(self, side: int, parts: list[bytes]) -> bytes | None:
        """Return the plaintext of a token in parts, where it lies in them."""
        vector, memory = vector_of(parts)
        said = self._lib.krb5_unwrap_parts(self._keys, side, vector, len(parts))
        assert all(part.intact for part in memory)
        front, back = CONSTANTS.KRB5_WRAP_FRONT, self.sizes[1] - CONSTANTS.KRB5_WRAP_FRONT
        return b"".join(part.content for part in memory)[front:-back] if said else None


def vector_of(parts: list[bytes]) -> tuple[CData, list[Guarded]]:
    """Return them as struct iovec, an empty one at NULL, and their memory."""
    memory = [Guarded(len(part), part) for part in parts]
    vector = [(one.at if one.size else ffi.NULL, one.size) for one in memory]
    return ffi.new("struct iovec[]", vector), memory


@st.composite
def messages(draw: st.DrawFn) -> Message:
    length = draw(st.integers(0, 80) | st.integers(0, 70_000))
    seed = draw(st.integers(0, 99))
    return Message(
        enctype=draw(st.sampled_from(sorted(KEY_SIZES))),
        side=draw(st.sampled_from([INITIATOR, ACCEPTOR])),
        subkey=draw(st.booleans()),
        sequence=draw(st.integers(0, U64)),
        data=random.Random(seed).randbytes(length),
        seed=seed,
    )


@st.composite
def cut(draw: st.DrawFn) -> tuple[Message, list[bytes]]:
    """Draw a message and its data in parts, some of which may be empty."""
    message = draw(messages())
    places = sorted(draw(st.lists(st.integers(0, len(message.data)), max_size=6)))
    return message, [message.data[a:b] for a, b in pairwise([0, *places, len(message.data)])]


# --- MIT's, and the engine's ---


@given(cut())
def test_mic_is_mits(testlib: CData, sent: tuple[Message, list[bytes]]) -> None:
    message, parts = sent
    keys, expected = Keys(testlib, message), mic(message)
    assert keys.mic(message, parts) == expected
    assert keys.mic_ok(message.side, parts, expected)
    assert not keys.mic_ok(1 - message.side, parts, expected)


@given(cut())
def test_mit_reads_what_was_wrapped(testlib: CData, sent: tuple[Message, list[bytes]]) -> None:
    message, parts = sent
    token, header = Keys(testlib, message).wrap(message, parts), wrap_header(message)
    assert token[:HEADER] == header
    assert message.mit.decrypt(SEAL[message.side], token[HEADER:]) == message.data + header


@given(messages(), st.integers(0, 100), st.integers(0, U16))
def test_what_mit_wrapped_is_read(
    testlib: CData, message: Message, extra: int, rotation: int
) -> None:
    """Whatever it is rotated by, and whatever filler it has."""
    keys = Keys(testlib, message)
    assert keys.unwrap(message.side, wrap(message, extra, rotation)) == message.data
    assert keys.unwrap(1 - message.side, wrap(message, extra, rotation)) is None


@given(messages(), st.data())
def test_what_mit_wrapped_is_read_in_parts(
    testlib: CData, message: Message, draw: st.DataObject
) -> None:
    """However its plaintext is cut; with a bit turned over it is not."""
    keys, token = Keys(testlib, message), wrap(message)
    place = st.integers(front := keys.front(token), front + len(message.data))
    places = sorted(draw.draw(st.tuples(place, place)))

    def unwrap(token: bytes, side: int = message.side) -> bytes | None:
        parts = [token[a:b] for a, b in pairwise([0, *places, len(token)])]
        return keys.unwrap_parts(side, parts)

    assert unwrap(token) == message.data
    assert unwrap(token, 1 - message.side) is None
    bit = draw.draw(st.integers(0, 8 * len(token) - 1))
    assert unwrap((int.from_bytes(token) ^ 1 << bit).to_bytes(len(token))) is None


@given(messages(), *[st.integers(0, 1) | st.integers(0, U16)] * 2)
def test_tokens_whose_plaintext_is_not_in_order(
    testlib: CData, message: Message, extra: int, rotation: int
) -> None:
    """Their header says so, once it is there."""
    keys, token = Keys(testlib, message), wrap_header(message, extra, rotation)
    expected = 0 if extra or rotation else CONSTANTS.KRB5_WRAP_FRONT
    assert [keys.front(token, have) for have in range(HEADER + 1)] == [0] * HEADER + [expected]


@pytest.mark.parametrize("enctype", KEY_SIZES)
def test_sizes(testlib: CData, enctype: int) -> None:
    message = Message(enctype, data=b"")
    mic_size, wrap_size = Keys(testlib, message).sizes
    assert mic_size == len(mic(message)) <= CONSTANTS.KRB5_MIC_MAX
    assert wrap_size == len(wrap(message))
    assert wrap_size <= CONSTANTS.KRB5_WRAP_FRONT + CONSTANTS.KRB5_WRAP_BACK_MAX


@pytest.mark.parametrize("enctype", KEY_SIZES)
def test_one_key_serves_many_messages(testlib: CData, enctype: int) -> None:
    """No two of which are alike when they are sealed."""
    message = Message(enctype)
    keys, header = Keys(testlib, message), wrap_header(message)
    tokens = {keys.wrap(message, [message.data]) for _ in range(10)}
    assert len(tokens) == 10
    for token in tokens:
        assert message.mit.decrypt(SEAL[INITIATOR], token[HEADER:]) == message.data + header


# --- in one pass, and by GnuTLS ---

_MOST = 1 << 20
_TRIES = int(os.environ.get("NFSMULTI_KRB5_MESSAGES") or 200)  # of random lengths


def _agree(lib: CData, enctype: int, lengths: list[int], *, one_pass: bool, seed: int) -> bool:
    """Wrap messages together, each at an address and in three parts by chance."""
    chance, vector = random.Random(seed), []
    for length in lengths:
        a, b = sorted(chance.choices(range(length + 1), k=2))
        at = _BYTES + chance.randrange(64)
        vector += [(at, a), (at + a, b - a), (at + b, length - b)]
    parts = ffi.new("struct iovec[]", vector)
    agree: int = lib.krb5_wraps_agree(2 * (enctype - 17), one_pass, parts, len(lengths))
    if agree < 0:
        pytest.skip("the processor has no instructions for AES and SHA")
    return agree == 1


@pytest.mark.parametrize(
    ("enctype", "one_pass"), [(17, True), (18, True), *((enctype, False) for enctype in KEY_SIZES)]
)
def test_wraps_are_gnutls(testlib: CData, enctype: int, *, one_pass: bool) -> None:
    """One to four at once, of each length to 4 KiB and of others up to 1 MiB.

    NFSMULTI_KRB5_MESSAGES=1000000 tries more.
    """
    Keys(testlib, Message(enctype))
    chance = random.Random(enctype)
    for length in range(4097):
        lengths = [length, *chance.choices(range(4097), k=length % 4)]
        assert _agree(testlib, enctype, lengths, one_pass=one_pass, seed=length), lengths
    for seed in range(_TRIES):
        lengths = [int(_MOST ** chance.random()) + chance.randrange(64) for _ in range(2)]
        assert _agree(testlib, enctype, lengths, one_pass=one_pass, seed=seed), lengths


# --- what is refused ---


def spoiled(token: bytes) -> Iterator[bytes]:
    """Yield a token with each of its bits turned over, and with another byte."""
    for bit in range(8 * len(token)):
        yield (int.from_bytes(token) ^ 1 << bit).to_bytes(len(token))
    yield token + b"\0"


@pytest.mark.parametrize("enctype", KEY_SIZES)
def test_spoiled_tokens(testlib: CData, enctype: int) -> None:
    """And the next sound one is taken after each."""
    message = Message(enctype)
    keys, parts = Keys(testlib, message), [message.data]
    signed, sealed = mic(message), wrap(message)
    for token in spoiled(signed):
        assert not keys.mic_ok(message.side, parts, token), token.hex()
        assert keys.mic_ok(message.side, parts, signed)
    for token in spoiled(sealed):
        assert keys.unwrap(message.side, token) is None, token.hex()
        assert keys.unwrap(message.side, sealed) == message.data
    for data in spoiled(message.data):
        assert not keys.mic_ok(message.side, [data], signed)


@pytest.mark.parametrize("enctype", KEY_SIZES)
def test_tokens_that_are_cut(testlib: CData, enctype: int) -> None:
    """The rest lies behind them, but does not count."""
    message = Message(enctype)
    keys, parts = Keys(testlib, message), [message.data]
    signed, sealed = mic(message), wrap(message)
    for length in range(len(signed)):
        assert not keys.mic_ok(message.side, parts, signed, length), length
    for length in range(len(sealed)):
        assert keys.unwrap(message.side, sealed, length) is None, length


@pytest.mark.parametrize("enctype", KEY_SIZES)
def test_headers_that_lie(testlib: CData, enctype: int) -> None:
    """Their sender knows the key: checksums are right."""
    message = Message(enctype)
    keys, parts = Keys(testlib, message), [message.data]
    for flags in (SEALED, SENT_BY_ACCEPTOR, ACCEPTOR_SUBKEY):
        assert not keys.mic_ok(message.side, parts, mic(message, flags=flags)), flags
        assert keys.unwrap(message.side, wrap(message, flags=flags ^ SEALED)) is None, flags
    for signed in (mic(message, kind=0x0504), mic(message, filler=0)):
        assert not keys.mic_ok(message.side, parts, signed), signed.hex()
    for sealed in (wrap(message, kind=0x0404), wrap(message, filler=0)):
        assert keys.unwrap(message.side, sealed) is None, sealed.hex()
    for extra in (len(message.data) + 101, U16):
        assert keys.unwrap(message.side, wrap(message, extra)) is None, extra
    for copied in ({"extra": 1}, {"rotation": 1}, {"sequence": 8}):
        token = wrap(message, copy=wrap_header(message, **copied))
        assert keys.unwrap(message.side, token) is None, copied


def test_flags_to_come_are_ignored(testlib: CData) -> None:
    """RFC 4121, 4.2.2: the five that have no meaning yet."""
    message = Message(18, subkey=True)
    keys = Keys(testlib, message)
    assert keys.mic_ok(message.side, [message.data], mic(message, flags=0xF8 | message.flags))
    token = wrap(message, flags=0xF8 | SEALED | message.flags)
    assert keys.unwrap(message.side, token) == message.data


def test_keys_that_are_none(testlib: CData) -> None:
    made, key = ffi.new("struct krb5_keys **"), ffi.new("uint8_t[]", 64)
    Keys(testlib, Message(18))
    for enctype in (0, 1, 16, 21, 23, 26, 2**32 - 1):
        assert testlib.krb5_keys_new(made, enctype, key, 32, False) == -errno.ENOTSUP
    for enctype, size in KEY_SIZES.items():
        for wrong in (0, size - 1, size + 1, 24, 64):
            assert testlib.krb5_keys_new(made, enctype, key, wrong, False) == -errno.EINVAL
    assert made[0] == ffi.NULL
    testlib.krb5_keys_free(ffi.NULL)
