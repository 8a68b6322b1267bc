# SPDX-License-Identifier: GPL-2.0-only
"""Tokens of Kerberos (RFC 4121) in memory: what MIT's library makes is read, and the reverse.

`mic` and `wrap` are a second reading of the RFC, on MIT's own crypto (libk5crypto), by keys and
usages alone: neither a KDC nor a configuration is needed. They know nothing of the C code.
Any bytes at all are refused in good order by python-tests/fuzz/.
"""

import functools
import os
import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise, product

import pytest
from cffi import FFI
from conftest import missing
from engine_c import CONSTANTS, CData, Guarded, ffi

from nfsmulti.errors import MissingError

KEY_SIZES = {17: 16, 18: 32, 19: 16, 20: 32}
CKSUMTYPES = {17: 15, 18: 16, 19: 19, 20: 20}  # of an enctype, by IANA's numbers
HEADER = 16
INITIATOR, ACCEPTOR = 0, 1
# RFC 4121, 2 and 4.2.2
SEAL, SIGN = {ACCEPTOR: 22, INITIATOR: 24}, {ACCEPTOR: 23, INITIATOR: 25}
SENT_BY_ACCEPTOR, SEALED, ACCEPTOR_SUBKEY = 1, 2, 4
U16 = 2**16 - 1

# A signal would not be looked at while C code runs.
pytestmark = pytest.mark.timeout(method="thread")


_mit = FFI()
_mit.cdef("""
typedef struct { int32_t magic; unsigned int length; char *data; } krb5_data;
typedef struct { int32_t magic, type; unsigned int length; char *contents; } krb5_keyblock;
typedef krb5_keyblock krb5_checksum;
typedef struct { int32_t magic, type; unsigned int kvno; krb5_data ciphertext; } krb5_enc_data;

int32_t krb5_c_make_checksum(void *context, int32_t type, const krb5_keyblock *key, int32_t usage,
                             const krb5_data *input, krb5_checksum *checksum);
int32_t krb5_c_encrypt_length(void *context, int32_t enctype, size_t input, size_t *length);
int32_t krb5_c_encrypt(void *context, const krb5_keyblock *key, int32_t usage, void *state,
                       const krb5_data *input, krb5_enc_data *output);
int32_t krb5_c_decrypt(void *context, const krb5_keyblock *key, int32_t usage, void *state,
                       const krb5_enc_data *input, krb5_data *output);
void free(void *memory);
""")
_NULL = _mit.NULL


@functools.cache
def libk5crypto() -> CData:
    try:
        return _mit.dlopen("libk5crypto.so.3")
    except OSError:
        missing(MissingError("libk5crypto is not installed", "apt-get install libk5crypto3"))


class MitKey:
    """A key of MIT's; its functions use no context."""

    def __init__(self, enctype: int, key: bytes):
        self._enctype, self._contents = enctype, _mit.new("char[]", key)
        self._key = _mit.new("krb5_keyblock *", [0, enctype, len(key), self._contents])

    def checksum(self, usage: int, data: bytes) -> bytes:
        memory, made = _mit.new("char[]", data), _mit.new("krb5_checksum *")
        source, kind = _mit.new("krb5_data *", [0, len(data), memory]), CKSUMTYPES[self._enctype]
        make = libk5crypto().krb5_c_make_checksum
        assert make(_NULL, kind, self._key, usage, source, made) == 0
        content = bytes(_mit.buffer(made.contents, made.length))
        _mit.dlopen(None).free(made.contents)
        return content

    def encrypt(self, usage: int, plain: bytes) -> bytes:
        """Return confounder and bytes, encrypted, and their HMAC."""
        memory, size = _mit.new("char[]", plain), _mit.new("size_t *")
        length_of, encrypt = libk5crypto().krb5_c_encrypt_length, libk5crypto().krb5_c_encrypt
        assert length_of(_NULL, self._enctype, len(plain), size) == 0
        room = _mit.new("char[]", size[0])
        source = _mit.new("krb5_data *", [0, len(plain), memory])
        output = _mit.new("krb5_enc_data *", [0, 0, 0, [0, size[0], room]])
        assert encrypt(_NULL, self._key, usage, _NULL, source, output) == 0
        return bytes(_mit.buffer(room, output.ciphertext.length))

    def decrypt(self, usage: int, ciphertext: bytes) -> bytes:
        memory, room = _mit.new("char[]", ciphertext), _mit.new("char[]", len(ciphertext))
        encrypted = [0, len(ciphertext), memory]
        source = _mit.new("krb5_enc_data *", [0, self._enctype, 0, encrypted])
        output = _mit.new("krb5_data *", [0, len(ciphertext), room])
        decrypt = libk5crypto().krb5_c_decrypt
        assert decrypt(_NULL, self._key, usage, _NULL, source, output) == 0
        return bytes(_mit.buffer(room, output.length))


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
        return random.Random(self.seed).randbytes(KEY_SIZES[self.enctype])

    @property
    def mit(self) -> MitKey:
        return MitKey(self.enctype, self.key)

    @property
    def flags(self) -> int:
        return SENT_BY_ACCEPTOR * self.side | ACCEPTOR_SUBKEY * self.subkey


