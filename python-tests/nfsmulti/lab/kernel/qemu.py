# SPDX-License-Identifier: GPL-2.0-only
"""A guest under QEMU, with Debian's own kernel."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from nfsmulti.errors import MissingError
from nfsmulti.lab.kernel.debian import KernelTree
from nfsmulti.lab.kernel.machine import HOST
from nfsmulti.processes import find

_QEMU = "qemu-system-x86_64"
_PROGRAMS = (_QEMU, "depmod")
_ROOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
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
        for program in _PROGRAMS:
            find(program)
        tree = KernelTree.get()
        self.release = tree.release
        self.modules = tree.modules
        self.root_modules: Sequence[Path] = tree.modules_for(_ROOT_MODULES)
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
