# SPDX-License-Identifier: GPL-2.0-only
"""MIT's own crypto (libk5crypto), by keys and usages alone: what the engine's is held against.

Neither a KDC nor a configuration is needed: these functions of its API use no context.
"""

from __future__ import annotations

import functools
from typing import Any

from cffi import FFI

from nfsmulti.errors import MissingError
from nfsmulti.processes import apt_line

CKSUMTYPES = {17: 15, 18: 16, 19: 19, 20: 20}  # of an enctype, by IANA's numbers

_LIBRARY = "libk5crypto.so.3"
_ffi = FFI()
_ffi.cdef("""
typedef struct { int32_t magic; unsigned int length; char *data; } krb5_data;
typedef struct {
    int32_t magic; int32_t enctype; unsigned int length; uint8_t *contents;
} krb5_keyblock;
typedef struct { int32_t magic; int32_t enctype; unsigned int kvno; krb5_data ciphertext; }
    krb5_enc_data;
typedef struct { int32_t magic; int32_t type; unsigned int length; uint8_t *contents; }
    krb5_checksum;

int32_t krb5_c_make_checksum(void *context, int32_t type, const krb5_keyblock *key, int32_t usage,
                             const krb5_data *input, krb5_checksum *checksum);
int32_t krb5_c_encrypt_length(void *context, int32_t enctype, size_t input, size_t *length);
int32_t krb5_c_encrypt(void *context, const krb5_keyblock *key, int32_t usage, void *state,
                       const krb5_data *input, krb5_enc_data *output);
int32_t krb5_c_decrypt(void *context, const krb5_keyblock *key, int32_t usage, void *state,
                       const krb5_enc_data *input, krb5_data *output);
void free(void *memory);
""")
_libc: Any = _ffi.dlopen(None)


def _data(content: bytes) -> tuple[Any, Any]:
    """Return them as libk5crypto's, and the memory that must outlive that."""
    memory = _ffi.new("char[]", content)
    return _ffi.new("krb5_data *", [0, len(content), memory]), memory


@functools.cache
def _library() -> Any:
    try:
        return _ffi.dlopen(_LIBRARY)
    except OSError:
        raise MissingError(f"{_LIBRARY} is not installed", apt_line(["libk5crypto3"])) from None


def _check(error: int) -> None:
    if error:
        raise ValueError(f"libk5crypto: error {error}")


class MitKey:
    """A key of MIT's. Any of these raises ValueError where libk5crypto refuses."""

    def __init__(self, enctype: int, key: bytes):
        self._lib = _library()
        self._enctype = enctype
        self._contents = _ffi.new("uint8_t[]", key)
        self._key = _ffi.new("krb5_keyblock *", [0, enctype, len(key), self._contents])

    def checksum(self, usage: int, data: bytes) -> bytes:
        """Return the enctype's own checksum of these bytes."""
        made = _ffi.new("krb5_checksum *")
        kind, source = CKSUMTYPES[self._enctype], _data(data)
        _check(self._lib.krb5_c_make_checksum(_ffi.NULL, kind, self._key, usage, source[0], made))
        content = bytes(_ffi.buffer(made.contents, made.length))
        _libc.free(made.contents)
        return content

    def encrypt(self, usage: int, plain: bytes) -> bytes:
        """Return confounder and bytes, encrypted, and their HMAC."""
        size = _ffi.new("size_t *")
        _check(self._lib.krb5_c_encrypt_length(_ffi.NULL, self._enctype, len(plain), size))
        room, source = _ffi.new("char[]", size[0]), _data(plain)
        output = _ffi.new("krb5_enc_data *", [0, 0, 0, [0, size[0], room]])
        encrypt = self._lib.krb5_c_encrypt
        _check(encrypt(_ffi.NULL, self._key, usage, _ffi.NULL, source[0], output))
        return bytes(_ffi.buffer(room, output.ciphertext.length))

    def decrypt(self, usage: int, ciphertext: bytes) -> bytes:
        room, text = _ffi.new("char[]", len(ciphertext)), _ffi.new("char[]", ciphertext)
        source = _ffi.new("krb5_enc_data *", [0, self._enctype, 0, [0, len(ciphertext), text]])
        output = _ffi.new("krb5_data *", [0, len(ciphertext), room])
        decrypt = self._lib.krb5_c_decrypt
        _check(decrypt(_ffi.NULL, self._key, usage, _ffi.NULL, source, output))
        return bytes(_ffi.buffer(room, output.length))
