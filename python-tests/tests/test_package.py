# SPDX-License-Identifier: GPL-2.0-only
"""The packages of engine and harness, unpacked and not installed, and used by their names.

And further builds: fio's headers are there already, and RDMA's libraries or TLS's may be missing.
"""

import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from conftest import FioRunner, or_skip
from engine_helpers import refused

from jobs import Fio
from nfsmulti.fiorun import Engine, Option
from nfsmulti.paths import BUILD, JOBFILES, PYTHON_TESTS, ROOT, build_dir
from nfsmulti.processes import find, locked, run
from testrun import configuring

pytestmark = pytest.mark.full

_SECONDS = 600.0


# Of the installed harness; the commands that it leaves out need a clone.
_ASKED = """\
from importlib import import_module
from nfsmulti.arguments import COMMANDS
from nfsmulti.fiorun import Engine
from nfsmulti.paths import RESULTS, as_typed, engine_as_typed
print(Engine.built().library, RESULTS, engine_as_typed(), sep="\\n")
print(as_typed("fio --ioengine=external:./build/libnfsmulti.so jobfiles/fsperf.fio"))
for name in COMMANDS.keys() - {"test", "faults", "soak"}:
    print(import_module(COMMANDS[name]["call"].partition(":")[0]).__file__)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make the packages; by name."""
    folder = tmp_path_factory.mktemp("package")
    with or_skip():
        for program in ("dpkg-shlibdeps", "file"):
            find(program)
    with locked(build_dir() / "packing"):
        # The version is that of the commit at the last configuration.
        run(["cmake", str(build_dir())], timeout=_SECONDS).check()
        (build_dir() / "completion").mkdir(exist_ok=True)
        for shell in ("bash", "zsh"):
            words = [sys.executable, "-m", "nfsmulti.arguments.completion", shell]
            made = run(words, timeout=_SECONDS, env={"PYTHONPATH": str(PYTHON_TESTS)}).check()
            (build_dir() / "completion" / shell).write_text(made.stdout)
        packing = ["cpack", "-G", "DEB", "-B", str(folder)]
        run(packing, timeout=_SECONDS, cwd=build_dir()).check()
    return {_control(file, "Package"): file for file in folder.glob("*.deb")}


@pytest.fixture
def unpacked(packages: dict[str, Path], tmp_path: Path) -> Path:
    """Return the folder in which both packages are unpacked."""
    for file in packages.values():
        run(["dpkg-deb", "-x", str(file), str(tmp_path / "root")], timeout=_SECONDS).check()
    return tmp_path / "root"


def _control(package: Path, field: str) -> str:
    return run(["dpkg-deb", "-f", str(package), field], timeout=_SECONDS).check().stdout.strip()


def test_packages_need_the_very_fio_and_each_other(packages: dict[str, Path]) -> None:
    """And a later commit has a later version."""
    asked = ["dpkg-query", "-W", "-f", "${Version}", "fio"]
    fio = run(asked, timeout=_SECONDS).check().stdout
    engine, harness = packages["fio-engine-nfsmulti"], packages["nfsmulti"]
    needs, version = _control(engine, "Depends").split(", "), _control(engine, "Version")
    assert f"fio (= {fio})" in needs
    assert any(need.startswith("libnfs") for need in needs)
    assert _control(harness, "Version") == version
    needs = _control(harness, "Depends").split(", ")
    assert {f"fio-engine-nfsmulti (= {version})", "python3-rich"} <= set(needs)
    asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct", "--", "."]
    if seconds := run(asked, timeout=_SECONDS).stdout:  # this is a checkout
        committed = datetime.fromtimestamp(int(seconds), UTC)
        assert f"+git{committed:%Y%m%d.%H%M%S}+fio" in version


def test_fio_finds_the_engine_by_name(unpacked: Path, tmp_path: Path) -> None:
    (link,) = (file for file in (unpacked / "usr/lib").rglob("nfsmulti") if file.is_symlink())
    env = {"LD_LIBRARY_PATH": str(link.parent)}
    job = ["--name=t", f"--pool={tmp_path}", "--rw=write", "--bs=4k", "--size=64k", "--filename=f"]
    run(["fio", "--ioengine=nfsmulti", *job], timeout=_SECONDS, env=env, cwd=tmp_path).check()
    assert (tmp_path / "f").stat().st_size == 64 * 1024


def test_it_has_programs_jobfiles_and_manual(unpacked: Path) -> None:
    usr = unpacked / "usr"
    for program in ("nfsmulti", "nfsmulti-export", "nfsmulti-pool"):
        run([str(usr / "bin" / program), "--help"], timeout=_SECONDS).check()
    folder = usr / "share/nfsmulti/jobfiles"
    there = {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()}
    assert there == {file.relative_to(JOBFILES) for file in JOBFILES.rglob("*.fio")}
    assert (usr / "share/man/man7/nfsmulti.7.gz").exists()
    assert (usr / "share/bash-completion/completions/nfsmulti").stat().st_size
    assert (usr / "share/zsh/vendor-completions/_nfsmulti").stat().st_size


def test_zsh_completes_where_fio_is_an_rpms(tmp_path: Path) -> None:
    """Debian's zsh alone looks in vendor-completions."""
    rpm = tmp_path / "rpm"
    rpm.write_text("#!/bin/sh\necho 3.41-1.fc43\n")
    rpm.chmod(0o700)
    build = tmp_path / "build"
    run([*configuring(build), f"-DRPM={rpm}", "-DDPKG_QUERY=/bin/false"], timeout=_SECONDS).check()
    installs = (build / "cmake_install.cmake").read_text()
    assert re.findall(r"share/zsh/[\w-]+", installs) == ["share/zsh/site-functions"]


