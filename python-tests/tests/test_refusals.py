# SPDX-License-Identifier: GPL-2.0-only
"""What servers refuse, as users are told, and who calls them from where."""

from __future__ import annotations

import errno
import os
import random
import struct
from pathlib import Path

import pytest
from conftest import missing
from engine_helpers import done, refused, said
from scripted_jobs import (
    BOTH,
    SECONDS,
    Case,
    Client,
    Outcomes,
    failed,
    fixture_of_runs,
    preloaded,
    read_and_write,
    start_fio,
    undisturbed,
)

from nfsmulti.errors import MissingError
from nfsmulti.fiorun import Engine, FioResult
from servers.scripted import (
    DATA,
    SOUND,
    AcceptStat,
    Answer,
    AuthStat,
    Call,
    Mount,
    Nfs,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status,
    Status4,
    Terms,
    accepted,
    denied,
    mark,
    on,
    reserved_ports_only,
    rpc_mismatch,
)

pytestmark = pytest.mark.sanitized


# --- refusals ---

# Their names and errnos are in test_codec.py, and so are those of what RPC says.
_STATUSES: dict[int, int] = {Status.NOSPC: errno.ENOSPC, 12345: errno.EIO}

statuses = fixture_of_runs(
    {str(status): read_and_write(on(BOTH, Answer(status=status), nth=5)) for status in _STATUSES}
)


@pytest.mark.parametrize(("status", "error"), _STATUSES.items())
def test_statuses_are_reported_as_such(statuses: Outcomes, status: int, error: int) -> None:
    server, result = statuses[str(status)].server, statuses[str(status)].result
    word = "NFS3ERR_NOSPC" if status == Status.NOSPC else "an unknown nfsstat3"
    path, reason = f"127.0.0.1:{server.nfs_port}:/export", os.strerror(error)
    of_fio = [f"{reason}: {side} offset=16384" for side in ("read", "write")]
    failed(result, f'{path}: READ of "r" at 16384: {reason}: {word}', *of_fio, error=error)


_NAMES: dict[str, tuple[Procedure, Status, int]] = {
    "MNT ACCES": (Mount.MNT, Status.ACCES, errno.EACCES),
    "MNT NOENT": (Mount.MNT, Status.NOENT, errno.EINVAL),  # ENOENT is of a file
    "LOOKUP STALE": (Nfs.LOOKUP, Status.STALE, errno.ESTALE),
    "CREATE ROFS": (Nfs.CREATE, Status.ROFS, errno.EROFS),
    "CREATE NOSPC": (Nfs.CREATE, Status.NOSPC, errno.ENOSPC),
}

names = fixture_of_runs(
    {
        name: Case(on(procedure, Answer(status=status)))
        for name, (procedure, status, _) in _NAMES.items()
    }
)


@pytest.mark.parametrize("name", _NAMES)
def test_statuses_of_names_are_reported_as_such(names: Outcomes, name: str) -> None:
    _, status, error = _NAMES[name]
    failed(names[name].result, f"ERR_{status.name}", error=error)


def _stale_root(call: Call) -> Answer | None:
    by_root = call.procedure is Nfs.LOOKUP or (call.procedure is Nfs4.PUTFH and not call.file)
    return Answer(act=False, status=Status.STALE) if by_root else None


def test_an_export_that_is_gone_is_no_missing_file(client: Client, client4: Client) -> None:
    """Its handle is stale, and its path leads nowhere: nothing says that the file is not there."""
    gone = on((Mount.MNT, Nfs4.LOOKUP), Answer(act=False, status=Status.NOENT), after=1)
    for run in (client, client4):
        with ScriptedServer(_stale_root, gone) as server:
            server.create("f", bytes(64 * 1024))
            failed(run(server), "the server has forgotten the export", error=errno.ESTALE)
            assert not server.calls(Nfs.CREATE)
            assert not server.calls(Nfs4.OPEN)


def test_an_export_that_is_closed_has_no_remedy_for_a_file(client: Client) -> None:
    closed = on(Mount.MNT, Answer(act=False, status=Status.ACCES), after=1)
    with ScriptedServer(_stale_root, closed) as server:
        server.create("f", bytes(64 * 1024))
        result = client(server)
        failed(result, "the server has forgotten the export", error=errno.EACCES)
        assert "xprtsec" not in result.messages


def test_a_file_that_is_stale_is_no_stale_export(client: Client) -> None:
    """It is removed between its exclusive CREATE and the SETATTR that completes it."""
    gone = on(Nfs.SETATTR, Answer(act=False, status=Status.STALE))
    with ScriptedServer(gone) as server:
        failed(client(server, filename="f", rw="write"), "ERR_STALE", error=errno.ESTALE)
        assert len(server.calls(Mount.MNT)) == 1


