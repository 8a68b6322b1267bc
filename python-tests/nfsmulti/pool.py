# SPDX-License-Identifier: GPL-2.0-only
"""The paths of a pool: as the engine's own programs read and reach them, and as mount(8) does."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from nfsmulti.calls import RDMA_PORT
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.paths import build_dir
from nfsmulti.processes import run

_SECONDS = 30.0


@dataclass(frozen=True)
class PoolPath:
    """One path: a directory (`dir`), or an export at one `address`; port 0 is not set."""

    label: str
    dir: str | None
    address: str
    export: str
    version: str
    proto: str
    port: int
    mountport: int
    rdmaport: int
    user: tuple[int, int]

    @classmethod
    def of(cls, line: dict[str, Any]) -> PoolPath:
        """Take what nfsmulti-pool prints for one path."""
        return cls(
            label=line["label"],
            dir=line.get("dir"),
            address=line.get("address", ""),
            export=line.get("export", ""),
            version=line.get("version", "3"),
            proto=line.get("proto", "tcp"),
            port=line.get("port", 0),
            mountport=line.get("mountport", 0),
            rdmaport=line.get("rdmaport", RDMA_PORT),
            user=(line.get("uid", os.getuid()), line.get("gid", os.getgid())),
        )

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
    return [PoolPath.of(line) for line in pool_lines(text)]


def pool_lines(text: str) -> list[dict[str, Any]]:
    """Give what nfsmulti-pool prints for each path of a pool. Raises HarnessError."""
    program = build_dir() / "nfsmulti-pool"
    if not program.exists():
        raise MissingError(f"{program} is not built", "./nfsmulti build")
    done = run([str(program), "--resolve", text], timeout=_SECONDS)
    if done.status != 0:
        reason = done.stderr.strip() or "it did not end in time"
        raise HarnessError(reason.removeprefix("nfsmulti-pool: "))
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask_rdma(*words: str, seconds: float = _SECONDS) -> tuple[list[dict[str, Any]], str] | None:
    """Have nfsmulti-rdma tell the ports of devices, or (ADDRESS PORT) connect to a server.

    Gives what it prints, and why it failed: "" where it did not. None: built without RDMA.
    """
    program = build_dir() / "nfsmulti-rdma"
    if not program.exists():
        return None
    done = run([str(program), *words], timeout=seconds)
    said = done.stderr.strip().splitlines() or ["it did not answer in time"]
    # Its last words, without its name and what it was asked.
    trouble = said[-1].rpartition(": ")[2] if done.status != 0 else ""
    return [json.loads(line) for line in done.stdout.splitlines()], trouble


# --- mounting a path ---


def mount_source(url: str) -> str:
    """Give HOST:/EXPORT of a path that is a URL."""
    parts = urlsplit(url)
    return f"{parts.netloc}:{unquote(parts.path)}"


def mount_ports(url: str, options: str) -> str:
    """Give a mount's options with the ports that the path's URL names, which win over theirs."""
    own = parse_qs(urlsplit(url).query)
    words = options.split(",")
    names = {"port": "rdmaport"} if "proto=rdma" in words else {"port": "port"}
    if "vers=3" in words:
        names["mountport"] = "mountport"
    given = {name: own[argument][0] for name, argument in names.items() if argument in own}
    kept = [word for word in words if word.partition("=")[0] not in given]
    return ",".join([*kept, *(f"{name}={port}" for name, port in given.items())])
