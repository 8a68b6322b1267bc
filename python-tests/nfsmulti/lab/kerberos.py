# SPDX-License-Identifier: GPL-2.0-only
"""A realm of a lab's own (MIT Kerberos): its KDC, the servers' keys, and a user's.

All lies in the lab's folder; no file of the system's is read or written.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nfsmulti.daemon import Daemon
from nfsmulti.processes import run

REALM = "NFSMULTI.TEST"
SERVER_NAME = "server.test"  # every server has a key by this name too, which need not resolve
AES256_SHA1 = "aes256-cts-hmac-sha1-96"
KERBEROS_FLAVORS = ("krb5", "krb5i", "krb5p")
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_SECONDS = 60.0
_READY = b"commencing operation"

# A realm's kdc stands on a line of its own: it is not found within { kdc = ... } on one line.
_CLIENT = string.Template("""\
[libdefaults]
	default_realm = $realm
	default_ccache_name = FILE:$folder/ccache
	permitted_enctypes = $enctypes
	ticket_lifetime = ${lifetime}s
	clockskew = $skew
	udp_preference_limit = 1
	dns_lookup_kdc = false
	dns_lookup_realm = false
	dns_canonicalize_hostname = false
	rdns = false
[realms]
	$realm = {
		kdc = $address:$port
	}
[logging]
	kdc = FILE:$folder/kdc.log
""")

_KDC = string.Template("""\
[kdcdefaults]
	kdc_listen = ""
	kdc_tcp_listen = $address:$port
[realms]
	$realm = {
		database_name = $folder/principal
		key_stash_file = $folder/stash
		master_key_type = $first
		supported_enctypes = $keys
		max_life = ${lifetime}s
	}
""")

# libnfsidmap's: who is root. To nfs-ganesha the servers are so without it; others are nobody.
_IDMAP = string.Template("""\
[General]
Domain = $domain
Local-Realms = $realm
[Translation]
Method = static
GSS-Methods = static
[Static]
$roots
""")


@dataclass(frozen=True)
class Kerberos:
    """What a lab with Kerberos is like.

    `flavor` is what its clients shall use, `sec` are all that its exports take, in the words of
    exports(5). `lifetime` is that of tickets in seconds, `enctypes` are those of all keys. Clocks
    may differ by `skew` seconds: for so long servers take tickets that have expired.
    """

    flavor: str = "krb5"
    sec: tuple[str, ...] = ("sys", *KERBEROS_FLAVORS)
    lifetime: int = 86400
    enctypes: tuple[str, ...] = (AES256_SHA1,)
    skew: int = 300


class Kdc(Daemon):
    """The KDC of a realm.

    `hosts` are the servers' addresses: each has a key, nfs/HOST, in `server_keytab`. `keytab` is
    that of the user `principal`, whom servers take for root, who owns the exports' files.
    `environment` leads Kerberos' programs and libraries here, `admin` kadmin.local, too.
    `options` are for fio's engine, `enter` are the words before its command.
    """

    def __init__(
        self,
        config: Kerberos,
        address: str,
        port: int,
        *,
        hosts: Sequence[str],
        folder: Path,
        enter: Sequence[str],
    ):
        self.config = config
        self.principal = f"alice@{REALM}"
        self.keytab, self.server_keytab = folder / "user.keytab", folder / "server.keytab"
        self.idmap, self._folder = folder / "idmapd.conf", folder
        folder.mkdir()
        servers = [f"nfs/{host}@{REALM}" for host in (*hosts, SERVER_NAME)]
        self._write_files(address, port, [self.principal, *servers])
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5CCNAME": f"FILE:{folder / 'ccache'}",
        }
        self.options = {
            "security": config.flavor,
            "keytab": str(self.keytab),
            "principal": self.principal,
        }
        profile = {"KRB5_KDC_PROFILE": str(folder / "kdc.conf")}
        self.admin = {**self.environment, **profile}
        create = ["kdb5_util", "-r", REALM, "create", "-s", "-P", "nobody needs it"]
        run(create, timeout=_SECONDS, env=self.admin).check()
        for principal in (*servers, self.principal):
            self.add(principal)
        self._administer("ktadd", "-k", str(self.server_keytab), *servers)
        self._administer("ktadd", "-k", str(self.keytab), self.principal)
        super().__init__(
            "the lab's KDC",
            [*enter, "krb5kdc", "-n", "-r", REALM, "-P", str(folder / "pid")],
            folder / "kdc.out",
            lambda: _READY in self.logged(),
            log=folder / "kdc.log",
            env=self.admin,
        )

    def add(self, principal: str, keytab: Path | None = None) -> None:
        """Add a principal, whose key is in `keytab` alone."""
        self._administer("addprinc", "-randkey", principal)
        if keytab:
            self._administer("ktadd", "-k", str(keytab), principal)

    def _write_files(self, address: str, port: int, roots: Sequence[str]) -> None:
        types = self.config.enctypes
        for name, text in (("krb5.conf", _CLIENT), ("kdc.conf", _KDC), ("idmapd.conf", _IDMAP)):
            filled = text.substitute(
                realm=REALM,
                domain=REALM.lower(),
                roots="\n".join(f"{principal} = root" for principal in roots),
                folder=self._folder,
                address=address,
                port=port,
                lifetime=self.config.lifetime,
                skew=self.config.skew,
                first=types[0],
                enctypes=" ".join(types),
                keys=" ".join(f"{enctype}:normal" for enctype in types),
            )
            (self._folder / name).write_text(filled, errors="surrogateescape")

    def _administer(self, *words: str) -> None:
        run(["kadmin.local", "-r", REALM, *words], timeout=_SECONDS, env=self.admin).check()
