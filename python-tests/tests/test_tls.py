# SPDX-License-Identifier: GPL-2.0-only
"""RPC-with-TLS (RFC 9289): calls go over it or not at all, and whatever refuses it has a name.

Of the simulator nothing goes over it: all are real servers and sockets.
"""

import os
import re
import signal
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import FioRunner, call_harness, or_skip, started_lab
from engine_c import CData, ffi
from engine_helpers import all_go_on, done, eventually, refused, said, stopped_well
from scripted_jobs import JOB, KIB, MIB, NEVER, SECONDS, numbered, preloaded

from jobs import Fio
from nfsmulti import paths
from nfsmulti.fiorun import Engine, Option
from nfsmulti.lab import LabConfig, commands
from nfsmulti.lab.ganesha import Endpoint
from nfsmulti.lab.guest import ADDRESSES, EXPORT, inside
from nfsmulti.lab.tls import NAME, Certificates, Pair
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

ffi.cdef("uint64_t worn_records(uint64_t, uint64_t);")

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


@pytest.fixture(scope="module")
def ganesha() -> Iterator[Endpoint]:
    with started_lab(LabConfig(addresses=1, local=True)) as running:
        yield running.server(0).endpoint


def before(at: tuple[str, int], made: Certificates) -> TlsProxy:
    return TlsProxy(at, made.server.certificate, made.server.key)


def path(
    proxy: TlsProxy, host: str = "127.0.0.1", export: str = "/export", **arguments: object
) -> str:
    """Return a path to the export behind a proxy, by NFSv4.1 and TLS unless it says otherwise."""
    words = {"version": "4.1", "xprtsec": "tls", **arguments}
    query = "&".join(f"{key}={value}" for key, value in words.items())
    return f"nfs://{host}:{proxy.port}{export}?{query}"


def trusted(made: Certificates) -> dict[str, Option]:
    """By GnuTLS unless a job says otherwise, whatever this machine's kernel has."""
    return {"tls_ca": str(made.authority.certificate), "ktls": 0}


def own(pair: Pair) -> dict[str, Option]:
    return {"tls_cert": str(pair.certificate), "tls_key": str(pair.key)}


@dataclass
class Tls:
    """A scripted server, and fio behind a proxy with certificates that it trusts."""

    fio: FioRunner
    server: ScriptedServer
    proxy: TlsProxy
    made: Certificates

    def path(self, **arguments: object) -> str:
        return path(self.proxy, **arguments)  # type: ignore[arg-type]

    def shows(self, pair: Pair) -> None:
        self.proxy.certificate, self.proxy.key = pair.certificate, pair.key

    def is_cut(self) -> None:
        """End all connections, without close_notify, and wait until the server is tried again."""
        probes = self.proxy.probes
        self.server.reset_connections()
        eventually(lambda: self.proxy.probes > probes + 1)


@pytest.fixture
def tls(
    engine: Engine, tmp_path: Path, server: ScriptedServer, made: Certificates
) -> Iterator[Tls]:
    with before(("127.0.0.1", server.nfs_port), made) as proxy:
        common = {**JOB, "filename": "f", **trusted(made)}
        fio = FioRunner(Fio(engine), path(proxy), tmp_path / "runs", common)
        yield Tls(fio, server, proxy, made)


Kernel = Callable[[str], Mapping[str, str]]


@pytest.fixture
def kernel(engine: Engine, tmp_path: Path) -> Kernel:
    """Return what makes fio's environment with functions in C that stand before the kernel's."""
    return lambda source: preloaded(engine, tmp_path, source).env


# --- what works ---


