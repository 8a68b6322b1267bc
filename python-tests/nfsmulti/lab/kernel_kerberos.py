# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos for the kernel's own NFS: in the guest, whose system files are nobody else's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.lab.guest import ADDRESSES, EXPORT, EXPORT_OPTIONS, Mount
from nfsmulti.lab.kerberos import SERVER_NAME, Kdc, Kerberos
from nfsmulti.processes import Process, run

_SECONDS = 60.0
_KDC = ("127.0.0.160", 88)
# What each has open once it serves: the kernel does not wait for one that comes later.
_SERVER = (["rpc.svcgssd", "-f", "-n"], "/auth.rpcsec.init/channel")
_CLIENT = (["rpc.gssd", "-f", "-k"], "/run/rpc_pipefs/gssd/")


@contextlib.contextmanager
def kernel_kerberos(config: Kerberos, folder: Path) -> Iterator[Kdc]:
    """Yield the KDC of a realm; the guest's export takes `config.sec` alone meanwhile.

    Mounts with sec= use the server's own key, and are nobody to the server.
    """
    kdc = Kdc(config, *_KDC, hosts=ADDRESSES, folder=folder, enter=(), started=lambda _: None)
    Path("/etc/idmapd.conf").write_bytes(kdc.idmap.read_bytes())
    # rpc.gssd takes a server's name from its address.
    with Path("/etc/hosts").open("a") as hosts:
        hosts.write(f"{ADDRESSES[0]} {SERVER_NAME}\n")
    run(["modprobe", "rpcsec_gss_krb5"], timeout=_SECONDS).check()
    with contextlib.ExitStack() as undo:
        undo.callback(kdc.stop)
        kdc.start()
        undo.enter_context(_running(*_SERVER, kdc))
        argv, opened = _CLIENT
        gssd = undo.enter_context(_running([*argv, str(kdc.server_keytab)], opened, kdc))
        undo.callback(_export, "sys")
        _export(":".join(config.sec))
        undo.enter_context(_kept_mount(gssd, config.sec[0], folder / "mount"))
        yield kdc


@contextlib.contextmanager
def _kept_mount(gssd: Process, flavor: str, folder: Path) -> Iterator[None]:
    """Keep one mount, so that others with Kerberos come up at once.

    For each mount the kernel makes pipes of two formats. rpc.gssd takes the older one, which does
    not work any more, where it looks between the making of the two; the kernel refuses that one
    only while the newer is in use.
    """
    folder.mkdir()
    mount = Mount.parse(f"{folder}=vers=3,sec={flavor}").command
    if not gssd.comes_up(lambda: run(mount, timeout=_SECONDS).status == 0, _SECONDS):
        raise HarnessError(f"the guest's kernel does not mount with sec={flavor}")
    try:
        yield
    finally:
        run(["umount", "-l", str(folder)], timeout=_SECONDS)


@contextlib.contextmanager
def _running(argv: list[str], opened: str, kdc: Kdc) -> Iterator[Process]:
    env = {"KRB5_KTNAME": str(kdc.server_keytab), "KRB5RCACHENAME": "none:", **kdc.environment}
    with Process(argv, env=env) as process:
        files = Path(f"/proc/{process.pid}/fd")

        def serves() -> bool:
            with contextlib.suppress(FileNotFoundError):  # it has just been closed
                return any(opened in str(file.readlink()) for file in files.iterdir())
            return False

        if not process.comes_up(serves, _SECONDS):
            raise HarnessError(f"the guest's {argv[0]} did not start")
        yield process


def _export(sec: str) -> None:
    words = ["exportfs", "-o", f"{EXPORT_OPTIONS},sec={sec}", f"*:{EXPORT}"]
    run(words, timeout=_SECONDS).check()
