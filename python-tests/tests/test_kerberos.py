# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos (RPCSEC_GSS, RFC 2203): calls show who sends them, or do not go out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import FioRunner, started_lab
from engine_helpers import done, eventually, refused, said, traces

from nfsmulti.fiorun import Engine, Fio, FioProcess, FioResult, Option
from nfsmulti.lab import Lab, LabConfig
from nfsmulti.lab.certificates import Certificates
from nfsmulti.lab.ganesha import EXPORT, SECRET
from nfsmulti.lab.kerberos import ENCTYPES, KERBEROS_FLAVORS, Kerberos
from servers.tls_proxy import TlsProxy

# Of any size, so that messages have pads, and go over several connections.
_VERIFIED: dict[str, Option] = {
    "rw": "randwrite", "bsrange": "512-300k", "size": "6m", "iodepth": 16,
    "verify": "crc32c", "nconnect": 4, "spread": "roundrobin", "verify_state_save": 0,
    "filename": "f",
}  # fmt: skip


class Client:
    """fio as the realm's user, on the export that takes no AUTH_SYS."""

    def __init__(self, lab: Lab, engine: Engine, folder: Path, item: pytest.Item):
        path = lab.path(0, version="4.1", export=SECRET.name)
        self._lab, self._fio = lab, FioRunner(Fio(engine), path, folder, item)
        self.finish = self._fio.finish

    def __call__(self, **options: Option) -> FioResult:
        """Run fio to its end."""
        return self._fio(env=self._lab.environment, **{**self._lab.options, **options})

    def start(self, **options: Option) -> FioProcess:
        return self._fio.start(env=self._lab.environment, **{**self._lab.options, **options})


