# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos and TLS with the kernel's server, and with its mounts as the peer."""

import contextlib
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import kernel_nfsd
import pytest
from conftest import FioRunner, or_skip
from engine_helpers import (
    all_go_on,
    amid_writes,
    done,
    eventually,
    held_amid_writes,
    mounted_at,
    refused,
    stopped_well,
    traces,
    verified,
)

from nfsmulti.fiorun import FioProcess, FioResult, Option
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.lab.kerberos import KERBEROS_FLAVORS
from nfsmulti.lab.kernel_security import secured
from nfsmulti.lab.kernel_server import exported
from nfsmulti.processes import Process, run

pytestmark = pytest.mark.kernel_lab

_SECONDS = 240.0  # for whatever does not hang, on a slow machine too
_FILE = Path(EXPORT) / "f"
# For version 4 the export is the root.
_URLS = {
    version: f"nfs://{ADDRESSES[0]}{EXPORT if version == '3' else '/'}" for version in ("3", "4.1")
}
_VERIFIED: dict[str, Option] = {
    "rw": "randwrite", "bsrange": "512-100k", "size": "1m", "iodepth": 16, "verify": "crc32c",
    "nconnect": 4, "spread": "roundrobin", "verify_state_save": 0, "filename": _FILE.name,
}  # fmt: skip
_FLUSH_CONTEXTS = Path("/proc/net/rpc/auth.rpcsec.context/flush")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Yield what a command finds that `lab kernel --sec krb5p --xprtsec mtls` runs."""
    with contextlib.ExitStack() as undo:
        with or_skip():
            folder = tmp_path_factory.mktemp("secured")
            environment = undo.enter_context(secured("krb5p", "mtls", folder))
        # What the programs say belongs to the test that runs.
        logs = map(str, folder.rglob("*.log"))
        undo.enter_context(Process(["tail", "-q", "-n0", "-F", *logs]))
        yield environment


class User:
    """Who has a key and a certificate, and runs fio."""

    def __init__(self, found: Mapping[str, str], fio: FioRunner):
        self._found, self._fio, self.finish = found, fio, fio.finish
        given = dict(parse_qsl(urlsplit(found["POOL"].split(",")[0]).query))
        profile = Path(given["keytab"]).with_name("kdc.conf")
        self._administrator = {**found, "KRB5_KDC_PROFILE": str(profile)}
        self._tls = {name: word for name, word in given.items() if name.startswith("tls_")}
        self._kerberos = {name: given[name] for name in ("keytab", "principal")}

    def start(self, version: str, *securities: str, **options: Option) -> FioProcess:
        """Start fio with four connections of each security; use it in a `with`."""
        paths = [f"{_URLS[version]}?version={version}&{words}" for words in securities]
        pool = ",".join(paths)
        own: dict[str, Option] = {
            **(self._kerberos if "krb5" in pool else {}),
            **(self._tls if "tls" in pool else {}),
        }
        return self.start_on(pool, **{**own, **options})

    def administer(self, *words: str) -> None:
        run(["kadmin.local", *words], timeout=_SECONDS, env=self._administrator).check()

    def start_on(self, pool: str, **options: Option) -> FioProcess:
        """Start it on a pool that has all it needs."""
        return self._fio.start(pool=pool, env=self._found, **{**_VERIFIED, **options})


@pytest.fixture
def user(found: Mapping[str, str], local_fio: FioRunner) -> Iterator[User]:
    yield User(found, local_fio)
    _FILE.unlink(missing_ok=True)


def _a_mount_reads_it(folder: Path, options: str) -> None:
    with mounted_at(folder, options):
        assert (folder / _FILE.name).read_bytes() == _FILE.read_bytes()


def test_what_a_command_of_lab_kernel_finds(user: User, tmp_path: Path) -> None:
    """A pool that asks for the flavors that were given; a mount with them may write, too."""
    with user.start_on("one", size="2m") as process:
        result = user.finish(process, _SECONDS)
    done(result)
    assert {(line.sec, line.xprtsec) for line in result.stats} == {("krb5p", "mtls")}
    with mounted_at(tmp_path / "mount", "vers=4.1,sec=krb5p,xprtsec=mtls") as folder:
        (folder / _FILE.name).write_bytes(b"by the mount")
    assert _FILE.read_bytes() == b"by the mount"


def test_kerberos(user: User, tmp_path: Path) -> None:
    """By any flavor the data are what was written, and what a mount reads."""
    paths = [f"sec={flavor}" for flavor in KERBEROS_FLAVORS]
    with exported(f"sec={':'.join(KERBEROS_FLAVORS)}"):
        with user.start("4.1", *paths) as process:
            result = user.finish(process, _SECONDS)
        done(result)
        assert Counter(line.sec for line in result.stats) == dict.fromkeys(KERBEROS_FLAVORS, 4)
        assert {(line.contexts, line.reconnects) for line in result.stats} == {(1, 0)}
        _a_mount_reads_it(tmp_path / "mount", "vers=3,sec=krb5p")


def test_krb5_over_rdma(user: User) -> None:
    """With its message or apart from it; calls and replies show who sends them."""
    with exported("sec=krb5"), user.start("4.1", "sec=krb5", proto="rdma") as process:
        result = user.finish(process, _SECONDS)
    done(result)
    told = {(line.transport, line.sec, line.contexts) for line in result.stats}
    assert told == {("rdma", "krb5", 1)}
    assert {(line.reconnects, line.stale_replies) for line in result.stats} == {(0, 0)}


def test_a_token_that_no_send_has_room_for(user: User, tmp_path: Path) -> None:
    """It is not moved by RDMA, as data is: a server would not look for it there."""
    name, keytab = f"a-user-{'x' * 150}", str(tmp_path / "keytab")
    user.administer("addprinc", "-randkey", name)
    user.administer("ktadd", "-k", keytab, name)
    job: dict[str, Option] = {"proto": "rdma", "inline": 1024, "principal": name, "keytab": keytab}
    with exported("sec=krb5"), user.start("4.1", "sec=krb5", **job) as process:
        line = refused(user.finish(process, _SECONDS), "does not fit into one RDMA Send of 1024")
    assert line.endswith("raise inline=, and the server's own threshold")


@pytest.mark.parametrize(
    ("version", "sec", "xprtsec"),
    [("4.1", "sys", "mtls"), ("3", "krb5p", "tls")],
)
def test_tls(version: str, sec: str, xprtsec: str, user: User, tmp_path: Path) -> None:
    """So they are over TLS, where the server takes nothing less, and Kerberos within it."""
    with exported(f"sec={sec},xprtsec={xprtsec}"):
        with user.start(version, f"sec={sec}&xprtsec={xprtsec}") as process:
            result = user.finish(process, _SECONDS)
        done(result)
        assert {(line.sec, line.xprtsec) for line in result.stats} == {(sec, xprtsec)}
        assert {(line.handshakes, line.reconnects) for line in result.stats} == {(1, 0)}
        _a_mount_reads_it(tmp_path / "mount", f"vers={version},sec={sec},xprtsec={xprtsec}")


# It writes and verifies in turn until a signal ends it, however late the test is.
_BLOCKS = 64
_ENDLESS: dict[str, Option] = {
    "bsrange": None, "bs": "8k", "size": _BLOCKS << 13, "rate_iops": 50, "trace": 1,
    "time_based": 1, "runtime": 3600, "thread": 1,
}  # fmt: skip


def _goes_on(user: User, process: FioProcess) -> FioResult:
    """Expect each connection to go on, and what is written to be read again; end the job."""
    before = verified(process)
    all_go_on(process, connections=4, depth=16, seconds=_SECONDS)
    eventually(lambda: verified(process) >= before + _BLOCKS, _SECONDS)
    eventually(lambda: amid_writes(process, _BLOCKS), _SECONDS)
    process.signal(signal.SIGINT)
    result = user.finish(process, _SECONDS)
    stopped_well(result)
    return result


def test_contexts_that_the_server_forgets(user: User) -> None:
    """It denies calls with them: others are made, and the calls are sent again, over RDMA too."""
    with exported("sec=krb5"), user.start("4.1", "sec=krb5", proto="rdma", **_ENDLESS) as process:
        eventually(lambda: traces(process) > 32, _SECONDS)
        _FLUSH_CONTEXTS.write_text("1\n")
        result = _goes_on(user, process)
    assert all(line.contexts >= 2 for line in result.stats)  # a slow server may want another


@pytest.mark.usefixtures("server_mended")
@pytest.mark.parametrize(("version", "security"), [("4.1", "sec=krb5p"), ("3", "xprtsec=tls")])
def test_a_server_that_restarts(version: str, security: str, user: User) -> None:
    """It knows no context any more, and has lost what was not committed: that is written again."""
    job: dict[str, Option] = {**_ENDLESS, "hold_writes": "64m"}
    with exported(security), user.start(version, security, **job) as process:
        with held_amid_writes(process, _BLOCKS, _SECONDS):
            threads = kernel_nfsd.stop()
            _FLUSH_CONTEXTS.write_text("1\n")
            kernel_nfsd.start(threads)
            kernel_nfsd.end_grace()
        result = _goes_on(user, process)
    assert all(line.reconnects for line in result.stats)
    assert all(line.contexts + line.handshakes > 1 for line in result.stats)
    assert sum(line.rewritten_bytes for line in result.stats) > 0
