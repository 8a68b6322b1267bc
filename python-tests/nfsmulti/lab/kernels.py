# SPDX-License-Identifier: GPL-2.0-only
"""What a guest is made of: a kernel of Debian's, under QEMU or as a process, and an initramfs.

The kernels are unpacked below build/, and not installed.
"""

from __future__ import annotations

import abc
import lzma
import os
import platform
import re
import shutil
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab import debian13
from nfsmulti.paths import BUILD, COMMAND, shown
from nfsmulti.processes import CommandError, find, locked, run

FOLDER = BUILD / "kernel-lab"
_SECONDS = 120.0
_FETCH_SECONDS = 900.0

# The share that is this machine's root, which no guest may write.
HOST = "host"


class Kind(StrEnum):
    """The guests that there are: Debian's kernel under QEMU, a user-mode kernel."""

    QEMU = "qemu"
    UML = "uml"


def write_initramfs(file: Path, modules: Sequence[Path], share: Path) -> None:
    """Write an initramfs to `file`, which has a folder of its own beside.

    It has busybox, the `modules`, which are loaded in that order, and init and settings of `share`.
    """
    stage = file.with_suffix(".d")
    (stage / "modules").mkdir(parents=True)
    (stage / "bin").mkdir()
    shutil.copy(find("busybox"), stage / "bin/busybox")
    (stage / "bin/sh").symlink_to("busybox")
    for name in ("init", "settings"):
        shutil.copy(share / name, stage)
    (stage / "init").chmod(0o755)
    for number, module in enumerate(modules):
        content = module.read_bytes()
        if module.suffix == ".xz":
            content = lzma.decompress(content)
        (stage / f"modules/{number:02}.ko").write_bytes(content)
    names = (str(entry.relative_to(stage)) for entry in sorted(stage.rglob("*")))
    pack = ["cpio", "--create", "--format=newc", "--quiet", f"--file={file}"]
    run(pack, timeout=_SECONDS, cwd=stage, stdin="\n".join(names)).check()


def lock() -> AbstractContextManager[None]:
    """Keep other harnesses from fetching a kernel, and from tidying up, meanwhile."""
    return locked(FOLDER / ".lock")


# --- Debian's packages ---

# QEMU's kernel is Debian 13's: Debian 12's has no RPC-with-TLS, and of the newest ones krb5p is
# broken. It is not the cloud kernel, which lacks rdma_rxe and 9p.
_PACKAGES = {
    Kind.QEMU: (
        ("linux-image-amd64", "ktls-utils", "nfs-kernel-server", "zstd"),
        "Debian 13's kernel",
    ),
    Kind.UML: (("user-mode-linux",), "Debian's user-mode kernel"),
}
# What is used of Debian 13's programs: those for RPC-with-TLS, and what unpacks the kernel. All
# others of the guest's are this machine's.
_USED = ("usr/sbin/exportfs", "usr/sbin/rpc.mountd", "usr/sbin/tlshd", "usr/bin/zstd")
_ZSTD = bytes.fromhex("28b52ffd")  # RFC 8878, 3.1.1
_UML_MODULES = Path("usr/lib/uml/modules")


@dataclass(frozen=True)
class KernelTree:
    """An unpacked kernel package."""

    folder: Path
    release: str

    @classmethod
    def get(cls, kind: Kind = Kind.QEMU) -> KernelTree:
        """Return the tree, fetched at the first use.

        MissingError where it cannot be fetched, HarnessError where it is broken.
        """
        folder = FOLDER / ("uml" if kind is Kind.UML else "debian13")
        with lock():
            if not folder.exists():
                _fetch(kind, folder)
        releases = [one.name for one in (folder / "lib/modules").glob("*/")]
        if len(releases) != 1:
            raise _broken(folder, "its modules")
        return cls(folder, releases[0])

    @property
    def image(self) -> Path:
        """QEMU's kernel, uncompressed."""
        return self.folder / "boot" / f"vmlinux-{self.release}"

    @property
    def modules(self) -> Path:
        """The folder of its modules."""
        return self.folder / "lib/modules" / self.release

    @property
    def programs(self) -> Path:
        """The folder of programs, if there are any, that the guest finds before this machine's."""
        return self.folder / "programs"

    def modules_for(self, names: Sequence[str]) -> list[Path]:
        """Return the files of modules and of those that they need, in the order of loading."""
        argv = ["modprobe", "-d", str(self.folder), "-S", self.release, "--show-depends", "-a"]
        done = run([*argv, *names], timeout=_SECONDS)
        if done.status != 0:
            raise _broken(self.folder, done.stderr.strip().splitlines()[-1])
        found = re.findall(r"^insmod (.*\S)\s*$", done.stdout, re.MULTILINE)
        return [Path(name) for name in dict.fromkeys(found)]


