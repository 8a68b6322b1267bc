# SPDX-License-Identifier: GPL-2.0-only
"""Calls of NFSv3 for tests of servers, by a client that is none of the engine's."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from xdrlib3 import Unpacker

from nfsmulti.calls import RpcClient, xdr

_MNT = 1
_GETATTR, _CREATE, _REMOVE, _FSINFO = 1, 8, 12, 19
_GUARDED = 1
_ATTRIBUTES_SIZE = 84  # of fattr3, in which fsid and fileid …
_BEFORE_FSID = 44  # … stand behind type, mode, nlink, uid, gid, size, used and rdev


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
    return bytes(_checked("MNT", client.call(_MNT, xdr(export))).unpack_opaque())


def fsinfo(client: RpcClient, root: bytes) -> FsInfo:
    """FSINFO: give the largest READ and WRITE."""
    reply = _checked("FSINFO", client.call(_FSINFO, xdr(root)))
    if reply.unpack_bool():
        reply.unpack_fopaque(_ATTRIBUTES_SIZE)
    rtmax, _rtpref, _rtmult, wtmax = (reply.unpack_uint() for _ in range(4))
    return FsInfo(rtmax, wtmax)


def identity(client: RpcClient, root: bytes) -> tuple[int, int]:
    """GETATTR: give fsid and fileid, which say whether two paths lead to the same files."""
    reply = _checked("GETATTR", client.call(_GETATTR, xdr(root)))
    reply.unpack_fopaque(_BEFORE_FSID)
    fsid, fileid = reply.unpack_uhyper(), reply.unpack_uhyper()
    return fsid, fileid


def create_and_remove(client: RpcClient, root: bytes, name: str) -> None:
    """CREATE an empty file that must not be there, and REMOVE it."""
    where = xdr(root, name)
    settable = (1, 0o600, 0, 0, 0, 0, 0)  # mode is set, uid, gid, size and times are not
    _checked("CREATE", client.call(_CREATE, where + xdr(_GUARDED, *settable)))
    _checked("REMOVE", client.call(_REMOVE, where))


def _checked(call: str, reply: Unpacker) -> Unpacker:
    status = reply.unpack_uint()
    if status:
        raise Nfs3Error(call, status)
    return reply
