# SPDX-License-Identifier: GPL-2.0-only
"""nclients=: one job that is many NFS clients, each with a connection of its own."""

import errno
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_privileges
from engine_helpers import Place, Traced, done, eventually
from scripted_jobs import (
    BOTH,
    KIB,
    NEVER,
    NO_RESERVED_PORTS,
    READING,
    TWO_ADDRESSES,
    Run,
    go,
)
from stand_ins import CONNECT, fails

from jobs import Fio
from nfsmulti.bench.sink import Sink
from nfsmulti.fiorun import Engine, FioProcess, FioResult, Option
from servers.scripted import (
    DATA,
    DATA4,
    Answer,
    Call,
    Claim,
    Mount,
    Nfs,
    Nfs4,
    ScriptedServer,
    Status4,
    Terms,
    on,
)
from servers.scripted.protocol import Credentials

_CLIENTS = 8
_MANY, _SECONDS = 1000, 240.0
_TWO: dict[str, Any] = {
    "files": {"a": bytes(64 * KIB), "b": bytes(64 * KIB)}, "filename": "a:b", "nrfiles": 2,
}  # fmt: skip
_PAGES: dict[str, Option] = {"rw": "read", "bs": "4k", "size": "256k", "iodepth": _CLIENTS}


@pytest.fixture
def clients(job: Run) -> Run:
    """Run a job of four clients of NFSv4.1 that read a file; the test judges how it ends."""
    common: dict[str, Any] = {"version": 4, "nclients": 4, "client_name": "m%d", "filename": "r"}
    return lambda *hooks, **words: job(*hooks, **{**common, "error": None, **READING, **words})


def _opens_its_own(call: Call) -> bool:
    return call.procedure is Nfs4.OPEN and call.claim == Claim.FH


# --- nfs-ganesha ---


