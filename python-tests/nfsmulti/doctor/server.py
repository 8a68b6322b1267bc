# SPDX-License-Identifier: GPL-2.0-only
"""The doctor's look at the paths of a pool: what their servers offer and permit."""

from __future__ import annotations

import errno
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.doctor import rdma, server4, sockets
from nfsmulti.doctor.finding import Finding, fail, ok, warn
from nfsmulti.doctor.pool import PoolPath
from nfsmulti.nfs import nfs3, rpc
from nfsmulti.nfs.nfs3 import FsInfo, Nfs3Error
from nfsmulti.nfs.rpc import RpcClient, RpcDeniedError, RpcError

_TROUBLE = (RpcError, Nfs3Error, OSError, EOFError)
_REFUSED = (errno.EPERM, errno.EACCES)
_SMALL_TRANSFER = 32768
_UNRESERVED = "Linux: export with 'insecure'; Ganesha: PrivilegedPort = false"


@dataclass(frozen=True)
class _Ports:
    nfs: int
    mount: int


@dataclass(frozen=True)
class _Export:
    """An export that was reached, over a reserved local port where it wants that."""

    root: bytes
    info: FsInfo
    identity: tuple[int, int]
    reserved: bool


def look(paths: Sequence[PoolPath]) -> Iterator[Finding]:
    """Check each path, then whether all lead to the same files."""
    identities: dict[str, tuple[int, int]] = {}
    for path in paths:
        if path.dir is not None:
            yield _directory(path.label, Path(path.dir))
        else:
            yield from server4.look(path) if path.minor else _server(path, identities)
            if path.rdma:
                yield from rdma.server(path)
    strangers = [
        label for label in identities if identities[label] != next(iter(identities.values()))
    ]
    if strangers:
        yield fail(
            f"{', '.join(strangers)}: other files than on {next(iter(identities))}",
            "a pool's paths must lead to one file system: check the addresses and export names",
        )
    elif len(identities) > 1:
        yield ok(f"all {len(identities)} servers' paths lead to the same files")


def _directory(label: str, directory: Path) -> Finding:
    if not directory.is_dir():
        return fail(f"{label}: is no directory here", "mount the export there")
    try:
        with tempfile.TemporaryFile(dir=directory):
            return ok(f"{label}: files can be created")
    except OSError as error:
        return warn(
            f"{label}: files cannot be created ({error.strerror}); only jobs that read work",
            "mount it read-write, or run as a user who may write there",
        )


def _server(path: PoolPath, identities: dict[str, tuple[int, int]]) -> Iterator[Finding]:
    try:
        ports = _ports(path)
    except _TROUBLE as error:
        yield fail(
            f"{path.label}: rpcbind does not tell the ports: {error}",
            "is the host up? Open port 111 to it, name the ports: ?nfsport=2049&mountport=PORT,"
            " or use version=4.1, which needs neither",
        )
        return
    try:
        begin = time.monotonic()
        nfs = rpc.offered(path.address, ports.nfs, nfs3.NFS, nfs3.NFS_VERSIONS)
        round_trip = (time.monotonic() - begin) / 2 / len(nfs3.NFS_VERSIONS)
        mount = rpc.offered(path.address, ports.mount, nfs3.MOUNT, nfs3.MOUNT_VERSIONS)
    except (OSError, EOFError) as error:
        yield fail(
            f"{path.label}: no answer on ports {ports.nfs} (NFS), {ports.mount} (MOUNT): {error}",
            "is the server up, and does its firewall let these ports through?",
        )
        return
    yield _versions(path, ports, nfs, mount)
    yield from sockets.look(path.label, path.address, round_trip)
    if 3 in nfs and 3 in mount:
        yield from _export(path, ports, identities)


def _ports(path: PoolPath) -> _Ports:
    nfs = path.port or rpc.port_of(path.address, nfs3.NFS, 3) or nfs3.NFS_PORT
    mount = path.mountport or rpc.port_of(path.address, nfs3.MOUNT, 3)
    if not mount:
        raise RpcError("MOUNT version 3 is not registered")
    return _Ports(nfs, mount)


