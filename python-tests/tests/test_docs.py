# SPDX-License-Identifier: GPL-2.0-only
"""README.md, docs/ and the manual page say what is so."""

from __future__ import annotations

import shutil
from pathlib import Path

from nfsmulti import optionpages
from nfsmulti.paths import ROOT
from nfsmulti.report import picture

DOCS = ROOT / "docs"


def test_pictures_show_the_reference_runs(tmp_path: Path) -> None:
    """A reference run that came later: ./nfsmulti report --picture draws them again."""
    for drawn in picture.write(tmp_path):
        assert drawn.read_bytes() == (DOCS / drawn.name).read_bytes(), drawn.name


def test_options_are_the_engines(tmp_path: Path) -> None:
    """An option that changed: ./nfsmulti report --options writes page and manual again."""
    for file in (optionpages.PAGE, optionpages.MANUAL):
        shutil.copy(file, tmp_path)
    page, manual = tmp_path / optionpages.PAGE.name, tmp_path / optionpages.MANUAL.name
    for written in optionpages.write(page, manual):
        before = {"options.md": optionpages.PAGE, "nfsmulti.7": optionpages.MANUAL}[written.name]
        assert written.read_text() == before.read_text()


def test_manual_names_every_job_file() -> None:
    manual = optionpages.MANUAL.read_text()
    assert [job.stem for job in ROOT.glob("jobfiles/*.fio") if job.stem not in manual] == []
