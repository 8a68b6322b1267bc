# SPDX-License-Identifier: GPL-2.0-only
"""What servers refuse, as users are told, and who calls them from where."""

import errno
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from conftest import FioRunner, missing
from engine_helpers import refused, said
from scripted_jobs import (
    KIB,
    NO_RESERVED_PORTS,
    READING,
    Case,
    Options,
    Outcome,
    Run,
    case,
    runs,
    undisturbed,
)
from stand_ins import SEND, fails

from nfsmulti.errors import MissingError
from servers.scripted import (
    DATA,
    DATA4,
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

# The names and errnos of statuses are in test_codec.py, and so are those of what RPC says.


def _by_root(call: Call) -> bool:
    return call.procedure is Nfs.LOOKUP or (call.procedure is Nfs4.PUTFH and not call.file)


def _fails_behind(first: Nfs4, second: Nfs4) -> Case:
    """Make a case: an operation behind one that was carried out, in its compound, fails."""
    before: Procedure | None = None

    def hook(call: Call) -> Answer | None:
        nonlocal before
        fails = before is first and call.procedure is second
        before = call.procedure
        return Answer(act=False, status=Status4.SERVERFAULT) if fails else None

    return case(hook, version=4, error=errno.EREMOTEIO, says="NFS4ERR_SERVERFAULT")


def _gone(status: Status, handle: Status = Status.STALE, **words: object) -> Case:
    """Make a case: the export is not there any more, or closed, and its file is."""
    refused = Answer(act=False, status=handle)
    gone = on((Mount.MNT, Nfs4.LOOKUP), Answer(act=False, status=status), after=1)
    return case(
        lambda call: refused if _by_root(call) else None,
        gone,
        files={"f": bytes(64 << 10)},
        says="the server has forgotten the export",
        **words,
    )


@runs(
    {
        **{
            f"{procedure.name} {status.name}": case(
                on(procedure, Answer(status=status)), error=error, says=f"ERR_{status.name}"
            )
            for procedure, status, error in (
                (Nfs.LOOKUP, Status.STALE, errno.ESTALE),
                (Nfs.CREATE, Status.ROFS, errno.EROFS),
                (Nfs.CREATE, Status.NOSPC, errno.ENOSPC),
            )
        },
        **{
            f"MNT {status.name}": case(
                on(Mount.MNT, Answer(status=status)),
                error=error,
                says=(f"MNT3ERR_{status.name}", "is that the export's path"),
            )
            for status, error in (
                (Status.ACCES, errno.EACCES),
                (Status.NOENT, errno.EINVAL),  # ENOENT is of a file
                (Status.NOTDIR, errno.ENOTDIR),
                (Status.PERM, errno.EPERM),
            )
        },
        "OPEN, then GETFH": _fails_behind(Nfs4.OPEN, Nfs4.GETFH),
        "LOOKUP, then GETATTR": _fails_behind(Nfs4.GETFH, Nfs4.GETATTR),
        # A file is removed between its exclusive CREATE and the SETATTR that completes it.
        "SETATTR STALE": case(
            on(Nfs.SETATTR, Answer(act=False, status=Status.STALE)),
            error=errno.ESTALE,
            says="ERR_STALE",
            expected=lambda ran: len(ran.calls(Mount.MNT)) == 1,
        ),
        # An export's handle is stale, and its path leads nowhere: the file may be there.
        "a stale export": _gone(Status.NOENT, error=errno.ESTALE),
        "a bad handle": _gone(Status.NOENT, Status.BADHANDLE, error=errno.EBADF),
        "a stale export, v4": _gone(Status.NOENT, error=errno.ESTALE, version=4),
        "a closed export": _gone(Status.ACCES, error=errno.EACCES),
    }
)
def test_statuses_of_names_are_reported_as_such(ran: Outcome) -> None:
    assert ran.case.expected is None or ran.case.expected(ran)


def test_a_directory_that_is_there_is_not_made(job: Run) -> None:
    """A server may check the permission to make it first: "a" belongs to somebody else."""

    def refuse(call: Call) -> Answer | None:
        own = call.procedure is Nfs.MKDIR and call.file == "a"
        return Answer(status=Status.ACCES) if own else None

    ran = job(refuse, filename="a/b/f", files={"a/x": b""})
    assert [call.file for call in ran.calls(Nfs.MKDIR)] == ["a/b"]


def _forbidden(call: Call) -> Answer | None:
    asks = call.procedure in (Nfs.LOOKUP, Nfs4.LOOKUP)
    return Answer(act=False, status=Status.ACCES) if asks and call.name == "a" else None


# A file of the rest of the name is there.
_on_the_way = partial(case, filename="a/b/f", files={"b/f": bytes(64 * KIB)})
_MISSING: Options = {**READING, "allow_file_create": 0}
_missing = partial(_on_the_way, **_MISSING, error=errno.EINVAL, says='"a/b/f" does not exist')
_closed = partial(_on_the_way, _forbidden, error=errno.EACCES, says="Permission denied")


@runs(
    {
        "missing": _missing(),
        "missing, v4": _missing(version=4),
        "forbidden": _closed(),
        "forbidden, v4": _closed(version=4),
    }
)
def test_a_name_ends_at_a_directory_that_cannot_be_entered(ran: Outcome) -> None:
    """Whatever is behind it is not looked for in the directory before."""
    assert not ran.calls(*DATA, *DATA4, Nfs.CREATE, Nfs.MKDIR, Nfs4.CREATE)


_BLAMED = "is that the export's path, and does it allow this host?"
_CLOSES = "Connection reset by peer: the server closes the connection: its log says why"
_RESTARTED = "the connection was lost: did the server restart? Some servers close it"
_NO_PATH = "No such file or directory): use the path within"
_ALLOWED = "Permission denied): does the export allow this host, this user and this sec=?"
_ROOT, _PATH = "/export: the server's root: ", '/export: "export" of the export\'s path: '
_NO_NFS4 = "the server offers NFS versions 3 to 3, not 4 (PROG_MISMATCH): version= chooses another"
_NO_MINOR = "NFS4ERR_MINOR_VERS_MISMATCH: the server does not serve this minor version: version= "
_DENIED = Answer(act=False, rpc=denied(AuthStat.TOOWEAK))
_TOO_WEAK = "/export: EXCHANGE_ID: the server denied the credentials (AUTH_TOOWEAK)"
_TWO_GIB = Answer(sent=lambda _: mark(2**31 - 1) + bytes(4096))
_NO_VERSION, _NO_PROGRAM = (
    Answer(rpc=accepted(stat)) for stat in (AcceptStat.PROG_MISMATCH, AcceptStat.PROG_UNAVAIL)
)


def _tells(
    procedure: Procedure,
    answer: Answer | Status | Status4,
    *words: str,
    minors: Sequence[int] = (1, 2),
) -> Case:
    """Make a case: the answer to one procedure about names; words of the line that tells of it."""
    return case(
        on(procedure, answer if isinstance(answer, Answer) else Answer(status=answer)),
        version=4 if isinstance(procedure, Nfs4) else 3,
        terms=partial(Terms, minors=tuple(minors)),
        timeo=20,
        retrans=0,
        error=None,
        expected=words,
    )


@runs(
    {
        "MNT: an end": _tells(Mount.MNT, Answer(reply=False, end="close"), _RESTARTED),
        "MNT: no such export": _tells(Mount.MNT, Status.NOENT, "MNT3ERR_NOENT", _BLAMED),
        "MNT: a fault": _tells(Mount.MNT, Status.SERVERFAULT, "MNT3ERR_SERVERFAULT"),
        "FSINFO: not for you": _tells(Nfs.FSINFO, Status.ACCES, "NFS3ERR_ACCES", _BLAMED),
        "no NFSv3": _tells(Nfs.FSINFO, _NO_VERSION, "mount: the server offers NFS versions"),
        "no MOUNT": _tells(Mount.NULL, _NO_PROGRAM, "no MOUNT, on this port", "version=4.1"),
        "MNT: another RPC": _tells(Mount.MNT, Answer(rpc=rpc_mismatch(3, 4)), "cannot mount"),
        "MNT: 2 GiB": _tells(Mount.MNT, _TWO_GIB, "cannot mount"),
        "LOOKUP: not for you": _tells(Nfs.LOOKUP, Status.ACCES, "_ACCES: ", "xprtsec=tls"),
        "no NFSv4": _tells(Nfs4.EXCHANGE_ID, SOUND, _NO_NFS4, minors=()),
        "no NFSv4.1": _tells(Nfs4.EXCHANGE_ID, SOUND, _NO_MINOR, minors=(2,)),
        "AUTH_TOOWEAK": _tells(Nfs4.EXCHANGE_ID, _DENIED, _TOO_WEAK),
        "an end": _tells(
            Nfs4.EXCHANGE_ID, Answer(reply=False, end="close"), "cannot connect to port", _CLOSES
        ),
        # The cause is told, as where receiving fails.
        "it cannot be sent": case(
            before=fails(SEND, "1", "EHOSTUNREACH"),
            version=4,
            error=None,
            expected=("cannot connect to port", "No route to host"),
        ),
        "PUTROOTFH ACCESS": _tells(Nfs4.PUTROOTFH, Status4.ACCESS, _ROOT, _ALLOWED),
        "GETATTR ACCESS": _tells(Nfs4.GETATTR, Status4.ACCESS, _ROOT, _ALLOWED),
        "LOOKUP ACCESS": _tells(Nfs4.LOOKUP, Status4.ACCESS, _PATH, _ALLOWED),
        "LOOKUP NOENT": _tells(Nfs4.LOOKUP, Status4.NOENT, _PATH, _NO_PATH, "pseudo"),
        "LOOKUP SERVERFAULT": _tells(Nfs4.LOOKUP, Status4.SERVERFAULT, _PATH, "Remote I/O error)"),
    }
)
def test_what_a_server_refuses_is_told_in_one_line(ran: Outcome) -> None:
    """Nobody is asked whether the export allows this where that is not what was refused."""
    words = ran.case.expected
    assert ran.result.status not in (0, None)
    (line,) = (line for line in ran.said() if all(word in line for word in words))
    assert (_BLAMED in line or _ALLOWED in line) == (words[-1] in (_BLAMED, _ALLOWED))
    assert not ran.calls(*DATA, *DATA4)


def test_nfsv4_ignores_the_port_of_mount(client: FioRunner, server: ScriptedServer) -> None:
    """Said once, however many jobs and paths have one.

    On the command line the version has nfs(5)'s name: fio takes --version for itself.
    """
    both = ",".join([server.url(version=4, mountport=7)] * 2)
    for words in ({"pool": both}, {"pool": server.url(), "nfsvers": "4.1", "mountport": 7}):
        result = client.well(spread="roundrobin", numjobs=2, **words)
        (line,) = said(result)
        assert line.endswith("mountport= is ignored: NFSv4 has no MOUNT")
    assert not server.calls(*Mount, *Nfs)


@pytest.mark.parametrize(
    "where", [DATA, (Nfs.LOOKUP,), (Mount.MNT,)], ids=["data", "names", "mount"]
)
def test_unprivileged_ports_are_refused(job: Run, where: tuple[Procedure, ...]) -> None:
    first_free = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()
    if os.geteuid() or int(first_free) < 1024:
        pytest.skip("whether a port below 1024 is to be had cannot be chosen here")

    def hook(call: Call) -> Answer | None:
        return reserved_ports_only(call) if call.procedure in where else None

    assert {call.client[1] < 1024 for call in job(hook).calls(*DATA)} == {True}
    job(hook, enter=NO_RESERVED_PORTS, refused="reserved")


_RDMA_DEVICE = """
int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found)
{
	if (!strcmp(pattern, "/sys/class/infiniband/?*"))
		pattern = "/sys/class/net/?*";
	return REAL(glob)(pattern, flags, failed, found);
}
"""


def test_tls_is_no_remedy_over_rdma(job: Run) -> None:
    denies = on(Nfs.LOOKUP, Answer(status=Status.ACCES))
    ran = job(denies, before=_RDMA_DEVICE, proto="rdma", error=None)
    assert refused(ran.result).endswith("NFS3ERR_ACCES")


# --- who calls, and from where ---


def test_credentials(job: Run) -> None:
    """The caller's own groups go with its own user and group alone; with names as with data."""
    groups, enter = tuple(os.getgroups()[:16]), list[str]()
    if os.geteuid() == 0:
        groups, enter = (4, 5, 77777), ["setpriv", "--groups", "4,5,77777", "--"]
    own: dict[str, object] = {"uid": os.geteuid(), "gid": os.getegid(), "gids": groups}
    other: dict[str, object] = {"uid": 1234, "gid": 4294967294}
    for ids in ({}, other, {"uid": 1234}, {"gid": 4294967294}):
        ran = job(enter=enter, url=ids)
        undisturbed(ran.result)
        (seen,) = {call.credentials for call in ran.calls()}
        expected = {**own, **({"gids": ()} if ids else {}), **ids}
        assert {name: getattr(seen, name) for name in expected} == expected
        assert seen.machine == os.uname().nodename[:64]


def test_of_many_groups_the_first_16_are_sent(job: Run) -> None:
    if os.geteuid() != 0:
        missing(MissingError("not root: groups cannot be set"))
    groups = tuple(range(1000, 1300))
    ran = job(enter=["setpriv", "--groups", ",".join(map(str, groups)), "--"], nconnect=2)
    (line,) = ran.said()
    assert "you have 300 groups, of which the first 16 are sent" in line
    assert {call.credentials.gids for call in ran.calls(*DATA)} == {groups[:16]}
