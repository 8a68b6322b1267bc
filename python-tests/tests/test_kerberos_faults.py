# SPDX-License-Identifier: GPL-2.0-only
"""Faults of Kerberos (RPCSEC_GSS, RFC 2203): each is mended, or ends in one line, and in time.

A proxy before a real server changes, loses, repeats, delays or answers single messages.
"""

import base64
import re
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from conftest import FioRunner, started_lab
from engine_helpers import eventually, failed_io, refused, said, stderr_of, traces
from kerberos_client import Client, realm

from nfsmulti.fiorun import FioProcess, FioResult, Option
from nfsmulti.lab import Kerberos, Lab, LabConfig
from servers.record_proxy import Fault, Record, RecordProxy, flipped, passed
from servers.rpc import AcceptStat, AuthStat, accepted, record, xdr
from servers.scripted import Nfs4, Status4

VERIFIED: dict[str, Option] = {
    "rw": "randwrite", "bs": "16k", "size": "2m", "iodepth": 8, "verify": "crc32c",
    "verify_state_save": 0, "filename": "f",
}  # fmt: skip
# Until it is told to end.
GOING_ON: dict[str, Option] = {
    "rw": "randwrite", "bs": "16k", "size": "2m", "iodepth": 8, "filename": "f", "trace": 1,
    "rate_iops": 200, "time_based": 1, "runtime": 300,
}  # fmt: skip


def before(lab: Lab) -> RecordProxy:
    endpoint = lab.server(0).endpoint
    return RecordProxy((endpoint.address, endpoint.nfs_port))


@pytest.fixture
def proxy(kerberos: Lab) -> Iterator[RecordProxy]:
    with before(kerberos) as running:
        yield running


@pytest.fixture
def client(kerberos: Lab, proxy: RecordProxy, local_fio: FioRunner, tmp_path: Path) -> Client:
    return Client(kerberos, local_fio, tmp_path, proxy)


def denying(auth_stat: AuthStat = AuthStat.CREDPROBLEM) -> Fault:
    """Return what denies the next calls with data; none, until its `times` is set."""
    return Fault(lambda call: call.is_bulk, lambda call: call.deny(auth_stat), times=0)


def told(result: FioResult) -> list[str]:
    """Return what was said beside the trace."""
    return [line for line in said(result) if " trace: " not in line]


def goes_on(process: FioProcess, ios: int = 20) -> None:
    before = traces(process)
    eventually(lambda: traces(process) > before + ios)


def one_failed(result: FioResult, operation: str, size: int = 16) -> None:
    """Expect that one I/O of so many KiB has failed, for its checksum, and the others were done."""
    assert result.report is not None
    (job,) = result.report.jobs
    assert job["total_err"] == 1
    assert [line.errors for line in result.stats] == [1]
    (line,) = said(result)
    assert f": {operation} of {size << 10} bytes at " in line
    assert line.endswith("the reply's checksum is wrong: it was changed on its way")


# --- what was changed on its way: what does not arrive, or comes late, is in test_sim.py ---


@pytest.mark.parametrize(("flavor", "size"), [("krb5i", 512), ("krb5p", 16)])
def test_a_reply_with_the_body_of_another(
    client: Client, proxy: RecordProxy, flavor: str, size: int
) -> None:
    """Its verifier is right, and so is the body's checksum: only the number within tells.

    A large READ's data is received where it belongs before that can be seen.
    """
    verified = {**VERIFIED, "bs": f"{size}k"}
    client.well(**verified, security=flavor)
    replies = list[Record]()

    def is_second(reply: Record) -> bool:
        replies.extend([reply] * reply.is_bulk)
        return len(replies) == 2

    def exchanged(reply: Record) -> list[bytes]:
        other = replies[0]
        return [reply.data[: reply.results_at] + other.data[other.results_at :]]

    fault = proxy.replies = Fault(is_second, exchanged)
    job = {**verified, "rw": "randread", "continue_on_error": "all"}
    one_failed(client(**job, security=flavor), "READ", size)
    assert len(fault.met) == 1


# --- contexts that the server does not know any more ---