def test_each_io_is_the_next_clients(export: Place) -> None:
    pool = export.paths[0]
    result = export.fio.well(pool=pool, nclients=_CLIENTS, trace=1, **_PAGES)
    reads = [one for one in Traced.read(result.stderr) if one.operation == "READ"]
    assert len(reads) == 64
    assert {one.connection - one.offset // (4 * KIB) % _CLIENTS for one in reads} == {0}
    assert len({line.local for line in result.stats}) == len(result.stats) == _CLIENTS
    told = "clients: 8 of 8 served, 8 to 8 operations each, Jain's index 1.0000"
    assert told in result.messages
    result = export.fio.well(pool=pool, nclients=_CLIENTS, **{**_PAGES, "size": "24k"})
    told = "clients: 6 of 8 served, 0 to 1 operations each, Jain's index 0.7500"
    assert told in result.messages
    assert "clients: 2 not served: no I/O came to them: give the job more" in result.messages


def test_clients_write_over_two_addresses(export: Place) -> None:
    """Five clients of two paths, with syncs, and one file beside another; each has its turn."""
    pool = ",".join(export.paths[:2])
    result = export.fio.well(
        pool=pool, nclients=5, spread="roundrobin", nrfiles=2, rw="randwrite", bs="16k", size="4m",
        iodepth=16, verify="crc32c", fsync=16,
    )  # fmt: skip
    assert [line.path for line in result.stats] == [export.labels[n % 2] for n in range(5)]
    assert all(line.write_ops for line in result.stats)
    result = export.fio.well(
        pool=pool, nclients=5, spread="roundrobin", spread_reads="job", **_PAGES
    )
    assert [line.read_ops > 0 for line in result.stats] == [True, False, True, False, True]


def test_clients_have_metadata_operations(export: Place) -> None:
    words: dict[str, Option] = {"rw": "write", "bs": 1, "size": 64, "iodepth": 8, "metadata": 1}
    result = export.fio.well(pool=export.paths[0], nclients=4, filename="d", **words)
    assert [line.meta_ops for line in result.stats] == [16] * 4
    export.fio.well(pool=export.paths[0], nclients=4, filename="d", **{**words, "rw": "read"})


# --- who they are ---


@pytest.mark.parametrize(
    ("version", "each"), [(3, "uid gid"), (4, "uid gid"), (3, "uid"), (3, "gid")]
)
def test_a_user_a_group_and_an_address_are_one_clients_alone(
    job: Run, version: int, each: str
) -> None:
    """Two jobs: the clients of the second one go on. Names are asked as the first client of each.

    There are fewer addresses than clients; no client has the further groups of this process, and
    each has its user or group where the pool names none.
    """
    own = {"uid": os.geteuid(), "gid": os.getegid()}
    named = {name: own[name] + 1000 for name in each.split()}
    uid, gid = (own | named).values()
    by_user, by_group = ("uid" in each), ("gid" in each)
    outcome = job(
        version=version, nclients=3, numjobs=2, filename="r", iodepth=3, client_name="m%d",
        url={
            **{name: f"{number}+" for name, number in named.items()},
            "localaddr": "127.0.1.0/30+127.0.2.5-127.0.2.6",
        },
        enter=[] if own["uid"] else ["setpriv", "--groups", "5,6", "--"],
        **READING,
    )  # fmt: skip
    addresses = ["127.0.1.1", "127.0.1.2", "127.0.2.5", "127.0.2.6"]
    calls = outcome.calls(Nfs.READ, Nfs4.READ)
    who = {(call.credentials, call.client[0]) for call in calls}
    assert who == {
        (Credentials(f"m{n}", uid + n * by_user, gid + n * by_group, ()), addresses[n % 4])
        for n in range(6)
    }
    names = outcome.calls(Nfs4.LOOKUP, Nfs.LOOKUP)
    assert {call.credentials.uid for call in names} == {uid, uid + 3 * by_user}


@pytest.mark.parametrize("named", ["", "uid", "gid"])
def test_whoever_is_somebody_else_has_none_of_our_groups(job: Run, named: str) -> None:
    needs_privileges()
    url = {named: 1234} if named else {}
    outcome = job(url=url, enter=["setpriv", "--groups", "5,6", "--"], filename="r", **READING)
    assert {call.credentials.gids for call in outcome.calls(Nfs.READ)} == {() if named else (5, 6)}


@pytest.mark.parametrize(
    ("version", "options"), [(3, {"rw": "randrw", "loops": 3, "iodepth": 3}), (4, {})]
)
def test_as_many_files_as_clients_are_one_clients_each(
    job: Run, version: int, options: dict[str, Option]
) -> None:
    """Files of one size: fio goes from file to file as the engine goes from client to client."""
    words = {"rw": "write", "filesize": "16k", "size": "64k", "nrfiles": 4, **options}
    there = dict.fromkeys("abcd", bytes(16 * KIB)) if options else {}
    outcome = job(
        version=version, nclients=4, client_name="m%d", filename="a:b:c:d", files=there, **words
    )
    calls = outcome.calls(*BOTH, Nfs4.READ, Nfs4.WRITE)
    users = {(call.file, call.credentials.machine) for call in calls}
    assert users == {("a", "m0"), ("b", "m1"), ("c", "m2"), ("d", "m3")}


@pytest.mark.parametrize("version", [3, 4])
def test_a_client_opens_and_uses_its_own_files_alone(job: Run, version: int) -> None:
    """With COMMITs; and it opens them again after the server's restart."""
    names = "abcdefghij"
    outcome = job(
        on(Nfs4.WRITE if version == 4 else Nfs.WRITE, Answer(do=ScriptedServer.restart), nth=15),
        version=version, nclients=4, client_files="own", client_name="m%d",
        filename=":".join(names), nrfiles=10, files={name: bytes(16 * KIB) for name in names},
        filesize="16k", size="160k", rw="randrw", bs="4k", iodepth=8, fsync=3, hold_writes=1 << 20,
    )  # fmt: skip
    users = {(call.file, call.credentials.machine) for call in outcome.calls(*DATA, *DATA4)}
    assert users == {(name, f"m{names.index(name) % 4}") for name in names}
    opens = [call for call in outcome.calls(Nfs4.OPEN) if call.claim != Claim.NULL]
    assert len(opens) > 10 or version == 3
    assert {(call.file, call.credentials.machine) for call in opens} <= users


def test_jobs_have_names_without_nclients(job: Run) -> None:
    """Of up to 54 characters."""
    more = "e" * 48
    outcome = job(numjobs=2, client_name=f"host%d{more}", filename="r", **READING)
    machines = {call.credentials.machine for call in outcome.calls(Nfs.READ)}
    assert machines == {f"host0{more}", f"host1{more}"}


def test_a_client_has_no_more_at_the_server_than_client_depth(clients: Run) -> None:
    """Further I/Os wait in the job. A session has a slot for each, and three for other calls."""
    outcome = clients(nclients=2, client_depth=1, iodepth=8, error=0)
    assert [call.slot for call in outcome.calls(Nfs4.READ)] == [0] * 16


def test_what_waits_for_a_client_that_gives_up_ends_too(clients: Run) -> None:
    """The server is gone, and `soft` ends the I/O at it: the next one follows, and ends as well."""
    gone = on(Nfs.READ, Answer(reply=False, do=go), after=2)
    soft: dict[str, Option] = {"soft": 1, "timeo": 5, "retrans": 0}
    late: dict[str, Option] = {"ignore_error": errno.ETIMEDOUT, "iodepth": 8}
    outcome = clients(gone, version=3, nclients=2, client_depth=1, **soft, **late)
    assert outcome.result.status is not None, "fio hung"
    assert sum(line.errors + line.read_ops for line in outcome.stats) == 16


def test_what_waits_for_a_client_as_a_signal_comes_is_not_done(clients: Run) -> None:
    """Each waits for the reply to its second READ, and the other I/Os wait for that."""

    def during(server: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: len(server.calls(Nfs.READ)) == 4)
        process.signal(signal.SIGTERM)

    never = on(Nfs.READ, NEVER, after=2)
    depths: dict[str, Option] = {"nclients": 2, "client_depth": 1, "iodepth": 8}
    outcome = clients(never, version=3, during=during, **depths)
    assert sum(line.errors for line in outcome.stats) >= 4


def test_what_a_client_has_been_through_is_told(clients: Run) -> None:
    """On the clock of time.monotonic(), which times what else happens on this host."""
    reads, restarted = Counter[str](), list[int]()

    def restart(server: ScriptedServer) -> None:
        restarted.append(time.monotonic_ns() // 1000)
        server.restart()

    def once_all_have_read(call: Call) -> Answer | None:
        if call.procedure is not Nfs4.READ or restarted:
            return None
        reads[call.credentials.machine] += 1
        answered = len(reads) == 4 and min(reads.values()) > 1
        return Answer(do=restart, reply=False) if answered else None

    begun = time.monotonic_ns() // 1000
    timed: dict[str, Option] = {"time_based": 1, "runtime": 2, "iodepth": 2, "numjobs": 2}
    outcome = clients(once_all_have_read, nclients=2, client_name="m%d.lan", error=0, **timed)
    ended = time.monotonic_ns() // 1000
    lines = sorted(outcome.stats, key=lambda line: line.client or 0)
    assert [(line.client, line.client_name) for line in lines] == [
        (number, f"m{number}.lan") for number in range(4)
    ]
    for line in lines:
        [lost], [back], [answered] = line.lost_at_us, line.back_at_us, line.answered_at_us
        first, restart_at = line.first_io_at_us or 0, restarted[0]
        times = [begun, line.begun_at_us, first, restart_at, lost, back or 0, answered or 0, ended]
        assert times == sorted(times)
        assert line.ended_at_us in ([back], [answered])  # the latter where I/O was under way
        assert line.outages == 1
    told = "clients: 2 of 2 lost their connection; back within 1, 5, 10, 30, 90 s: "
    assert outcome.result.messages.count(told) == 2
    raw = (outcome.result.folder / "stats.jsonl").read_text().splitlines()
    assert max(len(line) for line in raw if '"client": ' in line) < KIB


@pytest.mark.parametrize(
    ("count", "denied", "status"),
    [(4, [2], Status4.LOCKED), (16, range(16), Status4.ACCESS)],
    ids=["one", "all"],
)
def test_a_client_that_cannot_open_its_file_ends_the_job(
    clients: Run, count: int, denied: Sequence[int], status: Status4
) -> None:
    """Before the first I/O. The others leave; what the server keeps of this one ends by itself."""
    machines = {f"m{number}" for number in denied}

    def deny(call: Call) -> Answer | None:
        denies = _opens_its_own(call) and call.credentials.machine in machines
        return Answer(status=status) if denies else None

    outcome = clients(deny, nclients=count, refused=f": NFS4ERR_{status.name}")
    assert outcome.calls(Nfs4.READ) == []
    opens = [call for call in outcome.calls(Nfs4.OPEN) if _opens_its_own(call)]
    assert max(Counter(call.credentials.machine for call in opens).values()) == 1
    assert outcome.server.kept().clients <= 1
    assert outcome.server.kept().opens == 0


def test_clients_leave_a_server_in_its_grace_period(clients: Run) -> None:
    def wait(call: Call) -> Answer | None:
        return Answer(status=Status4.GRACE) if _opens_its_own(call) else None

    def during(server: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: sum(map(_opens_its_own, server.calls(Nfs4.OPEN))) > 4 * 4)
        process.signal(signal.SIGTERM)

    outcome = clients(wait, during=during)
    assert outcome.server.kept().clients == 0


def _no_port(fails_at: str) -> str:
    """Return a machine that has no port for some connections, by the number of those before."""
    return fails(CONNECT, f"is_tcp(fd) && {fails_at}", "EADDRNOTAVAIL")


@pytest.mark.parametrize("source", ["this machine's address", "127.0.0.9"])
def test_a_machine_without_ports_takes_fewer_clients(clients: Run, source: str) -> None:
    url = {"localaddr": source} if source[0].isdigit() else {}
    no_port = _no_port("calls++ >= 40")
    outcome = clients(version=3, nclients=64, before=no_port, url=url)
    opening, served = outcome.said()
    server = f"127.0.0.1:{outcome.server.nfs_port}"
    assert f"cannot open a connection: no port is free from {source} to {server}: " in opening
    assert opening.endswith("give more addresses (localaddr=A+B), use fewer connections, or wait")
    assert re.search(r": 3\d of 64 clients were served: use nclients=3\d$", served)
    assert outcome.result.status == 1


# Each socket has 20 ports (Linux before 6.3: all).
_TWENTY_PORTS = """
int socket(int family, int type, int protocol)
{
	enum { LOCAL_PORT_RANGE = 51 };
	uint32_t range = 47019u << 16 | 47000;
	int fd = REAL(socket)(family, type, protocol);

	setsockopt(fd, IPPROTO_IP, LOCAL_PORT_RANGE, &range, sizeof(range));
	return fd;
}
"""


def test_a_local_address_has_all_ports_for_each_server(clients: Run) -> None:
    """Beside the clients, names have connections."""
    outcome = clients(
        version=3, nclients=32, before=_TWENTY_PORTS, addresses=TWO_ADDRESSES, error=0,
        enter=NO_RESERVED_PORTS, url={"localaddr": "127.9.8.7"}, spread="roundrobin",
    )  # fmt: skip
    assert len({line.local for line in outcome.stats}) <= 20 < len(outcome.stats)


@pytest.mark.parametrize("version", [3, 4])
def test_a_server_that_takes_fewer_clients_is_told(clients: Run, version: int) -> None:
    """It closes the other connections: the first that fails comes before some that are served."""
    taken, for_names = 12, 2

    def full(call: Call) -> Answer | None:
        beyond = call.procedure not in set(Mount) and call.connection >= for_names + taken
        return Answer(act=False, reply=False, end="reset") if beyond else None

    outcome = clients(full, version=version, nclients=32, enter=NO_RESERVED_PORTS)
    opening, served = outcome.said()
    assert "Connection reset by peer: the server closes the connection: its log says" in opening
    assert f"{taken} of 32 clients were served: raise the server's limit of conn" in served
    assert f"(nfs-ganesha: RPC_Max_Connections), or use nclients={taken}" in served
    assert outcome.calls(Nfs.READ, Nfs4.READ) == []
    assert outcome.result.status == 1


def test_a_server_that_answers_no_client_is_told(clients: Run) -> None:
    """It takes their connections, and MOUNT has said where the file is."""
    told = "no reply to a NULL call: is the server starting, or overloaded?"
    clients(on(Nfs.NULL, NEVER), version=3, nclients=2, timeo=4, retrans=0, refused=told)


def test_why_clients_are_not_served_is_told(clients: Run) -> None:
    """A line for each cause: one gets no reply, one is put off, one has lost its connection.

    The last one's new connection gets no reply, either.
    """
    lost: list[int] = []

    def hinder(call: Call) -> Answer | None:
        machine = call.credentials.machine
        if call.procedure is not Nfs4.READ or machine == "m3":
            return None
        if machine == "m2":
            lost.append(call.connection)
            return NEVER if call.connection != lost[0] else Answer(reply=False, end="reset")
        return NEVER if machine == "m0" else Answer(status=Status4.DELAY)

    def during(server: ScriptedServer, process: FioProcess) -> None:
        eventually(lambda: len(server.calls(Nfs4.READ)) > 4 and len(set(lost)) > 1)
        process.signal(signal.SIGTERM)

    outcome = clients(hinder, during=during, iodepth=4)
    causes = sorted(one for one in outcome.said() if " not served: " in one)
    words = ["I/O that failed or was not answered", "connection lost (", "refused (READ: NFS4ERR_"]
    assert len(causes) == len(words)
    for cause, word in zip(causes, words, strict=True):
        assert f"clients: 1 not served: {word}" in cause


# --- what is due, by deadlines ---


def test_a_job_whose_first_connect_is_not_answered_ends_soon(clients: Run) -> None:
    """Also with reconnect=linux, whose later ones may take 90 s.

    No SYN of the second connection or a later one is answered: a listening socket waits for ever.
    """
    no_answer = fails(CONNECT, "is_tcp(fd) && calls++ && !listen(fd, 1)", "EINPROGRESS")
    outcome = clients(nclients=1, before=no_answer, reconnect="linux", iodepth=1)
    assert any("cannot connect to port" in line for line in outcome.said())
    assert outcome.result.status == 1


def test_clients_that_cannot_return_are_told_of_in_a_few_lines(clients: Run) -> None:
    """Beside those that do: a line before the first answer, and one after it.

    Of the connections behind the first 24, two fail, and one succeeds; a client tries two ports.
    """
    no_port = _no_port("calls++ >= 24 && calls % 3")
    hooks = (
        on(Nfs.READ, Answer(do=ScriptedServer.reset_connections), nth=16),
        on(Nfs.READ, NEVER, first=15),
    )
    machine: dict[str, Any] = {"before": no_port, "enter": NO_RESERVED_PORTS}
    outcome = clients(*hooks, version=3, nclients=16, iodepth=16, error=0, **machine)
    refusals = [line for line in outcome.said() if "cannot connect again: no port is" in line]
    assert 1 <= len(refusals) <= 2


def test_a_lost_connection_does_not_end_a_job_that_opens_its_file_again(clients: Run) -> None:
    """loops=: each client opens it anew. The server closes all connections at the first CLOSE."""
    closed: list[object] = []

    def close_all(server: ScriptedServer) -> None:
        if not closed:
            closed.append(True)
            server.reset_connections()

    outcome = clients(on(Nfs4.CLOSE, Answer(do=close_all)), loops=3, error=0)
    assert closed
    assert outcome.server.kept().clients == 0
    # Over a connection that is not bound, DESTROY_SESSION may be refused (RFC 8881, 18.37.3).
    sessions = {call.session for call in outcome.calls(Nfs4.READ)}
    destroyed, bound = (
        {(call.session, call.connection) for call in outcome.calls(one) if call.session in sessions}
        for one in (Nfs4.DESTROY_SESSION, Nfs4.BIND_CONN_TO_SESSION)
    )
    assert destroyed <= bound


def test_clients_that_wait_for_others_opens_renew_their_leases(clients: Run) -> None:
    """Or for their turn to open: all but one of the first 48 wait for the end of a grace period.

    That comes after three leases.
    """
    begun: list[float] = []

    def wait(call: Call) -> Answer | None:
        if not _opens_its_own(call) or call.credentials.machine == "m1":
            return None
        begun.append(time.monotonic())
        return Answer(status=Status4.GRACE) if begun[-1] < begun[0] + 3 else None

    outcome = clients(wait, nclients=52, terms=partial(Terms, lease=1), error=0)
    calls = outcome.calls(Nfs4.SEQUENCE, Nfs4.READ)
    waited = calls[: [call.procedure for call in calls].index(Nfs4.READ)]
    renewals = Counter(call.credentials.machine for call in waited)
    assert min(renewals[f"m{number}"] for number in range(52)) > 3


def _opens_again(opened: dict[str, int], call: Call) -> bool:
    """Count the client's own OPENs; true from its second file on."""
    if not _opens_its_own(call):
        return False
    machine = call.credentials.machine
    opened[machine] = opened.get(machine, 0) + 1
    return opened[machine] > 1


def test_io_ends_also_where_a_later_file_is_not_opened(clients: Run) -> None:
    """Client 1 is refused it, while others wait for theirs, and client 0 for a READ."""
    opened: dict[str, int] = {}

    def answer(call: Call) -> Answer | None:
        if _opens_again(opened, call):
            denies = call.credentials.machine == "m1"
            return Answer(status=Status4.ACCESS) if denies else Answer(delay=0.5)
        return Answer(delay=1) if call.procedure is Nfs4.READ else None

    ends: dict[str, Any] = {"error": errno.EACCES, "says": "NFS4ERR_ACCESS"}
    outcome = clients(answer, **_TWO, filesize="64k", size="128k", **ends)
    assert outcome.calls(Nfs4.READ)
    assert sum(one.errors for one in outcome.stats) == 0


def test_clients_that_have_sent_all_sleep_until_their_file_is_open(clients: Run) -> None:
    """The OPEN of the second file comes while WRITEs to the first wait for the socket."""
    opened: dict[str, int] = {}
    outcome = clients(
        lambda call: Answer(delay=2) if _opens_again(opened, call) else None,
        **_TWO, rw="write", client_depth=8, file_service_type="sequential", bs="4m",
        filesize="64m", size="128m", receive_buffer=4096, error=0,
    )  # fmt: skip
    assert sum(one.syscalls for one in outcome.stats) < 10_000


# --- a thousand ---


def _clients_of_sink(
    engine: Engine, folder: Path, sink: Sink, version: str, clients: int
) -> tuple[FioResult, int]:
    """Return what a job of a thousand's depth says, and its largest memory in KiB."""
    status = folder.with_suffix(".status")
    enter = ["sh", "-c", 'ulimit -n 2048; exec "$@"', "sh"]
    if os.geteuid() == 0:  # other tests need reserved ports
        enter = [*NO_RESERVED_PORTS, *enter]
    url = f"nfs://{sink.address}:{sink.port}/export?version={version}&mountport={sink.port}"
    options: dict[str, Option] = {
        "nclients": clients, "rw": "randread", "bs": "4k", "size": "64m", "iodepth": _MANY,
        "filename": "f", "exec_postrun": f"cp /proc/$PPID/status {status} #",
    }  # fmt: skip
    with Fio(engine, enter).start(folder, pool=url, options=options) as process:
        result = process.result(_SECONDS)
    done(result)
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())
    return result, int(peak)


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_a_thousand_clients(engine: Engine, build_dir: Path, tmp_path: Path, version: str) -> None:
    with Sink(folder=build_dir) as sink:
        _, base = _clients_of_sink(engine, tmp_path / "one", sink, version, 1)
        result, peak = _clients_of_sink(engine, tmp_path / "many", sink, version, _MANY)
        counts = sink.stop()
    assert (peak - base) / (_MANY - 1) < 16
    assert len({line.local for line in result.stats}) == _MANY
    assert all(line.read_ops for line in result.stats)
    if version == "4.1":
        ends = ("OPEN", "CLOSE", "DESTROY_SESSION", "DESTROY_CLIENTID")
        assert min(counts.nfs4[name] for name in ends) >= _MANY  # a slow one is asked twice
