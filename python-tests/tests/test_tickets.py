# SPDX-License-Identifier: GPL-2.0-only
"""Kerberos's tickets: what the doctor says of them, and those of a lab's own realm."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import kerberos_client
import pytest
from conftest import call_harness, run_harness
from kerberos_client import enter

from nfsmulti import tickets
from nfsmulti.lab import Lab, commands
from nfsmulti.lab.kerberos import Kdc, Kerberos
from nfsmulti.lab.lab import LabState
from nfsmulti.machine import Level
from nfsmulti.paths import LABS
from nfsmulti.pool import PoolPath
from nfsmulti.processes import run

_OTHER = "nfs/other@NFSMULTI.TEST"


@pytest.fixture
def realm(kerberos: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kdc:
    return enter(kerberos, tmp_path, monkeypatch).kdc


def _log_in(kdc: Kdc, *words: str) -> None:
    run(["kinit", *words, "-k", "-t", str(kdc.keytab), kdc.principal], timeout=60).check()


def _check(**words: Any) -> tuple[Level, str, str]:
    """Return what is found of a path with these arguments."""
    found = tickets.check(PoolPath("P", host="127.0.0.1", sec="krb5p", **words))
    return found.level, found.what, found.remedy or ""


def test_what_will_do(realm: Kdc, tmp_path: Path) -> None:
    """By a keytab, or by tickets that are there; nothing is added to these."""
    level, what, _ = _check(keytab=str(realm.keytab))
    assert level is Level.OK
    assert what.startswith("P: sec=krb5p: the ticket for nfs/127.0.0.1 lasts 23 h 5")
    assert what.endswith(" min; its key is aes256-cts-hmac-sha1-96")
    _log_in(realm)
    before = (tmp_path / "ccache").read_bytes()
    for name, shown in (("nfs@server.test", ""), ("nfs/server.test@NFSMULTI.TEST", "@NFS")):
        level, what, _ = _check(server_principal=name)
        assert level is Level.OK
        assert f"nfs/server.test{shown}" in what
    assert (tmp_path / "ccache").read_bytes() == before


def test_what_will_not(realm: Kdc, tmp_path: Path) -> None:
    keytab = str(realm.keytab)
    (tmp_path / "no keytab").write_text("no keytab\n")
    for words, said, remedy in (
        ({}, "No credentials cache found", "kinit USER@REALM"),
        ({"ccache": "KCM:"}, "KCM server", "name another cache"),
        ({"keytab": str(tmp_path / "no keytab")}, "table format", "give a keytab"),
        ({"keytab": str(tmp_path / "none")}, "not found", "that you may read"),
        ({"keytab": keytab, "principal": "bob"}, "no suitable keys for bob@", "klist -k"),
        ({"keytab": keytab, "server_principal": _OTHER}, f"credentials for {_OTHER}", "addprinc"),
    ):
        level, what, advice = _check(**words)
        assert (level, said in what, remedy in advice) == (Level.FAIL, True, True), (what, advice)
    realm.stop()
    level, what, advice = _check(keytab=keytab)
    assert (level, "is the KDC up?" in advice) == (Level.FAIL, True), what


def test_tickets_that_end_soon(realm: Kdc) -> None:
    _log_in(realm, "-l", "30m")
    level, what, advice = _check()
    assert (level, "lasts 0 h 2" in what) == (Level.WARN, True), what
    assert "kinit before longer jobs" in advice


def test_keys_that_are_not_aes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The KDC of another realm has them."""
    with kerberos_client.realm(Kerberos(enctypes=("camellia256-cts-cmac",))) as lab:
        enter(lab, tmp_path, monkeypatch)
        level, what, advice = _check(keytab=str(lab.kdc.keytab))
    assert (level, "camellia256-cts-cmac" in what) == (Level.WARN, True), what
    assert "give the server AES keys" in advice


def test_the_doctor_asks_once_for_each_server(kerberos: Lab, realm: Kdc) -> None:
    more = f"&sec=krb5i&keytab={realm.keytab}"
    pool = ",".join(kerberos.path(0, export=name) + more for name in ("export", "secret"))
    found = json.loads(call_harness("doctor", "--json", "--pool", pool).stdout)
    (ticket,) = (one for one in found if "the ticket for " in one["what"])
    assert ticket["level"] == "ok"


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
        run(kinit, timeout=60, env=env).check()
        state = LabState.read(LABS / name)
        assert state is not None
        assert state.processes["kdc"].alive()
        asked = run_harness("lab", "exec", "--id", name, "--", "sh", "-c", "echo $POOL").check()
        assert f"&sec=krb5p&keytab={settings['--keytab']}&principal=alice%40" in asked.stdout
    finally:
        commands.stop(name, every=False)
    assert not state.processes["kdc"].alive()
    assert not Path(settings["--keytab"]).exists()
