# SPDX-License-Identifier: GPL-2.0-only
"""NFS version 4 (RFC 8881): the call that shows whether a minor version is served."""

from __future__ import annotations

from xdrlib3 import Packer

from nfsmulti.nfs.rpc import RpcClient

VERSION = 4

_COMPOUND = 1
_MINOR_VERS_MISMATCH = 10021


def serves(client: RpcClient, minor: int) -> bool:
    """COMPOUND without operations: whether the minor version is known. Raises as a call does."""
    arguments = Packer()
    arguments.pack_opaque(b"")
    arguments.pack_uint(minor)
    arguments.pack_uint(0)
    status = client.call(_COMPOUND, arguments.get_buffer()).unpack_uint()
    return bool(status != _MINOR_VERS_MISMATCH)
