# SPDX-License-Identifier: GPL-2.0-only
"""MOUNT and NFS (RFC 1813, RFC 8881): the calls that show what a server and its exports offer."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from xdrlib3 import Packer, Unpacker

from nfsmulti.nfs.rpc import RpcClient

NFS, NFS_PORT, NFS_VERSIONS = 100003, 2049, (3, 4)
RDMA_PORT = 20049  # of NFS over RDMA (RFC 8267)
MOUNT, MOUNT_VERSIONS = 100005, (1, 3)

_MNT, _EXPORT = 1, 5
_GETATTR, _CREATE, _REMOVE, _FSINFO = 1, 8, 12, 19
_GUARDED = 1
_ATTRIBUTE_WORDS = 5  # type, mode, nlink, uid, gid stand before size, used, rdev, fsid, fileid
_ATTRIBUTES_SIZE = 84


class Nfs3Error(Exception):
    """A call ended with a status other than OK; below 100 these are errno's numbers."""

    def __init__(self, call: str, status: int):
        super().__init__(f"{call}: {errno.errorcode.get(status, f'status {status}')}")
        self.status = status


@dataclass(frozen=True)
class FsInfo:
    """What FSINFO says of transfer sizes, in bytes."""

    rtmax: int
    wtmax: int


def mount(client: RpcClient, export: str) -> bytes:
    """MNT: give the file handle of the export's root. Raises Nfs3Error, RpcError, OSError."""
    arguments = Packer()
    arguments.pack_string(export.encode())
    return bytes(_checked("MNT", client.call(_MNT, arguments.get_buffer())).unpack_opaque())


def exports(client: RpcClient) -> list[str]:
    """EXPORT: give the directories that the server exports."""
    reply = client.call(_EXPORT)
    found = []
    while reply.unpack_bool():
        found.append(reply.unpack_string().decode(errors="replace"))
        while reply.unpack_bool():
            reply.unpack_string()
    return found


def fsinfo(client: RpcClient, root: bytes) -> FsInfo:
    """FSINFO: give the largest READ and WRITE."""
    reply = _checked("FSINFO", client.call(_FSINFO, _handle(root).get_buffer()))
    if reply.unpack_bool():
        reply.unpack_fopaque(_ATTRIBUTES_SIZE)
    rtmax, _rtpref, _rtmult, wtmax = (reply.unpack_uint() for _ in range(4))
    return FsInfo(rtmax, wtmax)


def identity(client: RpcClient, root: bytes) -> tuple[int, int]:
    """GETATTR: give fsid and fileid, which say whether two paths lead to the same files."""
    reply = _checked("GETATTR", client.call(_GETATTR, _handle(root).get_buffer()))
    for _ in range(_ATTRIBUTE_WORDS):
        reply.unpack_uint()
    _size, _used, _rdev, fsid, fileid = (reply.unpack_uhyper() for _ in range(5))
    return fsid, fileid


def create_and_remove(client: RpcClient, root: bytes, name: str) -> None:
    """CREATE an empty file that must not be there, and REMOVE it."""
    arguments = _handle(root)
    arguments.pack_string(name.encode())
    where = arguments.get_buffer()
    arguments.pack_uint(_GUARDED)
    for word in (1, 0o600, 0, 0, 0, 0, 0):  # mode is set, uid, gid, size and times are not
        arguments.pack_uint(word)
    _checked("CREATE", client.call(_CREATE, arguments.get_buffer()))
    _checked("REMOVE", client.call(_REMOVE, where))


def _handle(root: bytes) -> Packer:
    arguments = Packer()
    arguments.pack_opaque(root)
    return arguments


def _checked(call: str, reply: Unpacker) -> Unpacker:
    status = reply.unpack_uint()
    if status:
        raise Nfs3Error(call, status)
    return reply


# --- NFS version 4 ---


NFS4_VERSION = 4

_COMPOUND = 1
_MINOR_VERS_MISMATCH = 10021


def serves4(client: RpcClient, minor: int) -> bool:
    """COMPOUND without operations: whether the minor version is known. Raises as a call does."""
    arguments = Packer()
    arguments.pack_opaque(b"")
    arguments.pack_uint(minor)
    arguments.pack_uint(0)
    status = client.call(_COMPOUND, arguments.get_buffer()).unpack_uint()
    return bool(status != _MINOR_VERS_MISMATCH)
