# SPDX-License-Identifier: GPL-2.0-only
"""The doctor: what it says of real servers, of what is wrong with them, and of this machine."""

import json
import resource
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import call_harness, in_full, missing, needs_privileges
from kerberos_client import enter

from nfsmulti import doctor, export, machine
from nfsmulti.doctor import joined
from nfsmulti.errors import MissingError
from nfsmulti.export import PathInfo
from nfsmulti.lab import EXPORT, SECRET, Lab, LabConfig
from nfsmulti.lab.kerberos import KERBEROS_FLAVORS
from nfsmulti.machine import Finding, ok, warn
from nfsmulti.paths import PYTHON_TESTS
from nfsmulti.pool import PoolPath, read_pool
from nfsmulti.processes import run
from nfsmulti.report.cells import DISTURBED
from servers.record_proxy import Record, RecordProxy, passed
from servers.scripted import (
    SOUND,
    AcceptStat,
    Answer,
    AuthStat,
    Export,
    Nfs4,
    ScriptedServer,
    Status4,
    Terms,
    accepted,
    on,
)

_PORTS = "nfsport=22049&mountport=22050"


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found, as "level what" lines."""

    status: int | None
    findings: list[str]
    remedies: dict[str, str | None]

    def about(self, words: str) -> str:
        found = [finding for finding in self.findings if words in finding]
        assert len(found) == 1, (words, self.findings)
        return found[0]

    def remedy(self, words: str) -> str:
        return self.remedies[self.about(words)] or ""


# One process examines all pools, and waits for no look at the processors.
_EXAMINE = """\
import json, sys
from conftest import call_harness
from nfsmulti import doctor
doctor.others_busy = float
for pool in sys.argv[1:]:
    done = call_harness("doctor", "--json", "--pool", pool)
    print(json.dumps([done.status, json.loads(done.stdout)]))