@pytest.mark.sanitized
@pytest.mark.parametrize(("version", "xprtsec"), [("3", "tls"), ("4.1", "mtls")])
def test_data_is_what_was_written(
    ganesha: Endpoint,
    made: Certificates,
    local_fio: FioRunner,
    tmp_path: Path,
    version: str,
    xprtsec: str,
) -> None:
    """A real server's; four connections and the one for names each shake hands."""
    mutual = xprtsec == "mtls"
    with before((ganesha.address, ganesha.nfs_port), made) as proxy:
        proxy.clients = made.authority.certificate if mutual else None
        pool = path(proxy, version=version, xprtsec=xprtsec, mountport=ganesha.mount_port)
        logs: dict[str, Option] = {"trace": 1, "write_lat_log": str(tmp_path / "log")}
        job = {**_VERIFIED, **trusted(made), **own(made.client), **logs}
        result = local_fio(pool=pool, **job)
        eventually(lambda: proxy.farewells == len(proxy.handshakes))
    done(result)
    words = {"3": "NFSv3's MOUNT goes in clear", "4.1": "mountport= is ignored"}[version]
    assert words in result.messages
    assert {(line.xprtsec, line.cipher, line.handshakes) for line in result.stats} == {
        (xprtsec, "AES-256-GCM", 1)
    }
    assert all(line.handshake_mean_us > 0 for line in result.stats)
    words = "TLS: 4 connections with AES-256-GCM, 0 by kTLS, 4 handshakes (msec): avg="
    assert words in result.messages
    (cpu,) = re.findall(r"crypto: \d+ % of the job's CPU, .* s of (.*) s", result.messages)
    assert float(cpu) > 0
    assert {one.protocol for one in proxy.handshakes} == {"sunrpc"}
    names = {one.subject for one in proxy.handshakes}
    assert names == {((("commonName", "client"),),) if mutual else None}
    assert proxy.clear == b""
    _, *key, _ = made.client.key.read_bytes().splitlines()
    left = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(left) >= 5  # output, statistics, trace, logs
    assert not any(line in text for line in key for text in left)


def test_a_labs_printed_line_works(engine: Engine) -> None:
    """It has the lab's certificates; its job is another here, which is over sooner."""
    name = f"tls{os.getpid()}"
    words = ["--id", name, "--addresses", "1", "--local", "--xprtsec", "mtls"]
    with or_skip():
        started = call_harness("lab", "start", *words).stdout
    try:
        (line,) = re.findall(r"^  try it +(.*) \S+\.fio$", started, re.MULTILINE)
        job = "--name=t --rw=write --bs=64k --size=1m --verify=crc32c --filename=f"
        job += " --verify_state_save=0"
        script = ["sh", "-c", f"{line} {job}"]
        ran = run(script, timeout=SECONDS, cwd=paths.ROOT, env=engine.env).check()
        assert re.search(r"TLS: 1 connection with .* 1 handshake \(", ran.stdout + ran.stderr)
    finally:
        commands.stop(name, every=False)


def test_nothing_lies_unseen(tls: Tls) -> None:
    """A receive brings a whole reply of this size, of which the engine wants the head first."""
    tls.server.create("f", bytes(2 * MIB))
    job: dict[str, Option] = {"rw": "read", "bs": "16k", "size": "2m", "iodepth": 1, "timeo": 100}
    result = tls.fio.well(**job, nconnect=2, spread="roundrobin")
    assert said(result) == []


def test_a_paths_own_arguments(tls: Tls, tmp_path: Path) -> None:
    """One path in clear, and one by TLS, whose server has a name of its own.

    One file may have certificate and key. The server is silent on its protocol, as tlshd is, which
    serves the kernel's.
    """
    made, both = tls.made, tmp_path / "both.pem"
    both.write_text(made.client.certificate.read_text() + made.client.key.read_text())
    tls.proxy.clients, tls.proxy.protocols = made.authority.certificate, ("h2",)
    ca = made.authority.certificate
    own_words = tls.path(host="localhost", xprtsec="mtls", tls_ca=ca, tls_name=NAME, tls_cert=both)
    pool = f"{tls.server.url(version=4, xprtsec='none')},{own_words}"
    result = tls.fio.well(pool=pool, spread="roundrobin", xprtsec="tls", tls_ca=None)
    assert [line.xprtsec for line in result.stats] == ["none", "mtls"]
    assert {one.protocol for one in tls.proxy.handshakes} == {None}


def test_the_doctor_tells_of_it(ganesha: Endpoint, made: Certificates) -> None:
    with before((ganesha.address, ganesha.nfs_port), made) as proxy:
        proxy.takes_clear = True
        pools = {
            "takes sys; TLS (xprtsec=tls) does not work: ": path(proxy, xprtsec="none"),
            "takes sys, over TLS (xprtsec=tls)": path(proxy, tls_ca=made.authority.certificate),
        }
        for words, pool in pools.items():
            diagnosis = call_harness("doctor", "--json", f"--pool={pool}")
            assert words in diagnosis.stdout, diagnosis.stdout
        proxy.fault = Fault.CLOSED  # it may be starting
        diagnosis = call_harness("doctor", "--json", f"--pool={path(proxy, xprtsec='none')}")
        assert "closes the connection at the probe for TLS" in diagnosis.stdout


