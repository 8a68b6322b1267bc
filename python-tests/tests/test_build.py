# SPDX-License-Identifier: GPL-2.0-only
"""Further builds: fio's headers are there already, and RDMA's libraries or TLS's may be missing."""

import os
from pathlib import Path

import pytest
from conftest import FioRunner
from engine_helpers import refused

from jobs import Fio
from nfsmulti.fiorun import Engine
from nfsmulti.paths import BUILD, build_dir
from nfsmulti.processes import run
from testrun import configuring

pytestmark = pytest.mark.full

_SECONDS = 600.0
_HIDDEN = {"libibverbs.pc", "librdmacm.pc", "gnutls.pc"}


def _without(folder: Path) -> Path:
    """Return a folder with what pkg-config knows on this machine, but for these."""
    asked = ["pkg-config", "--variable", "pc_path", "pkg-config"]
    for place in run(asked, timeout=_SECONDS).check().stdout.strip().split(":"):
        for package in Path(place).glob("*.pc"):
            link = folder / package.name
            if package.name not in _HIDDEN and not link.exists():
                link.symlink_to(package)
    return folder


@pytest.fixture(scope="module")
def plain_engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = BUILD / "plain"
    env = {"PKG_CONFIG_LIBDIR": str(_without(tmp_path_factory.mktemp("packages")))}
    argv = [*configuring(folder), "--fresh", "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O0"]  # to be quick
    configured = run(argv, timeout=_SECONDS, env=env).check()
    assert "RDMA      no (apt-get install libibverbs-dev librdmacm-dev" in configured.stdout
    assert "TLS       no (apt-get install libgnutls28-dev" in configured.stdout
    make = ["cmake", "--build", str(folder), "--parallel", str(os.cpu_count())]
    run([*make, "--target", "nfsmulti"], timeout=_SECONDS).check()
    return Engine.built(folder)


@pytest.fixture
def fio(plain_engine: Engine, tmp_path: Path) -> FioRunner:
    return FioRunner(Fio(plain_engine), str(tmp_path), tmp_path)


def test_without_them_the_rest_works(fio: FioRunner) -> None:
    fio.well(rw="write", bs="4k", size="64k", filename="f")


def test_without_rdma_a_path_over_it_is_refused(fio: FioRunner) -> None:
    result = fio(pool="nfs://127.0.0.1/x", proto="rdma", rw="write", size="64k", filename="f")
    refused(
        result,
        "built without libibverbs and librdmacm",
        "apt-get install libibverbs-dev librdmacm-dev",
    )


def test_without_gnutls_a_path_over_it_is_refused(fio: FioRunner) -> None:
    pool = "nfs://127.0.0.1/x?version=4.1"
    result = fio(pool=pool, xprtsec="tls", rw="write", size="64k", filename="f")
    refused(result, "built without GnuTLS: apt-get install libgnutls28-dev, build again")


def test_without_its_libraries_a_path_with_kerberos_is_refused(fio: FioRunner) -> None:
    pool = "nfs://127.0.0.1/x?version=4.1"
    result = fio(pool=pool, security="krb5i", rw="write", size="64k", filename="f")
    refused(
        result,
        "security=krb5i: the engine was built without Kerberos: "
        "apt-get install libkrb5-dev libgnutls28-dev, build again; or use security=sys",
    )


def test_the_engines_target_makes_what_asks_servers_too(plain_engine: Engine) -> None:
    """And nothing that tests alone need."""
    there = {file.name for file in plain_engine.library.parent.iterdir()}
    assert {"libnfsmulti.so", "nfsmulti-pool", "nfsmulti-export"} <= there
    assert not {"nfsmulti-sim", "nfs-sink", "libnfsmulti-test.so"} & there


def test_headers_of_fio_are_fetched_once_for_all_builds(tmp_path: Path) -> None:
    if not (build_dir() / "fio-headers").exists():
        pytest.skip("the engine was built with -DFIO_SOURCE_DIR=")
    run(configuring(tmp_path), timeout=_SECONDS, env={"NFSMULTI_NO_INSTALL": "1"}).check()
    assert not (tmp_path / "fio-headers").exists()


def test_configuring_again_builds_nothing_anew(tmp_path: Path) -> None:
    """A library's flags are the same each time; else tests lose the engine that they run."""
    configure = configuring(tmp_path)
    flags = []
    for _ in range(2):
        run(configure, timeout=_SECONDS).check()
        flags.append({file: file.read_text() for file in tmp_path.rglob("flags.make")})
    assert flags[0]
    assert flags[0] == flags[1]
