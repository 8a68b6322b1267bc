# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos and TLS with the kernel's server, and with its mounts as the peer."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FioRunner, or_skip
from engine_helpers import done, eventually, mounted_at, refused, traces

from nfsmulti.fiorun import FioProcess, Option
from nfsmulti.lab import kernel_server
from nfsmulti.lab.certificates import Certificates
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.lab.kerberos import KERBEROS_FLAVORS, Kdc, Kerberos
from nfsmulti.lab.kernel_kerberos import kernel_kerberos
from nfsmulti.lab.kernel_server import exported
from nfsmulti.lab.kernel_tls import kernel_tls

pytestmark = pytest.mark.kernel_lab

_SECONDS = 240.0  # for whatever does not hang, on a slow machine too
_FILE = Path(EXPORT) / "f"
# For version 4 the export is the root.
_URLS = {
    version: f"nfs://{ADDRESSES[0]}{EXPORT if version == '3' else '/'}" for version in ("3", "4.1")
}
_VERIFIED: dict[str, Option] = {
    "rw": "randwrite", "bsrange": "512-100k", "size": "4m", "iodepth": 16, "verify": "crc32c",
    "nconnect": 4, "spread": "roundrobin", "verify_state_save": 0, "filename": _FILE.name,
}  # fmt: skip
_FLUSH_CONTEXTS = Path("/proc/net/rpc/auth.rpcsec.context/flush")


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """Yield the KDC of the realm of the server and of the user."""
    folder = tmp_path_factory.mktemp("realm") / "kdc"
    with contextlib.ExitStack() as undo:
        with or_skip():
            realm = undo.enter_context(kernel_kerberos(Kerberos(sec=KERBEROS_FLAVORS), folder))
        yield realm


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certificates]:
    """Yield the certificates of the server and of the user."""
    with contextlib.ExitStack() as undo:
        with or_skip():
            certificates = undo.enter_context(kernel_tls(tmp_path_factory.mktemp("tls")))
        yield certificates


class User:
    """Who has a key and a certificate, and runs fio."""

    def __init__(self, kdc: Kdc, made: Certificates, fio: FioRunner):
        self._kdc, self._fio, self.finish = kdc, fio, fio.finish
        self._tls: dict[str, Option] = {
            "tls_ca": str(made.authority.certificate),
            "tls_cert": str(made.client.certificate),
            "tls_key": str(made.client.key),
        }

    def start(self, version: str, *securities: str, **options: Option) -> FioProcess:
        """Start fio with four connections of each security; use it in a `with`."""
        paths = [f"{_URLS[version]}?version={version}&{words}" for words in securities]
        pool = ",".join(paths)
        own = {
            **(self._kdc.options if "krb5" in pool else {}),
            **(self._tls if "tls" in pool else {}),
        }
        return self._fio.start(
            pool=pool, env=self._kdc.environment, **{**_VERIFIED, **own, **options}
        )


@pytest.fixture
def user(kdc: Kdc, made: Certificates, guest_fio: FioRunner) -> Iterator[User]:
    yield User(kdc, made, guest_fio)
    _FILE.unlink(missing_ok=True)


def _a_mount_reads_it(folder: Path, options: str) -> None:
    with mounted_at(folder, options):
        assert (folder / _FILE.name).read_bytes() == _FILE.read_bytes()


@pytest.mark.parametrize("version", _URLS)
def test_kerberos(version: str, user: User, tmp_path: Path) -> None:
    """By any flavor the data are what was written, and what a mount reads."""
    paths = [f"sec={flavor}" for flavor in KERBEROS_FLAVORS]
    with exported(f"sec={':'.join(KERBEROS_FLAVORS)}"):
        with user.start(version, *paths) as process:
            result = user.finish(process, _SECONDS)
        done(result)
        assert Counter(line.sec for line in result.stats) == dict.fromkeys(KERBEROS_FLAVORS, 4)
        assert {(line.contexts, line.reconnects) for line in result.stats} == {(1, 0)}
        _a_mount_reads_it(tmp_path / "mount", f"vers={version},sec=krb5p")