# --- what goes wrong later ---


# A socket takes and gives bytes in parts, and is full for a while after each that it has taken.
_PARTS = """\
ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
	static _Atomic int64_t full_until;
	struct timespec time;
	int64_t now;

	clock_gettime(CLOCK_MONOTONIC, &time);
	now = time.tv_sec * 1000000000 + time.tv_nsec;
	if (now < full_until) {
		errno = EAGAIN;
		return -1;
	}
	full_until = now + 5000000;
	return REAL(send)(fd, bytes, length > 5000 ? 5000 : length, flags);
}

ssize_t recv(int fd, void *bytes, size_t length, int flags)
{
	return REAL(recv)(fd, bytes, length > 700 ? 700 : length, flags);
}
"""


def test_what_a_socket_takes_and_gives_in_parts(tls: Tls, kernel: Kernel) -> None:
    """Calls whose ciphertext has left may be answered, whatever is left of the others.

    Clients lend each other buffers, unless there are parts in them.
    """
    job: dict[str, Option] = {"size": "1m", "iodepth": 64, "verify": "crc32c"}
    for connections in ({"nconnect": 1}, {"nclients": 8}):
        result = tls.fio.well(env=kernel(_PARTS), **job, **connections)
        assert {(line.reconnects, line.retransmissions) for line in result.stats} == {(0, 0)}


def test_a_server_whose_tls_fails_for_a_while_is_come_back_to(tls: Tls) -> None:
    """No call goes in clear meanwhile, nor to a server whose certificate is wrong."""
    tls.server.create("f", bytes(MIB))
    job: dict[str, Option] = {
        "rw": "read", "size": "1m", "iodepth": 4, "rate_iops": 500, "trace": 1, "time_based": 1,
        "runtime": 3600, "nconnect": 2, "spread": "roundrobin",
    }  # fmt: skip
    faults = (Fault.DENIED, Fault.WITHOUT_WORD, Fault.CLOSED, Fault.CUT, Fault.TLS_1_2, None)
    with tls.fio.start(**job) as process:
        for fault in faults:
            all_go_on(process, connections=2, depth=4)
            tls.proxy.fault = fault
            if not fault:
                tls.shows(tls.made.expired)
            handshakes = len(tls.proxy.handshakes)
            tls.is_cut()
            assert len(tls.proxy.handshakes) == handshakes
            tls.proxy.fault = None
            tls.shows(tls.made.server)
        all_go_on(process, connections=2, depth=4)
        tls.proxy.say = ssl.SSLSocket.unwrap
        all_go_on(process, connections=2, depth=4)
        process.signal(signal.SIGINT)
        stopped_well(tls.fio.finish(process))
    assert tls.proxy.clear == b""


def test_who_waits_for_a_handshake_sleeps(tls: Tls) -> None:
    """Until the server answers, or the time for it is over: the socket takes bytes all the time."""
    tls.server.create("f", bytes(MIB))
    job: dict[str, Option] = {
        "rw": "read", "size": "1m", "rate_iops": 100, "trace": 1, "time_based": 1, "runtime": 3600,
    }  # fmt: skip
    with tls.fio.start(**job) as process:
        all_go_on(process, connections=1, depth=1)
        tls.proxy.fault = Fault.SILENT
        tls.is_cut()
        process.signal(signal.SIGINT)
        (line,) = tls.fio.finish(process).stats
    assert line.syscalls < 10_000  # else millions


# GnuTLS and the kernel are asked of their number; the latter tells it in the last eight bytes.
_WORN = """\
enum { LEFT = 10 };

static void add(void *number)
{
	uint64_t count;

	memcpy(&count, number, sizeof(count));
	count = htobe64(be64toh(count) + (1 << 24) - LEFT);
	memcpy(number, &count, sizeof(count));
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	int error = REAL(getsockopt)(fd, level, name, value, length);

	if (!error && level == SOL_TLS)
		add((uint8_t *)value + *length - sizeof(uint64_t));
	return error;
}
"""
_WORN_IN_GNUTLS = """
int gnutls_record_get_state(void *session, unsigned int read, void *mac, void *iv, void *key,
	unsigned char number[8])
{
	void *gnutls = dlopen("libgnutls.so.30", RTLD_NOW | RTLD_NOLOAD);
	__typeof__(&gnutls_record_get_state) real = dlsym(gnutls, "gnutls_record_get_state");
	int error = real(session, read, mac, iv, key, number);

	add(number);
	return error;
}
"""