"""
_PATHS = {"PYTHONPATH": f"{PYTHON_TESTS}:{PYTHON_TESTS}/tests"}


def _examine(lab: Lab, *pools: str, before: tuple[str, ...] = ()) -> list[Diagnosis]:
    """Examine each pool as a client of the lab; `before` are words that change how that runs."""
    argv = [*before, sys.executable, "-c", _EXAMINE, *pools]
    done = lab.run(argv, env=_PATHS, timeout=240).check()
    return [_diagnosis(*json.loads(line)) for line in done.stdout.splitlines()]


def _examine_here(pool: str) -> Diagnosis:
    done = call_harness("doctor", "--json", "--pool", pool)
    return _diagnosis(done.status, json.loads(done.stdout))


def _diagnosis(status: int | None, findings: list[dict[str, str | None]]) -> Diagnosis:
    remedies = {f"{one['level']} {one['what']}": one["remedy"] for one in findings}
    return Diagnosis(status, list(remedies), remedies)


@pytest.fixture(scope="module")
def diagnoses(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Diagnosis]:
    """Return what the doctor finds of pools, by what each has to show."""
    mount = tmp_path_factory.mktemp("mount")
    pools = {
        "sound": lab.pool,
        "IPv6": lab.pool6,
        "read-only": lab.path(0, export="ro"),
        "squashed": lab.path(0, export="squashed"),
        "privileged": lab.path(0, export="privileged"),
        "privileged 4.1": lab.path(0, export="privileged", version="4.1"),
        "squashed 4.1": lab.path(0, export="squashed", version="4.1"),
        "wrong export 4.1": "nfs://10.77.0.1:22049/nowhere?version=4.1",
        "wrong export": f"nfs://10.77.0.1/nowhere?{_PORTS}",
        "different files": f"{lab.path(0)},{lab.path(1, export='small')}",
        "read-only and another": f"{lab.path(0, export='ro')},{lab.path(1, export='small')}",
        "one directory": f"{mount}",
        "refused port": "nfs://10.77.0.1/export?nfsport=1&mountport=22050",
        "unreachable": "nfs://10.77.0.99/export",
        "rpcbind": "nfs://10.77.0.1/export",
        "malformed": "nfs://x,",
        "unknown name": "nfs://nosuch.invalid/export",
        "no question mark": f"{lab.path(0).partition('?')[0]}&nconnect=4",
        "directories": f"{mount},{mount}/none",
        "RDMA": "nfs://10.77.0.1/export?proto=rdma",
        "NFSv4.1": "nfs://10.77.0.[1-2]:22049/export?version=4.1",
        "NFSv4.1's own port": "nfs://10.77.0.1/export?version=4.1",
    }
    return dict(zip(pools, _examine(lab, *pools.values()), strict=True))


def test_a_sound_machine_and_pool(diagnoses: dict[str, Diagnosis], lab: Lab) -> None:
    found = diagnoses["sound"]
    assert found.about("loads").startswith("ok fio-")
    assert found.about("over TCP").startswith(f"ok all 4 paths: NFS v3 over TCP, {_LIMITS}")
    assert found.about("NFSv4.1") == "ok all 4 paths: the server also offers NFSv4.1 (version=4.1)"
    assert found.about(" GB are free")
    assert found.about("uid 0 gid 0 may create files").startswith("ok 10.77.0.1:22049:/export")
    assert found.about("lead to the same files") == "ok all 4 paths lead to the same files"
    assert len([one for one in found.findings if "TCP buffers" in one or "tcp_" in one]) in (1, 2)
    assert found.status == 0
    assert not list(lab.export_dir.glob(".nfsmulti-doctor-*"))


_LIMITS = "READ up to 1048576 bytes, WRITE up to 1048576; asked from a reserved"
# A pool, words of a finding, how that begins, and what is in its remedy.
_NOT_THE_SAME = "and 10.77.0.2:22049:/small do not lead to the same files"
_FOUND = (
    ("IPv6", "[fd77::1]:22049:/export: uid 0", "ok", ""),
    ("rpcbind", "/export: NFS v3 over TCP", "ok", ""),
    ("privileged", "asked from a reserved port", "ok", ""),
    ("privileged 4.1", "asked from a reserved port", "ok", ""),
    ("one directory", "/mount0: uid 0 gid 0 may create", "ok", ""),
    ("NFSv4.1", "NFSv3", "ok all 2 paths: the server also offers NFSv3 (version=3)", ""),
    ("NFSv4.1", "lead to the same files", "ok all 2 paths lead to the same files", ""),
    ("NFSv4.1", "over TCP", f"ok all 2 paths: NFS v4.1 over TCP, {_LIMITS}", ""),
    ("NFSv4.1's own port", ":/export: cannot be used: cannot connect to port 2049", "fail", ""),
    ("read-only", "NFS3ERR_ROFS", "warn", "export it read-write"),
    ("squashed", "NFS3ERR_ACCES", "warn", "no_root_squash"),
    ("squashed 4.1", "NFS4ERR_ACCESS", "warn", "no_root_squash"),
    ("wrong export 4.1", "/nowhere: cannot be used", "fail", "name an export"),
    ("wrong export", "/nowhere: cannot be used", "fail", "showmount -e 10.77.0.1 lists them"),
    ("different files", _NOT_THE_SAME, "fail 10.77.0.1:22049:/export", ""),
    ("read-only and another", "not checked: whether all paths lead", "warn", "read-write"),
    ("refused port", "port 1: Connection refused", "fail 10.77.0.1:1:/export", "firewall"),
    ("unreachable", "fail 10.77.0.99", "fail", "firewall"),
    ("malformed", "--pool: column 8", "fail", ""),
    ("unknown name", "cannot resolve 'nosuch.invalid'", "fail", "getent ahosts nosuch.invalid"),
    ("no question mark", "&nconnect=4: cannot be used", "fail", "'?' begins a URL's arguments"),
    ("directories", "/none: cannot be used", "fail", "mount the export there"),
    ("directories", "not checked: whether all paths lead", "warn", "mend the paths"),
)


def test_what_is_found_of_a_pool(diagnoses: dict[str, Diagnosis]) -> None:
    for pool, words, begins, remedy in _FOUND:
        found = diagnoses[pool]
        assert found.about(words).startswith(begins), pool
        assert remedy in found.remedy(words), pool
        told = f"{found.about(words)} {found.remedy(words)}"
        assert told.count("is the server up") <= 1, pool
        assert "lists them" not in told or "4.1" not in pool, pool
        assert found.status == (begins.startswith("fail") or pool == "directories"), pool
        assert found.status == any(one.startswith("fail ") for one in found.findings), pool
    # Of these it is known who may write.
    assert diagnoses["read-only and another"].about("not checked").endswith("the same files")


def test_rdma_without_a_device(diagnoses: dict[str, Diagnosis]) -> None:
    if any(Path("/sys/class").glob("infiniband/*")):
        pytest.skip("this machine has an RDMA device")
    assert diagnoses["RDMA"].about("the pool has proto=rdma, and").startswith("fail")


def test_reserved_port(lab: Lab) -> None:
    """Tried wherever this user may bind one; elsewhere the remedy names it."""
    pools = [lab.path(0, export="privileged", version=version) for version in (None, "4.1")]
    without = ("setpriv", "--bounding-set=-net_bind_service")
    for refused in _examine(lab, *pools, before=without):
        assert refused.about("/privileged: cannot be used").startswith("fail")
        assert "reserved source port" in refused.remedy("/privileged: cannot be used")
        assert refused.status == 1


_NONE_THERE = Answer(act=False, rpc=accepted(AcceptStat.PROG_UNAVAIL))


@pytest.mark.parametrize(
    ("version", "minors", "answer", "level", "words", "remedy"),
    [
        (3, (), SOUND, "ok", "the server does not offer NFSv4.1", ""),
        (3, (2,), SOUND, "ok", "the server does not offer NFSv4.1", ""),
        (3, (1,), SOUND, "ok", "the server also offers NFSv4.1 (version=4.1)", ""),
        (4, (), SOUND, "fail", "NFS versions 3 to 3, not 4", "choose another version="),
        (4, (2,), SOUND, "fail", "does not serve this minor version", "choose another version="),
        (4, (1,), _NONE_THERE, "fail", "the server does not offer NFS on this port", ""),
    ],
)
def test_which_versions_a_server_has(
    version: int, minors: tuple[int, ...], answer: Answer, level: str, words: str, remedy: str
) -> None:
    with ScriptedServer(on(tuple(Nfs4), answer), terms=Terms(minors=minors)) as server:
        found = _examine_here(server.url(version=version))
    assert found.about(words).startswith(f"{level} 127.0.0.1:{server.nfs_port}:/export: ")
    assert remedy in found.remedy(words)
    assert found.status == (level == "fail")


def test_what_holds_for_some_paths_is_said_once_with_their_labels() -> None:
    findings = [ok("a: fast"), ok("b: slow"), ok("c: fast"), warn("c: full", "x"), ok("idle")]
    assert list(joined(findings, ["a", "b", "c"])) == [
        ok("a, c: fast"), ok("b: slow"), warn("c: full", "x"), ok("idle"),
    ]  # fmt: skip


_TB = 1 << 40


@pytest.mark.parametrize(
    ("told", "levels", "remedy"),
    [
        ({"read_max": 0}, "warn ok", "takes 0 for no limit"),
        ({"write_max": 0}, "warn ok", "takes 0 for no limit"),
        ({"read_max": 32767}, "warn ok", "split into several calls"),
        ({"write_max": 32767}, "warn ok", "split into several calls"),
        ({"read_max": 32768, "write_max": 32768}, "ok ok", ""),
        ({"may_write": True}, "ok ok", ""),
        ({"may_write": False}, "ok warn ok", "export it read-write"),
        ({"bytes_available": 0, "bytes_total": _TB}, "ok warn", "make room"),
        ({"bytes_available": (4 << 30) - 1, "bytes_total": _TB}, "ok warn", "make room"),
        ({"bytes_available": 4 << 30, "bytes_total": _TB}, "ok ok", ""),
    ],
)
def test_what_a_path_offers_is_judged(told: dict[str, Any], levels: str, remedy: str) -> None:
    """What was not told is no lack. Of a mount no limits of calls are told."""
    offer = PathInfo("a", "3", "tcp", **{"read_max": 1 << 20, "write_max": 1 << 20, **told})
    found = [*doctor._offer(PoolPath("nfs://a/b"), offer)]
    assert " ".join(one.level for one in found) == levels
    assert remedy in " ".join(one.remedy or "" for one in found)
    assert any(one.remedy for one in found) == bool(remedy)
    assert [*doctor._offer(PoolPath("nfs://a/b", dir="/m"), offer)] == found[1:]


def test_engine_that_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSMULTI_BUILD_DIR", str(tmp_path))
    done = call_harness("doctor")
    assert done.status == 1
    assert "the engine is not built\n      → ./nfsmulti build" in done.stdout


def test_buffers_are_judged_by_the_longest_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not what the kernel did not measure; nor for the worse where the machine is busy.

    It is when the doctor begins, or only when it has connected.
    """
    for name, limit in (("tcp_rmem", 200_000), ("tcp_wmem", 4 << 20)):
        (tmp_path / name).write_text(f"4096\t16384\t{limit}\n")
    monkeypatch.setattr(machine, "_SYSCTL", tmp_path)
    monkeypatch.setattr(machine, "device", lambda _: ("eth0", 10**10))

    def judged(trips: dict[str, float], before: float = 0, after: float = 0) -> list[Finding]:
        monkeypatch.setattr(doctor, "others_busy", lambda: after)
        return [*doctor._buffers(trips, before)]

    far, near = {"10.0.0.1": 0.001, "10.0.0.2": 0.0001}, {"10.0.0.1": 0.00001}
    what = "net.ipv4.tcp_rmem allows at most 195 KiB, too small for 10 Gbit/s (eth0) x 1 ms"
    remedy = "sysctl -w net.ipv4.tcp_rmem='4096 16384 2500000'"
    assert judged(far) == [warn(f"{what} round trip to 10.0.0.1", remedy)]
    enough = "195 KiB and 4096 KiB, enough for 10 Gbit/s (eth0) x 0.01 ms round trip to 10.0.0.1"
    for busy in ((0.0, 0.0), (DISTURBED, 0.0), (0.0, DISTURBED)):
        assert judged(near, *busy) == [ok(f"TCP buffers grow to {enough}")]
        if any(busy):
            assert judged(far, *busy) == [ok("TCP buffers: not judged: the machine is busy")]
    assert not judged({"10.0.0.1": (2**32 - 1) / 1e6}, DISTURBED)


