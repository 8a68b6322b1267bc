# SPDX-License-Identifier: GPL-2.0-only
"""Names within a running job: files that are opened, made and removed one after the other.

Servers close connections that are idle, restart, and stall: hard, soft, timeo and retrans are to
hold for names as they do for data.
"""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable, Mapping

import pytest
from conftest import needs_privileges
from engine_helpers import done, eventually, refused, said
from scripted_jobs import (
    TWO_ADDRESSES,
    Case,
    Client,
    Outcomes,
    failed,
    first_of,
    fixture_of_runs,
    go,
)

from nfsmulti.fiorun import Option
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.processes import Process, run
from servers.scripted import (
    Answer,
    Call,
    Export,
    Hook,
    Mount,
    Nfs,
    Nfs4,
    Procedure,
    ScriptedServer,
    Status,
    Status4,
    on,
)

pytestmark = pytest.mark.sanitized

_FILES = 4
# Each is opened, read or written, closed and removed before the next.
_ONE_BY_ONE: Mapping[str, Option] = {
    "filename": ":".join(f"f{number}" for number in range(_FILES)),
    "file_service_type": "sequential",
    "openfiles": 1,
    "size": f"{_FILES * 16}k",
    "unlink": 1,
}
_V4 = {"version": "4.1"}
_LATE = Answer(delay=10.5)  # more than what a server has by default
_LOST = Answer(reply=False, end="reset")  # carried out
_ENDED = Answer(act=False, reply=False, end="close")
_UNHEARD = Answer(act=False, reply=False)
_LATER = Answer(act=False, status=Status.JUKEBOX)


def _idle() -> Hook:
    """Make a hook: the server ends all connections, also that for names, once a file is written."""
    written = set[str | None]()

    def hook(call: Call) -> Answer | None:
        if call.procedure is not Nfs.COMMIT or call.file in written:
            return None
        written.add(call.file)
        return Answer(do=ScriptedServer.reset_connections)

    return hook


# --- connections that are lost ---

_LOSSES: dict[str, Case] = {
    "idle": Case(_idle(), _ONE_BY_ONE, files={}),
    "idle, of two paths": Case(
        _idle(), {**_ONE_BY_ONE, "failover": 1, "spread": "roundrobin"}, files={},
        addresses=TWO_ADDRESSES,
    ),
    "LOOKUP unheard": Case(on(Nfs.LOOKUP, _ENDED, every=3), _ONE_BY_ONE, files={}),
    "CREATE lost": Case(on(Nfs.CREATE, _LOST, every=2), _ONE_BY_ONE, files={}),
    "REMOVE lost": Case(on(Nfs.REMOVE, _LOST, every=2), _ONE_BY_ONE, files={}),
    "REMOVE lost, then put off": Case(
        first_of(on(Nfs.REMOVE, _LOST, nth=1), on(Nfs.REMOVE, _LATER, nth=2)), _ONE_BY_ONE, files={}
    ),
    "REMOVE lost, soft": Case(
        on(Nfs.REMOVE, _LOST, every=2), {**_ONE_BY_ONE, "soft": 1}, files={}
    ),
}  # fmt: skip

losses = fixture_of_runs(_LOSSES)


@pytest.mark.parametrize("name", _LOSSES)
def test_a_lost_connection_for_names_is_no_error(losses: Outcomes, name: str) -> None:
    """Nor is a name that is there, or gone, where the answer to an earlier call was lost."""
    server, result = losses[name].server, losses[name].result
    done(result)
    assert not server.all_durable(), "not all were removed"
    assert not [line for line in said(result) if "cannot" in line]


# --- creates of which an earlier copy may have been carried out ---


def _theirs(server: ScriptedServer) -> None:
    server.create("a/f", b"theirs")


def _asked_anew() -> Hook:
    """Make a hook: the first session's connections end before the file's CREATE is sent."""
    sessions = 0

    def hook(call: Call) -> Answer | None:
        nonlocal sessions
        sessions += call.procedure is Nfs4.CREATE_SESSION
        ends = call.procedure is Nfs4.LOOKUP and sessions == 1 and call.nth > 3
        return _ENDED if ends else None

    return hook