def test_the_busier_direction_wears_the_keys(testlib: CData) -> None:
    """A job that writes sends far more records than it receives, and one that reads fewer."""
    assert [testlib.worn_records(*records) for records in ((7, 2), (2, 9))] == [7, 9]


@pytest.mark.parametrize("ktls", [0, pytest.param(1, marks=pytest.mark.kernel_lab)])
def test_keys_are_not_used_for_too_long(tls: Tls, kernel: Kernel, ktls: int) -> None:
    """Before the cipher's limit another connection has others."""
    worn = kernel(_WORN + _WORN_IN_GNUTLS * (not ktls))
    job: dict[str, Option] = {"iodepth": 4, "bs": "64k", "size": "512k", "verify": "crc32c"}
    result = tls.fio.well(env=worn, ktls=ktls, **job)
    (line,) = result.stats
    assert line.reconnects >= 2
    assert line.retransmissions == 0  # what was asked before is answered before
    assert "TLS key limit reached (2^24 records): reconnecting" in said(result)[0]


def test_a_connection_of_worn_keys_goes_though_a_reply_was_lost(tls: Tls, kernel: Kernel) -> None:
    """Its call was sent again over it, and answered: nothing is awaited any more."""
    worn = kernel(_WORN + _WORN_IN_GNUTLS)
    tls.server.hooks.append(on(Nfs.WRITE, NEVER, nth=2))
    pool = tls.server.url(nfsport=tls.proxy.port, xprtsec="tls")
    result = tls.fio.well(env=worn, pool=pool, iodepth=1, size="256k", timeo=20)
    (line,) = result.stats
    assert line.retransmissions == 1
    assert line.reconnects >= 4


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
    tls: Tls, ktls: Option, reconnects: int, words: str | None
) -> None:
    """Tickets are skipped. Other keys GnuTLS goes on with; kTLS connects anew, as for a forgery.

    By default it does so once, and then by GnuTLS.
    """
    tls.server.create("f", numbered(16 * MIB, 4 * KIB))
    job: dict[str, Option] = {
        "rw": "read", "bs": "4k", "size": "16m", "iodepth": 4, "rate_iops": 100, "trace": 1,
        "verify": "pattern", "verify_pattern": "%o", "time_based": 1, "runtime": 3600,
        "nconnect": 2, "spread": "roundrobin",
    }  # fmt: skip
    with tls.fio.start(ktls=ktls, **job) as process:
        all_go_on(process, connections=2, depth=4)
        for say in (update_keys, send_ticket, send_long_ticket, update_keys, forge):
            tls.proxy.say = say
            all_go_on(process, connections=2, depth=4)
        process.signal(signal.SIGINT)
        result = tls.fio.finish(process)
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
    ("version", "cipher"), [("3", "AES-128-GCM"), ("4.1", "CHACHA20-POLY1305")]
)
def test_the_kernel_encrypts(
    made: Certificates, local_fio: FioRunner, tmp_path: Path, version: str, cipher: str
) -> None:
    """What was written is read again from the guest's own server.

    AES-256-GCM, the first choice, is what other tests here have.
    """
    others = {"AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"} - {cipher}
    priorities = tmp_path / "gnutls"
    lines = ["[overrides]", *(f"tls-disabled-cipher = {other.lower()}" for other in others)]
    priorities.write_text("\n".join(lines) + "\n")
    env = {"GNUTLS_SYSTEM_PRIORITY_FILE": str(priorities)}
    job = {**_VERIFIED, "size": "2m", **trusted(made), "ktls": "auto"}
    with before((ADDRESSES[0], 2049), made) as proxy:
        pool = path(proxy, export=EXPORT if version == "3" else "/", version=version)
        result = local_fio(pool=pool, timeout=SECONDS, env=env, **job)
        (Path(EXPORT) / "f").unlink(missing_ok=True)
        eventually(lambda: proxy.farewells == len(proxy.handshakes))
    done(result)
    assert {(line.cipher, line.ktls, line.reconnects) for line in result.stats} == {(cipher, 1, 0)}
    assert f"TLS: 4 connections with {cipher}, 4 by kTLS, 4 handshakes" in result.messages
    assert "crypto: " not in result.messages  # it is within the system calls
    assert proxy.clear == b""