def test_a_round_trip_is_the_least_of_several_by_the_kernels_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What else a busy machine does falls on this process, and on some connections."""
    microseconds = iter((49_000, 700, 120, 800, 49_000))

    class Measured(socket.socket):
        def getsockopt(self, *words: Any) -> Any:
            found: Any = super().getsockopt(*words)
            if words[:2] != (socket.IPPROTO_TCP, socket.TCP_INFO):
                return found
            assert 0 < int.from_bytes(found[148:], sys.byteorder) < 5_000_000
            return found[:148] + next(microseconds).to_bytes(4, sys.byteorder)

    monkeypatch.setattr("socket.socket", Measured)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        (path,) = read_pool(f"nfs://127.0.0.1:{listening.getsockname()[1]}/export?version=4.1")
        assert doctor._round_trip(path) == 120e-6
    assert doctor._round_trip(path) is None


def test_a_machine_is_busy_only_if_it_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nfsmulti.doctor.processors", lambda: 2)
    for looks, line in (
        ((0.04,), "ok    2 processors, 4% busy now\n"),
        ((0.9, 0.04), "ok    2 processors, 4% busy now\n"),
        ((0.9, 0.8, 0.5), "warn  2 processors, 50%"),
    ):
        left = iter(looks)
        monkeypatch.setattr(doctor, "others_busy", lambda left=left: next(left))
        assert line in call_harness("doctor").stdout
        assert not [*left]


@pytest.mark.parametrize("version", ["4.1", in_full("3")])
def test_a_port_that_accepts_and_stays_silent(version: str) -> None:
    """Not a firewall's doing, whose ports accept nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        mount = f"mountport={port}" if version == "3" else f"version={version}"
        found = _examine_here(f"nfs://127.0.0.1:{port}/export?{mount}&soft&timeo=1&retrans=0")
    assert "accepts connections and stays silent" in found.remedy("cannot be used")