def _broken(folder: Path, what: str) -> HarnessError:
    return HarnessError(f"{shown(folder)} is broken ({what})", "delete that folder")


def _fetch(kind: Kind, folder: Path) -> None:
    """Unpack a package of a kind as `folder`: what is there is complete.

    MissingError where it cannot be fetched, or must not be: --no-install.
    """
    packages, what = _PACKAGES[kind]
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
        for file in _download(kind, packages, download):
            run(["dpkg", "-x", str(file), str(partial)], timeout=_FETCH_SECONDS).check()
        shutil.rmtree(download)
        _complete(partial)
    except CommandError as error:
        raise MissingError(
            f"{what} could not be fetched: {error}",
            "where there is no way out, as in a lab: fetch it before, outside of it, by"
            f" {COMMAND} lab kernel --guest {kind} -- true",
        ) from None
    partial.rename(folder)
    shutil.rmtree(FOLDER / "linux", ignore_errors=True)  # Debian 12's, which earlier versions had


def _download(kind: Kind, packages: Sequence[str], folder: Path) -> list[Path]:
    """Download the packages; where apt's lists are too old for that, renew them first."""

    def fetch() -> None:
        if kind is Kind.QEMU:
            debian13.download(packages, folder)
        else:
            words = ["apt-get", "download", *packages]
            run(words, timeout=_FETCH_SECONDS, cwd=folder).check()

    try:
        fetch()
    except CommandError:
        if os.geteuid() != 0:
            raise
        run(["apt-get", "update"], timeout=_FETCH_SECONDS).check()
        fetch()
    files = list(folder.rglob("*.deb"))
    if not files:
        raise CommandError("apt-get left no package")
    return files


def _complete(folder: Path) -> None:
    """See that modprobe finds modules in a package's files, and QEMU a kernel that boots fast."""
    lib = folder / "lib"
    if (folder / _UML_MODULES).exists():
        lib.mkdir()
        (lib / "modules").symlink_to(".." / _UML_MODULES)
    elif not lib.exists():
        lib.symlink_to("usr/lib")
    for modules in (lib / "modules").iterdir():
        run(["depmod", "-b", str(folder), modules.name], timeout=_SECONDS).check()
    if images := list((folder / "boot").glob("vmlinuz-*")):
        debian13.make_runnable(_USED, folder / "programs")
    for image in images:
        _uncompress(image, folder / "programs/zstd")


def _uncompress(file: Path, zstd: Path) -> None:
    """Take the kernel out of its bzImage, which an emulated processor would need seconds for.

    Where it lies is told by the header that Documentation/arch/x86/boot.rst describes. Behind it
    stands how long it is uncompressed, in four bytes.
    """
    image = file.read_bytes()
    sectors = image[0x1F1]
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (sectors + 1) * 512 + offset
    content = image[begin : begin + length - 4]
    if not content.startswith(_ZSTD):
        raise HarnessError(
            f"{file.name} is not packed by zstd, as the lab takes it", "--guest uml has another"
        )
    packed = file.with_suffix(".zst")
    packed.write_bytes(content)
    plain = file.with_name(file.name.replace("vmlinuz", "vmlinux"))
    run([str(zstd), "-dq", "--rm", "-o", str(plain), str(packed)], timeout=_SECONDS).check()


# --- the machines ---

# What prepares a guest, and what it runs itself.
_PROGRAMS = ("busybox", "cpio", "depmod", "mount.nfs", "rpc.nfsd", "rpcbind", "ip")


class Machine(abc.ABC):
    """A kernel and its machine. To make one fetches the kernel, at the first use.

    `rdma` tells whether it has RDMA. `root_modules` are those modules of the kernel that its root
    needs, in the order of loading. MissingError where something is missing.
    """

    rdma: ClassVar[bool]

    def __init__(self, kind: Kind, programs: Sequence[str], root_modules: Sequence[str]):
        if platform.machine() != "x86_64":
            raise MissingError(
                f"the kernel lab is made for x86_64, and this is {platform.machine()}"
            )
        for program in (*_PROGRAMS, *programs):
            find(program)
        self.tree = KernelTree.get(kind)
        self.root_modules = self.tree.modules_for(root_modules)

    @abc.abstractmethod
    def command(
        self, folder: Path, cpus: int, memory: int, network: bool, shares: Mapping[str, Path]
    ) -> list[str]:
        """Return the command that boots it, which runs in `folder`: the initramfs lies there.

        Its console goes to the file `console` there, or to its output. Of the folders in `shares`
        HOST is not written. `memory` is in MiB. With `network` its eth0 reaches, as 10.0.3.15 by
        way of 10.0.3.2, what a program of this machine reaches from where it is started.
        """

    @abc.abstractmethod
    def mount(self, name: str, folder: Path) -> list[str]:
        """Return mount's words, but the last, with which the guest mounts a shared folder."""

    @abc.abstractmethod
    def described(self, cpus: int) -> str:
        """Say in a line what it is, for the reader of a report."""


