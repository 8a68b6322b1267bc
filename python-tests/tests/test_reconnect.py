# SPDX-License-Identifier: GPL-2.0-only
"""A connection that is lost or silent: when it is replaced, and where the next one comes from."""

import threading
from pathlib import Path
from typing import Literal

import pytest
from conftest import FioRunner, needs_privileges
from engine_helpers import done, refused, said
from scripted_jobs import BLOCKS, TWO_ADDRESSES, Options, Run
from stand_ins import BIND, CONNECT, EPOLL_CTL, clock_ahead, fails

from nfsmulti.lab.tls import Certificates
from servers.scripted import DATA, DATA4, Answer, Call, Mount, Nfs, ScriptedServer, Status, on

pytestmark = pytest.mark.sanitized

_TURNS: Options = {"nconnect": 2, "spread": "roundrobin"}


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_new_connection_comes_from_the_same_port(
    job: Run, end: Literal["reset", "close"]
) -> None:
    """By it knfsd's reply cache knows a WRITE that is sent again; and from the same address."""
    lose = Answer(reply=False, end=end)
    url = {"localaddr": "127.0.0.8+127.0.0.9"}
    ran = job(on(Nfs.WRITE, lose, nth=5), on(Nfs.WRITE, lose, nth=12), url=url, **_TURNS)
    assert sum(line.reconnects for line in ran.stats) == 2
    calls = ran.calls(*DATA)
    assert len({call.connection for call in calls}) == 4
    places = {call.client for call in calls}
    assert sorted(address for address, _ in places) == ["127.0.0.8", "127.0.0.9"]


def test_a_connection_that_brings_bytes_is_kept(job: Run) -> None:
    """A long reply comes slowly: what waits behind it is no reason to connect anew."""
    # For longer than the second call and its retransmission are given, 0.6 s and 1.2 s.
    slow = on(Nfs.READ, Answer(chunk=256, pause=0.15), nth=1)
    ran = job(slow, rw="read", filename="r", iodepth=2, timeo=6, retrans=1)
    assert sum(line.reconnects for line in ran.stats) == 0


class _Slowly(threading.Event):
    """Lets the server read a part ten times a second at most."""

    def wait(self, timeout: float | None = None) -> bool:
        return not super().wait(0.1)


@pytest.mark.timing
def test_a_connection_that_takes_bytes_is_kept(job: Run) -> None:
    """A probe waits behind the data of WRITEs, of which the server takes a part at a time.

    Twice as long as a path without an answer may be silent, the data is on its way.
    """

    def read_slowly(call: Call) -> Answer | None:
        slow = call.procedure is Nfs.FSINFO and call.file != ""  # what comes last before the data
        return Answer(do=lambda server: setattr(server, "reading", _Slowly())) if slow else None

    large: Options = {"bs": "1m", "size": "3m", "iodepth": 3, "timeo": 20, "failover": 1}
    ran = job(read_slowly, addresses=TWO_ADDRESSES, receive_buffer=64 << 10, **large)
    assert [line.reissues for line in ran.stats] == [0, 0]


# --- failover=1: what needs names; the rest is in test_scenarios_calls.py ---


def test_a_path_that_is_dead_from_the_start(client: FioRunner) -> None:
    """The first one, which is asked first for names; another is in the fault matrix."""
    first, second = TWO_ADDRESSES
    with ScriptedServer(addresses=TWO_ADDRESSES) as server:
        server.refuse(first)
        result = client(pool=server.pool(), failover=1, spread="stripe", verify="crc32c")
    done(result)
    assert {call.server[0] for call in server.calls(Nfs.WRITE)} == {second}
    assert any(f"{first}:" in line and "cannot reach port" in line for line in said(result))


def test_a_path_that_takes_no_connection_for_data(job: Run) -> None:
    """The second one, which refuses connections behind its first for names."""
    first, second = TWO_ADDRESSES

    def refuse(call: Call) -> Answer | None:
        names = call.procedure is Nfs.FSINFO and call.server[0] == second
        return Answer(do=lambda server: server.refuse(second)) if names else None

    ran = job(refuse, addresses=TWO_ADDRESSES, failover=1, **_TURNS)
    assert {call.server[0] for call in ran.calls(Nfs.WRITE)} == {first}
    assert sum(f"{second}:" in line and "does not answer" in line for line in ran.said()) == 1


# --- connections that cannot be had ---


