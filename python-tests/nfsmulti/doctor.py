# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti doctor: what stands in the way on this machine, and on the servers of a pool.

A path of NFSv3 is asked by rpcbind, MOUNT and NFS; one of NFSv4.1 has one port for all.
"""

from __future__ import annotations

import errno
import json
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nfsmulti import calls, machine
from nfsmulti.calls import FsInfo, Nfs3Error, RpcClient, RpcDeniedError, RpcError, RpcVersionError
from nfsmulti.errors import HarnessError
from nfsmulti.machine import Finding, Level, buffers, fail, ok, warn
from nfsmulti.paths import as_typed
from nfsmulti.pool import PoolPath, ask_rdma, read_pool
from nfsmulti.report.cells import DISTURBED
from nfsmulti.run.watch import others_busy, processors

_TROUBLE = (RpcError, Nfs3Error, OSError, EOFError)
_REFUSED = (errno.EPERM, errno.EACCES)
_SMALL_TRANSFER = 32768
_UNRESERVED = "Linux: export with 'insecure'; Ganesha: PrivilegedPort = false"

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def doctor(
    pool: Annotated[
        str | None, typer.Option(help="Check the servers of this pool (its text or its name) too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check this machine, and the servers of a pool; every finding comes with its remedy.

    The exit status is 0 unless something failed. With --pool an empty file is created in each
    export and removed at once; on a path with version=4.1 only port and version are checked.
    """
    out = Console(highlight=False, soft_wrap=True)
    findings = []
    for found in _findings(pool):
        remedy = found.remedy and as_typed(found.remedy)
        finding = Finding(found.level, as_typed(found.what), remedy)
        findings.append(finding)
        if not as_json:
            out.print(f"[{_STYLES[finding.level]}]{finding.level:4}[/]  ", end="")
            out.print(finding.what, markup=False)
            if finding.remedy:
                out.print(f"      → {finding.remedy}", markup=False)
    if as_json:
        print(json.dumps([vars(finding) for finding in findings], indent="\t"))
    raise typer.Exit(any(finding.level is Level.FAIL for finding in findings))


def _findings(pool: str | None) -> Iterator[Finding]:
    paths: list[PoolPath] = []
    trouble: HarnessError | None = None
    if pool is not None:
        try:
            paths = read_pool(pool)
        except HarnessError as error:
            trouble = error
    yield _processors()
    yield from machine.findings(rdma_wanted=any(path.rdma for path in paths))
    if trouble:
        yield fail(f"--pool: {trouble.what}", trouble.remedy or "docs/pools.md has the grammar")
    yield from _servers(paths)
    yield from machine.capacity(path.address for path in paths if path.address)


def _processors() -> Finding:
    busy = others_busy()
    what = f"{processors()} processors, {busy:.0%} busy now"
    if busy < DISTURBED:
        return ok(what)
    return warn(what, "measure when the machine is idle: what else runs takes from each figure")


# --- the paths of a pool ---


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


def _words(error: Exception) -> str:
    """Say what went wrong, without the number that an OSError begins with."""
    return str(getattr(error, "strerror", None) or error)


def _servers(paths: Sequence[PoolPath]) -> Iterator[Finding]:
    """Check each path, then whether all lead to the same files."""
    identities: dict[str, tuple[int, int]] = {}
    for path in paths:
        if path.dir is not None:
            yield _directory(path.label, Path(path.dir))
        else:
            yield from _server4(path) if path.minor else _server(path, identities)
            if path.rdma:
                yield from rdma(path)
    strangers = [
        label for label in identities if identities[label] != next(iter(identities.values()))
    ]
    if strangers:
        yield fail(
            f"{', '.join(strangers)}: not the same files as on {next(iter(identities))}",
            "a pool's paths must lead to one file system: check the addresses and export names",
        )
    elif len(identities) > 1:
        yield ok(f"all {len(identities)} servers' paths lead to the same files")


def _directory(label: str, directory: Path) -> Finding:
    if not directory.is_dir():
        return fail(f"{label}: is not a directory here", "mount the export there")
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
            f"{path.label}: rpcbind does not give the ports: {_words(error)}",
            "is the host up? Open port 111, name the ports (?nfsport=2049&mountport=PORT), or use"
            " version=4.1, which needs neither",
        )
        return
    try:
        begin = time.monotonic()
        nfs = calls.offered(path.address, ports.nfs, calls.NFS, calls.NFS_VERSIONS)
        round_trip = (time.monotonic() - begin) / 2 / len(calls.NFS_VERSIONS)
        mount = calls.offered(path.address, ports.mount, calls.MOUNT, calls.MOUNT_VERSIONS)
    except (OSError, EOFError) as error:
        yield fail(
            f"{path.label}: no answer on ports {ports.nfs} (NFS), {ports.mount} (MOUNT):"
            f" {_words(error)}",
            "is the server up, and does its firewall let these ports through?",
        )
        return
    what = (
        f"{path.label}: NFS {_listed(nfs)} on port {ports.nfs},"
        f" MOUNT {_listed(mount)} on port {ports.mount}"
    )
    serves = 3 in nfs and 3 in mount
    remedy = "enable NFSv3 on the server, or use version=4.1 or a kernel mount"
    yield ok(what) if serves else fail(what, remedy)
    yield from buffers(path.label, path.address, round_trip)
    if serves:
        yield from _export(path, ports, identities)