def test_links_of_its_documents_resolve(unpacked: Path) -> None:
    docs = unpacked / "usr/share/doc/fio-engine-nfsmulti/docs"
    pages = list(docs.glob("*.md"))
    assert len(pages) > 10
    for page in pages:
        for target in re.findall(r"\]\(([^)\s#:]+)[)#]", page.read_text()):
            assert (docs / target).exists(), f"{page.name}: {target}"


def test_the_installed_harness_finds_its_modules_engine_and_jobfiles(
    unpacked: Path, tmp_path: Path
) -> None:
    share = unpacked / "usr/share/nfsmulti"
    env = {
        "PYTHONPATH": str(share / "python-tests"),
        "NFSMULTI_STATE_DIR": str(tmp_path / "state"),
        "NFSMULTI_BUILD_DIR": str(share / "build"),
    }
    argv = [sys.executable, "-B", "-c", _ASKED]
    answers = run(argv, timeout=_SECONDS, env=env, cwd=tmp_path).check().stdout.splitlines()
    engine, results, name, to_type, *modules = answers
    assert Path(engine).resolve().is_relative_to(unpacked / "usr/lib")
    assert results == str(tmp_path / "results")
    assert name == "nfsmulti"
    job = share / "jobfiles/fsperf.fio"
    assert to_type == f"fio --ioengine=nfsmulti {job}"
    assert job.exists()
    assert all((share / "build" / name).exists() for name in ("nfs-sink", "nfsmulti-pool"))
    assert all(Path(file).is_relative_to(unpacked) for file in modules)
    assert any(file.endswith("doctor.py") for file in modules)


def test_the_container_is_made_of_what_is_there() -> None:
    lines = (ROOT / "packaging/Containerfile").read_text().splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    sources = {name for names in copies for name in names if not names[0].startswith("--from")}
    assert {"CMakeLists.txt", "engine", "nfsmulti", "python-tests"} <= sources
    assert all((ROOT / name).exists() for name in sources)


# --- further builds ---


@pytest.fixture(scope="module")
def plain_engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder, known = BUILD / "plain", tmp_path_factory.mktemp("packages")
    hidden = {"libibverbs.pc", "librdmacm.pc", "gnutls.pc"}
    asked = ["pkg-config", "--variable", "pc_path", "pkg-config"]
    for place in run(asked, timeout=_SECONDS).check().stdout.strip().split(":"):
        for package in Path(place).glob("*.pc"):
            if package.name not in hidden and not (known / package.name).exists():
                (known / package.name).symlink_to(package)
    env = {"PKG_CONFIG_LIBDIR": str(known)}
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


def test_without_libraries_what_needs_them_is_refused_and_the_rest_works(fio: FioRunner) -> None:
    job: dict[str, Option] = {"rw": "write", "bs": "4k", "size": "64k", "filename": "f"}
    fio.well(**job)
    refusals: list[tuple[dict[str, Option], str]] = [
        ({"proto": "rdma"}, "built without libibverbs and librdmacm"),
        ({"proto": "rdma"}, "apt-get install libibverbs-dev librdmacm-dev"),
        ({"xprtsec": "tls"}, "built without GnuTLS: apt-get install libgnutls28-dev, build again"),
        (
            {"security": "krb5i"},
            "security=krb5i: the engine was built without Kerberos: "
            "apt-get install libkrb5-dev libgnutls28-dev, build again; or use security=sys",
        ),
    ]
    for options, said in refusals:
        refused(fio(pool="nfs://127.0.0.1/x?version=4.1", **job, **options), said)


def test_the_engines_target_makes_what_asks_servers_too(plain_engine: Engine) -> None:
    """And nothing that tests alone need."""
    there = {file.name for file in plain_engine.library.parent.iterdir()}
    assert {"libnfsmulti.so", "nfsmulti-pool", "nfsmulti-export"} <= there
    assert not {"nfsmulti-sim", "nfs-sink", "libnfsmulti-test.so"} & there


def test_configuring_once_more_fetches_and_builds_nothing_anew(tmp_path: Path) -> None:
    """A library's flags are the same each time; else tests lose the engine that they run."""
    if not (build_dir() / "fio-headers").exists():
        pytest.skip("the engine was built with -DFIO_SOURCE_DIR=")
    configure = configuring(tmp_path)
    flags = []
    for _ in range(2):
        run(configure, timeout=_SECONDS, env={"NFSMULTI_NO_INSTALL": "1"}).check()
        flags.append({file: file.read_text() for file in tmp_path.rglob("flags.make")})
    assert not (tmp_path / "fio-headers").exists()
    assert flags[0]
    assert flags[0] == flags[1]


def test_a_lock_file_has_what_is_required() -> None:
    """What is required is changed there, and the lock is made by the command at its head."""
    for name in ("requirements-package", "requirements-harness", "requirements"):
        wanted = (PYTHON_TESTS / f"{name}.txt").read_text()
        for other in re.findall(r"^-r (\S+)", wanted, re.MULTILINE):
            wanted += (PYTHON_TESTS / other).read_text()
        locked = (PYTHON_TESTS / f"{name}.lock").read_text()
        pins = re.findall(r"^\S+==\S+", wanted, re.MULTILINE)
        assert pins
        assert [pin for pin in pins if f"\n{pin} " not in locked] == []
