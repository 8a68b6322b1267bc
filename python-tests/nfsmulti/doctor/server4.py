# SPDX-License-Identifier: GPL-2.0-only
"""The doctor's look at a path of NFSv4: one port, without rpcbind and MOUNT."""

from __future__ import annotations

import time
from collections.abc import Iterator

from nfsmulti.doctor import sockets
from nfsmulti.doctor.finding import Finding, fail, ok
from nfsmulti.doctor.pool import PoolPath
from nfsmulti.nfs import nfs3, nfs4
from nfsmulti.nfs.rpc import RpcClient, RpcError, RpcVersionError


def look(path: PoolPath) -> Iterator[Finding]:
    """Ask whether the server of a path offers its version."""
    port = path.port or nfs3.NFS_PORT
    where = f"{path.label}: port {port}"
    if path.mountport:
        yield fail(
            f"{path.label}: mountport={path.mountport} with version={path.version}",
            "NFSv4 has no MOUNT: leave mountport out",
        )
        return
    try:
        with RpcClient(path.address, port, nfs3.NFS, nfs4.VERSION, user=path.user) as client:
            begin = time.monotonic()
            client.call(0)
            round_trip = time.monotonic() - begin
            serves = nfs4.serves(client, path.minor)
    except RpcVersionError as error:
        yield fail(f"{where}: no NFSv4: the server {error}", _remedy(error.versions))
    except RpcError as error:
        yield fail(f"{where}: the server {error}", "is NFS on this port? port= names another")
    except (OSError, EOFError) as error:
        yield fail(
            f"{where}: no answer: {error}",
            "is the server up, and does its firewall let this port through? port= names another",
        )
    else:
        yield _minor(path, port, serves=serves)
        yield from sockets.look(path.label, path.address, round_trip)


def _remedy(offered: range) -> str:
    enable = "enable NFSv4 on the server"
    return f"{enable}, or use version=3" if 3 in offered else enable


def _minor(path: PoolPath, port: int, *, serves: bool) -> Finding:
    if serves:
        return ok(f"{path.label}: NFS v{path.version} on port {port}")
    return fail(
        f"{path.label}: NFS v4 on port {port}, but not v{path.version}",
        "enable it on the server, or choose another version=",
    )
