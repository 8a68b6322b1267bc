# SPDX-License-Identifier: GPL-2.0-only
"""What a lab looks like: its addresses, its servers, its exports."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from nfsmulti.errors import HarnessError
from nfsmulti.lab.network import Limits
from nfsmulti.texts import check, parse_size

MAX_ADDRESSES = 99
MAX_HOSTS = 50


class Instances(StrEnum):
    """How many server processes there are."""

    ONE = "one"
    PER_ADDRESS = "per-address"


@dataclass(frozen=True)
class Export:
    """One export; words as in ganesha-export-config(8).

    Exports without a `size` show the same files. One with a size ("4m") has a file system of its
    own, which can be filled.
    """

    name: str
    access: str = "RW"
    squash: str = "no_root_squash"
    privileged: bool = False
    size: str | None = None

    def __post_init__(self) -> None:
        """Refuse names that a configuration file could not hold."""
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.name):
            raise HarnessError(f"export '{self.name}': use small letters, digits and '-'")
        check(f"size of export '{self.name}'", self.size, parse_size)

    @property
    def volume(self) -> str:
        """The name of the file system that it shows."""
        return MAIN_VOLUME if self.size is None else self.name


MAIN_VOLUME = "export"
EXPORT = Export("export")
READ_ONLY = Export("ro", access="RO")
SQUASHED = Export("squashed", squash="root_squash")
PRIVILEGED = Export("privileged", privileged=True)
SMALL = Export("small", size="4m")


@dataclass(frozen=True)
class LabConfig:
    """A lab to start.

    `local` serves on the machine's own loopback, 127.0.0.1 and up, instead of in namespaces.
    `ipv6` serves fd77::1 too. `size` is that of the main file system (a tmpfs; half of the memory
    where None). `hosts` are client machines beside the usual one, a namespace each.

    `memory` is for those who may not export files: one nfs-ganesha that keeps them in its memory
    (FSAL_MEM) serves all addresses, by NFSv4.1 alone. Of each file it stores the first 2 MiB; what
    is read beyond that is not what was written.

    `versions` are those of NFS that the others serve. With `lease`, NFSv4's lease and the grace
    period after a restart last so many seconds; else there is no grace period.
    """

    addresses: int = 4
    instances: Instances = Instances.PER_ADDRESS
    local: bool = False
    ipv6: bool = False
    limits: Limits = field(default_factory=Limits)
    size: str | None = None
    exports: tuple[Export, ...] = (EXPORT,)
    hosts: int = 0
    memory: bool = False
    versions: tuple[int, ...] = (3, 4)
    lease: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be built."""
        if not 1 <= self.addresses <= MAX_ADDRESSES:
            raise HarnessError(f"--addresses={self.addresses}: 1 to {MAX_ADDRESSES} are possible")
        if not 0 <= self.hosts <= MAX_HOSTS:
            raise HarnessError(f"hosts={self.hosts}: 0 to {MAX_HOSTS} are possible")
        if self.hosts and self.local:
            raise HarnessError("hosts are namespaces: leave out --local")
        check("--size", self.size, parse_size)
        names = [export.name for export in self.exports]
        if not names or len(set(names)) != len(names):
            raise HarnessError(f"exports need a name each: {', '.join(names) or 'none is given'}")
        if self.memory and (self.size or len(self.exports) > 1 or self.exports[0].size):
            raise HarnessError(
                "a server that keeps its files in memory has one export, without a size",
                "leave out --ro and --size, or run it as root",
            )
        if self.local and self.limits:
            raise HarnessError(
                "--local cannot limit rates: the loopback belongs to the whole machine",
                "leave out --local, and run commands with ./nfsmulti lab exec",
            )
        if self.local and self.instances is Instances.ONE and self.addresses > 1:
            raise HarnessError(
                "--local needs an instance for each address", "leave out --instances=one"
            )

    @property
    def one_instance(self) -> bool:
        """Whether one server process has all addresses."""
        return self.memory or self.instances is Instances.ONE

    @property
    def volumes(self) -> dict[str, str | None]:
        """The file systems, by name, with their sizes."""
        if self.memory:
            return {}
        own = {export.volume: export.size for export in self.exports if export.size}
        return {MAIN_VOLUME: self.size, **own}
