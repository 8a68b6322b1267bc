# SPDX-License-Identifier: GPL-2.0-only
"""Reports of runs: tables and plots beside the published figures."""

from pathlib import Path


def write(folder: Path) -> None:
    """Write report.md, report.html and plots/ beside a run's summary.json. Raises HarnessError."""
    from nfsmulti.report import pages  # which needs the stories, and these need this package

    pages.write(folder)
