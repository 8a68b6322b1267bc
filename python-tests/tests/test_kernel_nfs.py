# SPDX-License-Identifier: GPL-2.0-only
"""The engine on the kernel's NFS: its mounts and its server, by both versions, over TCP and RDMA.

With Kerberos and TLS a mount is the peer.

Pools of several versions are in test_engine_pool.py, many clients in test_clients.py.
"""

import contextlib
import os
import re
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
    by_path,
    done,
    eventually,
    held_amid_writes,
    mounted_at,
    refused,
    said,
    stopped_well,
    traces,
    verified,
    written_in_pass,
)

from nfsmulti.fiorun import FioProcess, FioResult, Option
from nfsmulti.lab import kernel_server
from nfsmulti.lab.guest import ADDRESSES, EXPORT
from nfsmulti.lab.kerberos import KERBEROS_FLAVORS
from nfsmulti.lab.kernel_security import secured
from nfsmulti.lab.kernel_server import exported
from nfsmulti.processes import Process, run
from nfsmulti.run.place import InGuest
from nfsmulti.scenario import CellSpec, GuestPlace
from servers.scripted import Nfs4

pytestmark = pytest.mark.kernel_lab

_SECONDS = 240.0  # for whatever does not hang, on a slow machine too
_KIB, _MIB = 1 << 10, 1 << 20
# For version 4 the export is the root of the server's pseudo file system (fsid=0).
_PATHS = [f"nfs://{address}/?version=4.1" for address in ADDRESSES]
_ONE, _BOTH = _PATHS[0], ",".join(_PATHS)


@pytest.fixture(autouse=True)
def _no_client_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a job did, and however it ended: its clients have taken leave of the server."""
    yield
    if "user" in request.fixturenames:  # who removes the only file
        return
    for file in Path(EXPORT).iterdir():
        file.unlink()
    for known in kernel_server.NFSD.glob("clients/*/info"):
        with contextlib.suppress(OSError):  # it has just left
            assert "nfsmulti" not in known.read_text()  # a kernel mount is a client of its own


@contextlib.contextmanager
def _no_replies(which: str = "") -> Iterator[None]:
    """Drop what the server sends, or what of that nft's words say."""
    rule = f"chain out {{ type filter hook output priority 0; tcp sport 2049 {which} drop; }}"
    table = f"table inet replies {{\n{rule}\n}}\n"
    run(["nft", "-f", "-"], timeout=_SECONDS, stdin=table).check()
    try:
        yield
    finally:
        run(["nft", "delete", "table", "inet", "replies"], timeout=_SECONDS).check()


# --- mounts, and NFSv3 ---

# The mounts, and what the kernel must say of them.
_MOUNTS = {
    "vers=4.2,proto=tcp,nconnect=2": {"vers=4.2", "proto=tcp", "nconnect=2"},
    "vers=3,proto=rdma": {"vers=3", "proto=rdma", "port=20049"},
}
_URLS = {
    "tcp": [f"nfs://{address}{EXPORT}" for address in ADDRESSES],
    "tcp6": [f"nfs://[fd02::15]{EXPORT}"],
}

_CHECKED: dict[str, Option] = {"verify": "crc32c", "size": "2m", "filename": "f"}


