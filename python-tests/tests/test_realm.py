# SPDX-License-Identifier: GPL-2.0-only
"""A lab's own Kerberos realm: tickets are to be had there, servers take them, and nothing stays."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from conftest import FioRunner, call_harness, or_skip, run_harness
from engine_helpers import done, refused

from nfsmulti.fiorun import Option
from nfsmulti.lab import Lab, commands
from nfsmulti.lab.kerberos import ENCTYPES, PROGRAMS, Kdc, Kerberos
from nfsmulti.lab.lab import LabState, free_ports
from nfsmulti.paths import LABS
from nfsmulti.processes import Completed, find, run

_SECONDS = 60.0


def _ask(kdc: Kdc, *argv: str) -> Completed:
    """Run one of Kerberos' programs as the realm's user."""
    return run(argv, timeout=_SECONDS, env={**kdc.environment, "LC_ALL": "C"})


def _log_in(kdc: Kdc) -> Completed:
    return _ask(kdc, "kinit", "-k", "-t", str(kdc.keytab), kdc.principal)


@pytest.fixture(params=ENCTYPES)
def kdc(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kdc]:
    """Yield one whose keys are all of one type."""
    with or_skip():
        for program in (*PROGRAMS, "kinit"):
            find(program)
    (port,) = free_ports("127.0.0.1", [0])
    kdc = Kdc(
        Kerberos(lifetime=300, enctypes=(request.param,)),
        "127.0.0.1",
        port,
        hosts=["127.0.0.1", "fd77::1"],
        folder=tmp_path / "kdc",
        enter=[],
        started=lambda _: None,
    )
    kdc.start()
    yield kdc
    kdc.stop()


def test_tickets_are_as_wanted(kdc: Kdc) -> None:
    """There is one for each server, by address and by name; their type and life are as asked."""
    _log_in(kdc).check()
    for host in ("127.0.0.1", "fd77::1", "server.test"):
        _ask(kdc, "kvno", "-S", "nfs", host).check()
    listed = _ask(kdc, "klist", "-e").check().stdout
    (enctype,) = kdc.config.enctypes
    assert set(re.findall(r"Etype \(skey, tkt\): (\S+), (\S+)", listed)) == {(enctype, enctype)}
    lives = re.findall(r"(\S+ \S+)  (\S+ \S+)  nfs/", listed)
    assert len(lives) == 3
    for life in lives:
        begin, end = (datetime.strptime(time, "%m/%d/%y %H:%M:%S") for time in life)
        assert 0 < (end - begin).total_seconds() <= 300


def test_a_kdc_stops_and_starts(kerberos: Lab) -> None:
    kdc = kerberos.kdc
    _log_in(kdc).check()
    kdc.stop()
    assert "Cannot contact any KDC" in _log_in(kdc).stderr
    kdc.start()
    _log_in(kdc).check()


@pytest.mark.parametrize(
    ("version", "words"), [(None, "(AUTH_TOOWEAK)"), ("4.1", "NFS4ERR_WRONGSEC")]
)
def test_an_export_may_take_kerberos_alone(
    kerberos: Lab, local_fio: FioRunner, version: str | None, words: str
) -> None:
    """The others take AUTH_SYS beside it."""
    job: dict[str, Option] = {"rw": "write", "bs": "4k", "size": "64k", "filename": "f"}
    done(local_fio(pool=kerberos.path(0, version=version), **job))
    secret = kerberos.path(0, export="secret", version=version)
    refused(local_fio(pool=secret, **job), words)


@pytest.mark.usefixtures("kerberos")
def test_the_printed_line_has_what_fio_needs() -> None:
    """And what it leads to is there until the lab ends, with its process."""
    name = f"realm{os.getpid()}"
    words = ["--id", name, "--addresses", "1", "--sec", "krb5p", "--local"]
    said = call_harness("lab", "start", *words).stdout
    try:
        (line,) = re.findall(r"^  try it +(.*)$", said, re.MULTILINE)
        settings = dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)
        assert settings["--security"] == "krb5p"
        kinit = ["kinit", "-k", "-t", settings["--keytab"], settings["--principal"]]
        env = {name: settings[name] for name in ("KRB5_CONFIG", "KRB5CCNAME")}
        run(kinit, timeout=_SECONDS, env=env).check()
        state = LabState.read(LABS / name)
        assert state is not None
        assert state.processes["kdc"].alive()
        asked = run_harness("lab", "exec", "--id", name, "--", "sh", "-c", "echo $POOL").check()
        assert f"&sec=krb5p&keytab={settings['--keytab']}&principal=alice%40" in asked.stdout
    finally:
        commands.stop(name, every=False)
    assert not state.processes["kdc"].alive()
    assert not Path(settings["--keytab"]).exists()
