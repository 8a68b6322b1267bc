# SPDX-License-Identifier: GPL-2.0-only
"""What a guest is made of: a kernel of Debian's, under QEMU or as a process, and an initramfs.

The kernels are unpacked below build/, and not installed.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import platform
import re
import shlex
import shutil
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.paths import BUILD, COMMAND, shown
from nfsmulti.processes import CommandError, find, locked, run

FOLDER = BUILD / "kernel-lab"
_BOOT = Path(__file__).with_name("boot.sh")
_SECONDS = 120.0
_FETCH_SECONDS = 900.0

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


# --- Debian's packages ---


def lock() -> AbstractContextManager[None]:
    """Keep other harnesses from fetching the kernel, and from tidying up, meanwhile."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return locked(FOLDER / ".lock")


@contextlib.contextmanager
def _unpacked(guest: Kind, package: str, folder: Path, what: str) -> Iterator[Path]:
    """Unpack the newest `package`, of QEMU's guest the one that it names, to be completed.

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
        file = _download(package, guest is Kind.QEMU, download)
        run(["dpkg", "-x", str(file), str(partial)], timeout=_FETCH_SECONDS).check()
        shutil.rmtree(download)
        yield partial
    except CommandError as error:
        raise MissingError(
            f"{what} could not be fetched: {error}",
            "where there is no way out, as in a lab: fetch it before, outside of it, by"
            f" {COMMAND} lab kernel --guest {guest} -- true",
        ) from None
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


# --- Debian's own kernel, and its modules ---

_LINUX = FOLDER / "linux"
# Not the cloud kernel: it lacks rdma_rxe and 9p.
_PACKAGE = "linux-image-amd64"


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
    with _unpacked(Kind.QEMU, _PACKAGE, _LINUX, "Debian's kernel") as folder:
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


# --- Debian's own kernel under QEMU ---

_QEMU = "qemu-system-x86_64"
_QEMU_PROGRAMS = (_QEMU, "depmod")
_QEMU_ROOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_KERNEL_WORDS = (
    "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr random.trust_cpu=on"
    " tsc=reliable no_timer_check audit=0"
)


class Qemu:
    """Debian's kernel, fetched at the first use. MissingError where something is missing."""

    rdma = True

    def __init__(self) -> None:
        if platform.machine() != "x86_64":
            raise MissingError(
                f"the kernel lab is made for x86_64, and this is {platform.machine()}"
            )
        for program in _QEMU_PROGRAMS:
            find(program)
        tree = KernelTree.get()
        self.release = tree.release
        self.modules = tree.modules
        self.root_modules: Sequence[Path] = tree.modules_for(_QEMU_ROOT_MODULES)
        self._image = tree.image

    def command(
        self, folder: Path, cpus: int, memory: int, network: bool, shares: Mapping[str, Path]
    ) -> list[str]:
        """Give QEMU's command."""
        machine = "q35,usb=off,sata=off,smbus=off,vmport=off,graphics=off"
        argv = [_QEMU, "-machine", machine, "-accel", _accelerator(), "-cpu", "max"]
        argv += ["-smp", str(cpus), "-m", str(memory)]
        argv += ["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"]
        argv += ["-kernel", str(self._image), "-initrd", str(folder / "initramfs")]
        argv += ["-append", _KERNEL_WORDS]
        argv += ["-chardev", f"file,id=console,path={_escaped(folder / 'console')}"]
        argv += ["-serial", "chardev:console"]
        if network:
            argv += ["-netdev", "user,id=network,net=10.0.3.0/24"]
            argv += ["-device", "virtio-net-pci,netdev=network,romfile="]
        for name, share in shares.items():
            argv += _shared(name, share)
        return argv

    def mount(self, name: str, folder: Path) -> list[str]:
        """Mount it by 9p."""
        del folder
        options = "trans=virtio,version=9p2000.L,msize=262144"
        if name == HOST:
            options = f"ro,cache=loose,{options}"
        return ["-t", "9p", "-o", options, name]

    def described(self, cpus: int) -> str:
        """Name the accelerator."""
        how = "KVM" if _accelerator() == "kvm" else "emulated by QEMU, without KVM"
        return f"virtual machine, {how}; processors: {cpus}"


