# SPDX-License-Identifier: GPL-2.0-only
"""An nfs-ganesha that exports what a lab does: its configuration, its process, its log."""

import functools
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.daemon import Daemon
from nfsmulti.errors import HarnessError, MissingError
from nfsmulti.lab.config import LabConfig
from nfsmulti.lab.kerberos import Kdc
from nfsmulti.processes import find, run

VOLUMES = Path("/run/nfsmulti")  # where the servers see the exported file systems
_MISCONFIGURED = b"config_errs_to_log"  # it leaves out what it does not understand, and goes on
_BEGUN = re.compile(rb"NFS SERVER INITIALIZED|" + _MISCONFIGURED)
# Without D-Bus, which a lab has not, and without the keys of callbacks, which need none.
_COMPLAINT = re.compile(rb"config_errs_to_log|:(?!DBUS|NFS CB)[A-Z ]+:(CRIT|MAJ|FATAL) :")
_UNREGISTERED = "Cannot register NFS"
_SECONDS = 60.0

# NFSv3 needs an rpcbind to register with: the lab has its own where it serves that.
# Attr_Expiration_Time and Dir_Chunk are 0, because tests change files behind the server's back.
# Without Server_Owner and Server_Scope all instances of a machine would say that they are one
# server (RFC 8881, 2.10.5). Beyond RPC_Max_Connections, 1024 by default, it ends what it has just
# accepted.
_CONFIG = string.Template("""\
NFS_CORE_PARAM {
	Bind_Addr = $address;
	NFS_Port = $nfs_port;
	MNT_Port = $mount_port;
	Protocols = $protocols;
	Enable_UDP = false;
	Enable_NLM = false;
	Enable_RQUOTA = false;
	RPC_Max_Connections = $connections;
	mount_path_pseudo = true;
	Plugins_Dir = "$plugins";
	$tolerant
}
MDCACHE { Dir_Chunk = 0; }
$kerberos
NFSv4 {
	$idmap
	$lease
	$strict
	RecoveryBackend = fs;
	RecoveryRoot = "$recovery";
	Only_Numeric_Owners = true;
	Server_Owner = "$address";
	Server_Scope = "$address";
}
EXPORT_DEFAULTS { SecType = $sec; Protocols = $protocols; Transports = TCP; }
$memory
$exports
LOG { Default_Log_Level = EVENT; }
""")

# It wants to be an IO_FLUSHER (prctl(2)), and ends where it may not: in many containers.
_TOLERANT = "allow_set_io_flusher_fail = true;"
# It would keep up to 16 clients whose lease has ended: ours end with it, as those of RFC 8881 may.
_STRICT = "Expired_Client_Threshold = 0;"
_SIX = 6  # the release that does both; 4 does not know these options

_NO_KERBEROS = "NFS_KRB5 { Active_krb5 = false; }"
_KERBEROS = string.Template("""\
NFS_KRB5 {
	Active_krb5 = true;
	PrincipalName = nfs;
	KeytabPath = "$keytab";
	CCacheDir = "$folder";
}""")
# Else it would note each authenticator in /var/tmp.
_NO_REPLAY_CACHE = {"KRB5RCACHENAME": "none:"}
_MEMORY = "MEM { Inode_Size = 0x200000; }"
_LEASE = "Lease_Lifetime = {0}; Grace_Period = {0};"
ANY = "0.0.0.0"
_ACCESS = "Access_Type = {};"
_ON_LOOPBACK = "Access_Type = NONE; CLIENT {{ Clients = 127.0.0.0/8; Access_Type = {}; }}"

_EXPORT = string.Template("""\
EXPORT {
	Export_Id = $id;
	Path = "$path";
	Pseudo = "/$name";
	$access
	$sec
	Squash = $squash;
	PrivilegedPort = $privileged;
	MaxRead = 1048576;
	MaxWrite = 1048576;
	Attr_Expiration_Time = 0;
	FSAL { Name = $fsal; }
}""")


@functools.cache
def _release(program: str) -> int:
    """Return the first number of its release."""
    said = run([program, "-v"], timeout=_SECONDS).check().stdout
    found = re.search(r"Release\s*=\s*V?(\d+)", said)
    return int(found[1]) if found else 0


