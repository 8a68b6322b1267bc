# SPDX-License-Identifier: GPL-2.0-only
"""What a lab shall be like: its servers, what they export, and its limits."""

from dataclasses import dataclass, field

from nfsmulti.errors import HarnessError
from nfsmulti.lab.kerberos import KERBEROS_FLAVORS, Kerberos
from nfsmulti.lab.network import Limits

MAIN_VOLUME = "export"


@dataclass(frozen=True)
class Export:
    """One export; words as in ganesha-export-config(8).

    Exports without a `size` show the same files. One with a size ("4m") has a file system of its
    own, which can be filled. `sec` are the flavors that it takes; without them those of the lab.
    """

    name: str
    access: str = "RW"
    squash: str = "no_root_squash"
    privileged: bool = False
    size: str | None = None
    sec: tuple[str, ...] = ()

    @property
    def volume(self) -> str:
        """The name of the file system that it shows."""
        return MAIN_VOLUME if self.size is None else self.name


EXPORT = Export(MAIN_VOLUME)
READ_ONLY = Export("ro", access="RO")
SECRET = Export("secret", sec=KERBEROS_FLAVORS)


@dataclass(frozen=True)
class LabConfig:
    """A lab to start.

    It has a server for each address, or `one_server` for all. `local` serves on the machine's own
    loopback, 127.0.0.1 and up, instead of in namespaces. `ipv6` serves fd77::1 too. `size` is that
    of the main file system (a tmpfs; half of the memory where None).

    `memory` is for those who may not export files: one nfs-ganesha that keeps them in its memory
    (FSAL_MEM) serves all addresses, by NFSv4.1 alone. Of each file it stores the first 2 MiB; what
    is read beyond that is not what was written.

    With `lease`, NFSv4's lease and the grace period after a restart last so many seconds; else
    there is no grace period. With `kerberos` it has a realm of its own. Where
    `xprtsec` is tls, mtls or tls:mtls (exports(5)), its pools lead through a proxy that speaks
    that. A server takes so many `connections`.
    """

    addresses: int
    one_server: bool = False
    local: bool = False
    ipv6: bool = False
    limits: Limits = field(default_factory=Limits)
    size: str | None = None
    exports: tuple[Export, ...] = (EXPORT,)
    memory: bool = False
    lease: int | None = None
    kerberos: Kerberos | None = None
    xprtsec: str = "none"
    connections: int = 10_000

    def __post_init__(self) -> None:
        """Refuse what cannot be built."""
        if self.memory and (self.size or len(self.exports) > 1):
            raise HarnessError(
                "a server that keeps its files in memory has one export, without a size",
                "leave out --ro and --size, or run it as root",
            )
        if self.local and self.limits:
            raise HarnessError(
                "--local cannot limit rates: the loopback belongs to the whole machine",
                "leave out --local, and run commands with ./nfsmulti lab exec",
            )
        if self.local and self.one_server and self.addresses > 1:
            raise HarnessError(
                "--local needs an instance for each address", "leave out --instances=one"
            )

    @property
    def volumes(self) -> dict[str, str | None]:
        """The file systems, by name, with their sizes."""
        if self.memory:
            return {}
        own = {export.volume: export.size for export in self.exports if export.size}
        return {MAIN_VOLUME: self.size, **own}
