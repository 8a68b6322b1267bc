# SPDX-License-Identifier: GPL-2.0-only
"""What a guest is made of: a kernel, the program that gives it a machine, and an initramfs."""

from __future__ import annotations

import lzma
import shlex
import shutil
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from nfsmulti.processes import find, run

_BOOT = Path(__file__).with_name("boot.sh")
_SECONDS = 120.0

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
        self, folder: Path, cpus: int, memory: int, network: bool, shares: Mapping[str, Path]
    ) -> list[str]:
        """Give the command that boots it, which runs in `folder`: the initramfs lies there.

        Its console goes to the file `console` there, or to its output. Of the folders in `shares`
        HOST is not written. `memory` is in MiB. With `network` its eth0 reaches, as 10.0.3.15 by
        way of 10.0.3.2, what a program of this machine reaches from where it is started.
        """
        ...

    def mount(self, name: str, folder: Path) -> list[str]:
        """Give mount's words, but the last, with which the guest mounts a shared folder."""
        ...

    def described(self, cpus: int) -> str:
        """Say in a line what it is, for the reader of a report."""
        ...


def write_initramfs(
    file: Path, modules: Sequence[Path], mounts: Mapping[str, Sequence[str]]
) -> None:
    """Write an initramfs to `file`, which has a folder of its own beside: busybox and boot.sh.

    `modules` are loaded in that order, and `mounts` are those that boot.sh makes, by name.
    """
    stage = file.with_suffix(".d")
    (stage / "modules").mkdir(parents=True)
    (stage / "bin").mkdir()
    shutil.copy(find("busybox"), stage / "bin/busybox")
    (stage / "bin/sh").symlink_to("busybox")
    shutil.copy(_BOOT, stage / "init")
    (stage / "init").chmod(0o755)
    lines = [mount_function(name, words) for name, words in mounts.items()]
    (stage / "mounts").write_text("".join(lines))
    for number, module in enumerate(modules):
        content = module.read_bytes()
        if module.suffix == ".xz":
            content = lzma.decompress(content)
        (stage / f"modules/{number:02}.ko").write_bytes(content)
    names = (str(entry.relative_to(stage)) for entry in sorted(stage.rglob("*")))
    pack = ["cpio", "--create", "--format=newc", "--quiet", f"--file={file}"]
    run(pack, timeout=_SECONDS, cwd=stage, stdin="\n".join(names)).check()


def mount_function(name: str, words: Sequence[str]) -> str:
    """Give a line of shell that defines mount_NAME, which mounts on the folder that it is given."""
    return f'mount_{name}() {{ busybox mount {shlex.join(words)} "$1"; }}\n'