@pytest.mark.parametrize("version", _URLS)
def test_krb5_over_rdma(version: str, user: User) -> None:
    """With its message or apart from it; calls and replies show who sends them."""
    with exported("sec=krb5"), user.start(version, "sec=krb5", proto="rdma") as process:
        result = user.finish(process, _SECONDS)
    done(result)
    told = {(line.transport, line.sec, line.contexts) for line in result.stats}
    assert told == {("rdma", "krb5", 1)}
    assert {(line.reconnects, line.stale_replies) for line in result.stats} == {(0, 0)}


def test_a_token_that_no_send_has_room_for(user: User, kdc: Kdc) -> None:
    """It is not moved by RDMA, as data is: a server would not look for it there."""
    kdc.add(name := f"a-user-{'x' * 150}", kdc.keytab)
    job: dict[str, Option] = {"proto": "rdma", "inline": 1024, "principal": name}
    with exported("sec=krb5"), user.start("4.1", "sec=krb5", **job) as process:
        line = refused(user.finish(process, _SECONDS), "does not fit into one RDMA Send of 1024")
    assert line.endswith("raise inline=, and the server's own threshold")


@pytest.mark.parametrize("version", _URLS)
@pytest.mark.parametrize(
    ("sec", "xprtsec"),
    [("sys", "tls"), ("sys", "mtls"), ("krb5p", "tls")],
    ids=["tls", "mtls", "krb5p-tls"],
)
def test_tls(version: str, sec: str, xprtsec: str, user: User, tmp_path: Path) -> None:
    """So they are over TLS, where the server takes nothing less, and Kerberos within it."""
    with exported(f"sec={sec},xprtsec={xprtsec}"):
        with user.start(version, f"sec={sec}&xprtsec={xprtsec}", size="2m") as process:
            result = user.finish(process, _SECONDS)
        done(result)
        assert {(line.sec, line.xprtsec) for line in result.stats} == {(sec, xprtsec)}
        assert {(line.handshakes, line.reconnects) for line in result.stats} == {(1, 0)}
        _a_mount_reads_it(tmp_path / "mount", f"vers={version},sec={sec},xprtsec={xprtsec}")


_SLOW: dict[str, Option] = {"bsrange": "4k-8k", "size": "1m", "rate_iops": 50, "trace": 1}


@pytest.mark.parametrize(("flavor", "proto"), [("krb5p", "tcp"), ("krb5", "rdma")])
def test_contexts_that_the_server_forgets(user: User, flavor: str, proto: str) -> None:
    """It denies calls with them: others are made, and the calls are sent again."""
    security = f"sec={flavor}"
    with exported(security), user.start("4.1", security, proto=proto, **_SLOW) as process:
        eventually(lambda: traces(process) > 32, _SECONDS)
        _FLUSH_CONTEXTS.write_text("1\n")
        result = user.finish(process, _SECONDS)
    done(result)
    assert all(line.contexts >= 2 for line in result.stats)  # a slow server may want another


@pytest.mark.usefixtures("server_mended")
@pytest.mark.parametrize(("version", "security"), [("4.1", "sec=krb5p"), ("3", "xprtsec=tls")])
def test_a_server_that_restarts(version: str, security: str, user: User) -> None:
    """It knows no context any more, and has lost what was not committed: that is written again."""
    job: dict[str, Option] = {**_SLOW, "thread": 1, "hold_writes": "64m"}
    with exported(security), user.start(version, security, **job) as process:
        eventually(lambda: traces(process) > 32, _SECONDS)
        process.signal(signal.SIGSTOP)
        threads = kernel_server.stop()
        _FLUSH_CONTEXTS.write_text("1\n")
        kernel_server.start(threads)
        kernel_server.end_grace()
        process.signal(signal.SIGCONT)
        result = user.finish(process, _SECONDS)
    done(result)
    assert all(line.reconnects for line in result.stats)
    assert all(line.contexts + line.handshakes > 1 for line in result.stats)
    assert sum(line.rewritten_bytes for line in result.stats) > 0
