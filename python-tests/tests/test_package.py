# SPDX-License-Identifier: GPL-2.0-only
"""The package of the engine, unpacked and not installed, and used by its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import missing

from nfsmulti.errors import MissingError
from nfsmulti.paths import JOBFILES, build_dir
from nfsmulti.processes import find, run

pytestmark = pytest.mark.full

_SECONDS = 600.0


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    try:
        for program in ("dpkg-shlibdeps", "file"):
            find(program)
    except MissingError as error:
        missing(error)
    packing = ["cpack", "-G", "DEB", "-B", str(folder)]
    run(packing, timeout=_SECONDS, cwd=build_dir()).check()
    (package,) = folder.glob("*.deb")
    return package


def _control(package: Path, field: str) -> str:
    return run(["dpkg-deb", "-f", str(package), field], timeout=_SECONDS).check().stdout.strip()


def test_it_needs_the_very_fio_that_it_was_built_for(package: Path) -> None:
    asked = ["dpkg-query", "-W", "-f", "${Version}", "fio"]
    version = run(asked, timeout=_SECONDS).check().stdout
    needs = _control(package, "Depends").split(", ")
    assert f"fio (= {version})" in needs
    assert any(need.startswith("libnfs") for need in needs)


def test_fio_finds_the_engine_by_name(package: Path, tmp_path: Path) -> None:
    run(["dpkg-deb", "-x", str(package), str(tmp_path)], timeout=_SECONDS).check()
    (link,) = (file for file in tmp_path.rglob("nfsmulti") if file.is_symlink())
    env = {"LD_LIBRARY_PATH": str(link.parent)}
    job = ["--name=t", f"--pool={tmp_path}", "--rw=write", "--bs=4k", "--size=64k", "--filename=f"]
    run(["fio", "--ioengine=nfsmulti", *job], timeout=_SECONDS, env=env, cwd=tmp_path).check()
    assert (tmp_path / "f").stat().st_size == 64 * 1024


def test_it_has_programs_jobfiles_and_manual(package: Path, tmp_path: Path) -> None:
    run(["dpkg-deb", "-x", str(package), str(tmp_path)], timeout=_SECONDS).check()
    usr = tmp_path / "usr"
    run([str(usr / "bin/nfsmulti-pool"), "--version"], timeout=_SECONDS).check()
    there = {file.name for file in (usr / "share/nfsmulti/jobfiles").iterdir()}
    assert there == {file.name for file in JOBFILES.glob("*.fio")}
    assert (usr / "share/man/man7/nfsmulti.7.gz").exists()
