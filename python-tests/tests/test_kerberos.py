# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos (RPCSEC_GSS, RFC 2203): calls show who sends them, or do not go out.

That jobs with other options share no paths is in test_pool.py.
"""

import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import Place, done, ends, eventually, refused, said, traces
from kerberos_client import Client, realm
from scripted_jobs import preloaded

from jobs import Fio
from nfsmulti.fiorun import Engine, Option
from nfsmulti.lab import Lab
from nfsmulti.lab.config import SECRET
from nfsmulti.lab.kerberos import AES256_SHA1, REALM, Kerberos
from nfsmulti.lab.tls import Certificates
from nfsmulti.processes import run
from servers.tls_proxy import TlsProxy

# Of any size, so that messages have pads, and go over several connections.
_VERIFIED: dict[str, Option] = {
    "rw": "randwrite", "bsrange": "512-300k", "size": "6m", "iodepth": 16,
    "verify": "crc32c", "nconnect": 4, "spread": "roundrobin", "verify_state_save": 0,
    "filename": "f",
}  # fmt: skip
_SMALL: dict[str, Option] = {"rw": "write", "size": "64k", "filename": "f"}
_TICKETS: dict[str, Option] = {"keytab": None}  # kinit's, and no keys
_AHEAD = """\
int gettimeofday(struct timeval *now, void *zone)
{
	int error = (int)syscall(SYS_gettimeofday, now, zone);

	now->tv_sec += 3600;
	return error;
}
"""


@pytest.fixture
def client(kerberos: Lab, local_fio: FioRunner, tmp_path: Path) -> Client:
    return Client(kerberos, local_fio, tmp_path)


# --- what works ---


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("flavor", "version"), [("krb5", "3"), ("krb5i", "4.1"), ("krb5p", "3"), ("krb5p", "4.1")]
)
def test_data_is_what_was_written(client: Client, flavor: str, version: str) -> None:
    """Each connection has a context of its own."""
    result = client.well(version, **_VERIFIED, security=flavor)
    assert {line.sec for line in result.stats} == {flavor}
    assert {(line.enctype, line.contexts) for line in result.stats} == {(AES256_SHA1, 1)}
    assert all(line.context_mean_us > 0 for line in result.stats)
    if flavor == "krb5p":  # what krb5 takes for so few calls may be less than the clock tells
        assert sum(line.crypto_ms for line in result.stats) > 0
    assert f"Kerberos: 4 connections with {flavor} by {AES256_SHA1}, 4 contexts" in result.messages


def test_two_principals_of_one_keytab(client: Client, kerberos: Lab, tmp_path: Path) -> None:
    """Each path has tickets of its own principal."""
    keytab = tmp_path / "keytab"
    keytab.write_bytes(kerberos.kdc.keytab.read_bytes())
    kerberos.kdc.add("carol", keytab)
    client.well(**_SMALL)
    users = kerberos.kdc.principal, "carol"
    pool = ",".join(f"{client.path('3')}&principal={user}" for user in users)
    job: dict[str, Option] = {**_SMALL, "rw": "read", "spread": "roundrobin", "principal": None}
    result = client.well(**job, pool=pool, keytab=f"WRFILE:{keytab}")  # of a type, for the library
    assert [line.read_ops for line in result.stats] == [8, 8]


@pytest.mark.parametrize("enctype", [
    "aes128-cts-hmac-sha1-96", "aes256-cts-hmac-sha384-192", "aes128-cts-hmac-sha256-128",
])  # fmt: skip
def test_each_encryption_type(local_fio: FioRunner, tmp_path: Path, enctype: str) -> None:
    with realm(Kerberos(enctypes=(enctype,))) as lab:
        result = Client(lab, local_fio, tmp_path)(**_VERIFIED, security="krb5p")
    done(result)
    assert {line.enctype for line in result.stats} == {enctype}


def test_flavors_of_a_mixed_pool(client: Client) -> None:
    """Each connection is told of by its own, in a line for each flavor."""
    paths = [f"{client.path()}&sec={flavor}" for flavor in ("krb5", "krb5p", "krb5p")]
    result = client.well(**{**_VERIFIED, "nconnect": 1}, pool=",".join(paths))
    told = re.findall(r"Kerberos: (.*) by", result.messages)
    assert told == ["1 connection with krb5", "2 connections with krb5p"]


# Of three readings of a thread's CPU time, the last two lie 1 ms further apart than the first two.
_EACH_TAKES_1_MS = """\
int clock_gettime(clockid_t clock, struct timespec *now)
{
	static long readings, ms;

	if (clock != CLOCK_THREAD_CPUTIME_ID)
		return (int)syscall(SYS_clock_gettime, clock, now);
	ms += ++readings;
	*now = (struct timespec){ms / 1000, ms % 1000 * 1000000};
	return 0;
}
"""


# What is done for a call and its reply: MICs of header and verifier, with krb5i of arguments and
# results; krb5p encrypts these, and looks for unfinished ciphers at each of two flushes.
_PIECES = {"krb5": 2, "krb5i": 4, "krb5p": 6}


@pytest.mark.parametrize("flavor", _PIECES)
def test_all_cryptography_is_timed(
    kerberos: Lab, engine: Engine, tmp_path: Path, flavor: str
) -> None:
    """Of WRITEs and of READs; every 17th piece stands for all."""
    fio = Fio(preloaded(engine, tmp_path, _EACH_TAKES_1_MS))
    client = Client(kerberos, FioRunner(fio, "", tmp_path), tmp_path)
    job: dict[str, Option] = {"rw": "write", "bs": "4k", "size": "2m", "verify": "crc32c"}
    result = client.well(**job, verify_state_save=0, filename="f", security=flavor)
    (line,) = result.stats
    calls = line.read_ops + line.write_ops
    assert line.crypto_ms / calls == pytest.approx(_PIECES[flavor], abs=0.1)


_THE_50TH_FAILS = """\
int gnutls_cipher_encrypt2(void *cipher, const void *from, size_t length, void *to, size_t room)
{
	void *gnutls = dlopen("libgnutls.so.30", RTLD_NOW | RTLD_NOLOAD);
	__typeof__(&gnutls_cipher_encrypt2) real = dlsym(gnutls, "gnutls_cipher_encrypt2");
	static int calls;

	return ++calls == 50 ? -1 : real(cipher, from, length, to, room);
}
"""


@pytest.mark.skipif(
    "sha_ni" not in Path("/proc/cpuinfo").read_text(), reason="calls do not wait for a second one"
)
def test_what_is_not_encrypted_is_not_sent(kerberos: Lab, engine: Engine, tmp_path: Path) -> None:
    """A call that waits for another one ends with the flush. It goes over another connection."""
    fio = Fio(preloaded(engine, tmp_path, _THE_50TH_FAILS))
    client = Client(kerberos, FioRunner(fio, "", tmp_path), tmp_path)
    (line,) = client.well(**_VERIFIED | {"iodepth": 1, "nconnect": 1}, security="krb5p").stats
    assert line.reconnects == 1


def test_many_clients_within_tls(client: Client, kerberos: Lab, tmp_path: Path) -> None:
    """Each has a handshake and a context of its own, of one principal, and a record at the server.

    It has none afterwards.
    """
    server, made = kerberos.server(0), Certificates(tmp_path)
    before, to = set(server.clients), (server.endpoint.address, server.endpoint.nfs_port)
    job: dict[str, Option] = {
        "rw": "randwrite", "bs": "4k", "size": "1m", "iodepth": 8, "time_based": 1, "runtime": 300,
        "trace": 1, "filename": "f", "nclients": 8, "security": "krb5p",
    }  # fmt: skip
    with TlsProxy(to, made.server.certificate, made.server.key) as proxy:
        pool = f"nfs://{to[0]}:{proxy.port}/{SECRET.name}?version=4.1&xprtsec=tls"
        with client.start(**job, pool=pool, tls_ca=str(made.authority.certificate)) as process:
            eventually(lambda: traces(process) > 100)
            known = set(server.clients) - before
            process.signal(signal.SIGTERM)
            ends(process)
            result = client.finish(process)
    assert (len(known), set(server.clients) - before) == (8, set())
    told = [(line.sec, line.contexts, line.handshakes) for line in result.stats]
    assert told == [("krb5p", 1, 1)] * 8
    assert proxy.clear == b""


def test_contexts_are_renewed(local_fio: FioRunner, tmp_path: Path) -> None:
    """Before their tickets expire, and without a call that fails."""
    job: dict[str, Option] = {
        "rw": "randrw", "bs": "8k", "size": "8m", "iodepth": 8, "rate_iops": 100,
        "time_based": 1, "runtime": 5, "filename": "f", "nclients": 2,
    }  # fmt: skip
    lifetime = 4
    with realm(Kerberos(lifetime=lifetime)) as lab:
        begin = time.monotonic()
        result = Client(lab, local_fio, tmp_path)(**job, security="krb5i")
        halves = (time.monotonic() - begin) / (lifetime / 2)
    done(result)
    # Each serves for three quarters of a lifetime; half of one leaves room.
    assert all(2 <= line.contexts <= 1 + halves for line in result.stats)
    assert {(line.errors, line.reconnects) for line in result.stats} == {(0, 0)}
    assert said(result) == []


# --- what is refused ---


def test_auth_sys_where_kerberos_is_wanted(client: Client) -> None:
    sys: dict[str, Option] = {**_SMALL, **_TICKETS, "principal": None, "security": "sys"}
    refused(client(**sys), "NFS4ERR_WRONGSEC: the export wants other security")
    refused(client("3", **sys), "or Kerberos: security=krb5")


_NOBODY: dict[str, Option] = {**_TICKETS, "principal": None}
_FILES = {"empty": b"", "garbage": b"garbage\n", "no-keys": b"\5\2", "half.conf": b"[libdefaults\n"}
# A cache of tickets, and what is said of it.
_CACHES = {
    "FILE:{}/missing": ("No credentials cache found (cache: FILE:", "run kinit"),
    "FILE:{}/empty": ("Bad format in credentials cache", "run kinit"),
    "FILE:{}/garbage": ("format version number", "run kinit"),
    "DIR:/nowhere": ("No credentials cache found (cache: DIR:", "run kinit"),
    "KCM:": ("No KCM server found", "or name another cache by ccache= or KRB5CCNAME"),
    "BOGUS:x": ("Unknown credential cache type", "or name another cache by"),
}
_KEYTAB = "no ticket: keytab={}"
_CONFIGURATION = ("Improper format", "mend krb5.conf, or name another")
# A job's options, the environment, and what is said; {}: the folder of _FILES.
_NO_TICKET: list[tuple[Mapping[str, Option], Mapping[str, str | None], tuple[str, ...]]] = [
    (_NOBODY, {}, ("run kinit, or give keytab= and principal=",)),
    (_TICKETS, {}, ("run kinit as that principal, or give keytab=",)),
    ({"principal": "nobody"}, {}, ("No key table entry found for nobody@",)),
    ({"principal": "a@b@c"}, {}, ("write principal=USER@REALM",)),
    ({"server_principal": "nfs@elsewhere"}, {}, ("name another by server_principal=",)),
    # The default one is told of as one that is given: MIT's library crashes on some by itself.
    *(({**_NOBODY, "ccache": cache}, {}, words) for cache, words in _CACHES.items()),
    *((_NOBODY, {"KRB5CCNAME": cache}, words) for cache, words in _CACHES.items()),
    *((_TICKETS, {"KRB5CCNAME": cache}, words) for cache, words in _CACHES.items()),
    ({"keytab": "{}/garbage"}, {}, (f"{_KEYTAB}/garbage: ", "Unsupported key table", "klist -k")),
    ({"keytab": "{}/no-keys", "principal": None}, {}, (f"{_KEYTAB}/no-keys: ", "empty")),
    ({"keytab": "{}/no-keys"}, {}, (f"{_KEYTAB}/no-keys: ", "entry found for alice@", "klist -k")),
    ({}, {"KRB5_CONFIG": "{}/half.conf"}, _CONFIGURATION),
    (_NOBODY, {"KRB5_CONFIG": "{}/half.conf"}, _CONFIGURATION),
    # The library has no name at all for what krb5.conf makes of it.
    (_NOBODY, {"KRB5_CONFIG": "{}/unsound.conf", "KRB5CCNAME": None}, ("run kinit",)),
    (_TICKETS, {"KRB5_CONFIG": "{}/unsound.conf", "KRB5CCNAME": None}, ("run kinit",)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(_NO_TICKET)))
def test_without_a_ticket(client: Client, tmp_path: Path, number: int) -> None:
    """One line says what the library has found, and what to do."""
    for name, content in _FILES.items():
        (tmp_path / name).write_bytes(content)
    config = Path(client.environment["KRB5_CONFIG"]).read_text()
    unsound = "[libdefaults]\ndefault_ccache_name = FILE:/tmp/%{nosuch}\n"
    (tmp_path / "unsound.conf").write_text(config.replace("[libdefaults]", unsound, 1))
    asked, own, words = _NO_TICKET[number]
    environment = {**client.environment, **own}
    client.environment = {
        name: value.replace("{}", str(tmp_path)) for name, value in environment.items() if value
    }
    options = {k: v and str(v).replace("{}", str(tmp_path)) for k, v in asked.items()}
    result = client(**{**_SMALL, **options})
    refused(result, "Kerberos: no ", *(word.replace("{}", str(tmp_path)) for word in words))
    assert not asked.get("keytab") or "kinit" not in result.messages


def test_the_cache_that_fits_the_server(client: Client, kerberos: Lab, tmp_path: Path) -> None:
    """Of several the library chooses by the server's realm, whatever the first is like."""
    caches = f"DIR:{tmp_path}"
    client.environment["KRB5CCNAME"] = caches
    client.kinit()
    (tmp_path / "primary").write_text("tkt0\n")
    (tmp_path / "tkt0").touch()
    server = f"nfs/{kerberos.server(0).endpoint.address}@{REALM}"
    client.well(**_SMALL, **_TICKETS, principal=None, server_principal=server)


