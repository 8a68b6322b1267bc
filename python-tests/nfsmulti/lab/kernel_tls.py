# SPDX-License-Identifier: GPL-2.0-only
"""TLS for the kernel's own NFS: tlshd in the guest, for its server and its mounts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from nfsmulti.lab.certificates import NAME, Certificates, Pair
from nfsmulti.lab.guest import ADDRESSES
from nfsmulti.lab.kernel_server import Program
from nfsmulti.processes import run

_SECONDS = 60.0
_GENERIC = 16  # the protocol of netlink by which the kernel asks for handshakes
_PIDS = 1 << 22  # above them libnl numbers a process's sockets


@contextlib.contextmanager
def kernel_tls(folder: Path) -> Iterator[Certificates]:
    """Yield the certificates of the guest's server, and of clients, as its mounts are."""
    made = Certificates(folder, names=[NAME, *ADDRESSES])
    settings = folder / "tlshd.conf"
    sides = {"client": made.client, "server": made.server}
    settings.write_text("".join(_side(name, pair, made) for name, pair in sides.items()))
    run(["modprobe", "tls"], timeout=_SECONDS).check()
    with Program(["tlshd", "--stderr", "--config", str(settings)], _listens, folder) as tlshd:
        _mount_once(tlshd, folder / "mount")
        yield made


def _side(name: str, pair: Pair, made: Certificates) -> str:
    """Return what tlshd.conf(5) has of one side."""
    files = {
        "truststore": made.authority.certificate,
        "certificate": pair.certificate,
        "private_key": pair.key,
    }
    lines = [f"x509.{word} = {file}" for word, file in files.items()]
    return "\n".join([f"[authenticate.{name}]", *lines, ""])


def _mount_once(tlshd: Program, folder: Path) -> None:
    """Let the kernel load what its first handshake needs, which takes an emulated processor long.

    Its server closes a connection whose handshake takes more than 5 s.
    """
    tlshd.mount(folder, "vers=4.1", "xprtsec=mtls")
    run(["umount", str(folder)], timeout=_SECONDS).check()


def _listens(pid: int) -> bool:
    """Tell whether it has joined a group: a kernel that finds none there refuses the connection."""
    _, *sockets = Path("/proc/net/netlink").read_text().splitlines()
    for _, protocol, port, groups, *_ in map(str.split, sockets):
        if int(protocol) == _GENERIC and int(port) % _PIDS == pid and int(groups, 16):
            return True
    return False