def test_a_directory_that_is_there_is_not_made(client: Client, server: ScriptedServer) -> None:
    """A server may check the permission to make it first: "a" belongs to somebody else."""
    server.create("a/x")

    def refuse(call: Call) -> Answer | None:
        own = call.procedure is Nfs.MKDIR and call.file == "a"
        return Answer(status=Status.ACCES) if own else None

    server.hooks.append(refuse)
    done(client(server, filename="a/b/f"))
    assert [call.file for call in server.calls(Nfs.MKDIR)] == ["a/b"]


_REFUSALS: dict[str, tuple[bytes, int, str]] = {
    "AUTH_TOOWEAK": (denied(AuthStat.TOOWEAK), errno.EACCES, "it may want a reserved source port"),
    "RPC_MISMATCH": (rpc_mismatch(3, 4), errno.EPROTONOSUPPORT, "RPC versions 3 to 4, not 2"),
    "PROG_MISMATCH": (
        accepted(AcceptStat.PROG_MISMATCH), errno.EPROTONOSUPPORT,
        "the server offers NFS versions 4 to 4, not 3 (PROG_MISMATCH): version= chooses another",
    ),
    "GARBAGE_ARGS": (
        accepted(AcceptStat.GARBAGE_ARGS), errno.EINVAL, "the server could not read the call",
    ),
}  # fmt: skip

refusals = fixture_of_runs(
    {
        name: read_and_write(on(BOTH, Answer(act=False, rpc=rpc), after=2))
        for name, (rpc, _, _) in _REFUSALS.items()
    }
)


def said_by(result: FioResult, job: str) -> list[str]:
    return [line for line in said(result) if line.startswith(f"nfsmulti: {job}: ")]


@pytest.mark.parametrize("name", _REFUSALS)
def test_calls_that_are_not_accepted(refusals: Outcomes, name: str) -> None:
    result, (_, error, words) = refusals[name].result, _REFUSALS[name]
    failed(result, error=error)
    for job, procedure in (("r", "READ"), ("w", "WRITE")):
        lines = said_by(result, job)
        assert f": {procedure}: " in lines[0]
        assert words in lines[0]
        assert name in lines[0]
        assert len(lines) == 1, "one line is enough, however many calls were outstanding"