_QEMU = "qemu-system-x86_64"
# Sockets take no memory of a control group's: one that page cache fills would lose packets.
_GROUPS = "cgroup.memory=nosocket"
_KERNEL_WORDS = (
    "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr random.trust_cpu=on"
    f" tsc=reliable no_timer_check audit=0 init_on_alloc=0 {_GROUPS}"
)


class Qemu(Machine):
    """Debian 13's kernel under QEMU."""

    rdma = True

    def __init__(self) -> None:
        super().__init__(Kind.QEMU, [_QEMU], ["virtio_pci", "9pnet_virtio", "9p", "overlay"])

    def command(
        self, folder: Path, cpus: int, memory: int, network: bool, shares: Mapping[str, Path]
    ) -> list[str]:
        """Return QEMU's command."""
        machine = "q35,usb=off,sata=off,smbus=off,vmport=off,graphics=off"
        argv = [_QEMU, "-machine", machine, "-accel", _accelerator(), "-cpu", "max"]
        argv += ["-smp", str(cpus), "-m", str(memory)]
        argv += ["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"]
        argv += ["-kernel", str(self.tree.image), "-initrd", str(folder / "initramfs")]
        argv += ["-append", _KERNEL_WORDS]
        argv += ["-chardev", f"file,id=console,path={_escaped(folder / 'console')}"]
        argv += ["-serial", "chardev:console"]
        if network:
            argv += ["-netdev", "user,id=network,net=10.0.3.0/24"]
            argv += ["-device", "virtio-net-pci,netdev=network,romfile="]
        for name, share in shares.items():
            access = "on" if name == HOST else "off"
            argv += ["-fsdev", f"local,id={name},path={_escaped(share)},readonly={access}"]
            argv[-1] += ",security_model=none,multidevs=remap"
            argv += ["-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}"]
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


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")


def _accelerator() -> str:
    """KVM where the processor has it; a /dev/kvm without that may hang a stock kernel at boot."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    if flags & {"svm", "vmx"} and os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "kvm"
    return "tcg,thread=multi,tb-size=512"


_PTRACE = Path(__file__).with_name("uml-ptrace.c")
_SHM = Path("/dev/shm")


class UserMode(Machine):
    """A kernel that is a process: Debian's user-mode Linux."""

    rdma = False

    def __init__(self) -> None:
        super().__init__(Kind.UML, ["gcc"], ["hostfs", "overlay"])
        self._library = library = self.tree.folder / "uml-ptrace.so"
        with lock():
            if not library.exists() or library.stat().st_mtime < _PTRACE.stat().st_mtime:
                words = ["-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), str(_PTRACE)]
                run(["gcc", *words], timeout=_SECONDS).check()
        if set(str(library)) & set(" :"):
            raise HarnessError(
                f"--guest uml: {library}: a blank or colon in its path, where LD_PRELOAD ends",
                "move this folder",
            )

    def command(
        self, folder: Path, cpus: int, memory: int, network: bool, shares: Mapping[str, Path]
    ) -> list[str]:
        """Return the kernel's own command. It sees all of this machine's folders by hostfs."""
        del cpus, network, shares
        # Its memory is a file there.
        room = _SHM if _holds(_SHM, memory) else folder
        return [
            *("env", f"TMPDIR={room}", f"LD_PRELOAD={self._library}"),
            *(str(self.tree.folder / "usr/bin/linux.uml"), f"mem={memory}M", "initrd=initramfs"),
            *("uml_dir=.", "umid=uml", "con=null", "con0=null,fd:1", "ssl=null"),
            *("quiet", "panic=-1", "random.trust_cpu=on", _GROUPS),
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


def _holds(folder: Path, memory: int) -> bool:
    """Tell whether a folder in memory has room for so many MiB, and code may run there."""
    if not folder.is_dir():
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= memory << 20 and not found.f_flag & os.ST_NOEXEC