def _mount_options(folder: Path) -> set[str]:
    """Return the kernel's own words on a mount of NFS."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, system = line.partition(" - ")
        if fields.split()[4] == str(folder) and system.startswith("nfs"):
            return set(system.split()[2].split(","))
    raise AssertionError(f"{folder} is no mount of NFS")


@pytest.mark.parametrize("options", _MOUNTS)
def test_stripes_over_two_mounts_are_read_back(
    options: str, tmp_path: Path, local_fio: FioRunner
) -> None:
    with contextlib.ExitStack() as undo:
        folders = [
            undo.enter_context(mounted_at(tmp_path / one, f"{options},address={one}"))
            for one in ADDRESSES
        ]
        for folder, address in zip(folders, ADDRESSES, strict=True):
            assert _MOUNTS[options] <= _mount_options(folder)
            # A client of version 4 notices that both are one server, and keeps to the first.
            if "vers=3" in options:
                assert f"addr={address}" in _mount_options(folder)
        job: dict[str, Option] = {"rw": "write", "bs": "64k", "iodepth": 8, "direct": 1}
        pool = ",".join(map(str, folders))
        result = local_fio(pool=pool, timeout=_SECONDS, spread="stripe", **job, **_CHECKED)
        report = done(result)
        assert (report.bytes("write"), report.bytes("read")) == (2 * _MIB, 2 * _MIB)
        assert by_path(result.stats) == {str(folder): 16 for folder in folders}
        assert (Path(EXPORT) / "f").stat().st_size == 2 * _MIB
        (folders[0] / "f").unlink()


def test_a_client_of_little_memory_caches_no_more_of_a_mount(tmp_path: Path) -> None:
    most = 48 << 20
    place = InGuest(GuestPlace(client_memory=most))
    place.prepare(CellSpec({}, "", "", {}, 0, files={"cached": 2 * most}))
    with mounted_at(tmp_path / "mount", "vers=3,proto=tcp") as folder, place:
        read = ["dd", f"if={folder}/cached", "of=/dev/null", "bs=1M"]
        run([*place.enter, *read], timeout=_SECONDS).check()
        stat = Path("/sys/fs/cgroup/clients/memory.stat").read_text()
    found = re.search(r"^file (\d+)$", stat, re.MULTILINE)
    assert found
    assert most / 2 < int(found[1]) <= most


def test_the_server_from_user_space(local_fio: FioRunner) -> None:
    """By the names that a command finds in its environment, and over IPv6."""
    job: dict[str, Option] = {"rw": "randwrite", "bs": "16k", "iodepth": 16, **_CHECKED}
    for pool, proto in (("lab", "tcp"), ("one", "tcp"), (_URLS["tcp6"][0], "tcp6")):
        spread: dict[str, Option] = {"proto": proto, "nconnect": 2, "spread": "roundrobin"}
        result = local_fio(pool=pool, timeout=_SECONDS, **spread, **job)
        report = done(result)
        assert (report.bytes("write"), report.bytes("read")) == (2 * _MIB, 2 * _MIB)
        assert sum(by_path(result.stats).values()) == 128
        assert len(by_path(result.stats)) == (2 if pool == "lab" else 1)
        (Path(EXPORT) / "f").unlink()
    assert os.environ["POOL"] == ",".join(_URLS["tcp"])


def _reply_cache_hits() -> int:
    """Count the calls that the server has answered as it had answered them before."""
    lines = Path("/proc/net/rpc/nfsd").read_text().splitlines()
    (hits,) = (line.split()[1] for line in lines if line.startswith("rc "))
    return int(hits)


def _connecting_anew() -> bool:
    return bool(run(["ss", "-Htn", "state", "syn-sent"], timeout=_SECONDS).check().stdout)


def test_the_reply_cache_knows_what_comes_again_over_a_new_connection(local_fio: FioRunner) -> None:
    """It knows a call by its xid, and by the client's address and port."""
    before = _reply_cache_hits()
    job: dict[str, Option] = {"rw": "write", "bs": "4k", "size": "2m", "filename": "again"}
    job |= {"iodepth": 8, "rate_iops": 50, "time_based": 1, "runtime": 3600, "trace": 1}
    with local_fio.start(pool=_URLS["tcp"][0], timeo=10, retrans=1, **job) as process:
        eventually(lambda: traces(process) > 8, _SECONDS)
        with _no_replies():
            eventually(_connecting_anew, _SECONDS)
        written = traces(process)
        eventually(lambda: traces(process) > written + 8, _SECONDS)
        process.signal(signal.SIGTERM)
        result = local_fio.finish(process, _SECONDS)
    assert sum(line.reconnects for line in result.stats) > 0
    assert _reply_cache_hits() > before


def _verified(size: int, **options: Option) -> dict[str, Option]:
    job: dict[str, Option] = {"rw": "randwrite", "verify": "crc32c", "size": size, "filename": "f"}
    return {**job, "iodepth": 16, **options}


def _endless(**options: Option) -> dict[str, Option]:
    """Return a job that a signal ends, and that tells of each I/O; with `verify` it reads again."""
    # Others have the processor, too.
    slow: dict[str, Option] = {"bs": "16k", "rate_iops": 50, "verify": None}
    return {**_verified(_MIB), "time_based": 1, "runtime": 3600, "trace": 1, **slow, **options}


# --- NFSv4.1 ---


