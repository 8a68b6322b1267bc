# SPDX-License-Identifier: GPL-2.0-only
"""RPC-with-TLS (RFC 9289): calls go over it or not at all, and whatever refuses it has a name."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import FioRunner, call_harness, or_skip, started_lab
from engine_helpers import (
    all_go_on,
    done,
    eventually,
    refused,
    said,
    stopped_well,
    traces,
)
from scripted_jobs import KIB, MIB, SECONDS, Client, numbered, preloaded, start_fio

from nfsmulti import paths
from nfsmulti.fiorun import Engine, Fio, FioResult, Option
from nfsmulti.lab import Lab, LabConfig, commands
from nfsmulti.lab.certificates import NAME, Certificates, Pair
from nfsmulti.lab.guest import ADDRESSES, EXPORT, inside
from nfsmulti.processes import run
from servers.scripted import Answer, Nfs, Nfs4, ScriptedServer, on
from servers.tls_proxy import (
    FORGED,
    Fault,
    TlsProxy,
    forge,
    send_long_ticket,
    send_ticket,
    update_keys,
)

# Of any size, so that records of TLS and of RPC end nowhere together.
_VERIFIED: dict[str, Option] = {
    "rw": "randwrite", "bsrange": "512-300k", "size": "6m", "iodepth": 16, "verify": "crc32c",
    "nconnect": 4, "spread": "roundrobin", "verify_state_save": 0, "filename": "f",
}  # fmt: skip
_ALERT = "the server ended TLS by the alert"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


# linux/tls.h, and bytes that stand for keys and the like of either cipher
_SOL_TLS, _TCP_ULP, _TLS_RX, _TLS_1_3 = 282, 31, 2, 0x304
_AES_GCM_256, _CHACHA20_POLY1305, _NO_KEYS = 52, 54, bytes(52)


@pytest.fixture(scope="module", autouse=True)
def _modules() -> None:
    """Have the guest's kernel load them: emulated, it needs longer than a connection may take."""
    if not inside():
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        for cipher in (_AES_GCM_256, _CHACHA20_POLY1305):
            with socket.create_connection(server.getsockname()) as client:
                client.setsockopt(socket.IPPROTO_TCP, _TCP_ULP, b"tls\0")
                info = struct.pack("=HH", _TLS_1_3, cipher)
                client.setsockopt(_SOL_TLS, _TLS_RX, info + _NO_KEYS)


@pytest.fixture
def proxy(server: ScriptedServer, made: Certificates) -> Iterator[TlsProxy]:
    """Yield one before the scripted server."""
    to = ("127.0.0.1", server.nfs_port)
    with TlsProxy(to, made.server.certificate, made.server.key) as running:
        yield running


@pytest.fixture(scope="module")
def ganesha() -> Iterator[Lab]:
    with started_lab(LabConfig(addresses=1, local=True)) as running:
        yield running


def pool(
    proxy: TlsProxy, host: str = "127.0.0.1", export: str = "/export", **arguments: object
) -> str:
    """Return a path to the export behind a proxy, by NFSv4.1 and TLS unless it says otherwise."""
    words = {"version": "4.1", "xprtsec": "tls", **arguments}
    query = "&".join(f"{key}={value}" for key, value in words.items())
    return f"nfs://{host}:{proxy.port}{export}?{query}"


def trusted(made: Certificates, ktls: Option = 0) -> dict[str, Option]:
    """By GnuTLS unless it says otherwise, whatever this machine's kernel has."""
    return {"tls_ca": str(made.authority.certificate), "ktls": ktls}


def own(pair: Pair) -> dict[str, Option]:
    return {"tls_cert": str(pair.certificate), "tls_key": str(pair.key)}


# --- what works ---


@pytest.mark.sanitized
@pytest.mark.parametrize(("version", "xprtsec"), [("3", "tls"), ("4.1", "tls"), ("4.1", "mtls")])
def test_data_is_what_was_written(
    ganesha: Lab,
    made: Certificates,
    engine: Engine,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    version: str,
    xprtsec: str,
) -> None:
    """A real server's; four connections and the one for names each shake hands."""
    endpoint = ganesha.server(0).endpoint
    clients = made.authority.certificate if xprtsec == "mtls" else None
    with TlsProxy(
        (endpoint.address, endpoint.nfs_port), made.server.certificate, made.server.key, clients
    ) as proxy:
        path = pool(proxy, version=version, xprtsec=xprtsec, mountport=endpoint.mount_port)
        fio = FioRunner(Fio(engine), path, tmp_path, request.node)
        logs: dict[str, Option] = {"trace": 1, "write_lat_log": str(tmp_path / "log")}
        result = fio(**_VERIFIED, **trusted(made), **own(made.client), **logs)
        eventually(lambda: proxy.farewells == len(proxy.handshakes))
    done(result)
    words = {"3": "NFSv3's MOUNT goes in clear", "4.1": "mountport= is ignored"}[version]
    assert words in result.messages
    assert {line.xprtsec for line in result.stats} == {xprtsec}
    assert {(line.cipher, line.handshakes) for line in result.stats} == {("AES-256-GCM", 1)}
    assert all(line.handshake_mean_us > 0 for line in result.stats)
    words = "TLS: 4 connections with AES-256-GCM, 0 by kTLS, 4 handshakes (msec): avg="
    assert words in result.messages
    assert {one.protocol for one in proxy.handshakes} == {"sunrpc"}
    names = {one.subject for one in proxy.handshakes}
    assert names == {((("commonName", "client"),),) if clients else None}
    assert proxy.clear == b""
    _, *key, _ = made.client.key.read_bytes().splitlines()
    left = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(left) >= 5  # output, statistics, trace, logs
    assert not any(line in text for line in key for text in left)


