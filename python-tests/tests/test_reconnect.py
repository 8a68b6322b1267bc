# SPDX-License-Identifier: GPL-2.0-only
"""A connection that is lost or silent: when it is replaced, and where the next one comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from conftest import needs_privileges
from engine_helpers import done, refused, said
from scripted_jobs import KIB, NEVER, SECONDS, Client, Options, preloaded, start_fio

from nfsmulti.fiorun import Engine
from servers.scripted import DATA, DATA4, Answer, Mount, Nfs, ScriptedServer, Status, on

pytestmark = pytest.mark.sanitized


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_new_connection_comes_from_the_same_port(
    client: Client, server: ScriptedServer, end: Literal["reset", "close"]
) -> None:
    """By it knfsd's reply cache knows a WRITE that is sent again."""
    lose = Answer(reply=False, end=end)
    server.hooks.append(on(Nfs.WRITE, lose, nth=5))
    server.hooks.append(on(Nfs.WRITE, lose, nth=12))
    result = client(server, nconnect=2, spread="roundrobin")
    done(result)
    assert sum(line.reconnects for line in result.stats) == 2
    calls = server.calls(*DATA)
    assert len({call.connection for call in calls}) == 4
    assert len({call.client for call in calls}) == 2


def test_local_addresses_do_not_change_with_a_new_connection(
    client: Client, server: ScriptedServer
) -> None:
    server.hooks.append(on(Nfs.WRITE, Answer(reply=False, end="reset"), nth=5))
    pool = server.pool(localaddr="127.0.0.8+127.0.0.9")
    done(client(server, pool=pool))
    assert {call.client[0] for call in server.calls(*DATA)} == {"127.0.0.8"}


def test_a_null_reply_may_come_in_pieces(client: Client, server: ScriptedServer) -> None:
    """Not even its first, of 8 bytes, is a reply that nobody waits for."""
    server.hooks.append(on(Nfs.NULL, Answer(chunk=8, pause=0.05)))
    server.hooks.append(on(Nfs.WRITE, NEVER, nth=5))
    result = client(server, failover=1, timeo=30, nconnect=2, spread="roundrobin")
    done(result)
    assert [call for call in server.calls(Nfs.NULL) if call.connection > 0], "nobody was asked"
    assert sum(line.stale_replies for line in result.stats) == 0


def test_a_connection_that_brings_bytes_is_kept(client: Client, server: ScriptedServer) -> None:
    """A long reply comes slowly: what waits behind it is no reason to connect anew."""
    server.create("f", bytes(64 * KIB))
    # For longer than the second call and its retransmission are given, 1.2 s and 2.4 s.
    server.hooks.append(on(Nfs.READ, Answer(chunk=256, pause=0.3), nth=1))
    result = client(server, rw="read", iodepth=2, timeo=12, retrans=1)
    done(result)
    assert sum(line.reconnects for line in result.stats) == 0


# A kernel that takes the first connections, and then refuses the next few.
_FULL = """\
#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	static atomic_int added;
	int number = operation == EPOLL_CTL_ADD ? ++added : 0;

	if (number > CONNECTIONS && number <= CONNECTIONS + FAILURES) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}
"""


@pytest.mark.parametrize("failures", [4, 1 << 20])
def test_a_connection_that_epoll_does_not_take(
    engine: Engine, server: ScriptedServer, tmp_path: Path, failures: int
) -> None:
    """It is asked again, and the replies are seen meanwhile."""
    nconnect = 2
    server.hooks.append(on(Nfs.WRITE, Answer(reply=False, end="reset"), nth=5))
    source = _FULL.replace("CONNECTIONS", str(nconnect)).replace("FAILURES", str(failures))
    full, folder = preloaded(engine, tmp_path, source), tmp_path / "fio"
    options = {"nconnect": nconnect, "spread": "roundrobin", "iodepth": 2}
    with start_fio(full, folder, server.pool(), (), options) as process:
        result = process.result(SECONDS)
    done(result)
    words = "cannot add a connection to epoll: No space left"
    assert sum(words in line for line in said(result)) == 1


# --- what a process remembers ---


@pytest.mark.parametrize("thread", [0, 1])
def test_all_jobs_share_one_answer_of_mount(
    client: Client, server: ScriptedServer, thread: int
) -> None:
    done(client(server, numjobs=8, thread=thread))
    assert len(server.calls(Mount.MNT)) == 1


def test_mount_is_asked_anew_where_its_answer_is_stale(
    client: Client, server: ScriptedServer
) -> None:
    """The job asks for the limits of the root that fio has got before it."""
    server.hooks.append(on(Nfs.FSINFO, Answer(status=Status.STALE), nth=2))
    done(client(server))
    assert len(server.calls(Mount.MNT)) == 2


def test_localaddr_is_not_mounts(client: Client, server: ScriptedServer) -> None:
    """Of which the line tells where MOUNT is refused."""
    server.hooks.append(on(Mount.MNT, Answer(status=Status.ACCES)))
    assert "localaddr" in refused(client(server, pool=server.pool(localaddr="127.0.0.8")))
    assert "localaddr" not in refused(client(server))


# A machine whose reserved ports are all taken, for as many tries as are told; and then it is later.
_TAKEN = """\
#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int *tries;

__attribute__((constructor)) static void share(void)
{
	tries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	unsigned int port = ntohs(((const struct sockaddr_in *)address)->sin_port);

	if (port >= 512 && port < 1024 && ++*tries <= TRIES) {
		errno = EADDRINUSE;
		return -1;
	}
	return (int)syscall(SYS_bind, fd, address, length);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int error = (int)syscall(SYS_clock_gettime, clock, now);

	if (tries && *tries >= TRIES)
		now->tv_sec += LATER;
	return error;
}
"""


@pytest.mark.parametrize(("thread", "later", "reserved"), [(0, 0, False), (1, 20, True)])
def test_reserved_ports_that_are_taken_are_not_tried_by_each_connection(
    engine: Engine, server: ScriptedServer, tmp_path: Path, thread: int, later: int, reserved: bool
) -> None:
    """The first one tries all 512; the others of all jobs look again some seconds later."""
    needs_privileges()
    source = _TAKEN.replace("TRIES", "512").replace("LATER", str(later))
    taken, folder = preloaded(engine, tmp_path, source), tmp_path / "fio"
    options: Options = {"nconnect": 4, "spread": "roundrobin", "numjobs": 4, "thread": thread}
    with start_fio(taken, folder, server.pool4(), (), options) as process:
        done(process.result(SECONDS))
    calls = server.calls(*DATA4)
    assert len({call.connection for call in calls}) == 16
    assert {call.client[1] < 1024 for call in calls} == {reserved}


# A client that is not run for 20 s, in the nth wait for something.
_STANDS_STILL = """\
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long still;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int error = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += still;
	return error;
}

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
@pytest.mark.parametrize("nth", range(1, 7))
def test_a_slow_client_is_no_silent_server(
    engine: Engine, server: ScriptedServer, tmp_path: Path, version: int, nth: int
) -> None:
    """For whom it has ten seconds: MOUNT, names, connections that open."""
    still = preloaded(engine, tmp_path, _STANDS_STILL.replace("NTH", str(nth)))
    with start_fio(still, tmp_path / "fio", server.pool_of(version), (), {}) as process:
        result = process.result(SECONDS)
    done(result)
    assert said(result) == []
