# SPDX-License-Identifier: GPL-2.0-only
"""Debian's kernel, unpacked below build/ and not installed."""

from __future__ import annotations

import contextlib
import lzma
import re
import shutil
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab.kernel import debian
from nfsmulti.paths import shown
from nfsmulti.processes import CommandError, run

_LINUX = debian.FOLDER / "linux"
# Not the cloud kernel: it lacks rdma_rxe and 9p.
_PACKAGE = "linux-image-amd64"
_SECONDS = 120.0


@dataclass(frozen=True)
class KernelTree:
    """An unpacked kernel package."""

    folder: Path
    release: str

    @classmethod
    def get(cls) -> KernelTree:
        """Give the tree, fetched at the first use. MissingError where it cannot be fetched."""
        with debian.lock():
            if not _LINUX.exists():
                _fetch()
        images = sorted((_LINUX / "boot").glob("vmlinuz-*"))
        if not images:
            raise _broken(_LINUX, "it has no kernel")
        return cls(_LINUX, images[0].name.removeprefix("vmlinuz-"))

    @property
    def image(self) -> Path:
        """The kernel, uncompressed where it could be."""
        plain = self.folder / "boot" / f"vmlinux-{self.release}"
        return plain if plain.exists() else self.folder / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """The folder of its modules."""
        return self.folder / "lib/modules" / self.release

    def modules_for(self, names: Sequence[str]) -> list[Path]:
        """Give the files of modules and of those that they need, in the order of loading."""
        argv = ["modprobe", "-d", str(self.folder), "-S", self.release, "--show-depends", "-a"]
        done = run([*argv, *names], timeout=_SECONDS)
        if done.status != 0:
            raise _broken(self.folder, done.stderr.strip().splitlines()[-1])
        found = re.findall(r"^insmod (.*\S)\s*$", done.stdout, re.MULTILINE)
        return [Path(name) for name in dict.fromkeys(found)]


def _fetch() -> None:
    """Make the tree; it gets its name last, so that what is there is complete."""
    debian.refuse_without_install("Debian's kernel")
    partial = _LINUX.with_name("linux.new")
    shutil.rmtree(partial, ignore_errors=True)
    print(
        f"nfsmulti: apt-get fetches Debian's kernel, for the guest, to {shown(_LINUX)} (once)",
        file=sys.stderr,
    )
    try:
        debian.unpack(_PACKAGE, partial, meta=True)
        if not (partial / "lib").exists():
            (partial / "lib").symlink_to("usr/lib")
        release = next((partial / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
        run(["depmod", "-b", str(partial), release], timeout=_SECONDS).check()
        _uncompress(partial / "boot", release)
    except CommandError as error:
        raise MissingError(f"Debian's kernel could not be fetched: {error}") from None
    partial.rename(_LINUX)


def _uncompress(boot: Path, release: str) -> None:
    """Take the kernel out of its bzImage, which an emulated processor would need seconds for.

    Where it lies is told by the header that Documentation/arch/x86/boot.rst describes.
    """
    image = (boot / f"vmlinuz-{release}").read_bytes()
    sectors = image[0x1F1]
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (sectors + 1) * 512 + offset
    with contextlib.suppress(lzma.LZMAError):  # compressed otherwise: the guest does it
        plain = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(image[begin : begin + length])
        (boot / f"vmlinux-{release}").write_bytes(plain)


def _broken(folder: Path, what: str) -> HarnessError:
    return HarnessError(f"{shown(folder)} is broken ({what})", "delete that folder")