def plugins(fsal: str) -> Path:
    """Find the folder of Ganesha's file systems, with `fsal` in it; raises MissingError."""
    for plugin in Path("/usr/lib").glob(f"**/ganesha/libfsal{fsal.lower()}.so"):
        return plugin.parent
    name = f"nfs-ganesha-{fsal.lower()}"
    raise MissingError(f"nfs-ganesha's {fsal} is not installed", f"on Debian it is {name}")


@dataclass(frozen=True)
class Endpoint:
    """Where an instance listens."""

    address: str
    nfs_port: int
    mount_port: int  # of NFSv3


def _configuration(endpoint: Endpoint, config: LabConfig, recovery: Path, kdc: Kdc | None) -> str:
    """Return the text of ganesha-config(8)."""
    fsal, protocols = ("MEM", "4") if config.memory else ("VFS", "3, 4")
    volumes = Path("/") if config.memory else VOLUMES
    blocks = [
        _EXPORT.substitute(
            id=number,
            name=export.name,
            path=volumes / export.volume,
            fsal=fsal,
            sec=f"SecType = {', '.join(export.sec)};" if export.sec else "",
            access=(_ON_LOOPBACK if endpoint.address == ANY else _ACCESS).format(export.access),
            squash=export.squash,
            privileged=str(export.privileged).lower(),
        )
        for number, export in enumerate(config.exports, start=1)
    ]
    six = _release(find("ganesha.nfsd")) >= _SIX
    return _CONFIG.substitute(
        address=endpoint.address,
        nfs_port=endpoint.nfs_port,
        mount_port=endpoint.mount_port,
        protocols=protocols,
        lease=_LEASE.format(config.lease) if config.lease else "Graceless = true;",
        plugins=plugins(fsal),
        memory=_MEMORY if config.memory else "",
        tolerant=_TOLERANT if six else "",
        strict=_STRICT if six else "",
        recovery=recovery,
        connections=config.connections,
        sec=", ".join(kdc.config.sec) if kdc else "sys",
        kerberos=_KERBEROS.substitute(keytab=kdc.server_keytab, folder=recovery)
        if kdc
        else _NO_KERBEROS,
        idmap=f'IdmapConf = "{kdc.idmap}";' if kdc else "",
        exports="\n".join(blocks),
    )


class Server(Daemon):
    """An nfs-ganesha that can be stopped, killed, paused and started again.

    `enter` are the words before its command (they lead into the lab's namespaces), `folder` takes
    its files, `kdc` is the lab's, if it has one. One that keeps its files in memory speaks NFSv4
    alone. On all of the machine's addresses it serves this machine alone.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        config: LabConfig,
        kdc: Kdc | None,
        folder: Path,
        enter: Sequence[str],
    ):
        self.endpoint = endpoint
        self._recovery = folder / "recovery"
        self._recovery.mkdir(parents=True)
        log, file = folder / "ganesha.log", folder / "ganesha.conf"
        file.write_text(
            _configuration(endpoint, config, self._recovery, kdc), errors="surrogateescape"
        )
        files = ["-f", str(file), "-L", str(log), "-p", str(folder / "pid")]
        super().__init__(
            f"nfs-ganesha on {endpoint.address}",
            [*enter, "ganesha.nfsd", "-F", *files],
            folder / "ganesha.out",
            lambda: bool(_BEGUN.search(self.logged())),
            log=log,
            env={**kdc.environment, **_NO_REPLAY_CACHE} if kdc else {},
        )

    @property
    def clients(self) -> list[str]:
        """NFSv4's clients that hold a client ID: it notes them for its next start."""
        return [entry.name for entry in self._recovery.glob("v4recov/*/*")]

    def start(self) -> None:
        """Start and wait until it serves. Raises HarnessError with its log where it does not.

        On a busy machine rpcbind may not take its ports at once: then it is started once more.
        """
        try:
            self._start_once()
        except HarnessError as error:
            if _UNREGISTERED not in error.what:
                raise
            self._start_once()

    def _start_once(self) -> None:
        super().start()
        if _MISCONFIGURED in self.logged():
            self.kill()
            raise self.failed(f"{self.name} did not start")

    def said(self) -> str:
        """Return what it wrote besides its log, and what it complains of there, or all of that."""
        logged = self.logged()
        lines = [line for line in logged.splitlines() if _COMPLAINT.search(line)]
        complaints = self.printed() + b"\n".join(lines)
        return (complaints.strip() or logged).decode(errors="replace")