def test_the_last_line_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    one = machine.warn("slow", "less"), machine.fail("broken", "mend it")
    for found, line in (
        ((), "nothing stands in the way"),
        (one[:1], "1 warning"),
        ((one[0], *one), "2 warnings, 1 failure"),
    ):
        monkeypatch.setattr("nfsmulti.doctor._findings", lambda _, found=found: found)
        assert call_harness("doctor").stdout.splitlines()[-1] == line


def test_links_tell_what_they_carry_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = {"a": ("eth0", 10**10), "b": ("eth1", 10**9), "c": None}
    monkeypatch.setattr(machine, "device", devices.get)
    (told,) = machine.capacity(["a", "a", "b"])
    assert "(eth0: 10 Gbit/s and eth1: 1 Gbit/s) carry 1,375 MB/s at most" in told.what
    (untold,) = machine.capacity(["a", "c"])
    assert untold.what.startswith("link speed unknown (virtual or loopback")
    assert not list(machine.capacity([]))


@pytest.mark.parametrize(
    ("speed", "rate"), [("25000\n", 25 * 10**9), ("-1\n", None), ("0\n", None)]
)
def test_a_device_may_not_know_its_rate(
    speed: str, rate: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bit/s, of Mbit/s; a virtual machine's often tells -1."""
    monkeypatch.setattr(Path, "read_text", lambda _: speed)
    assert machine.device("127.0.0.1") == (("lo", rate) if rate else None)


@pytest.mark.parametrize(
    ("soft", "hard", "remedy"),
    [
        (1024, 1024, None),
        (1023, 1024, "ulimit -n 1024"),
        (256, resource.RLIM_INFINITY, "ulimit -n 1024"),
        (256, 1023, "raise 'nofile' in /etc/security/limits.conf"),
    ],
)
def test_who_may_open_few_files_is_told_what_allows_more(
    soft: int, hard: int, remedy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    found = machine._files()
    assert found.what.startswith(f"{soft} open files")
    assert found.remedy == remedy


@pytest.mark.parametrize(
    ("state", "locked", "levels"),
    [
        ("4: ACTIVE", resource.RLIM_INFINITY, "ok"),
        ("1: DOWN", resource.RLIM_INFINITY, "warn"),
        ("4: ACTIVE", 64 << 10, "ok warn"),
        ("", 64 << 10, "fail"),
    ],
)
def test_an_rdma_device_needs_its_link_and_memory_that_may_be_locked(
    state: str, locked: int, levels: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port = tmp_path / "sys/class/infiniband/rxe0/ports/1"
    for file, text in (
        (port / "state", state),
        (port / "link_layer", "Ethernet"),
        (tmp_path / "dev/infiniband/uverbs0", ""),
        (tmp_path / "nfsmulti-rdma", ""),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    if not state:
        shutil.rmtree(port)
    monkeypatch.setattr(machine, "build_dir", lambda: tmp_path)
    monkeypatch.setattr(machine, "Path", lambda name: tmp_path / name.strip("/"))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (locked, locked))
    assert " ".join(one.level for one in machine.rdma_devices(wanted=True)) == levels


# --- which security flavors an export takes ---

# By MNT (RFC 1813) or SECINFO (RFC 8881, 18.29, 18.45); pseudo flavors.
_NONE, _SYS, _KRB5, _KRB5P, _UNKNOWN = 0, 1, 390003, 390005, 390009

_KERBEROS = " ".join(KERBEROS_FLAVORS)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("path", ["/", "/a", "/a/b"])
def test_what_a_server_lists(version: int, path: str) -> None:
    """Of NFSv4.1 the directory above the export is asked, or the root by itself.

    One that is out of reach is not asked.
    """
    lists = (
        ((_KRB5P, _UNKNOWN, _SYS, _KRB5, _NONE), ["sys", "krb5", "krb5p", "none"], ""),
        ((_UNKNOWN,), (), "the export takes none of sys, krb5, krb5i, krb5p"),
    )
    for listed, flavors, error in lists:
        with ScriptedServer(export=Export(path=path, flavors=listed)) as server:
            (found,) = export.info(server.url(version=version))
            asked = [call.procedure for call in server.calls(Nfs4.SECINFO, Nfs4.SECINFO_NO_NAME)]
            server.refuse()
            (gone,) = export.info(server.url(version=version))
        assert (found.error, found.flavors, found.flavors_error) == ("", flavors, error)
        by_name = Nfs4.SECINFO_NO_NAME if path == "/" else Nfs4.SECINFO
        assert asked == ([by_name] if version == 4 else [])
        assert gone.error
        assert (gone.flavors, gone.flavors_error) == ((), "")


@pytest.fixture
def realm(kerberos: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    return enter(kerberos, tmp_path, monkeypatch)


def _words(lab: Lab, flavor: str) -> str:
    """Return a path's arguments for a flavor."""
    more = "" if flavor == "sys" else f"&keytab={lab.kdc.keytab}&principal={lab.kdc.principal}"
    return f"sec={flavor}{more}"


@pytest.mark.parametrize("version", [None, "4.1"])
def test_flavors_of_a_real_server(realm: Lab, version: str | None) -> None:
    """One that it does not take: it is asked by AUTH_SYS all the same, and serves nothing else."""

    def examine(name: str, flavor: str) -> Diagnosis:
        path = realm.path(0, export=name, version=version)
        return _examine_here(f"{path}&{_words(realm, flavor)}")

    for name, flavor, takes in (
        (EXPORT.name, "sys", f"sys {_KERBEROS}"),
        (SECRET.name, "krb5i", _KERBEROS),
    ):
        found = examine(name, flavor)
        assert found.about(": takes ").endswith(f": takes {takes}; no TLS")
        assert found.status == 0
    found = examine(SECRET.name, "sys")
    assert found.status == 1
    assert found.about(": takes ").startswith("fail ")
    assert found.about(": takes ").endswith(f": takes {_KERBEROS}, not the pool's sys; no TLS")
    remedy = f"it takes {_KERBEROS}: name one that it takes by sec= in the path"
    assert remedy in found.remedy("cannot be used")


def test_a_server_that_answers_no_auth_sys(realm: Lab) -> None:
    """It is asked by the path's own flavor; of a path without another nothing is guessed."""
    endpoint = realm.server(0).endpoint

    def demanding(call: Record) -> list[bytes]:
        return passed(call) if call.gss_procedure is not None else call.deny(AuthStat.TOOWEAK)

    with RecordProxy((endpoint.address, endpoint.nfs_port), calls=demanding) as proxy:
        path = f"nfs://{proxy.address}:{proxy.port}/{SECRET.name}?version=4.1"
        taken, refused = (_examine_here(one) for one in (f"{path}&{_words(realm, 'krb5p')}", path))
    assert taken.about(": takes ").endswith(f": takes {_KERBEROS}; no TLS")
    assert "AUTH_TOOWEAK" in refused.about("cannot be used")
    assert not [one for one in refused.findings if ": takes " in one]
    assert refused.status == 1


def test_what_could_not_be_asked() -> None:
    """SECINFO is refused, and all else is well: no failure."""
    with ScriptedServer(on(Nfs4.SECINFO, Answer(act=False, status=Status4.NOTSUPP))) as server:
        found = _examine_here(server.url(version=4))
    told = found.about(": which security flavors it takes was not told (")
    assert told.startswith("ok ")
    assert "NFS4ERR_NOTSUPP" in told
    assert told.endswith("; no TLS")
    assert found.status == 0


def test_an_export_that_takes_auth_none_takes_any_flavor() -> None:
    with ScriptedServer(export=Export(flavors=(_NONE,))) as server:
        found = _examine_here(server.url())
    assert (found.about(": takes ").split(": ")[-1], found.status) == ("takes none; no TLS", 0)


def test_what_is_wrong_with_tickets_is_told(realm: Lab) -> None:
    """In the engine's words, which say what to do. It hides nothing: all else is asked without."""
    path = realm.path(0, export=SECRET.name, version="4.1")
    found = _examine_here(f"{path}&sec=krb5p")
    assert "No credentials cache found" in found.about("cannot be used")
    assert "run kinit, or give keytab= and principal=" in found.about("cannot be used")
    assert found.about(": takes ").endswith(f": takes {_KERBEROS}; no TLS")
    assert found.status == 1


# --- what this machine lacks ---

_SECONDS = 60.0


def test_libnfs_is_the_one_that_the_engine_loads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def link(name: str, *words: str) -> None:
        run(["gcc", "-shared", *words, "-o", name], timeout=_SECONDS, cwd=tmp_path).check()

    link("libnfs.so.99.1", "-Wl,-soname,libnfs.so.99")
    (tmp_path / "libnfs.so.99").symlink_to("libnfs.so.99.1")
    link("libnfsmulti.so", "-Wl,--no-as-needed,-rpath,$ORIGIN", "libnfs.so.99")
    monkeypatch.setenv("NFSMULTI_BUILD_DIR", str(tmp_path))
    assert machine.versions()["libnfs"] == "libnfs.so.99.1"
    (tmp_path / "libnfs.so.99").unlink()
    assert machine.versions()["libnfs"] == "not found"


def test_what_a_lab_lacks_is_named() -> None:
    needs_privileges()
    user = ["--reuid=65534", "--regid=65534", "--clear-groups"]
    caps = ["--inh-caps=-all", "--bounding-set=-sys_admin"]
    for words, named in (
        (["setpriv", *caps], "no CAP_SYS_ADMIN"),
        (["setpriv", caps[0], "--bounding-set=-net_admin"], "no CAP_NET_ADMIN"),
        (["setpriv", caps[0], f"{caps[1]},-net_admin"], "no CAP_SYS_ADMIN and CAP_NET_ADMIN"),
        (["setpriv", *user], "not root"),
        (["unshare", "-r"], machine.ALONE),
    ):
        if run([*words, "true"], timeout=_SECONDS).status:
            missing(MissingError("no user namespaces"))
        # By its text, which another user may be kept from reading.
        script = machine.PRIVILEGES.read_text()
        found = run([*words, "sh"], timeout=_SECONDS, stdin=script).check().stdout
        assert found == f"{named}\n", words


def test_a_lab_says_what_is_missing_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "missing_privileges", lambda: "no CAP_NET_ADMIN")
    lab = Lab(LabConfig(1))
    with pytest.raises(MissingError, match="not permitted here: no CAP_NET_ADMIN"):
        lab.start()
    assert not lab.folder.exists()