def _ports(path: PoolPath) -> _Ports:
    nfs = path.port or calls.port_of(path.address, calls.NFS, 3) or calls.NFS_PORT
    mount = path.mountport or calls.port_of(path.address, calls.MOUNT, 3)
    if not mount:
        raise RpcError("MOUNT version 3 is not registered")
    return _Ports(nfs, mount)


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
        yield ok(f"{path.label}: needs a reserved port, and this user may bind one")
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
    with _client(path, ports.mount, calls.MOUNT, reserved) as client:
        root = calls.mount(client, path.export)
    with _client(path, ports.nfs, calls.NFS, reserved) as client:
        return _Export(root, calls.fsinfo(client, root), calls.identity(client, root), reserved)


def _client(path: PoolPath, port: int, program: int, reserved: bool) -> RpcClient:
    return RpcClient(path.address, port, program, 3, reserved=reserved, user=path.user)


def _refusal(path: PoolPath, ports: _Ports, error: Exception) -> Finding:
    what = f"{path.label}: {path.export} cannot be used: {_words(error)}"
    if isinstance(error, RpcDeniedError):
        return fail(what, f"it may need a reserved port: run as root, or {_UNRESERVED}")
    try:
        with _client(path, ports.mount, calls.MOUNT, reserved=False) as client:
            offered = calls.exports(client)
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
        return warn(what, "larger I/O is split into several calls: raise the server's maximum")
    return ok(what)


def _creation(path: PoolPath, ports: _Ports, export: _Export) -> Finding:
    uid, gid = path.user
    name = f".nfsmulti-doctor-{secrets.token_hex(4)}"
    try:
        with _client(path, ports.nfs, calls.NFS, export.reserved) as client:
            calls.create_and_remove(client, export.root, name)
    except Nfs3Error as error:
        remedy = "export it read-write"
        if error.status in _REFUSED:
            remedy = (
                f"chown the export's root to uid {uid}, name an owner with ?uid=&gid=,"
                " or, where root is squashed, export with no_root_squash"
            )
        return warn(f"{path.label}: {error}; only jobs that read existing files work", remedy)
    except (RpcError, OSError, EOFError) as error:
        return fail(f"{path.label}: CREATE failed: {_words(error)}", "check the server's log")
    return ok(f"{path.label}: uid {uid} gid {gid} may create files")


# --- NFSv4 ---


def _server4(path: PoolPath) -> Iterator[Finding]:
    """Ask whether the server of a path offers its version."""
    port = path.port or calls.NFS_PORT
    where = f"{path.label}: port {port}"
    try:
        with RpcClient(path.address, port, calls.NFS, calls.NFS4_VERSION, user=path.user) as client:
            begin = time.monotonic()
            client.call(0)
            round_trip = time.monotonic() - begin
            serves = calls.serves4(client, path.minor)
    except RpcVersionError as error:
        remedy = "enable NFSv4 on the server" + (
            ", or use version=3" if 3 in error.versions else ""
        )
        yield fail(f"{where}: no NFSv4: the server {error}", remedy)
    except RpcError as error:
        yield fail(f"{where}: the server {error}", "is NFS on this port? port= names another")
    except (OSError, EOFError) as error:
        yield fail(
            f"{where}: no answer: {_words(error)}",
            "is the server up, and does its firewall let this port through? port= names another",
        )
    else:
        if serves:
            yield ok(f"{path.label}: NFS v{path.version} on port {port}")
        else:
            yield fail(
                f"{path.label}: NFS v4 on port {port}, but not v{path.version}",
                "enable it on the server, or choose another version=",
            )
        yield from buffers(path.label, path.address, round_trip)


# --- RDMA ---


def rdma(path: PoolPath) -> Iterator[Finding]:
    """Connect to the server of a path as the engine does."""
    asked = ask_rdma(path.address, str(path.rdmaport))
    if asked is None:
        return
    where = f"{path.label}: NFS over RDMA on port {path.rdmaport}"
    found, trouble = asked
    if trouble:
        yield fail(
            f"{where}: {trouble}",
            "does the server listen (Linux: echo 'rdma 20049' > /proc/fs/nfsd/portlist), and does "
            "an RDMA device here lead to its address (rdma link)?",
        )
        return
    (said,) = found
    yield ok(
        f"{where} answers through {said['device']}: inline up to {said['inline_receive']} bytes"
        f" to the server, {said['inline_send']} bytes back"
    )