@pytest.mark.parametrize(
    ("denied", "words"),
    [
        (
            lambda call: call.deny(AuthStat.CREDPROBLEM),
            ["does not know the Kerberos context that it has just made", "CREDPROBLEM"],
        ),
        # A procedure that no server has: nfs-ganesha says so before it looks at credentials.
        (
            lambda call: flipped(call, 20),
            ["the server lacks the procedure (PROC_UNAVAIL)"],
        ),
    ],
    ids=["contexts", "an RPC error without verifier"],
)
def test_what_is_denied_for_ever(
    client: Client, proxy: RecordProxy, denied: Callable[[Record], list[bytes]], words: list[str]
) -> None:
    """Each call is sent once with each of four contexts."""
    proxy.calls = fault = Fault(lambda call: call.is_bulk, denied, times=1000)
    result = client("3", **VERIFIED)
    refused(result, *words)
    assert [line.contexts for line in result.stats] == [4]
    assert max(Counter(call.data[-512:] for call in fault.met).values()) == 4


Script = Generator[list[bytes], Record, Record]  # what becomes of each call and reply


def _until(one: Record, is_meant: Callable[[Record], object]) -> Script:
    while not is_meant(one):
        one = yield passed(one)
    return one


def _late_reply(torn: bool, sent: list[Record]) -> Script:
    """Deny a call, and send what belongs to one before when the next context is in use.

    That is a READ's reply, whose first half comes with the reply that makes the context; or without
    `torn` the denial of a WRITE.
    """
    one = yield []
    late = yield from _until(one, lambda one: one.call and (one if torn else one.call).is_bulk)

    def is_call(one: Record) -> bool:
        return not one.call and one.connection is late.connection

    data, waiting = record(late.data), list[Record]()
    one = yield from _until((yield []), is_call)
    one = yield from _until((yield one.deny(AuthStat.CREDPROBLEM)), lambda one: one.is_init)
    if torn:
        one = yield from _until((yield passed(one)), lambda one: one.is_init)
        first = record(one.data) + data[: len(data) // 2]
        late.connection.send_stream(late.connection.client, first)
        while not is_call(one := (yield [])):
            waiting.append(one)
        late.connection.send_stream(late.connection.client, data[len(data) // 2 :])
        for reply in waiting:
            reply.go_on()
    else:
        one = yield from _until((yield passed(one)), is_call)
        assert late.call
        late.call.deny(AuthStat.CREDPROBLEM)
    sent.append(late)
    return (yield from _until(one, lambda _: False))


@pytest.mark.parametrize("torn", [True, False])
def test_what_belongs_to_a_call_of_the_context_before(
    client: Client, proxy: RecordProxy, torn: bool
) -> None:
    """Half of a READ's data is where it belongs by then; and no denial ends the newer context.

    A reply that comes whole is in test_scenarios_calls.py.
    """
    flavor, rw = ("krb5p", "randread") if torn else ("krb5", "randwrite")
    client.well(**VERIFIED, security=flavor)
    sent = list[Record]()
    script = _late_reply(torn, sent)
    next(script)
    proxy.calls = proxy.replies = script.send
    result = client.well(**{**VERIFIED, "rw": rw}, security=flavor)
    (line,) = result.stats
    assert (len(sent), line.contexts, line.errors, line.retransmissions) == (1, 2, 0, 0)


def test_a_call_is_denied_for_ever(client: Client, proxy: RecordProxy) -> None:
    """It fails after eight contexts, though by each of them others are served.

    A READ that a slow server answers by a context older than the last two is asked for again.
    """
    client.well(**VERIFIED)
    proxy.calls = fault = denying(AuthStat.CTXPROBLEM)
    fault.times = 1000
    reads: dict[str, Option] = {
        "rw": "randrw", "rwmixread": 95, "verify": None, "time_based": 1, "runtime": 60,
        "timeo": 50,
    }  # fmt: skip
    result = client(**{**VERIFIED, **reads})
    failed_io(result, "does not know the Kerberos context", "CTXPROBLEM")
    assert max(Counter(call.data[-16384:] for call in fault.met).values()) == 1 + 8


def without_session(reply: Record) -> list[bytes]:
    """Return a reply whose results are others, which krb5 does not protect."""
    results = reply.results_at
    compound = xdr(Status4.BADSESSION, b"", 1, Nfs4.SEQUENCE.value, Status4.BADSESSION)
    return [reply.data[:results] + compound]


def test_what_comes_before_io_is_denied_for_ever(client: Client, proxy: RecordProxy) -> None:
    """A connection that needs a session: it ends, and the others serve on."""

    def of_another(reply: Record) -> bool:
        first = next(call for call in proxy.seen if call.is_bulk)
        answers_write = reply.call is not None and reply.call.is_bulk
        return answers_write and reply.connection is not first.connection

    lost = proxy.replies = Fault(of_another, without_session, times=0)
    proxy.calls = Fault(
        lambda call: (
            bool(lost.met)
            and call.connection is lost.met[0].connection
            and call.gss_procedure == 0
            and not call.is_bulk
        ),
        lambda call: call.deny(AuthStat.CREDPROBLEM),
        times=1000,
    )
    job = {**GOING_ON, "nconnect": 4, "spread": "queue", "rate_iops": None}
    with client.start(**job) as process:
        eventually(lambda: traces(process) > 10)
        lost.times = 1
        eventually(lambda: "that it has just made" in stderr_of(process))
        goes_on(process)
        assert "io_u error" not in stderr_of(process)  # calls that wait when the run ends fail


# --- RPC errors ---


def test_an_rpc_error_that_is_not_the_servers(client: Client, proxy: RecordProxy) -> None:
    """It counts as not arrived, and is told once; the server's own reply follows."""
    fault = proxy.calls = Fault(
        lambda call: call.is_bulk,
        lambda call: call.answer(accepted(AcceptStat.SYSTEM_ERR)) + passed(call),
        times=2,
    )
    result = client.well(**VERIFIED)
    assert len(fault.met) == 2
    (message,) = said(result)
    assert message.endswith("), without a verifier: it counts as no reply; see the server's log")
    (line,) = result.stats
    assert (line.stale_replies, line.retransmissions, line.contexts) == (2, 0, 1)


def test_a_call_that_was_changed(client: Client, proxy: RecordProxy) -> None:
    """The server cannot read it, and shows that it is the server who says so: that I/O fails."""
    proxy.calls = Fault(lambda call: call.is_bulk, lambda call: flipped(call, -1))
    job = {**VERIFIED, "verify": None, "continue_on_error": "all"}
    result = client(**job, security="krb5p")
    assert [line.errors for line in result.stats] == [1]
    (line,) = said(result)
    assert line.endswith("the server could not read the call (GARBAGE_ARGS)")


# --- contexts that cannot be made ---


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (24, "is not the server's"),  # the verifier: a MIC of the window
        (-164, "is not the server's"),  # the window
        (-5, "a key differs"),  # the token
        (57, "does not know the Kerberos context that it has just made"),  # the handle
    ],
)
def test_a_context_that_is_forged(
    client: Client, proxy: RecordProxy, place: int, words: str
) -> None:
    proxy.replies = Fault(lambda reply: reply.is_init, lambda one: flipped(one, place), times=100)
    refused(client(**VERIFIED), words)


def test_a_ticket_that_the_server_refuses(client: Client, proxy: RecordProxy) -> None:
    results = xdr(b"", 13 << 16, 7, 0, b"")  # GSS_S_FAILURE (RFC 2203, 5.2.3.1)
    refused_so = accepted(AcceptStat.SUCCESS, results)
    proxy.calls = Fault(lambda call: call.is_init, lambda call: call.answer(refused_so), 9)
    refused(client(**VERIFIED), "the server refuses the ticket (GSS major status 0xd0000, minor 7)")


def test_a_server_without_the_key(client: Client, kerberos: Lab) -> None:
    kerberos.kdc.add("nfs/other.test")
    result = client(**VERIFIED, server_principal="nfs@other.test")
    refused(result, "denied the context (AUTH_REJECTEDCRED)", "have the key of nfs@other.test?")


def test_a_server_without_kerberos(client: Client, kerberos: Lab) -> None:
    with started_lab(LabConfig(addresses=1, local=True)) as lab:
        pool = lab.path(0, version="4.1")
        result = client(**VERIFIED, pool=pool, server_principal="nfs@server.test")
    refused(result, "denied the context (AUTH_FAILED): does it serve Kerberos")


@pytest.mark.parametrize("place", [-5, 24], ids=["token", "verifier"])
def test_a_renewal_that_fails(local_fio: FioRunner, tmp_path: Path, place: int) -> None:
    """The context in use serves on, and nothing is said. The next try is made 10 s later.

    The connection for names has a context of its own.
    """
    with realm(Kerberos(lifetime=4)) as lab, before(lab) as proxy:
        client = Client(lab, local_fio, tmp_path, proxy)
        with client.start(**GOING_ON) as process:
            eventually(lambda: traces(process) > 10)
            renewal = Fault(lambda reply: reply.is_init, lambda reply: flipped(reply, place), 9)
            proxy.replies = renewal
            eventually(lambda: renewal.met)
            goes_on(process, ios=100)
            result = client.ended(process)
    assert [(line.contexts, line.errors, line.reconnects) for line in result.stats] == [(1, 0, 0)]
    assert len({record.connection for record in renewal.met}) == len(renewal.met)
    assert told(result) == []


def test_failover_from_a_path_without_a_context(client: Client, kerberos: Lab) -> None:
    """The KDC is silent: the other path, which has a context, gets its I/O."""
    client.log_in()
    with before(kerberos) as other:
        other.calls = forgotten = denying()
        pool = f"{client.path()},{client.path(port=other.port)}"
        job = {**GOING_ON, "spread": "roundrobin", "failover": 1}
        with client.start(**job, **client.tickets, pool=pool) as process:
            eventually(lambda: traces(process) > 10)
            client.log_in()
            client.kdc.pause()
            forgotten.times = 1
            eventually(lambda: forgotten.met)
            goes_on(process)
            result = client.ended(process)
    assert sum(line.errors for line in result.stats) == 0
    assert sum(line.reissues for line in result.stats) > 0
    assert "Cannot contact any KDC" not in result.messages  # the library has not given up yet


# --- tickets and the KDC ---


def test_a_ticket_that_expires(local_fio: FioRunner, tmp_path: Path) -> None:
    """The job goes on while the server takes it, says what to do, and goes on after that."""
    with realm(Kerberos(skew=1)) as lab, before(lab) as proxy:
        client = Client(lab, local_fio, tmp_path, proxy)
        client.log_in()
        proxy.calls = forgotten = denying()
        with client.start(**GOING_ON, **client.tickets) as process:
            eventually(lambda: traces(process) > 10)
            client.log_in("-l", "4s")
            forgotten.times = 1
            eventually(lambda: "run kinit" in stderr_of(process))
            client.log_in()
            goes_on(process)
            result = client.ended(process)
    assert sum(line.errors for line in result.stats) == 0
    assert len([line for line in told(result) if "run kinit" in line]) == 1


@pytest.fixture
def forgotten(client: Client, proxy: RecordProxy) -> Fault:
    """Return what makes the server forget a context, for which the KDC must be asked again."""
    client.log_in()
    proxy.calls = fault = denying()
    return fault


def test_the_kdc_is_gone_for_a_while(client: Client, forgotten: Fault) -> None:
    """The job goes on while it needs neither it nor a ticket; else hard waits until it is back."""
    with client.start(**GOING_ON, **client.tickets) as process:
        eventually(lambda: traces(process) > 10)
        client.log_in()
        client.kdc.stop()
        goes_on(process)
        forgotten.times = 1
        eventually(lambda: "does the KDC run" in stderr_of(process))
        client.kdc.start()
        goes_on(process)
        result = client.ended(process)
    assert [(line.contexts, line.errors) for line in result.stats] == [(2, 0)]
    assert told(result)[-1].endswith("server OK")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"thread": 1}, "the run is ending"),
        ({"soft": 1, "timeo": 30, "retrans": 0}, "no answer within 3.0 s"),
    ],
)
def test_a_silent_kdc_keeps_no_job(
    client: Client, forgotten: Fault, options: dict[str, Option], words: str
) -> None:
    """The library waits for it, and says so after half a minute."""
    with client.start(**GOING_ON, **client.tickets, **options) as process:
        eventually(lambda: traces(process) > 10)
        client.log_in()
        client.kdc.pause()
        forgotten.times = 1
        eventually(lambda: forgotten.met)
        if "thread" in options:
            process.signal(signal.SIGTERM)
        result = client.finish(process)
    assert words in result.messages
    assert "Cannot contact any KDC" not in result.messages


# --- no secret ---


def test_no_key_is_in_what_a_run_leaves(client: Client, kerberos: Lab, tmp_path: Path) -> None:
    """Neither the user's, nor those of the tickets."""
    job = {**VERIFIED, "trace": 1, "security": "krb5p", "write_lat_log": str(tmp_path / "log")}
    client.log_in()
    cache = Path(str(client.tickets["ccache"]).removeprefix("FILE:"))
    client.well(**job)
    client.well(**job, **client.tickets)
    keys = re.findall(rb"\0\x12\0\0\0\x20(.{32})", cache.read_bytes(), re.DOTALL)
    keys += re.findall(rb"\0\x12\0\x20(.{32})", kerberos.kdc.keytab.read_bytes(), re.DOTALL)
    assert len(keys) >= 3
    left = [file for file in tmp_path.rglob("*") if file.is_file() and file != cache]
    assert len(left) >= 10
    for text in (file.read_bytes() for file in left):
        for key in keys:
            forms = (key, key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key))
            assert not any(form in text for form in forms)