def mic(message: Message, **fields: int) -> bytes:
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


ffi.cdef("bool krb5_in_one_pass(const struct krb5_keys *);")
ffi.cdef("void krb5_by_gnutls(struct krb5_keys *);")


@contextmanager
def lent(parts: Sequence[bytes], *, changes: bool = False) -> Iterator[tuple[CData, list[Guarded]]]:
    """Yield parts as struct iovec, an empty one at NULL, and their memory, which is watched."""
    memory = [Guarded(len(part), part) for part in parts]
    vector = [(one.at if one.size else ffi.NULL, one.size) for one in memory]
    yield ffi.new("struct iovec[]", vector), memory
    assert all(one.intact for one in memory)
    assert changes or [one.content for one in memory] == [*parts]


class Keys:
    """The engine's, from a message's key."""

    def __init__(self, lib: CData, message: Message, *, one_pass: bool = True):
        try:
            free = lib.krb5_keys_free
        except AttributeError:
            missing(MissingError("the engine was built without GnuTLS"))
        self._lib = lib
        made = ffi.new("struct krb5_keys **")
        key = ffi.new("uint8_t[]", message.key)
        size = KEY_SIZES[message.enctype]
        assert lib.krb5_keys_new(made, message.enctype, key, size, message.subkey) == 0
        self._keys = ffi.gc(made[0], free)
        self.one_pass = one_pass and lib.krb5_in_one_pass(self._keys)
        if not one_pass:
            lib.krb5_by_gnutls(self._keys)

    @property
    def sizes(self) -> tuple[int, int]:
        """Return those of a MIC token, and of what a Wrap token adds."""
        return self._lib.krb5_mic_size(self._keys), self._lib.krb5_wrap_size(self._keys)

    def mic(self, message: Message, parts: list[bytes]) -> bytes:
        (token,) = self._made("mic", self.sizes[0], (message, parts))
        return token

    def mic_ok(self, side: int, parts: list[bytes], token: bytes) -> bool:
        with lent(parts) as (vector, _), lent([token]) as (_, (memory,)):
            check = self._lib.krb5_mic_ok
            return bool(check(self._keys, side, vector, len(parts), memory.at, memory.size))

    def wrap(self, *messages: tuple[Message, list[bytes]]) -> list[bytes]:
        """Return tokens that are made together; messages have their data in parts."""
        return self._made("wrap", self.sizes[1], *messages)

    def _made(self, kind: str, size: int, *messages: tuple[Message, list[bytes]]) -> list[bytes]:
        """Return tokens of that size, which for a Wrap token is beside the data."""
        make, tokens = getattr(self._lib, f"krb5_{kind}"), list[Guarded]()
        with ExitStack() as stack:
            for message, parts in messages:
                vector, _ = stack.enter_context(lent(parts))
                tokens.append(Guarded(size + (kind == "wrap") * len(message.data)))
                place = message.side, message.sequence
                assert make(self._keys, *place, vector, len(parts), tokens[-1].at)
            assert self._lib.krb5_wrap_end(self._keys)
        assert all(token.intact for token in tokens)
        return [token.content for token in tokens]

    def unwrap(self, side: int, token: bytes) -> bytes | None:
        """Return the plaintext of a token; None where that is refused."""
        plain, size = ffi.new("uint8_t **"), ffi.new("uint32_t *")
        with lent([token], changes=True) as (_, (memory,)):
            if not self._lib.krb5_unwrap(self._keys, side, memory.at, memory.size, plain, size):
                return None
            assert plain[0] == memory.at + CONSTANTS.KRB5_WRAP_FRONT
            return bytes(ffi.buffer(plain[0], size[0]))

    def front(self, token: bytes) -> int:
        """Return how much of a token is before its plaintext, where it is plainly sealed."""
        with lent([token]) as (_, (memory,)):
            return int(self._lib.krb5_wrap_front(memory.at, memory.size))

    def unwrap_parts(self, side: int, parts: list[bytes]) -> bytes | None:
        """Return the plaintext of a token in parts, where it lies in them."""
        with lent(parts, changes=True) as (vector, memory):
            said = self._lib.krb5_unwrap_parts(self._keys, side, vector, len(parts))
            front, back = CONSTANTS.KRB5_WRAP_FRONT, self.sizes[1] - CONSTANTS.KRB5_WRAP_FRONT
            return b"".join(part.content for part in memory)[front:-back] if said else None