def test_a_server_that_restarts(
    ganesha: Lab,
    made: Certificates,
    engine: Engine,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """The next connections go over TLS as well, and nothing is lost."""
    server = ganesha.server(0)
    to = (server.endpoint.address, server.endpoint.nfs_port)
    job = {**_VERIFIED, "bsrange": "4k-64k", "rate": ",8m", "size": "16m", "hold_writes": "64m"}
    with TlsProxy(to, made.server.certificate, made.server.key) as proxy:
        fio = FioRunner(Fio(engine), pool(proxy), tmp_path, request.node)
        with fio.start(**job, trace=1, **trusted(made)) as process:
            eventually(lambda: traces(process) > 40)
            server.kill()
            server.start()
            result = fio.finish(process)
    done(result)
    assert all(line.reconnects >= 1 and line.handshakes >= 2 for line in result.stats)
    assert proxy.clear == b""


@pytest.mark.parametrize(("xprtsec", "version"), [("tls", "3"), ("mtls", "4.1")])
def test_a_labs_printed_line_works(engine: Engine, xprtsec: str, version: str) -> None:
    """It has the lab's certificates; its job is another here, which is over sooner."""
    name = f"tls{os.getpid()}"
    words = ["--id", name, "--addresses", "1", "--local", "--xprtsec", xprtsec]
    with or_skip():
        started = call_harness("lab", "start", *words).stdout
    try:
        (line,) = re.findall(r"^  try it +(.*) \S+\.fio$", started, re.MULTILINE)
        job = "--name=t --rw=write --bs=64k --size=1m --verify=crc32c --filename=f --nfsvers="
        script = ["sh", "-c", f"{line} {job}{version}"]
        ran = run(script, timeout=SECONDS, cwd=paths.ROOT, env=engine.env).check()
        assert re.search(r"TLS: 1 connection with .* 1 handshake \(", ran.stdout + ran.stderr)
    finally:
        commands.stop(name, every=False)


def test_nothing_lies_unseen(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates
) -> None:
    """A receive brings a whole reply of this size, of which the engine wants the head first."""
    server.create("f", bytes(2 * MIB))
    job: dict[str, Option] = {
        "rw": "read", "bs": "16k", "size": "2m", "iodepth": 1, "timeo": 100,
        "nconnect": 2, "spread": "roundrobin",
    }  # fmt: skip
    result = client(server, pool=pool(proxy), **job, **trusted(made))
    done(result)
    assert said(result) == []


def test_a_server_may_be_silent_on_its_protocol(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates
) -> None:
    """Tlshd, which serves the kernel's, has no ALPN."""
    proxy.protocols = ("h2",)
    done(client(server, pool=pool(proxy), **trusted(made)))
    assert {one.protocol for one in proxy.handshakes} == {None}


def test_one_file_may_have_certificate_and_key(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates, tmp_path: Path
) -> None:
    proxy.clients, both = made.authority.certificate, tmp_path / "both.pem"
    both.write_text(made.client.certificate.read_text() + made.client.key.read_text())
    done(client(server, pool=pool(proxy, xprtsec="mtls", tls_cert=both), **trusted(made)))


def test_a_paths_own_arguments(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates
) -> None:
    """One path in clear and one by TLS, whose server has a name of its own."""
    secure = pool(proxy, host="localhost", tls_ca=made.authority.certificate, tls_name=NAME)
    clear = server.url4(xprtsec="none")
    result = client(server, pool=f"{clear},{secure}", spread="roundrobin", xprtsec="mtls")
    done(result)
    assert [line.xprtsec for line in result.stats] == ["none", "tls"]


def test_a_python_whose_openssl_is_no_file_runs_the_labs_proxy() -> None:
    argv = [sys.executable, "-c", "import _ssl; del _ssl.__file__; import servers.tls_proxy"]
    run(argv, timeout=60, env={"PYTHONPATH": str(paths.PYTHON_TESTS)}).check()


def test_the_doctor_tells_of_it(ganesha: Lab, made: Certificates) -> None:
    endpoint = ganesha.server(0).endpoint
    to = (endpoint.address, endpoint.nfs_port)
    with TlsProxy(to, made.server.certificate, made.server.key, takes_clear=True) as proxy:
        pools = {
            "takes sys; no TLS": ganesha.path(0, version="4.1"),
            "takes sys, and TLS (xprtsec=tls)": pool(proxy, xprtsec="none"),
            "takes sys, over TLS (xprtsec=tls)": pool(proxy, tls_ca=made.authority.certificate),
        }
        for words, path in pools.items():
            diagnosis = call_harness("doctor", "--json", f"--pool={path}")
            assert words in diagnosis.stdout, diagnosis.stdout
            assert ("(kTLS)" in diagnosis.stdout) == ("over TLS" in words)
        proxy.fault = Fault.CLOSED  # it may be starting
        diagnosis = call_harness("doctor", "--json", f"--pool={pool(proxy, xprtsec='none')}")
        assert "no answer to the probe for TLS (it closes the connection)" in diagnosis.stdout


# --- what goes wrong later ---


def test_a_cut_connection_is_replaced(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates
) -> None:
    """Without close_notify it is lost, and what was not answered goes out again."""
    server.hooks.append(on(Nfs4.WRITE, Answer(do=lambda _: proxy.cut()), nth=20))
    result = client(server, pool=pool(proxy), **_VERIFIED, **trusted(made))
    done(result)
    assert [line.reconnects for line in result.stats] == [1] * 4
    assert [line.handshakes for line in result.stats] == [2] * 4


def test_nothing_goes_in_clear_where_tls_has_gone(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates
) -> None:
    """A hard job waits until the server offers it again."""

    def turn_off(_: ScriptedServer) -> None:
        proxy.fault = Fault.DENIED
        proxy.cut()

    server.hooks.append(on(Nfs4.WRITE, Answer(do=turn_off), nth=5))
    with client.start(server, pool=pool(proxy), **trusted(made)) as process:
        server.wait_for(lambda: proxy.fault is Fault.DENIED)
        before = proxy.probes
        while proxy.probes < before + 3:
            assert process.running
        proxy.fault = None
        result = client.finish(process)
    done(result)
    lost, again, well = said(result)
    assert "connection lost" in lost
    assert "cannot connect again: the server offers no TLS" in again
    assert well.endswith("server OK")
    assert proxy.clear == b""


# Each connection's keys have served for all but so many records.
_WORN = """\
#include <dlfcn.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

enum { LEFT = 60 };
typedef unsigned char *bytes;
typedef int (*function)(void *, unsigned int, void *, void *, void *, bytes);

int gnutls_record_get_state(void *of, unsigned int in, void *mac, void *iv, void *key, bytes number)
{
	static function own;
	uint64_t count;
	int error;

	if (!own)
		own = (function)dlsym(dlopen("libgnutls.so.30", RTLD_NOW), "gnutls_record_get_state");
	error = own(of, in, mac, iv, key, number);
	memcpy(&count, number, sizeof(count));
	count = htobe64(be64toh(count) + (1 << 24) - LEFT);
	memcpy(number, &count, sizeof(count));
	return error;
}
"""


# The kernel is asked of their number, the last eight bytes of what it tells, now and then.
_WORN_IN_KERNEL = """\
#include <dlfcn.h>
#include <endian.h>
#include <linux/tls.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum { LEFT = 10 };
typedef int function(int, int, int, void *, socklen_t *);

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	static function *own;
	uint64_t count;
	uint8_t *at;
	int error;

	if (!own)
		own = (function *)dlsym(RTLD_NEXT, "getsockopt");
	error = own(fd, level, name, value, length);
	if (error || level != SOL_TLS)
		return error;
	at = (uint8_t *)value + *length - sizeof(count);
	memcpy(&count, at, sizeof(count));
	count = htobe64(be64toh(count) + (1 << 24) - LEFT);
	memcpy(at, &count, sizeof(count));
	return 0;
}
"""


@pytest.mark.parametrize(
    ("ktls", "source", "bs"),
    [
        (0, _WORN, "4k"),
        pytest.param(1, _WORN_IN_KERNEL, "64k", marks=pytest.mark.kernel_lab),
    ],
    ids=["gnutls", "ktls"],
)
def test_keys_are_not_used_for_too_long(
    engine: Engine,
    server: ScriptedServer,
    proxy: TlsProxy,
    made: Certificates,
    tmp_path: Path,
    ktls: int,
    source: str,
    bs: str,
) -> None:
    """Before the cipher's limit another connection has others."""
    worn = preloaded(engine, tmp_path, source)
    options = {**trusted(made, ktls), "iodepth": 4, "bs": bs, "size": "1m", "verify": "crc32c"}
    with start_fio(worn, tmp_path / "fio", pool(proxy), (), options) as process:
        result = process.result(SECONDS)
    done(result)
    (line,) = result.stats
    assert line.reconnects >= 4
    assert line.retransmissions == 0  # what was asked before is answered before
    assert "TLS key limit reached (2^24 records): reconnecting" in said(result)[0]


_SLOW_SOCKET = """
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
#include <time.h>

typedef ssize_t function(int, const void *, size_t, int);

/* Of a batch 20000 bytes, and 20 ms later 20000 more: time for a server to answer the first. */
ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
	static function *own;
	static long last;
	struct timespec time;
	long now;

	if (!own)
		own = (function *)dlsym(RTLD_NEXT, "send");
	if (length <= 20000)
		return own(fd, bytes, length, flags);
	clock_gettime(CLOCK_MONOTONIC, &time);
	now = time.tv_sec * 1000 + time.tv_nsec / 1000000;
	errno = EAGAIN;
	if (now < last + 20)
		return -1;
	last = now;
	return own(fd, bytes, 20000, flags);
}
"""


def test_a_reply_before_the_rest_of_its_batch_has_left(
    engine: Engine, server: ScriptedServer, proxy: TlsProxy, made: Certificates, tmp_path: Path
) -> None:
    """Calls whose ciphertext is in the socket may be answered, whatever is left of the others."""
    slow = preloaded(engine, tmp_path, _SLOW_SOCKET)
    job: dict[str, Option] = {"rw": "write", "bs": "4k", "iodepth": 64, "size": "1m"}
    options = {**trusted(made), **job, "nconnect": 2, "spread": "roundrobin"}
    with start_fio(slow, tmp_path / "fio", pool(proxy), (), options) as process:
        result = process.result(SECONDS)
    done(result)
    assert [line.reconnects for line in result.stats] == [0, 0]


# --- what is no data ---


@pytest.mark.parametrize(
    ("ktls", "reconnects", "words"),
    [
        (0, 1, None),
        pytest.param(1, 3, "use ktls=0", marks=pytest.mark.kernel_lab),
        pytest.param("auto", 2, "GnuTLS encrypts from now on", marks=pytest.mark.kernel_lab),
    ],
    ids=["gnutls", "ktls", "auto"],
)
def test_records_that_are_no_data(
    client: Client,
    server: ScriptedServer,
    proxy: TlsProxy,
    made: Certificates,
    ktls: Option,
    reconnects: int,
    words: str | None,
) -> None:
    """Tickets are skipped. Other keys GnuTLS goes on with; kTLS connects anew, as for a forgery.

    By default it does so once, and then by GnuTLS.
    """
    server.create("f", numbered(16 * MIB, 4 * KIB))
    job: dict[str, Option] = {
        "rw": "read", "bs": "4k", "size": "16m", "iodepth": 4, "rate_iops": 100, "trace": 1,
        "verify": "pattern", "verify_pattern": "%o", "time_based": 1, "runtime": 3600,
        "nconnect": 2, "spread": "roundrobin",
    }  # fmt: skip
    with client.start(server, pool=pool(proxy), **job, **trusted(made, ktls)) as process:
        all_go_on(process, connections=2, depth=4)
        for say in (update_keys, send_ticket, send_long_ticket, update_keys, forge):
            proxy.say = say
            all_go_on(process, connections=2, depth=4)
        process.signal(signal.SIGINT)
        result = client.finish(process)
    stopped_well(result)
    assert [line.reconnects for line in result.stats] == [reconnects] * 2
    assert {line.ktls for line in result.stats} == {int(ktls == 1)}
    assert "(Decryption has failed.): reconnecting" in result.messages
    rekeyed = "the server changed its TLS keys (KeyUpdate), which kTLS cannot follow: "
    assert (rekeyed in result.messages) == (words is not None)
    assert f"{rekeyed}{words or ''}" in result.messages or not words


# --- by the kernel ---


@pytest.mark.kernel_lab
@pytest.mark.parametrize(
    ("version", "cipher"),
    [("3", "AES-128-GCM"), ("4.1", "AES-256-GCM"), ("4.1", "CHACHA20-POLY1305")],
)
def test_the_kernel_encrypts(
    made: Certificates, guest_fio: FioRunner, tmp_path: Path, version: str, cipher: str
) -> None:
    """What was written is read again from the guest's own server, with each cipher."""
    others = {"AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"} - {cipher}
    priorities = tmp_path / "gnutls"
    lines = ["[overrides]", *(f"tls-disabled-cipher = {other.lower()}" for other in others)]
    priorities.write_text("\n".join(lines) + "\n")
    env = {"GNUTLS_SYSTEM_PRIORITY_FILE": str(priorities)}
    job = {**_VERIFIED, "size": "2m", **trusted(made, "auto")}
    with TlsProxy((ADDRESSES[0], 2049), made.server.certificate, made.server.key) as proxy:
        export = EXPORT if version == "3" else "/"
        path = pool(proxy, export=export, version=version)
        result = guest_fio(pool=path, timeout=SECONDS, env=env, **job)
        (Path(EXPORT) / "f").unlink(missing_ok=True)
        eventually(lambda: proxy.farewells == len(proxy.handshakes))
    done(result)
    assert {(line.cipher, line.ktls, line.reconnects) for line in result.stats} == {(cipher, 1, 0)}
    assert f"TLS: 4 connections with {cipher}, 4 by kTLS, 4 handshakes" in result.messages
    assert "crypto: " not in result.messages  # it is within the system calls
    assert proxy.clear == b""


@pytest.mark.kernel_lab
def test_the_kernel_brings_alerts(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates
) -> None:
    proxy.clients = made.authority.certificate
    words = f'{_ALERT} "Certificate is required": it wants a client\'s certificate'
    refused(client(server, pool=pool(proxy), **trusted(made, 1)), words)


_KERNEL = """\
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

typedef int function(int, int, int, const void *, socklen_t);

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);

	if (level == IPPROTO_TCP && name == TCP_ULP && HAS_TLS)
		return getpeername(fd, (struct sockaddr *)&peer, &size);
	if ((level == IPPROTO_TCP && name == TCP_ULP) || level == SOL_TLS) {
		errno = level == SOL_TLS ? EINVAL : ENOENT;
		return -1;
	}
	return ((function *)dlsym(RTLD_NEXT, "setsockopt"))(fd, level, name, value, length);
}
"""


@pytest.fixture
def on_kernel(engine: Engine, tmp_path: Path) -> Callable[[str], Client]:
    """Return what runs fio on a kernel's functions in C, which stand before the real one's."""

    def client_on(source: str) -> Client:
        kernel = preloaded(engine, tmp_path, source)
        return Client(kernel, tmp_path, ScriptedServer.pool)

    return client_on


@pytest.mark.parametrize(
    ("has_tls", "words"),
    [
        (0, "ktls=1: this kernel has no TLS: modprobe tls, or leave ktls= out"),
        (1, "the kernel does not take the keys of AES-256-GCM: use ktls=0"),
    ],
)
def test_where_the_kernel_cannot(
    on_kernel: Callable[[str], Client],
    server: ScriptedServer,
    proxy: TlsProxy,
    made: Certificates,
    has_tls: int,
    words: str,
) -> None:
    """GnuTLS encrypts, unless the kernel is asked to. Such a kernel stands before the real one."""
    client = on_kernel(f"#define HAS_TLS {has_tls}\n{_KERNEL}")
    result = client(server, pool=pool(proxy), **trusted(made, "auto"))
    done(result)
    assert [line.ktls for line in result.stats] == [0]
    refused(client(server, pool=pool(proxy), **trusted(made, 1)), words)


# GnuTLS, where the record after the handshake is close_notify.
_CLOSE_NOTIFY = """
ssize_t gnutls_record_recv(void *session, void *bytes, size_t length)
{
	return 0;
}
"""
# It takes the probe and ClientHello.
_FULL_SOCKET = """
ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
	static int sent;

	if (sent++ < 2)
		return ((ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send"))(
			fd, bytes, length, flags);
	errno = EAGAIN;
	return -1;
}
"""


@pytest.mark.parametrize(
    ("faulty", "before", "words"),
    [
        ({"early": FORGED}, "", "Decryption has failed."),
        (
            {"early": FORGED[:3]},
            "",
            "the server sends data along with its handshake, which the kernel would miss: use",
        ),
        (
            {"early": FORGED[:3]},
            _CLOSE_NOTIFY,
            "the server finished the TLS handshake, but answers no call",
        ),
        (
            {"short_records": True},
            "",
            "the server takes shorter TLS records than the kernel makes: use ktls=0",
        ),
        ({}, _FULL_SOCKET, "the end of the TLS handshake has not left yet: use ktls=0"),
    ],
    ids=["record", "part", "end", "limit", "unsent"],
)
def test_a_server_that_the_kernel_is_not_for(
    on_kernel: Callable[[str], Client],
    server: ScriptedServer,
    proxy: TlsProxy,
    made: Certificates,
    faulty: dict[str, object],
    before: str,
    words: str,
) -> None:
    """It sends a record too early, of which GnuTLS may say more, wants them shorter, or is busy."""
    client = on_kernel(f"#define HAS_TLS 1\n{_KERNEL}{before}")
    for name, value in faulty.items():
        setattr(proxy, name, value)
    refused(client(server, pool=pool(proxy), **trusted(made, 1)), words)


# It takes the first keys; the server sends a ticket in two records, and changes the keys at once.
_REKEYED = """\
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

enum { SOL_TLS_ = 282, GET_RECORD_TYPE = 2, HANDSHAKE = 22, TICKET = 4, KEY_UPDATE = 24 };
static int rekeyed = -1, brought;

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	typedef int function(int, int, int, const void *, socklen_t);
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);

	if (level == IPPROTO_TCP && name == TCP_ULP)
		return getpeername(fd, (struct sockaddr *)&peer, &size);
	if (level != SOL_TLS_)
		return ((function *)dlsym(RTLD_NEXT, "setsockopt"))(fd, level, name, value, length);
	rekeyed = fd;
	brought = 0;
	return 0;
}

ssize_t recv(int fd, void *bytes, size_t length, int flags)
{
	typedef ssize_t function(int, void *, size_t, int);

	if (fd != rekeyed)
		return ((function *)dlsym(RTLD_NEXT, "recv"))(fd, bytes, length, flags);
	errno = EIO;
	return -1;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	typedef ssize_t function(int, struct msghdr *, int);
	static const char parts[][6] = {{TICKET, 0, 0, 7, 1, 2}, {3, 4, 5, 6, 7, KEY_UPDATE}};
	struct cmsghdr *beside = CMSG_FIRSTHDR(message);

	if (fd != rekeyed)
		return ((function *)dlsym(RTLD_NEXT, "recvmsg"))(fd, message, flags);
	*beside = (struct cmsghdr){CMSG_LEN(1), SOL_TLS_, GET_RECORD_TYPE};
	*CMSG_DATA(beside) = HANDSHAKE;
	memcpy(message->msg_iov->iov_base, parts[brought], sizeof(*parts));
	if (++brought == 2)
		rekeyed = -1;
	return sizeof(*parts);
}
"""


@pytest.mark.parametrize(("ktls", "words"), [("auto", None), (1, "use ktls=0")])
def test_keys_that_change_before_io(
    on_kernel: Callable[[str], Client],
    server: ScriptedServer,
    proxy: TlsProxy,
    made: Certificates,
    ktls: Option,
    words: str | None,
) -> None:
    """A job that begins goes on by GnuTLS, unless the kernel is asked to encrypt."""
    client = on_kernel(_REKEYED)
    result = client(server, pool=pool(proxy), nconnect=2, **trusted(made, ktls))
    if words:
        refused(result, words)
        return
    done(result)
    assert said(result) == []
    assert {line.ktls for line in result.stats} == {0}


@pytest.mark.kernel_lab
def test_keys_that_change_among_what_comes_before_io(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates
) -> None:
    """The same where the kernel has brought replies already."""

    def update(_: ScriptedServer) -> None:
        proxy.say = update_keys

    server.hooks.append(on(Nfs4.EXCHANGE_ID, Answer(do=update)))
    result = client(server, pool=pool(proxy), **trusted(made, "auto"))
    done(result)
    assert said(result) == []
    lost = server.calls(Nfs4.EXCHANGE_ID)[0].connection
    assert lost not in {call.connection for call in server.calls(Nfs4.CREATE_SESSION)}


# --- what is refused ---


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.DENIED, "the server offers no TLS (it denies the probe): turn TLS on there"),
        (Fault.WITHOUT_WORD, "the server offers no TLS (it answers the probe without STARTTLS)"),
        (Fault.CLOSED, "the server closes the connection at the probe for TLS: is it starting, or"),
        (Fault.SILENT, "no answer to the probe for TLS: does the server offer TLS?"),
        (Fault.OTHER_XID, "no answer to the probe for TLS: does the server offer TLS?"),
        (Fault.FRAGMENT, "no answer to the probe for TLS: does the server offer TLS?"),
        (Fault.TLS_1_2, f'{_ALERT} "Error in protocol version": it does not speak TLS 1.3'),
        (Fault.CUT, "the server did not finish the TLS handshake"),
    ],
)
def test_a_server_without_it_is_refused(
    client: Client,
    server: ScriptedServer,
    proxy: TlsProxy,
    made: Certificates,
    fault: Fault,
    words: str,
) -> None:
    proxy.fault = fault
    line = refused(client(server, pool=pool(proxy), **trusted(made)), words)
    assert f"cannot connect to port {proxy.port}" in line
    assert server.calls() == []
    assert proxy.clear == b""
    assert proxy.probes == (5 if fault is Fault.CUT else 1)


