# SPDX-License-Identifier: GPL-2.0-only
"""Options of Kerberos: nobody measures clear text and takes it for Kerberos, by whatever words.

That jobs with other options share no paths is in test_terms.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_helpers import Place, fixture_of_places, refused, said
from scripted_jobs import Client

from nfsmulti.fiorun import Option
from servers.scripted import ScriptedServer

place = fixture_of_places("mount")

_URL = "nfs://127.0.0.1/x?version=4.1"
_OPTIONS: dict[str, Option] = {
    "principal": "me@LAB",
    "keytab": "/etc/hostname",
    "ccache": "KEYRING:persistent:0",
    "server_principal": "nfs@nas.lab",
}
_OF_KERBEROS = "principal=, keytab=, ccache= and server_principal= need Kerberos: give security="


# --- fio's own --section ---


@pytest.mark.parametrize("words", [["--sec=krb5"], ["-sec=krb5p"], ["--sec", "krb5i"]])
def test_sec_that_fio_takes_for_its_own_is_refused(place: Place, words: list[str]) -> None:
    """It stands behind the job's name and before the engine's: fio runs the job."""
    engine, word = f"--ioengine={place.engine.option}", words[-1].partition("=")[2] or words[-1]
    job = [f"--pool={place.pool}", "--rw=write", "--size=64k", "--filename=f"]
    done = place.raw("--name=t", *words, engine, *job)
    assert done.status not in (0, None)
    remedy = f"write --security={word} after --ioengine, or --section={word} if"
    assert f"fio takes --sec={word} for its own --section" in done.stderr + done.stdout
    assert remedy in done.stderr + done.stdout
    assert place.names() == []


def test_words_that_fio_refuses(place: Place) -> None:
    """Before it knows of the engine, and what may be its --section or the engine's."""
    engine, job = f"--ioengine={place.engine.option}", [f"--pool={place.pool}", "--name=t"]
    done = place.raw("--security=krb5", engine, *job)
    assert (done.status, "unrecognized option '--security=krb5'" in done.stderr) == (1, True)
    done = place.raw(engine, "--sec=krb5", *job)
    assert (done.status, "'--sec=krb5' is ambiguous" in done.stderr) == (1, True)


# --- what is refused ---


@pytest.mark.parametrize("word", ["krb5i", "krb5p"])
def test_where_rdma_cannot_have_it(client: Client, server: ScriptedServer, word: str) -> None:
    line = refused(client(server, pool=_URL, security=word, proto="rdma"))
    assert f": security={word}: only krb5 works over RDMA: krb5i and krb5p protect" in line
    line = refused(client(server, pool=f"{_URL}&sec={word}&proto=rdma"))
    assert f": sec={word}: only krb5 works over RDMA: " in line
    assert line.endswith(" use krb5, or proto=tcp")


def test_where_mounts_cannot_have_it(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    line = refused(client(server, pool=f"{tmp_path},{_URL}", security="krb5p"))
    words = "the kernel sets a mount's security: mount with -o"
    assert f"{tmp_path}: security=krb5p: {words}" in line
    words = "and give the option only to other paths (nfs://...?sec=krb5p)"
    assert f" -o sec=krb5p, {words}" in line


@pytest.mark.parametrize("name", _OPTIONS)
def test_options_that_nothing_uses(client: Client, server: ScriptedServer, name: str) -> None:
    """For the job, or for a path that is without it in a pool where another has it."""
    option = {name: _OPTIONS[name]}
    assert f": job: {_OF_KERBEROS}" in refused(client(server, pool=_URL, **option))
    line = refused(client(server, pool=f"{_URL}&sec=sys", security="sys", **option))
    assert f": job: {_OF_KERBEROS}" in line
    mixed = f"{_URL}&{name}={_OPTIONS[name]}&sec=sys,nfs://127.0.0.2/x"
    line = refused(client(server, pool=mixed, security="krb5"))
    assert f": 127.0.0.1:/x: {_OF_KERBEROS}" in line


def test_a_keytab_that_cannot_be_read(
    client: Client, server: ScriptedServer, tmp_path: Path
) -> None:
    missing, there = tmp_path / "missing", tmp_path / "there"
    there.touch()
    words = "No such file or directory: name a file that you may read, or leave it out and use"
    for name in (str(missing), f"FILE:{missing}"):
        line = refused(client(server, pool=_URL, security="krb5", keytab=name))
        assert f": keytab={name}: {words} kinit's tickets" in line
    for name in (str(there), f"FILE:{there}", "MEMORY:none"):
        result = client(server, pool=_URL, security="krb5", keytab=name)
        assert not [line for line in said(result) if "name a file" in line]
