# SPDX-License-Identifier: GPL-2.0-only
"""Limited links in the guest, a mount on each: kernel mounts whose connections have caps.

Two mounts of one server share a connection (v4.1 finds out by itself that two addresses are one
server), so that each needs a client of its own: a network namespace with a link into a bridge, at
which the server listens, and a host name of its own, by which v4.1 tells clients apart. The server
limits what it sends: each client's rate, and the bridge's.
"""

from __future__ import annotations

import shlex

from nfsmulti.lab.kernel import Mount
from nfsmulti.lab.limits import Limits
from nfsmulti.processes import run
from nfsmulti.stories import GuestPlace

SERVER = "10.77.0.1"
_BRIDGE = "br0"
_SECONDS = 120.0


def create(place: GuestPlace) -> None:
    """Make a client for each mount of a group, and all mounts. Raises CommandError."""
    count = max(len(group) for group in place.mounts.values())
    lines = [
        f"link add {_BRIDGE} type bridge",
        f"addr add {SERVER}/24 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
    ]
    for number in range(1, count + 1):
        _command("ip", "netns", "add", _client(number))
        lines += [
            f"link add s{number} type veth peer name c{number} netns {_client(number)}",
            f"link set s{number} master {_BRIDGE} up",
        ]
    _batch("ip", lines)
    for number in range(1, count + 1):
        inner = [
            "link set lo up",
            f"addr add {_address(number)}/24 dev c{number}",
            f"link set c{number} up",
        ]
        _batch("ip", inner, enter=_enter(number))
    limits = Limits(link=place.link, per_address=place.per_mount)
    addresses = [(_address(number), f"fd77::{number:x}") for number in range(1, count + 1)]
    _batch("tc", limits.commands(_BRIDGE, "dst", addresses))
    for group in place.mounts.values():
        for number, mount in enumerate(group, start=1):
            _mount(number, mount)


def _mount(number: int, mount: Mount) -> None:
    """Mount as a client; the mount itself is seen by all."""
    there = Mount(mount.folder, mount.options, SERVER)
    _command("mkdir", "-p", mount.folder)
    script = f"hostname {_client(number)}; exec {shlex.join(there.command)}"
    _command(*_enter(number), "unshare", "--uts", "sh", "-ec", script)


def _client(number: int) -> str:
    return f"client{number}"


def _address(number: int) -> str:
    return f"10.77.0.{100 + number}"


def _enter(number: int) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{_client(number)}", "--"]


def _command(*argv: str) -> None:
    run(argv, timeout=_SECONDS).check()


def _batch(program: str, lines: list[str], *, enter: list[str] | None = None) -> None:
    """Run ip or tc on lines of its own commands."""
    text = "".join(f"{line}\n" for line in lines)
    run([*(enter or []), program, "-batch", "-"], timeout=_SECONDS, stdin=text).check()