def test_a_server_that_closes_after_the_handshake_is_tried_again(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates
) -> None:
    """As Linux's does where it was slow; one that always closes is told."""
    proxy.closes = {0, 1, 3, 5}  # names come first
    done(client(server, pool=pool(proxy), nconnect=2, **trusted(made)))
    proxy.closes = range(1000)
    words = "the server finished the TLS handshake, but answers no call"
    refused(client(server, pool=pool(proxy), **trusted(made)), words)


@pytest.mark.parametrize("which", ["wrong authority", "wrong name", "wrong address", "expired"])
def test_a_servers_certificate_is_checked(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates, which: str
) -> None:
    """The name is the pool's, or tls_name's."""
    ca, name, words = made.authority, NAME, "is for another name: connect by a name that it has"
    if which == "wrong authority":
        ca, words = made.stranger, "is not trusted: set tls_ca= to the authority that signed it"
    if which == "wrong name":
        name = "other.test"
    if which == "wrong address":
        name = "127.0.0.2"
    if which == "expired":
        proxy.certificate, proxy.key = made.expired.certificate, made.expired.key
        words = "has expired: the server needs a new one"
    path = pool(proxy, tls_name=name, tls_ca=ca.certificate)
    line = refused(client(server, pool=path), f"the server's certificate {words}")
    assert (line.endswith(": it has server.test, 127.0.0.1")) == ("another name" in words)
    assert server.calls() == []