@pytest.mark.kernel_lab
def test_the_kernel_brings_alerts(tls: Tls) -> None:
    tls.proxy.clients = tls.made.authority.certificate
    words = f'{_ALERT} "Certificate is required": it wants a client\'s certificate'
    refused(tls.fio(ktls=1), words)


# A kernel that has TLS or not, and takes no keys.
_KERNEL = """\
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
	return REAL(setsockopt)(fd, level, name, value, length);
}
"""


_WITHOUT_TLS, _WITHOUT_KEYS = (f"#define HAS_TLS {has}\n{_KERNEL}" for has in (0, 1))


# It takes the probe and ClientHello.
_FULL_SOCKET = """
ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
	static int sent;

	if (sent++ < 2)
		return REAL(send)(fd, bytes, length, flags);
	errno = EAGAIN;
	return -1;
}
"""


# What the proxy does, the functions before the kernel's, and why the kernel is not used.
_NOT_FOR_KERNEL: dict[str, tuple[dict[str, object], str, str]] = {
    "no TLS": (
        {}, _WITHOUT_TLS, "ktls=1: this kernel has no TLS: modprobe tls, or leave ktls= out",
    ),
    "no keys": (
        {}, _WITHOUT_KEYS, "the kernel does not take the keys of AES-256-GCM: use ktls=0",
    ),
    "record": ({"early": FORGED}, _WITHOUT_KEYS, "Decryption has failed."),
    "part": (
        {"early": FORGED[:3]}, _WITHOUT_KEYS,
        "the server sends data along with its handshake, which the kernel would miss: use",
    ),
    "limit": (
        {"short_records": True}, _WITHOUT_KEYS,
        "the server takes shorter TLS records than the kernel makes: use ktls=0",
    ),
    "unsent": (
        {}, _WITHOUT_KEYS + _FULL_SOCKET,
        "the end of the TLS handshake is not sent yet: use ktls=0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _NOT_FOR_KERNEL)
def test_where_the_kernel_cannot(tls: Tls, kernel: Kernel, name: str) -> None:
    """Its own reasons, before which GnuTLS encrypts unless the kernel is asked to; or the server's.

    That sends a record too early, of which GnuTLS may say more, wants them shorter, or is busy.
    """
    faulty, source, words = _NOT_FOR_KERNEL[name]
    env = kernel(source)
    if name in ("no TLS", "no keys"):
        assert [line.ktls for line in tls.fio.well(env=env, ktls="auto").stats] == [0]
    for member, value in faulty.items():
        setattr(tls.proxy, member, value)
    refused(tls.fio(env=env, ktls=1), words)


@pytest.mark.kernel_lab
def test_keys_that_change_among_what_comes_before_io(tls: Tls) -> None:
    """A job that begins goes on by GnuTLS, also where the kernel has brought replies already."""

    def update(_: ScriptedServer) -> None:
        tls.proxy.say = update_keys

    tls.server.hooks.append(on(Nfs4.EXCHANGE_ID, Answer(do=update)))
    result = tls.fio.well(ktls="auto")
    assert said(result) == []
    lost = tls.server.calls(Nfs4.EXCHANGE_ID)[0].connection
    assert lost not in {call.connection for call in tls.server.calls(Nfs4.CREATE_SESSION)}


# --- what is refused ---

_NO_ANSWER = "no answer to the probe for TLS: does the server offer TLS?"


@pytest.mark.sanitized
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.DENIED, "the server offers no TLS (it denies the probe): turn TLS on there"),
        (Fault.WITHOUT_WORD, "the server offers no TLS (it answers the probe without STARTTLS)"),
        (Fault.CLOSED, "the server closes the connection at the probe for TLS: is it starting, or"),
        (Fault.SILENT, _NO_ANSWER),
        (Fault.OTHER_XID, _NO_ANSWER),
        (Fault.MORE, _NO_ANSWER),
        (Fault.TLS_1_2, f'{_ALERT} "Error in protocol version": it does not speak TLS 1.3'),
        (Fault.CUT, "the server did not finish the TLS handshake"),
    ],
)
def test_a_server_without_it_is_refused(tls: Tls, fault: Fault, words: str) -> None:
    tls.proxy.fault = fault
    line = refused(tls.fio(), words)
    assert f"cannot connect to port {tls.proxy.port}" in line
    assert tls.server.calls() == []
    assert tls.proxy.clear == b""
    assert tls.proxy.probes == (5 if fault is Fault.CUT else 1)