def cut(chance: random.Random, data: bytes) -> list[bytes]:
    """Cut it into parts, some of which may be empty."""
    places = sorted(chance.choices(range(len(data) + 1), k=chance.randrange(4)))
    return [data[a:b] for a, b in pairwise([0, *places, len(data)])]


def messages(enctype: int) -> Iterator[tuple[random.Random, Message]]:
    """Yield messages of many lengths by both sides, under either key, and what chance is left."""
    chance = random.Random(enctype)
    lengths = [*range(81), 4095, 4096, 70_000]
    for side, subkey, length in product((INITIATOR, ACCEPTOR), (False, True), lengths):
        data, sequence = chance.randbytes(length), chance.getrandbits(64)
        yield chance, Message(enctype, side, subkey, sequence, data, chance.randrange(99))


_each_type = pytest.mark.parametrize("enctype", KEY_SIZES)


# --- MIT's, and the engine's ---


@_each_type
def test_mic_is_mits(testlib: CData, enctype: int) -> None:
    for chance, message in messages(enctype):
        keys, expected, parts = Keys(testlib, message), mic(message), cut(chance, message.data)
        assert keys.mic(message, parts) == expected, message
        assert keys.mic_ok(message.side, parts, expected), message
        assert not keys.mic_ok(1 - message.side, parts, expected), message
        assert len(expected) <= CONSTANTS.KRB5_MIC_MAX


@_each_type
def test_what_mit_wrapped_is_read(testlib: CData, enctype: int) -> None:
    """Whatever it is rotated by, and whatever filler it has.

    Where its header says that its plaintext is in order, also in parts, however they are cut.
    """
    for chance, message in messages(enctype):
        keys, other = Keys(testlib, message), 1 - message.side
        for extra, rotation in ((0, 0), (0, chance.getrandbits(16)), (chance.randrange(100), 0)):
            token = wrap(message, extra, rotation)
            assert keys.unwrap(message.side, token) == message.data, message
            assert keys.unwrap(other, token) is None, message
            expected = 0 if extra or rotation else CONSTANTS.KRB5_WRAP_FRONT
            fronts = [keys.front(token[:have]) for have in range(HEADER + 1)]
            assert fronts == [0] * HEADER + [expected], (extra, rotation)
        token, size = wrap(message), keys.sizes[1]
        front, back = CONSTANTS.KRB5_WRAP_FRONT, size - CONSTANTS.KRB5_WRAP_FRONT
        assert len(token) == size + len(message.data)
        assert back <= CONSTANTS.KRB5_WRAP_BACK_MAX
        begin, end = sorted(chance.choices(range(front, len(token) - back + 1), k=2))
        parts = [token[:begin], token[begin:end], token[end:]]
        assert keys.unwrap_parts(message.side, parts) == message.data, message
        assert keys.unwrap_parts(other, parts) is None, message