@pytest.fixture
def client(kerberos: Lab, engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Client:
    return Client(kerberos, engine, tmp_path, request.node)


@contextmanager
def realm(config: Kerberos) -> Iterator[Lab]:
    """Yield a lab with a realm of another kind."""
    exports = (EXPORT, SECRET)
    with started_lab(LabConfig(addresses=1, local=True, exports=exports, kerberos=config)) as lab:
        yield lab


def nfs(lab: Lab, version: str) -> str:
    return lab.path(0, version=version if version != "3" else None, export=SECRET.name)


# --- what works ---


@pytest.mark.sanitized
@pytest.mark.parametrize("version", ["3", "4.1"])
@pytest.mark.parametrize("flavor", KERBEROS_FLAVORS)
def test_data_is_what_was_written(client: Client, kerberos: Lab, flavor: str, version: str) -> None:
    """Each connection has a context of its own."""
    pool = nfs(kerberos, version)
    result = client(**_VERIFIED, pool=pool, security=flavor)
    done(result)
    assert {line.sec for line in result.stats} == {flavor}
    assert {(line.enctype, line.contexts) for line in result.stats} == {(ENCTYPES[0], 1)}
    assert all(line.context_mean_us > 0 for line in result.stats)
    if flavor == "krb5p":  # what krb5 takes for so few calls may be less than the clock tells
        assert sum(line.crypto_ms for line in result.stats) > 0
    assert f"Kerberos: 4 connections with {flavor} by {ENCTYPES[0]}, 4 contexts" in result.messages
    key = kerberos.kdc.keytab.read_bytes()[-16:]
    assert key not in result.output.encode(errors="surrogateescape")


@pytest.mark.sanitized
@pytest.mark.parametrize("version", ["3", "4.1"])
def test_one_context_for_all_connections(client: Client, kerberos: Lab, version: str) -> None:
    pool, shared = nfs(kerberos, version), {"security": "krb5p", "gss_context": "job"}
    result = client(**_VERIFIED, **shared, pool=pool)
    done(result)
    assert sorted(line.contexts for line in result.stats) == [0, 0, 0, 1]
    assert {line.enctype for line in result.stats} == {ENCTYPES[0]}
    assert sum(line.crypto_ms for line in result.stats) > 0
    assert {(line.retransmissions, line.reconnects) for line in result.stats} == {(0, 0)}
    words = f"Kerberos: 4 connections with krb5p by {ENCTYPES[0]}, 1 context (msec)"
    assert words in result.messages


@pytest.mark.parametrize("enctype", ENCTYPES[1:])
def test_each_encryption_type(
    engine: Engine, tmp_path: Path, request: pytest.FixtureRequest, enctype: str
) -> None:
    with realm(Kerberos(enctypes=(enctype,))) as lab:
        result = Client(lab, engine, tmp_path, request.node)(**_VERIFIED, security="krb5p")
    done(result)
    assert {line.enctype for line in result.stats} == {enctype}


def test_flavors_of_a_mixed_pool(client: Client, kerberos: Lab) -> None:
    """Each connection is told of by its own, in a line for each flavor."""
    paths = [f"{nfs(kerberos, '4.1')}&sec={flavor}" for flavor in ("krb5", "krb5p", "krb5p")]
    result = client(**{**_VERIFIED, "nconnect": 1}, pool=",".join(paths))
    done(result)
    told = re.findall(r"Kerberos: (.*) by", result.messages)
    assert told == ["1 connection with krb5", "2 connections with krb5p"]


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_metadata(client: Client, kerberos: Lab, version: str) -> None:
    """Listings and names are wrapped like data."""
    job: dict[str, Option] = {
        "metadata": 1, "rw": "randwrite", "meta_write": "create", "meta_read": "lookup",
        "bs": 1, "size": 200, "iodepth": 8, "filename": f"tree{version}",
    }  # fmt: skip
    pool = nfs(kerberos, version)
    done(client(**job, pool=pool, security="krb5p"))


def test_one_session_for_all_connections(client: Client) -> None:
    done(client(**_VERIFIED, security="krb5i", trunking="session"))


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_within_tls(client: Client, kerberos: Lab, tmp_path: Path, version: str) -> None:
    """Both at once: the server's principal is that of the host in the pool."""
    endpoint, made = kerberos.server(0).endpoint, Certificates(tmp_path)
    to = (endpoint.address, endpoint.nfs_port)
    with TlsProxy(to, made.server.certificate, made.server.key) as proxy:
        words = f"version={version}&mountport={endpoint.mount_port}&xprtsec=tls&sec=krb5i"
        pool = f"nfs://{endpoint.address}:{proxy.port}/{SECRET.name}?{words}"
        result = client(**_VERIFIED, pool=pool, tls_ca=str(made.authority.certificate))
    done(result)
    assert {(line.sec, line.xprtsec) for line in result.stats} == {("krb5i", "tls")}
    assert proxy.clear == b""


def test_a_server_that_restarts(client: Client, kerberos: Lab) -> None:
    """It knows no context any more: others are made, and calls go out again."""
    server = kerberos.server(0)
    job = {**_VERIFIED, "bsrange": "4k-64k", "rate": ",8m", "size": "16m", "hold_writes": "64m"}
    with client.start(**job, trace=1, security="krb5p") as process:
        eventually(lambda: traces(process) > 40)
        server.kill()
        server.start()
        result = client.finish(process)
    done(result)
    assert all(line.reconnects >= 1 and line.contexts >= 2 for line in result.stats)


def test_contexts_are_renewed(
    engine: Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Before their tickets expire, and without a call that fails."""
    job: dict[str, Option] = {
        "rw": "randrw", "bs": "8k", "size": "8m", "iodepth": 8, "rate_iops": 100,
        "time_based": 1, "runtime": 10, "filename": "f",
    }  # fmt: skip
    shared: dict[str, Option] = {
        **job, "nconnect": 4, "spread": "roundrobin", "gss_context": "job", "filename": "g",
    }  # fmt: skip
    lifetime = 8
    with realm(Kerberos(lifetime=lifetime)) as lab:
        client = Client(lab, engine, tmp_path, request.node)
        begin = time.monotonic()
        with client.start(**job, security="krb5i") as alone, client.start(**shared) as together:
            results = [client.finish(process) for process in (alone, together)]
        halves = (time.monotonic() - begin) / (lifetime / 2)
    for result in results:
        done(result)
        # Each serves for three quarters of a lifetime; half of one leaves room.
        assert 2 <= sum(line.contexts for line in result.stats) <= 1 + halves
        assert {(line.errors, line.reconnects) for line in result.stats} == {(0, 0)}
        assert said(result) == []


# --- what is refused ---


def test_auth_sys_where_kerberos_is_wanted(client: Client, kerberos: Lab) -> None:
    sys: dict[str, Option] = {"rw": "write", "size": "64k", "filename": "f", "security": "sys"}
    nothing: dict[str, Option] = {"keytab": None, "principal": None}
    refused(client(**sys, **nothing), "NFS4ERR_WRONGSEC: the export wants other security")
    pool = nfs(kerberos, "3")
    refused(client(**sys, **nothing, pool=pool), "or Kerberos: security=krb5")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keytab": None, "principal": None}, "run kinit, or give keytab="),
        ({"principal": "nobody"}, "run kinit, or give keytab="),
        ({"server_principal": "nfs@elsewhere"}, "server_principal= names another"),
    ],
)
def test_without_a_ticket(client: Client, options: dict[str, Option], words: str) -> None:
    refused(client(rw="write", size="64k", filename="f", **options), "Kerberos: no ", words)


def test_without_a_kdc(client: Client, kerberos: Lab) -> None:
    kerberos.kdc.stop()
    refused(client(rw="write", size="64k", filename="f"), "does the KDC run")
