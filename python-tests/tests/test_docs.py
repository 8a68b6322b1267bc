# SPDX-License-Identifier: GPL-2.0-only
"""README.md, docs/ and the manual page say what is so."""

from __future__ import annotations

from pathlib import Path

from nfsmulti.paths import ROOT
from nfsmulti.report import picture

DOCS = ROOT / "docs"


def test_pictures_show_the_reference_runs(tmp_path: Path) -> None:
    """A reference run that came later: ./nfsmulti report --picture draws them again."""
    for drawn in picture.write(tmp_path):
        assert drawn.read_bytes() == (DOCS / drawn.name).read_bytes(), drawn.name