@pytest.mark.parametrize(
    ("connections", "failures"), [(_TURNS, 4), ({"nclients": 2}, 1 << 20)], ids=["again", "never"]
)
def test_a_connection_that_epoll_does_not_take(
    job: Run, connections: Options, failures: int
) -> None:
    """It is asked again. Replies are seen long before timeo, when calls would be sent again."""
    lost = on(Nfs.WRITE, Answer(reply=False, end="reset"), nth=5)
    beyond = f"operation == EPOLL_CTL_ADD && calls++ >= 2 && calls <= 2 + {failures}"
    full = fails(EPOLL_CTL, beyond, "ENOSPC")
    ran = job(lost, before=full, iodepth=2, timeo=20, **connections)
    assert "cannot add a connection to epoll: No space left" in ran.result.messages
    assert len(ran.calls(Nfs.WRITE)) == BLOCKS + 1


@pytest.mark.parametrize("xprtsec", ["none", "tls"])
def test_a_machine_without_an_address_is_told_so(
    client: FioRunner, tmp_path: Path, xprtsec: str
) -> None:
    """It has no network, so no ::1 either, and all ports."""
    tls = xprtsec == "tls"
    options: Options = Certificates(tmp_path).options(xprtsec) if tls else {}
    enter = ["unshare", "--map-root-user", "--net"]
    alone = client(pool="nfs://[::1]/x?version=4.1", enter=enter, **options)
    refused(alone, "Cannot assign requested address: this machine has no address of the server's")


# --- what a process remembers ---


@pytest.mark.parametrize("thread", [0, 1])
def test_all_jobs_share_one_answer_of_mount(job: Run, thread: int) -> None:
    assert len(job(numjobs=8, thread=thread).calls(Mount.MNT)) == 1


def test_localaddr_is_not_mounts(client: FioRunner, server: ScriptedServer) -> None:
    """Of which the line tells where MOUNT is refused."""
    server.hooks.append(on(Mount.MNT, Answer(status=Status.ACCES)))
    assert "localaddr" in refused(client(pool=server.pool(localaddr="127.0.0.8")))
    assert "localaddr" not in refused(client(pool=server.pool()))


# All jobs count the tries at reserved ports, of which 512 are taken.
_TAKEN = """\
static atomic_int *tries;

__attribute__((constructor)) static void share(void)
{
	tries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int taken(const struct sockaddr *address)
{
	unsigned int port = ntohs(((const struct sockaddr_in *)address)->sin_port);

	return port >= 512 && port < 1024 && ++*tries <= 512;
}
"""


@pytest.mark.parametrize(("thread", "later", "reserved"), [(0, 0, False), (1, 20, True)])
def test_reserved_ports_that_are_taken_are_not_tried_by_each_connection(
    job: Run, thread: int, later: int, reserved: bool
) -> None:
    """The first one tries all 512; the others of all jobs look again some seconds later."""
    needs_privileges()
    taken = _TAKEN + fails(BIND, "taken(address)", "EADDRINUSE")
    taken += clock_ahead(f"tries && *tries >= 512 ? {later} : 0")
    jobs: Options = {"nconnect": 4, "spread": "roundrobin", "numjobs": 4, "thread": thread}
    calls = job(before=taken, version=4, **jobs).calls(*DATA4)
    assert len({call.connection for call in calls}) == 16
    assert {call.client[1] < 1024 for call in calls} == {reserved}


def test_a_reserved_port_in_time_wait_is_followed_by_the_next(job: Run) -> None:
    """A connection to the server has the first one that is tried."""
    needs_privileges()
    in_time_wait = fails(CONNECT, "port_of(fd) && !calls++", "EADDRNOTAVAIL")
    calls = job(before=in_time_wait, version=4).calls()
    assert all(call.client[1] < 1024 for call in calls)


# A client that is not run for 20 s, in the nth wait for something.
_STANDS_STILL = """\
static long still;

int poll(struct pollfd *polls, nfds_t count, int timeout)
{
	static int waits;

	if (timeout == 100 && ++waits == NTH) {
		still = 20;
		for (nfds_t i = 0; i < count; i++)
			polls[i].revents = 0;
		return 0;
	}
	return (int)syscall(SYS_poll, polls, count, timeout);
}
"""


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("nth", [1, 3, 6])
def test_a_slow_client_is_no_silent_server(job: Run, version: int, nth: int) -> None:
    """For whom it has ten seconds: MOUNT, names, connections that open."""
    stands_still = _STANDS_STILL.replace("NTH", str(nth)) + clock_ahead("still")
    job(before=stands_still, version=version, quiet=True)
