# SPDX-License-Identifier: GPL-2.0-only
"""Kernel mounts of the guest's own server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from nfsmulti.errors import HarnessError
from nfsmulti.nfs import nfs3

ADDRESSES = ("10.0.2.15", "10.0.2.16")
ADDRESS6 = "fd02::15"
EXPORT = "/export"


@dataclass(frozen=True)
class Mount:
    """A mount on `folder` of the export at `address`, with nfs(5)'s `options`."""

    folder: str
    options: tuple[str, ...]
    address: str = ADDRESSES[0]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read DIR=OPTIONS; `address=` among the options chooses another of the addresses."""
        folder, _, words = text.partition("=")
        options = [word for word in words.split(",") if word]
        given = [word for word in options if word.startswith("address=")]
        address = given[-1].removeprefix("address=") if given else ADDRESSES[0]
        if not folder.startswith("/") or not options:
            raise HarnessError(f"--mount={text}: write it like /mnt/a=vers=3,proto=rdma")
        if address not in (*ADDRESSES, ADDRESS6):
            known = ", ".join((*ADDRESSES, ADDRESS6))
            raise HarnessError(f"--mount={text}: the server's addresses are {known}")
        return cls(folder, tuple(word for word in options if word not in given), address)

    @property
    def version(self) -> str:
        """The version of NFS that is asked for: "3", "4.1"; "4.2" where nothing is said."""
        for word in self.options:
            name, _, value = word.partition("=")
            if name in ("vers", "nfsvers"):
                return value
            if name[:1] == "v" and name[1:2].isdecimal() and not value:
                return name[1:]
        return "4.2"

    @property
    def command(self) -> list[str]:
        """The command that mounts it, with what this server needs: no locks for v3, RDMA's port."""
        options = list(self.options)
        names = {word.partition("=")[0] for word in options}
        version3 = self.version == "3"
        if version3 and not names & {"lock", "nolock", "local_lock"}:
            options.append("nolock")
        if "rdma" in self._protocol and "port" not in names:
            options.append(f"port={nfs3.RDMA_PORT}")
        host = f"[{self.address}]" if ":" in self.address else self.address
        # The export is version 4's root.
        source = f"{host}:{EXPORT if version3 else '/'}"
        return ["mount", "-t", "nfs", "-o", ",".join(options), source, self.folder]

    @property
    def _protocol(self) -> str:
        for word in self.options:
            if word.startswith("proto="):
                return word.removeprefix("proto=")
        return "rdma" if "rdma" in self.options else "tcp"