_NAMELESS = "has no DNS name in its subjectAltName (its subject does not count)"
_PURPOSE = "is not for servers (its extendedKeyUsage lacks serverAuth): the server needs a new one"
_OTHER_NAME = "is for another name: connect by a name that it has"
_UNSIGNED = "may not sign (its keyUsage lacks digitalSignature): the server needs a new one"


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("name", "extensions", "words"),
    [
        (NAME, [f"subjectAltName=DNS:{NAME}", "extendedKeyUsage=clientAuth"], _PURPOSE),
        ("127.0.0.1", ["subjectAltName=IP:127.0.0.1", "extendedKeyUsage=clientAuth"], _PURPOSE),
        (NAME, [f"subjectAltName=DNS:{NAME}", "keyUsage=keyEncipherment"], _UNSIGNED),
        (NAME, [], _NAMELESS),
        (NAME, ["subjectAltName=IP:127.0.0.1"], _OTHER_NAME),
        (NAME, [f"subjectAltName=URI:x:{'x' * 300},DNS:other.test"], _NAMELESS),
        (NAME, ["subjectAltName=DNS:other.test"], _OTHER_NAME),
        ("127.0.0.1", [], _OTHER_NAME),
        ("127.0.0.1", ["subjectAltName=DNS:127.0.0.1"], _OTHER_NAME),
        (NAME, [f"subjectAltName=DNS:{NAME}", "extendedKeyUsage=serverAuth,clientAuth"], None),
        (NAME, [f"subjectAltName=email:a@b,DNS:{'x' * 63}.test,DNS:{NAME}"], None),
        ("a.lab.test", ["subjectAltName=DNS:*.lab.test"], None),
    ],
)
def test_a_certificate_is_a_servers_and_has_its_name(
    client: Client,
    server: ScriptedServer,
    proxy: TlsProxy,
    made: Certificates,
    name: str,
    extensions: list[str],
    words: str | None,
) -> None:
    """Its subject, which is the name here, counts for nothing (RFC 9525)."""
    shown = made.other(name, *extensions)
    proxy.certificate, proxy.key = shown.certificate, shown.key
    result = client(server, pool=pool(proxy, tls_name=name), **trusted(made))
    if words is None:
        done(result)
    else:
        refused(result, f"the server's certificate {words}")
        assert server.calls() == []