_NO_EXCLUSIVE = Answer(act=False, status=Status.NOTSUPP)
_RESET = Answer(act=False, reply=False, end="reset")
_LOST_WITH_ITS_SESSION = Answer(reply=False, end="reset", do=ScriptedServer.end_sessions)
_READ: Mapping[str, Option] = {"rw": "read", "filename": "a/f"}
_CREATES: dict[str, tuple[bool, Case]] = {
    "NFSv3, GUARDED": (
        True,
        Case(first_of(on(Nfs.CREATE, _NO_EXCLUSIVE, nth=1), on(Nfs.CREATE, _LOST, nth=2)), _READ),
    ),
    "NFSv4.1, another session": (
        True,
        Case(on(Nfs4.OPEN, _LOST_WITH_ITS_SESSION, nth=1), _READ, url=_V4),
    ),
    "NFSv4.1, not heard": (
        False,
        Case(
            first_of(on(Nfs4.OPEN, _RESET, nth=1), on(Nfs4.OPEN, Answer(do=_theirs), nth=2)),
            _READ,
            url=_V4,
        ),
    ),
    "NFSv4.1, not heard, then told to wait": (
        False,
        Case(
            first_of(
                on(Nfs4.OPEN, _RESET, nth=1),
                on(Nfs4.OPEN, Answer(act=False, status=Status4.DELAY), nth=2),
                on(Nfs4.OPEN, Answer(do=_theirs), nth=3),
            ),
            _READ,
            url=_V4,
        ),
    ),
    "NFSv4.1, not sent": (
        False,
        Case(
            first_of(_asked_anew(), on(Nfs4.OPEN, Answer(do=_theirs), nth=1)),
            {**_READ, "timeo": 10, "retrans": 0},
            url=_V4,
        ),
    ),
}

creates = fixture_of_runs({name: case for name, (_, case) in _CREATES.items()})


@pytest.mark.parametrize("name", _CREATES)
def test_whose_a_file_is_that_a_create_finds(creates: Outcomes, name: str) -> None:
    """Ours where an earlier copy of the CREATE may have been carried out; else a stranger's."""
    ours, _ = _CREATES[name]
    server, result = creates[name].server, creates[name].result
    if ours:
        done(result)
        assert len(server.content("a/f")) == 64 << 10
    else:
        failed(result, "does not change an existing file", error=errno.EINVAL)
        assert server.content("a/f") == b"theirs"


def test_hard_tells_of_a_server_that_goes_between_two_files(client: Client) -> None:
    going = on(Nfs.CREATE, Answer(reply=False, do=go), nth=2)
    with ScriptedServer(going) as server, client.start(server, **_ONE_BY_ONE) as process:
        told = process.folder / "stderr"
        eventually(lambda: "server not responding, still trying" in told.read_text())
        process.signal(signal.SIGTERM)
        assert client.finish(process).status


def test_a_server_that_goes_before_the_first_file_is_open_ends_the_job(client: Client) -> None:
    """Nothing has begun: it is asked over one more connection, which cannot be had."""
    with ScriptedServer(on(Nfs.LOOKUP, Answer(reply=False, do=go), nth=1)) as server:
        refused(client(server, rw="read", filename="r"), "cannot find", "Connection refused")


# --- servers that stall ---


def _silent(*procedures: Procedure, first: int | None = None) -> Hook:
    """Make a hook: these calls, or the first few, have no answer once a file is read or written."""
    asked = list[Call]()
    begun = False

    def hook(call: Call) -> Answer | None:
        nonlocal begun
        begun = begun or call.procedure in (Nfs.READ, Nfs.COMMIT, Nfs4.COMMIT)
        if not begun or call.procedure not in procedures:
            return None
        asked.append(call)
        return _UNHEARD if first is None or len(asked) <= first else None

    return hook


