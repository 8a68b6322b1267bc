# SPDX-License-Identifier: GPL-2.0-only
"""./nfsmulti report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nfsmulti.paths import shown


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs: results/SCENARIO/TIME.")
    ],
) -> None:
    """Make the reports of runs again: report.md, report.html and plots/, out of summary.json.

    The page needs nothing but itself: it can be mailed, and opens without a network.
    """
    from nfsmulti.report.pages import HTML, write  # its libraries take a second to load

    for folder in folders:
        write(folder)
        print(shown((folder / HTML).resolve()))
