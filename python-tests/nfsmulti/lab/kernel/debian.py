# SPDX-License-Identifier: GPL-2.0-only
"""Debian's kernels, unpacked below build/ and not installed."""

from __future__ import annotations

import contextlib
import lzma
import os
import re
import shutil
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.paths import BUILD, shown
from nfsmulti.processes import CommandError, locked, run

FOLDER = BUILD / "kernel-lab"
_LINUX = FOLDER / "linux"
# Not the cloud kernel: it lacks rdma_rxe and 9p.
_PACKAGE = "linux-image-amd64"
_FETCH_SECONDS = 900.0
_SECONDS = 120.0


@dataclass(frozen=True)
class KernelTree:
    """An unpacked kernel package."""

    folder: Path
    release: str

    @classmethod
    def get(cls) -> KernelTree:
        """Give the tree, fetched at the first use. MissingError where it cannot be fetched."""
        with lock():
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
    with unpacked(_PACKAGE, _LINUX, "Debian's kernel", meta=True) as folder:
        if not (folder / "lib").exists():
            (folder / "lib").symlink_to("usr/lib")
        release = next((folder / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
        run(["depmod", "-b", str(folder), release], timeout=_SECONDS).check()
        _uncompress(folder / "boot", release)


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


# --- packages ---


def lock() -> AbstractContextManager[None]:
    """Keep other harnesses from fetching the kernel, and from tidying up, meanwhile."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return locked(FOLDER / ".lock")


@contextlib.contextmanager
def unpacked(package: str, folder: Path, what: str, *, meta: bool = False) -> Iterator[Path]:
    """Unpack the newest `package`, or what it stands for as `meta`, and give it to be completed.

    It becomes `folder` afterwards, so that what is there is complete. MissingError where it cannot
    be fetched, or must not be: --no-install.
    """
    if os.environ.get("NFSMULTI_NO_INSTALL") == "1":
        raise MissingError(
            f"{what} is not here, and --no-install keeps apt from fetching it",
            "leave out --no-install",
        )
    print(
        f"nfsmulti: apt-get fetches {what}, for the guest, to {shown(folder)} (once)",
        file=sys.stderr,
    )
    partial = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        download = partial / "download"
        download.mkdir(parents=True)
        file = _download(package, meta, download)
        run(["dpkg", "-x", str(file), str(partial)], timeout=_FETCH_SECONDS).check()
        shutil.rmtree(download)
        yield partial
    except CommandError as error:
        raise MissingError(f"{what} could not be fetched: {error}") from None
    partial.rename(folder)


def _download(package: str, meta: bool, folder: Path) -> Path:
    """Download the newest package; where apt's lists are too old for that, renew them first."""

    def fetch() -> None:
        name = _newest(package) if meta else package
        run(["apt-get", "download", name], timeout=_FETCH_SECONDS, cwd=folder).check()

    try:
        fetch()
    except CommandError:
        if os.geteuid() != 0:
            raise
        run(["apt-get", "update"], timeout=_FETCH_SECONDS).check()
        fetch()
    packages = list(folder.glob("*.deb"))
    if not packages:
        raise CommandError("apt-get download left no package")
    return packages[0]


def _newest(meta: str) -> str:
    """Name the package that `meta`, that of the newest, depends on."""
    said = run(["apt-cache", "depends", meta], timeout=_SECONDS, env={"LC_ALL": "C"}).check().stdout
    match = re.search(r"Depends: (linux-image-\S+)", said)
    if not match:
        raise CommandError(f"apt knows no {meta}; apt-get update may help")
    return match[1]
