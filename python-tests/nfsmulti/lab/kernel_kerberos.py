# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos for the kernel's own NFS: in the guest, whose system files are nobody else's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from nfsmulti.lab.guest import ADDRESSES
from nfsmulti.lab.kerberos import SERVER_NAME, Kdc, Kerberos
from nfsmulti.lab.kernel_server import NFSD, Program, exported
from nfsmulti.processes import find, run

_SECONDS = 60.0
_KDC = ("127.0.0.160", 88)
# The second is what the kernel would look for itself, at the first context.
_MODULES = ("rpcsec_gss_krb5", "cts")
# What each has open once it serves: the kernel does not wait for one that comes later.
_SERVER = (["rpc.svcgssd", "-f", "-n"], "/auth.rpcsec.init/channel")
_CLIENT = (["rpc.gssd", "-f", "-k"], "/run/rpc_pipefs/gssd/")
# A thread of the server waits 5 s for a context, but 1 s where no other is idle; then it closes the
# connection. So there are more threads than connections that come at once.
_THREADS = "24"

_LOADER = Path("/proc/sys/kernel/modprobe")
# For each context the kernel asks five times for Kerberos' module, which it has. An emulated
# processor needs a second for that.
_NOT_AGAIN = """\
#!{busybox} sh
case $3 in
rpc-auth-gss-*) ;;
*) exec {loader} "$@" ;;
esac
"""


@contextlib.contextmanager
def kernel_kerberos(config: Kerberos, folder: Path) -> Iterator[Kdc]:
    """Yield the KDC of a realm that the guest's server and mounts belong to meanwhile.

    Mounts with sec= use the server's own key, and are root to the server.
    """
    kdc = Kdc(config, *_KDC, hosts=ADDRESSES, folder=folder, enter=())
    Path("/etc/idmapd.conf").write_bytes(kdc.idmap.read_bytes())
    # rpc.gssd takes a server's name from its address.
    with Path("/etc/hosts").open("a") as hosts:
        hosts.writelines(f"{address} {SERVER_NAME}\n" for address in ADDRESSES)
    run(["modprobe", "-a", *_MODULES], timeout=_SECONDS).check()
    with contextlib.ExitStack() as undo:
        undo.enter_context(_written(NFSD / "threads", _THREADS))
        undo.enter_context(_written(_LOADER, str(_loads_once(folder / "modprobe"))))
        undo.enter_context(kdc)
        undo.enter_context(_program(*_SERVER, kdc, folder))
        argv, opened = _CLIENT
        gssd = undo.enter_context(_program([*argv, str(kdc.server_keytab)], opened, kdc, folder))
        undo.enter_context(_kept_mount(gssd, config.flavor, folder / "mount"))
        yield kdc


def _loads_once(program: Path) -> Path:
    loader = _LOADER.read_text().strip()
    program.write_text(_NOT_AGAIN.format(busybox=find("busybox"), loader=loader))
    program.chmod(0o755)
    return program


@contextlib.contextmanager
def _written(setting: Path, value: str) -> Iterator[None]:
    """Change a setting of the kernel, for a time."""
    before = setting.read_text()
    setting.write_text(value)
    try:
        yield
    finally:
        setting.write_text(before)


@contextlib.contextmanager
def _kept_mount(gssd: Program, flavor: str, folder: Path) -> Iterator[None]:
    """Keep one mount, so that others with Kerberos come up at once.

    For each mount the kernel makes pipes of two formats. rpc.gssd takes the older one, which does
    not work any more, where it looks between the making of the two; the kernel refuses that one
    only while the newer is in use. It leads to the last address: others have connections of their
    own to the first.
    """
    with exported(f"sec={flavor}"):
        gssd.mount(folder, "vers=3", f"sec={flavor}")
    try:
        yield
    finally:
        run(["umount", "-l", str(folder)], timeout=_SECONDS)


def _program(argv: list[str], opened: str, kdc: Kdc, folder: Path) -> Program:
    env = {"KRB5_KTNAME": str(kdc.server_keytab), "KRB5RCACHENAME": "none:", **kdc.environment}

    def serves(pid: int) -> bool:
        files = Path(f"/proc/{pid}/fd")
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            return any(opened in str(file.readlink()) for file in files.iterdir())
        return False

    return Program(argv, serves, folder, env)