@pytest.mark.parametrize(
    ("issuer", "words"),
    [
        (["basicConstraints=CA:TRUE"], None),
        (["basicConstraints=CA:FALSE"], "is signed by a certificate that may"),
        (["basicConstraints=CA:TRUE", "keyUsage=digitalSignature"], "is signed by a certificate"),
        (
            ["basicConstraints=CA:TRUE", "nameConstraints=permitted;DNS:a.test"],
            "is signed by a certificate",
        ),
        (["basicConstraints=CA:TRUE", "extendedKeyUsage=clientAuth"], _PURPOSE),
    ],
)
def test_who_has_signed_a_certificate_may_do_so(
    client: Client,
    server: ScriptedServer,
    proxy: TlsProxy,
    made: Certificates,
    tmp_path: Path,
    issuer: list[str],
    words: str | None,
) -> None:
    between = made.other("between", *issuer)
    shown = made.other(NAME, f"subjectAltName=DNS:{NAME}", by=between)
    proxy.certificate, proxy.key = tmp_path / "chain.pem", shown.key
    chain = [one.certificate.read_text() for one in (shown, between)]
    proxy.certificate.write_text("".join(chain))
    result = client(server, pool=pool(proxy, tls_name=NAME), **trusted(made))
    if words is None:
        done(result)
    else:
        refused(result, f"the server's certificate {words}")


