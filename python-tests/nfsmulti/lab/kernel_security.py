# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos and TLS in the guest while a command runs there: `python -m` this SEC XPRTSEC COMMAND.

Its server takes sys, and all flavors of what is asked for, for which programs of its own serve
mounts. Keys lie in the guest's memory.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nfsmulti.errors import HarnessError
from nfsmulti.lab.guest import ADDRESSES
from nfsmulti.lab.kerberos import KERBEROS_FLAVORS, SERVER_NAME, Kdc, Kerberos
from nfsmulti.lab.kernel_server import NFSD, Program, exported
from nfsmulti.lab.tls import NAME, Certificates
from nfsmulti.pool import url_query
from nfsmulti.processes import Process, end_politely, find, run, shell_status

_KEYS = "/run"  # a file system in memory
_SECONDS, _MOUNTS_SECONDS = 60.0, 600.0
_MOUNTING = ["sh", "-euc", ". /run/nfsmulti/settings; mount_wanted"]


@contextlib.contextmanager
def secured(sec: str, xprtsec: str, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of clients, whose pools lab and one ask for these flavors.

    They do so by NFSv4.1, to which the export is the root, with a user's credentials.
    """
    asked = {"version": "4.1", "sec": sec, "xprtsec": xprtsec}
    takes, variables = ["sys"], dict[str, str]()
    with contextlib.ExitStack() as undo:
        if sec != "sys":
            kdc = undo.enter_context(kernel_kerberos(Kerberos(sec), folder / "kdc"))
            asked |= {"keytab": str(kdc.keytab), "principal": kdc.principal}
            variables = kdc.environment
            takes += KERBEROS_FLAVORS
        if xprtsec != "none":
            (folder / "tls").mkdir()
            made = undo.enter_context(kernel_tls(folder / "tls"))
            asked |= made.options(xprtsec)
        undo.enter_context(exported(f"sec={':'.join(takes)}"))
        yield {**variables, **_pools(url_query(asked))}


def _pools(query: str) -> dict[str, str]:
    paths = [f"nfs://{address}/?{query}" for address in ADDRESSES]
    named = dict(word.split(":", 1) for word in os.environ["NFSMULTI_POOLS"].split())
    named |= {"lab": ",".join(paths), "one": paths[0]}
    pools = " ".join(f"{name}:{pool}" for name, pool in named.items())
    return {"POOL": named["lab"], "NFSMULTI_POOLS": pools}


# --- Kerberos: the guest's system files are nobody else's ---

_KDC = ("127.0.0.160", 88)
# The second is what the kernel would look for itself, at the first context.
_MODULES = ("rpcsec_gss_krb5", "cts")
# What each has open once it serves: the kernel does not wait for one that comes later.
_SERVER = (["rpc.svcgssd", "-f", "-n"], "/auth.rpcsec.init/channel")
_CLIENT = (["rpc.gssd", "-f", "-k"], "/run/rpc_pipefs/gssd/")
# A thread of the server waits 5 s for a context, but 1 s where no other is idle; then it closes the
# connection. So there are more threads than connections that come at once.
_NFSD_THREADS = "24"

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
    once = folder / "modprobe"
    loader = _LOADER.read_text().strip()
    once.write_text(_NOT_AGAIN.format(busybox=find("busybox"), loader=loader))
    once.chmod(0o755)
    with contextlib.ExitStack() as undo:
        undo.enter_context(_written(NFSD / "threads", _NFSD_THREADS))
        undo.enter_context(_written(_LOADER, str(once)))
        undo.enter_context(kdc)
        undo.enter_context(_program(*_SERVER, kdc, folder))
        argv, opened = _CLIENT
        gssd = undo.enter_context(_program([*argv, str(kdc.server_keytab)], opened, kdc, folder))
        undo.enter_context(_kept_mount(gssd, config.flavor, folder / "mount"))
        yield kdc


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


# --- TLS: tlshd, for the guest's server and its mounts ---

_GENERIC = 16  # the protocol of netlink by which the kernel asks for handshakes
_PIDS = 1 << 22  # above them libnl numbers a process's sockets


@contextlib.contextmanager
def kernel_tls(folder: Path) -> Iterator[Certificates]:
    """Yield the certificates of the guest's server, and of clients, as its mounts are."""
    made = Certificates(folder, names=[NAME, *ADDRESSES])
    settings = folder / "tlshd.conf"
    sides = {"client": made.client, "server": made.server}
    settings.write_text(
        "".join(
            f"[authenticate.{name}]\nx509.truststore = {made.authority.certificate}\n"
            f"x509.certificate = {pair.certificate}\nx509.private_key = {pair.key}\n"
            for name, pair in sides.items()
        )
    )
    run(["modprobe", "tls"], timeout=_SECONDS).check()
    with Program(["tlshd", "--stderr", "--config", str(settings)], _listens, folder) as tlshd:
        # The kernel loads what its first handshake needs, which takes an emulated processor long,
        # and its server closes a connection whose handshake takes more than 5 s.
        tlshd.mount(folder / "mount", "vers=4.1", "xprtsec=mtls")
        run(["umount", str(folder / "mount")], timeout=_SECONDS).check()
        yield made


def _listens(pid: int) -> bool:
    """Tell whether it has joined a group: a kernel that finds none there refuses the connection."""
    _, *sockets = Path("/proc/net/netlink").read_text().splitlines()
    for _, protocol, port, groups, *_ in map(str.split, sockets):
        if int(protocol) == _GENERIC and int(port) % _PIDS == pid and int(groups, 16):
            return True
    return False


# --- the program ---


def _main() -> None:
    """Run the command; its status is ours."""
    end_politely()
    sec, xprtsec, *command = sys.argv[1:]
    try:
        with (
            tempfile.TemporaryDirectory(dir=_KEYS) as folder,
            secured(sec, xprtsec, Path(folder)) as environment,
        ):
            run(_MOUNTING, timeout=_MOUNTS_SECONDS).check()
            with Process(command, env=environment) as process:
                status = process.wait()
    except HarnessError as error:
        sys.exit(f"nfsmulti: {error}")
    sys.exit(shell_status(status))


if __name__ == "__main__":
    _main()