def test_a_server_that_closes_after_the_handshake_is_tried_again(tls: Tls) -> None:
    """As Linux's does where it was slow; one that always closes is told."""
    tls.proxy.closes = {0, 1, 3, 5}  # names come first
    tls.fio.well(nconnect=2)
    tls.proxy.closes = range(1000)
    refused(tls.fio(), "the server finished the TLS handshake, but answers no call")


_NAMELESS = "has no DNS name in its subjectAltName (its subject does not count)"
_PURPOSE = "is not for servers (its extendedKeyUsage lacks serverAuth): the server needs a new one"
_OTHER_NAME = "is for another name: connect by a name that it has"
_UNSIGNED = "may not sign (its keyUsage lacks digitalSignature): the server needs a new one"
_MAY_NOT = "is signed by a certificate"
_MINE, _OTHERS = f"subjectAltName=DNS:{NAME}", "subjectAltName=DNS:other.test"
_CA = "basicConstraints=CA:TRUE"

# The name that is asked for, the certificate's extensions, and its issuer's; why it is refused.
_CERTIFICATES: list[tuple[str, list[str], list[str], str | None]] = [
    (NAME, [_MINE, "extendedKeyUsage=clientAuth"], [], _PURPOSE),
    ("127.0.0.1", ["subjectAltName=IP:127.0.0.1", "extendedKeyUsage=clientAuth"], [], _PURPOSE),
    (NAME, [_MINE, "keyUsage=keyEncipherment"], [], _UNSIGNED),
    (NAME, [], [], _NAMELESS),
    (NAME, ["subjectAltName=IP:127.0.0.1"], [], _OTHER_NAME),
    # Whether GnuTLS (3.7.9-2+deb12u7) or the engine refuses it: the word differs.
    (NAME, [f"subjectAltName=URI:x:{'x' * 300},DNS:other.test"], [], ""),
    (NAME, [_OTHERS], [], _OTHER_NAME),
    ("127.0.0.1", [], [], _OTHER_NAME),
    ("127.0.0.1", ["subjectAltName=IP:127.0.0.2"], [], _OTHER_NAME),
    ("127.0.0.1", ["subjectAltName=DNS:127.0.0.1"], [], _OTHER_NAME),
    (NAME, [_MINE, "extendedKeyUsage=serverAuth,clientAuth"], [], None),
    (NAME, [f"subjectAltName=email:a@b,DNS:{'x' * 63}.test,DNS:{NAME}"], [], None),
    ("a.lab.test", ["subjectAltName=DNS:*.lab.test"], [], None),
    (NAME, [_MINE], [_CA], None),
    (NAME, [_MINE], ["basicConstraints=CA:FALSE"], _MAY_NOT),
    (NAME, [_MINE], [_CA, "keyUsage=digitalSignature"], _MAY_NOT),
    (NAME, [_MINE], [_CA, "nameConstraints=permitted;DNS:a.test"], _MAY_NOT),
    (NAME, [_MINE], [_CA, "extendedKeyUsage=clientAuth"], _PURPOSE),
]


@pytest.mark.sanitized
@pytest.mark.parametrize("number", range(len(_CERTIFICATES)))
def test_a_servers_certificate_is_checked(tls: Tls, tmp_path: Path, number: int) -> None:
    """The name is the pool's, or tls_name's; its subject counts for nothing (RFC 9525)."""
    name, extensions, issuers, words = _CERTIFICATES[number]
    issuer = tls.made.other("between", *issuers) if issuers else None
    shown = tls.made.other(name, *extensions, by=issuer)
    chain = [one.certificate.read_text() for one in (shown, issuer) if one]
    (tmp_path / "chain.pem").write_text("".join(chain))
    tls.shows(Pair(tmp_path / "chain.pem", shown.key))
    result = tls.fio(pool=tls.path(tls_name=name))
    if words is None:
        done(result)
    else:
        refused(result, f"the server's certificate {words}")
        assert tls.server.calls() == []