def test_a_certificates_names_are_told_in_short(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    """Three of any number, and nothing that a terminal would obey."""
    made = Certificates(tmp_path, ["a\x1b]0;b\x07", 99 * "c", *(f"{n}.test" for n in range(99))])
    to = ("127.0.0.1", server.nfs_port)
    with TlsProxy(to, made.server.certificate, made.server.key) as proxy:
        line = refused(client(server, pool=pool(proxy), **trusted(made)))
    assert line.endswith(f": it has a?]0;b?, {40 * 'c'}, 0.test")


@pytest.mark.parametrize(
    ("which", "version"),
    [("none", "3"), ("foreign", "4.1"), ("expired", "3"), ("of a server", "4.1")],
)
def test_a_client_whom_the_server_refuses(
    client: Client,
    server: ScriptedServer,
    proxy: TlsProxy,
    made: Certificates,
    which: str,
    version: str,
) -> None:
    """It says so after the handshake; the job ends at once all the same."""
    proxy.clients = made.authority.certificate
    xprtsec, shown = "mtls", made.foreign_client
    words = '"CA is unknown": is tls_cert= signed by an authority'
    if which == "none":
        xprtsec, words = "tls", '"Certificate is required": it wants a client\'s certificate'
    if which == "expired":
        shown, words = made.expired, '"Certificate is expired": tls_cert= has expired'
    if which == "of a server":
        shown = made.other("served", "extendedKeyUsage=serverAuth")
        words = '"Certificate is not supported": is tls_cert= one for clients'
    path = server.url(nfsport=proxy.port, version=version, xprtsec=xprtsec)
    result = client(server, pool=path, **trusted(made), **own(shown))
    assert result.status not in (0, None), result.messages
    assert f"{_ALERT} {words}" in said(result)[-1]
    assert len(said(result)) == 2  # the other: of MOUNT, or that there is none
    assert [call for call in server.calls() if isinstance(call.procedure, Nfs | Nfs4)] == []


def test_a_server_that_asks_for_no_certificate_is_none_for_mtls(
    client: Client, server: ScriptedServer, proxy: TlsProxy, made: Certificates
) -> None:
    """Nobody is to measure plain TLS and believe that it was mutual."""
    files = {**trusted(made), **own(made.client)}
    line = refused(client(server, pool=pool(proxy, xprtsec="mtls"), **files))
    assert "the server asks for no client's certificate" in line


def _refused_at_once(client: Client, server: ScriptedServer, path: str, **options: Option) -> str:
    result: FioResult = client(server, pool=path, **options)
    return refused(result)


def test_what_cannot_be_combined(client: Client, server: ScriptedServer, tmp_path: Path) -> None:
    def say(path: str, **options: Option) -> str:
        return _refused_at_once(client, server, path, **options)

    url = "nfs://127.0.0.1/x?version=4.1"
    line = say(url, xprtsec="mtls")
    assert "xprtsec=mtls: the client's certificate is missing: give tls_cert= and tls_key=" in line
    line = say(url, xprtsec="tls", proto="rdma")
    assert "there is no TLS over RDMA (RFC 9289): use proto=tcp, or xprtsec=none" in line
    assert "mean nothing in clear: give xprtsec=" in say(url, ktls=1)
    line = say(url, tls_ca="ca.pem")
    assert "mean nothing in clear: give xprtsec=tls or mtls too, or leave them out" in line
    line = say(f"{url}&tls_name=a&xprtsec=none,nfs://127.0.0.2/x", xprtsec="tls")
    assert (
        ": 127.0.0.1:/x: tls_ca=, tls_cert=, tls_key=, tls_name= and ktls= mean nothing in" in line
    )
    line = say(str(tmp_path), xprtsec="tls")
    assert "a kernel mount's security is its own: mount with -o xprtsec=tls" in line


def test_files_that_will_not_do(
    client: Client, server: ScriptedServer, made: Certificates, tmp_path: Path
) -> None:
    empty, missing = tmp_path / "empty.pem", tmp_path / "missing.pem"
    empty.touch()
    encrypted = tmp_path / "encrypted.key"
    into = ["-in", str(made.client.key), "-out", str(encrypted), "-aes256", "-passout", "pass:x"]
    run(["openssl", "pkey", *into], timeout=60).check()
    url = "nfs://127.0.0.1/x?version=4.1&xprtsec=mtls"
    files = {**trusted(made), **own(made.client)}
    for option, file, words in (
        ("tls_ca", missing, f"tls_ca={missing}: No such file or directory"),
        ("tls_ca", empty, f"tls_ca={empty}: it has no PEM certificate"),
        ("tls_cert", missing, f"tls_cert={missing}: No such file or directory"),
        ("tls_key", tmp_path / "no", f"tls_key={tmp_path / 'no'}: No such file or directory"),
        ("tls_key", made.server.key, "The certificate and the given key do not match"),
        ("tls_key", empty, f"tls_key={empty}: it has no PEM key"),
        ("tls_key", encrypted, f"tls_key={encrypted}: the key is encrypted: write it without"),
    ):
        line = _refused_at_once(client, server, url, **{**files, option: str(file)})
        assert words in line
