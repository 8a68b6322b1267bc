# SPDX-License-Identifier: GPL-2.0-only
"""environment.json: what figures may depend on, of the machine and of each place.

A key is "machine", or the name of a place, whose part says what holds where its clients are.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from nfsmulti.fiorun import Engine
from nfsmulti.lab import guest
from nfsmulti.machine import versions
from nfsmulti.paths import write_json
from nfsmulti.processes import run
from nfsmulti.report import conditions
from nfsmulti.run.place import Serving

_SECONDS = 20.0
_SHOWN = 24  # characters of a version or a digest
_MOST_LINES = 16  # of a link's classes
_SYSCTLS = (
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/default_qdisc",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_window_scaling",
    "sunrpc/tcp_slot_table_entries",
    "sunrpc/tcp_max_slot_table_entries",
    "sunrpc/rdma_slot_table_entries",
    "vm/dirty_ratio",
    "vm/dirty_background_ratio",
)


def write_machine(folder: Path) -> None:
    """Write what holds for this machine."""
    memory = psutil.virtual_memory().total >> 10
    _add(folder, "machine", {**versions(), **_engine(), "memory_kb": memory})


def changed(folder: Path) -> str | None:
    """Say with which other engine, fio or kernel a run began, None where with none."""
    then = conditions.load(folder).get("machine", {})
    now = {**versions(), **_engine()}
    for name in ("engine_sha256", "fio", "kernel"):
        if name in then and then[name] != now[name]:
            what = name.removesuffix("_sha256")
            return f"another {what}: {then[name][:_SHOWN]}, here it is {now[name][:_SHOWN]}"
    return None


def write_place(folder: Path, name: str, place: Serving) -> None:
    """Write what holds where a place's clients are: links and their limits, mounts, sysctls."""
    enter = list(place.enter)
    found = {
        "guest": guest.described(),
        "kernel": _said([*enter, "uname", "-sr"]),
        "links": _links(enter),
        "mounts": _nfs_mounts(),
        "sysctls": _sysctls(enter),
        "servers": place.servers(),
    }
    _add(folder, name, found)


def _links(enter: Sequence[str]) -> list[dict[str, Any]]:
    """Give each link, with the speed in Mbit/s that its driver tells; None where it has none."""
    speeds = {} if enter else _speeds()
    return [
        {
            "name": link["ifname"],
            "kind": link.get("linkinfo", {}).get("info_kind", link["link_type"]),
            "mtu": link["mtu"],
            "state": link["operstate"],
            "addresses": [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"]],
            "speed_mbit": speeds.get(link["ifname"]),
            "limits": [
                *_said([*enter, "tc", "qdisc", "show", "dev", link["ifname"]]).splitlines(),
                *_first(_said([*enter, "tc", "class", "show", "dev", link["ifname"]]).splitlines()),
            ],
        }
        for link in _json([*enter, "ip", "-json", "-details", "address", "show"])
    ]


def _speeds() -> dict[str, int | None]:
    """Give those of our namespace's links; none where a driver fails to tell."""
    try:
        return {name: one.speed or None for name, one in psutil.net_if_stats().items()}
    except OSError:
        return {}


def _first(lines: list[str]) -> list[str]:
    """Leave out what is more than a page of lines: a lab has a thousand classes of connections."""
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"and {more} more classes"]


def _engine() -> dict[str, Any]:
    library = Engine.built().library
    built = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(library.stat().st_mtime))
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    return {"engine_built": built, "engine_sha256": digest}


def _sysctls(enter: Sequence[str]) -> dict[str, str]:
    """Give those that there are; the network's are their namespace's own."""
    names = [f"/proc/sys/{name}" for name in _SYSCTLS]
    lines = _said([*enter, "grep", "-sH", "", *names]).splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name.removeprefix("/proc/sys/").replace("/", "."): value for name, _, value in pairs}


def _nfs_mounts() -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if line.split()[2].startswith("nfs")]


def _said(argv: Sequence[str]) -> str:
    return run(argv, timeout=_SECONDS).stdout.strip()


def _json(argv: Sequence[str]) -> list[dict[str, Any]]:
    try:
        return list(json.loads(_said(argv)))
    except ValueError:
        return []


def _add(folder: Path, name: str, part: dict[str, Any]) -> None:
    write_json(folder / conditions.FILE, {**conditions.load(folder), name: part})