_SHORT: Mapping[str, Option] = {**_ONE_BY_ONE, "timeo": 5, "retrans": 0}
# Each path is given up after 5 s, and the last one nevertheless asked again.
_ALL_SILENT: Mapping[str, Option] = {**_SHORT, "failover": 1, "spread": "roundrobin"}
_PATIENT: Mapping[str, Option] = {"timeo": 70, "retrans": 1}
_THERE = {f"f{number}": bytes(16 << 10) for number in range(_FILES)}

# The server is silent for longer than 5 s, which names once had at the least, or than 10 s.
_STALLS: dict[str, Case] = {
    "MNT": Case(on(Mount.MNT, _LATE, nth=1), _PATIENT),
    "EXCHANGE_ID": Case(on(Nfs4.EXCHANGE_ID, _LATE, nth=1), _PATIENT, url=_V4),
    "LOOKUP to open, of all paths": Case(
        _silent(Nfs.LOOKUP, first=2), {**_ALL_SILENT, "rw": "read"}, files=_THERE,
        addresses=TWO_ADDRESSES,
    ),
    "the first LOOKUP, soft": Case(
        on(Nfs.LOOKUP, Answer(delay=2.5), nth=1), {"soft": 1, "timeo": 20, "retrans": 0}
    ),
    "LOOKUP": Case(_silent(Nfs.LOOKUP, first=2), _SHORT),
    "REMOVE": Case(_silent(Nfs.REMOVE, first=2), _SHORT),
    "OPEN": Case(_silent(Nfs4.OPEN, first=4), _SHORT, url=_V4),
}  # fmt: skip

stalls = fixture_of_runs(_STALLS)


@pytest.mark.parametrize("name", _STALLS)
def test_a_server_that_stalls_is_waited_for(stalls: Outcomes, name: str) -> None:
    """Within a job by `hard`; before the first file is open by what timeo and retrans add up to."""
    done(stalls[name].result)


@pytest.mark.parametrize(
    ("procedure", "url"),
    [(Nfs.LOOKUP, ScriptedServer.url), (Nfs4.OPEN, ScriptedServer.url4)],
    ids=["NFSv3", "NFSv4.1"],
)
def test_hard_asks_for_a_name_until_a_signal_comes(
    client: Client,
    server: ScriptedServer,
    procedure: Procedure,
    url: Callable[[ScriptedServer], str],
) -> None:
    server.hooks.append(_silent(procedure))
    job = {**_ONE_BY_ONE, "timeo": 5, "retrans": 0}
    with client.start(server, pool=url(server), **job) as process:
        server.wait_for(lambda: len(server.calls(Nfs.COMMIT, Nfs4.COMMIT)) > 0)
        before = len(server.calls(procedure))
        server.wait_for(lambda: len(server.calls(procedure)) > before + 2)
        process.signal(signal.SIGTERM)
        result = client.finish(process)
    assert result.status not in (0, None)
    assert "still trying" in result.messages


# --- odd servers ---


def test_a_server_of_small_transfers(client: Client) -> None:
    """An rtmax below 8 KiB is one that the data has to fit."""
    with ScriptedServer(export=Export(rtmax=4096, wtmax=2048)) as server:
        done(client(server, verify="crc32c"))
        assert {call.count for call in server.calls(Nfs.WRITE)} == {2048}


_SERVE = """
import signal
from servers.scripted import ScriptedServer
with ScriptedServer(addresses=["::"], nfs_port=2049, mount_port=2050):
    signal.pause()
"""


def test_a_link_local_address(client: Client, server: ScriptedServer) -> None:
    """With its zone; the server is one of a network of its own."""
    needs_privileges()
    script = f"""\
ip link set lo up
ip address add fe80::1/64 dev lo
exec {sys.executable} -c '{_SERVE}'
"""
    path = {"PYTHONPATH": str(PYTHON_TESTS)}
    with Process(["unshare", "--net", "--", "sh", "-ec", script], env=path) as network:
        enter = ["nsenter", f"--target={network.pid}", "--net", "--"]
        eventually(lambda: ":2050" in run([*enter, "ss", "-Hltn"], timeout=60).stdout)
        for zone in ("%lo", "%25lo"):
            pool = f"nfs://[fe80::1{zone}]/export?nfsport=2049&mountport=2050"
            done(client(server, pool=pool, enter=enter))
