# SPDX-License-Identifier: GPL-2.0-only
"""Which security flavors an export takes: by MNT (RFC 1813) or SECINFO (RFC 8881, 18.29, 18.45)."""

import json
from pathlib import Path

import pytest
from conftest import call_harness
from kerberos_client import enter

from nfsmulti import export
from nfsmulti.lab import EXPORT, SECRET, Lab
from nfsmulti.lab.kerberos import KERBEROS_FLAVORS
from servers.record_proxy import Record, RecordProxy, passed
from servers.scripted import Answer, AuthStat, Export, Nfs4, ScriptedServer, Status4, on

_NONE, _SYS, _KRB5, _KRB5P, _UNKNOWN = 0, 1, 390003, 390005, 390009  # pseudo flavors

_KERBEROS = " ".join(KERBEROS_FLAVORS)


# --- what servers list ---


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("path", ["/", "/a", "/a/b"])
def test_what_a_server_lists(version: int, path: str) -> None:
    """Of NFSv4.1 the directory above the export is asked, or the root by itself."""
    listed = Export(path=path, flavors=(_KRB5P, _UNKNOWN, _SYS, _KRB5, _NONE))
    with ScriptedServer(export=listed) as server:
        (found,) = export.info(server.url(version=version))
        asked = [call.procedure for call in server.calls(Nfs4.SECINFO, Nfs4.SECINFO_NO_NAME)]
    assert (found.flavors, found.flavors_error) == (["sys", "krb5", "krb5p", "none"], "")
    by_name = Nfs4.SECINFO_NO_NAME if path == "/" else Nfs4.SECINFO
    assert asked == ([by_name] if version == 4 else [])


@pytest.mark.parametrize("version", [3, 4])
def test_a_list_that_tells_nothing(version: int) -> None:
    with ScriptedServer(export=Export(flavors=(_UNKNOWN,))) as server:
        (found,) = export.info(server.url(version=version))
    assert found.error == ""
    assert found.flavors == ()
    assert found.flavors_error == "the export takes none of sys, krb5, krb5i, krb5p"


def test_a_server_that_is_not_asked_in_vain() -> None:
    """Of one that is out of reach nothing more is said."""
    with ScriptedServer() as server:
        server.refuse()
        (found,) = export.info(server.url(version=4))
    assert found.error
    assert (found.flavors, found.flavors_error) == ((), "")


# --- what the doctor says ---


def _doctor(pool: str) -> tuple[int | None, list[str], str]:
    """Return its status, what it says of the security of a path, and the remedies there."""
    done = call_harness("doctor", "--json", "--pool", pool)
    words = (": takes ", "security flavors", "cannot be used")
    found = [one for one in json.loads(done.stdout) if any(word in one["what"] for word in words)]
    lines = [f"{one['level']} {one['what'].partition(': ')[2]}" for one in found]
    return done.status, lines, " ".join(filter(None, (one["remedy"] for one in found)))


@pytest.fixture
def realm(kerberos: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    return enter(kerberos, tmp_path, monkeypatch)


def _path(lab: Lab, name: str, version: str | None, flavor: str) -> str:
    return f"{lab.path(0, export=name, version=version)}&{_words(lab, flavor)}"


def _words(lab: Lab, flavor: str) -> str:
    """Return a path's arguments for a flavor."""
    more = "" if flavor == "sys" else f"&keytab={lab.kdc.keytab}&principal={lab.kdc.principal}"
    return f"sec={flavor}{more}"


@pytest.mark.parametrize("version", [None, "4.1"])
def test_flavors_of_a_real_server(realm: Lab, version: str | None) -> None:
    """One that it does not take: it is asked by AUTH_SYS all the same, and serves nothing else."""
    status, said, _ = _doctor(_path(realm, EXPORT.name, version, "sys"))
    assert (status, said) == (0, [f"ok takes sys {_KERBEROS}; no TLS"])
    status, said, _ = _doctor(_path(realm, SECRET.name, version, "krb5i"))
    assert (status, said) == (0, [f"ok takes {_KERBEROS}; no TLS"])
    status, (refused, takes), remedies = _doctor(_path(realm, SECRET.name, version, "sys"))
    assert status == 1
    assert refused.startswith("fail cannot be used: ")
    assert takes == f"fail takes {_KERBEROS}, not the pool's sys; no TLS"
    assert f"it takes {_KERBEROS}: name one that it takes by sec= in the path" in remedies


def test_a_server_that_answers_no_auth_sys(realm: Lab) -> None:
    """It is asked by the path's own flavor; of a path without another nothing is guessed."""
    endpoint = realm.server(0).endpoint

    def demanding(call: Record) -> list[bytes]:
        return passed(call) if call.is_gss else call.deny(AuthStat.TOOWEAK)

    with RecordProxy((endpoint.address, endpoint.nfs_port), calls=demanding) as proxy:
        path = f"nfs://{proxy.address}:{proxy.port}/{SECRET.name}?version=4.1"
        _, said, _ = _doctor(f"{path}&{_words(realm, 'krb5p')}")
        status, refused, _ = _doctor(path)
    assert said == [f"ok takes {_KERBEROS}; no TLS"]
    assert status == 1
    (line,) = refused
    assert line.startswith("fail cannot be used: ")
    assert "AUTH_TOOWEAK" in line


def test_what_could_not_be_asked() -> None:
    """SECINFO is refused, and all else is well: no failure."""
    with ScriptedServer(on(Nfs4.SECINFO, Answer(act=False, status=Status4.NOTSUPP))) as server:
        status, (line,), _ = _doctor(server.url(version=4))
    assert status == 0
    assert line.startswith("ok which security flavors it takes was not told (")
    assert "NFS4ERR_NOTSUPP" in line
    assert line.endswith("; no TLS")


def test_a_ticket_that_is_missing_hides_nothing(realm: Lab) -> None:
    """The export is asked without one."""
    status, said, _ = _doctor(f"{realm.path(0, export=SECRET.name, version='4.1')}&sec=krb5")
    assert status == 1
    assert said[-1] == f"ok takes {_KERBEROS}; no TLS"
