# SPDX-License-Identifier: GPL-2.0-only
"""What a guest is made of: Debian 13's kernel under QEMU, and an initramfs.

The kernel is unpacked below build/, and not installed.
"""

import lzma
import os
import platform
import re
import shutil
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.paths import BUILD, COMMAND, shown
from nfsmulti.processes import CommandError, find, locked, run

FOLDER = BUILD / "kernel-lab"
_SECONDS = 120.0
_FETCH_SECONDS = 900.0

# The share that is this machine's root, which no guest may write.
HOST = "host"


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
# broken. It is not the cloud kernel, which lacks rdma_rxe and 9p. What programs need is unpacked,
# too, from the C library up.
_PACKAGES = ("linux-image-amd64", "ktls-utils", "nfs-kernel-server", "zstd")
_WHAT = "Debian 13's kernel"
# mmdebstrap has an apt of its own, which checks all by Debian's keys, and installs nothing. The
# packages come from where this machine's Debian comes from, and by its way: its proxies, say.
# Newer ones refuse root this mode, in which packages' scripts run on the host: none is run here.
_EXTRACTS = ("--quiet", "--variant=extract", "--mode=chrootless", "--skip=check/chrootless")
_WAY = ("Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until", "Acquire::Check-Date")
_SUITE = "trixie"
_DEBIAN = "http://deb.debian.org/debian"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What is used of Debian 13's programs: those for RPC-with-TLS, and what unpacks the kernel. All
# others of the guest's are this machine's.
_USED = ("usr/sbin/exportfs", "usr/sbin/rpc.mountd", "usr/sbin/tlshd", "usr/bin/zstd")
_ZSTD = bytes.fromhex("28b52ffd")  # RFC 8878, 3.1.1


class KernelTree:
    """An unpacked kernel package: QEMU's kernel, uncompressed, and the folder of its modules.

    The guest finds `programs` before this machine's.
    """

    def __init__(self, folder: Path, release: str):
        self.folder, self.release = folder, release
        self.image = folder / "boot" / f"vmlinux-{release}"
        self.modules = folder / "lib/modules" / release
        self.programs = folder / "programs"

    @classmethod
    def get(cls) -> Self:
        """Return the tree, fetched at the first use.

        MissingError where it cannot be fetched, HarnessError where it is broken.
        """
        folder = FOLDER / "debian13"
        with lock():
            if not folder.exists():
                _fetch(folder)
        releases = [one.name for one in (folder / "lib/modules").glob("*/")]
        if len(releases) != 1:
            raise _broken(folder, "its modules")
        return cls(folder, releases[0])

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


def _fetch(folder: Path) -> None:
    """Unpack the packages as `folder`: what is there is complete.

    MissingError where it cannot be fetched, or must not be: --no-install.
    """
    if os.environ.get("NFSMULTI_NO_INSTALL") == "1":
        raise MissingError(
            f"{_WHAT} is not here, and --no-install keeps apt from fetching it",
            "leave out --no-install",
        )
    print(
        f"nfsmulti: mmdebstrap fetches {_WHAT}, for the guest, to {shown(folder)} (once)",
        file=sys.stderr,
    )
    partial = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(partial, ignore_errors=True)
    what = [f"--include={','.join(_PACKAGES)}", _SUITE, str(partial)]
    try:
        way = run(["apt-config", "dump", *_WAY], timeout=_SECONDS).check().stdout.splitlines()
        what = [*(f"--aptopt={line}" for line in way), *what]
        source = f"deb [signed-by={_KEYS}] {_uri()} {_SUITE} main"
        run(["mmdebstrap", *_EXTRACTS, *what, source], timeout=_FETCH_SECONDS).check()
        _complete(partial)
    except CommandError as error:
        raise MissingError(
            f"{_WHAT} could not be fetched: {error}",
            "where there is no way out, as in a lab: fetch it before, outside of it, by"
            f" {COMMAND} lab kernel -- true",
        ) from None
    partial.rename(folder)


def _complete(folder: Path) -> None:
    """See that modprobe finds the modules of the one kernel, and QEMU an image that boots fast.

    In the folder programs are those of the tree that run on this machine's root.
    """
    if not (folder / "lib").exists():
        (folder / "lib").symlink_to("usr/lib")
    (folder / "programs").mkdir()
    for program in _USED:
        file = folder / "programs" / Path(program).name
        file.write_text(_RUN.format(program=program))
        file.chmod(0o755)
    for image in (folder / "boot").glob("vmlinuz-*"):
        release = image.name.removeprefix("vmlinuz-")
        run(["depmod", "-b", str(folder), release], timeout=_SECONDS).check()
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
        raise HarnessError(f"{file.name} is not packed by zstd, as the lab takes it")
    packed = file.with_suffix(".zst")
    packed.write_bytes(content)
    plain = file.with_name(file.name.replace("vmlinuz", "vmlinux"))
    run([str(zstd), "-dq", "--rm", "-o", str(plain), str(packed)], timeout=_SECONDS).check()


# Runs a program by the C library that it was made for.
_RUN = """\
#!/bin/sh
tree=${{0%/*}}/..
libraries=$tree/usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$tree/{program}" "$@"
"""


def _uri() -> str:
    """Return where this machine's Debian comes from, as far as apt's lists tell."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    which = ["Created-By: Packages", "Origin: Debian", f"Codename: {codename}", "Component: main"]
    argv = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *which]
    return next(iter(run(argv, timeout=_SECONDS).check().stdout.split()), _DEBIAN)


# --- the machine ---

# What prepares a guest, and what it runs itself.
_ROOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_PROGRAMS = ("busybox", "cpio", "depmod", "mount.nfs", "rpc.nfsd", "rpcbind", "ip")


_QEMU = "qemu-system-x86_64"
# Sockets take no memory of a control group's: one that page cache fills would lose packets.
_GROUPS = "cgroup.memory=nosocket"
_KERNEL_WORDS = (
    "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr random.trust_cpu=on"
    f" tsc=reliable no_timer_check audit=0 init_on_alloc=0 {_GROUPS}"
)


class Machine:
    """Debian 13's kernel under QEMU. To make one fetches the kernel, at the first use.

    `root_modules` are those modules of the kernel that its root needs, in the order of loading.
    MissingError where something is missing.
    """

    def __init__(self) -> None:
        if platform.machine() != "x86_64":
            raise MissingError(
                f"the kernel lab is made for x86_64, and this is {platform.machine()}"
            )
        for program in (*_PROGRAMS, _QEMU):
            find(program)
        self.tree = KernelTree.get()
        self.root_modules = self.tree.modules_for(_ROOT_MODULES)

    def command(
        self, folder: Path, cpus: int, memory: int, network: bool, shares: Mapping[str, Path]
    ) -> list[str]:
        """Return QEMU's command, which runs in `folder`: the initramfs lies there.

        Its console goes to the file `console` there, or to its output. Of the folders in `shares`
        HOST is not written. `memory` is in MiB. With `network` its eth0 reaches, as 10.0.3.15 by
        way of 10.0.3.2, what a program of this machine reaches from where it is started.
        """
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

    def mount(self, name: str) -> list[str]:
        """Return mount's words, but the last, with which the guest mounts a shared folder."""
        options = "trans=virtio,version=9p2000.L,msize=262144"
        if name == HOST:
            options = f"ro,cache=loose,{options}"
        return ["-t", "9p", "-o", options, name]

    def described(self, cpus: int) -> str:
        """Say in a line what it is, for the reader of a report: it names the accelerator."""
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