def test_a_certificate_that_is_nobodys_or_too_old(tls: Tls) -> None:
    pool = tls.path(tls_ca=tls.made.stranger.certificate)
    refused(tls.fio(pool=pool), "is not trusted: set tls_ca= to the authority that signed it")
    tls.shows(tls.made.expired)
    refused(tls.fio(), "the server's certificate has expired: the server needs a new one")


def test_a_certificates_names_are_told_in_short(tls: Tls, tmp_path: Path) -> None:
    """Three of any number, and nothing that a terminal would obey."""
    names = ["a\x1b]0;b\x07", "127.0.0.9", 99 * "c", *(f"{n}.test" for n in range(99))]
    other = Certificates(tmp_path, names)
    tls.shows(other.server)
    line = refused(tls.fio(tls_ca=str(other.authority.certificate)))
    assert line.endswith(f": it has a?]0;b?, 127.0.0.9, {40 * 'c'}")


def test_a_client_whom_the_server_refuses(tls: Tls) -> None:
    """It says so after the handshake; the job ends at once.

    A certificate that it does not want is shown all the same.
    """
    made = tls.made
    tls.proxy.clients, tls.proxy.names_authority = made.authority.certificate, True
    foreign = made.other("foreign", by=made.stranger)
    served = made.other("served", "extendedKeyUsage=serverAuth")
    for xprtsec, version, shown, words in (
        ("tls", 3, made.client, '"Certificate is required": it wants a client\'s certificate'),
        ("mtls", 4, foreign, '"CA is unknown": is tls_cert= signed by an authority'),
        ("mtls", 3, made.expired, '"Certificate is expired": tls_cert= has expired'),
        ("mtls", 4, served, '"Certificate is not supported": is tls_cert= one for clients'),
    ):
        pool = tls.path(xprtsec=xprtsec)
        if version == 3:
            pool = tls.server.url(nfsport=tls.proxy.port, xprtsec=xprtsec)
        result = tls.fio(pool=pool, **own(shown))
        assert result.status not in (0, None), result.messages
        assert f"{_ALERT} {words}" in said(result)[-1]
        assert len(said(result)) == 1 + (version == 3)  # that MOUNT goes in clear
    assert [call for call in tls.server.calls() if isinstance(call.procedure, Nfs | Nfs4)] == []


def test_a_server_that_asks_for_no_certificate_is_none_for_mtls(tls: Tls) -> None:
    """Nobody is to measure plain TLS and believe that it was mutual."""
    line = refused(tls.fio(pool=tls.path(xprtsec="mtls"), **own(tls.made.client)))
    assert "the server does not ask for the client's certificate" in line


_URL = "nfs://127.0.0.1/x?version=4.1"


def test_files_that_will_not_do(tls: Tls, tmp_path: Path) -> None:
    made = tls.made
    empty, missing = tmp_path / "empty.pem", tmp_path / "missing.pem"
    empty.touch()
    encrypted = tmp_path / "encrypted.key"
    into = ["-in", str(made.client.key), "-out", str(encrypted), "-aes256", "-passout", "pass:x"]
    run(["openssl", "pkey", *into], timeout=60).check()
    for option, file, words in (
        ("tls_ca", missing, f"tls_ca={missing}: No such file or directory"),
        ("tls_ca", empty, f"tls_ca={empty}: it has no PEM certificate"),
        ("tls_cert", missing, f"tls_cert={missing}: No such file or directory"),
        ("tls_key", tmp_path / "no", f"tls_key={tmp_path / 'no'}: No such file or directory"),
        ("tls_key", made.server.key, "The certificate and the given key do not match"),
        ("tls_key", empty, f"tls_key={empty}: it has no PEM key"),
        ("tls_key", encrypted, f"tls_key={encrypted}: the key is encrypted: write it without"),
    ):
        files: dict[str, Option] = {**own(made.client), option: str(file)}
        refused(tls.fio(pool=f"{_URL}&xprtsec=mtls", **files), words)