def _shared(name: str, folder: Path) -> list[str]:
    """Give QEMU's words for a folder that the guest mounts by 9p."""
    system = f"local,id={name},path={_escaped(folder)},security_model=none,multidevs=remap"
    if name == HOST:
        system += ",readonly=on"
    return ["-fsdev", system, "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}"]


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")


def _accelerator() -> str:
    """KVM where the processor has it; a /dev/kvm without that may hang a stock kernel at boot."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    if flags & {"svm", "vmx"} and os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "kvm"
    return "tcg,thread=multi,tb-size=512"


# --- a kernel that is a process: Debian's user-mode Linux ---

UML_FOLDER = FOLDER / "uml"
_UML_PACKAGE = "user-mode-linux"
_UML_MODULES = Path("usr/lib/uml/modules")
_UML_ROOT_MODULES = ("hostfs", "overlay")
_UML_PROGRAMS = ("gcc", "depmod")
_PTRACE = Path(__file__).with_name("uml-ptrace.c")
_SHM = Path("/dev/shm")


class UserMode:
    """Debian's user-mode kernel, fetched at the first use. MissingError where it cannot be."""

    rdma = False

    def __init__(self) -> None:
        if platform.machine() != "x86_64":
            raise MissingError(f"--guest uml is made for x86_64, and this is {platform.machine()}")
        for program in _UML_PROGRAMS:
            find(program)
        with lock():
            if not UML_FOLDER.exists():
                _fetch_uml()
            library = _ptrace_library()
        if set(str(library)) & set(" :"):
            raise HarnessError(
                f"--guest uml: {library}: a blank or colon in its path, where LD_PRELOAD ends",
                "move this folder",
            )
        release = _uml_release()
        tree = KernelTree(UML_FOLDER, release)
        self.release = release
        self.modules = tree.modules
        self.root_modules: Sequence[Path] = tree.modules_for(_UML_ROOT_MODULES)
        self._library = library

    def command(
        self, folder: Path, cpus: int, memory: int, network: bool, shares: Mapping[str, Path]
    ) -> list[str]:
        """Give the kernel's own command. It sees all of this machine's folders by hostfs."""
        del cpus, network, shares
        # Its memory is a file there.
        room = _SHM if _holds(_SHM, memory) else folder
        return [
            *("env", f"TMPDIR={room}", f"LD_PRELOAD={self._library}"),
            *(str(UML_FOLDER / "usr/bin/linux.uml"), f"mem={memory}M", "initrd=initramfs"),
            *("uml_dir=.", "umid=uml", "con=null", "con0=null,fd:1", "ssl=null"),
            *("quiet", "panic=-1", "random.trust_cpu=on"),
        ]

    def mount(self, name: str, folder: Path) -> list[str]:
        """Mount it by hostfs; what is written is at once in the host's files."""
        return ["-t", "hostfs", "-o", f"{'ro' if name == HOST else 'sync'},{folder}", name]

    def described(self, cpus: int) -> str:
        """Say what differs from a machine."""
        return (
            f"user-mode kernel, not emulated; processors: {cpus}; system calls are dear in it,"
            " which favours who makes few"
        )


def _uml_release() -> str:
    """Name the kernel's release, which its modules' folder tells."""
    folder = UML_FOLDER / _UML_MODULES
    found = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    if len(found) != 1:
        raise MissingError(f"{shown(UML_FOLDER)} is broken (its modules)", "delete that folder")
    return found[0]


def _holds(folder: Path, memory: int) -> bool:
    """Tell whether a folder in memory has room for so many MiB, and code may run there."""
    if not folder.is_dir():
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= memory << 20 and not found.f_flag & os.ST_NOEXEC


def _fetch_uml() -> None:
    with _unpacked(Kind.UML, _UML_PACKAGE, UML_FOLDER, "Debian's user-mode kernel") as folder:
        (folder / "lib").mkdir()
        (folder / "lib/modules").symlink_to(Path("..") / _UML_MODULES)
        for modules in (folder / _UML_MODULES).iterdir():
            run(["depmod", "-b", str(folder), modules.name], timeout=_SECONDS).check()


def _ptrace_library() -> Path:
    """Give the library of uml-ptrace.c, compiled where it is missing or older."""
    library = UML_FOLDER / "uml-ptrace.so"
    if not library.exists() or library.stat().st_mtime < _PTRACE.stat().st_mtime:
        compile_it = ["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), str(_PTRACE)]
        run(compile_it, timeout=_SECONDS).check()
    return library
