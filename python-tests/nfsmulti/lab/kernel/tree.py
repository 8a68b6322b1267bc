# SPDX-License-Identifier: GPL-2.0-only
"""Debian's kernel, unpacked below build/ and not installed, and an initramfs for it."""

from __future__ import annotations

import contextlib
import fcntl
import lzma
import os
import re
import shutil
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.paths import BUILD, shown
from nfsmulti.processes import CommandError, find, run

FOLDER = BUILD / "kernel-lab"
_LINUX = FOLDER / "linux"
# Not the cloud kernel: it lacks rdma_rxe and 9p.
_PACKAGE = "linux-image-amd64"
_BOOT = Path(__file__).with_name("boot.sh")
_ROOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
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
            raise _broken("it has no kernel")
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

    def write_initramfs(self, file: Path) -> None:
        """Write an initramfs that finds its root by 9p; `file` has a folder of its own beside."""
        stage = file.with_suffix(".d")
        (stage / "modules").mkdir(parents=True)
        (stage / "bin").mkdir()
        shutil.copy(find("busybox"), stage / "bin/busybox")
        (stage / "bin/sh").symlink_to("busybox")
        shutil.copy(_BOOT, stage / "init")
        (stage / "init").chmod(0o755)
        for number, module in enumerate(self._root_modules()):
            content = module.read_bytes()
            if module.suffix == ".xz":
                content = lzma.decompress(content)
            (stage / f"modules/{number:02}.ko").write_bytes(content)
        names = (str(entry.relative_to(stage)) for entry in sorted(stage.rglob("*")))
        pack = ["cpio", "--create", "--format=newc", "--quiet", f"--file={file}"]
        run(pack, timeout=_SECONDS, cwd=stage, stdin="\n".join(names)).check()

    def _root_modules(self) -> list[Path]:
        """Give the modules that the root needs, in the order of loading."""
        argv = ["modprobe", "-d", str(self.folder), "-S", self.release, "--show-depends", "-a"]
        done = run([*argv, *_ROOT_MODULES], timeout=_SECONDS)
        if done.status != 0:
            raise _broken(done.stderr.strip().splitlines()[-1])
        found = re.findall(r"^insmod (.*\S)\s*$", done.stdout, re.MULTILINE)
        return [Path(name) for name in dict.fromkeys(found)]


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """Keep other harnesses from fetching the kernel, and from tidying up, meanwhile."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch() -> None:
    """Make the tree; it gets its name last, so that what is there is complete."""
    if os.environ.get("NFSMULTI_NO_INSTALL") == "1":
        raise MissingError(
            "Debian's kernel is not here, and --no-install keeps apt from fetching it",
            "leave out --no-install",
        )
    partial = FOLDER / "linux.new"
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "download").mkdir(parents=True)
    print(
        f"nfsmulti: apt-get fetches Debian's kernel, for the guest, to {shown(_LINUX)} (once)",
        file=sys.stderr,
    )
    try:
        package = _download(partial / "download")
        run(["dpkg", "-x", str(package), str(partial)], timeout=_FETCH_SECONDS).check()
        shutil.rmtree(partial / "download")
        if not (partial / "lib").exists():
            (partial / "lib").symlink_to("usr/lib")
        release = next((partial / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
        run(["depmod", "-b", str(partial), release], timeout=_SECONDS).check()
        _uncompress(partial / "boot", release)
    except CommandError as error:
        raise MissingError(f"Debian's kernel could not be fetched: {error}") from None
    partial.rename(_LINUX)


def _download(folder: Path) -> Path:
    """Download the newest kernel; where apt's lists are too old for that, renew them first."""
    fetch = ["apt-get", "download"]
    try:
        run([*fetch, _image_package()], timeout=_FETCH_SECONDS, cwd=folder).check()
    except CommandError:
        if os.geteuid() != 0:
            raise
        run(["apt-get", "update"], timeout=_FETCH_SECONDS).check()
        run([*fetch, _image_package()], timeout=_FETCH_SECONDS, cwd=folder).check()
    packages = list(folder.glob("*.deb"))
    if not packages:
        raise CommandError("apt-get download left no package")
    return packages[0]


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


def _image_package() -> str:
    """Name the package that the package of the newest kernel depends on."""
    argv = ["apt-cache", "depends", _PACKAGE]
    said = run(argv, timeout=_SECONDS, env={"LC_ALL": "C"}).check().stdout
    match = re.search(r"Depends: (linux-image-\S+)", said)
    if not match:
        raise CommandError(f"apt knows no {_PACKAGE}; apt-get update may help")
    return match[1]


def _broken(what: str) -> HarnessError:
    return HarnessError(f"{shown(_LINUX)} is broken ({what})", "delete that folder")
