# SPDX-License-Identifier: GPL-2.0-only
"""nfs3_names.h: its calls read by the scripted server's decoder, and results of every kind."""

from __future__ import annotations

import ctypes as c
import struct

import pytest
from codec_abi import Cred, Cursor, Guarded, Handle
from hypothesis import given
from hypothesis import strategies as st

from nfsmulti.scripted.procedures import decode
from nfsmulti.scripted.protocol import Nfs, parse_call

_HEAD_MAX = 640  # RPC_HEAD_MAX
_PROCEDURES = ("GETATTR", "LOOKUP", "CREATE", "MKDIR", "REMOVE", "FSINFO")
_MODE, _SIZE = 0o640, (5 << 32) + 7
_REGULAR = 1


class CCall(c.Structure):
    """struct nfs3_name_call."""

    _fields_ = (
        ("procedure", c.c_int),
        ("object", c.POINTER(Handle)),
        ("name", c.c_char_p),
        ("mode", c.c_uint32),
    )


class CResult(c.Structure):
    """struct nfs3_name_result."""

    _fields_ = (
        ("status", c.c_uint32),
        ("handle", Handle),
        ("attributed", c.c_bool),
        ("type", c.c_uint32),
        ("size", c.c_uint64),
        ("read_max", c.c_uint32),
        ("write_max", c.c_uint32),
    )


def _encode(lib: c.CDLL, procedure: Nfs, handle: bytes, name: bytes, cred: Cred) -> bytes:
    memory = Guarded(_HEAD_MAX)
    out = Cursor.over(memory)
    call = CCall(procedure.value, c.pointer(Handle.of(handle)), name, _MODE)
    lib.nfs3_encode_name_call(c.byref(out), c.c_uint32(7), c.byref(cred), c.byref(call))
    assert memory.intact
    assert not out.bad
    return memory.content[: out.used(memory)]


def _decode(lib: c.CDLL, procedure: Nfs, results: bytes) -> CResult | None:
    """nfs3_decode_name(); None where it refuses."""
    memory, result = Guarded(len(results), results), CResult()
    c.memset(c.addressof(result), 0xA5, c.sizeof(result))
    source = Cursor.over(memory)
    lib.nfs3_decode_name.restype = c.c_bool
    sound = lib.nfs3_decode_name(c.byref(source), procedure.value, c.byref(result))
    assert memory.content == results
    assert source.used(memory) <= len(results)
    return result if sound else None


def _attributes(size: int = _SIZE) -> bytes:
    """fattr3 of a regular file (RFC 1813, 2.6)."""
    return struct.pack(">5I2Q5Q4x4x", _REGULAR, 0o644, 1, 0, 0, size, size, 0, 1, 2, 3, 4)


def _words(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


# --- calls ---


@pytest.mark.parametrize("procedure", _PROCEDURES)
def test_calls(testlib: c.CDLL, procedure: str) -> None:
    kind = Nfs[procedure]
    handle = b"h" * 64
    cred = Cred.of(b"m" * 64, 1, 2, list(range(16)))
    for name in ("f", "größe", "n" * 255):
        call = parse_call(_encode(testlib, kind, handle, name.encode(), cred))
        assert (call.xid, call.procedure, call.refusal) == (7, kind, None)
        arguments = decode(call.procedure, call.arguments)
        call.arguments.done()
        assert arguments.handle == handle
        assert arguments.name == ("" if procedure in ("GETATTR", "FSINFO") else name)


def test_a_file_is_created_guarded_with_its_mode_alone(testlib: c.CDLL) -> None:
    """CREATE3args (RFC 1813, 3.3.8), byte by byte."""
    head = _encode(testlib, Nfs.CREATE, b"dir!", b"f", Cred.of(b"", 0, 0, []))
    guarded, mode, nothing_else = 1, (1, _MODE), (0,) * 5
    wanted = _words(4) + b"dir!" + _words(1) + b"f\0\0\0" + _words(guarded, *mode, *nothing_else)
    assert head.endswith(wanted)


# --- results ---


def test_attributes(testlib: c.CDLL) -> None:
    attributes = _attributes()
    assert len(attributes) == 84
    result = _decode(testlib, Nfs.GETATTR, _words(0) + attributes)
    assert result is not None
    assert (result.attributed, result.type, result.size) == (True, _REGULAR, _SIZE)


@pytest.mark.parametrize("attributes", [b"", _attributes()], ids=["without", "with"])
def test_a_file_that_is_found(testlib: c.CDLL, attributes: bytes) -> None:
    """Its attributes need not come; those of the directory are of no interest."""
    follows = _words(1) + attributes if attributes else _words(0)
    results = _words(0, 5) + b"hand!\0\0\0" + follows + _words(0)
    result = _decode(testlib, Nfs.LOOKUP, results)
    assert result is not None
    assert bytes(result.handle.bytes[: result.handle.length]) == b"hand!"
    assert result.attributed == bool(attributes)
    assert result.size == (_SIZE if attributes else 0)


def test_limits(testlib: c.CDLL) -> None:
    sizes = _words(1 << 20, 1 << 19, 4096, 1 << 18, 1 << 17, 4096, 8192)
    for attributes in (_words(0), _words(1) + _attributes()):
        result = _decode(testlib, Nfs.FSINFO, _words(0) + attributes + sizes + bytes(20))
        assert result is not None
        assert (result.read_max, result.write_max) == (1 << 20, 1 << 18)


def test_errors(testlib: c.CDLL) -> None:
    for procedure in _PROCEDURES:
        result = _decode(testlib, Nfs[procedure], _words(2) + _words(0, 0))
        assert result is not None, procedure
        assert result.status == 2


_BROKEN = {
    "a handle of 65 bytes": (Nfs.LOOKUP, _words(0, 65) + bytes(68) + _words(0, 0)),
    "no handle": (Nfs.LOOKUP, _words(0, 0, 0, 0)),
    "a flag that is no boolean": (Nfs.LOOKUP, _words(0, 4) + b"hand" + _words(2) + _attributes()),
    "attributes cut off": (Nfs.GETATTR, _words(0) + _attributes()[:-1]),
    "a handle cut off": (Nfs.LOOKUP, _words(0, 8) + b"hand"),
    "limits cut off": (Nfs.FSINFO, _words(0, 0, 1, 1, 1)),
    "nothing": (Nfs.REMOVE, b""),
}


def test_results_that_are_none(testlib: c.CDLL) -> None:
    assert not [case for case, broken in _BROKEN.items() if _decode(testlib, *broken)]


@given(st.sampled_from(_PROCEDURES), st.binary(max_size=200))
def test_any_bytes_as_results(testlib: c.CDLL, procedure: str, data: bytes) -> None:
    result = _decode(testlib, Nfs[procedure], data)
    assert result is None or result.handle.length <= 64
