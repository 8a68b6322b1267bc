# SPDX-License-Identifier: GPL-2.0-only
"""What a guest is made of: a kernel, and the program that gives it a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

# The share that is this machine's root, which no guest may write.
HOST = "host"


class Kind(StrEnum):
    """The guests that there are: Debian's kernel under QEMU, a user-mode kernel."""

    QEMU = "qemu"
    UML = "uml"


# What --guest says.
GUEST_HELP = (
    "The guest's kernel: qemu is Debian's own in a virtual machine; uml is Debian's user-mode"
    " kernel, which is faster where QEMU has no KVM. Its system calls are dear, and it has no RDMA."
)


class Machine(Protocol):
    """A kernel and its machine.

    `modules` is the folder of the kernel's modules, of which `root_modules` are those that its root
    needs, in the order of loading. `rdma` tells whether it has RDMA.
    """

    rdma: bool
    release: str
    modules: Path
    root_modules: Sequence[Path]

    def command(
        self, folder: Path, cpus: int, memory: int, shares: Mapping[str, Path]
    ) -> list[str]:
        """Give the command that boots it, which runs in `folder`: the initramfs lies there.

        Its console goes to the file `console` there, or to its output. Of the folders in `shares`
        HOST is not written. `memory` is in MiB.
        """
        ...

    def mount(self, name: str, folder: Path) -> list[str]:
        """Give mount's words, but the last, with which the guest mounts a shared folder."""
        ...

    def described(self, cpus: int) -> str:
        """Say in a line what it is, for the reader of a report."""
        ...
