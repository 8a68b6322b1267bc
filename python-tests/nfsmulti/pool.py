# SPDX-License-Identifier: GPL-2.0-only
"""The paths of a pool: as the engine's own programs read and reach them, and as mount(8) does."""

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from nfsmulti import typed
from nfsmulti.errors import HarnessError
from nfsmulti.paths import build_dir, built
from nfsmulti.processes import run

RDMA_PORT = 20049  # of NFS over RDMA (RFC 8267)
_SECONDS, _MOUNT_SECONDS = 30.0, 60.0
GRAMMAR = "docs/pools.md has the grammar"  # a remedy


@dataclass(frozen=True)
class PoolPath:
    """One path, as nfsmulti-pool prints it: a directory, or an export at one address.

    Port 0 is not set.
    """

    label: str
    dir: str | None = None
    host: str = ""
    address: str = ""
    export: str = ""
    version: str = "3"
    proto: str = "tcp"
    port: int = 0
    rdmaport: int = RDMA_PORT
    xprtsec: str = "none"
    sec: str = "sys"
    uid: int = field(default_factory=os.getuid)
    gid: int = field(default_factory=os.getgid)

    @property
    def minor(self) -> int:
        """NFSv4's minor version; 0 for NFSv3."""
        return int(self.version.partition(".")[2] or 0)

    @property
    def rdma(self) -> bool:
        """Whether the path is NFS over RDMA."""
        return self.proto.startswith("rdma")


def read_pool(text: str) -> list[PoolPath]:
    """Read a pool, or its name; each address of a host is a path. Raises HarnessError."""
    return [typed.read(PoolPath, line) for line in pool_lines(text)]


def not_in_clear(paths: Iterable[PoolPath], *asked: str) -> list[str]:
    """Return what of paths, and words asked beside them, is not TCP in clear: "rdma", "tls"."""
    words = {*asked}.union(*({path.dir or path.proto, path.xprtsec} for path in paths))
    return sorted(words - {"tcp", "tcp6", "none"})


def pool_lines(text: str) -> list[dict[str, Any]]:
    """Return what nfsmulti-pool prints for each path of a pool. Raises HarnessError.

    A name that leads nowhere is not the grammar's fault.
    """
    done = run([str(built("nfsmulti-pool")), "--resolve", "--", text], timeout=_SECONDS)
    if done.status != 0:
        reason = done.stderr.strip() or "it did not end in time"
        name = re.search(r"cannot resolve '([^']*)'", reason)
        remedy = f"getent ahosts {name[1]}" if name else GRAMMAR
        raise HarnessError(reason.replace("nfsmulti-pool: ", ""), remedy)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask_rdma(
    address: str, port: int, seconds: float = _SECONDS
) -> tuple[list[dict[str, Any]], str] | None:
    """Have nfsmulti-rdma connect to a server.

    Gives what it prints, and why it failed: "" where it did not. None: built without RDMA.
    """
    program = build_dir() / "nfsmulti-rdma"
    if not program.exists():
        return None
    done = run([str(program), address, str(port)], timeout=seconds)
    said = done.stderr.strip().splitlines() or ["it did not answer in time"]
    # Its last words, without its name and what it was asked.
    trouble = said[-1].rpartition(": ")[2] if done.status != 0 else ""
    return [json.loads(line) for line in done.stdout.splitlines()], trouble


# --- mounting paths ---


def url_query(terms: Mapping[str, str]) -> str:
    """Return what follows a path's "?": the engine does not read "+" as a space."""
    return urlencode(terms, safe="/", quote_via=quote)


def mount_source(url: str) -> str:
    """Return HOST:/EXPORT of a path that is a URL."""
    parts = urlsplit(url)
    return f"{parts.netloc}:{unquote(parts.path)}"


def mount_ports(url: str, options: str) -> str:
    """Return a mount's options with the ports that the path's URL names, which win over theirs."""
    own = parse_qs(urlsplit(url).query)
    words = options.split(",")
    names = {"port": "rdmaport"} if "proto=rdma" in words else {"port": "port"}
    if "vers=3" in words:
        names["mountport"] = "mountport"
    given = {name: own[argument][0] for name, argument in names.items() if argument in own}
    kept = [word for word in words if word.partition("=")[0] not in given]
    return ",".join([*kept, *(f"{name}={port}" for name, port in given.items())])


class CellMounts:
    """The mounts of one cell at a time. Whoever has them calls end() in the end.

    Mounts of one server that are there at once share the connections of the first, whatever their
    nconnect says (nfs(5)): one follows the other.
    """

    def __init__(self) -> None:
        self._folders: list[str] = []

    def make(self, wanted: Sequence[tuple[str, str]]) -> list[str]:
        """Mount each source with its nfs(5) options, after what was mounted before has gone.

        Gives the directories. Raises HarnessError, also where a mount has not connections of its
        own: another mount of that server lends it those that it has.
        """
        self.end()
        for source, options in wanted:
            self._add(source, options)
        return list(self._folders)

    def _add(self, source: str, options: str) -> None:
        folder = tempfile.mkdtemp(prefix="nfsmulti-mount-")
        try:
            mount = ["mount", "-t", "nfs", "-o", options, source, folder]
            run(mount, timeout=_MOUNT_SECONDS).check()
        except HarnessError:
            Path(folder).rmdir()
            raise
        self._folders.append(folder)
        found = _options_of(folder)
        peers = {_address(_options_of(other)) for other in self._folders[:-1]} - {""}
        if _address(found) in peers:
            raise HarnessError(
                f"{source}: the kernel mounts it over an earlier path's connections: both are on"
                " one server",
                "name each address of a server once",
            )
        asked, has = _nconnect(options), _nconnect(found)
        if asked != has:
            raise HarnessError(
                f"{source}: nconnect={asked} was asked for and the mount has {has}: it shares the"
                " connections of another mount of this server",
                "unmount that one first",
            )

    def end(self) -> None:
        """Unmount all, the last one first; what is busy goes when its last user does."""
        stuck: list[str] = []
        while self._folders:
            folder = self._folders.pop()
            done = run(["umount", folder], timeout=_MOUNT_SECONDS)
            if done.status != 0:
                done = run(["umount", "--lazy", folder], timeout=_MOUNT_SECONDS)
            if done.status == 0:
                Path(folder).rmdir()
            else:
                stuck.append(done.stderr.strip() or f"umount {folder} did not end in time")
        if stuck:
            raise HarnessError("; ".join(stuck), "unmount it by hand")


def _address(options: str) -> str:
    """Return the address and port that a mount's connections go to, "" where they are not told."""
    found = [re.search(rf"(?<![a-z]){name}=([^,]+)", options) for name in ("addr", "port")]
    return ":".join(one[1] for one in found if one)


def _nconnect(options: str) -> int:
    found = re.search(r"\bnconnect=(\d+)", options)
    return int(found[1]) if found else 1


@dataclass(frozen=True)
class Mounted:
    """What is mounted on a folder: its type and options."""

    folder: str
    kind: str
    options: str


def mounts() -> list[Mounted]:
    """Return this namespace's mounts, the latest first: it hides earlier ones on its folder."""
    lines = os.fsdecode(Path("/proc/self/mounts").read_bytes()).rstrip("\n").split("\n")
    return [Mounted(*map(_unescaped, line.split(" ")[1:4])) for line in reversed(lines)]


def _unescaped(text: str) -> str:
    """Return a field of the kernel's, which writes white space and backslashes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _options_of(folder: str) -> str:
    return next((one.options for one in mounts() if one.folder == folder), "")
