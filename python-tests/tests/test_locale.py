# SPDX-License-Identifier: GPL-2.0-only
"""Commands print and write whatever the locale, and where names are not UTF-8."""

import os
from collections.abc import Mapping
from pathlib import Path

from test_frontend import Machine

from nfsmulti.processes import Completed

# Python's own ways out of the locale C are closed.
_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def _frontend(folder: Path, env: Mapping[str, str], *arguments: str) -> Completed:
    machine = Machine(folder)
    machine.program("cmake", "exit 0")  # the engine was built for these tests
    return machine.run(
        *arguments, env={**env, "NFSMULTI_NO_INSTALL": "1", "NFSMULTI_CELL_SECONDS": "0.1"}
    )


def test_doctor_prints_in_any_locale(tmp_path: Path) -> None:
    done = _frontend(tmp_path, _ASCII, "doctor", "--pool=nfs://127.0.0.1:1/export")
    assert (done.stderr, done.status) == ("", 1)
    assert "\n      → " in done.stdout


def test_a_run_reports_on_folders_whose_names_are_not_utf8(tmp_path: Path) -> None:
    mount, results = (tmp_path / os.fsdecode(name) for name in (b"mo\xf6nt", b"r\xe9sults"))
    mount.mkdir()
    words = ["--quick", "--repeat=1", f"--pool={mount}", f"--results={results}"]
    done = _frontend(tmp_path, _ASCII, "run", "oltp", *words)
    assert "/report.html\nNext: " in done.stdout, done.stderr
    (folder,) = (results / "oltp").iterdir()
    assert b"mo\xf6nt" in (folder / "report.md").read_bytes()