@pytest.mark.parametrize(
    ("protocol", "block", "trunking"),
    [
        ("tcp", 16 * _KIB, "session"),
        ("rdma", 512, "clientid"),  # with the messages
        ("rdma", _MIB, "session"),  # by RDMA, in several calls
    ],
    ids=["tcp-session", "rdma-512", "rdma-1m-session"],
)
def test_two_addresses(protocol: str, block: int, trunking: str, local_fio: FioRunner) -> None:
    size = min(128 * block, 8 * _MIB)
    job = _verified(size, proto=protocol, bs=block, trunking=trunking, spread="roundrobin")
    result = local_fio(pool=_BOTH, timeout=_SECONDS, **job)
    report = done(result)
    assert (report.bytes("write"), report.bytes("read")) == (size, size)
    assert [line.transport for line in result.stats] == [protocol] * 2
    assert len(set(by_path(result.stats).values())) == 1
    assert [line.retransmissions + line.reconnects + line.errors for line in result.stats] == [0, 0]


# --- slots ---


def _done_by_the_server(operation: Nfs4) -> int:
    for line in Path("/proc/net/rpc/nfsd").read_text().splitlines():
        name, _, *counts = line.split()
        if name == "proc4ops":
            return int(counts[operation.value])
    raise AssertionError("the kernel does not count the operations of NFSv4")


def test_slots(local_fio: FioRunner) -> None:
    """One connection has as many calls in flight as the kernel grants a session slots: 160.

    They are counted while no reply comes back: what the server has read and the job has not got.
    """
    before, depth = _done_by_the_server(Nfs4.READ), 256
    # Without a rate: fio would let each I/O end before it waits for the time of the next.
    job = _endless(rw="randread", bs="4k", iodepth=depth, rate_iops=0)
    with local_fio.start(pool=_ONE, **job) as process:

        def outstanding() -> int:
            return _done_by_the_server(Nfs4.READ) - before - traces(process)

        eventually(lambda: traces(process) > 8, _SECONDS)
        with _no_replies("meta length > 120"):
            eventually(lambda: outstanding() == 160, _SECONDS)
        done_before = traces(process)
        eventually(lambda: traces(process) > done_before + depth, _SECONDS)
        process.signal(signal.SIGINT)
        result = local_fio.finish(process, _SECONDS)
    stopped_well(result)
    assert any("grants a session 160 slots" in line for line in said(result))


# --- restarts ---


@pytest.mark.usefixtures("server_mended")
@pytest.mark.parametrize(
    ("protocol", "reclaims"), [("tcp", True), ("rdma", False)], ids=["tcp-grace", "rdma-no-grace"]
)
def test_a_server_that_restarts(protocol: str, reclaims: bool, local_fio: FioRunner) -> None:
    """Nothing is lost: files are opened again, and what was not committed is written again.

    In the grace period opens are reclaimed and writes go on; whoever opens a file anew, as fio
    does before it verifies, waits for its end. After it, all are opened anew.
    """
    blocks = 64
    # A single process, which stands still as a whole; names have 5 s for an answer.
    slow: dict[str, Option] = {"rate_iops": 40, "thread": 1, "timeo": 20, "retrans": 1}
    words = _endless(proto=protocol, hold_writes="64m", spread="roundrobin", verify="crc32c")
    with local_fio.start(pool=_BOTH, **{**words, **slow}) as process:
        with held_amid_writes(process, blocks, _SECONDS):
            before = verified(process)
            kernel_nfsd.stop()
            kernel_nfsd.start()
            if not reclaims:
                kernel_nfsd.end_grace()
        if reclaims:
            eventually(lambda: written_in_pass(process) >= blocks, _SECONDS)
            tried = _done_by_the_server(Nfs4.OPEN)
            eventually(lambda: _done_by_the_server(Nfs4.OPEN) > tried + 6, _SECONDS)
            assert verified(process) == before
            kernel_nfsd.end_grace()
        eventually(lambda: verified(process) >= before + blocks, _SECONDS)
        eventually(lambda: amid_writes(process, blocks), _SECONDS)
        process.signal(signal.SIGINT)
        result = local_fio.finish(process, _SECONDS)
    stopped_well(result)
    assert all(line.reconnects for line in result.stats)
    assert sum(line.rewritten_bytes for line in result.stats) > 0


# --- Kerberos and TLS ---

_FILE = Path(EXPORT) / "f"
_URL = {
    version: f"nfs://{ADDRESSES[0]}{EXPORT if version == '3' else '/'}" for version in ("3", "4.1")
}
_SECURED: dict[str, Option] = {
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
        paths = [f"{_URL[version]}?version={version}&{words}" for words in securities]
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
        return self._fio.start(pool=pool, env=self._found, **{**_SECURED, **options})


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
def test_a_secured_server_that_restarts(version: str, security: str, user: User) -> None:
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