def _versions(path: PoolPath, ports: _Ports, nfs: list[int], mount: list[int]) -> Finding:
    what = (
        f"{path.label}: NFS {_listed(nfs)} on port {ports.nfs},"
        f" MOUNT {_listed(mount)} on port {ports.mount}"
    )
    if 3 in nfs and 3 in mount:
        return ok(what)
    return fail(what, "enable NFSv3 on the server, or use version=4.1 or a kernel mount")


def _listed(versions: list[int]) -> str:
    return " and ".join(f"v{version}" for version in versions) or "(neither version)"


def _export(
    path: PoolPath, ports: _Ports, identities: dict[str, tuple[int, int]]
) -> Iterator[Finding]:
    try:
        export = _reach_somehow(path, ports)
    except _TROUBLE as error:
        yield _refusal(path, ports, error)
        return
    identities[path.label] = export.identity
    if export.reserved:
        yield ok(f"{path.label}: wants a reserved port, and this user may bind one")
    yield _transfers(path.label, export.info)
    yield _creation(path, ports, export)


def _reach_somehow(path: PoolPath, ports: _Ports) -> _Export:
    """Reach the export from any local port, or else from a reserved one."""
    try:
        return _reach(path, ports, reserved=False)
    except (RpcDeniedError, Nfs3Error) as error:
        if isinstance(error, Nfs3Error) and error.status not in _REFUSED:
            raise
        try:
            return _reach(path, ports, reserved=True)
        except PermissionError:
            raise error from None


def _reach(path: PoolPath, ports: _Ports, *, reserved: bool) -> _Export:
    with _client(path, ports.mount, nfs3.MOUNT, reserved) as client:
        root = nfs3.mount(client, path.export)
    with _client(path, ports.nfs, nfs3.NFS, reserved) as client:
        return _Export(root, nfs3.fsinfo(client, root), nfs3.identity(client, root), reserved)


def _client(path: PoolPath, port: int, program: int, reserved: bool) -> RpcClient:
    return RpcClient(path.address, port, program, 3, reserved=reserved, user=path.user)


def _refusal(path: PoolPath, ports: _Ports, error: Exception) -> Finding:
    what = f"{path.label}: {path.export} cannot be used: {error}"
    if isinstance(error, RpcDeniedError):
        return fail(what, f"it may want a reserved port: run as root, or {_UNRESERVED}")
    try:
        with _client(path, ports.mount, nfs3.MOUNT, reserved=False) as client:
            offered = nfs3.exports(client)
    except _TROUBLE:
        offered = []
    if offered and path.export not in offered:
        return fail(what, f"the server exports {', '.join(offered)}")
    return fail(what, f"let this client in on the server, from any port ({_UNRESERVED})")


def _transfers(label: str, info: FsInfo) -> Finding:
    what = f"{label}: READ up to {info.rtmax} bytes, WRITE up to {info.wtmax}"
    if not info.rtmax or not info.wtmax:
        return fail(what, "a server that takes 0 bytes is misconfigured")
    if min(info.rtmax, info.wtmax) < _SMALL_TRANSFER:
        return warn(what, "larger I/O is cut into many calls: raise the server's maximum")
    return ok(what)


def _creation(path: PoolPath, ports: _Ports, export: _Export) -> Finding:
    uid, gid = path.user
    name = f".nfsmulti-doctor-{secrets.token_hex(4)}"
    try:
        with _client(path, ports.nfs, nfs3.NFS, export.reserved) as client:
            nfs3.create_and_remove(client, export.root, name)
    except Nfs3Error as error:
        remedy = "export it read-write"
        if error.status in _REFUSED:
            remedy = (
                f"chown the export's root to uid {uid}, name an owner with ?uid=&gid=,"
                " or, where root is squashed, export with no_root_squash"
            )
        return warn(f"{path.label}: {error}; only jobs that read existing files work", remedy)
    except (RpcError, OSError, EOFError) as error:
        return fail(f"{path.label}: CREATE failed: {error}", "look into the server's log")
    return ok(f"{path.label}: uid {uid} gid {gid} may create files")
