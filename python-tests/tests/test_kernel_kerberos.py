# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos with the kernel's server, and with its mounts as the peer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FioRunner, or_skip
from engine_helpers import done, eventually, mounted_at, refused, traces

from nfsmulti.fiorun import FioProcess, Option
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.lab.kerberos import KERBEROS_FLAVORS, Kdc, Kerberos
from nfsmulti.lab.kernel_kerberos import kernel_kerberos

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
    """Yield the KDC of the realm whose users alone may enter the export."""
    folder = tmp_path_factory.mktemp("realm") / "kdc"
    with or_skip():
        realm = kernel_kerberos(Kerberos(sec=KERBEROS_FLAVORS), folder)
    with realm as running:
        yield running


class User:
    """The realm's user, who runs fio."""

    def __init__(self, kdc: Kdc, fio: FioRunner):
        self._kdc, self._fio, self.finish = kdc, fio, fio.finish

    def start(self, version: str, *flavors: str, **options: Option) -> FioProcess:
        """Start fio with four connections of each flavor; use it in a `with`."""
        paths = [f"{_URLS[version]}?version={version}&sec={flavor}" for flavor in flavors]
        words = {**_VERIFIED, **self._kdc.options, "security": flavors[0], **options}
        return self._fio.start(pool=",".join(paths), env=self._kdc.environment, **words)


@pytest.fixture
def user(kdc: Kdc, guest_fio: FioRunner) -> Iterator[User]:
    yield User(kdc, guest_fio)
    _FILE.unlink(missing_ok=True)


@pytest.mark.parametrize("version", _URLS)
def test_data_is_what_was_written(version: str, user: User, tmp_path: Path) -> None:
    """By any flavor, and by a mount."""
    with user.start(version, *KERBEROS_FLAVORS) as process:
        result = user.finish(process, _SECONDS)
    done(result)
    assert Counter(line.sec for line in result.stats) == dict.fromkeys(KERBEROS_FLAVORS, 4)
    assert {(line.contexts, line.reconnects) for line in result.stats} == {(1, 0)}
    with mounted_at(tmp_path / "mount", f"vers={version},sec=krb5p") as folder:
        assert (folder / _FILE.name).read_bytes() == _FILE.read_bytes()


@pytest.mark.parametrize("version", _URLS)
def test_data_over_rdma(version: str, user: User) -> None:
    """With its message or apart from it; calls and replies show who sends them."""
    with user.start(version, "krb5", proto="rdma") as process:
        result = user.finish(process, _SECONDS)
    done(result)
    told = {(line.transport, line.sec, line.contexts) for line in result.stats}
    assert told == {("rdma", "krb5", 1)}
    assert {(line.reconnects, line.stale_replies) for line in result.stats} == {(0, 0)}


def test_a_token_that_no_send_has_room_for(user: User, kdc: Kdc) -> None:
    """It is not moved by RDMA, as data is: a server would not look for it there."""
    kdc.add(name := f"a-user-{'x' * 150}", kdc.keytab)
    with user.start("4.1", "krb5", proto="rdma", inline=1024, principal=name) as process:
        line = refused(user.finish(process, _SECONDS), "does not fit into one RDMA Send of 1024")
    assert line.endswith("raise inline=, and the server's own threshold")


@pytest.mark.parametrize(("flavor", "proto"), [("krb5p", "tcp"), ("krb5", "rdma")])
def test_contexts_that_the_server_forgets(user: User, flavor: str, proto: str) -> None:
    """It denies calls with them: others are made, and the calls are sent again."""
    job: dict[str, Option] = {"bsrange": "4k-8k", "size": "1m", "rate_iops": 50, "trace": 1}
    with user.start("4.1", flavor, proto=proto, **job) as process:
        eventually(lambda: traces(process) > 32, _SECONDS)
        _FLUSH_CONTEXTS.write_text("1\n")
        result = user.finish(process, _SECONDS)
    done(result)
    assert [line.contexts for line in result.stats] == [2] * 4
