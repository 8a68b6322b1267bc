# SPDX-License-Identifier: GPL-2.0-only
"""A guest whose kernel is a process: Debian's user-mode Linux, unpacked below build/."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab.kernel import debian
from nfsmulti.lab.kernel.machine import HOST
from nfsmulti.paths import shown
from nfsmulti.processes import find, run

_UML = debian.FOLDER / "uml"
_PACKAGE = "user-mode-linux"
_MODULES = Path("usr/lib/uml/modules")
_ROOT_MODULES = ("hostfs", "overlay")
_PROGRAMS = ("gcc", "depmod")
_PTRACE = Path(__file__).with_name("uml-ptrace.c")
_SHM = Path("/dev/shm")
_SECONDS = 120.0


class UserMode:
    """Debian's user-mode kernel, fetched at the first use. MissingError where it cannot be."""

    rdma = False

    def __init__(self) -> None:
        if platform.machine() != "x86_64":
            raise MissingError(f"--guest uml is made for x86_64, and this is {platform.machine()}")
        for program in _PROGRAMS:
            find(program)
        with debian.lock():
            if not _UML.exists():
                _fetch()
            library = _ptrace_library()
        if set(str(library)) & set(" :"):
            raise HarnessError(
                f"--guest uml: {library}: a blank or colon in its path, where LD_PRELOAD ends",
                "move this folder",
            )
        release = _release()
        tree = debian.KernelTree(_UML, release)
        self.release = release
        self.modules = tree.modules
        self.root_modules: Sequence[Path] = tree.modules_for(_ROOT_MODULES)
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
            *(str(_UML / "usr/bin/linux.uml"), f"mem={memory}M", "initrd=initramfs"),
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


def _release() -> str:
    """Name the kernel's release, which its modules' folder tells."""
    folder = _UML / _MODULES
    found = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    if len(found) != 1:
        raise MissingError(f"{shown(_UML)} is broken (its modules)", "delete that folder")
    return found[0]


def _holds(folder: Path, memory: int) -> bool:
    """Tell whether a folder in memory has room for so many MiB, and code may run there."""
    if not folder.is_dir():
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= memory << 20 and not found.f_flag & os.ST_NOEXEC


def _fetch() -> None:
    with debian.unpacked(_PACKAGE, _UML, "Debian's user-mode kernel") as folder:
        (folder / "lib").mkdir()
        (folder / "lib/modules").symlink_to(Path("..") / _MODULES)
        for modules in (folder / _MODULES).iterdir():
            run(["depmod", "-b", str(folder), modules.name], timeout=_SECONDS).check()


def _ptrace_library() -> Path:
    """Give the library of uml-ptrace.c, compiled where it is missing or older."""
    library = _UML / "uml-ptrace.so"
    if not library.exists() or library.stat().st_mtime < _PTRACE.stat().st_mtime:
        compile_it = ["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), str(_PTRACE)]
        run(compile_it, timeout=_SECONDS).check()
    return library
