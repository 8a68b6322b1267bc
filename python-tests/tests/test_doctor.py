# SPDX-License-Identifier: GPL-2.0-only
"""The doctor: what it says of real servers, and of what is wrong with them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import run_harness

from nfsmulti.doctor import sockets
from nfsmulti.doctor.finding import Level
from nfsmulti.lab import Lab
from nfsmulti.paths import PYTHON_TESTS

_PORTS = "nfsport=22049&mountport=22050"


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found, as "level what" lines."""

    status: int | None
    findings: list[str]
    remedies: dict[str, str | None]

    def about(self, words: str) -> str:
        """Give the one finding that has these words."""
        (found,) = [finding for finding in self.findings if words in finding]
        return found

    def remedy(self, words: str) -> str:
        """Give the remedy of the finding that has these words."""
        return self.remedies[self.about(words)] or ""


class Doctor:
    """Runs the doctor as a client of the lab."""

    def __init__(self, lab: Lab):
        self._lab = lab

    def __call__(self, pool: str | None = None, *, before: tuple[str, ...] = ()) -> Diagnosis:
        """Examine `pool`; `before` are words that change how the doctor runs."""
        options = ["--pool", pool] if pool is not None else []
        argv = [*before, sys.executable, "-m", "nfsmulti", "doctor", "--json", *options]
        done = self._lab.run(argv, env={"PYTHONPATH": str(PYTHON_TESTS)})
        found = {f"{one['level']} {one['what']}": one["remedy"] for one in json.loads(done.stdout)}
        return Diagnosis(done.status, list(found), found)


@pytest.fixture
def doctor(lab: Lab) -> Doctor:
    return Doctor(lab)


def test_a_sound_machine_and_pool(doctor: Doctor, lab: Lab) -> None:
    found = doctor(lab.pool)
    assert found.about("loads").startswith("ok fio-")
    for number in range(1, 5):
        path = f"10.77.0.{number}:22049:/export"
        assert found.about(f"{path}: NFS v3 and v4 on port 22049").endswith("on port 22050")
        assert found.about(f"{path}: READ up to 1048576 bytes, WRITE up to 1048576")
        assert found.about(f"{path}: uid 0 gid 0 may create files").startswith("ok")
    assert found.about("lead to the same files") == "ok all 4 servers' paths lead to the same files"
    assert found.status == 0
    assert not list(lab.export_dir.glob(".nfsmulti-doctor-*"))


def test_ipv6(doctor: Doctor, lab: Lab) -> None:
    assert doctor(lab.pool6).about("[fd77::1]:22049:/export: uid 0").startswith("ok")


def test_read_only_export(doctor: Doctor, lab: Lab) -> None:
    found = doctor(lab.path(0, export="ro"))
    assert found.about("EROFS").startswith("warn")
    assert found.remedy("EROFS") == "export it read-write"
    assert found.status == 0


def test_squashed_root(doctor: Doctor, lab: Lab) -> None:
    found = doctor(lab.path(0, export="squashed"))
    assert found.about("EACCES").startswith("warn")
    assert "no_root_squash" in found.remedy("EACCES")


def test_reserved_port(doctor: Doctor, lab: Lab) -> None:
    pool = lab.path(0, export="privileged")
    assert doctor(pool).about("wants a reserved port").startswith("ok")
    refused = doctor(pool, before=("setpriv", "--bounding-set=-net_bind_service"))
    assert refused.about("/privileged cannot be used").startswith("fail")
    assert "run as root" in refused.remedy("/privileged cannot be used")
    assert refused.status == 1


def test_wrong_export(doctor: Doctor) -> None:
    found = doctor(f"nfs://10.77.0.1/nowhere?{_PORTS}")
    assert found.about("/nowhere cannot be used").startswith("fail")
    assert found.remedy("/nowhere cannot be used").startswith("the server exports /export, /ro")


def test_paths_that_lead_to_different_files(doctor: Doctor, lab: Lab) -> None:
    found = doctor(f"{lab.path(0)},{lab.path(1, export='small')}")
    assert found.about("other files than on 10.77.0.1:22049:/export").startswith("fail 10.77.0.2")


def test_refused_port(doctor: Doctor) -> None:
    found = doctor("nfs://10.77.0.1/export?nfsport=1&mountport=22050")
    assert found.about("refused").startswith("fail 10.77.0.1:1:/export: no answer on ports 1 (NFS)")


def test_unreachable_host(doctor: Doctor) -> None:
    found = doctor("nfs://10.77.0.99/export")
    assert found.about("10.77.0.99").startswith("fail")
    assert "open port 111" in found.remedy("10.77.0.99").lower()


def test_ports_are_asked_of_rpcbind(doctor: Doctor) -> None:
    assert doctor("nfs://10.77.0.1/export").about("on port 22049, MOUNT").startswith("ok")


def test_malformed_pool(doctor: Doctor) -> None:
    found = doctor("nfs://x,")
    assert found.about("--pool: column 8").startswith("fail")
    assert found.status == 1


def test_directories(doctor: Doctor, tmp_path: Path) -> None:
    found = doctor(f"{tmp_path},{tmp_path}/none")
    assert found.about(f"{tmp_path}: files can be created").startswith("ok")
    assert found.remedy(f"{tmp_path}/none: is no directory") == "mount the export there"


def test_rdma_without_a_device(doctor: Doctor) -> None:
    if Path("/sys/class/infiniband").is_dir() and any(Path("/sys/class/infiniband").iterdir()):
        pytest.skip("this machine has an RDMA device")
    found = doctor("nfs://10.77.0.1/export?proto=rdma")
    assert found.about("has no RDMA device").startswith("fail")


def test_engine_that_is_not_built(lab: Lab, tmp_path: Path) -> None:
    done = run_harness("doctor", env={"NFSMULTI_BUILD_DIR": str(tmp_path)})
    assert done.status == 1
    assert "the engine is not built\n      → ./nfsmulti build" in done.stdout


def test_small_socket_buffers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, limit in (("tcp_rmem", 200_000), ("tcp_wmem", 4 << 20)):
        (tmp_path / name).write_text(f"4096\t16384\t{limit}\n")
    monkeypatch.setattr(sockets, "_SYSCTL", tmp_path)
    monkeypatch.setattr(sockets, "_rate", lambda _: (10**10, " (eth0)"))
    (small,) = sockets.look("a", "10.0.0.1", 0.001)
    assert small.level is Level.WARN
    assert small.what.startswith("a: net.ipv4.tcp_rmem ends at 195 KiB, too small for 10 Gbit/s")
    assert small.remedy == "sysctl -w net.ipv4.tcp_rmem='4096 16384 2500000'"
    (large,) = sockets.look("a", "10.0.0.1", 0.00001)
    assert large.level is Level.OK