# --- in one pass, and by GnuTLS ---

_MOST = 1 << 20
_TRIES = int(os.environ.get("NFSMULTI_KRB5_MESSAGES") or 100)  # of random lengths


@pytest.mark.parametrize(
    ("enctype", "one_pass"), [(17, True), (18, True), *((enctype, False) for enctype in KEY_SIZES)]
)
def test_mit_reads_what_was_wrapped(testlib: CData, enctype: int, *, one_pass: bool) -> None:
    """One to four at once, of each length to 1 KiB and of others up to 1 MiB; none twice the same.

    NFSMULTI_KRB5_MESSAGES=1000000 tries more.
    """
    message, chance = Message(enctype), random.Random(enctype)
    key = message.mit
    keys = [Keys(testlib, Message(enctype, subkey=one), one_pass=one_pass) for one in (False, True)]
    if one_pass and not keys[0].one_pass:
        pytest.skip("the processor has no instructions for AES and SHA")
    lengths = [[length, *chance.choices(range(1025), k=length % 4)] for length in range(1025)]
    lengths += [[int(_MOST ** chance.random()) for _ in range(2)] for _ in range(_TRIES)]
    for number, together in enumerate(lengths):
        subkey, side = bool(number & 1), number >> 1 & 1
        sent = []
        for length in together:
            data, sequence = chance.randbytes(length), chance.getrandbits(64)
            sent.append(Message(enctype, side, subkey, sequence, data))
        made = keys[subkey].wrap(*((one, cut(chance, one.data)) for one in sent))
        for one, token in zip(sent, made, strict=True):
            header = wrap_header(one)
            assert token[:HEADER] == header, together
            assert key.decrypt(SEAL[side], token[HEADER:]) == one.data + header, together
    same = [keys[0].wrap(*[(message, [message.data])] * 2) for _ in range(4)]
    assert len({token for two in same for token in two}) == 8


# --- what is refused ---


def spoiled(token: bytes) -> Iterator[bytes]:
    """Yield a token with each of its bits turned over, and with another byte."""
    for bit in range(8 * len(token)):
        yield (int.from_bytes(token) ^ 1 << bit).to_bytes(len(token))
    yield token + b"\0"


@_each_type
def test_spoiled_tokens(testlib: CData, enctype: int) -> None:
    """The next sound one is taken after each. What is cut off lies behind, and does not count."""
    message = Message(enctype)
    keys, parts = Keys(testlib, message), [message.data]
    signed, sealed = mic(message), wrap(message)
    for token in spoiled(signed):
        assert not keys.mic_ok(message.side, parts, token), token.hex()
        assert keys.mic_ok(message.side, parts, signed)
    for token in spoiled(sealed):
        assert keys.unwrap(message.side, token) is None, token.hex()
        assert keys.unwrap_parts(message.side, [token[:40], b"", token[40:]]) is None, token.hex()
        assert keys.unwrap(message.side, sealed) == message.data
    for data in spoiled(message.data):
        assert not keys.mic_ok(message.side, [data], signed)
    for length in range(len(signed)):
        assert not keys.mic_ok(message.side, parts, signed[:length]), length
    for length in range(len(sealed)):
        assert keys.unwrap(message.side, sealed[:length]) is None, length


@_each_type
def test_headers_that_lie(testlib: CData, enctype: int) -> None:
    """Their sender knows the key: checksums are right.

    The five flags that have no meaning yet are ignored (RFC 4121, 4.2.2).
    """
    message = Message(enctype)
    keys, parts, to_come = Keys(testlib, message), [message.data], 0xF8
    assert keys.mic_ok(message.side, parts, mic(message, flags=to_come))
    assert keys.unwrap(message.side, wrap(message, flags=to_come | SEALED)) == message.data
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