@pytest.mark.parametrize("service", [False, True])
def test_clocks_that_differ(client: Client, engine: Engine, tmp_path: Path, service: bool) -> None:
    """The KDC notices, or with a ticket at hand the server, which does not say so."""
    client.log_in()
    if service:
        cache = {**client.environment, "KRB5CCNAME": str(client.tickets["ccache"])}
        name = ["kvno", "-S", "nfs", client.lab.server(0).endpoint.address]
        run(name, timeout=60, env=cache).check()
    ahead = Fio(preloaded(engine, tmp_path, _AHEAD))
    late = Client(client.lab, FioRunner(ahead, "", tmp_path), tmp_path)
    words = "do the clocks agree" if service else "set the clocks here, at the KDC and at the"
    refused(late(**_SMALL, **late.tickets), words, "300 s", "clockskew in krb5.conf")


def test_without_a_kdc(client: Client, kerberos: Lab) -> None:
    kerberos.kdc.stop()
    refused(client(**_SMALL), "does the KDC run")


# --- nobody measures clear text and takes it for Kerberos ---


@pytest.mark.parametrize("words", [["--sec=krb5"], ["-sec=krb5p"], ["--sec", "krb5i"]])
def test_sec_that_fio_takes_for_its_own_is_refused(mounted: Place, words: list[str]) -> None:
    """It stands behind the job's name and before the engine's: fio runs the job."""
    engine = f"--ioengine={mounted.program.engine.option}"
    word = words[-1].partition("=")[2] or words[-1]
    job = [f"--pool={mounted.pool}", "--rw=write", "--size=64k", "--filename=f"]
    ran = mounted.raw("--name=t", *words, engine, *job)
    assert ran.status not in (0, None)
    remedy = f"write --security={word} after --ioengine, or --section={word} if"
    assert f"fio takes --sec={word} for its own --section" in ran.stderr + ran.stdout
    assert remedy in ran.stderr + ran.stdout
    assert mounted.names() == []


_URL = "nfs://127.0.0.1/x?version=4.1"


@pytest.mark.parametrize("scheme", ["", "FILE:"])
def test_a_keytab_that_cannot_be_read(local_fio: FioRunner, tmp_path: Path, scheme: str) -> None:
    job: dict[str, Option] = {**_SMALL, "pool": _URL, "security": "krb5"}
    keytab = f"{scheme}{tmp_path / 'missing'}"
    words = "No such file or directory: name a file that you may read, or leave it out and use"
    refused(local_fio(**job, keytab=keytab), f": keytab={keytab}: {words} kinit's tickets")
    (tmp_path / "there").touch()
    for there in (f"{scheme}{tmp_path / 'there'}", "MEMORY:none"):
        result = local_fio(**job, keytab=there)
        assert not [line for line in said(result) if "name a file" in line]
