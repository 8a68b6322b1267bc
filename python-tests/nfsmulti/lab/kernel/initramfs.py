# SPDX-License-Identifier: GPL-2.0-only
"""A guest's initramfs: busybox, boot.sh, the modules that the root needs, and how to mount."""

from __future__ import annotations

import lzma
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from nfsmulti.processes import find, run

_BOOT = Path(__file__).with_name("boot.sh")
_SECONDS = 120.0


def write(file: Path, modules: Sequence[Path], mounts: Mapping[str, Sequence[str]]) -> None:
    """Write an initramfs to `file`, which has a folder of its own beside.

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