# What a server says to NFSv4.1's first call.
_NO_CLIENT_IDS: dict[str, tuple[Terms, Answer, str]] = {
    "no NFSv4": (
        Terms(minors=()), SOUND,
        "the server offers NFS versions 3 to 3, not 4 (PROG_MISMATCH): version= chooses another",
    ),
    "no NFSv4.1": (
        Terms(minors=(2,)), SOUND,
        "NFS4ERR_MINOR_VERS_MISMATCH: the server does not serve this minor version: version= ",
    ),
    "AUTH_TOOWEAK": (
        Terms(), Answer(act=False, rpc=denied(AuthStat.TOOWEAK)),
        "the server denied the credentials (AUTH_TOOWEAK)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _NO_CLIENT_IDS)
def test_servers_that_refuse_a_client_id(client: Client, name: str) -> None:
    terms, answer, words = _NO_CLIENT_IDS[name]
    with ScriptedServer(on(Nfs4.EXCHANGE_ID, answer), terms=terms) as server:
        refused(client(server, pool=server.url4()), "/export: EXCHANGE_ID: ", words)
        assert not server.clients()


_ROOT, _PATH = "the server's root", '"export" of the export\'s path'
_ALLOWED = "Permission denied): does the export allow this host, this user and sec=sys?"


@pytest.mark.parametrize(
    ("operation", "status", "where", "words"),
    [
        (Nfs4.PUTROOTFH, Status4.ACCESS, _ROOT, _ALLOWED),
        (Nfs4.GETATTR, Status4.ACCESS, _ROOT, _ALLOWED),
        (Nfs4.LOOKUP, Status4.ACCESS, _PATH, _ALLOWED),
        (Nfs4.LOOKUP, Status4.NOENT, _PATH, "No such file or directory): use the path within"),
        (Nfs4.LOOKUP, Status4.SERVERFAULT, _PATH, " error)"),
    ],
)
def test_servers_that_refuse_their_root_or_the_export(
    client4: Client, operation: Nfs4, status: Status4, where: str, words: str
) -> None:
    with ScriptedServer(on(operation, Answer(status=status))) as server:
        line = refused(client4(server), f"/export: {where}: NFS4ERR_{status.name} (", words)
        assert ("?" in line, "pseudo" in line) == (words is _ALLOWED, "use the path" in words)


def test_the_version_as_an_option(client: Client, server: ScriptedServer) -> None:
    """On the command line under nfs(5)'s name: fio takes --version for itself."""
    pool = f"nfs://127.0.0.1:{server.nfs_port}/export"
    done(client(server, pool=pool, nfsvers="4.1"))
    assert len(server.calls(Nfs4.WRITE)) == 16
    assert not server.calls(*Nfs)
    words = ("version=4.0", "no sessions", "use 4.1")
    refused(client(server, pool=pool, nfsvers="4.0"), *words)


def test_nfsv4_ignores_the_port_of_mount(client: Client, server: ScriptedServer) -> None:
    """Said once, however many jobs and paths have one."""
    both = ",".join([server.url4(mountport=7)] * 2)
    for words in ({"pool": both}, {"pool": server.url(), "nfsvers": "4.1", "mountport": 7}):
        result = client(server, spread="roundrobin", numjobs=2, **words)
        done(result)
        (line,) = said(result)
        assert line.endswith("mountport= is ignored: NFSv4 has no MOUNT")
    assert not server.calls(*Mount)


_NO_RESERVED_PORTS = (
    "setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service", "--",
)  # fmt: skip


@pytest.mark.parametrize(
    "where", [DATA, (Nfs.LOOKUP,), (Mount.MNT,)], ids=["data", "names", "mount"]
)
def test_unprivileged_ports_are_refused(
    client: Client, server: ScriptedServer, where: tuple[Procedure, ...]
) -> None:
    first_free = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()
    if os.geteuid() or int(first_free) < 1024:
        pytest.skip("whether a port below 1024 is to be had cannot be chosen here")
    server.hooks.append(lambda call: reserved_ports_only(call) if call.procedure in where else None)
    done(client(server))
    assert {call.client[1] < 1024 for call in server.calls(*DATA)} == {True}
    refused(client(server, enter=_NO_RESERVED_PORTS), "reserved")


_BLAMED = "is that the export's path, and does it allow this host?"
_RESTARTED = "the connection was lost: did the server restart? Some end those of hosts"
_NO_VERSION, _NO_PROGRAM = (
    Answer(rpc=accepted(stat)) for stat in (AcceptStat.PROG_MISMATCH, AcceptStat.PROG_UNAVAIL)
)
# The answer to one procedure about names; words that tell of it.
_HOSTILE_NAMES: dict[str, tuple[Procedure, Answer, *tuple[str, ...]]] = {
    "MNT: an end": (Mount.MNT, Answer(reply=False, end="close"), _RESTARTED),
    "MNT: no such export": (Mount.MNT, Answer(status=Status.NOENT), "MNT3ERR_NOENT", _BLAMED),
    "MNT: a fault": (Mount.MNT, Answer(status=Status.SERVERFAULT), "MNT3ERR_SERVERFAULT"),
    "FSINFO: not for you": (Nfs.FSINFO, Answer(status=Status.ACCES), "NFS3ERR_ACCES", _BLAMED),
    "NFS: no version 3": (Nfs.FSINFO, _NO_VERSION, "mount: the server offers NFS versions"),
    "MOUNT: not there": (Mount.NULL, _NO_PROGRAM, "no MOUNT, on this port", "version=4.1"),
    "MNT: another RPC": (Mount.MNT, Answer(rpc=rpc_mismatch(3, 4))),
    "MNT: a record of 2 GiB": (Mount.MNT, Answer(raw=mark(2**31 - 1) + bytes(4096))),
    "LOOKUP: not for you": (Nfs.LOOKUP, Answer(status=Status.ACCES), "_ACCES: ", "xprtsec=tls"),
    "LOOKUP: garbage": (Nfs.LOOKUP, Answer(raw=random.Random(1).randbytes(5000))),
    "LOOKUP: half a reply": (Nfs.LOOKUP, Answer(cut=20, end="close")),
    "FSINFO: no results": (Nfs.FSINFO, Answer(results=b"")),
    "CREATE: no such attributes": (Nfs.CREATE, Answer(attributes=9)),
    "CREATE: a verifier too long": (
        Nfs.CREATE, Answer(rpc=struct.pack(">3I", 0, 0, 4000) + bytes(4004)),
    ),
}  # fmt: skip

hostile_names = fixture_of_runs({name: Case(on(*row[:2])) for name, row in _HOSTILE_NAMES.items()})


@pytest.mark.parametrize("name", _HOSTILE_NAMES)
def test_hostile_replies_about_names(hostile_names: Outcomes, name: str) -> None:
    server, (_, _, *words) = hostile_names[name].server, _HOSTILE_NAMES[name]
    cannot = f"127.0.0.1:{server.nfs_port}:/export: cannot "
    result = hostile_names[name].result
    assert result.status
    (line,) = (line for line in said(result) if cannot in line)
    assert all(word in line for word in words), line
    assert (_BLAMED in line) == (_BLAMED in words)
    assert not server.calls(*DATA)


_RDMA_DEVICE = """
#include <dlfcn.h>
#include <glob.h>
#include <string.h>

int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found)
{
	__typeof__(&glob) own = (__typeof__(&glob))dlsym(RTLD_NEXT, "glob");

	if (!strcmp(pattern, "/sys/class/infiniband/?*"))
		pattern = "/sys/class/net/?*";
	return own(pattern, flags, failed, found);
}
"""


def test_tls_is_no_remedy_over_rdma(engine: Engine, server: ScriptedServer, tmp_path: Path) -> None:
    server.hooks.append(on(Nfs.LOOKUP, Answer(status=Status.ACCES)))
    folder, engine = tmp_path / "fio", preloaded(engine, tmp_path, _RDMA_DEVICE)
    with start_fio(engine, folder, server.pool(), (), {"proto": "rdma"}) as process:
        line = refused(process.result(SECONDS))
    assert line.endswith("NFS3ERR_ACCES")


# --- who calls, and from where ---


def test_credentials(client: Client, server: ScriptedServer) -> None:
    """The caller's own groups go with its own user and group alone; with names as with data."""
    groups, enter = tuple(os.getgroups()[:16]), list[str]()
    if os.geteuid() == 0:
        groups, enter = (4, 5, 77777), ["setpriv", "--groups", "4,5,77777", "--"]
    undisturbed(client(server, enter=enter))
    (seen,) = {call.credentials for call in server.calls()}
    assert (seen.uid, seen.gid, seen.gids) == (os.geteuid(), os.getegid(), groups)
    assert seen.machine == os.uname().nodename[:64]
    undisturbed(client(server, pool=server.pool(uid=1234, gid=4294967294), enter=enter))
    (later,) = {call.credentials for call in server.calls()} - {seen}
    assert (later.uid, later.gid, later.gids) == (1234, 4294967294, ())


def test_of_many_groups_the_first_16_are_sent(client: Client, server: ScriptedServer) -> None:
    if os.geteuid() != 0:
        missing(MissingError("not root: groups cannot be set"))
    groups = tuple(range(1000, 1300))
    enter = ["setpriv", "--groups", ",".join(map(str, groups)), "--"]
    result = client(server, enter=enter, nconnect=2)
    done(result)
    (line,) = said(result)
    assert "you have 300 groups, of which the first 16 are sent" in line
    assert {call.credentials.gids for call in server.calls(*DATA)} == {groups[:16]}


def test_local_addresses_are_bound_in_turn(client: Client, server: ScriptedServer) -> None:
    addresses = "127.0.0.2+127.0.0.3"
    result = client(server, nconnect=4, spread="roundrobin", localaddr=addresses)
    undisturbed(result)
    first = sorted(server.calls(Nfs.WRITE), key=lambda call: call.offset)[:4]
    expected = ["127.0.0.2", "127.0.0.3"] * 2
    assert [call.client[0] for call in first] == expected
    assert len({call.client for call in first}) == 4
    assert [line.local.split(":")[0] for line in result.stats] == expected


def test_a_connection_that_the_server_closes(client4: Client, server: ScriptedServer) -> None:
    server.hooks.append(on(Nfs4.EXCHANGE_ID, Answer(reply=False, end="close")))
    line = refused(client4(server))
    assert f"cannot connect to port {server.nfs_port}: Connection reset by peer" in line
    assert line.endswith(": the server closes the connection: its log says why")


_UNREACHABLE = """
#include <errno.h>
#include <sys/socket.h>

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
	errno = EHOSTUNREACH;
	return -1;
}
"""


def test_a_connection_that_cannot_be_sent_over(
    engine: Engine, server: ScriptedServer, tmp_path: Path
) -> None:
    """The cause is told, as where receiving fails."""
    folder, pool = tmp_path / "fio", server.pool4()
    with start_fio(preloaded(engine, tmp_path, _UNREACHABLE), folder, pool, (), {}) as process:
        line = refused(process.result(SECONDS))
    assert f"cannot connect to port {server.nfs_port}: No route to host" in line
