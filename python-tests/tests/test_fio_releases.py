# SPDX-License-Identifier: GPL-2.0-only
"""The engine for fio's releases: what is said of headers that it compiles with, or does not."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from conftest import or_skip

from nfsmulti.errors import HarnessError
from nfsmulti.processes import find, run
from strangers import fio_releases


def _git(folder: Path, *words: str) -> None:
    me = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    run(["git", "-C", str(folder), *me, *words], timeout=60).check()


# What stands in a header of this build's fio, and what another release has in its place.
_RELEASES = {
    "3.90": ("options.h", "", ""),
    "3.10": ("ioengines.h", "void (*cleanup)(", "int (*cleanup)("),  # a warning
    "3.9": ("thread_options.h", "log_prio", "other"),
}


@pytest.fixture
def fios(tmp_path: Path) -> Path:
    """Return a repository of releases: this build's headers, and those changed in one place."""
    with or_skip():
        find("git")
    folder = tmp_path / "fios"
    shutil.copytree(fio_releases.headers_of(fio_releases.compilations()[0]), folder)
    _git(folder, "init", "--quiet")
    for version, (name, ours, theirs) in _RELEASES.items():
        text = (folder / name).read_text()
        assert ours in text
        (folder / name).write_text(text.replace(ours, theirs))
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", version)
        _git(folder, "tag", f"fio-{version}")
        (folder / name).write_text(text)
    return folder


@pytest.mark.full
def test_each_release_is_compiled_and_complaints_end_it(
    fios: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fio_releases.main(["--source", str(fios), *_RELEASES], tmp_path / "trees") == 1
    error, warning, fits = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"fio 3\.9: engine/fio/abi\.c:.*error: .*log_prio.*", error)
    assert re.fullmatch(r"fio 3\.10: engine/fio/engine\.c:.*error: .*incompatible.*", warning)
    assert fits == "fio 3.90: compiles without warnings"


def test_a_release_that_is_not_there(fios: Path, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"cannot clone fio-4\.0 from .*/fios: .*fio-4\.0"):
        fio_releases.fetch("4.0", str(fios), tmp_path / "trees")
    with pytest.raises(HarnessError, match="'latest' is not a fio release"):
        fio_releases.main(["latest"])
